/* SPDX-License-Identifier: Apache-2.0 */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <setjmp.h>

#include <cmocka.h>

#include <errno.h>

#include "base/fault.h"
#include "profile/markers.h"
#include "profile/spans.h"
#include "profile/test_profile.h"

/* Processes 1 and 2 with threads 1 to 3; tid 3 of each belongs to a second thread from 500 on. */
#define THREADS	 8
#define SAMPLES	 120
#define MARKERS	 40
#define TIME_MAX 1000

struct sample_case {
	int64_t pid, tid, time; /* tid 0 = the sample does not tell */
};
struct world {
	struct profile *profile;
	struct sample_case samples[SAMPLES];
};

static uint32_t label_set(struct profile *profile, int64_t pid, int64_t tid)
{
	struct profile_label labels[3];
	uint32_t set;
	size_t count = 0;
	char text[16];
	snprintf(text, sizeof(text), "%" PRId64, pid);
	labels[count++] =
		(struct profile_label){.key = test_string(profile, "process.pid"), .value = test_string(profile, text)};
	labels[count++] = (struct profile_label){.key = test_string(profile, "span"), .value = test_string(profile, "old")};
	if (tid)
		labels[count++] = (struct profile_label){.key = test_string(profile, "thread.id"), .number = tid};
	assert_int_equal(profile_add_label_set(profile, labels, count, &set, NULL), 0);
	return set;
}

static struct profile *new_profile(void)
{
	struct profile *profile;
	assert_int_equal(profile_new(&profile, NULL), 0);
	uint32_t type = test_string(profile, "samples");
	assert_int_equal(profile_add_sample_type(profile, type, type, NULL), 0);
	return profile;
}

static void add_sample(struct world *world, size_t i, struct sample_case c)
{
	struct profile_sample sample = {.labels = label_set(world->profile, c.pid, c.tid), .time_ns = c.time};
	int64_t value = (int64_t)i + 1;
	world->samples[i] = c;
	assert_int_equal(profile_add_sample(world->profile, &sample, &value, NULL), 0);
}

static void add_marker(struct profile *profile, uint32_t thread, const char *name, enum profile_marker_phase phase,
		       int64_t start, int64_t end)
{
	struct profile_marker marker = {
		.thread = thread, .name = test_string(profile, name), .phase = phase, .start_ns = start, .end_ns = end};
	assert_int_equal(profile_add_marker(profile, &marker, NULL, NULL), 0);
}

static uint32_t add_thread(struct profile *profile, int64_t pid, int64_t tid, int64_t start)
{
	uint32_t id;
	assert_int_equal(
		profile_add_thread(profile, &(struct profile_thread){.pid = pid, .tid = tid, .start_ns = start}, &id, NULL), 0);
	return id;
}

static struct world make_world(uint64_t seed)
{
	static const char *const names[] = {"parse", "merge", "send", "wait"};
	struct test_random random = {seed};
	struct world world = {.profile = new_profile()};
	struct profile *profile = world.profile;
	uint32_t threads[THREADS], category;
	for (uint32_t i = 0; i < THREADS; i++)
		threads[i] = add_thread(profile, 1 + i / 4, i % 4 < 3 ? 1 + i % 4 : 3, i % 4 < 3 ? 0 : 500);
	assert_int_equal(profile_add_marker_category(profile, test_string(profile, "Engine"), 0, &category, NULL), 0);
	for (size_t i = 0; i < SAMPLES; i++)
		add_sample(&world, i,
			   (struct sample_case){1 + (int64_t)test_random_below(&random, 3),
						(int64_t)test_random_below(&random, 5),
						(int64_t)test_random_below(&random, TIME_MAX)});
	for (size_t i = 0; i < MARKERS; i++) {
		int64_t start = 1 + (int64_t)test_random_below(&random, TIME_MAX),
			end = start + (int64_t)test_random_below(&random, 300);
		struct profile_marker marker = {.thread = threads[test_random_below(&random, THREADS)],
						.name = test_string(profile, names[test_random_below(&random, 4)]),
						.category = test_random_below(&random, 4) ? 0 : category,
						.phase = (enum profile_marker_phase)test_random_below(&random, 4),
						.of_process = test_random_below(&random, 4) == 0,
						.start_ns = start,
						.end_ns = end};
		if (test_random_below(&random, 3))
			marker.phase = PROFILE_MARKER_INTERVAL;
		assert_int_equal(profile_add_marker(profile, &marker, NULL, NULL), 0);
	}
	return world;
}

/* ---- the oracle: every sample against every marker, and every pair of markers ---- */

static const struct profile_marker *marker_at(const struct profile *profile, size_t i)
{
	return &profile->markers->markers[i];
}

static int64_t pid_of(const struct profile *profile, size_t marker)
{
	return profile->markers->threads[marker_at(profile, marker)->thread].pid;
}

/* Times of edges, and which comes first where they are equal. */
static int64_t edge_order(const struct profile *profile, size_t i)
{
	const struct profile_marker *m = marker_at(profile, i);
	bool is_end = m->phase == PROFILE_MARKER_END;
	return (is_end ? m->end_ns : m->start_ns) * 2 * MARKERS + (is_end ? MARKERS : 0) + (int64_t)i;
}

/* The partner of a start or an end, by counting like brackets; SIZE_MAX = none. */
static size_t partner(const struct profile *profile, size_t i)
{
	const struct profile_marker *m = marker_at(profile, i);
	bool forward = m->phase == PROFILE_MARKER_START;
	int depth = 0;
	int64_t at = edge_order(profile, i);
	for (;;) {
		size_t next = SIZE_MAX;
		for (size_t k = 0; k < MARKERS; k++) {
			const struct profile_marker *other = marker_at(profile, k);
			if ((other->phase != PROFILE_MARKER_START && other->phase != PROFILE_MARKER_END) ||
			    other->name != m->name || pid_of(profile, k) != pid_of(profile, i))
				continue;
			int64_t order = edge_order(profile, k);
			if (forward ? order <= at : order >= at)
				continue;
			if (next == SIZE_MAX ||
			    (forward ? order < edge_order(profile, next) : order > edge_order(profile, next)))
				next = k;
		}
		if (next == SIZE_MAX)
			return SIZE_MAX;
		at = edge_order(profile, next);
		if (marker_at(profile, next)->phase == m->phase)
			depth++;
		else if (depth-- == 0)
			return next;
	}
}

struct extent {
	int64_t start, end;
	size_t marker;
	bool of_process, is_span;
};

static struct extent extent_of(const struct profile *profile, size_t i)
{
	const struct profile_marker *m = marker_at(profile, i);
	struct extent extent = {m->start_ns, m->end_ns, i, m->of_process, m->phase == PROFILE_MARKER_INTERVAL};
	if (m->phase != PROFILE_MARKER_START && m->phase != PROFILE_MARKER_END)
		return extent;
	size_t other = partner(profile, i);
	extent.of_process = true;
	extent.is_span = m->phase == PROFILE_MARKER_START || other == SIZE_MAX;
	if (m->phase == PROFILE_MARKER_START)
		extent.end = other == SIZE_MAX ? INT64_MAX : marker_at(profile, other)->end_ns;
	else
		extent.start = INT64_MIN;
	return extent;
}

static bool contains(const struct world *world, const struct extent *extent, const struct sample_case *sample)
{
	const struct profile_thread *thread =
		&world->profile->markers->threads[marker_at(world->profile, extent->marker)->thread];
	if (!extent->is_span || sample->time == 0 || sample->time < extent->start || sample->time >= extent->end ||
	    thread->pid != sample->pid)
		return false;
	bool is_second = thread->tid == 3 && thread->start_ns == 500;
	return extent->of_process || (thread->tid == sample->tid && (sample->tid != 3 || is_second == (sample->time >= 500)));
}

static bool is_inner(const struct extent *a, const struct extent *b)
{
	return a->start != b->start ? a->start > b->start : a->end != b->end ? a->end < b->end : a->marker > b->marker;
}

/* All spans of a sample, outermost first. */
static size_t spans_of(const struct world *world, const struct sample_case *sample, struct extent *ret)
{
	size_t count = 0;
	for (size_t i = 0; i < MARKERS; i++) {
		struct extent extent = extent_of(world->profile, i);
		if (!contains(world, &extent, sample))
			continue;
		size_t at = count++;
		for (; at > 0 && is_inner(&ret[at - 1], &extent); at--)
			ret[at] = ret[at - 1];
		ret[at] = extent;
	}
	return count;
}

/* ---- tests ---- */

static void test_labels(void **state)
{
	(void)state;
	size_t inside = 0;
	for (uint64_t seed = 0; seed < 200; seed++) {
		struct world world = make_world(seed);
		struct extent spans[MARKERS];
		assert_int_equal(profile_label_spans(world.profile, NULL), 0);
		for (size_t i = 0; i < SAMPLES; i++) {
			char path[MARKERS * 10] = "";
			size_t used = 0;
			size_t count = spans_of(&world, &world.samples[i], spans);
			const char *label = profile_label_value(world.profile, world.profile->samples[i].labels, "span"),
				   *full = profile_label_value(world.profile, world.profile->samples[i].labels, "span.path");
			size_t first = count > PROFILE_SPAN_PATH_MAX ? count - PROFILE_SPAN_PATH_MAX : 0;
			for (size_t k = first; k < count; k++) {
				const char *name =
					profile_string(world.profile, marker_at(world.profile, spans[k].marker)->name);
				used += (size_t)snprintf(path + used, sizeof(path) - used, "%s%s", k > first ? " > " : "",
							 name);
				if (k + 1 == count)
					assert_string_equal(label, name);
			}
			inside += count > 0;
			if (count > 0)
				assert_string_equal(full, path);
			else if (world.samples[i].time)
				assert_true(!label && !full);
			else
				assert_string_equal(label, "old");
		}
		profile_free(world.profile);
	}
	assert_true(inside > 1000);
}

static void test_during(void **state)
{
	static const char *const choices[][2] = {{"merge", NULL}, {"merge", "wait"}, {"Engine", NULL}, {"nothing", NULL}};
	(void)state;
	for (uint64_t seed = 0; seed < 200; seed++) {
		struct world world = make_world(seed);
		const char *const *names = choices[seed % 4];
		struct profile_during_found found;
		int64_t expected[SAMPLES];
		size_t count = 0, without = 0, of_name = 0;
		bool wanted[MARKERS];
		for (size_t i = 0; i < MARKERS; i++) {
			const struct profile_marker *m = marker_at(world.profile, i);
			const char *name = profile_string(world.profile, m->name),
				   *category =
					   profile_string(world.profile, world.profile->markers->categories[m->category].name);
			wanted[i] = strcmp(name, names[0]) == 0 || strcmp(category, names[0]) == 0 ||
				    (names[1] && strcmp(name, names[1]) == 0);
			of_name += wanted[i] && extent_of(world.profile, i).is_span;
		}
		for (size_t i = 0; i < SAMPLES; i++) {
			struct extent spans[MARKERS];
			size_t all = spans_of(&world, &world.samples[i], spans);
			bool keep = false;
			for (size_t k = 0; k < all; k++)
				keep |= wanted[spans[k].marker];
			if (keep)
				expected[count++] = (int64_t)i + 1;
			without += world.samples[i].time == 0;
		}
		assert_int_equal(profile_filter_during(world.profile, names, names[1] ? 2 : 1, &found, NULL), 0);
		assert_int_equal(found.without_time, without);
		assert_int_equal(found.spans, of_name);
		assert_int_equal(world.profile->sample_count, count);
		if (count)
			assert_memory_equal(world.profile->values, expected, count * sizeof(*expected));
		profile_free(world.profile);
	}
}

/* Category: intervals by the name of it. */
static void test_category(void **state)
{
	(void)state;
	struct world world = {.profile = new_profile()};
	struct profile_during_found found;
	uint32_t category, thread = add_thread(world.profile, 1, 1, 0);
	for (size_t i = 0; i < 3; i++)
		add_sample(&world, i, (struct sample_case){1, 1, 10 * (int64_t)i + 5});
	assert_int_equal(profile_add_marker_category(world.profile, test_string(world.profile, "IO"), 0, &category, NULL), 0);
	struct profile_marker marker = {.thread = thread,
					.name = test_string(world.profile, "read"),
					.category = category,
					.phase = PROFILE_MARKER_INTERVAL,
					.start_ns = 15,
					.end_ns = 25};
	assert_int_equal(profile_add_marker(world.profile, &marker, NULL, NULL), 0);
	add_marker(world.profile, thread, "IO", PROFILE_MARKER_INSTANT, 5, 0);
	const char *name = "IO";
	assert_int_equal(profile_filter_during(world.profile, &name, 1, &found, NULL), 0);
	assert_int_equal(found.spans, 1);
	assert_int_equal(world.profile->sample_count, 1);
	assert_int_equal(world.profile->values[0], 2); /* at the start: in; at the end: out */
	profile_free(world.profile);
}

/* Two hosts with the same pid and tid. */
static void test_hosts(void **state)
{
	(void)state;
	struct world world = {.profile = new_profile()};
	struct profile *profile = world.profile;
	struct profile_during_found found;
	uint32_t host, thread;
	for (int i = 0; i < 2; i++) {
		struct profile_label labels[] = {
			{.key = test_string(profile, "process.pid"), .number = 1},
			{.key = test_string(profile, "thread.id"), .number = 1},
			{.key = test_string(profile, "host.name"), .value = test_string(profile, i ? "b" : "a")}};
		struct profile_sample sample = {.time_ns = 5};
		int64_t value = i;
		assert_int_equal(profile_add_host(profile, &(struct profile_host){.name = labels[2].value}, &host, NULL), 0);
		assert_int_equal(
			profile_add_thread(profile, &(struct profile_thread){.host = host, .pid = 1, .tid = 1}, &thread, NULL),
			0);
		assert_int_equal(profile_add_label_set(profile, labels, 3, &sample.labels, NULL), 0);
		assert_int_equal(profile_add_sample(profile, &sample, &value, NULL), 0);
	}
	add_marker(profile, thread, "only b", PROFILE_MARKER_INTERVAL, 1, 9);
	const char *name = "only b";
	assert_int_equal(profile_filter_during(profile, &name, 1, &found, NULL), 0);
	assert_int_equal(profile->sample_count, 1);
	assert_int_equal(profile->values[0], 1);
	profile_free(profile);
}

static void test_without_markers(void **state)
{
	(void)state;
	struct world world = {.profile = new_profile()};
	struct profile_during_found found;
	const char *name = "x";
	add_sample(&world, 0, (struct sample_case){1, 1, 5});
	assert_int_equal(profile_label_spans(world.profile, NULL), 0);
	assert_int_equal(profile_filter_during(world.profile, &name, 1, &found, NULL), 0);
	assert_int_equal(world.profile->sample_count, 0);
	assert_int_equal(found.spans, 0);
	profile_free(world.profile);
}

static void test_no_memory(void **state)
{
	(void)state;
	bool reached = true;
	for (unsigned n = 1; reached; n++) {
		struct world world = make_world(7);
		struct profile_during_found found;
		struct error err = {0};
		const char *name = "merge";
		fault_arm(FAULT_ALLOC, n, 0);
		int r = profile_label_spans(world.profile, &err);
		if (r == 0)
			r = profile_filter_during(world.profile, &name, 1, &found, &err);
		reached = fault_disarm(FAULT_ALLOC);
		assert_int_equal(r, reached ? -ENOMEM : 0);
		profile_free(world.profile);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_labels),		cmocka_unit_test(test_during), cmocka_unit_test(test_category),
		cmocka_unit_test(test_without_markers), cmocka_unit_test(test_hosts),  cmocka_unit_test(test_no_memory),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
