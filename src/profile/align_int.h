/* SPDX-License-Identifier: Apache-2.0 */
/* Private to src/profile: what alignment is made of. */
#ifndef WICK_PROFILE_ALIGN_INT_H
#define WICK_PROFILE_ALIGN_INT_H

#include "base/clock_fit.h"
#include "profile/align.h"

/* Two markers of one flow: what was sent and received. */
struct align_exchange {
	uint32_t send, receive; /* of the profile's markers */
};

struct align_exchanges {
	struct align_exchange *items;
	size_t count, capacity;
	uint64_t ambiguous;
};
/* align_flows.c. All pairs of different threads that have different hosts or processes. -ENOMEM. */
int align_find_exchanges(const struct profile *profile, struct align_exchanges *ret);
/* When a marker sent or received something. */
int64_t align_sent_ns(const struct profile_marker *marker);
int64_t align_received_ns(const struct profile_marker *marker);
/* Takes out the markers of an earlier alignment; exchanges of before are no longer valid. */
void align_drop_exchange_markers(struct profile *profile);
int align_draw_exchanges(struct profile *profile, const struct align_exchanges *exchanges, uint64_t *ret_reversed,
			 struct error *err);

/* markers.c: after entries have changed that are found by what they are: hosts, threads, counters. */
int profile_reindex_markers(struct profile *profile, struct error *err);

#endif
