/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A directory that a user has to itself, for caches: what is in it is believed, as nobody else could have put it there. It is
 * reached through its descriptor once it is open, so that nothing on the way to it can be exchanged, and links are not followed
 * in it.
 */
#ifndef WICK_BASE_OWN_DIR_H
#define WICK_BASE_OWN_DIR_H

#include <sys/stat.h>

#include "base/buffer.h"
#include "base/disk_list.h"
#include "base/error.h"

/* Made (0700) if it is missing, but not what is above it. -EPERM when it belongs to another user than the effective one, or
 * others may write to it. what: "the table cache", for messages. Returns the descriptor. */
int own_dir_open(const char *path, const char *what, struct error *err);
/* A regular file in it that belongs to the effective user or root, and that only its owner may write: its descriptor for
 * reading. ret_stat: NULL allowed. -ENOENT when it is missing, -EPERM when it is anything else. */
int own_dir_open_file(int directory, const char *name, struct stat *ret_stat);
/* Writes the pieces into a file beside it and renames that, so that a reader sees the old file or the new one, whole; not
 * synced: who reads has a checksum. The file beside it ends in OWN_DIR_TEMPORARY, and only a crash leaves it. */
#define OWN_DIR_TEMPORARY ".tmp"
int own_dir_write_file(int directory, const char *name, const struct bytes *pieces, size_t count);
/* Adds the files that end so to the list, by the time of their last change, and removes temporary ones that a crash left. 0 or
 * a negative errno. */
int own_dir_list(int directory, const char *suffix, struct disk_list *list);

#endif
