/* SPDX-License-Identifier: Apache-2.0 */
/* From a block's tables into a profile: only the stacks that are asked for, and only what those refer to. */
#include <errno.h>

#include "base/alloc.h"
#include "base/budget.h"
#include "base/limits.h"
#include "store/block/block_pool.h"
#include "store/store_int.h"

struct materializer {
	struct block_to_pool to_pool;
	uint32_t *stacks; /* block -> profile; 0 = not yet */
	uint32_t *path;
	size_t path_capacity;
	struct error *err;
};

/* Up to the first ancestor that is there, and down again. */
static int add_stack(struct materializer *m, uint32_t id, uint32_t *ret)
{
	const struct block_tables *t = m->to_pool.tables;
	size_t depth = 0;
	uint32_t at = id;
	for (; at != 0 && m->stacks[at] == 0; at = (uint32_t)t->stack_parents[at]) {
		int r = array_reserve(&m->path, &m->path_capacity, depth + 1, LIMIT_STACK_DEPTH);
		if (r == -E2BIG)
			return error_set(m->err, -EBADMSG, "a stack is deeper than %d", LIMIT_STACK_DEPTH);
		if (r < 0)
			return error_nomem(m->err);
		m->path[depth++] = at;
	}
	uint32_t parent = at ? m->stacks[at] : 0;
	while (depth > 0) {
		uint32_t location;
		at = m->path[--depth];
		int r = block_to_pool_location(&m->to_pool, (uint32_t)t->stack_locations[at], &location);
		if (r == 0)
			r = profile_add_stack(m->to_pool.pool, parent, location, &m->stacks[at], m->err);
		if (r < 0)
			return r;
		parent = m->stacks[at];
	}
	*ret = parent;
	return 0;
}

int materialize_stacks(const struct block_tables *tables, const uint32_t *stacks, size_t count, size_t room,
		       struct profile *into, uint32_t *ret_ids, struct error *err)
{
	struct materializer m = {.to_pool = {.tables = tables, .pool = into, .err = err}, .err = err};
	m.stacks = mem_zalloc_array(tables->stack_count, sizeof(*m.stacks));
	int r = m.stacks ? block_to_pool_start(&m.to_pool) : error_nomem(err);
	for (size_t i = 0; r == 0 && i < count; i++)
		r = budget_poll()	       ? error_nomem(err)
		    : into->stack_count > room ? MATERIALIZE_FULL
					       : add_stack(&m, stacks[i], &ret_ids[i]);
	block_to_pool_release(&m.to_pool);
	mem_free(m.stacks);
	mem_free(m.path);
	return r;
}
