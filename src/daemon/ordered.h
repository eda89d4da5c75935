/* SPDX-License-Identifier: Apache-2.0 */
/* A recording that was ordered, as a child process: `wick record` into a file of a directory that nobody else can read. */
#ifndef WICK_DAEMON_ORDERED_H
#define WICK_DAEMON_ORDERED_H

#include <sys/types.h>

#include "control/orders.h"

#define ORDERED_SAID_MAX 2048

struct ordered {
	char directory[4096 - 64], path[4096]; /* "" = there is none */
	int lock_fd;			       /* of the directory, which says that somebody still wants it; -1 = none */
	pid_t pid;			       /* 0 = does not run */
	int said_fd;			       /* its standard error; -1 = none */
	char said[ORDERED_SAID_MAX];	       /* the end of it */
	size_t said_len;
};
#define ORDERED_NONE ((struct ordered){.lock_fd = -1, .said_fd = -1})
/* Removes what agents that were killed have left below a directory. Those that run keep theirs. */
void ordered_sweep(const char *below);
/* at_ns: wall clock of this host. below: where the directory is made. */
int ordered_start(struct ordered *ordered, const struct orders_order *order, int64_t at_ns, int64_t duration_ns,
		  const char *below, struct error *err);
/* 1 it still runs, 0 its file is there, of ORDERS_PROFILE_MAX at most; negative with what it said. */
int ordered_check(struct ordered *ordered, struct error *err);
void ordered_release(struct ordered *ordered); /* ends it; removes its file */

#endif
