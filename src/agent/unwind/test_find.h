/* SPDX-License-Identifier: Apache-2.0 */
/* For tests: looks a rule up as the walk (bpf/walk.h) does. */
#ifndef WICK_AGENT_UNWIND_TEST_FIND_H
#define WICK_AGENT_UNWIND_TEST_FIND_H

#include <assert.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/unwind/unwind_table.h"

static inline uint32_t escaped_rule(const struct unwind_table *t, uint32_t row)
{
	const struct unwind_escape *escapes = (const void *)((const uint8_t *)t + t->escapes);
	uint32_t low = 0, high = t->escape_count;
	while (high - low > 1) {
		uint32_t middle = low + (high - low) / 2;
		if (escapes[middle].row <= row)
			low = middle;
		else
			high = middle;
	}
	assert(high > low && escapes[low].row == row);
	return escapes[low].rule;
}

/* The rule of a file offset in an image that was checked; NULL where there is none (no row, or one of UNWIND_CFA_NONE). */
static inline const struct unwind_rule *unwind_table_find(const void *image, uint64_t file_offset)
{
	const struct unwind_table *t = image;
	const uint32_t *index = (const void *)((const uint8_t *)t + t->index);
	const uint16_t *rows = (const void *)((const uint8_t *)t + t->rows);
	uint64_t page = file_offset >> UNWIND_PAGE_SHIFT;
	if (page < t->first_page || page - t->first_page >= t->page_count)
		return NULL;
	/* The last row of the page that begins at or before the offset, else the last of the pages before. */
	uint32_t low = index[page - t->first_page] - 1, high = index[page - t->first_page + 1];
	while (high - low > 1) {
		uint32_t middle = low + (high - low) / 2;
		if ((rows[middle] & 0xff) <= (file_offset & 0xff))
			low = middle;
		else
			high = middle;
	}
	uint32_t rule = rows[low] >> 8;
	if (rule == UNWIND_RULE_ESCAPE)
		rule = escaped_rule(t, low);
	return rule == 0 ? NULL : (const struct unwind_rule *)(const void *)((const uint8_t *)t + t->rules) + rule;
}

#endif
