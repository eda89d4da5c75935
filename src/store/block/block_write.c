/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writing a block. The files, columns and their reasons are in docs/format.md.
 *
 * Rows come sorted and in pieces of any size, and go out in row groups; what they add up to by series is noted in passing,
 * because series.parquet is written last. Row groups are only written when one more row is there, so that equal rows meet even
 * where a group ends.
 */
#include "store/block/block_write_int.h"

#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <string.h>

#include "base/alloc.h"
#include "base/io.h"
#include "base/sum.h"
#include "base/time.h"

#define GROUP_ROWS_MAX (4u * 1024 * 1024)

int64_t block_partition_ns = BLOCK_PARTITION_NS;

/* ---- the writer ---- */

int block_writer_new(const struct block_write_options *options, struct block_writer **ret, struct error *err)
{
	_cleanup_(block_writer_freep) struct block_writer *writer = mem_zalloc(sizeof(*writer));
	if (!writer)
		return error_nomem(err);
	writer->options = *options;
	writer->options.replaces = NULL;
	writer->group_rows = options->group_rows ? options->group_rows : PARQUET_GROUP_ROWS;
	writer->sample_rows = options->sample_rows ? options->sample_rows : writer->group_rows;
	assert(writer->group_rows <= GROUP_ROWS_MAX && writer->sample_rows <= GROUP_ROWS_MAX);
	assert(options->level < BLOCK_LEVELS);
	writer->directory = mem_strdup(options->directory);
	writer->stack_max = -1;
	writer->meta = (struct block_meta){
		.version = BLOCK_VERSION,
		.level = options->level,
		.generation = options->generation,
		.created_ns = time_now_ns(),
		.min_ns = INT64_MAX,
		.max_ns = INT64_MIN,
		.last_sequence = options->last_sequence,
		.partition_ns = options->partition_ns,
		.labels_complete = true,
	};
	int r = writer->directory ? 0 : error_nomem(err);
	if (r == 0)
		r = block_meta_set_replaces(&writer->meta, options->replaces, options->replace_count, err);
	if (r < 0)
		return r;
	writer->options.directory = writer->directory;
	*ret = TAKE(writer);
	return 0;
}

struct block_writer *block_writer_free(struct block_writer *writer)
{
	if (!writer)
		return NULL;
	block_group_release(&writer->samples);
	block_group_release(&writer->processes);
	series_columns_release(&writer->columns);
	block_meta_release(&writer->meta);
	block_partitioner_release(&writer->partitioner);
	mem_free(writer->links);
	mem_free(writer->linked);
	mem_free(writer->numbers);
	mem_free(writer->numbered);
	mem_free(writer->sums);
	mem_free(writer->rollup_ids);
	mem_free(writer->gauges);
	mem_free(writer->directory);
	return mem_free(writer);
}

int block_write_check_cancel(const atomic_bool *cancel, struct error *err)
{
	if (cancel_requested(cancel))
		return error_set(err, -ECANCELED, "writing the block was cancelled");
	return 0;
}

/* ---- files ---- */

static int create_file(const char *directory, const struct block_file_layout *layout, struct parquet_writer **ret,
		       struct error *err)
{
	char path[PATH_MAX];
	static const struct parquet_key_value key_values[] = {{"wick.block_version", "3"}};
	struct parquet_write_options options = {.columns = layout->columns,
						.column_count = layout->column_count,
						.sorted_by = layout->sorted_by,
						.sorted_by_count = layout->sorted_by_count,
						.key_values = key_values,
						.key_value_count = 1,
						.page_rows = layout->page_rows,
						.zstd_level = layout->zstd_level,
						.mode = 0640};
	int r = io_join_path(path, sizeof(path), directory, block_file_names[layout->file]);
	return r < 0 ? error_set_errno(err, r, "%s", directory) : parquet_writer_open(path, &options, ret, err);
}

int block_file_open(struct block_writer *writer, const struct block_file_layout *layout, struct parquet_writer **ret,
		    struct error *err)
{
	int r = block_write_check_cancel(writer->options.cancel, err);
	return r < 0 ? r : create_file(writer->directory, layout, ret, err);
}

int block_file_finish(struct block_writer *writer, enum block_file file, struct parquet_writer *from, struct error *err)
{
	return parquet_writer_finish(from, &writer->meta.files[file], err);
}

int block_group_open(struct block_group *group, const char *directory, const struct block_file_layout *layout, size_t capacity,
		     const atomic_bool *cancel, struct error *err)
{
	*group = (struct block_group){
		.file = layout->file, .cancel = cancel, .capacity = capacity, .column_count = layout->column_count};
	assert(layout->column_count <= BLOCK_GROUP_COLUMNS_MAX);
	for (size_t i = 0; i < group->column_count; i++) {
		group->columns[i] = mem_alloc_array(capacity, block_value_size(layout->columns[i].type));
		group->values[i].booleans = group->columns[i]; /* or whatever it has */
		if (!group->columns[i])
			return error_nomem(err);
	}
	int r = block_write_check_cancel(cancel, err);
	return r < 0 ? r : create_file(directory, layout, &group->writer, err);
}

int block_group_flush(struct block_group *group, struct error *err)
{
	size_t count = group->count, starts = group->page_start_count;
	group->count = group->page_start_count = 0;
	int r = block_write_check_cancel(group->cancel, err);
	return r < 0 ? r : parquet_writer_group_pages(group->writer, group->values, count, group->page_starts, starts, err);
}

int block_group_finish(struct block_group *group, struct block_meta *meta, struct error *err)
{
	int r = block_group_flush(group, err);
	if (r == 0)
		r = parquet_writer_finish(group->writer, &meta->files[group->file], err);
	block_group_release(group);
	return r;
}

void block_group_release(struct block_group *group)
{
	parquet_writer_free(group->writer);
	for (size_t i = 0; i < group->column_count; i++)
		mem_free(group->columns[i]);
	*group = (struct block_group){0};
}

void *block_take(void **scratch, size_t count, size_t size)
{
	uint8_t *taken = *scratch;
	*scratch = taken + count * size;
	return taken;
}

#define TABLE_COLUMNS_MAX 16

int block_table_write(struct block_writer *writer, const struct block_table *table, struct error *err)
{
	static const uint32_t first_column[] = {0};
	_cleanup_(parquet_writer_freep) struct parquet_writer *file = NULL;
	size_t most = table->rows < PARQUET_GROUP_ROWS ? table->rows : PARQUET_GROUP_ROWS;
	_cleanup_(mem_freep) void *scratch = mem_alloc_array(most, table->scratch_row_size);
	struct parquet_values values[TABLE_COLUMNS_MAX] = {0};
	const struct block_file_layout layout = {
		.file = table->file,
		.columns = table->columns,
		.column_count = table->column_count,
		.sorted_by = first_column,
		.sorted_by_count = 1,
	};
	assert(table->column_count <= TABLE_COLUMNS_MAX);
	if (!scratch)
		return error_nomem(err);
	int r = block_file_open(writer, &layout, &file, err);
	for (size_t from = 0; r == 0 && from < table->rows; from += most) {
		size_t count = table->rows - from < most ? table->rows - from : most;
		r = block_write_check_cancel(writer->options.cancel, err);
		if (r < 0)
			break;
		table->fill(table->context, scratch, from, count, values);
		r = parquet_writer_group(file, values, count, err);
	}
	return r == 0 ? block_file_finish(writer, table->file, file, err) : r;
}

/* ---- series ---- */

/* Series of one rollup are neighbours, so ids rise where one of the kept labels or the type changes. A gauge is a rollup by
 * itself: see rollup.c. */
static int number_rollups(struct block_writer *writer, struct error *err)
{
	const struct series_columns *columns = &writer->columns;
	int32_t *ids = writer->rollup_ids = mem_zalloc_array(writer->series_count, sizeof(*ids));
	bool *gauges = writer->gauges = mem_zalloc_array(writer->series_count, sizeof(*gauges));
	_cleanup_(mem_freep) bool *starts = mem_zalloc_array(writer->series_count, sizeof(*starts));
	if (!ids || !gauges || !starts)
		return error_nomem(err);
	for (size_t i = 0; i < writer->series_count; i++) {
		gauges[i] = profile_type_is_gauge(&columns->types[columns->type_ids[i]]);
		starts[i] = gauges[i] || i == 0 || columns->type_ids[i] != columns->type_ids[i - 1];
	}
	for (size_t k = 0; rollup_label_names[k]; k++) {
		const struct series_column *column = series_columns_find(columns, rollup_label_names[k]);
		for (size_t i = 1; column && writer->keep & 1u << k && i < writer->series_count; i++)
			starts[i] |= column->codes[i] != column->codes[i - 1];
	}
	for (size_t i = 1; i < writer->series_count; i++)
		ids[i] = ids[i - 1] + starts[i];
	writer->rollup_count = writer->series_count ? (size_t)ids[writer->series_count - 1] + 1 : 0;
	return 0;
}

int block_writer_series(struct block_writer *writer, const struct series *series, size_t count, uint32_t keep,
			struct error *err)
{
	assert(!writer->series);
	if (count > INT32_MAX)
		return error_set(err, -E2BIG, "a block can hold %d series, not %zu", INT32_MAX, count);
	int r = series_columns_build(series, count, &writer->columns, err);
	if (r < 0)
		return r;
	writer->series = series;
	writer->series_count = count;
	writer->keep = keep;
	writer->sums = mem_zalloc_array(count, sizeof(*writer->sums));
	if (!writer->sums)
		return error_nomem(err);
	return writer->options.rollups ? number_rollups(writer, err) : 0;
}

/* What all rows are counted in. Times of a series rise. */
static inline void count_row(struct block_writer *writer, struct series_sums *sums, int64_t time)
{
	if (sums->rows == 0 || time < sums->first_ns)
		sums->first_ns = time;
	if (sums->rows == 0 || time > sums->last_ns)
		sums->last_ns = time;
	sums->rows++;
	writer->times += time;
	writer->rows++;
}

static int out_of_order(struct error *err, const char *what)
{
	return error_set(err, -EINVAL, "%s of a block are not in order", what);
}

/* ---- samples ---- */

#define SAMPLE_COLUMNS 4
static const struct parquet_column sample_columns[SAMPLE_COLUMNS] = {
	{.name = "series_id", .type = PARQUET_INT32},
	{.name = "stack_id", .type = PARQUET_INT32},
	{.name = "time_ns", .type = PARQUET_INT64, .logical = PARQUET_TIMESTAMP_NS},
	{.name = "value", .type = PARQUET_INT64},
};
/* Only with options.links */
#define LINK_COLUMNS 2
static const struct parquet_column link_columns[LINK_COLUMNS] = {
	{.name = "trace_id", .type = PARQUET_FIXED, .type_length = 16, .optional = true},
	{.name = "span_id", .type = PARQUET_FIXED, .type_length = 8, .optional = true},
};
/* Only with options.numbers, behind the others */
static const struct parquet_column numbers_column = {
	.name = "numbers", .type = PARQUET_BYTE_ARRAY, .logical = PARQUET_STRING, .optional = true};

static int make_room_for_links(struct block_writer *writer, struct error *err)
{
	writer->links = mem_alloc_array(writer->sample_rows, sizeof(*writer->links));
	writer->linked = mem_alloc(writer->sample_rows);
	return writer->links && writer->linked ? 0 : error_nomem(err);
}

static int make_room_for_numbers(struct block_writer *writer, struct error *err)
{
	writer->numbers = mem_alloc_array(writer->sample_rows, sizeof(*writer->numbers));
	writer->numbered = mem_alloc(writer->sample_rows);
	return writer->numbers && writer->numbered ? 0 : error_nomem(err);
}

static int open_samples(struct block_writer *writer, const struct block_rows *rows, struct error *err)
{
	static const uint32_t sorted_by[] = {SERIES, TIME, STACK};
	struct parquet_column columns[SAMPLE_COLUMNS + LINK_COLUMNS + 1];
	bool links = writer->options.links |= rows->links != NULL, numbers = writer->options.numbers |= rows->numbers != NULL;
	struct block_group *group = &writer->samples;
	struct block_file_layout layout = {
		.file = BLOCK_SAMPLES,
		.columns = columns,
		.column_count = SAMPLE_COLUMNS,
		.sorted_by = sorted_by,
		.sorted_by_count = 3,
		.page_rows = writer->options.partition_ns ? block_partition_page_rows(writer->sample_rows) : 0,
		.zstd_level = writer->options.partition_ns ? BLOCK_PARTITION_ZSTD_LEVEL : 0};
	memcpy(columns, sample_columns, sizeof(sample_columns));
	if (links) {
		memcpy(columns + layout.column_count, link_columns, sizeof(link_columns));
		layout.column_count += LINK_COLUMNS;
	}
	if (numbers) {
		writer->numbers_column = layout.column_count++;
		columns[writer->numbers_column] = numbers_column;
	}
	int r = links ? make_room_for_links(writer, err) : 0;
	if (r == 0 && numbers)
		r = make_room_for_numbers(writer, err);
	if (r == 0)
		r = block_group_open(group, writer->directory, &layout, writer->sample_rows, writer->options.cancel, err);
	if (links)
		group->values[TRACE].present = group->values[SPAN].present = writer->linked;
	if (numbers)
		group->values[writer->numbers_column].present = writer->numbered;
	return r;
}

static const struct profile_link no_link;

static uint32_t numbers_at(const struct block_rows *rows, size_t at)
{
	return rows->numbers ? rows->numbers[at] : 0;
}

/* Equal texts have equal ids. */
static int compare_numbers(uint32_t last, const struct block_rows *rows, size_t at)
{
	uint32_t numbers = numbers_at(rows, at);
	if (last == numbers)
		return 0;
	if (!last || !numbers)
		return last ? 1 : -1;
	return bytes_compare(intern_get(rows->texts, last), intern_get(rows->texts, numbers));
}

/* < 0: the last row of the group comes before row `at`, 0: it is the same, > 0: it comes after it. */
static inline int compare_to_last(const struct block_writer *writer, const struct block_rows *rows, size_t at)
{
	const struct block_group *group = &writer->samples;
	const int32_t *series = group->columns[SERIES], *stacks = group->columns[STACK];
	const int64_t *times = group->columns[TIME];
	size_t last = group->count - 1;
	if (series[last] != rows->series[at])
		return series[last] < rows->series[at] ? -1 : 1;
	if (times[last] != rows->times[at])
		return times[last] < rows->times[at] ? -1 : 1;
	if (stacks[last] != rows->stacks[at])
		return stacks[last] < rows->stacks[at] ? -1 : 1;
	int order =
		writer->links ? memcmp(&writer->links[last], rows->links ? &rows->links[at] : &no_link, sizeof(no_link)) : 0;
	return order || !writer->numbers ? order : compare_numbers(writer->numbers[last], rows, at);
}

static void add_link(struct block_writer *writer, const struct block_rows *rows, size_t row)
{
	size_t at = writer->samples.count;
	struct profile_link *link = &writer->links[at];
	struct bytes *traces = writer->samples.columns[TRACE], *spans = writer->samples.columns[SPAN];
	*link = rows->links ? rows->links[row] : no_link;
	writer->linked[at] = memcmp(link, &no_link, sizeof(no_link)) != 0;
	traces[at] = (struct bytes){link->trace_id, sizeof(link->trace_id)};
	spans[at] = (struct bytes){link->span_id, sizeof(link->span_id)};
}

static void add_numbers(struct block_writer *writer, struct series_sums *sums, const struct block_rows *rows, size_t row)
{
	size_t at = writer->samples.count;
	struct bytes *texts = writer->samples.columns[writer->numbers_column];
	uint32_t numbers = writer->numbers[at] = numbers_at(rows, row);
	writer->numbered[at] = numbers != 0;
	texts[at] = numbers ? intern_get(rows->texts, numbers) : (struct bytes){0};
	sums->numbers += numbers != 0;
}

/* Returns 0, or negative. */
static int add_sample(struct block_writer *writer, const struct block_rows *rows, size_t row, struct error *err)
{
	struct block_group *group = &writer->samples;
	int64_t *values = group->columns[VALUE];
	struct series_sums *sums = &writer->sums[rows->series[row]];
	int order = group->count ? compare_to_last(writer, rows, row) : -1;
	if (order > 0)
		return out_of_order(err, "samples");
	sum_to(&sums->total, rows->values[row]);
	if (order == 0) {
		int64_t *value = &values[group->count - 1];
		sum_to(value, rows->values[row]);
		return 0;
	}
	if (group->count == group->capacity) {
		int r = block_flush_samples(writer, false, err);
		if (r < 0)
			return r;
	}
	if (writer->links)
		add_link(writer, rows, row);
	if (writer->numbers)
		add_numbers(writer, sums, rows, row);
	size_t at = group->count++;
	((int32_t *)group->columns[SERIES])[at] = rows->series[row];
	((int32_t *)group->columns[STACK])[at] = rows->stacks[row];
	((int64_t *)group->columns[TIME])[at] = rows->times[row];
	values[at] = rows->values[row];
	writer->stack_max = rows->stacks[row] > writer->stack_max ? rows->stacks[row] : writer->stack_max;
	writer->meta.samples++;
	count_row(writer, sums, rows->times[row]);
	return 0;
}

static int check_series(const struct block_writer *writer, const int32_t *series, size_t count, struct error *err)
{
	return block_ids_are_below(series, count, writer->series_count) ? 0
									: error_set(err, -EINVAL, "a row has a missing series");
}

int block_writer_samples(struct block_writer *writer, const struct block_rows *rows, struct error *err)
{
	int r = rows->count ? check_series(writer, rows->series, rows->count, err) : 0;
	if (r == 0 && rows->count && !writer->samples.writer)
		r = open_samples(writer, rows, err);
	if (r == 0 && rows->links && !writer->links)
		r = error_set(err, -EINVAL, "links appear after the first rows and were not declared");
	if (r == 0 && rows->numbers && !writer->numbers)
		r = error_set(err, -EINVAL, "numbers appear after the first rows and were not declared");
	for (size_t i = 0; r == 0 && i < rows->count; i++)
		r = add_sample(writer, rows, i, err);
	return r;
}

static int finish_samples(struct block_writer *writer, struct error *err)
{
	if (!writer->samples.writer)
		return 0;
	int r = block_flush_samples(writer, true, err);
	block_partitioner_release(&writer->partitioner);
	return r == 0 ? block_group_finish(&writer->samples, &writer->meta, err) : r;
}

/* ---- processes ---- */

#define PROCESS_COLUMNS (2 + BLOCK_PROCESS_COLUMNS)
_Static_assert(BLOCK_PROCESS_COLUMNS == PROCESS_STATS_COLUMNS, "a column for each");

static int open_processes(struct block_writer *writer, struct error *err)
{
	static const uint32_t sorted_by[] = {0, 1};
	struct parquet_column columns[PROCESS_COLUMNS] = {
		{.name = "series_id", .type = PARQUET_INT32},
		{.name = "time_ns", .type = PARQUET_INT64, .logical = PARQUET_TIMESTAMP_NS},
	};
	for (size_t i = 0; i < BLOCK_PROCESS_COLUMNS; i++)
		columns[2 + i] = (struct parquet_column){.name = process_stats_columns[i].column, .type = PARQUET_INT64};
	const struct block_file_layout layout = {.file = BLOCK_PROCESSES,
						 .columns = columns,
						 .column_count = PROCESS_COLUMNS,
						 .sorted_by = sorted_by,
						 .sorted_by_count = 2};
	return block_group_open(&writer->processes, writer->directory, &layout, writer->group_rows, writer->options.cancel,
				err);
}

static int add_process(struct block_writer *writer, const struct block_process_rows *rows, size_t row, struct error *err)
{
	struct block_group *group = &writer->processes;
	int32_t *series = group->columns[0];
	int64_t *times = group->columns[1];
	size_t last = group->count - 1;
	if (group->count &&
	    (series[last] > rows->series[row] || (series[last] == rows->series[row] && times[last] > rows->times[row])))
		return out_of_order(err, "processes");
	int r = group->count == group->capacity ? block_group_flush(group, err) : 0;
	if (r < 0)
		return r;
	size_t at = group->count++;
	series[at] = rows->series[row];
	times[at] = rows->times[row];
	for (size_t i = 0; i < BLOCK_PROCESS_COLUMNS; i++)
		((int64_t *)group->columns[2 + i])[at] = rows->values[i][row];
	count_row(writer, &writer->sums[rows->series[row]], rows->times[row]);
	return 0;
}

int block_writer_processes(struct block_writer *writer, const struct block_process_rows *rows, struct error *err)
{
	int r = rows->count ? check_series(writer, rows->series, rows->count, err) : 0;
	if (r == 0 && rows->count && !writer->processes.writer)
		r = open_processes(writer, err);
	for (size_t i = 0; r == 0 && i < rows->count; i++)
		r = add_process(writer, rows, i, err);
	return r;
}

static int finish_processes(struct block_writer *writer, struct error *err)
{
	return writer->processes.writer ? block_group_finish(&writer->processes, &writer->meta, err) : 0;
}

/* ---- appends ---- */

static void fill_appends(const void *context, void *scratch, size_t from, size_t count, struct parquet_values *ret)
{
	struct bytes *ids = block_take(&scratch, count, sizeof(*ids));
	int64_t *sequences = block_take(&scratch, count, 8);
	const struct head_append *appends = (const struct head_append *)context + from;
	for (size_t i = 0; i < count; i++) {
		ids[i] = (struct bytes){appends[i].id, STORE_ID_SIZE};
		sequences[i] = (int64_t)appends[i].sequence;
	}
	ret[0].i64 = sequences;
	ret[1].bytes = ids;
}

int block_writer_appends(struct block_writer *writer, const struct head_append *appends, size_t count, struct error *err)
{
	static const struct parquet_column columns[] = {
		{.name = "sequence", .type = PARQUET_INT64, .layout = PARQUET_DELTA},
		{.name = "id", .type = PARQUET_FIXED, .type_length = STORE_ID_SIZE, .layout = PARQUET_PLAIN},
	};
	/* Nobody asks for more than the newest. */
	size_t skip = count > STORE_IDS_KEPT ? count - STORE_IDS_KEPT : 0;
	if (skip) {
		appends += skip;
		count -= skip;
	}
	writer->has_appends = true;
	return block_table_write(
		writer,
		&(struct block_table){BLOCK_APPENDS, columns, 2, count, fill_appends, appends, sizeof(struct bytes) + 8}, err);
}

/* ---- finishing ---- */

static int check_whole(const struct block_writer *writer, struct error *err)
{
	assert(writer->series && writer->has_tables);
	if (writer->rows == 0)
		return error_set(err, -EINVAL, "a block without rows");
	if (writer->stack_max >= 0 && (size_t)writer->stack_max >= writer->stack_count)
		return error_set(err, -EINVAL, "a sample has a missing stack");
	return 0;
}

static void fill_meta(struct block_writer *writer)
{
	struct block_meta *meta = &writer->meta;
	for (size_t i = 0; i < writer->series_count; i++) {
		const struct series_sums *sums = &writer->sums[i];
		if (sums->rows && sums->first_ns < meta->min_ns)
			meta->min_ns = sums->first_ns;
		if (sums->rows && sums->last_ns > meta->max_ns)
			meta->max_ns = sums->last_ns;
	}
	meta->mean_ns = (int64_t)(writer->times / (__int128)writer->rows);
	meta->series = writer->series_count;
	meta->rollup_series = writer->rollup_count;
	block_meta_set_name(meta);
}

static int make_rollups(struct block_writer *writer, struct error *err)
{
	if (!writer->options.rollups || writer->meta.files[BLOCK_SAMPLES].size == 0)
		return 0;
	const struct rollup_job job = {
		.directory = writer->directory,
		.rollup_ids = writer->rollup_ids,
		.gauges = writer->gauges,
		.series_count = writer->series_count,
		.rollup_count = writer->rollup_count,
		.stack_count = writer->stack_count,
		.group_rows = writer->group_rows,
		.min_ns = writer->meta.min_ns,
		.max_ns = writer->meta.max_ns,
		.partitioned = writer->options.partition_ns > 0,
		.cancel = writer->options.cancel,
		.meta = &writer->meta,
	};
	writer->meta.counts_profiles = true;
	return rollup_write(&job, err);
}

void block_writer_set_lost(struct block_writer *writer, const struct block_losses *lost)
{
	writer->meta.lost = *lost;
}

int block_writer_finish(struct block_writer *writer, struct block_meta *ret, struct error *err)
{
	int r = finish_samples(writer, err);
	if (r == 0)
		r = finish_processes(writer, err);
	if (r == 0)
		r = check_whole(writer, err);
	if (r < 0)
		return r;
	fill_meta(writer);
	r = block_write_series(writer, err);
	if (r == 0)
		r = block_write_labels(writer, err);
	if (r == 0 && !writer->has_appends)
		r = block_writer_appends(writer, NULL, 0, err);
	if (r == 0)
		r = make_rollups(writer, err);
	if (r == 0)
		r = block_meta_write(writer->directory, &writer->meta, err);
	if (r == 0)
		r = io_sync_dir(writer->directory, err);
	if (r < 0)
		return r;
	*ret = writer->meta;
	writer->meta = (struct block_meta){0};
	return 0;
}
