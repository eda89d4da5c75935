/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Call frame information of hand-made sections: every instruction, encoding and kind of damage. Where it comes from is tested
 * in cfi_file_test.c; real files are compared with other readers in cfi_oracle_test.c.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/time.h"
#include "elf/test_cfi.h"

/* ---- instructions ------------------------------------------------------------------------------------------------------- */

struct program_case {
	const char *name;
	struct bytes program;
	const char *want;
	uint64_t bad;
};

/* One function of 0x100 bytes. */
static void check_program(const struct program_case *c)
{
	struct section s;
	section_init(&s, false);
	put_cie(&s);
	put_fde(&s, 0, 0x100, c->program);
	check_section(&s, EM_X86_64, c->name, c->want, c->bad);
}

static void test_runs_every_instruction(void **state)
{
	static const struct program_case cases[] = {
		{"nothing", BYTES(""), START " 100:-"},
		{"nop", BYTES("\0\0\0"), START " 100:-"},
		{"prologue", BYTES("\x41\x0e\x10\x86\2\x43\x0d\6"), START " 1:r7+16,c-8,c-16 4:r6+16,c-8,c-16 100:-"},
		{"advance_loc1", BYTES("\2\xf0\x0e\x10"), START " f0:r7+16,c-8,= 100:-"},
		{"advance_loc2", BYTES("\3\xf0\0\x0e\x10"), START " f0:r7+16,c-8,= 100:-"},
		{"advance_loc4", BYTES("\4\xf0\0\0\0\x0e\x10"), START " f0:r7+16,c-8,= 100:-"},
		{"advance_loc8", BYTES("\x1d\xf0\0\0\0\0\0\0\0\x0e\x10"), START " f0:r7+16,c-8,= 100:-"},
		{"advance by 0", BYTES("\x0e\x10\x40\x0e\x18"), "0:r7+24,c-8,= 100:-"},
		{"advance to the end", BYTES("\4\0\1\0\0\x0e\x10"), START " 100:-"},
		{"equal rows", BYTES("\x41\x0e\x10\x41\x0e\x10\x41\x83\2\x41\x0e\x8"),
		 START " 1:r7+16,c-8,= 3:r7+16,c-8,=,rbx-16 4:r7+8,c-8,=,rbx-16 100:-"},
		{"rbx saved and restored", BYTES("\x41\x83\3\x41\xc3"), START " 1:r7+8,c-8,=,rbx-24 2:r7+8,c-8,= 100:-"},
		{"rbx undefined, the same", BYTES("\x41\7\3\x41\x8\3"), START " 1:r7+8,c-8,=,rbx? 2:r7+8,c-8,= 100:-"},
		{"rbx in a register", BYTES("\x41\x9\3\0"), START " 1:r7+8,c-8,=,rbx? 100:-"},
		{"rbx beside an expression", BYTES("\x83\3\x0f\3\x76\x78\6\x41\x0f\2\x77\x10"),
		 "0:[r6-8]+0,c-8,= 1:r7+16,c-8,=,rbx-24 100:-"},
		{"offset_extended", BYTES("\x41\5\6\4"), START " 1:r7+8,c-8,c-32 100:-"},
		{"offset_extended_sf", BYTES("\x41\x11\6\x7c"), START " 1:r7+8,c-8,c+32 100:-"},
		{"negative_offset_extended", BYTES("\x41\x2f\6\4"), START " 1:r7+8,c-8,c+32 100:-"},
		{"restore", BYTES("\x86\4\x41\xc6"), "0:r7+8,c-8,c-32 1:r7+8,c-8,= 100:-"},
		{"restore_extended", BYTES("\x86\4\x41\6\6"), "0:r7+8,c-8,c-32 1:r7+8,c-8,= 100:-"},
		{"restore of the return address", BYTES("\x90\4\x41\xd0"), "0:r7+8,c-32,= 1:r7+8,c-8,= 100:-"},
		{"undefined return address", BYTES("\x41\7\x10\x42\xd0"), START " 1:$ 3:r7+8,c-8,= 100:-"},
		{"undefined frame pointer", BYTES("\x41\7\6"), START " 1:r7+8,c-8,x 100:-"},
		{"undefined other", BYTES("\x41\7\3"), START " 1:r7+8,c-8,=,rbx? 100:-"},
		{"same_value", BYTES("\x86\4\x41\x8\6"), "0:r7+8,c-8,c-32 1:r7+8,c-8,= 100:-"},
		{"same return address", BYTES("\x41\x8\x10"), START " 1:r7+8,x,= 100:-"},
		{"register", BYTES("\x41\x9\x10\5"), START " 1:r7+8,r5,= 100:-"},
		{"register that rules do not know", BYTES("\x41\x9\x10\x11"), START " 1:r7+8,x,= 100:-"},
		{"frame pointer in a register", BYTES("\x41\x9\6\3"), START " 1:r7+8,c-8,x 100:-"},
		{"remember and restore", BYTES("\x41\x0e\x10\x86\2\x0a\x41\x0e\x8\xc6\x41\x0b"),
		 START " 1:r7+16,c-8,c-16 2:r7+8,c-8,= 3:r7+16,c-8,c-16 100:-"},
		{"def_cfa", BYTES("\x41\x0c\x0a\0"), START " 1:r10+0,c-8,= 100:-"},
		{"def_cfa_sf", BYTES("\x41\x12\6\x7e"), START " 1:r6+16,c-8,= 100:-"},
		{"def_cfa_offset_sf", BYTES("\x41\x13\x7e"), START " 1:r7+16,c-8,= 100:-"},
		{"def_cfa of an unknown register", BYTES("\x41\x0c\x11\0\x41\x0d\6"), START " 1:? 2:r6+0,c-8,= 100:-"},
		{"def_cfa_offset too large", BYTES("\x41\x0e\x80\x80\x80\x80\x8\x41\x0e\x10"),
		 START " 1:? 2:r7+16,c-8,= 100:-"},
		{"def_cfa_offset, the largest", BYTES("\x41\x0e\xff\xff\xff\xff\7"), START " 1:r7+2147483647,c-8,= 100:-"},
		{"return address too far", BYTES("\x41\x90\x81\x20\x41\x90\x80\x20"), START " 1:? 2:r7+8,c-32768,= 100:-"},
		{"frame pointer too far", BYTES("\x41\x86\x81\x20"), START " 1:r7+8,c-8,x 100:-"},
		{"far beyond 64 bits", BYTES("\x41\x90\xff\xff\xff\xff\xff\xff\xff\xff\xff\1"), START " 1:? 100:-"},
		{"val_offset", BYTES("\x41\x14\6\2\x41\x14\7\0\x41\x14\7\1"), START " 1:r7+8,c-8,x 3:? 100:-"},
		{"val_offset_sf", BYTES("\x41\x15\6\2\x41\x15\7\0"), START " 1:r7+8,c-8,x 100:-"},
		{"stack pointer restored from memory", BYTES("\x41\x87\4\x41\xc7"), START " 1:? 2:r7+8,c-8,= 100:-"},
		{"stack pointer unchanged", BYTES("\x41\x8\7"), START " 1:? 100:-"},
		{"stack pointer in a register", BYTES("\x41\x9\7\x8"), START " 1:? 100:-"},
		{"longjmp()", BYTES("\x41\x0c\5\0\x9\7\x8\x9\6\x9\x9\x10\1\x83\0\x41\x9\7\x11"),
		 START " 1:r8+0,r1,x,rbx? 2:? 100:-"},
		{"expression of frame pointer", BYTES("\x41\x10\6\2\x76\x70"), START " 1:r7+8,c-8,f-16 100:-"},
		{"expression off another register", BYTES("\x41\x10\6\2\x73\x70"), START " 1:r7+8,c-8,x 100:-"},
		{"expression of return address", BYTES("\x41\x10\x10\2\x76\x70"), START " 1:r7+8,x,= 100:-"},
		{"expression of the stack pointer", BYTES("\x41\x10\7\2\x76\x70"), START " 1:? 100:-"},
		{"expression of another register", BYTES("\x41\x10\3\2\x76\x70"), START " 1:r7+8,c-8,=,rbx? 100:-"},
		{"val_expression", BYTES("\x41\x16\6\2\x76\x70"), START " 1:r7+8,c-8,x 100:-"},
		{"args_size", BYTES("\x41\x2e\x10"), START " 100:-"},
		{"def_aspace_cfa", BYTES("\x41\x30\7\x10\1\x41\x0c\7\x18"), START " 1:? 2:r7+24,c-8,= 100:-"},
		{"def_aspace_cfa_sf", BYTES("\x41\x31\7\x10\1"), START " 1:? 100:-"},
		{"padded LEB128", BYTES("\x41\x0e\x90\x80\x80\x80\0"), START " 1:r7+16,c-8,= 100:-"},
	};
	for (size_t i = 0; i < COUNT(cases); i++)
		check_program(&cases[i]);
}

static void test_set_loc_is_relative_to_itself(void **state)
{
	struct section s;
	section_init(&s, false);
	put_cie(&s);
	/* The operand lies 18 bytes behind the start of the FDE. */
	uint64_t field = s.address + s.data.len + 18;
	uint32_t to_20 = (uint32_t)(TEST_CFI_TEXT + 0x20 - field);
	uint8_t program[] = {1, 0, 0, 0, 0, 0x0e, 0x10};
	memcpy(program + 1, &to_20, 4);
	put_fde(&s, 0, 0x100, (struct bytes){program, sizeof(program)});
	check_section(&s, EM_X86_64, "set_loc", START " 20:r7+16,c-8,= 100:-", 0);
}

static void test_no_cfa_is_unsupported(void **state)
{
	struct section s;
	section_init(&s, false);
	put_raw_cie(&s, BYTES("\1zR\0\1\x78\x10\1\x1b"));
	put_fde(&s, 0, 0x100, BYTES("\x90\1\x41\x0e\x10\x41\x0d\7\x41\x0f\2\x77\x10\x41\x0d\7\x41\x0c\7\x18"));
	check_section(&s, EM_X86_64, "no CFA", "0:? 3:r7+16,c-8,= 4:? 5:r7+24,c-8,= 100:-", 0);
}

static void test_restores_what_the_cie_says(void **state)
{
	struct section s;
	section_init(&s, false);
	/* Return address undefined, frame pointer at CFA-16, stack pointer moved. */
	put_raw_cie(&s, BYTES("\1zR\0\1\x78\x10\1\x1b\x0c\7\x8\7\x10\x86\2"));
	put_fde(&s, 0, 0x100, BYTES("\x41\x90\1\xc6\x41\x8\6\x41\xc6\x41\xd0"));
	put_raw_cie(&s, BYTES("\1zR\0\1\x78\x10\1\x1b" START_PROGRAM "\x87\3"));
	put_fde(&s, 0x200, 0x100, BYTES("\x41\x14\7\0\x41\xc7"));
	put_raw_cie(&s, BYTES("\1zR\0\1\x78\x10\1\x1b" START_PROGRAM "\x9\7\x8\x9\x10\1"));
	put_fde(&s, 0x400, 0x100, BYTES("\x41\x9\7\x9\x41\xc7"));
	check_section(&s, EM_X86_64, "restore",
		      "0:$ 1:r7+8,c-8,c-16 2:r7+8,c-8,= 3:r7+8,c-8,c-16 4:$ 100:- 200:? 201:r7+8,c-8,= 202:? 300:- "
		      "400:r8+0,r1,=,rbx? 401:r9+0,r1,=,rbx? 402:r8+0,r1,=,rbx? 500:-",
		      0);
}

static void test_damage_ends_a_function(void **state)
{
	static const struct program_case cases[] = {
		{"unknown instruction", BYTES("\x41\x0e\x10\x41\x3f"), START " 1:r7+16,c-8,= 2:-", 1},
		{"unknown instruction at once", BYTES("\x3f"), "", 1},
		{"operand cut off", BYTES("\x41\x0e"), START " 1:-", 1},
		{"LEB128 cut off", BYTES("\x41\x0e\x80"), START " 1:-", 1},
		{"LEB128 of 65 bits", BYTES("\x41\x0e\xff\xff\xff\xff\xff\xff\xff\xff\xff\2"), START " 1:-", 1},
		{"LEB128 of 11 bytes", BYTES("\x41\x0e\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\0"), START " 1:-", 1},
		{"SLEB128 of 65 bits", BYTES("\x41\x13\xff\xff\xff\xff\xff\xff\xff\xff\xff\2"), START " 1:-", 1},
		{"second operand cut off", BYTES("\x41\x0c\7"), START " 1:-", 1},
		{"advance_loc2 cut off", BYTES("\x41\3\1"), START " 1:-", 1},
		{"advance beyond the function", BYTES("\x41\x0e\x10\3\0\1"), START " 1:-", 1},
		{"advance of 4 GiB", BYTES("\x41\x0e\x10\4\xff\xff\xff\xff"), START " 1:-", 1},
		{"advance around the address space", BYTES("\x41\x0e\x10\x1d\xff\xff\xff\xff\xff\xff\xff\xff"), START " 1:-",
		 1},
		{"set_loc backwards", BYTES("\x41\1\0\0\0\x80"), START " 1:-", 1},
		{"restore_state of nothing", BYTES("\x41\x0b"), START " 1:-", 1},
		{"block longer than the entry", BYTES("\x41\x0f\x10\x77\0"), START " 1:-", 1},
		{"block of 2^63 bytes", BYTES("\x41\x0f\xff\xff\xff\xff\xff\xff\xff\xff\x7f"), START " 1:-", 1},
		{"window_save", BYTES("\x41\x2d"), START " 1:-", 1},
	};
	for (size_t i = 0; i < COUNT(cases); i++)
		check_program(&cases[i]);
}

static void test_remembered_states_are_bounded(void **state)
{
	struct buffer program;
	buffer_init(&program, 1 << 24);
	for (size_t i = 0; i < 64; i++)
		test_cfi_put_int(&program, 0x0a, 1);
	test_cfi_put(&program, "\x41\x0e\x10", 3);
	for (size_t i = 0; i < 64; i++)
		test_cfi_put_int(&program, 0x0b, 1);
	struct program_case c = {"64 states", buffer_bytes(&program), START " 100:-", 0};
	check_program(&c);
	program.len = 0;
	for (size_t i = 0; i < 4 << 20; i++)
		test_cfi_put_int(&program, 0x0a, 1);
	c = (struct program_case){"4 million states", buffer_bytes(&program), "", 1};
	check_program(&c);
	buffer_release(&program);
}

static void test_damage_stays_in_its_function(void **state)
{
	struct section s;
	section_init(&s, false);
	put_cie(&s);
	put_fde(&s, 0, 0x10, BYTES("\x41\x0e\x10\x41\x3f"));
	put_fde(&s, 0x10, 0x10, BYTES("\x41\x0e\x10"));
	check_section(&s, EM_X86_64, "two functions", START " 1:r7+16,c-8,= 2:- 10:r7+8,c-8,= 11:r7+16,c-8,= 20:-", 1);
}

/* ---- expressions -------------------------------------------------------------------------------------------------------- */

static void test_knows_the_expressions_that_occur(void **state)
{
	static const struct program_case cases[] = {
		{"realigned stack", BYTES("\x0f\3\x76\x78\6"), "0:[r6-8]+0,c-8,= 100:-"},
		{"OpenSSL", BYTES("\x0f\6\x77\x98\1\6\x23\x8"), "0:[r7+152]+8,c-8,= 100:-"},
		{"no dereference", BYTES("\x0f\2\x77\x10"), "0:r7+16,c-8,= 100:-"},
		{"literal added", BYTES("\x0f\4\x77\x10\x38\x22"), "0:r7+24,c-8,= 100:-"},
		{"constants",
		 BYTES("\x0f\x1f\x77\0\x8\xf0\x22\x9\xf8\x22\x0a\0\1\x22\x0b\xff\xff\x22\x0c\0\0\1\0\x22"
		       "\x0d\xff\xff\xff\xff\x22\x10\1\x22"),
		 "0:r7+66023,c-8,= 100:-"},
		{"consts", BYTES("\x0f\5\x77\0\x11\x78\x22"), "0:r7-8,c-8,= 100:-"},
		{"subtracted", BYTES("\x0f\4\x77\x10\x38\x1c"), "0:r7+8,c-8,= 100:-"},
		{"bregx", BYTES("\x0f\3\x92\x0a\x10"), "0:r10+16,c-8,= 100:-"},
		{"nop", BYTES("\x0f\4\x96\x77\x10\x96"), "0:? 100:-"},
		{"added beyond 31 bits", BYTES("\x0f\x0d\x77\x10\x23\xf8\xff\xff\xff\xff\xff\xff\xff\xff\1"), "0:? 100:-"},
		{"nop behind", BYTES("\x0f\3\x77\x10\x96"), "0:r7+16,c-8,= 100:-"},
		{"plt", BYTES("\x0f\x0b\x77\x8\x80\0\x3f\x1a\x3b\x2a\x33\x24\x22"), "0:plt+8/11,c-8,= 100:-"},
		{"plt, other threshold", BYTES("\x0f\x0b\x77\x8\x80\0\x3f\x1a\x35\x2a\x33\x24\x22"), "0:plt+8/5,c-8,= 100:-"},
		{"plt, other mask", BYTES("\x0f\x0b\x77\x8\x80\0\x3e\x1a\x3b\x2a\x33\x24\x22"), "0:? 100:-"},
		{"plt, threshold of 16", BYTES("\x0f\x0b\x77\x8\x80\0\x3f\x1a\x40\x2a\x33\x24\x22"), "0:? 100:-"},
		{"plt off rbp", BYTES("\x0f\x0b\x76\x8\x80\0\x3f\x1a\x3b\x2a\x33\x24\x22"), "0:? 100:-"},
		{"two registers", BYTES("\x0f\x0a\x77\x8\x79\0\x38\x1e\x22\6\x23\x8"), "0:[r7+8r9+8]+8,c-8,= 100:-"},
		{"two registers, with an offset", BYTES("\x0f\x0a\x77\x8\x79\1\x38\x1e\x22\6\x23\x8"), "0:? 100:-"},
		{"two registers, other scale", BYTES("\x0f\x0a\x77\x8\x79\0\x34\x1e\x22\6\x23\x8"), "0:? 100:-"},
		{"two registers, no dereference", BYTES("\x0f\7\x77\x8\x79\0\x38\x1e\x22"), "0:? 100:-"},
		{"two dereferences", BYTES("\x0f\4\x77\x8\6\6"), "0:? 100:-"},
		{"off the program counter", BYTES("\x0f\2\x80\x8"), "0:? 100:-"},
		{"empty", BYTES("\x0f\0"), "0:? 100:-"},
		{"cut off", BYTES("\x0f\2\x77\x80"), "0:? 100:-"},
		{"offset of 33 bits", BYTES("\x0f\6\x77\x80\x80\x80\x80\x8"), "0:? 100:-"},
		{"overflow",
		 BYTES("\x0f\x18\x77\0\x10\xff\xff\xff\xff\xff\xff\xff\xff\x7f\x22\x10\xff\xff\xff\xff\xff\xff\xff\xff"
		       "\x7f\x22"),
		 "0:? 100:-"},
		{"offset alone behind an expression", BYTES("\x0f\2\x77\x10\x41\x0e\x18\x41\x0c\7\x20"),
		 "0:r7+16,c-8,= 2:r7+32,c-8,= 100:-"},
		{"register alone behind an expression", BYTES("\x0f\3\x76\x78\6\x41\x0d\7"),
		 "0:[r6-8]+0,c-8,= 1:r7+8,c-8,= 100:-"},
		{"both behind expressions", BYTES("\x0f\3\x76\x78\6\x41\x0e\x18\x0f\3\x76\x70\6\x41\x0d\6"),
		 "0:[r6-8]+0,c-8,= 1:[r6-16]+0,c-8,= 2:r6+24,c-8,= 100:-"},
		{"register behind an unknown expression", BYTES("\x0f\4\x77\x8\6\6\x41\x0d\7"), "0:? 1:r7+8,c-8,= 100:-"},
		{"register behind an offset too large", BYTES("\x0e\x80\x80\x80\x80\x8\x41\x0f\2\x77\x10\x41\x0d\7"),
		 "0:? 1:r7+16,c-8,= 2:? 100:-"},
		{"state restored over an expression", BYTES("\x0a\x41\x0f\3\x76\x78\6\x41\x0b"),
		 START " 1:[r6-8]+0,c-8,= 2:r7+8,c-8,= 100:-"},
	};
	for (size_t i = 0; i < COUNT(cases); i++)
		check_program(&cases[i]);
}

/* As glibc's __restore_rt has it: CFA *(rsp+160); rbp at rsp+120, rsp at rsp+160, rip at rsp+168. */
#define SIGNAL_CFA "\x0f\4\x77\xa0\1\6"
#define SIGNAL_FP  "\x10\6\3\x77\xf8\0"
#define SIGNAL_SP  "\x10\7\3\x77\xa0\1"
#define SIGNAL_RA  "\x10\x10\3\x77\xa8\1"

static void check_signal(struct bytes cie, struct bytes program, const char *what, const char *want)
{
	check_fde(EM_X86_64, cie, program, what, want);
}

static void test_knows_signal_frames(void **state)
{
	struct bytes cie = BYTES("\1zRS\0\1\x78\x10\1\x1b"), plain = BYTES("\1zR\0\1\x78\x10\1\x1b");
	check_signal(cie, BYTES(SIGNAL_CFA SIGNAL_FP SIGNAL_SP SIGNAL_RA), "glibc", "0:! 100:-");
	check_signal(cie, BYTES("\x41" SIGNAL_CFA SIGNAL_FP SIGNAL_SP SIGNAL_RA), "later", "0:? 1:! 100:-");
	check_signal(plain, BYTES(SIGNAL_CFA SIGNAL_FP SIGNAL_SP SIGNAL_RA), "without S", "0:? 100:-");
	check_signal(cie, BYTES(SIGNAL_CFA SIGNAL_FP SIGNAL_SP), "without return address", "0:? 100:-");
	check_signal(cie, BYTES(SIGNAL_CFA SIGNAL_SP SIGNAL_RA), "without frame pointer", "0:? 100:-");
	check_signal(cie, BYTES("\x0f\4\x77\xa8\1\6" SIGNAL_FP SIGNAL_SP SIGNAL_RA), "another CFA", "0:? 100:-");
	check_signal(cie, BYTES("\x0c\7\x8\x90\1"), "an ordinary rule", "0:r7+8,c-8,= 100:-");
}

/* ---- CIEs and encodings ------------------------------------------------------------------------------------------------- */

static void check_cie(const char *what, struct bytes cie, bool is_debug, bool is_good)
{
	struct section s;
	section_init(&s, is_debug);
	put_raw_cie(&s, cie);
	put_fde(&s, 0, 0x100, BYTES("\0"));
	check_section(&s, EM_X86_64, what, is_good ? START " 100:-" : "", !is_good);
}

static void test_reads_versions_and_augmentations(void **state)
{
	static const struct {
		const char *name;
		struct bytes cie;
		bool is_good;
	} cases[] = {
		{"version 3", BYTES("\3zR\0\1\x78\x10\1\x1b" START_PROGRAM), true},
		{"version 3, long column", BYTES("\3zR\0\1\x78\x90\0\1\x1b" START_PROGRAM), true},
		{"version 4", BYTES("\4zR\0\x8\0\1\x78\x10\1\x1b" START_PROGRAM), true},
		{"version 4, addresses of 4 bytes", BYTES("\4zR\0\4\0\1\x78\x10\1\x1b" START_PROGRAM), false},
		{"version 4, segments", BYTES("\4zR\0\x8\1\1\x78\x10\1\x1b" START_PROGRAM), false},
		{"version 2", BYTES("\2zR\0\1\x78\x10\1\x1b" START_PROGRAM), false},
		{"personality", BYTES("\1zPLR\0\1\x78\x10\7\x9b\1\2\3\4\x1b\x1b" START_PROGRAM), true},
		{"personality of 8 bytes", BYTES("\1zPR\0\1\x78\x10\x0a\0\1\2\3\4\5\6\7\x8\x1b" START_PROGRAM), true},
		{"personality cut off", BYTES("\1zPR\0\1\x78\x10\3\x9b\1\2" START_PROGRAM), false},
		{"personality left out", BYTES("\1zPR\0\1\x78\x10\2\xff\x1b" START_PROGRAM), true},
		{"signal", BYTES("\1zRS\0\1\x78\x10\1\x1b" START_PROGRAM), true},
		{"B and G", BYTES("\1zRBG\0\1\x78\x10\1\x1b" START_PROGRAM), true},
		{"more augmentation data", BYTES("\1zR\0\1\x78\x10\4\x1b\1\2\3" START_PROGRAM), true},
		{"augmentation data beyond the entry", BYTES("\1zR\0\1\x78\x10\x7f\x1b" START_PROGRAM), false},
		{"encoding missing", BYTES("\1zR\0\1\x78\x10\0" START_PROGRAM), false},
		{"unknown letter", BYTES("\1zRX\0\1\x78\x10\1\x1b" START_PROGRAM), false},
		{"unknown augmentation", BYTES("\1armcc+\0\1\x78\x10" START_PROGRAM), false},
		{"augmentation without an end", BYTES("\1zRzRzRzR"), false},
		{"code factor 0", BYTES("\1zR\0\0\x78\x10\1\x1b" START_PROGRAM), false},
		{"code factor of 2^32", BYTES("\1zR\0\x80\x80\x80\x80\x10\x78\x10\1\x1b" START_PROGRAM), false},
		{"data factor of -2^31", BYTES("\1zR\0\1\x80\x80\x80\x80\x78\x10\1\x1b" START_PROGRAM), false},
		{"return address in the stack pointer", BYTES("\1zR\0\1\x78\7\1\x1b" START_PROGRAM), false},
		{"return address in column 2^32", BYTES("\3zR\0\1\x78\x90\x80\x80\x80\x10\1\x1b" START_PROGRAM), false},
		{"advance in the CIE", BYTES("\1zR\0\1\x78\x10\1\x1b\x41" START_PROGRAM), false},
		{"advance by 0 in the CIE", BYTES("\1zR\0\1\x78\x10\1\x1b\x40" START_PROGRAM), false},
		{"restore in the CIE", BYTES("\1zR\0\1\x78\x10\1\x1b\xc6" START_PROGRAM), false},
		{"damaged program", BYTES("\1zR\0\1\x78\x10\1\x1b" START_PROGRAM "\x3f"), false},
		{"indirect addresses", BYTES("\1zR\0\1\x78\x10\1\x9b" START_PROGRAM), false},
		{"addresses relative to data", BYTES("\1zR\0\1\x78\x10\1\x3b" START_PROGRAM), false},
		{"addresses relative to text", BYTES("\1zR\0\1\x78\x10\1\x2b" START_PROGRAM), false},
		{"addresses left out", BYTES("\1zR\0\1\x78\x10\1\xff" START_PROGRAM), false},
		{"unknown format", BYTES("\1zR\0\1\x78\x10\1\x15" START_PROGRAM), false},
		{"empty", BYTES(""), false},
	};
	for (size_t i = 0; i < COUNT(cases); i++)
		check_cie(cases[i].name, cases[i].cie, false, cases[i].is_good);
	check_cie("debug 3", BYTES("\3\0\1\x78\x10" START_PROGRAM), true, true);
	check_cie("debug 4", BYTES("\4\0\x8\0\1\x78\x10" START_PROGRAM), true, true);
	check_cie("debug, gcc 2", BYTES("\1eh\0\1\2\3\4\5\6\7\x8\1\x78\x10" START_PROGRAM), true, true);
	check_cie("debug, segments", BYTES("\4\0\x8\4\1\x78\x10" START_PROGRAM), true, false);
}

static void check_encoding(uint8_t encoding, size_t bytes, uint64_t start)
{
	struct section s;
	uint8_t cie[] = {1, 'z', 'R', 0, 1, 0x78, 16, 1, encoding, 0x0c, 7, 8, 0x90, 1};
	section_init(&s, false);
	put_raw_cie(&s, (struct bytes){cie, sizeof(cie)});
	size_t begun = begin_entry(&s);
	test_cfi_put_int(&s.data, s.data.len - s.cie, 4);
	if ((encoding & 0x70) == 0x10)
		start -= s.address + s.data.len;
	if (bytes == 0) { /* LEB128 of 5 bytes */
		for (unsigned i = 0; i < 5; i++)
			test_cfi_put_int(&s.data, ((start >> (7 * i)) & 0x7f) | (i < 4 ? 0x80 : 0), 1);
		test_cfi_put(&s.data, "\x80\x02", 2);
	} else {
		test_cfi_put_int(&s.data, start, bytes);
		test_cfi_put_int(&s.data, 0x100, bytes);
	}
	test_cfi_put(&s.data, "\0", 1);
	end_entry(&s, begun);
	check_section(&s, EM_X86_64, "encoding", START " 100:-", 0);
}

static void test_reads_address_encodings(void **state)
{
	check_encoding(0x00, 8, TEST_CFI_TEXT);
	check_encoding(0x01, 0, TEST_CFI_TEXT);
	check_encoding(0x03, 4, TEST_CFI_TEXT);
	check_encoding(0x04, 8, TEST_CFI_TEXT);
	check_encoding(0x09, 0, TEST_CFI_TEXT);
	check_encoding(0x0b, 4, TEST_CFI_TEXT);
	check_encoding(0x0c, 8, TEST_CFI_TEXT);
	check_encoding(0x10, 8, TEST_CFI_TEXT);
	check_encoding(0x19, 0, TEST_CFI_TEXT);
	check_encoding(0x1b, 4, TEST_CFI_TEXT);
	check_encoding(0x1c, 8, TEST_CFI_TEXT);
}

static void test_reads_lengths_of_64_bits(void **state)
{
	for (int is_debug = 0; is_debug < 2; is_debug++) {
		struct section s;
		size_t id_bytes = is_debug ? 8 : 4;
		section_init(&s, is_debug);
		test_cfi_put_int(&s.data, UINT32_MAX, 4);
		test_cfi_put_int(&s.data, id_bytes + (is_debug ? 10 : 14), 8);
		test_cfi_put_int(&s.data, is_debug ? UINT64_MAX : 0, id_bytes);
		test_cfi_put(&s.data, is_debug ? "\1\0\1\x78\x10\x0c\7\x8\x90\1" : "\1zR\0\1\x78\x10\1\0\x0c\7\x8\x90\1",
			     is_debug ? 10 : 14);
		test_cfi_put_int(&s.data, UINT32_MAX, 4);
		test_cfi_put_int(&s.data, id_bytes + 16 + !is_debug, 8);
		test_cfi_put_int(&s.data, is_debug ? 0 : s.data.len, id_bytes);
		test_cfi_put_int(&s.data, TEST_CFI_TEXT, 8);
		test_cfi_put_int(&s.data, 0x100, 8);
		if (!is_debug)
			test_cfi_put_int(&s.data, 0, 1);
		check_section(&s, EM_X86_64, "64 bits", START " 100:-", 0);
	}
}

/* ---- entries ------------------------------------------------------------------------------------------------------------ */

static void test_orders_entries(void **state)
{
	struct section s;
	section_init(&s, false);
	put_cie(&s);
	put_simple(&s, 0x30, 0x10, 48);
	put_simple(&s, 0x10, 0x10, 16);
	put_simple(&s, 0x50, 0x10, 80);
	put_simple(&s, 0x20, 0x10, 32);
	check_section(&s, EM_X86_64, "order", "10:r7+16,c-8,= 20:r7+32,c-8,= 30:r7+48,c-8,= 40:- 50:r7+80,c-8,= 60:-", 0);
}

static void test_orders_many_entries(void **state)
{
	struct section s;
	struct buffer want;
	section_init(&s, false);
	buffer_init(&want, 1 << 24);
	put_cie(&s);
	/* 797 and 4096 have no common factor: every place once, in disorder. Neighbours differ in their CFA. */
	for (uint64_t i = 0; i < 4096; i++) {
		uint64_t at = i * 797 % 4096;
		put_simple(&s, at * 0x100, 0x100, (uint8_t)(at % 100));
	}
	for (unsigned i = 0; i < 4096; i++)
		buffer_printf(&want, "%x:r7+%u,c-8,= ", i * 0x100, i % 100);
	buffer_append_string(&want, "100000:-");
	check_section(&s, EM_X86_64, "many", buffer_string(&want), 0);
	buffer_release(&want);
}

static void test_later_start_wins(void **state)
{
	struct section s;
	section_init(&s, false);
	put_cie(&s);
	put_simple(&s, 0x00, 0x100, 16);
	put_simple(&s, 0x40, 0x10, 32);
	put_simple(&s, 0x200, 0x10, 48);
	put_simple(&s, 0x200, 0x20, 64);
	put_fde(&s, 0x300, 0x100, BYTES("\x0e\x10\x60\x0e\x18\x60\x0e\x20"));
	put_simple(&s, 0x310, 0x10, 72);
	check_section(&s, EM_X86_64, "overlaps",
		      "0:r7+16,c-8,= 40:r7+32,c-8,= 50:- 200:r7+64,c-8,= 220:- 300:r7+16,c-8,= 310:r7+72,c-8,= 320:-", 0);
}

static void test_leaves_out_what_was_discarded(void **state)
{
	struct section s;
	section_init(&s, false);
	put_cie(&s);
	put_simple(&s, 0x10, 0, 16);
	put_simple(&s, -TEST_CFI_TEXT, 0x10, 16);		 /* address 0 */
	put_simple(&s, -0x100, 0x10, 16);			 /* before the text */
	put_simple(&s, TEST_CFI_TEXT_LEN, 0x10, 16);		 /* behind it */
	put_simple(&s, TEST_CFI_DATA - TEST_CFI_TEXT, 0x10, 16); /* not executed */
	put_simple(&s, 0x20, 0x10, 32);
	check_section(&s, EM_X86_64, "discarded", "20:r7+32,c-8,= 30:-", 0);
	section_init(&s, false);
	put_cie(&s);
	put_simple(&s, TEST_CFI_TEXT_LEN - 8, 0x10, 16); /* half in the text */
	check_section(&s, EM_X86_64, "reaches out", "", 1);
}

static void test_leaves_out_address_0_of_a_library(void **state)
{
	struct section s;
	struct buffer bytes;
	struct result result;
	section_init(&s, false);
	put_cie(&s);
	put_simple(&s, -TEST_CFI_TEXT, 0x10, 16);
	put_simple(&s, 0x10 - TEST_CFI_TEXT, 0x10, 24);
	struct test_cfi_file file = {.sections = {{.name = ".eh_frame", .data = buffer_bytes(&s.data)}}, .section_count = 1};
	buffer_init(&bytes, 1 << 20);
	test_cfi_build(&file, &bytes);
	((Elf64_Phdr *)(bytes.data + sizeof(Elf64_Ehdr)))[1].p_vaddr = 0;
	read_bytes(buffer_bytes(&bytes), &result);
	const char *text = buffer_string(&result.text);
	assert_non_null(strstr(text, ":r7+24,c-8,= "));
	assert_null(strstr(text, "r7+16"));
	assert_int_equal(result.stats.bad_entries, 0);
	buffer_release(&result.text);
	buffer_release(&bytes);
	buffer_release(&s.data);
}

static void test_counts_damaged_entries(void **state)
{
	struct section s;
	section_init(&s, false);
	put_cie(&s);
	put_simple(&s, 0x10, 0x10, 16);
	uint64_t cie = s.cie;
	s.cie = 4; /* no CIE begins there */
	put_simple(&s, 0x20, 0x10, 32);
	s.cie = (uint64_t)-100; /* before the section */
	put_simple(&s, 0x30, 0x10, 32);
	s.cie = s.data.len; /* itself: a cycle. The id is 4, which leads to its own length */
	put_simple(&s, 0x38, 8, 32);
	s.cie = cie;
	size_t begun = begin_entry(&s); /* too short for its addresses */
	test_cfi_put_int(&s.data, s.data.len - cie, 4);
	test_cfi_put_int(&s.data, 1, 4);
	end_entry(&s, begun);
	begun = begin_entry(&s); /* too short for an id */
	test_cfi_put_int(&s.data, 1, 2);
	end_entry(&s, begun);
	put_simple(&s, 0x40, 0x10, 48);
	test_cfi_put_int(&s.data, 0, 4); /* a terminator in the middle */
	put_simple(&s, 0x50, 0x10, 64);
	test_cfi_put_int(&s.data, 0x7fffffff, 4); /* longer than the section: the walk ends */
	put_simple(&s, 0x60, 0x10, 80);
	check_section(&s, EM_X86_64, "damaged entries", "10:r7+16,c-8,= 20:- 40:r7+48,c-8,= 50:r7+64,c-8,= 60:-", 6);
}

static void test_every_cut_is_survived(void **state)
{
	struct section s;
	section_init(&s, false);
	put_raw_cie(&s, BYTES("\1zPLR\0\1\x78\x10\7\x9b\1\2\3\4\x1b\x1b" START_PROGRAM));
	put_fde(&s, 0, 0x100, BYTES("\x41\x0e\x10\x86\2\x43\x0d\6\x0a\x41\x0f\3\x76\x78\6\x41\x0b"));
	put_fde(&s, 0x100, 0x100, BYTES("\x41\x10\6\2\x76\0"));
	for (size_t len = 0; len <= s.data.len; len++) {
		/* Exactly as much memory as there are bytes, for the sanitizer. */
		struct bytes cut = {s.data.data, len};
		struct test_cfi_file file = {.sections = {{.name = ".eh_frame", .data = cut}}, .section_count = 1};
		struct result result;
		read_file(&file, &result);
		assert_int_equal(result.status, 0);
		buffer_release(&result.text);
	}
	buffer_release(&s.data);
}

/* Sections made to be slow. */
static void test_time_is_bounded(void **state)
{
	enum { CIES, TERMINATORS, ADVANCES, OVERLAPS, KINDS };
	for (int kind = 0; kind < KINDS; kind++) {
		struct section s;
		section_init(&s, false);
		put_cie(&s);
		for (size_t i = 0; s.data.len < 4 << 20; i++) {
			if (kind == CIES)
				put_cie(&s);
			else if (kind == TERMINATORS)
				test_cfi_put_int(&s.data, 0, 4);
			else if (kind == ADVANCES)
				put_fde(&s, i % 1000, 0x10000, BYTES("\x41\x0e\x10\x41\x0e\x8\x41\x0e\x10\x41\x0e\x8"));
			else
				put_simple(&s, 0x8000 - i % 0x8000, 0x8000, (uint8_t)i % 100);
		}
		struct test_cfi_file file = {.sections = {{.name = ".eh_frame", .data = buffer_bytes(&s.data)}},
					     .section_count = 1};
		struct result result;
		int64_t start = time_thread_cpu_ns();
		read_file(&file, &result);
		assert_int_equal(result.status, 0);
		assert_true(time_thread_cpu_ns() - start < 2 * NS_PER_S);
		buffer_release(&result.text);
		buffer_release(&s.data);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_runs_every_instruction),
		cmocka_unit_test(test_set_loc_is_relative_to_itself),
		cmocka_unit_test(test_no_cfa_is_unsupported),
		cmocka_unit_test(test_restores_what_the_cie_says),
		cmocka_unit_test(test_damage_ends_a_function),
		cmocka_unit_test(test_remembered_states_are_bounded),
		cmocka_unit_test(test_damage_stays_in_its_function),
		cmocka_unit_test(test_knows_the_expressions_that_occur),
		cmocka_unit_test(test_knows_signal_frames),
		cmocka_unit_test(test_reads_versions_and_augmentations),
		cmocka_unit_test(test_reads_address_encodings),
		cmocka_unit_test(test_reads_lengths_of_64_bits),
		cmocka_unit_test(test_orders_entries),
		cmocka_unit_test(test_orders_many_entries),
		cmocka_unit_test(test_later_start_wins),
		cmocka_unit_test(test_leaves_out_what_was_discarded),
		cmocka_unit_test(test_leaves_out_address_0_of_a_library),
		cmocka_unit_test(test_counts_damaged_entries),
		cmocka_unit_test(test_every_cut_is_survived),
		cmocka_unit_test(test_time_is_bounded),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
