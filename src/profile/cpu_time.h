/* SPDX-License-Identifier: Apache-2.0 */
/* CPU time of profiles that say how often code was seen on a CPU, and how much time passes from one look to the next. */
#ifndef WICK_PROFILE_CPU_TIME_H
#define WICK_PROFILE_CPU_TIME_H

#include "profile/profile.h"

/* Of one sample type, "samples" in "count", at a period of "cpu" in "nanoseconds": what Parca Agent and OpenTelemetry's
 * profiler send. Each of these samples stands for a period of CPU time. */
bool profile_counts_cpu_samples(const struct profile *profile);
/* Of one sample type, "cpu" in "nanoseconds". */
bool profile_has_cpu_time(const struct profile *profile);
/* For profile_counts_cpu_samples() only. Beside each count, its CPU time (count x period, INT64_MAX at most): a second sample
 * type, cpu in nanoseconds. -ENOMEM or -E2BIG, and the profile is unchanged. */
int profile_add_cpu_time(struct profile *profile, struct error *err);
/* The same in place of the counts. */
int profile_convert_to_cpu_time(struct profile *profile, struct error *err);

#endif
