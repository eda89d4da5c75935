/* SPDX-License-Identifier: Apache-2.0 */
/*
 * soak URL PID SECONDS: writers and readers on a running server for a long time, while it cuts and compacts.
 *
 * Each of 8 writers sends one profile after the other, of 200 stacks under its own service name, and keeps the sum of what was
 * acknowledged for each second. Each of 4 readers asks for a range of whole seconds that all writers are past, of one service
 * (a merge), of one function of it (a stack filter would be the server's business; here the merge's own table) or of all
 * services (series), and compares the sums: a sample that is lost, late to be seen, or counted twice while blocks are cut,
 * merged and put in the place of others is found at once. The main thread reads the server's memory each second.
 *
 * Fails when a sum differs, when anything takes a second, or when memory passes 512 MB or still grows in the second half by
 * more than 64 MB an hour beyond what the noise of its samples explains.
 */
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/io.h"
#include "base/limits.h"
#include "base/thread.h"
#include "base/time.h"
#include "format/format.h"
#include "net/net.h"

#define WRITERS	    8
#define READERS	    4
#define STACKS	    200
#define FUNCTIONS   400
#define POOL	    3000 /* stacks that come again and again; one in FRESH is new */
#define FRESH	    100
#define SECONDS_MAX (4 * 3600)
#define LATENCIES   (1 << 20)
#define STALL_NS    NS_PER_S
#define RSS_MAX_MB  512.0
#define SLOPE_MAX   64.0 /* MB an hour */
#define SLOPE_TIME  600	 /* seconds: a shorter run says nothing about it */

struct latencies {
	pthread_mutex_t lock;
	float *ms;
	size_t count;
	double max_ms;
};
struct writer {
	unsigned number;
	uint64_t random;
	_Atomic int64_t past_s;		   /* all that it sent with a time before this second is acknowledged */
	_Atomic int64_t sums[SECONDS_MAX]; /* acknowledged, by second since the start */
	uint64_t profiles, bytes;
};

static const char *url;
static int64_t start_s;
static _Atomic bool stopping;
static _Atomic uint64_t wrong, refused, answers;
static struct writer *writers;
static struct latencies acks = {.lock = PTHREAD_MUTEX_INITIALIZER}, merges = {.lock = PTHREAD_MUTEX_INITIALIZER},
			series = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void must(int r, const struct error *err, const char *what)
{
	if (r >= 0)
		return;
	fprintf(stderr, "soak: %s: %s\n", what, err->message);
	exit(1);
}

static uint64_t random_next(uint64_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state * 0x2545f4914f6cdd1dull >> 11;
}

static void note(struct latencies *latencies, int64_t started_ns)
{
	double ms = (double)(time_monotonic_ns() - started_ns) / NS_PER_MS;
	pthread_mutex_lock(&latencies->lock);
	if (latencies->count < LATENCIES)
		latencies->ms[latencies->count++] = (float)ms;
	if (ms > latencies->max_ms)
		latencies->max_ms = ms;
	pthread_mutex_unlock(&latencies->lock);
}

static struct net_client *connect_client(void)
{
	struct net_client *client = NULL;
	struct error err = {0};
	must(net_client_new(&(struct net_client_options){.url = url, .timeout_ns = 60 * NS_PER_S}, &client, &err), &err,
	     "client");
	return client;
}

/* ---- writing ---- */

static void add_functions(struct profile *profile, uint32_t *locations)
{
	struct error err = {0};
	char name[96];
	for (uint32_t i = 0; i < FUNCTIONS; i++) {
		struct profile_function function = {0};
		struct profile_location location = {0};
		struct profile_line line = {.line = i};
		snprintf(name, sizeof(name), "example.com/soak/package%u.(*Receiver).Method%u", i % 20, i);
		must(profile_add_cstring(profile, name, &function.name, &err), &err, "string");
		must(profile_add_function(profile, &function, &line.function, &err), &err, "function");
		must(profile_add_location(profile, &location, &line, 1, &locations[i], &err), &err, "location");
	}
}

/* Returns the sum of its values. */
static int64_t make_profile(struct writer *writer, int64_t time_ns, struct buffer *out)
{
	struct error err = {0};
	struct profile *profile = NULL;
	uint32_t type, unit, locations[FUNCTIONS];
	int64_t sum = 0;
	must(profile_new(&profile, &err), &err, "profile");
	must(profile_add_cstring(profile, "samples", &type, &err), &err, "string");
	must(profile_add_cstring(profile, "count", &unit, &err), &err, "string");
	must(profile_add_sample_type(profile, type, unit, &err), &err, "type");
	profile->time_ns = time_ns;
	profile->duration_ns = NS_PER_S;
	add_functions(profile, locations);
	for (int i = 0; i < STACKS; i++) {
		/* Its number decides what a stack is. */
		uint64_t path = random_next(&writer->random);
		if (path % FRESH)
			path = 1 + path % POOL * (path / POOL % POOL) / POOL; /* small numbers more often */
		uint32_t stack = 0, function = (uint32_t)path % 4;
		for (uint64_t depth = 8 + path % 20; depth > 0; depth--) {
			must(profile_add_stack(profile, stack, locations[function], &stack, &err), &err, "stack");
			function = (function * 7 + 1 + (uint32_t)random_next(&path) % 3) % FUNCTIONS;
		}
		int64_t value = 1 + (int64_t)(random_next(&writer->random) % 100);
		must(profile_add_sample(profile, &(struct profile_sample){.stack = stack}, &value, &err), &err, "sample");
		sum += value;
	}
	struct format_options options = {.compress = false};
	must(pprof_encode(profile, &options, out, &err), &err, "encode");
	profile_free(profile);
	return sum;
}

static void *write_profiles(void *context)
{
	struct writer *writer = context;
	struct net_client *client = connect_client();
	struct buffer body;
	char path[160];
	snprintf(path, sizeof(path), "/api/v1/ingest?name=soak&label=service_name%%3Dw%u&label=pod%%3Dw%u-pod", writer->number,
		 writer->number);
	buffer_init(&body, 64 * MIB);
	while (!stopping) {
		int64_t now_ns = time_now_ns(), second = now_ns / NS_PER_S - start_s;
		if (second >= SECONDS_MAX)
			break;
		writer->past_s = second;
		buffer_clear(&body);
		int64_t sum = make_profile(writer, now_ns, &body);
		struct net_client_response response = {0};
		struct error err = {0};
		int64_t started = time_monotonic_ns();
		must(net_client_request(client, "POST", path, "application/octet-stream", buffer_bytes(&body), false, &response,
					&err),
		     &err, "upload");
		note(&acks, started);
		if (response.status == 200) {
			writer->sums[second] += sum;
			writer->profiles++;
			writer->bytes += body.len;
		} else {
			refused++;
			fprintf(stderr, "soak: an upload is answered %d: %.*s\n", response.status, (int)response.body.len,
				(const char *)response.body.data);
		}
		net_client_response_release(&response);
		time_sleep_ns((int64_t)(random_next(&writer->random) % 60) * NS_PER_MS);
	}
	writer->past_s = INT64_MAX;
	buffer_release(&body);
	net_client_free(client);
	return NULL;
}

/* ---- reading ---- */

static int64_t sum_of(const struct writer *writer, int64_t from, int64_t to)
{
	int64_t sum = 0;
	for (int64_t i = from; i < to; i++)
		sum += writer->sums[i];
	return sum;
}

/* The first number behind `key` behind `from`; -1 if there is none. */
static int64_t number_after(const char *from, const char *key)
{
	const char *at = from ? strstr(from, key) : NULL;
	return at ? strtoll(at + strlen(key), NULL, 10) : -1;
}

static void compare(const char *what, unsigned number, int64_t from, int64_t to, int64_t got)
{
	int64_t want = sum_of(&writers[number], from, to);
	if (got == want || (got < 0 && want == 0))
		return;
	wrong++;
	fprintf(stderr, "soak: %s of w%u from second %" PRId64 " to %" PRId64 ": %" PRId64 " instead of %" PRId64 "\n", what,
		number, from, to, got, want);
}

/* Asks; the answer as text in *text. */
static bool ask(struct net_client *client, const char *path, struct latencies *latencies, struct buffer *text)
{
	struct net_client_response response = {0};
	struct error err = {0};
	int64_t started = time_monotonic_ns();
	must(net_client_request(client, "GET", path, NULL, (struct bytes){0}, false, &response, &err), &err, path);
	note(latencies, started);
	answers++;
	bool ok = response.status == 200 && buffer_append(text, response.body.data, response.body.len) == 0;
	if (!ok) {
		wrong++;
		fprintf(stderr, "soak: %s is answered %d: %.*s\n", path, response.status, (int)response.body.len,
			(const char *)response.body.data);
	}
	net_client_response_release(&response);
	return ok;
}

static void ask_merge(struct net_client *client, unsigned number, int64_t from, int64_t to, struct buffer *text)
{
	char path[256];
	snprintf(path, sizeof(path),
		 "/api/v1/query?query=soak:samples%%7Bservice_name%%3D%%22w%u%%22%%7D&from=%" PRId64 "&to=%" PRId64
		 "&format=json&limit=3",
		 number, start_s + from, start_s + to);
	if (ask(client, path, &merges, text))
		compare("the merge", number, from, to, number_after(buffer_string(text), "\"total\":"));
}

static void ask_series(struct net_client *client, int64_t from, int64_t to, struct buffer *text)
{
	char path[256], key[64];
	/* One step, so that widening the range to whole steps changes nothing. */
	snprintf(path, sizeof(path), "/api/v1/series?query=soak:samples&by=service_name&step=1s&from=%" PRId64 "&to=%" PRId64,
		 start_s + from, start_s + to);
	if (!ask(client, path, &series, text))
		return;
	for (unsigned i = 0; i < WRITERS; i++) {
		snprintf(key, sizeof(key), "\"service_name\":\"w%u\"", i);
		compare("the series", i, from, to, number_after(strstr(buffer_string(text), key), "\"total\":"));
	}
}

static void *read_sums(void *context)
{
	uint64_t random = 77 + (uintptr_t)context;
	struct net_client *client = connect_client();
	struct buffer text;
	buffer_init(&text, 64 * MIB);
	while (!stopping) {
		int64_t end = time_now_ns() / NS_PER_S - start_s;
		for (unsigned i = 0; i < WRITERS; i++)
			if (writers[i].past_s < end)
				end = writers[i].past_s;
		time_sleep_ns((int64_t)(random_next(&random) % 100) * NS_PER_MS);
		if (end < 2)
			continue;
		/* Mostly the last minute, at times everything. */
		int64_t span = random_next(&random) % 4 ? 60 : end;
		int64_t to = end - (int64_t)(random_next(&random) % 2 ? 0 : random_next(&random) % (uint64_t)end);
		int64_t from = to - 1 - (int64_t)(random_next(&random) % (uint64_t)span);
		if (from < 0)
			from = 0;
		if (to <= from)
			continue;
		buffer_clear(&text);
		if (random_next(&random) % 2)
			ask_merge(client, (unsigned)(random_next(&random) % WRITERS), from, to, &text);
		else
			ask_series(client, to - from > 300 ? to - 300 : from, to, &text);
	}
	buffer_release(&text);
	net_client_free(client);
	return NULL;
}

/* ---- memory ---- */

static double resident_mb(const char *pid)
{
	char path[64];
	struct buffer text = {0};
	snprintf(path, sizeof(path), "/proc/%.20s/status", pid);
	double kb = io_read_file(path, 65536, &text, NULL) < 0 ? -1 : (double)number_after(buffer_string(&text), "VmRSS:");
	buffer_release(&text);
	return kb / 1024;
}

/* Least squares over the second half, in MB an hour. */
static double slope_of(const double *mb, size_t count)
{
	double n = 0, x = 0, y = 0, xx = 0, xy = 0;
	for (size_t i = count / 2; i < count; i++, n++) {
		x += (double)i;
		y += mb[i];
		xx += (double)i * (double)i;
		xy += (double)i * mb[i];
	}
	double below = n * xx - x * x;
	return below > 0 ? 3600 * (n * xy - x * y) / below : 0;
}

static int compare_floats(const void *a, const void *b)
{
	float x = *(const float *)a, y = *(const float *)b;
	return (x > y) - (x < y);
}

static void print_latencies(const char *name, struct latencies *l)
{
	qsort(l->ms, l->count, sizeof(*l->ms), compare_floats);
	printf("  %-24s %zu, p50 %.1f ms, p99 %.1f ms, max %.1f ms\n", name, l->count, l->count ? l->ms[l->count / 2] : 0,
	       l->count ? l->ms[l->count * 99 / 100] : 0, l->max_ms);
}

static double watch(const char *pid, int64_t seconds, double *mb, size_t *ret_count)
{
	double peak = 0;
	for (*ret_count = 0; *ret_count < (size_t)seconds; ++*ret_count) {
		time_sleep_ns(NS_PER_S);
		mb[*ret_count] = resident_mb(pid);
		if (mb[*ret_count] < 0) {
			fprintf(stderr, "soak: the server is gone\n");
			exit(1);
		}
		if (mb[*ret_count] > peak)
			peak = mb[*ret_count];
		if (*ret_count % 60 == 59)
			printf("  after %4zu min  %.1f MB\n", (*ret_count + 1) / 60, mb[*ret_count]);
		fflush(stdout);
	}
	return peak;
}

static bool check_memory(double peak, double slope, double slope_max)
{
	bool failed = wrong || refused || answers == 0 || acks.count == 0;
	if (acks.max_ms >= STALL_NS / NS_PER_MS || merges.max_ms >= STALL_NS / NS_PER_MS ||
	    series.max_ms >= STALL_NS / NS_PER_MS) {
		printf("FAILED: something took a second\n");
		failed = true;
	}
	if (peak > RSS_MAX_MB || slope > slope_max) {
		printf("FAILED: memory is not bounded\n");
		failed = true;
	}
	if (wrong || refused)
		printf("FAILED: %" PRIu64 " wrong answers, %" PRIu64 " uploads refused\n", wrong, refused);
	return !failed;
}

int main(int argc, char **argv)
{
	pthread_t threads[WRITERS + READERS];
	struct error err = {0};
	if (argc < 4) {
		fprintf(stderr, "usage: soak URL PID SECONDS\n");
		return 2;
	}
	url = argv[1];
	int64_t seconds = strtoll(argv[3], NULL, 10);
	if (seconds < 1 || seconds > SECONDS_MAX)
		seconds = SECONDS_MAX;
	writers = mem_zalloc_array(WRITERS, sizeof(*writers));
	acks.ms = mem_alloc_array(LATENCIES, sizeof(float));
	merges.ms = mem_alloc_array(LATENCIES, sizeof(float));
	series.ms = mem_alloc_array(LATENCIES, sizeof(float));
	double *mb = mem_alloc_array((size_t)seconds, sizeof(*mb));
	start_s = time_now_ns() / NS_PER_S;
	for (uintptr_t i = 0; i < WRITERS; i++) {
		writers[i].number = (unsigned)i;
		writers[i].random = 1000 + i;
		must(thread_start(&threads[i], "writer", write_profiles, &writers[i], &err), &err, "thread");
	}
	for (uintptr_t i = 0; i < READERS; i++)
		must(thread_start(&threads[WRITERS + i], "reader", read_sums, (void *)i, &err), &err, "thread");
	size_t count;
	double peak = watch(argv[2], seconds, mb, &count);
	stopping = true;
	for (size_t i = 0; i < WRITERS + READERS; i++)
		pthread_join(threads[i], NULL);
	uint64_t profiles = 0, bytes = 0;
	for (size_t i = 0; i < WRITERS; i++) {
		profiles += writers[i].profiles;
		bytes += writers[i].bytes;
	}
	double slope = slope_of(mb, count);
	printf("  written                  %" PRIu64 " profiles, %" PRIu64 " samples, %.1f MB\n", profiles, profiles * STACKS,
	       (double)bytes / 1e6);
	printf("  memory of the server     start %.1f MB, peak %.1f MB, end %.1f MB, slope of the second half %+.1f MB/h\n",
	       mb[0], peak, mb[count - 1], slope);
	print_latencies("acknowledged", &acks);
	print_latencies("merges", &merges);
	print_latencies("series", &series);
	printf("  answers compared         %" PRIu64 ", wrong %" PRIu64 "\n", answers, wrong);
	return check_memory(peak, slope, count >= SLOPE_TIME ? SLOPE_MAX : 1e9) ? 0 : 1;
}
