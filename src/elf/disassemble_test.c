/* SPDX-License-Identifier: Apache-2.0 */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/limits.h"
#include "base/test_faults.h"
#include "base/test_programs.h"
#include "elf/disassemble.h"
#include "elf/elf_file.h"

static void check(uint16_t machine, bool att, const char *code, size_t len, const char *expected)
{
	struct disassemble_options options = {.machine = machine, .att = att, .address = 0x1000, .name = "f"};
	_cleanup_(disassembly_release) struct disassembly d = {0};
	_cleanup_(buffer_release) struct buffer all = {0};
	buffer_init(&all, MIB);
	assert_int_equal(disassemble((struct bytes){(const uint8_t *)code, len}, &options, &d, NULL), 0);
	size_t at = 0;
	for (size_t i = 0; i < d.count; i++) {
		assert_int_equal(d.items[i].offset, at);
		assert_int_equal(d.items[i].address, 0x1000 + at);
		at += d.items[i].size;
		assert_int_equal(buffer_printf(&all, "%s%s", i ? "; " : "", disassembly_text(&d, i)), 0);
	}
	assert_int_equal(at, len);
	assert_string_equal(buffer_string(&all) ? buffer_string(&all) : "", expected);
}
#define CHECK(machine, att, code, expected) check(machine, att, code, sizeof(code) - 1, expected)

static void test_machines(void **state)
{
	CHECK(EM_X86_64, false, "\x48\x89\xc3\xc3", "mov rbx, rax; ret");
	CHECK(EM_X86_64, true, "\x48\x89\xc3\xc3", "movq %rax, %rbx; retq");
	CHECK(EM_386, false, "\x40\xc3", "inc eax; ret");
	CHECK(EM_AARCH64, false, "\xe0\x03\x01\xaa\xc0\x03\x5f\xd6", "mov x0, x1; ret");
	CHECK(EM_ARM, false, "\x01\x00\xa0\xe1\x1e\xff\x2f\xe1", "mov r0, r1; bx lr");
	CHECK(EM_X86_64, false, "", "");
}

static void test_branches(void **state)
{
	CHECK(EM_X86_64, false, "\x90\xeb\xfd\x75\x00\xe8\x00\x10\x00\x00",
	      "nop; jmp 0x1000 <f>; jne 0x1005 <f+0x5>; call 0x200a");
	CHECK(EM_X86_64, true, "\x90\xeb\xfd", "nop; jmp 0x1000 <f>");
	/* Numbers that are no targets. */
	CHECK(EM_X86_64, false, "\xb8\x00\x10\x00\x00\xff\x24\x25\x00\x10\x00\x00", "mov eax, 0x1000; jmp qword ptr [0x1000]");
	CHECK(EM_AARCH64, false, "\x1f\x20\x03\xd5\xff\xff\xff\x17\xe0\xff\xff\xb4",
	      "nop; b #0x1000 <f>; cbz x0, #0x1004 <f+0x4>");
}

static void fill_branches(uint8_t *code, size_t len)
{
	for (size_t i = 0; i < len; i++)
		code[i] = i % 2 ? 0xfe : 0xeb; /* each jumps to itself */
}

/* A branch in every other byte, in a function whose name is as long as names get. */
static void test_long_names(void **state)
{
	static uint8_t code[DISASSEMBLE_BYTES_MAX];
	static char name[16 * KIB];
	struct disassemble_options options = {.machine = EM_X86_64, .address = 0x1000, .name = name};
	struct disassembly d;
	struct error err = {0};
	memset(name, 'n', sizeof(name) - 1);
	memcpy(name + 119, "\xc3\xa4", 2); /* is not cut in two */
	fill_branches(code, sizeof(code));
	assert_int_equal(disassemble((struct bytes){code, 16 * KIB}, &options, &d, NULL), 0);
	assert_int_equal(d.count, 8 * KIB);
	assert_true(d.text.len < d.count * 200);
	char expected[160];
	snprintf(expected, sizeof(expected), "jmp 0x1002 <%.119s...+0x2>", name);
	assert_string_equal(disassembly_text(&d, 1), expected);
	disassembly_release(&d);
	assert_int_equal(disassemble((struct bytes){code, sizeof(code)}, &options, &d, &err), -E2BIG);
	assert_string_equal(err.message, "the disassembly of 1048576 bytes of code is longer than the limit of 64 MiB");
	assert_int_equal(d.count, 0);
	assert_null(d.text.data);
}

static void test_invalid_bytes(void **state)
{
	CHECK(EM_X86_64, false, "\x06\x90\x48", ".byte 0x06; nop; .byte 0x48");
	CHECK(EM_AARCH64, false, "\xff\xff\xff\xff\xc0\x03\x5f\xd6\x01", ".byte 0xff, 0xff, 0xff, 0xff; ret; .byte 0x01");
}

static void test_refusals(void **state)
{
	static uint8_t large[DISASSEMBLE_BYTES_MAX + 1];
	struct disassemble_options options = {.machine = EM_X86_64};
	struct disassembly d;
	struct error err = {0};
	assert_int_equal(disassemble((struct bytes){large, sizeof(large)}, &options, &d, &err), -E2BIG);
	options.machine = EM_RISCV;
	assert_int_equal(disassemble((struct bytes){large, 4}, &options, &d, &err), -ENOTSUP);
	assert_int_equal(d.count, 0);
}

static int disassemble_some(void *context)
{
	static const uint8_t code[] = {0x90, 0x90, 0x06, 0xc3, 0xeb, 0xfa};
	struct disassemble_options options = {.machine = EM_X86_64, .name = "f"};
	struct disassembly d;
	int r = disassemble((struct bytes){code, sizeof(code)}, &options, &d, NULL);
	assert_int_equal(d.count, r < 0 ? 0 : 5);
	disassembly_release(&d);
	return r;
}

static void test_faults(void **state)
{
	test_each_allocation(disassemble_some, NULL);
}

/* ---- beside objdump ---- */

#define ORACLE_BYTES (96u * 1024)

struct oracle_line {
	uint64_t address;
	unsigned size;
	char mnemonic[24];
};

/* "  401000:\tf3 0f 1e fa          \tendbr64", or LLVM's "  401000: d10043ff     \tsub\tsp, sp, #16" */
static bool parse_line(char *line, struct oracle_line *ret)
{
	char *end, *colon = strchr(line, ':'), *bytes = colon && colon[1] ? colon + 1 : NULL;
	char *text = bytes ? strchr(bytes + 1, '\t') : NULL;
	*ret = (struct oracle_line){.address = strtoull(line, &end, 16)};
	if (*end != ':' || !bytes || !text)
		return false;
	for (char *at = bytes + 1; at < text; at += strspn(at, " ")) {
		size_t digits = strspn(at, "0123456789abcdef");
		if (digits == 0)
			break;
		ret->size += (unsigned)digits / 2;
		at += digits;
	}
	snprintf(ret->mnemonic, sizeof(ret->mnemonic), "%.*s", (int)strcspn(text + 1, " \t\n"), text + 1);
	return true;
}

static size_t ask_objdump(const char *command, struct oracle_line **ret)
{
	static struct oracle_line lines[ORACLE_BYTES];
	char line[512];
	size_t count = 0;
	FILE *pipe = popen(command, "r");
	assert_non_null(pipe);
	while (fgets(line, sizeof(line), pipe) && count < ORACLE_BYTES)
		count += parse_line(line, &lines[count]);
	pclose(pipe);
	*ret = lines;
	return count;
}

static void read_text(const char *path, struct bytes *ret, uint64_t *ret_address, uint16_t *ret_machine)
{
	_cleanup_(fd_closep) int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct elf_file file;
	assert_true(fd >= 0);
	assert_int_equal(elf_file_open(&file, fd, path, NULL), 0);
	assert_int_equal(elf_file_load_sections(&file, NULL), 0);
	const struct elf_section *text = elf_file_find_section(&file, ".text");
	assert_non_null(text);
	assert_int_equal(elf_file_read_section(&file, text, GIB, ret, NULL), 0);
	*ret_address = text->address;
	*ret_machine = file.machine;
	elf_file_release(&file);
}

/* Every boundary must be the same; mnemonics have synonyms ("je", "jz") and are counted. */
static void compare(const char *objdump, const char *path, double same_boundaries, double same_mnemonics)
{
	struct bytes code;
	struct disassemble_options options = {0};
	_cleanup_(disassembly_release) struct disassembly d = {0};
	struct oracle_line *lines;
	char command[512];
	read_text(path, &code, &options.address, &options.machine);
	size_t len = code.len < ORACLE_BYTES ? code.len : ORACLE_BYTES, found = 0, named = 0, at = 0;
	assert_int_equal(disassemble((struct bytes){code.data, len}, &options, &d, NULL), 0);
	snprintf(command, sizeof(command), "%s --section=.text --stop-address=0x%" PRIx64 " %s 2>/dev/null", objdump,
		 options.address + len, path);
	size_t count = ask_objdump(command, &lines);
	assert_true(count > 50);
	for (size_t i = 0; i < count; i++) {
		while (at < d.count && d.items[at].address < lines[i].address)
			at++;
		if (at == d.count || d.items[at].address != lines[i].address || d.items[at].size != lines[i].size)
			continue;
		found++;
		named += strncmp(disassembly_text(&d, at), lines[i].mnemonic, strlen(lines[i].mnemonic)) == 0;
	}
	print_message("%s: %zu instructions, %.3f%% at the same place, %.3f%% of the same name\n", path, count,
		      100.0 * (double)found / (double)count, 100.0 * (double)named / (double)count);
	assert_true((double)found >= same_boundaries * (double)count);
	assert_true((double)named >= same_mnemonics * (double)count);
	free((void *)code.data);
}

static void test_beside_objdump(void **state)
{
	if (!test_program_is_there("objdump")) {
		print_message("skipped: no objdump\n");
		skip();
	}
	char own[4096];
	ssize_t len = readlink("/proc/self/exe", own, sizeof(own) - 1);
	assert_true(len > 0);
	own[len] = '\0';
	compare("objdump -d -w -M intel --insn-width=16", own, 1, 0.95);
	compare("objdump -d -w -M intel --insn-width=16", "/lib/x86_64-linux-gnu/libc.so.6", 0.999, 0.95);
}

/* Machines that are not this one, from what their compilers make of a little of everything. */
static void compare_compiled(const char *compiler, const char *objdump)
{
	static const char source[] =
		"struct s { int a; float b; double c; unsigned char d[16]; };\n"
		"int table(int x) { switch (x) { case 0: return 7; case 1: return 9; case 2: return 1; case 3: return 4;\n"
		"	case 4: return 12; case 5: return 99; } return -1; }\n"
		"double mean(const struct s *s, int n) { double t = 0; for (int i = 0; i < n; i++) t += s[i].c * s[i].b;\n"
		"	return n ? t / n : 0; }\n"
		"unsigned long long wide(unsigned long long a, unsigned b) { return a * b + (a >> b) - (a << 3); }\n"
		"int find(const char *s, char c) { for (int i = 0; s[i]; i++) if (s[i] == c) return i; return -1; }\n"
		"int call(int (*f)(int), int n) { return f(n) + table(n); }\n"
		"void fill(struct s *s) { for (int i = 0; i < 16; i++) s->d[i] ^= (unsigned char)(s->a >> (i & 7)); }\n"
		"long power(long b, int e) { long r = 1; while (e) { if (e & 1) r *= b; b *= b; e >>= 1; } return r; }\n";
	char directory[] = "/tmp/wick-disassemble-XXXXXX", command[512], object[128], input[128];
	assert_non_null(mkdtemp(directory));
	snprintf(input, sizeof(input), "%s/a.c", directory);
	snprintf(object, sizeof(object), "%s/a.o", directory);
	FILE *out = fopen(input, "w");
	assert_non_null(out);
	fputs(source, out);
	fclose(out);
	snprintf(command, sizeof(command), "%s -O2 -ffreestanding -w -c -o %s %s 2>/dev/null", compiler, object, input);
	if (system(command) == 0)
		compare(objdump, object, 1, 0.9);
	else
		print_message("skipped: '%s' does not compile\n", compiler);
	unlink(input);
	unlink(object);
	rmdir(directory);
}

static void test_other_machines(void **state)
{
	if (test_program_is_there("objdump") && test_program_is_there("gcc"))
		compare_compiled("gcc -m32 -fno-pic", "objdump -d -w -M intel --insn-width=16");
	if (!test_program_is_there("clang") || !test_program_is_there("llvm-objdump-19")) {
		print_message("skipped: no clang or llvm-objdump-19\n");
		return;
	}
	compare_compiled("clang --target=aarch64-linux-gnu", "llvm-objdump-19 -d");
	compare_compiled("clang --target=armv7a-linux-gnueabihf -marm", "llvm-objdump-19 -d");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_machines),       cmocka_unit_test(test_branches),	      cmocka_unit_test(test_long_names),
		cmocka_unit_test(test_invalid_bytes),  cmocka_unit_test(test_refusals),	      cmocka_unit_test(test_faults),
		cmocka_unit_test(test_other_machines), cmocka_unit_test(test_beside_objdump),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
