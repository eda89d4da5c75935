/* SPDX-License-Identifier: Apache-2.0 */
/* What an agent says of itself arrives as it was said, is small, and what makes no sense is refused. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "codec/json.h"
#include "control/health.h"

static int read_text(const char *text, struct health *ret)
{
	struct error err = {0};
	json_t *node = json_loads(text, JSON_DECODE_ANY, NULL);
	assert_non_null(node);
	int r = health_read(node, ret, &err);
	json_decref(node);
	assert_true(r == 0 || err.message[0]);
	return r;
}

static void write(const struct health *health, struct buffer *out)
{
	buffer_init(out, HEALTH_BYTES_MAX);
	struct json_writer json = {.out = out};
	health_write(&json, health);
	assert_int_equal(json_finish(&json, NULL), 0);
}

static void test_arrives(void **state)
{
	_cleanup_(buffer_release) struct buffer out = {0};
	struct health health = {.kernel = "6.1 x86_64",
				.event = "cpu-clock",
				.started_ms = 1763790000000,
				.frequency_hz = 10,
				.frequency_asked_hz = 19,
				.samples = 1ull << 53,
				.cost_ppm = 1234},
		      got;
	(void)state;
	health_mode(&health, "off_cpu");
	health_count(&health.lost, "counts_full", 7);
	health_count(&health.lost, "events", 0);
	health_count(&health.walks, "complete", 12345);
	health_warn(&health, "no BTF\n\xff here");
	write(&health, &out);
	assert_int_equal(read_text(buffer_string(&out), &got), 0);
	assert_int_equal(got.lost.count, 1);
	assert_string_equal(got.warnings[0], "no BTF?\xef\xbf\xbd here");
	assert_memory_equal(&got, &health, sizeof(got));
}

static void test_what_is_missing_or_unknown(void **state)
{
	struct health got, nothing = {0};
	(void)state;
	assert_int_equal(read_text("{}", &got), 0);
	assert_memory_equal(&got, &nothing, sizeof(got));
	assert_int_equal(read_text("{\"new\": [1, {}], \"lost\": {\"of_a_new_kind\": 3}}", &got), 0);
	assert_string_equal(got.lost.items[0].name, "of_a_new_kind");
	assert_int_equal(got.lost.items[0].count, 3);
}

static void test_hostile(void **state)
{
	static const char *const all[] = {
		"[]",
		"\"x\"",
		"{\"samples\": -1}",
		"{\"samples\": 1.5}",
		"{\"samples\": \"1\"}",
		"{\"samples\": 9007199254740993}",
		"{\"kernel\": 1}",
		"{\"kernel\": \"a\\nb\"}",
		"{\"event\": \"0123456789012345678901234567890123456789012345678901234567890123\"}",
		"{\"modes\": {}}",
		"{\"modes\": [1]}",
		"{\"modes\": [\"<script>\"]}",
		"{\"modes\": [\"\"]}",
		"{\"modes\": [\"a\",\"a\",\"a\",\"a\",\"a\",\"a\",\"a\",\"a\",\"a\",\"a\",\"a\",\"a\",\"a\"]}",
		"{\"lost\": []}",
		"{\"lost\": {\"a b\": 1}}",
		"{\"lost\": {\"\": 1}}",
		"{\"lost\": {\"a\": -1}}",
		"{\"lost\": {\"a\": null}}",
		"{\"walks\": {\"a234567890123456789012345678901234567890\": 1}}",
		"{\"warnings\": \"x\"}",
		"{\"warnings\": [\"1\",\"2\",\"3\",\"4\",\"5\",\"6\",\"7\",\"8\",\"9\"]}",
		"{\"warnings\": [\"\\u007f\"]}",
	};
	struct health got;
	(void)state;
	for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++)
		if (read_text(all[i], &got) != -EINVAL)
			fail_msg("%s was taken", all[i]);
}

static void test_most(void **state)
{
	_cleanup_(buffer_release) struct buffer out = {0};
	struct health health = {.samples = UINT64_MAX}, got;
	char name[HEALTH_NAME_SIZE], text[4 * HEALTH_WARNING_SIZE] = "";
	(void)state;
	for (size_t i = 0; i + 4 < sizeof(text); i += 3)
		memcpy(text + i, "\xe2\x82\xac", 4); /* may not be cut within one */
	for (unsigned i = 0; i < 2 * HEALTH_COUNTS_MAX; i++) {
		snprintf(name, sizeof(name), "reason_%024u", i);
		health_count(&health.lost, name, UINT64_MAX);
		health_count(&health.walks, name, UINT64_MAX);
		health_mode(&health, name);
		health_warn(&health, text);
	}
	health_mode(&health, "not a name");
	assert_int_equal(health.lost.count, HEALTH_COUNTS_MAX);
	assert_int_equal(health.mode_count, HEALTH_MODES_MAX);
	assert_int_equal(health.warning_count, HEALTH_WARNINGS_MAX);
	write(&health, &out);
	assert_int_equal(read_text(buffer_string(&out), &got), 0);
	assert_true(got.samples == 1ull << 53);
	assert_int_equal(strlen(got.warnings[7]), (HEALTH_WARNING_SIZE - 1) / 3 * 3);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_arrives),
		cmocka_unit_test(test_what_is_missing_or_unknown),
		cmocka_unit_test(test_hostile),
		cmocka_unit_test(test_most),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
