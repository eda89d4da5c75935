/* SPDX-License-Identifier: Apache-2.0 */
/* Names that only this host can give: JIT code by perf maps, and when the kernel's list is read again. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>
#include <unistd.h>

#include "base/io.h"
#include "daemon/test_daemon.h"

#define time_monotonic_ns test_monotonic_ns
#include "daemon/host_symbols.c"
#undef time_monotonic_ns

#include <cmocka.h>

static void test_jit(void **state)
{
	struct host_symbols symbols;
	struct agent_symbol found = {0};
	struct agent_jit_address address = {.pid = getpid(), .namespace_pid = getpid(), .uid = geteuid(), .started_ns = 1};
	struct jit_stats stats = {0};
	char path[64];
	(void)state;
	snprintf(path, sizeof(path), "/tmp/perf-%d.map", (int)getpid());
	assert_int_equal(io_write_file(path, "1000 20 hot loop\nnonsense\n2000 10 other\n", 40, 0600, NULL), 0);
	assert_int_equal(host_symbols_init(&symbols, NULL), 0);
	address.address = 0x1010;
	assert_true(host_symbols_jit(&symbols, &address, &found));
	assert_string_equal(found.name, "hot loop");
	assert_string_equal(found.module, "[perf-map]");
	assert_string_equal(found.file, "");
	assert_int_equal(found.start, 0x1000);
	address.address = 0x1020;
	assert_false(host_symbols_jit(&symbols, &address, &found));
	/* A jitdump that is not there is no reason not to look at the map. */
	address.address = 0x2000;
	address.jitdump_path = "/nowhere/jit-1.dump";
	assert_true(host_symbols_jit(&symbols, &address, &found));
	assert_string_equal(found.name, "other");
	/* Another user's map is not believed. */
	address.uid = geteuid() + 1;
	address.pid = address.namespace_pid = 1;
	assert_false(host_symbols_jit(&symbols, &address, &found));
	host_symbols_get_jit_stats(&symbols, &stats);
	assert_true(stats.lookups >= 4);
	assert_true(stats.hits >= 2);
	host_symbols_release(&symbols);
	host_symbols_release(&symbols); /* once more does no harm */
	assert_int_equal(unlink(path), 0);
}

/* The kernel's list is read when it is first asked for; then only when there is code that has no name, and ever more seldom. */
static void test_refresh(void **state)
{
	struct host_symbols symbols;
	struct agent_symbol found = {0};
	(void)state;
	assert_int_equal(host_symbols_init(&symbols, NULL), 0);
	host_symbols_refresh(&symbols);
	assert_null(symbols.kallsyms);
	assert_false(host_symbols_kernel(&symbols, 1, &found)); /* no kernel's */
	assert_true(symbols.kallsyms_tried);
	if (!symbols.kallsyms) { /* unreadable here */
		assert_false(host_symbols_kernel(&symbols, UINT64_MAX - 1, &found));
		host_symbols_release(&symbols);
		return;
	}
	assert_true(symbols.kernel_missed);
	for (int64_t pause_ns = MISSED_PAUSE_MIN_NS; pause_ns < 4 * MISSED_PAUSE_MIN_NS; pause_ns *= 2) {
		int64_t read_ns = symbols.kallsyms_read_ns;
		assert_int_equal(symbols.kallsyms_pause_ns, pause_ns);
		symbols.kernel_missed = true;
		test_pass(pause_ns - 1);
		host_symbols_refresh(&symbols);
		assert_int_equal(symbols.kallsyms_read_ns, read_ns);
		test_pass(1);
		host_symbols_refresh(&symbols);
		assert_int_equal(symbols.kallsyms_read_ns, test_clock.monotonic_ns);
		assert_false(symbols.kernel_missed);
	}
	host_symbols_refresh(&symbols); /* all has a name: as often as at first */
	assert_int_equal(symbols.kallsyms_pause_ns, MISSED_PAUSE_MIN_NS);
	host_symbols_release(&symbols);
}

/* The server has the names of this kernel: then it is told where in its text an address is, and nothing of the rest. */
static void test_offsets(void **state)
{
	struct host_symbols symbols;
	struct agent_symbol found = {0};
	atomic_bool names = false;
	uint64_t start, end;
	(void)state;
	assert_int_equal(host_symbols_init(&symbols, NULL), 0);
	symbols.server_names_kernel = &names;
	host_symbols_kernel(&symbols, 1, &found);
	if (symbols.kallsyms && kallsyms_core(symbols.kallsyms, &start, &end)) {
		snprintf(symbols.kernel_build_id, sizeof(symbols.kernel_build_id), "abcd");
		assert_true(host_symbols_kernel(&symbols, start, &found));
		assert_string_equal(found.build_id, "");
		names = true;
		assert_true(host_symbols_kernel(&symbols, start + 16, &found));
		assert_string_equal(found.build_id, "abcd");
		assert_int_equal(found.offset, 16);
		assert_int_equal(found.text_bytes, end - start);
		note_offset(&symbols, end, &(struct agent_symbol){0});
		found = (struct agent_symbol){0};
		note_offset(&symbols, end, &found);
		assert_string_equal(found.build_id, "");
		note_offset(&symbols, start - 1, &found);
		assert_string_equal(found.build_id, "");
	}
	host_symbols_release(&symbols);
}

/* Who starts after another one reads core text from the cache, and the rest when it is asked for. */
static void test_cache(void **state)
{
	struct host_symbols first, second;
	struct agent_symbol expected = {0}, found = {0};
	char directory[] = "/tmp/wick-host-symbols-XXXXXX";
	uint64_t start, end;
	(void)state;
	assert_non_null(mkdtemp(directory));
	assert_int_equal(host_symbols_init(&first, NULL), 0);
	assert_int_equal(host_symbols_init(&second, NULL), 0);
	first.cache_directory = second.cache_directory = directory;
	host_symbols_kernel(&first, 1, &expected);
	if (first.kallsyms && kallsyms_core(first.kallsyms, &start, &end)) {
		assert_false(kallsyms_is_core_only(first.kallsyms));
		assert_true(host_symbols_kernel(&first, start, &expected));
		assert_true(host_symbols_kernel(&second, start, &found));
		assert_string_equal(found.name, expected.name);
		assert_false(host_symbols_kernel(&second, 1, &found)); /* no kernel's: nothing is read for it */
		assert_true(kallsyms_is_core_only(second.kallsyms));
		bool has_name = host_symbols_kernel(&first, end + 4096, &expected);
		assert_int_equal(host_symbols_kernel(&second, end + 4096, &found), has_name);
		assert_false(kallsyms_is_core_only(second.kallsyms));
		assert_true(host_symbols_kernel(&second, start, &found));
	}
	host_symbols_release(&first);
	host_symbols_release(&second);
	assert_int_equal(io_remove_tree(directory, NULL), 0);
}

/* Read in a thread, the names are those that would be read when they are asked for; and who asks before waits. */
static void test_read_ahead(void **state)
{
	struct host_symbols plain, ahead;
	struct agent_symbol expected = {0}, found = {0};
	uint64_t start, end;
	(void)state;
	assert_int_equal(host_symbols_init(&plain, NULL), 0);
	host_symbols_kernel(&plain, 1, &expected);
	assert_int_equal(host_symbols_init(&ahead, NULL), 0);
	host_symbols_read_ahead(&ahead);
	host_symbols_read_ahead(&ahead); /* once more does no harm */
	assert_true(ahead.has_reader);
	host_symbols_kernel(&ahead, 1, &found);
	assert_false(ahead.has_reader);
	assert_true(ahead.kallsyms_tried);
	assert_int_equal(ahead.kallsyms != NULL, plain.kallsyms != NULL);
	if (plain.kallsyms && kallsyms_core(plain.kallsyms, &start, &end)) {
		assert_true(host_symbols_kernel(&plain, start, &expected));
		assert_true(host_symbols_kernel(&ahead, start, &found));
		assert_string_equal(found.name, expected.name);
	}
	host_symbols_release(&plain);
	host_symbols_release(&ahead);
	/* Nobody asks. */
	assert_int_equal(host_symbols_init(&ahead, NULL), 0);
	host_symbols_read_ahead(&ahead);
	host_symbols_release(&ahead);
	assert_null(ahead.kallsyms);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_jit),   cmocka_unit_test(test_refresh),	 cmocka_unit_test(test_offsets),
		cmocka_unit_test(test_cache), cmocka_unit_test(test_read_ahead),
	};
	log_set_level(LOG_ERROR);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
