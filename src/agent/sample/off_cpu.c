// SPDX-License-Identifier: Apache-2.0
#include "agent/sample/off_cpu.h"

#include <dirent.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/proc.h"
#include "base/alloc.h"
#include "base/cleanup.h"

void off_cpu_release(struct off_cpu *off_cpu)
{
	map64_release(&off_cpu->by_tid);
	off_cpu->begins = mem_free(off_cpu->begins);
	off_cpu->count = off_cpu->capacity = 0;
}

int off_cpu_begin(struct off_cpu *off_cpu, const struct abi_sample *sample)
{
	uint64_t at;

	if (map64_get(&off_cpu->by_tid, sample->tid, &at)) {
		off_cpu->begins[at] = *sample;
		return 0;
	}
	int r = array_reserve(&off_cpu->begins, &off_cpu->capacity, off_cpu->count + 1, OFF_CPU_MAX);
	if (r == -E2BIG) {
		off_cpu->dropped++;
		return 0;
	}
	if (r == 0)
		r = map64_put(&off_cpu->by_tid, sample->tid, off_cpu->count);
	if (r < 0)
		return r;
	off_cpu->begins[off_cpu->count++] = *sample;
	return 0;
}

bool off_cpu_end(struct off_cpu *off_cpu, pid_t tid, struct abi_sample *ret_begin)
{
	uint64_t at;

	if (!map64_get(&off_cpu->by_tid, (uint32_t)tid, &at))
		return false;
	*ret_begin = off_cpu->begins[at];
	map64_remove(&off_cpu->by_tid, (uint32_t)tid);
	if (at != --off_cpu->count) { /* the last one moves into the gap; its key is there, so nothing is allocated */
		off_cpu->begins[at] = off_cpu->begins[off_cpu->count];
		map64_put(&off_cpu->by_tid, off_cpu->begins[at].tid, at);
	}
	return true;
}

int64_t off_cpu_value(const struct abi_sample *begin, uint64_t ns)
{
	double value = (double)ns * 0x1p32 / (double)begin->value;

	if (begin->value >= ABI_CHANCE_ALWAYS || begin->value == 0)
		return (int64_t)ns;
	return value < 0x1p62 ? llround(value) : INT64_C(1) << 62;
}

static int keep_chain(struct chains *chains, uint64_t hash)
{
	const uint64_t *frames;
	size_t count;

	return hash && chains_find(chains, hash, &frames, &count) ? chains_put(chains, hash, frames, count) : 0;
}

int off_cpu_keep_chains(const struct off_cpu *off_cpu, struct chains *chains)
{
	for (size_t i = 0; i < off_cpu->count; i++) {
		int r = keep_chain(chains, off_cpu->begins[i].user_chain);
		if (r == 0)
			r = keep_chain(chains, off_cpu->begins[i].kernel_chain);
		if (r < 0)
			return r;
	}
	return 0;
}

static bool is_asleep(const struct proc_stat *stat)
{
	/* A child of ours is one that waits for its start: wick record -- CMD. */
	return strchr("SDTt", stat->state) && stat->parent != getpid();
}

int off_cpu_find_sleepers(pid_t pid, int (*found)(void *context, pid_t tid, const char *comm), void *context)
{
	_cleanup_(dir_closep) DIR *threads = proc_open_threads(pid);
	struct proc_stat stat;
	int r = 0;

	for (pid_t tid; r == 0 && (tid = proc_next(threads)) > 0;)
		if (proc_read_stat(pid, tid, &stat) && is_asleep(&stat))
			r = found(context, tid, stat.name);
	return r;
}
