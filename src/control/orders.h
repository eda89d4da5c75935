/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The control protocol between agents and their server: `POST /api/v1/agents/poll`, JSON in both directions, a few times a
 * minute. It carries recording requests, clock sync samples and the agent's health. The agent polls; the server never connects
 * to an agent. Agents are often behind firewalls, and a server that can connect to every host would be a way into every host.
 *
 *   request                                         response
 *   version   1                                     version      1
 *   agent     random id of this run, hex            received_ns  server's wall clock when it read the request
 *   host      host name                             answered_ns  server's wall clock when it wrote the response
 *   wick      version of the agent                  clock        id of that clock; a new id = the wall clock was set
 *   refusal   why it rejects recordings, or ""      poll_ms      interval until the next poll
 *   ping      sent_ns, received_ns, answered_ns,    orders       recording requests: id, start_ns (server's clock),
 *             returned_ns of the previous poll                   duration_ns, frequency_hz, markers, targets, key
 *   clock     clock offset estimated by the agent   cancel       ids of cancelled recordings
 *   report    id, state, why of its recording
 *   health    health of the agent, sometimes
 *             (control/health.h)
 *
 * Each agent gets its own key with a recording request. It must send the key with its profile (ORDERS_KEY_HEADER), so that only
 * that agent can upload for its host, although all agents share one token. The server identifies a polling agent by its id. The
 * id is random, and the server shows others only its first digits; so the key is as safe as the id.
 *
 * Unknown members are ignored, so that either side may be newer. Each side treats the other's message as hostile: the reader
 * bounds its length, names have plain characters only, numbers must be in range. Otherwise the whole message is rejected
 * (-EINVAL).
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
/* The id that stands for continuous markers, which agents send without a recording request. */
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

/* A clock sync sample: sent and returned by the agent's wall clock, received and answered by the server's. */
struct orders_ping {
	int64_t sent_ns, received_ns, answered_ns, returned_ns;
};

/* The offset of a host's clock to a reference: at its own time t it is ahead by offset_ns + skew * (t - at_ns), with an error
 * of at most bound_ns. */
struct orders_clock {
	char reference[ORDERS_CLOCK_SIZE]; /* the reference; "" = unknown */
	int64_t at_ns, offset_ns, bound_ns;
	double skew;
};

/* The state of one host's part of a recording. Names are orders_state_names[]; append-only. */
enum orders_state {
	ORDERS_WAITING = 0, /* its agent has not polled yet */
	ORDERS_TAKEN,	    /* the agent has the request */
	ORDERS_RECORDING,
	ORDERS_SENDING,
	ORDERS_DONE, /* on the server's disk. This and later states are final, except that a late upload makes them DONE. */
	ORDERS_FAILED,
	ORDERS_SILENT, /* the agent did not poll in time */
	ORDERS_CANCELLED,
	ORDERS_STATES,
};
extern const char *const orders_state_names[ORDERS_STATES]; /* "waiting", "taken" ... */
int orders_state_parse(const char *name, enum orders_state *ret);

struct orders_report {
	char id[ORDERS_ID_SIZE]; /* "" = no report */
	enum orders_state state;
	char why[ORDERS_TEXT_SIZE]; /* of FAILED */
};

struct orders_question {
	char agent[ORDERS_ID_SIZE], host[ORDERS_HOST_SIZE], wick[ORDERS_CLOCK_SIZE];
	char refusal[ORDERS_TEXT_SIZE]; /* "" = it accepts recording requests */
	bool has_ping;
	struct orders_ping ping;
	struct orders_clock clock;
	struct orders_report report;
	const struct health *health; /* for writing, borrowed; NULL = none. A reader calls orders_read_health() */
	bool has_health;	     /* set by reading */
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
	bool has_order; /* there is at most one at a time */
	struct orders_order order;
	char cancelled[ORDERS_CANCELS_MAX][ORDERS_ID_SIZE];
	size_t cancel_count;
};

bool orders_id_is_valid(const char *id); /* 1 to 32 of 0-9a-f */
/* Random bytes as hexadecimal digits, two a byte; out has room for them and the NUL. */
int orders_make_id(char *out, size_t bytes, struct error *err);
/* Adds the offset of the host's clock to the profile, if it is known. */
int orders_add_clock(struct profile *profile, const char *host, const struct orders_clock *clock, struct error *err);
/* UTF-8 without control characters, a slash, or being "." or "..". */
bool orders_host_is_valid(const char *host);

/* Writing: 0, -ENOMEM, -E2BIG. Reading: -EINVAL with a message; *ret is valid only after success. */
int orders_write_question(const struct orders_question *question, struct buffer *out, struct error *err);
int orders_read_question(struct bytes text, struct orders_question *ret, struct error *err);
/* Reads the health of a request that has it. Separate, because it is large and independent of recordings. */
int orders_read_health(struct bytes text, struct health *ret, struct error *err);
int orders_write_answer(const struct orders_answer *answer, struct buffer *out, struct error *err);
int orders_read_answer(struct bytes text, struct orders_answer *ret, struct error *err);

/* A recording as API clients request it: {"seconds": 10, "frequency_hz": 99, "hosts": ["a"], "markers": true,
 * "targets": [{"kind": "unit", "name": "nginx"}]}; only seconds is required. start_ns and id are not changed.
 * *ret_hosts is an array from mem_alloc() of *ret_count unique names; none = all hosts. */
int orders_read_request(struct bytes text, struct orders_order *ret, char (**ret_hosts)[ORDERS_HOST_SIZE], size_t *ret_count,
			struct error *err);
int orders_write_request(const struct orders_order *order, const char *const *hosts, size_t host_count, struct buffer *out,
			 struct error *err);
/* The members of a recording request, for files: see orders_write_answer(). json: a struct json_writer inside an object;
 * node: a json_t. */
struct json_writer;
void orders_write_order(struct json_writer *json, const struct orders_order *order);
int orders_read_order(const void *node, struct orders_order *ret, struct error *err);
void orders_write_clock(struct json_writer *json, const struct orders_clock *clock); /* an object */
int orders_read_clock(const void *node, struct orders_clock *ret, struct error *err);

#endif
