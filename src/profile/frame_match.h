/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Conditions on frames, as data and compiled. A store that reads stacks compiles them, and so does who rewrites a profile in
 * memory.
 *
 * Stores ask once for each location of each source, so the same function is asked for very often: what a regular expression
 * said of a name is remembered by name.
 */
#ifndef WICK_PROFILE_FRAME_MATCH_H
#define WICK_PROFILE_FRAME_MATCH_H

#include "profile/pattern.h"
#include "profile/profile.h"

/* A frame: a location of a profile. Texts are "" where unknown. */
struct frame_line {
	struct bytes function, system_name, file;
	int64_t line, column;
};
struct frame {
	uint32_t frame_type; /* enum profile_frame_type */
	struct bytes binary, build_id;
	uint64_t address;		/* in the binary's file, if there is a binary */
	const struct frame_line *lines; /* the innermost inlined function first; none: ask for names by build-id and address */
	size_t line_count;
};
/* A location of a profile as a frame; lines are written to `lines`, which has room for all of them. */
void frame_of_location(const struct profile *profile, uint32_t location, struct frame_line *lines, struct frame *ret);

/* Who names the addresses of frames that have no lines. */
struct frame_symbols {
	/* What is known of a frame without lines: as frame.lines, living until the next call; *ret_count 0 = nothing. Negative:
	 * it could not be found out, and the read fails. Calls come one after the other. */
	int (*name)(void *context, const struct frame *frame, const struct frame_line **ret, size_t *ret_count);
	void *context;
};

/*
 * A comparison with a frame. Regular expressions are searched for (not anchored), since names of functions are long;
 * PATTERN_EQUAL compares whole texts, of files and binaries also the last part of the path. A function without a name has the
 * text that flame graphs show, BINARY+0xOFFSET.
 */
enum frame_field {
	FRAME_FIELD_FUNCTION, /* demangled or system name */
	FRAME_FIELD_FILE,
	FRAME_FIELD_LINE, /* in decimal digits; lines without a number match nothing */
	FRAME_FIELD_BINARY,
	FRAME_FIELD_BUILD_ID,
	FRAME_FIELD_ADDRESS, /* "0x1a2b", the offset in the binary; frames without an address match nothing */
	FRAME_FIELD_KERNEL,  /* op and text are not looked at; also a frame of unknown type in a binary "[kernel..." */
	FRAME_FIELD_USER,    /* likewise: all that are not of the kernel */
};
struct frame_test {
	enum frame_field field;
	enum pattern_operator op; /* PATTERN_EQUAL or PATTERN_REGEX */
	const char *text;	  /* NULL = "" */
};
#define FRAME_TESTS_MAX 8

/* "function", "file" ...: as queries and messages name them. */
const char *frame_field_name(enum frame_field field);
static inline bool frame_field_is_flag(enum frame_field field)
{
	return field == FRAME_FIELD_KERNEL || field == FRAME_FIELD_USER;
}

/* Tests that must all hold for one function, compiled. Not thread-safe. */
struct frame_matcher;
/* -EINVAL: none or more than FRAME_TESTS_MAX tests, another operator, a bad expression; messages begin with "query". Copies the
 * tests, but not symbols, which may be NULL: then no name is known by address. */
int frame_matcher_new(const struct frame_test *tests, size_t count, const struct frame_symbols *symbols,
		      struct frame_matcher **ret, struct error *err);
struct frame_matcher *frame_matcher_free(struct frame_matcher *matcher);
/* Whether the tests hold for one function of a frame; line NULL = a frame without lines. */
bool frame_matcher_test(struct frame_matcher *matcher, const struct frame *frame, const struct frame_line *line);
/* Which of a frame's functions match. A frame without lines counts as one function. */
enum frame_match {
	FRAME_MATCH_ANY = 1,	   /* one of them matches */
	FRAME_MATCH_INNERMOST = 2, /* the first one does */
	FRAME_MATCH_OUTERMOST = 4, /* the last one does */
};
unsigned frame_matcher_match(struct frame_matcher *matcher, const struct frame *frame);
/* What went wrong in the calls above, so that their answers are none: no memory, names that could not be found out, an
 * expression that took too long. */
int frame_matcher_failure(const struct frame_matcher *matcher, struct error *err);

/* A call site: the functions that stacks begin with, the outermost first, each by its name or its system name, inlined ones as
 * well. */
struct frame_path {
	const char *const *functions; /* not owned */
	size_t count;
	const struct frame_symbols *symbols; /* NULL allowed */
	int failure;			     /* negative afterwards: the answers are none */
	struct buffer text;		     /* scratch; buffer_release() it */
};
#define FRAME_PATH_MAX	1000u
#define FRAME_PATH_LOST UINT16_MAX
/* How many functions of the path are passed after this frame, of which `passed` (less than all) were before it;
 * FRAME_PATH_LOST: it is another way. */
unsigned frame_path_follow(struct frame_path *path, const struct frame *frame, unsigned passed);
int frame_path_failure(const struct frame_path *path, struct error *err);

#endif
