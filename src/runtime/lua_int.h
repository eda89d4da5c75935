/* SPDX-License-Identifier: Apache-2.0 */
/* Private to lua_*.c and luajit_*.c: what was read of a prototype, and what its instructions call. */
#ifndef WICK_RUNTIME_LUA_INT_H
#define WICK_RUNTIME_LUA_INT_H

#include "base/buffer.h"
#include "runtime/lua.h"

#define LUA_LOCALS_MAX	    8192u
#define LUA_UPVALUES_MAX    256u
#define LUA_NAMES_BYTES_MAX (32u * 1024) /* of what one function calls */

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

/* Parts of a table (lua_names.c says how it is made): the line of the instructions from a place on, unless *last is the same;
 * what the instruction at a place calls, false if there is no room. */
void lua_append_line(struct buffer *lines, uint32_t place, uint32_t line, uint32_t *last);
bool lua_append_call(struct buffer *calls, struct buffer *texts, size_t room, uint32_t place, const char *name);
/* Sets ret->table. 0 or -ENOMEM. */
int lua_pack_table(const struct buffer *lines, const struct buffer *calls, const struct buffer *texts,
		   struct lua_function *ret);
/* "main chunk" if the line is 0, else "function <NAME OF THE FILE:LINE>". */
void lua_set_name(uint32_t line, struct runtime_function *ret);

#endif
