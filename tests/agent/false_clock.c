/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Another host's clocks, for a program that is started with this as LD_PRELOAD: the wall clock is ahead by WICK_FALSE_AHEAD_NS,
 * and all clocks run too fast by WICK_FALSE_FAST_PPB (1000 = 1 ppm) from the first look on. Debian's faketime will not do: it
 * gives the monotonic clock another origin, which the kernel's times of samples do not have.
 *
 * Compiled with -DCHECK it is a program that prints by how much the clocks are off, as the kernel tells by system calls:
 * "AHEAD_NS WALL_PPB MONOTONIC_NS MONOTONIC_PPB", over four seconds.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static int64_t ns_of(struct timespec time)
{
	return time.tv_sec * 1000000000ll + time.tv_nsec;
}

#ifndef CHECK
#include <dlfcn.h>

/* As the C library's; the vDSO answers, so that a process that may make few system calls may ask the time. */
int clock_gettime(clockid_t clock, struct timespec *time)
{
	static int (*real)(clockid_t, struct timespec *);
	static int64_t begun_ns, ahead_ns, fast_ppb;
	struct timespec steady;
	if (!real) {
		const char *ahead = getenv("WICK_FALSE_AHEAD_NS"), *fast = getenv("WICK_FALSE_FAST_PPB");
		int (*found)(clockid_t, struct timespec *) =
			(int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
		found(CLOCK_MONOTONIC, &steady);
		begun_ns = ns_of(steady);
		ahead_ns = ahead ? strtoll(ahead, NULL, 10) : 0;
		fast_ppb = fast ? strtoll(fast, NULL, 10) : 0;
		real = found;
	}
	int r = real(clock, time);
	if (r || (clock != CLOCK_REALTIME && clock != CLOCK_MONOTONIC && clock != CLOCK_BOOTTIME))
		return r;
	real(CLOCK_MONOTONIC, &steady);
	int64_t ns = ns_of(*time) + (int64_t)((double)(ns_of(steady) - begun_ns) * (double)fast_ppb * 1e-9);
	ns += clock == CLOCK_REALTIME ? ahead_ns : 0;
	*time = (struct timespec){ns / 1000000000, ns % 1000000000};
	return 0;
}
#else
struct difference {
	int64_t ns, at_ns; /* by how much the clock is ahead, when */
};

/* Of the two readings that are closest; on a busy machine it takes long until nothing comes between them. */
static struct difference off_by(clockid_t clock)
{
	struct timespec seen, real, again, now;
	struct difference best = {0};
	int64_t least = INT64_MAX;
	for (int i = 0; i < 1000 || (least > 1500 && i < 300000); i++) {
		syscall(SYS_clock_gettime, clock, &real);
		clock_gettime(clock, &seen);
		syscall(SYS_clock_gettime, clock, &again);
		if (ns_of(again) - ns_of(real) < least) {
			least = ns_of(again) - ns_of(real);
			syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &now);
			best = (struct difference){ns_of(seen) - ns_of(real) - least / 2, ns_of(now)};
		}
	}
	return best;
}

/* In parts of 10^9. */
static double drift_of(struct difference from, struct difference to)
{
	return (double)(to.ns - from.ns) / ((double)(to.at_ns - from.at_ns) * 1e-9);
}

int main(void)
{
	struct difference wall = off_by(CLOCK_REALTIME), steady = off_by(CLOCK_MONOTONIC);
	sleep(4);
	struct difference wall_later = off_by(CLOCK_REALTIME), steady_later = off_by(CLOCK_MONOTONIC);
	printf("%lld %.0f %lld %.0f\n", (long long)wall.ns, drift_of(wall, wall_later), (long long)steady.ns,
	       drift_of(steady, steady_later));
	return 0;
}
#endif
