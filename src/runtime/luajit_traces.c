// SPDX-License-Identifier: Apache-2.0
/*
 * Traces of LuaJIT in another process, and which functions a place in their code is in. A trace has snapshots, from which the
 * interpreter's stack is made when the trace is left; each has the place in the code from which on it holds:
 *
 *   trace -> snapshots {map, place}; map: { slot, reference }... instruction
 *   trace -> constants {type, value}, by reference
 *
 * The instruction is that of the innermost function. Slots that are frames have their link (bpf/luajit.h) as a constant, from
 * which the functions are found as from the stack itself, but for which function an instruction belongs to: that is one of
 * those that the constants have, or the one that the trace has begun in.
 *
 * Nothing is believed: all of it may be thrown away, and made anew, while it is read.
 */
#include "runtime/luajit.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/order.h"

#define TYPE_TRACE	    9u
#define TYPE_PROTOTYPE	    7u
#define TYPE_FUNCTION	    8u
#define SNAPSHOT_BYTES	    12u
#define SNAPSHOTS_MAX	    4096u
#define ENTRIES_MAX	    255u
#define CONSTANTS_END	    0x8000u /* the first reference that is no constant */
#define CONSTANTS_MAX	    8192u
#define CODE_BYTES_MAX	    (16u << 20)
#define PROTOTYPES_MAX	    64u
#define ENTRY_FRAME	    0x10000u /* of an entry of a map; its slot is in the upper 8 bits, its reference in the lower 16 */
#define ENTRY_SLOT(entry)   ((entry) >> 24)
#define CONSTANT_TYPE(word) ((uint32_t)((word) >> 32 & 0x1f))

struct head { /* GCtrace */
	uint64_t next;
	uint8_t marked, type;
	uint16_t snapshot_count;
	uint32_t end, reserved;
	uint64_t list, constants;
	uint32_t first_constant, entry_count;
	uint64_t snapshots, entries, prototype, start;
	uint32_t start_instruction, code_bytes;
	uint64_t code;
	uint32_t loop;
	uint16_t children, frame_bytes, number, link, root, next_root;
};
_Static_assert(offsetof(struct head, code) == 88 && offsetof(struct head, root) == 108, "as in LuaJIT");

struct snapshot {
	uint32_t entries;
	uint16_t reference, place;
	uint8_t slots, top, entry_count, exits;
};
_Static_assert(sizeof(struct snapshot) == SNAPSHOT_BYTES, "as in LuaJIT");

struct prototype {
	uint64_t object;
	uint32_t code_count, check;
};

struct reader {
	const struct runtime_memory *memory;
	struct head head;
	uint64_t *constants; /* owned: from head.first_constant on */
	struct snapshot snapshot;
	uint32_t entries[ENTRIES_MAX + 2]; /* of the snapshot, and its instruction */
	struct prototype prototypes[PROTOTYPES_MAX];
	size_t prototype_count;
};

static int read_at(const struct reader *reader, uint64_t address, void *to, size_t bytes)
{
	return reader->memory->read(reader->memory->context, address, to, bytes);
}

/* ---- which trace ---- */

void luajit_traces_release(struct luajit_traces *traces)
{
	traces->items = mem_free(traces->items);
	traces->count = 0;
}

static int compare_traces(const void *a, const void *b)
{
	return ORDER(((const struct luajit_trace *)a)->start, ((const struct luajit_trace *)b)->start);
}

static bool is_trace(const struct head *head)
{
	return head->type == TYPE_TRACE && head->code && !(head->code >> 47) && head->code_bytes &&
	       head->code_bytes <= CODE_BYTES_MAX;
}

int luajit_read_traces(const struct luajit_build *build, const struct runtime_memory *memory, uint64_t global,
		       struct luajit_traces *traces)
{
	struct {
		uint64_t objects;
		uint32_t first_free, count;
	} array;
	size_t kept = 0;

	int r = memory->read(memory->context, global + (uint64_t)build->global_traces, &array, sizeof(array));
	if (r < 0)
		return r;
	if (array.count > LUAJIT_TRACES_MAX || array.objects & 7)
		return -EBADMSG;
	_cleanup_(mem_freep) uint64_t *objects = mem_alloc_array((size_t)array.count + 1, sizeof(*objects));
	_cleanup_(mem_freep) struct luajit_trace *items = mem_alloc_array((size_t)array.count + 1, sizeof(*items));
	if (!objects || !items)
		return -ENOMEM;
	r = array.count ? memory->read(memory->context, array.objects, objects, array.count * sizeof(*objects)) : 0;
	if (r < 0)
		return r;
	for (uint32_t i = 0; i < array.count; i++) {
		struct head head;
		if (!objects[i] || objects[i] & 7 || memory->read(memory->context, objects[i], &head, sizeof(head)) < 0 ||
		    !is_trace(&head))
			continue;
		items[kept++] = (struct luajit_trace){head.code, head.code + head.code_bytes, objects[i]};
	}
	qsort(items, kept, sizeof(*items), compare_traces);
	mem_free(traces->items);
	*traces = (struct luajit_traces){items, kept};
	items = NULL;
	return 0;
}

const struct luajit_trace *luajit_find_trace(const struct luajit_traces *traces, uint64_t pc)
{
	size_t low = 0, high = traces->count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;
		if (traces->items[middle].start <= pc)
			low = middle + 1;
		else
			high = middle;
	}
	return low && pc < traces->items[low - 1].end ? &traces->items[low - 1] : NULL;
}

/* ---- which functions ---- */

static int add_prototype(struct reader *reader, uint64_t object)
{
	__u64 words[LUAJIT_PROTOTYPE_BYTES / 8];

	for (size_t i = 0; i < reader->prototype_count; i++)
		if (reader->prototypes[i].object == object)
			return 0;
	if (!object || object & 7 || reader->prototype_count == PROTOTYPES_MAX)
		return 0;
	int r = read_at(reader, object, words, sizeof(words));
	if (r < 0 || (words[1] >> 8 & 0xff) != TYPE_PROTOTYPE)
		return r;
	reader->prototypes[reader->prototype_count++] = (struct prototype){
		.object = object,
		.code_count = (uint32_t)(words[LUAJIT_PROTOTYPE_CODE_COUNT / 8] >> 32),
		.check = luajit_check_of(words + LUAJIT_PROTOTYPE_FROM / 8),
	};
	return 0;
}

/* The prototypes of functions among the constants, and those that are constants themselves. */
static void add_constants(struct reader *reader)
{
	uint32_t count = CONSTANTS_END - reader->head.first_constant;

	for (uint32_t i = 0; i + 1 < count; i++) {
		uint32_t type = CONSTANT_TYPE(reader->constants[i]);
		uint64_t object = reader->constants[i + 1], function[LUAJIT_FUNCTION_BYTES / 8];
		if (type == TYPE_PROTOTYPE)
			add_prototype(reader, object);
		if (type != TYPE_FUNCTION || object & 7 || read_at(reader, object, function, sizeof(function)) < 0)
			continue;
		if ((function[1] >> 8 & 0xff) == TYPE_FUNCTION && !(function[1] >> 16 & 0xff))
			add_prototype(reader, function[LUAJIT_FUNCTION_CODE / 8] - LUAJIT_PROTOTYPE_BYTES);
	}
}

static int read_snapshot(struct reader *reader, uint64_t pc)
{
	const struct head *head = &reader->head;
	size_t count = head->snapshot_count, found = 0;

	if (!count || count > SNAPSHOTS_MAX || head->first_constant > CONSTANTS_END ||
	    CONSTANTS_END - head->first_constant > CONSTANTS_MAX)
		return -EBADMSG;
	_cleanup_(mem_freep) struct snapshot *snapshots = mem_alloc_array(count, sizeof(*snapshots));
	if (!snapshots)
		return -ENOMEM;
	int r = read_at(reader, head->snapshots, snapshots, count * sizeof(*snapshots));
	if (r < 0)
		return r;
	for (size_t i = 1; i < count; i++)
		if (snapshots[i].place <= pc - head->code)
			found = i;
	reader->snapshot = snapshots[found];
	uint32_t entries = reader->snapshot.entry_count + 2u;
	if ((uint64_t)reader->snapshot.entries + entries > head->entry_count)
		return -EBADMSG;
	return read_at(reader, head->entries + (uint64_t)reader->snapshot.entries * 4, reader->entries, entries * 4);
}

static int read_constants(struct reader *reader)
{
	const struct head *head = &reader->head;
	size_t count = CONSTANTS_END - head->first_constant;

	reader->constants = mem_alloc_array(count + 1, sizeof(*reader->constants));
	if (!reader->constants)
		return -ENOMEM;
	reader->constants[count] = 0;
	return count ? read_at(reader, head->constants + (uint64_t)head->first_constant * 8, reader->constants, count * 8) : 0;
}

/* The value of a slot that is a constant; 0 if it is none. */
static uint64_t value_of(const struct reader *reader, uint32_t slot)
{
	for (uint32_t i = 0; i < reader->snapshot.entry_count; i++) {
		uint32_t entry = reader->entries[i], reference = entry & 0xffff;
		if (ENTRY_SLOT(entry) != slot)
			continue;
		if (reference < reader->head.first_constant || reference + 1 >= CONSTANTS_END)
			return 0;
		return reader->constants[reference - reader->head.first_constant + 1];
	}
	return 0;
}

/* behind: the address is behind the instruction. calls: it has called the function before. */
static int add_function(const struct reader *reader, uint64_t pc, bool behind, bool calls,
			struct luajit_inlined ret[LUAJIT_INLINED_MAX], size_t *count)
{
	uint64_t at = behind ? pc - 4 : pc;

	if (*count == LUAJIT_INLINED_MAX)
		return -EBADMSG;
	for (size_t i = 0; i < reader->prototype_count; i++) {
		const struct prototype *prototype = &reader->prototypes[i];
		uint64_t place = at - prototype->object - LUAJIT_PROTOTYPE_BYTES;
		if (place & 3 || place / 4 >= prototype->code_count || place / 4 >= RUNTIME_PLACE_MAX)
			continue;
		ret[(*count)++] = (struct luajit_inlined){prototype->object, prototype->check, (uint32_t)(place / 4), calls};
		return 0;
	}
	return -ENOENT;
}

enum below { BELOW_FUNCTION, BELOW_SAME, BELOW_LIBRARY }; /* what the next frame is of */

/* From the innermost function to the one that the trace has begun in. */
static int find_functions(const struct reader *reader, struct luajit_inlined ret[LUAJIT_INLINED_MAX])
{
	uint32_t last = reader->snapshot.entry_count;
	enum below below = BELOW_FUNCTION;
	bool behind = false, calls = false;
	uint64_t pc;
	size_t count = 0;

	memcpy(&pc, &reader->entries[last], sizeof(pc));
	pc >>= 8;
	for (uint32_t i = last; i-- > 0;) {
		uint32_t slot = ENTRY_SLOT(reader->entries[i]);
		if (!(reader->entries[i] & ENTRY_FRAME) || slot < 2)
			continue;
		int r = below == BELOW_FUNCTION ? add_function(reader, pc, behind, calls, ret, &count) : 0;
		if (r < 0)
			return r;
		uint64_t link = value_of(reader, slot);
		if ((link & 7) == LUAJIT_LINK_VARIADIC) {
			below = BELOW_SAME;
			continue;
		}
		calls = below != BELOW_LIBRARY;
		below = BELOW_FUNCTION;
		behind = true;
		if ((link & 7) == LUAJIT_LINK_CONTINUED)
			pc = value_of(reader, slot - 2);
		else if (!(link & 3))
			pc = link;
		else
			below = BELOW_LIBRARY; /* a protected call */
		if (below == BELOW_FUNCTION && !pc)
			return -ENOENT;
	}
	int r = below == BELOW_FUNCTION ? add_function(reader, pc, behind, calls, ret, &count) : 0;
	return r < 0 ? r : (int)count;
}

int luajit_read_inlined(const struct runtime_memory *memory, const struct luajit_trace *trace, uint64_t pc, uint64_t base,
			struct luajit_inlined ret[LUAJIT_INLINED_MAX])
{
	struct reader reader = {.memory = memory};

	int r = read_at(&reader, trace->object, &reader.head, sizeof(reader.head));
	if (r < 0)
		return r;
	if (!is_trace(&reader.head) || reader.head.code != trace->start ||
	    reader.head.code_bytes != trace->end - trace->start || pc < trace->start || pc >= trace->end)
		return -ESTALE;
	r = read_snapshot(&reader, pc);
	if (r == 0)
		r = read_constants(&reader);
	_cleanup_(mem_freep) uint64_t *owned = reader.constants;
	if (r < 0)
		return r;
	add_prototype(&reader, base);
	add_prototype(&reader, reader.head.prototype);
	add_constants(&reader);
	return find_functions(&reader, ret);
}
