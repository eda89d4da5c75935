/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Snapshots: answers that are kept as they were given, so that a link to one shows everybody the same, whatever becomes of the
 * data. One struct a tenant, one file a snapshot. It knows nothing of HTTP or of what is in an answer, and callers pass the
 * time. Thread-safe.
 */
#ifndef WICK_SERVER_STORES_SNAPSHOTS_H
#define WICK_SERVER_STORES_SNAPSHOTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/cleanup.h"
#include "base/error.h"
#include "base/limits.h"
#include "server/stores/noted_file.h"

struct input;

#define SNAPSHOTS_BYTES_DEFAULT	 (256 * MIB)
#define SNAPSHOTS_AGE_DEFAULT_NS (90 * 24 * 3600 * 1000000000ll)
#define SNAPSHOTS_COUNT_DEFAULT	 1000u
/* LIMIT of what snapshots.count may be: a start reads the header of each. */
#define SNAPSHOTS_COUNT_MAX 10000u
/* One may have so much of all: a large one is not to cost most others. */
#define SNAPSHOTS_SHARE 4

struct snapshots;
struct snapshots_options {
	const char *directory;
	uint64_t bytes_max; /* 0 = the default */
	int64_t age_ns;	    /* 0 = the default; negative = for ever */
	unsigned count_max; /* 0 = the default */
	struct store_problems problems;
};
/* Reads what is there. Files that are not whole get the ending ".torn" and are left out. */
int snapshots_open(const struct snapshots_options *options, int64_t now_ns, struct snapshots **ret, struct error *err);
struct snapshots *snapshots_close(struct snapshots *snapshots); /* NULL allowed; returns NULL */
DEFINE_CLEANUP_POINTER(snapshots_close, struct snapshots);

/* 128 random bits in hexadecimal: who does not have the link, nor may list them, cannot guess it. */
#define SNAPSHOT_ID_SIZE 33
int snapshot_make_id(char out[static SNAPSHOT_ID_SIZE], struct error *err);
bool snapshot_id_is_valid(const char *id);

#define SNAPSHOT_TITLE_MAX  200 /* characters */
#define SNAPSHOT_TITLE_SIZE (4 * SNAPSHOT_TITLE_MAX + 1)
/* What a list says of one. Longer texts are cut: the snapshot itself has them whole. */
struct snapshot {
	char id[SNAPSHOT_ID_SIZE];
	struct noted_content content;	 /* set by snapshots_put() */
	int64_t made_ns;		 /* wall clock */
	char title[SNAPSHOT_TITLE_SIZE]; /* UTF-8 without control characters; may be "" */
	char call[16];			 /* which call's answer it is */
	char query[1024], type[256];
	int64_t from_ns, to_ns;
	bool is_partial;
	uint64_t bytes; /* on disk; set by snapshots_put() */
};

extern const struct noted_form snapshot_form; /* of struct snapshot, but for `bytes` */

/* Keeps a gzip file of one member. On disk, synced, when it returns 0; then the oldest go for it. -E2BIG: more than one may be;
 * -EBADMSG: no gzip; -ENOSPC: the disk is full; -ENOMEM, -EIO. */
int snapshots_put(struct snapshots *snapshots, struct snapshot *snapshot, struct bytes gzip, int64_t now_ns, struct error *err);
/* Newest first, from number `offset` on, `limit` at most. *ret from mem_alloc(). */
int snapshots_list(struct snapshots *snapshots, int64_t now_ns, size_t offset, size_t limit, struct snapshot **ret,
		   size_t *ret_count, size_t *ret_total, struct error *err);
int snapshots_find(struct snapshots *snapshots, const char *id, int64_t now_ns, struct snapshot *ret, struct error *err);
/* The gzip file, checked. -ENOENT: there is none of this id, any more, or it is damaged and was set aside. */
int snapshots_read(struct snapshots *snapshots, const char *id, int64_t now_ns, struct buffer *ret, struct error *err);
/* The same to be read in pieces, as it is or unpacked: *ret_bytes of them. */
int snapshots_open_file(struct snapshots *snapshots, const char *id, int64_t now_ns, bool unpacked, struct input **ret,
			uint64_t *ret_bytes, struct error *err);
int snapshots_remove(struct snapshots *snapshots, const char *id, struct error *err); /* -ENOENT */

struct snapshots_stats {
	uint64_t snapshots, bytes, bytes_max;  /* now */
	uint64_t made, refused, evicted, torn; /* since the start */
	int64_t age_ns;			       /* as in the options; never 0 */
};
/* Those that are too old go first. */
void snapshots_get_stats(struct snapshots *snapshots, int64_t now_ns, struct snapshots_stats *ret);

#endif
