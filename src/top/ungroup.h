/* SPDX-License-Identifier: Apache-2.0 */
/* What a server answers to a query that groups by labels has each as a frame at the root of the stacks, "process_pid=42". Here
 * they are labels again, so that the tables of processes and threads are made as of samples of this machine. */
#ifndef WICK_TOP_UNGROUP_H
#define WICK_TOP_UNGROUP_H

#include "profile/profile.h"

struct top_group {
	const char *name;  /* on the server: "process_pid" */
	const char *label; /* here: "process.pid" */
};
/* The groups that a query asks for, in this order, the coarsest first. */
#define TOP_GROUPS 5
extern const struct top_group top_groups[TOP_GROUPS];

/* *ret: a new profile. -ENOMEM or -E2BIG. */
int top_ungroup(const struct profile *from, struct profile **ret, struct error *err);

#endif
