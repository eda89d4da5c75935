/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The writer's dictionary of one chunk: its distinct values in the order of their first use, and each value's index.
 *
 * Integers. When the range of the chunk is not much wider than its number of values, an array by value finds the index without
 * hashing; that is so for most identifiers and small counts. Else an open-addressing table of the values themselves, which
 * grows with what it holds, so that the small dictionaries, the useful ones, stay in the cache. Most columns that have no use
 * for a dictionary show it at once: when half of the first values are distinct, or the dictionary alone is longer than the
 * values would be without it, the work stops. Strings are hashed; equal neighbours, the usual case, are not.
 *
 * First use, not order of values, gives the indexes: the pages at the start of a chunk need fewer bits, and what is new
 * together stays together. Indexes that come in no runs take a fixed number of bits each, though some are far more frequent
 * than others, and compression cannot see that as long as they lie across bytes. So the writer may try another order, the most
 * frequent first, and widths that are a multiple of 4 bits: stacks of samples and references to mappings take a tenth less that
 * way.
 */
#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "base/hash.h"
#include "codec/parquet_int.h"

#define VALUES_MAX (64 * 1024)
#define BYTES_MAX  (1024 * 1024)
#define FULL	   (UINT32_MAX - 1)
#define NO_MEMORY  UINT32_MAX
#define PROBES_MAX 64
#define SLOTS_MIN  1024
#define DIRECT_MIN (16 * 1024)
#define EARLY	   4096 /* values after which too many distinct ones end the work, and so at every power of two behind */

void parquet_dictionary_release(struct parquet_dictionary *dictionary)
{
	index32_release(&dictionary->index);
	mem_free(dictionary->words);
	mem_free(dictionary->strings);
	mem_free(dictionary->indexes);
	mem_free(dictionary->slots);
	*dictionary = (struct parquet_dictionary){0};
}

static inline uint64_t word_at(const void *values, size_t size, size_t i)
{
	if (size == 8)
		return ((const uint64_t *)values)[i];
	return ((const uint32_t *)values)[i];
}

static int add_word(struct parquet_dictionary *dictionary, uint64_t word)
{
	if (dictionary->count == dictionary->word_capacity &&
	    array_reserve(&dictionary->words, &dictionary->word_capacity, dictionary->count + 1, VALUES_MAX) < 0)
		return -ENOMEM;
	dictionary->words[dictionary->count++] = word;
	return 0;
}

/* Is a dictionary of `count` values, found in the first `seen` of all, worth going on with? */
static bool is_promising(size_t count, size_t size, size_t seen, size_t total, size_t bytes_without)
{
	size_t len = count * size;
	return count < VALUES_MAX && len < bytes_without && !(seen >= EARLY && count > seen / 2) && count <= total / 2 + 1;
}

/* The table's slots: 0 = free, else index + 1. Both ways share them. */
static int clear_slots(struct parquet_dictionary *dictionary, size_t count)
{
	if (array_reserve(&dictionary->slots, &dictionary->slot_capacity, count, SIZE_MAX) < 0)
		return -ENOMEM;
	memset(dictionary->slots, 0, count * sizeof(*dictionary->slots));
	return 0;
}

/* `least` is what makes the smallest value 0; the others are at most `span`. */
static inline __attribute__((always_inline)) int build_direct(struct parquet_dictionary *dictionary, const void *values,
							      size_t size, size_t count, uint64_t least, size_t span,
							      size_t bytes_without)
{
	uint64_t mask = size == 8 ? UINT64_MAX : UINT32_MAX;
	uint32_t *indexes = dictionary->indexes;
	if (clear_slots(dictionary, span + 1) < 0)
		return -ENOMEM;
	for (size_t start = 0; start < count; start += EARLY) {
		size_t end = count - start < EARLY ? count : start + EARLY;
		for (size_t i = start; i < end; i++) {
			uint64_t word = word_at(values, size, i);
			uint32_t *slot = &dictionary->slots[(word - least) & mask];
			if (*slot == 0) {
				if (dictionary->count >= VALUES_MAX)
					return 0;
				if (add_word(dictionary, word) < 0)
					return -ENOMEM;
				*slot = (uint32_t)dictionary->count;
			}
			indexes[i] = *slot - 1;
		}
		if (!is_promising(dictionary->count, size, end, count, bytes_without))
			return 0;
	}
	return 1;
}

/* One multiplication, so that the tables of one value after the other overlap. Whoever wants can find keys that collide: the
 * number of probes is bounded, and a chunk of such values does without a dictionary. */
static inline size_t slot_of(uint64_t word, size_t slot_count)
{
	return (size_t)((word ^ word >> 32) * 0x9e3779b97f4a7c15ull >> 32) & (slot_count - 1);
}

static int grow_slots(struct parquet_dictionary *dictionary, size_t *slot_count)
{
	size_t more = *slot_count * 4;
	if (clear_slots(dictionary, more) < 0)
		return -ENOMEM;
	for (size_t id = 0; id < dictionary->count; id++) {
		size_t at = slot_of(dictionary->words[id], more);
		while (dictionary->slots[at])
			at = (at + 1) & (more - 1);
		dictionary->slots[at] = (uint32_t)id + 1;
	}
	*slot_count = more;
	return 0;
}

/* The index of a word, FULL or NO_MEMORY. */
static inline uint32_t intern_word(struct parquet_dictionary *dictionary, uint64_t word, size_t *slot_count)
{
	if (dictionary->count * 4 >= *slot_count && grow_slots(dictionary, slot_count) < 0)
		return NO_MEMORY;
	size_t at = slot_of(word, *slot_count);
	size_t probes = 0;
	for (; dictionary->slots[at] && probes < PROBES_MAX; at = (at + 1) & (*slot_count - 1), probes++)
		if (dictionary->words[dictionary->slots[at] - 1] == word)
			return dictionary->slots[at] - 1;
	if (dictionary->count >= VALUES_MAX || probes == PROBES_MAX)
		return FULL;
	if (add_word(dictionary, word) < 0)
		return NO_MEMORY;
	dictionary->slots[at] = (uint32_t)dictionary->count;
	return (uint32_t)dictionary->count - 1;
}

static int build_hashed(struct parquet_dictionary *dictionary, const void *values, size_t size, size_t count,
			size_t bytes_without)
{
	size_t slot_count = SLOTS_MIN;
	uint32_t *indexes = dictionary->indexes;
	if (clear_slots(dictionary, slot_count) < 0)
		return -ENOMEM;
	for (size_t i = 0; i < count; i++) {
		indexes[i] = intern_word(dictionary, word_at(values, size, i), &slot_count);
		if (indexes[i] >= FULL)
			return indexes[i] == FULL ? 0 : -ENOMEM;
		if (i % EARLY == EARLY - 1 && !is_promising(dictionary->count, size, i + 1, count, bytes_without))
			return 0;
	}
	return is_promising(dictionary->count, size, count, count, bytes_without);
}

/* The index of a string, FULL or NO_MEMORY. */
static uint32_t intern_string(struct parquet_dictionary *dictionary, struct bytes text, size_t max, size_t *bytes)
{
	uint64_t hash = hash64_guarded(text.data, text.len);
	uint32_t id;
	for (size_t at = index32_first(&dictionary->index, hash); index32_at(&dictionary->index, hash, &at, &id); at++)
		if (bytes_equal(dictionary->strings[id], text))
			return id;
	*bytes += text.len + 4;
	if (dictionary->count >= max || *bytes > BYTES_MAX)
		return FULL;
	id = (uint32_t)dictionary->count;
	if (array_reserve(&dictionary->strings, &dictionary->string_capacity, dictionary->count + 1, VALUES_MAX) < 0 ||
	    index32_add(&dictionary->index, hash, id) < 0)
		return NO_MEMORY;
	dictionary->strings[dictionary->count++] = text;
	return id;
}

static int build_strings(struct parquet_dictionary *dictionary, const struct bytes *values, size_t count)
{
	size_t bytes = 0, max = count / 2 + 1 < VALUES_MAX ? count / 2 + 1 : VALUES_MAX;
	uint32_t *indexes = dictionary->indexes;
	index32_clear(&dictionary->index);
	for (size_t i = 0; i < count; i++) {
		if (i && values[i].data == values[i - 1].data && values[i].len == values[i - 1].len) {
			indexes[i] = indexes[i - 1];
			continue;
		}
		indexes[i] = intern_string(dictionary, values[i], max, &bytes);
		if (indexes[i] >= FULL)
			return indexes[i] == FULL ? 0 : -ENOMEM;
	}
	return 1;
}

static int build_constant(struct parquet_dictionary *dictionary, uint64_t word, size_t count)
{
	memset(dictionary->indexes, 0, count * sizeof(*dictionary->indexes));
	return add_word(dictionary, word) < 0 ? -ENOMEM : 1;
}

int parquet_dictionary_build(struct parquet_dictionary *dictionary, const struct parquet_column *column, const void *values,
			     size_t count, const struct parquet_range *range, size_t bytes_without)
{
	size_t size = parquet_type_size(column->type);
	dictionary->count = 0;
	if (count == 0 || column->type == PARQUET_BOOLEAN)
		return 0;
	if (array_reserve(&dictionary->indexes, &dictionary->index_capacity, count, PARQUET_GROUP_ROWS_MAX) < 0)
		return -ENOMEM;
	if (size == sizeof(struct bytes))
		return build_strings(dictionary, values, count);
	uint64_t least = 0, most = 0;
	memcpy(&least, range->min.word, size);
	memcpy(&most, range->max.word, size);
	bool is_integer = column->type == PARQUET_INT32 || column->type == PARQUET_INT64;
	uint64_t span = (most - least) & (size == 8 ? UINT64_MAX : UINT32_MAX);
	if (is_integer && span == 0)
		return build_constant(dictionary, least, count);
	if (is_integer && span < (count > DIRECT_MIN ? 2 * count : DIRECT_MIN))
		return size == 8 ? build_direct(dictionary, values, 8, count, least, span, bytes_without)
				 : build_direct(dictionary, values, 4, count, least, span, bytes_without);
	return build_hashed(dictionary, values, size, count, bytes_without);
}

/* ---- the most frequent first ---- */

#define BUCKETS 128

/* Four steps for each doubling, the most frequent in bucket 0. */
static unsigned bucket_of(uint32_t uses)
{
	unsigned width = parquet_bit_width(uses), step = width > 3 ? uses >> (width - 3) & 3 : 0;
	return BUCKETS - 1 - (width * 4 - 4 + step); /* groups have far fewer rows than 2^32 */
}

int parquet_dictionary_rank(struct parquet_dictionary *dictionary, size_t count)
{
	size_t entries = dictionary->count;
	uint32_t starts[BUCKETS + 1] = {0}, *uses, *ranks;
	if (clear_slots(dictionary, 2 * entries) < 0)
		return -ENOMEM;
	uses = dictionary->slots;
	dictionary->ranks = ranks = dictionary->slots + entries;
	for (size_t i = 0; i < count; i++)
		uses[dictionary->indexes[i]]++;
	for (size_t id = 0; id < entries; id++)
		starts[bucket_of(uses[id]) + 1]++;
	for (size_t b = 1; b <= BUCKETS; b++)
		starts[b] += starts[b - 1];
	for (size_t id = 0; id < entries; id++)
		ranks[id] = starts[bucket_of(uses[id])]++;
	return 0;
}

int parquet_dictionary_reorder(struct parquet_dictionary *dictionary, size_t count)
{
	const uint32_t *ranks = dictionary->ranks;
	uint64_t *words = mem_alloc_array(dictionary->word_capacity, sizeof(*words));
	if (!words)
		return -ENOMEM;
	for (size_t id = 0; id < dictionary->count; id++)
		words[ranks[id]] = dictionary->words[id];
	mem_free(dictionary->words);
	dictionary->words = words;
	for (size_t i = 0; i < count; i++)
		dictionary->indexes[i] = ranks[dictionary->indexes[i]];
	return 0;
}
