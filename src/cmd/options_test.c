/* SPDX-License-Identifier: Apache-2.0 */
/* Options of verbs: each kind in each spelling, what is refused and how, and the help text. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/time.h"
#include "cmd/test_cmd.h"
#include "format/format.h"

/* What a verb with one option of each kind was given. */
struct given {
	bool flag, other;
	const char *text;
	unsigned number;
	enum { ONE = 1, TWO, THREE } choice;
	const struct format *format;
	int64_t duration_ns;
	uint64_t size;
	struct option_list list;
};

struct parsed {
	struct given given;
	struct operands operands;
	int status; /* 0 = go on, otherwise an exit status plus 1 */
	struct test_capture printed;
};

static struct parsed parsed; /* too large for a stack */

static bool with_environment;

static void parse_with(int argc, char **argv)
{
	struct given *given = &parsed.given;
	memset(&parsed, 0, sizeof(parsed));
	const struct option_row rows[] = {
		{'f', "flag", NULL, OPTION_FLAG, &given->flag, .help = "a flag"},
		{0, "flags", NULL, OPTION_FLAG, &given->other, .help = "a name that begins like another"},
		{'t', "text", "TEXT", OPTION_TEXT, &given->text, .help = "a text"},
		{'n', "number", "N", OPTION_UNSIGNED, &given->number, 5, 4000000000u, .help = "a number\nin two lines"},
		{'c', "choice", "CHOICE", OPTION_CHOICE, &given->choice, ONE, .choices = "one, two, three", .help = "a choice"},
		{0, "from", "FORMAT", OPTION_FORMAT, &given->format, .help = "a format"},
		{'d', "duration", "DURATION", OPTION_DURATION, &given->duration_ns, .help = "a duration"},
		{0, "size", "SIZE", OPTION_SIZE, &given->size, .help = "a size"},
		{'l', "list", "ITEM", OPTION_LIST, &given->list, .help = "a list"},
		{0, "a-name-that-fills-the-column", "X", OPTION_TEXT, &given->text, .help = "below its name"},
		{0, "elsewhere", "X", OPTION_TEXT, &given->text, .help = "not of the environment", .not_in_environment = true},
		{0}};
	const struct usage usage = {.verb = "try",
				    .synopsis = "[IN...]",
				    .description = "Tries options.",
				    .options = rows,
				    .environment = with_environment,
				    .examples = "wick try a\nwick try b"};
	test_capture_begin(&parsed.printed);
	parsed.status = options_parse(&usage, argc, argv, &parsed.operands);
	test_capture_end(&parsed.printed);
}

/* line: arguments separated by blanks; '_' stands for a blank within one. */
static void parse(const char *line)
{
	static char copy[512];
	char *argv[64] = {(char[]){"try"}}, *rest = copy, *word;
	int argc = 1;
	snprintf(copy, sizeof(copy), "%s", line);
	while (*line && (word = strsep(&rest, " "))) {
		for (char *at = word; *at; at++)
			*at = *at == '_' ? ' ' : *at;
		argv[argc++] = word;
	}
	argv[argc] = NULL;
	parse_with(argc, argv);
}

static void test_kinds(void **state)
{
	static const struct {
		const char *line;
		struct given want;
	} cases[] = {
		{"", {0}},
		{"-f", {.flag = true}},
		{"--flag --flags", {.flag = true, .other = true}},
		{"--flags", {.other = true}},
		{"-t abc", {.text = "abc"}},
		{"-tabc", {.text = "abc"}},
		{"--text abc", {.text = "abc"}},
		{"--text=abc", {.text = "abc"}},
		{"--text=", {.text = ""}},
		{"--text=a=b", {.text = "a=b"}},
		{"-t=b", {.text = "=b"}}, /* of a letter, all that follows */
		{"-t -f", {.text = "-f"}},
		{"--text --flag", {.text = "--flag"}},
		{"-t --", {.text = "--"}},
		{"--text a --text b", {.text = "b"}},
		{"-n 5", {.number = 5}},
		{"-n4000000000", {.number = 4000000000u}},
		{"--number=007", {.number = 7}},
		{"-c one", {.choice = ONE}},
		{"--choice=three", {.choice = THREE}},
		{"--from folded", {0}},
		{"-d 1500ms", {.duration_ns = 1500 * NS_PER_MS}},
		{"--duration 2", {.duration_ns = 2 * NS_PER_S}},
		{"--size 64k", {.size = 65536}},
		{"--size=1.5GiB", {.size = 1610612736}},
		{"--size 1_MB", {.size = 1048576}},
	};
	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const struct given *want = &cases[i].want;
		parse(cases[i].line);
		if (parsed.status != 0)
			fail_msg("%s: %s", cases[i].line, parsed.printed.err);
		assert_int_equal(parsed.given.flag, want->flag);
		assert_int_equal(parsed.given.other, want->other);
		assert_int_equal(parsed.given.number, want->number);
		assert_int_equal(parsed.given.choice, want->choice);
		assert_ptr_equal(parsed.given.format, strstr(cases[i].line, "--from") ? format_by_name("folded") : NULL);
		assert_int_equal(parsed.given.duration_ns, want->duration_ns);
		assert_int_equal(parsed.given.size, want->size);
		assert_int_equal(parsed.operands.count, 0);
		assert_string_equal(parsed.given.text ? parsed.given.text : "(none)", want->text ? want->text : "(none)");
		assert_string_equal(parsed.printed.err, "");
	}
}

static void test_refusals(void **state)
{
	static const struct {
		const char *line, *message;
	} cases[] = {
		{"-x", "unknown option '-x'"},
		{"--nothing", "unknown option '--nothing'"},
		{"--nothing=1", "unknown option '--nothing=1'"},
		/* Names are written in full: what is short today may be two tomorrow. */
		{"--tex a", "unknown option '--tex'"},
		{"--fla", "unknown option '--fla'"},
		{"--flagss", "unknown option '--flagss'"},
		{"--f", "unknown option '--f'"},
		{"--=1", "unknown option '--=1'"},
		{"--FLAG", "unknown option '--FLAG'"},
		{"-F", "unknown option '-F'"},
		{"-ft", "'--flag' takes no value"}, /* letters do not combine */
		{"--flag=1", "'--flag' takes no value"},
		{"--flag=", "'--flag' takes no value"},
		{"--text", "'--text' needs a value: TEXT"},
		{"a -t", "'--text' needs a value: TEXT"},
		{"--number 4", "--number: '4' is not between 5 and 4000000000"},
		{"--number 4000000001", "--number: '4000000001' is not between 5 and 4000000000"},
		{"--number 4294967301", "--number: '4294967301' is not between 5 and 4000000000"}, /* 5 in 32 bits */
		{"--number 18446744073709551621", "--number: \"18446744073709551621\" is out of range"},
		{"--number -5", "--number: \"-5\" is not a whole number"},
		{"--number +5", "--number: \"+5\" is not a whole number"},
		{"--number 0x10", "--number: \"0x10\" is not a whole number"},
		{"--number=", "--number: \"\" is not a whole number"},
		{"--number _6", "--number: \" 6\" is not a whole number"},
		{"--number 6.5", "--number: \"6.5\" is not a whole number"},
		{"-c four", "--choice: 'four' is not one of one, two, three\n"},
		{"-c on", "--choice: 'on' is not one of one, two, three\n"},
		{"--choice=", "--choice: '' is not one of one, two, three\n"},
		{"--choice=one,", "--choice: 'one,' is not one of one, two, three\n"},
		{"-c One", "--choice: 'One' is not one of one, two, three\n"},
		{"--from svg", "--from: 'svg' is not a readable format; choose "},
		{"-d 0s", "--duration: must be more than 0"},
		{"-d -1s", "--duration: \"-1s\" is not a duration"},
		{"-d 1parsec", "--duration: \"1parsec\" is not a duration"},
		{"-d 99999999999h", "--duration: \"99999999999h\" is not a duration"},
		{"--size 0", "--size: must be more than 0"},
		{"--size 0k", "--size: must be more than 0"},
		{"--size -1", "--size: \"-1\" is not a size"},
		{"--size 1Q", "--size: \"1Q\" is not a size"},
		{"--size 99999999999T", "--size: \"99999999999T\" is out of range"},
	};
	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char head[160];
		parse(cases[i].line);
		if (parsed.status != EXIT_USAGE + 1)
			fail_msg("%s: status %d", cases[i].line, parsed.status);
		snprintf(head, sizeof(head), "wick try: %s", cases[i].message);
		if (strncmp(parsed.printed.err, head, strlen(head)) != 0)
			fail_msg("%s: %s", cases[i].line, parsed.printed.err);
		assert_non_null(strstr(parsed.printed.err, "\nusage: wick try [IN...]\nsee 'wick try --help'\n"));
		assert_string_equal(parsed.printed.out, "");
	}
}

static void test_operands(void **state)
{
	(void)state;
	parse("a -f b - c");
	assert_int_equal(parsed.status, 0);
	assert_int_equal(parsed.operands.count, 4);
	assert_string_equal(parsed.operands.items[2], "-");
	assert_null(parsed.operands.items[4]);
	assert_false(parsed.operands.after_dashes);
	parse("-f -- -n 1 --help --");
	assert_int_equal(parsed.status, 0);
	assert_true(parsed.operands.after_dashes);
	assert_int_equal(parsed.operands.count, 4);
	assert_string_equal(parsed.operands.items[0], "-n");
	assert_string_equal(parsed.operands.items[3], "--");
	assert_int_equal(parsed.given.number, 0);
	parse("--");
	assert_true(parsed.operands.after_dashes);
	assert_int_equal(parsed.operands.count, 0);
}

static void test_operands_max(void **state)
{
	static char *argv[OPERANDS_MAX + 3], operand[] = "a", name[] = "try";
	(void)state;
	argv[0] = name;
	for (size_t i = 1; i < OPERANDS_MAX + 2; i++)
		argv[i] = operand;
	parse_with(OPERANDS_MAX + 1, argv);
	assert_int_equal(parsed.status, 0);
	assert_int_equal(parsed.operands.count, OPERANDS_MAX);
	assert_null(parsed.operands.items[OPERANDS_MAX]);
	parse_with(OPERANDS_MAX + 2, argv);
	assert_int_equal(parsed.status, EXIT_USAGE + 1);
	assert_non_null(strstr(parsed.printed.err, "more than 1024 operands"));
}

static void test_lists(void **state)
{
	static char *argv[2 * OPTION_LIST_MAX + 4], option[] = "--list", value[] = "v", name[] = "try";
	(void)state;
	parse("-l a --list b -lc --list=d");
	assert_int_equal(parsed.given.list.count, 4);
	assert_string_equal(parsed.given.list.items[0], "a");
	assert_string_equal(parsed.given.list.items[2], "c");
	assert_string_equal(parsed.given.list.items[3], "d");
	argv[0] = name;
	for (size_t i = 1; i < sizeof(argv) / sizeof(argv[0]) - 1; i++)
		argv[i] = i % 2 ? option : value;
	parse_with(2 * OPTION_LIST_MAX + 1, argv);
	assert_int_equal(parsed.status, 0);
	assert_int_equal(parsed.given.list.count, OPTION_LIST_MAX);
	parse_with(2 * OPTION_LIST_MAX + 3, argv);
	assert_int_equal(parsed.status, EXIT_USAGE + 1);
	assert_non_null(strstr(parsed.printed.err, "--list: given more than 64 times"));
}

/* Help comes before whatever is wrong behind it, and after what is wrong before it. */
static void test_help(void **state)
{
	static const char want[] = "usage: wick try [IN...]\n\nTries options.\n\noptions:\n"
				   "  -f, --flag                  a flag\n"
				   "      --flags                 a name that begins like another\n"
				   "  -t, --text TEXT             a text\n"
				   "  -n, --number N              a number\n"
				   "                              in two lines\n"
				   "  -c, --choice CHOICE         a choice\n"
				   "      --from FORMAT           a format\n"
				   "  -d, --duration DURATION     a duration\n"
				   "      --size SIZE             a size\n"
				   "  -l, --list ITEM             a list\n"
				   "      --a-name-that-fills-the-column X\n"
				   "                              below its name\n"
				   "      --elsewhere X           not of the environment\n"
				   "  -h, --help                  show this and exit\n"
				   "\nexamples:\n  wick try a\n  wick try b\n";
	(void)state;
	parse("--help");
	assert_int_equal(parsed.status, EXIT_DONE + 1);
	assert_string_equal(parsed.printed.out, want);
	assert_string_equal(parsed.printed.err, "");
	parse("a -h --nothing");
	assert_int_equal(parsed.status, EXIT_DONE + 1);
	assert_string_equal(parsed.printed.out, want);
	parse("--nothing --help");
	assert_int_equal(parsed.status, EXIT_USAGE + 1);
	assert_string_equal(parsed.printed.out, "");
}

/* Lines that are longer than a terminal is wide are broken at a blank, and words that are longer stay whole. */
static void test_help_is_broken(void **state)
{
	char help[512] = "", *argv[] = {(char[]){"try"}, (char[]){"-h"}, NULL};
	struct operands operands;
	(void)state;
	for (size_t i = 0; i < 25; i++)
		snprintf(help + strlen(help), sizeof(help) - strlen(help), "word%zu ", i);
	snprintf(help + strlen(help), sizeof(help) - strlen(help), "\n%0100d", 0);
	bool flag;
	const struct option_row rows[] = {{0, "flag", NULL, OPTION_FLAG, &flag, .help = help}, {0}};
	const struct usage usage = {.verb = "try", .synopsis = "", .description = "", .options = rows};
	test_capture_begin(&parsed.printed);
	int status = options_parse(&usage, 2, argv, &operands);
	test_capture_end(&parsed.printed);
	assert_int_equal(status, EXIT_DONE + 1);
	size_t words = 0;
	for (const char *at = parsed.printed.out; *at;) {
		size_t len = strcspn(at, "\n");
		const char *zeros = strstr(at, "0000000000");
		bool long_word = zeros && zeros < at + len;
		assert_true(len <= 92 || long_word);
		for (const char *word = at; (word = strstr(word, "word")) && word < at + len; word++)
			words++;
		at += len + (at[len] == '\n');
	}
	assert_int_equal(words, 25);
	assert_null(strstr(parsed.printed.out, "examples:"));
}

static void test_fail(void **state)
{
	struct error err = {0};
	(void)state;
	test_capture_begin(&parsed.printed);
	int status = cmd_fail("try", &err);
	error_set(&err, -EIO, "the disk is full");
	status |= cmd_fail("try", &err);
	error_set(&err, -EINVAL, "try: a number is expected");
	status |= cmd_fail("try", &err);
	error_set(&err, -EINVAL, "trying: a number is expected");
	status |= cmd_fail("try", &err);
	test_capture_end(&parsed.printed);
	assert_int_equal(status, EXIT_FAILED);
	assert_string_equal(parsed.printed.err, "wick try: failed\nwick try: the disk is full\nwick try: a number is expected\n"
						"wick try: trying: a number is expected\n");
}

static void set_environment(const char *const *pairs)
{
	for (; *pairs; pairs += 2)
		setenv(pairs[0], pairs[1], 1);
}

static int clear_environment(void **state)
{
	static const char *const names[] = {"FLAG",	"FLAGS", "TEXT", "NUMBER",    "CHOICE",
					    "DURATION", "SIZE",	 "LIST", "ELSEWHERE", "A_NAME_THAT_FILLS_THE_COLUMN"};
	char name[64];
	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
		snprintf(name, sizeof(name), "WICK_%s", names[i]);
		unsetenv(name);
	}
	with_environment = false;
	return 0;
}

static void test_environment(void **state)
{
	(void)state;
	set_environment((const char *const[]){"WICK_FLAG", "1", "WICK_FLAGS", "false", "WICK_TEXT", "from there", "WICK_NUMBER",
					      "9", "WICK_CHOICE", "two", "WICK_SIZE", "", "WICK_LIST", "a=b\n\nc",
					      "WICK_ELSEWHERE", "no", NULL});
	parse("");
	assert_null(parsed.given.text); /* not of this verb */
	with_environment = true;
	parse("");
	assert_int_equal(parsed.status, 0);
	assert_true(parsed.given.flag);
	assert_false(parsed.given.other);
	assert_string_equal(parsed.given.text, "from there");
	assert_int_equal(parsed.given.number, 9);
	assert_int_equal(parsed.given.choice, TWO);
	assert_int_equal(parsed.given.size, 0);
	assert_int_equal(parsed.given.list.count, 2);
	assert_string_equal(parsed.given.list.items[0], "a=b");
	assert_string_equal(parsed.given.list.items[1], "c");
	parse("-t argument --list d");
	assert_string_equal(parsed.given.text, "argument");
	assert_int_equal(parsed.given.list.count, 3);
}

static void test_environment_is_checked(void **state)
{
	static const char *const cases[][3] = {
		{"WICK_FLAG", "yes", "wick try: WICK_FLAG in the environment: 'yes' is neither 1 nor 0\n"},
		{"WICK_NUMBER", "4", "wick try: WICK_NUMBER in the environment: '4' is not between 5 and 4000000000\n"},
		{"WICK_CHOICE", "four", "wick try: WICK_CHOICE in the environment: 'four' is not one of one, two, three\n"},
	};
	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		clear_environment(NULL);
		with_environment = true;
		setenv(cases[i][0], cases[i][1], 1);
		parse("");
		assert_int_equal(parsed.status, EXIT_USAGE + 1);
		assert_memory_equal(parsed.printed.err, cases[i][2], strlen(cases[i][2]));
	}
}

static void test_completions(void **state)
{
	(void)state;
	parse("--completions");
	assert_int_equal(parsed.status, EXIT_DONE + 1);
	assert_non_null(strstr(parsed.printed.out, "--flag\t-f\t\t\ta flag\n"));
	assert_non_null(strstr(parsed.printed.out, "\n--number\t-n\tN\t\ta number\n"));
	assert_non_null(strstr(parsed.printed.out, "\n--choice\t-c\tCHOICE\tone, two, three\ta choice\n"));
	assert_non_null(strstr(parsed.printed.out, "\n--size\t\tSIZE\t\ta size\n"));
	assert_null(strstr(parsed.printed.out, "ACTION"));
	parse("-- --completions");
	assert_int_equal(parsed.status, 0);
	assert_int_equal(parsed.operands.count, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_kinds),
		cmocka_unit_test(test_refusals),
		cmocka_unit_test(test_operands),
		cmocka_unit_test(test_lists),
		cmocka_unit_test(test_operands_max),
		cmocka_unit_test(test_help),
		cmocka_unit_test(test_fail),
		cmocka_unit_test(test_help_is_broken),
		cmocka_unit_test_teardown(test_environment, clear_environment),
		cmocka_unit_test_teardown(test_environment_is_checked, clear_environment),
		cmocka_unit_test(test_completions),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
