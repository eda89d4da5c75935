/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names of Swift 4.0 and later ("$s", "$S", "$e", "_T0"), after docs/ABI/Mangling.rst of the Swift project; what is written
 * equals swift-demangle's text. Libraries for this are part of Swift's own runtime and not to be had elsewhere.
 *
 * The mangling is a postfix language. A name is read from left to right; operands (identifiers, types) are pushed on a stack,
 * operators take theirs from it and push what they make: "4main3FooV" is the identifiers "main" and "Foo" and the operator V,
 * which makes of a context and a name a structure. What is on the stack at the end is the symbol: first its functions, then
 * attributes of them ("merged", "partial apply forwarder"), which are printed in front. Identifiers and types are remembered in
 * the order they come up, and "A" refers back to them; so nodes are shared, and a short name can stand for a long text.
 *
 * Everything is bounded: nodes by SWIFT_NODE_BYTES_MAX, the stack, the printer's depth and steps. A name that passes a bound,
 * is damaged, or uses an operator that is not known (autodiff, macros) stays mangled as a whole; half a name would mislead.
 */
#include <ctype.h>
#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "elf/demangle/demangle.h"
#include "elf/demangle/demangle_swift_int.h"

/* ---- nodes ---- */

struct swift_node *swift_node_new(struct swift_reader *reader, enum swift_kind kind)
{
	struct swift_node *node = arena_zalloc(&reader->arena, sizeof(*node));
	if (node)
		node->kind = kind;
	else if (!arena_is_full(&reader->arena, sizeof(*node)))
		reader->status = -ENOMEM;
	return node;
}

struct swift_node *swift_node_text(struct swift_reader *reader, enum swift_kind kind, const char *text)
{
	struct swift_node *node = swift_node_new(reader, kind);
	if (node)
		node->text = bytes_of_string(text);
	return node;
}

struct swift_node *swift_node_add_any(struct swift_reader *reader, struct swift_node *node, struct swift_node *child)
{
	if (!node || !child)
		return node;
	if (node->count == node->capacity) {
		uint32_t capacity = node->capacity ? 2 * node->capacity : 2;
		struct swift_node **children = arena_alloc(&reader->arena, capacity * sizeof(struct swift_node *));
		if (!children) {
			if (!arena_is_full(&reader->arena, capacity * sizeof(struct swift_node *)))
				reader->status = -ENOMEM;
			return NULL;
		}
		if (node->count > 0)
			memcpy(children, node->children, node->count * sizeof(struct swift_node *));
		node->children = children;
		node->capacity = capacity;
	}
	node->children[node->count++] = child;
	return node;
}

struct swift_node *swift_node_add(struct swift_reader *reader, struct swift_node *node, struct swift_node *child)
{
	return child ? swift_node_add_any(reader, node, child) : NULL;
}

struct swift_node *swift_node_with(struct swift_reader *reader, enum swift_kind kind, struct swift_node *child)
{
	return child ? swift_node_add(reader, swift_node_new(reader, kind), child) : NULL;
}

struct swift_node *swift_node_type(struct swift_reader *reader, struct swift_node *child)
{
	return swift_node_with(reader, SWIFT_TYPE, child);
}

void swift_node_reverse(struct swift_node *node, size_t first)
{
	for (size_t i = first, j = node->count; i + 1 < j; i++) {
		struct swift_node *other = node->children[--j];
		node->children[j] = node->children[i];
		node->children[i] = other;
	}
}

struct swift_node *swift_node_child(const struct swift_node *node, enum swift_kind kind)
{
	for (uint32_t i = 0; i < node->count; i++)
		if (node->children[i]->kind == kind)
			return node->children[i];
	return NULL;
}

/* ---- the text ---- */

char swift_peek(const struct swift_reader *reader)
{
	return reader->at < reader->end ? *reader->at : 0;
}

char swift_next(struct swift_reader *reader)
{
	return reader->at < reader->end ? *reader->at++ : 0;
}

bool swift_next_if(struct swift_reader *reader, char c)
{
	if (swift_peek(reader) != c)
		return false;
	reader->at++;
	return true;
}

bool swift_natural(struct swift_reader *reader, uint64_t *ret)
{
	if (!isdigit((unsigned char)swift_peek(reader)))
		return false;
	uint64_t value = 0;
	while (isdigit((unsigned char)swift_peek(reader))) {
		value = 10 * value + (uint64_t)(swift_next(reader) - '0');
		if (value > INT32_MAX)
			return false;
	}
	*ret = value;
	return true;
}

/* "_" is 0, "N_" is N + 1. */
bool swift_index(struct swift_reader *reader, uint64_t *ret)
{
	*ret = 0;
	if (swift_next_if(reader, '_'))
		return true;
	if (!swift_natural(reader, ret) || !swift_next_if(reader, '_'))
		return false;
	++*ret;
	return true;
}

/* ---- the stack ---- */

bool swift_push(struct swift_reader *reader, struct swift_node *node)
{
	if (!node || reader->stack_count == SWIFT_STACK_MAX)
		return false;
	reader->stack[reader->stack_count++] = node;
	return true;
}

static struct swift_node *top(const struct swift_reader *reader)
{
	return reader->stack_count > 0 ? reader->stack[reader->stack_count - 1] : NULL;
}

struct swift_node *swift_pop(struct swift_reader *reader, enum swift_kind kind)
{
	struct swift_node *node = top(reader);
	if (!node || node->kind != kind)
		return NULL;
	reader->stack_count--;
	return node;
}

struct swift_node *swift_pop_type_child(struct swift_reader *reader)
{
	struct swift_node *type = swift_pop(reader, SWIFT_TYPE);
	return type ? type->children[0] : NULL;
}

static bool is_any_generic(const struct swift_node *node)
{
	return node->kind >= SWIFT_CLASS && node->kind <= SWIFT_OTHER_NOMINAL;
}

static bool is_context(const struct swift_node *node)
{
	return node->kind >= SWIFT_MODULE && node->kind <= SWIFT_STATIC;
}

bool swift_is_attribute(const struct swift_node *node)
{
	return node->kind == SWIFT_ATTRIBUTE || node->kind == SWIFT_PARTIAL_APPLY || node->kind == SWIFT_SPECIALIZATION;
}

struct swift_node *swift_pop_entity(struct swift_reader *reader)
{
	struct swift_node *node = top(reader);
	if (!node || !(node->kind == SWIFT_TYPE || is_context(node)))
		return NULL;
	reader->stack_count--;
	return node;
}

struct swift_node *swift_pop_module(struct swift_reader *reader)
{
	struct swift_node *name = swift_pop(reader, SWIFT_IDENTIFIER);
	if (!name)
		return swift_pop(reader, SWIFT_MODULE);
	/* A node of its own: the identifier may have been referred to as such. */
	struct swift_node *module = swift_node_new(reader, SWIFT_MODULE);
	if (module)
		module->text = name->text;
	return module;
}

struct swift_node *swift_pop_context(struct swift_reader *reader)
{
	struct swift_node *module = swift_pop_module(reader);
	if (module)
		return module;
	struct swift_node *node = swift_pop_type_child(reader);
	if (node)
		return is_context(node) ? node : NULL;
	node = top(reader);
	if (!node || !is_context(node))
		return NULL;
	reader->stack_count--;
	return node;
}

struct swift_node *swift_pop_decl_name(struct swift_reader *reader)
{
	struct swift_node *node = top(reader);
	if (!node || node->kind < SWIFT_IDENTIFIER || node->kind > SWIFT_RELATED_NAME)
		return NULL;
	reader->stack_count--;
	return node;
}

struct swift_node *swift_pop_protocol(struct swift_reader *reader)
{
	struct swift_node *type = swift_pop(reader, SWIFT_TYPE);
	if (type)
		return type->children[0]->kind == SWIFT_PROTOCOL ? type : NULL;
	struct swift_node *name = swift_pop_decl_name(reader), *context = name ? swift_pop_context(reader) : NULL;
	struct swift_node *protocol = swift_node_with(reader, SWIFT_PROTOCOL, context);
	return swift_node_type(reader, swift_node_add(reader, protocol, name));
}

struct swift_node *swift_pop_type_list(struct swift_reader *reader)
{
	struct swift_node *list = swift_node_new(reader, SWIFT_TYPE_LIST);
	bool is_first = swift_pop(reader, SWIFT_EMPTY_LIST) != NULL;
	while (list && !is_first) {
		is_first = swift_pop(reader, SWIFT_FIRST_ELEMENT) != NULL;
		list = swift_node_add(reader, list, swift_pop(reader, SWIFT_TYPE));
	}
	if (list)
		swift_node_reverse(list, 0);
	return list;
}

struct swift_node *swift_pop_conformance(struct swift_reader *reader)
{
	struct swift_node *signature = swift_pop(reader, SWIFT_SIGNATURE), *module = swift_pop_module(reader);
	struct swift_node *protocol = swift_pop_protocol(reader), *type = protocol ? swift_pop(reader, SWIFT_TYPE) : NULL;
	if (signature) {
		struct swift_node *generic = swift_node_with(reader, SWIFT_GENERIC_TYPE, signature);
		type = swift_node_type(reader, swift_node_add(reader, generic, type));
	}
	struct swift_node *conformance = swift_node_with(reader, SWIFT_CONFORMANCE, type);
	return swift_node_add(reader, swift_node_add(reader, conformance, protocol), module);
}

/* ---- substitutions and identifiers ---- */

struct swift_node *swift_add_substitution(struct swift_reader *reader, struct swift_node *node)
{
	if (!node)
		return NULL;
	int r = array_reserve(&reader->substitutions, &reader->substitution_capacity, reader->substitution_count + 1,
			      DEMANGLE_INPUT_MAX);
	if (r < 0) {
		reader->status = r == -ENOMEM ? r : reader->status;
		return NULL;
	}
	return reader->substitutions[reader->substitution_count++] = node;
}

/* Pushes all but the last copy of a substitution, and returns it. */
static struct swift_node *repeat_substitution(struct swift_reader *reader, uint64_t count, uint64_t index)
{
	if (index >= reader->substitution_count || count > SWIFT_REPEAT_MAX)
		return NULL;
	struct swift_node *node = reader->substitutions[index];
	while (count-- > 1)
		if (!swift_push(reader, node))
			return NULL;
	return node;
}

/* "A" [count] letter ..., capital = the last one; "A" [number] "_". */
static struct swift_node *read_substitutions(struct swift_reader *reader)
{
	for (uint64_t count = 0;;) {
		char c = swift_next(reader);
		if (islower((unsigned char)c)) {
			if (!swift_push(reader, repeat_substitution(reader, count, (uint64_t)(c - 'a'))))
				return NULL;
			count = 0;
		} else if (isupper((unsigned char)c)) {
			return repeat_substitution(reader, count, (uint64_t)(c - 'A'));
		} else if (c == '_') {
			bool has_number = isdigit((unsigned char)reader->at[-2]);
			uint64_t index = has_number ? count + 27 : 26;
			return index < reader->substitution_count ? reader->substitutions[index] : NULL;
		} else {
			reader->at -= c != 0;
			if (!swift_natural(reader, &count))
				return NULL;
		}
	}
}

static struct swift_node *read_operator(struct swift_reader *reader)
{
	static const char characters[] = "& @/= >    <*!|+?%-~   ^ .";
	struct swift_node *name = swift_pop(reader, SWIFT_IDENTIFIER);
	char fixity = swift_next(reader);
	if (!name || (fixity != 'i' && fixity != 'p' && fixity != 'P'))
		return NULL;
	struct swift_node *node = swift_node_new(reader, SWIFT_OPERATOR);
	char *text = node ? arena_strndup(&reader->arena, (const char *)name->text.data, name->text.len) : NULL;
	if (!text)
		return NULL;
	for (size_t i = 0; i < name->text.len; i++) {
		if (text[i] & 0x80)
			continue;
		if (!islower((unsigned char)text[i]) || characters[text[i] - 'a'] == ' ')
			return NULL;
		text[i] = characters[text[i] - 'a'];
	}
	node->text = swift_bytes(text, name->text.len);
	node->detail = fixity;
	return node;
}

/* 'L': private ("LL" a name, "Ll" without), related ("La"), and local names. */
static struct swift_node *read_local_name(struct swift_reader *reader)
{
	char c = swift_peek(reader);
	if (c == 'L' || c == 'l') {
		reader->at++;
		struct swift_node *discriminator = swift_pop(reader, SWIFT_IDENTIFIER);
		struct swift_node *node = swift_node_with(reader, SWIFT_PRIVATE_NAME, discriminator);
		return c == 'l' ? node : swift_node_add(reader, node, swift_pop_decl_name(reader));
	}
	struct swift_node *node;
	if (isalpha((unsigned char)c) && toupper((unsigned char)c) <= 'J') {
		reader->at++;
		node = swift_node_new(reader, SWIFT_RELATED_NAME);
		if (node)
			node->detail = c;
	} else {
		node = swift_node_new(reader, SWIFT_LOCAL_NAME);
		if (!node || !swift_index(reader, &node->index))
			return NULL;
	}
	return swift_node_add(reader, node, swift_pop_decl_name(reader));
}

/* ---- entities ---- */

static struct swift_node *read_standard_substitution(struct swift_reader *reader)
{
	char c = swift_peek(reader);
	if (c == 'o' || c == 'C') {
		reader->at++;
		return swift_node_text(reader, SWIFT_MODULE, c == 'o' ? "__C" : "__C_Synthesized");
	}
	if (c == 'g') {
		reader->at++;
		struct swift_node *arguments = swift_node_with(reader, SWIFT_TYPE_LIST, swift_pop(reader, SWIFT_TYPE));
		struct swift_node *bound = swift_node_with(reader, SWIFT_BOUND_GENERIC, swift_optional_type(reader));
		if (bound)
			bound->detail = SWIFT_ENUM;
		return swift_add_substitution(reader, swift_node_type(reader, swift_node_add(reader, bound, arguments)));
	}
	uint64_t count = 0;
	if (isdigit((unsigned char)c) && (!swift_natural(reader, &count) || count > SWIFT_REPEAT_MAX))
		return NULL;
	struct swift_node *type = swift_read_standard_type(reader);
	while (type && count-- > 1 && count < SWIFT_REPEAT_MAX)
		if (!swift_push(reader, type))
			return NULL;
	return type;
}

static struct swift_node *read_nominal(struct swift_reader *reader, enum swift_kind kind)
{
	struct swift_node *name = swift_pop_decl_name(reader), *context = name ? swift_pop_context(reader) : NULL;
	struct swift_node *node = swift_node_add(reader, swift_node_with(reader, kind, context), name);
	return swift_add_substitution(reader, swift_node_type(reader, node));
}

static struct swift_node *read_extension(struct swift_reader *reader)
{
	struct swift_node *signature = swift_pop(reader, SWIFT_SIGNATURE), *module = swift_pop_module(reader);
	struct swift_node *type = module ? swift_pop_type_child(reader) : NULL;
	if (!type || !is_any_generic(type))
		return NULL;
	struct swift_node *node = swift_node_add(reader, swift_node_with(reader, SWIFT_EXTENSION, module), type);
	return swift_node_add_any(reader, node, signature);
}

/* The function type below a type, seen through its generic signature; NULL if it is none. */
static const struct swift_node *function_of(const struct swift_node *type)
{
	const struct swift_node *node = type->children[0];
	if (node->kind == SWIFT_GENERIC_TYPE)
		node = node->children[1]->children[0];
	return node->kind == SWIFT_FUNCTION_TYPE ? node : NULL;
}

static struct swift_node *old_label(struct swift_reader *reader, const struct swift_node *tuple, uint32_t i)
{
	struct swift_node *name = tuple->kind == SWIFT_TUPLE ? swift_node_child(tuple->children[i], SWIFT_IDENTIFIER) : NULL;
	return name ? name : swift_node_new(reader, SWIFT_FIRST_ELEMENT);
}

/* The labels of a function's parameters, in front of its type; NULL when there are none to pop. */
static struct swift_node *pop_labels(struct swift_reader *reader, const struct swift_node *type)
{
	if (!type)
		return NULL;
	if (!reader->has_old_labels && swift_pop(reader, SWIFT_EMPTY_LIST))
		return swift_node_new(reader, SWIFT_LABELS);
	const struct swift_node *function = function_of(type);
	const struct swift_node *arguments = function ? swift_node_child(function, SWIFT_ARGUMENTS) : NULL;
	if (!arguments)
		return NULL;
	const struct swift_node *tuple = arguments->children[0]->children[0];
	uint32_t count = tuple->kind == SWIFT_TUPLE ? tuple->count : 1;
	struct swift_node *labels = count > 0 ? swift_node_new(reader, SWIFT_LABELS) : NULL;
	bool any = false;
	for (uint32_t i = 0; labels && i < count; i++) {
		struct swift_node *label;
		if (reader->has_old_labels)
			label = old_label(reader, tuple, i);
		else if (!(label = swift_pop(reader, SWIFT_IDENTIFIER)))
			label = swift_pop(reader, SWIFT_FIRST_ELEMENT);
		any |= label && label->kind == SWIFT_IDENTIFIER;
		labels = swift_node_add(reader, labels, label);
	}
	if (labels && !any)
		labels->count = 0;
	else if (labels && !reader->has_old_labels)
		swift_node_reverse(labels, 0);
	return labels;
}

static struct swift_node *read_function(struct swift_reader *reader)
{
	struct swift_node *signature = swift_pop(reader, SWIFT_SIGNATURE), *type = swift_pop_function_type(reader, "");
	struct swift_node *labels = pop_labels(reader, type);
	if (signature) {
		struct swift_node *generic = swift_node_with(reader, SWIFT_GENERIC_TYPE, signature);
		type = swift_node_type(reader, swift_node_add(reader, generic, type));
	}
	struct swift_node *name = swift_pop_decl_name(reader), *context = name ? swift_pop_context(reader) : NULL;
	struct swift_node *node = swift_node_add(reader, swift_node_with(reader, SWIFT_FUNCTION, context), name);
	return swift_node_add(reader, swift_node_add_any(reader, node, labels), type);
}

static struct swift_node *read_accessor(struct swift_reader *reader, struct swift_node *storage)
{
	static const struct {
		const char *code, *name;
	} accessors[] = {
		{"m", "materializeForSet"},
		{"s", "setter"},
		{"g", "getter"},
		{"G", "getter"},
		{"w", "willset"},
		{"W", "didset"},
		{"r", "read"},
		{"M", "modify"},
		{"x", "modify2"},
		{"y", "read2"},
		{"b", "borrow"},
		{"z", "mutate"},
		{"i", "init"},
		{"au", "unsafeMutableAddressor"},
		{"aO", "owningMutableAddressor"},
		{"ao", "nativeOwningMutableAddressor"},
		{"ap", "nativePinningMutableAddressor"},
		{"lu", "unsafeAddressor"},
		{"lO", "owningAddressor"},
		{"lo", "nativeOwningAddressor"},
		{"lp", "nativePinningAddressor"},
	};
	if (swift_next_if(reader, 'p'))
		return storage;
	for (size_t i = 0; i < sizeof(accessors) / sizeof(accessors[0]); i++) {
		size_t len = strlen(accessors[i].code);
		if ((size_t)(reader->end - reader->at) < len || memcmp(reader->at, accessors[i].code, len) != 0)
			continue;
		reader->at += len;
		struct swift_node *node = swift_node_text(reader, SWIFT_ACCESSOR, accessors[i].name);
		return swift_node_add(reader, node, storage);
	}
	return NULL;
}

static struct swift_node *read_variable(struct swift_reader *reader)
{
	struct swift_node *type = swift_pop(reader, SWIFT_TYPE), *labels = pop_labels(reader, type);
	struct swift_node *name = swift_pop_decl_name(reader), *context = name ? swift_pop_context(reader) : NULL;
	struct swift_node *node = swift_node_add(reader, swift_node_with(reader, SWIFT_VARIABLE, context), name);
	return read_accessor(reader, swift_node_add(reader, swift_node_add_any(reader, node, labels), type));
}

static struct swift_node *read_subscript(struct swift_reader *reader)
{
	struct swift_node *private_name = swift_pop(reader, SWIFT_PRIVATE_NAME), *type = swift_pop(reader, SWIFT_TYPE);
	struct swift_node *labels = pop_labels(reader, type);
	struct swift_node *node = swift_node_with(reader, SWIFT_SUBSCRIPT, type ? swift_pop_context(reader) : NULL);
	node = swift_node_add(reader, swift_node_add_any(reader, node, labels), type);
	return read_accessor(reader, swift_node_add_any(reader, node, private_name));
}

static struct swift_node *read_constructor(struct swift_reader *reader, const char *name)
{
	struct swift_node *private_name = swift_pop(reader, SWIFT_PRIVATE_NAME), *type = swift_pop(reader, SWIFT_TYPE);
	struct swift_node *labels = pop_labels(reader, type);
	struct swift_node *node = swift_node_text(reader, SWIFT_CONSTRUCTOR, name);
	node = swift_node_add(reader, node, type ? swift_pop_context(reader) : NULL);
	node = swift_node_add(reader, swift_node_add_any(reader, node, labels), type);
	return swift_node_add_any(reader, node, private_name);
}

static struct swift_node *read_closure(struct swift_reader *reader, const char *name)
{
	struct swift_node *node = swift_node_text(reader, SWIFT_CLOSURE, name);
	if (!node || !swift_index(reader, &node->index))
		return NULL;
	struct swift_node *type = swift_pop(reader, SWIFT_TYPE);
	return swift_node_add(reader, swift_node_add(reader, node, type ? swift_pop_context(reader) : NULL), type);
}

/* 'f': constructors, destructors, closures, and what initialises. */
static struct swift_node *read_function_entity(struct swift_reader *reader)
{
	enum swift_kind kind = SWIFT_DESTRUCTOR;
	const char *name;
	switch (swift_next(reader)) {
	case 'C': return read_constructor(reader, "__allocating_init");
	case 'c': return read_constructor(reader, "init");
	case 'U': return read_closure(reader, "closure #");
	case 'u': return read_closure(reader, "implicit closure #");
	case 'A': {
		struct swift_node *node = swift_node_text(reader, SWIFT_DEFAULT_ARGUMENT, "default argument ");
		if (!node || !swift_index(reader, &node->index))
			return NULL;
		return swift_node_add(reader, node, swift_pop_context(reader));
	}
	case 'D': name = "__deallocating_deinit"; break;
	case 'Z': name = "__isolated_deallocating_deinit"; break;
	case 'd': name = "deinit"; break;
	case 'E': name = "__ivar_destroyer"; break;
	case 'e': name = "__ivar_initializer"; break;
	case 'i':
		kind = SWIFT_INITIALIZER;
		name = "variable initialization expression";
		break;
	case 'P':
		kind = SWIFT_INITIALIZER;
		name = "property wrapper backing initializer";
		break;
	case 'W':
		kind = SWIFT_INITIALIZER;
		name = "property wrapper init from projected value";
		break;
	case 'F':
		kind = SWIFT_INITIALIZER;
		name = "property wrapped field init accessor";
		break;
	default: return NULL;
	}
	return swift_node_add(reader, swift_node_text(reader, kind, name), swift_pop_context(reader));
}

/* ---- generic types ---- */

static bool takes_arguments(const struct swift_node *node)
{
	switch (node->kind) {
	case SWIFT_VARIABLE:
	case SWIFT_SUBSCRIPT:
	case SWIFT_CLOSURE:
	case SWIFT_DEFAULT_ARGUMENT:
	case SWIFT_INITIALIZER:
	case SWIFT_STATIC: return false;
	default: return true;
	}
}

static bool may_be_bound(const struct swift_node *node)
{
	return is_any_generic(node) || node->kind == SWIFT_FUNCTION || node->kind == SWIFT_CONSTRUCTOR;
}

/* Gives a type and its contexts their arguments, of which lists->children[0] are the innermost. */
static struct swift_node *bind_arguments(struct swift_reader *reader, struct swift_node *node, struct swift_node *lists,
					 uint32_t level, unsigned depth)
{
	if (level >= lists->count || node->count == 0 || depth > SWIFT_DEPTH_MAX)
		return NULL;
	bool takes = takes_arguments(node);
	struct swift_node *arguments = lists->children[level], *context = node->children[0];
	uint32_t next = level + (takes ? 1 : 0);
	if (next < lists->count) {
		bool is_extension = context->kind == SWIFT_EXTENSION;
		struct swift_node *parent =
			bind_arguments(reader, is_extension ? context->children[1] : context, lists, next, depth + 1);
		if (is_extension) {
			struct swift_node *extension = swift_node_with(reader, SWIFT_EXTENSION, context->children[0]);
			parent = swift_node_add(reader, extension, parent);
			if (context->count > 2)
				parent = swift_node_add(reader, parent, context->children[2]);
		}
		struct swift_node *copy = swift_node_with(reader, node->kind, parent);
		if (!copy)
			return NULL;
		copy->text = node->text;
		copy->index = node->index;
		for (uint32_t i = 1; copy && i < node->count; i++)
			copy = swift_node_add(reader, copy, node->children[i]);
		node = copy;
	}
	if (!node || !takes || arguments->count == 0)
		return node;
	if (!may_be_bound(node))
		return NULL;
	struct swift_node *bound = swift_node_with(reader, SWIFT_BOUND_GENERIC, swift_node_type(reader, node));
	if (bound)
		bound->detail = (char)node->kind;
	return swift_node_add(reader, bound, arguments);
}

bool swift_pop_generic_lists(struct swift_reader *reader, struct swift_node **ret_lists, struct swift_node **ret_conformances)
{
	struct swift_node *conformance;
	*ret_conformances = NULL;
	while ((conformance = swift_pop(reader, SWIFT_RETROACTIVE)))
		*ret_conformances = conformance; /* they are not printed */
	struct swift_node *lists = swift_node_new(reader, SWIFT_TYPE_LIST);
	while (lists) {
		struct swift_node *list = swift_node_new(reader, SWIFT_TYPE_LIST), *type;
		while (list && (type = swift_pop(reader, SWIFT_TYPE)))
			list = swift_node_add(reader, list, type);
		if (list)
			swift_node_reverse(list, 0);
		lists = swift_node_add(reader, lists, list);
		if (swift_pop(reader, SWIFT_EMPTY_LIST))
			break;
		if (!swift_pop(reader, SWIFT_FIRST_ELEMENT))
			return false;
	}
	*ret_lists = lists;
	return lists != NULL;
}

static struct swift_node *read_bound_generic(struct swift_reader *reader)
{
	struct swift_node *lists, *conformances;
	if (!swift_pop_generic_lists(reader, &lists, &conformances))
		return NULL;
	struct swift_node *nominal = swift_pop_type_child(reader);
	if (!nominal || !is_any_generic(nominal))
		return NULL;
	struct swift_node *bound = bind_arguments(reader, nominal, lists, 0, 0);
	if (bound && bound->kind == SWIFT_BOUND_GENERIC)
		bound = swift_node_add_any(reader, bound, conformances);
	return swift_add_substitution(reader, swift_node_type(reader, bound));
}

/* 'H' and 'g': which conformances a bound type uses. They are read and not printed. */
static struct swift_node *read_conformance_ref(struct swift_reader *reader)
{
	char c = swift_next(reader);
	uint64_t index;
	struct swift_node *node = swift_node_new(reader, SWIFT_CONFORMANCE_REF);
	if (node)
		node->detail = c;
	switch (c) {
	case 'P':
	case 'p': return swift_node_add(reader, node, swift_pop_protocol(reader));
	case 'C':
		for (bool is_first = swift_pop(reader, SWIFT_EMPTY_LIST) != NULL; !is_first;) {
			is_first = swift_pop(reader, SWIFT_FIRST_ELEMENT) != NULL;
			if (!swift_pop(reader, SWIFT_CONFORMANCE_REF))
				return NULL;
		}
		if (top(reader) && top(reader)->kind == SWIFT_CONFORMANCE_REF)
			reader->stack_count--;
		else if (!swift_pop_module(reader) || !swift_pop_protocol(reader))
			return NULL;
		return swift_pop(reader, SWIFT_TYPE) ? node : NULL;
	case 'D':
		if (!swift_index(reader, &index) || !swift_pop_protocol(reader) || !swift_pop(reader, SWIFT_TYPE))
			return NULL;
		return node;
	case 'I':
		if (!swift_index(reader, &index) || !swift_pop_protocol(reader) || !swift_pop(reader, SWIFT_CONFORMANCE_REF))
			return NULL;
		return node;
	case 'A':
		if (!swift_index(reader, &index) || !swift_pop_protocol(reader) || !swift_pop(reader, SWIFT_TYPE) ||
		    !swift_pop(reader, SWIFT_CONFORMANCE_REF))
			return NULL;
		return node;
	default: return NULL;
	}
}

static struct swift_node *read_retroactive(struct swift_reader *reader)
{
	uint64_t index;
	if (!swift_index(reader, &index))
		return NULL;
	return swift_node_with(reader, SWIFT_RETROACTIVE, swift_pop(reader, SWIFT_CONFORMANCE_REF));
}

/* ---- all of it ---- */

static struct swift_node *pop_tuple(struct swift_reader *reader)
{
	struct swift_node *tuple = swift_node_new(reader, SWIFT_TUPLE);
	bool is_first = swift_pop(reader, SWIFT_EMPTY_LIST) != NULL;
	while (tuple && !is_first) {
		is_first = swift_pop(reader, SWIFT_FIRST_ELEMENT) != NULL;
		struct swift_node *element = swift_node_new(reader, SWIFT_TUPLE_ELEMENT);
		element = swift_node_add_any(reader, element, swift_pop(reader, SWIFT_VARIADIC));
		element = swift_node_add_any(reader, element, swift_pop(reader, SWIFT_IDENTIFIER));
		tuple = swift_node_add(reader, tuple, swift_node_add(reader, element, swift_pop(reader, SWIFT_TYPE)));
	}
	if (tuple)
		swift_node_reverse(tuple, 0);
	return swift_node_type(reader, tuple);
}

static struct swift_node *read_type_prefix(struct swift_reader *reader, const char *text)
{
	struct swift_node *child = swift_pop_type_child(reader);
	return swift_node_type(reader, swift_node_add(reader, swift_node_text(reader, SWIFT_TYPE_PREFIX, text), child));
}

/* 'Y': what functions and parameters are annotated with. */
static struct swift_node *read_annotation(struct swift_reader *reader)
{
	char c = swift_next(reader);
	switch (c) {
	case 'i': return read_type_prefix(reader, "isolated ");
	case 'k': return read_type_prefix(reader, "@noDerivative ");
	case 't': return read_type_prefix(reader, "_const ");
	case 'u': return read_type_prefix(reader, "sending ");
	case 'a': /* async */
	case 'b': /* @Sendable */
	case 'c': /* @Actor */
	case 'A': /* @isolated(any) */
	case 'C': /* nonisolated(nonsending) */
	case 'K': /* throws(type) */
	case 'T': /* -> sending */ break;
	default: return NULL;
	}
	struct swift_node *node = swift_node_new(reader, SWIFT_ANNOTATION);
	if (node)
		node->detail = c;
	return c == 'c' || c == 'K' ? swift_node_add(reader, node, swift_pop_type_child(reader)) : node;
}

static struct swift_node *read_integer_type(struct swift_reader *reader)
{
	struct swift_node *node = swift_node_text(reader, SWIFT_INTEGER_TYPE, swift_next_if(reader, 'n') ? "-" : "");
	if (!node || !swift_index(reader, &node->number))
		return NULL;
	return swift_node_type(reader, node);
}

static struct swift_node *read_type_mangling(struct swift_reader *reader)
{
	struct swift_node *type = swift_pop(reader, SWIFT_TYPE);
	(void)pop_labels(reader, type);
	return type;
}

static struct swift_node *read_metatype(struct swift_reader *reader)
{
	return swift_node_type(reader, swift_node_with(reader, SWIFT_METATYPE, swift_pop(reader, SWIFT_TYPE)));
}

static struct swift_node *read_protocol_list_type(struct swift_reader *reader)
{
	return swift_node_type(reader, swift_pop_protocol_list(reader));
}

static struct swift_node *read_generic_type(struct swift_reader *reader)
{
	struct swift_node *signature = swift_pop(reader, SWIFT_SIGNATURE);
	struct swift_node *type = signature ? swift_pop(reader, SWIFT_TYPE) : NULL;
	struct swift_node *generic = swift_node_with(reader, SWIFT_GENERIC_TYPE, signature);
	return swift_node_type(reader, swift_node_add(reader, generic, type));
}

static struct swift_node *read_suffix(struct swift_reader *reader)
{
	struct swift_node *node = swift_node_new(reader, SWIFT_SUFFIX);
	if (node)
		node->text = swift_bytes(reader->at - 1, (size_t)(reader->end - reader->at) + 1);
	reader->at = reader->end;
	return node;
}

static struct swift_node *read_operand(struct swift_reader *reader, char c)
{
	struct swift_node *node;
	switch (c) {
	case 's': return swift_node_text(reader, SWIFT_MODULE, "Swift");
	case 'x': return swift_node_type(reader, swift_node_new(reader, SWIFT_GENERIC_PARAMETER));
	case 'y': return swift_node_new(reader, SWIFT_EMPTY_LIST);
	case '_': return swift_node_new(reader, SWIFT_FIRST_ELEMENT);
	case 'd': return swift_node_new(reader, SWIFT_VARIADIC);
	case 'K':
		node = swift_node_new(reader, SWIFT_ANNOTATION);
		if (node)
			node->detail = 't'; /* throws */
		return node;
	case 'h': return read_type_prefix(reader, "__shared ");
	case 'n': return read_type_prefix(reader, "__owned ");
	case 'z': return read_type_prefix(reader, "inout ");
	default:
		if (!isdigit((unsigned char)c))
			return NULL;
		reader->at--;
		return swift_read_identifier(reader);
	}
}

/* Types and entities; what is not here is an operand. */
static struct swift_node *read_operator_of_type(struct swift_reader *reader, char c)
{
	switch (c) {
	case 'B': return swift_read_builtin(reader);
	case 'C': return read_nominal(reader, SWIFT_CLASS);
	case 'G': return read_bound_generic(reader);
	case 'H': return read_conformance_ref(reader);
	case 'I': return swift_read_impl_function(reader);
	case 'O': return read_nominal(reader, SWIFT_ENUM);
	case 'P': return read_nominal(reader, SWIFT_PROTOCOL);
	case 'Q': return swift_read_archetype(reader);
	case 'R': return swift_read_requirement(reader);
	case 'V': return read_nominal(reader, SWIFT_STRUCTURE);
	case 'X': return swift_read_special_type(reader);
	case 'Y': return read_annotation(reader);
	case 'a': return read_nominal(reader, SWIFT_TYPE_ALIAS);
	case 'c': return swift_pop_function_type(reader, "");
	case 'g': return read_retroactive(reader);
	case 'l': return swift_read_signature(reader, false);
	case 'm': return read_metatype(reader);
	case 'p': return read_protocol_list_type(reader);
	case 'q': return swift_node_type(reader, swift_read_generic_parameter(reader));
	case 'r': return swift_read_signature(reader, true);
	case 't': return pop_tuple(reader);
	case 'u': return read_generic_type(reader);
	case '$': return read_integer_type(reader);
	default: return read_operand(reader, c);
	}
}

static struct swift_node *read_next(struct swift_reader *reader)
{
	char c = swift_next(reader);
	switch (c) {
	case 'A': return read_substitutions(reader);
	case 'D': return read_type_mangling(reader);
	case 'E': return read_extension(reader);
	case 'F': return read_function(reader);
	case 'L': return read_local_name(reader);
	case 'M': return swift_read_metadata(reader);
	case 'N':
		return swift_node_add(reader, swift_node_text(reader, SWIFT_PREFIXED, "type metadata for "),
				      swift_pop(reader, SWIFT_TYPE));
	case 'S': return read_standard_substitution(reader);
	case 'T': return swift_read_thunk(reader);
	case 'W': return swift_read_witness(reader);
	case 'Z': return swift_node_with(reader, SWIFT_STATIC, swift_pop_entity(reader));
	case 'f': return read_function_entity(reader);
	case 'i': return read_subscript(reader);
	case 'o': return read_operator(reader);
	case 'v': return read_variable(reader);
	case 'w': return swift_read_value_witness(reader);
	case '.': return read_suffix(reader);
	default: return read_operator_of_type(reader, c);
	}
}

/* What is printed, in order: the attributes, the last one first, then the rest of the stack, then the suffix. Behind "partial
 * apply forwarder" all is its child. Returns their list, NULL if there is nothing. */
static struct swift_node *collect_symbol(struct swift_reader *reader)
{
	struct swift_node *all = swift_node_new(reader, SWIFT_TYPE_LIST), *suffix = swift_pop(reader, SWIFT_SUFFIX);
	struct swift_node *parent = all;
	while (parent && top(reader) && swift_is_attribute(top(reader))) {
		struct swift_node *attribute = reader->stack[--reader->stack_count];
		if (!swift_node_add(reader, parent, attribute))
			return NULL;
		if (attribute->kind == SWIFT_PARTIAL_APPLY)
			parent = attribute;
	}
	/* More would be rests of operands that no operator took. */
	if (!parent || reader->stack_count > 1)
		return NULL;
	if (reader->stack_count == 1) {
		struct swift_node *node = reader->stack[0];
		if ((node->kind < SWIFT_MODULE && node->kind != SWIFT_IDENTIFIER) ||
		    (node->kind >= SWIFT_SIGNATURE && node->kind <= SWIFT_SUFFIX))
			return NULL;
		parent = swift_node_add(reader, parent, node->kind == SWIFT_TYPE ? node->children[0] : node);
	}
	if (!parent || all->count == 0)
		return NULL;
	return swift_node_add_any(reader, all, suffix);
}

static struct swift_node *read_symbol(struct swift_reader *reader)
{
	while (reader->at < reader->end)
		if (!swift_push(reader, read_next(reader)))
			return NULL;
	return collect_symbol(reader);
}

/* The mangled part of a name; NULL when it is none. */
static const char *find_mangled(const char *name, bool *ret_has_old_labels)
{
	static const char *const prefixes[] = {"$s", "$S", "$e", "_$s", "_$S", "_$e", "_T0", "@__swiftmacro_"};
	for (size_t i = 0; i < sizeof(prefixes) / sizeof(prefixes[0]); i++) {
		size_t len = strlen(prefixes[i]);
		if (strncmp(name, prefixes[i], len) == 0 && name[len] != 0) {
			*ret_has_old_labels = prefixes[i][1] == 'T';
			return name + len;
		}
	}
	return NULL;
}

int demangle_swift(const char *name, unsigned nesting, struct buffer *out)
{
	bool has_old_labels;
	const char *mangled = find_mangled(name, &has_old_labels);
	if (!mangled || nesting > SWIFT_NESTING_MAX || strnlen(name, DEMANGLE_INPUT_MAX + 1) > DEMANGLE_INPUT_MAX)
		return 0;
	struct swift_reader *reader = mem_zalloc(sizeof(*reader));
	if (!reader)
		return -ENOMEM;
	reader->at = mangled;
	reader->end = mangled + strlen(mangled);
	reader->has_old_labels = has_old_labels;
	arena_init(&reader->arena, SWIFT_NODE_BYTES_MAX);
	size_t len_before = out->len;
	struct swift_node *symbol = read_symbol(reader);
	int r = symbol ? swift_print(symbol->children, symbol->count, nesting, out) : reader->status;
	if (r == 1 && out->len - len_before > DEMANGLE_OUTPUT_MAX)
		r = 0;
	if (r != 1 || out->len == len_before) {
		buffer_truncate(out, len_before);
		r = r < 0 ? r : 0;
	}
	mem_free(reader->substitutions);
	arena_release(&reader->arena);
	mem_free(reader);
	return r;
}
