/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Each byte of a store's files is covered by a checksum: a flipped bit in any of them is found and named, and what is not
 * damaged stays readable.
 *
 * WICK_FLIPS sets how many bytes of a larger file are tried (200; 0 = all). Files below 2 KiB are tried byte by byte.
 */
#include "store/test_store.h"
#include "store/verify.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "base/limits.h"
#include "base/test_stride.h"
#include "store/store_int.h"

#define SMALL_FILE 2048
#define APPENDS	   12

struct problems {
	char text[65536];
	unsigned count;
};

static void on_problem(void *context, const char *message)
{
	struct problems *problems = context;
	size_t len = strlen(problems->text);
	snprintf(problems->text + len, sizeof(problems->text) - len, "%s\n", message);
	problems->count++;
}

static struct store *open_store(const char *directory, struct problems *problems)
{
	struct store_options options = {
		.directory = directory, .retention_age_ns = -1, .manual = true, .on_problem = on_problem, .context = problems};
	struct store *store = NULL;
	struct error err = {0};
	memset(problems, 0, sizeof(*problems));
	if (store_open(&options, &store, &err) < 0)
		fail_msg("%s", err.message);
	return store;
}

/* Three blocks, the third of which is not touched, and a log with APPENDS records: what a process leaves that ends by itself.
 */
static void fill(const char *directory, struct model *model)
{
	struct problems problems;
	struct store *store = open_store(directory, &problems);
	uint8_t id[16] = {1};
	for (int block = 0; block < 3; block++) {
		for (int i = 0; i < APPENDS; i++) {
			id[1]++;
			assert_int_equal(test_append(store, model, 8, id, NULL), 0);
		}
		assert_int_equal(store_cut(store, NULL), 0);
	}
	store_close(store);
}

static void append_and_exit(const char *directory)
{
	fflush(NULL);
	pid_t child = fork();
	assert_true(child >= 0);
	if (child == 0) {
		struct problems problems;
		struct model model = {0};
		struct store *store = open_store(directory, &problems);
		for (int i = 0; i < APPENDS; i++)
			if (test_append(store, &model, 4, NULL, NULL) < 0)
				_exit(1);
		_exit(0);
	}
	int status;
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
}

static struct store_verify_result verify(const char *directory, struct problems *problems)
{
	struct store_verify_options options = {.directory = directory, .on_problem = on_problem, .context = problems};
	struct store_verify_result result;
	struct error err = {0};
	memset(problems, 0, sizeof(*problems));
	if (store_verify(&options, &result, &err) < 0)
		fail_msg("%s", err.message);
	assert_int_equal(result.problems, problems->count);
	return result;
}

/* ---- flipping ---- */

static size_t flips_wanted(void)
{
	const char *text = getenv("WICK_FLIPS");
	return text ? strtoul(text, NULL, 10) : 200;
}

/* Each byte of the file, or some: verify() must name the file. Returns how many were tried. */
static size_t flip_file(const char *directory, const char *path, const char *name)
{
	struct problems problems;
	struct buffer bytes;
	size_t tried = 0, wanted = flips_wanted();
	buffer_init(&bytes, 64 * MIB);
	assert_int_equal(io_read_file(path, 64 * MIB, &bytes, NULL), 0);
	bool all = bytes.len <= SMALL_FILE || wanted == 0;
	for (size_t i = 0; i < (all ? bytes.len : wanted); i += test_stride(), tried++) {
		size_t at = all ? i : rnd_below((uint32_t)bytes.len);
		/* Headers and footers are at the ends: there each byte. */
		if (!all && i < 64)
			at = i % 2 ? i / 2 : bytes.len - 1 - i / 2;
		uint8_t flip = (uint8_t)(1u << rnd_below(8));
		int fd = open(path, O_WRONLY | O_CLOEXEC);
		bytes.data[at] ^= flip;
		assert_int_equal(pwrite(fd, bytes.data + at, 1, (off_t)at), 1);
		verify(directory, &problems);
		/* Rows of the log that refer to what only the damaged record held are a problem of their own. */
		unsigned expected = strstr(problems.text, "\nthe log: ") ? 2 : 1;
		if (problems.count != expected || !strstr(problems.text, name))
			fail_msg("%s: bit %02x of byte %zu of %zu: %u problems: %s", path, flip, at, bytes.len, problems.count,
				 problems.text);
		bytes.data[at] ^= flip;
		assert_int_equal(pwrite(fd, bytes.data + at, 1, (off_t)at), 1);
		close(fd);
	}
	buffer_release(&bytes);
	return tried;
}

/* All files of a directory. */
static size_t flip_directory(const char *store, const char *path)
{
	char file[PATH_MAX];
	size_t tried = 0;
	DIR *dir = opendir(path);
	assert_non_null(dir);
	for (struct dirent *entry; (entry = readdir(dir));) {
		if (entry->d_name[0] == '.')
			continue;
		assert_int_equal(io_join_path(file, sizeof(file), path, entry->d_name), 0);
		tried += flip_file(store, file, entry->d_name);
	}
	closedir(dir);
	return tried;
}

/* The blocks' directories in the order of their names. */
static size_t list_blocks(const char *directory, char paths[][PATH_MAX], size_t max)
{
	char blocks[PATH_MAX];
	struct dirent **entries;
	size_t count = 0;
	assert_int_equal(io_join_path(blocks, sizeof(blocks), directory, "blocks"), 0);
	int found = scandir(blocks, &entries, NULL, alphasort);
	for (int i = 0; i < found; i++) {
		if (entries[i]->d_name[0] != '.' && count < max)
			assert_int_equal(io_join_path(paths[count++], PATH_MAX, blocks, entries[i]->d_name), 0);
		free(entries[i]);
	}
	free(entries);
	return count;
}

static void test_blocks(void **state)
{
	char *directory = test_directory(), paths[8][PATH_MAX];
	struct model model = {0};
	struct problems problems;
	fill(directory, &model);
	struct store_verify_result whole = verify(directory, &problems);
	assert_int_equal(whole.problems, 0);
	assert_int_equal(whole.blocks, 3);
	assert_true(whole.files >= 3 * 8 && whole.bytes > 0 && !whole.is_in_use);
	assert_int_equal(list_blocks(directory, paths, 8), 3);
	size_t tried = flip_directory(directory, paths[0]);
	assert_true(tried > 1000 / test_stride());
	assert_int_equal(verify(directory, &problems).problems, 0);
	model_release(&model);
	test_directory_remove(directory);
}

static void test_log(void **state)
{
	char *directory = test_directory(), log[PATH_MAX];
	struct problems problems;
	append_and_exit(directory);
	struct store_verify_result whole = verify(directory, &problems);
	assert_int_equal(whole.problems, 0);
	assert_int_equal(whole.records, APPENDS);
	assert_int_equal(io_join_path(log, sizeof(log), directory, "log"), 0);
	assert_true(flip_directory(directory, log) >= 200 / test_stride());
	/* Looking changed nothing. */
	assert_int_equal(verify(directory, &problems).records, APPENDS);
	test_directory_remove(directory);
}

/* ---- reading around the damage ---- */

static int64_t sum_all(struct store *store)
{
	struct store_select select = {.from_ns = INT64_MIN, .to_ns = INT64_MAX};
	struct profile *into = NULL;
	struct error err = {0};
	int64_t sum = 0;
	assert_int_equal(profile_new(&into, NULL), 0);
	if (store_merge(store, &select, NULL, into, NULL, &err) < 0)
		fail_msg("%s", err.message);
	for (size_t i = 0; i < into->sample_count; i++)
		sum += into->values[i];
	profile_free(into);
	return sum;
}

/* Blocks whose samples are 1, 100 and 10,000: the sum shows which of them were read. */
static void fill_weighted(const char *directory)
{
	struct problems problems;
	struct store *store = open_store(directory, &problems);
	for (int64_t weight = 1; weight <= 10000; weight *= 100) {
		struct profile *profile = NULL;
		struct profile_function function = {0};
		struct profile_line line = {0};
		struct profile_location location = {0};
		uint32_t id, stack;
		assert_int_equal(profile_new(&profile, NULL), 0);
		profile_add_sample_type(profile, test_string(profile, "samples"), test_string(profile, "count"), NULL);
		profile->time_ns = TEST_EPOCH;
		for (int i = 0; i < 20; i++) {
			function.name = test_string(profile, "function%d", i);
			profile_add_function(profile, &function, &line.function, NULL);
			profile_add_location(profile, &location, &line, 1, &id, NULL);
			profile_add_stack(profile, 0, id, &stack, NULL);
			profile_add_sample(profile, &(struct profile_sample){.stack = stack}, &weight, NULL);
		}
		assert_int_equal(
			store_append(store, profile, &(struct store_append_options){.received_ns = TEST_EPOCH}, NULL, NULL), 0);
		assert_int_equal(store_cut(store, NULL), 0);
		profile_free(profile);
	}
	store_close(store);
}

/* One flipped bit: a query answers with everything. More of them: with everything, or with everything but what is damaged,
 * which is then named. */
static void read_flipped(const char *directory, const char *path, const char *name, size_t at, uint8_t flip)
{
	struct problems problems;
	uint8_t byte;
	int fd = open(path, O_RDWR | O_CLOEXEC);
	assert_int_equal(pread(fd, &byte, 1, (off_t)at), 1);
	byte ^= flip;
	assert_int_equal(pwrite(fd, &byte, 1, (off_t)at), 1);
	close(fd);
	struct store *store = open_store(directory, &problems);
	int64_t sum = sum_all(store);
	assert_int_equal(sum_all(store), sum);
	if (sum != 20 * 10101 && sum != 20 * 10001)
		fail_msg("%s: bit %02x of byte %zu: the sum is %" PRId64, path, flip, at, sum);
	if (sum == 20 * 10001 && (!(flip & (flip - 1)) || problems.count == 0 || !strstr(problems.text, name)))
		fail_msg("%s: bit %02x of byte %zu: the sum is %" PRId64 ", problems: %s", path, flip, at, sum, problems.text);
	store_close(store);
}

static void copy_tree(const char *from, const char *to)
{
	char command[3 * PATH_MAX];
	snprintf(command, sizeof(command), "rm -rf '%s' && cp -r '%s' '%s'", to, from, to);
	assert_int_equal(system(command), 0);
}

static void test_reading(void **state)
{
	char *directory = test_directory(), *copy = test_directory(), paths[8][PATH_MAX], file[PATH_MAX];
	fill_weighted(directory);
	for (size_t i = 0; i < BLOCK_FILE_COUNT + 1; i++) {
		const char *name = i < BLOCK_FILE_COUNT ? block_file_names[i] : "meta.json";
		for (int round = 0; round < 25; round++) {
			struct stat status;
			copy_tree(directory, copy);
			assert_int_equal(list_blocks(copy, paths, 8), 3);
			assert_int_equal(io_join_path(file, sizeof(file), paths[1], name), 0);
			if (stat(file, &status) < 0)
				break; /* not every block has each */
			uint8_t bit = (uint8_t)(1u << rnd_below(8)), more = (uint8_t)(bit << 4 | bit >> 4);
			read_flipped(copy, file, name, rnd_below((uint32_t)status.st_size), round % 2 ? bit | more : bit);
		}
	}
	test_directory_remove(directory);
	test_directory_remove(copy);
}

/* ---- what is no store, or in use ---- */

static void test_in_use(void **state)
{
	char *directory = test_directory(), path[PATH_MAX];
	struct problems problems;
	struct model model = {0};
	struct error err = {0};
	struct store_verify_result result;
	struct store_verify_options options = {.directory = directory};
	assert_int_equal(store_verify(&options, &result, &err), -ENOENT);
	assert_non_null(strstr(err.message, directory));
	fill(directory, &model);
	struct store *store = open_store(directory, &problems);
	result = verify(directory, &problems);
	assert_true(result.is_in_use && result.problems == 0 && result.blocks == 3);
	store_close(store);
	atomic_bool cancel = true;
	options.cancel = &cancel;
	assert_int_equal(store_verify(&options, &result, &err), -ECANCELED);
	/* A stranger in blocks/ is named, the rest is looked at all the same. */
	assert_int_equal(io_join_path(path, sizeof(path), directory, "blocks/stranger"), 0);
	assert_int_equal(io_make_dirs(path, 0750, NULL), 0);
	result = verify(directory, &problems);
	assert_true(result.problems == 1 && result.blocks == 4 && result.files >= 3 * 8);
	assert_non_null(strstr(problems.text, "stranger"));
	model_release(&model);
	test_directory_remove(directory);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_blocks),
		cmocka_unit_test(test_log),
		cmocka_unit_test(test_reading),
		cmocka_unit_test(test_in_use),
	};
	test_seed_from_environment();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
