/* SPDX-License-Identifier: Apache-2.0 */
/* Opening blocks: whether the files are the ones that the metadata speaks of. */
#include "store/block/block.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "base/fault.h"
#include "base/io.h"

/* What could not be opened because it is not there is damage, not an error of reading. */
static int not_a_block(struct error *err)
{
	struct error cause = {0};
	if (err)
		cause = *err;
	return error_set(err, -EBADMSG, "incomplete block: %s", cause.message);
}

/* ---- opening ---- */

static int check_files(const char *directory, const struct block_meta *meta, struct error *err)
{
	for (size_t i = 0; i < BLOCK_FILE_COUNT; i++) {
		char path[PATH_MAX];
		struct stat status;
		if (meta->files[i].size == 0)
			continue;
		int r = io_join_path(path, sizeof(path), directory, block_file_names[i]);
		if (r < 0)
			return error_set_errno(err, r, "%s", directory);
		if (fault_reached(FAULT_OPEN))
			return error_set_errno(err, -EIO, "cannot examine %s", path);
		if (stat(path, &status) < 0)
			return errno == ENOENT ? error_set(err, -EBADMSG, "%s is missing", path)
					       : error_set_errno(err, -errno, "cannot examine %s", path);
		if (!S_ISREG(status.st_mode) || (uint64_t)status.st_size != meta->files[i].size)
			return error_set(err, -EBADMSG, "%s has %" PRIu64 " bytes instead of %" PRIu64, path,
					 (uint64_t)status.st_size, meta->files[i].size);
	}
	return 0;
}

int block_open(const char *path, struct block **ret, struct error *err)
{
	_cleanup_(block_freep) struct block *block = mem_zalloc(sizeof(*block));
	if (!block)
		return error_nomem(err);
	block->refs = 1;
	block->path = mem_strdup(path);
	int r = block->path ? block_meta_read(path, &block->meta, err) : error_nomem(err);
	if (r == 0)
		r = check_files(path, &block->meta, err);
	if (r < 0)
		return r;
	*ret = TAKE(block);
	return 0;
}

struct block *block_free(struct block *block)
{
	if (!block)
		return NULL;
	mem_free(block->path);
	block_meta_release(&block->meta);
	return mem_free(block);
}

/* ---- files ---- */

int block_open_file(const struct block *block, enum block_file which, struct parquet_file **ret, struct error *err)
{
	char path[PATH_MAX];
	const struct parquet_written *written = &block->meta.files[which];
	struct parquet_read_options options = {.memory_max = BLOCK_READ_MAX, .expected_footer = &written->footer_hash};
	int r = io_join_path(path, sizeof(path), block->path, block_file_names[which]);
	if (r < 0)
		return error_set_errno(err, r, "%s", block->path);
	if (written->size == 0)
		return error_set(err, -EBADMSG, "%s has no %s", block->path, block_file_names[which]);
	r = parquet_open(path, &options, ret, err);
	/* All that the version of the block promises is supported; what is not is damage. */
	if (r == -ENOENT || r == -ENOTSUP)
		return not_a_block(err);
	if (r < 0)
		return r;
	if (parquet_file_size(*ret) == written->size && parquet_rows(*ret) == written->rows)
		return 0;
	*ret = parquet_close(*ret);
	return error_set(err, -EBADMSG, "%s is not the file that meta.json describes", path);
}

static int verify_file(const struct block *block, enum block_file which, struct error *err)
{
	_cleanup_(parquet_closep) struct parquet_file *file = NULL;
	int r = block_open_file(block, which, &file, err);
	return r < 0 ? r : parquet_verify(file, err);
}

int block_verify(const struct block *block, struct error *err)
{
	_cleanup_(block_meta_release) struct block_meta meta = {0};
	int r = block_meta_read(block->path, &meta, err);
	for (size_t i = 0; r == 0 && i < BLOCK_FILE_COUNT; i++)
		if (block->meta.files[i].size)
			r = verify_file(block, (enum block_file)i, err);
	return r;
}

int block_find_column(const struct parquet_file *file, const char *name, enum parquet_type type, size_t *ret, struct error *err)
{
	if (parquet_find_column(file, name, ret) && parquet_column_at(file, *ret)->type == type)
		return 0;
	return error_set(err, -EBADMSG, "column %s is missing or has the wrong type", name);
}

static int read_append_group(struct parquet_file *file, size_t group, struct head_append *to, struct error *err)
{
	_cleanup_(parquet_data_release) struct parquet_data sequences = {0}, ids = {0};
	size_t sequence_column, id_column;
	int r = block_find_column(file, "sequence", PARQUET_INT64, &sequence_column, err);
	if (r == 0)
		r = block_find_column(file, "id", PARQUET_FIXED, &id_column, err);
	if (r == 0)
		r = parquet_read(file, group, sequence_column, &sequences, err);
	if (r == 0)
		r = parquet_read(file, group, id_column, &ids, err);
	for (size_t i = 0; r == 0 && i < ids.count; i++) {
		if (ids.bytes[i].len != STORE_ID_SIZE) {
			r = error_set(err, -EBADMSG, "an id has the wrong length");
			break;
		}
		to[i].sequence = (uint64_t)sequences.i64[i];
		memcpy(to[i].id, ids.bytes[i].data, STORE_ID_SIZE);
	}
	return r;
}

int block_read_appends(const struct block *block, struct head_append **ret, size_t *ret_count, struct error *err)
{
	_cleanup_(parquet_closep) struct parquet_file *file = NULL;
	int r = block_open_file(block, BLOCK_APPENDS, &file, err);
	if (r < 0)
		return r;
	struct head_append *appends = mem_alloc_array(parquet_rows(file), sizeof(*appends));
	size_t count = 0;
	if (!appends)
		return error_nomem(err);
	for (size_t g = 0; r == 0 && g < parquet_group_count(file); g++) {
		r = read_append_group(file, g, appends + count, err);
		count += parquet_group_rows(file, g);
	}
	if (r < 0) {
		mem_free(appends);
		return r;
	}
	*ret = appends;
	*ret_count = count;
	return 0;
}
