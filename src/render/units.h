/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Values with units as pprof's reports show them: "1.10s", "62.50MB", "512B", "0". What is known: bytes (powers of 1024), times
 * and Google's compute units; other units are shown as they are, and "count", "sample" and "unit" not at all.
 *
 * The rules are those of google/pprof (internal/measurement), so that numbers in a report of ours and one of its own can be
 * compared character by character: two decimals, none when both are 0; a unit's name in any case, in singular or plural.
 */
#ifndef WICK_RENDER_UNITS_H
#define WICK_RENDER_UNITS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/sum.h"

#define UNITS_TEXT_MAX 96 /* longer texts, of units that nobody knows, are cut */

/* The value of `from` in `to`; "minimum" and "auto" choose the largest unit in which it is at least 1. *ret_unit is the unit's
 * short name, "" for those that are not shown; static, or `to` itself. */
double units_scale(int64_t value, const char *from, const char *to, const char **ret_unit);
bool units_is_known(const char *unit); /* it can be scaled */
/* The unit for values of which the smallest is `low` and the largest `high`: that of the smallest, or a larger one in which it
 * still is 0.01, if `high` is more than a hundred times as large. `from` itself if it cannot be scaled. only_whole: whole
 * numbers are all that can be written. */
const char *units_choose(int64_t low, int64_t high, const char *from, bool only_whole);
const char *units_format(int64_t value, const char *from, const char *to, char out[static UNITS_TEXT_MAX]);
/* " 1.23%", " 0.05%", "  100%": of the magnitudes, six characters wide; 0 of a total of 0. */
const char *units_format_percent(int64_t value, int64_t total, char out[static UNITS_TEXT_MAX]);
/* As a whole number, towards 0; the nearest one where that would not fit. */
int64_t units_whole(double value);
int64_t units_magnitude(int64_t value); /* INT64_MAX for INT64_MIN */
/* For sorting: larger magnitudes first. */
int units_compare(int64_t a, int64_t b);
/* value / divisor; the value itself if there is no divisor (0), or the quotient does not fit. */
int64_t units_mean(int64_t value, int64_t divisor);

#endif
