/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/recording_runner.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/capability.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/io.h"
#include "base/text.h"
#include "base/time.h"

#define ARGUMENTS_MAX (26 + 2 * RECORDING_TARGETS_MAX)
#define NUMBER_SIZE   32
#define NUMBERS	      4
#define PREFIX	      "wick-order-"

/*
 * What the agent may, the recorder must be allowed, too. Root keeps it through exec, within the bounding set. Another user,
 * such as that of the systemd unit, loses all but ambient capabilities, of which the agent keeps none for itself; those that
 * are permitted may be made so. System calls only: this is between fork and exec of a process with threads.
 */
static void keep_capabilities(void)
{
	struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3];
	if (syscall(SYS_capget, &header, data) < 0)
		return;
	for (int i = 0; i < _LINUX_CAPABILITY_U32S_3; i++)
		data[i].inheritable = data[i].permitted;
	if (syscall(SYS_capset, &header, data) < 0)
		return;
	for (unsigned long cap = 0; cap < 32 * _LINUX_CAPABILITY_U32S_3; cap++)
		if (data[cap / 32].permitted & 1u << cap % 32)
			prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, cap, 0, 0);
}

static void become_recorder(char *const *arguments, int output_fd)
{
	sigset_t none;
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL); /* threads of ours block all */
	prctl(PR_SET_PDEATHSIG, SIGTERM);
	keep_capabilities();
	dup2(output_fd, STDOUT_FILENO);
	dup2(output_fd, STDERR_FILENO);
	execv("/proc/self/exe", arguments);
	_exit(127);
}

/* Nobody else can make directories of ours, so this is also safe where everybody can make some, as in /tmp. -1 if it is of
 * another user, or in use. */
static int lock_directory(const char *path)
{
	struct stat status;
	int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd >= 0 && (fstat(fd, &status) < 0 || status.st_uid != geteuid() || flock(fd, LOCK_EX | LOCK_NB) < 0))
		fd = io_close(fd);
	return fd;
}

void recording_runner_sweep(const char *below)
{
	char path[PATH_MAX];
	const struct dirent *entry;
	DIR *directory = opendir(below);
	while (directory && (entry = readdir(directory))) {
		if (!text_starts_with(entry->d_name, PREFIX) || io_join_path(path, sizeof(path), below, entry->d_name) < 0)
			continue;
		int fd = lock_directory(path);
		if (fd >= 0)
			io_remove_tree(path, NULL);
		io_close(fd);
	}
	if (directory)
		closedir(directory);
}

static int make_directory(struct recording_runner *runner, const char *below, struct error *err)
{
	int len = snprintf(runner->directory, sizeof(runner->directory), "%s/" PREFIX "XXXXXX", below);
	if (len >= (int)sizeof(runner->directory))
		return error_set(err, -ENAMETOOLONG, "the path of the spool is too long");
	if (!mkdtemp(runner->directory)) {
		int code = -errno;
		error_set_errno(err, code, "cannot create %s", runner->directory);
		runner->directory[0] = 0;
		return code;
	}
	runner->lock_fd = lock_directory(runner->directory); /* where files cannot be locked, nothing is swept either */
	snprintf(runner->path, sizeof(runner->path), "%s/recording.firefox.json.gz", runner->directory);
	return 0;
}

static void list_arguments(const struct recording_runner *runner, const struct recording_request *request,
			   char numbers[NUMBERS][NUMBER_SIZE], const char **list)
{
	static const char *const options[RECORDING_TARGET_KINDS] = {"--unit", "--container", "--cgroup"};
	const char *const first[] = {"wick", "record",	 "-F",	       numbers[0], "-d", numbers[1],
				     "--at", numbers[2], "--max-size", numbers[3], "-o", runner->path};
	size_t count = sizeof(first) / sizeof(*first);
	memcpy(list, first, sizeof(first));
	if (request->no_markers)
		list[count++] = "--no-markers";
	for (size_t i = 0; i < request->target_count; i++) {
		list[count++] = options[request->targets[i].kind];
		list[count++] = request->targets[i].name;
	}
	if (!request->target_count)
		list[count++] = "-a";
	list[count] = NULL;
}

int recording_runner_start(struct recording_runner *runner, const struct recording_request *request, int64_t at_ns,
			   int64_t duration_ns, const char *below, struct error *err)
{
	char numbers[NUMBERS][NUMBER_SIZE];
	const char *arguments[ARGUMENTS_MAX];
	int fds[2];
	*runner = RECORDING_RUNNER_NONE;
	int r = make_directory(runner, below, err);
	if (r < 0)
		return r;
	snprintf(numbers[0], NUMBER_SIZE, "%u", request->frequency_hz);
	snprintf(numbers[1], NUMBER_SIZE, "%lldms", (long long)(duration_ns / NS_PER_MS));
	snprintf(numbers[2], NUMBER_SIZE, "%lld", (long long)at_ns);
	snprintf(numbers[3], NUMBER_SIZE, "%llu", RECORDING_PROFILE_MAX);
	list_arguments(runner, request, numbers, arguments);
	if (pipe2(fds, O_CLOEXEC) < 0)
		return error_set_errno(err, -errno, "cannot create a pipe");
	pid_t pid = fork();
	if (pid == 0)
		become_recorder((char *const *)arguments, fds[1]);
	io_close(fds[1]);
	runner->output_fd = fds[0];
	fcntl(fds[0], F_SETFL, O_NONBLOCK);
	if (pid < 0)
		return error_set_errno(err, -errno, "cannot start the recorder");
	runner->pid = pid;
	return 0;
}

/* Only the end is worth keeping. */
static void read_output(struct recording_runner *runner)
{
	char more[512];
	ssize_t len;
	while ((len = read(runner->output_fd, more, sizeof(more))) > 0) {
		size_t room = sizeof(runner->output) - 1 - runner->output_len;
		if ((size_t)len > room) {
			size_t cut = (size_t)len - room;
			memmove(runner->output, runner->output + cut, runner->output_len - cut);
			runner->output_len -= cut;
		}
		memcpy(runner->output + runner->output_len, more, (size_t)len);
		runner->output_len += (size_t)len;
	}
	runner->output[runner->output_len] = 0;
}

/* The last line that is the recorder's own. */
static const char *reason(struct recording_runner *runner)
{
	static const char name[] = "wick record: ";
	char *found = NULL, *save = NULL;
	for (char *line = strtok_r(runner->output, "\n", &save); line; line = strtok_r(NULL, "\n", &save))
		if (strncmp(line, name, strlen(name)) == 0)
			found = line + strlen(name);
	return found;
}

/* The maximum size that was passed to the recorder. */
static int check_file(const struct recording_runner *runner, struct error *err)
{
	struct stat file;
	if (lstat(runner->path, &file) < 0 || !S_ISREG(file.st_mode))
		return error_set(err, -EIO, "the recorder wrote no profile");
	if ((uint64_t)file.st_size > RECORDING_PROFILE_MAX)
		return error_set(err, -EFBIG, "the profile is larger than %llu MiB", RECORDING_PROFILE_MAX >> 20);
	return 0;
}

int recording_runner_check(struct recording_runner *runner, struct error *err)
{
	int status;
	pid_t ended = waitpid(runner->pid, &status, WNOHANG);
	read_output(runner);
	if (ended == 0)
		return 1;
	runner->pid = 0;
	if (ended > 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0)
		return check_file(runner, err);
	const char *why = reason(runner);
	if (why)
		return error_set(err, -EIO, "%s", why);
	if (ended > 0 && WIFSIGNALED(status))
		return error_set(err, -EIO, "the recorder was killed by signal %d", WTERMSIG(status));
	return error_set(err, -EIO, "the recorder failed without a message");
}

void recording_runner_release(struct recording_runner *runner)
{
	if (runner->pid > 0) {
		kill(runner->pid, SIGKILL);
		waitpid(runner->pid, NULL, 0);
	}
	io_close(runner->output_fd);
	if (runner->directory[0])
		io_remove_tree(runner->directory, NULL);
	io_close(runner->lock_fd);
	*runner = RECORDING_RUNNER_NONE;
}
