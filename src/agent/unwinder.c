// SPDX-License-Identifier: Apache-2.0
/*
 * The same walk as in the kernel (bpf/walk.h), over a copy of the stack, with everything that this side knows: the mappings of
 * the process at the time of the sample, and any table, which is loaded on the spot.
 *
 * Telling the kernel side. The mappings of a process lie in the heap as an array of ranges that belongs to the mapping list,
 * which processes that forked from each other share. An array is never changed: a changed list gets a new one, all sharers are
 * told, and the old one is released, to be used again two flushes later. Each state of mappings has a number of its own among
 * all processes (process->version), which samples carry back; one that differs from the number at the time of the sample marks
 * a walk by outdated mappings. The version makes every race between the two sides visible, however it came about. Such a walk
 * is as good as any up to the first frame that lies where the mappings have changed since (agent/process/changes.h).
 *
 * Where mappings take each other's place all the time (plugins that are loaded and unloaded), the kernel side would always be
 * told too late. So it is not told of a range that was replaced a moment ago, and for a minute of one that was replaced more
 * than once (mappings.c): a walk that gets there leaves a tail, and is finished here, where the mappings are known as they were
 * at that instant.
 */
#include "agent/unwinder.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "agent/expected.h"
#include "agent/live_unwinder.h"
#include "agent/proc.h"
#include "base/alloc.h"
#include "base/log.h"
#include "base/time.h"
#include "elf/build_id.h"

#define CACHE_BYTES_MAX	 (256ull << 20)
#define HEAP_MAPPED_KEEP (2u << 20)
#define HEAP_MAPPED_IDLE (1u << 20) /* after a flush */
#define OWN_HEAP_BYTES	 (32u << 20)
#define SETTLE_NS	 (100 * NS_PER_MS)
#define QUIET_MAX	 64 /* processes that are looked after; further ones stay quiet until their mappings change */
#define FRUITLESS_MAX	 8  /* drains in a row whose tails did not help */
#define QUIET_TICKS	 32 /* for so long none are sent then */
#define DENIED_TICKS	 1  /* ... where nobody could look at the code for lack of time */

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
static int peek(struct walk *walk, void *to, size_t bytes, uint64_t address);
static int map_address(struct walk *walk, uint64_t address);
struct unwind_rule;
static int find_live_rule(struct walk *walk, struct unwind_rule *ret);
#define WALK_HEAP16(place)		    heap_value(place, 2)
#define WALK_HEAP32(place)		    heap_value(place, 4)
#define WALK_HEAP64(place)		    heap_value(place, 8)
#define WALK_READ(walk, to, bytes, address) tail_read(walk, to, bytes, address)
#define WALK_PEEK(walk, to, bytes, address) peek(walk, to, bytes, address)
#define WALK_MAP(walk, address)		    map_address(walk, address)
#define WALK_LIVE(walk, rule)		    find_live_rule(walk, rule)
#define WALK_THREAD(walk, ret)		    ((void)(ret), UNWIND_STACK_CUT) /* the goroutine's stack is not in the copy either */
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
	struct live_unwinder live;
	struct runtimes runtimes;
	struct expected expected;
	struct unwind_slot *slots;
	struct unwind_slot *own_slots; /* without a kernel side; else NULL */
	uint32_t own_clock;
	uint64_t hash_seed;
	uint64_t ticks;
	int64_t settled_ns;
	pid_t quiet[QUIET_MAX];
	size_t quiet_count;
	bool counts_nothing;
	bool awaits_runtime; /* the process whose sample is completed */
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
	if (runtimes_init(&unwinder->runtimes, binaries) < 0)
		return error_nomem(err);
	live_unwinder_init(&unwinder->live, unwinder->tables, processes);
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
	runtimes_release(&unwinder->runtimes);
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
	uint64_t page = (address >> 12) - (tail->stack >> 12);
	bool is_full = tail->stack_bytes >= ABI_TAIL_BYTES - 7 || page >= ABI_TAIL_PAGES;
	return address < tail->stack || !is_full || (page < ABI_TAIL_PAGES && tail->absent >> page & 1) ? UNWIND_BAD_READ
													: UNWIND_STACK_CUT;
}

/* Of the copy, which leaves out pages; as many bytes as lie in one page. 0 if it does not have that one. */
static size_t copied_at(const struct abi_tail *tail, uint64_t address, const uint8_t **ret)
{
	uint64_t page = (address >> 12) - (tail->stack >> 12), offset = address - tail->stack;
	if (address < tail->stack || page >= ABI_TAIL_PAGES || tail->absent >> page & 1)
		return 0;
	uint64_t absent = tail->absent & ((1ull << page) - 1);
	offset -= 4096 * (uint64_t)__builtin_popcountll(absent) - (absent & 1 ? tail->stack & 4095 : 0);
	if (offset >= tail->stack_bytes)
		return 0;
	size_t left = tail->stack_bytes - offset, in_page = 4096 - (address & 4095);
	*ret = tail->data + offset;
	return left < in_page ? left : in_page;
}

/* Code does not change as stacks do, so it may be read now, if the process still lives. */
static int code_read(const struct process *process, void *to, size_t bytes, uint64_t address)
{
	if (!process_find_mapping(process, address) || process->exit_ns)
		return UNWIND_BAD_READ;
	return proc_read_memory(process->pid, address, to, bytes) == (ssize_t)bytes ? 0 : UNWIND_BAD_READ;
}

static int tail_read(struct walk *walk, void *to, size_t bytes, uint64_t address)
{
	const struct unwinder *unwinder = (const struct unwinder *)walk;
	const uint8_t *from;

	for (size_t done = 0; done < bytes;) {
		size_t len = copied_at(unwinder->tail, address + done, &from);
		if (!len)
			return code_read(unwinder->process, to, bytes, address) == 0 ? 0
										     : beyond(unwinder->tail, address + done);
		len = len < bytes - done ? len : bytes - done;
		memcpy((uint8_t *)to + done, from, len);
		done += len;
	}
	return 0;
}

/* What runtimes keep lies anywhere; it may have changed since the sample. */
static int peek(struct walk *walk, void *to, size_t bytes, uint64_t address)
{
	const struct process *process = ((const struct unwinder *)walk)->process;

	return !process->exit_ns && proc_read_memory(process->pid, address, to, bytes) == (ssize_t)bytes ? 0 : UNWIND_BAD_READ;
}

struct open_request {
	struct unwinder *unwinder;
	pid_t pid;
	const struct process_mapping *mapping;
};

/* Where it is not known which of several files of one build-id was mapped, none is taken. */
static int open_file(void *context, char *ret_key)
{
	const struct open_request *request = context;
	struct binaries *binaries = request->unwinder->binaries;
	const struct binary_file *file = binary_file_get(binaries, request->mapping->file);
	char build_id[BUILD_ID_HEX_MAX];
	struct contents_file content;

	_cleanup_(fd_closep) int fd =
		binary_open(binary_get(binaries, request->mapping->binary), request->pid, request->mapping, build_id);
	if (fd < 0)
		return fd;
	if (!file->content.key[0] && contents_of_build_id(&binaries->contents, build_id, &content) > 1)
		return -ESTALE;
	int r = contents_of_fd(&binaries->contents, fd, NULL, &content);
	if (r == 0)
		memcpy(ret_key, content.key, CONTENT_KEY_HEX);
	return r < 0 && r != -ENOEXEC ? r : fd_take(&fd);
}

static uint32_t slot_of(struct unwinder *unwinder, pid_t pid, struct process_mapping *mapping)
{
	const struct binary *binary = binary_get(unwinder->binaries, mapping->binary);

	if (binary_is_generated(binary, pid, mapping) || binary_identify(unwinder->binaries, pid, mapping) < 0)
		return UNWIND_SLOT_JIT;
	struct binary_file *file = binary_file_get(unwinder->binaries, mapping->file);
	if (!file->has_slot) {
		file->slot = unwind_tables_slot(unwinder->tables, file->content.key);
		file->has_slot = true;
	}
	return file->slot;
}

static int map_address(struct walk *walk, uint64_t address)
{
	struct unwinder *unwinder = (struct unwinder *)walk;
	struct process *process = unwinder->process;

	if (address >= walk->map.start && address < walk->map.end)
		return 0;
	struct process_mapping *mapping = mapping_list_find_item(process->maps, address);
	if (!mapping)
		return process->unknown ? UNWIND_NO_PROCESS : UNWIND_NO_MAPPING;
	uint32_t known = mapping->file, number = slot_of(unwinder, process->pid, mapping);
	if (known && known != mapping->file)
		process->maps->changed = true; /* the kernel side has another one */
	struct unwind_slot *slot = &unwinder->slots[number];
	if (slot->state == UNWIND_SLOT_ABSENT) {
		struct open_request request = {unwinder, process->pid, mapping};
		enum agent_cost before = cost_enter(unwinder->processes->meter, AGENT_COST_TABLES);
		unwind_tables_load(unwinder->tables, number, open_file, &request);
		cost_enter(unwinder->processes->meter, before);
	}
	walk->map.slot = number;
	walk_set_map(&walk->map, mapping->start, mapping->end, mapping->offset, slot->state, slot->table);
	return 0;
}

static int find_live_rule(struct walk *walk, struct unwind_rule *ret)
{
	struct unwinder *unwinder = (struct unwinder *)walk;

	*ret = live_unwinder_find(&unwinder->live, unwinder->process, walk->ip);
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

/* Where what is said of a runtime lies, 0 if there is none. */
static uint32_t place_of_runtime(const struct mapping_list *list, enum runtime_class class)
{
	uint32_t at = list->place + list->placed_count * (uint32_t)sizeof(struct unwind_range);
	for (enum runtime_class before = 0; before < class; before++)
		at += list->placed_runtimes[before];
	return list->placed_runtimes[class] ? at : 0;
}

/* What the kernel side is told of a runtime on the stack. 0 if there is none, or one that has more to be told. */
static size_t learn_stacked(const struct process *process, void *ret, size_t bytes_max)
{
	const struct mapping_list *list = process->maps;
	uint32_t place = list && list->place ? place_of_runtime(list, RUNTIME_STACKED) : 0;

	memset(ret, 0, bytes_max);
	if (!place || list->placed_runtimes[RUNTIME_STACKED] != bytes_max)
		return 0;
	for (size_t i = 0; i < bytes_max / 8; i++)
		((uint64_t *)ret)[i] = heap_value(place + i * 8, 8);
	return bytes_max;
}

static void learn_v8(const struct process *process, struct walk *walk)
{
	walk->v8_count = 0;
	learn_stacked(process, &walk->v8, sizeof(walk->v8));
	if (walk->v8.kind != RUNTIME_KIND_V8)
		walk->v8.kind = 0;
}

/* Puts the functions of the runtime on the stack that the frame which the walk has come to has behind it. */
static int meet(struct walk *walk)
{
	jvm_meet(walk);
	return beam_meet(walk);
}

static void learn_beam(const struct process *process, struct walk *walk)
{
	walk->beam_count = 0;
	learn_stacked(process, &walk->beam, sizeof(walk->beam));
	if (walk->beam.kind != RUNTIME_KIND_BEAM)
		walk->beam.kind = 0;
}

static void learn_jvm(const struct process *process, struct walk *walk)
{
	learn_stacked(process, &walk->jvm, sizeof(walk->jvm));
	if (walk->jvm.kind != RUNTIME_KIND_JVM)
		walk->jvm.high = 0;
	/* What is in the heap by now is not what was there when the stack was copied. */
	walk->jvm.enter_method = walk->jvm.yield_method = 0;
	walk->jvm_barrier = walk->jvm_notes = 0;
	walk->jvm_chunk_end = 0;
}

/* The frame that the kernel side has reached. WALK_GOES_ON, or the result that the walk ends with. */
static int meet_first(struct walk *walk)
{
	if (!walk->jvm.high && !walk->beam.kind)
		return WALK_GOES_ON;
	/* The kernel side may have put the functions of the frame that it had reached behind it already. */
	uint32_t depth = walk->depth;
	uint64_t hash = walk->hash, before = walk->hash_before;
	int r = meet(walk);
	if (depth < 3 || !(walk->frames[depth - 1] & RUNTIME_FRAME))
		return r;
	walk->depth = depth;
	walk->hash = hash;
	walk->hash_before = before;
	return r;
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
	walk->analysed = tail->analysed != 0;
	walk->chained = walk->guessed = walk->uncalled = 0;
	walk->switches = 0;
	walk->leaves = 0;
	walk->rbx_at = walk->go_callback = 0;
	walk->depth = tail->depth;
	size_t callers = tail->depth - 1;
	walk->hash_before = hash_callers(unwinder->hash_seed, (const uint64_t *)&walk->frames[1], callers ? callers - 1 : 0);
	walk->hash = callers ? walk_hash(walk->hash_before, walk->frames[callers]) : walk->hash_before;
	walk->map = (struct walk_map){0};
	walk->window_bytes = walk->frame_bytes = walk->has_frame = walk->v8_setup = 0;
	walk->frame_is_sure = walk->frame_guess = 0;
	learn_jvm(process, walk);
	learn_v8(process, walk);
	learn_beam(process, walk);
	walk->left_slot = UNWIND_SLOT_JIT;
	r = meet_first(walk);
	if (runtimes_place(&unwinder->runtimes, process->pid, process->maps, RUNTIME_LISTED, walk->listed_words) <= 0)
		memset(walk->listed_words, 0, sizeof(walk->listed_words)); /* what is pending stays so */
	if (walk->v8.kind)
		v8_look(walk);
	while (r == WALK_GOES_ON) {
		walk->listed_sp = walk->registers[UNWIND_REGISTER_SP];
		r = walk_step(walk);
		if (r == WALK_GOES_ON && walk->v8.kind) {
			v8_meet(walk);
			v8_look(walk);
		}
		if (r == WALK_GOES_ON)
			listed_meet(walk);
		/* Which functions a trace runs is seen by the kernel side only. */
		walk->listed_missed += walk->listed.kind == RUNTIME_KIND_LUAJIT && walk->map.state == UNWIND_SLOT_LIVE;
		while (walk->listed_appends == LISTED_APPENDS_PART)
			listed_go_on(walk);
		if (walk->listed_appends)
			r = UNWIND_TOO_DEEP;
		if (r == WALK_GOES_ON)
			r = meet(walk);
	}
	while (listed_append_pending(walk))
		;
	if (walk->listed_missed && UNWIND_IS_COMPLETE(r))
		r = UNWIND_TOO_DEEP;
	return (enum unwind_result)walk_result(walk, r);
}

static bool is_in_loop(const struct listed_process *listed, uint64_t pc)
{
	return (pc >= listed->loop_start && pc < listed->loop_end) || (pc >= listed->cold_start && pc < listed->cold_end);
}

/* A frame of an interpreter's loop in a process that the kernel side did not know runs functions that nobody has seen: one
 * without a name stands for them. Loops that are found by other things than their code are not marked. */
static void mark_unseen(struct unwinder *unwinder, struct process *process)
{
	struct walk *walk = &unwinder->walk;
	struct mapping_list *list = process->maps;
	const struct listed_process *listed = &walk->listed;
	uint64_t frames[UNWIND_FRAMES_MAX];
	uint32_t depth = walk->depth, count = 0, marks = 0;

	if (list && !list->place && !list->runtimes[RUNTIME_LISTED].file)
		runtimes_find(&unwinder->runtimes, process->pid, list);
	if (runtimes_place(&unwinder->runtimes, process->pid, list, RUNTIME_LISTED, walk->listed_words) <= 0 ||
	    listed->flags & LISTED_STATES)
		return;
	memcpy(frames, walk->frames, depth * sizeof(*frames));
	for (uint32_t i = 0; i < depth && count < UNWIND_FRAMES_MAX; i++) {
		walk->frames[count++] = frames[i];
		if (frames[i] & RUNTIME_FRAME || !is_in_loop(listed, ABI_FRAME_ADDRESS(frames[i]) - (i > 0)) ||
		    count + 2 > UNWIND_FRAMES_MAX)
			continue;
		walk->frames[count++] = RUNTIME_FRAME | (uint64_t)listed->kind << 56;
		walk->frames[count++] = RUNTIME_FRAME | RUNTIME_FRAME_DATA | RUNTIME_FRAME_ENTRY;
		marks++;
	}
	walk->depth = count;
	if (marks)
		walk->hash = hash_callers(unwinder->hash_seed, (const uint64_t *)&walk->frames[1], count - 1);
}

static bool is_sound(const struct abi_tail *tail)
{
	return tail->depth >= 1 && tail->depth <= UNWIND_FRAMES_MAX && tail->stack_bytes <= ABI_TAIL_BYTES;
}

/* Takes the frames of Python that the kernel side's walk did not come to off the end of a chain. Returns what is left. */
static size_t take_pending(struct walk *walk, const uint64_t *callers, size_t count)
{
	size_t first = count;

	while (first && (~callers[first - 1] & (RUNTIME_FRAME | RUNTIME_FRAME_DATA | RUNTIME_FRAME_PENDING)) == 0)
		first -= callers[first - 1] & RUNTIME_FRAME_ANCHOR || first < 2 ? 1 : 2;
	walk_without_runtimes(walk);
	for (size_t i = first; i < count; i++) {
		if (callers[i] & RUNTIME_FRAME_DATA && callers[i] & RUNTIME_FRAME_ANCHOR) {
			if (walk->listed_anchor_count < LISTED_ANCHORS_MAX)
				walk->listed_anchors[walk->listed_anchor_count++] =
					RUNTIME_OBJECT(callers[i]) & ~RUNTIME_FRAME_ANCHOR;
		} else if (i + 1 < count && walk->listed_count < LISTED_FRAMES_MAX) {
			walk->listed_frames[walk->listed_count][0] = callers[i];
			walk->listed_frames[walk->listed_count++][1] = callers[++i] & ~RUNTIME_FRAME_PENDING;
		}
	}
	return first;
}

enum unwind_result unwinder_walk(struct unwinder *unwinder, struct process *process, const struct abi_tail *tail,
				 uint64_t *ret_frames, size_t *ret_count)
{
	*ret_count = 0;
	if (!is_sound(tail))
		return UNWIND_NO_USER;
	memcpy(unwinder->walk.frames, ret_frames, tail->depth * sizeof(*ret_frames));
	walk_without_runtimes(&unwinder->walk);
	enum unwind_result result = go_on(unwinder, process, tail);
	*ret_count = unwinder->walk.depth;
	memcpy(ret_frames, unwinder->walk.frames, *ret_count * sizeof(*ret_frames));
	return result;
}

static void silence(struct unwinder *unwinder, struct process *process, uint64_t ticks)
{
	process->quiet_until = unwinder->ticks + ticks;
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

/* What could not be put into the kernel side's ranges because it had changed just before may be put there now. */
static void settle_ranges(struct process *process)
{
	struct mapping_list *list = process->maps;

	if (list && list->settles_ns && (uint64_t)time_monotonic_ns() >= list->settles_ns)
		list->changed = true;
}

/* After a tail: the process will be walked again. If what this side knows did not help either, then soon without tails. */
static void learn_from_tail(struct unwinder *unwinder, struct process *process, enum unwind_result result)
{
	bool denied = unwinder->live.denied;

	unwinder->live.denied = false;
	if (unwinder->awaits_runtime) {
		/* A virtual machine that is just being made: its code cannot be walked until it is known. */
	} else if (UNWIND_IS_CURABLE(result) || result == UNWIND_NO_RULE || denied) {
		/* What came of a tail shows after the drain: others of the same one were sent before. */
		bool counts = process->fruitless_drain != unwinder->live.drains && !unwinder->counts_nothing;
		process->fruitless_drain = unwinder->live.drains;
		process->fruitless += counts;
		if (counts && process->fruitless == FRUITLESS_MAX)
			silence(unwinder, process, denied ? DENIED_TICKS : QUIET_TICKS);
		if (process->fruitless > FRUITLESS_MAX)
			return; /* told already */
	} else {
		process->fruitless = 0;
	}
	process->wanted = true;
	settle_ranges(process);
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
	count = take_pending(&unwinder->walk, callers, count);
	if (count + 1 != tail->depth)
		return 0;
	unwinder->walk.frames[0] = sample->user_leaf;
	for (size_t i = 0; i < count; i++)
		unwinder->walk.frames[i + 1] = callers[i];
	enum unwind_result result = go_on(unwinder, process, tail);
	unwinder->stats.resumed++;
	if (sample->result == UNWIND_NO_PROCESS)
		mark_unseen(unwinder, process);
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
		count += UNWIND_IS_COMPLETE(i) || i == UNWIND_NO_USER ? 0 : results[i];
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
	if (sample->result >= UNWIND_RESULTS || unwinder->counts_nothing)
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

/* Leaves only the innermost `keep` of a sample's callers. */
static int cut_chain(struct unwinder *unwinder, struct abi_sample *sample, const uint64_t *callers, size_t keep,
		     struct chains *chains)
{
	uint64_t frames[UNWIND_FRAMES_MAX];

	sample->user_chain = 0;
	if (!keep)
		return 0;
	memcpy(frames, callers, keep * sizeof(*frames)); /* adding a chain may move the others */
	sample->user_chain = walk_hash_end(hash_callers(unwinder->hash_seed, frames, keep));
	return chains_put(chains, sample->user_chain, frames, keep);
}

static bool find_callers(const struct abi_sample *sample, const struct chains *chains, const uint64_t **ret, size_t *ret_count)
{
	*ret_count = 0;
	return sample->user_chain && chains_find(chains, sample->user_chain, ret, ret_count) && *ret_count <= UNWIND_FRAMES_MAX;
}

/* A frame that lies in no mapping is no frame: the walk was led astray, and this is where it was noticed. Frames of Python that
 * the walk did not come to go with it: nobody knows where they belong. */
static int drop_last(struct unwinder *unwinder, const struct process *process, struct abi_sample *sample, struct chains *chains)
{
	const uint64_t *callers = NULL;
	size_t count;

	if (!find_callers(sample, chains, &callers, &count))
		return 0;
	while (count && callers[count - 1] & RUNTIME_FRAME)
		count--;
	if (count == 0 || process_find_mapping(process, ABI_FRAME_ADDRESS(callers[count - 1]) - 1))
		return 0;
	return cut_chain(unwinder, sample, callers, count - 1, chains);
}

static bool is_in_doubt(const struct process *process, uint32_t version, uint64_t frame)
{
	return !(frame & RUNTIME_FRAME) && process_is_in_doubt(process, version, ABI_FRAME_ADDRESS(frame) - 1);
}

/* Takes away what a walk by outdated mappings may have got wrong: all callers of the first frame that lies where they differ
 * from those at the time of the sample. Where the kernel side did not know the mapping, it took no step from the last frame.
 * Positive if something was taken away. */
static int drop_doubtful(struct unwinder *unwinder, const struct process *process, struct abi_sample *sample,
			 struct chains *chains)
{
	const uint64_t *callers = NULL;
	size_t count, good = 0;

	bool found = find_callers(sample, chains, &callers, &count);
	size_t steps = count + !UNWIND_IS_CURABLE(sample->result); /* the first is from the leaf */
	if (sample->user_chain && !found)
		return 1; /* cannot be checked, nor shown */
	if (steps && process_is_in_doubt(process, sample->version, sample->user_leaf)) {
		sample->user_chain = 0;
		return 1;
	}
	while (good + 1 < steps && !is_in_doubt(process, sample->version, callers[good]))
		good++;
	if (good + 1 >= steps)
		return 0;
	int r = cut_chain(unwinder, sample, callers, good + 1, chains);
	return r < 0 ? r : 1;
}

/* The walk relied on mappings that were not, or not quite, those at the time of the sample. */
static int check_outdated(struct unwinder *unwinder, struct process *process, struct abi_sample *sample, struct chains *chains)
{
	int r = drop_doubtful(unwinder, process, sample, chains);

	if (r > 0)
		sample->result = UNWIND_STALE;
	process->wanted = true;
	process_table_changed(unwinder->processes, process);
	return r < 0 ? r : 0;
}

int unwinder_complete(struct unwinder *unwinder, struct process *process, struct abi_sample *sample,
		      const struct abi_tail *tail, struct chains *chains)
{
	int r = 0;

	if (sample->flags & ABI_SAMPLE_KERNEL_THREAD)
		return 0;
	live_unwinder_verify(&unwinder->live, process);
	unwinder->awaits_runtime = process->maps && process->maps->awaits_runtime;
	if (unwinder->awaits_runtime) {
		process->maps->awaits_runtime = false;
		process->maps->changed = true;
		process_table_changed(unwinder->processes, process);
	}
	if (sample->version && sample->version != process->version && sample->result != UNWIND_STALE)
		r = check_outdated(unwinder, process, sample, chains);
	if (r == 0 && sample->result != UNWIND_STALE && sample->flags & ABI_SAMPLE_TAIL && tail)
		r = resume(unwinder, process, sample, tail, chains);
	if (r == 0 && sample->result == UNWIND_NO_MAPPING)
		r = drop_last(unwinder, process, sample, chains);
	count_result(unwinder, process, sample);
	return r;
}

/* ---- telling the kernel side ---- */

/* Gives the list an array of ranges in the heap that says what the list says now, but for what is not settled. */
static int place_list(struct unwinder *unwinder, struct process *process, struct mapping_list *list)
{
	_cleanup_(mem_freep) struct unwind_range *ranges = mem_alloc_array(list->count, sizeof(*ranges));
	uint64_t now = (uint64_t)time_monotonic_ns(), settles_ns = 0;
	uint32_t count = 0;

	if (!ranges)
		return -ENOMEM;
	list->live_owner = 0;
	for (size_t i = 0; i < list->count; i++) {
		struct process_mapping *item = &list->items[i];
		uint64_t settled = item->settles_s * (uint64_t)NS_PER_S;
		if (item->start >> 63) /* [vsyscall]: the walk's search is for addresses below */
			continue;
		if (settled > now) {
			settles_ns = settles_ns && settles_ns < settled ? settles_ns : settled;
			continue;
		}
		uint32_t slot = slot_of(unwinder, process->pid, item);
		bool is_live = slot == UNWIND_SLOT_JIT;
		ranges[count++] = (struct unwind_range){
			.start = item->start,
			.end = item->end,
			.slot = is_live ? live_unwinder_slot(process, item->start, item->end) : slot,
			.file_page = is_live ? 0 : (uint32_t)(item->offset >> 12),
		};
	}
	uint64_t told[RUNTIME_CLASSES][RUNTIME_PLACE_BYTES_MAX / 8];
	uint32_t ranges_bytes = count * (uint32_t)sizeof(*ranges), bytes = ranges_bytes;
	runtimes_find(&unwinder->runtimes, process->pid, list);
	list->awaits_runtime = false;
	for (enum runtime_class class = 0; class < RUNTIME_CLASSES; class ++) {
		int said = runtimes_place(&unwinder->runtimes, process->pid, list, class, told[class]);
		list->awaits_runtime |= said == -EAGAIN || (said > 0 && unwinder->runtimes.lacks);
		list->placed_runtimes[class] = said > 0 ? (uint32_t)said : 0;
		bytes += list->placed_runtimes[class];
	}
	uint32_t place = heap_allocate(unwinder->heap, bytes), at = place + ranges_bytes;
	if (!place)
		return -ENOSPC;
	int r = heap_write(unwinder->heap, place, ranges, ranges_bytes, NULL);
	for (enum runtime_class class = 0; r == 0 && class < RUNTIME_CLASSES; class ++) {
		if (list->placed_runtimes[class])
			r = heap_write(unwinder->heap, at, told[class], list->placed_runtimes[class], NULL);
		at += list->placed_runtimes[class];
	}
	if (r < 0) {
		heap_release(unwinder->heap, place, bytes);
		return r;
	}
	mapping_list_leave_heap(list);
	list->heap = unwinder->heap;
	list->place = place;
	list->place_bytes = bytes;
	list->placed_count = count;
	list->settles_ns = settles_ns;
	list->changed = false;
	return 0;
}

/* Other processes that run the same program will have a runtime, too. */
static void note_program(struct unwinder *unwinder, const struct process *process)
{
	char path[64];
	struct stat status;

	if (!process->executable)
		return;
	binary_get(unwinder->binaries, process->executable)->has_runtime = true;
	snprintf(path, sizeof(path), "/proc/%d/exe", (int)process->pid);
	if (stat(path, &status) == 0)
		sampler_report_execs_of(unwinder->sampler, status.st_ino);
}

/* The kernel side has been told what was found of the runtimes of a process. */
static void note_runtimes(struct unwinder *unwinder, struct process *process)
{
	const struct mapping_list *list = process->maps;
	bool is_found = false;

	for (enum runtime_class class = 0; class < RUNTIME_CLASSES; class ++)
		is_found |= list->runtimes[class].file != 0;
	bool is_known = binary_get(unwinder->binaries, process->executable)->has_runtime;
	if (is_found && (!is_known || (!process->expects_runtime && !process->told))) /* nobody has told of its exec */
		note_program(unwinder, process);
	if (!process->expects_runtime || (is_found && !list->awaits_runtime))
		process->expects_runtime = false;
	else
		process->expects_runtime = expected_add(&unwinder->expected, process->pid, process->id,
							(int64_t)process->started_ns, time_monotonic_ns());
}

/* What was not there the last time may be there now. */
static void look_again(struct unwinder *unwinder)
{
	int64_t now = time_monotonic_ns();
	uint32_t id;
	pid_t pid;

	while (expected_take(&unwinder->expected, now, &pid, &id)) {
		struct process *process = process_table_find(unwinder->processes, pid);
		if (!process || process->id != id || !process->expects_runtime || process->exit_ns || !process->maps)
			continue;
		process->maps->changed = true;
		process_table_changed(unwinder->processes, process);
	}
}

int64_t unwinder_next_look_ns(const struct unwinder *unwinder)
{
	return expected_next_ns(&unwinder->expected);
}

static void update_kernel(struct unwinder *unwinder, struct process *process)
{
	struct mapping_list *list = process->maps;
	int r = 0;

	process->changed = false;
	if (process->live)
		live_unwinder_publish(&unwinder->live, process);
	if (!unwinder->sampler)
		return;
	if ((!process->wanted && !process->told && !process->expects_runtime) || process->exit_ns || process->unknown ||
	    !list || !list->count)
		return;
	if (!list->place || list->changed)
		r = place_list(unwinder, process, list);
	if (r == 0)
		note_runtimes(unwinder, process);
	if (r == 0) {
		struct unwind_process told = {
			.ranges = list->place,
			.count = list->placed_count,
			.version = process->version,
			.listed = place_of_runtime(list, RUNTIME_LISTED),
			.stacked = place_of_runtime(list, RUNTIME_STACKED),
			.flags = process->quiet_until > unwinder->ticks ? UNWIND_PROCESS_QUIET : 0,
		};
		r = sampler_set_process(unwinder->sampler, process->pid, &told);
		list->placed_ns = (uint64_t)time_monotonic_ns(); /* what forks from now on inherits this */
	}
	unwinder->stats.process_updates += r == 0;
	unwinder->stats.process_update_failures += r < 0;
	if (r < 0 && process->told)
		sampler_forget_process(unwinder->sampler, process->pid);
	process->told = r == 0;
	process->told_ns = (uint64_t)time_monotonic_ns();
	if (r < 0 || process->told_version == process->version)
		return;
	/* Samples by what was known before this drain are still to come. */
	process->settled_version = process->told_version;
	process->told_version = process->version;
}

struct runtimes *unwinder_runtimes(struct unwinder *unwinder)
{
	return &unwinder->runtimes;
}

void unwinder_warm_up(struct unwinder *unwinder, int64_t until_ns)
{
	unwinder->counts_nothing = until_ns != 0;
	unwind_tables_load_until(unwinder->tables, until_ns);
}

void unwinder_update(struct unwinder *unwinder)
{
	struct process_table *table = unwinder->processes;
	int64_t now = time_monotonic_ns();

	look_again(unwinder);
	for (size_t i = 0; i < table->changed_count; i++) {
		struct process *process = process_table_find(table, table->changed[i]);
		if (process && process->changed)
			update_kernel(unwinder, process);
	}
	table->changed_count = 0;
	unwinder->live.drains++;
	if (unwinder->sampler)
		sampler_allow_tails(unwinder->sampler);
	/* Released memory waits for two of these. That covers a process that inherited it in the moment before: its fork is
	 * read by the next drain, and it gets the new place. */
	if (now - unwinder->settled_ns >= SETTLE_NS) {
		heap_settle(unwinder->heap);
		unwinder->settled_ns = now;
	}
	heap_trim(unwinder->heap, HEAP_MAPPED_KEEP);
}

void unwinder_tick(struct unwinder *unwinder)
{
	unwinder->ticks++;
	heap_trim(unwinder->heap, HEAP_MAPPED_IDLE);
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
	ret->live_rules = unwinder->live.budget.rows;
	ret->live_pieces = unwinder->live.budget.found;
	ret->live_dropped = unwinder->live.budget.dropped;
	for (size_t kind = 0; kind < RUNTIME_KINDS; kind++) {
		const struct runtime_counts *counts = &unwinder->runtimes.counts[kind];
		ret->runtimes[kind].names = counts->read;
		ret->runtimes[kind].names_lost = counts->lost + counts->nonsense;
	}
	ret->heap_bytes = heap.bytes;
	ret->heap_used = heap.used;
}
