/* SPDX-License-Identifier: Apache-2.0 */
/* The file of the table of hosts: records, each of them a host's labels for a time. Layout in host_journal.c. */
#ifndef WICK_STORE_HOSTS_HOST_JOURNAL_H
#define WICK_STORE_HOSTS_HOST_JOURNAL_H

#include "base/limits.h"
#include "store/hosts.h"

#define HOST_JOURNAL_NAME      "hosts.journal"
#define HOST_JOURNAL_BYTES_MAX (4 * LIMIT_HOSTS_BYTES)

/* What a file begins with, and a record of it. */
int host_journal_begin(struct buffer *out);
int host_journal_add(struct buffer *out, const char *host, const struct labels *labels, int64_t first_ns, int64_t last_ns);

struct host_journal_result {
	uint64_t records;
	uint64_t whole_bytes;	/* to the end of the last whole record */
	uint64_t cut_bytes;	/* of a record at the end that was not written completely; it was never acknowledged */
	uint64_t damaged_bytes; /* that are no records, before others or at the end */
};
/* on_record's failures end reading. -ENOTSUP: a newer version. Damage is no failure: reading goes on at the next whole record.
 */
typedef int (*host_journal_record)(void *context, const char *host, const struct labels *labels, int64_t first_ns,
				   int64_t last_ns, struct error *err);
int host_journal_read(struct bytes file, host_journal_record on_record, void *context, struct host_journal_result *ret,
		      struct error *err);

#endif
