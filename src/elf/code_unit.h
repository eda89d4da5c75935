/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What debug information says about a piece of code, whatever format it came in (DWARF, Go's pclntab): the form in which
 * readers hand it to those who index it, a unit (a compile unit, or a part of one) at a time, so that memory is bounded by a
 * unit.
 *
 *   scopes  functions and calls that were inlined, a forest: a function has no parent, an inlined call has the scope that it
 *           was inlined into
 *   ranges  addresses -> the innermost scope: ascending, never empty, not overlapping, adjacent ones with equal scopes joined
 *   rows    addresses -> file, line, column: ascending; a row holds until the next one, and an `end` row ends what is known
 *   files   full paths: comp_dir and directory joined, "." and ".." as written, relative only if nothing else is known
 *
 * All strings and arrays belong to the reader and live until the sink returns.
 */
#ifndef WICK_ELF_CODE_UNIT_H
#define WICK_ELF_CODE_UNIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

#define CODE_NONE UINT32_MAX

struct code_scope {
	uint32_t parent;	  /* index of a scope before this one; CODE_NONE = a function of its own */
	const char *name;	  /* as written, "" if unknown: "push_back" */
	const char *linkage_name; /* mangled, "" if there is none */
	uint32_t file, line;	  /* of the declaration; file CODE_NONE, line 0 = unknown */
	/* Inlined calls only: where the parent calls. file CODE_NONE, line 0 = unknown. */
	uint32_t call_file, call_line, call_column;
};
struct code_range {
	uint64_t start, end; /* as linked */
	uint32_t scope;
};
struct code_row {
	uint64_t address;
	uint32_t file, line; /* file CODE_NONE = unknown; line 0 = code that no line stands for */
	uint16_t column;     /* 0 = unknown; 65535 = that or more */
	bool end;	     /* the first address behind a sequence, each has one; file and line mean nothing */
};
struct code_unit {
	const char *name;  /* of the source file, for messages; "" if unknown */
	uint16_t language; /* DW_LANG_*; 0 = unknown */
	const struct code_scope *scopes;
	const struct code_range *ranges;
	const struct code_row *rows;
	const char *const *files;
	size_t scope_count, range_count, row_count, file_count;
};

/* Takes a unit. A negative return ends the reading with it. */
typedef int (*code_unit_sink)(void *context, const struct code_unit *unit, struct error *err);

#endif
