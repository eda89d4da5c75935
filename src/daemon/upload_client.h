/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The client's side of sending debug information (docs/api.md), over a client of the caller: what does the server want, and one
 * file in pieces. A call each request; what to make of an answer is the caller's business.
 */
#ifndef WICK_DAEMON_UPLOAD_CLIENT_H
#define WICK_DAEMON_UPLOAD_CLIENT_H

#include "agent/upload/upload_queue.h"
#include "base/buffer.h"

struct net_client;

extern const char *const upload_what_kinds[]; /* by enum upload_what: "debuginfo", "kallsyms" */

/* Asks for what is due in the queue, and passes the answers to the queue. What is not wanted, or was refused, is due again
 * after `again_ns`. 1 = asked, 0 = nothing is due. -ENOTSUP: no server of ours, or one that knows no debug information.
 * -EACCES: the token. Others: asked for again after `retry_ns`. */
struct upload_ask {
	int64_t now_ns, again_ns, retry_ns;
	bool tells_only; /* which files there are: none is to be sent */
	bool is_enabled; /* out: the server takes uploads at all */
};
int upload_client_ask(struct net_client *client, struct upload_queue *queue, struct upload_ask *ask, struct error *err);

struct upload_reply {
	int status;
	char why[256];			 /* with the status where the server gave no reason */
	char message[ERROR_MESSAGE_MAX]; /* its reason, else that of HTTP */
	char id[64], reason[16];	 /* of upload_client_begin(); "" = not in the answer */
	uint64_t offset;		 /* from where to go on */
	bool has_offset;
};
/* 0 when an answer came, whatever it says; negative when none did. */
struct upload_offer {
	const char *build_id, *kind, *hash;
	enum file_id_type id_type;
	const char *content; /* of the binary that it is of (elf/content_key.h); NULL, "" = not known */
	uint64_t size;
	bool without_build_id, force; /* the file has none of its own; even if there is one already */
};
int upload_client_begin(struct net_client *client, const struct upload_offer *offer, struct upload_reply *ret,
			struct error *err);
int upload_client_put(struct net_client *client, const char *id, uint64_t offset, struct bytes data, struct upload_reply *ret,
		      struct error *err);
int upload_client_finish(struct net_client *client, const char *id, struct upload_reply *ret, struct error *err);

#endif
