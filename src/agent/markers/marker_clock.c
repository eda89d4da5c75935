/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Times of markers. The counter of the processor runs at a constant rate, CLOCK_MONOTONIC at one that NTP bends by up to 500
 * ppm: but the rings are emptied all the time, so what they hold lies between two pairs that are close to each other, and is as
 * exact as these are. Old pairs are downsampled: only spans that began long ago go by them.
 *
 * A pair is read after a ring's head and before its records are, so that all of them lie before it: no line is drawn further
 * than it is known. Rings are emptied more often than pairs need be kept, so the last pair only stays until the next one if it
 * is near the one before it.
 */
#include <errno.h>
#if defined(__x86_64__)
#include <x86intrin.h>
#endif

#include "agent/markers/marker_recorder_int.h"
#include "base/alloc.h"
#include "base/sorted.h"
#include "base/time.h"

#define PAIR_NS	    (10 * NS_PER_MS)
#define PAIRS_MAX   16384u /* then every other one goes */
#define TRIES	    10
#define TICKS_CLOSE 1000 /* as two readings without anything in between: below a microsecond */

static uint64_t read_ticks(void)
{
#if defined(__x86_64__)
	return __rdtsc();
#else
	return 0;
#endif
}

/* The first one that is close, or the closest of all tries: in between, the thread may be put off the CPU. */
static struct marker_clock_pair read_pair(const struct marker_clock *clock)
{
	struct marker_clock_pair best = {0};
	uint64_t least = UINT64_MAX;
	for (int i = 0; i < TRIES && least > TICKS_CLOSE; i++) {
		uint64_t before = read_ticks();
		int64_t ns = time_monotonic_ns();
		uint64_t after = read_ticks();
		if (after - before < least) {
			least = after - before;
			best = (struct marker_clock_pair){.ticks = before + least / 2, .ns = ns + clock->to_wall_ns};
		}
	}
	return best;
}

int marker_clock_init(struct marker_clock *clock)
{
	*clock = (struct marker_clock){0};
	clock->to_wall_ns = time_now_ns() - time_monotonic_ns();
	clock->boot_ns = time_now_ns() - time_boottime_ns();
	clock->begin_ns = clock->end_ns = clock->taken_ns = time_monotonic_ns() + clock->to_wall_ns;
	return marker_clock_tick(clock);
}

int marker_clock_begin(struct marker_clock *clock, int64_t begin_ns)
{
	clock->end_ns = time_monotonic_ns() + clock->to_wall_ns;
	clock->begin_ns = clock->taken_ns = begin_ns ? begin_ns : clock->end_ns;
	/* Until there is a second pair all times are that of the first one, which must not lie before the beginning. */
	clock->count = 0;
	return marker_clock_tick(clock);
}

void marker_clock_release(struct marker_clock *clock)
{
	clock->pairs = mem_free(clock->pairs);
	clock->count = clock->capacity = 0;
}

/* Whether the last pair is so near the one before it that the next one replaces it. The first one is the beginning. */
static bool is_last_passing(const struct marker_clock *clock)
{
	return clock->count > 1 && clock->pairs[clock->count - 1].ns - clock->pairs[clock->count - 2].ns < PAIR_NS;
}

int marker_clock_tick(struct marker_clock *clock)
{
	int64_t now_ns = time_monotonic_ns() + clock->to_wall_ns;
	if (clock->end_ns < now_ns)
		clock->end_ns = now_ns;
	if (clock->count == PAIRS_MAX) {
		for (size_t i = 0; i < PAIRS_MAX / 2; i++)
			clock->pairs[i] = clock->pairs[2 * i];
		clock->count = PAIRS_MAX / 2;
	}
	if (array_reserve(&clock->pairs, &clock->capacity, clock->count + 1, PAIRS_MAX) < 0)
		return -ENOMEM;
	struct marker_clock_pair pair = read_pair(clock);
	const struct marker_clock_pair *last = clock->count ? &clock->pairs[clock->count - 1] : NULL;
	if (last && (pair.ticks <= last->ticks || pair.ns <= last->ns))
		return 0;
	clock->count -= is_last_passing(clock);
	clock->pairs[clock->count++] = pair;
	return 0;
}

void marker_clock_renew(struct marker_clock *clock)
{
	int64_t shift_ns = time_now_ns() - time_monotonic_ns() - clock->to_wall_ns;
	for (size_t i = 0; i < clock->count; i++)
		clock->pairs[i].ns += shift_ns;
	clock->to_wall_ns += shift_ns;
	clock->begin_ns += shift_ns;
	clock->end_ns += shift_ns;
	clock->taken_ns = clock->end_ns;
	clock->boot_ns = time_now_ns() - time_boottime_ns();
}

static int64_t clamp(double ns)
{
	return ns > 9.2e18 ? INT64_MAX : ns < -9.2e18 ? INT64_MIN : (int64_t)ns;
}

static int64_t wall_of_ticks(const struct marker_clock *clock, uint64_t ticks)
{
	if (clock->count < 2)
		return clock->pairs[0].ns;
	/* The pair before it, and the one behind; outside, the line of the nearest two goes on. */
	const struct marker_clock_pair *b = clock->pairs + 1, *a;
	b += sorted_count_up_to(b, clock->count - 2, ticks, ticks);
	a = b - 1;
	double since = ticks >= a->ticks ? (double)(ticks - a->ticks) : -(double)(a->ticks - ticks);
	double ns = since * (double)(b->ns - a->ns) / (double)(b->ticks - a->ticks);
	int64_t wall;
	return __builtin_add_overflow(a->ns, clamp(ns), &wall) ? (ns > 0 ? INT64_MAX : INT64_MIN) : wall;
}

int64_t marker_clock_wall_ns(const struct marker_clock *clock, uint32_t kind, uint64_t ticks)
{
	int64_t ns;
	if (kind == WICKMARK_CLOCK_TSC)
		return wall_of_ticks(clock, ticks);
	return ticks > INT64_MAX || __builtin_add_overflow((int64_t)ticks, clock->to_wall_ns, &ns) ? INT64_MAX : ns;
}
