/* SPDX-License-Identifier: Apache-2.0 */
/* Ids of profiles: there and back, their form, and what is none. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <string.h>

#include "server/pyroscope/profile_id.h"

static void test_round_trip(void **state)
{
	const struct pyroscope_profile_id ids[] = {
		{0, 0},
		{1, 1},
		{1764312345678, 0x123456789abcdef0},
		{PYROSCOPE_ID_MS_MAX, UINT64_MAX},
		{1764312345678, 1ull << 63},
		{1764312345678, 0x003f},
		{1764312345678, 1ull << 46},
	};
	for (size_t i = 0; i < sizeof(ids) / sizeof(*ids); i++) {
		char text[PYROSCOPE_ID_TEXT], upper[PYROSCOPE_ID_TEXT];
		struct pyroscope_profile_id back;
		pyroscope_profile_id_format(&ids[i], text);
		assert_int_equal(strlen(text), 36);
		assert_int_equal(text[14], '8'); /* the version */
		assert_non_null(strchr("89ab", text[19]));
		for (size_t k = 0; k < sizeof(text); k++)
			upper[k] = text[k] >= 'a' && text[k] <= 'f' ? (char)(text[k] - 32) : text[k];
		assert_int_equal(pyroscope_profile_id_parse(upper, &back, NULL), 0);
		assert_true(back.time_ms == ids[i].time_ms);
		assert_true(back.series == ids[i].series);
	}
}

/* Every other digit in every place: no id that was changed is taken for a profile of another time or series without the check.
 */
static void test_changed(void **state)
{
	const struct pyroscope_profile_id id = {1764312345678, 0x123456789abcdef0};
	char text[PYROSCOPE_ID_TEXT];
	int taken = 0;
	pyroscope_profile_id_format(&id, text);
	for (size_t i = 0; i < 36; i++)
		for (const char *digit = "0123456789abcdef"; text[i] != '-' && *digit; digit++) {
			char changed[PYROSCOPE_ID_TEXT];
			struct pyroscope_profile_id back;
			memcpy(changed, text, sizeof(text));
			changed[i] = *digit;
			if (*digit != text[i])
				taken += pyroscope_profile_id_parse(changed, &back, NULL) == 0;
		}
	assert_in_range(taken, 0, 15); /* of 480, with a check of 8 bits */
}

static void test_none(void **state)
{
	static const char *const bad[] = {"",
					  "x",
					  "7c9e6679-7425-40de-944b-e07fc1f90ae",
					  "7c9e6679-7425-40de-944b-e07fc1f90ae77",
					  "7c9e6679a7425-40de-944b-e07fc1f90ae7",
					  "7c9e6679-7425-40de-944b-e07fc1f90aeg",
					  "7c9e667974254-0de-944b-e07fc1f90ae7b",
					  "{7c9e6679-7425-40de-944b-e07fc1f90a}"};
	struct pyroscope_profile_id id;
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
		assert_int_equal(pyroscope_profile_id_parse(bad[i], &id, NULL), -EINVAL);
	assert_int_equal(pyroscope_profile_id_parse("7c9e6679-7425-40de-944b-e07fc1f90ae7", &id, NULL), 1);
	assert_int_equal(pyroscope_profile_id_parse("00000000-0000-0000-0000-000000000000", &id, NULL), 1);
	/* Anybody can make the check; no profile has a time that nanoseconds do not reach. */
	for (size_t i = 0; i < 2; i++) {
		char text[PYROSCOPE_ID_TEXT];
		id = (struct pyroscope_profile_id){i ? (1ll << 48) - 1 : PYROSCOPE_ID_MS_MAX + 1, 5};
		pyroscope_profile_id_format(&id, text);
		assert_int_equal(pyroscope_profile_id_parse(text, &id, NULL), 1);
	}
}

static void test_list(void **state)
{
	const struct pyroscope_profile_id late = {2000, 5}, early = {1000, 7};
	struct pyroscope_profile_id found[PYROSCOPE_IDS_MAX];
	char texts[2][PYROSCOPE_ID_TEXT];
	size_t count;
	pyroscope_profile_id_format(&late, texts[0]);
	pyroscope_profile_id_format(&early, texts[1]);
	const char *items[PYROSCOPE_IDS_MAX + 1] = {texts[0], texts[1], texts[0], "7c9e6679-7425-40de-944b-e07fc1f90ae7"};
	struct rpc_list list = {.items = items, .count = 4};
	assert_int_equal(pyroscope_profile_ids(&list, found, &count, NULL), 0);
	assert_int_equal(count, 2);
	assert_int_equal(found[0].time_ms, 1000);
	assert_int_equal(found[1].series, 5);
	for (list.count = 0; list.count <= PYROSCOPE_IDS_MAX; list.count++)
		items[list.count] = texts[0];
	assert_int_equal(pyroscope_profile_ids(&list, found, &count, NULL), -EINVAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_round_trip),
		cmocka_unit_test(test_changed),
		cmocka_unit_test(test_none),
		cmocka_unit_test(test_list),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
