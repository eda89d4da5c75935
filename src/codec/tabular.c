/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tables for other programs. Whoever has rows hands them over by columns, some ten thousand at a time, and need not know what
 * they become:
 *
 *   Arrow     an IPC stream (arrow/arrow_write.c): a schema, a record batch a call, the end. Texts are plain UTF-8 columns and
 * not dictionaries: a dictionary would have to be whole before the first batch, and not every reader takes one that is replaced
 * between batches. Parquet   a file (parquet.h): a row group a call. Its writer wants a descriptor, so the file is in memory
 * (memfd) until it is complete: it is compressed, and a fraction of what it is made of. CSV       RFC 4180, with a line of
 * names and LF at the end of lines. An absent cell is empty, an empty text is "": DuckDB and PostgreSQL keep them apart in this
 * way. Times are RFC 3339 in UTC with as many digits as they need: none, 3, 6 or 9. Numbers are the shortest that read as the
 * same double.
 *
 * What a table is about (query, range, whether it is partial) goes into the metadata of Arrow and Parquet; CSV has no place
 * for it that would not be taken for data.
 */
#include "codec/tabular.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "base/alloc.h"
#include "base/io.h"
#include "base/text.h"
#include "base/time.h"
#include "codec/arrow/arrow_write.h"
#include "codec/json.h"
#include "codec/parquet.h"

#define COPY_BYTES (1024 * 1024)
#define FACTS_MAX  16
#define MESSAGE	   "the Parquet output"

struct tabular_writer {
	enum tabular_format format;
	struct tabular_options options;
	struct buffer *out;
	int fd; /* Parquet: the file; its writer has a duplicate */
	struct parquet_writer *parquet;
};

static const struct {
	const char *name, *media_type, *content_type;
} names[] = {
	[TABULAR_ARROW] = {"arrow", "application/vnd.apache.arrow.stream", "application/vnd.apache.arrow.stream"},
	[TABULAR_PARQUET] = {"parquet", "application/vnd.apache.parquet", "application/vnd.apache.parquet"},
	[TABULAR_CSV] = {"csv", "text/csv", "text/csv; charset=utf-8; header=present"},
};

int tabular_find_format(const char *name, enum tabular_format *ret)
{
	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
		if (strcmp(names[i].name, name) == 0) {
			*ret = (enum tabular_format)i;
			return 0;
		}
	}
	return -ENOENT;
}

const char *tabular_media_type(enum tabular_format format)
{
	return names[format].media_type;
}

const char *tabular_content_type(enum tabular_format format)
{
	return names[format].content_type;
}

static int written(const struct buffer *out, struct error *err)
{
	int r = buffer_status(out);
	return r == -E2BIG ? error_set(err, r, "the table is too large") : r < 0 ? error_nomem(err) : 0;
}

/* ---- Arrow ---- */

static struct arrow_column *arrow_columns(const struct tabular_options *options, const struct tabular_cells *cells)
{
	static const enum arrow_kind kinds[] = {[TABULAR_INTEGER] = ARROW_INT64,
						[TABULAR_NUMBER] = ARROW_DOUBLE,
						[TABULAR_TEXT] = ARROW_UTF8,
						[TABULAR_TIME] = ARROW_TIMESTAMP_NS,
						[TABULAR_FLAG] = ARROW_BOOL};
	struct arrow_column *columns = mem_zalloc_array(options->column_count, sizeof(*columns));
	for (size_t i = 0; columns && i < options->column_count; i++) {
		const struct tabular_column *column = &options->columns[i];
		columns[i] = (struct arrow_column){.name = column->name, .unit = column->unit, .kind = kinds[column->type]};
		if (cells) {
			columns[i].values = cells[i].i64;
			columns[i].present = cells[i].present;
		}
	}
	return columns;
}

static int arrow_start(struct tabular_writer *writer, struct error *err)
{
	const struct tabular_options *options = &writer->options;
	_cleanup_(mem_freep) struct arrow_column *columns = arrow_columns(options, NULL);
	struct arrow_fact facts[FACTS_MAX];
	if (!columns)
		return error_nomem(err);
	for (size_t i = 0; i < options->fact_count; i++)
		facts[i] = (struct arrow_fact){options->facts[i].key, options->facts[i].value};
	return arrow_write_schema(columns, options->column_count, facts, options->fact_count, writer->out, err);
}

static int arrow_rows(struct tabular_writer *writer, const struct tabular_cells *cells, size_t rows, struct error *err)
{
	_cleanup_(mem_freep) struct arrow_column *columns = arrow_columns(&writer->options, cells);
	return columns ? arrow_write_batch(columns, writer->options.column_count, rows, writer->out, err) : error_nomem(err);
}

/* ---- Parquet ---- */

static int parquet_start(struct tabular_writer *writer, struct error *err)
{
	static const struct {
		enum parquet_type type;
		enum parquet_logical logical;
	} types[] = {[TABULAR_INTEGER] = {PARQUET_INT64, PARQUET_PLAIN_TYPE},
		     [TABULAR_NUMBER] = {PARQUET_DOUBLE, PARQUET_PLAIN_TYPE},
		     [TABULAR_TEXT] = {PARQUET_BYTE_ARRAY, PARQUET_STRING},
		     [TABULAR_TIME] = {PARQUET_INT64, PARQUET_TIMESTAMP_NS},
		     [TABULAR_FLAG] = {PARQUET_BOOLEAN, PARQUET_PLAIN_TYPE}};
	const struct tabular_options *options = &writer->options;
	_cleanup_(mem_freep) struct parquet_column *columns = mem_zalloc_array(options->column_count, sizeof(*columns));
	struct parquet_key_value facts[FACTS_MAX];
	if (!columns)
		return error_nomem(err);
	for (size_t i = 0; i < options->column_count; i++) {
		const struct tabular_column *column = &options->columns[i];
		columns[i] = (struct parquet_column){.name = column->name,
						     .type = types[column->type].type,
						     .logical = types[column->type].logical,
						     .optional = column->optional};
	}
	for (size_t i = 0; i < options->fact_count; i++)
		facts[i] = (struct parquet_key_value){options->facts[i].key, options->facts[i].value};
	writer->fd = memfd_create("wick-parquet", MFD_CLOEXEC);
	int copy = writer->fd < 0 ? -1 : fcntl(writer->fd, F_DUPFD_CLOEXEC, 0);
	if (copy < 0)
		return error_set_errno(err, -errno, "cannot create a memfd for " MESSAGE);
	const struct parquet_write_options parquet = {.columns = columns,
						      .column_count = options->column_count,
						      .key_values = facts,
						      .key_value_count = options->fact_count};
	return parquet_writer_start(copy, MESSAGE, &parquet, &writer->parquet, err);
}

static int parquet_group(struct tabular_writer *writer, const struct tabular_cells *cells, size_t rows, struct error *err)
{
	size_t count = writer->options.column_count;
	_cleanup_(mem_freep) struct parquet_values *values = mem_zalloc_array(count, sizeof(*values));
	if (!values)
		return error_nomem(err);
	for (size_t i = 0; i < count; i++) {
		values[i].present = writer->options.columns[i].optional ? cells[i].present : NULL;
		switch (writer->options.columns[i].type) {
		case TABULAR_NUMBER: values[i].f64 = cells[i].f64; break;
		case TABULAR_TEXT: values[i].bytes = cells[i].bytes; break;
		case TABULAR_FLAG: values[i].booleans = cells[i].flags; break;
		default: values[i].i64 = cells[i].i64; break;
		}
	}
	return parquet_writer_group(writer->parquet, values, rows, err);
}

static int parquet_finish(struct tabular_writer *writer, int (*drain)(void *context, struct error *err), void *context,
			  struct error *err)
{
	struct buffer *out = writer->out;
	struct parquet_written result;
	uint64_t size = 0;
	int r = parquet_writer_finish(writer->parquet, &result, err);
	if (!r)
		r = io_file_size(writer->fd, &size, MESSAGE, err);
	for (uint64_t at = 0; !r && at < size;) {
		size_t some = size - at < COPY_BYTES ? (size_t)(size - at) : COPY_BYTES;
		if (buffer_reserve(out, some) < 0)
			return out->max - out->len < some ? error_set(err, -E2BIG, "the table is too large") : error_nomem(err);
		ssize_t n = io_pread(writer->fd, out->data + out->len, some, at, MESSAGE, err);
		if (n <= 0)
			return n < 0 ? (int)n : error_set(err, -EIO, MESSAGE " was truncated");
		out->len += (size_t)n;
		at += (uint64_t)n;
		r = drain ? drain(context, err) : 0;
	}
	return r;
}

/* ---- CSV ---- */

static bool needs_quotes(struct bytes text)
{
	if (text.len == 0 || text.data[0] == ' ' || text.data[text.len - 1] == ' ')
		return true;
	for (size_t i = 0; i < text.len; i++)
		if (text.data[i] == ',' || text.data[i] == '"' || text.data[i] == '\n' || text.data[i] == '\r')
			return true;
	return false;
}

static void csv_text(struct buffer *out, struct bytes text)
{
	if (!needs_quotes(text)) {
		buffer_append(out, text.data, text.len);
		return;
	}
	buffer_append_byte(out, '"');
	while (text.len) {
		const uint8_t *quote = memchr(text.data, '"', text.len);
		size_t len = quote ? (size_t)(quote - text.data) + 1 : text.len;
		buffer_append(out, text.data, len);
		if (quote)
			buffer_append_byte(out, '"');
		text = bytes_skip(text, len);
	}
	buffer_append_byte(out, '"');
}

static void csv_time(struct buffer *out, int64_t ns)
{
	int64_t second = time_floor(ns, NS_PER_S), rest = ns - second;
	time_t when = (time_t)(second / NS_PER_S);
	struct tm parts;
	char text[TIME_TEXT_MAX];
	gmtime_r(&when, &parts);
	strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%S", &parts);
	buffer_append_string(out, text);
	if (rest % NS_PER_US)
		buffer_printf(out, ".%09lld", (long long)rest);
	else if (rest % NS_PER_MS)
		buffer_printf(out, ".%06lld", rest / NS_PER_US);
	else if (rest)
		buffer_printf(out, ".%03lld", rest / NS_PER_MS);
	buffer_append_byte(out, 'Z');
}

static void csv_cell(struct buffer *out, enum tabular_type type, const struct tabular_cells *cells, size_t row)
{
	if (cells->present && !cells->present[row])
		return;
	switch (type) {
	case TABULAR_INTEGER: json_int(&(struct json_writer){.out = out}, cells->i64[row]); break;
	case TABULAR_NUMBER:
		if (isfinite(cells->f64[row]))
			json_double(&(struct json_writer){.out = out}, cells->f64[row]);
		break;
	case TABULAR_TEXT: csv_text(out, cells->bytes[row]); break;
	case TABULAR_TIME: csv_time(out, cells->i64[row]); break;
	case TABULAR_FLAG: buffer_append_string(out, cells->flags[row] ? "true" : "false"); break;
	}
}

static int csv_start(struct tabular_writer *writer, struct error *err)
{
	for (size_t i = 0; i < writer->options.column_count; i++) {
		if (i)
			buffer_append_byte(writer->out, ',');
		csv_text(writer->out, bytes_of_string(writer->options.columns[i].name));
	}
	buffer_append_byte(writer->out, '\n');
	return written(writer->out, err);
}

static int csv_rows(struct tabular_writer *writer, const struct tabular_cells *cells, size_t rows, struct error *err)
{
	for (size_t row = 0; row < rows; row++) {
		for (size_t i = 0; i < writer->options.column_count; i++) {
			if (i)
				buffer_append_byte(writer->out, ',');
			csv_cell(writer->out, writer->options.columns[i].type, &cells[i], row);
		}
		buffer_append_byte(writer->out, '\n');
	}
	return written(writer->out, err);
}

/* ---- all of them ---- */

int tabular_writer_open(enum tabular_format format, const struct tabular_options *options, struct buffer *out,
			struct tabular_writer **ret, struct error *err)
{
	static int (*const start[])(struct tabular_writer * writer, struct error * err) = {
		[TABULAR_ARROW] = arrow_start, [TABULAR_PARQUET] = parquet_start, [TABULAR_CSV] = csv_start};
	if (options->fact_count > FACTS_MAX)
		return error_set(err, -EINVAL, "more than %d facts", FACTS_MAX);
	_cleanup_(tabular_writer_freep) struct tabular_writer *writer = mem_zalloc(sizeof(*writer));
	if (!writer)
		return error_nomem(err);
	*writer = (struct tabular_writer){.format = format, .options = *options, .out = out, .fd = -1};
	int r = start[format](writer, err);
	if (r < 0)
		return r;
	*ret = writer;
	writer = NULL;
	return 0;
}

int tabular_writer_rows(struct tabular_writer *writer, const struct tabular_cells *cells, size_t rows, struct error *err)
{
	static int (*const write[])(struct tabular_writer * writer, const struct tabular_cells *cells, size_t rows,
				    struct error *err) = {
		[TABULAR_ARROW] = arrow_rows, [TABULAR_PARQUET] = parquet_group, [TABULAR_CSV] = csv_rows};
	return rows ? write[writer->format](writer, cells, rows, err) : 0;
}

int tabular_writer_finish(struct tabular_writer *writer, int (*drain)(void *context, struct error *err), void *context,
			  struct error *err)
{
	switch (writer->format) {
	case TABULAR_ARROW: return arrow_write_end(writer->out, err);
	case TABULAR_PARQUET: return parquet_finish(writer, drain, context, err);
	default: return written(writer->out, err);
	}
}

struct tabular_writer *tabular_writer_free(struct tabular_writer *writer)
{
	if (writer) {
		parquet_writer_free(writer->parquet);
		io_close(writer->fd);
	}
	return mem_free(writer);
}
