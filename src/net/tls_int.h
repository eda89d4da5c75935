/* SPDX-License-Identifier: Apache-2.0 */
/* Private to src/net: sessions of TLS. tls.c has the files and the rules; client_channel.c and server_tls.c the bytes. */
#ifndef WICK_NET_TLS_INT_H
#define WICK_NET_TLS_INT_H

#include <openssl/ssl.h>

#include "net/net.h"

/* A session under the files as they are now; the caller gives it its BIOs and frees it. */
int tls_open(struct net_tls *tls, SSL **ret, struct error *err);
/* For clients that are given none. One for the whole process, never freed: to read a system's authorities takes 50 ms of CPU
 * time and a megabyte. */
int tls_of_system(struct net_tls **ret, struct error *err);
/* What clients check the peer's certificate for. NULL = the name of the URL, unless the options name another. */
const char *tls_server_name(const struct net_tls *tls);
/* What OpenSSL's queue of errors of this thread says first, emptied; "unknown" if it is empty. A static string or in `out`. */
const char *tls_reason(char *out, size_t size);

#endif
