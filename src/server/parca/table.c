/* SPDX-License-Identifier: Apache-2.0 */
/*
 * REPORT_TYPE_TABLE_ARROW (pkg/query/table.go), which Parca's page asks for its table and its sandwich: an Arrow stream with a
 * row for each function, as they are met.
 *
 *   mapping_file, mapping_build_id                  dictionary(uint16, utf8); uint32 where there are more
 *   location_address  uint64                        location_line, function_startline  int64
 *   function_name, function_file_name               dictionary(uint32, utf8)
 *   function_system_name                            dictionary(uint16, utf8)
 *   cumulative, cumulative_diff, flat, flat_diff    int64; cumulative_diff is null without a comparison
 *   callers, callees                                list<int64>: rows; null where there are none
 *
 * Binary, address and lines are those of the place where the function was met first.
 */
#include "base/alloc.h"
#include "base/order.h"
#include "server/parca/columns.h"
#include "server/parca/functions.h"
#include "server/parca/report.h"

enum {
	MAPPING_FILE,
	BUILD_ID,
	ADDRESS,
	LOCATION_LINE,
	START_LINE,
	NAME,
	SYSTEM_NAME,
	FILE_NAME,
	CUMULATIVE,
	CUMULATIVE_DIFF,
	FLAT,
	FLAT_DIFF,
	CALLERS,
	CALLEES,
	COLUMNS,
};
static const struct parca_column_form forms[COLUMNS] = {
	[MAPPING_FILE] = {"mapping_file", PARCA_COLUMN_TEXT_UINT16},
	[BUILD_ID] = {"mapping_build_id", PARCA_COLUMN_TEXT_UINT16},
	[ADDRESS] = {"location_address", PARCA_COLUMN_UINT64},
	[LOCATION_LINE] = {"location_line", PARCA_COLUMN_INT64},
	[START_LINE] = {"function_startline", PARCA_COLUMN_INT64},
	[NAME] = {"function_name", PARCA_COLUMN_TEXT_UINT32},
	[SYSTEM_NAME] = {"function_system_name", PARCA_COLUMN_TEXT_UINT16},
	[FILE_NAME] = {"function_file_name", PARCA_COLUMN_TEXT_UINT32},
	[CUMULATIVE] = {"cumulative", PARCA_COLUMN_INT64},
	[CUMULATIVE_DIFF] = {"cumulative_diff", PARCA_COLUMN_INT64},
	[FLAT] = {"flat", PARCA_COLUMN_INT64},
	[FLAT_DIFF] = {"flat_diff", PARCA_COLUMN_INT64},
	[CALLERS] = {"callers", PARCA_COLUMN_INT64_LIST},
	[CALLEES] = {"callees", PARCA_COLUMN_INT64_LIST},
};

static void fill_place(struct parca_columns *columns, const struct profile *profile, const struct parca_function *function,
		       size_t row)
{
	const struct profile_location *at = &profile->locations[function->location];
	if (at->mapping) {
		parca_columns_set_text(columns, MAPPING_FILE, row, profile->mappings[at->mapping].file_name);
		parca_columns_set_text(columns, BUILD_ID, row, profile->mappings[at->mapping].build_id);
	}
	parca_columns_set(columns, ADDRESS, row, profile_location_file_offset(profile, function->location));
	if (function->line == PARCA_NO_LINE)
		return;
	const struct profile_line *line = &profile->lines[function->line];
	const struct profile_function *entry = &profile->functions[line->function];
	parca_columns_set(columns, LOCATION_LINE, row, (uint64_t)line->line);
	if (entry->start_line > 0)
		parca_columns_set(columns, START_LINE, row, (uint64_t)entry->start_line);
	parca_columns_set_text(columns, NAME, row, parca_line_name(profile, function->line));
	parca_columns_set_text(columns, SYSTEM_NAME, row, entry->system_name);
	parca_columns_set_text(columns, FILE_NAME, row, entry->file_name);
}

static void fill_values(struct parca_columns *columns, const struct parca_view *view, const struct parca_function *function,
			size_t row)
{
	bool compared = view->profile->sample_type_count > 1;
	parca_columns_set(columns, CUMULATIVE, row, (uint64_t)function->total);
	parca_columns_set(columns, FLAT, row, (uint64_t)function->flat);
	parca_columns_set(columns, FLAT_DIFF, row,
			  compared ? (uint64_t)parca_difference(function->flat, function->flat_base, view->scale) : 0);
	if (compared)
		parca_columns_set(columns, CUMULATIVE_DIFF, row,
				  (uint64_t)parca_difference(function->total, function->total_base, view->scale));
}

DEFINE_ORDER(compare_by_callee, struct parca_call, ORDER(a->callee, b->callee) ?: ORDER(a->caller, b->caller));
DEFINE_ORDER(compare_by_caller, struct parca_call, ORDER(a->caller, b->caller) ?: ORDER(a->callee, b->callee));

/* Calls in order of `callee` or of `caller`, which is the row; the other end is in its list. */
static void fill_calls(struct parca_columns *columns, struct parca_functions *functions, size_t column)
{
	bool callers = column == CALLERS;
	size_t at = 0;
	sort_array(functions->calls, functions->call_count, callers ? compare_by_callee : compare_by_caller);
	for (size_t row = 0; row < functions->count; row++) {
		size_t first = at;
		for (; at < functions->call_count; at++) {
			const struct parca_call *call = &functions->calls[at];
			if ((callers ? call->callee : call->caller) != row)
				break;
			parca_columns_add_item(columns, column, callers ? call->caller : call->callee);
		}
		parca_columns_end_list(columns, column, row, at > first);
	}
}

int parca_table_write(const struct parca_view *view, struct buffer *out, struct error *err)
{
	_cleanup_(parca_functions_release) struct parca_functions functions = {0};
	_cleanup_(parca_columns_release) struct parca_columns columns = {0};
	int r = parca_functions_build(view->profile, true, view->cancel, &functions, err);
	if (!r)
		r = parca_columns_init(&columns, view->profile, forms, COLUMNS, functions.count, err);
	if (r < 0)
		return r;
	for (size_t i = 0; i < functions.count; i++) {
		fill_place(&columns, view->profile, &functions.items[i], i);
		fill_values(&columns, view, &functions.items[i], i);
	}
	fill_calls(&columns, &functions, CALLERS);
	fill_calls(&columns, &functions, CALLEES);
	return parca_columns_write(&columns, out, err);
}
