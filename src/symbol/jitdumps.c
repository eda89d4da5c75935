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
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/hash.h"
#include "base/io.h"
#include "base/time.h"
#include "symbol/jit_files.h"
#include "symbol/jitdump.h"
#include "symbol/symbol_int.h"

#define FILES_MAX	    1024u
#define FILE_BYTES_MAX	    (4 * GIB)  /* how far a file is read */
#define REFRESH_BYTES_MAX   (64 * MIB) /* read at a time, without the code in between */
#define REFRESH_RECORDS_MAX 262144u    /* at a time */
#define WINDOW_BYTES	    (256 * KIB)
#define SEARCH_STEPS_MAX    4000000u /* in a file and an interval */

struct file {
	struct jit_file base;
	uint8_t header[JITDUMP_HEADER_BYTES];
	bool is_counted;  /* as broken */
	int64_t steps_ns; /* when there were all steps again; 0 = never */
	size_t search_steps;
	struct jitdump dump;
};

/* ---- life ---- */

static void init_file(struct jit_file *base, size_t entries_max)
{
	struct file *file = (struct file *)base;
	jitdump_init(&file->dump);
	file->dump.entries_max = entries_max;
}

static void release_file(struct jit_file *base)
{
	struct file *file = (struct file *)base;
	jitdump_release(&file->dump);
	file->is_counted = false;
}

static size_t file_memory_bytes(const struct jit_file *base)
{
	return jitdump_memory_bytes(&((const struct file *)base)->dump);
}

static const struct jit_files_kind kind = {
	.size = sizeof(struct file),
	.files_max = FILES_MAX,
	.entries_max = JITDUMP_ENTRIES_MAX,
	.init = init_file,
	.release = release_file,
	.memory_bytes = file_memory_bytes,
};

int jitdumps_new(struct jitdumps **ret, struct error *err)
{
	struct jitdumps *dumps = mem_zalloc(sizeof(*dumps));
	if (!dumps)
		return error_nomem(err);
	jit_files_init(&dumps->files, &kind);
	*ret = dumps;
	return 0;
}

struct jitdumps *jitdumps_free(struct jitdumps *dumps)
{
	if (dumps)
		jit_files_release(&dumps->files);
	return mem_free(dumps);
}

static struct file *get_file(struct jitdumps *dumps, const struct jitdump_file *which)
{
	uint64_t identity[2] = {which->device, which->inode};
	return (struct file *)jit_files_get(&dumps->files, hash64(identity, sizeof(identity)));
}

/* ---- opening ---- */

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
	return handle < 0 ? handle : jit_files_reopen(&dumps->files, handle, path, ret_stat);
}

static int open_below(struct jitdumps *dumps, const char *root_path, const struct jitdump_file *which, struct stat *ret_stat)
{
	_cleanup_(fd_closep) int fd = jit_files_open_below(&dumps->files, root_path, which->path, ret_stat);
	if (fd >= 0 && (ret_stat->st_dev != which->device || ret_stat->st_ino != which->inode))
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
static const uint8_t *read_window(struct window *window, uint64_t at, size_t len)
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
		uint64_t left = window->size - file->base.consumed, len;
		size_t want;
		if (left < JITDUMP_RECORD_BYTES || window->bytes_read > REFRESH_BYTES_MAX)
			break;
		const uint8_t *record = read_window(window, file->base.consumed, JITDUMP_RECORD_BYTES);
		if (!record || !jitdump_measure_record(dump, record, &len, &want) || len > left)
			break;
		record = read_window(window, file->base.consumed, want);
		if (!record || jitdump_add_record(dump, (struct bytes){record, want}) < 0)
			break;
		file->base.consumed += len;
	}
}

static void count_problems(struct jitdumps *dumps, struct file *file, const struct jitdump *before)
{
	uint64_t *problems = dumps->files.stats.problems;
	const struct jitdump *now = &file->dump;
	problems[JIT_PROBLEM_MALFORMED] += now->bad_records - before->bad_records;
	problems[JIT_PROBLEM_DEBUG_INFO] += now->bad_debug_infos - before->bad_debug_infos;
	problems[JIT_PROBLEM_FULL] += now->dropped - before->dropped;
}

static void read_on(struct jitdumps *dumps, struct file *file, int fd, uint64_t size)
{
	struct jitdump before = file->dump;
	size = jit_files_limit(&dumps->files, &file->base, size, FILE_BYTES_MAX);
	if (size <= file->base.consumed)
		return;
	struct window window = {.fd = fd, .size = size, .bytes = {.max = JITDUMP_RECORD_MAX}};
	dumps->files.stats.reads++;
	read_records(file, &window);
	jitdump_settle(&file->dump); /* what has no memory now is settled the next time */
	jit_files_count(&dumps->files, &file->base);
	dumps->files.stats.bytes_read += window.bytes_read;
	buffer_release(&window.bytes);
	count_problems(dumps, file, &before);
}

/* Reads the header, again if there was one: a file that does not begin as before is another. False if it is none. */
static bool check_header(struct jitdumps *dumps, struct file *file, int fd, uint64_t size)
{
	uint8_t header[JITDUMP_HEADER_BYTES];
	if (size < sizeof(header) || io_pread(fd, header, sizeof(header), 0, "a jitdump", NULL) != (ssize_t)sizeof(header))
		return false;
	if (file->base.consumed && (size < file->base.consumed || memcmp(header, file->header, sizeof(header)) != 0)) {
		dumps->files.stats.problems[JIT_PROBLEM_REWRITTEN]++;
		jit_files_forget(&dumps->files, &file->base);
	}
	if (file->base.consumed)
		return true;
	if (jitdump_read_header(&file->dump, header) < 0) {
		dumps->files.stats.problems[JIT_PROBLEM_MALFORMED] += !file->is_counted;
		file->is_counted = true;
		return false;
	}
	memcpy(file->header, header, sizeof(header));
	uint32_t header_len;
	memcpy(&header_len, header + 8, sizeof(header_len));
	file->base.consumed = header_len;
	return true;
}

static void read_file(struct jitdumps *dumps, struct file *file, const struct jitdump_file *which)
{
	struct stat st;
	_cleanup_(fd_closep) int fd = open_file(dumps, which, &st);
	if (fd < 0) {
		dumps->files.stats.problems[JIT_PROBLEM_GONE] += !file->base.consumed && !file->is_counted;
		file->is_counted = true;
		return;
	}
	if (check_header(dumps, file, fd, (uint64_t)st.st_size) && (uint64_t)st.st_size > file->base.consumed)
		read_on(dumps, file, fd, (uint64_t)st.st_size);
	jit_files_make_room(&dumps->files);
}

/* False when it is too early for another look. */
static bool check_file(struct jitdumps *dumps, struct file *file, const struct jitdump_file *which, bool for_miss)
{
	int64_t now = time_monotonic_ns();
	if (!jit_check_is_due(&file->base.last_check, &dumps->files.pace, for_miss, now))
		return false;
	if (!file->steps_ns || now - file->steps_ns >= dumps->files.pace.interval_ns) {
		file->steps_ns = now;
		file->search_steps = SEARCH_STEPS_MAX;
	}
	read_file(dumps, file, which);
	file->base.last_check = (struct jit_check){.at_ns = now, .took_ns = time_monotonic_ns() - now};
	return true;
}

/* ---- looking up ---- */

static const struct jitdump_entry *find(struct jitdumps *dumps, struct file *file, uint64_t address, uint64_t time_ns)
{
	uint64_t given_up = file->dump.searches_given_up;
	const struct jitdump_entry *entry = jitdump_find(&file->dump, address, time_ns, &file->search_steps);
	dumps->files.stats.problems[JIT_PROBLEM_SEARCH] += file->dump.searches_given_up - given_up;
	return entry;
}

bool jitdumps_lookup(struct jitdumps *dumps, const struct jitdump_file *which, uint64_t address, uint64_t time_ns,
		     struct jit_function *ret)
{
	dumps->files.stats.lookups++;
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
	dumps->files.stats.hits++;
	*ret = (struct jit_function){.name = jitdump_text(&file->dump, entry->name), .start = entry->start};
	if (line) {
		ret->file = jitdump_text(&file->dump, line->file);
		ret->line = line->line;
	}
	return true;
}

void jitdumps_get_stats(const struct jitdumps *dumps, struct jit_stats *ret)
{
	jit_files_get_stats(&dumps->files, ret);
}
