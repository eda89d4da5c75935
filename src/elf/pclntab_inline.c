/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls that Go's compiler inlined. A function that has any has FUNCDATA_InlTree, an array of
 *
 *   1.16 to 1.19 (20 bytes)   i16 parent, u8 id, u8 0, i32 file, i32 line, u32 name, i32 parent pc
 *   1.20 and later (16)       u8 id, 3 zeros, u32 name, i32 parent pc, i32 line of the declaration
 *
 * and a pc table, PCDATA_InlTreeIndex, that gives the innermost call at a pc (-1: none). The parent of a call is the call that
 * the same table tells at start + parent pc, an instruction left where the call was; the file and line of that instruction are
 * the call's. That holds for both layouts, so that the parent, file and line of the older one are not looked at.
 *
 * The arrays lie in read-only data up to 1.25, among other things of the program. An extract (elf/extract.h) must not hold
 * those, so it gets a section of its own, PCLNTAB_INLINE_SECTION, with the calls and nothing else, little-endian:
 *
 *   u32 "WGI1", u32 number of functions, u64 start of the text
 *   each: u32 index of the function, u32 number of calls; each: u32 name, u32 parent pc, u32 line
 *
 * Bounds of writing it, in the agent, out of a program that nobody trusts. Functions may share records, pc tables and arrays,
 * so that a small table may stand for gigabytes of calls: there is a budget of work and one of bytes, multiples of the table's
 * size, and the functions that are left when either is used up keep their names, without inlined calls.
 *
 * Rejected: keeping the part of .rodata that holds the arrays. It is not set off from the rest.
 */
#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "elf/pclntab_int.h"

#define INLINE_MAGIC	      0x31494757u
#define HEADER_BYTES	      16
#define FUNCTION_BYTES	      8
#define CALL_BYTES	      12
#define CHECKED_FUNCTIONS     64
#define SOURCE_CALL_BYTES_MAX 20
#define WORK_PER_BYTE	      4		   /* steps of pc tables and the like; real programs: 0.03 */
#define FUNCTION_STEPS_MAX    (64u * 1024) /* real programs: about a thousand */
#define BYTES_LEAST	      (1 * MIB)	   /* and as many as the table; real programs: an eighth of it */

static uint32_t read_u32(const uint8_t *data)
{
	uint32_t value;
	memcpy(&value, data, sizeof(value));
	return value;
}

static size_t source_call_bytes(const struct pclntab *table)
{
	return table->layout >= PCLNTAB_1_20 ? 16 : 20;
}

static struct pclntab_call convert_call(const struct pclntab *table, const uint8_t *data)
{
	if (table->layout >= PCLNTAB_1_20)
		return (struct pclntab_call){read_u32(data + 4), read_u32(data + 8), read_u32(data + 12)};
	return (struct pclntab_call){read_u32(data + 12), read_u32(data + 16), 0};
}

static int damaged(const struct pclntab *table, struct error *err)
{
	return error_set(err, -EBADMSG, "%s: damaged Go function table: bad inlined calls", table->file->name);
}

static int read_noted_calls(const struct pclntab *table, size_t i, size_t count, struct pclntab_call *ret, struct error *err)
{
	size_t at = table->inline_at[i];
	if (at == 0 || count > read_u32(table->inline_data + at + 4))
		return damaged(table, err);
	at += FUNCTION_BYTES;
	for (size_t k = 0; k < count; k++, at += CALL_BYTES)
		ret[k] = (struct pclntab_call){read_u32(table->inline_data + at), read_u32(table->inline_data + at + 4),
					       read_u32(table->inline_data + at + 8)};
	return 0;
}

int pclntab_get_calls(const struct pclntab *table, size_t i, const struct pclntab_function *function, size_t count,
		      struct pclntab_call *ret, struct error *err)
{
	if (table->inline_data)
		return read_noted_calls(table, i, count, ret, err);
	uint64_t address = function->inline_tree;
	if (address == PCLNTAB_NONE || (table->layout >= PCLNTAB_1_18 && table->inline_base == PCLNTAB_NONE))
		return damaged(table, err);
	if (table->layout >= PCLNTAB_1_18)
		address += table->inline_base;
	size_t size = source_call_bytes(table);
	_cleanup_(mem_freep) uint8_t *raw = mem_alloc_array(count, size);
	if (!raw)
		return error_nomem(err);
	int r = pclntab_read_memory(table, address, raw, count * size, err);
	for (size_t k = 0; r == 0 && k < count; k++)
		ret[k] = convert_call(table, raw + k * size);
	return r;
}

/* 1 when a call is at the address: a name starts where another one ended, and the call lies inside its function. */
static int is_call(const struct pclntab *table, const struct pclntab_function *function, uint64_t address, struct error *err)
{
	uint8_t raw[SOURCE_CALL_BYTES_MAX];
	struct error problem;
	int r = pclntab_read_memory(table, address, raw, source_call_bytes(table), &problem);
	if (r < 0 && r != -EBADMSG && err)
		*err = problem;
	if (r < 0)
		return r == -EBADMSG ? 0 : r;
	struct pclntab_call call = convert_call(table, raw);
	return pclntab_get_name(table, call.name) && (call.name == 0 || table->data[table->names + call.name - 1] == 0) &&
	       call.parent_pc < function->end - function->start;
}

int pclntab_check_inline_base(const struct pclntab *table, uint64_t base, struct error *err)
{
	unsigned checked = 0;
	int r = 1;
	for (size_t i = 0; i < table->function_count && checked < CHECKED_FUNCTIONS && r > 0; i++) {
		struct pclntab_function function;
		if (!pclntab_get_function(table, i, &function) || function.inline_tree == PCLNTAB_NONE ||
		    function.inline_table == 0)
			continue;
		r = is_call(table, &function, base + function.inline_tree, err);
		checked++;
	}
	return r > 0 ? checked > 0 : r;
}

/* ---- the section of an extract ---- */

/* Checks the section as a whole, so that its readers need not, and notes where each function is. */
static int index_functions(struct pclntab *table, struct error *err)
{
	if (table->inline_len < HEADER_BYTES || read_u32(table->inline_data) != INLINE_MAGIC)
		return damaged(table, err);
	memcpy(&table->text_start, table->inline_data + 8, sizeof(table->text_start));
	table->inline_at = mem_zalloc_array(table->function_count + 1, sizeof(*table->inline_at));
	if (!table->inline_at)
		return error_nomem(err);
	size_t at = HEADER_BYTES;
	for (uint32_t left = read_u32(table->inline_data + 4); left > 0; left--) {
		if (table->inline_len - at < FUNCTION_BYTES)
			return damaged(table, err);
		uint32_t function = read_u32(table->inline_data + at), count = read_u32(table->inline_data + at + 4);
		if (function >= table->function_count || count > (table->inline_len - at - FUNCTION_BYTES) / CALL_BYTES)
			return damaged(table, err);
		table->inline_at[function] = at;
		at += FUNCTION_BYTES + (size_t)count * CALL_BYTES;
	}
	return 0;
}

int pclntab_load_inline(struct pclntab *table, struct error *err)
{
	struct bytes data;
	int r = elf_file_read_contents(table->file, PCLNTAB_INLINE_SECTION, PCLNTAB_INLINE_BYTES_MAX, &data, err);
	if (r < 0)
		return r;
	table->inline_data = (uint8_t *)data.data;
	table->inline_len = data.len;
	return index_functions(table, err);
}

static void append_u32(struct buffer *out, uint32_t value)
{
	buffer_append(out, &value, sizeof(value));
}

/* How many calls the pc table of a function names. */
static size_t count_calls(const struct pclntab_steps *steps)
{
	int32_t last = -1;
	for (size_t i = 0; i < steps->count; i++)
		last = steps->items[i].value > last ? steps->items[i].value : last;
	return (size_t)((int64_t)last + 1);
}

/* Appends one function; 0 when it has no calls, 1 when it has. Takes no more than table->steps_left. */
static int write_function(struct pclntab *table, size_t i, struct pclntab_steps *steps, struct buffer *out, struct error *err)
{
	struct pclntab_function function;
	if (!pclntab_get_function(table, i, &function) || function.inline_tree == PCLNTAB_NONE || function.inline_table == 0)
		return 0;
	int r = pclntab_decode(table, &function, function.inline_table, steps, err);
	size_t count = r == 0 ? count_calls(steps) : 0;
	if (r < 0 || count == 0 || count > PCLNTAB_INLINE_CALLS_MAX)
		return r == -EBADMSG ? 0 : r;
	_cleanup_(mem_freep) struct pclntab_call *calls = mem_alloc_array(count, sizeof(*calls));
	if (!calls)
		return error_nomem(err);
	r = pclntab_get_calls(table, i, &function, count, calls, err);
	if (r < 0)
		return r == -EBADMSG ? 0 : r;
	append_u32(out, (uint32_t)i);
	append_u32(out, (uint32_t)count);
	for (size_t k = 0; buffer_status(out) == 0 && k < count; k++) {
		uint32_t words[] = {calls[k].name, calls[k].parent_pc, calls[k].line};
		buffer_append(out, words, sizeof(words));
	}
	r = buffer_status(out);
	return r < 0 ? r : 1;
}

int pclntab_write_inline(struct pclntab *table, struct buffer *out, struct error *err)
{
	uint32_t header[HEADER_BYTES / 4] = {INLINE_MAGIC, 0, (uint32_t)table->text_start, (uint32_t)(table->text_start >> 32)};
	size_t header_at = out->len;
	struct pclntab_steps steps = {0};
	uint64_t work = WORK_PER_BYTE * (uint64_t)table->len + 1000000, most = header_at + table->len + BYTES_LEAST;
	out->max = out->max < most ? out->max : (size_t)most;
	int r = buffer_append(out, header, sizeof(header));
	for (size_t i = 0; r >= 0 && i < table->function_count; i++) {
		size_t before = out->len;
		uint64_t may = work < FUNCTION_STEPS_MAX ? work : FUNCTION_STEPS_MAX;
		table->steps_left = may;
		r = write_function(table, i, &steps, out, err);
		work -= may - table->steps_left;
		/* Finding the calls looks through the segments. */
		work -= work < table->file->segment_count ? work : table->file->segment_count;
		header[1] += r > 0;
		if (r == -E2BIG)
			buffer_truncate(out, before);
		if (r == -E2BIG || work == 0) {
			r = 0;
			break;
		}
	}
	mem_free(steps.items);
	if (r < 0)
		return error_set(err, r, "%s: cannot store inlined calls of Go functions", table->file->name);
	memcpy(out->data + header_at, header, sizeof(header));
	return 0;
}
