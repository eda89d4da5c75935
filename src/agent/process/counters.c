// SPDX-License-Identifier: Apache-2.0
#include "agent/process/counters.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/proc.h"
#include "base/alloc.h"
#include "base/io.h"
#include "base/time.h"

#define PENDING_MAX	 (1u << 20)
#define COST_PARTS	 50 /* readings take at most one part of so many of the time */
#define THREADS_READ_MAX 64 /* of a process, for their context switches */
#define CPUS_READ_MAX	 64 /* for their frequency: further ones do not change a mean much */

int counters_new(bool cgroup_v1, bool by_proc, int64_t interval_ns, struct counters **ret, struct error *err)
{
	_cleanup_(counters_freep) struct counters *counters = mem_zalloc(sizeof(*counters));
	int r = 0;

	if (!counters)
		return error_nomem(err);
	counters->by_proc = by_proc;
	counters->interval_ns = interval_ns;
	counters->next_ns = time_monotonic_ns();
	if (!by_proc)
		r = process_stats_new(cgroup_v1, &counters->stats, err);
	else if (!(counters->stats = process_stats_new_empty()))
		r = error_nomem(err);
	if (r == 0)
		*ret = TAKE(counters);
	return r;
}

struct counters *counters_free(struct counters *counters)
{
	if (!counters)
		return NULL;
	process_stats_free(counters->stats);
	mem_free(counters->pending);
	return mem_free(counters);
}

/* Where one was that is gone by now; COUNTERS_PROCESSES_MAX = nowhere. The first stays: the machine's counters are drawn at it.
 */
static size_t find_place(const struct counters *counters)
{
	const struct process_totals *now, *before;

	if (counters->pid_count < COUNTERS_PROCESSES_MAX)
		return counters->pid_count;
	for (size_t i = 1; i < COUNTERS_PROCESSES_MAX; i++) {
		process_stats_find(counters->stats, counters->pids[i], &now, &before);
		if (!now && counters->followed_ns[i] < counters->stats->readings[counters->stats->now].time_ns)
			return i;
	}
	return COUNTERS_PROCESSES_MAX;
}

void counters_follow(struct counters *counters, pid_t pid)
{
	for (size_t i = 0; i < counters->pid_count; i++)
		if (counters->pids[i] == pid)
			return;
	size_t place = find_place(counters);
	if (place == COUNTERS_PROCESSES_MAX) {
		counters->left_out++;
		return;
	}
	counters->pids[place] = pid;
	counters->followed_ns[place] = time_monotonic_ns();
	if (place == counters->pid_count)
		counters->pid_count++;
}

/* ---- /proc ---- */

static uint64_t number_after(const char *text, const char *key)
{
	const char *at = strstr(text, key);
	return at ? strtoull(at + strlen(key), NULL, 10) : 0;
}

static void read_switches(pid_t pid, struct stats_record *record)
{
	char path[64], text[4096];
	_cleanup_(dir_closep) DIR *threads = proc_open_threads(pid);
	unsigned count = 0;

	for (pid_t tid; count < THREADS_READ_MAX && (tid = proc_next(threads)) > 0; count++) {
		snprintf(path, sizeof(path), "/proc/%d/task/%d/status", (int)pid, (int)tid);
		if (io_read_text(path, text, sizeof(text)) <= 0)
			continue;
		record->voluntary_switches += number_after(text, "\nvoluntary_ctxt_switches:");
		record->involuntary_switches += number_after(text, "\nnonvoluntary_ctxt_switches:");
	}
}

static int read_process(struct counters *counters, pid_t pid)
{
	struct stats_record record = {.pid = (__u32)pid, .kind = STATS_LEADER};
	struct proc_stat stat;

	if (!proc_read_stat(pid, 0, &stat))
		return 0;
	uint64_t tick_ns = (uint64_t)NS_PER_S / (uint64_t)sysconf(_SC_CLK_TCK);
	record.cpu_ns = (stat.user_ticks + stat.system_ticks) * tick_ns;
	record.started_ns = stat.start_ticks * tick_ns;
	record.rss_pages = stat.rss_pages > 0 ? (__u64)stat.rss_pages : 0;
	read_switches(pid, &record);
	return process_stats_add(counters->stats, &record);
}

/* 0 = unknown. */
static double mean_frequency(void)
{
	double sum = 0;
	unsigned count = 0;

	for (unsigned cpu = 0; cpu < CPUS_READ_MAX; cpu++) {
		char path[80], text[32];
		snprintf(path, sizeof(path), "/sys/devices/system/cpu/cpu%u/cpufreq/scaling_cur_freq", cpu);
		if (io_read_text(path, text, sizeof(text)) <= 0)
			break;
		sum += 1000.0 * (double)strtoull(text, NULL, 10);
		count++;
	}
	return count ? sum / count : 0;
}

/* ---- readings ---- */

static int add_pending(struct counters *counters, const struct counter_reading *reading)
{
	if (array_reserve(&counters->pending, &counters->pending_capacity, counters->pending_count + 1, PENDING_MAX) < 0)
		return -ENOMEM;
	counters->pending[counters->pending_count++] = *reading;
	return 0;
}

static int compare(struct counters *counters, pid_t pid)
{
	const struct process_totals *now, *before;
	int64_t took_ns = process_stats_find(counters->stats, pid, &now, &before);

	if (!now || !before || took_ns <= 0)
		return 0;
	int64_t cpu_ns = now->values[PROCESS_STATS_CPU] - before->values[PROCESS_STATS_CPU];
	int64_t switches = now->values[PROCESS_STATS_VOLUNTARY_SWITCHES] + now->values[PROCESS_STATS_INVOLUNTARY_SWITCHES] -
			   before->values[PROCESS_STATS_VOLUNTARY_SWITCHES] -
			   before->values[PROCESS_STATS_INVOLUNTARY_SWITCHES];
	/* Counters of threads that end in between may be missing from one reading. */
	struct counter_reading reading = {
		.pid = pid,
		.time_ns = counters->stats->readings[counters->stats->now].time_ns,
		.cpu_share = cpu_ns > 0 ? (double)cpu_ns / (double)took_ns : 0,
		.switches = switches > 0 ? (double)switches : 0,
		.resident_bytes = (double)now->values[PROCESS_STATS_RSS],
	};
	return add_pending(counters, &reading);
}

int counters_read(struct counters *counters, struct error *err)
{
	int64_t began_ns = time_monotonic_ns();
	int r = 0;

	if (!counters->by_proc) {
		r = process_stats_read(counters->stats, err);
	} else {
		process_stats_begin(counters->stats, began_ns);
		for (size_t i = 0; i < counters->pid_count && r == 0; i++)
			r = read_process(counters, counters->pids[i]);
		if (r < 0)
			return error_nomem(err);
	}
	for (size_t i = 0; i < counters->pid_count && r == 0; i++)
		r = compare(counters, counters->pids[i]) < 0 ? error_nomem(err) : 0;
	struct counter_reading machine = {.time_ns = began_ns, .hz = mean_frequency()};
	if (r == 0 && machine.hz > 0 && add_pending(counters, &machine) < 0)
		r = error_nomem(err);
	int64_t took_ns = time_monotonic_ns() - began_ns, wait_ns = counters->interval_ns;
	if (took_ns * COST_PARTS > wait_ns)
		wait_ns = took_ns * COST_PARTS;
	counters->next_ns = began_ns + wait_ns;
	return r;
}

/* ---- into the profile ---- */

static const struct {
	const char *texts[5]; /* name, category, description, unit, colour */
	enum profile_counter_kind kind;
} kinds[] = {
	{{"processCPU", "CPU", "CPU use of the process", "percent", "grey"}, PROFILE_COUNTER_SHARE},
	{{"Context switches", "CPU", "switches away from threads of the process", "count", "purple"}, PROFILE_COUNTER_EVENTS},
	{{"Memory", "Memory", "resident memory of the process", "bytes", "orange"}, PROFILE_COUNTER_LEVEL},
	{{"CPU frequency", "CPU", "mean of all CPUs of the machine", "hertz", "blue"}, PROFILE_COUNTER_LEVEL},
};
enum { KIND_CPU, KIND_SWITCHES, KIND_MEMORY, KIND_FREQUENCY };

static int add_row(struct profile *profile, size_t kind, pid_t pid, int64_t time_ns, double value, struct error *err)
{
	struct profile_counter counter = {.kind = kinds[kind].kind, .pid = pid};
	uint32_t *const strings[] = {&counter.name, &counter.category, &counter.description, &counter.unit, &counter.color};
	uint32_t id;
	int r = 0;

	for (size_t i = 0; i < sizeof(strings) / sizeof(*strings) && r == 0; i++)
		r = profile_add_cstring(profile, kinds[kind].texts[i], strings[i], err);
	if (r == 0)
		r = profile_add_counter(profile, &counter, &id, err);
	return r < 0 ? r : profile_add_counter_row(profile, id, time_ns, value, err);
}

int counters_move(struct counters *counters, int64_t wall_clock_ns, struct profile *profile, struct error *err)
{
	int r = 0;

	for (size_t i = 0; i < counters->pending_count && r == 0; i++) {
		const struct counter_reading *reading = &counters->pending[i];
		int64_t time_ns = reading->time_ns + wall_clock_ns;
		if (!reading->pid) {
			r = add_row(profile, KIND_FREQUENCY, counters->pid_count ? counters->pids[0] : 0, time_ns, reading->hz,
				    err);
			continue;
		}
		r = add_row(profile, KIND_CPU, reading->pid, time_ns, reading->cpu_share, err);
		if (r == 0)
			r = add_row(profile, KIND_SWITCHES, reading->pid, time_ns, reading->switches, err);
		if (r == 0)
			r = add_row(profile, KIND_MEMORY, reading->pid, time_ns, reading->resident_bytes, err);
	}
	counters->pending_count = 0;
	return r;
}
