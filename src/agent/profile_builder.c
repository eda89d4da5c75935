// SPDX-License-Identifier: Apache-2.0
/*
 * From raw addresses to locations.
 *
 *   - Leaf addresses are taken as they are: the instruction that was interrupted. That holds for the user's leaf below a kernel
 *     stack too: after a system call it is the instruction behind `syscall`, which belongs to the same function in all but
 *     contrived code; after a page fault it is the faulting instruction, often the first of its function, where subtracting
 *     one would be plainly wrong. All others are return addresses, and 1 is subtracted so that they lie in the call.
 *   - User code: mapping and location are in file offsets (mapping.start == mapping.offset), not in addresses of one process.
 *     The file offset is what identifies an instruction anyhow; this way processes that run the same code share their
 *     locations.
 *   - Kernel code is named at once, by the sink: addresses mean nothing on another host or after a reboot. A location is a
 *     function: address 0, one line, in the mapping "[kernel.kallsyms]" or "[module]". Without a name the address is kept.
 *     Unless the server has the names of this very kernel: then it is an address in the mapping "[kernel.kallsyms]" with the
 *     kernel's build-id, relative to the beginning of its text, which does not change from boot to boot. Modules, BPF programs
 *     and trampolines have no such place, and stay names.
 *   - Functions of Python are named at once, too, and are no addresses: a function with its file and line, in the mapping of
 * its interpreter. Those that the native walk did not come to (bpf/python.h) follow the outermost ones that it came to, if it
 *     is complete, since then only their place among native frames is not known; else they are behind what is missing.
 *   - Code made at run time: named by the sink (perf maps), as a function in the mapping that the sink says; else the address
 *     is kept in "[anon]".
 */
#include "agent/profile_builder.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>

#include "base/alloc.h"
#include "base/time.h"
#include "elf/file_ids.h"
#include "profile/runtimes.h"

#define FRAMES_MAX	   (2 * ABI_FRAMES_MAX + ABI_KERNEL_FRAMES_MAX + 1) /* a mark beside each user frame, at most */
#define KERNEL_MAPPING	   "[kernel.kallsyms]"
#define TRACING_FRAMES_MAX 10

void profile_builder_init(struct profile_builder *builder)
{
	struct utsname names;

	if (uname(&names) == 0) {
		snprintf(builder->host, sizeof(builder->host), "%s", names.nodename);
		snprintf(builder->release, sizeof(builder->release), "%s", names.release);
	}
	builder->sample_labels = (struct sample_labels){.binaries = builder->binaries,
							.cgroups = builder->cgroups,
							.host = builder->host,
							.release = builder->release,
							.given = builder->labels,
							.relabel = builder->relabel,
							.by_thread = builder->is_timed};
	/* A recording has one name a thread, and markers bring it. */
	thread_names_init(&builder->thread_names);
	builder->sample_labels.names = builder->is_timed ? NULL : &builder->thread_names;
	builder->wall_clock_ns = time_now_ns() - time_monotonic_ns();
}

void profile_builder_release(struct profile_builder *builder)
{
	builder->profile = profile_free(builder->profile);
	builder->states = mem_free(builder->states);
	sample_labels_release(&builder->sample_labels);
	thread_names_release(&builder->thread_names);
	index32_release(&builder->index);
	map64_release(&builder->kernel_locations);
}

/* ---- locations ---- */

static int add_mapping(struct profile *profile, const char *file, const char *build_id, struct profile_mapping mapping,
		       uint32_t *ret, struct error *err)
{
	int r = profile_add_cstring(profile, file, &mapping.file_name, err);
	if (r == 0)
		r = profile_add_cstring(profile, build_id, &mapping.build_id, err);
	return r < 0 ? r : profile_add_mapping(profile, &mapping, ret, err);
}

/* A location that is a name, and perhaps a line of a source file. */
struct named_frame {
	const char *name, *mapping, *source; /* mapping NULL = none, source NULL or "" = not known */
	enum profile_frame_type type;
	uint32_t line, first_line;
};

static int add_line(struct profile *profile, const struct named_frame *frame, struct profile_line *ret, struct error *err)
{
	struct profile_function function = {.start_line = frame->first_line};

	*ret = (struct profile_line){.line = frame->line};
	int r = profile_add_cstring(profile, frame->name, &function.name, err);
	function.system_name = function.name;
	if (r == 0 && frame->source)
		r = profile_add_cstring(profile, frame->source, &function.file_name, err);
	return r < 0 ? r : profile_add_function(profile, &function, &ret->function, err);
}

/* lines: innermost first; the mapping and the type are those of `frame`. */
static int add_lines(struct profile *profile, const struct named_frame *frame, const struct profile_line *lines, size_t count,
		     uint32_t *ret, struct error *err)
{
	struct profile_location location = {.frame_type = frame->type};

	int r = frame->mapping
			? add_mapping(profile, frame->mapping, "",
				      (struct profile_mapping){.flags = PROFILE_MAPPING_HAS_FUNCTIONS}, &location.mapping, err)
			: 0;
	return r < 0 ? r : profile_add_location(profile, &location, lines, (uint32_t)count, ret, err);
}

static int add_named(struct profile *profile, const struct named_frame *frame, uint32_t *ret, struct error *err)
{
	struct profile_line line;

	int r = add_line(profile, frame, &line, err);
	return r < 0 ? r : add_lines(profile, frame, &line, 1, ret, err);
}

/* A location that is an address, in the file's or the process's space. */
static int add_address(struct profile *profile, uint32_t mapping, uint64_t address, enum profile_frame_type type, uint32_t *ret,
		       struct error *err)
{
	struct profile_location location = {.mapping = mapping, .address = address, .frame_type = type};
	return profile_add_location(profile, &location, NULL, 0, ret, err);
}

static int add_kernel_address(struct profile_builder *builder, const struct agent_symbol *symbol, uint32_t *ret,
			      struct error *err)
{
	uint32_t mapping;
	int r = add_mapping(builder->profile, KERNEL_MAPPING, symbol->build_id,
			    (struct profile_mapping){.limit = symbol->text_bytes}, &mapping, err);
	return r < 0 ? r : add_address(builder->profile, mapping, symbol->offset, PROFILE_FRAME_KERNEL, ret, err);
}

/* ret_is_schedule: it is in the function where a wait begins. */
static int kernel_location(struct profile_builder *builder, uint64_t address, uint32_t *ret, bool *ret_is_schedule,
			   struct error *err)
{
	const struct agent_sink *sink = builder->sink;
	struct agent_symbol symbol = {0};
	uint64_t known;
	uint32_t mapping;
	int r;

	if (map64_get(&builder->kernel_locations, address, &known)) {
		*ret = (uint32_t)known;
		*ret_is_schedule = known >> 32;
		return 0;
	}
	*ret_is_schedule = false;
	if (sink->kernel_symbol && sink->kernel_symbol(sink->context, address, &symbol)) {
		r = symbol.build_id[0]
			    ? add_kernel_address(builder, &symbol, ret, err)
			    : add_named(builder->profile,
					&(struct named_frame){.name = symbol.name,
							      .mapping = symbol.module[0] ? symbol.module : KERNEL_MAPPING,
							      .type = PROFILE_FRAME_KERNEL},
					ret, err);
		*ret_is_schedule = strncmp(symbol.name, "__schedule", 10) == 0;
	} else {
		r = add_mapping(builder->profile, KERNEL_MAPPING, "", (struct profile_mapping){.limit = UINT64_MAX}, &mapping,
				err);
		if (r == 0)
			r = add_address(builder->profile, mapping, address, PROFILE_FRAME_KERNEL, ret, err);
	}
	known = *ret | (uint64_t)*ret_is_schedule << 32;
	if (r == 0 && map64_put(&builder->kernel_locations, address, known) < 0)
		return error_nomem(err);
	return r;
}

static int jit_location(struct profile_builder *builder, struct process *process, uint64_t address, uint32_t *ret,
			struct error *err)
{
	const struct agent_sink *sink = builder->sink;
	const struct process_mapping *jitdump = &process->jitdump;
	struct agent_symbol symbol = {0};
	struct agent_jit_address asked = {.address = address, .time_ns = builder->sample_ns, .pid = process->pid};
	uint32_t mapping;

	asked.namespace_pid = process_namespace_pid(process);
	if (process->uid == (uid_t)-1) /* the snapshot leaves it to be asked when it matters */
		process_read_user(process);
	asked.uid = process->uid;
	asked.started_ns = process->started_ns;
	if (jitdump->binary) {
		const struct binary *file = binary_get(builder->binaries, jitdump->binary);
		asked.jitdump_path = file->path;
		asked.jitdump_device = file->device;
		asked.jitdump_inode = file->inode;
		asked.jitdump_start = jitdump->start;
		asked.jitdump_end = jitdump->end;
	}
	enum agent_cost before = cost_enter(builder->binaries->meter, AGENT_COST_SYMBOLS);
	bool found = sink->jit_symbol && sink->jit_symbol(sink->context, &asked, &symbol);
	cost_enter(builder->binaries->meter, before);
	if (found)
		return add_named(builder->profile,
				 &(struct named_frame){.name = symbol.name,
						       .mapping = symbol.module[0] ? symbol.module : "[anon]",
						       .source = symbol.file,
						       .type = PROFILE_FRAME_JIT,
						       .line = symbol.line},
				 ret, err);
	int r = add_mapping(builder->profile, "[anon]", "", (struct profile_mapping){.limit = UINT64_MAX}, &mapping, err);
	return r < 0 ? r : add_address(builder->profile, mapping, address, PROFILE_FRAME_JIT, ret, err);
}

static int file_location(struct profile_builder *builder, const struct process *process, const struct process_mapping *mapping,
			 uint64_t address, uint32_t *ret, struct error *err)
{
	struct profile_mapping part = {
		.start = mapping->offset,
		.limit = mapping->offset + (mapping->end - mapping->start),
		.offset = mapping->offset,
	};
	uint32_t id;

	binary_prepare(builder->binaries, mapping->binary, process->pid, mapping, builder->sink);
	const struct binary *binary = binary_get(builder->binaries, mapping->binary);
	bool is_hash;
	const char *build_id = binary_id(builder->binaries, mapping, &is_hash);
	part.flags = is_hash ? PROFILE_MAPPING_ID_IS_HASH : 0;
	/* Not what is only assumed: it may be another file of that build-id. */
	const struct binary_file *file = binary_file_get(builder->binaries, mapping->file);
	char go_id[BUILD_ID_HEX_MAX] = "";
	if (is_hash && binary->go_build_id && !file->content.is_foreign)
		file_id_of_go(bytes_of_string(binary->go_build_id), go_id);
	int r = profile_add_cstring(builder->profile, mapping->is_assumed ? "" : file->content.key, &part.content, err);
	if (r == 0)
		r = profile_add_cstring(builder->profile, go_id, &part.go_id, err);
	if (r < 0)
		return r;
	/* The vdso's mapping has no offset in a file; its image begins with it. */
	r = add_mapping(builder->profile, binary->path, build_id, part, &id, err);
	return r < 0 ? r
		     : add_address(builder->profile, id, address - mapping->start + mapping->offset, PROFILE_FRAME_NATIVE, ret,
				   err);
}

static int user_location(struct profile_builder *builder, struct process *process, uint64_t address, uint32_t *ret,
			 uint32_t *losses, struct error *err)
{
	const struct process_mapping *mapping = process_find_mapping(process, address);

	if (!mapping) {
		*losses |= 1u << (process->unknown ? AGENT_LOSS_NO_PROCESS : AGENT_LOSS_NO_MAPPING);
		return add_address(builder->profile, 0, address, PROFILE_FRAME_NATIVE, ret, err);
	}
	if (binary_get(builder->binaries, mapping->binary)->kind == BINARY_MEMFD)
		binary_prepare(builder->binaries, mapping->binary, process->pid, mapping, builder->sink);
	if (binary_get(builder->binaries, mapping->binary)->kind == BINARY_JIT)
		return jit_location(builder, process, address, ret, err);
	return file_location(builder, process, mapping, address, ret, err);
}

/* ---- stacks ---- */

struct frames {
	uint32_t locations[FRAMES_MAX]; /* leaf first */
	size_t count;
	size_t schedule;    /* the first that is in __schedule, from 1; 0 = none */
	size_t runtime_end; /* behind the last function of an interpreter whose place is known; 0 = none */
	uint32_t losses;
	bool is_cut;	    /* callers are missing */
	bool is_cut_marked; /* a frame stands for them */
};

/* The kernel stack of a wait begins with the program that took it and with what called that, by names that differ from kernel
 * to kernel: all up to __schedule, where the wait begins. Without names nothing is left out. */
static void drop_tracing(struct frames *frames)
{
	if (!frames->schedule || frames->schedule > TRACING_FRAMES_MAX)
		return;
	size_t most = frames->schedule - 1;
	frames->count -= most;
	memmove(frames->locations, frames->locations + most, frames->count * sizeof(*frames->locations));
}

/* What stands for a frame that has no name of its own, or for one that is missing. */
static int add_marker(struct profile_builder *builder, enum profile_builder_marker marker, struct frames *frames,
		      struct error *err)
{
	static const char *const names[PROFILE_BUILDER_MARKERS] = {"[unknown stack]", "[signal handler]",
								   "[caller may be missing]"};
	uint32_t *location = &builder->marker_locations[marker];
	const struct named_frame frame = {.name = names[marker], .type = PROFILE_FRAME_UNKNOWN};
	int r = *location ? 0 : add_named(builder->profile, &frame, location, err);

	if (r == 0)
		frames->locations[frames->count++] = *location;
	return r;
}

static int add_user_frame(struct profile_builder *builder, struct process *process, uint64_t frame, struct frames *frames,
			  struct error *err)
{
	int r = frame & ABI_FRAME_GAP ? add_marker(builder, PROFILE_BUILDER_GAP, frames, err) : 0;

	if (r < 0 || frame & ABI_FRAME_SIGNAL)
		return r < 0 ? r : add_marker(builder, PROFILE_BUILDER_SIGNAL, frames, err);
	return user_location(builder, process, ABI_FRAME_ADDRESS(frame) - 1, &frames->locations[frames->count++],
			     &frames->losses, err);
}

/* 1, *ret set; 0 if the frame's native address is all that can be shown. */
static int runtime_location(struct profile_builder *builder, const struct process *process, const struct runtime_frame *words,
			    uint32_t *ret, uint32_t *losses, struct error *err)
{
	struct runtime_name names[RUNTIME_INLINES_MAX];
	struct profile_line lines[RUNTIME_INLINES_MAX];
	struct named_frame frame = {0};
	const struct runtime_type *type;

	enum agent_cost before = cost_enter(builder->binaries->meter, AGENT_COST_SYMBOLS);
	int count = runtimes_name(builder->runtimes, process, words, &type, names);
	cost_enter(builder->binaries->meter, before);
	if (count <= 0)
		return count < 0 ? error_nomem(err) : 0;
	frame.mapping = type->word;
	frame.type = profile_runtime_of(bytes_of_string(type->word))->type;
	for (int i = 0; i < count; i++) {
		if (!names[i].name[0])
			*losses |= 1u << AGENT_LOSS_NO_NAME;
		frame.name = names[i].name[0] ? names[i].name : type->lost_function;
		frame.source = names[i].file;
		frame.line = names[i].line;
		frame.first_line = names[i].first_line;
		int r = add_line(builder->profile, &frame, &lines[i], err);
		if (r < 0)
			return r;
	}
	int r = add_lines(builder->profile, &frame, lines, (size_t)count, ret, err);
	return r < 0 ? r : 1;
}

/* A function that is listed beside the native stack. is_complete: the native walk is. */
static int add_listed_frame(struct profile_builder *builder, const struct process *process, const struct runtime_frame *words,
			    bool is_complete, struct frames *frames, struct error *err)
{
	bool is_pending = words->data & RUNTIME_FRAME_PENDING;
	size_t at = frames->count;
	uint32_t location;

	if (is_pending && is_complete && !frames->runtime_end) /* the thread is not in the interpreter (any more) */
		return 0;
	int r = runtime_location(builder, process, words, &location, &frames->losses, err);
	if (r <= 0)
		return r;
	if (is_pending && is_complete) {
		at = frames->runtime_end;
		memmove(&frames->locations[at + 1], &frames->locations[at], (frames->count - at) * sizeof(*frames->locations));
	} else if (is_pending && !frames->is_cut_marked) {
		r = add_marker(builder, PROFILE_BUILDER_CUT, frames, err);
		if (r < 0)
			return r;
		frames->is_cut_marked = true;
		at = frames->count;
	}
	frames->count++;
	if (!is_pending || is_complete)
		frames->runtime_end = at + 1;
	frames->locations[at] = location;
	return 0;
}

/* The native frame, or the functions of a runtime that it is the frame of: those that its words, which follow it, name. */
static int add_stacked_frame(struct profile_builder *builder, struct process *process, uint64_t frame,
			     const struct runtime_frame *words, struct frames *frames, struct error *err)
{
	if (!(frame & ABI_FRAME_SIGNAL)) {
		int r = frame & ABI_FRAME_GAP ? add_marker(builder, PROFILE_BUILDER_GAP, frames, err) : 0;
		if (r == 0)
			r = runtime_location(builder, process, words, &frames->locations[frames->count], &frames->losses, err);
		frames->count += r > 0;
		if (r != 0)
			return r < 0 ? r : 0;
		frame &= ~ABI_FRAME_GAP;
	}
	return add_user_frame(builder, process, frame, frames, err);
}

/* Whether two words are those of a function of a class of runtimes that is to be shown. */
static bool are_function(const struct process *process, uint64_t object, uint64_t data, enum runtime_class class)
{
	const struct runtime_type *type = object & RUNTIME_FRAME ? runtime_type_of(RUNTIME_KIND(object)) : NULL;

	return type && type->class == class && data & RUNTIME_FRAME_DATA &&
	       !runtimes_are_disbelieved(process, RUNTIME_KIND(object));
}

/* The next two functions of a listed runtime from callers[at] on; 0, 0 where there is none. */
static void find_callers(const uint64_t *callers, size_t count, size_t at, uint64_t kind, struct runtime_frame *ret)
{
	for (; at + 1 < count; at++) {
		if (!(callers[at] & RUNTIME_FRAME) || callers[at] & RUNTIME_FRAME_DATA || RUNTIME_KIND(callers[at]) != kind)
			continue;
		if (ret->caller) {
			ret->outer = callers[at];
			ret->outer_data = callers[at + 1];
			return;
		}
		ret->caller = callers[at];
		ret->caller_data = callers[at + 1];
	}
}

/* The frame at callers[*at - 1], or the leaf at 0. Goes on to the last word of what belongs to it. */
static int add_next(struct profile_builder *builder, struct process *process, uint64_t leaf, const uint64_t *callers,
		    size_t count, bool is_complete, size_t *at, struct frames *frames, struct error *err)
{
	uint64_t frame = *at == 0 ? leaf + 1 : callers[*at - 1];
	struct runtime_frame words = {.pc = ABI_FRAME_ADDRESS(frame) - 1};

	if (*at && frame & RUNTIME_FRAME) {
		if (frame & RUNTIME_FRAME_DATA || *at >= count) /* what was cut off */
			return 0;
		words = (struct runtime_frame){.object = frame, .data = callers[(*at)++]};
		find_callers(callers, count, *at, RUNTIME_KIND(frame), &words);
		return are_function(process, words.object, words.data, RUNTIME_LISTED)
			       ? add_listed_frame(builder, process, &words, is_complete, frames, err)
			       : 0;
	}
	if (*at + 2 > count || !are_function(process, callers[*at], callers[*at + 1], RUNTIME_STACKED))
		return add_user_frame(builder, process, frame, frames, err);
	words.object = callers[(*at)++];
	words.data = callers[(*at)++];
	return add_stacked_frame(builder, process, frame, &words, frames, err);
}

/* Appends one of a sample's two stacks. */
static int add_frames(struct profile_builder *builder, struct process *process, bool kernel, bool is_complete, uint64_t leaf,
		      uint64_t chain, struct frames *frames, struct error *err)
{
	const uint64_t *callers = NULL;
	size_t count = 0;

	if (!leaf)
		return 0;
	if (chain && !chains_find(builder->chains, chain, &callers, &count)) {
		frames->losses |= 1u << AGENT_LOSS_STACKS_FULL;
		frames->is_cut = true;
	}
	while (count && callers[count - 1] == 0) /* the return address of a thread's first function */
		count--;
	for (size_t i = 0; i <= count; i++) {
		bool is_schedule = false;
		int r = kernel ? kernel_location(builder, i == 0 ? leaf : callers[i - 1] - 1,
						 &frames->locations[frames->count++], &is_schedule, err)
			       : add_next(builder, process, leaf, callers, count, is_complete, &i, frames, err);
		if (r < 0)
			return r;
		if (is_schedule && !frames->schedule)
			frames->schedule = frames->count;
	}
	return 0;
}

static int add_stack(struct profile_builder *builder, struct process *process, const struct abi_sample *sample,
		     uint32_t *ret_stack, uint32_t *ret_losses, struct error *err)
{
	struct frames frames = {0};

	if (sample->flags & ABI_SAMPLE_STACK_LOST) {
		frames.losses |= 1u << AGENT_LOSS_STACKS_FULL;
		frames.is_cut = true;
	}
	if (sample->flags & ABI_SAMPLE_NO_USER_STACK)
		frames.losses |= 1u << AGENT_LOSS_NO_USER_STACK;
	if (sample->flags & ABI_SAMPLE_NO_KERNEL_STACK)
		frames.losses |= 1u << AGENT_LOSS_NO_KERNEL_STACK;
	bool is_complete = UNWIND_IS_COMPLETE(sample->result);
	int r = add_frames(builder, process, true, is_complete, sample->kernel_leaf, sample->kernel_chain, &frames, err);
	if (sample->what == ABI_WAIT_BEGINS)
		drop_tracing(&frames);
	if (r == 0)
		r = add_frames(builder, process, false, is_complete, sample->user_leaf, sample->user_chain, &frames, err);
	frames.is_cut = frames.is_cut || (!sample->user_leaf && sample->what != ABI_CPU) ||
			(sample->user_leaf && !UNWIND_IS_COMPLETE(sample->result));
	if (r == 0 && frames.is_cut && !frames.is_cut_marked)
		r = add_marker(builder, PROFILE_BUILDER_CUT, &frames, err);
	*ret_losses = frames.losses;
	return r < 0 ? r : profile_add_stack_leaf_first(builder->profile, frames.locations, frames.count, ret_stack, err);
}

/* ---- samples ---- */

static unsigned column_count(const struct profile_builder *builder)
{
	return builder->types[1] ? 2 : 1;
}

/* In the profile: the other way round. */
static unsigned place_of(const struct profile_builder *builder, unsigned column)
{
	return column_count(builder) - 1 - column;
}

static int start_profile(struct profile_builder *builder, struct error *err)
{
	_cleanup_(profile_freep) struct profile *profile = NULL;
	uint32_t type, unit;

	int r = profile_new(&profile, err);
	if (r == 0)
		r = profile_add_cstring(profile, "nanoseconds", &unit, err);
	for (unsigned i = column_count(builder); i-- > 0 && r == 0;) { /* viewers show the last one first */
		r = profile_add_cstring(profile, builder->types[i], &type, err);
		if (r == 0)
			r = profile_add_sample_type(profile, type, unit, err);
	}
	if (r < 0)
		return r;
	profile->period_type = (struct profile_value_type){type, unit};
	profile->period = builder->period_ns;
	r = sample_labels_add_resource(&builder->sample_labels, profile, err);
	if (r < 0)
		return r;
	builder->profile = TAKE(profile);
	return 0;
}

static void count_losses(struct profile_builder *builder, uint32_t losses)
{
	for (unsigned i = 0; losses; i++, losses >>= 1)
		builder->losses[i] += losses & 1;
}

static int add_new(struct profile_builder *builder, struct process *process, const struct abi_sample *sample,
		   const struct sample_key *key, uint64_t hash, unsigned column, int64_t value, struct error *err)
{
	struct profile_sample added = {0};
	size_t at = builder->profile->sample_count;
	int64_t values[2] = {0};
	uint32_t losses;

	values[place_of(builder, column)] = value;
	if (builder->cpu_is_second && sample->what == ABI_CPU)
		values[place_of(builder, 1)] = value;
	if (builder->is_timed)
		added.time_ns = (int64_t)sample->time_ns + builder->wall_clock_ns;

	int r = array_reserve(&builder->states, &builder->state_capacity, at + 1, SIZE_MAX / sizeof(*builder->states));
	if (r < 0 || (!builder->is_timed && index32_reserve(&builder->index, 1) < 0))
		return error_nomem(err);
	r = sample_labels_add(&builder->sample_labels, builder->profile, process, sample, &added.labels, err);
	if (r > 0) {
		builder->relabel_dropped++;
		return 0;
	}
	if (r == 0)
		r = add_stack(builder, process, sample, &added.stack, &losses, err);
	if (r == 0)
		r = profile_add_sample(builder->profile, &added, values, err);
	if (r < 0)
		return r;
	builder->states[at] = (struct sample_state){.key = *key, .losses = losses};
	if (!builder->is_timed)
		index32_add(&builder->index, hash, (uint32_t)at);
	count_losses(builder, losses);
	return 0;
}

int profile_builder_add(struct profile_builder *builder, struct process *process, const struct abi_sample *sample,
			unsigned column, int64_t value, struct error *err)
{
	struct sample_key key = {
		.user_leaf = sample->user_leaf,
		.user_chain = sample->user_chain,
		.kernel_leaf = sample->kernel_leaf,
		.kernel_chain = sample->kernel_chain,
		.cgroup = sample->cgroup,
		.process = process->id,
		.version = process->version,
		.flags = sample->flags,
		.result = sample->result,
		.what = sample->what,
	};
	uint32_t id;

	memcpy(key.comm, sample->comm, sizeof(key.comm));
	builder->sample_ns = sample->time_ns;
	if (!builder->profile) {
		int r = start_profile(builder, err);
		if (r < 0)
			return r;
	}
	uint64_t hash = hash64(&key, sizeof(key));
	if (builder->is_timed)
		return add_new(builder, process, sample, &key, hash, column, value, err);
	for (size_t at = index32_first(&builder->index, hash); index32_at(&builder->index, hash, &at, &id); at++) {
		struct sample_state *state = &builder->states[id];
		if (memcmp(&state->key, &key, sizeof(key)) != 0)
			continue;
		builder->profile->values[id * column_count(builder) + place_of(builder, column)] += value;
		count_losses(builder, state->losses);
		return 0;
	}
	return add_new(builder, process, sample, &key, hash, column, value, err);
}

int profile_builder_open(struct profile_builder *builder, struct error *err)
{
	builder->keeps_empty = true;
	return builder->profile ? 0 : start_profile(builder, err);
}

struct profile *profile_builder_take(struct profile_builder *builder, int64_t start_ns, int64_t duration_ns)
{
	struct profile *profile = builder->profile;

	builder->profile = NULL;
	memset(builder->marker_locations, 0, sizeof(builder->marker_locations));
	sample_labels_clear(&builder->sample_labels);
	index32_clear(&builder->index);
	map64_clear(&builder->kernel_locations);
	bool keeps_empty = builder->keeps_empty;
	builder->keeps_empty = false;
	if (profile && !profile->sample_count && !keeps_empty) /* all were dropped */
		return profile_free(profile);
	if (profile) {
		profile->time_ns = start_ns;
		profile->duration_ns = duration_ns;
	}
	return profile;
}
