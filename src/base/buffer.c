// SPDX-License-Identifier: Apache-2.0
#include "base/buffer.h"

#include <assert.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/budget.h"

#define CAPACITY_FIRST 64

struct bytes bytes_of_string(const char *text)
{
	return (struct bytes){(const uint8_t *)text, strlen(text)};
}

bool bytes_equal(struct bytes a, struct bytes b)
{
	return a.len == b.len && (a.len == 0 || !memcmp(a.data, b.data, a.len));
}

bool bytes_equal_string(struct bytes a, const char *text)
{
	return bytes_equal(a, bytes_of_string(text));
}

int bytes_compare(struct bytes a, struct bytes b)
{
	size_t shared = a.len < b.len ? a.len : b.len;
	int order = shared ? memcmp(a.data, b.data, shared) : 0;
	if (order)
		return order < 0 ? -1 : 1;
	return (a.len > b.len) - (a.len < b.len);
}

bool bytes_start_with(struct bytes bytes, const char *prefix)
{
	size_t len = strlen(prefix);
	return bytes.len >= len && (len == 0 || !memcmp(bytes.data, prefix, len));
}

struct bytes bytes_take_line(struct bytes *rest)
{
	const uint8_t *end = memchr(rest->data, '\n', rest->len);
	struct bytes line = {rest->data, end ? (size_t)(end - rest->data) : rest->len};
	*rest = bytes_skip(*rest, line.len + (end != NULL));
	return line;
}

void buffer_init(struct buffer *buffer, size_t max)
{
	*buffer = (struct buffer){.max = max};
}

void buffer_release(struct buffer *buffer)
{
	buffer->data = mem_free(buffer->data);
	buffer->capacity = 0;
	buffer_clear(buffer);
}

void buffer_clear(struct buffer *buffer)
{
	buffer_truncate(buffer, 0);
}

void buffer_truncate(struct buffer *buffer, size_t len)
{
	assert(len <= buffer->len);
	buffer->len = len;
	buffer->failed = 0;
}

int buffer_fail(struct buffer *buffer, int code)
{
	if (!buffer->failed)
		buffer->failed = code;
	return buffer->failed;
}

/* The capacity may pass `max` by one byte: the NUL of buffer_string() and buffer_printf() is not contents. */
static int grow(struct buffer *buffer, size_t need)
{
	if (need <= buffer->capacity)
		return 0;
	size_t limit = buffer->max == SIZE_MAX ? SIZE_MAX : buffer->max + 1;
	size_t capacity = buffer->capacity > limit / 2 ? limit : buffer->capacity * 2;
	if (capacity < CAPACITY_FIRST)
		capacity = CAPACITY_FIRST;
	if (capacity > limit)
		capacity = limit;
	if (capacity < need)
		capacity = need;
	uint8_t *data = mem_realloc_array(buffer->data, capacity, 1);
	if (!data)
		return buffer_fail(buffer, -ENOMEM);
	buffer->data = data;
	buffer->capacity = capacity;
	return 0;
}

static bool passes_max(const struct buffer *buffer, size_t more)
{
	return buffer->len > buffer->max || more > buffer->max - buffer->len;
}

int buffer_reserve(struct buffer *buffer, size_t more)
{
	if (buffer->failed)
		return buffer->failed;
	/* Whoever writes an answer comes by here. */
	if (budget_poll())
		return buffer_fail(buffer, -ENOMEM);
	if (passes_max(buffer, more))
		return buffer_fail(buffer, -E2BIG);
	return grow(buffer, buffer->len + more);
}

int buffer_append(struct buffer *buffer, const void *data, size_t len)
{
	int r = buffer_reserve(buffer, len);
	if (r < 0)
		return r;
	if (len > 0)
		memcpy(buffer->data + buffer->len, data, len);
	buffer->len += len;
	return 0;
}

int buffer_append_string(struct buffer *buffer, const char *text)
{
	return buffer_append(buffer, text, strlen(text));
}

int buffer_append_buffer(struct buffer *buffer, const struct buffer *other)
{
	return other->failed ? buffer_fail(buffer, other->failed) : buffer_append(buffer, other->data, other->len);
}

int buffer_append_byte(struct buffer *buffer, uint8_t byte)
{
	int r = buffer_reserve(buffer, 1);
	if (r < 0)
		return r;
	buffer->data[buffer->len++] = byte;
	return 0;
}

static int __attribute__((format(printf, 2, 0))) format_at_end(struct buffer *buffer, const char *format, va_list args)
{
	size_t room = buffer->capacity - buffer->len;
	return vsnprintf(room ? (char *)buffer->data + buffer->len : NULL, room, format, args);
}

int buffer_printf(struct buffer *buffer, const char *format, ...)
{
	va_list args;
	if (buffer->failed)
		return buffer->failed;
	if (budget_poll())
		return buffer_fail(buffer, -ENOMEM);
	va_start(args, format);
	int len = format_at_end(buffer, format, args);
	va_end(args);
	if (len < 0)
		return buffer_fail(buffer, -ENOMEM);
	if (passes_max(buffer, (size_t)len))
		return buffer_fail(buffer, -E2BIG);
	if ((size_t)len >= buffer->capacity - buffer->len) {
		int r = grow(buffer, buffer->len + (size_t)len + 1);
		if (r < 0)
			return r;
		va_start(args, format);
		len = format_at_end(buffer, format, args);
		va_end(args);
		if (len < 0)
			return buffer_fail(buffer, -ENOMEM);
	}
	buffer->len += (size_t)len;
	return 0;
}

struct bytes buffer_bytes(const struct buffer *buffer)
{
	return (struct bytes){buffer->data, buffer->len};
}

const char *buffer_string(struct buffer *buffer)
{
	if (buffer->failed || buffer->len == SIZE_MAX || grow(buffer, buffer->len + 1) < 0)
		return NULL;
	buffer->data[buffer->len] = '\0';
	return (const char *)buffer->data;
}
