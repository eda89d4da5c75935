// SPDX-License-Identifier: Apache-2.0
/* PHP (runtime/php.h). */
#include "agent/runtime/runtimes.h"

static int recognize(struct elf_file *file, struct runtime_file *ret, struct error *err)
{
	int r = php_recognize(file, &ret->php, err);
	ret->code_address = ret->php.loop_start;
	ret->code_offset = ret->php.loop_offset;
	return r;
}

static int place(struct runtimes *runtimes, const struct runtime_file *file, pid_t pid, const struct mapped_runtime *mapped,
		 void *ret)
{
	(void)runtimes;
	(void)pid;
	php_place(&file->php, mapped->bias, ret);
	return sizeof(struct php_process);
}

static int read_function(const struct runtime_file *file, const struct runtime_memory *memory, uint64_t object, uint32_t check,
			 struct runtime_function *ret)
{
	return php_read_function(&file->php.layout, memory, object & ~(uint64_t)PHP_OBJECT_MAIN, check, ret);
}

static int name(struct runtimes *runtimes, const struct process *process, const struct runtime_file *file,
		const struct runtime_frame *frame, struct runtime_name *ret)
{
	int r = runtime_name_by_line(runtimes, process, file, read_function, frame->object, frame->data, ret);

	/* A server that compiles a file for each request has thrown its code away before it can be read. */
	if (r > 0 && !ret->name[0] && frame->object & PHP_OBJECT_MAIN)
		ret->name = PHP_MAIN_NAME;
	return r;
}

static void describe(struct runtimes *runtimes, const struct runtime_file *file, pid_t pid, const char *binary,
		     struct buffer *out)
{
	(void)runtimes;
	(void)pid;
	const struct php_build *build = &file->php;
	buffer_printf(out, "PHP %u.%u%s in %s; offsets of that version%s", build->version >> 8, build->version & 0xff,
		      build->globals ? "" : ", thread-safe,", binary, build->layout.is_tested ? "" : ", which was not tested");
}

const struct runtime_type runtime_php = {
	.kind = RUNTIME_KIND_PHP,
	.class = RUNTIME_LISTED,
	.word = "php",
	.lost_function = "[function of PHP]",
	.recognize = recognize,
	.place = place,
	.name = name,
	.describe = describe,
};
