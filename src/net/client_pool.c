/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Connections that the clients of a process share: an agent uploads profiles, polls for requests and asks which binaries are
 * wanted, each by a client and on a thread of its own and each for some milliseconds; a server of ten thousand agents should
 * not have a connection for each of these.
 *
 * A client takes a connection for a call of HTTP/1.1 and puts it back after it. The last one that was put back is taken
 * first, so that those that an overlap of calls has left over grow old, and are closed after IDLE_NS. Nobody waits for a
 * connection that is in use: a poll measures the server's clock, and an upload may take minutes.
 *
 * What may share one goes the same way to the same server: key_of(). Tokens and tenants are in each request. A struct net_tls
 * of the caller's may end before the connection does, so that only the system's (tls.c) is shared.
 */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/thread.h"
#include "net/client_int.h"
#include "net/tls_int.h"

#define POOL_MAX 8
#define KEY_SIZE 1024
#define IDLE_NS	 (60 * NS_PER_S)

static pthread_mutex_t pool_lock = PTHREAD_MUTEX_INITIALIZER;
static struct pooled {
	char key[KEY_SIZE];
	struct client_channel channel; /* fd -1 or unused beyond pool_count */
	int64_t since_ns;
} pool[POOL_MAX]; /* the oldest first */
static size_t pool_count;

static void key_of(const struct net_client *client, char key[static KEY_SIZE])
{
	snprintf(key, KEY_SIZE, "%s %s %s %s", client->address.tls ? "https" : "http", client->authority,
		 client->has_proxy ? client->proxy.name : "", client->unix_path ? client->unix_path : "");
}

/* pool_lock held. Its channel is the caller's. */
static struct client_channel remove_at(size_t i)
{
	struct client_channel channel = pool[i].channel;
	memmove(&pool[i], &pool[i + 1], (--pool_count - i) * sizeof(pool[0])); /* move() is for who takes one out */
	return channel;
}

/* OpenSSL's state points to whose it is: in the pool, to nobody, since nothing is read or written there. */
static void move(struct client_channel *to, const struct client_channel *from, const char *peer)
{
	*to = *from;
	if (!to->tls)
		return;
	BIO_set_data(SSL_get_rbio(to->tls), to);
	tls_sessions_set_peer(to->tls, peer);
}

void client_pool_take(struct net_client *client)
{
	char key[KEY_SIZE];
	if (!client->is_shared || client->channel.fd >= 0)
		return;
	key_of(client, key);
	THREAD_LOCK_SCOPE(&pool_lock);
	for (size_t i = pool_count; i-- > 0;) {
		if (strcmp(pool[i].key, key) != 0)
			continue;
		struct client_channel channel = remove_at(i);
		client_set_tls_peer(client);
		move(&client->channel, &channel, client->tls_peer);
		return;
	}
}

void client_pool_put(struct net_client *client)
{
	struct client_channel old[POOL_MAX];
	size_t old_count = 0;
	int64_t now_ns = time_monotonic_ns();
	if (!client->is_shared || client->channel.fd < 0)
		return;
	pthread_mutex_lock(&pool_lock);
	while (pool_count > 0 && (pool_count == POOL_MAX || now_ns - pool[0].since_ns > IDLE_NS))
		old[old_count++] = remove_at(0);
	struct pooled *fresh = &pool[pool_count++];
	key_of(client, fresh->key);
	fresh->since_ns = now_ns;
	fresh->channel = client->channel;
	if (fresh->channel.tls)
		tls_sessions_set_peer(fresh->channel.tls, NULL); /* that was the client's */
	pthread_mutex_unlock(&pool_lock);
	client->channel = (struct client_channel){.fd = -1};
	for (size_t i = 0; i < old_count; i++) {
		if (old[i].tls)
			BIO_set_data(SSL_get_rbio(old[i].tls), &old[i]);
		channel_close(&old[i]);
	}
}
