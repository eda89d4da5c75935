/* SPDX-License-Identifier: Apache-2.0 */
/* The files of a cache on disk: which there are, and which go first when it has become too large. */
#ifndef WICK_BASE_DISK_LIST_H
#define WICK_BASE_DISK_LIST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct disk_file {
	int64_t used_ns;
	uint64_t bytes;
	char *name; /* whatever the owner removes it by */
};
struct disk_list { /* begins as zeroes */
	struct disk_file *files;
	size_t count, capacity;
	uint64_t bytes; /* of all */
};
int disk_list_add(struct disk_list *list, const char *name, uint64_t bytes, int64_t used_ns); /* 0 or -ENOMEM */
void disk_list_release(struct disk_list *list);
/* Removes those that were used longest ago until `wanted` bytes are left. remove() returns whether the file is gone; one that
 * is not is passed over. Returns how many were removed; list->bytes is what is left. */
size_t disk_list_trim(struct disk_list *list, uint64_t wanted, bool (*remove)(void *context, const char *name), void *context);

#endif
