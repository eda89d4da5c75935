// SPDX-License-Identifier: Apache-2.0
/*
 * Virtual machines whose functions have frames on the thread's stack (forge.c): HotSpot, whose interpreter has a frame pointer,
 * the method 3 words below it and its bytecode 8; V8 with the function 2 words below it. Frames are found by going through the
 * stack: what looks like one is one.
 */
#include "forge.h"

#include <dlfcn.h>
#include <string.h>

#define FRAMES_MAX 4096u

static uint64_t frames[FRAMES_MAX], saved[FRAMES_MAX]; /* frame pointers, innermost first; and what they point to */
static size_t frame_count;

/* Puts the frame pointers that `is_frame` takes into frames. */
static int find_frames(int (*is_frame)(uint64_t fp))
{
	uint64_t from, to;

	forge_stack(&from, &to);
	for (uint64_t at = (from + 128) & ~7ull; at + 16 < to && frame_count < FRAMES_MAX; at += 8) {
		uint64_t next = *(uint64_t *)at;
		if (next <= at || next >= to || next & 7 || !is_frame(at))
			continue;
		frames[frame_count] = at;
		saved[frame_count++] = next;
	}
	return frame_count > 8 ? 0 : -1;
}

/* A frame pointer that comes back to itself, or all as they were. */
static void turn_frames(int is_cycle)
{
	for (size_t i = 0; i < frame_count; i++)
		forge_set((void *)frames[i], 0, is_cycle && i >= frame_count / 2 ? frames[frame_count / 2] : saved[i]);
}

/* ---- HotSpot ---- */

static struct {
	size_t method_const, const_pool, const_code_size, const_name, const_bytes, pool_holder, pool_bytes, klass_name,
		symbol_length, symbol_body;
	uint64_t method, constant, pool, holder, symbol;
} jvm;

#define JVM_METHOD_BYTES 256
#define JVM_CONST_BYTES	 1024
#define JVM_KLASS_BYTES	 512

/* The offset of a member, or the size of a type, in the tables that the virtual machine publishes. */
static size_t jvm_published(const char *type, const char *field)
{
	const uint64_t *table = dlsym(RTLD_DEFAULT, field ? "gHotSpotVMStructs" : "gHotSpotVMTypes");
	size_t words = field ? 6 : 5; /* of an entry */

	for (const uint64_t *entry = table ? (const uint64_t *)*table : NULL; entry && entry[0]; entry += words) {
		if (strcmp((const char *)entry[0], type) == 0 && (!field || strcmp((const char *)entry[1], field) == 0))
			return entry[4];
	}
	return 0;
}

static int jvm_is_frame(uint64_t fp)
{
	uint64_t method = forge_word(fp - 24), constant, bytecode = forge_word(fp - 64);

	constant = method && !(method & 7) ? forge_word(method + jvm.method_const) : 0;
	if (!constant || constant & 7 || bytecode < constant + jvm.const_bytes)
		return 0;
	return bytecode - constant - jvm.const_bytes < (forge_word(constant + jvm.const_code_size) & 0xffff);
}

static int jvm_begin(void)
{
	jvm.method_const = jvm_published("Method", "_constMethod");
	jvm.const_pool = jvm_published("ConstMethod", "_constants");
	jvm.const_code_size = jvm_published("ConstMethod", "_code_size");
	jvm.const_name = jvm_published("ConstMethod", "_name_index");
	jvm.const_bytes = jvm_published("ConstMethod", NULL);
	jvm.pool_holder = jvm_published("ConstantPool", "_pool_holder");
	jvm.pool_bytes = jvm_published("ConstantPool", NULL);
	jvm.klass_name = jvm_published("Klass", "_name");
	jvm.symbol_length = jvm_published("Symbol", "_length");
	jvm.symbol_body = jvm_published("Symbol", "_body");
	if (!jvm.method_const || !jvm.const_pool || !jvm.symbol_body || find_frames(jvm_is_frame) < 0)
		return -1;
	jvm.method = forge_word(frames[0] - 24);
	jvm.constant = forge_word(jvm.method + jvm.method_const);
	jvm.pool = forge_word(jvm.constant + jvm.const_pool);
	jvm.holder = forge_word(jvm.pool + jvm.pool_holder);
	jvm.symbol = forge_word(jvm.holder + jvm.klass_name);
	return jvm.symbol ? 0 : -1;
}

static uint64_t jvm_symbol(const char *text, uint64_t claimed)
{
	size_t length = strlen(text);
	char *symbol = forge_copy(jvm.symbol, jvm.symbol_body, jvm.symbol_body + length + 8);
	uint16_t says = (uint16_t)(claimed && claimed != FORGE_FULL ? claimed : length);

	memcpy(symbol + jvm.symbol_body, text, length + 1);
	memcpy(symbol + jvm.symbol_length, &says, sizeof(says));
	return (uint64_t)symbol;
}

static uint64_t jvm_name_slot(uint64_t method)
{
	return forge_word(method + jvm.method_const) + jvm.const_pool;
}

static void jvm_point(size_t i, uint64_t method)
{
	if (i >= frame_count)
		return;
	forge_set((void *)frames[i], (size_t)-64, forge_word(method + jvm.method_const) + jvm.const_bytes);
	forge_set((void *)frames[i], (size_t)-24, method);
}

/* Constants that all are the name. */
static uint64_t jvm_pool(const char *name, const char *file, uint64_t claimed)
{
	char *pool = forge_copy(jvm.pool, jvm.pool_bytes, jvm.pool_bytes + 65536 * 8);
	char *holder = forge_copy(jvm.holder, JVM_KLASS_BYTES, JVM_KLASS_BYTES);
	uint64_t symbol = jvm_symbol(name, claimed);

	for (size_t i = 0; i < 65536; i++)
		forge_set(pool, jvm.pool_bytes + i * 8, symbol);
	forge_set(holder, jvm.klass_name, jvm_symbol(file, claimed));
	forge_set(pool, jvm.pool_holder, (uint64_t)holder);
	forge_set_half(pool, jvm_published("ConstantPool", "_length"),
		       claimed && claimed != FORGE_FULL ? (uint32_t)claimed : 65535);
	return (uint64_t)pool;
}

static uint64_t jvm_make(const char *name, const char *file, uint64_t claimed, uint32_t number)
{
	static const char *last;
	static uint64_t pool;
	char *constant = forge_copy(jvm.constant, JVM_CONST_BYTES, JVM_CONST_BYTES);
	char *method = forge_copy(jvm.method, JVM_METHOD_BYTES, JVM_METHOD_BYTES);
	uint16_t name_at = (uint16_t)(1 + number % 60000);

	if (name != last || (claimed && claimed != FORGE_FULL))
		pool = jvm_pool(name, file, claimed);
	last = name;
	forge_set(constant, jvm.const_pool, pool);
	memcpy(constant + jvm.const_name, &name_at, sizeof(name_at));
	forge_set(method, jvm.method_const, (uint64_t)constant);
	return (uint64_t)method;
}

static void jvm_put(const uint64_t *functions, size_t count, int is_cycle)
{
	for (size_t i = 0; i < frame_count; i++)
		jvm_point(i, functions[i % count]);
	turn_frames(is_cycle);
}

const struct forger forge_jvm = {
	.name = "jvm",
	.begin = jvm_begin,
	.make = jvm_make,
	.name_slot = jvm_name_slot,
	.point = jvm_point,
	.put = jvm_put,
};

/* ---- V8 ---- */

enum {
	V8_FRAME_FUNCTION = -16,
	V8_FUNCTION_SHARED = 24,
	V8_FUNCTION_BYTES = 64,
	V8_SHARED_NAME = 16,
	V8_SHARED_SCRIPT = 32,
	V8_SHARED_ID = 52,
	V8_SHARED_BYTES = 80,
	V8_SCRIPT_SOURCE = 8,
	V8_SCRIPT_NAME = 16,
	V8_SCRIPT_LINES = 64,
	V8_SCRIPT_BYTES = 160,
	V8_TEXT_LENGTH = 12,
	V8_TEXT_DATA = 16,
	V8_TAG = 1,
};

static uint64_t v8_function, v8_shared, v8_script, v8_text;
static int v8_is_object(uint64_t word)
{
	return (word & 3) == V8_TAG && word >> 48 == 0 && word > 65536;
}
static uint64_t v8_member(uint64_t object, int offset)
{
	return v8_is_object(object) ? forge_word(object - V8_TAG + (uint64_t)offset) : 0;
}

static int v8_is_frame(uint64_t fp)
{
	uint64_t function = forge_word(fp + (uint64_t)V8_FRAME_FUNCTION), shared = v8_member(function, V8_FUNCTION_SHARED);
	uint64_t script = v8_member(shared, V8_SHARED_SCRIPT), name = v8_member(script, V8_SCRIPT_NAME);

	return v8_is_object(forge_word(fp - 8)) && v8_is_object(name) && v8_member(name, 0);
}

static int v8_begin(void)
{
	if (find_frames(v8_is_frame) < 0)
		return -1;
	v8_function = forge_word(frames[0] + (uint64_t)V8_FRAME_FUNCTION);
	v8_shared = v8_member(v8_function, V8_FUNCTION_SHARED);
	v8_script = v8_member(v8_shared, V8_SHARED_SCRIPT);
	v8_text = v8_member(v8_script, V8_SCRIPT_NAME);
	return 0;
}

static char *v8_copy(uint64_t object, size_t bytes, size_t room)
{
	return forge_copy(object - V8_TAG, bytes, room);
}

static uint64_t v8_string(const char *text, uint64_t claimed, size_t room)
{
	size_t length = strlen(text);
	char *string = v8_copy(v8_text, V8_TEXT_DATA, V8_TEXT_DATA + (room > length ? room : length) + 8);

	memcpy(string + V8_TEXT_DATA, text, length);
	forge_set_half(string, V8_TEXT_LENGTH, (uint32_t)(claimed ? claimed : length));
	return (uint64_t)string + V8_TAG;
}

static uint64_t v8_name_slot(uint64_t function)
{
	return forge_word(function + V8_FUNCTION_SHARED) - V8_TAG + V8_SHARED_NAME;
}

static void v8_point(size_t i, uint64_t function)
{
	if (i < frame_count)
		forge_set((void *)frames[i], (size_t)V8_FRAME_FUNCTION, function + V8_TAG);
}

static uint64_t v8_make(const char *name, const char *file, uint64_t claimed, uint32_t number)
{
	static const size_t source_bytes = 8u << 20;
	static uint64_t source;
	char *function = v8_copy(v8_function, V8_FUNCTION_BYTES, V8_FUNCTION_BYTES);
	char *shared = v8_copy(v8_shared, V8_SHARED_BYTES, V8_SHARED_BYTES),
	     *script = v8_copy(v8_script, V8_SCRIPT_BYTES, V8_SCRIPT_BYTES);
	uint64_t says = claimed == FORGE_FULL ? 0 : claimed;

	if (!source)
		source = v8_string("", source_bytes, source_bytes);
	forge_set(shared, V8_SHARED_NAME, v8_string(name, says, 0));
	forge_set(shared, V8_SHARED_SCRIPT, (uint64_t)script + V8_TAG);
	forge_set(script, V8_SCRIPT_NAME, v8_string(file, says, 0));
	if (claimed)
		forge_set(script, V8_SCRIPT_SOURCE, claimed == FORGE_FULL ? source : v8_string("x", claimed, 0));
	forge_set_half(shared, V8_SHARED_ID, number);
	forge_set(function, V8_FUNCTION_SHARED, (uint64_t)shared + V8_TAG);
	return (uint64_t)function;
}

static void v8_put(const uint64_t *functions, size_t count, int is_cycle)
{
	for (size_t i = 0; i < frame_count; i++)
		v8_point(i, functions[i % count]);
	turn_frames(is_cycle);
}

const struct forger forge_v8 = {
	.name = "v8",
	.begin = v8_begin,
	.make = v8_make,
	.name_slot = v8_name_slot,
	.point = v8_point,
	.put = v8_put,
};
