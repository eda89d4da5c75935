// SPDX-License-Identifier: Apache-2.0
/*
 * The frames of HotSpot in the walk (bpf/jvm_walk.h), compiled for user space, over a memory made by hand, as several versions
 * lay it out: an interpreted method that is called by a compiled one, that by an interpreted one, that by C.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "bpf/unwind.h"
#include "runtime/test_jvm_image.h"

#define MAIN	    (IMAGE_START + 0xd0000) /* native code: the outermost function */
#define VERSIONS    (sizeof(test_jvm_tables) / sizeof(test_jvm_tables[0]))
#define FRAME_WORDS 6u
#define DEOPT	    0x300u /* in the code */
#define ORIG_PC	    8u	   /* in the frame */

struct walk;
static int read_memory(void *to, size_t bytes, uint64_t address);
static int map_code(struct walk *walk, uint64_t address);

static const struct unwind_rule rules[] = {{0}, {.cfa = UNWIND_CFA_END}};

#define WALK_HEAP16(place)		    ((void)(place), (__u16)0)
#define WALK_HEAP32(place)		    ((void)(place), 0u)
#define WALK_HEAP64(place)		    ((void)(place), 0ull)
#define WALK_HEAP128(place, halves)	    memcpy(halves, &rules[place], sizeof(rules[0]))
#define WALK_READ(walk, to, bytes, address) read_memory(to, bytes, address)
#define WALK_MAP(walk, address)		    map_code(walk, address)
#define WALK_RULE(walk, address)	    1u
#define WALK_LIVE(walk, rule)		    ((rule)->cfa = UNWIND_CFA_FRAMES, 0)
#define WALK_THREAD(walk, ret)		    ((void)(ret), UNWIND_NO_RULE)
#define WALK_GO(walk, rule)		    ((void)(rule), UNWIND_UNSUPPORTED)
#include "bpf/walk.h"

static struct image *image;

static int read_memory(void *to, size_t bytes, uint64_t address)
{
	return image_read(image, address, to, bytes) == 0 ? 0 : UNWIND_BAD_READ;
}

static int map_code(struct walk *walk, uint64_t address)
{
	if (address >= IMAGE_CODE && address - IMAGE_CODE < IMAGE_CODE_BYTES)
		return walk_set_map(&walk->map, IMAGE_CODE, IMAGE_CODE + IMAGE_CODE_BYTES, 0, UNWIND_SLOT_LIVE, 0);
	if (address >= MAIN && address - MAIN < 0x1000)
		return walk_set_map(&walk->map, MAIN, MAIN + 0x1000, 0, UNWIND_SLOT_LOADED, 1);
	return UNWIND_NO_MAPPING;
}

/* ---- a stack ---- */

#define LEAF_FP	    (IMAGE_STACK + 0x100)
#define COMPILED_SP (LEAF_FP + 0x30) /* the callee's variables are below */
#define CALLER_FP   (IMAGE_STACK + 0x400)
#define LEAF_IP	    (IMAGE_INTERPRETER + 0x123)
#define RETURN_IP   (IMAGE_INTERPRETER + 0x801)

static struct walk walk;
static uint64_t f, g, h; /* methods: the leaf, the compiled one, its caller */

static uint64_t codes(uint64_t method)
{
	return method + 0x100 + (uint64_t)image->layout.numbers[JVM_SIZE_CONST];
}

static void put_call(uint64_t to_return_to)
{
	image_put(image, to_return_to - 5, "\xe8", 1);
}

static void put_interpreted(uint64_t fp, uint64_t method, unsigned saved, uint64_t sender, uint64_t caller_fp, uint64_t caller)
{
	image_put_word(image, fp, caller_fp);
	image_put_word(image, fp + 8, caller);
	image_put_word(image, fp - 8, sender);
	image_put_word(image, fp - 24, method);
	image_put_word(image, fp - 64, codes(method) + saved);
}

static void set_up(size_t version)
{
	struct error err = {0};

	image = image_new(&test_jvm_tables[version], NULL);
	assert_int_equal(image_read_layout(image, &err), 0);
	image_put_heaps(image);
	image_put_block(image, "nmethod", 1, FRAME_WORDS);
	f = image_put_method(image, 0, "C", "f", "C.java", (struct bytes){0});
	g = image_put_method(image, 1, "C", "g", "C.java", (struct bytes){0});
	h = image_put_method(image, 2, "C", "h", "C.java", (struct bytes){0});
	image_put_field(image, image_blob(image), JVM_NMETHOD_METHOD, g);
	image_put_field(image, image_blob(image), JVM_NMETHOD_ID, 77);
	image_put_field(image, image_blob(image), JVM_NMETHOD_DEOPT_BEGIN, IMAGE_BLOB_CODE + DEOPT);
	image_put_field(image, image_blob(image), JVM_NMETHOD_DEOPT_OFFSET, IMAGE_BLOB_CODE + DEOPT - image_blob(image));
	image_put_field(image, image_blob(image), JVM_NMETHOD_ORIG_PC, ORIG_PC);
	put_call(IMAGE_BLOB_CODE + 0x20);
	put_call(MAIN + 0x55);
	put_interpreted(LEAF_FP, f, 3, COMPILED_SP, 0x1234, IMAGE_BLOB_CODE + 0x20);
	image_put_word(image, COMPILED_SP + FRAME_WORDS * 8 - 8, RETURN_IP);
	image_put_word(image, COMPILED_SP + FRAME_WORDS * 8 - 16, CALLER_FP);
	put_interpreted(CALLER_FP, h, 11, CALLER_FP + 16, 0x5678, MAIN + 0x55);
	memset(&walk, 0, sizeof(walk));
	walk_without_runtimes(&walk);
	assert_int_equal(jvm_place(&image->layout, &image->memory, &walk.jvm, &err), 0);
}

static int run_with(uint64_t ip, uint64_t sp, uint64_t fp)
{
	int r;

	walk.known = ~0u;
	walk.registers[UNWIND_REGISTER_SP] = sp;
	walk.registers[UNWIND_REGISTER_FP] = fp;
	walk.jvm_fp = 0;
	walk_begin(&walk, ip, 1);
	jvm_meet(&walk);
	do {
		r = jvm_step(&walk);
		if (r == WALK_GOES_ON)
			jvm_meet(&walk);
	} while (r == WALK_GOES_ON);
	return r;
}

static int run(uint64_t ip, uint64_t sp)
{
	return run_with(ip, sp, LEAF_FP);
}

static int run_leaf(uint64_t bytecode)
{
	walk.registers[JVM_REGISTER_BCP] = bytecode;
	return run(LEAF_IP, LEAF_FP - 0x80);
}

static uint32_t method_check(uint64_t method)
{
	uint32_t check;

	assert_int_equal(jvm_method_check(&image->layout, &image->memory, method, &check), 0);
	return check;
}

static void expect_words(size_t at, uint64_t object, uint32_t check, uint64_t flags, uint32_t place)
{
	assert_int_equal(walk.frames[at], RUNTIME_FRAME | (uint64_t)RUNTIME_KIND_JVM << 56 | object);
	assert_int_equal(walk.frames[at + 1], RUNTIME_FRAME | RUNTIME_FRAME_DATA | flags | (uint64_t)check << 24 | place);
}

static void expect_callers(uint32_t place)
{
	expect_words(4, image_blob(image), runtime_check_of(g, IMAGE_BLOB_CODE, 77), JVM_FRAME_COMPILED, place);
	assert_int_equal(walk.frames[6], RETURN_IP);
	expect_words(7, h, method_check(h), 0, 11);
	assert_int_equal(walk.frames[9], MAIN + 0x55);
	assert_int_equal(walk.depth, 10);
}

static void test_mixed(void **state)
{
	for (size_t i = 0; i < VERSIONS; i++) {
		set_up(i);
		assert_int_equal(run_leaf(codes(f) + 7), UNWIND_COMPLETE);
		assert_int_equal(walk.frames[0], LEAF_IP);
		expect_words(1, f, method_check(f), 0, 7);
		assert_int_equal(walk.frames[3], IMAGE_BLOB_CODE + 0x20);
		expect_callers(0x20);
		assert_int_equal(walk.jvm_functions, 3);
		assert_int_equal(walk.jvm_unknown, 0);
		/* Where r13 has something else, the frame tells. */
		assert_int_equal(run_leaf(codes(f) + 40), UNWIND_COMPLETE);
		expect_words(1, f, method_check(f), 0, 3);
		mem_free(image);
	}
}

/* The interpreter has not made the frame yet: nothing is said of the leaf. */
static void test_no_frame_yet(void **state)
{
	set_up(1);
	image_put_word(image, LEAF_FP - 64, 0xdead);
	assert_int_equal(run_leaf(0), UNWIND_COMPLETE);
	assert_int_equal(walk.frames[1], IMAGE_BLOB_CODE + 0x20);
	assert_int_equal(walk.jvm_unknown, 1);
	image_put_word(image, LEAF_FP - 24, 0x41); /* no Method */
	assert_int_equal(run_leaf(codes(f)), UNWIND_COMPLETE);
	assert_int_equal(walk.frames[1], IMAGE_BLOB_CODE + 0x20);
	mem_free(image);
}

/* A leaf of compiled code of which no rule is known has its frame where a return address shows it, and is marked; as frame
 * pointer it has any number. */
static void test_leaves_without_a_rule(void **state)
{
	for (size_t i = 0; i < VERSIONS; i++) {
		set_up(i);
		assert_int_equal(run(IMAGE_BLOB_CODE + 0x40, COMPILED_SP), UNWIND_COMPLETE);
		expect_words(1, image_blob(image), runtime_check_of(g, IMAGE_BLOB_CODE, 77), JVM_FRAME_COMPILED,
			     JVM_PLACE_LEAF);
		assert_int_equal(walk.frames[3], RETURN_IP | UNWIND_FRAME_GAP);
		expect_words(4, h, method_check(h), 0, 11);
		assert_int_equal(walk.frames[6], MAIN + 0x55);
		assert_int_equal(walk.depth, 7);
		/* It has not, or has left it: with and without the frame pointer above the return address. */
		uint64_t sp = COMPILED_SP + FRAME_WORDS * 8;
		for (uint64_t above = 8; above <= 16; above += 8) {
			image_put_word(image, sp - above + FRAME_WORDS * 8 - 8, 0x9999);
			assert_int_equal(run_with(IMAGE_BLOB_CODE + 0x40, sp - above, above == 8 ? CALLER_FP : 1),
					 UNWIND_COMPLETE);
			assert_int_equal(walk.frames[3], RETURN_IP | UNWIND_FRAME_GAP);
			expect_words(4, h, method_check(h), 0, 11);
		}
		/* There is none: by the size of its frame, which leads nowhere. */
		image_put_word(image, sp - 8, 0x9999);
		assert_int_equal(run(IMAGE_BLOB_CODE + 0x40, COMPILED_SP), UNWIND_NO_MAPPING);
		mem_free(image);
	}
}

static void test_native_methods(void **state)
{
	set_up(1);
	image_put_field(image, f + 0x100, JVM_CONST_CODE_SIZE, 0);
	image_put_word(image, LEAF_FP - 64, 0);
	assert_int_equal(run_leaf(0), UNWIND_COMPLETE);
	expect_words(1, f, method_check(f), 0, 0);
	mem_free(image);
}

/* A return address that leads to the deoptimization is not where the method is. */
static void test_deoptimized(void **state)
{
	for (size_t i = 0; i < VERSIONS; i++) {
		set_up(i);
		put_call(IMAGE_BLOB_CODE + DEOPT);
		image_put_word(image, LEAF_FP + 8, IMAGE_BLOB_CODE + DEOPT);
		image_put_word(image, COMPILED_SP + ORIG_PC, IMAGE_BLOB_CODE + 0x44);
		assert_int_equal(run_leaf(codes(f)), UNWIND_COMPLETE);
		assert_int_equal(walk.frames[3], IMAGE_BLOB_CODE + DEOPT);
		expect_callers(0x44);
		mem_free(image);
	}
}

static void test_stubs(void **state)
{
	for (size_t i = 0; i < VERSIONS; i++) {
		set_up(i);
		uint64_t text = image->texts;
		image_put_block(image, "StubRoutines (1)", 2, 0);
		run(IMAGE_BLOB_CODE + 0x50, LEAF_FP - 0x80);
		expect_words(1, image_blob(image), runtime_check_of(text, IMAGE_BLOB_CODE, 0), JVM_FRAME_STUB, 0);
		mem_free(image);
	}
}

/* A stub that was put in place of a return address: frames of a virtual thread are missing. */
static void test_return_barrier(void **state)
{
	set_up(2);
	image_put_block(image, "StubRoutines (continuation stubs)", 2, FRAME_WORDS);
	image_put_word(image, LEAF_FP + 8, IMAGE_BLOB_CODE + 0x60);
	image_put_word(image, LEAF_FP, CALLER_FP);
	assert_int_equal(run_leaf(codes(f)), UNWIND_COMPLETE);
	assert_int_equal(walk.frames[3], (IMAGE_BLOB_CODE + 0x60) | UNWIND_FRAME_GAP);
	assert_int_equal(walk.hash, ({
				 uint64_t hash = 1;
				 for (size_t i = 1; i < walk.depth; i++)
					 hash = walk_hash(hash, walk.frames[i]);
				 hash;
			 }));
	mem_free(image);
}

/* ... in place of the one into a frame whose size is known. */
static void test_carrier(void **state)
{
	struct error err = {0};

	set_up(3);
	assert_int_equal(walk.jvm.carrier_bytes, 0);
	image_put_word(image, image->layout.variables[JVM_VARIABLE_CARRIER], IMAGE_BLOB_CODE + 0x1000);
	assert_int_equal(jvm_place(&image->layout, &image->memory, &walk.jvm, &err), 0);
	assert_int_equal(walk.jvm.carrier_bytes, FRAME_WORDS * 8);
	image_put_block(image, "StubRoutines (continuation stubs)", 2, 0);
	image_put_word(image, LEAF_FP + 8, IMAGE_BLOB_CODE + 0x60);
	image_put_word(image, LEAF_FP, 0); /* there is nothing to follow here */
	assert_int_equal(run_leaf(codes(f)), UNWIND_COMPLETE);
	assert_int_equal(walk.frames[3], (IMAGE_BLOB_CODE + 0x60) | UNWIND_FRAME_GAP);
	assert_int_equal(walk.frames[6], RETURN_IP);
	expect_words(7, h, method_check(h), 0, 11);
	image_put_word(image, image->layout.variables[JVM_VARIABLE_CARRIER], 0x1234);
	assert_int_equal(jvm_place(&image->layout, &image->memory, &walk.jvm, &err), 0);
	assert_int_equal(walk.jvm.carrier_bytes, 0);
	mem_free(image);
}

/* ---- frames of virtual threads in the heap ---- */

#define BARRIER	     (IMAGE_CODE + 0x10000) /* a block; the address in place of a return address is in its code */
#define BARRIER_IP   (BARRIER + 0x400 + 0x60)
#define ENTER	     (IMAGE_CODE + 0x18000) /* enterSpecial(), a block */
#define ENTER_CODE   (ENTER + 0x400)
#define ENTER_WORDS  10u
#define ENTRY	     (IMAGE_STACK + 0x200) /* the ContinuationEntry */
#define CONTINUATION (IMAGE_START + 0x70000)
#define CHUNK	     (IMAGE_START + 0x70100) /* in two: the innermost, and its parent */
#define PARENT	     (IMAGE_START + 0x72000)
#define CHUNK_SIZE   60u /* words */
#define OOP(address) (uint32_t)(((address) - (IMAGE_START - 0x1000)) >> 3)

static uint64_t chunk_word(uint64_t chunk, unsigned i)
{
	return chunk + IMAGE_CHUNK_BYTES + i * 8ull;
}

static void put_half(uint64_t address, uint32_t half)
{
	image_put(image, address, &half, sizeof(half));
}

static void put_chunk(uint64_t chunk, uint32_t sp, uint32_t bottom, uint64_t parent)
{
	image_put_word(image, chunk, 1);
	put_half(chunk + 40, parent ? OOP(parent) : 0);
	put_half(chunk + 12, CHUNK_SIZE);
	put_half(chunk + 24, sp);
	put_half(chunk + 28, bottom);
}

/* A frame of the interpreter in a chunk, whose frame pointer is word i, and its caller's is word `caller`; the caller's stack
 * pointer, word `sender`. */
static void put_frozen(uint64_t chunk, unsigned i, uint64_t method, unsigned saved, unsigned sender, unsigned caller,
		       uint64_t ra)
{
	put_interpreted(chunk_word(chunk, i), method, saved, sender - i, caller - i, ra);
}

/*
 * On the stack f, interpreted, which returns to the barrier `arguments` words below the entry. In the first chunk h,
 * interpreted, that compiled g called, which fills the chunk; in its parent h again, alone. Behind the entry the carrier, which
 * is h. With `version`'s tables, references of that many bytes.
 */
static void set_up_frozen(size_t version, uint32_t arguments)
{
	struct error err = {0};
	struct jvm_frozen frozen;

	set_up(version);
	image_put_block_at(image, BARRIER, "StubRoutines (continuation stubs)", 2, 0);
	image_put_block_at(image, ENTER, "nmethod", 1, ENTER_WORDS);
	image_put_continuations(image, ENTER + (uint64_t)image->layout.numbers[JVM_SIZE_BLOCK], 4);
	assert_int_equal(jvm_place(&image->layout, &image->memory, &walk.jvm, &err), 0);
	assert_int_equal(jvm_find_frozen(&image->layout, &image->memory, &frozen), 0);
	jvm_place_frozen(&image->layout, &frozen, &walk.jvm);
	uint64_t enter = ENTER + (uint64_t)image->layout.numbers[JVM_SIZE_BLOCK];
	image_put_field(image, enter, JVM_NMETHOD_METHOD, frozen.enter_method);
	image_put_field(image, enter, JVM_NMETHOD_ID, 5);
	put_interpreted(LEAF_FP, f, 3, ENTRY - (arguments + 1) / 2 * 16, 0, BARRIER_IP);
	image_put_word(image, ENTRY + 16, CONTINUATION);
	image_put_word(image, ENTRY + 32, (uint64_t)arguments << 32 | 1);
	image_put_word(image, ENTRY + ENTER_WORDS * 8 - 8, RETURN_IP);
	image_put_word(image, ENTRY + ENTER_WORDS * 8 - 16, CALLER_FP);
	image_put_word(image, CONTINUATION, 1);
	put_half(CONTINUATION + 40, OOP(CHUNK));
	put_chunk(CHUNK, 20, 40, PARENT);
	image_put_word(image, chunk_word(CHUNK, 19), RETURN_IP);
	image_put_word(image, chunk_word(CHUNK, 18), 30 - 18);
	put_frozen(CHUNK, 30, h, 11, 40 - FRAME_WORDS, 0, IMAGE_BLOB_CODE + 0x20);
	put_chunk(PARENT, 22, 44, 0);
	image_put_word(image, chunk_word(PARENT, 21), RETURN_IP);
	image_put_word(image, chunk_word(PARENT, 20), 30 - 20);
	put_frozen(PARENT, 30, h, 12, 44, 0, 0);
}

static void expect_carrier(size_t at, uint64_t gap)
{
	uint64_t enter = ENTER + (uint64_t)image->layout.numbers[JVM_SIZE_BLOCK];

	assert_int_equal(walk.frames[at], (ENTER_CODE + 1) | gap);
	expect_words(at + 1, enter, runtime_check_of(walk.jvm.enter_method, ENTER_CODE, 5), JVM_FRAME_COMPILED, 1);
	assert_int_equal(walk.frames[at + 3], RETURN_IP);
	expect_words(at + 4, h, method_check(h), 0, 11);
	assert_int_equal(walk.frames[at + 6], MAIN + 0x55);
	assert_int_equal(walk.depth, at + 7);
}

static void expect_hash(void)
{
	uint64_t hash = 1;

	for (size_t i = 1; i < walk.depth; i++)
		hash = walk_hash(hash, walk.frames[i]);
	assert_int_equal(walk.hash, hash);
}

static void test_frozen(void **state)
{
	for (size_t i = 2; i < VERSIONS; i++) {
		for (uint32_t arguments = 0; arguments < 5; arguments++) {
			set_up_frozen(i, arguments);
			assert_int_equal(run_leaf(codes(f) + 7), UNWIND_COMPLETE);
			expect_words(1, f, method_check(f), 0, 7);
			assert_int_equal(walk.frames[3], RETURN_IP);
			expect_words(4, h, method_check(h), 0, 11);
			assert_int_equal(walk.frames[6], IMAGE_BLOB_CODE + 0x20);
			expect_words(7, image_blob(image), runtime_check_of(g, IMAGE_BLOB_CODE, 77), JVM_FRAME_COMPILED, 0x20);
			assert_int_equal(walk.frames[9], RETURN_IP);
			expect_words(10, h, method_check(h), 0, 12);
			expect_carrier(12, 0);
			expect_hash();
			mem_free(image);
		}
	}
}

/* Chunks without frames are passed over; a few of them. */
static void test_empty_chunks(void **state)
{
	set_up_frozen(3, 0);
	put_chunk(CHUNK, 40, 40, PARENT);
	assert_int_equal(run_leaf(codes(f)), UNWIND_COMPLETE);
	expect_words(4, h, method_check(h), 0, 12);
	expect_carrier(6, 0);
	put_chunk(CHUNK, 40, 40, CHUNK);
	assert_int_equal(run_leaf(codes(f)), UNWIND_COMPLETE);
	assert_int_equal(walk.frames[3], BARRIER_IP | UNWIND_FRAME_GAP);
	put_chunk(CHUNK, 40, 40, 0);
	assert_int_equal(run_leaf(codes(f)), UNWIND_COMPLETE);
	assert_int_equal(walk.frames[3], BARRIER_IP | UNWIND_FRAME_GAP);
	mem_free(image);
}

/* What cannot be followed at all is as before: the barrier stands there, and callers are missing. */
static void test_frozen_not_found(void **state)
{
	const struct {
		uint64_t address;
		uint64_t word;
	} lies[] = {
		{CONTINUATION, 3}, /* moved */
		{CONTINUATION, 2}, /* a lock */
		{CHUNK, 3},
		{CONTINUATION + 40, 0}, /* no chunk */
		{CONTINUATION + 40, 0xffffffff},
		{ENTRY + 16, 0x1234},
		{ENTRY + 16, ~7ull},
		{ENTRY + 32, 100ull << 32}, /* arguments */
		{ENTRY + ENTER_WORDS * 8 - 8, 0x1234},
		{CHUNK + 8, (uint64_t)UINT32_MAX << 32}, /* its size */
		{CHUNK + 24, 100},			 /* where frames begin */
		{CHUNK + 24, 1 | 40ull << 32},
		{CHUNK + 24, 20 | 100ull << 32},	      /* ... and end */
		{CHUNK + IMAGE_CHUNK_BYTES + 19 * 8, 0x1234}, /* the innermost one's return address */
		{CHUNK + IMAGE_CHUNK_BYTES + 18 * 8, 1000},
		{CHUNK + IMAGE_CHUNK_BYTES + 18 * 8, (uint64_t)-10},
	};

	for (size_t i = 0; i < sizeof(lies) / sizeof(lies[0]); i++) {
		set_up_frozen(3, 0);
		image_put_word(image, lies[i].address, lies[i].word);
		run_leaf(codes(f));
		assert_int_equal(walk.frames[3], BARRIER_IP | UNWIND_FRAME_GAP);
		assert_true(walk.frames[5] & JVM_FRAME_STUB);
		assert_int_equal(walk.jvm_chunk_end, 0);
		mem_free(image);
	}
	/* No nmethod, or one that is none. */
	set_up_frozen(3, 0);
	image_put_word(image, walk.jvm.enter_method + walk.jvm.method_code, 0);
	run_leaf(codes(f));
	assert_int_equal(walk.frames[3], BARRIER_IP | UNWIND_FRAME_GAP);
	mem_free(image);
}

/* Nonsense further out: what was found stays, and the walk goes on behind the entry and says that callers are missing. */
static void test_frozen_in_part(void **state)
{
	const struct {
		uint64_t address;
		uint64_t word;
		size_t carrier; /* where it comes */
	} lies[] = {
		{CHUNK + IMAGE_CHUNK_BYTES + 29 * 8, 0, 6}, /* h's caller would be inside it */
		{CHUNK + IMAGE_CHUNK_BYTES + 29 * 8, 1u << 20, 6},
		{CHUNK + IMAGE_CHUNK_BYTES + 31 * 8, 0x77, 6}, /* h's return address */
		{PARENT, 3, 9},				       /* moved */
		{PARENT + 24, 1000, 9},
		{PARENT + IMAGE_CHUNK_BYTES + 21 * 8, 0x77, 9},
	};

	for (size_t i = 0; i < sizeof(lies) / sizeof(lies[0]); i++) {
		set_up_frozen(3, 0);
		image_put_word(image, lies[i].address, lies[i].word);
		assert_int_equal(run_leaf(codes(f)), UNWIND_COMPLETE);
		expect_carrier(lies[i].carrier, UNWIND_FRAME_GAP);
		expect_hash();
		mem_free(image);
	}
	/* Chunks in a ring: the walk ends where there is no room. */
	set_up_frozen(3, 0);
	put_chunk(PARENT, 22, 44, CHUNK);
	assert_int_equal(run_leaf(codes(f)), UNWIND_TOO_DEEP);
	assert_true(walk.depth <= UNWIND_FRAMES_MAX);
	mem_free(image);
}

/* References of 8 bytes with colors: a good one, and one that the collector has not seen to. */
static void test_frozen_colored(void **state)
{
	uint64_t bad = IMAGE_VARIABLES + 0x800, shift = bad + 8;

	set_up_frozen(3, 0);
	walk.jvm.oop_bytes = 8;
	image_put_word(image, CONTINUATION + 40, CHUNK);
	put_chunk(CHUNK, 20, 40, 0);
	image_put_word(image, CHUNK + 40, 0);
	assert_int_equal(run_leaf(codes(f)), UNWIND_COMPLETE);
	expect_carrier(9, 0);
	walk.jvm.color_bad = bad;
	walk.jvm.color_shift = shift;
	image_put_word(image, bad, 0x300);
	image_put_word(image, shift, 16);
	image_put_word(image, CONTINUATION + 40, CHUNK << 16 | 0x400);
	assert_int_equal(run_leaf(codes(f)), UNWIND_COMPLETE);
	expect_carrier(9, 0);
	image_put_word(image, CONTINUATION + 40, CHUNK << 16 | 0x100);
	run_leaf(codes(f));
	assert_int_equal(walk.frames[3], BARRIER_IP | UNWIND_FRAME_GAP);
	image_put_word(image, CONTINUATION + 40, CHUNK << 16 | 0x400);
	image_put_word(image, shift, 64);
	run_leaf(codes(f));
	assert_int_equal(walk.frames[3], BARRIER_IP | UNWIND_FRAME_GAP);
	mem_free(image);
}

/* While a thread gives up its carrier its frames are in the heap already, and still on the stack. */
static void test_freezing(void **state)
{
	set_up_frozen(3, 0);
	put_call(IMAGE_BLOB_CODE + 0x10);
	put_interpreted(CALLER_FP, h, 11, CALLER_FP + 16, 0x5678, MAIN + 0x55);
	/* f calls doYield(), of which the compiled frame is made: its caller is the same as that of the frame in the heap. */
	uint64_t sp = LEAF_FP - 0x80, ra = RETURN_IP;
	walk.jvm.yield_method = g;
	image_put_word(image, sp + FRAME_WORDS * 8 - 8, ra);
	image_put_word(image, sp + FRAME_WORDS * 8 - 16, LEAF_FP);
	run(IMAGE_BLOB_CODE + 0x40, sp);
	expect_words(4, f, method_check(f), 0, 3);
	assert_int_equal(walk.frames[6], BARRIER_IP | UNWIND_FRAME_GAP);
	/* Not yet: the one in the heap returns to elsewhere. */
	image_put_word(image, sp + FRAME_WORDS * 8 - 8, ra + 0x10);
	run(IMAGE_BLOB_CODE + 0x40, sp);
	expect_words(4, f, method_check(f), 0, 3);
	assert_int_equal(walk.frames[6], RETURN_IP);
	expect_carrier(15, 0);
	mem_free(image);
}

/* While frames are copied back, some are nowhere. */
static void test_thawing(void **state)
{
	set_up_frozen(3, 0);
	uint64_t stub = BARRIER + 0x400 + 0x90;
	put_call(stub);
	put_interpreted(LEAF_FP, f, 3, LEAF_FP + 16, CALLER_FP, stub);
	image_put_word(image, CALLER_FP, CALLER_FP + 0x100);
	image_put_word(image, CALLER_FP + 8, RETURN_IP);
	put_interpreted(CALLER_FP + 0x100, h, 11, CALLER_FP + 0x110, 0x5678, MAIN + 0x55);
	assert_int_equal(run_leaf(codes(f)), UNWIND_COMPLETE);
	assert_int_equal(walk.frames[3], stub);
	assert_true(walk.frames[5] & JVM_FRAME_STUB);
	assert_int_equal(walk.frames[6], RETURN_IP | UNWIND_FRAME_GAP);
	expect_words(7, h, method_check(h), 0, 11);
	expect_hash();
	mem_free(image);
}

/* Two return addresses of the interpreter in one frame of it are one function. */
static void test_subroutines(void **state)
{
	set_up(1);
	walk.registers[JVM_REGISTER_BCP] = codes(f);
	walk.known = ~0u;
	walk.registers[UNWIND_REGISTER_SP] = LEAF_FP - 0x80;
	walk.registers[UNWIND_REGISTER_FP] = LEAF_FP;
	walk_begin(&walk, LEAF_IP, 1);
	jvm_meet(&walk);
	uint64_t hash = walk.hash;
	walk_enter(&walk, LEAF_IP + 0x10, 1);
	jvm_meet(&walk);
	assert_int_equal(walk.depth, 3);
	assert_int_equal(walk.hash, hash);
	mem_free(image);
}

static void test_segment_maps_that_lie(void **state)
{
	static const uint8_t hops[] = {0xff, 200, 1};

	for (size_t i = 0; i < sizeof(hops); i++) {
		set_up(1);
		memset(image->data + (IMAGE_SEGMENTS - IMAGE_START), hops[i], IMAGE_CODE_BYTES >> IMAGE_SHIFT);
		run(IMAGE_BLOB_CODE + 0x50, LEAF_FP - 0x80);
		assert_false(walk.frames[1] & RUNTIME_FRAME);
		assert_true(walk.jvm_unknown >= 1);
		mem_free(image);
	}
	set_up(1);
	image->data[IMAGE_BLOB - IMAGE_START + image->layout.fields[JVM_BLOCK_USED].offset] = 0; /* thrown away */
	run(IMAGE_BLOB_CODE + 0x50, LEAF_FP - 0x80);
	assert_false(walk.frames[1] & RUNTIME_FRAME);
	mem_free(image);
}

/* A frame that is its own caller ends somewhere, and nothing is written beyond the end. */
static void test_endless(void **state)
{
	set_up(1);
	for (uint64_t fp = LEAF_FP; fp < IMAGE_START + IMAGE_BYTES - 0x200; fp += 0x18)
		put_interpreted(fp, f, 3, fp + 16, fp + 0x18, RETURN_IP);
	run_leaf(codes(f));
	assert_true(walk.depth <= UNWIND_FRAMES_MAX);
	walk.depth = UNWIND_FRAMES_MAX - 1;
	walk.jvm_fp = 0;
	jvm_meet(&walk);
	assert_int_equal(walk.depth, UNWIND_FRAMES_MAX - 1);
	mem_free(image);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_mixed),
		cmocka_unit_test(test_no_frame_yet),
		cmocka_unit_test(test_leaves_without_a_rule),
		cmocka_unit_test(test_native_methods),
		cmocka_unit_test(test_deoptimized),
		cmocka_unit_test(test_stubs),
		cmocka_unit_test(test_return_barrier),
		cmocka_unit_test(test_carrier),
		cmocka_unit_test(test_frozen),
		cmocka_unit_test(test_empty_chunks),
		cmocka_unit_test(test_frozen_not_found),
		cmocka_unit_test(test_frozen_in_part),
		cmocka_unit_test(test_frozen_colored),
		cmocka_unit_test(test_freezing),
		cmocka_unit_test(test_thawing),
		cmocka_unit_test(test_subroutines),
		cmocka_unit_test(test_segment_maps_that_lie),
		cmocka_unit_test(test_endless),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
