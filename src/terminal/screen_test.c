/* SPDX-License-Identifier: Apache-2.0 */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/fault.h"
#include "terminal/screen.h"

#define ROWS	4u
#define COLUMNS 12u

static const char *const styles[] = {"", "1", "7"};

static void begin(struct screen *screen)
{
	*screen = (struct screen){.styles = styles};
	assert_int_equal(screen_resize(screen, ROWS, COLUMNS), 0);
}

/* What a terminal shows that got all bytes: only what screen.c sends is understood. */
struct shown {
	char text[ROWS][COLUMNS + 1];
	unsigned row, column;
	size_t bytes;
};

static void show(struct shown *shown, const struct buffer *sent)
{
	shown->bytes = sent->len;
	for (const char *at = (const char *)sent->data, *end = at + sent->len; at < end;) {
		if (*at != '\033') {
			assert_true((unsigned char)*at >= ' ' && *at != 0x7f);
			assert_true(shown->row < ROWS && shown->column < COLUMNS);
			shown->text[shown->row][shown->column++] = *at++;
			continue;
		}
		const char *last = at + 2 + strspn(at + 2, "0123456789;");
		assert_true(at[1] == '[' && last < end);
		if (*last == 'H') {
			char *next;
			shown->row = (unsigned)strtoul(at + 2, &next, 10) - 1;
			shown->column = (unsigned)strtoul(next + 1, NULL, 10) - 1;
		} else if (*last == 'J') {
			memset(shown->text, 0, sizeof(shown->text));
			for (unsigned i = 0; i < ROWS; i++)
				memset(shown->text[i], ' ', COLUMNS);
		} else
			assert_int_equal(*last, 'm');
		at = last + 1;
	}
}

static void draw(struct screen *screen, struct shown *shown)
{
	_cleanup_(buffer_release) struct buffer sent = {.max = SIZE_MAX};
	assert_int_equal(screen_draw(screen, &sent), 0);
	show(shown, &sent);
}

static void test_differences(void **state)
{
	_cleanup_(screen_release) struct screen screen = {0};
	struct shown shown = {0};
	begin(&screen);
	screen_put_string(&screen, 0, 0, COLUMNS, 0, "one two");
	screen_put_string(&screen, 3, 4, 8, 1, "bottom right");
	draw(&screen, &shown);
	assert_string_equal(shown.text[0], "one two     ");
	assert_string_equal(shown.text[1], "            ");
	assert_string_equal(shown.text[3], "    bottom r");
	draw(&screen, &shown);
	assert_int_equal(shown.bytes, 0); /* nothing changed */
	screen_clear(&screen);
	screen_put_string(&screen, 0, 0, COLUMNS, 0, "one Two");
	screen_put_string(&screen, 2, 0, 3, 0, "cut off");
	draw(&screen, &shown);
	assert_string_equal(shown.text[0], "one Two     ");
	assert_string_equal(shown.text[2], "cut         ");
	assert_string_equal(shown.text[3], "            ");
	screen_forget(&screen);
	memset(shown.text, 'x', sizeof(shown.text));
	draw(&screen, &shown);
	assert_string_equal(shown.text[0], "one Two     ");
}

/* Whatever comes after whatever, the terminal shows what the screen has. */
static void test_any_pictures(void **state)
{
	_cleanup_(screen_release) struct screen screen = {0};
	struct shown shown = {0};
	srand(7);
	begin(&screen);
	for (int round = 0; round < 500; round++) {
		char text[8] = "";
		if (round % 10 == 0)
			screen_clear(&screen);
		for (size_t i = 0; i < 6; i++)
			text[i] = (char)("ab "[rand() % 3]);
		screen_put_string(&screen, (unsigned)rand() % ROWS, (unsigned)rand() % COLUMNS, 6, (unsigned)rand() % 3, text);
		draw(&screen, &shown);
		for (unsigned row = 0; row < ROWS; row++)
			for (unsigned column = 0; column < COLUMNS; column++)
				assert_int_equal(shown.text[row][column], screen.cells[row * COLUMNS + column].code);
	}
}

static void test_hostile(void **state)
{
	_cleanup_(screen_release) struct screen screen = {0};
	struct shown shown = {0};
	begin(&screen);
	screen_put_string(&screen, 0, 0, COLUMNS, 0, "a\033[2J\rb\n\x9b");
	screen_put_string(&screen, 1, 0, COLUMNS, 0, "x\xe2\x80\xaey"); /* right to left from here on */
	screen_put_string(&screen, ROWS, 0, COLUMNS, 0, "outside");
	screen_put_string(&screen, 0, COLUMNS, 5, 0, "outside");
	screen.is_ascii = true;
	screen_put_string(&screen, 2, 0, COLUMNS, 0, "\xc3\xa4\xe5\xae\xbd");
	draw(&screen, &(struct shown){0});
	_cleanup_(buffer_release) struct buffer sent = {.max = SIZE_MAX};
	screen_forget(&screen);
	assert_int_equal(screen_draw(&screen, &sent), 0);
	assert_non_null(memmem(sent.data, sent.len, "a?[2J?b?", 8));
	assert_non_null(memmem(sent.data, sent.len, "x?y", 3));
	assert_non_null(memmem(sent.data, sent.len, "??", 2));
	(void)shown;
}

static void test_wide(void **state)
{
	_cleanup_(screen_release) struct screen screen = {0};
	begin(&screen);
	assert_int_equal(screen_text_width(bytes_of_string("\xe5\xae\xbd")), 2);
	assert_int_equal(screen_text_width(bytes_of_string("e\xcc\x81")), 1);
	/* Half of one is not shown. */
	screen_put_string(&screen, 0, 0, 3, 0, "\xe5\xae\xbd\xe5\xae\xbd");
	assert_int_equal(screen.cells[0].code, 0x5bbd);
	assert_int_equal(screen.cells[1].code, 0);
	assert_int_equal(screen.cells[2].code, ' ');
}

static void test_sizes(void **state)
{
	_cleanup_(screen_release) struct screen screen = {.styles = styles};
	_cleanup_(buffer_release) struct buffer sent = {.max = SIZE_MAX};
	assert_int_equal(screen_resize(&screen, 1, 1), 0);
	screen_put_string(&screen, 0, 0, 10, 0, "wide");
	assert_int_equal(screen_draw(&screen, &sent), 0);
	assert_int_equal(screen_resize(&screen, 5000, 5000), 0);
	assert_int_equal(screen.rows, SCREEN_ROWS_MAX);
	assert_int_equal(screen.columns, SCREEN_COLUMNS_MAX);
	fault_arm(FAULT_ALLOC, 1, 0);
	assert_int_equal(screen_resize(&screen, 10, 10), -ENOMEM);
	assert_int_equal(screen.rows, SCREEN_ROWS_MAX);
	assert_true(fault_disarm(FAULT_ALLOC));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_differences), cmocka_unit_test(test_any_pictures), cmocka_unit_test(test_hostile),
		cmocka_unit_test(test_wide),	    cmocka_unit_test(test_sizes),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
