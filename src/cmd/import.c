/* SPDX-License-Identifier: Apache-2.0 */
/*
 * wick import: what other profilers recorded, as `wick record` would have written it for Firefox Profiler. It is `wick convert`
 * with the output chosen.
 */
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "cmd/cmd.h"
#include "cmd/convert.h"
#include "cmd/open.h"

#define EXTENSION ".firefox.json.gz"

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
			cmd_printf(stderr, "wick import: written to %s\n", import->out);
	}
	return r == 0 && import->opens ? open_serve(&import->open, "import", profile, inputs->items[0], err) : r;
}

int cmd_import(int argc, char **argv)
{
	struct import import = {0};
	char help[FROM_HELP_MAX], name[OUTPUT_NAME_MAX];
	const struct option_row options[] = {
		{'o', "output", "FILE", OPTION_TEXT, &import.out,
		 .help = "where to write, for Firefox Profiler (default: the\ninput's name with " EXTENSION
			 "; with --open,\nnowhere)"},
		{0, "open", NULL, OPTION_FLAG, &import.opens, .help = "show it in a browser, like wick open, until Ctrl-C"},
		LISTEN_OPTION_ROW(&import.open.listen),
		BROWSER_OPTION_ROW(&import.open.browser),
		FROM_OPTION_ROW(&import.inputs.format, inputs_from_help(help)),
		SAMPLE_TYPE_OPTION_ROW(&import.inputs.sample_type),
		FORMAT_VERSION_OPTION_ROW(&import.output.version),
		SYMBOLS_OPTION_ROW(&import.inputs.symbols),
		{'q', "quiet", NULL, OPTION_FLAG, &import.inputs.quiet,
		 .help = "do not report what was dropped, nor the output file"},
		{0}};
	const struct usage usage = {
		.verb = "import",
		.synopsis = "IN... [-o FILE] [--open] [--from FORMAT]",
		.description = "Converts recordings of perf and other profilers to what wick record writes for Firefox\n"
			       "Profiler, symbolized. The same as wick convert IN... -o FILE --to firefox; several inputs are\n"
			       "merged, - is standard input.",
		.options = options,
		.examples = "wick import perf.data\nwick import perf.data --open\nperf script | wick import - -o "
			    "app.firefox.json.gz"};
	struct operands inputs;
	struct error err = {0};
	OPTIONS_OR_RETURN(&usage, argc, argv, &inputs);
	if (inputs.count == 0)
		return usage_error(&usage, "no input file");
	if (!import.opens && (import.open.listen || import.open.browser))
		return usage_error(&usage, "--listen and --browser require --open");
	if (open_check(&import.open, &err) < 0 ||
	    (!import.out && !import.opens && output_choose_name(&inputs, EXTENSION, name, &err) < 0))
		return usage_error(&usage, "%s", err.message);
	if (!import.out && !import.opens)
		import.out = name;
	return run(&import, &inputs, &err) < 0 ? cmd_fail("import", &err) : EXIT_DONE;
}
