/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Git repositories, read for somebody who sends a URL, a name and a path, all of which may be chosen to do harm.
 *
 * Where. A repository is below the directory that the operator named, and found by openat2() with RESOLVE_BENEATH: neither ".."
 * nor a symbolic link leads out, and no file of any kind is opened by a path from a request. Components of a URL are letters,
 * digits, '.', '-' and '_', and do not begin with a dot.
 *
 * What. Paths are looked up in the tree of a commit, which has no "..", and symbolic links there are objects that hold a text:
 * only regular files are returned. Names of commits are letters, digits, '.', '_', '-' and '/', so that git can take none for
 * an option, a range or a path.
 *
 * How. By the `git` command in a process of its own, with an environment that is made here: GIT_DIR is the directory that was
 * opened, no configuration of the system or of a user is read, nothing is fetched, no replaced objects, paths are no patterns.
 * Used are rev-parse, ls-tree and cat-file, which run no hooks, filters, pagers or signature checks, whatever the repository's
 * own configuration says. What a process writes is bounded, and it is killed after ten seconds. The size of a file is known
 * before it is read.
 *
 * Rejected: libgit2. It would parse packs, which may come from anywhere, in the server's own address space, and the server
 * would depend on it for a feature that is off by default.
 */
#include "server/pyroscope/git.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/io.h"
#include "base/text.h"
#include "base/time.h"

#define RUN_NS	      (10 * NS_PER_S)
#define POLL_MS	      100
#define ARGUMENTS_MAX (GIT_PATHS_MAX + 16)
#define PARTS_MAX     8
#define PATH_MAX_HERE 1024
#define LIST_MAX      (256u * 1024)
#define COMMIT_MAX    (1024u * 1024)
#define REF_MAX	      256

/* ---- a process ---- */

static const char *const environment[] = {"PATH=/usr/bin:/bin",	     "LC_ALL=C",
					  "HOME=/nonexistent",	     "GIT_DIR=.",
					  "GIT_CONFIG_NOSYSTEM=1",   "GIT_CONFIG_GLOBAL=/dev/null",
					  "GIT_ATTR_NOSYSTEM=1",     "GIT_ALLOW_PROTOCOL=none",
					  "GIT_NO_LAZY_FETCH=1",     "GIT_NO_REPLACE_OBJECTS=1",
					  "GIT_LITERAL_PATHSPECS=1", "GIT_OPTIONAL_LOCKS=0",
					  "GIT_TERMINAL_PROMPT=0",   NULL};

static int spawn(const struct git *git, const char *const *arguments, int output, pid_t *ret, struct error *err)
{
	posix_spawn_file_actions_t actions;
	posix_spawnattr_t attributes;
	sigset_t none, defaults;
	sigemptyset(&none);
	sigfillset(&defaults);
	posix_spawn_file_actions_init(&actions);
	posix_spawnattr_init(&attributes);
	posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
	posix_spawnattr_setsigmask(&attributes, &none);
	posix_spawnattr_setsigdefault(&attributes, &defaults);
	posix_spawn_file_actions_addfchdir_np(&actions, git->directory);
	posix_spawn_file_actions_adddup2(&actions, output, STDOUT_FILENO);
	posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
	posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
	int code = posix_spawn(ret, "/usr/bin/git", &actions, &attributes, (char *const *)(uintptr_t)arguments,
			       (char *const *)(uintptr_t)environment);
	posix_spawnattr_destroy(&attributes);
	posix_spawn_file_actions_destroy(&actions);
	if (code == ENOENT)
		return error_set(err, -ENOSYS, "git is not installed on the server (/usr/bin/git)");
	return code == 0 ? 0 : error_set(err, -EIO, "cannot run git: %s", strerror(code));
}

/* All of the output, until its end. */
static int read_output(const struct git *git, int fd, struct buffer *out, struct error *err)
{
	int64_t until_ns = time_monotonic_ns() + RUN_NS;
	for (;;) {
		struct pollfd wait = {.fd = fd, .events = POLLIN};
		uint8_t block[65536];
		if (cancel_requested(git->cancel))
			return error_set(err, -ECANCELED, "the client disconnected");
		if (time_monotonic_ns() >= until_ns)
			return error_set(err, -ETIME, "git took longer than %d s", (int)(RUN_NS / NS_PER_S));
		if (poll(&wait, 1, POLL_MS) <= 0)
			continue;
		ssize_t n = read(fd, block, sizeof(block));
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n < 0 ? error_set(err, -EIO, "cannot read from git: %s", strerror(errno)) : 0;
		int r = buffer_append(out, block, (size_t)n);
		if (r < 0)
			return r == -E2BIG ? error_set(err, r, "git returned more than %zu bytes", out->max) : error_nomem(err);
	}
}

/* arguments: NULL behind the last. 0, or 1: git says that there is no such thing. */
static int run(const struct git *git, const char *const *arguments, struct buffer *out, struct error *err)
{
	_cleanup_(fd_closep) int from = -1;
	_cleanup_(fd_closep) int to = -1;
	int pipes[2], status = 0;
	pid_t pid;
	if (pipe2(pipes, O_CLOEXEC) < 0)
		return error_set(err, -EIO, "no pipe: %s", strerror(errno));
	from = pipes[0];
	to = pipes[1];
	int r = spawn(git, arguments, to, &pid, err);
	if (r < 0)
		return r;
	close(to);
	to = -1;
	r = read_output(git, from, out, err);
	if (r < 0)
		kill(-pid, SIGKILL);
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	if (r < 0)
		return r;
	return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : 1;
}

/* ---- the repository ---- */

static bool is_made_of(const char *text, size_t len, const char *others)
{
	for (size_t i = 0; i < len; i++)
		if (!((text[i] >= 'a' && text[i] <= 'z') || (text[i] >= 'A' && text[i] <= 'Z') ||
		      (text[i] >= '0' && text[i] <= '9') || strchr(others, text[i])))
			return false;
	return len > 0;
}

/* "https://HOST/OWNER/NAME.git" and "git@HOST:OWNER/NAME" as HOST, OWNER, NAME. */
static int split_url(const char *url, struct bytes parts[static PARTS_MAX], size_t *ret_count, struct error *err)
{
	const char *scheme = strstr(url, "://"), *at = scheme ? scheme + 3 : url, *user = strchr(at, '@');
	size_t count = 0;
	if (user && strcspn(at, "/") > (size_t)(user - at))
		at = user + 1;
	while (*at) {
		size_t len = strcspn(at, count == 0 && !scheme ? ":/" : "/");
		const char *next = at + len + (at[len] != 0);
		if (!*next && len > 4 && memcmp(at + len - 4, ".git", 4) == 0)
			len -= 4;
		if (count == 0 && scheme) /* a port is no part of the name */
			len = strcspn(at, ":") < len ? strcspn(at, ":") : len;
		if (count == PARTS_MAX || !is_made_of(at, len, ".-_") || *at == '.' || len > 100)
			return error_set(err, -EINVAL, "'%.200s' is not the URL of a repository: https://HOST/OWNER/NAME", url);
		parts[count++] = (struct bytes){(const uint8_t *)at, len};
		at = next;
	}
	*ret_count = count;
	return count ? 0 : error_set(err, -EINVAL, "the URL of the repository is missing");
}

static int open_below(int directory, const char *path)
{
	struct open_how how = {.flags = O_PATH | O_DIRECTORY | O_CLOEXEC, .resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS};
	int fd = (int)syscall(SYS_openat2, directory, path, &how, sizeof(how));
	return fd < 0 ? -errno : fd;
}

/* The part that GIT_DIR is: that of a working tree is its .git, which must be a directory, since as a file it leads elsewhere.
 */
static int open_git_dir(int root, const char *path)
{
	char inner[PATH_MAX_HERE + 8];
	snprintf(inner, sizeof(inner), "%s/.git", path);
	_cleanup_(fd_closep) int fd = open_below(root, inner);
	if (fd == -ENOENT)
		fd = open_below(root, path);
	if (fd >= 0 && faccessat(fd, "objects", F_OK, 0) < 0)
		return -ENOENT; /* a directory, but of something else */
	return fd >= 0 ? fd_take(&fd) : fd;
}

static int find_directory(int root, const struct bytes *parts, size_t count)
{
	int best = -ENOENT;
	for (size_t first = 0; first < count; first++) {
		char path[PATH_MAX_HERE] = "";
		size_t at = 0;
		for (size_t i = first; i < count; i++)
			at += (size_t)snprintf(path + at, sizeof(path) - at, "%s%.*s", at ? "/" : "", (int)parts[i].len,
					       (const char *)parts[i].data);
		for (int ending = 0; ending < 2; ending++) {
			if (ending)
				snprintf(path + at, sizeof(path) - at, ".git");
			int fd = open_git_dir(root, path);
			if (fd >= 0)
				return fd;
			best = fd == -EXDEV ? fd : best;
		}
	}
	return best;
}

int git_open(const char *root, const char *url, const atomic_bool *cancel, struct git *ret, struct error *err)
{
	struct bytes parts[PARTS_MAX];
	size_t count;
	int r = split_url(url, parts, &count, err);
	if (r < 0)
		return r;
	_cleanup_(fd_closep) int top = open(root, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (top < 0)
		return error_set(err, -EIO, "cannot open vcs.directory %s: %s", root, strerror(errno));
	int fd = find_directory(top, parts, count);
	if (fd == -EXDEV)
		return error_set(err, -EACCES, "repository '%.200s' lies outside vcs.directory", url);
	if (fd < 0)
		return error_set(err, -ENOENT, "no repository '%.200s' in vcs.directory", url);
	*ret = (struct git){.directory = fd, .cancel = cancel};
	return 0;
}

void git_close(struct git *git)
{
	io_close(git->directory);
	git->directory = -1;
}

/* ---- commits ---- */

static bool is_sha(struct bytes text)
{
	if (text.len != 40 && text.len != GIT_SHA_SIZE - 1)
		return false;
	for (size_t i = 0; i < text.len; i++)
		if (!memchr("0123456789abcdef", text.data[i], 16))
			return false;
	return true;
}

int git_find_commit(const struct git *git, const char *ref, char out[static GIT_SHA_SIZE], struct error *err)
{
	_cleanup_(buffer_release) struct buffer text = {.max = 256};
	char name[REF_MAX + 16];
	size_t len = strlen(ref);
	if (len == 0)
		ref = "HEAD";
	else if (len > REF_MAX || !is_made_of(ref, len, "._-/") || *ref == '-' || strstr(ref, ".."))
		return error_set(err, -EINVAL, "'%.100s' is not a name of a commit", ref);
	snprintf(name, sizeof(name), "%s^{commit}", ref);
	const char *const arguments[] = {"git", "rev-parse", "--verify", "--quiet", "--end-of-options", name, NULL};
	int r = run(git, arguments, &text, err);
	if (r < 0)
		return r;
	struct bytes line = buffer_bytes(&text), sha = bytes_take_line(&line);
	if (r > 0 || !is_sha(sha))
		return error_set(err, -ENOENT, "no commit '%.100s'", ref);
	memcpy(out, sha.data, sha.len);
	out[sha.len] = 0;
	return 0;
}

/* "NAME <MAIL> SECONDS +HHMM" */
static void take_author(struct bytes line, struct git_commit *ret)
{
	const char *text = (const char *)line.data, *mail = memchr(text, '<', line.len), *end = memrchr(text, '>', line.len);
	int64_t seconds = 0;
	int hours = 0, minutes = 0;
	char sign = '+', rest[64] = "";
	if (!mail || !end || end < mail)
		return;
	size_t len = (size_t)(mail - text);
	while (len && text[len - 1] == ' ')
		len--;
	snprintf(ret->author, sizeof(ret->author), "%.*s",
		 (int)text_cut((struct bytes){line.data, len}, sizeof(ret->author) - 1), text);
	snprintf(rest, sizeof(rest), "%.*s", (int)(line.len - (size_t)(end + 1 - text)), end + 1);
	if (sscanf(rest, " %18ld %c%2d%2d", &seconds, &sign, &hours, &minutes) != 4 || (sign != '+' && sign != '-'))
		return;
	time_t local = (time_t)(seconds + (sign == '-' ? -1 : 1) * (hours * 3600 + minutes * 60));
	struct tm tm;
	if (!gmtime_r(&local, &tm))
		return;
	size_t used = strftime(ret->date, sizeof(ret->date), "%Y-%m-%dT%H:%M:%S", &tm);
	snprintf(ret->date + used, sizeof(ret->date) - used, "%c%02d:%02d", sign, hours, minutes);
}

int git_read_commit(const struct git *git, const char *sha, struct git_commit *ret, struct error *err)
{
	_cleanup_(buffer_release) struct buffer text = {.max = COMMIT_MAX};
	const char *const arguments[] = {"git", "cat-file", "commit", sha, NULL};
	int r = run(git, arguments, &text, err);
	if (r < 0)
		return r;
	if (r > 0)
		return error_set(err, -ENOENT, "no commit '%.64s'", sha);
	struct git_commit commit = {.message.max = COMMIT_MAX * 3 + 1};
	struct bytes rest = buffer_bytes(&text), line;
	while (rest.len > 0 && (line = bytes_take_line(&rest)).len > 0)
		if (line.len > 7 && memcmp(line.data, "author ", 7) == 0)
			take_author((struct bytes){line.data + 7, line.len - 7}, &commit);
	while (rest.len && rest.data[rest.len - 1] == '\n')
		rest.len--;
	if (text_append_utf8(&commit.message, rest) < 0) {
		git_commit_release(&commit);
		return error_nomem(err);
	}
	*ret = commit;
	return 0;
}

void git_commit_release(struct git_commit *commit)
{
	buffer_release(&commit->message);
}

/* ---- files ---- */

/* An entry of `ls-tree -l -z`: "MODE TYPE ID SIZE\tPATH". */
struct entry {
	struct bytes path;
	char sha[GIT_SHA_SIZE];
	uint64_t size;
};

/* False: no regular file. */
static bool parse_entry(struct bytes text, struct entry *ret)
{
	char mode[8], type[8], sha[GIT_SHA_SIZE], size[24], head[160];
	const uint8_t *tab = memchr(text.data, '\t', text.len);
	if (!tab || (size_t)(tab - text.data) >= sizeof(head))
		return false;
	snprintf(head, sizeof(head), "%.*s", (int)(tab - text.data), (const char *)text.data);
	if (sscanf(head, "%7s %7s %64s %23s", mode, type, sha, size) != 4 || strncmp(mode, "100", 3) != 0 ||
	    strcmp(type, "blob") != 0 || !is_sha(bytes_of_string(sha)) || text_parse_u64(size, &ret->size, NULL) < 0)
		return false;
	memcpy(ret->sha, sha, sizeof(sha));
	ret->path = (struct bytes){tab + 1, text.len - (size_t)(tab + 1 - text.data)};
	return true;
}

/* The first of the paths that is among the entries. */
static bool choose(struct bytes list, const char *const *paths, size_t count, size_t *ret_path, struct entry *ret)
{
	*ret_path = count;
	while (list.len > 0) {
		const uint8_t *end = memchr(list.data, 0, list.len);
		size_t len = end ? (size_t)(end - list.data) : list.len;
		struct entry entry;
		if (parse_entry((struct bytes){list.data, len}, &entry))
			for (size_t i = 0; i < *ret_path; i++)
				if (bytes_equal_string(entry.path, paths[i])) {
					*ret_path = i;
					*ret = entry;
				}
		list = (struct bytes){list.data + len + (end != NULL), list.len - len - (end != NULL)};
	}
	return *ret_path < count;
}

int git_read_file(const struct git *git, const char *sha, const char *const *paths, size_t count, size_t *ret_path,
		  struct buffer *out, struct error *err)
{
	_cleanup_(buffer_release) struct buffer list = {.max = LIST_MAX};
	const char *arguments[ARGUMENTS_MAX] = {"git", "ls-tree", "-l", "-z", "--full-tree", sha, "--"};
	size_t used = 7;
	struct entry entry;
	for (size_t i = 0; i < count && i < GIT_PATHS_MAX; i++)
		arguments[used++] = paths[i];
	int r = run(git, arguments, &list, err);
	if (r < 0)
		return r;
	if (r > 0 || !choose(buffer_bytes(&list), paths, count, ret_path, &entry))
		return error_set(err, -ENOENT, "no such file in commit %s", sha);
	if (entry.size > GIT_FILE_MAX)
		return error_set(err, -E2BIG, "%s has %llu bytes, the limit is %u", paths[*ret_path],
				 (unsigned long long)entry.size, GIT_FILE_MAX);
	const char *const read_blob[] = {"git", "cat-file", "blob", entry.sha, NULL};
	r = run(git, read_blob, out, err);
	return r > 0 ? error_set(err, -EIO, "git cannot read %s", paths[*ret_path]) : r;
}
