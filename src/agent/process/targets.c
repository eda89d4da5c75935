// SPDX-License-Identifier: Apache-2.0
#include "agent/process/targets.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/proc.h"
#include "agent/process/cgroups.h"
#include "agent/process/context.h"
#include "base/alloc.h"
#include "base/cleanup.h"

#define DEPTH_MAX	   32 /* of control groups */
#define PROCESSES_READ_MAX (1u << 20)
#define PREFIX_LEAST	   4
#define PATH_BYTES	   4096

/* ---- processes ---- */

void target_pids_release(struct target_pids *pids)
{
	mem_free(pids->items);
	*pids = (struct target_pids){0};
}

static bool has_pid(const struct target_pids *pids, pid_t pid)
{
	for (size_t i = 0; i < pids->count; i++)
		if (pids->items[i] == pid)
			return true;
	return false;
}

int target_pids_add(struct target_pids *pids, pid_t pid, struct error *err)
{
	if (has_pid(pids, pid))
		return 0;
	int r = array_reserve(&pids->items, &pids->capacity, pids->count + 1, TARGET_PIDS_MAX);
	if (r == -ENOMEM)
		return error_nomem(err);
	if (r < 0)
		return error_set(err, -E2BIG, "more than %u processes are too many to follow one by one; record all with -a",
				 TARGET_PIDS_MAX);
	pids->items[pids->count++] = pid;
	return 0;
}

bool target_process_lives(pid_t pid)
{
	struct proc_stat stat;
	/* A leader that has ended before its threads is a zombie, too. */
	return proc_read_stat(pid, 0, &stat) && ((stat.state != 'Z' && stat.state != 'X') || stat.threads > 1);
}

struct family {
	pid_t pid, parent;
};

static int read_families(struct family **ret, size_t *ret_count, struct error *err)
{
	_cleanup_(mem_freep) struct family *items = NULL;
	size_t count = 0, capacity = 0;
	_cleanup_(dir_closep) DIR *processes = proc_open_processes();
	struct family family;
	int r = processes ? 0 : error_set_errno(err, -errno, "cannot read /proc");

	while (r == 0 && (family.pid = proc_next(processes)) > 0) {
		struct proc_stat stat;
		if (!proc_read_stat(family.pid, 0, &stat))
			continue;
		family.parent = stat.parent;
		if (array_reserve(&items, &capacity, count + 1, PROCESSES_READ_MAX) < 0)
			r = error_nomem(err);
		else
			items[count++] = family;
	}
	if (r < 0)
		return r;
	*ret = TAKE(items);
	*ret_count = count;
	return 0;
}

int target_pids_add_children(struct target_pids *pids, size_t *ret_added, struct error *err)
{
	_cleanup_(mem_freep) struct family *families = NULL;
	size_t count = 0, before = pids->count;
	int r = read_families(&families, &count, err);

	/* The list grows under the loop: children of children come behind. */
	for (size_t i = 0; i < pids->count && r == 0; i++) {
		for (size_t j = 0; j < count && r == 0; j++)
			if (families[j].parent == pids->items[i] && families[j].pid != getpid())
				r = target_pids_add(pids, families[j].pid, err);
	}
	*ret_added = pids->count - before;
	return r;
}

/* ---- control groups ---- */

void target_cgroups_release(struct target_cgroups *cgroups)
{
	for (size_t i = 0; i < cgroups->count; i++)
		mem_free(cgroups->paths[i]);
	mem_free(cgroups->paths);
	*cgroups = (struct target_cgroups){0};
}

static int add_path(struct target_cgroups *cgroups, const char *path)
{
	char *copy = mem_strdup(path);
	if (!copy || array_reserve(&cgroups->paths, &cgroups->capacity, cgroups->count + 1, TARGET_CGROUPS_MAX) < 0) {
		mem_free(copy);
		return -ENOMEM;
	}
	cgroups->paths[cgroups->count++] = copy;
	return 0;
}

typedef int found_function(void *context, uint64_t id, const char *path);

/* path has room for PATH_BYTES; it is as it was afterwards. */
static int walk(char *path, unsigned depth, found_function *found, void *context)
{
	struct stat info;
	struct dirent *entry;
	size_t len = strlen(path);

	if (lstat(path, &info) < 0 || !S_ISDIR(info.st_mode))
		return 0; /* gone meanwhile */
	int r = found(context, info.st_ino, path);
	_cleanup_(dir_closep) DIR *directory = r == 0 && depth < DEPTH_MAX ? opendir(path) : NULL;
	while (directory && r == 0 && (entry = readdir(directory))) {
		if (entry->d_type != DT_DIR || entry->d_name[0] == '.' || len + strlen(entry->d_name) + 2 > PATH_BYTES)
			continue;
		snprintf(path + len, PATH_BYTES - len, "/%s", entry->d_name);
		r = walk(path, depth + 1, found, context);
		path[len] = 0;
	}
	return r;
}

int target_cgroups_each(char *const *paths, size_t count, found_function *found, void *context)
{
	char path[PATH_BYTES];
	int r = 0;

	for (size_t i = 0; i < count && r == 0; i++) {
		if (snprintf(path, sizeof(path), "%s", paths[i]) < (int)sizeof(path))
			r = walk(path, 0, found, context);
	}
	return r;
}

struct search {
	enum target_kind kind;
	const char *name;
	size_t root_len;
	bool by_directory; /* containers are any groups whose directory has the name: what runc makes of its own accord */
	struct target_cgroups matches;
};

static bool is_prefix(const char *prefix, const char *text)
{
	return strlen(prefix) >= PREFIX_LEAST && strncmp(prefix, text, strlen(prefix)) == 0;
}

static bool is_unit(const char *unit, const char *name)
{
	size_t len = strlen(name);
	return strncmp(unit, name, len) == 0 && (!unit[len] || strcmp(unit + len, ".service") == 0);
}

static bool matches(const struct search *search, const char *path)
{
	struct context context;
	if (search->by_directory)
		return strcmp(strrchr(path, '/') + 1, search->name) == 0;
	context_of_cgroup(path, &context);
	if (search->kind == TARGET_UNIT)
		return is_unit(context.unit, search->name) || is_unit(context.user_unit, search->name);
	return (context.container_id[0] && is_prefix(search->name, context.container_id)) ||
	       (context.container_name[0] &&
		(is_prefix(search->name, context.container_name) || strcmp(search->name, context.container_name) == 0));
}

/* Everything below a match is a part of it. */
static bool is_below(const char *path, const char *above)
{
	size_t len = strlen(above);
	return strncmp(path, above, len) == 0 && path[len] == '/';
}

static int look_at(void *context, uint64_t id, const char *path)
{
	struct search *search = context;
	const char *below_root = path + search->root_len;

	(void)id;
	if (!*below_root || !matches(search, below_root))
		return 0;
	for (size_t i = 0; i < search->matches.count; i++)
		if (is_below(path, search->matches.paths[i]))
			return 0;
	return add_path(&search->matches, path);
}

/* Paths are made by whoever may make control groups, and messages go to terminals. */
static void make_printable(char *text)
{
	for (; *text; text++)
		if ((unsigned char)*text < ' ' || (unsigned char)*text >= 127)
			*text = '?';
}

static int take_only_match(struct target_cgroups *cgroups, struct search *search, const char *root, struct error *err)
{
	const char *what = search->kind == TARGET_UNIT ? "unit" : "container";
	const struct target_cgroups *found = &search->matches;

	if (found->count == 0)
		return error_set(err, -ENOENT, "no cgroup below %s belongs to a %s '%.100s'; is it running?", root, what,
				 search->name);
	for (size_t i = 0; found->count > 1 && i < found->count; i++)
		make_printable(found->paths[i]);
	if (found->count > 1)
		return error_set(
			err, -ENOTUNIQ, "'%.100s' matches %zu %ss: %.300s, %.300s%s; give more of its name, or use --cgroup",
			search->name, found->count, what, found->paths[0], found->paths[1], found->count > 2 ? " ..." : "");
	return add_path(cgroups, found->paths[0]) < 0 ? error_nomem(err) : 0;
}

static bool is_directory(const char *path)
{
	struct stat info;
	return stat(path, &info) == 0 && S_ISDIR(info.st_mode);
}

/* The agent knows one hierarchy; a path in another one (of version 1) is the same path in that one. */
static int find_by_path(struct target_cgroups *cgroups, const char *root, const char *name, struct error *err)
{
	char path[PATH_BYTES];
	size_t root_len = strlen(root);
	bool in_root = strncmp(name, root, root_len) == 0 && (name[root_len] == '/' || !name[root_len]);
	int len = in_root ? snprintf(path, sizeof(path), "%s", name)
			  : snprintf(path, sizeof(path), "%s%s%s", root, name[0] == '/' ? "" : "/", name);

	while (len > 1 && len < (int)sizeof(path) && path[len - 1] == '/')
		path[--len] = 0;
	if (len >= (int)sizeof(path) || strstr(path, "/../") || !is_directory(path))
		return error_set(err, -ENOENT, "no cgroup %.300s below %s", name, root);
	return add_path(cgroups, path) < 0 ? error_nomem(err) : 0;
}

int target_cgroups_find(struct target_cgroups *cgroups, enum target_kind kind, const char *name, struct error *err)
{
	struct cgroups system;
	int r = cgroups_init(&system, err);
	if (r < 0)
		return r;
	struct search search = {.kind = kind, .name = name, .root_len = strlen(system.root)};
	char *root = system.root;
	if (!system.root[0]) {
		r = error_set(err, -ENOENT, "no cgroup hierarchy is mounted on /sys/fs/cgroup");
	} else if (kind == TARGET_CGROUP) {
		r = find_by_path(cgroups, system.root, name, err);
	} else if (!*name) {
		r = error_set(err, -EINVAL, "the name is empty");
	} else {
		r = target_cgroups_each(&root, 1, look_at, &search);
		search.by_directory = r == 0 && kind == TARGET_CONTAINER && !search.matches.count;
		if (search.by_directory)
			r = target_cgroups_each(&root, 1, look_at, &search);
		r = r < 0 ? error_nomem(err) : take_only_match(cgroups, &search, system.root, err);
	}
	target_cgroups_release(&search.matches);
	cgroups_release(&system);
	return r;
}

struct members {
	struct target_pids *pids;
	struct error *err;
};

static int add_members(void *context, uint64_t id, const char *path)
{
	struct members *members = context;
	char name[PATH_BYTES + 16];
	char *line = NULL;
	size_t room = 0;
	int r = 0;

	(void)id;
	snprintf(name, sizeof(name), "%s/cgroup.procs", path);
	_cleanup_(file_closep) FILE *file = fopen(name, "re");
	while (file && r == 0 && getline(&line, &room, file) > 0) {
		long pid = strtol(line, NULL, 10);
		if (pid > 0 && pid <= INT32_MAX) /* 0: of another pid namespace */
			r = target_pids_add(members->pids, (pid_t)pid, members->err);
	}
	free(line);
	return r;
}

int target_cgroups_add_pids(const struct target_cgroups *cgroups, struct target_pids *pids, struct error *err)
{
	struct members members = {pids, err};
	return target_cgroups_each(cgroups->paths, cgroups->count, add_members, &members);
}
