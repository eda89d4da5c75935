/* SPDX-License-Identifier: Apache-2.0 */
/* Private to src/agent: cgroup id -> path. The id is the inode of the cgroup's directory. */
#ifndef WICK_AGENT_PROCESS_CGROUPS_H
#define WICK_AGENT_PROCESS_CGROUPS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "base/intern.h"
#include "base/map.h"

struct cgroups {
	char root[64]; /* where the hierarchy is mounted; "" = none */
	bool v1;       /* the memory controller's hierarchy of version 1 */
	int root_fd;
	struct map64 known; /* id -> string */
	struct intern paths;
};

/* Finds the hierarchy: cgroup2 on /sys/fs/cgroup, else memory of version 1, else cgroup2 on /sys/fs/cgroup/unified. None is no
 * failure. */
int cgroups_init(struct cgroups *cgroups, struct error *err);
void cgroups_release(struct cgroups *cgroups);
/* "/system.slice/ssh.service", "/" for the root, "" if unknown (removed before anyone asked). Valid until the next call. */
const char *cgroups_path(struct cgroups *cgroups, uint64_t id);

#endif
