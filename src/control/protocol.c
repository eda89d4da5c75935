/* SPDX-License-Identifier: Apache-2.0 */
#include "control/protocol.h"

#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
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
	for (size_t i = 0; name && i < RECORDING_STATES; i++) {
		if (strcmp(name, recording_state_names[i]) == 0) {
			*ret = (enum recording_state)i;
			return 0;
		}
	}
	return -EINVAL;
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
	for (size_t i = 0; i < bytes; i++)
		snprintf(out + 2 * i, 3, "%02x", random[i]);
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

static bool has_control(const char *text)
{
	for (; *text; text++)
		if ((unsigned char)*text < ' ' || *text == 0x7f)
			return true;
	return false;
}

bool control_host_is_valid(const char *host)
{
	size_t len = strlen(host);
	return len > 0 && len < CONTROL_HOST_SIZE && text_is_utf8((struct bytes){(const uint8_t *)host, len}) &&
	       !has_control(host) && !strchr(host, '/') && strcmp(host, ".") != 0 && strcmp(host, "..") != 0;
}

/* What is missing is "". */
static int read_text(const json_t *object, const char *name, char *ret, size_t size, struct error *err)
{
	const json_t *value = json_object_get(object, name);
	const char *text = value ? json_string_value(value) : "";
	if (!text || strlen(text) >= size || strlen(text) != (value ? json_string_length(value) : 0) || has_control(text))
		return error_set(err, -EINVAL, "'%s' must be a string of at most %zu bytes, without line breaks", name,
				 size - 1);
	memcpy(ret, text, strlen(text) + 1);
	return 0;
}

static int read_id(const json_t *object, const char *name, bool may_miss, char ret[static CONTROL_ID_SIZE], struct error *err)
{
	int r = read_text(object, name, ret, CONTROL_ID_SIZE, err);
	if (r == 0 && !control_id_is_valid(ret) && !(may_miss && !*ret))
		r = error_set(err, -EINVAL, "'%s' must be up to 32 hexadecimal digits", name);
	return r;
}

static int read_number(const json_t *object, const char *name, int64_t least, int64_t most, int64_t *ret, struct error *err)
{
	const json_t *value = json_object_get(object, name);
	if (!json_is_integer(value) || json_integer_value(value) < least || json_integer_value(value) > most)
		return error_set(err, -EINVAL, "'%s' must be a whole number from %lld to %lld", name, (long long)least,
				 (long long)most);
	*ret = json_integer_value(value);
	return 0;
}

static int read_time(const json_t *object, const char *name, int64_t *ret, struct error *err)
{
	return read_number(object, name, 0, INT64_MAX / 2, ret, err);
}

static json_t *read_root(struct bytes text, struct error *err)
{
	json_error_t problem;
	json_t *json = json_loadb(text.len ? (const char *)text.data : "", text.len, JSON_REJECT_DUPLICATES, &problem);
	if (json && json_is_object(json))
		return json;
	error_set(err, -EINVAL, "the body must be a JSON object%s%.200s", json ? "" : ": ", json ? "" : problem.text);
	json_decref(json);
	return NULL;
}

static int read_version(const json_t *root, struct error *err)
{
	int64_t version;
	return read_number(root, "version", CONTROL_VERSION, INT32_MAX, &version, err);
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

static int read_sample(const json_t *root, struct control_poll *ret, struct error *err)
{
	const json_t *sample = json_object_get(root, "ping");
	int r = 0;
	ret->has_clock_sample = sample != NULL;
	if (!sample)
		return 0;
	r = read_time(sample, "sent_ns", &ret->sample.sent_ns, err);
	if (r == 0)
		r = read_time(sample, "received_ns", &ret->sample.received_ns, err);
	if (r == 0)
		r = read_time(sample, "answered_ns", &ret->sample.answered_ns, err);
	return r < 0 ? r : read_time(sample, "returned_ns", &ret->sample.returned_ns, err);
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

int control_read_host_clock(const void *node, struct host_clock *ret, struct error *err)
{
	const json_t *skew = json_object_get(node, "skew");
	int r = read_text(node, "reference", ret->reference, sizeof(ret->reference), err);
	if (r == 0)
		r = read_time(node, "at_ns", &ret->at_ns, err);
	if (r == 0)
		r = read_number(node, "offset_ns", -INT64_MAX / 2, INT64_MAX / 2, &ret->offset_ns, err);
	if (r == 0)
		r = read_time(node, "bound_ns", &ret->bound_ns, err);
	if (r < 0)
		return r;
	ret->skew = json_number_value(skew);
	if (!json_is_number(skew) || !(fabs(ret->skew) <= SKEW_MAX))
		return error_set(err, -EINVAL, "'skew' must be a number from %g to %g", -SKEW_MAX, SKEW_MAX);
	return 0;
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

static int read_target(const json_t *node, struct recording_target *ret, struct error *err)
{
	const char *kind = json_string_value(json_object_get(node, "kind"));
	size_t i = 0;
	while (kind && i < RECORDING_TARGET_KINDS && strcmp(kind, recording_target_names[i]) != 0)
		i++;
	if (!kind || i == RECORDING_TARGET_KINDS)
		return error_set(err, -EINVAL, "the 'kind' of a target must be unit, container or cgroup");
	ret->kind = (enum recording_target_kind)i;
	int r = read_text(node, "name", ret->name, sizeof(ret->name), err);
	/* It becomes an argument. */
	if (r == 0 && (!*ret->name || *ret->name == '-'))
		r = error_set(err, -EINVAL, "the 'name' of a target is empty, or begins with '-'");
	return r;
}

/* What recording requests of the server and of API clients have in common. */
static int read_what(const json_t *node, struct recording_request *ret, struct error *err)
{
	const json_t *frequency = json_object_get(node, "frequency_hz"), *markers = json_object_get(node, "markers"),
		     *targets = json_object_get(node, "targets");
	int64_t hz = FREQUENCY_DEFAULT_HZ;
	int r = frequency ? read_number(node, "frequency_hz", 1, RECORDING_FREQUENCY_MAX_HZ, &hz, err) : 0;
	if (r < 0)
		return r;
	ret->frequency_hz = (unsigned)hz;
	ret->no_markers = json_is_false(markers);
	if (markers && !json_is_boolean(markers))
		return error_set(err, -EINVAL, "'markers' must be true or false");
	if (targets && (!json_is_array(targets) || json_array_size(targets) > RECORDING_TARGETS_MAX))
		return error_set(err, -EINVAL, "'targets' must be a list of at most %d", RECORDING_TARGETS_MAX);
	ret->target_count = 0;
	for (size_t i = 0; i < json_array_size(targets) && r == 0; i++)
		r = read_target(json_array_get(targets, i), &ret->targets[ret->target_count++], err);
	return r;
}

int control_read_recording_request(const void *node, struct recording_request *ret, struct error *err)
{
	int r = read_id(node, "id", false, ret->id, err);
	if (r == 0)
		r = read_time(node, "start_ns", &ret->start_ns, err);
	if (r == 0)
		r = read_number(node, "duration_ns", 1, RECORDING_DURATION_MAX_NS, &ret->duration_ns, err);
	if (r == 0)
		r = read_id(node, "key", true, ret->key, err);
	return r < 0 ? r : read_what(node, ret, err);
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
	struct json_writer json;
	json_init(&json, out);
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

static int read_report(const json_t *root, struct recording_report *ret, struct error *err)
{
	const json_t *report = json_object_get(root, "report");
	if (!report)
		return 0;
	int r = read_id(report, "id", false, ret->id, err);
	if (r == 0)
		r = read_text(report, "why", ret->why, sizeof(ret->why), err);
	if (r == 0 && recording_state_parse(json_string_value(json_object_get(report, "state")), &ret->state) < 0)
		r = error_set(err, -EINVAL, "the 'state' of a report is unknown");
	return r;
}

int control_read_poll(struct bytes text, struct control_poll *ret, struct error *err)
{
	*ret = (struct control_poll){0};
	json_t *root = read_root(text, err);
	const json_t *clock = json_object_get(root, "clock");
	int r = root ? read_version(root, err) : -EINVAL;
	if (r == 0)
		r = read_id(root, "agent", false, ret->agent, err);
	if (r == 0)
		r = read_text(root, "host", ret->host, sizeof(ret->host), err);
	if (r == 0 && !control_host_is_valid(ret->host))
		r = error_set(err, -EINVAL, "'host' must be a host name: not empty, without a slash");
	if (r == 0)
		r = read_text(root, "wick", ret->wick, sizeof(ret->wick), err);
	if (r == 0)
		r = read_text(root, "refusal", ret->refusal, sizeof(ret->refusal), err);
	if (r == 0)
		r = read_sample(root, ret, err);
	if (r == 0 && clock)
		r = control_read_host_clock(clock, &ret->clock, err);
	if (r == 0)
		r = read_report(root, &ret->report, err);
	ret->has_health = r == 0 && json_object_get(root, "health");
	json_decref(root);
	return r;
}

int control_read_health(struct bytes text, struct health *ret, struct error *err)
{
	json_t *root = read_root(text, err);
	int r = root ? health_read(json_object_get(root, "health"), ret, err) : -EINVAL;
	json_decref(root);
	return r;
}

/* ---- the answer ---- */

int control_write_reply(const struct control_reply *reply, struct buffer *out, struct error *err)
{
	struct json_writer json;
	json_init(&json, out);
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

static int read_cancels(const json_t *list, struct control_reply *ret, struct error *err)
{
	for (size_t i = 0; i < json_array_size(list) && i < CONTROL_CANCELS_MAX; i++) {
		const char *id = json_string_value(json_array_get(list, i));
		if (!id || !control_id_is_valid(id))
			return error_set(err, -EINVAL, "'cancel' must be a list of ids");
		memcpy(ret->cancelled[ret->cancel_count++], id, strlen(id) + 1);
	}
	return 0;
}

int control_read_reply(struct bytes text, struct control_reply *ret, struct error *err)
{
	*ret = (struct control_reply){0};
	int64_t poll_ms = 0;
	json_t *root = read_root(text, err);
	const json_t *request = json_array_get(json_object_get(root, "orders"), 0);
	int r = root ? read_version(root, err) : -EINVAL;
	if (r == 0)
		r = read_time(root, "received_ns", &ret->received_ns, err);
	if (r == 0)
		r = read_time(root, "answered_ns", &ret->answered_ns, err);
	if (r == 0)
		r = read_text(root, "clock", ret->clock, sizeof(ret->clock), err);
	if (r == 0)
		r = read_number(root, "poll_ms", POLL_MIN_NS / NS_PER_MS, POLL_MAX_NS / NS_PER_MS, &poll_ms, err);
	ret->poll_ns = poll_ms * NS_PER_MS;
	ret->has_request = request != NULL;
	if (r == 0 && request)
		r = control_read_recording_request(request, &ret->request, err);
	if (r == 0)
		r = read_cancels(json_object_get(root, "cancel"), ret, err);
	json_decref(root);
	return r;
}

/* ---- the request ---- */

static int read_seconds(const json_t *root, int64_t *ret, struct error *err)
{
	const json_t *seconds = json_object_get(root, "seconds");
	double value = json_number_value(seconds);
	const double most = (double)RECORDING_DURATION_MAX_NS / NS_PER_S;
	if (!json_is_number(seconds) || !(value >= 0.1 && value <= most))
		return error_set(err, -EINVAL, "'seconds' must be a number from 0.1 to %g", most);
	*ret = (int64_t)(value * NS_PER_S);
	return 0;
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
	json_t *root = read_root(text, err);
	int r = root ? read_seconds(root, &ret->duration_ns, err) : -EINVAL;
	if (r == 0)
		r = read_what(root, ret, err);
	if (r == 0)
		r = read_hosts(json_object_get(root, "hosts"), ret_hosts, ret_count, err);
	json_decref(root);
	return r;
}

int control_write_api_request(const struct recording_request *request, const char *const *hosts, size_t host_count,
			      struct buffer *out, struct error *err)
{
	struct json_writer json;
	json_init(&json, out);
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
