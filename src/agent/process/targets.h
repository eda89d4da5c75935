/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What there is to be recorded, found by name: process trees, control groups, and the containers and systemd units that are
 * control groups with names of a certain form (agent/process/context.h). Runtimes and service managers are not asked.
 */
#ifndef WICK_AGENT_PROCESS_TARGETS_H
#define WICK_AGENT_PROCESS_TARGETS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"

#define TARGET_PIDS_MAX	   16384u
#define TARGET_CGROUPS_MAX 1024u /* control groups below those that were named */

struct target_pids {
	pid_t *items;
	size_t count, capacity;
};
void target_pids_release(struct target_pids *pids);
/* Once, however often it is added. 0, -ENOMEM, -E2BIG. */
int target_pids_add(struct target_pids *pids, pid_t pid, struct error *err);
/* Adds what these processes have forked, and what that has, as far as it still has its parents, but for this very process.
 * *ret_added: how many; after the recording has begun it is called until there are none, since processes may have forked before
 * they were followed. */
int target_pids_add_children(struct target_pids *pids, size_t *ret_added, struct error *err);
/* Whether a thread of the process still runs: a zombie's do not. */
bool target_process_lives(pid_t pid);

/* Directories of control groups, from the root of the file system. */
struct target_cgroups {
	char **paths;
	size_t count, capacity;
};
void target_cgroups_release(struct target_cgroups *cgroups);
enum target_kind {
	TARGET_CGROUP,	  /* a path, absolute or from the root of the hierarchy */
	TARGET_CONTAINER, /* the beginning of an id (at least 4 characters) or of a name */
	TARGET_UNIT,	  /* a systemd unit, of the system or of a user; ".service" may be left out */
};
/* Adds the one of the name. -ENOENT when there is none, -ENOTUNIQ, naming them, when there are several. */
int target_cgroups_find(struct target_cgroups *cgroups, enum target_kind kind, const char *name, struct error *err);
/* The processes in them and below, added. */
int target_cgroups_add_pids(const struct target_cgroups *cgroups, struct target_pids *pids, struct error *err);
/* Calls back for each, and each below, with its id (inode) until that returns not 0, and returns that. */
int target_cgroups_each(char *const *paths, size_t count, int (*found)(void *context, uint64_t id, const char *path),
			void *context);

#endif
