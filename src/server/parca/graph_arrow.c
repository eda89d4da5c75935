/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of a flame graph, as Parca's server gives it to its page and to Grafana (pkg/query/flamegraph_arrow.go, NewRecord):
 * one record batch, a row for each node by breadth, the root first.
 *
 *   labels_only         bool                    a row of labels, and of no function; null at the root
 *   location_address    uint64                  offset in the binary's file
 *   mapping_file, mapping_build_id              dictionary(uint8 ..., binary)
 *   location_line       uint8 ... uint64
 *   inlined             bool
 *   function_startline  uint8 ... uint64
 *   function_name, function_system_name, function_file_name      dictionary(uint8 ..., binary)
 *   children            list<uint32>            rows; null at leaves
 *   parent              int32                   -1 at the root
 *   cumulative, flat    uint8 ... uint64
 *   diff                int8 ... int64
 *   timestamp           int64                   ns since 1970; 0 in graphs
 *   depth, value_offset uint8 ... uint64
 *   labels.NAME ...     dictionary(uint8 ..., binary)                of group_by
 *
 * Null is what is not known, or not the same for all that is in the row. Columns of several widths have the least that holds
 * their largest number, value_offset that of the total. Theirs is compressed with LZ4, ours is not: the response as a whole can
 * be.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "codec/arrow/arrow_write.h"
#include "server/parca/columns.h"
#include "server/parca/graph.h"
#include "store/store.h"

enum {
	LABELS_ONLY,
	ADDRESS,
	MAPPING_FILE,
	BUILD_ID,
	LOCATION_LINE,
	INLINED,
	START_LINE,
	NAME,
	SYSTEM_NAME,
	FILE_NAME,
	CHILDREN,
	PARENT,
	CUMULATIVE,
	FLAT,
	DIFF,
	TIMESTAMP,
	DEPTH,
	VALUE_OFFSET,
	COLUMNS,
};
static const struct parca_column_form forms[COLUMNS] = {
	[LABELS_ONLY] = {"labels_only", PARCA_COLUMN_BOOL},
	[ADDRESS] = {"location_address", PARCA_COLUMN_UINT64},
	[MAPPING_FILE] = {"mapping_file", PARCA_COLUMN_BYTES},
	[BUILD_ID] = {"mapping_build_id", PARCA_COLUMN_BYTES},
	[LOCATION_LINE] = {"location_line", PARCA_COLUMN_LEAST_UNSIGNED},
	[INLINED] = {"inlined", PARCA_COLUMN_BOOL},
	[START_LINE] = {"function_startline", PARCA_COLUMN_LEAST_UNSIGNED},
	[NAME] = {"function_name", PARCA_COLUMN_BYTES},
	[SYSTEM_NAME] = {"function_system_name", PARCA_COLUMN_BYTES},
	[FILE_NAME] = {"function_file_name", PARCA_COLUMN_BYTES},
	[CHILDREN] = {"children", PARCA_COLUMN_UINT32_LIST},
	[PARENT] = {"parent", PARCA_COLUMN_INT32},
	[CUMULATIVE] = {"cumulative", PARCA_COLUMN_LEAST_UNSIGNED},
	[FLAT] = {"flat", PARCA_COLUMN_LEAST_UNSIGNED},
	[DIFF] = {"diff", PARCA_COLUMN_LEAST_SIGNED},
	[TIMESTAMP] = {"timestamp", PARCA_COLUMN_INT64},
	[DEPTH] = {"depth", PARCA_COLUMN_LEAST_UNSIGNED},
	[VALUE_OFFSET] = {"value_offset", PARCA_COLUMN_LEAST_UNSIGNED},
};

static void fill_frame(struct parca_columns *columns, const struct parca_graph *graph, size_t at)
{
	const struct parca_row *row = &graph->rows[graph->shown[at]];
	if (at)
		parca_columns_set(columns, LABELS_ONLY, at, row->labels_only);
	if (row->has_address)
		parca_columns_set(columns, ADDRESS, at, row->address);
	parca_columns_set_text(columns, MAPPING_FILE, at, row->mapping_file);
	parca_columns_set_text(columns, BUILD_ID, at, row->build_id);
	if (row->has_line)
		parca_columns_set(columns, LOCATION_LINE, at, (uint64_t)row->line_number);
	if (row->has_inlined)
		parca_columns_set(columns, INLINED, at, row->inlined);
	if (row->has_start_line)
		parca_columns_set(columns, START_LINE, at, (uint64_t)row->start_line);
	parca_columns_set_text(columns, NAME, at, row->name);
	parca_columns_set_text(columns, SYSTEM_NAME, at, row->system_name);
	parca_columns_set_text(columns, FILE_NAME, at, row->file);
}

static void fill_values(struct parca_columns *columns, const struct parca_graph *graph, size_t at)
{
	const struct parca_row *row = &graph->rows[graph->shown[at]];
	parca_columns_set(columns, PARENT, at, at ? graph->shown_parents[at] : (uint64_t)-1);
	parca_columns_set(columns, CUMULATIVE, at, (uint64_t)row->total);
	parca_columns_set(columns, FLAT, at, row->self > 0 ? (uint64_t)row->self : 0);
	parca_columns_set(columns, DIFF, at, (uint64_t)parca_graph_diff(graph, row));
	parca_columns_set(columns, TIMESTAMP, at, (uint64_t)row->time_ns);
	parca_columns_set(columns, DEPTH, at, row->depth);
	parca_columns_set(columns, VALUE_OFFSET, at, (uint64_t)graph->offsets[at]);
}

/* By breadth, the children of each row stand one after the other. */
static void fill_children(struct parca_columns *columns, const struct parca_graph *graph)
{
	size_t next = 1;
	for (size_t at = 0; at < graph->shown_count; at++) {
		size_t first = next;
		while (next < graph->shown_count && graph->shown_parents[next] == at)
			parca_columns_add_item(columns, CHILDREN, next++);
		parca_columns_end_list(columns, CHILDREN, at, next > first);
	}
}

static void fill_labels(struct parca_columns *columns, const struct parca_graph *graph, const char *const *by, size_t by_count,
			size_t at)
{
	const struct profile *profile = graph->profile;
	const struct profile_label_set *set = &profile->label_sets[graph->rows[graph->shown[at]].labels];
	for (uint32_t i = set->first; i < set->first + set->count; i++)
		for (size_t k = 0; k < by_count; k++)
			if (profile->labels[i].value && strcmp(profile_string(profile, profile->labels[i].key), by[k]) == 0)
				parca_columns_set_text(columns, COLUMNS + k, at, profile->labels[i].value);
}

#define NAME_SIZE 300
int parca_graph_write(const struct parca_graph *graph, const char *const *by, size_t by_count, struct buffer *out,
		      struct error *err)
{
	struct parca_column_form all[COLUMNS + STORE_GROUP_BY_MAX];
	char names[STORE_GROUP_BY_MAX][NAME_SIZE];
	_cleanup_(parca_columns_release) struct parca_columns columns = {0};
	if (by_count > STORE_GROUP_BY_MAX)
		return error_set(err, -EINVAL, "more than %d labels in group_by", STORE_GROUP_BY_MAX);
	memcpy(all, forms, sizeof(forms));
	for (size_t i = 0; i < by_count; i++) {
		snprintf(names[i], NAME_SIZE, "labels.%s", by[i]);
		all[COLUMNS + i] = (struct parca_column_form){names[i], PARCA_COLUMN_BYTES};
	}
	int r = parca_columns_init(&columns, graph->profile, all, COLUMNS + by_count, graph->shown_count, err);
	if (r < 0)
		return r;
	for (size_t at = 0; at < graph->shown_count; at++) {
		fill_frame(&columns, graph, at);
		fill_values(&columns, graph, at);
		fill_labels(&columns, graph, by, by_count, at);
	}
	fill_children(&columns, graph);
	columns.columns[VALUE_OFFSET].largest = graph->total > 0 ? (uint64_t)graph->total : 0;
	return parca_columns_write(&columns, out, err);
}
