// SPDX-License-Identifier: Apache-2.0
/*
 * Draining: process events and samples of all CPUs are merged by time, so that each sample meets the process table as it was.
 *
 * Each ring is in order by itself; a binary heap holds the next time of each. What is younger than `until` stays in its ring:
 * the caller gives a time a little ago, because a record may become visible shortly after the time that it carries.
 */
#include "agent/agent_int.h"
#include "base/time.h"

static bool is_before(const struct drain_cursor *a, const struct drain_cursor *b)
{
	return a->time_ns != b->time_ns ? a->time_ns < b->time_ns : a->is_sample < b->is_sample;
}

static void sift_down(struct drain_cursor *heap, size_t count, size_t at)
{
	for (;;) {
		size_t least = at, left = 2 * at + 1, right = left + 1;
		if (left < count && is_before(&heap[left], &heap[least]))
			least = left;
		if (right < count && is_before(&heap[right], &heap[least]))
			least = right;
		if (least == at)
			return;
		struct drain_cursor moved = heap[at];
		heap[at] = heap[least];
		heap[least] = moved;
		at = least;
	}
}

/* Sets the cursor to its ring's next record; false at the end. */
static bool look(struct agent *agent, struct drain_cursor *cursor)
{
	if (!cursor->is_sample)
		return event_ring_peek(agent->events, events_ring(agent->events, cursor->cpu), &cursor->time_ns);
	const struct abi_sample *sample = sample_ring_peek(sampler_ring(agent->sampler, cursor->cpu));
	if (sample)
		cursor->time_ns = sample->time_ns;
	return sample != NULL;
}

static int take_unprivileged_sample(struct agent *agent, const struct event *event, struct error *err);

static int take_event(struct agent *agent, unsigned cpu, struct error *err)
{
	struct event event;

	if (!event_ring_next(agent->events, events_ring(agent->events, cpu), &event))
		return 0;
	if (event.kind == EVENT_SAMPLE)
		return agent->unprivileged ? take_unprivileged_sample(agent, &event, err) : 0;
	if (agent->unprivileged)
		unprivileged_sampler_note(agent->unprivileged, &event);
	else if (event.kind == EVENT_LOST)
		agent->events_lost += event.lost;
	int r = agent->lifetimes ? lifetimes_before(agent->lifetimes, &agent->processes, &event, err) : 0;
	if (r == 0)
		r = process_table_apply(&agent->processes, &event, err);
	return r < 0 || !agent->lifetimes ? r : lifetimes_after(agent->lifetimes, &agent->processes, &event, err);
}

static int add_wait(struct agent *agent, struct process *process, const struct abi_sample *begin, uint64_t ns,
		    struct error *err)
{
	struct profile_builder *builder = agent->off_cpu_is_separate ? &agent->off_cpu_builder : &agent->builder;

	return profile_builder_add(builder, process, begin, agent->off_cpu_column, off_cpu_value(begin, ns), err);
}

/* The stacks are those of the begin, the process is looked up as of now: what it had mapped then it has still. */
static int take_wait_end(struct agent *agent, struct sample_ring *ring, struct error *err)
{
	const struct abi_sample *end = sample_ring_peek(ring);
	struct abi_sample begin;
	struct process *process;
	char comm[sizeof(begin.comm) + 1] = "";
	int r = 0;

	if (off_cpu_end(&agent->off_cpu, (pid_t)end->tid, &begin)) {
		if (end->kernel_leaf) {
			begin.kernel_leaf = end->kernel_leaf;
			begin.kernel_chain = end->kernel_chain;
		}
		__builtin_memcpy(comm, begin.comm, sizeof(begin.comm));
		r = process_table_lookup(&agent->processes, (pid_t)begin.tgid, end->time_ns, comm, &process, err);
		if (r == 0)
			r = add_wait(agent, process, &begin, end->value, err);
	}
	sample_ring_advance(ring);
	return r;
}

/* A wait that is not in the kernel's table any more has ended, and its end was lost or too short to be reported. */
int agent_close_off_cpu(struct agent *agent, int64_t until_ns, struct error *err)
{
	struct abi_sample begin;
	int r = 0;

	while (agent->off_cpu.count && r == 0) {
		off_cpu_end(&agent->off_cpu, (pid_t)agent->off_cpu.begins[agent->off_cpu.count - 1].tid, &begin);
		struct process *process = process_table_find(&agent->processes, (pid_t)begin.tgid);
		int64_t ns = until_ns - (int64_t)begin.time_ns;
		if (process && ns > 0 && ns >= agent->wait_least_ns &&
		    sampler_is_waiting(agent->sampler, (pid_t)begin.tid, begin.time_ns))
			r = add_wait(agent, process, &begin, (uint64_t)ns, err);
	}
	return r;
}

/* What it runs before its exec is the program that is about to start it, whose table may be large: nobody wants such samples,
 * so nobody waits for their stacks. */
static bool is_before_exec(const struct agent *agent, const struct process *process)
{
	return process->pid == agent->waits_for_exec && !process->has_execed;
}

static int take_stacks(struct agent *agent, struct process *process, const struct abi_sample *sample, struct error *err)
{
	struct abi_sample other;

	if (agent->is_warming) {
		agent->warming_samples++;
		return 0;
	}
	if (agent->counters && !process->has_counters) {
		counters_follow(agent->counters, process->pid);
		process->has_counters = true;
	}

	if (sample->what == ABI_WAIT_BEGINS)
		return off_cpu_begin(&agent->off_cpu, sample) < 0 ? error_nomem(err) : 0;
	if (agent->off_cpu.count) /* it runs, so it does not wait: the end was lost */
		off_cpu_end(&agent->off_cpu, (pid_t)sample->tid, &other);
	return profile_builder_add(&agent->builder, process, sample, 0, (int64_t)sample->value, err);
}

static int take_unprivileged_sample(struct agent *agent, const struct event *event, struct error *err)
{
	struct process *process;
	struct abi_sample sample;
	char comm[sizeof(sample.comm) + 1] = "";

	unprivileged_sampler_convert(agent->unprivileged, event, (uint64_t)NS_PER_S / agent->frequency_hz, &sample);
	__builtin_memcpy(comm, sample.comm, sizeof(sample.comm));
	int r = process_table_lookup(&agent->processes, event->pid, event->time_ns, comm, &process, err);
	if (r == 0 && !comm[0])
		__builtin_memcpy(sample.comm, process->comm, sizeof(sample.comm));
	if (r < 0 || is_before_exec(agent, process))
		return r;
	const struct abi_tail *tail = sample.flags & ABI_SAMPLE_TAIL ? &agent->unprivileged->tail : NULL;
	if (unwinder_complete(agent->unwinder, process, &sample, tail, &agent->chains) < 0)
		r = error_nomem(err);
	return r < 0 ? r : take_stacks(agent, process, &sample, err);
}

static int take_sample(struct agent *agent, unsigned cpu, struct error *err)
{
	struct sample_ring *ring = sampler_ring(agent->sampler, cpu);
	const struct abi_sample *sample = sample_ring_peek(ring);
	struct process *process;
	char comm[sizeof(sample->comm) + 1] = "";

	if (sample->what == ABI_WAIT_ENDS)
		return take_wait_end(agent, ring, err);
	__builtin_memcpy(comm, sample->comm, sizeof(sample->comm));
	int r = process_table_lookup(&agent->processes, (pid_t)sample->tgid, sample->time_ns, comm, &process, err);
	struct abi_sample complete = *sample;
	bool counts = r == 0 && !is_before_exec(agent, process);
	if (counts && unwinder_complete(agent->unwinder, process, &complete, sample_ring_tail(ring), &agent->chains) < 0)
		r = error_nomem(err);
	if (r == 0 && counts)
		r = take_stacks(agent, process, &complete, err);
	sample_ring_advance(ring);
	return r;
}

static int take_chains(struct agent *agent, struct sample_ring *ring, struct error *err)
{
	const struct abi_chain *chain;

	while ((chain = sample_ring_scan_chain(ring))) {
		if (chains_add(&agent->chains, chain) < 0)
			return error_nomem(err);
	}
	return 0;
}

static unsigned agent_cpus(const struct agent *agent)
{
	unsigned samples = agent_sample_cpus(agent), events = events_cpu_limit(agent->events);
	return samples > events ? samples : events;
}

/* Opens all rings, takes the chains, and makes the heap. Returns how many rings have records. */
static int open_rings(struct agent *agent, struct error *err)
{
	bool suspicious = false;
	size_t count = 0;
	int r = 0;

	for (unsigned cpu = 0; cpu < agent_cpus(agent); cpu++) {
		struct sample_ring *samples = cpu < agent_sample_cpus(agent) ? sampler_ring(agent->sampler, cpu) : NULL;
		struct event_ring *events = cpu < events_cpu_limit(agent->events) ? events_ring(agent->events, cpu) : NULL;
		if (samples) {
			struct drain_cursor cursor = {.cpu = cpu, .is_sample = 1};
			sample_ring_open(samples);
			if (r == 0)
				r = take_chains(agent, samples, err);
			if (look(agent, &cursor))
				agent->cursors[count++] = cursor;
		}
		if (events) {
			struct drain_cursor cursor = {.cpu = cpu};
			event_ring_open(agent->events, events);
			suspicious = suspicious || event_ring_was_full(agent->events, events);
			if (look(agent, &cursor))
				agent->cursors[count++] = cursor;
		}
	}
	if (suspicious)
		process_table_distrust(&agent->processes);
	for (size_t i = count / 2; i-- > 0;)
		sift_down(agent->cursors, count, i);
	return r < 0 ? r : (int)count;
}

/* Gives back what has been taken: making one table may take so long that a ring fills up meanwhile. */
static void release_ring(struct agent *agent, const struct drain_cursor *cursor)
{
	if (cursor->is_sample)
		sample_ring_release(sampler_ring(agent->sampler, cursor->cpu));
	else
		event_ring_release(events_ring(agent->events, cursor->cpu));
}

static void release_rings(struct agent *agent)
{
	for (unsigned cpu = 0; cpu < agent_cpus(agent); cpu++) {
		struct sample_ring *samples = cpu < agent_sample_cpus(agent) ? sampler_ring(agent->sampler, cpu) : NULL;
		struct event_ring *events = cpu < events_cpu_limit(agent->events) ? events_ring(agent->events, cpu) : NULL;
		if (samples)
			sample_ring_release(samples);
		if (events)
			event_ring_release(events);
	}
}

/* When the processes that were seen to begin, or are still to be read, are to be looked at again. */
static void plan_look(struct agent *agent, int64_t until_ns)
{
	int64_t next_ns = unwinder_next_look_ns(agent->unwinder);

	agent->look_ns = 0;
	if (next_ns)
		agent_plan_look(agent, next_ns);
	if (agent->sampler && sampler_set_execs_read(agent->sampler, until_ns))
		agent_plan_look(agent, until_ns + EXPECTED_LOOK_NS);
}

int agent_drain(struct agent *agent, int64_t until_ns, struct error *err)
{
	struct drain_cursor *heap = agent->cursors;
	enum agent_cost before = cost_enter(&agent->meter, AGENT_COST_SAMPLES);
	int r = open_rings(agent, err);
	size_t count = r < 0 ? 0 : (size_t)r;
	bool full = false;

	while (count && heap[0].time_ns <= (uint64_t)until_ns && !full) {
		agent->drained_ns = (int64_t)heap[0].time_ns;
		cost_enter(&agent->meter, heap[0].is_sample ? AGENT_COST_SAMPLES : AGENT_COST_PROCESSES);
		r = heap[0].is_sample ? take_sample(agent, heap[0].cpu, err) : take_event(agent, heap[0].cpu, err);
		if (r < 0)
			break;
		release_ring(agent, &heap[0]);
		if (!look(agent, &heap[0]))
			heap[0] = heap[--count];
		sift_down(heap, count, 0);
		full = profile_builder_is_full(&agent->builder) || profile_builder_is_full(&agent->off_cpu_builder);
	}
	release_rings(agent);
	cost_enter(&agent->meter, AGENT_COST_PROCESSES);
	unwinder_update(agent->unwinder);
	cost_enter(&agent->meter, before);
	if (r < 0)
		return r;
	if (!full)
		agent->drained_ns = until_ns;
	plan_look(agent, agent->drained_ns);
	return full;
}
