/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading what processes used: rows of process_stats (docs/process-stats.md, profile/type.h), of head and blocks.
 *
 * They are a table of their own beside the samples: no query of samples and no list of types shows them. A row belongs to a
 * series, whose labels are those that the process's samples have, without those of threads.
 */
#ifndef WICK_STORE_PROCESSES_H
#define WICK_STORE_PROCESSES_H

#include "profile/type.h"
#include "store/store.h"

struct store_process_row {
	uint32_t group;
	int64_t time_ns;		       /* the end of the window that it covers */
	int64_t values[PROCESS_STATS_COLUMNS]; /* 0 in columns that were not asked for */
};
typedef int (*store_on_process)(void *context, const struct store_process_row *row, struct error *err);

#define STORE_PROCESS_ALL ((1u << PROCESS_STATS_COLUMNS) - 1)
/*
 * Calls on_row for each row in the select's range whose labels match; its type and its conditions on stacks do not matter.
 * columns: bit by enum process_stats_column, what is to be read. grouping gives row.group, 0 without one; its callback gets the
 * type { name = process_stats }. Rows come source by source, the heads and then the blocks, newest first, and in a source
 * series by series, each by rising time. A row may come in parts from two sources, when its columns were sent in several
 * profiles and a block was cut between them; their sum is the row.
 *
 * Limits make the answer partial, as in store_merge(). -EAGAIN: a block turned out to be damaged after rows of it had been
 * given, and was set aside; call again. A negative return of on_row ends the call with it. All callbacks are on the calling
 * thread.
 */
int store_read_processes(struct store *store, const struct store_select *select, const struct store_grouping *grouping,
			 unsigned columns, store_on_process on_row, void *context, struct store_read_stats *stats,
			 struct error *err);

#endif
