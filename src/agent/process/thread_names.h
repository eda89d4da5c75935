/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Private to src/agent: full names of threads, which programs that use libwickmark give them (wickmark_thread_name()); the
 * kernel keeps 15 bytes. They are in the program's shared file (client/wickmark_abi.h), whether markers are recorded or not.
 *
 * A process is looked at some seconds after it was first sampled, so that short ones cost nothing, and then ever less often.
 * The file is the program's: it is read, never mapped, and what is read is bounded and checked. Names are read once a profile.
 */
#ifndef WICK_AGENT_PROCESS_THREAD_NAMES_H
#define WICK_AGENT_PROCESS_THREAD_NAMES_H

#include "agent/process/process.h"
#include "base/map.h"

#define THREAD_NAMES_PROCESSES_MAX 4096u /* remembered; of more, none get names */
#define THREAD_NAMES_FILES_MAX	   256u	 /* open */
#define THREAD_NAME_BYTES	   64u

struct thread_names {
	struct map64 processes; /* process.id -> struct named_process * */
	size_t file_count;
	int64_t first_check_ns; /* after a process was first seen; tests set it to 0 */
};

void thread_names_init(struct thread_names *names);
void thread_names_release(struct thread_names *names);
/* A profile ends: names are read again for the next one, and processes that were not asked for are forgotten. */
void thread_names_clear(struct thread_names *names);
/* The name of a thread (tid: as the agent sees it), valid until thread_names_clear(); NULL = none is known. */
const char *thread_names_find(struct thread_names *names, const struct process *process, uint32_t tid);
/* The inode of the shared file that a process maps. 0; -ENOENT: it maps none, or is gone; another errno: unknown. */
int thread_names_mapped_file(pid_t pid, unsigned long *ret_inode);
/* Opens the shared file of a process with these flags of open(2): a descriptor, or -ENOENT. */
int thread_names_open_file(pid_t pid, int flags);

#endif
