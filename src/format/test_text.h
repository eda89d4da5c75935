/* SPDX-License-Identifier: Apache-2.0 */
/* Helpers of the tests of formats that are read from texts; each defines `tested`. */
#ifndef WICK_FORMAT_TEST_TEXT_H
#define WICK_FORMAT_TEST_TEXT_H

#include "format/test_format.h"

static const struct format *const tested;
static struct buffer notes = {.max = SIZE_MAX}; /* of the last decode() */

HELPER int decode(const char *text, struct profile **ret, struct error *err)
{
	struct bytes input = bytes_of_string(text);
	struct format_options options = {.notes = &notes};
	uint8_t *copy = exact_copy(input);
	*ret = NULL;
	buffer_clear(&notes);
	int r = tested->decode((struct bytes){copy, input.len}, &options, ret, err);
	free(copy);
	return r;
}

HELPER struct profile *read_text(const char *text)
{
	struct profile *profile;
	struct error err = {0};
	if (decode(text, &profile, &err) < 0)
		fail_msg("%s", err.message);
	assert_ptr_equal(format_detect(bytes_of_string(text)), tested);
	return profile;
}

/* expected: folded stacks of the values of this type. */
HELPER void check_profile(const struct profile *profile, const char *type, const char *expected)
{
	struct format_options options = {.sample_type = type};
	struct buffer out;
	buffer_init(&out, SIZE_MAX);
	assert_int_equal(format_encode(&format_folded, profile, &options, &out, NULL), 0);
	assert_string_equal(out.len ? buffer_string(&out) : "", expected);
	buffer_release(&out);
}

HELPER void check_text(const char *text, const char *type, const char *expected)
{
	struct profile *profile = read_text(text);
	check_profile(profile, type, expected);
	profile_free(profile);
}

HELPER void refuse(const char *text, const char *says)
{
	struct profile *profile;
	struct error err = {0};
	assert_true(decode(text, &profile, &err) < 0);
	if (!strstr(err.message, says))
		fail_msg("%s: \"%s\" does not say \"%s\"", text, err.message, says);
}

HELPER int release_notes(void **state)
{
	buffer_release(&notes);
	return 0;
}

#endif
