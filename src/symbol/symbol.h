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
/* The same for locations from `first` (at least 1) on: those that were added since the last call. */
int symbolizer_resolve_from(struct symbolizer *symbolizer, struct profile *profile, uint32_t first, size_t *ret_resolved,
			    size_t *ret_unresolved, struct error *err);
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

/* ---- code made at run time, on this host ---- */

/* What was refused, left out or given up, and why. Append-only; jit_problem_names for metrics. */
enum jit_problem {
	JIT_PROBLEM_OWNER,	 /* a perf map that belongs neither to the process's user nor to root */
	JIT_PROBLEM_NOT_REGULAR, /* a link, fifo, directory, device in its place */
	JIT_PROBLEM_STALE,	 /* a perf map last written before the process began: another's, which had the pid before */
	JIT_PROBLEM_GONE,	 /* the process had ended before its file could be read, or told apart from another's */
	JIT_PROBLEM_MALFORMED,	 /* lines and records that make no sense; of a jitdump also all that follows */
	JIT_PROBLEM_DEBUG_INFO,	 /* line tables in a jitdump that make no sense; the function's name is kept */
	JIT_PROBLEM_FULL,	 /* entries beyond the limits of one file */
	JIT_PROBLEM_TOO_LONG,	 /* files that are longer than what is read of one */
	JIT_PROBLEM_REWRITTEN,	 /* files that became shorter or began differently, and were read anew */
	JIT_PROBLEM_EVICTED,	 /* files forgotten because others needed the room */
	JIT_PROBLEM_SEARCH,	 /* lookups given up: too many functions had been at the address since the sample */
	JIT_PROBLEM_COUNT,
};
extern const char *const jit_problem_names[JIT_PROBLEM_COUNT];
struct jit_stats {
	uint64_t lookups, hits, reads, bytes_read, files, memory_bytes;
	uint64_t problems[JIT_PROBLEM_COUNT];
};

/* perf maps: /tmp/perf-PID.map as the process sees it (its own root and innermost pid). Files grow: what was appended is read
 * when an address is looked up, at most once a second a process, and once more when it has ended. Entries may overlap: the
 * latest wins. Bounded: 16 MiB a reading, 256 MiB a file, 512k entries and 24 MiB of names in use a file, 64 MiB of memory in
 * all, LRU over processes. Not thread-safe. */
struct perf_maps;
struct perf_maps_process {
	pid_t pid;	     /* as we see it */
	pid_t namespace_pid; /* as it sees itself; 0 = the same */
	uid_t uid;	     /* whose files are believed after it has ended; PERF_MAPS_UID_UNKNOWN = only root's */
	uint64_t started_ns; /* CLOCK_MONOTONIC, of its fork or last exec; 0 = unknown: asked of /proc while it lives */
};
#define PERF_MAPS_UID_UNKNOWN ((uid_t)-1)
int perf_maps_new(struct perf_maps **ret, struct error *err);
struct perf_maps *perf_maps_free(struct perf_maps *maps);
DEFINE_CLEANUP_POINTER(perf_maps_free, struct perf_maps);
/* *ret_name is valid until the next call. */
bool perf_maps_lookup(struct perf_maps *maps, const struct perf_maps_process *process, uint64_t address, const char **ret_name,
		      uint64_t *ret_start);
void perf_maps_get_stats(const struct perf_maps *maps, struct jit_stats *ret);

/* jitdumps: files that a process writes and of which it maps a page executable, so that profilers find it. They say when a
 * function was put where, so that a sample is named by what was there at its time, and may say lines. Growing, bounds: as
 * above, with 64 MiB a reading and 4 GiB a file; code in it is not read. Not thread-safe. */
struct jitdumps;
struct jitdump_file {
	pid_t pid;		/* a process that maps it */
	const char *path;	/* as the process sees it */
	uint64_t device, inode; /* of the mapping, as an event or /proc/PID/maps tells it: what it is known by */
	uint64_t start, end;	/* of the mapping */
};
struct jit_function {
	const char *name, *file; /* valid until the next call; file is NULL when the line is not known */
	uint64_t start;
	uint32_t line;
};
int jitdumps_new(struct jitdumps **ret, struct error *err);
struct jitdumps *jitdumps_free(struct jitdumps *dumps);
DEFINE_CLEANUP_POINTER(jitdumps_free, struct jitdumps);
/* What was at the address at the time (CLOCK_MONOTONIC ns; UINT64_MAX = now). */
bool jitdumps_lookup(struct jitdumps *dumps, const struct jitdump_file *file, uint64_t address, uint64_t time_ns,
		     struct jit_function *ret);
void jitdumps_get_stats(const struct jitdumps *dumps, struct jit_stats *ret);

#endif
