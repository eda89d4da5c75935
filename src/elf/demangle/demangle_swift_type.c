/* SPDX-License-Identifier: Apache-2.0 */
/* Names of Swift: types, generic signatures and requirements. demangle_swift.c explains the mangling. */
#include <string.h>

#include "elf/demangle/demangle_swift_int.h"

/* ---- functions ---- */

static struct swift_node *pop_parameters(struct swift_reader *reader, enum swift_kind kind)
{
	struct swift_node *type;
	if (swift_pop(reader, SWIFT_EMPTY_LIST))
		type = swift_node_type(reader, swift_node_new(reader, SWIFT_TUPLE));
	else
		type = swift_pop(reader, SWIFT_TYPE);
	return swift_node_with(reader, kind, type);
}

/* result, parameters, [annotations] */
struct swift_node *swift_pop_function_type(struct swift_reader *reader, const char *convention)
{
	struct swift_node *function = swift_node_text(reader, SWIFT_FUNCTION_TYPE, convention), *annotation;
	while (function && (annotation = swift_pop(reader, SWIFT_ANNOTATION)))
		function = swift_node_add(reader, function, annotation);
	function = swift_node_add(reader, function, pop_parameters(reader, SWIFT_ARGUMENTS));
	if (!function)
		return NULL;
	return swift_node_type(reader, swift_node_add(reader, function, pop_parameters(reader, SWIFT_RESULT)));
}

struct convention {
	char letter;
	const char *text;
};

static const char *find_convention(const struct convention *conventions, char letter)
{
	for (; conventions->letter; conventions++)
		if (conventions->letter == letter)
			return conventions->text;
	return NULL;
}

static bool add_attribute(struct swift_reader *reader, struct swift_node *node, const char *text)
{
	return swift_node_add(reader, node, swift_node_text(reader, SWIFT_IMPL_ATTRIBUTE, text)) != NULL;
}

/* "s": what its patterns stand for; "I": what it is called with. */
static bool read_impl_substitutions(struct swift_reader *reader, struct swift_node *node)
{
	for (unsigned i = 0; i < 2; i++) {
		if (!swift_next_if(reader, i == 0 ? 's' : 'I'))
			continue;
		struct swift_node *lists, *conformances, *child;
		if (!swift_pop_generic_lists(reader, &lists, &conformances) || lists->count != 1)
			return false;
		if (i == 0)
			child = swift_node_with(reader, SWIFT_IMPL_PATTERN, swift_pop(reader, SWIFT_SIGNATURE));
		else
			child = swift_node_new(reader, SWIFT_IMPL_INVOCATION);
		if (!swift_node_add(reader, node, swift_node_add(reader, child, lists->children[0])))
			return false;
	}
	return true;
}

static bool read_impl_attributes(struct swift_reader *reader, struct swift_node *node)
{
	static const struct convention differentiable[] = {{'d', "@differentiable"},
							   {'l', "@differentiable(_linear)"},
							   {'f', "@differentiable(_forward)"},
							   {'r', "@differentiable(reverse)"},
							   {0}};
	static const struct convention callee[] = {
		{'y', "@callee_unowned"}, {'g', "@callee_guaranteed"}, {'x', "@callee_owned"}, {'t', "@convention(thin)"}, {0}};
	static const struct convention representations[] = {{'B', "@convention(block)"},
							    {'C', "@convention(c)"},
							    {'M', "@convention(method)"},
							    {'J', "@convention(objc_method)"},
							    {'K', "@convention(closure)"},
							    {'W', "@convention(witness_method)"},
							    {0}};
	static const struct convention coroutines[] = {{'A', "@yield_once"}, {'I', "@yield_once_2"}, {'G', "@yield_many"}, {0}};
	static const struct convention rest[] = {{'h', "@Sendable"}, {'H', "@async"}, {0}};
	swift_next_if(reader, 'P'); /* pseudogeneric, which is not written */
	if (swift_next_if(reader, 'e') && !add_attribute(reader, node, "@escaping"))
		return false;
	if (swift_next_if(reader, 'A') && !add_attribute(reader, node, "@isolated(any)"))
		return false;
	const char *text = find_convention(differentiable, swift_peek(reader));
	if (text && (swift_next(reader), !add_attribute(reader, node, text)))
		return false;
	text = find_convention(callee, swift_next(reader));
	if (!text || !add_attribute(reader, node, text))
		return false;
	text = find_convention(representations, swift_peek(reader));
	if (text && (swift_next(reader), !add_attribute(reader, node, text)))
		return false;
	text = find_convention(coroutines, swift_peek(reader));
	if (text && (swift_next(reader), !add_attribute(reader, node, text)))
		return false;
	while ((text = find_convention(rest, swift_peek(reader)))) {
		swift_next(reader);
		if (!add_attribute(reader, node, text))
			return false;
	}
	if (swift_next_if(reader, 'T'))
		node->detail = 'T'; /* its results are sent */
	return true;
}

static bool read_impl_values(struct swift_reader *reader, struct swift_node *node, enum swift_kind kind,
			     const struct convention *conventions, uint32_t *count)
{
	const char *text;
	while ((text = find_convention(conventions, swift_peek(reader)))) {
		swift_next(reader);
		struct swift_node *value = swift_node_text(reader, kind, text);
		/* Further marks of a value: "@noDerivative", "sending"; isolated, implicit, which are not printed. */
		for (char c = swift_peek(reader); value && c && strchr("wTIL", c); c = swift_peek(reader)) {
			swift_next(reader);
			if (c == 'w' || c == 'T')
				value = swift_node_add(
					reader, value,
					swift_node_text(reader, SWIFT_IMPL_ATTRIBUTE, c == 'w' ? "@noDerivative" : "sending"));
		}
		if (!swift_node_add(reader, node, value))
			return false;
		++*count;
	}
	return true;
}

/* How a function is called in the end: types, then "I", a letter for each convention, "_". */
struct swift_node *swift_read_impl_function(struct swift_reader *reader)
{
	static const struct convention parameters[] = {{'i', "@in"},
						       {'c', "@in_constant"},
						       {'l', "@inout"},
						       {'b', "@inout_aliasable"},
						       {'n', "@in_guaranteed"},
						       {'X', "@in_cxx"},
						       {'x', "@owned"},
						       {'g', "@guaranteed"},
						       {'e', "@deallocating"},
						       {'y', "@unowned"},
						       {'v', "@pack_owned"},
						       {'p', "@pack_guaranteed"},
						       {'m', "@pack_inout"},
						       {0}};
	static const struct convention results[] = {{'r', "@out"},
						    {'o', "@owned"},
						    {'d', "@unowned"},
						    {'u', "@unowned_inner_pointer"},
						    {'a', "@autoreleased"},
						    {'k', "@pack_out"},
						    {'l', "@guaranteed_address"},
						    {'g', "@guaranteed"},
						    {'m', "@inout"},
						    {0}};
	struct swift_node *node = swift_node_new(reader, SWIFT_IMPL_FUNCTION);
	if (!node || !read_impl_substitutions(reader, node))
		return NULL;
	struct swift_node *signature = swift_pop(reader, SWIFT_SIGNATURE);
	if (!read_impl_attributes(reader, node))
		return NULL;
	node = swift_node_add_any(reader, node, signature);
	uint32_t count = 0;
	if (!node || !read_impl_values(reader, node, SWIFT_IMPL_PARAMETER, parameters, &count) ||
	    !read_impl_values(reader, node, SWIFT_IMPL_RESULT, results, &count))
		return NULL;
	if (swift_next_if(reader, 'z')) {
		const char *text = find_convention(results, swift_next(reader));
		struct swift_node *error = text ? swift_node_text(reader, SWIFT_IMPL_RESULT, text) : NULL;
		if (error)
			error->detail = 'z';
		if (!swift_node_add(reader, node, error))
			return NULL;
		count++;
	}
	if (!swift_next_if(reader, '_'))
		return NULL;
	for (uint32_t i = 0; i < count; i++)
		if (!swift_node_add(reader, node->children[node->count - 1 - i], swift_pop(reader, SWIFT_TYPE)))
			return NULL;
	return swift_node_type(reader, node);
}

/* ---- generics ---- */

struct swift_node *swift_read_generic_parameter(struct swift_reader *reader)
{
	struct swift_node *node = swift_node_new(reader, SWIFT_GENERIC_PARAMETER);
	if (!node)
		return NULL;
	if (swift_next_if(reader, 'd')) {
		if (!swift_index(reader, &node->index) || !swift_index(reader, &node->number))
			return NULL;
		node->index++;
	} else if (swift_next_if(reader, 's')) {
		node->text = bytes_of_string("Self"); /* of a constrained existential */
	} else if (!swift_next_if(reader, 'z')) {
		if (!swift_index(reader, &node->number))
			return NULL;
		node->number++;
	}
	return node;
}

struct swift_node *swift_read_signature(struct swift_reader *reader, bool has_counts)
{
	struct swift_node *signature = swift_node_new(reader, SWIFT_SIGNATURE), *child;
	if (!has_counts) {
		child = swift_node_new(reader, SWIFT_PARAM_COUNT);
		if (child)
			child->index = 1;
		signature = swift_node_add(reader, signature, child);
	}
	while (has_counts && signature && !swift_next_if(reader, 'l')) {
		child = swift_node_new(reader, SWIFT_PARAM_COUNT);
		if (!child)
			return NULL;
		if (!swift_next_if(reader, 'z')) {
			if (!swift_index(reader, &child->index))
				return NULL;
			child->index++;
		}
		signature = swift_node_add(reader, signature, child);
	}
	if (!signature)
		return NULL;
	size_t counts = signature->count;
	while (signature && ((child = swift_pop(reader, SWIFT_REQUIREMENT)) || (child = swift_pop(reader, SWIFT_PACK_MARKER))))
		signature = swift_node_add(reader, signature, child);
	if (signature)
		swift_node_reverse(signature, counts);
	return signature;
}

/* name [protocol] */
static struct swift_node *pop_associated_name(struct swift_reader *reader)
{
	struct swift_node *protocol = swift_pop(reader, SWIFT_TYPE);
	if (protocol && protocol->children[0]->kind != SWIFT_PROTOCOL)
		return NULL;
	struct swift_node *name = swift_pop(reader, SWIFT_IDENTIFIER);
	return swift_node_add_any(reader, swift_node_with(reader, SWIFT_ASSOCIATED_TYPE, name), protocol);
}

/* "A.B.C" from the names of a list; the last one popped is the innermost. */
struct swift_node *swift_pop_associated_path(struct swift_reader *reader)
{
	struct swift_node *path = swift_node_new(reader, SWIFT_TYPE_LIST);
	bool is_first = false;
	while (path && !is_first) {
		is_first = swift_pop(reader, SWIFT_FIRST_ELEMENT) != NULL;
		path = swift_node_add(reader, path, pop_associated_name(reader));
	}
	return path;
}

static struct swift_node *member_type(struct swift_reader *reader, struct swift_node *base, struct swift_node *name)
{
	struct swift_node *member = name ? swift_node_with(reader, SWIFT_MEMBER_TYPE, base) : NULL;
	return swift_node_type(reader, swift_node_add(reader, member, name));
}

/* An associated type of `base`, or, if that is NULL, of the type on the stack. */
static struct swift_node *read_associated(struct swift_reader *reader, struct swift_node *base, bool is_path)
{
	struct swift_node *names = is_path ? swift_pop_associated_path(reader) : pop_associated_name(reader);
	if (!names)
		return NULL;
	struct swift_node *type = base ? swift_node_type(reader, base) : swift_pop(reader, SWIFT_TYPE);
	if (!is_path)
		return member_type(reader, type, names);
	for (uint32_t i = names->count; type && i-- > 0;)
		type = member_type(reader, type, names->children[i]);
	return type;
}

static struct swift_node *read_layout(struct swift_reader *reader)
{
	static const struct convention layouts[] = {{'U', "_UnknownLayout"},
						    {'R', "_RefCountedObject"},
						    {'N', "_NativeRefCountedObject"},
						    {'C', "AnyObject"},
						    {'D', "_NativeClass"},
						    {'T', "_Trivial"},
						    {'B', "_BridgeObject"},
						    {'E', "_Trivial"},
						    {'e', "_Trivial"},
						    {'M', "_TrivialAtMost"},
						    {'m', "_TrivialAtMost"},
						    {'S', "_TrivialStride"},
						    {0}};
	char c = swift_next(reader);
	const char *text = find_convention(layouts, c);
	struct swift_node *node = text ? swift_node_text(reader, SWIFT_LITERAL, text) : NULL;
	if (!node)
		return NULL;
	if (c == 'E' || c == 'M' || c == 'e' || c == 'm' || c == 'S') {
		node->detail = c == 'E' || c == 'M' ? 2 : 1;
		if (!swift_index(reader, &node->index) || (node->detail == 2 && !swift_index(reader, &node->number)))
			return NULL;
	}
	return node;
}

/* What a letter says of a requirement: what it demands, and how its subject is written. */
static bool classify_requirement(char c, char *ret_demand, char *ret_subject)
{
	/* letter, demand: p(rotocol) b(ase class) s(ame type) l(ayout) h (same shape) i(nverse), subject: g(eneric parameter)
	 * a(ssociated type) c (a path of them) s(ubstitution) */
	static const char table[][4] = {"cba", "Cbc", "bbg", "Bbs", "tsa", "Tsc", "ssg", "Sss", "llg", "mla",
					"Mlc", "Lls", "ppa", "Ppc", "Qps", "hhg", "iig", "Iis", "jia", "Jic"};
	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		if (table[i][0] == c) {
			*ret_demand = table[i][1];
			*ret_subject = table[i][2];
			return true;
		}
	}
	*ret_demand = 'p';
	*ret_subject = 'g';
	return false;
}

static struct swift_node *read_subject(struct swift_reader *reader, char subject)
{
	if (subject == 's')
		return swift_pop(reader, SWIFT_TYPE);
	struct swift_node *parameter = swift_read_generic_parameter(reader);
	if (!parameter || subject == 'g')
		return swift_node_type(reader, parameter);
	return swift_add_substitution(reader, read_associated(reader, parameter, subject == 'c'));
}

static struct swift_node *read_demand(struct swift_reader *reader, char demand, uint64_t inverse)
{
	switch (demand) {
	case 'p': return swift_pop_protocol(reader);
	case 'l': return read_layout(reader);
	case 'i':
		if (inverse < 2)
			return swift_node_text(reader, SWIFT_LITERAL, inverse == 0 ? "Swift.Copyable" : "Swift.Escapable");
		return NULL;
	default: return swift_pop(reader, SWIFT_TYPE);
	}
}

struct swift_node *swift_read_requirement(struct swift_reader *reader)
{
	char c = swift_peek(reader), demand, subject;
	uint64_t inverse = 0;
	if (c == 'v') { /* a parameter pack */
		swift_next(reader);
		struct swift_node *parameter = swift_read_generic_parameter(reader);
		return swift_node_with(reader, SWIFT_PACK_MARKER, parameter);
	}
	if (classify_requirement(c, &demand, &subject))
		swift_next(reader);
	if (demand == 'i' && !swift_index(reader, &inverse))
		return NULL;
	struct swift_node *type = read_subject(reader, subject);
	struct swift_node *wanted = type ? read_demand(reader, demand, inverse) : NULL;
	const char *between = demand == 's' ? " == " : demand == 'h' ? ".shape == " : demand == 'i' ? ": ~" : ": ";
	struct swift_node *node = swift_node_text(reader, SWIFT_REQUIREMENT, between);
	return swift_node_add(reader, swift_node_add(reader, node, type), wanted);
}

/* ---- other types ---- */

static struct swift_node *pop_pack(struct swift_reader *reader)
{
	struct swift_node *list = swift_pop_type_list(reader);
	if (list)
		list->kind = SWIFT_PACK;
	return swift_node_type(reader, list);
}

static struct swift_node *read_opaque_type(struct swift_reader *reader)
{
	struct swift_node *node = swift_node_new(reader, SWIFT_OPAQUE_TYPE), *lists, *conformances;
	if (!node || !swift_index(reader, &node->index) || !swift_pop_generic_lists(reader, &lists, &conformances))
		return NULL;
	struct swift_node *of = swift_pop(reader, SWIFT_OPAQUE_RESULT_OF);
	return swift_add_substitution(reader, swift_node_type(reader, swift_node_add(reader, node, of)));
}

/* 'Q': associated, opaque and pack types. */
struct swift_node *swift_read_archetype(struct swift_reader *reader)
{
	struct swift_node *node, *other;
	char c = swift_next(reader);
	switch (c) {
	case 'a':
		other = swift_pop(reader, SWIFT_IDENTIFIER);
		node = swift_node_with(reader, SWIFT_ASSOCIATED_TYPE_REF, other ? swift_pop_type_child(reader) : NULL);
		node = swift_node_type(reader, swift_node_add(reader, node, other));
		return swift_add_substitution(reader, node);
	case 'O': return swift_node_with(reader, SWIFT_OPAQUE_RESULT_OF, swift_pop_context(reader));
	case 'o': return read_opaque_type(reader);
	case 'r':
	case 'u': return swift_node_type(reader, swift_node_new(reader, SWIFT_OPAQUE_RESULT));
	case 'R':
	case 'U':
		node = swift_node_new(reader, SWIFT_OPAQUE_RESULT);
		return node && swift_index(reader, &node->index) ? swift_node_type(reader, node) : NULL;
	case 'x':
	case 'X': return swift_add_substitution(reader, read_associated(reader, NULL, c == 'X'));
	case 'y':
	case 'Y':
		node = swift_read_generic_parameter(reader);
		return node ? swift_add_substitution(reader, read_associated(reader, node, c == 'Y')) : NULL;
	case 'z':
	case 'Z':
		node = swift_node_new(reader, SWIFT_GENERIC_PARAMETER);
		return node ? swift_add_substitution(reader, read_associated(reader, node, c == 'Z')) : NULL;
	case 'p':
		other = swift_pop_type_child(reader); /* how many */
		node = swift_node_with(reader, SWIFT_PACK_EXPANSION, other ? swift_pop_type_child(reader) : NULL);
		return swift_node_type(reader, node);
	case 'P': return pop_pack(reader);
	case 'S': c = swift_next(reader); return c == 'i' || c == 'd' ? pop_pack(reader) : NULL;
	default: return NULL;
	}
}

struct swift_node *swift_pop_protocol_list(struct swift_reader *reader)
{
	struct swift_node *list = swift_node_new(reader, SWIFT_TYPE_LIST);
	bool is_first = swift_pop(reader, SWIFT_EMPTY_LIST) != NULL;
	while (list && !is_first) {
		is_first = swift_pop(reader, SWIFT_FIRST_ELEMENT) != NULL;
		list = swift_node_add(reader, list, swift_pop_protocol(reader));
	}
	if (list)
		swift_node_reverse(list, 0);
	return swift_node_with(reader, SWIFT_PROTOCOL_LIST, list);
}

static struct swift_node *read_metatype(struct swift_reader *reader, enum swift_kind kind, bool has_representation)
{
	struct swift_node *node = swift_node_new(reader, kind);
	if (has_representation) {
		char c = swift_next(reader);
		const char *text = c == 't' ? "@thin " : c == 'T' ? "@thick " : c == 'o' ? "@objc_metatype " : NULL;
		if (!node || !text)
			return NULL;
		node->text = bytes_of_string(text);
	}
	return swift_node_type(reader, swift_node_add(reader, node, swift_pop(reader, SWIFT_TYPE)));
}

/* The fields of a box that a closure captures. */
static struct swift_node *read_box(struct swift_reader *reader, bool is_generic)
{
	struct swift_node *node = swift_node_new(reader, SWIFT_BOX_LAYOUT), *arguments = NULL;
	if (is_generic) {
		struct swift_node *signature = swift_pop(reader, SWIFT_SIGNATURE);
		arguments = signature ? swift_pop_type_list(reader) : NULL;
		node = arguments ? swift_node_add(reader, node, signature) : NULL;
	}
	struct swift_node *types = node ? swift_pop_type_list(reader) : NULL;
	for (uint32_t i = 0; types && i < types->count; i++) {
		struct swift_node *type = types->children[i], *inner = type->children[0];
		bool is_variable = inner->kind == SWIFT_TYPE_PREFIX && bytes_equal_string(inner->text, "inout ");
		struct swift_node *field = swift_node_text(reader, SWIFT_BOX_FIELD, is_variable ? "var " : "let ");
		node = swift_node_add(reader, node, swift_node_add(reader, field, is_variable ? inner->children[0] : type));
	}
	if (!types)
		return NULL;
	return swift_node_type(reader, swift_node_add_any(reader, node, arguments));
}

static struct swift_node *read_sugared(struct swift_reader *reader)
{
	char c = swift_next(reader);
	const char *text = c == 'q' ? "?" : c == 'a' ? "[]" : c == 'D' ? "[:]" : c == 'p' ? "()" : NULL;
	struct swift_node *node = text ? swift_node_text(reader, SWIFT_SUGARED, text) : NULL;
	struct swift_node *last = swift_pop(reader, SWIFT_TYPE);
	if (c == 'D')
		node = swift_node_add(reader, node, last ? swift_pop(reader, SWIFT_TYPE) : NULL);
	return swift_node_type(reader, swift_node_add(reader, node, last));
}

static struct swift_node *read_constrained_existential(struct swift_reader *reader)
{
	struct swift_node *list = swift_node_new(reader, SWIFT_TYPE_LIST);
	for (bool is_first = false; list && !is_first;) {
		is_first = swift_pop(reader, SWIFT_FIRST_ELEMENT) != NULL;
		list = swift_node_add(reader, list, swift_pop(reader, SWIFT_REQUIREMENT));
	}
	if (!list)
		return NULL;
	swift_node_reverse(list, 0);
	struct swift_node *type = swift_pop(reader, SWIFT_TYPE);
	struct swift_node *node = swift_node_with(reader, SWIFT_CONSTRAINED_EXISTENTIAL, type);
	return swift_node_type(reader, swift_node_add(reader, node, list));
}

static struct swift_node *read_prefixed(struct swift_reader *reader, const char *text)
{
	struct swift_node *node = swift_node_text(reader, SWIFT_TYPE_PREFIX, text);
	return swift_node_type(reader, swift_node_add(reader, node, swift_pop(reader, SWIFT_TYPE)));
}

/* Conventions of functions behind 'X'. */
static const struct convention function_conventions[] = {{'A', "@autoclosure "},
							 {'B', "@convention(block) "},
							 {'C', "@convention(c) "},
							 {'E', ""},
							 {'K', "@autoclosure "},
							 {'L', "@escaping @convention(block) "},
							 {'U', ""},
							 {'f', "@convention(thin) "},
							 {0}};

struct swift_node *swift_read_special_type(struct swift_reader *reader)
{
	char c = swift_next(reader);
	const char *convention = find_convention(function_conventions, c);
	if (convention)
		return swift_pop_function_type(reader, convention);
	struct swift_node *node, *other;
	switch (c) {
	case 'o': return read_prefixed(reader, "unowned ");
	case 'u': return read_prefixed(reader, "unowned(unsafe) ");
	case 'w': return read_prefixed(reader, "weak ");
	case 'b': return read_prefixed(reader, "@box ");
	case 'D':
		node = swift_node_with(reader, SWIFT_DYNAMIC_SELF, swift_pop(reader, SWIFT_TYPE));
		return swift_node_type(reader, node);
	case 'M': return read_metatype(reader, SWIFT_METATYPE, true);
	case 'm': return read_metatype(reader, SWIFT_EXISTENTIAL_METATYPE, true);
	case 'p': return read_metatype(reader, SWIFT_EXISTENTIAL_METATYPE, false);
	case 'c':
		other = swift_pop(reader, SWIFT_TYPE);
		node = other ? swift_node_with(reader, SWIFT_PROTOCOL_LIST_CLASS, swift_pop_protocol_list(reader)) : NULL;
		return swift_node_type(reader, swift_node_add(reader, node, other));
	case 'l':
		node = swift_node_with(reader, SWIFT_PROTOCOL_LIST_ANY, swift_pop_protocol_list(reader));
		return swift_node_type(reader, node);
	case 'P': return read_constrained_existential(reader);
	case 'X':
	case 'x': return read_box(reader, c == 'X');
	case 'S': return read_sugared(reader);
	case 'e': return swift_node_type(reader, swift_node_text(reader, SWIFT_BUILTIN, "<ERROR TYPE>"));
	default: return NULL;
	}
}

/* 'B': the compiler's own types. */
struct swift_node *swift_read_builtin(struct swift_reader *reader)
{
	static const struct convention builtins[] = {{'b', "Builtin.BridgeObject"},
						     {'B', "Builtin.UnsafeValueBuffer"},
						     {'c', "Builtin.RawUnsafeContinuation"},
						     {'D', "Builtin.DefaultActorStorage"},
						     {'d', "Builtin.NonDefaultDistributedActorStorage"},
						     {'e', "Builtin.Executor"},
						     {'I', "Builtin.IntLiteral"},
						     {'j', "Builtin.Job"},
						     {'O', "Builtin.UnknownObject"},
						     {'o', "Builtin.NativeObject"},
						     {'P', "Builtin.PackIndex"},
						     {'p', "Builtin.RawPointer"},
						     {'t', "Builtin.SILToken"},
						     {'w', "Builtin.Word"},
						     {'A', "Builtin.ImplicitActor"},
						     {0}};
	char c = swift_next(reader);
	const char *text = find_convention(builtins, c);
	if (text)
		return swift_node_type(reader, swift_node_text(reader, SWIFT_BUILTIN, text));
	if (c != 'f' && c != 'i' && c != 'v')
		return NULL;
	struct swift_node *node = swift_node_text(reader, SWIFT_BUILTIN,
						  c == 'f'   ? "Builtin.FPIEEE"
						  : c == 'i' ? "Builtin.Int"
							     : "Builtin.Vec");
	struct swift_node *element = c == 'v' ? swift_pop_type_child(reader) : NULL;
	if (!node || !swift_natural(reader, &node->number) || node->number == 0 || node->number > 4096 ||
	    !swift_next_if(reader, '_'))
		return NULL;
	if (c == 'v') {
		if (!element || element->kind != SWIFT_BUILTIN || !bytes_start_with(element->text, "Builtin."))
			return NULL;
		node = swift_node_add(reader, node, element);
	}
	return swift_node_type(reader, node);
}
