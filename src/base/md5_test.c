// SPDX-License-Identifier: Apache-2.0
/* Sums as md5sum(1) prints them: RFC 1321's own, and lengths around the padding's edges. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "base/md5.h"

static const struct {
	const char *text; /* NULL = as many 'x' */
	size_t len;
	const char *sum;
} vectors[] = {
	{"", 0, "d41d8cd98f00b204e9800998ecf8427e"},	 {"a", 1, "0cc175b9c0f1b6a831c399e269772661"},
	{"abc", 3, "900150983cd24fb0d6963f7d28e17f72"},	 {"message digest", 14, "f96b697d7cb7938d525a2f31aaf161d0"},
	{NULL, 55, "04364420e25c512fd958a70738aa8f72"},	 {NULL, 56, "668a72d5ba17f08e62dabcafad6db14b"},
	{NULL, 63, "7dc2ca208106a2f703567bdff99d8981"},	 {NULL, 64, "c1bb4f81d892b2d57947682aeb252456"},
	{NULL, 65, "1bc932052302d074bdec39795fe00cf6"},	 {NULL, 119, "ab347a5f68c8a443cfcddc633f12c24f"},
	{NULL, 120, "fb98667f98096de92620b64f46e1c5b5"}, {NULL, 1000, "398533d48111e9f664b1f64cb10c4b63"},
};

static void test_sums(void **state)
{
	char text[1000], hex[2 * MD5_BYTES + 1];
	uint8_t sum[MD5_BYTES];

	memset(text, 'x', sizeof(text));
	for (size_t i = 0; i < sizeof(vectors) / sizeof(*vectors); i++) {
		md5(vectors[i].text ? vectors[i].text : text, vectors[i].len, sum);
		for (size_t j = 0; j < MD5_BYTES; j++)
			snprintf(hex + 2 * j, 3, "%02x", sum[j]);
		assert_string_equal(hex, vectors[i].sum);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_sums)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
