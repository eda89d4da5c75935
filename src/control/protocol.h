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
 * Each agent gets its own key with a recording request. It must send the key with its profile (CONTROL_KEY_HEADER), so that
 * only that agent can upload for its host, although all agents share one token. The server identifies a polling agent by its
 * id. The id is random, and the server shows others only its first digits; so the key is as safe as the id.
 *
 * Unknown members are ignored, so that either side may be newer. Each side treats the other's message as hostile: the reader
 * bounds its length, names have plain characters only, numbers must be in range. Otherwise the whole message is rejected
 * (-EINVAL).
 */
#ifndef WICK_CONTROL_PROTOCOL_H
#define WICK_CONTROL_PROTOCOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/error.h"
#include "control/health.h"
#include "profile/markers.h"

#define CONTROL_VERSION		1
#define CONTROL_POLL_PATH	"/api/v1/agents/poll"
#define CONTROL_RECORDINGS_PATH "/api/v1/recordings"
#define CONTROL_KEY_HEADER	"X-Wick-Upload-Key"
/* The id that stands for continuous markers, which agents send without a recording request. */
#define CONTROL_CONTINUOUS	"continuous"
#define CONTROL_CONTINUOUS_PATH CONTROL_RECORDINGS_PATH "/" CONTROL_CONTINUOUS
/* Bytes with the NUL. */
/* The longest that an agent whose server was away waits until it polls again. */
#define CONTROL_PAUSE_MAX_NS (60 * 1000000000ll)

#define CONTROL_ID_SIZE	   33 /* hexadecimal digits */
#define CONTROL_KEY_SIZE   33 /* the same */
#define CONTROL_HOST_SIZE  256
#define CONTROL_CLOCK_SIZE 64
#define CONTROL_TEXT_SIZE  400
#define CONTROL_NAME_SIZE  256
/* LIMITs. */
#define CONTROL_BODY_BYTES_MAX	   (64u * 1024)
#define RECORDING_TARGETS_MAX	   16
#define CONTROL_CANCELS_MAX	   16
#define RECORDING_DURATION_MAX_NS  (600ll * 1000000000)
#define RECORDING_FREQUENCY_MAX_HZ 1000u
#define RECORDING_HOSTS_MAX	   1000u
#define RECORDING_PROFILE_MAX	   (64ull << 20) /* bytes of a host's file */

/* A clock sync sample: sent and returned by the agent's wall clock, received and answered by the server's. */
struct clock_sample {
	int64_t sent_ns, received_ns, answered_ns, returned_ns;
};

/* The offset of a host's clock to a reference: at its own time t it is ahead by offset_ns + skew * (t - at_ns), with an error
 * of at most bound_ns. */
struct host_clock {
	char reference[CONTROL_CLOCK_SIZE]; /* the reference; "" = unknown */
	int64_t at_ns, offset_ns, bound_ns;
	double skew;
};

/* The state of one host's part of a recording. Names are recording_state_names[]; append-only. */
enum recording_state {
	RECORDING_WAITING = 0, /* its agent has not polled yet */
	RECORDING_TAKEN,       /* the agent has the request */
	RECORDING_RUNNING,
	RECORDING_SENDING,
	RECORDING_DONE, /* on the server's disk. This and later states are final, except that a late upload makes them DONE. */
	RECORDING_FAILED,
	RECORDING_SILENT, /* the agent did not poll in time */
	RECORDING_CANCELLED,
	RECORDING_STATES,
};
extern const char *const recording_state_names[RECORDING_STATES]; /* "waiting", "taken" ... */
int recording_state_parse(const char *name, enum recording_state *ret);
const char *recording_state_text(enum recording_state state); /* for people, as the page has it */

struct recording_report {
	char id[CONTROL_ID_SIZE]; /* "" = no report */
	enum recording_state state;
	char why[CONTROL_TEXT_SIZE]; /* of FAILED */
};

struct control_poll {
	char agent[CONTROL_ID_SIZE], host[CONTROL_HOST_SIZE], wick[CONTROL_CLOCK_SIZE];
	char refusal[CONTROL_TEXT_SIZE]; /* "" = it accepts recording requests */
	bool has_clock_sample;
	struct clock_sample sample;
	struct host_clock clock;
	struct recording_report report;
	const struct health *health; /* for writing, borrowed; NULL = none. A reader calls control_read_health() */
	bool has_health;	     /* set by reading */
};

enum recording_target_kind {
	RECORDING_TARGET_UNIT = 0,
	RECORDING_TARGET_CONTAINER,
	RECORDING_TARGET_CGROUP,
	RECORDING_TARGET_KINDS
};
extern const char *const recording_target_names[RECORDING_TARGET_KINDS]; /* "unit", "container", "cgroup" */
struct recording_target {
	enum recording_target_kind kind;
	char name[CONTROL_NAME_SIZE];
};

struct recording_request {
	char id[CONTROL_ID_SIZE];
	int64_t start_ns; /* the server's wall clock */
	int64_t duration_ns;
	unsigned frequency_hz;
	bool no_markers;
	struct recording_target targets[RECORDING_TARGETS_MAX]; /* none = all processes */
	size_t target_count;
	char key[CONTROL_KEY_SIZE]; /* in answers to agents; "" = none, from an older server */
};

struct control_reply {
	int64_t received_ns, answered_ns;
	char clock[CONTROL_CLOCK_SIZE];
	int64_t poll_ns;
	bool has_request; /* there is at most one at a time */
	struct recording_request request;
	char cancelled[CONTROL_CANCELS_MAX][CONTROL_ID_SIZE];
	size_t cancel_count;
};

bool control_id_is_valid(const char *id); /* 1 to 32 of 0-9a-f */
/* Random bytes as hexadecimal digits, two a byte; out has room for them and the NUL. */
int control_make_id(char *out, size_t bytes, struct error *err);
/* Adds the offset of the host's clock to the profile, if it is known. */
int control_add_host_clock(struct profile *profile, const char *host, const struct host_clock *clock, struct error *err);
/* UTF-8 without control characters, a slash, or being "." or "..". */
bool control_host_is_valid(const char *host);

/* Writing: 0, -ENOMEM, -E2BIG. Reading: -EINVAL with a message; *ret is valid only after success. */
int control_write_poll(const struct control_poll *poll, struct buffer *out, struct error *err);
int control_read_poll(struct bytes text, struct control_poll *ret, struct error *err);
/* Reads the health of a request that has it. Separate, because it is large and independent of recordings. */
int control_read_health(struct bytes text, struct health *ret, struct error *err);
int control_write_reply(const struct control_reply *reply, struct buffer *out, struct error *err);
int control_read_reply(struct bytes text, struct control_reply *ret, struct error *err);

/* A recording as API clients request it: {"seconds": 10, "frequency_hz": 99, "hosts": ["a"], "markers": true,
 * "targets": [{"kind": "unit", "name": "nginx"}]}; only seconds is required. start_ns and id are not changed.
 * *ret_hosts is an array from mem_alloc() of *ret_count unique names; none = all hosts. */
int control_read_api_request(struct bytes text, struct recording_request *ret, char (**ret_hosts)[CONTROL_HOST_SIZE],
			     size_t *ret_count, struct error *err);
int control_write_api_request(const struct recording_request *request, const char *const *hosts, size_t host_count,
			      struct buffer *out, struct error *err);
/* The members of a recording request, for files: see control_write_reply(). json: a struct json_writer inside an object;
 * node: a json_t. */
struct json_writer;
void control_write_recording_request(struct json_writer *json, const struct recording_request *request);
int control_read_recording_request(const void *node, struct recording_request *ret, struct error *err);
void control_write_host_clock(struct json_writer *json, const struct host_clock *clock); /* an object */
int control_read_host_clock(const void *node, struct host_clock *ret, struct error *err);

#endif
