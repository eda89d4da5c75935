/* SPDX-License-Identifier: Apache-2.0 */
/* wick merge: files of several hosts as one profile, on one clock. What is estimated how: profile/align.h, docs/hosts.md. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/text.h"
#include "base/time.h"
#include "cmd/cmd.h"
#include "cmd/convert.h"
#include "format/format.h"
#include "profile/align.h"
#include "profile/hosts.h"

struct merge {
	struct operands inputs;
	struct inputs_options how;
	struct option_list names;
	const char *sample_type;
	struct profile_align_options align;
	struct profile_align_result result;
	struct profile *profile;
};

/* What a file is called, without directories and extensions. */
static char *name_of_file(const char *path)
{
	const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
	size_t len = *name ? 1 + strcspn(name + 1, ".") : 0;
	if (len == 0 || strcmp(name, "-") == 0)
		return mem_strdup("stdin");
	char *copy = mem_alloc(len + 1);
	if (copy) {
		memcpy(copy, name, len);
		copy[len] = 0;
	}
	return copy;
}

static int name_hosts(const struct merge *merge, size_t place, struct profile *profile, struct error *err)
{
	const char *path = merge->inputs.items[place], *given = place < merge->names.count ? merge->names.items[place] : NULL;
	_cleanup_(mem_freep) char *of_file = name_of_file(path);
	if (!of_file)
		return error_nomem(err);
	int r = profile_complete_hosts(profile, given ? given : of_file, err);
	if (r < 0 || !given)
		return r;
	if (profile_host_count(profile) != 1)
		return error_set(err, -EINVAL, "%s has %zu hosts; --host works with files of one host only", path,
				 profile_host_count(profile));
	return profile_rename_host(profile, 1, given, err);
}

static int add_input(struct merge *merge, size_t place, struct error *err)
{
	_cleanup_(profile_freep) struct profile *profile = NULL;
	struct operands one = {.items = {merge->inputs.items[place]}, .count = 1};
	int r = inputs_read(&one, &merge->how, &profile, err);
	if (r == 0)
		r = name_hosts(merge, place, profile, err);
	if (r < 0)
		return r;
	r = profile_merge_hosts(merge->profile, profile, err);
	return r < 0 ? error_prefix(err, r, "cannot merge %s with the inputs before it", merge->inputs.items[place]) : 0;
}

static int merge_all(struct merge *merge, struct error *err)
{
	int r = profile_new(&merge->profile, err);
	for (size_t i = 0; r == 0 && i < merge->inputs.count; i++)
		r = add_input(merge, i, err);
	/* Files may hold nothing but markers; every format wants to know what samples would be. */
	if (r == 0 && merge->profile->sample_type_count == 0)
		r = profile_add_named_type(merge->profile, "cpu", "nanoseconds", err);
	return r < 0 ? r : profile_align(merge->profile, &merge->align, &merge->result, err);
}

/* ---- the report ---- */

#define WIDTH_MAX 24

static const char *format_bound(int64_t bound_ns, char out[static TIME_TEXT_MAX])
{
	return bound_ns < 0 ? "unknown" : time_format_duration(bound_ns, out);
}

/* Names come from files. */
static void print_host(const struct profile *profile, const struct profile_host *host)
{
	char bound[TIME_TEXT_MAX], count[TEXT_NUMBER_MAX];
	fputs("  ", stderr);
	cmd_print_harmless(stderr, profile_string(profile, host->name), WIDTH_MAX);
	cmd_printf(stderr, " %16.6f s %+10.2f ppm  %-10s %10s  ", (double)host->offset_ns / (double)NS_PER_S, host->skew * 1e6,
		   format_bound(host->bound_ns, bound), text_format_count(host->exchanges, count));
	cmd_print_harmless(stderr, profile_string(profile, host->method), 0);
	fputc('\n', stderr);
}

static void report(const struct merge *merge)
{
	const struct profile *profile = merge->profile;
	const struct profile_align_result *result = &merge->result;
	char count[TEXT_NUMBER_MAX];
	if (!merge->align.keep_times && profile_host_count(profile) > 0)
		cmd_printf(stderr, "  %-*s %18s %14s  %-10s %10s  %s\n", WIDTH_MAX, "host", "clock offset", "skew", "accuracy",
			   "messages", "method");
	for (size_t i = 1; i <= profile_host_count(profile) && !merge->align.keep_times; i++)
		print_host(profile, &profile->markers->hosts[i]);
	cmd_printf(stderr, "  %s messages between processes\n", text_format_count(result->exchanges, count));
	if (result->reversed)
		cmd_printf(stderr, "  %s messages are received before they are sent\n",
			   text_format_count(result->reversed, count));
	if (result->ambiguous)
		cmd_printf(stderr, "  %s flows were ignored: they have several sends and several receives\n",
			   text_format_count(result->ambiguous, count));
}

/* ---- the verb ---- */

static int run(struct merge *merge, const char *out, const char *to, const struct output_options *output, struct error *err)
{
	int r = merge_all(merge, err);
	if (r == 0 && merge->sample_type)
		r = inputs_choose_type(merge->profile, merge->sample_type, err);
	if (r == 0)
		r = output_write(merge->profile, out, to, merge->inputs.items[0], output, err);
	if (r == 0 && !merge->how.quiet) {
		report(merge);
		output_print_losses(merge->profile, out, to);
	}
	return r;
}

int cmd_merge(int argc, char **argv)
{
	const char *out = NULL, *to = NULL;
	struct merge merge = {0};
	struct output_options output = {0};
	char from_help[FROM_HELP_MAX];
	struct output_help help;
	output_make_help(&help);
	const struct option_row options[] = {
		OUTPUT_OPTION_ROWS(&out, &to, &help),
		{0, "host", "NAME", OPTION_LIST, &merge.names,
		 .help = "host name of the first input; repeat for the next inputs\n(default: from the file, or the file "
			 "name)"},
		{0, "reference", "NAME", OPTION_TEXT, &merge.align.reference,
		 .help = "host with the reference clock (default: the first)"},
		{0, "no-align", NULL, OPTION_FLAG, &merge.align.keep_times, .help = "do not change any times"},
		FROM_OPTION_ROW(&merge.how.format, inputs_from_help(from_help)),
		SAMPLE_TYPE_OPTION_ROW(&merge.sample_type),
		FORMAT_VERSION_OPTION_ROW(&output.version),
		SYMBOLS_OPTION_ROW(&merge.how.symbols),
		{'q', "quiet", NULL, OPTION_FLAG, &merge.how.quiet,
		 .help = "do not report clock offsets, nor what was dropped"},
		{0}};
	const struct usage usage = {
		.verb = "merge",
		.synopsis = "IN... -o OUT [--host NAME]... [--reference NAME] [--no-align]",
		.description =
			"Merges profiles of several hosts into one, side by side, on one clock, with the flows\nbetween them. "
			"Clock offsets are estimated from marker flows, and from the clock\ninformation in the files.",
		.options = options,
		.examples = "wick merge a.firefox.json b.firefox.json -o all.firefox.json\nwick merge x.pb.gz y.pb.gz "
			    "--host web --host db -o all.firefox.json.gz"};
	OPTIONS_OR_RETURN(&usage, argc, argv, &merge.inputs);
	if (merge.inputs.count == 0)
		return usage_error(&usage, "no input file");
	if (!out)
		return usage_error(&usage, "no output file; give -o OUT");
	if (merge.names.count > merge.inputs.count)
		return usage_error(&usage, "more --host options than inputs");
	struct error err = {0};
	if (output_check(out, to, &err) < 0)
		return usage_error(&usage, "%s", err.message);
	int r = run(&merge, out, to, &output, &err);
	profile_free(merge.profile);
	return r < 0 ? cmd_fail("merge", &err) : EXIT_DONE;
}
