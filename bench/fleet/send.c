/* SPDX-License-Identifier: Apache-2.0 */
/* Flushes as the profiles that agents and SDKs send, one by one, in the order of time. */
#include "bench/fleet/fleet.h"

#include <time.h>

#define QUESTION_MAX 65536

/* What is in the profile; that of the planted service if `truth`. */
static int send_one(struct fleet_emitter *emitter, struct fleet_flush *flush, bool is_truth, uint64_t tick,
		    const struct fleet_sink *sink, struct fleet_totals *totals, struct error *err)
{
	int64_t started = time_thread_cpu_ns();
	int r = fleet_emit_begin(emitter, flush, err);
	if (r == 0)
		r = is_truth ? fleet_truth_emit(emitter, flush->host, tick, &flush->events, err)
			     : fleet_emit(emitter, flush, err);
	if (r == 0) /* stacks that differ in addresses only are one where names are sent */
		r = profile_aggregate(emitter->profile, err);
	totals->generate_ns += time_thread_cpu_ns() - started;
	totals->appends++;
	totals->samples += r == 0 ? emitter->profile->sample_count : 0;
	totals->events += flush->events;
	return r == 0 ? sink->send(sink->context, emitter->profile, totals, err) : r;
}

static int send_host(struct fleet *fleet, unsigned host, uint64_t tick, struct fleet_emitter *const emitters[2],
		     struct fleet_flush *flush, const struct fleet_sink *sink, struct fleet_totals *totals, struct error *err)
{
	int r = fleet_flush(fleet, host, tick, flush, err);
	if (r == 0 && flush->count > 0)
		r = send_one(emitters[0], flush, false, tick, sink, totals, err);
	if (r == 0 && fleet_truth_is_on(fleet, host))
		r = send_one(emitters[0], flush, true, tick, sink, totals, err);
	for (unsigned pod = 0; r == 0 && pod < fleet->options.pods_per_host; pod++) {
		r = fleet_memory_flush(fleet, host, pod, tick, flush, err);
		if (r == 0)
			r = send_one(emitters[1], flush, false, tick, sink, totals, err);
		else if (r == 1)
			r = 0;
	}
	return r;
}

/* Until all hosts' flushes of that number are due. */
static void wait_for_tick(const struct fleet *fleet, uint64_t tick)
{
	int64_t due_ns = fleet->options.start_ns + ((int64_t)tick + 1) * FLEET_FLUSH_NS;
	struct timespec due = {.tv_sec = due_ns / NS_PER_S, .tv_nsec = due_ns % NS_PER_S};
	while (clock_nanosleep(CLOCK_REALTIME, TIMER_ABSTIME, &due, NULL) != 0)
		;
}

/* All agents poll at once, and often enough not to become silent. */
static int poll_all(const struct fleet *fleet, unsigned part, unsigned parts, const struct fleet_sink *sink, struct error *err)
{
	struct buffer poll;
	int r = 0;
	buffer_init(&poll, QUESTION_MAX);
	for (unsigned host = part; r == 0 && host < fleet->options.hosts; host += parts) {
		buffer_clear(&poll);
		r = fleet_agent_poll(fleet, host, time_now_ns(), &poll, err);
		if (r == 0)
			r = sink->poll(sink->context, buffer_bytes(&poll), err);
	}
	buffer_release(&poll);
	return r;
}

int fleet_send(struct fleet *fleet, unsigned part, unsigned parts, const struct fleet_sink *sink, struct fleet_totals *totals,
	       struct error *err)
{
	struct fleet_emitter *emitters[2] = {NULL, NULL};
	struct fleet_flush flush = {0};
	int r = fleet_emitter_new(fleet, false, false, &emitters[0], err);
	if (r == 0)
		r = fleet_emitter_new(fleet, false, true, &emitters[1], err);
	for (uint64_t tick = 0; r == 0 && (tick < fleet_flush_count(fleet) || fleet->options.is_live); tick++) {
		if (fleet->options.is_live) {
			r = poll_all(fleet, part, parts, sink, err);
			wait_for_tick(fleet, tick);
		}
		for (unsigned host = part; r == 0 && host < fleet->options.hosts; host += parts)
			r = send_host(fleet, host, tick, emitters, &flush, sink, totals, err);
	}
	fleet_emitter_free(emitters[0]);
	fleet_emitter_free(emitters[1]);
	mem_free(flush.samples);
	return r;
}
