/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Private to src/agent: all processes of this machine and their executable mappings, from the kernel's iterators
 * (bpf/vmas.bpf.c). Needs the privileges of the sampling program.
 */
#ifndef WICK_AGENT_PROCESS_VMAS_H
#define WICK_AGENT_PROCESS_VMAS_H

#include <bpf/libbpf.h>
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

/* ---- what BPF iterators write ---- */

/* Takes the whole records in front of buffer[0..len), *ret_used is how much they take. -EBADMSG if something there cannot be a
 * record. */
typedef int iterator_take(void *context, const void *buffer, size_t len, size_t *ret_used);
/* Reads one to its end. `of`: what it lists, for messages. */
#define ITERATOR_BYTES 65536u
int iterator_read(int fd, const char *of, iterator_take *take, void *context, uint8_t buffer[static ITERATOR_BYTES],
		  struct error *err);
/* For libbpf_set_print(). */
int iterator_say_nothing(enum libbpf_print_level level, const char *format, va_list arguments);

#endif
