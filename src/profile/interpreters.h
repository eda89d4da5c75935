/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Interpreters within stacks.
 *
 * Where functions of Python stand in a stack, the native frames of the interpreter stand there as well: the loop that runs
 * each run of them, right inside of it, and what starts the interpreter, calls from it and calls it back. To a person who reads
 * the profile of a Python program they are noise, so what people look at leaves them out unless they ask; files keep them.
 *
 * They are recognized by their binary, for a stripped interpreter has no names: in a stack, the binary of a native frame that
 * an interpreted frame calls is an interpreter, and all native frames of it in that stack are its internals. Extension
 * modules, the C library and the kernel are other binaries and stay, and so do the stacks that run no interpreted function.
 *
 * Where callers are missing, a mark stands between interpreted functions and native frames. What follows it is an interpreter
 * if it is one in other stacks, of functions of the same runtime.
 *
 * What makes this right is that the loop's frame is there, inside of each run. Other profilers leave it out, and so did whoever
 * hid it before: there, what an interpreted function calls is the C library or an extension. Samples tell: with the loop none
 * ends in an interpreted function. Functions of a mapping in which one does are taken to be without it, and nothing is hidden
 * for them. A profile whose internals are hidden, and that has no such sample, would lose more the second time.
 */
#ifndef WICK_PROFILE_INTERPRETERS_H
#define WICK_PROFILE_INTERPRETERS_H

#include "profile/profile.h"

/*
 * Leaves the internals of interpreters out of the stacks, in place, once: their values stay with their callers. Samples that
 * have become equal stay apart until profile_aggregate(). *ret_changed: a sample has another stack now. A profile without
 * interpreted frames costs a look at its locations. 0, -ENOMEM or -E2BIG; the samples are as before after a failure.
 */
int profile_hide_interpreters(struct profile *profile, bool *ret_changed, struct error *err);

#endif
