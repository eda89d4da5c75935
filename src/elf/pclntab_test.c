/* SPDX-License-Identifier: Apache-2.0 */
/* Tables of all layouts, made by test_pclntab.h; real programs are compared with other tools by tests/symbol. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdio.h>

#include "base/alloc.h"
#include "base/fault.h"
#include "elf/extract.h"
#include "elf/test_pclntab.h"

/* All that the sink got, as text. */
static const char *file_of(const struct code_unit *unit, uint32_t file)
{
	return file == CODE_NONE ? "?" : unit->files[file];
}

static int write_unit(void *context, const struct code_unit *unit, struct error *err)
{
	struct buffer *out = context;
	int r = 0;
	assert_int_equal(unit->language, 0x16);
	for (size_t i = 0; i < unit->range_count && r == 0; i++) {
		assert_true(unit->ranges[i].start < unit->ranges[i].end && unit->ranges[i].scope < unit->scope_count);
		assert_true(i == 0 || unit->ranges[i - 1].end <= unit->ranges[i].start);
		r = buffer_printf(out, "%lx-%lx", unit->ranges[i].start, unit->ranges[i].end);
		for (uint32_t s = unit->ranges[i].scope; s != CODE_NONE && r == 0; s = unit->scopes[s].parent) {
			const struct code_scope *scope = &unit->scopes[s];
			assert_true(scope->parent == CODE_NONE || scope->parent < s);
			r = buffer_printf(out, " %s(%s:%u)", scope->name, file_of(unit, scope->file), scope->line);
			if (scope->parent != CODE_NONE && r == 0)
				r = buffer_printf(out, "@%s:%u", file_of(unit, scope->call_file), scope->call_line);
		}
		if (r == 0)
			r = buffer_append_string(out, "\n");
	}
	for (size_t i = 0; i < unit->row_count && r == 0; i++) {
		const struct code_row *row = &unit->rows[i];
		assert_true(i == 0 || unit->rows[i - 1].address < row->address);
		assert_true(row->end || row->file == CODE_NONE || row->file < unit->file_count);
		r = row->end ? buffer_printf(out, "%lx end\n", row->address)
			     : buffer_printf(out, "%lx %s:%u\n", row->address, file_of(unit, row->file), row->line);
	}
	assert_true(unit->row_count == 0 || unit->rows[unit->row_count - 1].end);
	return r == -ENOMEM ? error_nomem(err) : r;
}

static int read_bytes(struct bytes bytes, struct pclntab_result *result, struct buffer *out, struct error *err)
{
	_cleanup_(elf_file_release) struct elf_file file = {0};
	int r = elf_file_open_memory(&file, bytes, "test", err);
	return r < 0 ? r : pclntab_read(&file, write_unit, out, result, err);
}

#define ROWS                                                                                                                   \
	"401000 a.go:10\n401010 b.go:21\n401020 b.go:31\n401030 a.go:12\n401038 end\n"                                         \
	"401040 b.go:5\n401060 end\n"

static const char *const expected[] = {
	[PCLNTAB_1_2] = "401000-401038 main.outer(?:0)\n401040-401060 example.com/x.y.leaf(?:0)\n" ROWS,
	[PCLNTAB_1_16] = "401000-401010 main.outer(?:0)\n"
			 "401010-401020 main.middle(?:0)@a.go:10 main.outer(?:0)\n"
			 "401020-401030 main.inner(?:0)@b.go:21 main.middle(?:0)@a.go:10 main.outer(?:0)\n"
			 "401030-401038 main.outer(?:0)\n"
			 "401040-401060 example.com/x.y.leaf(?:0)\n" ROWS,
	[PCLNTAB_1_20] = "401000-401010 main.outer(a.go:9)\n"
			 "401010-401020 main.middle(b.go:20)@a.go:10 main.outer(a.go:9)\n"
			 "401020-401030 main.inner(b.go:30)@b.go:21 main.middle(b.go:20)@a.go:10 main.outer(a.go:9)\n"
			 "401030-401038 main.outer(a.go:9)\n"
			 "401040-401060 example.com/x.y.leaf(b.go:4)\n" ROWS,
};

static const char *expected_of(enum pclntab_layout layout)
{
	return expected[layout == PCLNTAB_1_18 ? PCLNTAB_1_16 : layout];
}

static void check(const struct test_go *go)
{
	static const char *const versions[] = {"1.2", "1.16", "1.18", "1.20"};
	struct buffer b, out;
	struct pclntab_result result;
	struct error err = {0};
	test_go_build(go, &b);
	buffer_init(&out, 1 << 20);
	int r = read_bytes(buffer_bytes(&b), &result, &out, &err);
	assert_string_equal(err.message, "");
	assert_int_equal(r, 0);
	assert_int_equal(result.functions, 2);
	assert_int_equal(result.damaged, 0);
	assert_string_equal(result.version, versions[go->layout]);
	assert_string_equal(buffer_string(&out), expected_of(go->layout));
	buffer_release(&out);
	buffer_release(&b);
}

static void test_layouts(void **state)
{
	for (int layout = PCLNTAB_1_2; layout <= PCLNTAB_1_20; layout++) {
		check(&(struct test_go){.layout = (enum pclntab_layout)layout});
		check(&(struct test_go){.layout = (enum pclntab_layout)layout, .no_headers = true});
		check(&(struct test_go){.layout = (enum pclntab_layout)layout, .other_name = true});
		check(&(struct test_go){.layout = (enum pclntab_layout)layout, .no_headers = true, .other_name = true});
	}
	check(&(struct test_go){.layout = PCLNTAB_1_18, .no_text = true});
	check(&(struct test_go){.layout = PCLNTAB_1_20, .no_text = true, .no_headers = true});
}

static void test_no_table(void **state)
{
	struct buffer b;
	struct pclntab_result result;
	struct error err = {0};
	test_elf_build(&(struct test_elf){0}, &b);
	assert_int_equal(read_bytes(buffer_bytes(&b), &result, NULL, &err), -ENOENT);
	buffer_release(&b);
	/* A magic number that is not known. */
	test_go_build(&(struct test_go){.layout = PCLNTAB_1_20}, &b);
	Elf64_Ehdr header;
	Elf64_Shdr section;
	memcpy(&header, b.data, sizeof(header));
	memcpy(&section, b.data + header.e_shoff + 3 * sizeof(section), sizeof(section));
	b.data[section.sh_offset] = 0xf7;
	assert_int_equal(read_bytes(buffer_bytes(&b), &result, NULL, &err), -ENOTSUP);
	b.data[section.sh_offset] = 0xf1;
	memset(b.data + section.sh_offset + 8, 0xff, 8);
	assert_int_equal(read_bytes(buffer_bytes(&b), &result, NULL, &err), -EBADMSG);
	buffer_release(&b);
}

static int open_within(struct bytes bytes, const struct pclntab_limits *limits)
{
	struct elf_file file;
	struct pclntab table;
	assert_int_equal(elf_file_open_memory(&file, bytes, "test", NULL), 0);
	int r = pclntab_open_within(&file, limits, &table, NULL);
	if (r == 0)
		pclntab_close(&table);
	elf_file_release(&file);
	return r;
}

/* The table lies behind something that looks like one and has impossible numbers, in a section that is larger than the limit:
 * that is told from the first bytes. */
static void test_search_reads_little(void **state)
{
	for (int layout = PCLNTAB_1_2; layout <= PCLNTAB_1_20; layout++) {
		struct buffer b;
		test_go_build(&(struct test_go){.layout = (enum pclntab_layout)layout, .other_name = true}, &b);
		Elf64_Shdr *sections = (Elf64_Shdr *)(b.data + ((Elf64_Ehdr *)b.data)->e_shoff);
		struct pclntab_limits limits = {.table_bytes = sections[3].sh_size - 24, .search_bytes = MIB, .pointers = 1};
		assert_int_equal(open_within(buffer_bytes(&b), &limits), 0);
		limits.table_bytes--;
		assert_int_equal(open_within(buffer_bytes(&b), &limits), -E2BIG);
		/* The section before the table is searched too, and the table's twice. */
		limits.table_bytes++;
		limits.search_bytes = sections[2].sh_size + sections[3].sh_size;
		assert_int_equal(open_within(buffer_bytes(&b), &limits), -ENOENT);
		buffer_release(&b);
	}
}

/* Sections of no cost to who makes them: all of them are the same false start. The limit is the file's, not each section's. */
static void test_search_of_overlapping_sections(void **state)
{
	for (size_t count = 1; count <= 24; count += 23) {
		struct buffer b;
		test_go_build(&(struct test_go){.layout = PCLNTAB_1_20, .other_name = true}, &b);
		Elf64_Ehdr *header = (Elf64_Ehdr *)b.data;
		Elf64_Shdr old[7], false_start;
		memcpy(old, b.data + header->e_shoff, sizeof(old));
		false_start = old[3];
		false_start.sh_size = 24;
		test_go_pad(&b);
		size_t sections_at = b.len;
		test_elf_put(&b, old, 3 * sizeof(*old));
		for (size_t i = 0; i < count; i++)
			test_elf_put(&b, &false_start, sizeof(false_start));
		test_elf_put(&b, old + 3, 4 * sizeof(*old));
		header = (Elf64_Ehdr *)b.data;
		header->e_shoff = sections_at;
		header->e_shnum = (uint16_t)(7 + count);
		header->e_shstrndx = (uint16_t)(6 + count);
		struct pclntab_limits limits = {.table_bytes = MIB, .search_bytes = MIB, .pointers = 1};
		assert_int_equal(open_within(buffer_bytes(&b), &limits), count == 1 ? 0 : -ENOENT);
		buffer_release(&b);
	}
}

static void test_every_truncation(void **state)
{
	for (int layout = PCLNTAB_1_2; layout <= PCLNTAB_1_20; layout++) {
		struct test_go go = {.layout = (enum pclntab_layout)layout, .no_headers = true};
		struct buffer b;
		test_go_build(&go, &b);
		for (size_t len = 0; len < b.len; len += 3) {
			uint8_t *copy = mem_alloc(len + 1);
			struct buffer out;
			struct pclntab_result result;
			buffer_init(&out, 1 << 20);
			memcpy(copy, b.data, len);
			struct error err = {0};
			int r = read_bytes((struct bytes){copy, len}, &result, &out, &err);
			assert_true(r == 0 || err.message[0] != 0);
			buffer_release(&out);
			mem_free(copy);
		}
		buffer_release(&b);
	}
}

static void test_every_bit_flip(void **state)
{
	for (int layout = PCLNTAB_1_2; layout <= PCLNTAB_1_20; layout++) {
		struct test_go go = {.layout = (enum pclntab_layout)layout};
		struct buffer b;
		test_go_build(&go, &b);
		for (size_t bit = 0; bit < b.len * 8; bit++) {
			struct buffer out;
			struct pclntab_result result = {0};
			struct error err = {0};
			buffer_init(&out, 1 << 20);
			b.data[bit / 8] ^= (uint8_t)(1u << bit % 8);
			int r = read_bytes(buffer_bytes(&b), &result, &out, &err);
			assert_true(r == 0 || err.message[0] != 0);
			assert_true(result.functions + result.damaged <= 64);
			b.data[bit / 8] ^= (uint8_t)(1u << bit % 8);
			buffer_release(&out);
		}
		buffer_release(&b);
	}
}

static void test_sink_ends_the_reading(void **state)
{
	struct buffer b, out;
	struct pclntab_result result;
	test_go_build(&(struct test_go){.layout = PCLNTAB_1_20}, &b);
	buffer_init(&out, 10);
	assert_int_equal(read_bytes(buffer_bytes(&b), &result, &out, NULL), -E2BIG);
	buffer_release(&out);
	buffer_release(&b);
}

/* An extract has neither inlined calls nor moduledata where the program has them, and says the same. */
static void test_extract(void **state)
{
	for (int i = 0; i < 6; i++) {
		int layout = PCLNTAB_1_16 + i % 3;
		struct test_go go = {
			.layout = (enum pclntab_layout)layout, .no_text = layout == PCLNTAB_1_20, .other_name = i >= 3};
		struct buffer b, out;
		struct elf_file file;
		struct elf_extract_result extracted;
		struct pclntab_result result;
		test_go_build(&go, &b);
		int fd = memfd_create("extract", MFD_CLOEXEC);
		assert_int_equal(elf_file_open_memory(&file, buffer_bytes(&b), "test", NULL), 0);
		assert_int_equal(elf_extract(&file, fd, NULL, &extracted, NULL), 0);
		assert_true(extracted.has_pclntab);
		elf_file_release(&file);
		buffer_init(&out, 1 << 20);
		assert_int_equal(elf_file_open(&file, fd, "extract", NULL), 0);
		assert_int_equal(pclntab_read(&file, write_unit, &out, &result, NULL), 0);
		assert_string_equal(buffer_string(&out), expected_of(go.layout));
		elf_file_release(&file);
		buffer_release(&out);
		buffer_release(&b);
		close(fd);
	}
}

/* ---- depth ---- */

#define DEEP 600

/* A function of DEEP + 1 bytes: call i is at byte i + 1, and inlined into the one a byte before. As an extract has it. */
static void build_deep(struct buffer *out)
{
	static const char section_names[] = "\0.gopclntab\0" PCLNTAB_INLINE_SECTION "\0.shstrtab";
	enum { NAMES = 72, TABLES = 80, RECORD = 16, RECORD_BYTES = 44 + 3 * 4 + 4 * 4 };
	buffer_init(out, 1 << 20);
	test_elf_pad(out, 0x100);
	size_t table_at = out->len;
	test_elf_put(out, "\xf1\xff\xff\xff\0\0\1\x8", 8);
	for (size_t i = 0; i < 8; i++) /* the functions are set below */
		test_go_u64(out, (const uint64_t[]){1, 0, TEST_GO_TEXT, NAMES, NAMES, NAMES, TABLES, 0}[i]);
	test_elf_put(out, "f\0\0\0\0\0\0\0", 9); /* and a pc table that is not there */
	for (uint32_t i = 0; i <= DEEP; i++) {
		test_go_varint(out, i ? 2 : 0);
		test_go_varint(out, 1);
	}
	test_go_pad(out);
	uint64_t functions = out->len - table_at;
	memcpy(out->data + table_at + 64, &functions, sizeof(functions));
	for (size_t i = 0; i < 4; i++)
		test_go_u32(out, (const uint32_t[]){0, RECORD, DEEP + 1, 0}[i]);
	size_t record_at = out->len;
	test_elf_pad(out, record_at + RECORD_BYTES);
	out->data[record_at + 28] = 3; /* pc tables */
	out->data[record_at + 43] = 4; /* pieces of data */
	out->data[record_at + 52] = 1; /* the third of them is of inlined calls */
	size_t table_end = out->len, names_at, sections_at;
	test_go_u32(out, 0x31494757);
	test_go_u32(out, 1);
	test_go_u64(out, TEST_GO_TEXT);
	test_go_u32(out, 0);
	test_go_u32(out, DEEP);
	for (uint32_t i = 0; i < DEEP; i++)
		for (size_t k = 0; k < 3; k++)
			test_go_u32(out, (const uint32_t[]){0, i, 1}[k]);
	names_at = out->len;
	test_elf_put(out, section_names, sizeof(section_names));
	test_go_pad(out);
	sections_at = out->len;
	const Elf64_Shdr sections[] = {
		{0},
		{1, SHT_PROGBITS, SHF_ALLOC, TEST_GO_RODATA, table_at, table_end - table_at, 0, 0, 8, 0},
		{12, SHT_PROGBITS, 0, 0, table_end, names_at - table_end, 0, 0, 8, 0},
		{12 + sizeof(PCLNTAB_INLINE_SECTION), SHT_STRTAB, 0, 0, names_at, sizeof(section_names), 0, 0, 1, 0},
	};
	test_elf_put(out, sections, sizeof(sections));
	const Elf64_Ehdr header = {.e_ident = {0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB, EV_CURRENT},
				   .e_type = ET_EXEC,
				   .e_machine = EM_X86_64,
				   .e_version = EV_CURRENT,
				   .e_shoff = sections_at,
				   .e_ehsize = sizeof(Elf64_Ehdr),
				   .e_shentsize = sizeof(Elf64_Shdr),
				   .e_shnum = 4,
				   .e_shstrndx = 3};
	memcpy(out->data, &header, sizeof(header));
}

static int check_depth(void *context, const struct code_unit *unit, struct error *err)
{
	unsigned *deepest = context;
	assert_int_equal(unit->scope_count, DEEP + 1);
	for (size_t i = 0; i < unit->range_count; i++) {
		unsigned depth = 0;
		for (uint32_t s = unit->ranges[i].scope; s != CODE_NONE; s = unit->scopes[s].parent)
			depth++;
		*deepest = depth > *deepest ? depth : *deepest;
	}
	return 0;
}

/* Whoever walks up from every range pays for the depth, which a file may make up at no cost. */
static void test_deep_calls(void **state)
{
	struct buffer b;
	struct elf_file file;
	struct pclntab_result result = {0};
	struct error err = {0};
	unsigned deepest = 0;
	build_deep(&b);
	assert_int_equal(elf_file_open_memory(&file, buffer_bytes(&b), "deep", NULL), 0);
	int r = pclntab_read(&file, check_depth, &deepest, &result, &err);
	assert_string_equal(err.message, "");
	assert_int_equal(r, 0);
	assert_int_equal(result.functions, 1);
	assert_int_equal(deepest, 256);
	elf_file_release(&file);
	buffer_release(&b);
}

static void test_faults(void **state)
{
	struct buffer b;
	test_go_build(&(struct test_go){.layout = PCLNTAB_1_20, .no_text = true}, &b);
	int fd = test_elf_file(buffer_bytes(&b));
	static const enum fault_kind kinds[] = {FAULT_ALLOC, FAULT_READ};
	static const int codes[] = {-ENOMEM, -EIO};
	for (size_t kind = 0; kind < 2; kind++) {
		for (uint64_t n = 1;; n++) {
			struct buffer out;
			struct elf_file file;
			struct pclntab_result result;
			struct error err = {0};
			buffer_init(&out, 1 << 20);
			fault_arm(kinds[kind], n, 0);
			int r = elf_file_open(&file, fd, "test", &err);
			if (r == 0) {
				r = pclntab_read(&file, write_unit, &out, &result, &err);
				elf_file_release(&file);
			}
			bool reached = fault_disarm(kinds[kind]);
			if (!reached)
				assert_string_equal(buffer_string(&out), expected_of(PCLNTAB_1_20));
			buffer_release(&out);
			if (!reached) {
				assert_int_equal(r, 0);
				assert_true(n > 5);
				break;
			}
			assert_int_equal(r, codes[kind]);
		}
	}
	close(fd);
	buffer_release(&b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_layouts),
		cmocka_unit_test(test_no_table),
		cmocka_unit_test(test_search_reads_little),
		cmocka_unit_test(test_search_of_overlapping_sections),
		cmocka_unit_test(test_every_truncation),
		cmocka_unit_test(test_every_bit_flip),
		cmocka_unit_test(test_sink_ends_the_reading),
		cmocka_unit_test(test_extract),
		cmocka_unit_test(test_deep_calls),
		cmocka_unit_test(test_faults),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
