/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Averages of gauges against averages that are made the plainest way: from a list of all profiles. Series are scraped at
 * unequal intervals, miss scrapes and end early; some profiles are all zero, some come late, some times of a series come in two
 * profiles; the same queries are asked of the head, of blocks, of merged blocks with rollups, and of blocks of which only
 * rollups are left.
 */
#include "store/compact/test_compact.h"

#include <fcntl.h>
#include <math.h>

#include "store/read/read_int.h"

#define SERIES	 7
#define STACKS	 5
#define SERVICES 3
#define PROFILES 4096
#define STEPS	 512
#define RANGE_H	 9

struct scrape {
	int series;
	int64_t time_ns, arrival_ns;
	bool again;		   /* another of the same series and time was made before: both are one profile */
	int64_t values[2][STACKS]; /* of inuse_objects, inuse_space */
};
struct scrapes {
	struct scrape items[PROFILES];
	size_t count;
};

static void stack_of(struct profile *profile, int which, uint32_t *ret)
{
	uint32_t location, stack = 0;
	const char *const names[] = {"main", which % 2 ? "odd" : "even", NULL};
	for (size_t i = 0; i < 3; i++) {
		struct profile_line line = {0};
		struct profile_function function = {.name = names[i] ? test_string(profile, "%s", names[i])
								     : test_string(profile, "leaf%d", which)};
		assert_int_equal(profile_add_function(profile, &function, &line.function, NULL), 0);
		assert_int_equal(profile_add_location(profile, &(struct profile_location){0}, &line, 1, &location, NULL), 0);
		assert_int_equal(profile_add_stack(profile, stack, location, &stack, NULL), 0);
	}
	*ret = stack;
}

static struct profile *profile_of(const struct scrape *scrape)
{
	struct profile *profile;
	assert_int_equal(profile_new(&profile, NULL), 0);
	profile_add_sample_type(profile, test_string(profile, "inuse_objects"), test_string(profile, "count"), NULL);
	profile_add_sample_type(profile, test_string(profile, "inuse_space"), test_string(profile, "bytes"), NULL);
	profile->period_type.type = test_string(profile, "space");
	profile->period_type.unit = test_string(profile, "bytes");
	profile->time_ns = scrape->time_ns;
	for (int i = 0; i < STACKS; i++) {
		struct profile_sample sample = {0};
		int64_t values[] = {scrape->values[0][i], scrape->values[1][i]};
		stack_of(profile, i, &sample.stack);
		assert_int_equal(profile_add_sample(profile, &sample, values, NULL), 0);
	}
	return profile;
}

static void append(struct store *store, const struct scrape *scrape)
{
	struct error err = {0};
	char text[32];
	struct profile *profile = profile_of(scrape);
	_cleanup_(labels_release) struct labels labels = {0};
	snprintf(text, sizeof(text), "service%d", scrape->series % SERVICES);
	assert_int_equal(labels_set(&labels, "service_name", text, NULL), 0);
	snprintf(text, sizeof(text), "pod%d", scrape->series);
	assert_int_equal(labels_set(&labels, "pod", text, NULL), 0);
	struct store_append_options options = {.labels = &labels, .received_ns = scrape->time_ns};
	if (store_append(store, profile, &options, NULL, &err) < 0)
		fail_msg("%s", err.message);
	profile_free(profile);
}

static int compare_scrapes(const void *a, const void *b)
{
	const struct scrape *x = a, *y = b;
	return (x->arrival_ns > y->arrival_ns) - (x->arrival_ns < y->arrival_ns);
}

/* Every fourth is late. */
static void add_scrape(struct scrapes *scrapes, int series, int64_t time_ns, bool again)
{
	assert_true(scrapes->count < PROFILES);
	struct scrape *scrape = &scrapes->items[scrapes->count++];
	*scrape = (struct scrape){.series = series, .time_ns = time_ns, .arrival_ns = time_ns, .again = again};
	if (again || rnd_below(4) == 0)
		scrape->arrival_ns += (int64_t)rnd_below(3000) * NS_PER_S;
	bool zero = rnd_below(5) == 0;
	for (int i = 0; i < STACKS && !zero; i++) {
		scrape->values[0][i] = rnd_below(4) ? 1 + (int64_t)rnd_below(7) : 0;
		scrape->values[1][i] = scrape->values[0][i] * (int64_t)rnd_below(100000);
	}
}

static void make_scrapes(struct scrapes *scrapes)
{
	static const int intervals_s[SERIES] = {60, 90, 47, 300, 601, 1800, 133};
	scrapes->count = 0;
	for (int series = 0; series < SERIES; series++) {
		int64_t time = TEST_DAY_0 + (int64_t)rnd_below(600) * NS_PER_S + 7;
		int64_t end = TEST_DAY_0 + (series == 2 ? 2 : RANGE_H) * TEST_HOUR;
		for (; time < end; time += intervals_s[series] * NS_PER_S + (int64_t)rnd_below(1000) * 1000000) {
			if (rnd_below(10) == 0)
				continue;
			add_scrape(scrapes, series, time, false);
			if (rnd_below(8) == 0)
				add_scrape(scrapes, series, time, true);
		}
	}
	qsort(scrapes->items, scrapes->count, sizeof(*scrapes->items), compare_scrapes);
}

/* ---- questions ---- */

struct asked {
	int type;	 /* 0 = objects, 1 = space */
	int only_pod;	 /* -1 = all */
	bool by_service; /* or all in one group */
	bool by_pod;
	bool odd; /* only stacks through "odd" */
	int64_t from_ns, to_ns, step_ns;
};

static int group_of(void *context, const struct profile_type *type, const struct labels *labels, uint32_t *ret,
		    struct error *err)
{
	const char *service = labels_get(labels, "service_name"), *pod = labels_get(labels, "pod");
	*ret = pod ? (uint32_t)(pod[3] - '0') : service ? (uint32_t)(service[7] - '0') : 0;
	return 0;
}

struct select_of {
	struct store_select select;
	char pod[8];
	struct label_condition matcher;
	struct type_condition type;
	struct store_stack_condition condition;
	struct store_grouping grouping;
};
static struct store_read_stats parts; /* of all queries */
static const char *const by_service[] = {"service_name"}, *const by_pod[] = {"pod"}, *const by_none[] = {NULL};

static void make_select(struct asked *asked, struct select_of *ret)
{
	static const struct frame_test odd = {.field = FRAME_FIELD_FUNCTION, .text = "odd"};
	snprintf(ret->pod, sizeof(ret->pod), "pod%d", asked->only_pod);
	ret->matcher = (struct label_condition){.label = "pod", .text = ret->pod};
	ret->type = (struct type_condition){.parts = {NULL, asked->type ? "inuse_space" : "inuse_objects"}};
	ret->condition = (struct store_stack_condition){.where = STORE_ANYWHERE, .tests = &odd, .test_count = 1};
	ret->grouping = (struct store_grouping){.by = asked->by_pod	  ? by_pod
						      : asked->by_service ? by_service
									  : by_none,
						.by_count = asked->by_pod || asked->by_service,
						.group = group_of};
	ret->select = (struct store_select){
		.from_ns = asked->from_ns,
		.to_ns = asked->to_ns,
		.series = {.types = &ret->type, .type_count = 1, .labels = &ret->matcher, .label_count = asked->only_pod >= 0},
		.conditions = &ret->condition,
		.condition_count = asked->odd,
		.average_gauges = true};
}

static int wanted_group(const struct asked *asked, int series)
{
	return asked->by_pod ? series : asked->by_service ? series % SERVICES : 0;
}

/* Of one stack (-1 = all that are asked for) in [from, to). *ret_any: something says so, be it a profile that is zero. */
static double wanted(const struct scrapes *scrapes, const struct asked *asked, int group, int stack, int64_t from, int64_t to,
		     bool *ret_any)
{
	double result = 0;
	*ret_any = false;
	for (int series = 0; series < SERIES; series++) {
		double sum = 0, count = 0;
		if (wanted_group(asked, series) != group || (asked->only_pod >= 0 && asked->only_pod != series))
			continue;
		for (size_t i = 0; i < scrapes->count; i++) {
			const struct scrape *scrape = &scrapes->items[i];
			if (scrape->series != series || scrape->time_ns < from || scrape->time_ns >= to)
				continue;
			count += !scrape->again;
			*ret_any |= !asked->odd;
			for (int k = 0; k < STACKS; k++) {
				if ((stack >= 0 && k != stack) || (asked->odd && k % 2 == 0))
					continue;
				sum += (double)scrape->values[asked->type][k];
				*ret_any |= scrape->values[asked->type][k] != 0;
			}
		}
		result += count > 0 ? sum / count : 0;
	}
	return result;
}

static int64_t rounded(double value)
{
	return llround(nearbyint(value * 1048576) / 1048576);
}

/* With a label set for each group. */
static struct profile *new_result(void)
{
	struct profile *into;
	assert_int_equal(profile_new(&into, NULL), 0);
	for (uint32_t i = 1, id; i < SERIES; i++) {
		struct profile_label label = {.key = test_string(into, "group"), .value = test_string(into, "%u", i)};
		assert_int_equal(profile_add_label_set(into, &label, 1, &id, NULL), 0);
		assert_int_equal(id, i);
	}
	return into;
}

static void check_averages(struct store *store, const struct scrapes *scrapes, struct asked *asked)
{
	struct select_of of;
	struct profile *into = new_result();
	struct error err = {0};
	struct store_read_stats stats;
	double exact[SERIES][STACKS] = {{0}};
	int64_t totals[SERIES] = {0};
	make_select(asked, &of);
	if (store_merge(store, &of.select, &of.grouping, into, &stats, &err) < 0)
		fail_msg("%s", err.message);
	assert_false(stats.partial);
	store_read_stats_add(&parts, &stats);
	for (size_t i = 0; i < into->sample_count; i++) {
		const struct profile_location *leaf = &into->locations[into->stacks[into->samples[i].stack].location];
		const char *name = profile_string(into, into->functions[into->lines[leaf->line_first].function].name);
		uint32_t group = into->samples[i].labels;
		assert_int_equal(strncmp(name, "leaf", 4), 0);
		exact[group][name[4] - '0'] -= (double)into->values[i];
		totals[group] += into->values[i];
	}
	for (int group = 0; group < SERIES; group++) {
		bool any;
		for (int stack = 0; stack < STACKS; stack++) {
			exact[group][stack] += wanted(scrapes, asked, group, stack, asked->from_ns, asked->to_ns, &any);
			assert_true(fabs(exact[group][stack]) < 1);
		}
		assert_int_equal(totals[group], rounded(wanted(scrapes, asked, group, -1, asked->from_ns, asked->to_ns, &any)));
	}
	profile_free(into);
}

struct points {
	int64_t values[SERIES][STEPS], totals[SERIES];
	bool there[SERIES][STEPS];
};

static int on_point(void *context, uint32_t group, uint64_t bucket, int64_t value, struct error *err)
{
	struct points *points = context;
	assert_true(group < SERIES);
	points->totals[group] += value;
	if (bucket == STORE_RANGE)
		return 0;
	assert_true(bucket < STEPS);
	points->values[group][bucket] += value;
	points->there[group][bucket] = true;
	return 0;
}

static void check_points(struct store *store, const struct scrapes *scrapes, struct asked *asked)
{
	static struct points points;
	struct select_of of;
	struct error err = {0};
	struct store_read_stats stats;
	make_select(asked, &of);
	points = (struct points){0};
	if (store_series(store, &of.select, &of.grouping, asked->step_ns, on_point, &points, &stats, &err) < 0)
		fail_msg("%s", err.message);
	assert_false(stats.partial);
	store_read_stats_add(&parts, &stats);
	for (int group = 0; group < SERIES; group++) {
		bool any;
		for (int64_t step = 0; step < STEPS; step++) {
			int64_t from = asked->from_ns + step * asked->step_ns;
			if (from >= asked->to_ns)
				break;
			int64_t want = rounded(wanted(scrapes, asked, group, -1, from, from + asked->step_ns, &any));
			assert_int_equal(points.there[group][step], any);
			assert_int_equal(points.values[group][step], want);
		}
		assert_int_equal(points.totals[group],
				 rounded(wanted(scrapes, asked, group, -1, asked->from_ns, asked->to_ns, &any)));
	}
}

/* `grain_ns`: ranges and steps are multiples of it. */
static void check_queries(struct store *store, const struct scrapes *scrapes, int64_t grain_ns, size_t count)
{
	static const int64_t steps[] = {1, 2, 12};
	for (size_t i = 0; i < count; i++) {
		struct asked asked = {.type = (int)rnd_below(2),
				      .only_pod = rnd_below(4) ? -1 : (int)rnd_below(SERIES),
				      .by_service = rnd_below(2),
				      .by_pod = rnd_below(3) == 0,
				      .odd = rnd_below(3) == 0};
		uint32_t grains = (uint32_t)(RANGE_H * TEST_HOUR / grain_ns);
		uint32_t from = rnd_below(grains), length = 1 + rnd_below(rnd_below(3) ? grains : 12);
		asked.from_ns = TEST_DAY_0 + from * grain_ns;
		asked.to_ns = asked.from_ns + length * grain_ns;
		check_averages(store, scrapes, &asked);
		asked.step_ns = grain_ns * steps[rnd_below(3)];
		while ((asked.to_ns - asked.from_ns) / asked.step_ns >= STEPS)
			asked.step_ns *= 2;
		asked.to_ns = asked.from_ns + ((asked.to_ns - asked.from_ns) / asked.step_ns + 1) * asked.step_ns;
		check_points(store, scrapes, &asked);
	}
}

static int on_block(void *context, const struct store_block *block, struct error *err)
{
	assert_false(block->has_samples);
	return 0;
}

static void test_everywhere(void **state)
{
	char *directory = test_directory();
	static struct scrapes scrapes;
	struct store_options options = {.retention_age_ns = -1, .late_window_ns = -1, .samples_age_ns = TEST_DAY};
	struct store *store = test_open_manual(directory, &options);
	make_scrapes(&scrapes);
	read_overlap_times_max = 100; /* several rounds */
	size_t cut = 0;
	for (size_t i = 0; i < scrapes.count; i++) {
		append(store, &scrapes.items[i]);
		/* Several blocks an hour; what is left stays in the head. */
		if (++cut == 60 && scrapes.count - i > 100) {
			test_cut(store);
			cut = 0;
		}
	}
	check_queries(store, &scrapes, 47 * NS_PER_S, 60);
	/* The first hours are merged, and have rollups; the rest is not. */
	test_compact(store, TEST_DAY_0 + 5 * TEST_HOUR);
	check_queries(store, &scrapes, 47 * NS_PER_S, 40);
	check_queries(store, &scrapes, 5 * TEST_MINUTE, 60);
	test_cut(store);
	test_compact(store, TEST_DAY_0 + 10 * TEST_DAY);
	test_check_blocks(store);
	check_queries(store, &scrapes, 47 * NS_PER_S, 20);
	check_queries(store, &scrapes, 5 * TEST_MINUTE, 60);
	check_queries(store, &scrapes, TEST_HOUR, 60);
	/* No label is left out of a gauge's rollups: those alone say the same. */
	struct error err = {0};
	if (store_apply_retention(store, TEST_DAY_0 + 10 * TEST_DAY, &err) < 0)
		fail_msg("%s", err.message);
	assert_int_equal(store_list_blocks(store, on_block, NULL, NULL), 0);
	parts = (struct store_read_stats){0};
	check_queries(store, &scrapes, 5 * TEST_MINUTE, 60);
	check_queries(store, &scrapes, TEST_HOUR, 60);
	assert_true(parts.from_rollups > 0 && parts.from_totals > 0 && parts.from_samples == 0);
	store_close(store);
	test_directory_remove(directory);
}

/* A heap of 2.2 MB is not 176 MB after twenty minutes. */
static void test_heap(void **state)
{
	char *directory = test_directory();
	struct store *store = test_open_manual(directory, NULL);
	static struct points points;
	for (int i = 0; i < 80; i++)
		append(store, &(struct scrape){.time_ns = TEST_EPOCH + i * 15 * NS_PER_S, .values = {{10}, {2200000}}});
	struct asked asked = {.type = 1, .only_pod = -1, .from_ns = TEST_EPOCH, .to_ns = TEST_EPOCH + 20 * TEST_MINUTE};
	struct select_of of;
	make_select(&asked, &of);
	points = (struct points){0};
	assert_int_equal(store_series(store, &of.select, &of.grouping, 0, on_point, &points, NULL, NULL), 0);
	assert_int_equal(points.totals[0], 2200000);
	/* One profile by itself is what was sent. */
	of.select.from_ns = TEST_EPOCH + 30 * NS_PER_S;
	of.select.to_ns = of.select.from_ns + 1;
	points = (struct points){0};
	assert_int_equal(store_series(store, &of.select, &of.grouping, 0, on_point, &points, NULL, NULL), 0);
	assert_int_equal(points.totals[0], 2200000);
	/* Whoever wants sums gets sums. */
	of.select.from_ns = TEST_EPOCH;
	of.select.to_ns = asked.to_ns;
	of.select.average_gauges = false;
	points = (struct points){0};
	assert_int_equal(store_series(store, &of.select, &of.grouping, 0, on_point, &points, NULL, NULL), 0);
	assert_int_equal(points.totals[0], 80 * 2200000);
	store_close(store);
	test_directory_remove(directory);
}

static int64_t average_of(struct store *store, int64_t from_ns, int64_t to_ns)
{
	static struct points points;
	struct asked asked = {.type = 1, .only_pod = -1, .from_ns = from_ns, .to_ns = to_ns};
	struct select_of of;
	struct profile *into;
	struct error err = {0};
	int64_t total = 0;
	make_select(&asked, &of);
	points = (struct points){0};
	if (store_series(store, &of.select, &of.grouping, 0, on_point, &points, NULL, &err) < 0)
		fail_msg("%s", err.message);
	assert_int_equal(profile_new(&into, NULL), 0);
	if (store_merge(store, &of.select, &of.grouping, into, NULL, &err) < 0)
		fail_msg("%s", err.message);
	for (size_t i = 0; i < into->sample_count; i++)
		total += into->values[i];
	profile_free(into);
	assert_int_equal(total, points.totals[0]);
	return total;
}

/* Nothing but the types that scrapes have, in the series of their first pod. */
static void append_empty(struct store *store, int64_t time_ns, struct store_append_result *ret)
{
	struct profile *profile = profile_of(&(struct scrape){.time_ns = time_ns});
	_cleanup_(labels_release) struct labels labels = {0};
	profile->sample_count = 0;
	assert_int_equal(labels_set(&labels, "service_name", "service0", NULL), 0);
	assert_int_equal(labels_set(&labels, "pod", "pod0", NULL), 0);
	struct store_append_options options = {.labels = &labels, .received_ns = TEST_DAY_0 + TEST_HOUR};
	assert_int_equal(store_append(store, profile, &options, ret, NULL), 0);
	profile_free(profile);
}

/* What the directory is after kill -9. */
static void check_copy(const char *directory, int64_t from_ns, int64_t to_ns, int64_t wanted)
{
	char *copy = test_directory(), command[256];
	struct store_options options = {.retention_age_ns = -1, .late_window_ns = -1};
	snprintf(command, sizeof(command), "cp -a %s/. %s", directory, copy);
	assert_int_equal(system(command), 0);
	struct store *store = test_open_manual(copy, &options);
	assert_int_equal(average_of(store, from_ns, to_ns), wanted);
	store_close(store);
	test_directory_remove(copy);
}

/* Profiles that are all zero, and those without a sample, are profiles. */
static void test_zeros(void **state)
{
	char *directory = test_directory();
	struct store_options options = {.retention_age_ns = -1, .late_window_ns = TEST_DAY, .samples_age_ns = TEST_DAY};
	struct store *store = test_open_manual(directory, &options);
	struct store_append_result result;
	struct store_delete_result deleted;
	struct error err = {0};
	int64_t start = TEST_DAY_0, end = start + TEST_HOUR;
	for (int i = 0; i < 8; i++)
		append(store, &(struct scrape){.time_ns = start + i * TEST_MINUTE, .values = {{0}, {i % 4 ? 0 : 800}}});
	assert_int_equal(average_of(store, start, end), 200);
	assert_int_equal(average_of(store, start + TEST_MINUTE, start + 4 * TEST_MINUTE), 0);
	append_empty(store, start + 8 * TEST_MINUTE, &result);
	assert_int_equal(result.samples, 2); /* one a type */
	append_empty(store, start + 9 * TEST_MINUTE, &result);
	assert_int_equal(average_of(store, start, end), 160);
	/* One that is too old is said to be. */
	append_empty(store, start - 2 * TEST_DAY, &result);
	assert_int_equal(result.samples, 0);
	assert_int_equal(result.late, 2);
	/* From the log, and from a block. */
	check_copy(directory, start, end, 160);
	store = store_close(store);
	store = test_open_manual(directory, &options);
	assert_int_equal(average_of(store, start, end), 160);
	/* The same time from two blocks, and from a block and memory, is one profile. */
	append(store, &(struct scrape){.time_ns = start + 9 * TEST_MINUTE, .values = {{1}, {800}}});
	assert_int_equal(average_of(store, start, end), 240);
	test_cut(store);
	assert_int_equal(average_of(store, start, end), 240);
	append(store, &(struct scrape){.time_ns = start + 9 * TEST_MINUTE, .values = {{1}, {800}}});
	assert_int_equal(average_of(store, start, end), 320);
	test_cut(store);
	test_compact(store, start + 2 * TEST_DAY);
	test_check_blocks(store);
	assert_int_equal(average_of(store, start, end), 320);
	assert_int_equal(average_of(store, start, start + 5 * TEST_MINUTE), 320); /* 2 of 5 have 800 */
	/* One that is deleted is none any more. */
	if (store_delete(store, &(struct series_conditions){0}, start + TEST_MINUTE, start + 3 * TEST_MINUTE, &deleted, &err) <
	    0)
		fail_msg("%s", err.message);
	assert_int_equal(deleted.samples, 4);
	assert_int_equal(average_of(store, start, end), 400);
	if (store_apply_retention(store, start + 10 * TEST_DAY, &err) < 0)
		fail_msg("%s", err.message);
	assert_int_equal(store_list_blocks(store, on_block, NULL, NULL), 0);
	assert_int_equal(average_of(store, start, end), 400);
	store_close(store);
	test_directory_remove(directory);
}

static int name_block(void *context, const struct store_block *block, struct error *err)
{
	snprintf(context, 128, "%s", block->name);
	return 0;
}

/* A damaged block among those that have the same times is left out of sums and of numbers. */
static void test_damaged(void **state)
{
	char *directory = test_directory(), name[128] = "", path[512];
	struct store *store = test_open_manual(directory, NULL);
	for (int i = 0; i < 3; i++) {
		append(store, &(struct scrape){.time_ns = TEST_EPOCH, .values = {{1}, {100}}});
		append(store, &(struct scrape){.time_ns = TEST_EPOCH + NS_PER_S, .values = {{1}, {i == 2 ? 5000 : 300}}});
		test_cut(store);
	}
	assert_int_equal(average_of(store, TEST_EPOCH, TEST_EPOCH + TEST_HOUR), (3 * 100 + 2 * 300 + 5000) / 2);
	assert_int_equal(store_list_blocks(store, name_block, name, NULL), 0); /* the last one */
	store = store_close(store);
	snprintf(path, sizeof(path), "%s/blocks/%s/samples.parquet", directory, name);
	int fd = open(path, O_RDWR);
	assert_true(fd >= 0);
	assert_int_equal(pwrite(fd, "\xff\xff\xff\xff", 4, 40), 4);
	close(fd);
	store = test_open_manual(directory, NULL);
	assert_int_equal(average_of(store, TEST_EPOCH, TEST_EPOCH + TEST_HOUR), (2 * 100 + 2 * 300) / 2);
	struct store_stats stats;
	store_get_stats(store, &stats);
	assert_int_equal(stats.blocks, 3);
	assert_int_equal(stats.damaged_pages, 1);
	store_close(store);
	test_directory_remove(directory);
}

/* What a limit cuts off is missing from numbers of profiles as well: an answer in part is an average of a part. */
static void test_limits(void **state)
{
	char *directory = test_directory();
	struct store *store = test_open_manual(directory, NULL);
	for (int i = 0; i < 40; i++) {
		append(store, &(struct scrape){.time_ns = TEST_EPOCH + i * 15 * NS_PER_S, .values = {{10}, {1000}}});
		if (i % 10 == 9)
			test_cut(store);
	}
	struct asked asked = {.type = 1, .only_pod = -1, .from_ns = TEST_EPOCH, .to_ns = TEST_EPOCH + TEST_HOUR};
	struct select_of of;
	make_select(&asked, &of);
	for (uint64_t rows = 1; rows < 120; rows++) {
		struct profile *into;
		struct store_read_stats stats;
		struct error err = {0};
		of.select.rows_max = rows;
		assert_int_equal(profile_new(&into, NULL), 0);
		int r = store_merge(store, &of.select, &of.grouping, into, &stats, &err);
		assert_true(r == 0 || r == -ETIME);
		if (r == 0 && into->sample_count) {
			assert_int_equal(into->sample_count, 1);
			assert_int_equal(into->values[0], 1000);
		}
		assert_true(r < 0 || stats.partial || into->sample_count);
		profile_free(into);
	}
	store_close(store);
	test_directory_remove(directory);
}

int main(void)
{
	test_seed_from_environment();
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_everywhere), cmocka_unit_test(test_heap),
					   cmocka_unit_test(test_zeros), cmocka_unit_test(test_damaged),
					   cmocka_unit_test(test_limits)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
