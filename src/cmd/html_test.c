/* SPDX-License-Identifier: Apache-2.0 */
/* A time line that is too large costs the page nothing but itself. What a page shows is looked at in tests/browser. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>

#include <errno.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/fault.h"
#include "base/limits.h"
#include "cmd/cmd.h"
#include "codec/base64.h"
#include "codec/compress.h"
#include "profile/test_profile.h"

static struct profile *make(void)
{
	struct profile *profile;
	assert_int_equal(profile_new(&profile, NULL), 0);
	uint32_t type = test_string(profile, "samples");
	assert_int_equal(profile_add_sample_type(profile, type, type, NULL), 0);
	for (int64_t i = 0; i < 20; i++) {
		struct profile_sample sample = {.time_ns = 1700000000000000000ll + i};
		assert_int_equal(profile_add_sample(profile, &sample, &i, NULL), 0);
	}
	return profile;
}

/* What the element of that id holds, unpacked; empty if there is nothing in it. */
static void read_element(const struct buffer *page, const char *id, struct buffer *ret)
{
	_cleanup_(buffer_release) struct buffer packed = {0};
	const char *at = strstr((const char *)page->data, id), *begin = at ? strchr(at, '>') : NULL,
		   *end = begin ? strstr(begin, "</script>") : NULL;
	assert_non_null(end);
	buffer_init(&packed, MIB);
	assert_int_equal(base64_decode((struct bytes){(const uint8_t *)begin + 1, (size_t)(end - begin) - 1}, &packed), 0);
	if (packed.len > 0)
		assert_int_equal(gzip_decompress(buffer_bytes(&packed), ret, NULL), 0);
	assert_int_equal(buffer_append_byte(ret, 0), 0);
}

static void test_timeline_too_large(void **state)
{
	_cleanup_(profile_freep) struct profile *profile = make();
	(void)state;
	for (size_t max = 10; max < 1000; max += 490) {
		_cleanup_(buffer_release) struct buffer page = {0}, json = {0}, columns = {0};
		struct error err = {0};
		buffer_init(&page, 10 * MIB);
		buffer_init(&json, MIB);
		buffer_init(&columns, MIB);
		assert_int_equal(html_write_within(profile, "/home/x/a.pb.gz", max, &page, &err), 0);
		assert_int_equal(buffer_append_byte(&page, 0), 0);
		read_element(&page, "id=\"profile\"", &json);
		read_element(&page, "id=\"timeline\"", &columns);
		assert_non_null(strstr((const char *)json.data, "\"flame\":"));
		assert_int_equal(strstr((const char *)json.data, "\"timeline\":") != NULL, max > 10);
		assert_int_equal(strstr((const char *)json.data,
					"\"no_timeline\":\"samples and markers need more than 10 bytes") != NULL,
				 max == 10);
		assert_int_equal(columns.len > 1, max > 10);
	}
}

static void test_failures(void **state)
{
	_cleanup_(profile_freep) struct profile *profile = make();
	(void)state;
	bool reached = true;
	for (uint64_t n = 1; reached; n++) {
		_cleanup_(buffer_release) struct buffer page = {0};
		struct error err = {0};
		buffer_init(&page, 10 * MIB);
		fault_arm(FAULT_ALLOC, n, 0);
		int r = html_write_within(profile, "a", 10, &page, &err);
		reached = fault_disarm(FAULT_ALLOC);
		assert_int_equal(r, reached ? -ENOMEM : 0);
		assert_int_equal(err.message[0] != 0, reached);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_timeline_too_large),
		cmocka_unit_test(test_failures),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
