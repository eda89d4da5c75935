// SPDX-License-Identifier: Apache-2.0
/*
 * Whether a file holds V8: node, libnode, or another program that V8 is linked into. Names of files say nothing. What counts is
 * the version, in four variables, and the symbols for debuggers, v8dbg_*; those that lack them are not V8 or built without.
 *
 * The builtins are one block of code in the file, without call frame information. Symbols of it are local, and stripped files
 * lack them; but two functions of a few instructions return its address and its size.
 */
#include <errno.h>
#include <string.h>

#include "elf/elf_symbols.h"
#include "runtime/v8_int.h"

#define BUILTINS_BYTES_MAX (64u << 20)
#define FUNCTION_BYTES	   32u

enum name {
	NAME_MAJOR,
	NAME_MINOR,
	NAME_BUILD,
	NAME_PATCH,
	NAME_TAGGED_BYTES,
	NAMES,
};
enum part { /* looked up in files that hold V8 */
	    PART_BUILTINS,
	    PART_BUILTINS_SIZE,
	    PART_BYTECODE_SIZES,
	    PARTS,
};

static const char *const names[NAMES] = {
	[NAME_MAJOR] = "_ZN2v88internal7Version6major_E", [NAME_MINOR] = "_ZN2v88internal7Version6minor_E",
	[NAME_BUILD] = "_ZN2v88internal7Version6build_E", [NAME_PATCH] = "_ZN2v88internal7Version6patch_E",
	[NAME_TAGGED_BYTES] = "v8dbg_TaggedSize",
};
static const char *const parts[PARTS] = {
	[PART_BUILTINS] = "_ZN2v88internal23DefaultEmbeddedBlobCodeEv",
	[PART_BUILTINS_SIZE] = "_ZN2v88internal27DefaultEmbeddedBlobCodeSizeEv",
	[PART_BYTECODE_SIZES] = "_ZN2v88internal11interpreter9Bytecodes14kBytecodeSizesE",
};

/* Bytes at an address as linked. */
static int read_at(struct elf_file *file, uint64_t address, void *to, size_t len)
{
	uint64_t offset;

	if (!address || !elf_file_find_loaded(file, address, &offset))
		return -ENOENT;
	return elf_file_read(file, offset, to, len, NULL);
}

/* What a function returns that loads a constant, an address, or what lies at one, and does nothing else; 0 if it is another. */
static uint64_t value_of(struct elf_file *file, uint64_t function)
{
	static const uint8_t hint[] = {0xf3, 0x0f, 0x1e, 0xfa}, frame[] = {0x55, 0x48, 0x89, 0xe5};
	uint8_t code[FUNCTION_BYTES];
	uint64_t value = 0;
	int32_t number;
	size_t at = 0, bytes = 0; /* to be loaded from `value` */

	if (read_at(file, function, code, sizeof(code)) < 0)
		return 0;
	if (memcmp(code, hint, sizeof(hint)) == 0)
		at += sizeof(hint);
	if (memcmp(code + at, frame, sizeof(frame)) == 0)
		at += sizeof(frame);
	bool is_wide = code[at] == 0x48;
	at += is_wide;
	uint8_t opcode = code[at++];
	if (opcode == 0xb8 && !is_wide) { /* mov $number, %eax */
		memcpy(&number, code + at, sizeof(number));
		return (uint32_t)number;
	}
	if ((opcode != 0x8d && opcode != 0x8b) || code[at++] != 0x05) /* lea or mov number(%rip), %rax */
		return 0;
	memcpy(&number, code + at, sizeof(number));
	at += sizeof(number);
	value = function + at + (uint64_t)(int64_t)number;
	if (opcode == 0x8b)
		bytes = is_wide ? 8 : 4;
	else if (code[at] == 0x48 && code[at + 1] == 0x8b && !code[at + 2]) /* mov (%rax), %rax */
		bytes = 8;
	else if (code[at] == 0x8b && !code[at + 1]) /* mov (%rax), %eax */
		bytes = 4;
	uint64_t address = value;
	if (bytes)
		value = 0;
	return bytes && read_at(file, address, &value, bytes) < 0 ? 0 : value;
}

static int find_builtins(struct elf_file *file, const struct elf_named *found, struct v8_build *build, struct error *err)
{
	uint64_t start = value_of(file, found[PART_BUILTINS].address), size = value_of(file, found[PART_BUILTINS_SIZE].address);

	if (!start || !size || size > BUILTINS_BYTES_MAX || !elf_file_find_loaded(file, start, &build->builtins_offset))
		return error_set(err, -ENOTSUP, "V8 %u.%u whose builtins cannot be found in the file", build->major,
				 build->minor);
	build->builtins_start = start;
	build->builtins_end = start + size;
	return 0;
}

/* For each width, the bytes of each bytecode. */
static int find_bytecodes(struct elf_file *file, const struct elf_named *sizes, struct v8_build *build, struct error *err)
{
	uint32_t count = (uint32_t)(sizes->size / 3);
	int r = !count || count > V8_BYTECODES_MAX || sizes->size % 3 ? -ENOENT : 0;

	for (size_t i = 0; i < 3 && r == 0; i++)
		r = read_at(file, sizes->address + i * count, build->bytecode_sizes[i], count);
	if (r < 0)
		return error_set(err, -ENOTSUP, "V8 %u.%u whose bytecodes are not in the file", build->major, build->minor);
	build->bytecode_count = count;
	return 0;
}

static int find_parts(struct elf_file *file, struct v8_build *build, struct error *err)
{
	struct elf_named found[PARTS] = {0};

	for (size_t i = 0; i < PARTS; i++)
		found[i].name = parts[i];
	int r = elf_named_find_large(file, found, PARTS, err);
	if (r < 0)
		return r;
	r = find_builtins(file, found, build, err);
	return r < 0 ? r : find_bytecodes(file, &found[PART_BYTECODE_SIZES], build, err);
}

static int read_version(struct elf_file *file, const struct elf_named *found, struct v8_build *ret)
{
	int r = read_at(file, found[NAME_MAJOR].address, &ret->major, sizeof(ret->major));
	if (r == 0)
		r = read_at(file, found[NAME_MINOR].address, &ret->minor, sizeof(ret->minor));
	if (r == 0)
		r = read_at(file, found[NAME_BUILD].address, &ret->build, sizeof(ret->build));
	if (r == 0)
		r = read_at(file, found[NAME_PATCH].address, &ret->patch, sizeof(ret->patch));
	return r;
}

int v8_recognize(struct elf_file *file, struct v8_build *ret, struct error *err)
{
	struct elf_named found[NAMES] = {0};
	uint32_t tagged = 8;

	*ret = (struct v8_build){0};
	for (size_t i = 0; i < NAMES; i++)
		found[i].name = names[i];
	int r = elf_named_find(file, found, NAMES, err);
	if (r < 0)
		return r;
	if (!found[NAME_MAJOR].address || read_version(file, found, ret) < 0)
		return 0;
	if (!file->is_64 || file->machine != EM_X86_64)
		return error_set(err, -ENOTSUP, "V8 %u.%u for another machine than x86-64", ret->major, ret->minor);
	if (!v8_layout_of(ret->major, ret->minor, &ret->layout))
		return error_set(err, -ENOTSUP, "V8 %u.%u.%u, which is not known", ret->major, ret->minor, ret->build);
	if (found[NAME_TAGGED_BYTES].address)
		(void)read_at(file, found[NAME_TAGGED_BYTES].address, &tagged, sizeof(tagged));
	if (tagged != 8)
		return error_set(err, -ENOTSUP, "V8 %u.%u with compressed pointers", ret->major, ret->minor);
	r = find_parts(file, ret, err);
	if (r == 0)
		r = v8_layout_read(file, &ret->layout, &ret->from_table, err);
	return r < 0 ? r : 1;
}

void v8_place(const struct v8_build *build, uint32_t slot, struct v8_process *ret)
{
	*ret = build->layout.walk;
	ret->builtins_start = build->builtins_offset;
	ret->builtins_end = build->builtins_offset + (build->builtins_end - build->builtins_start);
	ret->slot = slot;
}
