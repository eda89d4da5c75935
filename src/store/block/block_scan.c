/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Three sieves, each cheaper than what it saves: a row group is left out when its statistics say that none of its ids is wanted
 * or that it lies outside of the range; of a group that stays, pages are left out the same way; of the pages that stay, whole
 * columns are decoded and the runs of wanted ids handed out as slices. Neighbouring pages are read together. Times are only
 * decoded when the pages are not within one range as a whole, or when somebody asks for them.
 */
#include "store/block/block_scan.h"

#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "base/budget.h"
#include "base/sorted.h"
#include "profile/numbers.h"
#include "store/block/filter.h"

#define PAGES_AT_ONCE	      8 /* bounds memory, and the time between two checks */
#define PROCESS_PAGES_AT_ONCE 4 /* they have more columns */

struct scanning {
	struct block_scan *scan;
	bool is_empty; /* no row can pass */
	struct parquet_file *file;
	struct {
		size_t id, stack, time, values[PROCESS_STATS_COLUMNS], trace, span, numbers;
	} at;
	unsigned columns; /* of values, that are read: bit by column */
	struct parquet_data ids, stacks, times, values[PROCESS_STATS_COLUMNS], traces, spans, numbers;
	bool has_times;
	bool has_links;		 /* links matter, and there are columns of them */
	bool has_numbers;	 /* numbers are wanted, or there are conditions on them, and there is a column of them */
	bool takes_no_link;	 /* rows without a link pass */
	bool takes_no_numbers;	 /* rows without numbers pass */
	uint8_t *passes;	 /* with conditions on links or numbers: by row of the pages at hand */
	size_t pass_count;	 /* room for so many */
	struct intern own_texts; /* if the caller has none */
	struct intern *texts;
	uint8_t *text_passes; /* by text: 0 not asked yet, 1 no, 2 yes */
	uint32_t *row_texts;  /* by row of the pages at hand */
	size_t text_pass_count, row_text_count;
	uint32_t *wanted_before; /* how many ids below i are wanted, so that a range is checked at once */
	struct error *err;
};

const struct block_range block_all_times = {INT64_MIN, INT64_MAX};

static int malformed(const struct scanning *s, const char *what)
{
	return error_set(s->err, -EBADMSG, "%s/%s: %s", s->scan->block->path, block_file_names[s->scan->file], what);
}

static bool find(const struct parquet_file *file, const char *name, enum parquet_type type, size_t *ret)
{
	return parquet_find_column(file, name, ret) && parquet_column_at(file, *ret)->type == type &&
	       !parquet_column_at(file, *ret)->optional;
}

static bool find_values(struct scanning *s)
{
	if (s->scan->file != BLOCK_PROCESSES)
		return find(s->file, s->scan->value ? s->scan->value : "value", PARQUET_INT64, &s->at.values[0]);
	for (size_t i = 0; i < PROCESS_STATS_COLUMNS; i++)
		if (!find(s->file, process_stats_columns[i].column, PARQUET_INT64, &s->at.values[i]))
			return false;
	return true;
}

static int find_columns(struct scanning *s)
{
	const struct block_scan *scan = s->scan;
	bool by_series = scan->file == BLOCK_SAMPLES || scan->file == BLOCK_TOTALS || scan->file == BLOCK_PROCESSES;
	bool found = find(s->file, by_series ? "series_id" : "rollup_id", PARQUET_INT32, &s->at.id) &&
		     find(s->file, "time_ns", PARQUET_INT64, &s->at.time) && find_values(s) &&
		     (!scan->stack_count || find(s->file, "stack_id", PARQUET_INT32, &s->at.stack));
	s->columns = scan->file == BLOCK_PROCESSES ? scan->columns : 1;
	return found ? 0 : malformed(s, "a column is missing or has the wrong type");
}

static bool find_id(const struct parquet_file *file, const char *name, uint32_t length, size_t *ret)
{
	return parquet_find_column(file, name, ret) && parquet_column_at(file, *ret)->type == PARQUET_FIXED &&
	       parquet_column_at(file, *ret)->type_length == length;
}

/* Blocks whose samples belong to no spans have no columns for them. */
static int find_links(struct scanning *s)
{
	static const struct profile_link none;
	const struct block_scan *scan = s->scan;
	size_t any;
	s->takes_no_link = true;
	if (!scan->links || (!scan->links->link_count && !scan->linked) || scan->file != BLOCK_SAMPLES)
		return 0;
	s->takes_no_link = !scan->linked && filter_link_passes(scan->links, &none);
	if (!parquet_find_column(s->file, "trace_id", &any) && !parquet_find_column(s->file, "span_id", &any))
		return 0;
	s->has_links = find_id(s->file, "trace_id", sizeof(none.trace_id), &s->at.trace) &&
		       find_id(s->file, "span_id", sizeof(none.span_id), &s->at.span);
	return s->has_links ? 0 : malformed(s, "a column of ids of spans is missing or has the wrong type");
}

/* Blocks whose samples have no numbers have no column for them. */
static int find_numbers(struct scanning *s)
{
	const struct block_scan *scan = s->scan;
	s->takes_no_numbers = true;
	if ((!scan->texts && !scan->numbers_pass) || scan->file != BLOCK_SAMPLES)
		return 0;
	if (scan->numbers_pass)
		s->takes_no_numbers = scan->numbers_pass(scan->context, (struct bytes){0});
	if (!parquet_find_column(s->file, "numbers", &s->at.numbers))
		return 0;
	s->has_numbers = true;
	s->texts = scan->texts ? scan->texts : &s->own_texts;
	if (!scan->texts && intern_init(s->texts, SIZE_MAX) < 0)
		return error_nomem(s->err);
	return parquet_column_at(s->file, s->at.numbers)->type == PARQUET_BYTE_ARRAY
		       ? 0
		       : malformed(s, "the column of numbers has the wrong type");
}

static bool has_conditions_on_rows(const struct scanning *s)
{
	return s->has_links || (s->has_numbers && s->scan->numbers_pass);
}

static int count_wanted(struct scanning *s)
{
	const struct block_scan *scan = s->scan;
	s->wanted_before = mem_alloc_array(scan->id_count + 1, sizeof(*s->wanted_before));
	if (!s->wanted_before)
		return error_nomem(s->err);
	s->wanted_before[0] = 0;
	for (size_t i = 0; i < scan->id_count; i++)
		s->wanted_before[i + 1] = s->wanted_before[i] + (scan->wanted[i] != 0);
	return 0;
}

/* ---- what can be left out ---- */

static bool any_wanted(const struct scanning *s, int64_t from, int64_t to)
{
	if (from < 0 || to >= (int64_t)s->scan->id_count || from > to)
		return true; /* damaged; the rows will tell */
	return s->wanted_before[to + 1] != s->wanted_before[from];
}

/* The first range that ends behind this time; range_count if none does. */
static size_t find_range(const struct block_scan *scan, int64_t time_ns)
{
	return sorted_count_while(scan->range_count, i, scan->ranges[i].to_ns <= time_ns);
}

/* Whether rows of these bounds can be skipped, and whether all of them lie in one range of time. */
struct verdict {
	bool skip, inside;
};

static struct verdict evaluate(const struct scanning *s, bool has_ids, int64_t id_min, int64_t id_max, bool has_times,
			       int64_t time_min, int64_t time_max)
{
	const struct block_scan *scan = s->scan;
	struct verdict verdict = {0};
	if (has_times) {
		size_t at = find_range(scan, time_min);
		const struct block_range *range = &scan->ranges[at];
		verdict.skip = at == scan->range_count || time_max < range->from_ns;
		verdict.inside = !verdict.skip && time_min >= range->from_ns && time_max < range->to_ns;
	}
	verdict.skip |= has_ids && !any_wanted(s, id_min, id_max);
	return verdict;
}

static bool has_only_nulls(const struct scanning *s, size_t group, size_t column)
{
	struct parquet_statistics statistics;
	parquet_chunk_statistics(s->file, group, column, &statistics);
	return statistics.has_null_count && statistics.null_count == (int64_t)parquet_group_rows(s->file, group);
}

/* Whether no row of the group passes the conditions on links and numbers, because none has one. */
static bool lacks_details(const struct scanning *s, size_t group)
{
	return (s->has_links && !s->takes_no_link && has_only_nulls(s, group, s->at.span)) ||
	       (s->has_numbers && !s->takes_no_numbers && has_only_nulls(s, group, s->at.numbers));
}

static struct verdict evaluate_group(const struct scanning *s, size_t group)
{
	int64_t id_min = 0, id_max = 0, time_min = 0, time_max = 0;
	bool has_ids = parquet_chunk_range(s->file, group, s->at.id, &id_min, &id_max);
	bool has_times = parquet_chunk_range(s->file, group, s->at.time, &time_min, &time_max);
	struct verdict verdict = evaluate(s, has_ids, id_min, id_max, has_times, time_min, time_max);
	verdict.skip |= lacks_details(s, group);
	return verdict;
}

static struct verdict evaluate_page(const struct scanning *s, size_t group, size_t page)
{
	int64_t id_min = 0, id_max = 0, time_min = 0, time_max = 0;
	bool has_ids = parquet_page_range(s->file, group, s->at.id, page, &id_min, &id_max);
	bool has_times = parquet_page_range(s->file, group, s->at.time, page, &time_min, &time_max);
	return evaluate(s, has_ids, id_min, id_max, has_times, time_min, time_max);
}

/* ---- reading ---- */

static int check_ids(const struct scanning *s)
{
	const struct block_scan *scan = s->scan;
	if (!block_ids_are_below(s->ids.i32, s->ids.count, scan->id_count) ||
	    (scan->stack_count && !block_ids_are_below(s->stacks.i32, s->stacks.count, scan->stack_count)))
		return malformed(s, scan->file == BLOCK_PROCESSES ? "a row refers to a missing series"
								  : "a row refers to a missing series or stack");
	return 0;
}

static bool row_passes(const struct scanning *s, size_t row)
{
	struct profile_link link;
	if ((s->traces.present && !s->traces.present[row]) || (s->spans.present && !s->spans.present[row]))
		return s->takes_no_link;
	memcpy(link.trace_id, s->traces.bytes[row].data, sizeof(link.trace_id));
	memcpy(link.span_id, s->spans.bytes[row].data, sizeof(link.span_id));
	return filter_link_passes(s->scan->links, &link);
}

/* Judges the rows of these pages by their links. *ret: one of them passes. */
static int sieve_links(struct scanning *s, size_t group, size_t first, size_t count, bool *ret)
{
	int r = parquet_read_pages(s->file, group, s->at.span, first, count, &s->spans, s->err);
	*ret = s->takes_no_link || s->spans.null_count < s->spans.count;
	if (r < 0 || !*ret)
		return r;
	r = parquet_read_pages(s->file, group, s->at.trace, first, count, &s->traces, s->err);
	if (r < 0)
		return r;
	if (s->traces.count != s->spans.count)
		return malformed(s, "columns differ in length");
	if (array_reserve(&s->passes, &s->pass_count, s->spans.count, SIZE_MAX) < 0)
		return error_nomem(s->err);
	*ret = false;
	for (size_t i = 0; i < s->spans.count; i++) {
		s->passes[i] = row_passes(s, i);
		*ret |= s->passes[i];
	}
	return 0;
}

/* A text that is new. */
static int check_text(struct scanning *s, uint32_t id)
{
	struct numbers_reader reader;
	struct bytes text = intern_get(s->texts, id);
	int r;
	numbers_begin(&reader, text);
	while ((r = numbers_next(&reader)) > 0)
		;
	if (r < 0 || !text.len)
		return malformed(s, "numbers of a row are malformed");
	s->text_passes[id] = !s->scan->numbers_pass || s->scan->numbers_pass(s->scan->context, text) ? 2 : 1;
	return 0;
}

/* *ret: the id of a text in the columns at hand. Equal ones are mostly the same bytes, those of the page's dictionary. */
static int find_text(struct scanning *s, struct bytes text, struct bytes *last, uint32_t *ret)
{
	if (text.data == last->data && text.len == last->len)
		return 0;
	if (intern_add(s->texts, text.data, text.len, ret) < 0)
		return error_nomem(s->err);
	*last = text;
	size_t had = s->text_pass_count;
	if (array_reserve(&s->text_passes, &s->text_pass_count, (size_t)*ret + 1, SIZE_MAX) < 0)
		return error_nomem(s->err);
	memset(s->text_passes + had, 0, s->text_pass_count - had);
	return s->text_passes[*ret] ? 0 : check_text(s, *ret);
}

/* Reads the numbers of these pages, and judges the rows by them. *ret: one of them passes. */
static int sieve_numbers(struct scanning *s, size_t group, size_t first, size_t count, bool *ret)
{
	int r = parquet_read_pages(s->file, group, s->at.numbers, first, count, &s->numbers, s->err);
	const struct parquet_data *numbers = &s->numbers;
	struct bytes last = {0};
	uint32_t id = 0;
	bool filters = s->scan->numbers_pass != NULL, any = false;
	if (r == 0 && s->has_links && numbers->count != s->spans.count)
		r = malformed(s, "columns differ in length");
	if (r == 0 && (array_reserve(&s->row_texts, &s->row_text_count, numbers->count, SIZE_MAX) < 0 ||
		       array_reserve(&s->passes, &s->pass_count, numbers->count, SIZE_MAX) < 0))
		r = error_nomem(s->err);
	for (size_t i = 0; r == 0 && i < numbers->count; i++) {
		bool has = !numbers->present || numbers->present[i];
		if (has)
			r = find_text(s, numbers->bytes[i], &last, &id);
		s->row_texts[i] = has ? id : 0;
		bool passes = has ? r == 0 && s->text_passes[id] == 2 : s->takes_no_numbers;
		if (filters)
			s->passes[i] = passes && (!s->has_links || s->passes[i]);
		any |= filters && s->passes[i];
	}
	*ret = any || !filters;
	return r;
}

static int read_values(struct scanning *s, size_t group, size_t first, size_t count)
{
	int r = 0;
	for (size_t i = 0; r == 0 && i < PROCESS_STATS_COLUMNS; i++) {
		if (!(s->columns >> i & 1))
			continue;
		r = parquet_read_pages(s->file, group, s->at.values[i], first, count, &s->values[i], s->err);
		if (r == 0 && s->values[i].count != s->ids.count)
			r = malformed(s, "columns differ in length");
	}
	return r;
}

static int read_pages(struct scanning *s, size_t group, size_t first, size_t count, bool inside)
{
	int r = parquet_read_pages(s->file, group, s->at.id, first, count, &s->ids, s->err);
	if (r == 0)
		r = read_values(s, group, first, count);
	if (r == 0 && s->scan->stack_count)
		r = parquet_read_pages(s->file, group, s->at.stack, first, count, &s->stacks, s->err);
	s->has_times = !inside || s->scan->need_times;
	if (r == 0 && s->has_times)
		r = parquet_read_pages(s->file, group, s->at.time, first, count, &s->times, s->err);
	if (r < 0)
		return r;
	if ((s->scan->stack_count && s->stacks.count != s->ids.count) || (s->has_times && s->times.count != s->ids.count) ||
	    (s->has_links && s->spans.count != s->ids.count) || (s->has_numbers && s->numbers.count != s->ids.count))
		return malformed(s, "columns differ in length");
	return check_ids(s);
}

/* First row of [from, to) whose time is not below `time`; rows of one id are sorted by it. */
static size_t lower_bound(const int64_t *times, size_t from, size_t to, int64_t time)
{
	while (from < to) {
		size_t middle = from + (to - from) / 2;
		if (times[middle] < time)
			from = middle + 1;
		else
			to = middle;
	}
	return from;
}

/* Moves the rows that pass together; returns the end of them. */
static size_t keep_passing(struct scanning *s, size_t from, size_t to)
{
	size_t kept = from;
	for (size_t i = from; i < to; i++) {
		if (!s->passes[i])
			continue;
		s->values[0].i64[kept] = s->values[0].i64[i];
		if (s->scan->stack_count)
			s->stacks.i32[kept] = s->stacks.i32[i];
		if (s->has_times)
			s->times.i64[kept] = s->times.i64[i];
		if (s->scan->linked) {
			s->traces.bytes[kept] = s->traces.bytes[i];
			s->spans.bytes[kept] = s->spans.bytes[i];
		}
		if (s->has_numbers)
			s->row_texts[kept] = s->row_texts[i];
		kept++;
	}
	return kept;
}

/* Rows of one id, all of them in one range. */
static int give_slice(struct scanning *s, size_t from, size_t to)
{
	struct block_scan *scan = s->scan;
	scan->rows += to - from;
	if (has_conditions_on_rows(s))
		to = keep_passing(s, from, to);
	if (from == to)
		return 0;
	struct block_run run = {
		.id = (uint32_t)s->ids.i32[from],
		.count = to - from,
		.stacks = scan->stack_count ? s->stacks.i32 + from : NULL,
		.times = s->has_times ? s->times.i64 + from : NULL,
		.traces = s->has_links && scan->linked ? s->traces.bytes + from : NULL,
		.spans = s->has_links && scan->linked ? s->spans.bytes + from : NULL,
		.numbers = s->has_numbers && scan->texts ? s->row_texts + from : NULL,
	};
	for (size_t i = 0; i < PROCESS_STATS_COLUMNS; i++)
		run.values[i] = s->columns >> i & 1 ? s->values[i].i64 + from : NULL;
	return scan->on_run(scan->context, &run, s->err);
}

/* The rows of one id; gives those in the ranges. */
static int give_run(struct scanning *s, size_t from, size_t to, bool inside)
{
	const struct block_scan *scan = s->scan;
	const int64_t *times = s->times.i64;
	int r = 0;
	if (inside)
		return give_slice(s, from, to);
	for (size_t i = find_range(scan, times[from]); r == 0 && i < scan->range_count && from < to; i++) {
		from = lower_bound(times, from, to, scan->ranges[i].from_ns);
		size_t end = lower_bound(times, from, to, scan->ranges[i].to_ns);
		r = give_slice(s, from, end);
		from = end;
	}
	return r;
}

#define RUN_STEP 16

/* The end of the run that begins at `from`. Each row is compared: with partitions an id comes again in the next one, with
 * others in between, so that nothing can be skipped. */
static size_t run_end(const int32_t *ids, size_t from, size_t count)
{
	int32_t id = ids[from], differs = 0;
	size_t to = from + 1;
	for (; to + RUN_STEP <= count; to += RUN_STEP) {
		for (size_t i = 0; i < RUN_STEP; i++)
			differs |= ids[to + i] ^ id;
		if (differs)
			break;
	}
	while (to < count && ids[to] == id)
		to++;
	return to;
}

static int give_rows(struct scanning *s, bool inside)
{
	int r = 0;
	for (size_t from = 0, to; r == 0 && from < s->ids.count; from = to) {
		to = run_end(s->ids.i32, from, s->ids.count);
		if (s->scan->wanted[s->ids.i32[from]])
			r = give_run(s, from, to, inside);
	}
	return r;
}

/* Pages [first, first + count). *ret_any: they may have a row that passes. */
static int load_rows(struct scanning *s, size_t group, size_t first, size_t count, bool inside, bool *ret_any)
{
	*ret_any = true;
	int r = s->has_links ? sieve_links(s, group, first, count, ret_any) : 0;
	if (r == 0 && *ret_any && s->has_numbers)
		r = sieve_numbers(s, group, first, count, ret_any);
	return r == 0 && *ret_any ? read_pages(s, group, first, count, inside) : r;
}

/* ---- what is damaged ---- */

/* Where the rows of a page are in time; what is not known is that of the row group, or of the block. */
static struct block_lost lost_page(const struct scanning *s, size_t group, size_t page)
{
	struct block_lost lost = {.file = s->scan->file,
				  .group = group,
				  .page = parquet_page_count(s->file, group) > 1 ? page : SIZE_MAX,
				  .rows = parquet_page_first_row(s->file, group, page + 1) -
					  parquet_page_first_row(s->file, group, page),
				  .from_ns = s->scan->block->meta.min_ns,
				  .to_ns = s->scan->block->meta.max_ns};
	if (!parquet_page_range(s->file, group, s->at.time, page, &lost.from_ns, &lost.to_ns))
		parquet_chunk_range(s->file, group, s->at.time, &lost.from_ns, &lost.to_ns);
	return lost;
}

/* Of a page index everything can be read without, though not as fast: it is only reported. */
static int report_index(struct scanning *s, size_t group)
{
	struct error why = {0};
	if (!s->scan->on_lost || parquet_index_damage(s->file, group, &why) == 0)
		return 0;
	struct block_lost lost = lost_page(s, group, 0);
	lost.page = SIZE_MAX;
	lost.rows = 0;
	return s->scan->on_lost(s->scan->context, &lost, why.message);
}

/* The file as a whole. */
static int lose_all(struct scanning *s, const char *why)
{
	const struct block_meta *meta = &s->scan->block->meta;
	struct block_lost lost = {.file = s->scan->file,
				  .group = SIZE_MAX,
				  .page = SIZE_MAX,
				  .rows = meta->files[s->scan->file].rows,
				  .from_ns = meta->min_ns,
				  .to_ns = meta->max_ns};
	s->is_empty = true;
	return s->scan->on_lost(s->scan->context, &lost, why);
}

/* What is taken for damage where memory ran out is none. */
static bool is_damage(const struct block_scan *scan, int r)
{
	return r == -EBADMSG && scan->on_lost && !budget_has_ended();
}

static int give_pages(struct scanning *s, size_t group, size_t first, size_t count, bool inside);

/* Some of these pages are damaged: those that are not are given. */
static int give_around(struct scanning *s, size_t group, size_t first, size_t count, bool inside, const char *why)
{
	int r = 0;
	if (count == 1) {
		struct block_lost lost = lost_page(s, group, first);
		return s->scan->on_lost(s->scan->context, &lost, why);
	}
	for (size_t i = first; r == 0 && i < first + count; i++)
		r = give_pages(s, group, i, 1, inside);
	return r;
}

static int give_pages(struct scanning *s, size_t group, size_t first, size_t count, bool inside)
{
	struct error why = {0}, *err = s->err;
	bool any = true;
	s->err = &why;
	int r = load_rows(s, group, first, count, inside, &any);
	s->err = err;
	if (is_damage(s->scan, r))
		return give_around(s, group, first, count, inside, why.message);
	if (r < 0 && err)
		*err = why;
	return r == 0 && any ? give_rows(s, inside) : r;
}

/* Reads neighbouring pages that stay, a few at a time. */
static int scan_group(struct scanning *s, size_t group, bool inside)
{
	struct block_scan *scan = s->scan;
	size_t count = parquet_page_count(s->file, group);
	/* Few pages have rows of a span: with others around them more would be read than is wanted. */
	bool few = (s->has_links && !s->takes_no_link) || (s->has_numbers && !s->takes_no_numbers);
	size_t most = few ? 1 : scan->file == BLOCK_PROCESSES ? PROCESS_PAGES_AT_ONCE : PAGES_AT_ONCE;
	for (size_t first = 0, next; first < count; first = next) {
		struct verdict verdict = evaluate_page(s, group, first);
		next = first + 1;
		if (verdict.skip) {
			scan->pages_skipped++;
			continue;
		}
		bool all_inside = inside || verdict.inside;
		for (; next < count && next - first < most; next++) {
			verdict = evaluate_page(s, group, next);
			if (verdict.skip)
				break;
			all_inside &= inside || verdict.inside;
		}
		scan->pages += next - first;
		int r = scan->check ? scan->check(scan->context, s->err) : 0;
		if (r == 0)
			r = give_pages(s, group, first, next - first, all_inside);
		if (r != 0)
			return r;
	}
	return report_index(s, group);
}

/* ---- all ---- */

static int prepare(struct scanning *s)
{
	int r = find_columns(s);
	if (r == 0)
		r = find_links(s);
	if (r == 0)
		r = find_numbers(s);
	if (r == 0)
		r = count_wanted(s);
	s->is_empty = (!s->has_links && !s->takes_no_link) || (!s->has_numbers && !s->takes_no_numbers);
	return r;
}

struct block_scanner {
	struct scanning s;
};

int block_scanner_open(struct block_scan *scan, struct block_scanner **ret, struct error *err)
{
	struct block_scanner *scanner = mem_zalloc(sizeof(*scanner));
	if (!scanner)
		return error_nomem(err);
	scanner->s.scan = scan;
	scanner->s.err = err;
	struct error why = {0};
	scanner->s.err = &why;
	int r = block_open_file_with(scan->block, scan->file, scan->footer, &scanner->s.file, &why);
	if (r == 0)
		r = prepare(&scanner->s);
	scanner->s.err = err;
	if (is_damage(scan, r))
		r = lose_all(&scanner->s, why.message);
	else if (r < 0 && err)
		*err = why;
	if (r != 0)
		block_scanner_close(scanner);
	else
		*ret = scanner;
	return r;
}

size_t block_scanner_groups(const struct block_scanner *scanner)
{
	return scanner->s.is_empty ? 0 : parquet_group_count(scanner->s.file);
}

bool block_scanner_wants(const struct block_scanner *scanner, size_t group)
{
	bool skip = evaluate_group(&scanner->s, group).skip;
	scanner->s.scan->groups += !skip;
	scanner->s.scan->groups_skipped += skip;
	return !skip;
}

int block_scanner_read(struct block_scanner *scanner, size_t group, struct error *err)
{
	scanner->s.err = err;
	int r = scan_group(&scanner->s, group, evaluate_group(&scanner->s, group).inside);
	parquet_forget_index(scanner->s.file, group);
	return r;
}

struct block_scanner *block_scanner_close(struct block_scanner *scanner)
{
	if (!scanner)
		return NULL;
	struct scanning *s = &scanner->s;
	struct parquet_data *const all[] = {&s->ids, &s->stacks, &s->times, &s->traces, &s->spans, &s->numbers};
	for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++)
		parquet_data_release(all[i]);
	for (size_t i = 0; i < PROCESS_STATS_COLUMNS; i++)
		parquet_data_release(&s->values[i]);
	if (s->file)
		s->scan->bytes += parquet_bytes_read(s->file);
	mem_free(s->passes);
	mem_free(s->text_passes);
	mem_free(s->row_texts);
	if (s->own_texts.count)
		intern_release(&s->own_texts);
	mem_free(s->wanted_before);
	parquet_close(s->file);
	return mem_free(scanner);
}

int block_scan(struct block_scan *scan, struct error *err)
{
	struct block_scanner *scanner;
	int r = block_scanner_open(scan, &scanner, err);
	if (r != 0)
		return r;
	for (size_t g = 0; r == 0 && g < block_scanner_groups(scanner); g++)
		if (block_scanner_wants(scanner, g))
			r = block_scanner_read(scanner, g, err);
	block_scanner_close(scanner);
	return r;
}

void block_scan_add_counts(const struct block_scan *scan, struct store_read_stats *to)
{
	to->rows += scan->rows;
	to->bytes += scan->bytes;
	to->groups += scan->groups;
	to->groups_skipped += scan->groups_skipped;
	to->pages += scan->pages;
	to->pages_skipped += scan->pages_skipped;
}
