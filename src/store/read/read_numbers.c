/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Samples that differ in their numbers, kept apart in a merge.
 *
 * Sums are by group and stack, and a group belongs to a series. So the rows of a series that have numbers go into groups of
 * their own, made as they are met, one for each pair of group and text. Each source has its own ids of texts; what they are
 * here is looked up once for each pair and source, under the lock, and then remembered by the source.
 */
#include <errno.h>

#include "base/alloc.h"
#include "base/thread.h"
#include "profile/numbers.h"
#include "store/read/read_int.h"

static int add_group(struct read_numbered *numbered, uint32_t group, uint32_t text, uint32_t *ret)
{
	uint64_t key = (uint64_t)group << 32 | text, found;
	if (map64_get(&numbered->index, key, &found)) {
		*ret = (uint32_t)found;
		return 0;
	}
	if (array_reserve(&numbered->groups, &numbered->capacity, numbered->count + 1, UINT32_MAX - READ_NUMBERED - 1) < 0 ||
	    map64_put(&numbered->index, key, READ_NUMBERED + numbered->count) < 0)
		return -ENOMEM;
	*ret = READ_NUMBERED + (uint32_t)numbered->count;
	numbered->groups[numbered->count++] = (struct read_numbered_group){group, text};
	return 0;
}

static int find(struct reading *r, uint32_t group, struct bytes text, uint32_t *ret, struct error *err)
{
	struct read_numbered *numbered = &r->numbered;
	uint32_t id;
	THREAD_LOCK_SCOPE(&r->lock);
	if (group >= READ_NUMBERED)
		return error_set(err, -E2BIG, "too many groups to keep samples apart by their numbers");
	int code = numbered->texts.count ? 0 : intern_init(&numbered->texts, READ_TEXT_BYTES_MAX);
	if (code == 0)
		code = intern_add(&numbered->texts, text.data, text.len, &id);
	if (code == 0)
		code = add_group(numbered, group, id, ret);
	if (code != -E2BIG)
		return code < 0 ? error_nomem(err) : 0;
	read_note_partial(r, "the limit of %u MiB of distinct numeric labels was reached after %zu of %zu sources",
			  READ_TEXT_BYTES_MAX >> 20, r->done, r->source_count);
	return SELECT_LIMITED;
}

int read_numbers_find(struct source_numbers *numbers, uint32_t group, uint32_t text, uint32_t *ret, struct error *err)
{
	uint64_t key = (uint64_t)group << 32 | text, found;
	if (map64_get(&numbers->groups, key, &found)) {
		*ret = (uint32_t)found;
		return 0;
	}
	int code = find(numbers->r, group, intern_get(numbers->texts, text), ret, err);
	if (code == 0 && map64_put(&numbers->groups, key, *ret) < 0)
		code = error_nomem(err);
	return code;
}

void source_numbers_release(struct source_numbers *numbers)
{
	map64_release(&numbers->groups);
}

void read_numbers_release(struct reading *r)
{
	if (r->numbered.texts.count)
		intern_release(&r->numbered.texts);
	mem_free(r->numbered.groups);
	map64_release(&r->numbered.index);
	r->numbered = (struct read_numbered){0};
}

int read_numbers_sets(const struct reading *r, struct profile *into, uint32_t **ret, struct error *err)
{
	const struct intern *texts = &r->numbered.texts;
	uint32_t *sets = mem_zalloc_array(texts->count + 1, sizeof(*sets));
	int code = sets ? 0 : error_nomem(err);
	for (uint32_t i = 1; code == 0 && i < texts->count; i++)
		code = numbers_add_set(into, intern_get(texts, i), &sets[i], err);
	if (code < 0) {
		mem_free(sets);
		return code;
	}
	*ret = sets;
	return 0;
}
