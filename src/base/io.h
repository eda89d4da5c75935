/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files: the few calls that durable storage is made of, each restarted on EINTR, each a place where fault injection can fail
 * the n-th call. Paths are absolute or relative to the working directory. All return 0 or a length, or a negative errno with a
 * message that names the path.
 */
#ifndef WICK_BASE_IO_H
#define WICK_BASE_IO_H

#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>

#include "base/buffer.h"
#include "base/cleanup.h"
#include "base/error.h"

/* open(2) with O_CLOEXEC; returns the descriptor. */
int io_open(const char *path, int flags, mode_t mode, struct error *err);
/* A regular file for reading, -ENOENT if it is anything else. It is looked at before it is opened: opening a pipe or a device
 * has effects. */
int io_open_regular(const char *path, struct error *err);
/* Where this process may not open or look at a file (EACCES), this is asked for a descriptor to read it by, in io_read_file()
 * and io_stat(): base/privilege/broker.h. NULL = nobody is. Set before there are threads. */
extern int (*io_open_instead)(const char *path);
int io_stat(const char *path, struct stat *ret); /* 0 or a negative errno */
int io_close(int fd);				 /* fd < 0 allowed; returns -1, so that "fd = io_close(fd)" clears */
/* Writes all. A short write on a full disk is -ENOSPC. `name` is used in messages only. */
int io_write(int fd, const void *data, size_t len, const char *name, struct error *err);
int io_pwrite(int fd, const void *data, size_t len, uint64_t offset, const char *name, struct error *err);
/* Reads up to len, returns how many (less only at the end of the file). */
ssize_t io_pread(int fd, void *data, size_t len, uint64_t offset, const char *name, struct error *err);
ssize_t io_read(int fd, void *data, size_t len, const char *name, struct error *err);
int io_sync(int fd, const char *name, struct error *err); /* fdatasync */
int io_sync_dir(const char *path, struct error *err);
int io_rename(const char *from, const char *to, struct error *err);
int io_unlink(const char *path, struct error *err);	 /* a missing file is success */
int io_remove_tree(const char *path, struct error *err); /* rm -rf: a missing path is success; links are not followed */
DIR *io_open_dir_at(int at, const char *name);		 /* a link is refused; NULL and errno on failure */
int io_make_dirs(const char *path, mode_t mode, struct error *err); /* mkdir -p */
int io_truncate(int fd, uint64_t size, const char *name, struct error *err);
int io_file_size(int fd, uint64_t *ret_size, const char *name, struct error *err);

/* Tells that a file is another one, or was changed: by renaming over it as well as in place. Links are followed. */
struct io_stamp {
	dev_t device;
	ino_t inode;
	off_t size;
	int64_t modified_ns, changed_ns;
};
struct io_stamp io_stamp_of(const char *path); /* zeros for a file that is not there, and for NULL */
bool io_stamp_equal(const struct io_stamp *a, const struct io_stamp *b);

/* Whole files. -E2BIG when the file is longer than max; /proc files work. "-" is standard input. *ret is an initialised buffer
 * (zeroed is enough): its contents are replaced, its memory is reused, its max becomes `max`; it is empty after a failure. */
int io_read_file(const char *path, size_t max, struct buffer *ret, struct error *err);
/* The beginning of a small file, such as those of /proc, with a NUL behind it; "" if it cannot be read. Its length, or a
 * negative errno. */
ssize_t io_read_text(const char *path, char *text, size_t size);
/* A password or token in a file: its first line that is not blank, without the blanks around it; may be empty. At most 16 KiB.
 */
int io_read_secret(const char *path, struct buffer *ret, struct error *err);
/* Written beside it (as "PATH.PID-N.tmp", which only a crash leaves behind), synced, renamed over it, directory synced: whoever
 * looks sees the old contents or the new. "-" is standard output, written plainly, as are pipes and devices. */
int io_write_file(const char *path, const void *data, size_t len, mode_t mode, struct error *err);
/* The same bit by bit. What is not finished is thrown away by io_output_free(), and what was there before stays; standard
 * output, pipes and devices have then seen a part. */
struct io_output;
int io_output_open(const char *path, mode_t mode, struct io_output **ret, struct error *err);
int io_output_write(struct io_output *output, const void *data, size_t len, struct error *err);
int io_output_finish(struct io_output *output, struct error *err);
struct io_output *io_output_free(struct io_output *output); /* NULL allowed; returns NULL */
DEFINE_CLEANUP_POINTER(io_output_free, struct io_output);
/* Takes an exclusive lock (flock) on path, made if missing; -EBUSY when another process holds it. Returns the descriptor to
 * keep. */
int io_lock_file(const char *path, struct error *err);
/* "DIR/NAME" with a check of the length; returns 0 or -ENAMETOOLONG. */
int io_join_path(char *out, size_t size, const char *dir, const char *name);

#endif
