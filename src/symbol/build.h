/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Building a binary's lookup table from all that is known of it: its own symbols, mini debug information, pclntab, and the
 * DWARF of itself or of its separate debug file. Other files are asked for by what they are, not by where: who answers decides
 * what may be opened, and may fetch it from far away.
 */
#ifndef WICK_SYMBOL_BUILD_H
#define WICK_SYMBOL_BUILD_H

#include <limits.h>

#include "elf/build_id.h"

/* Append-only: part of the protocol between worker and parent. */
enum symbol_file_kind {
	SYMBOL_FILE_BINARY,   /* the program or library itself, or what an agent extracted of it */
	SYMBOL_FILE_DEBUG,    /* its separate debug file; name: of its .gnu_debuglink, "" if none */
	SYMBOL_FILE_ALT,      /* a file shared by several debug files (dwz) */
	SYMBOL_FILE_DWP,      /* split DWARF, all units of a binary */
	SYMBOL_FILE_DWO,      /* split DWARF, one unit */
	SYMBOL_FILE_KALLSYMS, /* the list of a kernel's symbols, as text: docs/symbols.md */
	SYMBOL_FILE_KINDS,
};
struct symbol_file_request {
	uint32_t kind;			 /* enum symbol_file_kind */
	char build_id[BUILD_ID_HEX_MAX]; /* of the file that is wanted; "" = unknown */
	char name[PATH_MAX];		 /* what the other file calls it; may be relative, "" = unknown. Not to be trusted */
};
#define SYMBOL_FILE_ANNOUNCED 1
#define SYMBOL_FILE_COMPARED  2
/* Opens a regular file for reading. The descriptor becomes the caller's. 0; or SYMBOL_FILE_ANNOUNCED: whoever sent it said that
 * it is the one of that build-id, so it need not have one, but may have no other; or SYMBOL_FILE_COMPARED: the id is its hash
 * or its Go build-id, whatever build-id it has. -ENOENT when there is none; other errors are reported and treated as -ENOENT.
 */
typedef int (*symbol_open_file)(void *context, const struct symbol_file_request *request, int *ret_fd, struct error *err);

/* Append-only: shown to people and in /metrics. What a table was made of. */
enum symbol_source {
	SYMBOL_SOURCE_DYNSYM = 1, /* exported names */
	SYMBOL_SOURCE_SYMTAB = 2,
	SYMBOL_SOURCE_MINIDEBUG = 4,
	SYMBOL_SOURCE_PCLNTAB = 8,
	SYMBOL_SOURCE_DWARF = 16,
	SYMBOL_SOURCE_KALLSYMS = 32,
};
struct symbol_build_options {
	const char *build_id; /* of the binary, goes into the table; "" = none: whatever the files are */
	symbol_open_file open_file;
	void *context;
	uint64_t table_bytes_max; /* 0 = SYMBOL_TABLE_BYTES_MAX */
};
struct symbol_build_result {
	uint32_t sources;		   /* enum symbol_source */
	uint64_t table_bytes, input_bytes; /* input: of all files */
	uint64_t functions, ranges, rows;
	uint64_t units, units_damaged, units_incomplete; /* of DWARF */
	uint64_t memory_peak_bytes, cpu_ns;		 /* of the worker; 0 when built in this process */
	char problem[ERROR_MESSAGE_MAX];		 /* what is missing although the build succeeded, "" = nothing */
};
/* Writes the table to out_fd (a regular file or memfd, empty). -ENOENT when there is no file to make it of, -EINVAL when the
 * file has another build-id, -ENOEXEC, -EBADMSG, -E2BIG, -ENOMEM. In this process: for files that are trusted, and for
 * symbol/worker.h. */
int symbol_build(const struct symbol_build_options *options, int out_fd, struct symbol_build_result *ret, struct error *err);

#endif
