/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The symbolizer: which tables are in memory, and how names get into a profile.
 *
 * A binary is an entry under its build-id. A binary without one is known on this host only, as the file that its path leads to
 * (device, inode, size, change), and never goes to disk. Entries are in a list by last use; when the tables pass the memory
 * limit, the least recently used ones go. A table in use is counted and outlives its entry. A table larger than the limit is
 * used and dropped afterwards.
 *
 * Locks. `lock` guards the maps and is held for pointer work only. `build_lock` is held while a table is loaded or built: work
 * for one binary is never done twice, and the memory that parsing takes is bounded by one file. Those who find their table in
 * memory wait for nobody.
 *
 * Looking again. A miss is remembered for a minute. So is a table that holds exported names only: after that minute it is asked
 * whether a separate debug file has been installed. A table from such a file alone gives way to one from the binary.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/io.h"
#include "base/time.h"
#include "elf/build_id.h"
#include "symbol/symbol_int.h"

/* ---- life ---- */

int symbolizer_new(const struct symbolizer_options *options, struct symbolizer **ret, struct error *err)
{
	struct symbolizer *s = mem_zalloc(sizeof(*s));
	if (!s)
		return error_nomem(err);
	if (options->cache_directory) {
		s->cache_directory = mem_strdup(options->cache_directory);
		if (!s->cache_directory) {
			mem_free(s);
			return error_nomem(err);
		}
		int r = io_make_dirs(options->cache_directory, 0755, err);
		if (r < 0) {
			mem_free(s->cache_directory);
			mem_free(s);
			return r;
		}
	}
	s->memory_max_bytes = options->memory_max_bytes ? options->memory_max_bytes : SYMBOL_MEMORY_DEFAULT;
	s->no_host_files = options->no_host_files;
	s->debug_directory = SYMBOL_DEBUG_DIRECTORY;
	s->retry_interval_ns = SYMBOL_RETRY_NS_DEFAULT;
	pthread_mutex_init(&s->lock, NULL);
	pthread_mutex_init(&s->build_lock, NULL);
	*ret = s;
	return 0;
}

/* Under the lock. */
static void drop_user(struct shared_table *shared)
{
	if (!shared || --shared->users > 0)
		return;
	symbol_table_free(shared->table);
	mem_free(shared);
}

static struct symbol_entry **find_link(struct symbolizer *s, const char *key)
{
	struct symbol_entry **link = &s->buckets[hash64(key, strlen(key)) % SYMBOL_BUCKETS];
	while (*link && strcmp((*link)->key, key) != 0)
		link = &(*link)->bucket_next;
	return link;
}

static void unlink_by_use(struct symbolizer *s, struct symbol_entry *entry)
{
	*(entry->newer ? &entry->newer->older : &s->newest) = entry->older;
	*(entry->older ? &entry->older->newer : &s->oldest) = entry->newer;
	entry->newer = entry->older = NULL;
}

static void link_newest(struct symbolizer *s, struct symbol_entry *entry)
{
	entry->older = s->newest;
	*(s->newest ? &s->newest->newer : &s->oldest) = entry;
	s->newest = entry;
}

static void set_shared(struct symbolizer *s, struct symbol_entry *entry, struct shared_table *shared)
{
	if (entry->shared) {
		s->stats.tables--;
		s->stats.table_bytes -= entry->shared->table->len;
		drop_user(entry->shared);
	}
	entry->shared = shared;
	if (shared) {
		shared->users++;
		s->stats.tables++;
		s->stats.table_bytes += shared->table->len;
	}
}

static void remove_entry(struct symbolizer *s, struct symbol_entry *entry)
{
	*find_link(s, entry->key) = entry->bucket_next;
	unlink_by_use(s, entry);
	set_shared(s, entry, NULL);
	s->entry_count--;
	mem_free(entry->key);
	mem_free(entry);
}

struct symbolizer *symbolizer_free(struct symbolizer *symbolizer)
{
	if (!symbolizer)
		return NULL;
	while (symbolizer->oldest)
		remove_entry(symbolizer, symbolizer->oldest);
	pthread_mutex_destroy(&symbolizer->lock);
	pthread_mutex_destroy(&symbolizer->build_lock);
	mem_free(symbolizer->cache_directory);
	return mem_free(symbolizer);
}

/* ---- entries ---- */

/* Under the lock: makes room, the least recently used first. Misses cost next to nothing and go when there are too many. */
static void evict(struct symbolizer *s, const struct symbol_entry *keep)
{
	struct symbol_entry *entry = s->oldest;
	while (entry && (s->stats.table_bytes > s->memory_max_bytes || s->entry_count > SYMBOL_ENTRIES_MAX)) {
		struct symbol_entry *newer = entry->newer;
		bool frees = entry->shared ? s->stats.table_bytes > s->memory_max_bytes || s->entry_count > SYMBOL_ENTRIES_MAX
					   : s->entry_count > SYMBOL_ENTRIES_MAX;
		if (entry != keep && frees)
			remove_entry(s, entry);
		entry = newer;
	}
}

/* Under the lock: the entry of a key, made if missing; NULL when memory is short. */
static struct symbol_entry *get_entry(struct symbolizer *s, const char *key)
{
	struct symbol_entry **link = find_link(s, key);
	if (*link)
		return *link;
	struct symbol_entry *entry = mem_zalloc(sizeof(*entry));
	char *copy = mem_strdup(key);
	if (!entry || !copy) {
		mem_free(entry);
		mem_free(copy);
		return NULL;
	}
	entry->key = copy;
	*link = entry;
	link_newest(s, entry);
	s->entry_count++;
	return entry;
}

/* Takes the table over and makes it the entry's (NULL = a miss). *ret_shared (NULL allowed) is counted for the caller. */
static int put_table(struct symbolizer *s, const char *key, struct symbol_table *table, struct shared_table **ret_shared,
		     struct error *err)
{
	struct shared_table *shared = NULL;
	if (table) {
		shared = mem_zalloc(sizeof(*shared));
		if (!shared) {
			symbol_table_free(table);
			return error_nomem(err);
		}
		*shared = (struct shared_table){.table = table, .users = 1};
	}
	pthread_mutex_lock(&s->lock);
	struct symbol_entry *entry = get_entry(s, key);
	if (entry) {
		set_shared(s, entry, shared);
		entry->retry_ns = time_monotonic_ns() + s->retry_interval_ns;
		unlink_by_use(s, entry);
		link_newest(s, entry);
		evict(s, entry);
		/* One larger than all the memory allowed is used this once. */
		if (s->stats.table_bytes > s->memory_max_bytes)
			remove_entry(s, entry);
	}
	if (ret_shared && entry)
		*ret_shared = shared;
	else
		drop_user(shared);
	pthread_mutex_unlock(&s->lock);
	return entry ? 0 : error_nomem(err);
}

enum known {
	KNOWN_NOT, /* nothing is known, or it is time to look again */
	KNOWN_TABLE,
	KNOWN_MISS,
};

/* Nothing better can be had. */
static bool is_complete(const struct symbol_table *table)
{
	return (symbol_table_flags(table) & (SYMBOL_TABLE_HAS_SYMTAB | SYMBOL_TABLE_NO_OFFSETS)) == SYMBOL_TABLE_HAS_SYMTAB;
}

/* What memory knows. *ret_shared is counted for the caller; it may be set with KNOWN_NOT too: the table to improve on. */
static enum known find_in_memory(struct symbolizer *s, const char *key, struct shared_table **ret_shared)
{
	enum known known = KNOWN_NOT;
	*ret_shared = NULL;
	pthread_mutex_lock(&s->lock);
	struct symbol_entry *entry = *find_link(s, key);
	if (entry) {
		unlink_by_use(s, entry);
		link_newest(s, entry);
		if (entry->shared) {
			entry->shared->users++;
			*ret_shared = entry->shared;
		}
		bool complete = entry->shared && is_complete(entry->shared->table);
		if (complete || time_monotonic_ns() < entry->retry_ns)
			known = entry->shared ? KNOWN_TABLE : KNOWN_MISS;
	}
	pthread_mutex_unlock(&s->lock);
	return known;
}

static void release_shared(struct symbolizer *s, struct shared_table *shared)
{
	pthread_mutex_lock(&s->lock);
	drop_user(shared);
	pthread_mutex_unlock(&s->lock);
}

/* ---- finding a table ---- */

/* A path that a profile names, when it can be a file of this host. */
static bool is_host_path(const char *path)
{
	return path[0] == '/' && path[1] != '/' && strlen(path) < SYMBOL_PATH_MAX;
}

static int build_from_path(struct symbolizer *s, const char *build_id, const char *path, struct symbol_table **ret)
{
	_cleanup_(fd_closep) int fd = -1;
	int r = source_open(path, &fd, NULL, NULL);
	return r < 0 ? r : source_build(s, build_id, path, fd, ret, NULL);
}

/* Is it worth while to look for a better table than this one? */
static bool may_improve(struct symbolizer *s, const char *build_id, const struct symbol_table *table)
{
	if (is_complete(table))
		return false;
	return (symbol_table_flags(table) & SYMBOL_TABLE_NO_OFFSETS) || source_has_debug_file(s, build_id);
}

/* Under the build lock: a better table than `old` (which may be NULL), from disk or files. -ENOENT when there is none; -ENOMEM.
 */
static int make_table(struct symbolizer *s, const char *build_id, const char *path, const struct symbol_table *old,
		      struct symbol_table **ret, struct error *err)
{
	struct symbol_table *table = NULL;
	int r = old ? -ENOENT : source_load_cached(s, build_id, &table, NULL);
	if (r == -ENOMEM)
		return error_nomem(err);
	if (r == 0) {
		pthread_mutex_lock(&s->lock);
		s->stats.cache_hits++;
		pthread_mutex_unlock(&s->lock);
	}
	const struct symbol_table *have = table ? table : old;
	if (have && !may_improve(s, build_id, have)) {
		*ret = table;
		return table ? 0 : -ENOENT;
	}
	struct symbol_table *built = NULL;
	r = -ENOENT;
	if (!s->no_host_files && is_host_path(path))
		r = build_from_path(s, build_id, path, &built);
	/* A debug file alone knows less than what there is. */
	if (r < 0 && r != -ENOMEM && !have)
		r = source_build_debug(s, build_id, &built, NULL);
	if (r == 0) {
		source_store(s, build_id, built);
		symbol_table_free(table);
		*ret = built;
		return 0;
	}
	*ret = table;
	if (table)
		return 0;
	return r == -ENOMEM ? error_nomem(err) : -ENOENT;
}

/* The table of a build-id, counted for the caller, or NULL. An error only when memory is short. */
static int acquire_build_id(struct symbolizer *s, const char *build_id, const char *path, struct shared_table **ret,
			    struct error *err)
{
	if (find_in_memory(s, build_id, ret) != KNOWN_NOT)
		return 0;
	release_shared(s, *ret);
	pthread_mutex_lock(&s->build_lock);
	int r = 0;
	/* Somebody else may have built it meanwhile. */
	if (find_in_memory(s, build_id, ret) == KNOWN_NOT) {
		struct shared_table *old = *ret;
		struct symbol_table *table = NULL;
		r = make_table(s, build_id, path, old ? old->table : NULL, &table, err);
		if (r == 0 || (r == -ENOENT && !old)) {
			release_shared(s, old);
			*ret = NULL;
			r = put_table(s, build_id, table, ret, err);
		} else if (r == -ENOENT) {
			pthread_mutex_lock(&s->lock);
			struct symbol_entry *entry = *find_link(s, build_id);
			if (entry)
				entry->retry_ns = time_monotonic_ns() + s->retry_interval_ns;
			pthread_mutex_unlock(&s->lock);
			r = 0;
		} else {
			release_shared(s, old);
			*ret = NULL;
		}
	}
	pthread_mutex_unlock(&s->build_lock);
	return r;
}

/* A binary without a build-id: the file that its path leads to, now, on this host. */
static int acquire_path(struct symbolizer *s, const char *path, struct shared_table **ret, struct error *err)
{
	*ret = NULL;
	_cleanup_(fd_closep) int fd = -1;
	struct stat st;
	if (s->no_host_files || !is_host_path(path) || source_open(path, &fd, &st, NULL) < 0)
		return 0;
	char key[160];
	snprintf(key, sizeof(key), "file:%" PRIx64 ":%" PRIx64 ":%" PRIx64 ":%" PRIx64 ".%lx", (uint64_t)st.st_dev,
		 (uint64_t)st.st_ino, (uint64_t)st.st_size, (uint64_t)st.st_mtim.tv_sec, (unsigned long)st.st_mtim.tv_nsec);
	enum known known = find_in_memory(s, key, ret);
	if (known == KNOWN_MISS || *ret)
		return 0;
	pthread_mutex_lock(&s->build_lock);
	int r = 0;
	if (find_in_memory(s, key, ret) != KNOWN_MISS && !*ret) {
		struct symbol_table *table = NULL;
		r = source_build(s, "", path, fd, &table, NULL);
		r = r == -ENOMEM ? error_nomem(err) : put_table(s, key, table, ret, err);
	}
	pthread_mutex_unlock(&s->build_lock);
	return r;
}

/* ---- the public side ---- */

static int check_build_id(const char *build_id, struct error *err)
{
	if (build_id_is_valid(build_id))
		return 0;
	return error_set(err, -EINVAL, "'%.140s' is no build-id: expected 2 to 128 lower-case hex digits", build_id);
}

bool symbolizer_has(struct symbolizer *symbolizer, const char *build_id)
{
	struct shared_table *shared;
	if (!build_id_is_valid(build_id))
		return false;
	find_in_memory(symbolizer, build_id, &shared);
	if (!shared) {
		pthread_mutex_lock(&symbolizer->build_lock);
		struct symbol_table *table;
		if (source_load_cached(symbolizer, build_id, &table, NULL) == 0)
			put_table(symbolizer, build_id, table, &shared, NULL);
		pthread_mutex_unlock(&symbolizer->build_lock);
	}
	bool has = shared && !(symbol_table_flags(shared->table) & SYMBOL_TABLE_NO_OFFSETS);
	if (shared)
		release_shared(symbolizer, shared);
	return has;
}

int symbolizer_offer(struct symbolizer *symbolizer, const char *build_id, const char *path, int fd, struct error *err)
{
	int r = check_build_id(build_id, err);
	if (r < 0 || symbolizer_has(symbolizer, build_id))
		return r;
	pthread_mutex_lock(&symbolizer->build_lock);
	struct symbol_table *table;
	r = source_build(symbolizer, build_id, path, fd, &table, err);
	if (r == 0) {
		source_store(symbolizer, build_id, table);
		r = put_table(symbolizer, build_id, table, NULL, err);
	}
	pthread_mutex_unlock(&symbolizer->build_lock);
	return r;
}

void symbolizer_get_stats(struct symbolizer *symbolizer, struct symbolizer_stats *ret)
{
	pthread_mutex_lock(&symbolizer->lock);
	*ret = symbolizer->stats;
	pthread_mutex_unlock(&symbolizer->lock);
}

int symbolizer_acquire(struct symbolizer *symbolizer, const char *build_id, const char *path, struct shared_table **ret,
		       struct error *err)
{
	*ret = NULL;
	if (build_id[0])
		return build_id_is_valid(build_id) ? acquire_build_id(symbolizer, build_id, path, ret, err) : 0;
	return acquire_path(symbolizer, path, ret, err);
}

void symbolizer_release(struct symbolizer *symbolizer, struct shared_table *shared, uint64_t lookups, uint64_t hits)
{
	pthread_mutex_lock(&symbolizer->lock);
	symbolizer->stats.lookups += lookups;
	symbolizer->stats.hits += hits;
	drop_user(shared);
	pthread_mutex_unlock(&symbolizer->lock);
}
