/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Private to src/symbol: the files of JIT compilers that were read, perf maps by process and jitdumps by file. What they have
 * in common: they are found by a key, looked at again at a pace, opened below a root that is not trusted, and forgotten, those
 * that were asked for longest ago first, when there are too many or they take too much memory.
 */
#ifndef WICK_SYMBOL_JIT_FILES_H
#define WICK_SYMBOL_JIT_FILES_H

#include <stdbool.h>
#include <sys/stat.h>

#include "base/map.h"
#include "symbol/symbol.h"

/*
 * How often the files of compilers are looked at: once an interval, and sooner for code that has no name, as far as looking
 * takes 2 % of the time at most. A process decides how much there is to read, and what of it is found.
 */
#define JIT_CHECK_SHARE 50
struct jit_check {
	int64_t at_ns, took_ns; /* the last one; at_ns 0 = there was none */
};
struct jit_pace {
	int64_t interval_ns, miss_interval_ns;
};
static inline bool jit_check_is_due(const struct jit_check *last, const struct jit_pace *pace, bool for_miss, int64_t now)
{
	int64_t since = now - last->at_ns;
	if (!for_miss)
		return !last->at_ns || since >= pace->interval_ns;
	return since >= pace->miss_interval_ns && since / JIT_CHECK_SHARE >= last->took_ns;
}

/* The first member of what is kept of a file. */
struct jit_file {
	uint64_t key;
	struct jit_check last_check;
	uint64_t consumed;   /* bytes of the file that were read; 0 = none */
	size_t memory_bytes; /* of what was read, as counted */
	bool is_too_long;    /* and counted as such */
	struct jit_file *older, *newer;
};
struct jit_files_kind {
	size_t size;	  /* of what is kept of a file; zeroed before init() */
	size_t files_max; /* at a time */
	size_t entries_max;
	void (*init)(struct jit_file *file, size_t entries_max);
	void (*release)(struct jit_file *file); /* what was read; may be read again */
	size_t (*memory_bytes)(const struct jit_file *file);
};
struct jit_files {
	const struct jit_files_kind *kind;
	struct map64 by_key; /* -> struct jit_file * */
	struct jit_file *newest, *oldest;
	size_t count, total_bytes, total_bytes_max, entries_max; /* tests lower the limits, and the pace */
	struct jit_pace pace;
	struct jit_stats stats; /* files and memory_bytes are filled in when asked */
};
struct perf_maps {
	struct jit_files files;
};
struct jitdumps {
	struct jit_files files;
};

void jit_files_init(struct jit_files *files, const struct jit_files_kind *kind);
void jit_files_release(struct jit_files *files);
/* The file of that key, which is made if it is missing and becomes the newest; NULL without memory. */
struct jit_file *jit_files_get(struct jit_files *files, uint64_t key);
/* Forgets what was read of it. */
void jit_files_forget(struct jit_files *files, struct jit_file *file);
/* After reading: counts its memory. */
void jit_files_count(struct jit_files *files, struct jit_file *file);
/* The least recently used ones go, but never the newest. */
void jit_files_make_room(struct jit_files *files);
/* How far a file of that size is read; counts those that are longer, once. */
uint64_t jit_files_limit(struct jit_files *files, struct jit_file *file, uint64_t size, uint64_t size_max);
/* Opens a path below a root. Regular files only: nobody waits for a fifo, or follows a link out of it. The descriptor, -ENOENT
 * and others without such a root, -ENXIO without such a file. */
int jit_files_open_below(struct jit_files *files, const char *root_path, const char *path, struct stat *ret_stat);
/* The second half of it, for a descriptor from O_PATH. */
int jit_files_reopen(struct jit_files *files, int handle, const char *path, struct stat *ret_stat);
void jit_files_get_stats(const struct jit_files *files, struct jit_stats *ret);

#endif
