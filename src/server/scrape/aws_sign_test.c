/* SPDX-License-Identifier: Apache-2.0 */
/* The signatures that AWS publishes with its test suite for Signature Version 4 (github.com/awslabs/aws-c-auth,
 * tests/aws-signing-test-suite/v4, "header-signed-request.txt"). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "server/scrape/aws_sign.h"

#define DATE "20150830T123600Z"
#define HOST                                                                                                                   \
	{                                                                                                                      \
		"host", "example.amazonaws.com"                                                                                \
	}
#define AT                                                                                                                     \
	{                                                                                                                      \
		"x-amz-date", DATE                                                                                             \
	}
#define SHORT	"6e86291e8372ff2a2260956d9b8aae1d763fbf315fa00fa31553b73ebf194267"
#define FORM	"application/x-www-form-urlencoded"
#define SHA_ONE "9095672bbd1f56dfc5b65f3e153adc8731a4a654192329106275f4c7b24d0b6e" /* of the form's body */
#define TOKEN                                                                                                                  \
	"AQoDYXdzEPT//////////wEXAMPLEtc764bNrC9SAPBSM22wDOk4x4HIZ8j4FZTwdQWLWsKWHGBuFqwAeMicRXmxfpSPfIeoIYRqTflfKD8YUuwthAx7" \
	"mSEI/qkPpKPi/kMcGdQrmGdeehM4IC1NtBmUpp2wUE8phUZampKsburEDy0KPkyQDYwT7WZ0wq5VSXDvp75YU9HFvlRd8Tx6q6fE8YQcHNVXAkiY9q6d" \
	"+xo0rKwT38xVqr7ZD0u0iPPkUL64lIZbqBAz+scqKmlzm8FDrypNC9Yjc8fPOLn9FX9KSYvKTr4rvx3iSIlTJabIQwj2ICCR/oLxBA=="
#define LETTERS "-._~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

static const struct vector {
	const char *name, *method, *query, *body;
	struct aws_header headers[6];
	const char *names, *signature;
} vectors[] = {
	{"get-vanilla",
	 "GET",
	 "",
	 "",
	 {HOST, AT},
	 "host;x-amz-date",
	 "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31"},
	{"post-vanilla",
	 "POST",
	 "",
	 "",
	 {HOST, AT},
	 "host;x-amz-date",
	 "5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b"},
	{"get-vanilla-query-order-key-case",
	 "GET",
	 "Param1=value1&Param2=value2",
	 "",
	 {HOST, AT},
	 "host;x-amz-date",
	 "b97d918cfa904a5beff61c982a1b6f458b799221646efd99d3219ec94cdf2500"},
	{"get-vanilla-query-unreserved",
	 "GET",
	 LETTERS "=" LETTERS,
	 "",
	 {HOST, AT},
	 "host;x-amz-date",
	 "9c3e54bfcdf0b19771a7f523ee5669cdf59bc7cc0884027167c21bb143a40197"},
	{"get-vanilla-with-session-token",
	 "GET",
	 "",
	 "",
	 {HOST, AT, {"x-amz-security-token", SHORT}},
	 "host;x-amz-date;x-amz-security-token",
	 "07ec1639c89043aa0e3e2de82b96708f198cceab042d4a97044c66dd9f74e7f8"},
	{"post-sts-header-before",
	 "POST",
	 "",
	 "",
	 {HOST, AT, {"x-amz-security-token", TOKEN}},
	 "host;x-amz-date;x-amz-security-token",
	 "85d96828115b5dc0cfc3bd16ad9e210dd772bbebba041836c64533a82be05ead"},
	{"post-x-www-form-urlencoded",
	 "POST",
	 "",
	 "Param1=value1",
	 {{"content-length", "13"}, {"content-type", FORM}, HOST, {"x-amz-content-sha256", SHA_ONE}, AT},
	 "content-length;content-type;host;x-amz-content-sha256;x-amz-date",
	 "d3875051da38690788ef43de4db0d8f280229d82040bfac253562e56c3f20e0b"},
	{"post-x-www-form-urlencoded-parameters",
	 "POST",
	 "",
	 "Param1=value1",
	 {{"content-length", "13"}, {"content-type", FORM "; charset=utf-8"}, HOST, {"x-amz-content-sha256", SHA_ONE}, AT},
	 "content-length;content-type;host;x-amz-content-sha256;x-amz-date",
	 "328d1b9eaadca9f5818ef05e8392801e091653bafec24fcab71e7344e7f51422"},
};

static void test_vectors(void **state)
{
	const struct aws_keys keys = {"AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"};
	for (size_t i = 0; i < sizeof(vectors) / sizeof(*vectors); i++) {
		const struct vector *vector = &vectors[i];
		_cleanup_(buffer_release) struct buffer out = {.max = 4096};
		struct aws_request request = {.method = vector->method,
					      .path = "/",
					      .query = vector->query,
					      .region = "us-east-1",
					      .service = "service",
					      .date = DATE,
					      .headers = vector->headers,
					      .body = bytes_of_string(vector->body)};
		char expected[512];
		while (request.header_count < 6 && vector->headers[request.header_count].name)
			request.header_count++;
		snprintf(expected, sizeof(expected),
			 "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/service/aws4_request, SignedHeaders=%s, "
			 "Signature=%s",
			 vector->names, vector->signature);
		assert_int_equal(aws_sign(&keys, &request, &out, NULL), 0);
		if (strcmp(buffer_string(&out), expected))
			fail_msg("%s: %s, not %s", vector->name, (const char *)out.data, expected);
	}
}

static void test_blanks(void **state)
{
	/* get-header-value-trim */
	const struct aws_keys keys = {"AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"};
	const struct aws_header headers[] = {HOST, {"my-header1", " value1"}, {"my-header2", " \"a   b   c\""}, AT};
	const struct aws_request request = {.method = "GET",
					    .path = "/",
					    .query = "",
					    .region = "us-east-1",
					    .service = "service",
					    .date = DATE,
					    .headers = headers,
					    .header_count = 4};
	_cleanup_(buffer_release) struct buffer out = {.max = 4096};
	assert_int_equal(aws_sign(&keys, &request, &out, NULL), 0);
	assert_non_null(
		strstr(buffer_string(&out), "Signature=acc3ed3afb60bb290fc8d2dd0098b9911fcaa05412b367055dee359757a9c736"));
}

static void test_dates(void **state)
{
	char date[AWS_DATE_MAX];
	const struct aws_keys keys = {"a", "b"};
	struct aws_request request = {.method = "GET", .path = "/", .query = "", .region = "r", .service = "s", .date = ""};
	_cleanup_(buffer_release) struct buffer out = {.max = 4096};
	struct error err = {0};
	aws_format_date(1440938160, date);
	assert_string_equal(date, DATE);
	assert_true(aws_sign(&keys, &request, &out, &err) < 0);
	assert_string_equal(err.message, "cannot sign the request: bad date or region");
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_vectors), cmocka_unit_test(test_blanks),
					   cmocka_unit_test(test_dates)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
