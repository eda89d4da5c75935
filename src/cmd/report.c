/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reports of profiles as `go tool pprof` gives them, of any format that can be read and of what a server answers.
 *
 * Options have pprof's names, and are also understood as pprof spells them: with one dash, with '_' for '-', flags with =true
 * and =false, the report itself as an option (-top, -peek=REGEX).
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/io.h"
#include "base/limits.h"
#include "base/sum.h"
#include "base/text.h"
#include "cmd/convert.h"
#include "cmd/open.h"
#include "cmd/remote.h"
#include "cmd/report.h"
#include "format/format.h"
#include "profile/interpreters.h"
#include "profile/merge.h"
#include "server/viewer/local_viewer.h"

#define REPORT_BYTES_MAX (4 * GIB)

static const struct report_verb {
	const char *name;
	enum report_mode mode;
	bool has_regex;
	const char *image; /* that dot makes of it; NULL = the report itself */
	bool is_shown;	   /* in a browser, unless it goes to a file */
} verbs[] = {
	{"top", REPORT_TOP, false},
	{"text", REPORT_TOP, false},
	{"tree", REPORT_TREE, false},
	{"peek", REPORT_PEEK, true},
	{"traces", REPORT_TRACES, false},
	{"list", REPORT_LIST, true},
	{"disasm", REPORT_DISASM, true},
	{"tags", REPORT_TAGS, false},
	{"raw", REPORT_RAW, false},
	{"callgrind", REPORT_CALLGRIND, false},
	{"dot", REPORT_DOT, false},
	{"comments", REPORT_COMMENTS, false},
	{"topproto", REPORT_TOPPROTO, false},
	{"proto", REPORT_PROTO, false},
	{"svg", REPORT_DOT, false, "svg"},
	{"png", REPORT_DOT, false, "png"},
	{"gif", REPORT_DOT, false, "gif"},
	{"pdf", REPORT_DOT, false, "pdf"},
	{"ps", REPORT_DOT, false, "ps"},
	{"web", REPORT_DOT, false, "svg", true},
	{"weblist", REPORT_WEBLIST, true, NULL, true},
};
#define VERBS (sizeof(verbs) / sizeof(*verbs))

static struct report_arguments o = {.from = "now-1h", .to = "now", .output = "-", .unit = "minimum"};

static const struct option_row options[] = {
	{'o', "output", "FILE", OPTION_TEXT, &o.output, .help = "where to write (default: standard output)"},
	{0, "format", "FORMAT", OPTION_FORMAT, &o.format, .help = "format of the inputs (default: by content)"},
	REMOTE_OPTION_ROWS(&o.remote),
	{0, "seconds", "N", OPTION_TEXT, &o.seconds,
	 .help = "of URLs: how long to profile (default: the URL's, else 30\nfor /debug/pprof/profile)"},
	{0, "timeout", "N", OPTION_TEXT, &o.timeout,
	 .help = "of URLs: seconds to wait (default: 1.5 times --seconds,\nelse 60)"},
	{0, "http", "ADDR:PORT", OPTION_TEXT, &o.http,
	 .help = "serve the profile on this machine and show it in a\nbrowser, instead of a report: [127.0.0.1]:[PORT]"},
	{0, "no-browser", NULL, OPTION_FLAG, &o.no_browser, .help = "with --http: start no browser"},
	{0, "from", "TIME", OPTION_TEXT, &o.from,
	 .help = "with --url: start: now-1h, -15m, RFC 3339 or unix\n(default: now-1h)"},
	{0, "to", "TIME", OPTION_TEXT, &o.to, .help = "with --url: end (default: now)"},
	{0, "base", "INPUT", OPTION_LIST, &o.base, .help = "subtract this profile; may be repeated"},
	{0, "diff-base", "INPUT", OPTION_LIST, &o.diff_base, .help = "the same, with percentages of the base"},
	{0, "normalize", NULL, OPTION_FLAG, &o.normalize, .help = "scale to the base's total first"},
	DURING_OPTION_ROW(&o.during),
	SPANS_OPTION_ROW(&o.spans),
	{0, "focus", "REGEX", OPTION_TEXT, &o.focus, .help = "keep only samples with a matching frame"},
	{0, "ignore", "REGEX", OPTION_TEXT, &o.ignore, .help = "drop samples with a matching frame"},
	{0, "hide", "REGEX", OPTION_TEXT, &o.hide, .help = "remove matching frames"},
	{0, "show", "REGEX", OPTION_TEXT, &o.show, .help = "remove all other frames"},
	INTERPRETERS_OPTION_ROW(&o.interpreters),
	{0, "show-from", "REGEX", OPTION_TEXT, &o.show_from, .help = "remove frames above the outermost matching frame"},
	{0, "prune-from", "REGEX", OPTION_TEXT, &o.prune_from, .help = "remove frames below the innermost matching frame"},
	{0, "tagfocus", "FILTER", OPTION_TEXT, &o.tag_focus,
	 .help = "keep only samples with a matching label: KEY=REGEX, REGEX,\nor numbers: KEY=1mb:2gb, 30kb:, :512b"},
	{0, "tagignore", "FILTER", OPTION_TEXT, &o.tag_ignore, .help = "drop samples with a matching label"},
	{0, "tagshow", "REGEX", OPTION_TEXT, &o.tag_show, .help = "keep only matching labels"},
	{0, "taghide", "REGEX", OPTION_TEXT, &o.tag_hide, .help = "remove matching labels"},
	{0, "tagroot", "KEYS", OPTION_TEXT, &o.tag_root, .help = "add frames of labels at the root: host,pid"},
	{0, "tagleaf", "KEYS", OPTION_TEXT, &o.tag_leaf, .help = "add frames of labels at the leaf"},
	{'n', "nodecount", "N", OPTION_TEXT, &o.node_count,
	 .help = "maximum number of functions; 0 = all (default: 80, top: all)"},
	{0, "nodefraction", "SHARE", OPTION_TEXT, &o.node_fraction, .help = "drop functions below this share (default: 0.005)"},
	{0, "edgefraction", "SHARE", OPTION_TEXT, &o.edge_fraction, .help = "drop calls below this share (default: 0.001)"},
	{0, "no-trim", NULL, OPTION_FLAG, &o.no_trim, .help = "drop nothing (pprof: -trim=false)"},
	{0, "cum", NULL, OPTION_FLAG, &o.cum, .help = "sort by cumulative value"},
	{0, "flat", NULL, OPTION_FLAG, &o.flat, .help = "sort by flat value (the default)"},
	{0, "functions", NULL, OPTION_FLAG, &o.functions, .help = "one entry per function (the default)"},
	{0, "filefunctions", NULL, OPTION_FLAG, &o.file_functions, .help = "one entry per function and file"},
	{0, "files", NULL, OPTION_FLAG, &o.files, .help = "one entry per source file"},
	{0, "lines", NULL, OPTION_FLAG, &o.lines, .help = "one entry per source line"},
	{0, "addresses", NULL, OPTION_FLAG, &o.addresses, .help = "one entry per address"},
	{0, "noinlines", NULL, OPTION_FLAG, &o.no_inlines, .help = "attribute inlined functions to their callers"},
	{0, "showcolumns", NULL, OPTION_FLAG, &o.show_columns, .help = "also show columns of source lines"},
	{0, "sample-index", "TYPE", OPTION_TEXT, &o.sample_index, .help = "sample type: its name or number"},
	{0, "unit", "UNIT", OPTION_TEXT, &o.unit, .help = "unit of values: ms, MB ... (default: minimum, which fits)"},
	{0, "mean", NULL, OPTION_FLAG, &o.mean, .help = "divide by the first sample type, usually a count"},
	{0, "divide-by", "N", OPTION_TEXT, &o.divide_by, .help = "divide all values"},
	{0, "drop-negative", NULL, OPTION_FLAG, &o.drop_negative, .help = "drop functions with a negative difference"},
	{0, "call-tree", NULL, OPTION_FLAG, &o.call_tree, .help = "dot, callgrind: separate functions by their callers"},
	{0, "compact-labels", NULL, OPTION_FLAG, &o.compact_labels, .help = "a short heading"},
	{0, "relative-percentages", NULL, OPTION_FLAG, &o.relative, .help = "percentages relative to the filtered total"},
	{0, "source-path", "DIRS", OPTION_TEXT, &o.source_path, .help = "where list looks for sources, separated by ':'"},
	{0, "trim-path", "PATHS", OPTION_TEXT, &o.trim_path, .help = "prefixes to trim from source file names"},
	{0, "intel-syntax", NULL, OPTION_FLAG, &o.intel_syntax, .help = "disasm: Intel's syntax instead of AT&T's"},
	{0, "symbolize", "HOW", OPTION_TEXT, &o.symbolize,
	 .help = "C++ and Rust names: demangle=none or none unchanged,\ndemangle=full with parameters (default: short)"},
	{0, "all-frames", NULL, OPTION_FLAG, &o.all_frames, .help = "keep frames that the profile marks to be dropped"},
	{0, "add-comment", "TEXT", OPTION_TEXT, &o.add_comment, .help = "add a comment"},
	{'q', "quiet", NULL, OPTION_FLAG, &o.quiet, .help = "do not report filters that did not match"},
	{0}};

static const struct usage usage = {
	.verb = "report",
	.synopsis = "[MODE [REGEX]] [OPTION...] [BINARY] INPUT...",
	.description = "Shows profiles as `go tool pprof` does: files of any format that can be read, URLs of\n"
		       "profiles (http://HOST:PORT/debug/pprof/heap), or, with --url, the result of a selector\n"
		       "on a server. Several inputs are merged.\n"
		       "\n"
		       "modes:\n"
		       "  top            functions by value (the default; also: text)\n"
		       "  tree           functions with their callers and callees\n"
		       "  peek REGEX     the same, for functions that match\n"
		       "  traces         all stacks\n"
		       "  list REGEX     source lines of functions that match, with their values\n"
		       "  disasm REGEX   their instructions, likewise\n"
		       "  tags           labels and their values\n"
		       "  raw            everything in the profile\n"
		       "  callgrind      for KCachegrind\n"
		       "  weblist REGEX  list and disasm as one HTML file, in the browser or with -o FILE\n"
		       "  dot            the call graph for Graphviz\n"
		       "  svg, png, gif, pdf, ps  the call graph, drawn by Graphviz's dot\n"
		       "  web            the call graph in the browser\n"
		       "  comments       the profile's comments\n"
		       "  topproto       top as a pprof profile\n"
		       "  proto          the profile as pprof, filtered",
	.options = options,
	.examples = "wick report cpu.pb.gz\nwick report peek 'malloc|free' heap.pb.gz --sample-index alloc_space\n"
		    "wick report tree --focus parse --url http://127.0.0.1:7070 'process_cpu{service_name=\"shop\"}'\n"
		    "wick report -top -cum -diff_base=before.pb.gz after.pb.gz"};

/* ---- pprof's way of writing options ---- */

static const struct report_verb *find_verb(const char *name, size_t len)
{
	for (size_t i = 0; i < VERBS; i++)
		if (strlen(verbs[i].name) == len && memcmp(verbs[i].name, name, len) == 0)
			return &verbs[i];
	return NULL;
}

static const struct option_row *find_row(const char *name)
{
	for (const struct option_row *row = options; row->name; row++)
		if (strcmp(row->name, name) == 0)
			return row;
	return NULL;
}

/* pprof's older names for choices of the value. */
static bool set_sample_index(const char *name)
{
	static const struct {
		const char *name, *type;
	} known[] = {{"inuse-space", "inuse_space"}, {"inuse-objects", "inuse_objects"},
		     {"alloc-space", "alloc_space"}, {"alloc-objects", "alloc_objects"},
		     {"contentions", "contentions"}, {"total-delay", "delay"},
		     {"mean-delay", "delay"}};
	for (size_t i = 0; i < sizeof(known) / sizeof(*known); i++) {
		if (strcmp(known[i].name, name) != 0)
			continue;
		o.sample_index = known[i].type;
		o.mean |= strcmp(name, "mean-delay") == 0;
		return true;
	}
	return false;
}

struct rewriting {
	char **argv; /* the new one; its strings are the old one's, or owned by texts */
	int argc;
	struct arena texts;
	const struct report_verb *verb;
	const char *regex;
};

static int set_verb(struct rewriting *to, const struct report_verb *verb, const char *regex)
{
	if (to->verb)
		return usage_error(&usage, "give one report only: %s or %s", to->verb->name, verb->name) + 1;
	to->verb = verb;
	to->regex = regex;
	return 0;
}

/* A flag with a value: true leaves it as it is, false takes it out. */
static int rewrite_flag(struct rewriting *to, const char *name, const char *value, char *text)
{
	bool yes = strcmp(value, "true") == 0 || strcmp(value, "1") == 0 || strcmp(value, "t") == 0;
	bool no = strcmp(value, "false") == 0 || strcmp(value, "0") == 0 || strcmp(value, "f") == 0;
	if (!yes && !no)
		return usage_error(&usage, "--%s: '%s' must be true or false", name, value) + 1;
	if (strcmp(name, "trim") == 0) {
		o.no_trim = no;
		return 0;
	}
	text[strcspn(text, "=")] = '\0';
	if (yes)
		to->argv[to->argc++] = text;
	return 0;
}

/* argv[*at] as our parser wants it. 0, or an exit status plus 1. */
static int rewrite(struct rewriting *to, int argc, char **argv, int *at)
{
	char *text = argv[*at];
	if (text[0] != '-' || !text[1] || (text[1] != '-' && !text[2])) {
		to->argv[to->argc++] = text;
		return 0;
	}
	const char *bare = text + 1 + (text[1] == '-');
	size_t len = strcspn(bare, "=");
	char *copy = arena_alloc(&to->texts, strlen(bare) + 3);
	if (!copy)
		return usage_error(&usage, "the options are too long") + 1;
	snprintf(copy, strlen(bare) + 3, "--%s", bare);
	for (size_t i = 2; i < len + 2; i++)
		copy[i] = copy[i] == '_' ? '-' : copy[i];
	char name[64];
	snprintf(name, sizeof(name), "%.*s", (int)(len < 63 ? len : 63), copy + 2);
	const char *value = copy[2 + len] ? copy + 3 + len : NULL;
	const struct report_verb *verb = find_verb(name, strlen(name));
	if (verb) {
		if (verb->has_regex && !value && *at + 1 < argc)
			value = argv[++*at];
		return set_verb(to, verb, value);
	}
	if (set_sample_index(name))
		return 0;
	const struct option_row *row = find_row(name);
	/* The opposite of a flag. */
	const struct option_row *negated = !row && text_starts_with(name, "no-") ? find_row(name + 3) : NULL;
	if (negated && negated->kind == OPTION_FLAG && !value)
		return 0;
	bool is_trim = strcmp(name, "trim") == 0;
	if (value && (is_trim || (row && row->kind == OPTION_FLAG)))
		return rewrite_flag(to, name, value, copy);
	if (is_trim)
		return 0;
	to->argv[to->argc++] = row ? copy : text;
	if (row && row->kind != OPTION_FLAG && !value && *at + 1 < argc)
		to->argv[to->argc++] = argv[++*at];
	return 0;
}

static int parse_arguments(int argc, char **argv, struct rewriting *to, struct operands *operands)
{
	to->argv[to->argc++] = argv[0];
	for (int i = 1; i < argc; i++) {
		int status = rewrite(to, argc, argv, &i);
		if (status)
			return status;
	}
	int status = options_parse(&usage, to->argc, to->argv, operands);
	if (status)
		return status;
	size_t used = 0;
	if (!to->verb && operands->count > 0) {
		to->verb = find_verb(operands->items[0], strlen(operands->items[0]));
		used = to->verb != NULL;
	}
	if (to->verb && o.http)
		return usage_error(&usage, "--http shows the profile itself: give no report with it") + 1;
	if (o.no_browser && !o.http)
		return usage_error(&usage, "--no-browser requires --http") + 1;
	if (!to->verb)
		to->verb = o.http ? find_verb("proto", 5) : &verbs[0];
	if (to->verb->has_regex && !to->regex && used < operands->count)
		to->regex = operands->items[used++];
	operands->count -= used;
	memmove(operands->items, operands->items + used, (operands->count + 1) * sizeof(*operands->items));
	if (to->verb->has_regex && !to->regex)
		return usage_error(&usage, "%s: give a regular expression of functions", to->verb->name) + 1;
	return operands->count ? 0 : usage_error(&usage, "no input") + 1;
}

/* ---- inputs ---- */

static int ask_server(const char *selector, struct profile **ret, struct error *err)
{
	_cleanup_(buffer_release) struct buffer path = {0}, response = {0};
	struct remote_notes notes = {0};
	const struct remote_value values[] = {
		{"query", selector}, {"from", o.from}, {"to", o.to}, {"format", "pprof"}, {"symbols_wait", "10s"}};
	int r = remote_begin(&path, "/api/v1/query", values, sizeof(values) / sizeof(*values));
	if (r < 0)
		return error_set(err, r, "the selector is too long");
	r = remote_query(&o.remote, &path, &response, &notes, err);
	if (!r)
		remote_note_partial("report", &notes);
	struct format_options decode = {.input_name = "the server's response", .decompressed_max = LIMIT_PROFILE_FILE_BYTES};
	return r < 0 ? r : format_decode(format_by_name("pprof"), buffer_bytes(&response), &decode, ret, err);
}

static int read_input(const void *context, const char *name, struct profile **ret, struct error *err)
{
	(void)context;
	struct stat info;
	bool is_file = strcmp(name, "-") == 0 || stat(name, &info) == 0;
	if (!is_file && report_is_url(name))
		return o.during.count || o.spans ? error_set(err, -EINVAL, "--during and --spans: %.80s is not a file", name)
						 : report_fetch(&o, name, ret, err);
	if (!is_file && (o.remote.url || strchr(name, '{')))
		return o.during.count || o.spans
			       ? error_set(err, -EINVAL,
					   "--during and --spans: %.80s is not a file, and a server's response has no spans",
					   name)
			       : ask_server(name, ret, err);
	const struct inputs_options how = {.format = o.format, .during = o.during, .spans = o.spans};
	return inputs_read_file(&how, name, ret, err);
}

static int read_inputs(char *const *names, size_t count, struct profile **ret, struct error *err)
{
	_cleanup_(profile_freep) struct profile *all = NULL;
	int r = read_merged(names, count, read_input, NULL, &all, err);
	if (r == 0)
		r = profile_spread_resource_labels(all, err);
	if (r == 0)
		*ret = TAKE(all);
	return r;
}

static void scale_values(struct profile *profile, const double *factors)
{
	size_t types = profile->sample_type_count;
	for (size_t i = 0; i < profile->sample_count * types; i++)
		profile->values[i] = units_whole((double)profile->values[i] * factors[i % types]);
}

static void negate_values(struct profile *profile)
{
	for (size_t i = 0; i < profile->sample_count * profile->sample_type_count; i++)
		profile->values[i] = sum_negate(profile->values[i]);
}

static int normalize(struct profile *profile, const struct profile *base, struct error *err)
{
	double factors[LIMIT_SAMPLE_TYPES];
	if (profile->sample_type_count != base->sample_type_count)
		return error_set(err, -EINVAL, "the base has %zu sample types, the profile %zu", base->sample_type_count,
				 profile->sample_type_count);
	for (size_t i = 0; i < profile->sample_type_count; i++) {
		int64_t total = profile_total(profile, i);
		factors[i] = total ? (double)profile_total(base, i) / (double)total : 0;
	}
	scale_values(profile, factors);
	return 0;
}

static int subtract_base(struct profile **profile, struct error *err)
{
	bool is_diff = o.diff_base.count > 0;
	const struct option_list *list = is_diff ? &o.diff_base : &o.base;
	_cleanup_(profile_freep) struct profile *base = NULL;
	_cleanup_(profile_freep) struct profile *merged = NULL;
	if (list->count == 0)
		return 0;
	int r = read_inputs((char *const *)list->items, list->count, &base, err);
	if (r == 0 && is_diff)
		r = profile_set_label(base, "pprof::base", "true", err);
	if (r == 0 && o.normalize)
		r = normalize(*profile, base, err);
	if (r < 0)
		return r;
	negate_values(base);
	r = profile_new(&merged, err);
	if (r == 0)
		r = profile_merge(merged, *profile, true, err);
	if (r == 0 && (r = profile_merge(merged, base, true, err)) < 0)
		return error_prefix(err, r, "cannot compare with the base");
	if (r < 0)
		return r;
	profile_free(*profile);
	*profile = TAKE(merged);
	return 0;
}

/* As pprof: an executable before the inputs is where the profile's first mapping is to be found. */
static bool is_executable(const char *path)
{
	char magic[4] = "";
	_cleanup_(fd_closep) int fd = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	return fd >= 0 && pread(fd, magic, sizeof(magic), 0) == sizeof(magic) && memcmp(magic, "\177ELF", 4) == 0;
}

static int set_executable(struct profile *profile, const char *path, struct error *err)
{
	if (profile->mapping_count < 2)
		return 0;
	return profile_add_cstring(profile, path, &profile->mappings[1].file_name, err);
}

/* What people look at; files for other programs have everything, as does the code of a function that is asked for by name. The
 * page of --http hides by itself. */
static bool hides_interpreters(enum report_mode mode)
{
	switch (mode) {
	case REPORT_TOP:
	case REPORT_TREE:
	case REPORT_PEEK:
	case REPORT_TRACES:
	case REPORT_DOT: return !o.interpreters && !o.http;
	default: return false;
	}
}

static int read_all(const struct operands *inputs, enum report_mode mode, struct profile **ret, struct error *err)
{
	_cleanup_(profile_freep) struct profile *profile = NULL;
	bool has_executable = inputs->count > 1 && is_executable(inputs->items[0]);
	int r = read_inputs(inputs->items + has_executable, inputs->count - has_executable, &profile, err);
	if (r == 0 && has_executable)
		r = set_executable(profile, inputs->items[0], err);
	if (r == 0)
		r = subtract_base(&profile, err);
	const char *how = o.symbolize ? o.symbolize : "";
	if (r == 0 && strcmp(how, "none") != 0 && strcmp(how, "demangle=none") != 0)
		r = report_demangle(profile, strcmp(how, "demangle=full") == 0, err);
	if (r == 0 && !o.all_frames)
		r = report_drop_frames(profile, err);
	bool changed;
	if (r == 0 && hides_interpreters(mode))
		r = profile_hide_interpreters(profile, &changed, err);
	if (r == 0 && o.add_comment)
		r = profile_add_comment_text(profile, o.add_comment, err);
	if (r == 0)
		*ret = TAKE(profile);
	return r;
}

/* ---- output ---- */

static int write_profile(const struct profile *profile, struct error *err)
{
	if (strcmp(o.output, "-") == 0 && isatty(STDOUT_FILENO))
		return error_set(err, -EINVAL, "refusing to write binary pprof to the terminal; give -o FILE");
	return output_write(profile, o.output, "pprof", "", NULL, err);
}

static int write_output(struct bytes output, const struct report_verb *verb, struct error *err)
{
	bool is_standard = strcmp(o.output, "-") == 0;
	if (is_standard && verb->is_shown)
		return report_show(output, verb->image ? ".svg" : ".html", err);
	if (is_standard && verb->image && strcmp(verb->image, "svg") != 0 && isatty(STDOUT_FILENO))
		return error_set(err, -EINVAL, "refusing to write an image to the terminal; give -o FILE");
	return io_write_file(o.output, output.data, output.len, 0644, err);
}

/* The profile itself, in a browser. */
static int serve(const struct report *report, const char *title, struct error *err)
{
	const char *text = o.http;
	char listen[64];
	size_t host = strrchr(text, ':') ? (size_t)(strrchr(text, ':') - text) : strlen(text);
	const char *port = text[host] ? text + host + 1 : "";
	bool is_default = host == 0 || (host == 9 && memcmp(text, "localhost", 9) == 0);
	snprintf(listen, sizeof(listen), "%.*s:%s", is_default ? 9 : (int)(host < 40 ? host : 40),
		 is_default ? "127.0.0.1" : text, *port ? port : "0");
	struct open_options open = {.listen = listen, .browser = o.no_browser ? BROWSER_NONE : BROWSER_PAGE};
	int r = local_viewer_check_listen(listen, err);
	if (r < 0)
		return error_prefix(err, r, "--http");
	r = open_serve(&open, "report", report->profile, title, err);
	return r < 0 ? r : 0;
}

static int write_report(struct report *report, const struct report_verb *verb, struct error *err)
{
	_cleanup_(profile_freep) struct profile *top = NULL;
	_cleanup_(buffer_release) struct buffer out = {.max = REPORT_BYTES_MAX};
	if (report->options.mode == REPORT_PROTO) {
		double factors[LIMIT_SAMPLE_TYPES];
		for (size_t i = 0; i < LIMIT_SAMPLE_TYPES; i++)
			factors[i] = 1 / report->options.divide_by;
		if (report->options.divide_by != 1)
			scale_values(report->profile, factors);
		return write_profile(report->profile, err);
	}
	if (report->options.mode == REPORT_TOPPROTO) {
		int r = report_make_top(report, &top, err);
		return r < 0 ? r : write_profile(top, err);
	}
	_cleanup_(buffer_release) struct buffer image = {.max = REPORT_BYTES_MAX};
	int r = report_write(report, &out, err);
	if (r == 0)
		output_print_limits(report->profile);
	if (r == 0 && verb->image)
		r = report_draw(buffer_bytes(&out), verb->image, &image, err);
	return r < 0 ? r : write_output(buffer_bytes(verb->image ? &image : &out), verb, err);
}

static int run(const struct operands *inputs, const struct report_verb *verb, const char *regex, struct error *err)
{
	_cleanup_(profile_freep) struct profile *profile = NULL;
	_cleanup_(report_filters_release) struct report_filters filters = {0};
	_cleanup_(report_release) struct report report = {0};
	_cleanup_(buffer_release) struct buffer notes = {.max = MIB};
	struct report_options settings;
	filters.notes = &notes;
	int r = report_settings(&o, verb->mode, &settings, err);
	if (r == 0)
		r = report_filters_init(&filters, &o, regex, err);
	if (r == 0)
		r = read_all(inputs, verb->mode, &profile, err);
	if (r < 0)
		return r;
	settings.notes = &notes;
	settings.symbol = filters.symbol;
	settings.symbol_text = regex;
	r = report_apply_tag_frames(&o, profile, &notes, err);
	/* Percentages are of all that there was, or of what the filters leave. */
	if (r == 0)
		r = report_begin(&report, profile, &settings, err);
	if (r == 0)
		r = report_filters_apply(&filters, &o, &report, err);
	if (r == 0 && o.relative) {
		report_release(&report);
		r = report_begin(&report, profile, &settings, err);
	}
	if (r == 0)
		r = o.http ? serve(&report, inputs->items[0], err) : write_report(&report, verb, err);
	if (r == 0)
		r = report_filters_failure(&filters, err);
	if (!o.quiet && notes.len > 0)
		cmd_printf(stderr, "%.*s", (int)notes.len, (const char *)notes.data);
	return r;
}

int cmd_report(int argc, char **argv)
{
	struct error err = {0};
	struct operands operands;
	struct rewriting to = {.texts.max_bytes = MIB};
	to.argv = mem_zalloc_array((size_t)argc + 2, sizeof(*to.argv));
	if (!to.argv)
		return EXIT_FAILED;
	int status = parse_arguments(argc, argv, &to, &operands);
	if (!status && o.base.count && o.diff_base.count)
		status = usage_error(&usage, "--base and --diff-base exclude each other") + 1;
	if (!status && o.normalize && !o.base.count && !o.diff_base.count)
		status = usage_error(&usage, "--normalize requires --base or --diff-base") + 1;
	if (!status && run(&operands, to.verb, to.regex, &err) < 0)
		status = cmd_fail("report", &err) + 1;
	mem_free(to.argv);
	arena_release(&to.texts);
	return status ? status - 1 : EXIT_DONE;
}
