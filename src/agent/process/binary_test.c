// SPDX-License-Identifier: Apache-2.0
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/process/binary.h"
#include "agent/process/process.h"
#include "base/alloc.h"
#include "elf/build_id.h"

struct fixture {
	struct binaries binaries;
	struct agent_sink sink;
	unsigned calls;
	char build_id[BUILD_ID_HEX_MAX], path[4096], first_bytes[5];
};

static void remember(void *context, const char *build_id, const char *path, pid_t pid, int fd)
{
	struct fixture *fixture = context;
	fixture->calls++;
	snprintf(fixture->build_id, sizeof(fixture->build_id), "%s", build_id);
	snprintf(fixture->path, sizeof(fixture->path), "%s", path);
	memset(fixture->first_bytes, 0, sizeof(fixture->first_bytes));
	assert_true(pread(fd, fixture->first_bytes, 4, 0) >= 0);
}

static int setup(void **state)
{
	struct fixture *fixture = mem_zalloc(sizeof(*fixture));
	assert_int_equal(binaries_init(&fixture->binaries), 0);
	fixture->sink = (struct agent_sink){.context = fixture, .on_binary = remember};
	*state = fixture;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *fixture = *state;
	binaries_release(&fixture->binaries);
	mem_free(fixture);
	return 0;
}

static uint32_t add(struct fixture *fixture, const char *name, uint8_t build_id, uint64_t inode)
{
	struct event event = {.kind = EVENT_MAP, .name = name, .inode = inode, .device = inode ? 1 : 0};
	uint32_t id;

	if (build_id) {
		event.build_id[0] = build_id;
		event.build_id_bytes = 1;
	}
	assert_int_equal(binaries_add(&fixture->binaries, &event, &id), 0);
	return id;
}

static void test_what_is_one_and_what_is_not(void **state)
{
	struct fixture *f = *state;
	uint32_t file = add(f, "/usr/bin/x", 1, 0);

	assert_int_equal(add(f, "/usr/bin/x", 1, 0), file);
	assert_int_equal(add(f, "/usr/bin/x (deleted)", 1, 0), file);
	assert_int_not_equal(add(f, "/usr/bin/x", 2, 0), file);
	assert_int_not_equal(add(f, "/usr/bin/xx", 1, 0), file);
	uint32_t by_inode = add(f, "/usr/bin/x", 0, 5);
	assert_int_not_equal(by_inode, file);
	assert_int_equal(add(f, "/usr/bin/x (deleted)", 0, 5), by_inode);
	assert_int_not_equal(add(f, "/usr/bin/x", 0, 6), by_inode);
	assert_string_equal(binary_name(binary_get(&f->binaries, file)), "x");
	assert_string_equal(binary_get(&f->binaries, file)->build_id, "01");

	uint32_t jit = add(f, "//anon", 0, 0);
	assert_int_equal(binary_get(&f->binaries, jit)->kind, BINARY_JIT);
	assert_int_equal(add(f, "[heap]", 0, 0), jit);
	uint32_t memfd = add(f, "/memfd:jit (deleted)", 0, 9);
	assert_int_equal(binary_get(&f->binaries, memfd)->kind, BINARY_MEMFD); /* not decided yet */
	assert_int_equal(add(f, "/memfd:jit (deleted)", 0, 9), memfd);
	assert_int_not_equal(add(f, "/memfd:jit (deleted)", 0, 10), memfd);
	assert_int_equal(binary_get(&f->binaries, add(f, "/memfd:program (deleted)", 3, 0))->kind, BINARY_FILE);
	assert_int_equal(binary_get(&f->binaries, add(f, "[vdso]", 0, 0))->kind, BINARY_VDSO);
}

static void test_what_is_a_jitdump(void **state)
{
	static const struct {
		const char *path;
		bool is_jitdump;
	} paths[] = {
		{"/tmp/jit-1.dump", true},
		{"/srv/app/jit-4194304.dump", true},
		{"/tmp/jit-42.dump (deleted)", true},
		{"/jit-7.dump", true},
		{"/tmp/jit-.dump", false},
		{"/tmp/jit-1.dump.so", false},
		{"/tmp/jit-1a.dump", false},
		{"/tmp/xjit-1.dump", false},
		{"/tmp/jit-1.dum", false},
		{"/tmp/jit-1.dump/x", false},
		{"jit-1.dump", false},
		{"//anon", false},
	};
	struct fixture *f = *state;
	for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++)
		assert_int_equal(binary_get(&f->binaries, add(f, paths[i].path, 0, 100 + i))->is_jitdump, paths[i].is_jitdump);
}

static void test_unused_ones_are_swept(void **state)
{
	struct fixture *f = *state;
	char name[32];
	uint32_t ids[5000];

	for (uint32_t i = 0; i < 5000; i++) {
		snprintf(name, sizeof(name), "/tmp/%u", i);
		ids[i] = add(f, name, 0, 100 + i);
	}
	uint32_t vdso = add(f, "[vdso]", 0, 0);
	assert_true(binaries_should_sweep(&f->binaries));
	binaries_sweep_begin(&f->binaries);
	for (uint32_t i = 0; i < 5000; i += 100)
		binaries_mark(&f->binaries, ids[i]);
	binaries_mark(&f->binaries, vdso);
	assert_int_equal(binaries_sweep_end(&f->binaries), 0);
	assert_int_equal(f->binaries.used, 51);
	assert_false(binaries_should_sweep(&f->binaries));
	size_t count = f->binaries.count;
	assert_int_equal(add(f, "[vdso]", 0, 0), vdso);
	for (uint32_t i = 0; i < 5000; i++) {
		snprintf(name, sizeof(name), "/tmp/%u", i);
		uint32_t id = add(f, name, 0, 100 + i);
		if (i % 100 == 0)
			assert_int_equal(id, ids[i]);
		assert_string_equal(binary_get(&f->binaries, id)->path, name);
	}
	assert_int_equal(f->binaries.count, count); /* their places were used again */
}

/* The mapping of this very function, as /proc/self/maps has it. */
static uint32_t own_mapping(struct fixture *f, struct process_mapping *ret)
{
	FILE *maps = fopen("/proc/self/maps", "re");
	char line[4500];
	struct event event;

	assert_non_null(maps);
	while (fgets(line, sizeof(line), maps)) {
		line[strcspn(line, "\n")] = 0;
		if (process_parse_maps_line(line, &event) == 0 && event.start <= (uintptr_t)own_mapping &&
		    event.start + event.length > (uintptr_t)own_mapping)
			break;
	}
	fclose(maps);
	*ret = (struct process_mapping){event.start, event.start + event.length, event.offset, 0};
	assert_int_equal(binaries_add(&f->binaries, &event, &ret->binary), 0);
	return ret->binary;
}

static void test_our_own_file(void **state)
{
	struct fixture *f = *state;
	struct process_mapping mapping;
	char path[4096] = "", build_id[BUILD_ID_HEX_MAX];
	uint32_t id = own_mapping(f, &mapping);

	assert_true(readlink("/proc/self/exe", path, sizeof(path) - 1) > 0);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	assert_int_equal(build_id_read_fd(fd, build_id, NULL), 0);
	close(fd);
	binary_prepare(&f->binaries, id, getpid(), &mapping, &f->sink);
	assert_int_equal(f->calls, 1);
	assert_string_equal(f->path, path);
	assert_string_equal(f->build_id, build_id);
	assert_memory_equal(f->first_bytes, "\177ELF", 4);
	binary_prepare(&f->binaries, id, getpid(), &mapping, &f->sink);
	assert_int_equal(f->calls, 1);

	/* The same file as an event of a process that has ended tells it: found by path, not shown again. */
	struct event event = {.kind = EVENT_MAP, .name = path};
	for (size_t i = 0; build_id[2 * i]; i++, event.build_id_bytes++)
		sscanf(build_id + 2 * i, "%2hhx", &event.build_id[i]);
	uint32_t other;
	assert_int_equal(binaries_add(&f->binaries, &event, &other), 0);
	assert_int_not_equal(other, id);
	binary_prepare(&f->binaries, other, 4000000, &mapping, &f->sink);
	assert_int_equal(f->calls, 1);
	map64_clear(&f->binaries.announced);
	binary_get(&f->binaries, other)->announced = false;
	binary_prepare(&f->binaries, other, 4000000, &mapping, &f->sink);
	assert_int_equal(f->calls, 2);
}

/* For those who need the contents: also when what is known of the mapping is a part of it, or more than it. */
static void test_a_file_is_opened(void **state)
{
	struct fixture *f = *state;
	struct process_mapping mapping;
	char expected[BUILD_ID_HEX_MAX], build_id[BUILD_ID_HEX_MAX];
	uint32_t id = own_mapping(f, &mapping);

	int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	assert_int_equal(build_id_read_fd(fd, expected, NULL), 0);
	close(fd);
	for (int i = 0; i < 3; i++) {
		fd = binary_open(binary_get(&f->binaries, id), getpid(), &mapping, build_id);
		assert_true(fd >= 0);
		close(fd);
		assert_string_equal(build_id, expected);
		if (i == 0)
			mapping.start += 4096;
		else
			mapping.end += 1 << 20;
	}
	assert_int_equal(binary_open(binary_get(&f->binaries, add(f, "//anon", 0, 0)), getpid(), &mapping, build_id), -ENOEXEC);
	assert_int_equal(binary_open(binary_get(&f->binaries, add(f, "/bin/true", 9, 0)), getpid(), &mapping, build_id),
			 -ENOENT);
	fd = binary_open(binary_get(&f->binaries, add(f, "[vdso]", 0, 0)), 4000000, &mapping, build_id);
	assert_true(fd >= 0 && build_id_is_valid(build_id));
	close(fd);
}

static void test_the_vdso(void **state)
{
	struct fixture *f = *state;
	struct process_mapping mapping = {0};

	binary_prepare(&f->binaries, add(f, "[vdso]", 0, 0), getpid(), &mapping, &f->sink);
	assert_int_equal(f->calls, 1);
	assert_true(build_id_is_valid(f->build_id));
	assert_memory_equal(f->first_bytes, "\177ELF", 4);
}

/* Another file under the path, or something that must not even be opened. */
static void test_strangers_are_not_shown(void **state)
{
	struct fixture *f = *state;
	struct process_mapping mapping = {0x1000, 0x2000, 0, 0};
	char directory[] = "/tmp/wick-binary-XXXXXX", path[64];

	assert_non_null(mkdtemp(directory));
	snprintf(path, sizeof(path), "%s/fifo", directory);
	assert_int_equal(mkfifo(path, 0600), 0);
	for (int tries = 0; tries < 10; tries++) {
		binary_prepare(&f->binaries, add(f, path, 0, 77), 4000000, &mapping, &f->sink);
		binary_prepare(&f->binaries, add(f, "/bin/true", 0, 77), 4000000, &mapping, &f->sink);
		binary_prepare(&f->binaries, add(f, "/bin/true", 9, 0), 4000000, &mapping, &f->sink);
		binary_prepare(&f->binaries, add(f, "/nowhere", 9, 0), getpid(), &mapping, &f->sink);
	}
	assert_int_equal(f->calls, 0);
	unlink(path);
	rmdir(directory);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_what_is_one_and_what_is_not, setup, teardown),
		cmocka_unit_test_setup_teardown(test_what_is_a_jitdump, setup, teardown),
		cmocka_unit_test_setup_teardown(test_unused_ones_are_swept, setup, teardown),
		cmocka_unit_test_setup_teardown(test_our_own_file, setup, teardown),
		cmocka_unit_test_setup_teardown(test_a_file_is_opened, setup, teardown),
		cmocka_unit_test_setup_teardown(test_the_vdso, setup, teardown),
		cmocka_unit_test_setup_teardown(test_strangers_are_not_shown, setup, teardown),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
