/* SPDX-License-Identifier: Apache-2.0 */
/*
 * perf maps of processes. The file lies where the process thinks it does: /tmp of its own root, under the pid of its own
 * namespace. Processes are not trusted: the path is walked inside their root (openat2 with RESOLVE_IN_ROOT), the file must be a
 * regular one, and belong to the process's user or to root, since anybody may write to /tmp.
 *
 * Looking an address up reads on from where reading stopped, up to the last whole line, at most once a second.
 * It is read anew when it is another file, has become shorter, or begins differently (the JDK writes it all again), and dropped
 * when the pid has become another process. What was read of a process that has ended stays until others need the room.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/hash.h"
#include "base/io.h"
#include "base/map.h"
#include "base/time.h"
#include "symbol/perf_map.h"
#include "symbol/symbol_int.h"

#define PROCESSES_MAX	    4096u
#define TOTAL_BYTES_MAX	    (64 * MIB)
#define WINDOW_BYTES	    (64 * KIB)
#define BEGINNING_BYTES_MAX 4096u
#define PROC_FILE_MAX	    (64 * KIB)

struct process {
	pid_t pid, namespace_pid;
	uint64_t start_time; /* in clock ticks since boot: tells one use of a pid from the next */
	int64_t checked_ns;
	dev_t device;
	ino_t inode;
	uint64_t consumed; /* bytes of the file that are in the map */
	uint32_t beginning_len;
	uint64_t beginning_hash;
	struct perf_map map;
	struct process *older, *newer;
};

struct perf_maps {
	struct map64 by_pid; /* pid -> struct process * */
	struct process *newest, *oldest;
	size_t process_count, total_bytes, total_bytes_max, entries_max;
	int64_t interval_ns;
	char *window;
};

/* ---- life ---- */

int perf_maps_new(struct perf_maps **ret, struct error *err)
{
	struct perf_maps *maps = mem_zalloc(sizeof(*maps));
	if (!maps)
		return error_nomem(err);
	map64_init(&maps->by_pid);
	maps->total_bytes_max = TOTAL_BYTES_MAX;
	maps->entries_max = PERF_MAP_ENTRIES_MAX;
	maps->interval_ns = NS_PER_S;
	*ret = maps;
	return 0;
}

void perf_maps_set_interval(struct perf_maps *maps, int64_t interval_ns)
{
	maps->interval_ns = interval_ns;
}

void perf_maps_set_limits(struct perf_maps *maps, size_t entries_max, size_t total_bytes_max)
{
	maps->entries_max = entries_max;
	maps->total_bytes_max = total_bytes_max;
}

static void unlink_process(struct perf_maps *maps, struct process *process)
{
	*(process->newer ? &process->newer->older : &maps->newest) = process->older;
	*(process->older ? &process->older->newer : &maps->oldest) = process->newer;
	process->newer = process->older = NULL;
}

static void link_newest(struct perf_maps *maps, struct process *process)
{
	process->older = maps->newest;
	*(maps->newest ? &maps->newest->newer : &maps->oldest) = process;
	maps->newest = process;
}

static void remove_process(struct perf_maps *maps, struct process *process)
{
	map64_remove(&maps->by_pid, (uint64_t)process->pid);
	unlink_process(maps, process);
	maps->total_bytes -= perf_map_memory_bytes(&process->map);
	maps->process_count--;
	perf_map_release(&process->map);
	mem_free(process);
}

struct perf_maps *perf_maps_free(struct perf_maps *maps)
{
	if (!maps)
		return NULL;
	while (maps->oldest)
		remove_process(maps, maps->oldest);
	map64_release(&maps->by_pid);
	mem_free(maps->window);
	return mem_free(maps);
}

/* The least recently used ones go, but never the newest. */
static void make_room(struct perf_maps *maps)
{
	while (maps->oldest != maps->newest &&
	       (maps->total_bytes > maps->total_bytes_max || maps->process_count > PROCESSES_MAX))
		remove_process(maps, maps->oldest);
}

static struct process *get_process(struct perf_maps *maps, pid_t pid, pid_t namespace_pid)
{
	uint64_t known;
	struct process *process;
	if (map64_get(&maps->by_pid, (uint64_t)pid, &known)) {
		process = (struct process *)(uintptr_t)known;
		unlink_process(maps, process);
		link_newest(maps, process);
		return process;
	}
	process = mem_zalloc(sizeof(*process));
	if (!process)
		return NULL;
	if (map64_put(&maps->by_pid, (uint64_t)pid, (uint64_t)(uintptr_t)process) < 0) {
		mem_free(process);
		return NULL;
	}
	process->pid = pid;
	process->namespace_pid = namespace_pid;
	process->checked_ns = INT64_MIN;
	perf_map_init(&process->map);
	process->map.entries_max = maps->entries_max;
	link_newest(maps, process);
	maps->process_count++;
	make_room(maps);
	return process;
}

static void forget(struct perf_maps *maps, struct process *process)
{
	maps->total_bytes -= perf_map_memory_bytes(&process->map);
	perf_map_release(&process->map);
	process->consumed = 0;
	process->beginning_len = 0;
}

/* ---- the process ---- */

/* Field 22 of /proc/PID/stat; fields are counted from behind the name, which may hold anything. */
static int read_start_time(pid_t pid, uint64_t *ret)
{
	char path[64];
	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	_cleanup_(buffer_release) struct buffer text;
	buffer_init(&text, PROC_FILE_MAX);
	int r = io_read_file(path, PROC_FILE_MAX, &text, NULL);
	if (r < 0)
		return r;
	const char *at = buffer_string(&text);
	at = at ? strrchr(at, ')') : NULL;
	for (unsigned field = 2; at && field < 22; field++) {
		at = strchr(at, ' ');
		at = at ? at + 1 : NULL;
	}
	if (!at)
		return -EBADMSG;
	*ret = strtoull(at, NULL, 10);
	return 0;
}

/* True when a user is one of those that the process runs as (real, effective, saved, file system), or root. */
static bool may_own_map(pid_t pid, uid_t owner)
{
	if (owner == 0)
		return true;
	char path[64];
	snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
	_cleanup_(buffer_release) struct buffer text;
	buffer_init(&text, PROC_FILE_MAX);
	if (io_read_file(path, PROC_FILE_MAX, &text, NULL) < 0)
		return false;
	const char *at = buffer_string(&text);
	at = at ? strstr(at, "\nUid:") : NULL;
	if (!at)
		return false;
	at += strlen("\nUid:");
	for (unsigned i = 0; i < 4; i++) {
		char *end;
		unsigned long uid = strtoul(at, &end, 10);
		if (end == at)
			return false;
		if (uid == owner)
			return true;
		at = end;
	}
	return false;
}

static int open_map(const struct process *process, struct stat *ret_stat)
{
	char path[64];
	snprintf(path, sizeof(path), "/proc/%d/root", (int)process->pid);
	_cleanup_(fd_closep) int root = io_open(path, O_PATH | O_DIRECTORY, 0, NULL);
	if (root < 0)
		return root;
	snprintf(path, sizeof(path), "tmp/perf-%d.map", (int)process->namespace_pid);
	struct open_how how = {.flags = O_PATH | O_NOFOLLOW | O_CLOEXEC, .resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS};
	_cleanup_(fd_closep) int handle = (int)syscall(SYS_openat2, root, path, &how, sizeof(how));
	if (handle < 0)
		return -errno;
	int fd;
	int r = source_reopen(handle, path, &fd, ret_stat, NULL);
	if (r < 0)
		return r;
	if (!may_own_map(process->pid, ret_stat->st_uid)) {
		io_close(fd);
		return -EPERM;
	}
	return fd;
}

/* ---- the file ---- */

static uint64_t hash_beginning(int fd, uint32_t len)
{
	char beginning[BEGINNING_BYTES_MAX];
	ssize_t n = io_pread(fd, beginning, len, 0, "a perf map", NULL);
	return n == (ssize_t)len ? hash64(beginning, len) : 0;
}

/* Adds what follows `consumed`, up to the last whole line. A line that fills the window is skipped. */
static void read_on(struct perf_maps *maps, struct process *process, int fd, uint64_t size)
{
	if (size > PERF_MAP_BYTES_MAX)
		size = PERF_MAP_BYTES_MAX;
	maps->total_bytes -= perf_map_memory_bytes(&process->map);
	while (process->consumed < size) {
		size_t want = size - process->consumed < WINDOW_BYTES ? (size_t)(size - process->consumed) : WINDOW_BYTES;
		ssize_t n = io_pread(fd, maps->window, want, process->consumed, "a perf map", NULL);
		if (n <= 0)
			break;
		const char *last = memrchr(maps->window, '\n', (size_t)n);
		size_t whole = last ? (size_t)(last - maps->window) + 1 : 0;
		if (whole == 0 && n < (ssize_t)WINDOW_BYTES)
			break;
		if (perf_map_add_text(&process->map, (struct bytes){(const uint8_t *)maps->window, whole}) < 0)
			break;
		process->consumed += whole ? whole : (size_t)n;
	}
	maps->total_bytes += perf_map_memory_bytes(&process->map);
	process->beginning_len = process->consumed < BEGINNING_BYTES_MAX ? (uint32_t)process->consumed : BEGINNING_BYTES_MAX;
	process->beginning_hash = hash_beginning(fd, process->beginning_len);
}

static void read_file(struct perf_maps *maps, struct process *process)
{
	struct stat st;
	_cleanup_(fd_closep) int fd = open_map(process, &st);
	if (fd < 0)
		return;
	bool is_same = process->device == st.st_dev && process->inode == st.st_ino &&
		       (uint64_t)st.st_size >= process->consumed &&
		       (process->beginning_len == 0 || hash_beginning(fd, process->beginning_len) == process->beginning_hash);
	if (!is_same)
		forget(maps, process);
	process->device = st.st_dev;
	process->inode = st.st_ino;
	if ((uint64_t)st.st_size == process->consumed)
		return;
	if (!maps->window)
		maps->window = mem_alloc(WINDOW_BYTES);
	if (!maps->window)
		return;
	read_on(maps, process, fd, (uint64_t)st.st_size);
	make_room(maps);
}

/* Once an interval: is it still the process whose map this is, and what was appended? */
static void check_process(struct perf_maps *maps, struct process *process, pid_t namespace_pid)
{
	int64_t now = time_monotonic_ns();
	if (process->checked_ns != INT64_MIN && now - process->checked_ns < maps->interval_ns)
		return;
	process->checked_ns = now;
	uint64_t start_time;
	if (read_start_time(process->pid, &start_time) < 0)
		return; /* it has ended: what is known of it stays true for its samples */
	if (start_time != process->start_time || namespace_pid != process->namespace_pid)
		forget(maps, process);
	process->start_time = start_time;
	process->namespace_pid = namespace_pid;
	read_file(maps, process);
}

bool perf_maps_lookup(struct perf_maps *maps, pid_t pid, pid_t namespace_pid, uint64_t address, const char **ret_name,
		      uint64_t *ret_start)
{
	if (pid <= 0)
		return false;
	struct process *process = get_process(maps, pid, namespace_pid > 0 ? namespace_pid : pid);
	if (!process)
		return false;
	check_process(maps, process, namespace_pid > 0 ? namespace_pid : pid);
	const struct perf_map_piece *piece = perf_map_find(&process->map, address);
	if (!piece)
		return false;
	*ret_name = (const char *)process->map.names.data + piece->name;
	*ret_start = piece->symbol_start;
	return true;
}
