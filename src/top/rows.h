/* SPDX-License-Identifier: Apache-2.0 */
/* The tables: functions, processes, threads, binaries; which rows of them are shown, and in which order. */
#ifndef WICK_TOP_ROWS_H
#define WICK_TOP_ROWS_H

#include "base/arena.h"
#include "top/data.h"

enum top_table { TOP_FUNCTIONS, TOP_PROCESSES, TOP_THREADS, TOP_BINARIES, TOP_TABLES };

/* Texts live as long as the rows and the data that they were made of; "" where there is none. */
struct top_row {
	uint64_t id;	     /* the same for the same thing in the next picture */
	const char *name;    /* of the function, process, thread or binary */
	const char *binary;  /* of the function; of a process and a thread its executable */
	const char *process; /* of a thread */
	const char *host;
	const char *pid, *tid; /* as they come, which are numbers */
	const char *hottest;   /* the function that most of it was spent in; not of functions */
	uint32_t frame_type;   /* of the function, or of the hottest one */
	int64_t self, total;   /* of processes and threads the same */
	int64_t kernel;	       /* of self: in the kernel */
};
enum top_order { TOP_BY_SELF, TOP_BY_TOTAL, TOP_BY_KERNEL, TOP_BY_PID, TOP_BY_NAME, TOP_ORDERS };
struct top_rows {
	struct top_row *items;
	size_t count;
	uint32_t *shown; /* places in items, as they are to be shown */
	size_t shown_count;
	struct arena texts; /* numbers */
};
struct top_arrangement {
	enum top_order order;
	bool is_reversed;
	const char *filter; /* parts of texts, separated by '|'; "" = all rows */
	const char *binary; /* only rows of this binary; NULL = all */
};

int top_rows_build(const struct top_data *data, enum top_table table, struct top_rows *ret, struct error *err);
void top_rows_release(struct top_rows *rows);
/* Sets `shown`. */
void top_rows_arrange(struct top_rows *rows, const struct top_arrangement *arrangement);
/* Whether one of the parts is in one of the texts, upper and lower case of ASCII alike. Empty parts are in none. */
bool top_matches(const char *filter, const char *const *texts, size_t count);
bool top_row_matches(const struct top_row *row, const char *filter);
/* Where the row of an id is shown; shown_count = nowhere. */
size_t top_rows_find(const struct top_rows *rows, uint64_t id);

#endif
