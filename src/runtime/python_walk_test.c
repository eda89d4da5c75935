// SPDX-License-Identifier: Apache-2.0
/*
 * The frames of Python in the walk (bpf/python_walk.h), compiled for user space, over a memory made by hand: lists of frames as
 * 3.8, 3.11, 3.12 and 3.13 lay them out, native stacks of C and the interpreter's loop, lists of threads.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "bpf/unwind.h"
#include "runtime/python.h"
#include "runtime/test_published.h"

#define START 0x7f0000000000ull
#define BYTES (2u << 20)
#define CODE  0x401000ull /* 64 KiB of native code */
#define LOOP  (CODE + 0x1000)
#define COLD  (CODE + 0x8000)
#define MAIN  (CODE + 0xf000) /* the outermost function */

static uint8_t memory[BYTES];

static int read_memory(void *to, size_t bytes, uint64_t address)
{
	if (address < START || address - START > BYTES || BYTES - (address - START) < bytes)
		return UNWIND_BAD_READ;
	memcpy(to, memory + (address - START), bytes);
	return 0;
}

struct walk;
static int map_code(struct walk *walk, uint64_t address);

/* Each function has a frame of NATIVE bytes, whose last word is the return address; the outermost has no caller. */
#define NATIVE 0x100u
static const struct unwind_rule rules[] = {
	{0},
	{.cfa = UNWIND_CFA_REGISTER, .cfa_register = 7, .ra = UNWIND_WHERE_CFA, .offset = NATIVE, .ra_offset = -8},
	{.cfa = UNWIND_CFA_END},
};
_Static_assert(sizeof(struct unwind_rule) == 16, "a rule is read as two halves");

#define WALK_HEAP16(place)		    ((void)(place), (__u16)0)
#define WALK_HEAP32(place)		    ((void)(place), 0u)
#define WALK_HEAP64(place)		    ((void)(place), 0ull)
#define WALK_HEAP128(place, halves)	    memcpy(halves, &rules[place], sizeof(rules[0]))
#define WALK_READ(walk, to, bytes, address) read_memory(to, bytes, address)
#define WALK_MAP(walk, address)		    map_code(walk, address)
#define WALK_RULE(walk, address)	    ((address) >= MAIN ? 2u : 1u)
#define WALK_LIVE(walk, rule)		    ((void)(rule), UNWIND_NO_RULE)
#define WALK_THREAD(walk, ret)		    ((void)(ret), UNWIND_NO_RULE)
#define WALK_GO(walk, rule)		    ((void)(rule), UNWIND_UNSUPPORTED)
#include "bpf/walk.h"

static int map_code(struct walk *walk, uint64_t address)
{
	if (address < CODE || address - CODE >= 0x10000)
		return UNWIND_NO_MAPPING;
	walk_set_map(&walk->map, CODE, CODE + 0x10000, 0, UNWIND_SLOT_LOADED, 1);
	return 0;
}

static void put_word(uint64_t address, uint64_t word)
{
	assert_true(address >= START && address - START <= BYTES - 8);
	memcpy(memory + (address - START), &word, sizeof(word));
}

/* ---- a process ---- */

#define RUNTIME	       (START + 0x1000)
#define INTERPRETER(i) (START + 0x10000 + (i)*0x4000ull)
#define THREAD(i)      (START + 0x40000 + (i)*0x400ull)
#define CFRAME(i)      (START + 0x80000 + (i)*0x40ull)
#define CODE_OBJECT(i) (START + 0x90000 + (i)*0x100ull)
#define FRAME(i)       (START + 0xc0000 + (i)*0x80ull)
#define STACK	       (START + 0x1c0000)
#define TID(i)	       (0x7e0000000000ull + (i)*0x1000ull)

struct process {
	struct walk walk;
	struct python_layout layout;
	uint64_t last; /* the frame that was added last */
	unsigned frames, thread;
};

static void set_up(struct process *p, uint32_t version)
{
	struct python_build build = {.version = version, .runtime = RUNTIME, .loop_start = LOOP};
	uint64_t words[TEST_PUBLISHED_WORDS];
	bool is_free_threaded;

	memset(memory, 0, sizeof(memory));
	memset(p, 0, sizeof(*p));
	if (version < 0x030c) {
		build.loop_end = LOOP + 0x1000;
		build.cold_start = COLD;
		build.cold_end = COLD + 0x100;
	}
	if (version < 0x030d) {
		assert_true(python_layout_of(version, &build.layout));
	} else {
		test_published_fill(test_published_3_13, words);
		assert_int_equal(python_layout_published((struct bytes){(uint8_t *)words, sizeof(words)}, &version,
							 &is_free_threaded, &build.layout, NULL),
				 0);
	}
	p->layout = build.layout;
	walk_without_runtimes(&p->walk);
	python_place(&build, 0, &p->walk.python);
}

static void put_thread(const struct process *p, unsigned i, unsigned interpreter, uint64_t before, uint64_t next)
{
	put_word(THREAD(i), before);
	put_word(THREAD(i) + p->layout.walk.thread_next, next);
	put_word(THREAD(i) + p->layout.walk.thread_interpreter, INTERPRETER(interpreter));
	put_word(THREAD(i) + p->layout.walk.thread_id, TID(i));
}

/* One interpreter with one thread. */
static void put_one_thread(struct process *p)
{
	put_word(RUNTIME + p->layout.runtime_interpreters, INTERPRETER(0));
	put_word(INTERPRETER(0) + p->layout.walk.interpreter_threads, THREAD(0));
	put_thread(p, 0, 0, 0, 0);
}

/* Behind the frames that were added before. `at`: its address; 0 = the next free one. */
static void add_frame(struct process *p, uint64_t at, uint64_t code, uint32_t place, uint32_t owner)
{
	const struct python_process *walk = &p->layout.walk;
	uint64_t frame = at ? at : FRAME(p->frames);

	p->frames++;
	put_word(frame + walk->frame_code, code);
	if (walk->listed.flags & PYTHON_LAST_INSTR)
		put_word(frame + walk->frame_instr, walk->listed.flags & PYTHON_HALF_INSTR ? 2 * place : place);
	else
		put_word(frame + walk->frame_instr, code + walk->code_instr + 2 * place);
	if (walk->frame_owner)
		memory[frame + walk->frame_owner - START] = (uint8_t)owner;
	if (code >= START) { /* members by which it is known */
		put_word(code + p->layout.code_name, code * 3);
		put_word(code + p->layout.code_lines, code * 5);
	}
	if (p->last) {
		put_word(p->last + walk->frame_back, frame);
	} else if (walk->listed.flags & PYTHON_CFRAME) {
		put_word(THREAD(p->thread) + walk->thread_frame, CFRAME(p->thread));
		put_word(CFRAME(p->thread) + walk->cframe_frame, frame);
	} else {
		put_word(THREAD(p->thread) + walk->thread_frame, frame);
	}
	p->last = frame;
}

static uint64_t check_of(const struct process *p, uint64_t code)
{
	uint64_t first = 0;

	memcpy(&first, memory + (code - START) + p->layout.walk.code_from, sizeof(first));
	return runtime_check_of(first, code * 3, code * 5);
}

/* As the sampling program collects them. Returns how many steps it took. */
static unsigned collect(struct process *p)
{
	unsigned steps = 0;

	p->walk.listed_frame = python_first_frame(&p->walk, THREAD(p->thread));
	while (steps < 2 * LISTED_FRAMES_MAX && !python_collect_step(&p->walk))
		steps++;
	return steps;
}

static bool find(struct process *p, uint64_t tid)
{
	struct walk *walk = &p->walk;
	int r = 0;

	walk->python_state = walk->python_interpreter = 0;
	walk->python_interpreters = 0;
	for (unsigned i = 0; i < PYTHON_THREADS_MAX && !r; i++)
		r = python_search_step(walk, tid);
	return r > 0;
}

/* ---- stacks ---- */

/* What the frame runs, as the sampling program puts it there. */
static int meet(struct walk *walk)
{
	listed_meet(walk);
	while (walk->listed_appends == LISTED_APPENDS_PART)
		listed_go_on(walk);
	return walk->listed_appends ? UNWIND_TOO_DEEP : WALK_GOES_ON;
}

/* `addresses`: return addresses, the leaf's address first; ends with one in MAIN. */
static int walk_stack(struct process *p, const uint64_t *addresses)
{
	struct walk *walk = &p->walk;
	int r;

	walk_begin(walk, addresses[0], 7);
	walk->registers[UNWIND_REGISTER_SP] = STACK;
	walk->known = 0xffff;
	for (size_t i = 0; addresses[i] < MAIN; i++)
		put_word(STACK + (i + 1) * NATIVE - 8, addresses[i + 1]);
	walk->listed_sp = STACK;
	r = meet(walk);
	while (r == WALK_GOES_ON) {
		walk->listed_sp = walk->registers[UNWIND_REGISTER_SP];
		r = walk_step(walk);
		if (r == WALK_GOES_ON)
			r = meet(walk);
	}
	while (listed_append_pending(walk))
		;
	uint64_t hash = 7;
	for (uint32_t i = 1; i < walk->depth; i++)
		hash = walk_hash(hash, walk->frames[i]);
	assert_true(hash == walk->hash); /* chains are known by it */
	return r;
}

/* The place of a memory in the frame of the n-th function. */
static uint64_t in_native(unsigned n)
{
	return STACK + n * NATIVE + 0x40;
}

/* Words of frames in `expected`: PY(code, place) stands for two. */
struct expected {
	uint64_t code, place, flags, native;
};
#define NATIVE_FRAME(address)                                                                                                  \
	{                                                                                                                      \
		.native = (address)                                                                                            \
	}
#define PY(number, at)                                                                                                         \
	{                                                                                                                      \
		.code = CODE_OBJECT(number), .place = (at)                                                                     \
	}
#define ENTRY(number, at)                                                                                                      \
	{                                                                                                                      \
		.code = CODE_OBJECT(number), .place = (at), .flags = RUNTIME_FRAME_ENTRY                                       \
	}
#define PENDING(number, at)                                                                                                    \
	{                                                                                                                      \
		.code = CODE_OBJECT(number), .place = (at), .flags = RUNTIME_FRAME_PENDING                                     \
	}
#define PENDING_ENTRY(number, at)                                                                                              \
	{                                                                                                                      \
		.code = CODE_OBJECT(number), .place = (at), .flags = RUNTIME_FRAME_PENDING | RUNTIME_FRAME_ENTRY               \
	}
#define ANCHOR(at)                                                                                                             \
	{                                                                                                                      \
		.native = RUNTIME_FRAME | RUNTIME_FRAME_DATA | RUNTIME_FRAME_PENDING | RUNTIME_FRAME_ANCHOR | (at)             \
	}

static void check_frames(const struct process *p, const struct expected *expected, size_t count)
{
	const struct walk *walk = &p->walk;
	uint32_t at = 0;

	for (size_t i = 0; i < count; i++, expected++) {
		assert_true(at < walk->depth);
		if (expected->native) {
			assert_int_equal(walk->frames[at++], expected->native);
			continue;
		}
		assert_int_equal(walk->frames[at++], RUNTIME_FRAME | 1ull << 56 | expected->code);
		assert_int_equal(walk->frames[at++], RUNTIME_FRAME | RUNTIME_FRAME_DATA | expected->flags |
							     check_of(p, expected->code) << 24 | expected->place);
	}
	assert_int_equal(at, walk->depth);
}
#define CHECK_FRAMES(p, ...)                                                                                                   \
	do {                                                                                                                   \
		const struct expected list[] = {__VA_ARGS__};                                                                  \
		check_frames(p, list, sizeof(list) / sizeof(list[0]));                                                         \
	} while (0)

/* ---- tests ---- */

static struct process process;

/* 3.8: a frame of the loop runs one function. The innermost is in the cold part; and C is between the loops. */
static void test_each_loop_runs_one_function(void **state)
{
	struct process *p = &process;

	set_up(p, 0x0308);
	put_one_thread(p);
	add_frame(p, 0, CODE_OBJECT(1), 17, 0);
	add_frame(p, 0, CODE_OBJECT(2), 0, 0);
	add_frame(p, 0, CODE_OBJECT(3), 5, 0);
	assert_int_equal(collect(p), 3);
	assert_int_equal(walk_stack(p, (uint64_t[]){CODE, COLD + 0x20, LOOP + 1, CODE + 0x99, LOOP + 0x1000, MAIN}),
			 UNWIND_COMPLETE);
	CHECK_FRAMES(p, NATIVE_FRAME(CODE), NATIVE_FRAME(COLD + 0x20), ENTRY(1, 17), NATIVE_FRAME(LOOP + 1), ENTRY(2, 0),
		     NATIVE_FRAME(CODE + 0x99), NATIVE_FRAME(LOOP + 0x1000), ENTRY(3, 5), NATIVE_FRAME(MAIN));
	assert_int_equal(p->walk.listed_loops, 3);
}

/* A leaf in the loop; what is behind its end, or at its start as a return address, is none of it. */
static void test_ends_of_the_loop(void **state)
{
	struct process *p = &process;

	set_up(p, 0x0308);
	put_one_thread(p);
	add_frame(p, 0, CODE_OBJECT(1), 1, 0);
	add_frame(p, 0, CODE_OBJECT(2), 2, 0);
	collect(p);
	walk_stack(p, (uint64_t[]){LOOP, LOOP, LOOP + 0x1001, COLD + 0x101, MAIN});
	CHECK_FRAMES(p, NATIVE_FRAME(LOOP), ENTRY(1, 1), NATIVE_FRAME(LOOP), NATIVE_FRAME(LOOP + 0x1001),
		     NATIVE_FRAME(COLD + 0x101), NATIVE_FRAME(MAIN), PENDING_ENTRY(2, 2));
	assert_int_equal(p->walk.listed_loops, 1);
	/* No frames at all: the loop is met, and nothing is put there. */
	set_up(p, 0x0308);
	put_one_thread(p);
	assert_int_equal(collect(p), 0);
	walk_stack(p, (uint64_t[]){LOOP + 8, MAIN});
	CHECK_FRAMES(p, NATIVE_FRAME(LOOP + 8), NATIVE_FRAME(MAIN));
	assert_int_equal(p->walk.listed_loops, 1);
}

/* 3.11: a frame of the loop runs all functions up to the one that was entered from C. */
static void test_parts_up_to_an_entry(void **state)
{
	struct process *p = &process;

	set_up(p, 0x030b);
	put_one_thread(p);
	add_frame(p, 0, CODE_OBJECT(1), 3, 0);
	add_frame(p, 0, CODE_OBJECT(2), 4, 0);
	add_frame(p, 0, CODE_OBJECT(3), 5, 1);
	add_frame(p, 0, CODE_OBJECT(4), 6, 1);
	add_frame(p, 0, CODE_OBJECT(5), 7, 1);
	collect(p);
	walk_stack(p, (uint64_t[]){CODE, LOOP + 0x50, CODE + 0x60, LOOP + 0x70, MAIN});
	CHECK_FRAMES(p, NATIVE_FRAME(CODE), NATIVE_FRAME(LOOP + 0x50), PY(1, 3), PY(2, 4), ENTRY(3, 5),
		     NATIVE_FRAME(CODE + 0x60), NATIVE_FRAME(LOOP + 0x70), ENTRY(4, 6), NATIVE_FRAME(MAIN),
		     PENDING_ENTRY(5, 7));
}

/* Since 3.12: the shim that ends a part lies in the frame of the loop, wherever that is. */
static void test_anchored_parts(void **state)
{
	static const uint32_t versions[] = {0x030c, 0x030d};
	struct process *p = &process;

	for (size_t i = 0; i < 2; i++) {
		set_up(p, versions[i]);
		put_one_thread(p);
		add_frame(p, 0, CODE_OBJECT(1), 3, 0);
		add_frame(p, 0, CODE_OBJECT(2), 4, 0);
		add_frame(p, in_native(1), START + 0x10, 0, 3); /* of the second function */
		add_frame(p, 0, CODE_OBJECT(3), 5, 0);
		add_frame(p, in_native(4), START + 0x10, 0, 4);
		add_frame(p, 0, CODE_OBJECT(4), 6, 0);
		collect(p);
		assert_int_equal(p->walk.listed_count, 4);
		assert_int_equal(p->walk.listed_anchor_count, 2);
		assert_int_equal(
			walk_stack(p, (uint64_t[]){CODE, CODE + 0x10, CODE + 0x25, LOOP + 8, CODE + 0x45, CODE + 0x55, MAIN}),
			UNWIND_COMPLETE);
		CHECK_FRAMES(p, NATIVE_FRAME(CODE), NATIVE_FRAME(CODE + 0x10), PY(1, 3), ENTRY(2, 4), NATIVE_FRAME(CODE + 0x25),
			     NATIVE_FRAME(LOOP + 8), NATIVE_FRAME(CODE + 0x45), ENTRY(3, 5), NATIVE_FRAME(CODE + 0x55),
			     NATIVE_FRAME(MAIN), PENDING(4, 6));
		assert_int_equal(p->walk.listed_loops, 2);
	}
}

/* Two parts end in the memory of one frame; the leaf itself runs one; the last is below the stack, and its shim goes along. */
static void test_anchors_side_by_side(void **state)
{
	struct process *p = &process;

	set_up(p, 0x030d);
	put_one_thread(p);
	add_frame(p, 0, CODE_OBJECT(1), 1, 0);
	add_frame(p, in_native(0), START + 0x10, 0, 3);
	add_frame(p, 0, CODE_OBJECT(2), 2, 0);
	add_frame(p, in_native(2) - 0x40, START + 0x10, 0, 3); /* at the very start of the frame */
	add_frame(p, 0, CODE_OBJECT(3), 3, 0);
	add_frame(p, in_native(2) + 0x30, START + 0x10, 0, 3);
	add_frame(p, 0, CODE_OBJECT(4), 4, 0);
	add_frame(p, STACK - 0x400, START + 0x10, 0, 3);
	add_frame(p, 0, CODE_OBJECT(5), 5, 0);
	collect(p);
	walk_stack(p, (uint64_t[]){CODE, CODE + 0x10, CODE + 0x25, CODE + 0x35, MAIN});
	CHECK_FRAMES(p, NATIVE_FRAME(CODE), ENTRY(1, 1), NATIVE_FRAME(CODE + 0x10), NATIVE_FRAME(CODE + 0x25), ENTRY(2, 2),
		     ENTRY(3, 3), NATIVE_FRAME(CODE + 0x35), NATIVE_FRAME(MAIN), PENDING_ENTRY(4, 4), ANCHOR(STACK - 0x400),
		     PENDING(5, 5));
}

/* A loop that has not begun yet: its shim is there, its function is not. */
static void test_shim_without_function(void **state)
{
	struct process *p = &process;

	set_up(p, 0x030c);
	put_one_thread(p);
	add_frame(p, in_native(0), START + 0x10, 0, 3);
	add_frame(p, 0, CODE_OBJECT(1), 1, 0);
	add_frame(p, in_native(1), START + 0x10, 0, 3);
	add_frame(p, in_native(2), START + 0x10, 0, 3);
	collect(p);
	assert_int_equal(p->walk.listed_anchor_count, 1);
	walk_stack(p, (uint64_t[]){CODE, CODE + 0x10, CODE + 0x25, MAIN});
	CHECK_FRAMES(p, NATIVE_FRAME(CODE), NATIVE_FRAME(CODE + 0x10), ENTRY(1, 1), NATIVE_FRAME(CODE + 0x25),
		     NATIVE_FRAME(MAIN));
}

static void test_instructions(void **state)
{
	struct process *p = &process;

	/* Before the first: -1 up to 3.10, and below the code since. */
	set_up(p, 0x0308);
	put_one_thread(p);
	add_frame(p, 0, CODE_OBJECT(1), 0, 0);
	put_word(FRAME(0) + p->layout.walk.frame_instr, 0xffffffff);
	add_frame(p, 0, CODE_OBJECT(2), 1u << 25, 0);
	add_frame(p, 0, CODE_OBJECT(3), RUNTIME_PLACE_MAX, 0);
	collect(p);
	assert_int_equal(RUNTIME_PLACE(p->walk.listed_frames[0][1]), 0);
	assert_int_equal(RUNTIME_PLACE(p->walk.listed_frames[1][1]), RUNTIME_PLACE_MAX);
	assert_int_equal(RUNTIME_PLACE(p->walk.listed_frames[2][1]), RUNTIME_PLACE_MAX);
	set_up(p, 0x030a); /* no bytes any more */
	put_one_thread(p);
	add_frame(p, 0, CODE_OBJECT(1), 21, 0);
	collect(p);
	assert_int_equal(RUNTIME_PLACE(p->walk.listed_frames[0][1]), 21);
	set_up(p, 0x030b);
	put_one_thread(p);
	add_frame(p, 0, CODE_OBJECT(1), 0, 0);
	put_word(FRAME(0) + p->layout.walk.frame_instr, CODE_OBJECT(1) + p->layout.walk.code_instr - 2);
	add_frame(p, 0, CODE_OBJECT(2), 0, 0);
	put_word(FRAME(1) + p->layout.walk.frame_instr, UINT64_MAX);
	collect(p);
	assert_int_equal(RUNTIME_PLACE(p->walk.listed_frames[0][1]), 0);
	assert_int_equal(p->walk.listed_frames[1][1] & ~(RUNTIME_FRAME | RUNTIME_FRAME_DATA), check_of(p, CODE_OBJECT(2))
												      << 24);
}

/* 3.14 tags pointers in their low bits. */
static void test_tagged_code(void **state)
{
	struct process *p = &process;

	set_up(p, 0x030d);
	put_one_thread(p);
	add_frame(p, 0, CODE_OBJECT(1), 9, 0);
	put_word(FRAME(0) + p->layout.walk.frame_code, CODE_OBJECT(1) | 1);
	collect(p);
	assert_int_equal(RUNTIME_OBJECT(p->walk.listed_frames[0][0]), CODE_OBJECT(1));
	assert_int_equal(RUNTIME_PLACE(p->walk.listed_frames[0][1]), 9);
}

static void test_lists_without_end(void **state)
{
	static const uint32_t versions[] = {0x0308, 0x030b, 0x030d};
	struct process *p = &process;

	for (size_t i = 0; i < 3; i++) {
		set_up(p, versions[i]);
		put_one_thread(p);
		for (unsigned k = 0; k < 3; k++)
			add_frame(p, 0, CODE_OBJECT(k), k, 0);
		put_word(p->last + p->layout.walk.frame_back, FRAME(0));
		assert_int_equal(collect(p), LISTED_FRAMES_MAX);
		assert_int_equal(p->walk.listed_count, LISTED_FRAMES_MAX);
		/* The leaf, as many as there are; the stack is as deep as it may be. */
		assert_int_equal(walk_stack(p, (uint64_t[]){LOOP + 8, MAIN}),
				 versions[i] == 0x030b ? UNWIND_TOO_DEEP : UNWIND_COMPLETE);
		assert_true(p->walk.depth <= UNWIND_FRAMES_MAX && p->walk.depth + 3 > UNWIND_FRAMES_MAX);
	}
	/* Shims only: no frame, no end but that of the loop that collects. */
	set_up(p, 0x030d);
	put_one_thread(p);
	add_frame(p, 0, START + 0x10, 0, 3);
	put_word(p->last + p->layout.walk.frame_back, FRAME(0));
	assert_int_equal(collect(p), 2 * LISTED_FRAMES_MAX);
	assert_true(p->walk.listed_count == 0 && p->walk.listed_anchor_count == 0);
	/* A function and a shim in a ring: as many parts as there is room for. */
	set_up(p, 0x030d);
	put_one_thread(p);
	add_frame(p, 0, CODE_OBJECT(1), 0, 0);
	add_frame(p, in_native(0), START + 0x10, 0, 3);
	put_word(p->last + p->layout.walk.frame_back, FRAME(0));
	collect(p);
	assert_int_equal(p->walk.listed_anchor_count, LISTED_ANCHORS_MAX);
	assert_int_equal(p->walk.listed_count, LISTED_ANCHORS_MAX);
	assert_int_equal(walk_stack(p, (uint64_t[]){CODE, CODE + 5, MAIN}), UNWIND_COMPLETE);
	assert_int_equal(p->walk.depth, 3 + 2 * LISTED_ANCHORS_MAX);
	assert_int_equal(p->walk.frames[p->walk.depth - 2], CODE + 5);
}

/* 2000 functions in one part: the innermost are there, and what is missing is known to be. */
static void test_deep_recursion(void **state)
{
	struct process *p = &process;

	set_up(p, 0x030b);
	put_one_thread(p);
	for (unsigned i = 0; i < 2000; i++)
		add_frame(p, 0, CODE_OBJECT(i % 7), i, i == 1999);
	collect(p);
	assert_int_equal(p->walk.listed_count, LISTED_FRAMES_MAX);
	assert_int_equal(walk_stack(p, (uint64_t[]){CODE, LOOP + 8, MAIN}), UNWIND_TOO_DEEP);
	assert_int_equal(p->walk.depth, 2 + 2 * 1022); /* and not MAIN: that did not call the 1022nd */
	for (unsigned i = 0; i < 1022; i++)
		assert_int_equal(RUNTIME_PLACE(p->walk.frames[3 + 2 * i]), i);
	/* The same where a shim ends the part: what called the loop is not there either. */
	set_up(p, 0x030d);
	put_one_thread(p);
	for (unsigned i = 0; i < 1023; i++)
		add_frame(p, 0, CODE_OBJECT(i % 7), i, 0);
	add_frame(p, in_native(1), START + 0x10, 0, 3);
	collect(p);
	assert_int_equal(walk_stack(p, (uint64_t[]){CODE, CODE + 0x10, CODE + 0x25, MAIN}), UNWIND_TOO_DEEP);
	assert_int_equal(p->walk.depth, 2 + 2 * 1022);
	/* One function a loop: the native stack has more of them than can be collected. */
	set_up(p, 0x0308);
	put_one_thread(p);
	for (unsigned i = 0; i < 600; i++)
		add_frame(p, 0, CODE_OBJECT(i % 7), i, 0);
	collect(p);
	uint64_t addresses[602] = {CODE};
	for (unsigned i = 1; i <= 600; i++)
		addresses[i] = LOOP + 0x55;
	addresses[601] = MAIN;
	assert_int_equal(walk_stack(p, addresses), UNWIND_COMPLETE);
	assert_int_equal(p->walk.depth, 602 + 2 * 600);
}

/* Wherever it leads out of memory, what was collected before stays. */
static void test_memory_that_cannot_be_read(void **state)
{
	static const uint64_t nowhere[] = {0, 8, START - 8, START + BYTES, 0xffffffffffffff00, FRAME(3) + 4};
	struct process *p = &process;

	for (size_t i = 0; i < sizeof(nowhere) / sizeof(nowhere[0]); i++) {
		set_up(p, 0x030b);
		put_one_thread(p);
		add_frame(p, 0, CODE_OBJECT(1), 0, 0);
		add_frame(p, 0, CODE_OBJECT(2), 0, 0);
		put_word(p->last + p->layout.walk.frame_back, nowhere[i]);
		collect(p);
		assert_int_equal(p->walk.listed_count, 2);
	}
	static const uint64_t codes[] = {0, 7, 1ull << 56, START + BYTES, START - 4096, UINT64_MAX};
	for (size_t i = 0; i < sizeof(codes) / sizeof(codes[0]); i++) {
		set_up(p, 0x030b);
		put_one_thread(p);
		add_frame(p, 0, CODE_OBJECT(1), 0, 0);
		add_frame(p, 0, CODE_OBJECT(2), 0, 0);
		add_frame(p, 0, CODE_OBJECT(3), 0, 0);
		put_word(FRAME(1) + p->layout.walk.frame_code, codes[i]);
		collect(p);
		assert_int_equal(p->walk.listed_count, 1);
	}
	/* The state has no frame, or a pointer to one that is not there. */
	set_up(p, 0x030b);
	put_one_thread(p);
	assert_int_equal(python_first_frame(&p->walk, THREAD(0)), 0);
	put_word(THREAD(0) + p->layout.walk.thread_frame, START + BYTES);
	assert_int_equal(python_first_frame(&p->walk, THREAD(0)), 0);
	assert_int_equal(python_first_frame(&p->walk, START + BYTES), 0);
}

static void test_search(void **state)
{
	struct process *p = &process;

	/* Three interpreters with two, none and three threads; lists begin with the newest. */
	set_up(p, 0x030d);
	put_word(RUNTIME + p->layout.runtime_interpreters, INTERPRETER(0));
	put_word(INTERPRETER(0) + p->layout.walk.interpreter_next, INTERPRETER(1));
	put_word(INTERPRETER(1) + p->layout.walk.interpreter_next, INTERPRETER(2));
	put_word(INTERPRETER(0) + p->layout.walk.interpreter_threads, THREAD(1));
	put_word(INTERPRETER(2) + p->layout.walk.interpreter_threads, THREAD(4));
	put_thread(p, 1, 0, 0, THREAD(0));
	put_thread(p, 0, 0, THREAD(1), 0);
	put_thread(p, 4, 2, 0, THREAD(3));
	put_thread(p, 3, 2, THREAD(4), THREAD(2));
	put_thread(p, 2, 2, THREAD(3), 0);
	for (unsigned i = 0; i < 5; i++) {
		assert_true(find(p, TID(i)));
		assert_int_equal(p->walk.python_state, THREAD(i));
		assert_true(python_is_thread(&p->walk, THREAD(i), TID(i)) && python_is_listed(&p->walk, THREAD(i)));
		assert_false(python_is_thread(&p->walk, THREAD(i), TID(i + 1)));
	}
	assert_false(find(p, TID(5)));
	assert_false(python_is_thread(&p->walk, 0, 0));
	/* Taken out of the list, but still in memory. */
	put_word(THREAD(4) + p->layout.walk.thread_next, THREAD(2));
	put_word(THREAD(2), THREAD(4));
	assert_false(python_is_listed(&p->walk, THREAD(3)));
	assert_true(python_is_listed(&p->walk, THREAD(2)));
	put_word(INTERPRETER(2) + p->layout.walk.interpreter_threads, THREAD(2));
	assert_false(python_is_listed(&p->walk, THREAD(4)));
	put_word(THREAD(2) + p->layout.walk.thread_interpreter, START + BYTES);
	put_word(THREAD(2), 0);
	assert_false(python_is_listed(&p->walk, THREAD(2)));
	assert_false(python_is_listed(&p->walk, START + BYTES));
}

static void test_search_without_end(void **state)
{
	struct process *p = &process;

	/* A ring of threads. */
	set_up(p, 0x030b);
	put_one_thread(p);
	put_thread(p, 0, 0, THREAD(0), THREAD(0));
	assert_false(find(p, TID(1)));
	assert_int_equal(p->walk.python_interpreters, 1);
	/* A ring of interpreters. */
	set_up(p, 0x030b);
	put_one_thread(p);
	put_word(INTERPRETER(0) + p->layout.walk.interpreter_next, INTERPRETER(0));
	assert_false(find(p, TID(1)));
	assert_int_equal(p->walk.python_interpreters, PYTHON_INTERPRETERS_MAX + 1);
	/* No interpreter, or none that can be read. */
	set_up(p, 0x030b);
	assert_false(find(p, TID(0)));
	put_word(RUNTIME + p->layout.runtime_interpreters, 12);
	assert_false(find(p, TID(0)));
	/* 3.6 has only the state that has the lock. */
	set_up(p, 0x0306);
	assert_int_equal(p->walk.python.interpreters, 0);
	assert_false(find(p, TID(0)));
}

/* Who has the lock is in the variable itself, in the runtime, or in the lock that the interpreter points to. */
static void test_holder(void **state)
{
	static const uint32_t versions[] = {0x0306, 0x0308, 0x030b, 0x030c, 0x030d};
	struct process *p = &process;

	for (size_t i = 0; i < sizeof(versions) / sizeof(versions[0]); i++) {
		uint64_t gil = START + 0x3000, at = gil + 8;
		set_up(p, versions[i]);
		assert_int_equal(python_holder(&p->walk), 0);
		if (p->layout.runtime_interpreters)
			put_one_thread(p);
		else
			put_thread(p, 0, 0, 0, 0);
		if (versions[i] == 0x0306)
			at = RUNTIME;
		else if (versions[i] < 0x030c)
			at = RUNTIME + p->layout.runtime_holder;
		else
			put_word(INTERPRETER(0) + p->layout.walk.interpreter_gil, gil);
		assert_int_equal(python_holder(&p->walk), 0);
		put_word(at, THREAD(0));
		assert_int_equal(python_holder(&p->walk), THREAD(0));
		assert_true(python_is_thread(&p->walk, python_holder(&p->walk), TID(0)));
		put_thread(p, 3, 0, 0, 0);
		put_word(at, THREAD(3)); /* another thread has it */
		assert_false(python_is_thread(&p->walk, python_holder(&p->walk), TID(0)));
		put_word(at, START + BYTES); /* freed */
		assert_false(python_is_thread(&p->walk, python_holder(&p->walk), TID(0)));
	}
	/* Without a lock nobody has it. */
	p->walk.python.interpreter_gil = p->walk.python.gil_holder = 0;
	assert_int_equal(python_holder(&p->walk), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_each_loop_runs_one_function),
		cmocka_unit_test(test_ends_of_the_loop),
		cmocka_unit_test(test_parts_up_to_an_entry),
		cmocka_unit_test(test_anchored_parts),
		cmocka_unit_test(test_anchors_side_by_side),
		cmocka_unit_test(test_shim_without_function),
		cmocka_unit_test(test_instructions),
		cmocka_unit_test(test_tagged_code),
		cmocka_unit_test(test_lists_without_end),
		cmocka_unit_test(test_deep_recursion),
		cmocka_unit_test(test_memory_that_cannot_be_read),
		cmocka_unit_test(test_search),
		cmocka_unit_test(test_search_without_end),
		cmocka_unit_test(test_holder),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
