/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From chunks to a profile: the chunks of a recording one after the other, their events, and the stacks that these refer to.
 *
 * What a constant became in the profile is kept by its key for as long as its chunk and the next one are read: a constant that
 * an event refers to may be in the chunk before. Keys are unique within a chunk only.
 *
 * Names. For people a frame is "package.Class.method", and frames that the compiler inlined join the one that they are inlined
 * into. As Pyroscope has it, a frame is CLASS.METHOD, with the symbols as they are in the recording ("java/lang/Thread.run")
 * but folded (jfr_names.c). Each frame is a location of its own, and one whose method or class is not in the recording is left
 * out. Whether a method was compiled when it was sampled makes no difference there, so that a function is one frame.
 */
#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "base/limits.h"
#include "base/text.h"
#include "base/time.h"
#include "format/jfr/jfr_int.h"

#define TEXT_MAX    65536 /* of a name */
#define FIRST_EVENT 2	  /* classes before it are metadata and checkpoints */

int64_t jfr_nanoseconds(const struct jfr_chunk *chunk, int64_t ticks)
{
	int64_t rate = chunk->ticks_per_s > INT64_MAX / NS_PER_S ? INT64_MAX / NS_PER_S : (int64_t)chunk->ticks_per_s;
	int64_t seconds = ticks / rate, rest;
	if (__builtin_mul_overflow(seconds, NS_PER_S, &seconds))
		return 0;
	rest = ticks % rate * NS_PER_S / rate;
	return __builtin_add_overflow(seconds, rest, &rest) ? seconds : rest;
}

/* ---- constants ---- */

static void swap_states(struct jfr_walk *walk)
{
	struct jfr_state *state = walk->here;
	walk->here = walk->before;
	walk->before = state;
}

bool jfr_walk_enter(struct jfr_walk *walk, const struct jfr_class *class, uint64_t key, struct jfr_value *constant)
{
	if (constant->class || key == 0)
		return false;
	*constant = jfr_constant(&walk->before->chunk, class, key);
	if (!constant->class)
		return false;
	swap_states(walk);
	return true;
}

void jfr_walk_leave(struct jfr_walk *walk, bool entered)
{
	if (entered)
		swap_states(walk);
}

/* ---- stacks ---- */

/* What jfr_string() failed for, if it was not the recording's fault. */
static int text_status(const struct buffer *text, struct error *err)
{
	int r = buffer_status(text);
	return r < 0 ? format_buffer_error(r, text, "a name", err) : 0;
}

/* Appends the name that a symbol holds, if it holds one. */
static int append_symbol(struct jfr_walk *walk, struct jfr_value symbol, bool is_class, struct error *err)
{
	struct jfr_chunk *chunk = &walk->here->chunk;
	if (!jfr_string(chunk, jfr_get(chunk, symbol, "string"), &walk->text))
		return text_status(&walk->text, err);
	for (size_t i = 0; is_class && walk->names == JFR_NAMES_DOTTED && i < walk->text.len; i++)
		if (walk->text.data[i] == '/')
			walk->text.data[i] = '.';
	if (walk->names == JFR_NAMES_FOLDED)
		jfr_fold_name(&walk->text);
	size_t len = text_cut(buffer_bytes(&walk->text), TEXT_MAX);
	buffer_append(&walk->name, walk->text.data, len);
	int r = text_status(&walk->text, err);
	return r < 0 ? r : text_status(&walk->name, err);
}

static int add_function(struct jfr_walk *walk, struct jfr_value method, uint32_t *ret, struct error *err)
{
	struct jfr_chunk *chunk = &walk->here->chunk;
	struct profile_function function = {0};
	struct jfr_value class = jfr_get(chunk, method, "type");
	bool is_folded = walk->names == JFR_NAMES_FOLDED;
	buffer_clear(&walk->name);
	int r = append_symbol(walk, jfr_get(chunk, class, "name"), true, err);
	if (r == 0 && (walk->name.len > 0 || is_folded))
		buffer_append_byte(&walk->name, '.');
	if (r == 0)
		r = append_symbol(walk, jfr_get(chunk, method, "name"), false, err);
	if (r == 0)
		r = profile_add_bytes(walk->profile, buffer_bytes(&walk->name), &function.name, err);
	if (r == 0 && !is_folded)
		r = append_symbol(walk, jfr_get(chunk, method, "descriptor"), false, err);
	if (r == 0 && !is_folded)
		r = profile_add_bytes(walk->profile, buffer_bytes(&walk->name), &function.system_name, err);
	return r < 0 ? r : profile_add_function(walk->profile, &function, ret, err);
}

static enum profile_frame_type read_type(struct jfr_walk *walk, struct jfr_value frame, bool *ret_is_inlined)
{
	static const struct {
		const char *name;
		enum profile_frame_type type, folded;
	} types[] = {{"Interpreted", PROFILE_FRAME_INTERPRETED, PROFILE_FRAME_UNKNOWN},
		     {"JIT compiled", PROFILE_FRAME_JIT, PROFILE_FRAME_UNKNOWN},
		     {"Inlined", PROFILE_FRAME_JIT, PROFILE_FRAME_UNKNOWN},
		     {"C1 compiled", PROFILE_FRAME_JIT, PROFILE_FRAME_UNKNOWN},
		     {"Native", PROFILE_FRAME_NATIVE, PROFILE_FRAME_NATIVE},
		     {"C++", PROFILE_FRAME_NATIVE, PROFILE_FRAME_NATIVE},
		     {"Kernel", PROFILE_FRAME_KERNEL, PROFILE_FRAME_KERNEL}};
	bool is_folded = walk->names == JFR_NAMES_FOLDED;
	struct jfr_value type = jfr_get(&walk->here->chunk, frame, "type");
	*ret_is_inlined = false;
	if (!jfr_string(&walk->here->chunk, jfr_get(&walk->here->chunk, type, "description"), &walk->text))
		return PROFILE_FRAME_UNKNOWN;
	*ret_is_inlined = !is_folded && bytes_equal_string(buffer_bytes(&walk->text), "Inlined");
	for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++)
		if (bytes_equal_string(buffer_bytes(&walk->text), types[i].name))
			return is_folded ? types[i].folded : types[i].type;
	return PROFILE_FRAME_UNKNOWN;
}

/* Gives 1 if the frame is left out. */
static int read_line(struct jfr_walk *walk, struct jfr_value frame, struct profile_line *ret, struct error *err)
{
	struct jfr_chunk *chunk = &walk->here->chunk;
	struct map64 *known = &walk->here->functions;
	uint64_t key;
	struct jfr_value method = jfr_get_keyed(chunk, frame, "method", &key);
	int64_t line = jfr_number(jfr_get(chunk, frame, "lineNumber"));
	*ret = (struct profile_line){.line = line > 0 ? line : 0};
	if (format_known(known, key, &ret->function))
		return 0;
	if (walk->names == JFR_NAMES_FOLDED && !jfr_get(chunk, method, "type").class)
		return 1;
	int r = add_function(walk, method, &ret->function, err);
	return r == 0 && map64_put(known, key, ret->function) < 0 ? error_nomem(err) : r;
}

/* Leaf first, as profiles have them. */
static int add_stack(struct jfr_walk *walk, struct jfr_value trace, uint32_t *ret, struct error *err)
{
	struct jfr_chunk *chunk = &walk->here->chunk;
	struct jfr_value frames = jfr_get(chunk, trace, "frames");
	uint64_t count = jfr_array_begin(&frames);
	size_t depth = 0, lines = 0;
	bool is_inlined = false;
	int r = 0;
	for (uint64_t i = 0; r >= 0 && i < count && depth + lines < LIMIT_STACK_DEPTH; i++) {
		struct jfr_value frame = jfr_array_next(chunk, &frames);
		if (!frame.class)
			return error_set(err, -EBADMSG, "a stack is truncated or damaged");
		struct profile_location location = {.frame_type = read_type(walk, frame, &is_inlined)};
		r = text_status(&walk->text, err);
		if (r == 0)
			r = read_line(walk, frame, &walk->lines[lines], err);
		lines += r == 0;
		/* What was inlined waits for the frame that it was inlined into. */
		if (r != 0 || (is_inlined && i + 1 < count))
			continue;
		r = profile_add_location(walk->profile, &location, walk->lines, lines, &walk->frames[depth++], err);
		lines = 0;
	}
	bool is_cut = jfr_number(jfr_get(chunk, trace, "truncated")) != 0 || depth + lines == LIMIT_STACK_DEPTH;
	walk->cut_stacks += is_cut;
	return r < 0 ? r : profile_add_stack_leaf_first(walk->profile, walk->frames, depth, ret, err);
}

int jfr_walk_stack(struct jfr_walk *walk, struct jfr_value trace, uint64_t key, uint32_t *ret, struct error *err)
{
	bool entered = jfr_walk_enter(walk, walk->before->stack_class, key, &trace);
	int r = !trace.class;
	*ret = 0;
	if (r == 0 && !format_known(&walk->here->stacks, key, ret)) {
		r = add_stack(walk, trace, ret, err);
		if (r == 0 && map64_put(&walk->here->stacks, key, *ret) < 0)
			r = error_nomem(err);
	}
	jfr_walk_leave(walk, entered);
	return r;
}

/* ---- chunks ---- */

#define SPARSE 64 /* places for each entry */

void jfr_forget(struct map64 *map)
{
	if (map->capacity / SPARSE <= map->count + 1) {
		map64_clear(map);
		return;
	}
	map64_release(map);
	map64_init_guarded(map);
}

static void reset_state(struct jfr_state *state)
{
	jfr_chunk_release(&state->chunk);
	state->thread_class = state->stack_class = NULL;
	jfr_forget(&state->stacks);
	jfr_forget(&state->threads);
	jfr_forget(&state->functions);
}

static int for_each_event(struct jfr_walk *walk, jfr_event_function *function, void *context, struct error *err)
{
	struct jfr_cursor fields;
	uint64_t id;
	size_t at = 0;
	int r;
	while ((r = jfr_chunk_next_event(&walk->here->chunk, &at, &id, &fields, err)) > 0) {
		struct jfr_value event = {.class = jfr_class_by_id(&walk->here->chunk, id), .at = fields};
		if (id >= FIRST_EVENT && event.class && (r = function(context, event, err)) < 0)
			return error_prefix(err, r, "%.*s", (int)(event.class->name.len < 60 ? event.class->name.len : 60),
					    (const char *)event.class->name.data);
	}
	return r;
}

static int open_chunk(struct jfr_walk *walk, struct bytes input, const struct jfr_visitor *visitor, void *context,
		      struct error *err)
{
	swap_states(walk);
	reset_state(walk->here);
	int r = jfr_chunk_open(input, &walk->here->chunk, err);
	walk->here->thread_class = jfr_class_by_name(&walk->here->chunk, "java.lang.Thread");
	walk->here->stack_class = jfr_class_by_name(&walk->here->chunk, "jdk.types.StackTrace");
	if (r == 0)
		r = jfr_chunk_read_constants(&walk->here->chunk, err);
	if (r == 0 && visitor->begin)
		r = visitor->begin(context, err);
	if (r == 0)
		r = for_each_event(walk, visitor->setting, context, err);
	return r;
}

static void take_time(struct jfr_walk *walk)
{
	int64_t start_ns = walk->here->chunk.start_ns, end_ns;
	if (__builtin_add_overflow(start_ns, walk->here->chunk.duration_ns, &end_ns))
		end_ns = start_ns;
	if (!walk->first_ns || start_ns < walk->first_ns)
		walk->first_ns = start_ns;
	walk->last_ns = end_ns > walk->last_ns ? end_ns : walk->last_ns;
}

int jfr_walk_chunks(struct jfr_walk *walk, struct bytes input, const struct jfr_visitor *visitor, void *context,
		    struct error *err)
{
	reset_state(walk->here);
	for (size_t at = 0, number = 1; at < input.len; at += walk->here->chunk.bytes.len, number++) {
		int r = open_chunk(walk, (struct bytes){input.data + at, input.len - at}, visitor, context, err);
		if (r == 0)
			r = for_each_event(walk, visitor->event, context, err);
		if (r == 0 && walk->here->chunk.work == 0)
			r = error_set(err, -EBADMSG, "its values are nested too deeply, or repeated too often");
		if (r < 0)
			return error_prefix(err, r, "chunk %zu", number);
		take_time(walk);
	}
	return 0;
}

int64_t jfr_walk_duration(const struct jfr_walk *walk)
{
	return walk->last_ns > walk->first_ns && walk->first_ns > 0 ? walk->last_ns - walk->first_ns : 0;
}

int jfr_walk_init(struct jfr_walk *walk, enum jfr_names names, struct error *err)
{
	walk->names = names;
	walk->here = &walk->states[0];
	walk->before = &walk->states[1];
	for (size_t i = 0; i < 2; i++) {
		map64_init_guarded(&walk->states[i].stacks);
		map64_init_guarded(&walk->states[i].threads);
		map64_init_guarded(&walk->states[i].functions);
	}
	buffer_init(&walk->text, LIMIT_PROFILE_STRING_BYTES);
	buffer_init(&walk->name, LIMIT_PROFILE_STRING_BYTES);
	return profile_new(&walk->profile, err);
}

void jfr_walk_release(struct jfr_walk *walk)
{
	for (size_t i = 0; i < 2; i++) {
		reset_state(&walk->states[i]);
		map64_release(&walk->states[i].stacks);
		map64_release(&walk->states[i].threads);
		map64_release(&walk->states[i].functions);
	}
	buffer_release(&walk->text);
	buffer_release(&walk->name);
	walk->profile = profile_free(walk->profile);
}
