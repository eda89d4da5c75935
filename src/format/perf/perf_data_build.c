/* SPDX-License-Identifier: Apache-2.0 */
/*
 * perf.data: the profile. Records are looked at in the order of their times, so that a sample is resolved by the mappings and
 * names of that moment.
 *
 * Addresses in files become offsets in them, so that a place is the same in all processes that map it; the kernel's become
 * offsets from its first symbol, the same after every boot. Code made at run time keeps its addresses, in a mapping named as
 * the file in which a runtime would put its names, /tmp/perf-PID.map.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <time.h>

#include "base/alloc.h"
#include "base/limits.h"
#include "base/order.h"
#include "base/text.h"
#include "base/time.h"
#include "format/perf/perf_data_int.h"

#define COLUMNS_MAX   (LIMIT_SAMPLE_TYPES - 1) /* events that have values of their own */
#define PROT_EXECUTE  4u
#define CONTEXT_FIRST ((uint64_t)-4095)
#define LABELS_MAX    10

enum context { /* enum perf_callchain_context */
	       CONTEXT_HYPERVISOR = -32,
	       CONTEXT_KERNEL = -128,
	       CONTEXT_USER = -512,
	       CONTEXT_USER_DEFERRED = -640,
	       CONTEXT_GUEST = -2048,
	       CONTEXT_GUEST_KERNEL = -2176,
	       CONTEXT_GUEST_USER = -2560,
};

/* A mapping as recorded: an address less start plus base is that of the profile's mapping. */
struct mapped {
	uint64_t start, base;
	uint32_t mapping, frame_type;
	uint32_t location; /* of all of it; 0 = each address has its own */
	uint64_t end;
	uint32_t binary; /* of the unwinder */
};
struct process {
	struct address_space space;
	uint32_t executable_name, executable_path;
	bool wants_executable; /* the next file that is mapped */
};
struct builder {
	struct perf_reader *reader;
	struct profile *profile;
	struct perf_unwinder *unwinder;	     /* NULL: copies of stacks are not unwound */
	const struct address_space *walking; /* of the process that is being unwound */
	uint64_t walked[UNWIND_FRAMES_MAX];
	struct address_map map;
	struct address_space kernel;
	struct mapped *mapped;
	size_t mapped_count, mapped_capacity;
	struct process *processes;
	size_t process_count, process_capacity;
	struct map64 process_of_pid, name_of_tid, name_of_cgroup;
	struct map64 counters; /* id of an event -> what it had counted at the sample before */
	bool has_times;
	uint32_t kernel_file, kernel_mapping, guest_mapping;
	struct {
		uint32_t pid, tid, thread, comm, executable, path, cpu, cgroup, event;
	} keys;
	uint32_t swapper;
	bool labels_event; /* there are several */
	uint64_t first_ns, last_ns;
	uint32_t frames[LIMIT_STACK_DEPTH]; /* of the sample, leaf first */
	size_t frame_count;
	bool is_cut;
};

/* ---- processes ---- */

static int get_process(struct builder *builder, uint32_t pid, struct process **ret, struct error *err)
{
	uint64_t number;
	if (!map64_get(&builder->process_of_pid, pid, &number)) {
		number = builder->process_count;
		if (array_reserve(&builder->processes, &builder->process_capacity, number + 1, UINT32_MAX) < 0 ||
		    map64_put(&builder->process_of_pid, pid, number) < 0)
			return error_nomem(err);
		builder->processes[builder->process_count++] = (struct process){.wants_executable = true};
	}
	*ret = &builder->processes[number];
	return 0;
}

static uint32_t name_of(const struct builder *builder, uint32_t tid)
{
	uint32_t name;
	return format_known(&builder->name_of_tid, tid, &name) || tid ? name : builder->swapper;
}

static int set_name(struct builder *builder, uint32_t tid, uint32_t name, struct error *err)
{
	return map64_put(&builder->name_of_tid, tid, name) < 0 ? error_nomem(err) : 0;
}

static int read_comm(struct builder *builder, const struct perf_record *record, struct error *err)
{
	struct perf_cursor body = record->body;
	uint32_t pid = perf_take_u32(&body), tid = perf_take_u32(&body), name;
	struct process *process;
	int r = profile_add_bytes(builder->profile, perf_text(body), &name, err);
	if (r == 0)
		r = set_name(builder, tid, name, err);
	if (r == 0 && (record->misc & PERF_MISC_COMM_EXEC)) {
		/* The old mappings stay below the new ones: the first samples are still of the call of execve(). */
		r = get_process(builder, pid, &process, err);
		if (r == 0) {
			process->wants_executable = true;
			process->executable_name = process->executable_path = 0;
		}
	}
	return r;
}

static int read_fork(struct builder *builder, const struct perf_record *record, uint64_t time, struct error *err)
{
	struct perf_cursor body = record->body;
	uint32_t pid = perf_take_u32(&body), ppid = perf_take_u32(&body);
	uint32_t tid = perf_take_u32(&body), ptid = perf_take_u32(&body);
	struct process *parent, *child;
	int r = set_name(builder, tid, name_of(builder, ptid), err);
	if (r < 0 || pid == ppid)
		return r;
	r = get_process(builder, ppid, &parent, err);
	if (r == 0)
		r = get_process(builder, pid, &child, err);
	if (r == 0)
		r = get_process(builder, ppid, &parent, err); /* the array may have moved */
	/* perf reports those that were there before as forks that have no time: long ago, and followed by an exec. */
	if (r < 0 || (builder->has_times && time == 0))
		return r;
	child->executable_name = parent->executable_name;
	child->executable_path = parent->executable_path;
	child->wants_executable = false;
	address_space_share(&builder->map, &parent->space, &child->space);
	return 0;
}

static int read_cgroup(struct builder *builder, const struct perf_record *record, struct error *err)
{
	struct perf_cursor body = record->body;
	uint64_t id = perf_take_u64(&body);
	uint32_t name;
	int r = profile_add_bytes(builder->profile, perf_text(body), &name, err);
	return r == 0 && map64_put(&builder->name_of_cgroup, id, name) < 0 ? error_nomem(err) : r;
}

/* ---- mappings ---- */

static bool begins_with_any(struct bytes text, const char *const *prefixes)
{
	for (size_t i = 0; prefixes[i]; i++)
		if (bytes_start_with(text, prefixes[i]))
			return true;
	return false;
}

static bool is_made_at_run_time(struct bytes file)
{
	static const char *const names[] = {"//anon", "[anon:", "/anon_hugepage", "/dev/zero", "/memfd:doublemapper", NULL};
	return begins_with_any(file, names);
}

/* Memory that is no part of a file. */
static bool is_memory(struct bytes file)
{
	static const char *const names[] = {"[heap]", "[stack", "/SYSV", NULL};
	return begins_with_any(file, names) || is_made_at_run_time(file);
}

static int add_mapped(struct builder *builder, const struct mapped *mapped, uint32_t *ret, struct error *err)
{
	if (array_reserve(&builder->mapped, &builder->mapped_capacity, builder->mapped_count + 1, UINT32_MAX) < 0)
		return error_nomem(err);
	*ret = (uint32_t)builder->mapped_count;
	builder->mapped[builder->mapped_count++] = *mapped;
	return 0;
}

static uint64_t end_of(uint64_t start, uint64_t len)
{
	return len > UINT64_MAX - start ? UINT64_MAX : start + len;
}

/* [start, start + len) of the space is `mapped`, a part of `mapping`. */
static int map_range(struct builder *builder, struct address_space *space, uint64_t start, uint64_t len,
		     struct profile_mapping *mapping, struct mapped mapped, struct error *err)
{
	uint32_t number = 0;
	int r = profile_add_mapping(builder->profile, mapping, &mapped.mapping, err);
	mapped.end = end_of(start, len);
	if (r == 0)
		r = add_mapped(builder, &mapped, &number, err);
	if (r == 0 && address_space_put(&builder->map, space, start, mapped.end, number) < 0)
		r = error_nomem(err);
	return r;
}

struct mmap_record {
	uint32_t pid, protection;
	uint64_t start, len, offset;
	struct bytes build_id, file;
};

static bool parse_mmap(const struct perf_record *record, struct mmap_record *ret)
{
	struct perf_cursor body = record->body;
	*ret = (struct mmap_record){.pid = perf_take_u32(&body)};
	ret->protection = record->misc & PERF_MISC_MMAP_DATA ? 0 : PROT_EXECUTE;
	perf_take_u32(&body); /* tid */
	ret->start = perf_take_u64(&body);
	ret->len = perf_take_u64(&body);
	ret->offset = perf_take_u64(&body);
	if (record->type == PERF_MMAP2) {
		const uint8_t *id = perf_take(&body, 24);
		if (id && (record->misc & PERF_MISC_MMAP_BUILD_ID) && id[0] <= 20)
			ret->build_id = (struct bytes){id + 4, id[0]};
		ret->protection = perf_take_u32(&body);
		perf_take_u32(&body); /* flags */
	}
	ret->file = perf_text(body);
	return !body.bad;
}

static int add_build_id(struct builder *builder, const struct mmap_record *record, uint32_t file, uint32_t *ret,
			struct error *err)
{
	format_known(&builder->reader->build_ids, file, ret);
	if (record->build_id.len == 0)
		return 0;
	_cleanup_(buffer_release) struct buffer hex = {.max = 64};
	if (text_append_hex(&hex, record->build_id) < 0)
		return error_nomem(err);
	return profile_add_bytes(builder->profile, buffer_bytes(&hex), ret, err);
}

/* "[kernel.kallsyms]_text" counts from its first symbol; modules have addresses that mean nothing elsewhere. */
static int map_kernel(struct builder *builder, const struct mmap_record *record, struct error *err)
{
	struct profile_mapping mapping = {0};
	struct mapped mapped = {.start = record->start, .base = record->start, .frame_type = PROFILE_FRAME_KERNEL};
	bool is_core = bytes_start_with(record->file, FORMAT_KERNEL_FILE);
	int r = is_core ? 0 : profile_add_bytes(builder->profile, record->file, &mapping.file_name, err);
	if (is_core) {
		mapping.file_name = builder->kernel_file;
		mapped.base = 0;
	}
	if (r == 0)
		r = add_build_id(builder, record, mapping.file_name, &mapping.build_id, err);
	mapping.start = mapped.base;
	mapping.limit = end_of(mapped.base, record->len);
	return r < 0 ? r : map_range(builder, &builder->kernel, record->start, record->len, &mapping, mapped, err);
}

static int note_executable(struct builder *builder, struct process *process, const struct mmap_record *record, uint32_t path,
			   struct error *err)
{
	if (!process->wants_executable || record->file.len < 2 || record->file.data[0] != '/' ||
	    bytes_start_with(record->file, "//"))
		return 0;
	process->wants_executable = false;
	process->executable_path = path;
	return profile_add_bytes(builder->profile, text_base_name_of(record->file), &process->executable_name, err);
}

static int map_user(struct builder *builder, const struct mmap_record *record, struct error *err)
{
	struct profile_mapping mapping = {.start = record->offset, .offset = record->offset};
	struct mapped mapped = {.start = record->start,
				.base = record->offset,
				.frame_type = PROFILE_FRAME_NATIVE,
				.binary = STACK_WALK_NO_BINARY};
	struct process *process;
	char jit[32];
	struct bytes file = record->file;
	if (is_memory(file)) {
		mapping.start = mapped.base = record->start;
		mapping.offset = 0;
	}
	if (is_made_at_run_time(file) && (record->protection & PROT_EXECUTE)) {
		snprintf(jit, sizeof(jit), "/tmp/perf-%" PRIu32 ".map", record->pid);
		file = bytes_of_string(jit);
		mapped.frame_type = PROFILE_FRAME_JIT;
	}
	mapping.limit = end_of(mapping.start, record->len);
	int r = get_process(builder, record->pid, &process, err);
	if (r == 0)
		r = profile_add_bytes(builder->profile, file, &mapping.file_name, err);
	if (r == 0)
		r = add_build_id(builder, record, mapping.file_name, &mapping.build_id, err);
	if (r == 0 && (record->protection & PROT_EXECUTE) && mapped.frame_type == PROFILE_FRAME_NATIVE)
		r = note_executable(builder, process, record, mapping.file_name, err);
	if (r == 0 && builder->unwinder && !is_memory(record->file))
		r = perf_unwinder_add_file(builder->unwinder, mapping.file_name, mapping.build_id, &mapped.binary, err);
	return r < 0 ? r : map_range(builder, &process->space, record->start, record->len, &mapping, mapped, err);
}

static int read_mmap(struct builder *builder, const struct perf_record *record, struct error *err)
{
	struct mmap_record mmap;
	unsigned mode = record->misc & PERF_MISC_CPUMODE;
	if (!parse_mmap(record, &mmap))
		return error_set(err, -EBADMSG, "a mapping is truncated");
	if (mode == PERF_MODE_GUEST_KERNEL || mode == PERF_MODE_GUEST_USER)
		return 0;
	return mode == PERF_MODE_KERNEL || mmap.pid == UINT32_MAX ? map_kernel(builder, &mmap, err)
								  : map_user(builder, &mmap, err);
}

/* BPF programs and trampolines say their names. */
static int read_ksymbol(struct builder *builder, const struct perf_record *record, struct error *err)
{
	struct perf_cursor body = record->body;
	uint64_t start = perf_take_u64(&body);
	uint32_t len = perf_take_u32(&body);
	perf_take_u16(&body); /* kind */
	uint16_t flags = perf_take_u16(&body);
	struct bytes name = perf_text(body);
	struct profile_mapping mapping = {.flags = PROFILE_MAPPING_HAS_FUNCTIONS};
	struct profile_function function = {0};
	struct profile_line line = {0};
	struct profile_location location = {.frame_type = PROFILE_FRAME_KERNEL};
	if (name.len == 0 || (flags & PERF_MISC_UNREGISTER))
		return 0;
	int r = profile_add_bytes(builder->profile, bytes_of_string("[bpf]"), &mapping.file_name, err);
	if (r == 0)
		r = profile_add_mapping(builder->profile, &mapping, &location.mapping, err);
	if (r == 0)
		r = profile_add_bytes(builder->profile, name, &function.name, err);
	function.system_name = function.name;
	if (r == 0)
		r = profile_add_function(builder->profile, &function, &line.function, err);
	struct mapped mapped = {.frame_type = PROFILE_FRAME_KERNEL};
	if (r == 0)
		r = profile_add_location(builder->profile, &location, &line, 1, &mapped.location, err);
	return r < 0 ? r : map_range(builder, &builder->kernel, start, len, &mapping, mapped, err);
}

/* ---- stacks ---- */

static int add_frame(struct builder *builder, const struct address_space *space, uint32_t unknown_mapping, uint32_t type,
		     uint64_t address, struct error *err)
{
	struct profile_location location = {.mapping = unknown_mapping, .address = address, .frame_type = type};
	uint32_t number, id;
	int r = 0;
	if (builder->frame_count == LIMIT_STACK_DEPTH) {
		builder->is_cut = true;
		return 0;
	}
	bool is_mapped = space && address_space_find(&builder->map, space, address, &number);
	if (is_mapped) {
		const struct mapped *mapped = &builder->mapped[number];
		location.mapping = mapped->mapping;
		location.address = address - mapped->start + mapped->base;
		location.frame_type = mapped->frame_type;
	}
	if (is_mapped && builder->mapped[number].location)
		id = builder->mapped[number].location;
	else
		r = profile_add_location(builder->profile, &location, NULL, 0, &id, err);
	if (r == 0)
		builder->frames[builder->frame_count++] = id;
	return r;
}

static int add_frame_of(struct builder *builder, const struct process *process, enum context context, uint64_t address,
			struct error *err)
{
	switch (context) {
	case CONTEXT_KERNEL:
		/* User stacks without frame pointers are walked into anything, also into a number that is a marker. */
		if (!(address >> 63))
			return add_frame(builder, &builder->kernel, 0, PROFILE_FRAME_UNKNOWN, address, err);
		return add_frame(builder, &builder->kernel, builder->kernel_mapping, PROFILE_FRAME_KERNEL, address, err);
	case CONTEXT_USER: return add_frame(builder, &process->space, 0, PROFILE_FRAME_NATIVE, address, err);
	default:
		builder->reader->counts.guests++;
		return add_frame(builder, NULL, builder->guest_mapping, PROFILE_FRAME_UNKNOWN, address, err);
	}
}

static enum context context_of(uint16_t misc)
{
	switch (misc & PERF_MISC_CPUMODE) {
	case PERF_MODE_KERNEL: return CONTEXT_KERNEL;
	case PERF_MODE_USER: return CONTEXT_USER;
	case PERF_MODE_GUEST_KERNEL:
	case PERF_MODE_GUEST_USER: return CONTEXT_GUEST;
	default: return CONTEXT_HYPERVISOR;
	}
}

static bool is_marker(enum context context)
{
	return context == CONTEXT_KERNEL || context == CONTEXT_USER || context == CONTEXT_HYPERVISOR ||
	       context == CONTEXT_USER_DEFERRED || context == CONTEXT_GUEST || context == CONTEXT_GUEST_KERNEL ||
	       context == CONTEXT_GUEST_USER;
}

/* The first address after a marker is where that context was; the others are where calls return to. */
static int add_chain(struct builder *builder, const struct process *process, const struct perf_sample *sample,
		     enum context context, bool *ret_has_user, struct error *err)
{
	bool is_leaf = true;
	int r = 0;
	for (size_t i = 0; r == 0 && i < sample->chain_count; i++) {
		uint64_t address = perf_load_u64(sample->chain + 8 * i, builder->reader->is_swapped);
		if (address >= CONTEXT_FIRST) {
			context = (enum context)(int64_t)address;
			is_leaf = !*ret_has_user; /* nothing comes after the user's */
			/* What no marker is comes from a stack that was walked into anything: the rest has no meaning. */
			if (!is_marker(context))
				break;
			if (context == CONTEXT_USER_DEFERRED)
				i++; /* a number that the rest of the chain, in a record of its own, has too */
			continue;
		}
		/* The return address of a thread's first function is 0. */
		if (is_leaf || address > 0)
			r = add_frame_of(builder, process, context, is_leaf ? address : address - 1, err);
		is_leaf = false;
		*ret_has_user |= context == CONTEXT_USER;
	}
	return r;
}

static bool find_mapping(void *context, uint64_t address, struct stack_walk_mapping *ret)
{
	const struct builder *builder = context;
	uint32_t number;
	if (!address_space_find(&builder->map, builder->walking, address, &number))
		return false;
	const struct mapped *mapped = &builder->mapped[number];
	*ret = (struct stack_walk_mapping){
		.start = mapped->start, .end = mapped->end, .file_offset = mapped->base, .binary = mapped->binary};
	return true;
}

static int add_copied_stack(struct builder *builder, const struct process *process, const struct perf_sample *sample,
			    struct error *err)
{
	enum unwind_result result;
	size_t count;
	builder->walking = &process->space;
	int r = perf_unwinder_walk(builder->unwinder, sample, builder->walked, &count, &result, err);
	for (size_t i = 0; r == 0 && i < count; i++)
		r = add_frame_of(builder, process, CONTEXT_USER, builder->walked[i], err);
	if (r == 0 && result == UNWIND_STACK_CUT)
		builder->reader->counts.short_copies++;
	else if (r == 0 && !UNWIND_IS_COMPLETE(result))
		builder->reader->counts.incomplete++;
	return r;
}

static int add_stack(struct builder *builder, const struct process *process, const struct perf_record *record,
		     const struct perf_sample *sample, uint32_t *ret, struct error *err)
{
	enum context context = context_of(record->misc);
	bool has_user = false;
	builder->frame_count = 0;
	builder->is_cut = false;
	int r = add_chain(builder, process, sample, context, &has_user, err);
	bool is_copied = !has_user && perf_unwinder_can(builder->unwinder, sample);
	if (r == 0 && builder->frame_count == 0 && (sample->event->sample_type & PERF_S_IP) &&
	    !(is_copied && context == CONTEXT_USER)) {
		r = add_frame_of(builder, process, context, sample->ip, err);
		has_user = context == CONTEXT_USER;
	}
	uint64_t address;
	if (r == 0 && is_copied)
		r = add_copied_stack(builder, process, sample, err);
	else if (r == 0 && !has_user && perf_data_register(builder->reader, sample, PERF_REGISTER_IP, &address))
		r = add_frame_of(builder, process, CONTEXT_USER, address, err);
	builder->reader->counts.cut_stacks += builder->is_cut;
	builder->reader->counts.stacks += sample->stack.len > 0 && !is_copied;
	return r < 0 ? r : profile_add_stack_leaf_first(builder->profile, builder->frames, builder->frame_count, ret, err);
}

/* ---- samples ---- */

static int add_labels(struct builder *builder, const struct process *process, const struct perf_sample *sample, uint32_t *ret,
		      struct error *err)
{
	struct profile_label labels[LABELS_MAX];
	size_t count = 0;
	uint64_t cgroup = 0;
	bool has_ids = sample->event->sample_type & PERF_S_TID;
	const struct {
		uint32_t key, value;
	} texts[] = {
		{builder->keys.thread, has_ids ? name_of(builder, sample->tid) : 0},
		{builder->keys.comm, has_ids ? name_of(builder, sample->pid) : 0},
		{builder->keys.executable, process->executable_name},
		{builder->keys.path, process->executable_path},
		{builder->keys.cgroup, map64_get(&builder->name_of_cgroup, sample->cgroup, &cgroup) ? (uint32_t)cgroup : 0},
		{builder->keys.event, builder->labels_event ? sample->event->name : 0},
	};
	const struct {
		uint32_t key;
		bool is_known;
		int64_t value;
	} numbers[] = {
		{builder->keys.pid, has_ids, (int32_t)sample->pid},
		{builder->keys.tid, has_ids, (int32_t)sample->tid},
		{builder->keys.cpu, sample->has_cpu, sample->cpu},
	};
	int r = 0;
	for (size_t i = 0; r == 0 && i < sizeof(numbers) / sizeof(numbers[0]); i++)
		if (numbers[i].is_known)
			r = profile_number_label(builder->profile, numbers[i].key, numbers[i].value, &labels[count++], err);
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
		if (texts[i].value)
			labels[count++] = (struct profile_label){.key = texts[i].key, .value = texts[i].value};
	return r < 0 ? r : profile_add_label_set(builder->profile, labels, count, ret, err);
}

static int64_t clamp(uint64_t value)
{
	return value > INT64_MAX ? INT64_MAX : (int64_t)value;
}

/* Since 1970 if the recording has the offset of its clock. */
static int64_t time_of(const struct builder *builder, uint64_t time)
{
	const struct perf_reader *reader = builder->reader;
	return clamp(reader->has_clock && time ? time - reader->clock_ns + reader->clock_wall_ns : time);
}

static int add_sample(struct builder *builder, const struct process *process, const struct perf_sample *sample,
		      struct profile_sample *added, struct error *err)
{
	int64_t values[LIMIT_SAMPLE_TYPES] = {0};
	int r = add_labels(builder, process, sample, &added->labels, err);
	values[0] = 1;
	values[sample->event->column] = clamp(sample->period);
	return r < 0 ? r : profile_add_sample(builder->profile, added, values, err);
}

/* One event of a group takes the samples, and the others are read with it: each has one of what it counted since. */
static int add_counters(struct builder *builder, const struct process *process, struct perf_sample *sample,
			struct profile_sample *added, struct error *err)
{
	bool is_swapped = builder->reader->is_swapped;
	int r = 0;
	for (size_t i = 0; r == 0 && i < sample->read_count; i++) {
		const uint8_t *at = sample->reads + i * sample->read_bytes;
		uint64_t value = perf_load_u64(at, is_swapped), id = perf_load_u64(at + sample->read_id, is_swapped),
			 before = 0;
		map64_get(&builder->counters, id, &before);
		if (map64_put(&builder->counters, id, value) < 0)
			return error_nomem(err);
		sample->event = perf_data_event_of(builder->reader, id);
		sample->period = value - before;
		if (sample->event && sample->period)
			r = add_sample(builder, process, sample, added, err);
	}
	return r;
}

static int read_sample(struct builder *builder, const struct perf_record *record, struct error *err)
{
	struct profile_sample added = {0};
	struct perf_sample sample;
	struct process *process;
	int r = perf_data_read_sample(builder->reader, record, &sample, err);
	if (r > 0) { /* events that came later made it ambiguous */
		builder->reader->counts.strays++;
		return 0;
	}
	if (r == 0)
		r = get_process(builder, sample.pid, &process, err);
	if (r == 0)
		r = add_stack(builder, process, record, &sample, &added.stack, err);
	if (r < 0)
		return r;
	if (sample.time && (!builder->first_ns || sample.time < builder->first_ns))
		builder->first_ns = sample.time;
	if (sample.time > builder->last_ns)
		builder->last_ns = sample.time;
	added.time_ns = time_of(builder, sample.time);
	return sample.reads ? add_counters(builder, process, &sample, &added, err)
			    : add_sample(builder, process, &sample, &added, err);
}

static int read_record(struct builder *builder, const struct perf_place *place, struct error *err)
{
	struct perf_record record = perf_data_record(builder->reader, place->at);
	switch (record.type) {
	case PERF_SAMPLE: return read_sample(builder, &record, err);
	case PERF_MMAP:
	case PERF_MMAP2: return read_mmap(builder, &record, err);
	case PERF_COMM: return read_comm(builder, &record, err);
	case PERF_FORK: return read_fork(builder, &record, place->time, err);
	case PERF_KSYMBOL: return read_ksymbol(builder, &record, err);
	default: return read_cgroup(builder, &record, err);
	}
}

/* ---- values ---- */

static bool is_clock(const struct perf_event *event)
{
	return event->type == 1 && event->config <= 1; /* cpu-clock, task-clock */
}

/* Events of one name share a column: those of the two kinds of cores of a hybrid machine. */
static size_t choose_columns(struct builder *builder, struct perf_event **ret)
{
	struct perf_reader *reader = builder->reader;
	size_t count = 0;
	for (size_t i = 0; i < reader->event_count; i++) {
		struct perf_event *event = &reader->events[i];
		size_t k = 0;
		event->column = 1;
		if (event->samples == 0)
			continue; /* such as the one that follows mappings only */
		while (k < count && ret[k]->name != event->name)
			k++;
		if (k == COLUMNS_MAX)
			return k + 1;
		if (k == count)
			ret[count++] = event;
		event->column = (uint32_t)k + 1;
	}
	if (count == 0 && reader->event_count > 0)
		ret[count++] = reader->events;
	return count;
}

/* How many samples, and what each event's stand for. */
static int add_values(struct builder *builder, struct error *err)
{
	struct perf_event *events[COLUMNS_MAX];
	struct profile *profile = builder->profile;
	size_t count = choose_columns(builder, events);
	int r = profile_add_named_type(profile, "samples", "count", err);
	builder->labels_event = count > 1;
	if (count > COLUMNS_MAX) {
		for (size_t i = 0; i < builder->reader->event_count; i++)
			builder->reader->events[i].column = 1;
		return r < 0 ? r : profile_add_named_type(profile, "events", "count", err);
	}
	for (size_t i = 0; r == 0 && i < count; i++) {
		uint32_t unit;
		r = profile_add_cstring(profile, is_clock(events[i]) ? "nanoseconds" : "count", &unit, err);
		if (r == 0)
			r = profile_add_sample_type(profile, events[i]->name, unit, err);
	}
	if (r < 0 || count == 0)
		return r;
	/* What was asked for first is what is shown first. */
	profile->default_sample_type = profile->sample_types[1].type;
	profile->period_type = profile->sample_types[1];
	if (!(events[0]->flags & PERF_FLAG_FREQ))
		profile->period = clamp(events[0]->period);
	else if (is_clock(events[0]) && events[0]->period > 0 && events[0]->period <= NS_PER_S)
		profile->period = NS_PER_S / (int64_t)events[0]->period;
	return 0;
}

/* ---- all ---- */

static int add_names(struct builder *builder, struct error *err)
{
	struct profile_mapping kernel = {.limit = UINT64_MAX}, guest = {.limit = UINT64_MAX};
	const struct format_string names[] = {
		{"process.pid", &builder->keys.pid},
		{"thread.id", &builder->keys.tid},
		{"thread.name", &builder->keys.thread},
		{"process.comm", &builder->keys.comm},
		{"process.executable.name", &builder->keys.executable},
		{"process.executable.path", &builder->keys.path},
		{"cpu.logical_number", &builder->keys.cpu},
		{"cgroup", &builder->keys.cgroup},
		{"event", &builder->keys.event},
		{"swapper", &builder->swapper},
		{FORMAT_KERNEL_FILE, &builder->kernel_file},
		{"[guest]", &guest.file_name},
	};
	int r = format_add_strings(builder->profile, names, sizeof(names) / sizeof(names[0]), err);
	kernel.file_name = builder->kernel_file;
	if (r == 0)
		r = profile_add_mapping(builder->profile, &kernel, &builder->kernel_mapping, err);
	return r < 0 ? r : profile_add_mapping(builder->profile, &guest, &builder->guest_mapping, err);
}

static int add_origin(struct builder *builder, struct error *err)
{
	const struct perf_reader *reader = builder->reader;
	struct profile_label labels[2] = {{.value = reader->host}, {.value = reader->release}};
	const uint32_t comments[] = {reader->command, reader->architecture};
	size_t count = 0;
	int r = profile_add_cstring(builder->profile, "host.name", &labels[0].key, err);
	if (r == 0)
		r = profile_add_cstring(builder->profile, "os.version", &labels[1].key, err);
	for (size_t i = 0; i < 2; i++)
		if (labels[i].value)
			labels[count++] = labels[i];
	if (r == 0)
		r = profile_add_label_set(builder->profile, labels, count, &builder->profile->resource_labels, err);
	for (size_t i = 0; r == 0 && i < sizeof(comments) / sizeof(comments[0]); i++)
		if (comments[i])
			r = profile_add_comment(builder->profile, comments[i], err);
	return r;
}

DEFINE_ORDER(compare_places, struct perf_place, ORDER(a->time, b->time) ?: ORDER(a->at, b->at));

static bool all_use_clock(const struct perf_reader *reader, int32_t clock_id)
{
	for (size_t i = 0; i < reader->event_count; i++)
		if (!(reader->events[i].flags & PERF_FLAG_USE_CLOCKID) || reader->events[i].clock_id != clock_id)
			return false;
	return reader->event_count > 0;
}

/* By which clock other recordings can be put beside this one. Without -k, times are the kernel's sched_clock: it counts from
 * the machine's start as CLOCK_MONOTONIC does, but is not kept in step with it. */
static void note_clock(const struct builder *builder)
{
	struct profile *profile = builder->profile;
	if (!builder->has_times)
		return;
	if (all_use_clock(builder->reader, CLOCK_MONOTONIC))
		profile->monotonic_ns = profile->time_ns ? clamp(builder->first_ns) : 0;
	else if (profile->time_ns == 0 && !all_use_clock(builder->reader, CLOCK_REALTIME))
		profile->monotonic_ns = PROFILE_OTHER_CLOCK;
}

static int build(struct builder *builder, struct error *err)
{
	struct perf_reader *reader = builder->reader;
	for (size_t i = 0; i < reader->event_count; i++)
		builder->has_times |= !!(reader->events[i].sample_type & PERF_S_TIME);
	sort_array(reader->places, reader->place_count, compare_places);
	int r = add_names(builder, err);
	if (r == 0)
		r = add_values(builder, err);
	if (r == 0)
		r = add_origin(builder, err);
	for (size_t i = 0; r == 0 && i < reader->place_count; i++)
		r = read_record(builder, &reader->places[i], err);
	if (r < 0)
		return r;
	builder->profile->duration_ns = clamp(builder->last_ns - builder->first_ns);
	if (reader->has_clock)
		builder->profile->time_ns = time_of(builder, builder->first_ns);
	note_clock(builder);
	return 0;
}

int perf_data_build(struct perf_reader *reader, const struct format_options *options, struct error *err)
{
	struct builder *builder = mem_zalloc(sizeof(*builder));
	if (!builder)
		return error_nomem(err);
	builder->reader = reader;
	builder->profile = reader->profile;
	address_map_init(&builder->map);
	map64_init_guarded(&builder->process_of_pid);
	map64_init_guarded(&builder->name_of_tid);
	map64_init_guarded(&builder->name_of_cgroup);
	map64_init_guarded(&builder->counters);
	int r = perf_unwinder_new(reader, options, find_mapping, builder, &builder->unwinder, err);
	if (r == 0)
		r = build(builder, err);
	perf_unwinder_free(builder->unwinder);
	address_map_release(&builder->map);
	map64_release(&builder->process_of_pid);
	map64_release(&builder->name_of_tid);
	map64_release(&builder->name_of_cgroup);
	map64_release(&builder->counters);
	mem_free(builder->mapped);
	mem_free(builder->processes);
	mem_free(builder);
	return r;
}
