/* SPDX-License-Identifier: Apache-2.0 */
/* Where call frame information comes from: .debug_frame, compressed or not, files without section headers, linkage table stubs,
 * AArch64; and files that have none or fail. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

#include "base/fault.h"
#include "elf/test_cfi.h"

/* ---- .debug_frame ------------------------------------------------------------------------------------------------------- */

static void test_debug_frame_fills_gaps(void **state)
{
	struct section eh, debug;
	section_init(&eh, false);
	section_init(&debug, true);
	put_cie(&eh);
	put_simple(&eh, 0x100, 0x100, 16);
	put_simple(&eh, 0x300, 0x100, 24);
	put_cie(&debug);
	put_simple(&debug, 0x000, 0x80, 32);  /* alone */
	put_simple(&debug, 0x100, 0x100, 40); /* the same function */
	put_simple(&debug, 0x180, 0x100, 48); /* begins in one */
	put_simple(&debug, 0x280, 0x100, 56); /* ends in one */
	put_simple(&debug, 0x400, 0x10, 64);
	struct test_cfi_file file = {.sections = {{.name = ".eh_frame", .data = buffer_bytes(&eh.data)},
						  {.name = ".debug_frame", .data = buffer_bytes(&debug.data)}},
				     .section_count = 2};
	check_file(&file, "both",
		   "0:r7+32,c-8,= 80:- 100:r7+16,c-8,= 200:- 280:r7+56,c-8,= 300:r7+24,c-8,= 400:r7+64,c-8,= 410:-", 0);
	buffer_release(&eh.data);
	buffer_release(&debug.data);
}

static void test_debug_frame_may_name_its_cie_before_it(void **state)
{
	struct section s;
	section_init(&s, true);
	s.cie = 4 + 4 + 16 + 2;
	put_simple(&s, 0, 0x10, 16);
	assert_int_equal(s.data.len, s.cie);
	put_cie(&s);
	check_section(&s, EM_X86_64, "forward", "0:r7+16,c-8,= 10:-", 0);
}

/*
 * A function that saves rax, which is where a landing pad gets it from, goes on there: the registers that it saved are not its
 * caller's any more from the last call but one on.
 *
 *   0 push %rbp; 1 mov %rsp,%rbp; 4 push %rbx; 5 push %rax; 6 call; b call; 10 call; 15 mov (%rbp),%rbp; 19 mov %rcx,%rsp;
 *   1c pop %rcx; 1d jmp *%rcx; 1f nop
 */
static void test_registers_of_a_landing_pad(void **state)
{
	static const char code[] =
		"\x55\x48\x89\xe5\x53\x50\xe8\0\0\0\0\xe8\0\0\0\0\xe8\0\0\0\0\x48\x8b\x6d\0\x48\x89\xcc\x59\xff\xe1"
		"\x90";
#define LANDING(saved)                                                                                                         \
	"\x41\x0e\x10\x86\2\x43\x0d\6\x42\x83\3" saved "\x53\x0a\x0c\2\x08\xc6\x43\x0c\7\x08\x41\x0e\0\x09\x10\2\x42\x0b"
	static const struct {
		const char *what;
		struct bytes program;
		const char *want;
	} cases[] = {
		{"rax is saved", BYTES(LANDING("\x80\4")),
		 "0:r7+8,c-8,= 1:r7+16,c-8,c-16 4:r6+16,c-8,c-16 6:r6+16,c-8,c-16,rbx-24 c:r6+16,c-8,x,rbx? 19:r2+8,c-8,= "
		 "1c:r7+8,c-8,= 1d:r7+0,r2,= 1f:r6+16,c-8,c-16,rbx-24 20:-"},
		{"rcx is", BYTES(LANDING("\x82\4")),
		 "0:r7+8,c-8,= 1:r7+16,c-8,c-16 4:r6+16,c-8,c-16 6:r6+16,c-8,c-16,rbx-24 19:r2+8,c-8,=,rbx-24 "
		 "1c:r7+8,c-8,=,rbx-24 "
		 "1d:r7+0,r2,=,rbx-24 1f:r6+16,c-8,c-16,rbx-24 20:-"},
	};
	for (size_t i = 0; i < COUNT(cases); i++) {
		struct section s;
		section_init(&s, false);
		put_cie(&s);
		put_fde(&s, 0, sizeof(code) - 1, cases[i].program);
		struct test_cfi_file file = {.sections = {{.name = ".eh_frame", .data = buffer_bytes(&s.data)}},
					     .section_count = 1,
					     .code = {(const uint8_t *)code, sizeof(code) - 1}};
		check_file(&file, cases[i].what, cases[i].want, 0);
		buffer_release(&s.data);
	}
}

enum packing { ZLIB, ZDEBUG, ZSTD };

static void pack(struct bytes from, enum packing packing, uint64_t size, struct buffer *out)
{
	uint8_t packed[4096];
	uLongf len = sizeof(packed);
	buffer_init(out, 1 << 20);
	if (packing == ZDEBUG) {
		test_cfi_put(out, "ZLIB", 4);
		test_cfi_put_int(out, __builtin_bswap64(size), 8);
	} else {
		test_cfi_put_int(out, packing == ZLIB ? ELFCOMPRESS_ZLIB : 2, 8);
		test_cfi_put_int(out, size, 8);
		test_cfi_put_int(out, 8, 8);
	}
	if (packing == ZSTD)
		len = ZSTD_compress(packed, sizeof(packed), from.data, from.len, 3);
	else
		assert_int_equal(compress(packed, &len, from.data, from.len), Z_OK);
	test_cfi_put(out, packed, len);
}

static struct test_cfi_file packed_file(enum packing packing, struct bytes data)
{
	return (struct test_cfi_file){.sections = {{.name = packing == ZDEBUG ? ".zdebug_frame" : ".debug_frame",
						    .data = data,
						    .flags = packing == ZDEBUG ? 0 : SHF_COMPRESSED}},
				      .section_count = 1};
}

static void test_inflates_debug_frame(void **state)
{
	struct section s;
	struct buffer packed;
	section_init(&s, true);
	put_cie(&s);
	put_fde(&s, 0, 0x100, BYTES("\x41\x0e\x10"));
	uint64_t size = s.data.len;
	for (enum packing packing = ZLIB; packing <= ZSTD; packing++) {
		pack(buffer_bytes(&s.data), packing, size, &packed);
		struct test_cfi_file file = packed_file(packing, buffer_bytes(&packed));
		check_file(&file, "inflated", START " 1:r7+16,c-8,= 100:-", 0);
		/* Cut anywhere it is one bad entry. */
		for (size_t len = 1; len < packed.len; len++) {
			file = packed_file(packing, (struct bytes){packed.data, len});
			check_file(&file, "cut", "", 1);
		}
		buffer_release(&packed);
		static const int64_t lies[] = {-1, 1, 100000};
		for (size_t i = 0; i < COUNT(lies); i++) {
			pack(buffer_bytes(&s.data), packing, size + (uint64_t)lies[i], &packed);
			file = packed_file(packing, buffer_bytes(&packed));
			check_file(&file, "wrong size", "", 1);
			buffer_release(&packed);
		}
		pack(buffer_bytes(&s.data), packing, CFI_SECTION_BYTES_MAX + 1, &packed);
		file = packed_file(packing, buffer_bytes(&packed));
		struct result result;
		read_file(&file, &result);
		assert_int_equal(result.status, -E2BIG);
		assert_non_null(strstr(result.err.message,
				       "has 536870913 bytes after decompression, more than the limit of 536870912"));
		buffer_release(&packed);
	}
	buffer_release(&s.data);
}

static void test_small_sections_do_not_become_large(void **state)
{
	struct buffer zeros, packed;
	buffer_init(&zeros, 1 << 20);
	while (zeros.len < 400000)
		test_cfi_put_int(&zeros, 0, 8);
	for (enum packing packing = ZLIB; packing <= ZSTD; packing++) {
		pack(buffer_bytes(&zeros), packing, zeros.len, &packed);
		assert_true(packed.len < 1000);
		struct test_cfi_file file = packed_file(packing, buffer_bytes(&packed));
		check_file(&file, "bomb", "", 1);
		buffer_release(&packed);
	}
	buffer_release(&zeros);
}

/* ---- without section headers -------------------------------------------------------------------------------------------- */

/* .eh_frame first, then its header, which test_cfi_build() puts at the next multiple of 8. */
static void check_headless(const struct section *frames, struct bytes header, const char *what, const char *want, uint64_t bad)
{
	struct test_cfi_file file = {
		.sections = {{.name = "a", .data = buffer_bytes(&frames->data)}, {.name = "b", .data = header}},
		.section_count = 2,
		.has_no_sections = true,
		.header_section = 2};
	check_file(&file, what, want, bad);
}

static uint64_t header_address(const struct section *frames)
{
	return (TEST_CFI_FIRST_ADDRESS + frames->data.len + 7) & ~7ull;
}

static void put_header(struct buffer *out, const struct section *frames, uint32_t count, const uint32_t (*table)[2])
{
	uint64_t at = header_address(frames);
	buffer_init(out, 1 << 16);
	test_cfi_put(out, "\1\x1b\3\x3b", 4);
	test_cfi_put_int(out, TEST_CFI_FIRST_ADDRESS - (at + 4), 4);
	test_cfi_put_int(out, count, 4);
	for (uint32_t i = 0; i < count && table; i++) {
		test_cfi_put_int(out, TEST_CFI_TEXT + table[i][0] - at, 4);
		test_cfi_put_int(out, TEST_CFI_FIRST_ADDRESS + table[i][1] - at, 4);
	}
}

static void test_finds_frames_through_their_header(void **state)
{
	struct section s;
	struct buffer header;
	static const char want[] = "10:r7+16,c-8,= 20:r7+32,c-8,= 30:-";
	section_init(&s, false);
	put_cie(&s);
	uint32_t second = (uint32_t)s.data.len;
	put_simple(&s, 0x20, 0x10, 32);
	uint32_t first = (uint32_t)s.data.len;
	put_simple(&s, 0x10, 0x10, 16);
	size_t end = s.data.len;
	uint32_t sound[][2] = {{0x10, first}, {0x20, second}}, descending[][2] = {{0x20, second}, {0x10, first}},
		 outside[][2] = {{0x10, first}, {0x20, 0x10000}};

	/* With a terminator the table does not matter. */
	test_cfi_put_int(&s.data, 0, 4);
	put_simple(&s, 0x40, 0x10, 64);
	test_cfi_put(&s.data, "garbage that is no entry", 24);
	put_header(&header, &s, 0, NULL);
	check_headless(&s, buffer_bytes(&header), "terminator", want, 0);
	for (size_t len = 8; len < 12; len++)
		check_headless(&s, (struct bytes){header.data, len}, "count cut off", want, 0);
	for (size_t len = 1; len < 8; len++)
		check_headless(&s, (struct bytes){header.data, len}, "address cut off", "", 1);
	buffer_release(&header);

	/* Without one the table says where the end is, or else the first damaged entry. Behind it is another good FDE, which is
	 * only read where nothing better is known. */
	s.data.len = end;
	put_simple(&s, 0x80, 0x10, 48);
	test_cfi_put(&s.data, "garbage that is no entry", 24);
	put_header(&header, &s, 2, sound);
	check_headless(&s, buffer_bytes(&header), "sound table", want, 0);
	static const char more[] = "10:r7+16,c-8,= 20:r7+32,c-8,= 30:- 80:r7+48,c-8,= 90:-";
	check_headless(&s, (struct bytes){header.data, header.len - 1}, "table cut off", more, 0);
	buffer_release(&header);
	put_header(&header, &s, 2, descending);
	check_headless(&s, buffer_bytes(&header), "descending table", more, 0);
	buffer_release(&header);
	put_header(&header, &s, 2, outside);
	check_headless(&s, buffer_bytes(&header), "table that points outside", more, 0);
	buffer_release(&header);
	put_header(&header, &s, UINT32_MAX, NULL);
	check_headless(&s, buffer_bytes(&header), "4 billion entries", more, 0);
	header.data[0] = 2;
	check_headless(&s, buffer_bytes(&header), "unknown version", "", 1);
	header.data[0] = 1;
	header.data[1] = 0xff;
	check_headless(&s, buffer_bytes(&header), "no address", "", 1);
	header.data[1] = 0x1b;
	header.data[7] = 0x40;
	check_headless(&s, buffer_bytes(&header), "address outside of the file", "", 1);
	buffer_release(&header);
	buffer_release(&s.data);
}

static void test_keeps_what_an_optimizer_moved(void **state)
{
	struct section now, before;
	section_init(&now, false);
	section_init(&before, false);
	put_cie(&now);
	put_simple(&now, 0x100, 0x10, 16);
	before.address = (now.address + now.data.len + 7) & ~7ull;
	put_cie(&before);
	put_simple(&before, 0x200, 0x10, 32);
	struct test_cfi_file file = {.sections = {{.name = ".eh_frame", .data = buffer_bytes(&now.data)},
						  {.name = ".bolt.org.eh_frame", .data = buffer_bytes(&before.data)}},
				     .section_count = 2};
	check_file(&file, "bolt", "100:r7+16,c-8,= 110:- 200:r7+32,c-8,= 210:-", 0);
	buffer_release(&now.data);
	buffer_release(&before.data);
}

/* ---- linkage tables ----------------------------------------------------------------------------------------------------- */

#define PUSH_GOT  "\xff\x35\1\2\3\4"
#define JUMP_GOT  "\xff\x25\1\2\3\4"
#define PUSH_IMM  "\x68\1\2\3\4"
#define JUMP_REL  "\xe9\1\2\3\4"
#define ENDBR64	  "\xf3\x0f\x1e\xfa"
#define NOP4	  "\x0f\x1f\x40\0"
#define NOP6	  "\x66\x0f\x1f\x44\0\0"
#define ALL_STUBS "0:r7+8,c-8,= "

static void check_stubs(uint16_t machine, const char *section, struct bytes code, const char *want)
{
	struct test_cfi_file file = {.machine = machine,
				     .sections = {{.name = section,
						   .data = code,
						   .address = TEST_CFI_TEXT,
						   .flags = SHF_EXECINSTR | SHF_ALLOC,
						   .entry_size = strcmp(section, ".plt.got") == 0 ? 8 : 16}},
				     .section_count = 1};
	check_file(&file, section, want, 0);
}

static void test_decodes_stubs(void **state)
{
	check_stubs(EM_X86_64, ".plt", BYTES(PUSH_GOT JUMP_GOT NOP4 JUMP_GOT PUSH_IMM JUMP_REL JUMP_GOT PUSH_IMM JUMP_REL),
		    "0:r7+16,c-8,= 6:r7+24,c-8,= 10:plt+8/11,c-8,= 30:-");
	check_stubs(EM_X86_64, ".plt", BYTES(PUSH_GOT "\xf2" JUMP_GOT "\x0f\x1f\0" ENDBR64 PUSH_IMM "\xf2" JUMP_REL "\x90"),
		    "0:r7+16,c-8,= 6:r7+24,c-8,= 10:plt+8/9,c-8,= 20:-");
	check_stubs(EM_X86_64, ".plt.sec", BYTES(ENDBR64 JUMP_GOT NOP6 ENDBR64 "\xf2" JUMP_GOT "\x0f\x1f\x44\0\0"),
		    ALL_STUBS "20:-");
	check_stubs(EM_X86_64, ".plt.got", BYTES(JUMP_GOT "\x66\x90" JUMP_GOT "\x66\x90" JUMP_GOT "\x66\x90"),
		    ALL_STUBS "18:-");
	/* Static programs: pairs of 8 bytes, an odd number of them. */
	check_stubs(EM_X86_64, ".plt", BYTES(JUMP_GOT "\x66\x90" JUMP_GOT "\x66\x90" JUMP_GOT "\x66\x90"), ALL_STUBS "18:-");
	check_stubs(EM_X86_64, ".iplt", BYTES(ENDBR64 JUMP_GOT NOP6), ALL_STUBS "10:-");
	/* mold: the head has two chunks and pushes two words. */
	check_stubs(EM_X86_64, ".plt",
		    BYTES(ENDBR64 "\x41\x53" PUSH_GOT JUMP_GOT
				  "\xcc\xcc\xcc\xcc\xcc\xcc\xcc\xcc\xcc\xcc\xcc\xcc\xcc\xcc" ENDBR64
				  "\x41\xbb\1\0\0\0" JUMP_GOT),
		    "0:r7+8,c-8,= 6:r7+16,c-8,= c:r7+24,c-8,= 20:r7+8,c-8,= 30:-");
	/* Lazy TLS descriptors, retpolines, ordinary code. */
	check_stubs(EM_X86_64, ".plt", BYTES(JUMP_GOT PUSH_IMM JUMP_REL ENDBR64 PUSH_GOT JUMP_GOT), "0:plt+8/11,c-8,= 10:-");
	check_stubs(EM_X86_64, ".plt", BYTES("\x4c\x8b\x1d\1\2\3\4\xe8\1\2\3\4\x90\x90\x90\x90"), "");
	check_stubs(EM_X86_64, ".plt", BYTES("\x66" PUSH_IMM JUMP_REL "\x90\x90\x90\x90\x90"), "");
	check_stubs(EM_X86_64, ".plt", BYTES("\x90\x90\x90\x90\x90\x90\x90\x90"), "");
	check_stubs(EM_X86_64, ".text", BYTES(JUMP_GOT PUSH_IMM JUMP_REL), "");
}

static void test_stubs_give_way_to_frames(void **state)
{
	struct section s;
	section_init(&s, false);
	put_cie(&s);
	put_simple(&s, 0, 0x10, 64);
	struct test_cfi_file file = {.sections = {{.name = ".eh_frame", .data = buffer_bytes(&s.data)},
						  {.name = ".plt",
						   .data = BYTES(JUMP_GOT PUSH_IMM JUMP_REL JUMP_GOT "\x66\x90"),
						   .address = TEST_CFI_TEXT,
						   .flags = SHF_EXECINSTR}},
				     .section_count = 2};
	check_file(&file, "stubs", "0:r7+64,c-8,= 10:r7+8,c-8,= 18:-", 0);
	buffer_release(&s.data);
}

/* ---- AArch64 ------------------------------------------------------------------------------------------------------------ */

static void check_aarch64(struct bytes cie, struct bytes program, const char *what, const char *want)
{
	check_fde(EM_AARCH64, cie, program, what, want);
}

static void test_reads_aarch64(void **state)
{
	struct bytes cie = BYTES("\1zR\0\4\x78\x1e\1\x1b\x0c\x1f\0");
	check_aarch64(cie, BYTES("\x41\x0e\x20\x9d\4\x9e\3\x41\x0d\x1d\x42\xde\xdd\x0c\x1f\0"), "prologue and epilogue",
		      "0:r31+0,=,= 4:r31+32,c-24,c-32 8:r29+32,c-24,c-32 10:r31+0,=,= 100:-");
	check_aarch64(cie, BYTES("\x41\x2d\x0e\x10\x9e\2"), "signed return address", "0:r31+0,=,= 4:r31+16,c-16,= 100:-");
	check_aarch64(cie, BYTES("\x41\x2c\x0e\x10"), "signed with the program counter", "0:r31+0,=,= 4:r31+16,=,= 100:-");
	check_aarch64(cie, BYTES("\x41\x9\x1e\x11"), "return address in x17", "0:r31+0,=,= 4:r31+0,r17,= 100:-");
	check_aarch64(cie, BYTES("\x41\7\x1e"), "outermost", "0:r31+0,=,= 4:$ 100:-");
	check_aarch64(cie, BYTES("\x0f\x0a\x8f\0\x11\x10\x92\x2e\0\x1e\x22\x96"), "scaled by the vector length", "0:? 100:-");
	check_aarch64(BYTES("\3zR\0\1\x78\x11\1\x1b\x0c\x1f\0"), BYTES(""), "another column", "0:r31+0,r17,= 100:-");
	check_aarch64(BYTES("\1zRS\0\4\x78\x1e\1\x1b\x0c\x1d\0"), BYTES("\x9d\0\x9e\x7f"), "signal", "0:! 100:-");
}

static void test_decodes_aarch64_stubs(void **state)
{
	static const uint32_t code[] = {0xa9bf7bf0, 0x90000110, 0xf947fe11, 0x913fe210, 0xd61f0220, 0xd503201f,
					0xd503201f, 0xd503201f, 0x90000110, 0xf9400211, 0x91000210, 0xd61f0220};
	static const uint32_t bti[] = {0xd503245f, 0x90000110, 0xf9400211, 0x91000210, 0xd61f0220, 0xd503201f};
	static const uint32_t other[] = {0x90000110, 0xf9400211, 0x91000210, 0xd61f0220, 0xd10043ff};
	check_stubs(EM_AARCH64, ".plt", (struct bytes){(const uint8_t *)code, sizeof(code)},
		    "0:r31+0,=,= 4:r31+16,c-8,= 14:r31+0,=,= 30:-");
	check_stubs(EM_AARCH64, ".plt", (struct bytes){(const uint8_t *)bti, sizeof(bti)}, "0:r31+0,=,= 18:-");
	check_stubs(EM_AARCH64, ".plt", (struct bytes){(const uint8_t *)other, sizeof(other)}, "");
}

/* ---- errors ------------------------------------------------------------------------------------------------------------- */

static void test_refuses_other_files(void **state)
{
	struct result result;
	struct test_cfi_file file = {.machine = EM_RISCV};
	read_file(&file, &result);
	assert_int_equal(result.status, -ENOTSUP);
	assert_string_equal(result.err.message, "test: call frame information is supported for x86-64 and AArch64 only");
	assert_int_equal(result.stats.rows, 7); /* untouched */
	file = (struct test_cfi_file){.type = ET_REL};
	check_file(&file, "object", "", 0);
	file = (struct test_cfi_file){0};
	check_file(&file, "nothing", "", 0);
	Elf32_Ehdr header = {.e_ident = {0x7f, 'E', 'L', 'F', ELFCLASS32, ELFDATA2LSB, EV_CURRENT}, .e_machine = EM_X86_64};
	read_bytes((struct bytes){(const uint8_t *)&header, sizeof(header)}, &result);
	assert_int_equal(result.status, -ENOTSUP);
}

static void test_section_outside_of_the_file(void **state)
{
	struct section s;
	struct buffer bytes;
	struct result result;
	section_init(&s, false);
	put_cie(&s);
	put_simple(&s, 0, 0x10, 16);
	struct test_cfi_file file = {.sections = {{.name = ".eh_frame", .data = buffer_bytes(&s.data)}}, .section_count = 1};
	buffer_init(&bytes, 1 << 20);
	test_cfi_build(&file, &bytes);
	uint64_t headers;
	memcpy(&headers, bytes.data + offsetof(Elf64_Ehdr, e_shoff), 8);
	uint64_t *size = (uint64_t *)(bytes.data + headers + sizeof(Elf64_Shdr) + offsetof(Elf64_Shdr, sh_size));
	*size = 1ull << 40;
	read_bytes(buffer_bytes(&bytes), &result);
	assert_int_equal(result.status, -EBADMSG);
	assert_string_equal(result.err.message, "test: damaged ELF file: .eh_frame reaches beyond its end");
	/* Not in the file at all: as a file of debug information has it. */
	*size = s.data.len;
	((Elf64_Shdr *)(bytes.data + headers))[1].sh_type = SHT_NOBITS;
	read_bytes(buffer_bytes(&bytes), &result);
	check_result(&result, "nobits", "", 0);
	buffer_release(&bytes);
	buffer_release(&s.data);
}

static int refuse(void *context, uint64_t address, const struct unwind_rule *rule)
{
	unsigned *left = context;
	return (*left)-- == 0 ? -EINTR : 1; /* positive: no error */
}

static void test_callback_ends_the_reading(void **state)
{
	struct section s;
	struct buffer bytes;
	struct elf_file elf;
	section_init(&s, false);
	put_cie(&s);
	put_simple(&s, 0, 0x10, 16);
	put_simple(&s, 0x20, 0x10, 16);
	struct test_cfi_file file = {.sections = {{.name = ".eh_frame", .data = buffer_bytes(&s.data)}}, .section_count = 1};
	buffer_init(&bytes, 1 << 20);
	test_cfi_build(&file, &bytes);
	assert_int_equal(elf_file_open_memory(&elf, buffer_bytes(&bytes), "test", NULL), 0);
	for (unsigned i = 0; i <= 4; i++) {
		unsigned left = i;
		assert_int_equal(cfi_read(&elf, refuse, &left, NULL, NULL), i < 4 ? -EINTR : 0);
	}
	elf_file_release(&elf);
	buffer_release(&bytes);
	buffer_release(&s.data);
}

/* A file with all that allocates: two sources, one of them inflated, out of order, with stubs. */
static void build_everything(struct buffer *out)
{
	struct section eh, debug;
	struct buffer packed;
	section_init(&eh, false);
	section_init(&debug, true);
	put_cie(&eh);
	put_simple(&eh, 0x200, 0x10, 16);
	put_simple(&eh, 0x100, 0x10, 24);
	put_cie(&debug);
	put_simple(&debug, 0x400, 0x10, 32);
	put_simple(&debug, 0x150, 0x10, 40);
	pack(buffer_bytes(&debug.data), ZLIB, debug.data.len, &packed);
	struct test_cfi_file file = {
		.sections = {{.name = ".eh_frame", .data = buffer_bytes(&eh.data)},
			     {.name = ".debug_frame", .data = buffer_bytes(&packed), .flags = SHF_COMPRESSED},
			     {.name = ".plt",
			      .data = BYTES(JUMP_GOT "\x66\x90"),
			      .address = TEST_CFI_TEXT,
			      .flags = SHF_EXECINSTR}},
		.section_count = 3};
	buffer_init(out, 1 << 20);
	test_cfi_build(&file, out);
	buffer_release(&packed);
	buffer_release(&eh.data);
	buffer_release(&debug.data);
}

static int count_row(void *context, uint64_t address, const struct unwind_rule *rule)
{
	(*(unsigned *)context)++;
	return 0;
}

static int read_descriptor(int fd, unsigned *ret_rows, struct error *err)
{
	struct elf_file file;
	*ret_rows = 0;
	int r = elf_file_open(&file, fd, "test", err);
	if (r < 0)
		return r;
	r = cfi_read(&file, count_row, ret_rows, NULL, err);
	elf_file_release(&file);
	return r;
}

static void test_every_fault_is_told(void **state)
{
	struct buffer bytes;
	unsigned rows, reached[2] = {0};
	build_everything(&bytes);
	int fd = memfd_create("test", MFD_CLOEXEC);
	assert_int_equal(write(fd, bytes.data, bytes.len), bytes.len);
	static const enum fault_kind kinds[] = {FAULT_ALLOC, FAULT_READ};
	for (size_t k = 0; k < COUNT(kinds); k++) {
		for (uint64_t n = 1;; n++) {
			struct error err = {0};
			fault_arm(kinds[k], n, 0);
			int r = read_descriptor(fd, &rows, &err);
			if (!fault_disarm(kinds[k])) {
				assert_int_equal(r, 0);
				assert_int_equal(rows, 10);
				break;
			}
			assert_int_equal(r, kinds[k] == FAULT_ALLOC ? -ENOMEM : -EIO);
			assert_int_equal(err.code, r);
			assert_true(err.message[0] != 0);
			reached[k]++;
		}
	}
	assert_true(reached[0] >= 8 && reached[1] >= 6);
	close(fd);
	buffer_release(&bytes);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_debug_frame_fills_gaps),
		cmocka_unit_test(test_registers_of_a_landing_pad),
		cmocka_unit_test(test_debug_frame_may_name_its_cie_before_it),
		cmocka_unit_test(test_inflates_debug_frame),
		cmocka_unit_test(test_small_sections_do_not_become_large),
		cmocka_unit_test(test_finds_frames_through_their_header),
		cmocka_unit_test(test_keeps_what_an_optimizer_moved),
		cmocka_unit_test(test_decodes_stubs),
		cmocka_unit_test(test_stubs_give_way_to_frames),
		cmocka_unit_test(test_reads_aarch64),
		cmocka_unit_test(test_decodes_aarch64_stubs),
		cmocka_unit_test(test_refuses_other_files),
		cmocka_unit_test(test_section_outside_of_the_file),
		cmocka_unit_test(test_callback_ends_the_reading),
		cmocka_unit_test(test_every_fault_is_told),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
