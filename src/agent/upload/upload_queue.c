/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/upload/upload_queue.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"

enum state { ASK, IN_QUESTION, SEND, SENDING };

struct entry {
	char *build_id, *path;
	int64_t due_ns;
	pid_t pid;
	int fd;
	unsigned tries;
	enum upload_what what;
	enum file_id_type id_type;
	char content[CONTENT_KEY_HEX]; /* "" = not known */
	uint64_t code;
	enum state state;
	bool settled; /* asked for and answered: waits for its next hour */
};

struct upload_queue {
	pthread_mutex_t lock;
	struct entry *entries;
	size_t count, capacity, files;
	uint64_t refused;
};

int upload_queue_new(struct upload_queue **ret, struct error *err)
{
	struct upload_queue *queue = mem_zalloc(sizeof(*queue));
	if (!queue)
		return error_nomem(err);
	pthread_mutex_init(&queue->lock, NULL);
	*ret = queue;
	return 0;
}

/* ---- entries; the lock is held ---- */

static void close_file(struct upload_queue *queue, struct entry *entry)
{
	queue->files -= entry->fd >= 0;
	fd_closep(&entry->fd);
}

static void release_entry(struct upload_queue *queue, struct entry *entry)
{
	close_file(queue, entry);
	mem_free(entry->build_id);
	mem_free(entry->path);
}

struct upload_queue *upload_queue_free(struct upload_queue *queue)
{
	if (!queue)
		return NULL;
	for (size_t i = 0; i < queue->count; i++)
		release_entry(queue, &queue->entries[i]);
	mem_free(queue->entries);
	pthread_mutex_destroy(&queue->lock);
	return mem_free(queue);
}

/* The entry of exactly that file. */
static struct entry *find(struct upload_queue *queue, const struct upload_key *key)
{
	for (size_t i = 0; i < queue->count; i++) {
		struct entry *entry = &queue->entries[i];
		if (entry->id_type == key->id_type && strcmp(entry->build_id, key->id) == 0 &&
		    strcmp(entry->content, key->content ? key->content : "") == 0)
			return entry;
	}
	return NULL;
}

static struct upload_key key_of(const struct entry *entry)
{
	return (struct upload_key){
		.id_type = entry->id_type, .id = entry->build_id, .content = entry->content, .code = entry->code};
}

/* Room for one more: at the end, or in place of what was settled longest ago. */
static struct entry *make_room(struct upload_queue *queue)
{
	if (queue->count < UPLOAD_QUEUE_ENTRIES_MAX) {
		if (array_reserve(&queue->entries, &queue->capacity, queue->count + 1, UPLOAD_QUEUE_ENTRIES_MAX) < 0)
			return NULL;
		return &queue->entries[queue->count++];
	}
	struct entry *oldest = NULL;
	for (size_t i = 0; i < queue->count; i++) {
		struct entry *entry = &queue->entries[i];
		if (entry->settled && entry->state == ASK && (!oldest || entry->due_ns < oldest->due_ns))
			oldest = entry;
	}
	if (oldest)
		release_entry(queue, oldest);
	return oldest;
}

static int add(struct upload_queue *queue, const struct entry *entry)
{
	const struct upload_key key = key_of(entry);
	if (find(queue, &key))
		return -EEXIST;
	struct entry *place = make_room(queue);
	if (!place)
		return queue->count < UPLOAD_QUEUE_ENTRIES_MAX ? -ENOMEM : -ENOSPC;
	*place = *entry;
	return 0;
}

int upload_queue_add(struct upload_queue *queue, enum upload_what what, const struct upload_key *key, const char *path,
		     pid_t pid, int fd)
{
	struct entry entry = {.what = what, .id_type = key->id_type, .code = key->code, .pid = pid, .fd = -1};
	if (!build_id_is_valid(key->id))
		return 0;
	if (key->content && content_key_is_valid(key->content))
		memcpy(entry.content, key->content, sizeof(entry.content));
	entry.build_id = mem_strdup(key->id);
	entry.path = mem_strdup(path);
	int r = entry.build_id && entry.path ? 0 : -ENOMEM;
	pthread_mutex_lock(&queue->lock);
	if (r == 0 && fd >= 0 && queue->files < UPLOAD_QUEUE_FILES_MAX && !find(queue, key)) {
		entry.fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
		queue->files += entry.fd >= 0;
	}
	if (r == 0)
		r = add(queue, &entry);
	queue->refused += r == -ENOSPC;
	if (r < 0)
		release_entry(queue, &entry);
	pthread_mutex_unlock(&queue->lock);
	return r == -EEXIST ? 0 : r;
}

void upload_queue_clear(struct upload_queue *queue)
{
	pthread_mutex_lock(&queue->lock);
	for (size_t i = 0; i < queue->count; i++)
		release_entry(queue, &queue->entries[i]);
	queue->count = 0;
	pthread_mutex_unlock(&queue->lock);
}

/* ---- asking ---- */

size_t upload_queue_ask(struct upload_queue *queue, int64_t now_ns, size_t max, upload_queue_visitor *visit, void *context)
{
	size_t count = 0;
	pthread_mutex_lock(&queue->lock);
	for (size_t i = 0; i < queue->count && count < max; i++) {
		struct entry *entry = &queue->entries[i];
		if (entry->state != ASK || entry->due_ns > now_ns)
			continue;
		entry->state = IN_QUESTION;
		const struct upload_key key = key_of(entry);
		visit(context, entry->what, &key, entry->path);
		count++;
	}
	pthread_mutex_unlock(&queue->lock);
	return count;
}

static void settle(struct upload_queue *queue, struct entry *entry, bool keep, int64_t due_ns)
{
	entry->state = ASK;
	entry->settled = !keep;
	entry->due_ns = due_ns;
	if (!keep)
		close_file(queue, entry);
}

static struct entry *find_in_question(struct upload_queue *queue, const char *build_id)
{
	for (size_t i = 0; i < queue->count; i++) {
		struct entry *entry = &queue->entries[i];
		if (entry->state == IN_QUESTION && strcmp(entry->build_id, build_id) == 0)
			return entry;
	}
	return NULL;
}

void upload_queue_answer(struct upload_queue *queue, const struct upload_key *key, bool wanted, int64_t due_ns)
{
	pthread_mutex_lock(&queue->lock);
	bool is_exact = key->content && key->content[0];
	struct entry *entry = find(queue, key);
	if (!is_exact && (!entry || entry->state != IN_QUESTION))
		entry = find_in_question(queue, key->id);
	if (entry && entry->state == IN_QUESTION) {
		settle(queue, entry, true, due_ns);
		if (wanted)
			entry->state = SEND;
	}
	pthread_mutex_unlock(&queue->lock);
}

void upload_queue_answer_rest(struct upload_queue *queue, bool keep, int64_t due_ns)
{
	pthread_mutex_lock(&queue->lock);
	for (size_t i = 0; i < queue->count; i++) {
		if (queue->entries[i].state == IN_QUESTION)
			settle(queue, &queue->entries[i], keep, due_ns);
	}
	pthread_mutex_unlock(&queue->lock);
}

/* ---- sending ---- */

static void take(struct upload_queue *queue, struct entry *entry, struct upload_item *ret)
{
	*ret = (struct upload_item){.what = entry->what,
				    .id_type = entry->id_type,
				    .path = entry->path,
				    .pid = entry->pid,
				    .fd = entry->fd,
				    .tries = entry->tries};
	memcpy(ret->content, entry->content, sizeof(ret->content));
	snprintf(ret->build_id, sizeof(ret->build_id), "%s", entry->build_id);
	queue->files -= entry->fd >= 0;
	entry->fd = -1;
	entry->state = SENDING;
}

/* The kernel's list is small, and every profile waits for it. */
static bool is_before(const struct entry *a, const struct entry *b)
{
	return a->what != b->what ? a->what == UPLOAD_KERNEL : a->due_ns < b->due_ns;
}

bool upload_queue_take(struct upload_queue *queue, int64_t now_ns, struct upload_item *ret)
{
	struct entry *best = NULL;
	bool taken = false;
	pthread_mutex_lock(&queue->lock);
	for (size_t i = 0; i < queue->count; i++) {
		struct entry *entry = &queue->entries[i];
		if (entry->state == SEND && entry->due_ns <= now_ns && (!best || is_before(entry, best)))
			best = entry;
	}
	char *path = best ? mem_strdup(best->path) : NULL;
	if (path) {
		take(queue, best, ret);
		ret->path = path;
		taken = true;
	}
	pthread_mutex_unlock(&queue->lock);
	return taken;
}

void upload_queue_done(struct upload_queue *queue, struct upload_item *item, enum upload_outcome outcome, int64_t due_ns)
{
	const struct upload_key key = {.id_type = item->id_type, .id = item->build_id, .content = item->content};
	pthread_mutex_lock(&queue->lock);
	struct entry *entry = find(queue, &key);
	if (entry && entry->state == SENDING) {
		entry->tries = outcome == UPLOAD_FAILED ? item->tries + 1 : 0;
		if (outcome != UPLOAD_DONE && item->fd >= 0 && queue->files < UPLOAD_QUEUE_FILES_MAX) {
			entry->fd = fd_take(&item->fd);
			queue->files++;
		}
		settle(queue, entry, outcome != UPLOAD_DONE, due_ns);
		if (outcome == UPLOAD_FAILED)
			entry->state = SEND;
	}
	pthread_mutex_unlock(&queue->lock);
	fd_closep(&item->fd);
	item->path = mem_free(item->path);
}

bool upload_queue_is_settled(struct upload_queue *queue, const struct upload_key *key)
{
	pthread_mutex_lock(&queue->lock);
	const struct entry *entry = find(queue, key);
	bool is_settled = entry && entry->settled && (entry->state == ASK || entry->state == IN_QUESTION);
	pthread_mutex_unlock(&queue->lock);
	return is_settled;
}

void upload_queue_next(struct upload_queue *queue, int64_t *ret_ask_ns, int64_t *ret_send_ns)
{
	*ret_ask_ns = *ret_send_ns = UPLOAD_NEVER;
	pthread_mutex_lock(&queue->lock);
	for (size_t i = 0; i < queue->count; i++) {
		const struct entry *entry = &queue->entries[i];
		int64_t *next = entry->state == ASK ? ret_ask_ns : entry->state == SEND ? ret_send_ns : NULL;
		if (next && entry->due_ns < *next)
			*next = entry->due_ns;
	}
	pthread_mutex_unlock(&queue->lock);
}

void upload_queue_get_stats(struct upload_queue *queue, struct upload_queue_stats *ret)
{
	pthread_mutex_lock(&queue->lock);
	*ret = (struct upload_queue_stats){.entries = queue->count, .files = queue->files, .refused = queue->refused};
	for (size_t i = 0; i < queue->count; i++)
		ret->wanted += queue->entries[i].state == SEND || queue->entries[i].state == SENDING;
	pthread_mutex_unlock(&queue->lock);
}
