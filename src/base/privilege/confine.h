/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Locking a long-running process in: which system calls it may make (seccomp), where it may write (Landlock), and that no
 * program it starts may do more (no_new_privs). Essay at the top of confine.c. src/symbol/sandbox.c is for short-lived parsers,
 * and far stricter.
 *
 * All of it is inherited by threads and programs that are started afterwards, and cannot be taken back. To be called before
 * there are threads: those that run already would stay as they are.
 */
#ifndef WICK_BASE_PRIVILEGE_CONFINE_H
#define WICK_BASE_PRIVILEGE_CONFINE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"

/* No program that is started gets more than this process has: setuid bits and capabilities of files count for nothing. */
int confine_no_new_privileges(struct error *err);

enum confine_access {
	CONFINE_READ = 1,
	CONFINE_WRITE = 2, /* reading, making, removing and renaming as well */
	CONFINE_EXECUTE = 4,
};
struct confine_path {
	const char *path; /* a file, or a directory and all that is below it; NULL, "" or what is not there: left out */
	unsigned access;  /* enum confine_access */
};
/* A positive result of confine_files(). */
#define CONFINE_ABSENT 1
/* Files may be read, written and executed below these paths only, from here on. 0, or CONFINE_ABSENT: this kernel has no
 * Landlock, or one that cannot allow renames between directories (before Linux 5.19). It also forbids to look into processes
 * that are not confined likewise (ptrace, /proc/PID/mem), and to send them signals. Needs no_new_privs. */
int confine_files(const struct confine_path *paths, size_t count, struct error *err);

struct confine_calls {
	const int *more; /* numbers of calls (SCMP_SYS of <seccomp.h>) that are allowed beside those that servers need */
	size_t more_count;
	bool perf_ioctls; /* those of perf events */
};
/* Only these system calls from here on. Others fail with EPERM and a line in the log that names the call, once for each. Needs
 * no_new_privs. -ENOSYS when this system cannot filter calls. */
int confine_calls(const struct confine_calls *calls, struct error *err);
/* For programs that a confined process has started: names what is refused, instead of dying of SIGSYS. Nothing otherwise. */
void confine_inherited(void);

#endif
