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
	entry->fd = -1;
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

static struct entry *find(struct upload_queue *queue, const char *build_id)
{
	for (size_t i = 0; i < queue->count; i++) {
		if (strcmp(queue->entries[i].build_id, build_id) == 0)
			return &queue->entries[i];
	}
	return NULL;
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
	if (find(queue, entry->build_id))
		return -EEXIST;
	struct entry *place = make_room(queue);
	if (!place)
		return queue->count < UPLOAD_QUEUE_ENTRIES_MAX ? -ENOMEM : -ENOSPC;
	*place = *entry;
	return 0;
}

int upload_queue_add(struct upload_queue *queue, enum upload_what what, const char *build_id, const char *path, pid_t pid,
		     int fd)
{
	struct entry entry = {.what = what, .pid = pid, .fd = -1};
	if (!build_id_is_valid(build_id))
		return 0;
	entry.build_id = mem_strdup(build_id);
	entry.path = mem_strdup(path);
	int r = entry.build_id && entry.path ? 0 : -ENOMEM;
	pthread_mutex_lock(&queue->lock);
	if (r == 0 && fd >= 0 && queue->files < UPLOAD_QUEUE_FILES_MAX && !find(queue, build_id)) {
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

size_t upload_queue_ask(struct upload_queue *queue, int64_t now_ns, size_t max,
			void (*visit)(void *context, enum upload_what what, const char *build_id, const char *path),
			void *context)
{
	size_t count = 0;
	pthread_mutex_lock(&queue->lock);
	for (size_t i = 0; i < queue->count && count < max; i++) {
		struct entry *entry = &queue->entries[i];
		if (entry->state != ASK || entry->due_ns > now_ns)
			continue;
		entry->state = IN_QUESTION;
		visit(context, entry->what, entry->build_id, entry->path);
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

void upload_queue_answer(struct upload_queue *queue, const char *build_id, bool wanted, int64_t due_ns)
{
	pthread_mutex_lock(&queue->lock);
	struct entry *entry = find(queue, build_id);
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
	*ret = (struct upload_item){
		.what = entry->what, .path = entry->path, .pid = entry->pid, .fd = entry->fd, .tries = entry->tries};
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
	pthread_mutex_lock(&queue->lock);
	struct entry *entry = find(queue, item->build_id);
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
	item->fd = -1;
}

bool upload_queue_is_settled(struct upload_queue *queue, const char *build_id)
{
	pthread_mutex_lock(&queue->lock);
	const struct entry *entry = find(queue, build_id);
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
