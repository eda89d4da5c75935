/* SPDX-License-Identifier: Apache-2.0 */
/* Private to src/agent: what /proc says of a process or a thread, as text. */
#ifndef WICK_AGENT_PROC_H
#define WICK_AGENT_PROC_H

#include <dirent.h>
#include <sys/types.h>

/* Room for the file: numbers, and a name of up to 64 bytes. */
#define PROC_STAT_BYTES 1024
/* Reads the stat of a process, or of its thread tid if that is not 0, "17 (name) S 1 ...". Returns what stands behind the name,
 * from the blank before the third field on, or NULL if there is none (gone). The name may hold anything; it ends with a NUL,
 * and *ret_name, which may be NULL, is its beginning. */
const char *proc_read_stat(pid_t pid, pid_t tid, char text[PROC_STAT_BYTES], const char **ret_name);
/* The processes, or the threads of one: opens the list (NULL if there is none), and gives the next id; 0 at the end. */
DIR *proc_open_processes(void);
DIR *proc_open_threads(pid_t pid);
pid_t proc_next(DIR *list); /* NULL allowed */
/* What a process or a thread calls itself in its own pid namespace: the last number of NSpid. 0 = there is no telling. */
pid_t proc_own_id(pid_t pid, pid_t tid);

#endif
