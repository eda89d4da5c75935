/* SPDX-License-Identifier: Apache-2.0 */
/* What keys do. They are those of htop, and of top, where these have one for it. */
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "terminal/keys.h"
#include "top/top_int.h"

/* ---- moving ---- */

static void move_to(struct top *top, size_t at)
{
	top->cursor = at;
	top->is_moved = true;
	top_settle_cursor(top);
	/* At the top again: back to what is there. */
	if (top->cursor == 0 && top_is_table(top))
		top->is_moved = false;
}

static void move_by(struct top *top, ptrdiff_t step)
{
	size_t length = top_length(top), back = (size_t)-step;
	if (step < 0)
		move_to(top, top->cursor > back ? top->cursor - back : 0);
	else if (length)
		move_to(top, top->cursor + (size_t)step < length ? top->cursor + (size_t)step : length - 1);
}

/* In the flame: down to the largest that is called, up to the caller, sideways at the same depth. */
static void move_in_flame(struct top *top, uint32_t key)
{
	const struct top_tree *tree = &top->tree;
	size_t at = top->cursor;
	if (at >= tree->count)
		return;
	unsigned depth = tree->items[at].depth;
	if (key == KEY_UP)
		at = tree->items[at].parent;
	else if (key == KEY_DOWN && at + 1 < tree->count && tree->items[at + 1].depth == depth + 1)
		at++;
	else if (key == KEY_RIGHT || key == KEY_LEFT) {
		size_t next = at;
		do
			next = key == KEY_RIGHT ? next + 1 : next - 1;
		while (next < tree->count && tree->items[next].depth != depth);
		at = next < tree->count ? next : at;
	}
	move_to(top, at);
}

static bool move(struct top *top, uint32_t key)
{
	ptrdiff_t page = top->page > 1 ? (ptrdiff_t)top->page - 1 : 1;
	if (top->view == TOP_VIEW_FLAME && (key == KEY_UP || key == KEY_DOWN || key == KEY_LEFT || key == KEY_RIGHT)) {
		move_in_flame(top, key);
		return true;
	}
	switch (key) {
	case KEY_UP:
	case KEY_CTRL('P'): move_by(top, -1); return true;
	case KEY_DOWN:
	case KEY_CTRL('N'): move_by(top, 1); return true;
	case KEY_PAGE_UP: move_by(top, -page); return true;
	case KEY_PAGE_DOWN: move_by(top, page); return true;
	case KEY_HOME: move_to(top, 0); return true;
	case KEY_END: move_by(top, PTRDIFF_MAX / 2); return true;
	default: return false;
	}
}

/* ---- views and places ---- */

static int show(struct top *top, enum top_view view, struct error *err)
{
	enum top_view before = top->view;
	if (view == before)
		return 0;
	top->view = view;
	top->is_moved = false;
	int r = top_rebuild(top, err);
	if (r < 0)
		top->view = before;
	return r;
}

/* What is kept of texts from outside is enough to know them by; a cut one would be known as nothing. */
static bool copy_text(char *to, size_t size, const char *text)
{
	return snprintf(to, size, "%s", text) < (int)size;
}
#define COPY_TEXT(to, text) copy_text((to), sizeof(to), (text))

static bool describe_row(const struct top *top, const struct top_row *row, struct top_place *ret, enum top_view *ret_view)
{
	static const enum top_place_kind kinds[TOP_TABLES] = {
		[TOP_FUNCTIONS] = TOP_PLACE_FUNCTION,
		[TOP_PROCESSES] = TOP_PLACE_PROCESS,
		[TOP_THREADS] = TOP_PLACE_THREAD,
		[TOP_BINARIES] = TOP_PLACE_BINARY,
	};
	ret->kind = kinds[top->view];
	*ret_view = ret->kind == TOP_PLACE_FUNCTION ? TOP_VIEW_TREE : TOP_VIEW_FUNCTIONS;
	return COPY_TEXT(ret->name, row->name) &&
	       COPY_TEXT(ret->binary, ret->kind == TOP_PLACE_BINARY ? row->name : row->binary) &&
	       COPY_TEXT(ret->host, row->host) && COPY_TEXT(ret->pid, row->pid) && COPY_TEXT(ret->tid, row->tid);
}

static bool describe_item(const struct top *top, const struct top_tree_item *item, struct top_place *ret)
{
	ret->kind = TOP_PLACE_FUNCTION;
	return top->cursor != 0 && COPY_TEXT(ret->name, item->name) && COPY_TEXT(ret->binary, item->binary);
}

static int enter(struct top *top, struct error *err)
{
	struct top_place place = {.from = top->view, .selected = top->selected};
	enum top_view before = top->view, view = top->view;
	if (top->cursor >= top_length(top) || top->place_count == TOP_PLACES_MAX)
		return 0;
	if (top_is_table(top) ? !describe_row(top, &top->rows.items[top->rows.shown[top->cursor]], &place, &view)
			      : !describe_item(top, &top->tree.items[top->cursor], &place))
		return 0;
	top->places[top->place_count++] = place;
	top->view = view;
	top->is_moved = false;
	/* What was looked for led here. */
	top->filter[0] = '\0';
	int r = top_rebuild(top, err);
	if (r < 0) {
		top->place_count--;
		top->view = before;
	}
	return r;
}

static int leave(struct top *top, struct error *err)
{
	if (top->filter[0]) {
		top->filter[0] = '\0';
		top_arrange(top);
		return 0;
	}
	if (top->place_count == 0)
		return 0;
	const struct top_place *place = &top->places[--top->place_count];
	top->view = place->from;
	top->selected = place->selected;
	top->is_moved = true;
	return top_rebuild(top, err);
}

/* ---- order ---- */

static void sort_by(struct top *top, enum top_order order)
{
	enum top_order orders[TOP_ORDERS];
	size_t count = top_is_table(top) ? top_orders((enum top_table)top->view, orders) : 0;
	for (size_t i = 0; i < count; i++)
		if (orders[i] == order)
			top->sorting[top->view] = (struct top_sorting){.order = order};
	top->is_moved = false;
	top_arrange(top);
}

static void sort_by_next(struct top *top, bool backwards)
{
	enum top_order orders[TOP_ORDERS];
	size_t count = top_is_table(top) ? top_orders((enum top_table)top->view, orders) : 0;
	for (size_t i = 0; i < count; i++) {
		if (orders[i] == top->sorting[top->view].order) {
			sort_by(top, orders[(i + (backwards ? count - 1 : 1)) % count]);
			return;
		}
	}
}

/* ---- typing ---- */

static void search_from(struct top *top, size_t from)
{
	size_t length = top_length(top);
	for (size_t i = 0; i < length && top->search[0]; i++) {
		size_t at = (from + i) % length;
		const struct top_tree_item *item = &top->tree.items[at];
		bool found = top_is_table(top) ? top_row_matches(&top->rows.items[top->rows.shown[at]], top->search)
					       : top_matches(top->search, (const char *const[]){item->name, item->binary}, 2);
		if (found) {
			move_to(top, at);
			top->is_moved = true;
			return;
		}
	}
}

static void show_typed(struct top *top)
{
	if (top->mode == TOP_MODE_SEARCH)
		search_from(top, top->cursor);
	else
		top_arrange(top);
}

static void type(struct top *top, uint32_t key)
{
	char *text = top->mode == TOP_MODE_SEARCH ? top->search : top->filter;
	size_t len = strlen(text);
	_cleanup_(buffer_release) struct buffer character = {.max = 8};
	if (key == KEY_BACKSPACE) {
		while (len && (text[--len] & 0xc0) == 0x80)
			continue;
		text[len] = '\0';
	} else if (key == KEY_CTRL('U'))
		text[0] = '\0';
	else if (key >= ' ' && key < KEY_UNKNOWN && text_append_character(&character, key) == 0 &&
		 len + character.len < TOP_INPUT_MAX) {
		memcpy(text + len, character.data, character.len);
		text[len + character.len] = '\0';
	}
	show_typed(top);
}

static void typed_key(struct top *top, uint32_t key)
{
	switch (key) {
	case KEY_ENTER: top->mode = TOP_MODE_VIEW; break;
	case KEY_ESCAPE:
	case KEY_CTRL('C'):
		(top->mode == TOP_MODE_SEARCH ? top->search : top->filter)[0] = '\0';
		show_typed(top);
		top->mode = TOP_MODE_VIEW;
		break;
	case KEY_F(3): search_from(top, top->cursor + 1); break;
	case KEY_UP:
	case KEY_DOWN:
	case KEY_PAGE_UP:
	case KEY_PAGE_DOWN: move(top, key); break;
	default: type(top, key);
	}
}

/* ---- all keys ---- */

static bool change_setting(struct top *top, uint32_t key, bool *ret_rebuild)
{
	*ret_rebuild = false;
	switch (key) {
	case 'K':
		top->choice.hides_kernel = !top->choice.hides_kernel;
		*ret_rebuild = true;
		return true;
	case 'i':
		top->choice.shows_interpreters = !top->choice.shows_interpreters;
		*ret_rebuild = true;
		return true;
	case '%': top->is_of_machine = !top->is_of_machine; return true;
	case ' ':
	case 'Z': top->is_paused = !top->is_paused; return true;
	case 'P': sort_by(top, TOP_BY_SELF); return true;
	case 'T': sort_by(top, TOP_BY_TOTAL); return true;
	case 'N': sort_by(top, TOP_BY_PID); return true;
	case KEY_F(6):
	case '>':
	case '.': sort_by_next(top, false); return true;
	case '<':
	case ',': sort_by_next(top, true); return true;
	case 'I':
		if (top_is_table(top))
			top->sorting[top->view].is_reversed = !top->sorting[top->view].is_reversed;
		top_arrange(top);
		return true;
	default: return false;
	}
}

static int go(struct top *top, uint32_t key, bool *ret_known, struct error *err)
{
	*ret_known = true;
	switch (key) {
	case '\t': return show(top, (enum top_view)((top->view + 1) % TOP_VIEWS), err);
	case KEY_BACK_TAB: return show(top, (enum top_view)((top->view + TOP_VIEWS - 1) % TOP_VIEWS), err);
	case '1':
	case '2':
	case '3':
	case '4':
	case '5':
	case '6': return show(top, (enum top_view)(key - '1'), err);
	case 'H': return show(top, top->view == TOP_VIEW_THREADS ? TOP_VIEW_PROCESSES : TOP_VIEW_THREADS, err);
	case KEY_F(5):
	case 't': return show(top, top->view == TOP_VIEW_TREE ? TOP_VIEW_FLAME : TOP_VIEW_TREE, err);
	case KEY_ENTER: return enter(top, err);
	case KEY_ESCAPE:
	case KEY_BACKSPACE: return leave(top, err);
	default: *ret_known = false; return 0;
	}
}

static enum top_action start_mode(struct top *top, uint32_t key)
{
	switch (key) {
	case KEY_F(1):
	case 'h':
	case '?':
		top->mode = TOP_MODE_HELP;
		top->help_first = 0;
		return TOP_REDRAW;
	case KEY_F(3):
	case '/':
		top->mode = TOP_MODE_SEARCH;
		top->search[0] = '\0';
		return TOP_REDRAW;
	case KEY_F(4):
	case '\\': top->mode = TOP_MODE_FILTER; return TOP_REDRAW;
	case KEY_F(10):
	case 'q':
	case KEY_CTRL('C'): return TOP_QUIT;
	case KEY_CTRL('Z'): return TOP_SUSPEND;
	case KEY_CTRL('L'): return TOP_REPAINT;
	default: return TOP_NOTHING;
	}
}

/* False: the key leaves it. */
static bool scroll_help(struct top *top, uint32_t key)
{
	size_t length = top_help_length(top->columns_shown), page = top->rows_shown > 3 ? top->rows_shown - 2 : 1;
	size_t last = length > page ? length - page : 0, at = top->help_first;
	switch (key) {
	case KEY_UP: at = at ? at - 1 : 0; break;
	case KEY_DOWN: at++; break;
	case KEY_PAGE_UP: at = at > page ? at - page : 0; break;
	case KEY_PAGE_DOWN: at += page; break;
	case KEY_HOME: at = 0; break;
	case KEY_END: at = last; break;
	default: return false;
	}
	top->help_first = at < last ? at : last;
	return true;
}

int top_key(struct top *top, uint32_t key, enum top_action *ret, struct error *err)
{
	bool rebuild, known;
	*ret = TOP_REDRAW;
	if (key == KEY_CTRL('Z') || key == KEY_CTRL('L')) {
		*ret = start_mode(top, key);
		return 0;
	}
	if (top->mode == TOP_MODE_HELP) {
		if (!scroll_help(top, key))
			top->mode = TOP_MODE_VIEW;
		return 0;
	}
	if (top->mode != TOP_MODE_VIEW) {
		typed_key(top, key);
		return 0;
	}
	if (move(top, key))
		return 0;
	if (change_setting(top, key, &rebuild))
		return rebuild ? top_rebuild(top, err) : 0;
	int r = go(top, key, &known, err);
	if (!known)
		*ret = start_mode(top, key);
	return r;
}
