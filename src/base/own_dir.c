/* SPDX-License-Identifier: Apache-2.0 */
#include "base/own_dir.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/io.h"
#include "base/text.h"
#include "base/time.h"

#define TEMPORARY_AGE_S 600

static int check(int fd, const char *path, const char *what, struct error *err)
{
	struct stat st;
	if (fstat(fd, &st) < 0)
		return error_set_errno(err, -errno, "cannot examine %s %s", what, path);
	if (st.st_uid != geteuid())
		return error_set(err, -EPERM, "%s %s belongs to another user (%u); give one of your own", what, path,
				 st.st_uid);
	if (st.st_mode & (S_IWGRP | S_IWOTH))
		return error_set(err, -EPERM, "others can write to %s %s; chmod go-w it", what, path);
	return 0;
}

int own_dir_open(const char *path, const char *what, struct error *err)
{
	if (mkdir(path, 0700) < 0 && errno != EEXIST)
		return error_set_errno(err, -errno, "cannot create %s %s", what, path);
	_cleanup_(fd_closep) int fd = io_open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0, err);
	if (fd < 0)
		return fd;
	int r = check(fd, path, what, err);
	return r < 0 ? r : fd_take(&fd);
}

/* Through the descriptor, not by the name that the caller gave. */
static int join(int directory, const char *name, const char *suffix, char out[static PATH_MAX])
{
	int n = snprintf(out, PATH_MAX, "/proc/self/fd/%d/%s%s", directory, name, suffix);
	return n > 0 && n < PATH_MAX && !text_starts_with(name, ".") && !strchr(name, '/') ? 0 : -EINVAL;
}

int own_dir_open_file(int directory, const char *name, struct stat *ret_stat)
{
	char path[PATH_MAX];
	struct stat st;
	int r = join(directory, name, "", path);
	_cleanup_(fd_closep) int fd = r < 0 ? r : io_open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK, 0, NULL);
	if (fd < 0)
		return fd == -ELOOP || fd == -ENXIO ? -EPERM : fd;
	if (fstat(fd, &st) < 0)
		return -errno;
	if (!S_ISREG(st.st_mode) || (st.st_uid != geteuid() && st.st_uid != 0) || st.st_mode & (S_IWGRP | S_IWOTH))
		return -EPERM;
	if (ret_stat)
		*ret_stat = st;
	return fd_take(&fd);
}

static int write_pieces(const char *path, const struct bytes *pieces, size_t count)
{
	_cleanup_(fd_closep) int fd = io_open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0600, NULL);
	int r = fd < 0 ? fd : 0;
	for (size_t i = 0; i < count && r == 0; i++)
		if (pieces[i].len > 0)
			r = io_write(fd, pieces[i].data, pieces[i].len, path, NULL);
	return r;
}

int own_dir_write_file(int directory, const char *name, const struct bytes *pieces, size_t count)
{
	static _Atomic uint64_t number;
	char path[PATH_MAX], aside[PATH_MAX], suffix[64];
	snprintf(suffix, sizeof(suffix), ".%d-%" PRIu64 OWN_DIR_TEMPORARY, (int)getpid(),
		 atomic_fetch_add_explicit(&number, 1, memory_order_relaxed));
	int r = join(directory, name, "", path);
	if (r == 0)
		r = join(directory, name, suffix, aside);
	if (r < 0)
		return r;
	r = write_pieces(aside, pieces, count);
	if (r == -EEXIST) /* a crash of a process with our number left it, or another namespace's is at it */
		return r;
	r = r < 0 ? r : io_rename(aside, path, NULL);
	if (r < 0)
		io_unlink(aside, NULL);
	return r;
}

int own_dir_list(int directory, const char *suffix, struct disk_list *list)
{
	_cleanup_(dir_closep) DIR *dir = io_open_dir_at(directory, ".");
	int r = dir ? 0 : -errno;
	for (const struct dirent *entry; r == 0 && (entry = readdir(dir));) {
		struct stat st;
		const char *name = entry->d_name;
		if (fstatat(directory, name, &st, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISREG(st.st_mode))
			continue;
		if (text_ends_with(name, OWN_DIR_TEMPORARY) && st.st_mtim.tv_sec < time_now_ns() / NS_PER_S - TEMPORARY_AGE_S)
			unlinkat(directory, name, 0);
		else if (text_ends_with(name, suffix))
			r = disk_list_add(list, name, (uint64_t)st.st_size, time_of_timespec(st.st_mtim));
	}
	return r;
}
