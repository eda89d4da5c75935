// SPDX-License-Identifier: Apache-2.0
#include "elf/code/x86_state.h"

#define DEPTH_MAX (1 << 20)

#define CALLER_SAVED                                                                                                           \
	(1u << X86_RAX | 1u << X86_RCX | 1u << X86_RDX | 1u << X86_RSI | 1u << X86_RDI | 1u << 8 | 1u << 9 | 1u << 10 |        \
	 1u << 11)

struct x86_state x86_state_at_entry(void)
{
	struct x86_state state = {.rbp = X86_SAME, .rbx = X86_SAME};
	for (unsigned i = 0; i < X86_REGISTERS; i++)
		state.below[i] = X86_UNKNOWN;
	state.below[X86_RSP] = 8;
	return state;
}

static int32_t *callers(struct x86_state *state, unsigned reg)
{
	return reg == X86_RBP ? &state->rbp : reg == X86_RBX ? &state->rbx : NULL;
}

/* The register has a new value, `below` the CFA if that is known. */
static void set(struct x86_state *state, unsigned reg, int32_t below)
{
	int32_t *caller = callers(state, reg);
	if (reg >= X86_REGISTERS)
		return;
	state->below[reg] = below;
	if (caller && *caller == X86_SAME)
		*caller = X86_LOST;
}

static void clobber(struct x86_state *state, uint32_t registers)
{
	for (unsigned i = 0; i < X86_REGISTERS; i++)
		if (registers >> i & 1)
			set(state, i, X86_UNKNOWN);
}

/* CFA - (register + value). */
static int32_t below_of(const struct x86_state *state, unsigned reg, int64_t value)
{
	if (reg >= X86_REGISTERS || state->below[reg] == X86_UNKNOWN || value > DEPTH_MAX || value < -DEPTH_MAX)
		return X86_UNKNOWN;
	int64_t below = state->below[reg] - value;
	return below > DEPTH_MAX || below < -DEPTH_MAX ? X86_UNKNOWN : (int32_t)below;
}

/* A word is written at CFA - below: perhaps the caller's value of the register is saved, perhaps what was saved is gone. */
static void store(struct x86_state *state, int32_t below, unsigned reg)
{
	if (below == X86_UNKNOWN)
		return;
	if (state->rbp == -below && below > 0)
		state->rbp = X86_LOST;
	if (state->rbx == -below && below > 0)
		state->rbx = X86_LOST;
	int32_t *caller = callers(state, reg);
	if (caller && *caller == X86_SAME && below > 8)
		*caller = -below;
}

/* The register gets the word at CFA - below. */
static void load(struct x86_state *state, int32_t below, unsigned reg)
{
	int32_t *caller = callers(state, reg);
	bool restored = caller && below != X86_UNKNOWN && below > 0 && *caller == -below;
	set(state, reg, X86_UNKNOWN);
	if (restored)
		*caller = X86_SAME;
}

void x86_state_push(struct x86_state *state, unsigned reg)
{
	if (state->below[X86_RSP] == X86_UNKNOWN)
		return;
	state->below[X86_RSP] += 8;
	store(state, state->below[X86_RSP], reg);
}

static void pop(struct x86_state *state, unsigned reg)
{
	int32_t below = state->below[X86_RSP];
	if (below != X86_UNKNOWN)
		state->below[X86_RSP] = below - 8;
	if (reg == X86_RSP)
		state->below[X86_RSP] = X86_UNKNOWN;
	else if (reg < X86_REGISTERS)
		load(state, below, reg);
}

void x86_state_return(struct x86_state *state)
{
	clobber(state, CALLER_SAVED);
}

/* Whether a register that calls preserve holds a place in this frame: rsp will be had back from it. */
static bool has_frame_register(const struct x86_state *state)
{
	for (unsigned i = 0; i < X86_REGISTERS; i++)
		if (i != X86_RSP && !(CALLER_SAVED >> i & 1) && state->below[i] != X86_UNKNOWN)
			return true;
	return false;
}

/*
 * rsp comes from somewhere. Where a register keeps the frame, it is room of a size that is not known (alloca()), or a stack to
 * call on (Go's systemstack()); the frame is where it was. Else it is that of another stack, which was left by the same way,
 * and nothing else points there.
 */
static void switch_stack(struct x86_state *state)
{
	int32_t below = state->below[X86_RSP];
	if (has_frame_register(state)) {
		state->below[X86_RSP] = X86_UNKNOWN;
		return;
	}
	for (unsigned i = 0; i < X86_REGISTERS; i++)
		state->below[i] = X86_UNKNOWN;
	state->below[X86_RSP] = below;
	state->switched = 1;
}

/* rsp and another register change places. */
static void exchange_stack(struct x86_state *state, unsigned other)
{
	int32_t below = state->below[X86_RSP], others = below_of(state, other, 0);
	set(state, other, below);
	if (others == X86_UNKNOWN)
		switch_stack(state);
	else
		state->below[X86_RSP] = others;
}

static void enter(struct x86_state *state, int64_t room)
{
	x86_state_push(state, X86_RBP);
	set(state, X86_RBP, state->below[X86_RSP]);
	set(state, X86_RSP, below_of(state, X86_RSP, -room));
}

static void leave(struct x86_state *state)
{
	state->below[X86_RSP] = state->below[X86_RBP];
	pop(state, X86_RBP);
}

void x86_state_apply(struct x86_state *state, const struct x86_instruction *in)
{
	switch (in->kind) {
	case X86_OTHER: clobber(state, in->writes); break;
	case X86_PUSH: x86_state_push(state, in->reg); break;
	case X86_POP: pop(state, in->reg); break;
	case X86_ADD: set(state, in->reg, below_of(state, in->reg, in->value)); break;
	case X86_ADDRESS: set(state, in->reg, X86_UNKNOWN); break;
	case X86_LEA: set(state, in->reg, below_of(state, in->base, in->value)); break;
	case X86_STORE: store(state, below_of(state, in->base, in->value), in->reg); break;
	case X86_MOVE:
	case X86_LOAD:
		if (in->reg == X86_RSP && (in->kind == X86_LOAD || below_of(state, in->base, 0) == X86_UNKNOWN))
			switch_stack(state);
		else if (in->kind == X86_LOAD)
			load(state, below_of(state, in->base, in->value), in->reg);
		else
			set(state, in->reg, below_of(state, in->base, 0));
		break;
	case X86_EXCHANGE:
		if (in->reg == X86_RSP || in->base == X86_RSP)
			exchange_stack(state, in->reg == X86_RSP ? in->base : in->reg);
		else
			clobber(state, 1u << in->reg | (in->base < X86_REGISTERS ? 1u << in->base : 0));
		break;
	case X86_CLEAR:
		if (in->reg == X86_RBP && state->rbp == X86_SAME && state->below[X86_RSP] == 8)
			state->outermost = 1;
		set(state, in->reg, X86_UNKNOWN);
		break;
	case X86_ENTER: enter(state, in->value); break;
	case X86_LEAVE: leave(state); break;
	case X86_CALL:
	case X86_CALL_INDIRECT: x86_state_return(state); break;
	default: break;
	}
}

static const uint8_t dwarf_numbers[X86_REGISTERS] = {0, 2, 1, 3, 7, 6, 4, 5, 8, 9, 10, 11, 12, 13, 14, 15};

struct unwind_rule x86_state_rule(const struct x86_state *state)
{
	static const uint8_t order[] = {X86_RSP, X86_RBP, X86_RBX, X86_RAX, 10, 11, 12, 13, 14, 15, X86_RCX, X86_RDX, 8, 9};
	struct unwind_rule ret = {.cfa = UNWIND_CFA_NONE};
	if (state->outermost) {
		ret.cfa = UNWIND_CFA_END;
		return ret;
	}
	for (size_t i = 0; i < sizeof(order); i++) {
		int32_t below = state->below[order[i]];
		if (below == X86_UNKNOWN)
			continue;
		ret = (struct unwind_rule){
			.cfa = UNWIND_CFA_REGISTER | UNWIND_RULE_ANALYSED,
			.cfa_register = dwarf_numbers[order[i]],
			.offset = below,
			.offset2 = state->rbx == X86_LOST || state->rbx % 8 != 0 ? UNWIND_RBX_LOST : state->rbx,
			.ra = UNWIND_WHERE_CFA,
			.ra_offset = -8,
		};
		if (state->rbp == X86_LOST || state->rbp != (int16_t)state->rbp) {
			ret.fp = UNWIND_WHERE_LOST;
		} else if (state->rbp != X86_SAME) {
			ret.fp = UNWIND_WHERE_CFA;
			ret.fp_offset = (int16_t)state->rbp;
		}
		break;
	}
	return ret;
}
