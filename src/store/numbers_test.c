/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers of samples, from the head, blocks, merged blocks and after a restart, against a plain list of all samples. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/limits.h"
#include "codec/parquet.h"
#include "store/block/block_scan.h"
#include "store/store_int.h"
#include "store/test_store.h"

#define HOUR_NS (3600 * NS_PER_S)

/* ---- what is asked ---- */

/* Samples whose numbers contain the text; "" = those without any. */
struct asked {
	const char *needle;
	bool negate;
	struct number_condition condition;
	struct store_select select;
};

/* A needle is what stands in a list of numbers; one that ends in a digit is followed by a unit or by nothing. */
static bool text_fits(const struct asked *asked, const char *numbers)
{
	char text[200];
	bool found = !asked->needle[0] && !numbers[0];
	size_t len = strlen(asked->needle);
	snprintf(text, sizeof(text), ",%s,", numbers);
	for (const char *at = text; len && !found && (at = strstr(at, asked->needle)); at++)
		found = asked->needle[len - 1] == '=' || at[len] == ',' || at[len] == ' ';
	return found != asked->negate;
}

/* The condition that a needle stands for: ",KEY=NUMBER", ",KEY=" or "=NUMBER". */
static struct number_condition condition_of(const char *needle, bool negate)
{
	const char *equals = strchr(needle, '=');
	struct number_condition ret = {.negate = negate, .none = !needle[0]};
	if (ret.none)
		return ret;
	ret.has_key = needle[0] == ',';
	ret.key = (struct bytes){(const uint8_t *)needle + 1, ret.has_key ? (size_t)(equals - needle - 1) : 0};
	if (equals[1])
		ret.low = (struct number_bound){.given = true, .number = strtoll(equals + 1, NULL, 10)};
	ret.high = ret.low;
	return ret;
}

static void ask(struct asked *asked, const char *needle, bool negate, bool conditions)
{
	*asked = (struct asked){.needle = needle,
				.negate = negate,
				.condition = condition_of(needle, negate),
				.select = {.from_ns = TEST_EPOCH - HOUR_NS,
					   .to_ns = TEST_EPOCH + STORE_FUTURE_NS,
					   TEST_SAMPLES,
					   .with_numbers = true}};
	asked->select.numbers = &asked->condition;
	asked->select.number_count = conditions;
}

static int on_point(void *context, uint32_t group, uint64_t bucket, int64_t value, struct error *err)
{
	(void)group;
	(void)bucket;
	(void)err;
	*(int64_t *)context += value;
	return 0;
}

static bool is_wanted(const struct asked *asked, const struct model_row *row)
{
	return strstr(row->series, ":samples:") && row->time_ns >= asked->select.from_ns &&
	       row->time_ns < asked->select.to_ns && (!asked->select.number_count || text_fits(asked, row->numbers));
}

/* Series take the place of numbers in the model: assert_models_equal() compares them. Returns how many samples there were. */
static size_t check_asked(struct store *store, const struct model *model, struct asked *asked, struct store_read_stats *stats)
{
	struct model want = {0}, got = {0};
	struct profile *into;
	struct error err = {0};
	int64_t sum = 0, total = 0;
	assert_int_equal(profile_new(&into, NULL), 0);
	if (store_merge(store, &asked->select, NULL, into, stats, &err) < 0)
		fail_msg("%s", err.message);
	assert_false(stats->partial);
	for (size_t i = 0; i < model->count; i++) {
		const struct model_row *row = &model->rows[i];
		if (!is_wanted(asked, row))
			continue;
		const char *apart = asked->select.with_numbers ? row->numbers : "";
		model_add_row(&want, mem_strdup(apart), mem_strdup(row->stack), 0, row->value);
		total += row->value;
	}
	size_t count = want.count;
	for (size_t i = 0; i < into->sample_count; i++) {
		char numbers[128];
		numbers_text(into, into->samples[i].numbers, numbers);
		model_add_row(&got, mem_strdup(numbers), stack_text(into, into->samples[i].stack), 0, into->values[i]);
	}
	assert_models_equal(&want, &got);
	profile_free(into);
	if (store_series(store, &asked->select, NULL, 0, on_point, &sum, NULL, &err) < 0)
		fail_msg("%s", err.message);
	assert_int_equal(sum, total);
	return count;
}

static void check_many(struct store *store, const struct model *model)
{
	static const char *const needles[] = {"", ",bytes=16", ",bytes=512", "=-7", ",bytes=", ",nothing has this="};
	struct store_read_stats stats;
	struct asked asked;
	for (size_t i = 0; i < sizeof(needles) / sizeof(needles[0]); i++) {
		for (int negate = 0; negate < 2; negate++) {
			ask(&asked, needles[i], negate, true);
			size_t found = check_asked(store, model, &asked, &stats);
			assert_int_equal(found > 0, i + 1 < sizeof(needles) / sizeof(needles[0]) || negate);
			asked.select.with_numbers = false;
			check_asked(store, model, &asked, &stats);
			asked.select.with_numbers = true;
			asked.select.from_ns = TEST_EPOCH + 600 * NS_PER_S;
			asked.select.to_ns = TEST_EPOCH + 1900 * NS_PER_S;
			check_asked(store, model, &asked, &stats);
		}
	}
	ask(&asked, "", false, false);
	assert_true(check_asked(store, model, &asked, &stats) > 0);
}

/* ---- the store ---- */

static struct store *open_store(const char *directory, int64_t samples_age_ns)
{
	struct store_options options = {.directory = directory,
					.retention_age_ns = -1,
					.retention_size_bytes = 1ull << 40,
					.samples_age_ns = samples_age_ns,
					.late_window_ns = -1,
					.window_ns = {HOUR_NS / 2, 3 * HOUR_NS},
					.manual = true};
	struct store *store;
	assert_int_equal(store_open(&options, &store, NULL), 0);
	return store;
}

static void test_head_and_blocks(void **state)
{
	char *directory = test_directory();
	struct store *store = open_store(directory, 0);
	struct model model = {0};
	for (int i = 0; i < 12; i++)
		assert_int_equal(test_append(store, &model, 40, NULL, NULL), 0);
	check_many(store, &model);
	for (int block = 0; block < 4; block++) {
		assert_int_equal(store_cut(store, NULL), 0);
		for (int i = 0; i < 8; i++)
			assert_int_equal(test_append(store, &model, 40, NULL, NULL), 0);
	}
	check_many(store, &model);
	assert_int_equal(store_compact(store, TEST_EPOCH + 100 * HOUR_NS, NULL), 0);
	check_many(store, &model);
	check_all(store, &model);
	store_close(store); /* the head becomes a block */
	store = open_store(directory, 0);
	check_many(store, &model);
	assert_int_equal(store_compact(store, TEST_EPOCH + 100 * HOUR_NS, NULL), 0);
	check_many(store, &model);
	store_close(store);
	model_release(&model);
	test_directory_remove(directory);
}

/* A profile of one series, whose i-th sample has the numbers bytes=i % texts, if it has any. */
static struct profile *make_profile(size_t count, size_t without, size_t texts)
{
	struct profile *profile;
	assert_int_equal(profile_new(&profile, NULL), 0);
	profile_add_sample_type(profile, test_string(profile, "samples"), test_string(profile, "count"), NULL);
	uint32_t stack, bytes = test_string(profile, "bytes");
	assert_int_equal(profile_add_stack(profile, 0, test_location(profile, 2), &stack, NULL), 0);
	for (size_t i = 0; i < count; i++) {
		struct profile_sample sample = {.stack = stack, .time_ns = TEST_EPOCH + (int64_t)i * 1000};
		struct profile_label label = {.key = bytes, .number = (int64_t)(i % texts)};
		int64_t value = 1 + (int64_t)(i % 7);
		if (i >= without)
			assert_int_equal(profile_add_label_set(profile, &label, 1, &sample.numbers, NULL), 0);
		assert_int_equal(profile_add_sample(profile, &sample, &value, NULL), 0);
	}
	return profile;
}

static struct store_append_result append_profile(struct store *store, struct model *model, struct profile *profile)
{
	struct store_append_options options = {.name = "process_cpu"};
	struct store_append_result result;
	assert_int_equal(store_append(store, profile, &options, &result, NULL), 0);
	if (model)
		model_append(model, profile, &options);
	profile_free(profile);
	return result;
}

struct count {
	size_t calls, rows;
};

static bool count_call(void *context, struct bytes text)
{
	((struct count *)context)->calls++;
	return true;
}

static int count_rows(void *context, const struct block_run *run, struct error *err)
{
	((struct count *)context)->rows += run->count;
	return 0;
}

/* How often a scan of the block's samples asks whether numbers are wanted: once a text, not once a row. */
static size_t count_asked_texts(struct store *store)
{
	static const uint8_t wanted[] = {1};
	const struct block *block = local_of(store)->blocks[0];
	struct count count = {0};
	struct block_scan scan = {.block = block,
				  .file = BLOCK_SAMPLES,
				  .wanted = wanted,
				  .id_count = sizeof(wanted),
				  .stack_count = 2,
				  .ranges = &block_all_times,
				  .range_count = 1,
				  .numbers_pass = count_call,
				  .on_run = count_rows,
				  .context = &count};
	struct error err = {0};
	if (block_scan(&scan, &err) < 0)
		fail_msg("%s", err.message);
	assert_int_equal(count.rows, 2 * PARQUET_GROUP_ROWS);
	assert_true(count.calls > 0);
	return count.calls;
}

static void test_pages_without_numbers_are_not_read(void **state)
{
	char *directory = test_directory();
	struct store *store = open_store(directory, 0);
	struct model model = {0};
	struct store_read_stats all, some;
	struct asked asked;
	append_profile(store, &model, make_profile(2 * PARQUET_GROUP_ROWS, 2 * PARQUET_GROUP_ROWS - 1000, 10));
	assert_int_equal(store_cut(store, NULL), 0);
	ask(&asked, "", false, true);
	assert_int_equal(check_asked(store, &model, &asked, &all), 2 * PARQUET_GROUP_ROWS - 1000);
	assert_int_equal(check_asked(store, &model, &asked, &all), 2 * PARQUET_GROUP_ROWS - 1000);
	ask(&asked, ",bytes=3", false, true);
	assert_int_equal(check_asked(store, &model, &asked, &some), 100);
	assert_int_equal(some.groups_skipped, 1);
	assert_true(some.bytes > 0 && some.bytes < all.bytes);
	assert_true(some.pages > 0 && some.pages <= all.pages / 2);
	assert_true(count_asked_texts(store) < 50);
	store_close(store);
	model_release(&model);
	test_directory_remove(directory);
}

/* A block without numbers is asked no more than its indexes: its rollups answer, if they may. */
static void test_blocks_without_numbers(void **state)
{
	char *directory = test_directory();
	struct store *store = open_store(directory, 0);
	struct model model = {0};
	struct store_read_stats stats;
	struct asked asked;
	append_profile(store, &model, make_profile(1000, 1000, 1));
	assert_int_equal(store_cut(store, NULL), 0);
	assert_int_equal(store_compact(store, TEST_EPOCH + 100 * HOUR_NS, NULL), 0);
	ask(&asked, ",bytes=", false, true);
	assert_int_equal(check_asked(store, &model, &asked, &stats), 0);
	assert_int_equal(stats.rows, 0);
	for (int conditions = 0; conditions < 2; conditions++) {
		ask(&asked, "", false, conditions);
		assert_int_equal(check_asked(store, &model, &asked, &stats), 1000);
		assert_int_equal(stats.from_samples, 0);
		assert_int_equal(stats.from_rollups, 1);
	}
	/* Nor does it have a column for them. */
	char pattern[300], command[400];
	snprintf(pattern, sizeof(pattern), "%s/blocks/*/samples.parquet", directory);
	snprintf(command, sizeof(command), "! grep -q numbers %s", pattern);
	assert_int_equal(system(command), 0);
	append_profile(store, &model, make_profile(1000, 500, 3));
	assert_int_equal(store_cut(store, NULL), 0);
	snprintf(command, sizeof(command), "grep -q numbers %s", pattern);
	assert_int_equal(system(command), 0);
	store_close(store);
	model_release(&model);
	test_directory_remove(directory);
}

static void test_rollups_cannot_tell(void **state)
{
	char *directory = test_directory();
	struct store *store = open_store(directory, 10 * HOUR_NS);
	struct model model = {0};
	struct store_read_stats stats;
	struct asked asked;
	struct profile *into;
	int64_t total = 0;
	append_profile(store, &model, make_profile(1000, 500, 3));
	for (size_t i = 0; i < model.count; i++)
		total += model.rows[i].value;
	assert_int_equal(store_cut(store, NULL), 0);
	assert_int_equal(store_compact(store, TEST_EPOCH + 100 * HOUR_NS, NULL), 0);
	/* While there are samples, they are read: rollups have no numbers. */
	ask(&asked, "", false, false);
	check_asked(store, &model, &asked, &stats);
	assert_true(stats.from_rollups == 0 && stats.from_samples == 1);
	assert_int_equal(store_apply_retention(store, TEST_EPOCH + 100 * HOUR_NS, NULL), 0);
	/* Then their sums, and it is said what they lack. */
	assert_int_equal(profile_new(&into, NULL), 0);
	assert_int_equal(store_merge(store, &asked.select, NULL, into, &stats, NULL), 0);
	assert_int_equal(profile_total(into, 0), total);
	assert_int_equal(into->samples[0].numbers, 0);
	assert_true(stats.partial);
	assert_non_null(strstr(stats.why, "numeric labels"));
	profile_free(into);
	/* A condition cannot be answered. */
	ask(&asked, ",bytes=1", false, true);
	assert_int_equal(profile_new(&into, NULL), 0);
	assert_int_equal(store_merge(store, &asked.select, NULL, into, &stats, NULL), 0);
	assert_int_equal(into->sample_count, 0);
	assert_true(stats.partial);
	assert_non_null(strstr(stats.why, "numeric labels"));
	profile_free(into);
	/* Who does not ask for numbers does not hear of it. */
	ask(&asked, "", false, false);
	asked.select.with_numbers = false;
	check_asked(store, &model, &asked, &stats);
	store_close(store);
	model_release(&model);
	test_directory_remove(directory);
}

/* Heap in use over several profiles: averages of what is kept apart add up to the average of all. */
static void test_gauges(void **state)
{
	char *directory = test_directory();
	struct store *store = open_store(directory, 0);
	for (int64_t scrape = 0; scrape < 3; scrape++) {
		struct profile *profile = make_profile(100, 30, 7);
		profile->sample_types[0].type = test_string(profile, "inuse_space");
		for (size_t i = 0; i < profile->sample_count; i++)
			profile->samples[i].time_ns = TEST_EPOCH + scrape * NS_PER_S;
		struct store_append_options options = {.name = "memory"};
		assert_int_equal(store_append(store, profile, &options, NULL, NULL), 0);
		profile_free(profile);
		if (scrape == 1)
			assert_int_equal(store_cut(store, NULL), 0);
	}
	struct store_select select = {.from_ns = TEST_EPOCH, .to_ns = TEST_EPOCH + HOUR_NS, .average_gauges = true};
	struct profile *plain, *apart;
	assert_int_equal(profile_new(&plain, NULL), 0);
	assert_int_equal(profile_new(&apart, NULL), 0);
	assert_int_equal(store_merge(store, &select, NULL, plain, NULL, NULL), 0);
	select.with_numbers = true;
	assert_int_equal(store_merge(store, &select, NULL, apart, NULL, NULL), 0);
	assert_int_equal(plain->sample_count, 1);
	assert_int_equal(apart->sample_count, 8);
	assert_int_equal(profile_total(plain, 0), profile_total(apart, 0));
	struct profile *sent = make_profile(100, 30, 7);
	assert_int_equal(profile_total(plain, 0), profile_total(sent, 0));
	profile_free(sent);
	profile_free(plain);
	profile_free(apart);
	store_close(store);
	test_directory_remove(directory);
}

/* ---- limits ---- */

static void test_limits(void **state)
{
	char *directory = test_directory();
	struct store *store = open_store(directory, 0);
	struct model model = {0};
	struct store_read_stats stats;
	struct asked asked;
	size_t count = LIMIT_NUMBERS_PER_HEAD + 1000;
	struct store_append_result result = append_profile(store, &model, make_profile(count, 0, count));
	assert_int_equal(result.samples, count);
	assert_int_equal(result.numbers_dropped, 1000);
	/* Those that are known go on. */
	result = append_profile(store, NULL, make_profile(10, 0, 10));
	assert_int_equal(result.numbers_dropped, 0);
	/* Too long ones too are stored without. */
	struct profile *profile = make_profile(1, 1, 1);
	struct profile_label label = {.number = 1};
	char key[LIMIT_NUMBERS_BYTES + 1];
	memset(key, 'k', sizeof(key));
	assert_int_equal(profile_add_string(profile, key, sizeof(key), &label.key, NULL), 0);
	assert_int_equal(profile_add_label_set(profile, &label, 1, &profile->samples[0].numbers, NULL), 0);
	struct store_append_options options = {.name = "process_cpu"};
	assert_int_equal(store_append(store, profile, &options, &result, NULL), 0);
	assert_true(result.samples == 1 && result.numbers_dropped == 1);
	profile_free(profile);
	/* A new head has room again, and blocks are merged as far as they may be. */
	assert_int_equal(store_cut(store, NULL), 0);
	for (int block = 0; block < 5; block++) {
		profile = make_profile(60000, 0, 60000);
		for (size_t i = 0; i < profile->sample_count; i++)
			profile->labels[profile->label_sets[profile->samples[i].numbers].first].number += 100000 * (block + 1);
		result = append_profile(store, &model, profile);
		assert_int_equal(result.numbers_dropped, 0);
		assert_int_equal(store_cut(store, NULL), 0);
	}
	assert_int_equal(store_compact(store, TEST_EPOCH + 100 * HOUR_NS, NULL), 0);
	ask(&asked, "bytes=599", false, true);
	assert_true(check_asked(store, &model, &asked, &stats) > 0);
	assert_true(stats.blocks > 1);
	store_close(store);
	model_release(&model);
	test_directory_remove(directory);
}

static void copy_store(const char *from, const char *to)
{
	char command[500];
	snprintf(command, sizeof(command), "cp -r %s %s && rm -f %s/lock", from, to, to);
	assert_int_equal(system(command), 0);
}

/* What was accepted is not dropped by a start, whose head is that of two segments. */
static void test_replay_drops_nothing(void **state)
{
	char *directory = test_directory(), copies[2][200];
	struct store *store = open_store(directory, 0);
	struct model model = {0};
	struct store_read_stats stats;
	struct asked asked;
	for (int i = 0; i < 2; i++)
		snprintf(copies[i], sizeof(copies[i]), "%s-copy%d", directory, i);
	append_profile(store, &model, make_profile(LIMIT_NUMBERS_PER_HEAD, 0, LIMIT_NUMBERS_PER_HEAD));
	copy_store(directory, copies[0]);
	store_close(store);
	store = open_store(copies[0], 0);
	struct profile *profile = make_profile(1000, 0, 1000);
	for (size_t i = 0; i < profile->sample_count; i++)
		profile->labels[profile->label_sets[profile->samples[i].numbers].first].number += 1000000;
	struct store_append_result result = append_profile(store, &model, profile);
	assert_int_equal(result.numbers_dropped, 0);
	copy_store(copies[0], copies[1]);
	store_close(store);
	store = open_store(copies[1], 0);
	ask(&asked, "", false, false);
	assert_int_equal(check_asked(store, &model, &asked, &stats), LIMIT_NUMBERS_PER_HEAD + 1000);
	store_close(store);
	model_release(&model);
	for (int i = 0; i < 2; i++)
		test_directory_remove(mem_strdup(copies[i]));
	test_directory_remove(directory);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_head_and_blocks),
					   cmocka_unit_test(test_pages_without_numbers_are_not_read),
					   cmocka_unit_test(test_blocks_without_numbers),
					   cmocka_unit_test(test_rollups_cannot_tell),
					   cmocka_unit_test(test_gauges),
					   cmocka_unit_test(test_limits),
					   cmocka_unit_test(test_replay_drops_nothing)};
	test_seed_from_environment();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
