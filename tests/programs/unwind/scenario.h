/* SPDX-License-Identifier: Apache-2.0 */
/* What the instrumented programs share: a table of scenarios, each run for a slice of time, and something to do. */
#ifndef WICK_TESTS_SCENARIO_H
#define WICK_TESTS_SCENARIO_H

#include <stdint.h>

#include "shadow.h"

#ifdef __cplusplus
extern "C" {
#endif

struct scenario {
	const char *name;
	void (*run)(void); /* a few milliseconds of work */
	int by_name_only;  /* not among those that are run when none is named */
};

extern volatile uint64_t sink; /* where results go, so that they are needed */

/* A leaf that keeps the CPU busy for about n nanoseconds. */
void shadowed_spin(unsigned n);

/* PROGRAM SECONDS [SCENARIO...]: prints "ready" and runs them in turns. */
int scenario_main(int argc, char **argv, const struct scenario *scenarios, unsigned count);
uint64_t scenario_now_ns(void);
/* The path of this program, to start it again. */
extern const char *scenario_program;

#ifdef __cplusplus
}
#endif

#endif
