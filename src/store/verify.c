/* SPDX-License-Identifier: Apache-2.0 */
#include "store/verify.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/io.h"
#include "store/block/block.h"
#include "store/head/head.h"
#include "store/head/log.h"
#include "store/head/record.h"
#include "store/hosts/host_file.h"

struct verifying {
	const struct store_verify_options *options;
	struct store_verify_result *result;
	char blocks[PATH_MAX], log[PATH_MAX], quarantine[PATH_MAX];
	struct delta_reader reader;
	const char *name; /* of the block at hand */
};

static void on_problem(void *context, const char *message)
{
	const struct verifying *v = context;
	v->result->problems++;
	if (v->options->on_problem)
		v->options->on_problem(v->options->context, message);
}

/* ---- blocks ---- */

/* One that is gone by now was removed or replaced by the process that has it open. */
static void on_damage(void *context, const char *message)
{
	struct verifying *v = context;
	char text[2 * ERROR_MESSAGE_MAX], path[PATH_MAX];
	if (v->result->is_in_use && io_join_path(path, sizeof(path), v->blocks, v->name) == 0 && access(path, F_OK) < 0 &&
	    errno == ENOENT)
		return;
	snprintf(text, sizeof(text), "block %s: %s", v->name, message);
	on_problem(v, text);
}

static int check_block(struct verifying *v, const char *path, const char *name, struct error *err)
{
	struct block *block = NULL;
	int r = block_open(path, &block, err);
	if (r < 0)
		return r;
	if (strcmp(block->meta.name, name))
		r = error_set(err, -EBADMSG, "%s: its metadata has a different name, %s", path, block->meta.name);
	v->name = name;
	if (r == 0)
		r = block_verify_all(block, on_damage, v, err);
	for (size_t i = 0; i < BLOCK_FILE_COUNT; i++)
		v->result->files += block->meta.files[i].size > 0;
	v->result->bytes += block_meta_bytes(&block->meta);
	block_free(block);
	return r;
}

static int verify_block(struct verifying *v, const char *name, struct error *err)
{
	char path[PATH_MAX], text[2 * ERROR_MESSAGE_MAX];
	struct error why = {0};
	int r = io_join_path(path, sizeof(path), v->blocks, name);
	if (r < 0)
		return error_set_errno(err, r, "%s/%s", v->blocks, name);
	v->result->blocks++;
	r = check_block(v, path, name, &why);
	if (r == 0)
		return 0;
	/* The process that has it open removed or replaced it meanwhile. */
	if (v->result->is_in_use && access(path, F_OK) < 0 && errno == ENOENT)
		return 0;
	/* A file that cannot be read is a problem of this block, and no reason to leave the others unread; memory is. */
	if (r == -ENOTSUP || r == -ENOMEM)
		return error_set(err, r, "%s", why.message);
	snprintf(text, sizeof(text), "block %s: %s", name, why.message);
	on_problem(v, text);
	return 0;
}

/* Calls body for each entry of a directory that does not begin with a dot. */
static int each_entry(struct verifying *v, const char *path,
		      int (*body)(struct verifying *v, const char *name, struct error *err), struct error *err)
{
	_cleanup_(dir_closep) DIR *dir = opendir(path);
	if (!dir)
		return error_set_errno(err, -errno, "cannot list %s", path);
	int r = 0;
	for (const struct dirent *entry; r == 0 && (entry = readdir(dir));) {
		if (cancel_requested(v->options->cancel))
			r = error_set_errno(err, -ECANCELED, "stopped");
		else if (entry->d_name[0] != '.')
			r = body(v, entry->d_name, err);
	}
	return r;
}

/* ---- log ---- */

static int check_record(void *context, uint64_t sequence, struct bytes payload, struct error *err)
{
	struct verifying *v = context;
	struct record record;
	if (cancel_requested(v->options->cancel))
		return error_set_errno(err, -ECANCELED, "stopped");
	if (delta_version(payload) >= DELTA_VERSION)
		return delta_read(&v->reader, sequence, payload, err);
	int r = record_decode(payload, &record, err);
	if (r < 0)
		return r == -ENOMEM || r == -ENOTSUP ? r : -EBADMSG;
	record_release(&record);
	return 0;
}

/* Of the segment that ends. */
static void report_lost_rows(struct verifying *v)
{
	char text[120];
	if (v->reader.lost_rows) {
		snprintf(text, sizeof(text),
			 "the log: %llu samples of appends that refer to damaged or missing records are lost",
			 (unsigned long long)v->reader.lost_rows);
		on_problem(v, text);
		v->result->log_lost_rows += v->reader.lost_rows;
	}
	v->reader.lost_rows = 0;
}

/* Records add to a head, of which each segment gets one that is thrown away. */
static int begin_segment(void *context, uint64_t first_sequence, struct error *err)
{
	struct verifying *v = context;
	struct head *head;
	report_lost_rows(v);
	int r = head_new(SIZE_MAX, &head, err);
	if (r < 0)
		return r;
	head_free(v->reader.head);
	v->reader.head = head;
	return delta_reader_begin(&v->reader, first_sequence, err);
}

static int verify_log(struct verifying *v, struct error *err)
{
	struct log_replay replay = {.directory = v->log,
				    .read_only = true,
				    .on_segment = begin_segment,
				    .on_record = check_record,
				    .on_problem = on_problem,
				    .context = v};
	struct log_replay_result result = {0};
	delta_reader_init(&v->reader, NULL);
	int r = log_replay(&replay, &result, err);
	report_lost_rows(v);
	head_free(v->reader.head);
	delta_reader_release(&v->reader);
	v->result->log_bytes = result.bytes;
	v->result->records = result.records;
	v->result->log_lost_records = result.lost_records;
	v->result->log_lost_bytes = result.lost_bytes;
	v->result->log_cut_bytes = result.cut_bytes;
	v->result->log_cut_record_bytes = result.cut_record_bytes;
	return r;
}

/* ---- hosts ---- */

/* Of one that is in use the end may be half written. */
static int verify_hosts(struct verifying *v, struct error *err)
{
	struct host_journal_result result;
	struct host_file file;
	char text[160];
	int r = host_file_init(&file, v->options->directory, err);
	if (r == 0)
		r = host_file_check(&file, &result, err);
	if (r < 0)
		return r;
	v->result->host_records = result.records;
	if (result.damaged_bytes) {
		snprintf(text, sizeof(text), HOST_JOURNAL_NAME ": %llu bytes are damaged; %llu records are whole",
			 (unsigned long long)result.damaged_bytes, (unsigned long long)result.records);
		on_problem(v, text);
	}
	return 0;
}

/* ---- all ---- */

static int count_entry(struct verifying *v, const char *name, struct error *err)
{
	v->result->set_aside++;
	return 0;
}

static int set_paths(struct verifying *v, const char *directory, char *lock, struct error *err)
{
	if (io_join_path(v->blocks, PATH_MAX, directory, "blocks") < 0 ||
	    io_join_path(v->log, PATH_MAX, directory, "log") < 0 ||
	    io_join_path(v->quarantine, PATH_MAX, directory, "quarantine") < 0 ||
	    io_join_path(lock, PATH_MAX, directory, "lock") < 0)
		return error_set_errno(err, -ENAMETOOLONG, "%s", directory);
	if (access(v->blocks, F_OK) < 0 || access(v->log, F_OK) < 0)
		return error_set(err, -ENOENT, "%s has no data: no blocks/ and no log/", directory);
	return 0;
}

int store_verify(const struct store_verify_options *options, struct store_verify_result *ret, struct error *err)
{
	struct verifying v = {.options = options, .result = ret};
	char lock[PATH_MAX];
	*ret = (struct store_verify_result){0};
	int r = set_paths(&v, options->directory, lock, err);
	if (r < 0)
		return r;
	/* Without write permission, or on a disk that is mounted read-only, there is nobody to be kept out either. */
	_cleanup_(fd_closep) int lock_fd = io_lock_file(lock, NULL);
	ret->is_in_use = lock_fd == -EBUSY;
	r = each_entry(&v, v.blocks, verify_block, err);
	if (r == 0 && !ret->is_in_use)
		r = verify_log(&v, err);
	if (r == 0)
		r = verify_hosts(&v, err);
	if (r == 0 && access(v.quarantine, F_OK) == 0)
		r = each_entry(&v, v.quarantine, count_entry, err);
	return r;
}
