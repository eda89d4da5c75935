/* SPDX-License-Identifier: Apache-2.0 */
/* Sets of CPUs, as the kernel lists them in /sys/devices/system/cpu ("0-3,5,8-15"). */
#ifndef WICK_AGENT_SAMPLE_CPUS_H
#define WICK_AGENT_SAMPLE_CPUS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

#define CPUS_MAX 8192u /* the largest CONFIG_NR_CPUS of x86-64 */
struct cpu_set {
	uint64_t words[CPUS_MAX / 64];
};

static inline bool cpu_set_has(const struct cpu_set *set, unsigned cpu)
{
	return set->words[cpu / 64] >> (cpu % 64) & 1;
}
unsigned cpu_set_count(const struct cpu_set *set);
/* One more than the highest CPU; 0 for an empty set. */
unsigned cpu_set_limit(const struct cpu_set *set);

/* A trailing newline is allowed, an empty list is an empty set. -EINVAL names the text, -ERANGE a CPU beyond CPUS_MAX. */
int cpu_set_parse(const char *text, struct cpu_set *ret, struct error *err);
/* Reads /sys/devices/system/cpu/NAME, NAME being "online" or "possible". */
int cpu_set_read(const char *name, struct cpu_set *ret, struct error *err);
/* The limit of the set in "possible": how many there have to be of what there is one of for each CPU. */
int cpu_limit_read(unsigned *ret, struct error *err);

#endif
