/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The payload of a log record since version 4.
 *
 * Agents send the same names and stacks with every flush. A record of everything that a profile holds (record.c, versions 1 to
 * 3) is mostly what earlier records have said already. The head knows: it has interned each profile's stacks in its own tables.
 * So a record is what the append added to the head: the entries that are new in each table, and its rows, which refer to
 * entries by their numbers in the head.
 *
 * A head has one log segment that is written while it is alive, and a segment one head. So numbers count from the beginning of
 * the segment, in the order in which the head gave them out, and a segment can be read alone.
 *
 *   version varint = 4   flags varint: 1 = an id, 2 = links, 4 = numbers
 *   id[16]               if there is one
 *   period zigzag        of the append's samples
 *   chain u64            hash of all tables of the segment before this record, see below
 *   first entries        for each table, how many entries it had before
 *   strings:    count, the lengths, the bytes
 *   mappings:   count, start, limit - start, offset, file name, build-id, flags
 *   functions:  count, name, system name, file name, start line (zigzag)
 *   locations:  count, mapping, address (zigzag delta), frame type * 2 + folded, number of lines
 *   lines:      function, line, column (zigzag)                    as many as the locations say
 *   stacks:     count, distance to the parent, location
 *   links:      count, trace id[16], span id[8]
 *   types:      count, then each: its five parts as strings, 1 = delta
 *   label sets: count, then each: number of labels, then each: 0 = the same as at this place of the set before in this record,
 *               or 1, name, value
 *   series:     count, type, label set
 *   numbers:    count, strings
 *   unit        varint: all values are multiples of it
 *   samples:    count, series (zigzag delta), stack (zigzag delta), link if flagged, numbers if flagged, time (zigzag delta),
 *               value / unit (zigzag)
 *   processes:  count, then each: series (zigzag delta), time (zigzag delta), columns bit by bit, their values (zigzag)
 *
 * Everything is a varint unless said otherwise; a string is a varint length and bytes. Columns are as in record.c. Entry 0 of
 * the tables of a profile and of numbers is always there. Rows are what became of the append: what it refused is not in it.
 *
 * What failed. An append that fails after it has added to the tables, or whose record cannot be written, leaves entries in the
 * head that no record has. The mark says how far records have come, so the next record has them, too.
 *
 * What is lost. A record that is damaged takes its entries with it. Their numbers are never given to anything else, and the
 * next record says how many entries there were before it, so the reader knows which are missing. An append of which a row
 * refers to one of those, directly or not, is left out and its rows are counted; what it adds to the tables stays. Nothing is
 * ever read as something else: a record must follow the one before it by its sequence, by the counts, and by the chain, which
 * is a hash of all entries so far. Behind a gap in the sequence the counts can only be higher, and the chain is the record's
 * own.
 *
 *   chain of a record = XXH3-64 of the tables of the record before it, seeded with the chain of that; 0 for the first one
 *
 * Large appends. A record has at most RECORD_BYTES_MAX; entries beyond go into records without rows before it (delta_limit).
 *
 * Rejected: numbering entries per agent or connection (needs an agreement that survives restarts of both, and the same stack of
 * two hosts is written twice); a dictionary for the compressor (finds the repetition that is known here for free).
 */
#include "store/head/delta.h"

#include "base/hash.h"
#include "store/head/head.h"
#include "store/head/record_int.h"

struct delta_mark delta_start(void)
{
	return (struct delta_mark){.counts = {[DELTA_STRINGS] = 1,
					      [DELTA_MAPPINGS] = 1,
					      [DELTA_FUNCTIONS] = 1,
					      [DELTA_LOCATIONS] = 1,
					      [DELTA_STACKS] = 1,
					      [DELTA_LINKS] = 1,
					      [DELTA_NUMBERS] = 1}};
}

/* ---- how much ---- */

static size_t count_of(const struct head *head, enum delta_table table)
{
	const struct profile *pool = head->pool;
	switch (table) {
	case DELTA_STRINGS: return pool->strings.count;
	case DELTA_MAPPINGS: return pool->mapping_count;
	case DELTA_FUNCTIONS: return pool->function_count;
	case DELTA_LOCATIONS: return pool->location_count;
	case DELTA_STACKS: return pool->stack_count;
	case DELTA_LINKS: return pool->link_count;
	case DELTA_TYPES: return head->type_count;
	case DELTA_LABEL_SETS: return head->label_set_count;
	case DELTA_SERIES: return head->series_count;
	default: return head->number_texts.count;
	}
}

/* At most so many bytes, not compressed. */
static size_t bytes_of(const struct head *head, enum delta_table table, size_t at)
{
	const struct labels *labels;
	size_t bytes = VARINT_MAX;
	switch (table) {
	case DELTA_STRINGS: return bytes + head->pool->strings.strings[at].len;
	case DELTA_NUMBERS: return bytes + head->number_texts.strings[at].len;
	case DELTA_LOCATIONS: return 4 * VARINT_MAX + 3 * VARINT_MAX * (size_t)head->pool->locations[at].line_count;
	case DELTA_TYPES: return sizeof(struct profile_type) + 6 * VARINT_MAX;
	case DELTA_LABEL_SETS:
		labels = head->label_sets[at];
		for (size_t i = 0; i < labels->count; i++)
			bytes += strlen(labels->items[i].name) + strlen(labels->items[i].value) + 3 * VARINT_MAX;
		return bytes;
	default: return 6 * VARINT_MAX;
	}
}

bool delta_limit(const struct head *head, const struct delta_mark *from, size_t bytes_max, struct delta_mark *to)
{
	size_t bytes = 0;
	bool full = false;
	for (enum delta_table table = 0; table < DELTA_TABLES; table++) {
		size_t at = from->counts[table], count = count_of(head, table);
		for (; !full && at < count; at++) {
			bytes += bytes_of(head, table, at);
			full = bytes > bytes_max;
		}
		full |= at < count;
		to->counts[table] = (uint32_t)at;
	}
	return !full;
}

/* ---- tables ---- */

struct encoder {
	const struct head *head;
	const struct delta_mark *from, *to;
	struct buffer *out;
};

/* Begins a table: its count. */
static size_t begin(const struct encoder *e, enum delta_table table, size_t *ret_end)
{
	*ret_end = e->to->counts[table];
	put(e->out, *ret_end - e->from->counts[table]);
	return e->from->counts[table];
}

static void put_strings(const struct encoder *e)
{
	size_t end, first = begin(e, DELTA_STRINGS, &end);
	const struct bytes *strings = e->head->pool->strings.strings;
	PUT_COLUMN(e->out, first, end, strings[i].len);
	for (size_t i = first; i < end; i++)
		buffer_append(e->out, strings[i].data, strings[i].len);
}

static void put_mappings(const struct encoder *e)
{
	size_t end, first = begin(e, DELTA_MAPPINGS, &end);
	const struct profile_mapping *m = e->head->pool->mappings;
	PUT_COLUMN(e->out, first, end, m[i].start);
	PUT_COLUMN(e->out, first, end, m[i].limit - m[i].start);
	PUT_COLUMN(e->out, first, end, m[i].offset);
	PUT_COLUMN(e->out, first, end, m[i].file_name);
	PUT_COLUMN(e->out, first, end, m[i].build_id);
	PUT_COLUMN(e->out, first, end, m[i].flags);
}

static void put_functions(const struct encoder *e)
{
	size_t end, first = begin(e, DELTA_FUNCTIONS, &end);
	const struct profile_function *f = e->head->pool->functions;
	PUT_COLUMN(e->out, first, end, f[i].name);
	PUT_COLUMN(e->out, first, end, f[i].system_name);
	PUT_COLUMN(e->out, first, end, f[i].file_name);
	PUT_COLUMN(e->out, first, end, zigzag(f[i].start_line));
}

static uint64_t line_value(const struct profile_line *line, int column)
{
	return column == 0 ? line->function : zigzag(column == 1 ? line->line : line->column);
}

static void put_locations(const struct encoder *e)
{
	size_t end, first = begin(e, DELTA_LOCATIONS, &end);
	const struct profile *pool = e->head->pool;
	const struct profile_location *l = pool->locations;
	PUT_COLUMN(e->out, first, end, l[i].mapping);
	PUT_COLUMN(e->out, first, end, zigzag((int64_t)(l[i].address - (i > first ? l[i - 1].address : 0))));
	PUT_COLUMN(e->out, first, end, l[i].frame_type * 2 + l[i].folded);
	PUT_COLUMN(e->out, first, end, l[i].line_count);
	for (int column = 0; column < 3; column++)
		for (size_t k = first; k < end; k++)
			PUT_COLUMN(e->out, 0, l[k].line_count, line_value(&pool->lines[l[k].line_first + i], column));
}

static void put_stacks(const struct encoder *e)
{
	size_t end, first = begin(e, DELTA_STACKS, &end);
	const struct profile_stack *s = e->head->pool->stacks;
	PUT_COLUMN(e->out, first, end, i - s[i].parent);
	PUT_COLUMN(e->out, first, end, s[i].location);
}

static void put_links(const struct encoder *e)
{
	size_t end, first = begin(e, DELTA_LINKS, &end);
	for (size_t i = first; i < end; i++) {
		buffer_append(e->out, e->head->pool->links[i].trace_id, 16);
		buffer_append(e->out, e->head->pool->links[i].span_id, 8);
	}
}

static void put_types(const struct encoder *e)
{
	size_t end, first = begin(e, DELTA_TYPES, &end);
	for (size_t i = first; i < end; i++) {
		const struct profile_type *type = e->head->types[i];
		const char *const parts[] = {type->name, type->sample_type, type->sample_unit, type->period_type,
					     type->period_unit};
		for (size_t k = 0; k < sizeof(parts) / sizeof(*parts); k++)
			put_string(e->out, bytes_of_string(parts[k]));
		put(e->out, type->delta);
	}
}

static void put_label_sets(const struct encoder *e)
{
	static const struct labels none;
	size_t end, first = begin(e, DELTA_LABEL_SETS, &end);
	for (size_t i = first; i < end; i++) {
		const struct labels *labels = e->head->label_sets[i], *before = i > first ? e->head->label_sets[i - 1] : &none;
		put(e->out, labels->count);
		for (size_t k = 0; k < labels->count; k++) {
			const struct label *label = &labels->items[k];
			if (k < before->count && !strcmp(before->items[k].name, label->name) &&
			    !strcmp(before->items[k].value, label->value)) {
				put(e->out, 0);
				continue;
			}
			put(e->out, 1);
			put_string(e->out, bytes_of_string(label->name));
			put_string(e->out, bytes_of_string(label->value));
		}
	}
}

static void put_series(const struct encoder *e)
{
	size_t end, first = begin(e, DELTA_SERIES, &end);
	PUT_COLUMN(e->out, first, end, e->head->series[i].type_id);
	PUT_COLUMN(e->out, first, end, e->head->series[i].label_set_id);
}

static void put_numbers(const struct encoder *e)
{
	size_t end, first = begin(e, DELTA_NUMBERS, &end);
	for (size_t i = first; i < end; i++)
		put_string(e->out, e->head->number_texts.strings[i]);
}

/* ---- rows ---- */

/* The greatest number that all values are multiples of: CPU times are so many sampling periods. */
static uint64_t unit_of(const int64_t *values, size_t count)
{
	uint64_t unit = 0;
	for (size_t i = 0; i < count && unit != 1; i++) {
		uint64_t value = values[i] < 0 ? 0 - (uint64_t)values[i] : (uint64_t)values[i];
		if (unit && value % unit == 0)
			continue;
		while (value) {
			uint64_t rest = unit % value;
			unit = value;
			value = rest;
		}
	}
	return unit && unit <= INT64_MAX ? unit : 1;
}

static void put_samples(const struct encoder *e, size_t count, uint64_t flags)
{
	const struct head *head = e->head;
	size_t first = head->end.samples, end = first + count;
	const uint32_t *series = head->series_ids, *stacks = head->stacks;
	const int64_t *times = head->times;
	int64_t unit = count ? (int64_t)unit_of(head->values + first, count) : 1;
	put(e->out, (uint64_t)unit);
	put(e->out, count);
	PUT_COLUMN(e->out, first, end, zigzag((int64_t)series[i] - (i > first ? (int64_t)series[i - 1] : 0)));
	PUT_COLUMN(e->out, first, end, zigzag((int64_t)stacks[i] - (i > first ? (int64_t)stacks[i - 1] : 0)));
	if (flags & DELTA_FLAG_LINKS)
		PUT_COLUMN(e->out, first, end, head->links[i]);
	if (flags & DELTA_FLAG_NUMBERS)
		PUT_COLUMN(e->out, first, end, head->numbers[i]);
	PUT_COLUMN(e->out, first, end, zigzag((int64_t)((uint64_t)times[i] - (i > first ? (uint64_t)times[i - 1] : 0))));
	PUT_COLUMN(e->out, first, end, zigzag(head->values[i] / unit));
}

static void put_process_rows(const struct encoder *e, const struct head_batch *batch)
{
	const struct head_processes *processes = &e->head->processes;
	const struct head_processes_end *end = &e->head->end.processes;
	struct head_processes_reader reader;
	struct process_row row;
	uint64_t series = 0, time = 0;
	put(e->out, batch->processes.count - end->count);
	head_processes_read(processes, end, &batch->processes, &reader);
	while (head_processes_next(&reader, &row)) {
		uint64_t columns = 0;
		for (size_t i = 0; i < PROCESS_STATS_COLUMNS; i++)
			columns |= (uint64_t)(row.values[i] != 0) << i;
		put(e->out, zigzag((int64_t)(row.series - series)));
		put(e->out, zigzag((int64_t)((uint64_t)row.time_ns - time)));
		put(e->out, columns);
		for (size_t i = 0; i < PROCESS_STATS_COLUMNS; i++)
			if (row.values[i])
				put(e->out, zigzag(row.values[i]));
		series = row.series;
		time = (uint64_t)row.time_ns;
	}
}

static uint64_t flags_of(const struct head *head, const struct head_batch *batch, const uint8_t *id)
{
	uint32_t links = 0, numbers = 0;
	for (size_t i = head->end.samples; batch && i < head->end.samples + batch->count; i++) {
		links |= head->links[i];
		numbers |= head->numbers ? head->numbers[i] : 0;
	}
	return (id_is_set(id) ? DELTA_FLAG_ID : 0u) | (links ? DELTA_FLAG_LINKS : 0u) | (numbers ? DELTA_FLAG_NUMBERS : 0u);
}

/* ---- all ---- */

static void put_beginning(const struct encoder *e, const struct head_batch *batch, const uint8_t *id, uint64_t flags)
{
	uint8_t chain[8];
	for (unsigned i = 0; i < 8; i++)
		chain[i] = (uint8_t)(e->from->chain >> 8 * i);
	put(e->out, DELTA_VERSION);
	put(e->out, flags);
	if (flags & DELTA_FLAG_ID)
		buffer_append(e->out, id, STORE_ID_SIZE);
	put(e->out, zigzag(batch ? batch->period : 0));
	buffer_append(e->out, chain, sizeof(chain));
}

int delta_encode(const struct head *head, const struct delta_mark *from, struct delta_mark *to, const struct head_batch *batch,
		 const uint8_t id[static STORE_ID_SIZE], struct buffer *out, struct error *err)
{
	static void (*const tables[DELTA_TABLES])(const struct encoder *e) = {
		[DELTA_STRINGS] = put_strings,	   [DELTA_MAPPINGS] = put_mappings,	[DELTA_FUNCTIONS] = put_functions,
		[DELTA_LOCATIONS] = put_locations, [DELTA_STACKS] = put_stacks,		[DELTA_LINKS] = put_links,
		[DELTA_TYPES] = put_types,	   [DELTA_LABEL_SETS] = put_label_sets, [DELTA_SERIES] = put_series,
		[DELTA_NUMBERS] = put_numbers,
	};
	const struct encoder e = {head, from, to, out};
	uint64_t flags = flags_of(head, batch, id);
	put_beginning(&e, batch, id, flags);
	size_t first = out->len;
	PUT_COLUMN(out, 0, DELTA_TABLES, from->counts[i]);
	for (size_t i = 0; i < DELTA_TABLES; i++)
		tables[i](&e);
	to->chain = buffer_status(out) == 0 ? hash64_seed(out->data + first, out->len - first, from->chain) : 0;
	put_samples(&e, batch ? batch->count : 0, flags);
	put_process_rows(&e, batch ? batch : &(struct head_batch){.processes = head->end.processes});
	int r = buffer_status(out);
	if (r == -E2BIG)
		return error_set(err, r, "the profile is too large: its log record would exceed %zu bytes; send it in parts",
				 out->max);
	return r < 0 ? error_nomem(err) : 0;
}
