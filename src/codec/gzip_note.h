/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A note of ours in the header of a gzip file: the extra field that gzip (RFC 1952, 2.3.1.1) has for such things, subfield
 * "Wk". Every program that unpacks the file passes over it, and who wants to know what a file is need not unpack it.
 */
#ifndef WICK_CODEC_GZIP_NOTE_H
#define WICK_CODEC_GZIP_NOTE_H

#include "base/buffer.h"
#include "base/error.h"

/* Of a note, and of a header with one: 10 bytes, the field's length (2), the subfield's letters and length (4), the note. */
#define GZIP_NOTE_MAX	    65531u
#define GZIP_NOTE_HEADER(n) (10u + 2u + 4u + (n))

/* Appends the header of a gzip file: with this note, or without one if it is empty. What gzip_note_skip() leaves of another
 * file makes it whole. -EINVAL: a longer note; -ENOMEM, -E2BIG. */
int gzip_note_write(struct bytes note, struct buffer *out, struct error *err);
/* The note in a header that gzip_note_write() wrote, a view of `begin`, and the bytes of that header. `begin` is the beginning
 * of a file, all of the header if that is as long. -EBADMSG: no such header, or a part of one. */
int gzip_note_read(struct bytes begin, struct bytes *ret_note, size_t *ret_header, struct error *err);
/* What is behind the header of any gzip file, a view of it. -EBADMSG: no gzip, or nothing behind the header. */
int gzip_note_skip(struct bytes gzip, struct bytes *ret_rest, struct error *err);

#endif
