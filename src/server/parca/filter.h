/* SPDX-License-Identifier: Apache-2.0 */
/* Which stacks and frames of a profile a request of Parca's clients wants. Essay at the top of filter.c. */
#ifndef WICK_SERVER_PARCA_FILTER_H
#define WICK_SERVER_PARCA_FILTER_H

#include "base/cancel.h"
#include "profile/profile.h"

#define PARCA_FILTERS_MAX  64
#define PARCA_BINARIES_MAX 1000u /* of BinaryFrameFilters, together */

/* The numbers of StringCondition's fields, and of the first two of NumberCondition's. */
enum parca_condition_kind {
	PARCA_NO_CONDITION,
	PARCA_EQUAL,
	PARCA_NOT_EQUAL,
	PARCA_CONTAINS,
	PARCA_NOT_CONTAINS,
	PARCA_STARTS_WITH,
	PARCA_NOT_STARTS_WITH,
	PARCA_CONDITIONS,
};
/* The numbers of FilterCriteria's fields. */
enum parca_criterion {
	PARCA_FUNCTION = 1,
	PARCA_SYSTEM_NAME,
	PARCA_BINARY,
	PARCA_FILE,
	PARCA_ADDRESS,
	PARCA_LINE,
	PARCA_CRITERIA,
};
/* One condition on frames; all conditions of a request must hold. Texts are views of the request. */
struct parca_filter {
	bool of_stack; /* it decides about samples, else about single frames */
	enum parca_criterion criterion;
	enum parca_condition_kind kind;
	struct bytes text;
	uint64_t number;
	struct bytes any_of; /* BinaryFrameFilter: the message, whose field 1 lists texts; instead of `text` */
};
struct parca_filters {
	struct parca_filter items[PARCA_FILTERS_MAX];
	size_t count, binary_count;
	const char
		*sandwich; /* a function's name: stacks go from it to the leaf or, inverted, to the root; "" = whole stacks */
	bool invert;	   /* the leaf becomes the root */
};
/* Reads the repeated field `number` of a request, of parca.query.v1alpha1.Filter. -EBADMSG; -EINVAL: too many filters, or
 * binaries in them. */
int parca_filters_read(struct bytes request, uint32_t number, struct parca_filters *ret, struct error *err);
/* One more: stacks with a function whose name contains this text. */
int parca_filters_add_function(struct parca_filters *filters, const char *text, struct error *err);
/*
 * Changes the profile, which is the caller's own: samples that no filter wants are gone, and *ret_filtered is the sum of their
 * values, of the last sample type; the others have stacks of what is left of their frames, perhaps none. Samples whose stacks
 * became equal stay apart, and entries that no sample uses any more stay in the tables. cancel: NULL = never. -ECANCELED,
 * -E2BIG, -ENOMEM.
 */
int parca_filters_apply(const struct parca_filters *filters, struct profile *profile, const atomic_bool *cancel,
			int64_t *ret_filtered, struct error *err);

#endif
