/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a request asks of the stacks of a pprof: few nodes, or those that Go's compiler has a use for.
 *
 * max_nodes. Of the tree of all stacks by function the n largest nodes stay, the root not counted, and what a stack has below
 * them becomes one frame, "other". A location of several inlined functions of which not all stay goes as a whole, since a
 * location cannot be divided.
 *
 * go_pgo. Profile-guided optimization (`go build -pgo`) reads pairs of caller and callee, the caller's line counted from where
 * its function begins. So the leaf and a few of its callers are enough (keep_locations; Pyroscope's clients ask for 5), most
 * stacks become equal to others, and the profile is small enough for a build to fetch. With aggregate_callees it does not
 * matter where in the callee samples are: the leaf loses its innermost line number and its address. A location that is a leaf
 * here and a caller there stays as it is there.
 *
 * Both are done to the merged profile with its names (github.com/grafana/pyroscope, pkg/phlaredb/symdb,
 * resolver_pprof_go_pgo.go and resolver_pprof_tree.go).
 */
#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "render/flame.h"
#include "server/pyroscope/pyroscope_int.h"

#define NOT_MADE UINT32_MAX

/* ---- Go's PGO ---- */

struct pgo {
	struct profile *profile;
	uint32_t *callees; /* by location: what it is as a leaf */
	uint32_t *stacks;  /* by stack, as it was */
	uint32_t *locations;
	size_t location_count, capacity;
};

static void pgo_release(struct pgo *pgo)
{
	mem_free(pgo->callees);
	mem_free(pgo->stacks);
	mem_free(pgo->locations);
}

static int make_callee(struct pgo *pgo, uint32_t id, uint32_t *ret, struct error *err)
{
	struct profile_location location = pgo->profile->locations[id];
	if (location.line_count == 0) {
		*ret = id;
		return 0;
	}
	_cleanup_(mem_freep) struct profile_line *lines = mem_alloc_array(location.line_count, sizeof(*lines));
	if (!lines)
		return error_nomem(err);
	memcpy(lines, pgo->profile->lines + location.line_first, location.line_count * sizeof(*lines));
	lines[0].line = lines[0].column = 0;
	location.address = 0;
	return profile_add_location(pgo->profile, &location, lines, location.line_count, ret, err);
}

static int find_callee(struct pgo *pgo, uint32_t *location, struct error *err)
{
	uint32_t *known = &pgo->callees[*location];
	int r = *known == NOT_MADE ? make_callee(pgo, *location, known, err) : 0;
	*location = r < 0 ? *location : *known;
	return r;
}

static int shorten(struct pgo *pgo, const struct pyroscope_request *in, uint32_t stack, uint32_t *ret, struct error *err)
{
	size_t depth = profile_stack_depth(pgo->profile, stack), keep = in->pgo_keep;
	size_t count = keep && keep < depth ? keep : depth;
	if (array_reserve(&pgo->locations, &pgo->capacity, count, UINT32_MAX) < 0)
		return error_nomem(err);
	profile_stack_locations(pgo->profile, stack, pgo->locations, count);
	int r = in->pgo_callees && count ? find_callee(pgo, &pgo->locations[0], err) : 0;
	return r < 0 ? r : profile_add_stack_leaf_first(pgo->profile, pgo->locations, count, ret, err);
}

static int shape_pgo(struct profile *profile, const struct pyroscope_request *in, struct error *err)
{
	size_t stacks = profile->stack_count, locations = profile->location_count;
	_cleanup_(pgo_release) struct pgo pgo = {.profile = profile};
	pgo.callees = mem_alloc_array(locations, sizeof(*pgo.callees));
	pgo.stacks = mem_alloc_array(stacks, sizeof(*pgo.stacks));
	if (!pgo.callees || !pgo.stacks)
		return error_nomem(err);
	memset(pgo.callees, 0xff, locations * sizeof(*pgo.callees));
	memset(pgo.stacks, 0xff, stacks * sizeof(*pgo.stacks));
	for (size_t i = 0; i < profile->sample_count; i++) {
		uint32_t *made = &pgo.stacks[profile->samples[i].stack];
		int r = *made == NOT_MADE ? shorten(&pgo, in, profile->samples[i].stack, made, err) : 0;
		if (r < 0)
			return r;
		profile->samples[i].stack = *made;
	}
	return profile_aggregate(profile, err);
}

/* ---- few nodes ---- */

static int add_other(struct profile *profile, uint32_t *ret, struct error *err)
{
	struct profile_function function = {0};
	struct profile_line line = {0};
	int r = profile_add_cstring(profile, "other", &function.name, err);
	function.system_name = function.name;
	if (!r)
		r = profile_add_function(profile, &function, &line.function, err);
	return r < 0 ? r : profile_add_location(profile, &(struct profile_location){0}, &line, 1, ret, err);
}

/* The callers of a stack whose functions, counted from the root, are at most `depth`. */
static uint32_t cut_stack(const struct profile *profile, uint32_t stack, const uint32_t *functions, size_t depth)
{
	while (stack && functions[stack] > depth)
		stack = profile->stacks[stack].parent;
	return stack;
}

/* By stack: how many functions it has. */
static uint32_t *count_functions(const struct profile *profile)
{
	uint32_t *counts = mem_zalloc_array(profile->stack_count, sizeof(*counts));
	for (size_t i = 1; counts && i < profile->stack_count; i++) {
		uint32_t lines = profile->locations[profile->stacks[i].location].line_count;
		counts[i] = counts[profile->stacks[i].parent] + (lines ? lines : 1);
	}
	return counts;
}

static int shape_nodes(struct profile *profile, size_t nodes_max, struct error *err)
{
	_cleanup_(flame_freep) struct flame *flame = NULL;
	size_t stacks = profile->stack_count;
	_cleanup_(mem_freep) uint32_t *places = mem_zalloc_array(stacks, sizeof(*places));
	_cleanup_(mem_freep) uint32_t *functions = count_functions(profile);
	uint32_t other;
	if (!places || !functions)
		return error_nomem(err);
	int r = flame_build_placed(profile, 0, FLAME_UNNAMED_BY_ADDRESS, nodes_max + 1, places, &flame, err);
	if (!r)
		r = add_other(profile, &other, err);
	for (size_t i = 0; !r && i < profile->sample_count; i++) {
		uint32_t *stack = &profile->samples[i].stack;
		const struct flame_node *node = &flame->nodes[places[*stack]];
		if (node->frame_type != FLAME_FRAME_REST)
			continue;
		/* The node is one below the last that stays, the root is 0. */
		r = profile_add_stack(profile, cut_stack(profile, *stack, functions, node->depth - 1), other, stack, err);
	}
	return r < 0 ? r : profile_aggregate(profile, err);
}

int pyroscope_shape(struct profile *profile, const struct pyroscope_request *in, struct error *err)
{
	size_t nodes_max;
	if (!profile->sample_count)
		return 0;
	if (in->pgo)
		return shape_pgo(profile, in, err);
	if (in->max_nodes <= 0)
		return 0;
	int r = pyroscope_nodes(in->max_nodes, &nodes_max, err);
	return r < 0 ? r : shape_nodes(profile, nodes_max, err);
}
