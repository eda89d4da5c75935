/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The formats from before pprof's protocol buffers: those of gperftools (CPU, heap, growth, contention, threads), of Go's
 * /debug/pprof/NAME?debug=1, and of Google's Java agent. Essay at the top of legacy.c.
 */
#ifndef WICK_FORMAT_LEGACY_LEGACY_H
#define WICK_FORMAT_LEGACY_LEGACY_H

#include "format/format.h"

/* Whether it looks like one of them; which, for messages: "CPU", "heap" ... NULL = it is none. */
const char *legacy_kind(struct bytes input);
/* -EBADMSG malformed, -E2BIG past a limit. */
int legacy_decode(struct bytes input, const struct format_options *options, struct profile **ret, struct error *err);

#endif
