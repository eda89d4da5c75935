/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Private to src/elf: names of Swift, between the reader of the mangling (demangle_swift.c for types and entities,
 * demangle_swift_thunk.c for what the compiler makes of them) and the printer (demangle_swift_print.c).
 */
#ifndef WICK_ELF_DEMANGLE_SWIFT_INT_H
#define WICK_ELF_DEMANGLE_SWIFT_INT_H

#include "base/arena.h"
#include "base/buffer.h"
#include "base/limits.h"

#define SWIFT_NODE_BYTES_MAX (1 * MIB) /* of all nodes of a name */
#define SWIFT_STACK_MAX	     1024u
#define SWIFT_REPEAT_MAX     2048u	/* "A9a": one substitution, many times (the compiler's own limit) */
#define SWIFT_DEPTH_MAX	     400u	/* of what is printed within what */
#define SWIFT_STEPS_MAX	     (1u << 17) /* nodes printed; a substitution counts wherever it occurs */
#define SWIFT_NESTING_MAX    2u		/* names of propagated closures inside of names */
#define SWIFT_WORDS_MAX	     26u

enum swift_kind {
	/* names of declarations */
	SWIFT_IDENTIFIER = 1, /* text */
	SWIFT_OPERATOR,	      /* text; fixity in `detail` */
	SWIFT_LOCAL_NAME,     /* index; name */
	SWIFT_PRIVATE_NAME,   /* discriminator[, name] */
	SWIFT_RELATED_NAME,   /* `detail`: a letter; name */
	/* contexts and entities: the context is the first child */
	SWIFT_MODULE, /* text */
	SWIFT_CLASS,
	SWIFT_STRUCTURE,
	SWIFT_ENUM,
	SWIFT_PROTOCOL,
	SWIFT_TYPE_ALIAS,
	SWIFT_OTHER_NOMINAL,
	SWIFT_EXTENSION, /* module, type[, generic signature] */
	SWIFT_ANONYMOUS_CONTEXT,
	SWIFT_FUNCTION,		/* context, name, [labels], type */
	SWIFT_VARIABLE,		/* the same */
	SWIFT_SUBSCRIPT,	/* context, [labels], type, [private name] */
	SWIFT_ACCESSOR,		/* text; variable or subscript */
	SWIFT_CONSTRUCTOR,	/* text; context, [labels], type, [private name] */
	SWIFT_DESTRUCTOR,	/* text; context */
	SWIFT_CLOSURE,		/* text, index; context, type */
	SWIFT_INITIALIZER,	/* text; context: of a variable */
	SWIFT_DEFAULT_ARGUMENT, /* index; context */
	SWIFT_STATIC,		/* entity */
	/* types */
	SWIFT_TYPE,		       /* one of those below, or a nominal one */
	SWIFT_BUILTIN,		       /* text */
	SWIFT_TYPE_PREFIX,	       /* text; type: "inout ", "weak " */
	SWIFT_TUPLE,		       /* elements */
	SWIFT_TUPLE_ELEMENT,	       /* [variadic marker], [name], type */
	SWIFT_FUNCTION_TYPE,	       /* text: convention; [annotations], arguments, result */
	SWIFT_ARGUMENTS,	       /* type */
	SWIFT_RESULT,		       /* type */
	SWIFT_BOUND_GENERIC,	       /* type, type list[, conformances] */
	SWIFT_PROTOCOL_LIST,	       /* type list */
	SWIFT_PROTOCOL_LIST_CLASS,     /* protocol list, type */
	SWIFT_PROTOCOL_LIST_ANY,       /* protocol list */
	SWIFT_CONSTRAINED_EXISTENTIAL, /* type, requirements */
	SWIFT_METATYPE,		       /* [representation], type */
	SWIFT_EXISTENTIAL_METATYPE,    /* the same */
	SWIFT_DYNAMIC_SELF,
	SWIFT_GENERIC_TYPE,	   /* signature, type */
	SWIFT_GENERIC_PARAMETER,   /* index = depth, number = which */
	SWIFT_MEMBER_TYPE,	   /* type, associated type */
	SWIFT_ASSOCIATED_TYPE,	   /* name[, protocol] */
	SWIFT_ASSOCIATED_TYPE_REF, /* type, name */
	SWIFT_OPAQUE_RESULT,	   /* index */
	SWIFT_OPAQUE_RESULT_OF,	   /* context */
	SWIFT_OPAQUE_TYPE,	   /* what, index; type lists */
	SWIFT_PACK,		   /* types */
	SWIFT_PACK_EXPANSION,	   /* type, type */
	SWIFT_BOX_LAYOUT,	   /* [signature], fields, [type list] */
	SWIFT_BOX_FIELD,	   /* type; text "var " or "let " */
	SWIFT_SUGARED,		   /* text "?", "[]", "[:]", "()"; types */
	SWIFT_INTEGER_TYPE,	   /* number; text "-" when negative */
	SWIFT_IMPL_FUNCTION,	   /* attributes, [signature], parameters, results */
	SWIFT_IMPL_ATTRIBUTE,	   /* text */
	SWIFT_IMPL_PARAMETER,	   /* text; type */
	SWIFT_IMPL_RESULT,	   /* text; type */
	SWIFT_IMPL_PATTERN,	   /* signature, type list */
	SWIFT_IMPL_INVOCATION,	   /* type list */
	/* generics */
	SWIFT_SIGNATURE,   /* counts, pack markers, requirements */
	SWIFT_PARAM_COUNT, /* index */
	SWIFT_PACK_MARKER, /* generic parameter */
	SWIFT_REQUIREMENT, /* text between; type, type or literal */
	SWIFT_CONFORMANCE, /* type, protocol, module */
	SWIFT_CONFORMANCE_REF,
	SWIFT_RETROACTIVE,
	/* what only the reader needs */
	SWIFT_LABELS, /* identifiers and first-element markers */
	SWIFT_TYPE_LIST,
	SWIFT_EMPTY_LIST,
	SWIFT_FIRST_ELEMENT,
	SWIFT_VARIADIC,
	SWIFT_ANNOTATION, /* of a function type, given by `detail`; [type] */
	SWIFT_SUFFIX,	  /* text */
	/* whole symbols */
	SWIFT_ATTRIBUTE,	/* text before the function */
	SWIFT_PARTIAL_APPLY,	/* text; functions */
	SWIFT_SPECIALIZATION,	/* text, `detail`: what each parameter begins with; parameters */
	SWIFT_SPECIALIZED_TYPE, /* type */
	SWIFT_SPECIALIZED_ARG,	/* index, text; [types] */
	SWIFT_PREFIXED,		/* text; a child, [text2, a child] */
	SWIFT_LITERAL,		/* text */
};

struct swift_node {
	enum swift_kind kind;
	char detail;
	bool is_return; /* a specialised "argument" that is the result */
	uint32_t count, capacity;
	uint64_t index, number;
	struct bytes text;
	struct swift_node **children;
};

struct swift_reader {
	const char *at, *end;
	bool has_old_labels; /* Swift 4.0: labels are in the tuple, not beside it */
	int status;	     /* -ENOMEM */
	struct arena arena;
	struct swift_node *stack[SWIFT_STACK_MAX];
	size_t stack_count;
	struct swift_node **substitutions;
	size_t substitution_count, substitution_capacity;
	struct bytes words[SWIFT_WORDS_MAX];
	size_t word_count;
};

/* All of these return NULL when the name is damaged or uses what is not known here, and take NULL for a child to mean that. */
struct swift_node *swift_node_new(struct swift_reader *reader, enum swift_kind kind);
struct swift_node *swift_node_text(struct swift_reader *reader, enum swift_kind kind, const char *text);
struct swift_node *swift_node_add(struct swift_reader *reader, struct swift_node *node, struct swift_node *child);
struct swift_node *swift_node_with(struct swift_reader *reader, enum swift_kind kind, struct swift_node *child);
struct swift_node *swift_node_type(struct swift_reader *reader, struct swift_node *child);
/* The same; a NULL child is left out. */
struct swift_node *swift_node_add_any(struct swift_reader *reader, struct swift_node *node, struct swift_node *child);
void swift_node_reverse(struct swift_node *node, size_t first);
struct swift_node *swift_node_child(const struct swift_node *node, enum swift_kind kind);

static inline struct bytes swift_bytes(const char *text, size_t len)
{
	return (struct bytes){(const uint8_t *)text, len};
}

char swift_next(struct swift_reader *reader); /* 0 at the end */
char swift_peek(const struct swift_reader *reader);
bool swift_next_if(struct swift_reader *reader, char c);
bool swift_natural(struct swift_reader *reader, uint64_t *ret);
bool swift_index(struct swift_reader *reader, uint64_t *ret);

bool swift_push(struct swift_reader *reader, struct swift_node *node);
struct swift_node *swift_pop(struct swift_reader *reader, enum swift_kind kind);
struct swift_node *swift_pop_type_child(struct swift_reader *reader);
struct swift_node *swift_pop_entity(struct swift_reader *reader);
struct swift_node *swift_pop_context(struct swift_reader *reader);
struct swift_node *swift_pop_module(struct swift_reader *reader);
struct swift_node *swift_pop_decl_name(struct swift_reader *reader);
struct swift_node *swift_pop_protocol(struct swift_reader *reader);
struct swift_node *swift_pop_type_list(struct swift_reader *reader);
struct swift_node *swift_pop_conformance(struct swift_reader *reader);
struct swift_node *swift_pop_associated_path(struct swift_reader *reader);
bool swift_is_attribute(const struct swift_node *node);

/* demangle_swift_name.c */
struct swift_node *swift_read_identifier(struct swift_reader *reader);
struct swift_node *swift_read_standard_type(struct swift_reader *reader); /* behind 'S' */
struct swift_node *swift_optional_type(struct swift_reader *reader);
/* demangle_swift_type.c: 'I', 'R', 'l', 'r', 'Q', 'X', 'B'. */
struct swift_node *swift_read_impl_function(struct swift_reader *reader);
struct swift_node *swift_read_requirement(struct swift_reader *reader);
struct swift_node *swift_read_signature(struct swift_reader *reader, bool has_counts);
struct swift_node *swift_read_archetype(struct swift_reader *reader);
struct swift_node *swift_read_special_type(struct swift_reader *reader);
struct swift_node *swift_read_builtin(struct swift_reader *reader);
struct swift_node *swift_read_generic_parameter(struct swift_reader *reader);
struct swift_node *swift_pop_function_type(struct swift_reader *reader, const char *convention);
struct swift_node *swift_pop_protocol_list(struct swift_reader *reader);
bool swift_pop_generic_lists(struct swift_reader *reader, struct swift_node **ret_lists, struct swift_node **ret_conformances);
struct swift_node *swift_add_substitution(struct swift_reader *reader, struct swift_node *node);
/* demangle_swift_thunk.c: 'T', 'W', 'M', 'w'. */
struct swift_node *swift_read_thunk(struct swift_reader *reader);
struct swift_node *swift_read_witness(struct swift_reader *reader);
struct swift_node *swift_read_metadata(struct swift_reader *reader);
struct swift_node *swift_read_value_witness(struct swift_reader *reader);

/* demangle_swift_print.c: 1 when it appended the text, 0 past a limit (out may hold a part), -ENOMEM or -E2BIG. */
int swift_print(struct swift_node *const *nodes, size_t count, unsigned nesting, struct buffer *out);
/* demangle_swift.c: as demangle_symbol(). */
int demangle_swift(const char *name, unsigned nesting, struct buffer *out);

#endif
