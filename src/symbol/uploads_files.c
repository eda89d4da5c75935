/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What has arrived: DIRECTORY/xx/yyyy.KIND, xx the first byte of the build-id, yyyy the others. The directory is the truth; in
 * memory there is an index of it, with the order of use, made anew at start.
 *
 * When a file was used is kept in its mtime, which is set whenever it is opened: atime is not written on most systems, or once
 * a day. So the order survives a restart, and anybody can see it with ls -lt.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "base/hash.h"
#include "base/io.h"
#include "base/text.h"
#include "base/time.h"
#include "symbol/uploads_int.h"

static struct upload_file **bucket_of(struct uploads *uploads, const char *build_id, enum upload_kind kind)
{
	return &uploads->buckets[hash64_seed(build_id, strlen(build_id), kind) % UPLOADS_BUCKETS];
}

int uploads_file_path(const struct uploads *uploads, const char *build_id, enum upload_kind kind, char out[static PATH_MAX],
		      struct error *err)
{
	int len = snprintf(out, PATH_MAX, "%s/%.2s/%s.%s", uploads->options.directory, build_id, build_id + 2,
			   upload_kind_names[kind]);
	return len < PATH_MAX ? 0 : error_set(err, -ENAMETOOLONG, "the path of the directory for uploads is too long");
}

struct upload_file *uploads_file_find(struct uploads *uploads, const char *build_id, enum upload_kind kind)
{
	struct upload_file *file = *bucket_of(uploads, build_id, kind);
	while (file && (file->kind != kind || strcmp(file->build_id, build_id) != 0))
		file = file->next;
	return file;
}

struct upload_file *uploads_file_new(const char *build_id, enum upload_kind kind, uint64_t size)
{
	struct upload_file *file = mem_zalloc(sizeof(*file));
	if (!file)
		return NULL;
	snprintf(file->build_id, sizeof(file->build_id), "%s", build_id);
	file->kind = (uint8_t)kind;
	file->size = size;
	return file;
}

/* ---- the order of use ---- */

static void unlink_use(struct uploads *uploads, struct upload_file *file)
{
	*(file->newer ? &file->newer->older : &uploads->newest) = file->older;
	*(file->older ? &file->older->newer : &uploads->oldest) = file->newer;
	file->newer = file->older = NULL;
}

static void link_newest(struct uploads *uploads, struct upload_file *file)
{
	file->older = uploads->newest;
	*(file->older ? &file->older->newer : &uploads->oldest) = file;
	uploads->newest = file;
}

void uploads_file_use(struct uploads *uploads, struct upload_file *file, int64_t now_ns)
{
	unlink_use(uploads, file);
	link_newest(uploads, file);
	file->used_ns = now_ns;
}

static void forget(struct uploads *uploads, struct upload_file *file)
{
	struct upload_file **at = bucket_of(uploads, file->build_id, file->kind);
	while (*at != file)
		at = &(*at)->next;
	*at = file->next;
	unlink_use(uploads, file);
	uploads->stats.files--;
	uploads->stats.bytes -= file->size;
	mem_free(file);
}

void uploads_file_add(struct uploads *uploads, struct upload_file *file)
{
	struct upload_file *old = uploads_file_find(uploads, file->build_id, file->kind);
	if (old)
		forget(uploads, old);
	struct upload_file **bucket = bucket_of(uploads, file->build_id, file->kind);
	file->next = *bucket;
	*bucket = file;
	link_newest(uploads, file);
	uploads->stats.files++;
	uploads->stats.bytes += file->size;
}

/* ---- room ---- */

int uploads_file_remove(struct uploads *uploads, const char *build_id, enum upload_kind kind, struct error *err)
{
	char path[PATH_MAX];
	pthread_mutex_lock(&uploads->lock);
	bool there = uploads_file_find(uploads, build_id, kind);
	pthread_mutex_unlock(&uploads->lock);
	if (!there)
		return 0;
	int r = uploads_file_path(uploads, build_id, kind, path, err);
	if (!r)
		r = io_unlink(path, err);
	if (r < 0)
		return r;
	pthread_mutex_lock(&uploads->lock);
	forget(uploads, uploads_file_find(uploads, build_id, kind)); /* only who holds place_lock forgets */
	pthread_mutex_unlock(&uploads->lock);
	return 0;
}

void uploads_file_forget_lost(struct uploads *uploads, const char *build_id, enum upload_kind kind)
{
	char path[PATH_MAX];
	struct stat info;
	pthread_mutex_lock(&uploads->place_lock);
	bool lost = uploads_file_path(uploads, build_id, kind, path, NULL) == 0 && lstat(path, &info) < 0 && errno == ENOENT;
	pthread_mutex_lock(&uploads->lock);
	struct upload_file *file = lost ? uploads_file_find(uploads, build_id, kind) : NULL;
	if (file)
		forget(uploads, file);
	pthread_mutex_unlock(&uploads->lock);
	pthread_mutex_unlock(&uploads->place_lock);
}

/* 0: nothing has to go; 1: a copy of what has to go first. */
static int next_to_go(struct uploads *uploads, struct upload_file *ret, struct error *err)
{
	char size[TEXT_NUMBER_MAX];
	pthread_mutex_lock(&uploads->lock);
	bool full = uploads->stats.bytes + uploads->part_bytes > uploads->options.bytes_max ||
		    uploads->stats.files >= UPLOADS_FILES_MAX;
	bool any = uploads->oldest;
	if (any)
		*ret = *uploads->oldest;
	pthread_mutex_unlock(&uploads->lock);
	if (!full || any)
		return full;
	return error_set(err, -ENOSPC, "the limit of uploaded debug information is %s, and uploads in progress fill it",
			 text_format_size(uploads->options.bytes_max, size));
}

int uploads_make_room(struct uploads *uploads, struct error *err)
{
	struct upload_file file;
	int r = next_to_go(uploads, &file, err);
	if (r <= 0)
		return r;
	pthread_mutex_lock(&uploads->place_lock);
	while ((r = next_to_go(uploads, &file, err)) > 0) {
		r = uploads_file_remove(uploads, file.build_id, file.kind, err);
		if (r < 0)
			break;
		pthread_mutex_lock(&uploads->lock);
		uploads->stats.evicted++;
		pthread_mutex_unlock(&uploads->lock);
	}
	pthread_mutex_unlock(&uploads->place_lock);
	return r;
}

/* ---- reading the directory ---- */

/* "yyyy.KIND" in the folder "xx". */
static bool parse_name(const char *folder, const char *name, char build_id[static BUILD_ID_HEX_MAX], enum upload_kind *ret_kind)
{
	const char *dot = strchr(name, '.');
	if (!dot || dot - name + 3 > BUILD_ID_HEX_MAX)
		return false;
	snprintf(build_id, BUILD_ID_HEX_MAX, "%s%.*s", folder, (int)(dot - name), name);
	for (unsigned i = 0; i < UPLOAD_KINDS; i++) {
		if (strcmp(dot + 1, upload_kind_names[i]) != 0)
			continue;
		*ret_kind = i;
		return build_id_is_valid(build_id);
	}
	return false;
}

struct found {
	struct upload_file **files;
	size_t count, capacity;
};

static int found_add(struct found *found, int dir, const char *folder, const char *name, struct error *err)
{
	char build_id[BUILD_ID_HEX_MAX];
	enum upload_kind kind;
	struct stat info;
	if (!parse_name(folder, name, build_id, &kind) || fstatat(dir, name, &info, AT_SYMLINK_NOFOLLOW) < 0 ||
	    !S_ISREG(info.st_mode))
		return 0;
	int r = array_reserve(&found->files, &found->capacity, found->count + 1, SIZE_MAX / sizeof(*found->files));
	struct upload_file *file = r < 0 ? NULL : uploads_file_new(build_id, kind, (uint64_t)info.st_size);
	if (!file)
		return error_nomem(err);
	file->used_ns = time_of_timespec(info.st_mtim);
	found->files[found->count++] = file;
	return 0;
}

static int read_folder(const struct uploads *uploads, const char *folder, struct found *found, struct error *err)
{
	char path[PATH_MAX];
	int r = io_join_path(path, sizeof(path), uploads->options.directory, folder);
	if (r < 0)
		return error_set_errno(err, r, "cannot read %s", uploads->options.directory);
	_cleanup_(dir_closep) DIR *dir = opendir(path);
	if (!dir)
		return errno == ENOENT ? 0 : error_set_errno(err, -errno, "cannot read %s", path);
	const struct dirent *entry;
	while (!r && (entry = readdir(dir)))
		r = found_add(found, dirfd(dir), folder, entry->d_name, err);
	return r;
}

static int compare_use(const void *a, const void *b)
{
	const struct upload_file *x = *(struct upload_file *const *)a, *y = *(struct upload_file *const *)b;
	return (x->used_ns > y->used_ns) - (x->used_ns < y->used_ns);
}

int uploads_files_load(struct uploads *uploads, struct error *err)
{
	struct found found = {0};
	int r = 0;
	for (unsigned i = 0; i < 256 && !r; i++) {
		char folder[3];
		snprintf(folder, sizeof(folder), "%02x", i);
		r = read_folder(uploads, folder, &found, err);
	}
	if (!r && found.count)
		qsort(found.files, found.count, sizeof(*found.files), compare_use);
	for (size_t i = 0; i < found.count; i++) {
		if (r < 0)
			mem_free(found.files[i]);
		else
			uploads_file_add(uploads, found.files[i]);
	}
	mem_free(found.files);
	return r;
}

void uploads_files_release(struct uploads *uploads)
{
	for (struct upload_file *file = uploads->newest, *older; file; file = older) {
		older = file->older;
		mem_free(file);
	}
	uploads->newest = uploads->oldest = NULL;
}
