/* SPDX-License-Identifier: Apache-2.0 */
#include "store/compact/test_compact.h"

#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/wait.h>

#include "base/fault.h"
#include "store/compact/compact_int.h"
#include "store/processes.h"

static int add_point(void *context, uint32_t group, uint64_t bucket, int64_t value, struct error *err)
{
	*(int64_t *)context += value;
	return 0;
}

static void assert_levels(struct store *store, uint64_t level_0, uint64_t level_1, uint64_t level_2)
{
	struct store_stats stats;
	store_get_stats(store, &stats);
	assert_int_equal(stats.blocks_by_level[0], level_0);
	assert_int_equal(stats.blocks_by_level[1], level_1);
	assert_int_equal(stats.blocks_by_level[2], level_2);
}

static unsigned entries(const char *directory, const char *name)
{
	char path[PATH_MAX];
	unsigned count = 0;
	io_join_path(path, sizeof(path), directory, name);
	DIR *dir = opendir(path);
	assert_non_null(dir);
	for (const struct dirent *entry; (entry = readdir(dir));)
		count += entry->d_name[0] != '.';
	closedir(dir);
	return count;
}

/* Six blocks of ten minutes over an hour, from `from_ns` on. */
static void fill_hour(struct store *store, struct model *model, int64_t from_ns, size_t profiles)
{
	for (int64_t i = 0; i < 6; i++) {
		for (size_t k = 0; k < profiles; k++)
			assert_int_equal(test_append_at(store, model, from_ns + 10 * i * TEST_MINUTE, 12 * TEST_MINUTE, 40), 0);
		test_cut(store);
	}
}

static void check_ranges(struct store *store, const struct model *model, int64_t start_ns)
{
	static const char *const needles[] = {"process_cpu:samples", "service_name=\"service2\""};
	check_merge(store, model, INT64_MIN, INT64_MAX, needles[0]);
	check_merge(store, model, start_ns, start_ns + TEST_HOUR, needles[0]);
	check_merge(store, model, start_ns + 7 * TEST_MINUTE, start_ns + 51 * TEST_MINUTE + 3, needles[0]);
	check_series(store, model, start_ns, start_ns + 2 * TEST_HOUR, needles[1], 5 * TEST_MINUTE);
	check_series(store, model, start_ns - TEST_HOUR, start_ns + 30 * TEST_HOUR, needles[1], TEST_HOUR);
	check_series(store, model, start_ns + 1, start_ns + TEST_HOUR, needles[1], 61 * NS_PER_S);
	check_list(store, model, "");
}

/* Blocks go up the levels, and every question has the same answer before and after. */
static void levels_hold_the_same(void **state)
{
	char *directory = test_directory();
	struct model model = {0};
	struct store *store = test_open_manual(directory, NULL);
	int64_t start = TEST_DAY_0 + 2 * TEST_HOUR;
	fill_hour(store, &model, start, 3);
	fill_hour(store, &model, start + 3 * TEST_HOUR, 3);
	check_ranges(store, &model, start);
	assert_levels(store, 12, 0, 0);
	/* Nothing is over yet. */
	test_compact(store, start + TEST_HOUR);
	assert_levels(store, 12, 0, 0);
	test_compact(store, start + 3 * TEST_HOUR);
	assert_levels(store, 6, 1, 0);
	check_ranges(store, &model, start);
	test_check_blocks(store);
	test_compact(store, start + 6 * TEST_HOUR);
	assert_levels(store, 0, 2, 0);
	check_ranges(store, &model, start);
	test_check_blocks(store);
	test_compact(store, TEST_DAY_0 + 27 * TEST_HOUR);
	assert_levels(store, 0, 0, 1);
	check_ranges(store, &model, start);
	test_check_blocks(store);
	assert_int_equal(entries(directory, "blocks"), 1);
	assert_int_equal(entries(directory, "tmp"), 0);
	assert_int_equal(entries(directory, "trash"), 0);
	store_close(store);
	store = test_open_manual(directory, NULL);
	assert_levels(store, 0, 0, 1);
	check_ranges(store, &model, start);
	store_close(store);
	model_release(&model);
	test_directory_remove(directory);
}

static void one_block_gets_rollups(void **state)
{
	char *directory = test_directory();
	struct model model = {0};
	struct store *store = test_open_manual(directory, NULL);
	assert_int_equal(test_append_at(store, &model, TEST_DAY_0, TEST_HOUR, 60), 0);
	test_cut(store);
	test_compact(store, TEST_DAY_0 + 3 * TEST_HOUR);
	assert_levels(store, 0, 1, 0);
	test_check_blocks(store);
	check_ranges(store, &model, TEST_DAY_0);
	/* A block that is alone in its day stays as it is. */
	test_compact(store, TEST_DAY_0 + 300 * TEST_HOUR);
	assert_levels(store, 0, 1, 0);
	/* A late one joins it. */
	assert_int_equal(test_append_at(store, &model, TEST_DAY_0 + TEST_HOUR, TEST_HOUR, 60), 0);
	test_cut(store);
	test_compact(store, TEST_DAY_0 + 300 * TEST_HOUR);
	assert_levels(store, 0, 0, 1);
	test_check_blocks(store);
	check_ranges(store, &model, TEST_DAY_0);
	store_close(store);
	model_release(&model);
	test_directory_remove(directory);
}

/* Small late blocks make blocks of their own, until there are several. */
static void late_blocks_do_not_rewrite_large_ones(void **state)
{
	char *directory = test_directory();
	struct model model = {0};
	struct store *store = test_open_manual(directory, NULL);
	struct store_stats stats;
	int64_t now = TEST_DAY_0 + 3 * TEST_DAY;
	for (unsigned i = 0; i < 300; i++)
		assert_int_equal(test_append_at(store, NULL, TEST_DAY_0, TEST_DAY, 300), 0);
	test_cut(store);
	test_compact(store, now);
	for (uint64_t i = 1; i < 4; i++) {
		assert_levels(store, 0, 0, i);
		assert_int_equal(test_append_at(store, &model, TEST_DAY_0 + TEST_HOUR, TEST_HOUR, 20), 0);
		test_cut(store);
		store_get_stats(store, &stats);
		uint64_t before = stats.compact_bytes_in;
		test_compact(store, now);
		store_get_stats(store, &stats);
		/* The second small one meets the first. */
		assert_true(stats.compact_bytes_in - before < 400000 || i == 3);
		if (i >= 2)
			break;
	}
	test_check_blocks(store);
	store_close(store);
	model_release(&model);
	test_directory_remove(directory);
}

/* A store that cuts all the time does not wait for the end of the window. */
static void a_crowd_is_merged_early(void **state)
{
	char *directory = test_directory();
	struct model model = {0};
	struct store *store = test_open_manual(directory, NULL);
	for (unsigned i = 0; i < 2 * COMPACT_INPUTS_MAX + 3; i++) {
		assert_int_equal(test_append_at(store, &model, TEST_DAY_0 + i * TEST_MINUTE, TEST_MINUTE, 15), 0);
		test_cut(store);
	}
	test_compact(store, TEST_DAY_0 + TEST_HOUR);
	assert_levels(store, 5, 0, 0);
	test_check_blocks(store);
	check_ranges(store, &model, TEST_DAY_0);
	test_compact(store, TEST_DAY_0 + 3 * TEST_HOUR);
	assert_levels(store, 0, 1, 0);
	test_check_blocks(store);
	check_ranges(store, &model, TEST_DAY_0);
	store_close(store);
	model_release(&model);
	test_directory_remove(directory);
}

/* A label with few enough values for rollups in each block, and too many in all of them: series get another order. */
static void series_in_another_order_are_turned(void **state)
{
	char *directory = test_directory();
	struct model model = {0};
	struct store *store = test_open_manual(directory, NULL);
	for (unsigned block = 0; block < 2; block++) {
		for (unsigned i = 0; i < 2100; i++) {
			struct profile *profile = test_profile_random(2);
			struct labels labels = {0};
			char text[32];
			struct store_append_options options = {.labels = &labels, .received_ns = TEST_EPOCH + TEST_HOUR};
			snprintf(text, sizeof(text), "team-%u-%u", (i * 7919) % 2100, block);
			assert_int_equal(labels_set(&labels, "team", text, NULL), 0);
			snprintf(text, sizeof(text), "service%u", i % 4);
			assert_int_equal(labels_set(&labels, "app", text, NULL), 0);
			snprintf(text, sizeof(text), "%u", i % 50);
			assert_int_equal(labels_set(&labels, "zzz", text, NULL), 0);
			assert_int_equal(labels_set(&labels, "aaa", text, NULL), 0);
			assert_int_equal(store_append(store, profile, &options, NULL, NULL), 0);
			model_append(&model, profile, &options);
			labels_release(&labels);
			profile_free(profile);
		}
		test_cut(store);
	}
	int64_t sum = 0, merged = 0;
	for (size_t i = 0; i < model.count; i++)
		sum += model.rows[i].value;
	struct store_select select = {.from_ns = INT64_MIN, .to_ns = INT64_MAX};
	assert_int_equal(store_series(store, &select, NULL, 0, add_point, &merged, NULL, NULL), 0);
	assert_int_equal(sum, merged);
	merged = 0;
	test_compact(store, TEST_EPOCH + 3 * TEST_DAY);
	assert_levels(store, 0, 0, 1);
	test_check_blocks(store);
	const struct block_label_name *team = block_meta_label(&local_of(store)->blocks[0]->meta, "team");
	assert_non_null(team);
	assert_false(team->in_rollups);
	assert_int_equal(store_series(store, &select, NULL, 0, add_point, &merged, NULL, NULL), 0);
	assert_int_equal(sum, merged);
	check_series(store, &model, INT64_MIN, INT64_MAX, "team=\"team-17-1\"", 0);
	check_series(store, &model, TEST_EPOCH, TEST_EPOCH + TEST_HOUR, "team=\"team-2000-0\"", TEST_MINUTE);
	store_close(store);
	model_release(&model);
	test_directory_remove(directory);
}

/* ---- the ids of appends ---- */

static void retries_are_known_after_merges(void **state)
{
	char *directory = test_directory();
	struct model model = {0};
	struct store *store = test_open_manual(directory, NULL);
	uint8_t id[16] = {0};
	for (uint8_t i = 0; i < 5; i++) {
		id[0] = i + 1;
		assert_int_equal(test_append(store, &model, 10, id, NULL), 0);
		test_cut(store);
	}
	test_compact(store, TEST_EPOCH + 3 * TEST_DAY);
	assert_levels(store, 0, 0, 1);
	store_close(store);
	store = test_open_manual(directory, NULL);
	for (uint8_t i = 0; i < 5; i++) {
		id[0] = i + 1;
		assert_int_equal(test_append(store, &model, 10, id, NULL), 0);
	}
	struct store_stats stats;
	store_get_stats(store, &stats);
	assert_int_equal(stats.duplicates, 5);
	check_all(store, &model);
	store_close(store);
	model_release(&model);
	test_directory_remove(directory);
}

/* ---- after a crash ---- */

static void copy_tree(const char *from, const char *to)
{
	char command[3 * PATH_MAX];
	snprintf(command, sizeof(command), "cp -r '%s' '%s'", from, to);
	assert_int_equal(system(command), 0);
}

/* Both the inputs and what replaced them are there: each sample once. */
static void replaced_blocks_go_at_start(void **state)
{
	char *directory = test_directory();
	char before[PATH_MAX], blocks[PATH_MAX], command[3 * PATH_MAX];
	struct model model = {0};
	struct store *store = test_open_manual(directory, NULL);
	fill_hour(store, &model, TEST_DAY_0, 1);
	io_join_path(before, sizeof(before), directory, "before");
	io_join_path(blocks, sizeof(blocks), directory, "blocks");
	copy_tree(blocks, before);
	test_compact(store, TEST_DAY_0 + 3 * TEST_HOUR);
	test_compact(store, TEST_DAY_0 + 3 * TEST_HOUR);
	assert_levels(store, 0, 1, 0);
	store_close(store);
	snprintf(command, sizeof(command), "cp -r '%s'/* '%s'", before, blocks);
	assert_int_equal(system(command), 0);
	assert_int_equal(entries(directory, "blocks"), 7);
	store = test_open_manual(directory, NULL);
	assert_levels(store, 0, 1, 0);
	assert_int_equal(entries(directory, "blocks"), 1);
	assert_int_equal(entries(directory, "trash"), 0);
	check_ranges(store, &model, TEST_DAY_0);
	store_close(store);
	model_release(&model);
	test_directory_remove(directory);
}

/* ---- damage ---- */

/* Rows of a damaged page are left out of a merge; the block that comes out says so. */
static void damaged_rows_are_left_out(void **state)
{
	char *directory = test_directory();
	struct model model = {0}, rest = {0};
	struct test_problems problems = {0};
	struct store_options options = {.retention_age_ns = -1, .on_problem = test_on_problem, .context = &problems};
	struct store *store = test_open_manual(directory, &options);
	char path[PATH_MAX];
	for (int64_t i = 0; i < 3; i++) {
		assert_int_equal(test_append_at(store, i == 1 ? &rest : &model, TEST_DAY_0 + i * TEST_MINUTE, TEST_MINUTE, 50),
				 0);
		test_cut(store);
	}
	snprintf(path, sizeof(path), "%s/samples.parquet", local_of(store)->blocks[1]->path);
	int fd = io_open(path, O_RDWR, 0, NULL);
	assert_true(fd >= 0);
	assert_int_equal(io_pwrite(fd, "damage", 6, 40, path, NULL), 0);
	io_close(fd);
	uint64_t lost = local_of(store)->blocks[1]->meta.samples;
	test_compact(store, TEST_DAY_0 + 3 * TEST_HOUR);
	assert_levels(store, 0, 1, 0);
	assert_int_equal(problems.count, 1);
	assert_non_null(strstr(problems.last, "are damaged and left out"));
	const struct block_meta *meta = &local_of(store)->blocks[0]->meta;
	assert_int_equal(meta->lost.rows, lost);
	assert_true(meta->lost.from_ns >= TEST_DAY_0 && meta->lost.to_ns < TEST_DAY_0 + 3 * TEST_MINUTE);
	check_merge(store, &model, INT64_MIN, INT64_MAX, "process_cpu:samples");
	test_check_blocks(store);
	store_close(store);
	model_release(&model);
	model_release(&rest);
	test_directory_remove(directory);
}

/* ---- retention ---- */

/* As check_merge(), but in a way that rollups can answer: no labels are asked for. */
static void check_rollups(struct store *store, const struct model *model)
{
	const struct type_condition samples = {.parts = {"process_cpu", "samples"}};
	struct store_select select = {.from_ns = INT64_MIN, .to_ns = INT64_MAX, .series = {.types = &samples, .type_count = 1}};
	struct model want, got = {0};
	struct profile *into;
	struct store_read_stats stats;
	assert_int_equal(profile_new(&into, NULL), 0);
	assert_int_equal(store_merge(store, &select, NULL, into, &stats, NULL), 0);
	assert_int_equal(stats.from_samples, 0);
	model_select(model, &select, "process_cpu:samples", &want);
	for (size_t i = 0; i < want.count; i++)
		want.rows[i].series[0] = '\0';
	for (size_t i = 0; i < into->sample_count; i++)
		model_add_row(&got, mem_strdup(""), stack_text(into, into->samples[i].stack), 0, into->values[i]);
	assert_models_equal(&want, &got);
	profile_free(into);
}

static void samples_go_and_rollups_stay(void **state)
{
	char *directory = test_directory();
	struct model model = {0};
	struct store_options options = {.retention_age_ns = -1, .samples_age_ns = 2 * TEST_DAY};
	struct store *store = test_open_manual(directory, &options);
	struct store_stats before, after;
	fill_hour(store, &model, TEST_DAY_0, 2);
	test_compact(store, TEST_DAY_0 + 3 * TEST_HOUR);
	store_get_stats(store, &before);
	assert_int_equal(store_apply_retention(store, TEST_DAY_0 + TEST_DAY, NULL), 0);
	assert_true(local_of(store)->blocks[0]->meta.files[BLOCK_SAMPLES].size > 0);
	assert_int_equal(store_apply_retention(store, TEST_DAY_0 + 3 * TEST_DAY, NULL), 0);
	store_get_stats(store, &after);
	assert_int_equal(local_of(store)->blocks[0]->meta.files[BLOCK_SAMPLES].size, 0);
	assert_true(after.block_bytes < before.block_bytes);
	assert_int_equal(entries(directory, "blocks"), 1);
	/* What rollups can answer they still do. */
	check_rollups(store, &model);
	check_series(store, &model, TEST_DAY_0, TEST_DAY_0 + 2 * TEST_HOUR, "service_name=\"service2\"", 5 * TEST_MINUTE);
	store_close(store);
	store = test_open_manual(directory, &options);
	check_rollups(store, &model);
	assert_int_equal(store_apply_retention(store, TEST_DAY_0 + 4 * TEST_DAY, NULL), 0);
	test_compact(store, TEST_DAY_0 + 9 * TEST_DAY);
	check_rollups(store, &model);
	store_close(store);
	model_release(&model);
	test_directory_remove(directory);
}

/* All series of a service. */
#define OF_SERVICE(name)                                                                                                       \
	(struct series_conditions)                                                                                             \
	{                                                                                                                      \
		.labels = &(const struct label_condition){.label = "service_name", .text = (name)}, .label_count = 1           \
	}

/* Rows of a service go from the model, those in [from, to). */
static void forget_service(struct model *model, const char *service, int64_t from_ns, int64_t to_ns)
{
	char needle[64];
	snprintf(needle, sizeof(needle), "service_name=\"%s\"", service);
	size_t kept = 0;
	for (size_t i = 0; i < model->count; i++) {
		struct model_row *row = &model->rows[i];
		if (strstr(row->series, needle) && row->time_ns >= from_ns && row->time_ns < to_ns) {
			mem_free(row->series);
			mem_free(row->stack);
		} else {
			model->rows[kept++] = *row;
		}
	}
	model->count = kept;
}

static void rules_give_series_an_age(void **state)
{
	char *directory = test_directory();
	struct model model = {0};
	const struct store_retention_rule rules[] = {{OF_SERVICE("service0"), TEST_DAY}, {OF_SERVICE("service1"), -1}};
	struct store_options options = {.retention_age_ns = 3 * TEST_DAY, .rules = rules, .rule_count = 2};
	struct store *store = test_open_manual(directory, &options);
	fill_hour(store, &model, TEST_DAY_0, 2);
	test_compact(store, TEST_DAY_0 + 3 * TEST_HOUR);
	fill_hour(store, &model, TEST_DAY_0 + 2 * TEST_HOUR, 1);
	assert_int_equal(store_apply_retention(store, TEST_DAY_0 + 20 * TEST_HOUR, NULL), 0);
	check_ranges(store, &model, TEST_DAY_0);
	assert_int_equal(store_apply_retention(store, TEST_DAY_0 + 30 * TEST_HOUR, NULL), 0);
	forget_service(&model, "service0", INT64_MIN, INT64_MAX);
	check_ranges(store, &model, TEST_DAY_0);
	test_check_blocks(store);
	assert_int_equal(store_apply_retention(store, TEST_DAY_0 + 5 * TEST_DAY, NULL), 0);
	forget_service(&model, "service2", INT64_MIN, INT64_MAX);
	forget_service(&model, "service3", INT64_MIN, INT64_MAX);
	check_ranges(store, &model, TEST_DAY_0);
	test_check_blocks(store);
	test_compact(store, TEST_DAY_0 + 9 * TEST_DAY);
	assert_int_equal(store_apply_retention(store, TEST_DAY_0 + 900 * TEST_DAY, NULL), 0);
	check_ranges(store, &model, TEST_DAY_0);
	store_close(store);
	model_release(&model);
	test_directory_remove(directory);
}

static void blocks_of_short_lived_series_go_whole(void **state)
{
	char *directory = test_directory();
	const struct store_retention_rule rules[] = {{OF_SERVICE("service0"), TEST_DAY},
						     {OF_SERVICE("service1"), TEST_DAY},
						     {OF_SERVICE("service2"), TEST_DAY},
						     {OF_SERVICE("service3"), 2 * TEST_DAY}};
	struct store_options options = {.retention_age_ns = -1, .rules = rules, .rule_count = 4};
	struct store *store = test_open_manual(directory, &options);
	fill_hour(store, NULL, TEST_DAY_0, 1);
	assert_int_equal(store_apply_retention(store, TEST_DAY_0 + 10 * TEST_DAY, NULL), 0);
	assert_levels(store, 0, 0, 0);
	assert_int_equal(entries(directory, "blocks"), 0);
	store_close(store);
	test_directory_remove(directory);
}

/* ---- deletion ---- */

static void deleted_samples_are_gone(void **state)
{
	char *directory = test_directory();
	struct model model = {0};
	struct store *store = test_open_manual(directory, NULL);
	struct store_delete_result result;
	struct error err = {0};
	int64_t from = TEST_DAY_0 + 17 * TEST_MINUTE, to = TEST_DAY_0 + 43 * TEST_MINUTE;
	fill_hour(store, &model, TEST_DAY_0, 2);
	test_compact(store, TEST_DAY_0 + 3 * TEST_HOUR);
	fill_hour(store, &model, TEST_DAY_0 + 2 * TEST_HOUR, 1);
	for (unsigned i = 0; i < 3; i++)
		assert_int_equal(test_append_at(store, &model, TEST_DAY_0, TEST_HOUR, 50), 0); /* in the head */
	if (store_delete(store, &OF_SERVICE("service2"), from, to, &result, &err) < 0)
		fail_msg("%s", err.message);
	forget_service(&model, "service2", from, to);
	check_ranges(store, &model, TEST_DAY_0);
	test_check_blocks(store);
	assert_true(result.blocks >= 1 && result.samples >= 1);
	assert_int_equal(result.kept, 0);
	/* Again: there is nothing to do. */
	assert_int_equal(store_delete(store, &OF_SERVICE("service2"), from, to, &result, &err), 0);
	assert_int_equal(result.blocks, 0);
	assert_int_equal(store_delete(store, &OF_SERVICE("service1"), INT64_MIN, INT64_MAX, &result, &err), 0);
	forget_service(&model, "service1", INT64_MIN, INT64_MAX);
	check_ranges(store, &model, TEST_DAY_0);
	store_close(store);
	store = test_open_manual(directory, NULL);
	check_ranges(store, &model, TEST_DAY_0);
	test_check_blocks(store);
	for (unsigned i = 0; i < 4; i++) {
		char name[16];
		snprintf(name, sizeof(name), "service%u", i);
		assert_int_equal(store_delete(store, &OF_SERVICE(name), INT64_MIN, INT64_MAX, &result, &err), 0);
		forget_service(&model, name, INT64_MIN, INT64_MAX);
	}
	assert_int_equal(model.count, 0);
	assert_levels(store, 0, 0, 0);
	assert_int_equal(entries(directory, "blocks"), 0);
	/* The log does not bring it back, and goes on where it was. */
	assert_int_equal(test_append_at(store, &model, TEST_DAY_0, TEST_HOUR, 10), 0);
	store_close(store);
	store = test_open_manual(directory, NULL);
	check_ranges(store, &model, TEST_DAY_0);
	store_close(store);
	model_release(&model);
	test_directory_remove(directory);
}

static void rollups_alone_are_deleted_whole_or_kept(void **state)
{
	char *directory = test_directory();
	struct store_options options = {.retention_age_ns = -1, .samples_age_ns = TEST_DAY};
	struct store *store = test_open_manual(directory, &options);
	struct store_delete_result result;
	fill_hour(store, NULL, TEST_DAY_0, 2);
	test_compact(store, TEST_DAY_0 + 3 * TEST_HOUR);
	assert_int_equal(store_apply_retention(store, TEST_DAY_0 + 3 * TEST_DAY, NULL), 0);
	assert_int_equal(store_delete(store, &OF_SERVICE("service1"), INT64_MIN, INT64_MAX, &result, NULL), 0);
	assert_int_equal(result.blocks, 0);
	assert_int_equal(result.kept, 1);
	assert_int_equal(store_delete(store, &OF_SERVICE("nobody"), INT64_MIN, INT64_MAX, &result, NULL), 0);
	assert_int_equal(result.kept, 0);
	store_close(store);
	test_directory_remove(directory);
}

/* A damaged block that a reader moved to the quarantine would be back after a crash, and what was deleted with it, if that were
 * not synced, also where the deletion itself finds nothing to do. */
static void a_deletion_is_durable_beside_damage(void **state)
{
	char *directory = test_directory();
	struct store *store = test_open_manual(directory, NULL);
	struct store_delete_result result;
	assert_int_equal(test_append_at(store, NULL, TEST_DAY_0, TEST_MINUTE, 50), 0);
	test_cut(store);
	assert_int_equal(store_delete(store, &OF_SERVICE("nobody"), INT64_MIN, INT64_MAX, &result, NULL), 0);
	fault_arm(FAULT_SYNC, 2, 0); /* the first one is of the log */
	int r = store_delete(store, &OF_SERVICE("nobody"), INT64_MIN, INT64_MAX, &result, NULL);
	assert_true(fault_disarm(FAULT_SYNC));
	assert_int_equal(r, -EIO);
	assert_int_equal(store_delete(store, &OF_SERVICE("nobody"), INT64_MIN, INT64_MAX, &result, NULL), 0);
	store_close(store);
	test_directory_remove(directory);
}

/* An expression that takes too long on a value says nothing of it, also where it is negated. */
static void what_cannot_be_checked_stays(void **state)
{
	char *directory = test_directory();
	struct store *store = test_open_manual(directory, NULL);
	struct profile *profile = test_profile_random(20);
	struct labels labels = {0};
	struct store_append_options options = {.labels = &labels, .received_ns = TEST_EPOCH};
	const struct label_condition condition = {.label = "odd", .op = PATTERN_NOT_REGEX, .text = "(x+x+)+[yz]"};
	const struct series_conditions conditions = {.labels = &condition, .label_count = 1};
	struct store_delete_result result;
	struct store_stats before, after;
	struct error err = {0};
	assert_int_equal(labels_set(&labels, "odd", "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx", NULL), 0);
	assert_int_equal(store_append(store, profile, &options, NULL, NULL), 0);
	test_cut(store);
	store_get_stats(store, &before);
	assert_int_equal(store_delete(store, &conditions, INT64_MIN, INT64_MAX, &result, &err), -EINVAL);
	assert_non_null(strstr(err.message, "took too long"));
	store_get_stats(store, &after);
	assert_true(before.block_samples > 0);
	assert_int_equal(after.block_samples, before.block_samples);
	labels_release(&labels);
	profile_free(profile);
	store_close(store);
	test_directory_remove(directory);
}

/* ---- failures ---- */

/* What is done with a store whose n-th call of a kind fails: it still answers right, and does what it could not do later. */
static bool work_with_fault(enum fault_kind kind, uint64_t n)
{
	char *directory = test_directory();
	struct model model = {0};
	struct store_delete_result result;
	struct test_problems problems = {0};
	struct store_options options = {
		.retention_age_ns = -1, .samples_age_ns = 10 * TEST_DAY, .on_problem = test_on_problem, .context = &problems};
	int64_t now = TEST_DAY_0 + 3 * TEST_HOUR;
	test_seed = 4711;
	struct store *store = test_open_manual(directory, &options);
	for (int64_t i = 0; i < 3; i++) {
		assert_int_equal(test_append_at(store, &model, TEST_DAY_0 + i * TEST_MINUTE, 10 * TEST_MINUTE, 12), 0);
		test_cut(store);
	}
	fault_arm(kind, n, 0);
	int merged = store_compact(store, now, NULL);
	int deleted = store_delete(store, &OF_SERVICE("service1"), INT64_MIN, TEST_DAY_0 + 2 * TEST_MINUTE, &result, NULL);
	int aged = store_apply_retention(store, TEST_DAY_0 + 20 * TEST_DAY, NULL);
	bool reached = fault_disarm(kind);
	(void)merged, (void)aged;
	if (deleted < 0)
		assert_int_equal(
			store_delete(store, &OF_SERVICE("service1"), INT64_MIN, TEST_DAY_0 + 2 * TEST_MINUTE, &result, NULL),
			0);
	forget_service(&model, "service1", INT64_MIN, TEST_DAY_0 + 2 * TEST_MINUTE);
	test_compact(store, now);
	check_rollups(store, &model);
	check_series(store, &model, TEST_DAY_0, TEST_DAY_0 + TEST_HOUR, "", 5 * TEST_MINUTE);
	assert_int_equal(store_apply_retention(store, TEST_DAY_0 + 20 * TEST_DAY, NULL), 0);
	assert_levels(store, 0, 1, 0);
	check_rollups(store, &model);
	assert_int_equal(entries(directory, "tmp"), 0);
	store_close(store);
	store = test_open_manual(directory, &options);
	check_rollups(store, &model);
	assert_levels(store, 0, 1, 0);
	assert_int_equal(entries(directory, "blocks"), 1);
	store_close(store);
	model_release(&model);
	test_directory_remove(directory);
	return reached;
}

static void fault_each(enum fault_kind kind)
{
	for (uint64_t n = 1; work_with_fault(kind, n); n += kind == FAULT_ALLOC && n > 100 ? 1 + n / 40 : 1)
		;
}

static void failed_writes_change_nothing(void **state)
{
	fault_each(FAULT_WRITE);
}
static void failed_syncs_change_nothing(void **state)
{
	fault_each(FAULT_SYNC);
}
static void failed_renames_change_nothing(void **state)
{
	fault_each(FAULT_RENAME);
}
static void failed_opens_change_nothing(void **state)
{
	fault_each(FAULT_OPEN);
}
static void missing_memory_changes_nothing(void **state)
{
	fault_each(FAULT_ALLOC);
}

/* A full disk: said once, tried again with patience, and in the end it works. */
static void a_full_disk_is_waited_for(void **state)
{
	char *directory = test_directory();
	struct model model = {0};
	struct test_problems problems = {0};
	struct store_options options = {.retention_age_ns = -1, .on_problem = test_on_problem, .context = &problems};
	struct store *store = test_open_manual(directory, &options);
	struct store_stats stats;
	fill_hour(store, &model, TEST_DAY_0, 1);
	fault_arm(FAULT_WRITE, 1, FAULT_STICKY);
	int64_t began_ns = time_monotonic_ns();
	for (unsigned i = 0; i < 3; i++)
		assert_true(store_compact(store, TEST_DAY_0 + 3 * TEST_HOUR, NULL) < 0);
	fault_disarm(FAULT_WRITE);
	store_get_stats(store, &stats);
	assert_int_equal(stats.compact_failures, 3);
	assert_int_equal(problems.count, 1);
	assert_true(local_of(store)->compact_retry_ns > began_ns + 3 * NS_PER_S);
	assert_levels(store, 6, 0, 0);
	check_ranges(store, &model, TEST_DAY_0);
	test_compact(store, TEST_DAY_0 + 3 * TEST_HOUR);
	assert_levels(store, 0, 1, 0);
	check_ranges(store, &model, TEST_DAY_0);
	store_close(store);
	model_release(&model);
	test_directory_remove(directory);
}

/* ---- side by side ---- */

struct side {
	struct store *store;
	_Atomic bool stop;
	_Atomic uint64_t asked;
	int64_t expected;
};

/* Old data has one sum, whatever is done to its blocks meanwhile. */
static void *ask(void *context)
{
	struct side *side = context;
	while (!side->stop) {
		struct store_select select = {.from_ns = TEST_DAY_0, .to_ns = TEST_DAY_0 + TEST_DAY};
		int64_t sum = 0;
		assert_int_equal(store_series(side->store, &select, NULL, 0, add_point, &sum, NULL, NULL), 0);
		assert_int_equal(sum, side->expected);
		side->asked++;
	}
	return NULL;
}

static void queries_go_on_meanwhile(void **state)
{
	char *directory = test_directory();
	struct model model = {0};
	struct store *store = test_open_manual(directory, NULL);
	struct side side = {.store = store};
	pthread_t threads[2];
	for (int64_t hour = 0; hour < 24; hour += 4)
		fill_hour(store, &model, TEST_DAY_0 + hour * TEST_HOUR, 1);
	for (size_t i = 0; i < model.count; i++)
		side.expected += model.rows[i].value;
	for (size_t i = 0; i < 2; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, ask, &side), 0);
	for (int64_t hour = 0; hour < 30; hour++) {
		assert_int_equal(test_append_at(store, NULL, TEST_DAY_0 + 40 * TEST_HOUR, TEST_HOUR, 5), 0);
		test_cut(store);
		test_compact(store, TEST_DAY_0 + hour * TEST_HOUR);
	}
	while (side.asked < 20)
		time_sleep_ns(NS_PER_MS);
	side.stop = true;
	for (size_t i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
	struct store_stats stats;
	store_get_stats(store, &stats);
	assert_int_equal(stats.blocks_by_level[2], 1);
	store_close(store);
	model_release(&model);
	test_directory_remove(directory);
}

/* ---- processes ---- */

struct used {
	int64_t sums[PROCESS_STATS_COLUMNS];
	uint64_t rows;
};

static int add_used(void *context, const struct store_process_row *row, struct error *err)
{
	struct used *used = context;
	for (size_t i = 0; i < PROCESS_STATS_COLUMNS; i++)
		used->sums[i] += row->values[i] * (1 + (row->time_ns / NS_PER_S) % 1000);
	used->rows++;
	return 0;
}

static void read_used(struct store *store, struct used *ret)
{
	struct store_select select = {.from_ns = INT64_MIN, .to_ns = INT64_MAX};
	struct store_read_stats stats = {0};
	*ret = (struct used){0};
	assert_int_equal(store_read_processes(store, &select, NULL, STORE_PROCESS_ALL, add_used, ret, &stats, NULL), 0);
}

/* One column of process_stats, at ten times. */
static void append_column(struct store *store, unsigned column, unsigned process)
{
	const struct process_stats_column_name *name = &process_stats_columns[column];
	struct store_append_options options = {.received_ns = TEST_DAY_0};
	struct profile *profile;
	assert_int_equal(profile_new(&profile, NULL), 0);
	profile_add_sample_type(profile, test_string(profile, "%s", name->sample_type), test_string(profile, "%s", name->unit),
				NULL);
	profile->period_type.type = test_string(profile, PROCESS_STATS_NAME);
	for (unsigned time = 0; time < 10; time++) {
		struct profile_label label = {.key = test_string(profile, "service_name"),
					      .value = test_string(profile, "service%u", process)};
		struct profile_sample sample = {.time_ns = TEST_DAY_0 + time * NS_PER_S};
		int64_t value = 1 + column * 100 + process * 10 + time;
		assert_int_equal(profile_add_label_set(profile, &label, 1, &sample.labels, NULL), 0);
		assert_int_equal(profile_add_sample(profile, &sample, &value, NULL), 0);
	}
	assert_int_equal(store_append(store, profile, &options, NULL, NULL), 0);
	profile_free(profile);
}

/* Rows whose columns are in several blocks become whole, with and without samples beside them. */
static void processes_are_merged(void **state)
{
	for (int with_samples = 0; with_samples < 2; with_samples++) {
		char *directory = test_directory();
		struct model model = {0};
		struct used before, after;
		struct store_delete_result result;
		struct test_problems problems = {0};
		struct store_options options = {.retention_age_ns = -1, .on_problem = test_on_problem, .context = &problems};
		struct store *store = test_open_manual(directory, &options);
		for (unsigned column = 0; column < PROCESS_STATS_COLUMNS; column++) {
			for (unsigned process = 0; process < 4; process++)
				append_column(store, column, process);
			if (with_samples)
				assert_int_equal(test_append_at(store, &model, TEST_DAY_0, TEST_HOUR, 20), 0);
			test_cut(store);
		}
		read_used(store, &before);
		assert_int_equal(before.rows, 40 * PROCESS_STATS_COLUMNS);
		test_compact(store, TEST_DAY_0 + 3 * TEST_DAY);
		read_used(store, &after);
		assert_string_equal(problems.last, "");
		assert_levels(store, 0, 0, 1);
		assert_int_equal(after.rows, 40);
		assert_memory_equal(before.sums, after.sums, sizeof(before.sums));
		if (with_samples)
			check_ranges(store, &model, TEST_DAY_0);
		assert_int_equal(
			store_delete(store, &OF_SERVICE("service1"), TEST_DAY_0, TEST_DAY_0 + 3 * NS_PER_S, &result, NULL), 0);
		read_used(store, &after);
		assert_int_equal(after.rows, 37);
		for (unsigned i = 0; i < 4; i++) {
			char name[16];
			snprintf(name, sizeof(name), "service%u", i);
			assert_int_equal(store_delete(store, &OF_SERVICE(name), INT64_MIN, INT64_MAX, &result, NULL), 0);
		}
		read_used(store, &after);
		assert_int_equal(after.rows, 0);
		assert_levels(store, 0, 0, 0);
		store_close(store);
		model_release(&model);
		test_directory_remove(directory);
	}
}

/* ---- memory ---- */

#ifndef __SANITIZE_ADDRESS__
/* A profile of many stacks that nobody else has, all of one time. */
static void append_stacks(struct store *store, int64_t time_ns, uint32_t stacks, uint32_t salt)
{
	struct profile *profile;
	struct profile_mapping mapping = {.start = 0x10000, .limit = 0x1000000};
	struct store_append_options options = {.received_ns = time_ns};
	uint32_t ids[16], where;
	assert_int_equal(profile_new(&profile, NULL), 0);
	profile_add_sample_type(profile, test_string(profile, "samples"), test_string(profile, "count"), NULL);
	profile->time_ns = time_ns;
	mapping.file_name = test_string(profile, "/usr/bin/program");
	assert_int_equal(profile_add_mapping(profile, &mapping, &where, NULL), 0);
	for (uint32_t i = 0; i < stacks; i++) {
		struct profile_sample sample = {0};
		for (uint32_t depth = 0; depth < 3; depth++) {
			struct profile_location location = {.mapping = where,
							    .address = 0x10000 + (i >> (2 - depth) * 8 & 255) + (salt << 8)};
			assert_int_equal(profile_add_location(profile, &location, NULL, 0, &ids[depth], NULL), 0);
			assert_int_equal(profile_add_stack(profile, sample.stack, ids[depth], &sample.stack, NULL), 0);
		}
		assert_int_equal(profile_add_sample(profile, &sample, &(int64_t){1 + i % 3}, NULL), 0);
	}
	assert_int_equal(store_append(store, profile, &options, NULL, NULL), 0);
	profile_free(profile);
}

static uint64_t peak_kib(void)
{
	char line[256];
	unsigned long long kib = 0;
	FILE *file = fopen("/proc/self/status", "r");
	assert_non_null(file);
	while (fgets(line, sizeof(line), file) && sscanf(line, "VmHWM: %llu", &kib) != 1)
		;
	fclose(file);
	return kib;
}

/* Compacts in a process of its own; the result is the growth of its resident memory at the worst moment, in MiB. */
static uint64_t measure_compaction(const char *directory, uint64_t memory_bytes, uint64_t *ret_blocks)
{
	int pipes[2];
	uint64_t result[2] = {0};
	assert_int_equal(pipe(pipes), 0);
	pid_t child = fork();
	assert_true(child >= 0);
	if (child == 0) {
		struct store_options options = {.retention_age_ns = -1, .compact_memory_bytes = memory_bytes};
		struct store_stats stats;
		mem_return_large();
		struct store *store = test_open_manual(directory, &options);
		int fd = io_open("/proc/self/clear_refs", O_WRONLY, 0, NULL);
		if (fd < 0 || write(fd, "5", 1) != 1)
			_exit(77);
		uint64_t before = peak_kib();
		if (store_compact(store, TEST_DAY_0 + 3 * TEST_DAY, NULL) < 0)
			_exit(1);
		result[0] = (peak_kib() - before) / 1024;
		store_get_stats(store, &stats);
		result[1] = stats.blocks;
		_exit(write(pipes[1], result, sizeof(result)) == sizeof(result) ? 0 : 1);
	}
	int status;
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFEXITED(status) && (WEXITSTATUS(status) == 0 || WEXITSTATUS(status) == 77));
	if (WEXITSTATUS(status) == 0)
		assert_int_equal(read(pipes[0], result, sizeof(result)), sizeof(result));
	close(pipes[0]);
	close(pipes[1]);
	*ret_blocks = result[1];
	return result[0];
}

/* As many blocks as fit are merged, and what is given is not passed. */
static void memory_is_bounded(void **state)
{
	char *directory = test_directory();
	struct store_options options = {.retention_age_ns = -1, .head_size_bytes = 1ull << 30};
	struct store *store = test_open_manual(directory, &options);
	uint64_t blocks, peak;
	char copy[PATH_MAX];
	for (uint32_t i = 0; i < 5; i++) {
		append_stacks(store, TEST_DAY_0 + i * TEST_MINUTE, 250000, i);
		test_cut(store);
	}
	store_close(store);
	snprintf(copy, sizeof(copy), "%s.copy", directory);
	copy_tree(directory, copy);
	peak = measure_compaction(directory, 64 << 20, &blocks);
	if (blocks == 0) {
		print_message("skipped: the peak of memory cannot be reset here\n");
	} else {
		print_message("peak %" PRIu64 " MiB of 64, %" PRIu64 " blocks of 5\n", peak, blocks);
		assert_true(peak <= 64);
		assert_true(blocks > 1 && blocks < 5);
		peak = measure_compaction(copy, 256 << 20, &blocks);
		print_message("peak %" PRIu64 " MiB of 256, %" PRIu64 " blocks of 5\n", peak, blocks);
		assert_true(peak <= 256);
		assert_int_equal(blocks, 1);
	}
	test_directory_remove(directory);
	test_directory_remove(mem_strdup(copy));
}
#endif

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(levels_hold_the_same),
		cmocka_unit_test(one_block_gets_rollups),
		cmocka_unit_test(late_blocks_do_not_rewrite_large_ones),
		cmocka_unit_test(a_crowd_is_merged_early),
		cmocka_unit_test(retries_are_known_after_merges),
		cmocka_unit_test(replaced_blocks_go_at_start),
		cmocka_unit_test(damaged_rows_are_left_out),
		cmocka_unit_test(samples_go_and_rollups_stay),
		cmocka_unit_test(rules_give_series_an_age),
		cmocka_unit_test(blocks_of_short_lived_series_go_whole),
		cmocka_unit_test(deleted_samples_are_gone),
		cmocka_unit_test(rollups_alone_are_deleted_whole_or_kept),
		cmocka_unit_test(a_deletion_is_durable_beside_damage),
		cmocka_unit_test(what_cannot_be_checked_stays),
		cmocka_unit_test(failed_writes_change_nothing),
		cmocka_unit_test(failed_syncs_change_nothing),
		cmocka_unit_test(failed_renames_change_nothing),
		cmocka_unit_test(failed_opens_change_nothing),
		cmocka_unit_test(missing_memory_changes_nothing),
		cmocka_unit_test(a_full_disk_is_waited_for),
		cmocka_unit_test(queries_go_on_meanwhile),
		cmocka_unit_test(series_in_another_order_are_turned),
		cmocka_unit_test(processes_are_merged),
#ifndef __SANITIZE_ADDRESS__
		cmocka_unit_test(memory_is_bounded),
#endif
	};
	test_seed_from_environment();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
