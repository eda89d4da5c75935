/* SPDX-License-Identifier: Apache-2.0 */
#include "store/head/head_processes.h"

#include <errno.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/sum.h"

#define ROW_BYTES_MAX (10 * (3 + PROCESS_STATS_COLUMNS))
#define BYTES_MAX     ((size_t)4 << 30)

void head_processes_init(struct head_processes *processes)
{
	*processes = (struct head_processes){.rows.max = BYTES_MAX};
}

void head_processes_release(struct head_processes *processes)
{
	buffer_release(&processes->rows);
}

uint64_t head_processes_bytes(const struct head_processes *processes)
{
	return processes->rows.capacity;
}

/* ---- writing ---- */

static void put(struct buffer *out, uint64_t value)
{
	for (; value >= 0x80; value >>= 7)
		out->data[out->len++] = (uint8_t)(value | 0x80);
	out->data[out->len++] = (uint8_t)value;
}

static uint64_t zigzag(int64_t value)
{
	return (uint64_t)value << 1 ^ (uint64_t)(value >> 63);
}

int head_processes_put(struct head_processes *processes, const struct process_row *row, struct head_processes_end *end)
{
	struct buffer *out = &processes->rows;
	uint64_t columns = 0;
	buffer_truncate(out, end->bytes);
	if (buffer_reserve(out, ROW_BYTES_MAX) < 0)
		return -ENOMEM;
	for (size_t i = 0; i < PROCESS_STATS_COLUMNS; i++)
		columns |= (uint64_t)(row->values[i] != 0) << i;
	put(out, zigzag((int64_t)row->series - (int64_t)end->series));
	put(out, zigzag((int64_t)((uint64_t)row->time_ns - (uint64_t)end->time_ns)));
	put(out, columns);
	for (size_t i = 0; i < PROCESS_STATS_COLUMNS; i++)
		if (row->values[i])
			put(out, zigzag(row->values[i]));
	*end = (struct head_processes_end){
		.bytes = out->len, .count = end->count + 1, .series = row->series, .time_ns = row->time_ns};
	return 0;
}

/* ---- reading ---- */

static uint64_t get(struct head_processes_reader *reader)
{
	uint64_t value = 0;
	for (unsigned shift = 0;; shift += 7) {
		uint8_t byte = *reader->at++;
		value |= (uint64_t)(byte & 0x7f) << shift;
		if (!(byte & 0x80))
			return value;
	}
}

static int64_t get_signed(struct head_processes_reader *reader)
{
	uint64_t value = get(reader);
	return (int64_t)(value >> 1 ^ (0 - (value & 1)));
}

void head_processes_read(const struct head_processes *processes, const struct head_processes_end *from,
			 const struct head_processes_end *to, struct head_processes_reader *ret)
{
	const uint8_t *data = processes->rows.data;
	*ret = (struct head_processes_reader){.series = from->series, .time_ns = from->time_ns};
	if (from->bytes == to->bytes)
		return;
	ret->at = data + from->bytes;
	ret->end = data + to->bytes;
}

bool head_processes_next(struct head_processes_reader *reader, struct process_row *ret)
{
	if (reader->at == reader->end)
		return false;
	reader->series = (uint32_t)((int64_t)reader->series + get_signed(reader));
	reader->time_ns = (int64_t)((uint64_t)reader->time_ns + (uint64_t)get_signed(reader));
	*ret = (struct process_row){.series = reader->series, .time_ns = reader->time_ns};
	uint64_t columns = get(reader);
	for (size_t i = 0; i < PROCESS_STATS_COLUMNS; i++)
		if (columns >> i & 1)
			ret->values[i] = get_signed(reader);
	return true;
}

/* ---- all of them ---- */

static int compare_rows(const void *left, const void *right)
{
	const struct process_row *a = left, *b = right;
	if (a->series != b->series)
		return a->series < b->series ? -1 : 1;
	return (a->time_ns > b->time_ns) - (a->time_ns < b->time_ns);
}

/* Puts rows of one (series, time) together; returns how many are left. */
static size_t pivot(struct process_row *rows, size_t count)
{
	size_t kept = 0;
	for (size_t i = 0; i < count; i++) {
		if (kept == 0 || compare_rows(&rows[kept - 1], &rows[i]) != 0) {
			rows[kept++] = rows[i];
			continue;
		}
		for (size_t c = 0; c < PROCESS_STATS_COLUMNS; c++) {
			int64_t *value = &rows[kept - 1].values[c];
			sum_to(value, rows[i].values[c]);
		}
	}
	return kept;
}

int head_processes_sorted(const struct head_processes *processes, const uint32_t *numbers, int64_t from_ns, int64_t to_ns,
			  struct process_row **ret, size_t *ret_count, struct error *err)
{
	static const struct head_processes_end start;
	struct head_processes_reader reader;
	struct process_row row, *rows = NULL;
	size_t count = 0, capacity = 0;
	head_processes_read(processes, &start, &processes->end, &reader);
	while (head_processes_next(&reader, &row)) {
		if (numbers)
			row.series = numbers[row.series];
		if (row.series == UINT32_MAX || row.time_ns < from_ns || (row.time_ns >= to_ns && to_ns != INT64_MAX))
			continue;
		if (array_reserve(&rows, &capacity, count + 1, SIZE_MAX) < 0) {
			mem_free(rows);
			return error_nomem(err);
		}
		rows[count++] = row;
	}
	if (count)
		qsort(rows, count, sizeof(*rows), compare_rows);
	*ret_count = pivot(rows, count);
	*ret = rows;
	return 0;
}
