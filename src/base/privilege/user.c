/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From root to a user of its own.
 *
 * The order matters: the bounding set can be made smaller by who has CAP_SETPCAP only, groups can be left by root only, and the
 * change of the user takes all capabilities away unless the process asks to keep them (PR_SET_KEEPCAPS), after which those that
 * are not wanted are dropped, and those that are wanted made effective again. A look at /proc/self/status at the end would only
 * say what the calls have said.
 *
 * Handing a directory over. What an earlier start as root left in the data directory is root's, and has to become the user's.
 * A chown of a tree is a classic way to lose a system: somebody who may write in it puts a symbolic link, or a second name of
 * /etc/shadow, where the walk comes by. So every file is opened first, without following a link (O_PATH, O_NOFOLLOW), and that
 * very file is changed (fchownat with AT_EMPTY_PATH), if it
 *
 *   - is on the same file system as the directory, and a file or a directory, not a link, a device or a socket;
 *   - is root's. What is the user's already is; another user's files are nothing that a server of ours has made;
 *   - has no second name, unless the directory that it is in is root's and nobody else may write there, so that nobody but root
 *     can have given it one (backups share files with the data directory by such names).
 *
 * A directory is changed after what is in it, so that as long as root looks into a directory of root's it stays one.
 */
#include "base/privilege/user.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <grp.h>
#include <limits.h>
#include <pwd.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/io.h"
#include "base/text.h"

#define DEPTH_MAX 32 /* of a data directory; each level has a descriptor and a stack frame */

/* ---- who ---- */

static void use(const struct passwd *entry, struct user *ret)
{
	ret->uid = entry->pw_uid;
	ret->gid = entry->pw_gid;
	snprintf(ret->name, sizeof(ret->name), "%s", entry->pw_name);
}

/* By name, or by number if that is NULL. A static program cannot ask the C library, which would load others (NSS). */
static bool look_up(const char *name, uid_t uid, struct user *ret)
{
#ifdef WICK_STATIC
	_cleanup_(file_closep) FILE *file = fopen("/etc/passwd", "re");
	const struct passwd *entry = file ? fgetpwent(file) : NULL;
	while (entry && (name ? strcmp(entry->pw_name, name) != 0 : entry->pw_uid != uid))
		entry = fgetpwent(file);
#else
	const struct passwd *entry = name ? getpwnam(name) : getpwuid(uid);
#endif
	if (entry)
		use(entry, ret);
	return entry != NULL;
}

int user_find(const char *name, struct user *ret, struct error *err)
{
	uint64_t number;
	if (look_up(name, 0, ret))
		return 0;
	if (text_parse_u64(name, &number, NULL) < 0 || number >= UINT32_MAX)
		return error_set(err, -ENOENT, "there is no user '%.63s' on this system", name);
	user_of((uid_t)number, ret);
	return 0;
}

void user_of(uid_t uid, struct user *ret)
{
	if (look_up(NULL, uid, ret))
		return;
	ret->uid = uid;
	ret->gid = (gid_t)uid;
	snprintf(ret->name, sizeof(ret->name), "%u", (unsigned)uid);
}

bool user_find_sudo(struct user *ret)
{
	const char *sudo = geteuid() == 0 ? getenv("SUDO_UID") : NULL;
	uint64_t uid = 0;
	if (!sudo || text_parse_u64(sudo, &uid, NULL) < 0 || !uid || uid >= UINT32_MAX)
		return false;
	user_of((uid_t)uid, ret);
	return true;
}

/* ---- handing over ---- */

struct hand_over {
	const struct user *user;
	dev_t device;
	struct error *err;
};

static int refuse(const struct hand_over *h, const char *path, const char *why)
{
	return error_set(h->err, -EPERM, "%s cannot be given to user %s: %s; change its owner by hand, or give --user root",
			 path, h->user->name, why);
}

static int give(const struct hand_over *h, int fd, const struct stat *status, const char *path)
{
	if (status->st_uid == h->user->uid)
		return 0;
	if (status->st_uid != 0)
		return refuse(h, path, "it belongs to somebody else");
	if (fchownat(fd, "", h->user->uid, h->user->gid, AT_EMPTY_PATH) < 0)
		return error_set_errno(h->err, -errno, "cannot change the owner of %s to user %s", path, h->user->name);
	return 0;
}

static bool only_root_writes(const struct stat *directory)
{
	return directory->st_uid == 0 && !(directory->st_mode & (S_IWGRP | S_IWOTH));
}

/* lost+found is what every new ext4 has, and root's for good. */
static bool is_skipped(const char *name)
{
	return strcmp(name, ".") == 0 || strcmp(name, "..") == 0 || strcmp(name, "lost+found") == 0;
}

static int give_tree(const struct hand_over *h, int fd, const char *path, unsigned depth);

static int give_entry(const struct hand_over *h, int parent, const struct stat *parent_status, const char *name,
		      const char *path, unsigned depth)
{
	struct stat status;
	_cleanup_(fd_closep) int fd = openat(parent, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return errno == ENOENT ? 0 : error_set_errno(h->err, -errno, "cannot open %s", path);
	if (fstat(fd, &status) < 0)
		return error_set_errno(h->err, -errno, "cannot open %s", path);
	if (S_ISLNK(status.st_mode))
		return 0; /* whoever reads it follows it as that user */
	if (status.st_dev != h->device)
		return refuse(h, path, "another file system is mounted there");
	if (S_ISDIR(status.st_mode)) {
		_cleanup_(fd_closep) int directory = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		return directory < 0 ? error_set_errno(h->err, -errno, "cannot open %s", path)
				     : give_tree(h, directory, path, depth);
	}
	if (!S_ISREG(status.st_mode))
		return 0;
	if (status.st_nlink > 1 && status.st_uid != h->user->uid && !only_root_writes(parent_status))
		return refuse(h, path, "it has a second name (hard link)");
	return give(h, fd, &status, path);
}

/* The directory behind fd, after what is in it. */
static int give_tree(const struct hand_over *h, int fd, const char *path, unsigned depth)
{
	char below[4096];
	struct stat status;
	int r = 0;
	if (depth >= DEPTH_MAX)
		return refuse(h, path, "too many directories are inside each other");
	if (fstat(fd, &status) < 0)
		return error_set_errno(h->err, -errno, "cannot open %s", path);
	if (status.st_dev != h->device)
		return refuse(h, path, "another file system is mounted there");
	_cleanup_(dir_closep) DIR *directory = io_open_dir_at(fd, ".");
	if (!directory)
		return error_set_errno(h->err, -errno, "cannot read %s", path);
	const struct dirent *entry;
	while (r == 0 && (entry = readdir(directory))) {
		if (is_skipped(entry->d_name))
			continue;
		r = io_join_path(below, sizeof(below), path, entry->d_name);
		r = r < 0 ? refuse(h, path, "a path in it is too long")
			  : give_entry(h, fd, &status, entry->d_name, below, depth + 1);
	}
	return r < 0 ? r : give(h, fd, &status, path);
}

static bool matches(const char *name, const char *const *patterns)
{
	for (; *patterns; patterns++)
		if (fnmatch(*patterns, name, 0) == 0)
			return true;
	return false;
}

/* Whether it is empty, or has something of one of the names. */
static bool is_recognised(int fd, const char *const *patterns)
{
	bool is_empty = true;
	_cleanup_(dir_closep) DIR *directory = io_open_dir_at(fd, ".");
	const struct dirent *entry;
	while (directory && (entry = readdir(directory))) {
		if (is_skipped(entry->d_name))
			continue;
		if (matches(entry->d_name, patterns))
			return true;
		is_empty = false;
	}
	return directory && is_empty;
}

/* The way to it is everybody's, since the user has to get there. */
static int make_directory(const char *directory, struct error *err)
{
	char above[4096];
	const char *slash = strrchr(directory, '/');
	size_t len = slash ? (size_t)(slash - directory) : 0;
	if (len >= sizeof(above))
		return error_set_errno(err, -ENAMETOOLONG, "cannot make %.100s...", directory);
	memcpy(above, directory, len);
	above[len] = '\0';
	int r = len ? io_make_dirs(above, 0755, err) : 0;
	return r < 0 ? r : io_make_dirs(directory, 0750, err);
}

int user_hand_over(const struct user *user, const char *directory, const char *const *patterns, struct error *err)
{
	struct stat status;
	struct hand_over h = {.user = user, .err = err};
	int r = make_directory(directory, err);
	if (r < 0)
		return r;
	_cleanup_(fd_closep) int fd = io_open(directory, O_RDONLY | O_DIRECTORY, 0, err);
	if (fd < 0)
		return fd;
	if (fstat(fd, &status) < 0)
		return error_set_errno(err, -errno, "cannot open %s", directory);
	h.device = status.st_dev;
	if (status.st_uid == 0 && !is_recognised(fd, patterns))
		return refuse(&h, directory, "it has something in it, but nothing of wick's");
	return give_tree(&h, fd, directory, 0);
}

/* ---- whose way it is ---- */

#define LINKS_MAX 16

/* entry: what is looked for in it. */
static bool is_roots(const struct stat *directory, const struct stat *entry)
{
	if (!S_ISDIR(directory->st_mode) || directory->st_uid != 0)
		return false;
	return !(directory->st_mode & (S_IWGRP | S_IWOTH)) || ((directory->st_mode & S_ISVTX) && entry->st_uid == 0);
}

/* The path with the link that its first `end` bytes lead to resolved once; false if it is too long. */
static bool follow(const char *path, size_t end, char out[static PATH_MAX])
{
	char link[PATH_MAX], target[PATH_MAX];
	snprintf(link, sizeof(link), "%.*s", (int)end, path);
	ssize_t len = readlink(link, target, sizeof(target) - 1);
	if (len <= 0)
		return false;
	target[len] = '\0';
	size_t above = (size_t)(strrchr(link, '/') - link) + 1;
	int n = snprintf(out, PATH_MAX, "%.*s%s%s", *target == '/' ? 0 : (int)above, link, target, path + end);
	return n > 0 && n < PATH_MAX;
}

/* 1 = yes, 0 = no, 2 = there is a link on the way: *out is the path behind it. */
static int walk_way(const char *path, char out[static PATH_MAX])
{
	char part[PATH_MAX];
	struct stat above, entry;
	if (stat("/", &above) < 0)
		return 0;
	for (size_t end = 0; path[end];) {
		end += strspn(path + end, "/");
		size_t name = strcspn(path + end, "/");
		if (name == 0)
			break;
		end += name;
		snprintf(part, sizeof(part), "%.*s", (int)end, path);
		if (lstat(part, &entry) < 0 || !is_roots(&above, &entry))
			return 0;
		if (S_ISLNK(entry.st_mode))
			return follow(path, end, out) ? 2 : 0;
		above = entry;
	}
	return 1;
}

bool user_only_root_decides(const char *path)
{
	char way[PATH_MAX], next[PATH_MAX];
	if (*path == '/')
		snprintf(next, sizeof(next), "/");
	else if (!getcwd(next, sizeof(next)))
		return false;
	if (snprintf(way, sizeof(way), "%s/%s", next, path) >= (int)sizeof(way))
		return false;
	for (int links = 0; links < LINKS_MAX; links++) {
		int r = walk_way(way, next);
		if (r < 2)
			return r == 1;
		memcpy(way, next, sizeof(way));
	}
	return false;
}

/* ---- becoming ---- */

static bool is_kept(cap_value_t capability, const cap_value_t *kept, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (kept[i] == capability)
			return true;
	return false;
}

/* Needs CAP_SETPCAP; without it nothing can be gained by exec that the file does not give, which no_new_privs prevents. */
static void drop_bounding(const cap_value_t *kept, size_t count)
{
	for (cap_value_t capability = 0; capability <= CAP_LAST_CAP; capability++)
		if (!is_kept(capability, kept, count))
			prctl(PR_CAPBSET_DROP, capability, 0, 0, 0);
	prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
}

static int set_capabilities(const cap_value_t *kept, size_t count)
{
	cap_t now = cap_get_proc(), wanted = cap_init();
	int r = now && wanted ? 0 : -ENOMEM;
	for (size_t i = 0; i < count && r == 0; i++) {
		cap_flag_value_t there = CAP_CLEAR;
		if (cap_get_flag(now, kept[i], CAP_PERMITTED, &there) < 0 || there != CAP_SET)
			continue;
		if (cap_set_flag(wanted, CAP_PERMITTED, 1, &kept[i], CAP_SET) < 0 ||
		    cap_set_flag(wanted, CAP_EFFECTIVE, 1, &kept[i], CAP_SET) < 0)
			r = -errno;
	}
	/* Where there is nothing to give up, a filter may forbid capset(). */
	if (r == 0 && cap_compare(now, wanted) != 0 && cap_set_proc(wanted) < 0)
		r = -errno;
	cap_free(now);
	cap_free(wanted);
	return r;
}

int user_keep_capabilities(const cap_value_t *kept, size_t count, struct error *err)
{
	drop_bounding(kept, count);
	int r = set_capabilities(kept, count);
	return r < 0 ? error_set_errno(err, r, "cannot drop capabilities") : 0;
}

/* Those that the system gives the user; a static program cannot ask, and has the one of the user alone. */
static int set_groups(const struct user *user)
{
#ifdef WICK_STATIC
	return setgroups(0, NULL);
#else
	struct user named;
	return look_up(user->name, 0, &named) && named.uid == user->uid ? initgroups(user->name, user->gid)
									: setgroups(0, NULL);
#endif
}

int user_become(const struct user *user, const cap_value_t *kept, size_t count, struct error *err)
{
	if (geteuid() != 0 || user->uid == 0)
		return user_keep_capabilities(kept, count, err);
	drop_bounding(kept, count);
	if (prctl(PR_SET_KEEPCAPS, count > 0, 0, 0, 0) < 0 || set_groups(user) < 0 ||
	    setresgid(user->gid, user->gid, user->gid) < 0 || setresuid(user->uid, user->uid, user->uid) < 0)
		return error_set_errno(err, -errno, "cannot become user %s", user->name);
	prctl(PR_SET_KEEPCAPS, 0, 0, 0, 0);
	int r = set_capabilities(kept, count);
#if defined(__SANITIZE_ADDRESS__) /* the search for leaks traces the process */
	prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);
#endif
	return r < 0 ? error_set_errno(err, r, "cannot drop capabilities") : 0;
}
