// SPDX-License-Identifier: Apache-2.0
/*
 * Functions of PHP in another process: read once, with bounds on everything, since the process may have freed them, or be
 * lying. That it is the function which was sampled is seen by the check; texts are believed if they end with the byte 0 behind
 * as many characters as they say.
 */
#include "runtime/php.h"

#include <errno.h>
#include <string.h>

#define CLASS_NAME     8u  /* struct _zend_class_entry */
#define TEXT_LENGTH    16u /* struct _zend_string */
#define TEXT_DATA      24u
#define TEXT_BYTES_MAX (1u << 20) /* what is longer is no name */

struct function_reader {
	const struct php_layout *layout;
	const struct runtime_memory *memory;
	uint64_t function[LISTED_READ_WORDS];
};

static int read_memory(const struct function_reader *reader, uint64_t address, void *to, size_t len)
{
	return reader->memory->read(reader->memory->context, address, to, len);
}

/* Appends a zend_string: up to a NUL, behind which a class without a name has where it was declared. */
static int read_text(const struct function_reader *reader, uint64_t object, char *ret, size_t *len)
{
	uint8_t data[RUNTIME_NAME_BYTES_MAX];
	uint64_t length;
	char end;

	if (object & 7)
		return -EBADMSG;
	int r = read_memory(reader, object + TEXT_LENGTH, &length, sizeof(length));
	if (r < 0)
		return r;
	if (length > TEXT_BYTES_MAX)
		return -EBADMSG;
	r = read_memory(reader, object + TEXT_DATA + length, &end, 1);
	if (r < 0)
		return r;
	if (end)
		return -EBADMSG;
	size_t count = length < sizeof(data) ? (size_t)length : sizeof(data);
	r = count ? read_memory(reader, object + TEXT_DATA, data, count) : 0;
	if (r < 0)
		return r;
	runtime_name_append((struct bytes){data, strnlen((char *)data, count)}, ret, len);
	return 0;
}

/* "Class::", if it is a method. */
static int read_class(const struct function_reader *reader, char *ret, size_t *len)
{
	uint64_t class = reader->function[PHP_FUNCTION_CLASS / 8], name;

	if (!class)
		return 0;
	int r = class & 7 ? -EBADMSG : read_memory(reader, class + CLASS_NAME, &name, sizeof(name));
	if (r == 0)
		r = read_text(reader, name, ret, len);
	if (r == 0)
		runtime_name_append(bytes_of_string("::"), ret, len);
	return r;
}

static int read_name(const struct function_reader *reader, struct runtime_function *ret)
{
	uint64_t name = reader->function[PHP_FUNCTION_NAME / 8];
	size_t len = 0;

	if (!name) {
		runtime_name_append(bytes_of_string(PHP_MAIN_NAME), ret->name, &len);
		return 0;
	}
	int r = read_class(reader, ret->name, &len);
	return r < 0 ? r : read_text(reader, name, ret->name, &len);
}

static int read_file(const struct function_reader *reader, struct runtime_function *ret)
{
	uint32_t file = LISTED_CHECK_WORD(reader->layout->walk.function_file);
	size_t len = 0;

	ret->first_line = (uint32_t)reader->function[file + 1];
	return read_text(reader, reader->function[file], ret->file, &len);
}

int php_read_function(const struct php_layout *layout, const struct runtime_memory *memory, uint64_t address, uint32_t check,
		      struct runtime_function *ret)
{
	struct function_reader reader = {.layout = layout, .memory = memory};
	const struct php_process *walk = &layout->walk;

	*ret = (struct runtime_function){0};
	if (address & 7 || walk->function_bytes > sizeof(reader.function))
		return -EBADMSG;
	/* Functions that are written in C are shorter, and lie anywhere. */
	int r = read_memory(&reader, address, reader.function, walk->function_bytes);
	if (r < 0)
		r = read_memory(&reader, address, reader.function, walk->function_ops + 8);
	if (r < 0)
		return r;
	if (php_check_of(walk, (const __u64 *)reader.function) != check)
		return -ESTALE;
	uint8_t type = reader.function[PHP_FUNCTION_TYPE] & 0xff;
	if (type != PHP_FUNCTION_INTERNAL && type != PHP_FUNCTION_USER && type != PHP_FUNCTION_EVAL)
		return -EBADMSG;
	r = read_name(&reader, ret);
	return r < 0 || type == PHP_FUNCTION_INTERNAL ? r : read_file(&reader, ret);
}
