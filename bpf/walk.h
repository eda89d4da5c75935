/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The walk: from the registers at a leaf to the outermost frame, one frame a step. Compiled for the sampling program and for
 * user space (agent/unwinder.c), which differ in how memory is read and mappings are found:
 *
 *   WALK_READ(walk, to, bytes, address)  copies from the stack (or code) of the process; 0, or the result to stop with
 *   WALK_MAP(walk, address)		  sets walk->map for the executable mapping of an address; 0, or the result to stop with
 *   WALK_KNOWS_ALL			  WALK_MAP's UNWIND_NO_MAPPING is the last word, not for lack of knowledge
 *   WALK_LIVE(walk, rule)		  the rule in code made at run time; 0, or the result to stop with
 *   WALK_THREAD(walk, ret)		  the thread pointer (fs) of the thread; 0, or the result to stop with
 *   WALK_GO(walk, rule)		  walk_go(); or WALK_GOES_OVER, for whoever makes the steps to call it
 *   WALK_ESCAPE, WALK_RULE, WALK_IS_CALL  walk_escape() and their like, which the verifier wants by themselves
 *   WALK_HEAP16(place) ... WALK_HEAP128	  what lies in the heap; any place must be safe to read
 *   WALK_PEEK(walk, to, bytes, address)  as WALK_READ, of memory that is neither stack nor code
 *
 * Where there is only one way in user space, it is what these are unless they are defined: all but READ, MAP, THREAD and
 * HEAP16 to HEAP64.
 *
 * For each frame, decided anew: the rule of its address; without a rule, a signal trampoline's code or a plausible frame
 * pointer; else the walk stops and says why. A frame that a rule leads to is right if the rule is; one that a frame pointer
 * leads to may have skipped a caller (a leaf that has no frame of its own), so it sets walk->by_frames.
 *
 * What is known of registers: all at the leaf, and again in code that a signal interrupted; sp, the frame pointer and, on
 * x86-64, rbx in callers. Compilers refer the CFA of a function that calls others to one of the first two, and hand-written
 * functions (_dl_runtime_resolve(), switches to another stack) mostly to rbx, which is read from where it was saved only when
 * a rule asks for it. Other callee-saved registers are not followed; rules that need them stop the walk with
 * UNWIND_NO_REGISTER.
 *
 * Stacks need not be one. A caller's frame on another stack than its callee's may lie below it: that is believed where the rule
 * does not count from sp and the return address lies behind a call, a few times a walk. The outermost frame of a stack that was
 * made by hand (makecontext(), coroutines) returns to no call: to the first byte of a function that was put there instead, or
 * to 0. That is a root, too.
 *
 * A step changes the walk only if it succeeds, so that the walk can be resumed where it stopped (struct abi_tail).
 *
 * Loops are branch-free searches with a fixed number of steps, for the verifier's sake: a comparison that it has to follow both
 * ways doubles its work each time, a sign that is spread by a shift does not. Addresses and offsets are below 2^63.
 */
#ifndef WICK_BPF_WALK_H
#define WICK_BPF_WALK_H

#include "bpf/beam.h"
#include "bpf/jvm.h"
#include "bpf/lua.h"
#include "bpf/luajit.h"
#include "bpf/perl.h"
#include "bpf/php.h"
#include "bpf/python.h"
#include "bpf/ruby.h"
#include "bpf/unwind.h"
#include "bpf/v8.h"

/* What differs in few places. */
#ifndef __bpf__
#undef __always_inline
#define __always_inline inline __attribute__((always_inline))
#endif
#ifndef WALK_KNOWS_ALL
#define WALK_KNOWS_ALL 1
#endif
#ifndef WALK_HEAP128
#define WALK_HEAP128(place, halves) ((halves)[0] = WALK_HEAP64(place), (halves)[1] = WALK_HEAP64((place) + 8))
#endif
#ifndef WALK_ESCAPE
#define WALK_ESCAPE(escapes, count, row) walk_escape(escapes, count, row)
#endif
#ifndef WALK_IS_CALL
#define WALK_IS_CALL(bytes) walk_is_call(bytes)
#endif
#ifndef WALK_RULE
#define WALK_RULE(walk, address) walk_find_rule(&(walk)->map, address)
#endif
#ifndef WALK_LIVE
#define WALK_LIVE(walk, rule) walk_find_live_rule(walk, rule)
#endif
#ifndef WALK_PEEK
#define WALK_PEEK(walk, to, bytes, address) WALK_READ(walk, to, bytes, address)
#endif
#ifndef WALK_GO
#define WALK_GO(walk, rule) walk_go(walk, rule)
#endif

#define WALK_GOES_ON   255
#define WALK_GOES_OVER 254 /* the step is to be made by WALK_GO, later */
#define WALK_IN_HEAP   253 /* ... by jvm_step_in_heap() */

struct walk_map {
	__u64 start, end; /* [start, end): the mapping; 0, 0 = none yet */
	__u64 file_offset;
	__u32 state; /* enum unwind_slot_state */
	/* Of the table, if it is loaded; absolute places in the heap. */
	__u32 first_page, page_count, index, rows, rules, escapes, escape_count, checks;
	__u32 row; /* that walk_find_rule() found last */
	__u32 slot;
};

/* The copy of the stack that is being made for a tail. */
struct walk_copy {
	__u64 position; /* of the tail in the ring */
	__u64 from, end;
	__u64 done; /* bytes */
	__u64 absent;
	__u32 pages, absent_count;
};

#define WALK_WINDOW_WORDS 32u
struct walk {
	__u64 ip;
	__u64 registers[UNWIND_REGISTERS];
	__u32 known;	 /* bit by register */
	__u32 is_return; /* ip is a return address: the call is before it */
	__u32 by_frames; /* a part was found by frame pointers, or by guessing where a leaf's return address is */
	__u32 analysed;	 /* a part was found by rules for code without CFI */
	__u32 chained;	 /* the last step was by a frame pointer */
	__u32 guessed;	 /* the last step was by no rule */
	__u32 switches;	 /* to stacks below the callee's */
	__u32 uncalled;	 /* ip is behind no call: put there by an interpreter that jumps */
	__u32 asks;	 /* code made at run time that is not known: stop, and ask for it */
	__u32 leaves;	 /* Go's scheduler was met: it does not return to the goroutine that came to it */
	__u32 depth, spare;
	__u64 hash, hash_before;   /* of frames[1] on; without the last one */
	__u64 rbx_at;		   /* where the caller's rbx was saved; 0 = it is in registers */
	__u64 go_callback;	   /* the frame of cgocallback() on the thread's stack that was met last; 0 = none */
	__u32 ranges, range_count; /* of the process, in the heap */
	__u32 cpu;
	struct walk_copy copy;
	struct unwind_rule live; /* that was found last in code made at run time */
	struct walk_map map;
	__u64 window_start; /* the stack that was read last: window_bytes from there on */
	__u32 window_bytes;
	__u32 unknown; /* nothing is known of the code at ip */
	__u64 window[WALK_WINDOW_WORDS];
	__u64 scratch[64];
	__u32 frame_bytes;   /* of the frame that the walk has come to, as its runtime says; 0 = not known */
	__u32 has_frame;     /* ... it has one by its frame pointer */
	__u32 frame_is_sure; /* ... also if it is a leaf */
	__u32 frame_guess;   /* ... as it seems, where no rule says otherwise; 0 = not known */
	/* Of bpf/jvm_walk.h. */
	__u32 jvm_functions, jvm_unknown; /* functions appended; frames in its code of which nothing is known */
	__u32 jvm_is_new;		  /* an object that was not seen before */
	__u64 jvm_segment;		  /* of the block that is looked for */
	__u64 jvm_fp;			  /* of the interpreter's frame that was met last */
	__u64 jvm_nmethod_name;		  /* address of the name of compiled code, once one was read */
	__u32 jvm_barrier;		  /* enum jvm_barrier */
	__u32 jvm_notes;		  /* enum jvm_notes */
	__u64 jvm_chunk, jvm_chunk_end;	  /* the StackChunk that the walk is in, where its frames end; end 0: on the stack */
	__u64 jvm_entry, jvm_entry_ip;	  /* the ContinuationEntry, and a return address in enterSpecial() */
	__u64 jvm_continuation;		  /* that the entry has */
	__u64 jvm_first_ip;		  /* return address in the innermost frame of Java's code, 0 = it is the leaf */
	__u64 jvm_yield_ip;		  /* ... of doYield(), 0 = not met */
	struct jvm_process jvm;		  /* `high` 0: there is none */
	__u64 frames[UNWIND_FRAMES_MAX];  /* [0] = the leaf; the others as in struct abi_chain */
	/* Of bpf/listed_walk.h. A loop without addresses is in no process: then nothing of it counts. */
	union {
		struct listed_process listed;
		struct python_process python;
		struct php_process php;
		struct perl_process perl;
		struct ruby_process ruby;
		struct lua_process lua;
		struct luajit_process luajit;
		__u64 listed_words[LISTED_PROCESS_WORDS];
	};
	__u64 listed_frame;			   /* to be read next */
	__u32 listed_count, listed_next;	   /* frames collected; of them appended */
	__u32 listed_loops, listed_missed;	   /* frames of the loop that the walk has met; of them without a part */
	__u32 listed_appends;			   /* enum listed_appends */
	__u32 listed_is_new;			   /* a function that was not seen before */
	__u32 listed_anchor, listed_anchor_count;  /* of listed_anchors: passed, collected */
	__u32 python_interpreters;		   /* that were searched */
	__u64 listed_sp, listed_held;		   /* see listed_meet() */
	__u64 python_interpreter, python_state;	   /* of the search for the thread's state */
	__u64 php_globals;			   /* executor_globals of the thread */
	__u64 php_generator;			   /* to be read next; 0 = none */
	__u32 php_turn_from, php_turn_to;	   /* frames that are to be put into the reverse order */
	__u64 perl_contexts, perl_back;		   /* the stack of contexts, and the one before it; 0 = none */
	__u64 perl_cop;				   /* of what is to be added next */
	__u32 perl_left, perl_first;		   /* contexts that are left; listed_count at the stack's start */
	__u64 ruby_end;				   /* of the frames */
	__u64 listed_anchors[LISTED_ANCHORS_MAX];  /* what ends parts */
	__u64 listed_frames[LISTED_FRAMES_MAX][2]; /* words 1 and 2 */
	/* Of bpf/lua_walk.h. */
	__u32 lua_in_loop;		/* the walk has come to a frame of the loop */
	__u32 lua_first;		/* 1 + the state whose innermost call is to be read next; 0 = none */
	__u32 lua_states, lua_at;	/* states that were met; the one whose list is collected */
	__u64 lua_best, lua_best_error; /* of the words that may be the state */
	__u64 lua_state[LUA_STATES_MAX];
	__u64 lua_next[LUA_STATES_MAX];	 /* the call to be read next */
	__u64 lua_end[LUA_STATES_MAX];	 /* what ends the list */
	__u32 lua_inner[LUA_STATES_MAX]; /* enum lua_inner: of the call before it */
	struct lua_window lua_calls, lua_values;
	struct lua_known lua_known[LUA_KNOWN_MAX];
	/* Of bpf/luajit_walk.h, which uses these as well. lua_next: the frame to be read next; lua_end: the native frame that
	 * the state had before. */
	__u32 luajit_where;		     /* enum luajit_where: the frame that the walk has come to */
	__u32 luajit_trace;		     /* a trace runs */
	__u64 luajit_frame;		     /* the interpreter's native frame that was found */
	__u64 luajit_global;		     /* of its state, if that was not met before */
	__u64 luajit_low, luajit_high;	     /* ... the stack */
	__u64 luajit_base[4], luajit_pc;     /* ... what may be the innermost function's base, and its instruction */
	__u64 luajit_next[LUA_STATES_MAX];   /* the instruction behind the one that the next function executes; 0 = not known */
	__u64 luajit_bottom[LUA_STATES_MAX]; /* there are no frames up to here */
	/* Of bpf/v8_walk.h. kind 0: there is none. */
	struct v8_process v8;
	__u64 left_fp, left_sp; /* of the frame that the last step began in; left_fp 0: not known */
	__u64 left_offset;	/* of its code in the file */
	__u32 left_slot;	/* the file; UNWIND_SLOT_JIT: its code was made at run time */
	__u32 v8_setup;		/* enum v8_setup, of the frame that the walk has come to */
	__u32 v8_count;		/* frames appended */
	__u32 v8_is_new;	/* a function that was not seen before */
	__u64 v8_words[2];	/* of the frame that was appended last */
	/* Of bpf/beam_walk.h. kind 0: there is none. */
	struct beam_process beam;
	__u64 beam_at;	   /* the word of the stack that is looked at next */
	__u32 beam_count;  /* frames appended */
	__u32 beam_is_new; /* code that was not seen before */
	__u32 runtimes;	   /* HAS_ bits, of the sampling program alone */
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
	map->page_count = 0;
	map->checks = 0;
	if (state != UNWIND_SLOT_LOADED && (state != UNWIND_SLOT_LIVE || !table))
		return 0;
	map->first_page = WALK_HEAP32(table + __builtin_offsetof(struct unwind_table, first_page));
	map->page_count = WALK_HEAP32(table + __builtin_offsetof(struct unwind_table, page_count));
	map->index = table + WALK_HEAP32(table + __builtin_offsetof(struct unwind_table, index));
	map->rows = table + WALK_HEAP32(table + __builtin_offsetof(struct unwind_table, rows));
	map->rules = table + WALK_HEAP32(table + __builtin_offsetof(struct unwind_table, rules));
	map->escapes = table + WALK_HEAP32(table + __builtin_offsetof(struct unwind_table, escapes));
	map->escape_count = WALK_HEAP32(table + __builtin_offsetof(struct unwind_table, escape_count));
	if (state == UNWIND_SLOT_LIVE)
		map->checks = table + WALK_HEAP32(table + __builtin_offsetof(struct unwind_table, checks));
	return 0;
}

/* The place of the rule for an address in walk->map; 0 = none. */
static __always_inline __u32 walk_find_rule(struct walk_map *map, __u64 address)
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
	map->row = row;
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

/* Of the 16 bytes of code at a multiple of 16 in which an instruction begins. */
static __always_inline __u32 walk_check(__u64 low, __u64 high)
{
	return walk_hash(walk_hash(0, low), high) >> 48;
}

/* Tables of code made at run time: UNWIND_CFA_NONE if nothing is known of the address, or the code is another by now. */
static __always_inline int walk_find_live_rule(struct walk *walk, struct unwind_rule *ret)
{
	__u32 place = WALK_RULE(walk, walk->ip);

	ret->cfa = UNWIND_CFA_NONE;
	if (!place || !walk->map.checks || WALK_READ(walk, walk->scratch, 16, walk->ip & ~15ull))
		return 0;
	if (WALK_HEAP16(walk->map.checks + (__u64)walk->map.row * 2) == walk_check(walk->scratch[0], walk->scratch[1]))
		walk_read_rule(place, ret);
	return 0;
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
	walk->guessed = 0;
	walk->uncalled = 0;
	walk->frame_bytes = walk->has_frame = walk->v8_setup = 0;
	walk->frame_is_sure = walk->frame_guess = 0;
	walk->frames[walk->depth & (UNWIND_FRAMES_MAX - 1)] = frame;
	walk->depth++;
	walk->hash_before = walk->hash;
	walk->hash = walk_hash(walk->hash, frame);
	return WALK_GOES_ON;
}

/* Puts another value in place of the last frame. */
static __always_inline void walk_amend(struct walk *walk, __u64 frame)
{
	if (walk->depth < 2) /* the leaf is in no chain */
		return;
	if (walk->frames[(walk->depth - 1) & (UNWIND_FRAMES_MAX - 1)] & RUNTIME_FRAME) /* behind it are functions already */
		return;
	walk->frames[(walk->depth - 1) & (UNWIND_FRAMES_MAX - 1)] = frame;
	walk->hash = walk_hash(walk->hash_before, frame);
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
	walk_amend(walk, walk->frames[(walk->depth - 1) & (UNWIND_FRAMES_MAX - 1)] | UNWIND_FRAME_SIGNAL);
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
	walk->rbx_at = 0;
	return walk_enter(walk, walk->scratch[16], 0);
}

/*
 * `mov $15, %rax; syscall`: rt_sigreturn, by a trampoline without CFI (musl, Go), or in the system call that it makes, when the
 * leaf's address is the one behind it. There no CFI holds any more: glibc's ends with the instruction.
 */
#define WALK_TRAMPOLINE_BYTES 9
static __always_inline int walk_is_trampoline(struct walk *walk)
{
	__u64 behind = walk->is_return ? 0 : WALK_TRAMPOLINE_BYTES;

	if (WALK_READ(walk, walk->scratch, 16, walk->ip - behind))
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

enum walk_call { WALK_CALL_UNREADABLE, WALK_CALL_NOT, WALK_CALL };
#if UNWIND_REGISTERS == 16
/* Whether the last `len` of the bytes are a call by ff /2. A register as its operand takes 2, memory up to 7. */
static __always_inline __u32 walk_is_indirect_call(__u64 bytes, __u32 len)
{
	__u32 opcode = bytes >> (64 - 8 * len) & 0xff, modrm = bytes >> (72 - 8 * len) & 0xff, form = modrm & 7;
	__u32 mod = modrm >> 6, is_sib = form == 4, is_rip = !mod && form == 5;
	__u32 needs = mod == 3 ? 2 : 2 + is_sib + (is_rip || mod == 2 ? 4 : mod); /* with its address */
	__u32 base = bytes >> (80 - 8 * (len > 2 ? len : 3)) & 7;

	if (is_sib && !mod && base == 5) /* no base, but 4 bytes */
		needs += 4;
	return opcode == 0xff && (modrm & 0x38) == 0x10 && needs == len;
}

/* Whether the last of the bytes are a call: e8 rel32, or ff /2 with its operand in a register or in memory. */
static __always_inline int walk_is_call(__u64 bytes)
{
	return (bytes >> 24 & 0xff) == 0xe8 || walk_is_indirect_call(bytes, 2) || walk_is_indirect_call(bytes, 3) ||
	       walk_is_indirect_call(bytes, 4) || walk_is_indirect_call(bytes, 6) || walk_is_indirect_call(bytes, 7);
}

/* Of the bytes before `ra`. */
static __always_inline enum walk_call walk_call_before(struct walk *walk, __u64 ra)
{
	if (WALK_READ(walk, walk->scratch, 8, ra - 8))
		return WALK_CALL_UNREADABLE;
	return WALK_IS_CALL(walk->scratch[0]) ? WALK_CALL : WALK_CALL_NOT;
}
#else
static __always_inline enum walk_call walk_call_before(struct walk *walk, __u64 ra)
{
	return WALK_CALL_UNREADABLE;
}
#endif

static __always_inline int walk_follows_call(struct walk *walk, __u64 ra)
{
	return walk_call_before(walk, ra) == WALK_CALL;
}

#if UNWIND_REGISTERS == 16
#define WALK_ENTRY_OFFSET 8 /* of the CFA from sp, where a function begins */
#else
#define WALK_ENTRY_OFFSET 0
#endif

/* Whether a function may begin at this address. One that has called another has an aligned stack pointer behind the call, which
 * is not the one that it began with. */
static __always_inline int walk_may_begin(struct walk *walk, __u64 ip)
{
	struct unwind_rule rule;
	__u32 place;

	/* Where code is replaced, a return address is behind no call as soon as it has been. */
	if (ip < walk->map.start || ip >= walk->map.end || walk->map.state == UNWIND_SLOT_LIVE)
		return 0;
	place = walk->map.state == UNWIND_SLOT_LOADED ? WALK_RULE(walk, ip) : 0;
	if (!place || !walk_read_rule(place, &rule) || rule.cfa == UNWIND_CFA_NONE || rule.cfa == UNWIND_CFA_END)
		return 1;
	return (rule.cfa & ~UNWIND_RULE_FLAGS) == UNWIND_CFA_REGISTER && rule.cfa_register == UNWIND_REGISTER_SP &&
	       rule.offset == WALK_ENTRY_OFFSET;
}

/*
 * Whether the last frame is no return address but the first byte of a function, put at the outermost end of a stack that was
 * made by hand. Then it is shown as what it is: the byte before it belongs to another function.
 */
static __always_inline int walk_is_planted(struct walk *walk)
{
	__u64 ip = walk->ip;

	if (!walk->is_return || walk->guessed || !walk_may_begin(walk, ip) || walk_call_before(walk, ip) != WALK_CALL_NOT)
		return 0;
	walk_amend(walk, ip + 1);
	return 1;
}

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
	walk_enter(walk, ra, 1);
	walk->guessed = 1;
	return WALK_GOES_ON;
}

#define WALK_ROOM_BYTES_MAX 4096

/*
 * Where the caller's stack ends, above the frame at fp. HotSpot's interpreter makes room for a callee's variables below the
 * frame of compiled code that calls it, and notes below its frame pointer where that ended. What else has such a number there
 * is found out by the next return address.
 */
static __always_inline __u64 walk_sender(struct walk *walk, __u64 fp)
{
	__u64 noted = 0;

	if (walk_load(walk, fp - 8, 1, &noted) || noted & 7 || noted <= fp + 16 || noted - fp > WALK_ROOM_BYTES_MAX)
		return fp + 16;
	return noted;
}

/*
 * By the frame pointer. It is believed if it is aligned and above sp, not far, and leads to a return address in executable
 * memory, and either to a further frame pointer above it (or 0, the end by the ABI), or to a return address behind a call:
 * callers of a function that keeps a frame pointer may use the register otherwise. switched: sp is known to be that of another
 * stack, so that the frame pointer may be anywhere, but then a call is asked for.
 */
static __always_inline int walk_by_frame_pointer(struct walk *walk, int switched)
{
	__u64 fp = walk->registers[UNWIND_REGISTER_FP], sp = walk->registers[UNWIND_REGISTER_SP], next, ra;
	__u64 saved[2];
	__u32 is_live = walk->map.state == UNWIND_SLOT_LIVE;
	/* Code of a file with a table, and no rule for it: hardly any of that keeps a frame pointer. And a leaf made at run
	 * time that was replaced before it could be looked at: it may not have set its frame up yet, or keep none. */
	__u32 is_gap =
		walk->map.state == UNWIND_SLOT_LOADED || (is_live && walk->unknown && !walk->is_return && !walk->v8_setup);
	int r;

	if (!(walk->known >> UNWIND_REGISTER_FP & 1))
		return UNWIND_NO_RULE;
	/* The ABI's end of the chain; but only where there is a chain: elsewhere the register may hold any number. */
	if (!fp)
		return walk->chained ? UNWIND_COMPLETE : UNWIND_NO_RULE;
	if (fp & 7 || (!switched && (fp < sp || fp - sp > WALK_FRAME_BYTES_MAX)))
		return UNWIND_NO_RULE;
	r = walk_load(walk, fp, 2, saved);
	if (r != 0)
		return r == UNWIND_STACK_CUT ? r : UNWIND_NO_RULE;
	next = saved[0];
	ra = walk_code(saved[1]);
	if (!ra)
		return walk->chained && !next ? UNWIND_COMPLETE : UNWIND_NO_RULE;
	if ((switched || (!walk->has_frame && next && (next & 7 || next <= fp || next - fp > WALK_FRAME_BYTES_MAX))) &&
	    !walk_follows_call(walk, ra))
		return UNWIND_NO_RULE;
	r = WALK_MAP(walk, ra - 1);
	if (r != 0)
		return r == UNWIND_NO_MAPPING && WALK_KNOWS_ALL ? UNWIND_NO_RULE : r;
	walk->by_frames = 1;
	sp = fp + 16;
	if (is_live && walk->map.state == UNWIND_SLOT_LIVE)
		sp = walk_sender(walk, fp);
	walk->registers[UNWIND_REGISTER_SP] = sp;
	walk->registers[UNWIND_REGISTER_FP] = next;
	walk->known = 1u << UNWIND_REGISTER_SP | 1u << UNWIND_REGISTER_FP;
	walk_enter(walk, ra, 1);
	if (is_gap)
		walk_amend(walk, ra | UNWIND_FRAME_GAP);
	walk->chained = 1;
	walk->guessed = 1;
	return WALK_GOES_ON;
}

/* Code without a rule: made at run time, or assembly without CFI. */
static __always_inline int walk_without_rule(struct walk *walk)
{
	int r;

	if (!walk->v8_setup && walk_is_trampoline(walk))
		return walk_signal(walk);
	if (walk_is_planted(walk))
		return UNWIND_COMPLETE;
	if (!walk->is_return && walk->map.state == UNWIND_SLOT_LOADED) {
		r = walk_leaf(walk);
		if (r != UNWIND_NO_RULE)
			return r;
	}
	return walk_by_frame_pointer(walk, 0);
}

/* The value of a register by which a rule finds the CFA. */
static __always_inline int walk_register(struct walk *walk, __u32 number, __u64 *ret)
{
	if (!(walk->known >> number & 1))
		return UNWIND_NO_REGISTER;
#ifdef UNWIND_REGISTER_RBX
	if (number == UNWIND_REGISTER_RBX && walk->rbx_at)
		return walk_load(walk, walk->rbx_at, 1, ret);
#endif
	*ret = walk->registers[number & (UNWIND_REGISTERS - 1)];
	return 0;
}

/* The canonical frame address by the rule. */
static __always_inline int walk_cfa(struct walk *walk, const struct unwind_rule *rule, __u64 *ret)
{
	__u64 base = 0;
	int r;

	if (rule->cfa == UNWIND_CFA_PLT) {
		__u64 pushed = (walk->ip & 15) >= (__u64)(__u32)rule->offset2 ? 8 : 0;
		*ret = walk->registers[UNWIND_REGISTER_SP] + (__s64)rule->offset + pushed;
		return 0;
	}
	r = walk_register(walk, rule->cfa_register & (UNWIND_REGISTERS - 1), &base);
	if (r != 0)
		return r;
	base += (__s64)rule->offset;
	if (rule->cfa == UNWIND_CFA_DEREFERENCE || rule->cfa == UNWIND_CFA_INDEXED) {
		if (rule->cfa == UNWIND_CFA_INDEXED) {
			__u32 index = rule->cfa_register >> 4;
			if (!(walk->known >> index & 1))
				return UNWIND_NO_REGISTER;
			base += walk->registers[index & (UNWIND_REGISTERS - 1)] * 8;
		}
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

/* Where the caller's rbx is. Returns the bit of it in walk->known. */
static __always_inline __u32 walk_rbx(struct walk *walk, const struct unwind_rule *rule, __u64 cfa)
{
#ifdef UNWIND_REGISTER_RBX
	if (rule->cfa != UNWIND_CFA_REGISTER || rule->offset2 == UNWIND_RBX_LOST)
		return 0;
	if (!rule->offset2)
		return walk->known & 1u << UNWIND_REGISTER_RBX;
	walk->rbx_at = cfa + (__s64)rule->offset2;
	return 1u << UNWIND_REGISTER_RBX;
#else
	return 0;
#endif
}

#define WALK_SWITCHES_MAX 16

/* Whether the caller's frame may lie below this one: on another stack. */
static __always_inline int walk_may_switch(struct walk *walk, const struct unwind_rule *rule, __u64 ra)
{
	if ((rule->cfa == UNWIND_CFA_REGISTER && rule->cfa_register == UNWIND_REGISTER_SP) ||
	    walk->switches >= WALK_SWITCHES_MAX || !walk_follows_call(walk, ra))
		return 0;
	walk->switches++;
	return 1;
}

/*
 * The return address by the rule is in no known code. Where a function goes over to another stack by hand, its CFI mostly
 * counts on from the new one (Go's systemstack()), and its frame pointer is still the old one. And libraries of coroutines
 * that are written without CFI (Boost.Context) put the inside of a function, behind a jump, at the end of a stack: above
 * lies whatever the memory held before.
 */
static __always_inline int walk_off_stack(struct walk *walk, __u64 ra)
{
	if (walk->analysed && walk->is_return && !walk->guessed && walk_call_before(walk, walk->ip) == WALK_CALL_NOT) {
		walk_amend(walk, walk->ip + 1);
		return UNWIND_COMPLETE;
	}
	/* Behind a call it is code that is not known yet. */
	if (walk->switches >= WALK_SWITCHES_MAX || walk_follows_call(walk, ra))
		return UNWIND_NO_MAPPING;
	walk->switches++;
	return walk_by_frame_pointer(walk, 1) == WALK_GOES_ON ? WALK_GOES_ON : UNWIND_NO_MAPPING;
}

/* A step by a rule that says where the caller's frame is. */
static __always_inline int walk_by_rule(struct walk *walk, const struct unwind_rule *rule)
{
	__u64 cfa = 0, ra = 0, fp = 0, sp = walk->registers[UNWIND_REGISTER_SP];
	__u32 known = 0, is_live = walk->map.state == UNWIND_SLOT_LIVE, uncalled = 0;
	int r;

	r = walk_cfa(walk, rule, &cfa);
	if (r != 0)
		return r;
	if (cfa == sp && rule->ra == UNWIND_WHERE_CFA && walk->is_return)
		return UNWIND_BAD_FRAME;
	r = walk_saved(walk, rule, cfa, &ra, &fp, &known);
	/* A stack that was made by hand ends with the frame of its first function. */
	if (r == UNWIND_BAD_READ && cfa > sp && !((cfa - 8) & 4095) && !is_live)
		return UNWIND_COMPLETE;
	if (r != 0)
		return cfa < sp ? UNWIND_BAD_FRAME : r;
	ra = walk_code(ra);
	/* A rule for code that was replaced by now finds anything: 0 is the commonest number in memory. */
	if (!ra && is_live)
		return UNWIND_NO_RULE;
	if (!ra)
		return cfa < sp ? UNWIND_BAD_FRAME : UNWIND_COMPLETE;
	if (ra - 1 < walk->map.start || ra - 1 >= walk->map.end) {
		r = WALK_MAP(walk, ra - 1);
		if (r == UNWIND_NO_MAPPING)
			return cfa < sp ? UNWIND_BAD_FRAME : walk_off_stack(walk, ra);
		if (r != 0)
			return r;
	}
	if (cfa < sp && !walk_may_switch(walk, rule, ra))
		return UNWIND_BAD_FRAME;
	/* Such code is replaced at any time, and the rule may be that of the former. An interpreter that was made at run time
	 * (HotSpot's) puts the address that is to be returned to there by itself, and keeps a frame pointer. */
	if (is_live && !walk_follows_call(walk, ra)) {
		if (walk->map.state != UNWIND_SLOT_LIVE)
			return UNWIND_NO_RULE;
		uncalled = 1;
	}
	known |= walk_rbx(walk, rule, cfa) | 1u << UNWIND_REGISTER_SP;
	walk->registers[UNWIND_REGISTER_SP] = cfa;
	walk->registers[UNWIND_REGISTER_FP] = fp;
	walk->known = known;
	walk_enter(walk, ra, 1);
	walk->uncalled = uncalled;
	return WALK_GOES_ON;
}

/* ---- Go's runtime, where it goes over to another stack (bpf/unwind.h) ---- */

#if UNWIND_REGISTERS == 16
static __always_inline int walk_word(struct walk *walk, __u64 address, __u64 *ret)
{
	int r = WALK_READ(walk, walk->scratch, 8, address);

	*ret = walk->scratch[0];
	return r;
}

/* Where the frame of asmcgocall() is on the goroutine's stack, which may have moved since: a depth was noted, not an address.
 */
static __always_inline int walk_go_saved(struct walk *walk, const struct unwind_rule *rule, __u64 *ret_sp)
{
	__u64 sp = walk->registers[UNWIND_REGISTER_SP], g = 0, depth = 0, top = 0;
	int r;

	r = walk_word(walk, sp + (__s64)rule->offset, &g);
	if (!r)
		r = walk_word(walk, sp + (__s64)rule->fp_offset, &depth);
	if (!r)
		r = walk_word(walk, g + (__s64)rule->ra_offset, &top);
	*ret_sp = top - depth;
	return r;
}

/* Where the goroutine m.curg was left, or g0. *ret_sp is 0 if it is not (any more) that of this thread. */
static __always_inline int walk_go_left(struct walk *walk, const struct unwind_rule *rule, __u64 *ret_sp, __u64 *ret_pc)
{
	__u64 thread = 0, g = 0, m = 0, left = 0, of = 0;
	int r;

	r = WALK_THREAD(walk, &thread);
	if (!r)
		r = walk_word(walk, thread + (__s64)rule->offset, &g);
	if (!r)
		r = walk_word(walk, g + (__s64)rule->ra_offset, &m);
	if (!r)
		r = walk_word(walk, m + (__s64)rule->fp_offset, &left);
	if (r != 0 || !left)
		return r;
	r = walk_word(walk, left + (__s64)rule->ra_offset, &of);
	if (!r)
		r = WALK_READ(walk, walk->scratch, 16, left + UNWIND_GO_SCHED((__u32)rule->offset2));
	*ret_sp = of == m ? walk->scratch[0] : 0;
	*ret_pc = walk->scratch[1];
	return r;
}

static __always_inline int walk_go(struct walk *walk, const struct unwind_rule *rule)
{
	__u64 sp = 0, ra = 0, frame;
	__u32 size = UNWIND_GO_SIZE((__u32)rule->offset2), cfa = rule->cfa;
	int r;

	if (cfa == UNWIND_CFA_GO_CGO) {
		size = rule->offset2;
		r = walk_go_saved(walk, rule, &sp);
	} else if (cfa == UNWIND_CFA_GO_CALLBACK && walk->go_callback) {
		r = walk_word(walk, walk->go_callback, &sp);
	} else if (cfa == UNWIND_CFA_GO_GROW && walk->leaves) {
		return UNWIND_COMPLETE; /* another goroutine may have been chosen since */
	} else {
		r = walk_go_left(walk, rule, &sp, &ra);
	}
	if (r != 0)
		return r;
	if (!sp)
		return cfa == UNWIND_CFA_GO_GROW ? UNWIND_COMPLETE : UNWIND_BAD_FRAME;
	frame = sp;
	if (cfa != UNWIND_CFA_GO_GROW) {
		sp += size;
		r = walk_word(walk, sp - 8, &ra);
		if (r != 0)
			return r;
	}
	if (sp & 7 || !ra || walk->switches >= WALK_SWITCHES_MAX)
		return UNWIND_BAD_FRAME;
	r = WALK_MAP(walk, ra - 1);
	if (r != 0)
		return r;
	if (!walk_follows_call(walk, ra))
		return UNWIND_BAD_FRAME;
	walk->switches++;
	if (cfa == UNWIND_CFA_GO_CALLBACK)
		walk->go_callback = frame;
	walk->registers[UNWIND_REGISTER_SP] = sp;
	walk->known = 1u << UNWIND_REGISTER_SP;
	return walk_enter(walk, ra, 1);
}
#else
static __always_inline int walk_go(struct walk *walk, const struct unwind_rule *rule)
{
	return UNWIND_UNSUPPORTED;
}
#endif

/* The rule of a frame of which the size is known: where HotSpot's compiled code has called, the caller's rbp lies below the
 * return address. Where that is all, rbp is still the caller's. BEAM's has none. */
static __always_inline void walk_rule_of_size(const struct walk *walk, __u32 bytes, struct unwind_rule *ret)
{
	ret->cfa = UNWIND_CFA_REGISTER;
	ret->cfa_register = UNWIND_REGISTER_SP;
	ret->offset = bytes;
	ret->offset2 = UNWIND_RBX_LOST;
	ret->ra = UNWIND_WHERE_CFA;
	ret->fp = walk->beam.kind ? UNWIND_WHERE_LOST : bytes > 8 ? UNWIND_WHERE_CFA : UNWIND_WHERE_SAME;
	ret->ra_offset = -8;
	ret->fp_offset = -16;
}

/* WALK_GOES_ON, or the result that the walk ends with. */
static __always_inline int walk_step(struct walk *walk)
{
	__u64 pc = walk->ip - walk->is_return;
	struct unwind_rule rule = {.cfa = UNWIND_CFA_NONE};
	__u32 place, is_guess;
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
	walk->left_offset = pc - walk->map.start + walk->map.file_offset;
	walk->left_slot = walk->map.state == UNWIND_SLOT_LIVE ? UNWIND_SLOT_JIT : walk->map.slot;
	walk->left_sp = walk->registers[UNWIND_REGISTER_SP];
	walk->left_fp = walk->known >> UNWIND_REGISTER_FP & 1 ? walk->registers[UNWIND_REGISTER_FP] : 0;
	if (walk->v8_setup > V8_SETUP_FRAME) {
		walk_rule_of_size(walk, walk->v8_setup, &rule);
	} else if (walk->frame_bytes && (walk->is_return || walk->frame_is_sure)) {
		walk_rule_of_size(walk, walk->frame_bytes, &rule);
	} else if (walk->map.state == UNWIND_SLOT_LIVE) {
		r = walk->v8_setup ? 0 : WALK_LIVE(walk, &rule);
		if (r != 0)
			return r;
	} else {
		place = walk->map.state == UNWIND_SLOT_LOADED ? WALK_RULE(walk, pc) : 0;
		if (!place || !walk_read_rule(place, &rule))
			rule.cfa = UNWIND_CFA_NONE;
	}
	is_guess = walk->frame_guess && (rule.cfa == UNWIND_CFA_NONE || rule.cfa == UNWIND_CFA_FRAMES);
	if (is_guess)
		walk_rule_of_size(walk, walk->frame_guess, &rule);
	if (walk->uncalled && rule.cfa != UNWIND_CFA_FRAMES && rule.cfa_register != UNWIND_REGISTER_FP)
		return UNWIND_NO_RULE;
	walk->unknown = rule.cfa == UNWIND_CFA_NONE;
	if (rule.cfa == UNWIND_CFA_FRAMES)
		rule.cfa = UNWIND_CFA_NONE;
	if (rule.cfa & UNWIND_RULE_FLAGS) {
		walk->analysed |= rule.cfa / UNWIND_RULE_ANALYSED;
		walk->leaves |= rule.cfa & UNWIND_RULE_LEAVES;
		rule.cfa &= ~UNWIND_RULE_FLAGS;
	}
	if (rule.cfa == UNWIND_CFA_END)
		return UNWIND_COMPLETE;
	if (rule.cfa == UNWIND_CFA_SIGNAL)
		return walk_signal(walk);
	/* Functions mostly begin at such addresses: few return addresses need to be looked at. Go puts the second byte of one
	 * there, behind a nop: goexit(). */
	if ((walk->ip & 15) <= 1 && rule.cfa != UNWIND_CFA_NONE && walk_is_planted(walk))
		return walk_is_trampoline(walk) ? walk_signal(walk) : UNWIND_COMPLETE;
	if (rule.cfa == UNWIND_CFA_UNSUPPORTED)
		return UNWIND_UNSUPPORTED;
	if (rule.cfa == UNWIND_CFA_NONE)
		return walk_without_rule(walk);
	if (rule.cfa >= UNWIND_CFA_GO_SYSTEM)
		return WALK_GO(walk, &rule);
	r = walk_by_rule(walk, &rule);
	if (is_guess && r == WALK_GOES_ON) {
		walk->by_frames = 1;
		walk_amend(walk, walk->ip | UNWIND_FRAME_GAP);
	}
	return r;
}

/* The result of a walk that step by step has come to its end with `result`. */
static __always_inline int walk_result(const struct walk *walk, int result)
{
	return result == UNWIND_COMPLETE && walk->analysed ? UNWIND_ANALYSED : result;
}

/* Appends a word that is no native address. */
static __always_inline void walk_push(struct walk *walk, __u64 word)
{
	walk->frames[walk->depth & (UNWIND_FRAMES_MAX - 1)] = word;
	walk->depth++;
	walk->hash_before = walk->hash;
	walk->hash = walk_hash(walk->hash, word);
}

#include "bpf/listed_walk.h"

#include "bpf/beam_walk.h"
#include "bpf/jvm_walk.h"
#include "bpf/lua_walk.h"
#include "bpf/luajit_walk.h"
#include "bpf/perl_walk.h"
#include "bpf/php_walk.h"
#include "bpf/python_walk.h"
#include "bpf/ruby_walk.h"
#include "bpf/v8_walk.h"

/* No runtime is known. */
static __always_inline void walk_without_runtimes(struct walk *walk)
{
	walk->v8.kind = walk->v8_count = walk->v8_is_new = 0;
	walk->beam.kind = walk->beam_count = walk->beam_is_new = 0;
	walk->jvm.high = 0;
	walk->jvm_functions = walk->jvm_unknown = walk->jvm_is_new = 0;
	walk->jvm_nmethod_name = walk->jvm_fp = 0;
	walk->jvm_barrier = walk->jvm_notes = 0;
	walk->jvm_first_ip = walk->jvm_yield_ip = 0;
	walk->jvm_chunk = walk->jvm_chunk_end = 0;
	walk->jvm_entry = walk->jvm_entry_ip = walk->jvm_continuation = 0;
	walk->listed.kind = walk->listed.flags = 0;
	walk->listed.loop_start = walk->listed.loop_end = 0;
	walk->listed.cold_start = walk->listed.cold_end = 0;
	walk->listed_count = walk->listed_next = walk->listed_loops = walk->listed_missed = 0;
	walk->listed_anchor = walk->listed_anchor_count = 0;
	walk->listed_appends = walk->listed_is_new = 0;
	walk->listed_frame = walk->listed_held = 0;
	walk->lua_in_loop = walk->lua_states = walk->lua_at = 0;
}

/* Begins at the leaf; registers and known are set. */
static __always_inline void walk_begin(struct walk *walk, __u64 ip, __u64 hash_seed)
{
	walk->ip = ip;
	walk->is_return = 0;
	walk->by_frames = 0;
	walk->analysed = 0;
	walk->chained = walk->guessed = 0;
	walk->switches = 0;
	walk->leaves = 0;
	walk->rbx_at = walk->go_callback = 0;
	walk->asks = 0;
	walk->uncalled = walk->unknown = 0;
	walk->frame_bytes = walk->has_frame = walk->v8_setup = 0;
	walk->frame_is_sure = walk->frame_guess = 0;
	walk->left_slot = UNWIND_SLOT_JIT;
	walk->map.start = walk->map.end = 0;
	walk->window_bytes = 0;
	walk->frames[0] = ip;
	walk->depth = 1;
	walk->hash = walk->hash_before = hash_seed;
}

#endif
