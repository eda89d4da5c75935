// SPDX-License-Identifier: Apache-2.0
/*
 * HotSpot's tables for debuggers (see jvm.h): which file has them, and what they say in a process. Names are compared as they
 * lie in the process's memory, of which a few pages are kept: some 2,000 entries have 6,000 of them.
 */
#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "base/text.h"
#include "elf/elf_symbols.h"
#include "runtime/jvm.h"

#define READS_MAX	16384u /* of a process; 2,180 are usual */
#define ENTRIES_MAX	16384u
#define ENTRY_BYTES_MAX 256u
#define PAGE_BYTES	4096u
#define PAGES		16u
#define TEXT_BYTES_MAX	96u
#define OFFSET_MAX	65536u

static const char *const symbols[JVM_SYMBOLS] = {
	[JVM_SYMBOL_STRUCTS] = "gHotSpotVMStructs",
	[JVM_SYMBOL_STRUCT_TYPE] = "gHotSpotVMStructEntryTypeNameOffset",
	[JVM_SYMBOL_STRUCT_FIELD] = "gHotSpotVMStructEntryFieldNameOffset",
	[JVM_SYMBOL_STRUCT_KIND] = "gHotSpotVMStructEntryTypeStringOffset",
	[JVM_SYMBOL_STRUCT_STATIC] = "gHotSpotVMStructEntryIsStaticOffset",
	[JVM_SYMBOL_STRUCT_OFFSET] = "gHotSpotVMStructEntryOffsetOffset",
	[JVM_SYMBOL_STRUCT_ADDRESS] = "gHotSpotVMStructEntryAddressOffset",
	[JVM_SYMBOL_STRUCT_STRIDE] = "gHotSpotVMStructEntryArrayStride",
	[JVM_SYMBOL_TYPES] = "gHotSpotVMTypes",
	[JVM_SYMBOL_TYPE_NAME] = "gHotSpotVMTypeEntryTypeNameOffset",
	[JVM_SYMBOL_TYPE_SIZE] = "gHotSpotVMTypeEntrySizeOffset",
	[JVM_SYMBOL_TYPE_STRIDE] = "gHotSpotVMTypeEntryArrayStride",
	[JVM_SYMBOL_INTS] = "gHotSpotVMIntConstants",
	[JVM_SYMBOL_INT_NAME] = "gHotSpotVMIntConstantEntryNameOffset",
	[JVM_SYMBOL_INT_VALUE] = "gHotSpotVMIntConstantEntryValueOffset",
	[JVM_SYMBOL_INT_STRIDE] = "gHotSpotVMIntConstantEntryArrayStride",
};

/* Members have moved from struct to struct. */
static const struct {
	const char *type, *field;
	enum jvm_field_name name;
} wanted_fields[] = {
	{"CodeBlob", "_name", JVM_BLOB_NAME},
	{"CodeBlob", "_kind", JVM_BLOB_KIND},
	{"CodeBlob", "_frame_size", JVM_BLOB_FRAME_SIZE},
	{"CodeBlob", "_code_begin", JVM_BLOB_CODE_BEGIN},
	{"CodeBlob", "_code_offset", JVM_BLOB_CODE_OFFSET},
	{"CodeBlob", "_mutable_data", JVM_BLOB_MUTABLE},
	{"CodeBlob", "_relocation_size", JVM_BLOB_RELOCATION_SIZE},
	{"CompiledMethod", "_method", JVM_NMETHOD_METHOD},
	{"nmethod", "_method", JVM_NMETHOD_METHOD},
	{"nmethod", "_compile_id", JVM_NMETHOD_ID},
	{"CompiledMethod", "_deopt_handler_begin", JVM_NMETHOD_DEOPT_BEGIN},
	{"nmethod", "_deopt_handler_begin", JVM_NMETHOD_DEOPT_BEGIN},
	{"nmethod", "_deoptimize_offset", JVM_NMETHOD_DEOPT_OFFSET},
	{"nmethod", "_deopt_handler_offset", JVM_NMETHOD_DEOPT_OFFSET},
	{"nmethod", "_orig_pc_offset", JVM_NMETHOD_ORIG_PC},
	{"CompiledMethod", "_scopes_data_begin", JVM_NMETHOD_SCOPES_BEGIN},
	{"nmethod", "_scopes_data_offset", JVM_NMETHOD_SCOPES_OFFSET},
	{"nmethod", "_scopes_pcs_offset", JVM_NMETHOD_PCS_OFFSET},
	{"nmethod", "_dependencies_offset", JVM_NMETHOD_DEPENDENCIES_OFFSET},
	{"nmethod", "_immutable_data", JVM_NMETHOD_IMMUTABLE},
	{"nmethod", "_metadata_offset", JVM_NMETHOD_METADATA_OFFSET},
	{"Method", "_constMethod", JVM_METHOD_CONST},
	{"ConstMethod", "_constants", JVM_CONST_POOL},
	{"ConstMethod", "_flags", JVM_CONST_FLAGS},
	{"ConstMethod", "_flags._flags", JVM_CONST_FLAGS},
	{"ConstMethod", "_constMethod_size", JVM_CONST_WORDS},
	{"ConstMethod", "_code_size", JVM_CONST_CODE_SIZE},
	{"ConstMethod", "_name_index", JVM_CONST_NAME},
	{"ConstMethod", "_signature_index", JVM_CONST_SIGNATURE},
	{"ConstantPool", "_pool_holder", JVM_POOL_HOLDER},
	{"ConstantPool", "_length", JVM_POOL_LENGTH},
	{"ConstantPool", "_source_file_name_index", JVM_POOL_FILE},
	{"InstanceKlass", "_source_file_name_index", JVM_CLASS_FILE},
	{"InstanceKlass", "_constants", JVM_CLASS_POOL},
	{"InstanceKlass", "_methods", JVM_CLASS_METHODS},
	{"InstanceKlass", "_fieldinfo_stream", JVM_CLASS_FIELDS},
	{"Klass", "_name", JVM_KLASS_NAME},
	{"Klass", "_layout_helper", JVM_KLASS_LAYOUT},
	{"Method", "_code", JVM_METHOD_CODE},
	{"Array<int>", "_length", JVM_LIST_LENGTH},
	{"Array<u1>", "_data", JVM_LIST_BYTES},
	{"Array<Method*>", "_data", JVM_LIST_METHODS},
	{"ZGlobalsForVMStructs", "_ZPointerLoadGoodMask", JVM_Z_GOOD},
	{"ZGlobalsForVMStructs", "_ZPointerLoadBadMask", JVM_Z_BAD},
	{"ZGlobalsForVMStructs", "_ZPointerLoadShift", JVM_Z_SHIFT},
	{"XGlobalsForVMStructs", "_XAddressGoodMask", JVM_X_GOOD},
	{"Symbol", "_refcount", JVM_SYMBOL_REFERENCES},
	{"Symbol", "_hash_and_refcount", JVM_SYMBOL_REFERENCES},
	{"Symbol", "_length", JVM_SYMBOL_LENGTH},
	{"Symbol", "_body", JVM_SYMBOL_BODY},
	{"Symbol", "_body[0]", JVM_SYMBOL_BODY},
	{"PcDesc", "_pc_offset", JVM_PC_OFFSET},
	{"PcDesc", "_scope_decode_offset", JVM_PC_SCOPE},
	{"CodeHeap", "_memory", JVM_HEAP_MEMORY},
	{"CodeHeap", "_segmap", JVM_HEAP_SEGMENTS},
	{"CodeHeap", "_log2_segment_size", JVM_HEAP_SHIFT},
	{"VirtualSpace", "_low", JVM_SPACE_LOW},
	{"VirtualSpace", "_low_boundary", JVM_SPACE_LOW_BOUNDARY},
	{"VirtualSpace", "_high_boundary", JVM_SPACE_HIGH_BOUNDARY},
	{"GenericGrowableArray", "_len", JVM_ARRAY_LENGTH},
	{"GrowableArrayBase", "_len", JVM_ARRAY_LENGTH},
	{"GrowableArray<int>", "_data", JVM_ARRAY_DATA},
	{"HeapBlock::Header", "_used", JVM_BLOCK_USED},
	{"StubQueue", "_stub_buffer", JVM_STUBS_BUFFER},
	{"StubQueue", "_buffer_limit", JVM_STUBS_LIMIT},
};

static const struct {
	const char *type, *field;
	enum jvm_variable name;
} wanted_variables[] = {
	{"CodeCache", "_heaps", JVM_VARIABLE_HEAPS},
	{"CodeCache", "_heap", JVM_VARIABLE_HEAP},
	{"AbstractInterpreter", "_code", JVM_VARIABLE_INTERPRETER},
	{"Abstract_VM_Version", "_vm_major_version", JVM_VARIABLE_MAJOR},
	{"Abstract_VM_Version", "_s_vm_release", JVM_VARIABLE_RELEASE},
	{"ContinuationEntry", "_return_pc", JVM_VARIABLE_CARRIER},
	{"vmClasses", "_klasses[static_cast<int>(vmClassID::Object_klass_knum)]", JVM_VARIABLE_CLASSES},
	{"CompressedOops", "_narrow_oop._base", JVM_VARIABLE_OOP_BASE},
	{"CompressedOops", "_base", JVM_VARIABLE_OOP_BASE},
	{"CompressedOops", "_narrow_oop._shift", JVM_VARIABLE_OOP_SHIFT},
	{"CompressedOops", "_shift", JVM_VARIABLE_OOP_SHIFT},
	{"ZGlobalsForVMStructs", "_instance_p", JVM_VARIABLE_Z},
	{"XGlobalsForVMStructs", "_instance_p", JVM_VARIABLE_X},
};

static const struct {
	const char *type;
	enum jvm_number name;
} wanted_types[] = {
	{"HeapBlock", JVM_SIZE_BLOCK},
	{"ConstMethod", JVM_SIZE_CONST},
	{"ConstantPool", JVM_SIZE_POOL},
	{"PcDesc", JVM_SIZE_PC},
};

static const struct {
	const char *constant;
	enum jvm_number name;
} wanted_constants[] = {
	{"frame::interpreter_frame_last_sp_offset", JVM_CONSTANT_LAST_SP},
	{"ConstMethod::_has_linenumber_table", JVM_CONSTANT_HAS_LINES},
	{"ConstMethodFlags::_misc_has_linenumber_table", JVM_CONSTANT_HAS_LINES},
	{"CodeBlobKind::Nmethod", JVM_CONSTANT_KIND_NMETHOD},
};

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* ---- files ---- */

int jvm_recognize(struct elf_file *file, struct jvm_build *ret, struct error *err)
{
	struct elf_named found[JVM_SYMBOLS];

	*ret = (struct jvm_build){0};
	for (size_t i = 0; i < JVM_SYMBOLS; i++)
		found[i] = (struct elf_named){.name = symbols[i]};
	int r = elf_named_find(file, found, JVM_SYMBOLS, err);
	if (r < 0)
		return r;
	for (size_t i = 0; i < JVM_SYMBOLS; i++) {
		if (!found[i].address)
			return 0;
		ret->symbols[i] = found[i].address;
	}
	for (size_t i = 0; i < file->segment_count; i++) {
		const struct elf_segment *segment = &file->segments[i];
		if (!elf_segment_is_executed(segment))
			continue;
		ret->offset = segment->offset;
		ret->start = segment->address;
		return 1;
	}
	return 0;
}

/* ---- memory, by pages ---- */

struct reader {
	const struct runtime_memory *memory;
	struct jvm_layout *layout;
	uint32_t reads;
	uint64_t values[JVM_SYMBOLS];
	uint64_t pages[PAGES]; /* address; 0 = none */
	uint8_t data[PAGES][PAGE_BYTES];
};

static int read_memory(struct reader *reader, uint64_t address, void *to, size_t bytes)
{
	if (reader->reads++ >= READS_MAX)
		return -EBADMSG;
	return reader->memory->read(reader->memory->context, address, to, bytes);
}

static const uint8_t *page_of(struct reader *reader, uint64_t address)
{
	uint64_t page = address & ~(uint64_t)(PAGE_BYTES - 1);
	size_t slot = page / PAGE_BYTES % PAGES;

	if (reader->pages[slot] == page && page)
		return reader->data[slot];
	reader->pages[slot] = 0;
	if (!page || read_memory(reader, page, reader->data[slot], PAGE_BYTES) < 0)
		return NULL;
	reader->pages[slot] = page;
	return reader->data[slot];
}

/* The text at an address, "" if it cannot be read or is too long for any that is wanted. */
static void read_text(struct reader *reader, uint64_t address, char ret[static TEXT_BYTES_MAX])
{
	for (size_t i = 0; i < TEXT_BYTES_MAX; i++) {
		const uint8_t *page = page_of(reader, address + i);
		if (!page)
			break;
		ret[i] = (char)page[(address + i) % PAGE_BYTES];
		if (!ret[i])
			return;
	}
	ret[0] = 0;
}

/* ---- tables ---- */

/* The members of entries that are looked at lie in the first ENTRY_BYTES_MAX. */
struct table {
	uint64_t at, stride;
	uint8_t entry[ENTRY_BYTES_MAX];
};

static uint64_t entry_word(const struct table *table, uint64_t offset)
{
	uint64_t word = 0;

	if (offset <= ENTRY_BYTES_MAX - sizeof(word))
		memcpy(&word, table->entry + offset, sizeof(word));
	return word;
}

static int32_t entry_int(const struct table *table, uint64_t offset)
{
	return (int32_t)entry_word(table, offset);
}

/* Positive if there is one; 0 at the end of the table, which is an entry without a name. */
static int next_entry(struct reader *reader, struct table *table, enum jvm_symbol name)
{
	size_t bytes = table->stride < ENTRY_BYTES_MAX ? table->stride : ENTRY_BYTES_MAX;

	int r = read_memory(reader, table->at, table->entry, bytes);
	table->at += table->stride;
	return r < 0 ? r : entry_word(table, reader->values[name]) != 0;
}

static uint32_t bytes_of_kind(const char *kind)
{
	static const struct {
		const char *kind;
		uint32_t bytes;
	} kinds[] = {
		{"u1", 1},	 {"bool", 1},	  {"CodeBlobKind", 1}, {"jbyte", 1},	    {"unsigned char", 1},  {"u2", 2},
		{"uint16_t", 2}, {"int16_t", 2},  {"jushort", 2},      {"short", 2},	    {"unsigned short", 2}, {"u4", 4},
		{"int", 4},	 {"uint32_t", 4}, {"jint", 4},	       {"unsigned int", 4},
	};

	if (text_starts_with(kind, "volatile "))
		kind += strlen("volatile ");
	for (size_t i = 0; i < COUNT(kinds); i++) {
		if (strcmp(kinds[i].kind, kind) == 0)
			return kinds[i].bytes;
	}
	return 8;
}

static void take_field(struct reader *reader, const struct table *table, const char *type, const char *field)
{
	uint64_t offset = entry_word(table, reader->values[JVM_SYMBOL_STRUCT_OFFSET]);
	char kind[TEXT_BYTES_MAX] = "";

	for (size_t i = 0; i < COUNT(wanted_fields); i++) {
		if (strcmp(wanted_fields[i].type, type) != 0 || strcmp(wanted_fields[i].field, field) != 0)
			continue;
		read_text(reader, entry_word(table, reader->values[JVM_SYMBOL_STRUCT_KIND]), kind);
		if (offset < OFFSET_MAX)
			reader->layout->fields[wanted_fields[i].name] =
				(struct jvm_field){(uint32_t)offset, bytes_of_kind(kind)};
		return;
	}
}

static void take_variable(struct reader *reader, const struct table *table, const char *type, const char *field)
{
	for (size_t i = 0; i < COUNT(wanted_variables); i++) {
		if (strcmp(wanted_variables[i].type, type) == 0 && strcmp(wanted_variables[i].field, field) == 0)
			reader->layout->variables[wanted_variables[i].name] =
				entry_word(table, reader->values[JVM_SYMBOL_STRUCT_ADDRESS]);
	}
}

static int read_structs(struct reader *reader)
{
	struct table table = {.at = reader->values[JVM_SYMBOL_STRUCTS], .stride = reader->values[JVM_SYMBOL_STRUCT_STRIDE]};
	char type[TEXT_BYTES_MAX], field[TEXT_BYTES_MAX];
	int r = 1;

	for (size_t i = 0; i < ENTRIES_MAX && r > 0; i++) {
		r = next_entry(reader, &table, JVM_SYMBOL_STRUCT_TYPE);
		if (r <= 0)
			return r;
		read_text(reader, entry_word(&table, reader->values[JVM_SYMBOL_STRUCT_TYPE]), type);
		read_text(reader, entry_word(&table, reader->values[JVM_SYMBOL_STRUCT_FIELD]), field);
		if (entry_int(&table, reader->values[JVM_SYMBOL_STRUCT_STATIC]))
			take_variable(reader, &table, type, field);
		else
			take_field(reader, &table, type, field);
	}
	return -EBADMSG;
}

static void take_number(struct jvm_layout *layout, enum jvm_number name, int64_t value)
{
	layout->numbers[name] = value;
	layout->has_number[name] = true;
}

static int read_types(struct reader *reader)
{
	struct table table = {.at = reader->values[JVM_SYMBOL_TYPES], .stride = reader->values[JVM_SYMBOL_TYPE_STRIDE]};
	char type[TEXT_BYTES_MAX];
	int r = 1;

	for (size_t i = 0; i < ENTRIES_MAX && r > 0; i++) {
		r = next_entry(reader, &table, JVM_SYMBOL_TYPE_NAME);
		if (r <= 0)
			return r;
		read_text(reader, entry_word(&table, reader->values[JVM_SYMBOL_TYPE_NAME]), type);
		for (size_t k = 0; k < COUNT(wanted_types); k++) {
			if (strcmp(wanted_types[k].type, type) == 0)
				take_number(reader->layout, wanted_types[k].name,
					    (int64_t)entry_word(&table, reader->values[JVM_SYMBOL_TYPE_SIZE]));
		}
	}
	return -EBADMSG;
}

static int read_constants(struct reader *reader)
{
	struct table table = {.at = reader->values[JVM_SYMBOL_INTS], .stride = reader->values[JVM_SYMBOL_INT_STRIDE]};
	char constant[TEXT_BYTES_MAX];
	int r = 1;

	for (size_t i = 0; i < ENTRIES_MAX && r > 0; i++) {
		r = next_entry(reader, &table, JVM_SYMBOL_INT_NAME);
		if (r <= 0)
			return r;
		read_text(reader, entry_word(&table, reader->values[JVM_SYMBOL_INT_NAME]), constant);
		for (size_t k = 0; k < COUNT(wanted_constants); k++) {
			if (strcmp(wanted_constants[k].constant, constant) == 0)
				take_number(reader->layout, wanted_constants[k].name,
					    entry_int(&table, reader->values[JVM_SYMBOL_INT_VALUE]));
		}
	}
	return -EBADMSG;
}

/* ---- what is needed ---- */

static int check_fields(const struct jvm_layout *layout, struct error *err)
{
	static const enum jvm_field_name needed[] = {
		JVM_BLOB_NAME,	   JVM_BLOB_FRAME_SIZE, JVM_NMETHOD_METHOD, JVM_NMETHOD_ID,	    JVM_NMETHOD_PCS_OFFSET,
		JVM_METHOD_CONST,  JVM_CONST_POOL,	JVM_CONST_FLAGS,    JVM_CONST_WORDS,	    JVM_CONST_CODE_SIZE,
		JVM_CONST_NAME,	   JVM_CONST_SIGNATURE, JVM_POOL_HOLDER,    JVM_POOL_LENGTH,	    JVM_KLASS_NAME,
		JVM_SYMBOL_LENGTH, JVM_SYMBOL_BODY,	JVM_PC_OFFSET,	    JVM_PC_SCOPE,	    JVM_HEAP_MEMORY,
		JVM_HEAP_SEGMENTS, JVM_HEAP_SHIFT,	JVM_SPACE_LOW,	    JVM_SPACE_LOW_BOUNDARY, JVM_SPACE_HIGH_BOUNDARY,
		JVM_BLOCK_USED,	   JVM_STUBS_BUFFER,	JVM_STUBS_LIMIT,
	};

	for (size_t i = 0; i < COUNT(needed); i++) {
		if (layout->fields[needed[i]].bytes)
			continue;
		for (size_t k = 0; k < COUNT(wanted_fields); k++) {
			if (wanted_fields[k].name == needed[i])
				return error_set(err, -ENOTSUP, "HotSpot %s whose tables lack %s::%s", layout->release,
						 wanted_fields[k].type, wanted_fields[k].field);
		}
	}
	return 0;
}

static int check_numbers(const struct jvm_layout *layout, struct error *err)
{
	for (size_t i = 0; i < COUNT(wanted_types); i++) {
		if (!layout->has_number[wanted_types[i].name])
			return error_set(err, -ENOTSUP, "HotSpot %s whose tables lack the size of %s", layout->release,
					 wanted_types[i].type);
		int64_t bytes = layout->numbers[wanted_types[i].name];
		if (bytes < 8 || bytes > 4096 || bytes & 7)
			return error_set(err, -EBADMSG, "HotSpot %s whose %s would have %lld bytes", layout->release,
					 wanted_types[i].type, (long long)bytes);
	}
	int64_t last_sp = layout->numbers[JVM_CONSTANT_LAST_SP];
	if (layout->has_number[JVM_CONSTANT_LAST_SP] && (last_sp > -1 || last_sp < -4))
		return error_set(err, -EBADMSG, "HotSpot %s whose interpreter's frames are laid out in an unknown way",
				 layout->release);
	return 0;
}

/* The forms that a thing has had in the versions that are known. */
static int check_forms(const struct jvm_layout *layout, struct error *err)
{
	const struct jvm_field *fields = layout->fields;
	bool has_code = fields[JVM_BLOB_CODE_BEGIN].bytes || fields[JVM_BLOB_CODE_OFFSET].bytes;
	bool has_scopes = fields[JVM_NMETHOD_SCOPES_BEGIN].bytes || fields[JVM_NMETHOD_SCOPES_OFFSET].bytes;
	bool has_metadata = fields[JVM_NMETHOD_METADATA_OFFSET].bytes ||
			    (fields[JVM_BLOB_MUTABLE].bytes && fields[JVM_BLOB_RELOCATION_SIZE].bytes);
	const char *missing = !has_code					     ? "where the code of a CodeBlob begins"
			      : !has_scopes				     ? "where the scopes of an nmethod begin"
			      : !has_metadata				     ? "where the methods of an nmethod are"
			      : !layout->variables[JVM_VARIABLE_INTERPRETER] ? "the interpreter"
			      : !layout->variables[JVM_VARIABLE_HEAPS] && !layout->variables[JVM_VARIABLE_HEAP]
				      ? "the code heaps"
				      : NULL;

	return missing ? error_set(err, -ENOTSUP, "HotSpot %s whose tables lack %s", layout->release, missing) : 0;
}

/* ---- versions ---- */

static int read_version(struct reader *reader, struct error *err)
{
	struct jvm_layout *layout = reader->layout;
	int32_t major = 0;
	uint64_t text = 0;

	if (!layout->variables[JVM_VARIABLE_MAJOR] || !layout->variables[JVM_VARIABLE_RELEASE])
		return error_set(err, -ENOTSUP, "HotSpot whose tables do not tell the version");
	int r = read_memory(reader, layout->variables[JVM_VARIABLE_MAJOR], &major, sizeof(major));
	if (r == 0)
		r = read_memory(reader, layout->variables[JVM_VARIABLE_RELEASE], &text, sizeof(text));
	if (r < 0)
		return r;
	if (!major)
		return error_set(err, -EAGAIN, "HotSpot is not initialized yet");
	char release[TEXT_BYTES_MAX];
	read_text(reader, text, release);
	size_t len = text_cut(bytes_of_string(release), JVM_RELEASE_BYTES_MAX - 1);
	memcpy(layout->release, release, len);
	for (size_t i = 0; i < len; i++) {
		if (layout->release[i] < 0x21 || layout->release[i] > 0x7e)
			layout->release[i] = '?';
	}
	/* HotSpot had versions of its own up to 8, whose is 25. */
	layout->version = layout->variables[JVM_VARIABLE_HEAPS] ? (uint32_t)major : 8;
	return 0;
}

static int read_values(struct reader *reader, const struct jvm_build *build, uint64_t bias, struct error *err)
{
	for (size_t i = 0; i < JVM_SYMBOLS; i++) {
		int r = read_memory(reader, build->symbols[i] + bias, &reader->values[i], sizeof(reader->values[i]));
		if (r < 0)
			return r;
	}
	const uint64_t strides[] = {reader->values[JVM_SYMBOL_STRUCT_STRIDE], reader->values[JVM_SYMBOL_TYPE_STRIDE],
				    reader->values[JVM_SYMBOL_INT_STRIDE]};
	for (size_t i = 0; i < COUNT(strides); i++) {
		if (!strides[i])
			return error_set(err, -EAGAIN, "HotSpot is not loaded yet");
		if (strides[i] < 8 || strides[i] > ENTRY_BYTES_MAX)
			return error_set(err, -EBADMSG, "HotSpot whose tables have entries of %llu bytes",
					 (unsigned long long)strides[i]);
	}
	return 0;
}

static int read_all(struct reader *reader, const struct jvm_build *build, uint64_t bias, struct error *err)
{
	int r = read_values(reader, build, bias, err);

	if (r == 0)
		r = read_structs(reader);
	if (r == 0)
		r = read_types(reader);
	if (r == 0)
		r = read_constants(reader);
	if (r == -EBADMSG)
		return error_set(err, r, "HotSpot whose tables have no end");
	if (r == 0)
		r = read_version(reader, err);
	if (r == 0)
		r = check_fields(reader->layout, err);
	if (r == 0)
		r = check_numbers(reader->layout, err);
	return r < 0 ? r : check_forms(reader->layout, err);
}

int jvm_read_layout(const struct jvm_build *build, uint64_t bias, const struct runtime_memory *memory, struct jvm_layout *ret,
		    struct error *err)
{
	*ret = (struct jvm_layout){0};
	_cleanup_(mem_freep) struct reader *reader = mem_zalloc(sizeof(*reader));
	if (!reader)
		return error_nomem(err);
	reader->memory = memory;
	reader->layout = ret;
	return read_all(reader, build, bias, err);
}
