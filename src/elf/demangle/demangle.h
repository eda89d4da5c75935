/* SPDX-License-Identifier: Apache-2.0 */
/* Names as people wrote them: C++ (Itanium ABI), Rust (legacy and v0), D, Swift (4.0 and later), OCaml, Go (whose symbols
 * escape dots in import paths). */
#ifndef WICK_ELF_DEMANGLE_H
#define WICK_ELF_DEMANGLE_H

#include "base/buffer.h"

#define DEMANGLE_INPUT_MAX  4096u  /* longer names stay as they are */
#define DEMANGLE_OUTPUT_MAX 32768u /* names that would become longer stay as they are */

/*
 * Appends the readable form of a symbol's name to `out`. C++ with parameters; the hash of legacy Rust names
 * ("::h0123456789abcdef") is dropped; the suffixes of compiler-made copies become "[clone .cold]". Swift as swift-demangle
 * writes it; OCaml keeps its numbers
 * ("Stdlib.List.map_256"), as in perf.
 *
 * Returns 1 when it did, 0 when the name is not mangled, is damaged, or passes a limit (out unchanged then), -ENOMEM or -E2BIG
 * when `out` cannot take it. Thread-safe. Needs up to 2 MiB of stack for the worst name.
 */
int demangle_symbol(const char *name, struct buffer *out);
/*
 * Appends the short form of a readable name to `out`: without return type, parameters, template and type arguments, ABI tags
 * and "[clone .cold]": "std::vector<int, std::allocator<int> >::push_back(int&&)" becomes "std::vector::push_back". Names of
 * operators, lambdas, anonymous namespaces and "<Type as Trait>::method" stay names. A name that cannot be understood is
 * appended as it is. For names of C++, Rust, D, Swift, OCaml, Go and C; others may hold spaces that mean something else. 0,
 * -ENOMEM or -E2BIG (out unchanged then).
 */
int demangle_short(const char *full, struct buffer *out);

#endif
