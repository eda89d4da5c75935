/* SPDX-License-Identifier: Apache-2.0 */
/* Which series of a source (a block, a head) a selection wants, and into which group each goes. Works on columns: a matcher
 * evaluates each distinct value once, a group is made once for each distinct combination of values. */
#ifndef WICK_STORE_READ_SELECT_H
#define WICK_STORE_READ_SELECT_H

#include <errno.h>

#include "profile/series_match.h"
#include "store/series_columns.h"

struct selection {
	size_t count;	  /* series of the source */
	uint8_t *wanted;  /* by series: 1 or 0 */
	uint32_t *groups; /* by series, of wanted ones; NULL without a grouping: all are group 0 */
	size_t matched;
};
/* grouping may be NULL; its callback is the caller's business to serialise. */
int selection_make(const struct series_matcher *matcher, const struct store_grouping *grouping,
		   const struct series_columns *columns, struct selection *ret, struct error *err);
/* The same for rows of process_stats, which selection_make() leaves out: they are no samples. Conditions on types do not
 * matter.
 */
int selection_make_processes(const struct series_matcher *matcher, const struct store_grouping *grouping,
			     const struct series_columns *columns, struct selection *ret, struct error *err);
/* Takes out the series that have no sample in the range; first and last by series. */
void selection_limit(struct selection *selection, const struct store_select *select, const int64_t *first_ns,
		     const int64_t *last_ns);
/* Groups what is wanted, as selection_make() does. */
int selection_group(struct selection *selection, const struct store_grouping *grouping, const struct series_columns *columns,
		    struct error *err);
void selection_count(struct selection *selection); /* `matched` anew */
void selection_release(struct selection *selection);

/* Whether reading goes on, with `done` of `count` sources read, and `rows` more rows than stats have: 0, -ECANCELED, or
 * SELECT_LIMITED: reading ends, what was read is the answer, and stats say that it is partial. */
#define SELECT_LIMITED (-ETIME)
int select_check(const struct store_select *select, uint64_t rows, size_t done, size_t count, struct store_read_stats *stats,
		 struct error *err);

#endif
