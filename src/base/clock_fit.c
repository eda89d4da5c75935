/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A line between two clocks from one-sided facts.
 *
 * The unknown is how far clock B is ahead of clock A: v(t), a line over a window [from, to] of B's time. A line is a point
 * (x, y) = (v(from), v(to)) of a plane. With u = (t - from) / (to - from), a fact "at t at most L" is the half-plane
 *
 *     (1 - u) * x + u * y <= L
 *
 * and "at least L" the other one. Clocks that run apart by s at most give |x - y| <= s * (to - from), so that the tightest
 * facts of both kinds bound a box to begin with. Clipping the box by every half-plane (Sutherland and Hodgman, Reentrant
 * polygon clipping, 1974) leaves a convex polygon: all lines that the facts allow, the true one among them. Few facts cut
 * anything, and a polygon of some hundred thousand facts has six corners or so.
 *
 * The answer is the centre of the polygon's bounding box. A convex set that touches all four sides of a box holds its centre
 * (the corners of any quadrilateral with one corner on each side of a box go around the centre), so the centre satisfies all
 * facts itself. And no point of the polygon is further from it than half a side in x or in y, so the true line is nowhere in
 * the window further off than half the larger side: that is the bound. Least squares, the usual way, would follow the average
 * delay of messages, which is not the same both ways, could put a receive before its send, and has no such bound.
 *
 * The times that come out are whole nanoseconds, so the line is chosen with facts that are 1 ns tighter than they are, unless
 * that leaves nothing, and the bound is 1 ns wider.
 *
 * Facts contradict each other if a clock is set or bent within the window, or if a fact is false. Then all are stretched by
 * the same slack, the smallest that leaves a line, found by doubling and halving to 1 part in 1,000; the bound, which then
 * proves nothing, grows by it.
 *
 * Doubles hold whole nanoseconds up to 104 days. All limits are taken relative to one of them, so only their range counts.
 */
#include "base/clock_fit.h"

#include <math.h>
#include <string.h>

#define MARGIN_NS   1.0
#define WINDOW_MIN  1000000 /* ns: what is shorter has no skew that one could see */
#define CORNERS_MAX 64
#define OPEN_NS	    1e9	 /* how far a box reaches where no fact ends it */
#define SLACK_MAX   1e19 /* more than any two 64-bit times are apart */

/* ---- lines ---- */

static int64_t saturate(__int128 value)
{
	return value > INT64_MAX ? INT64_MAX : value < INT64_MIN ? INT64_MIN : (int64_t)value;
}

static __int128 whole(double value)
{
	return fabs(value) < 1e30 ? (__int128)nearbyint(value) : value > 0 ? INT64_MAX : INT64_MIN;
}

static __int128 offset_at(struct clock_line line, int64_t time_ns)
{
	return line.offset_ns + whole(line.skew * (double)((__int128)time_ns - line.at_ns));
}

int64_t clock_line_offset(struct clock_line line, int64_t time_ns)
{
	return saturate(offset_at(line, time_ns));
}

int64_t clock_line_apply(struct clock_line line, int64_t time_ns)
{
	return saturate(time_ns - offset_at(line, time_ns));
}

struct clock_line clock_line_invert(struct clock_line line)
{
	return (struct clock_line){.at_ns = saturate((__int128)line.at_ns - line.offset_ns),
				   .offset_ns = saturate(-(__int128)line.offset_ns),
				   .skew = line.skew < 1 ? -line.skew / (1 - line.skew) : 0};
}

struct clock_line clock_line_join(struct clock_line c_to_b, struct clock_line b_to_a)
{
	__int128 at_b = (__int128)c_to_b.at_ns - c_to_b.offset_ns;
	return (struct clock_line){.at_ns = c_to_b.at_ns,
				   .offset_ns = saturate(c_to_b.offset_ns + offset_at(b_to_a, saturate(at_b))),
				   .skew = c_to_b.skew + b_to_a.skew * (1 - c_to_b.skew)};
}

/* ---- facts ---- */

struct clock_fact clock_fact_to_b(int64_t sent_ns_of_a, int64_t received_ns_of_b)
{
	return (struct clock_fact){
		.at_ns = received_ns_of_b, .limit_ns = saturate((__int128)received_ns_of_b - sent_ns_of_a), .is_upper = true};
}

struct clock_fact clock_fact_to_a(int64_t sent_ns_of_b, int64_t received_ns_of_a)
{
	return (struct clock_fact){.at_ns = sent_ns_of_b, .limit_ns = saturate((__int128)sent_ns_of_b - received_ns_of_a)};
}

/* ---- polygons ---- */

struct point {
	double x, y;
};
struct polygon {
	struct point corners[CORNERS_MAX];
	size_t count;
	double lost; /* how far corners that were given up stood out */
};
/* a * x + b * y <= limit */
struct half_plane {
	double a, b, limit;
};

static double outside(struct half_plane plane, struct point point)
{
	return plane.a * point.x + plane.b * point.y - plane.limit;
}

/* Drops the corner that stands out least. */
static void drop_corner(struct polygon *polygon)
{
	size_t least = 0;
	double least_height = INFINITY;
	for (size_t i = 0; i < polygon->count; i++) {
		const struct point *before = &polygon->corners[(i + polygon->count - 1) % polygon->count],
				   *at = &polygon->corners[i], *after = &polygon->corners[(i + 1) % polygon->count];
		double height = fmin(hypot(at->x - before->x, at->y - before->y), hypot(at->x - after->x, at->y - after->y));
		if (height < least_height) {
			least = i;
			least_height = height;
		}
	}
	polygon->lost = fmax(polygon->lost, least_height);
	polygon->count--;
	memmove(polygon->corners + least, polygon->corners + least + 1, (polygon->count - least) * sizeof(*polygon->corners));
}

static void clip(struct polygon *polygon, struct half_plane plane)
{
	double distances[CORNERS_MAX];
	bool cuts = false;
	for (size_t i = 0; i < polygon->count; i++) {
		distances[i] = outside(plane, polygon->corners[i]);
		cuts |= distances[i] > 0;
	}
	if (!cuts)
		return;
	struct point corners[2 * CORNERS_MAX];
	size_t count = 0;
	for (size_t i = 0; i < polygon->count; i++) {
		size_t next = (i + 1) % polygon->count;
		const struct point *at = &polygon->corners[i], *after = &polygon->corners[next];
		if (distances[i] <= 0)
			corners[count++] = *at;
		if ((distances[i] < 0 && distances[next] > 0) || (distances[i] > 0 && distances[next] < 0)) {
			double part = distances[i] / (distances[i] - distances[next]);
			corners[count++] = (struct point){at->x + part * (after->x - at->x), at->y + part * (after->y - at->y)};
		}
	}
	/* One line crosses a convex polygon twice, which makes one corner more; but what is left of a polygon after rounding
	 * need not be convex, and may be crossed at every other corner. */
	polygon->count = count < CORNERS_MAX ? count : CORNERS_MAX;
	memcpy(polygon->corners, corners, polygon->count * sizeof(*corners));
	if (polygon->count == CORNERS_MAX)
		drop_corner(polygon);
}

static struct point centre_of(const struct polygon *polygon)
{
	struct point low = polygon->corners[0], high = low;
	for (size_t i = 1; i < polygon->count; i++) {
		low.x = fmin(low.x, polygon->corners[i].x);
		low.y = fmin(low.y, polygon->corners[i].y);
		high.x = fmax(high.x, polygon->corners[i].x);
		high.y = fmax(high.y, polygon->corners[i].y);
	}
	return (struct point){(low.x + high.x) / 2, (low.y + high.y) / 2};
}

/* How far the lines of the polygon are from this one at most, at either end and so between them. */
static double radius_around(const struct polygon *polygon, struct point point)
{
	double radius = 0;
	for (size_t i = 0; i < polygon->count; i++)
		radius = fmax(radius, fmax(fabs(polygon->corners[i].x - point.x), fabs(polygon->corners[i].y - point.y)));
	return radius + polygon->lost;
}

/* ---- fitting ---- */

struct fitting {
	const struct clock_fact *facts;
	size_t count;
	int64_t from_ns, to_ns, base_ns; /* limits are relative to base_ns */
	double apart;			 /* what v(from) and v(to) differ by at most */
	double upper, lower;		 /* the tightest limits; infinite = none */
	bool has_guess;
	bool is_guess_a_fact;
	struct point guess;
	double guess_bound;
};

static double relative(const struct fitting *fitting, int64_t value)
{
	return (double)((__int128)value - fitting->base_ns);
}

static struct half_plane plane_of(const struct fitting *fitting, const struct clock_fact *fact, double slack)
{
	double part = (double)((__int128)fact->at_ns - fitting->from_ns) /
		      (double)((__int128)fitting->to_ns - fitting->from_ns),
	       limit = relative(fitting, fact->limit_ns);
	if (fact->is_upper)
		return (struct half_plane){1 - part, part, limit + slack};
	return (struct half_plane){part - 1, -part, slack - limit};
}

/* |v - guess| <= radius at both ends, and so between them. */
static void clip_to_guess(const struct fitting *fitting, double radius, struct polygon *polygon)
{
	clip(polygon, (struct half_plane){1, 0, fitting->guess.x + radius});
	clip(polygon, (struct half_plane){-1, 0, radius - fitting->guess.x});
	clip(polygon, (struct half_plane){0, 1, fitting->guess.y + radius});
	clip(polygon, (struct half_plane){0, -1, radius - fitting->guess.y});
}

static struct polygon first_box(const struct fitting *fitting, double slack)
{
	double reach = fitting->apart + fabs(slack) + OPEN_NS;
	double top = fitting->upper + fitting->apart + slack, bottom = fitting->lower - fitting->apart - slack;
	double guess_top = fmax(fitting->guess.x, fitting->guess.y), guess_bottom = fmin(fitting->guess.x, fitting->guess.y);
	if (isinf(top))
		top = fmax(isinf(bottom) ? guess_top : bottom, guess_top) + reach;
	if (isinf(bottom))
		bottom = fmin(top, guess_bottom) - reach;
	struct polygon box = {.corners = {{bottom, bottom}, {top, bottom}, {top, top}, {bottom, top}}, .count = 4};
	if (bottom > top)
		box.count = 0;
	clip(&box, (struct half_plane){1, -1, fitting->apart});
	clip(&box, (struct half_plane){-1, 1, fitting->apart});
	return box;
}

/* The lines that all facts allow when they are stretched by `slack`; no corners if there is none. */
static struct polygon allowed(const struct fitting *fitting, double slack)
{
	struct polygon polygon = first_box(fitting, slack);
	if (fitting->is_guess_a_fact)
		clip_to_guess(fitting, fmax(fitting->guess_bound + slack, 0), &polygon);
	for (size_t i = 0; i < fitting->count && polygon.count > 0; i++)
		clip(&polygon, plane_of(fitting, &fitting->facts[i], slack));
	return polygon;
}

static struct polygon allowed_with_least_slack(const struct fitting *fitting, double *ret_slack)
{
	double low = -MARGIN_NS, high = 0;
	struct polygon polygon = allowed(fitting, low);
	*ret_slack = low;
	if (polygon.count > 0)
		return polygon;
	for (; polygon.count == 0 && high<SLACK_MAX; high = high> 0 ? 2 * high : 1) {
		polygon = allowed(fitting, high);
		if (polygon.count > 0)
			break;
		low = high;
	}
	if (low >= 0 && polygon.count > 0)
		for (int i = 0; i < 10 && high - low > 0.5; i++) {
			double middle = (low + high) / 2;
			struct polygon tighter = allowed(fitting, middle);
			if (tighter.count > 0) {
				polygon = tighter;
				high = middle;
			} else {
				low = middle;
			}
		}
	*ret_slack = high;
	return polygon;
}

/* Of what facts leave open, what is nearest to the guess. */
static void approach_guess(const struct fitting *fitting, struct polygon *polygon)
{
	double low = 0, high = 1;
	struct polygon near = *polygon;
	clip_to_guess(fitting, 0, &near);
	for (; near.count == 0 && high < SLACK_MAX; high *= 2) {
		near = *polygon;
		clip_to_guess(fitting, high, &near);
		low = high / 2;
	}
	if (near.count == 0)
		return;
	for (int i = 0; i < 60 && high - low > 1; i++) {
		double middle = (low + high) / 2;
		struct polygon nearer = *polygon;
		clip_to_guess(fitting, middle, &nearer);
		if (nearer.count > 0) {
			near = nearer;
			high = middle;
		} else {
			low = middle;
		}
	}
	*polygon = near;
}

static void find_limits(struct fitting *fitting, const struct clock_fit_options *options)
{
	int64_t upper = INT64_MAX, lower = INT64_MIN;
	bool has_upper = false, has_lower = false, has_window = options->from_ns != 0 || options->to_ns != 0;
	fitting->from_ns = has_window ? options->from_ns : INT64_MAX;
	fitting->to_ns = has_window ? options->to_ns : INT64_MIN;
	for (size_t i = 0; i < fitting->count; i++) {
		const struct clock_fact *fact = &fitting->facts[i];
		if (fact->at_ns < fitting->from_ns)
			fitting->from_ns = fact->at_ns;
		if (fact->at_ns > fitting->to_ns)
			fitting->to_ns = fact->at_ns;
		if (fact->is_upper && fact->limit_ns <= upper) {
			upper = fact->limit_ns;
			has_upper = true;
		} else if (!fact->is_upper && fact->limit_ns >= lower) {
			lower = fact->limit_ns;
			has_lower = true;
		}
	}
	if (fitting->from_ns > fitting->to_ns)
		fitting->from_ns = fitting->to_ns = fitting->has_guess ? options->guess.at_ns : 0;
	if ((__int128)fitting->to_ns - fitting->from_ns < WINDOW_MIN) {
		fitting->from_ns = saturate((__int128)fitting->from_ns - WINDOW_MIN / 2);
		fitting->to_ns = saturate((__int128)fitting->to_ns + WINDOW_MIN / 2);
	}
	fitting->base_ns = has_upper ? upper : has_lower ? lower : fitting->has_guess ? options->guess.offset_ns : 0;
	fitting->upper = has_upper ? 0 : INFINITY;
	fitting->lower = has_lower ? relative(fitting, lower) : -INFINITY;
}

static void read_guess(struct fitting *fitting, const struct clock_fit_options *options)
{
	if (!fitting->has_guess) {
		/* Any will do that is near what the facts say. */
		double any = isfinite(fitting->upper) ? fitting->upper : isfinite(fitting->lower) ? fitting->lower : 0;
		fitting->guess = (struct point){any, any};
		return;
	}
	fitting->guess.x = relative(fitting, clock_line_offset(options->guess, fitting->from_ns));
	fitting->guess.y = relative(fitting, clock_line_offset(options->guess, fitting->to_ns));
	fitting->is_guess_a_fact = options->guess_bound_ns >= 0;
	fitting->guess_bound = (double)options->guess_bound_ns;
	if (!fitting->is_guess_a_fact)
		return;
	fitting->upper = fmin(fitting->upper, fmax(fitting->guess.x, fitting->guess.y) + fitting->guess_bound);
	fitting->lower = fmax(fitting->lower, fmin(fitting->guess.x, fitting->guess.y) - fitting->guess_bound);
}

static struct clock_line line_through(const struct fitting *fitting, struct point point)
{
	__int128 window = (__int128)fitting->to_ns - fitting->from_ns, half = window / 2;
	return (struct clock_line){
		.at_ns = saturate(fitting->from_ns + half),
		.offset_ns =
			saturate(fitting->base_ns + whole(point.x + (point.y - point.x) * ((double)half / (double)window))),
		.skew = (point.y - point.x) / (double)window,
	};
}

struct clock_fit clock_fit(const struct clock_fact *facts, size_t count, const struct clock_fit_options *options)
{
	static const struct clock_fit_options none;
	const struct clock_fit_options *use = options ? options : &none;
	struct fitting fitting = {.facts = facts, .count = count, .has_guess = use->has_guess};
	find_limits(&fitting, use);
	struct clock_fit fit = {.has_upper = isfinite(fitting.upper), .has_lower = isfinite(fitting.lower)};
	fitting.apart =
		(use->skew_max > 0 ? use->skew_max : CLOCK_SKEW_MAX) * (double)((__int128)fitting.to_ns - fitting.from_ns);
	read_guess(&fitting, use);
	bool is_bounded = isfinite(fitting.upper) && isfinite(fitting.lower);
	double slack;
	struct polygon polygon = allowed_with_least_slack(&fitting, &slack);
	if (polygon.count == 0) { /* only if numbers are beyond what doubles hold */
		fit.line = use->guess;
		fit.bound_ns = -1;
		return fit;
	}
	if (!is_bounded)
		approach_guess(&fitting, &polygon);
	struct point centre = centre_of(&polygon);
	fit.line = line_through(&fitting, centre);
	fit.slack_ns = slack > 0 ? saturate(whole(ceil(slack))) : 0;
	fit.bound_ns = -1;
	if (is_bounded) {
		/* The margin is ours: the true line may be where it cut. */
		if (slack < 0)
			polygon = allowed(&fitting, 0);
		fit.bound_ns = saturate(whole(ceil(radius_around(&polygon, centre))) + fit.slack_ns + 1);
	}
	return fit;
}
