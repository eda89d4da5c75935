/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What goes where.
 *
 * Threads. A marker's thread is a thread of the profile if pid and tid are the same and nothing says that they are two of one
 * number, one after the other: neither began (by more than what clocks may be off) after the other ended, and the profile's did
 * not begin before the markers' did. Of several the one whose samples lie most within the markers' thread's life is taken, each
 * by one owner only. By the tid alone, which is when one side does not tell the pid, only what is the only one. A thread that
 * nothing fits is a new one, with its markers, and no samples.
 *
 * Kinds. A kind of markers whose name is that of a schema in the profile is that schema if the fields of one are among those of
 * the other; the larger one of both is written. Otherwise it gets another name, "step (2)".
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/order.h"
#include "format/annotate/annotate_int.h"

#define CANDIDATES_MAX	   1024u /* LIMIT of threads with one tid that are compared */
#define SLACK_MONOTONIC_NS 100000000
#define SLACK_WALL_NS	   1000000000		    /* what a recorder takes for its start may be off */
#define BOOT_NS		   (10ll * 60 * 1000000000) /* clocks that differ by more are of two machines or starts */

/* ---- clocks ---- */

static int choose_clock(struct annotate_source *source, const struct base *base, const struct annotate_options *options,
			struct annotate_stats *stats, struct error *err)
{
	bool has_monotonic = source->monotonic_ns != ANNOTATE_UNKNOWN && base->monotonic_ns != ANNOTATE_UNKNOWN,
	     has_wall = source->wall_ns != ANNOTATE_UNKNOWN && base->wall_ns != ANNOTATE_UNKNOWN;
	int64_t monotonic = has_monotonic ? source->monotonic_ns - base->monotonic_ns : 0,
		wall = has_wall ? source->wall_ns - base->wall_ns : 0;
	bool differ = has_monotonic && has_wall && !source->wall_is_guessed && llabs(monotonic - wall) > BOOT_NS;
	source->by_monotonic = options->clock == ANNOTATE_CLOCK_MONOTONIC ||
			       (options->clock == ANNOTATE_CLOCK_AUTO && has_monotonic && !differ);
	if (source->by_monotonic ? !has_monotonic : !has_wall)
		return error_set(err, -EINVAL, "the profile and the markers have no clock in common: %s",
				 source->by_monotonic ? "one of them has no start time of the monotonic clock"
						      : "one of them has no start time");
	stats->boots_differ |= differ && options->clock == ANNOTATE_CLOCK_AUTO;
	*(source->by_monotonic ? &stats->by_monotonic_clock : &stats->by_wall_clock) = true;
	if (__builtin_add_overflow(source->by_monotonic ? monotonic : wall, options->offset_ns, &source->shift_ns))
		return error_set(err, -EINVAL, "the offset is out of range");
	return 0;
}

/* A time of the markers' file as one of the profile; far beyond what either has, it stays there. */
static int64_t shifted(const struct annotate *annotate, uint32_t source, int64_t ns)
{
	int64_t sum;
	if (ns == ANNOTATE_UNKNOWN || !__builtin_add_overflow(ns, annotate->sources[source].shift_ns, &sum))
		return ns == ANNOTATE_UNKNOWN ? ns : sum;
	return ns < 0 ? INT64_MIN + 1 : INT64_MAX;
}

static void shift_all(struct annotate *annotate)
{
	for (size_t i = 0; i < annotate->thread_count; i++) {
		struct annotate_thread *thread = &annotate->threads[i];
		thread->start_ns = shifted(annotate, thread->source, thread->start_ns);
		thread->first_ns = shifted(annotate, thread->source, thread->first_ns);
		thread->last_ns = shifted(annotate, thread->source, thread->last_ns);
		for (size_t k = thread->first; k < thread->first + thread->count; k++) {
			struct annotate_marker *marker = &annotate->markers[k];
			marker->start_ns = shifted(annotate, thread->source, marker->start_ns);
			marker->end_ns = shifted(annotate, thread->source, marker->end_ns);
		}
	}
}

/* ---- threads ---- */

static bool same_id(const struct annotate_id *a, const struct annotate_id *b)
{
	return a->is_known && b->is_known && a->number == b->number &&
	       (a->host.len == 0 || b->host.len == 0 || bytes_equal(a->host, b->host));
}

static int order_of(const struct annotate_thread *a, const struct annotate_thread *b)
{
	return ORDER(a->tid.number, b->tid.number) ?: ORDER(a->pid.number, b->pid.number) ?: ORDER(a->source, b->source) ?:
		ORDER(a->start_ns, b->start_ns);
}

DEFINE_ORDER_OF_PLACES(compare_threads, struct annotate_thread, order_of(a, b));

/* When the next owner of a number began, the one before it had ended. */
static int find_successors(struct annotate *annotate, uint32_t *order)
{
	for (uint32_t i = 0; i < annotate->thread_count; i++) {
		order[i] = i;
		annotate->threads[i].next_ns = ANNOTATE_UNKNOWN;
	}
	sort_array_by(order, annotate->thread_count, compare_threads, annotate->threads);
	for (size_t i = 1; i < annotate->thread_count; i++) {
		struct annotate_thread *a = &annotate->threads[order[i - 1]], *b = &annotate->threads[order[i]];
		if (a->tid.number == b->tid.number && a->pid.number == b->pid.number && a->source == b->source &&
		    a->tid.is_known && b->tid.is_known && b->start_ns != ANNOTATE_UNKNOWN && a->start_ns != b->start_ns)
			a->next_ns = b->start_ns;
	}
	return 0;
}

static int64_t plus(int64_t a, int64_t b)
{
	int64_t sum;
	return __builtin_add_overflow(a, b, &sum) ? (a < 0 ? INT64_MIN + 1 : INT64_MAX) : sum;
}

struct match {
	struct annotate *annotate;
	struct base *base;
	struct map64 by_tid; /* the first of the profile's threads with this number */
	struct map64 marked; /* how many threads with markers have this number */
};

/* Whether it began when the other had ended. */
static bool succeeds(const struct annotate_thread *thread, const struct annotate_thread *other)
{
	return other->next_ns != ANNOTATE_UNKNOWN && thread->start_ns != ANNOTATE_UNKNOWN && thread->start_ns >= other->next_ns;
}

static bool fits(const struct match *match, const struct annotate_thread *thread, const struct base_thread *base)
{
	int64_t slack = match->annotate->sources[thread->source].by_monotonic ? SLACK_MONOTONIC_NS : SLACK_WALL_NS;
	int64_t born = thread->start_ns != ANNOTATE_UNKNOWN ? thread->start_ns : thread->first_ns;
	if (base->registered_ns != ANNOTATE_UNKNOWN) {
		if (thread->start_ns != ANNOTATE_UNKNOWN && base->registered_ns < plus(thread->start_ns, -slack))
			return false;
		if (thread->last_ns != ANNOTATE_UNKNOWN && base->registered_ns > plus(thread->last_ns, slack))
			return false;
	}
	if (base->unregistered_ns != ANNOTATE_UNKNOWN && born != ANNOTATE_UNKNOWN && base->unregistered_ns < plus(born, -slack))
		return false;
	/* Another owner of the number that goes there already. */
	if (base->marked == ANNOTATE_NONE)
		return true;
	const struct annotate_thread *other = &match->annotate->threads[base->marked];
	if (thread->start_ns != ANNOTATE_UNKNOWN && other->start_ns != ANNOTATE_UNKNOWN)
		return llabs(thread->start_ns - other->start_ns) <= slack;
	return !succeeds(thread, other) && !succeeds(other, thread);
}

/* For how long the thread's life and the profile's samples of it overlap, in ns. */
static int64_t overlap(const struct annotate_thread *thread, const struct base_thread *base)
{
	int64_t from = base->first_ns != ANNOTATE_UNKNOWN ? base->first_ns : base->registered_ns,
		to = base->last_ns != ANNOTATE_UNKNOWN ? base->last_ns : base->unregistered_ns,
		born = thread->start_ns != ANNOTATE_UNKNOWN ? thread->start_ns : thread->first_ns,
		gone = thread->next_ns != ANNOTATE_UNKNOWN ? thread->next_ns : INT64_MAX;
	if (thread->start_ns == ANNOTATE_UNKNOWN)
		gone = thread->last_ns;
	if (from == ANNOTATE_UNKNOWN || to == ANNOTATE_UNKNOWN)
		return 0;
	from = born > from ? born : from;
	to = gone < to ? gone : to;
	return to > from ? plus(to, -(from > 0 ? from : 0)) : 0;
}

static uint32_t best_of(const struct match *match, const struct annotate_thread *thread, int64_t *ret_overlap)
{
	const struct base *base = match->base;
	uint64_t first, count = 0;
	uint32_t best = ANNOTATE_NONE, by_tid = ANNOTATE_NONE;
	*ret_overlap = -1;
	if (!thread->tid.is_known || !map64_get(&match->by_tid, (uint64_t)thread->tid.number, &first))
		return best;
	for (uint32_t i = (uint32_t)first; i != ANNOTATE_NONE && count < CANDIDATES_MAX; i = base->threads[i].next_same) {
		const struct base_thread *candidate = &base->threads[i];
		count++;
		if (!same_id(&thread->tid, &candidate->tid) || !fits(match, thread, candidate))
			continue;
		if (!thread->pid.is_known || !candidate->pid.is_known)
			by_tid = i;
		if (!same_id(&thread->pid, &candidate->pid))
			continue;
		int64_t ns = overlap(thread, candidate);
		if (ns > *ret_overlap) {
			*ret_overlap = ns;
			best = i;
		}
	}
	uint64_t marked = 0;
	map64_get(&match->marked, (uint64_t)thread->tid.number, &marked);
	if (best == ANNOTATE_NONE && by_tid != ANNOTATE_NONE && count == 1 && marked == 1) {
		*ret_overlap = 0;
		best = by_tid;
	}
	return best;
}

struct offer {
	int64_t overlap;
	uint32_t thread;
};

DEFINE_ORDER(compare_offers, struct offer, ORDER(b->overlap, a->overlap) ?: ORDER(a->thread, b->thread));

/* Those who fit best choose first. */
static void place_threads(struct match *match, struct offer *offers)
{
	struct annotate *annotate = match->annotate;
	size_t count = 0;
	for (uint32_t i = 0; i < annotate->thread_count; i++) {
		int64_t ns;
		annotate->threads[i].base = ANNOTATE_NONE;
		if (annotate->threads[i].count == 0)
			continue;
		best_of(match, &annotate->threads[i], &ns);
		offers[count++] = (struct offer){.overlap = ns, .thread = i};
	}
	sort_array(offers, count, compare_offers);
	for (size_t i = 0; i < count; i++) {
		struct annotate_thread *thread = &annotate->threads[offers[i].thread];
		int64_t ns;
		thread->base = best_of(match, thread, &ns);
		if (thread->base == ANNOTATE_NONE)
			continue;
		struct base_thread *base = &match->base->threads[thread->base];
		thread->next = base->marked;
		base->marked = offers[i].thread;
	}
}

static int match_threads(struct annotate *annotate, struct base *base, struct error *err)
{
	struct match match = {.annotate = annotate, .base = base};
	_cleanup_(mem_freep) uint32_t *order = mem_alloc_array(annotate->thread_count, sizeof(*order));
	_cleanup_(mem_freep) struct offer *offers = mem_alloc_array(annotate->thread_count, sizeof(*offers));
	map64_init_guarded(&match.by_tid);
	map64_init_guarded(&match.marked);
	int r = order && offers ? find_successors(annotate, order) : -ENOMEM;
	for (uint32_t i = (uint32_t)base->thread_count; r == 0 && i-- > 0;) {
		struct base_thread *thread = &base->threads[i];
		uint64_t next;
		if (!thread->tid.is_known)
			continue;
		if (map64_get(&match.by_tid, (uint64_t)thread->tid.number, &next))
			thread->next_same = (uint32_t)next;
		r = map64_put(&match.by_tid, (uint64_t)thread->tid.number, i);
	}
	for (size_t i = 0; r == 0 && i < annotate->thread_count; i++)
		if (annotate->threads[i].count && annotate->threads[i].tid.is_known)
			r = map64_add(&match.marked, (uint64_t)annotate->threads[i].tid.number, 1);
	if (r == 0)
		place_threads(&match, offers);
	map64_release(&match.by_tid);
	map64_release(&match.marked);
	return r < 0 ? error_nomem(err) : 0;
}

/* ---- names ---- */

#define KERNEL_NAME_BYTES 15

/* The kernel cuts names; and where a recorder knows none it says "Thread 17" or "Thread <17>". */
static bool is_cut_from(struct bytes name, struct bytes full)
{
	if (full.len == 0 || bytes_equal(name, full))
		return false;
	if (name.len == 0 || (bytes_start_with(name, "Thread ") && name.len < 30 &&
			      (name.data[7] == '<' || (name.data[7] >= '0' && name.data[7] <= '9'))))
		return true;
	return name.len == KERNEL_NAME_BYTES && full.len > name.len && memcmp(name.data, full.data, name.len) == 0;
}

static void restore_names(struct annotate *annotate, struct base *base, struct annotate_stats *stats)
{
	for (size_t i = 0; i < annotate->thread_count; i++) {
		const struct annotate_thread *thread = &annotate->threads[i];
		if (thread->base == ANNOTATE_NONE)
			continue;
		struct base_thread *to = &base->threads[thread->base];
		if (!to->new_name.len && is_cut_from(to->name, thread->name)) {
			to->new_name = thread->name;
			stats->names++;
		}
		if (!to->new_process.len && is_cut_from(to->process, thread->process)) {
			to->new_process = thread->process;
			stats->names++;
		}
	}
}

/* ---- the profile's time ---- */

static void clamp(struct annotate_marker *marker, const struct base *base, struct annotate_stats *stats)
{
	int64_t start = marker->phase == 3 ? marker->end_ns : marker->start_ns,
		end = marker->end_ns == ANNOTATE_UNKNOWN ? marker->start_ns : marker->end_ns;
	/* What has no end lasts, and what has no start was there before. */
	bool lasts = marker->phase == 2, lasted = marker->phase == 3;
	if ((start > base->last_ns && !lasted) || (end < base->first_ns && !lasts) || (lasted && end < base->first_ns) ||
	    (lasts && start > base->last_ns)) {
		marker->phase = ANNOTATE_LEFT_OUT;
		stats->outside++;
		return;
	}
	int64_t *ends[] = {&marker->start_ns, &marker->end_ns};
	bool is_cut = false;
	for (int i = 0; i < 2; i++) {
		if (*ends[i] == ANNOTATE_UNKNOWN)
			continue;
		int64_t within = *ends[i] < base->first_ns  ? base->first_ns
				 : *ends[i] > base->last_ns ? base->last_ns
							    : *ends[i];
		is_cut |= within != *ends[i];
		*ends[i] = within;
	}
	stats->clamped += is_cut;
}

static void clamp_all(struct annotate *annotate, const struct base *base, struct annotate_stats *stats)
{
	for (size_t i = 0; i < annotate->thread_count; i++) {
		struct annotate_thread *thread = &annotate->threads[i];
		thread->kept = 0;
		for (size_t k = thread->first; k < thread->first + thread->count; k++) {
			struct annotate_marker *marker = &annotate->markers[k];
			if (base->first_ns != ANNOTATE_UNKNOWN)
				clamp(marker, base, stats);
			if (marker->phase == ANNOTATE_LEFT_OUT)
				continue;
			thread->kept++;
			annotate->schemas[marker->schema].is_used = true;
			annotate->categories[marker->category].is_used = true;
		}
		stats->markers += thread->kept;
		stats->new_threads += thread->kept && thread->base == ANNOTATE_NONE;
		stats->threads += thread->kept && thread->base == ANNOTATE_NONE;
	}
	for (size_t i = 0; i < base->thread_count; i++) {
		bool has = false;
		for (uint32_t k = base->threads[i].marked; k != ANNOTATE_NONE; k = annotate->threads[k].next)
			has |= annotate->threads[k].kept > 0;
		stats->threads += has;
	}
}

/* ---- categories, kinds ---- */

static void match_categories(struct annotate *annotate, const struct base *base)
{
	const struct json_node *categories = json_node_get(base->meta, "categories");
	bool has = json_node_is(categories, JSON_NODE_ARRAY);
	size_t count = has ? json_node_count(categories) : 1, next = count;
	for (size_t i = 0; i < annotate->category_count; i++) {
		struct annotate_category *category = &annotate->categories[i];
		struct bytes name = i ? category->name : bytes_of_string("Other");
		size_t at = 0;
		while (has && at < count &&
		       !bytes_equal(json_node_bytes(json_node_get(json_node_at(categories, at), "name")), name))
			at++;
		if (!has || at == count)
			at = i == 0 ? 0 : count;
		category->is_new = at == count && category->is_used;
		category->number = (uint32_t)(category->is_new ? next++ : at);
	}
}

static bool same_field(const struct json_node *a, const struct json_node *b)
{
	return bytes_equal(json_node_bytes(json_node_get(a, "key")), json_node_bytes(json_node_get(b, "key"))) &&
	       bytes_equal(json_node_bytes(json_node_get(a, "format")), json_node_bytes(json_node_get(b, "format")));
}

/* Whether all fields of one schema are fields of another; static texts do not count. */
static bool is_within(const struct json_node *small, const struct json_node *large)
{
	const struct json_node *a = annotate_schema_fields(small), *b = annotate_schema_fields(large);
	if (json_node_count(a) > ANNOTATE_FIELDS_MAX || json_node_count(b) > ANNOTATE_FIELDS_MAX)
		return false;
	for (size_t i = 0; i < json_node_count(a); i++) {
		bool found = !json_node_is(json_node_get(json_node_at(a, i), "key"), JSON_NODE_TEXT);
		for (size_t k = 0; !found && k < json_node_count(b); k++)
			found = same_field(json_node_at(a, i), json_node_at(b, k));
		if (!found)
			return false;
	}
	return true;
}

/* By one of the profile, or another of ours. */
static bool is_name_taken(const struct annotate *annotate, const struct json_node *schemas, size_t by, struct bytes name)
{
	for (size_t i = 0; i < json_node_count(schemas); i++)
		if (bytes_equal(json_node_bytes(json_node_get(json_node_at(schemas, i), "name")), name))
			return true;
	for (size_t i = 1; i < by; i++)
		if (annotate->schemas[i].is_used && bytes_equal(annotate->schemas[i].final, name))
			return true;
	return false;
}

static int name_schema(struct annotate *annotate, const struct json_node *schemas, size_t number, struct error *err)
{
	struct annotate_schema *schema = &annotate->schemas[number];
	char text[320];
	schema->final = schema->name;
	for (unsigned i = 2; is_name_taken(annotate, schemas, number, schema->final); i++) {
		int len = snprintf(text, sizeof(text), "%.*s (%u)", (int)(schema->name.len > 256 ? 256 : schema->name.len),
				   (const char *)schema->name.data, i);
		const char *copy = arena_strndup(&annotate->arena, text, (size_t)len);
		if (!copy)
			return error_nomem(err);
		schema->final = (struct bytes){(const uint8_t *)copy, (size_t)len};
	}
	return 0;
}

/* Two of ours, of two files, that are one: the larger of them is what both are. */
static void join_own(struct annotate *annotate)
{
	for (uint32_t i = 1; i < annotate->schema_count; i++) {
		struct annotate_schema *schema = &annotate->schemas[i];
		schema->joined = i;
		for (uint32_t k = 1; k < i && schema->is_used; k++) {
			struct annotate_schema *other = &annotate->schemas[k];
			bool within = is_within(schema->node, other->node), around = is_within(other->node, schema->node);
			if (!other->is_used || !bytes_equal(other->name, schema->name) || (!within && !around))
				continue;
			if (!within)
				other->node = schema->node;
			schema->joined = k;
			schema->is_used = false;
		}
	}
}

static int match_schemas(struct annotate *annotate, struct base *base, struct error *err)
{
	const struct json_node *schemas = json_node_get(base->meta, "markerSchema");
	if (!json_node_is(schemas, JSON_NODE_ARRAY))
		schemas = NULL;
	base->schema_of = mem_alloc_array(json_node_count(schemas), sizeof(*base->schema_of));
	if (!base->schema_of)
		return error_nomem(err);
	for (size_t i = 0; i < json_node_count(schemas); i++)
		base->schema_of[i] = ANNOTATE_NONE;
	join_own(annotate);
	for (size_t i = 1; i < annotate->schema_count; i++) {
		struct annotate_schema *schema = &annotate->schemas[i];
		schema->base = ANNOTATE_NONE;
		/* What it was joined with has its name by now. */
		if (schema->joined != i)
			schema->final = annotate->schemas[schema->joined].final;
		if (!schema->is_used)
			continue;
		for (uint32_t k = 0; k < json_node_count(schemas) && schema->base == ANNOTATE_NONE; k++) {
			const struct json_node *other = json_node_at(schemas, k);
			if (!bytes_equal(json_node_bytes(json_node_get(other, "name")), schema->name))
				continue;
			bool within = is_within(schema->node, other), around = is_within(other, schema->node);
			if ((!within && !around) || base->schema_of[k] != ANNOTATE_NONE)
				continue;
			schema->base = k;
			schema->final = schema->name;
			if (!within)
				base->schema_of[k] = (uint32_t)i;
		}
		int r = schema->base == ANNOTATE_NONE ? name_schema(annotate, schemas, i, err) : 0;
		if (r < 0)
			return r;
	}
	return 0;
}

/* ---- counters ---- */

size_t annotate_place_of_counter(const struct annotate *annotate, const struct base *base,
				 const struct annotate_counter *counter)
{
	size_t place = base->thread_count, found = SIZE_MAX;
	const struct annotate_thread *thread = counter->thread != ANNOTATE_NONE ? &annotate->threads[counter->thread] : NULL;
	if (thread && thread->kept && thread->base != ANNOTATE_NONE)
		return thread->base;
	if (thread && thread->kept) {
		for (uint32_t i = 0; i < counter->thread; i++)
			place += annotate->threads[i].kept && annotate->threads[i].base == ANNOTATE_NONE;
		return place;
	}
	for (size_t i = 0; i < base->thread_count; i++)
		if (same_id(&base->threads[i].pid, &counter->pid) && (found == SIZE_MAX || base->threads[i].is_main)) {
			found = i;
			if (base->threads[i].is_main)
				break;
		}
	for (size_t i = 0; found == SIZE_MAX && i < annotate->thread_count; i++) {
		bool is_new = annotate->threads[i].kept && annotate->threads[i].base == ANNOTATE_NONE;
		if (is_new && same_id(&annotate->threads[i].pid, &counter->pid))
			found = place;
		place += is_new;
	}
	return found;
}

int annotate_match(struct annotate *annotate, struct base *base, const struct annotate_options *options,
		   struct annotate_stats *stats, struct error *err)
{
	int r = 0;
	for (size_t i = 0; r == 0 && i < annotate->source_count; i++)
		r = choose_clock(&annotate->sources[i], base, options, stats, err);
	if (r < 0)
		return r;
	shift_all(annotate);
	r = match_threads(annotate, base, err);
	if (r < 0)
		return r;
	restore_names(annotate, base, stats);
	clamp_all(annotate, base, stats);
	match_categories(annotate, base);
	return match_schemas(annotate, base, err);
}
