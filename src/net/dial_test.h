/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by tests that speak to a server by a socket of their own. */
#ifndef WICK_NET_DIAL_TEST_H
#define WICK_NET_DIAL_TEST_H

#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "net/net.h"

/* A connection to a server that listens on the loopback device. */
static inline int test_dial(const struct net_server *server)
{
	const char *colon = strrchr(net_server_address(server), ':');
	struct sockaddr_in to = {.sin_family = AF_INET,
				 .sin_port = htons((uint16_t)strtol(colon + 1, NULL, 10)),
				 .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof(to)), 0);
	return fd;
}

#endif
