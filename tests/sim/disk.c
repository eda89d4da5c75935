/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/sim/disk.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/io.h"
#include "tests/sim/random.h"

#define FDS_MAX	    4096
#define SECTOR	    512
#define PAGE	    4096
#define TORN_MAX    256
#define MEMORY_MAX  ((size_t)1 << 30)
#define FAIL_LINE() fail(__func__, __LINE__)

/* ---- the real calls ---- */

int __real_open(const char *path, int flags, ...);
int __real_openat(int dir, const char *path, int flags, ...);
int __real_close(int fd);
ssize_t __real_write(int fd, const void *data, size_t len);
ssize_t __real_pwrite(int fd, const void *data, size_t len, off_t offset);
int __real_ftruncate(int fd, off_t size);
int __real_fdatasync(int fd);
int __real_fsync(int fd);
int __real_rename(const char *from, const char *to);
int __real_link(const char *from, const char *to);
int __real_unlink(const char *path);
int __real_unlinkat(int dir, const char *path, int flags);
int __real_mkdir(const char *path, mode_t mode);

/* ---- the shadow ---- */

struct change { /* of a file's data */
	uint64_t offset;
	size_t len;
	const uint8_t *data; /* NULL: the size became `offset` */
};

struct entry {
	const char *name;
	struct inode *inode;
};
struct entries {
	struct entry *items;
	size_t count, capacity;
};

struct inode {
	bool is_directory;
	const char *name;	     /* the last one that it was given */
	bool is_unsure;		     /* a sync failed: the real file holds more than durable data and changes make */
	struct entries now, durable; /* a directory's */
	uint8_t *data;		     /* a file's durable bytes */
	size_t size, capacity;
	struct change *changes;
	size_t change_count, change_capacity;
};

enum operation_kind {
	OPERATION_ADD,	  /* a file or directory is made */
	OPERATION_REMOVE, /* a file */
	OPERATION_RMDIR,
	OPERATION_RENAME,
};
struct operation { /* on directories; waits to become durable */
	enum operation_kind kind;
	struct inode *from, *to, *inode; /* `to` of a rename only */
	const char *from_name, *to_name;
	bool is_chosen;
};

struct torn {
	char name[64];
	uint64_t from;
};

static struct {
	char root[PATH_MAX];
	size_t root_len;
	struct arena arena;
	struct random random;
	struct inode *top;
	struct inode *fds[FDS_MAX];
	struct operation *operations;
	size_t operation_count, operation_capacity;
	uint64_t calls, death_at, full_at, writes, failing_sync_at, syncs;
	enum disk_death death;
	bool is_dead, is_dying, is_full, has_failed, in_hook;
	void (*hook)(void *context);
	void *hook_context;
	struct torn torn[TORN_MAX];
	size_t torn_count;
	char difference[2 * PATH_MAX];
} disk;

static void fail(const char *what, int line)
{
	fprintf(stderr, "sim: the disk cannot follow: %s, line %d, errno %d\n", what, line, errno);
	abort();
}

static void *take(size_t size)
{
	void *memory = arena_zalloc(&disk.arena, size);
	if (!memory)
		FAIL_LINE();
	return memory;
}

/* Grows an array in the arena; the old one is left there. */
static void *grow(void *old, size_t *capacity, size_t count, size_t element)
{
	if (count < *capacity)
		return old;
	size_t wanted = *capacity ? 2 * *capacity : 8;
	void *fresh = take(wanted * element);
	if (count)
		memcpy(fresh, old, count * element);
	*capacity = wanted;
	return fresh;
}

static struct entry *find_entry(struct entries *entries, const char *name)
{
	for (size_t i = 0; i < entries->count; i++)
		if (!strcmp(entries->items[i].name, name))
			return &entries->items[i];
	return NULL;
}

static void set_entry(struct entries *entries, const char *name, struct inode *inode)
{
	struct entry *entry = find_entry(entries, name);
	if (!entry) {
		entries->items = grow(entries->items, &entries->capacity, entries->count, sizeof(*entries->items));
		entry = &entries->items[entries->count++];
	}
	*entry = (struct entry){name, inode};
}

static void remove_entry(struct entries *entries, const char *name)
{
	struct entry *entry = find_entry(entries, name);
	if (entry)
		*entry = entries->items[--entries->count];
}

static struct inode *new_inode(bool is_directory)
{
	struct inode *inode = take(sizeof(*inode));
	inode->is_directory = is_directory;
	return inode;
}

static bool is_ours(const char *path)
{
	return disk.top && !strncmp(path, disk.root, disk.root_len) &&
	       (path[disk.root_len] == '/' || path[disk.root_len] == '\0');
}

/* The directory that a path is in, and its name there (in the arena); NULL if the directory is not there. The root itself is
 * "". */
static struct inode *find_parent(const char *path, const char **ret_name)
{
	struct inode *directory = disk.top;
	const char *at = path + disk.root_len;
	for (;;) {
		at += strspn(at, "/");
		size_t len = strcspn(at, "/");
		const char *name = arena_strndup(&disk.arena, at, len);
		if (!name)
			FAIL_LINE();
		at += len;
		if (at[strspn(at, "/")] == '\0') {
			*ret_name = name;
			return directory;
		}
		struct entry *entry = find_entry(&directory->now, name);
		if (!entry || !entry->inode->is_directory)
			return NULL;
		directory = entry->inode;
	}
}

static struct inode *find_inode(struct inode *directory, const char *name)
{
	if (*name == '\0')
		return disk.top;
	struct entry *entry = directory ? find_entry(&directory->now, name) : NULL;
	return entry ? entry->inode : NULL;
}

/* ---- changes to files ---- */

static void add_change(struct inode *inode, uint64_t offset, const void *data, size_t len)
{
	inode->changes = grow(inode->changes, &inode->change_capacity, inode->change_count, sizeof(*inode->changes));
	uint8_t *copy = NULL;
	if (data) {
		copy = take(len + 1);
		memcpy(copy, data, len);
	}
	inode->changes[inode->change_count++] = (struct change){.offset = offset, .len = len, .data = copy};
}

static void set_size(struct inode *inode, size_t size)
{
	if (size > inode->capacity) {
		size_t capacity = size < 4096 ? 4096 : 2 * size;
		uint8_t *fresh = take(capacity);
		if (inode->size)
			memcpy(fresh, inode->data, inode->size);
		inode->data = fresh;
		inode->capacity = capacity;
	}
	if (size > inode->size)
		memset(inode->data + inode->size, 0, size - inode->size);
	inode->size = size;
}

static void apply_change(struct inode *inode, const struct change *change)
{
	if (!change->data) {
		set_size(inode, change->offset);
		return;
	}
	if (change->offset + change->len > inode->size)
		set_size(inode, change->offset + change->len);
	memcpy(inode->data + change->offset, change->data, change->len);
}

static void sync_file(struct inode *inode)
{
	for (size_t i = 0; i < inode->change_count; i++)
		apply_change(inode, &inode->changes[i]);
	inode->change_count = 0;
}

/* ---- changes to directories ---- */

static void apply_operation(struct operation *operation, bool durable)
{
	struct entries *from = durable ? &operation->from->durable : &operation->from->now;
	switch (operation->kind) {
	case OPERATION_ADD: set_entry(from, operation->from_name, operation->inode); break;
	case OPERATION_RENAME:
		remove_entry(from, operation->from_name);
		set_entry(durable ? &operation->to->durable : &operation->to->now, operation->to_name, operation->inode);
		break;
	default: remove_entry(from, operation->from_name);
	}
}

static void add_operation(struct operation operation)
{
	disk.operations = grow(disk.operations, &disk.operation_capacity, disk.operation_count, sizeof(*disk.operations));
	disk.operations[disk.operation_count++] = operation;
	if (operation.kind == OPERATION_ADD || operation.kind == OPERATION_RENAME)
		operation.inode->name = operation.to_name ? operation.to_name : operation.from_name;
	apply_operation(&operation, false);
}

static bool touches(const struct operation *operation, const struct inode *directory, const char *name)
{
	return (operation->from == directory && (!name || !strcmp(operation->from_name, name))) ||
	       (operation->to == directory && (!name || !strcmp(operation->to_name, name)));
}

/* Whether `later` may only happen when `earlier` has. */
static bool depends(const struct operation *later, const struct operation *earlier)
{
	if (touches(earlier, later->from, later->from_name) || (later->to && touches(earlier, later->to, later->to_name)))
		return true;
	return later->kind == OPERATION_RMDIR && touches(earlier, later->inode, NULL);
}

/* Makes the chosen operations durable, in their order. */
static void apply_chosen(void)
{
	size_t kept = 0;
	for (size_t i = 0; i < disk.operation_count; i++) {
		if (disk.operations[i].is_chosen)
			apply_operation(&disk.operations[i], true);
		else
			disk.operations[kept++] = disk.operations[i];
	}
	disk.operation_count = kept;
}

static void sync_directory(struct inode *directory)
{
	for (size_t i = disk.operation_count; i-- > 0;) {
		struct operation *operation = &disk.operations[i];
		operation->is_chosen = touches(operation, directory, NULL);
		for (size_t k = i + 1; !operation->is_chosen && k < disk.operation_count; k++)
			operation->is_chosen = disk.operations[k].is_chosen && depends(&disk.operations[k], operation);
	}
	apply_chosen();
}

/* ---- the gate that each call passes ---- */

/* Queries read with several threads, also while one of them sets a damaged block aside. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* Before a changing call: false if it fails with EIO; else leave() must follow. */
static bool enter(void)
{
	if (!disk.is_dead && disk.hook && !disk.in_hook) {
		disk.in_hook = true;
		disk.hook(disk.hook_context);
		disk.in_hook = false;
	}
	if (!disk.is_dead && ++disk.calls == disk.death_at) {
		if (random_below(&disk.random, 2))
			disk.is_dead = true;
		else
			disk.is_dying = true; /* behind it */
	}
	if (disk.is_dead)
		errno = EIO;
	else
		pthread_mutex_lock(&lock);
	return !disk.is_dead;
}

static int leave(int r)
{
	int saved_errno = errno;
	pthread_mutex_unlock(&lock);
	errno = saved_errno;
	if (!disk.is_dying)
		return r;
	disk.is_dying = false;
	disk.is_dead = true;
	errno = EIO;
	return -1;
}

static struct inode *inode_of(int fd)
{
	return fd >= 0 && fd < FDS_MAX ? disk.fds[fd] : NULL;
}

static int track(int fd, struct inode *inode)
{
	if (fd >= FDS_MAX)
		FAIL_LINE();
	if (fd >= 0)
		disk.fds[fd] = inode;
	return fd;
}

static int open_to_read(const char *path, int flags)
{
	const char *name;
	pthread_mutex_lock(&lock);
	struct inode *parent = find_parent(path, &name), *inode = find_inode(parent, name);
	int fd = __real_open(path, flags);
	if (fd >= 0 && !inode)
		FAIL_LINE();
	track(fd, inode);
	pthread_mutex_unlock(&lock);
	return fd;
}

int __wrap_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, ...)
{
	va_list args;
	va_start(args, flags);
	mode_t mode = flags & O_CREAT ? va_arg(args, mode_t) : 0;
	va_end(args);
	if (!is_ours(path))
		return track(__real_open(path, flags, mode), NULL);
	if (!(flags & (O_CREAT | O_TRUNC)))
		return open_to_read(path, flags);
	if (!enter())
		return -1;
	const char *name;
	struct inode *parent = find_parent(path, &name), *inode = find_inode(parent, name);
	int fd = __real_open(path, flags, mode);
	if (fd < 0)
		return leave(fd);
	if (!inode) {
		inode = new_inode(false);
		if (!(flags & O_CREAT) || !parent)
			FAIL_LINE();
		add_operation((struct operation){.kind = OPERATION_ADD, .from = parent, .from_name = name, .inode = inode});
	} else if (flags & O_TRUNC) {
		add_change(inode, 0, NULL, 0);
	}
	track(fd, inode);
	if (leave(0) < 0) {
		__real_close(fd);
		track(fd, NULL);
		errno = EIO;
		return -1;
	}
	return fd;
}

int __wrap_openat(int dir, const char *path, int flags, ...);
int __wrap_openat(int dir, const char *path, int flags, ...)
{
	struct inode *directory = inode_of(dir);
	if (flags & (O_CREAT | O_TRUNC))
		FAIL_LINE();
	if (dir == AT_FDCWD && is_ours(path))
		return open_to_read(path, flags);
	return track(__real_openat(dir, path, flags), directory ? find_inode(directory, path) : NULL);
}

int __wrap_close(int fd);
int __wrap_close(int fd)
{
	track(fd, NULL);
	return __real_close(fd);
}

/* How much of a write gets through: all, or a part when the disk is full or the process dies in it. A kernel looks for room,
 * and whether it should go on, page by page. */
static size_t cut_write(uint64_t offset, size_t len, bool *ret_full)
{
	*ret_full = disk.full_at && ++disk.writes >= disk.full_at;
	if (*ret_full)
		disk.is_full = true;
	else if (!disk.is_dying || random_below(&disk.random, 2))
		return len;
	uint64_t end = (offset + random_below(&disk.random, (uint32_t)len + 1)) / PAGE * PAGE;
	return end > offset ? end - offset : 0;
}

static ssize_t write_at(int fd, const void *data, size_t len, off_t offset)
{
	struct inode *inode = inode_of(fd);
	bool full;
	if (!enter())
		return -1;
	size_t part = cut_write((uint64_t)offset, len, &full);
	/* The rest of a write that found the disk full finds it full again. */
	ssize_t n = part == 0 && full ? -1 : __real_pwrite(fd, data, part, offset);
	if (n > 0)
		add_change(inode, (uint64_t)offset, data, (size_t)n);
	if (full && n < 0)
		errno = ENOSPC;
	return leave(0) < 0 ? -1 : n;
}

ssize_t __wrap_pwrite(int fd, const void *data, size_t len, off_t offset);
ssize_t __wrap_pwrite(int fd, const void *data, size_t len, off_t offset)
{
	return inode_of(fd) ? write_at(fd, data, len, offset) : __real_pwrite(fd, data, len, offset);
}

ssize_t __wrap_write(int fd, const void *data, size_t len);
ssize_t __wrap_write(int fd, const void *data, size_t len)
{
	if (!inode_of(fd))
		return __real_write(fd, data, len);
	off_t offset = lseek(fd, 0, SEEK_CUR);
	ssize_t n = write_at(fd, data, len, offset);
	if (n > 0)
		lseek(fd, offset + n, SEEK_SET);
	return n;
}

int __wrap_ftruncate(int fd, off_t size);
int __wrap_ftruncate(int fd, off_t size)
{
	if (!inode_of(fd))
		return __real_ftruncate(fd, size);
	if (!enter())
		return -1;
	int r = __real_ftruncate(fd, size);
	if (r == 0)
		add_change(inode_of(fd), (uint64_t)size, NULL, 0);
	return leave(r);
}

static void note_torn(const struct inode *inode);
static void arrive(struct inode *inode, bool keep_sizes);

static int sync_inode(struct inode *inode)
{
	if (!enter())
		return -1;
	if (disk.failing_sync_at && ++disk.syncs == disk.failing_sync_at) {
		/* What got through before the error is on the disk, the rest never will be. A size is in the journal, which is
		 * written again. */
		note_torn(inode);
		arrive(inode, true);
		inode->is_unsure = true;
		disk.has_failed = true;
		errno = EIO;
		return leave(-1);
	}
	if (inode->is_directory)
		sync_directory(inode);
	else
		sync_file(inode);
	return leave(0);
}

int __wrap_fdatasync(int fd);
int __wrap_fdatasync(int fd)
{
	return inode_of(fd) ? sync_inode(inode_of(fd)) : __real_fdatasync(fd);
}

int __wrap_fsync(int fd);
int __wrap_fsync(int fd)
{
	return inode_of(fd) ? sync_inode(inode_of(fd)) : __real_fsync(fd);
}

int __wrap_rename(const char *from, const char *to);
int __wrap_rename(const char *from, const char *to)
{
	if (!is_ours(from))
		return __real_rename(from, to);
	if (!enter())
		return -1;
	struct operation operation = {.kind = OPERATION_RENAME};
	operation.from = find_parent(from, &operation.from_name);
	operation.to = find_parent(to, &operation.to_name);
	operation.inode = find_inode(operation.from, operation.from_name);
	int r = __real_rename(from, to);
	if (r == 0)
		add_operation(operation);
	return leave(r);
}

/* After a power loss the two names have files of their own; nobody writes to either. */
int __wrap_link(const char *from, const char *to);
int __wrap_link(const char *from, const char *to)
{
	const char *name;
	if (!is_ours(from))
		return __real_link(from, to);
	if (!enter())
		return -1;
	struct operation operation = {.kind = OPERATION_ADD};
	struct inode *parent = find_parent(from, &name);
	operation.inode = find_inode(parent, name);
	operation.from = find_parent(to, &operation.from_name);
	int r = __real_link(from, to);
	if (r == 0)
		add_operation(operation);
	return leave(r);
}

int __wrap_mkdir(const char *path, mode_t mode);
int __wrap_mkdir(const char *path, mode_t mode)
{
	if (!is_ours(path))
		return __real_mkdir(path, mode);
	if (!enter())
		return -1;
	struct operation operation = {.kind = OPERATION_ADD, .inode = new_inode(true)};
	operation.from = find_parent(path, &operation.from_name);
	int r = __real_mkdir(path, mode);
	if (r == 0)
		add_operation(operation);
	return leave(r);
}

static int remove_name(struct inode *parent, const char *name, int r, bool is_directory)
{
	if (r == 0)
		add_operation((struct operation){.kind = is_directory ? OPERATION_RMDIR : OPERATION_REMOVE,
						 .from = parent,
						 .from_name = name,
						 .inode = find_inode(parent, name)});
	return leave(r);
}

int __wrap_unlink(const char *path);
int __wrap_unlink(const char *path)
{
	const char *name;
	if (!is_ours(path))
		return __real_unlink(path);
	if (!enter())
		return -1;
	struct inode *parent = find_parent(path, &name);
	return remove_name(parent, name, __real_unlink(path), false);
}

int __wrap_unlinkat(int dir, const char *path, int flags);
int __wrap_unlinkat(int dir, const char *path, int flags)
{
	struct inode *parent = dir == AT_FDCWD ? NULL : inode_of(dir);
	const char *name;
	if (dir == AT_FDCWD ? !is_ours(path) : !parent)
		return __real_unlinkat(dir, path, flags);
	if (!enter())
		return -1;
	if (parent)
		name = arena_strndup(&disk.arena, path, strlen(path));
	else
		parent = find_parent(path, &name);
	return remove_name(parent, name, __real_unlinkat(dir, path, flags), flags & AT_REMOVEDIR);
}

/* ---- death and what is left ---- */

void disk_set_death(uint64_t nth, enum disk_death death)
{
	disk.death_at = nth ? disk.calls + nth : 0;
	disk.death = death;
}

void disk_die(enum disk_death death)
{
	disk.death = death;
	disk.is_dead = true;
}

bool disk_is_dead(void)
{
	return disk.is_dead;
}

/* What of a file's unsynced changes arrives. */
enum arrival {
	ARRIVED_NOTHING,
	ARRIVED_ALL,
	ARRIVED_SECTORS,
	ARRIVED_PREFIX,
	ARRIVAL_COUNT,
};

static void arrive_in_sectors(struct inode *inode, const struct change *change, uint32_t percent)
{
	uint64_t at = change->offset, end = change->offset + change->len;
	while (at < end) {
		uint64_t next = (at / SECTOR + 1) * SECTOR;
		if (next > end)
			next = end;
		struct change piece = {.offset = at, .len = next - at, .data = change->data + (at - change->offset)};
		if (random_below(&disk.random, 100) < percent)
			apply_change(inode, &piece);
		at = next;
	}
}

/* The unsynced changes of a file, or a part of them, get to the disk; the rest is gone, or only what is data of it. */
static void arrive(struct inode *inode, bool keep_sizes)
{
	size_t kept = 0;
	enum arrival arrival = (enum arrival)random_below(&disk.random, ARRIVAL_COUNT);
	uint32_t percent = random_below(&disk.random, 101);
	size_t prefix = random_below(&disk.random, (uint32_t)inode->change_count + 1), size = inode->size;
	for (size_t i = 0; i < inode->change_count; i++) {
		const struct change *change = &inode->changes[i];
		if (change->data && change->offset + change->len > size)
			size = change->offset + change->len;
		if (keep_sizes && !change->data) {
			inode->changes[kept++] = *change;
			continue;
		}
		if (arrival == ARRIVED_NOTHING || (arrival == ARRIVED_PREFIX && i > prefix))
			continue;
		if (change->data && (arrival == ARRIVED_SECTORS || (arrival == ARRIVED_PREFIX && i == prefix)))
			arrive_in_sectors(inode, change, percent);
		else if (arrival != ARRIVED_SECTORS || random_below(&disk.random, 2))
			apply_change(inode, change);
	}
	/* The size arrived without the data. */
	if (arrival != ARRIVED_ALL && size > inode->size && random_below(&disk.random, 3) == 0)
		set_size(inode, size);
	inode->change_count = kept;
}

static void note_torn(const struct inode *inode)
{
	if (inode->change_count == 0 || disk.torn_count == TORN_MAX)
		return;
	struct torn *torn = &disk.torn[disk.torn_count++];
	torn->from = UINT64_MAX;
	snprintf(torn->name, sizeof(torn->name), "%s", inode->name);
	for (size_t i = 0; i < inode->change_count; i++)
		if (inode->changes[i].offset < torn->from)
			torn->from = inode->changes[i].offset;
}

static void lose_power_of_directories(void)
{
	static const uint32_t chances[] = {0, 10, 50, 90, 100};
	uint32_t percent = chances[random_below(&disk.random, 5)];
	for (size_t i = 0; i < disk.operation_count; i++) {
		struct operation *operation = &disk.operations[i];
		operation->is_chosen = random_below(&disk.random, 100) < percent;
		for (size_t k = 0; operation->is_chosen && k < i; k++)
			operation->is_chosen = disk.operations[k].is_chosen || !depends(operation, &disk.operations[k]);
	}
	apply_chosen();
	disk.operation_count = 0;
}

/* Writes the durable tree out, and takes it for the present one. */
static void write_tree(struct inode *directory, char *path, size_t len)
{
	directory->now.count = 0;
	for (size_t i = 0; i < directory->durable.count; i++) {
		const struct entry *entry = &directory->durable.items[i];
		struct inode *inode = entry->inode;
		set_entry(&directory->now, entry->name, inode);
		size_t at = len + (size_t)snprintf(path + len, PATH_MAX - len, "/%s", entry->name);
		if (inode->is_directory) {
			if (__real_mkdir(path, 0750) < 0)
				FAIL_LINE();
			write_tree(inode, path, at);
			continue;
		}
		note_torn(inode);
		arrive(inode, false);
		inode->is_unsure = false;
		int fd = __real_open(path, O_WRONLY | O_CREAT | O_EXCL, 0640);
		if (fd < 0 || (inode->size && __real_write(fd, inode->data, inode->size) != (ssize_t)inode->size))
			FAIL_LINE();
		__real_close(fd);
	}
	path[len] = '\0';
}

/* What a failed sync left in memory only is evicted. */
static void evict(struct inode *directory, char *path, size_t len)
{
	for (size_t i = 0; i < directory->now.count; i++) {
		struct inode *inode = directory->now.items[i].inode;
		size_t at = len + (size_t)snprintf(path + len, PATH_MAX - len, "/%s", directory->now.items[i].name);
		if (inode->is_directory) {
			evict(inode, path, at);
		} else if (inode->is_unsure) {
			inode->is_unsure = false;
			sync_file(inode);
			int fd = __real_open(path, O_WRONLY | O_TRUNC);
			if (fd < 0 || (inode->size && __real_write(fd, inode->data, inode->size) != (ssize_t)inode->size))
				FAIL_LINE();
			__real_close(fd);
		}
	}
	path[len] = '\0';
}

static void clear_root(void)
{
	struct inode *top = disk.top;
	char path[PATH_MAX];
	struct dirent *entry;
	disk.top = NULL; /* not seen */
	DIR *dir = opendir(disk.root);
	while (dir && (entry = readdir(dir))) {
		if (!strcmp(entry->d_name, ".") || !strcmp(entry->d_name, ".."))
			continue;
		if (io_join_path(path, sizeof(path), disk.root, entry->d_name) < 0 || io_remove_tree(path, NULL) < 0)
			FAIL_LINE();
	}
	if (!dir)
		FAIL_LINE();
	closedir(dir);
	disk.top = top;
}

void disk_restart(void)
{
	char path[PATH_MAX];
	for (size_t i = 0; i < FDS_MAX; i++)
		disk.fds[i] = NULL;
	if (disk.is_dead && disk.death == DISK_POWER_LOST) {
		clear_root();
		lose_power_of_directories();
		memcpy(path, disk.root, disk.root_len + 1);
		write_tree(disk.top, path, disk.root_len);
	} else {
		memcpy(path, disk.root, disk.root_len + 1);
		evict(disk.top, path, disk.root_len);
	}
	disk.is_dead = disk.is_dying = false;
	disk.death_at = 0;
}

void disk_reset(const char *root, uint64_t seed)
{
	arena_release(&disk.arena);
	memset(&disk, 0, sizeof(disk));
	arena_init(&disk.arena, MEMORY_MAX);
	random_init(&disk.random, seed);
	disk.root_len = strlen(root);
	if (disk.root_len >= sizeof(disk.root))
		FAIL_LINE();
	memcpy(disk.root, root, disk.root_len + 1);
	clear_root();
	disk.top = new_inode(true);
}

/* ---- the rest ---- */

uint64_t disk_calls(void)
{
	return disk.calls;
}

void disk_set_hook(void (*hook)(void *context), void *context)
{
	disk.hook = hook;
	disk.hook_context = context;
}

void disk_set_full(uint64_t nth)
{
	disk.full_at = nth;
	disk.writes = 0;
	disk.is_full = false;
}

bool disk_is_full(void)
{
	return disk.is_full;
}

void disk_set_failing_sync(uint64_t nth)
{
	disk.failing_sync_at = nth;
	disk.syncs = 0;
}

bool disk_has_failed(void)
{
	return disk.has_failed;
}

bool disk_was_torn(const char *name, uint64_t offset)
{
	for (size_t i = 0; i < disk.torn_count; i++)
		if (!strcmp(disk.torn[i].name, name) && offset >= disk.torn[i].from)
			return true;
	return false;
}

/* The n-th byte of all files of a directory in their order; counts *left down. */
static struct inode *find_byte(struct inode *directory, uint64_t *left, char *path, size_t size)
{
	size_t len = strlen(path);
	for (size_t i = 0; i < directory->now.count; i++) {
		const struct entry *entry = &directory->now.items[i];
		snprintf(path + len, size - len, "/%s", entry->name);
		if (entry->inode->is_directory) {
			struct inode *found = find_byte(entry->inode, left, path, size);
			if (found)
				return found;
		} else if (*left < entry->inode->size) {
			return entry->inode;
		} else {
			*left -= entry->inode->size;
		}
	}
	path[len] = '\0';
	return NULL;
}

bool disk_flip_bit(const char *directory, char *path, size_t size)
{
	char full[PATH_MAX];
	struct entry *entry = find_entry(&disk.top->now, directory);
	uint64_t total = UINT64_MAX;
	if (!entry)
		return false;
	snprintf(path, size, "%s", directory);
	find_byte(entry->inode, &total, path, size);
	total = UINT64_MAX - total;
	if (total == 0)
		return false;
	uint64_t at = random_next(&disk.random) % total;
	struct inode *inode = find_byte(entry->inode, &at, path, size);
	inode->data[at] ^= (uint8_t)(1u << random_below(&disk.random, 8));
	if (io_join_path(full, sizeof(full), disk.root, path) < 0)
		FAIL_LINE();
	int fd = __real_open(full, O_WRONLY);
	if (fd < 0 || __real_pwrite(fd, inode->data + at, 1, (off_t)at) != 1)
		FAIL_LINE();
	__real_close(fd);
	return true;
}

/* ---- the shadow against the real tree ---- */

static bool differs(const char *path, const char *how)
{
	snprintf(disk.difference, sizeof(disk.difference), "%s: %s", path, how);
	return true;
}

static bool file_differs(struct inode *inode, const char *path)
{
	struct inode copy = {0};
	if (inode->is_unsure)
		return false;
	set_size(&copy, inode->size);
	if (inode->size)
		memcpy(copy.data, inode->data, inode->size);
	for (size_t i = 0; i < inode->change_count; i++)
		apply_change(&copy, &inode->changes[i]);
	int fd = __real_open(path, O_RDONLY);
	uint8_t *real = take(copy.size + 1);
	if (fd < 0)
		return differs(path, "is not there");
	ssize_t n = read(fd, real, copy.size + 1);
	__real_close(fd);
	if (n != (ssize_t)copy.size)
		return differs(path, "has another size");
	return n && memcmp(real, copy.data, (size_t)n) ? differs(path, "has other bytes") : false;
}

static bool directory_differs(struct inode *directory, char *path, size_t len)
{
	size_t count = 0;
	DIR *dir = opendir(path);
	while (dir && readdir(dir))
		count++;
	if (dir)
		closedir(dir);
	if (count != directory->now.count + 2)
		return differs(path, "has other entries");
	for (size_t i = 0; i < directory->now.count; i++) {
		const struct entry *entry = &directory->now.items[i];
		size_t at = len + (size_t)snprintf(path + len, PATH_MAX - len, "/%s", entry->name);
		if (entry->inode->is_directory ? directory_differs(entry->inode, path, at) : file_differs(entry->inode, path))
			return true;
	}
	path[len] = '\0';
	return false;
}

const char *disk_check(void)
{
	char path[PATH_MAX];
	memcpy(path, disk.root, disk.root_len + 1);
	return directory_differs(disk.top, path, disk.root_len) ? disk.difference : NULL;
}
