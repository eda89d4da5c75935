/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/process/thread_names.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/proc.h"
#include "base/alloc.h"
#include "base/io.h"
#include "base/time.h"
#include "client/wickmark_abi.h"

#define MAPPED_NAME    "/memfd:" WICKMARK_NAME " (deleted)"
#define LINE_BYTES     1024
#define FILES_MAX      4096 /* descriptors of a process that are looked at */
#define FIRST_CHECK_NS (2 * NS_PER_S)
#define CHECK_NS_MAX   (300 * NS_PER_S)
#define BATCH	       64u /* entries read at a time */

_Static_assert(THREAD_NAME_BYTES == WICKMARK_NAME_BYTES, "a name fits");

/* The first "START-END" of a line of maps that is the shared file, as map_files calls it, and its inode. */
static bool find_mapping(pid_t pid, char *range, size_t size, unsigned long *ret_inode)
{
	char path[64], line[LINE_BYTES];
	bool found = false;
	snprintf(path, sizeof(path), "/proc/%d/maps", (int)pid);
	errno = 0;
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
static int open_of_descriptors(pid_t pid, unsigned long inode, int flags)
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
		fd = open(name, flags | O_CLOEXEC | O_NONBLOCK);
		if (fd >= 0 && (fstat(fd, &stat) < 0 || stat.st_ino != inode))
			fd = io_close(fd);
	}
	return fd < 0 ? -ENOENT : fd;
}

int thread_names_mapped_file(pid_t pid, unsigned long *ret_inode)
{
	char range[64];
	if (find_mapping(pid, range, sizeof(range), ret_inode))
		return 0;
	/* What is gone cannot be read either, or ends while it is. */
	return errno && errno != ESRCH ? -errno : -ENOENT;
}

int thread_names_open_file(pid_t pid, int flags)
{
	char range[64], path[128];
	unsigned long inode;
	if (!find_mapping(pid, range, sizeof(range), &inode))
		return -ENOENT;
	snprintf(path, sizeof(path), "/proc/%d/map_files/%s", (int)pid, range);
	int fd = open(path, flags | O_CLOEXEC | O_NONBLOCK);
	return fd >= 0 ? fd : open_of_descriptors(pid, inode, flags);
}

/* ---- what is known of a process ---- */

struct thread_name {
	int32_t tid; /* as the process sees it */
	char text[THREAD_NAME_BYTES];
};
struct named_process {
	int fd; /* of its file; -1 = none was found */
	bool used, is_read;
	bool is_elsewhere; /* in a pid namespace of its own */
	int64_t check_ns, interval_ns;
	struct thread_name *threads;
	size_t count, capacity;
};

void thread_names_init(struct thread_names *names)
{
	*names = (struct thread_names){.first_check_ns = FIRST_CHECK_NS};
}

static void free_process(struct thread_names *names, struct named_process *process)
{
	names->file_count -= process->fd >= 0;
	io_close(process->fd);
	mem_free(process->threads);
	mem_free(process);
}

void thread_names_release(struct thread_names *names)
{
	uint64_t id, value;
	for (size_t cursor = 0; map64_next(&names->processes, &cursor, &id, &value);)
		free_process(names, (struct named_process *)(uintptr_t)value);
	map64_release(&names->processes);
}

void thread_names_clear(struct thread_names *names)
{
	struct map64 kept = {0};
	uint64_t id, value;
	for (size_t cursor = 0; map64_next(&names->processes, &cursor, &id, &value);) {
		struct named_process *process = (struct named_process *)(uintptr_t)value;
		bool was_used = process->used;
		process->used = process->is_read = false;
		if (!was_used || map64_put(&kept, id, value) < 0)
			free_process(names, process);
	}
	map64_release(&names->processes);
	names->processes = kept;
}

static struct named_process *get_process(struct thread_names *names, uint32_t id)
{
	uint64_t value;
	if (map64_get(&names->processes, id, &value))
		return (struct named_process *)(uintptr_t)value;
	struct named_process *process =
		names->processes.count < THREAD_NAMES_PROCESSES_MAX ? mem_zalloc(sizeof(*process)) : NULL;
	if (!process)
		return NULL;
	process->fd = -1;
	process->interval_ns = names->first_check_ns;
	process->check_ns = time_monotonic_ns() + process->interval_ns;
	if (map64_put(&names->processes, id, (uint64_t)(uintptr_t)process) < 0)
		return mem_free(process);
	return process;
}

static void look_for_file(struct thread_names *names, struct named_process *named, pid_t pid)
{
	int64_t now = time_monotonic_ns();
	if (named->fd >= 0 || now < named->check_ns || names->file_count >= THREAD_NAMES_FILES_MAX)
		return;
	named->fd = thread_names_open_file(pid, O_RDONLY);
	named->interval_ns = named->interval_ns * 2 < CHECK_NS_MAX ? named->interval_ns * 2 : CHECK_NS_MAX;
	named->check_ns = now + named->interval_ns;
	if (named->fd < 0)
		return;
	names->file_count++;
	pid_t own = proc_own_id(pid, 0);
	named->is_elsewhere = own > 0 && own != pid;
}

/* A name that is being written is left out: this profile has the kernel's. */
static void add_thread(struct named_process *named, const struct wickmark_thread *entry)
{
	if ((entry->state != WICKMARK_ACTIVE && entry->state != WICKMARK_ENDED) || (entry->name_changes & 1) || !entry->name[0])
		return;
	if (array_reserve(&named->threads, &named->capacity, named->count + 1, WICKMARK_THREADS) < 0)
		return;
	struct thread_name *thread = &named->threads[named->count];
	thread->tid = entry->tid;
	memcpy(thread->text, entry->name, sizeof(thread->text));
	thread->text[sizeof(thread->text) - 1] = 0;
	for (char *c = thread->text; *c; c++)
		if ((unsigned char)*c < ' ' || *c == 0x7f)
			*c = '?';
	/* Of two threads with one number the living one counts, which is found first. */
	if (entry->state == WICKMARK_ACTIVE && named->count > 0) {
		struct thread_name first = named->threads[0];
		named->threads[0] = *thread;
		*thread = first;
	}
	named->count++;
}

static void read_names(struct named_process *named)
{
	struct wickmark_header header;
	struct wickmark_thread entries[BATCH];
	named->is_read = true;
	named->count = 0;
	if (pread(named->fd, &header, sizeof(header), 0) != (ssize_t)sizeof(header) || header.magic != WICKMARK_MAGIC ||
	    header.abi != WICKMARK_ABI)
		return;
	uint32_t count = header.thread_count < WICKMARK_THREADS ? header.thread_count : WICKMARK_THREADS;
	for (uint32_t at = 0; at < count; at += BATCH) {
		uint32_t some = count - at < BATCH ? count - at : BATCH;
		ssize_t bytes = (ssize_t)(some * sizeof(entries[0]));
		if (pread(named->fd, entries, (size_t)bytes, (off_t)(WICKMARK_AT_THREADS + at * sizeof(entries[0]))) != bytes)
			return;
		for (uint32_t i = 0; i < some; i++)
			add_thread(named, &entries[i]);
	}
}

const char *thread_names_find(struct thread_names *names, const struct process *process, uint32_t tid)
{
	struct named_process *named = tid > 0 && !process->unknown ? get_process(names, process->id) : NULL;
	if (!named)
		return NULL;
	named->used = true;
	look_for_file(names, named, process->pid);
	if (named->fd < 0)
		return NULL;
	if (!named->is_read)
		read_names(named);
	if (named->count == 0)
		return NULL;
	pid_t own = named->is_elsewhere ? proc_own_id(process->pid, (pid_t)tid) : (pid_t)tid;
	for (size_t i = 0; i < named->count; i++)
		if (named->threads[i].tid == own)
			return named->threads[i].text;
	return NULL;
}
