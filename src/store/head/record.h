/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The payload of one log record of versions 1 to 3: everything that one append stores, so that replaying it gives the same head
 * again. Essay at the top of record.c. What is written since is delta.h.
 */
#ifndef WICK_STORE_HEAD_RECORD_H
#define WICK_STORE_HEAD_RECORD_H

#include "store/store.h"

#define RECORD_BYTES_MAX (256u * 1024 * 1024) /* of a payload, compressed or not */

/* Whether all strings are UTF-8. */
bool record_is_clean(const struct profile *profile);
/* Appends the payload, not compressed. Strings that are not UTF-8 are written repaired; then *ret_repaired is true, and the
 * caller must store what record_decode() gives, not the profile, so that head, log and blocks agree. -E2BIG past out->max. */
int record_encode(const struct profile *profile, const struct store_append_options *options, struct buffer *out,
		  bool *ret_repaired, struct error *err);

struct record {
	struct profile *profile; /* for reading and copying from only: nothing can be added to it */
	struct labels labels;
	char *name; /* NULL = none */
	int64_t received_ns, least_ns, most_ns;
	uint8_t id[16];
};
/* -EBADMSG when malformed, -ENOTSUP for a newer version. */
int record_decode(struct bytes payload, struct record *ret, struct error *err);
void record_release(struct record *record);
/* The options of the append; views of the record. */
struct store_append_options record_options(const struct record *record);

#endif
