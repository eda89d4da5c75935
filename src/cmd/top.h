/* SPDX-License-Identifier: Apache-2.0 */
/* For top.c: where its samples come from. Each source has a thread, which puts what it has into a feed and wakes who shows it.
 */
#ifndef WICK_CMD_TOP_H
#define WICK_CMD_TOP_H

#include <pthread.h>
#include <stdatomic.h>

#include "agent/agent.h"
#include "agent/process/targets.h"
#include "cmd/remote.h"
#include "top/recent.h"

#define TOP_PARTS_MAX 64
struct top_part {
	struct profile *profile; /* owned; NULL = no samples */
	struct top_interval interval;
	unsigned frequency_hz; /* 0 = not known */
	bool replaces;	       /* it is all that is to be shown, and not only what came since the last one */
};
struct top_feed {
	pthread_mutex_t lock;
	struct top_part parts[TOP_PARTS_MAX]; /* the oldest first */
	size_t count;
	int wake_fd; /* an eventfd that is counted up when there is something new; borrowed */
	bool has_ended, has_failed;
	struct error why; /* it failed, or cannot be had at the moment */
	bool is_troubled; /* `why` holds, but it goes on */
};
int top_feed_init(struct top_feed *feed, int wake_fd, struct error *err);
void top_feed_release(struct top_feed *feed);
/* Takes the profile over. Where nobody takes parts, the oldest are lost. */
void top_feed_put(struct top_feed *feed, struct top_part part);
/* r: what the source ended with. */
void top_feed_end(struct top_feed *feed, int r, const struct error *err);
/* NULL: no trouble any more. */
void top_feed_trouble(struct top_feed *feed, const struct error *err);
/* The oldest part; false if there is none. Its profile is the caller's. */
bool top_feed_take(struct top_feed *feed, struct top_part *ret);

struct top_settings {
	struct agent_options agent;
	struct target_pids pids;
	struct remote remote;
	const char *selector; /* of a server's */
	struct option_list where;
	int64_t delay_ns, length_ns;
};

/* ---- top_sampler.c: this machine, sampled by this process ---- */

struct top_sampler;
/* Sampling has begun when it returns. -EPERM: says what it needs. With pids the unprivileged way is tried then; *ret_note is
 * what a person has to know of it, "" = nothing. */
int top_sampler_new(struct top_settings *settings, struct top_feed *feed, struct top_sampler **ret, const char **ret_note,
		    struct error *err);
int top_sampler_start(struct top_sampler *sampler, struct error *err);
/* Names for what has none yet, waiting for binaries that are being read for as long at most. *ret_named: how many locations got
 * one; *ret_pending: how many binaries are still being read. */
int top_sampler_symbolize(struct top_sampler *sampler, struct profile *profile, int64_t wait_ns, size_t *ret_named,
			  unsigned *ret_pending, struct error *err);
struct top_sampler *top_sampler_free(struct top_sampler *sampler);
DEFINE_CLEANUP_POINTER(top_sampler_free, struct top_sampler);

/* ---- top_server.c: what a server has ---- */

struct top_server;
/* Whether there is one, and it answers. */
int top_server_check(const struct remote *remote, struct error *err);
int top_server_start(const struct top_settings *settings, struct top_feed *feed, struct top_server **ret, struct error *err);
struct top_server *top_server_free(struct top_server *server);
DEFINE_CLEANUP_POINTER(top_server_free, struct top_server);

#endif
