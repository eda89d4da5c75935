// SPDX-License-Identifier: Apache-2.0
/*
 * Whether a file holds LuaJIT. What counts are functions of its API: luaJIT_setmode(), and lua_call(), which calls the
 * interpreter. That is one range of call frame information, which has all that is written in assembly. From its code:
 *
 *   push %rbp .. push %r14; [push %r13; push %r12;] sub $40, %rsp	the size of its frame
 *   mov 16(%rbp), %r14; add $N, %r14					r14 = global state + N, in all of the code
 *   movl $-1, N(%r14)							vmstate
 *   movq $0, N(%r14)							jit_base
 *   mov N(%r14), %rcx; mov (%rcx,%rax,8), %rax; mov 88(%rax), %rax	the array of traces, and the code of one
 *   mov %r15, 80(%rbp)							a state's native frame
 *
 * A build whose code differs there has other structs, and is not shown.
 */
#include "runtime/luajit.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/limits.h"
#include "elf/elf_symbols.h"
#include "runtime/loop.h"

#define CALLER_BYTES	 256u /* of lua_call() */
#define LOOP_BYTES_MIN	 8192u
#define LOOP_BYTES_MAX	 (256u * 1024)
#define STATE_BYTES_MAX	 65536u
#define TEXTS_BYTES_MAX	 (16u * MIB)
#define ROLLING_MAX	 1784000000ull /* builds from sources of later than this have other instructions */
#define FRAME_BYTES	 80u
#define FRAME_BYTES_MORE 96u

enum name { NAME_MODE, NAME_CALL, NAMES };
static const char *const names[NAMES] = {[NAME_MODE] = "luaJIT_setmode", [NAME_CALL] = "lua_call"};

struct code {
	const uint8_t *data;
	size_t len;
};

static const uint8_t *find_bytes(struct code code, const char *bytes, size_t len)
{
	return memmem(code.data, code.len, bytes, len);
}

static int32_t number_at(const uint8_t *data)
{
	int32_t number;

	memcpy(&number, data, sizeof(number));
	return number;
}

/* The number in an instruction between two parts of it, if all that are like it have the same one. */
static bool find_number(struct code code, const char *before, size_t before_len, const char *after, size_t after_len,
			int32_t *ret)
{
	bool found = false;

	for (size_t i = 0; i + before_len + 4 + after_len <= code.len; i++) {
		if (memcmp(code.data + i, before, before_len) != 0 ||
		    memcmp(code.data + i + before_len + 4, after, after_len) != 0)
			continue;
		int32_t number = number_at(code.data + i + before_len);
		if (found && number != *ret)
			return false;
		*ret = number;
		found = true;
	}
	return found;
}

static bool is_in_state(int32_t offset)
{
	return offset > 0 && offset < (int32_t)STATE_BYTES_MAX;
}

/* What the code says. NULL, or what is missing. */
static const char *read_code(struct code code, struct luajit_build *build)
{
	static const char plain[] = "\x55\x53\x41\x57\x41\x56\x48\x83\xec\x28",
			  more[] = "\x55\x53\x41\x57\x41\x56\x41\x55\x41\x54\x48\x83\xec\x28";
	static const char state_frame[] = "\x4c\x89\x7d\x50";
	int32_t table, vmstate, base, traces;

	if (find_bytes(code, plain, sizeof(plain) - 1))
		build->frame_bytes = FRAME_BYTES;
	else if (find_bytes(code, more, sizeof(more) - 1))
		build->frame_bytes = FRAME_BYTES_MORE;
	else
		return "native frame";
	if (!find_bytes(code, state_frame, sizeof(state_frame) - 1) || !find_bytes(code, "\x4c\x8b\x75\x10", 4))
		return "state";
	if (!find_number(code, "\x49\x81\xc6", 3, "", 0, &table) ||
	    !find_number(code, "\x41\xc7\x86", 3, "\xff\xff\xff\xff", 4, &vmstate))
		return "global state";
	build->global_vmstate = table + vmstate;
	if (find_number(code, "\x49\xc7\x86", 3, "\0\0\0\0", 4, &base))
		build->global_base = table + base;
	if (find_number(code, "\x49\x8b\x8e", 3, "\x48\x8b\x04\xc1\x48\x8b\x40\x58", 8, &traces))
		build->global_traces = table + traces;
	if (!is_in_state(build->global_vmstate) || !is_in_state(build->global_base) || !is_in_state(build->global_traces))
		return "global state";
	return NULL;
}

/* "LuaJIT 2.1.0-beta3", "LuaJIT 2.1.1700008891". */
static void read_version(struct elf_file *file, struct luajit_build *build)
{
	static const char begin[] = "LuaJIT 2.";
	const struct elf_section *section = elf_file_find_contents(file, ".rodata");
	struct bytes data;

	if (!section || elf_file_read_section(file, section, TEXTS_BYTES_MAX, &data, NULL) < 0)
		return;
	_cleanup_(mem_freep) uint8_t *owned = (uint8_t *)data.data;
	const uint8_t *at = data.len ? memmem(data.data, data.len, begin, sizeof(begin) - 1) : NULL;
	if (!at)
		return;
	const uint8_t *end = data.data + data.len;
	at += sizeof(begin) - 3;
	for (size_t i = 0; at < end && i + 1 < sizeof(build->version); i++, at++) {
		bool is_word = (*at >= '0' && *at <= '9') || (*at >= 'a' && *at <= 'z') || *at == '.' || *at == '-';
		if (!is_word)
			break;
		build->version[i] = (char)*at;
	}
}

static bool is_newer(const struct luajit_build *build)
{
	return strncmp(build->version, "2.1.", 4) == 0 && strtoull(build->version + 4, NULL, 10) >= ROLLING_MAX;
}

/* Reads the range that an address is in, and looks for what makes the interpreter. NULL, or what is missing. */
static const char *try_range(struct elf_file *file, uint64_t address, struct luajit_build *build)
{
	uint64_t start, end;

	if (!loop_find_range(file, address, &start, &end) || end - start < LOOP_BYTES_MIN || end - start > LOOP_BYTES_MAX ||
	    !elf_file_find_loaded(file, start, &build->loop_offset))
		return "interpreter";
	_cleanup_(mem_freep) uint8_t *data = mem_alloc(end - start);
	if (!data || loop_read(file, start, data, end - start) < 0)
		return "interpreter";
	build->loop_start = start;
	build->loop_end = end;
	return read_code((struct code){data, end - start}, build);
}

/* lua_call() calls it, or jumps there. */
static const char *find_loop(struct elf_file *file, uint64_t caller, struct luajit_build *build)
{
	uint8_t code[CALLER_BYTES];
	size_t len = loop_read_function(file, caller, code, sizeof(code));
	const char *missing = "interpreter";

	for (size_t i = 0; i + 5 <= len; i++) {
		if (code[i] != 0xe8 && code[i] != 0xe9)
			continue;
		const char *why = try_range(file, caller + i + 5 + (uint64_t)(int64_t)number_at(code + i + 1), build);
		if (!why)
			return NULL;
		if (strcmp(why, missing) != 0) {
			missing = why;
			break;
		}
	}
	return missing;
}

int luajit_recognize(struct elf_file *file, struct luajit_build *ret, struct error *err)
{
	struct elf_named found[NAMES] = {0};

	*ret = (struct luajit_build){0};
	for (size_t i = 0; i < NAMES; i++)
		found[i].name = names[i];
	int r = elf_named_find(file, found, NAMES, err);
	if (r < 0)
		return r;
	if (!found[NAME_MODE].address || !found[NAME_CALL].address)
		return 0;
	if (!file->is_64 || file->machine != EM_X86_64)
		return error_set(err, -ENOTSUP, "LuaJIT for another machine than x86-64");
	read_version(file, ret);
	if (is_newer(ret))
		return error_set(err, -ENOTSUP, "LuaJIT %s, which is newer than what is known", ret->version);
	const char *missing = find_loop(file, found[NAME_CALL].address, ret);
	if (missing)
		return error_set(err, -ENOTSUP, "LuaJIT %s whose %s is not found, as in builds without GC64", ret->version,
				 missing);
	return 1;
}

void luajit_place(const struct luajit_build *build, uint64_t bias, struct luajit_process *ret)
{
	*ret = (struct luajit_process){
		.listed = {.kind = RUNTIME_KIND_LUAJIT,
			   .flags = LISTED_STATES,
			   .loop_start = build->loop_start + bias,
			   .loop_end = build->loop_end + bias},
		.frame_bytes = build->frame_bytes,
		.global_vmstate = (uint32_t)build->global_vmstate,
		.global_base = (uint32_t)build->global_base,
	};
}
