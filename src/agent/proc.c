/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/proc.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/io.h"

static void make_path(pid_t pid, pid_t tid, const char *file, char *out, size_t size)
{
	if (tid)
		snprintf(out, size, "/proc/%d/task/%d/%s", (int)pid, (int)tid, file);
	else
		snprintf(out, size, "/proc/%d/%s", (int)pid, file);
}

/* "PID (NAME) STATE ...": numbers, and a name of up to 64 bytes. */
bool proc_read_stat(pid_t pid, pid_t tid, struct proc_stat *ret)
{
	char path[64], text[1024];
	unsigned long long user, system, start;
	int parent;
	make_path(pid, tid, "stat", path, sizeof(path));
	if (io_read_text(path, text, sizeof(text)) <= 0)
		return false;
	char *begin = strchr(text, '('), *end = strrchr(text, ')');
	if (!begin || !end || end < begin)
		return false;
	*end = 0;
	snprintf(ret->name, sizeof(ret->name), "%s", begin + 1);
	/* state ppid pgrp session tty tpgid flags minflt cminflt majflt cmajflt utime stime cutime cstime priority nice threads
	 * itrealvalue starttime vsize rss */
	if (sscanf(end + 1, " %c %d %*d %*d %*d %*d %u %*u %*u %*u %*u %llu %llu %*d %*d %*d %*d %ld %*d %llu %*u %ld",
		   &ret->state, &parent, &ret->flags, &user, &system, &ret->threads, &start, &ret->rss_pages) != 8)
		return false;
	ret->parent = parent;
	ret->user_ticks = user;
	ret->system_ticks = system;
	ret->start_ticks = start;
	return true;
}

DIR *proc_open_processes(void)
{
	return opendir("/proc");
}

DIR *proc_open_threads(pid_t pid)
{
	char path[64];
	make_path(pid, 0, "task", path, sizeof(path));
	return opendir(path);
}

pid_t proc_next(DIR *list)
{
	const struct dirent *entry;
	while (list && (entry = readdir(list))) {
		char *end;
		long id = strtol(entry->d_name, &end, 10);
		if (!*end && id > 0 && id <= INT32_MAX)
			return (pid_t)id;
	}
	return 0;
}

pid_t proc_own_id(pid_t pid, pid_t tid)
{
	char path[64], line[1024];
	pid_t own = 0;
	make_path(pid, tid, "status", path, sizeof(path));
	_cleanup_(file_closep) FILE *file = fopen(path, "re");
	while (file && own == 0 && fgets(line, sizeof(line), file)) {
		const char *last = strrchr(line, '\t');
		if (strncmp(line, "NSpid:", 6) == 0 && last)
			own = (pid_t)strtol(last, NULL, 10);
	}
	return own;
}

ssize_t proc_read_memory(pid_t pid, uint64_t address, void *to, size_t bytes)
{
	struct iovec ours = {to, bytes}, theirs = {(void *)(uintptr_t)address, bytes};
	ssize_t n = process_vm_readv(pid, &ours, 1, &theirs, 1, 0);
	return n < 0 ? -errno : n;
}
