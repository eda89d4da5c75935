/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fault.h"
#include "base/hash.h"
#include "base/io.h"
#include "base/test_fixture.h"
#include "symbol/symbol_int.h"

struct fixture {
	char directory[64], symbols[128], modules[128];
};
static const size_t fixture_bytes = sizeof(struct fixture);

static int fixture_init(struct fixture *f)
{
	snprintf(f->directory, sizeof(f->directory), "/tmp/wick-kallsyms-test-XXXXXX");
	assert_non_null(mkdtemp(f->directory));
	snprintf(f->symbols, sizeof(f->symbols), "%s/kallsyms", f->directory);
	snprintf(f->modules, sizeof(f->modules), "%s/modules", f->directory);
	return 0;
}

static void fixture_release(struct fixture *f)
{
	assert_int_equal(io_remove_tree(f->directory, NULL), 0);
}

static int load(const struct fixture *f, const char *text, struct kallsyms **ret, struct error *err)
{
	assert_int_equal(io_write_file(f->symbols, text, strlen(text), 0644, NULL), 0);
	return kallsyms_load_files(f->symbols, f->modules, ret, err);
}

static void assert_symbol(const struct kallsyms *k, uint64_t address, const char *name, const char *module, uint64_t start)
{
	const char *found_name = "", *found_module = "";
	uint64_t found_start = 0;
	bool found = kallsyms_lookup(k, address, &found_name, &found_module, &found_start);
	assert_string_equal(found_name, name);
	assert_int_equal(found, name[0] != 0);
	if (found) {
		assert_string_equal(found_module, module);
		assert_true(found_start == start);
	}
}

#define CORE "[kernel.kallsyms]"

static const char typical[] = "0000000000000000 A fixed_percpu_data\n"
			      "0000000000001000 D percpu_thing\n"
			      "ffffffff81000000 T _stext\n"
			      "ffffffff81000000 T startup\n"
			      "ffffffff81000000 t __startup\n"
			      "ffffffff81000040 T __pfx_do_work\n"
			      "ffffffff81000050 T do_work\n"
			      "ffffffff81000080 t __pfx___helper\n"
			      "ffffffff81000080 t __pfx_helper_alias\n"
			      "ffffffff81000090 t __helper\n"
			      "ffffffff81000090 t helper_alias\n"
			      "ffffffff81000100 W weak_one\n"
			      "ffffffff81000200 T _etext\n"
			      "ffffffff81200000 R rodata\n"
			      "ffffffff83000000 T _sinittext\n"
			      "ffffffff83000000 B __init_begin\n"
			      "ffffffff83000010 t init_it\n"
			      "ffffffff83000100 T _einittext\n"
			      "ffffffff83000200 D data\n"
			      "ffffffffc0202000 t second_b\t[second]\n"
			      "ffffffffc0201000 t first_a\t[first]\n"
			      "ffffffffc0201080 T first_b\t[first]\n"
			      "ffffffffc0201100 d first_data\t[first]\n"
			      "ffffffffc0300000 t bpf_prog_0123456789abcdef_handle\t[bpf]\n";

static void test_typical(void **state)
{
	struct kallsyms *k;
	assert_int_equal(load(*state, typical, &k, NULL), 0);
	assert_symbol(k, 0x10, "", "", 0);
	assert_symbol(k, 0x1000, "", "", 0);
	assert_symbol(k, 0xffffffff80ffffff, "", "", 0);
	assert_symbol(k, 0xffffffff81000000, "startup", CORE, 0xffffffff81000000);
	assert_symbol(k, 0xffffffff8100003f, "startup", CORE, 0xffffffff81000000);
	assert_symbol(k, 0xffffffff81000040, "__pfx_do_work", CORE, 0xffffffff81000040);
	assert_symbol(k, 0xffffffff8100004f, "__pfx_do_work", CORE, 0xffffffff81000040);
	assert_symbol(k, 0xffffffff81000050, "do_work", CORE, 0xffffffff81000050);
	assert_symbol(k, 0xffffffff8100007f, "do_work", CORE, 0xffffffff81000050);
	assert_symbol(k, 0xffffffff81000080, "__pfx_helper_alias", CORE, 0xffffffff81000080);
	assert_symbol(k, 0xffffffff81000095, "helper_alias", CORE, 0xffffffff81000090);
	assert_symbol(k, 0xffffffff810001ff, "weak_one", CORE, 0xffffffff81000100);
	assert_symbol(k, 0xffffffff81000200, "", "", 0);
	assert_symbol(k, 0xffffffff81200000, "", "", 0);
	assert_symbol(k, 0xffffffff83000000, "_sinittext", CORE, 0xffffffff83000000);
	assert_symbol(k, 0xffffffff830000ff, "init_it", CORE, 0xffffffff83000010);
	assert_symbol(k, 0xffffffff83000100, "", "", 0);
	assert_symbol(k, 0xffffffffc0200fff, "", "", 0);
	assert_symbol(k, 0xffffffffc0201000, "first_a", "[first]", 0xffffffffc0201000);
	assert_symbol(k, 0xffffffffc02010ff, "first_b", "[first]", 0xffffffffc0201080);
	assert_symbol(k, 0xffffffffc0201100, "", "", 0);
	assert_symbol(k, 0xffffffffc0202010, "second_b", "[second]", 0xffffffffc0202000);
	assert_symbol(k, 0xffffffffc0300010, "bpf_prog_0123456789abcdef_handle", "[bpf]", 0xffffffffc0300000);
	assert_symbol(k, UINT64_MAX, "", "", 0);
	/* Names stay: the same string for the same symbol. */
	const char *a, *b, *module;
	uint64_t start;
	assert_true(kallsyms_lookup(k, 0xffffffff81000050, &a, &module, &start));
	assert_true(kallsyms_lookup(k, 0xffffffff81000051, &b, &module, &start));
	assert_ptr_equal(a, b);
	kallsyms_free(k);
}

static void test_hidden_addresses(void **state)
{
	struct kallsyms *k;
	struct error err;
	assert_int_equal(load(*state, "0000000000000000 T _stext\n0000000000000000 T other\n", &k, &err), -EPERM);
	assert_non_null(strstr(err.message, "kptr_restrict"));
	assert_int_equal(load(*state, "", &k, &err), -ENODATA);
	assert_int_equal(kallsyms_load_files("/nonexistent/kallsyms", "/nonexistent/modules", &k, &err), -ENOENT);
}

static void test_lines_that_make_no_sense(void **state)
{
	struct kallsyms *k;
	char text[16384];
	int n = snprintf(text, sizeof(text),
			 "garbage\n\n \nffffffff81000000\nffffffff81000000 T\nffffffff81000000 T \n"
			 "xyz T name\n11112222333344445 T too_long_address\nffffffff81000000 T good\n");
	/* A name longer than any, and a line longer than any. */
	n += snprintf(text + n, sizeof(text) - (size_t)n, "ffffffff81000100 T ");
	memset(text + n, 'x', 1500);
	n += 1500;
	n += snprintf(text + n, sizeof(text) - (size_t)n, "\nffffffff81000200 T ");
	memset(text + n, 'y', 9000);
	n += 9000;
	snprintf(text + n, sizeof(text) - (size_t)n, "\nffffffff81000300 T after");
	assert_int_equal(load(*state, text, &k, NULL), 0);
	assert_symbol(k, 0xffffffff81000000, "good", CORE, 0xffffffff81000000);
	const char *name, *module;
	uint64_t start;
	assert_true(kallsyms_lookup(k, 0xffffffff81000100, &name, &module, &start));
	assert_int_equal(strlen(name), 1023);
	/* The last line has no end, so it is not taken: it may be cut. */
	assert_true(kallsyms_lookup(k, 0xffffffff81000300, &name, &module, &start));
	assert_string_not_equal(name, "after");
	kallsyms_free(k);
}

/* More symbols than one block holds, in and out of order, against a plain list. */
static void test_many_symbols(void **state)
{
	enum { COUNT = 5000 };
	static uint64_t starts[COUNT];
	static char names[COUNT][40];
	struct buffer text;
	buffer_init(&text, 1 << 20);
	uint64_t at = 0xffffffff81000000;
	for (size_t i = 0; i < COUNT; i++) {
		at += 16 + hash64_mix(i) % 300;
		starts[i] = at;
		snprintf(names[i], sizeof(names[i]), "%s_%zu_function", i % 3 ? "common_prefix" : "other", i);
	}
	for (size_t i = 0; i < COUNT; i++)
		if (i % 7)
			buffer_printf(&text, "%llx T %s\n", (unsigned long long)starts[i], names[i]);
	for (size_t i = COUNT; i-- > 0;)
		if (i % 7 == 0)
			buffer_printf(&text, "%llx t %s\n", (unsigned long long)starts[i], names[i]);
	struct kallsyms *k;
	assert_int_equal(load(*state, buffer_string(&text), &k, NULL), 0);
	assert_int_equal(kallsyms_symbol_count(k), COUNT);
	for (size_t i = 0; i < COUNT; i++) {
		assert_symbol(k, starts[i], names[i], CORE, starts[i]);
		if (i + 1 < COUNT)
			assert_symbol(k, starts[i + 1] - 1, names[i], CORE, starts[i]);
	}
	kallsyms_free(k);
	buffer_release(&text);
}

static void write_modules(const struct fixture *f, const char *text)
{
	assert_int_equal(io_write_file(f->modules, text, strlen(text), 0644, NULL), 0);
}

static void test_staleness(void **state)
{
	struct fixture *f = *state;
	struct kallsyms *k;
	write_modules(f, "ext4 1000 3 - Live 0xffffffffc0201000\njbd2 200 1 ext4, Live 0xffffffffc0100000\n");
	assert_int_equal(load(f, typical, &k, NULL), 0);
	assert_false(kallsyms_is_stale(k));
	/* Reference counts change all the time. */
	write_modules(f, "ext4 1000 7 - Live 0xffffffffc0201000\njbd2 200 2 ext4, Live 0xffffffffc0100000\n");
	assert_false(kallsyms_is_stale(k));
	write_modules(f, "new 10 0 - Live 0xffffffffc0301000\next4 1000 7 - Live 0xffffffffc0201000\n");
	assert_true(kallsyms_is_stale(k));
	/* Unloaded and loaded again, elsewhere. */
	write_modules(f, "ext4 1000 3 - Live 0xffffffffc0801000\njbd2 200 1 ext4, Live 0xffffffffc0100000\n");
	assert_true(kallsyms_is_stale(k));
	kallsyms_free(k);
}

static void test_faults(void **state)
{
	static const enum fault_kind kinds[] = {FAULT_ALLOC, FAULT_OPEN, FAULT_READ};
	static const int codes[] = {-ENOMEM, -EIO, -EIO};
	struct fixture *f = *state;
	assert_int_equal(io_write_file(f->symbols, typical, strlen(typical), 0644, NULL), 0);
	for (size_t kind = 0; kind < 3; kind++) {
		for (uint64_t n = 1;; n++) {
			struct kallsyms *k = NULL;
			struct error err = {0};
			fault_arm(kinds[kind], n, 0);
			int r = kallsyms_load_files(f->symbols, f->modules, &k, &err);
			if (!fault_disarm(kinds[kind])) {
				assert_int_equal(r, 0);
				kallsyms_free(k);
				break;
			}
			/* The list of modules may be missing, or shrinking a block may fail. */
			if (r == 0)
				assert_symbol(k, 0xffffffff81000050, "do_work", CORE, 0xffffffff81000050);
			else
				assert_true(r == codes[kind] && err.message[0] != 0);
			kallsyms_free(k);
		}
	}
}

/* The kernel that runs this: each text symbol is found at its address, under a name of that address. */
static void test_this_kernel(void **state)
{
	struct kallsyms *k;
	struct error err;
	int r = kallsyms_load(&k, &err);
	if (r < 0) {
		printf("skipped: %s\n", err.message);
		skip();
	}
	assert_false(kallsyms_is_stale(k));
	assert_true(kallsyms_symbol_count(k) > 1000);
	assert_true(kallsyms_memory_bytes(k) < 6 << 20);
	struct buffer text;
	buffer_init(&text, 64 << 20);
	assert_int_equal(io_read_file("/proc/kallsyms", 64 << 20, &text, NULL), 0);
	size_t checked = 0, named = 0;
	for (const char *line = buffer_string(&text), *end; line && (end = strchr(line, '\n')); line = end + 1, checked++) {
		unsigned long long address;
		char type, name[600] = "";
		if (sscanf(line, "%llx %c %599s", &address, &type, name) == 3 && strchr("tT", type) &&
		    !memchr(line, '[', (size_t)(end - line)) && strcmp(name, "_etext") != 0 &&
		    strcmp(name, "_einittext") != 0) {
			const char *found, *module;
			uint64_t start;
			assert_true(kallsyms_lookup(k, address, &found, &module, &start));
			assert_true(start == address);
			named += strcmp(found, name) == 0;
			assert_string_equal(module, CORE);
		}
	}
	/* All but aliases. */
	assert_true(named * 100 > kallsyms_symbol_count(k) * 95);
	assert_true(checked > 1000);
	buffer_release(&text);
	kallsyms_free(k);
}

static int write_core(const struct kallsyms *kallsyms, char *ret, size_t size)
{
	uint64_t len = 0;
	FILE *file = tmpfile();
	assert_non_null(file);
	int r = kallsyms_write_core(kallsyms, "abcd", fileno(file), &len, NULL);
	if (r == 0) {
		assert_true(len < size);
		assert_int_equal(io_pread(fileno(file), ret, size - 1, 0, "list", NULL), len);
		ret[len] = 0;
	}
	fclose(file);
	return r;
}

/* Only text of the kernel itself, one name an address, relative to its beginning. */
static void test_core_list(void **state)
{
	struct fixture *f = *state;
	_cleanup_(kallsyms_freep) struct kallsyms *kallsyms = NULL;
	uint64_t start, end;
	char list[4096];
	assert_int_equal(load(f, typical, &kallsyms, NULL), 0);
	assert_true(kallsyms_core(kallsyms, &start, &end));
	assert_true(start == 0xffffffff81000000 && end == 0xffffffff81000200);
	assert_int_equal(write_core(kallsyms, list, sizeof(list)), 0);
	assert_string_equal(list, "wick kallsyms 1 abcd\n0 startup\n40 __pfx_do_work\n50 do_work\n80 __pfx_helper_alias\n"
				  "90 helper_alias\n100 weak_one\n200 _etext\n");
}

static void test_core_list_without_bounds(void **state)
{
	struct fixture *f = *state;
	_cleanup_(kallsyms_freep) struct kallsyms *kallsyms = NULL;
	char list[64];
	assert_int_equal(load(f, "ffffffff81000000 T startup\nffffffff81000200 T _etext\n", &kallsyms, NULL), 0);
	assert_int_equal(write_core(kallsyms, list, sizeof(list)), -ENODATA);
}

/* The list of this machine's kernel says the same as looking up does, for every 64th function. */
static void test_core_list_of_this_kernel(void **state)
{
	_cleanup_(kallsyms_freep) struct kallsyms *kallsyms = NULL;
	struct error err = {0};
	uint64_t start, end, size, offset, before = 0, found;
	char line[1100], name[1100];
	const char *known, *module;
	size_t count = 0;
	if (kallsyms_load(&kallsyms, &err) < 0 || !kallsyms_core(kallsyms, &start, &end)) {
		print_message("skipped: %s\n", err.message);
		skip();
	}
	FILE *file = tmpfile();
	assert_int_equal(kallsyms_write_core(kallsyms, "abcd", fileno(file), &size, NULL), 0);
	assert_non_null(fgets(line, sizeof(line), file));
	assert_string_equal(line, "wick kallsyms 1 abcd\n");
	for (; fgets(line, sizeof(line), file); count++) {
		assert_int_equal(sscanf(line, "%lx %1099s", &offset, name), 2);
		assert_true(offset >= before && offset <= end - start);
		before = offset;
		if (count % 64 || start + offset == end)
			continue;
		assert_true(kallsyms_lookup(kallsyms, start + offset, &known, &module, &found));
		assert_string_equal(known, name);
		assert_true(found == start + offset);
	}
	fclose(file);
	assert_true(count > 1000 && start + before == end);
}

struct made_at_run_time {
	uint64_t address;
	char name[128], module[64];
};
#define MADE_MAX 4096

/* BPF programs and trampolines of ftrace that there are now. Returns how many. */
static size_t read_made_at_run_time(struct made_at_run_time *ret)
{
	char line[1100], type;
	size_t count = 0;
	FILE *file = fopen("/proc/kallsyms", "re");
	assert_non_null(file);
	while (count < MADE_MAX && fgets(line, sizeof(line), file)) {
		struct made_at_run_time *made = &ret[count];
		count += sscanf(line, "%lx %c %127s %63s", &made->address, &type, made->name, made->module) == 4 &&
			 (strncmp(made->name, "bpf_prog_", 9) == 0 || strcmp(made->name, "ftrace_trampoline") == 0);
	}
	fclose(file);
	return count;
}

/* What is made at run time and runs. Programs come and go, and another one may take the place of one that went: what counts is
 * what was there before and after the list was read. */
static void test_code_made_at_run_time(void **state)
{
	static struct made_at_run_time before[MADE_MAX], after[MADE_MAX];
	_cleanup_(kallsyms_freep) struct kallsyms *kallsyms = NULL;
	const char *found, *found_module;
	uint64_t start;
	size_t count = 0, before_count = read_made_at_run_time(before);
	if (kallsyms_load(&kallsyms, NULL) < 0)
		skip();
	size_t after_count = read_made_at_run_time(after);
	for (size_t i = 0, j = 0; i < after_count; i++) {
		for (j = 0;
		     j < before_count && (before[j].address != after[i].address || strcmp(before[j].name, after[i].name) != 0);
		     j++)
			;
		if (j == before_count)
			continue;
		assert_true(kallsyms_lookup(kallsyms, after[i].address + 4, &found, &found_module, &start));
		assert_string_equal(found, after[i].name);
		assert_string_equal(found_module, after[i].module);
		count++;
	}
	print_message("%zu BPF programs and trampolines\n", count);
	if (count == 0)
		skip();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		FIXTURE_TEST(test_typical),
		FIXTURE_TEST(test_hidden_addresses),
		FIXTURE_TEST(test_lines_that_make_no_sense),
		FIXTURE_TEST(test_many_symbols),
		FIXTURE_TEST(test_staleness),
		FIXTURE_TEST(test_faults),
		FIXTURE_TEST(test_this_kernel),
		FIXTURE_TEST(test_core_list),
		FIXTURE_TEST(test_core_list_without_bounds),
		cmocka_unit_test(test_core_list_of_this_kernel),
		cmocka_unit_test(test_code_made_at_run_time),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
