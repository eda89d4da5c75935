/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>

#include "base/clock_fit.h"
#include "base/fault.h"
#include "base/time.h"
#include "profile/align.h"
#include "profile/test_profile.h"

#define START_NS    (1700000000 * NS_PER_S)
#define HOSTS_MAX   6
#define MARKERS_MAX 1200

static struct test_random random_of_test;

static int64_t random_below(int64_t limit)
{
	return limit > 0 ? (int64_t)test_random_below(&random_of_test, (uint64_t)limit) : 0;
}

/* Hosts whose clocks are lines against that of the first, and what the first one's clock showed when each marker was made. */
struct scene {
	struct profile *profile;
	uint32_t hosts, host_ids[HOSTS_MAX], threads[HOSTS_MAX];
	struct clock_line truth[HOSTS_MAX]; /* from the first one's clock to the host's: its offset is what is added */
	int64_t true_ns[MARKERS_MAX];
	size_t markers;
	uint64_t flows;
};

static int64_t shown(const struct scene *scene, uint32_t host, int64_t true_ns)
{
	return true_ns + clock_line_offset(scene->truth[host], true_ns);
}

static void add_host(struct scene *scene, const char *name, int64_t offset_ns, double skew)
{
	uint32_t i = scene->hosts++;
	struct profile_host host = {.name = test_string(scene->profile, name)};
	scene->truth[i] = (struct clock_line){.at_ns = START_NS, .offset_ns = offset_ns, .skew = skew};
	assert_int_equal(profile_add_host(scene->profile, &host, &scene->host_ids[i], NULL), 0);
	struct profile_thread thread = {
		.host = scene->host_ids[i], .pid = 10, .tid = 10, .start_ns = shown(scene, i, START_NS)};
	assert_int_equal(profile_add_thread(scene->profile, &thread, &scene->threads[i], NULL), 0);
}

static void add_marker(struct scene *scene, uint32_t host, int64_t true_ns, uint64_t flow, bool ends)
{
	struct profile_marker marker = {
		.thread = scene->threads[host], .start_ns = shown(scene, host, true_ns), .flow = flow, .flow_ends = ends};
	assert_true(scene->markers < MARKERS_MAX);
	scene->true_ns[scene->markers++] = true_ns;
	assert_int_equal(profile_add_marker(scene->profile, &marker, NULL, NULL), 0);
}

static void exchange(struct scene *scene, uint32_t from, uint32_t to, int64_t true_ns, int64_t took_ns)
{
	uint64_t flow = ++scene->flows;
	add_marker(scene, from, true_ns, flow, false);
	add_marker(scene, to, true_ns + took_ns, flow, true);
}

static struct scene *new_scene(void)
{
	struct scene *scene = calloc(1, sizeof(*scene));
	assert_int_equal(profile_new(&scene->profile, NULL), 0);
	return scene;
}

static void free_scene(struct scene *scene)
{
	profile_free(scene->profile);
	free(scene);
}

static struct profile_align_result align(struct scene *scene, const struct profile_align_options *options)
{
	struct profile_align_result result;
	struct error err = {0};
	if (profile_align(scene->profile, options, &result, &err) < 0)
		fail_msg("%s", err.message);
	return result;
}

static const struct profile_host *host_of(const struct scene *scene, uint32_t host)
{
	return &scene->profile->markers->hosts[scene->host_ids[host]];
}

/* Every marker of a host is as near to the truth as the bound says. Returns how many hosts have one. */
static size_t assert_bounds_hold(const struct scene *scene)
{
	size_t bounded = 0;
	for (uint32_t i = 0; i < scene->hosts; i++) {
		const struct profile_host *host = host_of(scene, i);
		bounded += host->bound_ns >= 0;
		for (size_t k = 0; k < scene->markers && host->bound_ns >= 0; k++) {
			const struct profile_marker *marker = &scene->profile->markers->markers[k];
			int64_t error = marker->start_ns - scene->true_ns[k];
			if (marker->thread == scene->threads[i] && llabs(error) > host->bound_ns + 2)
				fail_msg("host %u, marker %zu: off by %lld ns, bound %lld", i, k, (long long)error,
					 (long long)host->bound_ns);
		}
	}
	return bounded;
}

/* ---- two hosts ---- */

static struct scene *two_hosts(void)
{
	struct scene *scene = new_scene();
	add_host(scene, "alpha", 0, 0);
	add_host(scene, "beta", 5 * NS_PER_S, 5e-5);
	for (int i = 0; i < 500; i++)
		exchange(scene, (uint32_t)i % 2, (uint32_t)(i + 1) % 2, START_NS + i * 100 * NS_PER_MS,
			 100000 + random_below(900000));
	return scene;
}

static void test_two_hosts(void **state)
{
	struct scene *scene = two_hosts();
	struct profile_align_result result = align(scene, NULL);
	assert_int_equal(result.exchanges, 500);
	assert_int_equal(result.reversed, 0);
	assert_int_equal(assert_bounds_hold(scene), 2);
	const struct profile_host *alpha = host_of(scene, 0), *beta = host_of(scene, 1);
	assert_string_equal(profile_string(scene->profile, alpha->method), "reference");
	assert_int_equal(alpha->offset_ns, 0);
	assert_string_equal(profile_string(scene->profile, beta->method), "flows");
	assert_string_equal(profile_string(scene->profile, beta->reference), "alpha");
	assert_int_equal(beta->exchanges, 500);
	assert_in_range(beta->bound_ns, 80000, 200000);
	assert_true(beta->skew > 4.5e-5 && beta->skew < 5.5e-5);
	assert_in_range(llabs(beta->offset_ns - 5 * NS_PER_S - 25 * NS_PER_S * 5 / 100000), 0, 200000);
	/* The start of a thread and the profile's own time move with the rest. */
	assert_in_range(llabs(scene->profile->markers->threads[scene->threads[1]].start_ns - START_NS), 0, 200000);
	assert_int_equal(scene->profile->time_ns, START_NS);
	assert_in_range(scene->profile->duration_ns, 49900000000, 49902000000);
	free_scene(scene);
}

/* Exchanges are drawn once, also when it is done again; and nothing moves that is where it belongs. */
static void test_again(void **state)
{
	struct scene *scene = two_hosts();
	align(scene, NULL);
	struct profile_host before = *host_of(scene, 1);
	size_t count = profile_marker_count(scene->profile);
	assert_int_equal(count, scene->markers + 500);
	const struct profile_marker *drawn = &scene->profile->markers->markers[count - 1];
	assert_string_equal(profile_string(scene->profile, drawn->name), "Exchange");
	assert_int_equal(drawn->thread, scene->threads[0]);
	assert_in_range(drawn->end_ns - drawn->start_ns, 1, 2000000);
	struct profile_align_result result = align(scene, NULL);
	assert_int_equal(profile_marker_count(scene->profile), count);
	assert_int_equal(result.reversed, 0);
	const struct profile_host *after = host_of(scene, 1);
	assert_in_range(llabs(after->offset_ns - before.offset_ns), 0, before.bound_ns);
	assert_true(llabs(after->bound_ns - before.bound_ns) < 10000);
	assert_bounds_hold(scene);
	free_scene(scene);
}

static void test_reference(void **state)
{
	struct scene *scene = two_hosts();
	struct profile_align_result result = align(scene, &(struct profile_align_options){.reference = "beta"});
	assert_int_equal(result.reversed, 0);
	assert_string_equal(profile_string(scene->profile, host_of(scene, 0)->reference), "beta");
	assert_in_range(-host_of(scene, 0)->offset_ns, 5 * NS_PER_S, 5003 * NS_PER_MS);
	assert_int_equal(scene->profile->time_ns / NS_PER_MS, START_NS / NS_PER_MS + 5000);
	struct error err;
	assert_int_equal(profile_align(scene->profile, &(struct profile_align_options){.reference = "gamma"}, NULL, &err),
			 -EINVAL);
	assert_non_null(strstr(err.message, "gamma"));
	free_scene(scene);
}

/* CLOCK_MONOTONIC is given for the profile's own time: it goes with that, and means nothing for several machines. */
static void test_monotonic(void **state)
{
	struct scene *one = new_scene(), *two = two_hosts();
	add_host(one, "alpha", 0, 0);
	add_marker(one, 0, START_NS + 70, 0, false);
	one->profile->time_ns = two->profile->time_ns = START_NS + 20;
	one->profile->monotonic_ns = two->profile->monotonic_ns = 1000;
	align(one, NULL);
	assert_int_equal(one->profile->time_ns, START_NS + 70);
	assert_int_equal(one->profile->monotonic_ns, 1050);
	align(two, NULL);
	assert_int_equal(two->profile->monotonic_ns, 0);
	free_scene(one);
	free_scene(two);
}

/* What is on alpha's clock can be put onto beta's, which is 5 s ahead: all of it, as if it had been done at once. */
static void test_reference_later(void **state)
{
	struct scene *scene = two_hosts();
	align(scene, NULL);
	int64_t first_ns = scene->profile->time_ns;
	struct profile_align_result result = align(scene, &(struct profile_align_options){.reference = "beta"});
	const struct profile_host *alpha = host_of(scene, 0), *beta = host_of(scene, 1);
	assert_int_equal(result.reversed, 0);
	assert_string_equal(profile_string(scene->profile, alpha->reference), "beta");
	assert_in_range(-alpha->offset_ns, 5 * NS_PER_S, 5003 * NS_PER_MS);
	assert_true(alpha->skew < -4.5e-5 && alpha->skew > -5.5e-5);
	assert_in_range(alpha->bound_ns, 80000, 200000);
	assert_int_equal(beta->offset_ns, 0);
	assert_true(beta->skew == 0);
	for (size_t i = 0; i < scene->markers; i++) {
		const struct profile_marker *marker = &scene->profile->markers->markers[i];
		int64_t error = marker->start_ns - shown(scene, 1, scene->true_ns[i]);
		assert_in_range(llabs(error), 0, marker->thread == scene->threads[1] ? 2 : alpha->bound_ns + 2);
	}
	/* And back. */
	align(scene, NULL);
	assert_in_range(llabs(scene->profile->time_ns - first_ns), 0, 2);
	assert_bounds_hold(scene);
	free_scene(scene);
}

static void test_keeps_times(void **state)
{
	struct scene *scene = two_hosts();
	struct profile_align_result result = align(scene, &(struct profile_align_options){.keep_times = true});
	assert_int_equal(result.exchanges, 500);
	assert_int_equal(result.reversed, 250);
	assert_false(host_of(scene, 1)->is_aligned);
	assert_int_equal(scene->profile->markers->markers[1].start_ns, shown(scene, 1, scene->true_ns[1]));
	free_scene(scene);
}

/* ---- any hosts ---- */

/* Who talks to whom: everybody to everybody, all to the first, each to the next. */
static void pick_pair(const struct scene *scene, int shape, uint32_t *from, uint32_t *to)
{
	*from = (uint32_t)random_below(scene->hosts);
	*to = (*from + 1 + (uint32_t)random_below(scene->hosts - 1)) % scene->hosts;
	if (shape == 1)
		*from = 0, *to = 1 + (uint32_t)random_below(scene->hosts - 1);
	else if (shape == 2)
		*from = (uint32_t)random_below(scene->hosts - 1), *to = *from + 1;
	if (shape && random_below(2)) {
		uint32_t swap = *from;
		*from = *to;
		*to = swap;
	}
}

static struct scene *random_scene(uint64_t seed)
{
	static const char *const names[HOSTS_MAX] = {"a", "b", "c", "d", "e", "f"};
	static const int64_t delays[] = {0, 1000, 300000, 20 * NS_PER_MS};
	struct scene *scene = new_scene();
	random_of_test.state = seed;
	uint32_t hosts = 2 + (uint32_t)random_below(HOSTS_MAX - 1);
	int shape = (int)random_below(3);
	int64_t length = 1 + random_below(120 * NS_PER_S), delay_of[HOSTS_MAX][HOSTS_MAX];
	size_t exchanges = (size_t)random_below(MARKERS_MAX / 2);
	for (uint32_t i = 0; i < hosts; i++) {
		add_host(scene, names[i], i ? random_below(20 * NS_PER_S) - 10 * NS_PER_S : 0,
			 i ? (double)(random_below(800) - 400) * 1e-6 : 0);
		for (uint32_t k = 0; k < hosts; k++)
			delay_of[i][k] = delays[random_below(4)];
	}
	for (size_t i = 0; i < exchanges; i++) {
		uint32_t from, to;
		pick_pair(scene, shape, &from, &to);
		/* Some ways are slow in one direction. */
		int64_t took = 1000 + delay_of[from][to] / 2 + random_below(delay_of[from][to] + 1);
		exchange(scene, from, to, START_NS + random_below(length), took);
	}
	return scene;
}

/* Whatever the clocks, delays and ways: every send is before its receive, and the bounds hold. */
static void test_properties(void **state)
{
	size_t bounded = 0;
	for (uint64_t seed = 0; seed < 4000; seed++) {
		struct scene *scene = random_scene(seed);
		struct profile_align_result result = align(scene, NULL);
		if (result.reversed)
			fail_msg("seed %d: %d of %d reversed, %d hosts", (int)seed, (int)result.reversed, (int)result.exchanges,
				 (int)scene->hosts);
		bounded += assert_bounds_hold(scene) > 1;
		free_scene(scene);
	}
	assert_true(bounded > 3000);
}

/* ---- what hosts know of their clocks ---- */

static void set_fit(struct scene *scene, uint32_t host, const char *reference, int64_t offset_ns, int64_t bound_ns)
{
	struct profile_host fit = *host_of(scene, host);
	uint32_t id;
	fit.reference = test_string(scene->profile, reference);
	fit.method = test_string(scene->profile, "pings");
	fit.at_ns = START_NS;
	fit.offset_ns = offset_ns;
	fit.bound_ns = bound_ns;
	assert_int_equal(profile_add_host(scene->profile, &fit, &id, NULL), 0);
}

/* Without flows: fits against a third clock, those of both hosts together. */
static void test_fits(void **state)
{
	struct scene *scene = new_scene();
	add_host(scene, "alpha", 0, 0);
	add_host(scene, "beta", 3 * NS_PER_S, 0);
	add_host(scene, "gamma", 7, 0);
	for (uint32_t i = 0; i < 3; i++)
		add_marker(scene, i, START_NS + NS_PER_S, 0, false);
	set_fit(scene, 0, "server", -NS_PER_S + 900, 1000);
	set_fit(scene, 1, "server", 2 * NS_PER_S - 1500, 2000);
	align(scene, NULL);
	assert_int_equal(assert_bounds_hold(scene), 2);
	assert_in_range(host_of(scene, 1)->bound_ns, 3000, 3003);
	assert_string_equal(profile_string(scene->profile, host_of(scene, 1)->method), "pings");
	assert_true(host_of(scene, 2)->bound_ns < 0);
	assert_int_equal(host_of(scene, 2)->offset_ns, 0);
	assert_string_equal(profile_string(scene->profile, host_of(scene, 2)->method), "wall clock");
	free_scene(scene);
}

/* Both: facts narrow a fit; and win, where they contradict it. */
static void test_fits_and_flows(void **state)
{
	for (int is_false = 0; is_false < 2; is_false++) {
		struct scene *scene = two_hosts();
		set_fit(scene, 1, "alpha", is_false ? 0 : 5 * NS_PER_S, is_false ? 1000 : 20000);
		if (!is_false) {
			scene->profile->markers->hosts[scene->host_ids[1]].skew = 5e-5;
			scene->profile->markers->hosts[scene->host_ids[1]].at_ns += 5 * NS_PER_S;
		}
		struct profile_align_result result = align(scene, NULL);
		const struct profile_host *beta = host_of(scene, 1);
		assert_int_equal(result.reversed, 0);
		assert_int_equal(assert_bounds_hold(scene), 2);
		assert_string_equal(profile_string(scene->profile, beta->method), is_false ? "flows" : "flows and pings");
		assert_true(is_false ? beta->bound_ns > 80000 : beta->bound_ns <= 20010);
		free_scene(scene);
	}
}

/* Sends to one side only: the wall clock, moved as little as that asks for. */
static void test_one_way(void **state)
{
	struct scene *scene = new_scene();
	add_host(scene, "alpha", 0, 0);
	add_host(scene, "beta", -NS_PER_S, 0);
	for (int i = 0; i < 20; i++)
		exchange(scene, 0, 1, START_NS + i * NS_PER_S, 1000 + i);
	assert_int_equal(align(scene, NULL).reversed, 0);
	assert_true(host_of(scene, 1)->bound_ns < 0);
	assert_in_range(-host_of(scene, 1)->offset_ns, NS_PER_S - 2000, NS_PER_S);
	assert_string_equal(profile_string(scene->profile, host_of(scene, 1)->method), "wall clock, limited by flows");
	free_scene(scene);
}

/* A clock that is set halfway is no line: it is said, and the bound is as large as that. */
static void test_contradictions(void **state)
{
	struct scene *scene = new_scene();
	add_host(scene, "alpha", 0, 0);
	add_host(scene, "beta", 0, 0);
	add_host(scene, "gamma", 0, 0);
	for (int i = 0; i < 300; i++) {
		scene->truth[1].offset_ns = i < 150 ? 0 : 10 * NS_PER_MS;
		exchange(scene, (uint32_t)i % 3, (uint32_t)(i + 1) % 3, START_NS + i * NS_PER_MS, 1000);
		exchange(scene, (uint32_t)(i + 1) % 3, (uint32_t)i % 3, START_NS + i * NS_PER_MS, 1000);
	}
	struct profile_align_result result = align(scene, NULL);
	assert_true(result.reversed > 0 && result.reversed < 600);
	const char *method = profile_string(scene->profile, host_of(scene, 1)->method);
	if (!strstr(method, "contradict"))
		method = profile_string(scene->profile, host_of(scene, 2)->method);
	assert_non_null(strstr(method, "flows that contradict each other by"));
	assert_true(host_of(scene, 1)->bound_ns > NS_PER_MS);
	free_scene(scene);
}

/* ---- flows ---- */

/* A broadcast is many exchanges; an id that is used again is none; what stays within a process is not drawn. */
static void test_which_flows(void **state)
{
	struct scene *scene = two_hosts();
	add_host(scene, "gamma", NS_PER_S, 0);
	uint64_t flow = ++scene->flows;
	add_marker(scene, 0, START_NS, flow, false);
	add_marker(scene, 1, START_NS + 300000, flow, true);
	add_marker(scene, 2, START_NS + 400000, flow, true);
	flow = ++scene->flows;
	for (int i = 0; i < 2; i++) {
		add_marker(scene, 0, START_NS + i * NS_PER_S, flow, false);
		add_marker(scene, 1, START_NS + i * NS_PER_S + 500000, flow, true);
	}
	flow = ++scene->flows;
	add_marker(scene, 0, START_NS, flow, false);
	add_marker(scene, 0, START_NS + 5, flow, true);
	struct profile_align_result result = align(scene, NULL);
	assert_int_equal(result.exchanges, 502);
	assert_int_equal(result.ambiguous, 1);
	assert_int_equal(result.reversed, 0);
	assert_int_equal(host_of(scene, 2)->exchanges, 1);
	free_scene(scene);
}

/* Samples, counters and both ends of spans move with their host; what has none stays. */
static void test_moves_all(void **state)
{
	struct scene *scene = two_hosts();
	struct profile *profile = scene->profile;
	uint32_t sets[2] = {0}, stack, id;
	struct profile_label label = {.key = test_string(profile, "host.name"), .value = test_string(profile, "beta")};
	struct profile_counter counter = {.name = test_string(profile, "RSS"), .host = scene->host_ids[1], .pid = 10};
	assert_int_equal(profile_add_sample_type(profile, test_string(profile, "cpu"), test_string(profile, "count"), NULL), 0);
	assert_int_equal(profile_add_label_set(profile, &label, 1, &sets[1], NULL), 0);
	assert_int_equal(profile_add_location(profile, &(struct profile_location){.address = 5}, NULL, 0, &id, NULL), 0);
	assert_int_equal(profile_add_stack(profile, 0, id, &stack, NULL), 0);
	for (int i = 0; i < 4; i++) {
		struct profile_sample sample = {.stack = stack, .labels = sets[i % 2], .time_ns = START_NS + 6 * NS_PER_S + i};
		assert_int_equal(profile_add_sample(profile, &sample, &(int64_t){1}, NULL), 0);
	}
	assert_int_equal(profile_add_counter(profile, &counter, &id, NULL), 0);
	assert_int_equal(profile_add_counter_row(profile, id, START_NS + 6 * NS_PER_S, 1, NULL), 0);
	struct profile_marker span = {.thread = scene->threads[1],
				      .phase = PROFILE_MARKER_INTERVAL,
				      .start_ns = START_NS + 6 * NS_PER_S,
				      .end_ns = START_NS + 7 * NS_PER_S};
	assert_int_equal(profile_add_marker(profile, &span, NULL, NULL), 0);
	size_t place = profile_marker_count(profile) - 1;
	align(scene, NULL);
	assert_int_equal(profile->samples[0].time_ns, START_NS + 6 * NS_PER_S);
	int64_t moved = profile->samples[1].time_ns - 1;
	assert_in_range(llabs(moved - START_NS - NS_PER_S), 0, 300000);
	assert_in_range(llabs(profile->markers->rows[0].time_ns - moved), 0, 1);
	assert_in_range(llabs(profile->markers->markers[place].start_ns - moved), 0, 1);
	assert_in_range(llabs(profile->markers->markers[place].end_ns - moved - NS_PER_S), 0, 100000);
	assert_int_equal(profile->sample_count, 4);
	free_scene(scene);
}

/* Hosts that nothing is known of but what samples say; a profile without any. */
static void test_few(void **state)
{
	_cleanup_(profile_freep) struct profile *profile = NULL;
	struct profile_align_result result = {.exchanges = 7};
	assert_int_equal(profile_new(&profile, NULL), 0);
	assert_int_equal(profile_align(profile, NULL, &result, NULL), 0);
	assert_int_equal(result.exchanges, 0);
	struct profile_label label = {.key = test_string(profile, "host.name"), .value = test_string(profile, "beta")};
	struct profile_sample sample = {.time_ns = 5};
	assert_int_equal(profile_add_sample_type(profile, test_string(profile, "cpu"), test_string(profile, "count"), NULL), 0);
	assert_int_equal(profile_add_label_set(profile, &label, 1, &sample.labels, NULL), 0);
	assert_int_equal(profile_add_sample(profile, &sample, &(int64_t){1}, NULL), 0);
	assert_int_equal(profile_align(profile, NULL, &result, NULL), 0);
	assert_int_equal(profile_host_count(profile), 1);
	assert_int_equal(profile->samples[0].time_ns, 5);
}

/* Times and fits at the ends of what 64 bits hold. */
static void test_extremes(void **state)
{
	static const int64_t times[] = {INT64_MIN, -1, 1, INT64_MAX - 1, INT64_MAX};
	struct scene *scene = new_scene();
	add_host(scene, "alpha", 0, 0);
	add_host(scene, "beta", 0, 0);
	add_host(scene, "gamma", 0, 0);
	for (size_t i = 0; i < 25; i++)
		for (uint32_t k = 0; k < 3; k++) {
			uint64_t flow = ++scene->flows;
			struct profile_marker marker = {.thread = scene->threads[k], .start_ns = times[i / 5], .flow = flow};
			assert_int_equal(profile_add_marker(scene->profile, &marker, NULL, NULL), 0);
			marker.thread = scene->threads[(k + 1) % 3];
			marker.start_ns = times[i % 5];
			marker.flow_ends = true;
			assert_int_equal(profile_add_marker(scene->profile, &marker, NULL, NULL), 0);
		}
	set_fit(scene, 1, "alpha", INT64_MIN, INT64_MAX);
	set_fit(scene, 2, "alpha", INT64_MAX, INT64_MAX);
	scene->profile->markers->hosts[scene->host_ids[1]].at_ns = INT64_MAX;
	scene->profile->markers->hosts[scene->host_ids[1]].skew = -0.999;
	align(scene, NULL);
	align(scene, NULL);
	free_scene(scene);
}

/* The n-th allocation fails, until none does. */
static void test_faults(void **state)
{
	for (unsigned n = 1;; n++) {
		struct scene *scene = random_scene(3);
		assert_true(scene->markers > 0 && scene->hosts > 2);
		fault_arm(FAULT_ALLOC, n, 0);
		int r = profile_align(scene->profile, NULL, NULL, NULL);
		bool done = !fault_disarm(FAULT_ALLOC);
		free_scene(scene);
		assert_int_equal(r, done ? 0 : -ENOMEM);
		if (done)
			break;
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_two_hosts),      cmocka_unit_test(test_again),
		cmocka_unit_test(test_reference),      cmocka_unit_test(test_reference_later),
		cmocka_unit_test(test_monotonic),      cmocka_unit_test(test_keeps_times),
		cmocka_unit_test(test_properties),     cmocka_unit_test(test_fits),
		cmocka_unit_test(test_fits_and_flows), cmocka_unit_test(test_one_way),
		cmocka_unit_test(test_contradictions), cmocka_unit_test(test_which_flows),
		cmocka_unit_test(test_moves_all),      cmocka_unit_test(test_few),
		cmocka_unit_test(test_extremes),       cmocka_unit_test(test_faults),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
