/* SPDX-License-Identifier: Apache-2.0 */
/* Private to lua_*.c: what was read of a prototype, and what its instructions call. */
#ifndef WICK_RUNTIME_LUA_INT_H
#define WICK_RUNTIME_LUA_INT_H

#include "base/buffer.h"
#include "runtime/lua.h"

#define LUA_LOCALS_MAX	 8192u
#define LUA_UPVALUES_MAX 256u

struct lua_local { /* as it lies in the process, in all versions */
	uint64_t name;
	uint32_t start, end; /* instructions */
};

struct lua_reader {
	const struct lua_layout *layout;
	const struct runtime_memory *memory;
	const uint32_t *code;
	uint32_t code_count;
	struct lua_local *locals;
	uint32_t local_count;
	uint64_t *upvalues; /* addresses of their names */
	uint32_t upvalue_count;
	uint64_t constants; /* address */
	uint32_t constant_count;
	uint64_t work_left; /* instructions that may still be looked at */
};

/* Appends the text of a string of the process. 0, or as lua_read_function(). */
int lua_append_text(const struct lua_reader *reader, uint64_t address, char ret[static RUNTIME_NAME_BYTES_MAX], size_t *len);
/* The name by which an instruction refers to what it calls. 1, ret filled; 0 if it has none. */
int lua_find_called(struct lua_reader *reader, uint32_t place, char ret[static RUNTIME_NAME_BYTES_MAX]);

#endif
