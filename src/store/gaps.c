/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What was stored and is not there any more: damaged blocks and pieces of the log in the quarantine, and the end of a log that
 * was cut off. Nobody can tell what was in them, but about when it was, and of blocks how much, so whatever is read of that
 * time is said to be partial, with the reason, for as long as the damaged files are kept (or the cut is remembered: until the
 * next start).
 *
 *   block   the times of its metadata; if that is what is damaged, from the time in its name to when its files were written
 *   log     the hour before it was last written to: the log holds what is not in a block yet, ten minutes as a rule. A copy in
 *           the quarantine has the segment's modification time, so the next start knows it as well
 *
 * Not told: profiles of a damaged piece of the log that came later than an hour after what they are about.
 */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "base/io.h"
#include "base/time.h"
#include "store/store_int.h"

#define GAPS_MAX   1024
#define LOG_GAP_NS (3600 * NS_PER_S)

void gaps_add(struct local_store *store, int64_t from_ns, int64_t to_ns, uint64_t rows, const char *format, ...)
{
	struct store_gap gap = {.from_ns = from_ns, .to_ns = to_ns, .rows = rows};
	va_list arguments;
	va_start(arguments, format);
	vsnprintf(gap.what, sizeof(gap.what), format, arguments);
	va_end(arguments);
	THREAD_LOCK_SCOPE(&store->state_lock);
	if (array_reserve(&store->gaps, &store->gap_capacity, store->gap_count + 1, GAPS_MAX) == 0) {
		store->gaps[store->gap_count++] = gap;
	} else if (store->gap_count) {
		/* More than anybody will read one by one: the last one stands for the rest. */
		struct store_gap *last = &store->gaps[store->gap_count - 1];
		last->from_ns = from_ns < last->from_ns ? from_ns : last->from_ns;
		last->to_ns = to_ns > last->to_ns ? to_ns : last->to_ns;
		last->rows += rows;
	}
}

void gaps_add_log(struct local_store *store, int64_t written_ns, uint64_t rows, const char *what)
{
	gaps_add(store, written_ns - LOG_GAP_NS, written_ns + 1, rows, "%s", what);
}

void gaps_note(struct local_store *store, int64_t from_ns, int64_t to_ns, struct store_read_stats *stats)
{
	int64_t age_ns = store->options.retention_age_ns, oldest_ns = age_ns > 0 ? time_now_ns() - age_ns : INT64_MIN;
	size_t found = 0;
	THREAD_LOCK_SCOPE(&store->state_lock);
	for (size_t i = 0; i < store->gap_count; i++) {
		const struct store_gap *gap = &store->gaps[i];
		if (gap->from_ns >= to_ns || gap->to_ns <= from_ns || gap->to_ns < oldest_ns)
			continue;
		if (found++ == 0 && !stats->partial)
			snprintf(stats->why, sizeof(stats->why), "%s", gap->what);
		if (gap->rows)
			store_read_stats_lose(stats, gap->rows, gap->from_ns, gap->to_ns - 1);
	}
	stats->partial |= found > 0;
}

/* ---- after a start ---- */

static int64_t written_at(const struct stat *about)
{
	return (int64_t)about->st_mtim.tv_sec * NS_PER_S + about->st_mtim.tv_nsec;
}

static void add_block(struct local_store *store, const char *path, const char *name, const struct stat *about)
{
	struct block_meta meta = {0};
	uint64_t rows = 0;
	int64_t from_ns = strtoll(name, NULL, 10), to_ns = written_at(about) + STORE_FUTURE_NS;
	bool corrected;
	if (block_meta_read_corrected(path, &meta, &corrected, NULL) == 0) {
		from_ns = meta.min_ns;
		to_ns = meta.max_ns + 1;
		rows = meta.samples;
		block_meta_release(&meta);
	}
	gaps_add(store, from_ns, to_ns, rows, "block %.60s is damaged and was set aside in quarantine/", name);
}

/* What another program or person put there says nothing. */
void gaps_add_entry(struct local_store *store, const char *name)
{
	char path[PATH_MAX];
	struct stat about;
	if (io_join_path(path, sizeof(path), store->quarantine_path, name) < 0 || lstat(path, &about) < 0)
		return;
	if (S_ISDIR(about.st_mode) && name[0] >= '0' && name[0] <= '9')
		add_block(store, path, name, &about);
	else if (S_ISREG(about.st_mode) && strncmp(name, "log-", 4) == 0)
		gaps_add(store, written_at(&about) - LOG_GAP_NS, written_at(&about) + 1, 0,
			 "a piece of the log is damaged and was set aside as quarantine/%.60s", name);
}

int gaps_load(struct local_store *store, struct error *err)
{
	_cleanup_(dir_closep) DIR *dir = opendir(store->quarantine_path);
	if (!dir)
		return errno == ENOENT ? 0 : error_set_errno(err, -errno, "cannot list %s", store->quarantine_path);
	for (const struct dirent *entry; (entry = readdir(dir));)
		if (entry->d_name[0] != '.')
			gaps_add_entry(store, entry->d_name);
	return 0;
}
