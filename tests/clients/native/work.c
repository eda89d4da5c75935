// SPDX-License-Identifier: Apache-2.0
// The work of tests/clients/clients.inc, in C: work SECONDS.
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>

const char *volatile work_name = NAME; // so that no two programs have one build-id
static volatile unsigned sink;

__attribute__((noinline)) static void heavy(void)
{
	for (unsigned i = 0; i < 700000; i++)
		sink = sink * 31 + i;
}

__attribute__((noinline)) void light(void)
{
	for (unsigned i = 0; i < 300000; i++)
		sink = sink * 31 + i;
}

static long long cpu_ns(void)
{
	struct rusage used;
	getrusage(RUSAGE_SELF, &used);
	return (used.ru_utime.tv_sec + used.ru_stime.tv_sec) * 1000000000LL +
	       (used.ru_utime.tv_usec + used.ru_stime.tv_usec) * 1000LL;
}

int main(int argc, char **argv)
{
	long long until = (long long)((argc > 1 ? strtod(argv[1], NULL) : 1) * 1e9);
	while (cpu_ns() < until) {
		heavy();
		light();
	}
	printf("cpu_ns %lld\n", cpu_ns());
	return 0;
}
