/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compares a chain that an unwinder found with what the instrumented program (tests/programs/unwind/shadow.h) says of itself:
 * the chain, reduced to instrumented functions, must be the one that the innermost live node in the copy of the stack proves by
 * its depth and hash. Where the chain ends too early by its own account, what there is of it must be right.
 */
#ifndef WICK_TESTS_ORACLE_TRUTH_H
#define WICK_TESTS_ORACLE_TRUTH_H

#include "tests/oracle/capture.h"

struct truth_range {
	uint64_t start, end;
	size_t function;
};
struct truth_function {
	uint64_t point;
	const char *name; /* the symbol's */
	bool handler;
};
struct truth {
	const struct space *space;
	struct truth_function *functions;
	size_t function_count;
	struct truth_range *ranges;
	size_t range_count;
};

/* Reads the instrumented functions of all files in the space; names and space must outlive it. */
void truth_read(struct truth *truth, const struct space *space);
void truth_release(struct truth *truth);

enum truth_outcome {
	TRUTH_RIGHT,	     /* complete, and the true chain */
	TRUTH_INCOMPLETE,    /* ended early by its own account, right as far as it goes */
	TRUTH_MAIN,	     /* the same, but all instrumented functions are there: only what called main() is missing */
	TRUTH_UNCHECKED,	     /* complete, but the copy of the stack holds no node to check it with */
	TRUTH_WRONG,	     /* and nothing says so */
	TRUTH_WRONG_FLAGGED, /* incomplete by its own account, or found by frame pointers, and not right */
	TRUTH_OUTCOMES,
};
extern const char *const truth_outcome_names[TRUTH_OUTCOMES];
/* *ret_why (may be NULL): what is wrong. *ret_scenario: the name of the function that the program's slice called, or "". */
enum truth_outcome truth_check(const struct truth *truth, const struct capture *capture, const struct chain *chain,
			       const char **ret_why, const char **ret_scenario);

bool truth_is_instrumented(const struct truth *truth, uint64_t ip);
/* The code at ip may be loading the registers of a landing pad: what the rules there say cannot be checked. */
bool truth_installs_context(const struct truth *truth, uint64_t ip);
/* The address of the innermost live node in the copy, or 0. */
uint64_t truth_find_node(const struct capture *capture);

#endif
