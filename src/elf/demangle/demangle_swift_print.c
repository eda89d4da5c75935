/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names of Swift: from nodes to text, as swift-demangle writes it.
 *
 * A context is written before a name with a dot, "main.Foo.bar"; where the context is itself a function with a type, or the
 * name has a space, it follows: "closure #1 () -> () in main.Foo.bar() -> ()". So print_entity() may hand a context back that
 * its caller still has to write.
 *
 * Nodes are shared, so text and time could grow exponentially: both are bounded, by SWIFT_STEPS_MAX and the output's maximum.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "elf/demangle/demangle.h"
#include "elf/demangle/demangle_swift_int.h"

struct printer {
	struct buffer *out;
	size_t start;
	unsigned depth, steps, nesting;
	int status; /* -ERANGE past a limit, -ENOMEM, -E2BIG */
};

enum type_style { NO_TYPE, WITH_COLON, FUNCTION_STYLE };

static void print(struct printer *p, const struct swift_node *node);
static const struct swift_node *print_context(struct printer *p, const struct swift_node *node);
static void print_bound_function(struct printer *p, const struct swift_node *function, const struct swift_node *arguments);

static void put_bytes(struct printer *p, struct bytes text)
{
	if (p->status == 0 && p->out->len - p->start + text.len > DEMANGLE_OUTPUT_MAX)
		p->status = -ERANGE;
	if (p->status == 0)
		p->status = buffer_append(p->out, text.data, text.len);
}

static void put(struct printer *p, const char *text)
{
	put_bytes(p, bytes_of_string(text));
}

static void put_number(struct printer *p, uint64_t number)
{
	char text[24];
	int len = snprintf(text, sizeof(text), "%llu", (unsigned long long)number);
	put_bytes(p, (struct bytes){(const uint8_t *)text, (size_t)len});
}

static void print_list(struct printer *p, const struct swift_node *node, uint32_t first, const char *between)
{
	for (uint32_t i = first; p->status == 0 && i < node->count; i++) {
		if (i > first)
			put(p, between);
		print(p, node->children[i]);
	}
}

static void print_between(struct printer *p, const struct swift_node *node, const char *before, const char *between,
			  const char *after)
{
	put(p, before);
	print_list(p, node, 0, between);
	put(p, after);
}

static void print_in(struct printer *p, const char *before, const struct swift_node *node, const char *after)
{
	put(p, before);
	print(p, node);
	put(p, after);
}

static const struct swift_node *without_type(const struct swift_node *node)
{
	while (node->kind == SWIFT_TYPE)
		node = node->children[0];
	return node;
}

/* ---- functions ---- */

static void print_parameters(struct printer *p, const struct swift_node *labels, const struct swift_node *arguments)
{
	const struct swift_node *tuple = without_type(arguments->children[0]);
	put(p, "(");
	if (tuple->kind != SWIFT_TUPLE) {
		if (labels && labels->count == 1 && labels->children[0]->kind == SWIFT_IDENTIFIER) {
			put_bytes(p, labels->children[0]->text);
			put(p, ": ");
		}
		print(p, tuple);
	}
	for (uint32_t i = 0; tuple->kind == SWIFT_TUPLE && i < tuple->count && p->status == 0; i++) {
		if (i > 0)
			put(p, ", ");
		if (labels && i < labels->count) {
			bool has_name = labels->children[i]->kind == SWIFT_IDENTIFIER;
			if (has_name)
				put_bytes(p, labels->children[i]->text);
			put(p, has_name ? ": " : "_: ");
			/* The label of Swift 4.0 is in the tuple, too. */
			const struct swift_node *element = tuple->children[i];
			print(p, element->children[element->count - 1]);
			if (swift_node_child(element, SWIFT_VARIADIC))
				put(p, "...");
		} else {
			print(p, tuple->children[i]);
		}
	}
	put(p, ")");
}

static const struct swift_node *find_annotation(const struct swift_node *function, char detail)
{
	for (uint32_t i = 0; i < function->count; i++)
		if (function->children[i]->kind == SWIFT_ANNOTATION && function->children[i]->detail == detail)
			return function->children[i];
	return NULL;
}

static void print_function_type(struct printer *p, const struct swift_node *labels, const struct swift_node *function)
{
	const struct swift_node *note;
	put_bytes(p, function->text);
	if ((note = find_annotation(function, 'c'))) {
		print_in(p, "@", note->children[0], " ");
	}
	if (find_annotation(function, 'A'))
		put(p, "@isolated(any) ");
	if (find_annotation(function, 'C'))
		put(p, "nonisolated(nonsending) ");
	if (find_annotation(function, 'b'))
		put(p, "@Sendable ");
	print_parameters(p, labels, function->children[function->count - 2]);
	if (find_annotation(function, 'a'))
		put(p, " async");
	if (find_annotation(function, 't'))
		put(p, " throws");
	if ((note = find_annotation(function, 'K'))) {
		print_in(p, " throws(", note->children[0], ")");
	}
	put(p, find_annotation(function, 'T') ? " -> sending " : " -> ");
	print(p, function->children[function->count - 1]->children[0]);
}

static void print_impl_function(struct printer *p, const struct swift_node *node)
{
	const struct swift_node *pattern = swift_node_child(node, SWIFT_IMPL_PATTERN);
	const struct swift_node *invocation = swift_node_child(node, SWIFT_IMPL_INVOCATION);
	unsigned state = 0; /* attributes, parameters, results */
	for (uint32_t i = 0; i <= node->count && p->status == 0; i++) {
		const struct swift_node *child = i < node->count ? node->children[i] : NULL;
		if (child && (child->kind == SWIFT_IMPL_PATTERN || child->kind == SWIFT_IMPL_INVOCATION))
			continue;
		unsigned next = !child || child->kind == SWIFT_IMPL_RESULT ? 2 : child->kind == SWIFT_IMPL_PARAMETER ? 1 : 0;
		if (child && next > 0 && next == state)
			put(p, ", ");
		for (; state < next; state++) {
			if (state == 0 && pattern) {
				print_in(p, "@substituted ", pattern->children[0], " ");
			}
			put(p, state == 0 ? "(" : node->detail == 'T' ? ") -> sending (" : ") -> (");
		}
		if (child)
			print(p, child);
		if (child && next == 0)
			put(p, " ");
	}
	put(p, ")");
	for (unsigned i = 0; i < 2; i++) {
		const struct swift_node *with = i == 0 ? pattern : invocation;
		if (!with)
			continue;
		print_between(p, with->children[with->count - 1], " for <", ", ", ">");
	}
}

static void print_impl_value(struct printer *p, const struct swift_node *node)
{
	if (node->detail == 'z')
		put(p, "@error ");
	put_bytes(p, node->text);
	for (uint32_t i = 0; i < node->count; i++) {
		put(p, " ");
		print(p, node->children[i]);
	}
}

/* ---- generics ---- */

static void print_parameter_name(struct printer *p, uint64_t depth, uint64_t index)
{
	if (index > UINT32_MAX) /* of a damaged name */
		p->status = p->status ? p->status : -ERANGE;
	do {
		char letter = (char)('A' + index % 26);
		put_bytes(p, (struct bytes){(const uint8_t *)&letter, 1});
		index /= 26;
	} while (index > 0);
	if (depth > 0)
		put_number(p, depth);
}

static bool is_pack(const struct swift_node *signature, uint64_t depth, uint64_t index)
{
	for (uint32_t i = 0; i < signature->count; i++) {
		const struct swift_node *marker = signature->children[i];
		if (marker->kind == SWIFT_PACK_MARKER && marker->children[0]->index == depth &&
		    marker->children[0]->number == index)
			return true;
	}
	return false;
}

static void print_signature(struct printer *p, const struct swift_node *node)
{
	uint32_t at = 0;
	put(p, "<");
	for (; at < node->count && node->children[at]->kind == SWIFT_PARAM_COUNT; at++) {
		if (at > 0)
			put(p, "><");
		for (uint64_t i = 0; i < node->children[at]->index && p->status == 0; i++) {
			if (i > 0)
				put(p, ", ");
			if (i == 128) {
				put(p, "...");
				break;
			}
			if (is_pack(node, at, i))
				put(p, "each ");
			print_parameter_name(p, at, i);
		}
	}
	bool any = false;
	for (; at < node->count && p->status == 0; at++) {
		if (node->children[at]->kind != SWIFT_REQUIREMENT)
			continue;
		put(p, any ? ", " : " where ");
		print(p, node->children[at]);
		any = true;
	}
	put(p, ">");
}

static bool is_function(const struct swift_node *node)
{
	return node->kind == SWIFT_FUNCTION_TYPE || node->kind == SWIFT_GENERIC_TYPE;
}

/* Whether a type needs no parentheses before a '?'. */
static bool is_simple(const struct swift_node *node)
{
	node = without_type(node);
	switch (node->kind) {
	case SWIFT_FUNCTION_TYPE:
	case SWIFT_GENERIC_TYPE:
	case SWIFT_TYPE_PREFIX:
	case SWIFT_PROTOCOL_LIST_CLASS:
	case SWIFT_PROTOCOL_LIST_ANY:
	case SWIFT_CONSTRAINED_EXISTENTIAL:
	case SWIFT_OPAQUE_RESULT:
	case SWIFT_IMPL_FUNCTION:
	case SWIFT_PACK_EXPANSION: return false;
	case SWIFT_PROTOCOL_LIST: return node->children[0]->count <= 1;
	default: return true;
	}
}

static void print_guarded(struct printer *p, const struct swift_node *node)
{
	bool needs_parentheses = !is_simple(node);
	print_in(p, needs_parentheses ? "(" : "", node, needs_parentheses ? ")" : "");
}

static bool is_standard(const struct swift_node *type, enum swift_kind kind, const char *name)
{
	type = without_type(type);
	return type->kind == kind && type->count == 2 && type->children[0]->kind == SWIFT_MODULE &&
	       bytes_equal_string(type->children[0]->text, "Swift") && type->children[1]->kind == SWIFT_IDENTIFIER &&
	       bytes_equal_string(type->children[1]->text, name);
}

static void print_bound_generic(struct printer *p, const struct swift_node *node)
{
	const struct swift_node *arguments = node->children[1];
	if (node->count == 2 && arguments->count == 1 && is_standard(node->children[0], SWIFT_ENUM, "Optional")) {
		print_guarded(p, arguments->children[0]);
		put(p, "?");
	} else if (node->count == 2 && arguments->count == 1 && is_standard(node->children[0], SWIFT_STRUCTURE, "Array")) {
		print_in(p, "[", arguments->children[0], "]");
	} else if (node->count == 2 && arguments->count == 2 && is_standard(node->children[0], SWIFT_STRUCTURE, "Dictionary")) {
		print_between(p, arguments, "[", " : ", "]");
	} else if (node->detail == SWIFT_FUNCTION || node->detail == SWIFT_CONSTRUCTOR) {
		print_bound_function(p, without_type(node->children[0]), arguments);
	} else if (node->detail == SWIFT_PROTOCOL) {
		print_list(p, arguments, 0, ", ");
		put(p, " as ");
		print(p, node->children[0]);
	} else {
		print(p, node->children[0]);
		print_between(p, arguments, "<", ", ", ">");
	}
}

/* ---- entities ---- */

static bool needs_space_before(const struct swift_node *type)
{
	return !is_function(without_type(type));
}

static void print_entity_type(struct printer *p, const struct swift_node *entity, const struct swift_node *type,
			      const struct swift_node *arguments)
{
	const struct swift_node *labels = swift_node_child(entity, SWIFT_LABELS);
	if (arguments)
		print_between(p, arguments, "<", ", ", ">");
	if (type->kind == SWIFT_GENERIC_TYPE) {
		if (!arguments)
			print(p, type->children[0]);
		const struct swift_node *inner = without_type(type->children[1]);
		if (needs_space_before(inner))
			put(p, " ");
		type = inner;
	}
	if (labels && type->kind == SWIFT_FUNCTION_TYPE)
		print_function_type(p, labels->count > 0 ? labels : NULL, type);
	else
		print(p, type);
}

static const char *between_context(const struct swift_node *entity)
{
	return entity->kind == SWIFT_DEFAULT_ARGUMENT || entity->kind == SWIFT_INITIALIZER ? " of " : " in ";
}

struct entity_form {
	enum type_style type;
	bool has_name;
	const char *name;		    /* instead of its own */
	const char *extra;		    /* "getter", "closure #" */
	int64_t number;			    /* behind that; -1 = none */
	const struct swift_node *arguments; /* of a generic function, instead of its signature; NULL = none */
};

static void print_entity_name(struct printer *p, const struct swift_node *entity, const struct entity_form *form,
			      const char *extra)
{
	size_t before = p->out->len;
	if (form->name) {
		put(p, form->name);
	} else if (entity->count > 1) {
		if (entity->children[1]->kind != SWIFT_PRIVATE_NAME && entity->children[1]->kind != SWIFT_LABELS)
			print(p, entity->children[1]);
		const struct swift_node *private_name = swift_node_child(entity, SWIFT_PRIVATE_NAME);
		if (private_name)
			print(p, private_name);
	}
	if (p->out->len != before && *extra)
		put(p, ".");
}

/* Returns the context that is still to be written, NULL if none is. As a prefix of something else, an entity that cannot be
 * written before a dot is returned itself. */
static const struct swift_node *print_entity(struct printer *p, const struct swift_node *entity, bool as_prefix,
					     const struct entity_form *form)
{
	const char *extra = form->extra;
	bool is_multi_word = strchr(extra, ' ') != NULL ||
			     (form->has_name && entity->count > 1 && entity->children[1]->kind == SWIFT_LOCAL_NAME);
	enum type_style style = form->type;
	if (as_prefix && (style != NO_TYPE || is_multi_word))
		return entity;
	const struct swift_node *context = entity->children[0], *postfix = NULL;
	if (is_multi_word) {
		postfix = context;
	} else {
		size_t before = p->out->len;
		postfix = print_context(p, context);
		if (p->out->len != before)
			put(p, ".");
	}
	if (form->has_name || form->name) {
		if (*extra && is_multi_word) {
			put(p, extra);
			put(p, " of ");
			extra = "";
		}
		print_entity_name(p, entity, form, extra);
	}
	put(p, extra);
	if (*extra && form->number >= 0)
		put_number(p, (uint64_t)form->number);
	const struct swift_node *type = style == NO_TYPE ? NULL : swift_node_child(entity, SWIFT_TYPE);
	if (type) {
		type = without_type(type);
		const struct swift_node *inner = type->kind == SWIFT_GENERIC_TYPE ? without_type(type->children[1]) : type;
		if (style == WITH_COLON || inner->kind != SWIFT_FUNCTION_TYPE)
			put(p, " : ");
		else if (is_multi_word || needs_space_before(type))
			put(p, " ");
		print_entity_type(p, entity, type, form->arguments);
	}
	if (!as_prefix && postfix) {
		put(p, between_context(entity));
		print(p, postfix);
		postfix = NULL;
	}
	return postfix;
}

/* A local type's context that is a generic function with arguments. */
static void print_bound_function(struct printer *p, const struct swift_node *function, const struct swift_node *arguments)
{
	struct entity_form form = {FUNCTION_STYLE, true, NULL, "", -1, arguments};
	(void)print_entity(p, function, false, &form);
}

static bool is_of_class(const struct swift_node *entity)
{
	const struct swift_node *context = entity->children[0];
	if (context->kind == SWIFT_EXTENSION)
		context = context->children[1];
	if (context->kind == SWIFT_BOUND_GENERIC)
		context = without_type(context->children[0]);
	return context->kind == SWIFT_CLASS;
}

/* The names of what only classes have in full: "__allocating_init" of a structure is its "init". */
static void name_entity(const struct swift_node *entity, char *text, size_t size)
{
	struct bytes name = entity->text;
	if (bytes_equal_string(name, "__allocating_init") && !is_of_class(entity))
		name = bytes_of_string("init");
	else if (bytes_equal_string(name, "__deallocating_deinit") && !is_of_class(entity))
		name = bytes_of_string("deinit");
	(void)snprintf(text, size, "%.*s", (int)name.len, (const char *)name.data);
}

static const struct swift_node *print_accessor(struct printer *p, const struct swift_node *node, bool as_prefix)
{
	const struct swift_node *storage = node->children[0];
	bool is_static = storage->kind == SWIFT_STATIC;
	storage = is_static ? storage->children[0] : storage;
	char name[64];
	(void)snprintf(name, sizeof(name), "%.*s", (int)node->text.len, (const char *)node->text.data);
	struct entity_form form = {WITH_COLON, storage->kind == SWIFT_VARIABLE,
				   storage->kind == SWIFT_SUBSCRIPT ? "subscript" : NULL, name, -1};
	if (storage->kind != SWIFT_VARIABLE && storage->kind != SWIFT_SUBSCRIPT) {
		p->status = p->status ? p->status : -ERANGE;
		return NULL;
	}
	return print_entity(p, storage, as_prefix, &form);
}

static const struct swift_node *print_named_entity(struct printer *p, const struct swift_node *node, bool as_prefix)
{
	char name[64];
	name_entity(node, name, sizeof(name));
	struct entity_form form = {NO_TYPE, false, NULL, name, -1};
	switch (node->kind) {
	case SWIFT_CONSTRUCTOR:
		form.type = FUNCTION_STYLE;
		form.has_name = node->count > 2;
		break;
	case SWIFT_CLOSURE:
		form.type = FUNCTION_STYLE;
		form.number = (int64_t)node->index + 1;
		break;
	case SWIFT_DEFAULT_ARGUMENT: form.number = (int64_t)node->index; break;
	default: break;
	}
	return print_entity(p, node, as_prefix, &form);
}

static void print_extension(struct printer *p, const struct swift_node *node)
{
	print_in(p, "(extension in ", node->children[0], "):");
	print(p, node->children[1]);
	if (node->count > 2)
		print(p, node->children[2]);
}

/* An entity, or a part of it; returns the context that is still to be written. */
static const struct swift_node *print_any_entity(struct printer *p, const struct swift_node *node, bool as_prefix)
{
	static const struct entity_form of_function = {FUNCTION_STYLE, true, NULL, "", -1};
	static const struct entity_form of_subscript = {FUNCTION_STYLE, false, "subscript", "", -1};
	static const struct entity_form of_variable = {WITH_COLON, true, NULL, "", -1};
	static const struct entity_form of_nominal = {NO_TYPE, true, NULL, "", -1};
	switch (node->kind) {
	case SWIFT_FUNCTION: return print_entity(p, node, as_prefix, &of_function);
	case SWIFT_VARIABLE: return print_entity(p, node, as_prefix, &of_variable);
	case SWIFT_SUBSCRIPT: return print_entity(p, node, as_prefix, &of_subscript);
	case SWIFT_ACCESSOR: return print_accessor(p, node, as_prefix);
	case SWIFT_CONSTRUCTOR:
	case SWIFT_DESTRUCTOR:
	case SWIFT_CLOSURE:
	case SWIFT_INITIALIZER:
	case SWIFT_DEFAULT_ARGUMENT: return print_named_entity(p, node, as_prefix);
	case SWIFT_STATIC:
		put(p, "static ");
		print(p, node->children[0]);
		return NULL;
	case SWIFT_EXTENSION: print_extension(p, node); return NULL;
	case SWIFT_MODULE: put_bytes(p, node->text); return NULL;
	default: return print_entity(p, node, as_prefix, &of_nominal);
	}
}

/* Counts a step; false past a limit. */
static bool enter(struct printer *p)
{
	if (p->status == 0 && (p->depth >= SWIFT_DEPTH_MAX || p->steps >= SWIFT_STEPS_MAX))
		p->status = -ERANGE;
	if (p->status < 0)
		return false;
	p->depth++;
	p->steps++;
	return true;
}

static const struct swift_node *print_context(struct printer *p, const struct swift_node *node)
{
	const struct swift_node *postfix = NULL;
	if (!enter(p))
		return NULL;
	if (node->kind >= SWIFT_MODULE && node->kind <= SWIFT_STATIC)
		postfix = print_any_entity(p, node, true);
	else
		print(p, node);
	p->depth--;
	return postfix;
}

/* ---- specializations ---- */

/* The name of a function that an argument is, which may be mangled itself. */
static void print_propagated_name(struct printer *p, struct bytes name)
{
	char text[DEMANGLE_INPUT_MAX + 1];
	if (name.len < sizeof(text) && p->status == 0) {
		memcpy(text, name.data, name.len);
		text[name.len] = 0;
		int r = p->nesting < SWIFT_NESTING_MAX ? demangle_swift(text, p->nesting + 1, p->out) : 0;
		if (r < 0)
			p->status = r;
		if (r != 0)
			return;
	}
	put_bytes(p, name);
}

static void print_specialized_argument(struct printer *p, const struct swift_node *node)
{
	char c = node->detail;
	if (node->is_return) {
		put(p, "Return = ");
	} else {
		put(p, "Arg[");
		put_number(p, node->index);
		put(p, "] = ");
	}
	if (c == 'c' || c == 'E') {
		put(p, "[Closure Propagated : ");
		print_propagated_name(p, node->children[node->count - 1]->text);
		put(p, ", Argument Types : [");
		for (uint32_t i = 0; i + 1 < node->count; i++) {
			put(p, i > 0 ? ", " : "");
			print(p, node->children[i]);
		}
		put(p, "]");
	} else if (c == 'f' || c == 'g') {
		put(p, c == 'f' ? "[Constant Propagated Function : " : "[Constant Propagated Global : ");
		print_propagated_name(p, node->children[0]->text);
		put(p, "]");
	} else if (c == 'i' || c == 'd') {
		put(p, "[Constant Propagated ");
		put_bytes(p, node->text);
		put(p, " : ");
		put_number(p, node->number);
		put(p, "]");
	} else if (c == 's') {
		struct bytes text = node->children[0]->text;
		put(p, "[Constant Propagated String : ");
		put_bytes(p, node->text);
		put(p, "'");
		put_bytes(p, bytes_start_with(text, "_") ? bytes_skip(text, 1) : text);
		put(p, "']");
	} else {
		print_list(p, node, 0, " and ");
	}
}

static void print_specialization(struct printer *p, const struct swift_node *node)
{
	bool any = false;
	put_bytes(p, node->text);
	put(p, " <");
	for (uint32_t i = 0; i < node->count && p->status == 0; i++) {
		const struct swift_node *child = node->children[i];
		if (child->kind == SWIFT_SPECIALIZED_ARG && child->count == 0 && child->detail == 0)
			continue; /* as it was */
		put(p, any ? ", " : "");
		put(p, node->detail == 'S' && child->kind != SWIFT_LITERAL ? "Signature = " : "");
		print(p, child);
		any = true;
	}
	put(p, "> of ");
}

static void print_attribute(struct printer *p, const struct swift_node *node)
{
	if (node->detail == '#') {
		put(p, "(");
		put_number(p, node->index);
		put(p, ")");
	}
	put_bytes(p, node->text);
	if (node->detail == 'v') {
		put_number(p, node->index);
		put(p, " of ");
	}
	print_list(p, node, 0, "");
}

/* ---- all of it ---- */

static void print_literal(struct printer *p, const struct swift_node *node)
{
	put_bytes(p, node->text);
	if (node->detail > 0) { /* a layout's size and alignment */
		put(p, "(");
		put_number(p, node->index);
		if (node->detail == 2) {
			put(p, ", ");
			put_number(p, node->number);
		}
		put(p, ")");
	}
}

static void print_declaration_name(struct printer *p, const struct swift_node *node)
{
	switch (node->kind) {
	case SWIFT_OPERATOR:
		put_bytes(p, node->text);
		put(p, node->detail == 'i' ? " infix" : node->detail == 'p' ? " prefix" : " postfix");
		break;
	case SWIFT_LOCAL_NAME:
		print(p, node->children[0]);
		put(p, " #");
		put_number(p, node->index + 1);
		break;
	case SWIFT_PRIVATE_NAME:
		put(p, "(");
		if (node->count > 1) {
			print(p, node->children[1]);
			put(p, " ");
		}
		print_in(p, "in ", node->children[0], ")");
		break;
	case SWIFT_RELATED_NAME:
		put(p, "related decl '");
		put_bytes(p, (struct bytes){(const uint8_t *)&node->detail, 1});
		put(p, "' for ");
		print(p, node->children[0]);
		break;
	default: put_bytes(p, node->text); break;
	}
}

static void print_protocols(struct printer *p, const struct swift_node *node)
{
	const struct swift_node *list = node->kind == SWIFT_PROTOCOL_LIST ? node->children[0] : node->children[0]->children[0];
	if (node->kind == SWIFT_PROTOCOL_LIST_CLASS) {
		print(p, node->children[1]);
		if (list->count > 0)
			put(p, " & ");
	}
	print_list(p, list, 0, " & ");
	if (node->kind == SWIFT_PROTOCOL_LIST && list->count == 0)
		put(p, "Any");
	if (node->kind == SWIFT_PROTOCOL_LIST_ANY)
		put(p, list->count > 0 ? " & Swift.AnyObject" : "Swift.AnyObject");
}

static void print_metatype(struct printer *p, const struct swift_node *node)
{
	put_bytes(p, node->text);
	const struct swift_node *type = without_type(node->children[0]);
	print_guarded(p, type);
	bool is_existential = type->kind == SWIFT_PROTOCOL_LIST || type->kind == SWIFT_PROTOCOL_LIST_CLASS ||
			      type->kind == SWIFT_PROTOCOL_LIST_ANY || type->kind == SWIFT_EXISTENTIAL_METATYPE;
	put(p, node->kind == SWIFT_METATYPE && is_existential ? ".Protocol" : ".Type");
}

static void print_box(struct printer *p, const struct swift_node *node)
{
	bool any = false;
	uint32_t at = 0;
	if (at < node->count && node->children[at]->kind == SWIFT_SIGNATURE) {
		print(p, node->children[at++]);
		put(p, " ");
	}
	put(p, "{ ");
	for (; at < node->count && node->children[at]->kind == SWIFT_BOX_FIELD; at++) {
		put(p, any ? ", " : "");
		put_bytes(p, node->children[at]->text);
		print(p, node->children[at]->children[0]);
		any = true;
	}
	put(p, any ? " }" : "}");
	if (at < node->count) {
		print_between(p, node->children[at], " <", ", ", ">");
	}
}

static void print_sugared(struct printer *p, const struct swift_node *node)
{
	bool is_optional = bytes_equal_string(node->text, "?"), is_tuple = bytes_equal_string(node->text, "()");
	if (is_optional) {
		print_guarded(p, node->children[0]);
		put(p, "?");
	} else {
		print_between(p, node, is_tuple ? "(" : "[", " : ", is_tuple ? ")" : "]");
	}
}

static void print_builtin(struct printer *p, const struct swift_node *node)
{
	put_bytes(p, node->text);
	if (node->number > 0)
		put_number(p, node->number);
	if (node->count > 0) { /* "Builtin.Vec4xInt8" */
		put(p, "x");
		put_bytes(p, bytes_skip(node->children[0]->text, strlen("Builtin.")));
		if (node->children[0]->number > 0)
			put_number(p, node->children[0]->number);
	}
}

static void print_generic(struct printer *p, const struct swift_node *node)
{
	print(p, node->children[0]);
	if (needs_space_before(node->children[1]))
		put(p, " ");
	print(p, node->children[1]);
}

static void print_parameter(struct printer *p, const struct swift_node *node)
{
	if (node->text.len > 0)
		put_bytes(p, node->text);
	else
		print_parameter_name(p, node->index, node->number);
}

static void print_type(struct printer *p, const struct swift_node *node)
{
	switch (node->kind) {
	case SWIFT_BUILTIN: print_builtin(p, node); break;
	case SWIFT_TYPE_PREFIX:
		put_bytes(p, node->text);
		print(p, node->children[0]);
		break;
	case SWIFT_TUPLE: print_between(p, node, "(", ", ", ")"); break;
	case SWIFT_FUNCTION_TYPE: print_function_type(p, NULL, node); break;
	case SWIFT_BOUND_GENERIC: print_bound_generic(p, node); break;
	case SWIFT_PROTOCOL_LIST:
	case SWIFT_PROTOCOL_LIST_CLASS:
	case SWIFT_PROTOCOL_LIST_ANY: print_protocols(p, node); break;
	case SWIFT_METATYPE:
	case SWIFT_EXISTENTIAL_METATYPE: print_metatype(p, node); break;
	case SWIFT_DYNAMIC_SELF: put(p, "Self"); break;
	case SWIFT_GENERIC_TYPE: print_generic(p, node); break;
	case SWIFT_GENERIC_PARAMETER: print_parameter(p, node); break;
	case SWIFT_MEMBER_TYPE:
	case SWIFT_ASSOCIATED_TYPE_REF: print_between(p, node, "", ".", ""); break;
	case SWIFT_OPAQUE_RESULT: put(p, "some"); break;
	case SWIFT_OPAQUE_RESULT_OF: print_between(p, node, "<<opaque return type of ", "", ">>"); break;
	case SWIFT_PACK: print_between(p, node, "Pack{", ", ", "}"); break;
	case SWIFT_PACK_EXPANSION: print_between(p, node, "repeat ", "", ""); break;
	case SWIFT_BOX_LAYOUT: print_box(p, node); break;
	case SWIFT_SUGARED: print_sugared(p, node); break;
	case SWIFT_IMPL_FUNCTION: print_impl_function(p, node); break;
	case SWIFT_IMPL_PARAMETER:
	case SWIFT_IMPL_RESULT: print_impl_value(p, node); break;
	default: p->status = p->status ? p->status : -ERANGE; break;
	}
}

static void print_tuple_element(struct printer *p, const struct swift_node *node)
{
	const struct swift_node *name = swift_node_child(node, SWIFT_IDENTIFIER);
	if (name) {
		put_bytes(p, name->text);
		put(p, ": ");
	}
	print(p, node->children[node->count - 1]);
	if (swift_node_child(node, SWIFT_VARIADIC))
		put(p, "...");
}

static void print_conformance(struct printer *p, const struct swift_node *node)
{
	print(p, node->children[0]);
	print_in(p, " : ", node->children[1], " in ");
	print(p, node->children[2]);
}

static void print_partial_apply(struct printer *p, const struct swift_node *node)
{
	put_bytes(p, node->text);
	if (node->count > 0)
		put(p, " for ");
	print_list(p, node, 0, "");
}

static void print_suffix(struct printer *p, const struct swift_node *node)
{
	put(p, " with unmangled suffix \"");
	put_bytes(p, node->text);
	put(p, "\"");
}

static void print_other(struct printer *p, const struct swift_node *node)
{
	switch (node->kind) {
	case SWIFT_TUPLE_ELEMENT: print_tuple_element(p, node); break;
	case SWIFT_CONSTRAINED_EXISTENTIAL:
		put(p, "any ");
		print(p, node->children[0]);
		print_between(p, node->children[1], "<", ", ", ">");
		break;
	case SWIFT_ASSOCIATED_TYPE:
		if (node->count > 1) {
			print(p, node->children[1]);
			put(p, ".");
		}
		print(p, node->children[0]);
		break;
	case SWIFT_OPAQUE_TYPE:
		print(p, node->children[0]);
		put(p, ".");
		put_number(p, node->index);
		break;
	case SWIFT_INTEGER_TYPE:
		put_bytes(p, node->text);
		put_number(p, node->number);
		break;
	case SWIFT_SIGNATURE: print_signature(p, node); break;
	case SWIFT_REQUIREMENT:
		print(p, node->children[0]);
		put_bytes(p, node->text);
		print(p, node->children[1]);
		break;
	case SWIFT_CONFORMANCE: print_conformance(p, node); break;
	case SWIFT_IMPL_ATTRIBUTE: put_bytes(p, node->text); break;
	case SWIFT_LITERAL: print_literal(p, node); break;
	case SWIFT_ATTRIBUTE: print_attribute(p, node); break;
	case SWIFT_PARTIAL_APPLY: print_partial_apply(p, node); break;
	case SWIFT_SPECIALIZATION: print_specialization(p, node); break;
	case SWIFT_SPECIALIZED_TYPE: print(p, node->children[0]); break;
	case SWIFT_SPECIALIZED_ARG: print_specialized_argument(p, node); break;
	case SWIFT_PREFIXED:
		put_bytes(p, node->text);
		print_list(p, node, 0, "");
		break;
	case SWIFT_SUFFIX: print_suffix(p, node); break;
	default: print_type(p, node); break;
	}
}

static void print(struct printer *p, const struct swift_node *node)
{
	node = without_type(node);
	if (!enter(p))
		return;
	if (node->kind <= SWIFT_RELATED_NAME) {
		print_declaration_name(p, node);
	} else if (node->kind <= SWIFT_STATIC) {
		const struct swift_node *postfix = print_any_entity(p, node, false);
		if (postfix)
			p->status = p->status ? p->status : -ERANGE;
	} else {
		print_other(p, node);
	}
	p->depth--;
}

int swift_print(struct swift_node *const *nodes, size_t count, unsigned nesting, struct buffer *out)
{
	struct printer p = {.out = out, .start = out->len, .nesting = nesting};
	for (size_t i = 0; i < count && p.status == 0; i++)
		print(&p, nodes[i]);
	if (p.status == -ERANGE)
		return 0;
	return p.status < 0 ? p.status : 1;
}
