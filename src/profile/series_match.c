/* SPDX-License-Identifier: Apache-2.0 */
#include "profile/series_match.h"

#include <errno.h>
#include <stdatomic.h>
#include <string.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/order.h"
#include "base/sorted.h"
#include "profile/type_labels.h"

struct text_list {
	const char **items; /* sorted */
	size_t count;
};
struct compiled_label {
	const char *name;
	enum type_label type_label; /* not TYPE_LABEL_NONE: a condition on the type */
	struct pattern pattern;
	struct text_list texts; /* instead of the pattern; NULL = the pattern counts */
	const char *fallback;	/* NULL = none */
	bool fallback_negate;
	struct text_list fallback_texts;
};
struct series_matcher {
	struct arena texts;
	struct type_condition *types;
	size_t type_count;
	struct compiled_label *labels; /* those of the type last */
	size_t label_count, plain_count;
	uint64_t *keys;
	size_t key_count;
	atomic_bool *out_of_memory; /* an answer of the keys was none */
};

struct type_condition type_condition_of(const struct profile_type *type)
{
	return (struct type_condition){
		.parts = {type->name, type->sample_type, type->sample_unit, type->period_type, type->period_unit},
		.delta = type->delta ? TYPE_DELTA_YES : TYPE_DELTA_NO};
}

/* ---- compiling ---- */

static const char *copy_text(struct series_matcher *matcher, const char *text)
{
	return arena_strndup(&matcher->texts, text, strlen(text));
}

static int copy_type(struct series_matcher *matcher, const struct type_condition *from, struct error *err)
{
	struct type_condition *to = &matcher->types[matcher->type_count];
	to->delta = from->delta;
	for (size_t i = 0; i < TYPE_CONDITION_PARTS; i++) {
		to->parts[i] = from->parts[i] ? copy_text(matcher, from->parts[i]) : NULL;
		if (from->parts[i] && !to->parts[i])
			return error_nomem(err);
	}
	matcher->type_count++;
	return 0;
}

DEFINE_ORDER(compare_texts, char *const, strcmp(*a, *b));

/* There may be as many as there are hosts. */
static int copy_list(struct series_matcher *matcher, struct text_list *to, const char *const *texts, size_t count,
		     struct error *err)
{
	to->items = mem_alloc_array(count, sizeof(*to->items));
	if (!to->items)
		return error_nomem(err);
	for (size_t i = 0; i < count; i++) {
		to->items[i] = copy_text(matcher, texts[i]);
		if (!to->items[i])
			return error_nomem(err);
		to->count++;
	}
	sort_array(to->items, to->count, compare_texts);
	return 0;
}

static bool has_text(const struct text_list *list, const char *text)
{
	return sorted_find_name(list->items, list->count, text) != NULL;
}

static int copy_texts(struct series_matcher *matcher, struct compiled_label *to, const struct label_condition *from,
		      struct error *err)
{
	if (pattern_operator_is_regex(from->op))
		return error_set(err, -EINVAL, "a list of values of %s cannot be compared by regular expression", from->label);
	to->pattern.op = from->op;
	return copy_list(matcher, &to->texts, from->texts, from->text_count, err);
}

static int copy_fallback(struct series_matcher *matcher, struct compiled_label *to, const struct label_fallback *from,
			 struct error *err)
{
	to->fallback = copy_text(matcher, from->label);
	to->fallback_negate = from->negate;
	return to->fallback ? copy_list(matcher, &to->fallback_texts, from->texts, from->text_count, err) : error_nomem(err);
}

static int copy_label(struct series_matcher *matcher, const struct label_condition *from, struct error *err)
{
	struct compiled_label *to = &matcher->labels[matcher->label_count++]; /* counted now: a failure frees it */
	to->name = copy_text(matcher, from->label);
	to->type_label = type_label_of(from->label);
	if (!to->name)
		return error_nomem(err);
	int r = from->fallback ? copy_fallback(matcher, to, from->fallback, err) : 0;
	if (r < 0)
		return r;
	if (from->texts)
		return copy_texts(matcher, to, from, err);
	char *text = mem_strdup(from->text);
	return text ? pattern_init(&to->pattern, from->op, text, true, "selector", from->label, err) : error_nomem(err);
}

static int copy_labels(struct series_matcher *matcher, const struct series_conditions *conditions, bool of_type,
		       struct error *err)
{
	int r = 0;
	for (size_t i = 0; r == 0 && i < conditions->label_count; i++)
		if ((type_label_of(conditions->labels[i].label) != TYPE_LABEL_NONE) == of_type)
			r = copy_label(matcher, &conditions->labels[i], err);
	return r;
}

static int copy_all(struct series_matcher *matcher, const struct series_conditions *conditions, struct error *err)
{
	int r = 0;
	matcher->types = mem_zalloc_array(conditions->type_count, sizeof(*matcher->types));
	matcher->labels = mem_zalloc_array(conditions->label_count, sizeof(*matcher->labels));
	matcher->keys = mem_zalloc_array(conditions->key_count, sizeof(*matcher->keys));
	matcher->out_of_memory = mem_zalloc(sizeof(*matcher->out_of_memory));
	if (!matcher->types || !matcher->labels || !matcher->keys || !matcher->out_of_memory)
		return error_nomem(err);
	for (size_t i = 0; r == 0 && i < conditions->type_count; i++)
		r = copy_type(matcher, &conditions->types[i], err);
	if (r == 0)
		r = copy_labels(matcher, conditions, false, err);
	matcher->plain_count = matcher->label_count;
	if (r == 0)
		r = copy_labels(matcher, conditions, true, err);
	for (size_t i = 0; i < conditions->key_count; i++)
		matcher->keys[i] = conditions->keys[i];
	matcher->key_count = conditions->key_count;
	return r;
}

int series_matcher_new(const struct series_conditions *conditions, struct series_matcher **ret, struct error *err)
{
	struct series_matcher *matcher = mem_zalloc(sizeof(*matcher));
	if (!matcher)
		return error_nomem(err);
	arena_init(&matcher->texts, SIZE_MAX);
	int r = copy_all(matcher, conditions, err);
	if (r < 0) {
		series_matcher_free(matcher);
		return r;
	}
	*ret = matcher;
	return 0;
}

struct series_matcher *series_matcher_free(struct series_matcher *matcher)
{
	if (!matcher)
		return NULL;
	for (size_t i = 0; i < matcher->label_count; i++) {
		pattern_release(&matcher->labels[i].pattern);
		mem_free(matcher->labels[i].texts.items);
		mem_free(matcher->labels[i].fallback_texts.items);
	}
	mem_free(matcher->types);
	mem_free(matcher->labels);
	mem_free(matcher->keys);
	mem_free(matcher->out_of_memory);
	arena_release(&matcher->texts);
	return mem_free(matcher);
}

/* ---- asking ---- */

/* Without the negation of the operator. */
static bool finds_text(const struct compiled_label *label, const char *text)
{
	return label->texts.items ? has_text(&label->texts, text) : pattern_finds(&label->pattern, text, strlen(text));
}

static bool finds_in_type(const struct compiled_label *label, const struct profile_type *type)
{
	char room[2][PROFILE_TYPE_TEXT_MAX];
	const char *texts[TYPE_LABEL_TEXTS_MAX];
	size_t count = type_label_texts(label->type_label, type, texts, room);
	bool found = false;
	for (size_t i = 0; i < count && !found; i++)
		found = finds_text(label, texts[i]);
	return found != pattern_operator_is_negative(label->pattern.op);
}

static bool type_fits(const struct type_condition *condition, const struct profile_type *type)
{
	const char *parts[] = {type->name, type->sample_type, type->sample_unit, type->period_type, type->period_unit};
	for (size_t i = 0; i < TYPE_CONDITION_PARTS; i++)
		if (condition->parts[i] && strcmp(condition->parts[i], parts[i]) != 0)
			return false;
	return condition->delta == TYPE_DELTA_ANY || type->delta == (condition->delta == TYPE_DELTA_YES);
}

bool series_matcher_finds_type(const struct series_matcher *matcher, const struct profile_type *type)
{
	for (size_t i = 0; i < matcher->type_count; i++)
		if (!type_fits(&matcher->types[i], type))
			return false;
	for (size_t i = matcher->plain_count; i < matcher->label_count; i++)
		if (!finds_in_type(&matcher->labels[i], type))
			return false;
	return true;
}

bool series_matcher_asks_types(const struct series_matcher *matcher)
{
	return matcher->type_count > 0 || matcher->label_count > matcher->plain_count;
}

size_t series_matcher_label_count(const struct series_matcher *matcher)
{
	return matcher->plain_count;
}

const char *series_matcher_label(const struct series_matcher *matcher, size_t index)
{
	return matcher->labels[index].name;
}

bool series_matcher_finds_value(const struct series_matcher *matcher, size_t index, const char *value)
{
	const struct compiled_label *label = &matcher->labels[index];
	return finds_text(label, value) != pattern_operator_is_negative(label->pattern.op);
}

const char *series_matcher_fallback(const struct series_matcher *matcher, size_t index)
{
	return matcher->labels[index].fallback;
}

bool series_matcher_finds_fallback(const struct series_matcher *matcher, size_t index, const char *value)
{
	const struct compiled_label *label = &matcher->labels[index];
	return has_text(&label->fallback_texts, value) != label->fallback_negate;
}

/* What an absent label comes to. */
static bool finds_absent(const struct series_matcher *matcher, size_t index, const struct labels *labels)
{
	const char *fallback = matcher->labels[index].fallback, *value = fallback ? labels_get(labels, fallback) : NULL;
	return fallback ? series_matcher_finds_fallback(matcher, index, value ? value : "")
			: series_matcher_finds_value(matcher, index, "");
}

bool series_matcher_asks_keys(const struct series_matcher *matcher)
{
	return matcher->key_count > 0;
}

bool series_matcher_finds_key(const struct series_matcher *matcher, const struct profile_type *type,
			      const struct labels *labels)
{
	uint64_t key;
	if (!matcher->key_count)
		return true;
	if (series_key(type, labels, &key, NULL) < 0) {
		atomic_store(matcher->out_of_memory, true);
		return false;
	}
	for (size_t i = 0; i < matcher->key_count; i++)
		if (matcher->keys[i] == key)
			return true;
	return false;
}

bool series_matcher_finds(const struct series_matcher *matcher, const struct profile_type *type, const struct labels *labels)
{
	if (!series_matcher_finds_type(matcher, type))
		return false;
	for (size_t i = 0; i < matcher->plain_count; i++) {
		const char *value = labels_get(labels, matcher->labels[i].name);
		if (!(value ? series_matcher_finds_value(matcher, i, value) : finds_absent(matcher, i, labels)))
			return false;
	}
	return series_matcher_finds_key(matcher, type, labels);
}

int series_matcher_failure(const struct series_matcher *matcher, struct error *err)
{
	int r = atomic_load(matcher->out_of_memory) ? error_nomem(err) : 0;
	for (size_t i = 0; r == 0 && i < matcher->label_count; i++)
		r = pattern_failure(&matcher->labels[i].pattern, err);
	return r;
}
