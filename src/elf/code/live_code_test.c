// SPDX-License-Identifier: Apache-2.0
/* What the code of JIT compilers says of the stack, from any address in it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "elf/code/live_code.h"

#define ADDRESS 0x7f0000001000ull
#define RBP	6
#define RSP	7

static struct live_code analyse(const void *code, size_t bytes, uint32_t at)
{
	struct live_code live;
	assert_int_equal(live_code_analyse(code, bytes, ADDRESS, at, &live), 0);
	return live;
}

static const struct live_code_row *row_at(const struct live_code *live, uint32_t offset)
{
	for (size_t i = 0; i < live->count; i++)
		if (live->rows[i].offset == offset)
			return &live->rows[i];
	return NULL;
}

static void expect_rule(const struct live_code *live, uint32_t offset, unsigned cfa_register, int cfa, int fp)
{
	const struct live_code_row *row = row_at(live, offset);
	assert_non_null(row);
	assert_int_equal(row->rule.cfa, UNWIND_CFA_REGISTER | UNWIND_RULE_ANALYSED);
	assert_int_equal(row->rule.cfa_register, cfa_register);
	assert_int_equal(row->rule.offset, cfa);
	assert_int_equal(row->rule.ra, UNWIND_WHERE_CFA);
	assert_int_equal(row->rule.ra_offset, -8);
	assert_int_equal(row->rule.fp, fp == 1 ? UNWIND_WHERE_LOST : fp ? UNWIND_WHERE_CFA : UNWIND_WHERE_SAME);
	if (fp < 0)
		assert_int_equal(row->rule.fp_offset, fp);
}

static void expect_frames(const struct live_code *live, uint32_t offset)
{
	assert_non_null(row_at(live, offset));
	assert_int_equal(row_at(live, offset)->rule.cfa, UNWIND_CFA_FRAMES);
}

/* HotSpot's C2: rbp is a register like others, and saved where it was pushed. */
static const uint8_t c2[] = {
	0x48, 0x83, 0xec, 0x18,			  /*  0 sub $24, %rsp */
	0x48, 0x89, 0x6c, 0x24, 0x10,		  /*  4 mov %rbp, 16(%rsp) */
	0x48, 0x8b, 0xee,			  /*  9 mov %rsi, %rbp */
	0xe8, 0x00, 0x01, 0x00, 0x00,		  /* 12 call */
	0x48, 0x83, 0xc4, 0x10,			  /* 17 add $16, %rsp */
	0x5d,					  /* 21 pop %rbp */
	0x49, 0x3b, 0xa7, 0x38, 0x03, 0x00, 0x00, /* 22 cmp 824(%r15), %rsp */
	0x0f, 0x87, 0x01, 0x00, 0x00, 0x00,	  /* 29 ja 36 */
	0xc3,					  /* 35 ret */
	0xe9, 0x00, 0x00, 0x01, 0x00,		  /* 36 jmp far away */
};

static void test_a_frame_from_where_a_call_returns(void **state)
{
	(void)state;
	struct live_code live = analyse(c2, sizeof(c2), 17);
	assert_true(live.proven);
	expect_rule(&live, 17, RSP, 32, -16);
	expect_rule(&live, 21, RSP, 16, -16);
	expect_rule(&live, 22, RSP, 8, 0);
	expect_rule(&live, 35, RSP, 8, 0);
	expect_rule(&live, 36, RSP, 8, 0);
	assert_null(row_at(&live, 12));
	live_code_release(&live);
}

static void test_a_frame_from_its_prologue(void **state)
{
	(void)state;
	for (uint32_t at = 0; at <= 4; at += 4) {
		struct live_code live = analyse(c2, sizeof(c2), at);
		if (at == 0)
			expect_rule(&live, 0, RSP, 8, 0);
		expect_rule(&live, 4, RSP, 32, 0);
		expect_rule(&live, 9, RSP, 32, -16);
		expect_rule(&live, 17, RSP, 32, -16);
		live_code_release(&live);
	}
}

static void test_a_frame_of_a_size_that_is_not_known(void **state)
{
	static const uint8_t code[] = {
		0x48, 0x29, 0xc4, /* 0 sub %rax, %rsp */
		0xff, 0xd2,	  /* 3 call *%rdx */
		0xc9,		  /* 5 leave */
		0xc3,		  /* 6 ret */
	};
	(void)state;
	struct live_code live = analyse(code, sizeof(code), 0);
	expect_rule(&live, 0, RBP, 16, -16);
	expect_rule(&live, 5, RBP, 16, -16);
	expect_rule(&live, 6, RSP, 8, 0);
	live_code_release(&live);
}

/* The two sides of a branch take different amounts off the stack: one of them cannot be. */
static void test_returns_that_contradict_each_other(void **state)
{
	static const uint8_t code[] = {
		0x74, 0x05,		/* 0 je 7 */
		0x48, 0x83, 0xc4, 0x08, /* 2 add $8, %rsp */
		0xc3,			/* 6 ret */
		0x48, 0x83, 0xc4, 0x10, /* 7 add $16, %rsp */
		0xc3,			/* 11 ret */
	};
	(void)state;
	struct live_code live = analyse(code, sizeof(code), 0);
	assert_false(live.proven);
	expect_frames(&live, 0);
	expect_frames(&live, 6);
	live_code_release(&live);
}

/* What lies behind a call that does not return belongs to others. */
static void test_calls_that_do_not_return(void **state)
{
	static const uint8_t code[] = {
		0x74, 0x07,		      /*  0 je 9 */
		0x6a, 0x01,		      /*  2 push $1 */
		0xe8, 0x00, 0x10, 0x00, 0x00, /*  4 call, no return */
		0x48, 0x83, 0xc4, 0x08,	      /*  9 add $8, %rsp */
		0xc3,			      /* 13 ret */
	};
	(void)state;
	struct live_code live = analyse(code, sizeof(code), 0);
	expect_rule(&live, 0, RSP, 16, 0);
	expect_rule(&live, 4, RSP, 24, 0);
	expect_rule(&live, 9, RSP, 16, 0);
	live_code_release(&live);
}

/* V8's calls that deoptimise do not return, and data stands behind them: what is no code, or runs into other code. */
static void test_data_behind_calls_that_do_not_return(void **state)
{
	uint8_t code[] = {
		0xff, 0xc1,		/*  0 inc %ecx */
		0x70, 0x06,		/*  2 jo 10 */
		0x3b, 0xca,		/*  4 cmp %edx, %ecx */
		0x7c, 0xf8,		/*  6 jl 0 */
		0x5d,			/*  8 pop %rbp */
		0xc3,			/*  9 ret */
		0x41, 0xff, 0x55, 0xc8, /* 10 call *-56(%r13), no return */
		0x90,			/* 14 nop */
		0x00, 0x00, 0x00, 0x00, /* 15 the data */
	};
	static const uint8_t no_instruction[] = {0x06};
	static const uint8_t into_code[] = {0xeb, 0xf4};	   /* jmp 5 */
	static const uint8_t next_function[] = {0x53, 0x5b, 0xc3}; /* push %rbx; pop %rbx; ret */
	static const struct {
		const uint8_t *bytes;
		size_t len;
	} data[] = {
		{no_instruction, sizeof(no_instruction)},
		{into_code, sizeof(into_code)},
		{next_function, sizeof(next_function)},
	};
	(void)state;
	for (size_t i = 0; i < sizeof(data) / sizeof(data[0]); i++) {
		memcpy(code + 15, data[i].bytes, data[i].len);
		struct live_code live = analyse(code, sizeof(code), 4);
		assert_true(live.proven);
		expect_rule(&live, 0, RSP, 16, -16);
		expect_rule(&live, 8, RSP, 16, -16);
		expect_rule(&live, 10, RSP, 16, -16);
		live_code_release(&live);
	}
}

/* A loop that ends in what deoptimises it never returns: its function's start is found. */
static void test_code_that_does_not_return(void **state)
{
	static const uint8_t code[] = {
		0x0f, 0x0b, 0x0f, 0x0b, 0xf4, 0xf4, 0xf4, 0xf4, 0xf4, 0xf4, 0xf4, 0xf4, 0xf4, 0xf4, 0xf4, 0xf4, /* 0 */
		0x48, 0x81, 0xec, 0x28, 0x00, 0x00, 0x00, /* 16 sub $40, %rsp */
		0x48, 0x89, 0x6c, 0x24, 0x20,		  /* 23 mov %rbp, 32(%rsp) */
		0xff, 0xc5,				  /* 28 inc %ebp */
		0x3b, 0xee,				  /* 30 cmp %esi, %ebp */
		0x7c, 0xfa,				  /* 32 jl 28 */
		0xe8, 0x00, 0x10, 0x00, 0x00,		  /* 34 call, no return */
		0xf4,					  /* 39 hlt */
	};
	(void)state;
	struct live_code live = analyse(code, sizeof(code), 30);
	assert_true(live.proven);
	expect_rule(&live, 28, RSP, 48, -16);
	expect_rule(&live, 30, RSP, 48, -16);
	expect_rule(&live, 34, RSP, 48, -16);
	live_code_release(&live);
}

/* Clearing rbp makes no root of a function that a compiler made. */
static void test_a_function_that_clears_the_frame_pointer(void **state)
{
	static const uint8_t code[] = {
		0xf3, 0x0f, 0x1e, 0xfa, /* 0 endbr64 */
		0x31, 0xed,		/* 4 xor %ebp, %ebp */
		0xff, 0xc5,		/* 6 inc %ebp */
		0xeb, 0xfc,		/* 8 jmp 6 */
	};
	(void)state;
	struct live_code live = analyse(code, sizeof(code), 6);
	assert_false(live.proven);
	expect_frames(&live, 6);
	live_code_release(&live);
}

/* An interpreter goes from one instruction to the next by an indirect jump. */
static void test_an_interpreter(void **state)
{
	static const uint8_t code[] = {
		0x55,			      /* 0 push %rbp */
		0x41, 0x0f, 0xb6, 0x5d, 0x01, /* 1 movzbl 1(%r13), %ebx */
		0x49, 0xff, 0xc5,	      /* 6 inc %r13 */
		0x41, 0xff, 0x24, 0xda,	      /* 9 jmp *(%r10,%rbx,8) */
	};
	(void)state;
	struct live_code live = analyse(code, sizeof(code), 1);
	assert_false(live.proven);
	expect_frames(&live, 1);
	expect_frames(&live, 9);
	live_code_release(&live);
}

static void test_a_way_that_leads_out(void **state)
{
	static const uint8_t code[] = {
		0x90,			      /* 0 nop */
		0xe9, 0x00, 0x10, 0x00, 0x00, /* 1 jmp far away */
	};
	(void)state;
	struct live_code live = analyse(code, sizeof(code), 0);
	assert_false(live.proven);
	assert_true(live.leaves);
	expect_frames(&live, 0);
	live_code_release(&live);
}

/* rbp that is restored on one of two ways only is nobody's. */
static void test_a_frame_pointer_that_is_not_sure(void **state)
{
	static const uint8_t code[] = {
		0x74, 0x02,		/* 0 je 4 */
		0x5d,			/* 2 pop %rbp */
		0xc3,			/* 3 ret */
		0x48, 0x83, 0xc4, 0x08, /* 4 add $8, %rsp */
		0xc3,			/* 8 ret */
	};
	(void)state;
	struct live_code live = analyse(code, sizeof(code), 0);
	expect_rule(&live, 0, RSP, 16, 1);
	live_code_release(&live);
}

static void test_any_bytes(void **state)
{
	uint8_t bytes[512];
	uint64_t random = 1;
	(void)state;
	for (unsigned round = 0; round < 20000; round++) {
		for (size_t i = 0; i < sizeof(bytes); i++) {
			random = random * 6364136223846793005ull + 1442695040888963407ull;
			bytes[i] = (uint8_t)(random >> 40) % 4 ? (uint8_t)(random >> 33) : c2[(random >> 33) % sizeof(c2)];
		}
		struct live_code live;
		size_t len = 1 + (random >> 20) % sizeof(bytes);
		int r = live_code_analyse(bytes, len, ADDRESS, (uint32_t)((random >> 50) % len), &live);
		assert_true(r >= 0 && (r == 0 || live.count == 0));
		uint32_t last = 0;
		for (size_t i = 0; i < live.count; i++) {
			assert_true(i == 0 || live.rows[i].offset > last);
			last = live.rows[i].offset;
			assert_true(last >= live.start && last + live.rows[i].len <= live.end && live.end <= len);
		}
		live_code_release(&live);
	}
	struct live_code live;
	assert_true(live_code_analyse(bytes, sizeof(bytes), ADDRESS, sizeof(bytes), &live) > 0);
	assert_true(live_code_analyse(bytes, 0, ADDRESS, 0, &live) > 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_frame_from_where_a_call_returns),
		cmocka_unit_test(test_a_frame_from_its_prologue),
		cmocka_unit_test(test_a_frame_of_a_size_that_is_not_known),
		cmocka_unit_test(test_returns_that_contradict_each_other),
		cmocka_unit_test(test_calls_that_do_not_return),
		cmocka_unit_test(test_data_behind_calls_that_do_not_return),
		cmocka_unit_test(test_code_that_does_not_return),
		cmocka_unit_test(test_a_function_that_clears_the_frame_pointer),
		cmocka_unit_test(test_an_interpreter),
		cmocka_unit_test(test_a_way_that_leads_out),
		cmocka_unit_test(test_a_frame_pointer_that_is_not_sure),
		cmocka_unit_test(test_any_bytes),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
