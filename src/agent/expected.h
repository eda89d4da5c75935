/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Private to src/agent: processes that have begun to run a program which had an interpreter or a virtual machine in it before
 * (struct binary, has_runtime), and in which it was not found yet: its library is about to be mapped, or it is about to be
 * made.
 *
 * The first sample of a process shows functions only if the kernel side knows the runtime by then. So the agent is woken when
 * such a program is executed (bpf/sample.bpf.c, runtime_files), reads the events of it, and tells the kernel side before there
 * is a sample, in most cases. The time until that look is short against what an interpreter takes to start, and long enough for
 * the dynamic linker. What is not there by then is looked for again, each time half as long again as the process is old, and
 * given up in the end: then the first sample finds it, as in a program that was never seen.
 */
#ifndef WICK_AGENT_EXPECTED_H
#define WICK_AGENT_EXPECTED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/time.h"

#define EXPECTED_MAX	 64u /* at a time; others are found by their first sample */
#define EXPECTED_LOOK_NS (8 * NS_PER_MS)
#define EXPECTED_FOR_NS	 (2 * NS_PER_S) /* after that it is given up */

struct expected {
	struct expected_process {
		pid_t pid;
		uint32_t id; /* of struct process */
		int64_t due_ns;
	} items[EXPECTED_MAX];
	size_t count;
};

/* Looks at the process again, if it is not too old; it is in the list once. False if it is given up, or there is no room. */
bool expected_add(struct expected *expected, pid_t pid, uint32_t id, int64_t started_ns, int64_t now_ns);
/* Takes one that is due out of the list; false if there is none. */
bool expected_take(struct expected *expected, int64_t now_ns, pid_t *ret_pid, uint32_t *ret_id);
/* When the next one is due; 0 = none is in the list. */
int64_t expected_next_ns(const struct expected *expected);

#endif
