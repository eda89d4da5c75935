// SPDX-License-Identifier: Apache-2.0
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fault.h"
#include "base/io.h"

static char directory[] = "/tmp/wick-io-test-XXXXXX";

static const char *path_of(const char *name)
{
	static char paths[4][PATH_MAX];
	static unsigned next;
	char *path = paths[next++ % 4];
	assert_int_equal(io_join_path(path, PATH_MAX, directory, name), 0);
	return path;
}

static void write_file(const char *name, const char *text)
{
	assert_int_equal(io_write_file(path_of(name), text, strlen(text), 0644, NULL), 0);
}

static void expect_file(const char *name, const char *text)
{
	_cleanup_(buffer_release) struct buffer contents = {0};
	assert_int_equal(io_read_file(path_of(name), 1 << 20, &contents, NULL), 0);
	assert_string_equal(buffer_string(&contents), text);
}

static size_t count_entries(void)
{
	size_t count = 0;
	DIR *dir = opendir(directory);
	assert_non_null(dir);
	for (struct dirent *entry; (entry = readdir(dir));)
		count += entry->d_name[0] != '.';
	closedir(dir);
	return count;
}

static int set_up(void **state)
{
	snprintf(directory, sizeof(directory), "/tmp/wick-io-test-XXXXXX");
	return mkdtemp(directory) ? 0 : -1;
}

static int tear_down(void **state)
{
	return io_remove_tree(directory, NULL);
}

static void test_errors_name_the_path(void **state)
{
	struct error err = {0};
	assert_int_equal(io_open("/no/such/file", O_RDONLY, 0, &err), -ENOENT);
	assert_string_equal(err.message, "cannot open /no/such/file: No such file or directory");
	assert_int_equal(io_rename("/no/a", "/no/b", &err), -ENOENT);
	assert_non_null(strstr(err.message, "/no/a"));
	assert_int_equal(io_sync_dir("/no/dir", &err), -ENOENT);
	assert_int_equal(io_close(-1), -1);
}

static void test_positioned_reads_and_writes(void **state)
{
	char text[16] = {0};
	uint64_t size;
	_cleanup_(fd_closep) int fd = io_open(path_of("file"), O_RDWR | O_CREAT, 0600, NULL);
	assert_true(fd >= 0);
	assert_true(fcntl(fd, F_GETFD) & FD_CLOEXEC);
	assert_int_equal(io_pwrite(fd, "world", 5, 6, "file", NULL), 0);
	assert_int_equal(io_pwrite(fd, "hello ", 6, 0, "file", NULL), 0);
	assert_int_equal(io_pread(fd, text, sizeof(text), 0, "file", NULL), 11);
	assert_string_equal(text, "hello world");
	assert_int_equal(io_pread(fd, text, 3, 8, "file", NULL), 3);
	assert_memory_equal(text, "rld", 3);
	assert_int_equal(io_pread(fd, text, 3, 100, "file", NULL), 0);
	assert_int_equal(io_read(fd, text, 5, "file", NULL), 5);
	assert_int_equal(io_truncate(fd, 4, "file", NULL), 0);
	assert_int_equal(io_file_size(fd, &size, "file", NULL), 0);
	assert_int_equal(size, 4);
	assert_int_equal(io_sync(fd, "file", NULL), 0);
	assert_int_equal(io_pwrite(fd, "x", 1, UINT64_MAX, "file", NULL), -EFBIG);
	assert_int_equal(io_pwrite(fd, "x", 1, INT64_MAX, "file", NULL), -EFBIG);
	assert_int_equal(io_pread(fd, text, 1, UINT64_MAX, "file", NULL), -EOVERFLOW);
	assert_int_equal(io_truncate(fd, UINT64_MAX, "file", NULL), -EFBIG);
}

static void test_full_disk(void **state)
{
	struct error err = {0};
	_cleanup_(fd_closep) int fd = io_open("/dev/full", O_WRONLY, 0, NULL);
	assert_true(fd >= 0);
	assert_int_equal(io_write(fd, "x", 1, "/dev/full", &err), -ENOSPC);
	assert_string_equal(err.message, "cannot write /dev/full: No space left on device");
}

static void test_non_blocking_pipe_is_waited_for(void **state)
{
	int ends[2];
	enum { SIZE = 300000 };
	assert_int_equal(pipe2(ends, O_NONBLOCK | O_CLOEXEC), 0);
	pid_t child = fork();
	assert_true(child >= 0);
	if (child == 0) {
		static char data[SIZE];
		close(ends[0]);
		memset(data, 'x', sizeof(data));
		_exit(io_write(ends[1], data, sizeof(data), "pipe", NULL) == 0 ? 0 : 1);
	}
	close(ends[1]);
	static char received[SIZE + 1];
	assert_int_equal(io_read(ends[0], received, sizeof(received), "pipe", NULL), SIZE);
	close(ends[0]);
	int status;
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
}

static void test_read_file_holds_to_its_limit(void **state)
{
	_cleanup_(buffer_release) struct buffer contents = {0};
	struct error err = {0};
	write_file("five", "12345");
	write_file("empty", "");
	assert_int_equal(io_read_file(path_of("five"), 5, &contents, NULL), 0);
	assert_string_equal(buffer_string(&contents), "12345");
	assert_int_equal(io_read_file(path_of("five"), 4, &contents, &err), -E2BIG);
	assert_int_equal(contents.len, 0);
	assert_int_equal(io_read_file(path_of("empty"), 0, &contents, NULL), 0);
	assert_int_equal(contents.len, 0);
	assert_int_equal(io_read_file(path_of("five"), SIZE_MAX, &contents, NULL), 0);
	assert_int_equal(contents.len, 5);
	assert_int_equal(io_read_file(directory, 100, &contents, &err), -EISDIR);
}

static void test_read_secret(void **state)
{
	static const struct {
		const char *file, *secret;
	} cases[] = {{"secret", "secret"},
		     {"secret\n", "secret"},
		     {"\r\n \tpass word\t \r\nmore\n", "pass word"},
		     {" \n\t\n", ""},
		     {"", ""}};
	struct buffer secret = {0};
	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		assert_int_equal(io_write_file(path_of("secret"), cases[i].file, strlen(cases[i].file), 0600, NULL), 0);
		assert_int_equal(io_read_secret(path_of("secret"), &secret, NULL), 0);
		assert_string_equal(buffer_string(&secret), cases[i].secret);
	}
	assert_int_equal(io_read_secret(path_of("missing"), &secret, NULL), -ENOENT);
	buffer_release(&secret);
}

static void test_read_file_reads_proc(void **state)
{
	_cleanup_(buffer_release) struct buffer contents = {0};
	assert_int_equal(io_read_file("/proc/self/status", 1 << 20, &contents, NULL), 0);
	assert_memory_equal(contents.data, "Name:", 5);
	size_t len = contents.len;
	assert_true(len > 100);
	assert_int_equal(io_read_file("/proc/self/status", 100, &contents, NULL), -E2BIG);
	assert_int_equal(io_read_file("/dev/zero", 100000, &contents, NULL), -E2BIG);
}

static void test_write_file_replaces(void **state)
{
	write_file("file", "old");
	struct stat status;
	assert_int_equal(io_write_file(path_of("file"), "new contents", 12, 0600, NULL), 0);
	expect_file("file", "new contents");
	assert_int_equal(stat(path_of("file"), &status), 0);
	assert_int_equal(status.st_mode & 0777, 0600);
	assert_int_equal(count_entries(), 1);
	assert_int_equal(io_write_file(path_of("no/such/dir"), "x", 1, 0600, NULL), -ENOENT);
}

static void test_write_file_keeps_links_and_devices(void **state)
{
	struct stat status;
	write_file("file", "old");
	assert_int_equal(symlink("file", path_of("link")), 0);
	write_file("link", "new");
	expect_file("file", "new");
	assert_int_equal(lstat(path_of("link"), &status), 0);
	assert_true(S_ISLNK(status.st_mode));

	assert_int_equal(io_write_file("/dev/null", "x", 1, 0600, NULL), 0);
	assert_int_equal(stat("/dev/null", &status), 0);
	assert_true(S_ISCHR(status.st_mode));
	assert_int_equal(io_write_file("/dev/full", "x", 1, 0600, NULL), -ENOSPC);
	assert_int_equal(io_write_file(directory, "x", 1, 0600, NULL), -EISDIR);
}

/* Whatever call fails, the old contents or the new are there, and nothing else is left in the directory. */
static void test_write_file_under_faults(void **state)
{
	static const enum fault_kind kinds[] = {FAULT_OPEN, FAULT_WRITE, FAULT_SYNC, FAULT_RENAME};
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		for (uint64_t n = 1;; n++) {
			struct error err = {0};
			write_file("file", "old contents");
			fault_arm(kinds[i], n, 0);
			int r = io_write_file(path_of("file"), "new", 3, 0644, &err);
			bool reached = fault_disarm(kinds[i]);
			assert_int_equal(r < 0, reached);
			assert_int_equal(r, err.code);
			assert_int_equal(count_entries(), 1);
			/* After the rename only the directory's sync can fail, and then the new name is in place. */
			bool renamed = !reached || n == 2;
			expect_file("file", renamed ? "new" : "old contents");
			if (!reached)
				break;
			assert_true(n < 3);
		}
	}
}

static void test_write_file_survives_a_crash(void **state)
{
	static const enum fault_kind kinds[] = {FAULT_OPEN, FAULT_WRITE, FAULT_SYNC, FAULT_RENAME};
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		write_file("file", "old contents");
		pid_t child = fork();
		assert_true(child >= 0);
		if (child == 0) {
			fault_arm(kinds[i], 1, FAULT_EXIT);
			io_write_file(path_of("file"), "new", 3, 0644, NULL);
			_exit(0);
		}
		int status;
		assert_int_equal(waitpid(child, &status, 0), child);
		assert_int_equal(WEXITSTATUS(status), 137);
		expect_file("file", "old contents");
	}
}

/* In parts: what was there stays until the end, and for ever if the end does not come. */
static void test_output_in_parts(void **state)
{
	struct io_output *output = NULL;
	write_file("file", "old contents");
	assert_int_equal(io_output_open(path_of("file"), 0644, &output, NULL), 0);
	assert_int_equal(io_output_write(output, "one ", 4, NULL), 0);
	expect_file("file", "old contents");
	io_output_free(output);
	assert_int_equal(count_entries(), 1);
	expect_file("file", "old contents");
	assert_int_equal(io_output_open(path_of("file"), 0644, &output, NULL), 0);
	assert_int_equal(io_output_write(output, "one ", 4, NULL), 0);
	assert_int_equal(io_output_write(output, "two", 3, NULL), 0);
	assert_int_equal(io_output_finish(output, NULL), 0);
	io_output_free(output);
	assert_int_equal(count_entries(), 1);
	expect_file("file", "one two");
	assert_int_equal(io_output_open("/dev/full", 0644, &output, NULL), 0);
	assert_int_equal(io_output_write(output, "x", 1, NULL), -ENOSPC);
	io_output_free(output);
}

static void test_write_fault_writes_half(void **state)
{
	uint64_t size;
	_cleanup_(fd_closep) int fd = io_open(path_of("file"), O_RDWR | O_CREAT, 0600, NULL);
	fault_arm(FAULT_WRITE, 1, 0);
	assert_int_equal(io_write(fd, "12345678", 8, "file", NULL), -ENOSPC);
	assert_true(fault_disarm(FAULT_WRITE));
	assert_int_equal(io_file_size(fd, &size, "file", NULL), 0);
	assert_int_equal(size, 4);
	fault_arm(FAULT_WRITE, 1, 0);
	assert_int_equal(io_pwrite(fd, "abcd", 4, 4, "file", NULL), -ENOSPC);
	assert_true(fault_disarm(FAULT_WRITE));
	assert_int_equal(io_file_size(fd, &size, "file", NULL), 0);
	assert_int_equal(size, 6);
}

static void test_reads_and_allocations_can_fail(void **state)
{
	_cleanup_(buffer_release) struct buffer contents = {0};
	write_file("file", "text");
	static const enum fault_kind kinds[] = {FAULT_OPEN, FAULT_READ, FAULT_ALLOC};
	static const int codes[] = {-EIO, -EIO, -ENOMEM};
	for (size_t i = 0; i < 3; i++) {
		struct error err = {0};
		buffer_release(&contents);
		fault_arm(kinds[i], 1, 0);
		assert_int_equal(io_read_file(path_of("file"), 100, &contents, &err), codes[i]);
		assert_true(fault_disarm(kinds[i]));
		assert_int_equal(err.code, codes[i]);
		assert_int_equal(contents.len, 0);
	}
	char byte;
	_cleanup_(fd_closep) int fd = io_open(path_of("file"), O_RDWR, 0, NULL);
	fault_arm(FAULT_READ, 2, 0);
	assert_int_equal(io_read(fd, &byte, 1, "file", NULL), 1);
	assert_int_equal(io_pread(fd, &byte, 1, 0, "file", NULL), -EIO);
	assert_true(fault_disarm(FAULT_READ));
	fault_arm(FAULT_SYNC, 1, 0);
	assert_int_equal(io_sync(fd, "file", NULL), -EIO);
	assert_true(fault_disarm(FAULT_SYNC));
	fault_arm(FAULT_SYNC, 1, 0);
	assert_int_equal(io_sync_dir(directory, NULL), -EIO);
	assert_true(fault_disarm(FAULT_SYNC));
	fault_arm(FAULT_RENAME, 1, 0);
	assert_int_equal(io_rename(path_of("file"), path_of("other"), NULL), -EIO);
	assert_true(fault_disarm(FAULT_RENAME));
	expect_file("file", "text");
}

static void test_directories(void **state)
{
	struct stat status;
	struct error err = {0};
	assert_int_equal(io_make_dirs(path_of("a/b//c/d/"), 0755, NULL), 0);
	assert_int_equal(io_make_dirs(path_of("a/b/c/d"), 0755, NULL), 0);
	assert_int_equal(stat(path_of("a/b/c/d"), &status), 0);
	assert_int_equal(io_make_dirs("/", 0755, NULL), 0);
	assert_int_equal(io_make_dirs("", 0755, NULL), -ENOENT);
	write_file("a/file", "x");
	assert_int_equal(io_make_dirs(path_of("a/file"), 0755, &err), -ENOTDIR);
	assert_int_equal(io_make_dirs(path_of("a/file/sub"), 0755, &err), -ENOTDIR);
	assert_int_equal(io_sync_dir(path_of("a"), NULL), 0);
}

static void test_remove_tree_does_not_follow_links(void **state)
{
	struct stat status;
	assert_int_equal(io_make_dirs(path_of("keep"), 0755, NULL), 0);
	write_file("keep/file", "x");
	assert_int_equal(io_make_dirs(path_of("tree/a/b"), 0755, NULL), 0);
	write_file("tree/a/file", "x");
	assert_int_equal(symlink("../keep", path_of("tree/link")), 0);
	assert_int_equal(symlink("nowhere", path_of("tree/dangling")), 0);
	assert_int_equal(io_remove_tree(path_of("tree"), NULL), 0);
	assert_int_equal(stat(path_of("tree"), &status), -1);
	expect_file("keep/file", "x");
	assert_int_equal(io_remove_tree(path_of("tree"), NULL), 0);
	assert_int_equal(io_remove_tree(path_of("keep/file"), NULL), 0);
	assert_int_equal(io_unlink(path_of("missing"), NULL), 0);
	assert_int_equal(io_unlink("/proc/self/status", NULL) < 0, 1);
}

static void test_lock_is_exclusive(void **state)
{
	struct error err = {0};
	int fd = io_lock_file(path_of("lock"), NULL);
	assert_true(fd >= 0);
	assert_int_equal(io_lock_file(path_of("lock"), &err), -EBUSY);
	assert_non_null(strstr(err.message, path_of("lock")));
	fd = io_close(fd);
	fd = io_lock_file(path_of("lock"), NULL);
	assert_true(fd >= 0);
	io_close(fd);
}

static void test_join_path(void **state)
{
	char out[8] = "before";
	assert_int_equal(io_join_path(out, sizeof(out), "abcd", "ef"), 0);
	assert_string_equal(out, "abcd/ef");
	assert_int_equal(io_join_path(out, sizeof(out), "abcd", "efg"), -ENAMETOOLONG);
	assert_string_equal(out, "abcd/ef");
	assert_int_equal(io_join_path(out, sizeof(out), "/", "x"), 0);
	assert_string_equal(out, "/x");
	assert_int_equal(io_join_path(out, sizeof(out), "", "x"), 0);
	assert_string_equal(out, "x");
	assert_int_equal(io_join_path(out, 0, "", ""), -ENAMETOOLONG);
}

static void test_read_text(void **state)
{
	char text[8];
	(void)state;
	assert_int_equal(io_write_file(path_of("text"), "0123456789", 10, 0644, NULL), 0);
	assert_int_equal(io_read_text(path_of("text"), text, sizeof(text)), 7);
	assert_string_equal(text, "0123456");
	assert_int_equal(io_read_text(path_of("missing"), text, sizeof(text)), -ENOENT);
	assert_string_equal(text, "");
}

static void test_open_regular(void **state)
{
	char byte = 0;
	struct error err = {0};
	(void)state;
	assert_int_equal(io_write_file(path_of("file"), "x", 1, 0644, NULL), 0);
	_cleanup_(fd_closep) int fd = io_open_regular(path_of("file"), &err);
	assert_int_equal(io_read(fd, &byte, 1, "file", NULL), 1);
	assert_int_equal(byte, 'x');
	assert_int_equal(mkfifo(path_of("pipe"), 0600), 0);
	assert_int_equal(io_open_regular(path_of("pipe"), &err), -ENOENT); /* and does not wait for a writer */
	assert_non_null(strstr(err.message, "pipe is not a regular file"));
	assert_int_equal(io_open_regular(path_of("."), NULL), -ENOENT);
	assert_int_equal(io_open_regular(path_of("missing"), NULL), -ENOENT);
}

int main(void)
{
#define TEST(function) cmocka_unit_test_setup_teardown(function, set_up, tear_down)
	const struct CMUnitTest tests[] = {
		TEST(test_errors_name_the_path),
		TEST(test_positioned_reads_and_writes),
		TEST(test_full_disk),
		TEST(test_non_blocking_pipe_is_waited_for),
		TEST(test_read_file_holds_to_its_limit),
		TEST(test_read_secret),
		TEST(test_open_regular),
		TEST(test_read_text),
		TEST(test_read_file_reads_proc),
		TEST(test_write_file_replaces),
		TEST(test_write_file_keeps_links_and_devices),
		TEST(test_write_file_under_faults),
		TEST(test_write_file_survives_a_crash),
		TEST(test_output_in_parts),
		TEST(test_write_fault_writes_half),
		TEST(test_reads_and_allocations_can_fail),
		TEST(test_directories),
		TEST(test_remove_tree_does_not_follow_links),
		TEST(test_lock_is_exclusive),
		TEST(test_join_path),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
