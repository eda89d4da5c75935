/* SPDX-License-Identifier: Apache-2.0 */
/* Taking markers and rows of counters out of a profile that is still being made. What they refer to stays, used or not. */
#ifndef WICK_PROFILE_THIN_H
#define WICK_PROFILE_THIN_H

#include "profile/markers.h"

#define PROFILE_THIN_GONE UINT32_MAX

/* places: one for each marker; those of PROFILE_THIN_GONE go, with their values, and the entries of the others become where
 * they are now. Their order stays. Memory is not given back: it is for those that come next. */
void profile_thin_markers(struct profile *profile, uint32_t *places);
/* keep: one for each row. */
void profile_thin_rows(struct profile *profile, const bool *keep);

#endif
