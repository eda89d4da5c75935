// SPDX-License-Identifier: Apache-2.0
#include "agent/runtime/names.h"

#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "base/hash.h"

struct runtime_name_entry {
	uint32_t texts[RUNTIME_NAME_TEXTS];
	uint32_t numbers[RUNTIME_NAME_NUMBERS];
};

static void release_table(struct runtime_name_table *table)
{
	map64_release(&table->by_key);
	intern_release(&table->texts);
	mem_free(table->items);
	*table = (struct runtime_name_table){0};
}

int runtime_names_init(struct runtime_names *names)
{
	*names = (struct runtime_names){.seed = hash64_secret()};
	int r = intern_init(&names->tables[0].texts, RUNTIME_NAMES_BYTES_MAX);
	if (r == 0)
		r = intern_init(&names->tables[1].texts, RUNTIME_NAMES_BYTES_MAX);
	if (r < 0)
		runtime_names_release(names);
	return r;
}

void runtime_names_release(struct runtime_names *names)
{
	release_table(&names->tables[0]);
	release_table(&names->tables[1]);
}

uint64_t runtime_names_key(const struct runtime_names *names, const void *data, size_t bytes)
{
	return hash64_seed(data, bytes, names->seed);
}

static int add_to(struct runtime_name_table *table, uint64_t key, const struct runtime_name_item *item)
{
	struct runtime_name_entry entry;
	int r = table->count >= RUNTIME_NAMES_MAX ? -E2BIG : 0;

	memcpy(entry.numbers, item->numbers, sizeof(entry.numbers));
	for (size_t i = 0; r == 0 && i < RUNTIME_NAME_TEXTS; i++)
		r = intern_add(&table->texts, item->texts[i].data, item->texts[i].len, &entry.texts[i]);
	if (r == 0)
		r = array_push(&table->items, &table->count, &table->capacity, RUNTIME_NAMES_MAX, entry);
	if (r == 0)
		r = map64_put(&table->by_key, key, table->count - 1);
	return r;
}

int runtime_names_add(struct runtime_names *names, uint64_t key, const struct runtime_name_item *item)
{
	struct runtime_name_table fresh = {0}, older = names->tables[1];

	int r = add_to(&names->tables[0], key, item);
	if (r != -E2BIG)
		return r;
	r = intern_init(&fresh.texts, RUNTIME_NAMES_BYTES_MAX);
	if (r < 0)
		return r;
	names->tables[1] = names->tables[0];
	names->tables[0] = fresh;
	r = add_to(&names->tables[0], key, item);
	release_table(&older); /* the item's texts may lie in it */
	return r;
}

static void get_item(const struct runtime_name_table *table, uint64_t at, struct runtime_name_item *ret)
{
	const struct runtime_name_entry *entry = &table->items[at];

	for (size_t i = 0; i < RUNTIME_NAME_TEXTS; i++)
		ret->texts[i] = intern_get(&table->texts, entry->texts[i]);
	memcpy(ret->numbers, entry->numbers, sizeof(ret->numbers));
}

int runtime_names_find(struct runtime_names *names, uint64_t key, struct runtime_name_item *ret)
{
	uint64_t at;

	if (!map64_get(&names->tables[0].by_key, key, &at)) {
		if (!map64_get(&names->tables[1].by_key, key, &at))
			return 0;
		get_item(&names->tables[1], at, ret);
		int r = runtime_names_add(names, key, ret);
		if (r < 0)
			return r == -E2BIG ? 0 : r;
		at = names->tables[0].count - 1;
	}
	get_item(&names->tables[0], at, ret);
	return 1;
}

void runtime_names_mark(struct runtime_names *names, uint64_t key, uint32_t number)
{
	uint64_t at;

	if (map64_get(&names->tables[0].by_key, key, &at))
		names->tables[0].items[at].numbers[1] = number;
}
