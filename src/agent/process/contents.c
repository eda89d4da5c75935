// SPDX-License-Identifier: Apache-2.0
#include "agent/process/contents.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "base/hash.h"
#include "base/io.h"
#include "base/limits.h"
#include "base/time.h"

#define CONTENTS_MAX 16384u
#define FRESH_NS     (50 * NS_PER_MS) /* several ticks of the clock that files get their times from */
/* Who makes a new file each moment does not keep an agent busy. At its start it reads all there are. */
#define BYTES_PER_SECOND (32 * MIB)
#define BYTES_BURST	 (1 * GIB)

void contents_release(struct contents *contents)
{
	map64_release(&contents->by_file);
	map64_release(&contents->by_build_id);
	mem_free(contents->keys);
	*contents = (struct contents){0};
}

static uint64_t file_of(const struct stat *status)
{
	const uint64_t words[] = {
		status->st_dev,
		status->st_ino,
		(uint64_t)status->st_size,
		(uint64_t)time_of_timespec(status->st_mtim),
		(uint64_t)time_of_timespec(status->st_ctim),
	};
	return hash64_guarded(words, sizeof(words));
}

static uint64_t key_of_build_id(const char *build_id)
{
	return build_id[0] ? hash64_guarded(build_id, strlen(build_id)) : 0;
}

static bool is_fresh(const struct stat *status)
{
	int64_t age_ns = time_now_ns() - time_of_timespec(status->st_ctim);
	return age_ns < FRESH_NS && age_ns > -FRESH_NS;
}

/* The first of its build-id, or NULL. */
static struct contents_key *find_first(const struct contents *contents, uint64_t build_id)
{
	uint64_t index;
	return build_id && map64_get(&contents->by_build_id, build_id, &index) ? &contents->keys[index] : NULL;
}

/* Beside the first of its build-id. */
static void compare(struct contents_key *first, struct contents_key *key)
{
	if (strcmp(first->file.key, key->file.key) == 0)
		return;
	first->is_one_of_several = true;
	key->file.is_foreign = !content_key_is_same_program(first->file.code, first->symbols, key->file.code, key->symbols);
	first->has_foreign |= key->file.is_foreign;
	if (!key->file.is_foreign && !first->symbols)
		first->symbols = key->symbols;
}

/* Without memory it is read again the next time. */
static void remember(struct contents *contents, const struct stat *status, struct contents_key *key)
{
	struct contents_key *first = find_first(contents, key->file.build_id);
	if (first)
		compare(first, key);
	if (contents->count >= CONTENTS_MAX) {
		map64_clear(&contents->by_file);
		map64_clear(&contents->by_build_id);
		contents->count = 0;
		first = NULL;
	}
	if (array_reserve(&contents->keys, &contents->capacity, contents->count + 1, CONTENTS_MAX) < 0)
		return;
	contents->keys[contents->count] = *key;
	if (!is_fresh(status) && map64_put(&contents->by_file, file_of(status), contents->count) < 0)
		return;
	size_t index = contents->count++;
	if (key->file.build_id && !first)
		map64_put(&contents->by_build_id, key->file.build_id, index);
}

bool contents_has_build_id(const struct contents_file *file, const char *build_id)
{
	return file->build_id == key_of_build_id(build_id);
}

/* 1 with the file, 0 if it is not known, -ESTALE. */
static int recall(const struct contents *contents, uint64_t file, const char *build_id, struct contents_file *ret)
{
	uint64_t index;
	if (!map64_get(&contents->by_file, file, &index))
		return 0;
	if (build_id && !contents_has_build_id(&contents->keys[index].file, build_id))
		return -ESTALE;
	*ret = contents->keys[index].file;
	return 1;
}

static bool may_read(struct contents *contents)
{
	int64_t now_ns = time_monotonic_ns(), past_ns = now_ns - contents->filled_ns;
	if (past_ns >= NS_PER_S) {
		uint64_t more = past_ns / NS_PER_S > (int64_t)(BYTES_BURST / BYTES_PER_SECOND)
					? BYTES_BURST
					: (uint64_t)(past_ns / NS_PER_S) * BYTES_PER_SECOND;
		contents->bytes_left += contents->filled_ns ? more : BYTES_BURST;
		contents->bytes_left = contents->bytes_left < BYTES_BURST ? contents->bytes_left : BYTES_BURST;
		contents->filled_ns = now_ns;
	}
	return contents->bytes_left > 0;
}

int contents_of_fd(struct contents *contents, int fd, const char *build_id, struct contents_file *ret)
{
	struct stat before, after;
	struct content_key content = {0};
	if (fstat(fd, &before) < 0)
		return -errno;
	int r = recall(contents, file_of(&before), build_id, ret);
	if (r != 0)
		return r < 0 ? r : 0;
	if (!may_read(contents))
		return -EAGAIN;
	r = content_key_read_fd(fd, &content, NULL);
	contents->read++;
	contents->bytes += content.bytes;
	contents->bytes_left -= content.bytes < contents->bytes_left ? content.bytes : contents->bytes_left;
	if (r < 0)
		return r;
	if (fstat(fd, &after) < 0 || file_of(&after) != file_of(&before))
		return -ESTALE;
	struct contents_key key = {.file = {.build_id = key_of_build_id(content.build_id), .code = content.code},
				   .symbols = content.symbols};
	memcpy(key.file.key, content.key, CONTENT_KEY_HEX);
	memcpy(key.file.file_hash, content.file_hash, FILE_HASH_HEX);
	remember(contents, &before, &key);
	if (build_id && !contents_has_build_id(&key.file, build_id))
		return -ESTALE;
	*ret = key.file;
	return 0;
}

int contents_of_path(struct contents *contents, const char *path, const char *build_id, struct contents_file *ret)
{
	struct stat status;
	if (stat(path, &status) < 0)
		return -errno;
	int r = recall(contents, file_of(&status), build_id, ret);
	if (r != 0)
		return r < 0 ? r : 0;
	_cleanup_(fd_closep) int fd = io_open_regular(path, NULL);
	return fd < 0 ? fd : contents_of_fd(contents, fd, build_id, ret);
}

unsigned contents_of_build_id(const struct contents *contents, const char *build_id, struct contents_file *ret)
{
	const struct contents_key *first = find_first(contents, key_of_build_id(build_id));
	if (!first || first->is_one_of_several)
		return first ? 2 : 0;
	*ret = first->file;
	return 1;
}

bool contents_has_foreign(const struct contents *contents, const char *build_id)
{
	const struct contents_key *first = find_first(contents, key_of_build_id(build_id));
	return first && first->has_foreign;
}
