/* SPDX-License-Identifier: Apache-2.0 */
/* Notes in headers of gzip files: zlib, which knows of them by the RFC, reads the same ones, and unpacks the files. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>

#include <errno.h>
#include <string.h>
#include <zlib.h>

#include "codec/compress.h"
#include "codec/gzip_note.h"

#define TEXT "what is in the file, what is in the file, what is in the file"

/* A file with the note, made of a plain one. */
static void make(struct buffer *out, struct bytes note)
{
	_cleanup_(buffer_release) struct buffer plain = {0};
	struct bytes rest;
	buffer_init(&plain, SIZE_MAX);
	buffer_init(out, SIZE_MAX);
	assert_int_equal(gzip_compress(bytes_of_string(TEXT), 6, &plain, NULL), 0);
	assert_int_equal(gzip_note_skip(buffer_bytes(&plain), &rest, NULL), 0);
	assert_int_equal(gzip_note_write(note, out, NULL), 0);
	assert_int_equal(out->len, note.len > 0 ? GZIP_NOTE_HEADER(note.len) : 10);
	assert_int_equal(buffer_append(out, rest.data, rest.len), 0);
}

static void test_zlib_agrees(void **state)
{
	static uint8_t long_note[GZIP_NOTE_MAX];
	memset(long_note, 'n', sizeof(long_note));
	const struct bytes notes[] = {{0}, {(const uint8_t *)"{}", 2}, {long_note, 1000}, {long_note, sizeof(long_note)}};
	static uint8_t extra[1 << 16];
	for (size_t i = 0; i < sizeof(notes) / sizeof(*notes); i++) {
		_cleanup_(buffer_release) struct buffer file = {0};
		char text[sizeof(TEXT)] = "";
		make(&file, notes[i]);
		gz_header header = {.extra = extra, .extra_max = sizeof(extra)};
		z_stream stream = {
			.next_in = file.data, .avail_in = (uInt)file.len, .next_out = (Bytef *)text, .avail_out = sizeof(text)};
		assert_int_equal(inflateInit2(&stream, 16 + MAX_WBITS), Z_OK);
		assert_int_equal(inflateGetHeader(&stream, &header), Z_OK);
		assert_int_equal(inflate(&stream, Z_FINISH), Z_STREAM_END);
		assert_string_equal(text, TEXT);
		assert_int_equal(header.done, 1);
		inflateEnd(&stream);
		if (notes[i].len == 0)
			continue;
		assert_int_equal(header.extra_len, notes[i].len + 4);
		assert_memory_equal(extra, "Wk", 2);
		assert_memory_equal(extra + 4, notes[i].data, notes[i].len);
	}
	struct buffer none;
	buffer_init(&none, SIZE_MAX);
	assert_int_equal(gzip_note_write((struct bytes){long_note, GZIP_NOTE_MAX + 1}, &none, NULL), -EINVAL);
}

static void test_read(void **state)
{
	_cleanup_(buffer_release) struct buffer file = {0};
	struct bytes note, rest;
	size_t header;
	make(&file, bytes_of_string("a note"));
	assert_int_equal(gzip_note_read(buffer_bytes(&file), &note, &header, NULL), 0);
	assert_true(bytes_equal_string(note, "a note"));
	assert_int_equal(header, GZIP_NOTE_HEADER(6));
	assert_int_equal(gzip_note_skip(buffer_bytes(&file), &rest, NULL), 0);
	assert_ptr_equal(rest.data, file.data + header);
	for (size_t len = 0; len <= header; len++) { /* cut anywhere; the rest may be missing for one of the two */
		int r = gzip_note_read((struct bytes){file.data, len}, &note, &header, NULL);
		assert_int_equal(r, len < GZIP_NOTE_HEADER(6) ? -EBADMSG : 0);
		assert_int_equal(gzip_note_skip((struct bytes){file.data, len}, &rest, NULL), -EBADMSG);
	}
	file.data[12] = 'X'; /* somebody else's */
	assert_int_equal(gzip_note_read(buffer_bytes(&file), &note, &header, NULL), -EBADMSG);
	assert_int_equal(gzip_note_skip(buffer_bytes(&file), &rest, NULL), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_zlib_agrees), cmocka_unit_test(test_read)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
