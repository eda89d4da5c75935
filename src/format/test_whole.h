/* SPDX-License-Identifier: Apache-2.0 */
/* Tests that each format of texts has, after format/test_text.h: of a whole text, `whole_text`, which a file that includes this
 * defines. */
#ifndef WICK_FORMAT_TEST_WHOLE_H
#define WICK_FORMAT_TEST_WHOLE_H

#include "format/test_text.h"

static const char *const whole_text;

HELPER void test_damaged(void **state)
{
	check_damaged(tested, bytes_of_string(whole_text));
}

HELPER void test_no_memory(void **state)
{
	check_no_memory(tested, bytes_of_string(whole_text));
}

#endif
