/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Symbols: build-id + file offset -> function, resolved when a profile is read, so that symbols that arrive late repair old
 * data.
 *
 * A binary's symbols are parsed once into a compact table (sorted ranges, names in one blob), kept in memory under a cap (LRU)
 * and on disk by build-id (DIR/xx/yyyy.sym), shared by all queries. Where the table comes from, in order: memory; the disk
 * cache; a file that was offered (symbolizer_offer, from the agent: also deleted or in another mount namespace); the mapping's
 * path on this host if its build-id agrees; /usr/lib/debug/.build-id/. A miss is remembered for a minute.
 *
 * Thread-safe.
 */
#ifndef WICK_SYMBOL_SYMBOL_H
#define WICK_SYMBOL_SYMBOL_H

#include <sys/types.h>

#include "base/cleanup.h"
#include "profile/profile.h"

struct symbolizer;
struct symbolizer_options {
	const char *cache_directory; /* NULL = memory only */
	size_t memory_max_bytes;     /* 0 = 64 MiB */
	bool no_host_files;	     /* never open paths that profiles name (a server that is fed by other hosts) */
};
int symbolizer_new(const struct symbolizer_options *options, struct symbolizer **ret, struct error *err);
struct symbolizer *symbolizer_free(struct symbolizer *symbolizer);
DEFINE_CLEANUP_POINTER(symbolizer_free, struct symbolizer);
/* Parses the file behind fd (not kept) and caches its table under build_id (hex). A file whose own build-id differs is refused
 * (-EINVAL). Already known: returns 0 at once. */
int symbolizer_offer(struct symbolizer *symbolizer, const char *build_id, const char *path, int fd, struct error *err);
bool symbolizer_has(struct symbolizer *symbolizer, const char *build_id);
/* Gives names to the profile's locations that have none: demangled function name, system name, no file or line yet. Locations
 * stay as they are if nothing is known. ret_resolved, ret_unresolved count locations; NULL allowed. */
int symbolizer_resolve(struct symbolizer *symbolizer, struct profile *profile, size_t *ret_resolved, size_t *ret_unresolved,
		       struct error *err);
struct symbolizer_stats {
	uint64_t tables, table_bytes, lookups, hits, files_parsed, parse_ns_total, parse_failures, cache_hits;
};
void symbolizer_get_stats(struct symbolizer *symbolizer, struct symbolizer_stats *ret);

/* The kernel of this host: /proc/kallsyms and modules. Compact (names in one blob); -EPERM when addresses are hidden
 * (kptr_restrict) with a message that says how to mend it. */
struct kallsyms;
int kallsyms_load(struct kallsyms **ret, struct error *err);
struct kallsyms *kallsyms_free(struct kallsyms *kallsyms);
DEFINE_CLEANUP_POINTER(kallsyms_free, struct kallsyms);
/* name and module live as long as the table; module is "[kernel.kallsyms]" for the kernel itself, else as in /proc/kallsyms:
 * "[ext4]", "[bpf]". Only text symbols. Thread-safe. */
bool kallsyms_lookup(const struct kallsyms *kallsyms, uint64_t address, const char **ret_name, const char **ret_module,
		     uint64_t *ret_start);
/* True when modules have been loaded or removed since (cheap: size and first lines of /proc/modules). */
bool kallsyms_is_stale(const struct kallsyms *kallsyms);

/* JIT code of processes on this host: /tmp/perf-PID.map as the process sees it (its own root and innermost pid). Files grow:
 * what was appended is read when an address is looked up, at most once a second a process. Entries may overlap: the latest
 * wins. Bounded: 64 MiB and 1M entries a file, LRU over processes. Not thread-safe. ret_name is valid until the next call. */
struct perf_maps;
int perf_maps_new(struct perf_maps **ret, struct error *err);
struct perf_maps *perf_maps_free(struct perf_maps *maps);
DEFINE_CLEANUP_POINTER(perf_maps_free, struct perf_maps);
bool perf_maps_lookup(struct perf_maps *maps, pid_t pid, pid_t namespace_pid, uint64_t address, const char **ret_name,
		      uint64_t *ret_start);

#endif
