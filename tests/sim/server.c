/* SPDX-License-Identifier: Apache-2.0 */
/* The server's side: its lives and deaths, what it is asked to do, and what comes in between. */
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/types.h>

#include "store/store_int.h"
#include "tests/sim/simulation.h"

#define START_MAX_NS (2 * NS_PER_S)

static struct simulation *current; /* for what the store calls without a context */

/* ---- the store's clocks, chance and thread ---- */

int64_t __real_time_monotonic_ns(void);
int __real_thread_start(pthread_t *ret_thread, const char *name, void *(*run)(void *), void *context, struct error *err);

int64_t __wrap_time_now_ns(void);
int64_t __wrap_time_now_ns(void)
{
	return EPOCH_NS + current->now_ns + current->clock_ns;
}

int64_t __wrap_time_monotonic_ns(void);
int64_t __wrap_time_monotonic_ns(void)
{
	return current ? NS_PER_S + current->now_ns + current->wait_ns : __real_time_monotonic_ns();
}

int __wrap_nanosleep(const struct timespec *time, struct timespec *left);
int __wrap_nanosleep(const struct timespec *time, struct timespec *left)
{
	current->wait_ns += time->tv_sec * NS_PER_S + time->tv_nsec;
	return 0;
}

ssize_t __wrap_getrandom(void *data, size_t len, unsigned flags);
ssize_t __wrap_getrandom(void *data, size_t len, unsigned flags)
{
	for (size_t i = 0; i < len; i++)
		((uint8_t *)data)[i] = (uint8_t)random_next(&current->random);
	return (ssize_t)len;
}

static void *do_nothing(void *context)
{
	return NULL;
}

/* What the store's own threads would do is done by events, so that a run can be repeated. Those that read along with a query or
 * a replay change nothing. */
int __wrap_thread_start(pthread_t *ret_thread, const char *name, void *(*run)(void *), void *context, struct error *err);
int __wrap_thread_start(pthread_t *ret_thread, const char *name, void *(*run)(void *), void *context, struct error *err)
{
	bool is_own = !strcmp(name, "store") || !strcmp(name, "store compact");
	return __real_thread_start(ret_thread, name, is_own ? do_nothing : run, context, err);
}

/* ---- what comes in between ---- */

static bool is_free(pthread_mutex_t *lock)
{
	if (pthread_mutex_trylock(lock))
		return false;
	pthread_mutex_unlock(lock);
	return true;
}

static void handle_request(struct simulation *s, unsigned agent, unsigned number);

/* A request that is under way arrives now. */
static void hurry_request(struct simulation *s)
{
	for (size_t i = 0; i < s->event_count; i++) {
		if (s->events[i].kind != EVENT_REQUEST)
			continue;
		struct event event = s->events[i];
		s->events[i] = s->events[--s->event_count];
		handle_request(s, event.agent, event.number);
		return;
	}
}

static void interrupt(void *context)
{
	struct simulation *s = context;
	if (!s->store || random_below(&s->random, 24) || !is_free(&local_of(s->store)->state_lock))
		return;
	s->interruptions++;
	/* An append behind a sync that is under way would wait for it, and with it for itself. */
	if (random_below(&s->random, 2) && is_free(&local_of(s->store)->append_lock) && !local_of(s->store)->flushing)
		hurry_request(s);
	else
		check_store(s, "in between");
}

/* ---- life and death ---- */

static void plan_death(struct simulation *s)
{
	static const uint32_t ranges[] = {30, 150, 600, 3000};
	if (random_below(&s->random, 4) == 0)
		return;
	uint64_t nth = 1 + random_below(&s->random, ranges[random_below(&s->random, 4)]);
	disk_set_death(nth, random_below(&s->random, 3) ? DISK_POWER_LOST : DISK_KILLED);
}

static void close_store(struct simulation *s)
{
	struct store_stats stats;
	struct store *store = s->store;
	if (!store)
		return; /* it died before it was open */
	store_get_stats(store, &stats);
	s->cuts += stats.cuts;
	s->compactions += stats.compactions;
	s->blocks_removed += stats.blocks_removed;
	s->store = NULL;
	store_close(store);
}

/* The process is dead: what is left of it goes, the disk becomes what the next one finds. */
static void reap(struct simulation *s)
{
	char path[PATH_MAX];
	s->deaths++;
	disk_set_hook(NULL, NULL);
	close_store(s);
	disk_restart();
	if (s->has_flips && random_below(&s->random, 3) == 0 &&
	    disk_flip_bit(random_below(&s->random, 2) ? "blocks" : "log", path, sizeof(path))) {
		s->is_flipped = true;
		simulation_log(s, "a bit of %s flips", path);
	}
	simulation_add_event(s, EVENT_START, (int64_t)(1 + random_below(&s->random, 300)) * NS_PER_MS, 0, 0);
}

static void reap_if_dead(struct simulation *s)
{
	if (disk_is_dead()) {
		simulation_log(s, "the server dies");
		reap(s);
	}
}

static int open_store(struct simulation *s, struct error *err)
{
	const struct label_condition pod = {.label = "pod", .text = RULE_POD_TEXT};
	const struct store_retention_rule rule = {.series = {.labels = &pod, .label_count = 1}, .age_ns = s->rule_age_ns};
	struct store_options options = {
		.directory = s->directory,
		.retention_age_ns = s->has_retention ? s->retention_age_ns : -1,
		.retention_size_bytes = UINT64_MAX,
		.rules = &rule,
		.rule_count = s->has_retention ? 1 : 0,
		.window_ns = {500 * NS_PER_MS, 4 * NS_PER_S},
		.late_window_ns = s->has_late_window ? 0 : -1,
		.cut_age_ns = NS_PER_S,
		.manual = true,
		.on_problem = check_problem,
		.context = s,
	};
	int64_t started = time_process_cpu_ns();
	int r = store_open(&options, &s->store, err);
	int64_t took = time_process_cpu_ns() - started;
	if (took > START_MAX_NS)
		simulation_fail(s, "a start took %.0f ms of CPU time", (double)took / NS_PER_MS);
	return r;
}

void server_start(struct simulation *s)
{
	struct error err = {0};
	current = s;
	if (s->store)
		return;
	s->lives++;
	plan_death(s);
	if (s->has_failing_sync && random_below(&s->random, 2))
		disk_set_failing_sync(1 + random_below(&s->random, 60));
	int r = open_store(s, &err);
	if (disk_is_dead()) {
		simulation_log(s, "the server dies while it starts");
		reap(s);
		return;
	}
	/* Refusing to start is right when syncs fail, or when there is no room for a copy of what is damaged; it must work
	 * later. */
	if (r < 0 && ((s->is_full && r == -ENOSPC && strstr(err.message, "quarantine")) || disk_has_failed())) {
		simulation_log(s, "the server does not start: %s", err.message);
		disk_restart();
		disk_set_failing_sync(0);
		simulation_add_event(s, EVENT_START, 100 * NS_PER_MS, 0, 0);
		return;
	}
	if (r < 0)
		simulation_fail(s, "the server does not start: %s", err.message);
	simulation_log(s, "the server starts");
	check_quarantine(s);
	check_store(s, "after a start");
	disk_set_hook(interrupt, s);
}

static void stop(struct simulation *s)
{
	if (!s->store)
		return;
	disk_set_hook(NULL, NULL);
	close_store(s);
	if (disk_is_dead())
		s->deaths++;
	simulation_log(s, "the server stops%s", disk_is_dead() ? " and dies" : "");
	disk_restart();
}

/* ---- deleting ---- */

struct deletion {
	unsigned agent;
	bool is_all_pods;
	unsigned pod;
	int64_t from_ns, to_ns;
};

static bool deletion_covers(const struct deletion *deletion, const struct append *append)
{
	return append->time_ns >= deletion->from_ns && append->time_ns < deletion->to_ns &&
	       (deletion->is_all_pods || append->pod == deletion->pod);
}

/* Before it: what may go. What arrives meanwhile may stay. Behind it: what is gone. */
static void set_deleted(struct simulation *s, const struct deletion *deletion, bool is_done)
{
	struct agent *agent = &s->agents[deletion->agent];
	for (unsigned i = 0; i < agent->count; i++) {
		struct append *append = &agent->appends[i];
		if (is_done && append->is_being_deleted)
			append->deletion = DELETION_DONE;
		append->is_being_deleted = !is_done && append->state != APPEND_UNSENT && append->time_ns >= deletion->from_ns &&
					   append->time_ns < deletion->to_ns &&
					   (deletion->is_all_pods || append->pod == deletion->pod);
		if (append->is_being_deleted && append->deletion != DELETION_DONE)
			append->deletion = DELETION_PERHAPS;
	}
}

/* ---- requests ---- */

static void handle_request(struct simulation *s, unsigned agent, unsigned number)
{
	struct append *append = &s->agents[agent].appends[number];
	struct store_append_options options = {.received_ns = __wrap_time_now_ns()};
	struct store_append_result result = {0};
	struct labels labels = {0};
	struct error err = {0};
	char text[32];
	if (!s->store)
		return;
	snprintf(text, sizeof(text), "%u", agent);
	int r = labels_set(&labels, "agent", text, &err);
	snprintf(text, sizeof(text), "%u", append->pod);
	if (r == 0)
		r = labels_set(&labels, "pod", text, &err);
	options.labels = &labels;
	memcpy(options.id, &(uint64_t[2]){agent + 1, number + 1}, sizeof(options.id));
	struct profile *profile = append_profile(s, agent, number);
	bool was_full = s->is_full;
	if (append->state == APPEND_UNSENT)
		append->state = APPEND_SENT;
	append->is_being_deleted = false;
	enum append_deletion deletion = append->deletion;
	if (deletion == DELETION_DONE)
		append->deletion = DELETION_PERHAPS; /* until the answer says that it was known */
	if (r == 0)
		r = store_append(s->store, profile, &options, &result, &err);
	profile_free(profile);
	labels_release(&labels);
	simulation_log(s, "append %u.%u: %s%s", agent, number, r == 0 ? "done" : err.message,
		       result.duplicate ? ", again" : "");
	if (disk_is_dead())
		return;
	if (r < 0 && !(was_full && r == -ENOSPC) && !disk_has_failed())
		simulation_fail(s, "append %u.%u is refused: %s", agent, number, err.message);
	if (r == 0) {
		/* By a clock far off the samples may be out of the window, which is said and counted. */
		if (result.duplicate)
			append->deletion = deletion;
		else if (result.refused == 0) /* before or behind one that is under way, who knows */
			append->deletion = s->deletion && s->deletion->agent == agent && deletion_covers(s->deletion, append)
						   ? DELETION_PERHAPS
						   : DELETION_NONE;
		if (result.refused == 0)
			append->state = APPEND_ACKNOWLEDGED;
		network_send(s, EVENT_REPLY, agent, number);
	}
}

static void must_work(struct simulation *s, int r, const struct error *err, const char *what)
{
	simulation_log(s, "%s: %s", what, r < 0 ? err->message : "done");
	if (r < 0 && !disk_is_dead() && !s->is_full && !disk_has_failed())
		simulation_fail(s, "%s: %s", what, err->message);
}

static void apply_retention(struct simulation *s)
{
	struct error err = {0};
	if (!s->has_retention)
		return;
	int64_t now_ns = __wrap_time_now_ns();
	if (now_ns - s->retention_age_ns > s->retention_horizon_ns)
		s->retention_horizon_ns = now_ns - s->retention_age_ns;
	if (now_ns - s->rule_age_ns > s->rule_horizon_ns)
		s->rule_horizon_ns = now_ns - s->rule_age_ns;
	must_work(s, store_apply_retention(s->store, now_ns, &err), &err, "retention");
}

static void compact(struct simulation *s)
{
	static const int64_t ahead_ns[] = {0, 600 * NS_PER_S, 3 * 86400 * NS_PER_S};
	struct error err = {0};
	must_work(s, store_compact(s->store, __wrap_time_now_ns() + ahead_ns[random_below(&s->random, 3)], &err), &err,
		  "compaction");
}

static void delete_some(struct simulation *s)
{
	struct deletion deletion = {.agent = random_below(&s->random, s->agent_count),
				    .is_all_pods = random_below(&s->random, 3) == 0,
				    .pod = random_below(&s->random, 3),
				    .from_ns = INT64_MIN,
				    .to_ns = INT64_MAX};
	struct store_delete_result result;
	struct error err = {0};
	if (random_below(&s->random, 2)) {
		deletion.to_ns = EPOCH_NS + s->now_ns - (int64_t)random_below(&s->random, 2000) * NS_PER_MS;
		deletion.from_ns = deletion.to_ns - (int64_t)random_below(&s->random, 2000) * NS_PER_MS;
	}
	char agent[] = {(char)('0' + deletion.agent), 0}, pod[] = {(char)('0' + deletion.pod), 0};
	const struct label_condition labels[] = {{.label = "agent", .text = agent}, {.label = "pod", .text = pod}};
	const struct series_conditions series = {.labels = labels, .label_count = deletion.is_all_pods ? 1 : 2};
	set_deleted(s, &deletion, false);
	s->deletion = &deletion;
	int r = store_delete(s->store, &series, deletion.from_ns, deletion.to_ns, &result, &err);
	s->deletion = NULL;
	if (r == 0 && !disk_is_dead())
		set_deleted(s, &deletion, true);
	must_work(s, r, &err, "deletion");
}

static void again(struct simulation *s, const struct event *event, uint32_t in_ms)
{
	simulation_add_event(s, event->kind, (int64_t)(1 + random_below(&s->random, in_ms)) * NS_PER_MS, 0, 0);
}

/* What is done to a server that is up. */
static void handle_live(struct simulation *s, const struct event *event)
{
	struct error err = {0};
	switch (event->kind) {
	case EVENT_REQUEST: handle_request(s, event->agent, event->number); break;
	case EVENT_QUERY: check_store(s, "while it runs"); break;
	case EVENT_CUT: must_work(s, store_cut(s->store, &err), &err, "cut"); break;
	case EVENT_COMPACT: compact(s); break;
	case EVENT_DELETE: delete_some(s); break;
	case EVENT_RETENTION: apply_retention(s); break;
	case EVENT_KILL: disk_die(DISK_KILLED); break;
	case EVENT_POWER: disk_die(DISK_POWER_LOST); break;
	case EVENT_STOP:
		stop(s);
		again(s, &(struct event){.kind = EVENT_START}, 200);
		return;
	default: break;
	}
	reap_if_dead(s);
	/* After a failed sync the store wants to be started again. */
	if (s->store && disk_has_failed() && random_below(&s->random, 4) == 0) {
		stop(s);
		disk_set_failing_sync(0);
		again(s, &(struct event){.kind = EVENT_START}, 200);
	}
}

void server_handle(struct simulation *s, const struct event *event)
{
	static const uint32_t every_ms[EVENT_KIND_COUNT] = {
		[EVENT_QUERY] = 400,   [EVENT_CUT] = 400,   [EVENT_COMPACT] = 800, [EVENT_RETENTION] = 1500,
		[EVENT_DELETE] = 6000, [EVENT_STOP] = 4000, [EVENT_KILL] = 4000,   [EVENT_POWER] = 4000,
	};
	if (event->kind == EVENT_START) {
		server_start(s);
		return;
	}
	if (event->kind == EVENT_FULL || event->kind == EVENT_ROOM) {
		s->is_full = event->kind == EVENT_FULL;
		disk_set_full(s->is_full ? 1 + random_below(&s->random, 40) : 0);
		simulation_log(s, "%s", s->is_full ? "the disk fills up" : "the disk has room again");
		simulation_add_event(s, s->is_full ? EVENT_ROOM : EVENT_FULL,
				     (int64_t)(1 + random_below(&s->random, 1500)) * NS_PER_MS, 0, 0);
		return;
	}
	if (s->store)
		handle_live(s, event);
	if (every_ms[event->kind])
		again(s, event, every_ms[event->kind]);
}

/* ---- the end ---- */

void server_finish(struct simulation *s)
{
	s->is_full = s->has_full_disk = s->has_failing_sync = s->has_flips = false;
	disk_set_full(0);
	disk_set_failing_sync(0);
	disk_set_death(0, DISK_KILLED);
	stop(s);
	for (int i = 0; i < 3; i++) {
		struct error err = {0};
		s->lives++;
		if (open_store(s, &err) < 0)
			simulation_fail(s, "the last start fails: %s", err.message);
		check_quarantine(s);
		check_store(s, "at the end");
		if (i == 1 && store_cut(s->store, &err) < 0)
			simulation_fail(s, "the last cut fails: %s", err.message);
		check_store(s, "at the end, cut");
		if (i == 0)
			disk_die(DISK_POWER_LOST); /* what was promised is on the disk */
		stop(s);
	}
}
