/* SPDX-License-Identifier: Apache-2.0 */
#include "base/memory_limit.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/io.h"
#include "base/limits.h"
#include "base/text.h"

#define TEXT_MAX 8192 /* of a file in /proc */

static uint64_t least_of(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/* "MemTotal:       24683520 kB" */
static uint64_t machine_bytes(const char *root)
{
	char path[PATH_MAX], text[TEXT_MAX];
	unsigned long long kilobytes;
	snprintf(path, sizeof(path), "%s/proc/meminfo", root);
	io_read_text(path, text, sizeof(text));
	const char *line = strstr(text, "MemTotal:");
	return line && sscanf(line, "MemTotal: %llu kB", &kilobytes) == 1 && kilobytes < UINT64_MAX / KIB ? kilobytes * KIB
													  : UINT64_MAX;
}

/* "max", or a number; version 1 says none by a very large one. */
static uint64_t limit_in_file(const char *path)
{
	char text[64];
	uint64_t bytes;
	io_read_text(path, text, sizeof(text));
	text[strcspn(text, "\n")] = '\0';
	return text_parse_u64(text, &bytes, NULL) == 0 && bytes > 0 ? bytes : UINT64_MAX;
}

/* Of a group and those that it is in, up to the root of the mount. */
static uint64_t limit_of_group(const char *root, const char *mount, const char *group, const char *file)
{
	char at[PATH_MAX], path[PATH_MAX + 64];
	uint64_t limit = UINT64_MAX;
	snprintf(at, sizeof(at), "%s", group);
	for (;;) {
		snprintf(path, sizeof(path), "%s/sys/fs/cgroup%s%s/%s", root, mount, strcmp(at, "/") == 0 ? "" : at, file);
		limit = least_of(limit, limit_in_file(path));
		char *slash = strrchr(at, '/');
		if (!slash)
			return limit;
		*slash = '\0';
	}
}

/* A line of /proc/self/cgroup: "0::/system.slice/wick.service", "4:memory:/docker/0123". */
static uint64_t limit_of_line(const char *root, char *line)
{
	char *controllers = strchr(line, ':'), *group = controllers ? strchr(controllers + 1, ':') : NULL;
	if (!group)
		return UINT64_MAX;
	*group++ = '\0';
	controllers++;
	if (*controllers == '\0')
		return limit_of_group(root, "", group, "memory.max");
	for (char *save, *one = strtok_r(controllers, ",", &save); one; one = strtok_r(NULL, ",", &save))
		if (strcmp(one, "memory") == 0)
			return limit_of_group(root, "/memory", group, "memory.limit_in_bytes");
	return UINT64_MAX;
}

uint64_t memory_limit_bytes(const char *root)
{
	char path[PATH_MAX], text[TEXT_MAX];
	uint64_t limit = machine_bytes(root);
	snprintf(path, sizeof(path), "%s/proc/self/cgroup", root);
	io_read_text(path, text, sizeof(text));
	for (char *save, *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save))
		limit = least_of(limit, limit_of_line(root, line));
	return limit;
}

uint64_t memory_share(uint64_t limit_bytes, unsigned divisor, uint64_t least, uint64_t most)
{
	uint64_t share = limit_bytes / divisor;
	return share < least ? least : share > most ? most : share;
}
