/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fault.h"
#include "base/hash.h"
#include "base/io.h"
#include "symbol/perf_map.h"
#include "symbol/symbol_int.h"

/* ---- the text ---- */

static const char *find(const struct perf_map *map, uint64_t address)
{
	const struct perf_map_piece *piece = perf_map_find(map, address);
	return piece ? (const char *)map->names.data + piece->name : "";
}

static void test_lines(void **state)
{
	struct perf_map map;
	perf_map_init(&map);
	assert_int_equal(perf_map_add_text(&map, bytes_of_string("7f0000001000 6 LazyCompile:~hot /src/a.js:10\n"
								 "0x7F0000002000 0x20 name with spaces; and semicolon\r\n"
								 "30  10\t tabs and more  spaces \n"
								 "50 10 no end")),
			 0);
	assert_string_equal(find(&map, 0x7f0000001000), "LazyCompile:~hot /src/a.js:10");
	assert_string_equal(find(&map, 0x7f0000001005), "LazyCompile:~hot /src/a.js:10");
	assert_string_equal(find(&map, 0x7f0000001006), "");
	assert_string_equal(find(&map, 0x7f000000201f), "name with spaces; and semicolon");
	assert_string_equal(find(&map, 0x38), "tabs and more  spaces ");
	assert_string_equal(find(&map, 0x5f), "no end");
	assert_int_equal(map.entries, 4);
	assert_int_equal(map.bad_lines, 0);
	perf_map_release(&map);
}

static void test_bad_lines(void **state)
{
	static const char *const lines[] = {
		"zzzz 10 bad start",
		"7f00",
		"7f00 10",
		"7f00 10 ",
		"7f00 0 empty",
		"7f00 zz bad size",
		"7f00 ffffffffffffffff too large",
		"ffffffffffffffff 10 wraps",
		"11112222333344445 10 too many digits",
		"0x 10 no digits",
		"7f0010 name",
		" 7f00 10 leading space",
	};
	for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
		struct perf_map map;
		perf_map_init(&map);
		assert_int_equal(perf_map_add_text(&map, bytes_of_string(lines[i])), 0);
		assert_int_equal(map.entries, 0);
		assert_int_equal(map.bad_lines, 1);
		assert_int_equal(map.piece_count, 0);
		perf_map_release(&map);
	}
}

static void test_later_entries_cover_earlier_ones(void **state)
{
	struct perf_map map;
	perf_map_init(&map);
	assert_int_equal(perf_map_add_text(&map, bytes_of_string("1000 100 first\n1040 20 inside\n1080 100 crossing\n")), 0);
	assert_string_equal(find(&map, 0x103f), "first");
	assert_string_equal(find(&map, 0x1040), "inside");
	assert_string_equal(find(&map, 0x1060), "first");
	assert_string_equal(find(&map, 0x1080), "crossing");
	assert_string_equal(find(&map, 0x117f), "crossing");
	/* The rest of an entry still begins where the entry did. */
	assert_int_equal(perf_map_find(&map, 0x1060)->symbol_start, 0x1000);
	/* Appended later. */
	assert_int_equal(perf_map_add_text(&map, bytes_of_string("1050 8 newer\n")), 0);
	assert_string_equal(find(&map, 0x104f), "inside");
	assert_string_equal(find(&map, 0x1050), "newer");
	assert_string_equal(find(&map, 0x1058), "inside");
	assert_int_equal(perf_map_add_text(&map, bytes_of_string("0 10000 all\n")), 0);
	assert_string_equal(find(&map, 0x1050), "all");
	assert_int_equal(map.piece_count, 1);
	perf_map_release(&map);
}

/* Against the definition: the last entry that holds the address. In batches of all sizes. */
static void test_random_entries(void **state)
{
	enum { ENTRIES = 60, SPACE = 400 };
	uint64_t seed = 7;
	for (unsigned round = 0; round < 200; round++) {
		int last[SPACE];
		memset(last, -1, sizeof(last));
		struct perf_map map;
		perf_map_init(&map);
		struct buffer text;
		buffer_init(&text, 1 << 20);
		for (int i = 0; i < ENTRIES; i++) {
			seed = hash64_mix(seed + 1);
			unsigned start = (unsigned)(seed % 300), size = 1 + (unsigned)(seed >> 32) % (round % 2 ? 100 : 8);
			for (unsigned at = start; at < start + size; at++)
				last[at] = i;
			assert_int_equal(buffer_printf(&text, "%x %x f%d\n", start, size, i), 0);
			if ((seed >> 50) % 16 == 0 || i == ENTRIES - 1) {
				assert_int_equal(perf_map_add_text(&map, buffer_bytes(&text)), 0);
				buffer_clear(&text);
			}
		}
		for (unsigned at = 0; at < SPACE; at++) {
			char expected[16] = "";
			if (last[at] >= 0)
				snprintf(expected, sizeof(expected), "f%d", last[at]);
			assert_string_equal(find(&map, at), expected);
		}
		assert_true(map.piece_count < 2 * ENTRIES);
		perf_map_release(&map);
		buffer_release(&text);
	}
}

static void test_limits_and_faults(void **state)
{
	struct perf_map map;
	perf_map_init(&map);
	map.entries_max = 2;
	assert_int_equal(perf_map_add_text(&map, bytes_of_string("10 10 a\n20 10 b\n30 10 c\n")), 0);
	assert_int_equal(perf_map_add_text(&map, bytes_of_string("40 10 d\n")), 0);
	assert_int_equal(map.entries, 2);
	assert_string_equal(find(&map, 0x30), "");
	perf_map_release(&map);

	for (uint64_t n = 1;; n++) {
		perf_map_init(&map);
		assert_int_equal(perf_map_add_text(&map, bytes_of_string("10 10 kept\n")), 0);
		fault_arm(FAULT_ALLOC, n, 0);
		int r = perf_map_add_text(&map, bytes_of_string("10 8 over it\n20 10 and beside it\n"));
		bool reached = fault_disarm(FAULT_ALLOC);
		assert_true(r == 0 || (reached && r == -ENOMEM));
		assert_string_equal(find(&map, 0x10), r == 0 ? "over it" : "kept");
		assert_string_equal(find(&map, 0x18), "kept");
		perf_map_release(&map);
		if (!reached)
			break;
	}
}

/* ---- files of processes ---- */

struct fixture {
	char path[64];
	struct perf_maps *maps;
};

static int set_up(void **state)
{
	struct fixture *f = mem_zalloc(sizeof(*f));
	snprintf(f->path, sizeof(f->path), "/tmp/perf-%d.map", (int)getpid());
	unlink(f->path);
	assert_int_equal(perf_maps_new(&f->maps, NULL), 0);
	perf_maps_set_interval(f->maps, 0);
	*state = f;
	return 0;
}

static int tear_down(void **state)
{
	struct fixture *f = *state;
	unlink(f->path);
	perf_maps_free(f->maps);
	mem_free(f);
	return 0;
}

static void write_map(const char *path, int flags, const char *text)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC | flags, 0644);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
	close(fd);
}

static void assert_name(struct fixture *f, uint64_t address, const char *expected)
{
	const char *name = "";
	uint64_t start;
	bool found = perf_maps_lookup(f->maps, getpid(), 0, address, &name, &start);
	assert_string_equal(name, expected);
	assert_int_equal(found, expected[0] != 0);
}

static void test_growth(void **state)
{
	struct fixture *f = *state;
	assert_name(f, 0x1000, "");
	write_map(f->path, 0, "1000 10 one\n2000 10 tw");
	assert_name(f, 0x1000, "one");
	assert_name(f, 0x2000, "");
	write_map(f->path, O_APPEND, "o\n1000 8 newer one\n");
	assert_name(f, 0x2000, "two");
	assert_name(f, 0x1000, "newer one");
	assert_name(f, 0x1008, "one");
}

static void test_reads_at_most_once_an_interval(void **state)
{
	struct fixture *f = *state;
	perf_maps_set_interval(f->maps, INT64_MAX);
	write_map(f->path, 0, "1000 10 one\n");
	assert_name(f, 0x1000, "one");
	write_map(f->path, O_APPEND, "2000 10 two\n");
	assert_name(f, 0x2000, "");
	perf_maps_set_interval(f->maps, 0);
	assert_name(f, 0x2000, "two");
}

static void test_rewritten_files(void **state)
{
	struct fixture *f = *state;
	write_map(f->path, 0, "1000 10 one\n2000 10 two\n");
	assert_name(f, 0x2000, "two");
	/* Shorter. */
	write_map(f->path, O_TRUNC, "3000 10 three\n");
	assert_name(f, 0x3000, "three");
	assert_name(f, 0x1000, "");
	/* Longer, but not grown. */
	write_map(f->path, O_TRUNC, "4000 10 four\n5000 10 five\n");
	assert_name(f, 0x5000, "five");
	assert_name(f, 0x4000, "four");
	assert_name(f, 0x3000, "");
	/* Another file. */
	assert_int_equal(unlink(f->path), 0);
	assert_name(f, 0x5000, "five");
	write_map(f->path, 0, "6000 10 six\n");
	assert_name(f, 0x6000, "six");
	assert_name(f, 0x5000, "");
}

static void test_what_is_no_regular_file(void **state)
{
	struct fixture *f = *state;
	char other[96];
	snprintf(other, sizeof(other), "%s.other", f->path);
	write_map(other, O_TRUNC, "1000 10 one\n");
	assert_int_equal(symlink(other, f->path), 0);
	assert_name(f, 0x1000, "");
	assert_int_equal(unlink(f->path), 0);
	assert_int_equal(mkfifo(f->path, 0600), 0);
	assert_name(f, 0x1000, "");
	assert_int_equal(unlink(f->path), 0);
	assert_int_equal(mkdir(f->path, 0700), 0);
	assert_name(f, 0x1000, "");
	assert_int_equal(rmdir(f->path), 0);
	assert_int_equal(rename(other, f->path), 0);
	assert_name(f, 0x1000, "one");
}

static void test_files_of_other_users(void **state)
{
	struct fixture *f = *state;
	if (getuid() != 0) {
		printf("skipped: only root can give a file away\n");
		skip();
	}
	write_map(f->path, 0, "1000 10 one\n");
	assert_int_equal(chown(f->path, 12345, 12345), 0);
	assert_name(f, 0x1000, "");
	assert_int_equal(chown(f->path, 0, 0), 0);
	assert_name(f, 0x1000, "one");
}

/* A process that ended is still known; what has its pid afterwards is not taken for it. */
static void test_ended_process(void **state)
{
	struct fixture *f = *state;
	int pipe_fds[2];
	assert_int_equal(pipe(pipe_fds), 0);
	pid_t child = fork();
	if (child == 0) {
		char byte;
		close(pipe_fds[1]);
		_exit(read(pipe_fds[0], &byte, 1) < 0);
	}
	char path[64];
	snprintf(path, sizeof(path), "/tmp/perf-%d.map", (int)child);
	write_map(path, O_TRUNC, "1000 10 child\n");
	const char *name;
	uint64_t start;
	assert_true(perf_maps_lookup(f->maps, child, child, 0x1004, &name, &start));
	assert_string_equal(name, "child");
	assert_int_equal(start, 0x1000);
	close(pipe_fds[1]);
	close(pipe_fds[0]);
	int status;
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(unlink(path), 0);
	assert_true(perf_maps_lookup(f->maps, child, child, 0x1004, &name, &start));
	assert_false(perf_maps_lookup(f->maps, -1, 0, 0x1004, &name, &start));
	assert_false(perf_maps_lookup(f->maps, 0, 0, 0x1004, &name, &start));
}

/* The pid inside the process's namespace names the file. */
static void test_namespace_pid(void **state)
{
	struct fixture *f = *state;
	const char *name;
	uint64_t start;
	write_map("/tmp/perf-1000000007.map", O_TRUNC, "1000 10 inner\n");
	assert_true(perf_maps_lookup(f->maps, getpid(), 1000000007, 0x1000, &name, &start));
	assert_string_equal(name, "inner");
	assert_int_equal(unlink("/tmp/perf-1000000007.map"), 0);
}

static void test_many_processes(void **state)
{
	struct fixture *f = *state;
	write_map(f->path, 0, "1000 10 one\n");
	perf_maps_set_limits(f->maps, PERF_MAP_ENTRIES_MAX, 100);
	assert_name(f, 0x1000, "one");
	const char *name;
	uint64_t start;
	for (pid_t pid = 4000000; pid < 4010000; pid++)
		assert_false(perf_maps_lookup(f->maps, pid, 0, 0x1000, &name, &start));
	assert_name(f, 0x1000, "one");
}

/* Files in a test directory, taken apart as text: what node and the JDK write, and what nobody should. */
static void test_files_of_others(void **state)
{
	const char *directory = getenv("WICK_TEST_DATA");
	char path[4096];
	snprintf(path, sizeof(path), "%s/jit/perf-4242.map", directory ? directory : "../shared/data");
	struct buffer text;
	buffer_init(&text, 1 << 20);
	if (io_read_file(path, 1 << 20, &text, NULL) < 0) {
		printf("skipped: %s is not there; set WICK_TEST_DATA\n", path);
		skip();
	}
	struct perf_map map;
	perf_map_init(&map);
	assert_int_equal(perf_map_add_text(&map, buffer_bytes(&text)), 0);
	assert_string_equal(find(&map, 0x7f0000001000), "overlapping newer entry wins");
	assert_string_equal(find(&map, 0x7f000000200f), "name with spaces; and semicolon");
	perf_map_release(&map);

	snprintf(path, sizeof(path), "%s/jit/perf-bad.map", directory ? directory : "../shared/data");
	buffer_clear(&text);
	assert_int_equal(io_read_file(path, 1 << 20, &text, NULL), 0);
	perf_map_init(&map);
	assert_int_equal(perf_map_add_text(&map, buffer_bytes(&text)), 0);
	assert_true(map.bad_lines >= 4);
	assert_int_equal(map.entries, 1);
	assert_true(strncmp(find(&map, 0x7f10), "non", 3) == 0);
	perf_map_release(&map);
	buffer_release(&text);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_lines),
		cmocka_unit_test(test_bad_lines),
		cmocka_unit_test(test_later_entries_cover_earlier_ones),
		cmocka_unit_test(test_random_entries),
		cmocka_unit_test(test_limits_and_faults),
		cmocka_unit_test(test_files_of_others),
		TEST(test_growth),
		TEST(test_reads_at_most_once_an_interval),
		TEST(test_rewritten_files),
		TEST(test_what_is_no_regular_file),
		TEST(test_files_of_other_users),
		TEST(test_ended_process),
		TEST(test_namespace_pid),
		TEST(test_many_processes),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
