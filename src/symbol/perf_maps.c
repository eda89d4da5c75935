/* SPDX-License-Identifier: Apache-2.0 */
/*
 * perf maps of processes. The file lies where the process thinks it does: /tmp of its own root, under the pid of its own
 * namespace. Processes are not trusted: the path is walked inside their root (openat2 with RESOLVE_IN_ROOT), the file must be a
 * regular one, and belong to the process's user or to root, since anybody may write to /tmp.
 *
 * Looking an address up reads on from where reading stopped, up to the last whole line, at most once a second, and once more
 * after the process has ended. It is read anew when it is another file, has become shorter, or begins differently (the JDK
 * writes it all again), and dropped when the pid has become another process.
 *
 * A pid is used again, above all in containers, and the file of its former owner may still lie there: one that was last changed
 * before the process began is not its own.
 *
 * A process that has ended has no root any more. Then the file is looked for in our own /tmp, and believed if it is the very
 * one that was read before; or, if it was never read, if it belongs to the user that the process had, or root, and was changed
 * while the process lived. What was read stays until others need the room.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/hash.h"
#include "base/io.h"
#include "base/time.h"
#include "symbol/jit_files.h"
#include "symbol/perf_map.h"
#include "symbol/symbol_int.h"

#define PROCESSES_MAX	  4096u
#define FILE_BYTES_MAX	  (256 * MIB) /* of a file that are read */
#define REFRESH_BYTES_MAX (16 * MIB)  /* of them at a time */
#define WINDOW_BYTES_MIN  (64 * KIB)
#define WINDOW_BYTES_MAX  (1 * MIB)
#define CLOCK_SLACK_NS	  (2 * NS_PER_S)
#define END_BYTES_MAX	  4096u
#define PROC_FILE_MAX	  4096u

struct process {
	struct jit_file file;	      /* its map */
	struct perf_maps_process who; /* namespace_pid is never 0 */
	uint64_t start_time;	      /* in clock ticks since boot: distinguishes uses of a pid; 0 = not seen alive */
	bool has_ended;		      /* and was looked at since */
	dev_t device;
	ino_t inode; /* 0 = no file was found yet */
	uint64_t ends_hash;
	struct perf_map map;
};

/* ---- life ---- */

static void init_process(struct jit_file *file, size_t entries_max)
{
	struct process *process = (struct process *)file;
	process->who.pid = (pid_t)file->key;
	perf_map_init(&process->map);
	process->map.entries_max = entries_max;
}

static void release_process(struct jit_file *file)
{
	perf_map_release(&((struct process *)file)->map);
}

static size_t process_memory_bytes(const struct jit_file *file)
{
	return perf_map_memory_bytes(&((const struct process *)file)->map);
}

static const struct jit_files_kind kind = {
	.size = sizeof(struct process),
	.files_max = PROCESSES_MAX,
	.entries_max = PERF_MAP_ENTRIES_MAX,
	.init = init_process,
	.release = release_process,
	.memory_bytes = process_memory_bytes,
};

int perf_maps_new(struct perf_maps **ret, struct error *err)
{
	struct perf_maps *maps = mem_zalloc(sizeof(*maps));
	if (!maps)
		return error_nomem(err);
	jit_files_init(&maps->files, &kind);
	*ret = maps;
	return 0;
}

struct perf_maps *perf_maps_free(struct perf_maps *maps)
{
	if (maps)
		jit_files_release(&maps->files);
	return mem_free(maps);
}

/* ---- the process ---- */

/* Field 22 of /proc/PID/stat; fields are counted from behind the name, which may hold anything. */
static bool read_start_time(pid_t pid, uint64_t *ret)
{
	char path[64], text[PROC_FILE_MAX];
	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	const char *at = io_read_text(path, text, sizeof(text)) > 0 ? strrchr(text, ')') : NULL;
	for (unsigned field = 2; at && field < 22; field++) {
		at = strchr(at, ' ');
		at = at ? at + 1 : NULL;
	}
	*ret = at ? strtoull(at, NULL, 10) : 0;
	return at;
}

/* True when a user is one of those that the process runs as (real, effective, saved, file system), or root. */
static bool may_own_map(pid_t pid, uid_t owner)
{
	char path[64], text[PROC_FILE_MAX];
	unsigned uids[4];
	if (owner == 0)
		return true;
	snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
	io_read_text(path, text, sizeof(text));
	const char *at = strstr(text, "\nUid:");
	if (!at || sscanf(at, "\nUid: %u %u %u %u", &uids[0], &uids[1], &uids[2], &uids[3]) != 4)
		return false;
	return owner == uids[0] || owner == uids[1] || owner == uids[2] || owner == uids[3];
}

static int open_map(struct perf_maps *maps, const char *root_path, const struct process *process, struct stat *ret_stat)
{
	char path[64];
	snprintf(path, sizeof(path), "tmp/perf-%d.map", (int)process->who.namespace_pid);
	return jit_files_open_below(&maps->files, root_path, path, ret_stat);
}

/* Wall clock at which the process began, by what the caller knows or by start_time; INT64_MAX when neither is known. */
static int64_t began_ns(const struct process *process)
{
	int64_t now = time_now_ns();
	if (process->who.started_ns)
		return now - (time_monotonic_ns() - (int64_t)process->who.started_ns);
	if (!process->start_time)
		return INT64_MAX;
	int64_t ticks_per_s = sysconf(_SC_CLK_TCK);
	return now - time_boottime_ns() + (int64_t)(process->start_time * (uint64_t)(NS_PER_S / ticks_per_s));
}

static bool is_stale(const struct process *process, const struct stat *st)
{
	int64_t began = began_ns(process);
	return began == INT64_MAX || time_of_timespec(st->st_ctim) < began - CLOCK_SLACK_NS;
}

/* The file of a process that lives. -ENOENT if it does not, -ENXIO if there is no file. */
static int open_living(struct perf_maps *maps, const struct process *process, struct stat *ret_stat)
{
	char root[64];
	snprintf(root, sizeof(root), "/proc/%d/root", (int)process->who.pid);
	_cleanup_(fd_closep) int fd = open_map(maps, root, process, ret_stat);
	enum jit_problem problem = JIT_PROBLEM_COUNT;
	if (fd < 0)
		return fd;
	if (!may_own_map(process->who.pid, ret_stat->st_uid))
		problem = JIT_PROBLEM_OWNER;
	else if (is_stale(process, ret_stat))
		problem = JIT_PROBLEM_STALE;
	if (problem != JIT_PROBLEM_COUNT) {
		maps->files.stats.problems[problem]++;
		return -EPERM;
	}
	return fd_take(&fd);
}

/* The file of one that has ended, see the top. */
static int open_ended(struct perf_maps *maps, const struct process *process, struct stat *ret_stat)
{
	_cleanup_(fd_closep) int fd = open_map(maps, "/", process, ret_stat);
	enum jit_problem problem = JIT_PROBLEM_COUNT;
	if (fd < 0) {
		maps->files.stats.problems[JIT_PROBLEM_GONE] += fd == -ENXIO && !process->start_time;
		return fd;
	}
	if (process->inode) {
		if (process->device != ret_stat->st_dev || process->inode != ret_stat->st_ino)
			problem = JIT_PROBLEM_GONE;
	} else if (process->who.namespace_pid != process->who.pid || (!process->who.started_ns && !process->start_time)) {
		problem = JIT_PROBLEM_GONE;
	} else if (ret_stat->st_uid != 0 && ret_stat->st_uid != process->who.uid) {
		problem = JIT_PROBLEM_OWNER;
	} else if (is_stale(process, ret_stat)) {
		problem = JIT_PROBLEM_STALE;
	}
	if (problem != JIT_PROBLEM_COUNT) {
		maps->files.stats.problems[problem]++;
		return -EPERM;
	}
	return fd_take(&fd);
}

/* ---- the file ---- */

/* Of the first and the last bytes of those consumed: the JDK writes its file all anew, and it begins as before. 0 when they
 * cannot be read. */
static uint64_t hash_ends(int fd, uint64_t consumed)
{
	char bytes[END_BYTES_MAX];
	size_t len = consumed < END_BYTES_MAX ? (size_t)consumed : END_BYTES_MAX;
	if (io_pread(fd, bytes, len, 0, "a perf map", NULL) != (ssize_t)len)
		return 0;
	uint64_t hash = hash64(bytes, len);
	if (io_pread(fd, bytes, len, consumed - len, "a perf map", NULL) != (ssize_t)len)
		return 0;
	return hash64_seed(bytes, len, hash);
}

/* Adds what follows `consumed`, up to the last whole line. A line that fills the window is skipped. */
static void read_lines(struct perf_maps *maps, struct process *process, int fd, uint64_t size, struct buffer *window)
{
	while (process->file.consumed < size) {
		size_t want =
			size - process->file.consumed < window->max ? (size_t)(size - process->file.consumed) : window->max;
		ssize_t n = io_pread(fd, window->data, want, process->file.consumed, "a perf map", NULL);
		if (n <= 0)
			return;
		const char *last = memrchr(window->data, '\n', (size_t)n);
		size_t whole = last ? (size_t)(last - (const char *)window->data) + 1 : 0;
		if (whole == 0 && (size_t)n < window->max)
			return;
		if (perf_map_add_text(&process->map, (struct bytes){window->data, whole}) < 0)
			return;
		maps->files.stats.problems[JIT_PROBLEM_MALFORMED] += whole == 0;
		maps->files.stats.bytes_read += (uint64_t)n;
		process->file.consumed += whole ? whole : (size_t)n;
	}
}

static void read_on(struct perf_maps *maps, struct process *process, int fd, uint64_t size)
{
	_cleanup_(buffer_release) struct buffer window = {0};
	uint64_t allowed = process->file.consumed + (process->has_ended ? 4 * REFRESH_BYTES_MAX : REFRESH_BYTES_MAX);
	size_t bad_before = process->map.bad_lines, dropped_before = process->map.dropped;

	size = jit_files_limit(&maps->files, &process->file, size, FILE_BYTES_MAX);
	if (size > allowed) {
		maps->files.stats.problems[JIT_PROBLEM_TOO_LONG] += process->has_ended;
		size = allowed;
	}
	if (size <= process->file.consumed)
		return;
	buffer_init(&window, size - process->file.consumed <= WINDOW_BYTES_MIN ? WINDOW_BYTES_MIN : WINDOW_BYTES_MAX);
	if (buffer_reserve(&window, window.max) < 0)
		return;
	maps->files.stats.reads++;
	read_lines(maps, process, fd, size, &window);
	jit_files_count(&maps->files, &process->file);
	maps->files.stats.problems[JIT_PROBLEM_MALFORMED] += process->map.bad_lines - bad_before;
	maps->files.stats.problems[JIT_PROBLEM_FULL] += process->map.dropped - dropped_before;
	process->ends_hash = hash_ends(fd, process->file.consumed);
}

static void read_file(struct perf_maps *maps, struct process *process, int fd, const struct stat *st)
{
	bool is_same = process->device == st->st_dev && process->inode == st->st_ino &&
		       (uint64_t)st->st_size >= process->file.consumed &&
		       (process->file.consumed == 0 || hash_ends(fd, process->file.consumed) == process->ends_hash);
	if (!is_same) {
		maps->files.stats.problems[JIT_PROBLEM_REWRITTEN] += process->file.consumed > 0;
		jit_files_forget(&maps->files, &process->file);
	}
	process->device = st->st_dev;
	process->inode = st->st_ino;
	if ((uint64_t)st->st_size != process->file.consumed)
		read_on(maps, process, fd, (uint64_t)st->st_size);
	jit_files_make_room(&maps->files);
}

/* Is it still the process whose map this is? Forgets what was known of the pid's former owner, and of the former program. */
static void identify(struct perf_maps *maps, struct process *process, const struct perf_maps_process *who)
{
	uint64_t start_time;
	bool lives = read_start_time(process->who.pid, &start_time);
	pid_t namespace_pid = who->namespace_pid > 0 ? who->namespace_pid : who->pid;
	if ((lives && process->start_time && start_time != process->start_time) || who->started_ns != process->who.started_ns ||
	    namespace_pid != process->who.namespace_pid) {
		jit_files_forget(&maps->files, &process->file);
		process->start_time = 0;
		process->inode = 0;
		process->has_ended = false;
	}
	if (lives)
		process->start_time = start_time;
	process->who = *who;
	process->who.namespace_pid = namespace_pid;
}

static void look_at(struct perf_maps *maps, struct process *process, const struct perf_maps_process *who)
{
	struct stat st;
	identify(maps, process, who);
	if (process->has_ended)
		return;
	_cleanup_(fd_closep) int fd = open_living(maps, process, &st);
	if (fd == -ENOENT || fd == -ESRCH) {
		process->has_ended = true;
		fd = open_ended(maps, process, &st);
	}
	if (fd >= 0)
		read_file(maps, process, fd, &st);
}

/* Is it still the process whose map this is, and what was appended? False when it is too early to ask that again. */
static bool check_process(struct perf_maps *maps, struct process *process, const struct perf_maps_process *who, bool for_miss)
{
	int64_t now = time_monotonic_ns();
	if (!jit_check_is_due(&process->file.last_check, &maps->files.pace, for_miss, now) &&
	    who->started_ns == process->who.started_ns)
		return false;
	look_at(maps, process, who);
	process->file.last_check = (struct jit_check){.at_ns = now, .took_ns = time_monotonic_ns() - now};
	return true;
}

/* Code without a name may be younger than what was read: it is looked for again sooner. */
bool perf_maps_lookup(struct perf_maps *maps, const struct perf_maps_process *who, uint64_t address, const char **ret_name,
		      uint64_t *ret_start)
{
	if (who->pid <= 0)
		return false;
	maps->files.stats.lookups++;
	struct process *process = (struct process *)jit_files_get(&maps->files, (uint64_t)who->pid);
	if (!process)
		return false;
	check_process(maps, process, who, false);
	const struct code_piece *piece = perf_map_find(&process->map, address);
	if (!piece && check_process(maps, process, who, true))
		piece = perf_map_find(&process->map, address);
	if (!piece)
		return false;
	maps->files.stats.hits++;
	*ret_name = perf_map_name(&process->map, piece);
	*ret_start = piece->symbol_start;
	return true;
}

void perf_maps_get_stats(const struct perf_maps *maps, struct jit_stats *ret)
{
	jit_files_get_stats(&maps->files, ret);
}
