/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Private to src/agent: which contents files have (elf/content_key.h), so that each is read once, and under which build-id more
 * than one was seen.
 *
 * A file is known again by device, inode, size, and the times of its last change; who writes to it, or puts another in its
 * place, cannot keep all of them, unless that is done within one tick of the clock: what was changed just now is read again the
 * next time. Entries are forgotten, all at once, when there are too many.
 */
#ifndef WICK_AGENT_PROCESS_CONTENTS_H
#define WICK_AGENT_PROCESS_CONTENTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/map.h"
#include "elf/content_key.h"

struct contents_key {
	char key[CONTENT_KEY_HEX];
	uint64_t build_id; /* hash; 0 = the file has none */
};

struct contents {
	struct map64 by_file;	  /* hash of what a file is known by -> index of a key */
	struct map64 by_build_id; /* hash -> index, or CONTENTS_SEVERAL */
	struct contents_key *keys;
	size_t count, capacity;
	uint64_t read, bytes; /* files, and what was read of them */
	uint64_t bytes_left;  /* that may be read; more each second */
	int64_t filled_ns;
};

void contents_release(struct contents *contents);
/* The key of what a path leads to (it may be a link of /proc), or a descriptor: from what is known, else from the file. -ENOENT
 * and others if it cannot be opened, -ESTALE if it was written to meanwhile or has another build-id than the one given (NULL =
 * any), -EAGAIN if too much was read of late, else errors of content_key_read_fd(). */
int contents_of_path(struct contents *contents, const char *path, const char *build_id, char out[static CONTENT_KEY_HEX]);
int contents_of_fd(struct contents *contents, int fd, const char *build_id, char out[static CONTENT_KEY_HEX]);
/* How many contents of that build-id were seen: 0, 1 (then *out is its key), or 2 for more. */
unsigned contents_of_build_id(const struct contents *contents, const char *build_id, char out[static CONTENT_KEY_HEX]);

#endif
