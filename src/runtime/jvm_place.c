// SPDX-License-Identifier: Apache-2.0
/* What the walk is told of a process with HotSpot in it: where the code heaps and the interpreter are, and the offsets. */
#include <errno.h>
#include <string.h>

#include "runtime/jvm.h"

#define HEAP_BYTES_MAX	   (1ull << 32)
#define SHIFT_MIN	   3u
#define SHIFT_MAX	   16u
#define BCP_WORDS	   8u /* below the frame pointer */
#define BCP_WORDS_8	   7u
#define LAST_SP_WORDS	   2u
#define EXCLUDE_ZERO_SINCE 20u

static int read_memory(const struct runtime_memory *memory, uint64_t address, void *to, size_t bytes)
{
	return memory->read(memory->context, address, to, bytes);
}

/* 0 if it cannot be read: no address that is asked for here is 0. */
static uint64_t word_at(const struct runtime_memory *memory, uint64_t address)
{
	uint64_t word;

	return read_memory(memory, address, &word, sizeof(word)) < 0 ? 0 : word;
}

static uint32_t half_at(const struct runtime_memory *memory, uint64_t address)
{
	uint32_t half;

	return read_memory(memory, address, &half, sizeof(half)) < 0 ? 0 : half;
}

/* ---- places ---- */

static int place_heap(const struct jvm_layout *layout, const struct runtime_memory *memory, uint64_t heap, struct jvm_heap *ret,
		      struct error *err)
{
	const struct jvm_field *fields = layout->fields;
	uint64_t space = heap + fields[JVM_HEAP_MEMORY].offset;

	ret->start = word_at(memory, space + fields[JVM_SPACE_LOW_BOUNDARY].offset);
	ret->end = word_at(memory, space + fields[JVM_SPACE_HIGH_BOUNDARY].offset);
	ret->segments = word_at(memory, heap + fields[JVM_HEAP_SEGMENTS].offset + fields[JVM_SPACE_LOW].offset);
	ret->shift = half_at(memory, heap + fields[JVM_HEAP_SHIFT].offset);
	if (!ret->segments || !ret->start)
		return error_set(err, -EAGAIN, "HotSpot has not made its code heaps yet");
	if (ret->end <= ret->start || ret->end - ret->start > HEAP_BYTES_MAX || ret->shift < SHIFT_MIN ||
	    ret->shift > SHIFT_MAX)
		return error_set(err, -EBADMSG, "HotSpot %s whose code heaps make no sense", layout->release);
	return 0;
}

static int place_heaps(const struct jvm_layout *layout, const struct runtime_memory *memory, struct jvm_process *ret,
		       struct error *err)
{
	const struct jvm_field *fields = layout->fields;
	bool is_list = layout->variables[JVM_VARIABLE_HEAPS] != 0;
	uint64_t heaps = word_at(memory, layout->variables[is_list ? JVM_VARIABLE_HEAPS : JVM_VARIABLE_HEAP]), items = 0;
	uint32_t count = 1;

	if (heaps && is_list) {
		count = half_at(memory, heaps + fields[JVM_ARRAY_LENGTH].offset);
		items = word_at(memory, heaps + fields[JVM_ARRAY_DATA].offset);
	}
	if (!heaps || !count || (is_list && !items))
		return error_set(err, -EAGAIN, "HotSpot has not made its code heaps yet");
	if (count > JVM_HEAPS_MAX)
		return error_set(err, -EBADMSG, "HotSpot %s with %u code heaps", layout->release, count);
	ret->low = UINT64_MAX;
	for (uint32_t i = 0; i < count; i++) {
		struct jvm_heap *heap = &ret->heaps[i];
		int r = place_heap(layout, memory, is_list ? word_at(memory, items + i * 8) : heaps, heap, err);
		if (r < 0)
			return r;
		ret->low = heap->start < ret->low ? heap->start : ret->low;
		ret->high = heap->end > ret->high ? heap->end : ret->high;
	}
	return 0;
}

static int place_interpreter(const struct jvm_layout *layout, const struct runtime_memory *memory, struct jvm_process *ret,
			     struct error *err)
{
	uint64_t stubs = word_at(memory, layout->variables[JVM_VARIABLE_INTERPRETER]);

	if (stubs) {
		ret->interpreter = word_at(memory, stubs + layout->fields[JVM_STUBS_BUFFER].offset);
		ret->interpreter_end = ret->interpreter + half_at(memory, stubs + layout->fields[JVM_STUBS_LIMIT].offset);
	}
	if (!ret->interpreter || ret->interpreter_end == ret->interpreter)
		return error_set(err, -EAGAIN, "HotSpot has not made its interpreter yet");
	if (ret->interpreter < ret->low || ret->interpreter_end > ret->high)
		return error_set(err, -EBADMSG, "HotSpot %s whose interpreter is in no code heap", layout->release);
	return 0;
}

/* The block that has an address; 0 = there is none. As bpf/jvm_walk.h looks for it. */
static uint64_t find_block(const struct runtime_memory *memory, const struct jvm_process *told, uint64_t address)
{
	const struct jvm_heap *heap = NULL;

	for (size_t i = 0; i < JVM_HEAPS_MAX && !heap; i++) {
		if (address >= told->heaps[i].start && address < told->heaps[i].end)
			heap = &told->heaps[i];
	}
	uint64_t segment = heap ? (address - heap->start) >> heap->shift : 0;
	for (unsigned i = 0; heap && i < JVM_HOPS_MAX; i++) {
		uint8_t hop;
		if (read_memory(memory, heap->segments + segment, &hop, sizeof(hop)) < 0 || hop == UINT8_MAX || hop > segment)
			return 0;
		if (!hop)
			return heap->start + (segment << heap->shift);
		segment -= hop;
	}
	return 0;
}

static void place_carrier(const struct jvm_layout *layout, const struct runtime_memory *memory, struct jvm_process *ret)
{
	uint64_t variable = layout->variables[JVM_VARIABLE_CARRIER], block = 0;

	if (variable)
		block = find_block(memory, ret, word_at(memory, variable));
	uint32_t words = block ? half_at(memory, block + ret->blob_frame_size) : 0;
	if (words > 1 && words < JVM_FRAME_BYTES_MAX / 8)
		ret->carrier_bytes = words * 8;
}

/* ---- offsets ---- */

/* Of blobs, from their block's start. */
static void fill_blob(const struct jvm_layout *layout, struct jvm_process *ret)
{
	const struct jvm_field *fields = layout->fields;
	uint32_t block = (uint32_t)layout->numbers[JVM_SIZE_BLOCK];

	ret->block_bytes = block;
	ret->block_used = fields[JVM_BLOCK_USED].offset;
	ret->blob_name = block + fields[JVM_BLOB_NAME].offset;
	ret->blob_frame_size = block + fields[JVM_BLOB_FRAME_SIZE].offset;
	ret->blob_code = block + fields[fields[JVM_BLOB_CODE_OFFSET].bytes ? JVM_BLOB_CODE_OFFSET : JVM_BLOB_CODE_BEGIN].offset;
	if (fields[JVM_BLOB_CODE_OFFSET].bytes)
		ret->flags |= JVM_CODE_IS_OFFSET;
	if (fields[JVM_BLOB_KIND].bytes == 1 && layout->has_number[JVM_CONSTANT_KIND_NMETHOD]) {
		ret->flags |= JVM_BLOB_KINDS;
		ret->blob_kind = block + fields[JVM_BLOB_KIND].offset;
		ret->kind_nmethod = (uint32_t)layout->numbers[JVM_CONSTANT_KIND_NMETHOD];
	}
	ret->nmethod_method = block + fields[JVM_NMETHOD_METHOD].offset;
	ret->nmethod_id = block + fields[JVM_NMETHOD_ID].offset;
	if (!fields[JVM_NMETHOD_ORIG_PC].bytes)
		return;
	ret->nmethod_orig_pc = block + fields[JVM_NMETHOD_ORIG_PC].offset;
	if (fields[JVM_NMETHOD_DEOPT_OFFSET].bytes) {
		ret->nmethod_deopt = block + fields[JVM_NMETHOD_DEOPT_OFFSET].offset;
		ret->flags |= JVM_DEOPT_IS_OFFSET;
	} else if (fields[JVM_NMETHOD_DEOPT_BEGIN].bytes) {
		ret->nmethod_deopt = block + fields[JVM_NMETHOD_DEOPT_BEGIN].offset;
	}
}

/* How much of a block has all members that the walk looks at. */
static uint32_t blob_bytes(const struct jvm_process *jvm)
{
	const uint32_t offsets[] = {jvm->block_used,	  jvm->blob_name,  jvm->blob_kind,     jvm->blob_code,
				    jvm->blob_frame_size, jvm->nmethod_id, jvm->nmethod_deopt, jvm->nmethod_method};
	uint32_t max = 0;

	for (size_t i = 0; i < sizeof(offsets) / sizeof(offsets[0]); i++)
		max = offsets[i] > max ? offsets[i] : max;
	return (max & ~7u) + 8;
}

static void fill_method(const struct jvm_layout *layout, struct jvm_process *ret)
{
	const struct jvm_field *fields = layout->fields;

	ret->method_const = fields[JVM_METHOD_CONST].offset;
	ret->const_pool = fields[JVM_CONST_POOL].offset;
	ret->const_code_size = fields[JVM_CONST_CODE_SIZE].offset;
	ret->const_name = fields[JVM_CONST_NAME].offset;
	ret->const_signature = fields[JVM_CONST_SIGNATURE].offset;
	ret->const_bytes = (uint32_t)layout->numbers[JVM_SIZE_CONST];
	ret->frame_method = LAST_SP_WORDS + 1;
	if (layout->has_number[JVM_CONSTANT_LAST_SP])
		ret->frame_method = (uint32_t)-layout->numbers[JVM_CONSTANT_LAST_SP] + 1;
	ret->frame_bcp = layout->version <= 8 ? BCP_WORDS_8 : BCP_WORDS;
}

/* What the walk relies on. */
static bool is_sound(const struct jvm_process *jvm)
{
	const uint32_t words[] = {jvm->blob_name, jvm->nmethod_method};
	const uint32_t halves[] = {jvm->blob_frame_size, jvm->blob_code};
	const uint32_t shorts[] = {jvm->const_code_size, jvm->const_name, jvm->const_signature};
	bool is_bad = jvm->block_used >= jvm->block_bytes || jvm->blob_kind >= JVM_BLOB_WORDS * 8 || jvm->const_pool & 7 ||
		      jvm->const_pool >= JVM_METHOD_BYTES || jvm->frame_method == jvm->frame_bcp || jvm->nmethod_id & 3 ||
		      jvm->blob_bytes > JVM_BLOB_WORDS * 8 || jvm->nmethod_deopt & 3 ||
		      jvm->nmethod_deopt >= JVM_BLOB_WORDS * 8;

	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		is_bad |= words[i] & 7 || words[i] >= JVM_BLOB_WORDS * 8;
	for (size_t i = 0; i < sizeof(halves) / sizeof(halves[0]); i++)
		is_bad |= halves[i] & 3 || halves[i] >= JVM_BLOB_WORDS * 8;
	for (size_t i = 0; i < sizeof(shorts) / sizeof(shorts[0]); i++)
		is_bad |= shorts[i] & 1 || shorts[i] >= JVM_METHOD_BYTES;
	return !is_bad && jvm->frame_method < JVM_FRAME_WORDS && jvm->frame_bcp < JVM_FRAME_WORDS;
}

bool jvm_excludes_zero(const struct jvm_layout *layout)
{
	return layout->version >= EXCLUDE_ZERO_SINCE;
}

int jvm_place(const struct jvm_layout *layout, const struct runtime_memory *memory, struct jvm_process *ret, struct error *err)
{
	*ret = (struct jvm_process){.kind = RUNTIME_KIND_JVM};
	fill_blob(layout, ret);
	fill_method(layout, ret);
	ret->blob_bytes = blob_bytes(ret);
	if (!is_sound(ret))
		return error_set(err, -EBADMSG, "HotSpot %s whose tables have offsets that cannot be", layout->release);
	int r = place_heaps(layout, memory, ret, err);
	if (r == 0)
		r = place_interpreter(layout, memory, ret, err);
	if (r == 0)
		place_carrier(layout, memory, ret);
	return r;
}
