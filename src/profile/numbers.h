/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The numbers of a sample (profile_sample.numbers) as a text, for tables in which a sample has room for one reference: numeric
 * labels of pprof, such as the size of the objects in a heap profile of Go.
 *
 *   bytes=512                          KEY=NUMBER
 *   latency=30 milliseconds            KEY=NUMBER UNIT
 *   bytes=512,request=7 kilobytes      several, by key, then number, then unit
 *
 * '\\' stands before '=', ',' and '\\' in keys, and before ',' and '\\' in units. Equal numbers give equal texts. "" = none.
 */
#ifndef WICK_PROFILE_NUMBERS_H
#define WICK_PROFILE_NUMBERS_H

#include "base/limits.h"
#include "profile/profile.h"

/* Appends the text of a set to `out`. -E2BIG if it would be longer than LIMIT_NUMBERS_BYTES, -ENOMEM. */
int numbers_format(const struct profile *profile, uint32_t set, struct buffer *out);

/* Reading a text, one number after the other. */
struct numbers_reader {
	struct bytes rest;
	/* The number at hand; views of `room`, valid until the next one is read. */
	struct bytes key, unit;
	int64_t number;
	uint8_t room[LIMIT_NUMBERS_BYTES];
};
void numbers_begin(struct numbers_reader *reader, struct bytes text);
/* 1 = there is one, 0 = no more, -EBADMSG: no such text. */
int numbers_next(struct numbers_reader *reader);

/* The other way round: a label set of what the text says. -EBADMSG, -ENOMEM, -E2BIG. */
int numbers_add_set(struct profile *profile, struct bytes text, uint32_t *ret, struct error *err);

#endif
