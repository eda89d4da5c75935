/* SPDX-License-Identifier: Apache-2.0 */
/* Private to src/symbol: locks the calling process in. Rules and reasons at the top of sandbox.c. */
#ifndef WICK_SYMBOL_SANDBOX_H
#define WICK_SYMBOL_SANDBOX_H

#include <stdint.h>

#include "base/error.h"

/* AddressSanitizer reserves terabytes of address space: its processes cannot be limited in it. */
#if defined(__SANITIZE_ADDRESS__)
#define SANDBOX_HAS_MEMORY_LIMIT 0
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define SANDBOX_HAS_MEMORY_LIMIT 0
#endif
#endif
#ifndef SANDBOX_HAS_MEMORY_LIMIT
#define SANDBOX_HAS_MEMORY_LIMIT 1
#endif

struct sandbox_limits {
	uint64_t memory_bytes; /* address space */
	uint64_t output_bytes; /* of any file that is written */
	uint64_t cpu_s;	       /* SIGXCPU past it */
	uint64_t descriptors;
	/* A forbidden system call was tried. Called in a signal handler; the process ends when it returns. */
	void (*on_violation)(int system_call);
};
/* For a process with one thread, before it reads anything that is not trusted. There is no way back. -ENOSYS when this system
 * cannot do it. */
int sandbox_enter(const struct sandbox_limits *limits, struct error *err);

#endif
