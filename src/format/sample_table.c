/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A profile as a table, for people who ask questions in SQL or in Python: Parquet, an Arrow stream or CSV. A row is a sample:
 *
 *   time                          nanoseconds since 1970, null where unknown
 *   cpu_nanoseconds ...           a column a value, TYPE_UNIT
 *   stack                         functions from the root to the leaf, with ';' between; a ';' in a name is a ':'
 *   function, file, line, binary  of the leaf
 *   trace_id, span_id             in hexadecimal, if a sample has them
 *   thread_name ...               a column a label; what no name may have in SQL is a '_'
 *
 * Numbers of labels are integers, with their unit behind the name, if all values of the label are and have the same.
 *
 * The stack is a text and not a list: engines keep both as a dictionary and one number a row, and a text can be matched, split
 * (string_split(stack, ';')) and handed to other tools as it is. Blocks of the store look different (docs/format.md): they have
 * stacks of their own tables.
 *
 * Rows go out in groups (codec/tabular.h), of which one is in memory.
 */
#include "format/sample_table.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/limits.h"
#include "base/order.h"
#include "base/text.h"
#include "format/format_int.h"

#define LABEL_COLUMNS_MAX 1000
#define STACK_BYTES_MAX	  MIB	     /* of one stack's text */
#define GROUP_BYTES_MAX	  (64 * MIB) /* of texts in a row group; the one that passes it is the last */
#define GROUP_CELLS_MAX	  (4u * 1024 * 1024)

enum kind { TIME, VALUE, STACK, FUNCTION, FILE_NAME, LINE, BINARY, TRACE, SPAN, LABEL_TEXT, LABEL_NUMBER };

struct column {
	enum kind kind;
	uint32_t key; /* of labels: a string; of values: which */
	char *name;
	const char *unit; /* of the profile */
	uint8_t *present;
	union {
		void *cells;
		int64_t *i64;
		struct bytes *bytes;
	};
};

struct export
{
	const struct profile *profile;
	struct column *columns;
	size_t count, capacity;
	size_t row_count;
	uint32_t *order;	 /* samples by row; NULL = as they are in the profile */
	size_t group_rows;	 /* at most */
	uint32_t *column_of_key; /* by string: column + 1 */
	struct bytes *stacks;	 /* by stack: its text in this row group; NULL = not yet */
	struct arena arena;	 /* texts of this row group */
	struct tabular_writer *writer;
	struct buffer text;
};

/* ---- columns ---- */

static bool is_taken(const struct export *export, const char *name)
{
	for (size_t i = 0; i < export->count; i++)
		if (strcasecmp(export->columns[i].name, name) == 0)
			return true;
	return false;
}

/* The name in export->text, made one that is not taken. */
static int add_column(struct export *export, enum kind kind, uint32_t key, const char *unit, struct error *err)
{
	struct buffer *name = &export->text;
	for (size_t i = 0; i < name->len; i++) {
		uint8_t c = name->data[i];
		bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
		name->data[i] = plain ? c : '_';
	}
	size_t len = name->len;
	for (unsigned n = 2; !buffer_string(name) || len == 0 || is_taken(export, buffer_string(name)); n++) {
		name->len = len;
		if (buffer_printf(name, "_%u", n) < 0)
			return error_nomem(err);
		len = len ? len : 1;
	}
	if (array_reserve(&export->columns, &export->capacity, export->count + 1, SIZE_MAX) < 0)
		return error_nomem(err);
	struct column *column = &export->columns[export->count];
	*column = (struct column){.kind = kind, .key = key, .unit = unit, .name = mem_strdup(buffer_string(name))};
	if (!column->name)
		return error_nomem(err);
	export->count++;
	return 0;
}

static int add_named(struct export *export, enum kind kind, const char *name, struct error *err)
{
	buffer_clear(&export->text);
	return buffer_append_string(&export->text, name) < 0 ? error_nomem(err) : add_column(export, kind, 0, NULL, err);
}

static int add_values(struct export *export, struct error *err)
{
	const struct profile *profile = export->profile;
	int r = 0;
	for (uint32_t i = 0; r == 0 && i < profile->sample_type_count; i++) {
		const char *unit = profile_string(profile, profile->sample_types[i].unit);
		buffer_clear(&export->text);
		if (buffer_printf(&export->text, "%s_%s", profile_string(profile, profile->sample_types[i].type), unit) < 0)
			return error_nomem(err);
		r = add_column(export, VALUE, i, unit, err);
	}
	return r;
}

/* What all labels of a key have in common. */
struct key_use {
	bool is_used, is_text; /* text: one of its values is, or units differ */
	uint32_t unit;
};

static int add_labels(struct export *export, struct error *err)
{
	const struct profile *profile = export->profile;
	_cleanup_(mem_freep) struct key_use *uses = mem_zalloc_array(profile->strings.count, sizeof(*uses));
	if (!uses)
		return error_nomem(err);
	for (size_t i = 0; i < profile->label_count; i++) {
		const struct profile_label *label = &profile->labels[i];
		struct key_use *use = &uses[label->key];
		use->is_text |= label->value || (use->is_used && use->unit != label->unit);
		use->unit = label->unit;
		use->is_used = true;
	}
	int r = 0;
	size_t count = 0;
	for (uint32_t key = 0; r == 0 && key < profile->strings.count; key++) {
		const struct key_use *use = &uses[key];
		if (!use->is_used)
			continue;
		if (++count > LABEL_COLUMNS_MAX)
			return error_set(err, -E2BIG, "more than %d different labels: too many columns", LABEL_COLUMNS_MAX);
		buffer_clear(&export->text);
		const char *unit = use->is_text ? "" : profile_string(profile, use->unit);
		if (buffer_printf(&export->text, "%s%s%s", profile_string(profile, key), *unit ? "_" : "", unit) < 0)
			return error_nomem(err);
		r = add_column(export, use->is_text ? LABEL_TEXT : LABEL_NUMBER, key, unit, err);
		export->column_of_key[key] = (uint32_t) export->count;
	}
	return r;
}

static int add_columns(struct export *export, struct error *err)
{
	static const struct {
		enum kind kind;
		const char *name;
	} of_leaf[] = {{STACK, "stack"}, {FUNCTION, "function"}, {FILE_NAME, "file"}, {LINE, "line"}, {BINARY, "binary"}};
	bool has_links = false;
	for (size_t i = 0; i < export->profile->sample_count && !has_links; i++)
		has_links = export->profile->samples[i].link != 0;
	int r = add_named(export, TIME, "time", err);
	if (r == 0)
		r = add_values(export, err);
	for (size_t i = 0; r == 0 && i < sizeof(of_leaf) / sizeof(of_leaf[0]); i++)
		r = add_named(export, of_leaf[i].kind, of_leaf[i].name, err);
	if (r == 0 && has_links)
		r = add_named(export, TRACE, "trace_id", err);
	if (r == 0 && has_links)
		r = add_named(export, SPAN, "span_id", err);
	return r < 0 ? r : add_labels(export, err);
}

static bool is_number(const struct column *column)
{
	return column->kind == TIME || column->kind == VALUE || column->kind == LINE || column->kind == LABEL_NUMBER;
}

/* Row groups are shorter where there are many columns, for one is in memory as a whole. */
static int allocate_columns(struct export *export)
{
	size_t rows = export->row_count, most = GROUP_CELLS_MAX / export->count;
	export->group_rows = most < TABULAR_ROWS ? most : TABULAR_ROWS;
	rows = rows < export->group_rows ? rows : export->group_rows;
	for (size_t i = 0; i < export->count; i++) {
		struct column *column = &export->columns[i];
		size_t size = is_number(column) ? sizeof(*column->i64) : sizeof(*column->bytes);
		column->present = mem_alloc_array(rows, 1);
		column->cells = mem_alloc_array(rows, size);
		if (!column->present || !column->cells)
			return -ENOMEM;
	}
	return 0;
}

/* ---- cells ---- */

/* The name of a location's function, or of an inlined one: line < 0 = it has no lines. */
static int append_name(struct export *export, uint32_t location, int64_t line, struct buffer *out)
{
	size_t before = out->len;
	int r = line < 0 ? format_append_address(export->profile, location, out)
			 : format_append_function(export->profile, export->profile->lines[line].function, out);
	for (size_t i = before; i < out->len; i++)
		out->data[i] = out->data[i] == ';' ? ':' : out->data[i];
	return r;
}

static int stack_text(struct export *export, uint32_t stack, struct bytes *ret, struct error *err)
{
	const struct profile *profile = export->profile;
	uint32_t path[LIMIT_STACK_DEPTH];
	struct buffer *text = &export->text;
	if (export->stacks[stack].data) {
		*ret = export->stacks[stack];
		return 0;
	}
	size_t depth = profile_stack_locations(profile, stack, path, LIMIT_STACK_DEPTH);
	int r = 0;
	buffer_clear(text);
	for (size_t i = depth < LIMIT_STACK_DEPTH ? depth : LIMIT_STACK_DEPTH; r == 0 && i-- > 0;) {
		const struct profile_location *location = &profile->locations[path[i]];
		for (int64_t k = location->line_count ? location->line_count : 1; r == 0 && k-- > 0;) {
			if (text->len > 0)
				r = buffer_append_byte(text, ';');
			if (r == 0)
				r = append_name(export, path[i], location->line_count ? (int64_t)location->line_first + k : -1,
						text);
			if (text->len > STACK_BYTES_MAX)
				return error_set(err, -E2BIG, "a stack has more than %llu bytes of names",
						 (unsigned long long)STACK_BYTES_MAX);
		}
	}
	if (r == 0)
		r = text_copy_utf8(&export->arena, buffer_bytes(text), &export->stacks[stack]);
	*ret = export->stacks[stack];
	return r < 0 ? error_nomem(err) : 0;
}

static int put_text(struct export *export, struct column *column, size_t row, struct bytes text)
{
	column->present[row] = text.len > 0;
	return text.len > 0 ? text_copy_utf8(&export->arena, text, &column->bytes[row]) : 0;
}

/* Function, file, line and binary of the innermost frame. */
static int put_leaf(struct export *export, struct column *column, size_t row, uint32_t stack)
{
	const struct profile *profile = export->profile;
	uint32_t id = profile->stacks[stack].location;
	const struct profile_location *location = &profile->locations[id];
	const struct profile_line *line = location->line_count ? &profile->lines[location->line_first] : NULL;
	struct bytes text = {0};
	if (stack == 0)
		return 0;
	switch (column->kind) {
	case FUNCTION:
		buffer_clear(&export->text);
		if (append_name(export, id, line ? (int64_t)location->line_first : -1, &export->text) < 0)
			return -ENOMEM;
		return put_text(export, column, row, buffer_bytes(&export->text));
	case FILE_NAME:
		if (line)
			text = profile_string_bytes(profile, profile->functions[line->function].file_name);
		return put_text(export, column, row, text);
	case BINARY:
		return put_text(export, column, row,
				profile_string_bytes(profile, profile->mappings[location->mapping].file_name));
	default:
		column->present[row] = line && line->line > 0;
		column->i64[row] = line ? line->line : 0;
		return 0;
	}
}

static int put_link(struct export *export, struct column *column, size_t row, uint32_t link)
{
	const struct profile_link *ids = &export->profile->links[link];
	struct bytes id = column->kind == TRACE ? (struct bytes){ids->trace_id, sizeof(ids->trace_id)}
						: (struct bytes){ids->span_id, sizeof(ids->span_id)};
	if (link == 0)
		return 0;
	buffer_clear(&export->text);
	if (text_append_hex(&export->text, id) < 0)
		return -ENOMEM;
	return put_text(export, column, row, buffer_bytes(&export->text));
}

/* Of several values of one key the first; those of the whole profile stand where the sample has none. */
static int put_labels(struct export *export, size_t row, uint32_t set)
{
	const struct profile *profile = export->profile;
	for (uint32_t i = 0; i < profile->label_sets[set].count; i++) {
		const struct profile_label *label = &profile->labels[profile->label_sets[set].first + i];
		struct column *column = &export->columns[export->column_of_key[label->key] - 1];
		if (column->present[row])
			continue;
		column->present[row] = 1;
		if (column->kind == LABEL_NUMBER) {
			column->i64[row] = label->number;
			continue;
		}
		buffer_clear(&export->text);
		if (format_append_label_value(profile, label, &export->text) < 0 ||
		    text_copy_utf8(&export->arena, buffer_bytes(&export->text), &column->bytes[row]) < 0)
			return -ENOMEM;
	}
	return 0;
}

static int put_row(struct export *export, size_t row, size_t index, struct error *err)
{
	const struct profile *profile = export->profile;
	const struct profile_sample *sample = &profile->samples[index];
	int r = 0;
	for (size_t i = 0; r == 0 && i < export->count; i++) {
		struct column *column = &export->columns[i];
		column->present[row] = 0;
		if (!is_number(column))
			column->bytes[row] = (struct bytes){(const uint8_t *)"", 0};
		switch (column->kind) {
		case TIME:
			column->present[row] = sample->time_ns != 0;
			column->i64[row] = sample->time_ns;
			break;
		case VALUE:
			column->present[row] = 1;
			column->i64[row] = profile->values[index * profile->sample_type_count + column->key];
			break;
		case STACK:
			column->present[row] = 1;
			r = stack_text(export, sample->stack, &column->bytes[row], err);
			break;
		case TRACE:
		case SPAN: r = put_link(export, column, row, sample->link); break;
		case LABEL_TEXT: break;
		case LABEL_NUMBER: column->i64[row] = 0; break;
		default: r = put_leaf(export, column, row, sample->stack); break;
		}
	}
	if (r == 0)
		r = put_labels(export, row, sample->labels);
	if (r == 0)
		r = put_labels(export, row, profile->resource_labels);
	return r == -ENOMEM ? error_nomem(err) : r;
}

/* ---- the table ---- */

static size_t sample_at(const struct export *export, size_t row)
{
	return export->order ? export->order[row] : row;
}

static bool is_optional(const struct column *column)
{
	return column->kind != VALUE && column->kind != STACK;
}

static int write_group(struct export *export, size_t first, size_t rows, struct format_sink *sink, struct error *err)
{
	_cleanup_(mem_freep) struct tabular_cells *cells = mem_zalloc_array(export->count, sizeof(*cells));
	if (!cells)
		return error_nomem(err);
	for (size_t i = 0; i < export->count; i++) {
		const struct column *column = &export->columns[i];
		cells[i].present = is_optional(column) ? column->present : NULL;
		if (is_number(column))
			cells[i].i64 = column->i64;
		else
			cells[i].bytes = column->bytes;
	}
	int r = tabular_writer_rows(export->writer, cells, rows, err);
	for (size_t i = first; i < first + rows; i++)
		export->stacks[export->profile->samples[sample_at(export, i)].stack] = (struct bytes){0};
	arena_release(&export->arena);
	return r < 0 ? r : format_sink_drain(sink, false, err);
}

static int write_rows(struct export *export, struct format_sink *sink, struct error *err)
{
	size_t count = export->row_count, first = 0;
	int r = 0;
	for (size_t i = 0; r == 0 && i < count; i++) {
		r = put_row(export, i - first, sample_at(export, i), err);
		size_t rows = i + 1 - first;
		if (r == 0 && (rows == export->group_rows || i + 1 == count || export->arena.used_bytes > GROUP_BYTES_MAX)) {
			r = write_group(export, first, rows, sink, err);
			first = i + 1;
		}
	}
	return r;
}

struct ranked {
	int64_t value;
	uint32_t sample;
};
DEFINE_ORDER(compare_ranked, struct ranked, ORDER(b->value, a->value) ?: ORDER(a->sample, b->sample));

static int keep_largest(struct export *export, size_t limit, struct error *err)
{
	const struct profile *profile = export->profile;
	size_t count = profile->sample_count, types = profile->sample_type_count;
	export->row_count = count;
	if (limit == 0 || types == 0)
		return 0;
	export->row_count = limit < count ? limit : count;
	_cleanup_(mem_freep) struct ranked *ranked = mem_alloc_array(count, sizeof(*ranked));
	export->order = mem_alloc_array(export->row_count, sizeof(*export->order));
	if (!ranked || !export->order)
		return error_nomem(err);
	for (size_t i = 0; i < count; i++)
		ranked[i] = (struct ranked){profile->values[(i + 1) * types - 1], (uint32_t)i};
	sort_array(ranked, count, compare_ranked);
	for (size_t i = 0; i < export->row_count; i++)
		export->order[i] = ranked[i].sample;
	return 0;
}

static int prepare(struct export *export, size_t limit, struct error *err)
{
	const struct profile *profile = export->profile;
	export->column_of_key = mem_zalloc_array(profile->strings.count, sizeof(*export->column_of_key));
	export->stacks = mem_zalloc_array(profile->stack_count, sizeof(*export->stacks));
	if (!export->column_of_key || !export->stacks)
		return error_nomem(err);
	int r = keep_largest(export, limit, err);
	if (r == 0)
		r = add_columns(export, err);
	return r < 0 ? r : allocate_columns(export) < 0 ? error_nomem(err) : 0;
}

static void release(struct export *export)
{
	tabular_writer_free(export->writer);
	for (size_t i = 0; i < export->count; i++) {
		mem_free(export->columns[i].name);
		mem_free(export->columns[i].present);
		mem_free(export->columns[i].cells);
	}
	mem_free(export->columns);
	mem_free(export->column_of_key);
	mem_free(export->stacks);
	mem_free(export->order);
	arena_release(&export->arena);
	buffer_release(&export->text);
	mem_free(export);
}

static int drain(void *context, struct error *err)
{
	return format_sink_drain(context, false, err);
}

static int write_table(struct export *export, enum tabular_format format, const struct tabular_options *options,
		       struct format_sink *sink, struct error *err)
{
	int r = tabular_writer_open(format, options, sink->out, &export->writer, err);
	if (r == 0)
		r = write_rows(export, sink, err);
	return r < 0 ? r : tabular_writer_finish(export->writer, drain, sink, err);
}

static int describe_and_write(struct export *export, enum tabular_format format, const struct sample_table_options *about,
			      struct format_sink *sink, struct error *err)
{
	const struct profile *profile = export->profile;
	_cleanup_(mem_freep) struct tabular_column *columns = mem_zalloc_array(export->count, sizeof(*columns));
	struct tabular_fact all[SAMPLE_TABLE_FACTS_MAX + 3];
	char period[TEXT_NUMBER_MAX];
	if (!columns)
		return error_nomem(err);
	for (size_t i = 0; i < export->count; i++) {
		const struct column *column = &export->columns[i];
		columns[i] = (struct tabular_column){.name = column->name,
						     .unit = column->unit,
						     .type = column->kind == TIME ? TABULAR_TIME
							     : is_number(column)  ? TABULAR_INTEGER
										  : TABULAR_TEXT,
						     .optional = is_optional(column)};
	}
	size_t fact_count = about->fact_count;
	for (size_t i = 0; i < fact_count; i++)
		all[i] = about->facts[i];
	if (profile->period_type.type) {
		snprintf(period, sizeof(period), "%lld", (long long)profile->period);
		all[fact_count++] =
			(struct tabular_fact){"wick.period_type", profile_string(profile, profile->period_type.type)};
		all[fact_count++] =
			(struct tabular_fact){"wick.period_unit", profile_string(profile, profile->period_type.unit)};
		all[fact_count++] = (struct tabular_fact){"wick.period", period};
	}
	const struct tabular_options options = {
		.columns = columns, .column_count = export->count, .facts = all, .fact_count = fact_count};
	return write_table(export, format, &options, sink, err);
}

int sample_table_write(const struct profile *profile, enum tabular_format format, const struct sample_table_options *options,
		       struct format_sink *sink, struct error *err)
{
	if (options->fact_count > SAMPLE_TABLE_FACTS_MAX)
		return error_set(err, -EINVAL, "more than %d facts", SAMPLE_TABLE_FACTS_MAX);
	struct export *export = mem_zalloc(sizeof(*export));
	if (!export)
		return error_nomem(err);
	export->profile = profile;
	arena_init(&export->arena, SIZE_MAX);
	buffer_init(&export->text, SIZE_MAX);
	int r = prepare(export, options->limit, err);
	if (r == 0)
		r = describe_and_write(export, format, options, sink, err);
	release(export);
	return r;
}

#define DEFINE_FORMAT(which, tabular, extension, words)                                                                        \
	static int write_##which(const struct profile *profile, const struct format_options *options,                          \
				 struct format_sink *sink, struct error *err)                                                  \
	{                                                                                                                      \
		(void)options;                                                                                                 \
		return sample_table_write(profile, tabular, &(struct sample_table_options){0}, sink, err);                     \
	}                                                                                                                      \
	const struct format format_##which = {                                                                                 \
		.name = #which,                                                                                                \
		.extensions = extension,                                                                                       \
		.description = words,                                                                                          \
		.holds = FORMAT_HOLDS_TYPES | FORMAT_HOLDS_TIMES | FORMAT_HOLDS_THREADS | FORMAT_HOLDS_LABELS |                \
			 FORMAT_HOLDS_LINKS,                                                                                   \
		.write = write_##which,                                                                                        \
	}
DEFINE_FORMAT(parquet, TABULAR_PARQUET, ".parquet", "a table of samples for SQL: DuckDB, ClickHouse, Spark, pandas");
DEFINE_FORMAT(arrow, TABULAR_ARROW, ".arrows", "the same table as an Arrow IPC stream: pandas, Polars, DuckDB");
DEFINE_FORMAT(csv, TABULAR_CSV, ".csv", "the same table as CSV");
