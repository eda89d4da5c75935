/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fault.h"
#include "base/io.h"
#include "base/own_dir.h"
#include "base/test_fixture.h"
#include "base/test_stride.h"
#include "symbol/kernel/kallsyms_int.h"
#include "symbol/symbol_int.h"

#define CORE  "[kernel.kallsyms]"
#define FILES 500

struct fixture {
	char directory[64], symbols[128], modules[128], boot_id[128], cache[128], file[160];
	int cache_fd;
};
static const size_t fixture_bytes = sizeof(struct fixture);

static void write_text(const char *path, const char *text)
{
	assert_int_equal(io_write_file(path, text, strlen(text), 0644, NULL), 0);
}

static const char beginning[] = "0000000000000000 A fixed_percpu_data\n"
				"ffffffff81000000 T _stext\n";
static const char ending[] = "ffffffff81800000 T _etext\n"
			     "ffffffff83000010 t init_it\n"
			     "ffffffff83000100 T _einittext\n"
			     "ffffffffc0201000 t first_a\t[first]\n"
			     "ffffffffc0300000 t bpf_prog_0123456789abcdef_handle\t[bpf]\n";

static void write_symbols(struct fixture *f)
{
	char text[FILES * 64];
	size_t len = (size_t)snprintf(text, sizeof(text), "%s", beginning);
	for (unsigned i = 0; i < FILES; i++)
		len += (size_t)snprintf(text + len, sizeof(text) - len, "ffffffff81%06x T function_%u\n", i * 64 + 64, i * 7);
	snprintf(text + len, sizeof(text) - len, "%s", ending);
	write_text(f->symbols, text);
}

static int fixture_init(struct fixture *f)
{
	snprintf(f->directory, sizeof(f->directory), "/tmp/wick-kernel-names-XXXXXX");
	assert_non_null(mkdtemp(f->directory));
	snprintf(f->symbols, sizeof(f->symbols), "%s/kallsyms", f->directory);
	snprintf(f->modules, sizeof(f->modules), "%s/modules", f->directory);
	snprintf(f->boot_id, sizeof(f->boot_id), "%s/boot_id", f->directory);
	snprintf(f->cache, sizeof(f->cache), "%s/cache", f->directory);
	snprintf(f->file, sizeof(f->file), "%s/kernel.names", f->cache);
	write_symbols(f);
	write_text(f->boot_id, "11111111-2222-3333-4444-555555555555\n");
	f->cache_fd = own_dir_open(f->cache, "the cache", NULL);
	assert_true(f->cache_fd >= 0);
	return 0;
}

static void fixture_release(struct fixture *f)
{
	io_close(f->cache_fd);
	assert_int_equal(io_remove_tree(f->directory, NULL), 0);
}

static int save(struct fixture *f)
{
	_cleanup_(kallsyms_freep) struct kallsyms *all = NULL;
	assert_int_equal(kallsyms_load_files(f->symbols, f->modules, &all, NULL), 0);
	return kallsyms_cache_save(f->cache_fd, f->symbols, f->boot_id, all);
}

static int load(struct fixture *f, struct kallsyms **ret)
{
	return kallsyms_cache_load(f->cache_fd, f->symbols, f->boot_id, ret);
}

static void assert_loads(struct fixture *f, int code)
{
	struct kallsyms *kallsyms = NULL;
	assert_int_equal(load(f, &kallsyms), code);
	kallsyms_free(kallsyms);
}

/* Every address of core text has the name that the whole table gives it, and none outside of it has one. */
static void test_same_names(void **state)
{
	struct fixture *f = *state;
	_cleanup_(kallsyms_freep) struct kallsyms *all = NULL, *core = NULL;
	const char *name, *module, *expected, *expected_module;
	uint64_t start, expected_start, core_start, core_end;
	assert_loads(f, -ENOENT);
	assert_int_equal(save(f), 0);
	assert_int_equal(kallsyms_load_files(f->symbols, f->modules, &all, NULL), 0);
	assert_int_equal(load(f, &core), 0);
	assert_true(kallsyms_is_core_only(core));
	assert_false(kallsyms_is_core_only(all));
	assert_false(kallsyms_is_stale(core));
	assert_true(kallsyms_core(core, &core_start, &core_end));
	assert_true(core_start == 0xffffffff81000000 && core_end == 0xffffffff81800000);
	for (uint64_t address = 0xffffffff81000000; address < 0xffffffff81000000 + FILES * 64 + 4096; address += 16) {
		bool found = kallsyms_lookup(core, address, &name, &module, &start);
		assert_int_equal(kallsyms_lookup(all, address, &expected, &expected_module, &expected_start), found);
		if (!found)
			continue;
		assert_string_equal(name, expected);
		assert_string_equal(module, CORE);
		assert_true(start == expected_start);
	}
	assert_true(kallsyms_lookup(core, 0xffffffff81000043, &name, &module, &start));
	assert_string_equal(name, "function_0");
	static const uint64_t outside[] = {
		0, 0xffffffff80ffffff, 0xffffffff81800000, 0xffffffff83000010, 0xffffffffc0201000, 0xffffffffc0300000};
	for (size_t i = 0; i < sizeof(outside) / sizeof(*outside); i++)
		assert_false(kallsyms_lookup(core, outside[i], &name, &module, &start));
	/* One that is not whole does not take its place. */
	assert_int_equal(kallsyms_cache_save(f->cache_fd, f->symbols, f->boot_id, core), -ENODATA);
}

static void test_other_boot(void **state)
{
	struct fixture *f = *state;
	assert_int_equal(save(f), 0);
	assert_loads(f, 0);
	write_text(f->boot_id, "99999999-2222-3333-4444-555555555555\n");
	assert_loads(f, -ESTALE);
	assert_int_equal(save(f), 0);
	assert_loads(f, 0);
	assert_int_equal(unlink(f->boot_id), 0);
	assert_loads(f, -ESTALE);
}

static void test_other_addresses(void **state)
{
	struct fixture *f = *state;
	assert_int_equal(save(f), 0);
	write_text(f->symbols, "0000000000000000 A fixed_percpu_data\nffffffff91000000 T _stext\n");
	assert_loads(f, -ESTALE);
	/* Who may not see them gets nothing. */
	write_text(f->symbols, "0000000000000000 A fixed_percpu_data\n0000000000000000 T _stext\n");
	assert_loads(f, -ESTALE);
	assert_int_equal(unlink(f->symbols), 0);
	assert_loads(f, -ESTALE);
}

/* What cannot be told apart from core text afterwards is not kept. */
static void test_not_kept(void **state)
{
	struct fixture *f = *state;
	write_text(f->symbols, "ffffffff81000000 T _stext\nffffffff81000100 T a\nffffffff81000080 T out_of_order\n"
			       "ffffffff81800000 T _etext\n");
	assert_int_equal(save(f), -ENODATA);
	write_text(f->symbols, "ffffffff81000000 T without_bounds\nffffffff81000100 T a\n");
	assert_int_equal(save(f), -ENODATA);
	assert_int_equal(access(f->file, F_OK), -1);
}

static void test_untrusted(void **state)
{
	struct fixture *f = *state;
	assert_int_equal(save(f), 0);
	assert_int_equal(chmod(f->file, 0622), 0);
	assert_loads(f, -EPERM);
	assert_int_equal(chmod(f->file, 0600), 0);
	assert_loads(f, 0);
	if (geteuid() == 0) {
		assert_int_equal(chown(f->file, 12345, 0), 0);
		assert_loads(f, -EPERM);
	}
	assert_int_equal(unlink(f->file), 0);
	assert_int_equal(symlink("/etc/passwd", f->file), 0);
	assert_loads(f, -EPERM);
	assert_int_equal(unlink(f->file), 0);
	assert_int_equal(mkfifo(f->file, 0600), 0);
	assert_loads(f, -EPERM);
}

/* Without the sync that it would take thousands of times. */
static void put(const struct fixture *f, const void *data, size_t len)
{
	_cleanup_(fd_closep) int fd = io_open(f->file, O_WRONLY | O_TRUNC, 0600, NULL);
	assert_true(fd >= 0);
	assert_int_equal(io_write(fd, data, len, f->file, NULL), 0);
}

/* Each byte changed, and each length: not loaded, or no different for it. */
static void test_damage(void **state)
{
	struct fixture *f = *state;
	_cleanup_(buffer_release) struct buffer whole = {0};
	assert_int_equal(save(f), 0);
	assert_int_equal(io_read_file(f->file, 1 << 20, &whole, NULL), 0);
	for (size_t i = 0; i < whole.len; i += test_stride()) {
		whole.data[i] ^= 0x41;
		put(f, whole.data, whole.len);
		struct kallsyms *kallsyms = NULL;
		assert_true(load(f, &kallsyms) < 0);
		whole.data[i] ^= 0x41;
	}
	for (size_t len = 0; len < whole.len; len += 1 + len / 8) {
		put(f, whole.data, len);
		struct kallsyms *kallsyms = NULL;
		assert_true(load(f, &kallsyms) < 0);
	}
}

/* What has the right checksum is looked up in, whatever it is. */
static void test_nonsense(void **state)
{
	struct fixture *f = *state;
	_cleanup_(kallsyms_freep) struct kallsyms *all = NULL;
	uint64_t random = 88172645463325252ull;
	assert_int_equal(kallsyms_load_files(f->symbols, f->modules, &all, NULL), 0);
	for (unsigned round = 0; round < 400; round++) {
		_cleanup_(kallsyms_freep) struct kallsyms *core = NULL;
		struct kallsyms_run *run = &all->runs[0];
		for (unsigned i = 0; i < 8; i++) {
			random ^= random << 13, random ^= random >> 7, random ^= random << 17;
			run->data.data[random % run->data.len] = (uint8_t)(random >> 40);
		}
		if (round % 4 == 0)
			run->blocks[random % run->block_count].place = (uint32_t)(random >> 32);
		assert_int_equal(kallsyms_cache_save(f->cache_fd, f->symbols, f->boot_id, all), 0);
		assert_int_equal(load(f, &core), 0);
		for (uint64_t address = 0xffffffff81000000; address < 0xffffffff81000000 + FILES * 64; address += 192) {
			const char *name, *module;
			uint64_t start;
			if (kallsyms_lookup(core, address, &name, &module, &start))
				assert_true(strlen(name) < 2048);
		}
		char list[1 << 20];
		uint64_t len = 0;
		FILE *file = tmpfile();
		assert_non_null(file);
		assert_int_equal(kallsyms_write_core(core, "abcd", fileno(file), &len, NULL), 0);
		assert_true(len < sizeof(list));
		fclose(file);
	}
}

static void test_faults(void **state)
{
	static const enum fault_kind kinds[] = {FAULT_ALLOC, FAULT_OPEN, FAULT_READ, FAULT_WRITE, FAULT_RENAME};
	struct fixture *f = *state;
	for (size_t kind = 0; kind < sizeof(kinds) / sizeof(*kinds); kind++) {
		for (uint64_t n = 1;; n++) {
			_cleanup_(kallsyms_freep) struct kallsyms *all = NULL, *core = NULL;
			assert_int_equal(io_unlink(f->file, NULL), 0);
			assert_int_equal(kallsyms_load_files(f->symbols, f->modules, &all, NULL), 0);
			fault_arm(kinds[kind], n, 0);
			int saved = kallsyms_cache_save(f->cache_fd, f->symbols, f->boot_id, all);
			int loaded = load(f, &core);
			bool fired = fault_disarm(kinds[kind]);
			assert_int_equal(loaded == 0, core != NULL);
			if (!fired) {
				assert_int_equal(saved, 0);
				assert_int_equal(loaded, 0);
				break;
			}
			assert_true(saved < 0 || loaded < 0);
		}
	}
}

/* The kernel that runs this: all names of its core text. */
static void test_this_kernel(void **state)
{
	struct fixture *f = *state;
	_cleanup_(kallsyms_freep) struct kallsyms *all = NULL, *core = NULL;
	uint64_t start, end;
	if (kallsyms_load(&all, NULL) < 0 || !kallsyms_core(all, &start, &end))
		skip();
	kallsyms_save_core(all, f->cache);
	assert_int_equal(kallsyms_load_core(f->cache, &core), 0);
	for (uint64_t address = start; address < end; address += (end - start) / 5000) {
		const char *name, *module, *expected, *expected_module;
		uint64_t at, expected_at;
		bool found = kallsyms_lookup(core, address, &name, &module, &at);
		assert_int_equal(kallsyms_lookup(all, address, &expected, &expected_module, &expected_at), found);
		if (found) {
			assert_string_equal(name, expected);
			assert_true(at == expected_at);
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		FIXTURE_TEST(test_same_names), FIXTURE_TEST(test_other_boot), FIXTURE_TEST(test_other_addresses),
		FIXTURE_TEST(test_not_kept),   FIXTURE_TEST(test_untrusted),  FIXTURE_TEST(test_damage),
		FIXTURE_TEST(test_nonsense),   FIXTURE_TEST(test_faults),     FIXTURE_TEST(test_this_kernel),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
