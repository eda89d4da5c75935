/* SPDX-License-Identifier: Apache-2.0 */
/* wick annotate: markers and counters of one recording into the profile that another profiler made at the same time. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/io.h"
#include "base/limits.h"
#include "base/text.h"
#include "cmd/cmd.h"
#include "cmd/convert.h"
#include "codec/json_tree.h"
#include "format/annotate/annotate.h"

#define EXTENSION   ".annotated.firefox.json.gz"
#define INPUT_MAX   (64 * GIB)
#define PIECE_BYTES (64 * 1024)

struct annotation {
	const char *profile, *out, *thread;
	struct option_list markers;
	struct inputs_options inputs;
	struct annotate_options options;
	struct annotate_stats stats;
	struct annotate *annotate;
	struct input *base;
};

/* ---- the profile ---- */

/* Whether it is of the format that can be annotated as it is: the member may stand anywhere. */
static int is_firefox(struct input *input, bool *ret, struct error *err)
{
	static const char member[] = "\"preprocessedProfileVersion\"";
	static char piece[PIECE_BYTES + sizeof(member)];
	size_t kept = 0;
	ssize_t n;
	bool is_first = true;
	*ret = false;
	while (!*ret && (n = input_read(input, piece + kept, PIECE_BYTES, err)) > 0) {
		size_t len = kept + (size_t)n;
		if (is_first && !json_looks_like_object((struct bytes){(const uint8_t *)piece, len}))
			break;
		is_first = false;
		*ret = memmem(piece, len, member, strlen(member)) != NULL;
		kept = len < sizeof(member) ? len : sizeof(member);
		memmove(piece, piece + len - kept, kept);
	}
	input_rewind(input);
	return n < 0 ? (int)n : 0;
}

static int flush_to(void *context, struct bytes bytes, struct error *err)
{
	return io_write(*(const int *)context, bytes.data, bytes.len, "a temporary file", err);
}

/* Anything else becomes one first. */
static int convert(struct annotation *annotation, struct error *err)
{
	_cleanup_(profile_freep) struct profile *profile = NULL;
	_cleanup_(fd_closep) int fd = -1;
	_cleanup_(buffer_release) struct buffer out = {.max = SIZE_MAX};
	struct operands inputs = {.items = {(char *)annotation->profile}, .count = 1};
	struct format_sink sink = {.out = &out, .flush = flush_to, .context = &fd};
	int r = inputs_read(&inputs, &annotation->inputs, &profile, err);
	if (r == 0 && profile->monotonic_ns == PROFILE_OTHER_CLOCK && annotation->options.clock != ANNOTATE_CLOCK_MONOTONIC)
		r = error_set(err, -EINVAL,
			      "%s: its timestamps are from the kernel's sched_clock, which is milliseconds to seconds off the "
			      "monotonic clock of the markers; record with 'perf record -k CLOCK_MONOTONIC', or use them as "
			      "monotonic with --clock monotonic, and correct them with --offset",
			      annotation->profile);
	if (r == 0)
		r = fd = input_make_nameless(err);
	if (r >= 0)
		r = format_write(format_by_name("firefox"), profile, NULL, &sink, err);
	if (r < 0)
		return r;
	r = input_from_fd(fd, annotation->profile, INPUT_MAX, &annotation->base, err);
	fd = -1;
	return r;
}

static int open_profile(struct annotation *annotation, struct error *err)
{
	const struct format *format = annotation->inputs.format;
	bool is_it = false;
	int r = 0;
	if (!format || strcmp(format->name, "firefox") == 0)
		r = input_open(annotation->profile, INPUT_MAX, &annotation->base, err);
	if (r == 0 && annotation->base)
		r = is_firefox(annotation->base, &is_it, err);
	if (r < 0 || is_it || (format && annotation->base))
		return r;
	/* What came through a pipe is gone. */
	if (strcmp(annotation->profile, "-") == 0 && annotation->base)
		return error_set(err, -EINVAL,
				 "standard input is not a profile in Firefox Profiler's processed format; other formats are "
				 "read from files");
	annotation->base = input_free(annotation->base);
	return convert(annotation, err);
}

/* ---- the whole ---- */

static int write_annotated(void *context, struct format_sink *sink, struct error *err)
{
	struct annotation *annotation = context;
	return annotate_write(annotation->annotate, annotation->base, &annotation->options, sink, &annotation->stats, err);
}

static int run(struct annotation *annotation, struct error *err)
{
	int r = annotate_new(&annotation->annotate, err);
	for (size_t i = 0; r == 0 && i < annotation->markers.count; i++)
		r = annotate_add_markers(annotation->annotate, annotation->markers.items[i], annotation->thread, err);
	if (r == 0)
		r = open_profile(annotation, err);
	if (r < 0)
		return r;
	r = output_write_parts(annotation->out, text_ends_with(annotation->out, ".gz"), write_annotated, annotation, err);
	return r < 0 ? error_prefix(err, r, "%s", annotation->profile) : 0;
}

static void report(const struct annotation *annotation)
{
	const struct annotate_stats *stats = &annotation->stats;
	char numbers[5][TEXT_NUMBER_MAX];
	cmd_printf(stderr, "wick annotate: %s markers added to %s threads, %s of them new; %s counters; %s names completed\n",
		   text_format_count(stats->markers, numbers[0]), text_format_count(stats->threads, numbers[1]),
		   text_format_count(stats->new_threads, numbers[2]), text_format_count(stats->counters, numbers[3]),
		   text_format_count(stats->names, numbers[4]));
	cmd_printf(stderr, "  times matched by the %s clock\n",
		   stats->by_wall_clock && stats->by_monotonic_clock ? "wall clock for some files, else the monotonic"
		   : stats->by_monotonic_clock			     ? "monotonic"
								     : "wall");
	if (stats->boots_differ)
		fprintf(stderr, "  the monotonic clocks are more than 10 minutes apart from the wall clocks: from another "
				"machine or boot, and not used; --clock monotonic uses them\n");
	const struct {
		uint64_t count;
		const char *what;
	} others[] = {
		{stats->clamped, "markers cut to the time range of the profile"},
		{stats->outside, "markers dropped: before or after the profile"},
		{stats->malformed, "markers dropped: without a timestamp, or malformed lines"},
	};
	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
		if (others[i].count)
			cmd_printf(stderr, "  %s %s\n", text_format_count(others[i].count, numbers[0]), others[i].what);
	if (strcmp(annotation->out, "-") != 0)
		cmd_printf(stderr, "  written to %s\n", annotation->out);
}

/* Nanoseconds, with a sign. */
static int parse_offset(const char *text, int64_t *ret, struct error *err)
{
	if (!text)
		return 0;
	if (text_parse_i64(*text == '+' ? text + 1 : text, ret, NULL) < 0 || *ret < -INT64_MAX / 4 || *ret > INT64_MAX / 4)
		return error_set(err, -EINVAL, "--offset: '%.40s' is not a number of nanoseconds", text);
	return 0;
}

/* Further operands are markers, too, so that a pattern of the shell may follow --markers. */
static int take_operands(struct annotation *annotation, const struct operands *operands, struct error *err)
{
	annotation->profile = operands->items[0];
	for (size_t i = 1; i < operands->count; i++) {
		if (annotation->markers.count == 0)
			return error_set(err, -EINVAL, "only one profile is allowed; give marker files with --markers");
		if (annotation->markers.count == OPTION_LIST_MAX)
			return error_set(err, -E2BIG, "more than %d files of markers", OPTION_LIST_MAX);
		annotation->markers.items[annotation->markers.count++] = operands->items[i];
	}
	return annotation->markers.count ? 0 : error_set(err, -EINVAL, "no markers; give --markers FILE");
}

int cmd_annotate(int argc, char **argv)
{
	const char *offset = NULL;
	struct annotation annotation = {0};
	char names[OUTPUT_NAMES_MAX], help[OUTPUT_NAMES_MAX + 160], name[OUTPUT_NAME_MAX];
	snprintf(help, sizeof(help), "format of the profile (default: by content, then by\nextension): %s",
		 input_format_names(names));
	const struct option_row options[] = {
		{0, "markers", "FILE", OPTION_LIST, &annotation.markers,
		 .help = "what wick record wrote, or lines START END NAME as in\nsamply; may be repeated, and several files "
			 "may follow"},
		{'o', "output", "FILE", OPTION_TEXT, &annotation.out,
		 .help = "where to write, for Firefox Profiler (default: the\nprofile's name with " EXTENSION ")"},
		{0, "title", "TEXT", OPTION_TEXT, &annotation.options.title, .help = "title of the profile in the viewer"},
		{0, "offset", "NS", OPTION_TEXT, &offset, .help = "nanoseconds to add to the times of all markers"},
		{0, "clock", "CLOCK", OPTION_CHOICE, &annotation.options.clock, .choices = "auto, monotonic, wall",
		 .help = "clock that matches profile and markers: monotonic, wall,\nor auto (monotonic if both have it and can "
			 "be from one\nmachine; the default)"},
		{0, "thread", "PID:TID", OPTION_TEXT, &annotation.thread,
		 .help = "thread of the lines in line files (default: from the file\nname, marker-PID-TID.txt)"},
		FROM_OPTION_ROW(&annotation.inputs.format, help),
		{0, "symbols", "WHEN", OPTION_CHOICE, &annotation.inputs.symbols, .choices = "auto, always, never",
		 .help = "symbolize profiles of other formats on this machine:\nauto (if recorded here), always, never "
			 "(default: auto)"},
		{'q', "quiet", NULL, OPTION_FLAG, &annotation.inputs.quiet, .help = "do not report what was added and dropped"},
		{0}};
	const struct usage usage = {
		.verb = "annotate",
		.synopsis = "PROFILE --markers FILE... [-o FILE] [--title TEXT]",
		.description =
			"Adds markers and counters to a profile that another profiler recorded at the same time: from\n"
			"samply, saved by Firefox Profiler, or any with timestamps and threads. The profile's own data stays\n"
			"unchanged; threads are matched by pid, tid and start.",
		.options = options,
		.examples = "wick annotate profile.json.gz --markers app.firefox.json -o app.json.gz --title pipeline\n"
			    "wick annotate perf.data --markers marker-*.txt"};
	struct operands operands;
	struct error err = {0};
	OPTIONS_OR_RETURN(&usage, argc, argv, &operands);
	if (operands.count == 0)
		return usage_error(&usage, "no profile");
	if (take_operands(&annotation, &operands, &err) < 0 || parse_offset(offset, &annotation.options.offset_ns, &err) < 0 ||
	    (!annotation.out && output_choose_name(&operands, EXTENSION, name, &err) < 0))
		return usage_error(&usage, "%s", err.message);
	if (!annotation.out)
		annotation.out = name;
	int r = run(&annotation, &err);
	if (r == 0 && !annotation.inputs.quiet)
		report(&annotation);
	annotate_free(annotation.annotate);
	input_free(annotation.base);
	return r < 0 ? cmd_fail("annotate", &err) : EXIT_DONE;
}
