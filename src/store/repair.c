/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Repair, block by block, those in use and those in the quarantine:
 *
 *   flipped bits   put right in place (block_heal); a block that is whole then is back, as it was
 *   what is left   a merge of this one block, made in tmp/ and opened and verified there: rows of damaged pages are left out
 * and noted in its metadata, sums and lists of labels are made anew. It names the old one as replaced, and takes its place the
 * old one    goes to quarantine/repaired/, for nobody can tell what somebody may still get out of it; the server does not look
 * there, so answers are no longer partial because of it but because of what the new one lacks
 *
 * A crash in between leaves either the old block or both, and the next start removes the one that is replaced. A block of the
 * quarantine that another one already has (it was merged, and the crash came before it was removed) is not brought back.
 *
 * The table of hosts is written anew without the records that are damaged, and the old file goes to quarantine/repaired/.
 *
 * Without its series, or the tables that stacks are made of, nothing of a block can be told: it goes to, or stays in, the
 * quarantine.
 */
#include "store/repair.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/io.h"
#include "base/limits.h"
#include "base/order.h"
#include "store/compact/compact_int.h"

#define MEMORY_MAX (512 * MIB)
#define REPAIRED   "repaired"

struct entry {
	char name[BLOCK_NAME_MAX];
	bool set_aside;
	uint64_t bytes;
};
struct repairing {
	const struct store_repair_options *options;
	struct store_repair_result *result;
	char blocks[PATH_MAX], quarantine[PATH_MAX], temporary[PATH_MAX], repaired[PATH_MAX];
	struct entry *entries;
	size_t count, capacity;
	/* The block at hand */
	const struct entry *entry;
	char path[PATH_MAX], fresh_name[BLOCK_NAME_MAX];
	struct store_repair_block block;
	struct error why;
	struct error *err;
};

static int join(char to[PATH_MAX], const char *directory, const char *name, struct error *err)
{
	int r = io_join_path(to, PATH_MAX, directory, name);
	return r < 0 ? error_set_errno(err, r, "%s/%s", directory, name) : 0;
}

/* ---- which blocks there are ---- */

static bool is_block_name(const char *name)
{
	return name[0] >= '0' && name[0] <= '9' && strlen(name) < BLOCK_NAME_MAX;
}

static uint64_t directory_bytes(const char *path)
{
	_cleanup_(dir_closep) DIR *dir = opendir(path);
	uint64_t bytes = 0;
	for (const struct dirent *item; dir && (item = readdir(dir));) {
		struct stat about;
		if (item->d_name[0] != '.' && fstatat(dirfd(dir), item->d_name, &about, AT_SYMLINK_NOFOLLOW) == 0 &&
		    S_ISREG(about.st_mode))
			bytes += (uint64_t)about.st_size;
	}
	return bytes;
}

static int list(struct repairing *p, const char *directory, bool set_aside)
{
	_cleanup_(dir_closep) DIR *dir = opendir(directory);
	if (!dir)
		return errno == ENOENT && set_aside ? 0 : error_set_errno(p->err, -errno, "cannot list %s", directory);
	for (const struct dirent *item; (item = readdir(dir));) {
		char path[PATH_MAX];
		struct stat about;
		struct entry entry = {.set_aside = set_aside};
		if (!is_block_name(item->d_name) || io_join_path(path, sizeof(path), directory, item->d_name) < 0 ||
		    lstat(path, &about) < 0 || !S_ISDIR(about.st_mode))
			continue;
		memcpy(entry.name, item->d_name, strlen(item->d_name) + 1);
		entry.bytes = directory_bytes(path);
		if (array_push(&p->entries, &p->count, &p->capacity, SIZE_MAX, entry) < 0)
			return error_nomem(p->err);
	}
	return 0;
}

static int compare_entries(const void *a, const void *b)
{
	const struct entry *x = a, *y = b;
	return ORDER(x->set_aside, y->set_aside) ?: strcmp(x->name, y->name);
}

/* Whether a block that is in use was made of this one, or has its name. */
static int is_replaced(struct repairing *p, const char *name, bool *ret)
{
	*ret = false;
	for (size_t i = 0; i < p->count && !*ret; i++) {
		char path[PATH_MAX];
		struct block_meta meta;
		bool corrected;
		if (p->entries[i].set_aside)
			continue;
		*ret = !strcmp(p->entries[i].name, name);
		int r = join(path, p->blocks, p->entries[i].name, p->err);
		if (r < 0)
			return r;
		if (*ret || block_meta_read_corrected(path, &meta, &corrected, NULL) < 0)
			continue;
		for (size_t k = 0; k < meta.replace_count; k++)
			*ret |= !strcmp(meta.replaces[k], name);
		block_meta_release(&meta);
	}
	return 0;
}

/* ---- what is lost ---- */

/* Rows of a file of which a page of some column is damaged. */
static int count_lost(struct repairing *p, const struct block *block, enum block_file which, struct block_losses *lost)
{
	struct parquet_file *file = NULL;
	const struct block_meta *meta = &block->meta;
	struct error why = {0};
	if (!meta->files[which].size)
		return 0;
	int r = block_open_file(block, which, &file, &why);
	if (r == -EBADMSG) {
		block_losses_add(lost, meta->files[which].rows, meta->min_ns, meta->max_ns);
		return 0;
	}
	size_t time = SIZE_MAX;
	bool timed = r == 0 && parquet_find_column(file, "time_ns", &time);
	for (size_t g = 0; r == 0 && g < parquet_group_count(file); g++) {
		size_t pages = parquet_page_count(file, g), damaged;
		_cleanup_(mem_freep) uint8_t *bad = mem_zalloc(pages);
		struct parquet_data data = {0};
		r = bad ? 0 : error_nomem(&why);
		for (size_t c = 0; r == 0 && c < parquet_column_count(file); c++)
			r = parquet_read_around(file, g, c, 0, pages, &data, bad, &damaged, &why);
		parquet_data_release(&data);
		for (size_t i = 0; r == 0 && i < pages; i++) {
			int64_t from_ns = meta->min_ns, to_ns = meta->max_ns;
			if (!bad[i])
				continue;
			if (timed && !parquet_page_range(file, g, time, i, &from_ns, &to_ns))
				parquet_chunk_range(file, g, time, &from_ns, &to_ns);
			block_losses_add(lost, parquet_page_first_row(file, g, i + 1) - parquet_page_first_row(file, g, i),
					 from_ns, to_ns);
		}
	}
	parquet_close(file);
	return r < 0 ? error_set(p->err, r, "%s", why.message) : 0;
}

static void set_lost(struct repairing *p, uint64_t rows, const struct block_losses *lost, const struct block_losses *before)
{
	p->block.rows_lost = lost->rows - before->rows;
	p->block.rows_kept = rows;
	if (p->block.rows_lost) {
		p->block.lost_from_ns = lost->from_ns;
		p->block.lost_to_ns = lost->to_ns;
	}
}

static uint64_t rows_of(const struct block_meta *meta)
{
	return meta->files[BLOCK_SAMPLES].rows + meta->files[BLOCK_PROCESSES].rows;
}

/* ---- rewriting ---- */

static void note_rebuilt(struct repairing *p, const struct block *block, unsigned damaged)
{
	for (size_t i = 0; i < BLOCK_FILE_COUNT; i++) {
		size_t len = strlen(p->block.rebuilt);
		if (damaged >> i & 1 && block_is_derivable(block, (enum block_file)i))
			snprintf(p->block.rebuilt + len, sizeof(p->block.rebuilt) - len, "%s%s", len ? ", " : "",
				 block_file_names[i]);
	}
}

/* The series and tables, which all rows need. */
static int check_readable(struct repairing *p, const struct block *block)
{
	struct block_series *series = NULL;
	struct block_tables *tables = NULL;
	struct block_hashes *hashes = NULL;
	uint64_t bytes = 0;
	int r = block_series_load(block, &series, &bytes, &p->why);
	if (r == 0)
		r = block_tables_load(block, &tables, &bytes, &p->why);
	if (r == 0)
		r = damage_load_hashes(block, &hashes, &bytes, &p->why);
	if (r == 0)
		p->block.names_lost = tables->damaged_rows;
	block_series_free(series);
	block_tables_free(tables);
	block_hashes_free(hashes);
	return r;
}

/* In a dry run: what would come out. */
static int foresee(struct repairing *p, const struct block *block)
{
	struct block_losses lost = {0}, none = {0};
	int r = check_readable(p, block);
	if (r == 0)
		r = count_lost(p, block, BLOCK_SAMPLES, &lost);
	if (r == 0)
		r = count_lost(p, block, BLOCK_PROCESSES, &lost);
	if (r == 0 && rows_of(&block->meta) == lost.rows)
		return error_set(&p->why, -EBADMSG, "none of its rows can be read");
	if (r == 0)
		set_lost(p, rows_of(&block->meta) - lost.rows, &lost, &none);
	return r;
}

static int verify_fresh(struct repairing *p, char name[BLOCK_NAME_MAX])
{
	struct block *fresh = NULL;
	int r = block_open(p->temporary, &fresh, p->err);
	if (r == 0)
		r = block_verify(fresh, p->err);
	if (r == 0)
		memcpy(name, fresh->meta.name, BLOCK_NAME_MAX);
	block_free(fresh);
	return r < 0 ? error_prefix(p->err, r, "the new block cannot be used") : 0;
}

/* Makes the new block in tmp/. */
static int write_fresh(struct repairing *p, struct block *block)
{
	struct block_meta meta = {0};
	const struct block_losses before = block->meta.lost;
	struct compact_job job = {.inputs = &block,
				  .input_count = 1,
				  .directory = p->temporary,
				  .level = block->meta.level,
				  .rollups = block->meta.files[BLOCK_ROLLUP_ALL].size > 0,
				  .memory_max = MEMORY_MAX,
				  .cancel = p->options->cancel};
	int r = store_empty_directory(p->temporary, &p->why);
	if (r == 0)
		r = compact_write(&job, &meta, &p->why);
	if (r == 0)
		set_lost(p, rows_of(&meta), &meta.lost, &before);
	if (r == 0)
		p->block.names_lost = meta.lost.names - before.names;
	block_meta_release(&meta);
	return r == 1 ? error_set(&p->why, -EBADMSG, "nothing is left of it") : r;
}

/* Where nobody looks; a name that is taken there gets a number. */
static int keep_old(struct repairing *p)
{
	char to[PATH_MAX], name[BLOCK_NAME_MAX + 16];
	int r = io_make_dirs(p->repaired, 0750, p->err);
	for (unsigned i = 0; r == 0; i++) {
		snprintf(name, sizeof(name), i ? "%s.%u" : "%s", p->entry->name, i);
		r = join(to, p->repaired, name, p->err);
		if (r == 0 && access(to, F_OK) < 0)
			break;
	}
	if (r == 0)
		r = io_rename(p->path, to, p->err);
	if (r == 0)
		r = io_sync_dir(p->entry->set_aside ? p->quarantine : p->blocks, p->err);
	return r == 0 ? io_sync_dir(p->repaired, p->err) : r;
}

static int rewrite(struct repairing *p, struct block *block)
{
	char to[PATH_MAX];
	int r = write_fresh(p, block);
	if (r == 0)
		r = verify_fresh(p, p->fresh_name);
	if (r == 0)
		r = join(to, p->blocks, p->fresh_name, p->err);
	if (r == 0)
		r = io_rename(p->temporary, to, p->err);
	if (r == 0)
		r = io_sync_dir(p->blocks, p->err);
	if (r == 0)
		r = keep_old(p);
	if (r == 0)
		p->block.fresh_name = p->fresh_name;
	return r;
}

/* ---- one block ---- */

static void on_damage(void *context, const char *message)
{
	struct repairing *p = context;
	if (p->options->on_damage)
		p->options->on_damage(p->options->context, message);
}

/* Sums are all that there is: they stay as they are, without the files that are damaged. */
static bool has_rows(const struct block *block)
{
	return block->meta.files[BLOCK_SAMPLES].size || block->meta.files[BLOCK_PROCESSES].size;
}

static int salvage(struct repairing *p, unsigned damaged)
{
	struct block *block = NULL;
	int r = block_open_loosely(p->path, &block, &p->why);
	if (r == 0 && !has_rows(block))
		r = error_set(&p->why, -EBADMSG, "it has only rollups, and some of them are damaged");
	if (r == 0) {
		block->unusable |= damaged & ~(1u << BLOCK_SAMPLES | 1u << BLOCK_PROCESSES);
		note_rebuilt(p, block, damaged);
		r = p->options->dry_run ? foresee(p, block) : rewrite(p, block);
	}
	block_free(block);
	p->block.outcome = STORE_REPAIR_REWRITTEN;
	return r;
}

static int bring_back(struct repairing *p)
{
	char to[PATH_MAX];
	int r = join(to, p->blocks, p->entry->name, p->err);
	if (r == 0)
		r = io_rename(p->path, to, p->err);
	if (r == 0)
		r = io_sync_dir(p->blocks, p->err);
	return r == 0 ? io_sync_dir(p->quarantine, p->err) : r;
}

static int set_aside(struct repairing *p)
{
	char to[PATH_MAX];
	int r = io_make_dirs(p->quarantine, 0750, p->err);
	if (r == 0)
		r = join(to, p->quarantine, p->entry->name, p->err);
	if (r == 0)
		r = io_rename(p->path, to, p->err);
	return r == 0 ? io_sync_dir(p->blocks, p->err) : r;
}

static int fail_block(struct repairing *p)
{
	p->block.outcome = STORE_REPAIR_FAILED;
	p->block.why = p->why.message;
	p->block.rows_kept = p->block.rows_lost = p->block.names_lost = 0;
	p->block.rebuilt[0] = '\0';
	return p->entry->set_aside || p->options->dry_run ? 0 : set_aside(p);
}

static void count(struct repairing *p)
{
	struct store_repair_result *result = p->result;
	const struct store_repair_block *block = &p->block;
	result->damaged++;
	result->bits += block->bits;
	result->rewritten += block->outcome == STORE_REPAIR_REWRITTEN;
	result->failed += block->outcome == STORE_REPAIR_FAILED;
	result->restored +=
		block->was_set_aside && (block->outcome == STORE_REPAIR_WHOLE || block->outcome == STORE_REPAIR_REWRITTEN);
	result->rows_kept += block->rows_kept;
	result->rows_lost += block->rows_lost;
	result->names_lost += block->names_lost;
	if (p->options->on_block)
		p->options->on_block(p->options->context, block);
}

static int repair_block(struct repairing *p)
{
	struct block_healed healed = {0};
	bool is_old = false, dry = p->options->dry_run;
	p->why = (struct error){0};
	p->block = (struct store_repair_block){
		.name = p->entry->name, .was_set_aside = p->entry->set_aside, .why = "", .fresh_name = ""};
	int r = join(p->path, p->entry->set_aside ? p->quarantine : p->blocks, p->entry->name, p->err);
	if (r == 0 && p->entry->set_aside)
		r = is_replaced(p, p->entry->name, &is_old);
	if (r == 0 && is_old) {
		p->block.outcome = STORE_REPAIR_REPLACED;
		r = dry ? 0 : keep_old(p);
	} else if (r == 0) {
		r = block_heal(p->path, !dry, on_damage, p, &healed, &p->why);
		p->block.bits = healed.bits;
		p->block.parts = healed.parts;
		if (r == 0 && healed.damaged)
			r = salvage(p, healed.damaged);
		else if (r == 0 && p->entry->set_aside && !dry)
			r = bring_back(p);
		if (r == -EBADMSG || r == -EINVAL)
			r = fail_block(p);
		if (r < 0 && p->why.message[0])
			error_set(p->err, r, "block %s: %s", p->entry->name, p->why.message);
	}
	if (r == 0 && (p->block.outcome != STORE_REPAIR_WHOLE || healed.bits || p->entry->set_aside))
		count(p);
	return r;
}

/* ---- all ---- */

static int repair_all(struct repairing *p)
{
	uint64_t bytes = 0, done = 0;
	int r = list(p, p->blocks, false);
	if (r == 0)
		r = list(p, p->quarantine, true);
	sort_array(p->entries, p->count, compare_entries);
	for (size_t i = 0; i < p->count; i++)
		bytes += p->entries[i].bytes;
	for (size_t i = 0; r == 0 && i < p->count; i++) {
		if (cancel_requested(p->options->cancel))
			return error_set_errno(p->err, -ECANCELED, "stopped");
		if (p->options->on_progress)
			p->options->on_progress(p->options->context, i, p->count, done, bytes);
		p->entry = &p->entries[i];
		p->result->blocks++;
		r = repair_block(p);
		done += p->entries[i].bytes;
	}
	return r;
}

static int repair_hosts(struct repairing *p)
{
	_cleanup_(buffer_release) struct buffer contents = {0};
	_cleanup_(host_table_freep) struct host_table *table = NULL;
	struct host_journal_result result = {0};
	struct host_file file;
	char text[160], to[PATH_MAX];
	int r = host_file_init(&file, p->options->directory, p->err);
	if (r == 0)
		r = host_table_new(&table, p->err);
	if (r == 0)
		r = host_file_read(&file, table, &contents, &result, p->err);
	if (r < 0 || !result.damaged_bytes)
		return r;
	snprintf(text, sizeof(text), HOST_JOURNAL_NAME ": %llu bytes are damaged; %llu records are whole",
		 (unsigned long long)result.damaged_bytes, (unsigned long long)result.records);
	if (p->options->on_damage)
		p->options->on_damage(p->options->context, text);
	p->result->host_bytes_lost = result.damaged_bytes;
	if (!p->options->dry_run)
		r = host_file_mend(&file, table, buffer_bytes(&contents), p->repaired, to, p->err);
	host_file_release(&file);
	return r;
}

static int set_paths(struct repairing *p, char lock[PATH_MAX])
{
	char tmp[PATH_MAX];
	const char *directory = p->options->directory;
	int r = join(p->blocks, directory, "blocks", p->err);
	if (r == 0)
		r = join(p->quarantine, directory, "quarantine", p->err);
	if (r == 0)
		r = join(p->repaired, p->quarantine, REPAIRED, p->err);
	if (r == 0)
		r = join(tmp, directory, "tmp", p->err);
	if (r == 0)
		r = join(p->temporary, tmp, "repair", p->err);
	if (r == 0)
		r = join(lock, directory, "lock", p->err);
	if (r == 0 && access(p->blocks, F_OK) < 0)
		return error_set(p->err, -ENOENT, "%s has no data: no blocks/", directory);
	return r;
}

int store_repair(const struct store_repair_options *options, struct store_repair_result *ret, struct error *err)
{
	struct repairing *p = mem_zalloc(sizeof(*p));
	char lock[PATH_MAX];
	*ret = (struct store_repair_result){0};
	if (!p)
		return error_nomem(err);
	p->options = options;
	p->result = ret;
	p->err = err;
	int r = set_paths(p, lock);
	_cleanup_(fd_closep) int lock_fd = r == 0 ? io_lock_file(lock, err) : -1;
	if (r == 0 && lock_fd == -EBUSY)
		r = error_set(err, -EBUSY, "%s is in use by a server; stop it first", options->directory);
	else if (r == 0 && lock_fd < 0)
		r = lock_fd;
	if (r == 0)
		r = repair_all(p);
	if (r == 0)
		r = repair_hosts(p);
	io_remove_tree(p->temporary, NULL);
	mem_free(p->entries);
	mem_free(p);
	return r;
}
