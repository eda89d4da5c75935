/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Builds, checks and keeps the tables of bpf/unwind.h.
 */
#ifndef WICK_UNWIND_UNWIND_TABLE_H
#define WICK_UNWIND_UNWIND_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/cleanup.h"
#include "base/error.h"
#include "bpf/unwind.h"
#include "elf/elf_file.h"

#define UNWIND_TABLE_BYTES_MAX (256u << 20)
#define UNWIND_RULES_MAX       65536u
#ifdef __aarch64__
#define UNWIND_MACHINE EM_AARCH64 /* this one */
#else
#define UNWIND_MACHINE EM_X86_64
#endif

struct unwind_table_stats {
	uint64_t rows, rules, escapes, unsupported, bad_entries;
	uint64_t code_bytes; /* of code that no CFI speaks of, up to a limit (cfi_stats) */
};
/*
 * The image of a file's table, as it goes into the heap: *ret (initialised, empty) is filled; it stays empty for a file without
 * any CFI. Rows of addresses that no executable PT_LOAD segment maps from the file are left out. Errors as cfi_read(), -ENOTSUP
 * for another machine's file (rules are in this one's registers), -E2BIG past the limits above (also: code spread over so much
 * of the file that the index alone would pass them).
 */
int unwind_table_build(struct elf_file *file, struct buffer *ret, struct unwind_table_stats *ret_stats, struct error *err);
/* The same by CFI alone: cfi_read_listed(). */
int unwind_table_build_listed(struct elf_file *file, struct buffer *ret, struct unwind_table_stats *ret_stats,
			      struct error *err);
/* True if every place, count and order that a reader relies on is right. For images that were read from disk. */
bool unwind_table_check(const void *image, size_t bytes);
/* The rule of a file offset, as bpf/walk.h looks it up, in an image that was built here or checked; NULL where there is none
 * (no row, or one of UNWIND_CFA_NONE). */
const struct unwind_rule *unwind_table_find(const void *image, uint64_t file_offset);

/* ---- unwind_cache.c: images on disk, by what is in the file (elf/content_key.h), between runs ---- */

struct unwind_cache; /* NULL stands for no cache in all calls */
/* directory is made (0700) if its parent exists. bytes_max: the oldest files are removed beyond it. Failing is no reason not to
 * run: the caller goes on with NULL. */
int unwind_cache_open(const char *directory, uint64_t bytes_max, struct unwind_cache **ret, struct error *err);
struct unwind_cache *unwind_cache_close(struct unwind_cache *cache);
DEFINE_CLEANUP_POINTER(unwind_cache_close, struct unwind_cache);
/* 1 and *ret filled with a checked image (empty = known to have no CFI); 0 = not there, or damaged (then it is removed). */
int unwind_cache_load(struct unwind_cache *cache, const char *key, struct buffer *ret);
/* Written aside and renamed into place. Failures are silent: counted in stats. */
void unwind_cache_store(struct unwind_cache *cache, const char *key, const struct buffer *image);

struct unwind_cache_stats {
	uint64_t bytes;			   /* of the files, now */
	uint64_t loaded, stored;	   /* files, since it was opened */
	uint64_t damaged, failed, removed; /* failed: could not be read or written; removed: to keep to bytes_max */
};
void unwind_cache_get_stats(const struct unwind_cache *cache, struct unwind_cache_stats *ret);

#endif
