/* SPDX-License-Identifier: Apache-2.0 */
/* A requested recording, as a child process: `wick record` into a file of a directory that nobody else can read. */
#ifndef WICK_DAEMON_RECORDING_RUNNER_H
#define WICK_DAEMON_RECORDING_RUNNER_H

#include <sys/types.h>

#include "control/protocol.h"

#define RECORDING_RUNNER_OUTPUT_MAX 2048

struct recording_runner {
	char directory[4096 - 64], path[4096];	  /* "" = there is none */
	int lock_fd;				  /* of the directory, a sign that it is still in use; -1 = none */
	pid_t pid;				  /* 0 = does not run */
	int output_fd;				  /* its standard error; -1 = none */
	char output[RECORDING_RUNNER_OUTPUT_MAX]; /* the end of it */
	size_t output_len;
};
#define RECORDING_RUNNER_NONE ((struct recording_runner){.lock_fd = -1, .output_fd = -1})
/* Removes what agents that were killed have left below a directory. Those that run keep theirs. */
void recording_runner_sweep(const char *below);
/* at_ns: wall clock of this host. below: where the directory is made. */
int recording_runner_start(struct recording_runner *runner, const struct recording_request *request, int64_t at_ns,
			   int64_t duration_ns, const char *below, struct error *err);
/* 1 it still runs, 0 its file is there, of RECORDING_PROFILE_MAX at most; negative with its error message. */
int recording_runner_check(struct recording_runner *runner, struct error *err);
void recording_runner_release(struct recording_runner *runner); /* ends it; removes its file */

#endif
