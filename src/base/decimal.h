/* SPDX-License-Identifier: Apache-2.0 */
/* Private to src/base: decimal numbers with a fraction, kept exact until the unit behind them is known. Through a double,
 * "1700000000.123456789" would lose its last digits. */
#ifndef WICK_BASE_DECIMAL_H
#define WICK_BASE_DECIMAL_H

#include <stdbool.h>
#include <stdint.h>

struct decimal {
	uint64_t whole;
	uint64_t fraction; /* in units of 10^-18; digits beyond are dropped */
	unsigned whole_digits;
	bool has_fraction;
};

/* Reads "12" or "12.5" at *at and moves *at behind it. False if there is none, if a digit is missing before or behind the
 * point, or if the whole part does not fit. */
bool decimal_scan(const char **at, struct decimal *ret);
/* decimal * unit, rounded down; false when it does not fit. */
bool decimal_scale(struct decimal decimal, uint64_t unit, uint64_t *ret);

#endif
