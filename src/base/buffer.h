/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes that grow up to a stated maximum, and views of bytes. */
#ifndef WICK_BASE_BUFFER_H
#define WICK_BASE_BUFFER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A view: not owned, not terminated. */
struct bytes {
	const uint8_t *data;
	size_t len;
};

struct bytes bytes_of_string(const char *text);
bool bytes_equal(struct bytes a, struct bytes b);
bool bytes_equal_string(struct bytes a, const char *text);
int bytes_compare(struct bytes a, struct bytes b); /* memcmp order, shorter first on a tie */
bool bytes_start_with(struct bytes bytes, const char *prefix);
/* What follows the first `len` of them. No bytes may have no address, to which C does not let even 0 be added. */
static inline struct bytes bytes_skip(struct bytes bytes, size_t len)
{
	return (struct bytes){len ? bytes.data + len : bytes.data, bytes.len - len};
}
/* Takes a line off *rest, which must not be empty: up to a line feed or the end. The line is without its "\n". */
struct bytes bytes_take_line(struct bytes *rest);

struct buffer {
	uint8_t *data; /* owned; NULL while empty */
	size_t len;
	size_t capacity;
	size_t max; /* appending past it fails with -E2BIG */
	int failed; /* the first failure of what appends, 0 = none */
};

void buffer_init(struct buffer *buffer, size_t max);
void buffer_release(struct buffer *buffer); /* frees; the maximum stays and the buffer may be used again */
void buffer_clear(struct buffer *buffer);   /* length 0, keeps the memory */
/* Back to a length that it had before. */
void buffer_truncate(struct buffer *buffer, size_t len);
/*
 * What appends returns 0, -ENOMEM or -E2BIG, and leaves the contents as they are on failure. A buffer remembers its first
 * failure until buffer_clear(), buffer_truncate() or buffer_release(): until then nothing is appended any more and the same is
 * returned. So one may write piece after piece, and ask once at the end.
 */
static inline int buffer_status(const struct buffer *buffer)
{
	return buffer->failed;
}
/* A failure to append for another reason, 0 = none; returns the first one. */
int buffer_fail(struct buffer *buffer, int code);
int buffer_reserve(struct buffer *buffer, size_t more); /* room for `more` bytes behind len */
int buffer_append(struct buffer *buffer, const void *data, size_t len);
int buffer_append_string(struct buffer *buffer, const char *text);
int buffer_append_byte(struct buffer *buffer, uint8_t byte);
int buffer_append_buffer(struct buffer *buffer, const struct buffer *other); /* or fails as the other did */
int buffer_printf(struct buffer *buffer, const char *format, ...) __attribute__((format(printf, 2, 3)));
struct bytes buffer_bytes(const struct buffer *buffer);
/* A NUL behind the contents (not counted in len) and the contents as a string; NULL if there is no memory for the NUL, or if
 * something could not be appended. */
const char *buffer_string(struct buffer *buffer);

#endif
