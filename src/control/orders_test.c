/* SPDX-License-Identifier: Apache-2.0 */
/* What agents and server tell each other: it arrives as it was sent, and what makes no sense is refused. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>

#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "control/orders.h"

static const struct orders_question question = {
	.agent = "00ff",
	.host = "web-1.example",
	.wick = "0.1.0",
	.refusal = "told not to",
	.has_ping = true,
	.ping = {1763790000000000001, 1763790000000000002, 1763790000000000003, 1763790000000000004},
	.clock = {.reference = "abc", .at_ns = 1763790000000000001, .offset_ns = -5000000123, .bound_ns = 71234, .skew = 5e-5},
	.report = {.id = "ab12", .state = ORDERS_FAILED, .why = "no privileges: \"CAP_BPF\""},
};
static const struct orders_answer answer = {
	.received_ns = 1763790000000000002,
	.answered_ns = 1763790000000000003,
	.clock = "abc",
	.poll_ns = 5000000000,
	.has_order = true,
	.order = {.id = "ab12",
		  .start_ns = 1763790000000000009,
		  .duration_ns = 10000000001,
		  .frequency_hz = 199,
		  .no_markers = true,
		  .targets = {{ORDERS_CGROUP, "/system.slice"}, {ORDERS_UNIT, "nginx"}},
		  .target_count = 2,
		  .key = "00112233445566778899aabbccddeeff"},
	.cancelled = {"cd", "ef"},
	.cancel_count = 2,
};

static void write_both(struct buffer *asked, struct buffer *answered)
{
	buffer_init(asked, ORDERS_BODY_BYTES_MAX);
	buffer_init(answered, ORDERS_BODY_BYTES_MAX);
	assert_int_equal(orders_write_question(&question, asked, NULL), 0);
	assert_int_equal(orders_write_answer(&answer, answered, NULL), 0);
}

static void test_arrives(void **state)
{
	struct buffer asked, answered;
	struct orders_question got;
	struct orders_answer back;
	(void)state;
	write_both(&asked, &answered);
	assert_int_equal(orders_read_question(buffer_bytes(&asked), &got, NULL), 0);
	assert_memory_equal(&got, &question, sizeof(got));
	assert_int_equal(orders_read_answer(buffer_bytes(&answered), &back, NULL), 0);
	assert_memory_equal(&back, &answer, sizeof(back));
	buffer_release(&asked);
	buffer_release(&answered);
}

static void test_least(void **state)
{
	struct orders_question got;
	struct orders_answer back;
	(void)state;
	assert_int_equal(
		orders_read_question(bytes_of_string("{\"version\":2,\"agent\":\"1\",\"host\":\"h\",\"new\":[]}"), &got, NULL),
		0);
	assert_false(got.has_ping);
	assert_string_equal(got.report.id, "");
	assert_int_equal(
		orders_read_answer(bytes_of_string("{\"version\":1,\"received_ns\":1,\"answered_ns\":2,\"poll_ms\":5000}"),
				   &back, NULL),
		0);
	assert_false(back.has_order);
}

static void test_cut(void **state)
{
	struct buffer asked, answered;
	struct orders_question got;
	struct orders_answer back;
	(void)state;
	write_both(&asked, &answered);
	for (size_t len = 0; len < asked.len; len++)
		assert_int_equal(orders_read_question((struct bytes){asked.data, len}, &got, NULL), -EINVAL);
	for (size_t len = 0; len < answered.len; len++)
		assert_int_equal(orders_read_answer((struct bytes){answered.data, len}, &back, NULL), -EINVAL);
	buffer_release(&asked);
	buffer_release(&answered);
}

static void test_hostile_questions(void **state)
{
	static const char *const all[] = {
		"[]",
		"{\"version\":0,\"agent\":\"1\",\"host\":\"h\"}",
		"{\"version\":1,\"agent\":\"xyz\",\"host\":\"h\"}",
		"{\"version\":1,\"agent\":\"012345678901234567890123456789012\",\"host\":\"h\"}",
		"{\"version\":1,\"agent\":\"1\",\"host\":\"../../etc\"}",
		"{\"version\":1,\"agent\":\"1\",\"host\":\"..\"}",
		"{\"version\":1,\"agent\":\"1\",\"host\":\"a\\nb\"}",
		"{\"version\":1,\"agent\":\"1\",\"host\":\"a\\u0000b\"}",
		"{\"version\":1,\"agent\":\"1\",\"host\":\"h\",\"host\":\"i\"}",
		"{\"version\":1,\"agent\":\"1\",\"host\":\"h\",\"ping\":{}}",
		"{\"version\":1,\"agent\":\"1\",\"host\":\"h\",\"ping\":{\"sent_ns\":-1,\"received_ns\":1,\"answered_ns\":1,"
		"\"returned_ns\":1}}",
		"{\"version\":1,\"agent\":\"1\",\"host\":\"h\",\"clock\":{\"at_ns\":1,\"offset_ns\":1,\"bound_ns\":1,\"skew\":"
		"1}}",
		"{\"version\":1,\"agent\":\"1\",\"host\":\"h\",\"clock\":{\"at_ns\":1,\"offset_ns\":1,\"bound_ns\":-1,\"skew\":"
		"0}}",
		"{\"version\":1,\"agent\":\"1\",\"host\":\"h\",\"report\":{\"id\":\"1\",\"state\":\"dancing\"}}",
	};
	struct orders_question got;
	struct error err;
	(void)state;
	for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++) {
		err.message[0] = 0;
		assert_int_equal(orders_read_question(bytes_of_string(all[i]), &got, &err), -EINVAL);
		assert_int_not_equal(err.message[0], 0);
	}
}

#define ORDER(members)                                                                                                         \
	"{\"version\":1,\"received_ns\":1,\"answered_ns\":2,\"poll_ms\":5000,\"orders\":[{\"id\":\"1\",\"start_ns\":"          \
	"1," members "}]}"
static void test_hostile_answers(void **state)
{
	static const char *const all[] = {
		"{\"version\":1,\"received_ns\":1,\"answered_ns\":2,\"poll_ms\":1}",
		ORDER("\"duration_ns\":0"),
		ORDER("\"duration_ns\":600000000001"),
		ORDER("\"duration_ns\":1,\"frequency_hz\":1001"),
		ORDER("\"duration_ns\":1,\"frequency_hz\":\"99\""),
		ORDER("\"duration_ns\":1,\"markers\":1"),
		ORDER("\"duration_ns\":1,\"key\":7"),
		ORDER("\"duration_ns\":1,\"key\":\"a\\r\\nX-Other: b\""),
		ORDER("\"duration_ns\":1,\"key\":\"00112233445566778899aabbccddeeff0\""),
		ORDER("\"duration_ns\":1,\"targets\":{}"),
		ORDER("\"duration_ns\":1,\"targets\":[{\"kind\":\"pid\",\"name\":\"1\"}]"),
		ORDER("\"duration_ns\":1,\"targets\":[{\"kind\":\"unit\",\"name\":\"\"}]"),
		ORDER("\"duration_ns\":1,\"targets\":[{\"kind\":\"unit\",\"name\":\"--output=/etc/passwd\"}]"),
		"{\"version\":1,\"received_ns\":1,\"answered_ns\":2,\"poll_ms\":5000,\"cancel\":[\"../x\"]}",
	};
	struct orders_answer got;
	(void)state;
	assert_int_equal(orders_read_answer(bytes_of_string(ORDER("\"duration_ns\":1")), &got, NULL), 0);
	for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++)
		assert_int_equal(orders_read_answer(bytes_of_string(all[i]), &got, NULL), -EINVAL);
}

static void test_requests(void **state)
{
	struct orders_order got = {.id = "1"};
	char(*hosts)[ORDERS_HOST_SIZE];
	size_t count;
	struct buffer text;
	const char *const names[] = {"a", "b", "a"};
	(void)state;
	buffer_init(&text, ORDERS_BODY_BYTES_MAX);
	assert_int_equal(orders_write_request(&answer.order, names, 3, &text, NULL), 0);
	assert_int_equal(orders_read_request(buffer_bytes(&text), &got, &hosts, &count, NULL), 0);
	assert_int_equal(count, 2);
	assert_string_equal(hosts[1], "b");
	assert_in_range(got.duration_ns, answer.order.duration_ns - 10, answer.order.duration_ns + 10);
	assert_int_equal(got.target_count, 2);
	assert_string_equal(got.id, "1");
	mem_free(hosts);
	buffer_release(&text);
	static const char *const bad[] = {
		"{}",
		"{\"seconds\":0}",
		"{\"seconds\":601}",
		"{\"seconds\":\"1\"}",
		"{\"seconds\":1e999}",
		"{\"seconds\":1,\"hosts\":[\"a\",1]}",
		"{\"seconds\":1,\"hosts\":\"a\"}",
		"{\"seconds\":1,\"hosts\":[\"a/b\"]}",
	};
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
		assert_int_equal(orders_read_request(bytes_of_string(bad[i]), &got, &hosts, &count, NULL), -EINVAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_arrives),
		cmocka_unit_test(test_least),
		cmocka_unit_test(test_cut),
		cmocka_unit_test(test_hostile_questions),
		cmocka_unit_test(test_hostile_answers),
		cmocka_unit_test(test_requests),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
