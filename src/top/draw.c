/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The picture, from above:
 *
 *   wick top  HOST  2 CPUs  last 10.0 s                   PAUSED 12:34:56     title
 *   [||||||||||||||||||||||||||||kkkkkk              163.2% of 200%]          CPU time: user, kernel
 *   1,640 samples at 99 Hz  0 lost  0.3% stacks incomplete  0.8% for wick     what it is made of, and what is missing
 *    1 Functions  2 Processes ...                                             views
 *   all > postgres 4242   filter: scan                                        where we are, if anywhere
 *     SELF%  TOTAL%   FUNCTION                                BINARY          columns
 *      23.1    40.2   ExecScan                                postgres        the list, or the flame
 *   F1Help F3Search ...                                                       keys, or what is typed
 *
 * On low terminals the second and third line go, so that a list of some lines is there in any case; on narrow ones the columns
 * that say the least.
 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "top/top_int.h"

#define LOW_ROWS     12
#define BINARY_LEAST 8
#define BINARY_MOST  22
#define NAME_WIDTH   16 /* of processes and threads: the kernel keeps 15 bytes */
#define TEXT_MAX     512

/* ---- styles ---- */

static const char *const styles_256[STYLES] = {
	[STYLE_PLAIN] = "",
	[STYLE_STRONG] = "1",
	[STYLE_DIM] = "38;5;245",
	[STYLE_WARN] = "1;31",
	[STYLE_HEADER] = "38;5;16;48;5;71",
	[STYLE_SELECTED] = "38;5;16;48;5;80",
	[STYLE_TAB] = "38;5;245",
	[STYLE_TAB_ON] = "1;7",
	[STYLE_KEY] = "38;5;16;48;5;80",
	[STYLE_KERNEL] = "38;5;167",
	[STYLE_INTERPRETED] = "38;5;71",
	[STYLE_JIT] = "38;5;37",
	[STYLE_BAR_USER] = "38;5;71",
	[STYLE_BAR_KERNEL] = "38;5;167",
	[STYLE_FLAME_USER] = "38;5;16;48;5;215",
	[STYLE_FLAME_USER_2] = "38;5;16;48;5;222",
	[STYLE_FLAME_KERNEL] = "38;5;16;48;5;174",
	[STYLE_FLAME_KERNEL_2] = "38;5;16;48;5;181",
	[STYLE_FLAME_INTERPRETED] = "38;5;16;48;5;114",
	[STYLE_FLAME_INTERPRETED_2] = "38;5;16;48;5;150",
	[STYLE_FLAME_MATCH] = "1;38;5;16;48;5;141",
	[STYLE_FLAME_ROOT] = "38;5;16;48;5;250",
};
static const char *const styles_8[STYLES] = {
	[STYLE_PLAIN] = "",
	[STYLE_STRONG] = "1",
	[STYLE_DIM] = "2",
	[STYLE_WARN] = "1;31",
	[STYLE_HEADER] = "30;42",
	[STYLE_SELECTED] = "30;46",
	[STYLE_TAB] = "",
	[STYLE_TAB_ON] = "1;7",
	[STYLE_KEY] = "30;46",
	[STYLE_KERNEL] = "31",
	[STYLE_INTERPRETED] = "32",
	[STYLE_JIT] = "36",
	[STYLE_BAR_USER] = "32",
	[STYLE_BAR_KERNEL] = "31",
	[STYLE_FLAME_USER] = "30;43",
	[STYLE_FLAME_USER_2] = "30;47",
	[STYLE_FLAME_KERNEL] = "30;41",
	[STYLE_FLAME_KERNEL_2] = "30;45",
	[STYLE_FLAME_INTERPRETED] = "30;42",
	[STYLE_FLAME_INTERPRETED_2] = "30;46",
	[STYLE_FLAME_MATCH] = "1;37;44",
	[STYLE_FLAME_ROOT] = "7",
};
static const char *const styles_plain[STYLES] = {
	[STYLE_PLAIN] = "",
	[STYLE_STRONG] = "1",
	[STYLE_DIM] = "",
	[STYLE_WARN] = "1",
	[STYLE_HEADER] = "1;4",
	[STYLE_SELECTED] = "7",
	[STYLE_TAB] = "",
	[STYLE_TAB_ON] = "7",
	[STYLE_KEY] = "7",
	[STYLE_KERNEL] = "",
	[STYLE_INTERPRETED] = "",
	[STYLE_JIT] = "",
	[STYLE_BAR_USER] = "",
	[STYLE_BAR_KERNEL] = "",
	[STYLE_FLAME_USER] = "",
	[STYLE_FLAME_USER_2] = "4",
	[STYLE_FLAME_KERNEL] = "",
	[STYLE_FLAME_KERNEL_2] = "4",
	[STYLE_FLAME_INTERPRETED] = "",
	[STYLE_FLAME_INTERPRETED_2] = "4",
	[STYLE_FLAME_MATCH] = "1",
	[STYLE_FLAME_ROOT] = "1",
};

const char *const *top_styles(unsigned colours)
{
	return colours >= 256 ? styles_256 : colours ? styles_8 : styles_plain;
}

/* ---- lines ---- */

/* A line that is written from left to right. */
struct line {
	struct screen *screen;
	unsigned row, column;
};

static void add(struct line *line, enum top_style style, const char *text)
{
	unsigned left = line->column < line->screen->columns ? line->screen->columns - line->column : 0;
	size_t width = screen_text_width(bytes_of_string(text));
	width = width < left ? width : left;
	screen_put_string(line->screen, line->row, line->column, (unsigned)width, style, text);
	line->column += (unsigned)width;
}

static void addf(struct line *line, enum top_style style, const char *format, ...) __attribute__((format(printf, 3, 4)));
static void addf(struct line *line, enum top_style style, const char *format, ...)
{
	char text[TEXT_MAX];
	va_list args;
	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	add(line, style, text);
}

/* Only if all of it fits: half a figure is a wrong one. */
static void add_whole(struct line *line, enum top_style style, const char *text)
{
	if (line->column + screen_text_width(bytes_of_string(text)) <= line->screen->columns)
		add(line, style, text);
}

static const char *dot(const struct top *top)
{
	return top->is_ascii ? "|" : "\xc2\xb7";
}

static void draw_title(const struct top *top, struct screen *screen)
{
	struct line line = {.screen = screen};
	const struct top_facts *facts = &top->facts;
	char right[48], text[TEXT_MAX];
	snprintf(right, sizeof(right), "%s%s", top->is_paused ? "PAUSED " : "", facts->clock);
	unsigned width = (unsigned)strlen(right);
	bool is_wide = screen->columns >= 60;
	add(&line, STYLE_STRONG, is_wide ? "wick top " : "wick ");
	addf(&line, STYLE_PLAIN, "%s", facts->where);
	if (facts->cpus) {
		snprintf(text, sizeof(text), " %s %u CPU%s", dot(top), facts->cpus, facts->cpus == 1 ? "" : "s");
		if (line.column + strlen(text) + width + 1 < screen->columns)
			add(&line, STYLE_PLAIN, text);
	}
	snprintf(text, sizeof(text), " %s last %.0f s", dot(top), (double)(facts->sum.to_ns - facts->sum.from_ns) / 1e9);
	if (top->snapshot && line.column + strlen(text) + width + 1 < screen->columns)
		add(&line, STYLE_PLAIN, text);
	line.column = screen->columns > width ? screen->columns - width : 0;
	add(&line, top->is_paused ? STYLE_WARN : STYLE_PLAIN, right);
}

static void draw_bar(const struct top *top, struct screen *screen, unsigned row)
{
	char text[64];
	double user = top_percent(top, top->total - top->kernel), kernel = top_percent(top, top->kernel);
	double all = top->is_of_machine || !top->facts.cpus ? 100 : 100.0 * top->facts.cpus;
	unsigned width = screen->columns > 2 ? screen->columns - 2 : 0;
	if (top->facts.cpus)
		snprintf(text, sizeof(text), "%.1f%% (kernel %.1f%%) of %.0f%%", user + kernel, kernel, all);
	else
		snprintf(text, sizeof(text), "%.1f%% of one CPU (kernel %.1f%%)", user + kernel, kernel);
	all = user + kernel > all ? user + kernel : all;
	unsigned users = (unsigned)(user / all * width + 0.5), both = (unsigned)((user + kernel) / all * width + 0.5);
	screen_put_string(screen, row, 0, 1, STYLE_STRONG, "[");
	for (unsigned i = 0; i < both && i < width; i++)
		screen_put_string(screen, row, i + 1, 1, i < users ? STYLE_BAR_USER : STYLE_BAR_KERNEL, i < users ? "|" : "#");
	unsigned len = (unsigned)strlen(text);
	if (len < width)
		screen_put_string(screen, row, 1 + width - len, len, STYLE_PLAIN, text);
	screen_put_string(screen, row, 1 + width, 1, STYLE_STRONG, "]");
}

/* With blanks in front of what follows other things. */
static void add_fact(struct line *line, enum top_style style, const char *text)
{
	char with_gap[TEXT_MAX];
	snprintf(with_gap, sizeof(with_gap), "%s%s", line->column ? "  " : "", text);
	add_whole(line, style, with_gap);
}

static void draw_facts(const struct top *top, struct screen *screen, unsigned row)
{
	struct line line = {.screen = screen, .row = row};
	const struct top_interval *sum = &top->facts.sum;
	char text[TEXT_MAX], count[TEXT_NUMBER_MAX], lost[TEXT_NUMBER_MAX];
	text_format_count(sum->taken, count);
	if (top->facts.frequency_hz)
		snprintf(text, sizeof(text), "%s samples, %u Hz", count, top->facts.frequency_hz);
	else
		snprintf(text, sizeof(text), "%s samples", count);
	add_fact(&line, STYLE_PLAIN, text);
	if (top->facts.has_losses) {
		snprintf(text, sizeof(text), "%s lost", text_format_count(sum->lost, lost));
		add_fact(&line, sum->lost ? STYLE_WARN : STYLE_PLAIN, text);
		double share = sum->stacks ? 100.0 * (double)sum->incomplete / (double)sum->stacks : 0;
		snprintf(text, sizeof(text), "stacks incomplete %.1f%%", share);
		add_fact(&line, share >= 5 ? STYLE_WARN : STYLE_PLAIN, text);
	}
	if (top->facts.has_cost) {
		snprintf(text, sizeof(text), "wick %.1f%%", top_percent(top, sum->own_cpu_ns));
		add_fact(&line, STYLE_PLAIN, text);
	}
	if (top->facts.pending) {
		snprintf(text, sizeof(text), "symbols: %u to read", top->facts.pending);
		add_fact(&line, STYLE_DIM, text);
	}
}

static void draw_tabs(const struct top *top, struct screen *screen, unsigned row)
{
	static const char *const names[TOP_VIEWS] = {"Functions", "Processes", "Threads", "Binaries", "Tree", "Flame"};
	static const char *const short_names[TOP_VIEWS] = {"Func", "Proc", "Thr", "Bin", "Tree", "Flame"};
	struct line line = {.screen = screen, .row = row};
	bool is_wide = screen->columns >= 70;
	for (unsigned i = 0; i < TOP_VIEWS; i++) {
		addf(&line, i == top->view ? STYLE_TAB_ON : STYLE_TAB, is_wide ? " %u %s " : "%u%s", i + 1,
		     is_wide ? names[i] : short_names[i]);
		add(&line, STYLE_PLAIN, " ");
	}
}

/* Whether it has anything to show. */
static bool has_path(const struct top *top)
{
	return top->place_count || top->filter[0] || top->choice.hides_kernel || top->choice.shows_interpreters ||
	       top->is_of_machine || top->facts.note[0];
}

static void draw_path(const struct top *top, struct screen *screen, unsigned row)
{
	struct line line = {.screen = screen, .row = row};
	for (size_t i = 0; i < top->place_count; i++) {
		const struct top_place *place = &top->places[i];
		const char *number = place->kind == TOP_PLACE_THREAD ? place->tid : place->pid;
		addf(&line, STYLE_STRONG, "%s%.80s", i ? " > " : "in ", place->name);
		if (*number)
			addf(&line, STYLE_PLAIN, " %s", number);
	}
	if (top->filter[0]) {
		char text[TEXT_MAX];
		snprintf(text, sizeof(text), "filter: %s", top->filter);
		add_fact(&line, STYLE_STRONG, text);
	}
	if (top->choice.hides_kernel)
		add_fact(&line, STYLE_PLAIN, "kernel hidden");
	if (top->choice.shows_interpreters)
		add_fact(&line, STYLE_PLAIN, "interpreters shown");
	if (top->is_of_machine)
		add_fact(&line, STYLE_PLAIN, "% of the machine");
	if (top->facts.note[0]) {
		add(&line, STYLE_PLAIN, line.column ? "  " : "");
		add(&line, STYLE_WARN, top->facts.note);
	}
}

/* ---- tables ---- */

static enum top_style style_of_type(uint32_t type)
{
	return type == PROFILE_FRAME_KERNEL	   ? STYLE_KERNEL
	       : type == PROFILE_FRAME_INTERPRETED ? STYLE_INTERPRETED
	       : type == PROFILE_FRAME_JIT	   ? STYLE_JIT
						   : STYLE_PLAIN;
}

/* For who sees no colours. */
const char *top_mark_of_type(uint32_t type)
{
	return type == PROFILE_FRAME_KERNEL	   ? "K"
	       : type == PROFILE_FRAME_INTERPRETED ? "i"
	       : type == PROFILE_FRAME_JIT	   ? "j"
						   : " ";
}

enum cell {
	CELL_SELF,
	CELL_TOTAL,
	CELL_KERNEL,
	CELL_PID,
	CELL_TID,
	CELL_MARK,
	CELL_NAME,
	CELL_PROCESS,
	CELL_HOST,
	CELL_BINARY,
	CELL_HOTTEST
};
struct column {
	enum cell cell;
	unsigned width; /* 0 = the rest */
	const char *title;
	enum top_order order; /* TOP_ORDERS = none */
};
#define COLUMNS_MAX 10
struct columns {
	struct column items[COLUMNS_MAX];
	size_t count;
};

static void add_column(struct columns *columns, enum cell cell, unsigned width, const char *title, enum top_order order)
{
	columns->items[columns->count++] = (struct column){cell, width, title, order};
}

static bool has_hosts(const struct top *top)
{
	for (size_t i = 1; i < top->rows.count; i++)
		if (strcmp(top->rows.items[i].host, top->rows.items[0].host) != 0)
			return true;
	return false;
}

static void choose_columns(const struct top *top, unsigned width, struct columns *columns)
{
	unsigned binary = width / 4 > BINARY_MOST ? BINARY_MOST : width / 4;
	bool is_wide = width >= 60;
	*columns = (struct columns){0};
	add_column(columns, CELL_SELF, 7, top->view == TOP_VIEW_FUNCTIONS || top->view == TOP_VIEW_BINARIES ? "SELF%" : "CPU%",
		   TOP_BY_SELF);
	switch (top->view) {
	case TOP_VIEW_FUNCTIONS:
		add_column(columns, CELL_TOTAL, 8, "TOTAL%", TOP_BY_TOTAL);
		add_column(columns, CELL_MARK, 3, "", TOP_ORDERS);
		add_column(columns, CELL_NAME, 0, "FUNCTION", TOP_BY_NAME);
		if (binary >= BINARY_LEAST && width >= 40)
			add_column(columns, CELL_BINARY, binary, "BINARY", TOP_ORDERS);
		break;
	case TOP_VIEW_BINARIES:
		add_column(columns, CELL_TOTAL, 8, "TOTAL%", TOP_BY_TOTAL);
		if (is_wide && !top->choice.hides_kernel)
			add_column(columns, CELL_KERNEL, 9, "KERNEL%", TOP_BY_KERNEL);
		add_column(columns, CELL_NAME, is_wide ? 2 * BINARY_LEAST + 8 : 14, " BINARY", TOP_BY_NAME);
		add_column(columns, CELL_HOTTEST, 0, "HOTTEST FUNCTION", TOP_ORDERS);
		break;
	default:
		if (!top->choice.hides_kernel)
			add_column(columns, CELL_KERNEL, is_wide ? 9 : 8, is_wide ? "KERNEL%" : "KERN%", TOP_BY_KERNEL);
		if (has_hosts(top) && is_wide)
			add_column(columns, CELL_HOST, binary, " HOST", TOP_ORDERS);
		if (top->view == TOP_VIEW_THREADS)
			add_column(columns, CELL_TID, 8, "TID", TOP_BY_PID);
		if (top->view == TOP_VIEW_PROCESSES || width >= 100)
			add_column(columns, CELL_PID, 8, "PID", TOP_BY_PID);
		add_column(columns, CELL_NAME, NAME_WIDTH + 2, top->view == TOP_VIEW_THREADS ? " THREAD" : " PROCESS",
			   TOP_BY_NAME);
		if (top->view == TOP_VIEW_THREADS && width >= 76)
			add_column(columns, CELL_PROCESS, NAME_WIDTH + 1, "PROCESS", TOP_ORDERS);
		if (width >= 52)
			add_column(columns, CELL_HOTTEST, 0, "HOTTEST FUNCTION", TOP_ORDERS);
	}
}

static bool is_right(enum cell cell)
{
	return cell <= CELL_TID;
}

static unsigned column_width(const struct columns *columns, size_t at, unsigned width)
{
	if (columns->items[at].width)
		return columns->items[at].width;
	for (size_t i = 0; i < columns->count; i++)
		width -= columns->items[i].width < width ? columns->items[i].width : width;
	return width;
}

static void percent_text(const struct top *top, int64_t value, char *out, size_t size)
{
	snprintf(out, size, "%.1f", top_percent(top, value));
}

static const char *cell_text(const struct top *top, const struct top_row *row, enum cell cell, char *out, size_t size)
{
	switch (cell) {
	case CELL_SELF: percent_text(top, row->self, out, size); return out;
	case CELL_TOTAL: percent_text(top, row->total, out, size); return out;
	case CELL_KERNEL: percent_text(top, row->kernel, out, size); return out;
	case CELL_PID: return row->pid;
	case CELL_TID: return row->tid;
	case CELL_MARK: snprintf(out, size, " %s", top_mark_of_type(row->frame_type)); return out;
	case CELL_PROCESS: return row->process;
	case CELL_HOST: snprintf(out, size, " %.*s", TEXT_MAX - 2, row->host); return out;
	case CELL_BINARY: return row->binary;
	case CELL_HOTTEST: return row->hottest;
	case CELL_NAME: break;
	}
	if (top->view == TOP_VIEW_FUNCTIONS)
		return row->name;
	snprintf(out, size, " %.*s", TEXT_MAX - 2, row->name);
	return out;
}

/* Numbers end, texts begin with their column; a blank stays between texts that are cut. */
static void draw_cell(struct screen *screen, unsigned row, unsigned column, unsigned width, enum top_style style,
		      const char *text, bool right)
{
	unsigned len = (unsigned)screen_text_width(bytes_of_string(text));
	if (right && len <= width)
		screen_put_string(screen, row, column + width - len, len, style, text);
	else if (width)
		screen_put_string(screen, row, column, width - 1, style, text);
}

static void draw_columns(const struct top *top, struct screen *screen, unsigned row, const struct columns *columns)
{
	const struct top_sorting *sorting = &top->sorting[top->view];
	const char *mark =
		sorting->is_reversed ? (top->is_ascii ? "^" : "\xe2\x96\xb3") : (top->is_ascii ? "v" : "\xe2\x96\xbd");
	unsigned column = 0;
	screen_put_string(screen, row, 0, screen->columns, STYLE_HEADER, "");
	for (size_t i = 0; i < columns->count; i++) {
		const struct column *item = &columns->items[i];
		unsigned width = column_width(columns, i, screen->columns);
		char title[64];
		snprintf(title, sizeof(title), "%s%s", item->title, item->order == sorting->order ? mark : "");
		draw_cell(screen, row, column, width, STYLE_HEADER, title, is_right(item->cell));
		if (item->order == sorting->order)
			screen_paint(screen, row, column, width, STYLE_SELECTED);
		column += width;
	}
}

static void draw_table_row(const struct top *top, struct screen *screen, unsigned row, const struct columns *columns,
			   const struct top_row *item, bool is_selected)
{
	unsigned column = 0;
	for (size_t i = 0; i < columns->count; i++) {
		enum cell cell = columns->items[i].cell;
		unsigned width = column_width(columns, i, screen->columns);
		char text[TEXT_MAX];
		enum top_style style = STYLE_PLAIN;
		if (cell == CELL_MARK || cell == CELL_HOTTEST || (cell == CELL_NAME && top->view == TOP_VIEW_FUNCTIONS))
			style = style_of_type(item->frame_type);
		if (cell == CELL_BINARY || cell == CELL_PROCESS)
			style = STYLE_DIM;
		draw_cell(screen, row, column, width, style, cell_text(top, item, cell, text, sizeof(text)), is_right(cell));
		column += width;
	}
	if (is_selected)
		screen_paint(screen, row, 0, screen->columns, STYLE_SELECTED);
}

static void draw_table(const struct top *top, struct screen *screen, unsigned first, unsigned end)
{
	struct columns columns;
	choose_columns(top, screen->columns, &columns);
	draw_columns(top, screen, first, &columns);
	for (unsigned row = first + 1; row < end; row++) {
		size_t at = top->first + (row - first - 1);
		if (at >= top->rows.shown_count)
			break;
		draw_table_row(top, screen, row, &columns, &top->rows.items[top->rows.shown[at]], at == top->cursor);
	}
}

/* ---- the tree ---- */

/* Of each item above it: whether more of its siblings follow. */
void top_write_branches(const struct top *top, uint32_t at, char *out, size_t size)
{
	const struct top_tree_item *items = top->tree.items;
	const char *parts[4] = {"\xe2\x94\x9c ", "\xe2\x94\x94 ", "\xe2\x94\x82 ", "  "};
	if (top->is_ascii)
		parts[0] = "|-", parts[1] = "`-", parts[2] = "| ";
	uint32_t path[256];
	size_t depth = 0;
	for (uint32_t i = at; i && depth < 256; i = items[i].parent)
		path[depth++] = i;
	size_t used = 0;
	out[0] = '\0';
	for (size_t i = depth; i-- > 0;) {
		bool is_own = i == 0, is_last = items[path[i]].is_last;
		const char *part = parts[is_own ? is_last : is_last ? 3 : 2];
		if (used + strlen(part) < size)
			used += (size_t)snprintf(out + used, size - used, "%s", part);
	}
}

static void draw_tree_row(const struct top *top, struct screen *screen, unsigned row, size_t at)
{
	const struct top_tree_item *item = &top->tree.items[at];
	char text[TEXT_MAX], branches[TEXT_MAX];
	bool is_match = top_matches(top->filter, (const char *const[]){item->name, item->binary}, 2);
	unsigned binary = screen->columns >= 100 ? BINARY_MOST : 0;
	percent_text(top, item->total, text, sizeof(text));
	draw_cell(screen, row, 0, 7, STYLE_PLAIN, text, true);
	percent_text(top, item->self, text, sizeof(text));
	draw_cell(screen, row, 7, 7, STYLE_PLAIN, text, true);
	top_write_branches(top, (uint32_t)at, branches, sizeof(branches));
	struct line line = {screen, row, 15};
	add(&line, STYLE_PLAIN, top_mark_of_type(item->frame_type));
	add(&line, STYLE_PLAIN, " ");
	/* Deep callers leave room for the name. */
	unsigned room = screen->columns > line.column + 24 ? screen->columns - line.column - 24 : 0;
	size_t width = screen_text_width(bytes_of_string(branches));
	if (width > room)
		snprintf(branches, sizeof(branches), "%u> ", item->depth);
	add(&line, STYLE_DIM, branches);
	add(&line, is_match ? STYLE_FLAME_MATCH : style_of_type(item->frame_type), item->name);
	if (binary)
		screen_put_string(screen, row, screen->columns - binary, binary, STYLE_DIM, item->binary);
	if (at == top->cursor)
		screen_paint(screen, row, 0, screen->columns, STYLE_SELECTED);
}

static void draw_callers(const struct top *top, struct screen *screen, unsigned row)
{
	struct line line = {.screen = screen, .row = row};
	const struct top_tree *tree = &top->tree;
	add(&line, STYLE_DIM, "called by ");
	for (size_t i = 0; i < tree->caller_count; i++) {
		double share = tree->count ? 100.0 * (double)tree->callers[i].total / (double)tree->items[0].total : 0;
		const char *name = tree->callers[i].name;
		addf(&line, STYLE_PLAIN, "%s%.60s %.0f%%", i ? ", " : "", *name ? name : "[nobody]", share);
	}
}

static void draw_tree(const struct top *top, struct screen *screen, unsigned first, unsigned end)
{
	if (top->tree.caller_count)
		draw_callers(top, screen, first++);
	screen_put_string(screen, first, 0, screen->columns, STYLE_HEADER, " TOTAL%  SELF%   FUNCTION");
	if (screen->columns >= 100)
		screen_put_string(screen, first, screen->columns - BINARY_MOST, BINARY_MOST, STYLE_HEADER, "BINARY");
	for (unsigned row = first + 1; row < end && top->first + (row - first - 1) < top->tree.count; row++)
		draw_tree_row(top, screen, row, top->first + (row - first - 1));
}

/* ---- the flame ---- */

static enum top_style flame_style(const struct top *top, const struct top_tree_item *item, bool second)
{
	enum top_style style = item->frame_type == PROFILE_FRAME_KERNEL	       ? STYLE_FLAME_KERNEL
			       : item->frame_type == PROFILE_FRAME_INTERPRETED ? STYLE_FLAME_INTERPRETED
									       : STYLE_FLAME_USER;
	if (top_matches(top->search[0] ? top->search : top->filter, (const char *const[]){item->name, item->binary}, 2))
		return STYLE_FLAME_MATCH;
	return item->depth == 0 ? STYLE_FLAME_ROOT : second ? style + 1 : style;
}

static void draw_flame_item(const struct top *top, struct screen *screen, unsigned row, const struct top_tree_item *item,
			    enum top_style style)
{
	unsigned left = (unsigned)(item->left * screen->columns + 0.5), right = (unsigned)(item->right * screen->columns + 0.5);
	char text[TEXT_MAX];
	if (right <= left)
		return;
	unsigned width = right - left;
	const char *before = top->colours ? " " : "|";
	if (width > 12 && item->depth == 0)
		snprintf(text, sizeof(text), "%s%.300s %.1f%%", before, item->name, top_percent(top, item->total));
	else
		snprintf(text, sizeof(text), "%s%.300s", width > 2 || !top->colours ? before : "", width > 1 ? item->name : "");
	screen_put_string(screen, row, left, width, style, text);
}

/* What the cursor is at, in full. */
static void draw_flame_cursor(const struct top *top, struct screen *screen, unsigned row)
{
	struct line line = {.screen = screen, .row = row};
	if (top->cursor >= top->tree.count)
		return;
	const struct top_tree_item *item = &top->tree.items[top->cursor];
	addf(&line, STYLE_STRONG, "%.1f%% ", top_percent(top, item->total));
	addf(&line, STYLE_PLAIN, "(self %.1f%%) ", top_percent(top, item->self));
	add(&line, style_of_type(item->frame_type), item->name);
	add(&line, STYLE_PLAIN, " ");
	add(&line, STYLE_DIM, item->binary);
}

/* The deepest ones are cut off, but for a cursor that is there. */
static void draw_flame(const struct top *top, struct screen *screen, unsigned first, unsigned end)
{
	if (top->tree.caller_count)
		draw_callers(top, screen, first++);
	draw_flame_cursor(top, screen, --end);
	unsigned rows = end > first ? end - first : 0;
	unsigned depth = top->cursor < top->tree.count ? top->tree.items[top->cursor].depth : 0;
	unsigned skipped = depth >= rows && rows ? depth - rows + 1 : 0;
	unsigned seen[SCREEN_ROWS_MAX] = {0};
	for (size_t i = 0; i < top->tree.count; i++) {
		const struct top_tree_item *item = &top->tree.items[i];
		if (item->depth < skipped || item->depth - skipped >= rows)
			continue;
		unsigned row = item->depth - skipped;
		enum top_style style =
			i == top->cursor ? STYLE_SELECTED : flame_style(top, item, (seen[row]++ + item->depth) % 2);
		draw_flame_item(top, screen, first + row, item, style);
	}
}

/* ---- the whole ---- */

static void draw_keys(const struct top *top, struct screen *screen, unsigned row)
{
	static const struct {
		const char *key, *does;
		bool only_wide;
	} keys[] = {{"F1", "Help"}, {"F3", "Search", true}, {"F4", "Filter"},	  {"F5", "Tree"},
		    {"F6", "Sort"}, {"K", "Kernel", true},  {"Z", "Pause", true}, {"F10", "Quit"}};
	struct line line = {.screen = screen, .row = row};
	if (top->mode == TOP_MODE_FILTER || top->mode == TOP_MODE_SEARCH) {
		add(&line, STYLE_STRONG, top->mode == TOP_MODE_FILTER ? "Filter: " : "Search: ");
		add(&line, STYLE_PLAIN, top->mode == TOP_MODE_FILTER ? top->filter : top->search);
		add(&line, STYLE_SELECTED, " ");
		add_whole(&line, STYLE_DIM,
			  top->mode == TOP_MODE_FILTER ? "  Enter: keep  Esc: clear" : "  F3: next  Enter: done  Esc: cancel");
		return;
	}
	for (size_t i = 0; i < sizeof(keys) / sizeof(*keys); i++) {
		if (keys[i].only_wide && screen->columns < 70)
			continue;
		add(&line, STYLE_PLAIN, keys[i].key);
		addf(&line, STYLE_KEY, screen->columns >= 70 ? "%-6s" : "%s", keys[i].does);
		add(&line, STYLE_PLAIN, " ");
	}
}

static void draw_nothing(const struct top *top, struct screen *screen, unsigned first, unsigned end)
{
	const char *why = !top->snapshot			  ? top->facts.waiting
			  : top->filter[0]			  ? "nothing matches the filter; Esc clears it"
			  : top->data.profile && top->place_count ? "no samples of this in these seconds; Backspace goes back"
								  : "no samples in these seconds: nothing used the CPU";
	if (first + 2 < end)
		screen_put_string(screen, first + 2, 2, screen->columns, STYLE_DIM, why);
}

void top_draw(struct top *top, struct screen *screen)
{
	unsigned row = 0, end = screen->rows ? screen->rows - 1 : 0;
	screen_clear(screen);
	top->rows_shown = screen->rows;
	top->columns_shown = screen->columns;
	if (top->mode == TOP_MODE_HELP) {
		top_draw_help(top, screen);
		return;
	}
	draw_title(top, screen);
	row++;
	if (screen->rows >= LOW_ROWS) {
		draw_bar(top, screen, row++);
		draw_facts(top, screen, row++);
	}
	draw_tabs(top, screen, row++);
	if (has_path(top))
		draw_path(top, screen, row++);
	else if (screen->rows >= 2 * LOW_ROWS)
		row++;
	draw_keys(top, screen, end);
	bool has_header = top->view != TOP_VIEW_FLAME;
	unsigned callers = !top_is_table(top) && top->tree.caller_count ? 1 : 0;
	top->page = end > row + has_header + callers ? end - row - has_header - callers : 1;
	top_settle_cursor(top);
	if (row >= end)
		return;
	if (top_is_table(top))
		draw_table(top, screen, row, end);
	else if (top->view == TOP_VIEW_TREE)
		draw_tree(top, screen, row, end);
	else
		draw_flame(top, screen, row, end);
	if (top_length(top) == 0)
		draw_nothing(top, screen, row, end);
}
