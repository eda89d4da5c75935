// SPDX-License-Identifier: Apache-2.0
#include "agent/sample/waits.h"

#include <dirent.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/proc.h"
#include "base/alloc.h"
#include "base/cleanup.h"

void waits_init(struct waits *waits)
{
	*waits = (struct waits){0};
	map64_init(&waits->by_tid);
}

void waits_release(struct waits *waits)
{
	map64_release(&waits->by_tid);
	waits->begins = mem_free(waits->begins);
	waits->count = waits->capacity = 0;
}

int waits_begin(struct waits *waits, const struct abi_sample *sample)
{
	uint64_t at;

	if (map64_get(&waits->by_tid, sample->tid, &at)) {
		waits->begins[at] = *sample;
		return 0;
	}
	int r = array_reserve(&waits->begins, &waits->capacity, waits->count + 1, WAITS_MAX);
	if (r == -E2BIG) {
		waits->dropped++;
		return 0;
	}
	if (r == 0)
		r = map64_put(&waits->by_tid, sample->tid, waits->count);
	if (r < 0)
		return r;
	waits->begins[waits->count++] = *sample;
	return 0;
}

bool waits_end(struct waits *waits, pid_t tid, struct abi_sample *ret_begin)
{
	uint64_t at;

	if (!map64_get(&waits->by_tid, (uint32_t)tid, &at))
		return false;
	*ret_begin = waits->begins[at];
	map64_remove(&waits->by_tid, (uint32_t)tid);
	if (at != --waits->count) { /* the last one moves into the gap; its key is there, so nothing is allocated */
		waits->begins[at] = waits->begins[waits->count];
		map64_put(&waits->by_tid, waits->begins[at].tid, at);
	}
	return true;
}

int64_t waits_value(const struct abi_sample *begin, uint64_t ns)
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

int waits_keep_chains(const struct waits *waits, struct chains *chains)
{
	for (size_t i = 0; i < waits->count; i++) {
		int r = keep_chain(chains, waits->begins[i].user_chain);
		if (r == 0)
			r = keep_chain(chains, waits->begins[i].kernel_chain);
		if (r < 0)
			return r;
	}
	return 0;
}

static bool is_asleep(const char *fields)
{
	if (!fields || fields[0] != ' ' || !fields[1] || !fields[2])
		return false;
	/* A child of ours is one that waits for its start: wick record -- CMD. */
	return strchr("SDTt", fields[1]) && strtol(fields + 3, NULL, 10) != (long)getpid();
}

int waits_find_sleepers(pid_t pid, int (*found)(void *context, pid_t tid, const char *comm), void *context)
{
	_cleanup_(dir_closep) DIR *threads = proc_open_threads(pid);
	char text[PROC_STAT_BYTES];
	const char *comm;
	int r = 0;

	for (pid_t tid; r == 0 && (tid = proc_next(threads)) > 0;)
		if (is_asleep(proc_read_stat(pid, tid, text, &comm)))
			r = found(context, tid, comm);
	return r;
}
