/* SPDX-License-Identifier: Apache-2.0 */
/* Images of reports, which Graphviz draws, and files that a browser shows. */
#include <errno.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/io.h"
#include "base/limits.h"
#include "cmd/open.h"
#include "cmd/report.h"

#define IMAGE_BYTES_MAX (1 * GIB)

extern char **environ;

/* A file in memory: dot reads all before it writes, and nobody has to wait for two pipes at once. */
static int memory_file(struct bytes contents, struct error *err)
{
	_cleanup_(fd_closep) int fd = memfd_create("wick-report", MFD_CLOEXEC);
	if (fd < 0)
		return error_set_errno(err, -errno, "cannot make a file in memory");
	int r = io_write(fd, contents.data, contents.len, "a file in memory", err);
	if (r == 0 && lseek(fd, 0, SEEK_SET) < 0)
		r = error_set_errno(err, -errno, "cannot rewind a file in memory");
	return r < 0 ? r : fd_take(&fd);
}

static int run_dot(const char *format, int in, int out, struct error *err)
{
	char option[16];
	snprintf(option, sizeof(option), "-T%s", format);
	char *const argv[] = {(char *)(uintptr_t) "dot", option, NULL};
	posix_spawn_file_actions_t actions;
	pid_t pid;
	int status, r = posix_spawn_file_actions_init(&actions);
	if (r != 0)
		return error_nomem(err);
	posix_spawn_file_actions_adddup2(&actions, in, STDIN_FILENO);
	posix_spawn_file_actions_adddup2(&actions, out, STDOUT_FILENO);
	r = posix_spawnp(&pid, argv[0], &actions, NULL, argv, environ);
	posix_spawn_file_actions_destroy(&actions);
	if (r == ENOENT)
		return error_set(
			err, -ENOENT,
			"dot is not installed, which draws the graph: install Graphviz (Debian: apt install graphviz), or "
			"let wick convert draw a flame graph: wick convert IN -o OUT.svg");
	if (r != 0)
		return error_set_errno(err, -r, "cannot run dot");
	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return error_set_errno(err, -errno, "cannot wait for dot");
	if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
		return error_set(err, -EIO, "dot failed; try fewer functions: --nodecount");
	return 0;
}

int report_draw(struct bytes dot, const char *format, struct buffer *ret, struct error *err)
{
	_cleanup_(fd_closep) int in = memory_file(dot, err);
	_cleanup_(fd_closep) int out = in < 0 ? -1 : memory_file((struct bytes){0}, err);
	uint64_t size = 0;
	if (in < 0 || out < 0)
		return in < 0 ? in : out;
	int r = run_dot(format, in, out, err);
	if (r == 0)
		r = io_file_size(out, &size, "dot's output", err);
	if (r < 0)
		return r;
	if (size > IMAGE_BYTES_MAX || buffer_reserve(ret, size) < 0)
		return error_set(err, -E2BIG, "the image of %llu bytes is too large", (unsigned long long)size);
	ssize_t got = io_pread(out, ret->data + ret->len, size, 0, "dot's output", err);
	if (got < 0)
		return (int)got;
	ret->len += (size_t)got;
	return 0;
}

int report_show(struct bytes contents, const char *suffix, struct error *err)
{
	const char *directory = getenv("TMPDIR");
	char path[4096];
	if (snprintf(path, sizeof(path), "%s/wick-report-XXXXXX%s", directory && *directory ? directory : "/tmp", suffix) >=
	    (int)sizeof(path))
		return error_set(err, -ENAMETOOLONG, "$TMPDIR is too long");
	_cleanup_(fd_closep) int fd = mkstemps(path, (int)strlen(suffix));
	if (fd < 0)
		return error_set_errno(err, -errno, "cannot make %s", path);
	int r = io_write(fd, contents.data, contents.len, path, err);
	if (r < 0) {
		unlink(path);
		return r;
	}
	cmd_printf(stderr, "wick report: written to %s\n", path);
	open_browser("report", path);
	return 0;
}
