/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading tar archives, plain or packed with gzip or zstd, one file after the other, without unpacking anything to disk. For
 * archives that anybody may have made: memory is fixed, and so is how much is unpacked of one. Not thread-safe.
 */
#ifndef WICK_CODEC_ARCHIVE_H
#define WICK_CODEC_ARCHIVE_H

#include "base/buffer.h"
#include "base/cancel.h"
#include "base/cleanup.h"
#include "base/error.h"

#define ARCHIVE_PATH_MAX 4096u

struct archive_options {
	uint64_t bytes_max;	   /* after unpacking; 0 = 2 GiB */
	uint64_t entries_max;	   /* of any kind; 0 = 1,000,000 */
	const atomic_bool *cancel; /* polled; NULL = never */
};
struct archive_entry {
	const char *path; /* as it is in the archive: may be absolute, may hold ".."; valid until the next call */
	uint64_t size;
};
struct archive;
/* fd: a regular file, read from its beginning through pread(2); it stays the caller's and open, as does name, which is for
 * messages. -ENOMEM and errors of reading. */
int archive_open(int fd, const char *name, const struct archive_options *options, struct archive **ret, struct error *err);
struct archive *archive_free(struct archive *archive);
DEFINE_CLEANUP_POINTER(archive_free, struct archive);
/* The next regular file: 1, or 0 at the end. Directories, links, devices and files with holes are passed over. -EBADMSG
 * damaged, or no such archive; -E2BIG past the limits; -ECANCELED. After an error there is nothing more to be had. */
int archive_next(struct archive *archive, struct archive_entry *ret, struct error *err);
/* Appends the contents of the file that archive_next() gave, once. -E2BIG (nothing is read) when they pass out->max. */
int archive_read(struct archive *archive, struct buffer *out, struct error *err);

#endif
