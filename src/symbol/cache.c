/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tables on disk: DIRECTORY/xx/yyyy.sym, where xx are the first two digits of the build-id. A table is written beside its place
 * and renamed, but not synced: the checksum finds damage of a power cut, and the file is made anew. Syncing would cost the
 * first look at a host's profiles a disk's latency for each binary. The time of last use is the file's modification time, so
 * that it survives a restart; above the limit the least recently used go.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/disk_list.h"
#include "base/io.h"
#include "base/text.h"
#include "base/time.h"
#include "elf/build_id.h"
#include "symbol/symbol_int.h"
#include "symbol/table_int.h"

#define SUFFIX	    ".sym"
#define USE_STEP_NS (3600 * NS_PER_S) /* the time of use is no more precise than this */

int cache_load(struct symbolizer *s, const char *build_id, struct symbol_table **ret, struct error *err)
{
	char path[SYMBOL_PATH_MAX];
	if (!s->cache_directory || !build_id_is_valid(build_id) ||
	    !source_format_path(path, s->cache_directory, build_id, SUFFIX))
		return -ENOENT;
	/* A directory or FIFO of that name is not read. */
	_cleanup_(fd_closep) int fd = -1;
	struct stat st;
	if (source_open(path, 0, &fd, &st, NULL) < 0)
		return -ENOENT;
	int r = symbol_table_open(fd, path, build_id, ret, err);
	if (r == 0 && time_now_ns() - time_of_timespec(st.st_mtim) >= USE_STEP_NS)
		futimens(fd, NULL);
	if (r == -EBADMSG) {
		io_unlink(path, NULL);
		return -ENOENT;
	}
	return r == -ENOMEM ? r : r < 0 ? -ENOENT : 0;
}

int cache_begin(struct symbolizer *s, const char *build_id, char ret_temporary[static SYMBOL_PATH_MAX], int *ret_fd,
		struct error *err)
{
	static _Atomic uint64_t number;
	char directory[SYMBOL_PATH_MAX];
	ret_temporary[0] = 0;
	if (s->cache_directory && build_id[0]) {
		int n = snprintf(directory, sizeof(directory), "%s/%.2s", s->cache_directory, build_id);
		int m = snprintf(ret_temporary, SYMBOL_PATH_MAX, "%s/%s.%d-%" PRIu64 ".tmp", directory, build_id + 2,
				 (int)getpid(), atomic_fetch_add_explicit(&number, 1, memory_order_relaxed) + 1);
		if (n > 0 && n < SYMBOL_PATH_MAX && m > 0 && m < SYMBOL_PATH_MAX && io_make_dirs(directory, 0755, NULL) == 0) {
			*ret_fd = io_open(ret_temporary, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW, 0644, NULL);
			if (*ret_fd >= 0)
				return 0;
		}
		ret_temporary[0] = 0;
	}
	*ret_fd = memfd_create("symbols", MFD_CLOEXEC);
	return *ret_fd < 0 ? error_set_errno(err, -errno, "cannot create a file for a symbol table") : 0;
}

/* ---- the limit ---- */

/* on_file gets each regular file of a directory of two digits; temporary ones that a crash left are removed. */
static void walk(struct symbolizer *s,
		 void (*on_file)(void *context, const char *prefix, const char *path, const char *name, const struct stat *st),
		 void *context)
{
	for (unsigned prefix = 0; prefix < 256; prefix++) {
		char directory[SYMBOL_PATH_MAX], path[SYMBOL_PATH_MAX], digits[3];
		snprintf(digits, sizeof(digits), "%02x", prefix);
		int n = snprintf(directory, sizeof(directory), "%s/%s", s->cache_directory, digits);
		_cleanup_(dir_closep) DIR *dir = n > 0 && n < SYMBOL_PATH_MAX ? opendir(directory) : NULL;
		for (struct dirent *entry; dir && (entry = readdir(dir));) {
			struct stat st;
			if (io_join_path(path, sizeof(path), directory, entry->d_name) == 0 &&
			    fstatat(dirfd(dir), entry->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st.st_mode))
				on_file(context, digits, path, entry->d_name, &st);
		}
	}
}

static void list_file(void *context, const char *prefix, const char *path, const char *name, const struct stat *st)
{
	if (text_ends_with(name, SUFFIX)) /* one that there is no memory for is not counted */
		disk_list_add(context, path, (uint64_t)st->st_size, time_of_timespec(st->st_mtim));
}

static bool remove_file(void *context, const char *path)
{
	return io_unlink(path, NULL) == 0;
}

static void evict(struct symbolizer *s)
{
	_cleanup_(disk_list_release) struct disk_list list = {0};
	pthread_mutex_lock(&s->evict_lock);
	pthread_mutex_lock(&s->lock);
	uint64_t max = s->cache_max_bytes;
	pthread_mutex_unlock(&s->lock);
	walk(s, list_file, &list);
	/* A tenth more than needed, or each table would cost a walk. */
	size_t removed = disk_list_trim(&list, max - max / 10, remove_file, NULL);
	pthread_mutex_lock(&s->lock);
	s->disk_bytes = list.bytes;
	s->stats.disk_evicted += removed;
	pthread_mutex_unlock(&s->lock);
	pthread_mutex_unlock(&s->evict_lock);
}

void cache_end(struct symbolizer *s, const char *build_id, const char *temporary, uint64_t bytes, bool keep)
{
	char path[SYMBOL_PATH_MAX];
	struct stat st;
	if (!temporary[0])
		return;
	if (!keep || !source_format_path(path, s->cache_directory, build_id, SUFFIX)) {
		io_unlink(temporary, NULL);
		return;
	}
	uint64_t before = lstat(path, &st) == 0 ? (uint64_t)st.st_size : 0;
	if (io_rename(temporary, path, NULL) < 0) {
		io_unlink(temporary, NULL);
		return;
	}
	pthread_mutex_lock(&s->lock);
	s->disk_bytes += bytes - before;
	pthread_mutex_unlock(&s->lock);
	cache_trim(s);
}

void cache_trim(struct symbolizer *s)
{
	pthread_mutex_lock(&s->lock);
	bool full = s->disk_bytes > s->cache_max_bytes;
	pthread_mutex_unlock(&s->lock);
	if (full)
		evict(s);
}

/* ---- at start ---- */

static bool read_header(const char *path, struct symbol_table_header *ret)
{
	_cleanup_(fd_closep) int fd = io_open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK, 0, NULL);
	return fd >= 0 && io_pread(fd, ret, sizeof(*ret), 0, path, NULL) == (ssize_t)sizeof(*ret) &&
	       memcmp(ret->magic, SYMBOL_TABLE_MAGIC, sizeof(ret->magic)) == 0 && ret->version == SYMBOL_TABLE_VERSION;
}

static void scan_file(void *context, const char *prefix, const char *path, const char *name, const struct stat *st)
{
	struct symbolizer *s = context;
	struct symbol_table_header header;
	char build_id[BUILD_ID_HEX_MAX];
	size_t len = strlen(name);
	if (!text_ends_with(name, SUFFIX)) {
		if (strstr(name, ".tmp"))
			io_unlink(path, NULL); /* a crash left it */
		return;
	}
	s->disk_bytes += (uint64_t)st->st_size;
	int n = snprintf(build_id, sizeof(build_id), "%s%.*s", prefix, (int)(len - strlen(SUFFIX)), name);
	if (n <= 0 || n >= (int)sizeof(build_id) || !build_id_is_valid(build_id) || !read_header(path, &header))
		return;
	pthread_mutex_lock(&s->lock);
	struct symbol_entry *entry = s->entry_count < s->entries_max ? entries_get(s, build_id, NULL) : NULL;
	if (entry) {
		entries_set_header(entry, &header);
		entry->built_ns = st->st_mtim.tv_sec * NS_PER_S;
	}
	pthread_mutex_unlock(&s->lock);
}

void cache_scan(struct symbolizer *s)
{
	if (s->cache_directory)
		walk(s, scan_file, s);
}
