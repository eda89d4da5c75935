/* SPDX-License-Identifier: Apache-2.0 */
/* Label sets as texts, for tests. Include after cmocka.h. */
#ifndef WICK_PROFILE_TEST_LABELS_H
#define WICK_PROFILE_TEST_LABELS_H

#include <stdio.h>
#include <string.h>

#include "profile/labels.h"

/* Appends {a="b", c="d"} with \\, \" and \n escaped; "{}" when empty. */
static inline int test_labels_format(const struct labels *labels, struct buffer *out)
{
	buffer_append_byte(out, '{');
	for (size_t i = 0; i < labels->count; i++) {
		buffer_printf(out, "%s%s=\"", i > 0 ? ", " : "", labels->items[i].name);
		for (const char *at = labels->items[i].value; *at; at++) {
			if (strchr("\\\"\n", *at))
				buffer_append_byte(out, '\\');
			buffer_append_byte(out, *at == '\n' ? 'n' : (uint8_t)*at);
		}
		buffer_append_byte(out, '"');
	}
	return buffer_append_byte(out, '}');
}

/* Sets what such a text says. */
static inline void test_labels_set(struct labels *labels, const char *text)
{
	assert_int_equal(*text++, '{');
	while (*text != '}') {
		char name[64], value[256];
		size_t len = 0;
		int at = 0;
		text += strspn(text, ", ");
		assert_int_equal(sscanf(text, "%63[^=]=\"%n", name, &at), 1);
		for (text += at; *text != '"'; text++) {
			text += *text == '\\';
			value[len++] = text[-1] == '\\' && *text == 'n' ? '\n' : *text;
		}
		value[len] = '\0';
		text++;
		assert_int_equal(labels_set(labels, name, value, NULL), 0);
	}
}

#endif
