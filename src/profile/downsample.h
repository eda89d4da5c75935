/* SPDX-License-Identifier: Apache-2.0 */
/* Taking samples, markers and rows of counters out of a profile that is still being made. What they refer to stays, used or
 * not. */
#ifndef WICK_PROFILE_DOWNSAMPLE_H
#define WICK_PROFILE_DOWNSAMPLE_H

#include "profile/markers.h"

#define PROFILE_MARKER_REMOVED UINT32_MAX

/* places: one for each marker; those of PROFILE_MARKER_REMOVED go, with their values, and the entries of the others become
 * where they are now. Their order stays. Memory is not given back: it is for those that come next. */
void profile_remove_markers(struct profile *profile, uint32_t *places);
/* keep: one for each row. */
void profile_keep_rows(struct profile *profile, const bool *keep);
/* Of 2^shift rows of a counter one stays, the last of them, with the sum of their events, or the mean of their shares; and so
 * does the last row of each counter. Returns 0 or -ENOMEM. */
int profile_downsample_rows(struct profile *profile, unsigned shift, struct error *err);
/* Events of two rows in one. Programs may give any number; a sum without end is none, and no format has a place for it. */
double profile_add_events(double a, double b);
/* From one sample of 2^from to one of 2^to, each standing for as many: its values become larger by that. Which ones stay is
 * chosen by a hash of their times, so that it has nothing to do with what they are of: totals are the same but for chance, and
 * two profiles that are downsampled by the same factor belong together. Samples without times stay as they are. Values must
 * have room for it. */
void profile_downsample_samples(struct profile *profile, unsigned from, unsigned to);

#endif
