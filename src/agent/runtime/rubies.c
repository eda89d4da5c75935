// SPDX-License-Identifier: Apache-2.0
/* Ruby (runtime/ruby.h). An item of names has the name, the file, and the table of lines; the first line. */
#include <errno.h>

#include "agent/runtime/runtimes.h"
#include "base/alloc.h"

static int recognize(struct elf_file *file, struct runtime_file *ret, struct error *err)
{
	int r = ruby_recognize(file, &ret->ruby, err);
	ret->code_address = ret->ruby.loop_start;
	ret->code_offset = ret->ruby.loop_offset;
	return r;
}

static int place(struct runtimes *runtimes, const struct runtime_file *file, pid_t pid, const struct mapped_runtime *mapped,
		 void *ret)
{
	(void)runtimes;
	(void)pid;
	ruby_place(&file->ruby, mapped->bias, ret);
	return sizeof(struct ruby_process);
}

static int read_item(struct runtimes *runtimes, const struct process *process, const struct runtime_file *file, uint64_t key,
		     uint64_t object, uint64_t data)
{
	struct ruby_function ruby;
	struct runtime_memory memory;

	runtime_memory_of(process, &memory);
	int r = ruby_read_function(&file->ruby, process->maps->runtimes[RUNTIME_LISTED].bias, &memory, RUNTIME_OBJECT(object),
				   RUNTIME_CHECK(data), &ruby);
	_cleanup_(mem_freep) uint8_t *lines = ruby.lines;
	if (r == -ENOMEM)
		return r;
	runtime_count(runtimes, RUNTIME_KIND_RUBY, r);
	if (r < 0)
		ruby.function = (struct runtime_function){0};
	if (r == 0 && !ruby.function.name[0])
		ruby.function.name[0] = '?';
	return runtime_names_add(&runtimes->names, key,
				 &(struct runtime_name_item){
					 .texts = {bytes_of_string(ruby.function.name),
						   bytes_of_string(ruby.function.file),
						   {lines, ruby.lines_bytes}},
					 .numbers = {ruby.function.first_line},
				 });
}

static int name(struct runtimes *runtimes, const struct process *process, const struct runtime_file *file,
		const struct runtime_frame *frame, struct runtime_name *ret)
{
	uint64_t object = frame->object, data = frame->data;
	uint64_t key = runtime_key_of(runtimes, process, object, data, 0);
	struct runtime_name_item item;

	int r = runtime_find_name(runtimes, process, RUNTIME_KIND_RUBY, key, &item);
	if (r == 0) {
		r = read_item(runtimes, process, file, key, object, data);
		if (r == 0)
			r = runtime_names_find(&runtimes->names, key, &item);
	}
	if (r <= 0)
		return r == -ENOMEM ? r : 1;
	ret->name = (const char *)item.texts[0].data;
	ret->file = (const char *)item.texts[1].data;
	ret->first_line = item.numbers[0];
	ret->line = item.texts[1].len ? ruby_line(item.texts[2], item.numbers[0], RUNTIME_PLACE(data)) : 0;
	return 1;
}

static void describe(struct runtimes *runtimes, const struct runtime_file *file, pid_t pid, const char *binary,
		     struct buffer *out)
{
	(void)runtimes;
	(void)pid;
	const struct ruby_build *build = &file->ruby;
	buffer_printf(out, "Ruby %u.%u in %s; offsets of that version%s%s", build->version >> 8, build->version & 0xff, binary,
		      build->layout.is_tested ? "" : ", which was not tested",
		      build->is_one_part ? "; C functions between Ruby's are not told apart" : "");
}

const struct runtime_type runtime_ruby = {
	.kind = RUNTIME_KIND_RUBY,
	.class = RUNTIME_LISTED,
	.word = "ruby",
	.lost_function = "[function of Ruby]",
	.recognize = recognize,
	.place = place,
	.name = name,
	.describe = describe,
};
