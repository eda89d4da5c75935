// SPDX-License-Identifier: Apache-2.0
/*
 * Files of jitdumps. A process maps the first page of its file executable; that mapping tells profilers where it is, and device
 * and inode of the mapping are what a file is known by here, so that the children of a fork share it.
 *
 * The file is opened through /proc/PID/map_files, which names what is mapped even when it is deleted or in another mount
 * namespace; else by its path below the process's root, or, since it may have ended, in ours, and then believed only if device
 * and inode agree. Whose it is need not be asked: a process could only have mapped it if it may read it, and nobody else
 * decides what a process maps.
 *
 * Records are read in windows, code is jumped over. Reading goes on where it stopped, up to the last whole record: when a
 * second has passed, or, for code that has no name, a twentieth of that if the last reading was cheap, since samples are named
 * soon after they were taken and code may be as young as they are. A file that has become shorter or begins differently is read
 * anew.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/hash.h"
#include "base/io.h"
#include "base/map.h"
#include "base/time.h"
#include "symbol/jitdump.h"
#include "symbol/symbol_int.h"

#define FILES_MAX	    1024u
#define TOTAL_BYTES_MAX	    (64 * MIB)
#define FILE_BYTES_MAX	    (4 * GIB)  /* how far a file is read */
#define REFRESH_BYTES_MAX   (64 * MIB) /* read at a time, without the code in between */
#define REFRESH_RECORDS_MAX 262144u    /* at a time */
#define WINDOW_BYTES	    (256 * KIB)
#define SEARCH_STEPS_MAX    4000000u /* in a file and an interval */

struct file {
	uint64_t device, inode, key;
	struct jit_look look;
	uint64_t consumed; /* bytes of the file that are in the dump; 0 = not even the header */
	uint8_t header[JITDUMP_HEADER_BYTES];
	bool is_counted; /* as broken */
	bool is_too_long;
	int64_t steps_ns; /* when there were all steps again; 0 = never */
	size_t search_steps;
	struct jitdump dump;
	struct file *older, *newer;
};

struct jitdumps {
	struct map64 by_key; /* hash of device and inode -> struct file * */
	struct file *newest, *oldest;
	size_t file_count, total_bytes, total_bytes_max, entries_max;
	struct jit_pace pace;
	struct jit_stats stats; /* files and memory_bytes are filled in when asked */
};

/* ---- life ---- */

int jitdumps_new(struct jitdumps **ret, struct error *err)
{
	struct jitdumps *dumps = mem_zalloc(sizeof(*dumps));
	if (!dumps)
		return error_nomem(err);
	map64_init(&dumps->by_key);
	dumps->total_bytes_max = TOTAL_BYTES_MAX;
	dumps->entries_max = JITDUMP_ENTRIES_MAX;
	jitdumps_set_interval(dumps, NS_PER_S, NS_PER_S / 20);
	*ret = dumps;
	return 0;
}

void jitdumps_set_interval(struct jitdumps *dumps, int64_t interval_ns, int64_t miss_interval_ns)
{
	dumps->pace = (struct jit_pace){interval_ns, miss_interval_ns};
}

void jitdumps_set_limits(struct jitdumps *dumps, size_t entries_max, size_t total_bytes_max)
{
	dumps->entries_max = entries_max;
	dumps->total_bytes_max = total_bytes_max;
}

static void unlink_file(struct jitdumps *dumps, struct file *file)
{
	*(file->newer ? &file->newer->older : &dumps->newest) = file->older;
	*(file->older ? &file->older->newer : &dumps->oldest) = file->newer;
	file->newer = file->older = NULL;
}

static void link_newest(struct jitdumps *dumps, struct file *file)
{
	file->older = dumps->newest;
	*(dumps->newest ? &dumps->newest->newer : &dumps->oldest) = file;
	dumps->newest = file;
}

static void remove_file(struct jitdumps *dumps, struct file *file)
{
	map64_remove(&dumps->by_key, file->key);
	unlink_file(dumps, file);
	dumps->total_bytes -= jitdump_memory_bytes(&file->dump);
	dumps->file_count--;
	jitdump_release(&file->dump);
	mem_free(file);
}

struct jitdumps *jitdumps_free(struct jitdumps *dumps)
{
	if (!dumps)
		return NULL;
	while (dumps->oldest)
		remove_file(dumps, dumps->oldest);
	map64_release(&dumps->by_key);
	return mem_free(dumps);
}

/* The least recently used ones go, but never the newest. */
static void make_room(struct jitdumps *dumps)
{
	while (dumps->oldest != dumps->newest &&
	       (dumps->total_bytes > dumps->total_bytes_max || dumps->file_count > FILES_MAX)) {
		dumps->stats.problems[JIT_PROBLEM_EVICTED] += dumps->oldest->consumed > 0;
		remove_file(dumps, dumps->oldest);
	}
}

static struct file *get_file(struct jitdumps *dumps, const struct jitdump_file *which)
{
	uint64_t identity[2] = {which->device, which->inode}, key = hash64(identity, sizeof(identity)), known;
	struct file *file;
	if (map64_get(&dumps->by_key, key, &known)) {
		file = (struct file *)(uintptr_t)known;
		unlink_file(dumps, file);
		link_newest(dumps, file);
		return file;
	}
	file = mem_zalloc(sizeof(*file));
	if (!file)
		return NULL;
	if (map64_put(&dumps->by_key, key, (uint64_t)(uintptr_t)file) < 0) {
		mem_free(file);
		return NULL;
	}
	file->device = which->device;
	file->inode = which->inode;
	file->key = key;
	jitdump_init(&file->dump);
	file->dump.entries_max = dumps->entries_max;
	link_newest(dumps, file);
	dumps->file_count++;
	make_room(dumps);
	return file;
}

static void forget(struct jitdumps *dumps, struct file *file)
{
	dumps->total_bytes -= jitdump_memory_bytes(&file->dump);
	jitdump_release(&file->dump);
	file->consumed = 0;
	file->is_counted = file->is_too_long = false;
}

/* ---- opening ---- */

/* Anything but a regular file is refused by source_reopen(), and counted. */
static int reopen(struct jitdumps *dumps, int handle, const char *path, struct stat *ret_stat)
{
	int fd;
	int r = source_reopen(handle, path, &fd, ret_stat, NULL);
	dumps->stats.problems[JIT_PROBLEM_NOT_REGULAR] += r == -EINVAL;
	return r < 0 ? r : fd;
}

static int open_mapped(struct jitdumps *dumps, const struct jitdump_file *which, struct stat *ret_stat)
{
	char path[96], target[4096 + 16];
	snprintf(path, sizeof(path), "/proc/%d/map_files/%" PRIx64 "-%" PRIx64, (int)which->pid, which->start, which->end);
	/* The process may map something else there by now. */
	ssize_t n = readlink(path, target, sizeof(target) - 1);
	size_t len = strlen(which->path);
	if (n < (ssize_t)len || strncmp(target, which->path, len) != 0)
		return -ENOENT;
	_cleanup_(fd_closep) int handle = io_open(path, O_PATH, 0, NULL);
	return handle < 0 ? handle : reopen(dumps, handle, path, ret_stat);
}

static int open_below(struct jitdumps *dumps, const char *root_path, const struct jitdump_file *which, struct stat *ret_stat)
{
	_cleanup_(fd_closep) int root = io_open(root_path, O_PATH | O_DIRECTORY, 0, NULL);
	if (root < 0)
		return root;
	struct open_how how = {.flags = O_PATH | O_NOFOLLOW | O_CLOEXEC, .resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS};
	_cleanup_(fd_closep) int handle = (int)syscall(SYS_openat2, root, which->path, &how, sizeof(how));
	if (handle < 0)
		return -errno;
	_cleanup_(fd_closep) int fd = reopen(dumps, handle, which->path, ret_stat);
	if (fd < 0)
		return fd;
	if (ret_stat->st_dev != which->device || ret_stat->st_ino != which->inode)
		return -ESTALE;
	return fd_take(&fd);
}

static int open_file(struct jitdumps *dumps, const struct jitdump_file *which, struct stat *ret_stat)
{
	char root[64];
	int fd = open_mapped(dumps, which, ret_stat);
	if (fd >= 0)
		return fd;
	snprintf(root, sizeof(root), "/proc/%d/root", (int)which->pid);
	fd = open_below(dumps, root, which, ret_stat);
	return fd >= 0 ? fd : open_below(dumps, "/", which, ret_stat);
}

/* ---- reading ---- */

/* A part of the file, in memory. */
struct window {
	int fd;
	uint64_t size; /* of the file */
	uint64_t start;
	struct buffer bytes;
	uint64_t bytes_read;
};

/* `len` bytes of the file; NULL when they cannot be read. */
static const uint8_t *look(struct window *window, uint64_t at, size_t len)
{
	struct buffer *bytes = &window->bytes;
	if (at >= window->start && at - window->start <= bytes->len && bytes->len - (at - window->start) >= len)
		return bytes->data + (at - window->start);
	size_t want = len > WINDOW_BYTES ? len : WINDOW_BYTES;
	if (want > window->size - at)
		want = (size_t)(window->size - at);
	buffer_clear(bytes);
	if (want < len || buffer_reserve(bytes, want) < 0)
		return NULL;
	ssize_t n = io_pread(window->fd, bytes->data, want, at, "a jitdump", NULL);
	if (n < (ssize_t)len)
		return NULL;
	window->start = at;
	bytes->len = (size_t)n;
	window->bytes_read += (uint64_t)n;
	return bytes->data;
}

/* Takes records in, up to the last whole one. */
static void read_records(struct file *file, struct window *window)
{
	struct jitdump *dump = &file->dump;
	for (unsigned i = 0; i < REFRESH_RECORDS_MAX && !dump->is_broken && !dump->is_closed; i++) {
		uint64_t left = window->size - file->consumed, len;
		size_t want;
		if (left < JITDUMP_RECORD_BYTES || window->bytes_read > REFRESH_BYTES_MAX)
			break;
		const uint8_t *record = look(window, file->consumed, JITDUMP_RECORD_BYTES);
		if (!record || !jitdump_measure_record(dump, record, &len, &want) || len > left)
			break;
		record = look(window, file->consumed, want);
		if (!record || jitdump_add_record(dump, (struct bytes){record, want}) < 0)
			break;
		file->consumed += len;
	}
}

static void count_problems(struct jitdumps *dumps, struct file *file, const struct jitdump *before)
{
	uint64_t *problems = dumps->stats.problems;
	const struct jitdump *now = &file->dump;
	problems[JIT_PROBLEM_MALFORMED] += now->bad_records - before->bad_records;
	problems[JIT_PROBLEM_DEBUG_INFO] += now->bad_debug_infos - before->bad_debug_infos;
	problems[JIT_PROBLEM_FULL] += now->dropped - before->dropped;
}

static void read_on(struct jitdumps *dumps, struct file *file, int fd, uint64_t size)
{
	_cleanup_(buffer_release) struct buffer bytes = {0};
	struct jitdump before = file->dump;

	buffer_init(&bytes, JITDUMP_RECORD_MAX);
	if (size > FILE_BYTES_MAX) {
		dumps->stats.problems[JIT_PROBLEM_TOO_LONG] += !file->is_too_long;
		file->is_too_long = true;
		size = FILE_BYTES_MAX;
	}
	if (size <= file->consumed)
		return;
	struct window window = {.fd = fd, .size = size, .bytes = bytes};
	dumps->stats.reads++;
	dumps->total_bytes -= jitdump_memory_bytes(&file->dump);
	read_records(file, &window);
	jitdump_settle(&file->dump); /* what has no memory now is settled the next time */
	dumps->total_bytes += jitdump_memory_bytes(&file->dump);
	dumps->stats.bytes_read += window.bytes_read;
	bytes = window.bytes;
	count_problems(dumps, file, &before);
}

/* Reads the header, again if there was one: a file that does not begin as before is another. False if it is none. */
static bool check_header(struct jitdumps *dumps, struct file *file, int fd, uint64_t size)
{
	uint8_t header[JITDUMP_HEADER_BYTES];
	if (size < sizeof(header) || io_pread(fd, header, sizeof(header), 0, "a jitdump", NULL) != (ssize_t)sizeof(header))
		return false;
	if (file->consumed && (size < file->consumed || memcmp(header, file->header, sizeof(header)) != 0)) {
		dumps->stats.problems[JIT_PROBLEM_REWRITTEN]++;
		forget(dumps, file);
	}
	if (file->consumed)
		return true;
	if (jitdump_read_header(&file->dump, header) < 0) {
		dumps->stats.problems[JIT_PROBLEM_MALFORMED] += !file->is_counted;
		file->is_counted = true;
		return false;
	}
	memcpy(file->header, header, sizeof(header));
	uint32_t header_len;
	memcpy(&header_len, header + 8, sizeof(header_len));
	file->consumed = header_len;
	return true;
}

static void read_file(struct jitdumps *dumps, struct file *file, const struct jitdump_file *which)
{
	struct stat st;
	_cleanup_(fd_closep) int fd = open_file(dumps, which, &st);
	if (fd < 0) {
		dumps->stats.problems[JIT_PROBLEM_GONE] += !file->consumed && !file->is_counted;
		file->is_counted = true;
		return;
	}
	if (check_header(dumps, file, fd, (uint64_t)st.st_size) && (uint64_t)st.st_size > file->consumed)
		read_on(dumps, file, fd, (uint64_t)st.st_size);
	make_room(dumps);
}

/* False when it is too early for another look. */
static bool check_file(struct jitdumps *dumps, struct file *file, const struct jitdump_file *which, bool for_miss)
{
	int64_t now = time_monotonic_ns();
	if (!jit_look_is_due(&file->look, &dumps->pace, for_miss, now))
		return false;
	if (!file->steps_ns || now - file->steps_ns >= dumps->pace.interval_ns) {
		file->steps_ns = now;
		file->search_steps = SEARCH_STEPS_MAX;
	}
	read_file(dumps, file, which);
	file->look = (struct jit_look){.at_ns = now, .took_ns = time_monotonic_ns() - now};
	return true;
}

/* ---- looking up ---- */

static const struct jitdump_entry *find(struct jitdumps *dumps, struct file *file, uint64_t address, uint64_t time_ns)
{
	uint64_t given_up = file->dump.searches_given_up;
	const struct jitdump_entry *entry = jitdump_find(&file->dump, address, time_ns, &file->search_steps);
	dumps->stats.problems[JIT_PROBLEM_SEARCH] += file->dump.searches_given_up - given_up;
	return entry;
}

bool jitdumps_lookup(struct jitdumps *dumps, const struct jitdump_file *which, uint64_t address, uint64_t time_ns,
		     struct jit_function *ret)
{
	dumps->stats.lookups++;
	struct file *file = get_file(dumps, which);
	if (!file)
		return false;
	check_file(dumps, file, which, false);
	const struct jitdump_entry *entry = find(dumps, file, address, time_ns);
	if (!entry && check_file(dumps, file, which, true))
		entry = find(dumps, file, address, time_ns);
	if (!entry)
		return false;
	const struct jitdump_line *line = jitdump_find_line(&file->dump, entry, address);
	dumps->stats.hits++;
	*ret = (struct jit_function){.name = jitdump_text(&file->dump, entry->name), .start = entry->start};
	if (line) {
		ret->file = jitdump_text(&file->dump, line->file);
		ret->line = line->line;
	}
	return true;
}

void jitdumps_get_stats(const struct jitdumps *dumps, struct jit_stats *ret)
{
	*ret = dumps->stats;
	ret->memory_bytes = dumps->total_bytes;
	for (const struct file *file = dumps->newest; file; file = file->older)
		ret->files += file->consumed > 0;
}
