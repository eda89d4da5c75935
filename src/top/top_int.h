/* SPDX-License-Identifier: Apache-2.0 */
/* Private to src/top. */
#ifndef WICK_TOP_TOP_INT_H
#define WICK_TOP_TOP_INT_H

#include "top/top.h"

static inline bool top_is_table(const struct top *top)
{
	return top->view < (enum top_view)TOP_TABLES;
}
/* Of the list that is shown. */
static inline size_t top_length(const struct top *top)
{
	return top_is_table(top) ? top->rows.shown_count : top->tree.count;
}
uint64_t top_id_at(const struct top *top, size_t at);
/* The place of a kind that was entered last; NULL = none. */
const struct top_place *top_find_place(const struct top *top, enum top_place_kind kind);
/* Of one CPU, or of all that there are, in percent. */
double top_percent(const struct top *top, int64_t value);
/* Keeps the cursor in the list and on the screen. */
void top_settle_cursor(struct top *top);
/* What the order of a table can be, in the order of its columns; returns how many. */
size_t top_orders(enum top_table table, enum top_order ret[TOP_ORDERS]);
/* Rows again after a filter or an order was changed. */
void top_arrange(struct top *top);

enum top_style {
	STYLE_PLAIN,
	STYLE_STRONG,
	STYLE_DIM,
	STYLE_WARN,
	STYLE_HEADER,
	STYLE_SELECTED,
	STYLE_TAB,
	STYLE_TAB_ON,
	STYLE_KEY,
	STYLE_KERNEL,
	STYLE_INTERPRETED,
	STYLE_JIT,
	STYLE_BAR_USER,
	STYLE_BAR_KERNEL,
	/* Two of each, so that neighbours differ. */
	STYLE_FLAME_USER,
	STYLE_FLAME_USER_2,
	STYLE_FLAME_KERNEL,
	STYLE_FLAME_KERNEL_2,
	STYLE_FLAME_INTERPRETED,
	STYLE_FLAME_INTERPRETED_2,
	STYLE_FLAME_MATCH,
	STYLE_FLAME_ROOT,
	STYLES,
};

/* For who sees no colours: "K" in the kernel, "i" interpreted, "j" JIT code, " " any other. */
const char *top_mark_of_type(uint32_t type);
/* The lines that lead from callers to an item of the tree, from the left. */
void top_write_branches(const struct top *top, uint32_t at, char *out, size_t size);
/* help.c: how many lines it has at a width, of which top->help_first is the first that is shown. */
size_t top_help_length(unsigned columns);
void top_draw_help(const struct top *top, struct screen *screen);

#endif
