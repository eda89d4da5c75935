/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keys. Terminals send characters as they are, and for other keys an escape sequence:
 *
 *   ESC [ A              arrows (A B C D), home and end (H F), backwards tab (Z)
 *   ESC O A              the same where "application mode" is on, and F1 to F4 (P Q R S)
 *   ESC [ 5 ~            by number: page keys, insert, delete, home, end, F1 to F12
 *   ESC [ 1 ; 5 A        with a modifier, which is ignored here
 *   ESC [ [ A            F1 to F5 of the Linux console
 *
 * xterm, its many relatives, tmux, screen, rxvt and the console agree on these but for what the table holds twice. So no
 * database of terminals is asked: there is none in an empty root or a small container, which is where people look for CPU time,
 * too.
 *
 * A lone escape is a key as well; whether it begins a sequence shows only when nothing follows it. A sequence that is not known
 * is one unknown key and not a key for each of its bytes, or what a terminal says of itself would be taken for commands.
 */
#include "terminal/keys.h"

#include <string.h>

#include "base/text.h"

#define SEQUENCE_MAX 32 /* longer ones are none */

struct named_key {
	uint32_t code, key;
};

static const struct named_key by_letter[] = {
	{'A', KEY_UP},	 {'B', KEY_DOWN}, {'C', KEY_RIGHT}, {'D', KEY_LEFT}, {'H', KEY_HOME},  {'F', KEY_END},
	{'P', KEY_F(1)}, {'Q', KEY_F(2)}, {'R', KEY_F(3)},  {'S', KEY_F(4)}, {'M', KEY_ENTER}, {'Z', KEY_BACK_TAB},
};
static const struct named_key by_number[] = {
	{1, KEY_HOME},	{2, KEY_INSERT}, {3, KEY_DELETE}, {4, KEY_END},	   {5, KEY_PAGE_UP}, {6, KEY_PAGE_DOWN}, {7, KEY_HOME},
	{8, KEY_END},	{11, KEY_F(1)},	 {12, KEY_F(2)},  {13, KEY_F(3)},  {14, KEY_F(4)},   {15, KEY_F(5)},	 {17, KEY_F(6)},
	{18, KEY_F(7)}, {19, KEY_F(8)},	 {20, KEY_F(9)},  {21, KEY_F(10)}, {23, KEY_F(11)},  {24, KEY_F(12)},
};

static uint32_t find(const struct named_key *table, size_t count, uint32_t code)
{
	for (size_t i = 0; i < count; i++)
		if (table[i].code == code)
			return table[i].key;
	return KEY_UNKNOWN;
}
#define FIND(table, code) find((table), sizeof(table) / sizeof(*(table)), (code))

/* Behind "ESC [": parameters, then one byte that ends it. */
static size_t decode_sequence(struct bytes input, bool is_all, uint32_t *ret_key)
{
	uint32_t number = 0;
	bool in_first = true;
	*ret_key = KEY_UNKNOWN;
	if (input.len > 2 && input.data[2] == '[') { /* the console's */
		if (input.len > 3 && input.data[3] >= 'A' && input.data[3] <= 'E')
			*ret_key = KEY_F(1) + (uint32_t)(input.data[3] - 'A');
		return input.len > 3 ? 4 : is_all ? input.len : 0;
	}
	for (size_t i = 2; i < input.len && i < SEQUENCE_MAX; i++) {
		uint8_t c = input.data[i];
		if (c >= 0x40 && c <= 0x7e) {
			*ret_key = c == '~' ? FIND(by_number, number) : FIND(by_letter, c);
			return i + 1;
		}
		if (c < 0x20 || c > 0x7e)
			return i; /* broken off */
		in_first = in_first && text_is_digit(c);
		if (in_first && number < 1000)
			number = 10 * number + (c - '0');
	}
	return input.len >= SEQUENCE_MAX ? SEQUENCE_MAX : is_all ? input.len : 0;
}

static size_t decode_escape(struct bytes input, bool is_all, uint32_t *ret_key)
{
	*ret_key = KEY_ESCAPE;
	if (input.len == 1)
		return is_all ? 1 : 0;
	if (input.data[1] == '[')
		return decode_sequence(input, is_all, ret_key);
	if (input.data[1] != 'O')
		return 1; /* Alt and a key is an escape and that key */
	if (input.len == 2)
		return is_all ? 1 : 0;
	*ret_key = FIND(by_letter, input.data[2]);
	return 3;
}

static uint32_t decode_character(struct bytes sequence)
{
	static const uint8_t masks[] = {0, 0x7f, 0x1f, 0x0f, 0x07};
	uint32_t code = sequence.data[0] & masks[sequence.len];
	for (size_t i = 1; i < sequence.len; i++)
		code = code << 6 | (sequence.data[i] & 0x3f);
	return code;
}

/* Bytes of the character that begins with this one, if it is well-formed. */
static size_t character_length(uint8_t first)
{
	return first < 0xc2 ? 1 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : first < 0xf5 ? 4 : 1;
}

size_t keys_decode(struct bytes input, bool is_all, uint32_t *ret_key)
{
	bool valid;
	uint8_t first = input.data[0];
	if (first == 0x1b)
		return decode_escape(input, is_all, ret_key);
	if (first < 0x80) {
		*ret_key = first == '\b' ? KEY_BACKSPACE : first == '\n' ? KEY_ENTER : first;
		return 1;
	}
	if (input.len < character_length(first) && !is_all)
		return 0;
	size_t len = text_utf8_sequence(input, &valid);
	*ret_key = valid ? decode_character((struct bytes){input.data, len}) : KEY_UNKNOWN;
	return len;
}
