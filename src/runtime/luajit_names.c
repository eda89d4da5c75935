// SPDX-License-Identifier: Apache-2.0
/*
 * Prototypes of LuaJIT in another process: read once, with bounds on everything, since the process may have freed them, or be
 * lying. That it is what was sampled is seen by the check. A prototype is one block of memory, in which all lies but texts of
 * its constants:
 *
 *   prototype | instructions | constants (before `k`: references, after it: numbers) | upvalues | lines | names
 *
 * Lines: for each instruction after the first, which is the function's head, the difference from the function's first line, of
 * 1, 2 or 4 bytes, depending on how many lines it has. Names of upvalues: texts, each ending with 0. Of variables: a text or a
 * number below 7 (0: the end; others stand for those of loops), then the instruction from which on it holds, as the difference
 * from the one before, and for how many; both as numbers of 7 bits a byte.
 *
 * The name of a function is that by which its caller refers to it, found as LuaJIT's debug.traceback() does
 * (lj_debug_funcname()).
 */
#include "runtime/luajit.h"

#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "runtime/lua_int.h"

#define CODE_MAX	65536u /* instructions; of longer code nothing is known but where it begins */
#define BLOCK_BYTES_MAX (4u << 20)
#define WORK_MAX	(4u << 20) /* instructions and variables that are looked at */
#define TYPE_TEXT	4u
#define TYPE_PROTOTYPE	7u
#define TEXT_BYTES	24u
#define TITLE_BYTES_MAX 48u
#define TITLE_CUT_BYTES 45u
#define LINE_BUILTIN	0xffffffffu

enum prototype {
	PROTOTYPE_TYPE = 9,
	PROTOTYPE_CONSTANTS = 32,
	PROTOTYPE_BYTES = 56, /* of the block */
	PROTOTYPE_UPVALUES = 60,
	PROTOTYPE_LINE_COUNT = 76,
	PROTOTYPE_LINES = 80,
	PROTOTYPE_UPVALUE_NAMES = 88,
	PROTOTYPE_VARIABLES = 96,
};

/* Numbers of instructions, those of 2.1. */
enum op {
	OP_ISLT = 0,
	OP_ISGT = 3,
	OP_ISNEP = 11,
	OP_ISTC = 12,
	OP_ISFC = 13,
	OP_MOV = 18,
	OP_UNM = 20,
	OP_LEN = 21,
	OP_ADDVN = 22,
	OP_POW = 37,
	OP_CAT = 38,
	OP_KPRI = 43,
	OP_KNIL = 44,
	OP_UGET = 45,
	OP_FNEW = 51,
	OP_TNEW = 52,
	OP_TDUP = 53,
	OP_GGET = 54,
	OP_GSET = 55,
	OP_TGETV = 56,
	OP_TGETS = 57,
	OP_TGETR = 59,
	OP_TSETV = 60,
	OP_TSETM = 63,
	OP_TSETR = 64,
	OP_CALLM = 65,
	OP_ITERC = 69,
	OP_ITERN = 70,
	OP_VARG = 71,
	OP_ISNEXT = 72,
	OP_RETM = 73,
	OP_FORI = 77,
	OP_JITERL = 84,
};

struct block {
	const struct runtime_memory *memory;
	uint64_t address;
	const uint8_t *data;
	uint32_t bytes, code_count;
	uint64_t work_left;
};

static uint64_t word_at(const uint8_t *data, uint32_t offset)
{
	uint64_t word;

	memcpy(&word, data + offset, sizeof(word));
	return word;
}

static uint32_t half_at(const uint8_t *data, uint32_t offset)
{
	uint32_t half;

	memcpy(&half, data + offset, sizeof(half));
	return half;
}

/* ---- texts ---- */

/* Texts end with 0, by which their length is known to be right: it was moved by 4 bytes in 2020. */
static int read_text(const struct runtime_memory *memory, uint64_t address, uint8_t ret[static RUNTIME_NAME_BYTES_MAX],
		     size_t *ret_len)
{
	static const uint32_t offsets[] = {20, 16};
	uint8_t head[TEXT_BYTES];

	if (!address || address & 7)
		return -EBADMSG;
	int r = memory->read(memory->context, address, head, sizeof(head));
	if (r < 0)
		return r;
	if (head[PROTOTYPE_TYPE] != TYPE_TEXT)
		return -EBADMSG;
	for (size_t i = 0; i < sizeof(offsets) / sizeof(offsets[0]); i++) {
		uint32_t len = half_at(head, offsets[i]);
		uint8_t end = 1;
		if (len > BLOCK_BYTES_MAX || memory->read(memory->context, address + TEXT_BYTES + len, &end, 1) < 0 || end)
			continue;
		*ret_len = len < RUNTIME_NAME_BYTES_MAX ? len : RUNTIME_NAME_BYTES_MAX;
		r = *ret_len ? memory->read(memory->context, address + TEXT_BYTES, ret, *ret_len) : 0;
		if (r < 0)
			return r;
		if (!memchr(ret, 0, *ret_len))
			return 0;
	}
	return -EBADMSG;
}

/* As lj_debug_shortname(). */
static int read_file(const struct runtime_memory *memory, uint64_t address, uint32_t line, char *ret)
{
	uint8_t data[RUNTIME_NAME_BYTES_MAX];
	size_t count = 0, len = 0, shown = 0;

	int r = read_text(memory, address, data, &count);
	if (r < 0)
		return r;
	if (count && (data[0] == '@' || data[0] == '=')) {
		runtime_name_append((struct bytes){data + 1, count - 1}, ret, &len);
		return 0;
	}
	while (shown < count && shown < TITLE_BYTES_MAX && data[shown] >= ' ')
		shown++;
	bool is_cut = shown < count, is_builtin = line == LINE_BUILTIN;
	if (is_cut && shown > TITLE_CUT_BYTES)
		shown = TITLE_CUT_BYTES;
	runtime_name_append(bytes_of_string(is_builtin ? "[builtin:" : "[string \""), ret, &len);
	runtime_name_append((struct bytes){data, shown}, ret, &len);
	runtime_name_append(bytes_of_string(is_cut ? "..." : ""), ret, &len);
	runtime_name_append(bytes_of_string(is_builtin ? "]" : "\"]"), ret, &len);
	return 0;
}

/* ---- names of what is called ---- */

static uint32_t instruction(const struct block *block, uint32_t place)
{
	return half_at(block->data, LUAJIT_PROTOTYPE_BYTES + place * 4);
}

/* What a pointer in the prototype leads to in the block; NULL if that is not there. */
static const uint8_t *part_of(const struct block *block, uint64_t address)
{
	uint64_t at = address - block->address;

	return at >= LUAJIT_PROTOTYPE_BYTES && at < block->bytes ? block->data + at : NULL;
}

static bool read_number(const uint8_t **at, const uint8_t *end, uint32_t *ret)
{
	uint32_t value = 0;

	for (unsigned shift = 0; *at < end && shift < 32; shift += 7) {
		uint8_t byte = *(*at)++;
		value |= (uint32_t)(byte & 0x7f) << shift;
		if (byte < 0x80) {
			*ret = value;
			return true;
		}
	}
	return false;
}

static void set_text(struct bytes text, char ret[static RUNTIME_NAME_BYTES_MAX])
{
	size_t len = 0;

	ret[0] = 0;
	runtime_name_append(text, ret, &len);
}

/* The variable that is in a slot at an instruction. */
static bool find_variable(struct block *block, uint32_t place, uint32_t slot, char *ret)
{
	static const char *const loops[] = {
		"", "(for index)", "(for limit)", "(for step)", "(for generator)", "(for state)", "(for control)"};
	const uint8_t *at = part_of(block, word_at(block->data, PROTOTYPE_VARIABLES)), *end = block->data + block->bytes;
	uint32_t from = 0, start, count;

	while (at && at < end && *at && block->work_left--) {
		struct bytes name = {at, 0};
		uint8_t first = *at;
		if (first < 7) {
			name = bytes_of_string(loops[first]);
		} else {
			const uint8_t *zero = memchr(at, 0, (size_t)(end - at));
			if (!zero)
				return false;
			name.len = (size_t)(zero - at);
			at = zero;
		}
		at++;
		if (!read_number(&at, end, &start) || !read_number(&at, end, &count))
			return false;
		from += start;
		if (from > place)
			return false;
		if (place < from + count && slot-- == 0) {
			set_text(name, ret);
			return true;
		}
	}
	return false;
}

static bool find_upvalue(const struct block *block, uint32_t number, char *ret)
{
	const uint8_t *at = part_of(block, word_at(block->data, PROTOTYPE_UPVALUE_NAMES)), *end = block->data + block->bytes;

	if (!at || number >= block->data[PROTOTYPE_UPVALUES])
		return false;
	for (;; number--) {
		const uint8_t *zero = memchr(at, 0, (size_t)(end - at));
		if (!zero)
			return false;
		if (!number) {
			set_text((struct bytes){at, (size_t)(zero - at)}, ret);
			return true;
		}
		at = zero + 1;
	}
}

/* The text of a constant, which lie before `k`, the last one first. */
static bool find_constant(const struct block *block, uint32_t number, char *ret)
{
	uint64_t at = word_at(block->data, PROTOTYPE_CONSTANTS) - 8 * ((uint64_t)number + 1) - block->address;
	uint8_t text[RUNTIME_NAME_BYTES_MAX];
	size_t len = 0;

	if (at > block->bytes - 8 || read_text(block->memory, word_at(block->data, (uint32_t)at), text, &len) < 0)
		return false;
	set_text((struct bytes){text, len}, ret);
	return true;
}

static bool sets_all(uint32_t op) /* from operand A on */
{
	return op == OP_KNIL || op == OP_TSETM || (op >= OP_CALLM && op <= OP_RETM) || (op >= OP_FORI && op <= OP_JITERL);
}

static bool sets_one(uint32_t op)
{
	return op == OP_ISTC || op == OP_ISFC || (op >= OP_MOV && op <= OP_KPRI) || op == OP_UGET ||
	       (op >= OP_FNEW && op <= OP_GGET) || (op >= OP_TGETV && op <= OP_TGETR);
}

/* Where the function in a slot comes from. */
static bool find_slot(struct block *block, uint32_t place, uint32_t slot, char *ret)
{
	if (find_variable(block, place, slot, ret))
		return true;
	while (--place > 0 && block->work_left) {
		uint32_t code = instruction(block, place), op = code & 0xff, to = code >> 8 & 0xff;
		block->work_left--;
		if (sets_all(op) && slot >= to && (op != OP_KNIL || slot <= code >> 16))
			return false;
		if (!sets_one(op) || to != slot)
			continue;
		switch (op) {
		case OP_MOV:
			slot = code >> 16;
			if (find_variable(block, place, slot, ret))
				return true;
			break;
		case OP_GGET: return find_constant(block, code >> 16, ret);
		case OP_TGETS: return find_constant(block, code >> 16 & 0xff, ret);
		case OP_UGET: return find_upvalue(block, code >> 16, ret);
		default: return false;
		}
	}
	return false;
}

static const char *metamethod_of(uint32_t op)
{
	static const char *const numbers[] = {"__add", "__sub", "__mul", "__div", "__mod"};

	if (op <= OP_ISGT)
		return op < 2 ? "__lt" : "__le";
	if (op <= OP_ISNEP)
		return "__eq";
	if (op >= OP_ADDVN && op < OP_POW)
		return numbers[(op - OP_ADDVN) % 5];
	if (op == OP_GGET || (op >= OP_TGETV && op <= OP_TGETR))
		return "__index";
	if (op == OP_GSET || (op >= OP_TSETV && op <= OP_TSETR))
		return "__newindex";
	switch (op) {
	case OP_UNM: return "__unm";
	case OP_LEN: return "__len";
	case OP_POW: return "__pow";
	case OP_CAT: return "__concat";
	case OP_FNEW:
	case OP_TNEW:
	case OP_TDUP: return "__gc";
	default: return NULL;
	}
}

static bool find_called(struct block *block, uint32_t place, char *ret)
{
	uint32_t code = instruction(block, place), op = code & 0xff, slot = code >> 8 & 0xff;
	const char *metamethod = metamethod_of(op);

	if (metamethod) {
		set_text(bytes_of_string(metamethod), ret);
		return true;
	}
	if (!place || op < OP_CALLM || op > OP_ITERN)
		return false;
	return find_slot(block, place, op == OP_ITERC ? slot - 3 : slot, ret);
}

/* ---- the table ---- */

static void find_lines(const struct block *block, uint32_t first, struct buffer *ret)
{
	uint32_t count = half_at(block->data, PROTOTYPE_LINE_COUNT), width = count < 256 ? 1 : count < 65536 ? 2 : 4, last = 0;
	const uint8_t *at = part_of(block, word_at(block->data, PROTOTYPE_LINES));

	if (!at || (uint64_t)(block->data + block->bytes - at) < (uint64_t)(block->code_count - 1) * width)
		return;
	lua_append_line(ret, 0, first, &last);
	for (uint32_t i = 1; i < block->code_count; i++) {
		uint32_t difference = 0;
		memcpy(&difference, at + (size_t)(i - 1) * width, width);
		lua_append_line(ret, i, first + difference, &last);
	}
}

static int make_table(struct block *block, uint32_t first, struct lua_function *ret)
{
	_cleanup_(buffer_release) struct buffer lines = {.max = LUA_TABLE_BYTES_MAX - 8};
	_cleanup_(buffer_release) struct buffer calls = {.max = LUA_TABLE_BYTES_MAX}, texts = {.max = LUA_NAMES_BYTES_MAX};
	char name[RUNTIME_NAME_BYTES_MAX];

	find_lines(block, first, &lines);
	int r = buffer_status(&lines);
	for (uint32_t i = 0; r == 0 && i < block->code_count && block->work_left; i++) {
		if (!find_called(block, i, name) || !name[0])
			continue;
		if (!lua_append_call(&calls, &texts, lines.max - lines.len, i, name))
			break;
	}
	if (r == 0)
		r = buffer_status(&texts);
	if (r == 0)
		r = buffer_status(&calls);
	if (r < 0)
		return r == -E2BIG ? 0 : r;
	return lua_pack_table(&lines, &calls, &texts, ret);
}

static int read_block(const struct runtime_memory *memory, uint64_t object, const uint8_t *head, struct lua_function *ret)
{
	struct block block = {
		.memory = memory, .address = object, .bytes = half_at(head, PROTOTYPE_BYTES), .work_left = WORK_MAX};

	block.code_count = half_at(head, LUAJIT_PROTOTYPE_CODE_COUNT);
	if (!block.code_count || block.bytes > BLOCK_BYTES_MAX ||
	    block.bytes < LUAJIT_PROTOTYPE_BYTES + (uint64_t)block.code_count * 4)
		return -EBADMSG;
	if (block.code_count > CODE_MAX)
		return 0;
	_cleanup_(mem_freep) uint8_t *data = mem_alloc(block.bytes);
	if (!data)
		return -ENOMEM;
	block.data = data;
	int r = memory->read(memory->context, object, data, block.bytes);
	return r < 0 ? r : make_table(&block, half_at(head, LUAJIT_PROTOTYPE_LINE), ret);
}

int luajit_read_function(const struct runtime_memory *memory, uint64_t object, uint32_t check, struct lua_function *ret)
{
	__u64 words[LUAJIT_PROTOTYPE_BYTES / 8];
	const uint8_t *data = (const uint8_t *)words;

	*ret = (struct lua_function){0};
	if (object & 7)
		return -EBADMSG;
	int r = memory->read(memory->context, object, words, sizeof(words));
	if (r < 0)
		return r;
	if (luajit_check_of(words + LUAJIT_PROTOTYPE_FROM / 8) != check)
		return -ESTALE;
	if (data[PROTOTYPE_TYPE] != TYPE_PROTOTYPE)
		return -EBADMSG;
	uint32_t line = half_at(data, LUAJIT_PROTOTYPE_LINE);
	r = read_file(memory, word_at(data, LUAJIT_PROTOTYPE_SOURCE), line, ret->function.file);
	if (r < 0)
		return r;
	if (line == LINE_BUILTIN) {
		memcpy(ret->function.name, ret->function.file, sizeof(ret->function.name));
		return 0;
	}
	ret->function.first_line = line;
	lua_set_name(line, &ret->function);
	return read_block(memory, object, data, ret);
}
