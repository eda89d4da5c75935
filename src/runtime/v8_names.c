// SPDX-License-Identifier: Apache-2.0
/*
 * Functions of JavaScript: their names and scripts.
 *
 * SharedFunctionInfo has either its name, or its ScopeInfo, which has it in a place that depends on the scope:
 *
 *   map, flags, number of parameters, number of variables n, [start, end], n names or a table of them, n more,
 *   [class variable], [receiver], [name, variable], [inferred name], [start, end] ...
 *
 * The start and the end come first since 13.6. Scopes of modules and scripts have no names.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "runtime/v8_int.h"

#define SCOPE_WORDS_MAX	 65536u
#define SCOPE_FLAGS	 8
#define SCOPE_VARIABLES	 24
#define SCOPE_NAMES	 32
#define SCOPE_INLINE_MAX 75u /* more names are in a table */
#define SCOPE_CLASS	 10  /* bits of its flags */
#define SCOPE_INFERRED	 14
#define SCOPE_RECEIVER	 7
#define SCOPE_FUNCTION	 12
#define SCOPE_KIND	 17
#define KIND_INSTANCE	 24 /* of functions that initialize fields */
#define KIND_STATIC	 25

enum scope_variable { VARIABLE_NONE, VARIABLE_STACK, VARIABLE_CONTEXT, VARIABLE_UNUSED };

struct scope {
	uint64_t object, flags, variables;
	uint64_t at; /* of the next word */
};

static int read_scope(const struct v8_reader *reader, uint64_t object, struct scope *ret)
{
	uint16_t flags = reader->layout->flags;
	uint64_t word;

	*ret = (struct scope){.object = object, .at = SCOPE_NAMES};
	int r = v8_read_word(reader, object, SCOPE_FLAGS, &word);
	ret->flags = flags & V8_SCOPE_POSITIONS ? word & UINT32_MAX : word >> 32;
	if (r == 0)
		r = v8_read_word(reader, object, SCOPE_VARIABLES, &word);
	if (r < 0)
		return r;
	if (!V8_IS_NUMBER(word) || word >> 32 > SCOPE_WORDS_MAX)
		return -EBADMSG;
	ret->variables = word >> 32;
	return 0;
}

static bool is_function_scope(const struct v8_layout *layout, uint64_t flags)
{
	return (flags & 15) == (layout->flags & V8_SCOPE_POSITIONS ? 4 : 2);
}

static int take_position(const struct v8_reader *reader, struct scope *scope, int64_t *ret)
{
	uint64_t word;

	int r = v8_read_word(reader, scope->object, scope->at, &word);
	if (r == 0 && V8_IS_NUMBER(word) && V8_NUMBER(word) >= 0)
		*ret = V8_NUMBER(word);
	scope->at += 16;
	return r;
}

static void skip_variables(const struct v8_layout *layout, struct scope *scope)
{
	uint64_t names = layout->flags & V8_SCOPE_HASHED && scope->variables >= SCOPE_INLINE_MAX ? 1 : scope->variables;
	uint64_t receiver = scope->flags >> SCOPE_RECEIVER & 3;

	scope->at += (names + scope->variables + (scope->flags >> SCOPE_CLASS & 1)) * 8;
	if (layout->flags & V8_SCOPE_RECEIVER && (receiver == VARIABLE_STACK || receiver == VARIABLE_CONTEXT))
		scope->at += 8;
}

/* A name that may be missing. */
static int take_name(const struct v8_reader *reader, struct scope *scope, char ret[V8_NAME_BYTES_MAX])
{
	uint64_t word;

	int r = v8_read_word(reader, scope->object, scope->at, &word);
	if (r < 0 || ret[0] || !v8_is_string(reader, word))
		return r;
	return v8_read_string(reader, word, ret);
}

/* As V8 itself calls them. */
static void name_initializer(const struct v8_layout *layout, uint64_t kind, char ret[V8_NAME_BYTES_MAX])
{
	if (layout->flags & V8_SCOPE_INITIALIZERS && kind == KIND_INSTANCE)
		snprintf(ret, V8_NAME_BYTES_MAX, "<instance_members_initializer>");
	if (layout->flags & V8_SCOPE_INITIALIZERS && kind == KIND_STATIC)
		snprintf(ret, V8_NAME_BYTES_MAX, "<static_initializer>");
}

static int read_scope_names(const struct v8_reader *reader, uint64_t object, struct v8_function *ret)
{
	const struct v8_layout *layout = reader->layout;
	struct scope scope;

	int r = read_scope(reader, object, &scope);
	if (r < 0 || !is_function_scope(layout, scope.flags))
		return r;
	if (layout->flags & V8_SCOPE_POSITIONS)
		r = take_position(reader, &scope, &ret->start);
	skip_variables(layout, &scope);
	name_initializer(layout, scope.flags >> SCOPE_KIND & 31, ret->name);
	if (r == 0 && (scope.flags >> SCOPE_FUNCTION & 3) != VARIABLE_NONE) {
		r = take_name(reader, &scope, ret->name);
		scope.at += 16;
	}
	if (r == 0 && scope.flags >> SCOPE_INFERRED & 1) {
		r = take_name(reader, &scope, ret->name);
		scope.at += 8;
	}
	if (r == 0 && !(layout->flags & V8_SCOPE_POSITIONS))
		r = take_position(reader, &scope, &ret->start);
	return r;
}

/* A string, or another object in place of it: then there is no text. What is being moved has no type at that moment. */
static int read_text(const struct v8_reader *reader, uint64_t object, char ret[V8_NAME_BYTES_MAX])
{
	uint16_t type;

	if (V8_IS_OBJECT(object) && v8_read_type(reader, object, &type) < 0)
		return -EBADMSG;
	return v8_is_string(reader, object) ? v8_read_string(reader, object, ret) : 0;
}

static int read_script(const struct v8_reader *reader, uint64_t script, struct v8_function *ret)
{
	uint64_t name;
	uint16_t type;

	if (V8_IS_OBJECT(script) && v8_read_type(reader, script, &type) < 0)
		return -EBADMSG;
	if (v8_is_type(reader, script, V8_TYPE_DEBUG_INFO)) { /* while it is being debugged */
		int r = v8_read_word(reader, script, reader->layout->walk.shared_script, &script);
		if (r < 0)
			return r;
	}
	if (!v8_is_type(reader, script, V8_TYPE_SCRIPT))
		return 0;
	ret->script = script;
	int r = v8_read_word(reader, script, reader->layout->script_name, &name);
	return r < 0 ? r : read_text(reader, name, ret->file);
}

int v8_read_function(const struct v8_reader *reader, uint64_t shared, struct v8_function *ret)
{
	const struct v8_process *walk = &reader->layout->walk;
	uint64_t name, script;

	*ret = (struct v8_function){.start = -1};
	int r = v8_read_word(reader, shared, walk->shared_scope, &name);
	if (r == 0)
		r = v8_read_word(reader, shared, walk->shared_script, &script);
	if (r < 0)
		return r;
	if (v8_is_type(reader, name, V8_TYPE_SCOPE))
		r = read_scope_names(reader, name, ret);
	else
		r = read_text(reader, name, ret->name);
	return r < 0 ? r : read_script(reader, script, ret);
}
