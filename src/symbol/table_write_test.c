/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "base/alloc.h"
#include "base/fault.h"
#include "base/hash.h"
#include "base/io.h"
#include "symbol/table_write.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define BASE	     0x400000ull

static const struct symbol_table_segment text = {.offset = 0x1000, .size = 0x10000, .address = BASE};

static int finish(struct table_writer *writer, struct symbol_table **ret, struct error *err)
{
	_cleanup_(fd_closep) int fd = memfd_create("table", MFD_CLOEXEC);
	struct table_written written;
	int r = table_writer_finish(writer, "abcd", 0, 62, 0, 0, fd, &written, err);
	return r == 0 ? symbol_table_open(fd, "table", "abcd", ret, err) : r;
}

static size_t frames_at(const struct symbol_table *table, uint64_t address, struct symbol_frame *ret, size_t max)
{
	uint32_t range = symbol_table_find(table, address);
	return range == CODE_NONE ? 0 : symbol_table_frames(table, address, range, ret, max);
}

static void check_frame(const struct symbol_frame *frame, const char *name, const char *file, uint32_t line, uint32_t column,
			bool inlined)
{
	assert_string_equal(frame->name, name);
	assert_string_equal(frame->file, file);
	assert_int_equal(frame->line, line);
	assert_int_equal(frame->column, column);
	assert_int_equal(frame->inlined, inlined);
}

static const char *const two_files[] = {"/src/a.c", "/src/b.h"};

static const struct code_scope chain_scopes[] = {
	{.parent = CODE_NONE, .name = "outer", .linkage_name = "_Z5outerv", .file = 0, .line = 10},
	{.parent = CODE_NONE, .name = "unused", .linkage_name = "", .file = 1, .line = 1},
	{.parent = 0,
	 .name = "middle",
	 .linkage_name = "",
	 .file = 1,
	 .line = 20,
	 .call_file = 0,
	 .call_line = 12,
	 .call_column = 3},
	{.parent = 2,
	 .name = "inner",
	 .linkage_name = "",
	 .file = 1,
	 .line = 30,
	 .call_file = 1,
	 .call_line = 22,
	 .call_column = 70000},
};
static const struct code_range chain_ranges[] = {
	{BASE, BASE + 0x10, 0}, {BASE + 0x10, BASE + 0x18, 3}, {BASE + 0x18, BASE + 0x20, 2}, {BASE + 0x20, BASE + 0x40, 0}};
static const struct code_row chain_rows[] = {{BASE, 0, 11, 1, false},
					     {BASE + 0x10, 1, 31, 5, false},
					     {BASE + 0x14, 1, 0, 0, false},
					     {BASE + 0x18, 1, 23, 65535, false},
					     {BASE + 0x20, 0, 4000000000u, 2, false},
					     {BASE + 0x40, 0, 0, 0, true}};
static const struct code_unit chain_unit = {.name = "a.c",
					    .language = 29,
					    .scopes = chain_scopes,
					    .ranges = chain_ranges,
					    .rows = chain_rows,
					    .files = two_files,
					    .scope_count = COUNT(chain_scopes),
					    .range_count = COUNT(chain_ranges),
					    .row_count = COUNT(chain_rows),
					    .file_count = 2};
static const struct symbol_range chain_symbols[] = {
	{0, 0x30, "_Z5outerv"}, {0x30, 0x40, "_Z5outerv.cold"}, {0x40, 0x50, "asm"}};

static void test_an_inline_chain(void **state)
{
	struct table_writer *writer;
	struct symbol_table *table;
	struct symbol_frame f[8];
	uint64_t start, end;
	assert_int_equal(table_writer_new(&text, 1, 0, &writer, NULL), 0);
	assert_int_equal(table_writer_add_symbols(writer, chain_symbols, COUNT(chain_symbols), NULL), 0);
	assert_int_equal(table_writer_add_unit(writer, &chain_unit, NULL), 0);
	assert_int_equal(finish(writer, &table, NULL), 0);
	table_writer_free(writer);
	assert_int_equal(frames_at(table, BASE + 0xf, f, 8), 1);
	check_frame(&f[0], "_Z5outerv", "/src/a.c", 11, 1, false);
	assert_int_equal(f[0].start_line, 10);
	assert_int_equal(frames_at(table, BASE + 0x12, f, 8), 3);
	check_frame(&f[0], "inner", "/src/b.h", 31, 5, true);
	check_frame(&f[1], "middle", "/src/b.h", 22, 70000, true);
	check_frame(&f[2], "_Z5outerv", "/src/a.c", 12, 3, false);
	assert_int_equal(f[1].language, 29);
	assert_int_equal(frames_at(table, BASE + 0x12, f, 2), 2);
	assert_int_equal(frames_at(table, BASE + 0x17, f, 8), 3);
	check_frame(&f[0], "inner", "/src/b.h", 0, 0, true);
	assert_int_equal(frames_at(table, BASE + 0x18, f, 8), 2);
	check_frame(&f[0], "middle", "/src/b.h", 23, 65535, true);
	assert_int_equal(frames_at(table, BASE + 0x3f, f, 8), 1);
	check_frame(&f[0], "_Z5outerv.cold", "/src/a.c", 4000000000u, 2, false);
	assert_int_equal(frames_at(table, BASE + 0x40, f, 8), 1);
	check_frame(&f[0], "asm", "", 0, 0, false);
	assert_int_equal(frames_at(table, BASE + 0x50, f, 8), 0);
	assert_int_equal(frames_at(table, BASE - 1, f, 8), 0);
	symbol_table_bounds(table, symbol_table_find(table, BASE + 0x12), &start, &end);
	assert_true(start == BASE && end == BASE + 0x30);
	symbol_table_free(table);
}

/* What a random table says is what the units said, the first of those that claim an address. */
#define MODEL_BYTES 0x400
struct model {
	int32_t range[MODEL_BYTES]; /* scope by address, -1 = none */
	uint32_t line[MODEL_BYTES]; /* 0 = none */
	unsigned line_unit[MODEL_BYTES];
};

static uint64_t roll(uint64_t *seed, uint64_t below)
{
	*seed = hash64_mix(*seed + 0x9e3779b97f4a7c15);
	return (*seed >> 11) % below;
}

static void add_random_unit(uint64_t *seed, struct table_writer *writer, struct model *model, unsigned number)
{
	char names[8][16];
	struct code_scope scopes[8];
	struct code_range ranges[16];
	struct code_row rows[40];
	size_t range_count = 0, row_count = 0;
	for (unsigned i = 0; i < 8; i++) {
		snprintf(names[i], sizeof(names[i]), "f%u", number * 8 + i);
		scopes[i] = (struct code_scope){.parent = i && roll(seed, 2) ? (uint32_t)roll(seed, i) : CODE_NONE,
						.name = names[i],
						.linkage_name = "",
						.file = CODE_NONE,
						.call_file = CODE_NONE};
	}
	uint64_t at = roll(seed, MODEL_BYTES / 2);
	while (range_count < COUNT(ranges) && at < MODEL_BYTES - 0x20) {
		uint64_t len = 1 + roll(seed, 0x18);
		uint32_t scope = (uint32_t)roll(seed, 8);
		ranges[range_count++] = (struct code_range){BASE + at, BASE + at + len, scope};
		for (uint64_t k = at; k < at + len; k++)
			if (model->range[k] < 0)
				model->range[k] = (int32_t)(number * 8 + scope);
		at += len + roll(seed, 3) * 4;
	}
	uint64_t low = roll(seed, MODEL_BYTES / 2);
	for (unsigned i = 0; i < 3; i++) {
		uint64_t high = low + roll(seed, MODEL_BYTES / 6);
		size_t first = row_count;
		for (at = low; row_count - first < 12 && at < high; at += roll(seed, 20)) {
			uint32_t line = (uint32_t)roll(seed, 5) * 1000003u;
			rows[row_count++] = (struct code_row){.address = BASE + at, .file = CODE_NONE, .line = line};
			for (uint64_t k = at; k < high; k++) {
				if (model->line_unit[k] < number)
					continue;
				model->line[k] = line;
				model->line_unit[k] = number;
			}
		}
		if (row_count > first)
			rows[row_count++] = (struct code_row){.address = BASE + high, .end = true};
		low = high + roll(seed, 2) * 8;
	}
	struct code_unit unit = {.name = "random",
				 .scopes = scopes,
				 .ranges = ranges,
				 .rows = rows,
				 .scope_count = 8,
				 .range_count = range_count,
				 .row_count = row_count};
	assert_int_equal(table_writer_add_unit(writer, &unit, NULL), 0);
}

static void test_random_units(void **state)
{
	uint64_t seed = 7;
	for (unsigned round = 0; round < 400; round++) {
		struct model model = {0};
		struct table_writer *writer;
		struct symbol_table *table;
		struct symbol_frame frame;
		memset(model.range, -1, sizeof(model.range));
		memset(model.line_unit, -1, sizeof(model.line_unit));
		assert_int_equal(table_writer_new(&text, 1, 0, &writer, NULL), 0);
		for (unsigned i = 0; i < 4; i++)
			add_random_unit(&seed, writer, &model, i);
		assert_int_equal(finish(writer, &table, NULL), 0);
		table_writer_free(writer);
		for (unsigned at = 0; at < MODEL_BYTES; at++) {
			char name[16] = "";
			size_t count = frames_at(table, BASE + at, &frame, 1);
			assert_int_equal(count, model.range[at] >= 0);
			if (!count)
				continue;
			snprintf(name, sizeof(name), "f%d", model.range[at]);
			assert_string_equal(frame.name, name);
			assert_int_equal(frame.line, model.line[at]);
		}
		symbol_table_free(table);
	}
}

/* Readers may be wrong: what breaks the rules is refused, and nothing of it is believed. */
static void test_units_that_break_the_rules(void **state)
{
	static const struct code_scope good = {.parent = CODE_NONE, .name = "f", .linkage_name = "", .file = CODE_NONE};
	static const struct code_scope cycle[] = {{.parent = 1, .name = "f", .linkage_name = "", .file = CODE_NONE},
						  {.parent = 0, .name = "g", .linkage_name = "", .file = CODE_NONE}};
	static const struct code_scope bad_file = {.parent = CODE_NONE, .name = "f", .linkage_name = "", .file = 7};
	static const struct code_range range = {BASE, BASE + 1, 0}, beyond = {BASE, BASE + 1, 5},
				       empty = {BASE + 1, BASE + 1, 0};
	static const struct code_range backwards[] = {{BASE + 4, BASE + 8, 0}, {BASE, BASE + 2, 0}};
	static const struct code_row rows[] = {{BASE + 4, CODE_NONE, 1, 0, false}, {BASE, CODE_NONE, 1, 0, false}};
	static const struct code_row row_file = {BASE, 3, 1, 0, false};
	static const struct code_unit units[] = {
		{.name = "u", .scopes = cycle, .scope_count = 2, .ranges = &range, .range_count = 1},
		{.name = "u", .scopes = &bad_file, .scope_count = 1, .ranges = &range, .range_count = 1},
		{.name = "u", .scopes = &good, .scope_count = 1, .ranges = &beyond, .range_count = 1},
		{.name = "u", .scopes = &good, .scope_count = 1, .ranges = &empty, .range_count = 1},
		{.name = "u", .scopes = &good, .scope_count = 1, .ranges = backwards, .range_count = 2},
		{.name = "u", .rows = rows, .row_count = 2},
		{.name = "u", .rows = &row_file, .row_count = 1},
	};
	for (size_t i = 0; i < COUNT(units); i++) {
		struct table_writer *writer;
		struct error err = {0};
		assert_int_equal(table_writer_new(&text, 1, 0, &writer, NULL), 0);
		assert_int_equal(table_writer_add_unit(writer, &units[i], &err), -EBADMSG);
		assert_true(err.message[0]);
		table_writer_free(writer);
	}
}

static void test_faults(void **state)
{
	static const enum fault_kind kinds[] = {FAULT_ALLOC, FAULT_WRITE};
	for (size_t k = 0; k < COUNT(kinds); k++)
		for (uint64_t n = 1;; n++) {
			struct table_writer *writer = NULL;
			struct symbol_table *table = NULL;
			struct error err = {0};
			static const struct code_scope scope = {
				.parent = CODE_NONE, .name = "f", .linkage_name = "_f", .file = 0};
			static const struct code_range range = {BASE, BASE + 1, 0};
			static const struct code_row rows[] = {{BASE, 0, 1, 0, false}, {BASE + 1, 0, 0, 0, true}};
			static const struct symbol_range symbol = {0, 2, "_f"};
			struct code_unit unit = {.name = "u",
						 .scopes = &scope,
						 .scope_count = 1,
						 .ranges = &range,
						 .range_count = 1,
						 .rows = rows,
						 .row_count = 2,
						 .files = two_files,
						 .file_count = 2};
			fault_arm(kinds[k], n, 0);
			int r = table_writer_new(&text, 1, 0, &writer, &err);
			if (r == 0)
				r = table_writer_add_symbols(writer, &symbol, 1, &err);
			if (r == 0)
				r = table_writer_add_unit(writer, &unit, &err);
			if (r == 0)
				r = finish(writer, &table, &err);
			bool reached = fault_disarm(kinds[k]);
			table_writer_free(writer);
			symbol_table_free(table);
			if (!reached) {
				assert_int_equal(r, 0);
				break;
			}
			assert_true(r < 0 && err.message[0]);
		}
}

/* ---- bounds ---- */

static void check_bounds(const struct symbol_table *table, uint64_t address, uint64_t start, uint64_t end)
{
	uint64_t got_start, got_end;
	symbol_table_bounds(table, symbol_table_find(table, BASE + address), &got_start, &got_end);
	assert_int_equal(got_start, BASE + start);
	assert_int_equal(got_end, BASE + end);
}

/* Static functions of two files, one behind the other without padding, with debug information and without. */
static void test_neighbours_of_one_name(void **state)
{
	static const struct symbol_range symbols[] = {{.start = 0, .end = 0x40, .name = "init"},
						      {.start = 0x40, .end = 0x60, .name = "init"},
						      {.start = 0x60, .end = 0x70, .name = "init", .continued = true}};
	static const struct code_scope scopes[] = {
		{.parent = CODE_NONE, .name = "init", .linkage_name = "", .file = 0, .line = 10},
		{.parent = 0, .name = "inlined", .linkage_name = "", .file = 1, .call_file = 0, .call_line = 11}};
	static const struct code_range ranges[] = {
		{BASE, BASE + 8, 0}, {BASE + 8, BASE + 0x10, 1}, {BASE + 0x10, BASE + 0x40, 0}};
	static const struct code_unit unit = {.name = "a.c",
					      .scopes = scopes,
					      .ranges = ranges,
					      .files = two_files,
					      .scope_count = COUNT(scopes),
					      .range_count = COUNT(ranges),
					      .file_count = 2};
	for (int with_unit = 0; with_unit < 2; with_unit++) {
		struct table_writer *writer;
		struct symbol_table *table;
		struct symbol_frame frame;
		assert_int_equal(table_writer_new(&text, 1, 0, &writer, NULL), 0);
		assert_int_equal(table_writer_add_symbols(writer, symbols, COUNT(symbols), NULL), 0);
		assert_int_equal(with_unit ? table_writer_add_unit(writer, &unit, NULL) : 0, 0);
		assert_int_equal(finish(writer, &table, NULL), 0);
		table_writer_free(writer);
		for (unsigned at = 0; at < 0x70; at++) {
			check_bounds(table, at, at < 0x40 ? 0 : 0x40, at < 0x40 ? 0x40 : 0x70);
			assert_int_equal(frames_at(table, BASE + at, &frame, 1), 1);
			assert_string_equal(frame.name, with_unit && at >= 8 && at < 0x10 ? "inlined" : "init");
		}
		symbol_table_free(table);
	}
}

/* ---- depth ---- */

#define DEEP 600

/* Call i is inlined into call i - 1, and has the i-th byte. */
static struct symbol_table *build_deep(void)
{
	static struct code_scope scopes[DEEP];
	static struct code_range ranges[DEEP];
	struct table_writer *writer;
	struct symbol_table *table;
	for (uint32_t i = 0; i < DEEP; i++) {
		scopes[i] = (struct code_scope){.parent = i ? i - 1 : CODE_NONE,
						.name = i ? "call" : "function",
						.linkage_name = "",
						.file = CODE_NONE,
						.line = i,
						.call_file = CODE_NONE};
		ranges[i] = (struct code_range){BASE + i, BASE + i + 1, i};
	}
	const struct code_unit unit = {
		.name = "deep", .scopes = scopes, .ranges = ranges, .scope_count = DEEP, .range_count = DEEP};
	assert_int_equal(table_writer_new(&text, 1, 0, &writer, NULL), 0);
	assert_int_equal(table_writer_add_unit(writer, &unit, NULL), 0);
	assert_int_equal(finish(writer, &table, NULL), 0);
	table_writer_free(writer);
	return table;
}

/* Walking up from every range of a function costs ranges * depth, in the server, for whoever uploads such a binary. */
static void test_calls_that_are_too_deep_belong_to_the_function(void **state)
{
	struct symbol_table *table = build_deep();
	struct symbol_frame f[DEEP];
	uint64_t start, end;
	for (uint32_t i = 0; i < DEEP; i++) {
		size_t count = frames_at(table, BASE + i, f, DEEP);
		assert_int_equal(count, i < SYMBOL_TABLE_DEPTH_MAX ? i + 1 : (i - 1) % (SYMBOL_TABLE_DEPTH_MAX - 1) + 2);
		assert_int_equal(f[0].start_line, i);
		assert_string_equal(f[count - 1].name, "function");
	}
	symbol_table_bounds(table, symbol_table_find(table, BASE + DEEP / 2), &start, &end);
	assert_true(start == BASE && end == BASE + DEEP);
	symbol_table_free(table);
}

static void test_a_table_that_is_too_deep_is_refused(void **state)
{
	struct symbol_table *table = build_deep(), *loaded;
	struct error err = {0};
	uint8_t *image = mem_alloc(table->len);
	memcpy(image, table->image, table->len);
	struct symbol_table_scope *scopes = (void *)(image + ((const uint8_t *)table->scopes - table->image));
	assert_int_equal(scopes[SYMBOL_TABLE_DEPTH_MAX].parent, 0);
	scopes[SYMBOL_TABLE_DEPTH_MAX].parent = SYMBOL_TABLE_DEPTH_MAX - 1;
	uint64_t checksum = hash64(image + 16, table->len - 16);
	memcpy(image + 8, &checksum, 8);
	_cleanup_(fd_closep) int fd = memfd_create("table", MFD_CLOEXEC);
	assert_int_equal(io_pwrite(fd, image, table->len, 0, "table", NULL), 0);
	assert_int_equal(symbol_table_open(fd, "table", "abcd", &loaded, &err), -EBADMSG);
	assert_non_null(strstr(err.message, "are inconsistent"));
	mem_free(image);
	symbol_table_free(table);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_an_inline_chain),
		cmocka_unit_test(test_random_units),
		cmocka_unit_test(test_units_that_break_the_rules),
		cmocka_unit_test(test_faults),
		cmocka_unit_test(test_neighbours_of_one_name),
		cmocka_unit_test(test_calls_that_are_too_deep_belong_to_the_function),
		cmocka_unit_test(test_a_table_that_is_too_deep_is_refused),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
