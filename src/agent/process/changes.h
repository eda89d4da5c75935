/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Private to src/agent: where the addresses of a process have come to mean something else, and since which of its versions
 * (process->version).
 *
 * A sample says by which version of the mappings it was walked. If that is not the current one, only what lies in ranges that
 * changed since is in doubt: the rule and the mapping of any other frame were the same ones. So a program that loads and
 * unloads plugins all the time is in doubt in its plugins, for a moment, and nowhere else.
 *
 * Ranges are few and get coarser rather than more: those that touch are joined, and beyond MAPPING_CHANGES_MAX the nearest two
 * are. This puts more in doubt than is, never less.
 */
#ifndef WICK_AGENT_PROCESS_CHANGES_H
#define WICK_AGENT_PROCESS_CHANGES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MAPPING_CHANGES_MAX 32u

struct mapping_change {
	uint64_t start, end;
	uint32_t version; /* the first with the new meaning */
};
/* Sorted by start, apart from each other. Shared by processes that forked from each other, until one of them changes it. */
struct mapping_changes {
	uint32_t references;
	uint32_t count;
	struct mapping_change items[MAPPING_CHANGES_MAX + 1]; /* one more while two are being joined */
};

/* Versions are given out one after the other, and may wrap around. */
static inline bool version_is_after(uint32_t version, uint32_t other)
{
	return (int32_t)(version - other) > 0;
}

/* [start, end) means something else from `version` on, which is later than all before. No walk by a version up to `settled` is
 * to come any more. *changes may be NULL (none) or shared. 0 or -ENOMEM, after which it is as it was. */
int mapping_changes_add(struct mapping_changes **changes, uint64_t start, uint64_t end, uint32_t version, uint32_t settled);
/* Whether the address means something else now than it did in `version`. NULL allowed. */
bool mapping_changes_since(const struct mapping_changes *changes, uint32_t version, uint64_t address);
struct mapping_changes *mapping_changes_ref(struct mapping_changes *changes);	/* NULL allowed; returns it */
struct mapping_changes *mapping_changes_unref(struct mapping_changes *changes); /* NULL allowed; returns NULL */

#endif
