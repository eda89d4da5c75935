/* SPDX-License-Identifier: Apache-2.0 */
/* What a person types, from the bytes that a terminal sends for it. Essay at the top of keys.c. */
#ifndef WICK_TERMINAL_KEYS_H
#define WICK_TERMINAL_KEYS_H

#include "base/buffer.h"

/* A key is the code of a character, or one of these, which are none. */
enum key {
	KEY_ENTER = '\r',
	KEY_ESCAPE = 0x1b,
	KEY_BACKSPACE = 0x7f,
	KEY_UNKNOWN = 0x110000, /* a sequence that is not in the table */
	KEY_UP,
	KEY_DOWN,
	KEY_LEFT,
	KEY_RIGHT,
	KEY_PAGE_UP,
	KEY_PAGE_DOWN,
	KEY_HOME,
	KEY_END,
	KEY_INSERT,
	KEY_DELETE,
	KEY_BACK_TAB,
	KEY_F1, /* to F12, which follow */
	KEY_F12 = KEY_F1 + 11,
};
#define KEY_F(number)	 (KEY_F1 + (number)-1)
#define KEY_CTRL(letter) ((uint32_t)((letter)&0x1f))

/* The first key of what was read: how many bytes it takes. 0 = its end is still to come, unless `is_all`: nothing came for a
 * while, so an escape stands for itself. Input is not empty. */
size_t keys_decode(struct bytes input, bool is_all, uint32_t *ret_key);

#endif
