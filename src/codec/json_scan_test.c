/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fault.h"
#include "base/io.h"
#include "codec/compress.h"
#include "codec/json_scan.h"
#include "codec/test_compress.h"

#define WINDOW (256 * 1024)

static struct input *input_of(struct bytes text)
{
	struct input *input;
	int fd = input_make_nameless(NULL);
	assert_true(fd >= 0);
	assert_int_equal(io_write(fd, text.data, text.len, "x", NULL), 0);
	assert_int_equal(input_from_fd(fd, "x", UINT64_MAX, &input, NULL), 0);
	return input;
}

static int append(void *context, struct bytes bytes, struct error *err)
{
	(void)err;
	return buffer_append(context, bytes.data, bytes.len);
}

/* Skips all of it, and copies it. */
static int skip_all(struct bytes text, struct buffer *copy, struct error *err)
{
	struct input *input = input_of(text);
	struct json_scan scan;
	assert_int_equal(json_scan_init(&scan, input, err), 0);
	json_scan_set_sink(&scan, append, copy);
	json_scan_copy(&scan, true);
	json_scan_skip(&scan);
	int r = json_scan_finish(&scan);
	json_scan_release(&scan);
	input_free(input);
	return r;
}

/* What is in memory is read as a file is: packed or not, once more, up to its limit. */
static void test_memory(void **state)
{
	static const char text[] = "{\"a\":[1,2,3]}";
	struct buffer packed;
	struct bytes sources[2] = {bytes_of_string(text)};
	(void)state;
	buffer_init(&packed, 1 << 20);
	assert_int_equal(gzip_compress(sources[0], 1, &packed, NULL), 0);
	sources[1] = buffer_bytes(&packed);
	for (int i = 0; i < 2; i++) {
		for (size_t max = strlen(text) - 1; max <= strlen(text); max++) {
			_cleanup_(input_freep) struct input *input = NULL;
			assert_int_equal(input_from_bytes(sources[i], "x", max, &input, NULL), 0);
			for (int again = 0; again < 2; again++) {
				struct json_scan scan;
				assert_int_equal(json_scan_init(&scan, input, NULL), 0);
				json_scan_skip(&scan);
				assert_int_equal(json_scan_finish(&scan), max < strlen(text) ? -E2BIG : 0);
				json_scan_release(&scan);
			}
		}
		for (size_t len = 0; len < sources[i].len; len++) {
			_cleanup_(input_freep) struct input *input = NULL;
			struct json_scan scan;
			assert_int_equal(input_from_bytes((struct bytes){sources[i].data, len}, "x", 100, &input, NULL), 0);
			assert_int_equal(json_scan_init(&scan, input, NULL), 0);
			json_scan_skip(&scan);
			assert_int_equal(json_scan_finish(&scan), -EBADMSG);
			json_scan_release(&scan);
		}
	}
	buffer_release(&packed);
}

static void test_values(void **state)
{
	(void)state;
	struct input *input =
		input_of(bytes_of_string(" {\"a\\u0062\": [1, -2.5, 1e3, null, \"x\", 1700000000000.123456, 0.0000007, "
					 "12345678901234567890],\"n\":[7,\"7\",2.5,-3e2],"
					 "\"t\": \"\\u20ac\\ud83d\\ude00\\\"\\n\\ud83d\", \"r\" : {\"q\": [true,false]} } \n"));
	static const int64_t micro[] = {1000000, -2500000, 1000000000, 0, 0, 1700000000000123456, 1, 0};
	static const int is_none[] = {0, 0, 0, 1, 1, 0, 0, 1};
	struct json_scan scan;
	struct bytes key, text;
	int64_t n;
	assert_int_equal(json_scan_init(&scan, input, NULL), 0);
	assert_int_equal(json_scan_open(&scan, '{'), 0);
	assert_int_equal(json_scan_member(&scan, &key), 1);
	assert_true(bytes_equal_string(key, "ab"));
	assert_int_equal(json_scan_open(&scan, '['), 0);
	for (size_t i = 0; i < 8; i++) {
		assert_int_equal(json_scan_item(&scan), 1);
		assert_int_equal(json_scan_micro(&scan, &n), is_none[i]);
		if (!is_none[i] && n != micro[i])
			fail_msg("number %zu is %lld", i, (long long)n);
	}
	assert_true(json_scan_is_last(&scan) && json_scan_has_items(&scan));
	assert_int_equal(json_scan_item(&scan), 0);
	assert_int_equal(json_scan_member(&scan, &key), 1);
	json_scan_open(&scan, '[');
	for (size_t i = 0; json_scan_item(&scan) > 0; i++) {
		bool whole = i == 0 || i == 3;
		assert_int_equal(json_scan_integer(&scan, &n), !whole);
		assert_true(!whole || n == (i ? -300 : 7));
	}
	assert_int_equal(json_scan_member(&scan, &key), 1);
	assert_int_equal(json_scan_peek(&scan), '"');
	assert_int_equal(json_scan_text(&scan, &text), 0);
	/* Half of a pair is no character. */
	assert_true(bytes_equal_string(text, "\xe2\x82\xac\xf0\x9f\x98\x80\"\n\xef\xbf\xbd"));
	assert_int_equal(json_scan_member(&scan, &key), 1);
	assert_int_equal(json_scan_raw(&scan, &text), 0);
	assert_true(bytes_equal_string(text, "{\"q\": [true,false]}"));
	assert_int_equal(json_scan_member(&scan, &key), 0);
	assert_int_equal(json_scan_finish(&scan), 0);
	json_scan_release(&scan);
	input_free(input);
}

/* Wherever the window ends, what is walked through is the same, and the copy is the original. */
static void test_windows(void **state)
{
	(void)state;
	static const char document[] =
		"{\"key\":\"text\\u00e9\\\\\",\"long\":-123.456e-7,\"a\":[null,true,{\"b\":\"c\"}], \"e\":[] }";
	for (size_t shift = 0; shift < sizeof(document) + 8; shift++) {
		struct buffer text, copy;
		buffer_init(&text, SIZE_MAX);
		buffer_init(&copy, SIZE_MAX);
		assert_int_equal(buffer_reserve(&text, WINDOW), 0);
		memset(text.data, ' ', WINDOW - shift);
		text.len = WINDOW - shift;
		buffer_append_string(&text, document);
		assert_int_equal(skip_all(buffer_bytes(&text), &copy, NULL), 0);
		assert_true(bytes_equal(buffer_bytes(&text), buffer_bytes(&copy)));
		struct input *input = input_of(buffer_bytes(&text));
		struct json_scan scan;
		struct bytes key, value;
		assert_int_equal(json_scan_init(&scan, input, NULL), 0);
		json_scan_open(&scan, '{');
		assert_int_equal(json_scan_member(&scan, &key), 1);
		assert_true(bytes_equal_string(key, "key"));
		assert_int_equal(json_scan_text(&scan, &value), 0);
		assert_true(bytes_equal_string(value, "text\xc3\xa9\\"));
		assert_int_equal(json_scan_member(&scan, &key), 1);
		assert_true(bytes_equal_string(key, "long"));
		assert_int_equal(json_scan_raw(&scan, &value), 0);
		assert_true(bytes_equal_string(value, "-123.456e-7"));
		assert_int_equal(json_scan_member(&scan, &key), 1);
		assert_int_equal(json_scan_raw(&scan, &value), 0);
		assert_true(bytes_equal_string(value, "[null,true,{\"b\":\"c\"}]"));
		json_scan_release(&scan);
		input_free(input);
		buffer_release(&text);
		buffer_release(&copy);
	}
}

/* A key is valid until the next call but for a look at what its value begins with, wherever the window ends. */
static void test_key_and_peek(void **state)
{
	(void)state;
	for (size_t shift = 0; shift < 24; shift++) {
		struct buffer text;
		struct json_scan scan;
		struct bytes key;
		buffer_init(&text, SIZE_MAX);
		assert_int_equal(buffer_append_string(&text, "{"), 0);
		assert_int_equal(buffer_reserve(&text, WINDOW), 0);
		memset(text.data + 1, ' ', WINDOW - shift);
		text.len = 1 + WINDOW - shift;
		assert_int_equal(buffer_append_string(&text, "\"threads\" :  [1], \"threads\":[2]}"), 0);
		assert_int_equal(buffer_reserve(&text, WINDOW), 0); /* as much again, which goes where the key was */
		memset(text.data + text.len, ' ', WINDOW);
		text.len += WINDOW;
		struct input *input = input_of(buffer_bytes(&text));
		assert_int_equal(json_scan_init(&scan, input, NULL), 0);
		assert_int_equal(json_scan_open(&scan, '{'), 0);
		for (int i = 0; i < 2; i++) {
			assert_int_equal(json_scan_member(&scan, &key), 1);
			assert_int_equal(json_scan_peek(&scan), '[');
			assert_true(bytes_equal_string(key, "threads"));
			assert_int_equal(json_scan_skip(&scan), 0);
		}
		assert_int_equal(json_scan_member(&scan, &key), 0);
		assert_int_equal(json_scan_finish(&scan), 0);
		json_scan_release(&scan);
		input_free(input);
		buffer_release(&text);
	}
}

static void test_long_value(void **state)
{
	(void)state;
	struct buffer text;
	buffer_init(&text, SIZE_MAX);
	buffer_append_string(&text, "[\"");
	for (size_t i = 0; i < 3 * WINDOW; i++)
		buffer_append_byte(&text, (uint8_t)('a' + i % 26));
	buffer_append_string(&text, "\"]");
	struct input *input = input_of(buffer_bytes(&text));
	struct json_scan scan;
	struct bytes value;
	json_scan_init(&scan, input, NULL);
	json_scan_open(&scan, '[');
	assert_int_equal(json_scan_item(&scan), 1);
	assert_int_equal(json_scan_text(&scan, &value), 0);
	assert_true(value.len == 3 * WINDOW && memcmp(value.data, text.data + 2, value.len) == 0);
	assert_int_equal(json_scan_item(&scan), 0);
	json_scan_release(&scan);
	input_free(input);
	buffer_release(&text);
}

static void test_malformed(void **state)
{
	(void)state;
	static const char *const texts[] = {"",	     "{",     "[1,]", "{\"a\"}", "{\"a\":}",  "{a:1}",	   "[1 2]",
					    "[01]",  "[1.]",  "[.5]", "[+1]",	 "[1e]",      "[\"\\x\"]", "[\"\\u12\"]",
					    "[\"",   "[tru]", "[1]x", "[1}",	 "{\"a\":1]", "[\"\n\"]",  "{\"a\":1,}",
					    "{1:2}", "[nan]", "[-]",  "\"\\",	 ",",	      "[,1]",	   "{,\"a\":1}"};
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		struct buffer copy;
		struct error err = {0};
		buffer_init(&copy, SIZE_MAX);
		if (skip_all(bytes_of_string(texts[i]), &copy, &err) != -EBADMSG)
			fail_msg("'%s' was taken for JSON", texts[i]);
		assert_true(strstr(err.message, "near byte"));
		buffer_release(&copy);
	}
	struct buffer copy;
	buffer_init(&copy, SIZE_MAX);
	assert_int_equal(skip_all((struct bytes){(const uint8_t *)"[1\0]", 4}, &copy, NULL), -EBADMSG);
	/* 512 deep, and one more. */
	char deep[2 * (JSON_SCAN_DEPTH_MAX + 1)];
	for (size_t more = 0; more < 2; more++) {
		size_t depth = JSON_SCAN_DEPTH_MAX + more;
		memset(deep, '[', depth);
		memset(deep + depth, ']', depth);
		assert_int_equal(skip_all((struct bytes){(const uint8_t *)deep, 2 * depth}, &copy, NULL), more ? -EBADMSG : 0);
	}
	buffer_release(&copy);
}

/* ---- inputs ---- */

static void read_back(const char *path, uint64_t max, struct buffer *out, int *ret)
{
	struct input *input = NULL;
	char piece[1000];
	ssize_t n = 0;
	*ret = input_open(path, max, &input, NULL);
	for (int times = 0; *ret == 0 && times < 2; times++) {
		buffer_clear(out);
		input_rewind(input);
		while (*ret == 0 && (n = input_read(input, piece, sizeof(piece), NULL)) > 0)
			buffer_append(out, piece, (size_t)n);
		*ret = n < 0 ? (int)n : *ret;
	}
	input_free(input);
}

static void test_inputs(void **state)
{
	(void)state;
	char path[] = "/tmp/wick-input-XXXXXX";
	struct buffer text, packed[3], out;
	int fd = mkstemp(path), r;
	assert_true(fd >= 0);
	buffer_init(&text, SIZE_MAX);
	buffer_init(&out, SIZE_MAX);
	for (int i = 0; i < 50000; i++)
		buffer_printf(&text, "%d,", i * 7919);
	for (int i = 0; i < 3; i++)
		buffer_init(&packed[i], SIZE_MAX);
	buffer_append(&packed[0], text.data, text.len);
	/* Two members, or frames, are one text. */
	gzip_compress((struct bytes){text.data, 1000}, 6, &packed[1], NULL);
	gzip_compress((struct bytes){text.data + 1000, text.len - 1000}, 6, &packed[1], NULL);
	test_zstd_compress((struct bytes){text.data, 1000}, 3, &packed[2], NULL);
	test_zstd_compress((struct bytes){text.data + 1000, text.len - 1000}, 3, &packed[2], NULL);
	for (int i = 0; i < 3; i++) {
		assert_int_equal(io_write_file(path, packed[i].data, packed[i].len, 0600, NULL), 0);
		read_back(path, text.len, &out, &r);
		assert_int_equal(r, 0);
		assert_true(bytes_equal(buffer_bytes(&out), buffer_bytes(&text)));
		read_back(path, text.len - 1, &out, &r);
		assert_int_equal(r, -E2BIG);
		for (size_t cut = 1; i > 0 && cut < 30; cut++) {
			io_write_file(path, packed[i].data, packed[i].len - cut, 0600, NULL);
			read_back(path, text.len, &out, &r);
			assert_int_equal(r, -EBADMSG);
		}
		if (i != 1)
			continue;
		packed[i].data[packed[i].len / 2] ^= 0xff;
		io_write_file(path, packed[i].data, packed[i].len, 0600, NULL);
		read_back(path, text.len, &out, &r);
		assert_int_equal(r, -EBADMSG);
	}
	for (int i = 0; i < 3; i++)
		buffer_release(&packed[i]);
	buffer_release(&text);
	buffer_release(&out);
	close(fd);
	unlink(path);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_memory),	   cmocka_unit_test(test_values),	cmocka_unit_test(test_windows),
		cmocka_unit_test(test_long_value), cmocka_unit_test(test_key_and_peek), cmocka_unit_test(test_malformed),
		cmocka_unit_test(test_inputs),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
