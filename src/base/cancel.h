/* SPDX-License-Identifier: Apache-2.0 */
/* A flag that one thread raises so that what another is at ends: at the next place where it looks, with -ECANCELED or as its
 * header says. Functions take it as `const atomic_bool *cancel`; NULL = nobody raises it. */
#ifndef WICK_BASE_CANCEL_H
#define WICK_BASE_CANCEL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

static inline void cancel_request(atomic_bool *flag)
{
	atomic_store_explicit(flag, true, memory_order_relaxed);
}

static inline bool cancel_requested(const atomic_bool *cancel)
{
	return cancel && atomic_load_explicit(cancel, memory_order_relaxed);
}

#endif
