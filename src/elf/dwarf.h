/* SPDX-License-Identifier: Apache-2.0 */
/*
 * DWARF 2 to 5: functions, inlined calls and line tables of a file, unit by unit. Supplementary files of dwz
 * (.gnu_debugaltlink), split DWARF (.dwo, .dwp), and compressed sections (zlib, zstd, .zdebug_*) are followed.
 *
 * The input is hostile: call this in a process that may die (symbol/worker.h). What is bounded here are time and memory in
 * well-formed nonsense: cycles of abstract origins, depth of trees, number of rows.
 */
#ifndef WICK_ELF_DWARF_H
#define WICK_ELF_DWARF_H

#include "elf/code_unit.h"

#define DWARF_DEPTH_MAX	      256u		 /* of nested scopes and DIEs that are followed */
#define DWARF_ORIGINS_MAX     16u		 /* abstract origins and specifications followed from one DIE */
#define DWARF_UNIT_SCOPES_MAX (4u * 1024 * 1024) /* of one unit; more is -E2BIG */
#define DWARF_UNIT_ROWS_MAX   (16u * 1024 * 1024)
#define DWARF_ROWS_MAX	      (256u * 1024 * 1024) /* of a file */

enum dwarf_file_kind {
	DWARF_FILE_ALT, /* supplementary file of dwz; name as .gnu_debugaltlink has it, build_id its own */
	DWARF_FILE_DWP, /* name: that of the file with ".dwp" */
	DWARF_FILE_DWO, /* name: DW_AT_dwo_name, joined with comp_dir when relative */
};
struct dwarf_options {
	const char *name; /* of the file, for messages */
	/* Opens another file for reading; the descriptor becomes the reader's. -ENOENT when there is none, which costs what it
	 * holds, no more. build_id: lower-case hex, "" = unknown. NULL = no other files. */
	int (*open_file)(void *context, enum dwarf_file_kind kind, const char *name, const char *build_id, int *ret_fd);
	void *context;
};
struct dwarf_result {
	uint64_t units, scopes, ranges, rows;
	uint64_t line_rows_read;	 /* before repeated ones were joined */
	uint64_t units_damaged;		 /* left out */
	uint64_t units_incomplete;	 /* whose .dwo or supplementary file could not be had */
	char problem[ERROR_MESSAGE_MAX]; /* the first of those, "" = none */
};
/*
 * Hands each unit that has code to the sink. fd: an ELF file with debug sections, a regular file; stays the caller's. Errors:
 * -ENOENT when there is no DWARF in it, -ENOTSUP when it is an object file (.o, .ko) that is not linked, -EBADMSG when nothing
 * of it can be read, -E2BIG past the limits above, -ENOMEM, and those of the sink. A damaged unit is left out and counted.
 */
int dwarf_read(int fd, const struct dwarf_options *options, code_unit_sink sink, void *sink_context, struct dwarf_result *ret,
	       struct error *err);

#endif
