/* SPDX-License-Identifier: Apache-2.0 */
#include "scenario.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

__thread volatile struct shadow_node *volatile shadow_top;
volatile uint64_t sink;
const char *scenario_program;

#define SLICE_NS 40000000ull

SHADOWED void shadowed_spin(unsigned n)
{
	SHADOW();
	for (unsigned i = 0; i < n; i++)
		sink = sink * 3 + i;
}

uint64_t scenario_now_ns(void)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static int wanted(const struct scenario *scenario, int argc, char **argv)
{
	for (int i = 2; i < argc; i++)
		if (strcmp(argv[i], scenario->name) == 0)
			return 1;
	return argc <= 2 && !scenario->by_name_only;
}

SHADOWED static void shadowed_slice(const struct scenario *scenario)
{
	SHADOW();
	uint64_t end = scenario_now_ns() + SLICE_NS;
	do
		scenario->run();
	while (scenario_now_ns() < end);
}

int scenario_main(int argc, char **argv, const struct scenario *scenarios, unsigned count)
{
	scenario_program = argv[0];
	if (argc > 1 && strcmp(argv[1], "child") == 0) {
		shadowed_spin(200000);
		return 0;
	}
	uint64_t end = scenario_now_ns() + (uint64_t)(strtod(argc > 1 ? argv[1] : "1", NULL) * 1e9);
	printf("ready\n");
	fflush(stdout);
	unsigned ran;
	do {
		ran = 0;
		for (unsigned i = 0; i < count && scenario_now_ns() < end; i++) {
			if (!wanted(&scenarios[i], argc, argv))
				continue;
			shadowed_slice(&scenarios[i]);
			ran++;
		}
	} while (ran && scenario_now_ns() < end);
	return 0;
}
