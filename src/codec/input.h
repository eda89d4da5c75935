/* SPDX-License-Identifier: Apache-2.0 */
/* A file that is read from its start to its end, more than once, in pieces, and decompressed on the way: for what is too large
 * to be held. What cannot be read twice (a pipe) is copied into a nameless file first. */
#ifndef WICK_CODEC_INPUT_H
#define WICK_CODEC_INPUT_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/buffer.h"
#include "base/cleanup.h"
#include "base/error.h"

struct input;
/* "-" is standard input. max: bytes after decompression, past which reading is -E2BIG. Messages begin with the path. */
int input_open(const char *path, uint64_t max, struct input **ret, struct error *err);
/* Takes over fd, a regular file that is not compressed; `name` is copied. */
int input_from_fd(int fd, const char *name, uint64_t max, struct input **ret, struct error *err);
/* The same of a descriptor that stays the caller's and open, and of a file that may be compressed; of who knows whom, so that
 * frames of zstd may take 64 MiB of memory at most. Nobody counts what is read. */
int input_borrow_fd(int fd, const char *name, struct input **ret, struct error *err);
/* What is in memory, and stays there until the input is freed. */
int input_from_bytes(struct bytes bytes, const char *name, uint64_t max, struct input **ret, struct error *err);
/* Up to len bytes, 0 at the end. -EBADMSG: corrupt or cut short; -E2BIG. */
ssize_t input_read(struct input *input, void *data, size_t len, struct error *err);
void input_rewind(struct input *input);
struct input *input_free(struct input *input); /* NULL allowed; returns NULL */
DEFINE_CLEANUP_POINTER(input_free, struct input);

/* A file without a name, for reading and writing, in $TMPDIR or /tmp; returns its descriptor. */
int input_make_nameless(struct error *err);

#endif
