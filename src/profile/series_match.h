/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which series: conditions on their types and labels, as data and compiled.
 *
 * As data they say all that there is to know, so that a store can turn them into whatever it asks its tables with. Compiled
 * they answer for one type, one value of a label, or one series.
 */
#ifndef WICK_PROFILE_SERIES_MATCH_H
#define WICK_PROFILE_SERIES_MATCH_H

#include "profile/labels.h"
#include "profile/pattern.h"
#include "profile/type.h"

/* A condition on profile types. */
#define TYPE_CONDITION_PARTS 5
struct type_condition {
	const char *parts[TYPE_CONDITION_PARTS]; /* name, sample type and unit, period type and unit; NULL = any */
	enum type_delta { TYPE_DELTA_ANY, TYPE_DELTA_YES, TYPE_DELTA_NO } delta;
};
/* For exactly this type, to which it points. */
struct type_condition type_condition_of(const struct profile_type *type);

/*
 * A condition on one label. An absent label has the value "". A label that stands for the type (profile/type_labels.h) is that
 * of the type, in any of its spellings there. Regular expressions must match the whole value.
 */
struct label_condition {
	const char *label;
	enum pattern_operator op;
	const char *text;
	/* Instead of text, for PATTERN_EQUAL (one of them) and PATTERN_NOT_EQUAL (none of them); NULL = text counts. */
	const char *const *texts;
	size_t text_count;
	/* Of a series that lacks the label, another label decides instead; NULL = then the value is "". */
	const struct label_fallback *fallback;
};
/* The other label's value must be one of these; with `negate` none of them. */
struct label_fallback {
	const char *label;
	bool negate;
	const char *const *texts;
	size_t text_count;
};

/* All of them must hold; zeros are all series. */
struct series_conditions {
	const struct type_condition *types;
	size_t type_count;
	const struct label_condition *labels;
	size_t label_count;
	const uint64_t *keys; /* the series is one of these, by series_key() */
	size_t key_count;     /* 0 = no condition */
};

/* Compiled. What it answers is thread-safe. */
struct series_matcher;
/* -EINVAL: a bad expression, or texts with another operator. Copies all of the conditions. */
int series_matcher_new(const struct series_conditions *conditions, struct series_matcher **ret, struct error *err);
struct series_matcher *series_matcher_free(struct series_matcher *matcher);
DEFINE_CLEANUP_POINTER(series_matcher_free, struct series_matcher);

/* Whether all conditions on types hold, those on labels of the type among them. */
bool series_matcher_finds_type(const struct series_matcher *matcher, const struct profile_type *type);
bool series_matcher_asks_types(const struct series_matcher *matcher); /* there is such a condition */
/* The other conditions on labels, one by one. */
size_t series_matcher_label_count(const struct series_matcher *matcher);
const char *series_matcher_label(const struct series_matcher *matcher, size_t index);
bool series_matcher_finds_value(const struct series_matcher *matcher, size_t index, const char *value);
/* The label that decides where this one is absent, and what it decides by its value, which may be ""; NULL = "" does, as above.
 */
const char *series_matcher_fallback(const struct series_matcher *matcher, size_t index);
bool series_matcher_finds_fallback(const struct series_matcher *matcher, size_t index, const char *value);
/* Whether the series is one of the keys. Without keys all are; it is asked after the other conditions, for it costs more. */
bool series_matcher_asks_keys(const struct series_matcher *matcher);
bool series_matcher_finds_key(const struct series_matcher *matcher, const struct profile_type *type,
			      const struct labels *labels);
/* All of it at once. */
bool series_matcher_finds(const struct series_matcher *matcher, const struct profile_type *type, const struct labels *labels);
/* 0, or negative when an answer above was none: an expression took too long (-EINVAL), no memory. */
int series_matcher_failure(const struct series_matcher *matcher, struct error *err);

#endif
