/* SPDX-License-Identifier: Apache-2.0 */
/* What blocks there are. */
#include <errno.h>

#include "store/store_int.h"

int store_list_blocks(struct store *store, store_on_block on_block, void *context, struct error *err)
{
	struct store_snapshot snapshot;
	int r = store_snapshot_take(store, &snapshot, err);
	if (r < 0)
		return r;
	for (size_t i = 0; i < snapshot.block_count && !r; i++) {
		const struct block_meta *meta = &snapshot.blocks[i]->meta;
		struct store_block block = {.name = meta->name,
					    .version = meta->version,
					    .level = meta->level,
					    .generation = meta->generation,
					    .created_ns = meta->created_ns,
					    .min_ns = meta->min_ns,
					    .max_ns = meta->max_ns,
					    .samples = meta->samples,
					    .series = meta->series,
					    .bytes = block_meta_bytes(meta),
					    .has_samples = meta->files[BLOCK_SAMPLES].size > 0};
		r = on_block(context, &block, err);
	}
	store_snapshot_release(store, &snapshot);
	return r;
}
