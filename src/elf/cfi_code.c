// SPDX-License-Identifier: Apache-2.0
/*
 * Rules for code that no call frame information covers: musl, assembly of Go, hand-written functions. They are found by going
 * through the code (x86-64).
 *
 * The state at an instruction says for each register how far below the CFA its value lies, if that is known, and for rbp and
 * rbx where the caller's values are. It is known where a function begins (the return address is on top of the stack, no
 * register has changed), and each instruction turns it into the state at the next and, for branches, at their targets. So every
 * instruction that can be reached by direct branches gets its state, in any order; the rule of a state counts the CFA from rsp
 * if that is known, else from rbp or another register.
 *
 * Where functions begin is known from symbols and from direct calls, which are collected first, by decoding from the start of
 * the region on. Then code is tried that nothing has led to yet: as a part of a function with an indirect jump before it (a
 * switch), and as a function that only pointers lead to. What a call falls through to ends where another function begins: it
 * was one that does not return.
 *
 * Being wrong is worse than knowing nothing. What was reached from one beginning is believed as a whole or not at all. A return
 * must find the return address on top of the stack; nothing may take more off the stack than was put there; and code that is
 * reached on two ways must be reached with the same stack. If that is not so, or something is no instruction, all of it is
 * dropped. Two things are taken on trust: that a function called returns with the stack as it was, and that what loads rsp from
 * elsewhere (switches between coroutines) finds there a stack of the same form.
 *
 * A function that clears rbp without having saved it never returns to a caller who would need it: the ABI asks for that at the
 * outermost frame (_start(), the child's side of clone()). There the walk is at its end.
 *
 * Time and memory: regions are cut into pieces of PIECE_BYTES, and the steps in a piece are bounded by its length, however
 * often code is tried. Every byte comes from a file that anybody may have written.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/hash.h"
#include "base/map.h"
#include "base/order.h"
#include "elf/cfi_int.h"
#include "elf/code/x86_state.h"

#define PIECE_BYTES  (1u << 20)
#define STATES_MAX   16000u /* a piece of libc has up to 3,800 */
#define STEPS_A_BYTE 3u	    /* code that is understood takes one an instruction */
#define REGION_LEAST 4u
#define ROUNDS_MAX   2
#define TRIES_MAX    4		 /* functions that code may be a part of */
#define PART_BYTES   (16u << 10) /* so far behind */

/* Numbers of states in `state_at`. */
enum { AT_NOTHING = 0, AT_INSIDE = 1, AT_FIRST_STATE = 2 };

struct piece {
	struct cfi_reader *reader;
	const uint8_t *code;
	uint64_t address;
	uint32_t len;
	uint16_t *state_at;	 /* by offset */
	uint8_t *is_start;	 /* bit by offset: a function begins there */
	uint8_t *is_behind_call; /* bit by offset: a call goes on there, if it returns */
	uint8_t *is_of_try;	 /* bit by offset: reached in this try */
	bool again;		 /* a call was found not to return */
	uint64_t steps_left;
	uint64_t proofs; /* in this try: a return with the stack as it must be, or code that another try has reached in the same
			    way */
	struct x86_state *states;
	size_t state_count, state_capacity;
	struct index32 index;
	uint32_t *work; /* offsets to go on from */
	size_t work_count, work_capacity;
	uint32_t *reached; /* in this try */
	size_t reached_count, reached_capacity;
	uint32_t *starts; /* offsets of functions, as they are found */
	size_t start_count, start_capacity;
	uint8_t *
		is_exit; /* bit by offset: what is reached from there is not seen: an indirect jump, or a call before padding */
};

static void piece_release(struct piece *p)
{
	mem_free((void *)p->code);
	mem_free(p->state_at);
	mem_free(p->is_start);
	mem_free(p->is_exit);
	mem_free(p->is_behind_call);
	mem_free(p->is_of_try);
	mem_free(p->states);
	index32_release(&p->index);
	mem_free(p->work);
	mem_free(p->reached);
	mem_free(p->starts);
}

static int append(uint32_t **items, size_t *count, size_t *capacity, uint32_t value)
{
	int r = array_reserve(items, capacity, *count + 1, 4 * PIECE_BYTES);
	if (r < 0)
		return r;
	(*items)[(*count)++] = value;
	return 0;
}

/* ---- states ---- */

/* The number of an equal state; 0 when there are too many, or -ENOMEM. */
static int number_of(struct piece *p, const struct x86_state *state)
{
	uint64_t hash = hash64(state, sizeof(*state));
	uint32_t id;
	for (size_t at = index32_first(&p->index, hash); index32_at(&p->index, hash, &at, &id); at++)
		if (memcmp(&p->states[id], state, sizeof(*state)) == 0)
			return (int)id + AT_FIRST_STATE;
	if (p->state_count == STATES_MAX)
		return 0;
	if (array_reserve(&p->states, &p->state_capacity, p->state_count + 1, STATES_MAX) < 0 ||
	    index32_add(&p->index, hash, (uint32_t)p->state_count) < 0)
		return -ENOMEM;
	p->states[p->state_count] = *state;
	return (int)p->state_count++ + AT_FIRST_STATE;
}

/* ---- going through code ---- */

/* Whether the stack is one that a function can have here. */
static bool is_sound(const struct x86_state *state, const struct x86_instruction *in)
{
	int32_t below = state->below[X86_RSP];
	if (state->outermost || below == X86_UNKNOWN)
		return true;
	if (in->kind == X86_JUMP_INDIRECT && state->switched && below != 0)
		return false; /* longjmp(): the stack was not left by the same way */
	if (in->kind == X86_RETURN)
		return below == 8; /* not all code preserves the same registers (Go's does not) */
	/* What switches stacks may have taken the return address, to jump there. */
	return below >= 8 || (below == 0 && in->kind != X86_PUSH && in->kind != X86_CALL);
}

static bool bit(const uint8_t *bits, uint32_t offset)
{
	return bits[offset / 8] >> offset % 8 & 1;
}

static void set_bit(uint8_t *bits, uint32_t offset)
{
	bits[offset / 8] |= (uint8_t)(1 << offset % 8);
}

/* Code that was reached before is reached once more. */
static int reach_again(struct piece *p, uint32_t offset, const struct x86_state *state)
{
	const struct x86_state *other = &p->states[p->state_at[offset] - AT_FIRST_STATE];
	bool known = other->below[X86_RSP] != X86_UNKNOWN && state->below[X86_RSP] != X86_UNKNOWN;
	if (other->outermost || state->outermost || !known)
		return 0;
	if (other->below[X86_RSP] == state->below[X86_RSP]) {
		p->proofs += !bit(p->is_of_try, offset);
		return 0;
	}
	/* A jump knows better than a call that is followed by other code. */
	if (bit(p->is_behind_call, offset) && !bit(p->is_start, offset)) {
		set_bit(p->is_start, offset);
		p->again = true;
	}
	return 1;
}

/* Code at an offset is reached in this state. 0, 1 if that cannot be, or -ENOMEM. */
static int reach(struct piece *p, uint64_t offset, const struct x86_state *state)
{
	if (offset >= p->len)
		return 0; /* beyond this piece: not ours */
	if (p->state_at[offset] == AT_INSIDE)
		return 1;
	if (p->state_at[offset] >= AT_FIRST_STATE)
		return reach_again(p, (uint32_t)offset, state);
	int number = number_of(p, state);
	if (number <= 0)
		return number < 0 ? number : 1;
	p->state_at[offset] = (uint16_t)number;
	set_bit(p->is_of_try, (uint32_t)offset);
	if (append(&p->work, &p->work_count, &p->work_capacity, (uint32_t)offset) < 0 ||
	    append(&p->reached, &p->reached_count, &p->reached_capacity, (uint32_t)offset) < 0)
		return -ENOMEM;
	return 0;
}

static bool begins_at(const struct piece *p, uint64_t offset)
{
	return offset < p->len && bit(p->is_start, (uint32_t)offset);
}

/* A jump with the stack as at the beginning goes to another function, which begins there. */
static int jump(struct piece *p, uint64_t target, const struct x86_state *state)
{
	struct x86_state entry = x86_state_at_entry();
	bool leaves = state->below[X86_RSP] == 8 && state->rbp == X86_SAME && state->rbx == X86_SAME;
	return reach(p, target, leaves ? &entry : state);
}

static void call(uint64_t target, uint64_t next, struct x86_state *state)
{
	if (target == next) /* takes the address of the code */
		x86_state_push(state, X86_NONE);
	else
		x86_state_return(state);
}

/* Whether functions begin like this, and code behind a call mostly does not: endbr64, or a push of what a caller needs. */
static bool is_prologue_at(const struct piece *p, uint64_t offset)
{
	static const uint8_t endbr64[] = {0xf3, 0x0f, 0x1e, 0xfa};
	struct x86_instruction in;
	if (offset + sizeof(endbr64) <= p->len && memcmp(p->code + offset, endbr64, sizeof(endbr64)) == 0)
		return true;
	return offset < p->len && x86_decode(p->code + offset, p->len - offset, &in) && in.kind == X86_PUSH &&
	       (in.reg == X86_RBP || in.reg == X86_RBX || (in.reg >= 12 && in.reg < X86_REGISTERS));
}

static bool is_padding_at(const struct piece *p, uint64_t offset)
{
	struct x86_instruction in;
	return offset < p->len && x86_decode(p->code + offset, p->len - offset, &in) && in.kind == X86_PADDING;
}

static void note_exit(struct piece *p, uint32_t offset)
{
	set_bit(p->is_exit, offset);
}

static int go_behind_call(struct piece *p, uint32_t offset, uint64_t next, const struct x86_state *state)
{
	/* What the outermost function calls does not return to it, or what comes then is of no interest. */
	if (state->outermost || next >= p->len || begins_at(p, next))
		return 0;
	/* Behind a call of what does not return begins another function; else, behind padding, a loop of this one. */
	if (is_padding_at(p, next) || is_prologue_at(p, next)) {
		note_exit(p, offset);
		return 0;
	}
	uint16_t known = p->state_at[next];
	if (known >= AT_FIRST_STATE && p->states[known - AT_FIRST_STATE].below[X86_RSP] != state->below[X86_RSP])
		return 0; /* it does not return: this code belongs to others, who jump there */
	set_bit(p->is_behind_call, (uint32_t)next);
	return reach(p, next, state);
}

/* From one instruction to those behind it. */
static int step(struct piece *p, uint32_t offset)
{
	struct x86_state state = p->states[p->state_at[offset] - AT_FIRST_STATE];
	struct x86_instruction in;
	if (p->steps_left == 0)
		return 1;
	p->steps_left--;
	if (!x86_decode(p->code + offset, p->len - offset, &in))
		return p->len - offset < X86_INSTRUCTION_MAX ? 0 : 1;
	for (uint32_t i = 1; i < in.len; i++) {
		if (p->state_at[offset + i] >= AT_FIRST_STATE)
			return 1;
		p->state_at[offset + i] = AT_INSIDE;
	}
	if (!is_sound(&state, &in))
		return 1;
	uint64_t next = (uint64_t)offset + in.len, target = next + (uint64_t)in.value;
	int r = 0;
	switch (in.kind) {
	case X86_RETURN: p->proofs += state.below[X86_RSP] == 8 && !state.outermost; return 0;
	case X86_JUMP_SLOT:
	case X86_END: return 0;
	case X86_JUMP: return jump(p, target, &state);
	case X86_JUMP_INDIRECT: note_exit(p, offset); return 0;
	case X86_BRANCH: r = jump(p, target, &state); break;
	case X86_CALL: call(target, next, &state); break;
	default: x86_state_apply(&state, &in);
	}
	if (in.kind == X86_PADDING && begins_at(p, next))
		return 0;
	if (r == 0 && (in.kind == X86_CALL || in.kind == X86_CALL_INDIRECT))
		return go_behind_call(p, offset, next, &state);
	return r != 0 ? r : reach(p, next, &state);
}

/* Forgets what was reached in this try. The inside of its instructions belongs to nothing again. */
static void reject(struct piece *p)
{
	for (size_t i = 0; i < p->reached_count; i++) {
		uint32_t at = p->reached[i];
		p->state_at[at] = AT_NOTHING;
		for (uint32_t k = at + 1; k < p->len && p->state_at[k] == AT_INSIDE; k++)
			p->state_at[k] = AT_NOTHING;
	}
}

/* Everything that is reached from an offset in a state. 0, 1 if it cannot be right, or if nothing proves it and it is not sure
 * that the code begins there so, or -ENOMEM. */
static int try_from(struct piece *p, uint32_t offset, const struct x86_state *state, bool sure)
{
	p->work_count = p->reached_count = 0;
	p->proofs = 0;
	int r = reach(p, offset, state);
	while (r == 0 && p->work_count > 0)
		r = step(p, p->work[--p->work_count]);
	if (r == 0 && !sure && !p->proofs)
		r = 1;
	for (size_t i = 0; i < p->reached_count; i++)
		p->is_of_try[p->reached[i] / 8] = 0;
	if (r > 0)
		reject(p);
	return r;
}

/* The head of a linkage table: push of one slot, jump through another. What jumps there has pushed a word before. */
static bool is_linkage_head(const struct piece *p, uint32_t offset)
{
	const uint8_t *code = p->code + offset;
	return p->len - offset >= 12 && code[0] == 0xff && code[1] == 0x35 &&
	       ((code[6] == 0xff && code[7] == 0x25) || (code[6] == 0xf2 && code[7] == 0xff && code[8] == 0x25));
}

static int try_function(struct piece *p, uint32_t offset, bool sure)
{
	struct x86_state entry = x86_state_at_entry();
	if (is_linkage_head(p, offset))
		entry.below[X86_RSP] += 8;
	return p->state_at[offset] == AT_NOTHING ? try_from(p, offset, &entry, sure) : 0;
}

static int try_starts(struct piece *p)
{
	int r = 0;
	for (size_t i = 0; r >= 0 && i < p->start_count; i++)
		if (begins_at(p, p->starts[i]))
			r = try_function(p, p->starts[i], true);
	return r < 0 ? r : 0;
}

/* Adds the targets of direct calls, and addresses that are taken, to `starts`, where what lies before them goes no further, and
 * marks all of these. */
static int find_starts(struct piece *p)
{
	_cleanup_(mem_freep) uint8_t *may_begin = mem_zalloc((size_t)p->len / 8 + 1);
	size_t symbols = p->start_count;
	struct x86_instruction in;
	bool ended = true;
	int r = may_begin ? 0 : -ENOMEM;
	for (uint32_t at = 0; at < p->len && r == 0;) {
		if (ended)
			set_bit(may_begin, at);
		bool good = x86_decode(p->code + at, p->len - at, &in);
		uint64_t next = (uint64_t)at + (good ? in.len : 1), target = next + (uint64_t)in.value;
		ended = !good || in.kind == X86_RETURN || in.kind == X86_JUMP || in.kind == X86_JUMP_INDIRECT ||
			in.kind == X86_JUMP_SLOT || in.kind == X86_END || in.kind == X86_CALL || in.kind == X86_PADDING ||
			p->code[at] == 0;
		if (good && (in.kind == X86_CALL || in.kind == X86_ADDRESS) && target != next && target < p->len)
			r = append(&p->starts, &p->start_count, &p->start_capacity, (uint32_t)target);
		at = (uint32_t)next;
	}
	for (size_t i = 0; i < p->start_count && r == 0; i++) {
		uint32_t at = p->starts[i];
		if (i < symbols || bit(may_begin, at))
			set_bit(p->is_start, at);
	}
	return r;
}

/* Whether code may begin here: not in the middle of what could not be understood. */
static uint32_t skip_padding(const struct piece *p, uint32_t offset)
{
	struct x86_instruction in;
	while (offset < p->len && p->state_at[offset] < AT_FIRST_STATE) {
		if (p->state_at[offset] == AT_INSIDE || p->code[offset] == 0)
			offset++;
		else if (x86_decode(p->code + offset, p->len - offset, &in) && in.kind == X86_PADDING)
			offset += in.len;
		else
			break;
	}
	return offset;
}

/* As a part of the function before it: in the state of one of its indirect jumps, and the like. 1 if it is none. */
static int try_part(struct piece *p, uint32_t offset)
{
	uint32_t least = offset > PART_BYTES ? offset - PART_BYTES : 0;
	unsigned tries = 0;
	int r = 1;
	for (uint32_t at = offset; r > 0 && at > least && tries < TRIES_MAX && !begins_at(p, at);) {
		at--;
		if (at % 64 == 0 && p->steps_left > 0)
			p->steps_left--;
		if (p->steps_left == 0)
			return 1;
		if (!bit(p->is_exit, at) || p->state_at[at] < AT_FIRST_STATE)
			continue;
		p->steps_left--;
		struct x86_state state = p->states[p->state_at[at] - AT_FIRST_STATE];
		struct x86_instruction in;
		if (state.below[X86_RSP] == X86_UNKNOWN || state.below[X86_RSP] <= 8 ||
		    !x86_decode(p->code + at, p->len - at, &in))
			continue;
		if (in.kind != X86_JUMP_INDIRECT && skip_padding(p, at + in.len) != offset)
			continue; /* a call leads to what lies behind it, and nowhere else */
		x86_state_apply(&state, &in);
		tries++;
		r = try_from(p, offset, &state, false);
	}
	return r;
}

/* Code that nothing led to: a case of a switch before it, or a function that only pointers lead to. */
static int try_unreached(struct piece *p, uint32_t offset, bool likely)
{
	bool is_prologue = is_prologue_at(p, offset) || is_linkage_head(p, offset);
	bool begins = is_prologue || (p->address + offset) % 16 == 0;
	if (likely && !begins)
		return 0;
	int r = begins ? try_function(p, offset, is_prologue) : 1;
	if (r == 0)
		set_bit(p->is_start, offset);
	if (r > 0 && !likely)
		r = try_part(p, offset);
	return r > 0 && !likely && !begins ? try_function(p, offset, false) : r;
}

/* The first address behind the next end of code. */
static uint32_t skip_code(const struct piece *p, uint32_t at)
{
	struct x86_instruction in;
	bool ends = false;
	while (!ends && at < p->len && p->state_at[at] < AT_FIRST_STATE) {
		bool good = x86_decode(p->code + at, p->len - at, &in);
		ends = good && (in.kind == X86_RETURN || in.kind == X86_JUMP || in.kind == X86_END ||
				in.kind == X86_JUMP_INDIRECT || in.kind == X86_JUMP_SLOT);
		at += good ? in.len : 1;
	}
	return at;
}

/* likely: only where functions mostly begin. */
static int go_through_unreached(struct piece *p, bool likely)
{
	int r = 0;
	for (uint32_t at = 0; r >= 0 && (at = skip_padding(p, at)) < p->len;) {
		if (p->state_at[at] >= AT_FIRST_STATE) {
			at++;
			continue;
		}
		r = p->state_at[at] == AT_NOTHING ? try_unreached(p, at, likely) : 0;
		if (p->state_at[at] < AT_FIRST_STATE)
			at = skip_code(p, at);
	}
	return r < 0 ? r : 0;
}

static int go_through_once(struct piece *p)
{
	p->again = false;
	p->steps_left = (uint64_t)p->len * STEPS_A_BYTE;
	memset(p->state_at, 0, p->len * sizeof(*p->state_at));
	memset(p->is_exit, 0, p->len / 8 + 1);
	memset(p->is_behind_call, 0, p->len / 8 + 1);
	int r = try_starts(p);
	if (r == 0)
		r = go_through_unreached(p, true);
	return r == 0 ? go_through_unreached(p, false) : r;
}

/* Once more if it turned out where calls do not return. */
static int go_through(struct piece *p)
{
	int r = find_starts(p);
	p->again = true;
	for (unsigned round = 0; r == 0 && p->again && round < ROUNDS_MAX && (!round || p->steps_left > 0); round++)
		r = go_through_once(p);
	return r;
}

/* ---- rules ---- */

static int give_rows(const struct piece *p)
{
	static const union cfi_rule none;
	int r = 0;
	for (uint32_t at = 0; at < p->len && r == 0; at++) {
		uint16_t number = p->state_at[at];
		if (number == AT_INSIDE)
			continue;
		union cfi_rule rule = none;
		if (number >= AT_FIRST_STATE)
			rule.rule = x86_state_rule(&p->states[number - AT_FIRST_STATE]);
		r = cfi_emit(p->reader, p->address + at, &rule);
	}
	return r;
}

/* ---- regions ---- */

static bool is_padding(const uint8_t *code, uint32_t len)
{
	struct x86_instruction in;
	for (uint32_t at = 0; at < len;) {
		if (code[at] == 0)
			at++;
		else if (x86_decode(code + at, len - at, &in) && in.kind == X86_PADDING)
			at += in.len;
		else
			return false;
	}
	return true;
}

static int take_symbols(struct piece *p)
{
	const struct cfi_reader *reader = p->reader;
	int r = 0;
	size_t low = 0, high = reader->start_count;
	while (low < high) {
		size_t middle = (low + high) / 2;
		if (reader->starts[middle] < p->address)
			low = middle + 1;
		else
			high = middle;
	}
	if (reader->file->entry >= p->address && reader->file->entry - p->address < p->len)
		r = append(&p->starts, &p->start_count, &p->start_capacity, (uint32_t)(reader->file->entry - p->address));
	for (; r == 0 && low < reader->start_count && reader->starts[low] - p->address < p->len; low++)
		r = append(&p->starts, &p->start_count, &p->start_capacity, (uint32_t)(reader->starts[low] - p->address));
	return r;
}

/* Gives the rows of the piece; positive if there is nothing in it to give. */
static int run_piece(struct piece *p, uint64_t offset)
{
	uint8_t *code = mem_alloc(p->len);
	p->code = code;
	if (!code)
		return -ENOMEM;
	if (elf_file_read(p->reader->file, offset, code, p->len, NULL) < 0 || is_padding(code, p->len))
		return 1;
	p->state_at = mem_zalloc_array(p->len, sizeof(*p->state_at));
	p->is_start = mem_zalloc((size_t)p->len / 8 + 1);
	p->is_exit = mem_zalloc((size_t)p->len / 8 + 1);
	p->is_behind_call = mem_zalloc((size_t)p->len / 8 + 1);
	p->is_of_try = mem_zalloc((size_t)p->len / 8 + 1);
	int r = p->state_at && p->is_start && p->is_exit && p->is_behind_call && p->is_of_try ? take_symbols(p) : -ENOMEM;
	if (r == 0)
		r = go_through(p);
	return r == 0 ? give_rows(p) : r;
}

/* Adds what [from, to) has in common with each segment's bytes in the file. */
static int add_ranges(struct cfi_reader *reader, uint64_t from, uint64_t to)
{
	const struct elf_file *file = reader->file;
	for (size_t i = 0; i < file->segment_count; i++) {
		const struct elf_segment *s = &file->segments[i];
		uint64_t end;
		if (!elf_segment_is_executed(s) || __builtin_add_overflow(s->address, s->file_size, &end))
			continue;
		uint64_t first = from > s->address ? from : s->address, last = to < end ? to : end;
		if (first >= last)
			continue;
		int r = array_reserve(&reader->code, &reader->code_capacity, reader->code_count + 1, CFI_CODE_RANGES_MAX);
		if (r < 0) /* what is beyond the limit has no rules */
			return r == -ENOMEM ? r : 1;
		reader->code[reader->code_count++] = (struct cfi_range){first, last, s->offset + (first - s->address)};
	}
	return 0;
}

static int compare_ranges(const void *a, const void *b)
{
	return ORDER(((const struct cfi_range *)a)->start, ((const struct cfi_range *)b)->start);
}

/* Where in the file there is code. By sections if there are any: a segment that is executed may hold all of the file. */
static int find_ranges(struct cfi_reader *reader)
{
	const struct elf_file *file = reader->file;
	bool by_sections = false;
	int r = 0;
	for (size_t i = 0; file->sections && i < file->section_count && r == 0; i++) {
		const struct elf_section *section = &file->sections[i];
		uint64_t end;
		if (section->type != SHT_PROGBITS || !(section->flags & SHF_EXECINSTR) ||
		    __builtin_add_overflow(section->address, section->size, &end))
			continue;
		by_sections = true;
		r = add_ranges(reader, section->address, end);
	}
	for (size_t i = 0; i < reader->segment_count && !by_sections && r == 0; i++)
		r = add_ranges(reader, reader->segments[i].start, reader->segments[i].end);
	if (reader->code_count > 1)
		qsort(reader->code, reader->code_count, sizeof(*reader->code), compare_ranges);
	reader->has_code = true;
	return r < 0 ? r : 0;
}

/* The first code from `start` on, and before `end`; false if there is none. Addresses ascend from call to call. */
static bool find_code(struct cfi_reader *reader, uint64_t start, uint64_t end, struct cfi_range *ret)
{
	while (reader->next_code < reader->code_count && reader->code[reader->next_code].end <= start)
		reader->next_code++;
	if (start >= end || reader->next_code == reader->code_count || reader->code[reader->next_code].start >= end)
		return false;
	*ret = reader->code[reader->next_code];
	if (ret->start < start) {
		ret->offset += start - ret->start;
		ret->start = start;
	}
	ret->end = ret->end < end ? ret->end : end;
	return true;
}

int cfi_code_run(struct cfi_reader *reader, uint64_t start, uint64_t end)
{
	static const union cfi_rule none;
	struct cfi_range code;
	int r = reader->has_code || reader->machine->machine != EM_X86_64 ? 0 : find_ranges(reader);
	while (r >= 0 && reader->stats.code_bytes <= CFI_CODE_BYTES_MAX && find_code(reader, start, end, &code)) {
		struct piece piece = {.reader = reader, .address = code.start};
		piece.len = (uint32_t)(code.end - code.start < PIECE_BYTES ? code.end - code.start : PIECE_BYTES);
		reader->stats.code_bytes += piece.len;
		if (code.start > start)
			r = cfi_emit(reader, start, &none);
		if (r >= 0)
			r = reader->listed_only || piece.len < REGION_LEAST ? 1 : run_piece(&piece, code.offset);
		piece_release(&piece);
		if (r > 0)
			r = cfi_emit(reader, code.start, &none);
		start = code.start + piece.len;
	}
	if (r >= 0 && start < end)
		r = cfi_emit(reader, start, &none);
	return r == -ENOMEM ? error_nomem(reader->err) : r;
}
