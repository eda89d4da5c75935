// SPDX-License-Identifier: Apache-2.0
/* What /proc knows of one process: executable mappings, executable, name, number of threads. Mappings that equal the parent's
 * are shared with it, so that a hundred forked workers cost one list. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "agent/proc.h"
#include "agent/process/process.h"
#include "base/alloc.h"
#include "base/cleanup.h"
#include "base/time.h"

#define READ_BUFFER    65536u
#define LINE_MAX_BYTES (4096u + 128u) /* PATH_MAX and the columns before it */

/* "START-END PERM OFFSET MAJOR:MINOR INODE   PATH" */
int process_parse_maps_line(char *line, struct event *ret)
{
	struct event event = {.kind = EVENT_MAP};
	unsigned long long start, end, offset, inode;
	unsigned major_number, minor_number;
	char permissions[5];
	int path_at = -1;

	if (sscanf(line, "%llx-%llx %4s %llx %x:%x %llu%n", &start, &end, permissions, &offset, &major_number, &minor_number,
		   &inode, &path_at) != 7 ||
	    path_at < 0 || strlen(permissions) != 4 || end <= start)
		return -EINVAL;
	if (permissions[2] != 'x')
		return 1;
	char *path = line + path_at;
	while (*path == ' ')
		path++;
	event.start = start;
	event.length = end - start;
	event.offset = offset;
	event.device = makedev(major_number, minor_number);
	event.inode = inode;
	event.name = *path ? path : "//anon";
	*ret = event;
	return 0;
}

static int add_line(struct process_table *table, struct mapping_list **list, char *line)
{
	struct process_mapping mapping;
	struct event event;
	bool replaced;

	if (process_parse_maps_line(line, &event) != 0)
		return 0;
	mapping = (struct process_mapping){.start = event.start, .end = event.start + event.length, .offset = event.offset};
	int r = binaries_add(table->binaries, &event, &mapping.binary);
	if (r == 0)
		r = mapping_list_insert(list, &mapping, &replaced);
	return r == -E2BIG ? 0 : r;
}

/* Takes the whole lines out of buffer[0..*len] and moves the rest to its front. A line too long for the buffer is dropped. */
static int take_lines(struct process_table *table, struct mapping_list **list, size_t *len)
{
	char *buffer = (char *)table->buffer, *at = buffer, *newline;

	while ((newline = memchr(at, '\n', *len - (size_t)(at - buffer)))) {
		*newline = 0;
		int r = add_line(table, list, at);
		if (r < 0)
			return r;
		at = newline + 1;
	}
	*len -= (size_t)(at - buffer);
	memmove(buffer, at, *len);
	if (*len > LINE_MAX_BYTES)
		*len = 0;
	return 0;
}

enum { READ_GONE = 1, READ_DENIED = 2 };

/* 0, positive as above, or -ENOMEM. */
static int read_maps(struct process_table *table, pid_t pid, struct mapping_list **ret)
{
	char path[64];
	size_t len = 0;
	ssize_t n;

	if (!table->buffer && !(table->buffer = mem_alloc(READ_BUFFER)))
		return -ENOMEM;
	snprintf(path, sizeof(path), "/proc/%d/maps", (int)pid);
	_cleanup_(fd_closep) int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0) /* a process with more capabilities than we have may not be read, but it is there */
		return errno == EACCES || errno == EPERM ? READ_DENIED : READ_GONE;
	while ((n = read(fd, table->buffer + len, READ_BUFFER - len)) > 0) {
		len += (size_t)n;
		int r = take_lines(table, ret, &len);
		if (r < 0)
			return r;
	}
	return n < 0 ? READ_GONE : 0;
}

void process_share_mappings(struct process_table *table, struct process *process, pid_t parent_pid)
{
	const struct process *parent = process_table_find(table, parent_pid);
	struct mapping_list *theirs = parent ? parent->maps : NULL, *ours = process->maps;

	if (!theirs || !ours || theirs == ours || !mapping_list_equals(ours, theirs))
		return;
	mapping_list_unref(ours);
	theirs->references++;
	process->maps = theirs;
}

#define PF_EXITING 4u

/* Name, parent and number of threads. False if it is gone, or dead but for its parent's wait(): its EXIT may be in the past
 * already, and no other comes. */
static bool read_stat(struct process *process, pid_t *ret_parent)
{
	struct proc_stat stat;

	if (!proc_read_stat(process->pid, 0, &stat))
		return false;
	snprintf(process->comm, sizeof(process->comm), "%.*s", (int)sizeof(process->comm) - 1, stat.name);
	if (stat.flags & PF_EXITING && stat.threads <= 1)
		return false;
	*ret_parent = stat.parent;
	process->threads = stat.threads > 0 && stat.threads < (long)PROCESSES_MAX ? (uint32_t)stat.threads : 1;
	return true;
}

/* The mapping whose path is that of the link, which is "PATH" or "PATH (deleted)". */
static uint32_t find_by_path(const struct process_table *table, const struct mapping_list *maps, const char *target)
{
	for (size_t i = 0; maps && i < maps->count; i++) {
		const struct binary *binary = binary_get(table->binaries, maps->items[i].binary);
		size_t len = strlen(binary->path);
		if (binary->kind != BINARY_JIT && strncmp(binary->path, target, len) == 0 &&
		    (!target[len] || strcmp(target + len, " (deleted)") == 0))
			return maps->items[i].binary;
	}
	return BINARY_NONE;
}

/* The text of /proc/PID/exe is that of the maps file; device and inode need not be (overlayfs, btrfs), so they are only for an
 * executable that is not mapped (any more). */
int process_read_executable(struct process_table *table, struct process *process)
{
	char path[64], target[4096];
	struct event event = {.kind = EVENT_MAP, .name = target};
	struct stat status;

	snprintf(path, sizeof(path), "/proc/%d/exe", (int)process->pid);
	ssize_t n = readlink(path, target, sizeof(target) - 1);
	if (n <= 0) /* a kernel thread */
		return 0;
	target[n] = 0;
	process->executable = find_by_path(table, process->maps, target);
	if (process->executable)
		return 0;
	if (stat(path, &status) == 0) {
		event.device = status.st_dev;
		event.inode = status.st_ino;
	}
	int r = binaries_add(table->binaries, &event, &process->executable);
	return r == -E2BIG ? 0 : r;
}

/* The last jitdump that the process maps, as a profiler that reads events in order would see it. One that it has unmapped, as
 * V8 does before it ends, still names the samples from before. */
void process_find_jitdump(struct process_table *table, struct process *process)
{
	for (size_t i = 0; process->maps && i < process->maps->count; i++) {
		if (binary_get(table->binaries, process->maps->items[i].binary)->is_jitdump)
			process->jitdump = process->maps->items[i];
	}
}

void process_read_user(struct process *process)
{
	char path[64];
	struct stat status;

	snprintf(path, sizeof(path), "/proc/%d", (int)process->pid);
	if (stat(path, &status) == 0)
		process->uid = status.st_uid; /* root's, when it may not be dumped: then only root's files are believed */
}

int process_read(struct process_table *table, struct process *process)
{
	uint64_t now = (uint64_t)time_monotonic_ns();
	struct mapping_list *maps = NULL;
	pid_t parent = 0;

	int r = read_maps(table, process->pid, &maps);
	bool denied = r == READ_DENIED;
	if ((r == 0 || denied) && !read_stat(process, &parent))
		r = READ_GONE;
	if (r == 0)
		r = mapping_list_trim(maps);
	if (r != 0 && !denied) {
		mapping_list_unref(maps);
		return r;
	}
	bool same = mapping_list_equals(process->maps, maps);
	if (same) {
		mapping_list_unref(maps);
		maps = process->maps;
	} else {
		process->version = ++table->versions;
		r = mapping_list_compare(process->maps, maps, process_change_range, process);
		mapping_list_unref(process->maps);
		process->maps = maps;
	}
	if (!process->parent) /* an orphan's new parent is not who started it */
		process->parent = parent;
	process->read = true;
	process->unknown = denied;
	process->read_ns = now;
	uint64_t cost_us = ((uint64_t)time_monotonic_ns() - now) / 1000;
	process->read_cost_us = cost_us < UINT32_MAX ? (uint32_t)cost_us : UINT32_MAX;
	process->reread_at = maps ? maps->count * 2 + PROCESS_REREAD_FIRST : PROCESS_REREAD_FIRST;
	if (!same) {
		process_share_mappings(table, process, parent);
		if (process->told)
			process_table_changed(table, process);
	}
	process_find_jitdump(table, process);
	process_read_user(process);
	return r < 0 ? r : process_read_executable(table, process);
}

pid_t process_namespace_pid(struct process *process)
{
	if (process->namespace_pid)
		return process->namespace_pid;
	pid_t own = proc_own_id(process->pid, 0);
	process->namespace_pid = own > 0 ? own : process->pid;
	return process->namespace_pid;
}
