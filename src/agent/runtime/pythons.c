// SPDX-License-Identifier: Apache-2.0
/* CPython (runtime/python.h). An item of names has the name, the file, and the table of lines; the first line, and the format.
 */
#include <errno.h>
#include <string.h>

#include "agent/runtime/runtimes.h"

static int recognize(struct elf_file *file, struct runtime_file *ret, struct error *err)
{
	int r = python_recognize(file, &ret->python, err);
	ret->code_address = ret->python.loop_start;
	ret->code_offset = ret->python.loop_offset;
	return r;
}

static int place(struct runtimes *runtimes, const struct runtime_file *file, pid_t pid, const struct mapped_runtime *mapped,
		 void *ret)
{
	(void)runtimes;
	(void)pid;
	python_place(&file->python, mapped->bias, ret);
	return sizeof(struct python_process);
}

static int read_function(const struct runtime_file *file, uint64_t bias, const struct runtime_memory *memory, uint64_t object,
			 uint32_t check, struct runtime_tabled *ret)
{
	struct python_function found = {0};

	(void)bias;
	int r = python_read_function(&file->python.layout, memory, object, check, &found);
	memcpy(ret->function.name, found.name, sizeof(ret->function.name));
	memcpy(ret->function.file, found.file, sizeof(ret->function.file));
	ret->function.first_line = found.first_line;
	ret->table = found.lines;
	ret->table_bytes = found.lines_bytes;
	ret->number = file->python.layout.lines;
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
	ret->line = item.texts[0].len ? python_line(item.numbers[1], item.texts[2], item.numbers[0], RUNTIME_PLACE(data)) : 0;
	return 1;
}

static void describe(struct runtimes *runtimes, const struct runtime_file *file, pid_t pid, const char *binary,
		     struct buffer *out)
{
	(void)runtimes;
	(void)pid;
	const struct python_build *build = &file->python;
	buffer_printf(out, "CPython %u.%u%s in %s; offsets %s", build->version >> 8, build->version & 0xff,
		      build->is_free_threaded ? ", free-threaded," : "", binary,
		      build->is_published ? "that it publishes" : "of that version");
}

const struct runtime_type runtime_python = {
	.kind = RUNTIME_KIND_PYTHON,
	.class = RUNTIME_LISTED,
	.word = "python",
	.lost_function = "[function of Python]",
	.recognize = recognize,
	.place = place,
	.name = name,
	.describe = describe,
};
