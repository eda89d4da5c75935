/* SPDX-License-Identifier: Apache-2.0 */
/* The table of hosts in memory. Not thread-safe; store/hosts.h says what it is for, host_table.c how it works. */
#ifndef WICK_STORE_HOSTS_HOST_TABLE_H
#define WICK_STORE_HOSTS_HOST_TABLE_H

#include "store/hosts.h"

struct host_table;
int host_table_new(struct host_table **ret, struct error *err);
struct host_table *host_table_free(struct host_table *table);
DEFINE_CLEANUP_POINTER(host_table_free, struct host_table);

/* The host had these labels from the one time to the other, both included and whole milliseconds. 0 = that was known, or it
 * merely makes the last time later; HOST_TABLE_NEWS = the table has changed; -EDQUOT = a limit (named), nothing has changed;
 * -ENOMEM. */
#define HOST_TABLE_NEWS 1
int host_table_note(struct host_table *table, const char *host, const struct labels *labels, int64_t first_ns, int64_t last_ns,
		    struct error *err);
/* What host_table_note() would return, but for -ENOMEM; nothing changes. */
int host_table_check(const struct host_table *table, const char *host, const struct labels *labels, int64_t first_ns,
		     int64_t last_ns, struct error *err);

/* Like store_read_hosts(). */
int host_table_read(const struct host_table *table, const char *const *names, size_t name_count, int64_t from_ns, int64_t to_ns,
		    store_on_host on_host, void *context, struct error *err);

/* Forgets what was only true of times before that one, and hosts that were not seen since. Returns how much that was. */
size_t host_table_forget(struct host_table *table, int64_t before_ns);

struct host_table_figures {
	size_t hosts, runs; /* runs: labels of a host for a time */
	uint64_t bytes;	    /* of memory */
	uint64_t dropped;   /* runs that went because a host had too many */
};
struct host_table_figures host_table_figures(const struct host_table *table);

#endif
