/* SPDX-License-Identifier: Apache-2.0 */
#include "control/pings.h"

#include <stdio.h>
#include <string.h>

#include "base/clock_fit.h"

void pings_forget(struct pings *pings)
{
	*pings = (struct pings){0};
}

/* Of the network alone. */
static int64_t round_trip(const struct orders_ping *ping)
{
	return (ping->returned_ns - ping->sent_ns) - (ping->answered_ns - ping->received_ns);
}

void pings_add(struct pings *pings, const char *clock, const struct orders_ping *ping)
{
	if (!*clock || ping->returned_ns < ping->sent_ns || ping->answered_ns < ping->received_ns)
		return;
	if (strcmp(clock, pings->clock) != 0)
		pings_forget(pings);
	snprintf(pings->clock, sizeof(pings->clock), "%s", clock);
	struct orders_ping *last = &pings->items[(pings->first + pings->count + PINGS_MAX - 1) % PINGS_MAX];
	if (pings->count && ping->sent_ns / PINGS_WINDOW_NS == last->sent_ns / PINGS_WINDOW_NS) {
		if (round_trip(ping) < round_trip(last))
			*last = *ping;
		return;
	}
	if (pings->count == PINGS_MAX) {
		pings->first = (pings->first + 1) % PINGS_MAX;
		pings->count--;
	}
	pings->items[(pings->first + pings->count++) % PINGS_MAX] = *ping;
}

/* A is the server, B is this host: how far B is ahead. */
struct orders_clock pings_fit(const struct pings *pings, int64_t from_ns, int64_t to_ns)
{
	struct clock_fact facts[2 * PINGS_MAX];
	struct orders_clock clock = {0};
	struct clock_fit_options options = {.from_ns = from_ns, .to_ns = to_ns};
	for (size_t i = 0; i < pings->count; i++) {
		const struct orders_ping *ping = &pings->items[(pings->first + i) % PINGS_MAX];
		facts[2 * i] = clock_fact_to_a(ping->sent_ns, ping->received_ns);
		facts[2 * i + 1] = clock_fact_to_b(ping->answered_ns, ping->returned_ns);
	}
	if (!pings->count)
		return clock;
	struct clock_fit fit = clock_fit(facts, 2 * pings->count, &options);
	if (fit.bound_ns < 0)
		return clock;
	snprintf(clock.reference, sizeof(clock.reference), "%s", pings->clock);
	clock.at_ns = fit.line.at_ns;
	clock.offset_ns = fit.line.offset_ns;
	clock.skew = fit.line.skew;
	clock.bound_ns = fit.bound_ns;
	return clock;
}
