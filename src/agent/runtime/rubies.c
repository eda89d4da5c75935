// SPDX-License-Identifier: Apache-2.0
/* Ruby (runtime/ruby.h). An item of names has the name, the file, and the table of lines; the first line. */
#include <errno.h>

#include "agent/runtime/runtimes.h"

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

static int read_function(const struct runtime_file *file, uint64_t bias, const struct runtime_memory *memory, uint64_t object,
			 uint32_t check, struct runtime_tabled *ret)
{
	struct ruby_function found = {0};

	int r = ruby_read_function(&file->ruby, bias, memory, object, check, &found);
	ret->function = found.function;
	ret->table = found.lines;
	ret->table_bytes = found.lines_bytes;
	return r;
}

static int name(struct runtimes *runtimes, const struct process *process, const struct runtime_file *file,
		const struct runtime_frame *frame, struct runtime_name *ret)
{
	uint64_t object = frame->object, data = frame->data;
	struct runtime_name_item item;

	int r = runtime_find_tabled(runtimes, process, file, read_function, object, data, &item);
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
