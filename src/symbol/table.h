/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is known of one binary in the form that answers fastest: a file that is mapped and searched. Layout and rules at the top
 * of table.c; how one is made: table_write.h. A table does not change once it is made; reading from several threads is fine.
 */
#ifndef WICK_SYMBOL_TABLE_H
#define WICK_SYMBOL_TABLE_H

#include <stdbool.h>

#include "base/buffer.h"
#include "base/error.h"
#include "base/limits.h"
#include "symbol/symbol.h"

#define SYMBOL_TABLE_BYTES_MAX	  (2 * GIB)
#define SYMBOL_TABLE_SEGMENTS_MAX 64u
#define SYMBOL_TABLE_BUILD_ID_MAX 136
#define SYMBOL_TABLE_VERSION	  4u
#define SYMBOL_TABLE_BLOCK_ROWS	  32u
#define SYMBOL_TABLE_DEPTH_MAX	  256u	     /* scopes in each other, the function's own among them */
#define SYMBOL_TABLE_BEGINS	  (1u << 31) /* in symbols_at: the symbol begins with this range */

enum symbol_table_flags {
	SYMBOL_TABLE_NO_OFFSETS = 1, /* made from a separate debug file alone, which does not know the binary's file offsets */
	SYMBOL_TABLE_KERNEL = 2,     /* file offsets count from the kernel's _stext, which is at `kernel` */
	SYMBOL_TABLE_INCOMPLETE = 4, /* another file holds part of the debug information, and could not be had */
};

/* The parts of a file, in this order, each aligned to 8 bytes; all little-endian. */
struct symbol_table_header {
	char magic[8];
	uint64_t checksum; /* XXH3-64 of all that follows it */
	uint32_t version, flags;
	uint64_t length; /* of the file */
	uint64_t base;	 /* addresses below count from here */
	uint64_t kernel;
	uint32_t sources; /* enum symbol_source */
	uint32_t segment_count, range_count, scope_count, function_count, file_count, block_count;
	uint32_t machine; /* EM_*; 0 = unknown */
	uint64_t rows_len, strings_len;
	char build_id[SYMBOL_TABLE_BUILD_ID_MAX]; /* hex, padded with NULs */
};
struct symbol_table_segment {
	uint64_t offset, size, address;
};
struct symbol_table_scope {
	uint32_t parent; /* before this one; CODE_NONE = a function */
	uint32_t function;
	uint32_t call_file, call_line, call_column; /* file 0 = unknown */
};
struct symbol_table_function {
	uint32_t name; /* mangled if it was */
	uint32_t file, line;
	uint32_t language;
};

struct symbol_table {
	const uint8_t *image; /* mapped */
	size_t len;
	unsigned guard; /* table_guard.h */
	const struct symbol_table_header *header;
	const struct symbol_table_segment *segments;
	const uint32_t *starts, *scopes_at, *symbols_at; /* by range; symbols_at: | SYMBOL_TABLE_BEGINS */
	const struct symbol_table_scope *scopes;
	const struct symbol_table_function *functions;
	const uint32_t *files;			 /* -> strings; [0] = "" */
	const uint32_t *block_starts, *block_at; /* -> rows */
	const uint8_t *rows;
	const char *strings; /* [0] = "" */
};

/* Maps the file behind fd (the caller's), which nobody may change, and checks all of it: a lookup trusts it. -EBADMSG when
 * anything is off. build_id NULL: whatever it says. */
int symbol_table_open(int fd, const char *name, const char *build_id, struct symbol_table **ret, struct error *err);
/* The same of a file whose first `length` bytes are the table. */
int symbol_table_open_part(int fd, uint64_t length, const char *name, const char *build_id, struct symbol_table **ret,
			   struct error *err);
struct symbol_table *symbol_table_free(struct symbol_table *table);
/* Its file was cut short, or cannot be read any more: answers lack things. */
bool symbol_table_is_broken(const struct symbol_table *table);

static inline uint32_t symbol_table_flags(const struct symbol_table *table)
{
	return table->header->flags;
}
static inline uint32_t symbol_table_sources(const struct symbol_table *table)
{
	return table->header->sources;
}

/* Do offsets from _stext find something in it? */
static inline bool symbol_table_names_kernel(const struct symbol_table_header *header)
{
	return header->kernel || (header->flags & SYMBOL_TABLE_KERNEL);
}

/* The address as linked of a file offset; false outside of what is executed, and always with SYMBOL_TABLE_NO_OFFSETS. */
bool symbol_table_offset_to_address(const struct symbol_table *table, uint64_t offset, uint64_t *ret);
bool symbol_table_address_to_offset(const struct symbol_table *table, uint64_t address, uint64_t *ret);
/* The same for an address in a mapping [start, limit), for tables without offsets: known if the mapping has the size of exactly
 * one segment that is executed, and so is that segment; and if the address itself is one of the table's code, as it is of a
 * program that is not position-independent, and in mappings that give linked addresses (OpenTelemetry's profiler). What is
 * position-independent is loaded far above where it was linked. */
bool symbol_table_mapped_to_address(const struct symbol_table *table, uint64_t start, uint64_t limit, uint64_t address,
				    uint64_t *ret);
/* The same for a kernel's frame, whose offset counts from _stext whatever file the table is of; false where that has none. */
bool symbol_table_kernel_to_address(const struct symbol_table *table, uint64_t offset, uint64_t *ret);
/* The range that holds an address as linked; CODE_NONE = nothing is known of it. */
uint32_t symbol_table_find(const struct symbol_table *table, uint64_t address);
/* The frames at an address in a range, innermost first. Returns how many, at most max; ret may be NULL if max is 0. */
size_t symbol_table_frames(const struct symbol_table *table, uint64_t address, uint32_t range, struct symbol_frame *ret,
			   size_t max);
/* The bounds of the function of a range: of the ranges around it of its symbol, or, where it has none, its outermost scope. */
void symbol_table_bounds(const struct symbol_table *table, uint32_t range, uint64_t *ret_start, uint64_t *ret_end);

#endif
