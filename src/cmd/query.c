/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/io.h"
#include "base/text.h"
#include "cmd/remote.h"
#include "query/parameters.h"
#include "query/pipeline.h"

#define LIMIT_DEFAULT 20
#define LIMIT_UNSET   UINT_MAX

struct query_arguments {
	struct remote remote;
	const char *from, *to, *format, *output, *timeout, *function, *file, *build_id, *syntax, *names, *symbols_wait, *saved;
	struct option_list where, frames, drop_frames, focus, hide, group_by, parameters;
	unsigned limit;
	bool explain, interpreters;
};

/* Arrow, Parquet, CSV: the result as one table. */
static bool is_tabular(const struct query_arguments *arguments)
{
	enum tabular_format format;
	return tabular_find_format(arguments->format, &format) == 0;
}

static bool is_listing(const struct query_arguments *arguments)
{
	return strcmp(arguments->format, "source") == 0 || strcmp(arguments->format, "asm") == 0;
}

/* Results of stages, and explanations, are the pipeline call's; the server refuses what has no profile in other formats. */
static int ask_pipeline(const struct query_arguments *arguments, const char *text, bool *ret, struct buffer *ret_text,
			struct error *err)
{
	bool is_table = strcmp(arguments->format, "top") == 0,
	     readable = strcmp(arguments->format, "top") == 0 || strcmp(arguments->format, "json") == 0;
	_cleanup_(pipeline_freep) struct pipeline *pipeline = NULL;
	char parameter[PARAMETER_NAME_MAX + 1];
	size_t at = 0;
	/* What a saved query is, or $range, the server knows. */
	if (arguments->saved || query_next_parameter(text, &at, parameter)) {
		*ret = readable || is_tabular(arguments);
		return buffer_append_string(ret_text, text) < 0 ? error_nomem(err) : 0;
	}
	int r = pipeline_parse(text, &pipeline, err);
	if (r < 0)
		return r;
	*ret = is_tabular(arguments) || (readable && (arguments->explain || !pipeline_is_selector(pipeline)));
	/* For people; what programs read has everything. */
	if (is_table && !arguments->interpreters)
		r = pipeline_format_hiding(pipeline, ret_text);
	else
		r = buffer_append_string(ret_text, text);
	return r < 0 ? error_nomem(err) : 0;
}

/* "wick query" sends what was typed; the server understands times and stages, and its messages are ours to pass on. */
static int request_path(const struct query_arguments *a, const char *text, bool pipeline, struct buffer *path)
{
	char limit[16];
	const char *format = is_listing(a)		     ? "text"
			     : !pipeline || is_tabular(a)    ? a->format
			     : strcmp(a->format, "top") == 0 ? "text"
							     : "json";
	bool colour = is_listing(a) && strcmp(a->output, "-") == 0 && isatty(STDOUT_FILENO);
	snprintf(limit, sizeof(limit), "%u", a->limit);
	char call[64];
	snprintf(call, sizeof(call), "/api/v1/%s", is_listing(a) ? a->format : pipeline ? "pipeline" : "query");
	const struct remote_value values[] = {{"query", a->saved ? NULL : text},
					      {"saved", a->saved},
					      {"from", a->from},
					      {"to", a->to},
					      {"format", format},
					      {"limit", limit},
					      {"timeout", a->timeout},
					      {"function", a->function},
					      {"file", a->file},
					      {"build_id", a->build_id},
					      {"syntax", a->syntax},
					      {"names", a->names},
					      {"symbols_wait", a->symbols_wait},
					      {"colour", colour ? "1" : NULL},
					      {"explain", a->explain ? "1" : NULL}};
	const struct {
		const char *name;
		const struct option_list *list;
	} lists[] = {{"where", &a->where}, {"frames", &a->frames}, {"drop_frames", &a->drop_frames},
		     {"focus", &a->focus}, {"hide", &a->hide},	   {"group_by", &a->group_by}};
	remote_begin(path, call, values, sizeof(values) / sizeof(*values));
	for (size_t i = 0; i < sizeof(lists) / sizeof(*lists); i++)
		remote_add_list(path, lists[i].name, lists[i].list);
	for (size_t i = 0; i < a->parameters.count; i++) {
		const char *parameter = a->parameters.items[i], *value = strchr(parameter, '=');
		char name[PARAMETER_NAME_MAX + 8];
		snprintf(name, sizeof(name), "param.%.*s", (int)(value - parameter), parameter);
		remote_add(path, name, value + 1);
	}
	return buffer_status(path);
}

/* Those without a name are shown by address, and why should not be left to guesswork. */
static void note_symbols(const char *symbols)
{
	unsigned long long resolved, pending, missing, ambiguous = 0;
	/* An older server does not say how many are ambiguous. */
	if (sscanf(symbols, "resolved=%llu pending=%llu missing=%llu ambiguous=%llu", &resolved, &pending, &missing,
		   &ambiguous) < 3)
		return;
	if (pending)
		fprintf(stderr, "wick query: %llu addresses are not symbolized yet: their binaries are being read; try again\n",
			pending);
	if (missing)
		fprintf(stderr, "wick query: %llu of %llu addresses are not symbolized; 'wick debuginfo list' shows why\n",
			missing, resolved + pending + missing);
	if (ambiguous)
		fprintf(stderr,
			"wick query: %llu of them are ambiguous: several files with their build-id name them differently\n",
			ambiguous);
}

static int run_query(const struct query_arguments *arguments, const char *text, struct error *err)
{
	_cleanup_(buffer_release) struct buffer path = {0}, asked = {.max = REMOTE_PATH_MAX}, response = {0};
	struct remote_notes notes = {0};
	bool pipeline;
	int r = ask_pipeline(arguments, text, &pipeline, &asked, err);
	if (r < 0)
		return r;
	r = request_path(arguments, buffer_string(&asked), pipeline, &path);
	if (r < 0)
		return error_set(err, r, "the query is too long");
	r = remote_query(&arguments->remote, &path, &response, &notes, err);
	if (r < 0)
		return r;
	note_symbols(notes.symbols);
	/* JSON and text say it themselves. */
	if (strcmp(arguments->format, "json") != 0 && (!pipeline || is_tabular(arguments)))
		remote_note_partial("query", &notes);
	static const char *const binary[] = {"pprof", "arrow", "parquet"};
	if (strcmp(arguments->output, "-") == 0 && isatty(STDOUT_FILENO) &&
	    text_find_name(binary, sizeof(binary) / sizeof(*binary), arguments->format) >= 0)
		return error_set(err, -EINVAL, "refusing to write binary %s to the terminal; give -o FILE", arguments->format);
	return cmd_write(arguments->output, buffer_bytes(&response), err);
}

static int check_format(const struct query_arguments *o, const struct usage *usage)
{
	static const char *const known[] = {"top", "folded", "pprof",	"json",	  "svg",
					    "csv", "arrow",  "parquet", "source", "asm"};
	bool listing = is_listing(o);
	if (text_find_name(known, sizeof(known) / sizeof(*known), o->format) < 0)
		return usage_error(
			usage, "--format: '%s' is not one of top, folded, pprof, json, svg, csv, arrow, parquet, source, asm",
			o->format);
	if (listing && !o->function)
		return usage_error(usage, "--format %s: no function given; give --function NAME", o->format);
	if (!listing && (o->function || o->file || o->build_id || o->syntax))
		return usage_error(usage, "--function, --file, --build-id and --syntax require --format source or asm");
	if (listing && o->saved)
		return usage_error(usage, "--format %s does not support --saved", o->format);
	if ((listing || is_tabular(o)) && o->explain)
		return usage_error(usage, "--format %s does not support --explain", o->format);
	return 0;
}

static int check_parameter(const char *text, const struct usage *usage)
{
	char name[PARAMETER_NAME_MAX + 1];
	const char *equals = strchr(text, '=');
	size_t len = equals ? (size_t)(equals - text) : 0;
	snprintf(name, sizeof(name), "%.*s", (int)(len < sizeof(name) ? len : 0), text);
	return parameter_name_is_valid(name) ? 0 : usage_error(usage, "--param: '%.60s' is not NAME=VALUE", text);
}

int cmd_query(int argc, char **argv)
{
	struct query_arguments o = {.format = "top", .output = "-", .limit = LIMIT_UNSET, .symbols_wait = "10s"};
	const struct option_row options[] = {
		REMOTE_OPTION_ROWS(&o.remote),
		{0, "from", "TIME", OPTION_TEXT, &o.from, .help = "start: now-1h, -15m, RFC 3339 or unix (default: now-1h)"},
		{0, "to", "TIME", OPTION_TEXT, &o.to, .help = "end (default: now)"},
		{0, "saved", "NAME", OPTION_TEXT, &o.saved, .help = "a saved query of the server: see 'wick saved list'"},
		{0, "param", "NAME=VALUE", OPTION_LIST, &o.parameters, .help = "a parameter of the saved query"},
		{0, "where", "MATCHERS", OPTION_LIST, &o.where, .help = "more label matchers: 'host_name=~\"web.*\"'"},
		{0, "frames", "TESTS", OPTION_LIST, &o.frames,
		 .help = "keep stacks with a matching frame: '\"malloc\"',\n'leaf binary = \"libc.so.6\"'"},
		{0, "drop-frames", "TESTS", OPTION_LIST, &o.drop_frames, .help = "drop stacks with a matching frame"},
		{0, "focus", "TESTS", OPTION_LIST, &o.focus, .help = "start stacks at a matching frame"},
		{0, "hide", "TESTS", OPTION_LIST, &o.hide, .help = "remove matching frames"},
		INTERPRETERS_OPTION_ROW(&o.interpreters),
		{0, "group-by", "LABEL", OPTION_LIST, &o.group_by, .help = "group by a label; may be repeated"},
		{0, "format", "FORMAT", OPTION_TEXT, &o.format,
		 .help = "top, folded, pprof, json, svg; a table for other\nprograms: csv, arrow, parquet; source or asm of "
			 "a\n--function (default: top)"},
		{0, "function", "NAME", OPTION_TEXT, &o.function,
		 .help = "with source and asm: full name, or a unique short name"},
		{0, "file", "FILE", OPTION_TEXT, &o.file, .help = "with source: which file, if the name is in several"},
		{0, "build-id", "ID", OPTION_TEXT, &o.build_id, .help = "with source and asm: which binary"},
		{0, "syntax", "SYNTAX", OPTION_TEXT, &o.syntax, .help = "with asm, on x86: intel or att (default: intel)"},
		{0, "names", "FORM", OPTION_TEXT, &o.names, .help = "full, or short: without parameters (default: full)"},
		{0, "symbols-wait", "DURATION", OPTION_TEXT, &o.symbols_wait,
		 .help = "how long to wait for symbolization\n(default: 10s)"},
		{'o', "output", "FILE", OPTION_TEXT, &o.output, .help = "where to write (default: standard output)"},
		{'n', "limit", "N", OPTION_UNSIGNED, &o.limit, 0, 1000000,
		 .help = "number of rows, 0 = all (default: 20 of top and json)"},
		{0, "explain", NULL, OPTION_FLAG, &o.explain, .help = "also print what was read, and how long it took"},
		{0, "timeout", "DURATION", OPTION_TEXT, &o.timeout,
		 .help = "return partial results after this time (default: 30s)"},
		{0}};
	const struct usage usage = {
		.verb = "query",
		.synopsis = "QUERY | --saved NAME [--url URL] [--from T] [--to T] [--format F] [-o FILE]",
		.description = "Queries a server. A query is a selector, optionally followed by stages. A selector is\na "
			       "profile type and label matchers: process_cpu{process_executable_name=\"bash\"};\nstages filter "
			       "stacks and compute tables and charts: | frames \"malloc\" | top 10 by binary",
		.options = options,
		.examples = "wick query process_cpu\nwick query 'process_cpu{process_comm=\"postgres\"}' --from now-15m\nwick "
			    "query process_cpu --format svg -o cpu.svg\nwick query process_cpu --format source --function "
			    "main\nwick query 'process_cpu | group by host_name | bin 5m | "
			    "rate'"};
	struct operands operands;
	OPTIONS_OR_RETURN(&usage, argc, argv, &operands);
	if (o.saved ? operands.count != 0 : o.parameters.count != 0)
		return usage_error(&usage, o.saved ? "give a query or --saved, not both" : "--param is for --saved");
	if (!o.saved && operands.count != 1)
		return usage_error(&usage, "expected one query, got %zu%s", operands.count,
				   operands.count > 1 ? "; quote it for the shell" : "; 'process_cpu' selects everything");
	int status = check_format(&o, &usage);
	for (size_t i = 0; !status && i < o.parameters.count; i++)
		status = check_parameter(o.parameters.items[i], &usage);
	if (status)
		return status;
	if (o.limit == LIMIT_UNSET)
		o.limit = is_tabular(&o) ? 0 : LIMIT_DEFAULT;
	struct error err = {0};
	return run_query(&o, o.saved ? "" : operands.items[0], &err) < 0 ? cmd_fail("query", &err) : EXIT_DONE;
}
