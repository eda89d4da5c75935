/* SPDX-License-Identifier: Apache-2.0 */
/* The log: one line on stderr per event, for src/cmd and the edges of src/server only. On a terminal "wick: message" (coloured
 * level), else with time and level. Thread-safe, a line at a time; what must not reach a terminal (text_append_harmless()) is
 * escaped, since parts of it come from outside. */
#ifndef WICK_BASE_LOG_H
#define WICK_BASE_LOG_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum log_level { LOG_ERROR, LOG_WARN, LOG_INFO, LOG_DEBUG };

void log_set_level(enum log_level level); /* default LOG_INFO */
void log_write(enum log_level level, const char *format, ...) __attribute__((format(printf, 2, 3)));
#define log_error(...) log_write(LOG_ERROR, __VA_ARGS__)
#define log_warn(...)  log_write(LOG_WARN, __VA_ARGS__)
#define log_info(...)  log_write(LOG_INFO, __VA_ARGS__)
#define log_debug(...) log_write(LOG_DEBUG, __VA_ARGS__)

/* For lines that clients cause: one a minute, whatever comes. Zeroed = nothing was logged yet. */
struct log_limit {
	atomic_int_fast64_t next_ns; /* monotonic: when more will be logged */
	atomic_uint_fast64_t held;   /* what is not logged yet */
};
/* Counts so many events. True: a line is due, *ret_count says of how many events, these among them. */
bool log_limit_add(struct log_limit *limit, uint64_t count, uint64_t *ret_count);

#endif
