// SPDX-License-Identifier: Apache-2.0
/* One row a result. A new enum unwind_result needs a row here, and one in docs/metrics.md. */
#include "unwind/unwind_result.h"

static const struct result_text {
	const char *name, *meaning, *advice;
} texts[UNWIND_RESULTS] = {
	[UNWIND_COMPLETE] = {"complete", "the stack reaches its outermost frame", ""},
	[UNWIND_NO_PROCESS] = {"no_process", "the process ended before it was identified",
			       "nothing, if there are few; many mean that process events were lost (see samples lost to "
			       "\"events\")"},
	[UNWIND_NO_MAPPING] = {"no_mapping", "an address is in no known executable mapping",
			       "if these stay many, the program jumps into memory that it has unmapped since, or keeps data "
			       "where return addresses are expected"},
	[UNWIND_NO_TABLE] =
		{"no_table", "the unwind table of a binary could not be loaded in time",
		 "if these continue, the table heap is too small for what runs here, or the file can no longer be read"},
	[UNWIND_NO_RULE] =
		{"no_rule", "the binary has no unwind information for the address, nor a frame pointer there",
		 "build it with -fasynchronous-unwind-tables, or -fno-omit-frame-pointer; JIT compilers have a switch "
		 "for frame pointers (java: -XX:+PreserveFramePointer)"},
	[UNWIND_UNSUPPORTED] = {"unsupported", "the unwind information at the address has a form that is not supported",
				"build that code with -fno-omit-frame-pointer, or report it with the name of the function"},
	[UNWIND_NO_REGISTER] = {"no_register", "the caller is found through a register whose value is lost in this frame",
				"build that code with -fno-omit-frame-pointer"},
	[UNWIND_BAD_READ] = {"bad_read", "stack memory could not be read",
			     "nothing, if there are few: the stack was swapped out, or the program uses its stack pointer for "
			     "something else"},
	[UNWIND_BAD_FRAME] =
		{"bad_frame", "the caller's frame is not above its callee's",
		 "nothing, if there are few: unwind information that is wrong in places, or a program that switches "
		 "stacks"},
	[UNWIND_TOO_DEEP] = {"too_deep", "the stack has more frames than are recorded; the innermost ones are there", ""},
	[UNWIND_STACK_CUT] = {"stack_cut", "the stack is deeper than the part that was copied for a first sample",
			      "nothing: later samples of the process are walked in the kernel, without a copy"},
	[UNWIND_STALE] = {"stale", "mappings changed while the stack was walked, so frames may be wrong",
			  "nothing, if there are few: the program loads, unloads or generates code all the time"},
	[UNWIND_NO_USER] = {"no_user", "there was no user stack at that moment",
			    "nothing: kernel threads, and processes that start or end"},
	[UNWIND_ANALYSED] = {"analysed",
			     "the stack reaches its outermost frame; where code has no unwind information, the caller was "
			     "found by analysing the "
			     "code",
			     ""},
};
_Static_assert(UNWIND_RESULTS == 14, "a result needs its row");

static const struct result_text *text_of(enum unwind_result result)
{
	static const struct result_text unknown = {"unknown", "a result of a newer version", ""};
	return (unsigned)result < UNWIND_RESULTS ? &texts[result] : &unknown;
}

const char *unwind_result_name(enum unwind_result result)
{
	return text_of(result)->name;
}

const char *unwind_result_meaning(enum unwind_result result)
{
	return text_of(result)->meaning;
}

const char *unwind_result_advice(enum unwind_result result)
{
	return text_of(result)->advice;
}
