/* SPDX-License-Identifier: Apache-2.0 */
/* The agents' side: what they send, how they retry, and the network in between. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "tests/sim/simulation.h"

#define WAIT_NS	  (100 * NS_PER_MS) /* for a reply */
#define IN_FLIGHT 3		    /* unacknowledged appends of an agent */

void simulation_add_event(struct simulation *s, enum event_kind kind, int64_t in_ns, unsigned agent, unsigned number)
{
	if (s->event_count == EVENTS_MAX)
		simulation_fail(s, "too many events");
	s->events[s->event_count++] = (struct event){kind, s->now_ns + in_ns, s->event_order++, agent, number};
}

/* ---- the network ---- */

void network_send(struct simulation *s, enum event_kind kind, unsigned agent, unsigned number)
{
	if (random_below(&s->random, 100) < 12)
		return;
	unsigned copies = random_below(&s->random, 100) < 12 ? 2 : 1;
	for (unsigned i = 0; i < copies; i++) {
		int64_t slow = random_below(&s->random, 100) < 6 ? 50 : 1;
		simulation_add_event(s, kind, (int64_t)(1 + random_below(&s->random, 30)) * slow * NS_PER_MS, agent, number);
	}
}

/* ---- agents ---- */

static void init_append(struct simulation *s, struct append *append)
{
	append->parts = 1 + random_below(&s->random, PARTS_MAX);
	append->pod = random_below(&s->random, 3);
	for (unsigned i = 0; i < append->parts; i++)
		append->values[i] = 1 + random_below(&s->random, 1000);
}

void agents_init(struct simulation *s)
{
	s->agent_count = 1 + random_below(&s->random, AGENTS_MAX);
	for (unsigned i = 0; i < s->agent_count; i++) {
		struct agent *agent = &s->agents[i];
		agent->count = 4 + random_below(&s->random, APPENDS_MAX / s->agent_count);
		if (agent->count > APPENDS_MAX)
			agent->count = APPENDS_MAX;
		for (unsigned k = 0; k < agent->count; k++)
			init_append(s, &agent->appends[k]);
		simulation_add_event(s, EVENT_AGENT, (int64_t)random_below(&s->random, 20) * NS_PER_MS, i, 0);
	}
}

static void send_append(struct simulation *s, unsigned agent, unsigned number)
{
	struct append *append = &s->agents[agent].appends[number];
	append->attempts++;
	network_send(s, EVENT_REQUEST, agent, number);
	simulation_add_event(s, EVENT_TIMEOUT, WAIT_NS * append->attempts, agent, number);
}

static unsigned count_in_flight(const struct agent *agent)
{
	unsigned count = 0;
	for (unsigned i = 0; i < agent->next; i++)
		count += !agent->appends[i].is_done;
	return count;
}

void agent_handle(struct simulation *s, const struct event *event)
{
	struct agent *agent = &s->agents[event->agent];
	struct append *append = &agent->appends[event->number];
	switch (event->kind) {
	case EVENT_AGENT:
		if (agent->next == agent->count)
			return;
		if (count_in_flight(agent) < IN_FLIGHT) {
			append = &agent->appends[agent->next];
			append->time_ns = EPOCH_NS + s->now_ns + agent->clock_ns;
			send_append(s, event->agent, agent->next++);
		}
		simulation_add_event(s, EVENT_AGENT, (int64_t)(1 + random_below(&s->random, 40)) * NS_PER_MS, event->agent, 0);
		return;
	case EVENT_REPLY: append->is_done = true; return;
	default: break;
	}
	if (append->is_done)
		return;
	if (append->attempts == ATTEMPTS) {
		simulation_log(s, "agent %u gives %u up", event->agent, event->number);
		append->is_done = true;
	} else {
		send_append(s, event->agent, event->number);
	}
}

bool agents_are_done(const struct simulation *s)
{
	for (unsigned i = 0; i < s->agent_count; i++)
		if (s->agents[i].next < s->agents[i].count || count_in_flight(&s->agents[i]))
			return false;
	return true;
}

/* ---- what they send ---- */

static void must(const struct simulation *s, int r, const struct error *err)
{
	if (r < 0)
		simulation_fail(s, "cannot make a profile: %s", err->message);
}

static uint32_t add_frame(const struct simulation *s, struct profile *profile, uint32_t parent, const char *name)
{
	struct error err = {0};
	struct profile_function function = {0};
	struct profile_line line = {0};
	struct profile_location location = {0};
	uint32_t id, stack;
	must(s, profile_add_cstring(profile, name, &function.name, &err), &err);
	must(s, profile_add_function(profile, &function, &line.function, &err), &err);
	must(s, profile_add_location(profile, &location, &line, 1, &id, &err), &err);
	must(s, profile_add_stack(profile, parent, id, &stack, &err), &err);
	return stack;
}

/* A stack of its own for each part, AGENT.NUMBER.PART under the agent, and 1 for a stack that all share. */
struct profile *append_profile(const struct simulation *s, unsigned agent, unsigned number)
{
	const struct append *append = &s->agents[agent].appends[number];
	struct profile *profile = NULL;
	struct error err = {0};
	uint32_t type, unit;
	char name[64];
	must(s, profile_new(&profile, &err), &err);
	must(s, profile_add_cstring(profile, "samples", &type, &err), &err);
	must(s, profile_add_cstring(profile, "count", &unit, &err), &err);
	must(s, profile_add_sample_type(profile, type, unit, &err), &err);
	profile->time_ns = append->time_ns;
	snprintf(name, sizeof(name), "agent%u", agent);
	uint32_t root = add_frame(s, profile, 0, name), shared = add_frame(s, profile, 0, "shared");
	for (unsigned i = 0; i < append->parts; i++) {
		snprintf(name, sizeof(name), "%u.%u.%u", agent, number, i);
		struct profile_sample sample = {.stack = add_frame(s, profile, root, name)};
		must(s, profile_add_sample(profile, &sample, &append->values[i], &err), &err);
	}
	must(s, profile_add_sample(profile, &(struct profile_sample){.stack = shared}, &(int64_t){1}, &err), &err);
	return profile;
}
