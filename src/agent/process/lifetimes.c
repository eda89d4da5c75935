// SPDX-License-Identifier: Apache-2.0
#include "agent/process/lifetimes.h"

#include <errno.h>

#include "base/alloc.h"
#include "base/map.h"
#include "profile/markers.h"

/* Of processes that were never sampled: a machine starts some all the time. Those that are sampled always have theirs. */
#define UNSAMPLED_MAX 65536u
#define PENDING_MAX   (1u << 24)

struct lifetime {
	pid_t pid, tid;
	int64_t start_ns, end_ns; /* CLOCK_MONOTONIC; 0 = unknown, and not over */
	bool by_exec;
	bool is_told;  /* the profile has its start */
	char *program; /* of one that is over; NULL = unknown */
};
struct lived {
	struct lifetime main; /* without a start: it was there before */
	struct lifetime *threads;
	size_t thread_count, thread_capacity;
};
struct lifetimes {
	bool follows_all;
	struct map64 by_pid; /* -> struct lived */
	struct lifetime *pending;
	size_t pending_count, pending_capacity;
	size_t untold; /* that go on */
	size_t unsampled;
};

int lifetimes_new(bool follows_all, struct lifetimes **ret, struct error *err)
{
	struct lifetimes *lifetimes = mem_zalloc(sizeof(*lifetimes));
	if (!lifetimes)
		return error_nomem(err);
	lifetimes->follows_all = follows_all;
	*ret = lifetimes;
	return 0;
}

static struct lived *lived_free(struct lived *lived)
{
	if (!lived)
		return NULL;
	mem_free(lived->threads);
	return mem_free(lived);
}
DEFINE_CLEANUP_POINTER(lived_free, struct lived);

struct lifetimes *lifetimes_free(struct lifetimes *lifetimes)
{
	size_t cursor = 0;
	uint64_t pid, value;
	if (!lifetimes)
		return NULL;
	while (map64_next(&lifetimes->by_pid, &cursor, &pid, &value))
		lived_free((struct lived *)(uintptr_t)value);
	map64_release(&lifetimes->by_pid);
	for (size_t i = 0; i < lifetimes->pending_count; i++)
		mem_free(lifetimes->pending[i].program);
	mem_free(lifetimes->pending);
	return mem_free(lifetimes);
}

static struct lived *find(const struct lifetimes *lifetimes, pid_t pid)
{
	uint64_t value;
	return map64_get(&lifetimes->by_pid, (uint64_t)pid, &value) ? (struct lived *)(uintptr_t)value : NULL;
}

/* The one that there is, or a new one. */
static int add(struct lifetimes *lifetimes, pid_t pid, struct lived **ret)
{
	*ret = find(lifetimes, pid);
	if (*ret)
		return 0;
	_cleanup_(lived_freep) struct lived *lived = mem_zalloc(sizeof(*lived));
	if (!lived || map64_put(&lifetimes->by_pid, (uint64_t)pid, (uint64_t)(uintptr_t)lived) < 0)
		return -ENOMEM;
	lived->main = (struct lifetime){.pid = pid, .tid = pid};
	*ret = TAKE(lived);
	return 0;
}

int lifetimes_follow(struct lifetimes *lifetimes, pid_t pid, struct error *err)
{
	struct lived *lived;
	return add(lifetimes, pid, &lived) < 0 ? error_nomem(err) : 0;
}

/* ---- ends ---- */

static const char *program_of(const struct process_table *table, const struct process *process)
{
	return !process		     ? NULL
	       : process->executable ? binary_name(binary_get(table->binaries, process->executable))
	       : process->comm[0]    ? process->comm
				     : NULL;
}

static int end_lifetime(struct lifetimes *lifetimes, const struct process_table *table, const struct process *process,
			const struct lifetime *lifetime, int64_t end_ns)
{
	struct lifetime ended = *lifetime;
	const char *program = ended.tid == ended.pid ? program_of(table, process) : NULL;
	lifetimes->untold -= ended.start_ns && !ended.is_told;
	if (!(process && process->results) && lifetimes->unsampled++ >= UNSAMPLED_MAX)
		return 0;
	/* What is more is lost, as names of threads are: it is much more than a profile holds. */
	if (lifetimes->pending_count >= PENDING_MAX)
		return 0;
	if (array_reserve(&lifetimes->pending, &lifetimes->pending_capacity, lifetimes->pending_count + 1, PENDING_MAX) < 0)
		return -ENOMEM;
	ended.end_ns = end_ns;
	ended.program = program ? mem_strdup(program) : NULL;
	if (program && !ended.program)
		return -ENOMEM;
	lifetimes->pending[lifetimes->pending_count++] = ended;
	return 0;
}

/* Of all threads. */
static int end_all(struct lifetimes *lifetimes, const struct process_table *table, struct lived *lived, int64_t end_ns)
{
	const struct process *process = process_table_find(table, lived->main.pid);
	int r = end_lifetime(lifetimes, table, process, &lived->main, end_ns);
	for (size_t i = 0; r == 0 && i < lived->thread_count; i++)
		r = end_lifetime(lifetimes, table, process, &lived->threads[i], end_ns);
	lived->thread_count = 0;
	return r;
}

static void begin(struct lifetimes *lifetimes, struct lived *lived, int64_t start_ns, bool by_exec)
{
	lived->main =
		(struct lifetime){.pid = lived->main.pid, .tid = lived->main.pid, .start_ns = start_ns, .by_exec = by_exec};
	lifetimes->untold++;
}

static int end_thread(struct lifetimes *lifetimes, const struct process_table *table, struct lived *lived,
		      const struct event *event)
{
	/* One that was there before has an end only. */
	struct lifetime ended = {.pid = event->pid, .tid = event->tid};
	for (size_t i = lived->thread_count; i-- > 0;)
		if (lived->threads[i].tid == event->tid) {
			ended = lived->threads[i];
			lived->threads[i] = lived->threads[--lived->thread_count];
			break;
		}
	return end_lifetime(lifetimes, table, process_table_find(table, event->pid), &ended, (int64_t)event->time_ns);
}

/* ---- events ---- */

static int take_exec(struct lifetimes *lifetimes, const struct process_table *table, const struct event *event)
{
	struct lived *lived = find(lifetimes, event->pid);
	int r = 0;
	if (!lived && !lifetimes->follows_all)
		return 0;
	if (!lived)
		r = add(lifetimes, event->pid, &lived);
	if (r == 0)
		r = end_all(lifetimes, table, lived, (int64_t)event->time_ns);
	if (r == 0)
		begin(lifetimes, lived, (int64_t)event->time_ns, true);
	return r;
}

static int take_fork(struct lifetimes *lifetimes, const struct process_table *table, const struct event *event)
{
	bool is_thread = event->pid == event->parent;
	struct lived *lived = find(lifetimes, event->pid);
	int r = 0;
	if (!lifetimes->follows_all && !find(lifetimes, event->parent))
		return 0;
	/* The end of the former owner of the pid was lost. */
	if (lived && !is_thread && lived->main.start_ns)
		r = end_all(lifetimes, table, lived, (int64_t)event->time_ns);
	if (r == 0 && !lived)
		r = add(lifetimes, event->pid, &lived);
	if (r == 0 && !is_thread)
		begin(lifetimes, lived, (int64_t)event->time_ns, false);
	if (r < 0 || !is_thread)
		return r;
	if (array_reserve(&lived->threads, &lived->thread_capacity, lived->thread_count + 1,
			  SIZE_MAX / sizeof(*lived->threads)) < 0)
		return -ENOMEM;
	lived->threads[lived->thread_count++] =
		(struct lifetime){.pid = event->pid, .tid = event->tid, .start_ns = (int64_t)event->time_ns};
	lifetimes->untold++;
	return 0;
}

/* A process ends with its last thread, which need not be the first. */
static int take_exit(struct lifetimes *lifetimes, const struct process_table *table, const struct event *event)
{
	struct lived *lived = find(lifetimes, event->pid);
	const struct process *process = process_table_find(table, event->pid);
	bool is_over = process ? process->exit_ns == event->time_ns : event->pid == event->tid;
	if (!lived && !lifetimes->follows_all)
		return 0;
	int r = lived ? 0 : add(lifetimes, event->pid, &lived);
	if (r == 0 && event->tid != event->pid)
		r = end_thread(lifetimes, table, lived, event);
	if (r < 0 || !is_over)
		return r;
	r = end_all(lifetimes, table, lived, (int64_t)event->time_ns);
	map64_remove(&lifetimes->by_pid, (uint64_t)event->pid);
	lived_free(lived);
	return r;
}

int lifetimes_before(struct lifetimes *lifetimes, const struct process_table *table, const struct event *event,
		     struct error *err)
{
	if (event->kind != EVENT_COMM || !event->is_exec || event->pid <= 0)
		return 0;
	return take_exec(lifetimes, table, event) < 0 ? error_nomem(err) : 0;
}

int lifetimes_after(struct lifetimes *lifetimes, const struct process_table *table, const struct event *event,
		    struct error *err)
{
	int r = 0;
	if (event->pid > 0 && event->kind == EVENT_FORK)
		r = take_fork(lifetimes, table, event);
	else if (event->pid > 0 && event->kind == EVENT_EXIT)
		r = take_exit(lifetimes, table, event);
	return r < 0 ? error_nomem(err) : 0;
}

/* ---- into the profile ---- */

bool lifetimes_are_pending(const struct lifetimes *lifetimes, bool is_last)
{
	return lifetimes->pending_count || lifetimes->untold || (is_last && lifetimes->by_pid.count);
}

static int move(const struct lifetime *lifetime, const char *program, int64_t wall_clock_ns, struct profile *profile,
		struct error *err)
{
	struct profile_lifetime moved = {.pid = lifetime->pid, .tid = lifetime->tid, .by_exec = lifetime->by_exec};
	uint32_t id;
	moved.start_ns = lifetime->start_ns ? lifetime->start_ns + wall_clock_ns : 0;
	moved.end_ns = lifetime->end_ns ? lifetime->end_ns + wall_clock_ns : 0;
	int r = program ? profile_add_cstring(profile, program, &moved.program, err) : 0;
	return r < 0 ? r : profile_add_lifetime(profile, &moved, &id, err);
}

static int move_open(struct lifetimes *lifetimes, const struct process_table *table, bool is_last, struct lifetime *open,
		     int64_t wall_clock_ns, struct profile *profile, struct error *err)
{
	if (!open->start_ns || (open->is_told && !is_last))
		return 0;
	lifetimes->untold -= !open->is_told;
	open->is_told = true;
	const struct process *process = open->tid == open->pid ? process_table_find(table, open->pid) : NULL;
	return move(open, program_of(table, process), wall_clock_ns, profile, err);
}

static int move_all_open(struct lifetimes *lifetimes, const struct process_table *table, bool is_last, int64_t wall_clock_ns,
			 struct profile *profile, struct error *err)
{
	size_t cursor = 0;
	uint64_t pid, value;
	int r = 0;
	while (r == 0 && map64_next(&lifetimes->by_pid, &cursor, &pid, &value)) {
		struct lived *lived = (struct lived *)(uintptr_t)value;
		r = move_open(lifetimes, table, is_last, &lived->main, wall_clock_ns, profile, err);
		for (size_t i = 0; r == 0 && i < lived->thread_count; i++)
			r = move_open(lifetimes, table, is_last, &lived->threads[i], wall_clock_ns, profile, err);
	}
	return r;
}

int lifetimes_move(struct lifetimes *lifetimes, const struct process_table *table, bool is_last, int64_t wall_clock_ns,
		   struct profile *profile, struct error *err)
{
	int r = 0;
	for (size_t i = 0; i < lifetimes->pending_count; i++) {
		struct lifetime *lifetime = &lifetimes->pending[i];
		if (r == 0)
			r = move(lifetime, lifetime->program, wall_clock_ns, profile, err);
		mem_free(lifetime->program);
	}
	lifetimes->pending_count = 0;
	return r < 0 ? r : move_all_open(lifetimes, table, is_last, wall_clock_ns, profile, err);
}
