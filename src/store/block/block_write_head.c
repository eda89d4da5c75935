/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writing a head as a block of level 0: its series, samples and pool put into a block's order, then given to the writer.
 *
 * Stacks come in depth-first order of their trie: a stack's callees follow it, so the stacks of one service lie close together
 * and parents are near. Both make small differences, which is what the columns are made of. Stacks that no sample needs are
 * left out. Locations, functions and mappings keep the pool's ids, and a few of them may be left that no sample needs (from
 * refused appends): renumbering would cost more than they do.
 *
 * Samples are distributed to their series by counting, which keeps the order of arrival; sorted by time inside a series only
 * where late data makes it necessary; then by stack inside one time.
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/order.h"
#include "store/block/block_pool.h"
#include "store/block/block_write_int.h"

#define CHUNK_ROWS   8192   /* handed to the writer at once */
#define PROCESS_ROWS 131072 /* of processes, sorted at once */

struct writing {
	struct head *head;
	struct block_writer *writer;
	struct error *err;
	struct series *series; /* those with samples, in block order */
	uint32_t *ranks;       /* head's series -> block's */
	size_t series_count;
	uint32_t *stack_ids;   /* stacks: block's id -> pool's id */
	uint32_t *stack_ranks; /* pool's id -> block's id */
	size_t stack_count;
	uint32_t *rows; /* sample indexes in block order */
	uint64_t *keys; /* scratch of the sort */
	uint64_t *spare;
};

/* ---- series ---- */

/* The series that have samples; ids[i] is the head's. */
static size_t pick_series(const struct head *head, struct series *series, uint32_t *ids)
{
	size_t count = 0;
	for (size_t i = 0; i < head->series_count; i++) {
		if (head->series[i].samples == 0)
			continue;
		series[count] = head->series[i];
		ids[count++] = (uint32_t)i;
	}
	return count;
}

static int write_series(struct writing *w)
{
	const struct head *head = w->head;
	_cleanup_(mem_freep) struct series *picked = mem_alloc_array(head->series_count, sizeof(*picked));
	_cleanup_(mem_freep) uint32_t *ids = mem_alloc_array(head->series_count, sizeof(*ids));
	_cleanup_(mem_freep) uint32_t *order = NULL;
	uint32_t keep;
	w->series = mem_alloc_array(head->series_count, sizeof(*w->series));
	w->ranks = mem_zalloc_array(head->series_count, sizeof(*w->ranks));
	if (!picked || !ids || !w->series || !w->ranks)
		return error_nomem(w->err);
	w->series_count = pick_series(head, picked, ids);
	int r = block_order_of_series(picked, w->series_count, &order, &keep, w->err);
	if (r < 0)
		return r;
	for (size_t i = 0; i < w->series_count; i++) {
		w->series[i] = picked[order[i]];
		w->ranks[ids[order[i]]] = (uint32_t)i;
	}
	return block_writer_series(w->writer, w->series, w->series_count, keep, w->err);
}

/* ---- order of stacks ---- */

/* Marks what samples refer to, and all their callers. */
static void mark_needed(const struct head *head, uint8_t *needed)
{
	const struct profile *pool = head->pool;
	needed[0] = 1;
	for (size_t i = 0; i < head->count; i++)
		needed[head->stacks[i]] = 1;
	for (size_t i = pool->stack_count; i-- > 1;)
		needed[pool->stacks[i].parent] |= needed[i];
}

static int order_stacks(struct writing *w)
{
	const struct profile *pool = w->head->pool;
	size_t count = pool->stack_count;
	_cleanup_(mem_freep) uint8_t *needed = mem_zalloc(count);
	_cleanup_(mem_freep) uint32_t *parents = mem_alloc_array(count, sizeof(*parents));
	w->stack_ranks = mem_zalloc_array(count, sizeof(*w->stack_ranks));
	w->stack_ids = mem_alloc_array(count, sizeof(*w->stack_ids));
	if (!needed || !parents || !w->stack_ranks || !w->stack_ids)
		return error_nomem(w->err);
	mark_needed(w->head, needed);
	for (size_t i = 0; i < count; i++)
		parents[i] = pool->stacks[i].parent;
	return block_rank_stacks(parents, count, needed, w->stack_ranks, w->stack_ids, &w->stack_count, w->err);
}

/* ---- order of samples ---- */

static int compare_times(const void *a, const void *b, void *context)
{
	const struct head *head = context;
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
	return ORDER(head->times[x], head->times[y]) ?: ORDER(x, y);
}

static int compare_numbers(const struct head *head, uint32_t x, uint32_t y)
{
	if (!head->numbers || head->numbers[x] == head->numbers[y])
		return 0;
	return bytes_compare(intern_get(&head->number_texts, head->numbers[x]),
			     intern_get(&head->number_texts, head->numbers[y]));
}

static int compare_links(const void *a, const void *b, void *context)
{
	const struct head *head = context;
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
	const struct profile_link *links = head->pool->links;
	return memcmp(&links[head->links[x]], &links[head->links[y]], sizeof(*links)) ?: compare_numbers(head, x, y) ?: ORDER(x, y);
}

/* Rows of one time and stack, by link, then numbers. */
static void sort_one_stack(const struct writing *w, uint32_t *rows, size_t count)
{
	const struct head *head = w->head;
	bool same = true;
	for (size_t i = 1; i < count && same; i++)
		same = head->links[rows[i]] == head->links[rows[0]] &&
		       (!head->numbers || head->numbers[rows[i]] == head->numbers[rows[0]]);
	if (!same)
		qsort_r(rows, count, sizeof(*rows), compare_links, w->head);
}

static void sort_one_time(struct writing *w, uint32_t *rows, size_t count)
{
	const struct head *head = w->head;
	for (size_t i = 0; i < count; i++)
		w->keys[i] = (uint64_t)w->stack_ranks[head->stacks[rows[i]]] << 32 | rows[i];
	block_sort_by_high(w->keys, w->spare, count);
	for (size_t i = 0; i < count; i++)
		rows[i] = (uint32_t)w->keys[i];
	bool more = head->pool->link_count > 1 || head->numbers;
	for (size_t from = 0, to; more && from < count; from = to) {
		for (to = from + 1; to < count && head->stacks[rows[to]] == head->stacks[rows[from]]; to++)
			;
		sort_one_stack(w, rows + from, to - from);
	}
}

static void sort_one_series(struct writing *w, uint32_t *rows, size_t count)
{
	const struct head *head = w->head;
	bool sorted = true;
	for (size_t i = 1; i < count && sorted; i++)
		sorted = head->times[rows[i - 1]] <= head->times[rows[i]];
	if (!sorted)
		qsort_r(rows, count, sizeof(*rows), compare_times, w->head);
	for (size_t from = 0, to; from < count; from = to) {
		for (to = from + 1; to < count && head->times[rows[to]] == head->times[rows[from]]; to++)
			;
		if (to - from > 1)
			sort_one_time(w, rows + from, to - from);
	}
}

static int order_samples(struct writing *w)
{
	const struct head *head = w->head;
	_cleanup_(mem_freep) size_t *starts = mem_zalloc_array(w->series_count + 1, sizeof(*starts));
	w->rows = mem_alloc_array(head->count, sizeof(*w->rows));
	w->keys = mem_alloc_array(head->count, sizeof(*w->keys));
	w->spare = mem_alloc_array(head->count, sizeof(*w->spare));
	if (!starts || !w->rows || !w->keys || !w->spare)
		return error_nomem(w->err);
	for (size_t i = 0; i < head->count; i++)
		starts[w->ranks[head->series_ids[i]] + 1]++;
	for (size_t i = 1; i <= w->series_count; i++)
		starts[i] += starts[i - 1];
	for (size_t i = 0; i < head->count; i++)
		w->rows[starts[w->ranks[head->series_ids[i]]]++] = (uint32_t)i;
	/* starts[s] is where series s ends now */
	for (size_t s = 0, from = 0; s < w->series_count; from = starts[s++])
		sort_one_series(w, w->rows + from, starts[s] - from);
	return 0;
}

/* ---- samples ---- */

static int write_samples(struct writing *w)
{
	const struct head *head = w->head;
	int32_t series[CHUNK_ROWS], stacks[CHUNK_ROWS];
	_cleanup_(mem_freep) int64_t *numbers = mem_alloc_array(CHUNK_ROWS, 2 * sizeof(*numbers));
	_cleanup_(mem_freep) struct profile_link *links = mem_alloc_array(CHUNK_ROWS, sizeof(*links));
	_cleanup_(mem_freep) uint32_t *texts = mem_alloc_array(CHUNK_ROWS, sizeof(*texts));
	int r = 0;
	if (!numbers || !links || !texts)
		return error_nomem(w->err);
	int64_t *times = numbers, *values = numbers + CHUNK_ROWS;
	for (size_t from = 0; r == 0 && from < head->count; from += CHUNK_ROWS) {
		size_t count = head->count - from < CHUNK_ROWS ? head->count - from : CHUNK_ROWS;
		for (size_t i = 0; i < count; i++) {
			uint32_t row = w->rows[from + i];
			series[i] = (int32_t)w->ranks[head->series_ids[row]];
			stacks[i] = (int32_t)w->stack_ranks[head->stacks[row]];
			times[i] = head->times[row];
			values[i] = head->values[row];
			links[i] = head->pool->links[head->links[row]];
			texts[i] = head->numbers ? head->numbers[row] : 0;
		}
		const struct block_rows rows = {
			count,
			series,
			stacks,
			times,
			values,
			head->pool->link_count > 1 ? links : NULL,
			head->numbers ? texts : NULL,
			&head->number_texts,
		};
		r = block_writer_samples(w->writer, &rows, w->err);
	}
	return r;
}

/* ---- rows of processes ---- */

static int write_rows(struct writing *w, const struct process_row *rows, size_t count)
{
	_cleanup_(mem_freep) int64_t *numbers = mem_alloc_array(CHUNK_ROWS, (1 + BLOCK_PROCESS_COLUMNS) * sizeof(*numbers));
	int32_t series[CHUNK_ROWS];
	int r = 0;
	if (!numbers)
		return error_nomem(w->err);
	for (size_t from = 0; r == 0 && from < count; from += CHUNK_ROWS) {
		size_t part = count - from < CHUNK_ROWS ? count - from : CHUNK_ROWS;
		struct block_process_rows chunk = {.count = part, .series = series, .times = numbers};
		for (size_t i = 0; i < part; i++) {
			series[i] = (int32_t)rows[from + i].series;
			numbers[i] = rows[from + i].time_ns;
		}
		for (size_t c = 0; c < BLOCK_PROCESS_COLUMNS; c++) {
			int64_t *values = numbers + (1 + c) * CHUNK_ROWS;
			for (size_t i = 0; i < part; i++)
				values[i] = rows[from + i].values[c];
			chunk.values[c] = values;
		}
		r = block_writer_processes(w->writer, &chunk, w->err);
	}
	return r;
}

/* How many rows each series of the block has, before columns that came apart are put together. */
static bool count_process_rows(const struct writing *w, size_t *counts)
{
	static const struct head_processes_end start;
	const struct head_processes *processes = &w->head->processes;
	struct head_processes_reader reader;
	struct process_row row;
	head_processes_read(processes, &start, &processes->end, &reader);
	while (head_processes_next(&reader, &row))
		counts[w->ranks[row.series]]++;
	return processes->end.count > 0;
}

static int write_slice(struct writing *w, size_t from, size_t to, uint32_t *numbers)
{
	_cleanup_(mem_freep) struct process_row *rows = NULL;
	size_t count;
	for (size_t i = 0; i < w->head->series_count; i++) {
		size_t rank = w->ranks[i];
		numbers[i] = w->head->series[i].samples && rank >= from && rank < to ? (uint32_t)rank : UINT32_MAX;
	}
	int r = head_processes_sorted(&w->head->processes, numbers, INT64_MIN, INT64_MAX, &rows, &count, w->err);
	return r < 0 ? r : write_rows(w, rows, count);
}

/* A few series at a time: decoded and sorted, rows take three times the memory that they take in the head. */
static int write_processes(struct writing *w)
{
	_cleanup_(mem_freep) size_t *counts = mem_zalloc_array(w->series_count, sizeof(*counts));
	_cleanup_(mem_freep) uint32_t *numbers = mem_alloc_array(w->head->series_count, sizeof(*numbers));
	int r = 0;
	if (!counts || !numbers)
		return error_nomem(w->err);
	if (!count_process_rows(w, counts))
		return 0;
	for (size_t from = 0, to; r == 0 && from < w->series_count; from = to) {
		size_t rows = counts[from];
		for (to = from + 1; to < w->series_count && rows + counts[to] <= PROCESS_ROWS; to++)
			rows += counts[to];
		if (rows)
			r = write_slice(w, from, to, numbers);
	}
	return r;
}

/* ---- the pool's tables ---- */

struct head_tables {
	struct block_tables tables;
	uint8_t *used;
	struct hash128 *pool_hashes, *hashes; /* by the pool's and the block's ids */
};

static int make_stacks(struct writing *w, struct head_tables *t)
{
	const struct profile *pool = w->head->pool;
	size_t count = t->tables.stack_count = w->stack_count;
	t->pool_hashes = mem_alloc_array(pool->stack_count, sizeof(*t->pool_hashes));
	t->hashes = mem_alloc_array(count, sizeof(*t->hashes));
	t->used = mem_zalloc(count);
	if (!t->pool_hashes || !t->hashes || !t->used)
		return error_nomem(w->err);
	int r = profile_hash_stacks(pool, t->pool_hashes, w->err);
	if (r == 0)
		r = block_table_allocate(&t->tables, BLOCK_STACKS, w->err);
	if (r < 0)
		return r;
	for (size_t i = 0; i < count; i++) {
		const struct profile_stack *stack = &pool->stacks[w->stack_ids[i]];
		t->tables.stack_parents[i] = (int32_t)w->stack_ranks[stack->parent];
		t->tables.stack_locations[i] = (int32_t)stack->location;
		t->hashes[i] = t->pool_hashes[w->stack_ids[i]];
	}
	for (size_t i = 0; i < w->head->count; i++)
		t->used[w->stack_ranks[w->head->stacks[i]]] = 1;
	return 0;
}

static int write_tables(struct writing *w)
{
	struct head_tables t = {0};
	int r = make_stacks(w, &t);
	if (r == 0)
		r = block_tables_of_pool(w->head->pool, NULL, &t.tables, w->err);
	if (r == 0)
		r = block_writer_tables(w->writer, &t.tables, t.used, t.hashes, w->err);
	block_tables_release(&t.tables);
	mem_free(t.pool_hashes);
	mem_free(t.hashes);
	mem_free(t.used);
	return r;
}

/* ---- the block ---- */

static int write_all(struct writing *w, struct block_meta *ret)
{
	static int (*const steps[])(struct writing * w) = {write_series,  order_stacks,	   order_samples,
							   write_samples, write_processes, write_tables};
	int r = 0;
	for (size_t i = 0; r == 0 && i < sizeof(steps) / sizeof(*steps); i++)
		r = steps[i](w);
	if (r == 0)
		r = block_writer_appends(w->writer, w->head->appends, w->head->append_count, w->err);
	return r == 0 ? block_writer_finish(w->writer, ret, w->err) : r;
}

int block_write(struct head *head, const char *directory, struct block_meta *ret, struct error *err)
{
	const struct block_write_options options = {.directory = directory,
						    .last_sequence = head->last_sequence,
						    .links = head->pool->link_count > 1,
						    .numbers = head->numbers != NULL};
	_cleanup_(block_writer_freep) struct block_writer *writer = NULL;
	assert(!head_is_empty(head));
	int r = block_writer_new(&options, &writer, err);
	if (r < 0)
		return r;
	struct writing w = {.head = head, .writer = writer, .err = err};
	r = write_all(&w, ret);
	mem_free(w.series);
	mem_free(w.ranks);
	mem_free(w.stack_ids);
	mem_free(w.stack_ranks);
	mem_free(w.rows);
	mem_free(w.keys);
	mem_free(w.spare);
	return r;
}
