/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Listings as JSON and as text.
 *
 * The text has the columns of `perf annotate` and `go tool pprof -list`: self, total, where, what. A line is marked ">" when a
 * tenth or more of what the function costs is on it; with colour, such lines are red, and those with a hundredth or more green.
 * Source text and names are data from outside and go to a terminal, so what would drive or deceive it is replaced, and tabs are
 * expanded.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "render/flame.h"
#include "render/listing.h"

#define AROUND	  4u	 /* lines shown before the first and after the last one of interest */
#define PLAIN_MAX 20000u /* lines without samples: a line table may claim a function of millions */
#define VALUE_MAX 64
#define TAB	  8u

/* ---- lines of a text ---- */

struct line_reader {
	struct bytes rest;
	uint32_t line; /* number of the last line that was read */
};

/* Without its end ("\n", "\r\n"). */
static bool next_line(struct line_reader *reader, struct bytes *ret)
{
	if (reader->rest.len == 0)
		return false;
	*ret = bytes_take_line(&reader->rest);
	ret->len -= ret->len && ret->data[ret->len - 1] == '\r';
	reader->line++;
	return true;
}

/* The first and the last line to show. */
static void choose_range(const struct listing_source *source, uint32_t *ret_first, uint32_t *ret_last)
{
	const struct listing_lines *lines = source->lines;
	uint32_t first = lines->start_line ? lines->start_line : UINT32_MAX;
	uint32_t last = source->end_line > lines->start_line ? source->end_line : lines->start_line;
	for (size_t i = 0; i < lines->line_count; i++) {
		uint32_t line = lines->lines[i].line;
		if (line && line < first)
			first = line;
		if (line > last)
			last = line;
	}
	*ret_first = source->first ? source->first : first > AROUND ? first - AROUND : 1;
	*ret_last = source->last ? source->last : last < UINT32_MAX - AROUND ? last + AROUND : UINT32_MAX;
}

/* Rows to show, in order: lines with samples that the text does not have come too. */
struct rows {
	const struct listing_source *source;
	struct line_reader reader;
	uint32_t first, last;
	size_t at; /* in source->lines->lines */
	struct bytes text;
	bool has_text; /* `text` is a line that waits */
	size_t plain;  /* rows without samples so far */
};
struct row {
	struct listing_line values;
	struct bytes text;
	bool has_text;
};

static void rows_init(struct rows *rows, const struct listing_source *source)
{
	*rows = (struct rows){.source = source, .reader = {.rest = source->text}};
	choose_range(source, &rows->first, &rows->last);
}

static void fetch_text(struct rows *rows)
{
	while (!rows->has_text && rows->reader.line < rows->last && next_line(&rows->reader, &rows->text))
		rows->has_text = rows->reader.line >= rows->first;
}

static bool next_row(struct rows *rows, struct row *ret)
{
	const struct listing_lines *lines = rows->source->lines;
	const struct listing_line *sampled = rows->at < lines->line_count ? &lines->lines[rows->at] : NULL;
	fetch_text(rows);
	if (!sampled && !rows->has_text)
		return false;
	*ret = (struct row){0};
	if (sampled && (!rows->has_text || sampled->line <= rows->reader.line)) {
		ret->values = *sampled;
		rows->at++;
	} else {
		ret->values.line = rows->reader.line;
	}
	if (rows->has_text && rows->reader.line == ret->values.line) {
		ret->text = rows->text;
		ret->has_text = true;
		rows->has_text = false;
	}
	return true;
}

/* Beyond so many of them, lines without samples are left out. */
static bool rows_next(struct rows *rows, struct row *ret)
{
	do
		if (!next_row(rows, ret))
			return false;
	while (ret->values.self == 0 && ret->values.total == 0 && rows->plain++ >= PLAIN_MAX);
	return true;
}

/* ---- JSON ---- */

static void write_values(struct json_writer *json, int64_t self, int64_t total)
{
	json_member_int(json, "self", self);
	json_member_int(json, "total", total);
}

/* "total": of everything; "self" and "function_total": of what is shown. */
static void write_sums(struct json_writer *json, const char *unit, int64_t profile_total, int64_t self, int64_t total)
{
	json_member_cstring(json, "unit", unit);
	json_member_int(json, "total", profile_total);
	json_member_int(json, "self", self);
	json_member_int(json, "function_total", total);
}

static void write_origin(struct json_writer *json, const char *from, const char *why)
{
	json_member_cstring(json, "from", from);
	if (why)
		json_member_cstring(json, "why", why);
}

static void write_row(struct json_writer *json, const struct row *row)
{
	json_begin_object(json);
	json_member_uint(json, "line", row->values.line);
	if (row->has_text)
		json_member_bytes(json, "text", row->text);
	else
		json_member_null(json, "text");
	write_values(json, row->values.self, row->values.total);
	json_end_object(json);
}

void listing_source_write_json(const struct listing_source *source, struct json_writer *json)
{
	const struct listing_lines *lines = source->lines;
	struct rows rows;
	struct row row;
	rows_init(&rows, source);
	json_member_cstring(json, "function", lines->function);
	json_member_cstring(json, "file", lines->file);
	json_member_cstring(json, "build_id", lines->build_id);
	json_member_cstring(json, "binary", lines->binary);
	json_member_uint(json, "start_line", lines->start_line);
	write_sums(json, lines->unit, lines->profile_total, lines->self, lines->total);
	write_origin(json, source->from, source->why);
	json_member_array(json, "lines");
	while (rows_next(&rows, &row))
		write_row(json, &row);
	json_end_array(json);
	json_member_array(json, "files");
	for (size_t i = 0; i < lines->file_count; i++) {
		json_begin_object(json);
		json_member_cstring(json, "file", lines->files[i].file);
		write_values(json, lines->files[i].self, lines->files[i].total);
		json_end_object(json);
	}
	json_end_array(json);
}

static void write_instruction(struct json_writer *json, const struct listing_instruction *instruction)
{
	char text[32], bytes[2 * 16 + 1];
	text_format_hex((struct bytes){instruction->bytes.data, instruction->bytes.len < 16 ? instruction->bytes.len : 16},
			bytes);
	snprintf(text, sizeof(text), "0x%" PRIx64, instruction->address);
	json_begin_object(json);
	json_member_cstring(json, "address", text);
	json_member_cstring(json, "bytes", bytes);
	json_member_cstring(json, "text", instruction->text);
	write_values(json, instruction->self, instruction->total);
	json_member_cstring(json, "file", instruction->file);
	json_member_uint(json, "line", instruction->line);
	json_member_array(json, "functions");
	for (size_t i = 0; i < instruction->function_count; i++)
		json_string(json, instruction->functions[i]);
	json_end_array(json);
	json_end_object(json);
}

void listing_code_write_json(const struct listing_code *code, struct json_writer *json)
{
	const struct listing_addresses *addresses = code->addresses;
	const struct listing_binary *binary = &addresses->binaries[code->binary];
	json_member_cstring(json, "function", addresses->function);
	json_member_cstring(json, "symbol", code->symbol);
	json_member_cstring(json, "binary", binary->path);
	json_member_cstring(json, "build_id", binary->build_id);
	write_sums(json, addresses->unit, addresses->profile_total, code->self, code->total);
	write_origin(json, code->from, code->why);
	json_member_array(json, "instructions");
	for (size_t i = 0; i < code->count; i++)
		write_instruction(json, &code->instructions[i]);
	json_end_array(json);
	json_member_array(json, "binaries");
	for (size_t i = 0; i < addresses->binary_count; i++) {
		json_begin_object(json);
		json_member_cstring(json, "binary", addresses->binaries[i].path);
		json_member_cstring(json, "build_id", addresses->binaries[i].build_id);
		write_values(json, addresses->binaries[i].self, addresses->binaries[i].total);
		json_end_object(json);
	}
	json_end_array(json);
}

/* ---- text ---- */

struct printer {
	struct buffer *out;
	const char *unit;
	int64_t whole; /* what shares are of: all that the function costs */
	bool colour;
};

/* Text from outside. */
static void print_text(struct printer *printer, struct bytes text)
{
	struct buffer *out = printer->out;
	size_t column = 0;
	while (text.len > 0) {
		const uint8_t *tab = memchr(text.data, '\t', text.len);
		size_t len = tab ? (size_t)(tab - text.data) : text.len, start = out->len;
		text_append_harmless(out, (struct bytes){text.data, len});
		column += text_width((struct bytes){out->data + start, out->len - start});
		for (bool more = tab; more; more = ++column % TAB)
			buffer_append_byte(out, ' ');
		len += tab != NULL;
		text = (struct bytes){text.data + len, text.len - len};
	}
}

static double share(int64_t value, int64_t whole)
{
	double part = whole ? (double)value / (double)whole : 0;
	return part < 0 ? -part : part;
}

static void print_value(struct printer *printer, int64_t value)
{
	char text[VALUE_MAX] = ".";
	if (value)
		render_format_value(value, printer->unit, text, sizeof(text));
	buffer_printf(printer->out, "%11s", text);
}

/* The beginning of a row: the mark, self, total. Where the colour is switched on, end_row() switches it off. */
static bool begin_row(struct printer *printer, int64_t self, int64_t total)
{
	double part = share(total, printer->whole);
	bool coloured = printer->colour && part >= 0.01;
	if (coloured)
		buffer_append_string(printer->out, part >= 0.1 ? "\033[31m" : "\033[32m");
	buffer_append_string(printer->out, part >= 0.1 ? ">" : " ");
	print_value(printer, self);
	print_value(printer, total);
	return coloured;
}

static void end_row(struct printer *printer, bool coloured)
{
	buffer_append_string(printer->out, coloured ? "\033[0m\n" : "\n");
}

static void print_head(struct printer *printer, const char *name, const char *value)
{
	if (!value[0])
		return;
	buffer_printf(printer->out, "%-9s ", name);
	print_text(printer, bytes_of_string(value));
	buffer_append_string(printer->out, "\n");
}

static void print_sums(struct printer *printer, int64_t self, int64_t total, int64_t profile_total)
{
	char s[VALUE_MAX], t[VALUE_MAX], p[VALUE_MAX];
	render_format_value(self, printer->unit, s, sizeof(s));
	render_format_value(total, printer->unit, t, sizeof(t));
	render_format_value(profile_total, printer->unit, p, sizeof(p));
	buffer_printf(printer->out, "%-9s self %s (%.2f%%), total %s (%.2f%%) of %s\n", "cost", s,
		      share(self, profile_total) * 100, t, share(total, profile_total) * 100, p);
}

static int finish(const struct buffer *out, struct error *err)
{
	int r = buffer_status(out);
	if (r == -E2BIG)
		return error_set(err, -E2BIG, "the listing is larger than %zu bytes", out->max);
	return r < 0 ? error_nomem(err) : 0;
}

int listing_source_write_text(const struct listing_source *source, bool colour, struct buffer *out, struct error *err)
{
	const struct listing_lines *lines = source->lines;
	struct printer printer = {.out = out, .unit = lines->unit, .whole = lines->total, .colour = colour};
	struct rows rows;
	struct row row;
	char number[24];
	rows_init(&rows, source);
	print_head(&printer, "function", lines->function);
	print_head(&printer, "file", lines->file[0] ? lines->file : "(unknown)");
	print_head(&printer, "binary", lines->binary);
	print_head(&printer, "text", source->from[0] ? source->from : source->why ? source->why : "none");
	print_sums(&printer, lines->self, lines->total, lines->profile_total);
	for (size_t i = 1; i < lines->file_count; i++)
		print_head(&printer, "also in",
			   strcmp(lines->files[i].file, lines->file) ? lines->files[i].file : lines->files[0].file);
	buffer_append_string(out, "\n        self      total    line\n");
	while (buffer_status(out) == 0 && rows_next(&rows, &row)) {
		bool coloured = begin_row(&printer, row.values.self, row.values.total);
		snprintf(number, sizeof(number), "%8" PRIu32 "  ", row.values.line);
		buffer_append_string(out, row.values.line ? number : "       ?  ");
		print_text(&printer, row.text);
		end_row(&printer, coloured);
	}
	return finish(out, err);
}

/* A heading wherever another line of the source, or another inlined call, begins. */
static void print_place(struct printer *printer, const struct listing_instruction *at, const struct listing_instruction *before)
{
	bool same = before && at->line == before->line && strcmp(at->file, before->file) == 0 &&
		    at->function_count == before->function_count;
	for (size_t i = 0; same && i < at->function_count; i++)
		same = strcmp(at->functions[i], before->functions[i]) == 0;
	if (same || (at->line == 0 && at->function_count == 0))
		return;
	buffer_append_string(printer->out, "                         ");
	print_text(printer, bytes_of_string(text_base_name(at->file)));
	buffer_printf(printer->out, ":%" PRIu32, at->line);
	for (size_t i = 0; i + 1 < at->function_count; i++) {
		buffer_append_string(printer->out, i ? " < " : "  inlined ");
		print_text(printer, bytes_of_string(at->functions[i]));
	}
	buffer_append_string(printer->out, "\n");
}

int listing_code_write_text(const struct listing_code *code, bool colour, struct buffer *out, struct error *err)
{
	const struct listing_addresses *addresses = code->addresses;
	const struct listing_binary *binary = &addresses->binaries[code->binary];
	struct printer printer = {.out = out, .unit = addresses->unit, .whole = code->total, .colour = colour};
	print_head(&printer, "function", addresses->function);
	print_head(&printer, "within", code->symbol);
	print_head(&printer, "binary", binary->path);
	print_head(&printer, "build-id", binary->build_id);
	print_head(&printer, "code", code->from[0] ? code->from : code->why ? code->why : "none");
	print_sums(&printer, code->self, code->total, addresses->profile_total);
	for (size_t i = 0; i < addresses->binary_count; i++)
		print_head(&printer, "also in", i == code->binary ? "" : addresses->binaries[i].path);
	buffer_append_string(out, "\n        self      total    address\n");
	for (size_t i = 0; i < code->count && buffer_status(out) == 0; i++) {
		const struct listing_instruction *at = &code->instructions[i];
		print_place(&printer, at, i ? at - 1 : NULL);
		bool coloured = begin_row(&printer, at->self, at->total);
		buffer_printf(out, "  %8" PRIx64 "  ", at->address);
		print_text(&printer, bytes_of_string(at->text));
		end_row(&printer, coloured);
	}
	return finish(out, err);
}
