// SPDX-License-Identifier: Apache-2.0
/*
 * Where uploaded files lie, version 2:
 *
 *   DIRECTORY/layout                                      "2\n"
 *   DIRECTORY/files/TENANT/TYPE/xx/yyyy/CONTENT[-KEY].KIND
 *
 *   TENANT    whose upload it is; "@all" for those of the tenant without a name (no tenant's name begins with @). The name of
 *             that directory is from when uploads of all tenants were found by all
 *   TYPE      of the id: gnu, hash, go (elf/file_ids.h)
 *   xx/yyyy   the first byte of the id, in hex, and the others
 *   CONTENT   the first 16 bytes of the file's SHA-256 in hex, so that two files under one id are distinguished without reading
 *             them; zeros for a file from version 1 of which nobody has asked since
 *   KEY       of what binary it is (elf/content_key.h), where who sent it has said so: several binaries may have one id. A
 *             server that does not know it leaves these files alone
 *   KIND      debuginfo, executable, sources, kallsyms
 *
 * ID is the one that the file was announced with. Under each other id that it carries lies a link of the same name, by which it
 * is found (uploads_ids.c); servers that do not know it pass over links.
 *
 * Version 1 had xx/yyyy.KIND in DIRECTORY. Its files are moved when the server starts, each by one rename, so that at any
 * moment each is in one of the two places; a start that was cut short is finished by the next. Files are not read for that, but
 * for the notes of executables and debug information, which say of what type their id is. All of it is synced before anybody is
 * answered.
 *
 * Rejected: an index in a file (the directory is the truth, and can be repaired with mv), and hashing at the move (16 GiB).
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/io.h"
#include "base/text.h"
#include "base/time.h"
#include "elf/build_id.h"
#include "symbol/uploads_int.h"

#define LAYOUT_VERSION 2
#define NO_TENANT      "@all"
#define NO_CONTENT     "00000000000000000000000000000000"

bool upload_tenant_is_valid(const char *tenant)
{
	size_t len = strlen(tenant);
	return len <= UPLOAD_TENANT_MAX && tenant[0] != '@' && !strchr(tenant, '/') && strcmp(tenant, ".") != 0 &&
	       strcmp(tenant, "..") != 0;
}

int uploads_place_path(const char *directory, const struct upload_place *place, char out[static PATH_MAX], struct error *err)
{
	int len = snprintf(out, PATH_MAX, "%s/files/%s/%s/%.2s/%s/%s%s%s.%s", directory,
			   place->tenant[0] ? place->tenant : NO_TENANT, file_id_type_names[place->id_type], place->build_id,
			   place->build_id + 2, place->content, place->content_key[0] ? "-" : "", place->content_key,
			   upload_kind_names[place->kind]);
	return len < PATH_MAX ? 0 : error_set(err, -ENAMETOOLONG, "the path of the directory for uploads is too long");
}

int uploads_sync_dirs(const char *directory, const char *folder, struct error *err)
{
	char path[PATH_MAX];
	size_t top = strlen(directory);
	int r = 0;
	snprintf(path, sizeof(path), "%s", folder);
	while (!r && strlen(path) >= top) {
		r = io_sync_dir(path, err);
		char *slash = strrchr(path, '/');
		if (!slash || slash == path)
			break;
		*slash = 0;
	}
	return r;
}

static bool parse_kind(const char *text, enum upload_kind *ret)
{
	for (unsigned i = 0; i < UPLOAD_KINDS; i++) {
		if (strcmp(text, upload_kind_names[i]) == 0) {
			*ret = i;
			return true;
		}
	}
	return false;
}

static bool is_hex(const char *text, size_t len)
{
	return strspn(text, "0123456789abcdef") >= len;
}

/* ---- reading it ---- */

#define LINK_BYTES_MAX 512
#define LEVELS	       5 /* below DIRECTORY/files: tenant, type, xx, yyyy, file */
struct walk {
	uploads_place_function *function;
	void *context;
	struct upload_place place;
	char tenant[UPLOAD_TENANT_MAX + 1], build_id[BUILD_ID_HEX_MAX], content[UPLOAD_CONTENT_HEX];
	char content_key[CONTENT_KEY_HEX], target[LINK_BYTES_MAX];
};

/* "CONTENT.KIND" or "CONTENT-KEY.KIND". */
static bool read_file_name(struct walk *walk, const char *name)
{
	const char *rest = name + UPLOAD_CONTENT_HEX - 1;
	if (!is_hex(name, UPLOAD_CONTENT_HEX - 1))
		return false;
	snprintf(walk->content, sizeof(walk->content), "%.32s", name);
	walk->content_key[0] = 0;
	if (*rest == '-') {
		snprintf(walk->content_key, sizeof(walk->content_key), "%.32s", rest + 1);
		if (!content_key_is_valid(walk->content_key))
			return false;
		rest += CONTENT_KEY_HEX;
	}
	return *rest == '.' && parse_kind(rest + 1, &walk->place.kind);
}

/* Takes in what a name says, and is false for one that is not ours. */
static bool read_name(struct walk *walk, unsigned level, const char *name)
{
	size_t len = strlen(name);
	switch (level) {
	case 0:
		if (strcmp(name, NO_TENANT) == 0)
			name = "";
		else if (!upload_tenant_is_valid(name))
			return false;
		snprintf(walk->tenant, sizeof(walk->tenant), "%.150s", name);
		return true;
	case 1: return file_id_type_parse(name, &walk->place.id_type);
	case 2: snprintf(walk->build_id, sizeof(walk->build_id), "%.2s", name); return len == 2 && is_hex(name, 2);
	case 3:
		if (len + 3 > sizeof(walk->build_id))
			return false;
		snprintf(walk->build_id + 2, sizeof(walk->build_id) - 2, "%.126s", name);
		return build_id_is_valid(walk->build_id);
	default: return read_file_name(walk, name);
	}
}

/* The last level. */
static int walk_file(struct walk *walk, int at, const char *name, struct error *err)
{
	struct stat info;
	if (fstatat(at, name, &info, AT_SYMLINK_NOFOLLOW) < 0 || (!S_ISREG(info.st_mode) && !S_ISLNK(info.st_mode)))
		return 0;
	ssize_t len = S_ISLNK(info.st_mode) ? readlinkat(at, name, walk->target, sizeof(walk->target) - 1) : 0;
	if (len < 0)
		return 0;
	walk->target[len] = 0;
	return walk->function(walk->context, &walk->place, S_ISLNK(info.st_mode) ? walk->target : NULL, (uint64_t)info.st_size,
			      time_of_timespec(info.st_mtim), err);
}

static int walk_level(struct walk *walk, int at, const char *name, unsigned level, struct error *err)
{
	_cleanup_(dir_closep) DIR *dir = io_open_dir_at(at, name);
	if (!dir)
		return errno == ENOENT || errno == ENOTDIR || errno == ELOOP
			       ? 0
			       : error_set_errno(err, -errno, "cannot read the directory %s of uploads", name);
	const struct dirent *entry;
	int r = 0;
	while (!r && (entry = readdir(dir))) {
		if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0 ||
		    !read_name(walk, level, entry->d_name))
			continue;
		if (level + 1 < LEVELS)
			r = walk_level(walk, dirfd(dir), entry->d_name, level + 1, err);
		else
			r = walk_file(walk, dirfd(dir), entry->d_name, err);
	}
	return r;
}

int uploads_layout_read(const char *directory, uploads_place_function *function, void *context, struct error *err)
{
	struct walk walk = {.function = function, .context = context};
	walk.place = (struct upload_place){
		.tenant = walk.tenant, .build_id = walk.build_id, .content = walk.content, .content_key = walk.content_key};
	_cleanup_(fd_closep) int at = io_open(directory, O_RDONLY | O_DIRECTORY, 0, err);
	return at < 0 ? at : walk_level(&walk, at, "files", 0, err);
}

/* ---- from version 1 ---- */

/* "yyyy.KIND" in the folder "xx". */
static bool parse_old_name(const char *folder, const char *name, char build_id[static BUILD_ID_HEX_MAX], enum upload_kind *ret)
{
	const char *dot = strchr(name, '.');
	if (!dot || dot == name || dot - name + 3 > BUILD_ID_HEX_MAX)
		return false;
	snprintf(build_id, BUILD_ID_HEX_MAX, "%s%.*s", folder, (int)(dot - name), name);
	return build_id_is_valid(build_id) && parse_kind(dot + 1, ret);
}

/* Of what type an id is that nobody has said it of: a build-id, unless the file has none. */
static enum file_id_type type_of(const char *path, enum upload_kind kind)
{
	char own[BUILD_ID_HEX_MAX];
	_cleanup_(fd_closep) int fd = -1;
	if (kind == UPLOAD_DEBUGINFO || kind == UPLOAD_EXECUTABLE)
		fd = io_open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK, 0, NULL);
	return fd >= 0 && build_id_read_fd(fd, own, NULL) == -ENOENT ? FILE_ID_HASH : FILE_ID_GNU;
}

static int move_file(const char *directory, const char *folder, const char *name, struct error *err)
{
	char from[PATH_MAX], to[PATH_MAX], parent[PATH_MAX], build_id[BUILD_ID_HEX_MAX];
	struct upload_place place = {.tenant = "", .build_id = build_id, .content = NO_CONTENT, .content_key = ""};
	struct stat info;
	if (!parse_old_name(folder, name, build_id, &place.kind))
		return 0;
	if (snprintf(from, sizeof(from), "%s/%s/%s", directory, folder, name) >= (int)sizeof(from))
		return error_set(err, -ENAMETOOLONG, "the path of the directory for uploads is too long");
	if (lstat(from, &info) < 0 || !S_ISREG(info.st_mode))
		return 0;
	place.id_type = type_of(from, place.kind);
	int r = uploads_place_path(directory, &place, to, err);
	if (r < 0)
		return r;
	snprintf(parent, sizeof(parent), "%.*s", (int)(strrchr(to, '/') - to), to);
	r = io_make_dirs(parent, 0750, err);
	if (r == 0)
		r = io_rename(from, to, err);
	return r < 0 ? r : 1;
}

/* Positive if something was moved. */
static int move_folder(const char *directory, const char *folder, struct error *err)
{
	char path[PATH_MAX];
	int moved = 0, r = io_join_path(path, sizeof(path), directory, folder);
	if (r < 0)
		return error_set_errno(err, r, "cannot read %s", directory);
	_cleanup_(dir_closep) DIR *dir = io_open_dir_at(AT_FDCWD, path);
	if (!dir)
		return errno == ENOENT || errno == ENOTDIR || errno == ELOOP
			       ? 0
			       : error_set_errno(err, -errno, "cannot read %s", path);
	/* What is removed while a directory is read does not hide others, but what is read again is not there any more. */
	const struct dirent *entry;
	while (r >= 0 && (entry = readdir(dir))) {
		r = move_file(directory, folder, entry->d_name, err);
		moved |= r > 0;
	}
	if (r < 0)
		return r;
	if (moved)
		rmdir(path); /* stays if others have put something there */
	return moved;
}

static int check_version(const char *path, struct error *err)
{
	_cleanup_(buffer_release) struct buffer text = {0};
	int r = io_read_file(path, 64, &text, err);
	if (r == -ENOENT)
		return 0;
	if (r < 0)
		return r;
	unsigned long version = strtoul(buffer_string(&text), NULL, 10);
	if (version <= LAYOUT_VERSION)
		return 0;
	return error_set(err, -ENOTSUP, "%s: uploads were stored by a newer version of Wick (layout %lu); this one knows %d",
			 path, version, LAYOUT_VERSION);
}

int uploads_layout_migrate(const char *directory, struct error *err)
{
	static const char text[] = "2\n";
	char path[PATH_MAX], files[PATH_MAX];
	int r = io_join_path(path, sizeof(path), directory, "layout");
	if (r == 0)
		r = io_join_path(files, sizeof(files), directory, "files");
	if (r < 0)
		return error_set_errno(err, r, "the path of the directory for uploads is too long");
	r = check_version(path, err);
	if (r == 0)
		r = io_make_dirs(files, 0750, err);
	int moved = 0;
	for (unsigned i = 0; i < 256 && r >= 0; i++) {
		char folder[3];
		snprintf(folder, sizeof(folder), "%02x", i);
		r = move_folder(directory, folder, err);
		moved |= r > 0;
	}
	if (r < 0)
		return r;
	if (access(path, F_OK) < 0)
		r = io_write_file(path, text, strlen(text), 0640, err);
	if (r < 0 || !moved)
		return r < 0 ? r : 0;
	/* All the renames, and the directories that were made for them. */
	_cleanup_(fd_closep) int fd = io_open(directory, O_RDONLY | O_DIRECTORY, 0, err);
	if (fd < 0)
		return fd;
	return syncfs(fd) < 0 ? error_set_errno(err, -errno, "cannot write %s to the disk", directory) : 0;
}
