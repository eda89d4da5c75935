// SPDX-License-Identifier: Apache-2.0
/* Images on disk: what comes back, what is refused, what is removed. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fault.h"
#include "base/io.h"
#include "base/test_fixture.h"
#include "base/time.h"
#include "unwind/test_cfi.h"
#include "unwind/unwind_table.h"

#define ID_A "00112233445566778899aabbccddeeff00112233"
#define ID_B "ab"

struct fixture {
	char parent[64], directory[128], file[256];
	struct buffer image, loaded;
	struct unwind_cache *cache;
};
static const size_t fixture_bytes = sizeof(struct fixture);

static void make_image(uint32_t row_count, struct buffer *image)
{
	static struct test_cfi_row rows[100001];
	static const struct test_cfi_segment segments[] = {{0x1000, 0x1000, 0x1000000, PF_R | PF_X}};
	for (uint32_t i = 0; i <= row_count; i++)
		rows[i] = (struct test_cfi_row){0x1000 + 5 * i, i < row_count ? 8 + 8 * (i % 30) : 0};
	struct test_cfi cfi = {rows, row_count + 1, segments, 1};
	struct buffer bytes;
	struct elf_file file;
	test_cfi_build(&cfi, &bytes);
	buffer_init(image, UNWIND_TABLE_BYTES_MAX);
	assert_int_equal(elf_file_open_memory(&file, buffer_bytes(&bytes), "made", NULL), 0);
	assert_int_equal(unwind_table_build(&file, image, NULL, NULL), 0);
	assert_true(image->len > 0);
	elf_file_release(&file);
	buffer_release(&bytes);
}

static void open_cache(struct fixture *f, uint64_t bytes_max)
{
	struct error err = {0};
	if (unwind_cache_open(f->directory, bytes_max, &f->cache, &err) < 0)
		fail_msg("%s", err.message);
}

static int fixture_init(struct fixture *f)
{
	snprintf(f->parent, sizeof(f->parent), "/tmp/wick-cache-XXXXXX");
	assert_non_null(mkdtemp(f->parent));
	snprintf(f->directory, sizeof(f->directory), "%s/tables", f->parent);
	snprintf(f->file, sizeof(f->file), "%s/" ID_A ".unwind", f->directory);
	make_image(1000, &f->image);
	buffer_init(&f->loaded, UNWIND_TABLE_BYTES_MAX);
	return 0;
}

static void fixture_release(struct fixture *f)
{
	unwind_cache_close(f->cache);
	buffer_release(&f->image);
	buffer_release(&f->loaded);
	io_remove_tree(f->parent, NULL);
}

static struct unwind_cache_stats stats_of(const struct fixture *f)
{
	struct unwind_cache_stats stats;
	unwind_cache_get_stats(f->cache, &stats);
	return stats;
}

static unsigned count_files(const struct fixture *f)
{
	unsigned count = 0;
	DIR *directory = opendir(f->directory);
	for (const struct dirent *entry; (entry = readdir(directory));)
		count += entry->d_name[0] != '.';
	closedir(directory);
	return count;
}

static void test_what_is_stored_comes_back(void **state)
{
	struct fixture *f = *state;
	struct buffer none = {.max = 1};
	struct stat stat_of_file;
	open_cache(f, 1 << 20);
	assert_int_equal(unwind_cache_load(f->cache, ID_A, &f->loaded), 0);
	unwind_cache_store(f->cache, ID_A, &f->image);
	unwind_cache_store(f->cache, ID_B, &none);
	assert_int_equal(count_files(f), 2);
	assert_int_equal(stat(f->directory, &stat_of_file), 0);
	assert_int_equal(stat_of_file.st_mode & 07777, 0700);
	assert_int_equal(stat(f->file, &stat_of_file), 0);
	assert_int_equal(stat_of_file.st_mode & 07777, 0600);
	/* Also for the next run. */
	f->cache = unwind_cache_close(f->cache);
	open_cache(f, 1 << 20);
	assert_int_equal(stats_of(f).bytes, f->image.len + 2 * 176);
	assert_int_equal(unwind_cache_load(f->cache, ID_A, &f->loaded), 1);
	assert_int_equal(f->loaded.len, f->image.len);
	assert_memory_equal(f->loaded.data, f->image.data, f->image.len);
	assert_int_equal(unwind_cache_load(f->cache, ID_B, &f->loaded), 1);
	assert_int_equal(f->loaded.len, 0);
	assert_int_equal(unwind_cache_load(f->cache, "abcd", &f->loaded), 0);
	assert_int_equal(stats_of(f).loaded, 2);
	assert_int_equal(stats_of(f).damaged + stats_of(f).failed, 0);
}

static void test_no_cache(void **state)
{
	struct fixture *f = *state;
	unwind_cache_store(NULL, ID_A, &f->image);
	assert_int_equal(unwind_cache_load(NULL, ID_A, &f->loaded), 0);
	assert_null(unwind_cache_close(NULL));
}

static void test_hostile_names(void **state)
{
	static const char *const names[] = {"", "../evil", "a", "AB", "ab/cd", "..", "abc", "zz", "ab\n"};
	struct fixture *f = *state;
	char longest[200];
	open_cache(f, 1 << 20);
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		unwind_cache_store(f->cache, names[i], &f->image);
		assert_int_equal(unwind_cache_load(f->cache, names[i], &f->loaded), 0);
	}
	memset(longest, 'a', sizeof(longest));
	longest[130] = 0;
	unwind_cache_store(f->cache, longest, &f->image);
	assert_int_equal(count_files(f), 0);
	longest[128] = 0;
	unwind_cache_store(f->cache, longest, &f->image);
	assert_int_equal(count_files(f), 1);
	assert_int_equal(unwind_cache_load(f->cache, longest, &f->loaded), 1);
}

/* Every byte of header and image changed, and every length. */
static void test_damage_is_found(void **state)
{
	struct fixture *f = *state;
	_cleanup_(buffer_release) struct buffer file = {0};
	open_cache(f, 1 << 20);
	unwind_cache_store(f->cache, ID_A, &f->image);
	assert_int_equal(io_read_file(f->file, 1 << 20, &file, NULL), 0);
	uint64_t refused = 0;
	for (size_t i = 0; i < file.len; i += i < 200 ? 1 : 37) {
		file.data[i] ^= 0x10;
		assert_int_equal(io_write_file(f->file, file.data, file.len, 0600, NULL), 0);
		file.data[i] ^= 0x10;
		assert_int_equal(unwind_cache_load(f->cache, ID_A, &f->loaded), 0);
		assert_int_equal(f->loaded.len, 0);
		assert_int_equal(access(f->file, F_OK), -1);
		refused++;
	}
	assert_true(stats_of(f).damaged >= refused - 12 && stats_of(f).damaged <= refused);
	for (size_t len = 0; len < file.len; len += 1 + len / 8) {
		assert_int_equal(io_write_file(f->file, file.data, len, 0600, NULL), 0);
		assert_int_equal(unwind_cache_load(f->cache, ID_A, &f->loaded), 0);
	}
	assert_int_equal(io_write_file(f->file, file.data, file.len, 0600, NULL), 0);
	assert_int_equal(unwind_cache_load(f->cache, ID_A, &f->loaded), 1);
}

/* Stores the table of ID_A, and moves its file. */
static void store_and_move(struct fixture *f, const char *to)
{
	open_cache(f, 1 << 20);
	unwind_cache_store(f->cache, ID_A, &f->image);
	assert_int_equal(rename(f->file, to), 0);
}

/* A file under another name is another binary's. */
static void test_a_renamed_file_is_refused(void **state)
{
	struct fixture *f = *state;
	char other[256];
	snprintf(other, sizeof(other), "%s/abcdef.unwind", f->directory);
	store_and_move(f, other);
	assert_int_equal(unwind_cache_load(f->cache, "abcdef", &f->loaded), 0);
	assert_int_equal(stats_of(f).damaged, 1);
}

static void test_links_and_pipes_are_not_followed(void **state)
{
	struct fixture *f = *state;
	char elsewhere[256];
	snprintf(elsewhere, sizeof(elsewhere), "%s/elsewhere", f->parent);
	store_and_move(f, elsewhere);
	assert_int_equal(symlink(elsewhere, f->file), 0);
	assert_int_equal(unwind_cache_load(f->cache, ID_A, &f->loaded), 0);
	assert_int_equal(stats_of(f).failed, 1);
	/* Storing replaces the link and leaves what it points at. */
	struct buffer none = {.max = 1};
	unwind_cache_store(f->cache, ID_A, &none);
	struct stat stat_of_file;
	assert_int_equal(lstat(f->file, &stat_of_file), 0);
	assert_true(S_ISREG(stat_of_file.st_mode));
	assert_int_equal(stat(elsewhere, &stat_of_file), 0);
	assert_int_equal(stat_of_file.st_size, 176 + f->image.len);
	assert_int_equal(unlink(f->file), 0);
	assert_int_equal(mkfifo(f->file, 0600), 0);
	assert_int_equal(unwind_cache_load(f->cache, ID_A, &f->loaded), 0);
}

static void test_directories_of_others_are_refused(void **state)
{
	struct fixture *f = *state;
	struct error err;
	struct unwind_cache *cache = NULL;
	char link[256];
	assert_int_equal(mkdir(f->directory, 0700), 0);
	assert_int_equal(chmod(f->directory, 0770), 0);
	assert_int_equal(unwind_cache_open(f->directory, 1000, &cache, &err), -EPERM);
	assert_non_null(strstr(err.message, f->directory));
	assert_int_equal(chmod(f->directory, 0707), 0);
	assert_int_equal(unwind_cache_open(f->directory, 1000, &cache, &err), -EPERM);
	assert_int_equal(chmod(f->directory, 0755), 0);
	if (geteuid() == 0) {
		assert_int_equal(chown(f->directory, 1234, 0), 0);
		assert_int_equal(unwind_cache_open(f->directory, 1000, &cache, &err), -EPERM);
		assert_non_null(strstr(err.message, "1234"));
		assert_int_equal(chown(f->directory, 0, 0), 0);
	}
	snprintf(link, sizeof(link), "%s/link", f->parent);
	assert_int_equal(symlink(f->directory, link), 0);
	assert_int_equal(unwind_cache_open(link, 1000, &cache, &err), -ENOTDIR);
	snprintf(link, sizeof(link), "%s/missing/tables", f->parent);
	assert_int_equal(unwind_cache_open(link, 1000, &cache, &err), -ENOENT);
	assert_null(cache);
	assert_int_equal(unwind_cache_open(f->directory, 1000, &cache, &err), 0);
	unwind_cache_close(cache);
}

static void store_numbered(struct fixture *f, unsigned number)
{
	char id[16];
	snprintf(id, sizeof(id), "%08x", number);
	unwind_cache_store(f->cache, id, &f->image);
}

static bool has_numbered(struct fixture *f, unsigned number)
{
	char id[16];
	snprintf(id, sizeof(id), "%08x", number);
	return unwind_cache_load(f->cache, id, &f->loaded) == 1;
}

static void age_files(const struct fixture *f)
{
	char path[512];
	DIR *directory = opendir(f->directory);
	for (const struct dirent *entry; (entry = readdir(directory));) {
		struct stat stat_of_file;
		snprintf(path, sizeof(path), "%s/%s", f->directory, entry->d_name);
		if (entry->d_name[0] == '.' || stat(path, &stat_of_file) < 0)
			continue;
		struct timespec times[2] = {stat_of_file.st_atim, stat_of_file.st_mtim};
		times[1].tv_sec -= 1000;
		utimensat(AT_FDCWD, path, times, 0);
	}
	closedir(directory);
}

static void test_the_longest_unused_go_first(void **state)
{
	struct fixture *f = *state;
	uint64_t each = f->image.len + 176;
	open_cache(f, 16 * each);
	for (unsigned i = 0; i < 16; i++) {
		store_numbered(f, i);
		age_files(f);
	}
	assert_int_equal(count_files(f), 16);
	assert_true(has_numbered(f, 0)); /* which makes it the youngest */
	store_numbered(f, 16);
	assert_int_equal(stats_of(f).removed, 3); /* to 14 of 16 */
	assert_int_equal(stats_of(f).bytes, 14 * each);
	assert_true(has_numbered(f, 0));
	assert_false(has_numbered(f, 1));
	assert_false(has_numbered(f, 2));
	assert_false(has_numbered(f, 3));
	assert_true(has_numbered(f, 4));
	assert_true(has_numbered(f, 16));
	/* A smaller limit at the next start. */
	f->cache = unwind_cache_close(f->cache);
	open_cache(f, 4 * each);
	assert_true(count_files(f) <= 4);
	assert_true(stats_of(f).bytes <= 4 * each);
	/* What would drive out half of the others is not stored. */
	f->cache = unwind_cache_close(f->cache);
	open_cache(f, 2 * each - 2);
	unsigned before = count_files(f);
	store_numbered(f, 99);
	assert_int_equal(count_files(f), before);
	assert_int_equal(stats_of(f).stored, 0);
}

static void test_leftovers_of_a_crash(void **state)
{
	struct fixture *f = *state;
	char path[256];
	open_cache(f, 1 << 20);
	snprintf(path, sizeof(path), "%s/ab.1-2.tmp", f->directory);
	assert_int_equal(io_write_file(path, "x", 1, 0600, NULL), 0);
	f->cache = unwind_cache_close(f->cache);
	open_cache(f, 1 << 20);
	assert_int_equal(count_files(f), 1); /* may be another agent's that is being written */
	age_files(f);
	f->cache = unwind_cache_close(f->cache);
	open_cache(f, 1 << 20);
	assert_int_equal(count_files(f), 0);
}

static void test_faults(void **state)
{
	static const enum fault_kind kinds[] = {FAULT_ALLOC, FAULT_OPEN, FAULT_READ, FAULT_WRITE, FAULT_RENAME};
	struct fixture *f = *state;
	open_cache(f, 1 << 20);
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		for (uint64_t n = 1;; n++) {
			io_unlink(f->file, NULL);
			buffer_release(&f->loaded);
			fault_arm(kinds[i], n, 0);
			unwind_cache_store(f->cache, ID_A, &f->image);
			int r = unwind_cache_load(f->cache, ID_A, &f->loaded);
			bool reached = fault_disarm(kinds[i]);
			assert_true(reached || r == 1);
			if (r == 1)
				assert_memory_equal(f->loaded.data, f->image.data, f->image.len);
			assert_true(count_files(f) <= 1);
			if (!reached)
				break;
		}
	}
	assert_true(stats_of(f).failed > 0);
	/* A write that failed leaves the file as it was. */
	unwind_cache_store(f->cache, ID_A, &f->image);
	fault_arm(FAULT_WRITE, 2, 0);
	unwind_cache_store(f->cache, ID_A, &f->image);
	assert_true(fault_disarm(FAULT_WRITE));
	assert_int_equal(unwind_cache_load(f->cache, ID_A, &f->loaded), 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		FIXTURE_TEST(test_what_is_stored_comes_back),
		FIXTURE_TEST(test_no_cache),
		FIXTURE_TEST(test_hostile_names),
		FIXTURE_TEST(test_damage_is_found),
		FIXTURE_TEST(test_a_renamed_file_is_refused),
		FIXTURE_TEST(test_links_and_pipes_are_not_followed),
		FIXTURE_TEST(test_directories_of_others_are_refused),
		FIXTURE_TEST(test_the_longest_unused_go_first),
		FIXTURE_TEST(test_leftovers_of_a_crash),
		FIXTURE_TEST(test_faults),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
