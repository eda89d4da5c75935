/* SPDX-License-Identifier: Apache-2.0 */
/* Private to src/symbol. */
#ifndef WICK_SYMBOL_SYMBOL_INT_H
#define WICK_SYMBOL_SYMBOL_INT_H

#include <pthread.h>
#include <sys/stat.h>

#include "symbol/symbol.h"
#include "symbol/table.h"

#define SYMBOL_MEMORY_DEFAULT	(64 * MIB)
#define SYMBOL_ENTRIES_MAX	65536u /* binaries remembered, those without symbols included */
#define SYMBOL_RETRY_NS_DEFAULT (60ll * 1000000000)
#define SYMBOL_DEBUG_DIRECTORY	"/usr/lib/debug/.build-id"
#define SYMBOL_BUCKETS		1024u
#define SYMBOL_PATH_MAX		4096

/* ---- symbolizer.c ---- */

/* A table and who uses it; counted under the symbolizer's lock. */
struct shared_table {
	struct symbol_table *table;
	unsigned users;
};

/* What is known about one binary. shared is NULL when nothing was found. */
struct symbol_entry {
	char *key; /* a build-id, or "file:DEVICE:INODE:SIZE:MTIME" */
	struct shared_table *shared;
	int64_t retry_ns; /* monotonic: when to look again, for a miss and for a table that was not made from a .symtab */
	struct symbol_entry *bucket_next, *older, *newer;
};

struct symbolizer {
	char *cache_directory; /* NULL = none */
	size_t memory_max_bytes;
	bool no_host_files;
	const char *debug_directory; /* tests point these three elsewhere */
	int64_t retry_interval_ns;

	pthread_mutex_t build_lock; /* one file is parsed at a time, which bounds memory; taken before `lock` */
	pthread_mutex_t lock;	    /* everything below; never held during I/O */
	struct symbol_entry *buckets[SYMBOL_BUCKETS];
	struct symbol_entry *newest, *oldest; /* by last use */
	size_t entry_count;
	struct symbolizer_stats stats;
};

/* The table of a binary, counted for the caller, or NULL when nothing is known. -ENOMEM only. */
int symbolizer_acquire(struct symbolizer *symbolizer, const char *build_id, const char *path, struct shared_table **ret,
		       struct error *err);
/* Gives it back (NULL allowed) and counts what was done with it. */
void symbolizer_release(struct symbolizer *symbolizer, struct shared_table *shared, uint64_t lookups, uint64_t hits);

/* ---- source.c: where tables come from ---- */

/* Opens a regular file and nothing else. Opening some devices does something and opening a FIFO waits, so the path is opened
 * with O_PATH, which does neither, and what it led to is opened through /proc: nobody can put something else in its place in
 * between. 0, or a negative errno. */
int source_open(const char *path, int *ret_fd, struct stat *ret_stat, struct error *err);
/* The second half of it, for a descriptor from O_PATH. */
int source_reopen(int handle, const char *name, int *ret_fd, struct stat *ret_stat, struct error *err);
/* The table in the disk cache; -ENOENT when there is none or it is damaged (it is removed then). */
int source_load_cached(struct symbolizer *symbolizer, const char *build_id, struct symbol_table **ret, struct error *err);
void source_store(struct symbolizer *symbolizer, const char *build_id, const struct symbol_table *table);
/* Parses the file behind fd and, if it is stripped, its debug file. build_id "" = whatever the file is; otherwise -EINVAL when
 * the file's own differs. */
int source_build(struct symbolizer *symbolizer, const char *build_id, const char *path, int fd, struct symbol_table **ret,
		 struct error *err);
/* From the separate debug file alone. -ENOENT when there is none. */
int source_build_debug(struct symbolizer *symbolizer, const char *build_id, struct symbol_table **ret, struct error *err);
bool source_has_debug_file(struct symbolizer *symbolizer, const char *build_id);

/* ---- kallsyms.c, perf_maps.c, jitdumps.c: seams for tests and fuzzing ---- */

int kallsyms_load_files(const char *symbols_path, const char *modules_path, struct kallsyms **ret, struct error *err);
size_t kallsyms_memory_bytes(const struct kallsyms *kallsyms);
size_t kallsyms_symbol_count(const struct kallsyms *kallsyms);
void perf_maps_set_interval(struct perf_maps *maps, int64_t interval_ns);
void perf_maps_set_limits(struct perf_maps *maps, size_t entries_max, size_t total_bytes_max);
void jitdumps_set_interval(struct jitdumps *dumps, int64_t interval_ns);
void jitdumps_set_limits(struct jitdumps *dumps, size_t entries_max, size_t total_bytes_max);

#endif
