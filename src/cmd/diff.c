/* SPDX-License-Identifier: Apache-2.0 */
/* What changed: between two files here, or between two selections or times of a server's data. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/io.h"
#include "base/limits.h"
#include "cmd/convert.h"
#include "cmd/remote.h"
#include "profile/interpreters.h"
#include "query/pipeline.h"
#include "render/diff.h"

struct diff_arguments {
	struct remote remote;
	const char *from, *to, *base_from, *base_to, *shift, *format, *output;
	unsigned limit;
	bool relative, interpreters;
};

static bool is_file(const char *path)
{
	struct stat info;
	return stat(path, &info) == 0 && !S_ISDIR(info.st_mode);
}

/* A table is for people; JSON has everything. */
static bool hides_interpreters(const struct diff_arguments *arguments)
{
	return !arguments->interpreters && strcmp(arguments->format, "top") == 0;
}

static int file_flame(const struct diff_arguments *arguments, const char *path, struct flame **ret, struct error *err)
{
	_cleanup_(profile_freep) struct profile *profile = NULL;
	bool changed;
	int r = inputs_read_file(&(struct inputs_options){0}, path, &profile, err);
	if (!r && hides_interpreters(arguments))
		r = profile_hide_interpreters(profile, &changed, err);
	if (!r)
		output_print_limits(profile);
	return r < 0 ? r : flame_build(profile, profile_default_sample_type(profile), FLAME_UNNAMED_BY_BINARY, ret, err);
}

static int diff_files(const struct diff_arguments *arguments, const char *base_path, const char *path, struct error *err)
{
	_cleanup_(flame_freep) struct flame *base = NULL;
	_cleanup_(flame_freep) struct flame *side = NULL;
	_cleanup_(diff_freep) struct diff *diff = NULL;
	_cleanup_(diff_table_release) struct diff_table table = {0};
	_cleanup_(buffer_release) struct buffer out = {.max = GIB};
	int r = file_flame(arguments, base_path, &base, err);
	if (!r)
		r = file_flame(arguments, path, &side, err);
	if (!r && strcmp(base->unit, side->unit) != 0 && base->count > 1 && side->count > 1)
		r = error_set(err, -EINVAL, "%s has %s, %s has %s: they cannot be compared", base_path, base->unit, path,
			      side->unit);
	if (!r)
		r = diff_build(base, side, &diff, err);
	bool json_wanted = strcmp(arguments->format, "json") == 0;
	if (!r)
		r = json_wanted ? diff_table_build(diff, arguments->relative, &table, err)
				: diff_table_build_by_name(diff, arguments->relative, &table, err);
	if (r < 0)
		return r;
	if (json_wanted) {
		struct json_writer json = {.out = &out};
		diff_table_write_json(&table, arguments->limit, &json);
		r = json_finish(&json, err);
	} else {
		r = diff_table_write_text(&table, diff->tree->unit, arguments->limit, &out, err);
	}
	return r < 0 ? r : cmd_write(arguments->output, buffer_bytes(&out), err);
}

static int diff_remote(const struct diff_arguments *a, const char *base, const char *text, struct error *err)
{
	_cleanup_(buffer_release) struct buffer path = {0}, hiding = {.max = REMOTE_PATH_MAX}, response = {0};
	_cleanup_(pipeline_freep) struct pipeline *pipeline = NULL;
	char limit[16];
	snprintf(limit, sizeof(limit), "%u", a->limit);
	int r = pipeline_parse(text, &pipeline, err);
	if (r == 0 && hides_interpreters(a) && pipeline_format_hiding(pipeline, &hiding) < 0)
		r = error_nomem(err);
	if (r < 0)
		return r;
	const struct remote_value values[] = {{"query", hiding.len ? buffer_string(&hiding) : text},
					      {"base", base},
					      {"from", a->from},
					      {"to", a->to},
					      {"base_from", a->base_from},
					      {"base_to", a->base_to},
					      {"shift", a->shift},
					      {"relative", a->relative ? "1" : NULL},
					      {"format", strcmp(a->format, "json") == 0 ? "table" : "text"},
					      {"limit", limit}};
	r = remote_begin(&path, "/api/v1/diff", values, sizeof(values) / sizeof(*values));
	if (r < 0)
		return error_set(err, r, "the selectors are too long");
	r = remote_request(&a->remote, "GET", &path, &response, err);
	return r < 0 ? r : cmd_write(a->output, buffer_bytes(&response), err);
}

int cmd_diff(int argc, char **argv)
{
	struct diff_arguments o = {.from = "now-1h", .to = "now", .format = "top", .output = "-", .limit = 20};
	const struct option_row options[] = {
		REMOTE_OPTION_ROWS(&o.remote),
		{0, "from", "TIME", OPTION_TEXT, &o.from, .help = "start: now-1h, -15m, RFC 3339 or unix (default: now-1h)"},
		{0, "to", "TIME", OPTION_TEXT, &o.to, .help = "end (default: now)"},
		{0, "base-from", "TIME", OPTION_TEXT, &o.base_from, .help = "start of the time range to compare with"},
		{0, "base-to", "TIME", OPTION_TEXT, &o.base_to, .help = "end of that time range"},
		{0, "shift", "DURATION", OPTION_TEXT, &o.shift, .help = "compare with the time range this much earlier: 1d"},
		{0, "relative", NULL, OPTION_FLAG, &o.relative, .help = "compare shares of the totals, not values"},
		INTERPRETERS_OPTION_ROW(&o.interpreters),
		{0, "format", "FORMAT", OPTION_TEXT, &o.format, .help = "top or json (default: top)"},
		{'o', "output", "FILE", OPTION_TEXT, &o.output, .help = "where to write (default: standard output)"},
		{'n', "limit", "N", OPTION_UNSIGNED, &o.limit, 0, 1000000, .help = "rows, 0 = all (default: 20)"},
		{0}};
	const struct usage usage = {
		.verb = "diff",
		.synopsis = "[BASE] NEW [--url URL] [--shift DURATION] [--relative]",
		.description =
			"Shows by function what changed from BASE to NEW: two profile files, or two selectors for a\nserver. "
			"With one selector, --shift or --base-from and --base-to give the time range to\ncompare with.",
		.options = options,
		.examples = "wick diff before.pb.gz after.pb.gz\nwick diff process_cpu --shift 1d\nwick diff "
			    "'process_cpu{version=\"1\"}' 'process_cpu{version=\"2\"}' --relative"};
	struct operands operands;
	OPTIONS_OR_RETURN(&usage, argc, argv, &operands);
	if (strcmp(o.format, "top") != 0 && strcmp(o.format, "json") != 0)
		return usage_error(&usage, "--format: '%s' must be top or json", o.format);
	if (operands.count == 0 || operands.count > 2)
		return usage_error(&usage, "expected BASE and NEW, or one selector, got %zu operands", operands.count);
	struct error err = {0};
	const char *base = operands.count == 2 ? operands.items[0] : NULL, *text = operands.items[operands.count - 1];
	bool files = base && is_file(base) && is_file(text);
	if (!base && !o.shift && !(o.base_from && o.base_to))
		return usage_error(&usage, "nothing to compare with: give BASE, --shift, or --base-from and --base-to");
	int r = files ? diff_files(&o, base, text, &err) : diff_remote(&o, base, text, &err);
	return r < 0 ? cmd_fail("diff", &err) : EXIT_DONE;
}
