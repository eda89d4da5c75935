/* SPDX-License-Identifier: Apache-2.0 */
/* Where the shared files of markers are, and who is who: all from /proc. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/markers/marker_recorder_int.h"
#include "agent/proc.h"
#include "base/io.h"
#include "base/text.h"

#define MAPPED_NAME "/memfd:" WICKMARK_NAME " (deleted)"
#define LINE_BYTES  1024
#define FILES_MAX   4096 /* descriptors of a process that are looked at */

/* The first "START-END" of a line of maps that is the shared file, as map_files calls it, and its inode. */
static bool find_mapping(pid_t pid, char *range, size_t size, unsigned long *ret_inode)
{
	char path[64], line[LINE_BYTES];
	bool found = false;
	snprintf(path, sizeof(path), "/proc/%d/maps", (int)pid);
	_cleanup_(file_closep) FILE *file = fopen(path, "re");
	if (!file)
		return false;
	while (!found && fgets(line, sizeof(line), file)) {
		char *name = strstr(line, MAPPED_NAME "\n");
		int end = 0;
		unsigned long inode;
		if (!name || sscanf(line, "%*[0-9a-f]-%*[0-9a-f]%n %*s %*s %*s %lu", &end, &inode) != 1 || end <= 0 ||
		    (size_t)end >= size)
			continue;
		memcpy(range, line, (size_t)end);
		range[end] = 0;
		*ret_inode = inode;
		found = true;
	}
	return found;
}

/* Needs no more than the right to trace the process; map_files wants an administrator. */
static int open_of_descriptors(pid_t pid, unsigned long inode)
{
	char path[64], name[512];
	int fd = -ENOENT, looked = 0;
	snprintf(path, sizeof(path), "/proc/%d/fd", (int)pid);
	_cleanup_(dir_closep) DIR *dir = opendir(path);
	const struct dirent *entry;
	while (dir && fd < 0 && looked++ < FILES_MAX && (entry = readdir(dir))) {
		char target[sizeof(MAPPED_NAME) + 1];
		snprintf(name, sizeof(name), "/proc/%d/fd/%s", (int)pid, entry->d_name);
		ssize_t len = readlink(name, target, sizeof(target));
		struct stat stat;
		if (len != (ssize_t)strlen(MAPPED_NAME) || memcmp(target, MAPPED_NAME, (size_t)len) != 0)
			continue;
		fd = open(name, O_RDWR | O_CLOEXEC | O_NONBLOCK);
		if (fd >= 0 && (fstat(fd, &stat) < 0 || stat.st_ino != inode))
			fd = io_close(fd);
	}
	return fd < 0 ? -ENOENT : fd;
}

int marker_process_open_file(pid_t pid)
{
	char range[64], path[128];
	unsigned long inode;
	if (!find_mapping(pid, range, sizeof(range), &inode))
		return -ENOENT;
	snprintf(path, sizeof(path), "/proc/%d/map_files/%s", (int)pid, range);
	int fd = open(path, O_RDWR | O_CLOEXEC | O_NONBLOCK);
	return fd >= 0 ? fd : open_of_descriptors(pid, inode);
}

/* 3 is the state, 4 the parent, 22 the start. */
static bool read_stat(pid_t pid, pid_t tid, pid_t *ret_parent, uint64_t *ret_start)
{
	char text[PROC_STAT_BYTES];
	const char *at = proc_read_stat(pid, tid, text, NULL);
	for (int field = 3; at && field <= 22; field++) {
		at = strchr(field == 3 ? at : at + 1, ' ');
		if (at && field == 4)
			*ret_parent = (pid_t)strtol(at, NULL, 10);
	}
	if (!at)
		return false;
	*ret_start = strtoull(at, NULL, 10);
	return true;
}

bool marker_process_read(pid_t pid, pid_t *ret_parent, uint64_t *ret_start)
{
	return read_stat(pid, 0, ret_parent, ret_start);
}

uint64_t marker_process_thread_start(pid_t pid, pid_t tid)
{
	pid_t parent;
	uint64_t start;
	return read_stat(pid, tid, &parent, &start) ? start : 0;
}

pid_t marker_process_own_pid(pid_t pid)
{
	pid_t own = proc_own_id(pid, 0);
	return own > 0 ? own : pid;
}

pid_t marker_process_outer_tid(pid_t pid, pid_t tid)
{
	_cleanup_(dir_closep) DIR *threads = proc_open_threads(pid);
	pid_t outer;
	do
		outer = proc_next(threads);
	while (outer > 0 && proc_own_id(pid, outer) != tid);
	return outer;
}

void marker_process_name(pid_t pid, char *out, size_t size)
{
	char path[64], target[4096];
	snprintf(path, sizeof(path), "/proc/%d/exe", (int)pid);
	ssize_t len = readlink(path, target, sizeof(target));
	out[0] = 0;
	if (len > 0) {
		struct bytes name = text_binary_name((struct bytes){(const uint8_t *)target, (size_t)len});
		snprintf(out, size, "%.*s", (int)name.len, (const char *)name.data);
		return;
	}
	snprintf(path, sizeof(path), "/proc/%d/comm", (int)pid);
	io_read_text(path, out, size);
	out[strcspn(out, "\n")] = 0;
}
