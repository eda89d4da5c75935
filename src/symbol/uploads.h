/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Debug information that agents and people have sent: files by build-id and kind, in a directory with a limit. A file arrives
 * in pieces, may be resumed where it stopped, is checked against its announced size and hash, and appears under its name only
 * when it is whole and synced. Thread-safe.
 */
#ifndef WICK_SYMBOL_UPLOADS_H
#define WICK_SYMBOL_UPLOADS_H

#include <stdbool.h>

#include "base/buffer.h"
#include "base/cleanup.h"
#include "elf/build_id.h"

/* Append-only; values are those of parca.debuginfo.v1alpha1.DebuginfoType where there is one. */
enum upload_kind {
	UPLOAD_DEBUGINFO,  /* ELF with symbols, debug sections, or both */
	UPLOAD_EXECUTABLE, /* the binary as it is, code included: for disassembly */
	UPLOAD_SOURCES,	   /* a tar archive, plain, gzip or zstd, of source files by the paths in the debug information */
	UPLOAD_KALLSYMS,   /* text, of a kernel */
	UPLOAD_KINDS,
};
extern const char *const upload_kind_names[UPLOAD_KINDS]; /* "debuginfo", "executable", "sources", "kallsyms" */

struct uploads;
struct uploads_options {
	const char *directory;
	uint64_t bytes_max;	 /* of all files; 0 = 16 GiB. The least recently used go first */
	uint64_t file_bytes_max; /* 0 = 2 GiB */
	int64_t lease_ns;	 /* an upload that made no progress for so long may be begun by another; 0 = 15 min */
	size_t open_max;	 /* uploads at once; 0 = 64 */
	/* A file is there, whole. May be called on any thread that finishes an upload. NULL allowed. */
	void (*on_arrival)(void *context, const char *build_id, enum upload_kind kind);
	void *context;
};
int uploads_open(const struct uploads_options *options, struct uploads **ret, struct error *err);
struct uploads *uploads_close(struct uploads *uploads);
DEFINE_CLEANUP_POINTER(uploads_close, struct uploads);

#define UPLOAD_ID_MAX 40
struct upload_begin {
	char build_id[BUILD_ID_HEX_MAX];
	enum upload_kind kind;
	uint64_t size;
	/* Tells one file from another when resuming; letters and digits, "" = none. 32 hex digits are the XXH3-128 of the file
	 * and are checked at the end; whatever else is only compared. */
	char hash[65];
	bool force; /* although there is one already */
	/* The id is the client's own, a hash of the file for instance, because the file has no GNU build-id: then one without
	 * is taken. A file that has another build-id is refused all the same. */
	bool without_build_id;
};
/* *ret_offset: from where to send; more than 0 when an earlier attempt of the same file (size and hash) is resumed, which it is
 * once nothing has come for 10 s. -EEXIST it is there already, -EBUSY somebody else is sending it, -E2BIG, -EINVAL, -ENOSPC,
 * -EAGAIN too many at once. */
int uploads_begin(struct uploads *uploads, const struct upload_begin *begin, char ret_id[static UPLOAD_ID_MAX],
		  uint64_t *ret_offset, struct error *err);
/* Appends at `offset`, which must be where the upload is (-ERANGE otherwise, and while another piece is being written;
 * *ret_offset says where that is). -ENOENT no such upload, -EINVAL more than was announced, -EBADMSG and gone when its
 * beginning is not that of such a file, -ENOSPC. */
int uploads_write(struct uploads *uploads, const char *id, uint64_t offset, struct bytes data, uint64_t *ret_offset,
		  struct error *err);
/* Checks that it is what it claims to be (ELF with that build-id, of that hash; its contents are not parsed here), syncs, and
 * puts it in place. -EBADMSG and gone when it is not; -ERANGE when it is not whole, -EBUSY while a piece is being written, I/O
 * errors: it stays and may be finished later. -ENOENT no such upload. */
int uploads_finish(struct uploads *uploads, const char *id, struct error *err);
/* It is given up. -ENOENT no such upload, -EBUSY while a piece is being written or it is being finished: it goes on. */
int uploads_abort(struct uploads *uploads, const char *id, struct error *err);
/* What was announced, and how much of it has arrived. -ENOENT no such upload. */
int uploads_get(struct uploads *uploads, const char *id, struct upload_begin *ret, uint64_t *ret_offset, struct error *err);

bool uploads_has(struct uploads *uploads, const char *build_id, enum upload_kind kind);
int uploads_open_file(struct uploads *uploads, const char *build_id, enum upload_kind kind, int *ret_fd, struct error *err);
/* Was it announced with this hash? Kept as an extended attribute of the file; not known where there are none. */
bool uploads_has_same(struct uploads *uploads, const char *build_id, enum upload_kind kind, const char *hash);
/* Is somebody sending it just now? */
bool uploads_is_coming(struct uploads *uploads, const char *build_id, enum upload_kind kind);
/* Has somebody begun to send it, and stopped? */
bool uploads_is_stale(struct uploads *uploads, const char *build_id, enum upload_kind kind);
struct uploads_stats {
	uint64_t files, bytes, open, begun, finished, refused, failed, bytes_received, evicted;
};
void uploads_get_stats(struct uploads *uploads, struct uploads_stats *ret);

#endif
