/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a program was doing, and what it used, on the time line of a profile's samples: markers and counters.
 *
 * A marker is a moment or a stretch of time of one thread with a name: a step, a request, a merge. Its schema says which fields
 * it carries and how they are shown; its category gives it a colour. A counter is a series of values of a process or a thread:
 * memory, CPU use. All names are strings of the profile.
 *
 *   hosts       name, clock                                   id 0 = unknown
 *   threads     host, pid, tid, start time; name, process     id 0 = none
 *   categories  name, colour                                  id 0 = none
 *   schemas     name, fields, labels                          id 0 = none
 *   markers     thread, schema, name, category, start, end, phase, flow; values[first + field]
 *   counters    name, category, what it is, unit, host, pid, thread   id 0 = none
 *   rows        counter, time, value
 *   lifetimes   host, pid, tid, start time; end, program      id 0 = none
 *
 * Hosts, threads, categories, schemas, counters and lifetimes are interned: adding an equal one returns the old id. A host is
 * its name. A thread is its host, pid, tid and start time, so that one which gets the tid of one that ended is another; names
 * are not part of it, and the last one counts. Samples say their host with the label host.name.
 *
 * A lifetime is from when to when a thread ran under one program. An exec ends those of all threads of the process and begins
 * another one of its main thread, whose lifetimes are those of the process. Samples and markers are of the lifetime that their
 * time is in. They are known of what was recorded, and of nothing that comes from elsewhere.
 *
 * Times are wall-clock nanoseconds as those of samples (profile.h). They are kept by profile_merge() also when it drops those
 * of samples. Limits are those of the profile's tables. All hang off profile->markers, which is NULL until the first is added.
 */
#ifndef WICK_PROFILE_MARKERS_H
#define WICK_PROFILE_MARKERS_H

#include "profile/profile.h"

/*
 * A host, and how its clock stands to another one: when the clock of this host shows t, it is ahead of the other by
 * offset_ns + skew * (t - at_ns), the line of base/clock_fit.h. The other is `reference`: a host of the profile, or whatever
 * clock those who compared it have in common ("UTC", the address of a server). Nothing but names of it is compared.
 */
/* What a host is, and what was recorded there; strings, 0 = unknown. */
struct profile_machine {
	uint32_t program;   /* what was recorded: the name of a command or a process */
	uint32_t arguments; /* its command line, for people */
	uint32_t system;    /* "Linux 6.1.0 x86_64" */
	uint32_t cpu_name;
	uint32_t logical_cpus, physical_cpus; /* numbers */
};
struct profile_host {
	uint32_t name;	    /* string; 0 = one that has no name */
	uint32_t reference; /* string: whose clock this one was compared with; 0 = with none, and what follows says nothing */
	uint32_t method;    /* string, for people: how it was compared: "pings", "flows", "wall clock" ... */
	int64_t at_ns, offset_ns;
	double skew;	    /* how much faster this clock runs: 5e-5 = 50 ppm */
	int64_t bound_ns;   /* the line is off by so much at most, throughout the profile; negative = nobody knows */
	uint64_t exchanges; /* flows with other hosts that the line was found by */
	bool is_aligned;    /* times of this host are the reference's: the line was taken off them (profile/align.h) */
	struct profile_machine machine;
};

struct profile_thread {
	uint32_t host;
	int64_t pid, tid;
	int64_t start_ns;	/* when it began; 0 = unknown */
	uint32_t name, process; /* strings; 0 = unknown */
};

/* One that began before the recording has a start of 0, one that went on after it an end of 0. */
struct profile_lifetime {
	uint32_t host;
	int64_t pid, tid;
	int64_t start_ns, end_ns;
	uint32_t program; /* string: the name of the process meanwhile; 0 = unknown, or not of a main thread */
	bool by_exec;	  /* else by fork, or of a thread */
};

struct profile_marker_category {
	uint32_t name, color; /* colours are those of the Firefox Profiler: "blue", "orange" ...; 0 = any */
};

/* How a value is to be read and shown. Append-only. */
enum profile_field_format {
	PROFILE_FIELD_STRING = 0,
	PROFILE_FIELD_INTEGER = 1,
	PROFILE_FIELD_DECIMAL = 2,
	PROFILE_FIELD_PERCENTAGE = 3, /* 1 = 100 % */
	PROFILE_FIELD_DURATION = 4,   /* nanoseconds */
	PROFILE_FIELD_BYTES = 5,
	PROFILE_FIELD_PID = 6,
	PROFILE_FIELD_TID = 7,
	PROFILE_FIELD_FORMATS,
};

struct profile_marker_field {
	uint32_t key, label; /* strings; the label is for people, 0 = the key */
	enum profile_field_format format;
};
/* LIMIT of fields of one schema. */
#define PROFILE_MARKER_FIELDS_MAX 64
struct profile_marker_schema {
	uint32_t name;
	/* Texts with places for values: "{marker.data.KEY}", "{marker.name}"; 0 = the viewer's own choice. */
	uint32_t chart_label, tooltip_label, table_label;
	uint32_t field_first, field_count; /* into fields; set by profile_add_marker_schema() */
};

/* As in the Firefox Profiler. Starts and ends that have lost each other are START and END. */
enum profile_marker_phase {
	PROFILE_MARKER_INSTANT = 0,
	PROFILE_MARKER_INTERVAL = 1,
	PROFILE_MARKER_START = 2,
	PROFILE_MARKER_END = 3,
	PROFILE_MARKER_PHASES,
};

/* Of a field; formats other than STRING take numbers or reals. */
enum profile_value_kind { PROFILE_VALUE_NONE = 0, PROFILE_VALUE_STRING, PROFILE_VALUE_NUMBER, PROFILE_VALUE_REAL };
struct profile_marker_value {
	enum profile_value_kind kind;
	union {
		uint32_t string;
		int64_t number;
		double real;
	};
};

struct profile_marker {
	uint32_t thread, schema, name, category;
	enum profile_marker_phase phase;
	bool flow_ends;	      /* nothing follows in the flow */
	bool of_process;      /* an asynchronous span: not only what its thread did belongs to it */
	int64_t start_ns;     /* of an END: 0 */
	int64_t end_ns;	      /* of an INTERVAL and an END; else 0 */
	uint64_t flow;	      /* what belongs together, of whatever threads and hosts; 0 = none */
	uint32_t value_first; /* into values, as many as the schema has fields; set by profile_add_marker() */
};

/* What the value of a row is. Append-only. */
enum profile_counter_kind {
	PROFILE_COUNTER_LEVEL = 0,  /* how much there is at the time: memory, a queue's length */
	PROFILE_COUNTER_EVENTS = 1, /* how many since the row before: context switches */
	PROFILE_COUNTER_SHARE = 2,  /* of the time since the row before, 1 = all of it (one CPU): CPU use */
};
struct profile_counter {
	uint32_t name, category, description; /* strings; the category is a word that viewers group by: "CPU", "Memory" */
	uint32_t unit;			      /* string: "bytes", "percent", "count" ...; 0 = none */
	uint32_t color;			      /* string; 0 = any */
	enum profile_counter_kind kind;
	uint32_t host; /* that of the thread, where there is one */
	int64_t pid;
	uint32_t thread; /* 0 = of the process as a whole */
};
struct profile_counter_row {
	uint32_t counter;
	int64_t time_ns;
	double value;
};

struct profile_markers_index;
struct profile_markers {
	/* Tables: read freely, add through the functions. count includes entry 0 but for markers, fields, values, rows. */
	struct profile_host *hosts;
	struct profile_thread *threads;
	struct profile_marker_category *categories;
	struct profile_marker_schema *schemas;
	struct profile_marker_field *fields;
	struct profile_marker *markers;
	struct profile_marker_value *values;
	struct profile_counter *counters;
	struct profile_counter_row *rows;
	struct profile_lifetime *lifetimes;
	size_t host_count, thread_count, category_count, schema_count, field_count, marker_count, value_count, counter_count,
		row_count, lifetime_count;
	struct profile_markers_index *index; /* private */
};

/* How many there are; 0 also when profile->markers is NULL. */
size_t profile_marker_count(const struct profile *profile);
size_t profile_counter_count(const struct profile *profile); /* without entry 0 */
size_t profile_host_count(const struct profile *profile);    /* without entry 0 */

/* Adding, as in profile.h: 0, -ENOMEM, -E2BIG (limit, named in err). Ids passed in must be valid (asserted). */
/* A clock that is compared with another replaces what was said of the clock of the host before; one that is not leaves it. So
 * does what is known of a machine. */
int profile_add_host(struct profile *profile, const struct profile_host *host, uint32_t *ret_id, struct error *err);
int profile_add_thread(struct profile *profile, const struct profile_thread *thread, uint32_t *ret_id, struct error *err);
int profile_add_marker_category(struct profile *profile, uint32_t name, uint32_t color, uint32_t *ret_id, struct error *err);
/* Schemas of one name but other fields are two. */
int profile_add_marker_schema(struct profile *profile, const struct profile_marker_schema *schema,
			      const struct profile_marker_field *fields, size_t field_count, uint32_t *ret_id,
			      struct error *err);
/* values: one a field of the schema; NULL = all NONE. An end before its start becomes the start. */
int profile_add_marker(struct profile *profile, const struct profile_marker *marker, const struct profile_marker_value *values,
		       struct error *err);
int profile_add_counter(struct profile *profile, const struct profile_counter *counter, uint32_t *ret_id, struct error *err);
/* An end and a program that are known replace those of an equal one. */
int profile_add_lifetime(struct profile *profile, const struct profile_lifetime *lifetime, uint32_t *ret_id, struct error *err);
/* Rows of one counter come in the order of their times; others may come between. */
int profile_add_counter_row(struct profile *profile, uint32_t counter, int64_t time_ns, double value, struct error *err);

#endif
