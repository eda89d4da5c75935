/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by tests of this folder: the programs that they start, and waiting for what a child does, however slow the machine is.
 */
#ifndef WICK_AGENT_TEST_CHILD_H
#define WICK_AGENT_TEST_CHILD_H

#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/time.h"

/* The path of tests/programs/NAME.c, built: DIR/programs/NAME, where the test is DIR/test/.... "" if that cannot be found. */
static inline void child_program(const char *name, char *ret, size_t size)
{
	char self[4096];
	ssize_t len = readlink("/proc/self/exe", self, sizeof(self) - 1);
	char *end = NULL;
	self[len > 0 ? len : 0] = 0;
	for (char *at = self; (at = strstr(at, "/test/")); at++)
		end = at;
	snprintf(ret, size, "%.*s%s%s", end ? (int)(end - self) : 0, self, end ? "/programs/" : "", end ? name : "");
}

/* Whether the process is in a call that does nothing but sleep. */
static inline bool child_sleeps(pid_t pid)
{
	char path[64];
	long call = -1;
	snprintf(path, sizeof(path), "/proc/%d/syscall", (int)pid);
	FILE *file = fopen(path, "re");
	if (!file)
		return false;
	bool found = fscanf(file, "%ld", &call) == 1; /* not while it runs */
	fclose(file);
#ifdef SYS_nanosleep
	if (found && call == SYS_nanosleep)
		return true;
#endif
	return found && call == SYS_clock_nanosleep;
}

/*
 * Waits until a child that is to become sleep(1) has done so and sleeps: all that the program and its loader map is there then.
 * False if it ended instead, which leaves it to be reaped, or after two minutes, which only a test that has failed waits for.
 */
static inline bool child_wait_sleeps(pid_t pid)
{
	siginfo_t info = {0};
	for (int i = 0; i < 12000 && waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && !info.si_pid; i++) {
		if (child_sleeps(pid))
			return true;
		time_sleep_ns(10 * NS_PER_MS);
	}
	return false;
}

#endif
