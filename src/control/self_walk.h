/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The callers of a sample of this process (self_sampler.h). Libraries have no frame pointers, and functions none where they
 * begin and end: so the part of the stack that was copied is walked by the tables that the agent unwinds other processes with
 * (bpf/unwind.h), and beyond it, or where there is no rule, by the frame pointers that the signal handler followed.
 */
#ifndef WICK_CONTROL_SELF_WALK_H
#define WICK_CONTROL_SELF_WALK_H

#include "base/buffer.h"
#include "control/self_sampler.h"

struct self_mapping {
	uint64_t start, end, offset;
	uint32_t id;	     /* of the profile */
	char *path;	     /* NULL = no file */
	bool has_table;	     /* it was looked for */
	struct buffer table; /* empty = the file has none */
};
struct self_mappings {
	struct self_mapping *items;
	size_t count, capacity;
};
void self_mappings_release(struct self_mappings *mappings);
struct self_mapping *self_mappings_find(const struct self_mappings *mappings, uint64_t address);
/* The instruction, then return addresses, at most SELF_FRAMES_MAX. */
size_t self_walk(const struct self_mappings *mappings, const struct self_sample *sample, uint64_t ret[static SELF_FRAMES_MAX]);

#endif
