// SPDX-License-Identifier: Apache-2.0
/*
 * What a frame runs: the function by the words of the frame, and, in generated code, where in it, by the native address.
 *
 * Generated code lies in pages, object after object. Which one an address is in is found by going back from it to a word that
 * points to the map of such objects, and by what that object says of its size. In optimised code the table of positions tells
 * the place and the function that was inlined there; where that one was inlined, a second table:
 *
 *   Code.positions -> (offset in the script, inlining) -> inlinings[inlining] = (the same of its caller, literal) -> ...
 *   literals[literal] = SharedFunctionInfo
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "runtime/v8_int.h"

#define SCAN_BYTES	4096u
#define SCAN_BYTES_MAX	(2u << 20) /* the largest code that is looked at */
#define OTHER_CODE_MAX	8u	   /* objects of code on the way that do not have the address */
#define TABLE_BYTES_MAX (1u << 20)
#define INLINING_BYTES	16u
#define INLININGS_MAX	16384u
#define TEXT_BYTES_MAX	(1u << 20)
#define DATA_BYTECODES	8  /* of InterpreterData, and of SharedFunctionInfoWrapper its function */
#define BASELINE_DATA	16 /* of BaselineData; the code is before it */

struct code {
	uint64_t object, start;
	uint32_t size, kind;
};

/* ---- the code at an address ---- */

/* Whether the object that a word begins holds the address. Positive if it does; 0 if it is no code; -ENOENT if it is other
 * code. */
static int try_code(const struct v8_reader *reader, uint64_t stream, uint64_t pc, struct code *ret)
{
	const struct v8_layout *layout = reader->layout;
	uint64_t code = stream, start = stream - 1 + layout->code_start;
	uint32_t size, kind;

	int r = 0;
	if (layout->types[V8_TYPE_STREAM]) {
		r = v8_read_word(reader, stream, 8, &code);
		if (r < 0 || !v8_is_type(reader, code, V8_TYPE_CODE))
			return 0;
	}
	if (layout->flags & V8_CODE_POINTS)
		r = v8_read_word(reader, code, layout->code_start, &start);
	if (r == 0)
		r = v8_read(reader, code - 1 + layout->code_size, &size, sizeof(size));
	if (r == 0)
		r = v8_read(reader, code - 1 + layout->code_kind, &kind, sizeof(kind));
	if (r < 0)
		return 0;
	if (pc < start || pc - start >= size)
		return -ENOENT;
	*ret = (struct code){code, start, size, kind & layout->kind_mask};
	return 1;
}

struct scan {
	uint64_t map, no_map; /* of code; of something else, seen last */
	unsigned others;
};

static bool is_code_map(const struct v8_reader *reader, struct scan *scan, uint64_t map)
{
	const struct v8_layout *layout = reader->layout;
	uint16_t wanted = layout->types[layout->types[V8_TYPE_STREAM] ? V8_TYPE_STREAM : V8_TYPE_CODE], type;

	if (!V8_IS_OBJECT(map) || map == scan->no_map)
		return false;
	if (map == scan->map)
		return true;
	if (v8_read(reader, map - 1 + layout->map_type, &type, sizeof(type)) == 0 && type == wanted) {
		scan->map = map;
		return true;
	}
	scan->no_map = map;
	return false;
}

/* Looks at the words of [from, to), which is not empty, from the last one on. As try_code(). */
static int scan_back(const struct v8_reader *reader, struct scan *scan, uint64_t from, uint64_t to, uint64_t pc,
		     struct code *ret)
{
	uint64_t words[SCAN_BYTES / 8];

	int r = v8_read(reader, from, words, to - from);
	for (size_t i = (to - from) / 8; r == 0 && i-- > 0;) {
		if (!is_code_map(reader, scan, words[i]))
			continue;
		r = try_code(reader, from + i * 8 + 1, pc, ret);
		if (r == -ENOENT && ++scan->others < OTHER_CODE_MAX)
			r = 0;
	}
	return r;
}

static int find_code(const struct v8_reader *reader, uint64_t pc, struct code *ret)
{
	uint64_t to = pc & ~7ull, least = to > SCAN_BYTES_MAX ? to - SCAN_BYTES_MAX : SCAN_BYTES;
	struct scan scan = {0};

	while (to > least) {
		uint64_t from = (to - 1) & ~(uint64_t)(SCAN_BYTES - 1);
		int r = scan_back(reader, &scan, from, to, pc, ret);
		if (r > 0)
			return 0;
		if (r < 0) /* no code, or where the mapping begins */
			break;
		to = from;
	}
	return -ENOENT;
}

/* ---- bytecodes ---- */

static int read_bytecodes_of(const struct v8_reader *reader, uint64_t data, uint64_t *ret)
{
	const struct v8_layout *layout = reader->layout;
	int r = 0;

	if (v8_is_type(reader, data, V8_TYPE_BASELINE_DATA))
		r = v8_read_word(reader, data, BASELINE_DATA, &data);
	if (r == 0 && v8_is_type(reader, data, V8_TYPE_CODE))
		r = v8_read_word(reader, data, layout->code_data, &data);
	if (r == 0 && v8_is_type(reader, data, V8_TYPE_INTERPRETER_DATA))
		r = v8_read_word(reader, data, DATA_BYTECODES, &data);
	if (r < 0)
		return r;
	*ret = data;
	return v8_is_type(reader, data, V8_TYPE_BYTECODES) ? 0 : -ENOENT;
}

static int read_bytecodes(const struct v8_reader *reader, uint64_t shared, uint64_t *ret)
{
	uint64_t data;
	int r = v8_read_word(reader, shared, reader->layout->shared_data, &data);
	return r < 0 ? r : read_bytecodes_of(reader, data, ret);
}

/* ---- lines of functions ---- */

/* Of the function, and of those that were inlined into it. */
struct function {
	uint64_t shared;
	struct v8_script script;
	uint64_t parent; /* that it was inlined into */
	int64_t call;	 /* position there */
	int64_t start;
};
struct build {
	const struct v8_source *source;
	struct v8_reader reader;
	struct v8_table *table;
	struct function *functions;
	size_t count;
	struct v8_table_writer writer;
};

static int line_of(struct build *build, size_t function, int64_t position, uint32_t *ret)
{
	struct function *of = &build->functions[function];
	int r = v8_script_line(&build->reader, build->source->scripts, &of->script, position, ret);

	if (r < 0 && r != -ENOMEM) { /* no further tries */
		of->script.object = 0;
		build->table->is_partial = true;
		r = 0;
	}
	return r;
}

static int put_text(struct buffer *out, const char *text)
{
	return buffer_append(out, text, strlen(text) + 1);
}

/* The names of a function, and its script. */
static int put_names(struct build *build, struct function *function)
{
	struct v8_function found = {.start = -1};
	int r = function->shared ? v8_read_function(&build->reader, function->shared, &found) : -ENOENT;

	if (r == -ENOMEM)
		return r;
	build->table->is_partial |= r < 0 && function->shared;
	if (r == 0 && !found.name[0])
		snprintf(found.name, sizeof(found.name), "(anonymous)");
	if (r == 0 && found.script &&
	    v8_read_script(&build->reader, build->source->owner, found.script, &function->script) < 0) {
		function->script.object = 0;
		build->table->is_partial = true;
	}
	function->start = found.start;
	r = put_text(&build->table->names, found.name);
	return r < 0 ? r : put_text(&build->table->files, found.file);
}

/* What the table begins with. */
static int put_functions(struct build *build)
{
	struct buffer *lines = &build->table->lines;
	uint32_t call = 0, first;

	v8_table_put_count(lines, build->count);
	for (size_t i = 0; i < build->count; i++) {
		int r = put_names(build, &build->functions[i]);
		if (r < 0)
			return r;
	}
	for (size_t i = 0; i < build->count; i++) {
		const struct function *function = &build->functions[i];
		int r = line_of(build, i, function->start, &first);
		if (r == 0 && i)
			r = line_of(build, function->parent, function->call, &call);
		if (r < 0)
			return r;
		v8_table_put_function(lines, function->parent, call, first);
	}
	build->writer = (struct v8_table_writer){.lines = lines, .begin = lines->len};
	return buffer_status(lines);
}

static int put_line(struct build *build, uint64_t offset, size_t function, int64_t position)
{
	uint32_t line;
	int r = line_of(build, function, position, &line);

	if (r == 0)
		v8_table_put(&build->writer, offset, function, line);
	return r < 0 ? r : buffer_status(&build->table->lines);
}

/* ---- bytecodes ---- */

/* The table of positions of bytecodes; empty if there is none: V8 may leave it out until someone asks for it. */
static int read_positions(const struct v8_reader *reader, uint64_t bytecodes, struct bytes *ret)
{
	uint64_t positions;

	*ret = (struct bytes){0};
	if (v8_read_word(reader, bytecodes, reader->layout->bytecodes_positions, &positions) < 0)
		return 0;
	int r = v8_read_bytes(reader, positions, TABLE_BYTES_MAX, ret);
	return r == -ENOMEM ? r : 0;
}

static int put_interpreted(struct build *build)
{
	uint64_t bytecodes;
	struct bytes table = {0};

	if (read_bytecodes(&build->reader, build->functions[0].shared, &bytecodes) < 0)
		return 0;
	int r = read_positions(&build->reader, bytecodes, &table);
	_cleanup_(mem_freep) uint8_t *owned = (uint8_t *)table.data;
	struct v8_positions positions = V8_POSITIONS(table);
	while (r == 0 && v8_positions_next(&positions))
		r = put_line(build, positions.offset == UINT64_MAX ? 0 : positions.offset, 0,
			     V8_POSITION_SCRIPT(positions.position));
	return r;
}

/* ---- baseline code ---- */

static int read_content(const struct v8_reader *reader, uint64_t bytecodes, struct bytes *ret)
{
	uint64_t length;

	int r = v8_read_length(reader, bytecodes, TABLE_BYTES_MAX, &length);
	if (r < 0)
		return r;
	_cleanup_(mem_freep) uint8_t *data = mem_alloc(length + 1);
	if (!data)
		return -ENOMEM;
	if (length)
		r = v8_read(reader, bytecodes - 1 + reader->layout->bytecodes_data, data, length);
	if (r < 0)
		return r;
	*ret = (struct bytes){TAKE(data), length};
	return 0;
}

static int put_baseline_lines(struct build *build, struct v8_baseline *baseline, struct bytes table)
{
	struct v8_positions ahead = V8_POSITIONS(table);
	bool has_ahead = v8_positions_next(&ahead);
	int64_t position = -1;
	int r = 0;

	for (bool more = v8_baseline_begin(baseline); more && r == 0; more = v8_baseline_next(baseline)) {
		while (has_ahead && (ahead.offset == UINT64_MAX || ahead.offset <= baseline->bytecode)) {
			position = V8_POSITION_SCRIPT(ahead.position);
			has_ahead = v8_positions_next(&ahead);
		}
		r = put_line(build, baseline->start, 0, position);
	}
	return r;
}

/* Whether the code is that of the function: it was made of the same bytecodes. */
static int check_baseline(const struct v8_reader *reader, const struct code *code, uint64_t shared, uint64_t *ret_bytecodes)
{
	uint64_t data, of_code;

	int r = v8_read_word(reader, shared, reader->layout->shared_data, &data);
	if (r == 0)
		r = read_bytecodes_of(reader, data, ret_bytecodes);
	if (r < 0)
		return r;
	if (v8_is_type(reader, data, V8_TYPE_BASELINE_DATA))
		r = v8_read_word(reader, data, BASELINE_DATA - 8, &of_code);
	else
		r = v8_read_word(reader, code->object, reader->layout->code_data, &of_code);
	if (r < 0 || of_code == code->object)
		return r;
	return read_bytecodes_of(reader, of_code, &of_code) == 0 && of_code == *ret_bytecodes ? 0 : -ENOENT;
}

static int put_baseline(struct build *build, const struct code *code, uint64_t bytecodes)
{
	const struct v8_reader *reader = &build->reader;
	struct v8_baseline baseline = {.build = build->source->build};
	struct bytes positions = {0};
	uint64_t array;

	int r = v8_read_word(reader, code->object, reader->layout->code_positions, &array);
	if (r == 0)
		r = v8_read_bytes(reader, array, TABLE_BYTES_MAX, &baseline.table);
	_cleanup_(mem_freep) uint8_t *owned_table = (uint8_t *)baseline.table.data;
	if (r == 0)
		r = read_content(reader, bytecodes, &baseline.bytecodes);
	_cleanup_(mem_freep) uint8_t *owned_bytecodes = (uint8_t *)baseline.bytecodes.data;
	if (r == 0)
		r = read_positions(reader, bytecodes, &positions);
	_cleanup_(mem_freep) uint8_t *owned_positions = (uint8_t *)positions.data;
	if (r == 0)
		r = put_baseline_lines(build, &baseline, positions);
	return r == -ENOMEM || r == -E2BIG ? r : 0;
}

/* ---- where functions were inlined in loops ---- */

/*
 * Maglev makes the first turn of a loop code of its own. For the others it goes through the same bytecodes again, but not
 * through their positions: all that it inlines there has the position of the jump back to the loop's beginning (13.6). No call
 * is there. So such a function has the position that it has in the first turn, in which it was inlined in the same order.
 */
#define LOOP_INLINES_MAX 256u

static bool is_same_call(const struct function *a, const struct function *b)
{
	return a->parent == b->parent && a->shared && a->shared == b->shared;
}

/* Sets those that were inlined into the function `parent` at a jump back. */
static int find_at_jumps(struct build *build, size_t parent, bool *at_jump)
{
	struct bytes table = {0}, content = {0};
	uint64_t bytecodes;

	if (read_bytecodes(&build->reader, build->functions[parent].shared, &bytecodes) < 0)
		return 0;
	int r = read_content(&build->reader, bytecodes, &content);
	_cleanup_(mem_freep) uint8_t *owned_content = (uint8_t *)content.data;
	if (r == 0)
		r = read_positions(&build->reader, bytecodes, &table);
	_cleanup_(mem_freep) uint8_t *owned = (uint8_t *)table.data;
	struct v8_positions positions = V8_POSITIONS(table);
	while (r == 0 && v8_positions_next(&positions)) {
		if (v8_bytecode_at(content, positions.offset) != build->reader.layout->bytecode_jump_loop)
			continue;
		for (size_t i = 1; i < build->count; i++) {
			const struct function *function = &build->functions[i];
			at_jump[i] |= function->parent == parent && function->call == V8_POSITION_SCRIPT(positions.position);
		}
	}
	return r == -ENOMEM ? r : 0;
}

/* The call of the function `index`, which is at a jump, in the first turn. */
static int64_t first_call(const struct build *build, size_t index, const bool *at_jump)
{
	const struct function *functions = build->functions, *of = &functions[index];
	size_t before = 0;

	for (size_t i = 1; i < index; i++)
		before += at_jump[i] && is_same_call(&functions[i], of);
	for (size_t i = 1; i < build->count; i++) {
		if (!at_jump[i] && is_same_call(&functions[i], of) && before-- == 0)
			return functions[i].call;
	}
	return of->call;
}

static int correct_calls(struct build *build)
{
	bool at_jump[LOOP_INLINES_MAX] = {false};
	int r = 0;

	if (!build->reader.layout->bytecode_jump_loop || build->count > LOOP_INLINES_MAX)
		return 0;
	for (size_t i = 0; i < build->count && r == 0; i++) {
		size_t inlined = 0;
		for (size_t j = 1; j < build->count; j++)
			inlined += build->functions[j].parent == i;
		if (inlined > 1)
			r = find_at_jumps(build, i, at_jump);
	}
	for (size_t i = 1; i < build->count; i++) {
		if (at_jump[i])
			build->functions[i].call = first_call(build, i, at_jump);
	}
	return r;
}

/* ---- optimised code ---- */

static int read_shared(const struct v8_reader *reader, uint64_t array, uint64_t index, uint64_t *ret)
{
	int r = v8_read_element(reader, array, index, ret);
	if (r == 0 && v8_is_type(reader, *ret, V8_TYPE_WRAPPER))
		r = v8_read_word(reader, *ret, DATA_BYTECODES, ret);
	return r;
}

static int check_optimised(const struct v8_reader *reader, const struct code *code, uint64_t shared, uint64_t *ret_deopt)
{
	uint64_t of_code;

	int r = v8_read_word(reader, code->object, reader->layout->code_data, ret_deopt);
	if (r == 0)
		r = read_shared(reader, *ret_deopt, reader->layout->deopt_shared, &of_code);
	if (r < 0)
		return r == -EBADMSG ? -ENOENT : r; /* code that is thrown away loses it */
	return of_code == shared ? 0 : -ENOENT;
}

/* What was inlined. */
static int add_inlined(struct build *build, uint64_t literals, struct bytes inlinings)
{
	size_t count = inlinings.len / INLINING_BYTES;
	struct function *more = mem_realloc_array(build->functions, count + 1, sizeof(*more));

	if (!more)
		return -ENOMEM;
	build->functions = more;
	for (size_t i = 0; i < count; i++) {
		struct function *added = &build->functions[build->count++];
		uint64_t position;
		int32_t literal;
		memcpy(&position, inlinings.data + i * INLINING_BYTES, sizeof(position));
		memcpy(&literal, inlinings.data + i * INLINING_BYTES + 8, sizeof(literal));
		int64_t parent = V8_POSITION_INLINING(position);
		*added = (struct function){.call = V8_POSITION_SCRIPT(position), .start = -1};
		added->parent = parent >= 0 && (uint64_t)parent < count ? (uint64_t)parent + 1 : 0;
		if (literal == -1) /* itself */
			added->shared = build->functions[0].shared;
		else if (literal < 0 || read_shared(&build->reader, literals, (uint32_t)literal, &added->shared) < 0 ||
			 !v8_is_type(&build->reader, added->shared, V8_TYPE_SHARED))
			added->shared = 0;
	}
	return 0;
}

static int put_optimised_lines(struct build *build, struct bytes table)
{
	struct v8_positions positions = V8_POSITIONS(table);
	int r = 0;

	while (r == 0 && v8_positions_next(&positions)) {
		int64_t inlining = V8_POSITION_INLINING(positions.position);
		uint64_t function = inlining >= 0 && (uint64_t)inlining + 1 < build->count ? (uint64_t)inlining + 1 : 0;
		if (positions.offset <= UINT32_MAX)
			r = put_line(build, positions.offset, function, V8_POSITION_SCRIPT(positions.position));
	}
	return r;
}

static int put_optimised(struct build *build, const struct code *code, uint64_t deopt)
{
	const struct v8_reader *reader = &build->reader;
	const struct v8_layout *layout = reader->layout;
	struct bytes table = {0}, inlinings = {0};
	uint64_t literals, array;

	int r = v8_read_element(reader, deopt, layout->deopt_literals, &literals);
	if (r == 0)
		r = v8_read_element(reader, deopt, layout->deopt_inlining, &array);
	if (r == 0)
		r = v8_read_bytes(reader, array, INLININGS_MAX * INLINING_BYTES, &inlinings);
	_cleanup_(mem_freep) uint8_t *owned_inlinings = (uint8_t *)inlinings.data;
	if (r == 0)
		r = add_inlined(build, literals, inlinings);
	if (r == 0)
		r = correct_calls(build);
	if (r == -ENOMEM)
		return r;
	r = v8_read_word(reader, code->object, layout->code_positions, &array);
	if (r == 0)
		r = v8_read_bytes(reader, array, TABLE_BYTES_MAX, &table);
	_cleanup_(mem_freep) uint8_t *owned = (uint8_t *)table.data;
	if (r == -ENOMEM)
		return r;
	r = put_functions(build);
	return r < 0 ? r : put_optimised_lines(build, table);
}

/* ---- */

static int check_function(const struct v8_reader *reader, uint64_t shared, uint32_t check)
{
	const struct v8_process *walk = &reader->layout->walk;
	uint64_t words[V8_SHARED_WORDS];

	int r = v8_read(reader, shared - 1, words, sizeof(words));
	if (r < 0)
		return r;
	uint64_t id = words[walk->shared_id / 8] >> (walk->shared_id & 4) * 8 & UINT32_MAX;
	if (runtime_check_of(words[walk->shared_scope / 8], words[walk->shared_script / 8], id) != check)
		return -ESTALE;
	return v8_is_type(reader, shared, V8_TYPE_SHARED) ? 0 : -EBADMSG;
}

static int put_code(struct build *build, uint64_t pc)
{
	struct v8_table *table = build->table;
	uint64_t shared = build->functions[0].shared, of;
	struct code code;

	int r = find_code(&build->reader, pc, &code);
	if (r < 0)
		return r;
	bool is_baseline = code.kind == build->reader.layout->kind_baseline;
	if (code.kind < build->reader.layout->kind_baseline)
		return -ENOENT;
	table->start = code.start;
	table->size = code.size;
	r = is_baseline ? check_baseline(&build->reader, &code, shared, &of)
			: check_optimised(&build->reader, &code, shared, &of);
	if (r == 0 && is_baseline)
		r = put_functions(build);
	if (r < 0)
		return r;
	return is_baseline ? put_baseline(build, &code, of) : put_optimised(build, &code, of);
}

int v8_read_table(const struct v8_source *source, uint64_t object, uint64_t data, uint64_t pc, struct v8_table *ret)
{
	struct build build = {.source = source, .reader = {&source->build->layout, source->memory}, .table = ret, .count = 1};

	*ret = (struct v8_table){
		.names.max = TEXT_BYTES_MAX, .files.max = TEXT_BYTES_MAX, .lines.max = TABLE_BYTES_MAX, .size = UINT32_MAX};
	int r = check_function(&build.reader, RUNTIME_OBJECT(object) + 1, RUNTIME_CHECK(data));
	if (r < 0)
		return r;
	build.functions = mem_zalloc_array(1, sizeof(*build.functions));
	if (!build.functions)
		return -ENOMEM;
	build.functions[0].shared = RUNTIME_OBJECT(object) + 1;
	if (data & V8_FRAME_CODE) {
		r = put_code(&build, pc);
	} else {
		r = put_functions(&build);
		if (r == 0 && !(data & V8_FRAME_BUILTIN))
			r = put_interpreted(&build);
	}
	mem_free(build.functions);
	if (r < 0)
		v8_table_release(ret);
	return r == -E2BIG ? -EBADMSG : r;
}

uint64_t v8_table_offset(const struct v8_layout *layout, uint64_t start, uint64_t data, uint64_t pc)
{
	uint64_t place = RUNTIME_PLACE(data), first = layout->bytecodes_data - 1u;

	if (data & V8_FRAME_CODE)
		return pc - start;
	return place > first ? place - first : 0;
}
