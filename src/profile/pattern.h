/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One comparison with a text: equal or by regular expression, and their negations.
 *
 * Regular expressions are PCRE2 in UTF mode, compiled to machine code where that is possible, with limits on the steps and the
 * memory of one match, because both pattern and text come from outside. A match that passes a limit is no answer: it is
 * remembered (pattern_failure) and the query fails instead of leaving samples out.
 */
#ifndef WICK_PROFILE_PATTERN_H
#define WICK_PROFILE_PATTERN_H

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"

enum pattern_operator { PATTERN_EQUAL, PATTERN_NOT_EQUAL, PATTERN_REGEX, PATTERN_NOT_REGEX };
static inline bool pattern_operator_is_negative(enum pattern_operator op)
{
	return op == PATTERN_NOT_EQUAL || op == PATTERN_NOT_REGEX;
}
static inline bool pattern_operator_is_regex(enum pattern_operator op)
{
	return op == PATTERN_REGEX || op == PATTERN_NOT_REGEX;
}

struct pattern_code; /* a compiled expression */
struct pattern {
	enum pattern_operator op;
	char *value; /* owned */
	size_t len;
	struct pattern_code *code; /* NULL unless op is one of the regular expressions */
};
/* Takes over value, also on failure. anchored: the expression must match the whole text. Messages start with what, if it is not
 * empty, and name the subject. */
int pattern_init(struct pattern *pattern, enum pattern_operator op, char *value, bool anchored, const char *what,
		 const char *subject, struct error *err);
void pattern_release(struct pattern *pattern);
/* What pattern_init() would say of a text, without a pattern for it. */
int pattern_check(enum pattern_operator op, const char *value, bool anchored, const char *what, const char *subject,
		  struct error *err);
/* Without the negation of the operator. Thread-safe. */
bool pattern_finds(const struct pattern *pattern, const void *text, size_t len);
bool pattern_matches(const struct pattern *pattern, const void *text, size_t len);
/* 0, or -EINVAL when a match gave no answer because it passed a limit. */
int pattern_failure(const struct pattern *pattern, struct error *err);

#endif
