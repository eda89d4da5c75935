// SPDX-License-Identifier: Apache-2.0
/* Tables of files made by hand, against the rows that were put into them; of real files, against cfi_read(); damaged ones. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/fault.h"
#include "base/hash.h"
#include "base/io.h"
#include "base/time.h"
#include "elf/cfi.h"
#include "unwind/test_cfi.h"
#include "unwind/unwind_table.h"

#define CODE (PF_R | PF_X)

static uint64_t random_next(uint64_t *state)
{
	return hash64_mix(*state += 0x9e3779b97f4a7c15ull);
}

static const struct unwind_table *header_of(const struct buffer *image)
{
	return (const void *)image->data;
}

static int build_made(const struct test_cfi *cfi, struct buffer *image, struct unwind_table_stats *stats, struct error *err)
{
	struct buffer bytes;
	struct elf_file file;
	test_cfi_build(cfi, &bytes);
	assert_int_equal(elf_file_open_memory(&file, buffer_bytes(&bytes), "made", err), 0);
	buffer_init(image, UNWIND_TABLE_BYTES_MAX);
	int r = unwind_table_build(&file, image, stats, err);
	elf_file_release(&file);
	buffer_release(&bytes);
	if (r == 0 && image->len > 0)
		assert_true(unwind_table_check(image->data, image->len));
	return r;
}

static void build_or_fail(const struct test_cfi *cfi, struct buffer *image, struct unwind_table_stats *stats)
{
	struct error err = {0};
	if (build_made(cfi, image, stats, &err) < 0)
		fail_msg("%s", err.message);
}

/* The rule at an offset must be that of this CFA offset; 0 = none. */
static void expect(const struct buffer *image, uint64_t offset, uint32_t cfa_offset)
{
	const struct unwind_rule *rule = unwind_table_find(image->data, offset), wanted = test_cfi_rule(cfa_offset);
	if (!cfa_offset && rule)
		fail_msg("offset %llx has a rule: %d", (unsigned long long)offset, rule->offset);
	if (cfa_offset && !rule)
		fail_msg("offset %llx has no rule", (unsigned long long)offset);
	if (cfa_offset && memcmp(rule, &wanted, sizeof(wanted)) != 0)
		fail_msg("offset %llx has %d instead of %u", (unsigned long long)offset, rule->offset, cfa_offset);
}

/* Rows at their addresses minus `shift`, each at its first and last byte, in a file with one segment. */
static void expect_rows(const struct buffer *image, const struct test_cfi_row *rows, size_t count, uint64_t shift)
{
	expect(image, rows[0].address - shift - 1, 0);
	for (size_t i = 0; i < count; i++) {
		expect(image, rows[i].address - shift, rows[i].cfa_offset);
		if (i > 0)
			expect(image, rows[i].address - shift - 1, rows[i - 1].cfa_offset);
	}
	expect(image, rows[count - 1].address - shift + 100000, 0);
}

static void test_gaps_and_page_boundaries(void **state)
{
	static const struct test_cfi_row rows[] = {
		{0x401000, 8},					/* exactly at the start of a page */
		{0x401001, 16}, {0x4010ff, 24}, {0x401100, 32}, /* last byte, first byte */
		{0x4011f0, 0},					/* a gap inside a page */
		{0x4011f8, 8},					/* over three pages that have no row of their own */
		{0x401580, 16}, {0x401600, 0},	{0x409000, 8},	{0x409010, 0},
	};
	static const struct test_cfi_segment segments[] = {{0x400000, 0, 0x100000, CODE}};
	struct test_cfi cfi = {rows, 10, segments, 1};
	_cleanup_(buffer_release) struct buffer image = {0};
	struct unwind_table_stats stats;
	build_or_fail(&cfi, &image, &stats);
	expect_rows(&image, rows, 10, 0x400000);
	for (uint64_t offset = 0x11f8; offset < 0x1580; offset++)
		expect(&image, offset, 8);
	expect(&image, 0, 0);
	expect(&image, UINT64_MAX, 0);
	expect(&image, 1ull << 40 | 0x1000, 0);
	assert_int_equal(stats.rows, 10);
	assert_int_equal(stats.rules, 5);
	assert_int_equal(stats.escapes, 0);
	assert_int_equal(stats.bad_entries, 0);
	assert_int_equal(header_of(&image)->first_page, 0x10);
	assert_int_equal(header_of(&image)->page_count, 0x90 - 0x10 + 1);
}

static void test_each_byte_of_a_page_has_a_row(void **state)
{
	struct test_cfi_row rows[1025];
	static const struct test_cfi_segment segments[] = {{0x1000, 0x1000, 0x10000, CODE}};
	for (uint32_t i = 0; i < 1024; i++)
		rows[i] = (struct test_cfi_row){0x2000 + i, 8 + 8 * (i % 3)};
	rows[1024] = (struct test_cfi_row){0x2400, 0};
	struct test_cfi cfi = {rows, 1025, segments, 1};
	_cleanup_(buffer_release) struct buffer image = {0};
	struct unwind_table_stats stats;
	build_or_fail(&cfi, &image, &stats);
	expect_rows(&image, rows, 1025, 0);
	assert_int_equal(stats.rows, 1025);
	const uint32_t *index = (const void *)(image.data + header_of(&image)->index);
	assert_int_equal(index[1] - index[0], 256);
}

/* More rules than fit a byte, some of them common. */
static void test_escapes(void **state)
{
	enum { ROWS = 20000, RULES = 700 };
	static struct test_cfi_row rows[ROWS + 1];
	static uint32_t uses[RULES];
	static const struct test_cfi_segment segments[] = {{0x400000, 0x7000, 0x1000000, CODE}};
	uint64_t random = 42, address = 0x400123;
	for (size_t i = 0; i < ROWS; i++) {
		uint64_t r = random_next(&random);
		uint32_t rule = (uint32_t)(i < RULES ? i : (r & 7) ? (r >> 8) % 20 * 7 : (r >> 8) % RULES);
		rows[i] = (struct test_cfi_row){address, 8 + 8 * rule};
		uses[rule] += i == 0 || rows[i - 1].cfa_offset != rows[i].cfa_offset;
		address += 1 + (r >> 40) % 60;
	}
	rows[ROWS] = (struct test_cfi_row){address, 0};
	struct test_cfi cfi = {rows, ROWS + 1, segments, 1};
	_cleanup_(buffer_release) struct buffer image = {0};
	struct unwind_table_stats stats;
	build_or_fail(&cfi, &image, &stats);
	expect_rows(&image, rows, ROWS + 1, 0x400000 - 0x7000);
	assert_int_equal(stats.rules, RULES + 1);
	assert_true(stats.escapes > 400 && stats.escapes < ROWS / 8);
	const struct unwind_rule *rules = (const void *)(image.data + header_of(&image)->rules);
	assert_int_equal(rules[0].cfa, UNWIND_CFA_NONE);
	for (uint32_t i = 2; i <= RULES; i++)
		assert_true(uses[(rules[i].offset - 8) / 8] <= uses[(rules[i - 1].offset - 8) / 8]);
}

static void test_more_rules_than_there_can_be(void **state)
{
	enum { ROWS = UNWIND_RULES_MAX + 1000 };
	_cleanup_(mem_freep) struct test_cfi_row *rows = mem_alloc_array(ROWS + 1, sizeof(*rows));
	static const struct test_cfi_segment segments[] = {{0x1000, 0x1000, 0x100000, CODE}};
	for (uint32_t i = 0; i <= ROWS; i++)
		rows[i] = (struct test_cfi_row){0x1000 + 4 * i, i < ROWS ? 8 + i : 0};
	struct test_cfi cfi = {rows, ROWS + 1, segments, 1};
	_cleanup_(buffer_release) struct buffer image = {0};
	struct unwind_table_stats stats;
	build_or_fail(&cfi, &image, &stats);
	assert_int_equal(stats.rules, UNWIND_RULES_MAX);
	for (uint32_t i = 0; i < UNWIND_RULES_MAX - 2; i++)
		expect(&image, 0x1000 + 4 * i + i % 4, 8 + i);
	for (uint32_t i = UNWIND_RULES_MAX - 2; i < ROWS; i++)
		assert_int_equal(unwind_table_find(image.data, 0x1000 + 4 * i)->cfa, UNWIND_CFA_UNSUPPORTED);
	expect(&image, 0x1000 + 4 * ROWS, 0);
}

/* By address they are A B C, in the file C, a hole, B, A, with A right behind B. */
static void test_segments_in_another_order(void **state)
{
	static const struct test_cfi_row rows[] = {
		{0x1000, 8}, {0x1010, 16}, {0x2080, 24}, {0x2100, 0}, {0x3000, 24}, {0x3010, 32},
		{0x3100, 0}, {0x5000, 24}, {0x5100, 40}, {0x5200, 0}, {0x9000, 8},  {0x9100, 0}, /* no code is mapped here */
	};
	static const struct test_cfi_segment segments[] = {
		{0x5000, 0x300, 0x200, CODE},
		{0x3000, 0x10000, 0x100, CODE},
		{0x1000, 0x10100, 0x1100, CODE},
		{0x9000, 0x30000, 0x1000, PF_R},
	};
	struct test_cfi cfi = {rows, 12, segments, 4};
	_cleanup_(buffer_release) struct buffer image = {0};
	static const struct test_cfi_row expected[] = {
		{0x2ff, 0},    {0x300, 24},   {0x3ff, 24},   {0x400, 40},   {0x4ff, 40},   {0x500, 0},	 {0xffff, 0},
		{0x10000, 24}, {0x1000f, 24}, {0x10010, 32}, {0x100ff, 32}, {0x10100, 8}, /* A's first byte instead of the NONE
											     at B's end */
		{0x1010f, 8},  {0x10110, 16}, {0x1117f, 16}, {0x11180, 24}, {0x111ff, 24}, {0x11200, 0}, {0x30000, 0},
	};
	build_or_fail(&cfi, &image, NULL);
	for (size_t i = 0; i < sizeof(expected) / sizeof(*expected); i++)
		expect(&image, expected[i].address, expected[i].cfa_offset);
}

/* Two segments of the same bytes: those of the one that begins first in the file hold. */
static void test_segments_over_each_other(void **state)
{
	static const struct test_cfi_row rows[] = {
		{0x1180, 40}, {0x1280, 0}, /* goes on from the second segment into what is left of the first */
		{0x3000, 16}, {0x3100, 24}, {0x3180, 32}, {0x3300, 0}, {0x5000, 48}, {0x5010, 0},
	};
	static const struct test_cfi_segment segments[] = {
		{0x1100, 0x8000, 0x180, CODE}, /* by address over the next: its last 128 bytes are left */
		{0x1000, 0x1000, 0x200, CODE},
		{0x3000, 0x1080, 0x300, CODE},
		{0x5000, 0x1010, 0x10, CODE}, /* inside the second */
	};
	struct test_cfi cfi = {rows, 8, segments, 4};
	_cleanup_(buffer_release) struct buffer image = {0};
	build_or_fail(&cfi, &image, NULL);
	for (uint64_t offset = 0xf00; offset < 0x1500; offset++)
		expect(&image, offset, offset < 0x1180 ? 0 : offset < 0x1200 ? 40 : offset < 0x1380 ? 32 : 0);
	for (uint64_t offset = 0x8000; offset < 0x8200; offset++)
		expect(&image, offset, offset < 0x8100 ? 0 : offset < 0x8180 ? 40 : 0);
}

/* What is in memory only has no place in the file. */
static void test_segments_that_end_before_their_memory(void **state)
{
	static const struct test_cfi_row rows[] = {{0x1000, 8}, {0x10f0, 16}, {0x1120, 24}, {0x1180, 0}};
	static const struct test_cfi_segment segments[] = {{0x1000, 0x2000, 0x100, CODE, 0x200}};
	struct test_cfi cfi = {rows, 4, segments, 1};
	_cleanup_(buffer_release) struct buffer image = {0};
	build_or_fail(&cfi, &image, NULL);
	for (uint64_t offset = 0x1f00; offset < 0x2300; offset++)
		expect(&image, offset, offset < 0x2000 ? 0 : offset < 0x20f0 ? 8 : offset < 0x2100 ? 16 : 0);
}

static void test_files_without_a_table(void **state)
{
	static const struct test_cfi_row rows[] = {{0x1000, 8}, {0x1100, 0}};
	static const struct test_cfi_segment code[] = {{0x1000, 0x1000, 0x1000, CODE}}, data[] = {{0x1000, 0, 0x1000, PF_R}};
	struct buffer image;
	struct unwind_table_stats stats;
	struct error err;
	struct test_cfi no_rows = {NULL, 0, code, 1}, no_code = {rows, 2, data, 1};
	struct test_cfi other = {rows, 2, code, 1, .machine = TEST_CFI_MACHINE == EM_X86_64 ? EM_AARCH64 : EM_X86_64};
	build_or_fail(&no_rows, &image, &stats);
	assert_int_equal(image.len, 0);
	build_or_fail(&no_code, &image, &stats);
	assert_int_equal(image.len, 0);
	assert_int_equal(stats.rows, 0);
	assert_int_equal(build_made(&other, &image, &stats, &err), -ENOTSUP);
	assert_int_equal(image.len, 0);
}

static void test_code_spread_over_a_huge_file(void **state)
{
	static const struct test_cfi_row rows[] = {{0x1000, 8}, {0x1100, 0}, {0x3000, 8}, {0x3100, 0}};
	struct test_cfi_segment segments[] = {{0x1000, 0x1000, 0x1000, CODE}, {0x3000, 1ull << 38, 0x1000, CODE}};
	struct test_cfi cfi = {rows, 4, segments, 2};
	struct buffer image;
	struct error err;
	assert_int_equal(build_made(&cfi, &image, NULL, &err), -E2BIG);
	assert_non_null(strstr(err.message, "made"));
	segments[1].offset = 300 << 20;
	assert_int_equal(build_made(&cfi, &image, NULL, &err), -E2BIG);
	segments[1].offset = 200 << 20;
	build_or_fail(&cfi, &image, NULL);
	expect(&image, 0x10ff, 8);
	expect(&image, 100 << 20, 0);
	expect(&image, (200 << 20) + 0xff, 8);
	expect(&image, (200 << 20) + 0x100, 0);
	buffer_release(&image);
	segments[1].offset = 1ull << 38;
	segments[0] = segments[1]; /* far, but not spread; beyond what a page number can hold */
	segments[1] = (struct test_cfi_segment){0x1000, (1ull << 38) + 0x1000, 0x1000, CODE};
	build_or_fail(&cfi, &image, NULL);
	expect(&image, (1ull << 38) + 0x10ff, 8);
	expect(&image, 0x10ff, 0);
	buffer_release(&image);
	segments[0].offset = 1ull << 62;
	segments[1].offset = (1ull << 62) + 0x1000;
	assert_int_equal(build_made(&cfi, &image, NULL, &err), -E2BIG);
}

/* ---- real files ---- */

struct comparison {
	struct elf_file file;
	struct buffer image;
	uint64_t address; /* of the row before */
	struct unwind_rule rule;
	uint64_t rows, compared, random;
};

/* As the kernel maps it: a mapping of code at this address shows which offset. */
static bool offset_of(const struct elf_file *file, uint64_t address, uint64_t *ret)
{
	for (size_t i = 0; i < file->segment_count; i++) {
		const struct elf_segment *s = &file->segments[i];
		if (s->type == PT_LOAD && s->flags & PF_X && address - s->address < s->file_size) {
			*ret = address - s->address + s->offset;
			return true;
		}
	}
	return false;
}

static void compare_at(struct comparison *c, uint64_t address, const struct unwind_rule *wanted)
{
	uint64_t offset;
	if (!offset_of(&c->file, address, &offset))
		return;
	const struct unwind_rule *rule = unwind_table_find(c->image.data, offset);
	c->compared++;
	if (wanted->cfa == UNWIND_CFA_NONE ? rule != NULL : !rule || memcmp(rule, wanted, sizeof(*rule)) != 0)
		fail_msg("%s: another rule at %llx", c->file.name, (unsigned long long)address);
}

static int compare_row(void *context, uint64_t address, const struct unwind_rule *rule)
{
	struct comparison *c = context;
	compare_at(c, address, rule);
	compare_at(c, address - 1, &c->rule);
	if (c->rows > 0) {
		compare_at(c, c->address + random_next(&c->random) % (address - c->address), &c->rule);
		if (address - c->address > 1)
			compare_at(c, c->address + 1, &c->rule);
	}
	c->address = address;
	c->rule = *rule;
	c->rows++;
	return 0;
}

static bool compare_file(const char *path)
{
	struct comparison c = {0};
	struct unwind_table_stats stats;
	struct error err = {0};
	_cleanup_(fd_closep) int fd = io_open(path, O_RDONLY, 0, NULL);
	if (fd < 0)
		return false;
	assert_int_equal(elf_file_open(&c.file, fd, path, &err), 0);
	buffer_init(&c.image, UNWIND_TABLE_BYTES_MAX);
	int64_t start_ns = time_thread_cpu_ns();
	assert_int_equal(unwind_table_build(&c.file, &c.image, &stats, &err), 0);
	int64_t took_ns = time_thread_cpu_ns() - start_ns;
	assert_true(c.image.len > 0 && unwind_table_check(c.image.data, c.image.len));
	assert_int_equal(cfi_read(&c.file, compare_row, &c, NULL, &err), 0);
	assert_true(c.compared >= c.rows);
	print_message("%s: %llu rows, %llu rules, %zu bytes (%.2f a row), %.1f ms; %llu lookups compared\n", path,
		      (unsigned long long)stats.rows, (unsigned long long)stats.rules, c.image.len,
		      (double)c.image.len / (double)stats.rows, (double)took_ns / 1e6, (unsigned long long)c.compared);
	if (strstr(path, "libLLVM"))
		assert_true(c.image.len <= 3u << 20);
	buffer_release(&c.image);
	elf_file_release(&c.file);
	return true;
}

static void test_real_files(void **state)
{
	static const char *const needed[] = {"/proc/self/exe"};
	static const char *const others[] = {
		"/lib/x86_64-linux-gnu/libc.so.6",
		"/lib64/ld-linux-x86-64.so.2",
		"/usr/lib/x86_64-linux-gnu/libstdc++.so.6",
		"/usr/lib/x86_64-linux-gnu/libcrypto.so.3",
		"/usr/lib/x86_64-linux-gnu/libLLVM-14.so.1",
		"/lib/aarch64-linux-gnu/libc.so.6",
		"/lib/ld-linux-aarch64.so.1",
		"/usr/lib/aarch64-linux-gnu/libstdc++.so.6",
		"/sbin/ldconfig", /* static */
	};
	assert_true(compare_file(needed[0]));
	unsigned found = 0;
	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
		found += compare_file(others[i]);
	assert_true(found > 0);
}

/* ---- damage ---- */

static void make_small(struct buffer *image)
{
	static struct test_cfi_row rows[400];
	static const struct test_cfi_segment segments[] = {{0x1000, 0x1000, 0x10000, CODE}};
	for (uint32_t i = 0; i < 400; i++)
		rows[i] = (struct test_cfi_row){0x1000 + 5 * i, i < 399 ? 8 + 8 * (i % 300) : 0};
	struct test_cfi cfi = {rows, 400, segments, 1};
	build_or_fail(&cfi, image, NULL);
	assert_true(header_of(image)->escape_count > 0);
}

static void test_cut_images_are_refused(void **state)
{
	_cleanup_(buffer_release) struct buffer image = {0};
	make_small(&image);
	for (size_t len = 0; len < image.len; len++) {
		/* Of exactly this size, so that a sanitizer sees reads beyond it. */
		uint8_t *cut = mem_alloc(len);
		memcpy(cut, image.data, len);
		assert_false(unwind_table_check(cut, len));
		if (len >= sizeof(struct unwind_table)) {
			((struct unwind_table *)(void *)cut)->bytes = (uint32_t)len;
			assert_false(unwind_table_check(cut, len));
		}
		mem_free(cut);
	}
	assert_false(unwind_table_check(image.data + 4, image.len - 4));
}

static void test_each_word_is_checked(void **state)
{
	static const uint32_t values[] = {0, 1, 2, 7, 255, 0x7fffffff, 0x80000000, 0xfffffff8, UINT32_MAX};
	_cleanup_(buffer_release) struct buffer image = {0};
	make_small(&image);
	size_t refused = 0;
	for (size_t at = 0; at < image.len / 4; at++) {
		for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
			uint32_t *word = (uint32_t *)(void *)image.data + at, saved = *word;
			*word = values[i];
			bool ok = unwind_table_check(image.data, image.len);
			refused += !ok;
			for (uint64_t offset = 0; ok && offset < 0x3000; offset += 7)
				unwind_table_find(image.data, offset);
			if (at < sizeof(struct unwind_table) / 4 && values[i] != saved)
				assert_true(!ok || at == offsetof(struct unwind_table, first_page) / 4);
			*word = saved;
		}
	}
	assert_true(unwind_table_check(image.data, image.len));
	assert_true(refused > image.len / 4);
}

static void test_without_memory(void **state)
{
	static struct test_cfi_row rows[2000];
	static const struct test_cfi_segment segments[] = {{0x1000, 0x1000, 0x10000, CODE}};
	for (uint32_t i = 0; i < 2000; i++)
		rows[i] = (struct test_cfi_row){0x1000 + 5 * i, i < 1999 ? 8 + 8 * (i % 600) : 0};
	struct test_cfi cfi = {rows, 2000, segments, 1};
	struct buffer bytes, image;
	struct elf_file file;
	struct error err;
	test_cfi_build(&cfi, &bytes);
	for (uint64_t n = 1;; n++) {
		assert_int_equal(elf_file_open_memory(&file, buffer_bytes(&bytes), "made", &err), 0);
		buffer_init(&image, UNWIND_TABLE_BYTES_MAX);
		fault_arm(FAULT_ALLOC, n, 0);
		int r = unwind_table_build(&file, &image, NULL, &err);
		bool reached = fault_disarm(FAULT_ALLOC);
		elf_file_release(&file);
		if (!reached) {
			assert_int_equal(r, 0);
			expect_rows(&image, rows, 2000, 0);
			buffer_release(&image);
			assert_true(n > 20);
			break;
		}
		/* What memory was short for may also be something that can be done without. */
		assert_true(r == -ENOMEM || r == 0);
		if (r < 0)
			assert_null(image.data);
		buffer_release(&image);
	}
	buffer_release(&bytes);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_gaps_and_page_boundaries),
		cmocka_unit_test(test_each_byte_of_a_page_has_a_row),
		cmocka_unit_test(test_escapes),
		cmocka_unit_test(test_more_rules_than_there_can_be),
		cmocka_unit_test(test_segments_in_another_order),
		cmocka_unit_test(test_segments_over_each_other),
		cmocka_unit_test(test_segments_that_end_before_their_memory),
		cmocka_unit_test(test_files_without_a_table),
		cmocka_unit_test(test_code_spread_over_a_huge_file),
		cmocka_unit_test(test_real_files),
		cmocka_unit_test(test_cut_images_are_refused),
		cmocka_unit_test(test_each_word_is_checked),
		cmocka_unit_test(test_without_memory),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
