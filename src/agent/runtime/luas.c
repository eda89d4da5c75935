// SPDX-License-Identifier: Apache-2.0
/*
 * Lua (runtime/lua.h). An item of names has the name that stands for a function which its caller does not name, the file, and
 * the table of lines and of what instructions call; the first line.
 */
#include <errno.h>

#include "agent/runtime/runtimes.h"

static int recognize(struct elf_file *file, struct runtime_file *ret, struct error *err)
{
	int r = lua_recognize(file, &ret->lua, err);
	ret->code_address = ret->lua.loop_start;
	ret->code_offset = ret->lua.loop_offset;
	return r;
}

static int place(struct runtimes *runtimes, const struct runtime_file *file, pid_t pid, const struct mapped_runtime *mapped,
		 void *ret)
{
	(void)runtimes;
	(void)pid;
	lua_place(&file->lua, mapped->bias, ret);
	return sizeof(struct lua_process);
}

static int read_function(const struct runtime_file *file, uint64_t bias, const struct runtime_memory *memory, uint64_t object,
			 uint32_t check, struct runtime_tabled *ret)
{
	struct lua_function found = {0};

	(void)bias;
	int r = lua_read_function(&file->lua.layout, memory, object, check, &found);
	ret->function = found.function;
	ret->table = found.table;
	ret->table_bytes = found.table_bytes;
	return r;
}

/* The name by which the caller refers to the function, into runtimes->texts; NULL if it has none. */
static const char *name_by_caller(struct runtimes *runtimes, const struct process *process, const struct runtime_file *file,
				  const struct runtime_frame *frame)
{
	struct runtime_name_item item;
	uint32_t note = frame->caller ? RUNTIME_NOTE(frame->caller_data) : LUA_NOTE_NONE;

	if (note == LUA_NOTE_FREES)
		return "__gc";
	if (note != LUA_NOTE_CALLS ||
	    runtime_find_tabled(runtimes, process, file, read_function, frame->caller, frame->caller_data, &item) <= 0)
		return NULL;
	struct bytes name = lua_called(item.texts[2], RUNTIME_PLACE(frame->caller_data));
	buffer_clear(&runtimes->texts);
	runtimes->texts.max = runtimes->texts.max < RUNTIME_NAME_BYTES_MAX ? RUNTIME_NAME_BYTES_MAX : runtimes->texts.max;
	buffer_append(&runtimes->texts, name.data, name.len);
	buffer_append_byte(&runtimes->texts, 0);
	return name.len && buffer_status(&runtimes->texts) == 0 ? (const char *)runtimes->texts.data : NULL;
}

static int name(struct runtimes *runtimes, const struct process *process, const struct runtime_file *file,
		const struct runtime_frame *frame, struct runtime_name *ret)
{
	const char *called = name_by_caller(runtimes, process, file, frame);
	struct runtime_name_item item;

	int r = runtime_find_tabled(runtimes, process, file, read_function, frame->object, frame->data, &item);
	if (r <= 0)
		return r < 0 ? r : 1;
	ret->name = (const char *)item.texts[0].data;
	if (called && item.texts[0].len)
		ret->name = called;
	ret->file = (const char *)item.texts[1].data;
	ret->first_line = item.numbers[0];
	ret->line = item.texts[1].len ? lua_line(item.texts[2], RUNTIME_PLACE(frame->data)) : 0;
	return 1;
}

static void describe(struct runtimes *runtimes, const struct runtime_file *file, pid_t pid, const char *binary,
		     struct buffer *out)
{
	(void)runtimes;
	(void)pid;
	const struct lua_build *build = &file->lua;
	buffer_printf(out, "Lua %u.%u in %s; offsets of that version%s", build->version >> 8, build->version & 0xff, binary,
		      build->layout.is_tested ? "" : ", which was not tested");
}

const struct runtime_type runtime_lua = {
	.kind = RUNTIME_KIND_LUA,
	.class = RUNTIME_LISTED,
	.word = "lua",
	.lost_function = "[function of Lua]",
	.bytes_min = 96 * 1024,
	.recognize = recognize,
	.place = place,
	.name = name,
	.describe = describe,
};
