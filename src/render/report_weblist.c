/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Source code and machine code of the functions that match, with their values, as one HTML file: the lines as `list` has them,
 * and below each, folded, the instructions of the samples on it, as `disasm` has them. `disasm` runs first and leaves its
 * instructions here; then `list` hands over functions and lines.
 *
 * An instruction without samples belongs to the line of the one before it that has some. The file has no script and loads
 * nothing; its content security policy lets nothing but its own style be used. Names and lines come from outside, and are
 * escaped.
 */
#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "base/limits.h"
#include "base/order.h"
#include "base/sorted.h"
#include "base/text.h"
#include "render/report_int.h"

#define INSTRUCTIONS_MAX (4u * 1024 * 1024)
#define TEXT_BYTES_MAX	 (512 * MIB)

struct row {
	uint32_t file; /* of files; 0 = not known */
	int64_t line;
	uint64_t address;
	int64_t flat, cum;
	size_t text; /* place in texts */
};
struct report_code {
	struct intern files;
	struct row *rows; /* sorted once all are there */
	size_t count, capacity;
	struct buffer texts; /* each with a NUL behind it */
	int failure;
};

static const char head[] =
	"<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
	"<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n"
	"<title>wick report weblist</title>\n<style>\n"
	"body { font-family: sans-serif; margin: 1em 2em; background: #fff; color: #222; }\n"
	"h2 { font-size: 1.1em; margin: 1.5em 0 0.2em; }\n"
	".path { color: #666; font-size: 0.9em; }\n"
	".code { font-family: monospace; white-space: pre; tab-size: 8; line-height: 1.35; overflow-x: auto; }\n"
	"summary { cursor: pointer; list-style: none; }\n"
	"summary:hover, .line:hover { background: #f2f2f2; }\n"
	".hot { color: #a00000; }\n"
	".none { color: #999; }\n"
	".asm { color: #3a6; }\n"
	"@media (prefers-color-scheme: dark) { body { background: #1b1b1b; color: #ddd; } .path { color: #999; }\n"
	"  .hot { color: #ff8f80; } .none { color: #777; } summary:hover, .line:hover { background: #2a2a2a; } }\n"
	"</style></head><body>\n";

/* ---- text ---- */

static void put_escaped(struct report *report, struct bytes text)
{
	_cleanup_(buffer_release) struct buffer safe = {.max = TEXT_BYTES_MAX};
	if (text_append_harmless(&safe, text) < 0) {
		buffer_fail(report->out, buffer_status(&safe));
		return;
	}
	for (size_t i = 0; i < safe.len; i++) {
		switch (safe.data[i]) {
		case '&': buffer_append_string(report->out, "&amp;"); break;
		case '<': buffer_append_string(report->out, "&lt;"); break;
		case '>': buffer_append_string(report->out, "&gt;"); break;
		case '"': buffer_append_string(report->out, "&quot;"); break;
		default: buffer_append_byte(report->out, safe.data[i]);
		}
	}
}

/* Tabs stay: text_append_harmless() would not leave them. */
static void put_source(struct report *report, struct bytes text)
{
	if (text.len > 0 && text.data[text.len - 1] == '\r')
		text.len--;
	while (text.len > 0) {
		const uint8_t *tab = memchr(text.data, '\t', text.len);
		size_t part = tab ? (size_t)(tab - text.data) : text.len;
		put_escaped(report, (struct bytes){text.data, part});
		if (tab)
			buffer_append_byte(report->out, '\t');
		text = bytes_skip(text, part + (tab != NULL));
	}
}

static void put_values(struct report *report, int64_t flat, int64_t cum)
{
	char texts[2][UNITS_TEXT_MAX];
	buffer_printf(report->out, "<span class=\"%s\">%10s %10s</span>", flat || cum ? "hot" : "none",
		      report_format_or_dot(report, flat, texts[0]), report_format_or_dot(report, cum, texts[1]));
}

/* ---- instructions ---- */

void weblist_add_instruction(struct report *report, const char *file, int64_t line, uint64_t address, int64_t flat, int64_t cum,
			     const char *text)
{
	struct report_code *code = report->code;
	struct row row = {.line = line, .address = address, .flat = flat, .cum = cum, .text = code->texts.len};
	int r = file ? intern_add(&code->files, file, strlen(file), &row.file) : 0;
	if (r == 0)
		r = buffer_append(&code->texts, text, strlen(text) + 1);
	if (r == 0)
		r = array_push(&code->rows, &code->count, &code->capacity, INSTRUCTIONS_MAX, row);
	if (r < 0 && code->failure == 0)
		code->failure = r;
}

DEFINE_ORDER(compare_rows, struct row, ORDER(a->file, b->file) ?: ORDER(a->line, b->line) ?: ORDER(a->address, b->address));

static bool is_before(const struct row *row, uint32_t file, int64_t line)
{
	return row->file < file || (row->file == file && row->line < line);
}

/* The rows of a line, one behind the other. */
static const struct row *find_rows(const struct report_code *code, const char *file, int64_t line, size_t *ret_count)
{
	uint32_t id;
	*ret_count = 0;
	if (!intern_find(&code->files, file, strlen(file), &id) || id == 0)
		return NULL;
	size_t first = sorted_count_while(code->count, i, is_before(&code->rows[i], id, line));
	while (first + *ret_count < code->count && code->rows[first + *ret_count].file == id &&
	       code->rows[first + *ret_count].line == line)
		++*ret_count;
	return code->rows + first;
}

static void put_rows(struct report *report, const struct row *rows, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		put_values(report, rows[i].flat, rows[i].cum);
		buffer_printf(report->out, " <span class=\"asm\">%12llx: ", (unsigned long long)rows[i].address);
		put_escaped(report, bytes_of_string((const char *)report->code->texts.data + rows[i].text));
		buffer_append_string(report->out, "</span>\n");
	}
}

/* ---- functions and lines ---- */

void weblist_put_total(struct report *report)
{
	char total[UNITS_TEXT_MAX];
	buffer_append_string(report->out, "<h1>");
	put_escaped(report, bytes_of_string(report->title ? report->title : "wick report"));
	buffer_printf(report->out, "</h1>\n<p>Total: %s. Lines with instructions unfold.</p>\n",
		      report_format_value(report, report->total, total));
}

void weblist_begin_function(struct report *report, struct bytes name, const char *file, int64_t flat, int64_t cum)
{
	char texts[2][UNITS_TEXT_MAX], share[UNITS_TEXT_MAX];
	buffer_append_string(report->out, "<h2>");
	put_escaped(report, name);
	buffer_append_string(report->out, "</h2>\n<p class=\"path\">");
	put_escaped(report, bytes_of_string(file));
	buffer_printf(report->out, "<br>flat %s, cum %s (%s of the total)</p>\n<div class=\"code\">",
		      report_format_value(report, flat, texts[0]), report_format_value(report, cum, texts[1]),
		      units_format_percent(cum, report->total, share));
}

void weblist_put_line(struct report *report, const char *file, int64_t line, int64_t flat, int64_t cum, struct bytes text)
{
	size_t count;
	const struct row *rows = find_rows(report->code, file, line, &count);
	buffer_append_string(report->out, count ? "<details><summary>" : "<span class=\"line\">");
	put_values(report, flat, cum);
	buffer_printf(report->out, " %6lld:", (long long)line);
	put_source(report, text);
	buffer_append_string(report->out, count ? "</summary>" : "</span>\n");
	put_rows(report, rows, count);
	if (count)
		buffer_append_string(report->out, "</details>");
}

void weblist_end_function(struct report *report, const char *why)
{
	if (why[0]) {
		buffer_append_string(report->out, "<span class=\"none\">");
		put_escaped(report, bytes_of_string(why));
		buffer_append_string(report->out, "</span>\n");
	}
	buffer_append_string(report->out, "</div>\n");
}

/* ---- all ---- */

/* Without binaries, or samples in them, there are lines alone. */
static int collect_code(struct report *report, struct error *err)
{
	struct graph_detail detail = report->options.detail;
	struct error why = {0};
	report->options.detail.addresses = true;
	report->options.detail.inlines = false;
	int r = report_write_disasm(report, &why);
	report->options.detail = detail;
	if (r == 0)
		r = report->code->failure;
	if (r == -EINVAL || r == -EBADMSG || r == -ENOTSUP) {
		report_note(report, "no instructions: %s", why.message);
		r = 0;
	}
	if (r == -ENOMEM)
		return error_nomem(err);
	if (r < 0)
		return error_set(err, r, "%s", why.message[0] ? why.message : "too many instructions; narrow the expression");
	sort_array(report->code->rows, report->code->count, compare_rows);
	return 0;
}

int report_write_weblist(struct report *report, struct error *err)
{
	struct report_code code = {.texts.max = TEXT_BYTES_MAX};
	if (intern_init(&code.files, TEXT_BYTES_MAX) < 0)
		return error_nomem(err);
	report->code = &code;
	buffer_append_string(report->out, head);
	int r = collect_code(report, err);
	if (r == 0)
		r = report_write_list(report, err);
	buffer_append_string(report->out, "</body></html>\n");
	report->code = NULL;
	intern_release(&code.files);
	mem_free(code.rows);
	buffer_release(&code.texts);
	return r;
}
