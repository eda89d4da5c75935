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
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fault.h"
#include "base/hash.h"
#include "base/io.h"
#include "base/test_programs.h"
#include "elf/elf_symbols.h"
#include "elf/test_elf.h"
#include "symbol/build.h"
#include "symbol/table_write.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* Files of a build, in memory; empty = there is none. */
struct files {
	struct bytes binary, debug;
};

static int open_file(void *context, const struct symbol_file_request *request, int *ret_fd, struct error *err)
{
	const struct files *files = context;
	struct bytes bytes = request->kind == SYMBOL_FILE_BINARY  ? files->binary
			     : request->kind == SYMBOL_FILE_DEBUG ? files->debug
								  : (struct bytes){0};
	if (!bytes.len)
		return -ENOENT;
	*ret_fd = test_elf_file(bytes);
	return 0;
}

static int try_build(struct files files, const char *build_id, struct symbol_table **ret, struct error *err)
{
	struct symbol_build_options options = {.build_id = build_id, .open_file = open_file, .context = &files};
	struct symbol_build_result result;
	_cleanup_(fd_closep) int fd = memfd_create("table", MFD_CLOEXEC);
	int r = symbol_build(&options, fd, &result, err);
	return r == 0 ? symbol_table_open(fd, "table", build_id, ret, err) : r;
}

static struct symbol_table *build(const struct test_symbol *symbols, size_t count)
{
	struct test_elf elf = {symbols, count};
	struct buffer b;
	struct symbol_table *table;
	test_elf_build(&elf, &b);
	assert_int_equal(try_build((struct files){.binary = buffer_bytes(&b)}, TEST_ELF_BUILD_ID, &table, NULL), 0);
	buffer_release(&b);
	return table;
}

static const char *name_at(const struct symbol_table *table, uint64_t address)
{
	struct symbol_frame frame;
	uint32_t range = symbol_table_find(table, address);
	return range != CODE_NONE && symbol_table_frames(table, address, range, &frame, 1) ? frame.name : "";
}

static const char *find_offset(const struct symbol_table *table, uint64_t offset)
{
	uint64_t address;
	return symbol_table_offset_to_address(table, offset, &address) ? name_at(table, address) : "";
}

static const char *find(const struct symbol_table *table, uint32_t text_offset)
{
	return find_offset(table, TEST_ELF_TEXT_OFFSET + text_offset);
}

static void test_gaps_have_no_name(void **state)
{
	static const struct test_symbol symbols[] = {
		{"alpha", 0x10, 0x10, STT_FUNC, STB_GLOBAL},
		{"beta", 0x40, 0x10, STT_FUNC, STB_GLOBAL},
	};
	struct symbol_table *table = build(symbols, COUNT(symbols));
	assert_string_equal(find(table, 0xf), "");
	assert_string_equal(find(table, 0x10), "alpha");
	assert_string_equal(find(table, 0x1f), "alpha");
	assert_string_equal(find(table, 0x20), "");
	assert_string_equal(find(table, 0x3f), "");
	assert_string_equal(find(table, 0x40), "beta");
	assert_string_equal(find(table, 0x50), "");
	/* Outside of what is executed. */
	assert_string_equal(find_offset(table, 0), "");
	assert_string_equal(find_offset(table, TEST_ELF_TEXT_OFFSET + TEST_ELF_TEXT_SIZE), "");
	assert_string_equal(find_offset(table, UINT64_MAX), "");
	assert_string_equal(name_at(table, 0), "");
	assert_string_equal(name_at(table, UINT64_MAX), "");
	assert_int_equal(symbol_table_flags(table), 0);
	assert_int_equal(symbol_table_sources(table), SYMBOL_SOURCE_SYMTAB);
	symbol_table_free(table);
}

static void test_overlaps(void **state)
{
	static const struct test_symbol symbols[] = {
		{"outer", 0x00, 0x80, STT_FUNC, STB_GLOBAL}, {"inner", 0x20, 0x20, STT_FUNC, STB_LOCAL},
		{"innermost", 0x28, 8, STT_FUNC, STB_LOCAL}, {"crossing", 0x70, 0x30, STT_FUNC, STB_GLOBAL},
		{"label", 0x10, 0, STT_NOTYPE, STB_LOCAL},   {"after", 0x100, 0x10, STT_FUNC, STB_GLOBAL},
	};
	struct symbol_table *table = build(symbols, COUNT(symbols));
	assert_string_equal(find(table, 0x00), "outer");
	assert_string_equal(find(table, 0x10), "outer"); /* a label inside a function is no function */
	assert_string_equal(find(table, 0x1f), "outer");
	assert_string_equal(find(table, 0x20), "inner");
	assert_string_equal(find(table, 0x28), "innermost");
	assert_string_equal(find(table, 0x2f), "innermost");
	assert_string_equal(find(table, 0x30), "inner");
	assert_string_equal(find(table, 0x3f), "inner");
	assert_string_equal(find(table, 0x40), "outer");
	assert_string_equal(find(table, 0x6f), "outer");
	assert_string_equal(find(table, 0x70), "crossing");
	assert_string_equal(find(table, 0x9f), "crossing");
	assert_string_equal(find(table, 0xa0), "");
	assert_string_equal(find(table, 0x100), "after");
	symbol_table_free(table);
}

static void test_symbols_without_a_size(void **state)
{
	static const struct test_symbol symbols[] = {
		{"first", 0x00, 0, STT_FUNC, STB_GLOBAL},    {"second", 0x40, 0, STT_NOTYPE, STB_GLOBAL},
		{"sized", 0x80, 0x10, STT_FUNC, STB_GLOBAL}, {"within", 0x88, 0, STT_FUNC, STB_LOCAL},
		{"last", 0x200, 0, STT_FUNC, STB_GLOBAL},
	};
	struct symbol_table *table = build(symbols, COUNT(symbols));
	assert_string_equal(find(table, 0x00), "first");
	assert_string_equal(find(table, 0x3f), "first");
	assert_string_equal(find(table, 0x40), "second");
	assert_string_equal(find(table, 0x7f), "second");
	assert_string_equal(find(table, 0x87), "sized");
	assert_string_equal(find(table, 0x88), "within");
	assert_string_equal(find(table, 0x8f), "within");
	assert_string_equal(find(table, 0x90), ""); /* not beyond the function around it */
	assert_string_equal(find(table, 0x1ff), "");
	assert_string_equal(find(table, TEST_ELF_TEXT_SIZE - 1), "last");
	symbol_table_free(table);
}

static void test_aliases(void **state)
{
	static const struct {
		struct test_symbol a, b;
	} pairs[] = {
		/* The first of each pair is the one to keep. */
		{{"x_longer_name", 0, 8, STT_FUNC, STB_GLOBAL}, {"y", 0, 0, STT_FUNC, STB_GLOBAL}},
		{{"function", 0, 8, STT_FUNC, STB_LOCAL}, {"label", 0, 8, STT_NOTYPE, STB_GLOBAL}},
		{{"longer_global", 0, 8, STT_FUNC, STB_GLOBAL}, {"weak", 0, 8, STT_FUNC, STB_WEAK}},
		{{"longer_weak", 0, 8, STT_FUNC, STB_WEAK}, {"local", 0, 8, STT_FUNC, STB_LOCAL}},
		{{"longer_name", 0, 8, STT_FUNC, STB_GLOBAL}, {"_name", 0, 8, STT_FUNC, STB_GLOBAL}},
		{{"_longer_name", 0, 8, STT_FUNC, STB_GLOBAL}, {"__nam", 0, 8, STT_FUNC, STB_GLOBAL}},
		{{"open", 0, 8, STT_FUNC, STB_WEAK}, {"open64", 0, 8, STT_FUNC, STB_WEAK}},
	};
	for (size_t i = 0; i < COUNT(pairs); i++) {
		struct test_symbol forwards[] = {pairs[i].a, pairs[i].b}, backwards[] = {pairs[i].b, pairs[i].a};
		struct symbol_table *one = build(forwards, 2), *other = build(backwards, 2);
		assert_string_equal(find(one, 4), pairs[i].a.name);
		assert_string_equal(find(other, 4), pairs[i].a.name);
		assert_int_equal(one->header->range_count, 2); /* the last one is the end */
		symbol_table_free(one);
		symbol_table_free(other);
	}
}

/* Of names that are as good as each other, the last in the file, as other tools have it. */
static void test_aliases_in_order(void **state)
{
	static const struct test_symbol c1 = {"_ZN1aC1Ev", 0, 8, STT_FUNC, STB_GLOBAL},
					c2 = {"_ZN1aC2Ev", 0, 8, STT_FUNC, STB_GLOBAL};
	struct test_symbol forwards[] = {c1, c2}, backwards[] = {c2, c1};
	struct symbol_table *one = build(forwards, 2), *other = build(backwards, 2);
	assert_string_equal(find(one, 4), "_ZN1aC2Ev");
	assert_string_equal(find(other, 4), "_ZN1aC1Ev");
	symbol_table_free(one);
	symbol_table_free(other);
}

static void test_a_file_without_symbols(void **state)
{
	struct symbol_table *table = build(NULL, 0);
	assert_int_equal(table->header->range_count, 0);
	assert_string_equal(find(table, 0), "");
	symbol_table_free(table);
}

/* Random symbols against the definition: the symbol that starts last among those that hold the address. */
static void test_random_overlaps(void **state)
{
	uint64_t seed = 1;
	for (unsigned round = 0; round < 300; round++) {
		struct test_symbol symbols[24];
		char names[24][8];
		bool used[TEST_ELF_TEXT_SIZE] = {false};
		size_t count = 0;
		for (size_t i = 0; i < COUNT(symbols); i++) {
			seed = hash64_mix(seed + 1);
			uint32_t start = (uint32_t)(seed % 0x100), size = 1 + (uint32_t)(seed >> 20) % 0x60;
			if (used[start])
				continue;
			used[start] = true;
			snprintf(names[count], sizeof(names[count]), "f%zu", count);
			symbols[count] = (struct test_symbol){names[count], start, size, STT_FUNC, STB_GLOBAL};
			count++;
		}
		struct symbol_table *table = build(symbols, count);
		for (uint32_t at = 0; at < 0x200; at++) {
			const struct test_symbol *expected = NULL;
			for (size_t i = 0; i < count; i++)
				if (at >= symbols[i].start && at - symbols[i].start < symbols[i].size &&
				    (!expected || symbols[i].start > expected->start))
					expected = &symbols[i];
			assert_string_equal(find(table, at), expected ? expected->name : "");
		}
		symbol_table_free(table);
	}
}

static void test_debug_file_takes_the_layout_of_the_binary(void **state)
{
	static const struct test_symbol exported[] = {{"exported", 0x10, 0x10, STT_FUNC, STB_GLOBAL}};
	static const struct test_symbol all[] = {{"exported", 0x10, 0x10, STT_FUNC, STB_GLOBAL},
						 {"hidden", 0x40, 0x10, STT_FUNC, STB_LOCAL}};
	struct test_elf stripped = {exported, 1, .stripped = true}, separate = {all, 2, .debug_only = true};
	struct buffer a, b;
	struct symbol_table *table;
	uint64_t found;
	test_elf_build(&stripped, &a);
	test_elf_build(&separate, &b);
	struct files files = {.binary = buffer_bytes(&a)};
	assert_int_equal(try_build(files, "", &table, NULL), 0);
	assert_int_equal(symbol_table_sources(table), SYMBOL_SOURCE_DYNSYM);
	assert_string_equal(find(table, 0x48), "");
	symbol_table_free(table);

	files.debug = buffer_bytes(&b);
	assert_int_equal(try_build(files, "", &table, NULL), 0);
	assert_int_equal(symbol_table_sources(table), SYMBOL_SOURCE_DYNSYM | SYMBOL_SOURCE_SYMTAB);
	assert_string_equal(find(table, 0x18), "exported");
	assert_string_equal(find(table, 0x48), "hidden");
	symbol_table_free(table);

	/* Alone, it knows no offsets, but a mapping of the text's size is the text. */
	files.binary = (struct bytes){0};
	assert_int_equal(try_build(files, "", &table, NULL), 0);
	assert_int_equal(symbol_table_flags(table), SYMBOL_TABLE_NO_OFFSETS);
	assert_string_equal(find(table, 0x48), "");
	uint64_t at = 0x7000000000 + (TEST_ELF_TEXT_ADDRESS & 0xfff) + 0x48;
	assert_true(symbol_table_mapped_to_address(table, 0x7000000000, 0x7000001000, at, &found));
	assert_string_equal(name_at(table, found), "hidden");
	/* 64 KiB pages */
	assert_true(symbol_table_mapped_to_address(table, 0x7000000000, 0x7000010000, 0x7000002000 + 0x448, &found));
	assert_string_not_equal(name_at(table, found), "");
	assert_false(symbol_table_mapped_to_address(table, 0x7000000000, 0x7000002000, at, &found));
	assert_false(symbol_table_mapped_to_address(table, 0x7000000000, 0x7000000000, at, &found));
	assert_false(symbol_table_mapped_to_address(table, 0x7000001000, 0x7000002000, at, &found));
	symbol_table_free(table);
	buffer_release(&a);
	buffer_release(&b);
}

/* No segment says where code is: symbols and sections do. */
static void test_a_debug_file_without_segments(void **state)
{
	static const struct test_symbol all[] = {{"sized", 0x10, 0x10, STT_FUNC, STB_GLOBAL},
						 {"unsized", 0x40, 0, STT_FUNC, STB_LOCAL},
						 {"outside", TEST_ELF_TEXT_SIZE, 0x10, STT_FUNC, STB_LOCAL}};
	struct test_elf separate = {all, 3, .notes_only = true};
	struct buffer b;
	struct symbol_table *table;
	uint64_t found;
	test_elf_build(&separate, &b);
	assert_int_equal(try_build((struct files){.debug = buffer_bytes(&b)}, TEST_ELF_BUILD_ID, &table, NULL), 0);
	assert_int_equal(symbol_table_sources(table), SYMBOL_SOURCE_SYMTAB);
	assert_int_equal(symbol_table_flags(table), SYMBOL_TABLE_NO_OFFSETS);
	assert_string_equal(name_at(table, TEST_ELF_TEXT_ADDRESS + 0x18), "sized");
	assert_string_equal(name_at(table, TEST_ELF_TEXT_ADDRESS + 0x30), "");
	assert_string_equal(name_at(table, TEST_ELF_TEXT_ADDRESS + TEST_ELF_TEXT_SIZE - 1), "unsized");
	assert_string_equal(name_at(table, TEST_ELF_TEXT_ADDRESS + TEST_ELF_TEXT_SIZE), "");
	/* The address itself is one of its code, as linked, wherever the mapping begins and ends. */
	uint64_t at = TEST_ELF_TEXT_ADDRESS + 0x18;
	assert_true(symbol_table_mapped_to_address(table, 0x400000, 0x700000, at, &found));
	assert_int_equal(found, at);
	assert_false(symbol_table_mapped_to_address(table, 0x400000, 0x700000, at + 0x10, &found));
	symbol_table_free(table);
	buffer_release(&b);
}

/* The program itself, sent for its debug information: its offsets are known. */
static void test_a_program_in_place_of_a_debug_file(void **state)
{
	static const struct test_symbol all[] = {{"sized", 0x10, 0x10, STT_FUNC, STB_GLOBAL}};
	struct test_elf program = {all, 1};
	struct buffer b;
	struct symbol_table *table;
	uint64_t found;
	test_elf_build(&program, &b);
	assert_int_equal(try_build((struct files){.debug = buffer_bytes(&b)}, "", &table, NULL), 0);
	assert_int_equal(symbol_table_flags(table), 0);
	assert_true(symbol_table_offset_to_address(table, TEST_ELF_TEXT_OFFSET + 0x18, &found));
	assert_string_equal(name_at(table, found), "sized");
	symbol_table_free(table);
	buffer_release(&b);
}

static void check_bounds(const struct symbol_table *table, uint32_t at, uint32_t start, uint32_t end)
{
	uint64_t got_start, got_end;
	symbol_table_bounds(table, symbol_table_find(table, TEST_ELF_TEXT_ADDRESS + at), &got_start, &got_end);
	assert_int_equal(got_start, TEST_ELF_TEXT_ADDRESS + start);
	assert_int_equal(got_end, TEST_ELF_TEXT_ADDRESS + end);
}

/* A symbol is as long as it is, whatever its neighbours are called. */
static void test_bounds(void **state)
{
	static const struct test_symbol symbols[] = {
		{"init", 0x00, 0x20, STT_FUNC, STB_LOCAL},   {"init", 0x20, 0x10, STT_FUNC, STB_LOCAL},
		{"other", 0x30, 0x40, STT_FUNC, STB_GLOBAL}, {"other", 0x40, 0x10, STT_FUNC, STB_LOCAL}, /* in it */
		{"label", 0x60, 0, STT_NOTYPE, STB_LOCAL},
	};
	struct symbol_table *table = build(symbols, COUNT(symbols));
	check_bounds(table, 0x1f, 0x00, 0x20);
	check_bounds(table, 0x20, 0x20, 0x30);
	check_bounds(table, 0x30, 0x30, 0x40);
	check_bounds(table, 0x48, 0x40, 0x50);
	check_bounds(table, 0x50, 0x50, 0x70);
	check_bounds(table, 0x6f, 0x50, 0x70);
	symbol_table_free(table);
}

static struct symbol_table *build_both(const struct buffer *binary, const struct buffer *debug)
{
	struct symbol_table *table;
	struct files files = {.binary = buffer_bytes(binary), .debug = buffer_bytes(debug)};
	assert_int_equal(try_build(files, "", &table, NULL), 0);
	return table;
}

/* What tools do to a binary after its debug file was split off. */
static void test_binaries_that_were_changed_later(void **state)
{
	static const struct test_symbol all[] = {{"hidden", 0x40, 0x10, STT_FUNC, STB_LOCAL}};
	struct test_elf stripped = {.stripped = true}, separate = {all, 1, .debug_only = true};
	const size_t segment_at = sizeof(Elf64_Ehdr) + sizeof(Elf64_Phdr);
	struct buffer binary, debug;
	Elf64_Ehdr header;
	Elf64_Phdr text, added = {.p_type = PT_LOAD, .p_flags = PF_R | PF_W, .p_vaddr = 0x3f0000, .p_filesz = 0x200};
	test_elf_build(&stripped, &binary);
	test_elf_build(&separate, &debug);
	memcpy(&header, binary.data, sizeof(header));
	memcpy(&text, binary.data + segment_at, sizeof(text));

	/* prelink: all of it lies elsewhere */
	text.p_vaddr += 0x10000;
	memcpy(binary.data + segment_at, &text, sizeof(text));
	struct symbol_table *table = build_both(&binary, &debug);
	assert_string_equal(find(table, 0x48), "hidden");
	symbol_table_free(table);

	/* patchelf: a segment of data in front, the code where it was */
	text.p_vaddr -= 0x10000;
	added.p_memsz = added.p_filesz;
	memcpy(binary.data + segment_at, &added, sizeof(added));
	memcpy(binary.data + segment_at + sizeof(added), &text, sizeof(text));
	header.e_phnum++;
	memcpy(binary.data, &header, sizeof(header));
	table = build_both(&binary, &debug);
	assert_string_equal(find(table, 0x48), "hidden");
	symbol_table_free(table);
	buffer_release(&binary);
	buffer_release(&debug);
}

/* Frames of a kernel count from its _stext, wherever its file has that. */
static void test_kernel_offsets(void **state)
{
	static const struct test_symbol symbols[] = {{"before", 0x00, 0x40, STT_FUNC, STB_GLOBAL},
						     {"_stext", 0x40, 0, STT_NOTYPE, STB_GLOBAL},
						     {"early", 0x40, 0x10, STT_FUNC, STB_GLOBAL},
						     {"late", 0x50, 0x10, STT_FUNC, STB_GLOBAL}};
	struct symbol_table *kernel = build(symbols, COUNT(symbols)), *program = build(symbols, 1);
	uint64_t address;
	assert_true(symbol_table_kernel_to_address(kernel, 0x8, &address));
	assert_string_equal(name_at(kernel, address), "early");
	assert_true(symbol_table_kernel_to_address(kernel, 0x18, &address));
	assert_string_equal(name_at(kernel, address), "late");
	assert_string_equal(find(kernel, 0x8), "before"); /* offsets in its file are others */
	assert_false(symbol_table_kernel_to_address(program, 0x8, &address));
	symbol_table_free(kernel);
	symbol_table_free(program);
}

static int load(const void *data, size_t len, const char *build_id, struct symbol_table **ret, struct error *err)
{
	_cleanup_(fd_closep) int fd = test_elf_file((struct bytes){data, len});
	return symbol_table_open(fd, "image", build_id, ret, err);
}

static uint8_t *copy_image(const struct symbol_table *table)
{
	uint8_t *image = mem_alloc(table->len);
	memcpy(image, table->image, table->len);
	return image;
}

static void test_images(void **state)
{
	static const struct test_symbol symbols[] = {
		{"alpha", 0x10, 0x10, STT_FUNC, STB_GLOBAL},
		{"beta", 0x40, 0x10, STT_FUNC, STB_GLOBAL},
	};
	struct symbol_table *built = build(symbols, COUNT(symbols)), *loaded;
	struct error err = {0};
	assert_int_equal(load(built->image, built->len, TEST_ELF_BUILD_ID, &loaded, &err), 0);
	assert_string_equal(find(loaded, 0x18), "alpha");
	symbol_table_free(loaded);
	assert_int_equal(load(built->image, built->len, "abcd", &loaded, &err), -EBADMSG);
	assert_non_null(strstr(err.message, "another build-id"));
	uint8_t *image = copy_image(built);
	for (size_t len = 1; len < built->len; len++)
		assert_int_equal(load(built->image, len, TEST_ELF_BUILD_ID, &loaded, &err), -EBADMSG);
	for (size_t bit = 0; bit < built->len * 8; bit++) {
		image[bit / 8] ^= (uint8_t)(1u << bit % 8);
		int r = load(image, built->len, TEST_ELF_BUILD_ID, &loaded, &err);
		assert_int_equal(r, -EBADMSG);
		image[bit / 8] ^= (uint8_t)(1u << bit % 8);
	}
	mem_free(image);
	symbol_table_free(built);
}

/* Somebody who can write the cache can also make the checksum right. */
static void test_images_with_a_right_checksum(void **state)
{
	static const struct test_symbol symbols[] = {
		{"alpha", 0x10, 0x10, STT_FUNC, STB_GLOBAL},
		{"beta", 0x40, 0x10, STT_FUNC, STB_GLOBAL},
	};
	struct symbol_table *built = build(symbols, COUNT(symbols));
	uint8_t *image = copy_image(built);
	unsigned accepted = 0;
	for (size_t bit = 16 * 8; bit < built->len * 8; bit++) {
		struct symbol_table *loaded;
		image[bit / 8] ^= (uint8_t)(1u << bit % 8);
		uint64_t checksum = hash64(image + 16, built->len - 16);
		memcpy(image + 8, &checksum, 8);
		if (load(image, built->len, TEST_ELF_BUILD_ID, &loaded, NULL) == 0) {
			accepted++;
			for (uint64_t at = 0; at < 0x1000; at++)
				assert_true(strlen(find_offset(loaded, at)) < 32);
			name_at(loaded, UINT64_MAX);
			symbol_table_free(loaded);
		}
		image[bit / 8] ^= (uint8_t)(1u << bit % 8);
	}
	assert_true(accepted > 0);
	mem_free(image);
	symbol_table_free(built);
}

static void test_allocation_faults(void **state)
{
	static const struct test_symbol symbols[] = {{"alpha", 0x10, 0x10, STT_FUNC, STB_GLOBAL}};
	struct test_elf elf = {symbols, 1};
	struct buffer b;
	test_elf_build(&elf, &b);
	for (uint64_t n = 1;; n++) {
		struct symbol_table *table = NULL;
		struct error err = {0};
		fault_arm(FAULT_ALLOC, n, 0);
		int r = try_build((struct files){.binary = buffer_bytes(&b)}, "", &table, &err);
		bool reached = fault_disarm(FAULT_ALLOC);
		if (!reached) {
			assert_int_equal(r, 0);
			symbol_table_free(table);
			break;
		}
		assert_int_equal(r, -ENOMEM);
		assert_true(err.message[0] != 0);
		assert_null(table);
	}
	buffer_release(&b);
}

/* ---- against llvm-symbolizer ---- */

/* Runs llvm-symbolizer over addresses and returns its output; false if it is not installed. */
static bool run_symbolizer(const char *path, const char *addresses, struct buffer *out)
{
	int in_fd = test_elf_file(bytes_of_string(addresses)), out_fd = memfd_create("out", MFD_CLOEXEC);
	char object[4096];
	snprintf(object, sizeof(object), "--obj=%s", path);
	pid_t child = fork();
	if (child == 0) {
		lseek(in_fd, 0, SEEK_SET);
		dup2(in_fd, 0);
		dup2(out_fd, 1);
		execlp("llvm-symbolizer-14", "llvm-symbolizer-14", "--no-inlines", "--no-demangle", object, (char *)NULL);
		_exit(127);
	}
	int status;
	assert_int_equal(waitpid(child, &status, 0), child);
	char by_fd[64];
	snprintf(by_fd, sizeof(by_fd), "/proc/self/fd/%d", out_fd);
	bool ran = WIFEXITED(status) && WEXITSTATUS(status) == 0;
	if (ran)
		assert_int_equal(io_read_file(by_fd, 256 << 20, out, NULL), 0);
	close(in_fd);
	close(out_fd);
	return ran;
}

/* Two names are the same function if symbols of both names start at one address. */
static bool are_aliases(const struct elf_symbols *list, const char *a, const char *b)
{
	for (size_t i = 0; i < list->count; i++) {
		if (strcmp(list->items[i].name, a) != 0)
			continue;
		for (size_t k = 0; k < list->count; k++)
			if (list->items[k].address == list->items[i].address && strcmp(list->items[k].name, b) == 0)
				return true;
	}
	return false;
}

static bool is_label(const struct elf_symbols *list, const char *name)
{
	for (size_t i = 0; i < list->count; i++)
		if (strcmp(list->items[i].name, name) == 0 && list->items[i].type != STT_NOTYPE)
			return false;
	return true;
}

static uint64_t offset_of(const struct elf_file *file, uint64_t address)
{
	for (size_t i = 0; i < file->segment_count; i++) {
		const struct elf_segment *s = &file->segments[i];
		if (s->type == PT_LOAD && address >= s->address && address - s->address < s->file_size)
			return address - s->address + s->offset;
	}
	return UINT64_MAX;
}

#define ORACLE_ADDRESSES 3000

/* Random addresses inside functions. Linkage table entries are left out: llvm-symbolizer has no names for them. */
static size_t pick_addresses(const struct elf_symbols *list, uint64_t *ret, struct buffer *text)
{
	uint64_t seed = 42;
	size_t count = 0;
	for (unsigned attempt = 0; attempt < 20 * ORACLE_ADDRESSES && count < ORACLE_ADDRESSES; attempt++) {
		seed = hash64_mix(seed + attempt);
		const struct elf_symbol *s = &list->items[seed % list->count];
		size_t len = strlen(s->name);
		if (s->is_unsized || (len > 4 && strcmp(s->name + len - 4, "@plt") == 0))
			continue;
		ret[count] = s->address + hash64_mix(seed) % s->size;
		assert_int_equal(buffer_printf(text, "0x%llx\n", (unsigned long long)ret[count]), 0);
		count++;
	}
	return count;
}

/* The answer is a line with the name and one with the place, for each address, with an empty line behind. */
static const char *next_name(char **at)
{
	char *name = *at, *end = strchr(name, '\n');
	assert_non_null(end);
	*end = 0;
	char *next = strstr(end + 1, "\n\n");
	assert_non_null(next);
	*at = next + 2;
	char *version = strchr(name, '@');
	if (version)
		*version = 0;
	return name;
}

static const char *outermost_at(const struct symbol_table *table, uint64_t offset)
{
	struct symbol_frame frames[256];
	uint64_t address;
	assert_true(symbol_table_offset_to_address(table, offset, &address));
	uint32_t range = symbol_table_find(table, address);
	assert_true(range != CODE_NONE);
	size_t count = symbol_table_frames(table, address, range, frames, COUNT(frames));
	assert_true(count > 0);
	return frames[count - 1].name;
}

static void check_against_symbolizer(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0) {
		printf("skipped: %s is not there\n", path);
		skip();
	}
	struct elf_file file;
	struct elf_symbols list;
	struct symbol_table *table;
	struct buffer addresses, answers;
	elf_symbols_init(&list);
	buffer_init(&addresses, 1 << 20);
	buffer_init(&answers, 256 << 20);
	assert_int_equal(elf_file_open(&file, fd, path, NULL), 0);
	assert_int_equal(elf_symbols_add_file(&list, &file, NULL), 0);
	struct buffer whole;
	buffer_init(&whole, SIZE_MAX);
	assert_int_equal(io_read_file(path, SIZE_MAX, &whole, NULL), 0);
	assert_int_equal(try_build((struct files){.binary = buffer_bytes(&whole)}, "", &table, NULL), 0);
	buffer_release(&whole);
	uint64_t *picked = mem_alloc_array(ORACLE_ADDRESSES, sizeof(*picked));
	size_t count = pick_addresses(&list, picked, &addresses), different = 0;
	bool ran = run_symbolizer(path, buffer_string(&addresses), &answers);
	char *at = ran ? (char *)buffer_string(&answers) : NULL;
	for (size_t i = 0; ran && i < count; i++) {
		const char *theirs = next_name(&at);
		const char *ours = outermost_at(table, offset_of(&file, picked[i]));
		/* They take labels inside functions for functions. */
		if (strcmp(ours, theirs) != 0 && !are_aliases(&list, ours, theirs) && !is_label(&list, theirs)) {
			printf("%s: 0x%llx is %s, expected %s\n", path, (unsigned long long)picked[i], ours, theirs);
			different++;
		}
	}
	mem_free(picked);
	symbol_table_free(table);
	elf_symbols_release(&list);
	elf_file_release(&file);
	buffer_release(&addresses);
	buffer_release(&answers);
	close(fd);
	assert_int_equal(different, 0);
	if (!ran) {
		printf("skipped: llvm-symbolizer-14 is not installed\n");
		skip();
	}
	assert_true(count >= 100);
}

static void test_own_symbols_against_llvm(void **state)
{
	char path[4096] = {0};
	assert_true(readlink("/proc/self/exe", path, sizeof(path) - 1) > 0);
	check_against_symbolizer(path);
}

static void test_libc_against_llvm(void **state)
{
	check_against_symbolizer("/lib/x86_64-linux-gnu/libc.so.6");
}

static void test_libstdcxx_against_llvm(void **state)
{
	check_against_symbolizer("/usr/lib/x86_64-linux-gnu/libstdc++.so.6");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_gaps_have_no_name),
		cmocka_unit_test(test_overlaps),
		cmocka_unit_test(test_symbols_without_a_size),
		cmocka_unit_test(test_aliases),
		cmocka_unit_test(test_aliases_in_order),
		cmocka_unit_test(test_a_file_without_symbols),
		cmocka_unit_test(test_random_overlaps),
		cmocka_unit_test(test_debug_file_takes_the_layout_of_the_binary),
		cmocka_unit_test(test_a_debug_file_without_segments),
		cmocka_unit_test(test_a_program_in_place_of_a_debug_file),
		cmocka_unit_test(test_bounds),
		cmocka_unit_test(test_binaries_that_were_changed_later),
		cmocka_unit_test(test_kernel_offsets),
		cmocka_unit_test(test_images),
		cmocka_unit_test(test_images_with_a_right_checksum),
		cmocka_unit_test(test_allocation_faults),
		cmocka_unit_test(test_own_symbols_against_llvm),
		cmocka_unit_test(test_libc_against_llvm),
		cmocka_unit_test(test_libstdcxx_against_llvm),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
