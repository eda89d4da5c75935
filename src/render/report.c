/* SPDX-License-Identifier: Apache-2.0 */
/* What reports have in common: totals, units, headings. */
#include "render/report.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/alloc.h"
#include "base/limits.h"
#include "base/sum.h"
#include "base/text.h"
#include "base/time.h"
#include "profile/number_match.h"
#include "render/report_int.h"

/* ---- writing ---- */

int report_failure(const struct report *report, struct error *err)
{
	int r = buffer_status(report->out);
	if (r == -ENOMEM)
		return error_nomem(err);
	return r < 0 ? error_set(err, r, "the report is too long") : 0;
}

void report_note(struct report *report, const char *format, ...)
{
	char text[512];
	va_list args;
	if (!report->options.notes)
		return;
	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	size_t before = report->options.notes->len;
	text_append_harmless(report->options.notes, bytes_of_string(text));
	if (buffer_append_byte(report->options.notes, '\n') < 0)
		buffer_truncate(report->options.notes, before);
}

/* ---- values ---- */

const char *report_format_value(const struct report *report, int64_t value, char out[static UNITS_TEXT_MAX])
{
	double ratio = 1 / report->options.divide_by;
	if (ratio > 0 && ratio != 1)
		value = units_whole((double)value * ratio);
	return units_format(value, report->sample_unit, report->unit, out);
}

const char *report_format_or_dot(const struct report *report, int64_t value, char out[static UNITS_TEXT_MAX])
{
	return value == 0 ? "." : report_format_value(report, value, out);
}

const char *report_label_unit(const struct report *report, uint32_t key)
{
	if (key < report->label_unit_count && report->label_units[key])
		return profile_string(report->profile, report->label_units[key] - 1);
	const char *name = profile_string(report->profile, key);
	return number_key_is_bytes(bytes_of_string(name)) ? "bytes" : name;
}

int64_t report_sample_value(const struct report *report, size_t sample)
{
	return report->profile->values[sample * report->profile->sample_type_count + report->value];
}

int64_t report_sample_divisor(const struct report *report, size_t sample)
{
	return report->options.mean ? report->profile->values[sample * report->profile->sample_type_count] : 0;
}

/* ---- beginning ---- */

static bool is_base(const struct profile *profile, uint32_t label_set)
{
	const char *value = profile_label_value(profile, label_set, "pprof::base");
	return value && strcmp(value, "true") == 0;
}

/* Of the magnitudes, or of those of the base only, if there is one to compare with. */
static int find_total(struct report *report, struct error *err)
{
	const struct profile *profile = report->profile;
	_cleanup_(mem_freep) bool *base = mem_zalloc_array(profile->label_set_count, sizeof(bool));
	int64_t total = 0, divisor = 0, base_total = 0, base_divisor = 0;
	if (!base)
		return error_nomem(err);
	for (uint32_t i = 1; i < profile->label_set_count; i++)
		base[i] = is_base(profile, i);
	for (size_t i = 0; i < profile->sample_count; i++) {
		int64_t value = units_magnitude(report_sample_value(report, i)), by = report_sample_divisor(report, i);
		sum_to(&total, value);
		sum_to(&divisor, by);
		if (base[profile->samples[i].labels]) {
			sum_to(&base_total, value);
			sum_to(&base_divisor, by);
		}
	}
	if (base_total > 0) {
		total = base_total;
		divisor = base_divisor;
	}
	report->total = units_mean(total, divisor);
	return 0;
}

/* The first unit of each key; that there are others is noted. */
static int find_label_units(struct report *report, struct error *err)
{
	const struct profile *profile = report->profile;
	report->label_unit_count = profile->strings.count;
	report->label_units = mem_zalloc_array(report->label_unit_count, sizeof(uint32_t));
	if (!report->label_units)
		return error_nomem(err);
	for (size_t i = 0; i < profile->label_count; i++) {
		const struct profile_label *label = &profile->labels[i];
		uint32_t *unit = &report->label_units[label->key];
		if (label->value || !label->unit)
			continue;
		if (*unit && *unit != label->unit + 1)
			report_note(report, "label %.80s has numbers in %.80s and in %.80s: all are shown as the former",
				    profile_string(profile, label->key), profile_string(profile, *unit - 1),
				    profile_string(profile, label->unit));
		else
			*unit = label->unit + 1;
	}
	return 0;
}

/* A type by number or name; the names without "inuse_" are found too. */
static int find_type(const struct profile *profile, const char *name, size_t *ret, struct error *err)
{
	uint64_t number;
	if (name && text_parse_u64(name, &number, NULL) == 0) {
		if (number >= profile->sample_type_count)
			return error_set(err, -EINVAL, "sample index %s: the profile has the values 0 to %zu", name,
					 profile->sample_type_count - 1);
		*ret = (size_t)number;
		return 0;
	}
	if (name && text_starts_with(name, "inuse_") && profile_find_sample_type(profile, name, ret, NULL) < 0 &&
	    profile_find_sample_type(profile, name + strlen("inuse_"), ret, NULL) == 0)
		return 0;
	return profile_find_sample_type(profile, name, ret, err);
}

/* What goes into texts all over: so that none of them needs to think of terminals. */
static char *harmless_copy(const char *prefix, const char *text)
{
	_cleanup_(buffer_release) struct buffer safe = {.max = GIB};
	buffer_append_string(&safe, prefix);
	text_append_harmless(&safe, bytes_of_string(text));
	const char *whole = buffer_string(&safe);
	return whole ? mem_strdup(whole) : NULL;
}

int report_begin(struct report *ret, struct profile *profile, const struct report_options *options, struct error *err)
{
	*ret = (struct report){.profile = profile, .options = *options, .unit = options->unit};
	if (profile->sample_type_count == 0)
		return error_set(err, -EINVAL, "the profile has no samples");
	int r = find_type(profile, options->sample_index, &ret->value, err);
	if (r < 0)
		return r;
	const struct profile_value_type *type = &profile->sample_types[ret->value];
	ret->sample_unit = harmless_copy("", profile_string(profile, type->unit));
	ret->type = harmless_copy(options->mean ? "mean_" : "", profile_string(profile, type->type));
	ret->title = mem_strdup(
		profile->mapping_count > 1 ? text_base_name(profile_string(profile, profile->mappings[1].file_name)) : "");
	if (!ret->sample_unit || !ret->type || !ret->title)
		return error_nomem(err);
	r = find_label_units(ret, err);
	return r < 0 ? r : find_total(ret, err);
}

void report_release(struct report *report)
{
	mem_free(report->type);
	mem_free(report->sample_unit);
	mem_free(report->title);
	mem_free(report->label_units);
}

/* ---- graphs ---- */

static void choose_unit(struct report *report, const struct graph *graph)
{
	uint64_t least = 0;
	for (size_t i = 0; i < graph->order_count; i++) {
		const struct graph_node *node = &graph->nodes[graph->order[i]];
		uint64_t value = (uint64_t)units_magnitude(graph_node_flat(node));
		if (value == 0)
			value = (uint64_t)units_magnitude(graph_node_cum(node));
		if (value > 0 && (least == 0 || value < least))
			least = value;
	}
	int64_t low = least ? (int64_t)least : report->total, high = report->total;
	double ratio = 1 / report->options.divide_by;
	if (ratio > 0 && ratio != 1) {
		low = units_whole((double)low * ratio);
		high = units_whole((double)high * ratio);
	}
	/* Callgrind knows whole numbers only. */
	report->unit = units_choose(low, high, report->sample_unit, report->options.mode == REPORT_CALLGRIND);
}

int report_graph_build(struct report *report, bool trimmed, struct report_graph *ret, struct error *err)
{
	const struct report_options *o = &report->options;
	uint32_t key = 0;
	memset(ret, 0, sizeof(*ret));
	bool tree = o->call_tree && (o->mode == REPORT_DOT || o->mode == REPORT_CALLGRIND);
	bool has_bytes = intern_find(&report->profile->strings, "bytes", 5, &key);
	struct graph_options options = {.value = report->value,
					.mean = o->mean ? &report->mean : NULL,
					.tree = tree,
					.drop_negative = o->drop_negative,
					.tags = o->mode == REPORT_DOT,
					.tag_unit = has_bytes ? report_label_unit(report, key) : "bytes",
					.output_unit = report->unit};
	int r = graph_infos_build(&ret->infos, report->profile, &o->detail, err);
	if (r < 0)
		return r;
	if (!trimmed)
		return graph_build(&ret->graph, report->profile, &ret->infos, &options, err);
	struct graph_trim_options trim = o->trim;
	trim.visual = o->mode == REPORT_DOT;
	r = graph_build_trimmed(&ret->graph, report->profile, &ret->infos, &options, &trim, &ret->trimmed, err);
	for (uint32_t i = 0; i < ret->infos.count && r == 0; i++)
		if (!graph_printable_name(&ret->infos, i))
			r = error_nomem(err);
	if (r == 0 && strcmp(o->unit, "minimum") == 0 && ret->graph.order_count > 0)
		choose_unit(report, &ret->graph);
	return r;
}

void report_graph_release(struct report_graph *graph)
{
	graph_release(&graph->graph);
	graph_infos_release(&graph->infos);
}

const char *report_node_name(struct report_graph *graph, uint32_t node)
{
	const char *name = graph_printable_name(&graph->infos, graph->graph.nodes[node].info);
	return name ? name : "";
}

/* ---- headings ---- */

struct heading {
	int (*line)(void *context, const char *text);
	void *context;
	int failure;
};

static void head(struct heading *heading, const char *prefix, const char *text)
{
	_cleanup_(buffer_release) struct buffer line = {.max = MIB};
	if (heading->failure)
		return;
	buffer_append_string(&line, prefix);
	text_append_harmless(&line, bytes_of_string(text));
	const char *whole = buffer_string(&line);
	heading->failure = whole ? heading->line(heading->context, whole) : buffer_status(&line);
}

static void head_times(const struct report *report, struct heading *heading)
{
	const struct profile *profile = report->profile;
	if (profile->time_ns) {
		char text[64] = "";
		int64_t seconds = profile->time_ns / NS_PER_S - (profile->time_ns % NS_PER_S < 0);
		time_t when = (time_t)seconds;
		struct tm tm;
		if (localtime_r(&when, &tm))
			strftime(text, sizeof(text), "%Y-%m-%d %H:%M:%S %Z", &tm);
		head(heading, "Time: ", text);
	}
	if (profile->duration_ns) {
		char text[4 * UNITS_TEXT_MAX], duration[UNITS_TEXT_MAX], total[UNITS_TEXT_MAX], percent[UNITS_TEXT_MAX];
		const char *unit;
		double nanoseconds = units_scale(report->total, report->sample_unit, "nanoseconds", &unit);
		bool is_time = strcmp(unit, "ns") == 0 && nanoseconds != 0;
		units_format_percent(units_whole(nanoseconds), profile->duration_ns, percent);
		snprintf(text, sizeof(text), "%s, Total samples = %s %s%s%s",
			 units_format(profile->duration_ns, "nanoseconds", "auto", duration),
			 report_format_value(report, report->total, total), is_time ? "(" : "", is_time ? percent : "",
			 is_time ? ")" : "");
		head(heading, "Duration: ", text);
	}
}

int report_profile_labels(struct report *report, int (*line)(void *context, const char *text), void *context)
{
	const struct profile *profile = report->profile;
	struct heading heading = {.line = line, .context = context};
	if (profile->mapping_count > 1) {
		const char *file = profile_string(profile, profile->mappings[1].file_name);
		const char *build_id = profile_string(profile, profile->mappings[1].build_id);
		if (file[0])
			head(&heading, "File: ", text_base_name(file));
		if (build_id[0])
			head(&heading, "Build ID: ", build_id);
	}
	for (size_t i = 0; i < profile->comment_count; i++) {
		const char *comment = profile_string(profile, profile->comments[i]);
		if (comment[0] != '#')
			head(&heading, "", comment);
	}
	if (report->type[0])
		head(&heading, "Type: ", report->type);
	if (profile->doc_url)
		head(&heading, "Doc: ", profile_string(profile, profile->doc_url));
	head_times(report, &heading);
	return heading.failure;
}

static void head_filters(const struct report *report, struct heading *heading)
{
	if (report->options.filters[0])
		head(heading, "", "Active filters:");
	for (size_t i = 0; i < REPORT_FILTERS_MAX && report->options.filters[i]; i++) {
		char text[96];
		const char *filter = report->options.filters[i];
		size_t len = strlen(filter), keep = text_cut(bytes_of_string(filter), 80);
		snprintf(text, sizeof(text), "%.*s%s", (int)keep, filter, len > 80 ? "…" : "");
		head(heading, "   ", text);
	}
}

static void head_dropped(const struct report *report, struct heading *heading, size_t count, const char *what, const char *by,
			 double fraction)
{
	char text[2 * UNITS_TEXT_MAX], value[UNITS_TEXT_MAX];
	if (count == 0)
		return;
	report_format_value(report, units_magnitude(units_whole((double)report->total * fraction)), value);
	snprintf(text, sizeof(text), "Dropped %zu %s%s (%s <= %s)", count, what, count > 1 ? "s" : "", by, value);
	head(heading, "", text);
}

int report_graph_labels(struct report *report, const struct report_graph *graph, bool full,
			int (*line)(void *context, const char *text), void *context)
{
	struct heading heading = {.line = line, .context = context};
	char text[4 * UNITS_TEXT_MAX], shown_text[UNITS_TEXT_MAX], total[UNITS_TEXT_MAX], percent[UNITS_TEXT_MAX];
	int64_t shown = 0;
	if (full || !report->options.compact_labels)
		heading.failure = report_profile_labels(report, line, context);
	head_filters(report, &heading);
	for (size_t i = 0; i < graph->graph.order_count; i++)
		sum_to(&shown, graph_node_flat(&graph->graph.nodes[graph->graph.order[i]]));
	units_format_percent(shown, report->total, percent);
	snprintf(text, sizeof(text), "Showing nodes accounting for %s, %s of %s total",
		 report_format_value(report, shown, shown_text), percent + strspn(percent, " "),
		 report_format_value(report, report->total, total));
	head(&heading, "", text);
	if (report->total != 0) {
		head_dropped(report, &heading, graph->trimmed.dropped_nodes, "node", "cum", report->options.trim.node_fraction);
		if (full)
			head_dropped(report, &heading, graph->trimmed.dropped_edges, "edge", "freq",
				     report->options.trim.edge_fraction);
		if (graph->graph.order_count > 0 && graph->graph.order_count < graph->trimmed.original_count) {
			snprintf(text, sizeof(text), "Showing top %zu nodes out of %zu", graph->graph.order_count,
				 graph->trimmed.original_count);
			head(&heading, "", text);
		}
	}
	return heading.failure;
}

static int put_line(void *context, const char *text)
{
	struct report *report = context;
	buffer_printf(report->out, "%s\n", text);
	return buffer_status(report->out);
}

void report_put_profile_labels(struct report *report)
{
	buffer_fail(report->out, report_profile_labels(report, put_line, report));
}

void report_put_graph_labels(struct report *report, const struct report_graph *graph)
{
	buffer_fail(report->out, report_graph_labels(report, graph, false, put_line, report));
}

/* ---- all of them ---- */

static void put_comments(struct report *report)
{
	const struct profile *profile = report->profile;
	for (size_t i = 0; i < profile->comment_count; i++) {
		text_append_harmless(report->out, profile_string_bytes(profile, profile->comments[i]));
		buffer_printf(report->out, "\n");
	}
}

int report_write(struct report *report, struct buffer *out, struct error *err)
{
	int r = 0;
	report->out = out;
	switch (report->options.mode) {
	case REPORT_TOP: r = report_write_top(report, err); break;
	case REPORT_TREE:
	case REPORT_PEEK: r = report_write_tree(report, err); break;
	case REPORT_TRACES: r = report_write_traces(report, err); break;
	case REPORT_LIST: r = report_write_list(report, err); break;
	case REPORT_DISASM: r = report_write_disasm(report, err); break;
	case REPORT_TAGS: r = report_write_tags(report, err); break;
	case REPORT_RAW: r = report_write_raw(report, err); break;
	case REPORT_CALLGRIND: r = report_write_callgrind(report, err); break;
	case REPORT_DOT: r = report_write_dot(report, err); break;
	case REPORT_WEBLIST: r = report_write_weblist(report, err); break;
	case REPORT_COMMENTS: put_comments(report); break;
	case REPORT_TOPPROTO:
	case REPORT_PROTO: return error_set(err, -ENOTSUP, "this report is a profile, not text");
	}
	return r < 0 ? r : report_failure(report, err);
}
