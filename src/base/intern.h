/* SPDX-License-Identifier: Apache-2.0 */
/* String interning: equal byte strings get equal dense ids. Id 0 is always "". Strings may hold any bytes; each is stored
 * NUL-terminated. Not thread-safe. */
#ifndef WICK_BASE_INTERN_H
#define WICK_BASE_INTERN_H

#include "base/arena.h"
#include "base/buffer.h"
#include "base/map.h"

struct intern {
	struct arena arena;
	struct bytes *strings; /* by id */
	size_t count, capacity;
	struct index32 index;
};

int intern_init(struct intern *table, size_t max_bytes); /* 0 or -ENOMEM; adds "" */
void intern_release(struct intern *table);
/* Room for so many strings in all; 0 or -ENOMEM. */
int intern_reserve(struct intern *table, size_t count);
/* 0, -ENOMEM, or -E2BIG past max_bytes or 2^32-2 strings. */
int intern_add(struct intern *table, const void *data, size_t len, uint32_t *ret_id);
int intern_add_string(struct intern *table, const char *text, uint32_t *ret_id);
bool intern_find(const struct intern *table, const void *data, size_t len, uint32_t *ret_id);
struct bytes intern_get(const struct intern *table, uint32_t id);   /* asserts id < count */
const char *intern_string(const struct intern *table, uint32_t id); /* the same, NUL-terminated */

#endif
