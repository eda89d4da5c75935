/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The agent's way from a sample in the kernel to a chain, with its own parts, in capture mode: each sample also brings the
 * registers and the stack at its leaf, so that others can be asked about the very same instant.
 */
#ifndef WICK_TESTS_ORACLE_PIPELINE_H
#define WICK_TESTS_ORACLE_PIPELINE_H

#include "agent/unwinder.h"
#include "tests/oracle/capture.h"

struct pipeline_sample {
	struct capture capture;
	char comm[17];
	struct chain kernel; /* what the sampling program found */
	struct chain agent;  /* the same, or finished in user space if that lacked knowledge */
	struct chain user;   /* the walk in user space, from the leaf on */
};
typedef void pipeline_function(void *context, const struct pipeline_sample *sample);

struct pipeline;
/* Dies without the privileges or kernel features. Nothing is sampled before pipeline_add(). */
struct pipeline *pipeline_new(unsigned frequency_hz, bool no_heap);
void pipeline_add(struct pipeline *pipeline, pid_t pid); /* and what it forks */
/* Everything up to a moment ago, in the order of time; samples without a copy of the stack are counted as lost. */
void pipeline_drain(struct pipeline *pipeline, pipeline_function *take, void *context);
uint64_t pipeline_lost(const struct pipeline *pipeline);
struct pipeline *pipeline_free(struct pipeline *pipeline);

#endif
