/* SPDX-License-Identifier: Apache-2.0 */
/* Everything in a profile, as it is: google/pprof's Profile.String(). Locations and mappings are numbered as in the profile in
 * memory, which is the order of the file where that has no entry twice. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/alloc.h"
#include "base/limits.h"
#include "base/order.h"
#include "base/text.h"
#include "base/time.h"
#include "render/report_int.h"

static void put_string(struct report *report, uint32_t id)
{
	text_append_harmless(report->out, profile_string_bytes(report->profile, id));
}

/* As Go prints times: "2014-01-29 00:26:20.5 +0000 UTC". */
static void put_time(struct report *report, int64_t time_ns)
{
	int64_t below = time_ns % NS_PER_S;
	below += below < 0 ? NS_PER_S : 0;
	time_t seconds = (time_t)((time_ns - below) / NS_PER_S);
	char text[64] = "", zone[32] = "", fraction[16] = "";
	struct tm tm;
	if (!localtime_r(&seconds, &tm))
		return;
	strftime(text, sizeof(text), "%Y-%m-%d %H:%M:%S", &tm);
	strftime(zone, sizeof(zone), "%z %Z", &tm);
	if (below) {
		size_t len = (size_t)snprintf(fraction, sizeof(fraction), ".%09lld", (long long)below);
		while (fraction[len - 1] == '0')
			fraction[--len] = '\0';
	}
	buffer_printf(report->out, "Time: %s%s %s\n", text, fraction, zone);
}

/* As Go prints durations, of which four characters are shown: "1h2m", "12.3", "10s". */
static void put_duration(struct report *report, int64_t duration_ns)
{
	static const struct {
		double factor;
		const char *name;
	} small[] = {{1e9, "s"}, {1e6, "ms"}, {1e3, "µs"}, {1, "ns"}};
	uint64_t value = duration_ns < 0 ? 0 - (uint64_t)duration_ns : (uint64_t)duration_ns, minutes = value / 60000000000u;
	char text[96] = "";
	size_t len = 0, unit = 0;
	if (minutes >= 60)
		len = (size_t)snprintf(text, sizeof(text), "%lluh", (unsigned long long)(minutes / 60));
	if (minutes > 0) {
		len += (size_t)snprintf(text + len, sizeof(text) - len, "%llum", (unsigned long long)(minutes % 60));
		value %= 60000000000u;
	} else {
		while (unit < 3 && (double)value < small[unit].factor)
			unit++;
	}
	char number[40];
	size_t digits = (size_t)snprintf(number, sizeof(number), "%.9f", (double)value / small[unit].factor);
	while (number[digits - 1] == '0')
		number[--digits] = '\0';
	if (number[digits - 1] == '.')
		number[--digits] = '\0';
	snprintf(text + len, sizeof(text) - len, "%s%s", number, small[unit].name);
	buffer_printf(report->out, "Duration: %s%.*s\n", duration_ns < 0 ? "-" : "", duration_ns < 0 ? 3 : 4, text);
}

/* "key:[value value]" of a run of labels with one key; NULL text = no labels of this kind. */
static void format_key(const struct profile *profile, uint32_t first, uint32_t end, bool numbers, struct buffer *out)
{
	bool any = false, has_units = false;
	for (uint32_t i = first; i < end; i++)
		has_units |= profile->labels[i].unit != 0;
	for (uint32_t i = first; i < end; i++) {
		const struct profile_label *label = &profile->labels[i];
		if (report_is_number(label) != numbers || !(numbers || label->value))
			continue;
		if (any)
			buffer_append_byte(out, ' ');
		else
			buffer_printf(out, "%s:[", profile_string(profile, label->key));
		if (!numbers)
			buffer_append_string(out, profile_string(profile, label->value));
		else
			buffer_printf(out, "%lld%s%s", (long long)label->number, has_units ? " " : "",
				      profile_string(profile, label->unit));
		any = true;
	}
	if (any)
		buffer_append_byte(out, ']');
}

static int put_labels(struct report *report, const struct profile_label_set *set, bool numbers, struct error *err)
{
	const struct profile *profile = report->profile;
	_cleanup_(mem_freep) char **texts = mem_zalloc_array(set->count + 1, sizeof(*texts));
	_cleanup_(buffer_release) struct buffer text = {.max = MIB};
	size_t count = 0;
	int r = 0;
	if (!texts)
		return error_nomem(err);
	for (uint32_t i = set->first, next, end = i + set->count; i < end && r == 0; i = next) {
		for (next = i + 1; next < end && profile->labels[next].key == profile->labels[i].key;)
			next++;
		buffer_clear(&text);
		format_key(profile, i, next, numbers, &text);
		r = buffer_status(&text);
		if (r < 0 || text.len == 0)
			continue;
		const char *whole = buffer_string(&text);
		texts[count] = whole ? mem_strdup(whole) : NULL;
		r = texts[count] ? 0 : -ENOMEM;
		count += r == 0;
	}
	sort_array(texts, count, text_compare);
	for (size_t i = 0; i < count; i++) {
		buffer_printf(report->out, "%s", i ? " " : "                ");
		text_append_harmless(report->out, bytes_of_string(texts[i]));
		mem_free(texts[i]);
	}
	if (count)
		buffer_printf(report->out, "\n");
	return r < 0 ? error_set(err, r, "cannot write labels") : 0;
}

static int put_sample(struct report *report, size_t sample, struct error *err)
{
	const struct profile *profile = report->profile;
	const struct profile_sample *entry = &profile->samples[sample];
	for (size_t i = 0; i < profile->sample_type_count; i++)
		buffer_printf(report->out, " %10lld", (long long)profile->values[sample * profile->sample_type_count + i]);
	buffer_printf(report->out, ": ");
	for (uint32_t at = entry->stack; at; at = profile->stacks[at].parent)
		buffer_printf(report->out, "%u ", profile->stacks[at].location);
	buffer_printf(report->out, "\n");
	int r = put_labels(report, &profile->label_sets[entry->labels], false, err);
	return r < 0 ? r : put_labels(report, &profile->label_sets[entry->labels], true, err);
}

static void put_location(struct report *report, uint32_t id)
{
	const struct profile *profile = report->profile;
	const struct profile_location *location = &profile->locations[id];
	uint32_t first = !report->options.detail.inlines && location->line_count > 1 ? location->line_count - 1 : 0;
	buffer_printf(report->out, "%6u: %s%llx ", id, "0x", (unsigned long long)location->address);
	if (location->mapping)
		buffer_printf(report->out, "M=%u ", location->mapping);
	if (location->folded)
		buffer_printf(report->out, "[F] ");
	if (location->line_count == 0)
		buffer_printf(report->out, "\n");
	for (uint32_t i = first; i < location->line_count; i++) {
		const struct profile_line *line = &profile->lines[location->line_first + i];
		const struct profile_function *function = &profile->functions[line->function];
		if (i > first)
			buffer_printf(report->out, "             ");
		if (line->function == 0) {
			buffer_printf(report->out, "??\n");
			continue;
		}
		put_string(report, function->name);
		buffer_printf(report->out, " ");
		put_string(report, function->file_name);
		buffer_printf(report->out, ":%lld:%lld s=%lld", (long long)line->line,
			      report->options.detail.columns ? (long long)line->column : 0, (long long)function->start_line);
		if (function->name != function->system_name) {
			buffer_printf(report->out, "(");
			put_string(report, function->system_name);
			buffer_printf(report->out, ")");
		}
		buffer_printf(report->out, "\n");
	}
}

static void put_mapping(struct report *report, uint32_t id)
{
	const struct profile_mapping *mapping = &report->profile->mappings[id];
	buffer_printf(report->out, "%u: 0x%llx/0x%llx/0x%llx ", id, (unsigned long long)mapping->start,
		      (unsigned long long)mapping->limit, (unsigned long long)mapping->offset);
	put_string(report, mapping->file_name);
	buffer_printf(report->out, " ");
	put_string(report, mapping->build_id);
	buffer_printf(report->out, " %s%s%s%s\n", mapping->flags & PROFILE_MAPPING_HAS_FUNCTIONS ? "[FN]" : "",
		      mapping->flags & PROFILE_MAPPING_HAS_FILENAMES ? "[FL]" : "",
		      mapping->flags & PROFILE_MAPPING_HAS_LINE_NUMBERS ? "[LN]" : "",
		      mapping->flags & PROFILE_MAPPING_HAS_INLINE_FRAMES && report->options.detail.inlines ? "[IN]" : "");
}

static void put_head(struct report *report)
{
	const struct profile *profile = report->profile;
	for (size_t i = 0; i < profile->comment_count; i++) {
		buffer_printf(report->out, "Comment: ");
		put_string(report, profile->comments[i]);
		buffer_printf(report->out, "\n");
	}
	if (profile->doc_url) {
		buffer_printf(report->out, "Doc: ");
		put_string(report, profile->doc_url);
		buffer_printf(report->out, "\n");
	}
	if (profile->period_type.type || profile->period_type.unit) {
		buffer_printf(report->out, "PeriodType: ");
		put_string(report, profile->period_type.type);
		buffer_printf(report->out, " ");
		put_string(report, profile->period_type.unit);
		buffer_printf(report->out, "\n");
	}
	buffer_printf(report->out, "Period: %lld\n", (long long)profile->period);
	if (profile->time_ns)
		put_time(report, profile->time_ns);
	if (profile->duration_ns)
		put_duration(report, profile->duration_ns);
	buffer_printf(report->out, "Samples:\n");
	for (size_t i = 0; i < profile->sample_type_count; i++) {
		const struct profile_value_type *type = &profile->sample_types[i];
		buffer_printf(report->out, "%s", i ? " " : "");
		put_string(report, type->type);
		buffer_printf(report->out, "/");
		put_string(report, type->unit);
		buffer_printf(report->out, "%s",
			      type->type == profile->default_sample_type && profile->default_sample_type ? "[dflt]" : "");
	}
	buffer_printf(report->out, "\n");
}

int report_write_raw(struct report *report, struct error *err)
{
	const struct profile *profile = report->profile;
	put_head(report);
	for (size_t i = 0; i < profile->sample_count && buffer_status(report->out) == 0; i++) {
		int r = put_sample(report, i, err);
		if (r < 0)
			return r;
	}
	buffer_printf(report->out, "Locations\n");
	for (uint32_t i = 1; i < profile->location_count && buffer_status(report->out) == 0; i++)
		put_location(report, i);
	buffer_printf(report->out, "Mappings\n");
	for (uint32_t i = 1; i < profile->mapping_count && buffer_status(report->out) == 0; i++)
		put_mapping(report, i);
	return 0;
}
