/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Records of the spool as files.
 *
 *   DIR/lock                      held by the process that uses the directory
 *   DIR/00000000000000000042.rec  a record; the number says the order
 *   DIR/NAME.tmp                  a record that is being written; what a crash leaves of it is removed at the next start
 *   DIR/damaged/                  what could not be read, up to 16 files, for somebody to look at
 *
 * A record, numbers little-endian:
 *
 *   0   8  "WICKSPL" and the version, 1
 *   8   8  length of the payload in bytes
 *   16  8  XXH3-64 of everything behind the header
 *   24  8  when it was made, ns since 1970
 *   32  8  samples in it
 *   40  4  profiles in it
 *   44  4  length of the tenant's name, at most 150
 *   48  8  0
 *   56  8  XXH3-64 of the 56 bytes before
 *   64     the tenant's name, then the payload: gzip of an OTLP ExportProfilesServiceRequest
 *
 * A file a record, and not a log of many: a record is complete or absent by the rename alone, is removed without rewriting or
 * cursors that must agree with the data, a damaged one costs only itself, and several targets share one file by links to it.
 * What a log would save, directory entries, does not matter at a few records a minute. Files are not synced unless asked: what
 * is delivered within seconds mostly never reaches the disk, and a process that is killed loses nothing by it.
 */
#ifndef WICK_EXPORT_SPOOL_FILE_H
#define WICK_EXPORT_SPOOL_FILE_H

#include "base/buffer.h"
#include "base/error.h"
#include "base/limits.h"

#define SPOOL_PATH_MAX	     4096
#define SPOOL_TENANT_MAX     150
#define SPOOL_HEADER_BYTES   64
#define SPOOL_RECORD_MAX     (LIMIT_PROFILE_INPUT_BYTES)
#define SPOOL_FILE_BYTES_MAX (SPOOL_HEADER_BYTES + SPOOL_TENANT_MAX + SPOOL_RECORD_MAX)

struct spool_meta {
	int64_t created_ns; /* since 1970 */
	uint64_t samples;
	uint32_t profiles;
	char tenant[SPOOL_TENANT_MAX + 1]; /* "" = none */
};

/* The head of a file, up to where the payload begins. -E2BIG: payload over SPOOL_RECORD_MAX. */
int spool_record_head(const struct spool_meta *meta, struct bytes payload, struct buffer *out, struct error *err);
/* Checks the header alone, of a file of that size: *ret_tenant_len and *ret without the tenant. -EBADMSG says what is wrong. */
int spool_record_check(struct bytes header, uint64_t file_size, struct spool_meta *ret, size_t *ret_tenant_len,
		       struct error *err);
/* The whole: payload is a part of file. -EBADMSG. */
int spool_record_parse(struct bytes file, struct spool_meta *ret, struct bytes *ret_payload, struct error *err);

/* A record's path; the number of a path's last part, false if it is none. */
int spool_file_path(char out[SPOOL_PATH_MAX], const char *directory, uint64_t number);
bool spool_file_number(const char *name, uint64_t *ret);
bool spool_file_is_temporary(const char *name);
/* Whether there is nothing in a directory but what spools put there. Whoever says where spools are may have said "/var/lib". */
bool spool_directory_is_ours(const char *directory);
/* Writes a record under its path, or links it to `same` (NULL allowed). */
int spool_file_write(const char *path, const struct spool_meta *meta, struct bytes payload, const char *same, bool sync,
		     struct error *err);
/* Moves a file into DIR/damaged, making room there; removes it if that cannot be. */
void spool_file_set_aside(const char *directory, const char *path);

#endif
