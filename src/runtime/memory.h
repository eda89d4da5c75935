/* SPDX-License-Identifier: Apache-2.0 */
/* Memory of another process, as what is in src/runtime reads it. */
#ifndef WICK_RUNTIME_MEMORY_H
#define WICK_RUNTIME_MEMORY_H

#include <stddef.h>
#include <stdint.h>

/* Reads memory of a process: all of the bytes, 0, or negative errno. */
typedef int runtime_read_function(void *context, uint64_t address, void *to, size_t bytes);
struct runtime_memory {
	runtime_read_function *read;
	void *context;
};

#endif
