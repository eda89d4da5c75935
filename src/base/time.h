/* SPDX-License-Identifier: Apache-2.0 */
/* Clocks and the ways people write times. All times are nanoseconds; wall-clock times count from 1970-01-01 UTC. */
#ifndef WICK_BASE_TIME_H
#define WICK_BASE_TIME_H

#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include "base/error.h"

#define NS_PER_US 1000ll
#define NS_PER_MS 1000000ll
#define NS_PER_S  1000000000ll

int64_t time_now_ns(void); /* CLOCK_REALTIME */
/* How far CLOCK_REALTIME is from UTC at most, as the kernel believes, which whoever keeps it in step told it (NTP's "maximum
 * error"); negative = nobody keeps it in step. */
int64_t time_wall_bound_ns(void);
int64_t time_monotonic_ns(void); /* CLOCK_MONOTONIC */
int64_t time_boottime_ns(void);	 /* CLOCK_BOOTTIME */
int64_t time_thread_cpu_ns(void);
int64_t time_process_cpu_ns(void);
void time_sleep_ns(int64_t duration_ns);

/* One of
 *   - "now", "now-1h", "now+5m", "-15m" ("1h" is refused);
 *   - RFC 3339: "2026-11-21T10:00:00Z", fraction and offset allowed, also "2026-11-21 10:00" and a bare date, as UTC;
 *   - unix seconds, ms, us or ns by magnitude: 10, 13, 16, 19 digits; a fraction only on seconds.
 * -EINVAL names the text. */
int time_parse(const char *text, int64_t now_ns, int64_t *ret_ns, struct error *err);
/* "250ms", "10s", "1.5h", "2d", "1w", "1h30m" (units from large to small); a bare number is seconds. Negative and
 * overflowing ones are refused. -EINVAL names the text. */
int time_parse_duration(const char *text, int64_t *ret_ns, struct error *err);

static inline int64_t time_of_timespec(struct timespec time)
{
	return (int64_t)time.tv_sec * NS_PER_S + time.tv_nsec;
}

/* The last multiple of a step that is not later. */
static inline int64_t time_floor(int64_t time_ns, int64_t step_ns)
{
	int64_t rest = time_ns % step_ns;
	return time_ns - (rest < 0 ? rest + step_ns : rest);
}

#define TIME_TEXT_MAX 40
/* RFC 3339 in UTC with milliseconds; returns out. */
const char *time_format(int64_t ns, char out[static TIME_TEXT_MAX]);
/* "1.5 s", "340 ms", "12 us", "2 h 5 min"; returns out. */
const char *time_format_duration(int64_t ns, char out[static TIME_TEXT_MAX]);

#endif
