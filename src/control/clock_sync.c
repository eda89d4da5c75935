/* SPDX-License-Identifier: Apache-2.0 */
#include "control/clock_sync.h"

#include <stdio.h>
#include <string.h>

#include "base/clock_fit.h"

void clock_sync_forget(struct clock_sync *sync)
{
	*sync = (struct clock_sync){0};
}

/* Of the network alone. */
static int64_t round_trip(const struct clock_sample *sample)
{
	return (sample->returned_ns - sample->sent_ns) - (sample->answered_ns - sample->received_ns);
}

void clock_sync_add(struct clock_sync *sync, const char *clock, const struct clock_sample *sample)
{
	if (!*clock || sample->returned_ns < sample->sent_ns || sample->answered_ns < sample->received_ns)
		return;
	if (strcmp(clock, sync->clock) != 0)
		clock_sync_forget(sync);
	snprintf(sync->clock, sizeof(sync->clock), "%s", clock);
	struct clock_sample *last = &sync->items[(sync->first + sync->count + CLOCK_SYNC_MAX - 1) % CLOCK_SYNC_MAX];
	if (sync->count && sample->sent_ns / CLOCK_SYNC_INTERVAL_NS == last->sent_ns / CLOCK_SYNC_INTERVAL_NS) {
		if (round_trip(sample) < round_trip(last))
			*last = *sample;
		return;
	}
	if (sync->count == CLOCK_SYNC_MAX) {
		sync->first = (sync->first + 1) % CLOCK_SYNC_MAX;
		sync->count--;
	}
	sync->items[(sync->first + sync->count++) % CLOCK_SYNC_MAX] = *sample;
}

/* A is the server, B is this host: how far B is ahead. */
struct host_clock clock_sync_fit(const struct clock_sync *sync, int64_t from_ns, int64_t to_ns)
{
	struct clock_fact facts[2 * CLOCK_SYNC_MAX];
	struct host_clock clock = {0};
	struct clock_fit_options options = {.from_ns = from_ns, .to_ns = to_ns};
	for (size_t i = 0; i < sync->count; i++) {
		const struct clock_sample *sample = &sync->items[(sync->first + i) % CLOCK_SYNC_MAX];
		facts[2 * i] = clock_fact_to_a(sample->sent_ns, sample->received_ns);
		facts[2 * i + 1] = clock_fact_to_b(sample->answered_ns, sample->returned_ns);
	}
	if (!sync->count)
		return clock;
	struct clock_fit fit = clock_fit(facts, 2 * sync->count, &options);
	if (fit.bound_ns < 0)
		return clock;
	snprintf(clock.reference, sizeof(clock.reference), "%s", sync->clock);
	clock.at_ns = fit.line.at_ns;
	clock.offset_ns = fit.line.offset_ns;
	clock.skew = fit.line.skew;
	clock.bound_ns = fit.bound_ns;
	return clock;
}
