/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The cache directory of libdebuginfod, kept within a limit.
 *
 *     DIRECTORY/lock                            ours: held while a process uses the directory
 *     DIRECTORY/cache_clean_interval_s          how often the library looks for old files: a FIFO, see below
 *     DIRECTORY/cache_miss_s                    for how long an empty file below says "there is none": likewise
 *     DIRECTORY/BUILDID/debuginfo               what was found; read-only (0400)
 *     DIRECTORY/BUILDID/executable
 *     DIRECTORY/BUILDID/source#usr#src#a.c      the path, escaped by rules that differ between versions of the library
 *     DIRECTORY/BUILDID/KIND.XXXXXX             being fetched (mkstemp)
 *     DIRECTORY/BUILDID/KIND, empty             no server had it, at the file's time of modification
 *
 * The library's own cleaning goes by age alone: a week of many services would fill any disk. Here it goes by size: the files
 * that were used longest ago are removed first, by their time of access, which the fetch sets itself because most file systems
 * are mounted so that reading does not. Empty marks are counted with the block that their directory takes, when they are made
 * and when the directory is read; without that, made-up build-ids would fill the disk for nothing. Those that are too old to
 * say anything are removed before anything else, so that such a flood takes the place of files for a while only.
 *
 * When the library reads one of its two settings, it closes the descriptor twice (sourceware bug 29696, in 0.188, Debian 12's):
 * beside other threads, the second close() hits whatever file or socket one of them has just opened. It does not read, and
 * closes once, what has a size of 0: then it writes its default there and goes on with that. A regular file would not stay
 * empty; a FIFO does, opened for both directions it never blocks, and what is written to it is gone when it is closed. The
 * defaults are one day between cleanings, counted from the FIFO's time of modification, which is set before each call, so that
 * the library never cleans; and 10 min for misses, which end earlier when we remove the marks.
 *
 * Everything below DIRECTORY is taken for what it is by its name and size, links are never followed, and what does not fit the
 * layout is left alone.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/disk_list.h"
#include "base/io.h"
#include "base/text.h"
#include "base/time.h"
#include "symbol/debuginfod_int.h"

#define CLEAN_SETTING	  "cache_clean_interval_s"
#define MISS_SETTING	  "cache_miss_s"
#define CACHE_FILES_MAX	  (1u << 20)
#define SUFFIX_LENGTH	  7 /* of mkstemp(): ".XXXXXX" */
#define UNFINISHED_AGE_NS (24 * 3600 * NS_PER_S)

static const char *const kinds[] = {"debuginfo", "executable", "source"};

static bool is_kind(const char *name)
{
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
		if (text_starts_with(name, kinds[i]))
			return true;
	return false;
}

/* A source file's path may end like this too: what is unfinished besides is younger than its fetch, and can be written. */
static bool is_unfinished(const char *name, const struct stat *st)
{
	size_t len = strlen(name);
	return len > SUFFIX_LENGTH && name[len - SUFFIX_LENGTH] == '.' && (st->st_mode & 0200);
}

/* The files of one build-id: calls `each` for regular files that the library may have made. */
typedef void (*cache_visit)(void *context, int dir_fd, const char *build_id, const char *name, const struct stat *st);

static void visit_files(DIR *dir, const char *build_id, cache_visit each, void *context)
{
	struct dirent *entry;
	while ((entry = readdir(dir))) {
		struct stat st;
		if (is_kind(entry->d_name) && fstatat(dirfd(dir), entry->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
		    S_ISREG(st.st_mode))
			each(context, dirfd(dir), build_id, entry->d_name, &st);
	}
}

static void visit_build_id(const struct debuginfod_cache *cache, const char *build_id, cache_visit each, void *context)
{
	char path[PATH_MAX];
	if (io_join_path(path, sizeof(path), cache->directory, build_id) < 0)
		return;
	_cleanup_(dir_closep) DIR *dir = io_open_dir_at(AT_FDCWD, path);
	if (dir)
		visit_files(dir, build_id, each, context);
}

/* ---- counting and removing ---- */

struct cached_files {
	struct disk_list list;				/* "BUILDID/NAME" */
	int64_t unfinished_before_ns, misses_before_ns; /* those are removed on the way */
	size_t count_max;
	bool failed;
};

/* Removed on the way: nobody needs to know when it was used. */
static bool is_rubbish(const struct cached_files *files, const char *name, const struct stat *st)
{
	if (is_unfinished(name, st))
		return time_of_timespec(st->st_mtim) < files->unfinished_before_ns;
	return st->st_size == 0 &&
	       (time_of_timespec(st->st_mtim) < files->misses_before_ns || files->list.count >= files->count_max);
}

static void add_file(void *context, int dir_fd, const char *build_id, const char *name, const struct stat *st)
{
	struct cached_files *files = context;
	if (is_rubbish(files, name, st)) {
		unlinkat(dir_fd, name, 0);
		return;
	}
	char path[BUILD_ID_HEX_MAX + NAME_MAX + 2];
	uint64_t bytes = (uint64_t)st->st_size + DEBUGINFOD_CACHE_FILE_COST;
	/* What is being fetched counts, and is not ours to remove; nor can be what is too much to be put in order. */
	if (is_unfinished(name, st) || files->list.count >= files->count_max) {
		files->list.bytes += bytes;
		return;
	}
	snprintf(path, sizeof(path), "%s/%s", build_id, name);
	files->failed |= disk_list_add(&files->list, path, bytes, time_of_timespec(st->st_atim)) < 0;
}

/* Reads the whole directory; empty directories of build-ids are removed. */
static int list_files(const struct debuginfod_cache *cache, struct cached_files *files, struct error *err)
{
	_cleanup_(dir_closep) DIR *dir = io_open_dir_at(AT_FDCWD, cache->directory);
	if (!dir)
		return error_set_errno(err, -errno, "cannot read %s", cache->directory);
	struct dirent *entry;
	while (!files->failed && (entry = readdir(dir))) {
		if (!build_id_is_valid(entry->d_name))
			continue;
		_cleanup_(dir_closep) DIR *sub = io_open_dir_at(dirfd(dir), entry->d_name);
		if (!sub)
			continue;
		visit_files(sub, entry->d_name, add_file, files);
		/* Of one in which a fetch begins just now, the library makes another. */
		unlinkat(dirfd(dir), entry->d_name, AT_REMOVEDIR);
	}
	return files->failed ? error_nomem(err) : 0;
}

static void remove_path(char *path)
{
	unlink(path);
	*strrchr(path, '/') = 0;
	rmdir(path); /* stays while there is anything in it */
}

static bool remove_file(void *context, const char *name)
{
	const struct debuginfod_cache *cache = context;
	char path[PATH_MAX];
	if (io_join_path(path, sizeof(path), cache->directory, name) == 0)
		remove_path(path);
	return true;
}

static int count_and_trim(struct debuginfod_cache *cache, int64_t unfinished_before_ns, struct error *err)
{
	struct cached_files files = {.unfinished_before_ns = unfinished_before_ns,
				     .misses_before_ns = time_now_ns() - cache->missing_ns,
				     .count_max = cache->files_max};
	int r = list_files(cache, &files, err);
	if (r == 0 && files.list.bytes > cache->bytes_max)
		disk_list_trim(&files.list, cache->bytes_max / 10 * 9, remove_file, cache);
	if (r == 0)
		cache->bytes = files.list.bytes;
	disk_list_release(&files.list);
	return r;
}

int debuginfod_cache_trim(struct debuginfod_cache *cache, struct error *err)
{
	return count_and_trim(cache, time_now_ns() - UNFINISHED_AGE_NS, err);
}

/* ---- opening ---- */

static int make_setting(const struct debuginfod_cache *cache, const char *name, struct error *err)
{
	char path[PATH_MAX];
	struct stat st;
	if (io_join_path(path, sizeof(path), cache->directory, name) < 0)
		return error_set(err, -ENAMETOOLONG, "%s: the path of the directory is too long", cache->directory);
	if (lstat(path, &st) == 0 && !S_ISFIFO(st.st_mode))
		unlink(path);
	if (mkfifo(path, 0600) < 0 && errno != EEXIST)
		return error_set_errno(err, -errno, "cannot create %s", path);
	return 0;
}

static int make_directory(const struct debuginfod_cache *cache, struct error *err)
{
	int r = io_make_dirs(cache->directory, 0700, err);
	if (r == 0)
		r = make_setting(cache, MISS_SETTING, err);
	return r < 0 ? r : make_setting(cache, CLEAN_SETTING, err);
}

int debuginfod_cache_prepare(const struct debuginfod_cache *cache, struct error *err)
{
	char path[PATH_MAX];
	io_join_path(path, sizeof(path), cache->directory, CLEAN_SETTING);
	return utimensat(AT_FDCWD, path, NULL, AT_SYMLINK_NOFOLLOW) == 0 ? 0 : make_directory(cache, err);
}

int debuginfod_cache_open(struct debuginfod_cache *cache, const char *directory, uint64_t bytes_max, int64_t missing_ns,
			  struct error *err)
{
	char path[PATH_MAX];
	*cache = (struct debuginfod_cache){
		.bytes_max = bytes_max, .missing_ns = missing_ns, .files_max = CACHE_FILES_MAX, .lock_fd = -1};
	/* Room for a build-id and the longest name a file can have. */
	if (strlen(directory) + BUILD_ID_HEX_MAX + NAME_MAX + 2 > sizeof(cache->directory))
		return error_set(err, -ENAMETOOLONG, "%s: the path of the directory is too long", directory);
	io_join_path(cache->directory, sizeof(cache->directory), directory, "");
	cache->directory[strlen(directory)] = 0;
	int r = make_directory(cache, err);
	if (r < 0)
		return r;
	io_join_path(path, sizeof(path), cache->directory, "lock");
	r = io_lock_file(path, err);
	if (r < 0 && r != -EBUSY)
		return r;
	cache->lock_fd = r == -EBUSY ? -1 : r;
	/* Nobody else fetches into it: what is unfinished stays so. */
	r = count_and_trim(cache, cache->lock_fd < 0 ? time_now_ns() - UNFINISHED_AGE_NS : INT64_MAX, err);
	if (r < 0)
		debuginfod_cache_close(cache);
	return r;
}

void debuginfod_cache_close(struct debuginfod_cache *cache)
{
	cache->lock_fd = io_close(cache->lock_fd);
}

/* ---- one build-id ---- */

static bool format_path(const struct debuginfod_cache *cache, const char *build_id, const char *kind, char out[static PATH_MAX])
{
	char name[BUILD_ID_HEX_MAX + 16];
	int n = snprintf(name, sizeof(name), "%s/%s", build_id, kind);
	return n < (int)sizeof(name) && io_join_path(out, PATH_MAX, cache->directory, name) == 0;
}

int debuginfod_cache_get(const struct debuginfod_cache *cache, const char *build_id, const char *kind)
{
	char path[PATH_MAX];
	struct stat st;
	if (!format_path(cache, build_id, kind, path))
		return -ENAMETOOLONG;
	_cleanup_(fd_closep) int fd = io_open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK, 0, NULL);
	if (fd < 0)
		return fd;
	if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_size == 0)
		return -ENOENT;
	return fd_take(&fd);
}

void debuginfod_cache_remove(const struct debuginfod_cache *cache, const char *build_id, const char *kind)
{
	char path[PATH_MAX];
	if (format_path(cache, build_id, kind, path))
		remove_path(path);
}

struct forget {
	const char *kind;
	int64_t from_ns, to_ns;
	size_t count;
};

static void forget_mark(void *context, int dir_fd, const char *build_id, const char *name, const struct stat *st)
{
	struct forget *forget = context;
	int64_t made_ns = time_of_timespec(st->st_mtim);
	if (st->st_size == 0 && text_starts_with(name, forget->kind) && made_ns >= forget->from_ns && made_ns <= forget->to_ns)
		forget->count += unlinkat(dir_fd, name, 0) == 0;
}

size_t debuginfod_cache_forget(const struct debuginfod_cache *cache, const char *build_id, const char *kind, int64_t from_ns,
			       int64_t to_ns)
{
	struct forget forget = {.kind = kind, .from_ns = from_ns, .to_ns = to_ns};
	char path[PATH_MAX];
	visit_build_id(cache, build_id, forget_mark, &forget);
	if (io_join_path(path, sizeof(path), cache->directory, build_id) == 0)
		rmdir(path); /* stays while there is anything in it */
	return forget.count;
}

struct unfinished {
	const char *kind;
	uint64_t bytes;
};

static void measure_unfinished(void *context, int dir_fd, const char *build_id, const char *name, const struct stat *st)
{
	struct unfinished *unfinished = context;
	if (text_starts_with(name, unfinished->kind) && is_unfinished(name, st) && (uint64_t)st->st_size > unfinished->bytes)
		unfinished->bytes = (uint64_t)st->st_size;
}

uint64_t debuginfod_cache_unfinished(const struct debuginfod_cache *cache, const char *build_id, const char *kind)
{
	struct unfinished unfinished = {.kind = kind};
	visit_build_id(cache, build_id, measure_unfinished, &unfinished);
	return unfinished.bytes;
}
