/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Backups of a store that goes on working.
 *
 * Blocks never change, so a copy of one is right whenever it was made. What changes is which there are: a merge puts one in the
 * place of others, retention removes some. So the list is asked for, what is missing is copied, and the list is asked for
 * again, until it names nothing new; a block that goes away meanwhile is in the next list's blocks, or was removed. That ends,
 * since the source makes blocks more slowly than they are copied, and each is copied once. In the end the backup has the blocks
 * of one list and no others: one that was replaced would be counted twice.
 *
 * The log comes first. What a record holds is either in the copy of the log, or in a block that was there when the log was
 * copied, and that block, or one that was made of it, is in the lists that come later. What is in both is skipped at the start
 * of whoever uses the backup, by its sequence, as after a crash. The copy ends where the file ended, inside a record perhaps:
 * that end is cut off, for nobody was promised it.
 *
 * The labels of hosts come last, so that whatever is in the blocks has them. They change, so what was read in pieces is read
 * once more if it does not fit together.
 *
 * A block is made in tmp/, opened, verified, synced, and renamed into blocks/, so that an interrupted backup has whole blocks
 * and goes on from there. backup.json says that the directory is a backup, and whether it is complete: only such a directory
 * loses blocks that the source has no more.
 *
 * Rejected: to stop merges and retention for as long as a backup takes (a client that went away would stop them for ever), and
 * one archive file (which cannot be brought up to date, nor started on).
 */
#include "store/backup.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/buffer.h"
#include "base/io.h"
#include "base/time.h"
#include "codec/json.h"
#include "store/store_int.h"

#define ROUNDS_MAX  100
#define COPY_BUFFER (1024 * 1024)
#define NOTE_MAX    4096
#define HOSTS_TRIES 5

struct names {
	char (*items)[BLOCK_NAME_MAX];
	size_t count, capacity;
};
struct backing {
	const struct store_backup_options *options;
	const struct store_backup_source *source;
	struct store_backup_result *result;
	char blocks[PATH_MAX], log[PATH_MAX], temporary[PATH_MAX], trash[PATH_MAX], note[PATH_MAX];
	struct names wanted; /* the newest list */
	struct error *err;
};

static int join(char to[PATH_MAX], const char *directory, const char *name, struct error *err)
{
	int r = io_join_path(to, PATH_MAX, directory, name);
	return r < 0 ? error_set_errno(err, r, "%s/%s", directory, name) : 0;
}

static bool is_block_name(const char *name)
{
	return name[0] >= '0' && name[0] <= '9' && strlen(name) < BLOCK_NAME_MAX && !strchr(name, '/');
}

static bool has_name(const struct names *names, const char *name)
{
	for (size_t i = 0; i < names->count; i++)
		if (!strcmp(names->items[i], name))
			return true;
	return false;
}

static int add_name(void *context, const char *name, struct error *err)
{
	struct names *names = context;
	if (!is_block_name(name))
		return 0;
	if (array_reserve(&names->items, &names->capacity, names->count + 1, SIZE_MAX / BLOCK_NAME_MAX) < 0)
		return error_nomem(err);
	snprintf(names->items[names->count++], BLOCK_NAME_MAX, "%s", name);
	return 0;
}

/* Names of the entries of a directory; one that is not there has none. */
static int list_directory(const char *path, store_backup_on_name on_name, void *context, struct error *err)
{
	_cleanup_(dir_closep) DIR *dir = opendir(path);
	int r = 0;
	if (!dir)
		return errno == ENOENT ? 0 : error_set_errno(err, -errno, "cannot list %s", path);
	for (const struct dirent *entry; r == 0 && (entry = readdir(dir));)
		if (entry->d_name[0] != '.')
			r = on_name(context, entry->d_name, err);
	return r;
}

/* ---- from a directory ---- */

static int copy_bytes(int from, int to, const char *name, struct error *err)
{
	_cleanup_(mem_freep) uint8_t *bytes = mem_alloc(COPY_BUFFER);
	uint64_t at = 0;
	if (!bytes)
		return error_nomem(err);
	for (ssize_t n; (n = io_pread(from, bytes, COPY_BUFFER, at, name, err)) != 0; at += (uint64_t)n) {
		if (n < 0)
			return (int)n;
		int r = io_write(to, bytes, (size_t)n, name, err);
		if (r < 0)
			return r;
	}
	return 0;
}

static int copy_file(const char *from, const char *to, struct error *err)
{
	struct stat about;
	_cleanup_(fd_closep) int in = io_open(from, O_RDONLY, 0, err);
	if (in < 0)
		return in;
	_cleanup_(fd_closep) int out = io_open(to, O_WRONLY | O_CREAT | O_EXCL, 0640, err);
	if (out < 0)
		return out;
	int r = copy_bytes(in, out, from, err);
	/* The log's tells what time is missing if it is damaged. */
	if (r == 0 && fstat(in, &about) == 0)
		futimens(out, (struct timespec[2]){{.tv_nsec = UTIME_OMIT}, about.st_mtim});
	return r == 0 ? io_sync(out, to, err) : r;
}

static int list_of_directory(void *context, bool is_first, store_backup_on_name on_name, void *name_context, struct error *err)
{
	char path[PATH_MAX];
	int r = join(path, context, "blocks", err);
	(void)is_first;
	return r < 0 ? r : list_directory(path, on_name, name_context, err);
}

static int fetch_of_directory(void *context, const char *block, const char *file, const char *to, struct error *err)
{
	char blocks[PATH_MAX], path[PATH_MAX], from[PATH_MAX];
	int r = join(blocks, context, "blocks", err);
	if (r == 0)
		r = join(path, blocks, block, err);
	if (r == 0)
		r = join(from, path, file, err);
	if (r < 0)
		return r;
	if (link(from, to) == 0)
		return 0;
	if (errno == ENOENT)
		return error_set_errno(err, -ENOENT, "%s", from);
	return copy_file(from, to, err); /* another file system, or one without links */
}

struct copying_log {
	const char *from, *to;
};

static int copy_segment(void *context, const char *name, struct error *err)
{
	const struct copying_log *copying = context;
	char from[PATH_MAX], to[PATH_MAX];
	struct error why = {0};
	size_t len = strlen(name);
	if (len < 5 || strcmp(name + len - 4, ".log"))
		return 0;
	int r = join(from, copying->from, name, err);
	if (r == 0)
		r = join(to, copying->to, name, err);
	if (r < 0)
		return r;
	r = copy_file(from, to, &why);
	/* One that was removed since is in a block. */
	return r < 0 && r != -ENOENT ? error_set(err, r, "%s", why.message) : 0;
}

static int fetch_log_of_directory(void *context, const char *to, struct error *err)
{
	char from[PATH_MAX];
	struct copying_log copying = {.from = from, .to = to};
	int r = join(from, context, "log", err);
	return r < 0 ? r : list_directory(from, copy_segment, &copying, err);
}

static int fetch_hosts_of_directory(void *context, const char *to, struct error *err)
{
	char from[PATH_MAX];
	int r = join(from, context, HOST_JOURNAL_NAME, err);
	return r < 0 ? r : copy_file(from, to, err);
}

void store_backup_directory(const char *directory, struct store_backup_source *ret)
{
	*ret = (struct store_backup_source){.name = directory,
					    .list = list_of_directory,
					    .fetch = fetch_of_directory,
					    .fetch_log = fetch_log_of_directory,
					    .fetch_hosts = fetch_hosts_of_directory,
					    .context = (void *)(uintptr_t)directory};
}

/* ---- the target ---- */

static int write_note(struct backing *b, bool complete)
{
	_cleanup_(buffer_release) struct buffer text = {.max = NOTE_MAX};
	struct json_writer json = {.out = &text};
	char fresh[PATH_MAX + 8];
	json_begin_object(&json);
	json_member_cstring(&json, "format", "wick backup");
	json_member_int(&json, "version", 1);
	json_member_cstring(&json, "source", b->source->name);
	json_member_int(&json, "made_ns", time_now_ns());
	json_member_bool(&json, "complete", complete);
	json_member_uint(&json, "blocks", b->result->blocks);
	json_member_uint(&json, "bytes", b->result->bytes);
	json_member_uint(&json, "log_records", b->result->log_records);
	json_end_object(&json);
	int r = json_finish(&json, b->err);
	if (r == 0 && buffer_append_byte(&text, '\n') < 0)
		r = error_nomem(b->err);
	snprintf(fresh, sizeof(fresh), "%s.tmp", b->note);
	if (r == 0)
		unlink(fresh);
	if (r == 0)
		r = io_write_file(fresh, text.data, text.len, 0640, b->err);
	if (r == 0)
		r = io_rename(fresh, b->note, b->err);
	return r == 0 ? io_sync_dir(b->options->target, b->err) : r;
}

static int count_name(void *context, const char *name, struct error *err)
{
	++*(size_t *)context;
	return 0;
}

/* A directory that somebody else filled is left alone. */
static int check_target(struct backing *b)
{
	size_t entries = 0;
	int r = list_directory(b->options->target, count_name, &entries, b->err);
	if (r < 0 || entries == 0 || access(b->note, F_OK) == 0)
		return r;
	return error_set(b->err, -EEXIST, "%s is not empty, and no backup: give a new directory, or an earlier backup",
			 b->options->target);
}

static int prepare(struct backing *b)
{
	const struct {
		char *path;
		const char *name;
	} paths[] = {
		{b->blocks, "blocks"}, {b->log, "log"}, {b->temporary, "tmp"}, {b->trash, "trash"}, {b->note, "backup.json"}};
	int r = 0;
	for (size_t i = 0; r == 0 && i < sizeof(paths) / sizeof(*paths); i++)
		r = join(paths[i].path, b->options->target, paths[i].name, b->err);
	if (r == 0)
		r = io_make_dirs(b->blocks, 0750, b->err);
	if (r == 0)
		r = io_make_dirs(b->log, 0750, b->err);
	if (r == 0)
		r = store_empty_directory(b->temporary, b->err);
	return r == 0 ? write_note(b, false) : r;
}

static int lock(struct backing *b, int *ret)
{
	char path[PATH_MAX];
	int r = join(path, b->options->target, "lock", b->err);
	if (r < 0)
		return r;
	*ret = io_lock_file(path, b->err);
	if (*ret == -EBUSY)
		return error_set(b->err, -EBUSY, "%s is in use by a server", b->options->target);
	return *ret < 0 ? *ret : 0;
}

/* ---- the log ---- */

static int accept_record(void *context, uint64_t sequence, struct bytes payload, struct error *err)
{
	return 0;
}

/* The old copy goes when the new one is there. */
static int back_up_log(struct backing *b)
{
	char fresh[PATH_MAX];
	struct log_replay replay = {.directory = fresh, .on_record = accept_record, .context = b};
	struct log_replay_result log = {0};
	int r = join(fresh, b->temporary, "log", b->err);
	if (r == 0)
		r = store_empty_directory(fresh, b->err);
	if (r == 0 && b->source->fetch_log)
		r = b->source->fetch_log(b->source->context, fresh, b->err);
	if (r == 0)
		r = log_replay(&replay, &log, b->err);
	if (r == 0)
		r = io_sync_dir(fresh, b->err);
	if (r == 0)
		r = io_remove_tree(b->log, b->err);
	if (r == 0)
		r = io_rename(fresh, b->log, b->err);
	b->result->log_records = log.records;
	b->result->log_bytes = log.bytes;
	return r;
}

/* ---- blocks ---- */

static void problem(const struct backing *b, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void problem(const struct backing *b, const char *format, ...)
{
	char text[2 * ERROR_MESSAGE_MAX];
	va_list arguments;
	va_start(arguments, format);
	vsnprintf(text, sizeof(text), format, arguments);
	va_end(arguments);
	if (b->options->on_problem)
		b->options->on_problem(b->options->context, text);
}

static int sync_file(const char *path, struct error *err)
{
	_cleanup_(fd_closep) int fd = io_open(path, O_RDONLY, 0, err);
	return fd < 0 ? fd : io_sync(fd, path, err);
}

static int fetch(struct backing *b, const char *block, const char *directory, const char *file)
{
	char to[PATH_MAX];
	int r = cancel_requested(b->options->cancel) ? error_set_errno(b->err, -ECANCELED, "stopped") : 0;
	if (r == 0)
		r = join(to, directory, file, b->err);
	if (r == 0)
		r = b->source->fetch(b->source->context, block, file, to, b->err);
	return r == 0 ? sync_file(to, b->err) : r;
}

/* All files of a block, or without metadata that says which there are, those that there can be: a damaged block is better than
 * none. *ret_missing: some were not there. */
static int fetch_files(struct backing *b, const char *block, const char *directory, const struct block_meta *meta,
		       bool *ret_missing)
{
	int r = 0;
	*ret_missing = false;
	for (size_t i = 0; r == 0 && i < BLOCK_FILE_COUNT; i++) {
		if (meta && !meta->files[i].size)
			continue;
		r = fetch(b, block, directory, block_file_names[i]);
		*ret_missing |= r == -ENOENT;
		r = r == -ENOENT ? 0 : r;
	}
	return r;
}

static void verify_copy(struct backing *b, const char *name, const char *directory, uint64_t *bytes)
{
	struct block *block = NULL;
	struct error why = {0};
	int r = block_open(directory, &block, &why);
	if (r == 0)
		r = block_verify(block, &why);
	if (r == 0 && strcmp(block->meta.name, name))
		r = error_set(&why, -EBADMSG, "its metadata has a different name");
	if (r < 0) {
		b->result->damaged++;
		problem(b, "block %s is damaged: %s", name, why.message);
	}
	if (block)
		*bytes = block_meta_bytes(&block->meta);
	block_free(block);
}

/* -ENOENT if the source has no such block any more; else a file of it was missing from the beginning. */
static int check_there(struct backing *b, const char *name, const char *directory)
{
	char to[PATH_MAX];
	struct error why = {0};
	int r = join(to, directory, "meta.json.again", b->err);
	if (r == 0) {
		r = b->source->fetch(b->source->context, name, "meta.json", to, &why);
		unlink(to);
	}
	return r;
}

static int copy_block(struct backing *b, const char *name)
{
	char directory[PATH_MAX], to[PATH_MAX];
	struct block_meta meta = {0};
	bool corrected;
	uint64_t bytes = 0;
	int r = join(directory, b->temporary, name, b->err);
	if (r == 0)
		r = join(to, b->blocks, name, b->err);
	if (r == 0)
		r = store_empty_directory(directory, b->err);
	if (r == 0)
		r = fetch(b, name, directory, "meta.json");
	if (r < 0)
		return r;
	bool known = block_meta_read_corrected(directory, &meta, &corrected, NULL) == 0, missing;
	r = fetch_files(b, name, directory, known ? &meta : NULL, &missing);
	block_meta_release(&meta);
	if (r == 0 && missing)
		r = check_there(b, name, directory);
	if (r < 0)
		return r;
	verify_copy(b, name, directory, &bytes);
	r = io_sync_dir(directory, b->err);
	if (r == 0)
		r = io_rename(directory, to, b->err);
	b->result->copied += r == 0;
	b->result->bytes_copied += r == 0 ? bytes : 0;
	return r;
}

/* *ret_new: blocks that were not there. */
static int copy_blocks(struct backing *b, const struct names *there, size_t *ret_new)
{
	uint64_t done = 0;
	*ret_new = 0;
	for (size_t i = 0; i < b->wanted.count; i++)
		*ret_new += !has_name(there, b->wanted.items[i]);
	for (size_t i = 0; i < b->wanted.count; i++) {
		const char *name = b->wanted.items[i];
		if (has_name(there, name))
			continue;
		if (b->options->on_progress)
			b->options->on_progress(b->options->context, done++, *ret_new);
		int r = copy_block(b, name);
		/* Gone meanwhile: the next list has what it became. */
		if (r < 0 && r != -ENOENT)
			return r;
	}
	return io_sync_dir(b->blocks, b->err);
}

static int copy_round(struct backing *b, bool is_first, size_t *ret_new)
{
	struct names there = {0};
	b->wanted.count = 0;
	int r = b->source->list(b->source->context, is_first, add_name, &b->wanted, b->err);
	if (r == 0)
		r = list_directory(b->blocks, add_name, &there, b->err);
	if (r == 0)
		r = copy_blocks(b, &there, ret_new);
	mem_free(there.items);
	return r;
}

/* As a store removes them: renamed first, so that no part of one is left. */
static int remove_others(struct backing *b)
{
	struct names there = {0};
	int r = list_directory(b->blocks, add_name, &there, b->err);
	if (r == 0)
		r = store_empty_directory(b->trash, b->err);
	for (size_t i = 0; r == 0 && i < there.count; i++) {
		char from[PATH_MAX], to[PATH_MAX];
		if (has_name(&b->wanted, there.items[i]))
			continue;
		r = join(from, b->blocks, there.items[i], b->err);
		if (r == 0)
			r = join(to, b->trash, there.items[i], b->err);
		if (r == 0)
			r = io_rename(from, to, b->err);
		b->result->removed += r == 0;
	}
	if (r == 0)
		r = io_sync_dir(b->blocks, b->err);
	mem_free(there.items);
	return r == 0 ? store_empty_directory(b->trash, b->err) : r;
}

static void count_blocks(struct backing *b)
{
	for (size_t i = 0; i < b->wanted.count; i++) {
		char path[PATH_MAX];
		struct block_meta meta;
		bool corrected;
		b->result->blocks++;
		if (join(path, b->blocks, b->wanted.items[i], NULL) == 0 &&
		    block_meta_read_corrected(path, &meta, &corrected, NULL) == 0) {
			b->result->bytes += block_meta_bytes(&meta);
			block_meta_release(&meta);
		}
	}
}

/* ---- hosts ---- */

static int count_record(void *context, const char *host, const struct labels *labels, int64_t first_ns, int64_t last_ns,
			struct error *err)
{
	return 0;
}

static int check_hosts(struct backing *b, const char *path, struct host_journal_result *ret)
{
	_cleanup_(buffer_release) struct buffer contents = {0};
	int r = io_read_file(path, HOST_JOURNAL_BYTES_MAX, &contents, b->err);
	return r < 0 ? r : host_journal_read(buffer_bytes(&contents), count_record, b, ret, b->err);
}

static int back_up_hosts(struct backing *b)
{
	char fresh[PATH_MAX], to[PATH_MAX];
	struct host_journal_result result = {0};
	struct error why = {0};
	int r = join(fresh, b->temporary, HOST_JOURNAL_NAME, b->err);
	if (r == 0)
		r = join(to, b->options->target, HOST_JOURNAL_NAME, b->err);
	for (unsigned i = 0; r == 0 && i < HOSTS_TRIES && (i == 0 || result.damaged_bytes); i++) {
		r = io_unlink(fresh, b->err);
		if (r == 0)
			r = b->source->fetch_hosts ? b->source->fetch_hosts(b->source->context, fresh, &why) : -ENOENT;
		if (r == -ENOENT)
			return io_unlink(to, b->err);
		if (r < 0)
			return error_set(b->err, r, "%s", why.message);
		r = check_hosts(b, fresh, &result);
	}
	if (r == 0 && result.damaged_bytes)
		problem(b, HOST_JOURNAL_NAME " is damaged: %llu bytes are no records, and %llu records are whole",
			(unsigned long long)result.damaged_bytes, (unsigned long long)result.records);
	b->result->host_records = result.records;
	if (r == 0)
		r = sync_file(fresh, b->err);
	return r == 0 ? io_rename(fresh, to, b->err) : r;
}

/* ---- all ---- */

static int back_up(struct backing *b)
{
	size_t fresh = 1;
	int r = prepare(b);
	if (r == 0)
		r = back_up_log(b);
	for (unsigned i = 0; r == 0 && fresh; i++) {
		if (i == ROUNDS_MAX)
			return error_set(b->err, -EAGAIN, "blocks change faster than they are copied");
		r = copy_round(b, i == 0, &fresh);
	}
	if (r == 0)
		r = remove_others(b);
	if (r == 0)
		r = back_up_hosts(b);
	if (r < 0)
		return r;
	count_blocks(b);
	return write_note(b, true);
}

int store_backup(const struct store_backup_options *options, struct store_backup_result *ret, struct error *err)
{
	struct backing *b = mem_zalloc(sizeof(*b));
	int lock_fd = -1;
	*ret = (struct store_backup_result){0};
	if (!b)
		return error_nomem(err);
	b->options = options;
	b->source = options->source;
	b->result = ret;
	b->err = err;
	int r = io_make_dirs(options->target, 0750, err);
	if (r == 0)
		r = join(b->note, options->target, "backup.json", err);
	if (r == 0)
		r = check_target(b);
	if (r == 0)
		r = lock(b, &lock_fd);
	if (r == 0)
		r = back_up(b);
	if (lock_fd >= 0)
		io_remove_tree(b->temporary, NULL);
	io_close(lock_fd);
	mem_free(b->wanted.items);
	mem_free(b);
	return r;
}
