// SPDX-License-Identifier: Apache-2.0
/*
 * Tables on disk, so that an agent that is started again need not read every binary of the machine again.
 *
 *   DIRECTORY/KEY.unwind
 *     offset  size
 *     0       8     "wickunwt"
 *     8       4     format version
 *     12      4     ELF machine
 *     16      8     hash of the version of Wick that built it: what a release fixes in the building of tables, it fixes in all
 *     24      8     bytes of the image
 *     32      8     XXH3 over the 32 bytes before, the key's field and the image
 *     40      136   key of the file's contents in hex (elf/content_key.h), padded with zeros; in version 1 its build-id
 *     176           the image (bpf/unwind.h); empty for a binary that is known to have no CFI
 *
 * Numbers are of the machine's own byte order: a file never leaves its machine.
 *
 * What is loaded is checked twice, by the checksum against damage and by unwind_table_check() against all else, for an image
 * goes on into the kernel's reach. A file that fails is removed and built again. Files are written aside and renamed, without a
 * sync: after a loss of power the checksum finds damage.
 *
 * The directory must be our own and nobody else may write to it, or whoever could would choose which frames we see. It is
 * opened once and reached through that descriptor from then on, so that nothing on the way to it can be exchanged; links are
 * not followed in it. Only hex digits become a name.
 *
 * Loading a file touches its time of change; when the directory becomes too large, the files with the oldest are removed.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <dirent.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/disk_list.h"
#include "base/hash.h"
#include "base/io.h"
#include "base/own_dir.h"
#include "base/text.h"
#include "base/time.h"
#include "elf/build_id.h"
#include "unwind/unwind_table.h"

#define CACHE_MAGIC	  "wickunwt"
#define CACHE_VERSION	  2u
#define CACHE_SUFFIX	  ".unwind"
#define PATH_BYTES	  256
#define KEEP_SHARE(bytes) ((bytes) / 8 * 7) /* what is left when files had to be removed, so that it is not done each time */

struct cache_header {
	char magic[8];
	uint32_t version, machine;
	uint64_t builder, length, checksum;
	char key[136];
};
_Static_assert(sizeof(struct cache_header) == 176 && BUILD_ID_HEX_MAX <= 136, "a part of the format");

struct unwind_cache {
	int directory;
	uint64_t bytes, bytes_max;
	struct unwind_cache_stats stats;
};

/* Through the descriptor, not by the name that the caller gave. */
static void make_path(const struct unwind_cache *cache, const char *name, const char *suffix, char out[static PATH_BYTES])
{
	snprintf(out, PATH_BYTES, "/proc/self/fd/%d/%s%s", cache->directory, name, suffix);
}

static uint64_t checksum_of(const struct cache_header *header, const void *image)
{
	struct cache_header clean = *header;
	clean.checksum = 0;
	return hash64_seed(image, header->length, hash64(&clean, sizeof(clean)));
}

static void fill_header(struct cache_header *header, const char *key, uint64_t length)
{
	*header = (struct cache_header){.version = CACHE_VERSION,
					.machine = UNWIND_MACHINE,
					.builder = hash64(WICK_VERSION, strlen(WICK_VERSION)),
					.length = length};
	memcpy(header->magic, CACHE_MAGIC, sizeof(header->magic));
	memcpy(header->key, key, strlen(key));
}

/* ---- how much there is, and what goes ---- */

static bool remove_file(void *context, const char *name)
{
	const struct unwind_cache *cache = context;
	return unlinkat(cache->directory, name, 0) == 0 || errno == ENOENT;
}

/* Counts what is there, which other agents may have changed, and removes the oldest if it is too much. */
static int measure_and_shrink(struct unwind_cache *cache)
{
	_cleanup_(disk_list_release) struct disk_list list = {0};
	int r = own_dir_list(cache->directory, CACHE_SUFFIX, &list);
	if (r < 0)
		return r;
	if (list.bytes > cache->bytes_max)
		cache->stats.removed += disk_list_trim(&list, KEEP_SHARE(cache->bytes_max), remove_file, cache);
	cache->bytes = list.bytes;
	return 0;
}

/* ---- loading ---- */

/* -EBADMSG: damaged; -ESTALE: another release's. */
static int read_image(struct unwind_cache *cache, int fd, const char *key, struct buffer *image)
{
	struct cache_header header, expected;
	uint64_t size;
	struct stat stat;
	if (fstat(fd, &stat) < 0 || !S_ISREG(stat.st_mode))
		return -EBADMSG;
	size = (uint64_t)stat.st_size;
	if (size < sizeof(header) || size - sizeof(header) > UNWIND_TABLE_BYTES_MAX)
		return -EBADMSG;
	size -= sizeof(header);
	if (io_pread(fd, &header, sizeof(header), 0, key, NULL) != sizeof(header))
		return -EBADMSG;
	fill_header(&expected, key, size);
	expected.checksum = header.checksum;
	if (!memcmp(header.magic, expected.magic, sizeof(header.magic)) &&
	    (header.version != expected.version || header.builder != expected.builder))
		return -ESTALE;
	if (memcmp(&header, &expected, sizeof(header)))
		return -EBADMSG;
	image->max = UNWIND_TABLE_BYTES_MAX;
	buffer_clear(image);
	int r = buffer_reserve(image, size);
	if (r < 0)
		return r;
	if (size > 0 && io_pread(fd, image->data, size, sizeof(header), key, NULL) != (ssize_t)size)
		return -EBADMSG;
	image->len = size;
	if (checksum_of(&header, size ? (const void *)image->data : "") != header.checksum)
		return -EBADMSG;
	return size == 0 || unwind_table_check(image->data, size) ? 0 : -EBADMSG;
}

int unwind_cache_load(struct unwind_cache *cache, const char *key, struct buffer *ret)
{
	char path[PATH_BYTES];
	if (!cache || !build_id_is_valid(key))
		return 0;
	make_path(cache, key, CACHE_SUFFIX, path);
	_cleanup_(fd_closep) int fd = io_open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK, 0, NULL);
	if (fd < 0) {
		cache->stats.failed += fd != -ENOENT;
		return 0;
	}
	int r = read_image(cache, fd, key, ret);
	if (r < 0)
		buffer_release(ret);
	cache->stats.damaged += r == -EBADMSG;
	if (r == -EBADMSG || r == -ESTALE) {
		unlinkat(cache->directory, path + strlen(path) - strlen(key) - strlen(CACHE_SUFFIX), 0);
	}
	if (r < 0)
		return 0;
	futimens(fd, NULL);
	cache->stats.loaded++;
	return 1;
}

/* ---- storing ---- */

static int store(struct unwind_cache *cache, const char *key, const struct buffer *image)
{
	struct cache_header header;
	char name[BUILD_ID_HEX_MAX + sizeof(CACHE_SUFFIX)];
	fill_header(&header, key, image->len);
	header.checksum = checksum_of(&header, image->len ? (const void *)image->data : "");
	snprintf(name, sizeof(name), "%s" CACHE_SUFFIX, key);
	const struct bytes pieces[] = {{(const uint8_t *)&header, sizeof(header)}, buffer_bytes(image)};
	return own_dir_write_file(cache->directory, name, pieces, 2);
}

void unwind_cache_store(struct unwind_cache *cache, const char *key, const struct buffer *image)
{
	if (!cache || !build_id_is_valid(key))
		return;
	uint64_t bytes = sizeof(struct cache_header) + image->len;
	if (bytes > cache->bytes_max / 2)
		return; /* would drive out half of the others */
	if (store(cache, key, image) < 0) {
		cache->stats.failed++;
		return;
	}
	cache->stats.stored++;
	cache->bytes += bytes;
	if (cache->bytes > cache->bytes_max && measure_and_shrink(cache) < 0)
		cache->stats.failed++;
}

void unwind_cache_get_stats(const struct unwind_cache *cache, struct unwind_cache_stats *ret)
{
	*ret = cache ? cache->stats : (struct unwind_cache_stats){0};
	ret->bytes = cache ? cache->bytes : 0;
}

/* ---- life ---- */

int unwind_cache_open(const char *directory, uint64_t bytes_max, struct unwind_cache **ret, struct error *err)
{
	_cleanup_(unwind_cache_closep) struct unwind_cache *cache = mem_zalloc(sizeof(*cache));
	if (!cache)
		return error_nomem(err);
	cache->bytes_max = bytes_max;
	cache->directory = own_dir_open(directory, "the table cache", err);
	int r = cache->directory < 0 ? cache->directory : measure_and_shrink(cache);
	if (cache->directory >= 0 && r < 0)
		error_set_errno(err, r, "cannot list the table cache %s", directory);
	if (r < 0)
		return r;
	*ret = TAKE(cache);
	return 0;
}

struct unwind_cache *unwind_cache_close(struct unwind_cache *cache)
{
	if (!cache)
		return NULL;
	io_close(cache->directory);
	return mem_free(cache);
}
