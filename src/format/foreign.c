/* SPDX-License-Identifier: Apache-2.0 */
/* Files that people take for profiles, and that are something else: named as what they are, with what to do. */
#include <string.h>
#include <strings.h>

#include "format/format_int.h"

#define SNAPSHOT_BYTES 4096

/* "go 1.22 trace" and NULs, of 16 bytes. */
static bool is_go_trace(struct bytes input)
{
	return input.len >= 16 && bytes_start_with(input, "go 1.") && memmem(input.data, 16, " trace", 6);
}

static bool is_html(struct bytes input)
{
	static const char *const heads[] = {"<!doctype html", "<html"};
	size_t at = 0;
	while (at < input.len && (input.data[at] == ' ' || (input.data[at] >= '\t' && input.data[at] <= '\r')))
		at++;
	for (size_t i = 0; i < sizeof(heads) / sizeof(heads[0]); i++) {
		size_t len = strlen(heads[i]);
		if (input.len - at >= len && strncasecmp((const char *)input.data + at, heads[i], len) == 0)
			return true;
	}
	return false;
}

/* V8's: {"snapshot":{"meta":{"node_fields": ... */
static bool is_heap_snapshot(struct bytes input)
{
	size_t len = input.len < SNAPSHOT_BYTES ? input.len : SNAPSHOT_BYTES;
	return len > 0 && input.data[0] == '{' && memmem(input.data, len, "\"snapshot\"", 10) &&
	       memmem(input.data, len, "\"node_fields\"", 13);
}

const char *format_foreign(struct bytes input)
{
	if (is_go_trace(input))
		return "an execution trace of Go, not a profile: 'go tool trace FILE' shows it, and 'go tool trace -pprof=TYPE "
		       "FILE' "
		       "makes profiles of it (TYPE: net, sync, syscall, sched)";
	if (is_html(input))
		return "HTML, not a profile: perhaps the page of an error or of a login, or a profile as a page";
	if (is_heap_snapshot(input))
		return "a heap snapshot of V8, which has objects and no stacks; Chrome's DevTools show it";
	if (bytes_start_with(input, "Nettrace"))
		return "a trace of .NET's EventPipe: 'dotnet-trace convert --format speedscope FILE' makes a profile of it";
	if (bytes_start_with(input, "\177ELF"))
		return "a program, not a profile";
	if (bytes_start_with(input, "PK\3\4"))
		return "a zip archive; unpack it first";
	if (bytes_start_with(input, "\3757zXZ"))
		return "compressed by xz; decompress it first (xz -d)";
	if (bytes_start_with(input, "BZh") && input.len > 3 && input.data[3] >= '1' && input.data[3] <= '9')
		return "compressed by bzip2; decompress it first (bzip2 -d)";
	return NULL;
}
