/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is remembered of binaries: found by key, ordered by last use, and those that wait for a worker in two queues. Those that
 * somebody has asked for go before those that were only seen; of the asked for, the newest first, since that is what is being
 * looked at.
 *
 * When the mapped tables pass the memory limit the least recently used ones are unmapped; a table in use is counted and
 * outlives that; the one that is asked for stays however large it is. When there are too many entries, the least recently used
 * go that nobody works on.
 */
#include <string.h>

#include "base/alloc.h"
#include "base/hash.h"
#include "base/io.h"
#include "base/time.h"
#include "symbol/symbol_int.h"
#include "symbol/use_order.h"

void entries_set_text(char **text, const char *value)
{
	mem_free(*text);
	*text = value && value[0] ? mem_strdup(value) : NULL;
}

void entries_drop_user(struct shared_table *shared)
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

void entries_touch(struct symbolizer *s, struct symbol_entry *entry)
{
	if (s->newest == entry)
		return;
	use_order_remove(s, entry);
	use_order_add(s, entry);
}

struct symbol_entry *entries_find(struct symbolizer *s, const char *key)
{
	return *find_link(s, key);
}

struct symbol_entry *entries_find_go_id(struct symbolizer *s, const struct symbol_entry *entry)
{
	struct symbol_entry *other = s->newest;
	while (other && (other == entry || !other->go_id || strcmp(other->go_id, entry->go_id) != 0))
		other = other->older;
	return other;
}

static void set_shared(struct symbolizer *s, struct symbol_entry *entry, struct shared_table *shared)
{
	if (entry->shared) {
		s->stats.tables--;
		s->stats.table_bytes -= entry->shared->table->len;
		entries_drop_user(entry->shared);
	}
	entry->shared = shared;
	if (shared) {
		s->stats.tables++;
		s->stats.table_bytes += shared->table->len;
	}
}

static void remove_entry(struct symbolizer *s, struct symbol_entry *entry)
{
	*find_link(s, entry->key) = entry->bucket_next;
	use_order_remove(s, entry);
	entries_unqueue(s, entry);
	set_shared(s, entry, NULL);
	if (entry->offered_fd >= 0)
		s->offers--;
	io_close(entry->offered_fd);
	s->entry_count--;
	contents_free(entry);
	mem_free(entry->key);
	mem_free(entry->path);
	mem_free(entry->why);
	mem_free(entry->from);
	mem_free(entry->lacks);
	mem_free(entry->go_id);
	mem_free(entry);
}

void entries_free_all(struct symbolizer *s)
{
	while (s->oldest)
		remove_entry(s, s->oldest);
}

static bool is_idle(const struct symbol_entry *entry)
{
	return entry->state != SYMBOL_WORKING && entry->queue == SYMBOL_QUEUE_NONE;
}

#define STEPS_MAX 64

/* Makes room for one more: instead of the least recently used one, or of one that nobody asked for and that waits the longest,
 * so that build-ids that somebody made up shut nobody out. False when all are busy. */
static bool make_room(struct symbolizer *s)
{
	struct symbol_entry *entry = s->oldest;
	if (s->entry_count < s->entries_max)
		return true;
	for (struct symbol_entry *next; s->entry_count > s->entries_max && entry && is_idle(entry); entry = next) {
		next = entry->newer; /* the limit was lowered */
		remove_entry(s, entry);
	}
	entry = s->oldest;
	for (unsigned i = 0; i < STEPS_MAX && entry && !is_idle(entry); i++)
		entry = entry->newer;
	if (!entry || !is_idle(entry))
		entry = s->first[SYMBOL_QUEUE_SEEN];
	if (!entry) {
		s->stats.refused++;
		return false;
	}
	remove_entry(s, entry);
	return true;
}

/* A path that no file of a host can have is as good as none, and may be megabytes long. */
static const char *usable_path(const char *path)
{
	return path && strnlen(path, SYMBOL_PATH_MAX) < SYMBOL_PATH_MAX ? path : "";
}

#define PATHS_MAX 4

/*
 * Where else the binary may be: releases in directories of their own, containers. One that has no table yet is looked for
 * there, the first few times at once; whoever sends ever other paths has it looked for as often as any other.
 */
static void note_path(struct symbolizer *s, struct symbol_entry *entry, const char *path)
{
	if (!path[0] || (entry->path && strcmp(entry->path, path) == 0))
		return;
	if (entry->path && entry->was_built && entry->sources)
		return;
	bool is_other = entry->path;
	entries_set_text(&entry->path, path);
	if (!is_other || !entry->was_built)
		return;
	int64_t soon = time_monotonic_ns() + s->retry_interval_ns;
	if (entry->path_changes < PATHS_MAX) {
		entry->path_changes++;
		soon = 0;
	}
	if (entry->retry_ns > soon)
		entry->retry_ns = soon;
}

struct symbol_entry *entries_get(struct symbolizer *s, const char *key, const char *path)
{
	struct symbol_entry *entry = entries_find(s, key);
	path = usable_path(path);
	if (entry) {
		note_path(s, entry, path);
		return entry;
	}
	if (!make_room(s))
		return NULL;
	entry = mem_zalloc(sizeof(*entry));
	char *copy = mem_strdup(key);
	if (entry)
		entries_set_text(&entry->path, path);
	if (!entry || !copy || (path[0] && !entry->path)) {
		mem_free(entry ? entry->path : NULL);
		mem_free(entry);
		mem_free(copy);
		return NULL;
	}
	entry->key = copy;
	entry->offered_fd = -1;
	entry->by_content = strncmp(key, SYMBOL_CONTENT_PREFIX, strlen(SYMBOL_CONTENT_PREFIX)) == 0;
	entry->by_path = entry->by_content || strncmp(key, "file:", 5) == 0;
	struct symbol_entry **link = find_link(s, key);
	entry->bucket_next = *link;
	*link = entry;
	use_order_add(s, entry);
	s->entry_count++;
	return entry;
}

void entries_set_header(struct symbol_entry *entry, const struct symbol_table_header *header)
{
	entry->was_built = true;
	entry->sources = header->sources;
	entry->no_offsets = header->flags & SYMBOL_TABLE_NO_OFFSETS;
	entry->incomplete = header->flags & SYMBOL_TABLE_INCOMPLETE;
	entry->is_earlier = true;
	entry->names_kernel = symbol_table_names_kernel(header);
	entry->state = symbol_has_lines(header->sources) ? SYMBOL_COMPLETE : SYMBOL_PARTIAL;
	entry->functions = header->function_count;
	entry->ranges = header->range_count;
	entry->rows = (uint64_t)header->block_count * SYMBOL_TABLE_BLOCK_ROWS;
	entry->table_bytes = header->length;
}

void entries_set_table(struct symbolizer *s, struct symbol_entry *entry, struct shared_table *shared)
{
	set_shared(s, entry, shared);
	entries_touch(s, entry);
	entries_unmap_excess(s, entry);
}

void entries_unmap_excess(struct symbolizer *s, const struct symbol_entry *kept)
{
	for (struct symbol_entry *old = s->oldest; old && s->stats.table_bytes > s->memory_max_bytes; old = old->newer)
		if (old != kept && old->shared) {
			set_shared(s, old, NULL);
			old->disk_checked = false;
		}
}

/* ---- queues ---- */

void entries_unqueue(struct symbolizer *s, struct symbol_entry *entry)
{
	if (entry->queue == SYMBOL_QUEUE_NONE)
		return;
	*(entry->queue_before ? &entry->queue_before->queue_after : &s->first[entry->queue]) = entry->queue_after;
	*(entry->queue_after ? &entry->queue_after->queue_before : &s->last[entry->queue]) = entry->queue_before;
	entry->queue_before = entry->queue_after = NULL;
	entry->queue = SYMBOL_QUEUE_NONE;
	s->stats.waiting--;
}

void entries_enqueue(struct symbolizer *s, struct symbol_entry *entry, enum symbol_queue queue)
{
	if (entry->queue == queue || entry->queue == SYMBOL_QUEUE_REQUESTED)
		return;
	entries_unqueue(s, entry);
	entry->queue = queue;
	if (queue == SYMBOL_QUEUE_REQUESTED) {
		entry->queue_after = s->first[queue];
		*(s->first[queue] ? &s->first[queue]->queue_before : &s->last[queue]) = entry;
		s->first[queue] = entry;
	} else {
		entry->queue_before = s->last[queue];
		*(s->last[queue] ? &s->last[queue]->queue_after : &s->first[queue]) = entry;
		s->last[queue] = entry;
	}
	s->stats.waiting++;
	pthread_cond_signal(&s->work);
}

struct symbol_entry *entries_dequeue(struct symbolizer *s)
{
	struct symbol_entry *entry =
		s->first[SYMBOL_QUEUE_REQUESTED] ? s->first[SYMBOL_QUEUE_REQUESTED] : s->first[SYMBOL_QUEUE_SEEN];
	if (entry)
		entries_unqueue(s, entry);
	return entry;
}
