/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One new block out of one or several others.
 *
 *   look      only when something is left out: which series and stacks still have rows then
 *   collect   series and stacks of all inputs are put together, one input after the other; of each remains an array "id in the
 *             input -> id in the new block" for its series and one for its stacks
 *   tables    series and stacks are numbered, and the tables of stacks are written and forgotten
 *   rows      of samples and of processes, merged by (series, time)
 *   finish    the rest of the block is made from what was written: sums of series, labels, totals, rollups
 *
 * Memory. Each step has an upper bound that follows from numbers of rows, which metadata has. Before an input is collected the
 * bound is taken as if all of it were new; when it would pass the limit the block is made of the inputs before it. So the
 * number of inputs follows from memory, and never the other way round: a single block can always be rewritten, because it was
 * made within the same limits.
 */
#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "base/limits.h"
#include "base/order.h"
#include "store/compact/compact_int.h"
#include "store/compact/union.h"

size_t compact_group_rows = COMPACT_GROUP_ROWS;

struct input {
	struct block *block;
	uint8_t *wanted_series, *used_stacks; /* NULL = all */
	struct row_range *drop;
	uint32_t *series, *stacks; /* of the block -> of the new one */
	size_t series_count, stack_count;
};
struct compacting {
	struct compact_job *job;
	struct error *err;
	struct input *inputs;
	struct merged_series *series;
	struct stack_union *stacks;
	struct block_writer *writer;
	bool has_links, has_numbers;
	struct intern texts; /* of numbers */
	struct block_losses lost;
};

static int check_cancel(const struct compacting *c)
{
	return cancel_requested(c->job->cancel) ? error_set(c->err, -ECANCELED, "cancelled") : 0;
}

/* Remembers whose fault it was. */
static int of_input(struct compacting *c, size_t i, int r)
{
	if (r == -EBADMSG)
		c->job->damaged = i;
	return r;
}

static bool has_file(const struct block *block, enum block_file file)
{
	return block_can_use(block, file);
}

/* ---- what is damaged ---- */

/* In passing, before rows are merged: it comes again then. */
static void pass_over(void *context, const struct block *block, const struct block_lost *lost, const char *why)
{
}

static void note_lost(void *context, const struct block *block, const struct block_lost *lost, const char *why)
{
	struct compacting *c = context;
	block_losses_add(&c->lost, lost->rows, lost->from_ns, lost->to_ns);
	if (c->job->on_lost)
		c->job->on_lost(c->job->lost_context, block, lost, why);
}

/* Files of rows that cannot even be opened. Rows of processes are left out as a whole; a block without samples has nothing to
 * be merged, and is kept: for its sums, if it has some, else in the quarantine. */
static int check_file(struct compacting *c, size_t i, enum block_file file)
{
	struct block *block = c->inputs[i].block;
	struct parquet_file *opened = NULL;
	struct error why = {0};
	if (!block->meta.files[file].size)
		return 0;
	int r = block_open_file(block, file, &opened, &why);
	parquet_close(opened);
	if (r == -EBADMSG)
		block->unusable |= 1u << file;
	if (r == -EBADMSG && file == BLOCK_PROCESSES)
		return 0;
	if (r == -EBADMSG && !c->job->drops && block_can_use(block, BLOCK_ROLLUP_ALL))
		r = -ESTALE;
	return r < 0 ? error_set(c->err, of_input(c, i, r), "%s", why.message) : 0;
}

static void lose_file(struct compacting *c, const struct block *block, enum block_file file)
{
	const struct block_meta *meta = &block->meta;
	const struct block_lost lost = {.file = file,
					.group = SIZE_MAX,
					.page = SIZE_MAX,
					.rows = meta->files[file].rows,
					.from_ns = meta->min_ns,
					.to_ns = meta->max_ns};
	if (meta->files[file].size && !has_file(block, file))
		note_lost(c, block, &lost, "the file cannot be read");
}

static int check_files(struct compacting *c)
{
	int r = 0;
	for (size_t i = 0; r == 0 && i < c->job->input_count; i++) {
		r = check_file(c, i, BLOCK_SAMPLES);
		if (r == 0)
			r = check_file(c, i, BLOCK_PROCESSES);
	}
	return r;
}

/* Of those that the new block is made of: what they lack, and what it was made without. */
static void note_losses(struct compacting *c)
{
	for (size_t i = 0; i < c->job->used; i++) {
		const struct block *block = c->inputs[i].block;
		const struct block_losses *before = &block->meta.lost;
		c->lost.names += before->names;
		if (before->rows)
			block_losses_add(&c->lost, before->rows, before->from_ns, before->to_ns);
		lose_file(c, block, BLOCK_PROCESSES);
	}
	block_writer_set_lost(c->writer, &c->lost);
}

/* ---- look ---- */

/* Asks for each series what is left out of it; *ret_any: whether some of it can be there at all. */
static int ask_drops(struct compacting *c, struct input *input, const struct block_series *series, bool *ret_any)
{
	size_t n = series->columns.count;
	struct label items[LIMIT_LABELS_PER_SERIES];
	input->drop = mem_zalloc_array(n, sizeof(*input->drop));
	if (!input->drop)
		return error_nomem(c->err);
	*ret_any = false;
	for (size_t i = 0; i < n; i++) {
		struct labels labels = series_columns_labels(&series->columns, i, NULL, 0, items);
		const struct profile_type *type = &series->columns.types[series->columns.type_ids[i]];
		struct row_range *range = &input->drop[i];
		if (!c->job->drops(c->job->drops_context, type, &labels, range))
			*range = (struct row_range){0};
		*ret_any |= range->from_ns < range->to_ns && range->from_ns <= series->last_ns[i] &&
			    range->to_ns > series->first_ns[i];
	}
	return 0;
}

struct scanning {
	struct input *input;
	bool has_stacks;
};

static int note_rows(void *context, uint8_t *const columns[], size_t count)
{
	struct scanning *scanning = context;
	const int32_t *series = (const void *)columns[0], *stacks = (const void *)columns[2];
	for (size_t i = 0; i < count; i++)
		scanning->input->wanted_series[series[i]] = 1;
	for (size_t i = 0; scanning->has_stacks && i < count; i++)
		scanning->input->used_stacks[stacks[i]] = 1;
	return 0;
}

static int scan_input_rows(struct compacting *c, struct input *input, const struct row_layout *layout, uint64_t *ret_dropped)
{
	/* Ids stay what they are. */
	_cleanup_(mem_freep) uint32_t *same = mem_alloc_array(input->series_count, sizeof(*same));
	struct scanning scanning = {.input = input, .has_stacks = layout->stack_column != SIZE_MAX};
	if (!same)
		return error_nomem(c->err);
	for (size_t i = 0; i < input->series_count; i++)
		same[i] = (uint32_t)i;
	struct row_source_options options = {.layout = layout,
					     .mapping = {.block = input->block,
							 .series = same,
							 .series_count = input->series_count,
							 .stack_count = input->stack_count,
							 .drop = input->drop},
					     .on_lost = pass_over};
	return row_scan(&options, note_rows, &scanning, ret_dropped, c->err);
}

static int scan_input(struct compacting *c, struct input *input)
{
	struct block_series *series;
	uint64_t bytes = 0, processes = 0;
	bool any = false;
	int r = block_series_load(input->block, &series, &bytes, c->err);
	if (r < 0)
		return r;
	input->series_count = series->columns.count;
	input->stack_count = input->block->meta.files[BLOCK_STACKS].rows;
	r = ask_drops(c, input, series, &any);
	block_series_free(series);
	if (r < 0 || !any)
		return r;
	input->wanted_series = mem_zalloc(input->series_count);
	input->used_stacks = mem_zalloc(input->stack_count);
	if (!input->wanted_series || !input->used_stacks)
		return error_nomem(c->err);
	if (has_file(input->block, BLOCK_SAMPLES))
		r = scan_input_rows(c, input, &sample_rows, &c->job->dropped);
	if (r == 0 && has_file(input->block, BLOCK_PROCESSES))
		r = scan_input_rows(c, input, &process_rows, &processes);
	c->job->dropped += processes;
	return r;
}

static int scan(struct compacting *c)
{
	bool any_left = false;
	for (size_t i = 0; i < c->job->input_count; i++) {
		struct input *input = &c->inputs[i];
		int r = check_cancel(c);
		if (r == 0)
			r = of_input(c, i, scan_input(c, input));
		if (r < 0)
			return r;
		any_left |= !input->wanted_series || memchr(input->wanted_series, 1, input->series_count);
	}
	if (c->job->dropped == 0)
		return 2;
	return any_left ? 0 : 1;
}

/* ---- memory ---- */

#define SOURCE_BYTES	   (2ull * 1024 * 1024)	 /* a source: a page of each column, dictionaries, what decoding takes */
#define LINKED_BYTES	   (2ull * 1024 * 1024)	 /* more of it, with links */
#define NUMBERS_BYTES	   (1ull * 1024 * 1024)	 /* with numbers, beside their texts: */
#define TEXT_BYTES	   48			 /* one of them, beside its bytes */
#define OUT_BYTES	   (30ull * 1024 * 1024) /* rows to be handed over, a row group, a chunk being encoded */
#define ROLLUP_BYTES	   (48ull * 1024 * 1024) /* rows of a chunk, segments, runs, row groups */
#define ROLLUP_STACK_BYTES 17
#define LOAD_BYTES	   (3ull * 1024 * 1024) /* what decoding takes while tables are loaded */
#define SAMPLE_BYTES	   24			/* a row of samples, decoded; and more of it with links, with numbers: */
#define DETAIL_BYTES	   33
#define REORDER_BYTES	   20 /* a row of a group that the writer puts into order */

static uint64_t table_bytes(const struct block_meta *meta)
{
	const struct parquet_written *files = meta->files;
	return files[BLOCK_STACKS].rows * 26 + files[BLOCK_LOCATIONS].rows * 32 + files[BLOCK_LINES].rows * 24 +
	       files[BLOCK_FUNCTIONS].rows * 160 + LOAD_BYTES;
}

/* Of samples, in a row group of a block of this level. */
static uint64_t sample_group_rows(unsigned level)
{
	return level == 1 && compact_group_rows > BLOCK_PARTITION_ROWS ? BLOCK_PARTITION_ROWS : compact_group_rows;
}

/* What a row group takes that is read and put into order. */
static uint64_t ordering_bytes(const struct compacting *c, unsigned level, uint64_t rows)
{
	bool has_details = c->has_links || c->has_numbers;
	uint64_t most = sample_group_rows(level), bytes = SAMPLE_BYTES + (has_details ? DETAIL_BYTES : 0);
	return batch_reader_bytes(rows < most ? rows : most, bytes, has_details ? sizeof(struct bytes) : sizeof(int64_t));
}

static int64_t choose_partitions(const struct compacting *c)
{
	const struct compact_job *job = c->job;
	int64_t min_ns = INT64_MAX, max_ns = INT64_MIN;
	for (size_t i = 0; i < job->input_count; i++) {
		const struct block_meta *meta = &job->inputs[i]->meta;
		min_ns = meta->min_ns < min_ns ? meta->min_ns : min_ns;
		max_ns = meta->max_ns > max_ns ? meta->max_ns : max_ns;
	}
	return job->level ? block_partition_choose(min_ns, max_ns) : 0;
}

/* What is left for stacks when input i comes to those that are there; false when there is no room for its rows. */
static bool limits_with(const struct compacting *c, size_t i, struct stack_union_limits *ret)
{
	const struct block_meta *meta = &c->inputs[i].block->meta;
	uint64_t most = c->job->memory_max, fixed = merged_series_bytes(c->series, meta->series);
	bool partitioned = choose_partitions(c) != 0;
	uint64_t rollups = c->job->rollups ? fixed + ROLLUP_BYTES : 0;
	uint64_t ordering = partitioned ? REORDER_BYTES * sample_group_rows(c->job->level) : 0;
	if (partitioned && c->job->rollups)
		rollups += ordering_bytes(c, c->job->level, UINT64_MAX);
	for (size_t k = 0; k <= i; k++) {
		const struct block_meta *input = &c->inputs[k].block->meta;
		fixed += 4 * (input->files[BLOCK_STACKS].rows + input->series);
		ordering += input->partition_ns ? ordering_bytes(c, input->level, input->samples) : 0;
	}
	fixed += c->texts.arena.used_bytes + c->texts.count * TEXT_BYTES;
	uint64_t source = SOURCE_BYTES + (c->has_links ? LINKED_BYTES : 0) + (c->has_numbers ? NUMBERS_BYTES : 0);
	uint64_t rows = fixed + (i + 1) * source + OUT_BYTES + ordering;
	uint64_t collect = fixed + table_bytes(meta);
	if (rows > most || collect >= most || rollups >= most)
		return false;
	ret->bytes = most - collect;
	ret->stacks = c->job->rollups ? (most - rollups) / ROLLUP_STACK_BYTES : SIZE_MAX;
	return true;
}

/* ---- collect ---- */

static int collect_series(struct compacting *c, struct input *input)
{
	struct block_series *series;
	uint64_t bytes = 0;
	int r = block_series_load(input->block, &series, &bytes, c->err);
	if (r < 0)
		return r;
	input->series_count = series->columns.count;
	r = merged_series_add(c->series, series, input->wanted_series, &input->series, c->err);
	block_series_free(series);
	return r;
}

static int collect_stacks(struct compacting *c, struct input *input, const struct stack_union_limits *limits)
{
	struct block_tables *tables = NULL;
	struct block_hashes *hashes = NULL;
	uint64_t bytes = 0;
	int r = block_tables_load(input->block, &tables, &bytes, c->err);
	if (r == 0)
		r = damage_load_hashes(input->block, &hashes, &bytes, c->err);
	if (r == 0) {
		c->lost.names += tables->damaged_rows;
		input->stack_count = tables->stack_count;
		r = stack_union_add(c->stacks, tables, hashes, input->used_stacks, limits, &input->stacks, c->err);
	}
	block_tables_free(tables);
	block_hashes_free(hashes);
	input->used_stacks = mem_free(input->used_stacks);
	return r;
}

/* Rows without their numbers are left out later. */
static int skip_lost(void *context, size_t group, size_t page, size_t rows, const char *why)
{
	return 0;
}

/* The texts of an input's numbers: so many as a block may have, but of the first input all. -E2BIG. */
static int collect_numbers(struct compacting *c, struct parquet_file *file, bool is_first)
{
	static const struct batch_column column[] = {{"numbers", PARQUET_BYTE_ARRAY, false, true}};
	struct batch_reader reader;
	struct bytes last = {0};
	uint32_t id;
	batch_reader_init(&reader);
	reader.on_lost = skip_lost;
	int r = batch_reader_open(&reader, file, column, 1, c->err);
	while (r == 0 && (r = batch_reader_next(&reader, c->err)) > 0) {
		const struct parquet_data *data = &reader.data[0];
		r = 0;
		last = (struct bytes){0}; /* what it pointed at is gone */
		for (size_t i = 0; r == 0 && i < reader.count; i++) {
			bool same = data->bytes[i].data == last.data && data->bytes[i].len == last.len;
			if (same || (data->present && !data->present[i]))
				continue;
			last = data->bytes[i];
			if (intern_add(&c->texts, last.data, last.len, &id) < 0)
				r = error_nomem(c->err);
			else if (!is_first && c->texts.count > LIMIT_NUMBERS_PER_BLOCK)
				r = -E2BIG;
		}
	}
	batch_reader_release(&reader);
	return r;
}

/* Whether a file has links and numbers: only then there are columns for them. */
static int find_details(struct compacting *c, const struct input *input, bool is_first)
{
	struct parquet_file *file = NULL;
	size_t column;
	int r = block_open_file(input->block, BLOCK_SAMPLES, &file, c->err);
	if (r < 0)
		return r;
	c->has_links |= parquet_find_column(file, "trace_id", &column);
	if (parquet_find_column(file, "numbers", &column)) {
		c->has_numbers = true;
		return collect_numbers(c, file, is_first);
	}
	parquet_close(file);
	return 0;
}

/* -E2BIG: it does not fit beside those that are there. */
static int collect_input(struct compacting *c, size_t i)
{
	struct input *input = &c->inputs[i];
	struct stack_union_limits limits;
	int r = check_cancel(c);
	if (r == 0 && has_file(input->block, BLOCK_SAMPLES))
		r = find_details(c, input, i == 0);
	/* The first one comes in whatever it takes. */
	if (r == 0 && i > 0 && !limits_with(c, i, &limits))
		return -E2BIG;
	if (r == 0)
		r = collect_stacks(c, input, i > 0 ? &limits : NULL);
	return r == 0 ? collect_series(c, input) : r;
}

static int collect(struct compacting *c)
{
	struct compact_job *job = c->job;
	int r = merged_series_new(&c->series, c->err);
	if (r == 0)
		r = stack_union_new(&c->stacks, c->err);
	if (r == 0 && intern_init(&c->texts, SIZE_MAX) < 0)
		r = error_nomem(c->err);
	for (size_t i = 0; r == 0 && i < job->input_count; i++) {
		r = of_input(c, i, collect_input(c, i));
		if (r == -E2BIG && i > 0)
			return 0;
		job->used = i + 1;
	}
	return r;
}

/* ---- tables ---- */

static int open_writer(struct compacting *c)
{
	struct compact_job *job = c->job;
	struct block_write_options options = {.directory = job->directory,
					      .level = job->level,
					      .rollups = job->rollups,
					      .partition_ns = choose_partitions(c),
					      .group_rows = job->level ? compact_group_rows : 0,
					      .sample_rows = job->level ? sample_group_rows(job->level) : 0,
					      .cancel = job->cancel};
	size_t count = 0;
	for (size_t i = 0; i < job->used; i++)
		count += 1 + c->inputs[i].block->meta.replace_count;
	_cleanup_(mem_freep) char(*replaces)[BLOCK_NAME_MAX] = mem_zalloc_array(count, sizeof(*replaces));
	if (!replaces)
		return error_nomem(c->err);
	for (size_t i = 0; i < job->used; i++) {
		const struct block *block = c->inputs[i].block;
		memcpy(replaces[options.replace_count++], block->meta.name, BLOCK_NAME_MAX);
		options.replace_count += compact_still_there(block, replaces + options.replace_count);
		if (block->meta.last_sequence > options.last_sequence)
			options.last_sequence = block->meta.last_sequence;
		if (block->meta.generation >= options.generation)
			options.generation = block->meta.generation + 1;
	}
	options.replaces = (const char(*)[BLOCK_NAME_MAX])replaces;
	return block_writer_new(&options, &c->writer, c->err);
}

static int compare_appends(const void *a, const void *b)
{
	const struct head_append *x = a, *y = b;
	return ORDER(x->sequence, y->sequence);
}

/* The newest ids, as many as are remembered. */
static int write_appends(struct compacting *c)
{
	_cleanup_(mem_freep) struct head_append *all = NULL;
	size_t count = 0, capacity = 0;
	for (size_t i = 0; i < c->job->used; i++) {
		struct head_append *appends = NULL;
		size_t more = 0;
		int r = block_read_appends(c->inputs[i].block, &appends, &more, c->err);
		/* Damaged ids are no reason to give the samples up; it was said when the store was opened. */
		if (r < 0 && r != -EBADMSG)
			return r;
		if (array_reserve(&all, &capacity, count + more, SIZE_MAX) < 0) {
			mem_free(appends);
			return error_nomem(c->err);
		}
		if (more)
			memcpy(all + count, appends, more * sizeof(*all));
		mem_free(appends);
		count += more;
		sort_array(all, count, compare_appends);
		if (count > STORE_IDS_KEPT) {
			memmove(all, all + count - STORE_IDS_KEPT, STORE_IDS_KEPT * sizeof(*all));
			count = STORE_IDS_KEPT;
		}
	}
	return block_writer_appends(c->writer, all, count, c->err);
}

static int write_tables(struct compacting *c)
{
	uint32_t keep;
	int r = merged_series_finish(c->series, &keep, c->err);
	if (r == 0)
		r = stack_union_finish(c->stacks, c->err);
	if (r == 0)
		r = open_writer(c);
	if (r == 0)
		r = block_writer_series(c->writer, merged_series_items(c->series), merged_series_count(c->series), keep,
					c->err);
	if (r == 0)
		r = block_writer_tables(c->writer, stack_union_tables(c->stacks), stack_union_used(c->stacks),
					stack_union_hashes(c->stacks), c->err);
	for (size_t i = 0; r == 0 && i < c->job->used; i++) {
		struct input *input = &c->inputs[i];
		merged_series_renumber(c->series, input->series, input->series_count);
		stack_union_renumber(c->stacks, input->stacks, input->stack_count);
	}
	c->stacks = stack_union_free(c->stacks);
	return r == 0 ? write_appends(c) : r;
}

/* ---- rows ---- */

static int merge_rows(struct compacting *c, const struct row_layout *layout)
{
	struct row_source *sources[COMPACT_INPUTS_MAX] = {0};
	size_t of[COMPACT_INPUTS_MAX];
	struct row_merge merge = {
		.layout = layout, .sources = sources, .has_links = c->has_links, .writer = c->writer, .cancel = c->job->cancel};
	struct intern *texts = c->has_numbers && layout == &sample_rows ? &c->texts : NULL;
	int r = 0;
	merge.texts = texts;
	for (size_t i = 0; r == 0 && i < c->job->used; i++) {
		const struct input *input = &c->inputs[i];
		struct row_source_options options = {.layout = layout,
						     .mapping = {.block = input->block,
								 .series = input->series,
								 .series_count = input->series_count,
								 .stacks = input->stacks,
								 .stack_count = input->stack_count,
								 .drop = input->wanted_series ? input->drop : NULL},
						     .directory = c->job->directory,
						     .batch_pages = c->job->used > 4 ? 1 : BATCH_PAGES,
						     .need_links = c->has_links && layout == &sample_rows,
						     .texts = texts,
						     .on_lost = note_lost,
						     .context = c};
		if (!has_file(input->block, layout->file))
			continue;
		r = check_cancel(c);
		if (r == 0)
			r = of_input(c, i, row_source_open(&options, &sources[merge.source_count], c->err));
		if (r == 0)
			of[merge.source_count++] = i;
	}
	if (r == 0 && merge.source_count) {
		r = row_merge_run(&merge, c->err);
		if (r == -EBADMSG && merge.failed != SIZE_MAX)
			c->job->damaged = of[merge.failed];
	}
	for (size_t i = 0; i < merge.source_count; i++)
		row_source_close(sources[i]);
	c->job->rows_in += merge.rows_in;
	return r;
}

/* ---- all ---- */

static int write_all(struct compacting *c, struct block_meta *ret)
{
	int r = check_files(c);
	if (r == 0 && c->job->drops)
		r = scan(c);
	if (r == 0)
		r = collect(c);
	if (r != 0)
		return r;
	r = write_tables(c);
	if (r == 0)
		r = merge_rows(c, &sample_rows);
	if (r == 0)
		r = merge_rows(c, &process_rows);
	for (size_t i = 0; i < c->job->input_count; i++) {
		c->inputs[i].series = mem_free(c->inputs[i].series);
		c->inputs[i].stacks = mem_free(c->inputs[i].stacks);
	}
	if (r < 0)
		return r;
	note_losses(c);
	if (c->job->rows_in == 0 && c->lost.rows) {
		c->job->damaged = 0;
		return error_set(c->err, -EBADMSG, "none of its rows can be read");
	}
	return block_writer_finish(c->writer, ret, c->err);
}

int compact_write(struct compact_job *job, struct block_meta *ret, struct error *err)
{
	struct compacting c = {.job = job, .err = err};
	job->damaged = SIZE_MAX;
	job->used = 0;
	job->dropped = job->rows_in = 0;
	if (job->input_count > COMPACT_INPUTS_MAX)
		job->input_count = COMPACT_INPUTS_MAX;
	c.inputs = mem_zalloc_array(job->input_count, sizeof(*c.inputs));
	if (!c.inputs)
		return error_nomem(err);
	for (size_t i = 0; i < job->input_count; i++)
		c.inputs[i].block = job->inputs[i];
	int r = write_all(&c, ret);
	for (size_t i = 0; i < job->input_count; i++) {
		mem_free(c.inputs[i].wanted_series);
		mem_free(c.inputs[i].used_stacks);
		mem_free(c.inputs[i].drop);
		mem_free(c.inputs[i].series);
		mem_free(c.inputs[i].stacks);
	}
	mem_free(c.inputs);
	block_writer_free(c.writer);
	merged_series_free(c.series);
	stack_union_free(c.stacks);
	if (c.texts.count)
		intern_release(&c.texts);
	return r;
}
