/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who is connected: the open connections by how long nothing has come from them, in all, by address, and those that have not
 * shown yet who they are; and what each address has of what is limited. The loop's alone.
 */
#ifndef WICK_NET_PEERS_H
#define WICK_NET_PEERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct net_connection;
struct net_link {
	struct net_link *next, *previous; /* a ring with the list's own link */
};
enum net_list {
	NET_LIST_ALL,
	NET_LIST_ADDRESS,
	NET_LIST_UNKNOWN, /* that have not brought a valid token or certificate */
	NET_LISTS
};

/* An address that has connections, or requests of former ones. */
struct net_peer {
	struct net_peer *chain;
	uint64_t key;
	struct net_link connections;
	size_t connection_count, request_count, body_bytes;
};
struct net_peers {
	struct net_peer **table;
	size_t buckets; /* a power of two */
	struct net_link all, unknown;
	size_t count, unknown_count, addresses;
};
int peers_init(struct net_peers *peers, size_t connections_max); /* -ENOMEM */
void peers_release(struct net_peers *peers);
/* The connection's `peer` says its address. -ENOMEM. Until connection_close() or connection_release(). */
int peers_add(struct net_peers *peers, struct net_connection *connection);
void peers_remove(struct net_peers *peers, struct net_connection *connection); /* once */
void peers_touch(struct net_peers *peers, struct net_connection *connection);  /* something came, or was taken */
void peers_set_known(struct net_peers *peers, struct net_connection *connection);
struct net_peer *peers_find(const struct net_peers *peers, uint64_t key); /* NULL = nothing of it */
/* A request of the connection's address begins or ends. */
struct net_peer *peers_hold(struct net_connection *connection);
void peers_unhold(struct net_peers *peers, struct net_peer *peer);
/* The connection to close for a new one: of the idlest of the list the one whose address has most connections; NULL if none can
 * go. `peer` for NET_LIST_ADDRESS. */
struct net_connection *peers_find_victim(struct net_peers *peers, enum net_list list, const struct net_peer *peer,
					 int64_t now_ns);

#endif
