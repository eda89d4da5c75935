/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Symbols: build-id + file offset -> functions, inlined calls, files and lines, found when a profile is read, so that debug
 * information that arrives late repairs old data.
 *
 * A binary's table (table.h) is built once per build-id by a worker (worker.h), kept on disk (DIR/xx/yyyy.sym) and mapped when
 * used. Builds that somebody waits for go first. The sources, in order: files on this host, if allowed; uploads (uploads.h);
 * debuginfod servers (debuginfod.h). By default, callers do not wait for builds: locations of unfinished binaries count as
 * pending, and are symbolized the next time.
 *
 * All that a symbolizer knows is of those whose uploads it may see: a server with tenants has one for each, with a directory of
 * its own, so that neither a name, nor how long it takes to get one, says anything of another's binaries.
 *
 * Thread-safe.
 */
#ifndef WICK_SYMBOL_SYMBOL_H
#define WICK_SYMBOL_SYMBOL_H

#include <sys/types.h>

#include "base/cancel.h"
#include "base/cleanup.h"
#include "profile/profile.h"
#include "symbol/uploads.h"

struct build_turns;
struct debuginfod;
struct symbol_worker_options;
struct symbolizer;
/* Pointers are borrowed and must outlive the symbolizer. */
struct symbolizer_options {
	const char *cache_directory; /* NULL = memory only */
	/* A directory of the user's own for tables of files of this host, so that the next one who reads the same files finds
	 * them (file_cache.c); NULL = none. One that cannot be used is the same as none. Without uploads and debuginfod only.
	 */
	const char *file_cache_directory;
	uint64_t cache_max_bytes; /* of tables on disk; 0 = 8 GiB; the least recently used go first */
	size_t memory_max_bytes;  /* of tables mapped at once; 0 = 512 MiB */
	int64_t retry_ns;	  /* the first retry of a binary without symbols; 0 = 1 min */
	bool no_host_files;	  /* never open paths from profiles (for profiles of other hosts) */
	bool own_files;	  /* requests come from the user of this process: split DWARF and sources need not be world-readable */
	unsigned workers; /* concurrent background builds; 0 = each resolve builds its tables itself, and waits */
	const struct symbol_worker_options *worker; /* NULL = build in this process */
	struct uploads *uploads;		    /* NULL = none */
	struct uploads_scope scope;		    /* whose of them */
	struct build_turns *turns;		    /* of the background builds of several symbolizers; NULL = of none */
	struct debuginfod *debuginfod;		    /* NULL = none */
};
int symbolizer_new(const struct symbolizer_options *options, struct symbolizer **ret, struct error *err);
struct symbolizer *symbolizer_free(struct symbolizer *symbolizer); /* cancels running builds */
DEFINE_CLEANUP_POINTER(symbolizer_free, struct symbolizer);
/* Other limits than those of the options. 0 = stays as it is. Tables on disk, and what is remembered, go soon. */
struct symbolizer_limits {
	size_t memory_max_bytes;
	uint64_t cache_max_bytes;
	size_t entries_max; /* binaries remembered */
};
void symbolizer_set_limits(struct symbolizer *symbolizer, const struct symbolizer_limits *limits);

/* How many builds several symbolizers have at once, in the order in which they ask. */
int build_turns_new(unsigned count, struct build_turns **ret, struct error *err);
/* After the symbolizers. */
struct build_turns *build_turns_free(struct build_turns *turns);

/* ---- names ---- */

struct symbolizer_want {
	int64_t wait_ns;	   /* for tables that are being built; 0 = not at all, -1 = as long as it takes */
	const atomic_bool *cancel; /* polled while waiting; NULL allowed. Cancelled = the wait ends */
};
/* Of locations that came without functions. */
struct symbolizer_coverage {
	size_t resolved;  /* named */
	size_t pending;	  /* of binaries whose table is being built or queued */
	size_t missing;	  /* no symbols; symbolizer_list() has the reason */
	size_t ambiguous; /* of the missing: several files have the id, and name the code differently */
};
/*
 * Symbolizes the profile's locations from `first` (at least 1) on that have no lines: adds one line per inlined call, innermost
 * first. Tables needed here are built before those of binaries that were only seen. Locations without symbols stay unchanged.
 * want NULL = do not wait; ret NULL allowed.
 */
int symbolizer_resolve(struct symbolizer *symbolizer, struct profile *profile, uint32_t first,
		       const struct symbolizer_want *want, struct symbolizer_coverage *ret, struct error *err);

/* ---- what arrives ---- */

/* A binary was seen in ingested data: it is listed, and its table is built with low priority. Cheap; never blocks. */
void symbolizer_note(struct symbolizer *symbolizer, const char *build_id, const char *path, uint64_t samples);
/* The file that is known by this hash has that Go build-id, as hex. Uploads that are known by it are used for the file, if no
 * other file is known to have it. */
void symbolizer_note_go_id(struct symbolizer *symbolizer, const char *hash, const char *go_id);
/* The file behind fd (kept as a duplicate until it has been read) is the binary of that build-id, or was, whatever its path now
 * leads to. content: of it (elf/content_key.h), "" = not known; several may have one build-id. Never waits. -EINVAL not a
 * build-id, -EAGAIN too many wait. */
int symbolizer_offer(struct symbolizer *symbolizer, const char *build_id, const char *content, const char *path, int fd,
		     struct error *err);
/* There is a binary of that id and content somewhere. Is it, for all that is known, the only one of the id? */
enum symbol_contents {
	SYMBOL_CONTENT_ONLY,
	SYMBOL_CONTENT_SEVERAL,
	SYMBOL_CONTENT_TOO_MANY, /* and this is not among those that are distinguished */
};
enum symbol_contents symbolizer_note_content(struct symbolizer *symbolizer, const char *build_id, const char *content,
					     const char *path);
/* Of one that was noted: what its code is (struct content_key), not 0. If that of two differs, they are different programs:
 * then code of the id has a name only if all of them can be had, and all name it, and so. */
void symbolizer_note_code(struct symbolizer *symbolizer, const char *build_id, const char *content, uint64_t code);
/* New debug information of that build-id arrived: its table, and those that were made without it, are rebuilt, and the old ones
 * are used until then. */
void symbolizer_arrived(struct symbolizer *symbolizer, const char *build_id);
/* Would debug information from elsewhere help? False while that is not decided yet (*ret_later, NULL allowed, is true then). */
bool symbolizer_wants(struct symbolizer *symbolizer, const char *build_id, const char *path, bool *ret_later);
/* The same for one of several binaries of an id, which was noted. If it is wanted, code of that id has no name until it comes,
 * for some minutes. */
bool symbolizer_wants_content(struct symbolizer *symbolizer, const char *build_id, const char *content, const char *path,
			      bool *ret_later);
/* Is there a table that names this kernel's code by offsets from _stext? */
bool symbolizer_names_kernel(struct symbolizer *symbolizer, const char *build_id);

/* ---- status ---- */

/* Append-only: shown to people and in /metrics. */
enum symbol_state {
	SYMBOL_QUEUED,	 /* seen; queued for a worker */
	SYMBOL_WORKING,	 /* a worker builds it, or fetches for it */
	SYMBOL_COMPLETE, /* functions and lines */
	SYMBOL_PARTIAL,	 /* names only, or some of them; `why` says what is missing */
	SYMBOL_MISSING,	 /* nothing was found; retried later */
	SYMBOL_FAILED,	 /* a file was found that cannot be used */
	SYMBOL_STATES,
};
extern const char *const symbol_state_names[SYMBOL_STATES]; /* "queued" ... */
/* "dynsym,symtab,dwarf" of enum symbol_source (build.h). */
const char *symbol_sources_text(uint32_t sources, char out[static 64]);

struct symbol_status {
	char build_id[132];
	char path[256]; /* as first seen; cut in front */
	enum symbol_state state;
	uint32_t sources; /* enum symbol_source, of the table that serves now */
	char why[256];
	char from[256];	   /* the files that the table was made of */
	uint32_t contents; /* so many different files are known to have the id; 0 and 1: it is not ambiguous */
	uint64_t samples;
	int64_t first_seen_ns, last_seen_ns, built_ns, retry_ns; /* since 1970; 0 = never */
	uint64_t functions, ranges, rows, table_bytes, input_bytes, memory_peak_bytes;
	int64_t build_ns, cpu_ns;
};
struct symbol_list_options {
	uint32_t states;      /* bits 1 << enum symbol_state; 0 = all */
	const char *text;     /* part of path or build-id; NULL = all */
	size_t offset, limit; /* by falling samples; limit 0 = all */
};
/* An array to be freed with mem_free(). ret_counts: of all, by state; NULL allowed. */
int symbolizer_list(struct symbolizer *symbolizer, const struct symbol_list_options *options, struct symbol_status **ret,
		    size_t *ret_count, size_t *ret_total, size_t ret_counts[SYMBOL_STATES], struct error *err);
/* Looks again now, whatever the retry time. -ENOENT unknown. */
int symbolizer_retry(struct symbolizer *symbolizer, const char *build_id, struct error *err);
#define SYMBOL_ENTRIES_MAX 65536u /* binaries remembered, those without symbols included */
struct symbolizer_stats {
	uint64_t tables, table_bytes; /* mapped now */
	uint64_t lookups, hits;	      /* of locations */
	uint64_t ambiguous;	      /* of the lookups: several files have the id, and name the code differently */
	uint64_t contents_refused;    /* binaries of an id that has too many to be distinguished, each time one was seen */
	uint64_t builds, build_failures, build_ns_total, build_cpu_ns_total, build_crashes, cache_hits;
	uint64_t waiting, running;		    /* builds, now */
	uint64_t disk_bytes, disk_evicted, refused; /* refused: more binaries than are remembered */
};
void symbolizer_get_stats(struct symbolizer *symbolizer, struct symbolizer_stats *ret);

/* ---- one binary ---- */

/* A table, held. */
struct symbol_view;
struct symbol_frame {
	const char *name;	/* mangled; lives as long as the view, as does file */
	const char *file;	/* "" = unknown */
	uint32_t line, column;	/* 0 = unknown */
	const char *start_file; /* of the function; "" = unknown */
	uint32_t start_line;	/* of the function; 0 = unknown */
	uint64_t function;	/* the same number in the same function of this table */
	uint16_t language;	/* DW_LANG_*; 0 = unknown */
	bool inlined;
};
/* -ENOENT when there is no table (yet). build_id "": path of this host. */
int symbolizer_view(struct symbolizer *symbolizer, const char *build_id, const char *path, const struct symbolizer_want *want,
		    struct symbol_view **ret, struct error *err);
struct symbol_view *symbol_view_free(struct symbol_view *view);
DEFINE_CLEANUP_POINTER(symbol_view_free, struct symbol_view);
/* A place in a binary, as profiles give it. */
struct symbol_place {
	uint64_t file_offset; /* of a kernel's frame from _stext: its binary's segments mean nothing to it */
	/* Of its mapping, as in struct profile_mapping: for tables that do not know the binary's file offsets, and of linked
	 * ones (profile_mapping_is_linked()) the addresses are those as linked, whatever the table knows. */
	uint64_t start, limit, offset;
	bool kernel;
};
/* Its address as linked; false if it is not known. */
bool symbol_view_address(const struct symbol_view *view, const struct symbol_place *place, uint64_t *ret_address);
/* The frames at an address as linked, innermost first; 0 = none. */
size_t symbol_view_frames(const struct symbol_view *view, uint64_t address, struct symbol_frame *ret, size_t max);
/* How many different files are known to have the id, if they are several, else 0: frames and bounds are what they agree on. */
size_t symbol_view_contents(const struct symbol_view *view);
/* The symbol that holds the address: its bounds. false = none. */
bool symbol_view_bounds(const struct symbol_view *view, uint64_t address, uint64_t *ret_start, uint64_t *ret_end);

/* The kernel of this host: /proc/kallsyms and modules. Compact (names in one blob); -EPERM when addresses are hidden
 * (kptr_restrict) with a message that has the fix. */
struct kallsyms;
int kallsyms_load(struct kallsyms **ret, struct error *err);
/* The same of core text alone, as kallsyms_save_core() has left it in that directory (base/own_dir.h) since the machine booted:
 * 1 ms instead of some 50. Any failure means that there is none, or that it is not to be used. */
int kallsyms_load_core(const char *directory, struct kallsyms **ret);
/* True of a table that knows core text only: an address outside of it asks for kallsyms_load(). */
bool kallsyms_is_core_only(const struct kallsyms *kallsyms);
/* Keeps core text of a table of kallsyms_load(). A failure costs time later, nothing else. */
void kallsyms_save_core(const struct kallsyms *kallsyms, const char *directory);
struct kallsyms *kallsyms_free(struct kallsyms *kallsyms);
DEFINE_CLEANUP_POINTER(kallsyms_free, struct kallsyms);
/* name and module live as long as the table; module is "[kernel.kallsyms]" for the kernel itself, else as in /proc/kallsyms:
 * "[ext4]", "[bpf]". Only text symbols. Thread-safe. */
bool kallsyms_lookup(const struct kallsyms *kallsyms, uint64_t address, const char **ret_name, const char **ret_module,
		     uint64_t *ret_start);
/* The text of the kernel itself, from _stext to _etext, without modules and what was made at run time; false if they are not
 * told. An address in it, less the start, is the same after every boot of this kernel. */
bool kallsyms_core(const struct kallsyms *kallsyms, uint64_t *ret_start, uint64_t *ret_end);
/* Writes the names of that text to out_fd, from its beginning: docs/symbols.md. -ENODATA when kallsyms_core() is false. */
int kallsyms_write_core(const struct kallsyms *kallsyms, const char *build_id, int out_fd, uint64_t *ret_size,
			struct error *err);
/* True when modules have been loaded or removed since (cheap: size and first lines of /proc/modules). */
bool kallsyms_is_stale(const struct kallsyms *kallsyms);

/* ---- JIT code, on this host ---- */

/* Reasons why files, entries or lookups were rejected or dropped. Append-only; jit_problem_names for metrics. */
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
	uint64_t device, inode; /* of the mapping, as in an event or /proc/PID/maps: its identity */
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
