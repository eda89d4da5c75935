/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Puts the times of a profile of several hosts onto the clock of one of them. The method is in align.c.
 *
 * What is known comes from three sources: fits that the hosts carry (struct profile_host: pings and the like), flows (markers
 * that say what was sent where and when it arrived), and the wall clocks themselves, which are all there is without the others.
 */
#ifndef WICK_PROFILE_ALIGN_H
#define WICK_PROFILE_ALIGN_H

#include "profile/markers.h"

/* LIMIT of hosts of one profile. */
#define PROFILE_ALIGN_HOSTS_MAX 1024

struct profile_align_options {
	const char *reference; /* the host whose clock is kept; NULL = the first */
	bool keep_times;       /* draw exchanges only */
};
struct profile_align_result {
	uint64_t exchanges; /* drawn: from a send to its receive, of different processes or hosts */
	uint64_t reversed;  /* of these: the receive is before the send nevertheless */
	uint64_t ambiguous; /* flows with several sends and several ends, of which nobody knows what belongs together */
};

/*
 * Moves times of samples, markers, counters and starts of threads; afterwards hosts say what their clock was found to be and
 * are is_aligned. Those that were before are aligned once more, all in all. What has no host keeps its times. The profile's own
 * time and duration become those that its times span.
 *
 * Adds a marker "Exchange" (category "Exchanges") on the receiver's thread, from each send to its receive, in the place of
 * those that are there already. A flow's send is a marker that does not end it, its receive one that does: when the send began
 * (an END: ended) is not after the receive ended (an instant: was).
 *
 * -EINVAL: there is no host of the reference's name. -E2BIG: too many hosts, or markers. After these and -ENOMEM the profile is
 * valid, but times may have been moved and not all exchanges drawn. options NULL = all 0; ret NULL allowed.
 */
int profile_align(struct profile *profile, const struct profile_align_options *options, struct profile_align_result *ret,
		  struct error *err);

#endif
