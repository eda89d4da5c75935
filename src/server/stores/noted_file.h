/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the stores keep: gzip files, which every viewer opens and zcat prints, with a note in their header (codec/gzip_note.h),
 * a JSON object of what the file is, with
 *
 *   bytes, hash    length and XXH3-128 (hex) of everything behind the header
 *
 * So a file says by itself what it is and whether it is whole: its length at a glance, its contents when they are read. The
 * alternative, a file beside it, would be a second thing to keep in step through crashes.
 */
#ifndef WICK_SERVER_STORES_NOTED_FILE_H
#define WICK_SERVER_STORES_NOTED_FILE_H

#include <stdbool.h>

#include "base/buffer.h"
#include "base/error.h"

#define NOTED_HEADER_MAX (32u * 1024)
#define NOTED_ENDING	 ".json.gz"

struct json_t;
struct json_writer;
/* Of what is behind the header; a member of the struct that a note is about. */
struct noted_content {
	uint64_t bytes;
	char hash[33];
};
/* A kind of note. */
struct noted_form {
	const char *torn; /* what a file of another content is: "an incomplete recording file" */
	size_t content;	  /* where the struct noted_content is in the struct */
	void (*write)(struct json_writer *json, const void *of); /* the members, but for its version, which is 1 */
	bool (*read)(const struct json_t *note, void *ret);	 /* false: malformed. `ret` is uninitialised */
};
/* For noted_form.read: false unless it is there, and short enough, or from `least` to `most`. */
bool noted_text(const struct json_t *note, const char *name, char *out, size_t size);
bool noted_number(const struct json_t *note, const char *name, int64_t least, int64_t most, int64_t *ret);

/* The header of the file for `gzip`, and where in that the rest of the file begins. Sets the content of `of`. -EBADMSG: no
 * gzip, or one with a header of a kind that is not understood. */
int noted_write_header(const struct noted_form *form, void *of, struct bytes gzip, struct buffer *out, struct bytes *ret_rest,
		       struct error *err);
/* The other way round; *ret_header: bytes of the header. `begin` is the beginning of a file, NOTED_HEADER_MAX of it if there
 * are as many. -EBADMSG. */
int noted_read_header(const struct noted_form *form, struct bytes begin, void *ret, size_t *ret_header, struct error *err);
/* Whether the whole file is what its header says. -EBADMSG. */
int noted_check(const struct noted_form *form, struct bytes whole, void *ret, struct error *err);
/* Of the file at path, whose length is what its header says: *ret_size. -EBADMSG; -ENOENT. */
int noted_look(const struct noted_form *form, const char *path, void *ret, uint64_t *ret_size, struct error *err);
/* Whole and synced when it returns 0, or not there. */
int noted_put(const char *path, struct bytes header, struct bytes rest, struct error *err);

/* ---- directories of such files ---- */

/* Receives files that were set aside, or cannot be removed; report may be NULL. */
struct store_problems {
	void (*report)(void *context, const char *message);
	void *context;
};
void problems_report(const struct store_problems *problems, const char *text);
/* The file stays as *.torn for whoever wants to look. */
void noted_set_aside(const struct store_problems *problems, const char *path, const char *why);
void noted_remove(const struct store_problems *problems, const char *path);
/* Makes the directory, calls load() for each such file in it, and removes what a crash left half written. */
int noted_load(const char *directory, int (*load)(void *context, const char *name, struct error *err), void *context,
	       struct error *err);

#endif
