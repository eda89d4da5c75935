/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One function, looked at closely: what each of its source lines costs, and what each of its instructions costs.
 *
 * Sums are made from a merged profile with names; where the text of the source and the code of the instructions come from is
 * not known here: whoever has them hands them to the writers.
 */
#ifndef WICK_RENDER_LISTING_H
#define WICK_RENDER_LISTING_H

#include "codec/json.h"
#include "profile/profile.h"

struct listing_options {
	size_t sample_type;
	const char *function; /* a frame's name in full, its mangled name, or its short form if that is unique */
	const char *file;     /* NULL = the one that most of the function's samples are in */
	const char *build_id; /* only in this binary; NULL = in all */
};

struct listing_line {
	uint32_t line; /* 0 = unknown */
	int64_t self, total;
};
struct listing_file {
	const char *file; /* "" = unknown */
	int64_t self, total;
};
/* Texts live as long as the profile. Totals count a stack once, however often the function, or the line, is in it. */
struct listing_lines {
	const char *function;	       /* in full */
	const char *file;	       /* "" = unknown */
	const char *build_id, *binary; /* the binary in which the function costs most; binary: the path of its mapping */
	uint32_t start_line;	       /* of the function; 0 = unknown */
	char type[48], unit[32];
	int64_t self, total;	    /* of the function in this file: sums of the lines' self; total */
	int64_t profile_total;	    /* of everything that was asked for */
	struct listing_line *lines; /* by rising number; none without samples */
	struct listing_file *files; /* of functions of this name, by falling total */
	size_t line_count, file_count;
};
/* -ENOENT no such function, or not in that file or binary; -EINVAL a short form that stands for several; -ENOMEM. */
int listing_build_lines(const struct profile *profile, const struct listing_options *options, struct listing_lines *ret,
			struct error *err);
void listing_lines_release(struct listing_lines *lines);

struct listing_address {
	uint64_t offset; /* in the file; of callers, within the call instruction */
	int64_t self, total;
};
struct listing_binary {
	const char *build_id, *path;
	uint64_t start, limit, offset;	   /* of one of its mappings */
	int64_t self, total;		   /* of the addresses */
	bool inlined;			   /* only ever inlined into other functions there */
	bool kernel;			   /* frames of the kernel: offsets count from its _stext */
	struct listing_address *addresses; /* by rising offset */
	size_t address_count;
};
struct listing_addresses {
	const char *function; /* in full */
	char type[48], unit[32];
	int64_t profile_total;
	struct listing_binary *binaries; /* those with code of its own first, by falling total */
	size_t binary_count;
};
/* Addresses whose frames include the function, in all binaries or in one. options->file is not looked at. Errors as above. */
int listing_build_addresses(const struct profile *profile, const struct listing_options *options, struct listing_addresses *ret,
			    struct error *err);
/* All addresses of one binary from one offset to before another, whatever function they are in: one binary, perhaps without
 * addresses. options->function is taken for the name as it is. path matters if build_id is "". */
int listing_build_range(const struct profile *profile, const struct listing_options *options, const char *path, uint64_t from,
			uint64_t to, struct listing_addresses *ret, struct error *err);
void listing_addresses_release(struct listing_addresses *addresses);

/* ---- writing ---- */

/* The lines of a file that are shown: [first, last]. */
struct listing_source {
	const struct listing_lines *lines;
	const char *from;     /* where the text is from; "" = there is none */
	const char *why;      /* there is none; NULL otherwise */
	struct bytes text;    /* of the whole file */
	uint32_t first, last; /* 0 = the function, what has samples, and a little around it */
	uint32_t end_line;    /* the last line of the function that has code, 0 = unknown */
};
/* Members of an object: "function", "file", "build_id", "binary", "unit", "total", "self", "function_total", "from", "why",
 * "lines": [{"line", "text", "self", "total"}], "files": [{"file", "self", "total"}]. Without text, only the lines with
 * samples, and "text" is null. */
void listing_source_write_json(const struct listing_source *source, struct json_writer *json);
/* For people: self, total, number, text, a mark at lines that cost most. */
int listing_source_write_text(const struct listing_source *source, bool colour, struct buffer *out, struct error *err);

struct listing_instruction {
	uint64_t address; /* as linked */
	struct bytes bytes;
	const char *text;
	int64_t self, total;
	const char *file;	      /* "" = unknown */
	uint32_t line;		      /* 0 = unknown */
	const char *const *functions; /* innermost first */
	size_t function_count;
};
struct listing_code {
	const struct listing_addresses *addresses; /* the binaries that there are */
	size_t binary;				   /* the one shown */
	const char *symbol;			   /* what the code is called, where that is another function; "" otherwise */
	const char *from;			   /* "" = there is no code, and the instructions are addresses with samples */
	const char *why;			   /* there is none; NULL otherwise */
	int64_t self, total;			   /* of what is shown */
	const struct listing_instruction *instructions;
	size_t count;
};
/* Members: "function", "symbol", "binary", "build_id", "unit", "total", "self", "function_total", "from", "why",
 * "instructions": [{"address": "0x..", "bytes": hex, "text", "self", "total", "file", "line", "functions": [..]}],
 * "binaries": [{"binary", "build_id", "self", "total"}]. */
void listing_code_write_json(const struct listing_code *code, struct json_writer *json);
int listing_code_write_text(const struct listing_code *code, bool colour, struct buffer *out, struct error *err);

#endif
