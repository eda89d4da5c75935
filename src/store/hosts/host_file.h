/* SPDX-License-Identifier: Apache-2.0 */
/* The file of a table of hosts on disk: read at the start, appended to, written anew. Not thread-safe. */
#ifndef WICK_STORE_HOSTS_HOST_FILE_H
#define WICK_STORE_HOSTS_HOST_FILE_H

#include <limits.h>

#include "store/hosts/host_journal.h"
#include "store/hosts/host_table.h"

struct host_file {
	char path[PATH_MAX];
	int fd; /* to append to; -1 = the file is to be written anew before that */
	uint64_t bytes;
	uint64_t written_bytes; /* when it was last written anew */
};

/* In the directory of a store. Nothing is opened yet. */
int host_file_init(struct host_file *file, const char *directory, struct error *err);
void host_file_release(struct host_file *file);
/* Adds what the file says to the table; a missing file is an empty one. Nothing on disk changes. ret_contents (initialised)
 * gets its bytes. Records that the table has no room for are passed over. */
int host_file_read(struct host_file *file, struct host_table *table, struct buffer *ret_contents,
		   struct host_journal_result *ret, struct error *err);
/* Reads a file without keeping what it says. */
int host_file_check(struct host_file *file, struct host_journal_result *ret, struct error *err);
/* Copies damaged contents into the quarantine, and writes the file anew with what was whole. to: the copy. */
int host_file_mend(struct host_file *file, const struct host_table *table, struct bytes contents, const char *quarantine,
		   char to[static PATH_MAX], struct error *err);
/* On disk when it returns 0. After a failure the file is written anew by the next call. `table` is as it was before. */
int host_file_append(struct host_file *file, const struct host_table *table, const char *host, const struct labels *labels,
		     int64_t time_ns, struct error *err);
int host_file_write(struct host_file *file, const struct host_table *table, struct error *err);
/* More than half of it is of the past. */
bool host_file_is_long(const struct host_file *file);

#endif
