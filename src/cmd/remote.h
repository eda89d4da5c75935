/* SPDX-License-Identifier: Apache-2.0 */
/* Asking a server: what the verbs that do have in common. */
#ifndef WICK_CMD_REMOTE_H
#define WICK_CMD_REMOTE_H

#include "base/buffer.h"
#include "base/cancel.h"
#include "cmd/cmd.h"

#define REMOTE_PATH_MAX (128 * 1024)

struct remote {
	const char *url, *token_file, *tenant; /* url NULL = $WICK_URL, else the default */
};
#define REMOTE_OPTION_ROWS(remote)                                                                                             \
	OPTION_ROW(0, "url", "URL", OPTION_TEXT, &(remote)->url,                                                               \
		   .help = "the server (default: $WICK_URL, else http://127.0.0.1:7070)"),                                     \
		OPTION_ROW(0, "token-file", "FILE", OPTION_TEXT, &(remote)->token_file,                                        \
			   .help = "file with the server's token"),                                                            \
		OPTION_ROW(0, "tenant", "NAME", OPTION_TEXT, &(remote)->tenant, .help = "tenant on the server")

/* Which server. */
const char *remote_url(const struct remote *remote);
struct net_client;
/* A client for it. cancel: NULL = nobody ends its calls. */
int remote_connect(const struct remote *remote, int64_t timeout_ns, const atomic_bool *cancel, struct net_client **ret,
		   struct error *err);
/* Begins a request: path is a buffer that this initialises, call a path, and values what to ask with, encoded; NULL values are
 * left out. */
struct remote_value {
	const char *name, *value;
};
int remote_begin(struct buffer *path, const char *call, const struct remote_value *values, size_t count);
int remote_add(struct buffer *path, const char *name, const char *value);
int remote_add_list(struct buffer *path, const char *name, const struct option_list *values);
struct remote_notes {
	char symbols[128]; /* "resolved=N pending=N missing=N ambiguous=N" of the response's addresses, or "" */
	char partial[256]; /* why it is not of all data, or "" */
};
/* Says on standard error that the result is partial, if it is. */
void remote_note_partial(const char *verb, const struct remote_notes *notes);
/* Asks with a client that stays connected, and gives the body of a 200. What the server says of a bad question becomes the
 * error's whole text. notes: NULL, or as of remote_query(). */
int remote_ask(const struct remote *remote, struct net_client *client, const char *method, struct buffer *path,
	       struct bytes body, struct buffer *ret, struct remote_notes *notes, struct error *err);
/* Asks, and gives the body of a 200. What the server says of a bad question becomes the error's whole text. */
int remote_request(const struct remote *remote, const char *method, struct buffer *path, struct buffer *ret, struct error *err);
/* The same with a body. */
int remote_send(const struct remote *remote, const char *method, struct buffer *path, struct bytes body, struct buffer *ret,
		struct error *err);
/* The same with GET, and what the response says beside its body. */
int remote_query(const struct remote *remote, struct buffer *path, struct buffer *ret, struct remote_notes *notes,
		 struct error *err);

#endif
