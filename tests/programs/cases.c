// SPDX-License-Identifier: Apache-2.0
/*
 * Processes that are awkward to record:
 *
 *   cases forks N       N children, one after the other, each of which computes for some milliseconds
 *   cases execs N       executes itself N times, computing in between
 *   cases threads N     N threads that compute in turns, all there at a time
 *   cases names         two threads that get their names when they have run for a while
 *   cases burn SECONDS  computes, by this process's own clock
 *
 * Says at the end how many milliseconds of CPU time it has used, with its children.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static volatile unsigned long sink;

static double cpu_ms(clockid_t clock)
{
	struct timespec now;
	clock_gettime(clock, &now);
	return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}

__attribute__((noinline)) static void computeForAWhile(double ms)
{
	double end = cpu_ms(CLOCK_THREAD_CPUTIME_ID) + ms;
	while (cpu_ms(CLOCK_THREAD_CPUTIME_ID) < end)
		for (int i = 0; i < 20000; i++)
			sink += (unsigned long)i * 3;
}

__attribute__((noinline)) static void childWork(void)
{
	computeForAWhile(5);
}

static void forks(long count)
{
	for (long i = 0; i < count; i++) {
		pid_t pid = fork();
		if (pid == 0) {
			childWork();
			_exit(0);
		}
		if (pid > 0)
			waitpid(pid, NULL, 0);
	}
}

static void execs(long left, char *program)
{
	char number[32];
	computeForAWhile(10);
	if (left <= 0)
		return;
	snprintf(number, sizeof(number), "%ld", left - 1);
	char *arguments[] = {program, "execs", number, NULL};
	execv("/proc/self/exe", arguments);
}

static pthread_barrier_t all_there;

static void *threadWork(void *unused)
{
	pthread_barrier_wait(&all_there);
	computeForAWhile(2);
	return unused;
}

static int threads(long count)
{
	pthread_t *ids = calloc((size_t)count, sizeof(*ids));
	pthread_attr_t small;
	if (!ids)
		return 1;
	pthread_attr_init(&small);
	pthread_attr_setstacksize(&small, 65536);
	pthread_barrier_init(&all_there, NULL, (unsigned)count);
	for (long i = 0; i < count; i++)
		if (pthread_create(&ids[i], &small, threadWork, NULL))
			return 1;
	for (long i = 0; i < count; i++)
		pthread_join(ids[i], NULL);
	free(ids);
	return 0;
}

static void *renamed(void *name)
{
	computeForAWhile(300);
	prctl(PR_SET_NAME, name, 0, 0, 0);
	computeForAWhile(700);
	return NULL;
}

static int names(void)
{
	pthread_t first, second;
	if (pthread_create(&first, NULL, renamed, "named_first") || pthread_create(&second, NULL, renamed, "named_second"))
		return 1;
	pthread_join(first, NULL);
	pthread_join(second, NULL);
	return 0;
}

static double used_ms(int who)
{
	struct rusage usage;
	getrusage(who, &usage);
	return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1e3 +
	       (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e3;
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "";
	long number = argc > 2 ? strtol(argv[2], NULL, 10) : 0;
	int r = 0;
	if (strcmp(what, "forks") == 0)
		forks(number);
	else if (strcmp(what, "execs") == 0)
		execs(number, argv[0]);
	else if (strcmp(what, "threads") == 0)
		r = threads(number);
	else if (strcmp(what, "names") == 0)
		r = names();
	else if (strcmp(what, "burn") == 0)
		computeForAWhile((double)number * 1e3);
	else
		r = 2;
	printf("%.0f\n", used_ms(RUSAGE_SELF) + used_ms(RUSAGE_CHILDREN));
	return r;
}
