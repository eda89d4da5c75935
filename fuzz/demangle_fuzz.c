/* SPDX-License-Identifier: Apache-2.0 */
/* Mangled names: bounded time, stack and output, no leaks. */
#include <stdlib.h>
#include <string.h>

#include "elf/demangle/demangle.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *name = malloc(size + 1);
	if (!name)
		return 0;
	memcpy(name, data, size);
	name[size] = 0;
	struct buffer out;
	buffer_init(&out, DEMANGLE_OUTPUT_MAX);
	int r = demangle_symbol(name, &out);
	if (r < 0 || r > 1 || (r == 0) != (out.len == 0))
		abort();
	/* The short form of what came out, and of the input as it is: never longer, never empty. */
	const char *full = r == 1 ? buffer_string(&out) : name;
	struct buffer brief;
	buffer_init(&brief, DEMANGLE_OUTPUT_MAX);
	if (full && (demangle_short(full, &brief) < 0 || brief.len > strlen(full) || (brief.len == 0) != (full[0] == 0)))
		abort();
	buffer_release(&brief);
	buffer_release(&out);
	free(name);
	return 0;
}
