/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lists are in the order in which connections were last active, so that the idlest is found without looking at all: a crowd
 * that comes faster than it can be counted is what this is for. Among the idlest ones the address that has most connections
 * loses one. Otherwise whoever comes from one address and sends a byte now and then would push out agents that are quiet
 * between two uploads.
 */
#include "net/peers.h"

#include <errno.h>

#include "base/alloc.h"
#include "net/net_int.h"

#define BUCKETS_MAX 65536
#define VICTIMS	    16	 /* idle ones among which the address decides */
#define SCAN_MAX    1024 /* connections that are looked at */

static void ring_init(struct net_link *link)
{
	link->next = link->previous = link;
}

static void ring_remove(struct net_link *link)
{
	link->next->previous = link->previous;
	link->previous->next = link->next;
	ring_init(link);
}

/* As the last, which is the latest. */
static void ring_add(struct net_link *list, struct net_link *link)
{
	link->next = list;
	link->previous = list->previous;
	link->previous->next = list->previous = link;
}

int peers_init(struct net_peers *peers, size_t connections_max)
{
	*peers = (struct net_peers){.buckets = 64};
	while (peers->buckets < connections_max && peers->buckets < BUCKETS_MAX)
		peers->buckets *= 2;
	ring_init(&peers->all);
	ring_init(&peers->unknown);
	peers->table = mem_zalloc_array(peers->buckets, sizeof(struct net_peer *));
	return peers->table ? 0 : -ENOMEM;
}

void peers_release(struct net_peers *peers)
{
	peers->table = mem_free(peers->table);
}

static struct net_peer **find(const struct net_peers *peers, uint64_t key)
{
	struct net_peer **at = &peers->table[(key ^ key >> 32) & (peers->buckets - 1)];
	while (*at && (*at)->key != key)
		at = &(*at)->chain;
	return at;
}

struct net_peer *peers_find(const struct net_peers *peers, uint64_t key)
{
	return *find(peers, key);
}

static void forget_unused(struct net_peers *peers, struct net_peer *peer)
{
	if (peer->connection_count || peer->request_count)
		return;
	*find(peers, peer->key) = peer->chain;
	peers->addresses--;
	mem_free(peer);
}

int peers_add(struct net_peers *peers, struct net_connection *connection)
{
	struct net_peer **at = find(peers, connection->peer), *peer = *at;
	if (!peer) {
		peer = mem_zalloc(sizeof(*peer));
		if (!peer)
			return -ENOMEM;
		peer->key = connection->peer;
		ring_init(&peer->connections);
		*at = peer;
		peers->addresses++;
	}
	connection->address = peer;
	connection->listed = true;
	peer->connection_count++;
	peers->count++;
	atomic_fetch_add(&net_connections_open, 1);
	peers->unknown_count++;
	ring_add(&peers->all, &connection->links[NET_LIST_ALL]);
	ring_add(&peer->connections, &connection->links[NET_LIST_ADDRESS]);
	ring_add(&peers->unknown, &connection->links[NET_LIST_UNKNOWN]);
	return 0;
}

void peers_set_known(struct net_peers *peers, struct net_connection *connection)
{
	if (connection->known || !connection->listed)
		return;
	connection->known = true;
	peers->unknown_count--;
	ring_remove(&connection->links[NET_LIST_UNKNOWN]);
}

void peers_remove(struct net_peers *peers, struct net_connection *connection)
{
	if (!connection->listed)
		return;
	peers_set_known(peers, connection);
	connection->listed = false;
	peers->count--;
	atomic_fetch_sub(&net_connections_open, 1);
	ring_remove(&connection->links[NET_LIST_ALL]);
	ring_remove(&connection->links[NET_LIST_ADDRESS]);
	connection->address->connection_count--;
	forget_unused(peers, connection->address);
	connection->address = NULL;
}

void peers_touch(struct net_peers *peers, struct net_connection *connection)
{
	if (!connection->listed)
		return;
	struct net_link *lists[NET_LISTS] = {&peers->all, &connection->address->connections,
					     connection->known ? NULL : &peers->unknown};
	for (size_t i = 0; i < NET_LISTS; i++) {
		struct net_link *link = &connection->links[i];
		if (!lists[i] || link->next == lists[i])
			continue; /* not in it, or the latest already */
		ring_remove(link);
		ring_add(lists[i], link);
	}
}

struct net_peer *peers_hold(struct net_connection *connection)
{
	if (connection->address)
		connection->address->request_count++;
	return connection->address;
}

void peers_unhold(struct net_peers *peers, struct net_peer *peer)
{
	if (!peer)
		return;
	peer->request_count--;
	forget_unused(peers, peer);
}

struct net_connection *peers_find_victim(struct net_peers *peers, enum net_list list, const struct net_peer *peer,
					 int64_t now_ns)
{
	const struct net_link *ring = list == NET_LIST_ADDRESS ? &peer->connections
				      : list == NET_LIST_ALL   ? &peers->all
							       : &peers->unknown;
	struct net_connection *victim = NULL;
	size_t found = 0, looked = 0;
	for (struct net_link *at = ring->next; at != ring && found < VICTIMS && looked < SCAN_MAX; at = at->next, looked++) {
		struct net_connection *connection = container_of(at - list, struct net_connection, links);
		if (!connection_can_go(connection, now_ns))
			continue;
		found++;
		if (!victim || connection->address->connection_count > victim->address->connection_count)
			victim = connection;
		if (list == NET_LIST_ADDRESS)
			break; /* all are of one */
	}
	return victim;
}
