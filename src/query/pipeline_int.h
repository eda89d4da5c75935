/* SPDX-License-Identifier: Apache-2.0 */
/* Private to src/query: the syntax tree of the query language, and what a plan is made of. */
#ifndef WICK_QUERY_PIPELINE_INT_H
#define WICK_QUERY_PIPELINE_INT_H

#include "query/pipeline.h"
#include "query/query_int.h"
#include "query/transform.h"

#define STAGES_MAX 64

enum stage_kind {
	STAGE_WHERE,
	STAGE_FRAMES,
	STAGE_FOCUS,
	STAGE_HIDE,
	STAGE_CALLERS,
	STAGE_CALLEES,
	STAGE_COLLAPSE,
	STAGE_GROUP,
	STAGE_BIN,
	STAGE_RATE,
	STAGE_TOP,
	STAGE_SUM,
	STAGE_COUNT,
	STAGE_DIFF,
	STAGE_COMPARE,
	STAGE_JOIN,
	STAGE_SORT,
	STAGE_LIMIT,
	STAGE_TYPES,
	STAGE_LABELS,
	STAGE_VALUES,
};

/* What rows of a table are about. */
enum top_by { TOP_BY_FUNCTION, TOP_BY_FILE, TOP_BY_BINARY, TOP_BY_LINE, TOP_BY_PACKAGE, TOP_BY_LABEL };

struct stage {
	enum stage_kind kind;
	size_t at;		    /* where it begins in the text, for messages */
	struct selector *selector;  /* WHERE: its matchers; DIFF: the base, NULL = as the other side */
	struct query_frames frames; /* FRAMES, FOCUS, HIDE, CALLERS, CALLEES, COLLAPSE; values are owned */
	enum transform_collapse collapse;
	bool interpreters;		 /* HIDE: the internals of interpreters, without tests */
	char *names[STORE_GROUP_BY_MAX]; /* GROUP, JOIN: labels; TOP, COMPARE, VALUES: the label; SORT: the column */
	size_t name_count;
	uint64_t number;     /* TOP, COMPARE, LIMIT */
	int64_t duration_ns; /* BIN, 0 = chosen; DIFF: how far back the base is, 0 = from and to say it */
	char *from, *to;     /* DIFF: times as written, NULL = none */
	char *prefix;	     /* VALUES */
	enum top_by by;
	bool by_given;
	bool total; /* TOP */
	bool total_given;
	bool others;	 /* TOP */
	bool relative;	 /* DIFF */
	bool descending; /* SORT */
};

struct pipeline {
	char *text;
	struct selector *selector;
	struct stage stages[STAGES_MAX];
	size_t stage_count;
};

const char *stage_name(enum stage_kind kind);
int stage_format(const struct stage *stage, struct buffer *out);
int frames_format(const struct query_frames *frames, struct buffer *out);
/* "query: MESSAGE, at column N near '...'" about a stage. */
int stage_refuse(const struct pipeline *pipeline, const struct stage *stage, struct error *err, const char *format, ...)
	__attribute__((format(printf, 4, 5)));

/*
 * A plan: what the store is asked, what is done to its answer, in this order: read, name, transform, put labels at the root or
 * make a table, then what is left for tables and series.
 */
enum plan_output {
	PLAN_PROFILE,
	PLAN_SERIES,
	PLAN_TOP,	/* of functions ... */
	PLAN_TOP_LABEL, /* of a label's values */
	PLAN_SUM,
	PLAN_COMPARE,
	PLAN_JOIN,
	PLAN_COUNT_TYPES,
	PLAN_TYPES,
	PLAN_LABELS,
	PLAN_VALUES,
};
struct query_plan {
	const struct pipeline *pipeline;
	enum plan_output output;
	/* Pushed into the store: */
	char *selector; /* as text */
	struct query_matcher where[QUERY_MATCHERS_MAX];
	size_t where_count;
	struct query_frames frames[QUERY_FRAMES_MAX];
	size_t frames_count;
	const char *by[STORE_GROUP_BY_MAX];
	size_t by_count;
	bool binned;
	int64_t step_ns;
	/* Done with the answer: */
	const struct stage *transforms[STAGES_MAX];
	size_t transform_count;
	const struct stage *diff; /* NULL = one side */
	char *base_selector;	  /* of diff, NULL = selector */
	const struct stage *last; /* the stage that made the output: top, sum, compare, join, values */
	const struct stage *series_top;
	bool rate;
	const struct stage *tail[STAGES_MAX]; /* sort, limit, count */
	size_t tail_count;
};
int query_plan_make(const struct pipeline *pipeline, struct query_plan *ret, struct error *err);
void query_plan_release(struct query_plan *plan);
int query_plan_format(const struct query_plan *plan, struct buffer *out);

#endif
