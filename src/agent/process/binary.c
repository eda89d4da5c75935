// SPDX-License-Identifier: Apache-2.0
/*
 * Binaries are known by path and build-id, or by path, device and inode where the kernel did not give a build-id (lines of
 * /proc/PID/maps, files without one, and files whose first page was not in memory when they were mapped). The same file may so
 * have two entries; they meet again in the profile, where the build-id is read from the file before its first use.
 *
 * Opening the very file that is mapped: through /proc/PID/map_files while the process maps it, which works for deleted and
 * replaced files and across mount namespaces; else by path below /proc/PID/root; else by path in our own namespace, for
 * processes that have ended. Each is believed only if the build-id agrees, or path or inode where there is none. Files are
 * opened O_PATH first, so that a fifo or a device under a name that somebody chose is never touched.
 */
#include "agent/process/binary.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/cost.h"
#include "base/alloc.h"
#include "base/hash.h"
#include "base/io.h"
#include "base/text.h"
#include "elf/build_id.h"
#include "elf/compiler.h"

#define BINARIES_MAX	    (1u << 20)
#define SWEEP_FIRST	    4096u
#define ANNOUNCED_MAX	    65536u
#define OPEN_TRIES_MAX	    5
#define FOUR_GIB	    (UINT64_C(1) << 32)
#define VDSO_BYTES_MAX	    65536u
#define MAP_FILES_LOOKED_AT 4096u

int binaries_init(struct binaries *binaries)
{
	*binaries = (struct binaries){0};
	int r = array_reserve(&binaries->items, &binaries->capacity, 1, BINARIES_MAX);
	if (r < 0)
		return r;
	binaries->items[0] = (struct binary){0};
	binaries->count = 1;
	return binary_files_init(binaries);
}

static void binary_release(struct binary *binary)
{
	mem_free(binary->path);
	mem_free(binary->build_id);
	mem_free(binary->file_hash);
	mem_free(binary->compiler);
	mem_free(binary->go_build_id);
}

void binaries_release(struct binaries *binaries)
{
	for (size_t i = 0; i < binaries->count; i++)
		binary_release(&binaries->items[i]);
	mem_free(binaries->items);
	mem_free(binaries->files);
	contents_release(&binaries->contents);
	index32_release(&binaries->index);
	map64_release(&binaries->announced);
	*binaries = (struct binaries){0};
}

const char *binary_name(const struct binary *binary)
{
	return text_base_name(binary->path);
}

/* The same for all hosts, as ids are, and no file's. */
static const char *unknown_id(struct binaries *binaries, const char *build_id)
{
	const struct hash128 hash = hash128_seed(build_id, strlen(build_id), 0);
	snprintf(binaries->unknown_id, sizeof(binaries->unknown_id), "%016" PRIx64 "%016" PRIx64, hash.high, hash.low);
	return binaries->unknown_id;
}

/* Of a file of that content, as binary_id(). An entry by inode outlives its file, whose number may be given to the next one. */
static const char *id_of(struct binaries *binaries, const struct binary *binary, const struct contents_file *content,
			 bool *ret_is_hash)
{
	const char *build_id = binary->build_id;
	*ret_is_hash = true;
	if (content->key[0] &&
	    (content->is_foreign || !content->build_id || (build_id && !contents_has_build_id(content, build_id))))
		return content->file_hash;
	if (build_id && !content->key[0] && contents_has_foreign(&binaries->contents, build_id))
		return unknown_id(binaries, build_id);
	if (binary->file_hash && !(build_id && build_id[0]))
		return binary->file_hash;
	*ret_is_hash = false;
	return build_id ? build_id : "";
}

const char *binary_id(struct binaries *binaries, const struct process_mapping *mapping, bool *ret_is_hash)
{
	return id_of(binaries, &binaries->items[mapping->binary], &binaries->files[mapping->file].content, ret_is_hash);
}

/* ---- adding ---- */

static enum binary_kind kind_of(const struct event *event)
{
	static const char *const made_at_run_time[] = {"//anon",    "[heap]", "[stack",	       "[anon",
						       "/dev/zero", "/SYSV",  "/anon_hugepage"};
	if (event->build_id_bytes)
		return BINARY_FILE;
	/* A 32-bit process has another vdso, which is not at hand here. */
	if (strcmp(event->name, "[vdso]") == 0)
		return event->start && event->start < FOUR_GIB ? BINARY_JIT : BINARY_VDSO;
	if (text_starts_with(event->name, "/memfd:"))
		return BINARY_MEMFD;
	for (size_t i = 0; i < sizeof(made_at_run_time) / sizeof(*made_at_run_time); i++) {
		if (text_starts_with(event->name, made_at_run_time[i]))
			return BINARY_JIT;
	}
	return BINARY_FILE;
}

/* What an entry is found by. */
struct binary_key {
	const char *path;
	size_t path_len;
	char build_id[2 * EVENT_BUILD_ID_MAX + 1];
	uint64_t device, inode;
	enum binary_kind kind;
};

static void make_key(const struct event *event, struct binary_key *ret)
{
	static const char deleted[] = " (deleted)";

	*ret = (struct binary_key){.path = event->name, .kind = kind_of(event)};
	if (ret->kind == BINARY_JIT)
		ret->path = "[anon]";
	ret->path_len = strlen(ret->path);
	if (ret->kind != BINARY_FILE && ret->kind != BINARY_MEMFD)
		return;
	if (text_ends_with(ret->path, deleted))
		ret->path_len -= sizeof(deleted) - 1;
	if (event->build_id_bytes) {
		text_format_hex((struct bytes){event->build_id, event->build_id_bytes}, ret->build_id);
	} else {
		ret->device = event->device;
		ret->inode = event->inode;
	}
}

/* build_id: NULL unless it is part of the key. */
static uint64_t key_hash(const char *path, size_t path_len, const char *build_id, uint64_t device, uint64_t inode)
{
	uint64_t hash = hash64(path, path_len);
	if (build_id)
		return hash64_seed(build_id, strlen(build_id), hash);
	return hash ^ hash64_mix(inode ^ hash64_mix(device + 1));
}

static bool key_matches(const struct binary_key *key, const struct binary *binary)
{
	return binary->key_kind == key->kind && binary->device == key->device && binary->inode == key->inode &&
	       strncmp(binary->path, key->path, key->path_len) == 0 && !binary->path[key->path_len] &&
	       binary->by_build_id == (key->build_id[0] != 0) &&
	       (!binary->by_build_id || strcmp(binary->build_id, key->build_id) == 0);
}

static int new_item(struct binaries *binaries, uint32_t *ret_id)
{
	uint32_t id = binaries->free;
	if (id) {
		binaries->free = binaries->items[id].next_free;
	} else {
		int r = array_reserve(&binaries->items, &binaries->capacity, binaries->count + 1, BINARIES_MAX);
		if (r < 0)
			return r;
		id = (uint32_t)binaries->count++;
	}
	binaries->items[id] = (struct binary){0};
	*ret_id = id;
	return 0;
}

static void free_item(struct binaries *binaries, uint32_t id)
{
	struct binary *binary = &binaries->items[id];
	binary_files_forget(binaries, binary, true);
	binary_release(binary);
	*binary = (struct binary){.next_free = binaries->free};
	binaries->free = id;
}

static bool is_jitdump(const char *path, size_t len)
{
	static const char suffix[] = ".dump";
	const char *name = memrchr(path, '/', len), *end = path + len;
	size_t digits = 0;

	if (!name || !text_starts_with(name, "/jit-"))
		return false;
	for (name += 5; name < end && *name >= '0' && *name <= '9'; name++)
		digits++;
	return digits && (size_t)(end - name) == sizeof(suffix) - 1 && memcmp(name, suffix, sizeof(suffix) - 1) == 0;
}

static int add_new(struct binaries *binaries, const struct binary_key *key, uint64_t hash, uint32_t *ret_id)
{
	uint32_t id;
	int r = new_item(binaries, &id);
	if (r < 0)
		return r;
	struct binary *binary = &binaries->items[id];
	binary->path = mem_strndup(key->path, key->path_len);
	binary->build_id = key->build_id[0] ? mem_strdup(key->build_id) : NULL;
	binary->device = key->device;
	binary->inode = key->inode;
	binary->kind = binary->key_kind = (uint8_t)key->kind;
	binary->by_build_id = key->build_id[0] != 0;
	binary->used = true;
	binary->is_jitdump = key->kind == BINARY_FILE && is_jitdump(key->path, key->path_len);
	binary->announced = key->kind == BINARY_JIT || strcmp(key->path, "[vsyscall]") == 0;
	if (!binary->path || (binary->by_build_id && !binary->build_id) || index32_add(&binaries->index, hash, id) < 0) {
		free_item(binaries, id);
		return -ENOMEM;
	}
	binaries->used++;
	*ret_id = id;
	return 0;
}

int binaries_add(struct binaries *binaries, const struct event *event, uint32_t *ret_id)
{
	struct binary_key key;
	uint32_t id;

	make_key(event, &key);
	const char *build_id = key.build_id[0] ? key.build_id : NULL;
	uint64_t hash = key_hash(key.path, key.path_len, build_id, key.device, key.inode);
	for (size_t at = index32_first(&binaries->index, hash); index32_at(&binaries->index, hash, &at, &id); at++) {
		if (key_matches(&key, &binaries->items[id])) {
			*ret_id = id;
			return 0;
		}
	}
	return add_new(binaries, &key, hash, ret_id);
}

/* ---- sweeping ---- */

bool binaries_should_sweep(const struct binaries *binaries)
{
	return (binaries->used >= SWEEP_FIRST && binaries->used * 2 > binaries->count) ||
	       (binaries->files_used >= SWEEP_FIRST && binaries->files_used * 2 > binaries->file_count);
}

void binaries_sweep_begin(struct binaries *binaries)
{
	for (size_t i = 0; i < binaries->count; i++)
		binaries->items[i].marked = false;
	for (size_t i = 0; i < binaries->file_count; i++)
		binaries->files[i].marked = false;
}

int binaries_sweep_end(struct binaries *binaries)
{
	index32_clear(&binaries->index);
	for (uint32_t id = 1; id < binaries->count; id++) {
		struct binary *binary = &binaries->items[id];
		if (!binary->used)
			continue;
		if (!binary->marked) {
			free_item(binaries, id);
			binaries->used--;
			continue;
		}
		binary_files_forget(binaries, binary, false);
		const char *build_id = binary->by_build_id ? binary->build_id : NULL;
		uint64_t hash = key_hash(binary->path, strlen(binary->path), build_id, binary->device, binary->inode);
		if (index32_add(&binaries->index, hash, id) < 0)
			return -ENOMEM;
	}
	return 0;
}

/* ---- the file ---- */

static bool is_same_inode(const struct binary *binary, int fd)
{
	struct stat status;
	return fstat(fd, &status) == 0 && status.st_dev == binary->device && status.st_ino == binary->inode;
}

/* "" stands for a file that has none, or whose build-id cannot be read. */
static bool is_build_id_known(const struct binary *binary)
{
	return binary->build_id && binary->build_id[0];
}

static bool has_build_id(const struct binary *binary, int fd)
{
	char build_id[BUILD_ID_HEX_MAX];
	return build_id_read_fd(fd, build_id, NULL) == 0 && strcmp(build_id, binary->build_id) == 0;
}

/* map_files is a symbolic link whose text is the path as in the maps file. */
static bool links_to(const char *link, const struct binary *binary)
{
	char target[4096 + 16];
	ssize_t n = readlink(link, target, sizeof(target) - 1);
	size_t len = strlen(binary->path);

	if (n < 0)
		return false;
	target[n] = 0;
	return strncmp(target, binary->path, len) == 0 && (!target[len] || strcmp(target + len, " (deleted)") == 0);
}

/* Opens a file if it is the binary's: by its build-id, or for want of one by its inode, or by what the link in map_files leads
 * to, which the process has mapped just now. For that one the path decides, since the inode of the maps file need not be that
 * of stat() (overlayfs, btrfs). */
static int open_if_same(const char *path, bool is_link, const struct binary *binary)
{
	int fd = io_open_regular(path, NULL);

	if (fd >= 0 && !(is_build_id_known(binary) ? has_build_id(binary, fd)
			 : is_link		   ? links_to(path, binary)
						   : is_same_inode(binary, fd)))
		fd_closep(&fd);
	return fd;
}

/* The file is mapped, but not by a mapping of these very addresses: part of it was unmapped or protected otherwise, or
 * neighbours are one entry here. Looks for one that lies within. */
static int open_overlapping(const struct binary *binary, pid_t pid, const struct process_mapping *mapping)
{
	char path[128];
	struct dirent *entry;
	int fd = -1;

	snprintf(path, sizeof(path), "/proc/%d/map_files", (int)pid);
	_cleanup_(dir_closep) DIR *directory = opendir(path);
	for (unsigned i = 0; directory && fd < 0 && i < MAP_FILES_LOOKED_AT && (entry = readdir(directory)); i++) {
		uint64_t start, end;
		if (sscanf(entry->d_name, "%" SCNx64 "-%" SCNx64, &start, &end) != 2 || start >= mapping->end ||
		    end <= mapping->start)
			continue;
		snprintf(path, sizeof(path), "/proc/%d/map_files/%.60s", (int)pid, entry->d_name);
		fd = open_if_same(path, true, binary);
	}
	return fd;
}

static int open_binary(const struct binary *binary, pid_t pid, const struct process_mapping *mapping)
{
	char path[4096 + 64];

	snprintf(path, sizeof(path), "/proc/%d/map_files/%" PRIx64 "-%" PRIx64, (int)pid, mapping->start, mapping->end);
	int fd = open_if_same(path, true, binary);
	if (fd < 0)
		fd = open_overlapping(binary, pid, mapping);
	if (fd < 0 && snprintf(path, sizeof(path), "/proc/%d/root%s", (int)pid, binary->path) < (int)sizeof(path))
		fd = open_if_same(path, false, binary);
	if (fd < 0) /* of a process that has ended, or that we may not look into */
		fd = open_if_same(binary->path, false, binary);
	return fd < 0 ? -ENOENT : fd;
}

/* The image of our own vdso in a file. */
static int open_vdso(void)
{
	const char *start = (const char *)(uintptr_t)getauxval(AT_SYSINFO_EHDR);
	char line[512];
	unsigned long long first = 0, end = 0;
	_cleanup_(file_closep) FILE *maps = start ? fopen("/proc/self/maps", "re") : NULL;
	bool found = false;

	while (maps && !found && fgets(line, sizeof(line), maps))
		found = sscanf(line, "%llx-%llx", &first, &end) == 2 && first == (uintptr_t)start;
	if (!found || end - first > VDSO_BYTES_MAX)
		return -ENOENT;
	int fd = memfd_create("vdso", MFD_CLOEXEC);
	if (fd >= 0 && write(fd, start, end - first) != (ssize_t)(end - first))
		fd_closep(&fd);
	return fd < 0 ? -EIO : fd;
}

/* Programs are run from memfds as well as code is generated in them. */
static bool is_elf(int fd)
{
	char magic[4];
	return pread(fd, magic, sizeof(magic), 0) == sizeof(magic) && memcmp(magic, "\177ELF", sizeof(magic)) == 0;
}

int binary_open(const struct binary *binary, pid_t pid, const struct process_mapping *mapping,
		char ret_build_id[static BUILD_ID_HEX_MAX])
{
	if (binary->kind == BINARY_JIT)
		return -ENOEXEC;
	int fd = binary->kind == BINARY_VDSO ? open_vdso() : open_binary(binary, pid, mapping);
	if (fd < 0)
		return fd;
	if (binary->kind == BINARY_MEMFD && !is_elf(fd)) {
		fd_closep(&fd);
		return -ENOEXEC;
	}
	if (is_build_id_known(binary)) {
		snprintf(ret_build_id, BUILD_ID_HEX_MAX, "%s", binary->build_id);
	} else {
		ret_build_id[0] = 0;
		build_id_read_fd(fd, ret_build_id, NULL); /* stays "" for files that have none */
	}
	return fd;
}

bool binary_is_generated(const struct binary *binary, pid_t pid, const struct process_mapping *mapping)
{
	char build_id[BUILD_ID_HEX_MAX];

	if (binary->kind != BINARY_MEMFD)
		return binary->kind == BINARY_JIT;
	_cleanup_(fd_closep) int fd = binary_open(binary, pid, mapping, build_id);
	return fd == -ENOEXEC;
}

/* Two files of one id are two binaries to the sink. */
static uint64_t announced_key(const char *build_id, const char *content)
{
	return hash64_seed(build_id, strlen(build_id), content[0] ? hash64(content, strlen(content)) : 0);
}

/* True when the sink has not seen this file yet. */
static bool announce_first(struct binaries *binaries, const char *build_id, const char *content)
{
	uint64_t hash = announced_key(build_id, content), value;

	if (!build_id[0])
		return true;
	if (map64_get(&binaries->announced, hash, &value))
		return false;
	if (binaries->announced.count >= ANNOUNCED_MAX)
		map64_clear(&binaries->announced);
	return map64_put(&binaries->announced, hash, 1) == 0;
}

static bool was_announced(const struct binaries *binaries, const char *build_id, const char *content)
{
	uint64_t value;
	return content[0] && map64_get(&binaries->announced, announced_key(build_id, content), &value);
}

static void set_announced(struct binaries *binaries, struct binary *binary, const struct process_mapping *mapping)
{
	binary->announced = true;
	if (mapping->file)
		binaries->files[mapping->file].announced = true;
}

/* Without memory it is known by its path alone, as what is no ELF file. */
static void learn_hash(struct binary *binary, int fd)
{
	char hash[FILE_HASH_HEX];
	if (binary->file_hash || !binary->build_id || binary->build_id[0] || binary->kind != BINARY_FILE || !is_elf(fd))
		return;
	if (file_hash_read_fd(fd, hash, NULL) == 0)
		binary->file_hash = mem_strdup(hash);
}

static void announce(struct binaries *binaries, struct binary *binary, pid_t pid, const struct process_mapping *mapping,
		     const struct agent_sink *sink)
{
	char build_id[BUILD_ID_HEX_MAX];
	_cleanup_(fd_closep) int fd = binary_open(binary, pid, mapping, build_id);
	if (binary->kind == BINARY_MEMFD && (fd >= 0 || fd == -ENOEXEC || binary->tries == OPEN_TRIES_MAX)) {
		binary->kind = fd >= 0 ? BINARY_FILE : BINARY_JIT;
		binary->announced = fd < 0;
	}
	if (fd < 0)
		return;
	if (!binary->build_id) {
		binary->build_id = mem_strdup(build_id);
		if (!binary->build_id)
			return;
	}
	learn_hash(binary, fd);
	/* Too much was read of late, or it is no ELF file: then it is identified by its id alone, if that is enough. */
	struct contents_file content = {0};
	bool is_hash, is_known = contents_of_fd(&binaries->contents, fd, binary->build_id[0] ? binary->build_id : NULL,
						&content) == 0;
	const char *mapped = binaries->files[mapping->file].content.key;
	if (is_known ? *mapped && strcmp(mapped, content.key) != 0
		     : contents_has_foreign(&binaries->contents, binary->build_id))
		return;
	set_announced(binaries, binary, mapping);
	const char *name = id_of(binaries, binary, &content, &is_hash);
	if (!announce_first(binaries, name, content.key) || !sink->on_binary)
		return;
	const struct agent_binary shown = {.build_id = name,
					   .id_type = is_hash ? FILE_ID_HASH : FILE_ID_GNU,
					   .content = content.key,
					   .code = content.code,
					   .path = binary->path,
					   .pid = pid,
					   .fd = fd};
	sink->on_binary(sink->context, &shown);
}

void binary_prepare(struct binaries *binaries, uint32_t id, pid_t pid, const struct process_mapping *mapping,
		    const struct agent_sink *sink)
{
	struct binary *binary = &binaries->items[id];
	struct binary_file *file = &binaries->files[mapping->file];

	if (binary->announced && (!mapping->file || file->announced))
		return;
	bool is_hash;
	const char *name = binary_id(binaries, mapping, &is_hash);
	if (binary->build_id && name[0] && (!sink->on_binary || was_announced(binaries, name, file->content.key))) {
		set_announced(binaries, binary, mapping);
		return;
	}
	uint8_t *tries = binary->announced ? &file->tries : &binary->tries;
	if (*tries >= OPEN_TRIES_MAX)
		return;
	(*tries)++;
	enum agent_cost before = cost_enter(binaries->meter, AGENT_COST_SYMBOLS);
	announce(binaries, binary, pid, mapping, sink);
	cost_enter(binaries->meter, before);
}

static char *copy_if_any(const char *text)
{
	return text[0] ? mem_strdup(text) : NULL;
}

static void describe(struct binary *binary, pid_t pid, const struct process_mapping *mapping)
{
	char build_id[BUILD_ID_HEX_MAX] = "";
	struct compiler compiler;
	_cleanup_(fd_closep) int fd = binary_open(binary, pid, mapping, build_id);
	if (fd < 0)
		return;
	binary->described = true;
	if (!binary->build_id)
		binary->build_id = mem_strdup(build_id);
	learn_hash(binary, fd);
	if (compiler_read_fd(fd, &compiler, NULL) < 0)
		return;
	binary->compiler = copy_if_any(compiler.name);
	binary->go_build_id = copy_if_any(compiler.go_build_id);
}

void binary_describe(struct binaries *binaries, uint32_t id, pid_t pid, const struct process_mapping *mapping)
{
	static const struct process_mapping nothing;
	struct binary *binary = &binaries->items[id];

	if (binary->described || binary->kind != BINARY_FILE || binary->describe_tries >= OPEN_TRIES_MAX)
		return;
	binary->describe_tries++;
	enum agent_cost before = cost_enter(binaries->meter, AGENT_COST_SYMBOLS);
	describe(binary, pid, mapping ? mapping : &nothing);
	cost_enter(binaries->meter, before);
}
