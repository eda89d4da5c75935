// SPDX-License-Identifier: Apache-2.0
/*
 * A process that lies: the bytes are its memory, with the layout of a version, from which a prototype of Lua is read, its lines
 * and what its instructions call, and its calls are collected and put into a walk; they are such a table; and they are a file
 * in which the interpreter is looked for.
 */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/alloc.h"
#include "listed_image.h"
#include "runtime/lua.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The image begins with it. */
struct start {
	uint8_t version, pc_register, reserved[2];
	uint32_t object, sp, ip, loop; /* from START */
};

static void check_table(struct bytes table)
{
	uint64_t sum = 0;

	for (uint32_t place = 0; place < 600; place += 3) {
		struct bytes name = lua_called(table, place);
		sum += lua_line(table, place);
		must(name.len <= table.len);
		for (size_t i = 0; i < name.len; i++)
			sum += name.data[i];
	}
	must(sum + lua_line(table, RUNTIME_PLACE_MAX) < UINT64_MAX);
}

/* With the check that it has, if it can be read; and with another one. */
static void check_function(const struct lua_layout *layout, uint64_t object)
{
	const struct runtime_memory memory = {.read = read_memory};
	__u64 words[LISTED_READ_WORDS] = {0};
	struct lua_function function;

	image_read(words, layout->walk.prototype_bytes, object + layout->walk.prototype_from);
	uint32_t check = lua_check_of(&layout->walk, words);
	must(lua_read_function(layout, &memory, object, check ^ 1, &function) < 0);
	if (lua_read_function(layout, &memory, object, check, &function) < 0) {
		must(!function.table);
		return;
	}
	check_text(function.function.name);
	check_text(function.function.file);
	must(function.table_bytes <= LUA_TABLE_BYTES_MAX);
	check_table((struct bytes){function.table, function.table_bytes});
	mem_free(function.table);
}

/* As the sampling program does it. */
static void meet_loop(struct walk *walk)
{
	unsigned steps = 0;

	if (!lua_has_left_loop(walk) || lua_read_saved(walk))
		return;
	for (uint32_t i = 0; i < LUA_SAVED_WORDS; i++)
		lua_try_saved(walk, i);
	int before = lua_enter_state(walk);
	must(before <= (int)LUA_STATES_MAX);
	if (before < 0)
		return;
	while (steps < LUA_CALLS_READ && !lua_collect_step(walk))
		steps++;
	lua_leave_part(walk);
	steps = 0;
	while (walk->listed_appends == LISTED_APPENDS_PART && ++steps <= LISTED_FRAMES_MAX)
		listed_go_on(walk);
	must(walk->listed_appends != LISTED_APPENDS_PART);
}

static void check_walk(const struct lua_build *build, const struct start *start)
{
	static struct walk walk;
	int r = WALK_GOES_ON;

	memset(&walk, 0, sizeof(walk));
	walk_without_runtimes(&walk);
	lua_place(build, 0, &walk.lua);
	walk_begin(&walk, START + start->ip, 1);
	walk.registers[UNWIND_REGISTER_SP] = walk.registers[UNWIND_REGISTER_FP] = START + start->sp;
	walk.known = 1u << UNWIND_REGISTER_SP | 1u << UNWIND_REGISTER_FP;
	meet_loop(&walk);
	for (unsigned i = 0; i < UNWIND_FRAMES_MAX && r == WALK_GOES_ON && !walk.listed_appends; i++) {
		r = walk_step(&walk);
		if (r == WALK_GOES_ON)
			meet_loop(&walk);
	}
	must(walk.listed_count <= LISTED_FRAMES_MAX && walk.depth <= UNWIND_FRAMES_MAX && walk.lua_states <= LUA_STATES_MAX);
}

static void check_file(void)
{
	struct lua_build build;
	struct elf_file file;

	if (elf_file_open_memory(&file, image, "fuzz", NULL) < 0)
		return;
	int r = lua_recognize(&file, &build, NULL);
	elf_file_release(&file);
	must(r <= 1);
	must(r <= 0 || build.loop_start < build.loop_end);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const uint32_t versions[][2] = {{0x0501, 5}, {0x0502, 4}, {0x0503, 6}, {0x0504, 4}};
	struct lua_build build = {0};
	struct start start;

	image = (struct bytes){data, size};
	check_file();
	check_table(image);
	if (size < sizeof(start))
		return 0;
	memcpy(&start, data, sizeof(start));
	const uint32_t *version = versions[start.version % (sizeof(versions) / sizeof(versions[0]))];
	must(lua_layout_of(version[0], version[1], &build.layout));
	build.pc_register = start.pc_register % (LUA_REGISTERS_NONE + 1);
	build.loop_start = START + start.loop;
	build.loop_end = build.loop_start + 4096;
	check_function(&build.layout, START + start.object);
	check_walk(&build, &start);
	return 0;
}
