// SPDX-License-Identifier: Apache-2.0
/* Rules for code without call frame information: small functions byte by byte, and libraries whose own information is hidden
 * and then compared with. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/time.h"
#include "elf/cfi.h"

#define TEXT_OFFSET 4096

struct row {
	uint64_t address;
	struct unwind_rule rule;
};
struct rows {
	struct row *items;
	size_t count, capacity;
};

static int take_row(void *context, uint64_t address, const struct unwind_rule *rule)
{
	struct rows *rows = context;
	assert_true(rows->count == 0 || address > rows->items[rows->count - 1].address);
	assert_int_equal(array_reserve(&rows->items, &rows->capacity, rows->count + 1, SIZE_MAX / 64), 0);
	rows->items[rows->count++] = (struct row){address, *rule};
	return 0;
}

static struct unwind_rule rule_at(const struct rows *rows, uint64_t address)
{
	size_t low = 0, high = rows->count;
	while (low < high) {
		size_t middle = (low + high) / 2;
		if (rows->items[middle].address <= address)
			low = middle + 1;
		else
			high = middle;
	}
	return low ? rows->items[low - 1].rule : (struct unwind_rule){0};
}

static Elf64_Phdr text_segment(size_t len)
{
	return (Elf64_Phdr){.p_type = PT_LOAD,
			    .p_flags = PF_R | PF_X,
			    .p_offset = TEXT_OFFSET,
			    .p_vaddr = TEXT_OFFSET,
			    .p_filesz = len,
			    .p_memsz = len,
			    .p_align = 4096};
}

/* A file with one executed segment and nothing else. */
static void read_code(const uint8_t *code, size_t len, struct rows *ret)
{
	uint8_t *image = mem_zalloc(TEXT_OFFSET + len);
	Elf64_Ehdr header = {.e_type = ET_DYN,
			     .e_machine = EM_X86_64,
			     .e_version = EV_CURRENT,
			     .e_entry = TEXT_OFFSET,
			     .e_phoff = sizeof(Elf64_Ehdr),
			     .e_ehsize = sizeof(Elf64_Ehdr),
			     .e_phentsize = sizeof(Elf64_Phdr),
			     .e_phnum = 1};
	Elf64_Phdr segment = text_segment(len);
	struct elf_file file;
	memcpy(header.e_ident, ELFMAG "\2\1\1", 7);
	memcpy(image, &header, sizeof(header));
	memcpy(image + sizeof(header), &segment, sizeof(segment));
	memcpy(image + TEXT_OFFSET, code, len);
	assert_int_equal(elf_file_open_memory(&file, (struct bytes){image, TEXT_OFFSET + len}, "test", NULL), 0);
	struct rows listed = {0};
	struct cfi_stats stats;
	*ret = (struct rows){0};
	assert_int_equal(cfi_read(&file, take_row, ret, NULL, NULL), 0);
	assert_int_equal(cfi_read_listed(&file, take_row, &listed, &stats, NULL), 0);
	assert_true(stats.code_bytes == len); /* no more is known of any of it */
	for (size_t i = 0; i < listed.count; i++)
		assert_int_equal(listed.items[i].rule.cfa, UNWIND_CFA_NONE);
	elf_file_release(&file);
	mem_free(image);
}

/* "OFFSET:rREGISTER+OFFSET[,fp-OFFSET][,rbx-OFFSET]" for each row; "-" = none, "$" = the end. */
static void check(const char *what, const uint8_t *code, size_t len, const char *want)
{
	char got[4096] = "";
	struct rows rows;
	read_code(code, len, &rows);
	for (size_t i = 0; i < rows.count; i++) {
		const struct unwind_rule *r = &rows.items[i].rule;
		size_t at = strlen(got);
		int n = snprintf(got + at, sizeof(got) - at, "%s%x:", at ? " " : "",
				 (unsigned)(rows.items[i].address - TEXT_OFFSET));
		at += (size_t)n;
		if (r->cfa == UNWIND_CFA_NONE || r->cfa == UNWIND_CFA_END) {
			snprintf(got + at, sizeof(got) - at, "%s", r->cfa ? "$" : "-");
			continue;
		}
		assert_int_equal(r->cfa, UNWIND_CFA_REGISTER | UNWIND_RULE_ANALYSED);
		assert_int_equal(r->ra, UNWIND_WHERE_CFA);
		assert_int_equal(r->ra_offset, -8);
		at += (size_t)snprintf(got + at, sizeof(got) - at, "r%u%+d", r->cfa_register, r->offset);
		if (r->fp == UNWIND_WHERE_CFA)
			at += (size_t)snprintf(got + at, sizeof(got) - at, ",fp%+d", r->fp_offset);
		else if (r->fp == UNWIND_WHERE_LOST)
			at += (size_t)snprintf(got + at, sizeof(got) - at, ",fp?");
		if (r->offset2 == UNWIND_RBX_LOST)
			snprintf(got + at, sizeof(got) - at, ",rbx?");
		else if (r->offset2)
			snprintf(got + at, sizeof(got) - at, ",rbx%+d", r->offset2);
	}
	mem_free(rows.items);
	if (strcmp(got, want) != 0)
		fail_msg("%s\n  got  %s\n  want %s", what, got, want);
}
#define CHECK(what, code, want) check(what, (const uint8_t *)(code), sizeof(code) - 1, want)

static void test_functions(void **state)
{
	(void)state;
	CHECK("a leaf", "\x48\x89\xf8\xc3", "0:r7+8 4:-");
	CHECK("push, pop", "\x55\x53\x31\xc0\x5b\x5d\xc3",
	      "0:r7+8 1:r7+16,fp-16 2:r7+24,fp-16,rbx-24 5:r7+16,fp-16 6:r7+8 7:-");
	CHECK("a frame pointer", "\x55\x48\x89\xe5\x48\x83\xec\x20\x90\xc9\xc3",
	      "0:r7+8 1:r7+16,fp-16 8:r7+48,fp-16 a:r7+8 b:-");
	CHECK("enter and leave", "\xc8\x20\0\0\x53\x90\x5b\xc9\xc3",
	      "0:r7+8 4:r7+48,fp-16 5:r7+56,fp-16,rbx-56 7:r7+48,fp-16 8:r7+8 9:-");
	CHECK("enter in the frame of another function", "\xc8\x20\0\1\x90\xc9\xc3", "0:r7+8 4:-");
	CHECK("a realigned stack", "\x55\x48\x89\xe5\x48\x83\xe4\xe0\x90\xc9\xc3",
	      "0:r7+8 1:r7+16,fp-16 8:r6+16,fp-16 a:r7+8 b:-");
	CHECK("a stack of any size", "\x55\x48\x89\xe5\x48\x29\xfc\x90\xc9\xc3",
	      "0:r7+8 1:r7+16,fp-16 7:r6+16,fp-16 9:r7+8 a:-");
	CHECK("a leaf that pushes, with a loop", "\x50\xff\xc8\x75\xfc\x58\xc3", "0:r7+8 1:r7+16 6:r7+8 7:-");
	CHECK("two ends", "\x50\x85\xff\x75\x03\x58\xc3\x90\x90\x58\xc3", "0:r7+8 1:r7+16 6:r7+8 7:- 8:r7+16 a:r7+8 b:-");
	CHECK("registers saved below sp",
	      "\x48\x89\x6c\x24\xf8\x48\x83\xec\x18\x31\xed\x48\x8b\x6c\x24\x10\x48\x83\xc4\x18\xc3",
	      "0:r7+8 5:r7+8,fp-16 9:r7+32,fp-16 10:r7+32 14:r7+8 15:-");
	CHECK("rbp is used and not saved", "\x89\xfd\xff\xc5\xc3", "0:r7+8 2:r7+8,fp? 5:-");
	CHECK("a switch", "\x53\xff\x24\xc5\0\0\0\0\x31\xc0\x5b\xc3\x31\xc9\x5b\xc3",
	      "0:r7+8 1:r7+16,rbx-16 b:r7+8 c:r7+16,rbx-16 f:r7+8 10:-");
	CHECK("where a program begins", "\x31\xed\x48\x89\xe7\xe8\0\0\0\0", "0:r7+8 2:$ a:-");
	CHECK("a switch of stacks", "\x55\x53\x48\x89\x27\x48\x89\xf4\x5b\x5d\xc3",
	      "0:r7+8 1:r7+16,fp-16 2:r7+24,fp-16,rbx-24 9:r7+16,fp-16 a:r7+8 b:-");
	CHECK("a call on another stack, which a frame pointer leads back from",
	      "\x55\x48\x89\xe5\x48\x89\xf8\x48\x89\xd4\xff\xd0\x48\x89\xec\x5d\xc3",
	      "0:r7+8 1:r7+16,fp-16 a:r6+16,fp-16 f:r7+16,fp-16 10:r7+8 11:-");
	CHECK("the same by rbx", "\x53\x48\x89\xe3\x48\x89\xf4\xff\xd7\x48\x89\xdc\x5b\xc3",
	      "0:r7+8 1:r7+16,rbx-16 7:r3+16,rbx-16 c:r7+16,rbx-16 d:r7+8 e:-");
	CHECK("the same by exchange", "\x53\x48\x89\xf3\x48\x87\xe3\xff\xd7\x48\x87\xe3\x5b\xc3",
	      "0:r7+8 1:r7+16,rbx-16 7:r3+16,rbx-16 c:r7+16,rbx-16 d:r7+8 e:-");
	/* clang's alloca(): mov %rsp,%rbx; sub %rax,%rbx; mov %rbx,%rsp ... lea -8(%rbp),%rsp */
	CHECK("room of any size, by another register",
	      "\x55\x48\x89\xe5\x53\x48\x89\xe3\x48\x29\xc3\x48\x89\xdc\x90\x48\x8d\x65\xf8\x5b\x5d\xc3",
	      "0:r7+8 1:r7+16,fp-16 5:r7+24,fp-16,rbx-24 e:r6+16,fp-16,rbx-24 13:r7+24,fp-16,rbx-24 14:r7+16,fp-16 15:r7+8 "
	      "16:-");
	CHECK("a function that does not return, and one behind it", "\x50\xe8\xfa\x0f\0\0\x55\x53\x5b\x5d\xc3",
	      "0:r7+8 1:r7+16 6:r7+8 7:r7+16,fp-16 8:r7+24,fp-16,rbx-24 9:r7+16,fp-16 a:r7+8 b:-");
}

/* What does not add up has no rule at all. */
static void test_what_is_not_believed(void **state)
{
	(void)state;
	CHECK("a return with something on the stack", "\x50\x90\xc3", "");
	CHECK("more taken off than put there", "\x58\x58\xc3", "");
	CHECK("two ways with different stacks", "\x85\xff\x75\x01\x50\x58\xc3", "");
	CHECK("longjmp", "\x48\x8b\x67\x30\x48\x8b\x57\x38\xff\xe2", "");
	CHECK("no instruction", "\x50\x06\x06\x06\x06\x06\x06\x06\x06\x06\x06\x06\x06\x06\x06\x06\x06\x06\x58\xc3", "");
}

/* ---- libraries ---- */

/* A copy without sections, and without the segment that leads to .eh_frame. */
static uint8_t *hide(const char *path, size_t *ret_len)
{
	struct stat status;
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &status) < 0)
		return NULL;
	*ret_len = (size_t)status.st_size;
	uint8_t *image = mem_alloc(*ret_len);
	assert_int_equal(read(fd, image, *ret_len), *ret_len);
	close(fd);
	Elf64_Ehdr *header = (Elf64_Ehdr *)image;
	header->e_shoff = header->e_shnum = header->e_shstrndx = 0;
	Elf64_Phdr *segments = (Elf64_Phdr *)(image + header->e_phoff);
	for (int i = 0; i < header->e_phnum; i++)
		if (segments[i].p_type == PT_GNU_EH_FRAME)
			segments[i].p_type = PT_NULL;
	return image;
}

/* C only: landing pads of C++, which nothing jumps to, do not exist without unwind information. Of all addresses in functions
 * that CFI speaks of: how many have a rule without it, and how many of these a wrong one. Rules that count from different
 * registers cannot be compared. */
static void compare(const char *path, double found_least, double wrong_most)
{
	struct rows known = {0}, found = {0};
	struct elf_file file;
	size_t len, all = 0, have = 0, wrong = 0, shown = 0;
	uint8_t *image = hide(path, &len);
	if (!image) {
		print_message("skipped: there is no %s\n", path);
		return;
	}
	assert_int_equal(elf_file_open_memory(&file, (struct bytes){image, len}, path, NULL), 0);
	assert_int_equal(cfi_read(&file, take_row, &found, NULL, NULL), 0);
	elf_file_release(&file);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	assert_int_equal(elf_file_open(&file, fd, path, NULL), 0);
	assert_int_equal(cfi_read(&file, take_row, &known, NULL, NULL), 0);
	elf_file_release(&file);
	close(fd);
	for (size_t i = 0; i + 1 < known.count; i++) {
		const struct unwind_rule *theirs = &known.items[i].rule;
		if (theirs->cfa != UNWIND_CFA_REGISTER)
			continue;
		for (uint64_t at = known.items[i].address; at < known.items[i + 1].address; at++) {
			struct unwind_rule ours = rule_at(&found, at);
			all++;
			have += ours.cfa != UNWIND_CFA_NONE;
			bool is_wrong = ours.cfa == UNWIND_CFA_END ||
					(ours.cfa == (UNWIND_CFA_REGISTER | UNWIND_RULE_ANALYSED) &&
					 ours.cfa_register == theirs->cfa_register && ours.offset != theirs->offset);
			if (is_wrong && getenv("WICK_TEST_VERBOSE") && shown++ < 40)
				print_message("%llx: cfa %u r%u%+d, not r%u%+d\n", (unsigned long long)at, ours.cfa,
					      ours.cfa_register, ours.offset, theirs->cfa_register, theirs->offset);
			wrong += is_wrong;
		}
	}
	print_message("%s: %.2f %% of %zu bytes of code have a rule, %.4f %% a wrong one\n", path,
		      100.0 * (double)have / (double)all, all, 100.0 * (double)wrong / (double)all);
	assert_true((double)have >= found_least * (double)all);
	assert_true((double)wrong <= wrong_most * (double)all);
	mem_free(known.items);
	mem_free(found.items);
	mem_free(image);
}

static void test_libraries_agree_with_their_cfi(void **state)
{
	(void)state;
	compare("/usr/lib/x86_64-linux-gnu/libc.so.6", 0.85, 0.001);
	compare("/usr/lib/x86_64-linux-gnu/libm.so.6", 0.8, 0.001);
	compare("/usr/lib/x86_64-linux-gnu/libsqlite3.so.0", 0.8, 0.001);
	compare("/usr/lib/x86_64-linux-gnu/libz.so.1", 0.8, 0.001);
	compare("/usr/lib/x86_64-linux-gnu/libelf.so.1", 0.8, 0.001);
}

static uint64_t seed = 1;
static uint8_t some_byte(void)
{
	seed = seed * 6364136223846793005u + 1442695040888963407u;
	return (uint8_t)(seed >> 56);
}

/* Whatever the code is, and however much of it: rows in order, in a bounded time. */
static void test_any_code(void **state)
{
	static const uint8_t often[] = {0x50, 0x58, 0xc3, 0xe8, 0xeb, 0x74, 0xff, 0x48, 0x90, 0x55, 0x5d, 0, 1, 2};
	size_t len = 1 << 19;
	uint8_t *code = mem_alloc(len);
	struct rows rows;
	(void)state;
	for (int round = 0; round < 3; round++) {
		for (size_t i = 0; i < len; i++)
			code[i] = round == 0 ? some_byte() : often[some_byte() % (round == 1 ? sizeof(often) : 6)];
		read_code(code, len, &rows);
		mem_free(rows.items);
	}
	mem_free(code);
}

/* ---- files that want to be slow ---- */

#define HOSTILE_SECTIONS 65000u
#define HOSTILE_FDES	 100000u
#define HOSTILE_SYMBOLS	 60000u
#define FRAMES_ADDRESS	 0x70000000u
#define GAP		 16u

struct image {
	uint8_t *bytes;
	size_t len;
};

static size_t put(struct image *image, const void *data, size_t len)
{
	size_t at = image->len;
	memcpy(image->bytes + at, data, len);
	image->len += len;
	return at;
}

/* FDEs of 16 bytes with gaps of 16 between them. */
static size_t put_frames(struct image *image)
{
	static const uint8_t cie[24] = {20, 0, 0, 0, 0, 0, 0, 0, 1, 'z', 'R', 0, 1, 0x78, 16, 1, 0, 0x0c, 7, 8, 0x90, 1, 0, 0};
	size_t start = put(image, cie, sizeof(cie));
	for (uint32_t i = 0; i < HOSTILE_FDES; i++) {
		uint8_t fde[32] = {28};
		uint32_t back = (uint32_t)(image->len - start) + 4;
		uint64_t range[2] = {TEXT_OFFSET + (uint64_t)i * 2 * GAP, GAP};
		memcpy(fde + 4, &back, sizeof(back));
		memcpy(fde + 8, range, sizeof(range));
		put(image, fde, sizeof(fde));
	}
	return start;
}

/* What becomes of the FDEs of a file while it is read. */
enum change { CHANGE_NOTHING, CHANGE_TO_ZEROS, CHANGE_LENGTHS };
struct changing {
	struct rows rows;
	enum change change;
	int fd;
	uint8_t *frames;
	size_t frames_at, frames_len;
};

static int take_row_and_change(void *context, uint64_t address, const struct unwind_rule *rule)
{
	struct changing *changing = context;
	for (size_t at = 24; changing->change == CHANGE_LENGTHS && at + 32 <= changing->frames_len; at += 32) {
		uint32_t len = (uint32_t)(changing->frames_len - at - 4); /* to the end of the section */
		memcpy(changing->frames + at, &len, sizeof(len));
	}
	if (changing->change == CHANGE_TO_ZEROS)
		memset(changing->frames, 0, changing->frames_len);
	if (changing->change != CHANGE_NOTHING)
		assert_int_equal(pwrite(changing->fd, changing->frames, changing->frames_len, (off_t)changing->frames_at),
				 (ssize_t)changing->frames_len);
	changing->change = CHANGE_NOTHING;
	return take_row(&changing->rows, address, rule);
}

/* All sections but .eh_frame are the same one. Returns the CPU time of reading its rows. */
static int64_t read_hostile(const Elf64_Shdr *section, enum change change)
{
	static const char names[] = "\0.eh_frame";
	size_t text = 2 * GAP * (size_t)HOSTILE_FDES;
	struct image image = {mem_zalloc(TEXT_OFFSET + text + 32 * (HOSTILE_FDES + 2) + HOSTILE_SYMBOLS * sizeof(Elf64_Sym) +
					 HOSTILE_SECTIONS * sizeof(Elf64_Shdr)),
			      TEXT_OFFSET + text};
	memset(image.bytes + TEXT_OFFSET, 0x90, text);
	size_t symbols = image.len;
	for (size_t i = 0; i < HOSTILE_SYMBOLS; i++) {
		Elf64_Sym symbol = {.st_info = ELF64_ST_INFO(STB_GLOBAL, STT_FUNC), .st_shndx = 1, .st_value = TEXT_OFFSET};
		put(&image, &symbol, sizeof(symbol));
	}
	size_t frames = put_frames(&image), frames_len = image.len - frames, names_at = put(&image, names, sizeof(names));
	size_t sections = image.len;
	for (size_t i = 0; i < HOSTILE_SECTIONS; i++) {
		Elf64_Shdr header = *section;
		header.sh_offset = symbols;
		if (i == 1)
			header = (Elf64_Shdr){.sh_name = 1,
					      .sh_type = SHT_PROGBITS,
					      .sh_addr = FRAMES_ADDRESS,
					      .sh_offset = frames,
					      .sh_size = frames_len};
		if (i == 2)
			header = (Elf64_Shdr){.sh_type = SHT_STRTAB, .sh_offset = names_at, .sh_size = sizeof(names)};
		put(&image, &header, sizeof(header));
	}
	Elf64_Ehdr header = {.e_ident = ELFMAG "\2\1\1",
			     .e_type = ET_DYN,
			     .e_machine = EM_X86_64,
			     .e_phoff = sizeof(Elf64_Ehdr),
			     .e_phentsize = sizeof(Elf64_Phdr),
			     .e_phnum = 1,
			     .e_shoff = sections,
			     .e_shentsize = sizeof(Elf64_Shdr),
			     .e_shnum = HOSTILE_SECTIONS,
			     .e_shstrndx = 2};
	Elf64_Phdr segment = text_segment(text);
	memcpy(image.bytes, &header, sizeof(header));
	memcpy(image.bytes + sizeof(header), &segment, sizeof(segment));
	struct elf_file file;
	struct changing changing = {.change = change,
				    .fd = memfd_create("hostile", MFD_CLOEXEC),
				    .frames = image.bytes + frames,
				    .frames_at = frames,
				    .frames_len = frames_len};
	assert_int_equal(write(changing.fd, image.bytes, image.len), (ssize_t)image.len);
	assert_int_equal(elf_file_open(&file, changing.fd, "hostile", NULL), 0);
	int64_t start = time_thread_cpu_ns();
	assert_int_equal(cfi_read(&file, take_row_and_change, &changing, NULL, NULL), 0);
	int64_t took = time_thread_cpu_ns() - start;
	assert_true(change != CHANGE_NOTHING || changing.rows.count > HOSTILE_FDES);
	elf_file_release(&file);
	close(changing.fd);
	mem_free(changing.rows.items);
	mem_free(image.bytes);
	return took;
}

/* As many sections as a file can have, each of them looked at for each gap between FDEs, or each a table of symbols. */
static void test_many_sections_cost_little(void **state)
{
	Elf64_Shdr code = {.sh_type = SHT_PROGBITS, .sh_flags = SHF_EXECINSTR, .sh_addr = FRAMES_ADDRESS, .sh_size = 64};
	Elf64_Shdr table = {.sh_type = SHT_SYMTAB, .sh_size = HOSTILE_SYMBOLS * sizeof(Elf64_Sym)};
	(void)state;
	assert_true(read_hostile(&code, CHANGE_NOTHING) < 2 * NS_PER_S);
	assert_true(read_hostile(&table, CHANGE_NOTHING) < 2 * NS_PER_S);
}

/* Each FDE is read again when it is run. If all begin with padding by then, or reach to the end of the section, the whole
 * section must not be read for each. */
static void test_a_file_that_changes_costs_little(void **state)
{
	Elf64_Shdr nothing = {.sh_type = SHT_NULL};
	(void)state;
	assert_true(read_hostile(&nothing, CHANGE_TO_ZEROS) < 2 * NS_PER_S);
	assert_true(read_hostile(&nothing, CHANGE_LENGTHS) < 2 * NS_PER_S);
}

/* A function with as many calls before padding as there can be, then code that is no function's, each piece of which may belong
 * to any of these calls. */
static void test_pieces_that_may_belong_to_many(void **state)
{
	static const uint8_t call[] = {0x75, 3, 0xff, 0xd0, 0x90}, end[] = {0x58, 0xc3};
	size_t len = 2 << 20, block = 16384;
	uint8_t *code = mem_alloc(len);
	struct rows rows;
	(void)state;
	for (size_t at = 0; at < len; at += block) {
		uint8_t *out = code + at, *calls_end = out + block / 2;
		*out++ = 0x50;
		for (; out + sizeof(call) + sizeof(end) <= calls_end; out += sizeof(call))
			memcpy(out, call, sizeof(call));
		memcpy(out, end, sizeof(end));
		for (out += sizeof(end); out < code + at + block; out++)
			*out = (code + at + block - out) & 1 ? 0xc3 : 0x06;
	}
	int64_t start = time_thread_cpu_ns();
	read_code(code, len, &rows);
	assert_true(time_thread_cpu_ns() - start < 3 * NS_PER_S);
	mem_free(rows.items);
	mem_free(code);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_functions),
		cmocka_unit_test(test_what_is_not_believed),
		cmocka_unit_test(test_libraries_agree_with_their_cfi),
		cmocka_unit_test(test_any_code),
		cmocka_unit_test(test_many_sections_cost_little),
		cmocka_unit_test(test_a_file_that_changes_costs_little),
		cmocka_unit_test(test_pieces_that_may_belong_to_many),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
