/* SPDX-License-Identifier: Apache-2.0 */
/* Private to the Firefox Profiler format: reading. */
#ifndef WICK_FORMAT_FIREFOX_FIREFOX_READ_H
#define WICK_FORMAT_FIREFOX_FIREFOX_READ_H

#include "codec/json_tree.h"
#include "format/firefox/firefox_int.h"
#include "profile/markers.h"

/* What a value of the file's samples is. */
struct firefox_value {
	const char *weight; /* the weightType, NULL = threadCPUDelta */
	const char *type, *unit;
	double scale; /* what one of the file's units is */
};
#define FIREFOX_VALUES_MAX 4

/* A schema of markers: which of its fields are those of the profile's, and which are flows. */
#define FIREFOX_FLOWS_MAX 8
struct firefox_schema {
	const struct json_node *node;
	uint32_t id, field_count, flow_count;
	uint32_t fields[PROFILE_MARKER_FIELDS_MAX], flows[FIREFOX_FLOWS_MAX];
};

struct firefox_reader {
	struct profile *profile;
	const struct json_node *root, *meta;
	unsigned version;
	uint32_t *mappings; /* by lib */
	size_t lib_count;
	uint32_t *frame_types; /* by category; FIREFOX_NONE = it does not tell */
	size_t category_count;
	struct firefox_value values[FIREFOX_VALUES_MAX];
	size_t value_count;
	double start_ms;
	bool is_own, is_timed;
	bool has_lifetimes;  /* of threads and processes, which are parted by them */
	bool ids_have_hosts; /* pids and tids are those of firefox_hosts.c */
	uint32_t only_host;  /* 0 = there are several, or none */
	uint32_t name_key, tid_key, pid_key, process_key, host_key;
	uint64_t markers, allocations; /* what is left out */
	uint64_t without_time;
	uint64_t dangling; /* references to rows that are not there */
	struct firefox_schema *schemas;
	size_t schema_count, schema_capacity;
	struct map64 schema_by_name; /* string of the profile -> place in schemas */
};

/* A table, and its columns that were asked for: each is looked for once, and not again in each row. */
#define FIREFOX_COLUMNS_MAX 16 /* more than are asked for of any table */
struct firefox_table {
	const struct json_node *node;
	struct {
		const char *name;
		const struct json_node *values; /* NULL = there is none */
	} columns[FIREFOX_COLUMNS_MAX];
	size_t column_count;
};
/* name: a literal, for it is known again by its place. */
const struct json_node *firefox_column(struct firefox_table *table, const char *name);

/* Where a thread's stacks are: its own tables, or those of all. */
struct firefox_source {
	const struct json_node *strings;
	struct firefox_table sources, stacks, frames, funcs, resources;
};

struct firefox_read_frame {
	uint32_t func, lib;
	int64_t address, category; /* -1 = none */
	int64_t line, column, symbol;
	bool is_inlined;
};

/* The number of rows of a table, by one of its columns. -EBADMSG. */
int firefox_table_length(const struct json_node *table, const char *name, const char *column, size_t *ret, struct error *err);
int firefox_read_libs(struct firefox_reader *reader, struct error *err);
/* stacks, by row of stackTable: what is not 0 is wanted, and becomes a stack of the profile. */
int firefox_read_stacks(struct firefox_reader *reader, struct firefox_source *source, uint32_t *stacks, size_t count,
			struct error *err);
/* Milliseconds since the start as wall-clock time; false if they are out of range. */
bool firefox_wall_ns(const struct firefox_reader *reader, double since_start_ms, int64_t *ret);
/* Whether a thread's name is one, and does not stand in for none. */
bool firefox_is_named(const struct firefox_reader *reader, const struct json_node *thread, struct bytes name);
/* firefox_markers_read.c */
int firefox_read_schemas(struct firefox_reader *reader, struct error *err);
int firefox_read_markers(struct firefox_reader *reader, const struct json_node *thread, const struct json_node *strings,
			 struct error *err);
int firefox_read_counters(struct firefox_reader *reader, const struct json_node *threads, struct error *err);
uint32_t firefox_frame_type(const struct firefox_reader *reader, int64_t category);

/* ---- profiles of several hosts: firefox_hosts.c ---- */

int firefox_read_hosts(struct firefox_reader *reader, struct error *err);

/* A pid or a tid. */
struct firefox_id {
	struct bytes host; /* empty = the file does not tell */
	struct bytes text; /* without the host */
	bool is_number;
	int64_t number;
};
struct firefox_id firefox_read_id(const struct firefox_reader *reader, const struct json_node *node);
/* From when to when a thread was. */
int firefox_read_lifetime(struct firefox_reader *reader, const struct json_node *thread, struct error *err);
/* The name of a process without that of its host. */
struct bytes firefox_process_name(const struct firefox_reader *reader, const struct json_node *thread);
/* The host of what has this pid; 0 = unknown. */
int firefox_find_host(struct firefox_reader *reader, struct firefox_id pid, uint32_t *ret, struct error *err);

#endif
