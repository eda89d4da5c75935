// SPDX-License-Identifier: Apache-2.0
/*
 * Frames of Python in walks that are completed in user space: over the stack of this very process, whose functions say
 * themselves where their frames are and by whom they were called.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>
#include <sys/uio.h>
#include <ucontext.h>
#include <unistd.h>

#include "agent/unwinder.h"
#include "base/test_fixture.h"
#include "base/time.h"

struct fixture {
	struct binaries binaries;
	struct process_table table;
	struct chains chains;
	struct unwinder *unwinder;
	struct process *process;
};
static const size_t fixture_bytes = sizeof(struct fixture);

static int fixture_init(struct fixture *f)
{
	struct error err = {0};

	f->chains.frames_max = 100000;
	int r = binaries_init(&f->binaries);
	if (r == 0)
		r = process_table_init(&f->table, &f->binaries);
	if (r == 0)
		r = unwinder_new(NULL, &f->binaries, &f->table, NULL, &f->unwinder, &err);
	if (r == 0)
		r = process_table_lookup(&f->table, getpid(), (uint64_t)time_monotonic_ns(), "test", &f->process, &err);
	return r;
}

static void fixture_release(struct fixture *f)
{
	unwinder_free(f->unwinder);
	process_table_release(&f->table);
	binaries_release(&f->binaries);
	chains_release(&f->chains);
}

/* An interpreter whose loop is [start, end), 0 where it is found by the frames it lies in: as of 3.11, and of 3.12. */
static void put_python(struct fixture *f, uint64_t start, uint64_t end)
{
	struct runtimes *runtimes = unwinder_runtimes(f->unwinder);
	struct runtime_file file = {.type = &runtime_python, .is_known = true};

	file.python.version = end ? 0x030b : 0x030c;
	assert_true(python_layout_of(file.python.version, &file.python.layout));
	file.python.loop_start = start;
	file.python.loop_end = end;
	assert_int_equal(array_push(&runtimes->files, &runtimes->file_count, &runtimes->file_capacity, 8, file), 0);
	f->process->maps->runtimes[RUNTIME_LISTED] = (struct mapped_runtime){.file = 1 + (uint32_t)runtimes->file_count};
}

/* ---- a stack ---- */

static struct abi_tail tail;
static uint64_t shims[2];   /* in the frames of inner() and middle() */
static uint64_t returns[2]; /* into middle() and outer() */

/* Up to the environment, which lies above all frames. */
static void take_tail(const ucontext_t *context)
{
	static const int order[UNWIND_REGISTERS] = {REG_RAX, REG_RDX, REG_RCX, REG_RBX, REG_RSI, REG_RDI, REG_RBP, REG_RSP,
						    REG_R8,  REG_R9,  REG_R10, REG_R11, REG_R12, REG_R13, REG_R14, REG_R15};
	const greg_t *registers = context->uc_mcontext.gregs;
	uint64_t end = (uintptr_t)environ;

	tail = (struct abi_tail){.header.kind = ABI_RECORD_TAIL, .depth = 1, .known = 0xffff, .is_return = 1};
	for (size_t i = 0; i < UNWIND_REGISTERS; i++)
		tail.registers[i] = (uint64_t)registers[order[i]];
	tail.ip = (uint64_t)registers[REG_RIP];
	tail.stack = tail.registers[UNWIND_REGISTER_SP];
	tail.stack_bytes = end - tail.stack < ABI_TAIL_BYTES ? (uint32_t)(end - tail.stack) & ~7u : ABI_TAIL_BYTES;
	struct iovec to = {tail.data, tail.stack_bytes}, from = {(void *)(uintptr_t)tail.stack, tail.stack_bytes};
	assert_int_equal(process_vm_readv(getpid(), &to, 1, &from, 1, 0), tail.stack_bytes);
}

static __attribute__((noinline)) void inner(void)
{
	volatile uint64_t shim[4] = {1};
	ucontext_t context;

	shims[0] = (uintptr_t)&shim[1] & ~7ull;
	returns[0] = (uintptr_t)__builtin_return_address(0);
	assert_int_equal(getcontext(&context), 0);
	take_tail(&context);
	__asm__ volatile("" ::"r"(&shim) : "memory");
}

static __attribute__((noinline)) void middle(void)
{
	volatile uint64_t shim[4] = {1};

	shims[1] = (uintptr_t)&shim[1] & ~7ull;
	returns[1] = (uintptr_t)__builtin_return_address(0);
	inner();
	__asm__ volatile("" ::"r"(&shim) : "memory");
}

static __attribute__((noinline)) void outer(void)
{
	middle();
	__asm__ volatile("" ::: "memory");
}

/* ---- chains ---- */

#define OBJECT(n)  (RUNTIME_FRAME | 1ull << 56 | (0x1000 * (n)))
#define DATA(n)	   (RUNTIME_FRAME | RUNTIME_FRAME_DATA | (n) << 24 | (n))
#define PENDING	   RUNTIME_FRAME_PENDING
#define ENTRY	   RUNTIME_FRAME_ENTRY
#define ANCHOR(at) (RUNTIME_FRAME | RUNTIME_FRAME_DATA | PENDING | RUNTIME_FRAME_ANCHOR | (at))

static uint64_t chain = 76; /* the hash of the last one */

static void put_chain(struct fixture *f, const uint64_t *frames, size_t count)
{
	assert_int_equal(chains_put(&f->chains, ++chain, frames, count), 0);
}

static enum unwind_result complete(struct fixture *f, struct abi_sample sample, const struct abi_tail *with,
				   const uint64_t **ret, size_t *ret_count)
{
	sample.flags |= with ? ABI_SAMPLE_TAIL : 0;
	sample.tgid = (uint32_t)getpid();
	assert_int_equal(unwinder_complete(f->unwinder, f->process, &sample, with, &f->chains), 0);
	*ret = NULL;
	*ret_count = 0;
	if (sample.user_chain)
		assert_true(chains_find(&f->chains, sample.user_chain, ret, ret_count));
	return sample.result;
}

static enum unwind_result resume(struct fixture *f, const uint64_t **ret, size_t *ret_count)
{
	return complete(f,
			(struct abi_sample){.user_leaf = tail.ip, .user_chain = chain, .result = UNWIND_NO_TABLE, .version = 0},
			&tail, ret, ret_count);
}

static void check_begins(const uint64_t *callers, size_t count, const uint64_t *expected, size_t expected_count)
{
	assert_true(count > expected_count);
	for (size_t i = 0; i < expected_count; i++)
		assert_int_equal(callers[i], expected[i]);
}

static void check_ends(const uint64_t *callers, size_t count, const uint64_t *expected, size_t expected_count)
{
	assert_true(count > expected_count);
	for (size_t i = 0; i < expected_count; i++)
		assert_int_equal(callers[count - expected_count + i], expected[i]);
	assert_false(callers[count - expected_count - 1] & RUNTIME_FRAME); /* they are no more than these */
}

/* What the kernel side's walk did not come to is put where its shims lie, and the rest stays pending. */
static void test_pending_frames_go_on_by_anchors(void **state)
{
	struct fixture *f = *state;
	const uint64_t *callers;
	size_t count;

	outer();
	put_python(f, 0, 0);
	put_chain(f,
		  (uint64_t[]){OBJECT(1ull), DATA(1ull) | PENDING, OBJECT(2ull), DATA(2ull) | PENDING | ENTRY, ANCHOR(shims[0]),
			       OBJECT(3ull), DATA(3ull) | PENDING | ENTRY, ANCHOR(shims[1]), OBJECT(4ull),
			       DATA(4ull) | PENDING},
		  10);
	assert_true(UNWIND_IS_COMPLETE(resume(f, &callers, &count)));
	check_begins(callers, count,
		     (uint64_t[]){OBJECT(1ull), DATA(1ull), OBJECT(2ull), DATA(2ull) | ENTRY, returns[0], OBJECT(3ull),
				  DATA(3ull) | ENTRY, returns[1]},
		     8);
	check_ends(callers, count, (uint64_t[]){OBJECT(4ull), DATA(4ull) | PENDING}, 2);
}

/* Shims that lie nowhere in the stack stay with their frames. */
static void test_anchors_that_are_not_met(void **state)
{
	struct fixture *f = *state;
	const uint64_t pending[] = {OBJECT(1ull), DATA(1ull) | PENDING | ENTRY, ANCHOR(0x1000ull), OBJECT(2ull),
				    DATA(2ull) | PENDING | ENTRY};
	const uint64_t *callers;
	size_t count;

	outer();
	put_python(f, 0, 0);
	put_chain(f, pending, 5);
	assert_true(UNWIND_IS_COMPLETE(resume(f, &callers, &count)));
	check_begins(callers, count, returns, 2);
	check_ends(callers, count, pending, 5);
}

/* Up to 3.11 the frames of the loop are seen by their code: here middle(), behind its call of inner(). */
static void test_pending_frames_go_on_by_code(void **state)
{
	struct fixture *f = *state;
	const uint64_t *callers;
	size_t count;

	outer();
	put_python(f, returns[0] - 1, returns[0] + 1);
	put_chain(f,
		  (uint64_t[]){OBJECT(1ull), DATA(1ull) | PENDING, OBJECT(2ull), DATA(2ull) | PENDING | ENTRY, OBJECT(3ull),
			       DATA(3ull) | PENDING},
		  6);
	assert_true(UNWIND_IS_COMPLETE(resume(f, &callers, &count)));
	check_begins(callers, count,
		     (uint64_t[]){returns[0], OBJECT(1ull), DATA(1ull), OBJECT(2ull), DATA(2ull) | ENTRY, returns[1]}, 6);
	check_ends(callers, count, (uint64_t[]){OBJECT(3ull), DATA(3ull) | PENDING}, 2);
}

/* Frames that the kernel side has put in already stay where they are. */
static void test_walk_that_has_begun(void **state)
{
	struct fixture *f = *state;
	const uint64_t *callers;
	size_t count;

	outer();
	put_python(f, 0, 0);
	put_chain(f,
		  (uint64_t[]){OBJECT(1ull), DATA(1ull) | ENTRY, 0x4242, OBJECT(2ull), DATA(2ull) | PENDING | ENTRY,
			       ANCHOR(shims[1])},
		  6);
	tail.depth = 4; /* the leaf, a frame of Python, a caller; where the walk goes on from */
	assert_true(UNWIND_IS_COMPLETE(resume(f, &callers, &count)));
	check_begins(callers, count,
		     (uint64_t[]){OBJECT(1ull), DATA(1ull) | ENTRY, 0x4242, returns[0], OBJECT(2ull), DATA(2ull) | ENTRY,
				  returns[1]},
		     7);
	/* A depth that is not that of the chain without what is pending: left as it is. */
	tail.depth = 7;
	assert_int_equal(resume(f, &callers, &count), UNWIND_NO_TABLE);
	assert_int_equal(count, 6);
}

/* Tails that do not help end after some drains, however many came in one: what the first one taught is told after the drain. */
static void test_fruitless_tails(void **state)
{
	struct fixture *f = *state;
	const uint64_t *callers;
	size_t count;

	outer();
	put_chain(f, (uint64_t[]){0x4242}, 1);
	tail.depth = 2;
	tail.ip = 0x1000; /* nothing is mapped there */
	for (unsigned drain = 1; drain <= 8; drain++) {
		assert_int_equal(f->process->quiet_until, 0);
		for (unsigned i = 0; i < 20 && drain < 8; i++)
			assert_int_equal(resume(f, &callers, &count), UNWIND_NO_MAPPING);
		unwinder_update(f->unwinder);
	}
	assert_int_equal(resume(f, &callers, &count), UNWIND_NO_MAPPING);
	assert_true(f->process->quiet_until > 0);
}

/* The process's mappings were read anew, and nobody has looked for an interpreter in them yet. */
static void test_interpreter_that_is_not_placed(void **state)
{
	struct fixture *f = *state;
	const uint64_t pending[] = {OBJECT(1ull), DATA(1ull) | PENDING | ENTRY, ANCHOR(shims[0]), OBJECT(2ull),
				    DATA(2ull) | PENDING};
	const uint64_t *callers;
	size_t count;

	outer();
	put_chain(f, pending, 5);
	assert_true(UNWIND_IS_COMPLETE(resume(f, &callers, &count)));
	check_begins(callers, count, returns, 2);
	check_ends(callers, count, pending, 5);
}

/* The kernel side did not know the process: frames of the loop have functions that nobody has seen. */
static void test_functions_that_nobody_has_seen(void **state)
{
	struct fixture *f = *state;
	const uint64_t unseen[] = {RUNTIME_FRAME | (uint64_t)RUNTIME_KIND_PYTHON << 56,
				   RUNTIME_FRAME | RUNTIME_FRAME_DATA | ENTRY};
	struct abi_sample sample = {.result = UNWIND_NO_PROCESS};
	const uint64_t *callers;
	size_t count;

	outer();
	put_python(f, returns[0] - 1, returns[0] + 1);
	sample.user_leaf = tail.ip;
	assert_true(UNWIND_IS_COMPLETE(complete(f, sample, &tail, &callers, &count)));
	check_begins(callers, count, (uint64_t[]){returns[0], unseen[0], unseen[1], returns[1]}, 4);
	/* It did: they are elsewhere, or there are none. */
	sample.result = UNWIND_NO_TABLE;
	assert_true(UNWIND_IS_COMPLETE(complete(f, sample, &tail, &callers, &count)));
	check_begins(callers, count, returns, 2);
	/* They have no name, and none is read. */
	struct runtime_name names[RUNTIME_INLINES_MAX];
	const struct runtime_type *type;
	struct runtimes *runtimes = unwinder_runtimes(f->unwinder);
	const struct runtime_frame words = {.object = unseen[0], .data = unseen[1]};
	assert_int_equal(runtimes_name(runtimes, f->process, &words, &type, names), 1);
	assert_ptr_equal(type, &runtime_python);
	assert_string_equal(names[0].name, "");
	assert_int_equal(runtimes->counts[RUNTIME_KIND_PYTHON].lost, 0);
}

/* Chains that nobody would send. */
static void test_pending_frames_that_make_no_sense(void **state)
{
	static const uint64_t alone[] = {DATA(1ull) | PENDING}, anchors[] = {ANCHOR(0x1000ull), ANCHOR(0x2000ull)};
	struct fixture *f = *state;
	uint64_t many[UNWIND_FRAMES_MAX - 1];
	const uint64_t *callers;
	size_t count;

	outer();
	put_python(f, 0, 0);
	put_chain(f, alone, 1);
	assert_true(UNWIND_IS_COMPLETE(resume(f, &callers, &count)));
	check_begins(callers, count, returns, 2);
	put_chain(f, anchors, 2);
	assert_true(UNWIND_IS_COMPLETE(resume(f, &callers, &count)));
	check_begins(callers, count, returns, 2);
	/* As many as a chain can have: what has no room is left out. */
	many[0] = ANCHOR(shims[0]);
	for (size_t i = 1; i < sizeof(many) / sizeof(many[0]); i++)
		many[i] = i & 1 ? OBJECT(1ull) : DATA(1ull) | PENDING;
	put_chain(f, many, sizeof(many) / sizeof(many[0]));
	assert_int_equal(resume(f, &callers, &count), UNWIND_TOO_DEEP);
	assert_true(count < UNWIND_FRAMES_MAX && count + 3 >= UNWIND_FRAMES_MAX);
}

/* A walk that was led astray: its last frame lies nowhere, and what is pending belongs nobody knows where. */
static void test_frames_in_no_mapping(void **state)
{
	struct fixture *f = *state;
	const uint64_t *callers;
	size_t count;

	outer();
	put_chain(f, (uint64_t[]){returns[0], 0x4242, OBJECT(1ull), DATA(1ull) | PENDING | ENTRY, ANCHOR(0x1000ull)}, 5);
	struct abi_sample sample = {.user_leaf = tail.ip, .user_chain = chain, .result = UNWIND_NO_MAPPING};
	assert_int_equal(complete(f, sample, NULL, &callers, &count), UNWIND_NO_MAPPING);
	assert_int_equal(count, 1);
	assert_int_equal(callers[0], returns[0]);
	/* The last frame is sound: all stays. */
	put_chain(f, (uint64_t[]){0x4242, returns[0], OBJECT(1ull), DATA(1ull) | PENDING}, 4);
	sample.user_chain = chain;
	complete(f, sample, NULL, &callers, &count);
	assert_int_equal(count, 4);
	/* Nothing but what is pending. */
	put_chain(f, (uint64_t[]){OBJECT(1ull), DATA(1ull) | PENDING}, 2);
	sample.user_chain = chain;
	complete(f, sample, NULL, &callers, &count);
	assert_int_equal(count, 2);
}

/* A mapping has changed since the sample: frames of Python are in no doubt, but the callers of those that are go. */
static void test_frames_in_doubt(void **state)
{
	struct fixture *f = *state;
	uint32_t version = f->process->version;
	const uint64_t *callers;
	size_t count;

	outer();
	put_chain(f, (uint64_t[]){0x100000042, OBJECT(1ull), DATA(1ull) | ENTRY, returns[1], OBJECT(2ull), DATA(2ull)}, 6);
	struct event event = {.kind = EVENT_MAP,
			      .time_ns = (uint64_t)time_monotonic_ns(),
			      .pid = getpid(),
			      .tid = getpid(),
			      .start = returns[1] & ~0xfffull,
			      .length = 0x1000,
			      .name = "//anon"};
	assert_int_equal(process_table_apply(&f->table, &event, NULL), 0);
	assert_int_not_equal(f->process->version, version);
	struct abi_sample sample = {
		.user_leaf = 0x100000000, .user_chain = chain, .result = UNWIND_COMPLETE, .version = version};
	assert_int_equal(complete(f, sample, NULL, &callers, &count), UNWIND_STALE);
	assert_int_equal(count, 4);
	assert_int_equal(callers[3], returns[1]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		FIXTURE_TEST(test_pending_frames_go_on_by_anchors),
		FIXTURE_TEST(test_anchors_that_are_not_met),
		FIXTURE_TEST(test_pending_frames_go_on_by_code),
		FIXTURE_TEST(test_walk_that_has_begun),
		FIXTURE_TEST(test_fruitless_tails),
		FIXTURE_TEST(test_interpreter_that_is_not_placed),
		FIXTURE_TEST(test_functions_that_nobody_has_seen),
		FIXTURE_TEST(test_pending_frames_that_make_no_sense),
		FIXTURE_TEST(test_frames_in_no_mapping),
		FIXTURE_TEST(test_frames_in_doubt),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
