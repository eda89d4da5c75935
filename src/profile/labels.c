/* SPDX-License-Identifier: Apache-2.0 */
/* Label sets of series: small sorted arrays of owned strings. */
#include "profile/labels.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/alloc.h"
#include "base/hash.h"
#include "base/limits.h"
#include "base/order.h"
#include "base/text.h"

void labels_release(struct labels *labels)
{
	for (size_t i = 0; i < labels->count; i++) {
		mem_free(labels->items[i].name);
		mem_free(labels->items[i].value);
	}
	mem_free(labels->items);
	*labels = (struct labels){0};
}

/* ---- names ---- */

static bool is_letter(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

bool label_name_is_valid(const char *name)
{
	size_t len = 0;
	for (; name[len]; len++)
		if (len >= LIMIT_LABEL_NAME_BYTES - 1 || !(is_letter(name[len]) || (len > 0 && text_is_digit(name[len]))))
			return false;
	return len > 0;
}

void label_name_sanitize(struct bytes key, char *out)
{
	size_t len = 0;
	if (key.len == 0 || text_is_digit(key.data[0]))
		out[len++] = '_';
	for (size_t i = 0; i < key.len && len < LIMIT_LABEL_NAME_BYTES - 1; i++) {
		char c = (char)key.data[i];
		out[len++] = is_letter(c) || text_is_digit(c) ? c : '_';
	}
	out[len] = '\0';
}

/* ---- set and get ---- */

/* Where a name is, or where it belongs. */
static bool find_name(const struct labels *labels, const char *name, size_t *ret_at)
{
	size_t low = 0, high = labels->count;
	while (low < high) {
		size_t middle = low + (high - low) / 2;
		int order = strcmp(labels->items[middle].name, name);
		if (order == 0) {
			*ret_at = middle;
			return true;
		}
		if (order < 0)
			low = middle + 1;
		else
			high = middle;
	}
	*ret_at = low;
	return false;
}

const char *labels_get(const struct labels *labels, const char *name)
{
	size_t at;
	return find_name(labels, name, &at) ? labels->items[at].value : NULL;
}

static void remove_at(struct labels *labels, size_t at)
{
	mem_free(labels->items[at].name);
	mem_free(labels->items[at].value);
	labels->count--;
	memmove(labels->items + at, labels->items + at + 1, (labels->count - at) * sizeof(*labels->items));
}

static int insert_at(struct labels *labels, size_t at, const char *name, const char *value, struct error *err)
{
	int r = array_reserve(&labels->items, &labels->capacity, labels->count + 1, LIMIT_LABELS_PER_SERIES);
	if (r == -E2BIG)
		return error_set(err, r, "label '%.64s' exceeds the limit of %d labels per series", name,
				 LIMIT_LABELS_PER_SERIES);
	char *name_copy = r == 0 ? mem_strdup(name) : NULL;
	char *value_copy = name_copy ? mem_strdup(value) : NULL;
	if (!value_copy) {
		mem_free(name_copy);
		return error_nomem(err);
	}
	memmove(labels->items + at + 1, labels->items + at, (labels->count - at) * sizeof(*labels->items));
	labels->items[at] = (struct label){.name = name_copy, .value = value_copy};
	labels->count++;
	return 0;
}

static int check_label(const char *name, const char *value, struct error *err)
{
	if (strlen(name) >= LIMIT_LABEL_NAME_BYTES)
		return error_set(err, -E2BIG, "label name '%.64s...' is longer than %d bytes", name,
				 LIMIT_LABEL_NAME_BYTES - 1);
	if (!label_name_is_valid(name))
		return error_set(err, -EINVAL,
				 "label name '%.64s' is not valid: use letters, digits and '_', and no digit first", name);
	if (strlen(value) > LIMIT_LABEL_VALUE_BYTES)
		return error_set(err, -E2BIG, "the value of label '%s' is longer than %d bytes", name, LIMIT_LABEL_VALUE_BYTES);
	if (!text_is_utf8(bytes_of_string(value)))
		return error_set(err, -EINVAL, "the value of label '%s' is not UTF-8", name);
	return 0;
}

int labels_set(struct labels *labels, const char *name, const char *value, struct error *err)
{
	int r = check_label(name, value, err);
	if (r < 0)
		return r;
	size_t at;
	bool found = find_name(labels, name, &at);
	if (*value == '\0') {
		if (found)
			remove_at(labels, at);
		return 0;
	}
	if (!found)
		return insert_at(labels, at, name, value, err);
	char *copy = mem_strdup(value);
	if (!copy)
		return error_nomem(err);
	mem_free(labels->items[at].value);
	labels->items[at].value = copy;
	return 0;
}

int labels_copy(struct labels *to, const struct labels *from, struct error *err)
{
	*to = (struct labels){0};
	for (size_t i = 0; i < from->count; i++) {
		int r = insert_at(to, i, from->items[i].name, from->items[i].value, err);
		if (r < 0) {
			labels_release(to);
			return r;
		}
	}
	return 0;
}

int labels_compare(const struct labels *a, const struct labels *b)
{
	for (size_t i = 0; i < a->count && i < b->count; i++) {
		int order = strcmp(a->items[i].name, b->items[i].name) ?: strcmp(a->items[i].value, b->items[i].value);
		if (order != 0)
			return order;
	}
	return ORDER(a->count, b->count);
}

static uint64_t hash_from(const struct labels *labels, uint64_t hash)
{
	for (size_t i = 0; i < labels->count; i++) {
		/* The NULs are hashed too, so that "ab"="c" and "a"="bc" differ. */
		hash = hash64_seed(labels->items[i].name, strlen(labels->items[i].name) + 1, hash);
		hash = hash64_seed(labels->items[i].value, strlen(labels->items[i].value) + 1, hash);
	}
	return hash;
}

uint64_t labels_hash(const struct labels *labels)
{
	return hash_from(labels, labels->count);
}

uint64_t labels_hash_guarded(const struct labels *labels)
{
	return hash_from(labels, hash64_secret() + labels->count);
}

/* ---- text ---- */

int labels_parse_pair(struct labels *labels, const char *text, struct error *err)
{
	const char *equals = strchr(text, '=');
	if (!equals)
		return error_set(err, -EINVAL, "label '%.128s' has no '='; write NAME=VALUE", text);
	_cleanup_(mem_freep) char *name = mem_strndup(text, (size_t)(equals - text));
	if (!name)
		return error_nomem(err);
	return labels_set(labels, name, equals + 1, err);
}

/* ---- labels of samples ---- */

/* A profile's string made fit for a label value: UTF-8 repaired, NUL as a space, cut between characters. */
static int repair_value(struct bytes text, struct buffer *out, struct error *err)
{
	/* A repaired character is at most three times as long as what it stands for, and only the beginning is kept. */
	if (text.len > LIMIT_LABEL_VALUE_BYTES + 3)
		text.len = LIMIT_LABEL_VALUE_BYTES + 3;
	if (text_append_utf8(out, text) < 0)
		return error_nomem(err);
	buffer_truncate(out, text_cut(buffer_bytes(out), LIMIT_LABEL_VALUE_BYTES));
	for (size_t i = 0; i < out->len; i++)
		if (out->data[i] == '\0')
			out->data[i] = ' ';
	return 0;
}

static int set_from_profile(struct labels *labels, const struct profile *profile, const struct profile_label *label,
			    struct error *err)
{
	char name[LIMIT_LABEL_NAME_BYTES];
	label_name_sanitize(profile_string_bytes(profile, label->key), name);
	_cleanup_(buffer_release) struct buffer raw = {.max = SIZE_MAX}, value = {.max = SIZE_MAX};
	struct bytes text = profile_string_bytes(profile, label->value);
	if (label->value == 0 && (label->number != 0 || label->unit != 0)) {
		struct bytes unit = profile_string_bytes(profile, label->unit);
		buffer_printf(&raw, "%" PRId64 "%s", label->number, unit.len > 0 ? " " : "");
		if (buffer_append(&raw, unit.data, unit.len) < 0)
			return error_nomem(err);
		text = buffer_bytes(&raw);
	}
	int r = repair_value(text, &value, err);
	if (r < 0)
		return r;
	const char *value_text = buffer_string(&value);
	return value_text ? labels_set(labels, name, value_text, err) : error_nomem(err);
}

static int set_all(struct labels *labels, const struct profile *profile, uint32_t set_id, struct error *err)
{
	const struct profile_label_set *set = &profile->label_sets[set_id];
	for (uint32_t i = 0; i < set->count; i++) {
		int r = set_from_profile(labels, profile, &profile->labels[set->first + i], err);
		if (r < 0)
			return r;
	}
	return 0;
}

int labels_of_sample(const struct profile *profile, uint32_t label_set, const struct labels *base, struct labels *ret,
		     struct error *err)
{
	_cleanup_(labels_release) struct labels labels = {0};
	*ret = (struct labels){0};
	int r = base ? labels_copy(&labels, base, err) : 0;
	if (r == 0)
		r = set_all(&labels, profile, profile->resource_labels, err);
	if (r == 0)
		r = set_all(&labels, profile, label_set, err);
	if (r < 0)
		return r;
	*ret = labels;
	labels = (struct labels){0};
	return 0;
}
