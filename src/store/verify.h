/* SPDX-License-Identifier: Apache-2.0 */
/* Whether a store's files are what was once written: every byte of every block and of the log is read and compared to its
 * checksum. Queries check only what they read, so damage to data that nobody asks for is found here first. */
#ifndef WICK_STORE_VERIFY_H
#define WICK_STORE_VERIFY_H

#include <stdbool.h>
#include <stdint.h>

#include "base/cancel.h"
#include "base/error.h"

struct store_verify_options {
	const char *directory; /* of the store: holds blocks/ and log/ */
	/* Called for each damage found, with a sentence that names the file. NULL allowed. */
	void (*on_problem)(void *context, const char *message);
	void *context;
	const atomic_bool *cancel; /* polled between files; -ECANCELED when it becomes true; NULL = never */
};
struct store_verify_result {
	uint64_t blocks, files, bytes;				  /* of blocks, looked at */
	uint64_t log_bytes, records;				  /* of the log */
	uint64_t log_lost_records, log_lost_bytes, log_lost_rows; /* of the log: damaged or missing; rows that refer to them */
	/* The end of the log, inside a record, that a start would cut off; how long the record would have been (0 = not
	 * known). It was never acknowledged, and is no problem */
	uint64_t log_cut_bytes, log_cut_record_bytes;
	uint64_t host_records; /* of the table of hosts */
	uint64_t problems;
	uint64_t set_aside; /* things in quarantine/, from earlier */
	/* Another process has the store open. Its blocks are checked (one that is replaced meanwhile is passed over), its log
	 * is not, since it changes. */
	bool is_in_use;
};
/*
 * Nothing is changed: what is damaged stays where it is, a torn end of the log is not cut off. Returns 0 also when there are
 * problems, -ENOENT if the directory holds no store, -ENOTSUP when something is of a newer version, else what kept it from
 * reading.
 */
int store_verify(const struct store_verify_options *options, struct store_verify_result *ret, struct error *err);

#endif
