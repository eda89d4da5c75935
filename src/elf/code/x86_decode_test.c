// SPDX-License-Identifier: Apache-2.0
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/limits.h"
#include "elf/code/x86_decode.h"
#include "elf/disassemble.h"
#include "elf/elf_file.h"

#define CODE(text) (const uint8_t *)(text), sizeof(text) - 1

static void check(const uint8_t *code, size_t len, struct x86_instruction want)
{
	struct x86_instruction got;
	if (!x86_decode(code, len, &got))
		fail_msg("%02x %02x is no instruction", code[0], len > 1 ? code[1] : 0);
	if (got.kind != want.kind || got.len != len || got.reg != want.reg || got.base != want.base ||
	    got.value != want.value || got.writes != want.writes)
		fail_msg("%02x %02x: kind %d len %u reg %u base %u value %lld writes %x", code[0], len > 1 ? code[1] : 0,
			 got.kind, got.len, got.reg, got.base, (long long)got.value, got.writes);
	for (size_t cut = 0; cut < len; cut++)
		assert_false(x86_decode(code, cut, &got));
}

/* Without an operand that matters. */
static void check_kind(const uint8_t *code, size_t len, enum x86_kind kind)
{
	struct x86_instruction got;
	assert_true(x86_decode(code, len, &got));
	assert_int_equal(got.kind, kind);
	assert_int_equal(got.len, len);
}

static void check_writes(const uint8_t *code, size_t len, uint32_t writes)
{
	struct x86_instruction got;
	assert_true(x86_decode(code, len, &got));
	assert_int_equal(got.kind, X86_OTHER);
	assert_int_equal(got.len, len);
	assert_int_equal(got.writes, writes);
}

#define I(k, r, b, v) ((struct x86_instruction){.kind = (k), .reg = (r), .base = (b), .value = (v)})

static void test_what_moves_the_stack(void **state)
{
	(void)state;
	check(CODE("\x55"), I(X86_PUSH, X86_RBP, X86_NONE, 0));
	check(CODE("\x41\x57"), I(X86_PUSH, 15, X86_NONE, 0));
	check(CODE("\x6a\x10"), I(X86_PUSH, X86_NONE, X86_NONE, 16));
	check_kind(CODE("\xff\x74\x24\x08"), X86_PUSH);
	check(CODE("\x5b"), I(X86_POP, X86_RBX, X86_NONE, 0));
	check(CODE("\x48\x83\xec\x18"), I(X86_ADD, X86_RSP, X86_RSP, -24));
	check(CODE("\x48\x81\xc4\0\1\0\0"), I(X86_ADD, X86_RSP, X86_RSP, 256));
	check(CODE("\x48\x8d\x64\x24\xf8"), I(X86_LEA, X86_RSP, X86_RSP, -8));
	check(CODE("\x48\x89\xe5"), I(X86_MOVE, X86_RBP, X86_RSP, 0));
	check(CODE("\x48\x8b\xec"), I(X86_MOVE, X86_RBP, X86_RSP, 0));
	check(CODE("\x48\x89\x5c\x24\xf8"), I(X86_STORE, X86_RBX, X86_RSP, -8));
	check(CODE("\x48\x8b\x65\xf0"), I(X86_LOAD, X86_RSP, X86_RBP, -16));
	check(CODE("\x4c\x8b\x07"), I(X86_LOAD, 8, X86_RDI, 0));
	check(CODE("\x48\x87\xe0"), I(X86_EXCHANGE, X86_RSP, X86_RAX, 0));
	check(CODE("\x31\xed"), I(X86_CLEAR, X86_RBP, X86_RBP, 0));
	check_kind(CODE("\xc9"), X86_LEAVE);
	check_writes(CODE("\x48\x83\xe4\xf0"), 1u << X86_RSP);
	check(CODE("\xc8\x10\0\0"), I(X86_ENTER, X86_NONE, X86_NONE, 16));
	check(CODE("\xc8\0\x80\x20"), I(X86_ENTER, X86_NONE, X86_NONE, 0x8000)); /* of the level five bits count */
	check_writes(CODE("\xc8\x10\0\1"), 1u << X86_RSP | 1u << X86_RBP);
	/* Of 32 bits: not the same register any more. */
	check_writes(CODE("\x83\xec\x18"), 1u << X86_RSP);
	check_writes(CODE("\x89\xe5"), 1u << X86_RBP);
	/* An address with an index is not a constant behind a register. */
	check_writes(CODE("\x48\x8d\x24\x04"), 1u << X86_RSP);
}

static void test_where_it_goes(void **state)
{
	(void)state;
	check(CODE("\xe8\xfb\xff\xff\xff"), I(X86_CALL, X86_NONE, X86_NONE, -5));
	check(CODE("\xe9\0\1\0\0"), I(X86_JUMP, X86_NONE, X86_NONE, 256));
	check(CODE("\xeb\xfe"), I(X86_JUMP, X86_NONE, X86_NONE, -2));
	check(CODE("\x75\x05"), I(X86_BRANCH, X86_NONE, X86_NONE, 5));
	check(CODE("\x0f\x84\0\1\0\0"), I(X86_BRANCH, X86_NONE, X86_NONE, 256));
	check_kind(CODE("\xe3\x05"), X86_BRANCH);
	check_kind(CODE("\xff\xd0"), X86_CALL_INDIRECT);
	check_kind(CODE("\xff\x15\0\0\0\0"), X86_CALL_INDIRECT);
	check_kind(CODE("\x3e\xff\xe0"), X86_JUMP_INDIRECT);
	check_kind(CODE("\xff\x24\xc5\0\0\0\0"), X86_JUMP_INDIRECT);
	check_kind(CODE("\xf2\xff\x25\0\0\0\0"), X86_JUMP_SLOT);
	check_kind(CODE("\xc3"), X86_RETURN);
	check_kind(CODE("\xf3\xc3"), X86_RETURN);
	check_kind(CODE("\xc2\x08\0"), X86_RETURN);
	check_kind(CODE("\xf4"), X86_END);
	check_kind(CODE("\x0f\x0b"), X86_END);
	check_kind(CODE("\x66\x0f\x1f\x84\0\0\0\0\0"), X86_PADDING);
	check_kind(CODE("\xcc"), X86_PADDING);
	check_kind(CODE("\x66\x90"), X86_PADDING);
	check_kind(CODE("\x49\x90"), X86_EXCHANGE);
}

static void test_what_it_writes(void **state)
{
	(void)state;
	check_writes(CODE("\x48\x39\xe8"), 0);		   /* cmp */
	check_writes(CODE("\x48\x85\xed"), 0);		   /* test */
	check_writes(CODE("\x48\x01\xc5"), 1u << X86_RBP); /* add rbp, rax */
	check_writes(CODE("\x0f\xb6\x2f"), 1u << X86_RBP); /* movzx ebp, byte [rdi] */
	check_writes(CODE("\xbd\0\1\0\0"), 1u << X86_RBP); /* mov ebp, 256 */
	check_writes(CODE("\x49\xbc\0\0\0\0\0\0\0\0"), 1u << 12);
	check_writes(CODE("\x0f\xa2"), 0xf); /* cpuid */
	check_writes(CODE("\x0f\x05"), 1u << X86_RAX | 1u << X86_RCX | 1u << 11);
	check_writes(CODE("\x48\xf7\xe3"), 1u << X86_RAX | 1u << X86_RDX);
	check_writes(CODE("\xf6\xc3\x01"), 0);					   /* test bl, 1 */
	check_writes(CODE("\x0f\x94\xc3"), 1u << X86_RBX);			   /* sete bl */
	check_writes(CODE("\x66\x48\x0f\x7e\xc3"), 1u << X86_RBX);		   /* movq rbx, xmm0 */
	check_writes(CODE("\xf3\x0f\x7e\xd8"), 0);				   /* movq xmm3, xmm0 */
	check_writes(CODE("\x0f\x28\xd8"), 0);					   /* movaps */
	check_writes(CODE("\xc5\xfd\x6f\x07"), 0);				   /* vmovdqa */
	check_writes(CODE("\xc4\xe2\xe8\xf2\xd8"), 1u << X86_RBX);		   /* andn rbx, rdx, rax */
	check_writes(CODE("\xc4\xe3\xfb\xf0\xd8\x05"), 1u << X86_RBX);		   /* rorx rbx, rax, 5 */
	check_writes(CODE("\xc4\xe2\xe0\xf3\xcd"), 1u << X86_RBX);		   /* blsr rbx, rbp */
	check_writes(CODE("\xc4\xe2\xd3\xf6\xd8"), 1u << X86_RBX | 1u << X86_RBP); /* mulx rbx, rbp, rax */
	check_writes(CODE("\xc4\xe2\xd9\xf7\xd8"), 1u << X86_RBX);		   /* shlx rbx, rax, rsp */
	check_writes(CODE("\x0f\xba\xe4\x03"), 0);				   /* bt esp, 3 */
	check_writes(CODE("\x0f\xba\xed\x03"), 1u << X86_RBP);			   /* bts ebp, 3 */
	check_writes(CODE("\x0f\x01\xf9"), 7);					   /* rdtscp */
	check_writes(CODE("\x0f\xc7\xf5"), 1u << X86_RBP);			   /* rdrand ebp */
	check_writes(CODE("\xa3\1\2\3\4\5\6\7\x8"), 0);				   /* mov [x], eax */
}

/* Without a REX prefix, numbers 4 to 7 of byte registers are ah, ch, dh and bh; with any, spl, bpl, sil and dil. */
static void test_byte_registers(void **state)
{
	(void)state;
	check_writes(CODE("\xb4\x01"), 1u << X86_RAX);		       /* mov ah, 1 */
	check_writes(CODE("\xb7\x01"), 1u << X86_RBX);		       /* mov bh, 1 */
	check_writes(CODE("\x40\xb7\x01"), 1u << X86_RDI);	       /* mov dil, 1 */
	check_writes(CODE("\x30\xe4"), 1u << X86_RAX);		       /* xor ah, ah */
	check_writes(CODE("\x8a\x27"), 1u << X86_RAX);		       /* mov ah, [rdi] */
	check_writes(CODE("\x40\x8a\x2f"), 1u << X86_RBP);	       /* mov bpl, [rdi] */
	check_writes(CODE("\x0f\x95\xc4"), 1u << X86_RAX);	       /* setne ah */
	check_writes(CODE("\x80\xcf\x01"), 1u << X86_RBX);	       /* or bh, 1 */
	check_writes(CODE("\x86\xec"), 1u << X86_RAX | 1u << X86_RCX); /* xchg ah, ch */
	check_writes(CODE("\x0f\xb6\xec"), 1u << X86_RBP);	       /* movzx ebp, ah */
	check_writes(CODE("\xf6\xdf"), 1u << X86_RBX);		       /* neg bh */
}

/* Numbers of vector and mask registers are those of general ones. */
static void test_vector_registers(void **state)
{
	(void)state;
	check_writes(CODE("\xc5\xfa\x7e\xdc"), 0);		       /* vmovq xmm3, xmm4 */
	check_writes(CODE("\xc5\xf9\x7e\xe3"), 1u << X86_RBX);	       /* vmovd ebx, xmm4 */
	check_writes(CODE("\x66\x0f\x3a\x16\xe3\x01"), 1u << X86_RBX); /* pextrd ebx, xmm4, 1 */
	check_writes(CODE("\x66\x0f\x3a\x63\xc1\x01"), 1u << X86_RCX); /* pcmpistri xmm0, xmm1, 1 */
	check_writes(CODE("\xc5\xed\x41\xe3"), 0);		       /* kandb k4, k2, k3 */
	check_writes(CODE("\xc5\xfb\x93\xe9"), 1u << X86_RBP);	       /* kmovd ebp, k1 */
	check_writes(CODE("\xc5\xfb\x92\xe3"), 0);		       /* kmovd k4, ebx */
	check_writes(CODE("\xf2\x0f\x2c\xe8"), 1u << X86_RBP);	       /* cvttsd2si ebp, xmm0 */
	check_writes(CODE("\x0f\x2c\xe0"), 0);			       /* cvttps2pi mm4, xmm0 */
	check_writes(CODE("\x62\xf1\x7e\x08\x78\xe8"), 1u << X86_RBP); /* vcvttss2usi ebp, xmm0 */
	check_writes(CODE("\x62\xf1\x7c\x48\x78\xe0"), 0);	       /* vcvttps2udq zmm4, zmm0 */
	check_writes(CODE("\x62\xf5\x74\x48\x58\xe2"), 0);	       /* vaddph zmm4, zmm1, zmm2 */
	check_writes(CODE("\x62\xf5\x7e\x08\x2c\xe8"), 1u << X86_RBP); /* vcvttsh2si ebp, xmm0 */
}

/* What changes the size of operands and addresses. */
static void test_prefixes(void **state)
{
	struct x86_instruction in;
	(void)state;
	check(CODE("\x66\x48\x81\xec\0\1\0\0"), I(X86_ADD, X86_RSP, X86_RSP, -256));
	check_writes(CODE("\x67\x48\x8d\x64\x24\x08"), 1u << X86_RSP); /* lea rsp, [esp + 8] */
	assert_true(x86_decode(CODE("\x64\x48\x89\x5d\xf8"), &in) && in.kind == X86_STORE && in.base == X86_NONE);
	check_writes(CODE("\x67\xa0\1\2\3\4"), 1u << X86_RAX);
	check_kind(CODE("\x67\x0f\xb9\x40\x02"), X86_END); /* ud1: what clang's sanitizers trap with */
}

/* ---- against Capstone ---- */

static void compare_lengths(const char *path, size_t instructions_min)
{
	struct elf_file file;
	struct bytes code;
	size_t compared = 0, unknown = 0;
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0) {
		print_message("skipped: there is no %s\n", path);
		return;
	}
	assert_int_equal(elf_file_open(&file, fd, path, NULL), 0);
	assert_int_equal(elf_file_load_sections(&file, NULL), 0);
	const struct elf_section *text = elf_file_find_section(&file, ".text");
	assert_non_null(text);
	assert_int_equal(elf_file_read_section(&file, text, 64 * MIB, &code, NULL), 0);
	for (size_t from = 0; from < code.len; from += DISASSEMBLE_BYTES_MAX / 2) {
		size_t len = code.len - from < DISASSEMBLE_BYTES_MAX / 2 ? code.len - from : DISASSEMBLE_BYTES_MAX / 2;
		struct disassemble_options options = {.machine = EM_X86_64};
		struct disassembly d = {0};
		int r = disassemble((struct bytes){code.data + from, len}, &options, &d, NULL);
		if (r == -ENOSYS) {
			print_message("skipped: no Capstone\n");
			break;
		}
		assert_int_equal(r, 0);
		for (size_t i = 0; i + 16 < d.count; i++) {
			struct x86_instruction in;
			const uint8_t *at = code.data + from + d.items[i].offset;
			if (strncmp(disassembly_text(&d, i), ".byte", 5) == 0)
				continue;
			compared++;
			if (!x86_decode(at, len - d.items[i].offset, &in)) {
				if (unknown++ < 10)
					print_message("not decoded: %s\n", disassembly_text(&d, i));
				continue;
			}
			if (in.len != d.items[i].size)
				fail_msg("%s: %u bytes, not %u", disassembly_text(&d, i), d.items[i].size, in.len);
		}
		disassembly_release(&d);
	}
	print_message("%s: %zu instructions, %zu not decoded\n", path, compared, unknown);
	assert_true(compared == 0 || compared >= instructions_min);
	assert_true(unknown * 200 <= compared); /* there are tables in between */
	mem_free((void *)code.data);
	elf_file_release(&file);
	close(fd);
}

static void test_lengths_agree_with_capstone(void **state)
{
	(void)state;
	compare_lengths("/usr/lib/x86_64-linux-gnu/libc.so.6", 100000);
	compare_lengths("/usr/lib/x86_64-linux-gnu/libstdc++.so.6", 100000);
	compare_lengths("/usr/lib/x86_64-linux-musl/libc.so", 50000);
}

/* Any bytes end somewhere, and never beyond themselves. */
static void test_any_bytes(void **state)
{
	uint8_t code[16];
	struct x86_instruction in;
	(void)state;
	srand(7);
	for (int i = 0; i < 2000000; i++) {
		size_t len = (size_t)rand() % (sizeof(code) + 1);
		for (size_t k = 0; k < len; k++)
			code[k] = (uint8_t)rand();
		uint8_t *copy = malloc(len ? len : 1); /* for the sanitizer */
		memcpy(copy, code, len);
		if (x86_decode(copy, len, &in))
			assert_true(in.len >= 1 && in.len <= len && in.reg <= X86_NONE && in.base <= X86_NONE &&
				    in.writes < 1u << X86_REGISTERS);
		free(copy);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_what_moves_the_stack),
		cmocka_unit_test(test_where_it_goes),
		cmocka_unit_test(test_what_it_writes),
		cmocka_unit_test(test_byte_registers),
		cmocka_unit_test(test_vector_registers),
		cmocka_unit_test(test_prefixes),
		cmocka_unit_test(test_lengths_agree_with_capstone),
		cmocka_unit_test(test_any_bytes),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
