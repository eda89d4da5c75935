/* SPDX-License-Identifier: Apache-2.0 */
/* Private to Parca's Arrow records: stacks. */
#ifndef WICK_FORMAT_PARCA_ARROW_INT_H
#define WICK_FORMAT_PARCA_ARROW_INT_H

#include "base/map.h"
#include "codec/arrow/arrow_read.h"
#include "format/parca_arrow.h"

/* Frames, lines of them, and labels that are looked at in one request: lists that overlap make many of few bytes. */
#define PARCA_WORK_MIN	  (1024ull * 1024)
#define PARCA_WORK_A_BYTE 16
#define PARCA_WORK_MAX	  (16ull * 1024 * 1024)
struct parca_work {
	uint64_t done, max;
};
int parca_work_add(struct parca_work *work, uint64_t amount, struct error *err);

/* Where the columns of a list of locations are; -1 = not there. */
enum parca_location_column {
	LOCATION_ADDRESS,
	LOCATION_FRAME_TYPE,
	LOCATION_MAPPING_START,
	LOCATION_MAPPING_LIMIT,
	LOCATION_MAPPING_OFFSET,
	LOCATION_MAPPING_FILE,
	LOCATION_MAPPING_BUILD_ID,
	LOCATION_LINES,
	LOCATION_COLUMNS,
};
enum parca_line_column {
	LINE_LINE,
	LINE_COLUMN,
	LINE_FUNCTION, /* v2: a struct */
	LINE_FUNCTION_NAME,
	LINE_FUNCTION_SYSTEM_NAME,
	LINE_FUNCTION_FILENAME,
	LINE_FUNCTION_START_LINE,
	LINE_COLUMNS,
};
enum parca_function_column {
	FUNCTION_SYSTEM_NAME,
	FUNCTION_FILENAME,
	FUNCTION_START_LINE,
	FUNCTION_COLUMNS,
};
struct parca_layout {
	int location[LOCATION_COLUMNS], line[LINE_COLUMNS], function[FUNCTION_COLUMNS];
};
/* field: the column of lists. -EBADMSG if it is none of locations. */
int parca_layout_find(const struct arrow_field *field, struct parca_layout *ret, struct error *err);
/* What an array's run ends lead to, and a dictionary's indices. */
const struct arrow_field *parca_values_field(const struct arrow_field *field);

/* Of one profile: what of the record was added to it. */
struct parca_stacks {
	struct profile *profile;
	struct map64 stacks, locations, functions; /* by where they are in the record */
};
void parca_stacks_init(struct parca_stacks *stacks, struct profile *profile);
void parca_stacks_release(struct parca_stacks *stacks);
/* A new batch: the same places are other stacks. */
void parca_stacks_next(struct parca_stacks *stacks);
int parca_stacks_add(struct parca_stacks *stacks, const struct parca_layout *layout, struct parca_work *work,
		     const struct arrow_array *lists, size_t row, uint32_t *ret, struct error *err);

/* Values of a column that may not be there: then absent as null is. Errors name the column. */
int parca_text(const struct arrow_array *columns, int column, size_t row, struct bytes *ret, struct error *err);
int parca_integer(const struct arrow_array *columns, int column, size_t row, int64_t *ret, struct error *err);

#endif
