/* SPDX-License-Identifier: Apache-2.0 */
/* Private to src/agent: what /proc says of a process or a thread. */
#ifndef WICK_AGENT_PROC_H
#define WICK_AGENT_PROC_H

#include <dirent.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct proc_stat {
	char name[65]; /* may hold anything */
	char state;
	pid_t parent;
	unsigned flags; /* PF_ of the kernel */
	long threads, rss_pages;
	uint64_t user_ticks, system_ticks, start_ticks; /* USER_HZ; the start since boot */
};
/* The stat of a process, or of its thread tid if that is not 0. False if there is none (gone). */
bool proc_read_stat(pid_t pid, pid_t tid, struct proc_stat *ret);
/* The processes, or the threads of one: opens the list (NULL if there is none), and gives the next id; 0 at the end. */
DIR *proc_open_processes(void);
DIR *proc_open_threads(pid_t pid);
pid_t proc_next(DIR *list); /* NULL allowed */
/* What a process or a thread calls itself in its own pid namespace: the last number of NSpid. 0 = there is no telling. */
pid_t proc_own_id(pid_t pid, pid_t tid);
/* Copies memory of a process. Returns the bytes that could be read, from the first one on, or negative errno. */
ssize_t proc_read_memory(pid_t pid, uint64_t address, void *to, size_t bytes);

#endif
