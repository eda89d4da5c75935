/* SPDX-License-Identifier: Apache-2.0 */
/* What all tables and trees of one picture are made of: the samples that were chosen, as a flame tree. */
#ifndef WICK_TOP_DATA_H
#define WICK_TOP_DATA_H

#include "render/flame.h"

struct top_choice {
	bool hides_kernel;	 /* kernel frames leave the stacks; their time is their callers' */
	bool shows_interpreters; /* the internals of interpreters stay in the stacks */
	/* NULL = any: labels of the samples. */
	const char *host, *pid, *tid;
};
struct top_data {
	const struct profile *profile; /* what was chosen: the snapshot itself if that is everything as it is */
	struct profile *copy;
	size_t value; /* which of its sample types */
	struct flame *flame;
	uint32_t *places; /* by stack: the node that it ends in */
	uint32_t *ends;	  /* by node: the first one that is neither it nor below it */
};

/* The snapshot is not changed, and must live as long as the data, as it is. -ENOMEM, -E2BIG. */
int top_data_build(const struct profile *snapshot, const struct top_choice *choice, struct top_data *ret, struct error *err);
void top_data_release(struct top_data *data);

/* Texts of nodes live as long as the data. */
static inline const char *top_node_name(const struct top_data *data, uint32_t node)
{
	return intern_string(&data->flame->strings, data->flame->nodes[node].name);
}
static inline const char *top_node_binary(const struct top_data *data, uint32_t node)
{
	return intern_string(&data->flame->strings, data->flame->nodes[node].binary);
}

/* The label of a sample's set, or else of the resource; NULL = it has none of the key. */
const struct profile_label *top_find_label(const struct profile *profile, uint32_t set, const char *key);

/* Of all samples of a snapshot: their CPU time, and how much of it was in the kernel. */
void top_count_cpu(const struct profile *snapshot, int64_t *ret_total, int64_t *ret_kernel);

#endif
