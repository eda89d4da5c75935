/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How a table comes to be: mapped from disk if it is there, else built by a worker thread, which takes the entries that wait
 * one by one. The lock guards the entries and is held for pointer work only. Who builds an entry holds it by its state
 * (SYMBOL_WORKING); what arrives meanwhile sets `again`, and the build is repeated.
 *
 * Without workers (record, tests) who asks builds, one at a time: memory is bounded by one file either way.
 *
 * What cannot be named is looked for again, at first after a minute, then at twice the time up to half an hour; and at once
 * when something arrives that could help. Nobody needs to ask: idle workers look for what is due. A table that lacks debug
 * information is built again only if there is a source now that it was not made from, since reading a binary once more finds
 * nothing new. A table that was made without the file that several debug files share (dwz) is built again when that arrives: an
 * agent sends it once, before or behind the files that refer to it.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/budget.h"
#include "base/io.h"
#include "base/thread.h"
#include "base/time.h"
#include "symbol/symbol_int.h"
#include "symbol/table_int.h"
#include "symbol/worker.h"

/* What a build needs of its entry, copied: the entry may change meanwhile. */
struct job {
	char key[SYMBOL_KEY_MAX], path[SYMBOL_PATH_MAX], go_id[BUILD_ID_HEX_MAX];
	bool by_path;
	int fd; /* offered; -1 = none */
	uint32_t sources;
	bool has_table, no_offsets;
	uint64_t arrivals; /* when it began */
};

struct outcome {
	struct shared_table *shared; /* NULL = none was made */
	enum symbol_state state;
	bool unchanged; /* nothing better was found: the old table stays */
	bool is_cached; /* it was made by an earlier run, of the same files */
	bool unreachable, incomplete, is_by_go_id, no_offsets, names_kernel, is_crash;
	int code; /* 0, or why there is no table */
	struct symbol_build_result result;
	int64_t build_ns;
	char why[sizeof(((struct error *)0)->message)];
	char from[256];
	char lacks[BUILD_ID_HEX_MAX];
};

bool jobs_key(struct symbolizer *s, const char *build_id, const char *path, char ret[static SYMBOL_KEY_MAX])
{
	if (build_id[0]) {
		if (!build_id_is_valid(build_id))
			return false;
		snprintf(ret, SYMBOL_KEY_MAX, "%s", build_id);
		return true;
	}
	_cleanup_(fd_closep) int fd = -1;
	struct stat st;
	if (s->no_host_files || !source_is_host_path(path) || source_open_binary(s, path, &fd, &st) < 0)
		return false;
	snprintf(ret, SYMBOL_KEY_MAX, "file:%" PRIx64 ":%" PRIx64 ":%" PRIx64 ":%" PRIx64 ".%lx", (uint64_t)st.st_dev,
		 (uint64_t)st.st_ino, (uint64_t)st.st_size, (uint64_t)st.st_mtim.tv_sec, (unsigned long)st.st_mtim.tv_nsec);
	return true;
}

void jobs_content_key(const char *build_id, const char *content, char ret[static SYMBOL_KEY_MAX])
{
	snprintf(ret, SYMBOL_KEY_MAX, SYMBOL_CONTENT_PREFIX "%.32s:%.128s", content, build_id);
}

/* ---- one build, without the lock ---- */

/* The id of the binary, and the content of the one upload of it that is meant ("" = any). */
static const char *split_key(const struct job *job, char content[static UPLOAD_CONTENT_HEX])
{
	static const size_t prefix = sizeof(SYMBOL_CONTENT_PREFIX) - 1;
	content[0] = 0;
	if (!job->by_path)
		return job->key;
	if (strncmp(job->key, SYMBOL_CONTENT_PREFIX, prefix) != 0)
		return "";
	snprintf(content, UPLOAD_CONTENT_HEX, "%.32s", job->key + prefix);
	return job->key + prefix + UPLOAD_CONTENT_HEX;
}

/* What its table is called on disk; "" = it does not go there. */
static const char *disk_name(const struct job *job)
{
	return job->by_path ? "" : job->key;
}

static int share(struct symbol_table *table, struct shared_table **ret)
{
	*ret = mem_zalloc(sizeof(**ret));
	if (!*ret) {
		symbol_table_free(table);
		return -ENOMEM;
	}
	**ret = (struct shared_table){.table = table, .users = 1};
	return 0;
}

static void explain(const struct symbol_build_result *result, struct outcome *ret)
{
	if (result->problem[0])
		snprintf(ret->why, sizeof(ret->why), "%s", result->problem);
	else if (result->units_incomplete)
		snprintf(ret->why, sizeof(ret->why), "%" PRIu64 " of %" PRIu64 " units lack a part in another file",
			 result->units_incomplete, result->units);
	else if (!symbol_has_lines(result->sources) && (result->sources & (SYMBOL_SOURCE_SYMTAB | SYMBOL_SOURCE_KALLSYMS)))
		snprintf(ret->why, sizeof(ret->why), "no debug information was found: functions, but no lines");
	else if (!symbol_has_lines(result->sources))
		snprintf(ret->why, sizeof(ret->why), "no debug information was found: exported functions only");
}

/* A server that answers, but with something else, is not one that has nothing. */
static void append_wrong(struct outcome *ret, const struct source_job *source)
{
	size_t len = strlen(ret->why);
	snprintf(ret->why + len, sizeof(ret->why) - len, "%s%s", len > 0 ? "; " : "", source->wrong);
}

static int build_into(struct symbolizer *s, struct source_job *source, int fd, struct outcome *ret, struct error *err)
{
	struct symbol_build_options options = {.build_id = source->build_id, .open_file = source_open_file, .context = source};
	if (s->worker) {
		struct symbol_worker_options worker = *s->worker;
		worker.cancel = &s->stop;
		int r = symbol_worker_build(&worker, &options, fd, &ret->result, err);
		ret->is_crash = r == -EFAULT || r == -EPERM;
		/* It is the file that is too large; this process has memory. */
		return r == -ENOMEM ? -E2BIG : r;
	}
	return symbol_build(&options, fd, &ret->result, err);
}

/* Builds into a file with a name to be, or, when the disk takes no more, into memory. */
static int build_table(struct symbolizer *s, const struct job *job, struct source_job *source,
		       char temporary[static SYMBOL_PATH_MAX], struct outcome *ret, struct symbol_table **ret_table,
		       struct error *err)
{
	int fd;
	int r = cache_begin(s, disk_name(job), temporary, &fd, err);
	if (r < 0)
		return r;
	r = source_prepare(source, err);
	ret->is_cached = r == 0 && source->seen && file_cache_load(s, source, &ret->result, ret_table);
	if (ret->is_cached) {
		source_release(source);
		io_close(fd);
		return 0;
	}
	if (r == 0)
		r = build_into(s, source, fd, ret, err);
	if ((r == -ENOSPC || r == -EIO || r == -EDQUOT) && temporary[0]) {
		cache_end(s, disk_name(job), temporary, 0, false);
		io_close(fd);
		source->from[0] = 0;
		r = cache_begin(s, "", temporary, &fd, err);
		if (r < 0)
			return r;
		source_release(source);
		r = source_prepare(source, err);
		if (r == 0)
			r = build_into(s, source, fd, ret, err);
	}
	source_release(source);
	if (r == 0)
		r = symbol_table_open(fd, "the new symbol table", source->build_id, ret_table, err);
	if (r == 0 && source->seen)
		file_cache_keep(s, source, &ret->result, *ret_table);
	io_close(fd);
	return r;
}

static void build(struct symbolizer *s, const struct job *job, struct outcome *ret)
{
	char content[UPLOAD_CONTENT_HEX];
	struct source_job source = {.symbolizer = s,
				    .build_id = split_key(job, content),
				    .content = content,
				    .go_id = job->go_id,
				    .path = job->path,
				    .offered_fd = job->fd,
				    .ready_fd = -1};
	_cleanup_(seen_files_release) struct seen_files seen = {0};
	seen_files_init(&seen);
	/* One of several files of an id is found by its content, which is compared in another way. */
	source.seen = s->file_cache && !content[0] ? &seen : NULL;
	struct error err = {0};
	char temporary[SYMBOL_PATH_MAX] = "";
	int64_t started = time_monotonic_ns();
	struct symbol_table *table = NULL;
	int r = build_table(s, job, &source, temporary, ret, &table, &err);
	ret->no_offsets = table && (symbol_table_flags(table) & SYMBOL_TABLE_NO_OFFSETS);
	ret->names_kernel = table && symbol_table_names_kernel(table->header);
	bool worse = r == 0 && job->has_table && (!job->no_offsets || ret->no_offsets) &&
		     !(ret->result.sources & ~job->sources) && job->sources != ret->result.sources;
	cache_end(s, disk_name(job), temporary, ret->result.table_bytes, r == 0 && !worse && !source.is_by_go_id);
	ret->is_by_go_id = source.is_by_go_id;
	ret->build_ns = time_monotonic_ns() - started - source.wait_ns;
	ret->unreachable = source.unreachable;
	memcpy(ret->lacks, source.lacks, sizeof(ret->lacks));
	memcpy(ret->from, source.from, sizeof(ret->from));
	if (r == 0 && worse) {
		symbol_table_free(table);
		ret->unchanged = true;
		return;
	}
	if (r == 0)
		r = share(table, &ret->shared);
	ret->incomplete = ret->result.units_incomplete || ret->result.units_damaged;
	if (r == 0) {
		bool empty = ret->result.ranges == 0;
		ret->state = empty ? SYMBOL_MISSING : symbol_has_lines(ret->result.sources) ? SYMBOL_COMPLETE : SYMBOL_PARTIAL;
		explain(&ret->result, ret);
		if (ret->state != SYMBOL_COMPLETE && source.wrong[0])
			append_wrong(ret, &source);
		if (empty && !ret->result.problem[0])
			snprintf(ret->why, sizeof(ret->why), "the file has no symbols, and no debug information was found");
		return;
	}
	ret->code = r;
	ret->unchanged = job->has_table;
	ret->state = r == -ENOENT ? SYMBOL_MISSING : SYMBOL_FAILED;
	snprintf(ret->why, sizeof(ret->why), "%s",
		 r == -ENOENT && !source.from[0] && source.wrong[0] ? "the binary is not on this host"
		 : r == -ENOENT && !source.from[0] && source.unreachable
			 ? "the binary is not on this host, and the debuginfod servers could not be reached"
		 : r == -ENOENT && !source.from[0] ? "the binary is not on this host, and no debug information was found"
		 : err.message[0]		   ? err.message
						   : strerror(-r));
	if (source.wrong[0])
		append_wrong(ret, &source);
}

/* ---- entries and builds, with the lock ---- */

static void take(struct symbolizer *s, struct symbol_entry *entry, struct job *ret)
{
	*ret = (struct job){.by_path = entry->by_path,
			    .fd = entry->offered_fd,
			    .sources = entry->sources,
			    .has_table = entry->was_built && entry->sources && !entry->is_by_go_id,
			    .no_offsets = entry->no_offsets,
			    .arrivals = s->arrivals};
	snprintf(ret->key, sizeof(ret->key), "%s", entry->key);
	snprintf(ret->path, sizeof(ret->path), "%s", entry->path ? entry->path : "");
	snprintf(ret->go_id, sizeof(ret->go_id), "%s", entry->go_id && !entries_find_go_id(s, entry) ? entry->go_id : "");
	if (entry->offered_fd >= 0)
		s->offers--;
	else
		entry->main_content[0] = 0;
	entry->offered_fd = -1;
	entry->state = SYMBOL_WORKING;
	entry->again = false;
	s->stats.running++;
}

static int64_t retry_in(const struct symbolizer *s, const struct symbol_entry *entry, const struct outcome *outcome)
{
	int64_t wait = s->retry_interval_ns;
	if (!outcome->unreachable)
		for (unsigned i = 0; i < entry->failures && wait < SYMBOL_RETRY_NS_MAX; i++)
			wait *= 2;
	return wait < SYMBOL_RETRY_NS_MAX ? wait : SYMBOL_RETRY_NS_MAX;
}

/* The file that the table was made without is there now. */
static bool has_lacking(struct symbolizer *s, const struct symbol_entry *entry)
{
	return entry->lacks && s->uploads && uploads_has(s->uploads, &s->scope, entry->lacks, UPLOAD_DEBUGINFO);
}

static void put_result(struct symbol_entry *entry, const struct outcome *outcome)
{
	const struct symbol_build_result *result = &outcome->result;
	entry->state = outcome->state;
	entry->sources = result->sources;
	entry->incomplete = outcome->incomplete;
	entry->is_by_go_id = outcome->is_by_go_id;
	entry->is_earlier = false;
	entries_set_text(&entry->lacks, outcome->lacks);
	entry->no_offsets = outcome->no_offsets;
	entry->names_kernel = outcome->names_kernel;
	entry->functions = result->functions;
	entry->ranges = result->ranges;
	entry->rows = result->rows;
	entry->table_bytes = result->table_bytes;
	entry->input_bytes = result->input_bytes;
	entries_set_text(&entry->why, outcome->why);
	entries_set_text(&entry->from, outcome->from);
}

static void finish(struct symbolizer *s, const struct job *job, struct outcome *outcome)
{
	pthread_mutex_lock(&s->lock);
	struct symbol_entry *entry = entries_find(s, job->key);
	s->stats.running--;
	s->stats.builds += !outcome->is_cached;
	s->stats.cache_hits += outcome->is_cached;
	s->stats.build_failures += outcome->state == SYMBOL_FAILED;
	s->stats.build_crashes += outcome->is_crash;
	s->stats.build_ns_total += (uint64_t)outcome->build_ns;
	s->stats.build_cpu_ns_total += outcome->result.cpu_ns;
	if (entry) {
		bool was_known = entry->was_built;
		entry->was_built = true;
		entry->disk_checked = true;
		entry->built_ns = time_now_ns();
		entry->build_ns = outcome->build_ns;
		entry->cpu_ns = (int64_t)outcome->result.cpu_ns;
		entry->memory_peak_bytes = outcome->result.memory_peak_bytes;
		if (outcome->unchanged && was_known) {
			entry->state = symbol_has_lines(entry->sources) ? SYMBOL_COMPLETE : SYMBOL_PARTIAL;
			entry->disk_checked = entry->shared != NULL;
			if (outcome->why[0])
				entries_set_text(&entry->why, outcome->why);
		} else if (outcome->code == -ENOMEM) {
			entry->was_built = false;
			entry->state = SYMBOL_QUEUED;
		} else {
			put_result(entry, outcome);
			entries_set_table(s, entry, outcome->shared);
			outcome->shared = NULL;
		}
		entry->retry_ns = time_monotonic_ns() + retry_in(s, entry, outcome);
		entry->failures = entry->state == SYMBOL_COMPLETE && !entry->incomplete ? 0 : entry->failures + 1;
		/* What it lacks may have come after it was looked for. */
		if (entry->again || (job->arrivals != s->arrivals && has_lacking(s, entry))) {
			/* Whatever it was made of: what arrived meanwhile may replace that. */
			entry->again = false;
			entry->failures = 0;
			entry->retry_ns = 0;
			if (!cancel_requested(&s->stop))
				entries_enqueue(s, entry, SYMBOL_QUEUE_REQUESTED);
		}
	}
	entries_drop_user(outcome->shared);
	pthread_cond_broadcast(&s->done);
	pthread_mutex_unlock(&s->lock);
	io_close(job->fd);
}

static int run(struct symbolizer *s, struct job *job)
{
	struct outcome *outcome = mem_zalloc(sizeof(*outcome));
	struct outcome none = {.state = SYMBOL_FAILED, .why = "out of memory", .unchanged = job->has_table, .code = -ENOMEM};
	if (outcome)
		build(s, job, outcome);
	int code = outcome ? outcome->code : none.code;
	finish(s, job, outcome ? outcome : &none);
	mem_free(outcome);
	return code;
}

#define RETRIES_AT_ONCE 16u
#define RETRY_CHECKS	12 /* in the time of the shortest retry */

/* Queues what is due to be looked for again and nobody asks for. The lock is held. */
static void queue_retries(struct symbolizer *s)
{
	int64_t now = time_monotonic_ns();
	if (now < s->retry_check_ns)
		return;
	unsigned left = RETRIES_AT_ONCE;
	for (struct symbol_entry *entry = s->newest; entry && left > 0; entry = entry->older) {
		bool is_wanting = entry->state == SYMBOL_MISSING || entry->state == SYMBOL_PARTIAL;
		if (!is_wanting || !entry->was_built || entry->by_path || entry->queue != SYMBOL_QUEUE_NONE ||
		    now < entry->retry_ns)
			continue;
		jobs_want(s, entry, SYMBOL_QUEUE_SEEN);
		left--;
	}
	s->retry_check_ns = now + s->retry_interval_ns / RETRY_CHECKS;
}

/* With the lock held, which is given up meanwhile. What is built is chosen when it is this thread's turn. */
static void work_in_turn(struct symbolizer *s)
{
	struct job job;
	pthread_mutex_unlock(&s->lock);
	bool has_turn = build_turns_take(s->turns, &s->stop);
	pthread_mutex_lock(&s->lock);
	struct symbol_entry *entry = has_turn && !cancel_requested(&s->stop) ? entries_dequeue(s) : NULL;
	if (entry)
		take(s, entry, &job);
	pthread_mutex_unlock(&s->lock);
	if (entry)
		run(s, &job);
	if (has_turn)
		build_turns_give(s->turns);
	pthread_mutex_lock(&s->lock);
}

static void *work(void *context)
{
	struct symbolizer *s = context;
	pthread_mutex_lock(&s->lock);
	while (!cancel_requested(&s->stop)) {
		queue_retries(s);
		if (!s->first[SYMBOL_QUEUE_REQUESTED] && !s->first[SYMBOL_QUEUE_SEEN]) {
			thread_wait_until(&s->work, &s->lock, s->retry_check_ns);
			pthread_mutex_unlock(&s->lock);
			cache_trim(s); /* its limit may be another by now */
			pthread_mutex_lock(&s->lock);
			continue;
		}
		work_in_turn(s);
	}
	pthread_mutex_unlock(&s->lock);
	return NULL;
}

int jobs_start(struct symbolizer *s, unsigned count, struct error *err)
{
	for (; s->worker_count < count; s->worker_count++) {
		int r = thread_start(&s->workers[s->worker_count], "wick-symbols", work, s, err);
		if (r < 0)
			return r;
	}
	return 0;
}

void jobs_stop(struct symbolizer *s)
{
	pthread_mutex_lock(&s->lock);
	cancel_request(&s->stop);
	pthread_cond_broadcast(&s->work);
	pthread_cond_broadcast(&s->done);
	pthread_mutex_unlock(&s->lock);
	build_turns_wake(s->turns);
	for (unsigned i = 0; i < s->worker_count; i++)
		pthread_join(s->workers[i], NULL);
	s->worker_count = 0;
}

/* ---- asking ---- */

/* Nothing better can be had by looking. */
static bool is_settled(const struct symbol_entry *entry)
{
	if (!entry->was_built || entry->offered_fd >= 0)
		return false;
	if (entry->state == SYMBOL_COMPLETE && !entry->incomplete)
		return true;
	return time_monotonic_ns() < entry->retry_ns;
}

/* Of a table without the file that several share; and of one whose lack is not known, once. */
static bool may_complete(struct symbolizer *s, const struct symbol_entry *entry)
{
	return entry->incomplete && (entry->is_earlier || source_may_improve(s, entry->lacks ? entry->lacks : "", 0));
}

void jobs_want(struct symbolizer *s, struct symbol_entry *entry, enum symbol_queue queue)
{
	if (entry->state == SYMBOL_WORKING || is_settled(entry) || cancel_requested(&s->stop))
		return;
	/* A table that is there and may be no better the next time is not made again. */
	if (entry->was_built && entry->sources && !entry->by_path && entry->offered_fd < 0 &&
	    !source_may_improve(s, entry->key, entry->sources) &&
	    !(entry->go_id && source_may_improve(s, entry->go_id, entry->sources)) && !may_complete(s, entry)) {
		entry->retry_ns = time_monotonic_ns() + s->retry_interval_ns;
		return;
	}
	if (!entry->was_built)
		entry->state = SYMBOL_QUEUED;
	entries_enqueue(s, entry, queue);
}

/* With the lock held, which is given up meanwhile. */
static int load_from_disk(struct symbolizer *s, const char *key, struct error *err)
{
	struct symbol_table *table = NULL;
	struct shared_table *shared = NULL;
	struct symbol_entry *before = entries_find(s, key);
	bool was_known = before && before->was_built && before->sources;
	pthread_mutex_unlock(&s->lock);
	int r = cache_load(s, key, &table, NULL);
	if (r == 0)
		r = share(table, &shared);
	pthread_mutex_lock(&s->lock);
	struct symbol_entry *entry = entries_find(s, key);
	if (entry && !entry->shared) {
		/* One that was made while we looked, and unmapped again for others, is there now. */
		entry->disk_checked = shared || !entry->sources || was_known;
		if (shared) {
			s->stats.cache_hits++;
			if (!entry->was_built)
				entries_set_header(entry, shared->table->header);
			entries_set_table(s, entry, shared);
			shared = NULL;
		}
	}
	entries_drop_user(shared);
	return r == -ENOMEM ? error_nomem(err) : 0;
}

/* With the lock held: counted for the caller. A table larger than all memory allowed is in no entry. */
static struct shared_table *hold(struct symbol_entry *entry)
{
	if (entry && entry->shared)
		entry->shared->users++;
	return entry ? entry->shared : NULL;
}

/*
 * With the lock held, which is given up meanwhile: builds what waits, or waits for who builds. -ENOMEM only: whatever else is
 * wrong is told by the entry.
 */
static int build_now(struct symbolizer *s, const char *key, struct error *err)
{
	struct job job;
	int r = 0;
	pthread_mutex_unlock(&s->lock);
	pthread_mutex_lock(&s->build_lock);
	pthread_mutex_lock(&s->lock);
	struct symbol_entry *entry = entries_find(s, key);
	bool mine = entry && entry->queue != SYMBOL_QUEUE_NONE; /* else somebody else has built it meanwhile */
	if (mine) {
		entries_unqueue(s, entry);
		take(s, entry, &job);
	}
	pthread_mutex_unlock(&s->lock);
	if (mine)
		r = run(s, &job);
	pthread_mutex_unlock(&s->build_lock);
	pthread_mutex_lock(&s->lock);
	return r == -ENOMEM ? error_nomem(err) : 0;
}

/* With the lock held: from disk, or queued, or, without workers, built. */
static int provide(struct symbolizer *s, const char *key, struct error *err)
{
	struct symbol_entry *entry = entries_find(s, key);
	int r = 0;
	if (entry && entry->shared && symbol_table_is_broken(entry->shared->table)) {
		entries_set_table(s, entry, NULL);
		entry->disk_checked = false;
	}
	if (entry && !entry->shared && !entry->disk_checked && !entry->by_path) {
		r = load_from_disk(s, key, err);
		entry = entries_find(s, key);
	}
	if (entry && !entry->shared && entry->was_built && entry->sources && (entry->disk_checked || entry->by_path)) {
		/* It was unmapped for others, or removed from disk. */
		entry->was_built = false;
		entry->sources = 0;
	}
	if (entry)
		jobs_want(s, entry, SYMBOL_QUEUE_REQUESTED);
	if (r == 0 && entry && s->worker_count == 0 && (entry->queue != SYMBOL_QUEUE_NONE || entry->state == SYMBOL_WORKING))
		r = build_now(s, key, err);
	return r;
}

#define ATTEMPTS 8

int jobs_acquire(struct symbolizer *s, const char *key, const char *path, struct shared_table **ret, bool *ret_pending,
		 struct error *err)
{
	BUDGET_EXEMPT_SCOPE(); /* what is here stays */
	int r = 0;
	*ret = NULL;
	*ret_pending = false;
	pthread_mutex_lock(&s->lock);
	uint64_t refused = s->stats.refused;
	struct symbol_entry *entry = entries_get(s, key, path);
	if (!entry) {
		r = refused == s->stats.refused ? error_nomem(err) : 0;
		pthread_mutex_unlock(&s->lock);
		return r;
	}
	entries_touch(s, entry);
	/* What another thread made may be unmapped for a third one before this one sees it. */
	for (unsigned attempt = 0; attempt < ATTEMPTS && r == 0 && !*ret && entry; attempt++) {
		r = provide(s, key, err);
		entry = entries_find(s, key);
		*ret = hold(entry);
		if (entry && (s->worker_count > 0 || (entry->was_built && !entry->sources)))
			break;
	}
	*ret_pending = !*ret && entry && (entry->state == SYMBOL_WORKING || entry->queue != SYMBOL_QUEUE_NONE);
	pthread_mutex_unlock(&s->lock);
	return r;
}

void jobs_release(struct symbolizer *s, struct shared_table *shared, uint64_t lookups, uint64_t hits)
{
	BUDGET_EXEMPT_SCOPE(); /* what is here stays */
	pthread_mutex_lock(&s->lock);
	s->stats.lookups += lookups;
	s->stats.hits += hits;
	entries_drop_user(shared);
	pthread_mutex_unlock(&s->lock);
}

void jobs_count_ambiguous(struct symbolizer *s, uint64_t lookups)
{
	if (!lookups)
		return;
	pthread_mutex_lock(&s->lock);
	s->stats.ambiguous += lookups;
	pthread_mutex_unlock(&s->lock);
}

/* ---- waiting ---- */

#define WAIT_STEP_NS (100 * NS_PER_MS)

static bool any_is_busy(struct symbolizer *s, const char *const *keys, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		const struct symbol_entry *entry = entries_find(s, keys[i]);
		if (entry && (entry->state == SYMBOL_WORKING || entry->queue != SYMBOL_QUEUE_NONE))
			return true;
	}
	return false;
}

bool jobs_wait(struct symbolizer *s, const char *const *keys, size_t count, const struct symbolizer_want *want)
{
	int64_t until = want->wait_ns < 0 ? INT64_MAX : time_monotonic_ns() + want->wait_ns;
	bool busy;
	pthread_mutex_lock(&s->lock);
	while ((busy = any_is_busy(s, keys, count))) {
		int64_t now = time_monotonic_ns();
		if (until <= now || cancel_requested(want->cancel) || cancel_requested(&s->stop))
			break;
		thread_wait_until(&s->done, &s->lock, until - now < WAIT_STEP_NS ? until : now + WAIT_STEP_NS);
	}
	pthread_mutex_unlock(&s->lock);
	return !busy;
}
