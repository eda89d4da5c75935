// SPDX-License-Identifier: Apache-2.0
/*
 * BEAM (runtime/beam.h). Of each process that has it the ranges of its modules are kept, and read again now and then: so a
 * function is found by its address without reading the process, and those of a module that was loaded in place of another one
 * are not taken for the latter's. An item of names is an address of code: the name, the file; the function's first line, the
 * line.
 */
#include <errno.h>
#include <string.h>

#include "agent/runtime/runtimes.h"
#include "base/alloc.h"
#include "base/time.h"

#define BEAMS_MAX	32u /* processes whose modules are kept */
#define READ_AGAIN_NS	(20 * NS_PER_MS)
#define READ_MISSING_NS NS_PER_MS	/* if an address is in no module */
#define TRIES_MAX	4096u		/* that come too early: a process can seem to be about to begin for ever */
#define SHARED_CODE	"[shared code]" /* of the virtual machine: calls of C, arithmetic of large numbers ... */

struct runtime_beam {
	pid_t pid;
	int result;	/* of the last reading */
	uint32_t tries; /* that came too early, or to nonsense */
	size_t file;	/* its place in runtimes->files */
	uint64_t bias, used;
	int64_t read_ns;
	struct beam_modules modules;
};

static int recognize(struct elf_file *file, struct runtime_file *ret, struct error *err)
{
	int r = beam_recognize(file, &ret->beam, err);
	ret->code_address = ret->beam.code;
	ret->code_offset = ret->beam.offset;
	return r;
}

/* ---- modules ---- */

void runtime_beams_release(struct runtimes *runtimes)
{
	for (size_t i = 0; i < runtimes->beam_count; i++)
		beam_modules_release(&runtimes->beams[i].modules);
	runtimes->beams = mem_free(runtimes->beams);
	runtimes->beam_count = runtimes->beam_capacity = 0;
}

static struct runtime_beam *take_item(struct runtimes *runtimes)
{
	struct runtime_beam *oldest = NULL;

	if (runtimes->beam_count < BEAMS_MAX &&
	    array_reserve(&runtimes->beams, &runtimes->beam_capacity, runtimes->beam_count + 1, BEAMS_MAX) == 0) {
		oldest = &runtimes->beams[runtimes->beam_count++];
		*oldest = (struct runtime_beam){0};
	}
	for (size_t i = 0; i < runtimes->beam_count; i++)
		if (!oldest || runtimes->beams[i].used < oldest->used)
			oldest = &runtimes->beams[i];
	return oldest;
}

/* NULL if there is no memory. Valid until the next call. */
static struct runtime_beam *find_beam(struct runtimes *runtimes, const struct runtime_file *file, pid_t pid, uint64_t bias)
{
	size_t at = (size_t)(file - runtimes->files);
	struct runtime_beam *beam = NULL;

	for (size_t i = 0; i < runtimes->beam_count && !beam; i++) {
		struct runtime_beam *item = &runtimes->beams[i];
		if (item->pid == pid && item->bias == bias && item->file == at)
			beam = item;
	}
	if (!beam) {
		beam = take_item(runtimes);
		if (!beam)
			return NULL;
		beam_modules_release(&beam->modules);
		*beam = (struct runtime_beam){.pid = pid, .bias = bias, .file = at};
	}
	beam->used = ++runtimes->beam_clock;
	return beam;
}

/* Reads its modules if they were read longer than that ago. Those that are known stay if they cannot be read. 0 or -ENOMEM. */
static int read_modules(struct runtime_beam *beam, const struct runtime_file *file, const struct runtime_memory *memory,
			int64_t age_ns)
{
	int64_t now = time_monotonic_ns();

	if (beam->read_ns && now - beam->read_ns < age_ns)
		return 0;
	beam->read_ns = now;
	beam->result = beam_read_modules(&file->beam, beam->bias, memory, &beam->modules);
	return beam->result == -ENOMEM ? -ENOMEM : 0;
}

static int place(struct runtimes *runtimes, const struct runtime_file *file, pid_t pid, const struct mapped_runtime *mapped,
		 void *ret)
{
	struct runtime_memory memory;

	runtime_memory_of_pid(&pid, &memory);
	struct runtime_beam *beam = find_beam(runtimes, file, pid, mapped->bias);
	if (!beam || read_modules(beam, file, &memory, 0) < 0)
		return 0;
	int r = beam->result;
	if (r == 0)
		r = beam_place(&file->beam, mapped->bias, &memory, &beam->modules, ret);
	if (r < 0)
		return ++beam->tries > TRIES_MAX ? 0 : -EAGAIN; /* nonsense may be of a process that is just being made */
	return (int)sizeof(struct beam_process);
}

/* ---- names ---- */

struct naming {
	struct runtimes *runtimes;
	const struct process *process;
	const struct runtime_file *file;
	const struct runtime_frame *frame;
	struct runtime_memory memory;
	struct runtime_beam *beam;
};

/* Whether the call before the address is the one that the walk saw. */
static int check_call(const struct naming *naming)
{
	uint64_t bytes = 0;

	if (naming->frame->data & BEAM_FRAME_LEAF)
		return 0;
	int r = naming->memory.read(naming->memory.context, naming->frame->pc + 1 - sizeof(bytes), &bytes, sizeof(bytes));
	if (r < 0)
		return r;
	return runtime_check_of(bytes, 0, 0) == RUNTIME_CHECK(naming->frame->data) ? 0 : -ESTALE;
}

static int add_item(const struct naming *naming, const struct beam_range *module, uint64_t key)
{
	struct runtime_function function = {0};
	uint32_t line = 0;

	int r = check_call(naming);
	if (r == 0)
		r = beam_read_function(&naming->file->beam, naming->beam->bias, &naming->memory, module, naming->frame->pc,
				       &function, &line);
	if (r == -ENOMEM)
		return r;
	if (r == -ENOENT) {
		function = (struct runtime_function){.name = SHARED_CODE};
		line = 0;
	} else {
		runtime_count(naming->runtimes, RUNTIME_KIND_BEAM, r);
	}
	if (r < 0 && r != -ENOENT)
		function = (struct runtime_function){0};
	return runtime_names_add(&naming->runtimes->names, key,
				 &(struct runtime_name_item){
					 .texts = {bytes_of_string(function.name), bytes_of_string(function.file)},
					 .numbers = {function.first_line, line},
				 });
}

static int name(struct runtimes *runtimes, const struct process *process, const struct runtime_file *file,
		const struct runtime_frame *frame, struct runtime_name *ret)
{
	struct naming naming = {.runtimes = runtimes, .process = process, .file = file, .frame = frame};
	struct runtime_name_item item;

	runtime_memory_of(process, &naming.memory);
	naming.beam = find_beam(runtimes, file, process->pid, process->maps->runtimes[RUNTIME_STACKED].bias);
	if (!naming.beam)
		return -ENOMEM;
	int r = read_modules(naming.beam, file, &naming.memory, READ_AGAIN_NS);
	const struct beam_range *module = beam_find_module(&naming.beam->modules, frame->pc);
	if (r == 0 && !module) {
		r = read_modules(naming.beam, file, &naming.memory, READ_MISSING_NS);
		module = beam_find_module(&naming.beam->modules, frame->pc);
	}
	if (r < 0)
		return r;
	if (!module) {
		ret->name = SHARED_CODE;
		return 1;
	}
	const uint64_t words[] = {process->id, frame->pc, module->start, module->end, module->since};
	uint64_t key = runtime_names_key(&runtimes->names, words, sizeof(words));
	r = runtime_names_find(&runtimes->names, key, &item);
	if (r == 0) {
		r = add_item(&naming, module, key);
		if (r == 0)
			r = runtime_names_find(&runtimes->names, key, &item);
	}
	if (r <= 0)
		return r == -ENOMEM ? r : 1;
	*ret = (struct runtime_name){(const char *)item.texts[0].data, (const char *)item.texts[1].data, item.numbers[1],
				     item.numbers[0]};
	return 1;
}

/* ---- for people ---- */

static void describe(struct runtimes *runtimes, const struct runtime_file *file, pid_t pid, const char *binary,
		     struct buffer *out)
{
	const struct beam_build *build = &file->beam;
	const struct runtime_beam *beam = NULL;

	for (size_t i = 0; i < runtimes->beam_count && !beam; i++)
		beam = runtimes->beams[i].pid == pid ? &runtimes->beams[i] : NULL;
	buffer_printf(out, "Erlang/OTP %u (erts %s) in %s; offsets of that release%s", build->release, build->version, binary,
		      build->layout.is_tested ? "" : ", which was not tested");
	if (beam && beam->result < 0 && !beam->modules.count)
		buffer_append_string(out, "; not shown: its modules are not found");
}

const struct runtime_type runtime_beam = {
	.kind = RUNTIME_KIND_BEAM,
	.class = RUNTIME_STACKED,
	.word = "beam",
	.lost_function = "[function of Erlang]",
	.recognize = recognize,
	.place = place,
	.name = name,
	.describe = describe,
};
