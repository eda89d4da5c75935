/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The agent's side of the control protocol (control/protocol.h): a thread that polls the server a few times a minute, measures
 * the offset of the clocks, and runs requested recordings, one at a time. Each is a process of its own, `wick record`, so that
 * its memory is released with it.
 */
#ifndef WICK_DAEMON_CONTROL_CLIENT_H
#define WICK_DAEMON_CONTROL_CLIENT_H

#include "base/cleanup.h"
#include "base/error.h"
#include "control/protocol.h"

struct control_client;
struct control_client_options {
	const char *url, *token, *token_file, *tenant; /* token, tenant NULL = none */
	const char *host;
	const char *refusal;   /* why it rejects recording requests; NULL = it accepts them */
	const char *directory; /* for a recording until it is sent; NULL = $TMPDIR or /tmp */
	/* The health of the agent, called about once a minute on the thread of the control client; *ret is zeroed. NULL = not
	 * reported. */
	void (*health)(void *context, struct health *ret);
	void *context;
};
/* Starts polling. After privileges were dropped: the thread, and the recorders that it starts, have what is left. */
int control_client_new(const struct control_client_options *options, struct control_client **ret, struct error *err);
struct control_client *control_client_free(struct control_client *client); /* ends a recording; NULL allowed */
/* The offset of this host's clock to the server's between two times of it; a reference of "" when that is not known. Any
 * thread.
 */
struct host_clock control_client_clock(struct control_client *client, int64_t from_ns, int64_t to_ns);
/* Appends it to a query string, if it is known. */
void control_client_put_clock(struct buffer *out, const struct host_clock *clock, char separator);
DEFINE_CLEANUP_POINTER(control_client_free, struct control_client);

#endif
