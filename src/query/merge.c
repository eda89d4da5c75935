/* SPDX-License-Identifier: Apache-2.0 */
/* The merged profile of a selection: read from the store, then named. Symbols are resolved last, and only for the locations
 * that are left, because naming costs more than reading. */
#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "base/text.h"
#include "base/time.h"
#include "profile/merge.h"
#include "query/query_int.h"
#include "query/transform.h"

#define GROUPS_DEFAULT 1000

#define NO_LABEL_SET UINT32_MAX

struct merge_build {
	struct store *store;
	struct groups groups;
	struct profile *into; /* of the part at hand */
	uint32_t *label_sets; /* of `into`, by group; NO_LABEL_SET */
	size_t label_set_count, label_set_capacity;
	struct profile *merged; /* the parts so far; NULL = none */
	bool aggregate;		/* stacks may be there several times */
	struct profile *seed;	/* what the first part is read into; NULL = something new, or it has been */
	bool seeded;
};

static void merge_build_release(struct merge_build *build)
{
	groups_release(&build->groups);
	mem_free(build->label_sets);
	profile_free(build->into);
	profile_free(build->merged);
	profile_free(build->seed);
}

static int add_label_set(struct profile *profile, const struct labels *labels, uint32_t *ret, struct error *err)
{
	struct profile_label set[STORE_GROUP_BY_MAX] = {{0}};
	size_t count = 0;
	for (size_t i = 0; i < labels->count && count < STORE_GROUP_BY_MAX; i++, count++) {
		int r = profile_add_cstring(profile, labels->items[i].name, &set[count].key, err);
		if (!r)
			r = profile_add_cstring(profile, labels->items[i].value, &set[count].value, err);
		if (r < 0)
			return r;
	}
	return profile_add_label_set(profile, set, count, ret, err);
}

/* For options->series, which are one group. */
static int merge_on_series(void *context, const struct profile_type *type, const struct labels *labels, uint32_t *ret,
			   struct error *err)
{
	const struct merge_build *build = context;
	*ret = 0;
	return query_scan_take_type(build->groups.scan, type, err);
}

static int merge_on_group(void *context, const struct profile_type *type, const struct labels *labels, uint32_t *ret,
			  struct error *err)
{
	struct merge_build *build = context;
	_cleanup_(labels_release) struct labels room = {0};
	const struct labels *all;
	uint32_t group;
	int r = query_scan_take_type(build->groups.scan, type, err);
	if (!r)
		r = groups_labels(&build->groups, type, labels, &room, &all, err);
	if (r < 0)
		return r;
	r = groups_find(&build->groups, all, &group, err);
	if (r < 0)
		return r;
	if (array_reserve(&build->label_sets, &build->label_set_capacity, (size_t)group + 1, UINT32_MAX) < 0)
		return error_nomem(err);
	while (build->label_set_count <= group)
		build->label_sets[build->label_set_count++] = NO_LABEL_SET;
	if (build->label_sets[group] == NO_LABEL_SET)
		r = add_label_set(build->into, all, &build->label_sets[group], err);
	*ret = build->label_sets[group];
	return r;
}

/* ---- parts ---- */

static int append_part(struct profile *to, const struct profile *from, struct error *err)
{
	_cleanup_(profile_copy_freep) struct profile_copy *copy = NULL;
	int r = profile_copy_new(to, from, &copy, err);
	if (r == 0 && to->sample_type_count == 0)
		r = profile_copy_sample_types(copy, err);
	for (size_t i = 0; r == 0 && i < from->sample_count; i++) {
		struct profile_sample sample = {0};
		r = profile_copy_stack(copy, from->samples[i].stack, &sample.stack, err);
		if (r == 0)
			r = profile_copy_label_set(copy, from->samples[i].labels, &sample.labels, err);
		if (r == 0)
			r = profile_copy_label_set(copy, from->samples[i].numbers, &sample.numbers, err);
		if (r == 0)
			r = profile_add_sample(to, &sample, &from->values[i * from->sample_type_count], err);
	}
	to->period = from->period > to->period ? from->period : to->period;
	return r;
}

static void widen(struct profile *profile, int64_t from_ns, int64_t to_ns)
{
	int64_t end_ns = profile->time_ns + profile->duration_ns;
	profile->time_ns = from_ns < profile->time_ns ? from_ns : profile->time_ns;
	profile->duration_ns = (to_ns > end_ns ? to_ns : end_ns) - profile->time_ns;
}

/* Puts what was read to what there is. */
static int take_part(struct merge_build *build, struct error *err)
{
	struct profile *part = TAKE(build->into), *merged = build->merged;
	int r = 0;
	if (merged && part->sample_count && (merged->sample_count || build->seeded)) {
		if (merged->sample_count)
			widen(merged, part->time_ns, part->time_ns + part->duration_ns);
		r = append_part(merged, part, err);
		build->aggregate = true;
	} else if (!merged || part->sample_count) {
		build->merged = part;
		part = merged;
	}
	profile_free(part);
	return r;
}

static int merge_part(void *context, const struct store_select *select, const struct store_grouping *grouping,
		      struct store_read_stats *stats, struct error *err)
{
	struct merge_build *build = context;
	build->into = profile_free(build->into);
	for (size_t i = 0; i < build->label_set_count; i++)
		build->label_sets[i] = NO_LABEL_SET;
	build->into = TAKE(build->seed);
	int r = build->into ? 0 : profile_new(&build->into, err);
	if (r == 0)
		r = store_merge(build->store, select, grouping, build->into, stats, err);
	return r < 0 ? r : take_part(build, err);
}

/* What the options leave out. */
static void narrow(struct query_scan *scan, const struct query_merge_options *options)
{
	struct series_conditions *series = &scan->select.series;
	if (options->only && options->by_count)
		scan->selector->labels[series->label_count++] = (struct label_condition){.label = options->by[0],
											 .op = PATTERN_EQUAL,
											 .texts = options->only,
											 .text_count = options->only_count};
	series->keys = options->series;
	series->key_count = options->series_count;
}

/* What is read when it has been; or, when reading failed, the seed, as it was but for what it knows of stacks. */
static struct profile *take_result(struct merge_build *build, bool failed)
{
	struct profile *result = build->merged ? TAKE(build->merged) : build->into ? TAKE(build->into) : TAKE(build->seed);
	if (failed && result) {
		struct profile_samples samples;
		profile_take_samples(result, &samples);
		profile_samples_release(&samples);
	}
	return result;
}

/* *ret: a profile without samples that is read into, or NULL. *ret_several: it failed because the selector matches several
 * types. */
static int merge_once(struct store *store, struct symbolizer *symbolizer, const struct query *query,
		      const struct query_merge_options *options, struct profile **ret, struct profile_type *type,
		      bool *ret_several, struct query_stats *stats, struct error *err)
{
	int64_t started = time_monotonic_ns();
	_cleanup_(query_scan_release) struct query_scan scan = {0};
	_cleanup_(merge_build_release) struct merge_build build = {.store = store};
	int r = query_scan_init(&scan, symbolizer, query, err);
	if (!r)
		r = groups_init(&build.groups, &scan, options->by, options->by_count,
				options->groups_max ? options->groups_max : GROUPS_DEFAULT, err);
	if (r < 0)
		return r;
	narrow(&scan, options);
	build.seeded = *ret != NULL;
	r = query_scan_join(&scan, store, options->by, options->by_count, err);
	if (r < 0)
		return r;
	scan.must_know_type = !query->any_type;
	int64_t parsed = time_monotonic_ns();
	stats->parse_ns += (uint64_t)(parsed - started);

	struct store_grouping grouping = {
		.by = build.groups.by, .by_count = options->by_count, .group = merge_on_group, .context = &build};
	if (options->series_count) {
		grouping.by = NULL; /* each series by itself */
		grouping.group = merge_on_series;
	}
	scan.select.with_numbers = options->numbers;
	build.seed = TAKE(*ret);
	r = query_scan_read(&scan, &grouping, merge_part, &build, err);
	if (r == 0 && build.aggregate)
		r = profile_aggregate(build.merged, err);
	r = query_scan_finish(&scan, store, r, stats, parsed, err);
	*ret_several = scan.several_types;
	if (r == 0 || build.seeded)
		*ret = take_result(&build, r < 0);
	if (r < 0)
		return r;
	if (type)
		*type = scan.type;
	stats->read.saturated |= !profile_sums_fit(*ret);
	return 0;
}

/* *ret: as for merge_once(). */
static int merge_into(struct store *store, struct symbolizer *symbolizer, const struct query *query,
		      const struct query_merge_options *options, struct profile **ret, struct profile_type *type,
		      struct query_stats *stats, struct error *err)
{
	static const struct query_merge_options none;
	char text[PROFILE_TYPE_TEXT_MAX];
	struct error why = {0};
	bool several = false;
	options = options ? options : &none;
	if (options->series_count && options->by_count)
		return error_set(err, -EINVAL, "query: given series cannot be grouped");
	int r = merge_once(store, symbolizer, query, options, ret, type, &several, stats, err);
	if (r == 0 || !several || query_only_type(store, query, text, &why) <= 0)
		return r;
	struct query narrowed = *query;
	narrowed.type = text;
	return merge_once(store, symbolizer, &narrowed, options, ret, type, &several, stats, err);
}

int query_merge_read(struct store *store, struct symbolizer *symbolizer, const struct query *query,
		     const struct query_merge_options *options, struct profile **ret, struct profile_type *type,
		     struct query_stats *stats, struct error *err)
{
	struct profile *profile = NULL;
	int r = merge_into(store, symbolizer, query, options, &profile, type, stats, err);
	if (r == 0)
		*ret = profile;
	return r;
}

int query_merge_symbolize(struct symbolizer *symbolizer, const struct query *query, struct profile *profile,
			  struct query_stats *stats, struct error *err)
{
	int64_t started = time_monotonic_ns();
	struct symbolizer_coverage coverage;
	struct symbolizer_want want = {.wait_ns = query->symbols_wait_ns, .cancel = query->cancel};
	int r = symbolizer ? symbolizer_resolve(symbolizer, profile, 1, &want, &coverage, err) : 0;
	if (r == 0 && query->hide_addresses)
		r = profile_hide_addresses(profile, err);
	if (r < 0 || !symbolizer)
		return r;
	stats->symbols.resolved += coverage.resolved;
	stats->symbols.pending += coverage.pending;
	stats->symbols.missing += coverage.missing;
	stats->symbols.ambiguous += coverage.ambiguous;
	stats->symbolize_ns += (uint64_t)(time_monotonic_ns() - started);
	return 0;
}

int query_merge(struct store *store, struct symbolizer *symbolizer, const struct query *query,
		const struct query_merge_options *options, struct profile **ret, struct query_stats *stats, struct error *err)
{
	struct query_stats unused = {0};
	_cleanup_(profile_freep) struct profile *profile = NULL;
	if (!stats)
		stats = &unused;
	int r = query_merge_read(store, symbolizer, query, options, &profile, NULL, stats, err);
	if (!r)
		r = query_merge_symbolize(symbolizer, query, profile, stats, err);
	if (r < 0)
		return r;
	*ret = TAKE(profile);
	return 0;
}

/* ---- two sides ---- */

/* Adds the samples of the side, with a base of 0. */
static int add_side(struct profile *to, const struct profile *from, struct error *err)
{
	_cleanup_(profile_copy_freep) struct profile_copy *copy = NULL;
	int r = profile_copy_new(to, from, &copy, err);
	for (size_t i = 0; !r && i < from->sample_count; i++) {
		struct profile_sample sample = {0};
		const int64_t values[2] = {0, from->values[i]};
		r = profile_copy_stack(copy, from->samples[i].stack, &sample.stack, err);
		if (!r)
			r = profile_copy_label_set(copy, from->samples[i].labels, &sample.labels, err);
		if (!r)
			r = profile_copy_label_set(copy, from->samples[i].numbers, &sample.numbers, err);
		if (!r)
			r = profile_add_sample(to, &sample, values, err);
	}
	return r;
}

/* The base's own type, if there is one, becomes "base"; that of the side follows. like: in strings of the base, what the values
 * are; NULL = not known. */
static int set_types(struct profile *base, const struct profile_value_type *like, struct error *err)
{
	uint32_t name = like ? like->type : 0, unit = like ? like->unit : 0, base_name;
	int r = name ? 0 : profile_add_cstring(base, "value", &name, err);
	if (!r)
		r = profile_add_cstring(base, "base", &base_name, err);
	if (!r && base->sample_type_count == 0)
		r = profile_add_sample_type(base, base_name, unit, err);
	if (r < 0)
		return r;
	base->sample_types[0] = (struct profile_value_type){base_name, unit};
	base->default_sample_type = name;
	return profile_append_sample_type(base, name, unit, err);
}

static int set_types_of(struct profile *base, const struct profile *side, struct error *err)
{
	const struct profile *like = side->sample_type_count ? side : base;
	struct profile_value_type type = {0};
	if (!like->sample_type_count)
		return set_types(base, NULL, err);
	int r = profile_add_cstring(base, profile_string(like, like->sample_types[0].type), &type.type, err);
	if (!r)
		r = profile_add_cstring(base, profile_string(like, like->sample_types[0].unit), &type.unit, err);
	return r < 0 ? r : set_types(base, &type, err);
}

int query_join_sides(struct profile *base, const struct profile *side, struct error *err)
{
	if ((base->sample_count && base->sample_type_count != 1) || (side->sample_count && side->sample_type_count != 1))
		return error_set(err, -EINVAL, "query: one side of the comparison has several sample types");
	int r = set_types_of(base, side, err);
	if (!r)
		r = add_side(base, side, err);
	if (!r)
		r = profile_aggregate(base, err);
	base->time_ns = side->time_ns;
	base->duration_ns = side->duration_ns;
	base->period = side->period;
	return r;
}

/* The same of a side that was read into the profile before the base was. */
static int add_samples_of_side(struct profile *base, const struct profile_samples *side, struct error *err)
{
	if ((base->sample_count && base->sample_type_count != 1) || (side->count && side->type_count != 1))
		return error_set(err, -EINVAL, "query: one side of the comparison has several sample types");
	int r = set_types(base, side->type_count ? &side->type : base->sample_type_count ? &base->sample_types[0] : NULL, err);
	for (size_t i = 0; !r && i < side->count; i++) {
		const int64_t values[2] = {0, side->values[i]};
		r = profile_add_sample(base, &side->samples[i], values, err);
	}
	return r < 0 ? r : profile_aggregate(base, err);
}

/* A base that says nothing about the type means the same as the other side. */
static bool selector_names_type(const char *text)
{
	_cleanup_(selector_freep) struct selector *selector = NULL;
	return text && selector_parse_query(text, &selector, NULL) == 0 && selector->type.count > 0;
}

/* The base's query, as the other side's conditions and type make it. text: for the type. */
static struct query query_of_base(const struct query *base, const struct query *query, const struct profile_type *type,
				  char text[static PROFILE_TYPE_TEXT_MAX])
{
	struct query both = *base;
	both.whole = true;
	both.where = query->where;
	both.where_count = query->where_count;
	both.frames = query->frames;
	both.frames_count = query->frames_count;
	both.call_site = query->call_site;
	both.call_site_count = query->call_site_count;
	if (!both.type && type->name[0] && !selector_names_type(both.selector))
		both.type = profile_type_format(type, text);
	return both;
}

/* One profile holds the stacks of both sides: what the side has, the base need not be given once more. */
int query_diff_read(struct store *store, struct symbolizer *symbolizer, const struct query *base, const struct query *query,
		    const struct query_merge_options *options, struct profile **ret, struct profile_type *type,
		    struct query_stats *stats, struct error *err)
{
	_cleanup_(profile_freep) struct profile *profile = NULL;
	_cleanup_(profile_samples_release) struct profile_samples side = {0};
	struct profile_type base_type;
	char text[PROFILE_TYPE_TEXT_MAX];
	/* With a part of one side all that is missing of it would seem to have changed. */
	struct query both = *query;
	both.whole = true;
	int r = merge_into(store, symbolizer, &both, options, &profile, type, stats, err);
	if (r < 0)
		return r;
	int64_t time_ns = profile->time_ns, duration_ns = profile->duration_ns, period = profile->period;
	profile_take_samples(profile, &side);
	both = query_of_base(base, query, type, text);
	r = merge_into(store, symbolizer, &both, options, &profile, &base_type, stats, err);
	if (r < 0)
		return error_prefix(err, r, "the base of the comparison");
	if (!type->name[0])
		*type = base_type;
	else if (base_type.name[0] && strcmp(type->sample_unit, base_type.sample_unit) != 0)
		return error_set(err, -EINVAL, "query: the base of the comparison is in %s, the other side in %s",
				 base_type.sample_unit, type->sample_unit);
	r = add_samples_of_side(profile, &side, err);
	if (r < 0)
		return r;
	profile->time_ns = time_ns;
	profile->duration_ns = duration_ns;
	profile->period = period;
	*ret = TAKE(profile);
	return 0;
}
