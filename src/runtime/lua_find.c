// SPDX-License-Identifier: Apache-2.0
/*
 * Whether a file holds Lua's interpreter: the command, the library, a program that it is linked into. What counts are functions
 * of its API. The loop, luaV_execute(), is named in files with a symbol table only; else it is the largest function that
 * lua_call() leads to. The version is in lua_ident, which builds as C++ may not export; then it is told by which functions of
 * the API there are.
 *
 * Of the instruction that is executed, the loop keeps the address of the next one in a register (5.1, 5.4), and notes it only
 * before it does something that may fail. Which register is seen by how it reads instructions:
 *
 *   mov (A), r32; lea 4(A), B	 or  mov (A), r32; add $4, A
 *
 * Layouts, from the headers of each version, for 64-bit machines.
 */
#include "runtime/lua.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "elf/elf_symbols.h"
#include "runtime/loop.h"

enum name {
	NAME_IDENT,
	NAME_CALL,
	NAME_CALLK,
	NAME_NEWSTATE,
	NAME_ROTATE,
	NAME_TOCLOSE,
	NAME_JIT,
	NAME_LOOP,
	NAME_COLD,
	NAMES
};

static const char *const names[NAMES] = {
	[NAME_IDENT] = "lua_ident",	  [NAME_CALL] = "lua_call",	/* 5.1 */
	[NAME_CALLK] = "lua_callk",					/* since 5.2 */
	[NAME_NEWSTATE] = "lua_newstate", [NAME_ROTATE] = "lua_rotate", /* since 5.3 */
	[NAME_TOCLOSE] = "lua_toclose",					/* since 5.4 */
	[NAME_JIT] = "luaJIT_setmode",					/* LuaJIT has the API of 5.1 */
	[NAME_LOOP] = "luaV_execute",	  [NAME_COLD] = "luaV_execute.cold",
};

#define PROCESS(...)                                                                                                           \
	{                                                                                                                      \
		.listed = {.kind = RUNTIME_KIND_LUA}, __VA_ARGS__                                                              \
	}

static const struct version_layout {
	uint32_t first_release, last_release; /* of the version that this holds for */
	struct lua_layout layout;
} layouts[] = {
	{0,
	 99,
	 {.version = 0x0501,
	  .is_tested = true,
	  .walk = PROCESS(.state_bytes = 184, .state_status = 10, .state_global = 32, .state_call = 40, .state_error = 168,
			  .state_first = 80, .state_pc = 48, .call_bytes = 40, .call_function = 8, .call_pc = 24,
			  .call_status = 36, .call_tail = ~0u, .closure_prototype = 32, .prototype_from = 16,
			  .prototype_bytes = 88, .prototype_code = 24 - 16, .prototype_size = 80 - 16,
			  .prototype_line = 96 - 16, .prototype_source = 64 - 16),
	  .prototype = {.bytes = 112,
			.type = 9,
			.constants = 16,
			.code = 24,
			.lines = 40,
			.locals = 48,
			.upvalues = 56,
			.source = 64,
			.constant_count = 76,
			.code_count = 80,
			.line_count = 84,
			.local_count = 92,
			.upvalue_count = 72,
			.first_line = 96,
			.upvalue_bytes = 8}}},
	{2,
	 4,
	 {.version = 0x0502,
	  .is_tested = true,
	  .walk = PROCESS(.state_bytes = 120, .state_status = 10, .state_global = 24, .state_call = 32, .state_error = 112,
			  .call_bytes = 64, .call_function = 0, .call_pc = 56, .call_status = 34, .call_fresh = 4,
			  .call_tail = 64, .call_hooked = 2, .closure_prototype = 24, .prototype_from = 16,
			  .prototype_bytes = 96, .prototype_code = 24 - 16, .prototype_size = 88 - 16,
			  .prototype_line = 104 - 16, .prototype_source = 72 - 16),
	  .prototype = {.bytes = 120,
			.type = 9,
			.constants = 16,
			.code = 24,
			.lines = 40,
			.locals = 48,
			.upvalues = 56,
			.source = 72,
			.constant_count = 84,
			.code_count = 88,
			.line_count = 92,
			.local_count = 100,
			.upvalue_count = 80,
			.first_line = 104,
			.upvalue_bytes = 16}}},
	{5,
	 6,
	 {.version = 0x0503,
	  .is_tested = true,
	  .walk = PROCESS(.state_bytes = 96, .state_status = 12, .state_global = 24, .state_call = 32, .state_error = 88,
			  .call_bytes = 72, .call_function = 0, .call_pc = 40, .call_status = 66, .call_fresh = 8,
			  .call_tail = 32, .call_final = 256, .call_hooked = 4, .closure_prototype = 24, .prototype_from = 16,
			  .prototype_bytes = 96, .prototype_code = 56 - 16, .prototype_size = 24 - 16,
			  .prototype_line = 40 - 16, .prototype_source = 104 - 16),
	  .prototype = {.bytes = 120,
			.type = 9,
			.constants = 48,
			.code = 56,
			.lines = 72,
			.locals = 80,
			.upvalues = 88,
			.source = 104,
			.constant_count = 20,
			.code_count = 24,
			.line_count = 28,
			.local_count = 36,
			.upvalue_count = 16,
			.first_line = 40,
			.upvalue_bytes = 16}}},
	{2,
	 8,
	 {.version = 0x0504,
	  .is_tested = true,
	  .walk = PROCESS(.state_bytes = 96, .state_status = 10, .state_global = 24, .state_call = 32, .state_error = 88,
			  .call_bytes = 64, .call_function = 0, .call_pc = 32, .call_status = 62, .call_fresh = 4,
			  .call_tail = 32, .call_final = 128, .call_hooked = 8, .closure_prototype = 24, .prototype_from = 16,
			  .prototype_bytes = 104, .prototype_code = 64 - 16, .prototype_size = 24 - 16,
			  .prototype_line = 44 - 16, .prototype_source = 112 - 16),
	  .prototype = {.bytes = 120,
			.type = 10,
			.constants = 56,
			.code = 64,
			.lines = 88,
			.far_lines = 96,
			.locals = 104,
			.upvalues = 80,
			.source = 112,
			.constant_count = 20,
			.code_count = 24,
			.line_count = 28,
			.far_line_count = 40,
			.local_count = 36,
			.upvalue_count = 16,
			.first_line = 44,
			.upvalue_bytes = 16}}},
};

bool lua_layout_of(uint32_t version, uint32_t release, struct lua_layout *ret)
{
	for (size_t i = 0; i < sizeof(layouts) / sizeof(layouts[0]); i++) {
		const struct version_layout *layout = &layouts[i];
		if (layout->layout.version != version || release < layout->first_release || release > layout->last_release)
			continue;
		*ret = layout->layout;
		ret->walk.listed.flags =
			LISTED_STATES | (version == 0x0501 ? LUA_IS_51 : 0) | (version == 0x0502 ? LUA_NOT_FRESH : 0);
		return true;
	}
	return false;
}

/* ---- the version ---- */

/* "$Lua: Lua 5.1.5 Copyright ...", "$LuaVersion: Lua 5.4.4  Copyright ...". */
static bool read_version(struct elf_file *file, uint64_t ident, struct lua_build *build)
{
	char text[32] = "";
	unsigned major, minor, release = 0;

	if (!ident || loop_read(file, ident, text, sizeof(text) - 1) < 0)
		return false;
	const char *at = strstr(text, ": Lua ");
	if (!at || sscanf(at, ": Lua %2u.%2u.%2u", &major, &minor, &release) < 2 || major > 99 || minor > 99)
		return false;
	build->version = major << 8 | minor;
	build->release = release;
	return true;
}

/* The release is not known then: that of the library which is the usual one. */
static void guess_version(const struct elf_named *found, struct lua_build *build)
{
	static const uint32_t releases[] = {5, 4, 6, 4};
	uint32_t minor = found[NAME_CALL].address ? 1 : !found[NAME_ROTATE].address ? 2 : !found[NAME_TOCLOSE].address ? 3 : 4;

	build->version = 0x0500 | minor;
	build->release = releases[minor - 1];
}

/* ---- the loop ---- */

/* The register of an instruction's operand: with the bit that a REX prefix has for it. */
static uint32_t register_of(uint8_t low, bool high)
{
	static const uint8_t dwarf[] = {0, 2, 1, 3, 7, 6, 4, 5}; /* rax rcx rdx rbx rsp rbp rsi rdi */

	return high ? 8 + low : dwarf[low];
}

/* mov (A), r32 or mov 0(A), r32, with or without a prefix: A; LUA_REGISTERS_NONE if it is none. Sets its bytes. */
static uint32_t fetched_by(const uint8_t *code, size_t *ret_len)
{
	uint8_t prefix = (code[0] & 0xf8) == 0x40 ? code[0] : 0;
	const uint8_t *at = code + (prefix != 0);
	uint8_t form = at[1] >> 6, low = at[1] & 7;

	if (at[0] != 0x8b || low == 4 || (form == 0 ? low == 5 : form != 1 || at[2]))
		return LUA_REGISTERS_NONE;
	*ret_len = (size_t)(prefix != 0) + 2 + form;
	return register_of(low, prefix & 1);
}

/* lea 4(A), B: B; add $4, A: A. */
static uint32_t advanced_to(const uint8_t *code, uint32_t from)
{
	uint8_t low = code[2] & 7, other = code[2] >> 3 & 7;

	if ((code[0] & 0xf8) != 0x48 || low == 4 || code[3] != 4 || register_of(low, code[0] & 1) != from)
		return LUA_REGISTERS_NONE;
	if (code[1] == 0x8d && code[2] >> 6 == 1)
		return register_of(other, code[0] & 4);
	return code[1] == 0x83 && code[2] >> 6 == 3 && !other ? from : LUA_REGISTERS_NONE;
}

static uint32_t find_pc_register(const uint8_t *code, size_t len)
{
	uint32_t counts[LUA_REGISTERS_NONE] = {0}, best = LUA_REGISTERS_NONE;

	for (size_t i = 0; i + 16 <= len; i++) {
		size_t bytes = 0;
		uint32_t from = fetched_by(code + i, &bytes);
		if (from == LUA_REGISTERS_NONE)
			continue;
		uint32_t to = advanced_to(code + i + bytes, from);
		if (to != LUA_REGISTERS_NONE)
			counts[to]++;
	}
	for (uint32_t i = 0; i < LUA_REGISTERS_NONE; i++)
		if (counts[i] && (best == LUA_REGISTERS_NONE || counts[i] > counts[best]))
			best = i;
	return best;
}

static int find_loop(struct elf_file *file, const struct elf_named *found, struct lua_build *build, struct error *err)
{
	struct elf_named named = found[NAME_LOOP], cold = found[NAME_COLD];
	uint64_t from = found[NAME_CALLK].address ? found[NAME_CALLK].address : found[NAME_CALL].address;
	struct loop_code loop;

	named.name = names[NAME_LOOP];
	if (!named.address && !loop_search(file, from, &named))
		return error_set(err, -ENOTSUP, "Lua %u.%u whose loop is not found", build->version >> 8,
				 build->version & 0xff);
	int r = loop_find(file, &named, &cold, "Lua", &loop, err);
	if (r < 0)
		return r;
	build->loop_start = loop.start;
	build->loop_end = loop.end;
	build->loop_offset = loop.offset;
	build->cold_start = loop.cold_start;
	build->cold_end = loop.cold_end;
	build->pc_register = LUA_REGISTERS_NONE;
	_cleanup_(mem_freep) uint8_t *code = mem_alloc(named.size);
	if (!code)
		return error_nomem(err);
	if (file->machine == EM_X86_64 && (build->version == 0x0501 || build->version >= 0x0504) &&
	    loop_read(file, named.address, code, named.size) == 0)
		build->pc_register = find_pc_register(code, named.size);
	return 0;
}

int lua_recognize(struct elf_file *file, struct lua_build *ret, struct error *err)
{
	struct elf_named found[NAMES] = {0};

	*ret = (struct lua_build){0};
	for (size_t i = 0; i < NAMES; i++)
		found[i].name = names[i];
	int r = elf_named_find(file, found, NAMES, err);
	if (r < 0)
		return r;
	if ((!found[NAME_CALL].address && !found[NAME_CALLK].address) || !found[NAME_NEWSTATE].address ||
	    found[NAME_JIT].address)
		return 0;
	if (!file->is_64)
		return error_set(err, -ENOTSUP, "Lua for a 32-bit machine");
	if (!read_version(file, found[NAME_IDENT].address, ret))
		guess_version(found, ret);
	if (!lua_layout_of(ret->version, ret->release, &ret->layout))
		return error_set(err, -ENOTSUP, "Lua %u.%u.%u, which is not known", ret->version >> 8, ret->version & 0xff,
				 ret->release);
	r = find_loop(file, found, ret, err);
	return r < 0 ? r : 1;
}

void lua_place(const struct lua_build *build, uint64_t bias, struct lua_process *ret)
{
	*ret = build->layout.walk;
	ret->listed.loop_start = build->loop_start + bias;
	ret->listed.loop_end = build->loop_end + bias;
	ret->listed.cold_start = build->cold_start + (build->cold_end ? bias : 0);
	ret->listed.cold_end = build->cold_end + (build->cold_end ? bias : 0);
	ret->pc_register = build->pc_register;
}
