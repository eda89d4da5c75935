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

#define PROCESSES_MAX	  4096u
#define TOTAL_BYTES_MAX	  (64 * MIB)
#define FILE_BYTES_MAX	  (256 * MIB) /* of a file that are read */
#define REFRESH_BYTES_MAX (16 * MIB)  /* of them at a time */
#define WINDOW_BYTES_MIN  (64 * KIB)
#define WINDOW_BYTES_MAX  (1 * MIB)
#define CLOCK_SLACK_NS	  (2 * NS_PER_S)
#define END_BYTES_MAX	  4096u
#define PROC_FILE_MAX	  (64 * KIB)

struct process {
	struct perf_maps_process who; /* namespace_pid is never 0 */
	uint64_t start_time;	      /* in clock ticks since boot: tells one use of a pid from the next; 0 = not seen alive */
	struct jit_look look;
	bool has_ended; /* and was looked at since */
	bool is_too_long;
	dev_t device;
	ino_t inode;	   /* 0 = no file was found yet */
	uint64_t consumed; /* bytes of the file that are in the map */
	uint64_t ends_hash;
	struct perf_map map;
	struct process *older, *newer;
};

struct perf_maps {
	struct map64 by_pid; /* pid -> struct process * */
	struct process *newest, *oldest;
	size_t process_count, total_bytes, total_bytes_max, entries_max;
	struct jit_pace pace;
	struct jit_stats stats; /* files and memory_bytes are filled in when asked */
};

const char *const jit_problem_names[JIT_PROBLEM_COUNT] = {
	"owner", "not_regular", "stale",     "gone",	"malformed", "debug_info",
	"full",	 "too_long",	"rewritten", "evicted", "search",
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
	perf_maps_set_interval(maps, NS_PER_S, NS_PER_S / 20);
	*ret = maps;
	return 0;
}

void perf_maps_set_interval(struct perf_maps *maps, int64_t interval_ns, int64_t miss_interval_ns)
{
	maps->pace = (struct jit_pace){interval_ns, miss_interval_ns};
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
	map64_remove(&maps->by_pid, (uint64_t)process->who.pid);
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
	return mem_free(maps);
}

/* The least recently used ones go, but never the newest. */
static void make_room(struct perf_maps *maps)
{
	while (maps->oldest != maps->newest &&
	       (maps->total_bytes > maps->total_bytes_max || maps->process_count > PROCESSES_MAX)) {
		maps->stats.problems[JIT_PROBLEM_EVICTED] += maps->oldest->consumed > 0;
		remove_process(maps, maps->oldest);
	}
}

static struct process *get_process(struct perf_maps *maps, pid_t pid)
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
	process->who.pid = pid;
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
	process->is_too_long = false;
}

/* ---- the process ---- */

/* Field 22 of /proc/PID/stat; fields are counted from behind the name, which may hold anything. */
static int read_start_time(pid_t pid, uint64_t *ret)
{
	char path[64];
	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	_cleanup_(buffer_release) struct buffer text = {0};
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
	_cleanup_(buffer_release) struct buffer text = {0};
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

/* Opens the file below a root. Regular files only: nobody waits for a fifo, or follows a link out of it. */
static int open_below(struct perf_maps *maps, const char *root_path, pid_t namespace_pid, struct stat *ret_stat)
{
	char path[64];
	_cleanup_(fd_closep) int root = io_open(root_path, O_PATH | O_DIRECTORY, 0, NULL);
	if (root < 0)
		return root;
	snprintf(path, sizeof(path), "tmp/perf-%d.map", (int)namespace_pid);
	struct open_how how = {.flags = O_PATH | O_NOFOLLOW | O_CLOEXEC, .resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS};
	_cleanup_(fd_closep) int handle = (int)syscall(SYS_openat2, root, path, &how, sizeof(how));
	if (handle < 0)
		return errno == ENOENT ? -ENXIO : -errno;
	int fd;
	int r = source_reopen(handle, path, &fd, ret_stat, NULL);
	if (r == -EINVAL)
		maps->stats.problems[JIT_PROBLEM_NOT_REGULAR]++;
	return r < 0 ? r : fd;
}

/* Wall clock at which the process began, by what the caller knows or by start_time; INT64_MAX when neither tells. */
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
	return began == INT64_MAX || st->st_ctim.tv_sec * NS_PER_S + st->st_ctim.tv_nsec < began - CLOCK_SLACK_NS;
}

/* The file of a process that lives. -ENOENT if it does not, -ENXIO if there is no file. */
static int open_living(struct perf_maps *maps, const struct process *process, struct stat *ret_stat)
{
	char root[64];
	snprintf(root, sizeof(root), "/proc/%d/root", (int)process->who.pid);
	_cleanup_(fd_closep) int fd = open_below(maps, root, process->who.namespace_pid, ret_stat);
	enum jit_problem problem = JIT_PROBLEM_COUNT;
	if (fd < 0)
		return fd;
	if (!may_own_map(process->who.pid, ret_stat->st_uid))
		problem = JIT_PROBLEM_OWNER;
	else if (is_stale(process, ret_stat))
		problem = JIT_PROBLEM_STALE;
	if (problem != JIT_PROBLEM_COUNT) {
		maps->stats.problems[problem]++;
		return -EPERM;
	}
	return fd_take(&fd);
}

/* The file of one that has ended, see the top. */
static int open_ended(struct perf_maps *maps, const struct process *process, struct stat *ret_stat)
{
	_cleanup_(fd_closep) int fd = open_below(maps, "/", process->who.namespace_pid, ret_stat);
	enum jit_problem problem = JIT_PROBLEM_COUNT;
	if (fd < 0) {
		maps->stats.problems[JIT_PROBLEM_GONE] += fd == -ENXIO && !process->start_time;
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
		maps->stats.problems[problem]++;
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
	while (process->consumed < size) {
		size_t want = size - process->consumed < window->max ? (size_t)(size - process->consumed) : window->max;
		ssize_t n = io_pread(fd, window->data, want, process->consumed, "a perf map", NULL);
		if (n <= 0)
			return;
		const char *last = memrchr(window->data, '\n', (size_t)n);
		size_t whole = last ? (size_t)(last - (const char *)window->data) + 1 : 0;
		if (whole == 0 && (size_t)n < window->max)
			return;
		if (perf_map_add_text(&process->map, (struct bytes){window->data, whole}) < 0)
			return;
		maps->stats.problems[JIT_PROBLEM_MALFORMED] += whole == 0;
		maps->stats.bytes_read += (uint64_t)n;
		process->consumed += whole ? whole : (size_t)n;
	}
}

static void read_on(struct perf_maps *maps, struct process *process, int fd, uint64_t size)
{
	_cleanup_(buffer_release) struct buffer window = {0};
	uint64_t allowed = process->consumed + (process->has_ended ? 4 * REFRESH_BYTES_MAX : REFRESH_BYTES_MAX);
	size_t bad_before = process->map.bad_lines, dropped_before = process->map.dropped;

	if (size > FILE_BYTES_MAX) {
		size = FILE_BYTES_MAX;
		maps->stats.problems[JIT_PROBLEM_TOO_LONG] += !process->is_too_long;
		process->is_too_long = true;
	}
	if (size > allowed) {
		maps->stats.problems[JIT_PROBLEM_TOO_LONG] += process->has_ended;
		size = allowed;
	}
	if (size <= process->consumed)
		return;
	buffer_init(&window, size - process->consumed <= WINDOW_BYTES_MIN ? WINDOW_BYTES_MIN : WINDOW_BYTES_MAX);
	if (buffer_reserve(&window, window.max) < 0)
		return;
	maps->stats.reads++;
	maps->total_bytes -= perf_map_memory_bytes(&process->map);
	read_lines(maps, process, fd, size, &window);
	maps->total_bytes += perf_map_memory_bytes(&process->map);
	maps->stats.problems[JIT_PROBLEM_MALFORMED] += process->map.bad_lines - bad_before;
	maps->stats.problems[JIT_PROBLEM_FULL] += process->map.dropped - dropped_before;
	process->ends_hash = hash_ends(fd, process->consumed);
}

static void read_file(struct perf_maps *maps, struct process *process, int fd, const struct stat *st)
{
	bool is_same = process->device == st->st_dev && process->inode == st->st_ino &&
		       (uint64_t)st->st_size >= process->consumed &&
		       (process->consumed == 0 || hash_ends(fd, process->consumed) == process->ends_hash);
	if (!is_same) {
		maps->stats.problems[JIT_PROBLEM_REWRITTEN] += process->consumed > 0;
		forget(maps, process);
	}
	process->device = st->st_dev;
	process->inode = st->st_ino;
	if ((uint64_t)st->st_size != process->consumed)
		read_on(maps, process, fd, (uint64_t)st->st_size);
	make_room(maps);
}

/* Is it still the process whose map this is? Forgets what was known of the pid's former owner, and of the former program. */
static void identify(struct perf_maps *maps, struct process *process, const struct perf_maps_process *who)
{
	uint64_t start_time = 0;
	bool lives = read_start_time(process->who.pid, &start_time) == 0;
	pid_t namespace_pid = who->namespace_pid > 0 ? who->namespace_pid : who->pid;
	if ((lives && process->start_time && start_time != process->start_time) || who->started_ns != process->who.started_ns ||
	    namespace_pid != process->who.namespace_pid) {
		forget(maps, process);
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
	if (!jit_look_is_due(&process->look, &maps->pace, for_miss, now) && who->started_ns == process->who.started_ns)
		return false;
	look_at(maps, process, who);
	process->look = (struct jit_look){.at_ns = now, .took_ns = time_monotonic_ns() - now};
	return true;
}

/* Code without a name may be younger than what was read: it is looked for again sooner. */
bool perf_maps_lookup(struct perf_maps *maps, const struct perf_maps_process *who, uint64_t address, const char **ret_name,
		      uint64_t *ret_start)
{
	if (who->pid <= 0)
		return false;
	maps->stats.lookups++;
	struct process *process = get_process(maps, who->pid);
	if (!process)
		return false;
	check_process(maps, process, who, false);
	const struct code_piece *piece = perf_map_find(&process->map, address);
	if (!piece && check_process(maps, process, who, true))
		piece = perf_map_find(&process->map, address);
	if (!piece)
		return false;
	maps->stats.hits++;
	*ret_name = perf_map_name(&process->map, piece);
	*ret_start = piece->symbol_start;
	return true;
}

void perf_maps_get_stats(const struct perf_maps *maps, struct jit_stats *ret)
{
	*ret = maps->stats;
	ret->memory_bytes = maps->total_bytes;
	for (const struct process *process = maps->newest; process; process = process->older)
		ret->files += process->consumed > 0;
}
