/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The shipper: an exporter (export/export.h) as the agent has it: the server first, then further targets, with the log as where
 * it speaks, and names for addresses made on this host for targets that cannot make them.
 */
#ifndef WICK_DAEMON_SHIPPER_H
#define WICK_DAEMON_SHIPPER_H

#include <sys/types.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "export/export.h"

struct shipper;
struct shipper_options {
	const char *url, *token; /* of the Wick server; url NULL = none, token NULL = none */
	const char *tenant;	 /* there; NULL = that without a name */
	bool url_in_memory;	 /* what waits for it is not worth a disk: it is on this machine, and ends with us */
	uint64_t spool_bytes;	 /* for the server; 0 = the default */
	int64_t spool_age_ns;
	const char *spool_directory;	     /* NULL = in memory only */
	const struct export_target *targets; /* further ones */
	size_t target_count;
	const char *cache_directory; /* of symbol tables is below it; NULL = none */
};
int shipper_new(const struct shipper_options *options, struct shipper **ret, struct error *err);
int shipper_push(struct shipper *shipper, const struct profile *profile, struct error *err);
/* A binary was seen: kept in mind where addresses need names. As agent_sink.on_binary has it. */
void shipper_see(struct shipper *shipper, const char *build_id, const char *path, int fd);
/* Sends what is left for up to timeout_ns; what is on disk stays for the next run, further ones are dropped and counted. */
void shipper_finish(struct shipper *shipper, int64_t timeout_ns);
struct shipper *shipper_free(struct shipper *shipper);
DEFINE_CLEANUP_POINTER(shipper_free, struct shipper);
/* Of each target, the server (if there is one) first. How many there are; fills at most max. */
size_t shipper_get_stats(struct shipper *shipper, struct export_stats *ret, size_t max);

#endif
