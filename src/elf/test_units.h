/* SPDX-License-Identifier: Apache-2.0 */
/* For tests of readers of debug information: keeps what a sink gets. */
#ifndef WICK_ELF_TEST_UNITS_H
#define WICK_ELF_TEST_UNITS_H

#include <stdlib.h>
#include <string.h>

#include "elf/code_unit.h"

struct test_unit {
	struct code_scope *scopes;
	struct code_range *ranges;
	struct code_row *rows;
	char **files;
	size_t scope_count, range_count, row_count, file_count;
	uint16_t language;
};
struct test_units {
	struct test_unit *items;
	size_t count;
};

static char *test_copy(const char *text)
{
	size_t size = strlen(text) + 1;
	char *copy = malloc(size);
	memcpy(copy, text, size);
	return copy;
}

static void *test_array(const void *from, size_t count, size_t size)
{
	void *copy = malloc(count * size + 1);
	if (count)
		memcpy(copy, from, count * size);
	return copy;
}

/* A code_unit_sink. Returns -EINVAL when what it gets is not as code_unit.h promises. */
static int test_units_sink(void *context, const struct code_unit *unit, struct error *err)
{
	struct test_units *units = context;
	for (size_t i = 0; i < unit->scope_count; i++)
		if (unit->scopes[i].parent != CODE_NONE && unit->scopes[i].parent >= i)
			return error_set(err, -22, "scope %zu comes before its parent", i);
	for (size_t i = 0; i < unit->range_count; i++)
		if (unit->ranges[i].start >= unit->ranges[i].end || unit->ranges[i].scope >= unit->scope_count ||
		    (i && unit->ranges[i - 1].end > unit->ranges[i].start))
			return error_set(err, -22, "range %zu is out of order", i);
	for (size_t i = 0; i < unit->row_count; i++)
		if ((i && unit->rows[i - 1].address >= unit->rows[i].address) ||
		    (unit->rows[i].file != CODE_NONE && unit->rows[i].file >= unit->file_count))
			return error_set(err, -22, "row %zu is out of order", i);
	units->items = realloc(units->items, (units->count + 1) * sizeof(*units->items));
	struct test_unit *copy = &units->items[units->count++];
	*copy = (struct test_unit){.scope_count = unit->scope_count,
				   .range_count = unit->range_count,
				   .row_count = unit->row_count,
				   .file_count = unit->file_count,
				   .language = unit->language};
	copy->scopes = test_array(unit->scopes, unit->scope_count, sizeof(*unit->scopes));
	copy->ranges = test_array(unit->ranges, unit->range_count, sizeof(*unit->ranges));
	copy->rows = test_array(unit->rows, unit->row_count, sizeof(*unit->rows));
	copy->files = malloc((unit->file_count + 1) * sizeof(char *));
	for (size_t i = 0; i < unit->file_count; i++)
		copy->files[i] = test_copy(unit->files[i]);
	for (size_t i = 0; i < unit->scope_count; i++) {
		copy->scopes[i].name = test_copy(unit->scopes[i].name);
		copy->scopes[i].linkage_name = test_copy(unit->scopes[i].linkage_name);
	}
	return 0;
}

static void test_units_release(struct test_units *units)
{
	for (size_t u = 0; u < units->count; u++) {
		struct test_unit *unit = &units->items[u];
		for (size_t i = 0; i < unit->file_count; i++)
			free(unit->files[i]);
		for (size_t i = 0; i < unit->scope_count; i++) {
			free((char *)unit->scopes[i].name);
			free((char *)unit->scopes[i].linkage_name);
		}
		free(unit->scopes);
		free(unit->ranges);
		free(unit->rows);
		free(unit->files);
	}
	free(units->items);
	*units = (struct test_units){0};
}

static const struct code_row *test_find_row(const struct test_unit *unit, uint64_t address)
{
	size_t low = 0, high = unit->row_count;
	while (low < high) {
		size_t middle = low + (high - low) / 2;
		if (unit->rows[middle].address <= address)
			low = middle + 1;
		else
			high = middle;
	}
	return low > 0 && !unit->rows[low - 1].end ? &unit->rows[low - 1] : NULL;
}

#endif
