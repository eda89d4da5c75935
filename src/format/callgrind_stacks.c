/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stacks out of a call graph; callgrind.c says what they are worth.
 *
 * A path is a function and a share of all that it cost, which came through the stack of callers of that path. It gives the
 * function's own costs that share, and each call by it becomes a path: of the callee's total, the share that the call had of
 * it. Paths wait in a heap, the largest on top. What rounding and the limits leave of a cost goes to the function's largest
 * stack, so that the sums are exact.
 */
#include "format/callgrind.h"

#include <errno.h>
#include <math.h>
#include <string.h>

#include "base/alloc.h"

#define SAMPLES_MAX	(1024 * 1024) /* beyond one for each cost */
#define SAMPLES_MIN	(16 * 1024)
#define VALUES_MIN	(1024 * 1024)
#define VALUES_PER_BYTE 4
#define PATHS_MAX	(256 * 1024) /* that wait */
#define DEPTH_MAX	256	     /* of what is made up */
#define SHARE_MIN	1e-9

struct path {
	double amount; /* share * total of the function */
	double share;
	uint32_t function, prefix, depth;
	uint32_t parent; /* step + 1 that it comes of; 0 = none */
};

/* A path that was followed. */
struct step {
	uint32_t function, parent;
};

struct heap {
	struct path *items;
	size_t count, capacity;
	struct step *steps;
	size_t step_count, step_capacity;
};

void callgrind_init(struct callgrind *graph, size_t input_bytes)
{
	memset(graph, 0, sizeof(*graph));
	map64_init_guarded(&graph->function_by_name);
	map64_init_guarded(&graph->cost_of);
	/* Memory stays in proportion to the input: a line may be of four bytes and have 32 costs that are not written. */
	graph->values_max = VALUES_MIN + VALUES_PER_BYTE * input_bytes;
	graph->samples_max = input_bytes < SAMPLES_MIN ? SAMPLES_MIN : input_bytes < SAMPLES_MAX ? input_bytes : SAMPLES_MAX;
}

void callgrind_release(struct callgrind *graph)
{
	map64_release(&graph->function_by_name);
	map64_release(&graph->cost_of);
	index32_release(&graph->call_index);
	graph->functions = mem_free(graph->functions);
	graph->costs = mem_free(graph->costs);
	graph->calls = mem_free(graph->calls);
	graph->values = mem_free(graph->values);
}

/* ---- the graph ---- */

int callgrind_find_function(struct callgrind *graph, uint32_t name, uint32_t file, uint32_t *ret, struct error *err)
{
	uint64_t key = (uint64_t)name << 32 | file;
	if (format_known(&graph->function_by_name, key, ret))
		return 0;
	if (array_reserve(&graph->functions, &graph->function_capacity, graph->function_count + 1, UINT32_MAX - 1) < 0 ||
	    map64_put(&graph->function_by_name, key, graph->function_count) < 0)
		return error_nomem(err);
	*ret = (uint32_t)graph->function_count;
	graph->functions[graph->function_count++] = (struct callgrind_function){.name = name, .file = file};
	return 0;
}

/* Room for `count` more values, zeroed. */
static int add_values(struct callgrind *graph, size_t count, size_t *ret, struct error *err)
{
	int r = array_reserve(&graph->values, &graph->value_capacity, graph->value_count + count, graph->values_max);
	if (r == -E2BIG)
		return error_set(err, r, "its costs exceed the memory limit for an input of this size");
	if (r < 0)
		return error_nomem(err);
	memset(&graph->values[graph->value_count], 0, count * sizeof(*graph->values));
	*ret = graph->value_count;
	graph->value_count += count;
	return 0;
}

static int sum_values(struct callgrind *graph, size_t at, const int64_t *costs, struct error *err)
{
	for (size_t i = 0; i < graph->profile->sample_type_count; i++)
		if (__builtin_add_overflow(graph->values[at + i], costs[i], &graph->values[at + i]))
			return error_set(err, -EBADMSG, "the sum of the costs does not fit into 64 bits");
	return 0;
}

int callgrind_add_cost(struct callgrind *graph, uint32_t function, uint32_t location, const int64_t *costs, struct error *err)
{
	uint64_t key = (uint64_t)function << 32 | location, known;
	if (map64_get(&graph->cost_of, key, &known))
		return sum_values(graph, graph->costs[known].values, costs, err);
	if (array_reserve(&graph->costs, &graph->cost_capacity, graph->cost_count + 1, UINT32_MAX - 1) < 0 ||
	    map64_put(&graph->cost_of, key, graph->cost_count) < 0)
		return error_nomem(err);
	struct callgrind_cost *cost = &graph->costs[graph->cost_count];
	*cost = (struct callgrind_cost){.location = location, .next = graph->functions[function].first_cost};
	int r = add_values(graph, 2 * graph->profile->sample_type_count, &cost->values, err);
	if (r < 0)
		return r;
	graph->functions[function].first_cost = (uint32_t)++graph->cost_count;
	return sum_values(graph, cost->values, costs, err);
}

int callgrind_add_call(struct callgrind *graph, uint32_t from, uint32_t to, uint32_t location, const int64_t *costs,
		       struct error *err)
{
	uint32_t parts[3] = {from, to, location}, id;
	uint64_t hash = hash64_guarded(parts, sizeof(parts));
	if (graph->call_index.capacity) {
		for (size_t at = index32_first(&graph->call_index, hash); index32_at(&graph->call_index, hash, &at, &id);
		     at++) {
			const struct callgrind_call *call = &graph->calls[id];
			if (call->from == from && call->to == to && call->location == location)
				return sum_values(graph, call->values, costs, err);
		}
	}
	if (array_reserve(&graph->calls, &graph->call_capacity, graph->call_count + 1, UINT32_MAX - 1) < 0 ||
	    index32_add(&graph->call_index, hash, (uint32_t)graph->call_count) < 0)
		return error_nomem(err);
	struct callgrind_call *call = &graph->calls[graph->call_count];
	*call = (struct callgrind_call){
		.from = from, .to = to, .location = location, .next = graph->functions[from].first_call};
	int r = add_values(graph, graph->profile->sample_type_count, &call->values, err);
	if (r < 0)
		return r;
	graph->functions[from].first_call = (uint32_t)++graph->call_count;
	return sum_values(graph, call->values, costs, err);
}

static double weight_of(const struct callgrind *graph, const struct callgrind_call *call)
{
	int64_t value = graph->values[call->values + graph->leading];
	return value > 0 ? (double)value : 0;
}

/* ---- cycles: Tarjan's strongly connected components, without recursion ---- */

#define NOBODY UINT32_MAX

struct visit {
	uint32_t index;	 /* in order of first sight; 0 = not seen */
	uint32_t low;	 /* the earliest that it leads to */
	uint32_t call;	 /* the next one to look at, + 1 */
	uint32_t caller; /* that it was seen from */
	bool waiting;	 /* its component is not complete */
};
struct walk {
	struct visit *visits;
	uint32_t *waiting;
	uint32_t waiting_count, seen;
};

static uint32_t begin_visit(struct callgrind *graph, struct walk *walk, uint32_t at, uint32_t caller)
{
	struct visit *visit = &walk->visits[at];
	*visit = (struct visit){
		.index = ++walk->seen, .call = graph->functions[at].first_call, .caller = caller, .waiting = true};
	visit->low = visit->index;
	walk->waiting[walk->waiting_count++] = at;
	return at;
}

/* All that wait since `at` are one component: a cycle if they are several. */
static void end_component(struct callgrind *graph, struct walk *walk, uint32_t at)
{
	bool several = walk->waiting[walk->waiting_count - 1] != at;
	uint32_t member;
	do {
		member = walk->waiting[--walk->waiting_count];
		walk->visits[member].waiting = false;
		graph->functions[member].cycle = several ? at + 1 : 0;
	} while (member != at);
}

static void visit_from(struct callgrind *graph, struct walk *walk, uint32_t root)
{
	uint32_t at = begin_visit(graph, walk, root, NOBODY);
	while (at != NOBODY) {
		struct visit *visit = &walk->visits[at];
		if (visit->call) {
			const struct callgrind_call *call = &graph->calls[visit->call - 1];
			const struct visit *to = &walk->visits[call->to];
			visit->call = call->next;
			if (!to->index)
				at = begin_visit(graph, walk, call->to, at);
			else if (to->waiting && to->index < visit->low)
				visit->low = to->index;
			continue;
		}
		if (visit->low == visit->index)
			end_component(graph, walk, at);
		at = visit->caller;
		if (at != NOBODY && visit->low < walk->visits[at].low)
			walk->visits[at].low = visit->low;
	}
}

/* Which functions call each other in a circle, and which circles are called from outside. */
static int find_cycles(struct callgrind *graph, struct error *err)
{
	struct walk walk = {
		.visits = mem_zalloc_array(graph->function_count, sizeof(*walk.visits)),
		.waiting = mem_alloc_array(graph->function_count, sizeof(*walk.waiting)),
	};
	bool ok = walk.visits && walk.waiting;
	for (uint32_t i = 0; ok && i < graph->function_count; i++)
		if (!walk.visits[i].index)
			visit_from(graph, &walk, i);
	for (size_t i = 0; ok && i < graph->call_count; i++) {
		uint32_t from = graph->functions[graph->calls[i].from].cycle, to = graph->functions[graph->calls[i].to].cycle;
		if (to && from != to)
			graph->functions[to - 1].cycle_is_called = true;
	}
	mem_free(walk.visits);
	mem_free(walk.waiting);
	return ok ? 0 : error_nomem(err);
}

/* ---- shares ---- */

/* The first event that anything has cost. */
static size_t find_leading(const struct callgrind *graph)
{
	size_t types = graph->profile->sample_type_count;
	for (size_t type = 0; type < types; type++)
		for (size_t i = 0; i < graph->cost_count; i++)
			if (graph->values[graph->costs[i].values + type] > 0)
				return type;
	return 0;
}

static void weigh(struct callgrind *graph)
{
	graph->leading = find_leading(graph);
	for (size_t i = 0; i < graph->function_count; i++) {
		struct callgrind_function *function = &graph->functions[i];
		for (uint32_t at = function->first_cost; at; at = graph->costs[at - 1].next) {
			int64_t own = graph->values[graph->costs[at - 1].values + graph->leading];
			function->own += own > 0 ? (double)own : 0;
		}
	}
	for (size_t i = 0; i < graph->call_count; i++) {
		const struct callgrind_call *call = &graph->calls[i];
		struct callgrind_function *to = &graph->functions[call->to];
		double weight = weight_of(graph, call);
		if (call->from == call->to)
			continue;
		graph->functions[call->from].calls += weight;
		to->called += weight;
		if (!to->heaviest) {
			to->heaviest = (uint32_t)i + 1;
			continue;
		}
		if (!to->is_shared && graph->calls[to->heaviest - 1].from != call->from) {
			to->is_shared = true;
			graph->guessed++;
		}
		if (weight > weight_of(graph, &graph->calls[to->heaviest - 1]))
			to->heaviest = (uint32_t)i + 1;
	}
	for (size_t i = 0; i < graph->function_count; i++) {
		struct callgrind_function *function = &graph->functions[i];
		function->total = fmax(function->called, function->own + function->calls);
		/* Callgrind counts what goes round more than once: it is no cost that nobody called for. */
		if (function->cycle && function->called > 0 && graph->functions[function->cycle - 1].cycle_is_called)
			function->total = function->called;
	}
}

/* ---- the heap of paths ---- */

static int heap_push(struct heap *heap, const struct path *path)
{
	int r = array_reserve(&heap->items, &heap->capacity, heap->count + 1, PATHS_MAX);
	if (r < 0)
		return r;
	size_t at = heap->count++;
	for (; at > 0 && heap->items[(at - 1) / 2].amount < path->amount; at = (at - 1) / 2)
		heap->items[at] = heap->items[(at - 1) / 2];
	heap->items[at] = *path;
	return 0;
}

static struct path heap_pop(struct heap *heap)
{
	struct path top = heap->items[0], last = heap->items[--heap->count];
	size_t at = 0;
	for (;;) {
		size_t child = 2 * at + 1;
		if (child >= heap->count)
			break;
		if (child + 1 < heap->count && heap->items[child + 1].amount > heap->items[child].amount)
			child++;
		if (heap->items[child].amount <= last.amount)
			break;
		heap->items[at] = heap->items[child];
		at = child;
	}
	heap->items[at] = last;
	return top;
}

/* What does not fit waits no longer: it is left to the function's largest stack. */
static int wait_for(struct heap *heap, const struct callgrind *graph, struct path path, struct error *err)
{
	path.amount = path.share * graph->functions[path.function].total;
	if (path.share < SHARE_MIN || path.depth > DEPTH_MAX)
		return 0;
	int r = heap_push(heap, &path);
	return r == -ENOMEM ? error_nomem(err) : 0;
}

/* ---- samples ---- */

static int add_sample(struct callgrind *graph, uint32_t prefix, uint32_t location, const int64_t *values, struct error *err)
{
	struct profile_sample sample = {0};
	bool any = false;
	for (size_t i = 0; i < graph->profile->sample_type_count; i++)
		any |= values[i] != 0;
	if (!any)
		return 0;
	int r = profile_add_stack(graph->profile, prefix, location, &sample.stack, err);
	return r < 0 ? r : profile_add_sample(graph->profile, &sample, values, err);
}

/* Gives a function's own costs a share of them; all that is left if `rest`. */
static int append_costs(struct callgrind *graph, const struct callgrind_function *function, uint32_t prefix, double share,
			bool rest, size_t *samples, struct error *err)
{
	size_t types = graph->profile->sample_type_count;
	int r = 0;
	for (uint32_t at = function->first_cost; r == 0 && at; at = graph->costs[at - 1].next) {
		const int64_t *costs = &graph->values[graph->costs[at - 1].values];
		int64_t *told = &graph->values[graph->costs[at - 1].values + types], values[LIMIT_SAMPLE_TYPES] = {0};
		for (size_t i = 0; i < types; i++) {
			/* Told is between 0 and the cost: no overflow. */
			int64_t left = costs[i] - told[i];
			double part = share >= 1 ? (double)left : floor((double)costs[i] * share);
			bool all = rest || share >= 1 || (costs[i] >= 0 ? part >= (double)left : part <= (double)left);
			values[i] = all ? left : (int64_t)part;
			told[i] += values[i];
		}
		++*samples;
		r = add_sample(graph, prefix, graph->costs[at - 1].location, values, err);
	}
	return r;
}

static bool is_on_path(const struct heap *heap, uint32_t step, uint32_t function)
{
	for (; step; step = heap->steps[step - 1].parent)
		if (heap->steps[step - 1].function == function)
			return true;
	return false;
}

static int follow(struct callgrind *graph, struct heap *heap, const struct path *path, size_t *samples, struct error *err)
{
	struct callgrind_function *function = &graph->functions[path->function];
	if (!function->has_prefix) {
		function->has_prefix = true;
		function->prefix = path->prefix;
	}
	if (array_push(&heap->steps, &heap->step_count, &heap->step_capacity, UINT32_MAX - 1,
		       (struct step){path->function, path->parent}) < 0)
		return error_nomem(err);
	uint32_t step = (uint32_t)heap->step_count;
	int r = append_costs(graph, function, path->prefix, path->share, false, samples, err);
	for (uint32_t at = function->first_call; r == 0 && at; at = graph->calls[at - 1].next) {
		const struct callgrind_call *call = &graph->calls[at - 1];
		const struct callgrind_function *to = &graph->functions[call->to];
		struct path next = {.function = call->to, .depth = path->depth + 1, .parent = step};
		++*samples;
		if (to->total <= 0)
			continue;
		next.share = path->share * weight_of(graph, call) / to->total;
		if (next.share < SHARE_MIN || is_on_path(heap, step, call->to))
			continue;
		r = profile_add_stack(graph->profile, path->prefix, call->location, &next.prefix, err);
		if (r == 0)
			r = wait_for(heap, graph, next, err);
	}
	return r;
}

/* The callers of a function that no path came to: up the calls that cost most, to one that has callers, or that has none. */
static int find_prefix(struct callgrind *graph, uint32_t number, struct error *err)
{
	uint32_t chain[DEPTH_MAX], stack = 0;
	size_t depth = 0;
	uint32_t at = number;
	while (depth < DEPTH_MAX && graph->functions[at].heaviest && !graph->functions[at].has_prefix) {
		chain[depth++] = graph->functions[at].heaviest - 1;
		graph->functions[at].has_prefix = true; /* so that a cycle ends; prefix is set below */
		at = graph->calls[chain[depth - 1]].from;
	}
	stack = graph->functions[at].has_prefix ? graph->functions[at].prefix : 0;
	graph->functions[at].has_prefix = true;
	while (depth-- > 0) {
		int r = profile_add_stack(graph->profile, stack, graph->calls[chain[depth]].location, &stack, err);
		if (r < 0)
			return r;
		graph->functions[graph->calls[chain[depth]].to].prefix = stack;
	}
	return 0;
}

static int append_rest(struct callgrind *graph, struct error *err)
{
	size_t samples = 0;
	int r = 0;
	for (uint32_t i = 0; r == 0 && i < graph->function_count; i++) {
		if (!graph->functions[i].first_cost)
			continue;
		if (!graph->functions[i].has_prefix)
			r = find_prefix(graph, i, err);
		if (r == 0)
			r = append_costs(graph, &graph->functions[i], graph->functions[i].prefix, 0, true, &samples, err);
	}
	return r;
}

int callgrind_make_stacks(struct callgrind *graph, struct error *err)
{
	struct heap heap = {0};
	size_t samples = 0;
	int r = find_cycles(graph, err);
	if (r == 0)
		weigh(graph);
	/* What nobody called, or called for less than it cost, begins a stack. */
	for (uint32_t i = 0; r == 0 && i < graph->function_count; i++) {
		const struct callgrind_function *function = &graph->functions[i];
		if (function->total > 0 && function->total > function->called)
			r = wait_for(&heap, graph,
				     (struct path){.function = i,
						   .share = (function->total - function->called) / function->total,
						   .depth = 1},
				     err);
	}
	size_t samples_max = graph->samples_max / (graph->profile->sample_type_count ? graph->profile->sample_type_count : 1);
	while (r == 0 && heap.count > 0 && samples < samples_max) {
		struct path path = heap_pop(&heap);
		r = follow(graph, &heap, &path, &samples, err);
	}
	if (r == 0)
		r = append_rest(graph, err);
	mem_free(heap.items);
	mem_free(heap.steps);
	/* Equal stacks came by several paths. */
	return r < 0 ? r : profile_aggregate(graph->profile, err);
}
