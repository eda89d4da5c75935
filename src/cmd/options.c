/* SPDX-License-Identifier: Apache-2.0 */
#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/alloc.h"
#include "base/text.h"
#include "base/time.h"
#include "cmd/cmd.h"
#include "format/format.h"

#define HELP_COLUMN 30
#define HELP_WIDTH  92 /* longer lines are broken at a blank */

static size_t line_length(const char *text, size_t width)
{
	size_t len = strcspn(text, "\n"), at = width;
	if (len <= width)
		return len;
	while (at > 0 && text[at] != ' ')
		at--;
	return at > 0 ? at : len;
}

static void print_lines(FILE *out, const char *text, int indent, bool first_is_placed)
{
	while (*text) {
		size_t len = line_length(text, HELP_WIDTH - (size_t)indent);
		fprintf(out, "%*s%.*s\n", first_is_placed ? 0 : indent, "", (int)len, text);
		first_is_placed = false;
		text += len;
		text += *text == '\n' || *text == ' ';
	}
}

static void print_option(FILE *out, const struct option_row *row)
{
	char left[80];
	int len = snprintf(left, sizeof(left), "  %c%c%s--%s%s%s", row->letter ? '-' : ' ', row->letter ? row->letter : ' ',
			   row->letter ? ", " : "  ", row->name, row->argument ? " " : "", row->argument ? row->argument : "");
	if (len >= HELP_COLUMN)
		fprintf(out, "%s\n%*s", left, HELP_COLUMN, "");
	else
		fprintf(out, "%-*s", HELP_COLUMN, left);
	print_lines(out, row->help, HELP_COLUMN, true);
}

static void print_help(const struct usage *usage)
{
	static const struct option_row help = {.letter = 'h', .name = "help", .help = "show this and exit"};
	printf("usage: wick %s %s\n\n%s\n\noptions:\n", usage->verb, usage->synopsis, usage->description);
	for (const struct option_row *row = usage->options; row->name; row++)
		print_option(stdout, row);
	print_option(stdout, &help);
	if (usage->environment)
		printf("\nOptions can be given as environment variables too, --token-file as WICK_TOKEN_FILE.\n");
	if (usage->examples) {
		printf("\nexamples:\n");
		print_lines(stdout, usage->examples, 2, false);
	}
}

/* For the completions of shells (packaging/completions): a line for each option, in columns that end with a tab: name, letter
 * or nothing, its argument or nothing, the values that it may have, separated by ", ", or nothing; and the first line of its
 * help. A line before them, with neither name nor letter, has the actions that the first operand can be. */
static void print_completions(const struct usage *usage)
{
	if (usage->actions)
		printf("\t\tACTION\t%s\twhat to do\n", usage->actions);
	for (const struct option_row *row = usage->options; row->name; row++) {
		const char letter[] = {row->letter ? '-' : '\0', row->letter, '\0'};
		printf("--%s\t%s\t%s\t%s\t%.*s\n", row->name, letter, row->argument ? row->argument : "",
		       row->kind == OPTION_CHOICE ? row->choices : "", (int)strcspn(row->help, "\n"), row->help);
	}
	printf("--help\t-h\t\t\tshow this and exit\n");
}

int usage_error(const struct usage *usage, const char *format, ...)
{
	va_list args;
	char *text = NULL;
	va_start(args, format);
	int len = vasprintf(&text, format, args);
	va_end(args);
	cmd_printf(stderr, "wick %s: %s\nusage: wick %s %s\nsee 'wick %s --help'\n", usage->verb, len < 0 ? "bad usage" : text,
		   usage->verb, usage->synopsis, usage->verb);
	if (len >= 0)
		free(text);
	return EXIT_USAGE;
}

static int set_unsigned(const struct option_row *row, const char *value, struct error *err)
{
	uint64_t number = 0;
	int r = text_parse_u64(value, &number, err);
	if (!r && (number < row->min || number > row->max))
		r = error_set(err, -ERANGE, "'%.40s' is not between %u and %u", value, row->min, row->max);
	if (!r)
		*(unsigned *)row->target = (unsigned)number;
	return r;
}

static int set_choice(const struct option_row *row, const char *value, struct error *err)
{
	unsigned number = row->min;
	for (const char *at = row->choices;; at += strlen(", "), number++) {
		size_t len = strcspn(at, ",");
		if (strlen(value) == len && memcmp(at, value, len) == 0) {
			*(unsigned *)row->target = number;
			return 0;
		}
		at += len;
		if (!*at)
			return error_set(err, -EINVAL, "'%.40s' is not one of %s", value, row->choices);
	}
}

static int set_format(const struct option_row *row, const char *value, struct error *err)
{
	char names[OUTPUT_NAMES_MAX];
	const struct format *format = format_by_name(value);
	if (!format || !format->decode)
		return error_set(err, -EINVAL, "'%.40s' is not a readable format; choose %s", value, input_format_names(names));
	*(const struct format **)row->target = format;
	return 0;
}

static int option_set(const struct option_row *row, const char *value, struct error *err)
{
	struct option_list *list = row->target;
	int r;
	switch (row->kind) {
	case OPTION_FLAG: *(bool *)row->target = true; return 0;
	case OPTION_TEXT: *(const char **)row->target = value; return 0;
	case OPTION_UNSIGNED: return set_unsigned(row, value, err);
	case OPTION_CHOICE: return set_choice(row, value, err);
	case OPTION_FORMAT: return set_format(row, value, err);
	case OPTION_DURATION:
		r = time_parse_duration(value, row->target, err);
		return !r && *(int64_t *)row->target <= 0 ? error_set(err, -EINVAL, "must be more than 0") : r;
	case OPTION_SIZE:
		r = text_parse_size(value, row->target, err);
		return !r && *(uint64_t *)row->target == 0 ? error_set(err, -EINVAL, "must be more than 0") : r;
	case OPTION_LIST:
		if (list->count == OPTION_LIST_MAX)
			return error_set(err, -E2BIG, "given more than %d times", OPTION_LIST_MAX);
		list->items[list->count++] = value;
		return 0;
	}
	return -EINVAL;
}

static const struct option_row *find_option(const struct usage *usage, const char *text, size_t len)
{
	for (const struct option_row *row = usage->options; row->name; row++) {
		if (len == 1 ? row->letter == *text && row->letter
			     : strlen(row->name) == len && strncmp(row->name, text, len) == 0)
			return row;
	}
	return NULL;
}

/* Handles argv[*at], which begins with '-'; advances *at over a value that is an argument of its own. */
static int parse_option(const struct usage *usage, int argc, char **argv, int *at)
{
	const char *text = argv[*at], *value = NULL;
	const struct option_row *row;
	if (text[1] == '-') {
		size_t len = strcspn(text + 2, "=");
		row = len > 1 ? find_option(usage, text + 2, len) : NULL;
		value = text[2 + len] ? text + 3 + len : NULL;
	} else {
		row = find_option(usage, text + 1, 1);
		value = text[1] && text[2] ? text + 2 : NULL;
	}
	if (!row)
		return usage_error(usage, "unknown option '%s'", text) + 1;
	if (row->kind == OPTION_FLAG && value)
		return usage_error(usage, "'--%s' takes no value", row->name) + 1;
	if (row->kind != OPTION_FLAG && !value) {
		if (*at + 1 >= argc)
			return usage_error(usage, "'--%s' needs a value: %s", row->name, row->argument) + 1;
		value = argv[++*at];
	}
	struct error err = {0};
	if (option_set(row, value, &err) < 0)
		return usage_error(usage, "--%s: %s", row->name, err.message) + 1;
	return 0;
}

/* "WICK_TOKEN_FILE" of "token-file". */
static void name_variable(const char *option, char *ret, size_t size)
{
	snprintf(ret, size, "WICK_%s", option);
	for (char *at = ret; *at; at++)
		*at = *at == '-' ? '_' : (char)toupper((unsigned char)*at);
}

/* Lines of their own: they must stay as long as the options do. */
static int set_lines(const struct option_row *row, const char *value, struct error *err)
{
	char *copy = mem_strdup(value), *rest = NULL;
	int r = copy ? 0 : error_nomem(err);
	for (char *line = copy ? strtok_r(copy, "\n", &rest) : NULL; line && r == 0; line = strtok_r(NULL, "\n", &rest))
		r = option_set(row, line, err);
	return r;
}

static int set_flag(const struct option_row *row, const char *value, struct error *err)
{
	bool is_on = strcmp(value, "1") == 0 || strcasecmp(value, "true") == 0;
	if (!is_on && strcmp(value, "0") != 0 && strcasecmp(value, "false") != 0)
		return error_set(err, -EINVAL, "'%.40s' is neither 1 nor 0", value);
	*(bool *)row->target = is_on;
	return 0;
}

/* Empty variables count as not set, as where a container's settings always name them. */
static int read_environment(const struct usage *usage)
{
	for (const struct option_row *row = usage->options; row->name && usage->environment; row++) {
		char variable[64];
		struct error err = {0};
		int r = 0;
		name_variable(row->name, variable, sizeof(variable));
		const char *value = row->not_in_environment ? NULL : getenv(variable);
		if (!value || !*value)
			continue;
		if (row->kind == OPTION_FLAG)
			r = set_flag(row, value, &err);
		else
			r = row->kind == OPTION_LIST ? set_lines(row, value, &err) : option_set(row, value, &err);
		if (r < 0)
			return usage_error(usage, "%s in the environment: %s", variable, err.message) + 1;
	}
	return 0;
}

int options_parse(const struct usage *usage, int argc, char **argv, struct operands *ret)
{
	int refused = read_environment(usage);
	if (refused)
		return refused;
	struct operands none;
	bool takes_none = !ret;
	ret = ret ? ret : &none;
	memset(ret, 0, sizeof(*ret));
	for (int i = 1; i < argc; i++) {
		const char *text = argv[i];
		if (!ret->after_dashes && strcmp(text, "--") == 0) {
			ret->after_dashes = true;
			continue;
		}
		if (!ret->after_dashes && (strcmp(text, "--help") == 0 || strcmp(text, "-h") == 0)) {
			print_help(usage);
			return EXIT_DONE + 1;
		}
		if (!ret->after_dashes && strcmp(text, OPTION_COMPLETIONS) == 0) {
			print_completions(usage);
			return EXIT_DONE + 1;
		}
		if (!ret->after_dashes && text[0] == '-' && text[1]) {
			int status = parse_option(usage, argc, argv, &i);
			if (status)
				return status;
			continue;
		}
		if (takes_none)
			return usage_error(usage, "unexpected operand '%s'", text) + 1;
		if (ret->count == OPERANDS_MAX)
			return usage_error(usage, "more than %d operands", OPERANDS_MAX) + 1;
		ret->items[ret->count++] = argv[i];
	}
	return 0;
}

int cmd_fail(const char *verb, const struct error *err)
{
	const char *message = err->message[0] ? err->message : "failed";
	size_t len = strlen(verb);
	if (strncmp(message, verb, len) == 0 && strncmp(message + len, ": ", 2) == 0)
		message += len + 2; /* faults of a query begin with that word */
	cmd_printf(stderr, "wick %s: %s\n", verb, message);
	return EXIT_FAILED;
}
