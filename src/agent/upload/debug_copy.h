/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a server needs to name the addresses of a binary, in a file of its own: the debug sections and symbols of the binary, or
 * of its separate debug file where the binary has no debug sections, and nothing else (elf/extract.h).
 *
 * Paths come from processes that nobody trusts. So a file is opened only if it is a regular one, and it is taken only if its
 * build-id, and its content where that is known, is the one that is asked for: a path that leads elsewhere leads to nothing.
 * The search for a separate debug file is that of gdb, first below the root directory of the process, then below our own:
 * .build-id/xx/rest.debug in /usr/lib/debug, then the name in .gnu_debuglink beside the binary, in .debug there, and in
 * /usr/lib/debug.
 *
 * The copy is an unlinked file on disk rather than memory: debug information may be far larger than what the agent may use.
 */
#ifndef WICK_AGENT_UPLOAD_DEBUG_COPY_H
#define WICK_AGENT_UPLOAD_DEBUG_COPY_H

#include <limits.h>
#include <sys/types.h>

#include "base/error.h"
#include "elf/build_id.h"

struct debug_copy_request {
	const char *build_id, *path; /* path as the process sees it */
	const char *content;   /* the binary's (elf/content_key.h): another one of that build-id is none; NULL, "" = any */
	pid_t pid;	       /* 0 = unknown */
	int fd;		       /* of the binary; -1 = to be found by its path; stays the caller's */
	uint64_t bytes_max;    /* of the copy; 0 = no limit */
	const char *directory; /* for the copy; NULL = /var/tmp or /tmp */
};
struct debug_copy {
	int fd;
	uint64_t size;
	bool without_build_id; /* it is known by the binary's hash */
	char from[PATH_MAX];   /* the file that it was made of */
	/* The file that several debug files share (dwz), if it refers to one: to be sent too, under its own build-id. */
	char alt_build_id[BUILD_ID_HEX_MAX], alt_path[PATH_MAX];
};
/* -ENOENT when there is no such file any more or nothing in it to send, -E2BIG past bytes_max, -ENOEXEC, -EBADMSG, -ENOTSUP
 * damaged or no ELF file, -ENOSPC. ret needs no initialisation and is untouched on failure; release it. */
int debug_copy_make(const struct debug_copy_request *request, struct debug_copy *ret, struct error *err);
/* The same for an alt file: exactly this one, or that of its build-id below /usr/lib/debug. */
int debug_copy_make_alt(const struct debug_copy_request *request, struct debug_copy *ret, struct error *err);
void debug_copy_release(struct debug_copy *copy);

/* An empty unlinked file, in directory (NULL: /var/tmp or /tmp), or else in memory: *ret_in_memory. Returns the descriptor. */
int debug_copy_open_temporary(const char *directory, bool *ret_in_memory, struct error *err);

#endif
