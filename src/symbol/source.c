/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/io.h"
#include "base/time.h"
#include "elf/build_id.h"
#include "symbol/symbol_int.h"

/* "DIRECTORY/xx/yyyySUFFIX", where xx are the first two digits of the build-id. */
static bool format_path(char out[static SYMBOL_PATH_MAX], const char *directory, const char *build_id, const char *suffix)
{
	int n = snprintf(out, SYMBOL_PATH_MAX, "%s/%.2s/%s%s", directory, build_id, build_id + 2, suffix);
	return n > 0 && n < SYMBOL_PATH_MAX;
}

int source_reopen(int handle, const char *name, int *ret_fd, struct stat *ret_stat, struct error *err)
{
	struct stat st;
	if (fstat(handle, &st) < 0)
		return error_set_errno(err, -errno, "cannot read %s", name);
	if (!S_ISREG(st.st_mode))
		return error_set(err, -EINVAL, "%s: not a regular file", name);
	char by_handle[64];
	snprintf(by_handle, sizeof(by_handle), "/proc/self/fd/%d", handle);
	int fd = io_open(by_handle, O_RDONLY | O_NONBLOCK, 0, err);
	if (fd < 0)
		return error_prefix(err, fd, "%s", name);
	*ret_fd = fd;
	if (ret_stat)
		*ret_stat = st;
	return 0;
}

int source_open(const char *path, int *ret_fd, struct stat *ret_stat, struct error *err)
{
	_cleanup_(fd_closep) int handle = io_open(path, O_PATH, 0, err);
	return handle < 0 ? handle : source_reopen(handle, path, ret_fd, ret_stat, err);
}

int source_load_cached(struct symbolizer *symbolizer, const char *build_id, struct symbol_table **ret, struct error *err)
{
	char path[SYMBOL_PATH_MAX];
	if (!symbolizer->cache_directory || !format_path(path, symbolizer->cache_directory, build_id, ".sym"))
		return -ENOENT;
	/* A directory or FIFO of that name is not read. */
	_cleanup_(fd_closep) int fd = -1;
	struct stat st;
	int r = source_open(path, &fd, &st, NULL);
	if (r < 0)
		return -ENOENT;
	_cleanup_(buffer_release) struct buffer image;
	buffer_init(&image, SYMBOL_TABLE_BYTES_MAX);
	if ((uint64_t)st.st_size > image.max)
		return -ENOENT;
	if (buffer_reserve(&image, (size_t)st.st_size) < 0)
		return error_nomem(err);
	ssize_t len = io_pread(fd, image.data, (size_t)st.st_size, 0, path, NULL);
	if (len < 0)
		return -ENOENT;
	image.len = (size_t)len;
	r = symbol_table_from_image(&image, build_id, ret, err);
	if (r == -EBADMSG) {
		io_unlink(path, NULL);
		return -ENOENT;
	}
	return r;
}

/* Written beside it and renamed, but not synced: what a power cut damages the checksum tells, and is made anew. Syncing would
 * cost the first look at a host's profiles a disk's latency for each binary. */
static int replace_file(const char *path, const struct symbol_table *table)
{
	char temporary[SYMBOL_PATH_MAX + 32];
	snprintf(temporary, sizeof(temporary), "%s.%d.tmp", path, (int)getpid());
	int fd = io_open(temporary, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW, 0644, NULL);
	if (fd < 0)
		return fd;
	int r = io_write(fd, table->image, table->len, temporary, NULL);
	io_close(fd);
	if (r == 0)
		r = io_rename(temporary, path, NULL);
	if (r < 0)
		io_unlink(temporary, NULL);
	return r;
}

void source_store(struct symbolizer *symbolizer, const char *build_id, const struct symbol_table *table)
{
	char path[SYMBOL_PATH_MAX], directory[SYMBOL_PATH_MAX];
	if (!symbolizer->cache_directory || !format_path(path, symbolizer->cache_directory, build_id, ".sym"))
		return;
	int n = snprintf(directory, sizeof(directory), "%s/%.2s", symbolizer->cache_directory, build_id);
	/* A cache that cannot be written costs time later, nothing else. */
	if (n > 0 && (size_t)n < sizeof(directory) && io_make_dirs(directory, 0755, NULL) == 0)
		replace_file(path, table);
}

/* Opens an ELF file and refuses it when it is not the one asked for. *file is released on failure. */
static int open_checked(struct elf_file *file, int fd, const char *name, const char *build_id, struct error *err)
{
	int r = elf_file_open(file, fd, name, err);
	if (r < 0 || !build_id[0])
		return r;
	char own[BUILD_ID_HEX_MAX];
	r = build_id_read(file, own, err);
	if (r == -ENOENT)
		r = error_set(err, -EINVAL, "%s: has no build-id, expected %s", name, build_id);
	if (r == 0 && strcmp(own, build_id) != 0)
		r = error_set(err, -EINVAL, "%s: has the build-id %s, expected %s", name, own, build_id);
	if (r < 0)
		elf_file_release(file);
	return r;
}

static int open_debug_file(struct symbolizer *symbolizer, const char *build_id, char path[static SYMBOL_PATH_MAX], int *ret_fd,
			   struct elf_file *file, struct error *err)
{
	if (!build_id[0] || !format_path(path, symbolizer->debug_directory, build_id, ".debug"))
		return -ENOENT;
	int fd;
	int r = source_open(path, &fd, NULL, NULL);
	if (r < 0)
		return -ENOENT;
	r = open_checked(file, fd, path, build_id, err);
	if (r < 0) {
		io_close(fd);
		return r;
	}
	*ret_fd = fd;
	return 0;
}

bool source_has_debug_file(struct symbolizer *symbolizer, const char *build_id)
{
	char path[SYMBOL_PATH_MAX];
	struct stat st;
	return build_id_is_valid(build_id) && format_path(path, symbolizer->debug_directory, build_id, ".debug") &&
	       stat(path, &st) == 0 && S_ISREG(st.st_mode);
}

static void count_parse(struct symbolizer *symbolizer, int64_t start_ns, int r)
{
	pthread_mutex_lock(&symbolizer->lock);
	symbolizer->stats.files_parsed++;
	symbolizer->stats.parse_ns_total += (uint64_t)(time_monotonic_ns() - start_ns);
	symbolizer->stats.parse_failures += r < 0;
	pthread_mutex_unlock(&symbolizer->lock);
}

static bool has_symtab(struct elf_file *file)
{
	return elf_file_load_sections(file, NULL) == 0 && elf_file_find_section_type(file, SHT_SYMTAB);
}

static int build_from(struct symbolizer *symbolizer, const char *build_id, struct elf_file *file, struct symbol_table **ret,
		      struct error *err)
{
	char debug_path[SYMBOL_PATH_MAX];
	_cleanup_(fd_closep) int debug_fd = -1;
	struct elf_file debug;
	bool with_debug = !has_symtab(file) && open_debug_file(symbolizer, build_id, debug_path, &debug_fd, &debug, NULL) == 0;
	int r = symbol_table_build(build_id, file, with_debug ? &debug : NULL, ret, err);
	if (with_debug)
		elf_file_release(&debug);
	/* A bad debug file does not take the binary's own names away. */
	if (r < 0 && r != -ENOMEM && with_debug)
		r = symbol_table_build(build_id, file, NULL, ret, err);
	return r;
}

int source_build(struct symbolizer *symbolizer, const char *build_id, const char *path, int fd, struct symbol_table **ret,
		 struct error *err)
{
	int64_t start = time_monotonic_ns();
	struct elf_file file;
	int r = open_checked(&file, fd, path, build_id, err);
	if (r == 0) {
		r = build_from(symbolizer, build_id, &file, ret, err);
		elf_file_release(&file);
	}
	count_parse(symbolizer, start, r);
	return r;
}

int source_build_debug(struct symbolizer *symbolizer, const char *build_id, struct symbol_table **ret, struct error *err)
{
	int64_t start = time_monotonic_ns();
	char path[SYMBOL_PATH_MAX];
	_cleanup_(fd_closep) int fd = -1;
	struct elf_file file;
	int r = open_debug_file(symbolizer, build_id, path, &fd, &file, err);
	if (r == -ENOENT)
		return r;
	if (r == 0) {
		r = symbol_table_build(build_id, NULL, &file, ret, err);
		elf_file_release(&file);
	}
	count_parse(symbolizer, start, r);
	return r;
}
