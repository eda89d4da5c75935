/* SPDX-License-Identifier: Apache-2.0 */
/* Processes that a verb samples by their numbers, and what these have started. */
#ifndef WICK_CMD_FOLLOW_H
#define WICK_CMD_FOLLOW_H

#include "agent/agent.h"
#include "agent/process/targets.h"
#include "cmd/cmd.h"

/* Adds the values of -p. Whether they live is not asked. */
int follow_parse(struct target_pids *pids, const struct option_list *list, struct error *err);
/*
 * Adds the children of those in the list, and theirs; also to the agent, if there is one yet. What forks before the agent
 * follows it is found by calling this once more then. unprivileged: a child that is another user's is left out.
 */
int follow_children(struct target_pids *pids, struct agent *agent, bool unprivileged, struct error *err);

#endif
