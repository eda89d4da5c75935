// SPDX-License-Identifier: Apache-2.0
/*
 * Code objects of another process: read once, with bounds on everything, since the process may have freed them, or be lying.
 * That an object is a code object is seen by the name of its type; that it is the one which was sampled, by the check.
 */
#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "base/text.h"
#include "runtime/python.h"

#define CODE_BYTES_MAX 512u
#define CHARACTERS_MAX 1024u /* of a str that are looked at */
#define TYPE_NAME      "code"

struct code_reader {
	const struct python_layout *layout;
	const struct runtime_memory *memory;
	uint8_t code[CODE_BYTES_MAX];
};

static uint64_t word_at(const uint8_t *data, uint32_t offset)
{
	uint64_t word;

	memcpy(&word, data + offset, sizeof(word));
	return word;
}

static int read_memory(const struct code_reader *reader, uint64_t address, void *to, size_t len)
{
	return reader->memory->read(reader->memory->context, address, to, len);
}

static uint32_t code_bytes(const struct python_layout *layout)
{
	uint32_t bytes = layout->walk.code_from + layout->walk.code_bytes;
	const uint32_t words[] = {layout->code_qualname, layout->code_file, layout->object_type};

	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		bytes = words[i] + 8 > bytes ? words[i] + 8 : bytes;
	return bytes;
}

static int check_type(const struct code_reader *reader)
{
	uint64_t type = word_at(reader->code, reader->layout->object_type), name;
	char text[sizeof(TYPE_NAME)];

	int r = read_memory(reader, type + reader->layout->type_name, &name, sizeof(name));
	if (r == 0)
		r = read_memory(reader, name, text, sizeof(text));
	if (r < 0)
		return -ESTALE;
	return memcmp(text, TYPE_NAME, sizeof(text)) == 0 ? 0 : -ESTALE;
}

/* How a str keeps its characters: by the bits of its state, which lie in the first byte up to 3.13, in the second of builds
 * without the GIL, and in the third since 3.14: what they have before it is below 4. */
static bool text_form(uint32_t state, unsigned *ret_width, bool *ret_is_ascii)
{
	unsigned bits = state >> 2;

	if (!(state & 0x20))
		bits = state & 0x0800 ? state >> 8 : state >> 16;
	*ret_width = bits & 7;
	*ret_is_ascii = bits >> 4 & 1;
	return bits & 8 && (*ret_width == 1 || *ret_width == 2 || *ret_width == 4);
}

static uint32_t character_at(const uint8_t *data, unsigned width, size_t i)
{
	uint32_t character = 0;

	memcpy(&character, data + i * width, width);
	return character;
}

/* As UTF-8, cut at a character. What would be no text is replaced. */
static int put_characters(const uint8_t *data, unsigned width, size_t count, char *ret)
{
	_cleanup_(buffer_release) struct buffer text = {.max = CHARACTERS_MAX * 4};

	for (size_t i = 0; i < count; i++) {
		uint32_t character = character_at(data, width, i);
		if (character < 0x20 || character == 0x7f || character > 0x10ffff ||
		    (character >= 0xd800 && character < 0xe000))
			character = 0xfffd;
		text_append_character(&text, character);
	}
	if (buffer_status(&text) < 0)
		return -ENOMEM;
	size_t len = text_cut(buffer_bytes(&text), PYTHON_NAME_BYTES_MAX - 1);
	if (len)
		memcpy(ret, text.data, len);
	ret[len] = 0;
	return 0;
}

static int read_text(const struct code_reader *reader, uint64_t object, char *ret)
{
	const struct python_layout *layout = reader->layout;
	uint8_t head[128], data[CHARACTERS_MAX * 4];
	unsigned width;
	bool is_ascii;
	uint32_t state;

	if (layout->text_compact > sizeof(head) || layout->text_state + 4 > layout->text_ascii ||
	    layout->text_length + 8 > layout->text_ascii)
		return -EBADMSG;
	int r = read_memory(reader, object, head, layout->text_ascii);
	if (r < 0)
		return r;
	memcpy(&state, head + layout->text_state, sizeof(state));
	uint64_t length = word_at(head, layout->text_length);
	if (!text_form(state, &width, &is_ascii) || length > UINT32_MAX)
		return -EBADMSG;
	size_t count = length < CHARACTERS_MAX ? (size_t)length : CHARACTERS_MAX;
	if (count)
		r = read_memory(reader, object + (is_ascii ? layout->text_ascii : layout->text_compact), data, count * width);
	if (r < 0)
		return r;
	return put_characters(data, width, count, ret);
}

static int read_lines(const struct code_reader *reader, uint64_t object, struct python_function *ret)
{
	uint64_t length;

	int r = read_memory(reader, object + reader->layout->bytes_length, &length, sizeof(length));
	if (r < 0)
		return r;
	if (length > PYTHON_LINES_BYTES_MAX) /* the first line stands for all */
		length = 0;
	ret->lines = mem_alloc(length + 1);
	if (!ret->lines)
		return -ENOMEM;
	if (length)
		r = read_memory(reader, object + reader->layout->bytes_data, ret->lines, length);
	if (r < 0)
		ret->lines = mem_free(ret->lines);
	ret->lines_bytes = r < 0 ? 0 : length;
	return r;
}

static int read_members(const struct code_reader *reader, struct python_function *ret)
{
	const struct python_layout *layout = reader->layout;
	uint32_t name = layout->code_qualname ? layout->code_qualname : layout->code_name;

	memcpy(&ret->first_line, reader->code + layout->code_first_line, sizeof(ret->first_line));
	int r = read_text(reader, word_at(reader->code, name), ret->name);
	if (r == 0)
		r = read_text(reader, word_at(reader->code, layout->code_file), ret->file);
	return r < 0 ? r : read_lines(reader, word_at(reader->code, layout->code_lines), ret);
}

int python_read_function(const struct python_layout *layout, const struct runtime_memory *memory, uint64_t address,
			 uint32_t check, struct python_function *ret)
{
	struct code_reader reader = {.layout = layout, .memory = memory};
	const struct python_process *walk = &layout->walk;
	uint32_t bytes = code_bytes(layout);

	*ret = (struct python_function){0};
	if (bytes > sizeof(reader.code) || walk->code_from + (LISTED_READ_WORDS - 1) * 8 + 8 > sizeof(reader.code))
		return -EBADMSG;
	int r = read_memory(&reader, address, reader.code, bytes);
	if (r < 0)
		return r;
	if (runtime_check_of(word_at(reader.code, walk->code_from + (walk->check0 & ~7u)),
			     word_at(reader.code, walk->code_from + (walk->check1 & ~7u)),
			     word_at(reader.code, walk->code_from + (walk->check2 & ~7u))) != check)
		return -ESTALE;
	r = check_type(&reader);
	if (r == 0)
		r = read_members(&reader, ret);
	if (r < 0)
		ret->lines = mem_free(ret->lines);
	return r;
}
