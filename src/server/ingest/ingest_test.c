/* SPDX-License-Identifier: Apache-2.0 */
/* Profiles in: what is stored, what is refused and with which status, and what counts as sent twice. */
#include "server/test_server.h"

#include "codec/protobuf.h"
#include "format/format.h"
#include "format/otlp/otlp.h"
#include "profile/test_profile.h"

#define FOLDED "POST /api/v1/ingest?format=folded"

static uint64_t count_of(const atomic_uint_fast64_t *counter)
{
	return atomic_load(counter);
}

static void test_stores(void **state)
{
	struct test_server test;
	(void)state;
	test_server_open(&test, NULL);
	test_expect(&test, FOLDED "\n\nmain;a 5\nmain;b 7\n", 200, "{\"samples\":2,\"series\":1,\"duplicate\":false}");
	/* No time, so equal bytes may be two measurements. */
	test_expect(&test, FOLDED "\n\nmain;a 5\nmain;b 7\n", 200, "\"duplicate\":false");
	test_expect(&test, "POST /api/v1/ingest\n\nmain;a 5\n", 200, "\"samples\":1");
	test_expect(&test, FOLDED "&name=mine&label=env=prod&label=zone=b\n\nx 1\n", 200, "\"series\":1");
	test_expect(&test, "GET /api/v1/labels", 200, "\"env\"");
	test_expect(&test, "GET /api/v1/label-values?label=zone", 200, "\"b\"");
	test_expect(&test, "GET /api/v1/types", 200, "mine:samples:count");
	test_expect(&test, "GET /api/v1/query?query=%7Benv%3D%22prod%22%7D&format=folded", 200, "x 1\n");
	const struct server_counters *counters = &test.server->counters;
	assert_int_equal(count_of(&counters->ingest_requests), 4);
	assert_int_equal(count_of(&counters->ingest_profiles), 4);
	assert_int_equal(count_of(&counters->ingest_samples), 6);
	assert_int_equal(count_of(&counters->ingest_refused), 0);
	assert_int_equal(count_of(&test.server->default_tenant->counters.ingest_samples), 6);
	test_server_close(&test);
}

static void test_refusals(void **state)
{
	static const struct {
		const char *request;
		int status;
		const char *part;
		enum refusal reason;
	} cases[] = {
		{"POST /api/v1/ingest?format=nothing\n\nmain 1\n", 422, "unknown format 'nothing'", REFUSED_INVALID},
		{"POST /api/v1/ingest\n\n\001\002\003", 422, "", REFUSED_INVALID},
		{"POST /api/v1/ingest?format=pprof\n\nmain;a 5\n", 400, "profile", REFUSED_MALFORMED},
		{FOLDED "\n\nmain;a five\n", 400, "", REFUSED_MALFORMED},
		{FOLDED "&label=nothing\n\nmain 1\n", 422, "nothing", REFUSED_INVALID},
		{FOLDED "&label=1=x\n\nmain 1\n", 422, "", REFUSED_INVALID},
		{"GET /api/v1/ingest", 405, "no such method", REFUSALS},
		{"PUT /api/v1/ingest", 405, "no such method", REFUSALS},
	};
	struct test_server test;
	(void)state;
	test_server_open(&test, NULL);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const atomic_uint_fast64_t *reason =
			cases[i].reason == REFUSALS ? NULL : &test.server->counters.refusals[cases[i].reason];
		uint64_t before = reason ? count_of(reason) : 0;
		test_expect(&test, cases[i].request, cases[i].status, cases[i].part);
		if (reason && count_of(reason) != before + 1)
			fail_msg("%s is not counted as %s", cases[i].request, refusal_names[cases[i].reason]);
	}
	assert_int_equal(count_of(&test.server->counters.ingest_profiles), 0);
	assert_int_equal(count_of(&test.server->counters.ingest_refused), count_of(&test.server->counters.ingest_requests));
	test_expect(&test, "GET /api/v1/types", 200, "[]");
	test_server_close(&test);
}

/* A body that the network layer refuses is counted as those that come in. */
static void test_body_too_large(void **state)
{
	static char body[3000];
	struct server_options options;
	struct test_server test;
	(void)state;
	server_options_init(&options);
	options.body_bytes_max = 2000;
	test_server_open(&test, &options);
	memset(body, 'a', sizeof(body));
	static const char *const doors[] = {"/api/v1/ingest", "/v1development/profiles", "/ingest", "/pyroscope/ingest",
					    INGEST_PUSH_PATH};
	for (size_t i = 0; i < sizeof(doors) / sizeof(doors[0]); i++) {
		char head[200];
		snprintf(head, sizeof(head), "POST %s\nContent-Type: application/json", doors[i]);
		assert_int_equal(test_ask_bytes(&test, head, (struct bytes){(uint8_t *)body, sizeof(body)}), 413);
		assert_true(test_has_header(&test, "X-Wick-Limit: body"));
		assert_int_equal(count_of(&test.server->counters.refusals[REFUSED_BODY]), i + 1);
	}
	/* Elsewhere it is no profile that was lost. */
	assert_int_equal(test_ask_bytes(&test, "POST /api/v1/view", (struct bytes){(uint8_t *)body, sizeof(body)}), 413);
	assert_int_equal(count_of(&test.server->counters.refusals[REFUSED_BODY]), 5);
	test_server_close(&test);
}

static struct server_options limited(const char *limit, uint64_t value)
{
	struct server_options options;
	server_options_init(&options);
	for (size_t i = 0; i < SERVER_LIMIT_COUNT; i++)
		if (strcmp(server_limit_names[i], limit) == 0)
			memcpy((uint8_t *)&options.limits + i * sizeof(uint64_t), &value, sizeof(value));
	return options;
}

static void test_limits(void **state)
{
	static const struct {
		const char *limit;
		uint64_t value;
		const char *request;
		int status;
		enum refusal reason;
	} cases[] = {
		{"body_size", 10, FOLDED "\n\nmain;aaaaaaaaaaaa 5\n", 413, REFUSED_BODY},
		{"labels_per_series", 1, FOLDED "&label=a=1&label=b=2\n\nmain 5\n", 422, REFUSED_LABELS},
		{"stacks_per_profile", 2, FOLDED "\n\na 1\nb 1\nc 1\n", 422, REFUSED_STACKS},
	};
	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct server_options options = limited(cases[i].limit, cases[i].value);
		struct test_server test;
		test_server_open(&test, &options);
		test_expect(&test, cases[i].request, cases[i].status, cases[i].limit);
		assert_int_equal(count_of(&test.server->counters.refusals[cases[i].reason]), 1);
		assert_int_equal(count_of(&test.server->default_tenant->counters.refusals[cases[i].reason]), 1);
		test_expect(&test, FOLDED "\n\na 1\n", 200, "");
		test_server_close(&test);
	}
}

/* ---- OTLP ---- */

/* A request of one profile with a time; stack NULL: one without samples. */
static struct buffer otlp_request(const char *function, int64_t time_ns)
{
	_cleanup_(profile_freep) struct profile *profile = NULL;
	struct profile_function named = {0};
	struct profile_line line = {0};
	struct profile_sample sample = {.time_ns = time_ns};
	struct buffer out;
	uint32_t location;
	buffer_init(&out, MIB);
	assert_int_equal(profile_new(&profile, NULL), 0);
	assert_int_equal(profile_add_named_type(profile, "cpu", "nanoseconds", NULL), 0);
	named.name = test_string(profile, function);
	assert_int_equal(profile_add_function(profile, &named, &line.function, NULL), 0);
	assert_int_equal(profile_add_location(profile, &(struct profile_location){0}, &line, 1, &location, NULL), 0);
	assert_int_equal(profile_add_stack(profile, 0, location, &sample.stack, NULL), 0);
	assert_int_equal(profile_add_sample(profile, &sample, &(int64_t){5}, NULL), 0);
	profile->time_ns = time_ns;
	profile->duration_ns = NS_PER_S;
	assert_int_equal(format_encode(format_by_name("otlp"), profile, &(struct format_options){0}, &out, NULL), 0);
	return out;
}

static void test_otlp(void **state)
{
	struct test_server test;
	_cleanup_(buffer_release) struct buffer body = otlp_request("work", time_now_ns() - NS_PER_S);
	const char *head = "POST " INGEST_OTLP_HTTP_PATH "\nContent-Type: application/x-protobuf";
	(void)state;
	test_server_open(&test, NULL);
	assert_int_equal(test_ask_bytes(&test, head, buffer_bytes(&body)), 200);
	assert_string_equal(test.response.content_type, "application/x-protobuf");
	assert_int_equal(test.response.body.len, 0); /* all of it: nothing to say */
	/* The same again, as of a client that had no answer: acknowledged, and not stored. */
	assert_int_equal(test_ask_bytes(&test, head, buffer_bytes(&body)), 200);
	assert_int_equal(count_of(&test.server->counters.ingest_duplicates), 1);
	assert_int_equal(count_of(&test.server->counters.ingest_samples), 1);
	test_expect(&test, "GET /api/v1/query?format=folded", 200, "work 5\n");
	assert_int_equal(
		test_ask_bytes(&test, "POST " INGEST_OTLP_GRPC_PATH "\nContent-Type: application/grpc", buffer_bytes(&body)),
		200);
	assert_int_equal(test.response.grpc_status, GRPC_OK);
	assert_int_equal(count_of(&test.server->counters.ingest_duplicates), 2);
	test_server_close(&test);
}

/* One sample of `value`, of the executable "shop"; service NULL = none. */
static struct profile *counted(const char *type, const char *unit, int64_t period, int64_t value, const char *service)
{
	struct profile *profile;
	struct profile_function named = {0};
	struct profile_line line = {0};
	struct profile_sample sample = {.time_ns = time_now_ns() - NS_PER_S};
	uint32_t location;
	assert_int_equal(profile_new(&profile, NULL), 0);
	assert_int_equal(profile_add_named_type(profile, type, unit, NULL), 0);
	named.name = test_string(profile, "work");
	assert_int_equal(profile_add_function(profile, &named, &line.function, NULL), 0);
	assert_int_equal(profile_add_location(profile, &(struct profile_location){0}, &line, 1, &location, NULL), 0);
	assert_int_equal(profile_add_stack(profile, 0, location, &sample.stack, NULL), 0);
	assert_int_equal(profile_add_sample(profile, &sample, &value, NULL), 0);
	struct profile_label labels[] = {
		{.key = test_string(profile, "process.executable.name"), .value = test_string(profile, "shop")},
		{.key = test_string(profile, "service.name"), .value = test_string(profile, service ? service : "")}};
	assert_int_equal(profile_add_label_set(profile, labels, service ? 2 : 1, &profile->resource_labels, NULL), 0);
	profile->time_ns = sample.time_ns;
	profile->duration_ns = NS_PER_S;
	profile->period = period;
	if (period)
		profile->period_type =
			(struct profile_value_type){test_string(profile, "cpu"), test_string(profile, "nanoseconds")};
	return profile;
}

static void send_profiles(struct test_server *test, struct profile *const *profiles, size_t count)
{
	_cleanup_(buffer_release) struct buffer body = {.max = MIB};
	assert_int_equal(otlp_encode((const struct profile *const *)profiles, count, &body, NULL), 0);
	assert_int_equal(test_ask_bytes(test, "POST " INGEST_OTLP_HTTP_PATH "\nContent-Type: application/x-protobuf",
					buffer_bytes(&body)),
			 200);
	for (size_t i = 0; i < count; i++)
		profile_free(profiles[i]);
}

/* OpenTelemetry's profiler counts samples, and knows no services. */
static void test_profilers_that_count(void **state)
{
	struct test_server test;
	(void)state;
	test_server_open(&test, NULL);
	send_profiles(&test,
		      (struct profile *[]){counted("samples", "count", 1000000, 3, NULL),
					   counted("off_cpu", "nanoseconds", 0, 77, NULL),
					   counted("samples", "count", 1000000, 1, "own")},
		      3);
	test_expect(&test, "GET /api/v1/types", 200, "process_cpu:cpu:nanoseconds:cpu:nanoseconds:delta");
	test_expect(&test, "GET /api/v1/types", 200, "process_cpu:samples:count:cpu:nanoseconds:delta");
	test_expect(&test, "GET /api/v1/types", 200, "off_cpu:off_cpu:nanoseconds:::delta");
	test_expect(&test,
		    "GET /api/v1/query?query=process_cpu:cpu%7Bservice_name%3D%22unknown_service:shop%22%7D&format=folded", 200,
		    "work 3000000\n");
	test_expect(&test, "GET /api/v1/query?query=process_cpu:cpu%7Bservice_name%3D%22own%22%7D&format=folded", 200,
		    "work 1000000\n");
	test_expect(&test, "GET /api/v1/query?query=process_cpu:samples&format=folded", 200, "work 4\n");
	test_expect(&test, "GET /api/v1/query?query=off_cpu%7Bservice_name%3D%22unknown_service:shop%22%7D&format=folded", 200,
		    "work 77\n");
	/* Who sends the time beside the counts is not helped, and named by its own labels. */
	send_profiles(&test,
		      (struct profile *[]){counted("samples", "count", 1000000, 5, NULL),
					   counted("cpu", "nanoseconds", 1000000, 4999, NULL)},
		      2);
	test_expect(&test, "GET /api/v1/query?query=process_cpu:cpu&format=folded", 200, "work 4004999\n");
	test_expect(&test, "GET /api/v1/query?query=process_cpu:cpu%7Bservice_name%3D%22%22%7D&format=folded", 200,
		    "work 4999\n");
	test_server_close(&test);
}

/* It says no path of a file, but that of the executable. */
static void test_place_of_an_executable(void **state)
{
	static const struct {
		const char *file, *path, *want;
	} cases[] = {{"shop", "/opt/shop", "/opt/shop"},
		     {"libc.so.6", "/opt/shop", "libc.so.6"},
		     {"/srv/shop", "/opt/shop", "/srv/shop"},
		     {"shop", "opt/shop", "shop"},
		     {"", "/opt/", ""}};
	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		_cleanup_(profile_freep) struct profile *profile = counted("samples", "count", 1000000, 3, NULL);
		struct profile_mapping mapping = {.limit = 0x1000, .file_name = test_string(profile, cases[i].file)};
		struct profile_label label = {.key = test_string(profile, "process.executable.path"),
					      .value = test_string(profile, cases[i].path)};
		uint32_t id;
		assert_int_equal(profile_add_mapping(profile, &mapping, &id, NULL), 0);
		assert_int_equal(profile_add_label_set(profile, &label, 1, &profile->resource_labels, NULL), 0);
		assert_int_equal(ingest_place_executable(profile, NULL), 0);
		assert_string_equal(profile_string(profile, profile->mappings[id].file_name), cases[i].want);
	}
}

/* What is no profile is taken and dropped. */
static void test_other_signals(void **state)
{
	static const char *const paths[] = {OTLP_LOGS_PATH, OTLP_TRACES_PATH, OTLP_METRICS_PATH};
	struct test_server test;
	(void)state;
	test_server_open(&test, NULL);
	for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++) {
		char head[200];
		snprintf(head, sizeof(head), "POST %s\nContent-Type: application/grpc", paths[i]);
		assert_int_equal(test_ask_bytes(&test, head, bytes_of_string("whatever it is")), 200);
		assert_int_equal(test.response.grpc_status, GRPC_OK);
		assert_int_equal(test.response.body.len, 0);
		assert_int_equal(count_of(&test.server->counters.signals_dropped), i + 1);
	}
	/* Over HTTP in the encoding of the request. */
	static const char *const http[] = {OTLP_HTTP_LOGS_PATH, OTLP_HTTP_TRACES_PATH, OTLP_HTTP_METRICS_PATH};
	for (size_t i = 0; i < sizeof(http) / sizeof(http[0]); i++) {
		char head[200];
		snprintf(head, sizeof(head), "POST %s\nContent-Type: application/json", http[i]);
		assert_int_equal(test_ask_bytes(&test, head, bytes_of_string("{}")), 200);
		assert_string_equal(test.text, "{}");
		assert_string_equal(test.response.content_type, "application/json");
		snprintf(head, sizeof(head), "POST %s\nContent-Type: application/x-protobuf", http[i]);
		assert_int_equal(test_ask_bytes(&test, head, bytes_of_string("")), 200);
		assert_int_equal(test.response.body.len, 0);
		assert_string_equal(test.response.content_type, "application/x-protobuf");
		assert_int_equal(count_of(&test.server->counters.signals_dropped), 3 + 2 * (i + 1));
		snprintf(head, sizeof(head), "GET %s", http[i]);
		assert_int_equal(test_ask_bytes(&test, head, bytes_of_string("")), 405);
	}
	assert_int_equal(count_of(&test.server->counters.ingest_requests), 0);
	test_server_close(&test);
}

static void test_otlp_lost(void **state)
{
	static const struct {
		const char *header;
		uint64_t profiles, samples;
	} cases[] = {{"3 40", 3, 40}, {"2", 2, 0}, {"", 0, 0}, {"x", 0, 0}, {"-1 5", 0, 0}, {"1 x", 1, 0}, {"1  5", 1, 0}};
	struct test_server test;
	uint64_t profiles = 0, samples = 0;
	(void)state;
	test_server_open(&test, NULL);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char head[300], name[16];
		snprintf(name, sizeof(name), "f%zu", i);
		_cleanup_(buffer_release) struct buffer body = otlp_request(name, time_now_ns() - NS_PER_S);
		snprintf(head, sizeof(head), "POST " INGEST_OTLP_HTTP_PATH "\n" EXPORT_LOST_HEADER ": %s", cases[i].header);
		assert_int_equal(test_ask_bytes(&test, head, buffer_bytes(&body)), 200);
		profiles += cases[i].profiles;
		samples += cases[i].samples;
		assert_int_equal(count_of(&test.server->counters.lost_profiles), profiles);
		assert_int_equal(count_of(&test.server->counters.lost_samples), samples);
		/* Once: the second copy says nothing new. */
		assert_int_equal(test_ask_bytes(&test, head, buffer_bytes(&body)), 200);
		assert_int_equal(count_of(&test.server->counters.lost_profiles), profiles);
	}
	test_server_close(&test);
}

static void test_otlp_failures(void **state)
{
	struct test_server test;
	(void)state;
	test_server_open(&test, NULL);
	/* In the form that the request has. */
	test_expect(&test, "POST " INGEST_OTLP_HTTP_PATH "\nContent-Type: application/json\n\n{", 400, "\"code\":3");
	assert_string_equal(test.response.content_type, "application/json");
	test_expect(&test, "POST " INGEST_OTLP_HTTP_PATH "\nContent-Type: application/json\n\n[]", 400, "\"message\":");
	test_expect(&test, "POST " INGEST_OTLP_HTTP_PATH "\nContent-Type: application/json; charset=utf-8\n\n{}", 200, "{}");
	assert_int_equal(test_ask(&test, "POST " INGEST_OTLP_HTTP_PATH "\n\n\377\377\377"), 400);
	assert_string_equal(test.response.content_type, "application/x-protobuf");
	struct pb_field field;
	struct pb_cursor cursor = pb_open(buffer_bytes(&test.response.body));
	assert_int_equal(pb_next(&cursor, &field, NULL), 1);
	assert_int_equal(field.number, 1);
	assert_int_equal(field.value, GRPC_INVALID_ARGUMENT);
	assert_int_equal(
		test_ask(&test, "POST " INGEST_OTLP_GRPC_PATH "\nContent-Type: application/grpc+proto\n\n\377\377\377"), 200);
	assert_int_equal(test.response.grpc_status, GRPC_INVALID_ARGUMENT);
	assert_true(test.response.message[0] != 0);
	assert_false(test_has_header(&test, "grpc-status-details-bin")); /* it would not get better */
	test_server_close(&test);
}

/* A client that sends too fast gets Retry-After, in the form of the protocol. */
static void test_otlp_rate(void **state)
{
	_cleanup_(buffer_release) struct buffer body = otlp_request("work", time_now_ns() - NS_PER_S);
	struct server_options options = limited("ingest_bytes_per_second", 1);
	struct test_server test;
	(void)state;
	options.limits.ingest_bytes_burst = 1;
	test_server_open(&test, &options);
	test_ask_bytes(&test, "POST " INGEST_OTLP_HTTP_PATH, buffer_bytes(&body)); /* what there was is spent */
	assert_int_equal(test_ask_bytes(&test, "POST " INGEST_OTLP_HTTP_PATH, buffer_bytes(&body)), 429);
	assert_true(test_has_header(&test, "Retry-After: "));
	assert_true(test_has_header(&test, "X-Wick-Limit: ingest_bytes_per_second"));
	test_ask_bytes(&test, "POST " INGEST_OTLP_GRPC_PATH "\nContent-Type: application/grpc", buffer_bytes(&body));
	assert_int_equal(test.response.grpc_status, GRPC_RESOURCE_EXHAUSTED);
	assert_true(test_has_header(&test, "grpc-status-details-bin: "));
	assert_null(strchr(strstr(buffer_string(&test.response.headers), "details-bin: "), '='));
	test_server_close(&test);
}

/* What is too old is left out; of a request that has only that, it is a warning. */
static void test_otlp_too_old(void **state)
{
	_cleanup_(buffer_release) struct buffer body = otlp_request("work", time_now_ns() - 400 * 86400 * NS_PER_S);
	struct test_server test;
	(void)state;
	test_server_open(&test, NULL);
	assert_int_equal(test_ask_bytes(&test, "POST " INGEST_OTLP_HTTP_PATH, buffer_bytes(&body)), 200);
	assert_non_null(memmem(test.text, test.response.body.len, "1 samples were rejected", 23));
	assert_int_equal(
		test_ask_bytes(&test, "POST " INGEST_OTLP_GRPC_PATH "\nContent-Type: application/grpc", buffer_bytes(&body)),
		200);
	assert_int_equal(test.response.grpc_status, GRPC_OK);
	assert_non_null(memmem(test.text, test.response.body.len, "1 samples were rejected", 23));
	assert_int_equal(count_of(&test.server->counters.ingest_samples_refused), 2);
	assert_int_equal(count_of(&test.server->counters.ingest_partial), 2);
	assert_int_equal(count_of(&test.server->counters.ingest_samples), 0);
	/* 1 partial_success { 1 rejected_profiles  2 error_message } */
	assert_int_equal(test_ask_bytes(&test, "POST " INGEST_OTLP_HTTP_PATH, buffer_bytes(&body)), 200);
	struct pb_field partial, rejected;
	struct pb_cursor outer = pb_open(buffer_bytes(&test.response.body)), inner;
	assert_int_equal(pb_next(&outer, &partial, NULL), 1);
	inner = pb_open(partial.bytes);
	assert_int_equal(pb_next(&inner, &rejected, NULL), 1);
	assert_int_equal(rejected.number, 1);
	assert_int_equal(rejected.value, 1);
	/* Sent again it is no duplicate: nothing is there. */
	assert_int_equal(count_of(&test.server->counters.ingest_duplicates), 0);
	assert_int_equal(count_of(&test.server->counters.refusals[REFUSED_AGE]), 3);
	test_server_close(&test);
}

/* What is a duplicate knows no oldest time: it must not replace that of a profile beside it. */
static void test_too_old_beside_a_duplicate(void **state)
{
	_cleanup_(buffer_release) struct buffer both = otlp_request("work", time_now_ns() - 400 * 86400 * NS_PER_S);
	_cleanup_(buffer_release) struct buffer fresh = otlp_request("work", time_now_ns() - NS_PER_S);
	struct test_server test;
	test_server_open(&test, NULL);
	assert_int_equal(buffer_append(&both, fresh.data, fresh.len), 0); /* repeated fields go on */
	for (uint64_t round = 0; round < 2; round++) {
		assert_int_equal(test_ask_bytes(&test, "POST " INGEST_OTLP_HTTP_PATH, buffer_bytes(&both)), 200);
		assert_int_equal(count_of(&test.server->counters.ingest_duplicates), round);
		assert_non_null(strstr(test.text, " from before 20"));
	}
	test_server_close(&test);
}

/* Other doors: an error where nothing is left, a warning beside what is stored. */
static void test_too_old(void **state)
{
	_cleanup_(profile_freep) struct profile *profile = NULL;
	_cleanup_(buffer_release) struct buffer body = {.max = MIB};
	struct test_server test;
	test_server_open(&test, NULL);
	test_expect(&test, "POST /ingest?name=shop.cpu&from=1000000000&until=1000000010\n\nmain;a 5\n", 422,
		    "nothing was stored");
	assert_true(test_has_header(&test, "X-Wick-Limit: age"));
	/* One sample of now, and one of last year. */
	_cleanup_(buffer_release) struct buffer both = otlp_request("work", time_now_ns() - NS_PER_S);
	assert_int_equal(format_decode(format_by_name("otlp"), buffer_bytes(&both),
				       &(struct format_options){.input_name = "both"}, &profile, NULL),
			 0);
	struct profile_sample old = profile->samples[0];
	old.time_ns -= 400 * 86400 * NS_PER_S;
	assert_int_equal(profile_add_sample(profile, &old, &(int64_t){7}, NULL), 0);
	assert_int_equal(format_encode(format_by_name("otlp"), profile, &(struct format_options){0}, &body, NULL), 0);
	assert_int_equal(test_ask_bytes(&test, "POST /api/v1/ingest?format=otlp", buffer_bytes(&body)), 200);
	assert_non_null(strstr(test.text, "\"refused\":1"));
	assert_non_null(strstr(test.text, "1 from before "));
	for (size_t i = 0; i < profile->sample_count; i++)
		profile->samples[i].time_ns = old.time_ns;
	buffer_clear(&body);
	assert_int_equal(format_encode(format_by_name("otlp"), profile, &(struct format_options){0}, &body, NULL), 0);
	assert_int_equal(test_ask_bytes(&test, "POST /api/v1/ingest?format=otlp", buffer_bytes(&body)), 422);
	assert_non_null(strstr(test.text, "2 from before "));
	assert_int_equal(count_of(&test.server->counters.ingest_samples_refused), 4);
	/* One line of the log for all of them. */
	assert_int_equal(count_of(&test.server->rejected_log.held), 3);
	test_server_close(&test);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_stores),
		cmocka_unit_test(test_refusals),
		cmocka_unit_test(test_body_too_large),
		cmocka_unit_test(test_limits),
		cmocka_unit_test(test_otlp),
		cmocka_unit_test(test_profilers_that_count),
		cmocka_unit_test(test_place_of_an_executable),
		cmocka_unit_test(test_other_signals),
		cmocka_unit_test(test_otlp_lost),
		cmocka_unit_test(test_otlp_failures),
		cmocka_unit_test(test_otlp_rate),
		cmocka_unit_test(test_otlp_too_old),
		cmocka_unit_test(test_too_old),
		cmocka_unit_test(test_too_old_beside_a_duplicate),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
