/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Recovering the head from the log, and blocks.
 *
 * Blocks: a block that replaces others names them, and was complete on disk before they were removed. So if both are there the
 * crash came in between, and the others go now. Those of a lower generation go first: while the one that replaced them is there
 * they will not come back, whenever this is interrupted.
 *
 * The log.
 * Records go through the same code as appends do. The replayed segments belong to the head and go when it is cut. A new segment
 * is begun in any case: nothing is ever written behind bytes that a crash may have left.
 *
 * Decoding a record and adding it to the head take about the same time, and a start should be quick, so they run side by side:
 * this thread reads and decodes, another one adds, and one decoded record may wait between them.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/limits.h"
#include "base/order.h"
#include "store/store_int.h"

struct handover {
	struct local_store *store;
	pthread_mutex_t lock;
	pthread_cond_t changed;
	struct record record; /* waiting, if is_full */
	uint64_t sequence;
	bool is_full, is_done;
	struct error error; /* of the other thread; code 0 while all is well */
};

/* What was accepted once fits again: limits are those of one append, and those on series and on numbers are not applied here.
 */
static int add_record(struct local_store *store, const struct record *record, uint64_t sequence, struct error *err)
{
	struct head_batch batch;
	struct store_append_options options = record_options(record);
	int r = head_prepare(store->head, record->profile, &options, &batch, err);
	if (r < 0)
		return r;
	head_commit(store->head, &batch, record->profile, &options, sequence);
	if (id_is_set(options.id))
		id_ring_add(&store->ids, options.id, sequence);
	return 0;
}

/* Takes the waiting record; false at the end. */
static bool take_record(struct handover *handover, struct record *ret, uint64_t *ret_sequence)
{
	THREAD_LOCK_SCOPE(&handover->lock);
	while (!handover->is_full && !handover->is_done)
		pthread_cond_wait(&handover->changed, &handover->lock);
	bool taken = handover->is_full;
	if (taken) {
		*ret = handover->record;
		*ret_sequence = handover->sequence;
		handover->is_full = false;
		pthread_cond_signal(&handover->changed);
	}
	return taken;
}

static void *add_records(void *context)
{
	struct handover *handover = context;
	struct record record;
	uint64_t sequence;
	bool failed = false;
	while (take_record(handover, &record, &sequence)) {
		struct error err = {0};
		if (!failed && add_record(handover->store, &record, sequence, &err) < 0) {
			failed = true;
			pthread_mutex_lock(&handover->lock);
			handover->error = err;
			pthread_mutex_unlock(&handover->lock);
		}
		record_release(&record);
	}
	return NULL;
}

static int replay_record(void *context, uint64_t sequence, struct bytes payload, struct error *err)
{
	struct handover *handover = context;
	struct record record;
	int r = record_decode(payload, &record, err);
	if (r < 0)
		return r == -ENOMEM || r == -ENOTSUP ? r : -EBADMSG;
	THREAD_LOCK_SCOPE(&handover->lock);
	while (handover->is_full)
		pthread_cond_wait(&handover->changed, &handover->lock);
	handover->record = record;
	handover->sequence = sequence;
	handover->is_full = true;
	struct error failure = handover->error;
	pthread_cond_signal(&handover->changed);
	return failure.code ? error_set(err, failure.code, "%s", failure.message) : 0;
}

static void replay_problem(void *context, const char *message)
{
	store_problem(((struct handover *)context)->store, "%s", message);
}

static void replay_lost(void *context, int64_t written_ns, uint64_t cut)
{
	struct local_store *store = ((struct handover *)context)->store;
	char what[120];
	/* Nobody was promised what a crash kept from being written; but a file that lost its end looks the same. */
	if (cut)
		snprintf(what, sizeof(what), "the log ended inside a record: its last %llu bytes were cut off",
			 (unsigned long long)cut);
	else
		snprintf(what, sizeof(what), "a piece of the log is damaged and was set aside in quarantine/");
	store->stats.log_cut_bytes += cut;
	gaps_add_log(store, written_ns, what);
}

static uint64_t last_block_sequence(const struct local_store *store)
{
	return store->block_count ? store->blocks[store->block_count - 1]->meta.last_sequence : 0;
}

int store_begin_log(struct local_store *store, struct error *err)
{
	struct log_segment segment = LOG_SEGMENT_NONE;
	uint64_t number = store->log.number;
	int r = log_segment_create(store->log_path, number, &segment, err);
	if (r < 0)
		return r;
	r = log_segment_begin(&segment, store->sequence + 1, err);
	if (r < 0) {
		log_segment_close(&segment);
		log_segment_remove(store->log_path, number, NULL);
		return r;
	}
	store->log = segment;
	store->synced_mark = (struct log_segment_mark){.offset = segment.offset, .head = head_mark(store->head)};
	return 0;
}

/* Begins the segment that appends go to. If the old ones hold nothing that is still needed they go now, or each start would
 * leave one more; the new one's header must be on disk first, because it carries the sequence on. When the disk is full there
 * are still questions to answer, and retention that makes room: then the first append that finds room begins it. */
static int begin_log(struct local_store *store, const struct log_replay_result *result, struct error *err)
{
	struct head *head = store->head;
	struct error why = {0};
	store->log.number = result->next_segment;
	int r = store_begin_log(store, &why);
	if (r == -ENOSPC) {
		store_problem(store, "no data is accepted until space is free: %s", why.message);
		return 0;
	}
	if (r < 0)
		return error_set(err, r, "%s", why.message);
	if (head_is_empty(head))
		r = log_segment_sync(&store->log, err);
	for (; r == 0 && head_is_empty(head) && head->first_segment < store->log.number; head->first_segment++)
		r = log_segment_remove(store->log_path, head->first_segment, err);
	return r;
}

static int replay_log(struct local_store *store, struct log_replay_result *ret, struct error *err)
{
	struct handover handover = {.store = store};
	struct log_replay replay = {.directory = store->log_path,
				    .quarantine = store->quarantine_path,
				    .after = last_block_sequence(store),
				    .on_record = replay_record,
				    .on_problem = replay_problem,
				    .on_lost = replay_lost,
				    .context = &handover};
	pthread_t thread;
	pthread_mutex_init(&handover.lock, NULL);
	pthread_cond_init(&handover.changed, NULL);
	int r = thread_start(&thread, "store replay", add_records, &handover, err);
	if (r == 0) {
		r = log_replay(&replay, ret, err);
		pthread_mutex_lock(&handover.lock);
		handover.is_done = true;
		pthread_cond_signal(&handover.changed);
		pthread_mutex_unlock(&handover.lock);
		pthread_join(thread, NULL);
	}
	if (r == 0 && handover.error.code)
		r = error_set(err, handover.error.code, "%s", handover.error.message);
	pthread_cond_destroy(&handover.changed);
	pthread_mutex_destroy(&handover.lock);
	return r;
}

int store_recover_log(struct local_store *store, struct error *err)
{
	struct log_replay_result result;
	int r = head_new(SIZE_MAX, &store->head, err);
	if (r < 0)
		return r;
	store->head->number_texts_max = SIZE_MAX;
	if (r == 0)
		r = replay_log(store, &result, err);
	if (r < 0)
		return r;
	store->head->series_max = store->options.series_max;
	store->head->number_texts_max = LIMIT_NUMBERS_PER_HEAD;
	store->sequence = store->synced = store->head->last_sequence = result.last_sequence;
	store->head->first_segment = result.first_segment;
	store->head->log_bytes = head_is_empty(store->head) ? 0 : result.bytes;
	store->head->log_records = result.records;
	store->next_segment = result.next_segment + 1;
	return begin_log(store, &result, err);
}

/* ---- blocks ---- */

static bool is_replaced(const struct local_store *store, const struct block *block)
{
	for (size_t i = 0; i < store->block_count; i++) {
		const struct block_meta *meta = &store->blocks[i]->meta;
		for (size_t k = 0; meta->generation > block->meta.generation && k < meta->replace_count; k++)
			if (!strcmp(meta->replaces[k], block->meta.name))
				return true;
	}
	return false;
}

static int compare_generations(const void *a, const void *b)
{
	const struct block *x = *(struct block *const *)a, *y = *(struct block *const *)b;
	return ORDER(x->meta.generation, y->meta.generation);
}

int store_recover_replaced(struct local_store *store, struct error *err)
{
	_cleanup_(mem_freep) struct block **replaced = mem_alloc_array(store->block_count, sizeof(struct block *));
	size_t count = 0, kept = 0;
	if (!replaced)
		return error_nomem(err);
	/* All are found before the first goes: it may itself have replaced another. */
	for (size_t i = 0; i < store->block_count; i++)
		if (is_replaced(store, store->blocks[i]))
			replaced[count++] = store->blocks[i];
	for (size_t i = 0, k = 0; i < store->block_count; i++) {
		if (k < count && replaced[k] == store->blocks[i])
			k++;
		else
			store->blocks[kept++] = store->blocks[i];
	}
	store->block_count = kept;
	sort_array(replaced, count, compare_generations);
	int r = 0;
	for (size_t i = 0; i < count; i++) {
		if (r == 0)
			r = blocks_discard(store, replaced[i]->path, replaced[i]->meta.name, err);
		block_free(replaced[i]);
	}
	return r;
}
