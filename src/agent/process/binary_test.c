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
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/process/binary.h"
#include "agent/process/process.h"
#include "base/test_fixture.h"
#include "elf/build_id.h"
#include "elf/test_elf.h"

struct fixture {
	struct binaries binaries;
	struct agent_sink sink;
	unsigned calls;
	char build_id[BUILD_ID_HEX_MAX], content[CONTENT_KEY_HEX], path[4096], first_bytes[5];
};
static const size_t fixture_bytes = sizeof(struct fixture);

static void remember(void *context, const struct agent_binary *binary)
{
	struct fixture *fixture = context;
	fixture->calls++;
	snprintf(fixture->build_id, sizeof(fixture->build_id), "%s", binary->build_id);
	snprintf(fixture->path, sizeof(fixture->path), "%s", binary->path);
	snprintf(fixture->content, sizeof(fixture->content), "%s", binary->content);
	memset(fixture->first_bytes, 0, sizeof(fixture->first_bytes));
	assert_true(pread(binary->fd, fixture->first_bytes, 4, 0) >= 0);
}

static int fixture_init(struct fixture *fixture)
{
	assert_int_equal(binaries_init(&fixture->binaries), 0);
	fixture->sink = (struct agent_sink){.context = fixture, .on_binary = remember};
	return 0;
}

static void fixture_release(struct fixture *fixture)
{
	binaries_release(&fixture->binaries);
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
	*ret = (struct process_mapping){event.start, event.start + event.length, event.offset, 0, 0, 0, 0};
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

	/* The same file as in an event of a process that has ended: found by path, not shown again. */
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

/* What has no build-id is known, and shown, by a hash of the file; what is no ELF file is not. */
static void test_a_file_without_build_id(void **state)
{
	struct fixture *f = *state;
	char path[] = "/tmp/wick-binary-test-XXXXXX", hash[FILE_HASH_HEX];
	struct buffer elf;
	struct stat status;
	bool is_hash;
	test_elf_build(&(struct test_elf){.no_build_id = true}, &elf);
	int fd = mkostemp(path, O_CLOEXEC);
	assert_int_equal(write(fd, elf.data, elf.len), elf.len);
	assert_int_equal(fstat(fd, &status), 0);
	assert_int_equal(file_hash_read_fd(fd, hash, NULL), 0);
	void *at = mmap(NULL, elf.len, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0);
	assert_ptr_not_equal(at, MAP_FAILED);
	struct process_mapping mapping = {.start = (uintptr_t)at, .end = (uintptr_t)at + 4096};
	struct event event = {.kind = EVENT_MAP, .name = path, .device = status.st_dev, .inode = status.st_ino};
	assert_int_equal(binaries_add(&f->binaries, &event, &mapping.binary), 0);
	binary_prepare(&f->binaries, mapping.binary, getpid(), &mapping, &f->sink);
	assert_int_equal(f->calls, 1);
	assert_string_equal(f->build_id, hash);
	assert_string_equal(binary_id(&f->binaries, &mapping, &is_hash), hash);
	assert_true(is_hash);
	assert_string_equal(binary_get(&f->binaries, mapping.binary)->build_id, "");
	binary_prepare(&f->binaries, mapping.binary, getpid(), &mapping, &f->sink);
	assert_int_equal(f->calls, 1);
	struct agent_sink blind = {0};
	struct event again = event;
	again.inode++;
	munmap(at, elf.len);
	assert_int_equal(pwrite(fd, "#!/bin/sh\n", 10, 0), 10);
	at = mmap(NULL, elf.len, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0);
	mapping.start = (uintptr_t)at, mapping.end = (uintptr_t)at + 4096;
	assert_int_equal(binaries_add(&f->binaries, &again, &mapping.binary), 0);
	binary_prepare(&f->binaries, mapping.binary, getpid(), &mapping, &blind);
	assert_string_equal(binary_id(&f->binaries, &mapping, &is_hash), "");
	assert_false(is_hash);
	munmap(at, elf.len);
	unlink(path);
	close(fd);
	buffer_release(&elf);
}

/* A number of an inode is given to the next file, and a file may be written to: its name is then that of what is in it now. */
static void test_a_rewritten_file_without_build_id(void **state)
{
	struct fixture *f = *state;
	char path[] = "/tmp/wick-binary-test-XXXXXX", hash[FILE_HASH_HEX], earlier[FILE_HASH_HEX] = "";
	bool is_hash;
	if (geteuid() != 0)
		skip(); /* the kernel's links are for those who may restore processes */
	int fd = mkostemp(path, O_CLOEXEC);
	struct event event = {.kind = EVENT_MAP, .name = path, .device = 1, .inode = 42};
	for (unsigned i = 0; i < 2; i++) {
		const struct test_symbol symbols[] = {
			{.name = i ? "second" : "first", .size = 16, .type = STT_FUNC, .binding = STB_GLOBAL}};
		struct process_mapping mapping = {0};
		struct buffer elf;
		test_elf_build(&(struct test_elf){.symbols = symbols, .symbol_count = 1, .no_build_id = true}, &elf);
		assert_int_equal(ftruncate(fd, 0), 0);
		assert_int_equal(pwrite(fd, elf.data, elf.len, 0), elf.len);
		assert_int_equal(file_hash_read_fd(fd, hash, NULL), 0);
		void *at = mmap(NULL, elf.len, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0);
		assert_ptr_not_equal(at, MAP_FAILED);
		mapping.start = (uintptr_t)at, mapping.end = (uintptr_t)at + 4096;
		assert_int_equal(binaries_add(&f->binaries, &event, &mapping.binary), 0);
		assert_int_equal(binary_identify(&f->binaries, getpid(), &mapping), 0);
		binary_prepare(&f->binaries, mapping.binary, getpid(), &mapping, &f->sink);
		assert_int_equal(f->calls, i + 1);
		assert_string_equal(f->build_id, hash);
		assert_string_equal(binary_id(&f->binaries, &mapping, &is_hash), hash);
		assert_true(is_hash);
		assert_string_not_equal(hash, earlier);
		memcpy(earlier, hash, sizeof(earlier));
		munmap(at, elf.len);
		buffer_release(&elf);
	}
	unlink(path);
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
	struct process_mapping mapping = {0x1000, 0x2000, 0, 0, 0};
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

/* A file that is mapped executable. */
struct mapped {
	struct process_mapping mapping;
	void *at;
	size_t bytes;
	char hash[FILE_HASH_HEX];
};

static struct mapped map_file(struct fixture *f, const char *path, const char *symbol, const char *event_path)
{
	const struct test_symbol symbols[] = {{.name = symbol, .size = 16, .type = STT_FUNC, .binding = STB_GLOBAL}};
	struct buffer elf;
	test_elf_build(&(struct test_elf){.symbols = symbols, .symbol_count = 1}, &elf);
	int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0755);
	assert_int_equal(write(fd, elf.data, elf.len), elf.len);
	struct mapped mapped = {.bytes = elf.len};
	mapped.at = mmap(NULL, elf.len, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0);
	assert_ptr_not_equal(mapped.at, MAP_FAILED);
	assert_int_equal(file_hash_read_fd(fd, mapped.hash, NULL), 0);
	close(fd);
	buffer_release(&elf);
	mapped.mapping.start = (uintptr_t)mapped.at;
	mapped.mapping.end = mapped.mapping.start + ((mapped.bytes + 4095) & ~(size_t)4095);
	struct event event = {.kind = EVENT_MAP, .name = event_path, .build_id_bytes = 20};
	for (size_t i = 0; i < event.build_id_bytes; i++)
		sscanf(TEST_ELF_BUILD_ID + 2 * i, "%2hhx", &event.build_id[i]);
	assert_int_equal(binaries_add(&f->binaries, &event, &mapped.mapping.binary), 0);
	return mapped;
}

static const char *key_of(struct fixture *f, const struct mapped *mapped)
{
	return binary_file_get(&f->binaries, mapped->mapping.file)->content.key;
}

static const char *id_of(struct fixture *f, const struct mapped *mapped, bool is_expected_hash)
{
	bool is_hash;
	const char *id = binary_id(&f->binaries, &mapped->mapping, &is_hash);
	assert_int_equal(is_hash, is_expected_hash);
	return id;
}

/* One after the other at a path that is made for them; both are gone from it. */
static void map_two_files(struct fixture *f, char *path, struct mapped *ret_first, struct mapped *ret_second)
{
	if (geteuid() != 0)
		skip(); /* the kernel's links are for those who may restore processes */
	close(mkstemp(path));
	*ret_first = map_file(f, path, "first", path);
	unlink(path);
	*ret_second = map_file(f, path, "second", path);
	unlink(path);
}

/* As events tell them: one path, one build-id. They were one after the other there, or are in different places of that name. */
static void test_files_of_one_build_id(void **state)
{
	struct fixture *f = *state;
	char path[] = "/tmp/wick-binary-test-XXXXXX";
	struct mapped first, second;
	map_two_files(f, path, &first, &second);
	struct mapped again = map_file(f, path, "first", path);
	assert_int_equal(first.mapping.binary, second.mapping.binary);
	assert_int_equal(binary_identify(&f->binaries, getpid(), &first.mapping), 0);
	assert_int_equal(strlen(key_of(f, &first)), CONTENT_KEY_HEX - 1);

	/* One that cannot be had any more: there was no other. */
	struct mapped gone = first;
	gone.mapping.file = 0;
	assert_int_equal(binary_identify(&f->binaries, 4000000, &gone.mapping), 0);
	assert_int_equal(gone.mapping.file, first.mapping.file);

	assert_int_equal(binary_identify(&f->binaries, getpid(), &second.mapping), 0);
	assert_int_equal(binary_identify(&f->binaries, getpid(), &again.mapping), 0);
	assert_string_not_equal(key_of(f, &first), key_of(f, &second));
	assert_int_equal(first.mapping.file, again.mapping.file); /* another inode, but the same content */
	/* The first is known by the build-id, the other by its hash. */
	assert_string_equal(id_of(f, &first, false), TEST_ELF_BUILD_ID);
	assert_string_equal(id_of(f, &again, false), TEST_ELF_BUILD_ID);
	assert_string_equal(id_of(f, &second, true), second.hash);

	/* Now there is one, so nothing is assumed. What lies at the path is what was there last, of which nobody knows. */
	unlink(path);
	gone.mapping.file = 0;
	assert_int_equal(binary_identify(&f->binaries, 4000000, &gone.mapping), 0);
	assert_string_equal(key_of(f, &gone), "");
	/* And it is known by neither's id, which is the same each time. */
	char unknown[FILE_HASH_HEX];
	snprintf(unknown, sizeof(unknown), "%s", id_of(f, &gone, true));
	assert_true(build_id_is_valid(unknown));
	assert_string_not_equal(unknown, second.hash);
	assert_string_not_equal(unknown, first.hash);
	assert_string_equal(unknown, id_of(f, &gone, true));

	/* Looked at once. */
	munmap(first.at, first.bytes);
	assert_int_equal(binary_identify(&f->binaries, getpid(), &first.mapping), 0);
	assert_int_equal(first.mapping.file, again.mapping.file);
	munmap(second.at, second.bytes);
	munmap(again.at, again.bytes);
}

/* The sink is shown each of them, once, with what it is known by. */
static void test_files_of_one_build_id_are_shown(void **state)
{
	struct fixture *f = *state;
	char path[] = "/tmp/wick-binary-test-XXXXXX", first_content[CONTENT_KEY_HEX];
	struct mapped first, second;
	map_two_files(f, path, &first, &second);
	uint32_t id = first.mapping.binary;
	assert_int_equal(id, second.mapping.binary);
	assert_int_equal(binary_identify(&f->binaries, getpid(), &first.mapping), 0);
	binary_prepare(&f->binaries, id, getpid(), &first.mapping, &f->sink);
	assert_int_equal(f->calls, 1);
	assert_string_equal(f->content, key_of(f, &first));
	memcpy(first_content, f->content, sizeof(first_content));
	assert_int_equal(binary_identify(&f->binaries, getpid(), &second.mapping), 0);
	binary_prepare(&f->binaries, id, getpid(), &second.mapping, &f->sink);
	assert_int_equal(f->calls, 2);
	assert_string_equal(f->build_id, second.hash);
	assert_string_equal(f->content, key_of(f, &second));
	assert_string_not_equal(f->content, first_content);
	/* The same two in another place. */
	struct mapped elsewhere = map_file(f, path, "first", "/elsewhere");
	assert_int_not_equal(elsewhere.mapping.binary, id);
	binary_prepare(&f->binaries, elsewhere.mapping.binary, getpid(), &elsewhere.mapping, &f->sink);
	binary_prepare(&f->binaries, id, getpid(), &first.mapping, &f->sink);
	binary_prepare(&f->binaries, id, getpid(), &second.mapping, &f->sink);
	assert_int_equal(f->calls, 2);
	/* One that cannot be had any more is tried a few times, and then left alone. */
	unlink(path);
	binary_file_get(&f->binaries, second.mapping.file)->announced = false;
	map64_clear(&f->binaries.announced);
	struct process_mapping gone = second.mapping;
	for (unsigned i = 0; i < 20; i++)
		binary_prepare(&f->binaries, id, 4000000, &gone, &f->sink);
	assert_int_equal(f->calls, 2);
	assert_true(binary_file_get(&f->binaries, gone.file)->tries < 10);
	munmap(first.at, first.bytes);
	munmap(second.at, second.bytes);
	munmap(elsewhere.at, elsewhere.bytes);
}

static void test_what_is_assumed_is_looked_at_later(void **state)
{
	struct fixture *f = *state;
	char path[] = "/tmp/wick-binary-test-XXXXXX";
	if (geteuid() != 0)
		skip(); /* the kernel's links are for those who may restore processes */
	close(mkstemp(path));
	struct mapped first = map_file(f, path, "first", path);
	unlink(path);
	assert_int_equal(binary_identify(&f->binaries, getpid(), &first.mapping), 0);
	struct mapped second = map_file(f, path, "second", path);
	unlink(path);
	/* None may be looked at in this second. */
	f->binaries.looks_left = 0;
	f->binaries.looked_ns = INT64_MAX / 2;
	assert_int_equal(binary_identify(&f->binaries, getpid(), &second.mapping), 0);
	assert_int_equal(second.mapping.file, first.mapping.file);
	assert_true(second.mapping.is_assumed);
	assert_int_equal(binary_identify(&f->binaries, getpid(), &second.mapping), 0);
	/* In the next. */
	f->binaries.looked_ns = 0;
	assert_true(binary_identify(&f->binaries, getpid(), &second.mapping) > 0);
	assert_int_not_equal(second.mapping.file, first.mapping.file);
	assert_false(second.mapping.is_assumed);
	/* What is known to be several is looked at in any second. */
	f->binaries.looks_left = 0;
	f->binaries.looked_ns = INT64_MAX / 2;
	first.mapping.file = 0;
	assert_int_equal(binary_identify(&f->binaries, getpid(), &first.mapping), 0);
	assert_int_not_equal(second.mapping.file, first.mapping.file);
	assert_false(first.mapping.is_assumed);
	munmap(first.at, first.bytes);
	munmap(second.at, second.bytes);
}

/* Rebuilt a thousand times with one build-id: what nobody maps any more is forgotten, its binary is not. */
static void test_files_are_swept(void **state)
{
	struct fixture *f = *state;
	char path[] = "/tmp/wick-binary-test-XXXXXX", symbol[16];
	struct mapped all[10], last = {0};
	uint32_t first_file = 0;
	if (geteuid() != 0)
		skip();
	close(mkstemp(path));
	for (unsigned i = 0; i < 10; i++) {
		snprintf(symbol, sizeof(symbol), "f%u", i);
		all[i] = last = map_file(f, path, symbol, path);
		assert_int_equal(binary_identify(&f->binaries, getpid(), &last.mapping), 0);
		first_file = i == 0 ? last.mapping.file : first_file;
		unlink(path);
	}
	assert_int_equal(f->binaries.files_used, 10);
	binaries_sweep_begin(&f->binaries);
	binaries_mark_mapping(&f->binaries, &last.mapping);
	assert_int_equal(binaries_sweep_end(&f->binaries), 0);
	assert_int_equal(f->binaries.files_used, 1);
	assert_false(binary_file_get(&f->binaries, first_file)->used);
	assert_true(binary_file_get(&f->binaries, last.mapping.file)->used);
	size_t count = f->binaries.file_count;
	struct mapped next = map_file(f, path, "next", path);
	assert_int_equal(binary_identify(&f->binaries, getpid(), &next.mapping), 0);
	assert_int_equal(f->binaries.file_count, count); /* a place was used again */
	unlink(path);
	munmap(next.at, next.bytes);
	for (unsigned i = 0; i < 10; i++)
		munmap(all[i].at, all[i].bytes);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		FIXTURE_TEST(test_what_is_one_and_what_is_not),
		FIXTURE_TEST(test_what_is_a_jitdump),
		FIXTURE_TEST(test_unused_ones_are_swept),
		FIXTURE_TEST(test_our_own_file),
		FIXTURE_TEST(test_a_file_is_opened),
		FIXTURE_TEST(test_a_file_without_build_id),
		FIXTURE_TEST(test_a_rewritten_file_without_build_id),
		FIXTURE_TEST(test_the_vdso),
		FIXTURE_TEST(test_strangers_are_not_shown),
		FIXTURE_TEST(test_files_of_one_build_id),
		FIXTURE_TEST(test_files_of_one_build_id_are_shown),
		FIXTURE_TEST(test_what_is_assumed_is_looked_at_later),
		FIXTURE_TEST(test_files_are_swept),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
