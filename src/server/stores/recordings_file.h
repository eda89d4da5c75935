/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Private to recordings*.c: one host's part of a recording as a file.
 *
 * It is the gzip file that the agent sent, which every viewer opens, with a note in its header (codec/gzip_note.h), a JSON
 * object
 *
 *   version 1, id, host, received_ns, start_ns, duration_ns    what it is; the id of a window (windows.h) is "continuous"
 *   reach_ns                                                   of a window: how long before it what ends in it began
 *   bytes, hash                                                length and XXH3-128 (hex) of everything behind the header
 *   plain_bytes                                                unpacked
 *   clock                                                      of the host, see orders.h
 *
 * So a file says by itself what it belongs to and whether it is whole: its length at a glance, its contents when they are read.
 * The alternative, a file beside it, would be a second thing to keep in step through crashes.
 */
#ifndef WICK_SERVER_STORES_RECORDINGS_FILE_H
#define WICK_SERVER_STORES_RECORDINGS_FILE_H

#include "base/buffer.h"
#include "base/error.h"
#include "control/orders.h"

struct recording_file {
	char id[ORDERS_ID_SIZE], host[ORDERS_HOST_SIZE];
	int64_t received_ns, start_ns, duration_ns;
	int64_t reach_ns; /* 0 = none */
	uint64_t plain_bytes;
	struct orders_clock clock;
	/* of what is behind the header */
	uint64_t bytes;
	char hash[33];
};
#define RECORDING_HEADER_MAX (32u * 1024)
/* Writes the file's header for `gzip`, and says where in it the rest of the file begins. Sets file's bytes and hash.
 * -EBADMSG: no gzip, or one with a header of a kind that is not understood. */
int recording_file_write_header(struct recording_file *file, struct bytes gzip, struct buffer *out, struct bytes *ret_rest,
				struct error *err);
/* The other way round; *ret_header: bytes of the header. `begin` is the beginning of a file, RECORDING_HEADER_MAX of it if
 * there are as many. -EBADMSG. */
int recording_file_read_header(struct bytes begin, struct recording_file *ret, size_t *ret_header, struct error *err);
/* Whether the whole file is what its header says. -EBADMSG. */
int recording_file_check(struct bytes whole, struct recording_file *ret, struct error *err);
/* Of the file at path, whose length is what its header says: *ret_size. -EBADMSG; -ENOENT. */
int recording_file_look(const char *path, struct recording_file *ret, uint64_t *ret_size, struct error *err);
/* Writes the file: whole and synced when it returns 0, or not there. Sets file's bytes and hash, *ret_size: all of it. */
int recording_file_put(const char *path, struct recording_file *file, struct bytes gzip, uint64_t *ret_size, struct error *err);
/* Unpacks without keeping anything: -EBADMSG not one whole member of gzip, -E2BIG more than RECORDINGS_PLAIN_MAX. */
int recording_file_measure(struct bytes gzip, uint64_t *ret_plain, struct error *err);
/* The file's name: the host's, if that is a plain one, else a hash of it. */
#define RECORDING_NAME_SIZE 256
#define RECORDING_ENDING    ".json.gz"
void recording_file_name(const char *host, char out[static RECORDING_NAME_SIZE]);

#endif
