/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Debug information that agents and people have sent: files by tenant, id, content and kind, in a directory with a limit
 * (uploads_layout.c). An upload replaces those of its own tenant only, and is found by who looks among that tenant's (struct
 * uploads_scope).
 *
 * Two binaries may have one id. Who knows which of them a file is of says so by the binary's content key (elf/content_key.h),
 * and each of them has its file; UPLOAD_CONTENTS_MAX of a tenant's for one id. A file that comes without a key is of the id as
 * such: it takes the place of another one without, and of one with a key if that is all there is. A file arrives
 * in pieces, may be resumed where it stopped, is checked against its announced size and hash, and appears under its name only
 * when it is whole and synced. Thread-safe.
 */
#ifndef WICK_SYMBOL_UPLOADS_H
#define WICK_SYMBOL_UPLOADS_H

#include <stdbool.h>

#include "base/buffer.h"
#include "base/cleanup.h"
#include "elf/content_key.h"
#include "elf/file_ids.h"

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
	uint64_t bytes_max;	 /* of all files; 0 = 16 GiB. Of the tenant that has most, the least recently used go first */
	uint64_t file_bytes_max; /* 0 = 2 GiB */
	int64_t lease_ns;	 /* an upload that made no progress for so long may be begun by another; 0 = 15 min */
	size_t open_max;	 /* uploads at once; 0 = 64 */
	size_t tenant_open_max;	 /* of these of one tenant; 0 = all */
	/* A file is there, whole: for each id that it carries, then for the one that it was announced with. May be called on
	 * any thread that finishes an upload. NULL allowed. */
	void (*on_arrival)(void *context, const char *tenant, const char *build_id, enum upload_kind kind);
	void *context;
};
int uploads_open(const struct uploads_options *options, struct uploads **ret, struct error *err);
struct uploads *uploads_close(struct uploads *uploads);
DEFINE_CLEANUP_POINTER(uploads_close, struct uploads);

#define UPLOAD_ID_MAX	    40
#define UPLOAD_TENANT_MAX   150
#define UPLOAD_CONTENTS_MAX 4u /* of one tenant, id and kind */
struct upload_begin {
	char tenant[UPLOAD_TENANT_MAX + 1]; /* "" = of the one without a name */
	enum file_id_type id_type;
	char build_id[BUILD_ID_HEX_MAX];
	char content_key[CONTENT_KEY_HEX]; /* of the binary that it is of; "" = not known */
	enum upload_kind kind;
	uint64_t size;
	/* Tells one file from another when resuming; letters and digits, "" = none. 32 hex digits are the XXH3-128 of the file
	 * and are checked at the end; whatever else is only compared. */
	char hash[65];
	bool force; /* although there is one already */
	/* The id is what the client knows the file by, a hash for instance: whatever build-id the file has. Of id_type
	 * FILE_ID_GNU, the file decides which type it is. Otherwise a file that has not this build-id is refused. */
	bool without_build_id;
};
/* *ret_offset: from where to send; more than 0 when an earlier attempt of the same file (size and hash) is resumed, which it is
 * once nothing has come for 10 s. -EEXIST it is there already, -EBUSY somebody else is sending it, -E2BIG, -EINVAL, -ENOSPC,
 * -EAGAIN too many at once, -EDQUOT as many contents of that id are there, or on their way, as are kept. */
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

/*
 * Whose uploads somebody may see, in the order in which they are looked at: the first tenant that has anything of an id and
 * kind is the only one of which anything is found, so that what others share takes no part in what somebody has himself. Nor is
 * another's program found behind debug information. There is no way to look among all.
 */
struct uploads_scope {
	const char *const *tenants;
	size_t count; /* 0: the same as one, "" */
};

/* A file is found by the id that it was announced with, and by those that it carries: its build-id, its Go build-id, the hash
 * of its bytes if it is a program (uploads_ids.c). scope NULL: of the tenant without a name. */
bool uploads_has(struct uploads *uploads, const struct uploads_scope *scope, const char *build_id, enum upload_kind kind);
/* Of the binary of that content, and known to be. */
bool uploads_has_content(struct uploads *uploads, const struct uploads_scope *scope, const char *build_id,
			 enum upload_kind kind, const char *content_key);
/* Positive: the id is not the file's build-id, so it may have another one. */
int uploads_open_file(struct uploads *uploads, const struct uploads_scope *scope, const char *build_id, enum upload_kind kind,
		      int *ret_fd, struct error *err);
/* Of the binary of another content. */
bool uploads_has_other_content(struct uploads *uploads, const struct uploads_scope *scope, const char *build_id,
			       enum upload_kind kind, const char *content_key);
/* The different contents that were sent as debug information of one id (UPLOAD_CONTENT_HEX), the last that came first;
 * returns how many there are, of which up to `max` are listed. And one of them, as uploads_open_file(). */
#define UPLOAD_CONTENT_HEX 33 /* with the NUL */
size_t uploads_list_contents(struct uploads *uploads, const struct uploads_scope *scope, const char *build_id,
			     char (*ret)[UPLOAD_CONTENT_HEX], size_t max);
int uploads_open_content(struct uploads *uploads, const struct uploads_scope *scope, const char *build_id, const char *content,
			 int *ret_fd, struct error *err);
/* Was it announced with this hash? Kept as an extended attribute of the file; not known where there are none. */
bool uploads_has_same(struct uploads *uploads, const struct uploads_scope *scope, const char *build_id, enum upload_kind kind,
		      const char *hash);
/* Is somebody sending it just now, for any tenant of the scope? content_key NULL: any. */
bool uploads_is_coming(struct uploads *uploads, const struct uploads_scope *scope, const char *build_id, enum upload_kind kind,
		       const char *content_key);
/* Has somebody begun to send it, and stopped? */
bool uploads_is_stale(struct uploads *uploads, const struct uploads_scope *scope, const char *build_id, enum upload_kind kind);
struct uploads_stats {
	uint64_t files, bytes, open, begun, finished, refused, failed, bytes_received, evicted;
	uint64_t contents_refused; /* of the refused: more contents of an id than are kept */
};
void uploads_get_stats(struct uploads *uploads, struct uploads_stats *ret);
/* Of one tenant: files, bytes and open; the rest is 0. */
void uploads_get_tenant_stats(struct uploads *uploads, const char *tenant, struct uploads_stats *ret);

#endif
