/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What of a profile a head has already. Agents send the same stacks with every flush, so finding them is most of what an append
 * does to the head, and needs it for reading only: many appends look at a time, before any of them has the head alone.
 *
 *   head_lookup_make()   keys of stacks, locations and label sets: takes long, needs no head
 *   head_lookup_find()   their ids, with head->lock held for reading
 *   head_prepare()       (head.h) has the head alone: adds what was not found
 *
 * Ids of a head's tables never change, so what was found stays true as long as that head lives. What was not found may have
 * been added by others since: head_prepare() looks again. If the store has another head by then, nothing of it is used.
 */
#ifndef WICK_STORE_HEAD_HEAD_LOOKUP_H
#define WICK_STORE_HEAD_HEAD_LOOKUP_H

#include "profile/keys.h"
#include "store/head/head.h"

struct head_lookup {
	struct profile_keys keys;
	uint64_t head;	      /* number of the head that was asked; 0 = none */
	uint32_t *label_sets; /* label set of the profile -> that of the head + 1; 0 = not found */
	uint32_t *samples;    /* sample -> its stack in the head; 0 = not found, or it has none */
	/* Of samples' stacks that were not found: their frames, as far as they were; 0 = not found. NULL if all were. */
	uint32_t *stacks, *locations;
	uint32_t *path; /* scratch for one stack */
};
int head_lookup_make(const struct profile *profile, const struct labels *base, struct head_lookup *ret, struct error *err);
int head_lookup_find(struct head *head, const struct profile *profile, struct head_lookup *lookup, struct error *err);
/* Nothing is found: for another head. */
void head_lookup_forget(const struct profile *profile, struct head_lookup *lookup);
/* Makes the arrays for frames. */
int head_lookup_need_frames(const struct profile *profile, struct head_lookup *lookup, struct error *err);
void head_lookup_release(struct head_lookup *lookup);

#endif
