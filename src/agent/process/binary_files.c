// SPDX-License-Identifier: Apache-2.0
/*
 * Which file a mapping maps. The kernel says the path and the build-id, or path, device and inode; neither says what is in the
 * file. A build-id stays when a tool rewrites the file or when a build system gives it to all builds, and an inode's number is
 * given to the next file. So each mapping is looked at once, before its unwind table is chosen, through the link that the
 * kernel has for it: that leads to the very file, whatever lies at its path by now.
 *
 * Rejected: reading device and inode from events (the kernel gives either them or the build-id), and looking at the path alone,
 * which is cheaper where many processes run one program, and wrong for all that run what was there before.
 */
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "agent/cost.h"
#include "agent/process/binary.h"
#include "agent/unwind/unwind_tables.h"
#include "base/alloc.h"
#include "base/text.h"
#include "base/time.h"

#define FILES_MAX	 (1u << 20)
#define LOOKS_PER_SECOND 256u /* some 3 us each */

int binary_files_init(struct binaries *binaries)
{
	int r = array_reserve(&binaries->files, &binaries->file_capacity, 1, FILES_MAX);
	if (r < 0)
		return r;
	binaries->files[0] = (struct binary_file){0};
	binaries->file_count = 1;
	return 0;
}

void binary_files_forget(struct binaries *binaries, struct binary *binary, bool all)
{
	uint32_t *at = &binary->files;
	while (*at) {
		uint32_t id = *at;
		struct binary_file *file = &binaries->files[id];
		if (file->marked && !all) {
			at = &file->next;
			continue;
		}
		if (file->has_slot && binaries->tables)
			unwind_tables_release(binaries->tables, file->slot);
		*at = file->next;
		*file = (struct binary_file){.next = binaries->free_file};
		binaries->free_file = id;
		binaries->files_used--;
	}
}

static int new_file(struct binaries *binaries, uint32_t *ret)
{
	uint32_t id = binaries->free_file;
	if (id) {
		binaries->free_file = binaries->files[id].next;
	} else {
		int r = array_reserve(&binaries->files, &binaries->file_capacity, binaries->file_count + 1, FILES_MAX);
		if (r < 0)
			return r;
		id = (uint32_t)binaries->file_count++;
	}
	binaries->files_used++;
	*ret = id;
	return 0;
}

/* The binary's file of that key, which becomes the first, as the one that was seen last. */
static int find_file(struct binaries *binaries, uint32_t binary, const struct contents_file *content, uint32_t *ret)
{
	uint32_t *first = &binaries->items[binary].files, *at = first, id;
	while (*at && strcmp(binaries->files[*at].content.key, content->key) != 0)
		at = &binaries->files[*at].next;
	id = *at;
	if (id) {
		*at = binaries->files[id].next;
	} else {
		int r = new_file(binaries, &id);
		if (r < 0)
			return r;
		binaries->files[id] = (struct binary_file){.content = *content, .binary = binary, .used = true};
	}
	binaries->files[id].next = *first;
	*first = id;
	*ret = id;
	return 0;
}

static bool may_look(struct binaries *binaries)
{
	int64_t now_ns = time_monotonic_ns();
	if (now_ns - binaries->looked_ns >= NS_PER_S) {
		binaries->looked_ns = now_ns;
		binaries->looks_left = LOOKS_PER_SECOND;
	}
	if (!binaries->looks_left)
		return false;
	binaries->looks_left--;
	return true;
}

/* Whether a link leads to a file of that name; in which directory depends on who looks, where the process has another root. */
static bool has_name(const char *link, const char *path)
{
	static const char deleted[] = " (deleted)";
	char target[PATH_MAX];
	ssize_t len = readlink(link, target, sizeof(target) - 1);
	if (len < 0)
		return false;
	target[len] = 0;
	if (text_ends_with(target, deleted) && !text_ends_with(path, deleted))
		target[len - (ssize_t)strlen(deleted)] = 0;
	const char *name = strrchr(path, '/'), *found = strrchr(target, '/');
	return strcmp(name ? name : path, found ? found : target) == 0;
}

/* What is mapped there now may be another file, as large, than what the event told of: plugins take each other's place within
 * milliseconds. It is recognized by its build-id, or else its name. */
static int look(struct binaries *binaries, const struct binary *binary, pid_t pid, const struct process_mapping *mapping,
		struct contents_file *ret)
{
	char path[64], found[BUILD_ID_HEX_MAX];
	const char *build_id = binary->build_id && binary->build_id[0] ? binary->build_id : NULL;
	snprintf(path, sizeof(path), "/proc/%d/map_files/%" PRIx64 "-%" PRIx64, (int)pid, mapping->start, mapping->end);
	int r = build_id || has_name(path, binary->path) ? contents_of_path(&binaries->contents, path, build_id, ret) : -ESTALE;
	if (r == 0 || r == -ENOEXEC || r == -ENOMEM)
		return r;
	_cleanup_(fd_closep) int fd = binary_open(binary, pid, mapping, found);
	return fd < 0 ? fd : contents_of_fd(&binaries->contents, fd, build_id, ret);
}

/* Sets the content: its key is "" where nobody knows, or where it would be a guess. Positive if that may be known later. */
static int identify(struct binaries *binaries, const struct binary *binary, pid_t pid, const struct process_mapping *mapping,
		    struct contents_file *ret)
{
	*ret = (struct contents_file){0};
	if (binary->kind != BINARY_FILE && binary->kind != BINARY_MEMFD)
		return 0;
	enum agent_cost before = cost_enter(binaries->meter, AGENT_COST_TABLES);
	int r = look(binaries, binary, pid, mapping, ret);
	cost_enter(binaries->meter, before);
	if (r == 0 || r == -ENOMEM)
		return r;
	if (binary->build_id)
		contents_of_build_id(&binaries->contents, binary->build_id, ret);
	return r == -EAGAIN;
}

/* Seen as something else once already: then it is never assumed to be what it was the last time. */
static bool is_ambiguous(const struct binaries *binaries, const struct binary *binary)
{
	struct contents_file only;
	return binaries->files[binary->files].next ||
	       (binary->build_id && contents_of_build_id(&binaries->contents, binary->build_id, &only) > 1);
}

int binary_identify(struct binaries *binaries, pid_t pid, struct process_mapping *mapping)
{
	const struct binary *binary = binary_get(binaries, mapping->binary);
	uint32_t before = mapping->file, file = 0;
	struct contents_file content;
	if (before && !mapping->is_assumed)
		return 0;
	bool is_assumed = !may_look(binaries) && binary->files && !is_ambiguous(binaries, binary);
	if (is_assumed && before)
		return 0;
	if (is_assumed) {
		file = binary->files;
	} else {
		int known = identify(binaries, binary, pid, mapping, &content);
		int r = known < 0 ? known : find_file(binaries, mapping->binary, &content, &file);
		if (r < 0)
			return r;
		is_assumed = known > 0;
	}
	mapping->file = file & INT32_MAX;
	mapping->is_assumed = is_assumed;
	return before && before != file;
}
