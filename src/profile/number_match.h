/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Conditions on the numbers of samples, and what units these are in.
 *
 * A number without a unit is in the unit of its key's name, as pprof has it ("bytes" of a heap profile of Go), of `request` and
 * `alignment` in bytes. Numbers are compared across units of bytes and of time; all other units are only equal to themselves.
 */
#ifndef WICK_PROFILE_NUMBER_MATCH_H
#define WICK_PROFILE_NUMBER_MATCH_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buffer.h"

enum number_unit_kind { NUMBER_UNIT_NONE, NUMBER_UNIT_BYTES, NUMBER_UNIT_TIME, NUMBER_UNIT_OTHER };
struct number_unit {
	enum number_unit_kind kind;
	int64_t factor;	   /* to bytes, or to nanoseconds; else 1 */
	struct bytes name; /* of NUMBER_UNIT_OTHER; in any case of letters */
};
/* "kb", "KiB", "milliseconds" ...; the name points into text. */
struct number_unit number_unit_of(struct bytes text);
/* Whether numbers of this key are in bytes although nothing says so: "request" and "alignment". */
bool number_key_is_bytes(struct bytes key);

/* Holds for samples that have a number of this key within both bounds, both included. */
struct number_bound {
	bool given;
	int64_t number;
	struct number_unit unit; /* NUMBER_UNIT_NONE: numbers are compared whatever their unit */
};
struct number_condition {
	bool negate;  /* samples for which the rest does not hold */
	bool none;    /* samples without numbers; nothing below is looked at */
	bool has_key; /* else any will do */
	struct bytes key;
	struct number_bound low, high;
};
/* numbers: the text of a set (profile/numbers.h). Thread-safe. */
bool number_condition_matches(const struct number_condition *condition, struct bytes numbers);

#endif
