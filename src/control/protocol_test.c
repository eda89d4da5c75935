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
#include "control/protocol.h"

static const struct control_poll poll = {
	.agent = "00ff",
	.host = "web-1.example",
	.wick = "0.1.0",
	.refusal = "told not to",
	.has_clock_sample = true,
	.sample = {1763790000000000001, 1763790000000000002, 1763790000000000003, 1763790000000000004},
	.clock = {.reference = "abc", .at_ns = 1763790000000000001, .offset_ns = -5000000123, .bound_ns = 71234, .skew = 5e-5},
	.report = {.id = "ab12", .state = RECORDING_FAILED, .why = "no privileges: \"CAP_BPF\""},
};
static const struct control_reply reply = {
	.received_ns = 1763790000000000002,
	.answered_ns = 1763790000000000003,
	.clock = "abc",
	.poll_ns = 5000000000,
	.has_request = true,
	.request = {.id = "ab12",
		    .start_ns = 1763790000000000009,
		    .duration_ns = 10000000001,
		    .frequency_hz = 199,
		    .no_markers = true,
		    .targets = {{RECORDING_TARGET_CGROUP, "/system.slice"}, {RECORDING_TARGET_UNIT, "nginx"}},
		    .target_count = 2,
		    .key = "00112233445566778899aabbccddeeff"},
	.cancelled = {"cd", "ef"},
	.cancel_count = 2,
};

static void write_both(struct buffer *polled, struct buffer *replied)
{
	buffer_init(polled, CONTROL_BODY_BYTES_MAX);
	buffer_init(replied, CONTROL_BODY_BYTES_MAX);
	assert_int_equal(control_write_poll(&poll, polled, NULL), 0);
	assert_int_equal(control_write_reply(&reply, replied, NULL), 0);
}

static void test_arrives(void **state)
{
	struct buffer polled, replied;
	struct control_poll got;
	struct control_reply back;
	(void)state;
	write_both(&polled, &replied);
	assert_int_equal(control_read_poll(buffer_bytes(&polled), &got, NULL), 0);
	assert_memory_equal(&got, &poll, sizeof(got));
	assert_int_equal(control_read_reply(buffer_bytes(&replied), &back, NULL), 0);
	assert_memory_equal(&back, &reply, sizeof(back));
	buffer_release(&polled);
	buffer_release(&replied);
}

static void test_least(void **state)
{
	struct control_poll got;
	struct control_reply back;
	(void)state;
	assert_int_equal(
		control_read_poll(bytes_of_string("{\"version\":2,\"agent\":\"1\",\"host\":\"h\",\"new\":[]}"), &got, NULL), 0);
	assert_false(got.has_clock_sample);
	assert_string_equal(got.report.id, "");
	assert_int_equal(
		control_read_reply(bytes_of_string("{\"version\":1,\"received_ns\":1,\"answered_ns\":2,\"poll_ms\":5000}"),
				   &back, NULL),
		0);
	assert_false(back.has_request);
}

static void test_cut(void **state)
{
	struct buffer polled, replied;
	struct control_poll got;
	struct control_reply back;
	(void)state;
	write_both(&polled, &replied);
	for (size_t len = 0; len < polled.len; len++)
		assert_int_equal(control_read_poll((struct bytes){polled.data, len}, &got, NULL), -EINVAL);
	for (size_t len = 0; len < replied.len; len++)
		assert_int_equal(control_read_reply((struct bytes){replied.data, len}, &back, NULL), -EINVAL);
	buffer_release(&polled);
	buffer_release(&replied);
}

static void test_hostile_polls(void **state)
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
	struct control_poll got;
	struct error err;
	(void)state;
	for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++) {
		err.message[0] = 0;
		assert_int_equal(control_read_poll(bytes_of_string(all[i]), &got, &err), -EINVAL);
		assert_int_not_equal(err.message[0], 0);
	}
}

#define ORDER(members)                                                                                                         \
	"{\"version\":1,\"received_ns\":1,\"answered_ns\":2,\"poll_ms\":5000,\"orders\":[{\"id\":\"1\",\"start_ns\":"          \
	"1," members "}]}"
static void test_hostile_replies(void **state)
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
	struct control_reply got;
	(void)state;
	assert_int_equal(control_read_reply(bytes_of_string(ORDER("\"duration_ns\":1")), &got, NULL), 0);
	for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++)
		assert_int_equal(control_read_reply(bytes_of_string(all[i]), &got, NULL), -EINVAL);
}

static void test_requests(void **state)
{
	struct recording_request got = {.id = "1"};
	char(*hosts)[CONTROL_HOST_SIZE];
	size_t count;
	struct buffer text;
	const char *const names[] = {"a", "b", "a"};
	(void)state;
	buffer_init(&text, CONTROL_BODY_BYTES_MAX);
	assert_int_equal(control_write_api_request(&reply.request, names, 3, &text, NULL), 0);
	assert_int_equal(control_read_api_request(buffer_bytes(&text), &got, &hosts, &count, NULL), 0);
	assert_int_equal(count, 2);
	assert_string_equal(hosts[1], "b");
	assert_in_range(got.duration_ns, reply.request.duration_ns - 10, reply.request.duration_ns + 10);
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
		assert_int_equal(control_read_api_request(bytes_of_string(bad[i]), &got, &hosts, &count, NULL), -EINVAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_arrives),	      cmocka_unit_test(test_least),	      cmocka_unit_test(test_cut),
		cmocka_unit_test(test_hostile_polls), cmocka_unit_test(test_hostile_replies), cmocka_unit_test(test_requests),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
