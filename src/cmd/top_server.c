/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A server as the source of wick top: the profile of the last seconds, asked for again and again. It is asked by process and
 * thread, and more coarsely where there are too many of them for one answer.
 *
 * Agents send some seconds of samples at a time, with the time when these began, so what a server has of the last seconds is
 * never all. So the range ends where the newest samples begin.
 */
#include "cmd/top.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/cancel.h"
#include "base/limits.h"
#include "base/thread.h"
#include "base/time.h"
#include "format/format.h"
#include "net/net.h"
#include "top/ungroup.h"

#define TIMEOUT_NS (30 * NS_PER_S)

struct top_server {
	const struct top_settings *settings;
	struct top_feed *feed;
	struct net_client *client;
	pthread_t thread;
	bool has_thread;
	pthread_mutex_t lock;
	pthread_cond_t stopped;
	atomic_bool stop;
	size_t groups; /* how many of top_groups are asked for */
};

/* ---- requests ---- */

/* When the newest samples begin; 0 = there are none. */
static int ask_newest(struct net_client *client, const struct remote *remote, int64_t *ret_ns, struct error *err)
{
	_cleanup_(buffer_release) struct buffer path = {0}, body = {0};
	json_error_t at;
	remote_begin(&path, "/api/v1/status", NULL, 0);
	int r = remote_ask(remote, client, "GET", &path, (struct bytes){0}, &body, NULL, err);
	if (r < 0)
		return r;
	json_t *json = json_loadb((const char *)body.data, body.len, 0, &at);
	json_t *data = json_object_get(json, "data"), *newest = json_object_get(data, "newest_ms");
	r = json_is_object(data)
		    ? 0
		    : error_set(err, -EBADMSG, "%s is no server of Wick: its status makes no sense", remote_url(remote));
	double ms = json_number_value(newest);
	*ret_ns = ms > 0 && ms < 9e12 ? (int64_t)ms * NS_PER_MS : 0;
	json_decref(json);
	return r;
}

static int ask_profile(struct top_server *server, int64_t to_ns, struct buffer *ret, struct error *err)
{
	const struct top_settings *settings = server->settings;
	_cleanup_(buffer_release) struct buffer path = {0};
	char from[24], to[24];
	snprintf(from, sizeof(from), "%" PRId64, to_ns - settings->length_ns);
	snprintf(to, sizeof(to), "%" PRId64, to_ns);
	const struct remote_value values[] = {{"query", settings->selector}, {"from", from}, {"to", to}, {"format", "pprof"}};
	remote_begin(&path, "/api/v1/query", values, sizeof(values) / sizeof(*values));
	remote_add_list(&path, "where", &settings->where);
	for (size_t i = 0; i < server->groups; i++)
		buffer_printf(&path, "%s%s", i ? "," : "&group_by=", top_groups[i].name);
	if (buffer_status(&path) < 0)
		return error_set(err, -EINVAL, "the selector is too long");
	return remote_ask(&settings->remote, server->client, "GET", &path, (struct bytes){0}, ret, NULL, err);
}

/* ---- a picture ---- */

static int decode(const struct buffer *body, struct profile **ret, struct error *err)
{
	_cleanup_(profile_freep) struct profile *grouped = NULL;
	const struct format_options options = {.input_name = "the server's response",
					       .decompressed_max = LIMIT_PROFILE_INPUT_BYTES};
	int r = format_decode(format_by_name("pprof"), buffer_bytes(body), &options, &grouped, err);
	return r < 0 ? r : top_ungroup(grouped, ret, err);
}

static int poll_once(struct top_server *server, struct error *err)
{
	const struct top_settings *settings = server->settings;
	_cleanup_(buffer_release) struct buffer body = {0};
	struct top_part part = {.replaces = true};
	int64_t newest_ns;
	int r = ask_newest(server->client, &settings->remote, &newest_ns, err);
	if (r < 0)
		return r;
	newest_ns = newest_ns ? newest_ns : time_now_ns();
	r = ask_profile(server, newest_ns, &body, err);
	/* Too many groups is a fault of the question, too. */
	while (r == -EINVAL && server->groups > 1 && strstr(err->message, "group")) {
		server->groups--;
		r = ask_profile(server, newest_ns, &body, err);
	}
	if (r == 0)
		r = decode(&body, &part.profile, err);
	if (r < 0)
		return r;
	part.interval = (struct top_interval){.to_ns = settings->length_ns};
	for (size_t i = 0; i < part.profile->sample_count; i++)
		part.interval.taken++;
	top_feed_put(server->feed, part);
	return 0;
}

static bool wait(struct top_server *server)
{
	int64_t until_ns = time_monotonic_ns() + server->settings->delay_ns;
	THREAD_LOCK_SCOPE(&server->lock);
	while (!atomic_load(&server->stop) && thread_wait_until(&server->stopped, &server->lock, until_ns))
		continue;
	return !atomic_load(&server->stop);
}

/* A fault of the question stays one; a server that is gone may come back. */
static void *run(void *context)
{
	struct top_server *server = context;
	struct error err = {0};
	int r;
	do {
		r = poll_once(server, &err);
		top_feed_trouble(server->feed, r < 0 ? &err : NULL);
	} while (r != -EINVAL && r != -EACCES && wait(server));
	top_feed_end(server->feed, r == -ECANCELED ? 0 : r, &err);
	return NULL;
}

/* ---- beginning and end ---- */

int top_server_check(const struct remote *remote, struct error *err)
{
	_cleanup_(net_client_freep) struct net_client *client = NULL;
	int64_t newest_ns;
	int r = remote_connect(remote, TIMEOUT_NS, NULL, &client, err);
	return r < 0 ? r : ask_newest(client, remote, &newest_ns, err);
}

int top_server_start(const struct top_settings *settings, struct top_feed *feed, struct top_server **ret, struct error *err)
{
	_cleanup_(top_server_freep) struct top_server *server = mem_zalloc(sizeof(*server));
	if (!server)
		return error_nomem(err);
	server->settings = settings;
	server->feed = feed;
	server->groups = TOP_GROUPS;
	pthread_mutex_init(&server->lock, NULL);
	thread_condition_init(&server->stopped);
	int r = remote_connect(&settings->remote, TIMEOUT_NS, &server->stop, &server->client, err);
	if (r == 0)
		r = thread_start(&server->thread, "wick-poll", run, server, err);
	if (r < 0)
		return r;
	server->has_thread = true;
	*ret = TAKE(server);
	return 0;
}

struct top_server *top_server_free(struct top_server *server)
{
	if (!server)
		return NULL;
	if (server->has_thread) {
		pthread_mutex_lock(&server->lock);
		atomic_store(&server->stop, true);
		pthread_cond_broadcast(&server->stopped);
		pthread_mutex_unlock(&server->lock);
		pthread_join(server->thread, NULL);
	}
	net_client_free(server->client);
	pthread_mutex_destroy(&server->lock);
	pthread_cond_destroy(&server->stopped);
	return mem_free(server);
}
