/* SPDX-License-Identifier: Apache-2.0 */
/* The results of walks (bpf/unwind.h) in words. */
#ifndef WICK_UNWIND_UNWIND_RESULT_H
#define WICK_UNWIND_UNWIND_RESULT_H

#include "bpf/unwind.h"

/* "complete", "no_process" ...: for metrics, never changed once published. "unknown" for numbers out of range. */
const char *unwind_result_name(enum unwind_result result);
/* What it means, a sentence without full stop for a person who does not know how unwinding works. */
const char *unwind_result_meaning(enum unwind_result result);
/* What that person can do about it; "" when there is nothing. */
const char *unwind_result_advice(enum unwind_result result);

#endif
