/* SPDX-License-Identifier: Apache-2.0 */
#include "top/top.h"

#include <string.h>

#include "base/text.h"
#include "top/top_int.h"

#define LEAST_OF_TREE  0.005 /* smaller shares are not worth a line ... */
#define LEAST_OF_FLAME 0.002 /* ... or have no cell on a wide terminal */
#define DEPTH_MAX      250

const char *const top_view_names[TOP_VIEWS] = {"functions", "processes", "threads", "binaries", "tree", "flame"};

void top_init(struct top *top)
{
	*top = (struct top){0};
	top->facts.where = top->facts.note = top->facts.waiting = "";
	top->page = 20;
}

void top_release(struct top *top)
{
	top_data_release(&top->data);
	top_rows_release(&top->rows);
	top_tree_release(&top->tree);
	top->snapshot = NULL;
}

const struct top_place *top_find_place(const struct top *top, enum top_place_kind kind)
{
	for (size_t i = top->place_count; i-- > 0;)
		if (top->places[i].kind == kind)
			return &top->places[i];
	return NULL;
}

double top_percent(const struct top *top, int64_t value)
{
	int64_t duration_ns = top->facts.sum.to_ns - top->facts.sum.from_ns;
	double cpus = top->is_of_machine && top->facts.cpus ? top->facts.cpus : 1;
	return duration_ns > 0 ? 100.0 * (double)value / (double)duration_ns / cpus : 0;
}

uint64_t top_id_at(const struct top *top, size_t at)
{
	if (at >= top_length(top))
		return 0;
	return top_is_table(top) ? top->rows.items[top->rows.shown[at]].id : top->tree.items[at].id;
}

void top_settle_cursor(struct top *top)
{
	size_t length = top_length(top), page = top->page ? top->page : 1;
	if (top->cursor >= length)
		top->cursor = length ? length - 1 : 0;
	if (top->first + page > length)
		top->first = length > page ? length - page : 0;
	if (top->cursor < top->first)
		top->first = top->cursor;
	if (top->cursor >= top->first + page)
		top->first = top->cursor - page + 1;
	top->selected = top_id_at(top, top->cursor);
}

/* One that was never moved stays at the top, whatever is there. */
static void follow_selected(struct top *top)
{
	size_t length = top_length(top), at = 0;
	if (!top->is_moved)
		top->cursor = top->first = 0;
	while (top->is_moved && at < length && top_id_at(top, at) != top->selected)
		at++;
	if (top->is_moved && at < length)
		top->cursor = at;
	top_settle_cursor(top);
}

void top_arrange(struct top *top)
{
	if (top_is_table(top)) {
		const struct top_place *binary = top_find_place(top, TOP_PLACE_BINARY);
		const struct top_sorting *sorting = &top->sorting[top->view];
		const struct top_arrangement arrangement = {.order = sorting->order,
							    .is_reversed = sorting->is_reversed,
							    .filter = top->filter,
							    .binary = binary && top->view == TOP_VIEW_FUNCTIONS ? binary->binary
														: NULL};
		top_rows_arrange(&top->rows, &arrangement);
	}
	follow_selected(top);
}

/* ---- building ---- */

static void choose(const struct top *top, struct top_choice *ret)
{
	const struct top_place *process = top_find_place(top, TOP_PLACE_PROCESS),
			       *thread = top_find_place(top, TOP_PLACE_THREAD);
	const struct top_place *place = thread ? thread : process;
	*ret = top->choice;
	ret->pid = place && *place->pid ? place->pid : NULL;
	ret->tid = thread && *thread->tid ? thread->tid : NULL;
	ret->host = place && *place->host ? place->host : NULL;
}

static int build_tree(const struct top *top, const struct top_data *data, struct top_tree *ret, struct error *err)
{
	const struct top_place *place = top_find_place(top, TOP_PLACE_FUNCTION);
	struct top_tree_options options = {.least = top->view == TOP_VIEW_FLAME ? LEAST_OF_FLAME : LEAST_OF_TREE,
					   .depth_max = DEPTH_MAX};
	if (place)
		options.focus = (struct top_focus){place->name, place->binary};
	return top_tree_build(data, &options, ret, err);
}

/* New data, rows and tree take the place of the old ones together: their texts belong to each other. */
int top_rebuild(struct top *top, struct error *err)
{
	_cleanup_(top_data_release) struct top_data data = {0};
	_cleanup_(top_rows_release) struct top_rows rows = {0};
	_cleanup_(top_tree_release) struct top_tree tree = {0};
	struct top_choice choice;
	if (!top->snapshot)
		return 0;
	choose(top, &choice);
	int r = top_data_build(top->snapshot, &choice, &data, err);
	if (r == 0 && top_is_table(top))
		r = top_rows_build(&data, (enum top_table)top->view, &rows, err);
	if (r == 0 && !top_is_table(top))
		r = build_tree(top, &data, &tree, err);
	if (r < 0)
		return r;
	top_data_release(&top->data);
	top_rows_release(&top->rows);
	top_tree_release(&top->tree);
	top->data = data;
	top->rows = rows;
	top->tree = tree;
	data = (struct top_data){0};
	rows = (struct top_rows){0};
	tree = (struct top_tree){0};
	top_arrange(top);
	return 0;
}

int top_update(struct top *top, const struct profile *snapshot, const struct top_facts *facts, struct error *err)
{
	top->snapshot = snapshot;
	top->facts = *facts;
	top_count_cpu(snapshot, &top->total, &top->kernel);
	return top_rebuild(top, err);
}

size_t top_orders(enum top_table table, enum top_order ret[TOP_ORDERS])
{
	size_t count = 0;
	ret[count++] = TOP_BY_SELF;
	if (table == TOP_FUNCTIONS || table == TOP_BINARIES)
		ret[count++] = TOP_BY_TOTAL;
	if (table != TOP_FUNCTIONS)
		ret[count++] = TOP_BY_KERNEL;
	if (table == TOP_PROCESSES || table == TOP_THREADS)
		ret[count++] = TOP_BY_PID;
	ret[count++] = TOP_BY_NAME;
	return count;
}
