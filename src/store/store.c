/* SPDX-License-Identifier: Apache-2.0 */
/* The functions of store.h, processes.h and hosts.h, each asked of the store's own (store_ops.h). */
#include "store/store_ops.h"

#include <errno.h>
#include <stddef.h>

#include "store/store_int.h"

int store_open(const struct store_options *options, struct store **ret, struct error *err)
{
	const struct store_ops *ops = options->ops ? options->ops : &local_store_ops;
	struct store *store = NULL;
	int r = ops->open(options, &store, err);
	if (r < 0)
		return r;
	store->ops = ops;
	*ret = store;
	return 0;
}

struct store *store_close(struct store *store)
{
	return store ? store->ops->close(store) : NULL;
}

int store_append(struct store *store, const struct profile *profile, const struct store_append_options *options,
		 struct store_append_result *ret, struct error *err)
{
	return store->ops->append(store, profile, options, ret, err);
}

int store_merge(struct store *store, const struct store_select *select, const struct store_grouping *grouping,
		struct profile *into, struct store_read_stats *stats, struct error *err)
{
	return store->ops->merge(store, select, grouping, into, stats, err);
}

int store_series(struct store *store, const struct store_select *select, const struct store_grouping *grouping, int64_t step_ns,
		 store_on_point on_point, void *context, struct store_read_stats *stats, struct error *err)
{
	return store->ops->series(store, select, grouping, step_ns, on_point, context, stats, err);
}

int store_list_types(struct store *store, const struct store_select *select, store_on_item on_item, void *context,
		     struct store_read_stats *stats, struct error *err)
{
	return store->ops->list_types(store, select, on_item, context, stats, err);
}

int store_list_labels(struct store *store, const struct store_select *select, store_on_item on_item, void *context,
		      struct store_read_stats *stats, struct error *err)
{
	return store->ops->list_labels(store, select, on_item, context, stats, err);
}

int store_list_values(struct store *store, const struct store_select *select, const char *label, const char *prefix,
		      store_on_item on_item, void *context, struct store_read_stats *stats, struct error *err)
{
	return store->ops->list_values(store, select, label, prefix, on_item, context, stats, err);
}

int store_list_series(struct store *store, const struct store_select *select, const struct store_grouping *grouping,
		      struct store_read_stats *stats, struct error *err)
{
	return store->ops->list_series(store, select, grouping, stats, err);
}

int store_read_processes(struct store *store, const struct store_select *select, const struct store_grouping *grouping,
			 unsigned columns, store_on_process on_row, void *context, struct store_read_stats *stats,
			 struct error *err)
{
	return store->ops->read_processes(store, select, grouping, columns, on_row, context, stats, err);
}

int store_note_host(struct store *store, const char *host, const struct labels *labels, int64_t time_ns, struct error *err)
{
	return store->ops->note_host ? store->ops->note_host(store, host, labels, time_ns, err) : 0;
}

int store_read_hosts(struct store *store, const char *const *names, size_t name_count, int64_t from_ns, int64_t to_ns,
		     store_on_host on_host, void *context, struct error *err)
{
	if (!store->ops->read_hosts)
		return 0;
	return store->ops->read_hosts(store, names, name_count, from_ns, to_ns, on_host, context, err);
}

static int copy_host(void *context, const struct store_host *host, struct error *err)
{
	int r = host_journal_add(context, host->name, host->labels, host->first_ns, host->last_ns);
	return r < 0 ? error_set(err, r, "the table of hosts does not fit into the response") : 0;
}

int store_copy_hosts(struct store *store, struct buffer *ret, struct error *err)
{
	if (host_journal_begin(ret) < 0)
		return error_nomem(err);
	return store_read_hosts(store, NULL, 0, INT64_MIN, INT64_MAX, copy_host, ret, err);
}

int store_delete(struct store *store, const struct series_conditions *series, int64_t from_ns, int64_t to_ns,
		 struct store_delete_result *ret, struct error *err)
{
	return store->ops->delete (store, series, from_ns, to_ns, ret, err);
}

void store_get_stats(struct store *store, struct store_stats *ret)
{
	*ret = (struct store_stats){0};
	for (size_t i = 0; i < STORE_REFUSAL_COUNT; i++)
		ret->refusals[i].name = store_refusal_names[i];
	store->ops->get_stats(store, ret);
}

int store_cut(struct store *store, struct error *err)
{
	return store->ops->cut ? store->ops->cut(store, err) : 0;
}

int store_compact(struct store *store, int64_t now_ns, struct error *err)
{
	return store->ops->compact ? store->ops->compact(store, now_ns, err) : 0;
}

int store_apply_retention(struct store *store, int64_t now_ns, struct error *err)
{
	return store->ops->apply_retention ? store->ops->apply_retention(store, now_ns, err) : 0;
}

int store_list_blocks(struct store *store, store_on_block on_block, void *context, struct error *err)
{
	return store->ops->list_blocks ? store->ops->list_blocks(store, on_block, context, err) : 0;
}

int store_read_block_file(struct store *store, const char *block, const char *file, uint64_t offset, size_t bytes_max,
			  struct buffer *ret, struct error *err)
{
	if (!store->ops->read_block_file)
		return error_set(err, -ENOENT, "this store has no blocks");
	return store->ops->read_block_file(store, block, file, offset, bytes_max, ret, err);
}

void store_set_cache(struct store *store, size_t bytes_max)
{
	if (store->ops->set_cache)
		store->ops->set_cache(store, bytes_max);
}
