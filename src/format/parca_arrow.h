/* SPDX-License-Identifier: Apache-2.0 */
/* Parca's Arrow records of samples (ProfileStoreService's Write and WriteArrow). Essay at the top of parca_arrow.c. */
#ifndef WICK_FORMAT_PARCA_ARROW_H
#define WICK_FORMAT_PARCA_ARROW_H

#include "profile/profile.h"

struct parca_profile {
	struct profile *profile; /* of one sample type */
	char *name;		 /* the first part of its type; the column "producer" */
};
struct parca_profiles {
	struct parca_profile *items;
	size_t count;
};
void parca_profiles_init(struct parca_profiles *profiles);
void parca_profiles_release(struct parca_profiles *profiles);

/* Appends a record that asks for the stacks of the samples' ids. 1: they are given by ids only; 0: the stacks are there.
 * memory_max as arrow_stream_open()'s. -EBADMSG, -E2BIG, -ENOMEM. */
int parca_arrow_request(struct bytes samples, size_t memory_max, struct buffer *out, struct error *err);
/* A profile for each kind of sample, in the order in which they come. locations: the answer to what was asked, or empty.
 * memory_max is that of each of the two. -EBADMSG; -E2BIG for more than LIMIT_SAMPLE_TYPES kinds, 512 labels, or more
 * frames, lines and labels than the records' bytes allow (PARCA_WORK_MIN ...); -ENOMEM. */
int parca_arrow_decode(struct bytes samples, struct bytes locations, size_t memory_max, struct parca_profiles *ret,
		       struct error *err);

#endif
