/* SPDX-License-Identifier: Apache-2.0 */
/* Profile types: the five parts of a name, and guessing the first. */
#include "profile/type.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define PART_COUNT 5

static bool is_part_char(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '.' || c == '/' ||
	       c == '-';
}

static int parse_part(const char *text, const char **at, char *out, size_t size, bool may_be_empty, const char *what,
		      struct error *err)
{
	size_t len = strcspn(*at, ":");
	if (len == 0 && !may_be_empty)
		return error_set(err, -EINVAL, "profile type '%.128s': the %s is empty", text, what);
	if (len >= size)
		return error_set(err, -EINVAL, "profile type '%.128s': the %s is longer than %zu bytes", text, what, size - 1);
	for (size_t i = 0; i < len; i++)
		if (!is_part_char((*at)[i]))
			return error_set(err, -EINVAL,
					 "profile type '%.128s': the %s may hold letters, digits and _ . / - only", text, what);
	memcpy(out, *at, len);
	out[len] = '\0';
	*at += len;
	return 0;
}

int profile_type_parse(const char *text, struct profile_type *ret, struct error *err)
{
	struct profile_type type = {0};
	const struct {
		char *out;
		size_t size;
		const char *what;
		bool may_be_empty;
	} parts[PART_COUNT] = {
		{type.name, sizeof(type.name), "name", false},
		{type.sample_type, sizeof(type.sample_type), "sample type", false},
		{type.sample_unit, sizeof(type.sample_unit), "sample unit", true},
		{type.period_type, sizeof(type.period_type), "period type", true},
		{type.period_unit, sizeof(type.period_unit), "period unit", true},
	};
	const char *at = text;
	for (size_t i = 0; i < PART_COUNT; i++) {
		if (i > 0 && *at != ':')
			return error_set(err, -EINVAL,
					 "profile type '%.128s' has %zu parts; write "
					 "name:sample_type:sample_unit:period_type:period_unit[:delta]",
					 text, i);
		at += i > 0;
		int r = parse_part(text, &at, parts[i].out, parts[i].size, parts[i].may_be_empty, parts[i].what, err);
		if (r < 0)
			return r;
	}
	type.delta = strcmp(at, ":delta") == 0;
	if (!type.delta && *at != '\0')
		return error_set(err, -EINVAL, "profile type '%.128s': '%.64s' after the period unit; only ':delta' may follow",
				 text, at);
	*ret = type;
	return 0;
}

const char *profile_type_format(const struct profile_type *type, char out[static PROFILE_TYPE_TEXT_MAX])
{
	snprintf(out, PROFILE_TYPE_TEXT_MAX, "%s:%s:%s:%s:%s%s", type->name, type->sample_type, type->sample_unit,
		 type->period_type, type->period_unit, type->delta ? ":delta" : "");
	return out;
}

bool profile_type_equal(const struct profile_type *a, const struct profile_type *b)
{
	return strcmp(a->name, b->name) == 0 && strcmp(a->sample_type, b->sample_type) == 0 &&
	       strcmp(a->sample_unit, b->sample_unit) == 0 && strcmp(a->period_type, b->period_type) == 0 &&
	       strcmp(a->period_unit, b->period_unit) == 0 && a->delta == b->delta;
}

bool profile_type_is_gauge(const struct profile_type *type)
{
	/* "_" at the end: whatever begins so. */
	static const char *const flows[] = {"cpu",    "sample",	    "samples",	   "wall",	"itimer", "off_cpu",
					    "alloc_", "malloc_",    "contentions", "delay",	"mutex_", "block_",
					    "lock_",  "exception_", "exception",   "exceptions"};
	if (type->delta || profile_type_is_process_stats(type) || strcmp(type->name, "process_cpu") == 0)
		return false;
	for (size_t i = 0; i < sizeof(flows) / sizeof(*flows); i++) {
		size_t len = strlen(flows[i]);
		if (strncmp(type->sample_type, flows[i], len) == 0 && (flows[i][len - 1] == '_' || !type->sample_type[len]))
			return false;
	}
	return true;
}

bool profile_has_gauge(const struct profile *profile, const char *name)
{
	for (size_t i = 0; i < profile->sample_type_count; i++) {
		struct profile_type type;
		profile_type_of(profile, i, name, &type);
		if (profile_type_is_gauge(&type))
			return true;
	}
	return false;
}

const char *profile_type_describe(const struct profile_type *type)
{
	/* The first row whose texts agree; NULL is any. */
	static const struct {
		const char *name, *sample_type, *text;
	} known[] = {
		{NULL, "cpu", "CPU time used"},
		{NULL, "itimer", "CPU time used"},
		{"process_cpu", "samples", "Samples on CPU, at a fixed rate"},
		{NULL, "wall", "Wall-clock time, on and off CPU"},
		{NULL, "off_cpu", "Time that threads were blocked: on locks, disks, the network, timers"},
		{NULL, "inuse_space", "Heap in use: bytes allocated and not freed"},
		{NULL, "inuse_objects", "Heap in use: objects allocated and not freed"},
		{NULL, "live", "Live objects"},
		{NULL, "alloc_space", "Bytes allocated, including those freed since"},
		{NULL, "alloc_objects", "Objects allocated, including those freed since"},
		{NULL, "alloc_in_new_tlab_bytes", "Bytes of new thread-local allocation buffers (TLAB)"},
		{NULL, "alloc_in_new_tlab_objects", "New thread-local allocation buffers (TLAB)"},
		{NULL, "alloc_outside_tlab_bytes", "Bytes allocated outside of thread-local buffers (TLAB)"},
		{NULL, "alloc_outside_tlab_objects", "Objects allocated outside of thread-local buffers (TLAB)"},
		{"goroutine", NULL, "Goroutines, by their current stack"},
		{"goroutines", NULL, "Goroutines, by their current stack"},
		{"mutex", "contentions", "Waits of others for a held lock, by its holder"},
		{"mutex", "delay", "Time others waited for a held lock, by its holder"},
		{"block", "contentions", "Waits for locks, channels and the like"},
		{"block", "delay", "Time spent waiting for locks, channels and the like"},
		{NULL, "exceptions", "Exceptions thrown"},
		{"threadcreate", NULL, "Operating system threads created"},
	};
	for (size_t i = 0; i < sizeof(known) / sizeof(*known); i++)
		if ((!known[i].name || strcmp(known[i].name, type->name) == 0) &&
		    (!known[i].sample_type || strcmp(known[i].sample_type, type->sample_type) == 0))
			return known[i].text;
	return NULL;
}

/* NULL when the sample type itself must do. */
static const char *guess_name(struct bytes sample, struct bytes period)
{
	static const char *const cpu[] = {"cpu", "samples"};
	if (bytes_equal_string(period, PROCESS_STATS_NAME))
		return PROCESS_STATS_NAME;
	bool counts = bytes_equal_string(sample, "samples") || bytes_equal_string(sample, "sample");
	if (bytes_equal_string(sample, "wall") || (counts && bytes_equal_string(period, "wall")))
		return "wall";
	for (size_t i = 0; i < sizeof(cpu) / sizeof(*cpu); i++)
		if (bytes_equal_string(sample, cpu[i]))
			return "process_cpu";
	if (bytes_start_with(sample, "alloc_") || bytes_start_with(sample, "inuse_"))
		return "memory";
	if (bytes_equal_string(sample, "contentions") || bytes_equal_string(sample, "delay"))
		return bytes_start_with(period, "block") ? "block" : "mutex";
	if (bytes_equal_string(sample, "goroutine") || bytes_equal_string(sample, "goroutines"))
		return "goroutine";
	return NULL;
}

static void set_part(char *out, size_t size, struct bytes text)
{
	size_t len = text.len < size - 1 ? text.len : size - 1;
	for (size_t i = 0; i < len; i++)
		out[i] = is_part_char((char)text.data[i]) ? (char)text.data[i] : '_';
	out[len] = '\0';
}

void profile_type_of(const struct profile *profile, size_t sample_type, const char *name, struct profile_type *ret)
{
	static const struct profile_value_type none;
	const struct profile_value_type *type =
		sample_type < profile->sample_type_count ? &profile->sample_types[sample_type] : &none;
	struct bytes sample = profile_string_bytes(profile, type->type);
	struct bytes period = profile_string_bytes(profile, profile->period_type.type);
	if (sample.len == 0)
		sample = bytes_of_string("unknown");
	const char *guessed = name && *name ? name : guess_name(sample, period);
	/* CPU time that was measured beside wall-clock time is CPU time. Pyroscope renames it likewise. */
	if (guessed && strcmp(guessed, "wall") == 0 && bytes_equal_string(sample, "cpu"))
		guessed = "process_cpu";
	*ret = (struct profile_type){.delta = profile->duration_ns != 0};
	set_part(ret->name, sizeof(ret->name), guessed ? bytes_of_string(guessed) : sample);
	set_part(ret->sample_type, sizeof(ret->sample_type), sample);
	set_part(ret->sample_unit, sizeof(ret->sample_unit), profile_string_bytes(profile, type->unit));
	set_part(ret->period_type, sizeof(ret->period_type), period);
	set_part(ret->period_unit, sizeof(ret->period_unit), profile_string_bytes(profile, profile->period_type.unit));
}

const struct process_stats_column_name process_stats_columns[PROCESS_STATS_COLUMNS] = {
	[PROCESS_STATS_CPU] = {"cpu", "nanoseconds", "cpu_ns"},
	[PROCESS_STATS_RSS] = {"rss", "bytes", "rss_bytes"},
	[PROCESS_STATS_MINOR_FAULTS] = {"minor_faults", "count", "minor_faults"},
	[PROCESS_STATS_MAJOR_FAULTS] = {"major_faults", "count", "major_faults"},
	[PROCESS_STATS_VOLUNTARY_SWITCHES] = {"voluntary_switches", "count", "voluntary_switches"},
	[PROCESS_STATS_INVOLUNTARY_SWITCHES] = {"involuntary_switches", "count", "involuntary_switches"},
	[PROCESS_STATS_READ] = {"read", "bytes", "read_bytes"},
	[PROCESS_STATS_WRITTEN] = {"written", "bytes", "written_bytes"},
	[PROCESS_STATS_THREADS] = {"threads", "count", "threads"},
};

enum process_stats_column process_stats_column_of(const char *sample_type, const char *unit)
{
	unsigned column = 0;
	while (column < PROCESS_STATS_COLUMNS && (strcmp(process_stats_columns[column].sample_type, sample_type) != 0 ||
						  strcmp(process_stats_columns[column].unit, unit) != 0))
		column++;
	return (enum process_stats_column)column;
}
