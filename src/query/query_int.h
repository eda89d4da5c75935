/* SPDX-License-Identifier: Apache-2.0 */
/* Shared inside src/query. */
#ifndef WICK_QUERY_QUERY_INT_H
#define WICK_QUERY_QUERY_INT_H

#include "base/map.h"
#include "profile/pattern.h"
#include "query/frames.h"
#include "query/lex.h"
#include "query/query.h"
#include "store/hosts.h"

#define QUERY_TYPES_MAX 64

/* ---- selector.c ---- */

/* Nothing was selected: no type, and nothing that has to be said of it. */
static inline bool query_type_is_gauge(const struct profile_type *type)
{
	return type->name[0] && profile_type_is_gauge(type);
}

/* ---- links.c ---- */

/* The ids of a condition on __span_id__ or __trace_id__. */
struct link_ids {
	enum store_link_part part;
	bool negate;
	struct store_id *ids; /* sorted */
	size_t count;
};
bool link_label_is(const char *name);
/* name is one of these labels. -EINVAL: text is not what one can ask for. */
int link_ids_parse(const char *name, enum pattern_operator op, const char *text, struct link_ids *ret, struct error *err);
void link_ids_release(struct link_ids *ids);

/* ---- numbers.c ---- */

#define NUMBER_LABEL "__number__"
bool number_label_is(const char *name);
/* A condition on the numbers of samples, made of the value of __number__, into which it points. -EINVAL. */
int number_condition_parse(enum pattern_operator op, const char *text, struct number_condition *ret, struct error *err);

/* ---- selector.c, on ---- */

#define TYPE_PARTS_MAX 6
struct type_pattern {
	char *parts[TYPE_PARTS_MAX];
	size_t count;
};
struct label_matcher {
	char *name;
	enum type_label type_label; /* not TYPE_LABEL_NONE: a condition on the type */
	bool is_link;		    /* a condition on spans or traces */
	struct link_ids links;
	bool is_number; /* a condition on numbers of samples */
	struct number_condition number;
	enum pattern_operator op;
	char *value;
};
struct selector {
	struct type_pattern type, type_beside; /* both must match */
	struct label_matcher matchers[QUERY_MATCHERS_MAX];
	size_t matcher_count;
	/* selector_prepare(): the conditions on series as stores take them */
	struct type_condition types[2];
	struct label_condition labels[QUERY_MATCHERS_MAX + 1]; /* room for one more */
	struct series_conditions series;
	struct series_matcher *compiled; /* of selector_parse() */
};
/* A condition on samples, not on their series. */
static inline bool matcher_is_of_samples(const struct label_matcher *matcher)
{
	return matcher->is_link || matcher->is_number;
}
/* Like selector_parse(), with conditions on samples, which only queries can have. */
int selector_parse_query(const char *text, struct selector **ret, struct error *err);
/* The name of its first such condition; NULL if it has none. */
const char *selector_sample_label(const struct selector *selector);
/* The name is that of such a condition. */
static inline bool sample_label_is(const char *name)
{
	return link_label_is(name) || number_label_is(name);
}
/* A selector at the beginning of a text; the lexer is behind it afterwards. */
int selector_parse_part(struct lexer *lexer, struct selector **ret);
/* One label="value", added to the selector. */
int selector_parse_matcher(struct lexer *lexer, struct selector *selector);
int selector_add_matcher(struct selector *selector, const struct query_matcher *matcher, struct error *err);
int selector_set_type(struct selector *selector, const char *text, struct error *err);
/* To be called when it is complete. */
void selector_prepare(struct selector *selector);
/* True if absolute and delta values of one name are to be taken together ("a:b:c:d:e:*"). */
bool selector_takes_any_delta(const struct selector *selector);
int selector_format_matcher(const struct selector *selector, size_t index, struct buffer *out);

/* ---- scan.c ---- */

/* A parsed query on its way through the store, and which profile types it let through. */
struct query_scan {
	struct selector *selector;
	struct store_link_condition links[QUERY_MATCHERS_MAX];
	size_t link_count;
	struct number_condition numbers[QUERY_MATCHERS_MAX];
	size_t number_count;
	struct frame_names *names;
	struct store_stack_condition conditions[QUERY_FRAMES_MAX];
	struct frame_test tests[QUERY_FRAMES_MAX][FRAME_TESTS_MAX]; /* of the conditions */
	struct profile_type type;				    /* of the first series */
	bool has_type;
	bool several_types;
	bool must_know_type; /* a type that the selector names and the store has never seen is an error */
	struct store_select select;
	struct store_read_stats read;
	struct host_join *join; /* hosts.c; NULL = no label of hosts is asked for */
	struct series_conditions without_hosts;
	/* Labels of hosts change so much later than they did: what is read has times that say an end, and belongs to the time
	 * before. */
	int64_t change_delay_ns;
};
int query_scan_init(struct query_scan *scan, struct symbolizer *symbolizer, const struct query *query, struct error *err);
void query_scan_release(struct query_scan *scan);
/* For group callbacks: 0 for the first type that is met, -EINVAL for another. */
int query_scan_take_type(struct query_scan *scan, const struct profile_type *type, struct error *err);
/* After nothing was found: -EINVAL, and the types that there are, if the selector names a type that the store never had. */
int query_check_type(struct store *store, const struct query *query, struct error *err);
/*
 * hosts.c. Finds the labels of hosts among those that the selection mentions and `by`. From then on the selection is of the
 * hosts that fit at any time of the range, as lists are made of it; query_scan_read() reads what fits, part by part. To be
 * called when the selection is complete.
 */
int query_scan_join(struct query_scan *scan, struct store *store, const char *const *by, size_t by_count, struct error *err);
/* Calls `read` for each part; mostly there is one. The grouping has all labels of groups, also those of hosts, unless it is by
 * all labels: then it asks for those. */
typedef int (*scan_read)(void *context, const struct store_select *select, const struct store_grouping *grouping,
			 struct store_read_stats *stats, struct error *err);
int query_scan_read(struct query_scan *scan, const struct store_grouping *grouping, scan_read read, void *context,
		    struct error *err);
/* The value of a label of `by` that the series' host has in the part that is read; NULL if it has none. */
const char *host_join_value(const struct query_scan *scan, const struct labels *labels, const char *name);
struct host_join *host_join_free(struct host_join *join);
/* Turns the outcome `r` of reading into what the user should see: several types are listed. Adds scan->read to stats (NULL
 * allowed), and the time since since_ns (0 = none). */
int query_scan_finish(struct query_scan *scan, struct store *store, int r, struct query_stats *stats, int64_t since_ns,
		      struct error *err);

/*
 * Of the types that a query selects by the indexes, the one that has data in its range: indexes know first and last samples, so
 * a type that was there before and after it is among them. 1 = *ret is it; 0 = there are several, or none.
 */
int query_only_type(struct store *store, const struct query *query, char ret[static PROFILE_TYPE_TEXT_MAX], struct error *err);

/* ---- merge.c ---- */

/* Read, not yet named. type (NULL allowed) gets the profile type; name[0] == 0 if nothing was found. */
int query_merge_read(struct store *store, struct symbolizer *symbolizer, const struct query *query,
		     const struct query_merge_options *options, struct profile **ret, struct profile_type *type,
		     struct query_stats *stats, struct error *err);
/* Two sides as one profile with two sample types, "base" and what `query` has, in the same unit (sample type 0 and 1, the
 * second the default); src/render/diff.h compares them. The base's range, selector and type are its own; where and frames
 * of `query` hold for both. stats are those of both reads together. */
int query_diff_read(struct store *store, struct symbolizer *symbolizer, const struct query *base, const struct query *query,
		    const struct query_merge_options *options, struct profile **ret, struct profile_type *type,
		    struct query_stats *stats, struct error *err);
/* Gives the profile names; symbolizer NULL: it stays as it is. */
int query_merge_symbolize(struct symbolizer *symbolizer, const struct query *query, struct profile *profile,
			  struct query_stats *stats, struct error *err);

/* ---- series.c ---- */

/* Keeps `limit` rows; the others are dropped, or summed as one more row. */
int query_series_limit(struct query_series *series, size_t limit, bool others, struct error *err);

/* ---- names.c ---- */

/* A list of names as it is put together. */
struct names_build {
	struct intern texts;
	struct query_name *items; /* by text id; names are not set */
	size_t count, capacity;
};
/* *ret is where the numbers of a name are kept, until the next call. */
int query_names_find(struct names_build *build, const char *name, struct query_name **ret, struct error *err);
void names_build_release(struct names_build *build);

/* ---- host_names.c ---- */

/* Adds labels of hosts, or with `label` values of one that begin with `prefix`, as far as hosts are selected. */
int names_add_hosts(struct store *store, const struct store_select *select, const char *label, const char *prefix,
		    struct names_build *build, struct store_read_stats *stats, struct error *err);

/* ---- groups.c ---- */

/* Numbers the combinations of label values that the store meets. */
struct groups {
	struct query_scan *scan; /* NULL = several types may meet */
	bool type_labels;	 /* all labels were asked for, and so those of the type */
	bool by_type;		 /* some of `by` are labels of the type */
	const char *const *by;
	size_t by_count, max;
	struct labels *items;
	size_t count, capacity;
	struct index32 index;
};
/* -EINVAL for names that no label can have, and for more than STORE_GROUP_BY_MAX. */
int groups_init(struct groups *groups, struct query_scan *scan, const char *const *by, size_t by_count, size_t max,
		struct error *err);
void groups_release(struct groups *groups);
/* The number of these labels, given if they are new. -EINVAL when there are more than max. */
int groups_find(struct groups *groups, const struct labels *labels, uint32_t *ret, struct error *err);
/* The labels of a group: those that the store gives, and those of the type that are asked for. *ret is `labels` or `room`,
 * which is the caller's to release. */
int groups_labels(const struct groups *groups, const struct profile_type *type, const struct labels *labels,
		  struct labels *room, const struct labels **ret, struct error *err);
/* The callback of a grouping whose context is the groups. */
int groups_on_group(void *context, const struct profile_type *type, const struct labels *labels, uint32_t *ret,
		    struct error *err);

#endif
