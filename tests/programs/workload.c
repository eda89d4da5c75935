/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program whose profile is known: `workload SECONDS[cpu] [PERCENT]` runs for SECONDS (a fraction is allowed; of the clock
 * on the wall, or with "cpu" after them of its own CPU time, which a busy machine gives it later), with PERCENT (90) of its CPU
 * time below longTask and the rest below shortTask. Units of work of some 20 us are dealt out 90 here, 10 there, evenly mixed,
 * so that the split holds over any stretch of time and does not depend on the machine's speed. Prints the CPU seconds that it
 * used.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

static volatile unsigned long sink;

__attribute__((noinline)) void unitDone(unsigned long result)
{
	sink = result;
}

/* In each task by itself, so that the time is the task's own; the call at the end keeps the compiler from leaving the frame
 * pointer out, which it does in functions that call nothing. */
static inline __attribute__((always_inline)) void unitOfWork(void)
{
	unsigned long x = sink;
	for (int i = 0; i < 20000; i++)
		x = x * 2862933555777941757ul + 3037000493ul;
	unitDone(x);
	asm volatile("");
}

__attribute__((noinline)) void longTask(void)
{
	unitOfWork();
}

__attribute__((noinline)) void shortTask(void)
{
	unitOfWork();
}

static double seconds(clockid_t clock)
{
	struct timespec now;
	clock_gettime(clock, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

int main(int argc, char **argv)
{
	char *unit = "";
	double duration = argc > 1 ? strtod(argv[1], &unit) : 1;
	clockid_t clock = strcmp(unit, "cpu") == 0 ? CLOCK_PROCESS_CPUTIME_ID : CLOCK_MONOTONIC;
	double end = seconds(clock) + duration;
	unsigned percent = argc > 2 ? (unsigned)strtoul(argv[2], NULL, 10) : 90, due = 50;
	struct rusage usage;

	while (seconds(clock) < end) {
		for (int i = 0; i < 100; i++) {
			due += percent;
			if (due >= 100) {
				due -= 100;
				longTask();
			} else {
				shortTask();
			}
		}
	}
	getrusage(RUSAGE_SELF, &usage);
	printf("%.6f\n", (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
				 (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6);
	return 0;
}
