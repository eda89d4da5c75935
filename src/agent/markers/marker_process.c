/* SPDX-License-Identifier: Apache-2.0 */
/* Where the shared files of markers are, and who is who: all from /proc. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "agent/markers/marker_recorder_int.h"
#include "agent/proc.h"
#include "agent/process/thread_names.h"
#include "base/io.h"
#include "base/text.h"

int marker_process_open_file(pid_t pid)
{
	return thread_names_open_file(pid, O_RDWR);
}

bool marker_process_maps(pid_t pid, ino_t inode)
{
	unsigned long mapped;
	int r = thread_names_mapped_file(pid, &mapped);
	return r == 0 ? mapped == inode : r != -ENOENT;
}

uint64_t marker_process_thread_start(pid_t pid, pid_t tid)
{
	struct proc_stat stat;
	return proc_read_stat(pid, tid, &stat) ? stat.start_ticks : 0;
}

pid_t marker_process_own_pid(pid_t pid)
{
	pid_t own = proc_own_id(pid, 0);
	return own > 0 ? own : pid;
}

bool marker_process_may_differ(pid_t pid)
{
	return proc_own_id(pid, 0) != pid;
}

pid_t marker_process_outer_tid(pid_t pid, pid_t tid)
{
	_cleanup_(dir_closep) DIR *threads = proc_open_threads(pid);
	pid_t outer;
	do
		outer = proc_next(threads);
	while (outer > 0 && proc_own_id(pid, outer) != tid);
	return outer;
}

void marker_process_name(pid_t pid, char *out, size_t size)
{
	char path[64], target[4096];
	snprintf(path, sizeof(path), "/proc/%d/exe", (int)pid);
	ssize_t len = readlink(path, target, sizeof(target));
	out[0] = 0;
	if (len > 0) {
		struct bytes name = text_binary_name((struct bytes){(const uint8_t *)target, (size_t)len});
		snprintf(out, size, "%.*s", (int)name.len, (const char *)name.data);
		return;
	}
	snprintf(path, sizeof(path), "/proc/%d/comm", (int)pid);
	io_read_text(path, out, size);
	out[strcspn(out, "\n")] = 0;
}
