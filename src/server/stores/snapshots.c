/* SPDX-License-Identifier: Apache-2.0 */
/*
 * DIRECTORY/ID.json.gz for each (snapshots_file.h). What is known of them is in memory, from the files themselves, the oldest
 * first; there is no index on disk that could disagree with them. Files are written and read without the lock: one comes into
 * the table when it is on disk, and one that goes while it is read is not found.
 *
 * Room is made when a new one is there, not before: a disk that is full must not cost old ones for nothing. So there may be
 * more than allowed for a moment, by as many as are written at a time, and a start that finds more removes them.
 */
#include "server/stores/snapshots.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/alloc.h"
#include "base/io.h"
#include "base/text.h"
#include "server/stores/snapshots_file.h"

#define TORN_ENDING ".torn"
#define ID_BYTES    16

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
	uint8_t random[ID_BYTES];
	if (getrandom(random, sizeof(random), 0) != (ssize_t)sizeof(random))
		return error_set_errno(err, -EIO, "cannot get random bytes for a snapshot's id");
	for (size_t i = 0; i < sizeof(random); i++)
		snprintf(out + 2 * i, 3, "%02x", random[i]);
	return 0;
}

bool snapshot_id_is_valid(const char *id)
{
	return strlen(id) == SNAPSHOT_ID_SIZE - 1 && strspn(id, "0123456789abcdef") == SNAPSHOT_ID_SIZE - 1;
}

static int path_of(const struct snapshots *snapshots, const char *id, char out[static PATH_MAX], struct error *err)
{
	int len = snprintf(out, PATH_MAX, "%s/%s" SNAPSHOT_ENDING, snapshots->directory, id);
	return len < PATH_MAX ? 0 : error_set(err, -ENAMETOOLONG, "the path of the directory for snapshots is too long");
}

static void say(const struct snapshots *snapshots, const char *text)
{
	if (snapshots->options.on_problem)
		snapshots->options.on_problem(snapshots->options.context, text);
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
	struct error err = {0};
	int r = path_of(snapshots, id, path, &err);
	if (r == 0)
		r = io_unlink(path, &err);
	if (r < 0)
		say(snapshots, err.message);
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

/* The file stays as *.torn for whoever wants to look. */
static void set_aside(struct snapshots *snapshots, const char *path, const char *why)
{
	char aside[PATH_MAX], text[PATH_MAX + ERROR_MESSAGE_MAX];
	snapshots->stats.torn++;
	snprintf(text, sizeof(text), "%s: %s; it is set aside as *" TORN_ENDING, path, why);
	say(snapshots, text);
	if (snprintf(aside, sizeof(aside), "%s" TORN_ENDING, path) < (int)sizeof(aside))
		io_rename(path, aside, NULL);
}

/* ---- putting, finding, reading, removing ---- */

static int write_file(const struct snapshots *snapshots, struct snapshot *snapshot, struct bytes gzip, struct error *err)
{
	_cleanup_(buffer_release) struct buffer header = {0};
	_cleanup_(io_output_freep) struct io_output *output = NULL;
	uint64_t most = snapshots->options.bytes_max / SNAPSHOTS_SHARE;
	struct bytes rest;
	char path[PATH_MAX], size[TEXT_NUMBER_MAX], allowed[TEXT_NUMBER_MAX];
	buffer_init(&header, SNAPSHOT_HEADER_MAX);
	int r = snapshot_file_write_header(snapshot, gzip, &header, &rest, err);
	if (r == 0 && snapshot->bytes > most)
		r = error_set(err, -E2BIG, "the snapshot has %s, more than the limit of %s: a quarter of snapshots.size",
			      text_format_size(snapshot->bytes, size), text_format_size(most, allowed));
	if (r == 0)
		r = path_of(snapshots, snapshot->id, path, err);
	if (r == 0)
		r = io_output_open(path, 0640, &output, err);
	if (r == 0)
		r = io_output_write(output, header.data, header.len, err);
	if (r == 0)
		r = io_output_write(output, rest.data, rest.len, err);
	return r < 0 ? r : io_output_finish(output, err);
}

int snapshots_put(struct snapshots *snapshots, struct snapshot *snapshot, struct bytes gzip, int64_t now_ns, struct error *err)
{
	int r = write_file(snapshots, snapshot, gzip, err);
	pthread_mutex_lock(&snapshots->lock);
	if (r == 0 && append(snapshots, snapshot) < 0)
		r = error_nomem(err);
	if (r < 0) /* it may have its name already: it is not to be there after a start, since nobody was told of it */
		remove_file(snapshots, snapshot->id);
	snapshots->stats.made += r == 0;
	snapshots->stats.refused += r < 0;
	if (r == 0)
		make_room(snapshots, now_ns);
	pthread_mutex_unlock(&snapshots->lock);
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
	pthread_mutex_lock(&snapshots->lock);
	make_room(snapshots, now_ns);
	size_t place = find_place(snapshots, id);
	bool is_there = place < snapshots->count;
	if (is_there)
		*ret = snapshots->items[place];
	pthread_mutex_unlock(&snapshots->lock);
	return is_there ? 0 : not_there(id, err);
}

/* Others may have found the same, and it may have gone in between. */
static void drop_damaged(struct snapshots *snapshots, const char *id, const char *path, const char *why)
{
	pthread_mutex_lock(&snapshots->lock);
	size_t place = find_place(snapshots, id);
	if (place < snapshots->count) {
		set_aside(snapshots, path, why);
		take_out(snapshots, place, 1);
	}
	pthread_mutex_unlock(&snapshots->lock);
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
		r = snapshot_file_check(buffer_bytes(ret), &found, &why);
		if (r == 0 && strcmp(found.hash, known.hash) != 0)
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

static int look(const char *path, const char *name, struct snapshot *ret, struct error *err)
{
	_cleanup_(fd_closep) int fd = io_open(path, O_RDONLY | O_NOFOLLOW, 0, err);
	_cleanup_(mem_freep) uint8_t *begin = mem_alloc(SNAPSHOT_HEADER_MAX);
	uint64_t size, expected;
	char own[SNAPSHOT_ID_SIZE + sizeof(SNAPSHOT_ENDING)];
	if (fd < 0 || !begin)
		return fd < 0 ? fd : error_nomem(err);
	int r = io_file_size(fd, &size, name, err);
	ssize_t len = r < 0 ? r : io_pread(fd, begin, SNAPSHOT_HEADER_MAX, 0, name, err);
	if (len < 0)
		return (int)len;
	r = snapshot_file_read_header((struct bytes){begin, (size_t)len}, ret, &expected, err);
	if (r < 0)
		return r;
	snprintf(own, sizeof(own), "%s" SNAPSHOT_ENDING, ret->id);
	if (strcmp(own, name) != 0)
		return error_set(err, -EBADMSG, "its name does not match its content");
	if (size != expected)
		return error_set(err, -EBADMSG, "it has %llu bytes instead of %llu", (unsigned long long)size,
				 (unsigned long long)expected);
	return 0;
}

static int load_file(struct snapshots *snapshots, const char *name, struct error *err)
{
	char path[PATH_MAX];
	struct snapshot snapshot;
	struct error why = {0};
	if (io_join_path(path, sizeof(path), snapshots->directory, name) < 0)
		return 0;
	int r = look(path, name, &snapshot, &why);
	if (r == -ENOMEM)
		return error_nomem(err);
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

static int load(struct snapshots *snapshots, struct error *err)
{
	const struct dirent *entry;
	char path[PATH_MAX];
	int r = io_make_dirs(snapshots->directory, 0750, err);
	DIR *directory = r == 0 ? opendir(snapshots->directory) : NULL;
	if (r == 0 && !directory)
		r = error_set_errno(err, -errno, "cannot list %s", snapshots->directory);
	while (r == 0 && (entry = readdir(directory))) {
		if (text_ends_with(entry->d_name, SNAPSHOT_ENDING))
			r = load_file(snapshots, entry->d_name, err);
		else if (text_ends_with(entry->d_name, ".tmp") &&
			 io_join_path(path, sizeof(path), snapshots->directory, entry->d_name) == 0)
			io_unlink(path, NULL); /* a crash left it */
	}
	if (directory)
		closedir(directory);
	if (snapshots->count)
		qsort(snapshots->items, snapshots->count, sizeof(*snapshots->items), compare);
	return r;
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
	int r = load(snapshots, err);
	if (r < 0)
		return r;
	make_room(snapshots, now_ns);
	*ret = snapshots;
	snapshots = NULL;
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
	pthread_mutex_lock(&snapshots->lock);
	make_room(snapshots, now_ns);
	*ret = snapshots->stats;
	ret->snapshots = snapshots->count;
	ret->bytes_max = snapshots->options.bytes_max;
	ret->age_ns = snapshots->options.age_ns;
	pthread_mutex_unlock(&snapshots->lock);
}
