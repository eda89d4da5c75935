/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How the clock of one host stands to that of another, from facts of one kind: "when clock B showed t, it was ahead of clock A
 * by at most (or at least) so much". Messages give them: what A sent when its clock showed a is received when B's shows b, so B
 * was ahead by at most b - a then. Pure arithmetic: no clock is read here, and nothing is allocated. The method is in
 * clock_fit.c.
 *
 * All times are nanoseconds of whatever clocks, any 64-bit values; sums saturate.
 */
#ifndef WICK_BASE_CLOCK_FIT_H
#define WICK_BASE_CLOCK_FIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The most that clocks are taken to run apart: 500 ppm, which is also the most that Linux corrects one by. */
#define CLOCK_SKEW_MAX 5e-4

/* When clock B shows t, it is ahead of clock A by offset_ns + skew * (t - at_ns). */
struct clock_line {
	int64_t at_ns, offset_ns;
	double skew;
};
int64_t clock_line_offset(struct clock_line line, int64_t time_ns); /* at a time of B */
int64_t clock_line_apply(struct clock_line line, int64_t time_ns);  /* what A shows when B shows time_ns */
/* The other way round: A's clock against B's. */
struct clock_line clock_line_invert(struct clock_line line);
/* C's clock against A's, of C's against B's and B's against A's. */
struct clock_line clock_line_join(struct clock_line c_to_b, struct clock_line b_to_a);

struct clock_fact {
	int64_t at_ns;	  /* of B's clock */
	int64_t limit_ns; /* B - A */
	bool is_upper;	  /* at most; else at least */
};
/* What was sent at sent_ns is received at received_ns. */
struct clock_fact clock_fact_to_b(int64_t sent_ns_of_a, int64_t received_ns_of_b);
struct clock_fact clock_fact_to_a(int64_t sent_ns_of_b, int64_t received_ns_of_a);

struct clock_fit_options {
	int64_t from_ns, to_ns; /* of B: where the line must be good; facts outside widen it. 0, 0 = that of the facts */
	double skew_max;	/* 0 = CLOCK_SKEW_MAX */
	/* What is known besides, and by how much it may be wrong; negative = nobody knows, and then it counts only as far as
	 * facts leave the line open. */
	bool has_guess;
	struct clock_line guess;
	int64_t guess_bound_ns;
};
struct clock_fit {
	struct clock_line line;
	int64_t bound_ns; /* between from and to the line is off by so much at most; negative = nobody knows */
	/* 0, or by how much facts had to be stretched to agree: clocks are no line, or a fact is false. The bound holds it, and
	 * is an estimate then. */
	int64_t slack_ns;
	bool has_upper, has_lower; /* what facts there were, the guess apart */
};
/* The line that all facts allow, in the middle of what they allow. Without facts the guess, and without that a line of 0. Takes
 * count * 6 steps, some 60 times as many if facts contradict each other. options NULL = all 0. */
struct clock_fit clock_fit(const struct clock_fact *facts, size_t count, const struct clock_fit_options *options);

#endif
