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

#define CONTENTS_MAX	 16384u
#define CONTENTS_SEVERAL UINT64_MAX
#define FRESH_NS	 (50 * NS_PER_MS) /* several ticks of the clock that files get their times from */
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

/* Without memory it is read again the next time. */
static void remember(struct contents *contents, const struct stat *status, const struct content_key *content)
{
	uint64_t known, id = key_of_build_id(content->build_id);
	if (contents->count >= CONTENTS_MAX) {
		map64_clear(&contents->by_file);
		map64_clear(&contents->by_build_id);
		contents->count = 0;
	}
	if (array_reserve(&contents->keys, &contents->capacity, contents->count + 1, CONTENTS_MAX) < 0)
		return;
	contents->keys[contents->count].build_id = id;
	memcpy(contents->keys[contents->count].key, content->key, CONTENT_KEY_HEX);
	if (!is_fresh(status) && map64_put(&contents->by_file, file_of(status), contents->count) < 0)
		return;
	size_t index = contents->count++;
	if (!content->build_id[0])
		return;
	if (!map64_get(&contents->by_build_id, id, &known))
		map64_put(&contents->by_build_id, id, index);
	else if (known != CONTENTS_SEVERAL && strcmp(contents->keys[known].key, content->key) != 0)
		map64_put(&contents->by_build_id, id, CONTENTS_SEVERAL);
}

/* 1 with the key, 0 if the file is not known, -ESTALE. */
static int recall(const struct contents *contents, uint64_t file, const char *build_id, char out[static CONTENT_KEY_HEX])
{
	uint64_t index;
	if (!map64_get(&contents->by_file, file, &index))
		return 0;
	if (build_id && contents->keys[index].build_id != key_of_build_id(build_id))
		return -ESTALE;
	memcpy(out, contents->keys[index].key, CONTENT_KEY_HEX);
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

int contents_of_fd(struct contents *contents, int fd, const char *build_id, char out[static CONTENT_KEY_HEX])
{
	struct stat before, after;
	struct content_key content = {0};
	if (fstat(fd, &before) < 0)
		return -errno;
	int r = recall(contents, file_of(&before), build_id, out);
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
	remember(contents, &before, &content);
	if (build_id && strcmp(build_id, content.build_id) != 0)
		return -ESTALE;
	memcpy(out, content.key, CONTENT_KEY_HEX);
	return 0;
}

int contents_of_path(struct contents *contents, const char *path, const char *build_id, char out[static CONTENT_KEY_HEX])
{
	struct stat status;
	if (stat(path, &status) < 0)
		return -errno;
	int r = recall(contents, file_of(&status), build_id, out);
	if (r != 0)
		return r < 0 ? r : 0;
	_cleanup_(fd_closep) int fd = io_open_regular(path, NULL);
	return fd < 0 ? fd : contents_of_fd(contents, fd, build_id, out);
}

unsigned contents_of_build_id(const struct contents *contents, const char *build_id, char out[static CONTENT_KEY_HEX])
{
	uint64_t index;
	if (!build_id[0] || !map64_get(&contents->by_build_id, key_of_build_id(build_id), &index))
		return 0;
	if (index == CONTENTS_SEVERAL)
		return 2;
	memcpy(out, contents->keys[index].key, CONTENT_KEY_HEX);
	return 1;
}
