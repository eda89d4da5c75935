/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The agent's side of orders (control/orders.h): a thread that asks the server a few times a minute, learns from the answers
 * how the clocks stand to each other, and makes the recordings that it is told to: as a process of its own, `wick record`, so
 * that what a recording takes in memory is gone with it. One at a time.
 */
#ifndef WICK_DAEMON_POLLER_H
#define WICK_DAEMON_POLLER_H

#include "base/cleanup.h"
#include "base/error.h"
#include "control/orders.h"

struct poller;
struct poller_options {
	const char *url, *token, *tenant; /* token, tenant NULL = none */
	const char *host;
	const char *refusal;   /* why it takes no orders; NULL = it does */
	const char *directory; /* for a recording until it is sent; NULL = $TMPDIR or /tmp */
	/* How the agent is, about once a minute, from the poller's thread; *ret is zeroed. NULL = it says nothing of that. */
	void (*health)(void *context, struct health *ret);
	void *context;
};
/* Starts asking. After privileges were dropped: the thread, and the recorders that it starts, have what is left. */
int poller_new(const struct poller_options *options, struct poller **ret, struct error *err);
struct poller *poller_free(struct poller *poller); /* ends a recording that runs; NULL allowed; returns NULL */
/* How this host's clock stands to the server's between two times of it; a reference of "" when that is not known. Any thread.
 */
struct orders_clock poller_clock(struct poller *poller, int64_t from_ns, int64_t to_ns);
/* Appends it to a query string, if it is known. */
void poller_put_clock(struct buffer *out, const struct orders_clock *clock, char separator);
DEFINE_CLEANUP_POINTER(poller_free, struct poller);

#endif
