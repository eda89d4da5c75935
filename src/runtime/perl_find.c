// SPDX-License-Identifier: Apache-2.0
/*
 * Whether a file holds Perl's interpreter: the command, the library, a program that embeds it. What counts is the function that
 * runs operations and the constants with the version, which all builds export for extensions, also stripped ones. Builds for
 * threads have an interpreter in each thread, whose address is the data of a key of pthread_setspecific(); where that data
 * lies is the same in all releases of glibc for x86-64: 16 bytes for each of the first 32 keys. Builds without threads have
 * variables in place of the interpreter's members, and export these.
 *
 * Layouts, from the headers of each version. What differs is where the members of the interpreter lie; its size, which builds
 * export too, tells whether a build has the usual ones.
 */
#include "runtime/perl.h"

#include <errno.h>
#include <string.h>

#include "elf/elf_symbols.h"
#include "runtime/loop.h"

#define THREAD_KEYS 0x310u /* specific_1stblock in glibc's struct pthread */
#define KEYS_MAX    32u

enum name { NAME_LOOP, NAME_KEY, NAME_REVISION, NAME_VERSION, NAME_INTERPRETER_BYTES, NAME_STACK, NAME_COP, NAMES };

static const char *const names[NAMES] = {
	[NAME_LOOP] = "Perl_runops_standard",
	[NAME_KEY] = "PL_thr_key",
	[NAME_REVISION] = "PL_revision", /* 5 */
	[NAME_VERSION] = "PL_version",	 /* 36 */
	[NAME_INTERPRETER_BYTES] = "PL_interp_size",
	[NAME_STACK] = "PL_curstackinfo", /* without threads */
	[NAME_COP] = "PL_curcop",
};

struct version_layout {
	uint32_t version, until; /* until: the last version that it is of; odd ones are not released */
	uint32_t stack, cop;	 /* PL_curstackinfo, PL_curcop in the interpreter */
	uint32_t interpreter_bytes;
	bool has_inline_hash_extras, is_tested;
};

static const struct version_layout layouts[] = {
	{0x051c, 0x051e, 240, 224, 0, false, false}, {0x0520, 0x0520, 240, 224, 3792, false, true},
	{0x0522, 0x0522, 224, 208, 0, false, false}, {0x0524, 0x0524, 224, 208, 3768, true, true},
	{0x0526, 0x0526, 224, 208, 0, true, false},  {0x0528, 0x0528, 224, 208, 3768, true, true},
};

bool perl_layout_of(uint32_t version, struct perl_layout *ret)
{
	for (size_t i = 0; i < sizeof(layouts) / sizeof(layouts[0]); i++) {
		const struct version_layout *layout = &layouts[i];
		if (version < layout->version || version > layout->until || version & 1)
			continue;
		*ret = (struct perl_layout){
			.walk = {.listed = {.kind = RUNTIME_KIND_PERL},
				 .thread_keys = THREAD_KEYS,
				 .keys_max = KEYS_MAX,
				 .interpreter_stack = layout->stack,
				 .interpreter_cop = layout->cop},
			.interpreter_bytes = layout->interpreter_bytes,
			.has_inline_hash_extras = layout->has_inline_hash_extras,
			.is_tested = layout->is_tested,
		};
		return true;
	}
	return false;
}

static int find_parts(struct elf_file *file, const struct elf_named *found, struct perl_build *build, struct error *err)
{
	uint8_t revision = 0, version = 0;
	uint16_t bytes = 0;
	struct loop_code loop;

	if (loop_read(file, found[NAME_REVISION].address, &revision, 1) < 0 ||
	    loop_read(file, found[NAME_VERSION].address, &version, 1) < 0)
		return error_set(err, -ENOTSUP, "Perl whose version is not in the file");
	build->version = (uint32_t)revision << 8 | version;
	if (!perl_layout_of(build->version, &build->layout))
		return error_set(err, -ENOTSUP, "Perl %u.%u, which is not known", revision, version);
	if (!found[NAME_KEY].address && (!found[NAME_STACK].address || !found[NAME_COP].address))
		return error_set(err, -ENOTSUP, "Perl %u.%u without %s", revision, version, names[NAME_KEY]);
	if (found[NAME_KEY].address && found[NAME_INTERPRETER_BYTES].address && build->layout.interpreter_bytes &&
	    loop_read(file, found[NAME_INTERPRETER_BYTES].address, &bytes, sizeof(bytes)) == 0 &&
	    bytes != build->layout.interpreter_bytes)
		return error_set(err, -ENOTSUP, "Perl %u.%u as an unusual build: its interpreter has %u bytes", revision,
				 version, bytes);
	int r = loop_find(file, &found[NAME_LOOP], NULL, "Perl", &loop, err);
	build->loop_start = loop.start;
	build->loop_end = loop.end;
	build->loop_offset = loop.offset;
	build->key = found[NAME_KEY].address;
	if (!build->key) {
		build->stack = found[NAME_STACK].address;
		build->cop = found[NAME_COP].address;
		build->layout.has_file_globs = true;
	}
	return r;
}

int perl_recognize(struct elf_file *file, struct perl_build *ret, struct error *err)
{
	struct elf_named found[NAMES] = {0};

	*ret = (struct perl_build){0};
	for (size_t i = 0; i < NAMES; i++)
		found[i].name = names[i];
	int r = elf_named_find(file, found, NAMES, err);
	if (r < 0)
		return r;
	if (!found[NAME_LOOP].address || !found[NAME_REVISION].address || !found[NAME_VERSION].address)
		return 0;
	if (!file->is_64)
		return error_set(err, -ENOTSUP, "Perl for a 32-bit machine");
	r = find_parts(file, found, ret, err);
	return r < 0 ? r : 1;
}

void perl_place(const struct perl_build *build, uint64_t bias, struct perl_process *ret)
{
	*ret = build->layout.walk;
	ret->listed.loop_start = build->loop_start + bias;
	ret->listed.loop_end = build->loop_end + bias;
	ret->key = build->key + (build->key ? bias : 0);
	ret->stack = build->stack + (build->stack ? bias : 0);
	ret->cop = build->cop + (build->cop ? bias : 0);
}
