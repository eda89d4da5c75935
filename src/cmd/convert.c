/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "base/io.h"
#include "base/limits.h"
#include "cmd/cmd.h"
#include "cmd/convert.h"
#include "format/format.h"
#include "profile/merge.h"
#include "profile/spans.h"

#define NOTES_BYTES_MAX (64 * KIB)

/* What a decoder left out, a line each. */
static void print_notes(const char *path, const struct buffer *notes)
{
	for (struct bytes rest = buffer_bytes(notes); rest.len > 0;) {
		cmd_printf(stderr, "%s: dropped: ", path);
		cmd_print_harmless_bytes(stderr, bytes_take_line(&rest));
		fputc('\n', stderr);
	}
}

/* Before files are merged, for that takes the times off the samples. */
static int apply_spans(struct profile *profile, const char *path, const struct inputs_options *how, struct error *err)
{
	struct profile_during_found found = {0};
	int r = 0;
	if (how->during.count > 0)
		r = profile_filter_during(profile, how->during.items, how->during.count, &found, err);
	if (r == 0 && how->spans)
		r = profile_label_spans(profile, err);
	if (r == 0 && how->during.count > 0 && !how->quiet) {
		if (found.spans == 0)
			cmd_printf(stderr, "%s: no span matches %s%s\n", path, how->during.items[0],
				   how->during.count > 1 ? ", nor the other given names" : "");
		if (found.without_time > 0)
			cmd_printf(stderr, "%s: dropped: %zu samples of unknown time\n", path, found.without_time);
	}
	return r;
}

int inputs_read_file(const void *options, const char *path, struct profile **ret, struct error *err)
{
	const struct inputs_options *how = options;
	_cleanup_(buffer_release) struct buffer file = {0};
	int r = io_read_file(path, LIMIT_PROFILE_FILE_BYTES, &file, err);
	if (r < 0)
		return r;
	_cleanup_(profile_freep) struct profile *profile = NULL;
	_cleanup_(buffer_release) struct buffer notes = {.max = NOTES_BYTES_MAX};
	enum symbols_how symbols = how->symbols;
	struct format_options decoding = {.input_name = path,
					  .fallback = format_by_extension(path),
					  .decompressed_max = LIMIT_PROFILE_FILE_BYTES,
					  .open_binary = symbolize_open_binary,
					  .open_context = &symbols,
					  .notes = how->quiet ? NULL : &notes};
	r = format_decode(how->format, buffer_bytes(&file), &decoding, &profile, err);
	if (r == 0)
		r = symbolize_profile(profile, how->symbols, err);
	if (r == 0)
		r = apply_spans(profile, path, how, err);
	if (r < 0)
		return r;
	print_notes(path, &notes);
	*ret = TAKE(profile);
	return 0;
}

int read_merged(char *const *names, size_t count, read_input_function read, const void *context, struct profile **ret,
		struct error *err)
{
	_cleanup_(profile_freep) struct profile *all = NULL;
	_cleanup_(profile_freep) struct profile *merged = NULL;
	int r = read(context, names[0], &all, err);
	if (r < 0 || count == 1) {
		*ret = TAKE(all); /* NULL on failure */
		return r;
	}
	r = profile_new(&merged, err);
	if (!r)
		r = profile_merge(merged, all, true, err);
	for (size_t i = 1; i < count && !r; i++) {
		_cleanup_(profile_freep) struct profile *one = NULL;
		r = read(context, names[i], &one, err);
		if (!r && (r = profile_merge(merged, one, true, err)) < 0)
			error_prefix(err, r, "cannot merge %s with the inputs before it", names[i]);
	}
	if (r == 0)
		*ret = TAKE(merged);
	return r;
}

int inputs_choose_type(struct profile *profile, const char *name, struct error *err)
{
	size_t type;
	int r = profile_find_sample_type(profile, name, &type, err);
	if (r == 0)
		profile->default_sample_type = profile->sample_types[type].type;
	return r;
}

const char *inputs_from_help(char out[static FROM_HELP_MAX])
{
	char names[OUTPUT_NAMES_MAX];
	snprintf(out, FROM_HELP_MAX, "format of the inputs (default: by content, then by\nextension): %s",
		 input_format_names(names));
	return out;
}

void output_make_help(struct output_help *ret)
{
	char names[OUTPUT_NAMES_MAX];
	snprintf(ret->file, sizeof(ret->file), "where to write; the extension selects the format:\n%s;\n- is standard output",
		 output_extensions(names));
	snprintf(ret->format, sizeof(ret->format), "format of the output: %s", output_format_names(names));
}

int inputs_read(const struct operands *inputs, const struct inputs_options *options, struct profile **ret, struct error *err)
{
	_cleanup_(profile_freep) struct profile *profile = NULL;
	int r = read_merged(inputs->items, inputs->count, inputs_read_file, options, &profile, err);
	if (r == 0 && options->sample_type)
		r = inputs_choose_type(profile, options->sample_type, err);
	if (r == 0)
		*ret = TAKE(profile);
	return r;
}

int cmd_convert(int argc, char **argv)
{
	const char *out = NULL, *to = NULL;
	struct inputs_options how = {0};
	struct output_options output = {0};
	char from_help[FROM_HELP_MAX];
	struct output_help help;
	output_make_help(&help);
	const struct option_row options[] = {
		OUTPUT_OPTION_ROWS(&out, &to, &help),
		FROM_OPTION_ROW(&how.format, inputs_from_help(from_help)),
		SAMPLE_TYPE_OPTION_ROW(&how.sample_type),
		FORMAT_VERSION_OPTION_ROW(&output.version),
		DURING_OPTION_ROW(&how.during),
		SPANS_OPTION_ROW(&how.spans),
		SYMBOLS_OPTION_ROW(&how.symbols),
		{'q', "quiet", NULL, OPTION_FLAG, &how.quiet,
		 .help = "do not report what was dropped from the inputs, and what\nthe output format cannot store"},
		{0}};
	const struct usage usage = {.verb = "convert",
				    .synopsis = "IN... -o OUT [--from FORMAT] [--to FORMAT] [--sample-type TYPE]",
				    .description =
					    "Reads profile files, merges them if there are several, and writes one in\nanother "
					    "format. gzip and zstd inputs are decompressed; - is standard input.",
				    .options = options,
				    .examples = "wick convert cpu.pb.gz -o cpu.svg\nwick convert a.pb.gz b.pb.gz -o "
						"both.pb.gz\nwick convert cpu.pb.gz -o - --to top | head"};
	struct operands inputs;
	OPTIONS_OR_RETURN(&usage, argc, argv, &inputs);
	if (inputs.count == 0)
		return usage_error(&usage, "no input file");
	if (!out)
		return usage_error(&usage, "no output file; give -o OUT");
	struct error err = {0};
	if (output_check(out, to, &err) < 0)
		return usage_error(&usage, "%s", err.message);
	_cleanup_(profile_freep) struct profile *profile = NULL;
	int r = inputs_read(&inputs, &how, &profile, &err);
	if (!r)
		r = output_write(profile, out, to, inputs.items[0], &output, &err);
	if (!r && !how.quiet)
		output_print_losses(profile, out, to);
	return r < 0 ? cmd_fail("convert", &err) : EXIT_DONE;
}
