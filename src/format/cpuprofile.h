/* SPDX-License-Identifier: Apache-2.0 */
/* Private to src/format: V8's call trees, which come whole in a file (cpuprofile.c) or in parts in a trace (chrome_trace.c). */
#ifndef WICK_FORMAT_CPUPROFILE_H
#define WICK_FORMAT_CPUPROFILE_H

#include "codec/json_tree.h"
#include "format/format_int.h"

/* The location of a function: of a callFrame {functionName, url, lineNumber, columnNumber}. */
int cpuprofile_add_call_frame(struct profile *profile, const struct json_node *call, uint32_t *ret_location, struct error *err);

struct cpuprofile_tree;
/* Samples and the time until the next one: the first two values of a profile that trees are read into. */
int cpuprofile_add_types(struct profile *profile, struct error *err);
/* What refers to nodes that are not there is left out. */
struct cpuprofile_missing {
	uint64_t samples, children, parents;
};
int cpuprofile_note(const struct cpuprofile_missing *missing, const struct format_options *options, struct error *err);
/* start_us: what the first time difference counts from. missing: of this tree and perhaps of others; must stay. */
int cpuprofile_tree_new(struct profile *profile, int64_t start_us, struct cpuprofile_missing *missing,
			struct cpuprofile_tree **ret, struct error *err);
struct cpuprofile_tree *cpuprofile_tree_free(struct cpuprofile_tree *tree); /* NULL allowed; returns NULL */
DEFINE_CLEANUP_POINTER(cpuprofile_tree_free, struct cpuprofile_tree);

/* Arrays of the JSON, which must stay; each NULL if it is not there. Lines and columns are of the samples' leaves, from 1. */
struct cpuprofile_part {
	const struct json_node *nodes, *samples, *deltas, *lines, *columns;
};
int cpuprofile_tree_add(struct cpuprofile_tree *tree, const struct cpuprofile_part *part, struct error *err);
/* Adds the samples to the profile; the last one lasts until end_us. */
int cpuprofile_tree_finish(struct cpuprofile_tree *tree, int64_t end_us, uint32_t labels, struct error *err);

#endif
