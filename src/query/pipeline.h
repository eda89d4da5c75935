/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The query language: selector | stage | stage ... Grammar, kinds and meaning of every stage in docs/query.md.
 *
 * A text goes through four steps: pipeline_parse() makes a struct pipeline (errors name the column), which pipeline_format()
 * prints in canonical form; a planner decides what the store does (labels, stacks, groups, steps) and what is done with its
 * answer; query_run() executes the plan.
 */
#ifndef WICK_QUERY_PIPELINE_H
#define WICK_QUERY_PIPELINE_H

#include "codec/json.h"
#include "codec/tabular.h"
#include "format/format.h"
#include "query/query.h"

struct pipeline;
/* -EINVAL: "query: expected ... at column N near '...'"; also for stages that do not go together. */
int pipeline_parse(const char *text, struct pipeline **ret, struct error *err);
struct pipeline *pipeline_free(struct pipeline *pipeline);
DEFINE_CLEANUP_POINTER(pipeline_free, struct pipeline);
/* The one way to write it; parsing that gives an equal pipeline. */
int pipeline_format(const struct pipeline *pipeline, struct buffer *out);
/* The same with the stage `hide interpreter`, as people want to see it: before the first stage that works on stacks, if the
 * result is made of stacks and no stage is there already. */
int pipeline_format_hiding(const struct pipeline *pipeline, struct buffer *out);
/* True if it is a selector without stages. */
bool pipeline_is_selector(const struct pipeline *pipeline);

/* ---- results ---- */

enum query_kind {
	QUERY_PROFILE,	  /* a flame graph: profile */
	QUERY_DIFF,	  /* profile with the sample types "base" and the selection's: render/diff.h */
	QUERY_TABLE,	  /* table */
	QUERY_SERIES,	  /* series */
	QUERY_COMPARISON, /* a profile for each value of a label */
};
const char *query_kind_name(enum query_kind kind); /* "flamegraph", "diff", "table", "series", "comparison" */

enum query_column_kind {
	QUERY_COLUMN_TEXT,
	QUERY_COLUMN_INTEGER,
	QUERY_COLUMN_NUMBER,
	QUERY_COLUMN_TIME, /* integer, ns since 1970 */
};
struct query_column {
	char name[64];
	char unit[QUERY_UNIT_MAX]; /* "" = none */
	enum query_column_kind kind;
};
struct query_cell {
	bool absent; /* no value: null in JSON, empty in text */
	union {
		const char *text; /* owned by the table */
		int64_t integer;
		double number;
	};
};
struct query_table {
	struct query_column *columns;
	struct query_cell *cells; /* row by row */
	size_t column_count, row_count;
	size_t rows_before_limit;
	struct arena arena; /* private */
	size_t column_capacity, cell_capacity, next, rows_max;
	int failed;
};
struct query_compared {
	char *value; /* of the label */
	int64_t total;
	struct profile *profile;
};
struct query_comparison {
	char *label;
	struct query_compared *items; /* by falling total */
	size_t count, count_before_limit;
	int64_t total; /* of all values, also those that are not shown */
};

/* What was done, for --explain and explain=1. */
struct query_explain {
	char *query; /* canonical */
	char *plan;  /* one step a line: "read: ...", "group by: ...", "then: ..." */
};

struct query_result {
	enum query_kind kind;
	int64_t from_ns, to_ns;		  /* the range asked for */
	int64_t base_from_ns, base_to_ns; /* of a diff's base */
	struct profile_type type;	  /* name[0] == 0 if nothing was found */
	bool relative;			  /* of a diff: compare shares of the totals */
	bool rate;			  /* series and tables only */
	struct profile *profile;
	struct query_table table;
	struct query_series series;
	struct query_comparison comparison;
	struct query_explain explain;
};
void query_result_release(struct query_result *result);

struct query_options {
	struct query query;    /* but for what the text says: selector, where and frames do not count */
	int64_t now_ns;	       /* what relative times in the text refer to; 0 = time_now_ns() */
	size_t table_rows_max; /* 0 = 100,000 rows of a table */
	bool numbers;	       /* of a profile: query_merge_options.numbers */
};

/* Parses, plans, runs. stats may be NULL; symbolizer too. *ret is empty after a failure. */
int query_run(struct store *store, struct symbolizer *symbolizer, const char *text, const struct query_options *options,
	      struct query_result *ret, struct query_stats *stats, struct error *err);

/* {"kind", "query", "type", "unit", "from_ms", "to_ms", "partial", "why", "symbols", ... and by kind: "flame", "table" |
 * "series" ...}; stats may be NULL, as may explain be false. Layout in docs/query.md. */
struct query_write_options {
	bool explain;
	bool table;	  /* of a profile: the table of functions instead of the flame tree */
	size_t limit;	  /* rows of the table of functions and of text; 0 = all */
	size_t nodes_max; /* of a tree: the largest ones (flame_build_largest()); 0 = all */
	/* Of JSON: as those of struct json_writer; NULL = all of it stays in the buffer */
	int (*drain)(void *context);
	void *context;
};
int query_write_json(const struct query_result *result, const struct query_stats *stats,
		     const struct query_write_options *options, struct buffer *out, struct error *err);
/* A member of an object: "series": [{"labels", "others", "total", "points": [[ms, value]]}]. */
void query_series_json(const struct query_series *series, struct json_writer *json);
/* The members "partial", and if it is, "why" and "lost": {"rows", "from_ms", "to_ms"}, the damaged rows. stats may be NULL. */
void query_partial_json(const struct query_stats *stats, struct json_writer *json);
/* A member of an object: "symbols": {"resolved", "pending", "missing", "ambiguous"}, of the addresses that came without names.
 */
void query_symbols_json(const struct query_stats *stats, struct json_writer *json);
/* Aligned columns for a terminal; a profile as `go tool pprof -top`. */
int query_write_text(const struct query_result *result, const struct query_stats *stats,
		     const struct query_write_options *options, struct buffer *out, struct error *err);
/* The same as one table for other programs; its columns and metadata are in docs/query.md. limit: rows of a table, functions of
 * a diff or of each profile of a comparison, groups of series, stacks of a profile; 0 = all. What comes last stays in
 * sink->out, and after a failure whatever was written. */
int query_write_columns(const struct query_result *result, const struct query_stats *stats, enum tabular_format format,
			size_t limit, struct format_sink *sink, struct error *err);
/* The plan and what reading took. query and plan may be NULL for queries that were not a pipeline. */
int query_explain_text(const struct query_explain *explain, const struct query_stats *stats, struct buffer *out);
void query_explain_json(const struct query_explain *explain, const struct query_stats *stats, struct json_writer *json);

#endif
