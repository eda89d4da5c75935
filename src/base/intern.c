// SPDX-License-Identifier: Apache-2.0
#include "base/intern.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "base/hash.h"

#define STRINGS_MAX (UINT32_MAX - 1)

int intern_init(struct intern *table, size_t max_bytes)
{
	*table = (struct intern){.arena.max_bytes = max_bytes};
	uint32_t id;
	if (intern_add(table, "", 0, &id) < 0) {
		intern_release(table);
		return -ENOMEM;
	}
	return 0;
}

void intern_release(struct intern *table)
{
	arena_release(&table->arena);
	index32_release(&table->index);
	table->strings = mem_free(table->strings);
	table->count = 0;
	table->capacity = 0;
}

static bool find(const struct intern *table, struct bytes text, uint64_t hash, uint32_t *ret_id)
{
	uint32_t id;
	for (size_t at = index32_first(&table->index, hash); index32_at(&table->index, hash, &at, &id); at++) {
		if (bytes_equal(table->strings[id], text)) {
			*ret_id = id;
			return true;
		}
	}
	return false;
}

int intern_reserve(struct intern *table, size_t count)
{
	if (count <= table->count)
		return 0;
	int r = array_reserve(&table->strings, &table->capacity, count < STRINGS_MAX ? count : STRINGS_MAX, STRINGS_MAX);
	/* Twice as large as it must be: there is less to step over. */
	return r == 0 ? index32_reserve(&table->index, 2 * (count - table->count)) : r;
}

int intern_add(struct intern *table, const void *data, size_t len, uint32_t *ret_id)
{
	struct bytes text = {data, len};
	uint64_t hash = hash64_guarded(data, len);
	if (find(table, text, hash, ret_id))
		return 0;
	/* Everything that can fail comes first, the copy last: a failed call leaves no bytes behind in the arena. */
	int r = table->count < table->capacity
			? 0
			: array_reserve(&table->strings, &table->capacity, table->count + 1, STRINGS_MAX);
	if (r == 0 && !index32_has_room(&table->index))
		r = index32_reserve(&table->index, 1);
	if (r < 0)
		return r;
	const char *copy = arena_strndup(&table->arena, data, len);
	if (!copy)
		return len == SIZE_MAX || arena_is_full(&table->arena, len + 1) ? -E2BIG : -ENOMEM;
	uint32_t id = (uint32_t)table->count++;
	table->strings[id] = (struct bytes){(const uint8_t *)copy, len};
	index32_insert(&table->index, hash, id);
	*ret_id = id;
	return 0;
}

int intern_add_string(struct intern *table, const char *text, uint32_t *ret_id)
{
	return intern_add(table, text, strlen(text), ret_id);
}

bool intern_find(const struct intern *table, const void *data, size_t len, uint32_t *ret_id)
{
	return find(table, (struct bytes){data, len}, hash64_guarded(data, len), ret_id);
}

struct bytes intern_get(const struct intern *table, uint32_t id)
{
	assert(id < table->count);
	return table->strings[id];
}

const char *intern_string(const struct intern *table, uint32_t id)
{
	return (const char *)intern_get(table, id).data;
}
