/* SPDX-License-Identifier: Apache-2.0 */
#include "control/heap_sampler.h"

#include <errno.h>
#include <math.h>
#include <time.h>
#include <unwind.h>

#include "base/hash.h"

#define LIVE_PROBES  32u
#define LIVE_ALIGNED 8u /* probes begin at one of so many */
#define STACK_PROBES 64u
#define FILTER_MAX   255u	/* of a byte */
#define HELD	     1u		/* in an address: allocations are aligned to more */
#define NO_ROOM	     UINT64_MAX /* for frames */

/* Of a sample: its size, and its stack. */
#define STACK_BITS     12
#define META(size, at) ((uint64_t)(size) << STACK_BITS | (at))
_Static_assert(HEAP_STACKS == 1u << STACK_BITS, "a stack's index fits");

/* Objects are counted in parts of one: an allocation of 400 KiB stands for 1.84 of them. */
#define PARTS 65536u

struct stack {
	_Atomic uint64_t hash;	/* 0 = free */
	_Atomic uint64_t place; /* FIRST << 8 | DEPTH, 0 = they are being written, NO_ROOM */
	_Atomic uint64_t allocated_parts, allocated_bytes, freed_parts, freed_bytes;
};
struct heap_hold {
	_Atomic uint64_t address; /* 0 = free */
	uint64_t meta;
};

__thread struct heap_thread heap_thread;
_Atomic uint8_t heap_filter[1u << HEAP_FILTER_BITS];

static _Atomic uint32_t rate;
static struct stack stacks[HEAP_STACKS];
static uint64_t frames[HEAP_FRAMES];
static _Atomic uint32_t frames_used;
static struct heap_hold live[HEAP_LIVE] __attribute__((aligned(64)));
static _Atomic uint64_t lost_stacks, lost_live, lost_live_bytes;

/* ---- chance ---- */

static uint64_t random_next(struct heap_thread *thread)
{
	thread->random ^= thread->random << 13;
	thread->random ^= thread->random >> 7;
	thread->random ^= thread->random << 17;
	return thread->random * 0x2545f4914f6cdd1dull;
}

/* Threads differ by where their memory is, processes by the time. */
static void seed(struct heap_thread *thread)
{
	struct timespec now = {0};
	clock_gettime(CLOCK_MONOTONIC, &now);
	thread->random = hash64_mix((uint64_t)(uintptr_t)thread ^ (uint64_t)now.tv_nsec << 32 ^ (uint64_t)now.tv_sec) | 1;
}

/* From an exponential distribution; an allocation of whole bytes reaches it if it reaches it rounded up. */
static uint64_t draw_distance(struct heap_thread *thread, uint32_t mean)
{
	double uniform = (double)((random_next(thread) >> 11) + 1) * 0x1p-53; /* (0, 1] */
	return (uint64_t)ceil(-log(uniform) * mean);
}

/* What a sample of that size stands for. */
static void weigh(uint64_t size, uint64_t *ret_parts, uint64_t *ret_bytes)
{
	double probability = -expm1(-(double)size / atomic_load_explicit(&rate, memory_order_relaxed));
	*ret_parts = (uint64_t)(PARTS / probability);
	*ret_bytes = (uint64_t)((double)size / probability);
}

/* ---- stacks ---- */

struct walk {
	uintptr_t caller;
	uint64_t *frames;
	uint32_t count;
};

/* Frames of the allocator itself, and of this, come first. */
static _Unwind_Reason_Code walk_frame(struct _Unwind_Context *context, void *arg)
{
	struct walk *walk = arg;
	uintptr_t address = _Unwind_GetIP(context);
	if (!address || walk->count == HEAP_FRAMES_MAX)
		return _URC_END_OF_STACK;
	if (walk->count > 0 || address == walk->caller)
		walk->frames[walk->count++] = address;
	return _URC_NO_REASON;
}

static uint32_t walk_stack(const void *caller, uint64_t ret[static HEAP_FRAMES_MAX])
{
	struct walk walk = {(uintptr_t)caller, ret, 0};
	_Unwind_Backtrace(walk_frame, &walk);
	if (walk.count == 0)
		ret[walk.count++] = (uintptr_t)caller;
	return walk.count;
}

/* Without room its slot counts, and has no frames. */
static void publish(struct stack *stack, const uint64_t *from, uint32_t depth)
{
	uint32_t first = atomic_load(&frames_used);
	do {
		if (HEAP_FRAMES - first < depth) {
			atomic_store(&stack->place, NO_ROOM);
			return;
		}
	} while (!atomic_compare_exchange_weak(&frames_used, &first, first + depth));
	for (uint32_t i = 0; i < depth; i++)
		frames[first + i] = from[i];
	atomic_store(&stack->place, (uint64_t)first << 8 | depth);
}

static uint64_t hash_frames(const uint64_t *from, uint32_t depth)
{
	uint64_t hash = depth;
	for (uint32_t i = 0; i < depth; i++)
		hash = hash64_mix(hash ^ from[i]);
	return hash | 1;
}

/* Its index; 0 = there is no room. */
static uint32_t intern_stack(const uint64_t *from, uint32_t depth)
{
	uint64_t hash = hash_frames(from, depth);
	for (uint32_t i = 0; i < STACK_PROBES; i++) {
		uint32_t at = ((uint32_t)(hash >> 32) + i) % HEAP_STACKS;
		if (at == 0)
			continue;
		uint64_t known = atomic_load(&stacks[at].hash);
		if (!known && atomic_compare_exchange_strong(&stacks[at].hash, &known, hash)) {
			publish(&stacks[at], from, depth);
			return at;
		}
		if (known == hash)
			return at;
	}
	return 0;
}

/* ---- what lives ---- */

static bool filter_add(const void *ptr)
{
	_Atomic uint8_t *count = &heap_filter[heap_filter_index(ptr)];
	uint8_t known = atomic_load(count);
	do {
		if (known == FILTER_MAX)
			return false;
	} while (!atomic_compare_exchange_weak(count, &known, (uint8_t)(known + 1)));
	return true;
}

static void filter_remove(const void *ptr)
{
	atomic_fetch_sub(&heap_filter[heap_filter_index(ptr)], 1);
}

static struct heap_hold *slot_of(const void *ptr, uint32_t probe)
{
	return &live[((uint32_t)hash64_mix((uintptr_t)ptr) * LIVE_ALIGNED + probe) % HEAP_LIVE];
}

static bool live_add(const void *ptr, uint64_t meta)
{
	if (!filter_add(ptr))
		return false;
	for (uint32_t i = 0; i < LIVE_PROBES; i++) {
		struct heap_hold *slot = slot_of(ptr, i);
		uint64_t none = 0;
		if (!atomic_compare_exchange_strong(&slot->address, &none, (uintptr_t)ptr))
			continue;
		slot->meta = meta;
		return true;
	}
	filter_remove(ptr);
	return false;
}

struct heap_hold *heap_sampler_hold(const void *ptr)
{
	/* NULL is what free slots have. */
	for (uint32_t i = 0; ptr && i < LIVE_PROBES; i++) {
		struct heap_hold *slot = slot_of(ptr, i);
		if (atomic_load_explicit(&slot->address, memory_order_relaxed) != (uintptr_t)ptr)
			continue;
		atomic_store(&slot->address, (uintptr_t)ptr | HELD);
		return slot;
	}
	return NULL;
}

static void count_freed(uint64_t meta)
{
	struct stack *stack = &stacks[meta % HEAP_STACKS];
	uint64_t parts, bytes;
	weigh(meta >> STACK_BITS, &parts, &bytes);
	atomic_fetch_add(&stack->freed_parts, parts);
	atomic_fetch_add(&stack->freed_bytes, bytes);
}

void heap_sampler_release(struct heap_hold *hold, bool is_freed)
{
	uint64_t address = atomic_load(&hold->address) & ~(uint64_t)HELD;
	if (!is_freed) {
		atomic_store(&hold->address, address);
		return;
	}
	count_freed(hold->meta);
	atomic_store(&hold->address, 0);
	filter_remove((const void *)(uintptr_t)address);
}

void heap_sampler_freed(const void *ptr)
{
	struct heap_hold *hold = heap_sampler_hold(ptr);
	if (hold)
		heap_sampler_release(hold, true);
}

/* ---- samples ---- */

static void add_sample(const void *ptr, size_t size, const void *caller)
{
	uint64_t addresses[HEAP_FRAMES_MAX], parts, bytes;
	uint32_t at = intern_stack(addresses, walk_stack(caller, addresses));
	struct stack *stack = &stacks[at];
	weigh(size, &parts, &bytes);
	atomic_fetch_add(&stack->allocated_parts, parts);
	atomic_fetch_add(&stack->allocated_bytes, bytes);
	if (at == 0 || atomic_load(&stack->place) == NO_ROOM)
		atomic_fetch_add(&lost_stacks, 1);
	if (live_add(ptr, META(size, at)))
		return;
	atomic_fetch_add(&lost_live, 1);
	atomic_fetch_add(&lost_live_bytes, bytes);
	atomic_fetch_add(&stack->freed_parts, parts);
	atomic_fetch_add(&stack->freed_bytes, bytes);
}

void heap_sampler_allocated(const void *ptr, size_t size, const void *caller)
{
	struct heap_thread *thread = &heap_thread;
	uint32_t mean = atomic_load_explicit(&rate, memory_order_relaxed);
	int saved = errno;
	if (!ptr || thread->is_inside)
		return;
	if (!mean) {
		thread->distance = HEAP_IDLE_BYTES;
		return;
	}
	thread->is_inside = true;
	if (!thread->random) {
		seed(thread);
		thread->distance = draw_distance(thread, mean);
	}
	if (size < thread->distance) {
		thread->distance -= size;
	} else {
		if (size > 0)
			add_sample(ptr, size, caller);
		thread->distance = draw_distance(thread, mean);
	}
	thread->is_inside = false;
	errno = saved;
}

/* ---- for who asks ---- */

uint32_t heap_sampler_rate(void)
{
	return atomic_load(&rate);
}

bool heap_sampler_start(uint32_t rate_bytes)
{
	uint32_t none = 0;
	if (!heap_sampler_is_built_in())
		return false;
	atomic_compare_exchange_strong(&rate, &none, rate_bytes);
	return true;
}

/* What is freed was allocated before: read in this order, there is never more of it. */
bool heap_sampler_read(uint32_t index, struct heap_stack *ret)
{
	struct stack *stack = &stacks[index];
	uint64_t freed_parts = atomic_load(&stack->freed_parts), freed_bytes = atomic_load(&stack->freed_bytes);
	uint64_t allocated_parts = atomic_load(&stack->allocated_parts), allocated_bytes = atomic_load(&stack->allocated_bytes);
	uint64_t place = atomic_load(&stack->place);
	if (!allocated_parts || (index > 0 && !place))
		return false;
	bool has_frames = place && place != NO_ROOM;
	*ret = (struct heap_stack){.frames = has_frames ? frames + (place >> 8) : NULL,
				   .depth = has_frames ? (uint32_t)(place & 0xff) : 0,
				   .sums = {.allocated_objects = allocated_parts / PARTS,
					    .allocated_bytes = allocated_bytes,
					    .freed_objects = freed_parts / PARTS,
					    .freed_bytes = freed_bytes}};
	return true;
}

struct heap_losses heap_sampler_losses(void)
{
	return (struct heap_losses){atomic_load(&lost_stacks), atomic_load(&lost_live), atomic_load(&lost_live_bytes)};
}
