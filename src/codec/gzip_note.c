/* SPDX-License-Identifier: Apache-2.0 */
#include "codec/gzip_note.h"

#include <errno.h>
#include <string.h>

#define HEADER_BYTES 10u
#define FLAG_CRC     2u
#define FLAG_EXTRA   4u
#define FLAG_NAME    8u
#define FLAG_COMMENT 16u
#define FLAGS	     31u
#define SUBFIELD     4u /* two letters, a length */

static int bad(struct error *err, const char *why)
{
	return error_set(err, -EBADMSG, "%s", why);
}

static size_t get16(const uint8_t *at)
{
	return (size_t)(at[0] | at[1] << 8);
}

/* Past a text that ends with a NUL; the length when there is none. */
static size_t skip_text(struct bytes gzip, size_t at)
{
	const uint8_t *end = at < gzip.len ? memchr(gzip.data + at, 0, gzip.len - at) : NULL;
	return end ? (size_t)(end - gzip.data) + 1 : gzip.len;
}

int gzip_note_skip(struct bytes gzip, struct bytes *ret_rest, struct error *err)
{
	if (gzip.len < HEADER_BYTES || gzip.data[0] != 0x1f || gzip.data[1] != 0x8b || gzip.data[2] != 8 ||
	    gzip.data[3] & ~FLAGS)
		return bad(err, "not a gzip file");
	size_t at = HEADER_BYTES;
	uint8_t flags = gzip.data[3];
	if (flags & FLAG_EXTRA)
		at = at + 2 > gzip.len ? gzip.len : at + 2 + get16(gzip.data + at);
	if (flags & FLAG_NAME)
		at = skip_text(gzip, at);
	if (flags & FLAG_COMMENT)
		at = skip_text(gzip, at);
	if (flags & FLAG_CRC)
		at += 2;
	if (at >= gzip.len)
		return bad(err, "truncated gzip header");
	*ret_rest = bytes_skip(gzip, at);
	return 0;
}

int gzip_note_write(struct bytes note, struct buffer *out, struct error *err)
{
	size_t len = note.len, field = len + SUBFIELD;
	if (len > GZIP_NOTE_MAX)
		return error_set(err, -EINVAL, "the note is longer than %u bytes", GZIP_NOTE_MAX);
	const uint8_t plain[HEADER_BYTES] = {0x1f, 0x8b, 8, len > 0 ? FLAG_EXTRA : 0, 0, 0, 0, 0, 0, 255};
	const uint8_t extra[2 + SUBFIELD] = {(uint8_t)field, (uint8_t)(field >> 8), 'W', 'k',
					     (uint8_t)len,   (uint8_t)(len >> 8)};
	int r = buffer_append(out, plain, sizeof(plain));
	if (r == 0 && len > 0)
		r = buffer_append(out, extra, sizeof(extra));
	if (r == 0)
		r = buffer_append(out, note.data, len);
	return r == -E2BIG ? error_set(err, r, "the note does not fit into the gzip header") : r < 0 ? error_nomem(err) : 0;
}

int gzip_note_read(struct bytes begin, struct bytes *ret_note, size_t *ret_header, struct error *err)
{
	size_t before = GZIP_NOTE_HEADER(0);
	if (begin.len < before || begin.data[0] != 0x1f || begin.data[1] != 0x8b || begin.data[3] != FLAG_EXTRA ||
	    begin.data[12] != 'W' || begin.data[13] != 'k')
		return bad(err, "the gzip header has no note");
	size_t len = get16(begin.data + HEADER_BYTES + 2 + 2);
	if (get16(begin.data + HEADER_BYTES) != len + SUBFIELD || before + len > begin.len)
		return bad(err, "truncated gzip header");
	*ret_note = (struct bytes){begin.data + before, len};
	*ret_header = before + len;
	return 0;
}
