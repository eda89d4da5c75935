/* SPDX-License-Identifier: Apache-2.0 */
/* For record.c: what the machine is, and what was recorded on it. */
#ifndef WICK_CMD_RECORD_MACHINE_H
#define WICK_CMD_RECORD_MACHINE_H

#include <sys/types.h>

#include "base/buffer.h"
#include "profile/markers.h"

/* More of a command line is not kept. */
#define RECORD_ARGUMENTS_MAX (128u * 1024)

/* One line of a shell. Bytes as they are; cut behind RECORD_ARGUMENTS_MAX, not within a character. 0 or -ENOMEM. */
int record_join_arguments(const char *const *arguments, struct buffer *out);
/* The same of a running process; nothing if it is not to be had. */
int record_read_arguments(pid_t pid, struct buffer *out);
/* Cores, of what /proc/cpuinfo says; 0 if it does not. */
uint32_t record_count_cores(struct bytes cpuinfo);
/* The name of the first CPU, or nothing. */
struct bytes record_cpu_name(struct bytes cpuinfo);
/* System and CPUs. */
int record_describe_machine(struct profile *profile, struct profile_machine *ret, struct error *err);

#endif
