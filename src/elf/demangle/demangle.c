/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Demangling: Swift in demangle_swift.c, OCaml and Go here, the others with libiberty, kept from doing harm. Mangled names
 * refer back to parts of themselves, so a name of 200 bytes can stand for 2^30 bytes of text, and the library has no limit on
 * what it writes. Names come from files that anybody may have written.
 *
 * C++ and Rust. The library writes through a callback and allocates nothing of its own on the way (one exception below), so
 * when the text passes DEMANGLE_OUTPUT_MAX the callback leaves it with longjmp(): nothing is lost, and time is bounded with the
 * text. libiberty's own recursion limit is switched off for C++ because it is a limit on length in disguise: it refuses every
 * name longer than 1024 bytes, which real templates pass. DEMANGLE_INPUT_MAX takes its place: stack use grows with the length,
 * and the worst constructs (chains of pointers, arrays, templates) need less than 700 KiB at 4096 bytes.
 *
 * The exception: Rust v0 decodes identifiers outside ASCII into memory of its own, prints them from there (or, when they are
 * damaged, as "punycode{...-...}"), and frees it; a jump would lose it. So with Rust the jump waits for one of the library's
 * own literals other than those: there is a "::" or a bracket between any two identifiers.
 *
 * D. dlang_demangle() returns allocated text and ends the process when memory is short, so its output is bounded beforehand:
 * expansion_bound() adds up how much every back reference could repeat at most.
 */
#include "elf/demangle/demangle.h"

#include <ctype.h>
#include <errno.h>
#include <libiberty/demangle.h>
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>

#include "elf/demangle/demangle_swift_int.h"

#define DLANG_EXPANSION_MAX (4ull * DEMANGLE_OUTPUT_MAX)

/* The linker's bounds of the program; libiberty is a static library, so its literals lie between. */
extern const char __executable_start[], _end[];

struct sink {
	const char *name, *name_end; /* the mangled one, which may be a literal of the program too */
	struct buffer *out;
	size_t written;
	int status;
	bool is_rust;
	jmp_buf leave;
};

static bool may_leave(const struct sink *sink, const char *text, size_t len)
{
	if (!sink->is_rust)
		return true;
	bool is_literal = (uintptr_t)text >= (uintptr_t)__executable_start && (uintptr_t)text < (uintptr_t)_end &&
			  !(text >= sink->name && text < sink->name_end);
	return is_literal && len > 0 && text[0] != 'p' && text[0] != '-' && text[0] != '}';
}

static void take_text(const char *text, size_t len, void *context)
{
	struct sink *sink = context;
	if (sink->status == 0 && len > DEMANGLE_OUTPUT_MAX - sink->written)
		sink->status = -ERANGE;
	if (sink->status == 0)
		sink->status = buffer_append(sink->out, text, len);
	if (sink->status == 0)
		sink->written += len;
	else if (may_leave(sink, text, len))
		_longjmp(sink->leave, 1);
}

typedef int (*demangler)(const char *mangled, int options, demangle_callbackref callback, void *opaque);

static int run_demangler(demangler run, const char *name, int options, struct buffer *out)
{
	struct sink sink = {
		.name = name, .name_end = name + strlen(name), .out = out, .is_rust = run == rust_demangle_callback};
	const size_t len_before = out->len;
	volatile int done = 0;
	if (_setjmp(sink.leave) == 0)
		done = run(name, options, take_text, &sink);
	if (done && sink.status == 0 && sink.written > 0)
		return 1;
	buffer_truncate(out, len_before);
	return sink.status == -ERANGE ? 0 : sink.status;
}

/* Where the back reference whose 'Q' is at `at` points to, and false if it points nowhere. Base 26: capitals go on, a small
 * letter ends. */
static bool dlang_back_reference(const char *name, size_t at, size_t *ret_target)
{
	size_t value = 0;
	for (size_t i = at + 1; value <= at; i++) {
		char c = name[i];
		if (c >= 'a' && c <= 'z') {
			value = value * 26 + (size_t)(c - 'a');
			if (value == 0 || value > at)
				return false;
			*ret_target = at - value;
			return true;
		}
		if (c < 'A' || c > 'Z')
			return false;
		value = value * 26 + (size_t)(c - 'A');
	}
	return false;
}

/* An upper bound on the bytes that a D name stands for. A reference to an identifier (it starts with its length) repeats that
 * identifier. One to a type repeats at most all from there to the reference, with the references in it expanded. Every 'Q' is
 * taken for a reference: too many are counted, never too few. */
static uint64_t expansion_bound(const char *name, size_t len)
{
	uint64_t before[DEMANGLE_INPUT_MAX + 1]; /* what the references before a position add */
	uint64_t total = 0;
	for (size_t at = 0; at < len; at++) {
		before[at] = total;
		size_t target;
		if (name[at] != 'Q' || !dlang_back_reference(name, at, &target))
			continue;
		uint64_t cost = isdigit((unsigned char)name[target]) ? strtoull(name + target, NULL, 10)
								     : at - target + total - before[target];
		total += cost < len || !isdigit((unsigned char)name[target]) ? cost : len;
		if (total > DLANG_EXPANSION_MAX)
			return total;
	}
	return total + len;
}

static int demangle_dlang(const char *name, struct buffer *out)
{
	size_t len = strlen(name);
	if (expansion_bound(name, len) > DLANG_EXPANSION_MAX)
		return 0;
	char *text = dlang_demangle(name, DMGL_DLANG);
	if (!text)
		return 0;
	size_t text_len = strlen(text);
	int r = text_len > 0 && text_len <= DEMANGLE_OUTPUT_MAX ? buffer_append(out, text, text_len) : -ERANGE;
	free(text);
	if (r == -ERANGE)
		return 0;
	return r < 0 ? r : 1;
}

/* Go's linker writes some bytes of import paths as "%2e". No other language has a '%' in its symbols. */
static int demangle_go(const char *name, struct buffer *out)
{
	size_t len_before = out->len;
	int r = 0;
	for (const char *at = name; *at && r == 0; at++) {
		char digits[3] = {at[0] == '%' ? at[1] : 0, 0, 0};
		char *end = digits;
		if (digits[0])
			digits[1] = at[2];
		unsigned long byte = isxdigit((unsigned char)digits[0]) ? strtoul(digits, &end, 16) : 0;
		bool is_escape = end == digits + 2 && byte >= ' ' && byte != 0x7f;
		r = buffer_append_byte(out, is_escape ? (uint8_t)byte : (uint8_t)*at);
		if (is_escape)
			at += 2;
	}
	if (r == 0 && out->len - len_before < strlen(name))
		return 1;
	buffer_truncate(out, len_before);
	return r;
}

/*
 * OCaml's native compiler: "caml", the module (capital first), "__" between modules, "__" (up to 4.14) or "." before the name
 * with its number, "$" and two hexadecimal digits for what is neither letter, digit nor '_'. The number stays: functions of one
 * name are distinguished by nothing else.
 */
static bool is_ocaml(const char *name)
{
	if (strncmp(name, "caml", 4) != 0 || name[4] < 'A' || name[4] > 'Z')
		return false;
	return strstr(name + 4, "__") || strpbrk(name + 4, ".$");
}

static int demangle_ocaml(const char *name, struct buffer *out)
{
	size_t len_before = out->len;
	int r = 0;
	for (const char *at = name + 4; *at && r == 0;) {
		char digits[3] = {at[0] == '$' ? at[1] : 0, 0, 0};
		char *end = digits;
		if (digits[0])
			digits[1] = at[2];
		unsigned long byte = isxdigit((unsigned char)digits[0]) ? strtoul(digits, &end, 16) : 0;
		if (end == digits + 2 && byte > ' ' && byte < 0x7f) {
			r = buffer_append_byte(out, (uint8_t)byte);
			at += 3;
		} else if (at[0] == '_' && at[1] == '_' && at[2] != 0) {
			r = buffer_append_byte(out, '.');
			at += 2;
		} else {
			r = buffer_append_byte(out, (uint8_t)*at++);
		}
	}
	if (r == 0)
		return 1;
	buffer_truncate(out, len_before);
	return r;
}

int demangle_symbol(const char *name, struct buffer *out)
{
	if (name[0] == '$' || name[0] == '@' || (name[0] == '_' && (name[1] == '$' || name[1] == 'T')))
		return demangle_swift(name, 0, out);
	if (is_ocaml(name) && strnlen(name, DEMANGLE_INPUT_MAX + 1) <= DEMANGLE_INPUT_MAX)
		return demangle_ocaml(name, out);
	if (name[0] != '_' && strchr(name, '%') && strnlen(name, DEMANGLE_INPUT_MAX + 1) <= DEMANGLE_INPUT_MAX)
		return demangle_go(name, out);
	if (name[0] != '_' || name[1] == 0 || strnlen(name, DEMANGLE_INPUT_MAX + 1) > DEMANGLE_INPUT_MAX)
		return 0;
	if (name[1] == 'R')
		return run_demangler(rust_demangle_callback, name, DMGL_AUTO, out);
	if (name[1] == 'D')
		return demangle_dlang(name, out);
	if (name[1] != 'Z' && strncmp(name, "_GLOBAL_", 8) != 0)
		return 0;
	if (strncmp(name, "_ZN", 3) == 0) {
		/* Legacy Rust looks like C++ but for its hash; this one distinguishes them. */
		int r = run_demangler(rust_demangle_callback, name, DMGL_AUTO, out);
		if (r != 0)
			return r;
	}
	return run_demangler(cplus_demangle_v3_callback, name, DMGL_PARAMS | DMGL_ANSI | DMGL_NO_RECURSE_LIMIT, out);
}
