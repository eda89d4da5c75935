/* SPDX-License-Identifier: Apache-2.0 */
/* wick debuginfo: sends debug information to a server, and shows what the server knows of each binary. */
#include "cmd/debuginfo.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "elf/build_id.h"

struct list_arguments {
	struct remote remote;
	const char *state, *text, *format;
	unsigned limit;
};

/* ---- list ---- */

static uint64_t number(const json_t *object, const char *name)
{
	return (uint64_t)json_integer_value(json_object_get(object, name));
}

static void print_text(const json_t *object, const char *name, const char *nothing, int width)
{
	const char *text = json_string_value(json_object_get(object, name));
	cmd_print_harmless(stdout, text && *text ? text : nothing, width);
	putchar(' ');
}

static void print_binary(const json_t *binary)
{
	char count[TEXT_NUMBER_MAX], size[TEXT_NUMBER_MAX];
	const char *why = json_string_value(json_object_get(binary, "why"));
	print_text(binary, "state", "?", 8);
	printf("%14s ", text_format_count(number(binary, "samples"), count));
	print_text(binary, "sources", "-", 21);
	printf("%10s  ", number(binary, "table_bytes") ? text_format_size(number(binary, "table_bytes"), size) : "-");
	print_text(binary, "build_id", "?", 40);
	print_text(binary, "path", "?", 0);
	if (why && *why) {
		printf(" (");
		cmd_print_harmless(stdout, why, 0);
		putchar(')');
	}
	putchar('\n');
}

static int print_list(struct bytes response, struct error *err)
{
	_cleanup_(json_decrefp) json_t *root = json_loadb((const char *)response.data, response.len, 0, NULL);
	json_t *item, *binaries = json_object_get(root, "binaries"), *counts = json_object_get(root, "counts");
	const char *state;
	size_t i;
	if (!json_is_array(binaries))
		return error_set(err, -EBADMSG, "malformed response from the server: not a list of binaries");
	printf("%-8s %14s %-21s %10s  %-40s %s\n", "state", "samples", "sources", "table", "build-id", "path (why)");
	json_array_foreach(binaries, i, item) print_binary(item);
	printf("\n%zu of %llu:", json_array_size(binaries), (unsigned long long)number(root, "total"));
	json_object_foreach(counts, state, item) printf(" %llu %s", (unsigned long long)json_integer_value(item), state);
	putchar('\n');
	return 0;
}

static int list(const struct list_arguments *a, struct error *err)
{
	char limit[TEXT_NUMBER_MAX];
	_cleanup_(buffer_release) struct buffer path = {0}, response = {0};
	snprintf(limit, sizeof(limit), "%u", a->limit);
	const struct remote_value values[] = {{"state", a->state}, {"text", a->text}, {"limit", limit}};
	if (remote_begin(&path, "/api/v1/binaries", values, 3) < 0)
		return error_nomem(err);
	int r = remote_request(&a->remote, "GET", &path, &response, err);
	if (r < 0)
		return r;
	if (strcmp(a->format, "text") == 0)
		return print_list(buffer_bytes(&response), err);
	return buffer_append_byte(&response, '\n') < 0 ? error_nomem(err) : cmd_write("-", buffer_bytes(&response), err);
}

/* ---- the verb ---- */

static bool is_kind(const char *text)
{
	return strcmp(text, "debuginfo") == 0 || strcmp(text, "executable") == 0 || strcmp(text, "sources") == 0 ||
	       strcmp(text, "kallsyms") == 0;
}

static int run_upload(const struct usage *usage, const struct debuginfo_upload *upload, const struct operands *operands)
{
	struct error err = {0};
	if (operands->count < 2)
		return usage_error(usage, "upload: no files given");
	if (upload->kind && !is_kind(upload->kind))
		return usage_error(usage, "--kind: '%.40s' is not one of debuginfo, executable, sources, kallsyms",
				   upload->kind);
	if (upload->build_id && !build_id_is_valid(upload->build_id))
		return usage_error(usage, "--build-id: '%.40s' is not lower-case hexadecimal", upload->build_id);
	if (upload->build_id && operands->count > 2)
		return usage_error(usage, "--build-id can be used with one file only");
	unsigned failed = debuginfo_upload_files(upload, operands->items + 1, operands->count - 1, &err);
	if (err.code)
		return cmd_fail("debuginfo", &err);
	return failed ? EXIT_FAILED : EXIT_DONE;
}

static int run_list(const struct usage *usage, const struct list_arguments *a, const struct operands *operands)
{
	struct error err = {0};
	if (operands->count > 1)
		return usage_error(usage, "unexpected operand '%s'", operands->items[1]);
	if (strcmp(a->format, "text") != 0 && strcmp(a->format, "json") != 0)
		return usage_error(usage, "--format: '%.40s' must be text or json", a->format);
	return list(a, &err) < 0 ? cmd_fail("debuginfo", &err) : EXIT_DONE;
}

int cmd_debuginfo(int argc, char **argv)
{
	struct debuginfo_upload upload = {0};
	struct list_arguments a = {.format = "text", .limit = 100};
	const struct option_row options[] = {
		REMOTE_OPTION_ROWS(&upload.remote),
		{0, "kind", "KIND", OPTION_TEXT, &upload.kind,
		 .help = "upload: debuginfo, executable (for disassembly),\nsources (a tar archive), kallsyms (default: "
			 "debuginfo)"},
		{0, "build-id", "HEX", OPTION_TEXT, &upload.build_id,
		 .help = "upload: build-id that the sources or kallsyms belong to,\nor the id that profiles have for the "
			 "program"},
		{0, "whole", NULL, OPTION_FLAG, &upload.whole, .help = "upload: the whole file, including code and data"},
		{0, "force", NULL, OPTION_FLAG, &upload.force, .help = "upload: replace the file on the server"},
		{0, "state", "STATE", OPTION_TEXT, &a.state,
		 .help = "list: queued, working, complete, partial, missing,\nfailed; several with commas"},
		{0, "text", "TEXT", OPTION_TEXT, &a.text, .help = "list: part of a path or build-id"},
		{'n', "limit", "N", OPTION_UNSIGNED, &a.limit, 1, 10000, .help = "list: maximum number (default: 100)"},
		{0, "format", "FORMAT", OPTION_TEXT, &a.format, .help = "list: text, json (default: text)"},
		{0}};
	const struct usage usage = {.verb = "debuginfo",
				    .actions = "upload, list, lookup",
				    .synopsis = "upload FILE... | list [OPTION...] | lookup FILE [ADDRESS...]",
				    .description = "upload sends the symbols and debug information of ELF files to a server, "
						   "which uses them\nto symbolize stripped programs; no code or data is sent. "
						   "list shows the binaries that\nthe server has seen, and the state of their "
						   "symbols. lookup symbolizes addresses of a\nlocal file: see lookup --help.",
				    .options = options,
				    .examples = "wick debuginfo upload build/app build/lib/*.so --url http://wick:7070\n"
						"wick debuginfo list --state missing,failed"};
	if (argc > 1 && strcmp(argv[1], "lookup") == 0)
		return cmd_debuginfo_lookup(argc - 1, argv + 1);
	struct operands operands;
	OPTIONS_OR_RETURN(&usage, argc, argv, &operands);
	a.remote = upload.remote;
	if (operands.count && strcmp(operands.items[0], "upload") == 0)
		return run_upload(&usage, &upload, &operands);
	if (operands.count && strcmp(operands.items[0], "list") == 0)
		return run_list(&usage, &a, &operands);
	return usage_error(&usage, operands.count ? "unknown command '%.40s'" : "give a command: upload, list or lookup",
			   operands.count ? operands.items[0] : "");
}
