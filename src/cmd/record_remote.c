/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd/record_remote.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "base/limits.h"
#include "base/text.h"
#include "base/time.h"
#include "format/format.h"
#include "net/net.h"
#include "profile/markers.h"

#define CHECK_INTERVAL_NS (500 * NS_PER_MS)
#define UNREACHABLE_NS	  (60 * NS_PER_S) /* how long the server may be away */
#define FETCH_TIMEOUT_NS  (600 * NS_PER_S)
#define PATH_SIZE	  128
#define PROFILE_MAX	  (1 * GIB)

struct waiting {
	const struct record_remote *remote;
	char id[CONTROL_ID_SIZE];
	struct net_client *net;
	atomic_bool stop;
	int64_t start_ns, end_ns; /* monotonic, about */
	size_t hosts, done;
};

static void stop(void *context)
{
	cancel_request(&((struct waiting *)context)->stop);
}

int record_remote_order(const struct option_list *const lists[RECORDING_TARGET_KINDS], struct recording_request *ret,
			struct error *err)
{
	if (ret->duration_ns > RECORDING_DURATION_MAX_NS)
		return error_set(err, -EINVAL, "-d: a recording of several hosts can take 10 minutes at most");
	if (ret->frequency_hz > RECORDING_FREQUENCY_MAX_HZ)
		return error_set(err, -EINVAL, "-F: the limit for remote hosts is %u Hz", RECORDING_FREQUENCY_MAX_HZ);
	for (size_t kind = 0; kind < RECORDING_TARGET_KINDS; kind++) {
		for (size_t i = 0; i < lists[kind]->count; i++) {
			if (ret->target_count == RECORDING_TARGETS_MAX)
				return error_set(err, -EINVAL, "more than %d groups to record", RECORDING_TARGETS_MAX);
			struct recording_target *target = &ret->targets[ret->target_count++];
			target->kind = (enum recording_target_kind)kind;
			if (snprintf(target->name, sizeof(target->name), "%s", lists[kind]->items[i]) >=
			    (int)sizeof(target->name))
				return error_set(err, -EINVAL, "--%s: the name is too long", recording_target_names[kind]);
		}
	}
	return 0;
}

/* ---- asking ---- */

/* The text of {"error": ...}, or the status. */
static int response_error(const struct net_client_response *response, struct error *err)
{
	_cleanup_(buffer_release) struct buffer safe = {.max = MIB}; /* it is printed */
	_cleanup_(json_decrefp) json_t *json =
		json_loadb(response->body.len ? (const char *)response->body.data : "", response->body.len, 0, NULL);
	const char *text = json_string_value(json_object_get(json, "error"));
	text_append_harmless(&safe, bytes_of_string(text ? text : response->message));
	int r = error_set(err, response->status == 503 ? -EAGAIN : -EBADMSG, "the server responded with %d %.*s",
			  response->status, (int)safe.len, safe.len ? (const char *)safe.data : "");
	if (response->status == 404 && !text)
		r = error_set(err, -ENOTSUP,
			      "the server does not support recordings of several hosts: it is older than this wick");
	return r;
}

/* *ret: an object; decref it. */
static int send_request(struct net_client *net, const char *method, const char *path, struct bytes body, int status,
			json_t **ret, struct error *err)
{
	_cleanup_(net_client_response_release) struct net_client_response response = {0};
	int r = net_client_request(net, method, path, body.len ? "application/json" : NULL, body, NET_PLAIN, &response, err);
	if (r < 0)
		return r == -ECANCELED ? r : error_set(err, -EAGAIN, "%s", err->message);
	if (response.status != status)
		return response_error(&response, err);
	*ret = json_loadb(response.body.len ? (const char *)response.body.data : "", response.body.len, 0, NULL);
	return json_is_object(*ret) ? 0 : error_set(err, -EBADMSG, "malformed response from the server");
}

static int request_recording(struct waiting *waiting, const struct recording_request *request, struct error *err)
{
	_cleanup_(buffer_release) struct buffer body = {.max = MIB};
	_cleanup_(json_decrefp) json_t *json = NULL;
	int r = control_write_api_request(request, waiting->remote->hosts.items, waiting->remote->hosts.count, &body, err);
	if (r == 0)
		r = send_request(waiting->net, "POST", CONTROL_RECORDINGS_PATH, buffer_bytes(&body), 201, &json, err);
	if (r == -EBADMSG && waiting->remote->server.tenant) {
		char message[ERROR_MESSAGE_MAX];
		snprintf(message, sizeof(message), "%s", err->message);
		r = error_set(err, r, "%.300s (only agents started with --tenant '%.150s' belong to this tenant)", message,
			      waiting->remote->server.tenant);
	}
	const char *id = json_string_value(json_object_get(json, "id"));
	if (r == 0 && (!id || !control_id_is_valid(id)))
		r = error_set(err, -EBADMSG, "malformed response from the server");
	if (r == 0) {
		/* By its clock, of which only the difference counts. */
		int64_t lead_ms = json_integer_value(json_object_get(json, "start_ms")) -
				  json_integer_value(json_object_get(json, "created_ms"));
		snprintf(waiting->id, sizeof(waiting->id), "%s", id);
		waiting->start_ns = time_monotonic_ns() + lead_ms * NS_PER_MS;
		waiting->end_ns = waiting->start_ns + request->duration_ns;
	}
	return r;
}

static void cancel_it(struct waiting *waiting)
{
	_cleanup_(net_client_freep) struct net_client *net = NULL;
	json_t *json = NULL;
	char path[PATH_SIZE];
	struct error err = {0};
	snprintf(path, sizeof(path), CONTROL_RECORDINGS_PATH "/%s", waiting->id);
	if (remote_connect(&waiting->remote->server, 5 * NS_PER_S, NULL, &net, &err) == 0)
		send_request(net, "DELETE", path, (struct bytes){0}, 200, &json, &err);
	json_decref(json);
}

/* ---- waiting ---- */

static void show_progress(const struct waiting *waiting, const size_t counts[RECORDING_STATES])
{
	int64_t now_ns = time_monotonic_ns();
	if (!terminal_is_interactive())
		return;
	fprintf(stderr, "\r\033[K");
	if (now_ns < waiting->start_ns)
		fprintf(stderr, "recording starts in %lld s", (long long)((waiting->start_ns - now_ns) / NS_PER_S) + 1);
	else if (now_ns < waiting->end_ns)
		fprintf(stderr, "recording: %lld s left", (long long)((waiting->end_ns - now_ns) / NS_PER_S) + 1);
	else
		fprintf(stderr, "waiting for profiles");
	fprintf(stderr, "; %zu hosts", waiting->hosts);
	for (size_t i = 0; i < RECORDING_STATES; i++)
		if (counts[i])
			cmd_printf(stderr, ", %zu %s", counts[i], recording_state_text((enum recording_state)i));
	fprintf(stderr, "; Ctrl-C cancels ");
}

static void count_states(struct waiting *waiting, const json_t *hosts, size_t counts[RECORDING_STATES])
{
	enum recording_state state;
	waiting->hosts = json_array_size(hosts);
	for (size_t i = 0; i < waiting->hosts; i++)
		if (recording_state_parse(json_string_value(json_object_get(json_array_get(hosts, i), "state")), &state) == 0)
			counts[state]++;
	waiting->done = counts[RECORDING_DONE];
}

/* A state that a newer server may have is shown by its name. */
static const char *state_text(const char *name)
{
	enum recording_state state;
	return recording_state_parse(name, &state) == 0 ? recording_state_text(state) : name;
}

static void report_hosts(const json_t *hosts)
{
	for (size_t i = 0; i < json_array_size(hosts); i++) {
		const json_t *host = json_array_get(hosts, i);
		const char *name = json_string_value(json_object_get(host, "name")),
			   *state = json_string_value(json_object_get(host, "state")),
			   *why = json_string_value(json_object_get(host, "why"));
		if (!name || !state || !why || strcmp(state, recording_state_names[RECORDING_DONE]) == 0)
			continue;
		fprintf(stderr, "wick record: host ");
		cmd_print_harmless(stderr, name, 0);
		fprintf(stderr, ": ");
		cmd_print_harmless(stderr, state_text(state), 0);
		cmd_printf(stderr, "%s", *why ? ": " : "");
		cmd_print_harmless(stderr, why, 0);
		fputc('\n', stderr);
	}
}

/* Why there is no profile. */
static void report_failures(struct waiting *waiting)
{
	char path[PATH_SIZE];
	json_t *json = NULL;
	struct error err = {0};
	snprintf(path, sizeof(path), CONTROL_RECORDINGS_PATH "/%s", waiting->id);
	if (send_request(waiting->net, "GET", path, (struct bytes){0}, 200, &json, &err) == 0)
		report_hosts(json_object_get(json, "hosts"));
	json_decref(json);
}

/* The server says in comments which hosts the profile is without, also those whose files turned out to be of no use. */
static void report_missing(struct waiting *waiting, const struct profile *profile)
{
	char prefix[PATH_SIZE];
	size_t missing = 0;
	int len = snprintf(prefix, sizeof(prefix), "recording %s: ", waiting->id);
	for (size_t i = 0; i < profile->comment_count; i++) {
		const char *text = profile_string(profile, profile->comments[i]), *is_missing = " is missing: ", *reason;
		if (strncmp(text, prefix, (size_t)len) != 0 || !(reason = strstr(text, is_missing)))
			continue;
		missing++;
		fprintf(stderr, "wick record: ");
		cmd_print_harmless_bytes(stderr,
					 (struct bytes){(const uint8_t *)text + len, (size_t)(reason - text) - (size_t)len});
		fprintf(stderr, ": ");
		cmd_print_harmless(stderr, reason + strlen(is_missing), 0);
		fputc('\n', stderr);
	}
	waiting->done = missing < waiting->hosts ? waiting->hosts - missing : 0;
}

/* 1 it is over, 0 not yet. */
static int check_hosts(struct waiting *waiting, struct error *err)
{
	size_t counts[RECORDING_STATES] = {0};
	char path[PATH_SIZE];
	_cleanup_(json_decrefp) json_t *json = NULL;
	snprintf(path, sizeof(path), CONTROL_RECORDINGS_PATH "/%s", waiting->id);
	int r = send_request(waiting->net, "GET", path, (struct bytes){0}, 200, &json, err);
	if (r == 0) {
		const json_t *hosts = json_object_get(json, "hosts");
		const char *state = json_string_value(json_object_get(json, "state"));
		count_states(waiting, hosts, counts);
		r = state && strcmp(state, "over") == 0;
		if (!r)
			show_progress(waiting, counts);
		else if (terminal_is_interactive())
			fprintf(stderr, "\r\033[K");
	}
	return r;
}

static int wait_for_it(struct waiting *waiting, struct error *err)
{
	int64_t response_ns = time_monotonic_ns();
	for (;;) {
		if (cancel_requested(&waiting->stop))
			return error_set(err, -ECANCELED, "cancelled");
		int r = check_hosts(waiting, err);
		int64_t now_ns = time_monotonic_ns();
		if (r > 0)
			return 0;
		if (r < 0 && (r != -EAGAIN || now_ns - response_ns > UNREACHABLE_NS))
			return r;
		response_ns = r == 0 ? now_ns : response_ns;
		time_sleep_ns(CHECK_INTERVAL_NS);
	}
}

/* ---- the profile ---- */

static int fetch(struct waiting *waiting, struct profile **ret, struct error *err)
{
	_cleanup_(net_client_freep) struct net_client *net = NULL;
	char path[PATH_SIZE];
	int64_t until_ns = time_monotonic_ns() + UNREACHABLE_NS;
	snprintf(path, sizeof(path), CONTROL_RECORDINGS_PATH "/%s/profile?format=firefox", waiting->id);
	int r = remote_connect(&waiting->remote->server, FETCH_TIMEOUT_NS, &waiting->stop, &net, err);
	while (r == 0) {
		_cleanup_(net_client_response_release) struct net_client_response response = {0};
		struct format_options options = {.input_name = "the server's profile", .decompressed_max = PROFILE_MAX};
		r = net_client_request(net, "GET", path, NULL, (struct bytes){0}, NET_PLAIN, &response, err);
		if (r == 0 && response.status == 200)
			return format_decode(format_by_name("firefox"), buffer_bytes(&response.body), &options, ret, err);
		if (r == 0)
			r = response_error(&response, err);
		if (r != -EAGAIN || time_monotonic_ns() > until_ns)
			return r;
		time_sleep_ns(CHECK_INTERVAL_NS);
		r = 0;
	}
	return r;
}

/* How well the hosts' clocks are known. */
static void report_clocks(const struct profile *profile)
{
	char offset[TIME_TEXT_MAX], bound[TIME_TEXT_MAX];
	for (size_t i = 1; i <= profile_host_count(profile); i++) {
		const struct profile_host *host = &profile->markers->hosts[i];
		bool is_behind = host->offset_ns < 0;
		fprintf(stderr, "  host ");
		cmd_print_harmless(stderr, profile_string(profile, host->name), 0);
		if (!host->reference) {
			fprintf(stderr, ": its clock offset is unknown\n");
			continue;
		}
		time_format_duration(is_behind ? -host->offset_ns : host->offset_ns, offset);
		cmd_printf(stderr, ": its clock was %s %s of ", offset, is_behind ? "behind that" : "ahead");
		cmd_print_harmless(stderr, profile_string(profile, host->reference), 0);
		if (host->bound_ns >= 0)
			cmd_printf(stderr, ", accurate to %s", time_format_duration(host->bound_ns, bound));
		fprintf(stderr, " (");
		cmd_print_harmless(stderr, profile_string(profile, host->method), 0);
		fprintf(stderr, ")\n");
	}
}

static int run(struct waiting *waiting, const struct recording_request *request, struct profile **ret, struct error *err)
{
	int r = request_recording(waiting, request, err);
	if (r < 0)
		return r;
	r = wait_for_it(waiting, err);
	if (r == -ECANCELED) {
		cancel_it(waiting);
		return error_set(err, r, "cancelled; the agents were asked to stop");
	}
	if (r == 0 && !waiting->done)
		r = error_set(err, -ENODATA, "no host completed a recording; nothing was written");
	else if (r == 0)
		r = fetch(waiting, ret, err);
	if (r < 0) {
		report_failures(waiting);
		return r;
	}
	report_missing(waiting, *ret);
	cmd_printf(stderr, "wick record: recording %s of %zu of %zu hosts\n", waiting->id, waiting->done, waiting->hosts);
	report_clocks(*ret);
	return 0;
}

int record_remote_make(const struct record_remote *remote, const struct recording_request *request, struct profile **ret,
		       struct error *err)
{
	struct waiting waiting = {.remote = remote};
	int r = remote_connect(&remote->server, 30 * NS_PER_S, &waiting.stop, &waiting.net, err);
	if (r == 0) {
		signals_install(stop, &waiting, false);
		r = run(&waiting, request, ret, err);
		signals_reset();
	}
	net_client_free(waiting.net);
	return r;
}
