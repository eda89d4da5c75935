/* SPDX-License-Identifier: Apache-2.0 */
/* Opening blocks: the metadata, and whether the files are the ones that it speaks of. */
#include "store/block.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fault.h"
#include "base/hash.h"
#include "base/io.h"

#define CHECKSUM_KEY ",\"checksum\":\""
#define HASH_DIGITS  16

uint64_t block_meta_bytes(const struct block_meta *meta)
{
	uint64_t bytes = 0;
	for (size_t i = 0; i < BLOCK_FILE_COUNT; i++)
		bytes += meta->files[i].size;
	return bytes;
}

/* ---- metadata ---- */

static bool parse_hash(const char *text, uint64_t *ret)
{
	for (size_t i = 0; i < HASH_DIGITS; i++)
		if (!((text[i] >= '0' && text[i] <= '9') || (text[i] >= 'a' && text[i] <= 'f')))
			return false;
	*ret = strtoull(text, NULL, 16);
	return true;
}

/* The text ends with ,"checksum":"0123456789abcdef"} and a newline. */
static bool checksum_matches(struct bytes text)
{
	char tail[sizeof(CHECKSUM_KEY) + HASH_DIGITS + 3];
	size_t tail_len = sizeof(CHECKSUM_KEY) - 1 + HASH_DIGITS + 3;
	uint64_t hash;
	if (text.len < tail_len)
		return false;
	memcpy(tail, text.data + text.len - tail_len, tail_len);
	tail[tail_len] = '\0';
	const char *digits = tail + sizeof(CHECKSUM_KEY) - 1;
	return !memcmp(tail, CHECKSUM_KEY, sizeof(CHECKSUM_KEY) - 1) && parse_hash(digits, &hash) &&
	       !strcmp(digits + HASH_DIGITS, "\"}\n") && hash == hash64(text.data, text.len - tail_len);
}

static bool get_int(const json_t *object, const char *key, int64_t *ret)
{
	const json_t *value = json_object_get(object, key);
	*ret = json_integer_value(value);
	return json_is_integer(value);
}

static bool get_count(const json_t *object, const char *key, uint64_t *ret)
{
	int64_t value;
	if (!get_int(object, key, &value) || value < 0)
		return false;
	*ret = (uint64_t)value;
	return true;
}

static bool get_file(const json_t *files, size_t i, struct parquet_written *ret)
{
	const json_t *file = json_array_get(files, i);
	const char *name = json_string_value(json_object_get(file, "name"));
	const char *hash = json_string_value(json_object_get(file, "footer_xxh3"));
	return name && !strcmp(name, block_file_names[i]) && hash && strlen(hash) == HASH_DIGITS &&
	       parse_hash(hash, &ret->footer_hash) && get_count(file, "bytes", &ret->size) &&
	       get_count(file, "rows", &ret->rows);
}

static bool get_meta(const json_t *root, struct block_meta *ret)
{
	const char *name = json_string_value(json_object_get(root, "name"));
	const json_t *files = json_object_get(root, "files");
	if (!name || strlen(name) >= sizeof(ret->name) || json_array_size(files) != BLOCK_FILE_COUNT)
		return false;
	memcpy(ret->name, name, strlen(name) + 1);
	for (size_t i = 0; i < BLOCK_FILE_COUNT; i++)
		if (!get_file(files, i, &ret->files[i]))
			return false;
	return get_int(root, "created_ns", &ret->created_ns) && get_int(root, "min_ns", &ret->min_ns) &&
	       get_int(root, "max_ns", &ret->max_ns) && get_count(root, "last_sequence", &ret->last_sequence) &&
	       get_count(root, "samples", &ret->samples) && get_count(root, "series", &ret->series) &&
	       ret->min_ns <= ret->max_ns;
}

static int parse_meta(const char *path, struct bytes text, struct block_meta *ret, struct error *err)
{
	json_error_t fault;
	json_t *root = json_loadb((const char *)text.data, text.len, 0, &fault);
	const char *format = json_string_value(json_object_get(root, "format"));
	int64_t version = 0;
	bool is_ours = format && !strcmp(format, "wick block") && get_int(root, "version", &version);
	int r = 0;
	/* The version first: a newer one may have another layout, and must not be taken for damage. */
	if (is_ours && version > BLOCK_VERSION)
		r = error_set(err, -ENOTSUP,
			      "%s has version %" PRId64 ", and this program knows versions up to %d: use a newer one", path,
			      version, BLOCK_VERSION);
	else if (!is_ours || !checksum_matches(text) || !get_meta(root, ret))
		r = error_set(err, -EBADMSG, "%s is malformed or does not match its checksum", path);
	json_decref(root);
	return r;
}

/* What could not be opened because it is not there is damage, not an error of reading. */
static int not_a_block(struct error *err)
{
	struct error cause = {0};
	if (err)
		cause = *err;
	return error_set(err, -EBADMSG, "incomplete block: %s", cause.message);
}

int block_meta_read(const char *directory, struct block_meta *ret, struct error *err)
{
	char path[PATH_MAX];
	_cleanup_(buffer_release) struct buffer text;
	buffer_init(&text, BLOCK_META_MAX);
	*ret = (struct block_meta){0};
	int r = io_join_path(path, sizeof(path), directory, "meta.json");
	if (r < 0)
		return error_set_errno(err, r, "%s", directory);
	r = io_read_file(path, BLOCK_META_MAX, &text, err);
	if (r == -ENOENT || r == -E2BIG || r == -EISDIR || r == -ENOTDIR)
		return not_a_block(err);
	return r < 0 ? r : parse_meta(path, buffer_bytes(&text), ret, err);
}

/* ---- opening ---- */

static int check_files(const char *directory, const struct block_meta *meta, struct error *err)
{
	for (size_t i = 0; i < BLOCK_FILE_COUNT; i++) {
		char path[PATH_MAX];
		struct stat status;
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
	struct block *block = mem_zalloc(sizeof(*block));
	if (!block)
		return error_nomem(err);
	block->refs = 1;
	block->path = mem_strdup(path);
	int r = block->path ? block_meta_read(path, &block->meta, err) : error_nomem(err);
	if (r == 0)
		r = check_files(path, &block->meta, err);
	if (r < 0) {
		block_free(block);
		return r;
	}
	*ret = block;
	return 0;
}

struct block *block_free(struct block *block)
{
	if (!block)
		return NULL;
	mem_free(block->path);
	mem_free(block);
	return NULL;
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
	struct block_meta meta;
	int r = block_meta_read(block->path, &meta, err);
	for (size_t i = 0; r == 0 && i < BLOCK_FILE_COUNT; i++)
		r = verify_file(block, (enum block_file)i, err);
	return r;
}

/* A column by name and type, in every row group. */
static int read_column(struct parquet_file *file, size_t group, const char *name, enum parquet_type type,
		       struct parquet_data *ret, struct error *err)
{
	size_t column;
	if (!parquet_find_column(file, name, &column) || parquet_column_at(file, column)->type != type)
		return error_set(err, -EBADMSG, "column %s is missing or of another type", name);
	return parquet_read(file, group, column, ret, err);
}

static int read_append_group(struct parquet_file *file, size_t group, struct head_append *to, struct error *err)
{
	struct parquet_data sequences, ids;
	parquet_data_init(&sequences);
	parquet_data_init(&ids);
	int r = read_column(file, group, "sequence", PARQUET_INT64, &sequences, err);
	if (r == 0)
		r = read_column(file, group, "id", PARQUET_FIXED, &ids, err);
	for (size_t i = 0; r == 0 && i < ids.count; i++) {
		if (ids.bytes[i].len != STORE_ID_SIZE) {
			r = error_set(err, -EBADMSG, "an id has another length");
			break;
		}
		to[i].sequence = (uint64_t)sequences.i64[i];
		memcpy(to[i].id, ids.bytes[i].data, STORE_ID_SIZE);
	}
	parquet_data_release(&sequences);
	parquet_data_release(&ids);
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
