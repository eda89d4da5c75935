/* SPDX-License-Identifier: Apache-2.0 */
/* Repairing the blocks of a store that no process has open: what can be had of damaged ones, and of those in the quarantine. */
#ifndef WICK_STORE_REPAIR_H
#define WICK_STORE_REPAIR_H

#include <stdbool.h>
#include <stdint.h>

#include "base/cancel.h"
#include "base/error.h"

enum store_repair_outcome {
	STORE_REPAIR_WHOLE,	/* nothing was damaged, or flipped bits only: all of it is as it was written */
	STORE_REPAIR_REWRITTEN, /* a new block has what could be read */
	STORE_REPAIR_FAILED,	/* nothing can be read; the block is in the quarantine */
	STORE_REPAIR_REPLACED,	/* of the quarantine: another block has all of it */
};
/* What was done with one block, or, in a dry run, would be. */
struct store_repair_block {
	const char *name;
	bool was_set_aside; /* it was in the quarantine; all that is not in the quarantine now is in use again */
	enum store_repair_outcome outcome;
	const char *why;	/* of a failure */
	const char *fresh_name; /* of the new block; "" in a dry run */
	uint64_t bits;		/* flipped ones, put right */
	uint64_t parts;		/* pages, indexes, files that are damaged beyond that */
	uint64_t rows_kept, rows_lost;
	uint64_t names_lost; /* rows of the tables that stacks are made of: their frames are BLOCK_DAMAGED_NAME from now on */
	int64_t lost_from_ns, lost_to_ns; /* times of the lost rows, both included; 0 if there are none */
	/* Files that were damaged, and are made again of others: names with ", " in between, "" = none */
	char rebuilt[256];
};
struct store_repair_options {
	const char *directory;							 /* of the store: holds blocks/ and log/ */
	bool dry_run;								 /* nothing is changed */
	void (*on_block)(void *context, const struct store_repair_block *block); /* each one that is damaged. NULL allowed */
	void (*on_damage)(void *context, const char *message); /* each part, with file and bytes. NULL allowed */
	/* Before each block. NULL allowed */
	void (*on_progress)(void *context, uint64_t done, uint64_t count, uint64_t bytes_done, uint64_t bytes);
	void *context;
	const atomic_bool *cancel; /* polled between blocks and while one is rewritten; -ECANCELED when it becomes true */
};
struct store_repair_result {
	uint64_t blocks, damaged;		    /* looked at; of these */
	uint64_t bits, rewritten, restored, failed; /* restored: taken out of the quarantine */
	uint64_t rows_kept, rows_lost, names_lost;  /* of damaged blocks */
	uint64_t host_bytes_lost;		    /* of the table of hosts */
};
/*
 * Returns 0 also when something could not be repaired. -EBUSY when a process has the store open, -ENOENT if the directory holds
 * no store, -ENOTSUP when something is of a newer version. What is damaged for good is kept in quarantine/repaired/, which
 * nobody looks at any more.
 */
int store_repair(const struct store_repair_options *options, struct store_repair_result *ret, struct error *err);

#endif
