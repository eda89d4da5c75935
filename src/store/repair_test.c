/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Repair: flipped bits are put right, what is left of damaged blocks is rewritten, blocks come out of the quarantine; what is
 * lost is counted, and afterwards the store verifies and answers with the rest.
 */
#include "store/compact/test_compact.h"
#include "store/repair.h"
#include "store/verify.h"

#include <fcntl.h>
#include <sys/stat.h>

#include "base/limits.h"

struct repaired {
	struct store_repair_block blocks[16];
	char names[16][BLOCK_NAME_MAX], rebuilt[16][256];
	size_t count;
	unsigned messages, progress;
};

static void on_block(void *context, const struct store_repair_block *block)
{
	struct repaired *repaired = context;
	assert_true(repaired->count < 16);
	snprintf(repaired->names[repaired->count], BLOCK_NAME_MAX, "%s", block->name);
	repaired->blocks[repaired->count++] = *block;
}

static void on_damage(void *context, const char *message)
{
	((struct repaired *)context)->messages++;
	assert_true(message[0] != '\0');
}

static void on_progress(void *context, uint64_t done, uint64_t count, uint64_t bytes_done, uint64_t bytes)
{
	((struct repaired *)context)->progress++;
	assert_true(done < count && bytes_done <= bytes);
}

static struct store_repair_result repair(const char *directory, bool dry_run, struct repaired *repaired)
{
	const struct store_repair_options options = {.directory = directory,
						     .dry_run = dry_run,
						     .on_block = on_block,
						     .on_damage = on_damage,
						     .on_progress = on_progress,
						     .context = repaired};
	struct store_repair_result result;
	struct error err = {0};
	memset(repaired, 0, sizeof(*repaired));
	if (store_repair(&options, &result, &err) < 0)
		fail_msg("%s", err.message);
	assert_int_equal(result.damaged, repaired->count);
	return result;
}

static void on_problem(void *context, const char *message)
{
	snprintf(context, 1024, "%s", message);
}

static uint64_t problems(const char *directory)
{
	char last[1024] = "";
	const struct store_verify_options options = {.directory = directory, .on_problem = on_problem, .context = last};
	struct store_verify_result result;
	struct error err = {0};
	if (store_verify(&options, &result, &err) < 0)
		fail_msg("%s", err.message);
	return result.problems;
}

static int add_point(void *context, uint32_t group, uint64_t bucket, int64_t value, struct error *err)
{
	*(int64_t *)context += value;
	return 0;
}

/* Of all samples; *ret: what the answer says of itself. */
static int64_t sum_of(const char *directory, struct store_read_stats *ret)
{
	struct store *store = test_open_manual(directory, NULL);
	struct store_select select = {TEST_SAMPLES, .from_ns = INT64_MIN, .to_ns = INT64_MAX, .samples_only = true};
	int64_t sum = 0;
	assert_int_equal(store_series(store, &select, NULL, 0, add_point, &sum, ret, NULL), 0);
	store_close(store);
	return sum;
}

/* Two blocks with rollups, and one without, of several pages. */
static void fill(const char *directory, char blocks[3][PATH_MAX])
{
	struct store *store = test_open_manual(directory, NULL);
	for (int64_t hour = 0; hour < 6; hour += 2) {
		for (int i = 0; i < (hour < 4 ? 4 : 40); i++) {
			size_t samples = hour < 4 ? 200 : 1000;
			assert_int_equal(test_append_at(store, NULL, TEST_DAY_0 + hour * TEST_HOUR, TEST_HOUR, samples), 0);
			if (hour < 4)
				test_cut(store);
		}
	}
	test_compact(store, TEST_DAY_0 + 5 * TEST_HOUR);
	test_cut(store);
	assert_int_equal(local_of(store)->block_count, 3);
	for (size_t i = 0; i < 3; i++)
		snprintf(blocks[i], PATH_MAX, "%s", local_of(store)->blocks[i]->path);
	store_close(store);
}

static void change(const char *block, const char *file, int64_t at, const char *mask, size_t count)
{
	char path[PATH_MAX + 32];
	uint8_t bytes[64];
	snprintf(path, sizeof(path), "%s/%s", block, file);
	int fd = open(path, O_RDWR | O_CLOEXEC);
	assert_true(fd >= 0 && count <= sizeof(bytes));
	if (at < 0)
		at += lseek(fd, 0, SEEK_END);
	assert_int_equal(pread(fd, bytes, count, at), count);
	for (size_t i = 0; i < count; i++)
		bytes[i] ^= (uint8_t)mask[i];
	assert_int_equal(pwrite(fd, bytes, count, at), count);
	close(fd);
}

#define MUCH "\xff\x5a\xff\x5a\xff\x5a\xff\x5a", 8

static void test_flipped_bits(void **state)
{
	char *directory = test_directory(), blocks[3][PATH_MAX];
	struct repaired repaired;
	struct store_read_stats stats;
	fill(directory, blocks);
	int64_t all = sum_of(directory, &stats);
	assert_int_equal(repair(directory, false, &repaired).damaged, 0);
	change(blocks[0], "samples.parquet", 300, "\x10", 1);
	change(blocks[0], "rollup_5m.parquet", -100, "\x01", 1);
	change(blocks[1], "meta.json", 100, "\x02", 1);
	change(blocks[2], "series.parquet", 50, "\x80", 1);
	assert_int_equal(problems(directory), 4);
	struct store_repair_result result = repair(directory, true, &repaired);
	assert_int_equal(result.bits, 4);
	assert_int_equal(problems(directory), 4); /* nothing was changed */
	result = repair(directory, false, &repaired);
	assert_true(result.blocks == 3 && result.damaged == 3 && result.bits == 4);
	assert_true(result.rewritten == 0 && result.failed == 0 && result.rows_lost == 0);
	assert_int_equal(repaired.progress, 3);
	for (size_t i = 0; i < 3; i++)
		assert_int_equal(repaired.blocks[i].outcome, STORE_REPAIR_WHOLE);
	assert_int_equal(problems(directory), 0);
	assert_int_equal(sum_of(directory, &stats), all);
	assert_false(stats.partial);
	test_directory_remove(directory);
}

/* More than bits: rows, and sums that are made of rows. */
static void test_damage(void **state)
{
	char *directory = test_directory(), blocks[3][PATH_MAX];
	struct repaired repaired;
	struct store_read_stats stats, after;
	fill(directory, blocks);
	int64_t all = sum_of(directory, &stats);
	uint64_t rows = stats.rows;
	change(blocks[0], "rollup_1h.parquet", 40, MUCH);
	change(blocks[0], "totals.parquet", -9, MUCH); /* the footer's end */
	change(blocks[1], "labels.parquet", 40, MUCH);
	/* A page of values: not one that answers without stacks do not need, nor a dictionary, which takes them all. */
	int64_t at = -3000, left;
	for (;; at -= 500) {
		change(blocks[2], "samples.parquet", at, MUCH);
		left = sum_of(directory, &stats);
		if (stats.lost_rows > 0 && stats.lost_rows <= PARQUET_PAGE_ROWS)
			break;
		change(blocks[2], "samples.parquet", at, MUCH);
	}
	assert_true(problems(directory) >= 4); /* some may be in two pages */
	assert_true(left < all && stats.partial && stats.lost_rows > 0);
	/* A dry run foresees what happens. */
	struct store_repair_result dry = repair(directory, true, &repaired);
	assert_true(problems(directory) >= 4); /* some may be in two pages */
	struct store_repair_result result = repair(directory, false, &repaired);
	assert_memory_equal(&dry, &result, sizeof(result));
	assert_true(result.damaged == 3 && result.rewritten == 3 && result.failed == 0);
	assert_int_equal(result.rows_lost, stats.lost_rows);
	assert_true(repaired.messages >= 4);
	assert_non_null(strstr(repaired.blocks[0].rebuilt, "rollup_1h.parquet"));
	assert_non_null(strstr(repaired.blocks[0].rebuilt, "totals.parquet"));
	assert_string_equal(repaired.blocks[1].rebuilt, "labels.parquet");
	assert_int_equal(problems(directory), 0);
	assert_int_equal(sum_of(directory, &after), left);
	/* What is lost is still told, by the new block. */
	assert_true(after.partial && after.lost_rows == stats.lost_rows && after.rows + after.lost_rows == rows);
	struct store *store = test_open_manual(directory, NULL);
	test_check_blocks(store);
	store_close(store);
	assert_int_equal(repair(directory, false, &repaired).damaged, 0);
	test_directory_remove(directory);
}

/* What stacks are made of: values are right, frames say that they are not known. */
static void test_names(void **state)
{
	static const char *const files[] = {"stacks.parquet", "locations.parquet", "lines.parquet", "functions.parquet",
					    "mappings.parquet"};
	bool any_damaged = false;
	for (size_t f = 0; f < 5; f++) {
		char *directory = test_directory(), blocks[3][PATH_MAX];
		struct repaired repaired;
		struct store_read_stats stats;
		struct store_select select = {TEST_SAMPLES, .from_ns = INT64_MIN, .to_ns = INT64_MAX};
		int64_t all = 0;
		fill(directory, blocks);
		for (int round = 0; round < 3; round++) {
			struct store *store = test_open_manual(directory, NULL);
			struct profile *into;
			struct error err = {0};
			int64_t sum = 0;
			size_t damaged = 0;
			assert_int_equal(profile_new(&into, NULL), 0);
			if (store_merge(store, &select, NULL, into, &stats, &err) < 0)
				fail_msg("%s", err.message);
			for (size_t i = 0; i < into->sample_count; i++)
				sum += into->values[i];
			for (uint32_t i = 1; i < into->function_count; i++)
				damaged += !strcmp(profile_string(into, into->functions[i].name), BLOCK_DAMAGED_NAME);
			all = round ? all : sum;
			assert_int_equal(sum, all);
			assert_int_equal(stats.partial, round > 0);
			assert_int_equal(stats.lost_rows, 0);
			/* Another block may have the names of a stack of the same hash. */
			assert_true(round > 0 || damaged == 0);
			any_damaged |= damaged > 0;
			assert_int_equal(local_of(store)->block_count, 3);
			assert_int_equal(local_of(store)->stats.damaged_names > 0, round == 1);
			profile_free(into);
			store_close(store);
			if (round == 0) {
				/* Columns that are read, and such that are not; not the indexes behind them. */
				for (int64_t at = 40; at < 240; at += 50)
					change(blocks[1], files[f], at, MUCH);
				continue;
			}
			struct store_repair_result dry = repair(directory, true, &repaired);
			struct store_repair_result result = repair(directory, false, &repaired);
			/* Rows whose stacks are the same now are one. */
			assert_true(result.rows_kept <= dry.rows_kept);
			result.rows_kept = dry.rows_kept;
			assert_memory_equal(&dry, &result, sizeof(result));
			assert_int_equal(result.rewritten, round == 1);
			assert_int_equal(result.names_lost > 0, round == 1);
			assert_true(result.rows_lost == 0 && result.failed == 0);
			assert_int_equal(problems(directory), 0);
		}
		test_directory_remove(directory);
	}
	assert_true(any_damaged);
}

static void test_quarantine(void **state)
{
	char *directory = test_directory(), blocks[3][PATH_MAX], path[PATH_MAX];
	struct repaired repaired;
	struct store_read_stats stats;
	struct stat about;
	fill(directory, blocks);
	int64_t all = sum_of(directory, &stats), left;
	/* Series that cannot be read: nothing of the block can be told. */
	change(blocks[0], "series.parquet", 40, MUCH);
	left = sum_of(directory, &stats);
	assert_true(left < all && stats.partial);
	snprintf(path, sizeof(path), "%s/quarantine/%s", directory, strrchr(blocks[0], '/') + 1);
	assert_int_equal(stat(path, &about), 0);
	struct store_repair_result result = repair(directory, false, &repaired);
	assert_true(result.damaged == 1 && result.failed == 1);
	assert_true(repaired.blocks[0].was_set_aside && repaired.blocks[0].outcome == STORE_REPAIR_FAILED);
	assert_int_equal(stat(path, &about), 0);
	assert_int_equal(sum_of(directory, &stats), left);
	/* Somebody got the file back, and yet a bit of another one is flipped. */
	change(path, "series.parquet", 40, MUCH);
	change(path, "stacks.parquet", 60, "\x04", 1);
	result = repair(directory, false, &repaired);
	assert_true(result.restored == 1 && result.bits == 1 && result.failed == 0 && result.rows_lost == 0);
	assert_int_equal(problems(directory), 0);
	assert_int_equal(sum_of(directory, &stats), all);
	assert_false(stats.partial);
	/* A block that another one has already does not come twice. */
	struct store *store = test_open_manual(directory, NULL);
	char name[BLOCK_NAME_MAX];
	snprintf(name, sizeof(name), "%s", local_of(store)->blocks[0]->meta.replaces[0]);
	store_close(store);
	char command[3 * PATH_MAX];
	snprintf(command, sizeof(command), "mkdir -p %s/quarantine && cp -r %s %s/quarantine/%s", directory, blocks[2],
		 directory, name);
	assert_int_equal(system(command), 0);
	repair(directory, false, &repaired);
	assert_int_equal(repaired.blocks[0].outcome, STORE_REPAIR_REPLACED);
	assert_int_equal(sum_of(directory, &stats), all);
	assert_false(stats.partial);
	test_directory_remove(directory);
}

static void test_refused(void **state)
{
	char *directory = test_directory(), blocks[3][PATH_MAX];
	struct store_repair_result result;
	struct store_repair_options options = {.directory = directory};
	struct error err = {0};
	assert_int_equal(store_repair(&options, &result, &err), -ENOENT);
	fill(directory, blocks);
	struct store *store = test_open_manual(directory, NULL);
	assert_int_equal(store_repair(&options, &result, &err), -EBUSY);
	assert_non_null(strstr(err.message, "in use"));
	store_close(store);
	atomic_bool cancel = true;
	options.cancel = &cancel;
	assert_int_equal(store_repair(&options, &result, &err), -ECANCELED);
	test_directory_remove(directory);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_flipped_bits), cmocka_unit_test(test_damage),
					   cmocka_unit_test(test_names), cmocka_unit_test(test_quarantine),
					   cmocka_unit_test(test_refused)};
	test_seed_from_environment();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
