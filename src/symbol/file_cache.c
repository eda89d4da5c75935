/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Symbol tables on disk for those who read files of this host and nothing else: recordings and reports, one after the other, of
 * the same libraries.
 *
 *   DIRECTORY/KEY.table
 *     the table         (table.c); its header has its length
 *     struct trailer    below; numbers are of the machine's own byte order: a file never leaves its machine
 *     struct record     for each file that was looked for to make it, each with its path behind it
 *
 * KEY is a hash of what the trailer has in full: which file the binary is, its build-id, and the path that it was found by. A
 * file is known by device, inode, size, and the times of the last change of contents and of the inode, not by what it says of
 * itself: whoever runs a program can write any build-id into it, and have a table made that is wrong, but for that very file
 * only. The time of change of an inode cannot be set.
 *
 * A table depends on more files than the binary, and on files that are not there: debug information may be installed later. So
 * each path that was tried is kept with what was found, and all of them have to lead to the same files again, or to none.
 *
 * Not kept are tables of files that were changed in the last seconds, since a change that comes in the same tick of the clock
 * would not be seen; of files of FUSE, whose owner says what fstat() says; and of more than FILES_MAX files.
 *
 * The directory must be the user's own (base/own_dir.h). What is read is checked for damage by a checksum, then for sense: the
 * trailer here, the table where it is mapped. What fails is made anew. Rejected: keys of contents (hashes of whole files cost
 * as much as the smaller tables do), and the server's cache by build-id (cache.c), which serves files of other hosts and
 * answers to who uploads them.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/disk_list.h"
#include "base/hash.h"
#include "base/io.h"
#include "base/own_dir.h"
#include "base/thread.h"
#include "base/time.h"
#include "symbol/symbol_int.h"
#include "symbol/table_int.h"

#define MAGIC		  "wicksymc"
#define VERSION		  1u
#define SUFFIX		  ".table"
#define NAME_BYTES	  (32 + sizeof(SUFFIX))
#define FILES_MAX	  64u
#define RECORDS_BYTES_MAX (1 * MIB)
#define RECENT_NS	  (2 * NS_PER_S)
#define USE_STEP_NS	  (3600 * NS_PER_S) /* the time of use is no more precise than this */
#define SHARE_MAX	  4		    /* a table may have this part of the room, or it would drive out too many others */

#ifndef FUSE_SUPER_MAGIC
#define FUSE_SUPER_MAGIC 0x65735546
#endif

struct file_cache {
	int directory;
	uint64_t bytes_max;
	uint64_t bytes; /* of its files, as far as this process knows; 0 = not counted yet. Under the symbolizer's evict_lock */
};

struct trailer {
	char magic[8];
	uint32_t version, file_count;
	uint64_t builder;      /* which program has made it */
	uint64_t checksum;     /* of trailer and records with 0 in this place */
	uint64_t table_length; /* and checksum, of its header: which table the trailer belongs to */
	uint64_t table_checksum;
	uint64_t records_length;
	struct file_identity binary;
	char build_id[BUILD_ID_HEX_MAX];
	char from[256], lacks[BUILD_ID_HEX_MAX];
	struct symbol_build_result result;
};
struct record {
	struct file_identity identity;
	uint32_t how; /* enum seen_how */
	uint32_t path_length;
};

/* ---- what a build looks at ---- */

bool file_identity_of(int fd, struct file_identity *ret)
{
	struct stat st;
	if (fstat(fd, &st) < 0)
		return false;
	*ret = (struct file_identity){.device = st.st_dev,
				      .inode = st.st_ino,
				      .size = (uint64_t)st.st_size,
				      .changed_ns = time_of_timespec(st.st_mtim),
				      .inode_changed_ns = time_of_timespec(st.st_ctim)};
	return true;
}

static bool is_same_file(const struct file_identity *a, const struct file_identity *b)
{
	return memcmp(a, b, sizeof(*a)) == 0;
}

static bool is_lasting(int fd, const struct file_identity *identity)
{
	struct statfs fs;
	int64_t until = time_now_ns() - RECENT_NS;
	return fstatfs(fd, &fs) == 0 && (uint32_t)fs.f_type != FUSE_SUPER_MAGIC && identity->changed_ns < until &&
	       identity->inode_changed_ns < until;
}

void seen_files_add(struct seen_files *seen, enum seen_how how, const char *path, int fd)
{
	struct record record = {.how = how, .path_length = (uint32_t)strlen(path)};
	if (!seen || seen->is_useless)
		return;
	if (fd >= 0 && (!file_identity_of(fd, &record.identity) || !is_lasting(fd, &record.identity)))
		seen->is_useless = true;
	if (seen->count == FILES_MAX || buffer_append(&seen->records, &record, sizeof(record)) < 0 ||
	    buffer_append_string(&seen->records, path) < 0)
		seen->is_useless = true;
	seen->count++;
}

void seen_files_set_binary(struct seen_files *seen, int fd)
{
	seen->has_binary = file_identity_of(fd, &seen->binary);
	if (!seen->has_binary || !is_lasting(fd, &seen->binary))
		seen->is_useless = true;
}

void seen_files_init(struct seen_files *seen)
{
	*seen = (struct seen_files){0};
	buffer_init(&seen->records, RECORDS_BYTES_MAX);
}

void seen_files_release(struct seen_files *seen)
{
	buffer_release(&seen->records);
}

/* ---- the file ---- */

static void make_name(const struct file_identity *binary, const char *build_id, const char *path, char ret[static NAME_BYTES])
{
	struct hash128 hash = hash128(binary, sizeof(*binary));
	hash = hash128_seed(build_id, strlen(build_id) + 1, hash.high ^ hash.low);
	hash = hash128_seed(path, strlen(path), hash.high ^ hash.low);
	snprintf(ret, NAME_BYTES, "%016llx%016llx" SUFFIX, (unsigned long long)hash.high, (unsigned long long)hash.low);
}

static uint64_t checksum_of(const struct trailer *trailer, struct bytes records)
{
	struct trailer clean = *trailer;
	clean.checksum = 0;
	return hash64_seed(records.data, records.len, hash64(&clean, sizeof(clean)));
}

/* The version, and which file this program is: another build of one version may make other tables. */
static uint64_t identify_builder(void)
{
	struct file_identity program = {0};
	_cleanup_(fd_closep) int fd = io_open("/proc/self/exe", O_RDONLY, 0, NULL);
	if (fd >= 0)
		file_identity_of(fd, &program);
	return hash64_seed(&program, sizeof(program), hash64(WICK_VERSION, strlen(WICK_VERSION)));
}

static void fill_trailer(struct trailer *ret, const struct file_identity *binary, const char *build_id)
{
	memset(ret, 0, sizeof(*ret)); /* what is between the fields, too */
	memcpy(ret->magic, MAGIC, sizeof(ret->magic));
	ret->version = VERSION;
	ret->builder = identify_builder();
	ret->binary = *binary;
	memcpy(ret->build_id, build_id, strlen(build_id) + 1);
}

/* ---- loading ---- */

/* -EBADMSG: damaged, or of another version. */
static int read_trailer(int fd, uint64_t size, struct trailer *ret, struct buffer *records)
{
	struct symbol_table_header header;
	if (io_pread(fd, &header, sizeof(header), 0, SUFFIX, NULL) != (ssize_t)sizeof(header) || header.length > size ||
	    size - header.length < sizeof(*ret))
		return -EBADMSG;
	uint64_t length = size - header.length - sizeof(*ret);
	if (io_pread(fd, ret, sizeof(*ret), header.length, SUFFIX, NULL) != (ssize_t)sizeof(*ret) ||
	    ret->table_length != header.length || ret->table_checksum != header.checksum || ret->records_length != length ||
	    length > RECORDS_BYTES_MAX || ret->file_count > FILES_MAX)
		return -EBADMSG;
	int r = buffer_reserve(records, length);
	if (r < 0)
		return r;
	if (length > 0 && io_pread(fd, records->data, length, header.length + sizeof(*ret), SUFFIX, NULL) != (ssize_t)length)
		return -EBADMSG;
	records->len = length;
	if (checksum_of(ret, buffer_bytes(records)) != ret->checksum)
		return -EBADMSG;
	bool is_text = memchr(ret->from, 0, sizeof(ret->from)) && memchr(ret->lacks, 0, sizeof(ret->lacks)) &&
		       memchr(ret->result.problem, 0, sizeof(ret->result.problem));
	return is_text ? 0 : -EBADMSG;
}

/* The path leads to the same file as it did, or to none, as it did. */
static bool is_as_it_was(const struct symbolizer *s, const struct record *record, const char *path)
{
	static const struct file_identity none;
	struct file_identity identity = none;
	_cleanup_(fd_closep) int fd = source_open_seen(s, (enum seen_how)record->how, path);
	if (fd >= 0 && !file_identity_of(fd, &identity))
		return false;
	return is_same_file(&identity, &record->identity);
}

static bool are_as_they_were(const struct symbolizer *s, struct bytes records, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++) {
		struct record record;
		char path[SYMBOL_PATH_MAX];
		if (records.len < sizeof(record))
			return false;
		memcpy(&record, records.data, sizeof(record));
		records = bytes_skip(records, sizeof(record));
		if (record.how >= SEEN_HOWS || record.path_length > records.len || record.path_length >= sizeof(path))
			return false;
		memcpy(path, records.data, record.path_length);
		path[record.path_length] = 0;
		records = bytes_skip(records, record.path_length);
		if (!is_as_it_was(s, &record, path))
			return false;
	}
	return records.len == 0;
}

/* -ENOENT: of something else; -EBADMSG: of no use to anybody. */
static int load(struct symbolizer *s, int fd, uint64_t size, struct source_job *job, struct symbol_build_result *ret_result,
		struct symbol_table **ret)
{
	struct trailer trailer, expected;
	_cleanup_(buffer_release) struct buffer records = {.max = RECORDS_BYTES_MAX};
	int r = read_trailer(fd, size, &trailer, &records);
	if (r < 0)
		return r;
	fill_trailer(&expected, &job->seen->binary, job->build_id);
	if (memcmp(trailer.magic, expected.magic, sizeof(trailer.magic)) != 0 || trailer.version != expected.version ||
	    trailer.builder != expected.builder)
		return -EBADMSG;
	if (!is_same_file(&trailer.binary, &expected.binary) ||
	    memcmp(trailer.build_id, expected.build_id, sizeof(trailer.build_id)) != 0 ||
	    !are_as_they_were(s, buffer_bytes(&records), trailer.file_count))
		return -ENOENT;
	r = symbol_table_open_part(fd, trailer.table_length, "a symbol table of the cache", job->build_id, ret, NULL);
	if (r < 0)
		return r;
	*ret_result = trailer.result;
	memcpy(job->from, trailer.from, sizeof(job->from));
	memcpy(job->lacks, trailer.lacks, sizeof(job->lacks));
	return 0;
}

bool file_cache_load(struct symbolizer *s, struct source_job *job, struct symbol_build_result *ret_result,
		     struct symbol_table **ret)
{
	char name[NAME_BYTES];
	struct stat st;
	if (!s->file_cache || !job->seen->has_binary)
		return false;
	make_name(&job->seen->binary, job->build_id, job->path, name);
	_cleanup_(fd_closep) int fd = own_dir_open_file(s->file_cache->directory, name, &st);
	if (fd < 0)
		return false;
	int r = load(s, fd, (uint64_t)st.st_size, job, ret_result, ret);
	if (r == -EBADMSG)
		unlinkat(s->file_cache->directory, name, 0);
	if (r == 0 && time_now_ns() - time_of_timespec(st.st_mtim) >= USE_STEP_NS)
		futimens(fd, NULL);
	return r == 0;
}

/* ---- keeping ---- */

static bool remove_file(void *context, const char *name)
{
	const struct file_cache *cache = context;
	return unlinkat(cache->directory, name, 0) == 0 || errno == ENOENT;
}

/* Counts what is there, which others may have changed, once and when it may be too much. Then those that were used longest ago
 * go: a tenth more than needed, or each table would cost a walk. */
static void make_room(struct file_cache *cache, uint64_t added)
{
	_cleanup_(disk_list_release) struct disk_list list = {0};
	cache->bytes += cache->bytes ? added : 0;
	if (cache->bytes && cache->bytes <= cache->bytes_max)
		return;
	if (own_dir_list(cache->directory, SUFFIX, &list) < 0)
		return;
	if (list.bytes > cache->bytes_max)
		disk_list_trim(&list, cache->bytes_max - cache->bytes_max / 10, remove_file, cache);
	cache->bytes = list.bytes;
}

void file_cache_keep(struct symbolizer *s, const struct source_job *job, const struct symbol_build_result *result,
		     const struct symbol_table *table)
{
	struct file_cache *cache = s->file_cache;
	const struct seen_files *seen = job->seen;
	char name[NAME_BYTES];
	struct trailer trailer;
	if (!cache || !seen->has_binary || seen->is_useless || table->len > cache->bytes_max / SHARE_MAX)
		return;
	fill_trailer(&trailer, &seen->binary, job->build_id);
	trailer.file_count = seen->count;
	trailer.table_length = table->len;
	trailer.table_checksum = table->header->checksum;
	trailer.records_length = seen->records.len;
	memcpy(trailer.from, job->from, sizeof(trailer.from));
	memcpy(trailer.lacks, job->lacks, sizeof(trailer.lacks));
	trailer.result = *result;
	trailer.checksum = checksum_of(&trailer, buffer_bytes(&seen->records));
	const struct bytes pieces[] = {
		{table->image, table->len}, {(const uint8_t *)&trailer, sizeof(trailer)}, buffer_bytes(&seen->records)};
	make_name(&seen->binary, job->build_id, job->path, name);
	if (own_dir_write_file(cache->directory, name, pieces, sizeof(pieces) / sizeof(pieces[0])) < 0)
		return;
	THREAD_LOCK_SCOPE(&s->evict_lock);
	make_room(cache, table->len + sizeof(trailer) + seen->records.len);
}

/* ---- life ---- */

int file_cache_open(const char *directory, uint64_t bytes_max, struct file_cache **ret, struct error *err)
{
	struct file_cache *cache = mem_zalloc(sizeof(*cache));
	if (!cache)
		return error_nomem(err);
	int r = io_make_dirs(directory, 0700, err);
	cache->directory = r < 0 ? r : own_dir_open(directory, "the symbol cache", err);
	if (cache->directory < 0) {
		r = cache->directory;
		mem_free(cache);
		return r;
	}
	cache->bytes_max = bytes_max;
	*ret = cache;
	return 0;
}

struct file_cache *file_cache_close(struct file_cache *cache)
{
	if (!cache)
		return NULL;
	io_close(cache->directory);
	return mem_free(cache);
}
