/* SPDX-License-Identifier: Apache-2.0 */
/* For tests: a heap of V8 in memory, laid out as a version has it. */
#ifndef WICK_RUNTIME_TEST_V8_IMAGE_H
#define WICK_RUNTIME_TEST_V8_IMAGE_H

#include <errno.h>
#include <string.h>

#include "runtime/v8_int.h"

#define TEST_V8_START 0x7f0000000000ull
#define TEST_V8_BYTES (256u << 10)

struct test_v8 {
	struct v8_build build;
	_Alignas(8) uint8_t memory[TEST_V8_BYTES];
	size_t used;
	uint64_t maps[V8_TYPES];
	uint64_t string_maps[16]; /* by the low bits of the type */
	uint64_t array_map;
	bool is_gone;
};

static inline int test_v8_read(void *context, uint64_t address, void *to, size_t bytes)
{
	const struct test_v8 *v8 = context;
	uint64_t at = address - TEST_V8_START;

	if (v8->is_gone || at > TEST_V8_BYTES || TEST_V8_BYTES - at < bytes)
		return -EFAULT;
	memcpy(to, v8->memory + at, bytes);
	return 0;
}

static inline uint8_t *test_v8_at(struct test_v8 *v8, uint64_t address)
{
	return v8->memory + (address - TEST_V8_START);
}

static inline void test_v8_put(struct test_v8 *v8, uint64_t object, uint64_t offset, const void *from, size_t bytes)
{
	memcpy(test_v8_at(v8, object - 1) + offset, from, bytes);
}

static inline void test_v8_word(struct test_v8 *v8, uint64_t object, uint64_t offset, uint64_t word)
{
	test_v8_put(v8, object, offset, &word, sizeof(word));
}

static inline uint64_t test_v8_number(int64_t number)
{
	return (uint64_t)number << 32;
}

/* A tagged address. */
static inline uint64_t test_v8_make(struct test_v8 *v8, uint64_t map, size_t bytes)
{
	uint64_t object = TEST_V8_START + v8->used + 1;

	v8->used += (bytes + 63) & ~(size_t)63;
	test_v8_word(v8, object, 0, map);
	return object;
}

static inline uint64_t test_v8_map(struct test_v8 *v8, uint16_t type)
{
	uint64_t map = test_v8_make(v8, 0, 64);

	test_v8_put(v8, map, v8->build.layout.map_type, &type, sizeof(type));
	return map;
}

static inline void test_v8_init(struct test_v8 *v8, uint32_t major, uint32_t minor)
{
	memset(v8, 0, sizeof(*v8));
	v8->used = 64;
	v8->build.major = major;
	v8->build.minor = minor;
	v8_layout_of(major, minor, &v8->build.layout);
	v8->build.bytecode_count = 16;
	for (size_t scale = 0; scale < 3; scale++)
		memset(v8->build.bytecode_sizes[scale], 2 + (int)scale, 16);
	for (size_t i = 0; i < V8_TYPES; i++)
		v8->maps[i] = test_v8_map(v8, v8->build.layout.types[i]);
	for (uint16_t i = 0; i < 16; i++)
		v8->string_maps[i] = test_v8_map(v8, i);
	v8->array_map = test_v8_map(v8, 0xfff0);
}

/* One byte a character. */
static inline uint64_t test_v8_string(struct test_v8 *v8, const char *text)
{
	uint32_t length = (uint32_t)strlen(text);
	uint64_t string = test_v8_make(v8, v8->string_maps[8], 16 + length);

	test_v8_put(v8, string, 12, &length, sizeof(length));
	test_v8_put(v8, string, 16, text, length);
	return string;
}

static inline uint64_t test_v8_bytes(struct test_v8 *v8, const void *data, size_t bytes)
{
	uint64_t array = test_v8_make(v8, v8->array_map, 16 + bytes);

	test_v8_word(v8, array, 8, test_v8_number((int64_t)bytes));
	test_v8_put(v8, array, 16, data, bytes);
	return array;
}

static inline uint64_t test_v8_array(struct test_v8 *v8, const uint64_t *words, size_t count)
{
	uint64_t array = test_v8_bytes(v8, words, count * 8);

	test_v8_word(v8, array, 8, test_v8_number((int64_t)count));
	return array;
}

static inline uint64_t test_v8_script(struct test_v8 *v8, const char *name, uint64_t source)
{
	uint64_t script = test_v8_make(v8, v8->maps[V8_TYPE_SCRIPT], 128);

	test_v8_word(v8, script, v8->build.layout.script_source, source);
	test_v8_word(v8, script, v8->build.layout.script_name, test_v8_string(v8, name));
	test_v8_word(v8, script, 64, test_v8_number(7));
	return script;
}

/* A scope with two variables. */
static inline uint64_t test_v8_scope(struct test_v8 *v8, const char *name, int64_t start)
{
	uint64_t scope = test_v8_make(v8, v8->maps[V8_TYPE_SCOPE], 160), at = 32;
	uint16_t flags = v8->build.layout.flags;
	uint64_t bits = 3ull << 12 | 1ull << 14 | (flags & V8_SCOPE_POSITIONS ? 4 : 2);

	if (flags & V8_SCOPE_RECEIVER) {
		bits |= 1 << 7;
		at += 8;
	}
	test_v8_word(v8, scope, 8, flags & V8_SCOPE_POSITIONS ? bits : test_v8_number((int64_t)bits));
	test_v8_word(v8, scope, 24, test_v8_number(2));
	if (flags & V8_SCOPE_POSITIONS) {
		test_v8_word(v8, scope, 32, test_v8_number(start));
		at += 16;
	}
	at += 4 * 8;
	test_v8_word(v8, scope, at, name[0] == '.' ? test_v8_number(0) : test_v8_string(v8, name));
	test_v8_word(v8, scope, at + 16, name[0] == '.' ? test_v8_string(v8, name + 1) : v8->array_map);
	if (!(flags & V8_SCOPE_POSITIONS))
		test_v8_word(v8, scope, at + 24, test_v8_number(start));
	return scope;
}

/* name ".x": only an inferred name. */
static inline uint64_t test_v8_function(struct test_v8 *v8, const char *name, int64_t start, uint64_t script, uint64_t data)
{
	const struct v8_layout *layout = &v8->build.layout;
	uint64_t shared = test_v8_make(v8, v8->maps[V8_TYPE_SHARED], 128);
	uint32_t id = (uint32_t)start + 100;

	test_v8_word(v8, shared, layout->shared_data, data);
	test_v8_word(v8, shared, layout->walk.shared_scope, test_v8_scope(v8, name, start));
	test_v8_word(v8, shared, layout->walk.shared_script, script);
	test_v8_put(v8, shared, layout->walk.shared_id, &id, sizeof(id));
	return shared;
}

static inline uint64_t test_v8_bytecodes(struct test_v8 *v8, const void *codes, size_t bytes, uint64_t positions)
{
	const struct v8_layout *layout = &v8->build.layout;
	uint64_t object = test_v8_make(v8, v8->maps[V8_TYPE_BYTECODES], layout->bytecodes_data + bytes);

	test_v8_word(v8, object, 8, test_v8_number((int64_t)bytes));
	test_v8_word(v8, object, layout->bytecodes_positions, positions);
	test_v8_put(v8, object, layout->bytecodes_data, codes, bytes);
	return object;
}

/* Generated code of so many bytes. Returns its object; *ret_start: where the instructions begin. */
static inline uint64_t test_v8_code(struct test_v8 *v8, uint32_t kind, uint32_t bytes, uint64_t data, uint64_t positions,
				    uint64_t *ret_start)
{
	const struct v8_layout *layout = &v8->build.layout;
	bool has_stream = layout->types[V8_TYPE_STREAM] != 0;
	uint64_t code =
		test_v8_make(v8, v8->maps[V8_TYPE_CODE], layout->flags & V8_CODE_POINTS ? 128 : layout->code_start + bytes);

	*ret_start = code - 1 + layout->code_start;
	if (has_stream) {
		uint64_t stream = test_v8_make(v8, v8->maps[V8_TYPE_STREAM], 64 + bytes);
		test_v8_word(v8, stream, 8, code);
		*ret_start = stream - 1 + 32;
		test_v8_word(v8, code, layout->code_start, *ret_start);
	}
	test_v8_word(v8, code, layout->code_data, data);
	test_v8_word(v8, code, layout->code_positions, positions);
	test_v8_put(v8, code, layout->code_kind, &kind, sizeof(kind));
	test_v8_put(v8, code, layout->code_size, &bytes, sizeof(bytes));
	return code;
}

/* Word 1 of a frame of the function, and the check of word 2. */
static inline uint64_t test_v8_object(uint64_t shared)
{
	return RUNTIME_FRAME | (uint64_t)RUNTIME_KIND_V8 << 56 | (shared - 1);
}

static inline uint64_t test_v8_check(struct test_v8 *v8, uint64_t shared)
{
	const struct v8_process *walk = &v8->build.layout.walk;
	uint64_t words[V8_SHARED_WORDS];
	uint32_t id;

	memcpy(words, test_v8_at(v8, shared - 1), sizeof(words));
	memcpy(&id, test_v8_at(v8, shared - 1) + walk->shared_id, sizeof(id));
	return (uint64_t)runtime_check_of(words[walk->shared_scope / 8], words[walk->shared_script / 8], id) << 24;
}

/* An entry of a table of positions: offsets as they are, not what they are on. */
struct test_v8_positions {
	uint8_t data[256];
	size_t len;
	int64_t offset, position;
};
#define TEST_V8_POSITIONS ((struct test_v8_positions){.offset = -1})

static inline void test_v8_varint(struct test_v8_positions *out, uint64_t value)
{
	for (; value >= 128; value >>= 7)
		out->data[out->len++] = (uint8_t)(value | 128);
	out->data[out->len++] = (uint8_t)value;
}

static inline void test_v8_position(struct test_v8_positions *out, int64_t offset, int64_t script, int64_t inlining,
				    bool is_statement)
{
	int64_t position = (script + 1) << 1 | (inlining + 1) << 31, step = offset - out->offset;
	int64_t first = is_statement ? step : -step - 1, second = position - out->position;

	test_v8_varint(out, (uint64_t)first << 1 ^ (uint64_t)(first >> 63));
	test_v8_varint(out, (uint64_t)second << 1 ^ (uint64_t)(second >> 63));
	out->offset = offset;
	out->position = position;
}

#endif
