/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The agent's side of sending debug information (docs/api.md): what does the server want, and one file in pieces. A call each
 * request; what to make of an answer is the caller's business.
 */
#ifndef WICK_DAEMON_UPLOAD_CLIENT_H
#define WICK_DAEMON_UPLOAD_CLIENT_H

#include "agent/upload/upload_queue.h"
#include "base/buffer.h"

struct upload_client;
struct upload_client_options {
	const char *url, *token, *tenant; /* NULL = none */
	const bool *cancel;		  /* polled while a call waits */
};
int upload_client_new(const struct upload_client_options *options, struct upload_client **ret, struct error *err);
struct upload_client *upload_client_free(struct upload_client *client);
DEFINE_CLEANUP_POINTER(upload_client_free, struct upload_client);

extern const char *const upload_what_kinds[]; /* by enum upload_what: "debuginfo", "kallsyms" */

/* Asks for what is due in the queue, and tells the queue the answers. What is not wanted, or was refused, is due again after
 * `again_ns`. 1 = asked, 0 = nothing is due. -ENOTSUP: no server of ours, or one that knows no debug information. -EACCES: the
 * token. Others: asked for again after `retry_ns`. */
struct upload_ask {
	int64_t now_ns, again_ns, retry_ns;
	bool is_enabled; /* out: the server takes uploads at all */
};
int upload_client_ask(struct upload_client *client, struct upload_queue *queue, struct upload_ask *ask, struct error *err);

struct upload_reply {
	int status;
	char why[256];
	char id[64], reason[16]; /* of upload_client_begin(); "" = not in the answer */
	uint64_t offset;	 /* from where to go on */
	bool has_offset;
};
/* 0 when an answer came, whatever it says; negative when none did. */
int upload_client_begin(struct upload_client *client, const char *build_id, const char *kind, uint64_t size, const char *hash,
			struct upload_reply *ret, struct error *err);
int upload_client_put(struct upload_client *client, const char *id, uint64_t offset, struct bytes data,
		      struct upload_reply *ret, struct error *err);
int upload_client_finish(struct upload_client *client, const char *id, struct upload_reply *ret, struct error *err);

#endif
