/* SPDX-License-Identifier: Apache-2.0 */
/* The local store as an implementation of store_ops.h. */
#include "store/store_int.h"

static int op_open(const struct store_options *options, struct store **ret, struct error *err)
{
	struct local_store *store;
	int r = local_open(options, &store, err);
	if (r == 0)
		*ret = &store->base;
	return r;
}

static struct store *op_close(struct store *store)
{
	local_close(local_of(store));
	return NULL;
}

static int op_append(struct store *store, const struct profile *profile, const struct store_append_options *options,
		     struct store_append_result *ret, struct error *err)
{
	return local_append(local_of(store), profile, options, ret, err);
}

static int op_merge(struct store *store, const struct store_select *select, const struct store_grouping *grouping,
		    struct profile *into, struct store_read_stats *stats, struct error *err)
{
	return local_merge(local_of(store), select, grouping, into, stats, err);
}

static int op_series(struct store *store, const struct store_select *select, const struct store_grouping *grouping,
		     int64_t step_ns, store_on_point on_point, void *context, struct store_read_stats *stats, struct error *err)
{
	return local_series(local_of(store), select, grouping, step_ns, on_point, context, stats, err);
}

static int op_list_types(struct store *store, const struct store_select *select, store_on_item on_item, void *context,
			 struct store_read_stats *stats, struct error *err)
{
	return local_list_types(local_of(store), select, on_item, context, stats, err);
}

static int op_list_labels(struct store *store, const struct store_select *select, store_on_item on_item, void *context,
			  struct store_read_stats *stats, struct error *err)
{
	return local_list_labels(local_of(store), select, on_item, context, stats, err);
}

static int op_list_values(struct store *store, const struct store_select *select, const char *label, const char *prefix,
			  store_on_item on_item, void *context, struct store_read_stats *stats, struct error *err)
{
	return local_list_values(local_of(store), select, label, prefix, on_item, context, stats, err);
}

static int op_list_series(struct store *store, const struct store_select *select, const struct store_grouping *grouping,
			  struct store_read_stats *stats, struct error *err)
{
	return local_list_series(local_of(store), select, grouping, stats, err);
}

static int op_read_processes(struct store *store, const struct store_select *select, const struct store_grouping *grouping,
			     unsigned columns, store_on_process on_row, void *context, struct store_read_stats *stats,
			     struct error *err)
{
	return local_read_processes(local_of(store), select, grouping, columns, on_row, context, stats, err);
}

static int op_delete(struct store *store, const struct series_conditions *series, int64_t from_ns, int64_t to_ns,
		     struct store_delete_result *ret, struct error *err)
{
	return local_delete(local_of(store), series, from_ns, to_ns, ret, err);
}

static void op_get_stats(struct store *store, struct store_stats *ret)
{
	local_get_stats(local_of(store), ret);
}

static int op_cut(struct store *store, struct error *err)
{
	return local_cut(local_of(store), err);
}

static int op_compact(struct store *store, int64_t now_ns, struct error *err)
{
	return local_compact(local_of(store), now_ns, err);
}

static int op_apply_retention(struct store *store, int64_t now_ns, struct error *err)
{
	return local_apply_retention(local_of(store), now_ns, err);
}

static int op_list_blocks(struct store *store, store_on_block on_block, void *context, struct error *err)
{
	return local_list_blocks(local_of(store), on_block, context, err);
}

static int op_read_block_file(struct store *store, const char *block, const char *file, uint64_t offset, size_t bytes_max,
			      struct buffer *ret, struct error *err)
{
	return local_read_block_file(local_of(store), block, file, offset, bytes_max, ret, err);
}

static void op_set_cache(struct store *store, size_t bytes_max)
{
	local_set_cache(local_of(store), bytes_max);
}

static int op_note_host(struct store *store, const char *host, const struct labels *labels, int64_t time_ns, struct error *err)
{
	return local_note_host(local_of(store), host, labels, time_ns, err);
}

static int op_read_hosts(struct store *store, const char *const *names, size_t name_count, int64_t from_ns, int64_t to_ns,
			 store_on_host on_host, void *context, struct error *err)
{
	return local_read_hosts(local_of(store), names, name_count, from_ns, to_ns, on_host, context, err);
}

const struct store_ops local_store_ops = {
	.open = op_open,
	.close = op_close,
	.append = op_append,
	.merge = op_merge,
	.series = op_series,
	.list_types = op_list_types,
	.list_labels = op_list_labels,
	.list_values = op_list_values,
	.list_series = op_list_series,
	.read_processes = op_read_processes,
	.note_host = op_note_host,
	.read_hosts = op_read_hosts,
	.delete = op_delete,
	.get_stats = op_get_stats,
	.cut = op_cut,
	.compact = op_compact,
	.apply_retention = op_apply_retention,
	.list_blocks = op_list_blocks,
	.read_block_file = op_read_block_file,
	.set_cache = op_set_cache,
};
