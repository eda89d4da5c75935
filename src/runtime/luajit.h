/* SPDX-License-Identifier: Apache-2.0 */
/*
 * LuaJIT 2.1 for x86-64 with 64-bit references (GC64) in another process:
 *
 *   luajit_recognize()	      a file: where the interpreter is, and what it says of its global state
 *   luajit_place()	      ... mapped into a process: what the walk is told
 *   luajit_read_function()   a prototype: its file, and a table of its lines and of what its instructions call, as those of Lua
 *			      (lua_line(), lua_called())
 *   luajit_read_traces()     which code belongs to which trace
 *   luajit_read_inlined()    the functions that a place in the code of a trace is in
 *
 * Not thread-safe, without state of its own.
 */
#ifndef WICK_RUNTIME_LUAJIT_H
#define WICK_RUNTIME_LUAJIT_H

#include "bpf/luajit.h"
#include "elf/elf_file.h"
#include "runtime/lua.h"

#define LUAJIT_TRACES_MAX  65536u
#define LUAJIT_INLINED_MAX 48u

/* What a file that holds LuaJIT says. Addresses as linked. */
struct luajit_build {
	uint64_t loop_start, loop_end; /* of all that is written in assembly */
	uint64_t loop_offset;	       /* of loop_start in the file */
	uint32_t frame_bytes;
	/* From the global state on. */
	int32_t global_vmstate, global_base, global_traces;
	char version[24]; /* "2.1.0-beta3"; "" = not known */
};

/* Whether the file holds LuaJIT. 1, *ret filled; 0 if it does not; -ENOTSUP when it does, and is none that is known (err says
 * what). Other errors: damaged files, -ENOMEM. */
int luajit_recognize(struct elf_file *file, struct luajit_build *ret, struct error *err);
/* What the walk of a process needs. bias: what is to be added to addresses as linked. */
void luajit_place(const struct luajit_build *build, uint64_t bias, struct luajit_process *ret);

/* The prototype at an address if it still has the check. As lua_read_function(). */
int luajit_read_function(const struct runtime_memory *memory, uint64_t object, uint32_t check, struct lua_function *ret);

/* ---- traces ---- */

struct luajit_traces {
	struct luajit_trace {
		uint64_t start, end; /* of its code */
		uint64_t object;
	} * items; /* owned; by their start */
	size_t count;
};
void luajit_traces_release(struct luajit_traces *traces);
/* All traces of a global state, in place of what is there. 0; -EBADMSG for nonsense; -ENOMEM; others if they cannot be read:
 * *traces is untouched then. */
int luajit_read_traces(const struct luajit_build *build, const struct runtime_memory *memory, uint64_t global,
		       struct luajit_traces *traces);
/* NULL if the address is in the code of none. */
const struct luajit_trace *luajit_find_trace(const struct luajit_traces *traces, uint64_t pc);

/* A function that was inlined: its prototype and the instruction that it is at. `calls`: it has called the one before it
 * itself. */
struct luajit_inlined {
	uint64_t object;
	uint32_t check, place;
	bool calls;
};
/* At a place in the code of a trace: the functions, innermost first, the last one being that which the trace has begun in if
 * it is one of Lua. Its prototype (base, 0 = none) is among those that are looked into. Their number; -ESTALE if the trace is
 * gone; -EBADMSG for nonsense; -ENOENT if a function is not among those that the trace speaks of; others if it cannot be
 * read. */
int luajit_read_inlined(const struct runtime_memory *memory, const struct luajit_trace *trace, uint64_t pc, uint64_t base,
			struct luajit_inlined ret[LUAJIT_INLINED_MAX]);

#endif
