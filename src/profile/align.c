/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Aligning the clocks of a profile's hosts.
 *
 * A host's clock is a line against the reference's (base/clock_fit.h). Each exchange between two hosts is a fact: what A sent
 * at a arrived at B at b, so b - v_B(b) >= a - v_A(a), v being how far a clock is ahead of the reference's.
 *
 * Placing. The reference is placed; then, one by one, the host whose line has the narrowest bounds from facts and fits against
 * those that are placed. Its line is fitted to all facts with them, their lines taken as they were chosen, so that every send
 * comes before its receive. What is known of the truth is kept beside it: the same fit, with each fact stretched by how far the
 * other host may be off. So the bound of a host holds whatever was chosen for others.
 *
 * Easing. A choice in the middle may be wrong for a host that is placed later: with three hosts all facts can agree, and yet
 * leave the third no line. Then lines are moved by what facts lack, each by its half, over and over (the relaxation method for
 * linear inequalities of Agmon, 1954), until none is violated. It ends if a solution exists; after STEPS_MAX there is none to
 * be had, clocks were set within the profile or flows are false, and the lines of before are kept. A bound grows by as much as
 * its line was moved.
 *
 * Fits that hosts carry count like facts where they have a bound, unless flows contradict them: then flows win, for somebody
 * measured a fit, or believed a kernel, but a message that arrives before it is sent cannot be. A wall clock without a bound is
 * but where the search begins.
 *
 * One joint linear program over all hosts would give the narrowest bounds; it wants a solver, and for two hosts, or for hosts
 * that all talk to the first one, it is no better.
 */
#include "profile/align.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/time.h"
#include "profile/align_int.h"
#include "profile/hosts.h"

#define STEPS_CONTRADICTING 64			/* times as many where facts contradict each other (clock_fit.h) */
#define STEPS_MAX	    (32u * 1024 * 1024) /* facts looked at while easing, and while choosing: some tenths of a second */
#define STEPS_A_FACT	    200000		/* ... or that many times the facts: few that contradict each other never end */
#define EASE_MARGIN_NS	    2.0			/* lines are rounded to nanoseconds afterwards */

struct fact {
	uint32_t from, to; /* hosts */
	int64_t sent_ns, received_ns;
};

struct clock {
	bool is_placed, is_stale;      /* is_stale: a neighbour was placed since it was fitted */
	int64_t from_ns, to_ns;	       /* its times; from > to = it has none */
	size_t fact_first, fact_count; /* in by_host */
	struct clock_line line;	       /* chosen */
	struct clock_fit known;	       /* about the truth */
	struct clock_fit tight;	       /* with the chosen lines of others; what line becomes */
	struct profile_host fit;       /* what it came with, against `reference` */
	uint32_t method;	       /* string; what its place was found by */
	uint64_t exchanges;	       /* facts that it was placed by */
	int64_t lacks_ns;	       /* by how much facts are still violated */
	bool is_bound_by_fit;
};

struct aligning {
	struct profile *profile;
	struct clock *clocks; /* by host */
	size_t count;	      /* with entry 0, which is nobody's */
	uint32_t reference;
	struct fact *facts;
	size_t fact_count;
	uint32_t *by_host; /* facts, by host; each is there twice */
	struct clock_fact *scratch[2];
	uint32_t *host_of_set;
	size_t steps;		/* facts that fits have looked at */
	bool has_back;		/* the reference's times are of another clock: see find_reference() */
	struct clock_line back; /* what was taken off them, inverted */
};

static void aligning_release(struct aligning *aligning)
{
	mem_free(aligning->clocks);
	mem_free(aligning->facts);
	mem_free(aligning->by_host);
	mem_free(aligning->scratch[0]);
	mem_free(aligning->scratch[1]);
	mem_free(aligning->host_of_set);
}

static int64_t add_saturated(int64_t a, int64_t b)
{
	int64_t sum;
	return __builtin_add_overflow(a, b, &sum) ? (b > 0 ? INT64_MAX : INT64_MIN) : sum;
}

/* ---- hosts ---- */

static struct clock_line line_of(const struct profile_host *fit)
{
	return (struct clock_line){.at_ns = fit->at_ns, .offset_ns = fit->offset_ns, .skew = fit->skew};
}

/* Hosts that only samples tell become hosts as well. */
static int find_hosts_of_samples(struct aligning *aligning, struct error *err)
{
	struct profile *profile = aligning->profile;
	const char *of_all = profile_label_value(profile, profile->resource_labels, PROFILE_HOST_LABEL);
	aligning->host_of_set = mem_zalloc_array(profile->label_set_count, sizeof(*aligning->host_of_set));
	if (!aligning->host_of_set)
		return error_nomem(err);
	for (uint32_t set = 0; set < profile->label_set_count; set++) {
		const char *name = profile_label_value(profile, set, PROFILE_HOST_LABEL);
		struct profile_host host = {0};
		name = name ? name : of_all;
		if (!name || !*name)
			continue;
		int r = profile_add_cstring(profile, name, &host.name, err);
		if (r == 0)
			r = profile_add_host(profile, &host, &aligning->host_of_set[set], err);
		if (r < 0)
			return r;
	}
	return 0;
}

/* Its times may have been put onto another host's clock before. Then all are put onto that one first, and by `back` onto the
 * reference's own. */
static int find_reference(struct aligning *aligning, const char *name, struct error *err)
{
	const struct profile *profile = aligning->profile;
	aligning->reference = name ? 0 : 1;
	for (uint32_t i = 1; name && i < aligning->count; i++)
		if (strcmp(profile_string(profile, profile->markers->hosts[i].name), name) == 0)
			aligning->reference = i;
	if (aligning->reference == 0)
		return error_set(err, -EINVAL, "no host '%.64s' for the reference clock", name);
	const struct profile_host *host = &profile->markers->hosts[aligning->reference];
	aligning->has_back = host->is_aligned && host->reference && host->reference != host->name;
	if (aligning->has_back)
		aligning->back = clock_line_invert(line_of(host));
	return 0;
}

static void widen(struct aligning *aligning, uint32_t host, int64_t time_ns)
{
	struct clock *clock = &aligning->clocks[host];
	if (time_ns == 0)
		return;
	if (time_ns < clock->from_ns)
		clock->from_ns = time_ns;
	if (time_ns > clock->to_ns)
		clock->to_ns = time_ns;
}

/* Calls `visit` with the host and the place of every time. */
static void visit_times(struct aligning *aligning, void (*visit)(struct aligning *aligning, uint32_t host, int64_t *time_ns))
{
	struct profile *profile = aligning->profile;
	struct profile_markers *markers = profile->markers;
	for (size_t i = 0; i < profile->sample_count; i++)
		visit(aligning, aligning->host_of_set[profile->samples[i].labels], &profile->samples[i].time_ns);
	for (size_t i = 0; i < markers->marker_count; i++) {
		uint32_t host = markers->threads[markers->markers[i].thread].host;
		visit(aligning, host, &markers->markers[i].start_ns);
		visit(aligning, host, &markers->markers[i].end_ns);
	}
	for (size_t i = 0; i < markers->row_count; i++) {
		const struct profile_counter *counter = &markers->counters[markers->rows[i].counter];
		visit(aligning, counter->thread ? markers->threads[counter->thread].host : counter->host,
		      &markers->rows[i].time_ns);
	}
}

static void see_time(struct aligning *aligning, uint32_t host, int64_t *time_ns)
{
	widen(aligning, host, *time_ns);
}

static int begin_clocks(struct aligning *aligning, struct error *err)
{
	const struct profile_markers *markers = aligning->profile->markers;
	aligning->count = markers->host_count;
	if (aligning->count > PROFILE_ALIGN_HOSTS_MAX + 1)
		return error_set(err, -E2BIG, "a profile of more than %d hosts cannot be aligned", PROFILE_ALIGN_HOSTS_MAX);
	aligning->clocks = mem_zalloc_array(aligning->count, sizeof(*aligning->clocks));
	if (!aligning->clocks)
		return error_nomem(err);
	for (size_t i = 0; i < aligning->count; i++) {
		struct clock *clock = &aligning->clocks[i];
		clock->from_ns = INT64_MAX;
		clock->to_ns = INT64_MIN;
		clock->fit = markers->hosts[i];
		/* What was taken off already is no more to be taken off, and as uncertain as before. */
		if (clock->fit.is_aligned) {
			clock->fit.offset_ns = 0;
			clock->fit.skew = 0;
		}
	}
	return 0;
}

/* ---- facts ---- */

static int sort_facts_by_host(struct aligning *aligning, struct error *err)
{
	size_t at = 0, most = 0;
	for (size_t i = 0; i < aligning->fact_count; i++) {
		aligning->clocks[aligning->facts[i].from].fact_count++;
		aligning->clocks[aligning->facts[i].to].fact_count++;
	}
	for (size_t i = 0; i < aligning->count; i++) {
		struct clock *clock = &aligning->clocks[i];
		clock->fact_first = at;
		at += clock->fact_count;
		most = clock->fact_count > most ? clock->fact_count : most;
		clock->fact_count = 0;
	}
	aligning->by_host = mem_alloc_array(at, sizeof(*aligning->by_host));
	aligning->scratch[0] = mem_alloc_array(most, sizeof(*aligning->scratch[0]));
	aligning->scratch[1] = mem_alloc_array(most, sizeof(*aligning->scratch[1]));
	if (!aligning->by_host || !aligning->scratch[0] || !aligning->scratch[1])
		return error_nomem(err);
	for (uint32_t i = 0; i < aligning->fact_count; i++) {
		struct clock *from = &aligning->clocks[aligning->facts[i].from], *to = &aligning->clocks[aligning->facts[i].to];
		aligning->by_host[from->fact_first + from->fact_count++] = i;
		aligning->by_host[to->fact_first + to->fact_count++] = i;
	}
	return 0;
}

/* Exchanges between hosts whose times are known. */
static int collect_facts(struct aligning *aligning, const struct align_exchanges *exchanges, struct error *err)
{
	const struct profile_markers *markers = aligning->profile->markers;
	aligning->facts = mem_alloc_array(exchanges->count, sizeof(*aligning->facts));
	if (!aligning->facts)
		return error_nomem(err);
	for (size_t i = 0; i < exchanges->count; i++) {
		const struct profile_marker *send = &markers->markers[exchanges->items[i].send],
					    *receive = &markers->markers[exchanges->items[i].receive];
		struct fact fact = {.from = markers->threads[send->thread].host,
				    .to = markers->threads[receive->thread].host,
				    .sent_ns = align_sent_ns(send),
				    .received_ns = align_received_ns(receive)};
		if (fact.from && fact.to && fact.from != fact.to && fact.sent_ns && fact.received_ns)
			aligning->facts[aligning->fact_count++] = fact;
	}
	return sort_facts_by_host(aligning, err);
}

/* The facts of a host with those that are placed: as they were chosen, and as far as the truth is known. Returns how many of
 * both kinds. */
static size_t facts_of(const struct aligning *aligning, uint32_t host, size_t *ret_sure)
{
	const struct clock *clock = &aligning->clocks[host];
	size_t count = 0, sure = 0;
	for (size_t i = 0; i < clock->fact_count; i++) {
		const struct fact *fact = &aligning->facts[aligning->by_host[clock->fact_first + i]];
		bool is_receiver = fact->to == host;
		const struct clock *other = &aligning->clocks[is_receiver ? fact->from : fact->to];
		int64_t other_ns = is_receiver ? fact->sent_ns : fact->received_ns;
		if (!other->is_placed)
			continue;
		int64_t at = clock_line_apply(other->line, other_ns);
		aligning->scratch[0][count++] =
			is_receiver ? clock_fact_to_b(at, fact->received_ns) : clock_fact_to_a(fact->sent_ns, at);
		if (other->known.bound_ns < 0)
			continue;
		at = clock_line_apply(other->known.line, other_ns);
		at = add_saturated(at, is_receiver ? -other->known.bound_ns : other->known.bound_ns);
		aligning->scratch[1][sure++] =
			is_receiver ? clock_fact_to_b(at, fact->received_ns) : clock_fact_to_a(fact->sent_ns, at);
	}
	*ret_sure = sure;
	return count;
}

/* ---- placing ---- */

/* A fit of `host` against a clock that is placed, made one against the reference: by what either was compared with. */
static bool join_fits(const struct aligning *aligning, uint32_t host, uint32_t other, struct clock_fit_options *ret)
{
	const struct clock *clock = &aligning->clocks[host], *placed = &aligning->clocks[other];
	uint32_t name = clock->fit.name, other_name = placed->fit.name;
	struct clock_line line;
	int64_t bound;
	if (clock->fit.reference && clock->fit.reference == other_name) {
		line = line_of(&clock->fit);
		bound = clock->fit.bound_ns;
	} else if (placed->fit.reference && placed->fit.reference == name) {
		line = clock_line_invert(line_of(&placed->fit));
		bound = placed->fit.bound_ns;
	} else if (clock->fit.reference && clock->fit.reference == placed->fit.reference) {
		line = clock_line_join(line_of(&clock->fit), clock_line_invert(line_of(&placed->fit)));
		bound = clock->fit.bound_ns < 0 || placed->fit.bound_ns < 0
				? -1
				: add_saturated(clock->fit.bound_ns, placed->fit.bound_ns);
	} else {
		return false;
	}
	ret->has_guess = true;
	ret->guess = clock_line_join(line, placed->known.line);
	ret->guess_bound_ns = bound < 0 || placed->known.bound_ns < 0 ? -1 : add_saturated(bound, placed->known.bound_ns);
	return true;
}

static bool is_narrower(int64_t bound_ns, int64_t than_ns)
{
	return bound_ns >= 0 && (than_ns < 0 || bound_ns < than_ns);
}

static struct clock_fit_options best_guess(const struct aligning *aligning, uint32_t host)
{
	const struct clock *clock = &aligning->clocks[host];
	struct clock_fit_options best = {.from_ns = clock->from_ns, .to_ns = clock->to_ns, .guess_bound_ns = -1}, one = best;
	if (clock->from_ns > clock->to_ns)
		best.from_ns = best.to_ns = one.from_ns = one.to_ns = 0;
	for (uint32_t i = 1; i < aligning->count; i++)
		if (aligning->clocks[i].is_placed && join_fits(aligning, host, i, &one) &&
		    (!best.has_guess || is_narrower(one.guess_bound_ns, best.guess_bound_ns)))
			best = one;
	best.has_guess = true; /* else the wall clock: a line of 0 */
	return best;
}

/* A host's line, if it were placed now. */
static void fit_clock(struct aligning *aligning, uint32_t host)
{
	struct clock *clock = &aligning->clocks[host];
	size_t sure, count = facts_of(aligning, host, &sure);
	struct clock_fit_options options = best_guess(aligning, host);
	bool has_bound = options.guess_bound_ns >= 0;
	clock->known = clock_fit(aligning->scratch[1], sure, &options);
	if (has_bound && clock->known.slack_ns > 0) {
		/* Flows contradict the fit. */
		options.guess_bound_ns = -1;
		has_bound = false;
		clock->known = clock_fit(aligning->scratch[1], sure, &options);
	}
	clock->tight = clock_fit(aligning->scratch[0], count, &options);
	if (has_bound && clock->tight.slack_ns > 0) {
		options.guess_bound_ns = -1;
		clock->tight = clock_fit(aligning->scratch[0], count, &options);
	}
	clock->is_bound_by_fit = has_bound;
	clock->is_stale = false;
	clock->exchanges = count;
}

static int64_t distance_between(const struct clock *clock, struct clock_line a, struct clock_line b)
{
	int64_t ends[] = {clock->from_ns, clock->to_ns}, most = 0;
	for (size_t i = 0; i < 2 && clock->from_ns <= clock->to_ns; i++) {
		__int128 apart = (__int128)clock_line_offset(a, ends[i]) - clock_line_offset(b, ends[i]);
		apart = apart < 0 ? -apart : apart;
		if (apart > most)
			most = apart > INT64_MAX ? INT64_MAX : (int64_t)apart;
	}
	return most;
}

/* Those whose facts are many, where nothing is known of how good they are. */
static bool is_better(const struct clock *a, const struct clock *b)
{
	if (a->known.bound_ns != b->known.bound_ns)
		return is_narrower(a->known.bound_ns, b->known.bound_ns);
	return a->exchanges > b->exchanges;
}

static bool share_reference(const struct clock *a, const struct clock *b)
{
	return a->fit.reference && (a->fit.reference == b->fit.reference || a->fit.reference == b->fit.name);
}

/* What is known of these changes now that `host` is placed. */
static void mark_stale(struct aligning *aligning, uint32_t host)
{
	const struct clock *placed = &aligning->clocks[host];
	for (size_t i = 0; i < placed->fact_count; i++) {
		const struct fact *fact = &aligning->facts[aligning->by_host[placed->fact_first + i]];
		aligning->clocks[fact->from == host ? fact->to : fact->from].is_stale = true;
	}
	for (uint32_t i = 1; i < aligning->count; i++)
		aligning->clocks[i].is_stale |=
			share_reference(&aligning->clocks[i], placed) || share_reference(placed, &aligning->clocks[i]);
}

/* What each would be if it were next: as long as that is not too much work, for with many hosts that all talk to each other it
 * is the number of hosts times that of facts. */
static void refresh(struct aligning *aligning)
{
	for (uint32_t i = 1; i < aligning->count; i++) {
		struct clock *clock = &aligning->clocks[i];
		if (clock->is_placed || !clock->is_stale || aligning->steps > STEPS_MAX)
			continue;
		fit_clock(aligning, i);
		aligning->steps += 1 + clock->fact_count * (clock->tight.slack_ns > 0 ? STEPS_CONTRADICTING : 1);
	}
}

static void place_all(struct aligning *aligning)
{
	uint32_t placed = aligning->reference;
	aligning->clocks[placed].is_placed = true;
	for (uint32_t i = 1; i < aligning->count; i++)
		if (i != placed)
			fit_clock(aligning, i);
	for (size_t more = 2; more < aligning->count; more++) {
		uint32_t best = 0;
		mark_stale(aligning, placed);
		refresh(aligning);
		for (uint32_t i = 1; i < aligning->count; i++)
			if (!aligning->clocks[i].is_placed &&
			    (!best || is_better(&aligning->clocks[i], &aligning->clocks[best])))
				best = i;
		struct clock *clock = &aligning->clocks[best];
		if (clock->is_stale)
			fit_clock(aligning, best);
		clock->is_placed = true;
		clock->line = clock->tight.line;
		clock->lacks_ns = clock->tight.slack_ns;
		placed = best;
	}
}

/* ---- easing ---- */

/* A fact as a half-plane of the space of all lines, which are given by how far they were moved at both ends of their host's
 * times: `late` plus what the receiver's moves there, less what the sender's does, must not be above 0. */
struct half_space {
	uint32_t from, to;
	double from_part, to_part; /* where in the host's times, 0 = at the beginning, 1 = at the end */
	double late, square;
	bool is_active; /* was violated once */
};
struct move {
	double low, high;
};
struct easing {
	const struct aligning *aligning;
	struct half_space *spaces;
	uint32_t *active;
	size_t active_count;
	struct move *moves; /* by host */
	size_t steps, steps_max;
};

static void easing_release(struct easing *easing)
{
	mem_free(easing->spaces);
	mem_free(easing->active);
	mem_free(easing->moves);
}

static double part_of(const struct clock *clock, int64_t at_ns)
{
	double length = (double)((__int128)clock->to_ns - clock->from_ns);
	return length < 1 ? 0.5 : (double)((__int128)at_ns - clock->from_ns) / length;
}

static struct half_space space_of(const struct aligning *aligning, const struct fact *fact)
{
	const struct clock *from = &aligning->clocks[fact->from], *to = &aligning->clocks[fact->to];
	int64_t sent = clock_line_apply(from->line, fact->sent_ns), received = clock_line_apply(to->line, fact->received_ns);
	struct half_space space = {.from = fact->from,
				   .to = fact->to,
				   .from_part = part_of(from, fact->sent_ns),
				   .to_part = part_of(to, fact->received_ns),
				   .late = (double)((__int128)sent - received)};
	if (fact->from != aligning->reference)
		space.square += space.from_part * space.from_part + (1 - space.from_part) * (1 - space.from_part);
	if (fact->to != aligning->reference)
		space.square += space.to_part * space.to_part + (1 - space.to_part) * (1 - space.to_part);
	return space;
}

static double move_at(struct move move, double part)
{
	return move.low + (move.high - move.low) * part;
}

static void add_move(struct easing *easing, uint32_t host, double part, double by)
{
	if (host == easing->aligning->reference)
		return;
	easing->moves[host].low += by * (1 - part);
	easing->moves[host].high += by * part;
}

/* False if the lines as moved so far satisfy it. */
static bool ease_one(struct easing *easing, const struct half_space *space)
{
	double late = space->late + move_at(easing->moves[space->to], space->to_part) -
		      move_at(easing->moves[space->from], space->from_part);
	easing->steps++;
	if (late <= -EASE_MARGIN_NS)
		return false;
	/* More than is needed, or the last nanoseconds take forever; less than twice as much, or it need not end. */
	double by = (late + EASE_MARGIN_NS + 0.1) * 1.5 / space->square;
	add_move(easing, space->from, space->from_part, by);
	add_move(easing, space->to, space->to_part, -by);
	return true;
}

/* Only few facts are ever violated: they are eased until none is, and then all are looked at again. */
static bool ease_all(struct easing *easing)
{
	size_t count = easing->aligning->fact_count;
	while (easing->steps < easing->steps_max) {
		bool violated = false;
		for (size_t i = 0; i < count; i++) {
			if (!ease_one(easing, &easing->spaces[i]))
				continue;
			violated = true;
			if (!easing->spaces[i].is_active)
				easing->active[easing->active_count++] = (uint32_t)i;
			easing->spaces[i].is_active = true;
		}
		if (!violated)
			return true;
		for (bool again = true; again && easing->steps < easing->steps_max;) {
			again = false;
			for (size_t i = 0; i < easing->active_count; i++)
				again |= ease_one(easing, &easing->spaces[easing->active[i]]);
		}
	}
	return false;
}

static void move_line(struct clock *clock, struct move move)
{
	double length = (double)((__int128)clock->to_ns - clock->from_ns);
	int64_t at = clock->from_ns;
	clock->line.offset_ns =
		add_saturated(clock_line_offset(clock->line, at), llround(length < 1 ? move_at(move, 0.5) : move.low));
	clock->line.at_ns = at;
	if (length >= 1)
		clock->line.skew += (move.high - move.low) / length;
	clock->lacks_ns = 0;
}

static int ease(struct aligning *aligning, struct error *err)
{
	bool lacks = false;
	for (size_t i = 1; i < aligning->count; i++)
		lacks |= aligning->clocks[i].lacks_ns > 0;
	if (!lacks || aligning->count <= 3)
		return 0;
	_cleanup_(easing_release) struct easing easing = {
		.aligning = aligning,
		.spaces = mem_alloc_array(aligning->fact_count, sizeof(*easing.spaces)),
		.active = mem_alloc_array(aligning->fact_count, sizeof(*easing.active)),
		.moves = mem_zalloc_array(aligning->count, sizeof(*easing.moves)),
	};
	if (!easing.spaces || !easing.active || !easing.moves)
		return error_nomem(err);
	for (size_t i = 0; i < aligning->fact_count; i++)
		easing.spaces[i] = space_of(aligning, &aligning->facts[i]);
	easing.steps_max = aligning->fact_count < STEPS_MAX / STEPS_A_FACT ? aligning->fact_count * STEPS_A_FACT : STEPS_MAX;
	if (!ease_all(&easing))
		return 0;
	for (size_t i = 1; i < aligning->count; i++)
		if (i != aligning->reference)
			move_line(&aligning->clocks[i], easing.moves[i]);
	return 0;
}

/* ---- the outcome ---- */

static int name_method(struct aligning *aligning, uint32_t host, char *out, size_t size)
{
	const struct clock *clock = &aligning->clocks[host];
	const char *fit = profile_string(aligning->profile, clock->fit.method), *way = *fit ? fit : "wall clock";
	char lacks[TIME_TEXT_MAX];
	if (host == aligning->reference)
		return snprintf(out, size, "reference");
	if (clock->exchanges == 0)
		return snprintf(out, size, "%.64s", way);
	if (clock->lacks_ns > 0)
		return snprintf(out, size, "flows that contradict each other by %s",
				time_format_duration(clock->lacks_ns, lacks));
	if (clock->is_bound_by_fit)
		return snprintf(out, size, "flows and %.64s", way);
	if (clock->known.bound_ns >= 0)
		return snprintf(out, size, "flows");
	return snprintf(out, size, "%.64s, limited by flows", way);
}

static int describe_host(struct aligning *aligning, uint32_t host, struct error *err)
{
	const struct clock *clock = &aligning->clocks[host];
	struct profile_markers *markers = aligning->profile->markers;
	struct profile_host *described = &markers->hosts[host];
	struct clock_line line = clock->line, before = line_of(described);
	char method[128];
	/* What was taken off before is part of it. A line of 0 is 0 anywhere: it is given for times that the profile has. */
	if (described->reference == described->name)
		before.at_ns = line.at_ns;
	if (described->is_aligned && described->reference)
		line = clock_line_join(before, line);
	line = host == aligning->reference ? (struct clock_line){0} : clock_line_join(line, aligning->back);
	described->at_ns = line.at_ns;
	described->offset_ns = line.offset_ns;
	described->skew = line.skew;
	described->exchanges = clock->exchanges;
	described->bound_ns = clock->known.bound_ns;
	if (described->bound_ns >= 0)
		described->bound_ns =
			add_saturated(described->bound_ns, distance_between(clock, clock->line, clock->known.line));
	described->reference = markers->hosts[aligning->reference].name;
	described->is_aligned = true;
	name_method(aligning, host, method, sizeof(method));
	return profile_add_cstring(aligning->profile, method, &described->method, err);
}

static void move_time(struct aligning *aligning, uint32_t host, int64_t *time_ns)
{
	if (*time_ns == 0 || host == 0 || (host == aligning->reference && !aligning->has_back))
		return;
	int64_t moved = clock_line_apply(aligning->back, clock_line_apply(aligning->clocks[host].line, *time_ns));
	*time_ns = moved > 0 ? moved : 1; /* 0 = unknown */
}

static void move_all(struct aligning *aligning)
{
	struct profile_markers *markers = aligning->profile->markers;
	visit_times(aligning, move_time);
	for (size_t i = 1; i < markers->thread_count; i++)
		move_time(aligning, markers->threads[i].host, &markers->threads[i].start_ns);
	for (size_t i = 1; i < markers->lifetime_count; i++) {
		move_time(aligning, markers->lifetimes[i].host, &markers->lifetimes[i].start_ns);
		move_time(aligning, markers->lifetimes[i].host, &markers->lifetimes[i].end_ns);
	}
	/* From rounding. */
	for (size_t i = 0; i < markers->marker_count; i++)
		if (markers->markers[i].phase == PROFILE_MARKER_INTERVAL &&
		    markers->markers[i].end_ns < markers->markers[i].start_ns)
			markers->markers[i].end_ns = markers->markers[i].start_ns;
}

/* From the first to the last time of all. */
static void set_range(struct aligning *aligning)
{
	struct profile *profile = aligning->profile;
	int64_t first = INT64_MAX, last = INT64_MIN, moved;
	for (size_t i = 0; i < aligning->count; i++) {
		aligning->clocks[i].from_ns = INT64_MAX;
		aligning->clocks[i].to_ns = INT64_MIN;
	}
	visit_times(aligning, see_time);
	for (size_t i = 0; i < aligning->count; i++) {
		first = aligning->clocks[i].from_ns < first ? aligning->clocks[i].from_ns : first;
		last = aligning->clocks[i].to_ns > last ? aligning->clocks[i].to_ns : last;
	}
	if (first > last)
		return;
	/* Of several hosts there is no such clock; else it goes with the time that it was read at. */
	if (aligning->count > 2 || profile->time_ns == 0 || profile->monotonic_ns == 0 ||
	    __builtin_sub_overflow(first, profile->time_ns, &moved) ||
	    __builtin_add_overflow(profile->monotonic_ns, moved, &profile->monotonic_ns) || profile->monotonic_ns < 0)
		profile->monotonic_ns = 0;
	profile->time_ns = first;
	if (__builtin_sub_overflow(last, first, &profile->duration_ns))
		profile->duration_ns = INT64_MAX;
}

static int move_times(struct aligning *aligning, const struct align_exchanges *exchanges, struct error *err)
{
	int r = collect_facts(aligning, exchanges, err);
	if (r < 0)
		return r;
	place_all(aligning);
	r = ease(aligning, err);
	if (r < 0)
		return r;
	move_all(aligning);
	for (uint32_t i = 1; r == 0 && i < aligning->count; i++)
		r = describe_host(aligning, i, err);
	if (r == 0)
		r = profile_reindex_markers(aligning->profile, err);
	return r < 0 ? r : profile_aggregate(aligning->profile, err);
}

int profile_align(struct profile *profile, const struct profile_align_options *options, struct profile_align_result *ret,
		  struct error *err)
{
	static const struct profile_align_options none;
	struct align_exchanges exchanges = {0};
	struct profile_align_result result = {0};
	_cleanup_(aligning_release) struct aligning aligning = {.profile = profile};
	options = options ? options : &none;
	if (ret)
		*ret = result;
	int r = find_hosts_of_samples(&aligning, err);
	if (r < 0 || !profile->markers)
		return r;
	r = begin_clocks(&aligning, err);
	if (r < 0)
		return r;
	align_drop_exchange_markers(profile);
	visit_times(&aligning, see_time);
	if (align_find_exchanges(profile, &exchanges) < 0)
		r = error_nomem(err);
	if (r == 0 && !options->keep_times && aligning.count > 1) {
		r = find_reference(&aligning, options->reference, err);
		if (r == 0)
			r = move_times(&aligning, &exchanges, err);
	}
	set_range(&aligning);
	if (r == 0)
		r = align_draw_exchanges(profile, &exchanges, &result.reversed, err);
	result.exchanges = exchanges.count;
	result.ambiguous = exchanges.ambiguous;
	mem_free(exchanges.items);
	if (r == 0 && ret)
		*ret = result;
	return r;
}
