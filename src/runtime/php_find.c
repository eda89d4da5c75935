// SPDX-License-Identifier: Apache-2.0
/*
 * Whether a file holds PHP's engine: the command line, the FastCGI server, the module of a web server, a program that embeds
 * it. What counts is the function that runs the code and the variable with the engine's state, which all builds export for
 * extensions, also stripped ones. Thread-safe builds (ZTS) have it in a block of memory of each thread, and export where in it.
 * Where a thread has the address of its block says an exported function that was made for the compiler (JIT):
 *
 *   tsrm_get_ls_cache_tcb_offset()   mov $offset, %rax in an executable; mov slot(%rip), %rax in a library, where the dynamic
 *				      linker has put the offset from the thread pointer into the slot
 *
 * The version is in the header of HTTP that the engine sends, "X-Powered-By: PHP/8.2.29", since 4.0.
 *
 * Layouts, from the headers of each version for x86-64. What differs is where the members of a function lie: 8.0 put the
 * attributes before them, 8.2 the pointer to the cache, 8.4 the comment and what the property hooks need.
 */
#include "runtime/php.h"

#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "base/limits.h"
#include "base/text.h"
#include "elf/elf_symbols.h"
#include "runtime/loop.h"

#define RODATA_BYTES_MAX (32u * MIB)
#define CODE_BYTES	 64u /* of tsrm_get_ls_cache_tcb_offset() */
#define VERSION_BEFORE	 "X-Powered-By: PHP/"

enum name { NAME_LOOP, NAME_GLOBALS, NAME_GLOBALS_OFFSET, NAME_BLOCK, NAME_GENERATOR_CLASS, NAME_COLD, NAMES };

static const char *const names[NAMES] = {
	[NAME_LOOP] = "execute_ex",
	[NAME_GLOBALS] = "executor_globals",
	[NAME_GLOBALS_OFFSET] = "executor_globals_offset", /* thread-safe builds */
	[NAME_BLOCK] = "tsrm_get_ls_cache_tcb_offset",	   /* ... since 8.0 */
	[NAME_GENERATOR_CLASS] = "zend_ce_generator",
	[NAME_COLD] = "execute_ex.cold",
};

struct version_layout {
	uint32_t version, until; /* until: the last version that it is of */
	uint32_t opline_before;	 /* in executor_globals; 0 = not known */
	uint32_t ops, file;	 /* in struct _zend_op_array; `last` lies before opcodes, line_start behind filename */
	uint32_t generator_frame, generator_parent;
	bool is_tested;
};

static const struct version_layout layouts[] = {
	{0x0704, 0x0704, 880, 64, 136, 64, 160, true},	{0x0800, 0x0801, 0, 72, 144, 0, 0, false},
	{0x0802, 0x0802, 880, 88, 152, 56, 152, true},	{0x0803, 0x0803, 0, 88, 152, 56, 152, false},
	{0x0804, 0x0804, 952, 104, 168, 56, 152, true},
};
#define GLOBALS_CURRENT 488u /* 7.4 to 8.4 */

bool php_layout_of(uint32_t version, struct php_layout *ret)
{
	for (size_t i = 0; i < sizeof(layouts) / sizeof(layouts[0]); i++) {
		const struct version_layout *layout = &layouts[i];
		if (version < layout->version || version > layout->until)
			continue;
		*ret = (struct php_layout){
			.walk = {.listed = {.kind = RUNTIME_KIND_PHP},
				 .function_bytes = layout->file + 16,
				 .function_count = layout->version == 0x0704 ? layout->ops - 4 : layout->ops - 8,
				 .function_ops = layout->ops,
				 .function_file = layout->file,
				 .generator_frame = layout->generator_frame,
				 .generator_parent = layout->generator_parent,
				 .globals_current = GLOBALS_CURRENT,
				 .globals_opline_before = layout->opline_before},
			.is_tested = layout->is_tested,
		};
		return true;
	}
	return false;
}

/* "8.2.29" behind VERSION_BEFORE: 0x0802; 0 = there is none. */
static uint32_t find_version(struct elf_file *file)
{
	struct bytes data;
	unsigned major = 0, minor = 0;

	if (elf_file_read_contents(file, ".rodata", RODATA_BYTES_MAX, &data, NULL) < 0)
		return 0;
	_cleanup_(mem_freep) uint8_t *owned = (uint8_t *)data.data;
	const uint8_t *at = data.len ? memmem(data.data, data.len, VERSION_BEFORE, strlen(VERSION_BEFORE)) : NULL;
	if (!at)
		return 0;
	at += strlen(VERSION_BEFORE);
	const uint8_t *end = data.data + data.len;
	while (at < end && text_is_digit(*at) && major < 100)
		major = major * 10 + (*at++ - '0');
	if (at >= end || *at++ != '.')
		return 0;
	while (at < end && text_is_digit(*at) && minor < 100)
		minor = minor * 10 + (*at++ - '0');
	return major > 0 && major < 100 && minor < 100 ? major << 8 | minor : 0;
}

/* Where a thread has the address of its block. */
static bool find_block(struct elf_file *file, uint64_t function, struct php_build *build)
{
	uint8_t code[CODE_BYTES];
	size_t len = function ? loop_read_function(file, function, code, sizeof(code)) : 0;
	int32_t number;

	for (size_t i = 0; i + 7 <= len; i++) {
		memcpy(&number, code + i + 3, sizeof(number));
		if (memcmp(code + i, "\x48\xc7\xc0", 3) == 0 && number < 0) {
			build->block_at = number;
			return true;
		}
		if (memcmp(code + i, "\x48\x8b\x05", 3) == 0) {
			build->block_offset = function + i + 7 + (uint64_t)(int64_t)number;
			return true;
		}
	}
	return false;
}

static int find_parts(struct elf_file *file, const struct elf_named *found, struct php_build *build, struct error *err)
{
	struct loop_code loop;

	build->version = find_version(file);
	if (!build->version)
		return error_set(err, -ENOTSUP, "PHP whose version is not in the file");
	if (!php_layout_of(build->version, &build->layout))
		return error_set(err, -ENOTSUP, "PHP %u.%u, which is not known", build->version >> 8, build->version & 0xff);
	int r = loop_find(file, &found[NAME_LOOP], &found[NAME_COLD], "PHP", &loop, err);
	if (r < 0)
		return r;
	build->loop_start = loop.start;
	build->loop_end = loop.end;
	build->cold_start = loop.cold_start;
	build->cold_end = loop.cold_end;
	build->loop_offset = loop.offset;
	build->globals = found[NAME_GLOBALS].address;
	build->globals_offset = found[NAME_GLOBALS_OFFSET].address;
	if (!build->globals && !find_block(file, found[NAME_BLOCK].address, build))
		return error_set(err, -ENOTSUP, "PHP %u.%u as a thread-safe build (ZTS) whose threads' data are not found",
				 build->version >> 8, build->version & 0xff);
	build->generator_class = found[NAME_GENERATOR_CLASS].address;
	if (found[NAME_GLOBALS].size && found[NAME_GLOBALS].size < build->layout.walk.globals_current + 8)
		return error_set(err, -ENOTSUP, "PHP %u.%u whose %s has %llu bytes", build->version >> 8, build->version & 0xff,
				 names[NAME_GLOBALS], (unsigned long long)found[NAME_GLOBALS].size);
	return 0;
}

int php_recognize(struct elf_file *file, struct php_build *ret, struct error *err)
{
	struct elf_named found[NAMES] = {0};

	*ret = (struct php_build){0};
	for (size_t i = 0; i < NAMES; i++)
		found[i].name = names[i];
	int r = elf_named_find(file, found, NAMES, err);
	if (r < 0)
		return r;
	if (!found[NAME_LOOP].address || (!found[NAME_GLOBALS].address && !found[NAME_GLOBALS_OFFSET].address))
		return 0;
	if (!file->is_64)
		return error_set(err, -ENOTSUP, "PHP for a 32-bit machine");
	r = find_parts(file, found, ret, err);
	return r < 0 ? r : 1;
}

void php_place(const struct php_build *build, uint64_t bias, struct php_process *ret)
{
	*ret = build->layout.walk;
	ret->listed.loop_start = build->loop_start + bias;
	ret->listed.loop_end = build->loop_end + bias;
	ret->listed.cold_start = build->cold_start + (build->cold_end ? bias : 0);
	ret->listed.cold_end = build->cold_end + (build->cold_end ? bias : 0);
	if (build->globals) {
		ret->globals = build->globals + bias;
	} else {
		ret->globals_offset = build->globals_offset + bias;
		ret->block_offset = build->block_offset + (build->block_offset ? bias : 0);
		ret->block_at = build->block_at;
	}
	if (build->generator_class && ret->generator_frame)
		ret->generator_class = build->generator_class + bias;
}
