/* SPDX-License-Identifier: Apache-2.0 */
/* Walks of this very program's stack: copied, and unwound by the files that /proc/self/maps lists. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/io.h"
#include "base/test_faults.h"
#include "unwind/stack_walk.h"
#include "unwind/test_cfi.h"

#define MAPPINGS_MAX 256
#define COPY_BYTES   65536

static struct {
	struct stack_walk_mapping items[MAPPINGS_MAX];
	char paths[MAPPINGS_MAX][512];
	size_t count;
	unsigned opened;
	bool hides_files;
} space;

static bool find(void *context, uint64_t address, struct stack_walk_mapping *ret)
{
	(void)context;
	for (size_t i = 0; i < space.count; i++) {
		if (address < space.items[i].start || address >= space.items[i].end)
			continue;
		*ret = space.items[i];
		return true;
	}
	return false;
}

static int open_file(void *context, uint32_t binary)
{
	(void)context;
	space.opened++;
	return space.hides_files ? -ENOENT : io_open_regular(space.paths[binary], NULL);
}

static const struct stack_walk_source source = {.find = find, .open = open_file};

static int add_mappings(struct stack_walker *walker)
{
	FILE *maps = fopen("/proc/self/maps", "re");
	char line[1024];
	int r = 0;
	assert_non_null(maps);
	space.count = 0;
	while (r == 0 && fgets(line, sizeof(line), maps)) {
		unsigned long long start, end, offset;
		char permissions[5], path[512] = "";
		if (sscanf(line, "%llx-%llx %4s %llx %*s %*s %511s", &start, &end, permissions, &offset, path) < 4 ||
		    permissions[2] != 'x')
			continue;
		assert_true(space.count < MAPPINGS_MAX);
		struct stack_walk_mapping *mapping = &space.items[space.count];
		*mapping = (struct stack_walk_mapping){start, end, offset, 0};
		r = stack_walker_add(walker, &mapping->binary, NULL);
		if (r == 0)
			snprintf(space.paths[mapping->binary], sizeof(space.paths[0]), "%s", path);
		space.count += r == 0;
	}
	fclose(maps);
	return r;
}

/* ---- what is copied ---- */

static uint8_t bytes[COPY_BYTES];
static struct stack_copy copy;
static uint64_t returns[4]; /* into the callers, the innermost first */
static volatile int depth;
static uint64_t frames[UNWIND_FRAMES_MAX]; /* of the walk; the stack is to be small */

#if UNWIND_REGISTERS == 16
#define CAPTURE(ip, sp, fp) asm volatile("lea 0(%%rip), %0; mov %%rsp, %1; mov %%rbp, %2" : "=r"(ip), "=r"(sp), "=r"(fp))
#else
#define CAPTURE(ip, sp, fp) asm volatile("adr %0, .; mov %1, sp; mov %2, x29" : "=r"(ip), "=r"(sp), "=r"(fp))
#endif

/* Red zones of the sanitizer lie between what is copied. */
__attribute__((noinline, no_sanitize("address"))) static void copy_stack(uint64_t sp, size_t length)
{
	const volatile uint8_t *from = (const volatile uint8_t *)(uintptr_t)sp;
	for (size_t i = 0; i < length; i++)
		bytes[i] = from[i];
}

__attribute__((noinline)) static void innermost(void)
{
	uint64_t ip, sp, fp;
	CAPTURE(ip, sp, fp);
	returns[0] = (uint64_t)(uintptr_t)__builtin_return_address(0);
	/* As much as there is: environment and arguments lie above main(). */
	uint64_t end = (uint64_t)(uintptr_t)environ[0];
	size_t length = end - sp < COPY_BYTES ? end - sp : COPY_BYTES;
	copy_stack(sp, length);
	copy = (struct stack_copy){.ip = ip, .bytes = bytes, .length = length, .is_cut = true};
	copy.registers[UNWIND_REGISTER_SP] = sp;
	copy.registers[UNWIND_REGISTER_FP] = fp;
	copy.known = 1u << UNWIND_REGISTER_SP | 1u << UNWIND_REGISTER_FP;
	depth++;
}

__attribute__((noinline)) static void middle(void)
{
	returns[1] = (uint64_t)(uintptr_t)__builtin_return_address(0);
	innermost();
	depth++;
}

__attribute__((noinline)) static void outer(void)
{
	returns[2] = (uint64_t)(uintptr_t)__builtin_return_address(0);
	middle();
	depth++;
}

/* ---- tests ---- */

static void test_own_stack(void **state)
{
	struct stack_walker *walker;
	enum unwind_result result;
	size_t count;
	assert_int_equal(stack_walker_new(&source, &walker, NULL), 0);
	assert_int_equal(add_mappings(walker), 0);
	outer();
	assert_int_equal(stack_walker_walk(walker, &copy, frames, &count, &result, NULL), 0);
	assert_in_range(count, 6, 64);
	assert_int_equal(frames[0], copy.ip);
	for (size_t i = 0; i < 3; i++)
		assert_int_equal(frames[i + 1], returns[i] - 1);
	/* The whole of it, to _start(), is in the copy. */
	assert_int_equal(result, UNWIND_COMPLETE);
	/* A copy that is too short. */
	copy.length = 16;
	assert_int_equal(stack_walker_walk(walker, &copy, frames, &count, &result, NULL), 0);
	assert_int_equal(result, UNWIND_STACK_CUT);
	assert_in_range(count, 1, 2);
	copy.is_cut = false;
	assert_int_equal(stack_walker_walk(walker, &copy, frames, &count, &result, NULL), 0);
	assert_int_equal(result, UNWIND_BAD_READ);
	stack_walker_free(walker);
}

/* Files are asked for once, and frame pointers are followed without them. */
static void test_no_files(void **state)
{
	struct stack_walker *walker;
	enum unwind_result result;
	size_t count;
	space.hides_files = true;
	space.opened = 0;
	assert_int_equal(stack_walker_new(&source, &walker, NULL), 0);
	assert_int_equal(add_mappings(walker), 0);
	outer();
	for (unsigned i = 0; i < 3; i++) {
		assert_int_equal(stack_walker_walk(walker, &copy, frames, &count, &result, NULL), 0);
		assert_in_range(count, 1, 64);
	}
	assert_in_range(space.opened, 1, space.count);
	space.hides_files = false;
	/* Nowhere at all. */
	copy.ip = 64;
	assert_int_equal(stack_walker_walk(walker, &copy, frames, &count, &result, NULL), 0);
	assert_int_equal(result, UNWIND_NO_MAPPING);
	assert_int_equal(count, 1);
	stack_walker_free(walker);
}

/* More binaries than may be open at once: each is a row of CFI in a file of its own. */
static void test_many_files(void **state)
{
	static const struct test_cfi_row rows[] = {{0x1000, 8}, {0x1100, 0}};
	static const struct test_cfi_segment segment = {
		.address = 0x1000, .offset = 0x1000, .size = 0x100, .flags = PF_R | PF_X};
	const struct test_cfi cfi = {.rows = rows, .row_count = 2, .segments = &segment, .segment_count = 1};
	struct stack_walker *walker;
	uint64_t words[101];
	enum unwind_result result;
	size_t count;
	char path[] = "/tmp/wick_stack_walk.XXXXXX";
	int fd = mkstemp(path);
	assert_true(fd >= 0);
	struct buffer file;
	buffer_init(&file, TEST_CFI_BYTES_MAX);
	test_cfi_build(&cfi, &file);
	assert_int_equal(io_write(fd, file.data, file.len, path, NULL), 0);
	close(fd);
	assert_int_equal(stack_walker_new(&source, &walker, NULL), 0);
	space.count = 100;
	for (size_t i = 0; i < space.count; i++) {
		space.items[i] = (struct stack_walk_mapping){(i + 1) << 20, ((i + 1) << 20) + 0x100, 0x1000, 0};
		assert_int_equal(stack_walker_add(walker, &space.items[i].binary, NULL), 0);
		snprintf(space.paths[i], sizeof(space.paths[0]), "%s", path);
		words[i] = space.items[i].start + 0x21;
	}
	words[100] = 0;
	copy = (struct stack_copy){.ip = space.items[0].start + 0x20,
				   .known = 1u << UNWIND_REGISTER_SP,
				   .bytes = (const uint8_t *)words,
				   .length = sizeof(words)};
	copy.registers[UNWIND_REGISTER_SP] = 0x7ffc0000;
	for (unsigned i = 0; i < 2; i++) {
		assert_int_equal(stack_walker_walk(walker, &copy, frames, &count, &result, NULL), 0);
		assert_int_equal(count, 101);
		assert_int_equal(result, UNWIND_COMPLETE);
		assert_int_equal(frames[100], space.items[99].start + 0x20);
	}
	stack_walker_free(walker);
	buffer_release(&file);
	unlink(path);
}

static int walk_once(void *context)
{
	_cleanup_(stack_walker_freep) struct stack_walker *walker = NULL;
	enum unwind_result result;
	size_t count;
	(void)context;
	int r = stack_walker_new(&source, &walker, NULL);
	if (r == 0)
		r = add_mappings(walker);
	return r < 0 ? r : stack_walker_walk(walker, &copy, frames, &count, &result, NULL);
}

static void test_no_memory(void **state)
{
	outer();
	test_each_allocation(walk_once, NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_own_stack),
		cmocka_unit_test(test_no_files),
		cmocka_unit_test(test_many_files),
		cmocka_unit_test(test_no_memory),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
