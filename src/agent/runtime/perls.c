// SPDX-License-Identifier: Apache-2.0
/* Perl (runtime/perl.h). */
#include "agent/runtime/runtimes.h"

static int recognize(struct elf_file *file, struct runtime_file *ret, struct error *err)
{
	int r = perl_recognize(file, &ret->perl, err);
	ret->code_address = ret->perl.loop_start;
	ret->code_offset = ret->perl.loop_offset;
	return r;
}

static int place(struct runtimes *runtimes, const struct runtime_file *file, pid_t pid, const struct mapped_runtime *mapped,
		 void *ret)
{
	(void)runtimes;
	(void)pid;
	perl_place(&file->perl, mapped->bias, ret);
	return sizeof(struct perl_process);
}

static int read_function(const struct runtime_file *file, const struct runtime_memory *memory, uint64_t object, uint32_t check,
			 struct runtime_function *ret)
{
	return perl_read_function(&file->perl.layout, memory, object, check, ret);
}

static int name(struct runtimes *runtimes, const struct process *process, const struct runtime_file *file,
		const struct runtime_frame *frame, struct runtime_name *ret)
{
	return runtime_name_by_line(runtimes, process, file, read_function, frame->object, frame->data, ret);
}

static void describe(struct runtimes *runtimes, const struct runtime_file *file, pid_t pid, const char *binary,
		     struct buffer *out)
{
	(void)runtimes;
	(void)pid;
	const struct perl_build *build = &file->perl;
	buffer_printf(out, "Perl %u.%u%s in %s; offsets of that version%s", build->version >> 8, build->version & 0xff,
		      build->key ? "" : ", without threads,", binary, build->layout.is_tested ? "" : ", which was not tested");
}

const struct runtime_type runtime_perl = {
	.kind = RUNTIME_KIND_PERL,
	.class = RUNTIME_LISTED,
	.word = "perl",
	.lost_function = "[function of Perl]",
	.recognize = recognize,
	.place = place,
	.name = name,
	.describe = describe,
};
