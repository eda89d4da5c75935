/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Private to src/agent: which contents files have (elf/content_key.h), so that each is read once, and under which build-id more
 * than one was seen.
 *
 * A file is known again by device, inode, size, and the times of its last change; who writes to it, or puts another in its
 * place, cannot keep all of them, unless that is done within one tick of the clock: what was changed just now is read again the
 * next time. Entries are forgotten, all at once, when there are too many.
 *
 * Of several files of one build-id, the first that is seen is known by it in profiles, and so are stripped copies of it.
 * Another one is "foreign" to its build-id: it is known by its hash (build_id.h), so that neither is named by symbols of the
 * other.
 */
#ifndef WICK_AGENT_PROCESS_CONTENTS_H
#define WICK_AGENT_PROCESS_CONTENTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/map.h"
#include "elf/content_key.h"

/* What is known of a file. */
struct contents_file {
	char key[CONTENT_KEY_HEX];     /* "" = not known */
	char file_hash[FILE_HASH_HEX]; /* "" = not known */
	uint64_t build_id;	       /* hash; 0 = the file has none */
	uint64_t code;		       /* of struct content_key */
	bool is_foreign;	       /* to its build-id */
};

struct contents_key {
	struct contents_file file;
	uint64_t symbols; /* of struct content_key; of the first of a build-id: of the first of its copies that has some */
	bool is_one_of_several; /* the first of its build-id: others were seen, */
	bool has_foreign;	/* some of them foreign ones */
};

struct contents {
	struct map64 by_file;	  /* hash of what a file is known by -> index of a key */
	struct map64 by_build_id; /* hash -> index of the first */
	struct contents_key *keys;
	size_t count, capacity;
	uint64_t read, bytes; /* files, and what was read of them */
	uint64_t bytes_left;  /* that may be read; more each second */
	int64_t filled_ns;
};

void contents_release(struct contents *contents);
/* What a path leads to (it may be a link of /proc), or a descriptor: from what is known, else from the file. -ENOENT and others
 * if it cannot be opened, -ESTALE if it was written to meanwhile or has another build-id than the one given (NULL = any),
 * -EAGAIN if too much was read of late, else errors of content_key_read_fd(). *ret stays as it is then. */
int contents_of_path(struct contents *contents, const char *path, const char *build_id, struct contents_file *ret);
int contents_of_fd(struct contents *contents, int fd, const char *build_id, struct contents_file *ret);
/* How many contents of that build-id were seen: 0, 1 (then *ret is it), or 2 for more. */
unsigned contents_of_build_id(const struct contents *contents, const char *build_id, struct contents_file *ret);
/* Were there files that are foreign to it? Then nobody knows what a file is of which only that is known. */
bool contents_has_foreign(const struct contents *contents, const char *build_id);
/* Has the file that build-id? "" = none. */
bool contents_has_build_id(const struct contents_file *file, const char *build_id);

#endif
