// SPDX-License-Identifier: Apache-2.0
/* CPython (runtime/python.h). An item of names has the name, the file, and the table of lines; the first line, and the format.
 */
#include <errno.h>

#include "agent/runtime/runtimes.h"
#include "base/alloc.h"

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

static int read_item(struct runtimes *runtimes, const struct process *process, const struct runtime_file *file, uint64_t key,
		     uint64_t object, uint64_t data)
{
	const struct python_layout *layout = &file->python.layout;
	struct python_function function = {0};
	struct runtime_memory memory;

	runtime_memory_of(process, &memory);
	int r = python_read_function(layout, &memory, RUNTIME_OBJECT(object), RUNTIME_CHECK(data), &function);
	_cleanup_(mem_freep) uint8_t *lines = function.lines;
	if (r == -ENOMEM)
		return r;
	runtime_count(runtimes, RUNTIME_KIND_PYTHON, r);
	if (r < 0)
		function = (struct python_function){0};
	if (r == 0 && !function.name[0])
		function.name[0] = '?';
	return runtime_names_add(&runtimes->names, key,
				 &(struct runtime_name_item){
					 .texts = {bytes_of_string(function.name),
						   bytes_of_string(function.file),
						   {lines, function.lines_bytes}},
					 .numbers = {function.first_line, layout->lines},
				 });
}

static int name(struct runtimes *runtimes, const struct process *process, const struct runtime_file *file,
		const struct runtime_frame *frame, struct runtime_name *ret)
{
	uint64_t object = frame->object, data = frame->data;
	uint64_t key = runtime_key_of(runtimes, process, object, data, 0);
	struct runtime_name_item item;

	int r = runtime_find_name(runtimes, process, RUNTIME_KIND_PYTHON, key, &item);
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
