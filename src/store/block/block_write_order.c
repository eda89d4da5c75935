/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The order of samples within a row group, with partitions of time (partition.h): rows come by series, time, stack, and are
 * distributed to their partitions by counting before the group is written, which keeps the order that they have in each.
 *
 * The rows of one series and time are a profile, which is counted once, so they are in one row group: where a group would end
 * within them, it ends before them. Only where they take more than half of a group they are split, and the groups that have
 * them stay by series, time, stack, so that they are neighbours all the same.
 */
#include <string.h>

#include "base/alloc.h"
#include "store/block/block_write_int.h"

void block_partitioner_release(struct block_partitioner *partitioner)
{
	mem_free(partitioner->order);
	mem_free(partitioner->starts);
	mem_free(partitioner->page_starts);
	mem_free(partitioner->column);
	*partitioner = (struct block_partitioner){0};
}

/* ---- the order ---- */

/* *ret: the rows are in another order than they have to be, which is in partitioner->order. */
static int find_order(struct block_writer *writer, size_t count, bool *ret, struct error *err)
{
	struct block_partitioner *p = &writer->partitioner;
	const int64_t *times = writer->samples.columns[TIME];
	int64_t partition_ns = writer->options.partition_ns, min_ns = INT64_MAX, max_ns = INT64_MIN;
	for (size_t i = 0; i < count; i++) {
		min_ns = times[i] < min_ns ? times[i] : min_ns;
		max_ns = times[i] > max_ns ? times[i] : max_ns;
	}
	uint64_t partitions = block_partition_count(min_ns, max_ns, partition_ns);
	*ret = false;
	if (partitions == 1 || partitions > BLOCK_PARTITIONS_MAX)
		return 0;
	if (array_reserve(&p->order, &p->order_capacity, count, UINT32_MAX) < 0 ||
	    array_reserve(&p->starts, &p->start_capacity, partitions + 1, SIZE_MAX) < 0)
		return error_nomem(err);
	int64_t first = block_partition_of(min_ns, partition_ns);
	memset(p->starts, 0, (partitions + 1) * sizeof(*p->starts));
	for (size_t i = 0; i < count; i++)
		p->starts[block_partition_of(times[i], partition_ns) - first + 1]++;
	for (size_t i = 1; i <= partitions; i++)
		p->starts[i] += p->starts[i - 1];
	for (size_t i = 0; i < count; i++)
		p->order[p->starts[block_partition_of(times[i], partition_ns) - first]++] = (uint32_t)i;
	p->partition_count = partitions;
	*ret = true;
	return 0;
}

static inline __attribute__((always_inline)) void reorder(const uint32_t *order, size_t count, uint8_t *to, const uint8_t *from,
							  size_t size)
{
	for (size_t i = 0; i < count; i++)
		memcpy(to + i * size, from + order[i] * size, size);
}

int block_reorder(const uint32_t *order, size_t count, void *column, size_t size, uint8_t **scratch, size_t *scratch_capacity,
		  struct error *err)
{
	if (array_reserve(scratch, scratch_capacity, count * size, SIZE_MAX) < 0)
		return error_nomem(err);
	switch (size) {
	case 1: reorder(order, count, *scratch, column, 1); break;
	case 4: reorder(order, count, *scratch, column, 4); break;
	case 8: reorder(order, count, *scratch, column, 8); break;
	default: reorder(order, count, *scratch, column, size);
	}
	memcpy(column, *scratch, count * size);
	return 0;
}

/* Pages begin where partitions do, so that whoever wants one partition reads little else: as many partitions as there is room
 * for in page_rows, or an even part, near page_rows, of one that has more. */
static int cut_pages(struct block_partitioner *p, size_t count, size_t page_rows, struct error *err)
{
	size_t start = 0, page = 0, pages = 0; /* of the partition, of the page that is not full yet */
	if (array_reserve(&p->page_starts, &p->page_capacity, p->partition_count + count / page_rows + 1, SIZE_MAX) < 0)
		return error_nomem(err);
	for (size_t i = 0; i < p->partition_count; i++) {
		size_t end = p->starts[i], rows = end - start, parts = (rows + page_rows / 2) / page_rows;
		if (start > page && end - page > page_rows) {
			p->page_starts[pages++] = page;
			page = start;
		}
		for (size_t k = 1; k < parts; k++) {
			p->page_starts[pages++] = page;
			page = start + rows * k / parts;
		}
		start = end;
	}
	p->page_starts[pages++] = page;
	p->page_count = pages;
	return 0;
}

static int reorder_column(struct block_partitioner *p, size_t count, void *column, size_t size, struct error *err)
{
	return block_reorder(p->order, count, column, size, &p->column, &p->column_capacity, err);
}

/* Of links and numbers only what is written: what they point at stays where it is. */
static int reorder_rows(struct block_writer *writer, size_t count, struct error *err)
{
	static const size_t sizes[] = {4, 4, 8, 8, sizeof(struct bytes), sizeof(struct bytes)};
	struct block_partitioner *p = &writer->partitioner;
	void **columns = writer->samples.columns;
	size_t column_count = writer->links ? SPAN + 1 : VALUE + 1;
	int r = 0;
	for (size_t i = 0; r == 0 && i < column_count; i++)
		r = reorder_column(p, count, columns[i], sizes[i], err);
	if (r == 0 && writer->links)
		r = reorder_column(p, count, writer->linked, 1, err);
	if (r == 0 && writer->numbers)
		r = reorder_column(p, count, columns[writer->numbers_column], sizeof(struct bytes), err);
	if (r == 0 && writer->numbers)
		r = reorder_column(p, count, writer->numbered, 1, err);
	return r;
}

/* ---- groups ---- */

/* Where the last series and time of the group begin. */
static size_t last_profile(const struct block_writer *writer)
{
	const int32_t *series = writer->samples.columns[SERIES];
	const int64_t *times = writer->samples.columns[TIME];
	size_t at = writer->samples.count - 1;
	while (at > 0 && series[at - 1] == series[at] && times[at - 1] == times[at])
		at--;
	return at;
}

static void move(void *column, size_t from, size_t count, size_t size)
{
	memmove(column, (uint8_t *)column + from * size, count * size);
}

/* The last rows of the group become its first. */
static void keep_rest(struct block_writer *writer, size_t from, size_t count)
{
	void **columns = writer->samples.columns;
	move(columns[SERIES], from, count, 4);
	move(columns[STACK], from, count, 4);
	move(columns[TIME], from, count, 8);
	move(columns[VALUE], from, count, 8);
	if (writer->links) {
		struct bytes *traces = columns[TRACE], *spans = columns[SPAN];
		move(writer->links, from, count, sizeof(*writer->links));
		move(writer->linked, from, count, 1);
		for (size_t i = 0; i < count; i++) {
			traces[i] = (struct bytes){writer->links[i].trace_id, sizeof(writer->links[i].trace_id)};
			spans[i] = (struct bytes){writer->links[i].span_id, sizeof(writer->links[i].span_id)};
		}
	}
	if (writer->numbers) {
		move(columns[writer->numbers_column], from, count, sizeof(struct bytes));
		move(writer->numbers, from, count, sizeof(*writer->numbers));
		move(writer->numbered, from, count, 1);
	}
	writer->samples.count = count;
}

int block_flush_samples(struct block_writer *writer, bool all, struct error *err)
{
	struct block_group *group = &writer->samples;
	size_t count = group->count, whole = count;
	if (!writer->options.partition_ns || !count)
		return block_group_flush(group, err);
	bool was_split = writer->partitioner.is_split, reordered = false;
	int r = 0;
	if (!all)
		whole = last_profile(writer);
	writer->partitioner.is_split = whole < count - count / 2;
	if (writer->partitioner.is_split)
		whole = count;
	if (!was_split && !writer->partitioner.is_split)
		r = find_order(writer, whole, &reordered, err);
	if (r == 0 && reordered)
		r = reorder_rows(writer, whole, err);
	if (r == 0 && reordered)
		r = cut_pages(&writer->partitioner, whole, block_partition_page_rows(writer->sample_rows), err);
	if (r < 0)
		return r;
	parquet_writer_set_sorted(group->writer, !reordered);
	group->page_starts = writer->partitioner.page_starts;
	group->page_start_count = reordered ? writer->partitioner.page_count : 0;
	group->count = whole;
	r = block_group_flush(group, err);
	if (r == 0 && whole < count)
		keep_rest(writer, whole, count - whole);
	return r;
}
