/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The simulation: agents, a network, a disk, clocks, and the real store, in one thread and in virtual time.
 *
 * Agents number what they send and keep sending the same append, under the same id, until it is acknowledged or they give up.
 * The network between them and the store loses, delays, doubles and so reorders requests and replies. The store is the real one
 * on the disk of disk.h, which dies in the middle of anything. Clocks jump, for agents and server alike. Meanwhile somebody
 * asks, also in the middle of a cut or a merge: at some changing calls of the store a query or an append of another client
 * comes in between, wherever the locks would let another thread in.
 *
 * What must hold, at every query and after every start:
 *   - what the store acknowledged is there, once, with the values that were sent
 *   - what it did not acknowledge is there once or not at all, and what was never sent is not
 *   - an append is there as a whole or not at all
 *   - the sums of each agent's series say the same as the stacks
 *   - a start works, within two seconds; queries do not fail
 *   - nothing is set aside, and nobody complains, but for what this run damaged on purpose or tore in the middle of a write
 * that nobody had been promised
 *
 * Everything comes from one seed: the same seed gives the same run.
 */
#ifndef WICK_TESTS_SIM_SIMULATION_H
#define WICK_TESTS_SIM_SIMULATION_H

#include "base/time.h"
#include "store/store.h"
#include "tests/sim/disk.h"
#include "tests/sim/random.h"

#define EPOCH_NS      1793527200000000000ll /* when true time is 0; an even hour */
#define RULE_POD      1
#define RULE_POD_TEXT "1"
#define AGENTS_MAX    4
#define APPENDS_MAX   48 /* of an agent */
#define PARTS_MAX     4	 /* samples of an append, but for the shared one */
#define EVENTS_MAX    4096
#define ATTEMPTS      10

enum append_state {
	APPEND_UNSENT,
	APPEND_SENT,
	APPEND_ACKNOWLEDGED, /* by the store; the agent may not know */
};
enum append_deletion {
	DELETION_NONE,
	DELETION_PERHAPS, /* the server died while it deleted; or it arrived again afterwards, and what became of it is not
			     known */
	DELETION_DONE,
};
struct append {
	enum append_state state;
	enum append_deletion deletion;
	bool is_being_deleted;
	bool is_done; /* for the agent: acknowledged or given up */
	unsigned attempts, parts;
	int64_t values[PARTS_MAX], time_ns;
	unsigned pod;
};
struct agent {
	struct append appends[APPENDS_MAX];
	unsigned count, next;
	int64_t clock_ns; /* what its clock says beyond the true time */
};

enum event_kind {
	EVENT_AGENT,   /* an agent has something to send */
	EVENT_REQUEST, /* arrives at the server */
	EVENT_REPLY,   /* arrives at the agent */
	EVENT_TIMEOUT, /* the agent waited long enough */
	EVENT_JUMP,    /* a clock jumps */
	EVENT_QUERY,
	EVENT_CUT,
	EVENT_COMPACT,
	EVENT_RETENTION,
	EVENT_DELETE,
	EVENT_STOP,  /* the server is stopped, as it should be */
	EVENT_KILL,  /* kill -9 between two calls */
	EVENT_POWER, /* the machine loses power between two calls */
	EVENT_START,
	EVENT_FULL, /* the disk fills up */
	EVENT_ROOM, /* and has room again */
	EVENT_KIND_COUNT,
};
struct event {
	enum event_kind kind;
	int64_t at_ns;
	uint64_t order; /* of equals */
	unsigned agent, number;
};

struct simulation {
	uint64_t seed;
	struct random random;
	bool verbose;
	const char *directory;

	int64_t now_ns; /* true time since the start */
	struct event events[EVENTS_MAX];
	size_t event_count;
	uint64_t event_order;

	struct agent agents[AGENTS_MAX];
	unsigned agent_count;

	struct store *store;				/* NULL while it is down */
	int64_t clock_ns;				/* what the server's clock says beyond the true time */
	int64_t retention_age_ns, retention_horizon_ns; /* samples before the horizon may be gone */
	int64_t rule_age_ns, rule_horizon_ns;		/* the same of pod 1, for which there is a rule */
	const struct deletion *deletion;		/* under way */
	int64_t wait_ns;				/* what the store waited by itself */
	bool has_full_disk, has_failing_sync, has_flips, has_retention, has_late_window; /* what this run may do */
	bool is_flipped, is_full;
	bool has_forgotten_ids; /* of a block whose ids a flipped bit made unreadable: retries of what it holds come in again */
	unsigned lives, queries, deaths, interruptions;
	uint64_t cuts, compactions, blocks_removed;
	uint64_t rows; /* of answers, that were checked */
};

/* ---- client.c ---- */
void simulation_add_event(struct simulation *s, enum event_kind kind, int64_t in_ns, unsigned agent, unsigned number);
void agents_init(struct simulation *s);
void agent_handle(struct simulation *s, const struct event *event); /* EVENT_AGENT, _REPLY, _TIMEOUT */
void network_send(struct simulation *s, enum event_kind kind, unsigned agent, unsigned number);
bool agents_are_done(const struct simulation *s);
/* The profile of an append, and its labels. */
struct profile *append_profile(const struct simulation *s, unsigned agent, unsigned number);

/* ---- server.c ---- */
void server_start(struct simulation *s);
void server_handle(struct simulation *s, const struct event *event); /* the others */
void server_finish(struct simulation *s);			     /* ends it, starts it again in several ways, checks */

/* ---- check.c ---- */
void check_store(struct simulation *s, const char *when);
void check_quarantine(struct simulation *s);
/* What store_options.on_problem is told. */
void check_problem(void *context, const char *message);

/* ---- main.c ---- */
void simulation_fail(const struct simulation *s, const char *format, ...) __attribute__((format(printf, 2, 3), noreturn));
void simulation_log(const struct simulation *s, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
