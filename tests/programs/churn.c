/* SPDX-License-Identifier: Apache-2.0 */
/*
 * churn SECONDS [RATE]: starts RATE (500) processes a second, evenly, half of them by exec of itself and half by fork alone,
 * each of which works for a millisecond and ends; prints how many were started, and how many late because the machine did not
 * keep up. For profilers, whose cost and memory must not grow with processes that come and go.
 */
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define NS_PER_S 1000000000ull

static uint64_t clock_ns(clockid_t clock)
{
	struct timespec now;
	clock_gettime(clock, &now);
	return (uint64_t)now.tv_sec * NS_PER_S + (uint64_t)now.tv_nsec;
}

__attribute__((noinline)) void workForked(uint64_t ns)
{
	uint64_t end = clock_ns(CLOCK_PROCESS_CPUTIME_ID) + ns;
	while (clock_ns(CLOCK_PROCESS_CPUTIME_ID) < end)
		;
}

__attribute__((noinline)) void workExeced(uint64_t ns)
{
	workForked(ns);
	asm volatile("");
}

static int start(uint64_t number, char *self)
{
	char *const arguments[] = {self, "--work", NULL};
	pid_t pid = number & 1 ? vfork() : fork();
	if (pid < 0)
		return -errno;
	if (pid > 0)
		return 0;
	if (number & 1)
		execv("/proc/self/exe", arguments);
	else
		workForked(NS_PER_S / 1000);
	_exit(number & 1 ? 127 : 0);
}

int main(int argc, char **argv)
{
	if (argc > 1 && strcmp(argv[1], "--work") == 0) {
		workExeced(NS_PER_S / 1000);
		return 0;
	}
	double seconds = argc > 1 ? strtod(argv[1], NULL) : 10;
	long rate = argc > 2 ? strtol(argv[2], NULL, 10) : 500;
	if (seconds <= 0 || rate <= 0 || rate > 100000) {
		fprintf(stderr, "usage: churn SECONDS [RATE]\n");
		return 2;
	}
	uint64_t begin = clock_ns(CLOCK_MONOTONIC), total = (uint64_t)(seconds * (double)rate), late = 0, failed = 0;
	for (uint64_t i = 0; i < total; i++) {
		uint64_t due = begin + i * NS_PER_S / (uint64_t)rate, now = clock_ns(CLOCK_MONOTONIC);
		if (now < due) {
			struct timespec at = {.tv_sec = (time_t)(due / NS_PER_S), .tv_nsec = (long)(due % NS_PER_S)};
			clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL);
		} else if (now > due + NS_PER_S / 10) {
			late++;
		}
		failed += start(i, argv[0]) < 0;
		while (waitpid(-1, NULL, WNOHANG) > 0)
			;
	}
	double took = (double)(clock_ns(CLOCK_MONOTONIC) - begin) / NS_PER_S;
	while (waitpid(-1, NULL, 0) > 0)
		;
	printf("%llu processes in %.1f s, %llu more than 0.1 s late, %llu failed\n", (unsigned long long)(total - failed), took,
	       (unsigned long long)late, (unsigned long long)failed);
	return 0;
}
