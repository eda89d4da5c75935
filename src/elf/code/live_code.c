// SPDX-License-Identifier: Apache-2.0
/*
 * Purpose and method: live_code.h. x86_state.c determines what an instruction does to registers, and counts how far below the
 * CFA each one is. Here the CFA is what is looked for. So each register that calls preserve begins with a distance of its
 * own, far from those of the others (its base): 64 KiB + 128 KiB times its place in `bases`. What is computed from a register
 * keeps the base. A return with the stack pointer at a distance near a base says how much all distances of that base are too
 * large (shift): there the true one is 8.
 *
 * The caller's frame pointer: x86_state knows whether rbp was saved on the way, and restored from there. Besides, a node
 * remembers from where rbp was loaded last (`from`). If all returns have rbp from one place, that is where the caller's was
 * saved before the address; if they have it unchanged, it still is in rbp there.
 *
 * An instruction that is reached twice keeps what both ways agree on, and what comes behind it is looked at again. If they do
 * not agree about the stack pointer, it is not known there (an interpreter's, whose frames are known by another register);
 * but one of them may be wrong, that came behind a call that does not return: then that call ends its path, and all is done
 * again. So it is if what lies some way behind a call is no code: V8's calls that deoptimise stand at the end of the
 * function, before data.
 *
 * Code that neither returns nor jumps to where it cannot be followed (the body of a loop that ends in a call of what
 * deoptimises it) is gone through from where its function may begin: what looks like a prologue, at a place where functions
 * begin, and leads to the address. The walk, which has the stack, finds out whether a return address lies where that says.
 *
 * Nothing is believed without either. Code whose ways all end in indirect jumps (an interpreter's), traps or beyond the
 * bytes gets rows that say UNWIND_CFA_FRAMES, so that nobody looks at it again.
 */
#include "elf/code/live_code.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/order.h"
#include "elf/code/x86_state.h"

#define BASE_STEP  (1 << 17)
#define NODES_MAX  LIVE_CODE_ROWS_MAX
#define STEPS_MAX  (8u * NODES_MAX)
#define ROUNDS_MAX 16
#define NO_SHIFT   INT32_MIN
#define STARTS_MAX 32
#define NO_CALL	   UINT32_MAX

static const uint8_t bases[] = {X86_RSP, X86_RBP, X86_RBX, 12, 13, 14, 15};
#define BASES (sizeof(bases) / sizeof(bases[0]))

struct node {
	struct x86_state state;
	int32_t from; /* rbp was loaded from there (X86_RSP's kind of distance); X86_SAME, X86_LOST */
	uint32_t offset;
	uint32_t call; /* the offset behind the last call on every way to here; NO_CALL if one has none */
	uint8_t len, kind;
	bool behind_call, queued;
};

_Static_assert(STARTS_MAX + 2 <= UINT8_MAX, "each going through has a number");

enum { AT_NOTHING = 0, AT_INSIDE = 1, AT_FIRST_NODE = 2 };

struct search {
	const uint8_t *code;
	uint32_t len;
	uint16_t *node_at; /* by offset */
	uint8_t *ends;	   /* by offset: in which going through it turned out that the call before does not return */
	uint8_t going;	   /* its number; nothing is cleared for the next one, since little of the code is reached */
	struct node *nodes;
	size_t count, capacity;
	uint16_t *work; /* NODES_MAX */
	size_t work_count;
	uint32_t steps_left;
	bool leaves, again, full;
	bool jumps_anywhere; /* an indirect jump was reached */
	bool from_start;     /* of a function: distances are true, and the caller's rbp is in rbp */
	int32_t shift[BASES];
	int32_t caller; /* the caller's rbp at the address: X86_SAME, X86_LOST, or its distance */
};

static int32_t base_of(size_t i)
{
	return (int32_t)(2 * i + 1) * (BASE_STEP / 2);
}

static struct x86_state state_at_anywhere(void)
{
	struct x86_state state = x86_state_at_entry();
	for (size_t i = 0; i < BASES; i++)
		state.below[bases[i]] = base_of(i);
	return state;
}

/* ---- what rbp is ---- */

static bool writes_rbp(const struct x86_instruction *in)
{
	switch (in->kind) {
	case X86_OTHER: return in->writes >> X86_RBP & 1;
	case X86_EXCHANGE: return in->reg == X86_RBP || in->base == X86_RBP;
	case X86_ENTER:
	case X86_LEAVE: return true;
	case X86_POP:
	case X86_ADD:
	case X86_LEA:
	case X86_ADDRESS:
	case X86_MOVE:
	case X86_LOAD:
	case X86_CLEAR: return in->reg == X86_RBP;
	default: return false;
	}
}

/* Where the instruction loads rbp from; X86_LOST if that is not known, or it does not. */
static int32_t loads_rbp_from(const struct x86_state *state, const struct x86_instruction *in)
{
	int32_t at = X86_UNKNOWN;
	int64_t value = 0;
	if (in->kind == X86_POP) {
		at = state->below[X86_RSP];
	} else if (in->kind == X86_LEAVE) {
		at = state->below[X86_RBP];
	} else if (in->kind == X86_LOAD && in->base < X86_REGISTERS) {
		at = state->below[in->base];
		value = in->value;
	}
	if (at == X86_UNKNOWN || value < -(1 << 20) || value > 1 << 20 || at - value <= 0)
		return X86_LOST;
	return (int32_t)(at - value);
}

static void apply(const struct search *s, struct node *node, const struct x86_instruction *in)
{
	bool is_written = writes_rbp(in);
	if (is_written)
		node->from = loads_rbp_from(&node->state, in);
	x86_state_apply(&node->state, in);
	if (is_written && node->state.rbp == X86_SAME) { /* what was saved on the way is back */
		node->from = X86_SAME;
		node->state.below[X86_RBP] = s->from_start ? X86_UNKNOWN : base_of(1);
	}
}

/* ---- going through ---- */

static void queue(struct search *s, struct node *node)
{
	if (node->queued)
		return;
	node->queued = true;
	s->work[s->work_count++] = (uint16_t)(node - s->nodes);
}

/* Keeps what both agree on. True if that is less than before. */
static bool weaken(int32_t *a, int32_t b, int32_t unknown)
{
	if (*a == b || *a == unknown)
		return false;
	*a = unknown;
	return true;
}

static int meet(struct search *s, struct node *known, const struct node *node, bool behind_call)
{
	bool changed = false;
	int32_t *below = known->state.below;
	const int32_t *other = node->state.below;
	if (below[X86_RSP] != other[X86_RSP] && below[X86_RSP] != X86_UNKNOWN && other[X86_RSP] != X86_UNKNOWN) {
		if (behind_call) /* others know better: who calls there does not come back */
			return 0;
		if (known->behind_call) {
			s->ends[known->offset] = s->going;
			s->again = true;
			return 1;
		}
	}
	known->behind_call = known->behind_call && behind_call;
	if (known->call != NO_CALL && node->call == NO_CALL) {
		known->call = NO_CALL;
		changed = true;
	}
	for (size_t i = 0; i < X86_REGISTERS; i++)
		changed |= weaken(&below[i], other[i], X86_UNKNOWN);
	changed |= weaken(&known->state.rbp, node->state.rbp, X86_LOST);
	changed |= weaken(&known->from, node->from, X86_LOST);
	if (changed)
		queue(s, known);
	return 0;
}

/* What lies there is no code, or overlaps with other code. Always 1; again with the call that led there as one that does not
 * return, if there is one. */
static int blame(struct search *s, uint32_t call)
{
	if (call != NO_CALL) {
		s->ends[call] = s->going;
		s->again = true;
	}
	return 1;
}

/* The call that led to the node that the byte is a part of. */
static uint32_t call_before(const struct search *s, uint64_t offset)
{
	while (s->node_at[offset] == AT_INSIDE)
		offset--;
	return s->nodes[s->node_at[offset] - AT_FIRST_NODE].call;
}

/* 0, 1 if it cannot be, or -ENOMEM. */
static int reach(struct search *s, uint64_t offset, const struct node *from, bool behind_call)
{
	struct x86_instruction in;
	if (offset >= s->len) {
		s->leaves = true;
		return 0;
	}
	if (s->ends[offset] == s->going && behind_call)
		return 0;
	if (s->node_at[offset] >= AT_FIRST_NODE)
		return meet(s, &s->nodes[s->node_at[offset] - AT_FIRST_NODE], from, behind_call);
	if (s->count == NODES_MAX) {
		s->full = true;
		return 0;
	}
	/* Behind a call there may be anything, or nothing. */
	if (!x86_decode(s->code + offset, s->len - offset, &in)) {
		bool is_cut = s->len - offset < X86_INSTRUCTION_MAX;
		s->leaves = s->leaves || is_cut;
		return is_cut || behind_call ? 0 : blame(s, from->call);
	}
	for (uint32_t i = 0; i < in.len; i++) {
		if (s->node_at[offset + i] == AT_NOTHING)
			continue;
		if (behind_call)
			return 0;
		return blame(s, from->call != NO_CALL ? from->call : call_before(s, offset + i));
	}
	if (array_reserve(&s->nodes, &s->capacity, s->count + 1, NODES_MAX) < 0)
		return -ENOMEM;
	for (uint32_t i = 1; i < in.len; i++)
		s->node_at[offset + i] = AT_INSIDE;
	s->node_at[offset] = (uint16_t)(s->count + AT_FIRST_NODE);
	struct node *node = &s->nodes[s->count++];
	*node = *from;
	node->offset = (uint32_t)offset;
	if (behind_call)
		node->call = node->offset;
	node->len = in.len;
	node->kind = (uint8_t)in.kind;
	node->behind_call = behind_call;
	node->queued = false;
	queue(s, node);
	return 0;
}

static int step(struct search *s, struct node *at)
{
	struct node node = *at; /* the array may move */
	struct x86_instruction in;
	if (!x86_decode(s->code + node.offset, s->len - node.offset, &in))
		return 1;
	uint64_t next = (uint64_t)node.offset + in.len, target = next + (uint64_t)in.value;
	bool is_call = in.kind == X86_CALL || in.kind == X86_CALL_INDIRECT;
	int r;
	switch (in.kind) {
	case X86_JUMP_INDIRECT: s->jumps_anywhere = true; return 0;
	case X86_RETURN:
	case X86_END:
	case X86_JUMP_SLOT: return 0;
	case X86_JUMP: return reach(s, target, &node, false);
	case X86_BRANCH: r = reach(s, target, &node, false); return r != 0 ? r : reach(s, next, &node, false);
	case X86_PADDING:
		if (s->code[node.offset] == 0xcc) /* int3 */
			return 0;
		break;
	case X86_CALL:
		if (target == next) { /* takes the address of the code */
			x86_state_push(&node.state, X86_NONE);
			return reach(s, next, &node, false);
		}
		apply(s, &node, &in);
		break;
	default: apply(s, &node, &in);
	}
	return reach(s, next, &node, is_call);
}

static void forget_nodes(struct search *s)
{
	for (size_t i = 0; i < s->count; i++)
		memset(&s->node_at[s->nodes[i].offset], AT_NOTHING, s->nodes[i].len * sizeof(*s->node_at));
	s->count = 0;
}

static int go_through(struct search *s, uint32_t at)
{
	struct node first = {
		.state = s->from_start ? x86_state_at_entry() : state_at_anywhere(), .from = X86_SAME, .call = NO_CALL};
	forget_nodes(s);
	s->work_count = 0;
	s->leaves = s->again = s->full = s->jumps_anywhere = false;
	int r = reach(s, at, &first, false);
	while (r == 0 && s->work_count > 0 && s->steps_left > 0) {
		struct node *node = &s->nodes[s->work[--s->work_count]];
		node->queued = false;
		s->steps_left--;
		r = step(s, node);
	}
	return r == 0 && (s->count == 0 || s->work_count > 0) ? 1 : r;
}

/* ---- what returns say ---- */

/* The base that a distance is near to; BASES if it is not known. */
static size_t base_near(int32_t below)
{
	return below == X86_UNKNOWN || below < 0 || below / BASE_STEP >= (int32_t)BASES ? BASES : (size_t)(below / BASE_STEP);
}

/*
 * Returns that no call led to are believed. One that finds the stack otherwise is of the next function, behind a call that does
 * not return. Whether there is such a call.
 */
static bool blame_for_returns(struct search *s)
{
	int32_t want[BASES];
	for (size_t i = 0; i < BASES; i++)
		want[i] = s->from_start && i == 0 ? 8 : X86_UNKNOWN;
	for (unsigned pass = 0; pass < 2; pass++) {
		for (size_t k = 0; k < s->count; k++) {
			const struct node *node = &s->nodes[k];
			size_t i = base_near(node->state.below[X86_RSP]);
			if (node->kind != X86_RETURN || i == BASES || (node->call == NO_CALL) == (pass == 1))
				continue;
			if (pass == 0 && want[i] == X86_UNKNOWN)
				want[i] = node->state.below[X86_RSP];
			else if (pass == 1 && want[i] != X86_UNKNOWN && want[i] != node->state.below[X86_RSP])
				return blame(s, node->call);
		}
	}
	return false;
}

/* As go_through(), and again for each call that turns out not to return. */
static int go_through_all(struct search *s, uint32_t at)
{
	int r = 1;
	s->going++;
	for (unsigned round = 0; r > 0 && round < ROUNDS_MAX; round++) {
		r = go_through(s, at);
		if (r == 0 && blame_for_returns(s))
			r = 1;
		if (r > 0 && !s->again)
			break;
	}
	return r;
}

/* The true distance; X86_UNKNOWN if no return said it. */
static int32_t true_distance(const struct search *s, int32_t below)
{
	size_t i = base_near(below);
	if (s->from_start)
		return below;
	return i == BASES || s->shift[i] == NO_SHIFT ? X86_UNKNOWN : below - s->shift[i];
}

/* 0, or 1 if returns contradict each other. */
static int hear_returns(struct search *s, bool *ret_proven)
{
	bool first = true;
	for (size_t i = 0; i < BASES; i++)
		s->shift[i] = NO_SHIFT;
	s->caller = X86_LOST;
	for (size_t k = 0; k < s->count; k++) {
		const struct node *node = &s->nodes[k];
		int32_t below = node->state.below[X86_RSP];
		size_t i = base_near(below);
		if (node->kind != X86_RETURN || i == BASES)
			continue;
		if (s->shift[i] != NO_SHIFT && s->shift[i] != below - 8)
			return 1;
		s->shift[i] = below - 8;
		int32_t caller = node->state.rbp == X86_SAME ? X86_SAME : node->from;
		if (first)
			s->caller = caller;
		else
			weaken(&s->caller, caller, X86_LOST);
		first = false;
	}
	*ret_proven = !first;
	return 0;
}

/* From the start of a function: whether it reaches the address, and all returns find the stack as they must. */
static bool is_function_of(const struct search *s, uint32_t at)
{
	for (size_t k = 0; k < s->count; k++) {
		const struct node *node = &s->nodes[k];
		int32_t below = node->state.below[X86_RSP];
		/* No root: what clears rbp may as well be about to count in it. */
		if (node->state.outermost)
			return false;
		if (below != X86_UNKNOWN && (below < 8 || (node->kind == X86_RETURN && below != 8)))
			return false;
	}
	if (s->node_at[at] < AT_FIRST_NODE)
		return false;
	return x86_state_rule(&s->nodes[s->node_at[at] - AT_FIRST_NODE].state).cfa != UNWIND_CFA_NONE;
}

/* An offset from the CFA, as in struct x86_state. */
static int32_t place_of(const struct search *s, int32_t distance)
{
	int32_t below = true_distance(s, distance);
	return below == X86_UNKNOWN || below <= 8 || below % 8 != 0 ? X86_LOST : -below;
}

/* Where the caller's rbp is, at a node. */
static int32_t caller_at(const struct search *s, const struct node *node)
{
	if (s->caller == X86_LOST)
		return X86_LOST;
	if (s->caller == X86_SAME)
		return node->state.rbp < 0 ? place_of(s, -node->state.rbp) : node->state.rbp;
	return node->from == s->caller ? X86_SAME : place_of(s, s->caller);
}

static struct unwind_rule rule_at(const struct search *s, const struct node *node, bool proven)
{
	static const struct unwind_rule frames = {.cfa = UNWIND_CFA_FRAMES};
	struct x86_state state = node->state;
	if (!proven)
		return frames;
	for (size_t i = 0; i < X86_REGISTERS; i++)
		state.below[i] = true_distance(s, state.below[i]);
	/* A return address that is not on the stack any more, or never was, lies nowhere. */
	if (state.below[X86_RSP] != X86_UNKNOWN && state.below[X86_RSP] < 8)
		return frames;
	state.outermost = 0;
	state.rbp = caller_at(s, node);
	state.rbx = X86_LOST; /* such code mostly does not preserve it */
	struct unwind_rule rule = x86_state_rule(&state);
	return rule.cfa == UNWIND_CFA_NONE ? frames : rule;
}

static int compare_rows(const void *a, const void *b)
{
	return ORDER(((const struct live_code_row *)a)->offset, ((const struct live_code_row *)b)->offset);
}

static int give_rows(struct search *s, struct live_code *ret)
{
	ret->rows = mem_alloc_array(s->count, sizeof(*ret->rows));
	if (!ret->rows)
		return -ENOMEM;
	ret->start = UINT32_MAX;
	for (size_t i = 0; i < s->count; i++) {
		const struct node *node = &s->nodes[i];
		uint32_t end = node->offset + node->len;
		ret->rows[ret->count++] =
			(struct live_code_row){.offset = node->offset, .len = node->len, .rule = rule_at(s, node, ret->proven)};
		ret->start = ret->start < node->offset ? ret->start : node->offset;
		ret->end = ret->end > end ? ret->end : end;
	}
	qsort(ret->rows, ret->count, sizeof(*ret->rows), compare_rows);
	ret->leaves = s->leaves || s->full;
	return 0;
}

/* ---- where the function may begin ---- */

/* What functions begin with, in front of what puts something on the stack: a probe of the stack below, endbr64, pushes. Its
 * length; 0 = none of these. */
static uint32_t head_at(const uint8_t *code, size_t len)
{
	static const uint8_t endbr64[] = {0xf3, 0x0f, 0x1e, 0xfa}, probe[] = {0x89, 0x84, 0x24};
	if (len >= 7 && memcmp(code, probe, sizeof(probe)) == 0 && code[6] == 0xff)
		return 7;
	if (len >= 4 && memcmp(code, endbr64, sizeof(endbr64)) == 0)
		return 4;
	if (len >= 1 && (code[0] == 0x55 || code[0] == 0x53))
		return 1;
	return len >= 2 && code[0] == 0x41 && code[1] >= 0x54 && code[1] <= 0x57 ? 2 : 0;
}

/* sub of a constant from rsp. */
static bool takes_room(const uint8_t *code, size_t len)
{
	return len >= 7 && code[0] == 0x48 && (code[1] == 0x83 || code[1] == 0x81) && code[2] == 0xec;
}

/* Whether a function may begin here: where compilers align them, or behind what nothing runs through. */
static bool may_begin(const uint8_t *code, uint64_t address, uint32_t at)
{
	uint8_t before = at ? code[at - 1] : 0;
	return (address + at) % 16 == 0 || before == 0xc3 || before == 0xcc || before == 0xf4 || before == 0x90 || before == 0;
}

/* Goes from candidates for the function's start, from the address backwards, to one that leads to the address. 0 when found. */
static int find_function(struct search *s, uint64_t address, uint32_t at)
{
	unsigned tries = 0;
	s->from_start = true;
	s->caller = X86_SAME;
	for (uint32_t i = at + 1; i-- > 0 && tries < STARTS_MAX && s->steps_left > 0;) {
		const uint8_t *code = s->code + i;
		if ((!head_at(code, s->len - i) && !takes_room(code, s->len - i)) || !may_begin(s->code, address, i))
			continue;
		tries++;
		int r = go_through_all(s, i);
		if (r < 0 || (r == 0 && is_function_of(s, at)))
			return r;
	}
	return 1;
}

/* From the address to returns; else from the start of its function. 0, 1, -ENOMEM. */
static int search_all(struct search *s, uint64_t address, uint32_t at, struct live_code *ret)
{
	int r = go_through_all(s, at);
	if (r == 0)
		r = hear_returns(s, &ret->proven);
	if (r < 0 || (r == 0 && (ret->proven || s->jumps_anywhere)))
		return r;
	bool leaves = s->leaves || s->full;
	s->steps_left = STEPS_MAX;
	r = find_function(s, address, at);
	ret->proven = r == 0;
	if (r <= 0)
		return r;
	s->from_start = false;
	s->caller = X86_LOST;
	s->steps_left = STEPS_MAX;
	r = go_through_all(s, at);
	s->leaves = s->leaves || leaves;
	return r;
}

int live_code_analyse(const uint8_t *code, size_t bytes, uint64_t address, uint32_t at, struct live_code *ret)
{
	struct search s = {.code = code, .len = (uint32_t)bytes, .steps_left = STEPS_MAX};
	int r = 1;
	*ret = (struct live_code){.asked = at};
	if (!bytes || bytes > LIVE_CODE_BYTES_MAX || at >= bytes)
		return 1;
	s.node_at = mem_zalloc_array(bytes, sizeof(*s.node_at));
	s.ends = mem_zalloc(bytes);
	s.work = mem_alloc_array(NODES_MAX, sizeof(*s.work));
	if (!s.node_at || !s.ends || !s.work)
		r = -ENOMEM;
	if (r != -ENOMEM)
		r = search_all(&s, address, at, ret);
	if (r == 0)
		r = give_rows(&s, ret);
	mem_free(s.node_at);
	mem_free(s.ends);
	mem_free(s.work);
	mem_free(s.nodes);
	return r;
}

void live_code_release(struct live_code *live)
{
	mem_free(live->rows);
	*live = (struct live_code){0};
}
