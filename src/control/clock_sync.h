/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Clock sync: the offset of this host's clock to its server's, from the times of polls and replies (protocol.h).
 *
 * Each sample proves two bounds: the server's clock was ahead by at most received - sent when the request was under way, and by
 * at least answered - returned when the response was. The shorter the round trip, the tighter the bounds; so of all samples of
 * a few seconds only the best is kept, and base/clock_fit.h finds the line that all of them allow, with a bound that is proved.
 * Half of the best round trip is what it comes to.
 *
 * What came before a clock was set is forgotten: here when the wall clock was (base/clock_steps.h), there when the server
 * reports another clock id.
 */
#ifndef WICK_CONTROL_CLOCK_SYNC_H
#define WICK_CONTROL_CLOCK_SYNC_H

#include "control/protocol.h"

#define CLOCK_SYNC_MAX	       256
#define CLOCK_SYNC_INTERVAL_NS (4 * 1000000000ll) /* of each the best; so 17 min are kept */

struct clock_sync {
	struct clock_sample items[CLOCK_SYNC_MAX]; /* a ring, oldest first from `first` on */
	size_t first, count;
	char clock[CONTROL_CLOCK_SIZE]; /* the server's that they are about */
};
/* clock: the id of the server's clock. A sample whose times run backwards is dropped. */
void clock_sync_add(struct clock_sync *sync, const char *clock, const struct clock_sample *sample);
void clock_sync_forget(struct clock_sync *sync); /* the wall clock was set */
/* The line from from_ns to to_ns of this host's clock; a reference of "" when there are no samples. */
struct host_clock clock_sync_fit(const struct clock_sync *sync, int64_t from_ns, int64_t to_ns);

#endif
