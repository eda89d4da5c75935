/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a profile loses in a format. Each format says once what it has a place for (format_holds); what a profile has of the
 * rest is counted here, so that no encoder has to.
 */
#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "base/text.h"
#include "format/format_int.h"
#include "profile/markers.h"

#define NAMES_MAX 6 /* of labels that are listed */

struct finding {
	uint64_t timed, linked, typed_frames, inlined, addressed, with_line, with_file, with_system_name;
};

static void scan_frames(const struct profile *profile, struct finding *f)
{
	for (size_t i = 1; i < profile->location_count; i++) {
		const struct profile_location *location = &profile->locations[i];
		bool has_line = false;
		for (uint32_t k = 0; k < location->line_count; k++)
			has_line |= profile->lines[location->line_first + k].line != 0;
		f->typed_frames +=
			location->frame_type != PROFILE_FRAME_UNKNOWN && location->frame_type != PROFILE_FRAME_NATIVE;
		f->inlined += location->line_count > 1;
		f->addressed += location->address != 0 || location->mapping != 0;
		f->with_line += has_line;
	}
	for (size_t i = 1; i < profile->function_count; i++) {
		const struct profile_function *function = &profile->functions[i];
		f->with_file += function->file_name != 0;
		f->with_system_name += function->system_name != 0 && function->system_name != function->name;
	}
}

/* text: what, with '#' where the number stands. */
static void add(struct buffer *out, const char *text, uint64_t count)
{
	char number[TEXT_NUMBER_MAX];
	size_t before = strcspn(text, "#");
	if (count == 0)
		return;
	buffer_printf(out, "%s%.*s%s%s", out->len > 0 ? "; " : "", (int)before, text, text_format_count(count, number),
		      text + before + 1);
}

static bool is_of_thread(const char *key)
{
	static const char *const keys[] = {"thread.id", "thread.name", "process.pid", "process.executable.name"};
	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
		if (strcmp(key, keys[i]) == 0)
			return true;
	return false;
}

/* Where markers have a place threads have their host: as a label of the whole profile, or each its own if there are several. */
static int holds_hosts(const struct format *format, const struct profile *profile, bool *ret)
{
	struct sample_threads threads;
	*ret = profile_label_value(profile, profile->resource_labels, "host.name");
	if (!(format->holds & FORMAT_HOLDS_MARKERS) || *ret) {
		*ret &= (format->holds & FORMAT_HOLDS_MARKERS) != 0;
		return 0;
	}
	if (sample_threads_build(profile, &threads, NULL) < 0)
		return -ENOMEM;
	*ret = threads.has_hosts;
	sample_threads_release(&threads);
	return 0;
}

static bool is_of_resource(const struct profile *profile, size_t label)
{
	const struct profile_label_set *set = &profile->label_sets[profile->resource_labels];
	return label >= set->first && label - set->first < set->count;
}

/* Labels without a place, by name, each once; those of the whole profile are labels, too. */
static int add_labels(const struct format *format, const struct profile *profile, struct buffer *out)
{
	_cleanup_(mem_freep) bool *seen = mem_zalloc_array(profile->strings.count, sizeof(*seen));
	size_t count = 0;
	int r = seen ? 0 : -ENOMEM;
	if (format->holds & FORMAT_HOLDS_LABELS)
		return r;
	for (size_t i = 0; r == 0 && i < profile->label_count; i++) {
		uint32_t key = profile->labels[i].key;
		const char *name = profile_string(profile, key);
		bool is_held = ((format->holds & FORMAT_HOLDS_THREADS) && is_of_thread(name)) ||
			       ((format->holds & FORMAT_HOLDS_RESOURCE_LABELS) && is_of_resource(profile, i));
		if (seen[key] || is_held)
			continue;
		seen[key] = true;
		if (strcmp(name, "host.name") == 0)
			r = holds_hosts(format, profile, &is_held);
		if (r < 0 || is_held)
			continue;
		if (count++ >= NAMES_MAX)
			continue;
		buffer_append_string(out, count > 1 ? ", " : out->len > 0 ? "; the labels " : "the labels ");
		text_append_harmless(out, bytes_of_string(name));
	}
	if (count > NAMES_MAX)
		buffer_printf(out, " and %zu more", count - NAMES_MAX);
	return r;
}

/* Formats that show threads have one name for each, and one for its process. */
static int add_names(const struct format *format, const struct profile *profile, struct buffer *out)
{
	struct sample_threads threads;
	uint64_t renamed = 0, executed = 0;
	if (!(format->holds & FORMAT_HOLDS_THREADS) || (format->holds & FORMAT_HOLDS_LABELS))
		return 0;
	if (sample_threads_build(profile, &threads, NULL) < 0)
		return -ENOMEM;
	/* Each program of a process is one there. */
	if (format == &format_firefox && sample_threads_add_markers(profile, &threads, NULL) < 0) {
		sample_threads_release(&threads);
		return -ENOMEM;
	}
	for (size_t i = 0; i < threads.count; i++) {
		renamed += threads.items[i].renamed;
		executed += threads.items[i].has_executed;
	}
	sample_threads_release(&threads);
	add(out, "the other names of # threads", renamed);
	add(out, "the other process names of # threads", executed);
	return 0;
}

/* What is counted: folded stacks have numbers alone. */
static void add_type(const struct format *format, const struct profile *profile, struct buffer *out)
{
	if (format != &format_folded || profile->sample_type_count == 0 || folded_holds_both(profile))
		return;
	const struct profile_value_type *type = &profile->sample_types[profile_default_sample_type(profile)];
	struct bytes name = profile_string_bytes(profile, type->type), unit = profile_string_bytes(profile, type->unit);
	if (bytes_equal_string(name, "samples") && bytes_equal_string(unit, "count"))
		return;
	buffer_append_string(out, out->len > 0 ? "; what is counted (" : "what is counted (");
	text_append_harmless(out, name);
	buffer_append_string(out, ", ");
	text_append_harmless(out, unit);
	buffer_append_byte(out, ')');
}

int format_losses(const struct format *format, const struct profile *profile, struct buffer *out)
{
	struct finding f = {0};
	_cleanup_(buffer_release) struct buffer found = {.max = SIZE_MAX};
	size_t values = format == &format_folded && folded_holds_both(profile) ? 2 : 1;
	scan_frames(profile, &f);
	for (size_t i = 0; i < profile->sample_count; i++) {
		f.timed += profile->samples[i].time_ns != 0;
		f.linked += profile->samples[i].link != 0;
	}
	const struct {
		unsigned holds;
		uint64_t count;
		const char *text;
	} losses[] = {
		{FORMAT_HOLDS_TYPES, profile->sample_type_count > values ? profile->sample_type_count - values : 0,
		 "# of the values of each sample"},
		{FORMAT_HOLDS_TIMES, f.timed, "the times of # samples"},
		{FORMAT_HOLDS_LINKS, f.linked, "the trace and span ids of # samples"},
		{FORMAT_HOLDS_FILES, f.with_file, "the source files of # functions"},
		{FORMAT_HOLDS_LINES, f.with_line, "the lines of # frames"},
		{FORMAT_HOLDS_INLINES, f.inlined, "inlining of # frames"},
		{FORMAT_HOLDS_ADDRESSES, f.addressed, "the addresses and binaries of # frames"},
		{FORMAT_HOLDS_SYSTEM_NAMES, f.with_system_name, "the mangled names of # functions"},
		{FORMAT_HOLDS_FRAME_TYPES, f.typed_frames, "the kinds of # frames"},
		{FORMAT_HOLDS_COMMENTS, profile->comment_count, "# comments"},
		{FORMAT_HOLDS_MARKERS, profile_marker_count(profile), "# markers"},
		{FORMAT_HOLDS_MARKERS, profile_counter_count(profile), "# counters"},
	};
	for (size_t i = 0; i < sizeof(losses) / sizeof(losses[0]); i++)
		if (!(format->holds & losses[i].holds))
			add(&found, losses[i].text, losses[i].count);
	add_type(format, profile, &found);
	int r = add_names(format, profile, &found);
	if (r == 0)
		r = add_labels(format, profile, &found);
	return r < 0 ? r : buffer_append_buffer(out, &found);
}
