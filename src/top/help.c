/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "top/top_int.h"

#define KEY_WIDTH 17

static const struct {
	const char *key, *does;
} lines[] = {
	{"1 to 6, Tab", "functions, processes, threads, binaries, tree, flame"},
	{"F5, t", "tree; again: flame"},
	{"H", "threads; again: processes"},
	{"Enter", "look into it: functions of a process, calls of a function"},
	{"Backspace, Esc", "back"},
	{"Arrows, Home ...", "move; in the flame by caller, callee, neighbour"},
	{"F4, \\", "filter: only lines with this text; a|b for either"},
	{"F3, /", "search; F3 again: the next one"},
	{"F6, >, <", "sort by the next column, the one before"},
	{"P, T, N", "sort by CPU time, by total, by process id"},
	{"I", "reverse the order"},
	{"K", "hide the kernel: its time counts for who called it"},
	{"i", "show the internals of interpreters (Python, PHP ...)"},
	{"%", "percent of all CPUs, or of one"},
	{"Z, Space", "pause; again: go on"},
	{"q, F10, Ctrl-C", "quit"},
	{"", ""},
	{"SELF%, TOTAL%", "CPU time in the function; with what it called"},
	{"KERNEL%", "the part of CPU% (SELF%) spent in the kernel"},
	{"K i j", "frame of the kernel, interpreted, compiled at run time"},
	{"incomplete", "stacks that could not be followed to their end"},
};

/* How much of a text fits a width, up to a blank if there is one. */
static size_t fitting(const char *text, size_t width)
{
	size_t len = strlen(text), at = width;
	if (len <= width)
		return len;
	while (at > 0 && text[at] != ' ')
		at--;
	return at ? at : width;
}

/* Line `at` of the help as it is on this screen: a part of one above. False behind the last. */
static bool find_part(size_t at, unsigned width, const char **ret_key, const char **ret_text, size_t *ret_len)
{
	for (size_t i = 0; i < sizeof(lines) / sizeof(*lines); i++) {
		const char *rest = lines[i].does;
		*ret_key = lines[i].key;
		do {
			*ret_text = rest;
			*ret_len = fitting(rest, width);
			if (at-- == 0)
				return true;
			rest += *ret_len + (rest[*ret_len] == ' ');
			*ret_key = "";
		} while (*rest);
	}
	return false;
}

size_t top_help_length(unsigned columns)
{
	const char *key, *text;
	size_t count = 0, len;
	while (find_part(count, columns > KEY_WIDTH + 8 ? columns - KEY_WIDTH : 8, &key, &text, &len))
		count++;
	return count;
}

void top_draw_help(const struct top *top, struct screen *screen)
{
	unsigned columns = screen->columns, width = columns > KEY_WIDTH + 8 ? columns - KEY_WIDTH : 8;
	unsigned end = screen->rows ? screen->rows - 1 : 0;
	const char *key, *text;
	size_t len;
	screen_put_string(screen, 0, 0, columns, STYLE_STRONG,
			  columns < 60 ? "100% is one CPU" : "wick top: 100% is one CPU (% switches to all of them)");
	for (unsigned row = 1; row < end && find_part(top->help_first + row - 1, width, &key, &text, &len); row++) {
		screen_put_string(screen, row, 0, KEY_WIDTH - 1, STYLE_STRONG, key);
		screen_put(screen, row, KEY_WIDTH, width, STYLE_PLAIN, (struct bytes){(const uint8_t *)text, len});
	}
	screen_put_string(screen, end, 0, columns, STYLE_DIM,
			  top_help_length(columns) + 2 > screen->rows ? "arrows scroll, other keys go back"
								      : "any key goes back");
}
