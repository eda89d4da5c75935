// SPDX-License-Identifier: Apache-2.0
/*
 * Whether a file holds BEAM, Erlang's virtual machine. What counts are constants that it has for debuggers, and variables and
 * functions that it exports for its extensions (NIFs), also stripped ones.
 *
 * Two variables are not exported, and are read from the code of functions that are:
 *
 *   erts_init_ranges()	       clears the tables of modules: 3 structs of 4 words, one behind the other
 *   erts_get_scheduler_data()   begins with mov key(%rip), %edi
 *
 * The size of all tables, which erts_init_ranges() clears as well and erts_ranges_sz() returns, is told apart by the latter.
 *
 * Layouts, from the headers of each release for x86-64. 27 has put what it needs to count covered lines into the header of a
 * module.
 */
#include "runtime/beam.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "elf/elf_symbols.h"
#include "runtime/loop.h"

#define CODE_BYTES  192u
#define SLOTS_MAX   40u
#define TABLE_WORDS 12u

enum name {
	NAME_RELEASE,
	NAME_VERSION,
	NAME_COMPILER,
	NAME_INDEX,
	NAME_ATOMS,
	NAME_EXIT,
	NAME_INIT,
	NAME_SIZE,
	NAME_DATA,
	NAMES
};

static const char *const names[NAMES] = {
	[NAME_RELEASE] = "etp_otp_release",	[NAME_VERSION] = "etp_erts_version", [NAME_COMPILER] = "etp_beamasm",
	[NAME_INDEX] = "the_active_code_index", [NAME_ATOMS] = "erts_atom_table",    [NAME_EXIT] = "beam_normal_exit",
	[NAME_INIT] = "erts_init_ranges",	[NAME_SIZE] = "erts_ranges_sz",	     [NAME_DATA] = "erts_get_scheduler_data",
};

static const struct {
	uint32_t release;
	struct beam_layout layout;
} layouts[] = {
	{25, {72, 96, 168, true}},
	{26, {72, 96, 168, false}},
	{27, {72, 136, 168, true}},
};

bool beam_layout_of(uint32_t release, struct beam_layout *ret)
{
	for (size_t i = 0; i < sizeof(layouts) / sizeof(layouts[0]); i++) {
		if (layouts[i].release != release)
			continue;
		*ret = layouts[i].layout;
		return true;
	}
	return false;
}

/* ---- code ---- */

/* Where an instruction of `len` bytes at `at` refers to, by the 4 bytes from `number` on. */
static uint64_t target_of(const uint8_t *code, uint64_t at, size_t number, size_t len)
{
	int32_t distance;

	memcpy(&distance, code + number, sizeof(distance));
	return at + len + (uint64_t)(int64_t)distance;
}

static int compare_addresses(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

/* The words that the function clears: movq $0, word(%rip), or two of them by movups or movaps of %xmm0. */
static size_t find_cleared(struct elf_file *file, uint64_t function, uint64_t slots[static SLOTS_MAX])
{
	uint8_t code[CODE_BYTES];
	size_t len = loop_read_function(file, function, code, sizeof(code)), count = 0;

	for (size_t i = 0; i + 11 <= len && count + 2 <= SLOTS_MAX; i++) {
		if (memcmp(code + i, "\x48\xc7\x05", 3) == 0 && memcmp(code + i + 7, "\0\0\0\0", 4) == 0) {
			slots[count++] = target_of(code + i, function + i, 3, 11);
		} else if (code[i] == 0x0f && (code[i + 1] == 0x11 || code[i + 1] == 0x29) && code[i + 2] == 0x05) {
			slots[count++] = target_of(code + i, function + i, 3, 7);
			slots[count] = slots[count - 1] + 8;
			count++;
		}
	}
	qsort(slots, count, sizeof(slots[0]), compare_addresses);
	return count;
}

/* Words in a row that are cleared, but for the one that has the size. 0 = there are none, or several. */
static uint64_t find_ranges(struct elf_file *file, uint64_t function, uint64_t size_function)
{
	uint64_t slots[SLOTS_MAX], found = 0, size = 0;
	uint8_t code[CODE_BYTES];
	size_t count = find_cleared(file, function, slots), run = 0;

	if (loop_read_function(file, size_function, code, sizeof(code)) && memcmp(code, "\x48\x8b\x05", 3) == 0)
		size = target_of(code, size_function, 3, 7);
	for (size_t i = 0; i < count; i++) {
		bool goes_on = run && slots[i] == slots[i - 1] + 8;
		run = slots[i] == size ? 0 : goes_on ? run + 1 : 1;
		if (run > TABLE_WORDS || (run == TABLE_WORDS && found))
			return 0;
		if (run == TABLE_WORDS)
			found = slots[i] - (uint64_t)(TABLE_WORDS - 1) * 8;
	}
	return found;
}

static uint64_t find_key(struct elf_file *file, uint64_t function)
{
	uint8_t code[CODE_BYTES];

	if (!loop_read_function(file, function, code, sizeof(code)) || memcmp(code, "\x8b\x3d", 2) != 0)
		return 0;
	return target_of(code, function, 2, 6);
}

/* ---- */

static uint32_t find_release(struct elf_file *file, uint64_t address)
{
	char text[4] = "";

	if (loop_read(file, address, text, 3) < 0 || text[0] < '1' || text[0] > '9' || text[1] < '0' || text[1] > '9' ||
	    text[2])
		return 0;
	return (uint32_t)(text[0] - '0') * 10 + (uint32_t)(text[1] - '0');
}

static int find_parts(struct elf_file *file, const struct elf_named *found, struct beam_build *build, struct error *err)
{
	uint32_t has_compiler = 0;

	build->release = find_release(file, found[NAME_RELEASE].address);
	if (!build->release)
		return error_set(err, -ENOTSUP, "Erlang whose release is not in the file");
	if (loop_read(file, found[NAME_VERSION].address, build->version, sizeof(build->version) - 1) < 0)
		build->version[0] = 0;
	for (size_t i = 0; build->version[i]; i++)
		if (build->version[i] < ' ' || build->version[i] > '~')
			build->version[i] = 0;
	if (!found[NAME_COMPILER].address || loop_read(file, found[NAME_COMPILER].address, &has_compiler, 4) < 0 ||
	    !has_compiler)
		return error_set(err, -ENOTSUP, "Erlang/OTP %u without its compiler (BeamAsm), which is not read",
				 build->release);
	if (!beam_layout_of(build->release, &build->layout))
		return error_set(err, -ENOTSUP, "Erlang/OTP %u, which is not known", build->release);
	build->index = found[NAME_INDEX].address;
	build->atoms = found[NAME_ATOMS].address;
	build->normal_exit = found[NAME_EXIT].address;
	build->ranges = find_ranges(file, found[NAME_INIT].address, found[NAME_SIZE].address);
	build->key = find_key(file, found[NAME_DATA].address);
	if (!build->atoms || !build->normal_exit || !build->ranges || !build->key)
		return error_set(err, -ENOTSUP, "Erlang/OTP %u whose %s not found", build->release,
				 !build->atoms	       ? "table of atoms is"
				 : !build->normal_exit ? "code is"
				 : !build->ranges      ? "table of modules is"
						       : "threads' data are");
	return 0;
}

int beam_recognize(struct elf_file *file, struct beam_build *ret, struct error *err)
{
	struct elf_named found[NAMES] = {0};
	struct loop_code any = {0};

	*ret = (struct beam_build){0};
	for (size_t i = 0; i < NAMES; i++)
		found[i].name = names[i];
	int r = elf_named_find(file, found, NAMES, err);
	if (r < 0)
		return r;
	if (!found[NAME_RELEASE].address || !found[NAME_INDEX].address)
		return 0;
	if (!file->is_64)
		return error_set(err, -ENOTSUP, "Erlang for a 32-bit machine");
	r = find_parts(file, found, ret, err);
	if (r == 0)
		r = loop_find_any(file, "Erlang", &any, err);
	ret->code = any.start; /* a place by which its mapping is found */
	ret->offset = any.offset;
	return r < 0 ? r : 1;
}
