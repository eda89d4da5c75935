/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The walk: from the registers at a leaf to the outermost frame, one frame a step. Compiled for the sampling program and for
 * user space (agent/unwinder.c), which differ in how memory is read and mappings are found:
 *
 *   WALK_READ(walk, to, bytes, address)  copies from the stack (or code) of the process; 0, or the result to stop with
 *   WALK_MAP(walk, address)		  sets walk->map for the executable mapping of an address; 0, or the result to stop with
 *   WALK_KNOWS_ALL			  WALK_MAP's UNWIND_NO_MAPPING is the last word, not for lack of knowledge
 *   WALK_ESCAPE, WALK_RULE		  walk_escape() and walk_find_rule(), which the verifier wants by themselves
 *   WALK_HEAP16(place) ... WALK_HEAP64	  what lies in the heap; any place must be safe to read
 *
 * For each frame, decided anew: the rule of its address; without a rule, a signal trampoline's code or a plausible frame
 * pointer; else the walk stops and says why. A frame that a rule leads to is right if the rule is; one that a frame pointer
 * leads to may have skipped a caller (a leaf that has no frame of its own), so it sets walk->by_frames.
 *
 * What is known of registers: all at the leaf, and again in code that a signal interrupted; sp and the frame pointer in
 * callers. Compilers refer the CFA of a function that calls others to one of these two. Other callee-saved registers are not
 * followed: it would double the reads, for a handful of hand-written functions; their rules stop the walk with
 * UNWIND_NO_REGISTER.
 *
 * A step changes the walk only if it succeeds, so that the walk can be resumed where it stopped (struct abi_tail).
 *
 * Loops are branch-free searches with a fixed number of steps, for the verifier's sake: a comparison that it has to follow both
 * ways doubles its work each time, a sign that is spread by a shift does not. Addresses and offsets are below 2^63.
 */
#ifndef WICK_BPF_WALK_H
#define WICK_BPF_WALK_H

#include "bpf/unwind.h"

#define WALK_GOES_ON 255

struct walk_map {
	__u64 start, end; /* [start, end): the mapping; 0, 0 = none yet */
	__u64 file_offset;
	__u32 state; /* enum unwind_slot_state */
	/* Of the table, if it is loaded; absolute places in the heap. */
	__u32 first_page, page_count, index, rows, rules, escapes, escape_count;
};

#define WALK_WINDOW_WORDS 32u
struct walk {
	__u64 ip;
	__u64 registers[UNWIND_REGISTERS];
	__u32 known;	 /* bit by register */
	__u32 is_return; /* ip is a return address: the call is before it */
	__u32 by_frames; /* a part was found by frame pointers, or by guessing where a leaf's return address is */
	__u32 chained;	 /* the last step was by a frame pointer */
	__u32 depth;
	__u64 hash;		   /* of frames[1] on */
	__u32 ranges, range_count; /* of the process, in the heap */
	__u32 cpu;
	struct walk_map map;
	__u64 window_start; /* the stack that was read last: window_bytes from there on */
	__u32 window_bytes, pad;
	__u64 window[WALK_WINDOW_WORDS];
	__u64 scratch[24];
	__u64 frames[UNWIND_FRAMES_MAX]; /* [0] = the leaf; the others as in struct abi_chain */
};

/* All ones if a < b. The empty assembly keeps the compiler from making a branch of it. */
static __always_inline __u64 walk_less(__u64 a, __u64 b)
{
	__u64 less = a - b;

	asm volatile("" : "+r"(less));
	less = (__u64)((__s64)less >> 63);
	asm volatile("" : "+r"(less));
	return less;
}

/* A multiplication and a shift a word: each step is a bijection of the state, and the seed is secret. */
static __always_inline __u64 walk_hash(__u64 hash, __u64 frame)
{
	hash = (hash ^ frame) * 0x9e3779b97f4a7c15ull;
	return hash ^ hash >> 29;
}

/* Never 0. */
static __always_inline __u64 walk_hash_end(__u64 hash)
{
	hash *= 0xd6e8feb86659fd93ull;
	hash ^= hash >> 32;
	return hash ? hash : 1;
}

/* ---- the rule of an address ---- */

/* How many of the `count` < 2 * top ranges at `ranges` begin at or before the address. top: a power of two, a constant. */
static __always_inline __u32 walk_count_ranges_to(__u32 top, __u32 ranges, __u32 count, __u64 address)
{
	__u64 base = 0;

	for (__u32 step = top; step; step >>= 1) {
		__u64 probe = base + step;
		__u64 start = WALK_HEAP64(ranges + (probe - 1) * sizeof(struct unwind_range));
		__u64 skip = walk_less(address, start) | walk_less(count, probe);
		base = (base & skip) | (probe & ~skip);
	}
	return base;
}

/* Short lists, the common ones, take few steps. */
static __always_inline __u32 walk_count_ranges(__u32 ranges, __u32 count, __u64 address)
{
	if (count < 32)
		return walk_count_ranges_to(16, ranges, count, address);
	if (count < 512)
		return walk_count_ranges_to(256, ranges, count, address);
	return walk_count_ranges_to(1u << 17, ranges, count, address);
}

/* How many of the `count` < 2 * top rows from `rows` on begin at or before the low byte. */
static __always_inline __u32 walk_count_rows_to(__u32 top, __u64 rows, __u32 count, __u32 low)
{
	__u64 base = 0;

	for (__u32 step = top; step; step >>= 1) {
		__u64 probe = base + step;
		__u64 row = WALK_HEAP16(rows + (probe - 1) * 2) & 0xff;
		__u64 skip = walk_less(low, row) | walk_less(count, probe);
		base = (base & skip) | (probe & ~skip);
	}
	return base;
}

static __always_inline __u32 walk_count_rows(__u64 rows, __u32 count, __u32 low)
{
	if (count < 8)
		return walk_count_rows_to(4, rows, count, low);
	if (count < 32)
		return walk_count_rows_to(16, rows, count, low);
	return walk_count_rows_to(256, rows, count, low);
}

/* The rule number of a row that does not fit a byte; 0 if the table does not have it. */
static __always_inline __u32 walk_escape(__u32 escapes, __u32 count, __u32 row)
{
	__u64 base = 0;

	for (__u32 step = 1u << 21; step; step >>= 1) {
		__u64 probe = base + step;
		__u64 at = WALK_HEAP32(escapes + (probe - 1) * sizeof(struct unwind_escape));
		__u64 skip = walk_less(row, at) | walk_less(count, probe);
		base = (base & skip) | (probe & ~skip);
	}
	if (!base || WALK_HEAP32(escapes + (base - 1) * sizeof(struct unwind_escape)) != row)
		return 0;
	return WALK_HEAP32(escapes + (base - 1) * sizeof(struct unwind_escape) + 4);
}

/* Fills walk->map from a slot and a range; the table's header is read once a mapping, not once a frame. */
static __always_inline int walk_set_map(struct walk_map *map, __u64 start, __u64 end, __u64 file_offset, __u32 state,
					__u32 table)
{
	map->start = start;
	map->end = end;
	map->file_offset = file_offset;
	map->state = state;
	if (state != UNWIND_SLOT_LOADED)
		return 0;
	map->first_page = WALK_HEAP32(table + __builtin_offsetof(struct unwind_table, first_page));
	map->page_count = WALK_HEAP32(table + __builtin_offsetof(struct unwind_table, page_count));
	map->index = table + WALK_HEAP32(table + __builtin_offsetof(struct unwind_table, index));
	map->rows = table + WALK_HEAP32(table + __builtin_offsetof(struct unwind_table, rows));
	map->rules = table + WALK_HEAP32(table + __builtin_offsetof(struct unwind_table, rules));
	map->escapes = table + WALK_HEAP32(table + __builtin_offsetof(struct unwind_table, escapes));
	map->escape_count = WALK_HEAP32(table + __builtin_offsetof(struct unwind_table, escape_count));
	return 0;
}

/* The place of the rule for an address in walk->map; 0 = none. */
static __always_inline __u32 walk_find_rule(const struct walk_map *map, __u64 address)
{
	__u64 offset = address - map->start + map->file_offset;
	__u64 page = (offset >> UNWIND_PAGE_SHIFT) - map->first_page;
	__u32 first, end, row, rule;

	if (page >= map->page_count)
		return 0;
	first = WALK_HEAP32(map->index + page * 4);
	end = WALK_HEAP32(map->index + page * 4 + 4);
	row = first - 1;
	if (end > first)
		row += walk_count_rows(map->rows + (__u64)first * 2, end - first, offset & 0xff);
	rule = WALK_HEAP16(map->rows + (__u64)row * 2) >> 8;
	if (rule == UNWIND_RULE_ESCAPE)
		rule = WALK_ESCAPE(map->escapes, map->escape_count, row);
	return rule ? map->rules + rule * sizeof(struct unwind_rule) : 0;
}

static __always_inline int walk_read_rule(__u32 place, struct unwind_rule *ret)
{
	__u64 *halves = (__u64 *)ret;

	WALK_HEAP128(place, halves);
	return 1;
}

/* ---- frames ---- */

/*
 * Reads one or two words of the stack. Reading user memory has a price by the call, not by the byte, and frames lie close to
 * each other: so more than is asked for is read at once, upwards, where the callers are; as much as is asked for if the rest is
 * not there.
 */
static __always_inline int walk_load(struct walk *walk, __u64 address, __u32 words, __u64 *ret)
{
	__u64 at = address - walk->window_start, index;

	if (at > sizeof(walk->window) || at + words * 8 > walk->window_bytes || at & 7) {
		walk->window_start = address;
		walk->window_bytes = sizeof(walk->window);
		at = 0;
		if (WALK_READ(walk, walk->window, sizeof(walk->window), address)) {
			walk->window_bytes = 0;
			int r = WALK_READ(walk, walk->window, words * 8, address);
			if (r != 0)
				return r;
		}
	}
	index = at >> 3;
	ret[0] = walk->window[index & (WALK_WINDOW_WORDS - 1)];
	if (words > 1)
		ret[1] = walk->window[(index + 1) & (WALK_WINDOW_WORDS - 1)];
	return 0;
}

/* Goes to the caller: appends its frame. */
static __always_inline int walk_enter(struct walk *walk, __u64 ip, __u32 is_return)
{
	__u64 frame = is_return ? ip : ip + 1;

	walk->ip = ip;
	walk->is_return = is_return;
	walk->chained = 0;
	walk->frames[walk->depth & (UNWIND_FRAMES_MAX - 1)] = frame;
	walk->depth++;
	walk->hash = walk_hash(walk->hash, frame);
	return WALK_GOES_ON;
}

#if UNWIND_REGISTERS == 16
/*
 * The kernel's signal frame (arch/x86/include/uapi/asm/sigcontext.h): when the handler has returned to the trampoline, sp
 * points to the ucontext, whose registers begin at 40: r8 to r15, rdi, rsi, rbp, rbx, rdx, rax, rcx, rsp, rip. All are those of
 * the interrupted code. The stack may be another one (sigaltstack), so nothing is asked of the new sp.
 */
static __always_inline int walk_signal(struct walk *walk)
{
	int r = WALK_READ(walk, walk->scratch, 17 * 8, walk->registers[UNWIND_REGISTER_SP] + 40);

	if (r != 0)
		return r;
	for (int i = 0; i < 8; i++)
		walk->registers[8 + i] = walk->scratch[i];
	walk->registers[5] = walk->scratch[8];
	walk->registers[4] = walk->scratch[9];
	walk->registers[6] = walk->scratch[10];
	walk->registers[3] = walk->scratch[11];
	walk->registers[1] = walk->scratch[12];
	walk->registers[0] = walk->scratch[13];
	walk->registers[2] = walk->scratch[14];
	walk->registers[7] = walk->scratch[15];
	walk->known = 0xffff;
	return walk_enter(walk, walk->scratch[16], 0);
}

/* `mov $15, %rax; syscall`: rt_sigreturn, by a trampoline without CFI (musl, Go). */
static __always_inline int walk_is_trampoline(struct walk *walk)
{
	if (WALK_READ(walk, walk->scratch, 16, walk->ip))
		return 0;
	return walk->scratch[0] == 0x0f0000000fc0c748ull && (walk->scratch[1] & 0xff) == 0x05;
}
#else
static __always_inline int walk_signal(struct walk *walk)
{
	return UNWIND_UNSUPPORTED;
}
static __always_inline int walk_is_trampoline(struct walk *walk)
{
	return 0;
}
#endif

/* Strips what pointer authentication put into a return address. */
static __always_inline __u64 walk_code(__u64 address)
{
#if UNWIND_REGISTERS == 16
	return address;
#else
	return address & ((1ull << 48) - 1);
#endif
}

#define WALK_FRAME_BYTES_MAX (8ull << 20) /* of one frame found by its frame pointer */

#if UNWIND_REGISTERS == 16
/* The bytes before `ra` are a call: e8 rel32, or ff /2 with its operand in a register or in memory. */
static __always_inline int walk_follows_call(struct walk *walk, __u64 ra)
{
	__u64 bytes;

	if (WALK_READ(walk, walk->scratch, 8, ra - 8))
		return 0;
	bytes = walk->scratch[0];
	return (bytes >> 24 & 0xff) == 0xe8 || (bytes >> 48 & 0x38ff) == 0x10ff || (bytes >> 40 & 0x38ff) == 0x10ff ||
	       (bytes >> 32 & 0x38ff) == 0x10ff || (bytes >> 16 & 0x38ff) == 0x10ff || (bytes >> 8 & 0x38ff) == 0x10ff;
}
#else
static __always_inline int walk_follows_call(struct walk *walk, __u64 ra)
{
	return 0;
}
#endif

/*
 * The innermost frame, in a gap of a binary's CFI: mostly assembly, which has no frame of its own, so that the return address
 * is on top of the stack. It has to lie in executable memory behind a call. In a thread that is just being made by clone()
 * there is no caller: the child leaves the system call with 0.
 */
static __always_inline int walk_leaf(struct walk *walk)
{
	__u64 sp = walk->registers[UNWIND_REGISTER_SP], ra;
	int r;

#if UNWIND_REGISTERS == 16
	/* mov $435 (clone3) or $56 (clone), %eax; syscall */
	if (!walk->registers[0] && !WALK_READ(walk, walk->scratch, 8, walk->ip - 8) &&
	    (walk->scratch[0] >> 8 == 0x050f000001b3b8ull || walk->scratch[0] >> 8 == 0x050f00000038b8ull))
		return UNWIND_COMPLETE;
#endif
	r = walk_load(walk, sp, 1, &ra);
	if (r != 0)
		return UNWIND_NO_RULE;
	r = WALK_MAP(walk, ra - 1);
	if (r != 0)
		return r == UNWIND_NO_MAPPING ? UNWIND_NO_RULE : r;
	if (!walk_follows_call(walk, ra))
		return UNWIND_NO_RULE;
	walk->by_frames = 1;
	walk->registers[UNWIND_REGISTER_SP] = sp + 8;
	walk->known = 1u << UNWIND_REGISTER_SP | (walk->known & 1u << UNWIND_REGISTER_FP);
	return walk_enter(walk, ra, 1);
}

/*
 * Code without a rule: made at run time, or assembly without CFI. The frame pointer is believed if it is aligned and above sp,
 * not far, and leads to a return address in executable memory, and either to a further frame pointer above it (or 0, the end by
 * the ABI), or to a return address behind a call: callers of a function that keeps a frame pointer may use the register
 * otherwise.
 */
static __always_inline int walk_without_rule(struct walk *walk)
{
	__u64 fp = walk->registers[UNWIND_REGISTER_FP], sp = walk->registers[UNWIND_REGISTER_SP], next, ra;
	__u64 saved[2];
	int r;

	if (walk_is_trampoline(walk))
		return walk_signal(walk);
	if (!walk->is_return && walk->map.state == UNWIND_SLOT_LOADED) {
		r = walk_leaf(walk);
		if (r != UNWIND_NO_RULE)
			return r;
	}
	if (!(walk->known >> UNWIND_REGISTER_FP & 1))
		return UNWIND_NO_RULE;
	/* The ABI's end of the chain; but only where there is a chain: elsewhere the register may hold any number. */
	if (!fp)
		return walk->chained ? UNWIND_COMPLETE : UNWIND_NO_RULE;
	if (fp & 7 || fp < sp || fp - sp > WALK_FRAME_BYTES_MAX)
		return UNWIND_NO_RULE;
	r = walk_load(walk, fp, 2, saved);
	if (r != 0)
		return r == UNWIND_STACK_CUT ? r : UNWIND_NO_RULE;
	next = saved[0];
	ra = walk_code(saved[1]);
	if (!ra)
		return walk->chained && !next ? UNWIND_COMPLETE : UNWIND_NO_RULE;
	if (next && (next & 7 || next <= fp || next - fp > WALK_FRAME_BYTES_MAX) && !walk_follows_call(walk, ra))
		return UNWIND_NO_RULE;
	r = WALK_MAP(walk, ra - 1);
	if (r != 0)
		return r == UNWIND_NO_MAPPING && WALK_KNOWS_ALL ? UNWIND_NO_RULE : r;
	walk->by_frames = 1;
	walk->registers[UNWIND_REGISTER_SP] = fp + 16;
	walk->registers[UNWIND_REGISTER_FP] = next;
	walk->known = 1u << UNWIND_REGISTER_SP | 1u << UNWIND_REGISTER_FP;
	walk_enter(walk, ra, 1);
	walk->chained = 1;
	return WALK_GOES_ON;
}

/* The canonical frame address by the rule. */
static __always_inline int walk_cfa(struct walk *walk, const struct unwind_rule *rule, __u64 *ret)
{
	__u32 from = rule->cfa_register & (UNWIND_REGISTERS - 1);
	__u64 base = walk->registers[from] + (__s64)rule->offset;
	int r;

	if (rule->cfa == UNWIND_CFA_PLT) {
		__u64 pushed = (walk->ip & 15) >= (__u64)(__u32)rule->offset2 ? 8 : 0;
		*ret = walk->registers[UNWIND_REGISTER_SP] + (__s64)rule->offset + pushed;
		return 0;
	}
	if (!(walk->known >> from & 1))
		return UNWIND_NO_REGISTER;
	if (rule->cfa == UNWIND_CFA_DEREFERENCE) {
		r = walk_load(walk, base, 1, &base);
		if (r != 0)
			return r;
		base += (__s64)rule->offset2;
	}
	*ret = base;
	return 0;
}

/* The return address and the caller's frame pointer; mostly they lie side by side. */
static __always_inline int walk_saved(struct walk *walk, const struct unwind_rule *rule, __u64 cfa, __u64 *ret_ra,
				      __u64 *ret_fp, __u32 *ret_known)
{
	__u64 fp = walk->registers[UNWIND_REGISTER_FP];
	__u32 fp_known = walk->known & 1u << UNWIND_REGISTER_FP;
	__u64 saved[2];
	int r;

	if (rule->ra == UNWIND_WHERE_CFA && rule->fp == UNWIND_WHERE_CFA && rule->fp_offset == rule->ra_offset - 8) {
		r = walk_load(walk, cfa + (__s64)rule->fp_offset, 2, saved);
		if (r != 0)
			return r;
		*ret_fp = saved[0];
		*ret_ra = saved[1];
		*ret_known = 1u << UNWIND_REGISTER_FP;
		return 0;
	}
	if (rule->ra == UNWIND_WHERE_CFA) {
		r = walk_load(walk, cfa + (__s64)rule->ra_offset, 1, ret_ra);
		if (r != 0)
			return r;
	} else if (rule->ra == UNWIND_WHERE_REGISTER || rule->ra == UNWIND_WHERE_SAME) {
		__u32 from =
			(rule->ra == UNWIND_WHERE_SAME ? UNWIND_REGISTER_RA : (__u32)rule->ra_offset) & (UNWIND_REGISTERS - 1);
		if (!(walk->known >> from & 1))
			return UNWIND_NO_REGISTER;
		*ret_ra = walk->registers[from];
	} else {
		return UNWIND_UNSUPPORTED;
	}
	if (rule->fp == UNWIND_WHERE_CFA || (rule->fp == UNWIND_WHERE_FP && fp_known)) {
		__u64 at = (rule->fp == UNWIND_WHERE_CFA ? cfa : fp) + (__s64)rule->fp_offset;
		r = walk_load(walk, at, 1, &fp);
		if (r != 0)
			return r;
		fp_known = 1u << UNWIND_REGISTER_FP;
	} else if (rule->fp != UNWIND_WHERE_SAME) {
		fp_known = 0;
	}
	*ret_fp = fp;
	*ret_known = fp_known;
	return 0;
}

/* WALK_GOES_ON, or the result that the walk ends with. */
static __always_inline int walk_step(struct walk *walk)
{
	__u64 pc = walk->ip - walk->is_return, cfa = 0, ra = 0, fp = 0, sp;
	__u32 known = 0, place;
	struct unwind_rule rule;
	int r;

	if (walk->depth >= UNWIND_FRAMES_MAX)
		return UNWIND_TOO_DEEP;
	if (pc < walk->map.start || pc >= walk->map.end) {
		r = WALK_MAP(walk, pc);
		if (r != 0)
			return r;
	}
	if (walk->map.state == UNWIND_SLOT_ABSENT)
		return UNWIND_NO_TABLE;
	place = walk->map.state == UNWIND_SLOT_LOADED ? WALK_RULE(walk, pc) : 0;
	if (!place || !walk_read_rule(place, &rule))
		return walk_without_rule(walk);
	if (rule.cfa == UNWIND_CFA_END)
		return UNWIND_COMPLETE;
	if (rule.cfa == UNWIND_CFA_SIGNAL)
		return walk_signal(walk);
	if (rule.cfa == UNWIND_CFA_UNSUPPORTED)
		return UNWIND_UNSUPPORTED;
	if (rule.cfa == UNWIND_CFA_NONE)
		return walk_without_rule(walk);
	r = walk_cfa(walk, &rule, &cfa);
	if (r != 0)
		return r;
	sp = walk->registers[UNWIND_REGISTER_SP];
	if (cfa < sp || (cfa == sp && rule.ra == UNWIND_WHERE_CFA))
		return UNWIND_BAD_FRAME;
	r = walk_saved(walk, &rule, cfa, &ra, &fp, &known);
	if (r != 0)
		return r;
	ra = walk_code(ra);
	if (!ra)
		return UNWIND_COMPLETE;
	walk->registers[UNWIND_REGISTER_SP] = cfa;
	walk->registers[UNWIND_REGISTER_FP] = fp;
	walk->known = known | 1u << UNWIND_REGISTER_SP;
	return walk_enter(walk, ra, 1);
}

/* Begins at the leaf; registers and known are set. */
static __always_inline void walk_begin(struct walk *walk, __u64 ip, __u64 hash_seed)
{
	walk->ip = ip;
	walk->is_return = 0;
	walk->by_frames = 0;
	walk->chained = 0;
	walk->map.start = walk->map.end = 0;
	walk->window_bytes = 0;
	walk->frames[0] = ip;
	walk->depth = 1;
	walk->hash = hash_seed;
}

#endif
