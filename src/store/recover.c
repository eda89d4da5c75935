/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Recovering the head from the log, and blocks.
 *
 * Blocks: a block that replaces others names them, and was complete on disk before they were removed. So if both are there the
 * crash came in between, and the others go now. Those of a lower generation go first: while the one that replaced them is there
 * they will not come back, whenever this is interrupted.
 *
 * The log.
 * Its segments become one head, which takes no more appends: it is read, and written as a block when it is old or large enough,
 * as a head that was cut. Appends go to a new head with a new segment, so that nothing is ever written behind bytes that a
 * crash may have left, and each segment's records refer to that segment only (head/delta.c).
 *
 * What a damaged record costs: what it held, and later ones that refer to what only it held. Both are said.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/limits.h"
#include "base/order.h"
#include "store/store_int.h"

struct recovery {
	struct local_store *store;
	struct delta_reader reader;
	int64_t lost_ns; /* when the segment was written to last of which something is lost */
};

/* A record of an older version. What was accepted once fits again: limits are those of one append, and those on series and on
 * numbers are not applied here. */
static int add_record(struct local_store *store, const struct record *record, uint64_t sequence, struct error *err)
{
	struct head_batch batch;
	struct store_append_options options = record_options(record);
	int r = head_prepare(store->head, record->profile, &options, NULL, &batch, err);
	if (r < 0)
		return r;
	head_commit(store->head, &batch, options.id, sequence);
	if (id_is_set(options.id))
		id_ring_add(&store->ids, options.id, sequence);
	return 0;
}

static int replay_old_record(struct local_store *store, uint64_t sequence, struct bytes payload, struct error *err)
{
	struct record record;
	int r = record_decode(payload, &record, err);
	if (r < 0)
		return r == -ENOMEM || r == -ENOTSUP ? r : -EBADMSG;
	r = add_record(store, &record, sequence, err);
	record_release(&record);
	return r;
}

static int replay_record(void *context, uint64_t sequence, struct bytes payload, struct error *err)
{
	struct recovery *recovery = context;
	struct delta_reader *reader = &recovery->reader;
	if (delta_version(payload) < DELTA_VERSION)
		return replay_old_record(recovery->store, sequence, payload, err);
	int r = delta_read(reader, sequence, payload, err);
	if (r == 0 && id_is_set(reader->id))
		id_ring_add(&recovery->store->ids, reader->id, sequence);
	return r;
}

static void replay_problem(void *context, const char *message)
{
	store_problem(((struct recovery *)context)->store, "%s", message);
}

/* Of the segment that ends. */
static void report_lost_rows(struct recovery *recovery)
{
	uint64_t rows = recovery->reader.lost_rows;
	recovery->reader.lost_rows = 0;
	if (!rows)
		return;
	recovery->store->stats.log_lost_rows += rows;
	store_problem(recovery->store, "the log: %llu samples of appends that refer to damaged or missing records are lost",
		      (unsigned long long)rows);
	gaps_add_log(recovery->store, recovery->lost_ns, rows, "samples in the log refer to records of it that are damaged");
}

static int replay_segment(void *context, uint64_t first_sequence, struct error *err)
{
	struct recovery *recovery = context;
	report_lost_rows(recovery);
	return delta_reader_begin(&recovery->reader, first_sequence, err);
}

static void replay_lost(void *context, const struct log_lost *lost)
{
	struct recovery *recovery = context;
	struct local_store *store = recovery->store;
	char what[120];
	recovery->lost_ns = lost->written_ns;
	/* Nobody was promised what a crash kept from being written; but a file that lost its end looks the same. */
	if (lost->is_cut && lost->record_bytes)
		snprintf(what, sizeof(what),
			 "the log ended inside a record: its last %llu bytes, of a record of %llu, were cut off",
			 (unsigned long long)lost->bytes, (unsigned long long)lost->record_bytes);
	else if (lost->is_cut)
		snprintf(what, sizeof(what), "the log ended inside a record: its last %llu bytes were cut off",
			 (unsigned long long)lost->bytes);
	else
		snprintf(what, sizeof(what), "a piece of the log is damaged and was set aside in quarantine/");
	gaps_add_log(store, lost->written_ns, 0, what);
}

/* What replaying the log said of what is not there. */
static void note_lost(struct local_store *store, const struct log_replay_result *result)
{
	struct store_stats *stats = &store->stats;
	stats->log_cut_bytes = result->cut_bytes;
	stats->log_cut_record_bytes = result->cut_record_bytes;
	stats->log_lost_records = result->lost_records;
	stats->log_lost_bytes = result->lost_bytes;
	stats->corrected_bits += result->corrected_bits;
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
	store_mark_synced(store);
	return 0;
}

/* Begins the segment that appends go to. If the old ones hold nothing that is still needed they go now, or each start would
 * leave one more; the new one's header must be on disk first, because it carries the sequence on. When the disk is full there
 * are still questions to answer, and retention that makes room: then the first append that finds room begins it. */
static int begin_log(struct local_store *store, const struct log_replay_result *result, struct error *err)
{
	struct error why = {0};
	uint64_t number = result->first_segment;
	store->log.number = result->next_segment;
	int r = store_begin_log(store, &why);
	if (r == -ENOSPC) {
		store_problem(store, "no data is accepted until space is free: %s", why.message);
		return 0;
	}
	if (r < 0)
		return error_set(err, r, "%s", why.message);
	if (!store->frozen)
		r = log_segment_sync(&store->log, err);
	for (; r == 0 && !store->frozen && number < store->log.number; number++)
		r = log_segment_remove(store->log_path, number, err);
	return r;
}

static int replay_log(struct local_store *store, struct log_replay_result *ret, struct error *err)
{
	struct recovery recovery = {.store = store};
	struct log_replay replay = {.directory = store->log_path,
				    .quarantine = store->quarantine_path,
				    .after = last_block_sequence(store),
				    .on_segment = replay_segment,
				    .on_record = replay_record,
				    .on_problem = replay_problem,
				    .on_lost = replay_lost,
				    .context = &recovery};
	delta_reader_init(&recovery.reader, store->head);
	int r = log_replay(&replay, ret, err);
	report_lost_rows(&recovery);
	delta_reader_release(&recovery.reader);
	note_lost(store, ret);
	return r;
}

/* What was replayed stays as it is; appends get a head of their own. */
static int freeze_replayed(struct local_store *store, const struct log_replay_result *result, struct error *err)
{
	struct head *replayed = store->head;
	int r = head_new(store->options.series_max, &store->head, err);
	if (r < 0) {
		store->head = replayed;
		return r;
	}
	store->head->last_sequence = result->last_sequence;
	store->head->first_segment = result->next_segment;
	if (head_is_empty(replayed)) {
		head_free(replayed);
		return 0;
	}
	replayed->last_sequence = result->last_sequence;
	replayed->first_segment = result->first_segment;
	replayed->last_segment = result->next_segment - 1;
	replayed->log_bytes = result->bytes;
	replayed->log_records = result->records;
	store->frozen = replayed;
	store->recovered = true;
	return 0;
}

int store_recover_log(struct local_store *store, struct error *err)
{
	struct log_replay_result result;
	int r = head_new(SIZE_MAX, &store->head, err);
	if (r < 0)
		return r;
	store->head->number_texts_max = SIZE_MAX;
	r = replay_log(store, &result, err);
	if (r < 0)
		return r;
	store->sequence = store->synced = result.last_sequence;
	store->next_segment = result.next_segment + 1;
	r = freeze_replayed(store, &result, err);
	return r < 0 ? r : begin_log(store, &result, err);
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
