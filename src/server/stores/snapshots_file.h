/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Private to snapshots*.c: a snapshot as a file.
 *
 * It is a gzip file of the answer, which zcat prints, with a note in its header (codec/gzip_note.h), a JSON object
 *
 *   version 1, id, made_ns, title, call, query, type, from_ns, to_ns, partial    struct snapshot
 *   bytes, hash                                            length and XXH3-128 (hex) of everything behind the header
 *
 * So a file says by itself what it is and whether it is whole: its length at a glance, its contents when they are read.
 */
#ifndef WICK_SERVER_STORES_SNAPSHOTS_FILE_H
#define WICK_SERVER_STORES_SNAPSHOTS_FILE_H

#include "server/stores/snapshots.h"

#define SNAPSHOT_ENDING	    ".json.gz"
#define SNAPSHOT_HEADER_MAX (32u * 1024)

/* The header of the file of `gzip`, and where in that the rest of the file begins. Sets hash and bytes. -EBADMSG: no gzip. */
int snapshot_file_write_header(struct snapshot *snapshot, struct bytes gzip, struct buffer *out, struct bytes *ret_rest,
			       struct error *err);
/* `begin` is the beginning of a file, SNAPSHOT_HEADER_MAX of it if there are as many. *ret_size: what the whole file has.
 * -EBADMSG. */
int snapshot_file_read_header(struct bytes begin, struct snapshot *ret, uint64_t *ret_size, struct error *err);
/* Of a whole file; -EBADMSG when it is not what was written. */
int snapshot_file_check(struct bytes whole, struct snapshot *ret, struct error *err);

#endif
