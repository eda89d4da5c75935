// SPDX-License-Identifier: Apache-2.0
/*
 * Methods of another process: read once, with bounds on everything, since the process may have unloaded their class, or be
 * lying. That a Method is the one which was sampled is seen by the check.
 *
 *   Method -> ConstMethod -> ConstantPool -> InstanceKlass -> Symbol (name of the class)
 *	       |  bytecodes     | entries -> Symbol (names of the method and of the file)
 *	       |  table of lines
 */
#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "base/text.h"
#include "runtime/jvm.h"

#define POOL_ENTRY_BYTES 8u
#define CONST_BYTES_MAX	 128u
#define POOL_BYTES_MAX	 128u
#define SYMBOL_BYTES_MAX 32u /* of its members before the text */
#define TEXT_BYTES_MAX	 (JVM_NAME_BYTES_MAX / 2)
#define HIDDEN_MARK	 "+0x" /* in the name of a hidden class, before its address */

static int read_memory(const struct runtime_memory *memory, uint64_t address, void *to, size_t bytes)
{
	return memory->read(memory->context, address, to, bytes);
}

static uint64_t word_at(const uint8_t *data, uint32_t offset)
{
	uint64_t word;

	memcpy(&word, data + offset, sizeof(word));
	return word;
}

/* A number of 2 or 4 bytes; 0 if the field is not there or not within `size`. */
static uint32_t number_at(const uint8_t *data, size_t size, struct jvm_field field)
{
	uint32_t number = 0;

	if (field.bytes && field.bytes <= sizeof(number) && field.offset + field.bytes <= size)
		memcpy(&number, data + field.offset, field.bytes);
	return number;
}

struct method_reader {
	const struct jvm_layout *layout;
	const struct runtime_memory *memory;
	uint64_t constant; /* address of the ConstMethod */
	uint8_t data[CONST_BYTES_MAX];
	uint64_t pool;
	uint8_t pool_data[POOL_BYTES_MAX];
	uint32_t pool_count;
};

/* ---- the method ---- */

static int read_const(struct method_reader *reader, uint64_t address)
{
	const struct jvm_layout *layout = reader->layout;
	size_t bytes = (size_t)layout->numbers[JVM_SIZE_CONST];

	if (bytes > sizeof(reader->data) || layout->fields[JVM_CONST_POOL].offset + 8 > bytes)
		return -EBADMSG;
	int r = read_memory(reader->memory, address + layout->fields[JVM_METHOD_CONST].offset, &reader->constant,
			    sizeof(reader->constant));
	if (r == 0 && (!reader->constant || reader->constant & 7))
		r = -ESTALE;
	if (r == 0)
		r = read_memory(reader->memory, reader->constant, reader->data, bytes);
	if (r == 0)
		reader->pool = word_at(reader->data, layout->fields[JVM_CONST_POOL].offset);
	return r;
}

static uint32_t const_number(const struct method_reader *reader, enum jvm_field_name name)
{
	return number_at(reader->data, sizeof(reader->data), reader->layout->fields[name]);
}

static uint32_t check_of(const struct method_reader *reader)
{
	return runtime_check_of(reader->constant, reader->pool,
				jvm_method_word(const_number(reader, JVM_CONST_CODE_SIZE), const_number(reader, JVM_CONST_NAME),
						const_number(reader, JVM_CONST_SIGNATURE)));
}

int jvm_method_check(const struct jvm_layout *layout, const struct runtime_memory *memory, uint64_t address, uint32_t *ret)
{
	struct method_reader reader = {.layout = layout, .memory = memory};

	int r = read_const(&reader, address);
	if (r == 0)
		*ret = check_of(&reader);
	return r;
}

/* ---- names ---- */

static int read_pool(struct method_reader *reader)
{
	const struct jvm_layout *layout = reader->layout;
	size_t bytes = (size_t)layout->numbers[JVM_SIZE_POOL];

	if (bytes > sizeof(reader->pool_data) || layout->fields[JVM_POOL_HOLDER].offset + 8 > bytes)
		return -EBADMSG;
	int r = read_memory(reader->memory, reader->pool, reader->pool_data, bytes);
	reader->pool_count = number_at(reader->pool_data, bytes, layout->fields[JVM_POOL_LENGTH]);
	return r < 0 ? r : reader->pool_count && reader->pool_count <= 0xffff ? 0 : -EBADMSG;
}

/* Appends the text of a Symbol. HotSpot's is UTF-8 with two forms of its own, for 0 and for what has a surrogate pair. */
static int append_symbol(const struct method_reader *reader, uint64_t address, struct buffer *out)
{
	const struct jvm_field *fields = reader->layout->fields;
	uint8_t head[SYMBOL_BYTES_MAX], text[TEXT_BYTES_MAX];

	if (fields[JVM_SYMBOL_BODY].offset > sizeof(head))
		return -EBADMSG;
	int r = !address || address & 7 ? -EBADMSG : read_memory(reader->memory, address, head, fields[JVM_SYMBOL_BODY].offset);
	if (r < 0)
		return r;
	/* Nobody refers to those of a class that was unloaded. */
	if (fields[JVM_SYMBOL_REFERENCES].bytes &&
	    !(uint16_t)number_at(head, fields[JVM_SYMBOL_BODY].offset, fields[JVM_SYMBOL_REFERENCES]))
		return -ESTALE;
	size_t len = number_at(head, fields[JVM_SYMBOL_BODY].offset, fields[JVM_SYMBOL_LENGTH]);
	if (!len)
		return -EBADMSG;
	len = len < sizeof(text) ? len : sizeof(text);
	r = read_memory(reader->memory, address + fields[JVM_SYMBOL_BODY].offset, text, len);
	if (r < 0)
		return r;
	for (size_t i = 0; i < len; i++) {
		if (text[i] < 0x20 || text[i] == 0x7f)
			return -EBADMSG;
	}
	return text_append_utf8(out, (struct bytes){text, text_cut((struct bytes){text, len}, sizeof(text) - 1)});
}

static int append_entry(const struct method_reader *reader, uint32_t index, struct buffer *out)
{
	uint64_t symbol;

	if (!index || index >= reader->pool_count)
		return -EBADMSG;
	int r = read_memory(reader->memory,
			    reader->pool + (uint64_t)reader->layout->numbers[JVM_SIZE_POOL] +
				    (uint64_t)index * POOL_ENTRY_BYTES,
			    &symbol, sizeof(symbol));
	return r < 0 ? r : append_symbol(reader, symbol, out);
}

/* As people write it: dots, and without the address of a hidden class, which is another one in each process. */
static void beautify_class(struct buffer *name)
{
	for (size_t i = 0; i < name->len; i++) {
		if (name->data[i] == '/')
			name->data[i] = '.';
		if (i + strlen(HIDDEN_MARK) <= name->len && memcmp(name->data + i, HIDDEN_MARK, strlen(HIDDEN_MARK)) == 0) {
			buffer_truncate(name, i);
			return;
		}
	}
}

static uint64_t holder_of(const struct method_reader *reader)
{
	return word_at(reader->pool_data, reader->layout->fields[JVM_POOL_HOLDER].offset);
}

static void copy_name(const struct buffer *from, char to[static JVM_NAME_BYTES_MAX])
{
	size_t len = text_cut(buffer_bytes(from), JVM_NAME_BYTES_MAX - 1);

	if (len)
		memcpy(to, from->data, len);
	to[len] = 0;
}

static int read_name(const struct method_reader *reader, struct jvm_method *ret)
{
	_cleanup_(buffer_release) struct buffer name = {.max = JVM_NAME_BYTES_MAX * 8};
	uint64_t symbol;

	int r = read_memory(reader->memory, holder_of(reader) + reader->layout->fields[JVM_KLASS_NAME].offset, &symbol,
			    sizeof(symbol));
	if (r == 0)
		r = append_symbol(reader, symbol, &name);
	if (r < 0)
		return r;
	beautify_class(&name);
	buffer_append_byte(&name, '.');
	r = append_entry(reader, const_number(reader, JVM_CONST_NAME), &name);
	if (buffer_status(&name) < 0)
		return -ENOMEM;
	if (r == 0)
		copy_name(&name, ret->name);
	return r;
}

/* Class files need not tell it. */
static int read_file(const struct method_reader *reader, struct jvm_method *ret)
{
	const struct jvm_layout *layout = reader->layout;
	_cleanup_(buffer_release) struct buffer file = {.max = JVM_NAME_BYTES_MAX * 4};
	uint32_t index = number_at(reader->pool_data, sizeof(reader->pool_data), layout->fields[JVM_POOL_FILE]);
	struct jvm_field of_class = layout->fields[JVM_CLASS_FILE];
	uint16_t number;

	if (!layout->fields[JVM_POOL_FILE].bytes && of_class.bytes == sizeof(number) &&
	    read_memory(reader->memory, holder_of(reader) + of_class.offset, &number, sizeof(number)) == 0)
		index = number;
	if (!index)
		return 0;
	int r = append_entry(reader, index, &file);
	if (buffer_status(&file) < 0)
		return -ENOMEM;
	if (r == 0)
		copy_name(&file, ret->file);
	return r;
}

/* ---- lines ---- */

/* How many bytes of a table count; the smallest line of it. */
static size_t measure_lines(struct bytes lines, bool excludes_zero, uint32_t *ret_first)
{
	struct jvm_stream stream = {.data = lines, .excludes_zero = excludes_zero};
	uint32_t line = 0, first = 0;

	while (stream.at < lines.len && lines.data[stream.at]) {
		uint8_t byte = lines.data[stream.at++];
		if (byte == 0xff) {
			jvm_take_signed(&stream);
			line += (uint32_t)jvm_take_signed(&stream);
		} else {
			line += byte & 7;
		}
		if (!stream.is_bad && line && line <= 0xffff && (!first || line < first))
			first = line;
	}
	*ret_first = first;
	return stream.at;
}

static int read_lines(const struct method_reader *reader, struct jvm_method *ret)
{
	const struct jvm_layout *layout = reader->layout;
	uint64_t begin = (uint64_t)layout->numbers[JVM_SIZE_CONST] + const_number(reader, JVM_CONST_CODE_SIZE);
	uint64_t end = (uint64_t)const_number(reader, JVM_CONST_WORDS) * 8;

	if (!layout->has_number[JVM_CONSTANT_HAS_LINES] || begin >= end ||
	    !(const_number(reader, JVM_CONST_FLAGS) & (uint64_t)layout->numbers[JVM_CONSTANT_HAS_LINES]))
		return 0;
	size_t bytes = end - begin < JVM_LINES_BYTES_MAX ? end - begin : JVM_LINES_BYTES_MAX;
	ret->lines = mem_alloc(bytes);
	if (!ret->lines)
		return -ENOMEM;
	int r = read_memory(reader->memory, reader->constant + begin, ret->lines, bytes);
	if (r == 0)
		ret->lines_bytes =
			measure_lines((struct bytes){ret->lines, bytes}, jvm_excludes_zero(layout), &ret->first_line);
	return r;
}

int jvm_read_method(const struct jvm_layout *layout, const struct runtime_memory *memory, uint64_t address, uint32_t check,
		    struct jvm_method *ret)
{
	struct method_reader reader = {.layout = layout, .memory = memory};

	*ret = (struct jvm_method){0};
	int r = read_const(&reader, address);
	if (r == 0 && check_of(&reader) != check)
		r = -ESTALE;
	if (r == 0)
		r = read_pool(&reader);
	if (r == 0)
		r = read_name(&reader, ret);
	if (r == 0)
		r = read_file(&reader, ret);
	if (r == 0)
		r = read_lines(&reader, ret);
	if (r < 0)
		ret->lines = mem_free(ret->lines);
	return r;
}
