/* SPDX-License-Identifier: Apache-2.0 */
#include "control/protocol.h"

#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <string.h>
#include <sys/random.h>

#include "base/alloc.h"
#include "base/text.h"
#include "base/time.h"
#include "codec/json.h"

#define FREQUENCY_DEFAULT_HZ 99
#define POLL_MIN_NS	     (100 * NS_PER_MS)
#define POLL_MAX_NS	     (600 * NS_PER_S)
#define SKEW_MAX	     0.01 /* clocks that are worse are no clocks */
#define ID_BYTES_MAX	     (CONTROL_ID_SIZE / 2)

const char *const recording_state_names[RECORDING_STATES] = {"waiting", "taken",  "recording", "sending",
							     "done",	"failed", "silent",    "cancelled"};
const char *const recording_target_names[RECORDING_TARGET_KINDS] = {"unit", "container", "cgroup"};

int recording_state_parse(const char *name, enum recording_state *ret)
{
	int i = text_find_name(recording_state_names, RECORDING_STATES, name);
	if (i < 0)
		return i;
	*ret = (enum recording_state)i;
	return 0;
}

const char *recording_state_text(enum recording_state state)
{
	return state == RECORDING_SILENT ? "not responding" : recording_state_names[state];
}

/* ---- texts ---- */

bool control_id_is_valid(const char *id)
{
	size_t len = strlen(id);
	return len > 0 && len < CONTROL_ID_SIZE && strspn(id, "0123456789abcdef") == len;
}

int control_make_id(char *out, size_t bytes, struct error *err)
{
	uint8_t random[ID_BYTES_MAX];
	if (bytes > sizeof(random))
		return error_set(err, -EINVAL, "an id has at most %d bytes", ID_BYTES_MAX);
	if (getrandom(random, bytes, 0) != (ssize_t)bytes)
		return error_set_errno(err, -errno, "cannot create an id");
	text_format_hex((struct bytes){random, bytes}, out);
	return 0;
}

int control_add_host_clock(struct profile *profile, const char *name, const struct host_clock *clock, struct error *err)
{
	struct profile_host host = {
		.at_ns = clock->at_ns, .offset_ns = clock->offset_ns, .skew = clock->skew, .bound_ns = clock->bound_ns};
	uint32_t id;
	if (!clock->reference[0])
		return 0;
	int r = profile_add_cstring(profile, name, &host.name, err);
	if (r == 0)
		r = profile_add_cstring(profile, clock->reference, &host.reference, err);
	if (r == 0)
		r = profile_add_cstring(profile, "pings", &host.method, err);
	return r < 0 ? r : profile_add_host(profile, &host, &id, err);
}

bool control_host_is_valid(const char *host)
{
	struct bytes text = bytes_of_string(host);
	return text.len > 0 && text.len < CONTROL_HOST_SIZE && text_is_utf8(text) && !text_has_controls(text) &&
	       !strchr(host, '/') && strcmp(host, ".") != 0 && strcmp(host, "..") != 0;
}

/* ---- reading ---- */

/* What reads member after member: after the first failure it reads nothing any more, and `r` is asked once at the end. */
struct reader {
	struct error *err;
	int r; /* the first failure */
};

static void require(struct reader *in, bool holds, const char *message)
{
	if (in->r == 0 && !holds)
		in->r = error_set(in->err, -EINVAL, "%s", message);
}

/* What is missing is "". */
static void read_text(struct reader *in, const json_t *object, const char *name, char *ret, size_t size)
{
	const json_t *value = json_object_get(object, name);
	const char *text = value ? json_string_value(value) : "";
	if (in->r < 0)
		return;
	if (!text || strlen(text) >= size || strlen(text) != (value ? json_string_length(value) : 0) ||
	    text_has_controls(bytes_of_string(text)))
		in->r = error_set(in->err, -EINVAL, "'%s' must be a string of at most %zu bytes, without line breaks", name,
				  size - 1);
	else
		memcpy(ret, text, strlen(text) + 1);
}

static void read_id(struct reader *in, const json_t *object, const char *name, bool may_miss, char ret[static CONTROL_ID_SIZE])
{
	read_text(in, object, name, ret, CONTROL_ID_SIZE);
	if (in->r == 0 && !control_id_is_valid(ret) && !(may_miss && !*ret))
		in->r = error_set(in->err, -EINVAL, "'%s' must be up to 32 hexadecimal digits", name);
}

static void read_number(struct reader *in, const json_t *object, const char *name, int64_t least, int64_t most, int64_t *ret)
{
	const json_t *value = json_object_get(object, name);
	if (in->r < 0)
		return;
	if (!json_is_integer(value) || json_integer_value(value) < least || json_integer_value(value) > most)
		in->r = error_set(in->err, -EINVAL, "'%s' must be a whole number from %lld to %lld", name, (long long)least,
				  (long long)most);
	else
		*ret = json_integer_value(value);
}

static void read_time(struct reader *in, const json_t *object, const char *name, int64_t *ret)
{
	read_number(in, object, name, 0, INT64_MAX / 2, ret);
}

/* NULL if there is none; decref it. */
static json_t *read_root(struct reader *in, struct bytes text)
{
	json_error_t problem;
	json_t *json = json_loadb(text.len ? (const char *)text.data : "", text.len, JSON_REJECT_DUPLICATES, &problem);
	if (json && json_is_object(json))
		return json;
	in->r = error_set(in->err, -EINVAL, "the body must be a JSON object%s%.200s", json ? "" : ": ",
			  json ? "" : problem.text);
	json_decref(json);
	return NULL;
}

static void read_version(struct reader *in, const json_t *root)
{
	int64_t version;
	read_number(in, root, "version", CONTROL_VERSION, INT32_MAX, &version);
}

/* ---- clocks ---- */

static void write_sample(struct json_writer *json, const struct clock_sample *sample)
{
	json_member_object(json, "ping");
	json_member_int(json, "sent_ns", sample->sent_ns);
	json_member_int(json, "received_ns", sample->received_ns);
	json_member_int(json, "answered_ns", sample->answered_ns);
	json_member_int(json, "returned_ns", sample->returned_ns);
	json_end_object(json);
}

static void read_sample(struct reader *in, const json_t *root, struct control_poll *ret)
{
	const json_t *sample = json_object_get(root, "ping");
	ret->has_clock_sample = sample != NULL;
	if (!sample)
		return;
	read_time(in, sample, "sent_ns", &ret->sample.sent_ns);
	read_time(in, sample, "received_ns", &ret->sample.received_ns);
	read_time(in, sample, "answered_ns", &ret->sample.answered_ns);
	read_time(in, sample, "returned_ns", &ret->sample.returned_ns);
}

void control_write_host_clock(struct json_writer *json, const struct host_clock *clock)
{
	json_begin_object(json);
	json_member_cstring(json, "reference", clock->reference);
	json_member_int(json, "at_ns", clock->at_ns);
	json_member_int(json, "offset_ns", clock->offset_ns);
	json_member_double(json, "skew", clock->skew);
	json_member_int(json, "bound_ns", clock->bound_ns);
	json_end_object(json);
}

static void read_host_clock(struct reader *in, const json_t *node, struct host_clock *ret)
{
	const json_t *skew = json_object_get(node, "skew");
	read_text(in, node, "reference", ret->reference, sizeof(ret->reference));
	read_time(in, node, "at_ns", &ret->at_ns);
	read_number(in, node, "offset_ns", -INT64_MAX / 2, INT64_MAX / 2, &ret->offset_ns);
	read_time(in, node, "bound_ns", &ret->bound_ns);
	ret->skew = json_number_value(skew);
	if (in->r == 0 && (!json_is_number(skew) || !(fabs(ret->skew) <= SKEW_MAX)))
		in->r = error_set(in->err, -EINVAL, "'skew' must be a number from %g to %g", -SKEW_MAX, SKEW_MAX);
}

int control_read_host_clock(const void *node, struct host_clock *ret, struct error *err)
{
	struct reader in = {err};
	read_host_clock(&in, node, ret);
	return in.r;
}

/* ---- recording requests ---- */

static void write_targets(struct json_writer *json, const struct recording_request *request)
{
	json_member_array(json, "targets");
	for (size_t i = 0; i < request->target_count; i++) {
		json_begin_object(json);
		json_member_cstring(json, "kind", recording_target_names[request->targets[i].kind]);
		json_member_cstring(json, "name", request->targets[i].name);
		json_end_object(json);
	}
	json_end_array(json);
}

void control_write_recording_request(struct json_writer *json, const struct recording_request *request)
{
	json_member_cstring(json, "id", request->id);
	json_member_int(json, "start_ns", request->start_ns);
	json_member_int(json, "duration_ns", request->duration_ns);
	json_member_int(json, "frequency_hz", request->frequency_hz);
	json_member_bool(json, "markers", !request->no_markers);
	write_targets(json, request);
	if (request->key[0])
		json_member_cstring(json, "key", request->key);
}

static void read_target(struct reader *in, const json_t *node, struct recording_target *ret)
{
	int kind = text_find_name(recording_target_names, RECORDING_TARGET_KINDS,
				  json_string_value(json_object_get(node, "kind")));
	require(in, kind >= 0, "the 'kind' of a target must be unit, container or cgroup");
	ret->kind = (enum recording_target_kind)kind;
	read_text(in, node, "name", ret->name, sizeof(ret->name));
	/* It becomes an argument. */
	require(in, *ret->name && *ret->name != '-', "the 'name' of a target is empty, or begins with '-'");
}

/* What recording requests of the server and of API clients have in common. */
static void read_what(struct reader *in, const json_t *node, struct recording_request *ret)
{
	const json_t *markers = json_object_get(node, "markers"), *targets = json_object_get(node, "targets");
	int64_t hz = FREQUENCY_DEFAULT_HZ;
	if (json_object_get(node, "frequency_hz"))
		read_number(in, node, "frequency_hz", 1, RECORDING_FREQUENCY_MAX_HZ, &hz);
	ret->frequency_hz = (unsigned)hz;
	ret->no_markers = json_is_false(markers);
	require(in, !markers || json_is_boolean(markers), "'markers' must be true or false");
	if (in->r == 0 && targets && (!json_is_array(targets) || json_array_size(targets) > RECORDING_TARGETS_MAX))
		in->r = error_set(in->err, -EINVAL, "'targets' must be a list of at most %d", RECORDING_TARGETS_MAX);
	ret->target_count = 0;
	for (size_t i = 0; i < json_array_size(targets) && in->r == 0; i++)
		read_target(in, json_array_get(targets, i), &ret->targets[ret->target_count++]);
}

static void read_recording_request(struct reader *in, const json_t *node, struct recording_request *ret)
{
	read_id(in, node, "id", false, ret->id);
	read_time(in, node, "start_ns", &ret->start_ns);
	read_number(in, node, "duration_ns", 1, RECORDING_DURATION_MAX_NS, &ret->duration_ns);
	read_id(in, node, "key", true, ret->key);
	read_what(in, node, ret);
}

int control_read_recording_request(const void *node, struct recording_request *ret, struct error *err)
{
	struct reader in = {err};
	read_recording_request(&in, node, ret);
	return in.r;
}

/* ---- the question ---- */

static void write_report(struct json_writer *json, const struct recording_report *report)
{
	json_member_object(json, "report");
	json_member_cstring(json, "id", report->id);
	json_member_cstring(json, "state", recording_state_names[report->state]);
	json_member_cstring(json, "why", report->why);
	json_end_object(json);
}

int control_write_poll(const struct control_poll *poll, struct buffer *out, struct error *err)
{
	struct json_writer json = {.out = out};
	json_begin_object(&json);
	json_member_int(&json, "version", CONTROL_VERSION);
	json_member_cstring(&json, "agent", poll->agent);
	json_member_cstring(&json, "host", poll->host);
	json_member_cstring(&json, "wick", poll->wick);
	json_member_cstring(&json, "refusal", poll->refusal);
	if (poll->has_clock_sample)
		write_sample(&json, &poll->sample);
	if (poll->clock.reference[0]) {
		json_key(&json, "clock");
		control_write_host_clock(&json, &poll->clock);
	}
	if (poll->report.id[0])
		write_report(&json, &poll->report);
	if (poll->health) {
		json_key(&json, "health");
		health_write(&json, poll->health);
	}
	json_end_object(&json);
	return json_finish(&json, err);
}

static void read_report(struct reader *in, const json_t *root, struct recording_report *ret)
{
	const json_t *report = json_object_get(root, "report");
	if (!report)
		return;
	read_id(in, report, "id", false, ret->id);
	read_text(in, report, "why", ret->why, sizeof(ret->why));
	require(in, recording_state_parse(json_string_value(json_object_get(report, "state")), &ret->state) == 0,
		"the 'state' of a report is unknown");
}

int control_read_poll(struct bytes text, struct control_poll *ret, struct error *err)
{
	struct reader in = {err};
	*ret = (struct control_poll){0};
	_cleanup_(json_decrefp) json_t *root = read_root(&in, text);
	const json_t *clock = json_object_get(root, "clock");
	read_version(&in, root);
	read_id(&in, root, "agent", false, ret->agent);
	read_text(&in, root, "host", ret->host, sizeof(ret->host));
	require(&in, control_host_is_valid(ret->host), "'host' must be a host name: not empty, without a slash");
	read_text(&in, root, "wick", ret->wick, sizeof(ret->wick));
	read_text(&in, root, "refusal", ret->refusal, sizeof(ret->refusal));
	read_sample(&in, root, ret);
	if (clock)
		read_host_clock(&in, clock, &ret->clock);
	read_report(&in, root, &ret->report);
	ret->has_health = in.r == 0 && json_object_get(root, "health");
	return in.r;
}

int control_read_health(struct bytes text, struct health *ret, struct error *err)
{
	struct reader in = {err};
	_cleanup_(json_decrefp) json_t *root = read_root(&in, text);
	return in.r < 0 ? in.r : health_read(json_object_get(root, "health"), ret, err);
}

/* ---- the answer ---- */

int control_write_reply(const struct control_reply *reply, struct buffer *out, struct error *err)
{
	struct json_writer json = {.out = out};
	json_begin_object(&json);
	json_member_int(&json, "version", CONTROL_VERSION);
	json_member_int(&json, "received_ns", reply->received_ns);
	json_member_int(&json, "answered_ns", reply->answered_ns);
	json_member_cstring(&json, "clock", reply->clock);
	json_member_int(&json, "poll_ms", reply->poll_ns / NS_PER_MS);
	json_member_array(&json, "orders");
	if (reply->has_request) {
		json_begin_object(&json);
		control_write_recording_request(&json, &reply->request);
		json_end_object(&json);
	}
	json_end_array(&json);
	json_member_array(&json, "cancel");
	for (size_t i = 0; i < reply->cancel_count; i++)
		json_cstring(&json, reply->cancelled[i]);
	json_end_array(&json);
	json_end_object(&json);
	return json_finish(&json, err);
}

static void read_cancels(struct reader *in, const json_t *list, struct control_reply *ret)
{
	for (size_t i = 0; i < json_array_size(list) && i < CONTROL_CANCELS_MAX && in->r == 0; i++) {
		const char *id = json_string_value(json_array_get(list, i));
		require(in, id && control_id_is_valid(id), "'cancel' must be a list of ids");
		if (in->r == 0)
			memcpy(ret->cancelled[ret->cancel_count++], id, strlen(id) + 1);
	}
}

int control_read_reply(struct bytes text, struct control_reply *ret, struct error *err)
{
	struct reader in = {err};
	*ret = (struct control_reply){0};
	int64_t poll_ms = 0;
	_cleanup_(json_decrefp) json_t *root = read_root(&in, text);
	const json_t *request = json_array_get(json_object_get(root, "orders"), 0);
	read_version(&in, root);
	read_time(&in, root, "received_ns", &ret->received_ns);
	read_time(&in, root, "answered_ns", &ret->answered_ns);
	read_text(&in, root, "clock", ret->clock, sizeof(ret->clock));
	read_number(&in, root, "poll_ms", POLL_MIN_NS / NS_PER_MS, POLL_MAX_NS / NS_PER_MS, &poll_ms);
	ret->poll_ns = poll_ms * NS_PER_MS;
	ret->has_request = request != NULL;
	if (request)
		read_recording_request(&in, request, &ret->request);
	read_cancels(&in, json_object_get(root, "cancel"), ret);
	return in.r;
}

/* ---- the request ---- */

static void read_seconds(struct reader *in, const json_t *root, int64_t *ret)
{
	const json_t *seconds = json_object_get(root, "seconds");
	double value = json_number_value(seconds);
	const double most = (double)RECORDING_DURATION_MAX_NS / NS_PER_S;
	if (in->r < 0)
		return;
	if (!json_is_number(seconds) || !(value >= 0.1 && value <= most))
		in->r = error_set(in->err, -EINVAL, "'seconds' must be a number from 0.1 to %g", most);
	else
		*ret = (int64_t)(value * NS_PER_S);
}

static bool is_among(char (*hosts)[CONTROL_HOST_SIZE], size_t count, const char *name)
{
	for (size_t i = 0; i < count; i++)
		if (strcmp(hosts[i], name) == 0)
			return true;
	return false;
}

static int read_hosts(const json_t *list, char (**ret)[CONTROL_HOST_SIZE], size_t *ret_count, struct error *err)
{
	size_t all = json_array_size(list), count = 0;
	if (list && (!json_is_array(list) || all > RECORDING_HOSTS_MAX))
		return error_set(err, -EINVAL, "'hosts' must be a list of at most %u names", RECORDING_HOSTS_MAX);
	char(*hosts)[CONTROL_HOST_SIZE] = mem_zalloc_array(all ? all : 1, sizeof(*hosts));
	if (!hosts)
		return error_nomem(err);
	for (size_t i = 0; i < all; i++) {
		const json_t *item = json_array_get(list, i);
		const char *name = json_string_value(item);
		if (!name || strlen(name) != json_string_length(item) || !control_host_is_valid(name)) {
			mem_free(hosts);
			return error_set(err, -EINVAL, "'hosts' must be a list of host names");
		}
		if (!is_among(hosts, count, name))
			memcpy(hosts[count++], name, strlen(name) + 1);
	}
	*ret = hosts;
	*ret_count = count;
	return 0;
}

int control_read_api_request(struct bytes text, struct recording_request *ret, char (**ret_hosts)[CONTROL_HOST_SIZE],
			     size_t *ret_count, struct error *err)
{
	struct reader in = {err};
	_cleanup_(json_decrefp) json_t *root = read_root(&in, text);
	read_seconds(&in, root, &ret->duration_ns);
	read_what(&in, root, ret);
	return in.r < 0 ? in.r : read_hosts(json_object_get(root, "hosts"), ret_hosts, ret_count, err);
}

int control_write_api_request(const struct recording_request *request, const char *const *hosts, size_t host_count,
			      struct buffer *out, struct error *err)
{
	struct json_writer json = {.out = out};
	json_begin_object(&json);
	json_key(&json, "seconds");
	json_decimal(&json, request->duration_ns, 9);
	json_member_int(&json, "frequency_hz", request->frequency_hz);
	json_member_bool(&json, "markers", !request->no_markers);
	write_targets(&json, request);
	json_member_array(&json, "hosts");
	for (size_t i = 0; i < host_count; i++)
		json_cstring(&json, hosts[i]);
	json_end_array(&json);
	json_end_object(&json);
	return json_finish(&json, err);
}
