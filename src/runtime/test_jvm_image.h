/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by tests of HotSpot: memory of a process with the tables of one of its versions, two methods, and code. */
#ifndef WICK_RUNTIME_TEST_JVM_IMAGE_H
#define WICK_RUNTIME_TEST_JVM_IMAGE_H

#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "runtime/jvm.h"
#include "runtime/test_jvm_tables.h"

#define IMAGE_START	   0x7f0000000000ull
#define IMAGE_BYTES	   (1u << 20)
#define IMAGE_TABLES	   (IMAGE_START + 0x1000)
#define IMAGE_TEXTS	   (IMAGE_START + 0x20000)
#define IMAGE_VARIABLES	   (IMAGE_START + 0x40000) /* one of 8 bytes each */
#define IMAGE_HEAPS	   (IMAGE_START + 0x41000) /* the list, its items behind it */
#define IMAGE_HEAP	   (IMAGE_START + 0x42000)
#define IMAGE_STUBS	   (IMAGE_START + 0x43000)
#define IMAGE_SEGMENTS	   (IMAGE_START + 0x44000)
#define IMAGE_METHODS	   (IMAGE_START + 0x50000) /* IMAGE_METHOD_BYTES each */
#define IMAGE_METHOD_BYTES 0x2000
#define IMAGE_CODE	   (IMAGE_START + 0x80000)
#define IMAGE_CODE_BYTES   0x40000u
#define IMAGE_INTERPRETER  (IMAGE_CODE + 0x1000)
#define IMAGE_BLOB	   (IMAGE_CODE + 0x8000) /* a block; its code is at IMAGE_BLOB + 0x400 */
#define IMAGE_BLOB_CODE	   (IMAGE_BLOB + 0x400)
#define IMAGE_STACK	   (IMAGE_START + 0xe0000)
#define IMAGE_CLASSES	   (IMAGE_START + 0x60000) /* IMAGE_CLASS_BYTES each */
#define IMAGE_CLASS_BYTES  0x4000
#define IMAGE_SHIFT	   7

struct image {
	uint8_t data[IMAGE_BYTES];
	uint64_t texts, variables;
	struct jvm_build build;
	struct jvm_layout layout;
	struct runtime_memory memory;
	size_t reads;
};

static inline int image_read(void *context, uint64_t address, void *to, size_t bytes)
{
	struct image *image = context;

	image->reads++;
	if (address < IMAGE_START || address - IMAGE_START > IMAGE_BYTES || IMAGE_BYTES - (address - IMAGE_START) < bytes)
		return -EFAULT;
	memcpy(to, image->data + (address - IMAGE_START), bytes);
	return 0;
}

static inline void image_put(struct image *image, uint64_t address, const void *from, size_t bytes)
{
	assert_true(address >= IMAGE_START && address - IMAGE_START + bytes <= IMAGE_BYTES);
	memcpy(image->data + (address - IMAGE_START), from, bytes);
}

static inline void image_put_word(struct image *image, uint64_t address, uint64_t word)
{
	image_put(image, address, &word, sizeof(word));
}

static inline uint64_t image_text(struct image *image, const char *text)
{
	uint64_t at = image->texts;

	image_put(image, at, text, strlen(text) + 1);
	image->texts += strlen(text) + 1;
	return at;
}

static inline void image_put_field(struct image *image, uint64_t object, enum jvm_field_name name, uint64_t value)
{
	struct jvm_field field = image->layout.fields[name];

	if (field.bytes)
		image_put(image, object + field.offset, &value, field.bytes);
}

/* ---- tables: entries as HotSpot's structs are laid out ---- */

static inline uint64_t image_put_fields(struct image *image, uint64_t at, const struct test_jvm_field *fields,
					const char *without)
{
	for (; fields->type; fields++) {
		if (without && strcmp(fields->field, without) == 0)
			continue;
		image_put_word(image, at, image_text(image, fields->type));
		image_put_word(image, at + 8, image_text(image, fields->field));
		image_put_word(image, at + 16, image_text(image, fields->kind));
		if (fields->offset == UINT64_MAX) {
			image_put(image, at + 24, &(int){1}, sizeof(int));
			image_put_word(image, at + 40, IMAGE_VARIABLES + image->variables++ * 8);
		} else {
			image_put_word(image, at + 32, fields->offset);
		}
		at += 48;
	}
	return at + 48;
}

static inline uint64_t image_put_numbers(struct image *image, uint64_t at, const struct test_jvm_number *numbers,
					 uint32_t value, uint32_t stride)
{
	for (; numbers->name; numbers++, at += stride) {
		image_put_word(image, at, image_text(image, numbers->name));
		image_put_word(image, at + value, (uint64_t)numbers->value);
	}
	return at + stride;
}

static inline void image_put_symbol(struct image *image, enum jvm_symbol symbol, uint64_t value)
{
	image_put_word(image, IMAGE_START + 0x100 + symbol * 8, value);
	image->build.symbols[symbol] = 0x100 + symbol * 8;
}

static inline void image_put_tables(struct image *image, const struct test_jvm_tables *tables, const char *without)
{
	static const uint8_t of_fields[] = {0, 8, 16, 24, 32, 40, 48};
	uint64_t types = image_put_fields(image, IMAGE_TABLES, tables->fields, without);
	uint64_t numbers = image_put_numbers(image, types, tables->types, 32, 40);

	image_put_numbers(image, numbers, tables->constants, 8, 16);
	image_put_symbol(image, JVM_SYMBOL_STRUCTS, IMAGE_TABLES);
	for (enum jvm_symbol i = JVM_SYMBOL_STRUCT_TYPE; i <= JVM_SYMBOL_STRUCT_STRIDE; i++)
		image_put_symbol(image, i, of_fields[i - JVM_SYMBOL_STRUCT_TYPE]);
	image_put_symbol(image, JVM_SYMBOL_TYPES, types);
	image_put_symbol(image, JVM_SYMBOL_TYPE_NAME, 0);
	image_put_symbol(image, JVM_SYMBOL_TYPE_SIZE, 32);
	image_put_symbol(image, JVM_SYMBOL_TYPE_STRIDE, 40);
	image_put_symbol(image, JVM_SYMBOL_INTS, numbers);
	image_put_symbol(image, JVM_SYMBOL_INT_NAME, 0);
	image_put_symbol(image, JVM_SYMBOL_INT_VALUE, 8);
	image_put_symbol(image, JVM_SYMBOL_INT_STRIDE, 16);
}

static inline int image_read_layout(struct image *image, struct error *err)
{
	return jvm_read_layout(&image->build, IMAGE_START, &image->memory, &image->layout, err);
}

/* The tables of a version, and its number; `without` a member. Not yet read. */
static inline struct image *image_new(const struct test_jvm_tables *tables, const char *without)
{
	struct image *image = mem_zalloc(sizeof(*image));

	assert_non_null(image);
	image->texts = IMAGE_TEXTS;
	image->memory = (struct runtime_memory){.read = image_read, .context = image};
	image_put_tables(image, tables, without);
	const struct test_jvm_field *field = tables->fields;
	uint64_t at = IMAGE_VARIABLES;
	for (; field->type; field++) {
		if (field->offset != UINT64_MAX)
			continue;
		if (strcmp(field->field, "_vm_major_version") == 0)
			image_put_word(image, at, tables->version);
		else if (strcmp(field->field, "_s_vm_release") == 0)
			image_put_word(image, at, image_text(image, "17.0.15+6-Debian"));
		at += 8;
	}
	return image;
}

/* ---- code heaps ---- */

static inline void image_put_heaps(struct image *image)
{
	const struct jvm_field *fields = image->layout.fields;
	uint64_t memory = IMAGE_HEAP + fields[JVM_HEAP_MEMORY].offset, map = IMAGE_HEAP + fields[JVM_HEAP_SEGMENTS].offset;

	image_put_word(image, image->layout.variables[JVM_VARIABLE_HEAPS], IMAGE_HEAPS);
	image_put_word(image, IMAGE_HEAPS + fields[JVM_ARRAY_DATA].offset, IMAGE_HEAPS + 0x100);
	image_put_field(image, IMAGE_HEAPS, JVM_ARRAY_LENGTH, 1);
	image_put_word(image, IMAGE_HEAPS + 0x100, IMAGE_HEAP);
	image_put_word(image, memory + fields[JVM_SPACE_LOW_BOUNDARY].offset, IMAGE_CODE);
	image_put_word(image, memory + fields[JVM_SPACE_LOW].offset, IMAGE_CODE);
	image_put_word(image, memory + fields[JVM_SPACE_HIGH_BOUNDARY].offset, IMAGE_CODE + IMAGE_CODE_BYTES);
	image_put_word(image, map + fields[JVM_SPACE_LOW].offset, IMAGE_SEGMENTS);
	image_put_field(image, IMAGE_HEAP, JVM_HEAP_SHIFT, IMAGE_SHIFT);
	image_put_word(image, image->layout.variables[JVM_VARIABLE_INTERPRETER], IMAGE_STUBS);
	image_put_field(image, IMAGE_STUBS, JVM_STUBS_BUFFER, IMAGE_INTERPRETER);
	image_put_field(image, IMAGE_STUBS, JVM_STUBS_LIMIT, 0x4000);
	memset(image->data + (IMAGE_SEGMENTS - IMAGE_START), 0xff, IMAGE_CODE_BYTES >> IMAGE_SHIFT);
}

/* A block, 64 segments long, with hops of at most 20. Its code is 0x400 behind its start. */
static inline void image_put_block_at(struct image *image, uint64_t at, const char *name, uint32_t kind, uint32_t frame_words)
{
	const struct jvm_layout *layout = &image->layout;
	uint64_t blob = at + (uint64_t)layout->numbers[JVM_SIZE_BLOCK], code = at + (IMAGE_BLOB_CODE - IMAGE_BLOB);
	uint8_t *segments = image->data + (IMAGE_SEGMENTS - IMAGE_START) + ((at - IMAGE_CODE) >> IMAGE_SHIFT);

	for (unsigned i = 0; i < 64; i++)
		segments[i] = (uint8_t)(i < 20 ? i : 20);
	image->data[at - IMAGE_START + layout->fields[JVM_BLOCK_USED].offset] = 1;
	image_put_field(image, blob, JVM_BLOB_NAME, image_text(image, name));
	image_put_field(image, blob, JVM_BLOB_KIND, kind);
	image_put_field(image, blob, JVM_BLOB_FRAME_SIZE, frame_words);
	image_put_field(image, blob, JVM_BLOB_CODE_BEGIN, code);
	image_put_field(image, blob, JVM_BLOB_CODE_OFFSET, code - blob);
}

static inline void image_put_block(struct image *image, const char *name, uint32_t kind, uint32_t frame_words)
{
	image_put_block_at(image, IMAGE_BLOB, name, kind, frame_words);
}

static inline uint64_t image_blob(const struct image *image)
{
	return IMAGE_BLOB + (uint64_t)image->layout.numbers[JVM_SIZE_BLOCK];
}

/* ---- methods ---- */

static inline uint64_t image_put_symbol_text(struct image *image, uint64_t at, const char *text)
{
	image_put_field(image, at, JVM_SYMBOL_REFERENCES, 0x70001);
	image_put_field(image, at, JVM_SYMBOL_LENGTH, strlen(text));
	image_put(image, at + image->layout.fields[JVM_SYMBOL_BODY].offset, text, strlen(text));
	return at;
}

/* Method number i with 40 bytes of bytecodes. Returns its address; its ConstMethod is 0x100 behind it. */
static inline uint64_t image_put_method(struct image *image, unsigned i, const char *class, const char *name, const char *file,
					struct bytes lines)
{
	const struct jvm_layout *layout = &image->layout;
	uint64_t method = IMAGE_METHODS + (uint64_t)i * IMAGE_METHOD_BYTES, constant = method + 0x100, pool = method + 0x400;
	uint64_t entries = pool + (uint64_t)layout->numbers[JVM_SIZE_POOL], class_at = method + 0x800;

	image_put_field(image, method, JVM_METHOD_CONST, constant);
	image_put_field(image, constant, JVM_CONST_POOL, pool);
	image_put_field(image, constant, JVM_CONST_FLAGS, lines.len ? (uint64_t)layout->numbers[JVM_CONSTANT_HAS_LINES] : 0);
	image_put_field(image, constant, JVM_CONST_CODE_SIZE, 40);
	image_put_field(image, constant, JVM_CONST_WORDS, 0x40);
	image_put_field(image, constant, JVM_CONST_NAME, 3);
	image_put_field(image, constant, JVM_CONST_SIGNATURE, 4);
	if (lines.len)
		image_put(image, constant + (uint64_t)layout->numbers[JVM_SIZE_CONST] + 40, lines.data, lines.len);
	image_put_field(image, pool, JVM_POOL_HOLDER, class_at);
	image_put_field(image, pool, JVM_POOL_LENGTH, 8);
	image_put_field(image, pool, JVM_POOL_FILE, file ? 5 : 0);
	image_put_field(image, class_at, JVM_CLASS_FILE, file ? 5 : 0);
	image_put_field(image, class_at, JVM_KLASS_NAME, image_put_symbol_text(image, method + 0xc00, class));
	image_put_word(image, entries + 3 * 8, image_put_symbol_text(image, method + 0x1000, name));
	if (file)
		image_put_word(image, entries + 5 * 8, image_put_symbol_text(image, method + 0x1800, file));
	return method;
}

/* ---- classes that HotSpot knows ---- */

struct image_field {
	const char *name;
	uint8_t offset, flags; /* 1: there is an initial value, too */
};

/* Class number i, with its pool 0x800 and its symbols 0x1000 behind it. Entry n of the pool is the name of field n, from 1 on;
 * those of methods follow. */
static inline uint64_t image_put_class(struct image *image, unsigned i, const char *name, uint32_t bytes,
				       const struct image_field *fields, uint8_t count)
{
	const struct jvm_layout *layout = &image->layout;
	uint64_t class = IMAGE_CLASSES + (uint64_t)(i + 1) * IMAGE_CLASS_BYTES, pool = class + 0x800, list = class + 0x400;
	uint64_t entries = pool + (uint64_t)layout->numbers[JVM_SIZE_POOL], symbols = class + 0x1000;
	uint8_t stream[256] = {(uint8_t)(count + 1), 1};
	uint32_t len = 2;

	image_put_word(image, IMAGE_CLASSES + i * 8, class);
	image_put_field(image, class, JVM_KLASS_NAME, image_put_symbol_text(image, symbols, name));
	image_put_field(image, class, JVM_KLASS_LAYOUT, bytes | 1);
	image_put_field(image, class, JVM_CLASS_POOL, pool);
	image_put_field(image, class, JVM_CLASS_FIELDS, list);
	for (uint8_t k = 0; k < count; k++) {
		const uint8_t numbers[] = {k + 1, 40, fields[k].offset, 2, fields[k].flags, 7};
		symbols += 0x80;
		image_put_word(image, entries + (uint64_t)(k + 1) * 8, image_put_symbol_text(image, symbols, fields[k].name));
		for (size_t n = 0; n < 5u + fields[k].flags; n++)
			stream[len++] = (uint8_t)(numbers[n] + 1);
	}
	image_put_field(image, list, JVM_LIST_LENGTH, len);
	image_put(image, list + layout->fields[JVM_LIST_BYTES].offset, stream, len);
	return class;
}

/* Method number k of a class; its code. Returns its address. */
static inline uint64_t image_put_class_method(struct image *image, uint64_t class, unsigned k, const char *name, uint64_t code)
{
	const struct jvm_layout *layout = &image->layout;
	uint64_t method = class + 0x2000 + k * 0x400ull, list = class + 0x600;
	uint64_t entries = class + 0x800 + (uint64_t)layout->numbers[JVM_SIZE_POOL];

	image_put_field(image, class, JVM_CLASS_METHODS, list);
	image_put_field(image, list, JVM_LIST_LENGTH, k + 1);
	image_put_word(image, list + layout->fields[JVM_LIST_METHODS].offset + k * 8ull, method);
	image_put_field(image, method, JVM_METHOD_CONST, method + 0x100);
	image_put_field(image, method, JVM_METHOD_CODE, code);
	image_put_field(image, method + 0x100, JVM_CONST_NAME, 20 + k);
	image_put_word(image, entries + (20ull + k) * 8, image_put_symbol_text(image, method + 0x200, name));
	return method;
}

#define IMAGE_CHUNK_BYTES 48u /* of a chunk's header */

/* Those of virtual threads, with the offsets of 21 and 25: enterSpecial() has its nmethod at `enter`. References have 4 bytes
 * or 8, by the distance. */
static inline void image_put_continuations(struct image *image, uint64_t enter, uint8_t reference)
{
	const struct image_field continuation[] = {
		{"target", 16, 1}, {"parent", 24, 0}, {"child", (uint8_t)(24 + reference), 0}, {"tail", 40, 0}};
	const struct image_field chunk[] = {{"parent", 40, 0}, {"size", 12, 0}, {"sp", 24, 0}, {"bottom", 28, 0}};

	image_put_word(image, image->layout.variables[JVM_VARIABLE_CLASSES], 0);
	image->layout.variables[JVM_VARIABLE_CLASSES] = IMAGE_CLASSES;
	image_put_class(image, 0, "java/lang/Object", 16, NULL, 0);
	uint64_t class = image_put_class(image, 1, "jdk/internal/vm/Continuation", 48, continuation, 4);
	image_put_class(image, 2, "jdk/internal/vm/StackChunk", IMAGE_CHUNK_BYTES, chunk, 4);
	image_put_class_method(image, class, 0, "run", 0);
	image_put_class_method(image, class, 1, "enterSpecial", enter);
	image_put_class_method(image, class, 2, "doYield", 0);
	image_put_word(image, image->layout.variables[JVM_VARIABLE_OOP_BASE], IMAGE_START - 0x1000);
	image_put_word(image, image->layout.variables[JVM_VARIABLE_OOP_SHIFT], 3);
}

#endif
