/* SPDX-License-Identifier: Apache-2.0 */
#include "store/head/head.h"

#include "base/alloc.h"
#include "base/budget.h"

static void free_columns(struct head_columns *columns)
{
	if (!columns)
		return;
	series_columns_release(&columns->columns);
	mem_free(columns);
}

void head_index_release(struct head *head)
{
	free_columns(head->index.columns);
	profile_hashes_release(&head->index.hashes);
	pthread_mutex_destroy(&head->index.lock);
}

static int build(const struct head *head, struct head_columns **ret, struct error *err)
{
	struct head_columns *columns = mem_zalloc(sizeof(*columns));
	if (!columns)
		return error_nomem(err);
	columns->refs = 1;
	int r = series_columns_build(head->series, head->series_count, &columns->columns, err);
	if (r < 0) {
		mem_free(columns);
		return r;
	}
	*ret = columns;
	return 0;
}

int head_columns_get(struct head *head, struct head_columns **ret, struct error *err)
{
	BUDGET_EXEMPT_SCOPE(); /* it stays with the head */
	struct head_index *index = &head->index;
	struct head_columns *old = NULL, *fresh = NULL;
	int r = 0;
	pthread_mutex_lock(&index->lock);
	if (!index->columns || index->columns->columns.count != head->series_count) {
		r = build(head, &fresh, err);
		if (r == 0) {
			if (index->columns && --index->columns->refs == 0)
				old = index->columns;
			index->columns = fresh;
		}
	}
	if (r == 0) {
		index->columns->refs++;
		*ret = index->columns;
	}
	pthread_mutex_unlock(&index->lock);
	free_columns(old);
	return r;
}

void head_columns_put(struct head *head, struct head_columns *columns)
{
	BUDGET_EXEMPT_SCOPE(); /* it stays with the head */
	if (!columns)
		return;
	pthread_mutex_lock(&head->index.lock);
	bool last = --columns->refs == 0;
	pthread_mutex_unlock(&head->index.lock);
	if (last)
		free_columns(columns);
}

int head_copy_hashes(struct head *head, const uint32_t *stacks, size_t count, struct hash128 *ret, struct error *err)
{
	BUDGET_EXEMPT_SCOPE(); /* it stays with the head */
	struct head_index *index = &head->index;
	pthread_mutex_lock(&index->lock);
	int r = profile_hash_more(head->pool, &index->hashes, err);
	for (size_t i = 0; r == 0 && i < count; i++)
		ret[i] = index->hashes.stacks[stacks[i]];
	pthread_mutex_unlock(&index->lock);
	return r;
}
