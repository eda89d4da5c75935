/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Private to src/agent: what was read of functions of runtimes, kept by the function and its process.
 *
 * Two tables bound the memory: what is used goes to the newer one, and when that is full the older one goes.
 */
#ifndef WICK_AGENT_RUNTIME_NAMES_H
#define WICK_AGENT_RUNTIME_NAMES_H

#include "base/intern.h"

#define RUNTIME_NAMES_MAX	32768u
#define RUNTIME_NAMES_BYTES_MAX (4u << 20) /* of texts, a table */
#define RUNTIME_NAME_TEXTS	3
#define RUNTIME_NAME_NUMBERS	2

struct runtime_name_table {
	struct map64 by_key; /* -> index in items */
	struct runtime_name_entry *items;
	size_t count, capacity;
	struct intern texts;
};
struct runtime_names {
	struct runtime_name_table tables[2]; /* [0] is the newer one */
	uint64_t seed;
};
/* What is kept of a function; its runtime knows what each is. */
struct runtime_name_item {
	struct bytes texts[RUNTIME_NAME_TEXTS]; /* of a found one: NUL-terminated, valid until the next call */
	uint32_t numbers[RUNTIME_NAME_NUMBERS];
};

int runtime_names_init(struct runtime_names *names); /* 0 or -ENOMEM */
void runtime_names_release(struct runtime_names *names);
/* Of what tells a function from others: process.id, its kind, its object, its check. */
uint64_t runtime_names_key(const struct runtime_names *names, const void *data, size_t bytes);
/* 1, *ret filled; 0 if it is not known; -ENOMEM. */
int runtime_names_find(struct runtime_names *names, uint64_t key, struct runtime_name_item *ret);
/* In place of what the key had, if anything. Makes what was found before invalid. 0, -ENOMEM; -E2BIG if the texts are larger
 * than a table. */
int runtime_names_add(struct runtime_names *names, uint64_t key, const struct runtime_name_item *item);

/* Sets the second number of an item that was found or added last. */
void runtime_names_mark(struct runtime_names *names, uint64_t key, uint32_t number);

#endif
