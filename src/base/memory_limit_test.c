// SPDX-License-Identifier: Apache-2.0
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/io.h"
#include "base/limits.h"
#include "base/memory_limit.h"

static char root[] = "/tmp/wick-memory-limit-XXXXXX";

static void put(const char *name, const char *text)
{
	char path[512], directory[512];
	snprintf(path, sizeof(path), "%s/%s", root, name);
	snprintf(directory, sizeof(directory), "%.*s", (int)(strrchr(path, '/') - path), path);
	assert_int_equal(io_make_dirs(directory, 0755, NULL), 0);
	assert_int_equal(io_write_file(path, text, strlen(text), 0644, NULL), 0);
}

#define GROUPS "sys/fs/cgroup"

static void test_groups(void **state)
{
	assert_non_null(mkdtemp(root));
	assert_int_equal(memory_limit_bytes(root), UINT64_MAX);
	put("proc/meminfo", "MemTotal:        4194304 kB\nMemFree:           12 kB\n");
	assert_int_equal(memory_limit_bytes(root), 4 * GIB);
	/* Version 2: the service has no limit, the slice that it is in has one. */
	put("proc/self/cgroup", "0::/system.slice/wick.service\n");
	assert_int_equal(memory_limit_bytes(root), 4 * GIB);
	put(GROUPS "/system.slice/wick.service/memory.max", "max\n");
	assert_int_equal(memory_limit_bytes(root), 4 * GIB);
	put(GROUPS "/system.slice/memory.max", "1073741824\n");
	assert_int_equal(memory_limit_bytes(root), GIB);
	put(GROUPS "/system.slice/wick.service/memory.max", "268435456\n");
	assert_int_equal(memory_limit_bytes(root), 256 * MIB);
	/* In a container its own group is the root. */
	put("proc/self/cgroup", "0::/\n");
	assert_int_equal(memory_limit_bytes(root), 4 * GIB);
	put(GROUPS "/memory.max", "536870912\n");
	assert_int_equal(memory_limit_bytes(root), 512 * MIB);
	/* Version 1, whose "none" is a large number; and both at once. */
	put("proc/self/cgroup", "12:pids:/a\n4:cpu,memory:/a/b\n1:name=systemd:/\nnonsense\n0::/gone\n");
	put(GROUPS "/memory.max", "max\n");
	put(GROUPS "/memory/memory.limit_in_bytes", "9223372036854771712\n");
	put(GROUPS "/memory/a/b/memory.limit_in_bytes", "9223372036854771712\n");
	assert_int_equal(memory_limit_bytes(root), 4 * GIB);
	put(GROUPS "/memory/a/memory.limit_in_bytes", "134217728\n");
	assert_int_equal(memory_limit_bytes(root), 128 * MIB);
	put(GROUPS "/memory/a/memory.limit_in_bytes", "what?\n");
	assert_int_equal(memory_limit_bytes(root), 4 * GIB);
	char command[64];
	snprintf(command, sizeof(command), "rm -r %s", root);
	assert_int_equal(system(command), 0);
}

static void test_machine(void **state)
{
	uint64_t bytes = memory_limit_bytes("");
	assert_true(bytes > 16 * MIB && bytes < UINT64_MAX);
}

static void test_share(void **state)
{
	assert_int_equal(memory_share(4 * GIB, 32, 32 * MIB, 256 * MIB), 128 * MIB);
	assert_int_equal(memory_share(512 * MIB, 32, 32 * MIB, 256 * MIB), 32 * MIB);
	assert_int_equal(memory_share(UINT64_MAX, 32, 32 * MIB, 256 * MIB), 256 * MIB);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_groups),
		cmocka_unit_test(test_machine),
		cmocka_unit_test(test_share),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
