/* SPDX-License-Identifier: Apache-2.0 */
/*
 * DIRECTORY/ID.json.gz for each: the answer, with a note (noted_file.h) that has
 *
 *   version 1, id, made_ns, title, call, query, type, from_ns, to_ns, partial    struct snapshot
 *
 * What is known of them is in memory, from the files themselves, the oldest first; there is no index on disk that could
 * disagree with them. Files are written and read without the lock: one comes into the table when it is on disk, and one that
 * goes while it is read is not found.
 *
 * Room is made when a new one is there, not before: a disk that is full must not cost old ones for nothing. So there may be
 * more than allowed for a moment, by as many as are written at a time, and a start that finds more removes them.
 */
#include "server/stores/snapshots.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <limits.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/io.h"
#include "base/order.h"
#include "base/text.h"
#include "base/thread.h"
#include "codec/input.h"
#include "codec/json.h"
#include "control/protocol.h"

#define ID_BYTES 16

struct snapshots {
	struct snapshots_options options;
	char *directory;
	pthread_mutex_t lock;
	struct snapshot *items; /* as they were made */
	size_t count, capacity;
	struct snapshots_stats stats;
};

int snapshot_make_id(char out[static SNAPSHOT_ID_SIZE], struct error *err)
{
	return control_make_id(out, ID_BYTES, err);
}

bool snapshot_id_is_valid(const char *id)
{
	return strlen(id) == SNAPSHOT_ID_SIZE - 1 && strspn(id, "0123456789abcdef") == SNAPSHOT_ID_SIZE - 1;
}

/* ---- notes ---- */

static void write_note(struct json_writer *json, const void *of)
{
	const struct snapshot *snapshot = of;
	json_member_cstring(json, "id", snapshot->id);
	json_member_int(json, "made_ns", snapshot->made_ns);
	json_member_cstring(json, "title", snapshot->title);
	json_member_cstring(json, "call", snapshot->call);
	json_member_cstring(json, "query", snapshot->query);
	json_member_cstring(json, "type", snapshot->type);
	json_member_int(json, "from_ns", snapshot->from_ns);
	json_member_int(json, "to_ns", snapshot->to_ns);
	json_member_bool(json, "partial", snapshot->is_partial);
	json_member_uint(json, "bytes", snapshot->content.bytes);
	json_member_cstring(json, "hash", snapshot->content.hash);
}

static bool read_note(const json_t *root, void *to)
{
	struct snapshot *ret = to;
	const json_t *partial = json_object_get(root, "partial");
	int64_t bytes;
	*ret = (struct snapshot){.is_partial = json_is_true(partial)};
	if (!noted_text(root, "id", ret->id, sizeof(ret->id)) || !snapshot_id_is_valid(ret->id) ||
	    !noted_number(root, "made_ns", 0, INT64_MAX, &ret->made_ns) ||
	    !noted_text(root, "title", ret->title, sizeof(ret->title)) ||
	    !noted_text(root, "call", ret->call, sizeof(ret->call)) ||
	    !noted_text(root, "query", ret->query, sizeof(ret->query)) ||
	    !noted_text(root, "type", ret->type, sizeof(ret->type)) ||
	    !noted_number(root, "from_ns", INT64_MIN, INT64_MAX, &ret->from_ns) ||
	    !noted_number(root, "to_ns", INT64_MIN, INT64_MAX, &ret->to_ns) || !json_is_boolean(partial) ||
	    !noted_number(root, "bytes", 1, INT64_MAX / 2 - 1, &bytes) ||
	    !noted_text(root, "hash", ret->content.hash, sizeof(ret->content.hash)) || !snapshot_id_is_valid(ret->content.hash))
		return false;
	ret->content.bytes = (uint64_t)bytes;
	return true;
}

const struct noted_form snapshot_form = {.torn = "an incomplete snapshot file",
					 .content = offsetof(struct snapshot, content),
					 .write = write_note,
					 .read = read_note};

static int path_of(const struct snapshots *snapshots, const char *id, char out[static PATH_MAX], struct error *err)
{
	int len = snprintf(out, PATH_MAX, "%s/%s" NOTED_ENDING, snapshots->directory, id);
	return len < PATH_MAX ? 0 : error_set(err, -ENAMETOOLONG, "the path of the directory for snapshots is too long");
}

static int not_there(const char *id, struct error *err)
{
	return error_set(err, -ENOENT, "no snapshot '%.40s': it never existed, was removed, or was deleted to free space", id);
}

/* ---- the table; with the lock ---- */

/* The place of the id, or the count. */
static size_t find_place(const struct snapshots *snapshots, const char *id)
{
	size_t i = 0;
	while (i < snapshots->count && strcmp(snapshots->items[i].id, id) != 0)
		i++;
	return i;
}

/* As the newest, also if the clock was set back: the one that was made just now is not the one to go. */
static int append(struct snapshots *snapshots, const struct snapshot *snapshot)
{
	if (array_reserve(&snapshots->items, &snapshots->capacity, snapshots->count + 1, SIZE_MAX) < 0)
		return -ENOMEM;
	snapshots->items[snapshots->count++] = *snapshot;
	snapshots->stats.bytes += snapshot->bytes;
	return 0;
}

static void take_out(struct snapshots *snapshots, size_t first, size_t count)
{
	for (size_t i = first; i < first + count; i++)
		snapshots->stats.bytes -= snapshots->items[i].bytes;
	if (count) /* or there may be no array */
		memmove(snapshots->items + first, snapshots->items + first + count,
			(snapshots->count - first - count) * sizeof(*snapshots->items));
	snapshots->count -= count;
}

static void remove_file(const struct snapshots *snapshots, const char *id)
{
	char path[PATH_MAX];
	if (path_of(snapshots, id, path, NULL) == 0)
		noted_remove(&snapshots->options.problems, path);
}

static void make_room(struct snapshots *snapshots, int64_t now_ns)
{
	const struct snapshots_options *options = &snapshots->options;
	uint64_t bytes = snapshots->stats.bytes;
	size_t gone = 0;
	for (; gone < snapshots->count; gone++) {
		const struct snapshot *oldest = &snapshots->items[gone];
		bool is_old = options->age_ns > 0 && now_ns - oldest->made_ns > options->age_ns;
		if (!is_old && bytes <= options->bytes_max && snapshots->count - gone <= options->count_max)
			break;
		bytes -= oldest->bytes;
		remove_file(snapshots, oldest->id);
	}
	snapshots->stats.evicted += gone;
	take_out(snapshots, 0, gone);
}

static void set_aside(struct snapshots *snapshots, const char *path, const char *why)
{
	snapshots->stats.torn++;
	noted_set_aside(&snapshots->options.problems, path, why);
}

/* ---- putting, finding, reading, removing ---- */

static int write_file(const struct snapshots *snapshots, struct snapshot *snapshot, struct bytes gzip, struct error *err)
{
	_cleanup_(buffer_release) struct buffer header = {.max = NOTED_HEADER_MAX};
	uint64_t most = snapshots->options.bytes_max / SNAPSHOTS_SHARE;
	struct bytes rest;
	char path[PATH_MAX], size[TEXT_NUMBER_MAX], allowed[TEXT_NUMBER_MAX];
	int r = noted_write_header(&snapshot_form, snapshot, gzip, &header, &rest, err);
	snapshot->bytes = r < 0 ? 0 : header.len + rest.len;
	if (r == 0 && snapshot->bytes > most)
		r = error_set(err, -E2BIG, "the snapshot has %s, more than the limit of %s: a quarter of snapshots.size",
			      text_format_size(snapshot->bytes, size), text_format_size(most, allowed));
	if (r == 0)
		r = path_of(snapshots, snapshot->id, path, err);
	return r < 0 ? r : noted_put(path, buffer_bytes(&header), rest, err);
}

int snapshots_put(struct snapshots *snapshots, struct snapshot *snapshot, struct bytes gzip, int64_t now_ns, struct error *err)
{
	int r = write_file(snapshots, snapshot, gzip, err);
	THREAD_LOCK_SCOPE(&snapshots->lock);
	if (r == 0 && append(snapshots, snapshot) < 0)
		r = error_nomem(err);
	if (r < 0) /* it may have its name already: it must not exist after a restart, because no client has its id */
		remove_file(snapshots, snapshot->id);
	snapshots->stats.made += r == 0;
	snapshots->stats.refused += r < 0;
	if (r == 0)
		make_room(snapshots, now_ns);
	return r;
}

int snapshots_list(struct snapshots *snapshots, int64_t now_ns, size_t offset, size_t limit, struct snapshot **ret,
		   size_t *ret_count, size_t *ret_total, struct error *err)
{
	pthread_mutex_lock(&snapshots->lock);
	make_room(snapshots, now_ns);
	size_t total = snapshots->count, left = offset < total ? total - offset : 0, count = left < limit ? left : limit;
	struct snapshot *copies = mem_alloc_array(count + 1, sizeof(*copies));
	for (size_t i = 0; copies && i < count; i++)
		copies[i] = snapshots->items[total - 1 - offset - i];
	pthread_mutex_unlock(&snapshots->lock);
	if (!copies)
		return error_nomem(err);
	*ret = copies;
	*ret_count = count;
	*ret_total = total;
	return 0;
}

int snapshots_find(struct snapshots *snapshots, const char *id, int64_t now_ns, struct snapshot *ret, struct error *err)
{
	THREAD_LOCK_SCOPE(&snapshots->lock);
	make_room(snapshots, now_ns);
	size_t place = find_place(snapshots, id);
	bool is_there = place < snapshots->count;
	if (is_there)
		*ret = snapshots->items[place];
	return is_there ? 0 : not_there(id, err);
}

/* Others may have found the same, and it may have gone in between. */
static void drop_damaged(struct snapshots *snapshots, const char *id, const char *path, const char *why)
{
	THREAD_LOCK_SCOPE(&snapshots->lock);
	size_t place = find_place(snapshots, id);
	if (place < snapshots->count) {
		set_aside(snapshots, path, why);
		take_out(snapshots, place, 1);
	}
}

int snapshots_read(struct snapshots *snapshots, const char *id, int64_t now_ns, struct buffer *ret, struct error *err)
{
	struct snapshot known, found;
	struct error why = {0};
	char path[PATH_MAX];
	int r = snapshots_find(snapshots, id, now_ns, &known, err);
	if (r == 0)
		r = path_of(snapshots, id, path, err);
	if (r < 0)
		return r;
	r = io_read_file(path, known.bytes, ret, &why);
	if (r == 0) {
		r = noted_check(&snapshot_form, buffer_bytes(ret), &found, &why);
		if (r == 0 && strcmp(found.content.hash, known.content.hash) != 0)
			r = error_set(&why, -EBADMSG, "it is a different snapshot");
	}
	if (r == 0)
		return 0;
	buffer_release(ret);
	if (r != -ENOENT && r != -EBADMSG && r != -E2BIG) /* the disk's fault, perhaps not for ever */
		return error_set(err, r, "%s", why.message);
	drop_damaged(snapshots, id, path, why.message);
	return r == -ENOENT ? not_there(id, err) : error_set(err, -ENOENT, "snapshot '%.40s' is damaged and was set aside", id);
}

/* What gzip says at its end of how long it is unpacked; snapshots are shorter than 4 GiB. */
static uint64_t plain_bytes(struct bytes gzip)
{
	const uint8_t *end = gzip.data + gzip.len;
	return gzip.len < 4 ? 0 : end[-4] | end[-3] << 8 | end[-2] << 16 | (uint64_t)end[-1] << 24;
}

int snapshots_open_file(struct snapshots *snapshots, const char *id, int64_t now_ns, bool unpacked, struct input **ret,
			uint64_t *ret_bytes, struct error *err)
{
	_cleanup_(buffer_release) struct buffer file = {0};
	char path[PATH_MAX];
	int r = snapshots_read(snapshots, id, now_ns, &file, err);
	if (r == 0)
		r = path_of(snapshots, id, path, err);
	if (r < 0)
		return r;
	*ret_bytes = unpacked ? plain_bytes(buffer_bytes(&file)) : file.len;
	if (unpacked)
		return input_open(path, *ret_bytes, ret, err);
	int fd = io_open(path, O_RDONLY, 0, err);
	return fd < 0 ? fd : input_from_fd(fd, path, *ret_bytes, ret, err);
}

int snapshots_remove(struct snapshots *snapshots, const char *id, struct error *err)
{
	char path[PATH_MAX];
	pthread_mutex_lock(&snapshots->lock);
	size_t place = find_place(snapshots, id);
	int r = place < snapshots->count ? path_of(snapshots, id, path, err) : not_there(id, err);
	if (r == 0)
		r = io_unlink(path, err);
	if (r == 0)
		take_out(snapshots, place, 1);
	pthread_mutex_unlock(&snapshots->lock);
	return r < 0 ? r : io_sync_dir(snapshots->directory, err);
}

/* ---- life ---- */

static int load_file(void *context, const char *name, struct error *err)
{
	struct snapshots *snapshots = context;
	char path[PATH_MAX], own[SNAPSHOT_ID_SIZE + sizeof(NOTED_ENDING)];
	struct snapshot snapshot;
	struct error why = {0};
	if (io_join_path(path, sizeof(path), snapshots->directory, name) < 0)
		return 0;
	int r = noted_look(&snapshot_form, path, &snapshot, &snapshot.bytes, &why);
	if (r == -ENOMEM)
		return error_nomem(err);
	snprintf(own, sizeof(own), "%s" NOTED_ENDING, r < 0 ? "" : snapshot.id);
	if (r == 0 && strcmp(own, name) != 0)
		r = error_set(&why, -EBADMSG, "its name does not match its content");
	if (r < 0) {
		set_aside(snapshots, path, why.message);
		return 0;
	}
	return append(snapshots, &snapshot) < 0 ? error_nomem(err) : 0;
}

static int compare(const void *left, const void *right)
{
	const struct snapshot *a = left, *b = right;
	return a->made_ns < b->made_ns ? -1 : a->made_ns > b->made_ns ? 1 : strcmp(a->id, b->id);
}

int snapshots_open(const struct snapshots_options *options, int64_t now_ns, struct snapshots **ret, struct error *err)
{
	_cleanup_(snapshots_closep) struct snapshots *snapshots = mem_zalloc(sizeof(*snapshots));
	if (!snapshots)
		return error_nomem(err);
	pthread_mutex_init(&snapshots->lock, NULL);
	snapshots->options = *options;
	if (!snapshots->options.bytes_max)
		snapshots->options.bytes_max = SNAPSHOTS_BYTES_DEFAULT;
	if (!snapshots->options.age_ns)
		snapshots->options.age_ns = SNAPSHOTS_AGE_DEFAULT_NS;
	if (!snapshots->options.count_max)
		snapshots->options.count_max = SNAPSHOTS_COUNT_DEFAULT;
	snapshots->directory = mem_strdup(options->directory);
	if (!snapshots->directory)
		return error_nomem(err);
	int r = noted_load(snapshots->directory, load_file, snapshots, err);
	if (r < 0)
		return r;
	sort_array(snapshots->items, snapshots->count, compare);
	make_room(snapshots, now_ns);
	*ret = TAKE(snapshots);
	return 0;
}

struct snapshots *snapshots_close(struct snapshots *snapshots)
{
	if (!snapshots)
		return NULL;
	mem_free(snapshots->items);
	mem_free(snapshots->directory);
	pthread_mutex_destroy(&snapshots->lock);
	return mem_free(snapshots);
}

void snapshots_get_stats(struct snapshots *snapshots, int64_t now_ns, struct snapshots_stats *ret)
{
	THREAD_LOCK_SCOPE(&snapshots->lock);
	make_room(snapshots, now_ns);
	*ret = snapshots->stats;
	ret->snapshots = snapshots->count;
	ret->bytes_max = snapshots->options.bytes_max;
	ret->age_ns = snapshots->options.age_ns;
}
