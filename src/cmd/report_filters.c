/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/limits.h"
#include "base/text.h"
#include "cmd/report.h"

/* ---- settings ---- */

static int parse_share(const char *name, const char *text, double *ret, struct error *err)
{
	if (!text)
		return 0;
	int r = text_parse_double(text, ret, err);
	if (r == 0 && !(*ret >= 0 && *ret <= 1))
		return error_set(err, -EINVAL, "--%s: '%.40s' is not a share between 0 and 1", name, text);
	return r < 0 ? error_prefix(err, r, "--%s", name) : 0;
}

static int choose_detail(const struct report_arguments *o, enum report_mode mode, struct graph_detail *ret, struct error *err)
{
	bool lines = o->lines, addresses = o->addresses;
	int chosen = o->functions + o->file_functions + o->files + o->lines + o->addresses;
	if (chosen > 1)
		return error_set(err, -EINVAL,
				 "--functions, --filefunctions, --files, --lines and --addresses exclude each other");
	*ret = (struct graph_detail){.inlines = !o->no_inlines, .trim_path = o->trim_path, .source_path = o->source_path};
	if (mode == REPORT_LIST || mode == REPORT_WEBLIST)
		lines = true, addresses = false;
	if (mode == REPORT_DISASM) {
		addresses = true;
		ret->inlines = false;
	}
	if (mode == REPORT_RAW || mode == REPORT_PROTO || mode == REPORT_CALLGRIND)
		addresses = true;
	bool exact = lines || addresses;
	ret->functions = exact || !o->files;
	ret->files = exact || o->files || o->file_functions;
	ret->lines = exact;
	ret->addresses = addresses;
	ret->columns = exact && (o->show_columns || (addresses && ret->inlines));
	ret->binaries = mode == REPORT_RAW || mode == REPORT_LIST || mode == REPORT_WEBLIST || mode == REPORT_DISASM ||
			mode == REPORT_CALLGRIND;
	return 0;
}

static int choose_trim(const struct report_arguments *o, enum report_mode mode, struct graph_trim_options *ret,
		       struct error *err)
{
	bool all = mode == REPORT_TOP || mode == REPORT_TOPPROTO;
	int64_t count = all ? 0 : 80;
	*ret = (struct graph_trim_options){.node_fraction = 0.005, .edge_fraction = 0.001, .by_cum = o->cum};
	int r = parse_share("nodefraction", o->node_fraction, &ret->node_fraction, err);
	if (r == 0)
		r = parse_share("edgefraction", o->edge_fraction, &ret->edge_fraction, err);
	if (r == 0 && o->node_count && (r = text_parse_i64(o->node_count, &count, err)) < 0)
		return error_prefix(err, r, "--nodecount");
	if (r < 0)
		return r;
	if (count == -1)
		count = all ? 0 : 80;
	ret->nodes_max = count > 0 ? (size_t)count : 0;
	if (o->no_trim || mode == REPORT_DISASM || mode == REPORT_PEEK || mode == REPORT_LIST || mode == REPORT_WEBLIST ||
	    mode == REPORT_RAW || mode == REPORT_PROTO || mode == REPORT_CALLGRIND) {
		ret->nodes_max = 0;
		ret->node_fraction = ret->edge_fraction = 0;
	}
	return 0;
}

/* What the heading says of filters; the texts stay until the program ends. */
static int list_filters(const struct report_arguments *o, struct report_options *ret, struct error *err)
{
	const struct {
		const char *name, *value;
	} all[] = {{"focus", o->focus},
		   {"ignore", o->ignore},
		   {"hide", o->hide},
		   {"show", o->show},
		   {"show_from", o->show_from},
		   {"tagfocus", o->tag_focus},
		   {"tagignore", o->tag_ignore},
		   {"tagshow", o->tag_show},
		   {"taghide", o->tag_hide}};
	size_t count = 0;
	for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++) {
		if (!all[i].value || !all[i].value[0])
			continue;
		size_t size = strlen(all[i].name) + strlen(all[i].value) + 2;
		char *text = mem_alloc(size);
		if (!text)
			return error_nomem(err);
		snprintf(text, size, "%s=%s", all[i].name, all[i].value);
		ret->filters[count++] = text;
	}
	return 0;
}

int report_settings(const struct report_arguments *o, enum report_mode mode, struct report_options *ret, struct error *err)
{
	*ret = (struct report_options){.mode = mode,
				       .call_tree = o->call_tree,
				       .drop_negative = o->drop_negative,
				       .compact_labels = o->compact_labels,
				       .divide_by = 1,
				       .sample_index = o->sample_index,
				       .mean = o->mean,
				       .unit = o->unit,
				       .intel_syntax = o->intel_syntax,
				       .source_path = o->source_path};
	if (o->cum && o->flat)
		return error_set(err, -EINVAL, "--cum and --flat exclude each other");
	int r = choose_detail(o, mode, &ret->detail, err);
	if (r == 0)
		r = choose_trim(o, mode, &ret->trim, err);
	if (r == 0 && o->divide_by && (r = text_parse_double(o->divide_by, &ret->divide_by, err)) < 0)
		return error_prefix(err, r, "--divide-by");
	if (r == 0 && !(ret->divide_by != 0))
		return error_set(err, -EINVAL, "--divide-by: must not be 0");
	return r < 0 ? r : list_filters(o, ret, err);
}

/* ---- expressions ---- */

static bool finds(const void *context, struct bytes text)
{
	return pattern_finds(context, text.data, text.len);
}

static int add_pattern(struct report_filters *filters, const struct profile_matcher **ret, const char *name, const char *text,
		       size_t len, struct error *err)
{
	struct report_pattern *pattern = &filters->patterns[filters->pattern_count];
	char *value = mem_strndup(text, len);
	if (!value)
		return error_nomem(err);
	int r = pattern_init(&pattern->pattern, PATTERN_REGEX, value, false, "", name, err);
	if (r < 0)
		return r;
	pattern->matcher = (struct profile_matcher){finds, &pattern->pattern};
	*ret = &pattern->matcher;
	filters->pattern_count++;
	return 0;
}

static int set_tag_filter(struct report_filters *filters, struct report_tag_filter *filter, const char *name, const char *value,
			  struct error *err)
{
	if (!value || !value[0])
		return 0;
	int r = report_tag_filter_parse(value, filter, err);
	if (r < 0)
		return r;
	if (filter->is_range)
		return buffer_printf(filters->notes, "%s: '%s' is interpreted as a range of numbers, not as an expression\n",
				     name, filter->texts);
	for (const char *at = filter->texts;; at++) {
		size_t len = strcspn(at, ",");
		if (filter->matcher_count == REPORT_TAG_MATCHERS_MAX)
			return error_set(err, -E2BIG, "--%s: more than %d expressions", name, REPORT_TAG_MATCHERS_MAX);
		r = add_pattern(filters, &filter->matchers[filter->matcher_count], name, at, len, err);
		if (r < 0)
			return r;
		filter->matcher_count++;
		at += len;
		if (!*at)
			return 0;
	}
}

int report_filters_init(struct report_filters *filters, const struct report_arguments *o, const char *symbol, struct error *err)
{
	const struct {
		const struct profile_matcher **matcher;
		const char *name, *value;
	} all[] = {{&filters->focus, "focus", o->focus},
		   {&filters->ignore, "ignore", o->ignore},
		   {&filters->hide, "hide", o->hide},
		   {&filters->show, "show", o->show},
		   {&filters->show_from, "show-from", o->show_from},
		   {&filters->prune_from, "prune-from", o->prune_from},
		   {&filters->tag_show, "tagshow", o->tag_show},
		   {&filters->tag_hide, "taghide", o->tag_hide}};
	int r = symbol ? add_pattern(filters, &filters->symbol, "functions", symbol, strlen(symbol), err) : 0;
	for (size_t i = 0; i < sizeof(all) / sizeof(*all) && r == 0; i++)
		if (all[i].value && all[i].value[0])
			r = add_pattern(filters, all[i].matcher, all[i].name, all[i].value, strlen(all[i].value), err);
	if (r == 0)
		r = set_tag_filter(filters, &filters->tag_focus, "tagfocus", o->tag_focus, err);
	if (r == 0)
		r = set_tag_filter(filters, &filters->tag_ignore, "tagignore", o->tag_ignore, err);
	return r;
}

void report_filters_release(struct report_filters *filters)
{
	while (filters->pattern_count)
		pattern_release(&filters->patterns[--filters->pattern_count].pattern);
}

int report_filters_failure(const struct report_filters *filters, struct error *err)
{
	int r = 0;
	for (size_t i = 0; i < filters->pattern_count && r == 0; i++)
		r = pattern_failure(&filters->patterns[i].pattern, err);
	return r;
}

/* ---- applying them ---- */

static void note_unmatched(struct buffer *notes, bool asked, bool found, const char *name)
{
	if (asked && !found && buffer_printf(notes, "--%s matched nothing\n", name) < 0)
		buffer_truncate(notes, notes->len);
}

struct tag_choice {
	const struct report_filters *filters;
	const struct report *report;
	bool has_focus, has_ignore;
	bool *found_focus, *found_ignore;
};

static bool keep_sample(const void *context, const struct profile *profile, size_t sample)
{
	const struct tag_choice *choice = context;
	(void)profile;
	bool focused = !choice->has_focus || report_tag_filter_matches(&choice->filters->tag_focus, choice->report, sample);
	bool ignored = choice->has_ignore && report_tag_filter_matches(&choice->filters->tag_ignore, choice->report, sample);
	*choice->found_focus |= focused;
	*choice->found_ignore |= ignored;
	return focused && !ignored;
}

static void apply_tag_filters(struct report_filters *filters, const struct report_arguments *o, struct report *report)
{
	bool found[2] = {false, false};
	struct tag_choice choice = {.filters = filters,
				    .report = report,
				    .has_focus = o->tag_focus && o->tag_focus[0],
				    .has_ignore = o->tag_ignore && o->tag_ignore[0],
				    .found_focus = &found[0],
				    .found_ignore = &found[1]};
	if (!choice.has_focus && !choice.has_ignore)
		return;
	profile_filter_samples(report->profile, keep_sample, &choice);
	note_unmatched(filters->notes, choice.has_focus, found[0], "tagfocus");
	note_unmatched(filters->notes, choice.has_ignore, found[1], "tagignore");
}

int report_filters_apply(struct report_filters *filters, const struct report_arguments *o, struct report *report,
			 struct error *err)
{
	struct profile *profile = report->profile;
	struct profile_names_filter names = {filters->focus, filters->ignore, filters->hide, filters->show};
	struct profile_names_found found;
	struct profile_labels_found labels;
	bool from = true;
	int r = profile_filter_names(profile, &names, &found, err);
	note_unmatched(filters->notes, names.focus, found.focus, "focus");
	note_unmatched(filters->notes, names.ignore, found.ignore, "ignore");
	note_unmatched(filters->notes, names.hide, found.hide, "hide");
	note_unmatched(filters->notes, names.show, found.show, "show");
	if (r == 0 && filters->show_from)
		r = profile_filter_show_from(profile, filters->show_from, &from, err);
	note_unmatched(filters->notes, filters->show_from, from, "show-from");
	if (r == 0) {
		apply_tag_filters(filters, o, report);
		r = profile_filter_labels(profile, filters->tag_show, filters->tag_hide, &labels, err);
		note_unmatched(filters->notes, filters->tag_show, labels.show, "tagshow");
		note_unmatched(filters->notes, filters->tag_hide, labels.hide, "taghide");
	}
	if (r == 0 && filters->prune_from)
		r = profile_filter_prune_from(profile, filters->prune_from, err);
	return r < 0 ? r : report_filters_failure(filters, err);
}

int report_drop_frames(struct profile *profile, struct error *err)
{
	_cleanup_(report_filters_release) struct report_filters filters = {0};
	const struct profile_matcher *matchers[2] = {NULL, NULL}; /* what to drop, and what to keep of it */
	int r = 0;
	if (!profile->drop_frames)
		return 0;
	const uint32_t strings[] = {profile->drop_frames, profile->keep_frames};
	for (size_t i = 0; i < 2 && r == 0; i++) {
		_cleanup_(buffer_release) struct buffer text = {.max = MIB};
		if (!strings[i])
			continue;
		r = buffer_printf(&text, "^(%s)$", profile_string(profile, strings[i]));
		if (r < 0)
			r = error_set(err, r, "the profile's expression of frames to drop is too long");
		else
			r = add_pattern(&filters, &matchers[i], "the profile's expression of frames to drop",
					(const char *)text.data, text.len, err);
	}
	if (r == 0)
		r = profile_filter_prune(profile, matchers[0], matchers[1], err);
	return r < 0 ? r : report_filters_failure(&filters, err);
}

int report_apply_tag_frames(const struct report_arguments *o, struct profile *profile, struct buffer *notes, struct error *err)
{
	const char *roots = o->tag_root ? o->tag_root : "", *leaves = o->tag_leaf ? o->tag_leaf : "";
	bool found[2];
	if (!roots[0] && !leaves[0])
		return 0;
	int r = report_add_tag_frames(profile, roots, leaves, o->unit, found, err);
	note_unmatched(notes, roots[0], found[0], "tagroot");
	note_unmatched(notes, leaves[0], found[1], "tagleaf");
	return r;
}
