// SPDX-License-Identifier: Apache-2.0
/*
 * Whether a file holds Ruby's interpreter: the library, or a program that it is linked into. What counts is the constant with
 * the version, and functions that all builds export for extensions, also stripped ones.
 *
 * What is not exported is read from the code of functions that are:
 *
 *   rb_profile_frames()   begins with the context of the thread: lea {module, offset}(%rip), %rdi; call __tls_get_addr, in a
 *			   library; mov %fs:offset, in an executable
 *   rb_id2str()	   compares with the last operator, and jumps to what compares with the number of identifiers, the first
 *			   member of the struct that has their names
 *
 * Layouts, from the code of Debian's builds of 2.7, 3.1 and 3.3 (rb_iseq_label() and others return members, and so tell where
 * those are).
 */
#include "runtime/ruby.h"

#include <errno.h>
#include <string.h>

#include "elf/elf_symbols.h"
#include "runtime/loop.h"

#define CODE_BYTES 192u

enum name { NAME_VERSION, NAME_LOOP, NAME_VARIABLE, NAME_STORAGE, NAME_NAMES, NAME_COLD, NAMES };

static const char *const names[NAMES] = {
	[NAME_VERSION] = "ruby_api_version",
	[NAME_LOOP] = "rb_vm_exec",
	[NAME_VARIABLE] = "ruby_current_execution_context_ptr", /* before 3.0 */
	[NAME_STORAGE] = "rb_profile_frames",
	[NAME_NAMES] = "rb_id2str",
	[NAME_COLD] = "rb_vm_exec.cold",
};

struct version_layout {
	uint32_t version;
	uint32_t frame_bytes, body_lines, entry_bytes;
	bool has_long_texts, is_tested;
};

static const struct version_layout layouts[] = {
	{0x0207, 56, 120, 8, false, true},  {0x0300, 56, 120, 8, false, false}, {0x0301, 64, 120, 12, false, true},
	{0x0302, 56, 112, 12, true, false}, {0x0303, 56, 112, 12, true, true},
};
#define CONTEXT_NATIVE 152u /* machine.stack_start in 2.7's context */

bool ruby_layout_of(uint32_t version, struct ruby_layout *ret)
{
	for (size_t i = 0; i < sizeof(layouts) / sizeof(layouts[0]); i++) {
		const struct version_layout *layout = &layouts[i];
		if (layout->version != version)
			continue;
		*ret = (struct ruby_layout){
			.walk = {.listed = {.kind = RUNTIME_KIND_RUBY},
				 .context_native = CONTEXT_NATIVE,
				 .frame_bytes = layout->frame_bytes},
			.body_lines = layout->body_lines,
			.entry_bytes = layout->entry_bytes,
			.has_long_texts = layout->has_long_texts,
			.is_tested = layout->is_tested,
		};
		return true;
	}
	return false;
}

/* ---- code ---- */

static int32_t number_at(const uint8_t *code)
{
	int32_t number;

	memcpy(&number, code, sizeof(number));
	return number;
}

/* Where the context is in the thread's storage. */
static bool find_storage(struct elf_file *file, uint64_t function, struct ruby_build *build)
{
	uint8_t code[CODE_BYTES];
	size_t len = loop_read_function(file, function, code, sizeof(code));

	for (size_t i = 0; i + 9 <= len; i++) {
		/* data16 lea index(%rip), %rdi: no other instruction has the prefix. */
		if (memcmp(code + i, "\x66\x48\x8d\x3d", 4) == 0) {
			build->storage_index = function + i + 8 + (uint64_t)(int64_t)number_at(code + i + 4);
			return true;
		}
		/* mov %fs:offset, %reg; the stack's canary has a positive offset. */
		if (code[i] == 0x64 && (code[i + 1] & 0xfb) == 0x48 && code[i + 2] == 0x8b && (code[i + 3] & 0xc7) == 0x04 &&
		    code[i + 4] == 0x25 && number_at(code + i + 5) < 0) {
			build->storage_offset = number_at(code + i + 5);
			return true;
		}
	}
	return false;
}

/* cmp number(%rip), %edi, or the other way round: where the number is; 0 = there is none. */
static uint64_t find_compared(const uint8_t *code, size_t len, uint64_t address)
{
	for (size_t i = 0; i + 6 <= len; i++)
		if ((code[i] == 0x39 || code[i] == 0x3b) && code[i + 1] == 0x3d)
			return address + i + 6 + (uint64_t)(int64_t)number_at(code + i + 2);
	return 0;
}

static void find_symbols(struct elf_file *file, uint64_t function, struct ruby_build *build)
{
	uint8_t code[CODE_BYTES], inner[CODE_BYTES];
	size_t len = loop_read_function(file, function, code, sizeof(code)), last = 0, end = 0;

	for (size_t i = 0; i + 7 <= len && i < 32 && !last; i++)
		if (memcmp(code + i, "\x48\x81\xff", 3) == 0) /* cmp $last, %rdi */
			last = i;
	if (!last)
		return;
	for (size_t i = last; i + 5 <= len && i < last + 48 && !end; i++)
		if (code[i] == 0xe9) /* jmp */
			end = i;
	if (!end)
		return;
	uint64_t target = function + end + 5 + (uint64_t)(int64_t)number_at(code + end + 1);
	build->symbols = find_compared(code, end, function);
	if (!build->symbols)
		build->symbols = find_compared(inner, loop_read_function(file, target, inner, sizeof(inner)), target);
	build->last_operator = (uint32_t)number_at(code + last + 3);
}

/* ---- */

/* All of the code, if the function that runs it is not known. */
static int find_code(struct elf_file *file, struct ruby_build *build, struct error *err)
{
	struct loop_code any = {0};
	int r = loop_find_any(file, "Ruby", &any, err);

	build->loop_start = any.start;
	build->loop_end = any.end;
	build->loop_offset = any.offset;
	build->is_one_part = true;
	return r;
}

static int find_loop(struct elf_file *file, const struct elf_named *found, struct ruby_build *build, struct error *err)
{
	struct loop_code loop;

	if (!found[NAME_LOOP].address)
		return find_code(file, build, err);
	struct elf_named cold = found[NAME_COLD];
	int r = loop_find(file, &found[NAME_LOOP], found[NAME_LOOP].size < 4096 ? NULL : &cold, "Ruby", &loop, err);
	if (r < 0)
		return r;
	build->loop_start = loop.start;
	build->loop_end = loop.end;
	build->loop_offset = loop.offset;
	build->cold_start = loop.cold_start;
	build->cold_end = loop.cold_end;
	return 0;
}

int ruby_recognize(struct elf_file *file, struct ruby_build *ret, struct error *err)
{
	struct elf_named found[NAMES] = {0};
	uint32_t version[2];

	*ret = (struct ruby_build){0};
	for (size_t i = 0; i < NAMES; i++)
		found[i].name = names[i];
	int r = elf_named_find(file, found, NAMES, err);
	if (r < 0)
		return r;
	if (!found[NAME_VERSION].address || !found[NAME_STORAGE].address)
		return 0;
	if (!file->is_64)
		return error_set(err, -ENOTSUP, "Ruby for a 32-bit machine");
	if (loop_read(file, found[NAME_VERSION].address, version, sizeof(version)) < 0 || version[0] > 99 || version[1] > 99)
		return error_set(err, -ENOTSUP, "Ruby whose version is not in the file");
	ret->version = version[0] << 8 | version[1];
	if (!ruby_layout_of(ret->version, &ret->layout))
		return error_set(err, -ENOTSUP, "Ruby %u.%u, which is not known", version[0], version[1]);
	ret->variable = ret->version < 0x0300 ? found[NAME_VARIABLE].address : 0;
	if (!ret->variable && !find_storage(file, found[NAME_STORAGE].address, ret))
		return error_set(err, -ENOTSUP, "Ruby %u.%u whose thread's context is not found", version[0], version[1]);
	find_symbols(file, found[NAME_NAMES].address, ret);
	r = find_loop(file, found, ret, err);
	return r < 0 ? r : 1;
}

void ruby_place(const struct ruby_build *build, uint64_t bias, struct ruby_process *ret)
{
	*ret = build->layout.walk;
	ret->listed.flags = build->is_one_part ? RUBY_IS_ONE_PART : 0;
	ret->listed.loop_start = build->loop_start + bias;
	ret->listed.loop_end = build->loop_end + bias;
	ret->listed.cold_start = build->cold_start + (build->cold_end ? bias : 0);
	ret->listed.cold_end = build->cold_end + (build->cold_end ? bias : 0);
	ret->variable = build->variable + (build->variable ? bias : 0);
	ret->storage_index = build->storage_index + (build->storage_index ? bias : 0);
	ret->storage_offset = build->storage_offset;
}
