// SPDX-License-Identifier: Apache-2.0
/*
 * Line tables: of the interpreter that is installed, beside what it says of each instruction of a few modules itself; short
 * ones that 3.6, 3.9 and 3.10 made, with their lines as `dis` and co_lines() of that version print them; and tables made by
 * hand.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/test_programs.h"
#include "runtime/python.h"

static size_t from_hex(const char *hex, uint8_t *ret, size_t max)
{
	size_t len = 0;

	for (; hex[0] && hex[1]; hex += 2) {
		char digits[] = {hex[0], hex[1], 0};
		assert_true(len < max);
		ret[len++] = (uint8_t)strtoul(digits, NULL, 16);
	}
	return len;
}

struct lines {
	uint32_t line, count; /* of instructions that follow each other */
};

/* `lines` ends with a count of 0. */
static void check_lines(enum python_line_format format, const char *hex, uint32_t first, const struct lines *lines)
{
	uint8_t table[1024];
	uint32_t place = 0;

	size_t len = from_hex(hex, table, sizeof(table));
	for (; lines->count; lines++) {
		for (uint32_t i = 0; i < lines->count; i++, place++) {
			uint32_t line = python_line(format, (struct bytes){table, len}, first, place);
			if (line != lines->line)
				fail_msg("%s: line %u of instruction %u, not %u", hex, line, place, lines->line);
		}
	}
}

/*
 * Of this, where the dots stand for 300, 129 and 129 empty lines, and for 130 attributes:
 *
 *   def f(a):
 *       a(1, ...
 *         a.b.b...,
 *         a) ...
 *       return a
 */
static void test_tables_of_old_versions(void **state)
{
	/* 3.6 goes on only. */
	check_lines(PYTHON_LINES_LNOTAB, "0001047f007f002eff000701067f0004", 1,
		    (struct lines[]){{2, 2}, {302, 131}, {303, 3}, {434, 2}, {0, 0}});
	/* 3.9 comes back to the call. */
	check_lines(PYTHON_LINES_LNOTAB, "0001047f007f002eff0007010280008000d3047f007f007f0033", 1,
		    (struct lines[]){{2, 2}, {302, 131}, {303, 1}, {2, 2}, {434, 2}, {0, 0}});
	check_lines(PYTHON_LINES_TABLE, "0401007f007ffe2e080002010081008104d1007f007f007f0433", 1,
		    (struct lines[]){{2, 2}, {302, 131}, {303, 1}, {2, 2}, {434, 2}, {0, 0}});
}

/* 3.10: with a: pass; try: a(); except E as e: pass. What ends the except has no line. */
static void test_code_without_line(void **state)
{
	check_lines(PYTHON_LINES_TABLE, "060102011cff02020c010e010e01088002ff", 1,
		    (struct lines[]){{2, 3}, {3, 1}, {2, 14}, {4, 1}, {5, 6}, {6, 7}, {7, 7}, {0, 4}, {6, 1}, {1, 1}, {0, 0}});
}

static void test_lnotab_by_hand(void **state)
{
	/* Before the first pair: the first line. */
	check_lines(PYTHON_LINES_LNOTAB, "0405", 10, (struct lines[]){{10, 2}, {15, 100}, {0, 0}});
	check_lines(PYTHON_LINES_LNOTAB, "", 10, (struct lines[]){{10, 3}, {0, 0}});
	/* Half a pair at the end is none. */
	check_lines(PYTHON_LINES_LNOTAB, "040506", 10, (struct lines[]){{10, 2}, {15, 100}, {0, 0}});
	/* 600 bytes without a line: 255 + 255 + 90; then 127 + 127 + 6 lines. */
	check_lines(PYTHON_LINES_LNOTAB, "ff00ff005a7f007f0006", 1, (struct lines[]){{1, 300}, {261, 10}, {0, 0}});
	/* Back by 128, 128 and 4. */
	check_lines(PYTHON_LINES_LNOTAB,
		    "02800080"
		    "00fc",
		    1000, (struct lines[]){{1000, 1}, {740, 10}, {0, 0}});
	/* Lines below 0 are none. */
	check_lines(PYTHON_LINES_LNOTAB, "0280", 100, (struct lines[]){{100, 1}, {0, 1}, {0, 0}});
	assert_int_equal(python_line(PYTHON_LINES_LNOTAB, (struct bytes){(const uint8_t *)"\0\177", 2}, UINT32_MAX, 0), 0);
}

static void test_linetable_by_hand(void **state)
{
	check_lines(PYTHON_LINES_TABLE, "", 10, (struct lines[]){{10, 3}, {0, 0}});
	check_lines(PYTHON_LINES_TABLE, "0401", 10, (struct lines[]){{11, 2}, {10, 3}, {0, 0}}); /* behind the end */
	check_lines(PYTHON_LINES_TABLE, "040102", 10, (struct lines[]){{11, 2}, {10, 3}, {0, 0}});
	/* -128 does not count for the next one. */
	check_lines(PYTHON_LINES_TABLE, "04800405", 10, (struct lines[]){{0, 2}, {15, 2}, {0, 0}});
	check_lines(PYTHON_LINES_TABLE, "fe00fe00047f", 10, (struct lines[]){{10, 254}, {137, 2}, {0, 0}});
	check_lines(PYTHON_LINES_TABLE, "048104810481", 255, (struct lines[]){{128, 2}, {1, 2}, {0, 2}, {0, 0}});
}

/* Entries: 1 | code << 3 | length - 1, and what the code has. */
static void test_locations_by_hand(void **state)
{
	check_lines(PYTHON_LINES_LOCATIONS, "", 10, (struct lines[]){{10, 3}, {0, 0}});
	/* Short forms: the same line, 8 instructions, one byte. */
	check_lines(PYTHON_LINES_LOCATIONS, "8705cf05", 10, (struct lines[]){{10, 16}, {10, 3}, {0, 0}});
	/* One-line forms: 10, 11, 12 are 0, 1, 2 lines on. */
	check_lines(PYTHON_LINES_LOCATIONS, "d00102d80102e10102", 10,
		    (struct lines[]){{10, 1}, {11, 1}, {13, 2}, {10, 1}, {0, 0}});
	/* Without columns: varints 2 (1 on), 3 (1 back), 0x40|0x3f 0x01 (0x7f: 63 back). */
	check_lines(PYTHON_LINES_LOCATIONS, "e802e803e87f01", 100, (struct lines[]){{101, 1}, {100, 1}, {37, 1}, {0, 0}});
	/* The long form: 0x40|0 0x40|1 0x3f is 0x3f040: 0x1f820 on; then end line and columns as varints of several bytes. */
	check_lines(PYTHON_LINES_LOCATIONS, "f040413f407f01017f3fd80000", 1,
		    (struct lines[]){{0x1f821, 1}, {0x1f822, 1}, {0, 0}});
	/* No line, which the next one does not count from. */
	check_lines(PYTHON_LINES_LOCATIONS, "fad80000", 10, (struct lines[]){{0, 3}, {11, 1}, {0, 0}});
	/* Lines below 0 are none. */
	check_lines(PYTHON_LINES_LOCATIONS, "e80b", 5, (struct lines[]){{0, 1}, {5, 1}, {0, 0}});
}

static void test_damaged_locations(void **state)
{
	/* Begins with no entry. */
	check_lines(PYTHON_LINES_LOCATIONS, "05d80000", 10, (struct lines[]){{10, 4}, {0, 0}});
	/* Cut in every place: never another line than that of the whole, or the first. */
	uint8_t table[64];
	size_t len = from_hex("f040413f407f01017f3fd80000e87f01fa8705", table, sizeof(table));
	for (size_t cut = 0; cut < len; cut++) {
		for (uint32_t place = 0; place < 14; place++) {
			uint32_t whole = python_line(PYTHON_LINES_LOCATIONS, (struct bytes){table, len}, 1, place);
			uint32_t part = python_line(PYTHON_LINES_LOCATIONS, (struct bytes){table, cut}, 1, place);
			bool is_in_number = (cut > 0 && cut < 4) || (cut > 13 && cut < 16); /* of the line */
			assert_true(part == whole || part == 1 || is_in_number);
		}
	}
	/* A number without end, and one that is as large as can be. */
	uint8_t *endless = malloc(PYTHON_LINES_BYTES_MAX);
	memset(endless, 0x7f, PYTHON_LINES_BYTES_MAX);
	endless[0] = 0xf0;
	struct bytes bytes = {endless, PYTHON_LINES_BYTES_MAX};
	assert_int_equal(python_line(PYTHON_LINES_LOCATIONS, bytes, 7, 0), 0);
	assert_int_equal(python_line(PYTHON_LINES_LOCATIONS, bytes, 7, RUNTIME_PLACE_MAX), 7);
	endless[1] = 0x7e;
	assert_int_equal(python_line(PYTHON_LINES_LOCATIONS, bytes, 7, 0), 0); /* 2^59 lines on */
	/* Entries only. */
	memset(endless, 0x87, PYTHON_LINES_BYTES_MAX);
	assert_int_equal(python_line(PYTHON_LINES_LOCATIONS, bytes, 7, 8 * PYTHON_LINES_BYTES_MAX - 1), 7);
	/* As many large steps as there is room for must not add up to a line that there is. */
	for (size_t i = 0; i + 11 <= PYTHON_LINES_BYTES_MAX; i += 11)
		memcpy(endless + i, "\xe8\x7e\x7f\x7f\x7f\x7f\x7f\x7f\x7f\x7f\x3f", 11);
	assert_int_equal(python_line(PYTHON_LINES_LOCATIONS, bytes, 7, PYTHON_LINES_BYTES_MAX / 11 - 1), 0);
	free(endless);
}

/* ---- beside the interpreter ---- */

/* A code object a line: format, first line, table, and "LINE*COUNT" for instructions that follow each other. */
static const char script[] =
	"import dis, importlib, inspect, itertools, sys\n"
	"def lines(code):\n"
	"    if hasattr(code, 'co_lines'):\n"
	"        return [line or 0 for start, end, line in code.co_lines() for _ in range(start, end, 2)]\n"
	"    starts, line, out = dict(dis.findlinestarts(code)), code.co_firstlineno, []\n"
	"    for at in range(0, len(code.co_code), 2):\n"
	"        line = starts.get(at, line)\n"
	"        out.append(line)\n"
	"    return out\n"
	"def walk(code):\n"
	"    runs = ['%d*%d' % (line, len(list(run))) for line, run in itertools.groupby(lines(code))]\n"
	"    table = code.co_linetable if hasattr(code, 'co_linetable') else code.co_lnotab\n"
	"    format = 2 if sys.version_info >= (3, 11) else 1 if sys.version_info >= (3, 10) else 0\n"
	"    print(format, code.co_firstlineno, table.hex() or '-', *runs)\n"
	"    for constant in code.co_consts:\n"
	"        if hasattr(constant, 'co_code'):\n"
	"            walk(constant)\n"
	"long = 'def f(a):\\n    a(1,' + '\\n' * 300 + 'a' + '.b' * 300 + ',\\n a)\\n' + '\\n' * 130 + '    return a\\n'\n"
	"walk(compile(long, 'long', 'exec'))\n"
	"walk(compile('x = [' + ',\\n\\n'.join('a%d(i) if i else -i' % i for i in range(300)) + ']', 'list', 'exec'))\n"
	"for name in 'os', 'inspect', 'typing', 'argparse', 'dis', 'tarfile', 'asyncio.base_events':\n"
	"    with open(importlib.import_module(name).__file__, encoding='utf-8') as f:\n"
	"        walk(compile(f.read(), name, 'exec'))\n";

static const enum python_line_format formats[] = {PYTHON_LINES_LNOTAB, PYTHON_LINES_TABLE, PYTHON_LINES_LOCATIONS};

/* Returns how many instructions it has. */
static size_t check_code(char *text)
{
	static uint8_t table[PYTHON_LINES_BYTES_MAX];
	char *rest, *word = strtok_r(text, " \n", &rest);
	uint32_t place = 0;

	unsigned long format = strtoul(word, NULL, 10);
	assert_true(format < sizeof(formats) / sizeof(formats[0]));
	uint32_t first = (uint32_t)strtoul(strtok_r(NULL, " \n", &rest), NULL, 10);
	word = strtok_r(NULL, " \n", &rest);
	struct bytes lines = {table, word[0] == '-' ? 0 : from_hex(word, table, sizeof(table))};
	while ((word = strtok_r(NULL, " \n", &rest))) {
		char *count_at;
		unsigned long line = strtoul(word, &count_at, 10), count = strtoul(count_at + 1, NULL, 10);
		for (unsigned long i = 0; i < count; i++, place++) {
			uint32_t found = python_line(formats[format], lines, first, place);
			if (found != line)
				fail_msg("code at line %u: line %u of instruction %u, not %lu", first, found, place, line);
		}
	}
	return place;
}

static void test_installed_interpreter(void **state)
{
	char path[] = "/tmp/python_lines_test.XXXXXX", command[256], *line = NULL;
	size_t size = 0, codes = 0, instructions = 0;

	if (!test_program_is_there("/usr/bin/python3")) {
		print_message("skipped: test_installed_interpreter: /usr/bin/python3 is not installed\n");
		skip();
	}
	int fd = mkstemp(path);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, script, sizeof(script) - 1), sizeof(script) - 1);
	close(fd);
	snprintf(command, sizeof(command), "/usr/bin/python3 -I %s", path);
	FILE *out = popen(command, "r");
	assert_non_null(out);
	while (getline(&line, &size, out) > 0) {
		instructions += check_code(line);
		codes++;
	}
	free(line);
	assert_int_equal(pclose(out), 0);
	unlink(path);
	print_message("%zu code objects, %zu instructions\n", codes, instructions);
	assert_true(codes > 500 && instructions > 20000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_tables_of_old_versions), cmocka_unit_test(test_code_without_line),
		cmocka_unit_test(test_lnotab_by_hand),	       cmocka_unit_test(test_linetable_by_hand),
		cmocka_unit_test(test_locations_by_hand),      cmocka_unit_test(test_damaged_locations),
		cmocka_unit_test(test_installed_interpreter),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
