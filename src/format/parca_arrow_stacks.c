/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stacks in Parca's Arrow records: lists of locations, leaf first, each with a list of lines, innermost first. The tables are
 * shown in parca_arrow.c.
 *
 * One location is in many stacks, and in a dictionary it has one place: what was made of a place is kept, so a location costs
 * its work once for each profile.
 */
#include <errno.h>

#include "base/limits.h"
#include "format/format_int.h"
#include "format/parca_arrow_int.h"

#define LINES_MAX 1024

int parca_work_add(struct parca_work *work, uint64_t amount, struct error *err)
{
	if (amount > work->max - work->done)
		return error_set(err, -E2BIG, "a record of its size may have %llu frames and labels at most",
				 (unsigned long long)work->max);
	work->done += amount;
	return 0;
}

/* ---- columns ---- */

const struct arrow_field *parca_values_field(const struct arrow_field *field)
{
	while (field->type == ARROW_TYPE_RUN_END_ENCODED)
		field = &field->children[1];
	return field;
}

static void find_columns(const struct arrow_field *field, const char *const *names, size_t count, int *ret)
{
	for (size_t i = 0; i < count; i++)
		ret[i] = field && field->type == ARROW_TYPE_STRUCT
				 ? arrow_find_field(field->children, field->child_count, names[i])
				 : -1;
}

/* What a list is of; NULL if the field is no list. */
static const struct arrow_field *item_field(const struct arrow_field *field)
{
	field = parca_values_field(field);
	switch (field->type) {
	case ARROW_TYPE_LIST:
	case ARROW_TYPE_LARGE_LIST:
	case ARROW_TYPE_LIST_VIEW:
	case ARROW_TYPE_LARGE_LIST_VIEW:
	case ARROW_TYPE_FIXED_SIZE_LIST: return parca_values_field(&field->children[0]);
	default: return NULL;
	}
}

int parca_layout_find(const struct arrow_field *field, struct parca_layout *ret, struct error *err)
{
	static const char *const location_names[] = {"address",	       "frame_type",   "mapping_start",	   "mapping_limit",
						     "mapping_offset", "mapping_file", "mapping_build_id", "lines"};
	static const char *const line_names[] = {"line",
						 "column",
						 "function",
						 "function_name",
						 "function_system_name",
						 "function_filename",
						 "function_start_line"};
	static const char *const function_names[] = {"system_name", "filename", "start_line"};
	const struct arrow_field *location = item_field(field), *line = NULL, *function = NULL;
	find_columns(location, location_names, LOCATION_COLUMNS, ret->location);
	if (ret->location[LOCATION_ADDRESS] < 0)
		return error_set(err, -EBADMSG, "the column \"%.60s\" is not of lists of locations", field->name);
	if (ret->location[LOCATION_LINES] >= 0)
		line = item_field(&location->children[ret->location[LOCATION_LINES]]);
	find_columns(line, line_names, LINE_COLUMNS, ret->line);
	if (ret->line[LINE_FUNCTION] >= 0)
		function = parca_values_field(&line->children[ret->line[LINE_FUNCTION]]);
	find_columns(function, function_names, FUNCTION_COLUMNS, ret->function);
	return 0;
}

static int bad_value(const struct arrow_array *columns, int column, size_t row, struct error *err)
{
	return error_set(err, -EBADMSG, "the column \"%.60s\", row %zu: no such value, or it has the wrong type",
			 columns[column].field->name, row);
}

int parca_text(const struct arrow_array *columns, int column, size_t row, struct bytes *ret, struct error *err)
{
	*ret = (struct bytes){0};
	int r = column < 0 ? 0 : arrow_get_bytes(&columns[column], row, ret);
	return r < 0 ? bad_value(columns, column, row, err) : 0;
}

int parca_integer(const struct arrow_array *columns, int column, size_t row, int64_t *ret, struct error *err)
{
	*ret = 0;
	int r = column < 0 ? 0 : arrow_get_integer(&columns[column], row, ret);
	return r < 0 ? bad_value(columns, column, row, err) : 0;
}

/* ---- functions ---- */

static int add_text(struct profile *profile, const struct arrow_array *columns, int column, size_t row, uint32_t *ret,
		    struct error *err)
{
	struct bytes text;
	int r = parca_text(columns, column, row, &text, err);
	return r < 0 ? r : profile_add_bytes(profile, text, ret, err);
}

/* The columns of a line that are its function's (v1). */
static int add_flat_function(struct parca_stacks *stacks, const struct parca_layout *layout, const struct arrow_array *columns,
			     size_t row, uint32_t *ret, struct error *err)
{
	struct profile *profile = stacks->profile;
	struct profile_function function = {0};
	int r = add_text(profile, columns, layout->line[LINE_FUNCTION_NAME], row, &function.name, err);
	if (r == 0)
		r = add_text(profile, columns, layout->line[LINE_FUNCTION_SYSTEM_NAME], row, &function.system_name, err);
	if (r == 0)
		r = add_text(profile, columns, layout->line[LINE_FUNCTION_FILENAME], row, &function.file_name, err);
	if (r == 0)
		r = parca_integer(columns, layout->line[LINE_FUNCTION_START_LINE], row, &function.start_line, err);
	if (!function.name)
		function.name = function.system_name;
	return r < 0 ? r : profile_add_function(profile, &function, ret, err);
}

static uint64_t place(const struct arrow_array *array, size_t row)
{
	return (uint64_t)array->id << 32 | row;
}

static int remember(struct map64 *map, uint64_t key, uint64_t value, struct error *err)
{
	return map64_put(map, key, value) < 0 ? error_nomem(err) : 0;
}

/* A struct of its own (v2), which has one name. */
static int add_function(struct parca_stacks *stacks, const struct parca_layout *layout, const struct arrow_array *array,
			size_t row, uint32_t *ret, struct error *err)
{
	struct profile_function function = {0};
	int r = arrow_locate(array, row, &array, &row);
	if (r <= 0)
		return r < 0 ? error_set(err, -EBADMSG, "a line has no function at its index") : 0;
	if (format_known(&stacks->functions, place(array, row), ret))
		return 0;
	r = add_text(stacks->profile, array->children, layout->function[FUNCTION_SYSTEM_NAME], row, &function.name, err);
	if (r == 0)
		r = add_text(stacks->profile, array->children, layout->function[FUNCTION_FILENAME], row, &function.file_name,
			     err);
	if (r == 0)
		r = parca_integer(array->children, layout->function[FUNCTION_START_LINE], row, &function.start_line, err);
	function.system_name = function.name;
	if (r == 0)
		r = profile_add_function(stacks->profile, &function, ret, err);
	return r < 0 ? r : remember(&stacks->functions, place(array, row), *ret, err);
}

/* ---- locations ---- */

static int read_line(struct parca_stacks *stacks, const struct parca_layout *layout, const struct arrow_array *lines,
		     size_t row, struct profile_line *ret, struct error *err)
{
	*ret = (struct profile_line){0};
	int r = arrow_locate(lines, row, &lines, &row);
	if (r <= 0)
		return r < 0 ? error_set(err, -EBADMSG, "a location has no line at its index") : 0;
	const int *at = layout->line;
	r = parca_integer(lines->children, at[LINE_LINE], row, &ret->line, err);
	if (r == 0)
		r = parca_integer(lines->children, at[LINE_COLUMN], row, &ret->column, err);
	if (r == 0 && at[LINE_FUNCTION] >= 0 && layout->function[FUNCTION_SYSTEM_NAME] >= 0)
		return add_function(stacks, layout, &lines->children[at[LINE_FUNCTION]], row, &ret->function, err);
	return r < 0 ? r : add_flat_function(stacks, layout, lines->children, row, &ret->function, err);
}

static int read_lines(struct parca_stacks *stacks, const struct parca_layout *layout, struct parca_work *work,
		      const struct arrow_array *columns, size_t row, struct profile_line *lines, size_t *ret_count,
		      struct error *err)
{
	const struct arrow_array *items;
	size_t first;
	int column = layout->location[LOCATION_LINES];
	*ret_count = 0;
	int r = column < 0 ? 0 : arrow_get_list(&columns[column], row, &items, &first, ret_count);
	if (r <= 0)
		return r < 0 ? bad_value(columns, column, row, err) : 0;
	if (*ret_count > LINES_MAX)
		return error_set(err, -E2BIG, "a location of more than %d lines", LINES_MAX);
	r = parca_work_add(work, *ret_count, err);
	for (size_t i = 0; i < *ret_count && r == 0; i++)
		r = read_line(stacks, layout, items, first + i, &lines[i], err);
	return r;
}

/* Addresses are as linked if no mapping says otherwise. */
static int read_mapping(struct profile *profile, const int *at, const struct arrow_array *columns, size_t row, uint32_t *ret,
			struct error *err)
{
	struct profile_mapping mapping = {0};
	int64_t start = 0, limit = 0, offset = 0;
	int r = parca_integer(columns, at[LOCATION_MAPPING_START], row, &start, err);
	if (r == 0)
		r = parca_integer(columns, at[LOCATION_MAPPING_LIMIT], row, &limit, err);
	if (r == 0)
		r = parca_integer(columns, at[LOCATION_MAPPING_OFFSET], row, &offset, err);
	if (r == 0)
		r = add_text(profile, columns, at[LOCATION_MAPPING_FILE], row, &mapping.file_name, err);
	if (r == 0)
		r = add_text(profile, columns, at[LOCATION_MAPPING_BUILD_ID], row, &mapping.build_id, err);
	mapping.start = (uint64_t)start;
	mapping.limit = (uint64_t)limit;
	mapping.offset = (uint64_t)offset;
	bool told = mapping.file_name || mapping.build_id || limit;
	if (!start && !limit && !offset)
		profile_mapping_set_linked(&mapping);
	*ret = 0;
	return r < 0 || !told ? r : profile_add_mapping(profile, &mapping, ret, err);
}

static int add_location(struct parca_stacks *stacks, const struct parca_layout *layout, struct parca_work *work,
			const struct arrow_array *array, size_t row, uint32_t *ret, struct error *err)
{
	struct profile_location location = {0};
	struct profile_line lines[LINES_MAX];
	struct bytes type;
	size_t count;
	int64_t address;
	if (format_known(&stacks->locations, place(array, row), ret))
		return 0;
	int r = parca_integer(array->children, layout->location[LOCATION_ADDRESS], row, &address, err);
	if (r == 0)
		r = parca_text(array->children, layout->location[LOCATION_FRAME_TYPE], row, &type, err);
	if (r == 0)
		r = read_mapping(stacks->profile, layout->location, array->children, row, &location.mapping, err);
	if (r == 0)
		r = read_lines(stacks, layout, work, array->children, row, lines, &count, err);
	if (r < 0)
		return r;
	/* Of frames of interpreters it is a place in their own code, which is said by the line. */
	location.address = location.mapping || count == 0 ? (uint64_t)address : 0;
	location.frame_type = format_frame_type(type);
	r = profile_add_location(stacks->profile, &location, lines, count, ret, err);
	return r < 0 ? r : remember(&stacks->locations, place(array, row), *ret, err);
}

/* ---- stacks ---- */

void parca_stacks_init(struct parca_stacks *stacks, struct profile *profile)
{
	*stacks = (struct parca_stacks){.profile = profile};
	map64_init_guarded(&stacks->stacks);
	map64_init_guarded(&stacks->locations);
	map64_init_guarded(&stacks->functions);
}

void parca_stacks_release(struct parca_stacks *stacks)
{
	map64_release(&stacks->stacks);
	map64_release(&stacks->locations);
	map64_release(&stacks->functions);
}

void parca_stacks_next(struct parca_stacks *stacks)
{
	map64_clear(&stacks->stacks);
	map64_clear(&stacks->locations);
	map64_clear(&stacks->functions);
}

static int add_frames(struct parca_stacks *stacks, const struct parca_layout *layout, struct parca_work *work,
		      const struct arrow_array *items, size_t first, size_t count, uint32_t *ret, struct error *err)
{
	uint32_t locations[LIMIT_STACK_DEPTH];
	const struct arrow_array *array;
	size_t row;
	if (count > LIMIT_STACK_DEPTH)
		return error_set(err, -E2BIG, "a stack of more than %d frames", LIMIT_STACK_DEPTH);
	int r = parca_work_add(work, count, err);
	for (size_t i = 0; i < count && r == 0; i++) {
		r = arrow_locate(items, first + i, &array, &row);
		if (r <= 0)
			return error_set(err, -EBADMSG, "a stack has no location at its index");
		r = add_location(stacks, layout, work, array, row, &locations[i], err);
	}
	return r < 0 ? r : profile_add_stack_leaf_first(stacks->profile, locations, count, ret, err);
}

int parca_stacks_add(struct parca_stacks *stacks, const struct parca_layout *layout, struct parca_work *work,
		     const struct arrow_array *lists, size_t row, uint32_t *ret, struct error *err)
{
	const struct arrow_array *items;
	size_t first, count;
	uint64_t known;
	*ret = 0;
	int r = arrow_get_list(lists, row, &items, &first, &count);
	if (r <= 0 || count == 0)
		return r < 0 ? bad_value(lists, 0, row, err) : 0;
	/* Where the list begins, in whichever of a dictionary's chunks it is; how long it was is kept with its stack. */
	uint64_t key = place(items, first);
	if (map64_get(&stacks->stacks, key, &known) && known >> 32 == count) {
		*ret = (uint32_t)known;
		return 0;
	}
	r = add_frames(stacks, layout, work, items, first, count, ret, err);
	return r < 0 ? r : remember(&stacks->stacks, key, (uint64_t)count << 32 | *ret, err);
}
