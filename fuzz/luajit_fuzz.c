// SPDX-License-Identifier: Apache-2.0
/*
 * A process that lies: the bytes are its memory, from which a prototype of LuaJIT is read, its traces and what is in them, and
 * its frames are collected and put into a walk; and they are a file in which the interpreter is looked for.
 */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/alloc.h"
#define IMAGE_STATE UNWIND_SLOT_LIVE
#include "listed_image.h"
#include "runtime/luajit.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The image begins with it. */
struct start {
	uint32_t object, sp, ip, loop; /* from START */
	uint32_t global, base, pc, place;
};

static const struct runtime_memory runtime_memory = {.read = read_memory};

static void check_function(uint64_t object)
{
	__u64 words[LISTED_READ_WORDS] = {0};
	struct lua_function function;
	uint64_t sum = 0;

	image_read(words, LUAJIT_PROTOTYPE_READ, object + LUAJIT_PROTOTYPE_FROM);
	uint32_t check = luajit_check_of(words);
	must(luajit_read_function(&runtime_memory, object, check ^ 1, &function) < 0);
	if (luajit_read_function(&runtime_memory, object, check, &function) < 0) {
		must(!function.table);
		return;
	}
	check_text(function.function.name);
	check_text(function.function.file);
	must(function.table_bytes <= LUA_TABLE_BYTES_MAX);
	struct bytes table = {function.table, function.table_bytes};
	for (uint32_t place = 0; place < 600; place++)
		sum += lua_line(table, place) + lua_called(table, place).len;
	must(sum < UINT64_MAX);
	mem_free(function.table);
}

static void check_traces(const struct luajit_build *build, uint64_t global, uint64_t place)
{
	struct luajit_inlined inlined[LUAJIT_INLINED_MAX];
	struct luajit_traces traces = {0};

	if (luajit_read_traces(build, &runtime_memory, global, &traces) < 0) {
		must(!traces.count);
		return;
	}
	must(traces.count <= LUAJIT_TRACES_MAX);
	for (size_t i = 0; i < traces.count && i < 64; i++) {
		const struct luajit_trace *trace = luajit_find_trace(&traces, traces.items[i].start);
		must(!i || traces.items[i].start >= traces.items[i - 1].start);
		must(trace && trace->start == traces.items[i].start);
		int count = luajit_read_inlined(&runtime_memory, trace, trace->start + place % (trace->end - trace->start),
						START + place, inlined);
		must(count <= (int)LUAJIT_INLINED_MAX);
		for (int k = 0; k < count; k++)
			must(inlined[k].place < RUNTIME_PLACE_MAX);
	}
	luajit_traces_release(&traces);
}

static void check_walk(const struct luajit_build *build, const struct start *start)
{
	static struct walk walk;
	int r = WALK_GOES_ON;

	memset(&walk, 0, sizeof(walk));
	walk_without_runtimes(&walk);
	luajit_place(build, 0, &walk.luajit);
	walk_begin(&walk, START + start->ip, 1);
	walk.registers[UNWIND_REGISTER_SP] = walk.registers[UNWIND_REGISTER_FP] = START + start->sp;
	walk.registers[LUAJIT_REGISTER_BASE] = START + start->base;
	walk.registers[LUAJIT_REGISTER_PC] = START + start->pc;
	walk.known = ~0u;
	luajit_meet(&walk);
	for (unsigned i = 0; i < UNWIND_FRAMES_MAX && r == WALK_GOES_ON && !walk.listed_appends; i++) {
		r = walk_step(&walk);
		if (r == WALK_GOES_ON)
			luajit_meet(&walk);
	}
	while (listed_append_pending(&walk))
		;
	must(walk.listed_count <= LISTED_FRAMES_MAX && walk.depth <= UNWIND_FRAMES_MAX && walk.lua_states <= LUA_STATES_MAX);
}

static void check_file(void)
{
	struct luajit_build build;
	struct elf_file file;

	if (elf_file_open_memory(&file, image, "fuzz", NULL) < 0)
		return;
	int r = luajit_recognize(&file, &build, NULL);
	elf_file_release(&file);
	must(r <= 1);
	must(r <= 0 || build.loop_start < build.loop_end);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct luajit_build build = {.frame_bytes = 80, .global_base = 0x40, .global_vmstate = 0x48, .global_traces = 0x80};
	struct start start;

	image = (struct bytes){data, size};
	check_file();
	if (size < sizeof(start))
		return 0;
	memcpy(&start, data, sizeof(start));
	build.loop_start = START + start.loop;
	build.loop_end = build.loop_start + 4096;
	check_function(START + start.object);
	check_traces(&build, START + start.global, start.place);
	check_walk(&build, &start);
	return 0;
}
