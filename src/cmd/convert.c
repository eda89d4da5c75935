/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>

#include "base/io.h"
#include "base/limits.h"
#include "cmd/cmd.h"
#include "format/format.h"
#include "profile/merge.h"

int read_profile_file(const char *path, const struct format *format, struct profile **ret, struct error *err)
{
	_cleanup_(buffer_release) struct buffer file = {0};
	int r = io_read_file(path, LIMIT_PROFILE_FILE_BYTES, &file, err);
	if (r)
		return r;
	const struct format *by_name = format ? format : format_detect(buffer_bytes(&file)) ? NULL : format_by_extension(path);
	struct format_options options = {.input_name = path, .decompressed_max = LIMIT_PROFILE_FILE_BYTES};
	return format_decode(by_name, buffer_bytes(&file), &options, ret, err);
}

static int merge_files(const struct operands *inputs, const struct format *format, struct profile **ret, struct error *err)
{
	_cleanup_(profile_freep) struct profile *all = NULL;
	int r = read_profile_file(inputs->items[0], format, &all, err);
	if (r || inputs->count == 1) {
		*ret = all; /* NULL on failure */
		all = NULL;
		return r;
	}
	_cleanup_(profile_freep) struct profile *merged = NULL;
	r = profile_new(&merged, err);
	if (!r)
		r = profile_merge(merged, all, true, err);
	for (size_t i = 1; i < inputs->count && !r; i++) {
		_cleanup_(profile_freep) struct profile *one = NULL;
		r = read_profile_file(inputs->items[i], format, &one, err);
		if (!r && (r = profile_merge(merged, one, true, err)))
			error_prefix(err, r, "cannot merge %s with the files before it", inputs->items[i]);
	}
	if (r)
		return r;
	*ret = merged;
	merged = NULL;
	return 0;
}

static int choose_type(struct profile *profile, const char *name, struct error *err)
{
	size_t type;
	int r = profile_find_sample_type(profile, name, &type, err);

	if (r == 0)
		profile->default_sample_type = profile->sample_types[type].type;
	return r;
}

int cmd_convert(int argc, char **argv)
{
	const char *out = NULL, *from = NULL, *to = NULL, *type = NULL;
	const struct option_row options[] = {
		{'o', "output", "FILE", OPTION_TEXT, &out,
		 .help = "where to write; the extension tells the format: .pb.gz, .pb,\n"
			 ".otlp, .folded, .svg, .top; - is standard output"},
		{0, "from", "FORMAT", OPTION_TEXT, &from,
		 .help = "format of the inputs (default: by content, then by\nextension): pprof, otlp, folded"},
		{0, "to", "FORMAT", OPTION_TEXT, &to, .help = "format of the output: pprof, otlp, folded, svg, top"},
		{0, "sample-type", "TYPE", OPTION_TEXT, &type,
		 .help = "the value to show where there are several: cpu, off_cpu\n(default: the profile's own choice)"},
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
	const struct format *format = from ? format_by_name(from) : NULL;
	if (from && (!format || !format->decode))
		return usage_error(&usage, "--from: '%s' is no format that can be read; there are pprof, otlp and folded",
				   from);
	struct error err = {0};
	if (output_check(out, to, &err))
		return usage_error(&usage, "%s", err.message);
	_cleanup_(profile_freep) struct profile *profile = NULL;
	int r = merge_files(&inputs, format, &profile, &err);
	if (!r && type)
		r = choose_type(profile, type, &err);
	if (!r)
		r = output_write(profile, out, to, inputs.items[0], &err);
	return r ? cmd_fail("convert", &err) : EXIT_DONE;
}
