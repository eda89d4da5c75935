// SPDX-License-Identifier: Apache-2.0
/*
 * Slots and what is loaded.
 *
 * A slot goes through these states; only LOADED has a place in the heap:
 *
 *   ABSENT --load--> LOADED --evicted, or the last user gone--> ABSENT
 *   ABSENT --load--> FRAMES     no CFI, a damaged file, or a file that could not be had five times
 *   LIVE                        code that is made at run time; its table comes and goes (live_rules.c)
 *
 * What the programs see. They read state first, then table. Loading writes the image, then table, then state; unloading writes
 * state, then table, then gives the place back. So a reader holds either no place, or one that was good when it looked, which
 * the heap keeps for a while (agent/sample/heap.h). Ranges that were copied earlier may name a slot after its binary is gone:
 * it is ABSENT, and its number is given to no other binary before two ticks have passed.
 *
 * Room. What is evicted now is available only after the heap has settled twice. So a part of the heap is kept free: each tick
 * evicts what was used longest ago, once less than RESERVE_START of the heap is free. When a table still finds no room, tables
 * are evicted in that order, those of this tick and the last coming last, and the heap is settled with a pause in between. That
 * takes milliseconds; a machine whose code in use does not fit in the heap would do it for each load, so a tick allows it only
 * a few times. A table that cannot fit at all is not tried again for a while.
 *
 * Files share a slot if they have one key (elf/content_key.h), which stands for what is in them. A build-id would not do: files
 * are rewritten and keep it, and whoever makes one with the build-id of another could spoil stacks through that other.
 *
 * Rejected: a table's own copy for each process (memory), keys of device and inode (differ between overlay mounts of the same
 * image, which is where sharing pays most), and eviction by the kernel side's counts (an atomic for each frame).
 */
#include "agent/unwind/unwind_tables.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "base/cpu_budget.h"
#include "base/hash.h"
#include "base/io.h"
#include "base/map.h"
#include "base/order.h"
#include "base/time.h"
#include "elf/build_id.h"
#include "elf/content_key.h"

#define OPEN_TRIES	   5
#define TOO_LARGE_TICKS	   64
#define SLOT_TICKS	   2 /* before a released slot has another binary */
#define RECENT_TICKS	   1 /* used in this tick or the last */
#define ROOMS_PER_TICK	   8
#define SETTLE_NS	   (2 * NS_PER_MS)
#define STORE_NS	   (2 * NS_PER_MS) /* what is built faster is not worth a file */
#define RESERVE_START(all) ((all) / 16)
#define RESERVE_END(all)   ((all) / 8)
#define NO_SLOT		   UINT32_MAX
#define CODE_BURST_NS	   (NS_PER_S / 2)
#define CODE_PART	   500

struct binary {
	char *key;	 /* NULL: not shared */
	uint64_t try_at; /* tick */
	uint64_t free_at;
	uint32_t users;
	uint32_t place, bytes, rows; /* while LOADED */
	uint32_t next_free;
	uint8_t failures; /* opening the file */
	bool gave_up;
	bool is_live;
};

struct unwind_tables {
	struct heap *heap;
	struct unwind_slot *slots;
	uint32_t *clock;
	struct unwind_cache *cache;
	uint64_t ticks, seed;

	struct binary *binaries; /* by slot */
	size_t count, capacity;
	uint32_t free_first, free_last; /* the longest free first */
	struct map64 by_key;		/* hash of the key -> slot */

	uint64_t *candidates; /* age << 32 | slot */
	size_t candidate_capacity;
	unsigned rooms_left;
	int64_t settled_ns;
	struct cpu_budget code_budget; /* to go through code that no CFI speaks of */
	int64_t load_until_ns;	       /* 0 = no limit */
	struct unwind_tables_stats stats;
};

/* ---- states ---- */

static enum unwind_slot_state state_of(const struct unwind_tables *t, uint32_t slot)
{
	return __atomic_load_n(&t->slots[slot].state, __ATOMIC_RELAXED);
}

static void set_state(struct unwind_tables *t, uint32_t slot, enum unwind_slot_state state)
{
	__atomic_store_n(&t->slots[slot].state, (uint32_t)state, __ATOMIC_RELEASE);
}

static void publish(struct unwind_tables *t, uint32_t slot, uint32_t place, const struct buffer *image,
		    enum unwind_slot_state state)
{
	const struct unwind_table *table = (const void *)image->data;
	struct binary *binary = &t->binaries[slot];
	binary->place = place;
	binary->bytes = (uint32_t)image->len;
	binary->rows = table->row_count - 1;
	t->stats.loaded++;
	t->stats.bytes += binary->bytes;
	t->stats.rows += binary->rows;
	__atomic_store_n(&t->slots[slot].used, __atomic_load_n(t->clock, __ATOMIC_RELAXED), __ATOMIC_RELAXED);
	__atomic_store_n(&t->slots[slot].table, place, __ATOMIC_RELAXED);
	set_state(t, slot, state);
}

/* Forgets the table; the programs may read it for a moment yet. */
static void give_back(struct unwind_tables *t, struct binary *binary)
{
	if (!binary->place)
		return;
	heap_release(t->heap, binary->place, binary->bytes);
	t->stats.loaded--;
	t->stats.bytes -= binary->bytes;
	t->stats.rows -= binary->rows;
	binary->place = binary->bytes = binary->rows = 0;
}

static void unload(struct unwind_tables *t, uint32_t slot)
{
	struct binary *binary = &t->binaries[slot];
	set_state(t, slot, binary->is_live ? UNWIND_SLOT_LIVE : UNWIND_SLOT_ABSENT);
	__atomic_store_n(&t->slots[slot].table, 0, __ATOMIC_RELEASE);
	give_back(t, binary);
}

/* ---- slots ---- */

static uint64_t hash_of(const struct unwind_tables *t, const char *key)
{
	return hash64_seed(key, strlen(key), t->seed);
}

static uint32_t find_shared(const struct unwind_tables *t, const char *key)
{
	uint64_t slot;
	if (!map64_get(&t->by_key, hash_of(t, key), &slot) || strcmp(t->binaries[slot].key, key) != 0)
		return NO_SLOT;
	return (uint32_t)slot;
}

static uint32_t take_number(struct unwind_tables *t)
{
	uint32_t slot = t->free_first;
	if (slot != NO_SLOT && t->ticks >= t->binaries[slot].free_at) {
		t->free_first = t->binaries[slot].next_free;
		if (t->free_first == NO_SLOT)
			t->free_last = NO_SLOT;
		return slot;
	}
	if (array_reserve(&t->binaries, &t->capacity, t->count + 1, UNWIND_SLOTS_MAX) < 0)
		return NO_SLOT;
	return (uint32_t)t->count++;
}

static void give_number(struct unwind_tables *t, uint32_t slot, uint64_t free_at)
{
	t->binaries[slot] = (struct binary){.next_free = NO_SLOT, .free_at = free_at};
	if (t->free_last == NO_SLOT)
		t->free_first = slot;
	else
		t->binaries[t->free_last].next_free = slot;
	t->free_last = slot;
}

/* False when memory is short. A hash that another key has already is left alone: that binary is just not shared. */
static bool remember_key(struct unwind_tables *t, uint32_t slot, const char *key)
{
	uint64_t other;
	if (map64_get(&t->by_key, hash_of(t, key), &other))
		return true;
	char *copy = mem_strdup(key);
	if (!copy || map64_put(&t->by_key, hash_of(t, key), slot) < 0) {
		mem_free(copy);
		return false;
	}
	t->binaries[slot].key = copy;
	return true;
}

uint32_t unwind_tables_slot(struct unwind_tables *t, const char *key)
{
	bool is_shared = key && build_id_is_valid(key);
	uint32_t slot = is_shared ? find_shared(t, key) : NO_SLOT;
	if (slot != NO_SLOT) {
		struct binary *binary = &t->binaries[slot];
		binary->users++;
		/* Another process has the file perhaps where it can be opened. */
		if (binary->gave_up) {
			binary->gave_up = false;
			binary->failures = 0;
			set_state(t, slot, UNWIND_SLOT_ABSENT);
		}
		return slot;
	}
	slot = take_number(t);
	if (slot == NO_SLOT)
		return UNWIND_SLOT_JIT;
	t->binaries[slot] = (struct binary){.users = 1, .next_free = NO_SLOT};
	if (is_shared && !remember_key(t, slot, key)) {
		give_number(t, slot, t->ticks);
		return UNWIND_SLOT_JIT;
	}
	set_state(t, slot, UNWIND_SLOT_ABSENT);
	t->stats.slots++;
	return slot;
}

uint32_t unwind_tables_slot_live(struct unwind_tables *t)
{
	uint32_t slot = unwind_tables_slot(t, NULL);
	if (slot != UNWIND_SLOT_JIT) {
		t->binaries[slot].is_live = true;
		set_state(t, slot, UNWIND_SLOT_LIVE);
	}
	return slot;
}

bool unwind_tables_has(const struct unwind_tables *t, uint32_t slot)
{
	return slot < t->count && t->binaries[slot].place != 0;
}

void unwind_tables_release(struct unwind_tables *t, uint32_t slot)
{
	if (slot == UNWIND_SLOT_JIT || slot >= t->count || t->binaries[slot].users == 0)
		return;
	struct binary *binary = &t->binaries[slot];
	if (--binary->users > 0)
		return;
	binary->is_live = false;
	unload(t, slot);
	if (binary->key)
		map64_remove(&t->by_key, hash_of(t, binary->key));
	mem_free(binary->key);
	give_number(t, slot, t->ticks + SLOT_TICKS);
	t->stats.slots--;
}

/* ---- room ---- */

static int compare_oldest_first(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
	return ORDER(y, x);
}

/* Loaded tables that were used `age_min` ticks ago or longer, the oldest first. */
static size_t list_candidates(struct unwind_tables *t, uint32_t age_min)
{
	uint32_t now = __atomic_load_n(t->clock, __ATOMIC_RELAXED);
	size_t count = 0;
	if (array_reserve(&t->candidates, &t->candidate_capacity, t->stats.loaded, UNWIND_SLOTS_MAX) < 0)
		return 0;
	for (uint32_t slot = 1; slot < t->count; slot++) {
		uint32_t age = now - __atomic_load_n(&t->slots[slot].used, __ATOMIC_RELAXED);
		if (t->binaries[slot].place && age >= age_min)
			t->candidates[count++] = (uint64_t)age << 32 | slot;
	}
	qsort(t->candidates, count, sizeof(*t->candidates), compare_oldest_first);
	return count;
}

/* Evicts candidates from *at on until `bytes` of them are gone. */
static void evict(struct unwind_tables *t, size_t count, size_t *at, uint64_t bytes)
{
	for (uint64_t gone = 0; *at < count && gone < bytes; (*at)++) {
		uint32_t slot = (uint32_t)t->candidates[*at];
		gone += t->binaries[slot].bytes;
		unload(t, slot);
		t->stats.evicted++;
	}
}

static void settle(struct unwind_tables *t)
{
	int64_t since_ns = time_monotonic_ns() - t->settled_ns;
	if (since_ns < SETTLE_NS)
		time_sleep_ns(SETTLE_NS - since_ns);
	heap_settle(t->heap);
	t->settled_ns = time_monotonic_ns();
}

/* Twice as much is evicted in each round: what becomes free may lie in pieces. */
static uint32_t make_room(struct unwind_tables *t, uint32_t bytes)
{
	struct heap_stats heap;
	size_t at = 0, count = list_candidates(t, 0);
	heap_get_stats(t->heap, &heap);
	uint64_t available = heap.bytes - heap.used, wanted = bytes > available ? bytes - available : 0;
	for (;;) {
		evict(t, count, &at, wanted);
		settle(t);
		settle(t);
		uint32_t place = heap_allocate(t->heap, bytes);
		if (place || at == count)
			return place;
		wanted = wanted < bytes ? bytes : wanted * 2;
	}
}

static uint32_t allocate(struct unwind_tables *t, struct binary *binary, uint32_t bytes)
{
	uint32_t place = heap_allocate(t->heap, bytes);
	if (place)
		return place;
	struct heap_stats heap;
	heap_get_stats(t->heap, &heap);
	bool can_fit = bytes + HEAP_ALIGN <= heap.bytes - (heap.used - t->stats.bytes);
	if (can_fit && t->rooms_left == 0) {
		binary->try_at = t->ticks + 1;
		return 0;
	}
	if (can_fit) {
		t->rooms_left--;
		place = make_room(t, bytes);
	}
	if (!place) {
		t->stats.too_large++;
		binary->try_at = t->ticks + TOO_LARGE_TICKS;
	}
	return place;
}

static void keep_reserve(struct unwind_tables *t)
{
	struct heap_stats heap;
	heap_get_stats(t->heap, &heap);
	uint64_t available = heap.bytes - heap.used;
	if (available >= RESERVE_START(heap.bytes))
		return;
	size_t at = 0, count = list_candidates(t, RECENT_TICKS + 1);
	evict(t, count, &at, RESERVE_END(heap.bytes) - available);
}

/* ---- loading ---- */

/* What says that the file itself is to blame, and not the moment. */
static bool is_bad_file(int code)
{
	return code == -ENOEXEC || code == -ENOTSUP || code == -EBADMSG || code == -E2BIG || code == -EINVAL;
}

static int build(struct unwind_tables *t, int fd, const char *key, struct buffer *image)
{
	struct elf_file file;
	struct stat before, after;
	int64_t start_ns = time_monotonic_ns();
	if (fstat(fd, &before) < 0)
		return -errno;
	int r = elf_file_open(&file, fd, "a mapped file", NULL);
	if (r < 0)
		return r;
	struct unwind_table_stats stats;
	bool whole = cpu_budget_left(&t->code_budget, start_ns) > 0;
	int64_t cpu_ns = time_thread_cpu_ns();
	r = (whole ? unwind_table_build : unwind_table_build_listed)(&file, image, &stats, NULL);
	elf_file_release(&file);
	if (r < 0)
		return r;
	/* Written to meanwhile: the table is of no file that has the key. */
	if (fstat(fd, &after) < 0 || memcmp(&before.st_mtim, &after.st_mtim, sizeof(before.st_mtim)) != 0 ||
	    memcmp(&before.st_ctim, &after.st_ctim, sizeof(before.st_ctim)) != 0)
		return -ESTALE;
	if (whole && stats.code_bytes > 0)
		cpu_budget_use(&t->code_budget, time_thread_cpu_ns() - cpu_ns, time_monotonic_ns());
	uint64_t took_ns = (uint64_t)(time_monotonic_ns() - start_ns);
	t->stats.built++;
	t->stats.build_ns += took_ns;
	if (took_ns > t->stats.build_ns_max)
		t->stats.build_ns_max = took_ns;
	if (took_ns > STORE_NS && (whole || stats.code_bytes == 0))
		unwind_cache_store(t->cache, key, image);
	return 0;
}

static bool load_cached(struct unwind_tables *t, const char *key, struct buffer *image)
{
	if (unwind_cache_load(t->cache, key, image) != 1)
		return false;
	t->stats.cached++;
	return true;
}

static int get_image(struct unwind_tables *t, const struct binary *binary, unwind_open_function *open, void *context,
		     struct buffer *image)
{
	char key[CONTENT_KEY_HEX] = "";
	if (binary->key && load_cached(t, binary->key, image))
		return 0;
	_cleanup_(fd_closep) int fd = open(context, key);
	if (fd < 0)
		return fd;
	/* The file has been replaced. */
	if (binary->key && strcmp(key, binary->key) != 0)
		return -ESTALE;
	if (!binary->key && load_cached(t, key, image))
		return 0;
	return build(t, fd, key, image);
}

static enum unwind_slot_state note_failure(struct unwind_tables *t, uint32_t slot, int code)
{
	struct binary *binary = &t->binaries[slot];
	bool is_bad = is_bad_file(code);
	if (is_bad)
		t->stats.failed++;
	else if (++binary->failures >= OPEN_TRIES)
		binary->gave_up = true;
	if (is_bad || binary->gave_up)
		set_state(t, slot, UNWIND_SLOT_FRAMES);
	return state_of(t, slot);
}

enum unwind_slot_state unwind_tables_load(struct unwind_tables *t, uint32_t slot, unwind_open_function *open, void *context)
{
	if (slot == UNWIND_SLOT_JIT)
		return UNWIND_SLOT_LIVE;
	if (slot >= t->count || t->binaries[slot].users == 0)
		return UNWIND_SLOT_ABSENT;
	struct binary *binary = &t->binaries[slot];
	if (state_of(t, slot) != UNWIND_SLOT_ABSENT || t->ticks < binary->try_at)
		return state_of(t, slot);
	if (t->load_until_ns && time_monotonic_ns() > t->load_until_ns)
		return UNWIND_SLOT_ABSENT;
	_cleanup_(buffer_release) struct buffer image = {.max = UNWIND_TABLE_BYTES_MAX};
	int r = get_image(t, binary, open, context, &image);
	if (r < 0)
		return note_failure(t, slot, r);
	if (image.len == 0) {
		set_state(t, slot, UNWIND_SLOT_FRAMES);
		return UNWIND_SLOT_FRAMES;
	}
	uint32_t place = allocate(t, binary, (uint32_t)image.len);
	if (!place)
		return UNWIND_SLOT_ABSENT;
	if (heap_write(t->heap, place, image.data, (uint32_t)image.len, NULL) < 0) {
		heap_release(t->heap, place, (uint32_t)image.len);
		return note_failure(t, slot, -ENOMEM);
	}
	publish(t, slot, place, &image, UNWIND_SLOT_LOADED);
	return UNWIND_SLOT_LOADED;
}

int unwind_tables_put(struct unwind_tables *t, uint32_t slot, const struct buffer *image)
{
	if (slot >= t->count || !t->binaries[slot].is_live || image->len > UNWIND_TABLE_BYTES_MAX)
		return -EINVAL;
	struct binary *binary = &t->binaries[slot];
	if (image->len == 0) {
		unload(t, slot);
		return 0;
	}
	uint32_t place = t->ticks < binary->try_at ? 0 : allocate(t, binary, (uint32_t)image->len);
	if (!place)
		return -ENOSPC;
	int r = heap_write(t->heap, place, image->data, (uint32_t)image->len, NULL);
	if (r < 0) {
		heap_release(t->heap, place, (uint32_t)image->len);
		return r;
	}
	give_back(t, binary);
	publish(t, slot, place, image, UNWIND_SLOT_LIVE);
	return 0;
}

void unwind_tables_load_until(struct unwind_tables *t, int64_t until_ns)
{
	t->load_until_ns = until_ns;
}

void unwind_tables_tick(struct unwind_tables *t)
{
	t->ticks++;
	t->rooms_left = ROOMS_PER_TICK;
	__atomic_store_n(t->clock, *t->clock + 1, __ATOMIC_RELAXED);
	keep_reserve(t);
	settle(t);
}

void unwind_tables_get_stats(const struct unwind_tables *t, struct unwind_tables_stats *ret)
{
	*ret = t->stats;
}

/* ---- life ---- */

int unwind_tables_new(struct heap *heap, struct unwind_slot *slots, uint32_t *clock, struct unwind_cache *cache,
		      struct unwind_tables **ret, struct error *err)
{
	_cleanup_(unwind_tables_freep) struct unwind_tables *t = mem_zalloc(sizeof(*t));
	if (!t)
		return error_nomem(err);
	*t = (struct unwind_tables){.heap = heap, .slots = slots, .clock = clock, .cache = cache};
	t->code_budget = (struct cpu_budget){.burst_ns = CODE_BURST_NS, .part = CODE_PART};
	t->free_first = t->free_last = NO_SLOT;
	t->rooms_left = ROOMS_PER_TICK;
	if (getrandom(&t->seed, sizeof(t->seed), GRND_NONBLOCK) != sizeof(t->seed))
		t->seed = hash64_mix((uint64_t)time_monotonic_ns() ^ (uintptr_t)t);
	if (take_number(t) != UNWIND_SLOT_JIT)
		return error_nomem(err);
	t->binaries[UNWIND_SLOT_JIT] = (struct binary){.users = 1, .next_free = NO_SLOT};
	set_state(t, UNWIND_SLOT_JIT, UNWIND_SLOT_LIVE);
	*ret = TAKE(t);
	return 0;
}

struct unwind_tables *unwind_tables_free(struct unwind_tables *t)
{
	if (!t)
		return NULL;
	for (uint32_t slot = 1; slot < t->count; slot++) {
		unload(t, slot);
		mem_free(t->binaries[slot].key);
	}
	map64_release(&t->by_key);
	mem_free(t->binaries);
	mem_free(t->candidates);
	return mem_free(t);
}
