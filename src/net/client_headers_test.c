/* SPDX-License-Identifier: Apache-2.0 */
/* Headers that the client adds, and what it understands of those that say when to come back. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/time.h"
#include "net/client_int.h"

static struct net_client_response take(const char *name, const char *value)
{
	struct net_client_response response = {0};
	client_take_retry(&response, bytes_of_string(name), bytes_of_string(value));
	return response;
}

static void test_retry_after(void **state)
{
	char date[64];
	time_t soon = time(NULL) + 100;
	struct tm parts;
	assert_int_equal(take("retry-after", "7").retry_after_ns, 7 * NS_PER_S);
	assert_int_equal(take("retry-after", "99999999999").retry_after_ns, 3600 * NS_PER_S);
	assert_int_equal(take("retry-after", "-1").retry_after_ns, 0);
	assert_int_equal(take("retry-after", "soon").retry_after_ns, 0);
	assert_int_equal(take("retry-after", "Wed, 21 Oct 2015 07:28:00 GMT").retry_after_ns, 0);
	/* So long ago that its nanoseconds would come out as ones to come. */
	assert_int_equal(take("retry-after", "Sat, 01 Jan 1600 00:00:00 GMT").retry_after_ns, 0);
	strftime(date, sizeof(date), "%a, %d %b %Y %H:%M:%S GMT", gmtime_r(&soon, &parts));
	int64_t wait_ns = take("retry-after", date).retry_after_ns;
	assert_true(wait_ns > 0 && wait_ns <= 100 * NS_PER_S);
}

static void test_grpc(void **state)
{
	assert_int_equal(take("grpc-retry-pushback-ms", "1500").retry_after_ns, 1500 * NS_PER_MS);
	assert_false(take("grpc-retry-pushback-ms", "1500").never_retry);
	assert_true(take("grpc-retry-pushback-ms", "-1").never_retry);
	assert_int_equal(take("grpc-retry-pushback-ms", "-9223372036855").retry_after_ns, 0);
	assert_int_equal(take("grpc-retry-pushback-ms", "9223372036854775807").retry_after_ns, 3600 * NS_PER_S);
	/* Status { 1: 8, 2: "slow down", 3: Any { RetryInfo { 12.5 s } } }, as protoc 3.21 and base64 made it; without padding
	 * too, which gRPC allows. */
	const char *details = "CAgSCXNsb3cgZG93bho2Cih0eXBlLmdvb2dsZWFwaXMuY29tL2dvb2dsZS5ycGMuUmV0cnlJbmZvEgoKCAgMEIDKte4B";
	assert_int_equal(take("grpc-status-details-bin", details).retry_after_ns, 12500 * NS_PER_MS);
	/* Damaged: nothing is said. */
	for (size_t len = 0; len < strlen(details); len++) {
		char cut[200];
		snprintf(cut, sizeof(cut), "%.*s", (int)len, details);
		int64_t wait_ns = take("grpc-status-details-bin", cut).retry_after_ns;
		assert_true(wait_ns >= 0 && wait_ns <= 12500 * NS_PER_MS);
	}
	assert_int_equal(take("grpc-status-details-bin", "%%%").retry_after_ns, 0);
}

static void test_set_header(void **state)
{
	struct net_client *client;
	struct net_client_options options = {.url = "http://127.0.0.1:1"};
	char name[16];
	assert_int_equal(net_client_new(&options, &client, NULL), 0);
	assert_int_equal(net_client_set_header(client, "X-A", "1", NULL), 0);
	assert_int_equal(net_client_set_header(client, "x-a", "2", NULL), 0);
	assert_int_equal(client->header_count, 1);
	assert_string_equal(client->headers[0].name, "x-a");
	assert_string_equal(client->headers[0].value, "2");
	assert_int_equal(net_client_set_header(client, "X-A", NULL, NULL), 0);
	assert_int_equal(client->header_count, 0);
	/* RFC 7617, section 2. */
	assert_int_equal(net_client_set_basic_auth(client, "Aladdin", "open sesame", NULL), 0);
	assert_string_equal(client->headers[0].name, "authorization");
	assert_string_equal(client->headers[0].value, "Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==");
	assert_int_equal(net_client_set_header(client, "Authorization", NULL, NULL), 0);
	assert_int_equal(net_client_set_header(client, "Content-Length", "2", NULL), -EINVAL);
	assert_int_equal(net_client_set_header(client, "a b", "2", NULL), -EINVAL);
	assert_int_equal(net_client_set_header(client, ":path", "2", NULL), -EINVAL);
	assert_int_equal(net_client_set_header(client, "a", "2\r\nb: 3", NULL), -EINVAL);
	for (int i = 0; i < NET_CLIENT_HEADERS_MAX; i++) {
		snprintf(name, sizeof(name), "x-%d", i);
		assert_int_equal(net_client_set_header(client, name, "2", NULL), 0);
	}
	assert_int_equal(net_client_set_header(client, "x-more", "2", NULL), -E2BIG);
	net_client_free(client);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_retry_after),
		cmocka_unit_test(test_grpc),
		cmocka_unit_test(test_set_header),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
