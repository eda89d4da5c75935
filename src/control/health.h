/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How an agent is: what it runs as, what it took and lost, what it costs, what is wrong with its machine. An agent reports it
 * when it polls its server (control/protocol.h), in the member `health` of the request: with the first question, once a minute
 * after that, and when the server was started anew. The server keeps the last one and shows it, and nothing depends on it.
 *
 * It is for people to look at, so it is kept small (some 1 kB; HEALTH_BYTES_MAX at most): counts that are 0 are left out, and
 * what is a list may grow by names without either side knowing them. Counts are of one run of the agent: they begin anew when
 * `started` does.
 */
#ifndef WICK_CONTROL_HEALTH_H
#define WICK_CONTROL_HEALTH_H

#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/error.h"

/* LIMITs; texts in bytes with the NUL. */
#define HEALTH_BYTES_MAX    (8u * 1024) /* as JSON */
#define HEALTH_COUNTS_MAX   24
#define HEALTH_MODES_MAX    12
#define HEALTH_WARNINGS_MAX 8
#define HEALTH_NAME_SIZE    32
#define HEALTH_TEXT_SIZE    64
#define HEALTH_WARNING_SIZE 240

struct health_count {
	char name[HEALTH_NAME_SIZE]; /* a-z, 0-9 and _ */
	uint64_t count;
};
struct health_counts {
	struct health_count items[HEALTH_COUNTS_MAX];
	size_t count;
};
struct health {
	char kernel[HEALTH_TEXT_SIZE];			/* release and machine: "6.1.0-18-amd64 x86_64" */
	char event[HEALTH_TEXT_SIZE];			/* "cycles" or "cpu-clock" */
	char modes[HEALTH_MODES_MAX][HEALTH_NAME_SIZE]; /* what it does besides sampling: "off_cpu", "markers" ... */
	size_t mode_count;
	uint64_t started_ms;			      /* the run's start, since 1970 by the host's clock */
	uint64_t frequency_hz, frequency_asked_hz;    /* now; as configured */
	uint64_t cpus, processes, mappings, binaries; /* now */
	uint64_t samples;			      /* taken, since the start, as all counts below but for the waiting ones */
	uint64_t rules_dropped;			      /* of them, by relabel_configs */
	struct health_counts lost;		      /* by agent_loss_names */
	struct health_counts walks;		      /* user stacks by unwind_result_name() */
	uint64_t unwind_tables, unwind_table_bytes;
	uint64_t sent_profiles, sent_bytes, send_failures; /* to the server that gets this report */
	uint64_t dropped_profiles, dropped_samples;	   /* that it will never get */
	uint64_t waiting_profiles, waiting_bytes;	   /* now, in the spool */
	uint64_t cpu_ms;				   /* of the agent's process, user and system */
	uint64_t program_ms;				   /* in its BPF programs, which is not in cpu_ms */
	uint64_t resident_bytes, resident_peak_bytes;
	uint64_t cost_ppm; /* cpu and program, smoothed over half a minute: millionths of one CPU */
	char warnings[HEALTH_WARNINGS_MAX][HEALTH_WARNING_SIZE]; /* what `wick doctor` would say is missing */
	size_t warning_count;
};

/* Adds it unless it is 0, or there is no room. */
void health_count(struct health_counts *counts, const char *name, uint64_t count);
/* Cuts what is too long between two characters; control characters and what is not UTF-8 are replaced. */
void health_warn(struct health *health, const char *text);
void health_mode(struct health *health, const char *name);

struct json_writer;
void health_write(struct json_writer *json, const struct health *health); /* an object */
/* node: a json_t. -EINVAL says what is wrong: a number that is none or out of range, a name of other characters, a text that is
 * too long or has control characters, too many of something. Members that are missing are 0, "" or none; those that are not
 * known are ignored. */
int health_read(const void *node, struct health *ret, struct error *err);

#endif
