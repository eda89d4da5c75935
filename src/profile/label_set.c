/* SPDX-License-Identifier: Apache-2.0 */
/* Label sets of samples: sorted by key, interned whole. Most sets are a handful of labels and are sorted by insertion; a
 * hostile profile may hold sets of a hundred thousand, for which everything must stay O(n log n). */
#include <assert.h>
#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "base/order.h"
#include "profile/profile_int.h"

#define SMALL_SET 16

bool profile_labels_equal(const struct profile_label *a, const struct profile_label *b)
{
	return a->key == b->key && a->value == b->value && a->number == b->number && a->unit == b->unit;
}

bool profile_has_key(const struct profile_label *labels, size_t count, uint32_t key)
{
	for (size_t i = 0; i < count; i++)
		if (labels[i].key == key)
			return true;
	return false;
}

static int compare_keys(const struct profile *profile, uint32_t a, uint32_t b)
{
	return a == b ? 0 : bytes_compare(intern_get(&profile->strings, a), intern_get(&profile->strings, b));
}

/* Inserts each label behind those with the same key or a smaller one, unless it is there already. */
static size_t sort_small(const struct profile *profile, const struct profile_label *labels, size_t count,
			 struct profile_label *out)
{
	size_t kept = 0;
	for (size_t i = 0; i < count; i++) {
		size_t at = kept;
		while (at > 0 && compare_keys(profile, out[at - 1].key, labels[i].key) > 0)
			at--;
		bool known = false;
		for (size_t j = at; j > 0 && !known && out[j - 1].key == labels[i].key; j--)
			known = profile_labels_equal(&out[j - 1], &labels[i]);
		if (known)
			continue;
		memmove(out + at + 1, out + at, (kept - at) * sizeof(*out));
		out[at] = labels[i];
		kept++;
	}
	return kept;
}

struct ordered_label {
	struct profile_label label;
	struct bytes key;
	size_t order;
};

DEFINE_ORDER(compare_content, struct ordered_label,
	     ORDER(a->label.key, b->label.key) ?: ORDER(a->label.value, b->label.value) ?:
		     ORDER((uint64_t)a->label.number, (uint64_t)b->label.number) ?: ORDER(a->label.unit, b->label.unit) ?:
		     ORDER(a->order, b->order));

DEFINE_ORDER(compare_place, struct ordered_label,
	     (a->label.key == b->label.key ? 0 : bytes_compare(a->key, b->key)) ?: ORDER(a->order, b->order));

static int sort_large(const struct profile *profile, const struct profile_label *labels, size_t count,
		      struct profile_label *out, size_t *ret_kept)
{
	_cleanup_(mem_freep) struct ordered_label *ordered = mem_alloc_array(count, sizeof(*ordered));
	if (!ordered)
		return -ENOMEM;
	for (size_t i = 0; i < count; i++)
		ordered[i] = (struct ordered_label){
			.label = labels[i], .key = intern_get(&profile->strings, labels[i].key), .order = i};
	sort_array(ordered, count, compare_content);
	size_t kept = 0;
	for (size_t i = 0; i < count; i++)
		if (kept == 0 || !profile_labels_equal(&ordered[kept - 1].label, &ordered[i].label))
			ordered[kept++] = ordered[i];
	sort_array(ordered, kept, compare_place);
	for (size_t i = 0; i < kept; i++)
		out[i] = ordered[i].label;
	*ret_kept = kept;
	return 0;
}

static uint64_t hash_set(const struct profile *profile, const struct profile_label *labels, size_t count)
{
	uint64_t hash = profile_hash_add(profile->index->seed, count);
	for (size_t i = 0; i < count; i++) {
		hash = profile_hash_add(hash, (uint64_t)labels[i].key << 32 | labels[i].value);
		hash = profile_hash_add(hash, (uint64_t)labels[i].number);
		hash = profile_hash_add(hash, labels[i].unit);
	}
	return hash;
}

static bool find_set(const struct profile *profile, uint64_t hash, const struct profile_label *labels, size_t count,
		     uint32_t *ret_id)
{
	const struct index32 *index = &profile->index->label_sets;
	uint32_t id;
	for (size_t at = index32_first(index, hash); index32_at(index, hash, &at, &id); at++) {
		const struct profile_label_set *set = &profile->label_sets[id];
		size_t same = 0;
		while (set->count == count && same < count &&
		       profile_labels_equal(&profile->labels[set->first + same], &labels[same]))
			same++;
		if (set->count == count && same == count) {
			*ret_id = id;
			return true;
		}
	}
	return false;
}

int profile_number_label(struct profile *profile, uint32_t key, int64_t number, struct profile_label *ret, struct error *err)
{
	*ret = (struct profile_label){.key = key, .number = number};
	return number ? 0 : profile_add_cstring(profile, "0", &ret->value, err);
}

int profile_add_label_set(struct profile *profile, const struct profile_label *labels, size_t count, uint32_t *ret_id,
			  struct error *err)
{
	struct profile_index *index = profile->index;
	if (count == 0) {
		*ret_id = 0;
		return 0;
	}
	for (size_t i = 0; i < count; i++)
		assert(labels[i].key < profile->strings.count && labels[i].value < profile->strings.count &&
		       labels[i].unit < profile->strings.count);
	size_t need, kept;
	if (__builtin_add_overflow(profile->label_count, count, &need))
		need = SIZE_MAX;
	size_t own = profile_own_index(profile->labels, profile->label_count, labels, sizeof(*labels));
	/* Sorted where it will stay if it is new; otherwise label_count does not move and the place is used again. */
	int r = profile_reserve_array(profile, "labels", &profile->labels, &index->label_capacity, need, err);
	if (r < 0)
		return r;
	if (own != SIZE_MAX)
		labels = profile->labels + own;
	struct profile_label *sorted = profile->labels + profile->label_count;
	if (count <= SMALL_SET)
		kept = sort_small(profile, labels, count, sorted);
	else if (sort_large(profile, labels, count, sorted, &kept) < 0)
		return error_nomem(err);
	uint64_t hash = hash_set(profile, sorted, kept);
	if (find_set(profile, hash, sorted, kept, ret_id))
		return 0;
	const struct profile_table table = PROFILE_TABLE(profile, label_set, label_sets, "label sets", NULL);
	r = profile_table_reserve(profile, &table, err);
	if (r < 0)
		return r;
	struct profile_label_set set = {.first = kept > 0 ? (uint32_t)profile->label_count : 0, .count = (uint32_t)kept};
	*ret_id = profile_table_append(&table, &set, hash);
	profile->label_count += kept;
	return 0;
}
