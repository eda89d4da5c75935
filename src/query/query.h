/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Queries: a selector, a time range, and what is wanted of it. Grammar and semantics in docs/query.md. The functions here are
 * the building blocks; the language that puts them together, "selector | stage | stage", is query/pipeline.h.
 *
 * All of them may be called from any thread. What they return is owned by the caller.
 */
#ifndef WICK_QUERY_QUERY_H
#define WICK_QUERY_QUERY_H

#include "base/cancel.h"
#include "profile/labels.h"
#include "profile/pattern.h"
#include "profile/profile.h"
#include "profile/type.h"
#include "profile/type_labels.h"
#include "store/store.h"
#include "symbol/symbol.h"

/*
 * type{label="v", a!="b", c=~"re", d!~"re"}. The type is a full profile type, a prefix of its parts ("process_cpu",
 * "process_cpu:cpu"), or empty (any). "app.cpu{...}" (FlameQL) is service_name="app" and the type that the suffix stands for.
 * Regular expressions are anchored (PCRE2, with match limits); an absent label is "".
 */
struct selector;
/* -EINVAL: "selector: expected ... at column N near '...'"; and for __span_id__, __trace_id__ and __number__: only queries have
 * them (struct query), and selector_matches() cannot know. */
int selector_parse(const char *text, struct selector **ret, struct error *err);
struct selector *selector_free(struct selector *selector);
DEFINE_CLEANUP_POINTER(selector_free, struct selector);
bool selector_matches(const struct selector *selector, const struct profile_type *type,
		      const struct labels *labels); /* thread-safe */
/* How many conditions on __profile_type__ it has. *ret is what one of them must equal, and lives as long as the selector; NULL:
 * there is none that is an equality. */
size_t selector_profile_types(const struct selector *selector, const char **ret);
/* As text again, in the one form that equal selectors have; parsing it gives an equal selector. */
int selector_format(const struct selector *selector, struct buffer *out);
/* The same as stores take it; it lives as long as the selector. */
const struct series_conditions *selector_series(const struct selector *selector);

/* -EINVAL if the selector mentions a label of hosts (store/hosts.h), which only queries join: who selects series for good must
 * not take those that lack the label for those of hosts that do. */
int selector_refuse_hosts(const struct selector *selector, struct store *store, struct error *err);

/*
 * Which stacks are read. A frame passes if all tests hold for it (profile/frame_match.h); a stack is kept if a frame at the
 * position passes (with `drop`: if none does). Tests with != or !~ stand alone and mean "no frame at the position is": they
 * turn drop around.
 */
#define QUERY_FRAMES_MAX 16
struct query_frames {
	enum store_where where;
	bool drop;
	struct frame_test tests[FRAME_TESTS_MAX]; /* with any operator */
	size_t test_count;
};

#define QUERY_MATCHERS_MAX 64
struct query_matcher {
	const char *label;
	enum pattern_operator op;
	const char *value;
};

#define QUERY_WHOLE_TREE_BYTES 200
struct query {
	const char *selector;		   /* NULL or "" = everything */
	const char *type;		   /* a type beside the selector, as Pyroscope's calls have it; NULL = none */
	const struct query_matcher *where; /* more conditions on labels */
	size_t where_count;
	const struct query_frames *frames; /* conditions on stacks; all must hold */
	size_t frames_count;		   /* at most QUERY_FRAMES_MAX */
	const char *const *call_site;	   /* and stacks must begin with these functions, the outermost first */
	size_t call_site_count;		   /* at most FRAME_PATH_MAX; 0 = none */
	int64_t from_ns, to_ns;
	const atomic_bool *cancel; /* NULL = never */
	int64_t deadline_ns;  /* monotonic; when it has passed, the answer is of what was read: stats.read.partial; 0 = none */
	uint64_t rows_max;    /* likewise; 0 = none */
	size_t stacks_max;    /* likewise; distinct stacks of a merged profile; 0 = the store's default */
	bool whole;	      /* a limit of memory is an error, and no reason for a partial result */
	unsigned stack_bytes; /* see struct store_select; QUERY_WHOLE_TREE_BYTES for trees without a limit on nodes */
	bool samples_only;    /* never answer from rollups (checks) */
	bool any_type;	      /* a type that the store never had has no data, as in other servers' APIs; else it is an error */
	bool own_labels;      /* of lists of names: those of series alone, without those of their hosts, which make no series */
	bool hide_addresses;  /* profile_hide_addresses(), and conditions on frames do not find them */
	bool sum_gauges;      /* add values of gauges up over time, as other servers' APIs do, instead of averaging them */
	int64_t symbols_wait_ns; /* for names that are being looked up; 0 = not at all, -1 = as long as it takes */
};
struct query_stats {
	struct store_read_stats read;
	uint64_t parse_ns, read_ns, symbolize_ns, transform_ns;
	struct symbolizer_coverage symbols; /* of the locations of the answer */
};

/* How a merged profile is grouped: each sample has the group's labels. */
struct query_merge_options {
	const char *const *by; /* label names, at most STORE_GROUP_BY_MAX */
	size_t by_count;
	size_t groups_max;	 /* 0 = 1,000; more is -EINVAL */
	const char *const *only; /* groups whose first label has one of these values, the others are left out; NULL = all */
	size_t only_count;
	const uint64_t *series; /* only these, by series_key(); not with groups */
	size_t series_count;	/* 0 = all */
	bool numbers;		/* samples with different numbers (profile_sample.numbers) are kept apart, and have them */
	size_t samples_max;	/* of query_merge_timed() only; 0 = QUERY_TIMED_SAMPLES_MAX */
};
/*
 * Labels that no series has and that stand for its profile type, in conditions, groups and lists of names: __profile_type__,
 * __name__, __type__, __unit__, __period_type__, __period_unit__. NULL past the last.
 */
const char *query_type_label_name(size_t index);
/* What such a label says of a type; NULL if the name is none of them. */
const char *query_type_label_value(const char *name, const struct profile_type *type, char out[static PROFILE_TYPE_TEXT_MAX]);

/* What Pyroscope's clients also call service_name; selectors take it. */
#define QUERY_SERVICE_NAME_ALIAS "__service_name__"

/* A range of six hours or more is widened to whole buckets of five minutes, so that it is answered from rollups and totals
 * alone: the rows of all series in a few minutes of a day lie on nearly all pages of that day's samples. Shorter ranges stay.
 */
#define QUERY_ROUND_FROM_NS (6ll * 3600 * 1000000000)
void query_round_range(int64_t *from_ns, int64_t *to_ns);

/* The merged, symbolized profile of everything selected (symbolizer and options may be NULL). The selection must be of one
 * profile type: if the selector leaves several, -EINVAL lists them. No data is success with sample_count 0. */
int query_merge(struct store *store, struct symbolizer *symbolizer, const struct query *query,
		const struct query_merge_options *options, struct profile **ret, struct query_stats *stats, struct error *err);

/* The same with the times of samples, to the millisecond: one sample for each stack, group and time. Never from rollups. More
 * than QUERY_TIMES_MAX times are -EINVAL, more samples than options->samples_max, and ranges of more than 49 days. stats must
 * be there. */
#define QUERY_TIMES_MAX		5000
#define QUERY_TIMED_SAMPLES_MAX 1000000u /* some 100 MiB */
int query_merge_timed(struct store *store, struct symbolizer *symbolizer, const struct query *query,
		      const struct query_merge_options *options, struct profile **ret, struct query_stats *stats,
		      struct error *err);
/* Makes two merged profiles one with two sample types, "base" and that of `side`, for comparisons: `base` becomes it. After a
 * failure it is only good for profile_free(). */
int query_join_sides(struct profile *base, const struct profile *side, struct error *err);

/* Sums per step, of gauges averages (docs/query.md), grouped by label names (none = one series). The total of a row is its
 * value over the whole range: of gauges not the sum of its points. */
struct query_point {
	int64_t time_ns; /* start of the step, a multiple of step since 1970 */
	int64_t value;
};
struct query_series_row {
	struct labels labels;	    /* the group's */
	bool others;		    /* the sum of the groups beyond the limit, without labels; the last row */
	struct query_point *points; /* by rising time; steps without data are absent */
	size_t point_count;
	int64_t total;
};
struct query_series {
	struct query_series_row *rows; /* by falling total */
	size_t count, count_before_limit;
	int64_t step_ns, from_ns, to_ns; /* the range, widened to whole steps */
	bool rate;			 /* values are to be shown per second: query_series_value() */
	struct profile_type type;
	int64_t period;		      /* what one event stands for; the largest where series differ, 0 where it is not known */
	char *by[STORE_GROUP_BY_MAX]; /* the labels that were grouped by, whether a row has them or not */
	size_t by_count;
};
struct query_series_options {
	int64_t step_ns; /* 0 = chosen so that there are at most 200 points */
	bool whole;	 /* one step: the range as it is */
	bool unaligned;	 /* steps begin where the range does, which is as long as a whole number of them */
	const char *const *by;
	size_t by_count;
	bool each;    /* instead of `by`: each series by itself */
	size_t limit; /* 0 = 100 rows; the rest is only counted: */
	bool others;  /* or summed as one more row */
	bool rate;    /* not of gauges: they are amounts, and no amounts per time */
};
/* More than 11,000 points a row or 100,000 groups is -EINVAL. The symbolizer is asked only by conditions on stacks. */
int query_series(struct store *store, struct symbolizer *symbolizer, const struct query *query,
		 const struct query_series_options *options, struct query_series *ret, struct query_stats *stats,
		 struct error *err);
/* A value as it is to be shown: itself, or per second; nanoseconds per second are cores. */
#define QUERY_UNIT_MAX 48
double query_series_value(const struct query_series *series, int64_t value);
const char *query_series_unit(const struct query_series *series, char out[static QUERY_UNIT_MAX]);
void query_series_release(struct query_series *series);

/* Names with how many series have them, sorted. With a limit those of most series are kept. */
struct query_names {
	struct query_name {
		char *name;
		uint64_t series, samples;  /* that have it, or whose host has it */
		uint64_t values;	   /* of label names: distinct ones in the source that has most */
		uint64_t hosts;		   /* with this label in the table of hosts (store/hosts.h) */
		int64_t first_ns, last_ns; /* of its samples, as exactly as the indexes know */
	} * items;
	size_t count, count_before_limit;
};
void query_names_release(struct query_names *names);
/* query->frames is not looked at. stats may be NULL. */
int query_types(struct store *store, const struct query *query, struct query_names *ret, struct query_stats *stats,
		struct error *err);
int query_label_names(struct store *store, const struct query *query, struct query_names *ret, struct query_stats *stats,
		      struct error *err);
int query_label_values(struct store *store, const struct query *query, const char *label, const char *prefix, size_t limit,
		       struct query_names *ret, struct query_stats *stats, struct error *err);
/*
 * What each series had at each time: as close to the profiles that came in as what is stored allows (those of one series in one
 * millisecond are one; where only rollups are left, those of five minutes). For averages and distributions, which sums do not
 * tell. More than QUERY_POINTS_MAX is -EINVAL.
 */
#define QUERY_POINTS_MAX (1024 * 1024)
struct query_points {
	struct labels *groups; /* sorted */
	size_t group_count;
	struct labels *series; /* each by all its labels */
	size_t series_count;
	struct query_group_point {
		uint32_t group, series;
		uint32_t link;	 /* of query_span_points() */
		int64_t time_ns; /* a whole millisecond */
		int64_t value;
	} * points; /* by group, then time */
	size_t count;
	struct profile *links; /* of query_span_points(): a pool of links, else NULL */
	struct profile_type type;
};
int query_points(struct store *store, struct symbolizer *symbolizer, const struct query *query, const char *const *by,
		 size_t by_count, struct query_points *ret, struct query_stats *stats, struct error *err);
/* The same of spans: what each span of a group had at each time; samples without a span do not count. `series` of a point is
 * one of those that the span has samples of, with the labels that are common to all of them. */
int query_span_points(struct store *store, struct symbolizer *symbolizer, const struct query *query, const char *const *by,
		      size_t by_count, struct query_points *ret, struct query_stats *stats, struct error *err);
void query_points_release(struct query_points *points);
/* The distinct combinations of values of the labels `by` among the series selected (Pyroscope's Series call); by NULL = all
 * labels, and those of the type. More than 100,000 is -EINVAL; those beyond the limit (0 = none) are only counted. */
struct query_label_sets {
	struct labels *items; /* sorted */
	size_t count, count_before_limit;
};
void query_label_sets_release(struct query_label_sets *sets);
int query_label_sets(struct store *store, const struct query *query, const char *const *by, size_t by_count, size_t limit,
		     struct query_label_sets *ret, struct query_stats *stats, struct error *err);

#endif
