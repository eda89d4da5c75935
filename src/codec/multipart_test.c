/* SPDX-License-Identifier: Apache-2.0 */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>
#include <errno.h>
#include <string.h>

#include "base/limits.h"
#include "codec/multipart.h"

#define TYPE "multipart/form-data; boundary=xyz"

static void check(const char *type, const char *body, const char *expected)
{
	struct multipart multipart;
	struct multipart_part part;
	struct error err = {0};
	struct buffer found;
	int r = multipart_open(&multipart, type, bytes_of_string(body), &err);
	buffer_init(&found, 64 * KIB);
	while (r == 0 && (r = multipart_next(&multipart, &part, &err)) > 0) {
		buffer_printf(&found, "%.*s=%.*s|", (int)part.name.len, part.name.len ? (const char *)part.name.data : "",
			      (int)part.data.len, part.data.len ? (const char *)part.data.data : "");
		r = 0;
	}
	if (r < 0)
		buffer_printf(&found, "!");
	assert_true(r == 0 || (r == -EBADMSG && err.message[0]));
	const char *text = buffer_string(&found);
	if (strcmp(text, expected) != 0)
		fail_msg("%s: got %s, expected %s", body, text, expected);
	buffer_release(&found);
}

static void test_bodies(void **state)
{
	(void)state;
	/* As curl and browsers send them. */
	check(TYPE,
	      "--xyz\r\nContent-Disposition: form-data; name=\"profile\"; filename=\"a;b\"\r\nContent-Type: "
	      "application/octet-stream\r\n\r\nDA\r\nTA\r\n--xyz\r\ncontent-disposition: form-data; filename=x; "
	      "name=config\r\n\r\n{}\r\n--xyz--\r\n",
	      "profile=DA\r\nTA|config={}|");
	check("multipart/form-data; charset=utf-8; boundary=\"xyz\"",
	      "preamble\r\n--xyz\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\n\r\n--xyz--epilogue", "a=|");
	check(TYPE, "--xyz--", "");
	check(TYPE, "--xyz\r\n\r\nno header\r\n--xyz--", "=no header|");
	check(TYPE, "--xyz  \r\nContent-Disposition: form-data; name=\"a\"\r\n\r\n--xy\r\n--xy\r\n--xyz--", "a=--xy\r\n--xy|");
}

static void test_refusals(void **state)
{
	(void)state;
	check("multipart/form-data", "--xyz--", "!");
	check("multipart/form-data; boundary=", "--xyz--", "!");
	check("multipart/form-data; boundary=\"\"", "--xyz--", "!");
	check(TYPE, "", "!");
	check(TYPE, "--abc--", "!");
	check(TYPE, "--xyz", "!");
	check(TYPE, "--xyz\r\nContent-Disposition: form-data; name=\"a\"\r\n", "!");
	check(TYPE, "--xyz\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\ndata", "!");
	check(TYPE, "--xyz\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\ndata\r\n--xyz", "a=data|!");
}

static void test_limits(void **state)
{
	(void)state;
	struct buffer body;
	struct multipart multipart;
	struct multipart_part part;
	buffer_init(&body, MIB);
	for (unsigned i = 0; i <= MULTIPART_PARTS_MAX; i++)
		assert_int_equal(buffer_append_string(&body, "\r\n--xyz\r\n\r\n"), 0);
	assert_int_equal(buffer_append_string(&body, "\r\n--xyz--"), 0);
	assert_int_equal(multipart_open(&multipart, TYPE, buffer_bytes(&body), NULL), 0);
	int r = 1;
	unsigned parts = 0;
	while ((r = multipart_next(&multipart, &part, NULL)) > 0)
		parts++;
	assert_int_equal(r, -EBADMSG);
	assert_int_equal(parts, MULTIPART_PARTS_MAX);
	buffer_release(&body);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_bodies),
		cmocka_unit_test(test_refusals),
		cmocka_unit_test(test_limits),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
