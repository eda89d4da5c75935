/* SPDX-License-Identifier: Apache-2.0 */
/* What costs most in a merged profile, as a table. Private to src/query. */
#ifndef WICK_QUERY_TOP_H
#define WICK_QUERY_TOP_H

#include "query/pipeline_int.h"
#include "query/table.h"

struct top_options {
	enum top_by by;
	bool total;		   /* order by total instead of self */
	size_t limit;		   /* rows a group */
	const char *const *labels; /* groups: labels of the samples */
	size_t label_count;
	const char *unit;
	bool relative;	       /* of two sides: changes are of shares */
	int64_t rate_range_ns; /* not 0: values are per second of this */
	size_t rows_max;
};
/* A sum per second of the range; nanoseconds per second are cores. */
double rate_value(int64_t value, bool time_unit, int64_t range_ns);
/* One sample type: self and total with shares. Two (base, other): both sides and the change, ordered by its size, and a column
 * that says what is new and what is gone. The table is initialised by this. */
int top_table(const struct profile *profile, const struct top_options *options, struct query_table *ret, struct error *err);

#endif
