/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by uploads.c (what arrives), uploads_files.c (what has arrived), uploads_ids.c (by what it is found) and
 * uploads_layout.c (where it lies). */
#ifndef WICK_SYMBOL_UPLOADS_INT_H
#define WICK_SYMBOL_UPLOADS_INT_H

#include <limits.h>
#include <pthread.h>

#include "symbol/uploads.h"

#define UPLOADS_HASH_ATTRIBUTE "user.wick.hash" /* of a file: the hash that it was announced with */
#define UPLOADS_BUCKETS	       4096u
#define UPLOADS_FILES_MAX      65536u /* remembered; bounds memory to some 16 MiB */

struct upload_place {
	const char *tenant; /* "" = none */
	enum file_id_type id_type;
	const char *build_id;
	const char *content;	 /* UPLOAD_CONTENT_HEX */
	const char *content_key; /* of the binary; "" = not known */
	enum upload_kind kind;
};

/* Another id of a file, which it carries. */
struct upload_alias {
	struct upload_file *file;
	char id[BUILD_ID_HEX_MAX];
	uint8_t id_type; /* enum file_id_type */
	struct upload_alias *next, *next_of_file;
};

/* A file in its place. */
struct upload_file {
	char build_id[BUILD_ID_HEX_MAX], content[UPLOAD_CONTENT_HEX], content_key[CONTENT_KEY_HEX];
	uint8_t kind;	 /* enum upload_kind */
	uint8_t id_type; /* enum file_id_type */
	uint64_t size;
	int64_t used_ns; /* since 1970; of its mtime when it was found at start */
	uint64_t tenant_hash;
	struct upload_alias *aliases; /* owned */
	struct upload_file *next, *older, *newer;
	char tenant[];
};

/* One that is being sent. `busy` is set while a thread does I/O on it without the lock: nobody else may touch it then. */
struct upload {
	char id[UPLOAD_ID_MAX];
	struct upload_begin begin;
	uint64_t offset;   /* so much has arrived */
	uint64_t synced;   /* so much of it survives a power cut, as the note beside the part says */
	int64_t active_ns; /* since 1970; of the last progress */
	bool used, busy;   /* used: this place of the array is taken */
	bool restored;	   /* found at start, and nobody has asked for it since: nobody is sending it */
};

struct uploads {
	struct uploads_options options;		 /* defaults filled in; directory is owned */
	char *incoming;				 /* DIRECTORY/incoming */
	pthread_mutex_t place_lock;		 /* files do not come to their places, or go; taken before `lock` */
	pthread_mutex_t lock;			 /* everything below; never held during I/O */
	struct upload *open;			 /* options.open_max */
	char (*pending_removals)[UPLOAD_ID_MAX]; /* options.open_max: dropped, their files are still to be removed */
	size_t pending_removal_count;
	struct upload_file *buckets[UPLOADS_BUCKETS];
	struct upload_alias *alias_buckets[UPLOADS_BUCKETS];
	struct upload_file *newest, *oldest;
	uint64_t part_bytes; /* of the open ones, arrived */
	struct uploads_stats stats;
};

/* ---- uploads_files.c; the lock is held ---- */

/* Reads the directory. Files with names that are not ours are left alone. */
int uploads_files_load(struct uploads *uploads, struct error *err);
void uploads_files_release(struct uploads *uploads);
int uploads_file_path(const struct uploads *uploads, const struct upload_file *file, char out[static PATH_MAX],
		      struct error *err);
struct upload_place uploads_file_place(const struct upload_file *file);
/* By the id that it was announced with: the one that came or was used last; tenant NULL: anybody's. */
struct upload_file *uploads_file_find(struct uploads *uploads, const char *tenant, const char *build_id, enum upload_kind kind);
/* That of a content; "" = one of which it is not known. */
struct upload_file *uploads_file_find_content(struct uploads *uploads, const char *tenant, const char *build_id,
					      enum upload_kind kind, const char *content_key);
/* How many of the tenant's, of that id and kind, are of another content. */
unsigned uploads_file_count_others(struct uploads *uploads, const struct upload_begin *begin);
/* That very file, of that place. */
struct upload_file *uploads_file_find_exact(struct uploads *uploads, const struct upload_place *place);
/* Memory for one more, so that adding it later cannot fail; NULL without memory. */
struct upload_file *uploads_file_new(const struct upload_place *place, uint64_t size);
struct upload_file *uploads_file_free(struct upload_file *file);
/* Takes `file`; those of the tenant, id and kind that it has replaced are forgotten. arrives: it is not one that was found at
 * the start, where the order says nothing of what came last. */
void uploads_file_add(struct uploads *uploads, struct upload_file *file, bool arrives);
void uploads_file_use(struct uploads *uploads, struct upload_file *file, int64_t now_ns);

/* ---- uploads_files.c; `lock` is not held ---- */

/* place_lock is held: only who holds it takes a file away. */
int uploads_file_remove(struct uploads *uploads, struct upload_file *file, struct error *err);
/* place_lock is held. Removes from the disk what `file`, which is in its place but not in the index yet, replaces. */
void uploads_file_remove_others(struct uploads *uploads, const struct upload_file *file, bool arrives);
/* Somebody else has removed the file from the directory: forgets it, if that is so. */
void uploads_file_forget_lost(struct uploads *uploads, const struct uploads_scope *scope, const char *build_id,
			      enum upload_kind kind);
/* Removes files until the others, and what has arrived, fit: of the tenant that has most, the least recently used one, so that
 * nobody pushes out what others have by sending much. -ENOSPC when they cannot. */
int uploads_make_room(struct uploads *uploads, struct error *err);

/* ---- uploads_ids.c ---- */

/* The lock is held: the next after `after` (NULL = the first) that carries this id and was not announced with it. */
struct upload_file *uploads_alias_find(struct uploads *uploads, const char *build_id, enum upload_kind kind,
				       const struct upload_file *after);
/* The lock is held: what is found by the id; what was announced by it goes before what carries it. */
struct upload_file *uploads_find(struct uploads *uploads, const struct uploads_scope *scope, const char *build_id,
				 enum upload_kind kind);
/* The next tenant of a scope, from *at on, which is 0 at first; NULL = there are no more. */
const char *uploads_scope_next(const struct uploads_scope *scope, size_t *at);
/* Is an id that a file is found by its build-id, and no hash or Go build-id? */
bool uploads_file_has_build_id(const struct upload_file *file, const char *id);
/* The lock is held: those of a file that comes into the index, or goes. */
void uploads_alias_add(struct uploads *uploads, struct upload_file *file);
void uploads_alias_forget(struct uploads *uploads, struct upload_file *file);
/* Of a file that is in no index yet: remembers ids that it carries beside its own. -ENOMEM. */
int uploads_alias_set(struct upload_file *file, const struct file_ids *ids, struct error *err);
/* The same for one id of a file that is in the index, at start. */
int uploads_alias_take(struct uploads *uploads, struct upload_file *file, enum file_id_type type, const char *id,
		       struct error *err);
/* place_lock is held: puts a file's ids into the directory, and takes them away. */
int uploads_alias_link(const struct uploads *uploads, const struct upload_file *file, struct error *err);
void uploads_alias_unlink(const struct uploads *uploads, const struct upload_file *file);
/* place_lock is held, and the directory has neither the file nor its links any more, but the index has: others of the same
 * contents, whose links it stood in the place of, get them back. */
void uploads_alias_restore(struct uploads *uploads, const struct upload_file *file);
/* At start: what a link in the directory leads to, from its text. False: it is none of ours. */
bool uploads_alias_parse(const char *target, enum file_id_type *ret_type, char ret_id[static BUILD_ID_HEX_MAX]);

/* ---- uploads_layout.c ---- */

bool upload_tenant_is_valid(const char *tenant);
/* What is in the place has been checked. -ENAMETOOLONG. */
int uploads_place_path(const char *directory, const struct upload_place *place, char out[static PATH_MAX], struct error *err);
/* Syncs the directories from `folder` up to that of all uploads: a new one is an entry in the one above it. */
int uploads_sync_dirs(const char *directory, const char *folder, struct error *err);
/* Calls the function for each file; the place lives as long as the call. used_ns: of its mtime. target: of a link, NULL for
 * files. */
typedef int uploads_place_function(void *context, const struct upload_place *place, const char *target, uint64_t size,
				   int64_t used_ns, struct error *err);
int uploads_layout_read(const char *directory, uploads_place_function *function, void *context, struct error *err);
/* Moves what an older version of Wick has stored. -ENOTSUP a newer version's layout. */
int uploads_layout_migrate(const char *directory, struct error *err);

/* ---- uploads_check.c ---- */

/* What the file behind fd is known by in its place. */
int upload_content(int fd, char out[static UPLOAD_CONTENT_HEX], struct error *err);

/* Does the beginning of a file look like one of this kind? So much of it is needed for an answer. */
#define UPLOAD_START_BYTES 512u
bool upload_begins_well(enum upload_kind kind, struct bytes start);
/* Is the file behind fd what `begin` says? -EBADMSG when it is not. Reads all of it if there is a hash to check. */
int upload_check(int fd, const struct upload_begin *begin, struct error *err);

#endif
