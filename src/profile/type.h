/* SPDX-License-Identifier: Apache-2.0 */
/* Profile types: name:sample_type:sample_unit:period_type:period_unit[:delta], e.g.
 * process_cpu:cpu:nanoseconds:cpu:nanoseconds:delta. ":delta" means that values cover a duration. */
#ifndef WICK_PROFILE_TYPE_H
#define WICK_PROFILE_TYPE_H

#include "profile/profile.h"

#define PROFILE_TYPE_TEXT_MAX 256
struct profile_type {
	char name[48], sample_type[48], sample_unit[32], period_type[48],
		period_unit[32]; /* NUL-terminated; [A-Za-z0-9_./-]* */
	bool delta;
};

int profile_type_parse(const char *text, struct profile_type *ret, struct error *err); /* -EINVAL naming text and fault */
const char *profile_type_format(const struct profile_type *type, char out[static PROFILE_TYPE_TEXT_MAX]);
bool profile_type_equal(const struct profile_type *a, const struct profile_type *b);
/* What values of the type are, for people: "Heap in use: bytes allocated and not freed". NULL for types that are not
 * known. */
const char *profile_type_describe(const struct profile_type *type);
/* The type of one of a profile's sample types under a name ("process_cpu"); characters outside the allowed set become '_'.
 * delta = the profile has a duration. The type cpu of a profile of the name wall is of the name process_cpu. A NULL or empty
 * name is guessed from the sample types: cpu -> process_cpu; wall -> wall; samples -> either, by the period type;
 * alloc_*, inuse_* -> memory; contentions, delay -> mutex (block when period type says so); goroutine(s) -> goroutine;
 * otherwise the sample type itself. */
void profile_type_of(const struct profile *profile, size_t sample_type, const char *name, struct profile_type *ret);

/*
 * Profiles of this name are a table of another kind: what each process used since the last flush of its agent. They have no
 * stacks, and a row a process and time; their sample types are the columns. In the store they are no profile type: see
 * store/processes.h. A profile is known by its name, or without one by its period type, which OTLP and pprof carry.
 */
#define PROCESS_STATS_NAME "process_stats"
enum process_stats_column {
	PROCESS_STATS_CPU, /* user and system; this and all others but RSS and threads: since the flush before */
	PROCESS_STATS_RSS, /* at the time of the row, like threads */
	PROCESS_STATS_MINOR_FAULTS,
	PROCESS_STATS_MAJOR_FAULTS,
	PROCESS_STATS_VOLUNTARY_SWITCHES,
	PROCESS_STATS_INVOLUNTARY_SWITCHES,
	PROCESS_STATS_READ, /* by storage, like written */
	PROCESS_STATS_WRITTEN,
	PROCESS_STATS_THREADS,
	PROCESS_STATS_COLUMNS,
};
struct process_stats_column_name {
	const char *sample_type, *unit; /* in profiles: "cpu", "nanoseconds" */
	const char *column;		/* in files and queries: "cpu_ns" */
};
extern const struct process_stats_column_name process_stats_columns[PROCESS_STATS_COLUMNS];
/* Whether the values say how much there is at a time (heap in use, goroutines), not how much came together over a duration:
 * those of several times are averaged, never added up. That is a type without ":delta", except where it counts what happened,
 * which covers a duration whether the profile says so or not: CPU and wall time (folded stacks, pprof of converters);
 * allocations, contentions and exceptions, of which our scraper, Pyroscope's clients and Alloy send what is new since the last
 * profile. */
bool profile_type_is_gauge(const struct profile_type *type);
/* Whether one of the profile's types, under a name as in profile_type_of(), is a gauge: such a profile says something even
 * without a sample, namely that there was nothing, which averages count. */
bool profile_has_gauge(const struct profile *profile, const char *name);
static inline bool profile_type_is_process_stats(const struct profile_type *type)
{
	return __builtin_strcmp(type->name, PROCESS_STATS_NAME) == 0;
}
/* The column that a sample type of a process_stats profile fills; PROCESS_STATS_COLUMNS if there is none. */
enum process_stats_column process_stats_column_of(const char *sample_type, const char *unit);

#endif
