/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd/follow.h"

#include <errno.h>

#include "base/text.h"

#define CHILDREN_ROUNDS 64 /* of looking for more; a tree that grows faster than that is followed as it is */

int follow_parse(struct target_pids *pids, const struct option_list *list, struct error *err)
{
	for (size_t i = 0; i < list->count; i++) {
		uint64_t pid;
		int r = text_parse_u64(list->items[i], &pid, err);
		if (r < 0 || pid == 0 || pid > INT32_MAX)
			return error_set(err, -EINVAL, "-p: '%.40s' is not a process id", list->items[i]);
		r = target_pids_add(pids, (pid_t)pid, err);
		if (r < 0)
			return r;
	}
	return 0;
}

/* A child may be another user's; that is counted. */
static int add_pid(struct agent *agent, pid_t pid, bool unprivileged, struct error *err)
{
	int r = agent_add_pid(agent, pid, err);
	return r == -EPERM && unprivileged ? 0 : r;
}

int follow_children(struct target_pids *pids, struct agent *agent, bool unprivileged, struct error *err)
{
	size_t added = pids->count ? 1 : 0, known = pids->count;
	int r = 0;

	for (int round = 0; round < CHILDREN_ROUNDS && added && r == 0; round++) {
		r = target_pids_add_children(pids, &added, err);
		for (; known < pids->count && r == 0 && agent; known++)
			r = add_pid(agent, pids->items[known], unprivileged, err);
	}
	return r;
}
