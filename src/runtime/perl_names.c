// SPDX-License-Identifier: Apache-2.0
/*
 * Subroutines and statements of Perl in another process: read once, with bounds on everything, since the process may have freed
 * them, or be lying. That it is what was sampled is seen by the check, and what kind of value an address has by its flags.
 *
 *   subroutine (CV) -> glob (GV) -> {name (HEK), package (HV) -> name (HEK)}
 *                   -> name (HEK), package          with CV_NAMED
 *   statement (COP) -> file, without threads a glob -> "_<file" (HEK)
 */
#include "runtime/perl.h"

#include <errno.h>
#include <string.h>

#include "base/text.h"

#define SV_GLOB	     9u
#define SV_HASH	     12u
#define SV_HASH_OOK  0x2000000u /* the hash has a name, and other extras */
#define CV_PACKAGE   32u	/* in a CV's body */
#define CV_FLAGS     92u
#define CV_BYTES     96u
#define CV_NAMED     0x8000u
#define GLOB_NAME    32u /* in a glob's body */
#define GLOB_PACKAGE 40u
#define GLOB_BYTES   48u
#define GLOB_DATA    16u /* of the value: struct gp */
#define DATA_GLOB    56u /* in it: the glob that has the name, if it is another one */
#define HASH_ARRAY   16u /* of the value */
#define HASH_MAX     24u /* in a hash's body */
#define HASH_BYTES   32u
#define EXTRAS_NAME  0u
#define EXTRAS_NAMES 28u
#define EXTRAS_BYTES 32u
#define NAME_LENGTH  4u /* struct hek */
#define NAME_DATA    8u
#define FILE_BEFORE  2u	    /* of a file's glob: "_<" */
#define TEXT_MAX     65536u /* what is longer is no name */
#define PAGE	     4096u

struct reader {
	const struct perl_layout *layout;
	const struct runtime_memory *memory;
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

static int read_memory(const struct reader *reader, uint64_t address, void *to, size_t len)
{
	return reader->memory->read(reader->memory->context, address, to, len);
}

/* A value of a type: `value` (PERL_SV_BYTES) and `bytes` of its body. */
static int read_value(const struct reader *reader, uint64_t address, uint32_t type, uint8_t *value, uint8_t *body, size_t bytes)
{
	if (!address || address & 7)
		return -EBADMSG;
	int r = read_memory(reader, address, value, PERL_SV_BYTES);
	if (r < 0)
		return r;
	if (PERL_SV_TYPE(half_at(value, PERL_SV_FLAGS)) != type)
		return -EBADMSG;
	return read_memory(reader, word_at(value, PERL_SV_BODY), body, bytes);
}

/* ---- texts ---- */

/* `data`: room for RUNTIME_NAME_BYTES_MAX; as much of the name as fits. */
static int read_name(const struct reader *reader, uint64_t address, uint8_t *data, size_t *ret_len)
{
	uint32_t length;

	if (!address || address & 3)
		return -EBADMSG;
	int r = read_memory(reader, address + NAME_LENGTH, &length, sizeof(length));
	if (r < 0)
		return r;
	if (length > TEXT_MAX)
		return -EBADMSG;
	*ret_len = length < RUNTIME_NAME_BYTES_MAX ? length : RUNTIME_NAME_BYTES_MAX;
	return *ret_len ? read_memory(reader, address + NAME_DATA, data, *ret_len) : 0;
}

static int append_name(const struct reader *reader, uint64_t address, char *ret, size_t *len)
{
	uint8_t data[RUNTIME_NAME_BYTES_MAX];
	size_t count;

	int r = read_name(reader, address, data, &count);
	if (r == 0)
		runtime_name_append((struct bytes){data, count}, ret, len);
	return r;
}

/* What is given to eval is "(eval 17)", and so on, anew each time: for a profile that is one file. */
static bool is_eval_number(struct bytes path)
{
	size_t digits = 0;

	if (path.len < 8 || memcmp(path.data, "(eval ", 6) != 0 || path.data[path.len - 1] != ')')
		return false;
	for (size_t i = 6; i < path.len - 1; i++)
		digits += text_is_digit(path.data[i]);
	return digits == path.len - 7;
}

static void append_path(struct bytes path, char *ret)
{
	size_t len = 0;

	runtime_name_append(is_eval_number(path) ? bytes_of_string("(eval)") : path, ret, &len);
}

/* Up to a NUL; no further than it is, since nothing may lie behind it. */
static int read_path(const struct reader *reader, uint64_t address, char *ret)
{
	uint8_t data[RUNTIME_NAME_BYTES_MAX];
	size_t done = 0;

	while (address && done < sizeof(data)) {
		size_t some = PAGE - ((address + done) & (PAGE - 1));
		some = some < sizeof(data) - done ? some : sizeof(data) - done;
		int r = read_memory(reader, address + done, data + done, some);
		if (r < 0)
			return r;
		size_t text = strnlen((char *)data + done, some);
		done += text;
		if (text < some)
			break;
	}
	append_path((struct bytes){data, done}, ret);
	return 0;
}

/* ---- names ---- */

static int append_package(const struct reader *reader, uint64_t address, char *ret, size_t *len)
{
	uint8_t value[PERL_SV_BYTES], body[HASH_BYTES], extras[EXTRAS_BYTES];

	int r = read_value(reader, address, SV_HASH, value, body, sizeof(body));
	if (r < 0)
		return r;
	if (!(half_at(value, PERL_SV_FLAGS) & SV_HASH_OOK))
		return -EBADMSG;
	uint64_t at = word_at(value, PERL_SV_BODY) + HASH_BYTES;
	if (!reader->layout->has_inline_hash_extras)
		at = word_at(value, HASH_ARRAY) + (word_at(body, HASH_MAX) + 1) * 8;
	r = read_memory(reader, at, extras, sizeof(extras));
	uint64_t name = word_at(extras, EXTRAS_NAME);
	if (r == 0 && half_at(extras, EXTRAS_NAMES)) /* it has several */
		r = read_memory(reader, name, &name, sizeof(name));
	if (r == 0)
		r = append_name(reader, name, ret, len);
	if (r == 0)
		runtime_name_append(bytes_of_string("::"), ret, len);
	return r;
}

/* Package::name; a name without a package, which was deleted, is shown by itself. */
static int append_qualified(const struct reader *reader, uint64_t package, uint64_t name, char *ret)
{
	size_t len = 0;

	if (!package || append_package(reader, package, ret, &len) < 0)
		len = 0;
	ret[len] = 0;
	return append_name(reader, name, ret, &len);
}

static int read_glob(const struct reader *reader, uint64_t address, char *ret)
{
	uint8_t value[PERL_SV_BYTES], body[GLOB_BYTES], other[PERL_SV_BYTES];
	uint64_t named;

	int r = read_value(reader, address, SV_GLOB, value, body, sizeof(body));
	if (r < 0)
		return r;
	/* As caller() names it. */
	uint64_t data = word_at(value, GLOB_DATA);
	if (data && read_memory(reader, data + DATA_GLOB, &named, sizeof(named)) == 0 && named && named != address) {
		uint8_t named_body[GLOB_BYTES];
		if (read_value(reader, named, SV_GLOB, other, named_body, sizeof(named_body)) == 0)
			memcpy(body, named_body, sizeof(body));
	}
	return append_qualified(reader, word_at(body, GLOB_PACKAGE), word_at(body, GLOB_NAME), ret);
}

static int read_sub(const struct reader *reader, uint64_t address, uint32_t check, struct runtime_function *ret)
{
	uint8_t value[PERL_SV_BYTES], body[CV_BYTES];

	int r = read_value(reader, address, PERL_SV_CV, value, body, sizeof(body));
	if (r < 0)
		return r == -EBADMSG && !(address & 7) ? -ESTALE : r;
	if (runtime_check_of(word_at(body, PERL_CV_NAME), word_at(body, PERL_CV_FILE), word_at(body, PERL_CV_START)) != check)
		return -ESTALE;
	if (half_at(body, CV_FLAGS) & CV_NAMED)
		r = append_qualified(reader, word_at(body, CV_PACKAGE), word_at(body, PERL_CV_NAME), ret->name);
	else
		r = read_glob(reader, word_at(body, PERL_CV_NAME), ret->name);
	return r < 0 ? r : read_path(reader, word_at(body, PERL_CV_FILE), ret->file);
}

/* The file that a glob stands for. */
static int read_file_glob(const struct reader *reader, uint64_t address, char *ret)
{
	uint8_t value[PERL_SV_BYTES], body[GLOB_BYTES], data[RUNTIME_NAME_BYTES_MAX];
	size_t len;

	int r = read_value(reader, address, SV_GLOB, value, body, sizeof(body));
	if (r == 0)
		r = read_name(reader, word_at(body, GLOB_NAME), data, &len);
	if (r == 0 && len >= FILE_BEFORE)
		append_path((struct bytes){data + FILE_BEFORE, len - FILE_BEFORE}, ret);
	return r;
}

static int read_statement(const struct reader *reader, uint64_t address, uint32_t kind, uint32_t check,
			  struct runtime_function *ret)
{
	uint8_t data[PERL_COP_BYTES];
	size_t len = 0;

	if (!address)
		return -ESTALE;
	int r = read_memory(reader, address + PERL_COP_FROM, data, sizeof(data));
	if (r < 0)
		return r;
	uint64_t file = word_at(data, PERL_COP_FILE - PERL_COP_FROM);
	if (runtime_check_of(file, half_at(data, PERL_COP_LINE - PERL_COP_FROM), kind) != check)
		return -ESTALE;
	runtime_name_append(bytes_of_string(kind == PERL_OBJECT_EVAL ? "(eval)" : "(main)"), ret->name, &len);
	return reader->layout->has_file_globs ? read_file_glob(reader, file, ret->file) : read_path(reader, file, ret->file);
}

int perl_read_function(const struct perl_layout *layout, const struct runtime_memory *memory, uint64_t object, uint32_t check,
		       struct runtime_function *ret)
{
	const struct reader reader = {.layout = layout, .memory = memory};
	uint32_t kind = object & 3;

	*ret = (struct runtime_function){0};
	switch (kind) {
	case PERL_OBJECT_SUB: return read_sub(&reader, object, check, ret);
	case PERL_OBJECT_EVAL:
	case PERL_OBJECT_MAIN: return read_statement(&reader, object & ~3ull, kind, check, ret);
	}
	return -EBADMSG;
}
