/* SPDX-License-Identifier: Apache-2.0 */
/* Lists against what a naive reading of everything that was appended gives, over blocks and heads. */
#include "store/test_store.h"

#include <errno.h>
#include <limits.h>

#include "base/fault.h"
#include "profile/test_labels.h"
#include "store/store_int.h"

/* ---- the naive side: a list of series and the times of their samples ---- */

struct row {
	struct profile_type type;
	struct labels labels;
	int64_t time_ns;
};
static struct row rows[20000];
static size_t row_count;

static void remember(const struct profile *profile, const struct store_append_options *options)
{
	for (size_t i = 0; i < profile->sample_count; i++) {
		for (size_t t = 0; t < profile->sample_type_count; t++) {
			struct row *row = &rows[row_count];
			if (profile->values[i * profile->sample_type_count + t] == 0)
				continue;
			profile_type_of(profile, t, options->name, &row->type);
			assert_int_equal(
				labels_of_sample(profile, profile->samples[i].labels, options->labels, &row->labels, NULL), 0);
			int64_t time = profile->samples[i].time_ns;
			row->time_ns = time ? time : profile->time_ns;
			row_count++;
			assert_true(row_count < sizeof(rows) / sizeof(*rows));
		}
	}
}

static void forget_all(void)
{
	for (size_t i = 0; i < row_count; i++)
		labels_release(&rows[i].labels);
	row_count = 0;
}

static void append(struct store *store, size_t samples)
{
	struct profile *profile = test_profile_random(samples);
	struct labels labels;
	struct error err = {0};
	test_labels_random(&labels);
	struct store_append_options options = {.labels = &labels, .received_ns = TEST_EPOCH};
	struct store_append_result result;
	if (store_append(store, profile, &options, &result, &err) < 0)
		fail_msg("%s", err.message);
	remember(profile, &options);
	labels_release(&labels);
	profile_free(profile);
}

/* ---- conditions ---- */

struct condition {
	const char *label, *value;
	bool negate;
};
struct question {
	struct store_select select;
	struct label_condition matcher;
	struct type_condition type;
	struct condition condition;
	const char *sample_type; /* NULL = all */
};
static void make_question(struct question *q, const char *sample_type, const char *label, const char *value, bool negate)
{
	*q = (struct question){.select = {.from_ns = INT64_MIN, .to_ns = INT64_MAX},
			       .condition = {label, value, negate},
			       .sample_type = sample_type};
	q->matcher = (struct label_condition){.label = label, .op = negate ? PATTERN_NOT_EQUAL : PATTERN_EQUAL, .text = value};
	if (label) {
		q->select.series.labels = &q->matcher;
		q->select.series.label_count = 1;
	}
	if (sample_type) {
		q->type = (struct type_condition){.parts = {NULL, sample_type}};
		q->select.series.types = &q->type;
		q->select.series.type_count = 1;
	}
}

static const char *value_of(const struct row *row, const char *label)
{
	const char *value = labels_get(&row->labels, label);
	return value ? value : "";
}

static bool is_wanted(const struct question *q, const struct row *row)
{
	if (q->sample_type && strcmp(row->type.sample_type, q->sample_type) != 0)
		return false;
	return !q->condition.label ||
	       (strcmp(value_of(row, q->condition.label), q->condition.value) == 0) != q->condition.negate;
}

/* ---- what is listed ---- */

struct list {
	char names[64][PROFILE_TYPE_TEXT_MAX];
	uint64_t values[64];
	size_t count;
};

static size_t find_name(struct list *list, const char *name)
{
	size_t at = 0;
	while (at < list->count && strcmp(list->names[at], name) != 0)
		at++;
	if (at == list->count) {
		assert_true(at < 64);
		snprintf(list->names[list->count++], sizeof(list->names[0]), "%s", name);
	}
	return at;
}

static int on_item(void *context, const struct store_item *item, struct error *err)
{
	struct list *list = context;
	char text[PROFILE_TYPE_TEXT_MAX];
	assert_true(item->series > 0 && item->samples >= item->series);
	assert_true(item->first_ns <= item->last_ns && item->first_ns >= TEST_EPOCH);
	size_t at = find_name(list, item->type ? profile_type_format(item->type, text) : item->name);
	if (item->values > list->values[at])
		list->values[at] = item->values;
	return 0;
}

static int compare_texts(const void *a, const void *b)
{
	return strcmp(a, b);
}

static void assert_same(struct list *want, struct list *got)
{
	qsort(want->names, want->count, sizeof(want->names[0]), compare_texts);
	qsort(got->names, got->count, sizeof(got->names[0]), compare_texts);
	for (size_t i = 0; i < want->count && i < got->count; i++)
		assert_string_equal(want->names[i], got->names[i]);
	assert_int_equal(want->count, got->count);
}

static void check_types(struct store *store, struct question *q)
{
	static struct list want, got;
	want = got = (struct list){0};
	for (size_t i = 0; i < row_count; i++) {
		char text[PROFILE_TYPE_TEXT_MAX];
		if (is_wanted(q, &rows[i]))
			find_name(&want, profile_type_format(&rows[i].type, text));
	}
	assert_int_equal(store_list_types(store, &q->select, on_item, &got, NULL, NULL), 0);
	assert_same(&want, &got);
}

static void check_names(struct store *store, struct question *q)
{
	static struct list want, got;
	want = got = (struct list){0};
	for (size_t i = 0; i < row_count; i++)
		for (size_t l = 0; is_wanted(q, &rows[i]) && l < rows[i].labels.count; l++)
			find_name(&want, rows[i].labels.items[l].name);
	assert_int_equal(store_list_labels(store, &q->select, on_item, &got, NULL, NULL), 0);
	assert_same(&want, &got);
}

static void check_values(struct store *store, struct question *q, const char *label, const char *prefix)
{
	static struct list want, got;
	want = got = (struct list){0};
	for (size_t i = 0; i < row_count; i++) {
		const char *value = labels_get(&rows[i].labels, label);
		if (is_wanted(q, &rows[i]) && value && !strncmp(value, prefix, strlen(prefix)))
			find_name(&want, value);
	}
	assert_int_equal(store_list_values(store, &q->select, label, prefix, on_item, &got, NULL, NULL), 0);
	assert_same(&want, &got);
}

static int on_group(void *context, const struct profile_type *type, const struct labels *labels, uint32_t *ret,
		    struct error *err)
{
	_cleanup_(buffer_release) struct buffer text = {0};
	buffer_init(&text, SIZE_MAX);
	test_labels_format(labels, &text);
	*ret = (uint32_t)find_name(context, buffer_string(&text));
	return 0;
}

static void check_combinations(struct store *store, struct question *q)
{
	static const char *const by[] = {"service_name", "thread"};
	static struct list want, got;
	want = got = (struct list){0};
	for (size_t i = 0; i < row_count; i++) {
		struct label items[2];
		struct labels labels = {.items = items};
		for (size_t k = 0; k < 2; k++)
			if (labels_get(&rows[i].labels, by[k]))
				items[labels.count++] =
					(struct label){(char *)by[k], (char *)labels_get(&rows[i].labels, by[k])};
		uint32_t number;
		if (is_wanted(q, &rows[i]))
			on_group(&want, NULL, &labels, &number, NULL);
	}
	const struct store_grouping grouping = {.by = by, .by_count = 2, .group = on_group, .context = &got};
	assert_int_equal(store_list_series(store, &q->select, &grouping, NULL, NULL), 0);
	assert_same(&want, &got);
}

static void check_lists(struct store *store)
{
	static const struct {
		const char *sample_type, *label, *value;
		bool negate;
	} questions[] = {
		{NULL, NULL, NULL, false},     {"cpu", NULL, NULL, false},	{NULL, "service_name", "service1", false},
		{NULL, "thread", "", false},   {"samples", "thread", "", true}, {NULL, "nothing", "x", false},
		{NULL, "host", "host1", true},
	};
	for (size_t i = 0; i < sizeof(questions) / sizeof(*questions); i++) {
		struct question q;
		make_question(&q, questions[i].sample_type, questions[i].label, questions[i].value, questions[i].negate);
		check_types(store, &q);
		check_names(store, &q);
		check_values(store, &q, "service_name", "");
		check_values(store, &q, "service_name", "service2");
		check_values(store, &q, "thread", "w");
		check_values(store, &q, "odd", "a \"");
		check_values(store, &q, "nothing", "");
		check_combinations(store, &q);
	}
}

/* ---- tests ---- */

static unsigned problem_count;
static char problem[1024];
static void on_problem(void *context, const char *message)
{
	problem_count++;
	snprintf(problem, sizeof(problem), "%s", message);
}

static struct store *open_store(const char *directory)
{
	struct store *store;
	struct error err = {0};
	const struct store_options options = {
		.directory = directory, .retention_age_ns = -1, .manual = true, .on_problem = on_problem};
	if (store_open(&options, &store, &err) < 0)
		fail_msg("%s", err.message);
	return store;
}

static void test_lists(void **state)
{
	char *directory = test_directory();
	struct store *store = open_store(directory);
	check_lists(store);
	for (int i = 0; i < 12; i++) {
		append(store, 1 + rnd_below(60));
		if (i % 5 == 3)
			assert_int_equal(store_cut(store, NULL), 0);
		check_lists(store);
	}
	store_close(store); /* cuts */
	store = open_store(directory);
	check_lists(store);
	store_close(store);
	forget_all();
	test_directory_remove(directory);
}

/* Sums and times are those of all series that have the value. */
struct sums {
	uint64_t samples, series;
	int64_t first_ns, last_ns;
};
static int add_item(void *context, const struct store_item *item, struct error *err)
{
	struct sums *sums = context;
	sums->samples += item->samples;
	sums->series += item->series;
	sums->first_ns = item->first_ns < sums->first_ns ? item->first_ns : sums->first_ns;
	sums->last_ns = item->last_ns > sums->last_ns ? item->last_ns : sums->last_ns;
	return 0;
}

static void test_sums(void **state)
{
	char *directory = test_directory();
	struct store *store = open_store(directory);
	struct question all, with;
	make_question(&all, NULL, NULL, NULL, false);
	make_question(&with, NULL, "host", "", true);
	append(store, 50);
	append(store, 50);
	append(store, 50);
	assert_int_equal(store_cut(store, NULL), 0);
	struct sums known = {.first_ns = INT64_MAX, .last_ns = INT64_MIN}, counted = known;
	assert_int_equal(store_list_values(store, &all.select, "host", "", add_item, &known, NULL, NULL), 0);
	assert_int_equal(store_list_values(store, &with.select, "host", "", add_item, &counted, NULL, NULL), 0);
	assert_memory_equal(&known, &counted, sizeof(known));
	/* The series are in memory now, and answer the first question, too. */
	struct sums again = {.first_ns = INT64_MAX, .last_ns = INT64_MIN};
	struct store_read_stats stats = {0};
	assert_int_equal(store_list_values(store, &all.select, "host", "", add_item, &again, &stats, NULL), 0);
	assert_memory_equal(&known, &again, sizeof(known));
	assert_int_equal(stats.cache_hits, 1);
	struct sums types = {.first_ns = INT64_MAX, .last_ns = INT64_MIN}, names = types;
	assert_int_equal(store_list_types(store, &all.select, add_item, &types, NULL, NULL), 0);
	assert_memory_equal(&known, &types, sizeof(known)); /* every series has a host */
	assert_int_equal(store_list_labels(store, &with.select, add_item, &names, NULL, NULL), 0);
	assert_true(names.samples > known.samples);
	int64_t first = INT64_MAX, last = INT64_MIN;
	for (size_t i = 0; i < row_count; i++) {
		first = rows[i].time_ns < first ? rows[i].time_ns : first;
		last = rows[i].time_ns > last ? rows[i].time_ns : last;
	}
	assert_int_equal(known.first_ns, first);
	assert_int_equal(known.last_ns, last);
	/* Outside of the range there is nothing. */
	static struct list got;
	all.select.to_ns = first;
	got = (struct list){0};
	assert_int_equal(store_list_values(store, &all.select, "host", "", on_item, &got, NULL, NULL), 0);
	all.select.to_ns = INT64_MAX;
	all.select.from_ns = last + 1;
	assert_int_equal(store_list_types(store, &all.select, on_item, &got, NULL, NULL), 0);
	assert_int_equal(got.count, 0);
	store_close(store);
	forget_all();
	test_directory_remove(directory);
}

/* A damaged index is not used any more: series have the same. */
static void test_damage(void **state)
{
	char *directory = test_directory(), path[PATH_MAX], block[PATH_MAX];
	static struct list got;
	struct store *store = open_store(directory);
	struct question all;
	make_question(&all, NULL, NULL, NULL, false);
	append(store, 30);
	assert_int_equal(store_cut(store, NULL), 0);
	append(store, 30);
	assert_int_equal(store_cut(store, NULL), 0);
	assert_int_equal(
		io_join_path(block, sizeof(block), local_of(store)->blocks_path, local_of(store)->blocks[0]->meta.name), 0);
	assert_int_equal(io_join_path(path, sizeof(path), block, "labels.parquet"), 0);
	struct buffer bytes;
	buffer_init(&bytes, 1 << 20);
	assert_int_equal(io_read_file(path, 1 << 20, &bytes, NULL), 0);
	got = (struct list){0};
	assert_int_equal(store_list_values(store, &all.select, "host", "", on_item, &got, NULL, NULL), 0);
	size_t before = got.count;
	memset(bytes.data + 4, 0xff, bytes.len - 8);
	assert_int_equal(io_write_file(path, bytes.data, bytes.len, 0640, NULL), 0);
	buffer_release(&bytes);
	problem_count = 0;
	got = (struct list){0};
	assert_int_equal(store_list_values(store, &all.select, "host", "", on_item, &got, NULL, NULL), 0);
	assert_int_equal(got.count, before); /* each append has one host */
	assert_int_equal(problem_count, 1);
	assert_non_null(strstr(problem, "labels.parquet"));
	assert_int_equal(local_of(store)->block_count, 2);
	assert_int_equal(local_of(store)->stats.damaged_files, 1);
	store_close(store);
	forget_all();
	test_directory_remove(directory);
}

/* Blocks of before there were labels.parquet and names in the metadata: their series are asked. */
static void test_version_1(void **state)
{
	char *directory = test_directory(), command[PATH_MAX + 64];
	static struct list got;
	struct question q;
	struct store_read_stats stats;
	if (access("tests/store/golden/v1/data", R_OK) < 0) {
		print_message("tests/store/golden/v1 is not here\n");
		test_directory_remove(directory);
		skip();
	}
	snprintf(command, sizeof(command), "cp -r tests/store/golden/v1/data/. %s", directory);
	assert_int_equal(system(command), 0);
	struct store *store = open_store(directory);
	assert_int_equal(local_of(store)->blocks[0]->meta.version, 1);
	make_question(&q, NULL, NULL, NULL, false);
	got = (struct list){0};
	assert_int_equal(store_list_types(store, &q.select, on_item, &got, &stats, NULL), 0);
	assert_int_equal(got.count, 2);
	got = (struct list){0};
	assert_int_equal(store_list_labels(store, &q.select, on_item, &got, NULL, NULL), 0);
	struct list names = {.names = {"host", "service_name", "thread"}, .values = {2, 3, 3}, .count = 3};
	assert_same(&names, &got);
	got = (struct list){0};
	assert_int_equal(store_list_values(store, &q.select, "service_name", "s", on_item, &got, NULL, NULL), 0);
	struct list values = {.names = {"search", "shop"}, .count = 2};
	assert_same(&values, &got);
	make_question(&q, "cpu", "host", "host1", false);
	got = (struct list){0};
	assert_int_equal(store_list_types(store, &q.select, on_item, &got, NULL, NULL), 0);
	assert_int_equal(got.count, 1);
	store_close(store);
	test_directory_remove(directory);
}

static void test_limits(void **state)
{
	char *directory = test_directory();
	static struct list got;
	struct store *store = open_store(directory);
	struct question all;
	struct store_read_stats stats;
	atomic_bool cancel = true;
	make_question(&all, NULL, NULL, NULL, false);
	append(store, 30);
	got = (struct list){0};
	all.select.cancel = &cancel;
	assert_int_equal(store_list_types(store, &all.select, on_item, &got, &stats, NULL), -ECANCELED);
	cancel = false;
	all.select.deadline_ns = 1;
	assert_int_equal(store_list_types(store, &all.select, on_item, &got, &stats, NULL), 0);
	assert_true(stats.partial && stats.why[0]);
	assert_int_equal(got.count, 0);
	store_close(store);
	forget_all();
	test_directory_remove(directory);
}

static void test_faults(void **state)
{
	static const enum fault_kind kinds[] = {FAULT_ALLOC, FAULT_READ, FAULT_OPEN};
	char *directory = test_directory();
	struct store *store = open_store(directory);
	struct question q[2];
	make_question(&q[0], NULL, NULL, NULL, false);
	make_question(&q[1], NULL, "host", "host1", true);
	append(store, 20);
	assert_int_equal(store_cut(store, NULL), 0);
	append(store, 20);
	size_t blocks = local_of(store)->block_count;
	for (size_t k = 0; k < sizeof(kinds) / sizeof(*kinds); k++) {
		for (size_t i = 0; i < 2; i++) {
			bool reached = true;
			for (uint64_t n = 1; reached; n++) {
				static struct list got;
				got = (struct list){0};
				pthread_mutex_lock(&local_of(store)->state_lock);
				struct cache_evicted evicted = cache_evict(local_of(store), local_of(store)->blocks[0]);
				pthread_mutex_unlock(&local_of(store)->state_lock);
				cache_free_evicted(evicted);
				fault_arm(kinds[k], n, 0);
				int r = store_list_values(store, &q[i].select, "host", "", on_item, &got, NULL, NULL);
				if (r == 0)
					r = store_list_labels(store, &q[i].select, on_item, &got, NULL, NULL);
				reached = fault_disarm(kinds[k]);
				assert_true(r == 0 || reached);
				assert_int_equal(local_of(store)->block_count, blocks); /* not damage */
			}
		}
	}
	store_close(store);
	forget_all();
	test_directory_remove(directory);
}

int main(void)
{
	test_seed_from_environment();
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_version_1), cmocka_unit_test(test_lists),	 cmocka_unit_test(test_sums),
		cmocka_unit_test(test_damage),	  cmocka_unit_test(test_limits), cmocka_unit_test(test_faults),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
