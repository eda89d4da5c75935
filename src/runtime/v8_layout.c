// SPDX-License-Identifier: Apache-2.0
/*
 * Where things lie in objects of V8.
 *
 * Builds have symbols for debuggers that look at dumps, v8dbg_*, each a variable of four bytes with an offset or a number of a
 * type; most, not all of what is needed, by names that change. The rest is from a table by version: what the kinds of code and
 * of arrays of optimised code are, where code begins and what it was made of, and what of it baseline code needs.
 *
 * Types and offsets are those of 64-bit builds without compressed pointers, as all of Node.js are; what compresses them says so
 * by the size of a tagged word.
 */
#include <errno.h>
#include <stddef.h>
#include <string.h>

#include "elf/elf_symbols.h"
#include "runtime/v8_int.h"

#define COMMON .map_type = 12, .shared_data = 8, .script_source = 8, .script_name = 16, .script_line = 24, .kind_mask = 15

static const struct {
	uint32_t major, minor;
	struct v8_layout layout;
} versions[] = {
	{9,
	 4, /* Node.js 16 */
	 {.walk = {.function_shared = 24, .function_code = 48, .shared_scope = 16, .shared_script = 32, .shared_id = 52},
	  .types = {[V8_TYPE_SHARED] = 179,
		    [V8_TYPE_SCOPE] = 178,
		    [V8_TYPE_SCRIPT] = 112,
		    [V8_TYPE_DEBUG_INFO] = 100,
		    [V8_TYPE_BYTECODES] = 133,
		    [V8_TYPE_INTERPRETER_DATA] = 105,
		    [V8_TYPE_BASELINE_DATA] = 94,
		    [V8_TYPE_CODE] = 162},
	  COMMON,
	  .not_string_mask = 0xffc0,
	  .bytecodes_positions = 32,
	  .bytecodes_data = 54,
	  .code_data = 16,
	  .code_positions = 24,
	  .code_kind = 48,
	  .code_size = 40,
	  .code_start = 96,
	  .deopt_literals = 2,
	  .deopt_shared = 6,
	  .deopt_inlining = 7,
	  .kind_baseline = 11,
	  .flags = V8_SCOPE_RECEIVER}},
	{10,
	 2, /* 18 */
	 {.walk = {.function_shared = 24, .function_code = 48, .shared_scope = 16, .shared_script = 32, .shared_id = 52},
	  .types = {[V8_TYPE_SHARED] = 257,
		    [V8_TYPE_SCOPE] = 256,
		    [V8_TYPE_SCRIPT] = 170,
		    [V8_TYPE_DEBUG_INFO] = 156,
		    [V8_TYPE_BYTECODES] = 195,
		    [V8_TYPE_INTERPRETER_DATA] = 162,
		    [V8_TYPE_CODE] = 240},
	  COMMON,
	  .not_string_mask = 0xff80,
	  .bytecodes_positions = 32,
	  .bytecodes_data = 56,
	  .code_data = 16,
	  .code_positions = 24,
	  .code_kind = 48,
	  .code_size = 40,
	  .code_start = 128,
	  .deopt_literals = 2,
	  .deopt_shared = 6,
	  .deopt_inlining = 7,
	  .kind_baseline = 11,
	  .flags = V8_SCOPE_HASHED}},
	{11,
	 3, /* 20 */
	 {.walk = {.function_shared = 24, .function_code = 48, .shared_scope = 16, .shared_script = 32, .shared_id = 52},
	  .types = {[V8_TYPE_SHARED] = 262,
		    [V8_TYPE_SCOPE] = 261,
		    [V8_TYPE_SCRIPT] = 167,
		    [V8_TYPE_DEBUG_INFO] = 153,
		    [V8_TYPE_BYTECODES] = 191,
		    [V8_TYPE_INTERPRETER_DATA] = 159,
		    [V8_TYPE_CODE] = 245,
		    [V8_TYPE_STREAM] = 252},
	  COMMON,
	  .not_string_mask = 0xff80,
	  .bytecodes_positions = 32,
	  .bytecodes_data = 54,
	  .code_data = 16,
	  .code_positions = 24,
	  .code_kind = 48,
	  .code_size = 56,
	  .code_start = 40,
	  .deopt_literals = 2,
	  .deopt_shared = 6,
	  .deopt_inlining = 7,
	  .kind_baseline = 11,
	  .flags = V8_SCOPE_HASHED | V8_CODE_POINTS}},
	{12,
	 4, /* 22 */
	 {.walk = {.function_shared = 32, .function_code = 24, .shared_scope = 16, .shared_script = 32, .shared_id = 52},
	  .types = {[V8_TYPE_SHARED] = 274,
		    [V8_TYPE_SCOPE] = 272,
		    [V8_TYPE_SCRIPT] = 167,
		    [V8_TYPE_DEBUG_INFO] = 154,
		    [V8_TYPE_BYTECODES] = 205,
		    [V8_TYPE_INTERPRETER_DATA] = 207,
		    [V8_TYPE_CODE] = 206,
		    [V8_TYPE_STREAM] = 210},
	  COMMON,
	  .not_string_mask = 0xff80,
	  .bytecodes_positions = 24,
	  .bytecodes_data = 64,
	  .code_data = 8,
	  .code_positions = 16,
	  .code_kind = 48,
	  .code_size = 52,
	  .code_start = 40,
	  .deopt_literals = 2,
	  .deopt_shared = 6,
	  .deopt_inlining = 7,
	  .kind_baseline = 10,
	  .flags = V8_SCOPE_HASHED | V8_CODE_POINTS | V8_SCOPE_INITIALIZERS}},
	{13,
	 6, /* 24 */
	 {.walk = {.function_shared = 32, .function_code = 24, .shared_scope = 24, .shared_script = 40, .shared_id = 60},
	  .types = {[V8_TYPE_SHARED] = 282,
		    [V8_TYPE_WRAPPER] = 195,
		    [V8_TYPE_SCOPE] = 280,
		    [V8_TYPE_SCRIPT] = 167,
		    [V8_TYPE_DEBUG_INFO] = 154,
		    [V8_TYPE_BYTECODES] = 186,
		    [V8_TYPE_INTERPRETER_DATA] = 188,
		    [V8_TYPE_CODE] = 187,
		    [V8_TYPE_STREAM] = 192},
	  COMMON,
	  .not_string_mask = 0xff80,
	  .bytecodes_positions = 24,
	  .bytecodes_data = 64,
	  .code_data = 8,
	  .code_positions = 16,
	  .code_kind = 52,
	  .code_size = 56,
	  .code_start = 40,
	  .deopt_literals = 3,
	  .deopt_shared = 7,
	  .deopt_inlining = 8,
	  .kind_baseline = 10,
	  .bytecode_jump_loop = 0x92,
	  .flags = V8_SCOPE_HASHED | V8_SCOPE_POSITIONS | V8_CODE_POINTS | V8_SCOPE_INITIALIZERS}},
};

bool v8_layout_of(uint32_t major, uint32_t minor, struct v8_layout *ret)
{
	for (size_t i = 0; i < sizeof(versions) / sizeof(versions[0]); i++) {
		if (versions[i].major != major || versions[i].minor != minor)
			continue;
		*ret = versions[i].layout;
		ret->walk.kind = RUNTIME_KIND_V8;
		return true;
	}
	return false;
}

/* ---- symbols ---- */

#define TYPE(type)   offsetof(struct v8_layout, types[type]), 2
#define FIELD(field) offsetof(struct v8_layout, field), sizeof(((struct v8_layout *)0)->field)

/* By all names that versions have for it. */
static const struct {
	const char *name;
	size_t at, bytes;
} symbols[] = {
	{"v8dbg_type_SharedFunctionInfo__SHARED_FUNCTION_INFO_TYPE", TYPE(V8_TYPE_SHARED)},
	{"v8dbg_type_SharedFunctionInfoWrapper__SHARED_FUNCTION_INFO_WRAPPER_TYPE", TYPE(V8_TYPE_WRAPPER)},
	{"v8dbg_type_ScopeInfo__SCOPE_INFO_TYPE", TYPE(V8_TYPE_SCOPE)},
	{"v8dbg_type_Script__SCRIPT_TYPE", TYPE(V8_TYPE_SCRIPT)},
	{"v8dbg_type_DebugInfo__DEBUG_INFO_TYPE", TYPE(V8_TYPE_DEBUG_INFO)},
	{"v8dbg_type_BytecodeArray__BYTECODE_ARRAY_TYPE", TYPE(V8_TYPE_BYTECODES)},
	{"v8dbg_type_InterpreterData__INTERPRETER_DATA_TYPE", TYPE(V8_TYPE_INTERPRETER_DATA)},
	{"v8dbg_type_BaselineData__BASELINE_DATA_TYPE", TYPE(V8_TYPE_BASELINE_DATA)},
	{"v8dbg_type_Code__CODE_TYPE", TYPE(V8_TYPE_CODE)},
	{"v8dbg_type_InstructionStream__INSTRUCTION_STREAM_TYPE", TYPE(V8_TYPE_STREAM)},
	{"v8dbg_class_Map__instance_type__uint16_t", FIELD(map_type)},
	{"v8dbg_class_JSFunction__shared__SharedFunctionInfo", FIELD(walk.function_shared)},
	{"v8dbg_class_JSFunction__code__CodeT", FIELD(walk.function_code)},
	{"v8dbg_class_JSFunction__code__Tagged_Code_", FIELD(walk.function_code)},
	{"v8dbg_class_SharedFunctionInfo__function_data__Object", FIELD(shared_data)},
	{"v8dbg_class_SharedFunctionInfo__name_or_scope_info__Object", FIELD(walk.shared_scope)},
	{"v8dbg_class_SharedFunctionInfo__name_or_scope_info__Tagged_Object_", FIELD(walk.shared_scope)},
	{"v8dbg_class_SharedFunctionInfo__name_or_scope_info__Tagged_NameOrScopeInfoT_", FIELD(walk.shared_scope)},
	{"v8dbg_class_SharedFunctionInfo__script_or_debug_info__HeapObject", FIELD(walk.shared_script)},
	{"v8dbg_class_SharedFunctionInfo__script__Tagged_HeapObject_", FIELD(walk.shared_script)},
	{"v8dbg_class_Script__source__Object", FIELD(script_source)},
	{"v8dbg_class_Script__name__Object", FIELD(script_name)},
	{"v8dbg_class_BytecodeArray__data__uintptr_t", FIELD(bytecodes_data)},
	{"v8dbg_class_Code__flags__uint32_t", FIELD(code_kind)},
	{"v8dbg_class_Code__instruction_size__int", FIELD(code_size)},
	{"v8dbg_class_Code__instruction_start__uintptr_t", FIELD(code_start)},
	{"v8dbg_class_Code__instruction_start__Address", FIELD(code_start)},
	{"v8dbg_class_Code__deoptimization_data__FixedArray", FIELD(code_data)},
	{"v8dbg_class_Code__source_position_table__ByteArray", FIELD(code_positions)},
	{"v8dbg_DeoptimizationDataLiteralArrayIndex", FIELD(deopt_literals)},
	{"v8dbg_DeoptimizationDataSharedFunctionInfoIndex", FIELD(deopt_shared)},
	{"v8dbg_DeoptimizationDataWrappedSharedFunctionInfoIndex", FIELD(deopt_shared)},
	{"v8dbg_DeoptimizationDataInliningPositionsIndex", FIELD(deopt_inlining)},
	{"v8dbg_CodeKindFieldMask", FIELD(kind_mask)},
	{"v8dbg_CodeKindBaseline", FIELD(kind_baseline)},
};
#define SYMBOLS (sizeof(symbols) / sizeof(symbols[0]))

static bool read_symbol(struct elf_file *file, uint64_t address, uint32_t *ret)
{
	uint64_t offset;
	const struct elf_segment *segment = elf_file_find_loaded(file, address, &offset);

	*ret = 0; /* not in the file: zeros */
	return !segment || elf_file_read(file, offset, ret, sizeof(*ret), NULL) == 0;
}

/* The layout's offsets are all that a walk reads by: words inside of what it reads. */
static bool is_sound(const struct v8_layout *layout)
{
	const struct v8_process *walk = &layout->walk;
	const uint32_t words[] = {walk->function_shared, walk->function_code, walk->shared_scope, walk->shared_script};

	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		if (words[i] & 7 || words[i] >= (i < 2 ? V8_FUNCTION_WORDS : V8_SHARED_WORDS) * 8)
			return false;
	return !(walk->shared_id & 3) && walk->shared_id < V8_SHARED_WORDS * 8 && layout->types[V8_TYPE_SHARED] &&
	       layout->types[V8_TYPE_CODE] && layout->bytecodes_data >= 32 && layout->bytecodes_data < 256;
}

int v8_layout_read(struct elf_file *file, struct v8_layout *layout, uint32_t *ret_missing, struct error *err)
{
	struct elf_named found[SYMBOLS] = {0};
	struct v8_layout said = {0};
	uint32_t value;

	for (size_t i = 0; i < SYMBOLS; i++)
		found[i].name = symbols[i].name;
	int r = elf_named_find_large(file, found, SYMBOLS, err);
	if (r < 0)
		return r;
	for (size_t i = 0; i < SYMBOLS; i++) {
		if (!found[i].address || !read_symbol(file, found[i].address, &value) || value > UINT16_MAX)
			continue;
		uint16_t half = (uint16_t)value;
		const void *from = symbols[i].bytes == 2 ? (const void *)&half : &value;
		memcpy((char *)layout + symbols[i].at, from, symbols[i].bytes);
		memset((char *)&said + symbols[i].at, 0xff, symbols[i].bytes);
	}
	*ret_missing = 0;
	for (size_t i = 0; i < SYMBOLS; i++) {
		const char *at = (const char *)&said + symbols[i].at;
		bool is_first = i == 0 || symbols[i].at != symbols[i - 1].at;
		*ret_missing += is_first && !*at && memcmp((const char *)layout + symbols[i].at, "\0\0\0", symbols[i].bytes);
	}
	if (!is_sound(layout))
		return error_set(err, -EBADMSG, "V8 whose symbols for debuggers have offsets that cannot be");
	return 0;
}
