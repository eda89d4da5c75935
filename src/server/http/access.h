/* SPDX-License-Identifier: Apache-2.0 */
/* Who may call what, and where the server may listen. Essay at the top of access.c. */
#ifndef WICK_SERVER_HTTP_ACCESS_H
#define WICK_SERVER_HTTP_ACCESS_H

#include "net/net.h"

struct server;
/* net_server_options.authorize and .on_answer. A caller that is known is attached to the request (struct caller). */
bool access_authorize(void *context, struct net_request *request, struct net_response *response);
void access_on_answer(void *context, const struct net_request *request, int status);
/* Tokens and the audit log; after access_check_options(). */
int access_open(struct server *server, struct error *err);
void access_close(struct server *server);

/* A further address: as open to other machines as the first, or less. */
int access_check_listen(const struct server *server, const char *listen, struct error *err);
/* Checks the listen address against token and insecure; fills listen_host and loopback_only. */
int access_check_options(struct server *server, struct error *err);
/* Whether the request may change what is stored: whoever has the token may; without one only this machine, since anybody else
 * who reaches the port could. -EACCES. */
int access_may_change(const struct server *server, const struct net_request *request, struct error *err);

#endif
