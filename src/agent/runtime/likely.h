/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which programs have a runtime (bpf/runtime.h), as far as their names tell. A guess, to have the sampling program for them
 * ready before such a process runs; what it really has is seen in its mappings later. A wrong one costs 0.1 s of CPU here, or
 * the names of the first 0.1 s there.
 */
#ifndef WICK_AGENT_RUNTIME_LIKELY_H
#define WICK_AGENT_RUNTIME_LIKELY_H

#include <stdbool.h>
#include <sys/types.h>

/* A command as it is given to execvp(): a path, or a name that is looked for in PATH. Links are followed, and the first line of
 * a script. */
bool runtime_is_likely_in_command(const char *command);
/* A process that is there. */
bool runtime_is_likely_in_process(pid_t pid);

#endif
