/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a store must do: the functions that store.h, processes.h and hosts.h call, one for each of theirs, with the same duties.
 *
 * Queries, pages and ingest know a struct store and nothing of who answers. The local store (store_int.h: files of this
 * process) is one implementation, and the default; another one gives store_options.ops. All that it is asked is data: what is
 * selected in struct store_select, a range of time, names of labels to group by, a step. So it can be turned into another
 * language, such as SQL. Three things come as callbacks, and none of them selects:
 *
 *   sinks      take what comes out, row by row: groups, points, items. A group callback numbers a combination of label values
 *              that was found, and may be called more than once for it. Sinks are called by one thread at a time.
 *   symbols    name addresses (struct frame_symbols) for conditions on stacks whose locations came without names. A store that
 *              has no way to ask while it searches lists the distinct addresses first, and asks then.
 *   cancel     is polled, as is the deadline: a store that cannot stop early gives up waiting and says -ECANCELED.
 *
 * An answer that lacks something says so in its stats (`partial` and `why`); one whose conditions could not be checked is an
 * error. All functions may be called from any thread.
 */
#ifndef WICK_STORE_STORE_OPS_H
#define WICK_STORE_STORE_OPS_H

#include "store/hosts.h"
#include "store/processes.h"
#include "store/store.h"

struct store_ops {
	/* options->ops is this; *ret begins with a struct store, whose ops the caller sets. */
	int (*open)(const struct store_options *options, struct store **ret, struct error *err);
	struct store *(*close)(struct store *store);

	int (*append)(struct store *store, const struct profile *profile, const struct store_append_options *options,
		      struct store_append_result *ret, struct error *err);

	int (*merge)(struct store *store, const struct store_select *select, const struct store_grouping *grouping,
		     struct profile *into, struct store_read_stats *stats, struct error *err);
	int (*series)(struct store *store, const struct store_select *select, const struct store_grouping *grouping,
		      int64_t step_ns, store_on_point on_point, void *context, struct store_read_stats *stats,
		      struct error *err);
	int (*list_types)(struct store *store, const struct store_select *select, store_on_item on_item, void *context,
			  struct store_read_stats *stats, struct error *err);
	int (*list_labels)(struct store *store, const struct store_select *select, store_on_item on_item, void *context,
			   struct store_read_stats *stats, struct error *err);
	int (*list_values)(struct store *store, const struct store_select *select, const char *label, const char *prefix,
			   store_on_item on_item, void *context, struct store_read_stats *stats, struct error *err);
	int (*list_series)(struct store *store, const struct store_select *select, const struct store_grouping *grouping,
			   struct store_read_stats *stats, struct error *err);
	int (*read_processes)(struct store *store, const struct store_select *select, const struct store_grouping *grouping,
			      unsigned columns, store_on_process on_row, void *context, struct store_read_stats *stats,
			      struct error *err);

	/* Of hosts. Both NULL: notes are taken and forgotten, no host has labels. */
	int (*note_host)(struct store *store, const char *host, const struct labels *labels, int64_t time_ns,
			 struct error *err);
	int (*read_hosts)(struct store *store, const char *const *names, size_t name_count, int64_t from_ns, int64_t to_ns,
			  store_on_host on_host, void *context, struct error *err);

	int (*delete)(struct store *store, const struct series_conditions *series, int64_t from_ns, int64_t to_ns,
		      struct store_delete_result *ret, struct error *err);
	void (*get_stats)(struct store *store, struct store_stats *ret); /* members that it has no figure for stay 0 */

	/* What it does by itself, at once. A store that has nothing of the kind has NULL here: then the call is success. */
	int (*cut)(struct store *store, struct error *err);
	int (*compact)(struct store *store, int64_t now_ns, struct error *err);
	int (*apply_retention)(struct store *store, int64_t now_ns, struct error *err);
	int (*list_blocks)(struct store *store, store_on_block on_block, void *context, struct error *err);
	int (*read_block_file)(struct store *store, const char *block, const char *file, uint64_t offset, size_t bytes_max,
			       struct buffer *ret, struct error *err);
	void (*set_cache)(struct store *store, size_t bytes_max);
};

/* The beginning of every store. */
struct store {
	const struct store_ops *ops;
};

#endif
