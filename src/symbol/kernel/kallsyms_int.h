/* SPDX-License-Identifier: Apache-2.0 */
/* Private to kallsyms.c, which explains it, and kallsyms_cache.c. */
#ifndef WICK_SYMBOL_KERNEL_KALLSYMS_INT_H
#define WICK_SYMBOL_KERNEL_KALLSYMS_INT_H

#include "base/buffer.h"
#include "base/intern.h"
#include "base/limits.h"
#include "symbol/symbol.h"

#define KALLSYMS_BLOCK_SYMBOLS	64u
#define KALLSYMS_SYMBOLS_MAX	(4u * 1024 * 1024)
#define KALLSYMS_DATA_BYTES_MAX (256 * MIB)
#define KALLSYMS_CORE_MODULE	"[kernel.kallsyms]"

struct kallsyms_block {
	uint64_t start;
	uint32_t place; /* of its first entry in data */
	uint32_t unused;
};

struct kallsyms_run {
	struct kallsyms_block *blocks;
	size_t block_count, block_capacity;
	struct buffer data;
	size_t entry_count;
};

struct name_cache;
struct kallsyms {
	struct kallsyms_run runs[2];
	struct intern modules; /* id 1 is the kernel itself */
	size_t symbol_count;
	uint64_t core_start, core_end; /* _stext, _etext; 0 = not told */
	char *modules_path;
	uint64_t modules_hash;
	bool core_only; /* of the cache: what is outside of core text is not known */
	struct name_cache *names;
};

/* Without symbols. */
int kallsyms_new(const char *modules_path, struct kallsyms **ret, struct error *err);
/* The last symbol of run 1 that begins at or before the address: where it begins; 0 = none. */
uint64_t kallsyms_late_before(const struct kallsyms *kallsyms, uint64_t address);

/* kallsyms_load_core() and kallsyms_save_core() with files for tests. */
int kallsyms_cache_load(int directory, const char *symbols_path, const char *boot_id_path, struct kallsyms **ret);
int kallsyms_cache_save(int directory, const char *symbols_path, const char *boot_id_path, const struct kallsyms *kallsyms);

#endif
