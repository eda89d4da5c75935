/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A profile of this process that is being made: what its addresses belong to, and at the end their names. These are given as
 * `wick record` gives them: binaries are read by a process in a sandbox, which ends with the request.
 */
#ifndef WICK_CONTROL_SELF_WRITER_H
#define WICK_CONTROL_SELF_WRITER_H

#include "control/self_walk.h"
#include "profile/profile.h"
#include "symbol/symbol.h"
#include "symbol/worker.h"

#define SELF_VALUES_MAX 4u /* of a sample */

struct self_writer {
	struct profile *profile;
	struct symbolizer *symbolizer;
	struct self_mappings mappings;
	int64_t mapped_ns; /* when they were read, CLOCK_MONOTONIC */
};

/* The time is now. worker: who reads symbols; NULL = this process. */
int self_writer_init(struct self_writer *writer, const struct symbol_worker_options *worker, struct error *err);
void self_writer_release(struct self_writer *writer);
/* What has been mapped since, too. */
int self_writer_read_mappings(struct self_writer *writer, struct error *err);
/* Of addresses within instructions (a return address is behind its call), leaf first, at most SELF_FRAMES_MAX. What is no code
 * is what a register held that was no frame pointer: the stack ends there. */
int self_writer_add_stack(struct self_writer *writer, const uint64_t *addresses, size_t depth, uint32_t *ret,
			  struct error *err);
/* A sample of nothing, so that the program is in the profile, and first, whatever was sampled. */
int self_writer_add_program(struct self_writer *writer, struct error *err);
/* Functions and lines of all locations. */
int self_writer_add_names(struct self_writer *writer, struct error *err);
/* A pprof, gzipped. */
int self_writer_encode(const struct self_writer *writer, struct buffer *out, struct error *err);

#endif
