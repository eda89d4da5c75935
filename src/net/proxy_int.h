/* SPDX-License-Identifier: Apache-2.0 */
/* Private to src/net: which proxy the client goes through, by the environment. proxy.c says by which rules. */
#ifndef WICK_NET_PROXY_INT_H
#define WICK_NET_PROXY_INT_H

#include "net/net_int.h"

#define PROXY_USER_BYTES_MAX 1024 /* "user:password", decoded */

#define PROXY_URL_OPTION "proxy_url" /* in the place of a variable's name: an option says it, not the environment */

struct net_proxy {
	struct net_address address;
	char name[NET_NAME_MAX + 64];			  /* for messages: "http://HOST:PORT (https_proxy)", no password */
	char authorization[PROXY_USER_BYTES_MAX * 3 / 2]; /* "Basic ...", "" = none */
};

/* 1 = *ret is the way to the target, 0 = there is none on the way, -EINVAL, -ENOMEM. */
int proxy_from_environment(const struct net_address *target, struct net_proxy *ret, struct error *err);
/* "http://[user[:password]@]host[:port]", as the variable holds it; -EINVAL with a message that has nothing of it but its
 * scheme. */
int proxy_parse(const char *variable, const char *text, struct net_proxy *ret, struct error *err);
/* Loopback, or what NO_PROXY lists. */
bool proxy_is_bypassed(const struct net_address *target, const char *no_proxy);

#endif
