/* SPDX-License-Identifier: Apache-2.0 */
#include "server/stores/agents.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/order.h"
#include "base/thread.h"
#include "codec/json.h"

struct agents {
	pthread_mutex_t lock;
	struct agent_seen *items;
	size_t count, capacity;
	uint64_t bytes; /* of all healths */
};

struct agents *agents_new(void)
{
	struct agents *agents = mem_zalloc(sizeof(*agents));
	if (agents)
		pthread_mutex_init(&agents->lock, NULL);
	return agents;
}

void agents_list_free(struct agent_seen *list, size_t count)
{
	for (size_t i = 0; i < count; i++)
		mem_free(list[i].health);
	mem_free(list);
}

struct agents *agents_free(struct agents *agents)
{
	if (!agents)
		return NULL;
	agents_list_free(agents->items, agents->count);
	pthread_mutex_destroy(&agents->lock);
	return mem_free(agents);
}

/* ---- what is kept; with the lock ---- */

static bool is_stale(const struct agent_seen *seen, int64_t now_ns)
{
	return now_ns - seen->polled_ns > AGENTS_STALE_NS;
}

static struct agent_seen *find(struct agents *agents, const char *agent)
{
	for (size_t i = 0; i < agents->count; i++)
		if (strcmp(agents->items[i].agent, agent) == 0)
			return &agents->items[i];
	return NULL;
}

static void set_health(struct agents *agents, struct agent_seen *seen, char *text)
{
	agents->bytes -= seen->health ? strlen(seen->health) : 0;
	mem_free(seen->health);
	seen->health = text;
	agents->bytes += text ? strlen(text) : 0;
}

/* The last one moves to its place. */
static void take_out(struct agents *agents, size_t place)
{
	set_health(agents, &agents->items[place], NULL);
	agents->items[place] = agents->items[--agents->count];
}

/* Those that are too old, and silent ones of a host of which there is a new one. */
static void sweep(struct agents *agents, const char *host, int64_t now_ns)
{
	for (size_t i = agents->count; i > 0; i--) {
		const struct agent_seen *seen = &agents->items[i - 1];
		if (now_ns - seen->polled_ns > AGENTS_KEPT_NS || (is_stale(seen, now_ns) && strcmp(seen->host, host) == 0))
			take_out(agents, i - 1);
	}
}

/* Takes out the one that was silent for the longest; false if all but `spare` have polled lately. */
static bool make_room(struct agents *agents, const char *spare, int64_t now_ns)
{
	size_t oldest = agents->count;
	for (size_t i = 0; i < agents->count; i++)
		if (is_stale(&agents->items[i], now_ns) && strcmp(agents->items[i].agent, spare) != 0 &&
		    (oldest == agents->count || agents->items[i].polled_ns < agents->items[oldest].polled_ns))
			oldest = i;
	if (oldest == agents->count)
		return false;
	take_out(agents, oldest);
	return true;
}

/* NULL says why in *ret. */
static struct agent_seen *slot(struct agents *agents, const struct control_poll *poll, int64_t now_ns, int *ret,
			       struct error *err)
{
	struct agent_seen *seen = find(agents, poll->agent);
	*ret = 0;
	if (seen)
		return seen;
	sweep(agents, poll->host, now_ns);
	if (agents->count >= AGENTS_MAX && !make_room(agents, poll->agent, now_ns))
		*ret = error_set(err, -EDQUOT, "the limit of %d agents is reached", AGENTS_MAX);
	else if (array_reserve(&agents->items, &agents->capacity, agents->count + 1, AGENTS_MAX) < 0)
		*ret = error_nomem(err);
	if (*ret < 0)
		return NULL;
	seen = &agents->items[agents->count++];
	*seen = (struct agent_seen){0};
	memcpy(seen->agent, poll->agent, sizeof(seen->agent));
	return seen;
}

/* ---- what comes in ---- */

/* Written anew, so that nothing is kept but what is understood. */
static int health_text(const struct health *health, char **ret, struct error *err)
{
	_cleanup_(buffer_release) struct buffer out = {.max = HEALTH_BYTES_MAX};
	struct json_writer json = {.out = &out};
	health_write(&json, health);
	int r = json_finish(&json, err);
	*ret = r == 0 ? mem_strndup((const char *)out.data, out.len) : NULL;
	return r == 0 && !*ret ? error_nomem(err) : r;
}

/* Takes *text, if it is kept. */
static int keep_health(struct agents *agents, const char *agent, char **text, int64_t now_ns, struct error *err)
{
	while (agents->bytes + strlen(*text) > AGENTS_BYTES_MAX)
		if (!make_room(agents, agent, now_ns))
			return error_set(err, -EDQUOT, "the health reports of agents have reached the limit of %llu bytes",
					 AGENTS_BYTES_MAX);
	struct agent_seen *seen = find(agents, agent); /* it may have moved */
	if (seen) {
		set_health(agents, seen, TAKE(*text));
		seen->health_ns = now_ns;
	}
	return 0;
}

int agents_note(struct agents *agents, const struct control_poll *poll, const struct health *health, int64_t now_ns,
		struct error *err)
{
	_cleanup_(mem_freep) char *text = NULL;
	int r = health ? health_text(health, &text, err) : 0;
	if (r < 0)
		return r;
	THREAD_LOCK_SCOPE(&agents->lock);
	struct agent_seen *seen = slot(agents, poll, now_ns, &r, err);
	if (seen) {
		memcpy(seen->host, poll->host, sizeof(seen->host));
		memcpy(seen->wick, poll->wick, sizeof(seen->wick));
		seen->polled_ns = now_ns;
		r = text ? keep_health(agents, poll->agent, &text, now_ns, err) : 0;
	}
	return r;
}

/* ---- looking ---- */

static int compare_seen(const void *left, const void *right)
{
	const struct agent_seen *a = left, *b = right;
	return strcmp(a->host, b->host) ?: ORDER(b->polled_ns, a->polled_ns) ?: strcmp(a->agent, b->agent);
}

static int copy_all(const struct agents *agents, struct agent_seen **ret, size_t *ret_count)
{
	struct agent_seen *list = mem_alloc_array(agents->count + 1, sizeof(*list));
	for (size_t i = 0; list && i < agents->count; i++) {
		list[i] = agents->items[i];
		if (!list[i].health)
			continue;
		list[i].health = mem_strdup(list[i].health);
		if (!list[i].health) {
			agents_list_free(list, i);
			return -ENOMEM;
		}
	}
	*ret = list;
	*ret_count = agents->count;
	return list ? 0 : -ENOMEM;
}

int agents_list(struct agents *agents, int64_t now_ns, struct agent_seen **ret_list, size_t *ret_count, struct error *err)
{
	struct agent_seen *list = NULL;
	size_t count = 0, kept = 0;
	pthread_mutex_lock(&agents->lock);
	int r = copy_all(agents, &list, &count);
	pthread_mutex_unlock(&agents->lock);
	if (r < 0)
		return error_nomem(err);
	qsort(list, count, sizeof(*list), compare_seen);
	/* Of a host the one that polled last comes first. */
	for (size_t i = 0; i < count; i++) {
		struct agent_seen *seen = &list[i];
		bool has_live = kept > 0 && !list[kept - 1].is_silent && strcmp(list[kept - 1].host, seen->host) == 0;
		seen->is_silent = is_stale(seen, now_ns);
		if (now_ns - seen->polled_ns > AGENTS_KEPT_NS || (seen->is_silent && has_live)) {
			mem_free(seen->health);
			continue;
		}
		list[kept++] = *seen;
	}
	*ret_list = list;
	*ret_count = kept;
	return 0;
}
