/* SPDX-License-Identifier: Apache-2.0 */
/*
 * DIRECTORY/FROM-HOST.json.gz for each batch: FROM is its beginning in nanoseconds by the host's clock, the rest as in
 * recordings_file.h, of the recording "continuous". What is known of them is in memory, from the files themselves, in the order
 * in which they go: by when they ended, or were received if that was before, so that no claim about times keeps a batch for
 * longer. There is no index on disk that could disagree with the files.
 *
 * Files are written and read without the lock. One that is being written has its place, so that it is written once; one that
 * goes while it is read is not found, and its reader does without.
 *
 * Room. Requested recordings are worth more: somebody waited for them. They may take all of recordings.size, batches no more
 * than half of it, and never more than recordings leave.
 */
#include "server/stores/marker_batches.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock_fit.h"
#include "base/io.h"
#include "base/order.h"
#include "base/thread.h"
#include "server/stores/recordings.h"
#include "server/stores/recordings_file.h"

struct item {
	int64_t order_ns; /* the oldest goes first */
	struct marker_batch batch;
	bool is_writing;
};
struct marker_batches {
	struct recordings_options options;
	char *directory;
	pthread_mutex_t lock;
	struct item **items; /* by order_ns */
	size_t count, capacity;
	struct marker_batches_stats stats;
	uint64_t reserved; /* of those that are being written */
};

int64_t marker_batch_time(const struct marker_batch *batch, int64_t host_ns)
{
	const struct host_clock *clock = &batch->clock;
	struct clock_line line = {clock->at_ns, clock->offset_ns, clock->skew};
	return clock->reference[0] ? clock_line_apply(line, host_ns) : host_ns;
}

static int path_of(const struct marker_batches *batches, const struct marker_batch *batch, char out[static PATH_MAX],
		   struct error *err)
{
	char name[RECORDING_NAME_SIZE];
	recording_file_name(batch->host, name);
	int len = snprintf(out, PATH_MAX, "%s/%019lld-%s", batches->directory, (long long)batch->from_ns, name);
	return len < PATH_MAX ? 0 : error_set(err, -ENAMETOOLONG, "the path of the directory for recordings is too long");
}

/* ---- items; with the lock ---- */

static int append_item(struct marker_batches *batches, struct item *item)
{
	if (array_reserve(&batches->items, &batches->capacity, batches->count + 1, MARKER_BATCHES_MAX + 1) < 0)
		return -ENOMEM;
	batches->items[batches->count++] = item;
	batches->stats.bytes += item->batch.bytes;
	return 0;
}

/* In its place, which is near the end: of those that are there few ended later. */
static int add_item(struct marker_batches *batches, struct item *item)
{
	int r = append_item(batches, item);
	for (size_t at = batches->count - 1; r == 0 && at > 0 && batches->items[at - 1]->order_ns > item->order_ns; at--) {
		batches->items[at] = batches->items[at - 1];
		batches->items[at - 1] = item;
	}
	return r;
}

static int compare_items(const void *left, const void *right)
{
	const struct item *a = *(const struct item *const *)left, *b = *(const struct item *const *)right;
	return ORDER(a->order_ns, b->order_ns);
}

static struct item *find_item(const struct marker_batches *batches, const char *host, int64_t from_ns, size_t *ret_place)
{
	for (size_t i = batches->count; i > 0; i--) {
		struct item *item = batches->items[i - 1];
		if (item->batch.from_ns == from_ns && strcmp(item->batch.host, host) == 0) {
			*ret_place = i - 1;
			return item;
		}
	}
	return NULL;
}

static void take_out(struct marker_batches *batches, size_t first, size_t count)
{
	for (size_t i = first; i < first + count; i++) {
		batches->stats.bytes -= batches->items[i]->batch.bytes;
		mem_free(batches->items[i]);
	}
	if (count) /* or there may be no array */
		memmove(batches->items + first, batches->items + first + count,
			(batches->count - first - count) * sizeof(*batches->items));
	batches->count -= count;
}

static void remove_file(const struct marker_batches *batches, const struct marker_batch *batch)
{
	char path[PATH_MAX];
	if (path_of(batches, batch, path, NULL) == 0)
		noted_remove(&batches->options.problems, path);
}

static void set_aside(struct marker_batches *batches, const char *path, const char *why)
{
	batches->stats.torn++;
	noted_set_aside(&batches->options.problems, path, why);
}

static uint64_t bytes_allowed(const struct marker_batches *batches, uint64_t others)
{
	uint64_t all = batches->options.bytes_max, left = others < all ? all - others : 0;
	return left < all / 2 ? left : all / 2;
}

static void make_room(struct marker_batches *batches, uint64_t others, uint64_t more, size_t more_batches, int64_t now_ns)
{
	uint64_t allowed = bytes_allowed(batches, others), bytes = batches->stats.bytes + batches->reserved + more;
	size_t gone = 0;
	for (; gone < batches->count; gone++) {
		const struct item *item = batches->items[gone];
		bool is_old = batches->options.age_ns > 0 && now_ns - item->order_ns > batches->options.age_ns;
		bool is_full = bytes > allowed || batches->count - gone + more_batches > MARKER_BATCHES_MAX;
		if (item->is_writing || (!is_old && !is_full))
			break;
		bytes -= item->batch.bytes;
		remove_file(batches, &item->batch);
	}
	batches->stats.evicted += gone;
	take_out(batches, 0, gone);
}

/* ---- putting ---- */

static int check_times(const struct marker_batch *batch, struct error *err)
{
	if (batch->from_ns <= 0 || batch->to_ns < batch->from_ns || batch->to_ns - batch->from_ns > MARKER_BATCH_NS_MAX ||
	    batch->to_ns > INT64_MAX / 2)
		return error_set(err, -EINVAL, "from_ns must be before to_ns, by at most 10 minutes");
	if (batch->first_ns > batch->from_ns || batch->first_ns < batch->from_ns - MARKER_BATCH_REACH_NS)
		return error_set(err, -EINVAL, "parameter 'first_ns' must be in the year before from_ns");
	return 0;
}

/* On success an item that is_writing has the place. */
static int begin_put(struct marker_batches *batches, const struct marker_batch *batch, uint64_t others, uint64_t more,
		     int64_t now_ns, struct error *err)
{
	size_t place;
	const struct item *same = find_item(batches, batch->host, batch->from_ns, &place);
	if (same && same->is_writing)
		return error_set(err, -EAGAIN, "this marker batch is being written; check again whether it arrived");
	if (same)
		return error_set(err, -EEXIST, "this marker batch is already stored");
	make_room(batches, others, more, 1, now_ns);
	if (batches->stats.bytes + batches->reserved + more > bytes_allowed(batches, others) ||
	    batches->count >= MARKER_BATCHES_MAX)
		return error_set(err, -ENOSPC, "marker batches may use %llu bytes beside the recordings",
				 (unsigned long long)bytes_allowed(batches, others));
	struct item *item = mem_zalloc(sizeof(*item));
	if (!item)
		return error_nomem(err);
	int64_t end_ns = marker_batch_time(batch, batch->to_ns);
	*item = (struct item){.order_ns = end_ns < now_ns ? end_ns : now_ns, .batch = *batch, .is_writing = true};
	item->batch.bytes = item->batch.plain_bytes = 0;
	if (add_item(batches, item) < 0) {
		mem_free(item);
		return error_nomem(err);
	}
	batches->reserved += more;
	return 0;
}

static void end_put(struct marker_batches *batches, const struct marker_batch *batch, const struct recording_file *file,
		    uint64_t reserved, uint64_t bytes, int r)
{
	size_t place;
	struct item *item = find_item(batches, batch->host, batch->from_ns, &place);
	batches->reserved -= reserved;
	item->is_writing = false;
	if (r < 0) {
		take_out(batches, place, 1);
		return;
	}
	item->batch.bytes = bytes;
	item->batch.plain_bytes = file->plain_bytes;
	batches->stats.bytes += bytes;
	batches->stats.received++;
	batches->stats.bytes_received += bytes;
}

int marker_batches_put(struct marker_batches *batches, const struct marker_batch *batch, struct bytes gzip, uint64_t others,
		       int64_t now_ns, struct error *err)
{
	struct recording_file file = {.id = CONTROL_CONTINUOUS,
				      .received_ns = now_ns,
				      .start_ns = batch->from_ns,
				      .duration_ns = batch->to_ns - batch->from_ns,
				      .reach_ns = batch->from_ns - batch->first_ns,
				      .clock = batch->clock};
	uint64_t bytes = 0, more = gzip.len + NOTED_HEADER_MAX;
	char path[PATH_MAX];
	int r = control_host_is_valid(batch->host) ? check_times(batch, err) : error_set(err, -EINVAL, "not a valid host name");
	if (r == 0)
		r = recording_file_measure(gzip, &file.plain_bytes, err);
	pthread_mutex_lock(&batches->lock);
	if (r == 0)
		r = begin_put(batches, batch, others, more, now_ns, err);
	batches->stats.refused += r < 0;
	pthread_mutex_unlock(&batches->lock);
	if (r < 0)
		return r;
	snprintf(file.host, sizeof(file.host), "%s", batch->host);
	r = path_of(batches, batch, path, err);
	if (r == 0)
		r = recording_file_put(path, &file, gzip, &bytes, err);
	THREAD_LOCK_SCOPE(&batches->lock);
	end_put(batches, batch, &file, more, bytes, r);
	return r;
}

/* ---- finding and reading ---- */

static int compare_ends(const void *left, const void *right)
{
	const struct marker_batch *a = left, *b = right;
	int64_t a_ns = marker_batch_time(a, a->to_ns), b_ns = marker_batch_time(b, b->to_ns);
	return a_ns < b_ns ? 1 : a_ns > b_ns ? -1 : strcmp(a->host, b->host);
}

int marker_batches_find(struct marker_batches *batches, int64_t from_ns, int64_t to_ns, struct marker_batch **ret,
			size_t *ret_count, struct error *err)
{
	size_t count = 0, capacity = 0;
	struct marker_batch *found = NULL;
	int r = 0;
	pthread_mutex_lock(&batches->lock);
	for (size_t i = 0; i < batches->count && r == 0; i++) {
		const struct marker_batch *batch = &batches->items[i]->batch;
		if (batches->items[i]->is_writing || marker_batch_time(batch, batch->to_ns) < from_ns ||
		    marker_batch_time(batch, batch->first_ns) > to_ns)
			continue;
		r = array_reserve(&found, &capacity, count + 1, MARKER_BATCHES_MAX);
		if (r == 0)
			found[count++] = *batch;
	}
	pthread_mutex_unlock(&batches->lock);
	if (r < 0) {
		mem_free(found);
		return error_nomem(err);
	}
	sort_array(found, count, compare_ends);
	*ret = found;
	*ret_count = count;
	return 0;
}

int marker_batches_read(struct marker_batches *batches, const struct marker_batch *batch, struct buffer *ret, struct error *err)
{
	char path[PATH_MAX];
	struct recording_file file;
	struct error own = {0};
	size_t place;
	err = err ? err : &own;
	int r = path_of(batches, batch, path, err);
	if (r == 0)
		r = io_read_file(path, RECORDINGS_UPLOAD_MAX + NOTED_HEADER_MAX, ret, err);
	if (r < 0)
		return r;
	r = noted_check(&recording_form, buffer_bytes(ret), &file, err);
	if (r != -EBADMSG)
		return r;
	THREAD_LOCK_SCOPE(&batches->lock);
	if (find_item(batches, batch->host, batch->from_ns, &place)) { /* or somebody else found it, too */
		set_aside(batches, path, err->message);
		take_out(batches, place, 1);
	}
	return r;
}

void marker_batches_make_room(struct marker_batches *batches, uint64_t others, int64_t now_ns)
{
	THREAD_LOCK_SCOPE(&batches->lock);
	make_room(batches, others, 0, 0, now_ns);
}

void marker_batches_remove(struct marker_batches *batches)
{
	THREAD_LOCK_SCOPE(&batches->lock);
	for (size_t i = batches->count; i > 0; i--) {
		if (batches->items[i - 1]->is_writing)
			continue;
		remove_file(batches, &batches->items[i - 1]->batch);
		take_out(batches, i - 1, 1);
	}
}

/* ---- life ---- */

static int load_file(void *context, const char *name, struct error *err)
{
	struct marker_batches *batches = context;
	char path[PATH_MAX], expected[PATH_MAX];
	struct recording_file file;
	struct error why = {0};
	struct item *item = mem_zalloc(sizeof(*item));
	uint64_t size = 0;
	if (!item)
		return error_nomem(err);
	int r = io_join_path(path, sizeof(path), batches->directory, name);
	if (r == 0)
		r = noted_look(&recording_form, path, &file, &size, &why);
	if (r == 0) {
		struct marker_batch *batch = &item->batch;
		memcpy(batch->host, file.host, sizeof(batch->host));
		batch->from_ns = file.start_ns;
		batch->to_ns = file.start_ns + file.duration_ns;
		batch->first_ns = file.start_ns - file.reach_ns;
		batch->clock = file.clock;
		batch->bytes = size;
		batch->plain_bytes = file.plain_bytes;
		int64_t end_ns = marker_batch_time(batch, batch->to_ns);
		item->order_ns = end_ns < file.received_ns ? end_ns : file.received_ns;
		r = check_times(batch, &why);
		if (r == 0)
			r = path_of(batches, batch, expected, &why);
		if (r == 0 && (strcmp(file.id, CONTROL_CONTINUOUS) != 0 || strcmp(expected, path) != 0))
			r = error_set(&why, -EBADMSG, "it belongs to another recording, host or time");
	}
	if (r < 0) {
		set_aside(batches, path, why.message);
		mem_free(item);
		return 0;
	}
	/* No server of ours leaves more; they are not counted, nor removed. */
	r = batches->count < MARKER_BATCHES_MAX ? append_item(batches, item) : 1;
	if (r != 0)
		mem_free(item);
	return r < 0 ? error_nomem(err) : 0;
}

int marker_batches_open(const struct recordings_options *options, int64_t now_ns, struct marker_batches **ret,
			struct error *err)
{
	_cleanup_(marker_batches_closep) struct marker_batches *batches = mem_zalloc(sizeof(*batches));
	if (!batches)
		return error_nomem(err);
	pthread_mutex_init(&batches->lock, NULL);
	batches->options = *options;
	if (!batches->options.bytes_max)
		batches->options.bytes_max = RECORDINGS_BYTES_DEFAULT;
	if (!batches->options.age_ns)
		batches->options.age_ns = RECORDINGS_AGE_DEFAULT_NS;
	batches->directory = mem_strdup(options->directory);
	if (!batches->directory)
		return error_nomem(err);
	int r = noted_load(batches->directory, load_file, batches, err);
	if (r < 0)
		return r;
	sort_array(batches->items, batches->count, compare_items);
	make_room(batches, 0, 0, 0, now_ns);
	*ret = TAKE(batches);
	return 0;
}

struct marker_batches *marker_batches_close(struct marker_batches *batches)
{
	if (!batches)
		return NULL;
	take_out(batches, 0, batches->count);
	mem_free(batches->items);
	mem_free(batches->directory);
	pthread_mutex_destroy(&batches->lock);
	return mem_free(batches);
}

void marker_batches_get_stats(struct marker_batches *batches, struct marker_batches_stats *ret)
{
	THREAD_LOCK_SCOPE(&batches->lock);
	*ret = batches->stats;
	ret->batches = batches->count;
	ret->bytes_max = batches->options.bytes_max / 2;
}
