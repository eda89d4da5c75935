/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd/launch.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/io.h"
#include "cmd/cmd.h"

/* What went wrong in the child, through the pipe. */
struct problem {
	int code;
	bool in_directory;
};

int launch_check_variable(const char *text, struct error *err)
{
	const char *equals = strchr(text, '=');
	if (equals && equals != text)
		return 0;
	return error_set(err, -EINVAL, "--env: '%.40s' is not of the form NAME=VALUE", text);
}

static _Noreturn void give_up(int fd, int code, bool in_directory)
{
	struct problem problem = {.code = code, .in_directory = in_directory};
	io_write(fd, &problem, sizeof(problem), "the start pipe", NULL);
	_exit(LAUNCH_NOT_FOUND);
}

static _Noreturn void become_command(const struct launch *launch, int go_fd, int problem_fd)
{
	char go = 0;
	if (io_read(go_fd, &go, 1, "the start pipe", NULL) != 1)
		_exit(LAUNCH_NOT_FOUND);
	signal(SIGPIPE, SIG_DFL); /* wick itself does without */
	signals_give_back();
	if (launch->output_to_stderr)
		dup2(STDERR_FILENO, STDOUT_FILENO);
	if (launch->directory && chdir(launch->directory) < 0)
		give_up(problem_fd, errno, true);
	for (size_t i = 0; i < launch->environment_count; i++)
		putenv((char *)(uintptr_t)launch->environment[i]);
	execvp(launch->command[0], launch->command);
	give_up(problem_fd, errno, false);
}

int launch_prepare(struct launch *launch, struct error *err)
{
	int go[2], problem[2];
	if (pipe2(go, O_CLOEXEC) < 0)
		return error_set_errno(err, -errno, "cannot create a pipe");
	if (pipe2(problem, O_CLOEXEC) < 0) {
		int r = -errno;
		io_close(go[0]);
		io_close(go[1]);
		return error_set_errno(err, r, "cannot create a pipe");
	}
	fflush(NULL);
	launch->pid = fork();
	if (launch->pid == 0) {
		io_close(go[1]);
		io_close(problem[0]);
		become_command(launch, go[0], problem[1]);
	}
	int r = launch->pid < 0 ? -errno : 0;
	io_close(go[0]);
	io_close(problem[1]);
	launch->go_fd = go[1];
	launch->problem_fd = problem[0];
	if (r == 0)
		return 0;
	launch->pid = 0;
	return error_set_errno(err, r, "cannot start %s", launch->command[0]);
}

int launch_go(struct launch *launch, struct error *err)
{
	struct problem problem = {0};
	int r = io_write(launch->go_fd, "g", 1, "the start pipe", err);
	if (r < 0)
		return r;
	ssize_t n = io_read(launch->problem_fd, &problem, sizeof(problem), "the start pipe", NULL);
	if (n != sizeof(problem)) /* closed by a successful exec */
		return 0;
	launch_wait(launch);
	launch->failed = problem.code == ENOENT && !problem.in_directory ? LAUNCH_NOT_FOUND : LAUNCH_NOT_STARTED;
	if (problem.in_directory)
		return error_set_errno(err, -problem.code, "cannot enter the directory %s", launch->directory);
	return error_set_errno(err, -problem.code, "cannot run %s", launch->command[0]);
}

bool launch_has_ended(struct launch *launch)
{
	if (launch->pid && !launch->ended && waitpid(launch->pid, &launch->status, WNOHANG) == launch->pid)
		launch->ended = true;
	return launch->ended;
}

void launch_wait(struct launch *launch)
{
	while (launch->pid && !launch->ended) {
		pid_t waited = waitpid(launch->pid, &launch->status, 0);
		launch->ended = waited == launch->pid;
		if (waited < 0 && errno != EINTR)
			return;
	}
}

void launch_report(const struct launch *launch)
{
	if (!launch->ended)
		return;
	if (WIFEXITED(launch->status) && WEXITSTATUS(launch->status))
		cmd_printf(stderr, "wick record: %s ended with status %d\n", launch->command[0], WEXITSTATUS(launch->status));
	else if (WIFSIGNALED(launch->status))
		cmd_printf(stderr, "wick record: %s was killed by signal %d (%s)\n", launch->command[0],
			   WTERMSIG(launch->status), strsignal(WTERMSIG(launch->status)));
}

int launch_exit_status(const struct launch *launch)
{
	if (!launch->ended)
		return EXIT_DONE;
	if (WIFEXITED(launch->status))
		return WEXITSTATUS(launch->status);
	if (!WIFSIGNALED(launch->status))
		return EXIT_FAILED;
	int number = WTERMSIG(launch->status);
	struct rlimit no_core = {0};
	sigset_t set;
	setrlimit(RLIMIT_CORE, &no_core); /* one of the command's is enough */
	fflush(NULL);
	signal(number, SIG_DFL);
	sigemptyset(&set);
	sigaddset(&set, number);
	sigprocmask(SIG_UNBLOCK, &set, NULL);
	raise(number);
	return 128 + number;
}

void launch_release(struct launch *launch)
{
	launch->go_fd = io_close(launch->go_fd);
	launch->problem_fd = io_close(launch->problem_fd);
}
