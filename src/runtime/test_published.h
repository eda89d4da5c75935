/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For tests: the start of _PyRuntime (struct _Py_DebugOffsets) behind its cookie, word by word. 3.13 is what 3.13.0 for x86-64
 * holds. 3.14 has the order of that version's header; its values tell the members apart.
 */
#ifndef WICK_RUNTIME_TEST_PUBLISHED_H
#define WICK_RUNTIME_TEST_PUBLISHED_H

#include <stdint.h>
#include <string.h>

#define TEST_PUBLISHED_WORDS 96

static const uint64_t test_published_3_13[TEST_PUBLISHED_WORDS - 1] = {
	0x030d00f0, 0, /* version, free_threaded */
	/* runtime_state: size, finalizing, interpreters_head */
	283320, 608, 632,
	/* interpreter_state: size, id, next, threads_head, gc, imports_modules, sysdict, builtins, ceval_gil,
	 * gil_runtime_state, _enabled, _locked, _holder */
	194968, 7272, 7264, 7344, 7400, 7656, 7640, 7648, 16, 7752, 0, 7768, 7760,
	/* thread_state: size, prev, next, interp, current_frame, thread_id, native_thread_id, datastack_chunk, status */
	304, 0, 8, 16, 72, 152, 160, 232, 32,
	/* interpreter_frame: size, previous, executable, instr_ptr, localsplus, owner */
	80, 8, 0, 56, 72, 70,
	/* code_object: size, filename, name, qualname, linetable, firstlineno, argcount, localsplusnames, localspluskinds,
	 * co_code_adaptive */
	208, 112, 120, 128, 136, 68, 52, 96, 104, 200,
	/* pyobject: size, ob_type; type_object: size, tp_name, tp_repr, tp_flags */
	16, 8, 416, 24, 88, 168,
	/* tuple, list, dict: size and two members; float: size, ob_fval; long: size, lv_tag, ob_digit */
	32, 24, 16, 40, 24, 16, 48, 32, 40, 24, 16, 32, 16, 24,
	/* bytes_object: size, ob_size, ob_sval; unicode_object: size, state, length, asciiobject_size */
	40, 16, 32, 64, 32, 16, 40};

static const uint64_t test_published_3_14[TEST_PUBLISHED_WORDS - 1] = {
	0x030e00f0, 0, /* version, free_threaded */
	/* runtime_state: size, finalizing, interpreters_head */
	1001, 1002, 808,
	/* interpreter_state: size, id, next, threads_head, threads_main, gc, imports_modules, sysdict, builtins, ceval_gil,
	 * gil_runtime_state, _enabled, _locked, _holder, code_object_generation, tlbc_generation */
	2001, 2002, 7280, 7360, 2003, 2004, 2005, 2006, 2007, 24, 2008, 2009, 2010, 2011, 2012, 2013,
	/* thread_state: size, prev, next, interp, current_frame, thread_id, native_thread_id, datastack_chunk, status */
	3001, 3002, 8, 16, 72, 168, 3003, 3004, 3005,
	/* interpreter_frame: size, previous, executable, instr_ptr, localsplus, owner, stackpointer, tlbc_index */
	4001, 8, 0, 56, 4002, 74, 4003, 4004,
	/* code_object: size, filename, name, qualname, linetable, firstlineno, argcount, localsplusnames, localspluskinds,
	 * co_code_adaptive, co_tlbc */
	5001, 112, 120, 128, 136, 68, 5002, 5003, 5004, 216, 5005,
	/* pyobject: size, ob_type; type_object: size, tp_name, tp_repr, tp_flags */
	6001, 8, 6002, 24, 6003, 6004,
	/* tuple, list: size and two members; set: size and three; dict: size and two; float: size, ob_fval; long: size, lv_tag,
	 * ob_digit */
	6005, 6006, 6007, 6008, 6009, 6010, 6011, 6012, 6013, 6014, 6015, 6016, 6017, 6018, 6019, 6020, 6021, 6022,
	/* bytes_object: size, ob_size, ob_sval; unicode_object: size, state, length, asciiobject_size */
	6023, 16, 32, 6024, 36, 16, 40};

/* Words in the structs above that tests change. */
enum test_published_word {
	TEST_PUBLISHED_VERSION = 1,
	TEST_PUBLISHED_FREE_THREADED = 2,
	TEST_PUBLISHED_3_13_INTERPRETERS = 5,
	TEST_PUBLISHED_3_13_NEXT = 8,
	TEST_PUBLISHED_3_13_THREADS = 9,
	TEST_PUBLISHED_3_13_FRAME = 23,
	TEST_PUBLISHED_3_13_THREAD_ID = 24,
	TEST_PUBLISHED_3_13_PREVIOUS = 29,
	TEST_PUBLISHED_3_13_EXECUTABLE = 30,
	TEST_PUBLISHED_3_13_INSTR = 31,
	TEST_PUBLISHED_3_13_OWNER = 33,
	TEST_PUBLISHED_3_13_FILE = 35,
	TEST_PUBLISHED_3_13_NAME = 36,
	TEST_PUBLISHED_3_13_QUALNAME = 37,
	TEST_PUBLISHED_3_13_LINES = 38,
	TEST_PUBLISHED_3_13_FIRST_LINE = 39,
	TEST_PUBLISHED_3_13_CODE = 43,
	TEST_PUBLISHED_3_13_TYPE = 45,
	TEST_PUBLISHED_3_13_ASCII = 70,
};

static inline void test_published_fill(const uint64_t *from, uint64_t *ret)
{
	memcpy(ret, "xdebugpy", 8);
	memcpy(ret + 1, from, (TEST_PUBLISHED_WORDS - 1) * sizeof(*ret));
}

#endif
