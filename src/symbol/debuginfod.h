/* SPDX-License-Identifier: Apache-2.0 */
/*
 * debuginfod servers, through libdebuginfod, which is loaded when it is first needed and may be absent. Fetches block, for up
 * to their timeout: call them on a worker's thread. What is fetched is cached in a directory, with a limit; what is not there
 * is remembered for a while; servers that do not answer are left alone for growing times.
 */
#ifndef WICK_SYMBOL_DEBUGINFOD_H
#define WICK_SYMBOL_DEBUGINFOD_H

#include <stdbool.h>

#include "base/cancel.h"
#include "base/cleanup.h"
#include "elf/build_id.h"

struct debuginfod;
struct debuginfod_options {
	const char *urls;	 /* separated by spaces; NULL = DEBUGINFOD_URLS of the environment; "" = none */
	const char *directory;	 /* cache */
	uint64_t bytes_max;	 /* of the cache; 0 = 4 GiB */
	uint64_t file_bytes_max; /* 0 = 2 GiB */
	int64_t timeout_ns;	 /* without progress; 0 = 30 s */
	int64_t missing_ns;	 /* how long an absent file is not asked for again; 0 = 55 s, within a
				  * symbolizer's first retry */
};
/* Sets environment variables that the library reads: one at a time in a process, and before other threads are started.
 * Success with *ret NULL when there are no servers to ask. -ENOSYS when there are, but the library is not installed (the
 * message names the package). */
int debuginfod_new(const struct debuginfod_options *options, struct debuginfod **ret, struct error *err);
/* For those who only ask whether the library is there. -ENOSYS as above. Before other threads are started. */
int debuginfod_load_library(struct error *err);
struct debuginfod *debuginfod_free(struct debuginfod *debuginfod);
DEFINE_CLEANUP_POINTER(debuginfod_free, struct debuginfod);

enum debuginfod_kind { DEBUGINFOD_DEBUGINFO, DEBUGINFOD_EXECUTABLE, DEBUGINFOD_SOURCE };
/* path: of the source, NULL otherwise. cancel: polled, NULL allowed. -ENOENT no server has it (*ret_cached, NULL allowed: as
 * remembered, nobody was asked), -EBADMSG a server sent something else (the message says what), -EHOSTUNREACH no server
 * answered, -E2BIG, -ECANCELED. NULL debuginfod: -ENOENT. */
int debuginfod_fetch(struct debuginfod *debuginfod, enum debuginfod_kind kind, const char *build_id, const char *path,
		     const atomic_bool *cancel, int *ret_fd, bool *ret_cached, struct error *err);
/* Ask the servers again for that build-id, whatever is remembered. NULL debuginfod allowed. */
void debuginfod_forget(struct debuginfod *debuginfod, const char *build_id);
struct debuginfod_stats {
	uint64_t requests, found, missing, missing_cached, failures, bytes_fetched, cache_hits, cache_bytes, ns_total;
	bool library_missing;
	unsigned servers;
};
void debuginfod_get_stats(struct debuginfod *debuginfod, struct debuginfod_stats *ret);

#endif
