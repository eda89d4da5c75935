/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Backups: a directory that is a store by itself, made of the blocks and the log of another one, which may be in use.
 *
 * Where they come from is a struct store_backup_source: a directory (store_backup_directory), or whatever can list blocks and
 * fetch files of them.
 */
#ifndef WICK_STORE_BACKUP_H
#define WICK_STORE_BACKUP_H

#include <stdbool.h>
#include <stdint.h>

#include "base/cancel.h"
#include "base/error.h"

/* What the table of hosts is called among the files of a backup. */
#define STORE_BACKUP_HOSTS "hosts.journal"

typedef int (*store_backup_on_name)(void *context, const char *name, struct error *err);
struct store_backup_source {
	const char *name; /* a directory or a URL, to be noted in the backup */
	/* The blocks that there are now, all of one moment or not. The first call may make one of what is in memory. */
	int (*list)(void *context, bool is_first, store_backup_on_name on_name, void *name_context, struct error *err);
	/* Makes the file `to` of a block's; -ENOENT: the block is not there any more, or never had the file. */
	int (*fetch)(void *context, const char *block, const char *file, const char *to, struct error *err);
	/* Copies the log into an empty directory, as far as it is written; before blocks are listed. NULL = there is none. */
	int (*fetch_log)(void *context, const char *to, struct error *err);
	/* Makes the file `to` of the table of hosts (store/hosts/host_journal.h); -ENOENT or NULL: there is none. */
	int (*fetch_hosts)(void *context, const char *to, struct error *err);
	void *context;
};
/* Of a data directory, in use or not; hard links where it is on the same file system. `directory` must live as long. */
void store_backup_directory(const char *directory, struct store_backup_source *ret);

struct store_backup_options {
	const char *target; /* made if need be; else it must be empty, or a backup: then it is brought up to date */
	const struct store_backup_source *source;
	void (*on_problem)(void *context, const char *message);		   /* a block that is damaged, in the source already */
	void (*on_progress)(void *context, uint64_t done, uint64_t count); /* blocks to be copied, as far as is known */
	void *context;
	const atomic_bool *cancel; /* polled between files; -ECANCELED */
};
struct store_backup_result {
	uint64_t blocks, copied, removed; /* in the backup; new ones; ones that the source has no more */
	uint64_t bytes, bytes_copied;	  /* of blocks */
	uint64_t log_records, log_bytes;  /* whole records */
	uint64_t damaged;		  /* of the new blocks */
	uint64_t host_records;		  /* of the table of hosts */
};
/*
 * Everything that was acknowledged before the call is in it, and perhaps some of what came since. Blocks are verified as they
 * are copied; damaged ones are kept as they are. -EBUSY: a process uses the target; -EEXIST: it holds something else. After a
 * failure the target is not complete; the next call goes on where it ended.
 */
int store_backup(const struct store_backup_options *options, struct store_backup_result *ret, struct error *err);

#endif
