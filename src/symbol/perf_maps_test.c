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

#include "base/fault.h"
#include "base/hash.h"
#include "base/io.h"
#include "base/test_fixture.h"
#include "base/time.h"
#include "symbol/jit_files.h"
#include "symbol/perf_map.h"
#include "symbol/symbol_int.h"

/* Numbers that no process has. /tmp is shared with other runs, hence those of files are of this one. */
#define PIDS_END  (1 << 22) /* the kernel's PID_MAX_LIMIT */
#define INNER_PID (1000000000 + (int)getpid())
#define GONE_PID  (1100000000 + (int)getpid())
#define OTHER_PID (1200000000 + (int)getpid())

/* ---- the text ---- */

static const char *find(const struct perf_map *map, uint64_t address)
{
	const struct code_piece *piece = perf_map_find(map, address);
	return piece ? perf_map_name(map, piece) : "";
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
		assert_int_equal(map.code.count, 0);
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
	assert_int_equal(map.code.count, 1);
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
		assert_true(map.code.count < 2 * ENTRIES);
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
static const size_t fixture_bytes = sizeof(struct fixture);

static int fixture_init(struct fixture *f)
{
	snprintf(f->path, sizeof(f->path), "/tmp/perf-%d.map", (int)getpid());
	unlink(f->path);
	assert_int_equal(perf_maps_new(&f->maps, NULL), 0);
	f->maps->files.pace = (struct jit_pace){0, INT64_MAX};
	return 0;
}

static void fixture_release(struct fixture *f)
{
	unlink(f->path);
	perf_maps_free(f->maps);
}

static void write_map(const char *path, int flags, const char *text)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC | flags, 0644);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
	close(fd);
}

static bool lookup(struct fixture *f, pid_t pid, pid_t namespace_pid, uint64_t address, const char **ret_name,
		   uint64_t *ret_start)
{
	struct perf_maps_process who = {.pid = pid, .namespace_pid = namespace_pid, .uid = getuid()};
	return perf_maps_lookup(f->maps, &who, address, ret_name, ret_start);
}

static uint64_t problems(struct fixture *f, enum jit_problem problem)
{
	struct jit_stats stats;
	perf_maps_get_stats(f->maps, &stats);
	return stats.problems[problem];
}

static void assert_name(struct fixture *f, uint64_t address, const char *expected)
{
	const char *name = "";
	uint64_t start;
	bool found = lookup(f, getpid(), 0, address, &name, &start);
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
	f->maps->files.pace = (struct jit_pace){INT64_MAX, INT64_MAX};
	write_map(f->path, 0, "1000 10 one\n");
	assert_name(f, 0x1000, "one");
	write_map(f->path, O_APPEND, "2000 10 two\n");
	assert_name(f, 0x2000, "");
	/* Code without a name is looked for sooner, how soon depends on what the last look took. */
	f->maps->files.pace = (struct jit_pace){INT64_MAX, 0};
	const char *name = "";
	uint64_t start;
	for (unsigned i = 0; i < 120000 && !lookup(f, getpid(), 0, 0x2000, &name, &start); i++)
		time_sleep_ns(NS_PER_MS);
	assert_string_equal(name, "two");
}

static void test_checks_take_a_bounded_share(void **state)
{
	struct jit_pace pace = {1000, 50};
	struct jit_check none = {0}, cheap = {5000, 1}, dear = {5000, 10};
	assert_true(jit_check_is_due(&none, &pace, false, 1));
	assert_false(jit_check_is_due(&cheap, &pace, false, 5999));
	assert_true(jit_check_is_due(&cheap, &pace, false, 6000));
	assert_false(jit_check_is_due(&cheap, &pace, true, 5049));
	assert_true(jit_check_is_due(&cheap, &pace, true, 5050));
	assert_false(jit_check_is_due(&dear, &pace, true, 5499));
	assert_true(jit_check_is_due(&dear, &pace, true, 5500));
	assert_false(jit_check_is_due(&dear, &pace, false, 5500));
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
	assert_int_equal(problems(f, JIT_PROBLEM_NOT_REGULAR), 3);
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
	assert_int_equal(problems(f, JIT_PROBLEM_OWNER), 1);
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
	assert_true(lookup(f, child, child, 0x1004, &name, &start));
	assert_string_equal(name, "child");
	assert_int_equal(start, 0x1000);
	close(pipe_fds[1]);
	close(pipe_fds[0]);
	int status;
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(unlink(path), 0);
	assert_true(lookup(f, child, child, 0x1004, &name, &start));
	assert_false(lookup(f, -1, 0, 0x1004, &name, &start));
	assert_false(lookup(f, 0, 0, 0x1004, &name, &start));
}

/* The pid inside the process's namespace names the file. */
static void test_namespace_pid(void **state)
{
	struct fixture *f = *state;
	const char *name;
	uint64_t start;
	char path[64];
	snprintf(path, sizeof(path), "/tmp/perf-%d.map", INNER_PID);
	write_map(path, O_TRUNC, "1000 10 inner\n");
	assert_true(lookup(f, getpid(), INNER_PID, 0x1000, &name, &start));
	assert_string_equal(name, "inner");
	assert_int_equal(unlink(path), 0);
}

static void test_many_processes(void **state)
{
	struct fixture *f = *state;
	write_map(f->path, 0, "1000 10 one\n");
	f->maps->files.total_bytes_max = 100;
	assert_name(f, 0x1000, "one");
	const char *name;
	uint64_t start;
	for (pid_t pid = PIDS_END; pid < PIDS_END + 10000; pid++)
		assert_false(lookup(f, pid, 0, 0x1000, &name, &start));
	assert_name(f, 0x1000, "one");
}

/* Written before the process began: by whoever had the pid then. */
static void test_file_of_an_earlier_process(void **state)
{
	struct fixture *f = *state;
	struct perf_maps_process who = {.pid = getpid(), .uid = getuid()};
	const char *name;
	uint64_t start;
	write_map(f->path, 0, "1000 10 one\n");
	who.started_ns = (uint64_t)(time_monotonic_ns() + 10 * NS_PER_S);
	assert_false(perf_maps_lookup(f->maps, &who, 0x1000, &name, &start));
	assert_int_equal(problems(f, JIT_PROBLEM_STALE), 1);
	who.started_ns = (uint64_t)(time_monotonic_ns() - 10 * NS_PER_S);
	assert_true(perf_maps_lookup(f->maps, &who, 0x1000, &name, &start));
	/* The same process runs another program since. */
	who.started_ns = (uint64_t)(time_monotonic_ns() + 10 * NS_PER_S);
	assert_false(perf_maps_lookup(f->maps, &who, 0x1000, &name, &start));
	assert_int_equal(problems(f, JIT_PROBLEM_STALE), 2);
}

/* A pid that nobody has stands for a process that ended before it was looked at. */
static void test_process_that_ended_unseen(void **state)
{
	struct fixture *f = *state;
	struct perf_maps_process who = {.pid = GONE_PID, .uid = getuid()};
	const char *name = "";
	char path[64];
	uint64_t start;
	snprintf(path, sizeof(path), "/tmp/perf-%d.map", GONE_PID);
	unlink(path);
	write_map(path, 0, "1000 10 one\n");
	/* Nobody knows when it began: the file may be another's. */
	assert_false(perf_maps_lookup(f->maps, &who, 0x1000, &name, &start));
	assert_int_equal(problems(f, JIT_PROBLEM_GONE), 1);
	who.started_ns = (uint64_t)time_monotonic_ns();
	assert_true(perf_maps_lookup(f->maps, &who, 0x1000, &name, &start));
	assert_string_equal(name, "one");
	/* Looked at since it ended: once. */
	write_map(path, O_APPEND, "2000 10 two\n");
	assert_false(perf_maps_lookup(f->maps, &who, 0x2000, &name, &start));
	if (getuid() == 0) {
		assert_int_equal(chown(path, 12345, 12345), 0);
		who.started_ns++;
		assert_false(perf_maps_lookup(f->maps, &who, 0x1000, &name, &start));
		assert_int_equal(problems(f, JIT_PROBLEM_OWNER), 1);
		who.uid = 12345;
		who.started_ns++;
		assert_true(perf_maps_lookup(f->maps, &who, 0x1000, &name, &start));
	}
	/* In a container of its own the file lay elsewhere. */
	who.pid = OTHER_PID;
	who.namespace_pid = GONE_PID;
	assert_false(perf_maps_lookup(f->maps, &who, 0x1000, &name, &start));
	assert_int_equal(problems(f, JIT_PROBLEM_GONE), 2);
	assert_int_equal(unlink(path), 0);
}

/* What it wrote between the last look and its end is read after it. */
static void test_last_words(void **state)
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
	const char *name;
	uint64_t start;
	int status;
	snprintf(path, sizeof(path), "/tmp/perf-%d.map", (int)child);
	write_map(path, O_TRUNC, "1000 10 first\n");
	assert_true(lookup(f, child, child, 0x1004, &name, &start));
	write_map(path, O_APPEND, "2000 10 last\n");
	close(pipe_fds[1]);
	close(pipe_fds[0]);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(lookup(f, child, child, 0x2004, &name, &start));
	assert_string_equal(name, "last");
	assert_true(lookup(f, child, child, 0x1004, &name, &start));
	assert_int_equal(unlink(path), 0);
}

/* The JDK writes all of it again: it begins as before, and is longer. */
static void test_file_written_again(void **state)
{
	struct fixture *f = *state;
	struct buffer text;
	buffer_init(&text, 1 << 20);
	for (unsigned i = 0; i < 1000; i++)
		assert_int_equal(buffer_printf(&text, "%x 10 f%u\n", 0x1000 + i * 0x10, i), 0);
	write_map(f->path, O_TRUNC, buffer_string(&text));
	assert_name(f, 0x1000, "f0");
	text.len -= 200;
	assert_int_equal(
		buffer_printf(&text, "\n1000 10 a new function in between, with a long name%0300d\n90000 10 later\n", 0), 0);
	write_map(f->path, O_TRUNC, buffer_string(&text));
	assert_name(f, 0x90000, "later");
	assert_int_equal(problems(f, JIT_PROBLEM_REWRITTEN), 1);
	buffer_release(&text);
}

/* A process that compiles for ever at the same addresses. */
static void test_names_of_covered_entries_make_room(void **state)
{
	struct perf_map map;
	struct buffer text;
	perf_map_init(&map);
	buffer_init(&text, 1 << 24);
	assert_int_equal(perf_map_add_text(&map, bytes_of_string("10 8 stays\n10 4 covers\n")), 0);
	for (unsigned round = 0; round < 100; round++) {
		buffer_clear(&text);
		for (unsigned i = 0; i < 10000; i++)
			assert_int_equal(buffer_printf(&text, "%x 10 a name of some fifty letters, so that it adds up %u\n",
						       0x1000 + i * 0x10, round),
					 0);
		assert_int_equal(perf_map_add_text(&map, buffer_bytes(&text)), 0);
	}
	assert_string_equal(find(&map, 0x14), "stays");
	assert_string_equal(find(&map, 0x10), "covers");
	assert_string_equal(find(&map, 0x1000 + 9999 * 0x10), "a name of some fifty letters, so that it adds up 99");
	assert_int_equal(map.dropped, 0);
	assert_true(perf_map_memory_bytes(&map) < 6 * MIB);
	perf_map_release(&map);
	buffer_release(&text);
}

/* A gigabyte: time, memory, and what is said of it. Dense, or all of it one line (zeroes, as a sparse file reads). */
static void test_huge_files(void **state)
{
	enum { LINES = 40 };
	struct fixture *f = *state;
	struct jit_stats stats;
	for (int sparse = 0; sparse < 2; sparse++) {
		uint64_t address = 0x100000;
		int fd = open(f->path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
		struct buffer text;
		buffer_init(&text, 64 << 20);
		/* The worst: distinct, unordered, overlapping. 40 MB, then a hole. */
		for (unsigned i = 0; i < 1000000 && !sparse; i++)
			assert_int_equal(buffer_printf(&text, "%lx 20 function number %u\n",
						       (unsigned long)(address + hash64_mix(i) % 1000000 * 0x10), i),
					 0);
		assert_int_equal(write(fd, text.data, text.len), (ssize_t)text.len);
		buffer_release(&text);
		assert_int_equal(ftruncate(fd, 1ll << 30), 0);
		close(fd);
		for (unsigned i = 0; i < LINES; i++) {
			const char *name;
			uint64_t start;
			int64_t began = time_thread_cpu_ns();
			lookup(f, getpid(), 0, address, &name, &start);
			assert_true(time_thread_cpu_ns() - began < 3 * NS_PER_S);
			perf_maps_get_stats(f->maps, &stats);
			assert_true(stats.memory_bytes < 64 * MIB);
		}
		assert_true(stats.problems[JIT_PROBLEM_TOO_LONG] == (uint64_t)sparse + 1);
		assert_true(stats.problems[JIT_PROBLEM_FULL] > 0);
		assert_true(stats.bytes_read < 600 * MIB);
	}
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

/* A name that finds no room costs its own line only. */
static void test_room_for_shorter_names(void **state)
{
	static const char lines[] = "1000 10 a_name_that_is_too_long\n2000 10 short\n";
	struct perf_map map;
	(void)state;
	perf_map_init(&map);
	map.names.max = 10;
	assert_int_equal(perf_map_add_text(&map, bytes_of_string(lines)), 0);
	assert_int_equal(map.dropped, 1);
	assert_null(perf_map_find(&map, 0x1000));
	assert_string_equal(perf_map_name(&map, perf_map_find(&map, 0x2000)), "short");
	perf_map_release(&map);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_lines),
		cmocka_unit_test(test_bad_lines),
		cmocka_unit_test(test_later_entries_cover_earlier_ones),
		cmocka_unit_test(test_random_entries),
		cmocka_unit_test(test_limits_and_faults),
		cmocka_unit_test(test_names_of_covered_entries_make_room),
		cmocka_unit_test(test_files_of_others),
		FIXTURE_TEST(test_growth),
		FIXTURE_TEST(test_reads_at_most_once_an_interval),
		cmocka_unit_test(test_checks_take_a_bounded_share),
		FIXTURE_TEST(test_rewritten_files),
		FIXTURE_TEST(test_what_is_no_regular_file),
		FIXTURE_TEST(test_files_of_other_users),
		FIXTURE_TEST(test_ended_process),
		FIXTURE_TEST(test_namespace_pid),
		FIXTURE_TEST(test_many_processes),
		FIXTURE_TEST(test_file_of_an_earlier_process),
		FIXTURE_TEST(test_process_that_ended_unseen),
		FIXTURE_TEST(test_last_words),
		FIXTURE_TEST(test_file_written_again),
		FIXTURE_TEST(test_huge_files),
		cmocka_unit_test(test_room_for_shorter_names),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
