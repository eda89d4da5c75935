/* SPDX-License-Identifier: Apache-2.0 */
/*
 * wick debuginfo lookup: what is at an address of a file, from the same table that profiles are named with, printed as
 * llvm-symbolizer prints it, so that the two can be compared.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/io.h"
#include "cmd/cmd.h"
#include "elf/build_id.h"
#include "elf/demangle/demangle.h"
#include "symbol/symbol.h"

#define FRAMES_MAX     512
#define NAME_BYTES_MAX 65536
#define LINE_BYTES_MAX 256

struct lookup {
	struct symbolizer *symbolizer;
	struct symbol_view *view; /* NULL = nothing is known of the file */
	bool no_demangle, functions_only, no_inlines, shows_address;
	struct symbol_frame frames[FRAMES_MAX];
	struct buffer name;
};

static int parse_address(const char *text, uint64_t *ret, struct error *err)
{
	char *end;
	errno = 0;
	unsigned long long value = strtoull(text, &end, 16);
	bool has_digits = end != text && text[0] != '-' && text[0] != '+';
	end += strspn(end, " \t\r\n");
	if (!has_digits || *end || errno)
		return error_set(err, -EINVAL, "'%.100s' is not an address in hexadecimal", text);
	*ret = value;
	return 0;
}

static void print_frame(struct lookup *lookup, const struct symbol_frame *frame)
{
	const char *name = frame->name && *frame->name ? frame->name : "??";
	buffer_clear(&lookup->name);
	if (!lookup->no_demangle && demangle_symbol(name, &lookup->name) > 0 && buffer_string(&lookup->name))
		name = buffer_string(&lookup->name);
	cmd_print_harmless(stdout, name, 0);
	putchar('\n');
	if (lookup->functions_only)
		return;
	cmd_print_harmless(stdout, frame->file && *frame->file ? frame->file : "??", 0);
	printf(":%u:%u\n", frame->line, frame->column);
}

static void print_address(struct lookup *lookup, uint64_t address)
{
	static const struct symbol_frame unknown = {.name = "", .file = ""};
	size_t count = lookup->view ? symbol_view_frames(lookup->view, address, lookup->frames, FRAMES_MAX) : 0;
	if (lookup->shows_address)
		printf("0x%llx\n", (unsigned long long)address);
	if (count == 0)
		print_frame(lookup, &unknown);
	for (size_t i = 0; i < count; i++)
		if (!lookup->no_inlines || i + 1 == count)
			print_frame(lookup, &lookup->frames[i]);
	putchar('\n');
}

static int lookup_stdin(struct lookup *lookup, struct error *err)
{
	char line[LINE_BYTES_MAX];
	while (fgets(line, sizeof(line), stdin)) {
		uint64_t address;
		if (line[strspn(line, " \t\r\n")] == 0)
			continue;
		int r = parse_address(line, &address, err);
		if (r < 0)
			return r;
		print_address(lookup, address);
	}
	return ferror(stdin) ? error_set(err, -EIO, "cannot read addresses from standard input") : 0;
}

/* A file with a build-id may have its debug information elsewhere on this host. */
static int open_view(struct lookup *lookup, const char *path, struct error *err)
{
	const struct symbolizer_want want = {.wait_ns = -1};
	char build_id[BUILD_ID_HEX_MAX] = "", absolute[PATH_MAX];
	_cleanup_(fd_closep) int fd = io_open(path, O_RDONLY, 0, err);
	if (fd < 0)
		return fd;
	if (!realpath(path, absolute))
		return error_set_errno(err, -errno, "cannot open %s", path);
	if (build_id_read_fd(fd, build_id, NULL) < 0)
		build_id[0] = 0;
	return symbolizer_view(lookup->symbolizer, build_id, absolute, &want, &lookup->view, err);
}

static int lookup_all(struct lookup *lookup, const struct operands *operands, struct error *err)
{
	int r = open_view(lookup, operands->items[0], err);
	if (r < 0)
		return r;
	if (operands->count == 1)
		r = lookup_stdin(lookup, err);
	for (size_t i = 1; r == 0 && i < operands->count; i++) {
		uint64_t address;
		r = parse_address(operands->items[i], &address, err);
		if (r == 0)
			print_address(lookup, address);
	}
	if (r == 0 && fflush(stdout) != 0)
		r = error_set_errno(err, -errno, "cannot write to standard output");
	return r;
}

int cmd_debuginfo_lookup(int argc, char **argv)
{
	static struct lookup lookup;
	const struct option_row options[] = {
		{0, "no-demangle", NULL, OPTION_FLAG, &lookup.no_demangle, .help = "do not demangle names"},
		{0, "no-inlines", NULL, OPTION_FLAG, &lookup.no_inlines, .help = "no inlined functions"},
		{0, "functions-only", NULL, OPTION_FLAG, &lookup.functions_only, .help = "no files and lines"},
		{'a', "addresses", NULL, OPTION_FLAG, &lookup.shows_address, .help = "print each address before its frames"},
		{0}};
	const struct usage usage = {
		.verb = "debuginfo lookup",
		.synopsis = "FILE [ADDRESS...] [OPTION...]",
		.description = "Prints the functions, inlined ones first, and the files and lines at addresses\nof a program "
			       "or library: two lines per function, an empty line after each\naddress. Addresses are "
			       "hexadecimal and as linked; without any they are read\nfrom standard input, one per line.",
		.options = options,
		.examples = "wick debuginfo lookup /usr/bin/app 0x401234\n"
			    "wick debuginfo lookup ./libx.so --no-demangle < addresses.txt"};
	struct operands operands;
	struct error err = {0};
	OPTIONS_OR_RETURN(&usage, argc, argv, &operands);
	if (operands.count == 0)
		return usage_error(&usage, "no file");
	struct symbolizer_options symbolizer_options = {.own_files = true};
	buffer_init(&lookup.name, DEMANGLE_OUTPUT_MAX + 1);
	int r = symbolizer_new(&symbolizer_options, &lookup.symbolizer, &err);
	if (r == 0)
		r = lookup_all(&lookup, &operands, &err);
	lookup.view = symbol_view_free(lookup.view);
	lookup.symbolizer = symbolizer_free(lookup.symbolizer);
	buffer_release(&lookup.name);
	return r < 0 ? cmd_fail("debuginfo lookup", &err) : EXIT_DONE;
}
