/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rollups: the samples of a block summed over time and over the series that agree in their rollup labels.
 *
 *   totals       (series, 5 min)            from samples, in passing
 *   rollup_5m    (rollup, 5 min, stack)     from samples
 *   rollup_1h    (rollup, 1 h, stack)       from rollup_5m
 *   rollup_all   (rollup, stack)            from rollup_1h
 *
 * From samples. Rows are sorted by series, then time; rollup ids rise with series ids, so the rows of a rollup are one range of
 * the file, made of one sequence by time for each series. What is wanted is ordered by time first, so the series have to be
 * turned by 90 degrees:
 *
 *   chunk      up to CHUNK_ROWS rows of one rollup are gathered, as segments: the rows of one series in one bucket
 *   order      segments, not rows, are sorted by bucket
 *   sum        the rows of one bucket are added to a dense array by stack; a bitmap remembers which stacks were touched, and
 *              gives them back in order, so that nothing is ever sorted or hashed by row
 *   run        a rollup of one chunk is written at once. Of a larger one each chunk becomes a sorted run in a temporary file,
 *              and in the end the runs are added up, bucket by bucket, in the same dense array.
 *
 * Each page of the samples is read once, in the order of the file, however the rows are spread; with partitions a row group at
 * a time, to be put into that order (partition.h). Rejected: to read one slice of time after the other, which keeps no runs,
 * but reads each page of a rollup with many small series once a slice.
 *
 * From rollups. They are sorted by time already: add up until the bucket changes.
 *
 * Gauges, types without ":delta", are averaged over profiles when they are read. A sum of several series, each with profiles at
 * times of its own, has no such average, so each of them is a rollup series by itself (block_write.c), and totals have the
 * number of its profiles: different times, since the samples of one profile share its time. Buckets do not overlap, so these
 * add up, and a query takes the number that belongs to any rows of rollups from the totals of the same time. Rejected: the
 * number beside each stack of the rollups, which repeats it a few hundred times.
 *
 * Memory: a row group of samples and its order, with partitions; 12 bytes a row of a chunk, 12 more in the worst case of a
 * segment a row, 16 bytes a stack of the block, one row group of what is written, RUN_BUFFERS_BYTES while runs are put
 * together.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>

#include "base/alloc.h"
#include "base/io.h"
#include "base/sum.h"
#include "base/time.h"
#include "store/block/batch_reader.h"
#include "store/block/block_write_int.h"

#define BUCKET_NS	  BLOCK_TOTALS_NS
#define HOUR_NS		  (3600 * NS_PER_S)
#define CHUNK_ROWS	  (1024 * 1024)
#define RUN_BUFFERS_BYTES (8 * 1024 * 1024)
#define RUN_BUFFER_MIN	  4096

/* ---- sums by stack ---- */

struct sum {
	int64_t value; /* base/sum.h */
	uint64_t samples;
};
struct sums {
	struct sum *items;  /* by stack */
	uint64_t *touched;  /* a bit a stack */
	uint64_t *occupied; /* a bit a word of `touched` */
	size_t words;	    /* of `occupied` */
};

static int sums_allocate(struct sums *sums, size_t stack_count, struct error *err)
{
	size_t words = stack_count / 64 + 1;
	sums->words = words / 64 + 1;
	sums->items = mem_zalloc_array(stack_count, sizeof(*sums->items));
	sums->touched = mem_zalloc_array(words, sizeof(*sums->touched));
	sums->occupied = mem_zalloc_array(sums->words, sizeof(*sums->occupied));
	return sums->items && sums->touched && sums->occupied ? 0 : error_nomem(err);
}

static void sums_release(struct sums *sums)
{
	mem_free(sums->items);
	mem_free(sums->touched);
	mem_free(sums->occupied);
}

static inline void sums_add(struct sums *sums, uint32_t stack, int64_t value, uint64_t samples)
{
	uint64_t bit = 1ull << (stack & 63), *word = &sums->touched[stack >> 6];
	if (!(*word & bit)) {
		*word |= bit;
		sums->occupied[stack >> 12] |= 1ull << (stack >> 6 & 63);
	}
	sum_to(&sums->items[stack].value, value);
	sums->items[stack].samples += samples;
}

/* Takes the touched stacks out, in order; false at the end. *cursor starts at 0. */
static inline bool sums_take(struct sums *sums, size_t *cursor, uint32_t *ret_stack, struct sum *ret)
{
	while (*cursor < sums->words && !sums->occupied[*cursor])
		++*cursor;
	if (*cursor == sums->words)
		return false;
	uint64_t *occupied = &sums->occupied[*cursor];
	size_t word = *cursor * 64 + (size_t)__builtin_ctzll(*occupied);
	uint64_t *touched = &sums->touched[word];
	uint32_t stack = (uint32_t)(word * 64 + (size_t)__builtin_ctzll(*touched));
	*touched &= *touched - 1;
	if (!*touched)
		*occupied &= *occupied - 1;
	*ret_stack = stack;
	*ret = sums->items[stack];
	sums->items[stack] = (struct sum){0};
	return true;
}

/* ---- tables that are written ---- */

struct rolling {
	const struct rollup_job *job;
	struct error *err;
	struct sums sums;
	struct block_group out, totals;

	/* The rollup that is being read, from samples */
	int32_t rollup; /* -1 = none yet */
	int32_t *chunk_stacks;
	int64_t *chunk_values;
	size_t chunk_rows;
	struct segment {
		uint32_t first, count; /* rows of the chunk */
	} * segments;
	uint64_t *keys, *spare; /* bucket << 32 | segment */
	size_t segment_count, segment_capacity, key_capacity, spare_capacity;
	int64_t first_bucket; /* buckets in memory count from this one */

	/* Its runs */
	int run_fd;
	uint64_t run_end; /* of the file */
	struct run {
		uint64_t at, end; /* what was not read into the buffer yet */
		uint8_t *buffer;
		size_t len, used;
		uint32_t bucket, left; /* entries of the bucket that were not added up */
	} * runs;
	size_t run_count, run_capacity, run_buffer_size;
	struct buffer run_out;

	/* The bucket of a series that is being summed for totals */
	int32_t total_series;
	int64_t total_bucket;
	struct sum total;
	uint64_t total_profiles; /* of a gauge; else 0 */
	int64_t total_time;	 /* of the last row */
};

static int out_open(struct rolling *r, struct block_group *out, enum block_file file)
{
	bool has_stacks = file != BLOCK_TOTALS;
	const struct parquet_column columns[] = {
		{.name = file == BLOCK_TOTALS ? "series_id" : "rollup_id", .type = PARQUET_INT32},
		{.name = "time_ns", .type = PARQUET_INT64, .logical = PARQUET_TIMESTAMP_NS},
		{.name = "value", .type = PARQUET_INT64},
		{.name = "samples", .type = PARQUET_INT64},
		has_stacks ? (struct parquet_column){.name = "stack_id", .type = PARQUET_INT32, .layout = PARQUET_DELTA}
			   : (struct parquet_column){.name = "profiles", .type = PARQUET_INT64},
	};
	static const uint32_t sorted_by[] = {0, 1, 4};
	const struct block_file_layout layout = {.file = file,
						 .columns = columns,
						 .column_count = 5,
						 .sorted_by = sorted_by,
						 .sorted_by_count = has_stacks ? 3 : 2};
	size_t rows = r->job->group_rows && has_stacks ? r->job->group_rows : PARQUET_GROUP_ROWS;
	return block_group_open(out, r->job->directory, &layout, rows, NULL, r->err);
}

static inline size_t out_begin(struct block_group *out, int32_t id, int64_t time, struct sum sum)
{
	size_t at = out->count++;
	((int32_t *)out->columns[0])[at] = id;
	((int64_t *)out->columns[1])[at] = time;
	((int64_t *)out->columns[2])[at] = sum.value;
	((int64_t *)out->columns[3])[at] = (int64_t)sum.samples;
	return at;
}

static inline int out_put(struct rolling *r, struct block_group *out, int32_t id, int64_t time, uint32_t stack, struct sum sum)
{
	size_t at = out_begin(out, id, time, sum);
	((int32_t *)out->columns[4])[at] = (int32_t)stack;
	return out->count == out->capacity ? block_group_flush(out, r->err) : 0;
}

/* ---- buckets ---- */

static int64_t bucket_of(int64_t time, int64_t bucket_ns)
{
	return time / bucket_ns - (time % bucket_ns < 0);
}

/* The first bucket of all begins before time can tell. */
static int64_t bucket_start(int64_t bucket, int64_t bucket_ns)
{
	int64_t start;
	return __builtin_mul_overflow(bucket, bucket_ns, &start) ? INT64_MIN : start;
}

static int put_bucket(struct rolling *r, int64_t start_ns)
{
	uint32_t stack;
	struct sum sum;
	int e = 0;
	for (size_t cursor = 0; e == 0 && sums_take(&r->sums, &cursor, &stack, &sum);)
		e = out_put(r, &r->out, r->rollup, start_ns, stack, sum);
	return e;
}

/* ---- runs ---- */

struct run_head {
	uint32_t bucket, count;
};
struct run_entry {
	uint32_t stack, samples;
	uint64_t value;
};

/* The file has no name: nothing is left of it, whatever happens. */
static int open_runs(struct rolling *r)
{
	char path[PATH_MAX];
	int e = io_join_path(path, sizeof(path), r->job->directory, "runs");
	if (e < 0)
		return error_set_errno(r->err, e, "%s", r->job->directory);
	r->run_fd = io_open(path, O_RDWR | O_CREAT | O_EXCL, 0600, r->err);
	if (r->run_fd < 0)
		return r->run_fd;
	return io_unlink(path, r->err);
}

static int write_run(struct rolling *r)
{
	int e = io_pwrite(r->run_fd, r->run_out.data, r->run_out.len, r->run_end, "the runs of a rollup", r->err);
	r->run_end += r->run_out.len;
	buffer_clear(&r->run_out);
	return e;
}

static int begin_run(struct rolling *r)
{
	int e = r->run_fd < 0 ? open_runs(r) : 0;
	if (e < 0)
		return e;
	if (array_reserve(&r->runs, &r->run_capacity, r->run_count + 1, SIZE_MAX) < 0)
		return error_nomem(r->err);
	r->runs[r->run_count++] = (struct run){.at = r->run_end};
	return 0;
}

static int put_run_bucket(struct rolling *r, uint32_t bucket)
{
	struct run_head head = {.bucket = bucket};
	size_t at = r->run_out.len;
	uint32_t stack;
	struct sum sum;
	buffer_append(&r->run_out, &head, sizeof(head));
	for (size_t cursor = 0; sums_take(&r->sums, &cursor, &stack, &sum);) {
		struct run_entry entry = {.stack = stack, .samples = (uint32_t)sum.samples, .value = (uint64_t)sum.value};
		buffer_append(&r->run_out, &entry, sizeof(entry));
		head.count++;
	}
	if (buffer_status(&r->run_out) < 0)
		return error_nomem(r->err);
	memcpy(r->run_out.data + at, &head, sizeof(head));
	return r->run_out.len >= 1024 * 1024 ? write_run(r) : 0;
}

static int end_run(struct rolling *r)
{
	int e = write_run(r);
	r->runs[r->run_count - 1].end = r->run_end;
	return e;
}

/* The next `size` bytes of a run, which are there: it was written by this process. */
static int read_run(struct rolling *r, struct run *run, void *ret, size_t size)
{
	size_t have = run->len - run->used;
	if (have < size) {
		memmove(run->buffer, run->buffer + run->used, have);
		size_t want = r->run_buffer_size - have;
		if (want > run->end - run->at)
			want = (size_t)(run->end - run->at);
		ssize_t got = io_pread(r->run_fd, run->buffer + have, want, run->at, "the runs of a rollup", r->err);
		if (got < 0)
			return (int)got;
		run->at += (uint64_t)got;
		run->len = have + (size_t)got;
		run->used = 0;
		if (run->len < size)
			return error_set(r->err, -EIO, "the runs of a rollup were truncated");
	}
	memcpy(ret, run->buffer + run->used, size);
	run->used += size;
	return 0;
}

/* Moves to the next bucket; `left` is 0 at the end. */
static int next_run_bucket(struct rolling *r, struct run *run)
{
	struct run_head head = {0};
	int e = run->at < run->end || run->used < run->len ? read_run(r, run, &head, sizeof(head)) : 0;
	run->bucket = head.bucket;
	run->left = head.count;
	return e;
}

static int add_run_bucket(struct rolling *r, struct run *run)
{
	int e = 0;
	for (; e == 0 && run->left; run->left--) {
		struct run_entry entry;
		e = read_run(r, run, &entry, sizeof(entry));
		if (e == 0)
			sums_add(&r->sums, entry.stack, (int64_t)entry.value, entry.samples);
	}
	return e == 0 ? next_run_bucket(r, run) : e;
}

static int start_runs(struct rolling *r)
{
	r->run_buffer_size = RUN_BUFFERS_BYTES / r->run_count & ~(size_t)15;
	if (r->run_buffer_size < RUN_BUFFER_MIN)
		r->run_buffer_size = RUN_BUFFER_MIN;
	int e = 0;
	for (size_t i = 0; e == 0 && i < r->run_count; i++) {
		r->runs[i].buffer = mem_alloc(r->run_buffer_size);
		e = r->runs[i].buffer ? next_run_bucket(r, &r->runs[i]) : error_nomem(r->err);
	}
	return e;
}

static void drop_runs(struct rolling *r)
{
	for (size_t i = 0; i < r->run_count; i++)
		mem_free(r->runs[i].buffer);
	r->run_count = 0;
	r->run_end = 0;
}

/* Adds all runs up and writes them. */
static int put_runs(struct rolling *r)
{
	int e = start_runs(r);
	while (e == 0) {
		uint32_t least = UINT32_MAX;
		bool any = false;
		for (size_t i = 0; i < r->run_count; i++) {
			if (r->runs[i].left && (!any || r->runs[i].bucket < least)) {
				any = true;
				least = r->runs[i].bucket;
			}
		}
		if (!any)
			break;
		for (size_t i = 0; e == 0 && i < r->run_count; i++)
			if (r->runs[i].left && r->runs[i].bucket == least)
				e = add_run_bucket(r, &r->runs[i]);
		if (e == 0)
			e = put_bucket(r, bucket_start(r->first_bucket + least, BUCKET_NS));
	}
	drop_runs(r);
	return e;
}

/* ---- chunks ---- */

/* Equal keys are segments of one bucket, and any order of them will do. */
static int sort_keys(struct rolling *r)
{
	if (array_reserve(&r->spare, &r->spare_capacity, r->segment_count, SIZE_MAX) < 0)
		return error_nomem(r->err);
	block_sort_by_high(r->keys, r->spare, r->segment_count);
	return 0;
}

static void add_segment_rows(struct rolling *r, const struct segment *segment)
{
	const int32_t *stacks = r->chunk_stacks + segment->first;
	const int64_t *values = r->chunk_values + segment->first;
	for (uint32_t i = 0; i < segment->count; i++)
		sums_add(&r->sums, (uint32_t)stacks[i], values[i], 1);
}

/* Sums the chunk, bucket by bucket, into the file or into a run. */
static int sum_chunk(struct rolling *r, bool to_run)
{
	int e = sort_keys(r);
	if (e == 0 && to_run)
		e = begin_run(r);
	for (size_t i = 0; e == 0 && i < r->segment_count;) {
		uint32_t bucket = (uint32_t)(r->keys[i] >> 32);
		for (; i < r->segment_count && r->keys[i] >> 32 == bucket; i++)
			add_segment_rows(r, &r->segments[(uint32_t)r->keys[i]]);
		e = to_run ? put_run_bucket(r, bucket) : put_bucket(r, bucket_start(r->first_bucket + bucket, BUCKET_NS));
	}
	if (e == 0 && to_run)
		e = end_run(r);
	r->segment_count = r->chunk_rows = 0;
	return e;
}

static int finish_rollup(struct rolling *r)
{
	bool to_run = r->run_count > 0;
	int e = sum_chunk(r, to_run);
	return e == 0 && to_run ? put_runs(r) : e;
}

/* Rows of one series and bucket. */
static int add_segment(struct rolling *r, int64_t bucket, const int32_t *stacks, const int64_t *values, size_t count)
{
	while (count > 0) {
		size_t room = CHUNK_ROWS - r->chunk_rows, part = count < room ? count : room, at = r->segment_count;
		if (array_reserve(&r->segments, &r->segment_capacity, at + 1, SIZE_MAX) < 0 ||
		    array_reserve(&r->keys, &r->key_capacity, at + 1, SIZE_MAX) < 0)
			return error_nomem(r->err);
		memcpy(r->chunk_stacks + r->chunk_rows, stacks, part * sizeof(*stacks));
		memcpy(r->chunk_values + r->chunk_rows, values, part * sizeof(*values));
		r->segments[at] = (struct segment){(uint32_t)r->chunk_rows, (uint32_t)part};
		r->keys[at] = (uint64_t)(bucket - r->first_bucket) << 32 | at;
		r->segment_count++;
		r->chunk_rows += part;
		stacks += part;
		values += part;
		count -= part;
		int e = r->chunk_rows == CHUNK_ROWS ? sum_chunk(r, true) : 0;
		if (e < 0)
			return e;
	}
	return 0;
}

/* ---- totals ---- */

static int put_total(struct rolling *r)
{
	if (!r->total.samples)
		return 0;
	size_t at = out_begin(&r->totals, r->total_series, bucket_start(r->total_bucket, BUCKET_NS), r->total);
	((int64_t *)r->totals.columns[4])[at] = (int64_t)r->total_profiles;
	r->total = (struct sum){0};
	r->total_profiles = 0;
	return r->totals.count == r->totals.capacity ? block_group_flush(&r->totals, r->err) : 0;
}

/* Rows of one series and bucket, by time. */
static void count_profiles(struct rolling *r, const int64_t *times, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		r->total_profiles += r->total_profiles == 0 || times[i] != r->total_time;
		r->total_time = times[i];
	}
}

static int add_total(struct rolling *r, int32_t series, int64_t bucket, const int64_t *times, const int64_t *values,
		     size_t count)
{
	int e = r->total_series != series || r->total_bucket != bucket ? put_total(r) : 0;
	int64_t sum = 0;
	for (size_t i = 0; i < count; i++)
		sum_to(&sum, values[i]);
	if (r->job->gauges && r->job->gauges[series])
		count_profiles(r, times, count);
	r->total_series = series;
	r->total_bucket = bucket;
	sum_to(&r->total.value, sum);
	r->total.samples += count;
	return e;
}

/* ---- from samples ---- */

enum { IN_SERIES, IN_STACK, IN_TIME, IN_VALUE, IN_COLUMNS };
static const struct batch_column sample_columns[IN_COLUMNS] = {
	{"series_id", PARQUET_INT32, false, false},
	{"stack_id", PARQUET_INT32, false, false},
	{"time_ns", PARQUET_INT64, false, false},
	{"value", PARQUET_INT64, false, false},
};

/* Rows of one series. */
static int add_rows(struct rolling *r, int32_t series, const struct batch_reader *in, size_t from, size_t to)
{
	const int64_t *times = in->data[IN_TIME].i64, *values = in->data[IN_VALUE].i64;
	const int32_t *stacks = in->data[IN_STACK].i32;
	int32_t rollup = r->job->rollup_ids[series];
	int e = 0;
	if (rollup != r->rollup) {
		e = finish_rollup(r);
		r->rollup = rollup;
	}
	for (size_t end; e == 0 && from < to; from = end) {
		int64_t bucket = bucket_of(times[from], BUCKET_NS), limit;
		if (bucket < r->first_bucket || bucket - r->first_bucket > UINT32_MAX)
			return error_set(r->err, -EBADMSG, "a sample is outside of the block's times");
		if (__builtin_mul_overflow(bucket + 1, BUCKET_NS, &limit))
			limit = INT64_MAX;
		for (end = from + 1; end < to && times[end] < limit; end++)
			;
		e = add_total(r, series, bucket, times + from, values + from, end - from);
		if (e == 0)
			e = add_segment(r, bucket, stacks + from, values + from, end - from);
	}
	return e;
}

static int check_batch(struct rolling *r, const struct batch_reader *in, size_t id_limit)
{
	if (!block_ids_are_below(in->data[IN_STACK].i32, in->count, r->job->stack_count))
		return error_set(r->err, -EBADMSG, "a row refers to a missing stack");
	if (!block_ids_are_below(in->data[IN_SERIES].i32, in->count, id_limit))
		return error_set(r->err, -EBADMSG, "a row refers to a missing series");
	return cancel_requested(r->job->cancel) ? error_set(r->err, -ECANCELED, "cancelled") : 0;
}

static int open_table(struct rolling *r, enum block_file file, const struct batch_column *columns, size_t count,
		      struct batch_reader *ret)
{
	char path[PATH_MAX];
	struct parquet_file *opened;
	const struct parquet_read_options options = {.memory_max = BLOCK_READ_MAX,
						     .expected_footer = &r->job->meta->files[file].footer_hash};
	int e = io_join_path(path, sizeof(path), r->job->directory, block_file_names[file]);
	if (e < 0)
		return error_set_errno(r->err, e, "%s", r->job->directory);
	e = parquet_open(path, &options, &opened, r->err);
	return e < 0 ? e : batch_reader_open(ret, opened, columns, count, r->err);
}

static int roll_samples(struct rolling *r)
{
	struct batch_reader in;
	batch_reader_init(&in);
	in.by_first = r->job->partitioned;
	r->first_bucket = bucket_of(r->job->min_ns, BUCKET_NS);
	r->chunk_stacks = mem_alloc_array(CHUNK_ROWS, sizeof(*r->chunk_stacks));
	r->chunk_values = mem_alloc_array(CHUNK_ROWS, sizeof(*r->chunk_values));
	int e = r->chunk_stacks && r->chunk_values ? 0 : error_nomem(r->err);
	if (e == 0)
		e = open_table(r, BLOCK_SAMPLES, sample_columns, IN_COLUMNS, &in);
	if (e == 0)
		e = out_open(r, &r->totals, BLOCK_TOTALS);
	if (e == 0)
		e = out_open(r, &r->out, BLOCK_ROLLUP_5M);
	while (e == 0 && (e = batch_reader_next(&in, r->err)) > 0) {
		const int32_t *series = in.data[IN_SERIES].i32;
		e = check_batch(r, &in, r->job->series_count);
		for (size_t from = 0, to; e == 0 && from < in.count; from = to) {
			for (to = from + 1; to < in.count && series[to] == series[from]; to++)
				;
			e = add_rows(r, series[from], &in, from, to);
		}
	}
	batch_reader_release(&in);
	if (e == 0)
		e = finish_rollup(r);
	if (e == 0)
		e = put_total(r);
	if (e == 0)
		e = block_group_finish(&r->totals, r->job->meta, r->err);
	return e == 0 ? block_group_finish(&r->out, r->job->meta, r->err) : e;
}

/* ---- from rollups ---- */

enum { IN_SAMPLES = IN_COLUMNS, IN_ROLLUP_COLUMNS };
static const struct batch_column rollup_columns[IN_ROLLUP_COLUMNS] = {
	{"rollup_id", PARQUET_INT32, false, false}, {"stack_id", PARQUET_INT32, false, false},
	{"time_ns", PARQUET_INT64, false, false},   {"value", PARQUET_INT64, false, false},
	{"samples", PARQUET_INT64, false, false},
};

/* bucket_ns 0 = all of the block, at its beginning. */
static int64_t coarse_start(const struct rolling *r, int64_t time, int64_t bucket_ns)
{
	return bucket_ns ? bucket_start(bucket_of(time, bucket_ns), bucket_ns) : r->job->min_ns;
}

static int roll_rollup(struct rolling *r, enum block_file from, enum block_file to, int64_t bucket_ns)
{
	struct batch_reader in;
	int64_t start = 0;
	batch_reader_init(&in);
	r->rollup = -1;
	int e = open_table(r, from, rollup_columns, IN_ROLLUP_COLUMNS, &in);
	if (e == 0)
		e = out_open(r, &r->out, to);
	while (e == 0 && (e = batch_reader_next(&in, r->err)) > 0) {
		const int32_t *ids = in.data[IN_SERIES].i32, *stacks = in.data[IN_STACK].i32;
		const int64_t *times = in.data[IN_TIME].i64, *values = in.data[IN_VALUE].i64,
			      *samples = in.data[IN_SAMPLES].i64;
		e = check_batch(r, &in, r->job->rollup_count);
		for (size_t i = 0; e == 0 && i < in.count; i++) {
			bool is_new = ids[i] != r->rollup;
			if (is_new || (times[i] != times[i - (i > 0)] || i == 0)) {
				int64_t next = coarse_start(r, times[i], bucket_ns);
				if (is_new || next != start)
					e = put_bucket(r, start);
				start = next;
				r->rollup = ids[i];
			}
			sums_add(&r->sums, (uint32_t)stacks[i], values[i], (uint64_t)samples[i]);
		}
	}
	batch_reader_release(&in);
	if (e == 0)
		e = put_bucket(r, start);
	return e == 0 ? block_group_finish(&r->out, r->job->meta, r->err) : e;
}

/* ---- all ---- */

int rollup_write(const struct rollup_job *job, struct error *err)
{
	struct rolling r = {.job = job, .err = err, .rollup = -1, .run_fd = -1, .run_out.max = SIZE_MAX};
	int e = sums_allocate(&r.sums, job->stack_count, err);
	if (e == 0)
		e = roll_samples(&r);
	/* What only samples need is as large as the rest. */
	r.chunk_stacks = mem_free(r.chunk_stacks);
	r.chunk_values = mem_free(r.chunk_values);
	if (e == 0)
		e = roll_rollup(&r, BLOCK_ROLLUP_5M, BLOCK_ROLLUP_1H, HOUR_NS);
	if (e == 0)
		e = roll_rollup(&r, BLOCK_ROLLUP_1H, BLOCK_ROLLUP_ALL, 0);
	drop_runs(&r);
	io_close(r.run_fd);
	mem_free(r.runs);
	buffer_release(&r.run_out);
	mem_free(r.segments);
	mem_free(r.keys);
	mem_free(r.spare);
	sums_release(&r.sums);
	block_group_release(&r.out);
	block_group_release(&r.totals);
	return e;
}
