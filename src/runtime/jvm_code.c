// SPDX-License-Identifier: Apache-2.0
/*
 * Compiled code of another process: which methods are at a place in it. The compilers write down, for each place where a thread
 * may be stopped (calls, polls, what may fault), the bytecode that it belongs to, and the methods that were inlined up to
 *there:
 *
 *   PcDesc[]   offset in the code, offset in the scopes; by the former
 *   scopes	numbers (jvm_lines.c): the scope of the caller, 0 = none; number of the method in the nmethod's list, from 1;
 *the bytecode + 1; others
 *
 * A call is at such a place. Other instructions are told by the next one, as HotSpot itself does it: with optimised code that
 *may be another line, or another method that is inlined nearby.
 */
#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "runtime/jvm.h"

#define NMETHOD_BYTES_MAX 512u
#define PCS_MAX		  65536u
#define PC_BYTES_MAX	  64u
#define SCOPE_BYTES	  16u /* three numbers, and less if memory ends there */
#define SCOPE_BYTES_MIN	  3u
#define METHODS_MAX	  65536u
#define STUB_BYTES_MAX	  64u
#define CODE_BYTES_MAX	  (1u << 24)

struct code_reader {
	const struct jvm_layout *layout;
	const struct runtime_memory *memory;
	uint64_t address;
	uint8_t data[NMETHOD_BYTES_MAX];
	uint64_t code, scopes, pcs, methods;
	uint32_t pcs_count;
};

static int read_memory(const struct code_reader *reader, uint64_t address, void *to, size_t bytes)
{
	return reader->memory->read(reader->memory->context, address, to, bytes);
}

/* How much of an nmethod has all members that are looked at. */
static size_t nmethod_bytes(const struct jvm_layout *layout)
{
	size_t bytes = 0;

	for (enum jvm_field_name name = JVM_BLOB_NAME; name <= JVM_NMETHOD_METADATA_OFFSET; name++) {
		size_t end = layout->fields[name].offset + layout->fields[name].bytes;
		bytes = end > bytes ? end : bytes;
	}
	return bytes;
}

static uint64_t member(const struct code_reader *reader, enum jvm_field_name name)
{
	struct jvm_field field = reader->layout->fields[name];
	uint64_t value = 0;

	if (field.bytes <= sizeof(value) && field.offset + field.bytes <= sizeof(reader->data))
		memcpy(&value, reader->data + field.offset, field.bytes);
	return value;
}

static bool has(const struct code_reader *reader, enum jvm_field_name name)
{
	return reader->layout->fields[name].bytes != 0;
}

static int read_blob(struct code_reader *reader, size_t bytes)
{
	if (bytes > sizeof(reader->data))
		return -EBADMSG;
	int r = read_memory(reader, reader->address, reader->data, bytes);
	reader->code = has(reader, JVM_BLOB_CODE_OFFSET) ? reader->address + member(reader, JVM_BLOB_CODE_OFFSET)
							 : member(reader, JVM_BLOB_CODE_BEGIN);
	return r;
}

static void find_parts(struct code_reader *reader)
{
	uint64_t base = has(reader, JVM_NMETHOD_IMMUTABLE) ? member(reader, JVM_NMETHOD_IMMUTABLE) : reader->address, end;

	reader->scopes = has(reader, JVM_NMETHOD_SCOPES_BEGIN) ? member(reader, JVM_NMETHOD_SCOPES_BEGIN)
							       : base + member(reader, JVM_NMETHOD_SCOPES_OFFSET);
	reader->pcs = base + member(reader, JVM_NMETHOD_PCS_OFFSET);
	end = has(reader, JVM_NMETHOD_IMMUTABLE) ? reader->scopes : base + member(reader, JVM_NMETHOD_DEPENDENCIES_OFFSET);
	uint64_t count = end > reader->pcs ? (end - reader->pcs) / (uint64_t)reader->layout->numbers[JVM_SIZE_PC] : 0;
	reader->pcs_count = count < PCS_MAX ? (uint32_t)count : PCS_MAX;
	reader->methods = has(reader, JVM_NMETHOD_METADATA_OFFSET)
				  ? reader->address + member(reader, JVM_NMETHOD_METADATA_OFFSET)
				  : member(reader, JVM_BLOB_MUTABLE) + member(reader, JVM_BLOB_RELOCATION_SIZE);
}

static int32_t int_at(const uint8_t *data, struct jvm_field field)
{
	int32_t value;

	memcpy(&value, data + field.offset, sizeof(value));
	return value;
}

/* The place in the scopes for an offset in the code; 0 = there is none. */
static int find_scope(const struct code_reader *reader, uint32_t offset, uint32_t *ret)
{
	const struct jvm_field *fields = reader->layout->fields;
	size_t size = (size_t)reader->layout->numbers[JVM_SIZE_PC];

	*ret = 0;
	if (size > PC_BYTES_MAX || fields[JVM_PC_OFFSET].offset + 4 > size || fields[JVM_PC_SCOPE].offset + 4 > size)
		return -EBADMSG;
	_cleanup_(mem_freep) uint8_t *pcs = mem_alloc_array(reader->pcs_count, size);
	if (!pcs)
		return -ENOMEM;
	int r = reader->pcs_count ? read_memory(reader, reader->pcs, pcs, reader->pcs_count * size) : 0;
	if (r < 0)
		return r;
	for (size_t i = 0; i < reader->pcs_count; i++) {
		const uint8_t *pc = pcs + i * size;
		int32_t scope = int_at(pc, fields[JVM_PC_SCOPE]);
		if (scope <= 0)
			continue;
		*ret = (uint32_t)scope;
		if (int_at(pc, fields[JVM_PC_OFFSET]) >= (int32_t)offset)
			break;
	}
	return 0;
}

/* A scope; *ret_sender: where its caller's is, 0 = it has none. 1, or 0 if it names no method. */
static int read_scope(const struct code_reader *reader, uint32_t at, struct jvm_scope *ret, uint32_t *ret_sender)
{
	uint8_t data[SCOPE_BYTES];
	struct jvm_stream stream = {.data = {data, sizeof(data)}, .excludes_zero = jvm_excludes_zero(reader->layout)};

	while (read_memory(reader, reader->scopes + at, data, stream.data.len) < 0) {
		if (--stream.data.len < SCOPE_BYTES_MIN)
			return -EFAULT;
	}
	*ret_sender = jvm_take_number(&stream);
	uint32_t method = jvm_take_number(&stream);
	ret->place = (int32_t)(jvm_take_number(&stream) - 1);
	if (stream.is_bad || method > METHODS_MAX)
		return -EBADMSG;
	if (!method)
		return 0;
	int r = read_memory(reader, reader->methods + (uint64_t)(method - 1) * 8, &ret->method, sizeof(ret->method));
	return r < 0 ? r : ret->method && !(ret->method & 7) ? 1 : -EBADMSG;
}

static int read_chain(const struct code_reader *reader, uint32_t at, struct jvm_scope ret[static JVM_SCOPES_MAX])
{
	int count = 0;

	while (at && count < (int)JVM_SCOPES_MAX) {
		uint32_t sender;
		int r = read_scope(reader, at, &ret[count], &sender);
		if (r < 0)
			return r;
		if (r == 0)
			return count;
		if (sender >= at) /* a caller's was written before */
			return -EBADMSG;
		count++;
		at = sender;
	}
	return count;
}

int jvm_read_scopes(const struct jvm_layout *layout, const struct runtime_memory *memory, uint64_t address, uint32_t check,
		    uint32_t place, uint64_t leaf, struct jvm_scope ret[static JVM_SCOPES_MAX])
{
	struct code_reader reader = {.layout = layout, .memory = memory, .address = address};
	uint32_t scope;

	int r = read_blob(&reader, nmethod_bytes(layout));
	if (r < 0)
		return r;
	uint64_t method = member(&reader, JVM_NMETHOD_METHOD);
	if (runtime_check_of(method, reader.code, member(&reader, JVM_NMETHOD_ID)) != check)
		return -ESTALE;
	find_parts(&reader);
	r = find_scope(&reader, place == JVM_PLACE_LEAF ? (uint32_t)(leaf - reader.code) : place, &scope);
	if (r == 0)
		r = read_chain(&reader, scope, ret);
	if (r != 0)
		return r;
	/* A native method's, or nothing was written down. */
	ret[0] = (struct jvm_scope){.method = method, .place = -1};
	return method ? 1 : -EBADMSG;
}

int jvm_read_stub(const struct jvm_layout *layout, const struct runtime_memory *memory, uint64_t address, uint32_t check,
		  char ret[static JVM_NAME_BYTES_MAX])
{
	struct code_reader reader = {.layout = layout, .memory = memory, .address = address};
	size_t len = 0;

	ret[0] = 0;
	int r = read_blob(&reader, nmethod_bytes(layout));
	uint64_t name = member(&reader, JVM_BLOB_NAME);
	if (r == 0 && runtime_check_of(name, reader.code, 0) != check)
		r = -ESTALE;
	while (r == 0 && len < STUB_BYTES_MAX) {
		r = read_memory(&reader, name + len, ret + len, 1);
		if (r < 0 || !ret[len])
			break;
		if (ret[len] < 0x20 || ret[len] > 0x7e)
			r = -EBADMSG;
		len++;
	}
	ret[r < 0 ? 0 : len] = 0;
	return r < 0 ? r : len ? 0 : -EBADMSG;
}
