/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Conditions on frames: how the language has them, turned into those of stores (store/store.h) and of matchers
 * (profile/frame_match.h); and the symbolizer as those ask it. Private to src/query.
 *
 * Names that the symbolizer found by address are remembered by binary and address, for as long as a query lasts.
 */
#ifndef WICK_QUERY_FRAMES_H
#define WICK_QUERY_FRAMES_H

#include "query/query.h"

/* The symbolizer may be NULL: then no address has a name. wait_ns: for names that are being looked up, in all; as struct
 * query.symbols_wait_ns. */
struct frame_names;
/* hide_addresses: code that is of no file has one name, whatever its address. */
int frame_names_new(struct symbolizer *symbolizer, int64_t wait_ns, bool hide_addresses, struct frame_names **ret,
		    struct error *err);
struct frame_names *frame_names_free(struct frame_names *names);
const struct frame_symbols *frame_names_symbols(const struct frame_names *names); /* lives as long */

/* -EINVAL: what no condition can say, a bad expression. */
int query_frames_check(const struct query_frames *frames, struct error *err);
/* As the store takes it: frames without negative operators, and where those went. tests has room for frames->test_count, and
 * lives as long as what is returned. */
struct store_stack_condition query_frames_condition(const struct query_frames *frames, struct frame_test *tests);
/* Compiled, for what is not read by a store. *ret_negate: as in the condition. Checks as well. */
int query_frames_compile(const struct query_frames *frames, struct frame_matcher **ret, bool *ret_negate, struct error *err);

#endif
