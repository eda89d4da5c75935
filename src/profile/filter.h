/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Filters: what of a profile is looked at. Each works in place, on a profile of one's own; samples that are left without what a
 * filter asks for go, stacks become shorter. The rules are those of google/pprof (profile/filter.go, profile/prune.go), so that
 * an expression means the same here and there.
 *
 * A frame's names are its function's name and source file, and the file of its mapping; where several functions are inlined at
 * one location, each is a frame of its own.
 *
 * What depends on a stack alone is decided once a stack, callers first (a parent's id is smaller than its child's), and not
 * once a sample. All functions return 0, -ENOMEM or -E2BIG; the profile is valid but half filtered after a failure.
 */
#ifndef WICK_PROFILE_FILTER_H
#define WICK_PROFILE_FILTER_H

#include "profile/profile.h"

/* Whether an expression is found in a text. */
struct profile_matcher {
	bool (*finds)(const void *context, struct bytes text);
	const void *context;
};

struct profile_names_filter {
	const struct profile_matcher *focus;  /* keep samples that have such a frame; NULL = all (of each, here and below) */
	const struct profile_matcher *ignore; /* drop samples that have such a frame */
	const struct profile_matcher *hide;   /* drop such frames */
	const struct profile_matcher *show;   /* drop all other frames */
};
struct profile_names_found {
	bool focus, ignore, hide, show; /* anything matched */
};
/* Samples that are left without frames go. */
int profile_filter_names(struct profile *profile, const struct profile_names_filter *filter, struct profile_names_found *ret,
			 struct error *err);
/* Drops the callers above the highest frame that matches; samples without one go. */
int profile_filter_show_from(struct profile *profile, const struct profile_matcher *from, bool *ret_found, struct error *err);
/* Drops what is called, directly or not, by the frame nearest to the leaf that matches by its function's name. */
int profile_filter_prune_from(struct profile *profile, const struct profile_matcher *from, struct error *err);
/* Drops the first frame from the root on that matches drop and not keep (NULL = nothing) and what it calls, unless all its
 * callers match too: what allocators and profilers do with their own frames (Profile.drop_frames). */
int profile_filter_prune(struct profile *profile, const struct profile_matcher *drop, const struct profile_matcher *keep,
			 struct error *err);

/* Keeps the samples for which keep() says so, which is asked of one after the other and looks at no other sample. */
void profile_filter_samples(struct profile *profile, bool (*keep)(const void *context, const struct profile *, size_t sample),
			    const void *context);
struct profile_labels_found {
	bool show, hide;
};
/* Keeps labels whose key matches show and not hide. */
int profile_filter_labels(struct profile *profile, const struct profile_matcher *show, const struct profile_matcher *hide,
			  struct profile_labels_found *ret, struct error *err);
/* Gives every sample one more label, in place of those it has by that name. */
int profile_set_label(struct profile *profile, const char *key, const char *value, struct error *err);
/* Puts the resource's labels into those of the samples, where they have none of that name. */
int profile_spread_resource_labels(struct profile *profile, struct error *err);

#endif
