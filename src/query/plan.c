/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From syntax tree to plan.
 *
 * The stages are read from the left, and what flows between them has a kind: a selection (not read yet), a flame graph, a
 * difference, values over time, a table, a comparison. Each stage accepts some kinds and makes one; everything else is refused
 * with the reason. Nothing is read before the end, so that what can be done by the store is given to it, wherever it stands:
 *
 *   where      always: labels do not change by what is done to stacks
 *   frames     as long as no stage before has changed stacks; behind one it is a transformation like the others
 *   group by   always
 *   bin, sum, top by label, compare
 *              are sums that the store makes without stacks, from rollups and totals where it can
 *
 * Names of frames that have no lines are not known to the store: its conditions ask the symbolizer.
 */
#include "query/pipeline_int.h"

#include <string.h>

#include "base/alloc.h"
#include "base/limits.h"

enum flow { FLOW_SELECTION, FLOW_PROFILE, FLOW_DIFF, FLOW_SERIES, FLOW_TABLE, FLOW_COMPARISON };

struct planner {
	const struct pipeline *pipeline;
	struct query_plan *plan;
	enum flow flow;
	const char *made_by; /* the stage that made the present kind */
	bool has_group, limited;
	struct error *err;
};

static const char *const flow_names[] = {
	[FLOW_SELECTION] = "a selection",   [FLOW_PROFILE] = "a flame graph", [FLOW_DIFF] = "a difference",
	[FLOW_SERIES] = "values over time", [FLOW_TABLE] = "a table",	      [FLOW_COMPARISON] = "a comparison",
};

/* accepted is a set of 1 << flow. */
static int accept(struct planner *planner, const struct stage *stage, unsigned accepted, const char *hint)
{
	if (accepted & (1u << planner->flow))
		return 0;
	if (planner->flow == FLOW_SELECTION)
		return stage_refuse(planner->pipeline, stage, planner->err, "'%s' cannot work on a selection%s%s",
				    stage_name(stage->kind), hint ? ": " : "", hint ? hint : "");
	return stage_refuse(planner->pipeline, stage, planner->err, "'%s' cannot follow '%s', which makes %s%s%s",
			    stage_name(stage->kind), planner->made_by, flow_names[planner->flow], hint ? ": " : "",
			    hint ? hint : "");
}

static void become(struct planner *planner, const struct stage *stage, enum flow flow)
{
	planner->flow = flow;
	planner->made_by = stage_name(stage->kind);
}

#define SELECTION (1u << FLOW_SELECTION)
#define PROFILE	  (1u << FLOW_PROFILE)
#define DIFF	  (1u << FLOW_DIFF)
#define SERIES	  (1u << FLOW_SERIES)
#define TABLE	  (1u << FLOW_TABLE)
#define READ	  (SELECTION | PROFILE | DIFF | SERIES)

static int refuse_limited(struct planner *planner, const struct stage *stage)
{
	return stage_refuse(planner->pipeline, stage, planner->err, "'%s' must come before 'top' and 'limit'",
			    stage_name(stage->kind));
}

static int plan_where(struct planner *planner, const struct stage *stage)
{
	struct query_plan *plan = planner->plan;
	for (size_t i = 0; i < stage->selector->matcher_count; i++) {
		const struct label_matcher *matcher = &stage->selector->matchers[i];
		if (plan->where_count + planner->pipeline->selector->matcher_count >= QUERY_MATCHERS_MAX)
			return stage_refuse(planner->pipeline, stage, planner->err, "more than %d matchers",
					    QUERY_MATCHERS_MAX);
		plan->where[plan->where_count++] =
			(struct query_matcher){.label = matcher->name, .op = matcher->op, .value = matcher->value};
	}
	return 0;
}

static int plan_frames(struct planner *planner, const struct stage *stage)
{
	struct query_plan *plan = planner->plan;
	if (plan->transform_count) {
		plan->transforms[plan->transform_count++] = stage;
		return 0;
	}
	if (plan->frames_count == QUERY_FRAMES_MAX)
		return stage_refuse(planner->pipeline, stage, planner->err, "more than %d conditions on frames",
				    QUERY_FRAMES_MAX);
	plan->frames[plan->frames_count++] = stage->frames;
	return 0;
}

static int plan_transform(struct planner *planner, const struct stage *stage)
{
	planner->plan->transforms[planner->plan->transform_count++] = stage;
	if (planner->flow == FLOW_SELECTION)
		become(planner, stage, FLOW_PROFILE);
	return 0;
}

static int plan_group(struct planner *planner, const struct stage *stage)
{
	struct query_plan *plan = planner->plan;
	if (planner->has_group)
		return stage_refuse(planner->pipeline, stage, planner->err, "a second 'group by'");
	planner->has_group = true;
	for (size_t i = 0; i < stage->name_count; i++)
		plan->by[plan->by_count++] = stage->names[i];
	return 0;
}

static int plan_bin(struct planner *planner, const struct stage *stage)
{
	planner->plan->binned = true;
	planner->plan->step_ns = stage->duration_ns;
	planner->plan->output = PLAN_SERIES;
	return 0;
}

static int plan_rate(struct planner *planner, const struct stage *stage)
{
	if (planner->plan->rate)
		return stage_refuse(planner->pipeline, stage, planner->err, "a second 'rate'");
	planner->plan->rate = true;
	return 0;
}

static int plan_top(struct planner *planner, const struct stage *stage)
{
	struct query_plan *plan = planner->plan;
	bool series = planner->flow == FLOW_SERIES;
	if (series && (stage->by_given || stage->total_given))
		return stage_refuse(planner->pipeline, stage, planner->err,
				    "after 'bin', write 'top N' or 'top N others': the groups with the largest sums");
	if (!series && stage->others && stage->by != TOP_BY_LABEL)
		return stage_refuse(planner->pipeline, stage, planner->err,
				    "'others' is for values over time ('bin' before) and for 'by label'");
	if (series) {
		if (plan->series_top)
			return refuse_limited(planner, stage);
		plan->series_top = stage;
		planner->limited = true;
		return 0;
	}
	plan->last = stage;
	plan->output = stage->by == TOP_BY_LABEL ? PLAN_TOP_LABEL : PLAN_TOP;
	if (stage->by == TOP_BY_LABEL && stage->total_given)
		return stage_refuse(planner->pipeline, stage, planner->err, "values of a label have no self and total");
	if (stage->by == TOP_BY_LABEL && planner->flow != FLOW_SELECTION)
		return stage_refuse(planner->pipeline, stage, planner->err,
				    "'by label' aggregates a selection; '%s' before it changes %s", planner->made_by,
				    flow_names[planner->flow]);
	if (plan->diff && plan->by_count)
		return stage_refuse(planner->pipeline, stage, planner->err, "the table of a difference cannot be grouped");
	become(planner, stage, FLOW_TABLE);
	return 0;
}

static int plan_sum(struct planner *planner, const struct stage *stage)
{
	if (planner->plan->diff && planner->plan->by_count)
		return stage_refuse(planner->pipeline, stage, planner->err, "the sums of a difference cannot be grouped");
	planner->plan->output = PLAN_SUM;
	return 0;
}

/* Lists are answered from indexes: 0, or the refusal of what those know nothing of. */
static int check_listed(struct planner *planner, const struct stage *stage)
{
	const struct query_plan *plan = planner->plan;
	const char *label = selector_sample_label(planner->pipeline->selector);
	for (size_t i = 0; i < plan->where_count && !label; i++)
		label = sample_label_is(plan->where[i].label) ? plan->where[i].label : NULL;
	if (!plan->frames_count && !plan->by_count && !label)
		return 0;
	return stage_refuse(planner->pipeline, stage, planner->err, "'%s' %s the indexes, which have no %s",
			    stage_name(stage->kind), stage->kind == STAGE_COUNT ? "of a selection reads" : "reads",
			    !label		   ? "frames and groups"
			    : link_label_is(label) ? "spans"
						   : "numbers of samples");
}

static int plan_count(struct planner *planner, const struct stage *stage)
{
	struct query_plan *plan = planner->plan;
	if (planner->flow != FLOW_SELECTION) {
		plan->tail[plan->tail_count++] = stage;
		return 0;
	}
	plan->output = PLAN_COUNT_TYPES;
	return check_listed(planner, stage);
}

static int copy_selector(const struct selector *selector, char **ret, struct error *err)
{
	_cleanup_(buffer_release) struct buffer text = {.max = 4 * LIMIT_SELECTOR_BYTES};
	selector_format(selector, &text);
	const char *string = buffer_string(&text);
	*ret = string ? mem_strdup(string) : NULL;
	return *ret ? 0 : error_nomem(err);
}

static int plan_diff(struct planner *planner, const struct stage *stage)
{
	planner->plan->diff = stage;
	return stage->selector ? copy_selector(stage->selector, &planner->plan->base_selector, planner->err) : 0;
}

static int plan_compare(struct planner *planner, const struct stage *stage)
{
	struct query_plan *plan = planner->plan;
	if (plan->by_count)
		return stage_refuse(planner->pipeline, stage, planner->err, "'compare' cannot follow 'group by'");
	plan->last = stage;
	plan->output = PLAN_COMPARE;
	return 0;
}

static int plan_join(struct planner *planner, const struct stage *stage)
{
	struct query_plan *plan = planner->plan;
	if (planner->has_group)
		return stage_refuse(planner->pipeline, stage, planner->err,
				    "'join' groups by its own labels; remove 'group by'");
	for (size_t i = 0; i < stage->name_count; i++)
		plan->by[plan->by_count++] = stage->names[i];
	plan->last = stage;
	plan->output = PLAN_JOIN;
	return 0;
}

static int plan_tail(struct planner *planner, const struct stage *stage)
{
	planner->plan->tail[planner->plan->tail_count++] = stage;
	planner->limited |= stage->kind == STAGE_LIMIT;
	return 0;
}

static int plan_catalogue(struct planner *planner, const struct stage *stage)
{
	struct query_plan *plan = planner->plan;
	plan->last = stage;
	plan->output = stage->kind == STAGE_TYPES ? PLAN_TYPES : stage->kind == STAGE_LABELS ? PLAN_LABELS : PLAN_VALUES;
	return check_listed(planner, stage);
}

/* What a stage is for: the kinds that it works on, why no others, whether it stands before what limits, and what it makes. */
#define SAME (-1)
static const struct rule {
	unsigned accepted;
	const char *hint;
	bool unlimited;
	int makes; /* enum flow, or SAME */
	int (*plan)(struct planner *planner, const struct stage *stage);
} rules[] = {
	[STAGE_WHERE] = {READ, "no labels are left", true, SAME, plan_where},
	[STAGE_FRAMES] = {READ, "no stacks are left", true, SAME, plan_frames},
	[STAGE_FOCUS... STAGE_COLLAPSE] = {SELECTION | PROFILE | DIFF,
					   "it transforms flame graphs; to select stacks, put 'frames' before", false, SAME,
					   plan_transform},
	[STAGE_GROUP] = {READ, "no labels are left", true, SAME, plan_group},
	[STAGE_BIN] = {SELECTION, "it aggregates the selection; put it before", false, FLOW_SERIES, plan_bin},
	[STAGE_RATE] = {READ, "put it before", false, SAME, plan_rate},
	[STAGE_TOP] = {READ, "use 'sort by' and 'limit'", false, SAME, plan_top},
	[STAGE_SUM] = {READ, NULL, true, FLOW_TABLE, plan_sum},
	[STAGE_COUNT] = {SELECTION | SERIES | TABLE, NULL, false, FLOW_TABLE, plan_count},
	[STAGE_DIFF] = {SELECTION | PROFILE, "it compares flame graphs", false, FLOW_DIFF, plan_diff},
	[STAGE_COMPARE] = {SELECTION | PROFILE, "it compares flame graphs", false, FLOW_COMPARISON, plan_compare},
	[STAGE_JOIN] = {SELECTION | SERIES, "put it after 'bin' or the selection", true, FLOW_TABLE, plan_join},
	[STAGE_SORT] = {TABLE, "it works on tables; put 'top' or 'sum' before", false, SAME, plan_tail},
	[STAGE_LIMIT] = {TABLE | SERIES, "it works on tables; put 'top' or 'sum' before", false, SAME, plan_tail},
	[STAGE_TYPES...
		STAGE_VALUES] = {SELECTION, "it lists stored data and must come first", false, FLOW_TABLE, plan_catalogue},
};

static int plan_stage(struct planner *planner, const struct stage *stage)
{
	const struct rule *rule = &rules[stage->kind];
	int r = accept(planner, stage, rule->accepted, rule->hint);
	if (!r && rule->unlimited && planner->limited)
		r = refuse_limited(planner, stage);
	if (!r)
		r = rule->plan(planner, stage);
	if (!r && rule->makes != SAME)
		become(planner, stage, (enum flow)rule->makes);
	return r;
}

static int check_rate(const struct planner *planner)
{
	const struct query_plan *plan = planner->plan;
	if (!plan->rate)
		return 0;
	switch (plan->output) {
	case PLAN_SERIES:
	case PLAN_TOP:
	case PLAN_TOP_LABEL:
	case PLAN_SUM:
	case PLAN_JOIN: return 0;
	default: break;
	}
	for (size_t i = 0;; i++)
		if (planner->pipeline->stages[i].kind == STAGE_RATE)
			return stage_refuse(planner->pipeline, &planner->pipeline->stages[i], planner->err,
					    "'rate' needs values over time or a table: add 'bin', 'top' or 'sum' after it");
}

int query_plan_make(const struct pipeline *pipeline, struct query_plan *ret, struct error *err)
{
	struct planner planner = {.pipeline = pipeline, .plan = ret, .err = err};
	memset(ret, 0, sizeof(*ret));
	ret->pipeline = pipeline;
	int r = copy_selector(pipeline->selector, &ret->selector, err);
	for (size_t i = 0; !r && i < pipeline->stage_count; i++)
		r = plan_stage(&planner, &pipeline->stages[i]);
	return r < 0 ? r : check_rate(&planner);
}

void query_plan_release(struct query_plan *plan)
{
	mem_free(plan->selector);
	mem_free(plan->base_selector);
	memset(plan, 0, sizeof(*plan));
}

/* ---- as text ---- */

static int format_read(const struct query_plan *plan, struct buffer *out)
{
	static const char *const outputs[] = {
		[PLAN_PROFILE] = "stacks",
		[PLAN_SERIES] = "sums per step",
		[PLAN_TOP] = "stacks",
		[PLAN_TOP_LABEL] = "sums per group, without stacks",
		[PLAN_SUM] = "sums per group",
		[PLAN_COMPARE] = "sums per label value, then stacks of the largest",
		[PLAN_JOIN] = "sums per group and step, and process_stats",
		[PLAN_COUNT_TYPES] = "indexes only",
		[PLAN_TYPES] = "indexes only",
		[PLAN_LABELS] = "indexes only",
		[PLAN_VALUES] = "indexes only",
	};
	buffer_printf(out, "read: %s of %s\n", outputs[plan->output], plan->selector);
	for (size_t i = 0; i < plan->where_count; i++) {
		buffer_printf(out, "  in the store: %s%s", plan->where[i].label, operator_text(plan->where[i].op));
		format_string(out, plan->where[i].value);
		buffer_append_byte(out, '\n');
	}
	for (size_t i = 0; i < plan->frames_count; i++) {
		buffer_append_string(out, "  in the store: ");
		frames_format(&plan->frames[i], out);
		buffer_append_byte(out, '\n');
	}
	for (size_t i = 0; i < plan->by_count; i++)
		buffer_printf(out, "%s%s%s", i ? ", " : "  in the store: group by ", plan->by[i],
			      i + 1 == plan->by_count ? "\n" : "");
	return buffer_status(out);
}

static int format_step(const struct stage *stage, const char *prefix, struct buffer *out)
{
	buffer_append_string(out, prefix);
	stage_format(stage, out);
	return buffer_append_byte(out, '\n');
}

int query_plan_format(const struct query_plan *plan, struct buffer *out)
{
	bool stacks = plan->output == PLAN_PROFILE || plan->output == PLAN_TOP || plan->output == PLAN_COMPARE;
	format_read(plan, out);
	if (plan->diff)
		format_step(plan->diff, "read again and subtract: ", out);
	if (stacks)
		buffer_append_string(out, "then: symbolize the remaining addresses\n");
	for (size_t i = 0; i < plan->transform_count; i++)
		format_step(plan->transforms[i], "then: ", out);
	if (plan->output == PLAN_PROFILE && plan->by_count)
		buffer_append_string(out, "then: add the labels as frames at the root\n");
	if (plan->last)
		format_step(plan->last, "then: ", out);
	if (plan->series_top)
		format_step(plan->series_top, "then: ", out);
	if (plan->rate)
		buffer_append_string(out, "then: per second\n");
	for (size_t i = 0; i < plan->tail_count; i++)
		format_step(plan->tail[i], "then: ", out);
	return buffer_status(out);
}
