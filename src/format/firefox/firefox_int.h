/* SPDX-License-Identifier: Apache-2.0 */
/* Private to the Firefox Profiler format: what its files are made of, and what of a profile becomes what of them. */
#ifndef WICK_FORMAT_FIREFOX_FIREFOX_INT_H
#define WICK_FORMAT_FIREFOX_FIREFOX_INT_H

#include "base/intern.h"
#include "base/map.h"
#include "codec/json.h"
#include "format/firefox/firefox_ids.h"
#include "format/format_int.h"

#define FIREFOX_READ_FIRST     41 /* since then, libs are of the profile and not of its threads */
#define FIREFOX_ANNOTATE_FIRST 49
#define FIREFOX_WRITE_FIRST    60
#define FIREFOX_DEFAULT	       60
#define FIREFOX_LAST	       75

/* The versions that change what a table looks like. */
#define FIREFOX_SHARED_STRINGS	 56 /* one stringArray, not one a thread */
#define FIREFOX_SOURCES		 58 /* funcTable.source, not .fileName */
#define FIREFOX_SHARED_TABLES	 60 /* one of each table, not one a thread */
#define FIREFOX_SOURCE_STARTS	 61 /* sources.id, not .uuid; startLine, startColumn, sourceMapURL */
#define FIREFOX_SOURCE_LOCATIONS 64 /* sourceLocationTable, originalLocation */
#define FIREFOX_PREFIX_OFFSETS	 66 /* stackTable.prefixOffset, not .prefix */
#define FIREFOX_FRAME_LIBS	 70 /* frameTable.lib, not resourceTable.lib */
#define FIREFOX_FRAME_FLAGS	 71 /* frameTable.flags; no null in a column, no inlineDepth */
#define FIREFOX_SYMBOL_SIZES	 74 /* nativeSymbols.functionSize -1 = unknown, not null */
#define FIREFOX_FUNC_FLAGS	 75 /* funcTable.flags; no isJS, relevantForJS */

enum firefox_frame_flags {
	FIREFOX_FRAME_IS_INLINED = 1,
	FIREFOX_FRAME_HAS_ADDRESS = 2, /* and lib */
	FIREFOX_FRAME_HAS_CATEGORY = 4,
	FIREFOX_FRAME_HAS_SYMBOL = 8,
	FIREFOX_FRAME_HAS_LINE = 16,
	FIREFOX_FRAME_HAS_COLUMN = 32,
	FIREFOX_FRAME_HAS_ORIGINAL = 64,
};
enum firefox_func_flags {
	FIREFOX_FUNC_IS_JS = 1,
	FIREFOX_FUNC_IS_FOR_JS = 2,
	FIREFOX_FUNC_HAS_RESOURCE = 4,
	FIREFOX_FUNC_HAS_SOURCE = 8,
	FIREFOX_FUNC_HAS_LINE = 16,
	FIREFOX_FUNC_HAS_COLUMN = 32,
	FIREFOX_FUNC_HAS_ORIGINAL = 64,
};

/* Categories that are written, at the place of their frame type. */
struct firefox_category {
	const char *name, *color;
};
extern const struct firefox_category firefox_categories[];
#define FIREFOX_CATEGORIES 5

#define FIREFOX_NONE UINT32_MAX

/* Where the format wants the pid of a process that is not known; numbers all mean one, 0 too. */
#define FIREFOX_NO_PID "unknown"

/* What of a command line is written: bytes that are no UTF-8 become three of them. */
#define FIREFOX_ARGUMENTS_MAX (512u * 1024)

/* In a marker's data: a span of its process, and not of its thread alone. */
#define FIREFOX_OF_PROCESS_KEY "ofProcess"

/* ---- firefox_tables.c: a profile's frames and functions as the format has them ---- */

/* A row of frameTable: one function at one address; those of a location are outermost first, one behind the other. */
struct firefox_frame {
	uint32_t location, func;
	uint32_t line;	/* of the profile's lines; FIREFOX_NONE = the location has none */
	uint32_t depth; /* 0 = the function that the others are inlined into */
};
/* A row of funcTable: what is added up. */
struct firefox_func {
	uint32_t name;	 /* of the texts */
	uint32_t source; /* string of the profile; 0 = unknown */
	uint32_t lib;	 /* FIREFOX_NONE = none */
	int64_t start_line;
	uint64_t address; /* the lowest at which it is seen as the outermost function; of its native symbol */
	uint32_t symbol;  /* FIREFOX_NONE = it is never outermost in a lib */
};
struct firefox_tables {
	const struct profile *profile;
	struct firefox_frame *frames;
	size_t frame_count, frame_capacity;
	uint32_t *first_frame; /* by location */
	uint32_t *first_rows;  /* of every FIREFOX_STACKS_A_ROW-th stack: the first of its rows in stackTable */
	size_t stack_rows;
	struct firefox_func *funcs;
	size_t func_count, func_capacity;
	struct index32 func_index;
	uint32_t *libs; /* a mapping of each */
	size_t lib_count, lib_capacity;
	uint32_t *lib_of_mapping;
	uint32_t *symbols; /* functions that have one */
	size_t symbol_count, symbol_capacity;
	uint32_t *sources; /* strings of the profile */
	size_t source_count, source_capacity;
	uint32_t *source_of_string; /* 0 = not one, else the source + 1 */
	struct intern texts;	    /* stringArray */
};
int firefox_tables_build(const struct profile *profile, struct firefox_tables *tables, struct error *err);
void firefox_tables_release(struct firefox_tables *tables);
/* How many frames a location is. */
size_t firefox_frames_of(const struct firefox_tables *tables, uint32_t location);
/* The first row of a stack in stackTable; it has as many as its location has frames. */
#define FIREFOX_STACKS_A_ROW 16u
uint32_t firefox_first_row(const struct firefox_tables *tables, uint32_t stack);
/* Relative to its file; false if that is not known or beyond 32 bits, which the format cannot hold. */
bool firefox_address(const struct firefox_tables *tables, uint32_t location, uint64_t *ret);
/* The lib of a location, or FIREFOX_NONE. */
uint32_t firefox_lib(const struct firefox_tables *tables, uint32_t location);

/* The section "Hosts" of meta.extra, for people; nothing if no clock was compared. */
void firefox_put_host_section(const struct profile *profile, struct json_writer *json);
/* The members of meta that tell of the machine and of what was recorded, if all is of one host; what they say of the product,
 * or nothing. */
void firefox_put_machine(const struct profile *profile, struct json_writer *json);
struct bytes firefox_product(const struct profile *profile);
/* The members of meta.wick, for firefox_read_hosts(). */
void firefox_put_hosts(const struct profile *profile, bool has_several, struct json_writer *json);

int firefox_write(const struct profile *profile, const struct format_options *options, struct format_sink *sink,
		  struct error *err);
int firefox_decode(struct bytes input, const struct format_options *options, struct profile **ret, struct error *err);

#endif
