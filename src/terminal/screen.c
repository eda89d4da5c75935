/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Drawing by difference. A picture is made of cells, each a character and a style; screen_draw() compares it with what the
 * terminal shows and sends the cells that differ, each run of them behind a sequence that moves the cursor there. A live table
 * changes in some hundred cells a second, so it costs as many bytes, also over ssh.
 *
 * The sequences are those that all terminals of the last thirty years have: cursor (ESC [ row ; column H), style (ESC [ ... m).
 * A library (ncurses) would know hundreds of other terminals by a database of files. It needs those files, in a static program
 * in an empty root, too, and the one thing that it would be for here is this file of 150 lines.
 *
 * What is put is made harmless first (base/text.h), so control characters and invisible ones become '?'. The width of a
 * character is one cell; two for those of East Asia and pictures; those that combine with the one before take none and are left
 * out. The table of wide ones is that of Unicode's EastAsianWidth.txt, W and F, in ranges with small gaps closed: a gap is not
 * assigned, or so rare that a column more does no harm.
 */
#include "terminal/screen.h"

#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "base/text.h"

#define RUN_GAP 4 /* so few cells that did not change are sent with those around them: moving there takes as much */

struct range {
	uint32_t first, last;
};
static const struct range wide[] = {
	{0x1100, 0x115f},   {0x231a, 0x231b},	{0x23e9, 0x23ec},   {0x25fd, 0x25fe},	{0x2614, 0x2615},
	{0x2648, 0x2653},   {0x2e80, 0x303e},	{0x3041, 0xa4cf},   {0xa960, 0xa97c},	{0xac00, 0xd7a3},
	{0xf900, 0xfaff},   {0xfe30, 0xfe6f},	{0xff01, 0xff60},   {0xffe0, 0xffe6},	{0x16fe0, 0x18aff},
	{0x1b000, 0x1b2ff}, {0x1f300, 0x1f64f}, {0x1f680, 0x1f6ff}, {0x1f900, 0x1f9ff}, {0x20000, 0x3fffd},
};
static const struct range without_width[] = {
	{0x0300, 0x036f}, {0x0483, 0x0489}, {0x0591, 0x05bd}, {0x0610, 0x061a},	  {0x064b, 0x065f},
	{0x0e31, 0x0e31}, {0x0e34, 0x0e3a}, {0x0e47, 0x0e4e}, {0x1ab0, 0x1aff},	  {0x1dc0, 0x1dff},
	{0x20d0, 0x20ff}, {0xfe00, 0xfe0f}, {0xfe20, 0xfe2f}, {0xe0100, 0xe01ef},
};

static bool is_in(const struct range *ranges, size_t count, uint32_t code)
{
	for (size_t i = 0; i < count && code >= ranges[i].first; i++)
		if (code <= ranges[i].last)
			return true;
	return false;
}

static unsigned character_width(uint32_t code)
{
	if (code < 0x300)
		return 1;
	if (is_in(without_width, sizeof(without_width) / sizeof(*without_width), code))
		return 0;
	return is_in(wide, sizeof(wide) / sizeof(*wide), code) ? 2 : 1;
}

static uint32_t take_character(struct bytes *text)
{
	bool valid;
	size_t len = text_utf8_sequence(*text, &valid);
	uint32_t code = len == 1 ? text->data[0] : text->data[0] & (0xffu >> (len + 1));
	for (size_t i = 1; i < len; i++)
		code = code << 6 | (text->data[i] & 0x3f);
	*text = bytes_skip(*text, len);
	return valid ? code : 0xfffd;
}

size_t screen_text_width(struct bytes text)
{
	size_t width = 0;
	while (text.len)
		width += character_width(take_character(&text));
	return width;
}

/* ---- the picture ---- */

void screen_release(struct screen *screen)
{
	screen->cells = mem_free(screen->cells);
	screen->shown = mem_free(screen->shown);
	screen->rows = screen->columns = 0;
}

void screen_clear(struct screen *screen)
{
	for (size_t i = 0; i < (size_t)screen->rows * screen->columns; i++)
		screen->cells[i] = (struct screen_cell){' ', 0};
}

void screen_forget(struct screen *screen)
{
	screen->is_unknown = true;
}

int screen_resize(struct screen *screen, unsigned rows, unsigned columns)
{
	rows = rows > SCREEN_ROWS_MAX ? SCREEN_ROWS_MAX : rows;
	columns = columns > SCREEN_COLUMNS_MAX ? SCREEN_COLUMNS_MAX : columns;
	if (screen->cells && rows == screen->rows && columns == screen->columns) {
		screen_clear(screen);
		return 0;
	}
	size_t count = (size_t)rows * columns;
	struct screen_cell *cells = mem_alloc_array(count, sizeof(*cells));
	struct screen_cell *shown = mem_zalloc_array(count, sizeof(*shown));
	if (!cells || !shown) {
		mem_free(cells);
		mem_free(shown);
		return -ENOMEM;
	}
	screen_release(screen);
	screen->cells = cells;
	screen->shown = shown;
	screen->rows = rows;
	screen->columns = columns;
	screen->is_unknown = true;
	screen_clear(screen);
	return 0;
}

void screen_put(struct screen *screen, unsigned row, unsigned column, unsigned width, unsigned style, struct bytes text)
{
	_cleanup_(buffer_release) struct buffer safe = {.max = SIZE_MAX};
	if (row >= screen->rows || column >= screen->columns)
		return;
	width = width < screen->columns - column ? width : screen->columns - column;
	/* What cannot be shown for its length need not be looked at. */
	text.len = text.len < 16 * (size_t)width ? text.len : text_cut(text, 16 * (size_t)width);
	if (text_append_harmless(&safe, text) < 0)
		return;
	struct screen_cell *cell = &screen->cells[(size_t)row * screen->columns + column];
	struct bytes rest = buffer_bytes(&safe);
	unsigned at = 0;
	while (rest.len && at < width) {
		uint32_t code = take_character(&rest);
		unsigned cells = character_width(code);
		if (screen->is_ascii && code > 0x7e) {
			code = '?';
			cells = cells ? 1 : 0;
		}
		if (cells == 0)
			continue;
		if (at + cells > width)
			break;
		cell[at++] = (struct screen_cell){code, style};
		if (cells == 2)
			cell[at++] = (struct screen_cell){0, style};
	}
	while (at < width)
		cell[at++] = (struct screen_cell){' ', style};
}

void screen_put_string(struct screen *screen, unsigned row, unsigned column, unsigned width, unsigned style, const char *text)
{
	screen_put(screen, row, column, width, style, bytes_of_string(text));
}

void screen_paint(struct screen *screen, unsigned row, unsigned column, unsigned width, unsigned style)
{
	for (unsigned i = column; row < screen->rows && i < screen->columns && i - column < width; i++)
		screen->cells[(size_t)row * screen->columns + i].style = style;
}

/* ---- sending it ---- */

struct pen {
	const struct screen *screen;
	struct buffer *out;
	uint32_t style;
};

static void write_cell(struct pen *pen, const struct screen_cell *cell)
{
	if (cell->code == 0) /* came with its left half */
		return;
	if (cell->style != pen->style) {
		const char *style = pen->screen->styles[cell->style];
		buffer_printf(pen->out, "\033[0%s%sm", *style ? ";" : "", style);
		pen->style = cell->style;
	}
	text_append_character(pen->out, cell->code);
}

static bool is_same(const struct screen_cell *one, const struct screen_cell *other)
{
	return one->code == other->code && one->style == other->style;
}

/* Where the run of cells that differ ends: behind the last one that has no gap of unchanged ones before it. */
static unsigned find_end(const struct screen *screen, const struct screen_cell *cells, const struct screen_cell *shown,
			 unsigned column)
{
	unsigned end = column + 1;
	for (unsigned i = column + 1; i < screen->columns && i < end + RUN_GAP; i++)
		if (!is_same(&cells[i], &shown[i]))
			end = i + 1;
	return end;
}

static void draw_row(struct pen *pen, unsigned row)
{
	const struct screen *screen = pen->screen;
	const struct screen_cell *cells = &screen->cells[(size_t)row * screen->columns];
	const struct screen_cell *shown = &screen->shown[(size_t)row * screen->columns];
	for (unsigned column = 0; column < screen->columns;) {
		if (is_same(&cells[column], &shown[column])) {
			column++;
			continue;
		}
		unsigned end = find_end(screen, cells, shown, column);
		/* Halves of a wide character are sent together. */
		while (column > 0 && cells[column].code == 0)
			column--;
		buffer_printf(pen->out, "\033[%u;%uH", row + 1, column + 1);
		for (; column < end; column++)
			write_cell(pen, &cells[column]);
	}
}

int screen_draw(struct screen *screen, struct buffer *out)
{
	struct pen pen = {.screen = screen, .out = out};
	size_t count = (size_t)screen->rows * screen->columns;
	if (screen->is_unknown) {
		buffer_append_string(out, "\033[0m\033[2J");
		for (size_t i = 0; i < count; i++)
			screen->shown[i] = (struct screen_cell){' ', 0};
	}
	size_t before = out->len;
	for (unsigned row = 0; row < screen->rows; row++)
		draw_row(&pen, row);
	if (out->len > before)
		buffer_append_string(out, "\033[0m");
	if (count)
		memcpy(screen->shown, screen->cells, count * sizeof(*screen->cells));
	screen->is_unknown = buffer_status(out) < 0;
	return buffer_status(out);
}
