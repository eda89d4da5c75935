/* SPDX-License-Identifier: Apache-2.0 */
/* Opening blocks: whether the files are the ones that the metadata speaks of. */
#include "store/block/block.h"

#include <errno.h>
#include <fcntl.h>
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

int block_check_file(const struct block *block, enum block_file file, struct error *err)
{
	char path[PATH_MAX];
	struct stat status;
	const struct parquet_written *written = &block->meta.files[file];
	int r = io_join_path(path, sizeof(path), block->path, block_file_names[file]);
	if (r < 0)
		return error_set_errno(err, r, "%s", block->path);
	if (fault_reached(FAULT_OPEN))
		return error_set_errno(err, -EIO, "cannot examine %s", path);
	if (stat(path, &status) < 0)
		return errno == ENOENT ? error_set(err, -EBADMSG, "%s is missing", path)
				       : error_set_errno(err, -errno, "cannot examine %s", path);
	if (!S_ISREG(status.st_mode) || (uint64_t)status.st_size != written->size)
		return error_set(err, -EBADMSG, "%s has %" PRIu64 " bytes instead of %" PRIu64, path, (uint64_t)status.st_size,
				 written->size);
	return 0;
}

/* Without its series and what stacks are made of nothing of a block can be answered; without the others, a part. */
static bool is_essential(enum block_file file)
{
	return file >= BLOCK_SERIES && file <= BLOCK_MAPPINGS;
}

static int check_files(struct block *block, bool loosely, struct error *err)
{
	for (size_t i = 0; i < BLOCK_FILE_COUNT; i++) {
		struct error why = {0};
		int r = block->meta.files[i].size ? block_check_file(block, (enum block_file)i, &why) : 0;
		if (r == -EBADMSG && (loosely || !is_essential((enum block_file)i))) {
			block->unusable |= 1u << i;
			continue;
		}
		if (r < 0)
			return error_set(err, r, "%s", why.message);
	}
	return 0;
}

static int open_block(const char *path, bool loosely, struct block **ret, struct error *err)
{
	_cleanup_(block_freep) struct block *block = mem_zalloc(sizeof(*block));
	if (!block)
		return error_nomem(err);
	block->refs = 1;
	block->path = mem_strdup(path);
	bool corrected = false;
	for (size_t i = 0; i < BLOCK_FILE_COUNT; i++)
		block->places[i] = (struct block_place){block, (enum block_file)i};
	int r = block->path ? block_meta_read_corrected(path, &block->meta, &corrected, err) : error_nomem(err);
	if (corrected)
		block->corrected |= 1u << BLOCK_META;
	if (r == 0)
		r = check_files(block, loosely, err);
	if (r < 0)
		return r;
	*ret = TAKE(block);
	return 0;
}

int block_open(const char *path, struct block **ret, struct error *err)
{
	return open_block(path, false, ret, err);
}

int block_open_loosely(const char *path, struct block **ret, struct error *err)
{
	return open_block(path, true, ret, err);
}

struct block *block_free(struct block *block)
{
	if (!block)
		return NULL;
	mem_free(block->path);
	mem_free(block->damage);
	block_meta_release(&block->meta);
	return mem_free(block);
}

bool block_is_derivable(const struct block *block, enum block_file file)
{
	if (file == BLOCK_LABELS)
		return true;
	return block->meta.files[BLOCK_SAMPLES].size > 0 && file >= BLOCK_TOTALS && file <= BLOCK_ROLLUP_ALL;
}

/* ---- files ---- */

static void on_corrected(void *context, uint64_t offset, uint8_t mask)
{
	const struct block_place *place = context;
	place->block->corrected |= 1u << place->file;
}

static int path_of_file(const struct block *block, enum block_file which, char path[PATH_MAX], struct error *err)
{
	int r = io_join_path(path, PATH_MAX, block->path, block_file_names[which]);
	if (r < 0)
		return error_set_errno(err, r, "%s", block->path);
	return block->meta.files[which].size ? 0
					     : error_set(err, -EBADMSG, "%s has no %s", block->path, block_file_names[which]);
}

static int open_file(const struct block *block, enum block_file which, const struct parquet_read_options *options,
		     const struct parquet_footer *footer, struct parquet_file **ret, struct error *err)
{
	char path[PATH_MAX];
	const struct parquet_written *written = &block->meta.files[which];
	int r = path_of_file(block, which, path, err);
	if (r < 0)
		return r;
	r = parquet_open_with(path, options, footer, ret, err);
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

static struct parquet_read_options options_of(const struct block *block, enum block_file which)
{
	return (struct parquet_read_options){.memory_max = BLOCK_READ_MAX,
					     .expected_footer = &block->meta.files[which].footer_hash,
					     .around_indexes = true,
					     .on_corrected = on_corrected,
					     .context = (void *)(uintptr_t)&block->places[which]};
}

int block_open_file_with(const struct block *block, enum block_file which, const struct block_footer *footer,
			 struct parquet_file **ret, struct error *err)
{
	const struct parquet_read_options options = options_of(block, which);
	return open_file(block, which, &options, footer ? footer->footer : NULL, ret, err);
}

int block_open_file(const struct block *block, enum block_file which, struct parquet_file **ret, struct error *err)
{
	return block_open_file_with(block, which, NULL, ret, err);
}

int block_footer_load(const struct block *block, enum block_file which, struct block_footer **ret, uint64_t *bytes,
		      struct error *err)
{
	char path[PATH_MAX];
	const struct parquet_read_options options = options_of(block, which);
	_cleanup_(block_footer_freep) struct block_footer *footer = mem_zalloc(sizeof(*footer));
	if (!footer)
		return error_nomem(err);
	int r = path_of_file(block, which, path, err);
	if (r == 0)
		r = parquet_footer_load(path, &options, &footer->footer, err);
	if (r == -ENOENT || r == -ENOTSUP)
		return not_a_block(err);
	if (r < 0)
		return r;
	footer->refs = 1;
	footer->bytes = sizeof(*footer) + parquet_footer_bytes(footer->footer);
	*bytes += footer->bytes;
	*ret = TAKE(footer);
	return 0;
}

struct block_footer *block_footer_free(struct block_footer *footer)
{
	if (!footer)
		return NULL;
	parquet_footer_free(footer->footer);
	return mem_free(footer);
}

static int verify_file(const struct block *block, enum block_file which, struct error *err)
{
	_cleanup_(parquet_closep) struct parquet_file *file = NULL;
	const struct parquet_read_options options = {.memory_max = BLOCK_READ_MAX,
						     .expected_footer = &block->meta.files[which].footer_hash};
	int r = open_file(block, which, &options, NULL, &file, err);
	return r < 0 ? r : parquet_verify(file, err);
}

static int verify_all_of_file(const struct block *block, enum block_file which, void (*on_damage)(void *, const char *),
			      void *context, struct error *err)
{
	_cleanup_(parquet_closep) struct parquet_file *file = NULL;
	const struct parquet_read_options options = {.memory_max = BLOCK_READ_MAX,
						     .expected_footer = &block->meta.files[which].footer_hash};
	struct error why = {0};
	int r = open_file(block, which, &options, NULL, &file, &why);
	if (r == 0)
		r = parquet_verify_all(file, on_damage, context, &why);
	if (r == -EBADMSG) {
		on_damage(context, why.message);
		return 0;
	}
	return r < 0 ? error_set(err, r, "%s", why.message) : 0;
}

int block_verify_all(const struct block *block, void (*on_damage)(void *context, const char *message), void *context,
		     struct error *err)
{
	_cleanup_(block_meta_release) struct block_meta meta = {0};
	struct error why = {0};
	int r = block_meta_read(block->path, &meta, &why);
	if (r == -EBADMSG) {
		on_damage(context, why.message);
		r = 0;
	}
	if (r < 0)
		return error_set(err, r, "%s", why.message);
	for (size_t i = 0; r == 0 && i < BLOCK_FILE_COUNT; i++)
		if (block->meta.files[i].size)
			r = verify_all_of_file(block, (enum block_file)i, on_damage, context, err);
	return r;
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

/* ---- putting flipped bits right ---- */

struct healing {
	const struct block *block;
	enum block_file file;
	bool write;
	void (*on_damage)(void *context, const char *message);
	void *context;
	struct block_healed *healed;
	struct flip {
		uint64_t offset;
		uint8_t mask;
	} * flips;
	size_t count, capacity;
};

static void note_flip(void *context, uint64_t offset, uint8_t mask)
{
	struct healing *h = context;
	for (size_t i = 0; i < h->count; i++)
		if (h->flips[i].offset == offset && h->flips[i].mask == mask)
			return;
	/* What cannot be remembered stays for another time. */
	array_push(&h->flips, &h->count, &h->capacity, SIZE_MAX, (struct flip){offset, mask});
}

static void note_damage(void *context, const char *message)
{
	struct healing *h = context;
	h->healed->damaged |= 1u << h->file;
	h->healed->parts++;
	if (h->on_damage)
		h->on_damage(h->context, message);
}

/* A byte gets back the value that its checksum was made of; so this is right whenever it is interrupted, and for whoever has
 * the file open. */
static int write_flips(struct healing *h, struct error *err)
{
	char path[PATH_MAX];
	int r = io_join_path(path, sizeof(path), h->block->path, block_file_names[h->file]);
	if (r < 0)
		return error_set_errno(err, r, "%s", h->block->path);
	_cleanup_(fd_closep) int fd = io_open(path, O_RDWR, 0, err);
	if (fd < 0)
		return fd;
	for (size_t i = 0; r == 0 && i < h->count; i++) {
		uint8_t byte;
		ssize_t n = io_pread(fd, &byte, 1, h->flips[i].offset, path, err);
		byte ^= h->flips[i].mask;
		r = n < 0 ? (int)n : n == 1 ? io_pwrite(fd, &byte, 1, h->flips[i].offset, path, err) : 0;
	}
	return r == 0 ? io_sync(fd, path, err) : r;
}

static int heal_file(struct healing *h, struct error *err)
{
	_cleanup_(parquet_closep) struct parquet_file *file = NULL;
	const struct parquet_read_options options = {.memory_max = BLOCK_READ_MAX,
						     .expected_footer = &h->block->meta.files[h->file].footer_hash,
						     .on_corrected = note_flip,
						     .context = h};
	struct error why = {0};
	h->count = 0;
	int r = open_file(h->block, h->file, &options, NULL, &file, &why);
	if (r == 0)
		r = parquet_verify_all(file, note_damage, h, &why);
	if (r == -EBADMSG) {
		note_damage(h, why.message);
		r = 0;
	}
	if (r < 0)
		return error_set(err, r, "%s", why.message);
	h->healed->bits += h->count;
	return h->write && h->count ? write_flips(h, err) : 0;
}

int block_heal(const char *path, bool write, void (*on_damage)(void *context, const char *message), void *context,
	       struct block_healed *ret, struct error *err)
{
	struct block *block = NULL;
	*ret = (struct block_healed){0};
	int r = block_open_loosely(path, &block, err);
	if (r < 0)
		return r;
	struct healing h = {.block = block, .write = write, .on_damage = on_damage, .context = context, .healed = ret};
	if (block->corrected >> BLOCK_META & 1) {
		ret->bits++;
		r = write ? block_meta_heal(path, err) : 0;
	}
	for (size_t i = 0; r == 0 && i < BLOCK_FILE_COUNT; i++) {
		h.file = (enum block_file)i;
		if (block->meta.files[i].size)
			r = heal_file(&h, err);
	}
	mem_free(h.flips);
	block_free(block);
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
