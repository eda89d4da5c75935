// SPDX-License-Identifier: Apache-2.0
#include "runtime/function.h"

#include <string.h>

#include "base/text.h"

#define REPLACEMENT "\xef\xbf\xbd"

/* The character that text begins with, as it is to be shown. */
static struct bytes take_character(struct bytes *text)
{
	bool is_valid;
	size_t len = text_utf8_sequence(*text, &is_valid);
	struct bytes character = {text->data, len};

	text->data += len;
	text->len -= len;
	if (!is_valid || (len == 1 && (character.data[0] < 0x20 || character.data[0] == 0x7f)))
		return bytes_of_string(REPLACEMENT);
	return character;
}

void runtime_name_append(struct bytes text, char ret[static RUNTIME_NAME_BYTES_MAX], size_t *len)
{
	while (text.len) {
		struct bytes character = take_character(&text);
		if (*len + character.len >= RUNTIME_NAME_BYTES_MAX)
			break;
		memcpy(ret + *len, character.data, character.len);
		*len += character.len;
	}
	ret[*len] = 0;
}
