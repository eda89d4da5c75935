/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lua, 5.1 to 5.4, in another process:
 *
 *   lua_recognize()	  a file: which version, the loop, the layout
 *   lua_place()	  ... mapped into a process: what the walk is told
 *   lua_read_function()  a prototype: its file, and a table of its lines and of what its instructions call
 *   lua_line(), lua_called()  ... of an instruction
 *
 * Not thread-safe, without state of its own.
 */
#ifndef WICK_RUNTIME_LUA_H
#define WICK_RUNTIME_LUA_H

#include "bpf/lua.h"
#include "elf/elf_file.h"
#include "runtime/function.h"
#include "runtime/memory.h"

#define LUA_TABLE_BYTES_MAX (256u * 1024)

/* Offsets in bytes in a prototype. */
struct lua_prototype {
	uint32_t bytes, type;
	uint32_t constants, code, lines, far_lines, locals, upvalues, source;
	uint32_t constant_count, code_count, line_count, far_line_count, local_count, upvalue_count, first_line;
	uint32_t upvalue_bytes; /* of a description, which begins with the name */
};
/* Of a version, as built for a 64-bit machine. */
struct lua_layout {
	struct lua_process walk; /* without addresses */
	struct lua_prototype prototype;
	uint32_t version;
	bool is_tested; /* processes of this version were compared with what Lua says itself */
};

/* What a file that holds Lua says. Addresses as linked. */
struct lua_build {
	uint32_t version, release; /* 0x0504, 4 for 5.4.4; release 0: not known */
	uint64_t loop_start, loop_end, cold_start, cold_end;
	uint64_t loop_offset; /* of loop_start in the file */
	uint32_t pc_register; /* LUA_REGISTERS_NONE: not known; then lines of code that calls nothing may be those of earlier
				 calls */
	struct lua_layout layout;
};

struct lua_function {
	struct runtime_function function; /* "main chunk", or "function <NAME OF THE FILE:LINE>" */
	uint8_t *table;			  /* owned, mem_free(); at most LUA_TABLE_BYTES_MAX; NULL = nothing is known of lines */
	size_t table_bytes;
};

/* Whether the file holds Lua's interpreter. 1, *ret filled; 0 if it does not; -ENOTSUP when it does, of a version that is not
 * known, or without what is needed (err says what; ret->version may be set). Other errors: damaged files, -ENOMEM. */
int lua_recognize(struct elf_file *file, struct lua_build *ret, struct error *err);
/* The layout of a version; false if it is in no table. */
bool lua_layout_of(uint32_t version, uint32_t release, struct lua_layout *ret);
/* What the walk of a process needs. bias: what is to be added to addresses as linked. */
void lua_place(const struct lua_build *build, uint64_t bias, struct lua_process *ret);

/* The prototype at an address if it still has the check. 0; -ESTALE if it is another one by now, or none (any more); -EBADMSG
 * if it holds nonsense; -ENOMEM; -EFAULT and others if it cannot be read. */
int lua_read_function(const struct lua_layout *layout, const struct runtime_memory *memory, uint64_t object, uint32_t check,
		      struct lua_function *ret);
/* Of the instruction at a place: its line, 0 if it is not known; the name by which it refers to what it calls, as
 * debug.getinfo() has it, "" if it has none, or a number. table: of lua_read_function(), or any bytes. */
uint32_t lua_line(struct bytes table, uint32_t place);
struct bytes lua_called(struct bytes table, uint32_t place);

#endif
