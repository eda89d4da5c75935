/* SPDX-License-Identifier: Apache-2.0 */
/* Links to other debug files, mini debug information, compressed sections: made by the tools that make them for users
 * (objcopy, xz's and zstd's libraries), read back here, then broken in every way that is cheap to think of. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <lzma.h>
#include <zlib.h>
#include <zstd.h>

#include "base/alloc.h"
#include "base/limits.h"
#include "base/test_faults.h"
#include "elf/debug_links.h"
#include "elf/elf_symbols.h"
#include "elf/test_elf.h"

#define SECTIONS_MAX 6

struct section {
	const char *name;
	struct bytes data;
	uint64_t flags, entry_size;
	uint32_t type, link;
};

/* A file with these sections behind the null section, and the table of their names at the end. */
static void build(const struct section *sections, size_t count, struct buffer *out)
{
	Elf64_Shdr headers[SECTIONS_MAX + 2] = {0};
	struct buffer names;
	buffer_init(&names, 1 << 16);
	test_elf_put(&names, "", 1);
	buffer_init(out, 64 * MIB);
	test_elf_pad(out, sizeof(Elf64_Ehdr));
	for (size_t i = 0; i <= count; i++) {
		const struct section *s = i < count ? &sections[i] : &(struct section){.name = ".shstrtab", .type = SHT_STRTAB};
		Elf64_Shdr *h = &headers[i + 1];
		h->sh_name = (uint32_t)names.len;
		test_elf_put(&names, s->name, strlen(s->name) + 1);
		struct bytes data = i < count ? s->data : buffer_bytes(&names);
		test_elf_pad(out, (out->len + 7) & ~(size_t)7);
		h->sh_type = s->type ? s->type : SHT_PROGBITS;
		h->sh_flags = s->flags;
		h->sh_offset = out->len;
		h->sh_size = data.len;
		h->sh_link = s->link;
		h->sh_entsize = s->entry_size;
		test_elf_put(out, data.data, data.len);
	}
	buffer_release(&names);
	test_elf_pad(out, (out->len + 7) & ~(size_t)7);
	Elf64_Ehdr header = {.e_ident = {0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB, EV_CURRENT},
			     .e_type = ET_DYN,
			     .e_machine = EM_X86_64,
			     .e_shoff = out->len,
			     .e_shentsize = sizeof(Elf64_Shdr),
			     .e_shnum = (uint16_t)(count + 2),
			     .e_shstrndx = (uint16_t)(count + 1)};
	memcpy(out->data, &header, sizeof(header));
	test_elf_put(out, headers, (count + 2) * sizeof(headers[0]));
}

/* ---- links ---- */

static int read_links(struct bytes link, struct bytes alt, char *name, uint32_t *crc, char *id)
{
	struct section sections[] = {{.name = ".gnu_debuglink", .data = link}, {.name = ".gnu_debugaltlink", .data = alt}};
	struct buffer b;
	build(sections, 2, &b);
	struct elf_file file;
	struct error err = {0};
	assert_int_equal(elf_file_open_memory(&file, buffer_bytes(&b), "test", &err), 0);
	int r = elf_read_debuglink(&file, name, crc, &err);
	if (r == 0)
		r = elf_read_debugaltlink(&file, name, id, &err);
	assert_true(r == 0 || (r == err.code && err.message[0] != 0));
	elf_file_release(&file);
	buffer_release(&b);
	return r;
}

#define BYTES(text) ((struct bytes){(const uint8_t *)(text), sizeof(text) - 1})

static void test_links(void **state)
{
	char name[DEBUG_LINK_NAME_MAX], id[BUILD_ID_HEX_MAX];
	uint32_t crc = 0;
	const struct bytes link = BYTES("a.debug\0\x44\x33\x22\x11"), alt = BYTES("/usr/x.dwz\0\xab\xcd");
	assert_int_equal(read_links(link, alt, name, &crc, id), 0);
	assert_string_equal(name, "/usr/x.dwz");
	assert_string_equal(id, "abcd");
	assert_int_equal(crc, 0x11223344);
	static const struct bytes bad_links[] = {
		BYTES(""),
		BYTES("a.debug"),
		BYTES("a.debug\0"),
		BYTES("a.debug\0abc"),
		BYTES("abc.debug\0\0\0\x44\x33\x22"),
		BYTES("\0\0\0\0\x44\x33\x22\x11"),
		BYTES("../a.de\0\x44\x33\x22\x11"),
		BYTES("..\0\0\x44\x33\x22\x11"),
	};
	for (size_t i = 0; i < sizeof(bad_links) / sizeof(bad_links[0]); i++)
		assert_int_equal(read_links(bad_links[i], alt, name, &crc, id), -EBADMSG);
	static const struct bytes bad_alts[] = {BYTES(""), BYTES("/usr/x.dwz"), BYTES("/usr/x.dwz\0"), BYTES("\0abcd")};
	for (size_t i = 0; i < sizeof(bad_alts) / sizeof(bad_alts[0]); i++)
		assert_int_equal(read_links(link, bad_alts[i], name, &crc, id), -EBADMSG);
	static uint8_t longer[DEBUG_LINK_NAME_MAX + 100];
	memset(longer, 'a', sizeof(longer));
	assert_int_equal(read_links((struct bytes){longer, sizeof(longer)}, alt, name, &crc, id), -EBADMSG);
	longer[DEBUG_LINK_NAME_MAX] = 0;
	assert_int_equal(read_links((struct bytes){longer, DEBUG_LINK_NAME_MAX + 8}, alt, name, &crc, id), -EBADMSG);
	memset(longer, 0xab, sizeof(longer));
	memcpy(longer, "alt", 4);
	assert_int_equal(read_links(link, (struct bytes){longer, 4 + BUILD_ID_BYTES_MAX}, name, &crc, id), 0);
	assert_int_equal(strlen(id), 2 * BUILD_ID_BYTES_MAX);
	assert_int_equal(read_links(link, (struct bytes){longer, 5 + BUILD_ID_BYTES_MAX}, name, &crc, id), -EBADMSG);
}

static void test_absent(void **state)
{
	struct section none = {.name = ".other", .data = BYTES("x")};
	struct buffer b;
	build(&none, 1, &b);
	struct elf_file file, inner;
	char name[DEBUG_LINK_NAME_MAX], id[BUILD_ID_HEX_MAX];
	uint32_t crc;
	uint8_t *memory;
	assert_int_equal(elf_file_open_memory(&file, buffer_bytes(&b), "test", NULL), 0);
	assert_int_equal(elf_read_debuglink(&file, name, &crc, NULL), -ENOENT);
	assert_int_equal(elf_read_debugaltlink(&file, name, id, NULL), -ENOENT);
	assert_int_equal(elf_open_minidebug(&file, &inner, &memory, NULL), -ENOENT);
	elf_file_release(&file);
	buffer_release(&b);
}

/* ---- mini debug information ---- */

static void pack_xz(struct bytes data, struct buffer *out)
{
	buffer_init(out, 64 * MIB);
	assert_int_equal(buffer_reserve(out, lzma_stream_buffer_bound(data.len)), 0);
	assert_int_equal(
		lzma_easy_buffer_encode(6, LZMA_CHECK_CRC32, NULL, data.data, data.len, out->data, &out->len, out->capacity),
		LZMA_OK);
}

/* Opens a file whose .gnu_debugdata is `packed` and counts the symbols inside. */
static int open_minidebug(struct bytes packed, size_t *ret_count, struct error *err)
{
	struct section section = {.name = ".gnu_debugdata", .data = packed};
	struct buffer b;
	build(&section, 1, &b);
	struct elf_file file, inner;
	struct elf_symbols list;
	uint8_t *memory;
	elf_symbols_init(&list);
	int r = elf_file_open_memory(&file, buffer_bytes(&b), "test", err);
	if (r == 0) {
		r = elf_open_minidebug(&file, &inner, &memory, err);
		if (r == 0) {
			r = elf_symbols_add_file(&list, &inner, err);
			*ret_count = list.count;
			elf_file_release(&inner);
			mem_free(memory);
		}
		elf_file_release(&file);
	}
	elf_symbols_release(&list);
	buffer_release(&b);
	return r;
}

static const struct test_symbol symbols[] = {
	{"alpha", 0x10, 0x20, STT_FUNC, STB_GLOBAL},
	{"beta", 0x40, 0x20, STT_FUNC, STB_LOCAL},
};
static const struct test_elf good = {symbols, 2};

static void test_minidebug(void **state)
{
	struct buffer elf, packed;
	test_elf_build(&good, &elf);
	pack_xz(buffer_bytes(&elf), &packed);
	size_t count = 0;
	struct error err = {0};
	assert_int_equal(open_minidebug(buffer_bytes(&packed), &count, &err), 0);
	assert_int_equal(count, 2);
	for (size_t len = 0; len < packed.len; len++)
		assert_int_equal(open_minidebug((struct bytes){packed.data, len}, &count, &err), -EBADMSG);
	for (size_t bit = 0; bit < packed.len * 8; bit++) {
		packed.data[bit / 8] ^= (uint8_t)(1u << bit % 8);
		err = (struct error){0};
		assert_true(open_minidebug(buffer_bytes(&packed), &count, &err) < 0);
		assert_true(err.message[0] != 0);
		packed.data[bit / 8] ^= (uint8_t)(1u << bit % 8);
	}
	buffer_release(&packed);
	pack_xz(BYTES("not an ELF file"), &packed);
	assert_int_equal(open_minidebug(buffer_bytes(&packed), &count, &err), -EBADMSG);
	buffer_release(&packed);
	buffer_release(&elf);
}

/* 16 MiB of zeros are 2.5 KiB of xz. */
static void test_xz_bombs(void **state)
{
	struct bytes zeros = {mem_zalloc(16 * MIB), 16 * MIB};
	struct buffer packed;
	size_t count;
	struct error err = {0};
	pack_xz(zeros, &packed);
	assert_true(packed.len < 4096);
	assert_int_equal(open_minidebug(buffer_bytes(&packed), &count, &err), -E2BIG);
	assert_non_null(strstr(err.message, "256 times"));
	/* A dictionary of 1.5 GiB: the decoder would take that much before the first byte. */
	lzma_options_lzma options;
	assert_false(lzma_lzma_preset(&options, 0));
	options.dict_size = 4096;
	lzma_filter filters[] = {{LZMA_FILTER_LZMA2, &options}, {LZMA_VLI_UNKNOWN, NULL}};
	buffer_clear(&packed);
	assert_int_equal(lzma_stream_buffer_encode(filters, LZMA_CHECK_NONE, NULL, zeros.data, 64, packed.data, &packed.len,
						   packed.capacity),
			 LZMA_OK);
	/* Stream header 12 bytes; block header: its size, flags, two sizes, filter, size of its properties, dictionary; CRC-32.
	 */
	packed.data[18] = 37;
	size_t header_len = (packed.data[12] + 1u) * 4;
	uint32_t crc = lzma_crc32(packed.data + 12, header_len - 4, 0);
	memcpy(packed.data + 12 + header_len - 4, &crc, 4);
	assert_int_equal(open_minidebug(buffer_bytes(&packed), &count, &err), -E2BIG);
	assert_non_null(strstr(err.message, "to decompress"));
	buffer_release(&packed);
	mem_free((void *)zeros.data);
}

/* ---- compressed sections ---- */

static void pack_section(uint32_t algorithm, uint64_t claim, struct bytes data, struct buffer *out)
{
	buffer_init(out, 64 * MIB);
	Elf64_Chdr header = {.ch_type = algorithm, .ch_size = claim, .ch_addralign = 1};
	test_elf_put(out, &header, sizeof(header));
	assert_int_equal(buffer_reserve(out, ZSTD_compressBound(data.len) + compressBound(data.len)), 0);
	if (algorithm == 2) {
		out->len += ZSTD_compress(out->data + out->len, out->capacity - out->len, data.data, data.len, 3);
	} else {
		uLongf len = out->capacity - out->len;
		assert_int_equal(compress(out->data + out->len, &len, data.data, data.len), Z_OK);
		out->len += len;
	}
}

static int read_packed(struct bytes packed, uint64_t max, struct bytes expected, struct error *err)
{
	struct section section = {.name = ".debug_str", .data = packed, .flags = SHF_COMPRESSED};
	struct buffer b;
	build(&section, 1, &b);
	struct elf_file file;
	struct bytes got = {0};
	int r = elf_file_open_memory(&file, buffer_bytes(&b), "test", err);
	if (r == 0) {
		r = elf_file_load_sections(&file, err);
		if (r == 0)
			r = elf_file_read_section(&file, elf_file_find_section(&file, ".debug_str"), max, &got, err);
		if (r == 0) {
			assert_true(bytes_equal(got, expected));
			assert_int_equal(got.data[got.len], 0);
			mem_free((void *)got.data);
		} else {
			assert_null(got.data); /* or somebody frees it a second time */
		}
		elf_file_release(&file);
	}
	buffer_release(&b);
	return r;
}

static void test_compressed_sections(void **state)
{
	const struct bytes text = BYTES("all the names of all the functions of all the files of all the names");
	for (uint32_t algorithm = 1; algorithm <= 2; algorithm++) {
		struct buffer packed;
		struct error err = {0};
		pack_section(algorithm, text.len, text, &packed);
		assert_int_equal(read_packed(buffer_bytes(&packed), 1000, text, &err), 0);
		assert_int_equal(read_packed(buffer_bytes(&packed), text.len, text, &err), text.len < packed.len ? -E2BIG : 0);
		for (size_t len = 0; len < packed.len; len++)
			assert_int_equal(read_packed((struct bytes){packed.data, len}, 1000, text, &err), -EBADMSG);
		buffer_release(&packed);
		/* Claims that do not hold: more, less, more than the limit, more than can be. */
		static const struct {
			uint64_t claim;
			int code;
		} claims[] = {{69, -EBADMSG}, {60, -EBADMSG}, {1001, -E2BIG}, {1ull << 60, -E2BIG}, {0, -EBADMSG}};
		for (size_t i = 0; i < sizeof(claims) / sizeof(claims[0]); i++) {
			pack_section(algorithm, claims[i].claim, text, &packed);
			assert_int_equal(read_packed(buffer_bytes(&packed), 1000, text, &err), claims[i].code);
			buffer_release(&packed);
		}
		pack_section(algorithm, 1 << 30, text, &packed);
		assert_int_equal(read_packed(buffer_bytes(&packed), 1ull << 31, text, &err), -EBADMSG);
		assert_non_null(strstr(err.message, "declares"));
		buffer_release(&packed);
	}
	struct buffer packed;
	struct error err = {0};
	pack_section(3, text.len, text, &packed);
	assert_int_equal(read_packed(buffer_bytes(&packed), 1000, text, &err), -ENOTSUP);
	buffer_release(&packed);
}

/* Packs a section of a file in place: its contents move to the end. */
static void pack_in_place(struct buffer *elf, size_t index, uint32_t algorithm)
{
	Elf64_Ehdr header;
	memcpy(&header, elf->data, sizeof(header));
	Elf64_Shdr section;
	size_t at = header.e_shoff + index * sizeof(section);
	memcpy(&section, elf->data + at, sizeof(section));
	struct buffer packed;
	pack_section(algorithm, section.sh_size, (struct bytes){elf->data + section.sh_offset, section.sh_size}, &packed);
	section.sh_offset = elf->len;
	section.sh_size = packed.len;
	section.sh_flags |= SHF_COMPRESSED;
	test_elf_put(elf, packed.data, packed.len);
	memcpy(elf->data + at, &section, sizeof(section));
	buffer_release(&packed);
}

static int read_symbols(struct bytes bytes, size_t *ret_count, struct error *err)
{
	_cleanup_(elf_file_release) struct elf_file file = {0};
	_cleanup_(elf_symbols_release) struct elf_symbols list = {0};
	elf_symbols_init(&list);
	int r = elf_file_open_memory(&file, bytes, "test", err);
	if (r == 0)
		r = elf_symbols_add_file(&list, &file, err);
	*ret_count = list.count;
	return r;
}

static void test_compressed_symbols(void **state)
{
	struct buffer elf;
	size_t count = 0;
	test_elf_build(&good, &elf);
	pack_in_place(&elf, 2, 1);
	pack_in_place(&elf, 3, 2);
	assert_int_equal(read_symbols(buffer_bytes(&elf), &count, NULL), 0);
	assert_int_equal(count, 2);
	buffer_release(&elf);
}

/* ---- memory that runs out ---- */

struct images {
	struct buffer elf, links;
};

static int run_all(void *context)
{
	const struct images *images = context;
	struct error *err = NULL;
	size_t count = 0;
	int r = read_symbols(buffer_bytes(&images->elf), &count, err);
	if (r == 0)
		assert_int_equal(count, 2);
	struct elf_file file, inner;
	char name[DEBUG_LINK_NAME_MAX], id[BUILD_ID_HEX_MAX];
	uint32_t crc;
	uint8_t *memory;
	if (r == 0)
		r = elf_file_open_memory(&file, buffer_bytes(&images->links), "test", err);
	if (r < 0)
		return r;
	r = elf_read_debuglink(&file, name, &crc, err);
	if (r == 0)
		r = elf_read_debugaltlink(&file, name, id, err);
	if (r == 0)
		r = elf_open_minidebug(&file, &inner, &memory, err);
	if (r == 0) {
		elf_file_release(&inner);
		mem_free(memory);
	}
	elf_file_release(&file);
	return r;
}

static void test_faults(void **state)
{
	struct buffer inner, packed;
	struct images images;
	test_elf_build(&good, &images.elf);
	pack_in_place(&images.elf, 2, 1);
	pack_in_place(&images.elf, 3, 2);
	test_elf_build(&good, &inner);
	pack_xz(buffer_bytes(&inner), &packed);
	struct section sections[] = {{.name = ".gnu_debuglink", .data = BYTES("a.debug\0\x44\x33\x22\x11")},
				     {.name = ".gnu_debugaltlink", .data = BYTES("alt\0\xab\xcd")},
				     {.name = ".gnu_debugdata", .data = buffer_bytes(&packed)}};
	build(sections, 3, &images.links);
	assert_true(test_each_allocation(run_all, &images) > 14);
	buffer_release(&images.links);
	buffer_release(&packed);
	buffer_release(&inner);
	buffer_release(&images.elf);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_links),
		cmocka_unit_test(test_absent),
		cmocka_unit_test(test_minidebug),
		cmocka_unit_test(test_xz_bombs),
		cmocka_unit_test(test_compressed_sections),
		cmocka_unit_test(test_compressed_symbols),
		cmocka_unit_test(test_faults),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
