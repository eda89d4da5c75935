/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/fault.h"
#include "base/io.h"
#include "server/core/server_int.h"

/* What debuginfod servers gave is not needed to take in profiles: its directory must not keep the server from starting. */
static void test_starts_without_debuginfod(void **state)
{
	(void)state;
	char directory[] = "/tmp/wick-symbols-test-XXXXXX", path[64];
	assert_non_null(mkdtemp(directory));
	snprintf(path, sizeof(path), "%s/debuginfod/aabbccdd", directory);
	assert_int_equal(io_make_dirs(path, 0700, NULL), 0);
	snprintf(path, sizeof(path), "%s/debuginfod/aabbccdd/debuginfo", directory);
	assert_int_equal(io_write_file(path, "x", 1, 0400, NULL), 0);
	for (uint64_t nth = 1;; nth++) {
		struct server *server = mem_zalloc(sizeof(*server));
		server->data_directory = directory;
		server->options.symbols.debuginfod_urls = "http://127.0.0.1:1";
		fault_arm(FAULT_ALLOC, nth, 0);
		int r = symbols_open_debuginfod(server, NULL);
		bool reached = fault_disarm(FAULT_ALLOC);
		assert_int_equal(r, 0);
		assert_true(server->debuginfod ? !reached : *server->debuginfod_problem != 0);
		symbols_close(server);
		mem_free(server);
		if (!reached)
			break;
		assert_true(nth < 100);
	}
	io_remove_tree(directory, NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_starts_without_debuginfod)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
