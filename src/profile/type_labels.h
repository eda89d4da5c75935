/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Labels that no series has, and that stand for its profile type, as Prometheus' __name__ does for a metric's name: Pyroscope's
 * and Parca's clients ask and group by them. And the number that stands for a series.
 */
#ifndef WICK_PROFILE_TYPE_LABELS_H
#define WICK_PROFILE_TYPE_LABELS_H

#include "profile/labels.h"
#include "profile/type.h"

enum type_label {
	TYPE_LABEL_NONE,
	TYPE_LABEL_PROFILE_TYPE, /* __profile_type__: the whole type, without ":delta" in answers, as those clients know it */
	TYPE_LABEL_NAME,	 /* __name__ */
	TYPE_LABEL_TYPE,	 /* __type__ */
	TYPE_LABEL_UNIT,	 /* __unit__ */
	TYPE_LABEL_PERIOD_TYPE,	 /* __period_type__ */
	TYPE_LABEL_PERIOD_UNIT,	 /* __period_unit__ */
	TYPE_LABEL_COUNT,
};
enum type_label type_label_of(const char *name);
const char *type_label_name(enum type_label label); /* NULL for TYPE_LABEL_NONE */
/* What such a label says of a type; NULL for TYPE_LABEL_NONE. */
const char *type_label_value(enum type_label label, const struct profile_type *type, char out[static PROFILE_TYPE_TEXT_MAX]);

/* In conditions a type has several spellings: a condition holds if one of them fits it, its negation if none does.
 * __profile_type__ is the type without ":delta" and with it, if it has one; __name__ is also each of these. Returns how many.
 */
#define TYPE_LABEL_TEXTS_MAX 3
size_t type_label_texts(enum type_label label, const struct profile_type *type, const char *ret[static TYPE_LABEL_TEXTS_MAX],
			char room[static 2][PROFILE_TYPE_TEXT_MAX]);

/* A number for a series, the same on all servers and at all times; absolute and delta values of one name have the same. Labels
 * of the type are passed over. -ENOMEM. */
int series_key(const struct profile_type *type, const struct labels *labels, uint64_t *ret, struct error *err);

#endif
