/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Private to src/agent: what is known of the code that one process makes at run time (JIT compilers, trampolines): rules for
 * instructions that its threads were found at or return to (elf/code/live_code.h), and the tables that tell the kernel side.
 *
 * Such code moves and is replaced. So each rule carries a check of the code around its instruction, and each piece of code that
 * was gone through is remembered by a hash: live_rules_verify() drops what has changed.
 */
#ifndef WICK_AGENT_UNWIND_LIVE_RULES_H
#define WICK_AGENT_UNWIND_LIVE_RULES_H

#include "agent/unwind/unwind_tables.h"
#include "elf/code/live_code.h"

#define LIVE_RULES_MAX	   32768u	 /* of a process; then all are forgotten, and those in use found again */
#define LIVE_RULES_ALL_MAX 98304u	 /* of all */
#define LIVE_AREAS_MAX	   32u		 /* mappings of a process that have a table */
#define LIVE_SPAN_MAX	   (64ull << 20) /* of the mapping, from the first rule on: the table's index is 1/64 of it */

/* Of all processes. Nothing of it is the rules' own. */
struct live_budget {
	struct unwind_tables *tables;
	size_t rows;		 /* now */
	uint64_t found, dropped; /* pieces of code gone through; found to be others by now, or forgotten for lack of room */
};

struct live_rules;
/* budget and its tables must outlive it. */
int live_rules_new(struct live_budget *budget, struct live_rules **ret);
struct live_rules *live_rules_free(struct live_rules *rules);
DEFINE_CLEANUP_POINTER(live_rules_free, struct live_rules);

/* The rule of the instruction that begins at the address, and the check of its code; NULL if it is not known. Valid until the
 * next call that changes something. */
const struct unwind_rule *live_rules_find(const struct live_rules *rules, uint64_t address, uint16_t *ret_check);
/* Of the 16 bytes at a multiple of 16 around it: bpf/walk.h, walk_check(). */
uint16_t live_rules_check(const uint8_t *bytes);
/*
 * Adds what was found in the code at [address, address + bytes); the address is a multiple of 16. Rules that are known stay.
 * Returns 0 or -ENOMEM.
 */
int live_rules_add(struct live_rules *rules, uint64_t address, const uint8_t *code, size_t bytes,
		   const struct live_code *found);
/* Drops all rules of addresses in the range. */
void live_rules_drop(struct live_rules *rules, uint64_t start, uint64_t end);

/* Reads the process's memory; false if it cannot. */
typedef bool live_read_function(void *context, void *to, size_t bytes, uint64_t address);
typedef void live_change_function(void *context, uint64_t start, uint64_t end);
/*
 * Reads again all code that rules were found in, and drops those of what has changed, and calls on_change for them. Where calls
 * lead, and constants that are loaded, may change: they are patched in all the time. Returns 0 or -ENOMEM.
 */
int live_rules_verify(struct live_rules *rules, live_read_function *read, live_change_function *on_change, void *context);

/*
 * The slot of the table for the mapping at [start, end): UNWIND_SLOT_JIT as long as nothing is known of it, or there is no
 * room. Writes the table if rules have changed since it was written.
 */
uint32_t live_rules_slot(struct live_rules *rules, uint64_t start, uint64_t end);
/* Writes the tables of mappings that have one. Positive if a mapping with rules has none yet. */
int live_rules_publish(struct live_rules *rules);
/* Whether there is something to write. */
bool live_rules_are_new(const struct live_rules *rules);
/* Of pieces of code and rules, for tests and metrics. */
size_t live_rules_count(const struct live_rules *rules, size_t *ret_pieces);
/* The image of a table for the mapping (bpf/unwind.h); empty without rules there. For tests, too. */
int live_rules_image(const struct live_rules *rules, uint64_t start, uint64_t end, struct buffer *ret);

#endif
