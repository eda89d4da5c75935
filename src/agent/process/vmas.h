/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Private to src/agent: all processes of this machine and their executable mappings, from the kernel's iterators
 * (bpf/vmas.bpf.c). Needs the privileges of the sampling program.
 */
#ifndef WICK_AGENT_PROCESS_VMAS_H
#define WICK_AGENT_PROCESS_VMAS_H

#include <stddef.h>

#include "agent/sample/events.h"
#include "base/error.h"
#include "bpf/vmas.h"

/* All are called in vmas_read(); a negative return ends it. Processes come first, then mappings: those of one process together
 * and in the order of their addresses, also of processes that on_process() was not told of. */
struct vmas_reader {
	void *context;
	int (*on_process)(void *context, const struct vma_process *process);
	/* event: an EVENT_MAP, with `pid`, as a line of /proc/PID/maps gives it. */
	int (*on_mapping)(void *context, const struct event *event, unsigned flags);
};
/* Loads the programs, reads, and lets them go. */
int vmas_read(const struct vmas_reader *reader, struct error *err);

/* The whole records in front of buffer[0..len): handed to the reader, *ret_used is how much they take. -EBADMSG if something
 * there cannot be a record. */
int vmas_take_processes(const struct vmas_reader *reader, const void *buffer, size_t len, size_t *ret_used);
int vmas_take_mappings(const struct vmas_reader *reader, const void *buffer, size_t len, size_t *ret_used);

#endif
