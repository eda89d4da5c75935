/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fault.h"
#include "base/io.h"
#include "base/test_fixture.h"
#include "base/test_stride.h"
#include "base/time.h"
#include "elf/test_elf.h"

/* Files of a test are new: the clock goes ahead, so that they are not, and back, so that they are. */
static int64_t test_clock_ahead_ns;
static int64_t test_now_ns(void)
{
	return time_now_ns() + test_clock_ahead_ns;
}
#define time_now_ns test_now_ns
#include "symbol/file_cache.c"
#undef time_now_ns

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static const struct test_symbol first_names[] = {{"alpha", 0x10, 0x20, STT_FUNC, STB_GLOBAL}};
static const struct test_symbol second_names[] = {{"gamma", 0x10, 0x20, STT_FUNC, STB_GLOBAL}};
static const struct test_symbol debug_names[] = {{"alpha", 0x10, 0x20, STT_FUNC, STB_GLOBAL},
						 {"hidden", 0x100, 0x20, STT_FUNC, STB_LOCAL}};
static const struct test_elf first = {first_names, COUNT(first_names), .stripped = true};
static const struct test_elf second = {second_names, COUNT(second_names), .stripped = true};
static const struct test_elf separate = {debug_names, COUNT(debug_names), .debug_only = true};

struct fixture {
	char directory[64], cache[128], debug[128], program[128], other[128];
};
static const size_t fixture_bytes = sizeof(struct fixture);

static void write_elf(const char *path, const struct test_elf *elf)
{
	struct buffer b;
	test_elf_build(elf, &b);
	assert_int_equal(io_write_file(path, b.data, b.len, 0755, NULL), 0);
	buffer_release(&b);
}

static int fixture_init(struct fixture *f)
{
	snprintf(f->directory, sizeof(f->directory), "/tmp/wick-file-cache-XXXXXX");
	assert_non_null(mkdtemp(f->directory));
	snprintf(f->cache, sizeof(f->cache), "%s/cache/symbols", f->directory);
	snprintf(f->debug, sizeof(f->debug), "%s/debug", f->directory);
	snprintf(f->program, sizeof(f->program), "%s/program", f->directory);
	snprintf(f->other, sizeof(f->other), "%s/other", f->directory);
	write_elf(f->program, &first);
	test_clock_ahead_ns = 10 * NS_PER_S;
	return 0;
}

static void fixture_release(struct fixture *f)
{
	assert_int_equal(io_remove_tree(f->directory, NULL), 0);
}

static void debug_path(const struct fixture *f, char path[static 256])
{
	snprintf(path, 256, "%s/%.2s", f->debug, TEST_ELF_BUILD_ID);
	assert_int_equal(io_make_dirs(path, 0755, NULL), 0);
	snprintf(path, 256, "%s/%.2s/%s.debug", f->debug, TEST_ELF_BUILD_ID, TEST_ELF_BUILD_ID + 2);
}

static struct symbolizer *new_symbolizer(const struct fixture *f)
{
	struct symbolizer_options options = {.own_files = true, .file_cache_directory = f->cache};
	struct symbolizer *s;
	assert_int_equal(symbolizer_new(&options, &s, NULL), 0);
	s->debug_directory = f->debug;
	return s;
}

/* The name at an offset of the text of a file, by a symbolizer of its own; says whether the table came from the cache. */
static bool name_at(const struct fixture *f, const char *path, uint64_t offset, const char *expected)
{
	_cleanup_(symbolizer_freep) struct symbolizer *s = new_symbolizer(f);
	_cleanup_(symbol_view_freep) struct symbol_view *view = NULL;
	_cleanup_(fd_closep) int fd = io_open(path, O_RDONLY, 0, NULL);
	struct symbolizer_stats stats;
	struct symbol_frame frame = {.name = ""};
	uint64_t address = 0;
	struct symbol_place place = {.file_offset = TEST_ELF_TEXT_OFFSET + offset};
	assert_true(fd >= 0);
	assert_int_equal(symbolizer_offer(s, TEST_ELF_BUILD_ID, "", path, fd, NULL), 0);
	assert_int_equal(symbolizer_view(s, TEST_ELF_BUILD_ID, path, NULL, &view, NULL), 0);
	if (symbol_view_address(view, &place, &address))
		symbol_view_frames(view, address, &frame, 1);
	assert_string_equal(frame.name, expected);
	symbolizer_get_stats(s, &stats);
	assert_int_equal(stats.builds + stats.cache_hits, 1);
	return stats.cache_hits > 0;
}

static void assert_built(const struct fixture *f, const char *path, const char *name)
{
	assert_false(name_at(f, path, 0x10, name));
}

static void assert_cached(const struct fixture *f, const char *path, const char *name)
{
	assert_true(name_at(f, path, 0x10, name));
}

static void test_hit(void **state)
{
	struct fixture *f = *state;
	assert_built(f, f->program, "alpha");
	for (unsigned i = 0; i < 3; i++)
		assert_cached(f, f->program, "alpha");
	assert_true(name_at(f, f->program, 0x80, ""));
}

/* What a table says of itself is the same from the cache. */
static void test_same_status(void **state)
{
	struct fixture *f = *state;
	struct symbol_status *lists[2];
	for (size_t i = 0; i < 2; i++) {
		size_t count = 0;
		_cleanup_(symbolizer_freep) struct symbolizer *s = new_symbolizer(f);
		_cleanup_(symbol_view_freep) struct symbol_view *view = NULL;
		assert_int_equal(symbolizer_view(s, TEST_ELF_BUILD_ID, f->program, NULL, &view, NULL), 0);
		struct symbol_list_options all = {0};
		assert_int_equal(symbolizer_list(s, &all, &lists[i], &count, NULL, NULL, NULL), 0);
		assert_int_equal(count, 1);
	}
	assert_int_equal(lists[0]->state, lists[1]->state);
	assert_int_equal(lists[0]->sources, lists[1]->sources);
	assert_int_equal(lists[0]->functions, lists[1]->functions);
	assert_int_equal(lists[0]->ranges, lists[1]->ranges);
	assert_int_equal(lists[0]->table_bytes, lists[1]->table_bytes);
	assert_int_equal(lists[0]->input_bytes, lists[1]->input_bytes);
	assert_string_equal(lists[0]->from, lists[1]->from);
	assert_string_equal(lists[0]->why, lists[1]->why);
	mem_free(lists[0]);
	mem_free(lists[1]);
}

/* Another file has its own table, whatever build-id it claims: where the first one was, beside it, and in its place. */
static void test_other_files_of_the_id(void **state)
{
	struct fixture *f = *state;
	assert_built(f, f->program, "alpha");
	write_elf(f->other, &second);
	assert_built(f, f->other, "gamma");
	assert_cached(f, f->other, "gamma");
	assert_cached(f, f->program, "alpha");
	assert_int_equal(rename(f->other, f->program), 0);
	assert_false(name_at(f, f->program, 0x10, "gamma"));
}

/* The same inode and size, and a time of change that was set back. */
static void test_overwritten_in_place(void **state)
{
	struct fixture *f = *state;
	struct stat before, after;
	struct buffer b;
	assert_built(f, f->program, "alpha");
	assert_int_equal(stat(f->program, &before), 0);
	time_sleep_ns(50 * NS_PER_MS); /* to another tick of the clock; a file that is kept is older than that */
	test_elf_build(&second, &b);
	_cleanup_(fd_closep) int fd = io_open(f->program, O_WRONLY, 0, NULL);
	assert_int_equal(io_pwrite(fd, b.data, b.len, 0, "program", NULL), 0);
	buffer_release(&b);
	struct timespec times[2] = {before.st_atim, before.st_mtim};
	assert_int_equal(futimens(fd, times), 0);
	assert_int_equal(stat(f->program, &after), 0);
	assert_true(before.st_ino == after.st_ino && before.st_size == after.st_size &&
		    before.st_mtim.tv_nsec == after.st_mtim.tv_nsec);
	assert_built(f, f->program, "gamma");
	assert_cached(f, f->program, "gamma");
}

/* Debug information that is installed, replaced and removed later. */
static void test_debug_files(void **state)
{
	struct fixture *f = *state;
	char path[256];
	debug_path(f, path);
	assert_false(name_at(f, f->program, 0x100, ""));
	assert_true(name_at(f, f->program, 0x100, ""));
	write_elf(path, &separate);
	assert_false(name_at(f, f->program, 0x100, "hidden"));
	assert_true(name_at(f, f->program, 0x100, "hidden"));
	write_elf(path, &separate); /* another file, the same contents */
	assert_false(name_at(f, f->program, 0x100, "hidden"));
	assert_int_equal(unlink(path), 0);
	assert_false(name_at(f, f->program, 0x100, ""));
	assert_true(name_at(f, f->program, 0x100, ""));
	assert_int_equal(mkfifo(path, 0600), 0);
	assert_true(name_at(f, f->program, 0x100, "")); /* as good as nothing */
}

static void test_recent_files(void **state)
{
	struct fixture *f = *state;
	char path[256];
	debug_path(f, path);
	test_clock_ahead_ns = 0;
	assert_built(f, f->program, "alpha");
	assert_built(f, f->program, "alpha");
	test_clock_ahead_ns = -100 * NS_PER_S; /* files of the future */
	assert_built(f, f->program, "alpha");
	test_clock_ahead_ns = 10 * NS_PER_S;
	assert_built(f, f->program, "alpha");
	assert_cached(f, f->program, "alpha");
}

/* The only file that is in the cache. */
static void find_file(const struct fixture *f, char path[static 512])
{
	_cleanup_(dir_closep) DIR *dir = opendir(f->cache);
	assert_non_null(dir);
	path[0] = 0;
	for (const struct dirent *entry; (entry = readdir(dir));)
		if (entry->d_name[0] != '.') {
			assert_string_equal(path, "");
			snprintf(path, 512, "%s/%s", f->cache, entry->d_name);
		}
	assert_string_not_equal(path, "");
}

static void test_untrusted(void **state)
{
	struct fixture *f = *state;
	char path[512], kept[512];
	assert_built(f, f->program, "alpha");
	find_file(f, path);
	assert_int_equal(chmod(path, 0620), 0);
	assert_built(f, f->program, "alpha");
	assert_cached(f, f->program, "alpha"); /* it was replaced */
	if (geteuid() == 0) {
		assert_int_equal(chown(path, 12345, 0), 0);
		assert_built(f, f->program, "alpha");
		assert_cached(f, f->program, "alpha");
	}
	snprintf(kept, sizeof(kept), "%s/kept", f->directory);
	assert_int_equal(rename(path, kept), 0);
	assert_int_equal(symlink(kept, path), 0);
	assert_built(f, f->program, "alpha");
	assert_int_equal(chmod(f->cache, 0770), 0);
	assert_built(f, f->program, "alpha");
	assert_built(f, f->program, "alpha");
	assert_int_equal(chmod(f->cache, 0700), 0);
	assert_int_equal(io_remove_tree(f->cache, NULL), 0);
	write_elf(f->cache, &first); /* no directory */
	assert_built(f, f->program, "alpha");
}

static void put(const char *path, const void *data, size_t len)
{
	_cleanup_(fd_closep) int fd = io_open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600, NULL);
	assert_true(fd >= 0);
	assert_int_equal(io_write(fd, data, len, path, NULL), 0);
}

/* Each byte changed, and many lengths: the names are right. */
static void test_damage(void **state)
{
	struct fixture *f = *state;
	char path[512];
	_cleanup_(buffer_release) struct buffer whole = {0};
	assert_built(f, f->program, "alpha");
	find_file(f, path);
	assert_int_equal(io_read_file(path, 1 << 20, &whole, NULL), 0);
	for (size_t i = 0; i < whole.len; i += test_stride()) {
		whole.data[i] ^= 0x41;
		put(path, whole.data, whole.len);
		whole.data[i] ^= 0x41;
		assert_built(f, f->program, "alpha");
	}
	for (size_t len = 0; len < whole.len; len += 1 + len / 16) {
		put(path, whole.data, len);
		assert_built(f, f->program, "alpha");
	}
}

/* A trailer that makes no sense and has the right checksum. */
static void test_nonsense(void **state)
{
	struct fixture *f = *state;
	char path[512];
	_cleanup_(buffer_release) struct buffer whole = {0};
	uint64_t random = 88172645463325252ull;
	assert_built(f, f->program, "alpha");
	find_file(f, path);
	assert_int_equal(io_read_file(path, 1 << 20, &whole, NULL), 0);
	size_t at = ((const struct symbol_table_header *)whole.data)->length;
	_cleanup_(mem_freep) uint8_t *copy = mem_alloc(whole.len + 64);
	for (unsigned round = 0; round < (getenv("WICK_TEST_FULL") ? 20000 : 2000); round++) {
		memcpy(copy, whole.data, whole.len);
		struct trailer *trailer = (struct trailer *)(copy + at);
		for (unsigned i = 0; i < 1 + round % 5; i++) {
			random ^= random << 13, random ^= random >> 7, random ^= random << 17;
			size_t from = round % 2 ? sizeof(*trailer) : 0, len = whole.len - at - from;
			copy[at + from + random % len] = random >> 40 & 1   ? (uint8_t)(random >> 32)
							 : random >> 41 & 1 ? 0xff
									    : 0;
		}
		/* What is asked for stays, or nothing of the rest would be looked at. */
		memcpy(trailer, whole.data + at, offsetof(struct trailer, file_count));
		if (round % 3)
			memcpy(&trailer->builder, &((struct trailer *)(whole.data + at))->builder,
			       offsetof(struct trailer, from) - offsetof(struct trailer, builder));
		trailer->checksum =
			checksum_of(trailer, (struct bytes){copy + at + sizeof(*trailer), whole.len - at - sizeof(*trailer)});
		put(path, copy, whole.len);
		name_at(f, f->program, 0x10, "alpha");
	}
}

/* A table that belongs to another file, under the name of this one. */
static void test_exchanged(void **state)
{
	struct fixture *f = *state;
	char path[512], kept[512];
	assert_built(f, f->program, "alpha");
	find_file(f, path);
	snprintf(kept, sizeof(kept), "%s/kept", f->directory);
	assert_int_equal(rename(path, kept), 0);
	write_elf(f->other, &second);
	assert_built(f, f->other, "gamma");
	find_file(f, path);
	assert_int_equal(rename(kept, path), 0);
	assert_built(f, f->other, "gamma");
	assert_cached(f, f->other, "gamma");
}

static void test_eviction(void **state)
{
	struct fixture *f = *state;
	_cleanup_(symbolizer_freep) struct symbolizer *s = new_symbolizer(f);
	char path[256];
	for (unsigned i = 0; i < 40; i++) {
		struct symbol_view *view = NULL;
		char build_id[41];
		snprintf(path, sizeof(path), "%s/program-%u", f->directory, i);
		write_elf(path, &first);
		_cleanup_(fd_closep) int fd = io_open(path, O_RDONLY, 0, NULL);
		snprintf(build_id, sizeof(build_id), "%s", TEST_ELF_BUILD_ID);
		struct source_job job = {.symbolizer = s, .build_id = build_id, .path = path, .ready_fd = -1, .offered_fd = -1};
		struct seen_files seen;
		seen_files_init(&seen);
		job.seen = &seen;
		seen_files_set_binary(&seen, fd);
		if (i == 0)
			assert_false(name_at(f, path, 0x10, "alpha"));
		_cleanup_(symbolizer_freep) struct symbolizer *other = new_symbolizer(f);
		assert_int_equal(symbolizer_view(other, TEST_ELF_BUILD_ID, path, NULL, &view, NULL), 0);
		const struct symbol_table *table = symbol_view_table(view);
		struct symbol_build_result result = {.sources = 1};
		s->file_cache->bytes_max = 10 * (table->len + sizeof(struct trailer));
		file_cache_keep(s, &job, &result, table);
		seen_files_release(&seen);
		symbol_view_free(view);
	}
	struct disk_list list = {0};
	assert_int_equal(own_dir_list(s->file_cache->directory, SUFFIX, &list), 0);
	assert_true(list.bytes <= s->file_cache->bytes_max);
	assert_true(list.count >= 3);
	disk_list_release(&list);
}

static void test_faults(void **state)
{
	static const enum fault_kind kinds[] = {FAULT_OPEN, FAULT_READ, FAULT_WRITE, FAULT_RENAME};
	struct fixture *f = *state;
	char path[512];
	for (size_t kind = 0; kind < COUNT(kinds); kind++) {
		for (uint64_t n = 1; n < 200; n++) {
			io_remove_tree(f->cache, NULL);
			_cleanup_(symbolizer_freep) struct symbolizer *s = new_symbolizer(f);
			_cleanup_(symbolizer_freep) struct symbolizer *again = new_symbolizer(f);
			struct symbol_view *view = NULL;
			fault_arm(kinds[kind], n, 0);
			int r = symbolizer_view(s, TEST_ELF_BUILD_ID, f->program, NULL, &view, NULL);
			bool fired = fault_disarm(kinds[kind]);
			symbol_view_free(view);
			view = NULL;
			/* Writing fails for nobody. */
			assert_true(r == 0 || (kinds[kind] != FAULT_WRITE && kinds[kind] != FAULT_RENAME));
			assert_int_equal(symbolizer_view(again, TEST_ELF_BUILD_ID, f->program, NULL, &view, NULL), 0);
			symbol_view_free(view);
			if (!fired)
				break;
		}
	}
	/* A full disk. */
	io_remove_tree(f->cache, NULL);
	fault_arm(FAULT_WRITE, 1, FAULT_STICKY);
	struct file_cache *cache = NULL;
	assert_int_equal(file_cache_open(f->cache, 1000, &cache, NULL), 0);
	struct bytes piece = bytes_of_string("text");
	assert_true(own_dir_write_file(cache->directory, "name", &piece, 1) < 0);
	fault_disarm(FAULT_WRITE);
	file_cache_close(cache);
	snprintf(path, sizeof(path), "%s/name", f->cache);
	assert_int_equal(access(path, F_OK), -1);
}

/* Processes that write and read the same at the same time. */
static void test_at_once(void **state)
{
	struct fixture *f = *state;
	pid_t pids[6];
	for (size_t i = 0; i < COUNT(pids); i++) {
		pids[i] = fork();
		assert_true(pids[i] >= 0);
		if (pids[i] == 0) {
			char path[512];
			for (unsigned round = 0; round < 40; round++) {
				name_at(f, f->program, 0x10, "alpha");
				snprintf(path, sizeof(path), "%s/", f->cache);
				if (round % 4 == i % 4) {
					_cleanup_(dir_closep) DIR *dir = opendir(f->cache);
					for (const struct dirent *entry; dir && (entry = readdir(dir));)
						unlinkat(dirfd(dir), entry->d_name, 0);
				}
			}
			_exit(0);
		}
	}
	for (size_t i = 0; i < COUNT(pids); i++) {
		int status = -1;
		assert_int_equal(waitpid(pids[i], &status, 0), pids[i]);
		assert_int_equal(status, 0);
	}
	name_at(f, f->program, 0x10, "alpha");
	assert_cached(f, f->program, "alpha");
}

/* What a crash leaves behind goes when it is old. */
static void test_leftovers(void **state)
{
	struct fixture *f = *state;
	char old[512], young[512];
	struct disk_list list = {0};
	assert_built(f, f->program, "alpha");
	snprintf(old, sizeof(old), "%s/x.table.1-1.tmp", f->cache);
	snprintf(young, sizeof(young), "%s/x.table.1-2.tmp", f->cache);
	put(old, "x", 1);
	put(young, "x", 1);
	struct timespec times[2] = {{.tv_sec = 1}, {.tv_sec = 1}};
	assert_int_equal(utimensat(AT_FDCWD, old, times, 0), 0);
	_cleanup_(fd_closep) int directory = own_dir_open(f->cache, "the symbol cache", NULL);
	assert_int_equal(own_dir_list(directory, SUFFIX, &list), 0);
	assert_int_equal(list.count, 1);
	disk_list_release(&list);
	assert_int_equal(access(old, F_OK), -1);
	assert_int_equal(access(young, F_OK), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		FIXTURE_TEST(test_hit),
		FIXTURE_TEST(test_same_status),
		FIXTURE_TEST(test_other_files_of_the_id),
		FIXTURE_TEST(test_overwritten_in_place),
		FIXTURE_TEST(test_debug_files),
		FIXTURE_TEST(test_recent_files),
		FIXTURE_TEST(test_untrusted),
		FIXTURE_TEST(test_damage),
		FIXTURE_TEST(test_nonsense),
		FIXTURE_TEST(test_exchanged),
		FIXTURE_TEST(test_eviction),
		FIXTURE_TEST(test_faults),
		FIXTURE_TEST(test_at_once),
		FIXTURE_TEST(test_leftovers),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
