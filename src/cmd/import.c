/* SPDX-License-Identifier: Apache-2.0 */
/*
 * wick import: what other profilers recorded, as `wick record` would have written it for Firefox Profiler. It is `wick convert`
 * with the output chosen.
 */
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "cmd/cmd.h"
#include "cmd/convert.h"
#include "cmd/open.h"

#define EXTENSION     ".firefox.json.gz"
#define NAME_SIZE_MAX 4096

/* Shortens a name by the ending, if it has it and something else. */
static bool cut(const char *name, size_t *len, const char *ending)
{
	size_t size = strlen(ending);
	bool has = *len > size && memcmp(name + *len - size, ending, size) == 0;
	*len -= has ? size : 0;
	return has;
}

/* "dir/perf.data" -> "perf.firefox.json.gz" */
static int choose_name(const char *input, char out[static NAME_SIZE_MAX], struct error *err)
{
	const char *slash = strrchr(input, '/'), *name = strcmp(input, "-") == 0 ? "profile" : slash ? slash + 1 : input;
	size_t len = strlen(name);
	if (!cut(name, &len, ".gz"))
		cut(name, &len, ".zst");
	const char *dot = memrchr(name, '.', len);
	if (!cut(name, &len, ".firefox.json") && dot && dot > name)
		len = (size_t)(dot - name);
	int n = snprintf(out, NAME_SIZE_MAX, "%.*s" EXTENSION, (int)len, name);
	if (len == 0 || n >= NAME_SIZE_MAX)
		return error_set(err, -EINVAL, "cannot make a file's name of '%.200s'; give -o FILE", input);
	return 0;
}

static bool is_same_file(const char *left, const char *right)
{
	struct stat a, b;
	return strcmp(left, right) == 0 ||
	       (stat(left, &a) == 0 && stat(right, &b) == 0 && a.st_dev == b.st_dev && a.st_ino == b.st_ino);
}

/* A name that nobody gave must not cost one of the inputs, however that is written. */
static int check_name(const struct operands *inputs, const char *name, struct error *err)
{
	for (size_t i = 0; i < inputs->count; i++)
		if (is_same_file(inputs->items[i], name))
			return error_set(err, -EINVAL, "%.200s would %s; give -o FILE", inputs->items[i],
					 i == 0 ? "replace itself" : "be replaced");
	return 0;
}

struct import {
	struct inputs_options inputs;
	struct open_options open;
	struct output_options output;
	const char *out;
	bool opens;
};

static int run(const struct import *import, const struct operands *inputs, struct error *err)
{
	_cleanup_(profile_freep) struct profile *profile = NULL;
	int r = inputs_read(inputs, &import->inputs, &profile, err);
	if (r == 0 && import->out)
		r = output_write(profile, import->out, "firefox", inputs->items[0], &import->output, err);
	if (r == 0 && import->out && !import->inputs.quiet) {
		output_print_losses(profile, import->out, "firefox");
		if (strcmp(import->out, "-") != 0)
			fprintf(stderr, "wick import: written to %s\n", import->out);
	}
	return r == 0 && import->opens ? open_serve(&import->open, "import", profile, inputs->items[0], err) : r;
}

int cmd_import(int argc, char **argv)
{
	const char *from = NULL, *symbols = NULL;
	struct import import = {0};
	char help[FROM_HELP_MAX], name[NAME_SIZE_MAX];
	const struct option_row options[] = {
		{'o', "output", "FILE", OPTION_TEXT, &import.out,
		 .help = "where to write, for Firefox Profiler (default: the\ninput's name with " EXTENSION
			 "; with --open,\nnowhere)"},
		{0, "open", NULL, OPTION_FLAG, &import.opens, .help = "show it in a browser, as wick open does, until Ctrl-C"},
		LISTEN_OPTION_ROW(&import.open.listen),
		BROWSER_OPTION_ROW(&import.open.browser),
		FROM_OPTION_ROW(&from, inputs_from_help(help)),
		SAMPLE_TYPE_OPTION_ROW(&import.inputs.sample_type),
		FORMAT_VERSION_OPTION_ROW(&import.output.version),
		SYMBOLS_OPTION_ROW(&symbols),
		{'q', "quiet", NULL, OPTION_FLAG, &import.inputs.quiet,
		 .help = "do not say what was left out, and where it was written"},
		{0}};
	const struct usage usage = {
		.verb = "import",
		.synopsis = "IN... [-o FILE] [--open] [--from FORMAT]",
		.description = "Makes of what perf and other profilers recorded what wick record writes for Firefox Profiler,\n"
			       "with names. The same as wick convert IN... -o FILE --to firefox; several inputs are merged,\n"
			       "- is standard input.",
		.options = options,
		.examples = "wick import perf.data\nwick import perf.data --open\nperf script | wick import - -o "
			    "app.firefox.json.gz"};
	struct operands inputs;
	struct error err = {0};
	OPTIONS_OR_RETURN(&usage, argc, argv, &inputs);
	if (inputs.count == 0)
		return usage_error(&usage, "no input file");
	if (!import.opens && (import.open.listen || import.open.browser))
		return usage_error(&usage, "--listen and --browser are for --open");
	if (inputs_parse(from, symbols, &import.inputs, &err) || open_check(&import.open, &err) ||
	    (!import.out && !import.opens && (choose_name(inputs.items[0], name, &err) || check_name(&inputs, name, &err))))
		return usage_error(&usage, "%s", err.message);
	if (!import.out && !import.opens)
		import.out = name;
	return run(&import, &inputs, &err) ? cmd_fail("import", &err) : EXIT_DONE;
}
