// SPDX-License-Identifier: Apache-2.0
/*
 * Where the frames of virtual threads lie in Java's heap (see jvm.h): offsets in objects of two classes,
 * jdk.internal.vm.Continuation and StackChunk, and two methods of the former. HotSpot keeps classes that it knows by name in an
 * array, of which its tables have the first. What a class has for fields is a stream of packed numbers:
 *
 *   fields of Java, fields that HotSpot adds; each: name and signature (entries of the constant pool), offset, access, flags,
 *   and as the flags say: an initial value, a generic signature, a group
 */
#include <errno.h>
#include <string.h>

#include "runtime/jvm.h"

#define CLASSES_MAX	 256u /* that HotSpot knows by name; 113 to 116 */
#define METHODS_MAX	 256u
#define FIELDS_MAX	 64u
#define STREAM_BYTES_MAX 512u
#define POOL_ENTRIES_MAX 65536u
#define NAME_BYTES_MAX	 64u
#define OBJECT_BYTES_MAX 4096u
#define SHIFT_MAX	 8u
#define FIRST_VERSION	 21u

#define CONTINUATION "jdk/internal/vm/Continuation"
#define STACK_CHUNK  "jdk/internal/vm/StackChunk"

enum field_flags { FIELD_INITIALIZED = 1, FIELD_INJECTED = 2, FIELD_GENERIC = 4, FIELD_CONTENDED = 16 };

struct finder {
	const struct jvm_layout *layout;
	const struct runtime_memory *memory;
};

/* The class that is read. */
struct class_reader {
	const struct finder *finder;
	uint64_t class, pool;
};

static int read_memory(const struct finder *finder, uint64_t address, void *to, size_t bytes)
{
	return finder->memory->read(finder->memory->context, address, to, bytes);
}

static uint32_t offset_of(const struct finder *finder, enum jvm_field_name name)
{
	return finder->layout->fields[name].offset;
}

static int read_word(const struct finder *finder, uint64_t address, uint64_t *ret)
{
	return read_memory(finder, address, ret, sizeof(*ret));
}

/* Cut to NAME_BYTES_MAX - 1: no name that is wanted is as long. */
static int read_symbol(const struct finder *finder, uint64_t address, char ret[static NAME_BYTES_MAX])
{
	uint16_t len;

	int r = read_memory(finder, address + offset_of(finder, JVM_SYMBOL_LENGTH), &len, sizeof(len));
	if (r < 0)
		return r;
	size_t bytes = len < NAME_BYTES_MAX ? len : NAME_BYTES_MAX - 1;
	ret[bytes] = 0;
	return read_memory(finder, address + offset_of(finder, JVM_SYMBOL_BODY), ret, bytes);
}

/* The name that an entry of the class's constant pool has. */
static int read_pool_name(const struct class_reader *reader, uint32_t entry, char ret[static NAME_BYTES_MAX])
{
	uint64_t symbol = 0;

	if (entry >= POOL_ENTRIES_MAX)
		return -EBADMSG;
	int r = read_word(reader->finder,
			  reader->pool + (uint64_t)reader->finder->layout->numbers[JVM_SIZE_POOL] + (uint64_t)entry * 8,
			  &symbol);
	return r < 0 ? r : read_symbol(reader->finder, symbol, ret);
}

/* ---- classes ---- */

static int find_classes(const struct finder *finder, uint64_t *ret_continuation, uint64_t *ret_chunk)
{
	uint64_t classes = finder->layout->variables[JVM_VARIABLE_CLASSES], class, symbol;
	char name[NAME_BYTES_MAX];

	*ret_continuation = *ret_chunk = 0;
	for (size_t i = 0; i < CLASSES_MAX && !(*ret_continuation && *ret_chunk); i++) {
		int r = read_word(finder, classes + i * 8, &class);
		if (r < 0 || !class)
			return r < 0 ? r : -EAGAIN;
		r = read_word(finder, class + offset_of(finder, JVM_KLASS_NAME), &symbol);
		if (r == 0)
			r = read_symbol(finder, symbol, name);
		if (r < 0)
			return r;
		if (strcmp(name, CONTINUATION) == 0)
			*ret_continuation = class;
		else if (strcmp(name, STACK_CHUNK) == 0)
			*ret_chunk = class;
	}
	return *ret_continuation && *ret_chunk ? 0 : -ENOTSUP;
}

static int open_class(const struct finder *finder, uint64_t class, struct class_reader *ret)
{
	*ret = (struct class_reader){.finder = finder, .class = class};
	return read_word(finder, class + offset_of(finder, JVM_CLASS_POOL), &ret->pool);
}

/* ---- fields ---- */

struct wanted {
	const char *name;
	uint32_t *offset;
};

/* A field of Java from the stream. */
static int take_field(const struct class_reader *reader, struct jvm_stream *stream, const struct wanted *wanted, size_t count)
{
	char name[NAME_BYTES_MAX];
	uint32_t name_entry = jvm_take_number(stream);

	jvm_take_number(stream);
	uint32_t offset = jvm_take_number(stream);
	jvm_take_number(stream);
	uint32_t flags = jvm_take_number(stream);
	for (uint32_t flag = FIELD_INITIALIZED; flag <= FIELD_CONTENDED; flag <<= 1) {
		if (flags & flag & (FIELD_INITIALIZED | FIELD_GENERIC | FIELD_CONTENDED))
			jvm_take_number(stream);
	}
	if (stream->is_bad || flags & FIELD_INJECTED)
		return -EBADMSG;
	int r = read_pool_name(reader, name_entry, name);
	for (size_t i = 0; i < count && r == 0; i++) {
		if (strcmp(wanted[i].name, name) == 0)
			*wanted[i].offset = offset;
	}
	return r;
}

/* Offsets that are not found stay 0, at which no object has a field. */
static int find_fields(const struct class_reader *reader, const struct wanted *wanted, size_t count)
{
	const struct finder *finder = reader->finder;
	uint8_t data[STREAM_BYTES_MAX];
	uint64_t list = 0;
	uint32_t len = 0;

	int r = read_word(finder, reader->class + offset_of(finder, JVM_CLASS_FIELDS), &list);
	if (r == 0)
		r = read_memory(finder, list + offset_of(finder, JVM_LIST_LENGTH), &len, sizeof(len));
	if (r == 0 && len > sizeof(data))
		r = -EBADMSG;
	if (r == 0)
		r = read_memory(finder, list + offset_of(finder, JVM_LIST_BYTES), data, len);
	if (r < 0)
		return r;
	struct jvm_stream stream = {.data = {data, len}, .excludes_zero = jvm_excludes_zero(finder->layout)};
	uint32_t fields = jvm_take_number(&stream);
	jvm_take_number(&stream);
	if (stream.is_bad || fields > FIELDS_MAX)
		return -EBADMSG;
	for (uint32_t i = 0; i < fields && r == 0; i++)
		r = take_field(reader, &stream, wanted, count);
	for (size_t i = 0; i < count && r == 0; i++) {
		if (!*wanted[i].offset)
			return -ENOTSUP;
		if (*wanted[i].offset & 3 || *wanted[i].offset > OBJECT_BYTES_MAX)
			return -EBADMSG;
	}
	return r;
}

/* ---- methods ---- */

static int name_of_method(const struct class_reader *reader, uint64_t method, char ret[static NAME_BYTES_MAX])
{
	const struct finder *finder = reader->finder;
	uint64_t constant = 0;
	uint16_t entry = 0;

	int r = read_word(finder, method + offset_of(finder, JVM_METHOD_CONST), &constant);
	if (r == 0)
		r = read_memory(finder, constant + offset_of(finder, JVM_CONST_NAME), &entry, sizeof(entry));
	return r < 0 ? r : read_pool_name(reader, entry, ret);
}

static int find_methods(const struct class_reader *reader, struct jvm_frozen *ret)
{
	const struct finder *finder = reader->finder;
	char name[NAME_BYTES_MAX];
	uint64_t list = 0, method = 0;
	uint32_t count = 0;

	int r = read_word(finder, reader->class + offset_of(finder, JVM_CLASS_METHODS), &list);
	if (r == 0)
		r = read_memory(finder, list + offset_of(finder, JVM_LIST_LENGTH), &count, sizeof(count));
	if (r == 0 && count > METHODS_MAX)
		r = -EBADMSG;
	for (uint32_t i = 0; i < count && r == 0; i++) {
		r = read_word(finder, list + offset_of(finder, JVM_LIST_METHODS) + (uint64_t)i * 8, &method);
		if (r == 0)
			r = name_of_method(reader, method, name);
		if (r == 0 && strcmp(name, "enterSpecial") == 0)
			ret->enter_method = method;
		if (r == 0 && strcmp(name, "doYield") == 0)
			ret->yield_method = method;
	}
	return r < 0 ? r : ret->enter_method && ret->yield_method ? 0 : -ENOTSUP;
}

/* ---- references ---- */

/* Reads what a variable of ZGC has; 0 if there is none. ret_address: of the variable. */
static uint64_t read_z(const struct finder *finder, enum jvm_variable globals, enum jvm_field_name name, uint64_t *ret_address)
{
	uint64_t all = 0, value = 0;

	*ret_address = 0;
	if (!finder->layout->variables[globals] || !finder->layout->fields[name].bytes ||
	    read_word(finder, finder->layout->variables[globals], &all) < 0 || !all ||
	    read_word(finder, all + offset_of(finder, name), ret_address) < 0 || !*ret_address ||
	    read_word(finder, *ret_address, &value) < 0)
		return 0;
	return value;
}

/* bytes: of a reference in an object. */
static int find_references(const struct finder *finder, uint32_t bytes, struct jvm_frozen *ret)
{
	uint64_t unused, base = 0;
	uint32_t shift = 0;

	ret->oop_bytes = bytes;
	if (bytes == 8) {
		if (read_z(finder, JVM_VARIABLE_X, JVM_X_GOOD, &unused))
			return -ENOTSUP;
		if (!read_z(finder, JVM_VARIABLE_Z, JVM_Z_GOOD, &unused))
			return 0;
		read_z(finder, JVM_VARIABLE_Z, JVM_Z_BAD, &ret->color_bad);
		read_z(finder, JVM_VARIABLE_Z, JVM_Z_SHIFT, &ret->color_shift);
		return ret->color_bad && ret->color_shift ? 0 : -ENOTSUP;
	}
	if (bytes != 4 || !finder->layout->variables[JVM_VARIABLE_OOP_BASE] ||
	    !finder->layout->variables[JVM_VARIABLE_OOP_SHIFT])
		return -ENOTSUP;
	int r = read_word(finder, finder->layout->variables[JVM_VARIABLE_OOP_BASE], &base);
	if (r == 0)
		r = read_memory(finder, finder->layout->variables[JVM_VARIABLE_OOP_SHIFT], &shift, sizeof(shift));
	if (r == 0 && shift > SHIFT_MAX)
		r = -EBADMSG;
	ret->oop_base = base;
	ret->oop_shift = shift;
	return r;
}

/* ---- all ---- */

static bool has_tables(const struct jvm_layout *layout)
{
	static const enum jvm_field_name needed[] = {
		JVM_CLASS_POOL,	 JVM_CLASS_METHODS, JVM_CLASS_FIELDS, JVM_KLASS_LAYOUT,
		JVM_METHOD_CODE, JVM_LIST_LENGTH,   JVM_LIST_BYTES,   JVM_LIST_METHODS,
	};

	for (size_t i = 0; i < sizeof(needed) / sizeof(needed[0]); i++) {
		if (!layout->fields[needed[i]].bytes)
			return false;
	}
	return layout->version >= FIRST_VERSION && layout->variables[JVM_VARIABLE_CLASSES];
}

/* A chunk's words lie behind its fields; the size of these is what an object of the class has. */
static int find_stack(const struct class_reader *reader, uint32_t *ret)
{
	uint32_t size = 0;

	int r = read_memory(reader->finder, reader->class + offset_of(reader->finder, JVM_KLASS_LAYOUT), &size, sizeof(size));
	if (r < 0)
		return r;
	*ret = size & ~7u;
	return *ret > 8 && *ret <= JVM_CHUNK_WORDS * 8 ? 0 : -EBADMSG;
}

int jvm_find_frozen(const struct jvm_layout *layout, const struct runtime_memory *memory, struct jvm_frozen *ret)
{
	struct finder finder = {.layout = layout, .memory = memory};
	struct class_reader continuation = {0}, chunk = {0};
	uint32_t parent = 0, child = 0;

	*ret = (struct jvm_frozen){0};
	if (!has_tables(layout))
		return -ENOTSUP;
	int r = find_classes(&finder, &continuation.class, &chunk.class);
	if (r == 0)
		r = open_class(&finder, continuation.class, &continuation);
	if (r == 0)
		r = open_class(&finder, chunk.class, &chunk);
	if (r == 0)
		r = find_fields(&continuation,
				(struct wanted[]){{"tail", &ret->continuation_tail}, {"parent", &parent}, {"child", &child}},
				3);
	if (r == 0)
		r = find_fields(&chunk,
				(struct wanted[]){{"parent", &ret->chunk_parent},
						  {"size", &ret->chunk_size},
						  {"sp", &ret->chunk_sp},
						  {"bottom", &ret->chunk_bottom}},
				4);
	if (r == 0)
		r = find_stack(&chunk, &ret->chunk_stack);
	if (r == 0 &&
	    (ret->chunk_size >= ret->chunk_stack || ret->chunk_sp >= ret->chunk_stack || ret->chunk_bottom >= ret->chunk_stack))
		r = -EBADMSG;
	if (r == 0)
		r = find_methods(&continuation, ret);
	/* References are laid side by side. */
	return r < 0 ? r : find_references(&finder, child > parent ? child - parent : parent - child, ret);
}

void jvm_place_frozen(const struct jvm_layout *layout, const struct jvm_frozen *frozen, struct jvm_process *ret)
{
	ret->enter_method = frozen->enter_method;
	ret->yield_method = frozen->yield_method;
	ret->oop_base = frozen->oop_base;
	ret->oop_shift = frozen->oop_shift;
	ret->oop_bytes = frozen->oop_bytes;
	ret->color_bad = frozen->color_bad;
	ret->color_shift = frozen->color_shift;
	ret->method_code = layout->fields[JVM_METHOD_CODE].offset;
	ret->continuation_tail = frozen->continuation_tail;
	ret->chunk_parent = frozen->chunk_parent;
	ret->chunk_size = frozen->chunk_size;
	ret->chunk_sp = frozen->chunk_sp;
	ret->chunk_bottom = frozen->chunk_bottom;
	ret->chunk_stack = frozen->chunk_stack;
}
