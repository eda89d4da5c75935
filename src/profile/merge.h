/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copying parts of one profile into another, the operation behind merging files, the store's head, and query results.
 *
 * A struct profile_copy maps ids of one source profile to ids of a destination, filled lazily, so that only what is used is
 * copied. Equal content meets in one id because the destination interns. In the destination, mappings that stand for the same
 * part of the same binary are one: their key is (build-id, or file name without one; offset; size rounded up to 4 KiB), and a
 * location's address is rebased onto the mapping kept.
 */
#ifndef WICK_PROFILE_MERGE_H
#define WICK_PROFILE_MERGE_H

#include "profile/profile.h"

struct profile_copy; /* opaque; valid while both profiles live and the source does not change */
int profile_copy_new(struct profile *to, const struct profile *from, struct profile_copy **ret, struct error *err);
struct profile_copy *profile_copy_free(struct profile_copy *copy);
DEFINE_CLEANUP_POINTER(profile_copy_free, struct profile_copy);
int profile_copy_string(struct profile_copy *copy, uint32_t id, uint32_t *ret, struct error *err);
/* Several strings of the source, where they stand. */
int profile_copy_strings(struct profile_copy *copy, uint32_t *const *ids, size_t count, struct error *err);
#define PROFILE_COPY_STRINGS(copy, err, ...)                                                                                   \
	profile_copy_strings((copy), (uint32_t *const[]){__VA_ARGS__},                                                         \
			     sizeof((uint32_t *const[]){__VA_ARGS__}) / sizeof(uint32_t *), (err))
/* Adds the source's sample types, or the one of that number. */
int profile_copy_sample_types(struct profile_copy *copy, struct error *err);
int profile_copy_sample_type(struct profile_copy *copy, size_t which, struct error *err);
/* The period, its type, the time and the duration become those of the source. */
int profile_copy_times(struct profile_copy *copy, struct error *err);
int profile_copy_mapping(struct profile_copy *copy, uint32_t id, uint32_t *ret, struct error *err);
/* Adds a mapping, whose strings are the profile's, unless there is one of the same part of the same binary: then that one. */
int profile_merge_mapping(struct profile *profile, const struct profile_mapping *mapping, uint32_t *ret, struct error *err);
int profile_copy_location(struct profile_copy *copy, uint32_t id, uint32_t *ret, struct error *err);
int profile_copy_stack(struct profile_copy *copy, uint32_t id, uint32_t *ret, struct error *err);
int profile_copy_label_set(struct profile_copy *copy, uint32_t id, uint32_t *ret, struct error *err);
int profile_copy_link(struct profile_copy *copy, uint32_t id, uint32_t *ret, struct error *err);
/* All markers and counters; `copy` is of the same two profiles. */
int profile_copy_markers(struct profile *to, const struct profile *from, struct profile_copy *copy, struct error *err);

/*
 * Merges `from` into `to` as google/pprof's Merge does: sample types must be equal in number, order and name (-EINVAL says
 * which differ; an empty `to` takes those of `from`), the period types too; samples summed by (stack, labels, link, time),
 * all-zero samples dropped; period = max, duration = sum, time = earliest non-zero; comments united. Sample times are set to 0
 * when drop_times, so that samples of different times sum up. from's resource labels: if they differ from to's, those of both
 * that are not common move into the samples' label sets (a sample's own label of the same key stays). Markers and counters are
 * added with their times.
 *
 * -EINVAL leaves `to` as it was; after -ENOMEM and -E2BIG it is valid but may hold a part of `from`.
 */
int profile_merge(struct profile *to, const struct profile *from, bool drop_times, struct error *err);

#endif
