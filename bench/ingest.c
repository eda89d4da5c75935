/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ingest URL PID: what a running server of this machine can take and answer, measured through its port.
 *
 * Sends raw (uncompressed) pprof profiles made from a seeded generator: 2,000 samples of 10 to 40 frames, drawn with Zipf
 * popularity from 1,200 functions and a tree of call paths, as a Go service's CPU profile looks. Each upload has its own time,
 * over the last hour, and one of four services. Then it asks for the merge of one service over that hour. Prints MB/s by the
 * wall clock and per CPU second of the server (from /proc/PID/stat), profiles/s, bytes stored per sample, and latencies.
 *
 * ingest URL PID endpoints: the same profiles, sent as each kind of client sends them.
 * ingest URL PID push: what a large Go service pushes every 15 s, gzipped: few samples, and each time all of its names. Prints
 * the log's bytes a sample, too.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/io.h"
#include "base/limits.h"
#include "base/text.h"
#include "base/time.h"
#include "codec/protobuf.h"
#include "format/format.h"
#include "format/otlp/otlp.h"
#include "net/net.h"

#define PROFILES	  400
#define SAMPLES		  2000
#define FUNCTIONS	  1200
#define QUERIES		  50
#define ENDPOINT_PROFILES 200
#define PUSH_PROFILES	  600
#define PUSH_SERVICES	  10
#define PUSH_SAMPLES	  190
#define PUSH_FUNCTIONS	  1200
#define PUSH_STACKS	  6000 /* of one service */

static uint64_t random_state = 42;

static uint64_t random_next(void)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return random_state * 0x2545f4914f6cdd1dull >> 11;
}

/* Small numbers far more often than large ones. */
static uint32_t random_popular(uint32_t count)
{
	double u = (double)(random_next() % 1000003 + 1) / 1000004.0;
	return (uint32_t)((double)count * u * u * u) % count;
}

static void must(int r, const struct error *err, const char *what)
{
	if (r >= 0)
		return;
	fprintf(stderr, "ingest: %s: %s\n", what, err->message);
	exit(1);
}

static void add_functions(struct profile *profile, uint32_t *locations)
{
	struct error err = {0};
	uint32_t mapping, text;
	char name[128];
	must(profile_add_cstring(profile, "/usr/local/bin/service", &text, &err), &err, "string");
	struct profile_mapping binary = {.start = 0x400000, .limit = 0x4000000, .file_name = text};
	must(profile_add_cstring(profile, "6f2ae1c95f8a4c11a1f6f6e2a1b0c9d8e7f60514", &binary.build_id, &err), &err, "string");
	must(profile_add_mapping(profile, &binary, &mapping, &err), &err, "mapping");
	for (uint32_t i = 0; i < FUNCTIONS; i++) {
		struct profile_function function = {.start_line = i};
		uint32_t id;
		snprintf(name, sizeof(name), "example.com/service/internal/package%u.(*Receiver%u).Method%u", i % 40, i % 7, i);
		must(profile_add_cstring(profile, name, &function.name, &err), &err, "string");
		function.system_name = function.name;
		snprintf(name, sizeof(name), "/go/src/example.com/service/internal/package%u/file%u.go", i % 40, i % 11);
		must(profile_add_cstring(profile, name, &function.file_name, &err), &err, "string");
		must(profile_add_function(profile, &function, &id, &err), &err, "function");
		struct profile_location location = {.mapping = mapping, .address = 0x401000 + i * 0x120ull};
		struct profile_line line = {.function = id, .line = i + 3};
		must(profile_add_location(profile, &location, &line, 1, &locations[i], &err), &err, "location");
	}
}

static void add_samples(struct profile *profile, const uint32_t *locations)
{
	struct error err = {0};
	for (int i = 0; i < SAMPLES; i++) {
		uint32_t stack = 0, function = random_popular(8), depth = 10 + (uint32_t)random_next() % 30;
		for (uint32_t k = 0; k < depth; k++) {
			must(profile_add_stack(profile, stack, locations[function], &stack, &err), &err, "stack");
			function = (function * 7 + 1 + random_popular(5)) % FUNCTIONS; /* a caller has few callees */
		}
		int64_t count = 1 + (int64_t)random_popular(5), values[2] = {count, count * 10000000};
		must(profile_add_sample(profile, &(struct profile_sample){.stack = stack}, values, &err), &err, "sample");
	}
}

static void make_profile(int64_t time_ns, struct buffer *out)
{
	struct error err = {0};
	uint32_t ids[6], locations[FUNCTIONS];
	struct profile *profile = NULL;
	static const char *const names[] = {"samples", "count", "cpu", "nanoseconds"};
	must(profile_new(&profile, &err), &err, "profile");
	for (int i = 0; i < 4; i++)
		must(profile_add_cstring(profile, names[i], &ids[i], &err), &err, "string");
	must(profile_add_sample_type(profile, ids[0], ids[1], &err), &err, "type");
	must(profile_add_sample_type(profile, ids[2], ids[3], &err), &err, "type");
	profile->period_type = (struct profile_value_type){ids[2], ids[3]};
	profile->period = 10000000;
	profile->time_ns = time_ns;
	profile->duration_ns = 10 * NS_PER_S;
	add_functions(profile, locations);
	add_samples(profile, locations);
	struct format_options options = {.compress = false};
	must(pprof_encode(profile, &options, out, &err), &err, "encode");
	profile_free(profile);
}

/* User and system CPU time of a process, from its stat line. */
static double cpu_seconds(const char *pid)
{
	char path[64];
	unsigned long long user = 0, system = 0;
	snprintf(path, sizeof(path), "/proc/%.20s/stat", pid);
	struct buffer file = {0};
	if (io_read_file(path, 4096, &file, NULL) < 0)
		return 0;
	const char *text = buffer_string(&file), *at = strrchr(text, ')');
	if (!at || sscanf(at + 2, "%*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %llu %llu", &user, &system) != 2)
		user = system = 0;
	buffer_release(&file);
	return (double)(user + system) / (double)sysconf(_SC_CLK_TCK);
}

static void send_to(struct net_client *client, const char *method, const char *path, const char *type, struct bytes body,
		    struct net_client_response *response)
{
	struct error err = {0};
	net_client_response_release(response);
	*response = (struct net_client_response){0};
	must(net_client_request(client, method, path, type, body, false, response, &err), &err, path);
	if (response->status == 200)
		return;
	fprintf(stderr, "ingest: %s answered %d: %.*s\n", path, response->status, (int)response->body.len,
		(const char *)response->body.data);
	exit(1);
}

static void call(struct net_client *client, const char *method, const char *path, struct bytes body,
		 struct net_client_response *response)
{
	send_to(client, method, path, "application/octet-stream", body, response);
}

static double number_of(const struct net_client_response *response, const char *key)
{
	char pattern[64];
	snprintf(pattern, sizeof(pattern), "\"%s\":", key);
	struct buffer copy = {.max = response->body.len + 1};
	if (buffer_append(&copy, response->body.data, response->body.len) < 0)
		return 0;
	const char *at = strstr(buffer_string(&copy), pattern);
	double value = at ? strtod(at + strlen(pattern), NULL) : 0;
	buffer_release(&copy);
	return value;
}

static int compare_doubles(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

static void bench_ingest(struct net_client *client, const char *pid)
{
	static struct buffer profiles[PROFILES];
	static double ack_ms[PROFILES];
	struct net_client_response response = {0};
	int64_t now_ns = time_now_ns(), bytes = 0;
	for (int i = 0; i < PROFILES; i++) {
		buffer_init(&profiles[i], 64 * MIB);
		random_state = 42 + (uint64_t)(i % 20); /* services repeat their call paths */
		make_profile(now_ns - (PROFILES - i) * 8 * NS_PER_S, &profiles[i]);
		bytes += (int64_t)profiles[i].len;
	}
	double cpu_before = cpu_seconds(pid);
	int64_t started = time_monotonic_ns();
	for (int i = 0; i < PROFILES; i++) {
		char path[128];
		int64_t begun = time_monotonic_ns();
		snprintf(path, sizeof(path), "/api/v1/ingest?name=process_cpu&label=service_name%%3Dservice%d", i % 4);
		call(client, "POST", path, buffer_bytes(&profiles[i]), &response);
		ack_ms[i] = (double)(time_monotonic_ns() - begun) / NS_PER_MS;
		buffer_release(&profiles[i]);
	}
	double wall = (double)(time_monotonic_ns() - started) / NS_PER_S, cpu = cpu_seconds(pid) - cpu_before,
	       mb = (double)bytes / 1e6;
	qsort(ack_ms, PROFILES, sizeof(double), compare_doubles);
	printf("ingest: %d raw pprof uploads of %.0f kB, %d samples each\n", PROFILES, mb * 1000 / PROFILES, SAMPLES);
	printf("  per core      %.0f MB/s, %.0f profiles/s, %.0f samples/s (server CPU %.2f s)\n", mb / cpu, PROFILES / cpu,
	       PROFILES * (double)SAMPLES / cpu, cpu);
	printf("  wall clock    %.0f MB/s on one connection\n", mb / wall);
	printf("  durable ack   p50 %.1f ms, p99 %.1f ms\n", ack_ms[PROFILES / 2], ack_ms[PROFILES * 99 / 100]);
	net_client_response_release(&response);
}

/* ---- as each kind of client sends ---- */

enum endpoint { ENDPOINT_WICK, ENDPOINT_PYROSCOPE_INGEST, ENDPOINT_PYROSCOPE_PUSH, ENDPOINT_PARCA, ENDPOINT_OTLP, ENDPOINTS };
static const struct {
	const char *name, *path, *type;
} endpoints[ENDPOINTS] = {
	{"/api/v1/ingest", "/api/v1/ingest?name=endpoints", "application/octet-stream"},
	{"Pyroscope /ingest", "/ingest?name=endpoints&format=pprof&spyName=gospy", "application/octet-stream"},
	{"Pyroscope push.v1", "/push.v1.PusherService/Push", "application/proto"},
	{"Parca WriteRaw", "/parca.profilestore.v1alpha1.ProfileStoreService/WriteRaw", "application/proto"},
	{"OTLP over HTTP", "/v1development/profiles", "application/x-protobuf"},
};

static void write_label(struct buffer *out, uint32_t field, const char *name, const char *value)
{
	size_t mark;
	must(pb_begin(out, field, &mark), NULL, "label");
	must(pb_write_string(out, 1, name) | pb_write_string(out, 2, value) | pb_end(out, mark), NULL, "label");
}

/* PushRequest { series = 1 { labels = 1, samples = 2 { raw_profile = 1 } } }; WriteRawRequest { series = 2 { labels = 1 {
 * labels = 1 }, samples = 2 { raw_profile = 1 } } }. */
static void wrap(enum endpoint endpoint, struct bytes pprof, struct buffer *out)
{
	size_t series, labels = 0, sample;
	bool parca = endpoint == ENDPOINT_PARCA;
	must(pb_begin(out, parca ? 2 : 1, &series), NULL, "series");
	if (parca)
		must(pb_begin(out, 1, &labels), NULL, "labels");
	write_label(out, 1, "__name__", "endpoints");
	write_label(out, 1, "service_name", "bench");
	must(parca ? pb_end(out, labels) : 0, NULL, "labels");
	must(pb_begin(out, 2, &sample), NULL, "sample");
	must(pb_write_bytes(out, 1, pprof.data, pprof.len) | pb_end(out, sample) | pb_end(out, series), NULL, "series");
}

static void make_body(enum endpoint endpoint, int number, struct buffer *out)
{
	struct buffer pprof;
	struct error err = {0};
	struct profile *profile = NULL;
	buffer_init(&pprof, 64 * MIB);
	buffer_init(out, 64 * MIB);
	random_state = 42 + (uint64_t)(number % 20);
	/* Each endpoint's profiles have times of their own: a profile that comes twice is not stored again. */
	make_profile(time_now_ns() - (int64_t)(number + 1) * 8 * NS_PER_S - (int64_t)endpoint, &pprof);
	if (endpoint == ENDPOINT_PYROSCOPE_PUSH || endpoint == ENDPOINT_PARCA) {
		wrap(endpoint, buffer_bytes(&pprof), out);
	} else if (endpoint == ENDPOINT_OTLP) {
		struct format_options options = {0};
		must(pprof_decode(buffer_bytes(&pprof), &options, &profile, &err), &err, "decode");
		must(otlp_encode((const struct profile *const *)&profile, 1, out, &err), &err, "encode");
		profile_free(profile);
	} else {
		must(buffer_append(out, pprof.data, pprof.len), NULL, "body");
	}
	buffer_release(&pprof);
}

static void bench_endpoint(struct net_client *client, const char *pid, enum endpoint endpoint)
{
	static struct buffer bodies[ENDPOINT_PROFILES];
	struct net_client_response response = {0};
	double bytes = 0;
	for (int i = 0; i < ENDPOINT_PROFILES; i++) {
		make_body(endpoint, i, &bodies[i]);
		bytes += (double)bodies[i].len;
	}
	double cpu = cpu_seconds(pid);
	int64_t started = time_monotonic_ns();
	for (int i = 0; i < ENDPOINT_PROFILES; i++) {
		send_to(client, "POST", endpoints[endpoint].path, endpoints[endpoint].type, buffer_bytes(&bodies[i]),
			&response);
		buffer_release(&bodies[i]);
	}
	double wall = (double)(time_monotonic_ns() - started) / NS_PER_S;
	cpu = cpu_seconds(pid) - cpu;
	printf("  %-20s %6.0f MB/s per core, %5.0f MB/s on one connection (%d of %.0f kB, server CPU %.2f s)\n",
	       endpoints[endpoint].name, bytes / 1e6 / cpu, bytes / 1e6 / wall, ENDPOINT_PROFILES,
	       bytes / 1000 / ENDPOINT_PROFILES, cpu);
	net_client_response_release(&response);
}

/* ---- pushes of few samples with many names ---- */

/* Names that do not compress to nothing, as those of real programs do not. */
static void random_name(char out[static 64])
{
	static const char *const words[] = {"Read",  "write", "Handler", "Conn", "pool",  "Encode", "json", "Session",
					    "Query", "flush", "Context", "wait", "Token", "parse",  "grpc", "Buffer"};
	size_t len = 0;
	for (unsigned i = 0; i < 3; i++)
		len += (size_t)snprintf(out + len, 64 - len, "%s%lx", words[random_next() % 16],
					(unsigned long)(random_next() % 4096));
}

static void make_push(unsigned service, int64_t time_ns, struct buffer *out)
{
	struct error err = {0};
	uint32_t locations[PUSH_FUNCTIONS], id;
	struct profile *profile = NULL;
	char name[64], text[160];
	must(profile_new(&profile, &err), &err, "profile");
	must(profile_add_named_type(profile, "samples", "count", &err), &err, "type");
	must(profile_add_named_type(profile, "cpu", "nanoseconds", &err), &err, "type");
	profile->period_type = profile->sample_types[1];
	profile->period = 10000000;
	profile->time_ns = time_ns;
	profile->duration_ns = 15 * NS_PER_S;
	uint64_t saved = random_state;
	random_state = 1000 + service; /* the same names each time */
	for (uint32_t i = 0; i < PUSH_FUNCTIONS; i++) {
		struct profile_function function = {0};
		random_name(name);
		snprintf(text, sizeof(text), "example.com/service%u/internal/%s.(*%.8s).%s", service, name + 40 % strlen(name),
			 name, name);
		must(profile_add_cstring(profile, text, &function.name, &err), &err, "string");
		function.system_name = function.name;
		snprintf(text, sizeof(text), "/go/src/example.com/service%u/internal/%.12s.go", service, name);
		must(profile_add_cstring(profile, text, &function.file_name, &err), &err, "string");
		must(profile_add_function(profile, &function, &id, &err), &err, "function");
		struct profile_line line = {.function = id, .line = (int64_t)(random_next() % 900)};
		struct profile_location location = {.address = 0x401000 + i * 0x120ull};
		must(profile_add_location(profile, &location, &line, 1, &locations[i], &err), &err, "location");
	}
	for (unsigned i = 0; i < PUSH_SAMPLES; i++) {
		/* One of the service's stacks, which is always the same. */
		random_state = saved;
		uint64_t rank = random_popular(PUSH_STACKS);
		saved = random_state;
		random_state = (rank + 1) * 0x9e3779b97f4a7c15ull ^ service;
		uint32_t stack = 0, function = random_popular(8), depth = 10 + (uint32_t)random_next() % 30;
		for (uint32_t k = 0; k < depth; k++) {
			must(profile_add_stack(profile, stack, locations[function], &stack, &err), &err, "stack");
			function = (function * 7 + 1 + random_popular(3)) % PUSH_FUNCTIONS;
		}
		int64_t count = 1 + (int64_t)random_popular(5), values[2] = {count, count * 10000000};
		must(profile_add_sample(profile, &(struct profile_sample){.stack = stack}, values, &err), &err, "sample");
	}
	random_state = saved;
	struct format_options options = {.compress = true};
	must(pprof_encode(profile, &options, out, &err), &err, "encode");
	profile_free(profile);
}

static double log_bytes(struct net_client *client)
{
	static const char name[] = "\nwick_store_log_bytes ";
	struct net_client_response response = {0};
	call(client, "GET", "/metrics", (struct bytes){0}, &response);
	struct buffer copy = {.max = response.body.len + 1};
	must(buffer_append(&copy, response.body.data, response.body.len), NULL, "metrics");
	const char *at = strstr(buffer_string(&copy), name);
	double bytes = at ? strtod(at + strlen(name), NULL) : 0;
	buffer_release(&copy);
	net_client_response_release(&response);
	return bytes;
}

/* The first round brings all names and most stacks; the figures are of the rounds after it. */
static void bench_push(struct net_client *client, const char *pid)
{
	static struct buffer bodies[PUSH_PROFILES + PUSH_SERVICES];
	struct net_client_response response = {0};
	double bytes = 0, cpu = 0, log = 0;
	int64_t now_ns = time_now_ns(), started = 0;
	for (int i = 0; i < PUSH_PROFILES + PUSH_SERVICES; i++) {
		buffer_init(&bodies[i], 64 * MIB);
		make_push((unsigned)i % PUSH_SERVICES, now_ns - (PUSH_PROFILES + PUSH_SERVICES - i) * NS_PER_S, &bodies[i]);
		bytes += (double)bodies[i].len;
	}
	for (int i = 0; i < PUSH_PROFILES + PUSH_SERVICES; i++) {
		char path[128];
		if (i == PUSH_SERVICES) {
			cpu = cpu_seconds(pid);
			log = log_bytes(client);
			started = time_monotonic_ns();
		}
		snprintf(path, sizeof(path), "/api/v1/ingest?name=process_cpu&label=service_name%%3Dpush%d", i % PUSH_SERVICES);
		call(client, "POST", path, buffer_bytes(&bodies[i]), &response);
		buffer_release(&bodies[i]);
	}
	double wall = (double)(time_monotonic_ns() - started) / NS_PER_S;
	cpu = cpu_seconds(pid) - cpu;
	log = log_bytes(client) - log;
	printf("push: %d gzipped pprofs of %.0f kB, %d samples and %d functions each\n", PUSH_PROFILES,
	       bytes / 1000 / (PUSH_PROFILES + PUSH_SERVICES), PUSH_SAMPLES, PUSH_FUNCTIONS);
	printf("  per core      %.0f profiles/s, %.0f samples/s (server CPU %.2f s; %.0f profiles/s on one connection)\n",
	       PUSH_PROFILES / cpu, PUSH_PROFILES * (double)PUSH_SAMPLES / cpu, cpu, PUSH_PROFILES / wall);
	printf("  log           %.1f bytes a sample\n", log / (PUSH_PROFILES * (double)PUSH_SAMPLES));
	net_client_response_release(&response);
}

static void bench_queries(struct net_client *client, const char *name, const char *path)
{
	double ms[QUERIES], inside = 0;
	struct net_client_response response = {0};
	for (int i = 0; i < QUERIES; i++) {
		int64_t begun = time_monotonic_ns();
		call(client, "GET", path, (struct bytes){0}, &response);
		ms[i] = (double)(time_monotonic_ns() - begun) / NS_PER_MS;
		inside += number_of(&response, "ms") / QUERIES;
	}
	qsort(ms, QUERIES, sizeof(double), compare_doubles);
	printf("  %-36s p50 %.1f ms, p99 %.1f ms (%.0f rows, answer %.0f kB)\n", name, ms[QUERIES / 2], ms[QUERIES - 1],
	       number_of(&response, "rows"), (double)response.body.len / 1000);
	net_client_response_release(&response);
}

int main(int argc, char **argv)
{
	struct error err = {0};
	struct net_client *client = NULL;
	if (argc < 3) {
		fprintf(stderr, "usage: ingest URL PID [endpoints | push | TITLE OF QUERIES]\n");
		return 2;
	}
	must(net_client_new(&(struct net_client_options){.url = argv[1], .timeout_ns = 120 * NS_PER_S}, &client, &err), &err,
	     "client");
	if (argc == 3) {
		bench_ingest(client, argv[2]);
	} else if (strcmp(argv[3], "push") == 0) {
		bench_push(client, argv[2]);
	} else if (strcmp(argv[3], "endpoints") == 0) {
		for (enum endpoint endpoint = 0; endpoint < ENDPOINTS; endpoint++)
			bench_endpoint(client, argv[2], endpoint);
	} else {
		printf("queries: the hour just written, %s\n", argv[3]);
		bench_queries(client, "flame graph, one service, 1 h",
			      "/api/v1/query?query=process_cpu:cpu%7Bservice_name%3D%22service1%22%7D&from=now-1h");
		bench_queries(client, "flame graph, all services, 1 h", "/api/v1/query?query=process_cpu:cpu&from=now-1h");
		bench_queries(client, "series by service, 200 points, 1 h",
			      "/api/v1/series?query=process_cpu:cpu&from=now-1h&by=service_name&step=18s");
		bench_queries(client, "label values, 1 h", "/api/v1/label-values?label=service_name&from=now-1h");
		struct net_client_response response = {0};
		call(client, "GET", "/api/v1/status", (struct bytes){0}, &response);
		printf("  stored        %.0f rows in %.0f bytes: %.2f bytes per sample\n", number_of(&response, "samples"),
		       number_of(&response, "bytes"), number_of(&response, "bytes") / number_of(&response, "samples"));
		net_client_response_release(&response);
	}
	net_client_free(client);
	return 0;
}
