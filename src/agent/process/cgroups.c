// SPDX-License-Identifier: Apache-2.0
/*
 * The kernel turns an id into a path by itself: cgroup file systems can be opened by file handle, and since Linux 5.5 such a
 * handle is the 64-bit id (FILEID_KERNFS), so one open_by_handle_at() a new cgroup suffices where a walk over the tree would
 * cost a system call for each of thousands of cgroups. It needs CAP_DAC_READ_SEARCH.
 */
#include "agent/process/cgroups.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <string.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/limits.h"

#define HANDLE_KERNFS 0xfe /* FILEID_KERNFS of the kernel's exportfs.h */
#define KNOWN_MAX     16384u
#define PATHS_BYTES   (4 * MIB)

static bool is_on(const char *path, long magic)
{
	struct statfs status;
	return statfs(path, &status) == 0 && (long)status.f_type == magic;
}

int cgroups_init(struct cgroups *cgroups, struct error *err)
{
	const char *root = "";

	*cgroups = (struct cgroups){.root_fd = -1};
	if (is_on("/sys/fs/cgroup", CGROUP2_SUPER_MAGIC)) {
		root = "/sys/fs/cgroup";
	} else if (is_on("/sys/fs/cgroup/memory", CGROUP_SUPER_MAGIC)) {
		root = "/sys/fs/cgroup/memory";
		cgroups->v1 = true;
	} else if (is_on("/sys/fs/cgroup/unified", CGROUP2_SUPER_MAGIC)) {
		root = "/sys/fs/cgroup/unified";
	}
	snprintf(cgroups->root, sizeof(cgroups->root), "%s", root);
	if (root[0])
		cgroups->root_fd = open(root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return intern_init(&cgroups->paths, PATHS_BYTES) < 0 ? error_nomem(err) : 0;
}

void cgroups_release(struct cgroups *cgroups)
{
	fd_closep(&cgroups->root_fd);
	map64_release(&cgroups->known);
	intern_release(&cgroups->paths);
}

/* Writes the path below the root, "" if the cgroup is gone or may not be opened. */
static void look_up(const struct cgroups *cgroups, uint64_t id, char *out, size_t size)
{
	union {
		struct file_handle handle;
		char room[sizeof(struct file_handle) + sizeof(uint64_t)];
	} wanted = {0};
	char link[64], target[4096];

	out[0] = 0;
	wanted.handle.handle_bytes = sizeof(id);
	wanted.handle.handle_type = HANDLE_KERNFS;
	memcpy(wanted.handle.f_handle, &id, sizeof(id));
	_cleanup_(fd_closep) int fd = open_by_handle_at(cgroups->root_fd, &wanted.handle, O_PATH | O_CLOEXEC);
	if (fd < 0)
		return;
	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	ssize_t n = readlink(link, target, sizeof(target) - 1);
	size_t skip = strlen(cgroups->root);
	if (n < (ssize_t)skip || strncmp(target, cgroups->root, skip) != 0)
		return;
	target[n] = 0;
	snprintf(out, size, "%s", target[skip] ? target + skip : "/");
}

const char *cgroups_path(struct cgroups *cgroups, uint64_t id)
{
	char path[4096];
	uint64_t value;
	uint32_t text;

	if (map64_get(&cgroups->known, id, &value))
		return intern_string(&cgroups->paths, (uint32_t)value);
	if (cgroups->root_fd < 0 || !id)
		return "";
	if (cgroups->known.count >= KNOWN_MAX || cgroups->paths.arena.used_bytes > PATHS_BYTES / 2) {
		map64_release(&cgroups->known);
		intern_release(&cgroups->paths);
		if (intern_init(&cgroups->paths, PATHS_BYTES) < 0)
			return "";
	}
	look_up(cgroups, id, path, sizeof(path));
	if (intern_add_string(&cgroups->paths, path, &text) < 0 || map64_put(&cgroups->known, id, text) < 0)
		return "";
	return intern_string(&cgroups->paths, text);
}
