/* SPDX-License-Identifier: Apache-2.0 */
/*
 * DIRECTORY/FROM-HOST.json.gz for each window: FROM is its beginning in nanoseconds by the host's clock, the rest as in
 * recordings_file.h, of the recording "continuous". What is known of them is in memory, from the files themselves, in the order
 * in which they go: by when they ended, or were received if that was before, so that no claim about times keeps a window for
 * longer. There is no index on disk that could disagree with the files.
 *
 * Files are written and read without the lock. One that is being written has its place, so that it is written once; one that
 * goes while it is read is not found, and its reader does without.
 *
 * Room. Ordered recordings are worth more: somebody waited for them. They may take all of recordings.size, windows no more than
 * half of it, and never more than recordings leave.
 */
#include "server/stores/windows.h"

#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock_fit.h"
#include "base/io.h"
#include "server/stores/recordings.h"
#include "server/stores/recordings_file.h"

struct item {
	int64_t order_ns; /* the oldest goes first */
	struct window window;
	bool is_writing;
};
struct windows {
	struct recordings_options options;
	char *directory;
	pthread_mutex_t lock;
	struct item **items; /* by order_ns */
	size_t count, capacity;
	struct windows_stats stats;
	uint64_t reserved; /* of those that are being written */
};

int64_t window_time(const struct window *window, int64_t host_ns)
{
	const struct orders_clock *clock = &window->clock;
	struct clock_line line = {clock->at_ns, clock->offset_ns, clock->skew};
	return clock->reference[0] ? clock_line_apply(line, host_ns) : host_ns;
}

static int path_of(const struct windows *windows, const struct window *window, char out[static PATH_MAX], struct error *err)
{
	char name[RECORDING_NAME_SIZE];
	recording_file_name(window->host, name);
	int len = snprintf(out, PATH_MAX, "%s/%019lld-%s", windows->directory, (long long)window->from_ns, name);
	return len < PATH_MAX ? 0 : error_set(err, -ENAMETOOLONG, "the path of the directory for recordings is too long");
}

/* ---- items; with the lock ---- */

static int append_item(struct windows *windows, struct item *item)
{
	if (array_reserve(&windows->items, &windows->capacity, windows->count + 1, WINDOWS_MAX + 1) < 0)
		return -ENOMEM;
	windows->items[windows->count++] = item;
	windows->stats.bytes += item->window.bytes;
	return 0;
}

/* In its place, which is near the end: of those that are there few ended later. */
static int add_item(struct windows *windows, struct item *item)
{
	int r = append_item(windows, item);
	for (size_t at = windows->count - 1; r == 0 && at > 0 && windows->items[at - 1]->order_ns > item->order_ns; at--) {
		windows->items[at] = windows->items[at - 1];
		windows->items[at - 1] = item;
	}
	return r;
}

static int compare_items(const void *left, const void *right)
{
	const struct item *a = *(const struct item *const *)left, *b = *(const struct item *const *)right;
	return a->order_ns < b->order_ns ? -1 : a->order_ns > b->order_ns ? 1 : 0;
}

static struct item *find_item(const struct windows *windows, const char *host, int64_t from_ns, size_t *ret_place)
{
	for (size_t i = windows->count; i > 0; i--) {
		struct item *item = windows->items[i - 1];
		if (item->window.from_ns == from_ns && strcmp(item->window.host, host) == 0) {
			*ret_place = i - 1;
			return item;
		}
	}
	return NULL;
}

static void take_out(struct windows *windows, size_t first, size_t count)
{
	for (size_t i = first; i < first + count; i++) {
		windows->stats.bytes -= windows->items[i]->window.bytes;
		mem_free(windows->items[i]);
	}
	if (count) /* or there may be no array */
		memmove(windows->items + first, windows->items + first + count,
			(windows->count - first - count) * sizeof(*windows->items));
	windows->count -= count;
}

static void remove_file(const struct windows *windows, const struct window *window)
{
	char path[PATH_MAX];
	if (path_of(windows, window, path, NULL) == 0)
		noted_remove(&windows->options.problems, path);
}

static void set_aside(struct windows *windows, const char *path, const char *why)
{
	windows->stats.torn++;
	noted_set_aside(&windows->options.problems, path, why);
}

static uint64_t bytes_allowed(const struct windows *windows, uint64_t others)
{
	uint64_t all = windows->options.bytes_max, left = others < all ? all - others : 0;
	return left < all / 2 ? left : all / 2;
}

static void make_room(struct windows *windows, uint64_t others, uint64_t more, size_t more_windows, int64_t now_ns)
{
	uint64_t allowed = bytes_allowed(windows, others), bytes = windows->stats.bytes + windows->reserved + more;
	size_t gone = 0;
	for (; gone < windows->count; gone++) {
		const struct item *item = windows->items[gone];
		bool is_old = windows->options.age_ns > 0 && now_ns - item->order_ns > windows->options.age_ns;
		bool is_full = bytes > allowed || windows->count - gone + more_windows > WINDOWS_MAX;
		if (item->is_writing || (!is_old && !is_full))
			break;
		bytes -= item->window.bytes;
		remove_file(windows, &item->window);
	}
	windows->stats.evicted += gone;
	take_out(windows, 0, gone);
}

/* ---- putting ---- */

static int check_times(const struct window *window, struct error *err)
{
	if (window->from_ns <= 0 || window->to_ns < window->from_ns || window->to_ns - window->from_ns > WINDOW_NS_MAX ||
	    window->to_ns > INT64_MAX / 2)
		return error_set(err, -EINVAL, "a marker batch is from from_ns to to_ns, at most 10 minutes");
	if (window->first_ns > window->from_ns || window->first_ns < window->from_ns - WINDOW_REACH_NS)
		return error_set(err, -EINVAL, "parameter 'first_ns' must be in the year before from_ns");
	return 0;
}

/* On success an item that is_writing has the place. */
static int begin_put(struct windows *windows, const struct window *window, uint64_t others, uint64_t more, int64_t now_ns,
		     struct error *err)
{
	size_t place;
	const struct item *same = find_item(windows, window->host, window->from_ns, &place);
	if (same && same->is_writing)
		return error_set(err, -EAGAIN, "this marker batch is being written; check again whether it arrived");
	if (same)
		return error_set(err, -EEXIST, "this marker batch is already stored");
	make_room(windows, others, more, 1, now_ns);
	if (windows->stats.bytes + windows->reserved + more > bytes_allowed(windows, others) || windows->count >= WINDOWS_MAX)
		return error_set(err, -ENOSPC, "the limit of marker batches is now %llu bytes, next to requested recordings",
				 (unsigned long long)bytes_allowed(windows, others));
	struct item *item = mem_zalloc(sizeof(*item));
	if (!item)
		return error_nomem(err);
	int64_t end_ns = window_time(window, window->to_ns);
	*item = (struct item){.order_ns = end_ns < now_ns ? end_ns : now_ns, .window = *window, .is_writing = true};
	item->window.bytes = item->window.plain_bytes = 0;
	if (add_item(windows, item) < 0) {
		mem_free(item);
		return error_nomem(err);
	}
	windows->reserved += more;
	return 0;
}

static void end_put(struct windows *windows, const struct window *window, const struct recording_file *file, uint64_t reserved,
		    uint64_t bytes, int r)
{
	size_t place;
	struct item *item = find_item(windows, window->host, window->from_ns, &place);
	windows->reserved -= reserved;
	item->is_writing = false;
	if (r < 0) {
		take_out(windows, place, 1);
		return;
	}
	item->window.bytes = bytes;
	item->window.plain_bytes = file->plain_bytes;
	windows->stats.bytes += bytes;
	windows->stats.received++;
	windows->stats.bytes_received += bytes;
}

int windows_put(struct windows *windows, const struct window *window, struct bytes gzip, uint64_t others, int64_t now_ns,
		struct error *err)
{
	struct recording_file file = {.id = ORDERS_CONTINUOUS,
				      .received_ns = now_ns,
				      .start_ns = window->from_ns,
				      .duration_ns = window->to_ns - window->from_ns,
				      .reach_ns = window->from_ns - window->first_ns,
				      .clock = window->clock};
	uint64_t bytes = 0, more = gzip.len + NOTED_HEADER_MAX;
	char path[PATH_MAX];
	int r = orders_host_is_valid(window->host) ? check_times(window, err)
						   : error_set(err, -EINVAL, "not a valid host name");
	if (r == 0)
		r = recording_file_measure(gzip, &file.plain_bytes, err);
	pthread_mutex_lock(&windows->lock);
	if (r == 0)
		r = begin_put(windows, window, others, more, now_ns, err);
	windows->stats.refused += r < 0;
	pthread_mutex_unlock(&windows->lock);
	if (r < 0)
		return r;
	snprintf(file.host, sizeof(file.host), "%s", window->host);
	r = path_of(windows, window, path, err);
	if (r == 0)
		r = recording_file_put(path, &file, gzip, &bytes, err);
	pthread_mutex_lock(&windows->lock);
	end_put(windows, window, &file, more, bytes, r);
	pthread_mutex_unlock(&windows->lock);
	return r;
}

/* ---- finding and reading ---- */

static int compare_ends(const void *left, const void *right)
{
	const struct window *a = left, *b = right;
	int64_t a_ns = window_time(a, a->to_ns), b_ns = window_time(b, b->to_ns);
	return a_ns < b_ns ? 1 : a_ns > b_ns ? -1 : strcmp(a->host, b->host);
}

int windows_find(struct windows *windows, int64_t from_ns, int64_t to_ns, struct window **ret, size_t *ret_count,
		 struct error *err)
{
	size_t count = 0, capacity = 0;
	struct window *found = NULL;
	int r = 0;
	pthread_mutex_lock(&windows->lock);
	for (size_t i = 0; i < windows->count && r == 0; i++) {
		const struct window *window = &windows->items[i]->window;
		if (windows->items[i]->is_writing || window_time(window, window->to_ns) < from_ns ||
		    window_time(window, window->first_ns) > to_ns)
			continue;
		r = array_reserve(&found, &capacity, count + 1, WINDOWS_MAX);
		if (r == 0)
			found[count++] = *window;
	}
	pthread_mutex_unlock(&windows->lock);
	if (r < 0) {
		mem_free(found);
		return error_nomem(err);
	}
	if (count)
		qsort(found, count, sizeof(*found), compare_ends);
	*ret = found;
	*ret_count = count;
	return 0;
}

int windows_read(struct windows *windows, const struct window *window, struct buffer *ret, struct error *err)
{
	char path[PATH_MAX];
	struct recording_file file;
	struct error own = {0};
	size_t place;
	err = err ? err : &own;
	int r = path_of(windows, window, path, err);
	if (r == 0)
		r = io_read_file(path, RECORDINGS_UPLOAD_MAX + NOTED_HEADER_MAX, ret, err);
	if (r < 0)
		return r;
	r = noted_check(&recording_form, buffer_bytes(ret), &file, err);
	if (r != -EBADMSG)
		return r;
	pthread_mutex_lock(&windows->lock);
	if (find_item(windows, window->host, window->from_ns, &place)) { /* or somebody else found it, too */
		set_aside(windows, path, err->message);
		take_out(windows, place, 1);
	}
	pthread_mutex_unlock(&windows->lock);
	return r;
}

void windows_make_room(struct windows *windows, uint64_t others, int64_t now_ns)
{
	pthread_mutex_lock(&windows->lock);
	make_room(windows, others, 0, 0, now_ns);
	pthread_mutex_unlock(&windows->lock);
}

void windows_remove(struct windows *windows)
{
	pthread_mutex_lock(&windows->lock);
	for (size_t i = windows->count; i > 0; i--) {
		if (windows->items[i - 1]->is_writing)
			continue;
		remove_file(windows, &windows->items[i - 1]->window);
		take_out(windows, i - 1, 1);
	}
	pthread_mutex_unlock(&windows->lock);
}

/* ---- life ---- */

static int load_file(void *context, const char *name, struct error *err)
{
	struct windows *windows = context;
	char path[PATH_MAX], expected[PATH_MAX];
	struct recording_file file;
	struct error why = {0};
	struct item *item = mem_zalloc(sizeof(*item));
	uint64_t size = 0;
	if (!item)
		return error_nomem(err);
	int r = io_join_path(path, sizeof(path), windows->directory, name);
	if (r == 0)
		r = noted_look(&recording_form, path, &file, &size, &why);
	if (r == 0) {
		struct window *window = &item->window;
		memcpy(window->host, file.host, sizeof(window->host));
		window->from_ns = file.start_ns;
		window->to_ns = file.start_ns + file.duration_ns;
		window->first_ns = file.start_ns - file.reach_ns;
		window->clock = file.clock;
		window->bytes = size;
		window->plain_bytes = file.plain_bytes;
		int64_t end_ns = window_time(window, window->to_ns);
		item->order_ns = end_ns < file.received_ns ? end_ns : file.received_ns;
		r = check_times(window, &why);
		if (r == 0)
			r = path_of(windows, window, expected, &why);
		if (r == 0 && (strcmp(file.id, ORDERS_CONTINUOUS) != 0 || strcmp(expected, path) != 0))
			r = error_set(&why, -EBADMSG, "it belongs to another recording, host or time");
	}
	if (r < 0) {
		set_aside(windows, path, why.message);
		mem_free(item);
		return 0;
	}
	/* No server of ours leaves more; they are not counted, nor removed. */
	r = windows->count < WINDOWS_MAX ? append_item(windows, item) : 1;
	if (r != 0)
		mem_free(item);
	return r < 0 ? error_nomem(err) : 0;
}

int windows_open(const struct recordings_options *options, int64_t now_ns, struct windows **ret, struct error *err)
{
	_cleanup_(windows_closep) struct windows *windows = mem_zalloc(sizeof(*windows));
	if (!windows)
		return error_nomem(err);
	pthread_mutex_init(&windows->lock, NULL);
	windows->options = *options;
	if (!windows->options.bytes_max)
		windows->options.bytes_max = RECORDINGS_BYTES_DEFAULT;
	if (!windows->options.age_ns)
		windows->options.age_ns = RECORDINGS_AGE_DEFAULT_NS;
	windows->directory = mem_strdup(options->directory);
	if (!windows->directory)
		return error_nomem(err);
	int r = noted_load(windows->directory, load_file, windows, err);
	if (r < 0)
		return r;
	if (windows->count)
		qsort(windows->items, windows->count, sizeof(*windows->items), compare_items);
	make_room(windows, 0, 0, 0, now_ns);
	*ret = windows;
	windows = NULL;
	return 0;
}

struct windows *windows_close(struct windows *windows)
{
	if (!windows)
		return NULL;
	take_out(windows, 0, windows->count);
	mem_free(windows->items);
	mem_free(windows->directory);
	pthread_mutex_destroy(&windows->lock);
	return mem_free(windows);
}

void windows_get_stats(struct windows *windows, struct windows_stats *ret)
{
	pthread_mutex_lock(&windows->lock);
	*ret = windows->stats;
	ret->windows = windows->count;
	ret->bytes_max = windows->options.bytes_max / 2;
	pthread_mutex_unlock(&windows->lock);
}
