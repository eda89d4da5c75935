/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How this host's clock stands to its server's, from the times of questions and answers (orders.h).
 *
 * Each ping says two things for certain: the server's clock was ahead by at most received - sent when the question was under
 * way, and by at least answered - returned when the answer was. The shorter the round trip, the more they say; so of all pings
 * of a few seconds only the best is kept, and base/clock_fit.h finds the line that all of them allow, with a bound that is
 * proved. Half of the best round trip is what it comes to.
 *
 * What came before a clock was set is forgotten: here when the wall clock was (base/clock_steps.h), there when the server says
 * that its clock is another.
 */
#ifndef WICK_CONTROL_PINGS_H
#define WICK_CONTROL_PINGS_H

#include "control/orders.h"

#define PINGS_MAX	256
#define PINGS_WINDOW_NS (4 * 1000000000ll) /* of each the best; so 17 min are kept */

struct pings {
	struct orders_ping items[PINGS_MAX]; /* a ring, oldest first from `first` on */
	size_t first, count;
	char clock[ORDERS_CLOCK_SIZE]; /* the server's that they are about */
};
/* clock: of the server, as it says. A ping whose times run backwards is left out. */
void pings_add(struct pings *pings, const char *clock, const struct orders_ping *ping);
void pings_forget(struct pings *pings); /* the wall clock was set */
/* The line from from_ns to to_ns of this host's clock; a reference of "" when there are no pings. */
struct orders_clock pings_fit(const struct pings *pings, int64_t from_ns, int64_t to_ns);

#endif
