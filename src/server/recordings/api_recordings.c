/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Recordings of many hosts at the same time: agents poll for recording requests, API clients make them, hosts send their
 * profiles. recordings.c keeps them; here it is turned into HTTP. docs/remote.md describes the process, protocol.h what agents
 * and server say to each other.
 *
 *   POST   /api/v1/agents/poll                   an agent asks
 *   GET    /api/v1/agents                        who does, how they are (agents.h), and who did
 *   POST   /api/v1/recordings                    request one
 *   GET    /api/v1/recordings[/ID]               what there is, what becomes of it
 *   GET    /api/v1/recordings/ID/profile         of all its hosts: api_recordings_profile.c
 *   POST   /api/v1/recordings/ID/hosts/HOST      an agent sends its part: api_recordings_check.c
 *   DELETE /api/v1/recordings/ID                 cancel and remove
 *
 * The recording `continuous` is another thing: api_marker_batches.c.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/limits.h"
#include "base/text.h"
#include "base/thread.h"
#include "base/time.h"
#include "server/recordings/api_recordings.h"
#include "server/stores/agents.h"
#include "server/stores/marker_batches.h"
#include "server/stores/recordings.h"

#define BELOW	     CONTROL_RECORDINGS_PATH "/"
#define LIST_BYTES   (32 * MIB)
#define BUSY_RETRY_S "2"
#define AGENT_SHOWN  8

void api_respond_failure(struct net_response *response, int code, const struct error *err)
{
	if (code >= 0)
		return;
	int status = code == -EINVAL ? 400 : http_status_of(code);
	if (status == 503 || status == 507)
		net_response_header(response, "Retry-After", BUSY_RETRY_S);
	respond_error(response, status, err->message);
}

void api_respond_done(struct net_response *response, int r, struct error *err)
{
	if (r == 0 && buffer_append_string(&response->body, "{}") < 0)
		r = error_nomem(err);
	api_respond_failure(response, r, err);
}

/* ---- agents ---- */

static void server_clock(struct server *server, char out[static CONTROL_CLOCK_SIZE])
{
	THREAD_LOCK_SCOPE(&server->agent_lock);
	server->clock_step_count += clock_steps_check_now(&server->clock_steps);
	snprintf(out, CONTROL_CLOCK_SIZE, "server-%016llx-%u", (unsigned long long)server->clock_number,
		 server->clock_step_count);
}

void api_agent_poll(void *context, const struct net_request *request, struct net_response *response)
{
	struct control_reply reply = {0};
	struct control_poll poll;
	struct error err = {0};
	/* In this order: times of a clock that is set in between go with its old name, which is forgotten with the next answer.
	 */
	server_clock(context, reply.clock);
	reply.received_ns = time_now_ns();
	struct health health;
	struct tenant *tenant = NULL;
	int r = control_read_poll(net_request_body(request), &poll, &err);
	if (r == 0 && poll.has_health)
		r = control_read_health(net_request_body(request), &health, &err);
	if (r == 0)
		r = tenant_of_request(context, request, true, &tenant, &err);
	/* Recording requests do not depend on it: a list that is full is no reason to refuse. */
	if (r == 0)
		agents_note(tenant->agents, &poll, poll.has_health ? &health : NULL, time_monotonic_ns(), NULL);
	if (r == 0)
		r = recordings_poll(tenant->recordings, &poll, reply.received_ns, &reply, &err);
	reply.answered_ns = time_now_ns();
	if (r == 0)
		r = control_write_reply(&reply, &response->body, &err);
	api_respond_failure(response, r, &err);
}

static void write_clock(struct json_writer *json, const struct host_clock *clock)
{
	if (!clock->reference[0])
		return;
	json_key(json, "clock");
	control_write_host_clock(json, clock);
}

/* Who knows all of it can speak for the agent. */
static void write_number(struct json_writer *json, const char *agent)
{
	json_member_bytes(json, "agent", (struct bytes){(const uint8_t *)agent, strnlen(agent, AGENT_SHOWN)});
}

static int64_t age_ms(int64_t now_ns, int64_t at_ns)
{
	return now_ns > at_ns ? (now_ns - at_ns) / NS_PER_MS : 0;
}

static void write_health(struct json_writer *json, const struct agent_seen *seen, int64_t now_ns)
{
	if (!seen || !seen->health)
		return;
	json_key(json, "health");
	json_raw(json, bytes_of_string(seen->health));
	json_member_int(json, "health_age_ms", age_ms(now_ns, seen->health_ns));
}

static void write_agent(struct json_writer *json, const struct recordings_agent *agent)
{
	const struct clock_sample *ping = &agent->poll.sample;
	json_member_cstring(json, "host", agent->poll.host);
	write_number(json, agent->poll.agent);
	json_member_cstring(json, "wick", agent->poll.wick);
	json_member_cstring(json, "refusal", agent->poll.refusal);
	json_member_cstring(json, "recording", agent->recording);
	json_member_int(json, "heard_ms", agent->polled_ns / NS_PER_MS);
	if (agent->poll.has_clock_sample)
		json_member_int(json, "round_trip_ns",
				ping->returned_ns - ping->sent_ns - (ping->answered_ns - ping->received_ns));
	write_clock(json, &agent->poll.clock);
}

struct all_agents {
	struct recordings_agent *asking;
	struct agent_seen *seen;
	size_t asking_count, seen_count;
	int64_t now_ns; /* monotonic */
};

static const struct agent_seen *seen_of(const struct all_agents *all, const char *agent)
{
	for (size_t i = 0; i < all->seen_count; i++)
		if (strcmp(all->seen[i].agent, agent) == 0)
			return &all->seen[i];
	return NULL;
}

static void write_asking(struct json_writer *json, const struct all_agents *all)
{
	json_member_array(json, "agents");
	for (size_t i = 0; i < all->asking_count; i++) {
		const struct agent_seen *seen = seen_of(all, all->asking[i].poll.agent);
		json_begin_object(json);
		write_agent(json, &all->asking[i]);
		if (seen)
			json_member_int(json, "age_ms", age_ms(all->now_ns, seen->polled_ns));
		write_health(json, seen, all->now_ns);
		json_end_object(json);
	}
	json_end_array(json);
}

/* A list of its own: who chooses among "agents" whom to ask for a recording has no use for these. */
static void write_silent(struct json_writer *json, const struct all_agents *all)
{
	int64_t wall_ms = time_now_ns() / NS_PER_MS;
	json_member_array(json, "silent");
	for (size_t i = 0; i < all->seen_count; i++) {
		const struct agent_seen *seen = &all->seen[i];
		if (!seen->is_silent)
			continue;
		json_begin_object(json);
		json_member_cstring(json, "host", seen->host);
		write_number(json, seen->agent);
		json_member_cstring(json, "wick", seen->wick);
		json_member_int(json, "heard_ms", wall_ms - age_ms(all->now_ns, seen->polled_ns));
		json_member_int(json, "age_ms", age_ms(all->now_ns, seen->polled_ns));
		write_health(json, seen, all->now_ns);
		json_end_object(json);
	}
	json_end_array(json);
}

void api_agents(void *context, const struct net_request *request, struct net_response *response)
{
	struct all_agents all = {.now_ns = time_monotonic_ns()};
	struct tenant *tenant = NULL;
	struct error err = {0};
	int r = tenant_of_request(context, request, false, &tenant, &err);
	if (r == 0)
		r = recordings_agents(tenant->recordings, time_now_ns(), &all.asking, &all.asking_count, &err);
	if (r == 0)
		r = agents_list(tenant->agents, all.now_ns, &all.seen, &all.seen_count, &err);
	response->body.max = LIST_BYTES;
	struct json_writer json = {.out = &response->body};
	json_begin_object(&json);
	write_asking(&json, &all);
	write_silent(&json, &all);
	json_end_object(&json);
	mem_free(all.asking);
	agents_list_free(all.seen, all.seen_count);
	if (r == 0)
		r = json_finish(&json, &err);
	api_respond_failure(response, r, &err);
}

/* ---- what there is ---- */

static void write_host(struct json_writer *json, const struct recording_host *host)
{
	json_begin_object(json);
	json_member_cstring(json, "name", host->name);
	json_member_cstring(json, "state", recording_state_names[host->state]);
	json_member_cstring(json, "why", host->why);
	json_member_int(json, "bytes", (int64_t)host->bytes);
	write_clock(json, &host->clock);
	json_end_object(json);
}

static void write_recording(struct json_writer *json, const struct recording *recording)
{
	const struct recording_request *wanted = &recording->request;
	json_begin_object(json);
	json_member_cstring(json, "id", wanted->id);
	json_member_cstring(json, "state", recording->is_over ? "over" : "running");
	json_member_int(json, "created_ms", recording->created_ns / NS_PER_MS);
	json_member_int(json, "start_ms", wanted->start_ns / NS_PER_MS);
	json_key(json, "seconds");
	json_decimal(json, wanted->duration_ns, 9);
	json_member_int(json, "frequency_hz", wanted->frequency_hz);
	json_member_bool(json, "markers", !wanted->no_markers);
	json_member_array(json, "targets");
	for (size_t i = 0; i < wanted->target_count; i++) {
		json_begin_object(json);
		json_member_cstring(json, "kind", recording_target_names[wanted->targets[i].kind]);
		json_member_cstring(json, "name", wanted->targets[i].name);
		json_end_object(json);
	}
	json_end_array(json);
	json_member_int(json, "bytes", (int64_t)recording->bytes);
	json_member_array(json, "hosts");
	for (size_t i = 0; i < recording->host_count; i++)
		write_host(json, &recording->hosts[i]);
	json_end_array(json);
	json_end_object(json);
}

static int answer_one(struct recordings *recordings, const char *id, struct net_response *response, struct error *err)
{
	_cleanup_(recording_freep) struct recording *recording = NULL;
	int r = recordings_get(recordings, id, time_now_ns(), &recording, err);
	if (r < 0)
		return r;
	struct json_writer json = {.out = &response->body};
	write_recording(&json, recording);
	return json_finish(&json, err);
}

void api_recordings(void *context, const struct net_request *request, struct net_response *response)
{
	struct tenant *tenant = NULL;
	struct recordings_stats stats = {0};
	struct recording **all = NULL;
	struct error err = {0};
	size_t count = 0;
	int r = tenant_of_request(context, request, false, &tenant, &err);
	if (r == 0)
		r = recordings_list(tenant->recordings, time_now_ns(), &all, &count, &err);
	if (r == 0)
		recordings_get_stats(tenant->recordings, &stats);
	response->body.max = LIST_BYTES;
	struct json_writer json = {.out = &response->body};
	json_begin_object(&json);
	json_member_int(&json, "bytes", (int64_t)stats.bytes);
	json_member_int(&json, "bytes_max", (int64_t)stats.bytes_max);
	json_member_array(&json, "recordings");
	for (size_t i = 0; i < count; i++) {
		write_recording(&json, all[i]);
		recording_free(all[i]);
	}
	mem_free(all);
	json_end_array(&json);
	json_end_object(&json);
	if (r == 0)
		r = json_finish(&json, &err);
	api_respond_failure(response, r, &err);
}

/* ---- making, taking, removing ---- */

void api_recording_create(void *context, const struct net_request *request, struct net_response *response)
{
	struct tenant *tenant = NULL;
	struct recording_request wanted = {0};
	_cleanup_(mem_freep) char(*hosts)[CONTROL_HOST_SIZE] = NULL;
	size_t count = 0;
	struct error err = {0};
	int r = control_read_api_request(net_request_body(request), &wanted, &hosts, &count, &err);
	if (r == 0)
		r = tenant_of_request(context, request, false, &tenant, &err);
	if (r == 0)
		r = recordings_create(tenant->recordings, &wanted, hosts, count, time_now_ns(), &err);
	if (r == 0)
		r = answer_one(tenant->recordings, wanted.id, response, &err);
	if (r < 0)
		api_respond_failure(response, r, &err);
	else
		response->status = 201;
}

/* "ID", then "" or what follows the slash. False if there is no id. */
static bool split_path(const struct net_request *request, char id[static CONTROL_ID_SIZE], const char **ret_rest)
{
	const char *at = net_request_path(request) + strlen(BELOW);
	size_t len = strcspn(at, "/");
	if (len == 0 || len >= CONTROL_ID_SIZE)
		return false;
	memcpy(id, at, len);
	id[len] = 0;
	*ret_rest = at[len] ? at + len + 1 : at + len;
	return control_id_is_valid(id);
}

static int nothing_here(struct error *err)
{
	return error_set(err, -ENOENT, "no such path; docs/api.md lists the calls of recordings");
}

void api_recording_show(void *context, const struct net_request *request, struct net_response *response)
{
	struct server *server = context;
	struct tenant *tenant = NULL;
	struct error err = {0};
	char id[CONTROL_ID_SIZE];
	const char *rest;
	int r = split_path(request, id, &rest) ? tenant_of_request(server, request, false, &tenant, &err) : nothing_here(&err);
	if (r == 0 && !*rest)
		r = answer_one(tenant->recordings, id, response, &err);
	else if (r == 0 && strcmp(rest, "profile") == 0)
		r = api_recording_profile(server, tenant->recordings, id, request, response, &err);
	else if (r == 0)
		r = nothing_here(&err);
	if (r == -EBADMSG) /* the request is right, what hosts sent is not */
		respond_error(response, 422, err.message);
	else if (r < 0)
		api_respond_failure(response, r, &err);
}

int api_read_ns(const struct net_request *request, const char *name, bool may_be_negative, int64_t *ret, struct error *err)
{
	const char *text = net_request_query(request, name);
	bool is_negative = may_be_negative && text && *text == '-';
	uint64_t value;
	if (!text || text_parse_u64(text + is_negative, &value, NULL) < 0 || value > INT64_MAX / 2)
		return error_set(err, -EINVAL, "parameter '%s' must be a whole number of nanoseconds", name);
	*ret = is_negative ? -(int64_t)value : (int64_t)value;
	return 0;
}

/* Of the host against the reference; without one nothing is known. */
int api_read_clock(const struct net_request *request, struct host_clock *ret, struct error *err)
{
	const char *reference = net_request_query(request, "reference"), *skew = net_request_query(request, "skew");
	*ret = (struct host_clock){0};
	if (!reference || !*reference)
		return 0;
	if (strlen(reference) >= sizeof(ret->reference) ||
	    strspn(reference, "0123456789abcdefghijklmnopqrstuvwxyz-") != strlen(reference))
		return error_set(err, -EINVAL, "parameter 'reference' is not a known clock name");
	memcpy(ret->reference, reference, strlen(reference) + 1);
	int r = api_read_ns(request, "at_ns", false, &ret->at_ns, err);
	if (r == 0)
		r = api_read_ns(request, "offset_ns", true, &ret->offset_ns, err);
	if (r == 0)
		r = api_read_ns(request, "bound_ns", false, &ret->bound_ns, err);
	if (r < 0)
		return r;
	char *end = NULL;
	ret->skew = skew ? strtod(skew, &end) : 0;
	if (!skew || end == skew || *end || !(ret->skew >= -0.01 && ret->skew <= 0.01))
		return error_set(err, -EINVAL, "parameter 'skew' must be a number from -0.01 to 0.01");
	return 0;
}

/* Markers that agents send all the time have the room that recordings leave. */
static void give_way(struct tenant *tenant)
{
	struct recordings_stats stats;
	recordings_get_stats(tenant->recordings, &stats);
	marker_batches_make_room(tenant->batches, stats.bytes, time_now_ns());
}

void api_recording_put(void *context, const struct net_request *request, struct net_response *response)
{
	static const char hosts[] = "hosts/";
	struct tenant *tenant = NULL;
	struct error err = {0};
	char id[CONTROL_ID_SIZE];
	const char *rest;
	struct recordings_upload upload = {
		.id = id, .key = net_request_header(request, CONTROL_KEY_HEADER), .gzip = net_request_body(request)};
	int r = split_path(request, id, &rest) && text_starts_with(rest, hosts) ? 0 : nothing_here(&err);
	if (r == 0)
		r = tenant_of_request(context, request, false, &tenant, &err);
	if (r == 0)
		r = api_read_clock(request, &upload.clock, &err);
	if (r == 0) {
		upload.host = rest + strlen(hosts);
		r = recordings_admit(tenant->recordings, &upload, &err);
	}
	if (r == 0 && (r = api_recording_check(upload.gzip, &err)) < 0)
		recordings_count_refused(tenant->recordings);
	if (r == 0)
		r = recordings_put(tenant->recordings, &upload, time_now_ns(), &err);
	if (r == 0)
		give_way(tenant);
	api_respond_done(response, r, &err);
}

void api_recording_remove(void *context, const struct net_request *request, struct net_response *response)
{
	struct tenant *tenant = NULL;
	struct error err = {0};
	char id[CONTROL_ID_SIZE];
	const char *rest;
	int r = split_path(request, id, &rest) && !*rest ? 0 : nothing_here(&err);
	if (r == 0)
		r = tenant_of_request(context, request, false, &tenant, &err);
	if (r == 0)
		r = recordings_remove(tenant->recordings, id, &err);
	api_respond_done(response, r, &err);
}
