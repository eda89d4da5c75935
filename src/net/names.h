/* SPDX-License-Identifier: Apache-2.0 */
/* Addresses of hosts by name without the C library's name service (names.c). */
#ifndef WICK_NET_NAMES_H
#define WICK_NET_NAMES_H

#include <netinet/in.h>
#include <stddef.h>

#define NAMES_ADDRESSES_MAX 16

/* Addresses as text, in the order in which they are to be tried; what is beyond the maximum is left out. */
struct names_found {
	char text[NAMES_ADDRESSES_MAX][INET6_ADDRSTRLEN];
	size_t count;
};
struct names_sources {
	const char *hosts;	       /* NULL = /etc/hosts */
	const struct sockaddr_in *dns; /* NULL = those of /etc/resolv.conf */
};
struct addrinfo;

/* Of the host; 0, or getaddrinfo()'s code if it has none (EAI_NONAME), or cannot be asked for now (EAI_AGAIN). */
int names_find(const struct names_sources *sources, const char *host, struct names_found *ret);
/* As getaddrinfo(), with a number as port; freeaddrinfo() frees the result. */
int names_resolve(const char *host, const char *port, const struct addrinfo *hints, struct addrinfo **ret);

#endif
