/* SPDX-License-Identifier: Apache-2.0 */
/* Names of functions as reports show them. */
#include <errno.h>
#include <string.h>

#include "base/limits.h"
#include "elf/demangle/demangle.h"
#include "render/report.h"

/* Names that somebody demangled, by what only C++ has. Java's "Class.<init>" and Go's "pkg.(*T[...]).F" have it as well. */
static bool looks_demangled(const char *name)
{
	if (strstr(name, ".<") || strstr(name, "])."))
		return false;
	return strpbrk(name, "<>[]") || strstr(name, "::");
}

/* Without what stands in brackets, in place; as it was where they do not match. */
static void remove_brackets(char *name, char open, char close)
{
	size_t kept = 0, depth = 0;
	for (const char *at = name; *at; at++) {
		depth += *at == open;
		if (*at == close && depth-- == 0)
			return;
	}
	if (depth != 0 && !strchr(name, close))
		return;
	depth = 0;
	for (const char *at = name; *at; at++) {
		depth += *at == open;
		if (depth == 0)
			name[kept++] = *at;
		depth -= *at == close && depth > 0;
	}
	name[kept] = '\0';
}

static int readable_name(const char *name, bool full, struct buffer *out)
{
	_cleanup_(buffer_release) struct buffer whole = {.max = MIB};
	int r = demangle_symbol(name, &whole);
	if (r > 0 && full)
		return buffer_append(out, whole.data, whole.len);
	if (r > 0)
		return buffer_string(&whole) ? demangle_short(buffer_string(&whole), out) : -ENOMEM;
	if (r == 0)
		r = buffer_append_string(out, name);
	if (r < 0 || full || !looks_demangled(name))
		return r;
	if (!buffer_string(out))
		return -ENOMEM;
	remove_brackets((char *)out->data, '(', ')');
	remove_brackets((char *)out->data, '<', '>');
	buffer_truncate(out, strlen((char *)out->data));
	return 0;
}

int report_demangle(struct profile *profile, bool full, struct error *err)
{
	_cleanup_(buffer_release) struct buffer text = {.max = LIMIT_PROFILE_STRING_BYTES};
	for (size_t i = 1; i < profile->function_count; i++) {
		struct profile_function *function = &profile->functions[i];
		struct bytes name = profile_string_bytes(profile, function->system_name);
		if ((function->name && function->name != function->system_name) || name.len == 0 ||
		    memchr(name.data, '\0', name.len))
			continue;
		buffer_clear(&text);
		int r = readable_name(profile_string(profile, function->system_name), full, &text);
		if (r < 0)
			return r == -ENOMEM ? error_nomem(err) : error_set(err, r, "a function's name is too long");
		r = profile_add_bytes(profile, buffer_bytes(&text), &function->name, err);
		if (r < 0)
			return r;
	}
	return 0;
}
