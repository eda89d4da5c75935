/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Unwind tables: what the walk (bpf/walk.h) reads, and the agent writes. Fixed-size types only.
 *
 * Purpose. From a program counter to the rule by which the caller's registers are found (DWARF 5, 6.4), without frame pointers,
 * inside a timer interrupt. All tables lie in one heap, a BPF array that the agent writes through memory; a place in it is a
 * byte offset, and 0 is no place. The heap is an array of chunks, because kernels before 6.x limit a value to 4 MiB; whatever
 * is read at once is aligned to its size and so never crosses a chunk.
 *
 *   processes (hash)          heap                          slots (array)             heap
 *   tgid -> unwind_process -> unwind_range[count] -> slot -> unwind_slot -----------> unwind_table
 *                             sorted by start                one a binary             header, rules, index, rows, escapes
 *
 * A table is in file offsets, not in addresses: what the mapping of a process gives is an offset, and no segment's address has
 * to be known to use it.
 *
 *   struct unwind_table (64 bytes)
 *   rules     struct unwind_rule[rule_count], at a multiple of 16, the commonest first; rule 0 is UNWIND_CFA_NONE
 *   index     u32[page_count + 1]: the first row of each 256 bytes of the file, from first_page on
 *   rows      u16[row_count]: low byte of the offset at which the row begins, rule << 8
 *   escapes   struct unwind_escape[escape_count], sorted by row: the rules of rows that say UNWIND_RULE_ESCAPE
 *
 * Row 0 is a sentinel {0, rule 0} and index[0] is 1. The row of an offset is the last one that begins at or before it: among
 * the rows index[page] to index[page + 1] - 1 the last whose low byte is <= that of the offset, else row index[page] - 1. So a
 * lookup touches one index entry, at most 256 rows (eight steps), and one rule. 255 rules cover 99.5% of the rows of any binary
 * that was looked at, hence a byte, and the escape.
 *
 * Rejected: 8-byte rows found by a binary search over the whole table (17 cache lines instead of three, four times the memory),
 * a hash of pages to fixed buckets (more memory for sparse code), a map per binary (system calls per row, no hot unloading).
 *
 * Code that is made at run time moves and is replaced. Its tables are in offsets from the start of the mapping and belong to
 * one process (struct unwind_range.slot is its own); each instruction that is known has a row of its own, and beside it a check
 * of the code around it, which the walk compares with what is there. Here a row is looked up by the return address itself, not
 * by the call before it.
 *
 * Invariants. Numbers in tables come from files that anybody may have written: the agent checks all that the walk relies on for
 * memory safety and for an end of its loops (unwind_table_check), and the kernel's verifier does not rely on it.
 */
#ifndef WICK_BPF_UNWIND_H
#define WICK_BPF_UNWIND_H

#include "bpf/types.h"

#if defined(__TARGET_ARCH_arm64) || (!defined(__TARGET_ARCH_x86) && defined(__aarch64__))
#define UNWIND_REGISTERS   32 /* x0 to x30, sp */
#define UNWIND_REGISTER_FP 29
#define UNWIND_REGISTER_SP 31
#define UNWIND_REGISTER_RA 30
#else
/* DWARF numbers (System V ABI for AMD64, figure 3.36): rax rdx rcx rbx rsi rdi rbp rsp r8 to r15. */
#define UNWIND_REGISTERS    16
#define UNWIND_REGISTER_FP  6
#define UNWIND_REGISTER_SP  7
#define UNWIND_REGISTER_RBX 3
#define UNWIND_REGISTER_RA  16 /* only in CFI; never a place for a value here */
#endif

#define UNWIND_FRAMES_MAX   2048	 /* of the user stack, the leaf included; a power of two */
#define UNWIND_FRAME_SIGNAL (1ull << 63) /* see ABI_FRAME_SIGNAL */
#define UNWIND_FRAME_GAP    (1ull << 62)
#define UNWIND_CHUNK_BYTES  (1u << 20)
#define UNWIND_PAGE_SHIFT   8
#define UNWIND_SLOTS_MAX    16384u

/* How the canonical frame address is found. On x86-64 it is the value of sp before the call pushed the return address. */
enum unwind_cfa {
	UNWIND_CFA_NONE = 0,	    /* no rule: a gap between functions, or code without CFI */
	UNWIND_CFA_REGISTER = 1,    /* register + offset; offset2 = where rbx is (x86-64) */
	UNWIND_CFA_DEREFERENCE = 2, /* *(register + offset) + offset2 */
	UNWIND_CFA_PLT = 3,	    /* sp + offset + ((ip & 15) >= offset2 ? 8 : 0): lazily bound PLT entries (x86-64) */
	UNWIND_CFA_SIGNAL = 4,	    /* a signal frame of the kernel's layout: all registers lie in its ucontext, see walk.h */
	UNWIND_CFA_UNSUPPORTED = 5, /* there is a rule, of a form that is not supported */
	UNWIND_CFA_END = 6,	    /* the outermost frame: CFI says that the return address is undefined */
	UNWIND_CFA_INDEXED = 7, /* *(register + 8 * index + offset) + offset2; cfa_register = register | index << 4 (x86-64) */
	UNWIND_CFA_FRAMES = 8,	/* code made at run time in which none could be found: the frame pointer is all there is */
	/* Functions of Go's runtime that go over to another stack (x86-64); see below. */
	UNWIND_CFA_GO_SYSTEM = 9,
	UNWIND_CFA_GO_GROW = 10,
	UNWIND_CFA_GO_CGO = 11,
	UNWIND_CFA_GO_CALLBACK = 12,
};
#define UNWIND_IS_GO(cfa) ((cfa) >= UNWIND_CFA_GO_SYSTEM && (cfa) <= UNWIND_CFA_GO_CALLBACK)
/* Set in unwind_rule.cfa if the rule was found by going through the code, for lack of CFI. */
#define UNWIND_RULE_ANALYSED 0x80
/* Set in unwind_rule.cfa in Go's scheduler, which does not return to the goroutine that came to it. */
#define UNWIND_RULE_LEAVES 0x40
#define UNWIND_RULE_FLAGS  (UNWIND_RULE_ANALYSED | UNWIND_RULE_LEAVES)
/* unwind_rule.offset2 of UNWIND_CFA_REGISTER: the caller's rbx is in rbx (0), lost (this), or at *(cfa + offset2). */
#define UNWIND_RBX_LOST 1
/* How a register of the caller is found. */
enum unwind_where {
	UNWIND_WHERE_SAME = 0,	   /* unchanged; for the return address: in UNWIND_REGISTER_RA's register (arm64) */
	UNWIND_WHERE_CFA = 1,	   /* *(cfa + offset) */
	UNWIND_WHERE_REGISTER = 2, /* in the register `offset` (return address only) */
	UNWIND_WHERE_FP = 3,	   /* *(fp + offset), fp being the callee's (frames of realigned stacks) */
	UNWIND_WHERE_LOST = 4,	   /* undefined, or of a form that is not supported */
};
struct unwind_rule {
	__u8 cfa;	   /* enum unwind_cfa */
	__u8 cfa_register; /* DWARF number < UNWIND_REGISTERS */
	__u8 ra, fp;	   /* enum unwind_where */
	__s32 offset, offset2;
	__s16 ra_offset, fp_offset;
};
/*
 * Go's runtime (src/runtime/asm_amd64.s, runtime2.go) runs goroutines on stacks of their own, which move, and itself on the
 * thread's stack, that of the goroutine g0. What it goes over from is noted in memory: the thread's storage has the running g,
 * g.m its thread, m.curg the goroutine that was left, g.sched where it was left {sp, pc}. Places differ by version. `size` is
 * that of the frame of the function that goes over, up to its CFA; what is read is 64 bits wide.
 *
 *   field        GO_SYSTEM, GO_GROW                GO_CALLBACK   GO_CGO
 *   offset       of g from the thread pointer      the same      of the goroutine that was saved, from sp
 *   ra_offset    of g.m                            the same      of g.stack.hi
 *   fp_offset    of m.curg                         of m.g0       of its depth (stack.hi - sp), from sp
 *   offset2      of g.sched | size << 16           the same      size
 *
 * GO_SYSTEM (systemstack()): the frame is at curg.sched.sp. GO_GROW (morestack()): the caller is at curg.sched.pc with
 * curg.sched.sp; none if the goroutine has been left for good. GO_CALLBACK (cgocallback(), from C on the thread's stack to the
 * goroutine's): the frame is at g0.sched.sp, where it keeps the one before it. GO_CGO (asmcgocall()): the frame is at
 * stack.hi - depth.
 */
#define UNWIND_GO_SCHED(offset2) ((offset2)&0xffff)
#define UNWIND_GO_SIZE(offset2)	 ((offset2) >> 16 & 0xffff)

struct unwind_escape {
	__u32 row;
	__u32 rule;
};
#define UNWIND_RULE_ESCAPE 255u

/* All places are bytes from the start of the table, multiples of 8. */
struct unwind_table {
	__u32 magic; /* UNWIND_TABLE_MAGIC */
	__u32 bytes; /* of the whole table */
	__u32 first_page, page_count;
	__u32 row_count, rule_count, escape_count;
	__u32 rules, index, rows, escapes;
	__u32 checks; /* u16[row_count], walk_check(): only in tables of code made at run time; else 0 */
	__u32 reserved[4];
};
#define UNWIND_TABLE_MAGIC 0x33545557u /* "WUT3" */

/* A binary. The agent writes all but `used`. */
struct unwind_slot {
	__u32 table; /* place in the heap; 0 = see state */
	__u32 state; /* enum unwind_slot_state */
	__u32 used;  /* the walk puts unwind_clock here at each use; for LRU */
	__u32 reserved;
};
enum unwind_slot_state {
	UNWIND_SLOT_ABSENT = 0, /* not loaded (any more): asked for by its use */
	UNWIND_SLOT_LOADED = 1, /* `table` is valid */
	UNWIND_SLOT_FRAMES = 2, /* has no CFI: frame pointers only */
	UNWIND_SLOT_LIVE = 3,	/* code made at run time; `table`, if it is not 0, is valid, see there */
};
#define UNWIND_SLOT_JIT 0u /* the slot of all code without a file of which nothing is known yet; always UNWIND_SLOT_LIVE */

/* An executable mapping. */
struct unwind_range {
	__u64 start, end;
	__u32 slot;
	__u32 file_page; /* offset in the file / 4096; 0 for code made at run time */
};
struct unwind_process {
	__u32 ranges, count; /* place of the unwind_range array in the heap */
	__u32 version;	     /* of the process's mappings; copied to its samples */
	__u32 flags;	     /* enum unwind_process_flags */
	__u32 code_pages;    /* mapped executable, as the last walk found it; 0 = not looked at since the agent wrote this */
	/* Places in the heap of what is known of its runtimes (bpf/runtime.h), one of each class; 0 = none. */
	__u32 listed;  /* begins with a struct listed_process (bpf/listed.h) */
	__u32 stacked; /* begins with its kind, 64 bits wide */
};

enum unwind_process_flags {
	UNWIND_PROCESS_QUIET = 1, /* tails of it did not help: send none for a while */
};

/* Why a walk ended. Append-only: numbers go to metrics by name (unwind/unwind_result.c). */
enum unwind_result {
	UNWIND_COMPLETE = 0,	/* reached the outermost frame */
	UNWIND_NO_PROCESS = 1,	/* the kernel side does not know the process (yet) */
	UNWIND_NO_MAPPING = 2,	/* an address lies in no known executable mapping */
	UNWIND_NO_TABLE = 3,	/* the binary's table is not loaded */
	UNWIND_NO_RULE = 4,	/* no CFI for the address, and no plausible frame pointer */
	UNWIND_UNSUPPORTED = 5, /* CFI of a form that is not supported */
	UNWIND_NO_REGISTER = 6, /* the rule needs a register that is not known in this frame */
	UNWIND_BAD_READ = 7,	/* stack memory could not be read */
	UNWIND_BAD_FRAME = 8,	/* the caller's stack pointer would not be above this one's */
	UNWIND_TOO_DEEP = 9,	/* UNWIND_FRAMES_MAX */
	UNWIND_STACK_CUT = 10,	/* the copy of the stack that user space walks ends too early */
	UNWIND_STALE = 11,	/* mappings or tables changed during or just before the walk: frames may be wrong */
	UNWIND_NO_USER = 12,	/* nothing to walk: no user registers */
	UNWIND_ANALYSED = 13,	/* complete, a part by rules that were found by going through the code */
	UNWIND_RESULTS = 14,
};
#define UNWIND_IS_COMPLETE(result) ((result) == UNWIND_COMPLETE || (result) == UNWIND_ANALYSED)

/* The first three are cured by telling the kernel side more; such a walk is continued in user space (bpf/abi.h, abi_tail). */
#define UNWIND_IS_CURABLE(result) ((result) >= UNWIND_NO_PROCESS && (result) <= UNWIND_NO_TABLE)

#endif
