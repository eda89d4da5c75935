/* SPDX-License-Identifier: Apache-2.0 */
/*
 * DWARF expressions in call frame information (DWARF 5, 2.5).
 *
 * A general evaluator needs a stack, branches and memory reads of the unwound process; compilers and linkers use five forms:
 *
 *   breg R off [+- constants]                       -> R + off
 *   breg R off [+- constants] deref [+- constants]  -> *(R + off) + off2: realigned stacks (gcc), hand-written assembly
 *                                                      (OpenSSL)
 *   breg R off; breg S 0; lit8; mul; plus; deref [+- constants]
 *                                                   -> *(R + 8 * S + off) + off2: a stack pointer that is saved behind an array
 *                                                      (OpenSSL's bn_mul_mont(), x86-64)
 *   breg7 off; breg16 0; lit15; and; litN; ge; lit3; shl; plus
 *                                                   -> entries of .plt, which push 8 bytes in their first N bytes (linkers)
 *   breg R off as the place of one register         -> *(R + off)
 *
 * All else is reported as unsupported, never guessed.
 */
#include <string.h>

#include "elf/cfi_dwarf.h"
#include "elf/cfi_int.h"

#define PLT_REGISTER_SP 7 /* x86-64 */

static bool read_base(struct cfi_cursor *cursor, uint64_t *ret_register, int64_t *ret_offset)
{
	if (cursor->at == cursor->end)
		return false;
	uint8_t op = *cursor->at++;
	if (op == DW_OP_bregx) {
		if (!cfi_read_uleb(cursor, ret_register))
			return false;
	} else if (op >= DW_OP_breg0 && op <= DW_OP_breg31) {
		*ret_register = op - DW_OP_breg0;
	} else {
		return false;
	}
	return cfi_read_sleb(cursor, ret_offset);
}

bool cfi_expression_is_base(struct cfi_cursor expression, uint64_t *ret_register, int64_t *ret_offset)
{
	return read_base(&expression, ret_register, ret_offset) && expression.at == expression.end;
}

/* An operation that pushes a constant. */
static bool read_constant(struct cfi_cursor *cursor, uint8_t op, int64_t *ret)
{
	uint64_t *value = (uint64_t *)ret;
	*value = op - DW_OP_lit0;
	switch (op) {
	case DW_OP_const1u: return cfi_read_fixed(cursor, 1, value);
	case DW_OP_const1s: return cfi_read_signed(cursor, 1, value);
	case DW_OP_const2u: return cfi_read_fixed(cursor, 2, value);
	case DW_OP_const2s: return cfi_read_signed(cursor, 2, value);
	case DW_OP_const4u: return cfi_read_fixed(cursor, 4, value);
	case DW_OP_const4s: return cfi_read_signed(cursor, 4, value);
	case DW_OP_constu: return cfi_read_uleb(cursor, value);
	case DW_OP_consts: return cfi_read_sleb(cursor, ret);
	default: return op >= DW_OP_lit0 && op <= DW_OP_lit31;
	}
}

/* Adds what follows to *offset, up to the end or to an operation that adds nothing. False if that is malformed. */
static bool read_additions(struct cfi_cursor *cursor, int64_t *offset)
{
	while (cursor->at < cursor->end) {
		struct cfi_cursor next = *cursor;
		uint8_t op = *next.at++;
		int64_t term;
		uint64_t value;
		if (op == DW_OP_nop) {
			*cursor = next;
			continue;
		}
		bool negative = false;
		if (op == DW_OP_plus_uconst) {
			if (!cfi_read_uleb(&next, &value) || value > INT32_MAX)
				return false;
			term = (int64_t)value;
		} else {
			if (!read_constant(&next, op, &term))
				return true;
			if (next.at == next.end || (*next.at != DW_OP_plus && *next.at != DW_OP_minus))
				return false;
			negative = *next.at++ == DW_OP_minus;
		}
		if (negative ? __builtin_sub_overflow(*offset, term, offset) : __builtin_add_overflow(*offset, term, offset))
			return false;
		*cursor = next;
	}
	return true;
}

static bool fits(int64_t offset)
{
	return offset >= INT32_MIN && offset <= INT32_MAX;
}

static bool parse_sum(const struct cfi_machine *machine, struct cfi_cursor cursor, struct unwind_rule *ret)
{
	uint64_t base;
	int64_t offset, offset2 = 0;
	if (!read_base(&cursor, &base, &offset) || base >= machine->registers || !read_additions(&cursor, &offset))
		return false;
	uint8_t form = UNWIND_CFA_REGISTER;
	if (cursor.at < cursor.end && *cursor.at == DW_OP_deref) {
		form = UNWIND_CFA_DEREFERENCE;
		cursor.at++;
		if (!read_additions(&cursor, &offset2))
			return false;
	}
	if (cursor.at != cursor.end || !fits(offset) || !fits(offset2))
		return false;
	*ret = (struct unwind_rule){
		.cfa = form, .cfa_register = (uint8_t)base, .offset = (int32_t)offset, .offset2 = (int32_t)offset2};
	return true;
}

static bool parse_indexed(const struct cfi_machine *machine, struct cfi_cursor cursor, struct unwind_rule *ret)
{
	static const uint8_t scale[] = {DW_OP_lit0 + 8, DW_OP_mul, DW_OP_plus, DW_OP_deref};
	uint64_t base, index;
	int64_t offset, index_offset, offset2 = 0;
	if (machine->machine != EM_X86_64 || !read_base(&cursor, &base, &offset) ||
	    !read_base(&cursor, &index, &index_offset) || base >= machine->registers || index >= machine->registers ||
	    index_offset != 0)
		return false;
	if ((size_t)(cursor.end - cursor.at) < sizeof(scale) || memcmp(cursor.at, scale, sizeof(scale)) != 0)
		return false;
	cursor.at += sizeof(scale);
	if (!read_additions(&cursor, &offset2) || cursor.at != cursor.end || !fits(offset) || !fits(offset2))
		return false;
	*ret = (struct unwind_rule){.cfa = UNWIND_CFA_INDEXED,
				    .cfa_register = (uint8_t)(base | index << 4),
				    .offset = (int32_t)offset,
				    .offset2 = (int32_t)offset2};
	return true;
}

static bool parse_plt(const struct cfi_machine *machine, struct cfi_cursor cursor, struct unwind_rule *ret)
{
	static const uint8_t before[] = {DW_OP_breg0 + 16, 0, DW_OP_lit0 + 15, DW_OP_and};
	static const uint8_t behind[] = {DW_OP_ge, DW_OP_lit0 + 3, DW_OP_shl, DW_OP_plus};
	uint64_t base;
	int64_t offset;
	if (machine->machine != EM_X86_64 || !read_base(&cursor, &base, &offset) || base != PLT_REGISTER_SP || !fits(offset))
		return false;
	if ((size_t)(cursor.end - cursor.at) != sizeof(before) + 1 + sizeof(behind))
		return false;
	uint8_t threshold = (uint8_t)(cursor.at[sizeof(before)] - DW_OP_lit0);
	if (memcmp(cursor.at, before, sizeof(before)) != 0 || threshold > 15 ||
	    memcmp(cursor.at + sizeof(before) + 1, behind, sizeof(behind)) != 0)
		return false;
	*ret = (struct unwind_rule){
		.cfa = UNWIND_CFA_PLT, .cfa_register = PLT_REGISTER_SP, .offset = (int32_t)offset, .offset2 = threshold};
	return true;
}

void cfi_expression_cfa(const struct cfi_machine *machine, struct cfi_cursor expression, struct cfi_state *state)
{
	struct unwind_rule cfa = {0}, *rule = &state->is.rule;
	bool known = parse_sum(machine, expression, &cfa) || parse_plt(machine, expression, &cfa) ||
		     parse_indexed(machine, expression, &cfa);
	if (!(state->odd & CFI_ODD_CFA_EXPRESSION))
		state->plain_offset = state->odd & (CFI_ODD_CFA_UNKNOWN | CFI_ODD_CFA_FAR) ? INT64_MAX : rule->offset;
	state->odd &= ~(uint32_t)CFI_ODD_CFA;
	state->odd |= CFI_ODD_CFA_EXPRESSION | (known ? 0 : CFI_ODD_CFA_UNKNOWN);
	rule->cfa = cfa.cfa;
	rule->cfa_register = cfa.cfa_register;
	rule->offset = cfa.offset;
	rule->offset2 = cfa.cfa == UNWIND_CFA_REGISTER ? state->rbx : cfa.offset2;
}
