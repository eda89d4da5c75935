/* SPDX-License-Identifier: Apache-2.0 */
/* Private to debuginfod*.c: the directory that the library keeps its files in, and seams for tests. */
#ifndef WICK_SYMBOL_DEBUGINFOD_INT_H
#define WICK_SYMBOL_DEBUGINFOD_INT_H

#include <limits.h>

#include "symbol/debuginfod.h"

/* ---- debuginfod_cache.c: DIRECTORY/BUILDID/KIND*, as the library lays it out ---- */

struct debuginfod_cache {
	char directory[PATH_MAX];
	uint64_t bytes_max;
	uint64_t bytes;	    /* as last counted, and what was added since */
	int64_t missing_ns; /* marks of misses that are older say nothing any more */
	size_t files_max;   /* ordered by use at a time; bounds memory to some 100 MiB */
	int lock_fd;	    /* -1: another process uses the directory too */
};
/* What a file takes besides its bytes: the block of its build-id's directory. A mark of a miss takes nothing else. */
#define DEBUGINFOD_CACHE_FILE_COST 4096u
/* Makes the directory, removes what a crash left, counts. */
int debuginfod_cache_open(struct debuginfod_cache *cache, const char *directory, uint64_t bytes_max, int64_t missing_ns,
			  struct error *err);
/* Before each call of the library: the directory is there (somebody may have removed it), and it will not clean in it. */
int debuginfod_cache_prepare(const struct debuginfod_cache *cache, struct error *err);
void debuginfod_cache_close(struct debuginfod_cache *cache);
/* Counts, removes marks that are too old, and what was used least recently until less than 90% of the limit is in use. Of more
 * than files_max files the marks are removed too, and others are counted, but not removed. */
int debuginfod_cache_trim(struct debuginfod_cache *cache, struct error *err);
/* Opens a file that was fetched: its descriptor, or a negative errno. */
int debuginfod_cache_get(const struct debuginfod_cache *cache, const char *build_id, const char *kind);
void debuginfod_cache_remove(const struct debuginfod_cache *cache, const char *build_id, const char *kind);
/* Removes the library's marks of misses of that build-id whose file name begins with `kind` and that were made in
 * [from_ns, to_ns] (CLOCK_REALTIME). Returns how many. */
size_t debuginfod_cache_forget(const struct debuginfod_cache *cache, const char *build_id, const char *kind, int64_t from_ns,
			       int64_t to_ns);
/* Bytes of the largest unfinished file of that build-id and kind; 0 = none. */
uint64_t debuginfod_cache_unfinished(const struct debuginfod_cache *cache, const char *build_id, const char *kind);

/* ---- debuginfod.c ---- */

#define DEBUGINFOD_LIBRARY "libdebuginfod.so.1"
/* The next debuginfod_new() loads this one instead; NULL = the real one. */
void debuginfod_set_library(const char *name);
void debuginfod_set_backoff(struct debuginfod *debuginfod, int64_t first_ns, int64_t max_ns);

#endif
