/* SPDX-License-Identifier: Apache-2.0 */
/* Private to src/symbol. */
#ifndef WICK_SYMBOL_SYMBOL_INT_H
#define WICK_SYMBOL_SYMBOL_INT_H

#include <pthread.h>
#include <sys/stat.h>

#include "base/cancel.h"
#include "base/limits.h"
#include "elf/code_unit.h"
#include "symbol/build.h"
#include "symbol/symbol.h"
#include "symbol/table.h"
#include "symbol/uploads.h"

#define SYMBOL_MEMORY_DEFAULT	(512 * MIB)
#define SYMBOL_CACHE_DEFAULT	(8 * GIB)
#define SYMBOL_FILE_CACHE_BYTES (1 * GIB)
#define SYMBOL_RETRY_NS_DEFAULT (60ll * 1000000000)
#define SYMBOL_RETRY_NS_MAX	(1800ll * 1000000000)
#define SYMBOL_OFFERS_MAX	256u /* descriptors kept for builds that wait */
#define SYMBOL_DEBUG_DIRECTORY	"/usr/lib/debug/.build-id"
#define SYMBOL_BUCKETS		4096u
#define SYMBOL_PATH_MAX		4096
#define SYMBOL_WORKERS_MAX	64u
#define SYMBOL_FRAMES_MAX	256u /* of one address */
#define SYMBOL_KEY_MAX		176u
#define SYMBOL_CONTENT_PREFIX	"content:"
#define SYMBOL_CONTENTS_MAX	8u /* uploads that are compared, of one id; more are as good as never equal */
#define SYMBOL_BINARIES_MAX	4u /* of one id that agents tell of; likewise */

static inline bool symbol_has_lines(uint32_t sources)
{
	return sources & (SYMBOL_SOURCE_DWARF | SYMBOL_SOURCE_PCLNTAB);
}

/* ---- entries.c ---- */

/* A table and who uses it; counted under the symbolizer's lock. */
struct shared_table {
	struct symbol_table *table;
	unsigned users;
};

enum symbol_queue { SYMBOL_QUEUE_NONE, SYMBOL_QUEUE_REQUESTED, SYMBOL_QUEUE_SEEN, SYMBOL_QUEUES };

/* One of the binaries that have an id. */
struct symbol_content {
	char key[CONTENT_KEY_HEX];
	char *path;	   /* as first seen; NULL = unknown */
	uint64_t code;	   /* 0 = unknown */
	int64_t wanted_ns; /* monotonic: when its debug information was asked for last; 0 = never */
};

/* What is known of one binary. */
struct symbol_entry {
	char *key;  /* a build-id, "file:DEVICE:INODE:SIZE:MTIME", or "content:CONTENT:BUILD-ID" (jobs_content_key()) */
	char *path; /* as first seen, until it has a table: as last seen; NULL = unknown */
	char *why, *from;
	/* Build-id of the file that several debug files share (dwz), and that the table was made without; NULL = none. */
	char *lacks;
	char *go_id;	  /* what else uploads may be known by; NULL = nothing */
	bool is_by_go_id; /* the table is of such an upload: it stays in memory, as another file may turn out to have that id */
	bool by_path;	  /* the key is no build-id; never goes to disk */
	bool by_content;  /* one of several uploads of an id, to be compared with the others; not listed */
	enum symbol_state state;
	uint32_t sources;
	bool was_built;	   /* at least once, or found on disk: otherwise the state says nothing yet */
	bool disk_checked; /* there is no table on disk but what `shared` holds */
	bool again;	   /* something arrived while it was being worked on */
	bool no_offsets;   /* the table was made of a debug file alone: the binary would help */
	bool names_kernel; /* the table is of a kernel, and knows offsets from _stext */
	bool incomplete;   /* units of the debug information could not be had, or were damaged */
	bool is_earlier;   /* the table is of an earlier run: what it lacks is not known */
	unsigned failures; /* in a row */
	uint8_t path_changes;
	int offered_fd; /* -1 = none */
	/* Of what offered_fd is, or was, and the table with it; "" = not known. */
	char main_content[CONTENT_KEY_HEX];
	struct symbol_content *contents; /* that agents have told of, SYMBOL_BINARIES_MAX */
	uint8_t content_count;
	bool contents_refused; /* there were more */
	bool contents_unsaved;
	int64_t retry_ns;	     /* monotonic: not before */
	struct shared_table *shared; /* NULL = not mapped, or none */
	uint64_t samples;
	int64_t first_seen_ns, last_seen_ns, built_ns, build_ns, cpu_ns;
	uint64_t functions, ranges, rows, table_bytes, input_bytes, memory_peak_bytes;
	struct symbol_entry *bucket_next, *older, *newer; /* by last use */
	enum symbol_queue queue;
	struct symbol_entry *queue_before, *queue_after;
};

struct symbolizer {
	char *cache_directory;	       /* NULL = none */
	struct file_cache *file_cache; /* NULL = none */
	uint64_t cache_max_bytes;
	size_t memory_max_bytes;
	bool no_host_files, own_files;
	const struct symbol_worker_options *worker;
	struct uploads *uploads;
	struct uploads_scope scope;
	struct build_turns *turns;
	struct debuginfod *debuginfod;
	const char *debug_directory; /* tests point these three elsewhere */
	int64_t retry_interval_ns;
	atomic_bool stop; /* builds end */

	unsigned worker_count;
	pthread_t workers[SYMBOL_WORKERS_MAX];
	pthread_mutex_t build_lock; /* without workers: one build at a time; taken before `lock` */
	pthread_mutex_t evict_lock; /* one clears the disk at a time; taken before `lock` */
	pthread_mutex_t lock;	    /* everything below; never held during I/O */
	pthread_cond_t work, done;
	int64_t retry_check_ns; /* monotonic: when to look next for what is due again */
	struct symbol_entry *buckets[SYMBOL_BUCKETS];
	struct symbol_entry *newest, *oldest; /* by last use */
	struct symbol_entry *first[SYMBOL_QUEUES], *last[SYMBOL_QUEUES];
	uint64_t arrivals;			 /* symbolizer_arrived() */
	size_t entry_count, entries_max, offers; /* tests lower the limit */
	uint64_t disk_bytes;
	struct symbolizer_stats stats;
};

/* All of these with the lock held. */
struct symbol_entry *entries_find(struct symbolizer *s, const char *key);
/* Another one of the same Go build-id, or NULL. */
struct symbol_entry *entries_find_go_id(struct symbolizer *s, const struct symbol_entry *entry);
/* Made if missing; NULL when memory is short or too many are busy. path: NULL = unknown. */
struct symbol_entry *entries_get(struct symbolizer *s, const char *key, const char *path);
void entries_touch(struct symbolizer *s, struct symbol_entry *entry);
/* What a table that was found on disk says of itself. */
void entries_set_header(struct symbol_entry *entry, const struct symbol_table_header *header);
/* Takes over a reference of the caller's to the table (NULL = none), and evicts others if there are too many. */
void entries_set_table(struct symbolizer *s, struct symbol_entry *entry, struct shared_table *shared);
/* Unmaps tables until memory suffices, but not that of `kept` (NULL = none). */
void entries_unmap_excess(struct symbolizer *s, const struct symbol_entry *kept);
void entries_drop_user(struct shared_table *shared); /* NULL allowed */
void entries_enqueue(struct symbolizer *s, struct symbol_entry *entry, enum symbol_queue queue);
struct symbol_entry *entries_dequeue(struct symbolizer *s);
void entries_unqueue(struct symbolizer *s, struct symbol_entry *entry);
void entries_free_all(struct symbolizer *s);
/* Replaces a text; a lack of memory leaves it "". */
void entries_set_text(char **text, const char *value);

/* ---- jobs.c: loading and building tables ---- */

int jobs_start(struct symbolizer *s, unsigned count, struct error *err); /* count: SYMBOL_WORKERS_MAX at most */
void jobs_stop(struct symbolizer *s);
/* Puts the entry into a queue if its table is missing, or may be improved by now. With the lock held. */
void jobs_want(struct symbolizer *s, struct symbol_entry *entry, enum symbol_queue queue);
/* The table of a key, counted for the caller, or NULL: from memory or disk; without workers it is built. *ret_pending: it is
 * being built, or waits for it. -ENOMEM only. */
int jobs_acquire(struct symbolizer *s, const char *key, const char *path, struct shared_table **ret, bool *ret_pending,
		 struct error *err);
/* The key of a binary: its build-id, or what its path leads to. False when it can have none. */
bool jobs_key(struct symbolizer *s, const char *build_id, const char *path, char ret[static SYMBOL_KEY_MAX]);
/* That of the table of one upload among several of the id, which is in memory only. */
void jobs_content_key(const char *build_id, const char *content, char ret[static SYMBOL_KEY_MAX]);
/* Waits until none of the keys is being worked on. False when time was over first. */
bool jobs_wait(struct symbolizer *s, const char *const *keys, size_t count, const struct symbolizer_want *want);
void jobs_release(struct symbolizer *s, struct shared_table *shared, uint64_t lookups, uint64_t hits);
void jobs_count_ambiguous(struct symbolizer *s, uint64_t lookups);

/* ---- turns.c ---- */

/* Waits for a turn. False: `stop` was set first. turns NULL: at once. */
bool build_turns_take(struct build_turns *turns, const atomic_bool *stop);
void build_turns_give(struct build_turns *turns);
/* Who waits looks at its `stop`. */
void build_turns_wake(struct build_turns *turns);

/* ---- contents.c: several binaries of one id ---- */

/* With the lock held: one that an agent has told of. NULL: without memory, or if there are too many. The entry stays. */
struct symbol_content *contents_note(struct symbolizer *s, struct symbol_entry *entry, const char *content, const char *path);
void contents_free(struct symbol_entry *entry);
/* Without the lock. Of an id that has several: to the disk, if there is something new, and from there. Failures cost what is
 * told anew. */
void contents_save(struct symbolizer *s, const char *build_id);
void contents_load(struct symbolizer *s);
/* Where several binaries have the id, and this is one of those that were passed: the key of the table of it alone. False: there
 * is no such table, and *ret stays. */
bool contents_key(struct symbolizer *s, const char *build_id, const char *content, char ret[static SYMBOL_KEY_MAX]);
/* The tables that a name has to agree with. */
struct symbol_others {
	struct shared_table *tables[SYMBOL_CONTENTS_MAX + SYMBOL_BINARIES_MAX];
	size_t count;	   /* of the tables */
	size_t contents;   /* different files that are known to have the id, if they are several, else 0 */
	bool are_programs; /* of different code: what one does not name has no name */
	bool is_hopeless;  /* they are too many to be compared, or one that would have to be is not here */
	char pending[SYMBOL_CONTENTS_MAX + SYMBOL_BINARIES_MAX][SYMBOL_KEY_MAX]; /* keys of tables that are being built */
	size_t pending_count;
};
/* Positive: some are being built, or on their way here. Release them, also on failure. */
int others_acquire(struct symbolizer *s, const char *build_id, struct symbol_others *ret, struct error *err);
/* The same, and waits for those that are being built. want NULL = do not wait. */
int others_acquire_wait(struct symbolizer *s, const char *build_id, const struct symbolizer_want *want,
			struct symbol_others *ret, struct error *err);
void others_release(struct symbolizer *s, struct symbol_others *others);
/* How many different files are known to have the id; 1 and 0 where nothing says that there are several. */
size_t others_count(struct symbolizer *s, const char *build_id, bool *ret_hopeless);
/* Reduces frames to what another table says of the same code: all, the name of the function, or nothing (0). */
size_t others_reduce(const struct symbol_others *others, const struct symbol_table *other, uint64_t address,
		     struct symbol_frame *frames, size_t count);

/* ---- symbolizer.c ---- */

const struct symbol_table *symbol_view_table(const struct symbol_view *view);

/* ---- resolve.c ---- */

/* A place's address as linked, by the table; false if it is not known. */
bool symbol_place_to_address(const struct symbol_table *table, const struct symbol_place *place, uint64_t *ret);

/* ---- source.c: where files come from ---- */

struct seen_files;
struct source_job {
	struct symbolizer *symbolizer;
	struct seen_files *seen; /* what was looked at; NULL = is not noted */
	const char *build_id;	 /* "" = none */
	const char *path;	 /* "" = not known; without a slash: its last component */
	const char *go_id;	 /* another id of it; "" = none */
	const char *content;	 /* of the upload that alone is looked into; "" = whatever there is */
	int offered_fd;		 /* -1 = none */
	char from[256];		 /* what was opened, for people */
	char place[256];	 /* the path, of which there was a component only */
	int ready_fd;		 /* source_prepare() */
	int ready_result;
	uint32_t ready_kind;
	bool is_local;		      /* the binary is a file of this host, or an agent of it passed it */
	bool is_by_go_id;	      /* an upload was used that is known by the Go build-id */
	bool is_foreign;	      /* something was uploaded, or fetched: names in it lead nowhere on this host */
	bool unreachable;	      /* a server did not answer: look again soon */
	char lacks[BUILD_ID_HEX_MAX]; /* the file that several share, which is nowhere; "" = none */
	char wrong[sizeof(((struct error *)0)->message)]; /* what a server sent instead, for people; "" = nothing */
	int64_t wait_ns;				  /* that fetching took */
};
/* Opens the first file that a build asks for, so that no process is started for a binary that is nowhere: -ENOENT. */
int source_prepare(struct source_job *job, struct error *err);
void source_release(struct source_job *job);
/* symbol_open_file; context is a struct source_job. */
int source_open_file(void *job, const struct symbol_file_request *request, int *ret_fd, struct error *err);
/* "DIRECTORY/xx/yyyySUFFIX", where xx are the first two digits of the build-id. False: it is too long. */
bool source_format_path(char out[static SYMBOL_PATH_MAX], const char *directory, const char *build_id, const char *suffix);
/* Opens a regular file and nothing else. Opening some devices does something and opening a FIFO waits, so the path is opened
 * with O_PATH, which does neither, and what it led to is opened through /proc: nobody can put something else in its place in
 * between. Nothing below /proc and /sys, whatever links the path has. flags: O_NOFOLLOW or 0. 0, or a negative errno. */
int source_open(const char *path, int flags, int *ret_fd, struct stat *ret_stat, struct error *err);
/* The second half of it, for a descriptor from O_PATH. */
int source_reopen(int handle, const char *name, int *ret_fd, struct stat *ret_stat, struct error *err);
/* source_open() of what everybody on this host may read: -EACCES with the rule that is broken. */
int source_open_public(const char *path, int flags, int *ret_fd, struct stat *ret_stat, struct error *err);
/* Of a descriptor from O_PATH: the file's mode lets everybody read it, everybody may enter all directories above it, and it is
 * this very file that its path leads to in this mount namespace. */
int source_check_public(int handle, const char *name, struct error *err);
/* source_open() of what a profile names. That somebody names a file is not to tell him anything about one that is no program:
 * where others may ask, it must be ELF. */
int source_open_binary(const struct symbolizer *s, const char *path, int *ret_fd, struct stat *ret_stat);
bool source_is_host_path(const char *path);
/* Is there a file now that could make a better table than what `sources` made? Cheap. */
bool source_may_improve(struct symbolizer *s, const char *build_id, uint32_t sources);

/* How a path was tried. Part of the format of the cache. */
enum seen_how {
	SEEN_PATH,  /* as a profile or a build-id says it */
	SEEN_NAMED, /* as a file says it */
	SEEN_HOWS,
};
/* Opens it as it was opened when it was noted: the descriptor, or a negative errno. */
int source_open_seen(const struct symbolizer *s, enum seen_how how, const char *path);

/* ---- file_cache.c: tables on disk by the files that they were made of ---- */

struct file_identity {
	uint64_t device, inode, size;
	int64_t changed_ns, inode_changed_ns;
};
bool file_identity_of(int fd, struct file_identity *ret);
struct seen_files {
	struct file_identity binary;
	bool has_binary;
	bool is_useless; /* the table is not to be kept */
	uint32_t count;
	struct buffer records;
};
void seen_files_init(struct seen_files *seen);
void seen_files_release(struct seen_files *seen);
/* seen NULL: does nothing. fd -1: it was not there. */
void seen_files_add(struct seen_files *seen, enum seen_how how, const char *path, int fd);
void seen_files_set_binary(struct seen_files *seen, int fd);
/* bytes_max: of all files in it; the directory is made if it is missing. */
int file_cache_open(const char *directory, uint64_t bytes_max, struct file_cache **ret, struct error *err);
struct file_cache *file_cache_close(struct file_cache *cache);
/* The table that was made of this binary, if whatever was looked at to make it is as it was. Also sets job->from and lacks. */
bool file_cache_load(struct symbolizer *s, struct source_job *job, struct symbol_build_result *ret_result,
		     struct symbol_table **ret);
/* A failure costs time later, nothing else. */
void file_cache_keep(struct symbolizer *s, const struct source_job *job, const struct symbol_build_result *result,
		     const struct symbol_table *table);

/* ---- cache.c: tables on disk by build-id ---- */

/* -ENOENT when there is none or it is damaged (it is removed then). */
int cache_load(struct symbolizer *s, const char *build_id, struct symbol_table **ret, struct error *err);
/* A file to write a table into, which has no name yet: 0 and *ret_fd. build_id "" or without a directory: in memory. */
int cache_begin(struct symbolizer *s, const char *build_id, char ret_temporary[static SYMBOL_PATH_MAX], int *ret_fd,
		struct error *err);
/* Gives it its name (keep) or removes it. Failures cost time later, nothing else. */
void cache_end(struct symbolizer *s, const char *build_id, const char *temporary, uint64_t bytes, bool keep);
/* Removes tables if there is more on the disk than is allowed. */
void cache_trim(struct symbolizer *s);
/* What is there: an entry for each table. At start. */
void cache_scan(struct symbolizer *s);

/* ---- kernel/kallsyms.c: seams for tests and fuzzing ---- */

int kallsyms_load_files(const char *symbols_path, const char *modules_path, struct kallsyms **ret, struct error *err);
size_t kallsyms_memory_bytes(const struct kallsyms *kallsyms);
size_t kallsyms_symbol_count(const struct kallsyms *kallsyms);

#endif
