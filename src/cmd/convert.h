/* SPDX-License-Identifier: Apache-2.0 */
/* Reading profile files, as `wick convert` does, for the verbs that do other things with them. */
#ifndef WICK_CMD_CONVERT_H
#define WICK_CMD_CONVERT_H

#include <stdbool.h>

#include "cmd/cmd.h"
#include "cmd/symbolize.h"

struct inputs_options {
	const struct format *format; /* NULL = by content, then by extension */
	bool quiet;		     /* do not say what was left out */
	enum symbols_how symbols;
	const char *sample_type;   /* the value to show; NULL = the profile's own choice */
	struct option_list during; /* keep the samples during spans of these names; none = all */
	bool spans;		   /* label samples with the spans they are in (profile/spans.h) */
};
#define FROM_HELP_MAX (OUTPUT_NAMES_MAX + 160)
/* What FROM_OPTION_ROW takes. */
const char *inputs_from_help(char out[static FROM_HELP_MAX]);
/* What OUTPUT_OPTION_ROWS takes: of the file and of --to. */
struct output_help {
	char file[FROM_HELP_MAX], format[FROM_HELP_MAX];
};
void output_make_help(struct output_help *ret);
#define OUTPUT_OPTION_ROWS(file_text, format_text, helps)                                                                      \
	OPTION_ROW('o', "output", "FILE", OPTION_TEXT, file_text, .help = (helps)->file),                                      \
		OPTION_ROW(0, "to", "FORMAT", OPTION_TEXT, format_text, .help = (helps)->format)
#define FROM_OPTION_ROW(format, help_text) OPTION_ROW(0, "from", "FORMAT", OPTION_FORMAT, format, .help = help_text)
#define SAMPLE_TYPE_OPTION_ROW(text)                                                                                           \
	OPTION_ROW(0, "sample-type", "TYPE", OPTION_TEXT, text,                                                                \
		   .help = "sample type to show if there are several: cpu, off_cpu\n(default: the profile's default)")
#define FORMAT_VERSION_OPTION_ROW(number)                                                                                      \
	OPTION_ROW(0, "format-version", "VERSION", OPTION_UNSIGNED, number, 1, 1000,                                           \
		   .help = "version of Firefox Profiler's format: 60 to 75\n(default: 60, which all viewers read)")
#define SYMBOLS_OPTION_ROW(how)                                                                                                \
	OPTION_ROW(0, "symbols", "WHEN", OPTION_CHOICE, how, .choices = "auto, always, never",                                 \
		   .help = "symbolize on this machine: auto (if recorded here),\nalways, never (default: auto)")
#define DURING_OPTION_ROW(list)                                                                                                \
	OPTION_ROW(0, "during", "NAME", OPTION_LIST, list,                                                                     \
		   .help = "keep only samples taken during spans of this name or\ncategory; may be repeated")
#define SPANS_OPTION_ROW(flag)                                                                                                 \
	OPTION_ROW(0, "spans", NULL, OPTION_FLAG, flag, .help = "label samples with their span: span, span.path")
/* One profile file, compressed or not, as the options (struct inputs_options) say, but for the sample type; "-" is standard
 * input. A read_input_function. */
int inputs_read_file(const void *options, const char *path, struct profile **ret, struct error *err);
/* --sample-type of a profile: which of its values is shown. -EINVAL. */
int inputs_choose_type(struct profile *profile, const char *name, struct error *err);
/* One profile of all files, of which there is at least one; with names, as the options say. */
int inputs_read(const struct operands *inputs, const struct inputs_options *options, struct profile **ret, struct error *err);

#endif
