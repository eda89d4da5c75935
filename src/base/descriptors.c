/* SPDX-License-Identifier: Apache-2.0 */
#include "base/descriptors.h"

#include <dirent.h>
#include <errno.h>
#include <sys/resource.h>
#include <sys/stat.h>

#define OPEN_PATH "/proc/self/fd"

void descriptors_raise(void)
{
	struct rlimit limit;
	if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
		return;
	rlim_t wanted = limit.rlim_max < DESCRIPTORS_RAISED_MAX ? limit.rlim_max : DESCRIPTORS_RAISED_MAX;
	if (limit.rlim_cur >= wanted)
		return;
	limit.rlim_cur = wanted;
	setrlimit(RLIMIT_NOFILE, &limit);
}

uint64_t descriptors_max(void)
{
	struct rlimit limit;
	return getrlimit(RLIMIT_NOFILE, &limit) < 0 || limit.rlim_cur == RLIM_INFINITY ? UINT64_MAX : limit.rlim_cur;
}

uint64_t descriptors_open(void)
{
	/* Since Linux 6.2 the size of the directory is their number. */
	struct stat status;
	if (stat(OPEN_PATH, &status) == 0 && status.st_size > 0)
		return (uint64_t)status.st_size;
	DIR *directory = opendir(OPEN_PATH);
	if (!directory)
		return errno == EMFILE ? descriptors_max() : 0;
	uint64_t count = 0;
	for (const struct dirent *entry; (entry = readdir(directory));)
		count += entry->d_name[0] != '.';
	closedir(directory);
	return count ? count - 1 : 0; /* the directory itself */
}
