/* SPDX-License-Identifier: Apache-2.0 */
/* What is damaged, cut off or set aside makes answers about its time partial, before and after a restart, and no others. */
#include "store/compact/test_compact.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

static void append_at(struct store *store, int64_t time_ns)
{
	if (test_append_at(store, NULL, time_ns, NS_PER_S, 5) < 0)
		fail_msg("append");
}

/* The first entry of DIRECTORY/NAME that contains `part`, with its path. */
static void find_entry(const char *directory, const char *name, const char *part, char path[static 512])
{
	char folder[256];
	snprintf(folder, sizeof(folder), "%s/%s", directory, name);
	DIR *dir = opendir(folder);
	assert_non_null(dir);
	path[0] = '\0';
	for (const struct dirent *entry; (entry = readdir(dir));)
		if (entry->d_name[0] != '.' && strstr(entry->d_name, part))
			snprintf(path, 512, "%s/%s", folder, entry->d_name);
	closedir(dir);
	assert_true(path[0] != '\0');
}

static void flip(const char *path, off_t at)
{
	uint8_t byte;
	int fd = open(path, O_RDWR);
	assert_true(fd >= 0);
	if (at < 0)
		at += lseek(fd, 0, SEEK_END);
	assert_int_equal(pread(fd, &byte, 1, at), 1);
	byte ^= 0xff;
	assert_int_equal(pwrite(fd, &byte, 1, at), 1);
	close(fd);
}

static int no_item(void *context, const struct store_item *item, struct error *err)
{
	return 0;
}

static int no_point(void *context, uint32_t group, uint64_t bucket, int64_t value, struct error *err)
{
	return 0;
}

/* Whether all kinds of questions about the range say that their answers are partial, or none does; the reason is copied. */
static bool is_partial(struct store *store, int64_t from_ns, int64_t to_ns, char why[static 160])
{
	struct store_select select = {.from_ns = from_ns, .to_ns = to_ns};
	struct store_read_stats merged, points, types;
	struct profile *into;
	struct error err = {0};
	struct store_grouping grouping = {.by = (const char *const[]){"none"}, .by_count = 1};
	struct test_sink *sink = test_sink_new("", true);
	grouping.group = test_group;
	grouping.context = sink;
	assert_int_equal(profile_new(&into, NULL), 0);
	if (store_series(store, &select, &grouping, 0, no_point, NULL, &points, &err) < 0)
		fail_msg("%s", err.message);
	assert_int_equal(store_list_types(store, &select, no_item, NULL, &types, NULL), 0);
	int r = store_merge(store, &select, NULL, into, &merged, &err);
	if (r == 0)
		assert_int_equal(merged.partial, points.partial);
	/* Of rows that are lost the names are known all the same. */
	assert_true(types.partial == points.partial || points.lost_rows);
	snprintf(why, 160, "%s", points.why);
	profile_free(into);
	test_sink_free(sink);
	return points.partial;
}

static const struct store_options keep_all = {.retention_age_ns = -1, .late_window_ns = -1};

static void test_blocks(void **state)
{
	char *directory = test_directory(), path[512], file[600], why[160], part[32];
	struct store *store = test_open_manual(directory, &keep_all);
	append_at(store, TEST_DAY_0);
	test_cut(store);
	append_at(store, TEST_DAY_0 + TEST_DAY);
	test_cut(store);
	assert_false(is_partial(store, TEST_DAY_0, TEST_DAY_0 + 3 * TEST_DAY, why));
	store_close(store);
	snprintf(part, sizeof(part), "%lld", TEST_DAY_0 / 100000000000);
	find_entry(directory, "blocks", part, path);
	snprintf(file, sizeof(file), "%s/samples.parquet", path);
	flip(file, 40);
	store = test_open_manual(directory, &keep_all);
	for (int i = 0; i < 4; i++) {
		/* The first question finds the damage and says so; so do all after it, and after a restart. */
		assert_true(is_partial(store, TEST_DAY_0, TEST_DAY_0 + TEST_HOUR, why));
		assert_non_null(strstr(why, i < 2 ? "are damaged" : "quarantine"));
		/* From now on the block cannot be used at all. */
		if (i == 1) {
			snprintf(file, sizeof(file), "%s/series.parquet", path);
			flip(file, 40);
		}
		assert_true(is_partial(store, TEST_DAY_0 - TEST_DAY, TEST_DAY_0 + 3 * TEST_DAY, why));
		assert_false(is_partial(store, TEST_DAY_0 + TEST_DAY, TEST_DAY_0 + 3 * TEST_DAY, why));
		store_close(store);
		store = test_open_manual(directory, &keep_all);
	}
	store_close(store);
	/* Metadata that is damaged, too: from the name on. */
	find_entry(directory, "blocks", "-", path);
	snprintf(file, sizeof(file), "%s/meta.json", path);
	flip(file, 40);
	store = test_open_manual(directory, &keep_all);
	assert_true(is_partial(store, TEST_DAY_0 + TEST_DAY, TEST_DAY_0 + 3 * TEST_DAY, why));
	assert_false(is_partial(store, TEST_DAY_0 - 2 * TEST_DAY, TEST_DAY_0 - TEST_DAY, why));
	store_close(store);
	test_directory_remove(directory);
}

/* As a crash leaves it: nothing is cut into a block. */
static void copy_directory(const char *from, const char *to)
{
	char command[600];
	snprintf(command, sizeof(command), "cp -a %s/. %s", from, to);
	assert_int_equal(system(command), 0);
}

static void test_log(void **state)
{
	char *directory = test_directory(), *crashed = test_directory(), path[512], why[160];
	struct store *store = test_open_manual(directory, &keep_all);
	int64_t now = time_now_ns();
	for (int i = 0; i < 3; i++)
		append_at(store, now - 60 * NS_PER_S);
	copy_directory(directory, crashed);
	store_close(store);
	find_entry(crashed, "log", ".log", path);
	flip(path, 300); /* in the first record */
	for (int i = 0; i < 2; i++) {
		store = test_open_manual(crashed, &keep_all);
		assert_true(is_partial(store, now - 600 * NS_PER_S, now + TEST_HOUR, why));
		assert_non_null(strstr(why, "log"));
		assert_false(is_partial(store, now - 3 * TEST_DAY, now - TEST_DAY, why));
		store_close(store);
	}
	test_directory_remove(directory);
	test_directory_remove(crashed);
}

static void test_cut_log(void **state)
{
	char *directory = test_directory(), *crashed = test_directory(), path[512], why[160];
	struct store *store = test_open_manual(directory, &keep_all);
	struct store_stats stats;
	struct stat about;
	int64_t now = time_now_ns();
	append_at(store, now);
	find_entry(directory, "log", ".log", path);
	struct stat one;
	assert_int_equal(stat(path, &one), 0);
	append_at(store, now);
	copy_directory(directory, crashed);
	store_close(store);
	find_entry(crashed, "log", ".log", path);
	assert_int_equal(stat(path, &about), 0);
	/* The last record has lost its end. */
	int fd = open(path, O_RDWR);
	uint8_t byte = 0;
	off_t end = about.st_size;
	while (byte == 0 && end > 0)
		assert_int_equal(pread(fd, &byte, 1, --end), 1);
	assert_int_equal(ftruncate(fd, end - 20), 0);
	close(fd);
	store = test_open_manual(crashed, &keep_all);
	store_get_stats(store, &stats);
	assert_true(stats.log_cut_bytes > 0);
	assert_true(is_partial(store, now - 60 * NS_PER_S, now + TEST_HOUR, why));
	assert_non_null(strstr(why, "cut off"));
	store_close(store);
	test_directory_remove(directory);
	test_directory_remove(crashed);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_blocks), cmocka_unit_test(test_log),
					   cmocka_unit_test(test_cut_log)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
