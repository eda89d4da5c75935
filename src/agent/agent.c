// SPDX-License-Identifier: Apache-2.0
/*
 * The agent's life: make everything, wait, drain, flush.
 *
 * One thread. It sleeps until the next flush, unless a ring becomes half full before, and then only drains it. A flush drains
 * up to a moment ago, hands the profile to the sink, and does the housekeeping that must not happen while samples
 * are being attributed: CPUs that came and went, processes that ended, tables that grew too large.
 */
#include <errno.h>
#include <malloc.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "agent/agent_int.h"
#include "agent/process/targets.h"
#include "agent/runtime/likely.h"
#include "base/alloc.h"
#include "base/limits.h"
#include "base/time.h"

#define FREQUENCY_DEFAULT_HZ 19u
#define FREQUENCY_MAX_HZ     10000u
#define FLUSH_DEFAULT_NS     (10 * NS_PER_S)
#define EVENT_RING_BYTES     131072u
#define OWN_RING_BYTES	     524288u /* what users may lock by default, for each CPU */
#define EVENT_RING_BYTES_MAX (1u << 20)
#define FILTER_MAX	     16384u
#define CHAIN_FRAMES_MAX     1048576u /* 8 MiB, of stacks as deep as can be; of others a part of it is taken */
#define RING_BYTES_LEAST     131072u  /* room for some copies of stacks */
#define RING_BYTES_FEW_CPUS  262144u  /* and for those of an agent that has to wait for its turn, where that is cheap */
#define FEW_CPUS	     16
#define HEAP_BYTES_MAX	     (1024 * MIB)
#define RING_BYTES_MOST	     (1u << 20)
#define HEAP_BYTES	     (32 * MIB)
#define PROCESSES_KNOWN_MAX  16384u /* by the kernel side */
#define OFF_CPU_KERNEL_MAX   32768u /* waiting threads that are looked at, at a time */
#define OFF_CPU_OFTEN	     (ABI_CHANCE_ALWAYS / 10)
#define SLACK_NS	     NS_PER_MS /* between a record's time and its becoming visible */
#define WAKEUP_LEAST_NS	     (10 * NS_PER_MS)
#define WAKEUP_MOST_NS	     (50 * NS_PER_MS)
#define LOOK_PART	     300 /* looks at new processes take this part of the time at most */
#define WARM_UP_NS	     (200 * NS_PER_MS)
#define WARM_UP_TABLES_NS    (300 * NS_PER_MS) /* longer, tables are made: a recording must begin about when it was asked for */
#define WARM_UP_DRAINS	     8u		       /* at least, however busy the machine is */
#define IDLE_NS		     NS_PER_S	       /* at least this often on_idle() is called */
#define CHECK_FLUSHES	     64
#define BUDGET_OF_CPU	     0.005
#define BUDGET_OF_MACHINE    0.001
#define REAP_NS		     NS_PER_S
#define EXITED_KEPT	     1024u /* processes that ended, until the flush; 1 to 2 MB */

const char *const agent_loss_names[AGENT_LOSS_COUNT] = {
	[AGENT_LOSS_COUNTS_FULL] = "counts_full",
	[AGENT_LOSS_STACKS_FULL] = "stacks_full",
	[AGENT_LOSS_NO_USER_STACK] = "no_user_stack",
	[AGENT_LOSS_NO_KERNEL_STACK] = "no_kernel_stack",
	[AGENT_LOSS_NO_PROCESS] = "no_process",
	[AGENT_LOSS_NO_MAPPING] = "no_mapping",
	[AGENT_LOSS_EVENTS] = "events",
	[AGENT_LOSS_FILTER_FULL] = "filter_full",
	[AGENT_LOSS_OFF_CPU_FULL] = "off_cpu_full",
	[AGENT_LOSS_NO_NAME] = "no_name",
};

const char *const agent_cost_names[AGENT_COST_COUNT] = {
	[AGENT_COST_OTHER] = "other",	      [AGENT_COST_SAMPLES] = "samples", [AGENT_COST_PROCESSES] = "processes",
	[AGENT_COST_TABLES] = "tables",	      [AGENT_COST_SYMBOLS] = "symbols", [AGENT_COST_PROFILES] = "profiles",
	[AGENT_COST_STATS] = "process_stats",
};

enum { TAG_STOP, TAG_WAKEUP, TAG_EVENTS, TAG_EXECS };

/* ---- making ---- */

static size_t round_up_power(uint64_t value, size_t least, size_t most)
{
	size_t power = least;
	while (power < value && power < most)
		power *= 2;
	return power;
}

static bool is_filtered(const struct agent_options *options)
{
	return options->pids || options->cgroup_count;
}

/* Half of a ring holds the samples of a flush interval; a few chains an interval come on top once a stack is known. At high
 * rates the ring is drained between flushes. */
static void size_sampler(const struct agent *agent, const struct agent_options *options, struct sampler_options *ret)
{
	int64_t flush_ns = agent->flush_interval_ns ? agent->flush_interval_ns : FLUSH_DEFAULT_NS;
	uint64_t seconds = flush_ns > 60 * NS_PER_S ? 60 : (uint64_t)((flush_ns + NS_PER_S - 1) / NS_PER_S);
	uint64_t samples = seconds * agent->frequency_hz;
	bool off_cpu = options->wall || options->off_cpu_chance;
	bool often = options->wall || options->off_cpu_chance > OFF_CPU_OFTEN;
	uint64_t ring = options->ring_bytes ? options->ring_bytes : samples * 128;

	if (!options->ring_bytes)
		ring = often ? SAMPLER_RING_BYTES_MAX : ring > RING_BYTES_MOST ? RING_BYTES_MOST : ring;
	if (!options->ring_bytes && off_cpu && !often)
		ring *= 2;

	size_t cpus = cpu_set_count(&agent->online);
	uint64_t least = options->ring_bytes ? SAMPLER_RING_BYTES_MIN
			 : cpus > FEW_CPUS   ? RING_BYTES_LEAST
					     : RING_BYTES_FEW_CPUS;
	*ret = (struct sampler_options){
		.frequency_hz = agent->frequency_hz,
		.ring_bytes = round_up_power(ring, least, SAMPLER_RING_BYTES_MAX),
		.seen_slots = round_up_power(samples * cpus, 4096, 1u << 18),
		.filter_max = is_filtered(options) ? FILTER_MAX : 0,
		.filter_cgroups_max = options->cgroup_count ? TARGET_CGROUPS_MAX : 0,
		.no_kernel = options->no_kernel,
		.cycles = options->cycles,
		.cgroup_v1 = agent->cgroups.v1,
		.heap_bytes = round_up_power(options->heap_mib ? options->heap_mib * MIB : HEAP_BYTES, UNWIND_CHUNK_BYTES,
					     HEAP_BYTES_MAX),
		.processes_max = PROCESSES_KNOWN_MAX,
		.off_cpu_max = off_cpu ? OFF_CPU_KERNEL_MAX : 0,
		.wait_least_ns = options->wall ? 0 : (uint64_t)options->off_cpu_least_ns,
		.wait_runnable = options->wall,
	};
}

static int check_options(const struct agent_options *options, struct error *err)
{
	if (options->frequency_hz > FREQUENCY_MAX_HZ)
		return error_set(err, -EINVAL, "a sampling frequency of %u Hz is too high; the limit is %u Hz",
				 options->frequency_hz, FREQUENCY_MAX_HZ);
	unsigned hz = options->frequency_hz ? options->frequency_hz : FREQUENCY_DEFAULT_HZ;
	if (options->frequency_least_hz > hz)
		return error_set(err, -EINVAL, "the minimum sampling frequency, %u Hz, is above the frequency, %u Hz",
				 options->frequency_least_hz, hz);
	if (options->wall && (!is_filtered(options) || options->off_cpu_chance))
		return error_set(
			err, -EINVAL,
			"wall-clock profiling needs a choice of processes, and cannot be combined with off-CPU profiling");
	if (options->unprivileged &&
	    (!options->pids || options->cgroup_count || options->wall || options->off_cpu_chance || options->process_stats))
		return error_set(err, -EPERM,
				 "without privileges, only the CPU time of your own processes can be recorded, given by pid");
	if (options->flush_interval_ns < 0)
		return error_set(err, -EINVAL, "the flush interval is negative");
	if (options->pid_count > FILTER_MAX)
		return error_set(err, -E2BIG, "%zu processes are too many to follow; the limit is %u", options->pid_count,
				 FILTER_MAX);
	return 0;
}

static int watch(struct agent *agent, int fd, uint32_t tag, struct error *err)
{
	struct epoll_event wanted = {.events = EPOLLIN, .data.u32 = tag};

	if (epoll_ctl(agent->epoll_fd, EPOLL_CTL_ADD, fd, &wanted) < 0)
		return error_set_errno(err, -errno, "cannot wait for samples");
	return 0;
}

static const char *second_type(const struct agent_options *options)
{
	if (options->wall)
		return options->timed ? "cpu" : NULL;
	return options->off_cpu_chance && options->one_profile ? "off_cpu" : NULL;
}

static void init_builders(struct agent *agent, const struct agent_options *options)
{
	agent->builder = (struct profile_builder){
		.sink = &agent->sink,
		.binaries = &agent->binaries,
		.chains = &agent->chains,
		.cgroups = &agent->cgroups,
		.labels = &agent->labels,
		.relabel = options->relabel,
		.types = {options->wall ? "wall" : "cpu", second_type(options)},
		.is_timed = options->timed,
		.cpu_is_second = options->wall && options->timed,
		.period_ns = NS_PER_S / agent->frequency_hz,
	};
	agent->off_cpu_builder = agent->builder;
	agent->off_cpu_builder.types[0] = "off_cpu";
	agent->off_cpu_builder.types[1] = NULL;
	agent->off_cpu_builder.cpu_is_second = false;
	agent->off_cpu_builder.period_ns = 1;
	agent->run_once = options->run_once;
	agent->off_cpu_is_separate = options->off_cpu_chance && !options->one_profile;
	agent->off_cpu_column = !options->wall && agent->builder.types[1] != NULL;
	agent->wait_chance = options->wall ? ABI_CHANCE_ALWAYS : options->off_cpu_chance;
	agent->wait_least_ns = options->wall ? 0 : options->off_cpu_least_ns;
	profile_builder_init(&agent->builder);
	profile_builder_init(&agent->off_cpu_builder);
}

/* Everything that needs no privileges. */
static int init_tables(struct agent *agent, const struct agent_options *options, struct error *err)
{
	int r = options->labels ? labels_copy(&agent->labels, options->labels, err) : 0;
	if (r == 0)
		r = cpu_set_read("online", &agent->online, err);
	if (r == 0)
		r = cgroups_init(&agent->cgroups, err);
	if (r < 0)
		return r;
	agent->chains.frames_max = CHAIN_FRAMES_MAX;
	if (binaries_init(&agent->binaries) < 0 || process_table_init(&agent->processes, &agent->binaries) < 0)
		return error_nomem(err);
	init_builders(agent, options);
	agent->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	agent->stop_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (agent->epoll_fd < 0 || agent->stop_fd < 0)
		return error_set_errno(err, -errno, "cannot start the agent");
	return watch(agent, agent->stop_fd, TAG_STOP, err);
}

static void get_counters(const struct agent *agent, struct sampler_counters *ret)
{
	if (agent->sampler) {
		sampler_get_counters(agent->sampler, ret);
		return;
	}
	*ret = (struct sampler_counters){.cpus = cpu_set_count(&agent->online)};
	ret->counters[ABI_COUNT_SAMPLES] = agent->unprivileged->samples;
	ret->counters[ABI_COUNT_RING_FULL] = agent->unprivileged->lost;
}

/* Time of the BPF programs, which is CLOCK_MONOTONIC, and CPU time of the process. */
static uint64_t all_cost_ns(const struct sampler_counters *counters)
{
	return counters->counters[ABI_COUNT_RUN_NS] + (uint64_t)time_process_cpu_ns();
}

/* What of it falls with the rate. */
static uint64_t sampling_cost_ns(const struct agent *agent, const struct sampler_counters *counters)
{
	return counters->counters[ABI_COUNT_RUN_NS] + agent->meter.ns[AGENT_COST_SAMPLES];
}

static double budget_of(const struct agent *agent)
{
	double machine = (double)cpu_set_count(&agent->online) * BUDGET_OF_MACHINE;
	if (agent->budget >= 0)
		return agent->budget;
	return machine > BUDGET_OF_CPU ? machine : BUDGET_OF_CPU;
}

static void start_governor(struct agent *agent, const struct agent_options *options, const struct sampler_counters *counters)
{
	int64_t now_ns = time_monotonic_ns();

	agent->budget = options->budget;
	governor_init(&agent->governor, budget_of(agent), agent->frequency_hz, options->frequency_least_hz, now_ns,
		      sampling_cost_ns(agent, counters));
	agent->cost =
		(struct cost_share){.time_ns = now_ns, .smooth_ns = COST_SHARE_SMOOTH_NS, .cost_ns = all_cost_ns(counters)};
}

struct sleepers {
	struct agent *agent;
	struct abi_sample begin; /* of them all */
};

static int add_sleeper(void *context, pid_t tid, const char *comm)
{
	struct agent *agent = ((struct sleepers *)context)->agent;
	struct abi_sample begin = ((struct sleepers *)context)->begin;

	begin.tid = (__u32)tid;
	snprintf(begin.comm, sizeof(begin.comm), "%s", comm);
	return sampler_add_wait(agent->sampler, tid, begin.time_ns) < 0 ? 0 : off_cpu_begin(&agent->off_cpu, &begin);
}

/* Threads that sleep already have waited since now, nobody knows where. */
static int start_off_cpu(struct agent *agent, const struct agent_options *options, struct error *err)
{
	int r = 0;

	sampler_set_wait_chance(agent->sampler, agent->wait_chance);
	for (size_t i = 0; options->wall && i < options->pid_count && r == 0; i++) {
		struct sleepers sleepers = {.agent = agent};
		sleepers.begin = (struct abi_sample){
			.time_ns = (__u64)time_monotonic_ns(),
			.tgid = (__u32)options->pids[i],
			.value = ABI_CHANCE_ALWAYS,
			.result = UNWIND_NO_USER,
			.what = ABI_WAIT_BEGINS,
		};
		r = off_cpu_find_sleepers(options->pids[i], add_sleeper, &sleepers);
	}
	return r < 0 ? error_nomem(err) : 0;
}

struct found_cgroups {
	uint64_t ids[TARGET_CGROUPS_MAX];
	size_t count;
	uint64_t left_out;
};

static int note_cgroup(void *context, uint64_t id, const char *path)
{
	struct found_cgroups *found = context;
	(void)path;
	for (size_t i = 0; i < found->count; i++)
		if (found->ids[i] == id)
			return 0;
	if (found->count < TARGET_CGROUPS_MAX)
		found->ids[found->count++] = id;
	else
		found->left_out++;
	return 0;
}

/* Those that there are now: where jobs have groups of their own, many come and go. */
static int follow_cgroups(struct agent *agent, struct error *err)
{
	struct found_cgroups found = {0};
	if (!agent->sampler || !agent->followed_cgroup_count)
		return 0;
	target_cgroups_each(agent->followed_cgroups, agent->followed_cgroup_count, note_cgroup, &found);
	if (found.left_out > agent->cgroups_left_out)
		agent->cgroups_left_out = found.left_out;
	return sampler_set_cgroups(agent->sampler, found.ids, found.count, err);
}

static int start_unwinder(struct agent *agent, const struct agent_options *options, struct error *err)
{
	int r = unwinder_new(agent->sampler, &agent->binaries, &agent->processes, options->cache_directory, &agent->unwinder,
			     err);

	if (r == 0)
		unwinder_runtimes(agent->unwinder)->kinds &= ~options->no_runtimes;
	if (r == 0)
		agent->builder.runtimes = agent->off_cpu_builder.runtimes = unwinder_runtimes(agent->unwinder);
	return r;
}

/* Whether a process that is recorded is likely to have a runtime: then the program for them is loaded before its first sample.
 * Where all are recorded, it is while the agent warms up. */
static bool runtimes_are_likely(const struct agent_options *options)
{
	if (options->command && runtime_is_likely_in_command(options->command))
		return true;
	for (size_t i = 0; i < options->pid_count; i++)
		if (runtime_is_likely_in_process(options->pids[i]))
			return true;
	return false;
}

/* The kernel begins to record; first the events, so that none is missed between the snapshot and the first sample. */
static int start_sampler(struct agent *agent, const struct agent_options *options, struct error *err)
{
	struct sampler_options sampling;

	size_sampler(agent, options, &sampling);
	sampling.runtimes = options->no_runtimes != RUNTIME_ALL && runtimes_are_likely(options);
	int r = sampler_new(&sampling, &agent->sampler, err);
	if (r == 0)
		r = start_unwinder(agent, options, err);
	if (r == 0)
		r = watch(agent, sampler_wakeup_fd(agent->sampler), TAG_WAKEUP, err);
	if (r == 0)
		r = watch(agent, sampler_execs_fd(agent->sampler), TAG_EXECS, err);
	if (r == 0)
		r = events_new(round_up_power(options->event_ring_bytes ? options->event_ring_bytes : EVENT_RING_BYTES, 4096,
					      EVENT_RING_BYTES_MAX),
			       &agent->events, err);
	if (r == 0)
		r = events_set_cpus(agent->events, &agent->online, agent->epoll_fd, TAG_EVENTS, err);
	for (size_t i = 0; i < options->pid_count && r == 0; i++)
		r = sampler_add_pid(agent->sampler, options->pids[i], err);
	if (r == 0)
		r = follow_cgroups(agent, err);
	if (r == 0 && agent->cgroups_left_out)
		return error_set(err, -E2BIG, "more than %u cgroups to record, including those below them", TARGET_CGROUPS_MAX);
	return r;
}

/* Here events and samples come together: what is known of a process before its first one is read from /proc then. */
static int start_unprivileged(struct agent *agent, const struct agent_options *options, struct error *err)
{
	if (unprivileged_sampler_new(&agent->unprivileged) < 0)
		return error_nomem(err);
	int r = start_unwinder(agent, options, err);
	if (r == 0) /* no program walks what they run */
		unwinder_runtimes(agent->unwinder)->kinds = 0;
	if (r == 0)
		r = events_new_unprivileged(OWN_RING_BYTES, agent->frequency_hz, &agent->online, agent->epoll_fd, TAG_EVENTS,
					    &agent->events, err);
	if (r == 0)
		r = agent_add_pid(agent, options->pids[0], err);
	for (size_t i = 1; i < options->pid_count && r == 0; i++) {
		r = agent_add_pid(agent, options->pids[i], err);
		r = r == -EPERM ? 0 : r;
	}
	return r;
}

/*
 * Samples the whole machine for a moment and counts nothing of it: so the kernel side knows the mappings and tables of what
 * runs before the first sample that counts. Otherwise the first samples of a busy machine come all at once from processes that
 * it does not know, more than can bring a copy of their stack.
 */
static int warm_up(struct agent *agent, struct error *err)
{
	int64_t end = time_monotonic_ns() + WARM_UP_NS;
	struct sampler_counters counters;
	int r = 0;

	agent->is_warming = true;
	unwinder_warm_up(agent->unwinder, end + WARM_UP_TABLES_NS);
	for (unsigned i = 0; r >= 0 && (i < WARM_UP_DRAINS || time_monotonic_ns() < end); i++) {
		time_sleep_ns(WAKEUP_LEAST_NS);
		r = agent_drain(agent, time_monotonic_ns(), err);
	}
	unwinder_warm_up(agent->unwinder, 0);
	/* The last one may have taken long, on a busy machine or with a program to load: what came meanwhile does not count. */
	if (r >= 0)
		r = agent_drain(agent, time_monotonic_ns(), err);
	agent->is_warming = false;
	sampler_get_counters(agent->sampler, &counters);
	agent->warming_lost = counters.counters[ABI_COUNT_RING_FULL];
	return r < 0 ? r : 0;
}

/* What there is before the first sample. Processes that are not sampled need not be known: reading all of a machine takes
 * longer than many recordings do. */
static int see_processes(struct agent *agent, const struct agent_options *options, struct error *err)
{
	int r = 0;
	if (!options->pids || options->cgroup_count)
		return process_table_snapshot(&agent->processes, err);
	for (size_t i = 0; i < options->pid_count && r == 0; i++)
		r = process_table_see(&agent->processes, options->pids[i], err);
	return r;
}

static int start(struct agent *agent, const struct agent_options *options, struct error *err)
{
	int r = options->unprivileged ? start_unprivileged(agent, options, err) : start_sampler(agent, options, err);
	agent->processes.meter = agent->binaries.meter = &agent->meter;
	if (r == 0)
		r = see_processes(agent, options, err);
	if (r < 0)
		return r;
	process_table_check(&agent->processes);
	agent->cursors =
		mem_alloc_array(agent_sample_cpus(agent) + (size_t)events_cpu_limit(agent->events), sizeof(*agent->cursors));
	if (!agent->cursors)
		return error_nomem(err);
	if (agent->sampler)
		r = sampler_set_cpus(agent->sampler, &agent->online, err);
	if (r == 0 && agent->sampler && !is_filtered(options))
		r = warm_up(agent, err);
	if (r == 0 && agent->sampler)
		r = start_off_cpu(agent, options, err);
	/* Where it has warmed up, the first interval begins where that has ended: samples since then count. */
	if (!agent->drained_ns)
		agent->drained_ns = time_monotonic_ns();
	agent->interval_start_ns = agent->drained_ns;
	return r;
}

/* Profiles are worth having without process stats and counters. Returns -ENOMEM, which is none of their problems, or 0. */
static int go_without(struct agent *agent, int code, const struct error *why, char problem[ERROR_MESSAGE_MAX],
		      struct error *err)
{
	if (code == -ENOMEM)
		return error_nomem(err);
	THREAD_LOCK_SCOPE(&agent->stats_lock);
	memcpy(problem, why->message, ERROR_MESSAGE_MAX);
	return 0;
}

static int no_process_stats(struct agent *agent, int code, const struct error *why, struct error *err)
{
	agent->process_stats = process_stats_free(agent->process_stats);
	return go_without(agent, code, why, agent->stats.process_stats_problem, err);
}

static int no_counters(struct agent *agent, int code, const struct error *why, struct error *err)
{
	agent->counters = counters_free(agent->counters);
	return go_without(agent, code, why, agent->stats.counters_problem, err);
}

static int start_process_stats(struct agent *agent, const struct agent_options *options, struct error *err)
{
	struct error why = {0};
	int r = options->process_stats ? process_stats_new(agent->cgroups.v1, &agent->process_stats, &why) : 0;
	return r < 0 ? no_process_stats(agent, r, &why, err) : 0;
}

static int start_counters(struct agent *agent, const struct agent_options *options, struct error *err)
{
	struct error why = {0};

	if (!options->counters_interval_ns)
		return 0;
	int r = counters_new(agent->cgroups.v1, options->unprivileged, options->counters_interval_ns, &agent->counters, &why);
	if (r < 0)
		return no_counters(agent, r, &why, err);
	for (size_t i = 0; i < options->pid_count; i++)
		counters_follow(agent->counters, options->pids[i]);
	return 0;
}

/* Which processes enter a cgroup no event says. */
static int prepare_lifetimes(struct agent *agent, const struct agent_options *options, struct error *err)
{
	if (!options->lifetimes)
		return 0;
	int r = lifetimes_new(!options->pid_count || options->cgroup_count, &agent->lifetimes, err);
	for (size_t i = 0; i < options->pid_count && r == 0; i++)
		r = lifetimes_follow(agent->lifetimes, options->pids[i], err);
	return r;
}

static int read_counters(struct agent *agent, struct error *err)
{
	struct error why = {0};
	enum agent_cost before = cost_enter(&agent->meter, AGENT_COST_STATS);
	int r = counters_read(agent->counters, &why);
	cost_enter(&agent->meter, before);
	return r < 0 ? no_counters(agent, r, &why, err) : 0;
}

/* Says so when the kernel is too old, which is why most other things fail then. */
static int explain(int code, struct error *err)
{
	struct utsname names;
	unsigned major_number, minor_number;

	if (code != -EPERM && uname(&names) == 0 && sscanf(names.release, "%u.%u", &major_number, &minor_number) == 2 &&
	    (major_number < 5 || (major_number == 5 && minor_number < 15)))
		error_prefix(err, code, "Linux %s is older than 5.15, the oldest supported version", names.release);
	return code;
}

static void fill_stats(struct agent *agent, const struct sampler_counters *counters);

int agent_new(const struct agent_options *options, const struct agent_sink *sink, struct agent **ret, struct error *err)
{
	int r = check_options(options, err);
	if (r < 0)
		return r;
	_cleanup_(agent_freep) struct agent *agent = mem_zalloc(sizeof(*agent));
	if (!agent)
		return error_nomem(err);
	pthread_mutex_init(&agent->stats_lock, NULL);
	/* Else it grows with the largest table that was built, and the allocator keeps that much. */
	mallopt(M_MMAP_THRESHOLD, 128 * 1024);
	agent->epoll_fd = agent->stop_fd = -1;
	agent->cgroups.root_fd = -1;
	agent->sink = *sink;
	agent->frequency_hz = options->frequency_hz ? options->frequency_hz : FREQUENCY_DEFAULT_HZ;
	agent->flush_interval_ns = options->flush_interval_ns;
	agent->waits_for_exec = options->at_exec && options->pid_count ? options->pids[0] : 0;
	agent->followed_cgroups = options->cgroups;
	agent->followed_cgroup_count = options->cgroup_count;
	agent->jitter = (uint64_t)time_now_ns();
	r = init_tables(agent, options, err);
	if (r == 0)
		r = prepare_lifetimes(agent, options, err);
	if (r == 0)
		r = start(agent, options, err);
	if (r == 0)
		r = start_process_stats(agent, options, err);
	if (r == 0)
		r = start_counters(agent, options, err);
	if (r < 0)
		return explain(r, err);
	struct sampler_counters counters;
	get_counters(agent, &counters);
	start_governor(agent, options, &counters);
	fill_stats(agent, &counters);
	malloc_trim(0); /* libbpf read all of the kernel's BTF, and let go of it */
	*ret = TAKE(agent);
	return 0;
}

struct agent *agent_free(struct agent *agent)
{
	if (!agent)
		return NULL;
	if (agent->sampler)
		sampler_stop(agent->sampler);
	unwinder_free(agent->unwinder);
	process_table_release(&agent->processes);
	binaries_release(&agent->binaries);
	sampler_free(agent->sampler);
	events_free(agent->events);
	unprivileged_sampler_free(agent->unprivileged);
	process_stats_free(agent->process_stats);
	counters_free(agent->counters);
	lifetimes_free(agent->lifetimes);
	profile_builder_release(&agent->builder);
	profile_builder_release(&agent->off_cpu_builder);
	off_cpu_release(&agent->off_cpu);
	chains_release(&agent->chains);
	cgroups_release(&agent->cgroups);
	labels_release(&agent->labels);
	mem_free(agent->cursors);
	fd_closep(&agent->epoll_fd);
	fd_closep(&agent->stop_fd);
	pthread_mutex_destroy(&agent->stats_lock);
	return mem_free(agent);
}

int agent_add_pid(struct agent *agent, pid_t pid, struct error *err)
{
	if (agent->lifetimes && lifetimes_follow(agent->lifetimes, pid, err) < 0)
		return -ENOMEM;
	if (agent->unprivileged) {
		int r = events_add_process(agent->events, pid, pid == agent->waits_for_exec, err);
		agent->unprivileged->refused += r == -EPERM;
		return r;
	}
	int r = process_table_see(&agent->processes, pid, err);
	return r < 0 ? r : sampler_add_pid(agent->sampler, pid, err);
}

void agent_stop(struct agent *agent)
{
	int saved = errno;
	uint64_t one = 1;

	atomic_store(&agent->stopping, true);
	ssize_t written = write(agent->stop_fd, &one, sizeof(one));
	(void)written; /* full means that it is readable already */
	errno = saved;
}

/* ---- figures ---- */

/* The upper end of the bucket in which the quantile lies. */
static uint64_t run_quantile(const struct sampler_counters *counters, double quantile)
{
	uint64_t total = 0, seen = 0;

	for (size_t i = 0; i < ABI_RUN_BUCKETS; i++)
		total += counters->run_buckets[i];
	for (size_t i = 0; i < ABI_RUN_BUCKETS; i++) {
		seen += counters->run_buckets[i];
		if (seen && (double)seen >= quantile * (double)total)
			return (i + 1) << ABI_RUN_BUCKET_SHIFT;
	}
	return 0;
}

static void fill_unwind_stats(struct agent *agent, const struct sampler_counters *counters, struct agent_unwind_stats *ret)
{
	unwinder_get_stats(agent->unwinder, ret);
	ret->frames = counters->counters[ABI_COUNT_FRAMES];
	for (size_t kind = 0; kind < RUNTIME_KINDS; kind++) {
		ret->runtimes[kind].samples = counters->counters[ABI_COUNT_RUNTIME(kind, ABI_RUNTIME_SAMPLES)];
		ret->runtimes[kind].frames = counters->counters[ABI_COUNT_RUNTIME(kind, ABI_RUNTIME_FRAMES)];
		ret->runtimes[kind].unknown = counters->counters[ABI_COUNT_RUNTIME(kind, ABI_RUNTIME_UNKNOWN)];
	}
	ret->program_ns = counters->counters[ABI_COUNT_RUN_NS];
	ret->program_ns_p50 = run_quantile(counters, 0.5);
	ret->program_ns_p99 = run_quantile(counters, 0.99);
}

static void fill_stats(struct agent *agent, const struct sampler_counters *counters)
{
	THREAD_LOCK_SCOPE(&agent->stats_lock);
	struct agent_stats *stats = &agent->stats;
	for (size_t i = 0; i < AGENT_LOSS_COUNT; i++)
		stats->samples_lost[i] = agent->builder.losses[i] + agent->off_cpu_builder.losses[i];
	fill_unwind_stats(agent, counters, &stats->unwind);
	stats->samples_taken = counters->counters[ABI_COUNT_SAMPLES] - agent->warming_samples;
	stats->samples_lost[AGENT_LOSS_COUNTS_FULL] = counters->counters[ABI_COUNT_RING_FULL] - agent->warming_lost;
	stats->samples_lost[AGENT_LOSS_EVENTS] = agent->events_lost;
	stats->samples_lost[AGENT_LOSS_FILTER_FULL] = counters->filter_full;
	stats->samples_lost[AGENT_LOSS_OFF_CPU_FULL] = counters->counters[ABI_COUNT_WAITS_FULL] + agent->off_cpu.dropped;
	stats->off_cpu_intervals = counters->counters[ABI_COUNT_WAITS];
	stats->stacks_sent = counters->counters[ABI_COUNT_CHAINS];
	stats->bpf_run_ns = counters->run_ns;
	stats->bpf_run_count = counters->run_count;
	stats->relabel_dropped = agent->builder.relabel_dropped + agent->off_cpu_builder.relabel_dropped;
	stats->processes = agent->processes.by_pid.count;
	stats->cgroups_left_out = agent->cgroups_left_out;
	stats->unprivileged_refused = agent->unprivileged ? agent->unprivileged->refused : 0;
	stats->counters_left_out = agent->counters ? agent->counters->left_out : 0;
	stats->mappings = agent->processes.mapping_count;
	stats->binaries = agent->binaries.used;
	stats->cpus_online = counters->cpus;
	stats->frequency_hz = agent->governor.hz;
	stats->frequency_asked_hz = agent->frequency_hz;
	stats->cost_share = agent->cost.share;
	stats->sampling_share = agent->governor.share.share;
	stats->budget = agent->governor.budget;
	stats->rate_changes = agent->governor.changes;
	memcpy(stats->cost_ns, agent->meter.ns, sizeof(stats->cost_ns));
	snprintf(stats->event, sizeof(stats->event), "%s", agent->unprivileged ? "cpu-clock:u" : sampler_event(agent->sampler));
	snprintf(stats->runtimes_problem, sizeof(stats->runtimes_problem), "%s",
		 agent->sampler ? sampler_runtimes_problem(agent->sampler) : "");
}

static void count_flush(struct agent *agent, int64_t took_ns)
{
	THREAD_LOCK_SCOPE(&agent->stats_lock);
	agent->stats.flushes++;
	agent->stats.flush_ns_total += (uint64_t)took_ns;
	if ((uint64_t)took_ns > agent->stats.flush_ns_max)
		agent->stats.flush_ns_max = (uint64_t)took_ns;
}

void agent_get_stats(struct agent *agent, struct agent_stats *ret)
{
	THREAD_LOCK_SCOPE(&agent->stats_lock);
	*ret = agent->stats;
}

void agent_slow_counters(struct agent *agent)
{
	if (agent->counters && agent->counters->interval_ns < 3600 * NS_PER_S)
		agent->counters->interval_ns *= 2;
}

/* ---- flushing ---- */

/* Whoever reads a profile of a lowered rate should know why it has so few samples. */
static int note_rate(const struct agent *agent, struct profile *profile, struct error *err)
{
	char text[160];

	if (agent->governor.hz >= agent->frequency_hz)
		return 0;
	snprintf(text, sizeof(text), "sampled at %u Hz instead of %u Hz, to stay within %.3g%% of a CPU", agent->governor.hz,
		 agent->frequency_hz, 100 * agent->governor.budget);
	return profile_add_comment_text(profile, text, err);
}

static int hand_over_profile(struct agent *agent, struct profile_builder *builder, bool is_last, struct error *err)
{
	int64_t duration = agent->drained_ns - agent->interval_start_ns;
	int64_t start_ns = time_now_ns() - (time_monotonic_ns() - agent->interval_start_ns);
	bool is_first = builder == &agent->builder, counts = is_first && agent->counters && agent->counters->pending_count,
	     lives = is_first && agent->lifetimes && lifetimes_are_pending(agent->lifetimes, is_last);
	int r = counts || lives ? profile_builder_open(builder, err) : 0;
	if (r == 0 && counts)
		r = counters_move(agent->counters, builder->wall_clock_ns, builder->profile, err);
	if (r == 0 && lives)
		r = lifetimes_move(agent->lifetimes, &agent->processes, is_last, builder->wall_clock_ns, builder->profile, err);
	if (r < 0)
		return r;
	_cleanup_(profile_freep) struct profile *profile = profile_builder_take(builder, start_ns, duration);

	if (!profile)
		return 0;
	r = note_rate(agent, profile, err);
	if (r == 0)
		r = profile_aggregate(profile, err);
	if (r == 0 && agent->sink.on_profile)
		r = agent->sink.on_profile(agent->sink.context, profile, err);
	return r;
}

/* Hands over the profiles that were built up to drained_ns. */
static int hand_over(struct agent *agent, bool is_last, struct error *err)
{
	enum agent_cost before = cost_enter(&agent->meter, AGENT_COST_PROFILES);
	int r = hand_over_profile(agent, &agent->builder, is_last, err);

	if (r == 0)
		r = hand_over_profile(agent, &agent->off_cpu_builder, is_last, err);
	agent->interval_start_ns = agent->drained_ns;
	cost_enter(&agent->meter, before);
	return r;
}

static void count_rows(struct agent *agent, const struct profile *profile, int64_t took_ns)
{
	THREAD_LOCK_SCOPE(&agent->stats_lock);
	agent->stats.process_rows += profile ? profile->sample_count : 0;
	agent->stats.process_rows_left_out = agent->process_stats->left_out;
	agent->stats.process_stats_ns += (uint64_t)took_ns;
}

/* What processes used between two flushes, however many profiles were built meanwhile. */
static int hand_over_processes(struct agent *agent, int64_t began_ns, struct error *err)
{
	_cleanup_(profile_freep) struct profile *profile = NULL;
	struct error why = {0};
	int64_t start_ns = time_now_ns() - (time_monotonic_ns() - began_ns), cpu_ns = time_thread_cpu_ns();

	if (!agent->process_stats)
		return 0;
	int r = process_stats_take(agent->process_stats, &agent->processes, &agent->builder.sample_labels, start_ns,
				   agent->drained_ns - began_ns, &profile, &why);
	if (r < 0)
		return no_process_stats(agent, r, &why, err);
	count_rows(agent, profile, time_thread_cpu_ns() - cpu_ns);
	return profile && agent->sink.on_profile ? agent->sink.on_profile(agent->sink.context, profile, err) : 0;
}

static int sweep_binaries(struct agent *agent, struct error *err)
{
	if (!binaries_should_sweep(&agent->binaries))
		return 0;
	binaries_sweep_begin(&agent->binaries);
	process_table_mark_binaries(&agent->processes);
	return binaries_sweep_end(&agent->binaries) < 0 ? error_nomem(err) : 0;
}

static int follow_cpus(struct agent *agent, struct error *err)
{
	struct cpu_set now;

	if (agent->unprivileged || cpu_set_read("online", &now, NULL) < 0 || memcmp(&now, &agent->online, sizeof(now)) == 0)
		return 0;
	int r = events_set_cpus(agent->events, &now, agent->epoll_fd, TAG_EVENTS, err);
	if (r == 0)
		r = sampler_set_cpus(agent->sampler, &now, err);
	agent->online = now;
	return r;
}

/* Only between two profiles. */
static int do_housekeeping(struct agent *agent, struct error *err)
{
	int r = follow_cpus(agent, err);
	if (r == 0)
		r = follow_cgroups(agent, err);
	if (r < 0)
		return r;
	if (chains_are_due(&agent->chains) && off_cpu_keep_chains(&agent->off_cpu, &agent->chains) < 0)
		return error_nomem(err);
	if (chains_turn(&agent->chains) && agent->sampler)
		sampler_set_epoch(agent->sampler, agent->chains.tables[0].epoch);
	/* What ended before the drain before last: its samples are all in. */
	process_table_reap(&agent->processes, (uint64_t)agent->reaped_ns);
	agent->reaped_ns = agent->drained_ns;
	unwinder_tick(agent->unwinder);
	if (agent->flush_number % CHECK_FLUSHES == 0)
		process_table_check(&agent->processes);
	return sweep_binaries(agent, err);
}

/* A rate that cannot be set stays what it was: the governor tries another one later. */
static void stay_in_budget(struct agent *agent, const struct sampler_counters *counters)
{
	int64_t now_ns = time_monotonic_ns();

	cost_settle(&agent->meter);
	cost_share_update(&agent->cost, now_ns, all_cost_ns(counters));
	agent->governor.budget = budget_of(agent);
	if (agent->unprivileged || !governor_update(&agent->governor, now_ns, sampling_cost_ns(agent, counters)))
		return;
	double part = (double)agent->governor.hz / agent->frequency_hz;
	if (sampler_set_frequency(agent->sampler, agent->governor.hz, NULL) == 0)
		agent->builder.period_ns = NS_PER_S / agent->governor.hz;
	if (agent->wait_chance && part < 1)
		sampler_set_wait_chance(agent->sampler, (uint32_t)(agent->wait_chance * part));
	else
		sampler_set_wait_chance(agent->sampler, agent->wait_chance);
}

static int flush(struct agent *agent, int64_t until_ns, bool is_last, struct error *err)
{
	int64_t began = time_monotonic_ns(), interval_start = agent->interval_start_ns;
	struct sampler_counters counters;
	int more, r;

	do {
		more = agent_drain(agent, until_ns, err);
		r = more < 0 ? more : 0;
		if (is_last && more == 0)
			r = agent_close_off_cpu(agent, until_ns, err);
		if (r == 0)
			r = hand_over(agent, is_last && more == 0, err);
	} while (r == 0 && more > 0);
	cost_enter(&agent->meter, AGENT_COST_STATS);
	if (r == 0)
		r = hand_over_processes(agent, interval_start, err);
	cost_enter(&agent->meter, AGENT_COST_OTHER);
	agent->flush_number++;
	get_counters(agent, &counters);
	if (r == 0)
		r = do_housekeeping(agent, err);
	if (r == 0 && !is_last)
		stay_in_budget(agent, &counters);
	fill_stats(agent, &counters);
	count_flush(agent, time_monotonic_ns() - began);
	if (r == 0 && agent->sink.on_flush)
		agent->sink.on_flush(agent->sink.context);
	return r;
}

/* About as long as a CPU has until its next sample. */
static int64_t wakeup_interval_ns(const struct agent *agent)
{
	int64_t period_ns = NS_PER_S / agent->governor.hz;
	return period_ns < WAKEUP_LEAST_NS ? WAKEUP_LEAST_NS : period_ns > WAKEUP_MOST_NS ? WAKEUP_MOST_NS : period_ns;
}

/* On a machine that starts processes by the thousand, the dead cannot wait for the flush, where they would have a row of
 * process_stats. Those that were sampled, which used most of the CPU time, wait as long as they are not too many themselves. */
static bool may_reap_early(const struct agent *agent)
{
	return !agent->process_stats || agent->processes.exited_count > EXITED_KEPT;
}

static void reap_early(struct agent *agent)
{
	uint64_t before_ns = (uint64_t)agent->reaped_ns;

	process_table_reap_unsampled(&agent->processes, before_ns);
	if (may_reap_early(agent))
		process_table_reap(&agent->processes, before_ns);
	agent->reaped_ns = agent->drained_ns;
}

/* Between flushes, when a ring has filled up, or a walk could not be finished: what it lacked is to be provided soon, but a
 * wake-up may come with every sample of a busy machine that starts processes all the time. */
static int drain_only(struct agent *agent, struct error *err)
{
	int64_t wait_ns = agent->woken_ns + wakeup_interval_ns(agent) - time_monotonic_ns();

	cost_wait_begins(&agent->meter);
	time_sleep_ns(wait_ns > SLACK_NS ? wait_ns : SLACK_NS);
	cost_wait_ends(&agent->meter);
	agent->woken_ns = time_monotonic_ns();
	int64_t until = time_monotonic_ns() - SLACK_NS;
	int r = agent_drain(agent, until, err);

	if (r > 0)
		return flush(agent, until, false, err);
	if (r == 0 && may_reap_early(agent) && agent->drained_ns - agent->reaped_ns > REAP_NS)
		reap_early(agent);
	return r;
}

void agent_plan_look(struct agent *agent, int64_t time_ns)
{
	if (time_ns < agent->look_least_ns)
		time_ns = agent->look_least_ns;
	if (!agent->look_ns || time_ns < agent->look_ns)
		agent->look_ns = time_ns;
}

/* Between flushes, when new processes may have become what was expected of them. */
static int look(struct agent *agent, struct error *err)
{
	int64_t cpu_ns = time_thread_cpu_ns(), until = time_monotonic_ns() - SLACK_NS;
	int r = agent_drain(agent, until, err);

	agent->look_least_ns = time_monotonic_ns() + LOOK_PART * (time_thread_cpu_ns() - cpu_ns);
	if (agent->look_ns && agent->look_ns < agent->look_least_ns)
		agent->look_ns = agent->look_least_ns;
	return r > 0 ? flush(agent, until, false, err) : r;
}

int64_t agent_next_interval_ns(struct agent *agent)
{
	static const int64_t first[] = {1 * NS_PER_S, 2 * NS_PER_S, 5 * NS_PER_S};

	if (agent->flush_interval_ns)
		return agent->flush_interval_ns;
	if (agent->flush_number < sizeof(first) / sizeof(*first))
		return first[agent->flush_number];
	agent->jitter = hash64_mix(agent->jitter + 1);
	return FLUSH_DEFAULT_NS - FLUSH_DEFAULT_NS / 10 + (int64_t)(agent->jitter % (uint64_t)(FLUSH_DEFAULT_NS / 5));
}

/* Sleeps until the time or until something happens; positive if a ring wants to be drained. */
static int wait_until(struct agent *agent, int64_t until_ns)
{
	struct epoll_event ready[16];
	int64_t left = until_ns - time_monotonic_ns();
	int timeout_ms = left <= 0 ? 0 : left > 3600 * NS_PER_S ? 3600000 : (int)((left + NS_PER_MS - 1) / NS_PER_MS);

	cost_wait_begins(&agent->meter);
	int count = epoll_wait(agent->epoll_fd, ready, 16, timeout_ms), rings = 0;
	cost_wait_ends(&agent->meter);

	for (int i = 0; i < count; i++) {
		if (ready[i].data.u32 == TAG_EXECS) {
			sampler_clear_execs(agent->sampler);
			agent_plan_look(agent, time_monotonic_ns() + EXPECTED_LOOK_NS);
			continue;
		}
		if (ready[i].data.u32 == TAG_WAKEUP)
			sampler_clear_wakeup(agent->sampler);
		rings += ready[i].data.u32 != TAG_STOP;
	}
	return rings;
}

static int run(struct agent *agent, int64_t deadline_ns, struct error *err)
{
	int64_t next = time_monotonic_ns() + agent_next_interval_ns(agent);
	int r = 0;

	while (r == 0 && !atomic_load(&agent->stopping)) {
		if (agent->sink.on_idle && !agent->sink.on_idle(agent->sink.context))
			break;
		int64_t now = time_monotonic_ns(), until = next;
		if (deadline_ns && now >= deadline_ns)
			break;
		if (deadline_ns && deadline_ns < until)
			until = deadline_ns;
		if (agent->sink.on_idle && now + IDLE_NS < until)
			until = now + IDLE_NS;
		if (agent->counters && agent->counters->next_ns < until)
			until = agent->counters->next_ns;
		if (agent->look_ns && agent->look_ns < until)
			until = agent->look_ns;
		int rings = wait_until(agent, until);
		now = time_monotonic_ns();
		if (agent->counters && now >= agent->counters->next_ns)
			r = read_counters(agent, err);
		if (r < 0)
			break;
		if (now >= next) {
			r = flush(agent, now - SLACK_NS, false, err);
			next = now + agent_next_interval_ns(agent);
		} else if (rings > 0) {
			r = drain_only(agent, err);
		} else if (agent->look_ns && now >= agent->look_ns) {
			r = look(agent, err);
		}
	}
	return r;
}

int agent_run(struct agent *agent, int64_t deadline_ns, struct error *err)
{
	uint64_t clear;

	cost_begin(&agent->meter);
	int r = run(agent, deadline_ns, err);

	if (r == 0) {
		if (agent->run_once && agent->sampler)
			sampler_stop(agent->sampler);
		int64_t end = time_monotonic_ns();
		time_sleep_ns(SLACK_NS);
		r = flush(agent, end, true, err);
	}
	atomic_store(&agent->stopping, false);
	ssize_t n = read(agent->stop_fd, &clear, sizeof(clear));
	(void)n; /* nothing to clear is fine */
	return r;
}
