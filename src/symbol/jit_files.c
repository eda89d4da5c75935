// SPDX-License-Identifier: Apache-2.0
#include "symbol/jit_files.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/io.h"
#include "base/time.h"
#include "symbol/symbol_int.h"
#include "symbol/use_order.h"

#define TOTAL_BYTES_MAX (64 * MIB)

const char *const jit_problem_names[JIT_PROBLEM_COUNT] = {
	"owner", "not_regular", "stale",     "gone",	"malformed", "debug_info",
	"full",	 "too_long",	"rewritten", "evicted", "search",
};

void jit_files_init(struct jit_files *files, const struct jit_files_kind *kind)
{
	*files = (struct jit_files){
		.kind = kind,
		.total_bytes_max = TOTAL_BYTES_MAX,
		.entries_max = kind->entries_max,
		.pace = {NS_PER_S, NS_PER_S / 20},
	};
}

static void remove_file(struct jit_files *files, struct jit_file *file)
{
	map64_remove(&files->by_key, file->key);
	use_order_remove(files, file);
	jit_files_forget(files, file);
	files->count--;
	mem_free(file);
}

void jit_files_release(struct jit_files *files)
{
	while (files->oldest)
		remove_file(files, files->oldest);
	map64_release(&files->by_key);
}

void jit_files_make_room(struct jit_files *files)
{
	while (files->oldest != files->newest &&
	       (files->total_bytes > files->total_bytes_max || files->count > files->kind->files_max)) {
		files->stats.problems[JIT_PROBLEM_EVICTED] += files->oldest->consumed > 0;
		remove_file(files, files->oldest);
	}
}

struct jit_file *jit_files_get(struct jit_files *files, uint64_t key)
{
	uint64_t known;
	struct jit_file *file;
	if (map64_get(&files->by_key, key, &known)) {
		file = (struct jit_file *)(uintptr_t)known;
		use_order_remove(files, file);
		use_order_add(files, file);
		return file;
	}
	file = mem_zalloc(files->kind->size);
	if (!file || map64_put(&files->by_key, key, (uint64_t)(uintptr_t)file) < 0)
		return mem_free(file);
	file->key = key;
	files->kind->init(file, files->entries_max);
	use_order_add(files, file);
	files->count++;
	jit_files_make_room(files);
	return file;
}

void jit_files_forget(struct jit_files *files, struct jit_file *file)
{
	files->total_bytes -= file->memory_bytes;
	files->kind->release(file);
	file->memory_bytes = 0;
	file->consumed = 0;
	file->is_too_long = false;
}

void jit_files_count(struct jit_files *files, struct jit_file *file)
{
	size_t now = files->kind->memory_bytes(file);
	files->total_bytes += now - file->memory_bytes;
	file->memory_bytes = now;
}

uint64_t jit_files_limit(struct jit_files *files, struct jit_file *file, uint64_t size, uint64_t size_max)
{
	if (size <= size_max)
		return size;
	files->stats.problems[JIT_PROBLEM_TOO_LONG] += !file->is_too_long;
	file->is_too_long = true;
	return size_max;
}

/* Anything but a regular file is refused by source_reopen(), and counted. */
int jit_files_reopen(struct jit_files *files, int handle, const char *path, struct stat *ret_stat)
{
	int fd;
	int r = source_reopen(handle, path, &fd, ret_stat, NULL);
	files->stats.problems[JIT_PROBLEM_NOT_REGULAR] += r == -EINVAL;
	return r < 0 ? r : fd;
}

int jit_files_open_below(struct jit_files *files, const char *root_path, const char *path, struct stat *ret_stat)
{
	_cleanup_(fd_closep) int root = io_open(root_path, O_PATH | O_DIRECTORY, 0, NULL);
	if (root < 0)
		return root;
	struct open_how how = {.flags = O_PATH | O_NOFOLLOW | O_CLOEXEC, .resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS};
	_cleanup_(fd_closep) int handle = (int)syscall(SYS_openat2, root, path, &how, sizeof(how));
	if (handle < 0)
		return errno == ENOENT ? -ENXIO : -errno;
	return jit_files_reopen(files, handle, path, ret_stat);
}

void jit_files_get_stats(const struct jit_files *files, struct jit_stats *ret)
{
	*ret = files->stats;
	ret->memory_bytes = files->total_bytes;
	for (const struct jit_file *file = files->newest; file; file = file->older)
		ret->files += file->consumed > 0;
}
