// SPDX-License-Identifier: Apache-2.0
/* Interpreters with a list of frames of their own (forge.c): CPython 3.11, PHP 8.2, Ruby 3.1. */
#include "forge.h"

#include <dlfcn.h>
#include <string.h>

#define TABLE_BYTES (256u << 10)

static uint64_t slot, template, text_template, table_template; /* slot: where the list begins */
static char *frames;

/* A text of an interpreter: a head, the length at 16, and the characters. Those that are alike are one. */
static uint64_t make_text(const char *text, uint64_t claimed, size_t head)
{
	static const char *last[2];
	static uint64_t last_object[2];
	unsigned which = *text == 'f';

	claimed = claimed == FORGE_FULL ? 0 : claimed;
	if (!claimed && last[which] == text)
		return last_object[which];
	size_t length = strlen(text);
	char *object = forge_copy(text_template, head, head + length + 8);

	memcpy(object + head, text, length + 1);
	forge_set(object, 16, claimed ? claimed : length);
	last[which] = claimed ? NULL : text;
	return last_object[which] = (uint64_t)object;
}

/* ---- CPython ---- */

enum {
	PY_THREAD_CFRAME = 56,
	PY_CFRAME_FRAME = 8,
	PY_FRAME_CODE = 32,
	PY_FRAME_BACK = 48,
	PY_FRAME_BYTES = 88,
	PY_CODE_FIRST_LINE = 72,
	PY_CODE_FILE = 112,
	PY_CODE_NAME = 128, /* qualified */
	PY_CODE_LINES = 136,
	PY_CODE_BYTES = 256,
	PY_TEXT_HEAD = 48,
	PY_BYTES_DATA = 32,
};

static int python_begin(void)
{
	uint64_t (*current)(void) = (uint64_t(*)(void))dlsym(RTLD_DEFAULT, "PyThreadState_Get");

	if (!current)
		return -1;
	slot = forge_word(current() + PY_THREAD_CFRAME) + PY_CFRAME_FRAME;
	template = forge_word(slot);
	text_template = forge_word(forge_word(template + PY_FRAME_CODE) + PY_CODE_NAME);
	table_template = forge_word(forge_word(template + PY_FRAME_CODE) + PY_CODE_LINES);
	return text_template && table_template ? 0 : -1;
}

static uint64_t python_name_slot(uint64_t code)
{
	return code + PY_CODE_NAME;
}
static void python_point(size_t i, uint64_t code)
{
	forge_set(frames, i * PY_FRAME_BYTES + PY_FRAME_CODE, code);
}

static uint64_t python_make(const char *name, const char *file, uint64_t claimed, uint32_t number)
{
	static uint64_t table;
	char *code = forge_copy(forge_word(template + PY_FRAME_CODE), PY_CODE_BYTES, PY_CODE_BYTES);

	if (claimed && !table)
		table = (uint64_t)forge_copy(table_template, PY_BYTES_DATA, PY_BYTES_DATA + TABLE_BYTES);
	forge_set(code, PY_CODE_NAME, make_text(name, claimed, PY_TEXT_HEAD));
	forge_set(code, PY_CODE_FILE, make_text(file, claimed, PY_TEXT_HEAD));
	if (claimed) {
		forge_set((void *)table, 16, claimed == FORGE_FULL ? TABLE_BYTES : claimed);
		forge_set(code, PY_CODE_LINES, table);
	}
	forge_set_half(code, PY_CODE_FIRST_LINE, number);
	return (uint64_t)code;
}

static void put_linked(const uint64_t *functions, size_t count, int is_cycle, size_t bytes, size_t function_offset,
		       size_t back_offset)
{
	frames = forge_alloc((count + 1) * bytes);
	for (size_t i = 0; i < count; i++) {
		memcpy(frames + i * bytes, (void *)template, bytes);
		forge_set(frames + i * bytes, function_offset, functions[i]);
		forge_set(frames + i * bytes, back_offset, (uint64_t)(frames + (i + 1 < count ? i + 1 : 0) * bytes));
	}
	if (!is_cycle)
		forge_set(frames + (count - 1) * bytes, back_offset, 0);
	forge_set((void *)slot, 0, (uint64_t)frames);
}

static void python_put(const uint64_t *functions, size_t count, int is_cycle)
{
	put_linked(functions, count, is_cycle, PY_FRAME_BYTES, PY_FRAME_CODE, PY_FRAME_BACK);
}

const struct forger forge_python = {
	.name = "python",
	.begin = python_begin,
	.make = python_make,
	.name_slot = python_name_slot,
	.point = python_point,
	.put = python_put,
};

/* ---- PHP ---- */

enum {
	PHP_GLOBALS_FRAME = 488,
	PHP_FRAME_FUNCTION = 24,
	PHP_FRAME_BACK = 48,
	PHP_FRAME_BYTES = 80,
	PHP_FUNCTION_NAME = 8,
	PHP_FUNCTION_FILE = 152,
	PHP_FUNCTION_FIRST_LINE = 160,
	PHP_FUNCTION_BYTES = 256,
	PHP_TEXT_HEAD = 24,
	PHP_IS_USER = 2,
};

static int php_begin(void)
{
	uint64_t globals = (uint64_t)dlsym(RTLD_DEFAULT, "executor_globals");

	slot = globals + PHP_GLOBALS_FRAME;
	for (template = globals ? forge_word(slot) : 0; template; template = forge_word(template + PHP_FRAME_BACK)) {
		uint64_t function = forge_word(template + PHP_FRAME_FUNCTION);
		text_template = forge_word(function + PHP_FUNCTION_NAME);
		if (function && (forge_word(function) & 0xff) == PHP_IS_USER && text_template)
			return 0;
	}
	return -1;
}

static uint64_t php_name_slot(uint64_t function)
{
	return function + PHP_FUNCTION_NAME;
}
static void php_point(size_t i, uint64_t function)
{
	forge_set(frames, i * PHP_FRAME_BYTES + PHP_FRAME_FUNCTION, function);
}

static uint64_t php_make(const char *name, const char *file, uint64_t claimed, uint32_t number)
{
	char *function = forge_copy(forge_word(template + PHP_FRAME_FUNCTION), PHP_FUNCTION_BYTES, PHP_FUNCTION_BYTES);

	forge_set(function, PHP_FUNCTION_NAME, make_text(name, claimed, PHP_TEXT_HEAD));
	forge_set(function, PHP_FUNCTION_FILE, make_text(file, claimed, PHP_TEXT_HEAD));
	forge_set_half(function, PHP_FUNCTION_FIRST_LINE, number);
	return (uint64_t)function;
}

static void php_put(const uint64_t *functions, size_t count, int is_cycle)
{
	put_linked(functions, count, is_cycle, PHP_FRAME_BYTES, PHP_FRAME_FUNCTION, PHP_FRAME_BACK);
}

const struct forger forge_php = {
	.name = "php",
	.begin = php_begin,
	.make = php_make,
	.name_slot = php_name_slot,
	.point = php_point,
	.put = php_put,
};

/* ---- Ruby ---- */

enum {
	RB_CONTEXT_STACK = 0,
	RB_CONTEXT_WORDS = 8,
	RB_CONTEXT_FRAME = 16,
	RB_FRAME_CODE = 16,
	RB_FRAME_BYTES = 64,
	RB_CODE_BODY = 16,
	RB_CODE_BYTES = 40,
	RB_BODY_PATH = 64,
	RB_BODY_LABEL = 80,
	RB_BODY_FIRST_LINE = 88,
	RB_BODY_LINES = 120,
	RB_BODY_LINES_COUNT = 136,
	RB_BODY_BYTES = 320,
	RB_TEXT_BYTES = 40,
	RB_TEXT_ELSEWHERE = 1 << 13,
	RB_ENTRIES_MAX = 32768,
	RB_ENTRY_BYTES = 12,
};

static int ruby_begin(void)
{
	uint64_t *current = dlsym(RTLD_DEFAULT, "ruby_current_ec");

	if (!current || !*current)
		return -1;
	slot = *current;
	template = forge_word(slot + RB_CONTEXT_FRAME);
	for (int i = 0; i < 32; i++, template += RB_FRAME_BYTES) {
		uint64_t body = forge_word(forge_word(template + RB_FRAME_CODE) + RB_CODE_BODY);
		text_template = body && forge_word(template) ? forge_word(body + RB_BODY_LABEL) : 0;
		if (text_template)
			return 0;
	}
	return -1;
}

/* Functions are instruction sequences; all but a pointer is in what that points to. */
static uint64_t ruby_name_slot(uint64_t code)
{
	return forge_word(code + RB_CODE_BODY) + RB_BODY_LABEL;
}
static void ruby_point(size_t i, uint64_t code)
{
	forge_set(frames, i * RB_FRAME_BYTES + RB_FRAME_CODE, code);
}

static uint64_t ruby_text(const char *text, uint64_t claimed)
{
	char *object = forge_copy(text_template, RB_TEXT_BYTES, RB_TEXT_BYTES), *data = forge_alloc(strlen(text) + 1);

	memcpy(data, text, strlen(text) + 1);
	forge_set_half(object, 0, (uint32_t)forge_word((uint64_t)object) | RB_TEXT_ELSEWHERE);
	forge_set(object, 16, claimed ? claimed : strlen(text));
	forge_set(object, 24, (uint64_t)data);
	return (uint64_t)object;
}

static uint64_t ruby_make(const char *name, const char *file, uint64_t claimed, uint32_t number)
{
	static uint64_t entries;
	char *body = forge_copy(forge_word(forge_word(template + RB_FRAME_CODE) + RB_CODE_BODY), RB_BODY_BYTES, RB_BODY_BYTES);
	char *code = forge_copy(forge_word(template + RB_FRAME_CODE), RB_CODE_BYTES, RB_CODE_BYTES);

	if (!entries)
		entries = (uint64_t)forge_alloc(RB_ENTRIES_MAX * RB_ENTRY_BYTES);
	forge_set(body, RB_BODY_LABEL, ruby_text(name, claimed == FORGE_FULL ? 0 : claimed));
	forge_set(body, RB_BODY_PATH, ruby_text(file, claimed == FORGE_FULL ? 0 : claimed));
	if (claimed) {
		forge_set(body, RB_BODY_LINES, entries);
		forge_set(body, RB_BODY_LINES_COUNT, claimed == FORGE_FULL ? RB_ENTRIES_MAX : claimed);
	}
	forge_set_half(body, RB_BODY_FIRST_LINE, number << 1 | 1);
	forge_set(code, RB_CODE_BODY, (uint64_t)body);
	return (uint64_t)code;
}

static void ruby_put(const uint64_t *functions, size_t count, int is_cycle)
{
	size_t frame_count = is_cycle ? 1u << 20 : count; /* they lie side by side: a stack without end stands for a cycle */

	frames = forge_alloc((frame_count + 1) * RB_FRAME_BYTES);
	for (size_t i = 0; i < frame_count; i++) {
		memcpy(frames + i * RB_FRAME_BYTES, (void *)template, RB_FRAME_BYTES);
		ruby_point(i, functions[i % count]);
	}
	forge_set((void *)slot, RB_CONTEXT_FRAME, (uint64_t)frames);
	forge_set((void *)slot, RB_CONTEXT_STACK, (uint64_t)frames);
	forge_set((void *)slot, RB_CONTEXT_WORDS, (frame_count + 1) * RB_FRAME_BYTES / 8);
}

const struct forger forge_ruby = {
	.name = "ruby",
	.begin = ruby_begin,
	.make = ruby_make,
	.name_slot = ruby_name_slot,
	.point = ruby_point,
	.put = ruby_put,
};
