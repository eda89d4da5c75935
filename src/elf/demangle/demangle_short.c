/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The short form of a demangled name: what a person would say. It is made from the text, not from the mangled name, because
 * half of the names have no mangled form (DWARF of C++ templates, Go), and libiberty's own switches leave return types and
 * template arguments in.
 *
 *   C++   [return type] name [template arguments] [(parameters) [qualifiers]] [:: more] [requires constraint] [[clone .suffix]]
 *   Rust  path::name[::<arguments>], <Type as Trait>::name, <Type>::name, path::<impl Trait for Type>::name
 *   D     package.name[!(arguments)][(parameters)]
 *   Swift module.Type.name[<arguments>](labels: types) -> type [in context], name.getter : type, thunk for name
 *   Go    path/package.(*Type[arguments]).Method, type:.eq.Type
 *
 * One pass. Groups in brackets are skipped or copied as a whole; a space at the top level means that what came before was the
 * return type, except in the names of operators. A '<' that opens a path (at the beginning or behind "::") is Rust's and is
 * part of the name; elsewhere it opens arguments. Whatever does not parse is left as it is: a long name is better than a wrong
 * one.
 */
#include <ctype.h>
#include <errno.h>
#include <string.h>

#include "elf/demangle/demangle.h"

struct shortener {
	const char *at;
	struct buffer *out;
	size_t start; /* of the name in *out; a return type is cut back to here */
	int status;
};

static void put(struct shortener *s, const char *text, size_t len)
{
	if (s->status == 0)
		s->status = buffer_append(s->out, text, len);
}

static bool starts(const char *text, const char *prefix)
{
	return strncmp(text, prefix, strlen(prefix)) == 0;
}

static bool is_word(char c)
{
	return isalnum((unsigned char)c) || c == '_' || c == '$' || (c & 0x80);
}

static bool ends_with_colons(const struct shortener *s)
{
	return s->out->len >= s->start + 2 && memcmp(s->out->data + s->out->len - 2, "::", 2) == 0;
}

static bool at_word_start(const struct shortener *s)
{
	return s->out->len == s->start || !is_word((char)s->out->data[s->out->len - 1]);
}

/* ---- groups ---- */

/* The length of an operator's symbol, without the word "operator"; 0 when there is none (new, delete, conversions). */
static size_t operator_symbol(const char *at)
{
	static const char *const symbols[] = {"()", "[]", "<=>", "->*", "<<=", ">>=", "->", "<<", ">>", "<=", ">=", "==", "!=",
					      "&&", "||", "++",	 "--",	"+=",  "-=",  "*=", "/=", "%=", "^=", "&=", "|=", "<",
					      ">",  "+",  "-",	 "*",	"/",   "%",   "^",  "&",  "|",	"~",  "!",  "=",  ","};
	for (size_t i = 0; i < sizeof(symbols) / sizeof(symbols[0]); i++)
		if (starts(at, symbols[i]))
			return strlen(symbols[i]);
	return 0;
}

/* Behind the bracket that closes the one at `at`; NULL when none does. Only brackets of its own kind count, but for '<', which
 * may hold operators: there, whole parentheses, "->" and "operator<" are passed over. */
static const char *skip_group(const char *at)
{
	char open = *at, close = open == '<' ? '>' : open == '(' ? ')' : open == '[' ? ']' : '}';
	unsigned depth = 0;
	for (; *at; at++) {
		if (open == '<' && *at == '(') {
			unsigned inner = 0;
			for (; *at; at++) {
				inner += *at == '(';
				inner -= *at == ')';
				if (inner == 0)
					break;
			}
			if (!*at)
				return NULL;
		} else if (open == '<' && starts(at, "->")) {
			at++;
		} else if (open == '<' && starts(at, "operator") && operator_symbol(at + 8) > 0) {
			at += 7 + operator_symbol(at + 8);
		} else if (*at == open) {
			depth++;
		} else if (*at == close && --depth == 0) {
			return at + 1;
		}
	}
	return NULL;
}

/* Skips the group at s->at. A group that does not end makes the whole name stay as it is. */
static void skip(struct shortener *s)
{
	const char *behind = skip_group(s->at);
	if (behind)
		s->at = behind;
	else
		s->status = -EINVAL;
}

/* "{lambda(int)#1}" becomes "{lambda#1}"; "{closure#0}", "{{closure}}" and "{unnamed type#1}" stay. */
static void put_braces(struct shortener *s)
{
	const char *end = skip_group(s->at);
	if (!end)
		s->status = -EINVAL;
	while (s->status == 0 && s->at < end) {
		if (*s->at == '(' || *s->at == '<')
			skip(s);
		else
			put(s, s->at++, 1);
	}
}

/* ---- C++ ---- */

static void skip_qualifiers(struct shortener *s)
{
	static const char *const words[] = {" const", " volatile", " restrict", " &&", " &"};
	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		size_t len = strlen(words[i]);
		if (starts(s->at, words[i]) && !is_word(s->at[len])) {
			s->at += len;
			i = (size_t)-1;
		}
	}
}

static void put_parentheses(struct shortener *s)
{
	static const char anonymous[] = "(anonymous namespace)";
	if (starts(s->at, anonymous)) {
		put(s, anonymous, sizeof(anonymous) - 1);
		s->at += sizeof(anonymous) - 1;
	} else if (s->out->len == s->start && (s->at[1] == '*' || s->at[1] == '&')) {
		s->at += 2; /* a function that returns a pointer to one: "void (*name(int))(char)" */
	} else {
		skip(s);
		skip_qualifiers(s);
	}
}

/* Behind the word "operator": a symbol, or a word or type up to the parameters. */
static void put_operator(struct shortener *s)
{
	put(s, "operator", 8);
	s->at += 8;
	size_t len = operator_symbol(s->at);
	if (len > 0) {
		put(s, s->at, len);
		s->at += len;
		s->at += s->at[0] == ' ' && s->at[1] == '<';
		return;
	}
	while (s->status == 0 && *s->at && *s->at != '(') {
		if (*s->at == '<')
			skip(s);
		else
			put(s, s->at++, 1);
	}
}

/* "vtable for ", "non-virtual thunk to ": not a return type. */
static void put_prefix(struct shortener *s)
{
	static const char *const prefixes[] = {"vtable for ",
					       "VTT for ",
					       "typeinfo for ",
					       "typeinfo name for ",
					       "typeinfo fn for ",
					       "construction vtable for ",
					       "non-virtual thunk to ",
					       "virtual thunk to ",
					       "covariant return thunk to ",
					       "guard variable for ",
					       "TLS init function for ",
					       "TLS wrapper function for ",
					       "transaction clone for ",
					       "non-transaction clone for ",
					       "hidden alias for ",
					       "global constructors keyed to ",
					       "global destructors keyed to "};
	for (size_t i = 0; i < sizeof(prefixes) / sizeof(prefixes[0]); i++) {
		if (!starts(s->at, prefixes[i]))
			continue;
		put(s, prefixes[i], strlen(prefixes[i]));
		s->at += strlen(prefixes[i]);
		s->start = s->out->len;
		return;
	}
}

/* ---- Rust ---- */

static bool contains(const char *text, size_t len, const char *part)
{
	return memmem(text, len, part, strlen(part)) != NULL;
}

/* A type inside of brackets: without the arguments of generic types. */
static void put_type(struct shortener *s, const char *end)
{
	const char *first = s->at;
	while (s->status == 0 && s->at < end) {
		bool is_turbofish = *s->at == '<' && s->at >= first + 2 && s->at[-1] == ':';
		if (is_turbofish && !starts(s->at, "<impl ") && s->out->len >= s->start + 2)
			s->out->len -= 2;
		if (*s->at == '<' && s->at > first && (is_word(s->at[-1]) || (is_turbofish && !starts(s->at, "<impl "))))
			skip(s);
		else
			put(s, s->at++, 1);
	}
}

/* A '<' that opens a segment of a path. */
static void put_rust_group(struct shortener *s)
{
	const char *end = skip_group(s->at), *inside = s->at + 1;
	if (!end) {
		s->status = -EINVAL;
		return;
	}
	size_t len = (size_t)(end - 1 - inside);
	bool is_named = starts(inside, "impl ") || starts(inside, "lambda") || contains(inside, len, " as ");
	if (!is_named && ends_with_colons(s)) { /* path::name::<arguments> */
		s->out->len -= 2;
		s->at = end;
		return;
	}
	/* "<module::Type>::name" is a path; "<dyn Trait>::name" and "<[T]>::name" are not. */
	bool is_bracketed = is_named || !is_word(inside[0]) || starts(inside, "dyn ");
	s->at = inside;
	if (is_bracketed)
		put(s, "<", 1);
	put_type(s, end - 1);
	if (is_bracketed)
		put(s, ">", 1);
	s->at = end;
}

/* ---- Go ---- */

static bool is_go(const char *full)
{
	if (strstr(full, ".(*") || (strchr(full, '/') && !strpbrk(full, "<( ")))
		return true;
	for (const char *at = strchr(full, '['); at; at = strchr(at + 1, '['))
		if (at > full && is_word(at[-1]) && at[1] != ']' && !starts(at, "[abi:"))
			return true;
	return false;
}

/* What the compiler makes for a type, which may be any type: "type:.eq.struct { a int; b string }", "type..hash." up to 1.19.
 */
static bool is_go_type(const char *full)
{
	return starts(full, "type:.") || starts(full, "type..");
}

/* Type arguments go: "slices.Sort[...]", "main.(*List[go.shape.int_0]).Push". */
static void put_go(struct shortener *s)
{
	while (s->status == 0 && *s->at) {
		if (*s->at == '[' && s->out->len > s->start && is_word((char)s->out->data[s->out->len - 1]))
			skip(s);
		else
			put(s, s->at++, 1);
	}
}

/* ---- Swift ---- */

/* A bracket that is none: "->" and operators, which stand behind a dot ("main.< infix(...)"). */
static bool is_operator_at(const char *full, const char *at)
{
	return at > full &&
	       (at[-1] == '-' || at[-1] == '.' || (at[-1] != ' ' && strchr("<>=!&|+-*/%^~", at[-1]) && at[-1] != '>'));
}

/* The first place from `at` on, outside of brackets, where one of the texts begins; NULL if none does. */
static const char *find_outside(const char *full, const char *at, const char *const *texts)
{
	for (int depth = 0; *at; at++) {
		for (size_t i = 0; depth == 0 && texts[i]; i++)
			if (starts(at, texts[i]))
				return at;
		if ((*at == '<' || *at == '>') && is_operator_at(full, at))
			continue;
		depth += strchr("(<[{", *at) != NULL;
		depth -= strchr(")>]}", *at) != NULL;
	}
	return NULL;
}

/* What no other language writes: a result or a type behind the name, or one of the compiler's thunks before it. */
static bool is_swift(const char *full)
{
	static const char *const inside[] = {" -> ", " : ", NULL};
	static const char *const prefixes[] = {"closure #",
					       "implicit closure #",
					       "static ",
					       "async function pointer ",
					       "(extension in ",
					       "generic specialization <",
					       "generic not re-abstracted specialization <",
					       "function signature specialization <",
					       "merged ",
					       "partial apply ",
					       "reabstraction thunk ",
					       "protocol witness ",
					       "lazy protocol witness ",
					       "dispatch thunk of ",
					       "curry thunk of ",
					       "default argument ",
					       "variable initialization expression of ",
					       "property wrapper ",
					       "type metadata ",
					       "outlined ",
					       "one-time initialization ",
					       "key path ",
					       "@objc ",
					       "@nonobjc "};
	for (size_t i = 0; i < sizeof(prefixes) / sizeof(prefixes[0]); i++)
		if (starts(full, prefixes[i]))
			return true;
	return strstr(full, "witness for ") || strstr(full, " resume partial function for ") ||
	       (strchr(full, ' ') && find_outside(full, full, inside));
}

/* Behind a type: up to what the name goes on with. */
static void skip_swift_type(struct shortener *s, const char *full)
{
	static const char *const next[] = {" in ", " of ", " with unmangled suffix ", " and conformance ", NULL};
	const char *end = find_outside(full, s->at, next);
	s->at = end ? end : s->at + strlen(s->at);
}

/* "<...> of " behind the name of a specialization. */
static void skip_specialization(struct shortener *s)
{
	const char *text = strstr(s->at, "specialization <"), *end;
	while (text && s->status == 0 && (starts(s->at, "generic ") || starts(s->at, "function signature "))) {
		end = skip_group(strchr(text, '<'));
		if (!end || !starts(end, " of ")) {
			s->status = -EINVAL;
			return;
		}
		s->at = end + 4;
		text = strstr(s->at, "specialization <");
	}
}

static void put_swift_parenthesis(struct shortener *s, const char *full)
{
	const char *end = skip_group(s->at);
	bool begins_name = s->at == full || s->at[-1] == '.' || s->at[-1] == ' ' || s->at[-1] == ':';
	if (!end) {
		s->status = -EINVAL;
	} else if (s->at == full && isdigit((unsigned char)s->at[1])) { /* "(1) await resume partial function for" */
		put(s, s->at, (size_t)(end - s->at));
		s->at = end;
	} else if (begins_name && starts(s->at, "(extension in ") && *end == ':') {
		s->at = end + 1;
	} else if (begins_name && memmem(s->at, (size_t)(end - s->at), " in ", 4)) {
		const char *name_end = strstr(s->at, " in "); /* private: "(name in _DISCRIMINATOR)" */
		put(s, s->at + 1, (size_t)(name_end - s->at - 1));
		s->at = end;
	} else {
		if (s->out->len > s->start && s->out->data[s->out->len - 1] == ' ')
			s->out->len--; /* "closure #1 (Swift.Int)" */
		s->at = end;
		static const char *const effects[] = {" async", " throws"};
		for (size_t i = 0; i < 2; i++)
			if (starts(s->at, effects[i]))
				s->at += strlen(effects[i]);
		if (*s->at == '(')
			skip(s);
	}
}

static void put_swift(struct shortener *s, const char *full)
{
	/* From one way of calling to another: without the types nothing would be left. */
	if (strstr(full, "reabstraction thunk "))
		s->status = -EINVAL;
	while (s->status == 0 && *s->at) {
		skip_specialization(s);
		if (s->status < 0 || !*s->at || starts(s->at, " with unmangled suffix "))
			break;
		if (*s->at == '(')
			put_swift_parenthesis(s, full);
		else if (*s->at == '<' && !is_operator_at(full, s->at))
			skip(s);
		else if (starts(s->at, " -> ") || starts(s->at, " : "))
			skip_swift_type(s, full);
		else
			put(s, s->at++, 1);
	}
}

/* ---- all of it ---- */

static void put_name(struct shortener *s)
{
	put_prefix(s);
	while (s->status == 0 && *s->at && *s->at != ')') {
		char c = *s->at;
		if (starts(s->at, " requires ") && s->out->len > s->start)
			return;
		if (starts(s->at, " [clone ") || starts(s->at, " [.")) {
			s->at++;
			skip(s);
		} else if (c == '[' && (starts(s->at, "[abi:") || starts(s->at, "[clone "))) {
			skip(s);
		} else if (c == '<' && (s->out->len == s->start || ends_with_colons(s))) {
			put_rust_group(s);
		} else if (c == '<') {
			skip(s);
		} else if (c == '(') {
			put_parentheses(s);
		} else if (c == '{') {
			put_braces(s);
		} else if (c == '!' && s->at[1] == '(') {
			s->at++;
			skip(s);
		} else if (starts(s->at, "operator") && at_word_start(s) && !is_word(s->at[8])) {
			put_operator(s);
		} else if (c == ' ') {
			s->out->len = s->start;
			s->at++;
		} else {
			put(s, s->at++, 1);
		}
	}
}

int demangle_short(const char *full, struct buffer *out)
{
	struct shortener s = {.at = full, .out = out, .start = out->len};
	size_t before = out->len;
	if (is_go_type(full))
		return buffer_append_string(out, full);
	if (is_swift(full))
		put_swift(&s, full);
	else if (is_go(full))
		put_go(&s);
	else
		put_name(&s);
	if (s.status < 0 || out->len == s.start) {
		buffer_truncate(out, before);
		if (s.status < 0 && s.status != -EINVAL)
			return s.status;
		return buffer_append_string(out, full);
	}
	return 0;
}
