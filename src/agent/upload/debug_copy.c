/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/upload/debug_copy.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/io.h"
#include "base/limits.h"
#include "elf/content_key.h"
#include "elf/debug_links.h"
#include "elf/extract.h"
#include "elf/file_ids.h"

#define DEBUG_ROOT	 "/usr/lib/debug"
#define MEMORY_BYTES_MAX (8 * MIB)
#define TABLE_BYTES_MAX	 (64 * MIB) /* of a Go program: those of the largest programs have about as much */

/* ---- finding files ---- */

/* A regular file of that id. */
static int open_regular(const char *path, const char *build_id, struct error *err)
{
	_cleanup_(fd_closep) int fd = io_open_regular(path, err);
	if (fd < 0)
		return fd;
	int r = file_has_id(fd, build_id);
	if (r == -ENOMEM)
		return error_nomem(err);
	if (r < 0)
		return error_set(err, -ENOENT, "%s was replaced by another file", path);
	return fd_take(&fd);
}

/* Formats a path; false if it is too long. */
static bool __attribute__((format(printf, 2, 3))) put_path(char out[static PATH_MAX], const char *format, ...)
{
	va_list list;
	va_start(list, format);
	int len = vsnprintf(out, PATH_MAX, format, list);
	va_end(list);
	return len > 0 && len < PATH_MAX;
}

/* Where the paths of a process begin: its own root directory, then ours. */
#define ROOTS 2
static const char *root_of(const struct debug_copy_request *request, size_t i, char out[static 32])
{
	snprintf(out, 32, "/proc/%d/root", (int)request->pid);
	return i == 0 ? request->pid > 0 ? out : NULL : "";
}

static int open_by_path(const struct debug_copy_request *request, char ret_path[static PATH_MAX], struct error *err)
{
	char root[32];
	int fd = error_set(err, -ENOENT, "%s no longer exists", request->path);
	for (size_t i = 0; i < ROOTS && fd < 0 && fd != -ENOMEM && request->path[0] == '/'; i++) {
		const char *prefix = root_of(request, i, root);
		if (prefix && put_path(ret_path, "%s%s", prefix, request->path))
			fd = open_regular(ret_path, request->build_id, err);
	}
	return fd < 0 && fd != -ENOMEM ? -ENOENT : fd;
}

static int check_content(const struct debug_copy_request *request, int fd, struct error *err)
{
	struct content_key found = {0};
	if (!request->content || !request->content[0])
		return 0;
	int r = content_key_read_fd(fd, &found, err);
	if (r < 0)
		return r;
	return strcmp(found.key, request->content) == 0
		       ? 0
		       : error_set(err, -ENOENT, "%s was replaced by another file", request->path);
}

static int open_binary(const struct debug_copy_request *request, char ret_path[static PATH_MAX], struct error *err)
{
	if (request->fd < 0)
		return open_by_path(request, ret_path, err);
	snprintf(ret_path, PATH_MAX, "%s", request->path);
	int fd = fcntl(request->fd, F_DUPFD_CLOEXEC, 0);
	return fd < 0 ? error_set(err, -errno, "cannot keep %s open: %s", request->path, strerror(errno)) : fd;
}

/* ---- what a file is worth ---- */

enum worth { WORTH_NOTHING, WORTH_SYMBOLS, WORTH_DEBUG };

static enum worth worth_of(const struct elf_file *file)
{
	if (elf_file_has_dwarf(file))
		return WORTH_DEBUG;
	return elf_file_find_section_type(file, SHT_SYMTAB) ? WORTH_SYMBOLS : WORTH_NOTHING;
}

/* A file that is open, and what it is. */
struct source {
	struct elf_file file;
	int fd;
	char path[PATH_MAX];
	enum worth worth;
	bool is_separate, has_offsets; /* a debug file; one that has the binary's offsets */
};

static void source_free(struct source *source)
{
	elf_file_release(&source->file);
	fd_closep(&source->fd);
	mem_free(source);
}
DEFINE_CLEANUP_POINTER(source_free, struct source);

/* Takes over fd. */
static int source_new(int fd, const char *path, struct source **ret, struct error *err)
{
	_cleanup_(source_freep) struct source *source = mem_zalloc(sizeof(*source));
	if (!source) {
		io_close(fd);
		return error_nomem(err);
	}
	source->fd = fd;
	snprintf(source->path, sizeof(source->path), "%s", path);
	int r = elf_file_open(&source->file, fd, source->path, err);
	if (r == 0)
		r = elf_file_load_sections(&source->file, err);
	if (r < 0)
		return r;
	source->worth = worth_of(&source->file);
	*ret = TAKE(source);
	return 0;
}

/* ---- the separate debug file ---- */

struct search {
	const struct debug_copy_request *request;
	struct source *best; /* what is worth most so far, the binary at first */
};

static bool is_executed(const struct elf_segment *segment)
{
	return elf_segment_is_executed(segment) && segment->memory_size > 0;
}

static const struct elf_segment *find_load(const struct elf_file *file, uint64_t address)
{
	for (size_t i = 0; i < file->segment_count; i++) {
		if (file->segments[i].type == PT_LOAD && file->segments[i].address == address)
			return &file->segments[i];
	}
	return NULL;
}

/*
 * Profiles count in offsets of the binary. The program headers of a debug file have other ones, or none, so they are given
 * those of the binary's. True when all that is executed was found, on both sides: a binary that was changed after the debug
 * file was split off (prelink) lies elsewhere.
 */
static bool adopt_offsets(struct elf_file *debug, const struct elf_file *binary)
{
	size_t found = 0, missed = 0;
	for (size_t i = 0; i < debug->segment_count; i++) {
		struct elf_segment *segment = &debug->segments[i];
		const struct elf_segment *of = segment->type == PT_LOAD ? find_load(binary, segment->address) : NULL;
		if (is_executed(segment))
			*(of && is_executed(of) ? &found : &missed) += 1;
		if (segment->type != PT_LOAD)
			continue;
		segment->offset = of ? of->offset : 0;
		segment->file_size = of ? of->file_size : 0;
		segment->memory_size = of ? of->memory_size : segment->memory_size;
	}
	for (size_t i = 0; i < binary->segment_count; i++)
		missed += is_executed(&binary->segments[i]) && !find_load(debug, binary->segments[i].address);
	return found > 0 && missed == 0;
}

/* A file that cannot be opened or read is none. */
static int try_path(struct search *search, const char *path)
{
	struct source *source = NULL;
	int fd = open_regular(path, search->request->build_id, NULL);
	int r = fd < 0 ? fd : source_new(fd, path, &source, NULL);
	if (r == 0 && source->worth > search->best->worth) {
		bool adopted = adopt_offsets(&source->file, &search->best->file);
		source->is_separate = true;
		source->has_offsets = adopted && (!search->best->is_separate || search->best->has_offsets);
		source_free(search->best);
		search->best = source;
	} else if (r == 0) {
		source_free(source);
	}
	return r == -ENOMEM ? r : 0;
}

static int try_link(struct search *search, const char *root, const char *name)
{
	const char *path = search->request->path, *slash = strrchr(path, '/');
	char full[PATH_MAX];
	if (!slash || strchr(name, '/'))
		return 0;
	int room = (int)(slash - path), r = 0;
	if (put_path(full, "%s%.*s/%s", root, room, path, name))
		r = try_path(search, full);
	if (r == 0 && search->best->worth < WORTH_DEBUG && put_path(full, "%s%.*s/.debug/%s", root, room, path, name))
		r = try_path(search, full);
	if (r == 0 && search->best->worth < WORTH_DEBUG && put_path(full, "%s" DEBUG_ROOT "%.*s/%s", root, room, path, name))
		r = try_path(search, full);
	return r;
}

static bool put_build_id_path(char out[static PATH_MAX], const char *root, const char *build_id)
{
	return put_path(out, "%s" DEBUG_ROOT "/.build-id/%.2s/%s.debug", root, build_id, build_id + 2);
}

/* Looks for something better than the binary itself. */
static int find_debug_file(struct search *search)
{
	char root[32], path[PATH_MAX], *link = mem_alloc(DEBUG_LINK_NAME_MAX);
	uint32_t crc;
	if (!link)
		return -ENOMEM;
	int r = elf_read_debuglink(&search->best->file, link, &crc, NULL);
	if (r < 0)
		link[0] = 0;
	r = r == -ENOMEM ? r : 0;
	for (size_t i = 0; i < ROOTS && r == 0 && search->best->worth < WORTH_DEBUG; i++) {
		const char *prefix = root_of(search->request, i, root);
		if (!prefix)
			continue;
		if (put_build_id_path(path, prefix, search->request->build_id))
			r = try_path(search, path);
		if (r == 0 && search->best->worth < WORTH_DEBUG && link[0])
			r = try_link(search, prefix, link);
	}
	mem_free(link);
	return r;
}

/* ---- the copy ---- */

int debug_copy_open_temporary(const char *directory, bool *ret_in_memory, struct error *err)
{
	const char *const directories[] = {directory, "/var/tmp", "/tmp"};
	int fd = -ENOENT;
	*ret_in_memory = false;
	for (size_t i = 0; i < sizeof(directories) / sizeof(*directories) && fd < 0; i++) {
		if (directories[i])
			fd = io_open(directories[i], O_TMPFILE | O_RDWR, 0600, NULL);
	}
	if (fd >= 0)
		return fd;
	*ret_in_memory = true;
	fd = memfd_create("wick-debuginfo", MFD_CLOEXEC);
	return fd < 0 ? error_set(err, -errno, "cannot create a temporary file: %s", strerror(errno)) : fd;
}

/* The name of an alt file is absolute, or relative to the file that refers to it. */
static void note_alt(struct source *source, struct debug_copy *copy)
{
	char *name = mem_alloc(DEBUG_LINK_NAME_MAX);
	const char *slash = strrchr(source->path, '/');
	int room = slash ? (int)(slash - source->path) : 0;
	if (!name || elf_read_debugaltlink(&source->file, name, copy->alt_build_id, NULL) < 0)
		copy->alt_build_id[0] = 0;
	else if (!(name[0] == '/' ? put_path(copy->alt_path, "%s", name)
				  : put_path(copy->alt_path, "%.*s/%s", room, source->path, name)))
		copy->alt_path[0] = 0;
	mem_free(name);
}

static int extract(const struct debug_copy_request *request, struct source *source, struct debug_copy *ret, struct error *err)
{
	struct elf_extract_result result;
	struct elf_extract_options options = {
		.bytes_max = request->bytes_max, .memory_max = TABLE_BYTES_MAX, .has_offsets = source->has_offsets};
	char own[BUILD_ID_HEX_MAX];
	bool has_own = build_id_read(&source->file, own, NULL) == 0;
	/* A server takes a file with another build-id for another file. */
	options.without_notes = has_own && strcmp(own, request->build_id) != 0;
	bool in_memory;
	_cleanup_(fd_closep) int fd = debug_copy_open_temporary(request->directory, &in_memory, err);
	if (fd < 0)
		return fd;
	if (in_memory && (!options.bytes_max || options.bytes_max > MEMORY_BYTES_MAX))
		options.bytes_max = MEMORY_BYTES_MAX;
	int r = elf_extract(&source->file, fd, &options, &result, err);
	if (r < 0)
		return r;
	*ret = (struct debug_copy){.size = result.bytes, .fd = fd_take(&fd)};
	ret->without_build_id = !has_own || options.without_notes;
	snprintf(ret->from, sizeof(ret->from), "%s", source->path);
	note_alt(source, ret);
	return 0;
}

int debug_copy_make(const struct debug_copy_request *request, struct debug_copy *ret, struct error *err)
{
	struct search search = {.request = request};
	char *path = mem_alloc(PATH_MAX);
	if (!path)
		return error_nomem(err);
	int fd = open_binary(request, path, err);
	int r = fd < 0 ? fd : check_content(request, fd, err);
	if (r < 0)
		fd_closep(&fd);
	if (r == 0)
		r = source_new(fd, path, &search.best, err);
	mem_free(path);
	_cleanup_(source_freep) struct source *best = search.best;
	if (r < 0)
		return r;
	if (search.best->worth < WORTH_DEBUG)
		r = find_debug_file(&search);
	best = search.best;
	return r < 0 ? error_nomem(err) : extract(request, best, ret, err);
}

int debug_copy_make_alt(const struct debug_copy_request *request, struct debug_copy *ret, struct error *err)
{
	char root[32], *path = mem_alloc(PATH_MAX);
	_cleanup_(source_freep) struct source *source = NULL;
	if (!path)
		return error_nomem(err);
	snprintf(path, PATH_MAX, "%s", request->path);
	int fd = open_regular(path, request->build_id, err);
	for (size_t i = 0; i < ROOTS && fd < 0 && fd != -ENOMEM; i++) {
		const char *prefix = root_of(request, i, root);
		if (prefix && put_path(path, "%s%s", prefix, request->path))
			fd = open_regular(path, request->build_id, err);
		if (prefix && fd < 0 && fd != -ENOMEM && put_build_id_path(path, prefix, request->build_id))
			fd = open_regular(path, request->build_id, err);
	}
	int r = fd < 0 ? fd : source_new(fd, path, &source, err);
	mem_free(path);
	return r < 0 ? r : extract(request, source, ret, err);
}

void debug_copy_release(struct debug_copy *copy)
{
	fd_closep(&copy->fd);
}
