/* SPDX-License-Identifier: Apache-2.0 */
/* Names of Swift: what the compiler makes beside the functions of a program: thunks, specializations, witnesses, accessors of
 * metadata. demangle_swift.c explains the mangling. */
#include <ctype.h>
#include <string.h>

#include "elf/demangle/demangle_swift_int.h"

struct operator_text {
	const char *code; /* what follows the first letter */
	char operand;	  /* p(rotocol) t(ype) c(onformance) e(ntity), 0 = none: an attribute of a function */
	const char *text;
};

/* The operator that the text ahead begins with, skipped; the longest one. */
static const struct operator_text *take_operator(struct swift_reader *reader, const struct operator_text *operators,
						 size_t count)
{
	const struct operator_text *best = NULL;
	size_t left = (size_t)(reader->end - reader->at), best_len = 0;
	for (size_t i = 0; i < count; i++) {
		size_t len = strlen(operators[i].code);
		if (len <= left && len > best_len && memcmp(reader->at, operators[i].code, len) == 0) {
			best = &operators[i];
			best_len = len;
		}
	}
	reader->at += best_len;
	return best;
}

static struct swift_node *pop_operand(struct swift_reader *reader, char kind)
{
	switch (kind) {
	case 'p': return swift_pop_protocol(reader);
	case 't': return swift_pop(reader, SWIFT_TYPE);
	case 'c': return swift_pop_conformance(reader);
	default: return swift_pop_entity(reader);
	}
}

static struct swift_node *prefixed(struct swift_reader *reader, const struct operator_text *operator)
{
	if (!operator)
		return NULL;
	if (!operator->operand)
		return swift_node_text(reader, SWIFT_ATTRIBUTE, operator->text);
	struct swift_node *operand = pop_operand(reader, operator->operand);
	return swift_node_add(reader, swift_node_text(reader, SWIFT_PREFIXED, operator->text), operand);
}

/* ---- specializations ---- */

/* [serialized] [async or representation changed] the pass, a digit */
static struct swift_node *read_specialization(struct swift_reader *reader, const char *text)
{
	struct swift_node *node = swift_node_text(reader, SWIFT_SPECIALIZATION, text);
	bool is_serialized = swift_next_if(reader, 'q');
	if (is_serialized)
		node = swift_node_add(reader, node, swift_node_text(reader, SWIFT_LITERAL, "serialized"));
	if (swift_next_if(reader, 'a'))
		node = swift_node_add(reader, node, swift_node_text(reader, SWIFT_LITERAL, "async demotion"));
	else if (swift_next_if(reader, 'r'))
		node = swift_node_add(reader, node, swift_node_text(reader, SWIFT_LITERAL, "representation changed"));
	(void)swift_next_if(reader, 'm');
	return isdigit((unsigned char)swift_next(reader)) ? node : NULL;
}

static struct swift_node *read_generic_specialization(struct swift_reader *reader, const char *text)
{
	struct swift_node *node = read_specialization(reader, text), *types = node ? swift_pop_type_list(reader) : NULL;
	if (!types)
		return NULL;
	for (uint32_t i = 0; node && i < types->count; i++)
		node = swift_node_add(reader, node, swift_node_with(reader, SWIFT_SPECIALIZED_TYPE, types->children[i]));
	return node;
}

static struct swift_node *read_partial_specialization(struct swift_reader *reader, const char *text)
{
	struct swift_node *node = read_specialization(reader, text);
	struct swift_node *type = swift_node_with(reader, SWIFT_SPECIALIZED_TYPE, swift_pop(reader, SWIFT_TYPE));
	if (node)
		node->detail = 'S'; /* "Signature = " */
	return swift_node_add(reader, node, type);
}

static bool add_text(struct swift_reader *reader, struct swift_node *node, const char *text)
{
	return swift_node_add(reader, node, swift_node_text(reader, SWIFT_LITERAL, text)) != NULL;
}

/* A constant that an argument is known to be. What is named is filled in later, from the stack. */
static bool read_constant(struct swift_reader *reader, struct swift_node *argument)
{
	char c = swift_next(reader);
	argument->detail = c;
	if (c == 'f' || c == 'g')
		return true;
	if (c == 'i' || c == 'd') {
		argument->text = bytes_of_string(c == 'i' ? "Integer" : "Float");
		return swift_natural(reader, &argument->number);
	}
	if (c != 's')
		return false;
	c = swift_next(reader);
	argument->text = bytes_of_string(c == 'b' ? "u8" : c == 'w' ? "u16" : "objc");
	return c == 'b' || c == 'w' || c == 'c';
}

/* What became of one argument, or of the result. */
static struct swift_node *read_specialized_argument(struct swift_reader *reader)
{
	static const struct {
		char letter;
		const char *text;
	} marks[] = {{'D', "Dead"}, {'G', "Owned To Guaranteed"}, {'O', "Guaranteed To Owned"}, {'X', "Exploded"}};
	struct swift_node *node = swift_node_new(reader, SWIFT_SPECIALIZED_ARG);
	char c = swift_next(reader);
	bool is_done = node != NULL;
	if (!is_done)
		return NULL;
	switch (c) {
	case 'n': return node;
	case 'c':
	case 'E': node->detail = c; return node;
	case 'p': return read_constant(reader, node) ? node : NULL;
	case 'e': is_done = add_text(reader, node, "Existential To Protocol Constrained Generic"); break;
	case 'd': is_done = add_text(reader, node, "Dead"); break;
	case 'g': is_done = add_text(reader, node, "Owned To Guaranteed"); break;
	case 'o': is_done = add_text(reader, node, "Guaranteed To Owned"); break;
	case 'x': return add_text(reader, node, "Exploded") ? node : NULL;
	case 'i': return add_text(reader, node, "Value Promoted from Box") ? node : NULL;
	case 's': return add_text(reader, node, "Stack Promoted from Box") ? node : NULL;
	case 'r': return add_text(reader, node, "InOut Converted to Out") ? node : NULL;
	default: return NULL;
	}
	for (size_t i = 0; is_done && i < sizeof(marks) / sizeof(marks[0]); i++)
		if (swift_next_if(reader, marks[i].letter))
			is_done = add_text(reader, node, marks[i].text);
	return is_done ? node : NULL;
}

/* What constants and closures of arguments are called stands in front, the last one on top. */
static bool pop_specialized_names(struct swift_reader *reader, struct swift_node *node)
{
	for (uint32_t i = node->count; i-- > 0;) {
		struct swift_node *argument = node->children[i], *type;
		char c = argument->kind == SWIFT_SPECIALIZED_ARG ? argument->detail : 0;
		if (c != 'f' && c != 'g' && c != 's' && c != 'c' && c != 'E')
			continue;
		while ((c == 'c' || c == 'E') && (type = swift_pop(reader, SWIFT_TYPE)))
			if (!swift_node_add(reader, argument, type))
				return false;
		swift_node_reverse(argument, 0);
		struct swift_node *name = swift_pop(reader, SWIFT_IDENTIFIER);
		if (!swift_node_add(reader, argument, name))
			return false;
	}
	return true;
}

static struct swift_node *read_signature_specialization(struct swift_reader *reader)
{
	struct swift_node *node = read_specialization(reader, "function signature specialization");
	for (uint64_t i = 0; node && !swift_next_if(reader, '_'); i++) {
		struct swift_node *argument = read_specialized_argument(reader);
		if (argument)
			argument->index = i;
		node = swift_node_add(reader, node, argument);
	}
	if (node && !swift_next_if(reader, 'n')) {
		struct swift_node *result = read_specialized_argument(reader);
		if (result)
			result->is_return = true;
		node = swift_node_add(reader, node, result);
	}
	return node && pop_specialized_names(reader, node) ? node : NULL;
}

/* 't' [N]: arguments that the specialization has no longer. */
static struct swift_node *read_dropping_specialization(struct swift_reader *reader)
{
	do {
		uint64_t which;
		(void)swift_natural(reader, &which);
	} while (swift_next_if(reader, 't'));
	char c = swift_next(reader);
	if (c == 'g' || c == 'B')
		return read_generic_specialization(reader, "generic specialization");
	return c == 'G' ? read_generic_specialization(reader, "generic not re-abstracted specialization") : NULL;
}

/* ---- thunks ---- */

static struct swift_node *two_operands(struct swift_reader *reader, const char *text, struct swift_node *first,
				       const char *between, struct swift_node *second)
{
	struct swift_node *node = swift_node_add(reader, swift_node_text(reader, SWIFT_PREFIXED, text), first);
	node = swift_node_add(reader, node, swift_node_text(reader, SWIFT_LITERAL, between));
	return swift_node_add(reader, node, second);
}

static struct swift_node *read_reabstraction(struct swift_reader *reader, char kind)
{
	struct swift_node *signature = swift_pop(reader, SWIFT_SIGNATURE);
	struct swift_node *self = kind == 'y' ? swift_pop(reader, SWIFT_TYPE) : NULL;
	struct swift_node *to = swift_pop(reader, SWIFT_TYPE), *from = to ? swift_pop(reader, SWIFT_TYPE) : NULL;
	if (!from || (kind == 'y' && !self))
		return NULL;
	struct swift_node *node =
		swift_node_text(reader, SWIFT_PREFIXED, kind == 'r' ? "reabstraction thunk " : "reabstraction thunk helper ");
	if (signature) {
		node = swift_node_add(reader, node, signature);
		node = swift_node_add(reader, node, swift_node_text(reader, SWIFT_LITERAL, " "));
	}
	node = swift_node_add(reader, node, swift_node_text(reader, SWIFT_LITERAL, "from "));
	node = swift_node_add(reader, node, from);
	node = swift_node_add(reader, node, swift_node_text(reader, SWIFT_LITERAL, " to "));
	node = swift_node_add(reader, node, to);
	if (self) {
		node = swift_node_add(reader, node, swift_node_text(reader, SWIFT_LITERAL, " self "));
		node = swift_node_add(reader, node, self);
	}
	return node;
}

/* Parts of an async function, "(1) await resume partial function for ". */
static struct swift_node *read_async_part(struct swift_reader *reader, const char *text)
{
	struct swift_node *node = swift_node_text(reader, SWIFT_ATTRIBUTE, text);
	if (!node || !swift_index(reader, &node->index))
		return NULL;
	node->detail = '#';
	return node;
}

/* "b" method, its parameters and result bridged or not, "_" */
static struct swift_node *read_bridged_method(struct swift_reader *reader)
{
	const char *first = reader->at;
	while (isalpha((unsigned char)swift_peek(reader)))
		swift_next(reader);
	struct swift_node *node = swift_node_text(reader, SWIFT_ATTRIBUTE, "outlined bridged method (");
	struct swift_node *which = swift_node_new(reader, SWIFT_LITERAL);
	if (!which || reader->at == first)
		return NULL;
	which->text = (struct bytes){(const uint8_t *)first, (size_t)(reader->at - first)};
	node = swift_node_add(reader, node, which);
	return swift_next_if(reader, '_') ? swift_node_add(reader, node, swift_node_text(reader, SWIFT_LITERAL, ") of "))
					  : NULL;
}

/* Getters and setters of key paths: a property, what of generic arguments, the types of subscripts. */
static struct swift_node *read_key_path(struct swift_reader *reader, const char *text)
{
	struct swift_node *types = swift_node_new(reader, SWIFT_TYPE_LIST), *type;
	bool is_serialized = swift_next_if(reader, 'q');
	while (types && (type = swift_pop(reader, SWIFT_TYPE)))
		types = swift_node_add(reader, types, type);
	if (types)
		swift_node_reverse(types, 0);
	(void)swift_pop(reader, SWIFT_SIGNATURE);
	struct swift_node *of = types ? swift_pop_entity(reader) : NULL;
	struct swift_node *node = swift_node_add(reader, swift_node_text(reader, SWIFT_PREFIXED, text), of);
	for (uint32_t i = 0; node && i < types->count; i++) {
		node = swift_node_add(reader, node, swift_node_text(reader, SWIFT_LITERAL, i == 0 ? " : " : ", "));
		node = swift_node_add(reader, node, types->children[i]);
	}
	if (is_serialized)
		node = swift_node_add(reader, node, swift_node_text(reader, SWIFT_LITERAL, ", serialized"));
	return node;
}

static struct swift_node *read_key_path_equality(struct swift_reader *reader, const char *text)
{
	(void)swift_next_if(reader, 'q');
	(void)swift_pop(reader, SWIFT_SIGNATURE);
	struct swift_node *types = swift_node_new(reader, SWIFT_TYPE_LIST), *type;
	while (types && (type = swift_pop(reader, SWIFT_TYPE)))
		types = swift_node_add(reader, types, type);
	if (types)
		swift_node_reverse(types, 0);
	struct swift_node *node = swift_node_text(reader, SWIFT_PREFIXED, text);
	for (uint32_t i = 0; types && node && i < types->count; i++) {
		if (i > 0)
			node = swift_node_add(reader, node, swift_node_text(reader, SWIFT_LITERAL, ", "));
		node = swift_node_add(reader, node, types->children[i]);
	}
	return types && types->count > 0 ? node : NULL;
}

static struct swift_node *read_outlined_variable(struct swift_reader *reader)
{
	struct swift_node *node = swift_node_new(reader, SWIFT_ATTRIBUTE);
	if (!node || !swift_index(reader, &node->index))
		return NULL;
	node->text = bytes_of_string(swift_next_if(reader, 'r') ? "outlined read-only object #" : "outlined variable #");
	node->detail = 'v';
	return node;
}

static struct swift_node *read_other_thunk(struct swift_reader *reader, char c)
{
	struct swift_node *one, *two;
	switch (c) {
	case 'R':
	case 'r':
	case 'y': return read_reabstraction(reader, c);
	case 'W':
		one = swift_pop_entity(reader);
		two = one ? swift_pop_conformance(reader) : NULL;
		return two_operands(reader, "protocol witness for ", one, " in conformance ", two);
	case 'V':
		one = swift_pop_entity(reader);
		two = one ? swift_pop_entity(reader) : NULL;
		return two_operands(reader, "vtable thunk for ", one, " dispatching to ", two);
	case 'A': return swift_node_text(reader, SWIFT_PARTIAL_APPLY, "partial apply forwarder");
	case 'a': return swift_node_text(reader, SWIFT_PARTIAL_APPLY, "partial apply ObjC forwarder");
	case 'Q': return read_async_part(reader, " await resume partial function for ");
	case 'Y': return read_async_part(reader, " suspend resume partial function for ");
	case 'K': return read_key_path(reader, "key path getter for ");
	case 'k': return read_key_path(reader, "key path setter for ");
	case 'H': return read_key_path_equality(reader, "key path index equality operator for ");
	case 'h': return read_key_path_equality(reader, "key path index hash operator for ");
	case 'v': return read_outlined_variable(reader);
	case 'e': return read_bridged_method(reader);
	default: return NULL;
	}
}

struct swift_node *swift_read_thunk(struct swift_reader *reader)
{
	static const struct operator_text operators[] = {
		{"m", 0, "merged "},
		{"o", 0, "@objc "},
		{"O", 0, "@nonobjc "},
		{"D", 0, "dynamic "},
		{"d", 0, "super "},
		{"E", 0, "distributed thunk "},
		{"F", 0, "distributed accessor for "},
		{"I", 0, "dynamically replaceable implementation for "},
		{"X", 0, "dynamically replaceable variable for "},
		{"x", 0, "dynamically replaceable key for "},
		{"u", 0, "async function pointer to "},
		{"wb", 0, "back deployment thunk for "},
		{"wB", 0, "back deployment fallback for "},
		{"wc", 0, "coro function pointer to "},
		{"wd", 0, "default override of "},
		{"wS", 0, "#_hasSymbol query for "},
		{"c", 'e', "curry thunk of "},
		{"j", 'e', "dispatch thunk of "},
		{"q", 'e', "method descriptor for "},
		{"S", 'e', "protocol self-conformance witness for "},
		{"L", 'p', "protocol requirements base descriptor for "},
	};
	const struct operator_text *operator= take_operator(reader, operators, sizeof(operators) / sizeof(operators[0]));
	if (operator)
		return prefixed(reader, operator);
	char c = swift_next(reader);
	switch (c) {
	case 'g':
	case 'B': return read_generic_specialization(reader, "generic specialization");
	case 'G': return read_generic_specialization(reader, "generic not re-abstracted specialization");
	case 's': return read_generic_specialization(reader, "generic pre-specialization");
	case 'i': return read_generic_specialization(reader, "inlined generic function");
	case 't': return read_dropping_specialization(reader);
	case 'p': return read_partial_specialization(reader, "generic partial specialization");
	case 'P': return read_partial_specialization(reader, "generic not-reabstracted partial specialization");
	case 'f': return read_signature_specialization(reader);
	default: return read_other_thunk(reader, c);
	}
}

/* ---- witnesses and metadata ---- */

/* 'O': copies and destruction of values that are large, moved out of the functions that need them. */
static struct swift_node *read_outlined(struct swift_reader *reader)
{
	static const struct operator_text operators[] = {
		{"y", 't', "outlined copy of "},
		{"e", 't', "outlined consume of "},
		{"r", 't', "outlined retain of "},
		{"s", 't', "outlined release of "},
		{"b", 't', "outlined init with take of "},
		{"B", 't', "outlined init with take of "},
		{"c", 't', "outlined init with copy of "},
		{"C", 't', "outlined init with copy of "},
		{"d", 't', "outlined assign with take of "},
		{"D", 't', "outlined assign with take of "},
		{"f", 't', "outlined assign with copy of "},
		{"F", 't', "outlined assign with copy of "},
		{"h", 't', "outlined destroy of "},
		{"H", 't', "outlined destroy of "},
		{"i", 't', "outlined enum tag store of "},
		{"j", 't', "outlined enum project data of "},
		{"g", 't', "outlined enum get tag of "},
	};
	const struct operator_text *operator= take_operator(reader, operators, sizeof(operators) / sizeof(operators[0]));
	struct swift_node *signature = swift_pop(reader, SWIFT_SIGNATURE);
	return swift_node_add_any(reader, prefixed(reader, operator), signature);
}

/* 'Z', 'z': what initialises global variables once: context, names. */
static struct swift_node *read_once(struct swift_reader *reader, const char *text)
{
	struct swift_node *names = swift_node_new(reader, SWIFT_TYPE_LIST);
	while (names && swift_pop(reader, SWIFT_FIRST_ELEMENT))
		names = swift_node_add(reader, names, swift_pop_decl_name(reader));
	if (!names || names->count == 0 || !swift_pop_context(reader))
		return NULL;
	swift_node_reverse(names, 0);
	struct swift_node *node = swift_node_text(reader, SWIFT_PREFIXED, text);
	for (uint32_t i = 0; node && i < names->count; i++) {
		if (i > 0)
			node = swift_node_add(reader, node, swift_node_text(reader, SWIFT_LITERAL, ", "));
		node = swift_node_add(reader, node, names->children[i]);
	}
	return node;
}

static struct swift_node *read_associated_witness(struct swift_reader *reader)
{
	struct swift_node *protocol = swift_pop_protocol(reader);
	struct swift_node *path = protocol ? swift_pop_associated_path(reader) : NULL;
	struct swift_node *conformance = path ? swift_pop_conformance(reader) : NULL;
	struct swift_node *node = swift_node_text(reader, SWIFT_PREFIXED, "associated type witness table accessor for ");
	for (uint32_t i = path ? path->count : 0; node && i-- > 0;) {
		node = swift_node_add(reader, node, path->children[i]);
		if (i > 0)
			node = swift_node_add(reader, node, swift_node_text(reader, SWIFT_LITERAL, "."));
	}
	node = swift_node_add(reader, node, swift_node_text(reader, SWIFT_LITERAL, " : "));
	node = swift_node_add(reader, node, protocol);
	node = swift_node_add(reader, node, swift_node_text(reader, SWIFT_LITERAL, " in "));
	return swift_node_add(reader, node, conformance);
}

struct swift_node *swift_read_witness(struct swift_reader *reader)
{
	static const struct operator_text operators[] = {
		{"C", 'e', "enum case for "},
		{"V", 't', "value witness table for "},
		{"vd", 'e', "direct field offset for "},
		{"vi", 'e', "indirect field offset for "},
		{"P", 'c', "protocol witness table for "},
		{"p", 'c', "protocol witness table pattern for "},
		{"S", 'p', "protocol self-conformance witness table for "},
		{"G", 'c', "generic protocol witness table for "},
		{"I", 'c', "instantiation function for generic protocol witness table for "},
		{"r", 'c', "resilient protocol witness table for "},
		{"a", 'c', "protocol witness table accessor for "},
	};
	const struct operator_text *operator= take_operator(reader, operators, sizeof(operators) / sizeof(operators[0]));
	if (operator)
		return prefixed(reader, operator);
	struct swift_node *one, *two;
	char c = swift_next(reader);
	switch (c) {
	case 'l':
	case 'L':
		one = swift_pop_conformance(reader);
		two = one ? swift_pop(reader, SWIFT_TYPE) : NULL;
		return two_operands(reader,
				    c == 'l' ? "lazy protocol witness table accessor for type "
					     : "lazy protocol witness table cache variable for type ",
				    two, " and conformance ", one);
	case 't':
		one = swift_pop(reader, SWIFT_IDENTIFIER);
		two = one ? swift_pop_conformance(reader) : NULL;
		return two_operands(reader, "associated type metadata accessor for ", one, " in ", two);
	case 'T': return read_associated_witness(reader);
	case 'b':
		one = swift_pop_protocol(reader);
		two = one ? swift_pop_conformance(reader) : NULL;
		return two_operands(reader, "base witness table accessor for ", one, " in ", two);
	case 'O': return read_outlined(reader);
	case 'Z': return read_once(reader, "one-time initialization function for ");
	case 'z': return read_once(reader, "one-time initialization token for ");
	default: return NULL;
	}
}

struct swift_node *swift_read_metadata(struct swift_reader *reader)
{
	static const struct operator_text operators[] = {
		{"a", 't', "type metadata accessor for "},
		{"f", 't', "full type metadata for "},
		{"P", 't', "generic type metadata pattern for "},
		{"L", 't', "lazy cache variable for type metadata for "},
		{"r", 't', "type metadata completion function for "},
		{"i", 't', "type metadata instantiation function for "},
		{"I", 't', "type metadata instantiation cache for "},
		{"l", 't', "type metadata singleton initialization cache for "},
		{"m", 't', "metaclass for "},
		{"n", 't', "nominal type descriptor for "},
		{"u", 't', "method lookup function for "},
		{"U", 't', "ObjC metadata update function for "},
		{"s", 't', "ObjC resilient class stub for "},
		{"t", 't', "full ObjC resilient class stub for "},
		{"o", 't', "class metadata base offset for "},
		{"F", 't', "reflection metadata field descriptor "},
		{"B", 't', "reflection metadata builtin descriptor "},
		{"C", 't', "reflection metadata superclass descriptor "},
		{"A", 'c', "reflection metadata associated type descriptor "},
		{"c", 'c', "protocol conformance descriptor for "},
		{"p", 'p', "protocol descriptor for "},
		{"S", 'p', "protocol self-conformance descriptor for "},
	};
	return prefixed(reader, take_operator(reader, operators, sizeof(operators) / sizeof(operators[0])));
}

struct swift_node *swift_read_value_witness(struct swift_reader *reader)
{
	static const struct operator_text operators[] = {
		{"al", 't', "allocateBuffer value witness for "},
		{"ca", 't', "assignWithCopy value witness for "},
		{"ta", 't', "assignWithTake value witness for "},
		{"de", 't', "deallocateBuffer value witness for "},
		{"xx", 't', "destroy value witness for "},
		{"XX", 't', "destroyBuffer value witness for "},
		{"Xx", 't', "destroyArray value witness for "},
		{"CP", 't', "initializeBufferWithCopyOfBuffer value witness for "},
		{"Cp", 't', "initializeBufferWithCopy value witness for "},
		{"cp", 't', "initializeWithCopy value witness for "},
		{"TK", 't', "initializeBufferWithTakeOfBuffer value witness for "},
		{"Tk", 't', "initializeBufferWithTake value witness for "},
		{"tk", 't', "initializeWithTake value witness for "},
		{"pr", 't', "projectBuffer value witness for "},
		{"xs", 't', "storeExtraInhabitant value witness for "},
		{"xg", 't', "getExtraInhabitantIndex value witness for "},
		{"Cc", 't', "initializeArrayWithCopy value witness for "},
		{"Tt", 't', "initializeArrayWithTakeFrontToBack value witness for "},
		{"tT", 't', "initializeArrayWithTakeBackToFront value witness for "},
		{"ug", 't', "getEnumTag value witness for "},
		{"up", 't', "destructiveProjectEnumData value witness for "},
		{"ui", 't', "destructiveInjectEnumTag value witness for "},
		{"et", 't', "getEnumTagSinglePayload value witness for "},
		{"st", 't', "storeEnumTagSinglePayload value witness for "},
	};
	return prefixed(reader, take_operator(reader, operators, sizeof(operators) / sizeof(operators[0])));
}
