// SPDX-License-Identifier: Apache-2.0
/*
 * LuaJIT (runtime/luajit.h). An item of names of a prototype is as that of Lua (luas.c). Of a place in the code of a trace it
 * has the functions that were inlined there, struct luajit_inlined, which are named as others. Of each global state the ranges
 * of its traces are kept, and read again when an address is in none.
 */
#include <errno.h>
#include <string.h>

#include "agent/runtime/runtimes.h"
#include "base/alloc.h"
#include "base/time.h"

#define LUAJITS_MAX   32u /* global states whose traces are kept */
#define READ_AGAIN_NS NS_PER_MS

struct runtime_luajit {
	uint64_t process, global; /* process.id */
	uint64_t used;
	int64_t read_ns;
	struct luajit_traces traces;
};

static int recognize(struct elf_file *file, struct runtime_file *ret, struct error *err)
{
	int r = luajit_recognize(file, &ret->luajit, err);
	ret->code_address = ret->luajit.loop_start;
	ret->code_offset = ret->luajit.loop_offset;
	return r;
}

static int place(struct runtimes *runtimes, const struct runtime_file *file, pid_t pid, const struct mapped_runtime *mapped,
		 void *ret)
{
	(void)runtimes;
	(void)pid;
	luajit_place(&file->luajit, mapped->bias, ret);
	return sizeof(struct luajit_process);
}

/* ---- traces ---- */

void runtime_luajits_release(struct runtimes *runtimes)
{
	for (size_t i = 0; i < runtimes->luajit_count; i++)
		luajit_traces_release(&runtimes->luajits[i].traces);
	runtimes->luajits = mem_free(runtimes->luajits);
	runtimes->luajit_count = runtimes->luajit_capacity = 0;
}

static struct runtime_luajit *take_item(struct runtimes *runtimes)
{
	struct runtime_luajit *oldest = NULL;

	if (runtimes->luajit_count < LUAJITS_MAX &&
	    array_reserve(&runtimes->luajits, &runtimes->luajit_capacity, runtimes->luajit_count + 1, LUAJITS_MAX) == 0) {
		oldest = &runtimes->luajits[runtimes->luajit_count++];
		*oldest = (struct runtime_luajit){0};
	}
	for (size_t i = 0; i < runtimes->luajit_count; i++)
		if (!oldest || runtimes->luajits[i].used < oldest->used)
			oldest = &runtimes->luajits[i];
	return oldest;
}

/* NULL if there is no memory. Valid until the next call. */
static struct runtime_luajit *find_luajit(struct runtimes *runtimes, const struct process *process, uint64_t global)
{
	struct runtime_luajit *found = NULL;

	for (size_t i = 0; i < runtimes->luajit_count && !found; i++) {
		struct runtime_luajit *item = &runtimes->luajits[i];
		if (item->process == process->id && item->global == global)
			found = item;
	}
	if (!found) {
		found = take_item(runtimes);
		if (!found)
			return NULL;
		luajit_traces_release(&found->traces);
		*found = (struct runtime_luajit){.process = process->id, .global = global};
	}
	found->used = ++runtimes->luajit_clock;
	return found;
}

/* Their number, or as luajit_read_inlined(); -EAGAIN if the traces were read just before. */
static int read_inlined(struct runtimes *runtimes, const struct process *process, const struct runtime_file *file,
			const struct runtime_frame *frame, struct luajit_inlined ret[LUAJIT_INLINED_MAX])
{
	uint64_t pc = LUAJIT_PC(frame->data), base = 0;
	struct runtime_memory memory;
	int r = -ESTALE;

	runtime_memory_of(process, &memory);
	if (RUNTIME_NOTE(frame->caller_data) & LUAJIT_NOTE_BASE)
		base = RUNTIME_OBJECT(frame->caller);
	struct runtime_luajit *luajit = find_luajit(runtimes, process, RUNTIME_OBJECT(frame->object));
	if (!luajit)
		return -ENOMEM;
	for (unsigned i = 0; i < 2 && r == -ESTALE; i++) {
		const struct luajit_trace *trace = luajit_find_trace(&luajit->traces, pc);
		if (trace)
			r = luajit_read_inlined(&memory, trace, pc, base, ret);
		int64_t now = time_monotonic_ns();
		if (r != -ESTALE || i)
			break;
		if (luajit->read_ns && now - luajit->read_ns < READ_AGAIN_NS)
			return -EAGAIN;
		luajit->read_ns = now;
		int again = luajit_read_traces(&file->luajit, &memory, luajit->global, &luajit->traces);
		if (again < 0)
			return again;
	}
	return r;
}

/* ---- names ---- */

static int read_function(const struct runtime_file *file, uint64_t bias, const struct runtime_memory *memory, uint64_t object,
			 uint32_t check, struct runtime_tabled *ret)
{
	struct lua_function found = {0};

	(void)file;
	(void)bias;
	int r = luajit_read_function(memory, object, check, &found);
	ret->function = found.function;
	ret->table = found.table;
	ret->table_bytes = found.table_bytes;
	return r;
}

struct naming {
	struct runtimes *runtimes;
	const struct process *process;
	const struct runtime_file *file;
};

/* Appends text to runtimes->texts, where there is room: where it begins. */
static size_t keep_text(struct runtimes *runtimes, struct bytes text)
{
	size_t at = runtimes->texts.len;

	buffer_append(&runtimes->texts, text.data, text.len);
	buffer_append_byte(&runtimes->texts, 0);
	return at;
}

/* A function whose texts are kept: offsets in runtimes->texts. */
struct kept_name {
	size_t name, file;
	uint32_t line, first_line;
};

/* The words of a function, and of what has called it if that says its name: 0, 0 if not. 1, or -ENOMEM. */
static int name_function(const struct naming *naming, uint64_t object, uint64_t data, uint64_t caller, uint64_t caller_data,
			 struct kept_name *ret)
{
	struct runtimes *runtimes = naming->runtimes;
	struct runtime_name_item item;
	struct bytes called = {0};

	*ret = (struct kept_name){0};
	if (caller &&
	    runtime_find_tabled(runtimes, naming->process, naming->file, read_function, caller, caller_data, &item) > 0)
		called = lua_called(item.texts[2], RUNTIME_PLACE(caller_data));
	size_t name = keep_text(runtimes, called);
	int r = runtime_find_tabled(runtimes, naming->process, naming->file, read_function, object, data, &item);
	if (r < 0)
		return r;
	bool is_known = r > 0 && item.texts[0].len;
	ret->name = is_known && called.len ? name : keep_text(runtimes, is_known ? item.texts[0] : (struct bytes){0});
	ret->file = keep_text(runtimes, is_known ? item.texts[1] : (struct bytes){0});
	if (!is_known)
		return 1;
	ret->first_line = item.numbers[0];
	ret->line = RUNTIME_PLACE(data) == RUNTIME_PLACE_MAX ? 0 : lua_line(item.texts[2], RUNTIME_PLACE(data));
	return 1;
}

static bool has_called(uint64_t caller, uint64_t data)
{
	return caller && RUNTIME_NOTE(data) == LUA_NOTE_CALLS;
}

static uint64_t words_of(const struct luajit_inlined *inlined, uint64_t *ret_data)
{
	*ret_data = RUNTIME_FRAME | RUNTIME_FRAME_DATA | (uint64_t)inlined->check << 24 | inlined->place;
	return RUNTIME_FRAME | (uint64_t)RUNTIME_KIND_LUAJIT << 56 | inlined->object;
}

/* The functions of a trace: their number, or -ENOMEM. */
static int name_inlined(const struct naming *naming, const struct luajit_inlined *inlined, size_t count,
			const struct runtime_frame *frame, struct kept_name *ret)
{
	bool has_base = RUNTIME_NOTE(frame->caller_data) & LUAJIT_NOTE_BASE && frame->caller;
	uint64_t outer = has_base ? frame->outer : frame->caller,
		 outer_data = has_base ? frame->outer_data : frame->caller_data;

	for (size_t i = 0; i < count; i++) {
		uint64_t data, caller = 0, caller_data = 0, object = words_of(&inlined[i], &data);
		if (i + 1 < count && inlined[i + 1].calls)
			caller = words_of(&inlined[i + 1], &caller_data);
		else if (i + 1 == count && has_called(outer, outer_data))
			caller = outer, caller_data = outer_data;
		int r = name_function(naming, object, data, caller, caller_data, &ret[i]);
		if (r < 0)
			return r;
	}
	return (int)count;
}

/* What is kept of a place in a trace, into *ret. Their number; 0 if it is not known; -ENOMEM. */
static int find_inlined(const struct naming *naming, const struct runtime_frame *frame, struct luajit_inlined *ret)
{
	struct runtimes *runtimes = naming->runtimes;
	const uint64_t words[] = {naming->process->id, frame->object, frame->data, frame->caller, frame->caller_data};
	uint64_t key = runtime_names_key(&runtimes->names, words, sizeof(words));
	struct runtime_name_item item;

	int r = runtime_find_name(runtimes, naming->process, RUNTIME_KIND_LUAJIT, key, &item);
	if (r == 0) {
		int count = read_inlined(runtimes, naming->process, naming->file, frame, ret);
		if (count == -ENOMEM || count == -EAGAIN)
			return count == -ENOMEM ? count : 0;
		runtime_count(runtimes, RUNTIME_KIND_LUAJIT, count < 0 ? -ESTALE : 0);
		size_t bytes = count < 0 ? 0 : (size_t)count * sizeof(*ret);
		r = runtime_names_add(&runtimes->names, key,
				      &(struct runtime_name_item){.texts = {{(const uint8_t *)ret, bytes}}});
		return r == -ENOMEM ? r : count < 0 ? 0 : count;
	}
	if (r < 0 || item.texts[0].len > LUAJIT_INLINED_MAX * sizeof(*ret))
		return r == -ENOMEM ? r : 0;
	memcpy(ret, item.texts[0].data, item.texts[0].len);
	return (int)(item.texts[0].len / sizeof(*ret));
}

/* What runs in a trace. If it is not known which functions were inlined: one without a name, and the one that the trace has
 * begun in. */
static int name_trace(const struct naming *naming, const struct runtime_frame *frame, struct kept_name *ret)
{
	struct luajit_inlined inlined[LUAJIT_INLINED_MAX];
	int count = find_inlined(naming, frame, inlined);

	if (count != 0)
		return count < 0 ? count : name_inlined(naming, inlined, (size_t)count, frame, ret);
	ret[0] = (struct kept_name){0};
	ret[0].name = ret[0].file = keep_text(naming->runtimes, (struct bytes){0});
	if (!frame->caller || !(RUNTIME_NOTE(frame->caller_data) & LUAJIT_NOTE_BASE))
		return 1;
	bool is_called = has_called(frame->outer, frame->outer_data);
	int r = name_function(naming, frame->caller, frame->caller_data, is_called ? frame->outer : 0, frame->outer_data,
			      &ret[1]);
	return r < 0 ? r : 2;
}

static int name(struct runtimes *runtimes, const struct process *process, const struct runtime_file *file,
		const struct runtime_frame *frame, struct runtime_name *ret)
{
	const struct naming naming = {runtimes, process, file};
	struct kept_name kept[LUAJIT_INLINED_MAX];
	uint32_t note = RUNTIME_NOTE(frame->data);
	int count;

	buffer_clear(&runtimes->texts);
	runtimes->texts.max = 3 * LUAJIT_INLINED_MAX * (RUNTIME_NAME_BYTES_MAX + 1);
	if (note & LUAJIT_NOTE_BASE) /* the words before it have it */
		return 0;
	if (note & LUAJIT_NOTE_TRACE) {
		count = name_trace(&naming, frame, kept);
	} else {
		bool is_called = has_called(frame->caller, frame->caller_data);
		count = name_function(&naming, frame->object, frame->data, is_called ? frame->caller : 0, frame->caller_data,
				      kept);
	}
	if (count < 0 || buffer_status(&runtimes->texts) < 0)
		return -ENOMEM;
	for (int i = 0; i < count; i++)
		ret[i] = (struct runtime_name){(const char *)runtimes->texts.data + kept[i].name,
					       (const char *)runtimes->texts.data + kept[i].file, kept[i].line,
					       kept[i].first_line};
	return count;
}

static void describe(struct runtimes *runtimes, const struct runtime_file *file, pid_t pid, const char *binary,
		     struct buffer *out)
{
	const struct luajit_build *build = &file->luajit;

	(void)runtimes;
	(void)pid;
	buffer_printf(out, "LuaJIT %s in %s; offsets from its code", build->version[0] ? build->version : "2.1", binary);
}

const struct runtime_type runtime_luajit = {
	.kind = RUNTIME_KIND_LUAJIT,
	.class = RUNTIME_LISTED,
	.word = "luajit",
	.lost_function = "[function of LuaJIT]",
	.bytes_min = 96 * 1024,
	.recognize = recognize,
	.place = place,
	.name = name,
	.describe = describe,
};
