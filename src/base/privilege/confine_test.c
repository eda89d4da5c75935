// SPDX-License-Identifier: Apache-2.0
#include "base/privilege/confine.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/thread.h"

#define SKIPPED 77

/* Runs it in a process of its own, since nothing of it can be taken back; its status. What it writes to stderr is in out. */
static int run(int (*body)(const char *directory), const char *directory, char *out, size_t size)
{
	int ends[2], status;
	size_t len = 0;
	assert_int_equal(pipe(ends), 0);
	pid_t pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		dup2(ends[1], STDERR_FILENO);
		close(ends[0]);
		_exit(body(directory));
	}
	close(ends[1]);
	for (ssize_t n; len < size - 1 && (n = read(ends[0], out + len, size - 1 - len)) > 0;)
		len += (size_t)n;
	out[len] = '\0';
	close(ends[0]);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

static int enter(void)
{
	static const struct confine_calls calls = {0};
	return confine_no_new_privileges(NULL) < 0 ? 1 : confine_calls(&calls, NULL) < 0 ? SKIPPED : 0;
}

static void *try_chroot(void *context)
{
	*(int *)context = chroot("/") < 0 ? errno : 0;
	return NULL;
}

/* In the main thread, and in one of those that block all signals: an error and a line, not the end. */
static int refused_calls(const char *directory)
{
	int r = enter(), from_thread = 0;
	pthread_t thread;
	if (r != 0)
		return r;
	for (int i = 0; i < 3; i++)
		if (syscall(SYS_swapoff, "/nothing") != -1 || errno != EPERM)
			return 2;
	if (thread_start(&thread, "t", try_chroot, &from_thread, NULL) < 0)
		return 3;
	pthread_join(thread, NULL);
	return from_thread == EPERM ? 0 : 4;
}

static void test_refused(void **state)
{
	char out[4096];
	int status = run(refused_calls, NULL, out, sizeof(out));
	if (status == SKIPPED)
		skip();
	assert_int_equal(status, 0);
	const char *line = strstr(out, "the system call swapoff (");
	assert_non_null(line);
	assert_null(strstr(line + strlen("the system call swapoff ("), "swapoff ("));
	assert_non_null(strstr(out, "the system call chroot ("));
	assert_non_null(strstr(out, "--no-sandbox"));
}

/* What servers do goes on: threads, processes, sockets, files. */
static int allowed_calls(const char *directory)
{
	char name[256];
	int status, r = enter();
	if (r != 0)
		return r;
	snprintf(name, sizeof(name), "%s/file", directory);
	int fd = open(name, O_RDWR | O_CREAT, 0600), socket_fd = socket(AF_INET, SOCK_STREAM, 0);
	if (fd < 0 || write(fd, "x", 1) != 1 || fsync(fd) < 0 || socket_fd < 0 || listen(socket_fd, 1) < 0)
		return 2;
	pid_t pid = fork();
	if (pid == 0) {
		execl("/bin/true", "true", NULL);
		_exit(1);
	}
	if (waitpid(pid, &status, 0) != pid || !WIFEXITED(status) || WEXITSTATUS(status) != 0)
		return 3;
	return 0;
}

/* Without a line: what libraries try. */
static int quiet_calls(const char *directory)
{
	int r = enter();
	if (r != 0)
		return r;
	if (socket(AF_NETLINK, SOCK_RAW, 0) >= 0 || errno != EAFNOSUPPORT)
		return 2;
	if (syscall(SYS_io_uring_setup, 1, NULL) >= 0 || errno != ENOSYS)
		return 3;
	return 0;
}

static void make_directory(char path[static 64])
{
	snprintf(path, 64, "/tmp/wick-confine-XXXXXX");
	assert_non_null(mkdtemp(path));
}

static void remove_directory(const char *path)
{
	char command[128];
	snprintf(command, sizeof(command), "rm -rf %s", path);
	assert_int_equal(system(command), 0);
}

static void test_allowed(void **state)
{
	char directory[64], out[1024];
	make_directory(directory);
	int status = run(allowed_calls, directory, out, sizeof(out));
	remove_directory(directory);
	if (status == SKIPPED)
		skip();
	assert_int_equal(status, 0);
	assert_string_equal(out, "");
	assert_int_equal(run(quiet_calls, NULL, out, sizeof(out)), 0);
	assert_string_equal(out, "");
}

/* directory/in may be written to, directory/out only be read. */
static int confined_files(const char *directory)
{
	char in[128], out[128], name[160], to[160];
	snprintf(in, sizeof(in), "%s/in", directory);
	snprintf(out, sizeof(out), "%s/out", directory);
	const struct confine_path paths[] = {
		{"/", CONFINE_READ}, {in, CONFINE_WRITE}, {NULL, CONFINE_WRITE}, {"/nothing/there", CONFINE_WRITE}};
	if (confine_no_new_privileges(NULL) < 0)
		return 1;
	int r = confine_files(paths, 4, NULL);
	if (r == CONFINE_ABSENT)
		return SKIPPED;
	if (r < 0)
		return 2;
	snprintf(name, sizeof(name), "%s/a", in);
	if (open(name, O_WRONLY | O_CREAT, 0600) < 0)
		return 3;
	snprintf(to, sizeof(to), "%s/below", in);
	if (mkdir(to, 0700) < 0)
		return 4;
	snprintf(to, sizeof(to), "%s/below/b", in);
	if (rename(name, to) < 0 || unlink(to) < 0)
		return 5;
	snprintf(name, sizeof(name), "%s/there", out);
	if (open(name, O_RDONLY) < 0)
		return 6;
	if (open(name, O_WRONLY) >= 0 || errno != EACCES || unlink(name) >= 0 || errno != EACCES)
		return 7;
	snprintf(name, sizeof(name), "%s/new", out);
	if (open(name, O_WRONLY | O_CREAT, 0600) >= 0 || errno != EACCES)
		return 8;
	execl("/bin/true", "true", NULL);
	return errno == EACCES ? 0 : 9;
}

static void test_files(void **state)
{
	char directory[64], name[128], out[1024];
	make_directory(directory);
	snprintf(name, sizeof(name), "%s/in", directory);
	assert_int_equal(mkdir(name, 0700), 0);
	snprintf(name, sizeof(name), "%s/out", directory);
	assert_int_equal(mkdir(name, 0700), 0);
	snprintf(name, sizeof(name), "%s/out/there", directory);
	int fd = open(name, O_WRONLY | O_CREAT, 0600);
	assert_true(fd >= 0);
	close(fd);
	int status = run(confined_files, directory, out, sizeof(out));
	remove_directory(directory);
	if (status == SKIPPED)
		skip();
	assert_int_equal(status, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_refused),
		cmocka_unit_test(test_allowed),
		cmocka_unit_test(test_files),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
