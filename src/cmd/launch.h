/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The command that `wick record` starts: held back until everything is ready for it, and then its own master. Standard streams,
 * signals and the terminal are those of whoever started wick; its end becomes wick's.
 */
#ifndef WICK_CMD_LAUNCH_H
#define WICK_CMD_LAUNCH_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "base/error.h"

struct launch {
	char **command;			/* NULL-terminated */
	const char *const *environment; /* "NAME=VALUE", on top of our own */
	size_t environment_count;
	const char *directory; /* NULL = ours */
	bool output_to_stderr; /* our standard output is taken */

	pid_t pid; /* 0 = not started */
	bool ended;
	int status;	       /* of waitpid(), once it has ended */
	int failed;	       /* the exit status that says why it could not be run; 0 = it could */
	int go_fd, problem_fd; /* writing to go_fd lets the child exec; errno of a failure comes back */
};
enum { LAUNCH_NOT_STARTED = 126, LAUNCH_NOT_FOUND = 127 }; /* exit statuses, as shells have them */

/* "NAME=VALUE" with a name; -EINVAL. */
int launch_check_variable(const char *text, struct error *err);
/* Forks a child that waits. */
int launch_prepare(struct launch *launch, struct error *err);
/* Lets it become the command. -ENOENT and the like when that fails: it has ended then. */
int launch_go(struct launch *launch, struct error *err);
/* Whether it has ended; does not wait. */
bool launch_has_ended(struct launch *launch);
/* Waits for the end. A second Ctrl-C ends wick meanwhile (cmd.h). */
void launch_wait(struct launch *launch);
/* One line on stderr about an end that was not a success. */
void launch_report(const struct launch *launch);
/* What wick ends with: the command's own status. Does not return when a signal ended the command, for we end by the same
 * signal then, so that shells and scripts see what they would have seen. */
int launch_exit_status(const struct launch *launch);
/* A child that still waits ends. */
void launch_release(struct launch *launch);

#endif
