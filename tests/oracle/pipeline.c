/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/oracle/pipeline.h"

#include <string.h>

#include "agent/sample/cpus.h"
#include "agent/sample/events.h"
#include "base/alloc.h"
#include "base/time.h"

#define SETTLE_NS   5000000 /* a record may be seen a little after its time */
#define RING_BYTES  (1u << 20)
#define EVENT_BYTES (1u << 18)

struct pipeline {
	struct sampler *sampler;
	struct unwinder *unwinder;
	struct events *events;
	struct cpu_set online;
	struct binaries binaries;
	struct process_table processes;
	struct chains chains;
	uint64_t bare; /* samples without a copy of the stack */
	int64_t turned_ns;
	struct pipeline_sample sample;
};

static void check(int r, const struct error *err)
{
	if (r < 0)
		die("%s", err->message);
}

struct pipeline *pipeline_new(unsigned frequency_hz, bool no_heap)
{
	struct pipeline *pipeline = must(mem_zalloc(sizeof(*pipeline)));
	struct error err = {.message = "out of memory"};
	struct sampler_options options = {
		.frequency_hz = frequency_hz,
		.ring_bytes = RING_BYTES,
		.seen_slots = 1u << 16,
		.filter_max = 1u << 14,
		.capture = true,
		.no_kernel = true,
		.heap_bytes = (no_heap ? 1u : 32u) * UNWIND_CHUNK_BYTES,
		.processes_max = 4096,
	};
	pipeline->chains.frames_max = 1u << 24;
	check(cpu_set_read("online", &pipeline->online, &err), &err);
	check(binaries_init(&pipeline->binaries), &err);
	check(process_table_init(&pipeline->processes, &pipeline->binaries), &err);
	check(sampler_new(&options, &pipeline->sampler, &err), &err);
	check(unwinder_new(pipeline->sampler, &pipeline->binaries, &pipeline->processes, NULL, &pipeline->unwinder, &err),
	      &err);
	check(events_new(EVENT_BYTES, &pipeline->events, &err), &err);
	check(events_set_cpus(pipeline->events, &pipeline->online, -1, 0, &err), &err);
	check(process_table_snapshot(&pipeline->processes, &err), &err);
	check(sampler_set_cpus(pipeline->sampler, &pipeline->online, &err), &err);
	return pipeline;
}

void pipeline_add(struct pipeline *pipeline, pid_t pid)
{
	struct error err = {0};
	check(sampler_add_pid(pipeline->sampler, pid, &err), &err);
}

struct pipeline *pipeline_free(struct pipeline *pipeline)
{
	sampler_stop(pipeline->sampler);
	unwinder_free(pipeline->unwinder);
	process_table_release(&pipeline->processes);
	binaries_release(&pipeline->binaries);
	sampler_free(pipeline->sampler);
	events_free(pipeline->events);
	chains_release(&pipeline->chains);
	return mem_free(pipeline);
}

uint64_t pipeline_lost(const struct pipeline *pipeline)
{
	struct sampler_counters counters;
	sampler_get_counters(pipeline->sampler, &counters);
	return counters.counters[ABI_COUNT_RING_FULL] + counters.filter_full + pipeline->bare;
}

/* Frames of code that a signal interrupted are kept as the address + 1 (struct abi_chain); here they are what they are. */
static void set_chain(struct chain *chain, const uint64_t *frames, size_t count, unsigned result, bool by_frames)
{
	chain->by_frames = by_frames;
	chain->result = (enum unwind_result)result;
	chain->count = count < UNWIND_FRAMES_MAX ? count : UNWIND_FRAMES_MAX;
	for (size_t i = 0; i < chain->count; i++)
		chain->frames[i] = ABI_FRAME_ADDRESS(frames[i]);
}

static void find_chain(const struct pipeline *pipeline, const struct abi_sample *sample, struct chain *ret)
{
	uint64_t frames[UNWIND_FRAMES_MAX];
	const uint64_t *callers;
	size_t count = 0;

	frames[0] = sample->user_leaf;
	if (sample->user_chain && !chains_find(&pipeline->chains, sample->user_chain, &callers, &count))
		die("a sample refers to a chain that was not sent");
	for (size_t i = 0; i < count && i + 1 < UNWIND_FRAMES_MAX; i++)
		frames[i + 1] = callers[i];
	set_chain(ret, frames, count + 1, sample->result, sample->flags & ABI_SAMPLE_BY_FRAMES);
}

/* Of the copy, up to the first page that could not be read. */
static size_t bytes_in_one_piece(const struct abi_tail *tail)
{
	if (!tail->absent)
		return tail->stack_bytes;
	size_t pages = (size_t)__builtin_ctzll(tail->absent), start = tail->stack & 4095;
	return pages ? pages * 4096 - start : 0;
}

static void take_sample(struct pipeline *pipeline, const struct abi_sample *record, const struct abi_tail *tail,
			pipeline_function *take, void *context)
{
	struct pipeline_sample *sample = &pipeline->sample;
	struct abi_sample complete = *record;
	struct process *process;
	struct error err = {0};
	uint64_t frames[UNWIND_FRAMES_MAX];
	size_t count;

	memset(sample->comm, 0, sizeof(sample->comm));
	memcpy(sample->comm, record->comm, sizeof(record->comm));
	check(process_table_lookup(&pipeline->processes, (pid_t)record->tgid, record->time_ns, sample->comm, &process, &err),
	      &err);
	if (!tail || record->user_leaf == 0) {
		pipeline->bare += record->user_leaf != 0;
		return;
	}
	sample->capture = (struct capture){.tgid = record->tgid,
					   .tid = record->tid,
					   .ip = tail->ip,
					   .stack = tail->data,
					   .stack_bytes = bytes_in_one_piece(tail),
					   .is_cut = tail->absent != 0};
	memcpy(sample->capture.regs, tail->registers, sizeof(tail->registers));
	find_chain(pipeline, record, &sample->kernel);
	/* The tail begins at the leaf: what the kernel side found is found again, where the agent would go on from its end. */
	bool goes_on = UNWIND_IS_CURABLE(record->result);
	complete.flags = (__u16)(goes_on ? record->flags : record->flags & ~ABI_SAMPLE_TAIL);
	complete.user_chain = goes_on ? 0 : record->user_chain;
	if (unwinder_complete(pipeline->unwinder, process, &complete, goes_on ? tail : NULL, &pipeline->chains) < 0)
		die("out of memory");
	find_chain(pipeline, &complete, &sample->agent);
	frames[0] = tail->ip;
	enum unwind_result result = unwinder_walk(pipeline->unwinder, process, tail, frames, &count);
	/* It does not say whether it used frame pointers; where the agent's chain did, it did too. */
	set_chain(&sample->user, frames, count, result, sample->agent.by_frames);
	take(context, sample);
}

static void open_rings(struct pipeline *pipeline)
{
	const struct abi_chain *chain;
	for (unsigned cpu = 0; cpu < sampler_cpu_limit(pipeline->sampler); cpu++) {
		struct sample_ring *samples = sampler_ring(pipeline->sampler, cpu);
		struct event_ring *events =
			cpu < events_cpu_limit(pipeline->events) ? events_ring(pipeline->events, cpu) : NULL;
		if (samples) {
			sample_ring_open(samples);
			while ((chain = sample_ring_scan_chain(samples)))
				if (chains_add(&pipeline->chains, chain) < 0)
					die("out of memory");
		}
		if (events)
			event_ring_open(pipeline->events, events);
	}
}

/* The CPU with the oldest record, events first at equal times; false if there is none up to the time. */
static bool find_next(struct pipeline *pipeline, uint64_t until_ns, unsigned *ret_cpu, bool *ret_is_sample)
{
	uint64_t best = until_ns, time_ns;
	bool found = false;
	for (unsigned cpu = 0; cpu < events_cpu_limit(pipeline->events); cpu++) {
		struct event_ring *events = events_ring(pipeline->events, cpu);
		if (events && event_ring_peek(pipeline->events, events, &time_ns) && time_ns < best) {
			best = time_ns;
			*ret_cpu = cpu;
			found = true;
			*ret_is_sample = false;
		}
	}
	for (unsigned cpu = 0; cpu < sampler_cpu_limit(pipeline->sampler); cpu++) {
		struct sample_ring *samples = sampler_ring(pipeline->sampler, cpu);
		const struct abi_sample *sample = samples ? sample_ring_peek(samples) : NULL;
		if (sample && sample->time_ns < best) {
			best = sample->time_ns;
			*ret_cpu = cpu;
			found = true;
			*ret_is_sample = true;
		}
	}
	return found;
}

static void release_rings(struct pipeline *pipeline)
{
	for (unsigned cpu = 0; cpu < sampler_cpu_limit(pipeline->sampler); cpu++) {
		struct sample_ring *samples = sampler_ring(pipeline->sampler, cpu);
		struct event_ring *events =
			cpu < events_cpu_limit(pipeline->events) ? events_ring(pipeline->events, cpu) : NULL;
		if (samples)
			sample_ring_release(samples);
		if (events)
			event_ring_release(events);
	}
}

void pipeline_drain(struct pipeline *pipeline, pipeline_function *take, void *context)
{
	uint64_t until_ns = (uint64_t)(time_monotonic_ns() - SETTLE_NS);
	struct error err = {0};
	struct event event;
	unsigned cpu = 0;
	bool is_sample = false;

	open_rings(pipeline);
	while (find_next(pipeline, until_ns, &cpu, &is_sample)) {
		if (is_sample) {
			struct sample_ring *ring = sampler_ring(pipeline->sampler, cpu);
			const struct abi_sample *sample = sample_ring_peek(ring);
			take_sample(pipeline, sample, sample_ring_tail(ring), take, context);
			sample_ring_advance(ring);
		} else if (event_ring_next(pipeline->events, events_ring(pipeline->events, cpu), &event)) {
			check(process_table_apply(&pipeline->processes, &event, &err), &err);
		}
	}
	release_rings(pipeline);
	unwinder_update(pipeline->unwinder);
	if (time_monotonic_ns() - pipeline->turned_ns < NS_PER_S)
		return;
	pipeline->turned_ns = time_monotonic_ns();
	unwinder_tick(pipeline->unwinder);
	if (chains_turn(&pipeline->chains))
		sampler_set_epoch(pipeline->sampler, pipeline->chains.tables[0].epoch);
}
