/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What agents and their server tell each other beside profiles: `POST /api/v1/agents/poll`, JSON both ways, a few times a
 * minute. The agent always asks, the server never dials: agents live behind firewalls, and a server that reaches into every
 * host would be a way into every host.
 *
 *   question                                        answer
 *   version   1                                     version      1
 *   agent     a number of this run, hex             received_ns  by the server's wall clock: when the question was read,
 *   host      its name                              answered_ns  when the answer was written
 *   wick      the agent's version                   clock        which clock that is; another text = its wall clock was set
 *   refusal   why it takes no orders, or ""         poll_ms      when to ask again
 *   ping      sent_ns, received_ns, answered_ns,    orders       recordings to be made: id, start_ns (the server's clock),
 *             returned_ns of the question before                 duration_ns, frequency_hz, markers, targets, key
 *   clock     what the agent makes of its pings     cancel       ids of recordings that nobody wants any more
 *   report    id, state, why of its recording
 *   health    how the agent is, now and then
 *             (control/health.h)
 *
 * The key is one agent's: who sends a host's profile shows it (ORDERS_KEY_HEADER), so that only the agent that was asked can
 * answer for its host, though all have one token. It is worth what the agent's number is worth, by which the server knows who
 * asks: that is random, and the server tells nobody else more than its beginning.
 *
 * Members that are not known are ignored, so that either side may be newer. Each side takes the other's text as hostile: its
 * length is bounded by who reads it, names are of plain characters, numbers are in range, or the whole is refused (-EINVAL).
 */
#ifndef WICK_CONTROL_ORDERS_H
#define WICK_CONTROL_ORDERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/error.h"
#include "control/health.h"
#include "profile/markers.h"

#define ORDERS_VERSION	       1
#define ORDERS_POLL_PATH       "/api/v1/agents/poll"
#define ORDERS_RECORDINGS_PATH "/api/v1/recordings"
#define ORDERS_KEY_HEADER      "X-Wick-Upload-Key"
/* The recording that nobody orders: markers that agents send all the time. */
#define ORDERS_CONTINUOUS      "continuous"
#define ORDERS_CONTINUOUS_PATH ORDERS_RECORDINGS_PATH "/" ORDERS_CONTINUOUS
/* Bytes with the NUL. */
#define ORDERS_ID_SIZE	  33 /* hexadecimal digits */
#define ORDERS_KEY_SIZE	  33 /* the same */
#define ORDERS_HOST_SIZE  256
#define ORDERS_CLOCK_SIZE 64
#define ORDERS_TEXT_SIZE  400
#define ORDERS_NAME_SIZE  256
/* LIMITs. */
#define ORDERS_BODY_BYTES_MAX	(64u * 1024)
#define ORDERS_TARGETS_MAX	16
#define ORDERS_CANCELS_MAX	16
#define ORDERS_DURATION_MAX_NS	(600ll * 1000000000)
#define ORDERS_FREQUENCY_MAX_HZ 1000u
#define ORDERS_HOSTS_MAX	1000u
#define ORDERS_PROFILE_MAX	(64ull << 20) /* bytes of a host's file */

/* Wall clocks: of the agent sent and returned, of the server received and answered. */
struct orders_ping {
	int64_t sent_ns, received_ns, answered_ns, returned_ns;
};

/* A host's clock against another: at its own time t it is ahead of the other by offset_ns + skew * (t - at_ns), give or take
 * bound_ns. */
struct orders_clock {
	char reference[ORDERS_CLOCK_SIZE]; /* which other; "" = nothing is known */
	int64_t at_ns, offset_ns, bound_ns;
	double skew;
};

/* What becomes of one host's part of a recording. Names are orders_state_names[]; append-only. */
enum orders_state {
	ORDERS_WAITING = 0, /* its agent has not asked yet */
	ORDERS_TAKEN,	    /* the agent knows */
	ORDERS_RECORDING,
	ORDERS_SENDING,
	ORDERS_DONE, /* it is on the server's disk. From here on nothing changes, but that a late one may become DONE. */
	ORDERS_FAILED,
	ORDERS_SILENT, /* was not heard of in time */
	ORDERS_CANCELLED,
	ORDERS_STATES,
};
extern const char *const orders_state_names[ORDERS_STATES]; /* "waiting", "taken" ... */
int orders_state_parse(const char *name, enum orders_state *ret);

struct orders_report {
	char id[ORDERS_ID_SIZE]; /* "" = nothing to tell */
	enum orders_state state;
	char why[ORDERS_TEXT_SIZE]; /* of FAILED */
};

struct orders_question {
	char agent[ORDERS_ID_SIZE], host[ORDERS_HOST_SIZE], wick[ORDERS_CLOCK_SIZE];
	char refusal[ORDERS_TEXT_SIZE]; /* "" = it takes orders */
	bool has_ping;
	struct orders_ping ping;
	struct orders_clock clock;
	struct orders_report report;
	const struct health *health; /* to be written, not owned; NULL = none. Who reads gets it by orders_read_health() */
	bool has_health;	     /* of one that was read */
};

enum orders_target_kind { ORDERS_UNIT = 0, ORDERS_CONTAINER, ORDERS_CGROUP, ORDERS_TARGET_KINDS };
extern const char *const orders_target_names[ORDERS_TARGET_KINDS]; /* "unit", "container", "cgroup" */
struct orders_target {
	enum orders_target_kind kind;
	char name[ORDERS_NAME_SIZE];
};

struct orders_order {
	char id[ORDERS_ID_SIZE];
	int64_t start_ns; /* the server's wall clock */
	int64_t duration_ns;
	unsigned frequency_hz;
	bool no_markers;
	struct orders_target targets[ORDERS_TARGETS_MAX]; /* none = all processes */
	size_t target_count;
	char key[ORDERS_KEY_SIZE]; /* in answers to agents; "" = none, from an older server */
};

struct orders_answer {
	int64_t received_ns, answered_ns;
	char clock[ORDERS_CLOCK_SIZE];
	int64_t poll_ns;
	bool has_order; /* the first, of which there is one at a time */
	struct orders_order order;
	char cancelled[ORDERS_CANCELS_MAX][ORDERS_ID_SIZE];
	size_t cancel_count;
};

bool orders_id_is_valid(const char *id); /* 1 to 32 of 0-9a-f */
/* Random bytes as hexadecimal digits, two a byte; out has room for them and the NUL. */
int orders_make_id(char *out, size_t bytes, struct error *err);
/* Says in the profile how the host's clock stands; nothing where that is not known. */
int orders_add_clock(struct profile *profile, const char *host, const struct orders_clock *clock, struct error *err);
/* UTF-8 without control characters, a slash, or being "." or "..". */
bool orders_host_is_valid(const char *host);

/* Writing: 0, -ENOMEM, -E2BIG. Reading: -EINVAL says what is wrong; *ret is whole or of no use. */
int orders_write_question(const struct orders_question *question, struct buffer *out, struct error *err);
int orders_read_question(struct bytes text, struct orders_question *ret, struct error *err);
/* Of a question that has it. It is read by itself since it is large, and of no matter to orders. */
int orders_read_health(struct bytes text, struct health *ret, struct error *err);
int orders_write_answer(const struct orders_answer *answer, struct buffer *out, struct error *err);
int orders_read_answer(struct bytes text, struct orders_answer *ret, struct error *err);

/* What a recording is to be, as people order it: {"seconds": 10, "frequency_hz": 99, "hosts": ["a"], "markers": true,
 * "targets": [{"kind": "unit", "name": "nginx"}]}; all but seconds may be left out. start_ns and id stay as they are.
 * *ret_hosts is an array from mem_alloc() of *ret_count names, each once; none = all. */
int orders_read_request(struct bytes text, struct orders_order *ret, char (**ret_hosts)[ORDERS_HOST_SIZE], size_t *ret_count,
			struct error *err);
int orders_write_request(const struct orders_order *order, const char *const *hosts, size_t host_count, struct buffer *out,
			 struct error *err);
/* The members of an order, for files that keep it: see orders_write_answer(). json: a struct json_writer inside an object;
 * node: a json_t. */
struct json_writer;
void orders_write_order(struct json_writer *json, const struct orders_order *order);
int orders_read_order(const void *node, struct orders_order *ret, struct error *err);
void orders_write_clock(struct json_writer *json, const struct orders_clock *clock); /* an object */
int orders_read_clock(const void *node, struct orders_clock *ret, struct error *err);

#endif
