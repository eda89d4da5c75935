// SPDX-License-Identifier: Apache-2.0
/*
 * The same walk as in the kernel (bpf/walk.h), over a copy of the stack, with everything that this side knows: the mappings of
 * the process at the time of the sample, and any table, which is loaded on the spot.
 *
 * Telling the kernel side. The mappings of a process lie in the heap as an array of ranges that belongs to the mapping list,
 * which processes that forked from each other share. An array is never changed: a changed list gets a new one, all sharers are
 * told, and the old one is released, to be used again two flushes later. Each state of mappings has a number of its own among
 * all processes (process->version), which samples carry back; one that differs from the number at the time of the sample marks
 * a walk by outdated mappings. The version makes every race between the two sides visible, however it came about.
 */
#include "agent/unwinder.h"

#include <errno.h>
#include <string.h>
#include <sys/uio.h>

#include "base/alloc.h"
#include "base/log.h"
#include "base/time.h"
#include "elf/build_id.h"

#define CACHE_BYTES_MAX	 (256ull << 20)
#define HEAP_MAPPED_KEEP (1u << 20)
#define OWN_HEAP_BYTES	 (32u << 20)
#define SETTLE_NS	 (100 * NS_PER_MS)
#define QUIET_MAX	 64 /* processes that are looked after; further ones stay quiet until their mappings change */
#define FRUITLESS_MAX	 8  /* tails in a row that did not help */
#define QUIET_TICKS	 32 /* for so long none are sent then */

static _Thread_local struct heap *walk_heap;

static uint64_t heap_value(uint64_t place, unsigned bytes)
{
	const uint8_t *at = place <= UINT32_MAX ? heap_at(walk_heap, (uint32_t)place) : NULL;
	uint64_t value = 0;

	if (at)
		memcpy(&value, at, bytes);
	return value;
}

struct walk;
static int tail_read(struct walk *walk, void *to, size_t bytes, uint64_t address);
static int map_address(struct walk *walk, uint64_t address);
#define WALK_HEAP16(place)		    heap_value(place, 2)
#define WALK_HEAP32(place)		    heap_value(place, 4)
#define WALK_HEAP64(place)		    heap_value(place, 8)
#define WALK_HEAP128(place, halves)	    ((halves)[0] = heap_value(place, 8), (halves)[1] = heap_value((place) + 8, 8))
#define WALK_READ(walk, to, bytes, address) tail_read(walk, to, bytes, address)
#define WALK_MAP(walk, address)		    map_address(walk, address)
#define WALK_KNOWS_ALL			    1
#define WALK_ESCAPE(escapes, count, row)    walk_escape(escapes, count, row)
#define WALK_RULE(walk, address)	    walk_find_rule(&(walk)->map, address)
#undef __always_inline
#define __always_inline inline __attribute__((always_inline))
#include "bpf/walk.h"

struct unwinder {
	struct walk walk; /* first: a walk is cast to its unwinder */
	/* Of the walk. */
	struct process *process;
	const struct abi_tail *tail;

	struct sampler *sampler;
	struct binaries *binaries;
	struct process_table *processes;
	struct heap *heap;
	struct unwind_cache *cache;
	struct unwind_tables *tables;
	struct unwind_slot *slots;
	struct unwind_slot *own_slots; /* without a kernel side; else NULL */
	uint32_t own_clock;
	uint64_t hash_seed;
	uint64_t ticks;
	int64_t settled_ns;
	pid_t quiet[QUIET_MAX];
	size_t quiet_count;
	struct agent_unwind_stats stats;
	uint32_t worst_ids[AGENT_WORST_PROCESSES]; /* process.id of stats.worst */
};

int unwinder_new(struct sampler *sampler, struct binaries *binaries, struct process_table *processes,
		 const char *cache_directory, struct unwinder **ret, struct error *err)
{
	_cleanup_(unwinder_freep) struct unwinder *unwinder = mem_zalloc(sizeof(*unwinder));
	struct sampler_shared shared = {.heap_fd = -1, .heap_bytes = OWN_HEAP_BYTES};
	struct error why = {0};

	if (!unwinder)
		return error_nomem(err);
	if (sampler) {
		sampler_get_shared(sampler, &shared);
	} else {
		unwinder->own_slots = mem_zalloc_array(UNWIND_SLOTS_MAX, sizeof(*unwinder->own_slots));
		if (!unwinder->own_slots)
			return error_nomem(err);
		shared.slots = unwinder->own_slots;
		shared.unwind_clock = &unwinder->own_clock;
		unwinder->own_clock = 1;
	}
	unwinder->sampler = sampler;
	unwinder->binaries = binaries;
	unwinder->processes = processes;
	unwinder->slots = shared.slots;
	unwinder->hash_seed = shared.hash_seed;
	if (cache_directory && unwind_cache_open(cache_directory, CACHE_BYTES_MAX, &unwinder->cache, &why) < 0)
		log_warn("unwind tables are not cached between runs: %s", why.message);
	int r = heap_new(shared.heap_fd, shared.heap_bytes, shared.heap_reuses, &unwinder->heap, err);
	if (r == 0)
		r = unwind_tables_new(unwinder->heap, shared.slots, shared.unwind_clock, unwinder->cache, &unwinder->tables,
				      err);
	if (r < 0)
		return r;
	binaries->tables = unwinder->tables;
	processes->heap = unwinder->heap;
	processes->sampler = sampler;
	*ret = TAKE(unwinder);
	return 0;
}

struct unwinder *unwinder_free(struct unwinder *unwinder)
{
	if (!unwinder)
		return NULL;
	if (unwinder->binaries)
		unwinder->binaries->tables = NULL;
	if (unwinder->processes)
		process_table_leave_heap(unwinder->processes);
	unwind_tables_free(unwinder->tables);
	unwind_cache_close(unwinder->cache);
	heap_free(unwinder->heap);
	mem_free(unwinder->own_slots);
	return mem_free(unwinder);
}

/* ---- what a walk asks for ---- */

/* What a read outside of the copy means. */
static int beyond(const struct abi_tail *tail, uint64_t address)
{
	return address < tail->stack || tail->stack_bytes < ABI_TAIL_BYTES ? UNWIND_BAD_READ : UNWIND_STACK_CUT;
}

/* Code does not change as stacks do, so it may be read now, if the process still lives. */
static int code_read(const struct process *process, void *to, size_t bytes, uint64_t address)
{
	struct iovec ours = {to, bytes}, theirs = {(void *)(uintptr_t)address, bytes};

	if (!process_find_mapping(process, address) || process->exit_ns)
		return UNWIND_BAD_READ;
	return process_vm_readv(process->pid, &ours, 1, &theirs, 1, 0) == (ssize_t)bytes ? 0 : UNWIND_BAD_READ;
}

static int tail_read(struct walk *walk, void *to, size_t bytes, uint64_t address)
{
	const struct unwinder *unwinder = (const struct unwinder *)walk;
	const struct abi_tail *tail = unwinder->tail;

	if (address < tail->stack || address - tail->stack > ABI_TAIL_BYTES)
		return code_read(unwinder->process, to, bytes, address) == 0 ? 0 : beyond(tail, address);
	if (address - tail->stack > tail->stack_bytes || tail->stack_bytes - (address - tail->stack) < bytes)
		return beyond(tail, address);
	memcpy(to, tail->data + (address - tail->stack), bytes);
	return 0;
}

struct open_request {
	const struct binary *binary;
	pid_t pid;
	const struct process_mapping *mapping;
};

static int open_file(void *context, char *ret_build_id)
{
	const struct open_request *request = context;
	return binary_open(request->binary, request->pid, request->mapping, ret_build_id);
}

/* Tables are shared by build-id, so it is learned before the slot is given, where the kernel did not say it. */
static void learn_build_id(struct binary *binary, pid_t pid, const struct process_mapping *mapping)
{
	char build_id[BUILD_ID_HEX_MAX];

	if (binary->build_id || binary->tries_build_id)
		return;
	binary->tries_build_id = true;
	int fd = binary_open(binary, pid, mapping, build_id);
	if (fd < 0)
		return;
	fd_closep(&fd);
	binary->build_id = mem_strdup(build_id);
}

static uint32_t slot_of(struct unwinder *unwinder, uint32_t id, pid_t pid, const struct process_mapping *mapping)
{
	struct binary *binary = binary_get(unwinder->binaries, id);

	if (!binary->has_slot && binary->kind != BINARY_JIT) {
		learn_build_id(binary, pid, mapping);
		binary->slot = unwind_tables_slot(unwinder->tables, binary->build_id);
		binary->has_slot = true;
	}
	return binary->kind == BINARY_JIT ? UNWIND_SLOT_JIT : binary->slot;
}

static int map_address(struct walk *walk, uint64_t address)
{
	struct unwinder *unwinder = (struct unwinder *)walk;
	struct process *process = unwinder->process;
	const struct process_mapping *mapping;

	if (address >= walk->map.start && address < walk->map.end)
		return 0;
	mapping = process_find_mapping(process, address);
	if (!mapping)
		return process->unknown ? UNWIND_NO_PROCESS : UNWIND_NO_MAPPING;
	uint32_t number = slot_of(unwinder, mapping->binary, process->pid, mapping);
	struct unwind_slot *slot = &unwinder->slots[number];
	if (slot->state == UNWIND_SLOT_ABSENT) {
		struct open_request request = {binary_get(unwinder->binaries, mapping->binary), process->pid, mapping};
		unwind_tables_load(unwinder->tables, number, open_file, &request);
	}
	walk_set_map(&walk->map, mapping->start, mapping->end, mapping->offset, slot->state, slot->table);
	return 0;
}

/* ---- samples ---- */

/* As the sampling program hashes callers; walk_hash_end() is left to be done. */
static uint64_t hash_callers(uint64_t seed, const uint64_t *callers, size_t count)
{
	uint64_t hash = seed;

	for (size_t i = 0; i < count; i++)
		hash = walk_hash(hash, callers[i]);
	return hash;
}

/* From the tail on; walk->frames holds the frames before it. */
static enum unwind_result go_on(struct unwinder *unwinder, struct process *process, const struct abi_tail *tail)
{
	struct walk *walk = &unwinder->walk;
	int r;

	unwinder->process = process;
	unwinder->tail = tail;
	walk_heap = unwinder->heap;
	walk->ip = tail->ip;
	for (size_t i = 0; i < UNWIND_REGISTERS; i++)
		walk->registers[i] = tail->registers[i];
	walk->known = tail->known;
	walk->is_return = tail->is_return != 0;
	walk->by_frames = 0;
	walk->chained = 0;
	walk->depth = tail->depth;
	walk->hash = hash_callers(unwinder->hash_seed, (const uint64_t *)&walk->frames[1], tail->depth - 1);
	walk->map = (struct walk_map){0};
	walk->window_bytes = 0;
	do
		r = walk_step(walk);
	while (r == WALK_GOES_ON);
	return (enum unwind_result)r;
}

static bool is_sound(const struct abi_tail *tail)
{
	return tail->depth >= 1 && tail->depth <= UNWIND_FRAMES_MAX && tail->stack_bytes <= ABI_TAIL_BYTES;
}

enum unwind_result unwinder_walk(struct unwinder *unwinder, struct process *process, const struct abi_tail *tail,
				 uint64_t *ret_frames, size_t *ret_count)
{
	*ret_count = 0;
	if (!is_sound(tail))
		return UNWIND_NO_USER;
	memcpy(unwinder->walk.frames, ret_frames, tail->depth * sizeof(*ret_frames));
	enum unwind_result result = go_on(unwinder, process, tail);
	*ret_count = unwinder->walk.depth;
	memcpy(ret_frames, unwinder->walk.frames, *ret_count * sizeof(*ret_frames));
	return result;
}

static void silence(struct unwinder *unwinder, struct process *process)
{
	process->quiet_until = unwinder->ticks + QUIET_TICKS;
	if (unwinder->quiet_count < QUIET_MAX)
		unwinder->quiet[unwinder->quiet_count++] = process->pid;
}

/* Those whose time is over may try again. */
static void end_silence(struct unwinder *unwinder)
{
	for (size_t i = 0; i < unwinder->quiet_count;) {
		struct process *process = process_table_find(unwinder->processes, unwinder->quiet[i]);
		if (process && process->quiet_until > unwinder->ticks) {
			i++;
			continue;
		}
		if (process) {
			process->fruitless = 0;
			process_table_changed(unwinder->processes, process);
		}
		unwinder->quiet[i] = unwinder->quiet[--unwinder->quiet_count];
	}
}

/* After a tail: the process will be walked again. If what this side knows did not help either, then soon without tails. */
static void learn_from_tail(struct unwinder *unwinder, struct process *process, enum unwind_result result)
{
	if (UNWIND_IS_CURABLE(result) || result == UNWIND_NO_RULE) {
		if (++process->fruitless == FRUITLESS_MAX)
			silence(unwinder, process);
		if (process->fruitless > FRUITLESS_MAX)
			return; /* told already */
	} else {
		process->fruitless = 0;
	}
	process->wanted = true;
	process_table_changed(unwinder->processes, process);
}

static int resume(struct unwinder *unwinder, struct process *process, struct abi_sample *sample, const struct abi_tail *tail,
		  struct chains *chains)
{
	const uint64_t *callers = NULL;
	size_t count = 0;

	if (!is_sound(tail))
		return 0;
	if (sample->user_chain && !chains_find(chains, sample->user_chain, &callers, &count))
		return 0;
	if (count + 1 != tail->depth)
		return 0;
	unwinder->walk.frames[0] = sample->user_leaf;
	for (size_t i = 0; i < count; i++)
		unwinder->walk.frames[i + 1] = callers[i];
	enum unwind_result result = go_on(unwinder, process, tail);
	unwinder->stats.resumed++;
	sample->result = (__u8)result;
	if (unwinder->walk.by_frames)
		sample->flags |= ABI_SAMPLE_BY_FRAMES;
	learn_from_tail(unwinder, process, result);
	if (unwinder->walk.depth == tail->depth)
		return 0;
	sample->user_chain = walk_hash_end(unwinder->walk.hash);
	return chains_put(chains, sample->user_chain, (const uint64_t *)&unwinder->walk.frames[1], unwinder->walk.depth - 1);
}

static uint64_t incomplete_of(const uint32_t *results)
{
	uint64_t count = 0;

	for (size_t i = 0; i < UNWIND_RESULTS; i++)
		count += i == UNWIND_COMPLETE || i == UNWIND_NO_USER ? 0 : results[i];
	return count;
}

/* Keeps the list of processes that are worst off: an entry is its process's own, or that of the least bad one. */
static void note_worst(struct unwinder *unwinder, const struct process *process)
{
	struct agent_process_walks *worst = unwinder->stats.worst, *least = &worst[0];
	size_t at = 0;

	for (size_t i = 0; i < AGENT_WORST_PROCESSES; i++) {
		if (unwinder->worst_ids[i] == process->id && worst[i].pid) {
			least = &worst[i];
			at = i;
			break;
		}
		if (incomplete_of(worst[i].results) < incomplete_of(least->results)) {
			least = &worst[i];
			at = i;
		}
	}
	if (incomplete_of(process->results) <= (unwinder->worst_ids[at] == process->id ? 0 : incomplete_of(least->results)))
		return;
	unwinder->worst_ids[at] = process->id;
	least->pid = process->pid;
	memcpy(least->comm, process->comm, sizeof(least->comm));
	memcpy(least->results, process->results, sizeof(least->results));
}

static void count_result(struct unwinder *unwinder, struct process *process, const struct abi_sample *sample)
{
	if (sample->result >= UNWIND_RESULTS)
		return;
	unwinder->stats.results[sample->result]++;
	unwinder->stats.by_frames += (sample->flags & ABI_SAMPLE_BY_FRAMES) != 0;
	if (!process->results)
		process->results = mem_zalloc_array(UNWIND_RESULTS, sizeof(*process->results));
	if (!process->results)
		return;
	process->results[sample->result]++;
	note_worst(unwinder, process);
}

/* A frame that lies in no mapping is no frame: the walk was led astray, and this is where it was noticed. */
static int drop_last(const struct process *process, struct abi_sample *sample, uint64_t hash_seed, struct chains *chains)
{
	uint64_t frames[UNWIND_FRAMES_MAX];
	const uint64_t *callers = NULL;
	size_t count = 0;

	if (!sample->user_chain || !chains_find(chains, sample->user_chain, &callers, &count) || count == 0 ||
	    count > UNWIND_FRAMES_MAX || process_find_mapping(process, callers[count - 1] - 1))
		return 0;
	count--; /* copied, since adding a chain may move the others */
	memcpy(frames, callers, count * sizeof(*frames));
	sample->user_chain = count ? walk_hash_end(hash_callers(hash_seed, frames, count)) : 0;
	return count ? chains_put(chains, sample->user_chain, frames, count) : 0;
}

int unwinder_complete(struct unwinder *unwinder, struct process *process, struct abi_sample *sample,
		      const struct abi_tail *tail, struct chains *chains)
{
	int r = 0;

	if (sample->flags & ABI_SAMPLE_KERNEL_THREAD)
		return 0;
	if (sample->version && sample->version != process->version) {
		sample->result = UNWIND_STALE;
		process->wanted = true;
		process_table_changed(unwinder->processes, process);
	} else if (sample->flags & ABI_SAMPLE_TAIL && tail) {
		r = resume(unwinder, process, sample, tail, chains);
	}
	if (r == 0 && sample->result == UNWIND_NO_MAPPING)
		r = drop_last(process, sample, unwinder->hash_seed, chains);
	count_result(unwinder, process, sample);
	return r;
}

/* ---- telling the kernel side ---- */

/* Gives the list an array of ranges in the heap that says what the list says now. */
static int place_list(struct unwinder *unwinder, struct process *process, struct mapping_list *list)
{
	uint32_t bytes = (uint32_t)(list->count * sizeof(struct unwind_range));
	_cleanup_(mem_freep) struct unwind_range *ranges = mem_alloc_array(list->count, sizeof(*ranges));

	if (!ranges)
		return -ENOMEM;
	for (size_t i = 0; i < list->count; i++) {
		const struct process_mapping *item = &list->items[i];
		ranges[i] = (struct unwind_range){
			.start = item->start,
			.end = item->end,
			.slot = slot_of(unwinder, item->binary, process->pid, item),
			.file_page = (uint32_t)(item->offset >> 12),
		};
	}
	uint32_t place = heap_allocate(unwinder->heap, bytes);
	if (!place)
		return -ENOSPC;
	int r = heap_write(unwinder->heap, place, ranges, bytes, NULL);
	if (r < 0) {
		heap_release(unwinder->heap, place, bytes);
		return r;
	}
	mapping_list_leave_heap(list);
	list->heap = unwinder->heap;
	list->place = place;
	list->place_bytes = bytes;
	list->placed_ns = (uint64_t)time_monotonic_ns();
	list->changed = false;
	return 0;
}

static void update_kernel(struct unwinder *unwinder, struct process *process)
{
	struct mapping_list *list = process->maps;
	int r = 0;

	process->changed = false;
	if (!unwinder->sampler)
		return;
	if ((!process->wanted && !process->told) || process->exit_ns || process->unknown || !list || !list->count)
		return;
	if (!list->place || list->changed)
		r = place_list(unwinder, process, list);
	if (r == 0) {
		struct unwind_process told = {
			.ranges = list->place,
			.count = (__u32)list->count,
			.version = process->version,
			.flags = process->quiet_until > unwinder->ticks ? UNWIND_PROCESS_QUIET : 0,
		};
		r = sampler_set_process(unwinder->sampler, process->pid, &told);
	}
	unwinder->stats.process_updates += r == 0;
	unwinder->stats.process_update_failures += r < 0;
	if (r < 0 && process->told)
		sampler_forget_process(unwinder->sampler, process->pid);
	process->told = r == 0;
}

void unwinder_update(struct unwinder *unwinder)
{
	struct process_table *table = unwinder->processes;
	int64_t now = time_monotonic_ns();

	for (size_t i = 0; i < table->changed_count; i++) {
		struct process *process = process_table_find(table, table->changed[i]);
		if (process && process->changed)
			update_kernel(unwinder, process);
	}
	table->changed_count = 0;
	if (unwinder->sampler)
		sampler_allow_tails(unwinder->sampler);
	/* Released memory waits for two of these. That covers a process that inherited it in the moment before: its fork is
	 * read by the next drain, and it is told the new place. */
	if (now - unwinder->settled_ns >= SETTLE_NS) {
		heap_settle(unwinder->heap);
		unwinder->settled_ns = now;
	}
	heap_trim(unwinder->heap, HEAP_MAPPED_KEEP);
}

void unwinder_tick(struct unwinder *unwinder)
{
	unwinder->ticks++;
	end_silence(unwinder);
	unwind_tables_tick(unwinder->tables);
}

void unwinder_get_stats(const struct unwinder *unwinder, struct agent_unwind_stats *ret)
{
	struct unwind_tables_stats tables;
	struct heap_stats heap;

	unwind_tables_get_stats(unwinder->tables, &tables);
	heap_get_stats(unwinder->heap, &heap);
	*ret = unwinder->stats;
	ret->tables = tables.loaded;
	ret->table_bytes = tables.bytes;
	ret->table_rows = tables.rows;
	ret->built = tables.built;
	ret->cached = tables.cached;
	ret->evicted = tables.evicted;
	ret->failed = tables.failed;
	ret->too_large = tables.too_large;
	ret->build_ns = tables.build_ns;
	ret->build_ns_max = tables.build_ns_max;
	ret->heap_bytes = heap.bytes;
	ret->heap_used = heap.used;
}
