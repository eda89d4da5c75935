// SPDX-License-Identifier: Apache-2.0
/*
 * V8 (runtime/v8.h). An item of names is a function's code (struct v8_table): names, files, lines; and where it begins,
 * relative to the page, and how large it is. It is read when its first frame is seen, as a whole: code is thrown away soon
 * where programs are being optimised, and then other frames of it can still be named.
 */
#include <errno.h>

#include "agent/runtime/runtimes.h"
#include "base/alloc.h"

_Static_assert(V8_INLINES_MAX <= RUNTIME_INLINES_MAX, "all functions of a frame have room");

static int recognize(struct elf_file *file, struct runtime_file *ret, struct error *err)
{
	int r = v8_recognize(file, &ret->v8, err);
	ret->code_address = ret->v8.builtins_start;
	ret->code_offset = ret->v8.builtins_offset;
	return r;
}

static int place(struct runtimes *runtimes, const struct runtime_file *file, pid_t pid, const struct mapped_runtime *mapped,
		 void *ret)
{
	const struct binary_file *binary = binary_file_get(runtimes->binaries, mapped->binary_file);

	if (!binary->has_slot)
		return -EAGAIN;
	v8_place(&file->v8, binary->slot, ret);
	return sizeof(struct v8_process);
}

/* ---- names ---- */

#define VARIANTS_MAX   4u
#define PAGE_SHIFT     12
#define CODE_PAGES_MAX 512u

enum outcome { OUTCOME_TABLE, OUTCOME_LOST, OUTCOME_NONE };

/* Of the interpreter's frames and builtins there is one item a function. Of generated code there is one for each page that it
 * lies in, and for each of those of the function that share the page. */
static uint64_t key_of(const struct runtimes *runtimes, const struct process *process, const struct runtime_frame *frame,
		       uint64_t page, uint64_t variant)
{
	uint64_t data = frame->data & V8_FRAME_CODE ? frame->data : frame->data & ~(uint64_t)RUNTIME_PLACE_MAX;
	const uint64_t words[] = {process->id, frame->object, data, page, variant};

	return runtime_names_key(&runtimes->names, words, sizeof(words));
}

/* The item that has the frame's address. 1; 0 if there is none, and *ret_variant is free; -ENOMEM. */
static int find_item(struct runtimes *runtimes, const struct process *process, const struct runtime_frame *frame,
		     struct runtime_name_item *ret, uint32_t *ret_variant)
{
	uint64_t page = frame->data & V8_FRAME_CODE ? frame->pc >> PAGE_SHIFT : 0;

	for (*ret_variant = 0; *ret_variant < VARIANTS_MAX; (*ret_variant)++) {
		int r = runtime_names_find(&runtimes->names, key_of(runtimes, process, frame, page, *ret_variant), ret);
		if (r <= 0 || !page)
			return r;
		uint64_t start = (page << PAGE_SHIFT) + (uint64_t)(int64_t)(int32_t)ret->numbers[0];
		if (frame->pc >= start && frame->pc - start < ret->numbers[1])
			return 1;
	}
	return 0;
}

/* What could not be read as a whole is not found again. */
static uint64_t partial_key(const struct runtimes *runtimes, uint64_t number)
{
	const uint64_t words[] = {number};
	return runtime_names_key(&runtimes->names, words, sizeof(words));
}

/* Adds it for each of the pages of its code. */
static int add_item(struct runtimes *runtimes, const struct process *process, const struct runtime_frame *frame,
		    const struct v8_table *table)
{
	uint64_t page_start = frame->pc >> PAGE_SHIFT << PAGE_SHIFT;
	struct runtime_name_item item = {
		.texts = {buffer_bytes(&table->names), buffer_bytes(&table->files), buffer_bytes(&table->lines)},
		.numbers = {(uint32_t)(table->start - page_start), (uint32_t)table->size},
	};
	struct runtime_frame in = *frame;
	struct runtime_name_item other;
	uint32_t variant;

	if (table->is_partial)
		return runtime_names_add(&runtimes->names, partial_key(runtimes, ++runtimes->partial), &item);
	if (!(frame->data & V8_FRAME_CODE))
		return runtime_names_add(&runtimes->names, key_of(runtimes, process, frame, 0, 0), &item);
	uint64_t first = table->start >> PAGE_SHIFT, last = (table->start + table->size - 1) >> PAGE_SHIFT;
	for (uint64_t page = first; page <= last && page - first < CODE_PAGES_MAX; page++) {
		in.pc = page == first ? table->start : page << PAGE_SHIFT;
		int r = find_item(runtimes, process, &in, &other, &variant);
		if (r != 0 || variant == VARIANTS_MAX) {
			if (r < 0)
				return r;
			continue;
		}
		item.numbers[0] = (uint32_t)(table->start - (page << PAGE_SHIFT));
		item.numbers[1] = (uint32_t)table->size;
		r = runtime_names_add(&runtimes->names, key_of(runtimes, process, frame, page, variant), &item);
		if (r < 0)
			return r;
	}
	return 0;
}

/* Positive: there is a table. Otherwise what becomes of the frame is kept for its address: that its name is lost, or that it is
 * none of V8. */
static int read_item(struct runtimes *runtimes, const struct process *process, const struct runtime_file *file,
		     const struct runtime_frame *frame, struct v8_table *table)
{
	struct runtime_memory memory;
	struct v8_source source = {.build = &file->v8, .scripts = &runtimes->scripts, .owner = process->id};

	runtime_memory_of(process, &memory);
	source.memory = &memory;
	int r = v8_read_table(&source, frame->object, frame->data, frame->pc, table);
	if (r == -ENOMEM)
		return r;
	runtime_count(runtimes, RUNTIME_KIND_V8, r == -ENOENT ? -EBADMSG : r);
	return r;
}

static size_t take_lines(const struct runtime_file *file, const struct runtime_frame *frame, struct bytes names,
			 struct bytes files, struct bytes lines, uint64_t start, struct runtime_name *ret)
{
	struct v8_line found[V8_INLINES_MAX];
	size_t count =
		v8_table_find(names, files, lines, v8_table_offset(&file->v8.layout, start, frame->data, frame->pc), found);

	for (size_t i = 0; i < count; i++)
		ret[i] = (struct runtime_name){found[i].name, found[i].file, found[i].line, found[i].first_line};
	return count ? count : 1;
}

static uint64_t failure_key(const struct runtimes *runtimes, const struct process *process, const struct runtime_frame *frame)
{
	return key_of(runtimes, process, frame, frame->data & V8_FRAME_CODE ? frame->pc : 0, VARIANTS_MAX);
}

static int name(struct runtimes *runtimes, const struct process *process, const struct runtime_file *file,
		const struct runtime_frame *frame, struct runtime_name *ret)
{
	struct runtime_name_item item;
	struct v8_table table = {0};
	uint32_t variant;

	int r = find_item(runtimes, process, frame, &item, &variant);
	if (r == 0) {
		r = runtime_names_find(&runtimes->names, failure_key(runtimes, process, frame), &item);
		if (r > 0)
			return item.numbers[0] == OUTCOME_LOST;
		if (r == 0 && !runtime_may_read(runtimes, process, RUNTIME_KIND_V8))
			return 1;
	}
	if (r == 0) {
		r = read_item(runtimes, process, file, frame, &table);
		if (r == 0)
			r = add_item(runtimes, process, frame, &table);
		v8_table_release(&table);
		if (r < 0 && r != -ENOMEM) {
			item = (struct runtime_name_item){
				.numbers = {r == -ENOENT || r == -EBADMSG ? OUTCOME_NONE : OUTCOME_LOST}};
			r = runtime_names_add(&runtimes->names, failure_key(runtimes, process, frame), &item);
			return r < 0 ? r : item.numbers[0] == OUTCOME_LOST;
		}
		if (r == 0 && table.is_partial)
			r = runtime_names_find(&runtimes->names, partial_key(runtimes, runtimes->partial), &item);
		else if (r == 0)
			r = find_item(runtimes, process, frame, &item, &variant);
	}
	if (r <= 0)
		return r == -ENOMEM ? r : 1;
	uint64_t start = (frame->pc >> PAGE_SHIFT << PAGE_SHIFT) + (uint64_t)(int64_t)(int32_t)item.numbers[0];
	return (int)take_lines(file, frame, item.texts[0], item.texts[1], item.texts[2], start, ret);
}

static void describe(struct runtimes *runtimes, const struct runtime_file *file, pid_t pid, const char *binary,
		     struct buffer *out)
{
	const struct v8_build *build = &file->v8;
	buffer_printf(out, "V8 %u.%u.%u.%u in %s; offsets that it publishes, and %u of that version", build->major,
		      build->minor, build->build, build->patch, binary, build->from_table);
}

const struct runtime_type runtime_v8 = {
	.kind = RUNTIME_KIND_V8,
	.class = RUNTIME_STACKED,
	.word = "v8js",
	.lost_function = "[function of JavaScript]",
	.recognize = recognize,
	.place = place,
	.name = name,
	.describe = describe,
};
