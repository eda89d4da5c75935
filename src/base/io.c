// SPDX-License-Identifier: Apache-2.0
#include "base/io.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/cleanup.h"
#include "base/fault.h"
#include "base/time.h"

/* Deeper trees than this are not ours; each level holds a descriptor and a stack frame. */
#define TREE_DEPTH_MAX	 64
#define READ_SIZE_MIN	 4096
#define SECRET_BYTES_MAX 16384

int io_open(const char *path, int flags, mode_t mode, struct error *err)
{
	errno = EIO;
	int fd = fault_reached(FAULT_OPEN) ? -1 : TEMP_FAILURE_RETRY(open(path, flags | O_CLOEXEC, mode));
	return fd < 0 ? error_set_errno(err, -errno, "cannot open %s", path) : fd;
}

int io_open_regular(const char *path, struct error *err)
{
	char again[32];
	struct stat status;
	_cleanup_(fd_closep) int place = io_open(path, O_PATH, 0, err);
	if (place < 0)
		return place;
	if (fstat(place, &status) < 0 || !S_ISREG(status.st_mode))
		return error_set(err, -ENOENT, "%s is not a regular file", path);
	snprintf(again, sizeof(again), "/proc/self/fd/%d", place);
	return io_open(again, O_RDONLY | O_NOCTTY | O_NONBLOCK, 0, err);
}

int (*io_open_instead)(const char *path);

int io_stat(const char *path, struct stat *ret)
{
	if (stat(path, ret) == 0)
		return 0;
	if (errno != EACCES || !io_open_instead)
		return -errno;
	_cleanup_(fd_closep) int fd = io_open_instead(path);
	return fd < 0 ? fd : fstat(fd, ret) < 0 ? -errno : 0;
}

int io_close(int fd)
{
	fd_closep(&fd);
	return fd;
}

/* After a failed call: true if it is to be repeated. Standard streams may be pipes that another process made non-blocking. */
static bool should_repeat(int fd, short events)
{
	if (errno == EINTR)
		return true;
	if (errno != EAGAIN)
		return false;
	struct pollfd poll_fd = {.fd = fd, .events = events};
	return poll(&poll_fd, 1, -1) >= 0 || errno == EINTR;
}

/* offset < 0: at the descriptor's own position. Returns 0 or a negative errno. */
static int write_all(int fd, const uint8_t *data, size_t len, int64_t offset)
{
	while (len > 0) {
		ssize_t n = offset < 0 ? write(fd, data, len) : pwrite(fd, data, len, offset);
		if (n < 0 && should_repeat(fd, POLLOUT))
			continue;
		if (n < 0)
			return -errno;
		if (n == 0)
			return -ENOSPC;
		data += n;
		len -= (size_t)n;
		if (offset >= 0)
			offset += n;
	}
	return 0;
}

static int write_or_fail(int fd, const void *data, size_t len, int64_t offset, const char *name, struct error *err)
{
	int r;
	if (fault_reached(FAULT_WRITE)) {
		/* As on a disk that fills up: a part arrives. */
		write_all(fd, data, len / 2, offset);
		r = -ENOSPC;
	} else {
		r = write_all(fd, data, len, offset);
	}
	return r < 0 ? error_set_errno(err, r, "cannot write %s", name) : 0;
}

int io_write(int fd, const void *data, size_t len, const char *name, struct error *err)
{
	return write_or_fail(fd, data, len, -1, name, err);
}

static bool is_offset_valid(uint64_t offset, size_t len)
{
	uint64_t end;
	return !__builtin_add_overflow(offset, len, &end) && end <= INT64_MAX;
}

int io_pwrite(int fd, const void *data, size_t len, uint64_t offset, const char *name, struct error *err)
{
	if (!is_offset_valid(offset, len))
		return error_set_errno(err, -EFBIG, "cannot write %s", name);
	return write_or_fail(fd, data, len, (int64_t)offset, name, err);
}

static ssize_t read_all(int fd, uint8_t *data, size_t len, int64_t offset, const char *name, struct error *err)
{
	size_t done = 0;
	if (fault_reached(FAULT_READ))
		return error_set_errno(err, -EIO, "cannot read %s", name);
	while (done < len) {
		ssize_t n = offset < 0 ? read(fd, data + done, len - done)
				       : pread(fd, data + done, len - done, offset + (int64_t)done);
		if (n < 0 && should_repeat(fd, POLLIN))
			continue;
		if (n < 0)
			return error_set_errno(err, -errno, "cannot read %s", name);
		if (n == 0)
			break;
		done += (size_t)n;
	}
	return (ssize_t)done;
}

ssize_t io_pread(int fd, void *data, size_t len, uint64_t offset, const char *name, struct error *err)
{
	if (!is_offset_valid(offset, len))
		return error_set_errno(err, -EOVERFLOW, "cannot read %s", name);
	return read_all(fd, data, len, (int64_t)offset, name, err);
}

ssize_t io_read(int fd, void *data, size_t len, const char *name, struct error *err)
{
	return read_all(fd, data, len, -1, name, err);
}

int io_sync(int fd, const char *name, struct error *err)
{
	errno = EIO;
	int r = fault_reached(FAULT_SYNC) ? -1 : TEMP_FAILURE_RETRY(fdatasync(fd));
	return r < 0 ? error_set_errno(err, -errno, "cannot sync %s", name) : 0;
}

int io_sync_dir(const char *path, struct error *err)
{
	_cleanup_(fd_closep) int fd = io_open(path, O_RDONLY | O_DIRECTORY, 0, err);
	if (fd < 0)
		return fd;
	errno = EIO;
	int r = fault_reached(FAULT_SYNC) ? -1 : TEMP_FAILURE_RETRY(fsync(fd));
	/* EINVAL is how some network and FUSE file systems say that their directories need no sync. */
	return r < 0 && errno != EINVAL ? error_set_errno(err, -errno, "cannot sync directory %s", path) : 0;
}

int io_rename(const char *from, const char *to, struct error *err)
{
	errno = EIO;
	if (fault_reached(FAULT_RENAME) || rename(from, to) < 0)
		return error_set_errno(err, -errno, "cannot rename %s to %s", from, to);
	return 0;
}

int io_unlink(const char *path, struct error *err)
{
	if (unlink(path) < 0 && errno != ENOENT)
		return error_set_errno(err, -errno, "cannot remove %s", path);
	return 0;
}

static int remove_entry(int dir, const char *name, int depth);

/* Takes fd over. */
static int remove_contents(int fd, int depth)
{
	DIR *dir = fdopendir(fd);
	if (!dir) {
		int code = -errno;
		io_close(fd);
		return code;
	}
	int r = 0;
	while (r == 0) {
		errno = 0;
		const struct dirent *entry = readdir(dir);
		if (!entry) {
			r = -errno;
			break;
		}
		if (strcmp(entry->d_name, ".") && strcmp(entry->d_name, ".."))
			r = remove_entry(fd, entry->d_name, depth);
	}
	closedir(dir);
	return r;
}

/* Symbolic links are removed, never followed: the tree may hold one that points at somebody else's files. */
static int remove_entry(int dir, const char *name, int depth)
{
	if (unlinkat(dir, name, 0) == 0 || errno == ENOENT)
		return 0;
	if (errno != EISDIR && errno != EPERM)
		return -errno;
	int code = -errno;
	if (depth >= TREE_DEPTH_MAX)
		return -ELOOP;
	int fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return errno == ENOTDIR ? code : -errno;
	int r = remove_contents(fd, depth + 1);
	if (r < 0)
		return r;
	return unlinkat(dir, name, AT_REMOVEDIR) < 0 && errno != ENOENT ? -errno : 0;
}

int io_remove_tree(const char *path, struct error *err)
{
	int r = remove_entry(AT_FDCWD, path, 0);
	return r < 0 ? error_set_errno(err, r, "cannot remove %s", path) : 0;
}

static int make_dir(const char *path, mode_t mode)
{
	if (mkdir(path, mode) == 0)
		return 0;
	/* Also when mkdir() says EROFS or EACCES: a directory that is there needs no making. */
	int code = -errno;
	struct stat status;
	if (stat(path, &status) < 0)
		return code;
	return S_ISDIR(status.st_mode) ? 0 : -ENOTDIR;
}

int io_make_dirs(const char *path, mode_t mode, struct error *err)
{
	char partial[PATH_MAX];
	size_t len = strlen(path);
	if (len >= sizeof(partial))
		return error_set_errno(err, -ENAMETOOLONG, "cannot create directory %s", path);
	memcpy(partial, path, len + 1);
	for (char *p = partial + 1; len > 0; p++) {
		bool is_last = *p == '\0';
		if (!is_last && *p != '/')
			continue;
		*p = '\0';
		int r = make_dir(partial, mode);
		if (r < 0)
			return error_set_errno(err, r, "cannot create directory %s", partial);
		if (is_last)
			return 0;
		*p = '/';
	}
	return error_set_errno(err, -ENOENT, "cannot create a directory without a name");
}

int io_truncate(int fd, uint64_t size, const char *name, struct error *err)
{
	if (size > INT64_MAX)
		return error_set_errno(err, -EFBIG, "cannot resize %s", name);
	int r = TEMP_FAILURE_RETRY(ftruncate(fd, (off_t)size));
	return r < 0 ? error_set_errno(err, -errno, "cannot resize %s", name) : 0;
}

int io_file_size(int fd, uint64_t *ret_size, const char *name, struct error *err)
{
	struct stat status;
	if (fstat(fd, &status) < 0)
		return error_set_errno(err, -errno, "cannot determine the size of %s", name);
	*ret_size = (uint64_t)status.st_size;
	return 0;
}

static int too_long(const char *name, size_t max, struct error *err)
{
	return error_set(err, -E2BIG, "%s is longer than the limit of %zu bytes", name, max);
}

/* The size that fstat() gives is a hint only: 0 for /proc files, and the file may grow meanwhile. */
static int read_descriptor(int fd, const char *name, size_t max, struct buffer *ret, struct error *err)
{
	struct stat status;
	size_t room = READ_SIZE_MIN;
	if (fstat(fd, &status) == 0 && S_ISREG(status.st_mode) && status.st_size > 0) {
		if ((uint64_t)status.st_size > max)
			return too_long(name, max, err);
		/* One more than the size, so that the first pass meets the end of the file. */
		room = (size_t)status.st_size + 1;
	}
	for (;;) {
		if (room > max - ret->len)
			room = max - ret->len;
		if (room == 0) {
			uint8_t beyond;
			ssize_t n = io_read(fd, &beyond, 1, name, err);
			return n > 0 ? too_long(name, max, err) : (int)n;
		}
		if (buffer_reserve(ret, room) < 0)
			return error_nomem(err);
		ssize_t n = io_read(fd, ret->data + ret->len, room, name, err);
		if (n < 0)
			return (int)n;
		ret->len += (size_t)n;
		if ((size_t)n < room)
			return 0;
		room = ret->len < READ_SIZE_MIN ? READ_SIZE_MIN : ret->len;
	}
}

int io_read_file(const char *path, size_t max, struct buffer *ret, struct error *err)
{
	bool is_stdin = !strcmp(path, "-");
	buffer_clear(ret);
	ret->max = max;
	_cleanup_(fd_closep) int opened = -1;
	if (!is_stdin) {
		int r = opened = io_open(path, O_RDONLY, 0, err);
		if (r == -EACCES && io_open_instead)
			opened = io_open_instead(path);
		if (opened < 0)
			return r;
	}
	int r = read_descriptor(is_stdin ? STDIN_FILENO : opened, is_stdin ? "standard input" : path, max, ret, err);
	if (r < 0)
		buffer_clear(ret);
	return r;
}

DIR *io_open_dir_at(int at, const char *name)
{
	int fd = openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	if (!dir && fd >= 0)
		close(fd);
	return dir;
}

struct io_stamp io_stamp_of(const char *path)
{
	struct stat info;
	if (!path || io_stat(path, &info) < 0)
		return (struct io_stamp){0};
	return (struct io_stamp){.device = info.st_dev,
				 .inode = info.st_ino,
				 .size = info.st_size,
				 .modified_ns = time_of_timespec(info.st_mtim),
				 .changed_ns = time_of_timespec(info.st_ctim)};
}

bool io_stamp_equal(const struct io_stamp *a, const struct io_stamp *b)
{
	return a->device == b->device && a->inode == b->inode && a->size == b->size && a->modified_ns == b->modified_ns &&
	       a->changed_ns == b->changed_ns;
}

ssize_t io_read_text(const char *path, char *text, size_t size)
{
	_cleanup_(fd_closep) int fd = io_open(path, O_RDONLY, 0, NULL);
	ssize_t len = fd < 0 ? fd : read(fd, text, size - 1);
	if (len < 0 && fd >= 0)
		len = -errno;
	text[len > 0 ? len : 0] = 0;
	return len;
}

static bool is_blank(uint8_t byte)
{
	return byte == ' ' || byte == '\t' || byte == '\r' || byte == '\n';
}

int io_read_secret(const char *path, struct buffer *ret, struct error *err)
{
	int r = io_read_file(path, SECRET_BYTES_MAX, ret, err);
	if (r < 0 || ret->len == 0)
		return r;
	size_t start = 0, end;
	while (start < ret->len && is_blank(ret->data[start]))
		start++;
	for (end = start; end < ret->len && ret->data[end] != '\n' && ret->data[end] != '\r';)
		end++;
	while (end > start && is_blank(ret->data[end - 1]))
		end--;
	memmove(ret->data, ret->data + start, end - start);
	ret->len = end - start;
	return 0;
}

struct io_output {
	int fd;
	enum { IO_OUTPUT_PLAIN, IO_OUTPUT_REPLACES, IO_OUTPUT_DONE } mode;
	char target[PATH_MAX], temporary[PATH_MAX];
};

/* A new file "PATH.PID-N.tmp", unique among threads and processes. What a crash leaves behind is found by its ".tmp". */
static int create_temporary(const char *path, mode_t mode, char *ret_name, size_t size, struct error *err)
{
	static _Atomic unsigned counter;
	for (;;) {
		int len = snprintf(ret_name, size, "%s.%d-%u.tmp", path, (int)getpid(), atomic_fetch_add(&counter, 1));
		if (len < 0 || (size_t)len >= size)
			return error_set_errno(err, -ENAMETOOLONG, "cannot write %s", path);
		int fd = io_open(ret_name, O_WRONLY | O_CREAT | O_EXCL, mode, NULL);
		if (fd >= 0)
			return fd;
		if (fd != -EEXIST)
			return error_set_errno(err, fd, "cannot create %s", path);
	}
}

static int sync_parent(const char *path, struct error *err)
{
	char parent[PATH_MAX];
	const char *slash = strrchr(path, '/');
	if (!slash)
		return io_sync_dir(".", err);
	size_t len = slash == path ? 1 : (size_t)(slash - path);
	memcpy(parent, path, len);
	parent[len] = '\0';
	return io_sync_dir(parent, err);
}

/* Pipes, terminals and /dev/null are written to; replacing one by a file would break the machine. */
static int open_output(struct io_output *output, const char *path, mode_t mode, struct error *err)
{
	struct stat status;
	output->mode = IO_OUTPUT_PLAIN;
	if (!strcmp(path, "-")) {
		snprintf(output->target, sizeof(output->target), "standard output");
		output->fd = STDOUT_FILENO;
		return 0;
	}
	bool exists = stat(path, &status) == 0;
	/* Through a symbolic link the file that it names is replaced, not the link. */
	if (!exists || !S_ISREG(status.st_mode) || !realpath(path, output->target)) {
		int len = snprintf(output->target, sizeof(output->target), "%s", path);
		if (len < 0 || (size_t)len >= sizeof(output->target))
			return error_set_errno(err, -ENAMETOOLONG, "cannot write %s", path);
	}
	if (exists && !S_ISREG(status.st_mode)) {
		output->fd = io_open(path, O_WRONLY | O_NOCTTY, 0, err);
	} else {
		output->mode = IO_OUTPUT_REPLACES;
		output->fd = create_temporary(output->target, mode, output->temporary, sizeof(output->temporary), err);
	}
	return output->fd < 0 ? output->fd : 0;
}

int io_output_open(const char *path, mode_t mode, struct io_output **ret, struct error *err)
{
	struct io_output *output = mem_zalloc(sizeof(*output));
	if (!output)
		return error_nomem(err);
	output->fd = -1;
	int r = open_output(output, path, mode, err);
	if (r < 0)
		mem_free(output);
	else
		*ret = output;
	return r;
}

int io_output_write(struct io_output *output, const void *data, size_t len, struct error *err)
{
	return io_write(output->fd, data, len, output->mode == IO_OUTPUT_REPLACES ? output->temporary : output->target, err);
}

int io_output_finish(struct io_output *output, struct error *err)
{
	if (output->mode != IO_OUTPUT_REPLACES)
		return 0;
	int r = io_sync(output->fd, output->temporary, err);
	output->fd = io_close(output->fd);
	if (r == 0)
		r = io_rename(output->temporary, output->target, err);
	if (r < 0)
		return r;
	output->mode = IO_OUTPUT_DONE;
	return sync_parent(output->target, err);
}

static void abandon_output(struct io_output *output)
{
	if (output->fd != STDOUT_FILENO)
		io_close(output->fd);
	if (output->mode == IO_OUTPUT_REPLACES)
		io_unlink(output->temporary, NULL);
}

struct io_output *io_output_free(struct io_output *output)
{
	if (output)
		abandon_output(output);
	return mem_free(output);
}

int io_write_file(const char *path, const void *data, size_t len, mode_t mode, struct error *err)
{
	struct io_output output = {.fd = -1};
	int r = open_output(&output, path, mode, err);
	if (r < 0)
		return r;
	r = io_output_write(&output, data, len, err);
	if (r == 0)
		r = io_output_finish(&output, err);
	abandon_output(&output);
	return r;
}

int io_lock_file(const char *path, struct error *err)
{
	int fd = io_open(path, O_RDWR | O_CREAT, 0600, err);
	if (fd < 0)
		return fd;
	if (TEMP_FAILURE_RETRY(flock(fd, LOCK_EX | LOCK_NB)) == 0)
		return fd;
	int code = -errno;
	io_close(fd);
	if (code == -EWOULDBLOCK)
		return error_set(err, -EBUSY, "%s is locked: another process is using this directory", path);
	return error_set_errno(err, code, "cannot lock %s", path);
}

int io_join_path(char *out, size_t size, const char *dir, const char *name)
{
	size_t dir_len = strlen(dir), name_len = strlen(name);
	bool slash = dir_len > 0 && dir[dir_len - 1] != '/';
	if (dir_len >= size || name_len >= size || dir_len + slash + name_len >= size)
		return -ENAMETOOLONG;
	memmove(out, dir, dir_len);
	if (slash)
		out[dir_len] = '/';
	memcpy(out + dir_len + slash, name, name_len + 1);
	return 0;
}
