/* SPDX-License-Identifier: Apache-2.0 */
/*
 * symbol_build() in a process of its own that can do nothing but read what it is given: no network, no files, no new processes,
 * bounded memory, processor time and output. Files come through a socket, as descriptors, one at a time, from the parent, whose
 * policy it is what may be opened. Whatever happens to the worker costs one file and is reported as its reason.
 */
#ifndef WICK_SYMBOL_WORKER_H
#define WICK_SYMBOL_WORKER_H

#include <stdbool.h>

#include "base/cancel.h"
#include "symbol/build.h"

struct symbol_worker_options {
	const char *program;	   /* runs symbol_worker_main() when its argv[1] is SYMBOL_WORKER_VERB; "/proc/self/exe" */
	uint64_t memory_max_bytes; /* address space; 0 = 2 GiB */
	int64_t cpu_max_ns;	   /* 0 = 120 s */
	int64_t wall_max_ns;	   /* 0 = 300 s; time that the parent takes to open files does not count */
	uint64_t files_max;	   /* answered requests; 0 = 4096 */
	const atomic_bool *cancel; /* polled; -ECANCELED */
};
#define SYMBOL_WORKER_VERB "symbol-worker"

/* As symbol_build(), plus: -EFAULT the worker crashed (the signal is in the message), -ETIME it took too long, -ENOMEM it
 * wanted more memory than it may have, -E2BIG its table is too large, -EPERM it broke the rules of its sandbox, -ENOSYS no
 * sandbox can be made here. Thread-safe; blocks. */
int symbol_worker_build(const struct symbol_worker_options *worker, const struct symbol_build_options *options, int out_fd,
			struct symbol_build_result *ret, struct error *err);
/* The other side: reads the request from the socket on descriptor 3, locks itself in, builds, answers. Returns the exit
 * status. */
int symbol_worker_main(void);

#endif
