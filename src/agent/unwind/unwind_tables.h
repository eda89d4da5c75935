/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Private to src/agent: which binary's table lies where. A binary gets a slot when a process that maps it is first told to the
 * kernel side, a table when a walk first needs it, and loses the table when the heap is full and others were used later.
 */
#ifndef WICK_AGENT_UNWIND_UNWIND_TABLES_H
#define WICK_AGENT_UNWIND_UNWIND_TABLES_H

#include "agent/sample/heap.h"
#include "unwind/unwind_table.h"

struct unwind_tables;
/* slots: UNWIND_SLOTS_MAX of them, shared with the programs, zeroed; clock: the programs' unwind_clock, advanced by
 * unwind_tables_tick(). heap, slots, clock and cache (may be NULL) must outlive it. Slot UNWIND_SLOT_JIT is set up. */
int unwind_tables_new(struct heap *heap, struct unwind_slot *slots, uint32_t *clock, struct unwind_cache *cache,
		      struct unwind_tables **ret, struct error *err);
struct unwind_tables *unwind_tables_free(struct unwind_tables *tables);
DEFINE_CLEANUP_POINTER(unwind_tables_free, struct unwind_tables);

/* A slot for a binary, UNWIND_SLOT_ABSENT, shared by all with the same key (elf/content_key.h; "" or NULL = its own slot).
 * UNWIND_SLOT_JIT when there is none left. */
uint32_t unwind_tables_slot(struct unwind_tables *tables, const char *key);
/* A slot for code that a process makes at run time, UNWIND_SLOT_LIVE and without a table. UNWIND_SLOT_JIT when there is none
 * left. */
uint32_t unwind_tables_slot_live(struct unwind_tables *tables);
/* Gives such a slot a table, in place of the one that it has; an empty image takes that away. -ENOSPC without room. */
int unwind_tables_put(struct unwind_tables *tables, uint32_t slot, const struct buffer *image);
/* Whether a slot has a table: it may have been evicted. */
bool unwind_tables_has(const struct unwind_tables *tables, uint32_t slot);
/* The binary is gone; the slot's last user releases its table. */
void unwind_tables_release(struct unwind_tables *tables, uint32_t slot);

/* Opens the file behind a slot for reading; the descriptor becomes the callee's. Negative errno if it cannot be had (now). Must
 * set *ret_key (CONTENT_KEY_HEX bytes, "" if it has none): a file of another key than the slot's is not read. */
typedef int unwind_open_function(void *context, char *ret_key);
/*
 * Makes the slot's table available: from the cache, else built from the file. Evicts others if need be. Returns the state of
 * the slot afterwards; UNWIND_SLOT_ABSENT if the file cannot be had (tried again by a later call, up to five times, then
 * FRAMES) or if the table does not fit in the heap. A damaged file becomes UNWIND_SLOT_FRAMES and is counted.
 */
enum unwind_slot_state unwind_tables_load(struct unwind_tables *tables, uint32_t slot, unwind_open_function *open,
					  void *context);
/* After this time (CLOCK_MONOTONIC; 0 = never) nothing more is loaded, and what is asked for stays ABSENT without counting as
 * tried. */
void unwind_tables_load_until(struct unwind_tables *tables, int64_t until_ns);
/* Once a flush: the clock goes on, released memory settles. */
void unwind_tables_tick(struct unwind_tables *tables);

struct unwind_tables_stats {
	uint64_t slots, loaded, bytes;			    /* now */
	uint64_t rows;					    /* of loaded tables */
	uint64_t built, cached, evicted, failed, too_large; /* since the start; cached: loaded from disk */
	uint64_t build_ns, build_ns_max;
};
void unwind_tables_get_stats(const struct unwind_tables *tables, struct unwind_tables_stats *ret);

#endif
