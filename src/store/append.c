/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Appending.
 *
 *   without a lock    check the profile, make the keys of its stacks
 *   head.lock, read   find what the head has of it, which is nearly all: head/head_lookup.h
 *   append_lock       known id? room? -> add to the head what is new, stage the rows -> make the record -> wait until synced
 *
 * So what is done under append_lock is little: numbers are given to what is new, in the order in which the log will have it;
 * rows are put into columns; a record of a few hundred bytes is made of them. Everything that looks at a profile's frames and
 * labels is done by many appends at a time, and so are writing and syncing, by one for all:
 *
 * Grouped writes. A record is put behind the others that are pending. Whoever waits for one and finds nobody flushing flushes
 * for all: takes what is pending, releases the lock for one write and the fdatasync, publishes the rows in the head, and wakes
 * the others. Appends that come meanwhile share the next flush. Neither is done under the lock: a write behind a sync under way
 * may have to wait for the file system's journal, and all appends would wait with it.
 *
 * Queries see rows when they are on disk, before their append is acknowledged. Until then they are staged (head.h).
 *
 * When a sync fails, nobody knows what is on disk: the kernel may have dropped the dirty pages and will call the next sync a
 * success. So the store never tries again. What was not synced is taken back, its appenders get -EIO, and the store refuses
 * appends until it is opened again and has read from the disk what is really there. Queries go on.
 *
 * When a write fails (the disk is full), all that is not synced is cut off the log again and taken back, its appends are
 * refused, and everything else is as before; there is nothing to recover from when space returns. What these appends added to
 * the head's tables stays, and the next record has it.
 *
 * Rejected: a head in shards by the hash of the series, each with its lock. Stacks and names are shared by series, so shards
 * would have their own each, or look one up in the other; a record would have rows of several; and what is done under the one
 * lock now is a small part of an append (docs/overhead.md).
 */
#include <errno.h>

#include "base/limits.h"
#include "base/time.h"
#include "store/head/head_lookup.h"
#include "store/store_int.h"

const char *const store_refusal_names[STORE_REFUSAL_COUNT] = {
	[STORE_REFUSED_LATE] = "late",	     [STORE_REFUSED_FUTURE] = "future",	  [STORE_REFUSED_COLUMN] = "column",
	[STORE_REFUSED_SERIES] = "series",   [STORE_REFUSED_LABELS] = "labels",	  [STORE_REFUSED_STACKS] = "stacks",
	[STORE_REFUSED_SIZE] = "size",	     [STORE_REFUSED_INVALID] = "invalid", [STORE_REFUSED_NO_SPACE] = "no_space",
	[STORE_REFUSED_FAILURE] = "failure",
};

/* ---- sync ---- */

static int refuse_failed(struct local_store *store, struct error *err)
{
	return error_set(
		err, -EIO,
		"the store accepts no more data because its log could not be synced (%s): check the disk, then restart",
		store->failure.message);
}

static void note_sync_time(struct local_store *store, int64_t started_ns)
{
	uint64_t took = (uint64_t)(time_monotonic_ns() - started_ns);
	THREAD_LOCK_SCOPE(&store->state_lock);
	store->stats.fsyncs++;
	store->stats.fsync_ns_total += took;
	if (took > store->stats.fsync_ns_max)
		store->stats.fsync_ns_max = took;
}

/* Who waits for a record to be on disk; on its stack, in a list under append_lock. */
struct append_waiter {
	uint64_t sequence;
	struct append_waiter *next;
	int result;	      /* < 0: it was taken back, and this is why */
	struct error failure; /* its message */
};

/* The records so far, which end at `offset` of the log. */
static struct append_mark mark_of(const struct local_store *store, uint64_t offset)
{
	const struct head *head = store->head;
	return (struct append_mark){
		.offset = offset, .log_bytes = head->log_bytes, .log_records = head->log_records, .logged = head->logged};
}

void store_mark_synced(struct local_store *store)
{
	store->synced_mark = mark_of(store, store->log.offset);
}

/* append_lock held, nobody flushing. Takes back what is not synced; whoever waits for it gets `r` and its message. */
static void take_back(struct local_store *store, int r, const struct error *why)
{
	const struct append_mark *mark = &store->synced_mark;
	struct head *head = store->head;
	head_withdraw(head);
	head->log_bytes = mark->log_bytes;
	head->log_records = mark->log_records;
	head->logged = mark->logged;
	id_ring_rewind(&store->ids, store->synced);
	log_segment_rewind(&store->log, mark->offset);
	buffer_clear(&store->pending);
	/* The numbers are given again, so from now on they do not tell who waits for what. */
	for (struct append_waiter *waiter = store->waiters; waiter; waiter = waiter->next) {
		if (waiter->result < 0 || waiter->sequence <= store->synced)
			continue;
		waiter->result = r;
		waiter->failure = *why;
	}
	store->sequence = store->synced;
}

/* append_lock held. */
static int fail_sync(struct local_store *store, const struct error *cause, struct error *err)
{
	struct error why = {0};
	store->failure = *cause;
	int r = refuse_failed(store, &why);
	take_back(store, r, &why);
	store_problem(store, "the log cannot be synced; no more data is accepted until restart: %s", cause->message);
	return refuse_failed(store, err);
}

/* Memory that the next records will probably need, too. */
#define BUFFER_KEPT (4 * MIB)

static void give_back(struct buffer *buffer)
{
	buffer_clear(buffer);
	if (buffer->capacity > BUFFER_KEPT)
		buffer_release(buffer);
}

/* By who flushes. *ret_written: what failed was the sync. */
static int write_and_sync(struct local_store *store, bool *ret_written, struct error *err)
{
	int r = log_segment_write(&store->log, buffer_bytes(&store->writing), err);
	*ret_written = r == 0;
	if (r < 0)
		return r;
	int64_t started = time_monotonic_ns();
	r = log_segment_sync(&store->log, err);
	note_sync_time(store, started);
	return r;
}

/* append_lock held and nobody flushing; with `unlock`, the lock is released while the disk is at work. */
static int flush(struct local_store *store, bool unlock, struct error *err)
{
	uint64_t sequence = store->sequence;
	struct error cause = {0};
	bool written;
	struct buffer pending = store->pending;
	store->pending = store->writing;
	store->writing = pending;
	struct append_mark mark = mark_of(store, store->log.offset + pending.len);
	store->flushing = true;
	if (unlock)
		pthread_mutex_unlock(&store->append_lock);
	int r = write_and_sync(store, &written, &cause);
	if (unlock)
		pthread_mutex_lock(&store->append_lock);
	store->flushing = false;
	give_back(&store->writing);
	if (r == 0) {
		store->synced = sequence;
		store->synced_mark = mark;
		head_publish(store->head, sequence);
	} else if (written) {
		r = fail_sync(store, &cause, err);
	} else {
		take_back(store, r, &cause);
		if (err)
			*err = cause;
	}
	pthread_cond_broadcast(&store->synced_cond);
	return r;
}

/* append_lock held; waits until record `sequence` is on disk. */
static int wait_synced(struct local_store *store, uint64_t sequence, struct error *err)
{
	if (store->synced >= sequence)
		return 0;
	struct append_waiter waiter = {.sequence = sequence, .next = store->waiters}, **link = &store->waiters;
	store->waiters = &waiter;
	while (waiter.result == 0 && store->synced < sequence) {
		if (store->flushing)
			pthread_cond_wait(&store->synced_cond, &store->append_lock);
		else
			flush(store, true, NULL);
	}
	while (*link != &waiter)
		link = &(*link)->next;
	*link = waiter.next;
	if (waiter.result < 0 && err)
		*err = waiter.failure;
	return waiter.result;
}

int store_sync_locked(struct local_store *store, struct error *err)
{
	while (store->flushing)
		pthread_cond_wait(&store->synced_cond, &store->append_lock);
	if (store->failure.code)
		return refuse_failed(store, err);
	return store->synced < store->sequence ? flush(store, false, err) : 0;
}

/* ---- room ---- */

bool store_is_full(const struct local_store *store)
{
	const struct head *head = store->head, *frozen = store->frozen;
	bool full = head_bytes(head) + (frozen ? head_bytes(frozen) : 0) >= 2 * store->options.head_size_bytes;
	/* There is a frozen one: then a cut would not help the head yet. */
	return full || (frozen && head_stacks(head) >= store->options.stacks_max);
}

static bool is_full(struct local_store *store, struct error *ret_cut_error)
{
	THREAD_LOCK_SCOPE(&store->state_lock);
	*ret_cut_error = store->cut_error;
	return store_is_full(store);
}

/* append_lock held. Waits while the head and the one being written are twice as large as they should be. */
static int wait_for_room(struct local_store *store, struct error *err)
{
	struct error cut_error;
	while (is_full(store, &cut_error)) {
		if (store->failure.code)
			return refuse_failed(store, err);
		/* Waiting for a cut that fails would be waiting for ever. */
		if (cut_error.code)
			return error_set(err, cut_error.code == -ENOSPC ? -ENOSPC : -EIO,
					 "the store's memory is full and cannot be written to disk: %s", cut_error.message);
		store_wake(store);
		pthread_cond_wait(&store->room_cond, &store->append_lock);
	}
	return store->failure.code ? refuse_failed(store, err) : 0;
}

/* ---- appending ---- */

/* Shorter records are mostly numbers that compress by less than it takes. */
#define COMPRESS_FROM 4096
/* Tables of a record with rows; what is more goes into records before it. */
#define TABLES_BYTES_MAX (RECORD_BYTES_MAX / 4)

struct appending {
	const struct profile *profile;
	const struct store_append_options *options;
	struct head_lookup lookup;
	struct store_append_result *result;
	struct head_batch batch; /* what became of it */
	struct error *err;
};

/* append_lock held. A record of what the head has up to `to`, and of the rows of `batch`, NULL = none. */
static int write_delta(struct local_store *store, struct delta_mark *to, const struct head_batch *batch,
		       const uint8_t id[static STORE_ID_SIZE], struct error *err)
{
	struct head *head = store->head;
	size_t raw_len = 0, before = store->pending.len;
	buffer_clear(&store->payload);
	buffer_clear(&store->compressed);
	int r = delta_encode(head, &head->logged, to, batch, id, &store->payload, err);
	if (r == 0 && store->payload.len >= COMPRESS_FROM)
		r = log_compress(buffer_bytes(&store->payload), &store->compressed, &raw_len, err);
	if (r < 0)
		return r;
	r = log_record_put(&store->log, store->sequence + 1, buffer_bytes(raw_len ? &store->compressed : &store->payload),
			   raw_len, &store->pending, err);
	if (r < 0)
		return r;
	store->sequence++;
	head->logged = *to;
	head->log_bytes += store->pending.len - before;
	head->log_records++;
	return 0;
}

/* append_lock held. Writes all that the head has and the log has not, and the rows of `batch`. */
static int write_deltas(struct local_store *store, const struct head_batch *batch, const uint8_t id[static STORE_ID_SIZE],
			struct error *err)
{
	static const uint8_t no_id[STORE_ID_SIZE];
	bool all = false;
	int r = 0;
	while (r == 0 && !all) {
		struct delta_mark to;
		all = delta_limit(store->head, &store->head->logged, TABLES_BYTES_MAX, &to);
		r = write_delta(store, &to, all ? batch : NULL, all ? id : no_id, err);
	}
	give_back(&store->payload);
	give_back(&store->compressed);
	return r;
}

/* append_lock held. */
static int write_record(struct local_store *store, struct appending *a, uint64_t *ret_sequence)
{
	struct head_batch *batch = &a->batch;
	struct head *head = store->head;
	int r = head_prepare(head, a->profile, a->options, &a->lookup, batch, a->err);
	if (r < 0)
		return r;
	*a->result = (struct store_append_result){.samples = batch->count + batch->process_values, .series = batch->series};
	for (size_t i = 0; i < STORE_REFUSAL_COUNT; i++)
		a->result->refused += batch->refused[i];
	a->result->late = batch->refused[STORE_REFUSED_LATE];
	a->result->future = batch->refused[STORE_REFUSED_FUTURE];
	a->result->over_series = batch->refused[STORE_REFUSED_SERIES];
	a->result->series_refused = batch->series_refused;
	a->result->series_max = store->options.series_max;
	a->result->least_ns = a->options->least_ns;
	a->result->numbers_dropped = batch->numbers_dropped;
	*ret_sequence = store->synced;
	if (a->result->samples == 0)
		return 0;      /* nothing to keep */
	if (store->log.fd < 0) /* there was no room for it until now */
		r = store_begin_log(store, a->err);
	if (r == 0)
		r = write_deltas(store, batch, a->options->id, a->err);
	if (r < 0)
		return r;
	head_stage(head, batch, a->options->id, store->sequence);
	if (id_is_set(a->options->id))
		id_ring_add(&store->ids, a->options->id, store->sequence);
	*ret_sequence = store->sequence;
	return 0;
}

/* append_lock held. */
static bool is_stored(const struct local_store *store, const struct store_append_options *options, uint64_t *ret_sequence)
{
	return (id_is_set(options->id) && id_ring_find(&store->ids, options->id, ret_sequence)) ||
	       (id_is_set(options->older_id) && id_ring_find(&store->ids, options->older_id, ret_sequence));
}

/* append_lock held. */
static int append_locked(struct local_store *store, struct appending *a)
{
	uint64_t sequence;
	int r = wait_for_room(store, a->err);
	if (r < 0)
		return r;
	if (is_stored(store, a->options, &sequence))
		a->result->duplicate = true;
	else
		r = write_record(store, a, &sequence);
	/* A duplicate waits too: the first one is perhaps not on disk yet. */
	return r == 0 ? wait_synced(store, sequence, a->err) : r;
}

static enum store_refusal reason_of(int r, const struct head_batch *batch)
{
	switch (r) {
	case -EDQUOT:
	case -E2BIG: return batch->reason;
	case -EINVAL:
	case -EBADMSG: return STORE_REFUSED_INVALID;
	case -ENOSPC: return STORE_REFUSED_NO_SPACE;
	default: return STORE_REFUSED_FAILURE;
	}
}

static void count_append(struct local_store *store, int r, const struct store_append_result *result,
			 const struct head_batch *batch)
{
	THREAD_LOCK_SCOPE(&store->state_lock);
	for (size_t i = 0; r == 0 && i < STORE_REFUSAL_COUNT; i++)
		store->stats.refusals[i].count += batch->refused[i];
	store->stats.series_refused += r == 0 ? batch->series_refused : 0;
	if (r < 0) {
		store->stats.refused++;
		store->stats.refusals[reason_of(r, batch)].count++;
	} else if (result->duplicate) {
		store->stats.duplicates++;
	} else {
		store->stats.appends++;
		store->stats.samples += result->samples;
	}
}

/* What the head has of the profile, which is most of it, before anybody has to wait for this append. */
static int look_up(struct local_store *store, struct appending *a)
{
	int r = head_lookup_make(a->profile, a->options->labels, &a->lookup, a->err);
	if (r < 0)
		return r;
	pthread_mutex_lock(&store->state_lock);
	struct head *head = store->head;
	head->refs++;
	pthread_mutex_unlock(&store->state_lock);
	r = head_lookup_find(head, a->profile, &a->lookup, a->err);
	store_head_unref(store, head);
	if (r < 0)
		head_lookup_release(&a->lookup);
	return r;
}

static int append_clean(struct local_store *store, struct appending *a)
{
	int r = look_up(store, a);
	if (r < 0)
		return r;
	pthread_mutex_lock(&store->append_lock);
	r = append_locked(store, a);
	pthread_mutex_unlock(&store->append_lock);
	head_lookup_release(&a->lookup);
	if (r == 0 && store_wants_cut(store))
		store_wake(store);
	return r;
}

/* Strings that are not UTF-8 are stored repaired, in the log, the head and blocks alike. */
static int append_repaired(struct local_store *store, struct appending *a)
{
	_cleanup_(buffer_release) struct buffer payload = {.max = RECORD_BYTES_MAX};
	struct record record;
	bool repaired;
	int r = record_encode(a->profile, a->options, &payload, &repaired, a->err);
	if (r < 0)
		return r;
	r = record_decode(buffer_bytes(&payload), &record, a->err);
	if (r < 0)
		return r;
	a->profile = record.profile;
	r = append_clean(store, a);
	record_release(&record);
	return r;
}

static int append_profile(struct local_store *store, struct appending *a)
{
	return record_is_clean(a->profile) ? append_clean(store, a) : append_repaired(store, a);
}

static int check_profile(const struct local_store *store, struct appending *a)
{
	const struct profile *profile = a->profile;
	const struct store_append_options *options = a->options;
	struct error *err = a->err;
	a->batch.reason = STORE_REFUSED_SIZE;
	if (profile->sample_count && profile->sample_type_count == 0)
		return error_set(err, -EINVAL, "the profile has samples but no sample type");
	if (options->labels && options->labels->count > LIMIT_LABELS_PER_SERIES) {
		a->batch.reason = STORE_REFUSED_LABELS;
		return error_set(err, -E2BIG, "more than %d labels", LIMIT_LABELS_PER_SERIES);
	}
	if (profile->stack_count > store->options.stacks_max) {
		a->batch.reason = STORE_REFUSED_STACKS;
		return error_set(err, -E2BIG, "stacks limit: the profile has %zu stacks, the limit is %zu; send it in parts",
				 profile->stack_count, store->options.stacks_max);
	}
	return 0;
}

static void set_times(const struct local_store *store, struct store_append_options *options)
{
	int64_t window_ns = store->options.late_window_ns, now_ns = options->received_ns;
	if (window_ns < 0 || __builtin_sub_overflow(now_ns, window_ns, &options->least_ns))
		options->least_ns = INT64_MIN;
	if (__builtin_add_overflow(now_ns, STORE_FUTURE_NS, &options->most_ns))
		options->most_ns = INT64_MAX;
}

int local_append(struct local_store *store, const struct profile *profile, const struct store_append_options *options,
		 struct store_append_result *ret, struct error *err)
{
	struct store_append_options resolved = {0};
	struct store_append_result result = {0};
	if (options)
		resolved = *options;
	if (resolved.received_ns == 0)
		resolved.received_ns = time_now_ns();
	set_times(store, &resolved);
	struct appending a = {.profile = profile, .options = &resolved, .result = &result, .err = err};
	int r = check_profile(store, &a);
	if (r == 0)
		r = append_profile(store, &a);
	count_append(store, r, &result, &a.batch);
	if (r == 0 && ret)
		*ret = result;
	return r;
}
