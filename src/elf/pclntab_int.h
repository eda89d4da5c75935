/* SPDX-License-Identifier: Apache-2.0 */
/* Private to src/elf: Go's table of functions, as it lies in a file. pclntab.c says how the table is laid out. */
#ifndef WICK_ELF_PCLNTAB_INT_H
#define WICK_ELF_PCLNTAB_INT_H

#include "base/limits.h"
#include "elf/pclntab.h"

#define PCLNTAB_INLINE_SECTION	 ".wick.goinline" /* in files that elf/extract.c wrote; pclntab_inline.c has its layout */
#define PCLNTAB_INLINE_BYTES_MAX (512 * MIB)
#define PCLNTAB_INLINE_CALLS_MAX (1u << 16) /* of one function */
#define PCLNTAB_MODULE_WORDS	 48	    /* of the runtime's moduledata that are looked at */
#define PCLNTAB_RELOCATIONS_MAX	 (16u * 1024 * 1024)
#define PCLNTAB_SEARCH_BYTES_MAX (2 * GIB)
#define PCLNTAB_NAME_MAX	 (16 * KIB)
#define PCLNTAB_NONE		 UINT64_MAX

enum pclntab_layout {
	PCLNTAB_1_2,
	PCLNTAB_1_16,
	PCLNTAB_1_18,
	PCLNTAB_1_20,
};

/* What reading may take. The agent has far less than a server (elf/extract.c). */
struct pclntab_limits {
	uint64_t table_bytes;  /* held at once */
	uint64_t search_bytes; /* looked at to find what has no name, of the whole file: sections may overlap */
	size_t pointers;       /* of position-independent programs */
};

/* An address in the file that the loader puts a pointer at. */
struct pclntab_pointer {
	uint64_t at, value;
};

struct pclntab {
	struct elf_file *file;
	struct pclntab_limits limits;
	uint64_t search_left; /* of limits.search_bytes */
	unsigned tries_left;  /* of places that look like a table */
	uint8_t *data;	      /* owned; one NUL stands behind it */
	size_t len;
	uint64_t address, offset; /* of data[0]: as linked, in the file */
	enum pclntab_layout layout;
	uint8_t quantum, pointer_size;
	size_t function_count, file_count;
	size_t names, units, files, pc_tables, functions; /* offsets of the parts in data */
	uint64_t text_start;				  /* what entries of 1.18 and later count from */
	uint64_t inline_base;		  /* what funcdata of 1.18 and later counts from; PCLNTAB_NONE = unknown */
	struct pclntab_pointer *pointers; /* of position-independent programs; ascending */
	size_t pointer_count, pointer_capacity;
	uint8_t *inline_data; /* the extract's section; NULL when there is none */
	size_t inline_len, *inline_at;
	uint64_t steps_left; /* of decoding pc tables, so that tables that overlap cost no more than they should */
};

struct pclntab_function {
	uint64_t start, end;
	uint32_t name;			 /* offset in the names */
	uint32_t file_table, line_table; /* offsets of pc tables; 0 = none */
	uint32_t sp_table;		 /* how far sp is below the return address */
	uint32_t inline_table;		 /* which inlined call is at a pc; 0 = none */
	uint32_t unit;			 /* index of the first file of its compile unit, 1.16 and later */
	uint32_t line;			 /* of the declaration, 1.20 and later; 0 = unknown */
	uint64_t inline_tree;		 /* address of the calls that were inlined; PCLNTAB_NONE = none */
};

/* A call that was inlined. The call itself is the instruction at start + parent_pc. */
struct pclntab_call {
	uint32_t name, parent_pc, line;
};

/* ---- pclntab_find.c ---- */
/* Finds and reads the table. Errors as pclntab_read() says. Within the limits of a server, or within others. */
int pclntab_open(struct elf_file *file, struct pclntab *ret, struct error *err);
int pclntab_open_within(struct elf_file *file, const struct pclntab_limits *limits, struct pclntab *ret, struct error *err);
void pclntab_close(struct pclntab *table);
/* Function i < function_count; false when its entry is damaged. */
bool pclntab_get_function(const struct pclntab *table, size_t i, struct pclntab_function *ret);
/* A name; NULL when the offset is damaged or the name is too long. */
const char *pclntab_get_name(const struct pclntab *table, uint32_t offset);
/* Where the last record ends, 1.16 and later: a table that was found in a larger section ends there, or soon after. */
uint64_t pclntab_end(const struct pclntab *table);
/* A little-endian number of `size` bytes (1 to 8) at data + at; the caller has checked the bounds. */
uint64_t pclntab_number(const struct pclntab *table, size_t at, size_t size);

/* Reads what the program has in memory at an address before it starts. -EBADMSG when the file has nothing there. */
int pclntab_read_memory(const struct pclntab *table, uint64_t address, void *ret, size_t len, struct error *err);

/* ---- pclntab_inline.c ---- */
/* Reads what elf_extract() noted. -ENOENT when the file has no such section. Sets text_start. */
int pclntab_load_inline(struct pclntab *table, struct error *err);
/* The first `count` calls that were inlined into function i. -EBADMSG when they lie nowhere. */
int pclntab_get_calls(const struct pclntab *table, size_t i, const struct pclntab_function *function, size_t count,
		      struct pclntab_call *ret, struct error *err);
/* Writes the section that pclntab_load_inline() reads. What is past out->max is left out: these functions have no inlined calls
 * then. */
int pclntab_write_inline(struct pclntab *table, struct buffer *out, struct error *err);
/* 1 when inline trees at `base` make sense for the functions that have one, 0 when not; errors of reading. */
int pclntab_check_inline_base(const struct pclntab *table, uint64_t base, struct error *err);

/* ---- pclntab.c ---- */
struct pclntab_step {
	uint64_t end; /* the value holds up to here, from the step before */
	int32_t value;
};
struct pclntab_steps {
	struct pclntab_step *items;
	size_t count, capacity;
};
/* Decodes the table of a function; steps are ascending and end at function->end or earlier. -EBADMSG, -ENOMEM. */
int pclntab_decode(struct pclntab *table, const struct pclntab_function *function, uint32_t offset, struct pclntab_steps *ret,
		   struct error *err);

#endif
