/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The text of a source file that debug information names, and the machine code of a function: for the views by line and by
 * instruction. Names in debug information are what somebody wrote into a file: a path is opened on this host only if host files
 * are allowed at all, it is absolute, ends like a source file, is regular, not too large, and readable by everybody.
 */
#ifndef WICK_SYMBOL_SOURCE_TEXT_H
#define WICK_SYMBOL_SOURCE_TEXT_H

#include "base/buffer.h"
#include "base/cancel.h"
#include "elf/build_id.h"

#define SOURCE_TEXT_BYTES_MAX (4ull * 1024 * 1024)

struct symbolizer;
struct symbolizer_want;
/* The source file `path` of a binary, which is known by its build-id and the path of its mapping ("" = unknown): the binary's
 * table must name it, and is waited for as `want` says. *ret_from (static): "local file", "debuginfod", "uploaded archive".
 * -ENOENT with a message that says where was looked. May fetch, and so take long. */
int source_text_read(struct symbolizer *symbolizer, const char *build_id, const char *binary, const char *path,
		     const struct symbolizer_want *want, struct buffer *out, const char **ret_from, struct error *err);

#define CODE_BYTES_MAX (256ull * 1024)
struct code_bytes {
	struct buffer bytes;
	uint64_t address; /* of the first byte, as linked */
	uint16_t machine; /* EM_* */
	const char *from; /* static */
};
/* The code at [address, address + size) of a binary: from the host's file of that build-id, an uploaded executable, or
 * debuginfod. -ENOENT, -EBADMSG, -E2BIG. path: of the mapping, "" = unknown. */
int code_bytes_read(struct symbolizer *symbolizer, const char *build_id, const char *path, uint64_t address, uint64_t size,
		    const atomic_bool *cancel, struct code_bytes *ret, struct error *err);

#endif
