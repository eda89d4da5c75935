/* SPDX-License-Identifier: Apache-2.0 */
/*
 * wick record: the agent into a file. Everything is merged into one profile as it comes, binaries are kept as symbol tables
 * when they are first seen (they may be gone at the end), and names are given once at the end.
 *
 * A command is held back (launch.h): the child waits on a pipe until its pid is in the agent's filter, then execs, so that its
 * first samples are there. Nothing that is recorded is ever stopped.
 */
#include "agent/agent.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "agent/process/targets.h"
#include "base/alloc.h"
#include "base/cleanup.h"
#include "base/io.h"
#include "base/text.h"
#include "base/time.h"
#include "cmd/cmd.h"
#include "cmd/follow.h"
#include "cmd/launch.h"
#include "cmd/open.h"
#include "cmd/record_downsample.h"
#include "cmd/record_machine.h"
#include "cmd/record_markers.h"
#include "cmd/record_remote.h"
#include "daemon/host_symbols.h"
#include "elf/content_key.h"
#include "format/format.h"
#include "profile/downsample.h"
#include "profile/filter.h"
#include "profile/hosts.h"
#include "profile/interpreters.h"
#include "profile/markers.h"
#include "profile/merge.h"
#include "server/server.h"
#include "symbol/worker.h"
#include "unwind/unwind_result.h"

#define FREQUENCY_DEFAULT_HZ 99
#define FLUSH_NS	     (2 * NS_PER_S)
#define RING_BYTES	     (1u << 20) /* of each CPU: room for copies of stacks, of which every new process sends some */
#define COUNTERS_NS	     (100 * NS_PER_MS)
#define PENDING_MAX	     256
#define QUIET_NS	     NS_PER_S /* without new binaries: then there is time to read symbols */
#define WAIT_STEP_NS	     (10 * NS_PER_MS)
#define LIFE_CHECK_NS	     (NS_PER_S / 2)
#define RECORDER_NICE	     (-20)
#define EARLY_NS	     NS_PER_S /* shorter waits are not worth a reading */
#define EARLY_LAST_NS	     NS_PER_S
#define EARLY_MAX_NS	     (10 * NS_PER_S)

/* A binary whose symbols are still to be read. */
struct pending_binary {
	char build_id[BUILD_ID_HEX_MAX], content[CONTENT_KEY_HEX];
	char *path;
	int fd;
};

struct record {
	struct agent_options agent;
	const char *output, *format;
	struct output_options written;
	bool interpreters;	  /* a table shows their internals */
	int64_t duration_ns;	  /* 0 = until stopped */
	int64_t at_ns;		  /* when to begin, wall clock; 0 = at once */
	bool is_early;		  /* what comes now is thrown away */
	struct agent_stats early; /* when that ended */
	uint64_t kept;		  /* with --at, once it is over: samples that the timer took in its time */
	bool keeps_times;	  /* samples keep theirs: the output has a place for them */
	struct record_remote remote;
	struct operands command;
	bool opens;
	struct open_options open;
	struct launch launch;
	struct target_pids pids;
	struct target_cgroups cgroups;
	bool cgroups_were_used;		  /* there were processes in them */
	struct buffer program, arguments; /* what is recorded, if it is one */

	struct agent *running;
	struct symbolizer *symbolizer;
	struct host_symbols symbols;
	struct record_markers markers;
	struct record_downsample downsample;
	struct profile *profile;
	struct pending_binary *pending; /* PENDING_MAX; not part of the stack, of which a tail copies 32 KiB */
	size_t pending_count;
	int64_t pending_ns; /* when the last one came */
	int64_t started_ns, ended_ns, progress_ns, life_checked_ns;
	bool lives; /* as of life_checked_ns */
};

/* A failure shows as addresses without names; the rest of the profile is as good. */
static void read_symbols(struct record *record)
{
	struct pending_binary *binary = &record->pending[--record->pending_count];
	symbolizer_offer(record->symbolizer, binary->build_id, binary->content, binary->path, binary->fd, NULL);
	fd_closep(&binary->fd);
	mem_free(binary->path);
}

/* Symbols take a part of a second to read, and longer where thousands of threads want the CPU, just when new processes want the
 * agent's attention. So files are only held open here, for they may be gone later. */
static void on_binary(void *context, const struct agent_binary *shown)
{
	struct record *record = context;
	if (!*shown->build_id)
		return;
	if (record->pending_count == PENDING_MAX)
		read_symbols(record);
	struct pending_binary *binary = &record->pending[record->pending_count];
	*binary = (struct pending_binary){.path = mem_strdup(shown->path), .fd = fcntl(shown->fd, F_DUPFD_CLOEXEC, 0)};
	snprintf(binary->build_id, sizeof(binary->build_id), "%s", shown->build_id);
	snprintf(binary->content, sizeof(binary->content), "%s", shown->content);
	record->pending_count++;
	record->pending_ns = time_monotonic_ns();
	if (!binary->path || binary->fd < 0) {
		record->pending_count--;
		fd_closep(&binary->fd);
		mem_free(binary->path);
		symbolizer_offer(record->symbolizer, shown->build_id, shown->content, shown->path, shown->fd, NULL);
	}
}

static bool on_kernel_symbol(void *context, uint64_t address, struct agent_symbol *ret)
{
	return host_symbols_kernel(&((struct record *)context)->symbols, address, ret);
}

static bool on_jit_symbol(void *context, const struct agent_jit_address *address, struct agent_symbol *ret)
{
	return host_symbols_jit(&((struct record *)context)->symbols, address, ret);
}

static int on_profile(void *context, struct profile *profile, struct error *err)
{
	struct record *record = context;
	if (record->is_early)
		return 0;
	return record->agent.timed
		       ? record_downsample_merge(&record->downsample, record->running, record->profile, profile, err)
		       : profile_merge(record->profile, profile, true, err);
}

/* Of the recording, without the time before it. */
static void get_stats(const struct record *record, struct agent_stats *ret)
{
	agent_get_stats(record->running, ret);
	ret->samples_taken -= record->early.samples_taken;
	for (size_t i = 0; i < AGENT_LOSS_COUNT; i++)
		ret->samples_lost[i] -= record->early.samples_lost[i];
	if (record->kept) /* some that were counted early are in it, and some that were counted later are not */
		ret->samples_taken = record->kept;
	for (size_t i = 0; i < UNWIND_RESULTS; i++)
		ret->unwind.results[i] -= record->early.unwind.results[i];
}

static void show_progress(struct record *record)
{
	int64_t now_ns = time_monotonic_ns();
	if (!terminal_is_interactive() || now_ns - record->progress_ns < NS_PER_S / 2)
		return;
	struct agent_stats stats;
	char count[TEXT_NUMBER_MAX];
	get_stats(record, &stats);
	record->progress_ns = now_ns;
	fputc('\r', stderr);
	cmd_printf(stderr, "recording: %lld s, %s samples; Ctrl-C stops and writes %s ",
		   (long long)((now_ns - record->started_ns) / NS_PER_S), text_format_count(stats.samples_taken, count),
		   record->output);
}

static bool any_lives(const struct target_pids *pids)
{
	for (size_t i = 0; i < pids->count; i++)
		if (target_process_lives(pids->items[i]))
			return true;
	return false;
}

/* Whether there is still something to record: one of the processes that there were at the beginning, or any in the control
 * groups once there was one. */
static bool targets_live(struct record *record)
{
	_cleanup_(target_pids_release) struct target_pids inside = {0};
	int64_t now_ns = time_monotonic_ns();

	if (record->lives && now_ns - record->life_checked_ns < LIFE_CHECK_NS)
		return true;
	record->life_checked_ns = now_ns;
	record->lives = any_lives(&record->pids);
	if (record->lives || !record->cgroups.count)
		return record->lives;
	record->lives = target_cgroups_add_pids(&record->cgroups, &inside, NULL) < 0 || any_lives(&inside) ||
			!record->cgroups_were_used;
	record->cgroups_were_used = record->cgroups_were_used || inside.count;
	return record->lives;
}

static bool targets_remain(struct record *record)
{
	if (record->launch.pid)
		return !launch_has_ended(&record->launch);
	return !(record->pids.count || record->cgroups.count) || targets_live(record);
}

static bool on_idle(void *context)
{
	struct record *record = context;
	if (!record->is_early)
		show_progress(record);
	if (record->pending_count && time_monotonic_ns() - record->pending_ns >= QUIET_NS)
		read_symbols(record);
	return record->is_early || targets_remain(record);
}

/* At a signal. That of a child may be of another one: the worker for symbols is a process, too. */
static void stop_agent(void *context)
{
	struct record *record = context;
	if (signals_interrupted() || launch_has_ended(&record->launch))
		agent_stop(record->running);
}

/* What is recorded, while it is there. Of several processes nothing is said. */
static int describe_target(struct record *record, struct error *err)
{
	char path[64], name[64];
	int r = 0;
	buffer_init(&record->program, PATH_MAX);
	buffer_init(&record->arguments, SIZE_MAX);
	if (record->command.count) {
		buffer_append_string(&record->program, text_base_name(record->command.items[0]));
		r = record_join_arguments((const char *const *)record->command.items, &record->arguments);
	} else if (record->pids.count == 1 && !record->cgroups.count) {
		snprintf(path, sizeof(path), "/proc/%d/comm", (int)record->pids.items[0]);
		if (io_read_text(path, name, sizeof(name)) > 0)
			buffer_append(&record->program, name, strcspn(name, "\n"));
		r = record_read_arguments(record->pids.items[0], &record->arguments);
	}
	return r < 0 ? error_nomem(err) : 0;
}

/* What exists already, before anything is loaded. */
static int find_targets(struct record *record, struct error *err)
{
	int r = describe_target(record, err);

	if (r < 0)
		return r;
	record_markers_open(&record->markers, !record->pids.count && !record->cgroups.count && !record->command.count);
	if (record->cgroups.count) {
		size_t before = record->pids.count;
		r = target_cgroups_add_pids(&record->cgroups, &record->pids, err);
		record->cgroups_were_used = record->pids.count > before;
	}
	if (r == 0)
		r = follow_children(&record->pids, record->running, record->agent.unprivileged, err);
	if (r == 0 && record->command.count) {
		r = launch_prepare(&record->launch, err);
		if (r == 0)
			r = target_pids_add(&record->pids, record->launch.pid, err);
	}
	record->agent.pids = record->pids.items;
	record->agent.pid_count = record->pids.count;
	record->agent.cgroups = record->cgroups.paths;
	record->agent.cgroup_count = record->cgroups.count;
	return r;
}

/* What can be done without privileges, and what it takes to have the rest. */
static int fall_back(struct record *record, const struct agent_sink *sink, struct error *err)
{
	struct error why = *err;

	record->agent.unprivileged = true;
	int r = agent_new(&record->agent, sink, &record->running, err);
	if (r == -EPERM) /* what the user asked for needs them */
		return error_set(err, r, "%.400s; %.400s", why.message, err->message);
	if (r == 0)
		fprintf(stderr,
			"wick record: without privileges: recording only your own processes, and only in user space (%s)\n",
			why.message);
	return r;
}

static int open_all(struct record *record, struct error *err)
{
	/* In a process of its own: who is recorded may be somebody else. */
	static const struct symbol_worker_options worker = {.program = "/proc/self/exe"};
	struct symbolizer_options symbols = {
		.worker = &worker, .own_files = true, .file_cache_directory = symbol_cache_directory()};
	struct agent_sink sink = {.context = record,
				  .on_binary = on_binary,
				  .kernel_symbol = on_kernel_symbol,
				  .jit_symbol = on_jit_symbol,
				  .on_profile = on_profile,
				  .on_idle = on_idle};
	record->pending = mem_alloc_array(PENDING_MAX, sizeof(*record->pending));
	int r = record->pending ? profile_new(&record->profile, err) : error_nomem(err);
	if (!r)
		r = symbolizer_new(&symbols, &record->symbolizer, err);
	if (!r)
		r = host_symbols_init(&record->symbols, err);
	if (r == 0)
		r = find_targets(record, err);
	if (r < 0)
		return r;
	record->agent.at_exec = record->command.count > 0;
	record->agent.command = record->command.count ? record->command.items[0] : NULL;
	record->agent.flush_interval_ns = FLUSH_NS;
	record->agent.run_once = !record->at_ns; /* else it runs while it waits, too */
	record->agent.event_ring_bytes = RING_BYTES;
	if (!record->agent.wall && !record->agent.off_cpu_chance) /* these choose larger ones */
		record->agent.ring_bytes = RING_BYTES;
	record->agent.cache_directory = record->symbols.cache_directory = unwind_cache_directory();
	/* Beside what the kernel does to check the sampling program; in the first drain all samples would wait for it. */
	if (!record->agent.no_kernel)
		host_symbols_read_ahead(&record->symbols);
	r = agent_new(&record->agent, &sink, &record->running, err);
	if (r == -EPERM)
		r = fall_back(record, &sink, err);
	else if (r == 0)
		host_symbols_await(&record->symbols);
	if (!r && !record->command.count)
		r = follow_children(&record->pids, record->running, record->agent.unprivileged, err);
	return r;
}

/* How many user stacks reach their root, and why others do not. */
static void report_walks(const struct agent_unwind_stats *unwind)
{
	uint64_t all = 0;
	for (size_t i = 0; i < UNWIND_RESULTS; i++)
		all += i == UNWIND_NO_USER ? 0 : unwind->results[i];
	if (!all)
		return;
	fprintf(stderr, "  user stacks complete: %.2f %% of %llu",
		100.0 * (double)(unwind->results[UNWIND_COMPLETE] + unwind->results[UNWIND_ANALYSED]) / (double)all,
		(unsigned long long)all);
	for (size_t i = 0; i < UNWIND_RESULTS; i++)
		if (unwind->results[i] && i != UNWIND_COMPLETE && i != UNWIND_NO_USER)
			cmd_printf(stderr, ", %s %llu", unwind_result_name((enum unwind_result)i),
				   (unsigned long long)unwind->results[i]);
	fputc('\n', stderr);
}

static void report(const struct record *record)
{
	struct agent_stats stats;
	struct jit_stats jit;
	char count[TEXT_NUMBER_MAX];
	uint64_t incomplete = 0;
	get_stats(record, &stats);
	cmd_printf(stderr, "%swick record: %s samples in %.1f s at %u Hz (%s), written to %s\n",
		   terminal_is_interactive() ? "\r\033[K" : "", text_format_count(stats.samples_taken, count),
		   (double)(record->ended_ns - record->started_ns) / NS_PER_S, stats.frequency_hz, stats.event, record->output);
	record_downsample_report(&record->downsample);
	report_walks(&stats.unwind);
	record_markers_report(&record->markers, record->output, record->format);
	for (size_t i = 0; i < AGENT_LOSS_COUNT; i++)
		incomplete += stats.samples_lost[i];
	for (size_t i = 0; i < AGENT_LOSS_COUNT && incomplete; i++)
		if (stats.samples_lost[i])
			cmd_printf(stderr, "  %s: %llu\n", agent_loss_names[i], (unsigned long long)stats.samples_lost[i]);
	if (stats.cgroups_left_out)
		fprintf(stderr, "  cgroups beyond the limit, not recorded: %llu\n", (unsigned long long)stats.cgroups_left_out);
	if (stats.unprivileged_refused)
		fprintf(stderr, "  processes that need privileges, not recorded: %llu\n",
			(unsigned long long)stats.unprivileged_refused);
	if (stats.counters_left_out)
		fprintf(stderr, "  processes without counters: %llu\n", (unsigned long long)stats.counters_left_out);
	if (stats.counters_problem[0])
		cmd_printf(stderr, "  no counters: %s\n", stats.counters_problem);
	if (stats.runtimes_problem[0])
		cmd_printf(stderr, "  no functions of interpreters: %s\n", stats.runtimes_problem);
	host_symbols_get_jit_stats(&record->symbols, &jit);
	for (size_t i = 0; i < JIT_PROBLEM_COUNT; i++)
		if (jit.problems[i])
			cmd_printf(stderr, "  jit %s: %llu\n", jit_problem_names[i], (unsigned long long)jit.problems[i]);
}

/* What is missing from the samples stays with them. */
static int add_losses(const struct record *record, struct error *err)
{
	struct agent_stats stats;
	char text[128];
	int r = record_downsample_note(&record->downsample, record->profile, err);

	get_stats(record, &stats);
	for (size_t i = 0; i < AGENT_LOSS_COUNT && r == 0; i++) {
		if (!stats.samples_lost[i])
			continue;
		snprintf(text, sizeof(text), "wick record: %s: %llu", agent_loss_names[i],
			 (unsigned long long)stats.samples_lost[i]);
		r = profile_add_comment_text(record->profile, text, err);
	}
	return r;
}

static const char *record_title(const struct record *record)
{
	return record->command.count ? record->command.items[0] : "wick record";
}

/* Both clocks at one time, so that the file says when it began by the one that other profilers go by, too. */
static void note_monotonic_start(struct profile *profile)
{
	if (profile->time_ns > 0 && profile->monotonic_ns == 0)
		profile->monotonic_ns = profile->time_ns - (time_now_ns() - time_monotonic_ns());
}

/* Whose recording it is, what of, and how far this clock is from UTC at most, if the kernel knows: `wick merge` and viewers of
 * several hosts want both. */
static int add_host(const struct record *record, struct profile *profile, struct error *err)
{
	struct utsname machine;
	struct profile_host host = {.bound_ns = time_wall_bound_ns()};
	uint32_t id;
	int r = profile_complete_hosts(profile, uname(&machine) == 0 ? machine.nodename : NULL, err);
	/* A label may have given it another name. */
	if (r < 0 || profile_host_count(profile) != 1)
		return r;
	host.name = profile->markers->hosts[1].name;
	if (host.bound_ns >= 0) {
		r = profile_add_cstring(profile, "UTC", &host.reference, err);
		if (r == 0)
			r = profile_add_cstring(profile, "wall clock", &host.method, err);
	}
	if (r == 0)
		r = record_describe_machine(profile, &host.machine, err);
	if (r == 0)
		r = profile_add_bytes(profile, buffer_bytes(&record->program), &host.machine.program, err);
	if (r == 0)
		r = profile_add_bytes(profile, buffer_bytes(&record->arguments), &host.machine.arguments, err);
	return r < 0 ? r : profile_add_host(profile, &host, &id, err);
}

/* A table is for people, files and the page that --open shows have everything. */
static int write_output(struct record *record, const char *title, struct error *err)
{
	bool changed;
	int r = 0;
	if (!record->interpreters && !record->opens && output_is_table(record->output, record->format))
		r = profile_hide_interpreters(record->profile, &changed, err);
	return r < 0 ? r : output_write(record->profile, record->output, record->format, title, &record->written, err);
}

static int write_profile(struct record *record, struct error *err)
{
	if (record->profile->sample_count == 0 && profile_marker_count(record->profile) == 0)
		return error_set(
			err, -ENODATA,
			"no samples were taken: the process did not use the CPU, or ended too soon%s; nothing was written",
			record->agent.unprivileged ? ", or is a set-user-id or unreadable program, which requires privileges"
						   : "");
	while (record->pending_count)
		read_symbols(record);
	note_monotonic_start(record->profile);
	int r = symbolizer_resolve(record->symbolizer, record->profile, 1, NULL, NULL, err);
	if (!r)
		r = add_losses(record, err);
	return r < 0 ? r : write_output(record, record_title(record), err);
}

static bool goes_on(struct record *record)
{
	int64_t end_ns = record->started_ns + record->duration_ns;
	return !signals_interrupted() && (!record->duration_ns || time_monotonic_ns() < end_ns) && targets_remain(record);
}

static void wake(void *context)
{
	(void)context;
}

/* What was sent to wick alone is meant for both; Ctrl-C reaches the command by itself. */
static void terminate_command(struct record *record)
{
	if (record->launch.pid && !launch_has_ended(&record->launch))
		kill(record->launch.pid, SIGTERM);
}

/* Until it is over. The collecting goes on in a thread of its own. */
static void wait_for_end(struct record *record)
{
	while (goes_on(record))
		time_sleep_ns(20 * NS_PER_MS);
	record->ended_ns = time_monotonic_ns();
	if (signals_interrupted() == SIGTERM)
		terminate_command(record);
}

static bool is_in_time(const void *context, const struct profile *profile, size_t sample)
{
	const struct record *record = context;
	int64_t time_ns = profile->samples[sample].time_ns;
	return time_ns == 0 || time_ns >= record->at_ns;
}

/* Those that the timer took: waits have no CPU time. */
static uint64_t count_taken(const struct profile *profile)
{
	size_t types = profile->sample_type_count, cpu = 0;
	uint64_t count = 0;
	for (size_t i = 0; i < types; i++)
		if (strcmp(profile_string(profile, profile->sample_types[i].type), "cpu") == 0)
			cpu = i;
	for (size_t i = 0; i < profile->sample_count; i++)
		count += profile->values[i * types + cpu] > 0;
	return count;
}

static int drop_early_rows(const struct record *record, struct error *err)
{
	const struct profile_markers *markers = record->profile->markers;
	size_t count = markers ? markers->row_count : 0;
	_cleanup_(mem_freep) bool *keep = mem_zalloc_array(count + 1, sizeof(*keep));
	if (!keep)
		return error_nomem(err);
	for (size_t i = 0; i < count; i++)
		keep[i] = markers->rows[i].time_ns >= record->at_ns;
	if (count)
		profile_keep_rows(record->profile, keep);
	return 0;
}

/* What was sampled while everything waited for the time to begin. */
static int drop_early(struct record *record, struct error *err)
{
	struct profile *profile = record->profile;
	size_t before = profile->sample_count;
	profile_filter_samples(profile, is_in_time, record);
	int r = drop_early_rows(record, err);
	if (r < 0)
		return r;
	record->kept = count_taken(profile) << record->downsample.shift;
	uint64_t dropped = (uint64_t)(before - profile->sample_count) << record->downsample.shift;
	record->downsample.arrived -= dropped < record->downsample.arrived ? dropped : record->downsample.arrived;
	if (profile->time_ns && profile->time_ns < record->at_ns) {
		int64_t early_ns = record->at_ns - profile->time_ns;
		profile->duration_ns = early_ns < profile->duration_ns ? profile->duration_ns - early_ns : 0;
		profile->time_ns = record->at_ns;
	}
	for (size_t i = 0; i < profile->sample_count && !record->keeps_times; i++)
		profile->samples[i].time_ns = 0;
	return record->keeps_times ? 0 : profile_aggregate(profile, err);
}

/* Everything is loaded, so that it begins on time. at_ns: 0 = at once. */
static int wait_until(int64_t at_ns, struct error *err)
{
	for (int64_t left_ns; at_ns && !signals_interrupted() && (left_ns = at_ns - time_now_ns()) > 0;)
		time_sleep_ns(left_ns < WAIT_STEP_NS ? left_ns : WAIT_STEP_NS);
	return at_ns && signals_interrupted()
		       ? error_set(err, -EINTR, "stopped before the recording started; nothing was written")
		       : 0;
}

/* The rings are read while it is long until then, and what was in them is thrown away: else they would be full when it begins,
 * and what happened to processes meanwhile would be unknown. Not up to the end, for a reading takes its time. */
static int read_early(struct record *record, struct error *err)
{
	int64_t left_ns;
	int r = 0;
	record->is_early = true;
	while (r == 0 && !signals_interrupted() && (left_ns = record->at_ns - time_now_ns()) > EARLY_NS + EARLY_LAST_NS) {
		/* The wall clock may be set meanwhile. */
		int64_t ns = left_ns - EARLY_LAST_NS < EARLY_MAX_NS ? left_ns - EARLY_LAST_NS : EARLY_MAX_NS;
		r = agent_run(record->running, time_monotonic_ns() + ns, err);
	}
	record->is_early = false;
	agent_get_stats(record->running, &record->early);
	return r;
}

/* From loading to recording. */
static int wait_to_begin(struct record *record, struct error *err)
{
	int64_t at_ns = record->at_ns;
	int r = at_ns && record->running ? read_early(record, err) : 0;
	if (r == 0)
		r = wait_until(at_ns ? at_ns - RECORD_MARKERS_LEAD_NS : 0, err);
	if (r < 0)
		return r;
	record_markers_start(&record->markers, record->pids.items, record->pids.count, at_ns);
	return wait_until(at_ns, err);
}

/* --markers-only: for another profiler's samples. It needs no kernel side, hence no privileges. */
static int run_markers(struct record *record, struct error *err)
{
	int r = profile_new(&record->profile, err);
	if (r == 0)
		r = find_targets(record, err);
	if (r < 0)
		return r;
	signals_install(wake, record, record->command.count != 0);
	r = wait_to_begin(record, err);
	if (r < 0)
		return r;
	record->started_ns = time_monotonic_ns();
	int64_t time_ns = time_now_ns();
	if (!record->markers.recorder)
		return error_set(err, -EIO, "nothing to record without markers");
	if (record->command.count && (r = launch_go(&record->launch, err)) < 0)
		return r;
	wait_for_end(record);
	r = record_markers_stop(&record->markers, &record->profile, err);
	if (r == 0 && profile_marker_count(record->profile) == 0)
		return error_set(err, -ENODATA, "no markers were recorded%s; nothing was written",
				 record->markers.stats.processes ? "" : ": no process has libwickmark");
	if (r < 0)
		return r;
	record->profile->time_ns = time_ns;
	record->profile->duration_ns = record->ended_ns - record->started_ns;
	note_monotonic_start(record->profile);
	r = add_host(record, record->profile, err);
	if (r == 0)
		r = output_write(record->profile, record->output, record->format, record_title(record), &record->written, err);
	if (r < 0)
		return r;
	cmd_printf(stderr, "wick record: markers of %.1f s, written to %s\n",
		   (double)(record->ended_ns - record->started_ns) / NS_PER_S, record->output);
	record_markers_report(&record->markers, record->output, record->format);
	return 0;
}

/* What was recorded before something went wrong is worth having. Returns what the recording ends with. */
static int write_all(struct record *record, int recorded, struct error *err)
{
	struct error why = *err;
	int r = record->at_ns ? drop_early(record, err) : 0;
	if (!r)
		r = record_markers_stop(&record->markers, &record->profile, err);
	if (!r && record->profile)
		r = add_host(record, record->profile, err);
	if (!r)
		r = write_profile(record, err);
	if (!r)
		report(record);
	if (!recorded)
		return r;
	*err = why;
	return r < 0 ? recorded : error_prefix(err, recorded, "the recording ended early, and was written");
}

/* Gives back what sampling took first: a profile may be looked at for hours. */
static int open_recording(struct record *record, struct error *err)
{
	if (signals_interrupted() == SIGTERM) /* Ctrl-C ends the recording, this all of it */
		return 0;
	signals_reset();
	record->running = agent_free(record->running);
	record->symbolizer = symbolizer_free(record->symbolizer);
	int r = open_serve(&record->open, "record", record->profile, record_title(record), err);
	if (r > 0)
		terminate_command(record);
	return r < 0 ? r : 0;
}

static int run_record(struct record *record, struct error *err)
{
	if (record->markers.only) {
		int done = run_markers(record, err);
		return done == 0 && record->opens ? open_recording(record, err) : done;
	}
	int r = open_all(record, err);
	if (r < 0)
		return r;
	/* Among thousands of threads that want the CPU, the rings must be read in time. No matter if that is not allowed. */
	int nice_before = getpriority(PRIO_PROCESS, 0);
	setpriority(PRIO_PROCESS, 0, RECORDER_NICE);
	signals_install(stop_agent, record, record->command.count != 0);
	r = wait_to_begin(record, err);
	if (r < 0)
		return r;
	record->started_ns = time_monotonic_ns();
	if (record->command.count && (r = launch_go(&record->launch, err)) < 0)
		return r;
	r = agent_run(record->running, record->duration_ns ? record->started_ns + record->duration_ns : 0, err);
	record->ended_ns = time_monotonic_ns();
	setpriority(PRIO_PROCESS, 0, nice_before);
	if (signals_interrupted() == SIGTERM)
		terminate_command(record);
	r = write_all(record, r, err);
	if (!r && record->opens)
		r = open_recording(record, err);
	return r;
}

/* The command goes on for as long as it likes, as under a shell: it may outlive the recording, by -d or because that failed. */
static int finish(struct record *record, int r, const struct error *err)
{
	if (r < 0)
		cmd_fail("record", err);
	if (!record->launch.pid)
		return r < 0 ? EXIT_FAILED : EXIT_DONE;
	launch_release(&record->launch); /* one that still waits ends without having begun */
	launch_wait(&record->launch);
	if (record->launch.failed)
		return record->launch.failed;
	if (!record->started_ns)
		return EXIT_FAILED;
	launch_report(&record->launch);
	int status = launch_exit_status(&record->launch);
	/* That it was too short to be seen is no failure of the command, nor of ours. */
	return status == EXIT_DONE && r < 0 && r != -ENODATA ? EXIT_FAILED : status;
}

static void record_release(struct record *record)
{
	record_markers_release(&record->markers);
	launch_release(&record->launch);
	for (size_t i = 0; i < record->pending_count; i++) {
		fd_closep(&record->pending[i].fd);
		mem_free(record->pending[i].path);
	}
	mem_free(record->pending);
	agent_free(record->running);
	symbolizer_free(record->symbolizer);
	host_symbols_release(&record->symbols);
	profile_free(record->profile);
	target_pids_release(&record->pids);
	target_cgroups_release(&record->cgroups);
	buffer_release(&record->program);
	buffer_release(&record->arguments);
}

static int parse_pids(struct record *record, const struct option_list *list, struct error *err)
{
	int r = follow_parse(&record->pids, list, err);
	if (r < 0)
		return r;
	return record->pids.count == 0 || any_lives(&record->pids)
		       ? 0
		       : error_set(err, -ESRCH, "-p: no process %s", list->items[0]);
}

/* By enum target_kind. */
#define TARGET_KINDS 3
static const char *const target_options[TARGET_KINDS] = {"--cgroup", "--container", "--unit"};

static int parse_cgroups(struct record *record, const struct option_list lists[TARGET_KINDS], struct error *err)
{
	for (size_t kind = 0; kind < TARGET_KINDS; kind++) {
		for (size_t i = 0; i < lists[kind].count; i++) {
			int r = target_cgroups_find(&record->cgroups, (enum target_kind)kind, lists[kind].items[i], err);
			if (r < 0)
				return error_prefix(err, r, "%s", target_options[kind]);
		}
	}
	return 0;
}

/* How the command is to be run. */
static int parse_launch(struct record *record, const struct option_list *environment, struct error *err)
{
	for (size_t i = 0; i < environment->count; i++) {
		int r = launch_check_variable(environment->items[i], err);
		if (r < 0)
			return r;
	}
	record->launch.command = record->command.items;
	record->launch.environment = environment->items;
	record->launch.environment_count = environment->count;
	record->launch.output_to_stderr = strcmp(record->output, "-") == 0;
	return 0;
}

/* Returns an exit status, or -1 to go on. */
static int check_usage(const struct record *record, const struct usage *usage, bool all, bool processes)
{
	bool command = record->command.count > 0;

	if (all + processes + command > 1)
		return usage_error(
			usage,
			"-a, a choice of processes (-p, --cgroup, --container, --unit) and a command exclude each other");
	if (!all && !processes && !command)
		return usage_error(
			usage, "nothing to record; give one of -a, -p PID, or -- CMD; or a --cgroup, --container or --unit");
	if (command && !record->command.after_dashes)
		return usage_error(usage, "put '--' before the command: wick record -- %s", record->command.items[0]);
	if (!command && (record->launch.environment_count || record->launch.directory))
		return usage_error(usage, "--env and --chdir require a command");
	if (record->agent.wall && (all || record->agent.off_cpu_chance))
		return usage_error(usage, "--wall requires a command or -p, and excludes --off-cpu");
	if (record->markers.only &&
	    (record->markers.off || record->agent.wall || record->agent.off_cpu_chance || record->downsample.max))
		return usage_error(
			usage,
			"--markers-only takes no samples: it excludes --no-markers, --wall, --off-cpu and --max-samples");
	if (record->markers.only && !(output_holds(record->output, record->format) & FORMAT_HOLDS_MARKERS))
		return usage_error(usage, "--markers-only: the format of '%s' cannot store markers; use .firefox.json",
				   record->output);
	return -1;
}

/* What the output has a place for; with --open, Firefox Profiler's format is served, too. */
static void choose_contents(struct record *record)
{
	unsigned holds = output_holds(record->output, record->format);
	if (record->opens)
		holds |= format_by_name("firefox")->holds;
	record->keeps_times = holds & FORMAT_HOLDS_TIMES;
	record->agent.timed = record->keeps_times || record->at_ns; /* or nobody could tell what came too early */
	record->agent.counters_interval_ns = holds & FORMAT_HOLDS_MARKERS ? COUNTERS_NS : 0;
	record->agent.lifetimes = holds & FORMAT_HOLDS_MARKERS;
}

static int run_here(struct record *record, const struct option_list *pids, const struct option_list cgroups[TARGET_KINDS],
		    bool all, const struct usage *usage)
{
	struct error err = {0};
	bool processes =
		pids->count || cgroups[TARGET_CGROUP].count || cgroups[TARGET_CONTAINER].count || cgroups[TARGET_UNIT].count;
	int status = check_usage(record, usage, all, processes);
	if (status >= 0)
		return status;
	choose_contents(record);
	int r = parse_pids(record, pids, &err);
	if (!r)
		r = parse_cgroups(record, cgroups, &err);
	if (!r)
		r = run_record(record, &err);
	return finish(record, r, &err);
}

/* With --remote: agents record, and what comes is written as if it had been recorded here. Returns an exit status. */
static int run_remote(struct record *record, const struct option_list cgroups[TARGET_KINDS], const struct usage *usage)
{
	/* By enum recording_target_kind. */
	const struct option_list *const lists[RECORDING_TARGET_KINDS] = {&cgroups[TARGET_UNIT], &cgroups[TARGET_CONTAINER],
									 &cgroups[TARGET_CGROUP]};
	struct recording_request request = {.duration_ns = record->duration_ns ? record->duration_ns
									       : RECORD_REMOTE_SECONDS * NS_PER_S,
					    .frequency_hz = record->agent.frequency_hz,
					    .no_markers = record->markers.off};
	struct error err = {0};
	if (record_remote_order(lists, &request, &err) < 0)
		return usage_error(usage, "%s", err.message);
	int r = record_remote_make(&record->remote, &request, &record->profile, &err);
	if (r == 0)
		r = write_output(record, "wick record", &err);
	if (r == 0)
		cmd_printf(stderr, "  written to %s\n", record->output);
	if (r == 0 && record->opens)
		r = open_serve(&record->open, "record", record->profile, "wick record", &err);
	return r < 0 ? cmd_fail("record", &err) : EXIT_DONE;
}

/* Options that agents do not accept, and options for agents only. */
static int check_remote(const struct record *record, const struct usage *usage, bool processes, const char *other)
{
	const struct record_remote *remote = &record->remote;
	struct error err = {0};
	if (!remote->server.url && (remote->hosts.count || remote->server.token_file || remote->server.tenant))
		return usage_error(usage, "--host, --token-file and --tenant require --remote");
	if (!remote->server.url)
		return -1;
	if (processes || record->command.count || other || record->agent.wall || record->agent.off_cpu_chance || record->at_ns)
		return usage_error(usage, "--remote records all processes of its hosts, or a --unit, --container or --cgroup; "
					  "it excludes -p, --at, a command, --event, --runtimes, --wall and --off-cpu");
	if (remote->server.tenant && tenant_name_check(remote->server.tenant, &err) < 0)
		return usage_error(usage, "%s", err.message);
	if (record->markers.only || record->markers.max || record->downsample.max || record->launch.environment_count ||
	    record->launch.directory)
		return usage_error(usage, "--remote excludes --markers-only, --max-markers, --max-samples, --env and --chdir");
	return -1;
}

#define RECORD_DESCRIPTION                                                                                                     \
	"Profiles a command, running processes, a container, a unit or the whole machine, and\n"                               \
	"writes a file in any format of convert: pprof, Firefox Profiler's, a flame graph, a\n"                                \
	"table ... Exits with the status of the command."
#define RECORD_EXAMPLES                                                                                                        \
	"wick record -o app.svg -- ./app --its-option\nwick record --open -- ./app\nwick record -d 30 -p 4242\nwick record "   \
	"--unit nginx -d 10\nwick record -a -d 10 -o - --format top"

int cmd_record(int argc, char **argv)
{
	_cleanup_(record_release) struct record record = {.agent = {.frequency_hz = FREQUENCY_DEFAULT_HZ, .one_profile = true},
							  .output = "wick.pb.gz",
							  .launch = {.go_fd = -1, .problem_fd = -1}};
	struct option_list pids = {0}, cgroups[TARGET_KINDS] = {0}, environment = {0};
	bool all = false;
	const char *event = NULL, *off_cpu = NULL, *runtimes = NULL, *at = NULL;
	char names[OUTPUT_NAMES_MAX], help[2][OUTPUT_NAMES_MAX + 160];
	snprintf(help[0], sizeof(help[0]), "where to write; the extension selects the format:\n%s\n(default: wick.pb.gz)",
		 output_extensions(names));
	snprintf(help[1], sizeof(help[1]), "format, whatever the extension: %s", output_format_names(names));
	const struct option_row options[] = {
		{'F', "frequency", "HZ", OPTION_UNSIGNED, &record.agent.frequency_hz, 1, 10000,
		 .help = "samples per second and CPU (default: 99)"},
		{'d', "duration", "SECONDS", OPTION_DURATION, &record.duration_ns,
		 .help = "stop after this long: 30, 2m (default: when the command\nor all processes have ended, or Ctrl-C)"},
		{0, "at", "TIME", OPTION_TEXT, &at,
		 .help = "prepare, but start only at this time: RFC 3339 or unix\ntime, or now+5s"},
		EVENT_OPTION_ROW(&event),
		OFF_CPU_OPTION_ROW(&off_cpu),
		RUNTIMES_OPTION_ROW(&runtimes),
		{0, "wall", NULL, OPTION_FLAG, &record.agent.wall,
		 .help = "wall-clock profile: on-CPU and off-CPU time of each\nthread as one value"},
		{'o', "output", "FILE", OPTION_TEXT, &record.output, .help = help[0]},
		{0, "format", "FORMAT", OPTION_TEXT, &record.format, .help = help[1]},
		INTERPRETERS_OPTION_ROW(&record.interpreters),
		{0, "max-size", "SIZE", OPTION_SIZE, &record.written.bytes_max,
		 .help = "fail instead of writing a larger file: 64M"},
		{0, "open", NULL, OPTION_FLAG, &record.opens,
		 .help = "then show the profile in a browser, like wick open,\nuntil Ctrl-C"},
		LISTEN_OPTION_ROW(&record.open.listen),
		BROWSER_OPTION_ROW(&record.open.browser),
		MARKERS_OPTION_ROWS(&record.markers),
		MAX_SAMPLES_OPTION_ROW(&record.downsample),
		{'a', "all", NULL, OPTION_FLAG, &all, .help = "all processes of this machine"},
		{'p', "pid", "PID", OPTION_LIST, &pids,
		 .help = "this process, its children and what they fork; may be\nrepeated, as may the next three"},
		{0, "cgroup", "PATH", OPTION_LIST, &cgroups[TARGET_CGROUP], .help = "processes in this cgroup and below"},
		{0, "container", "ID", OPTION_LIST, &cgroups[TARGET_CONTAINER],
		 .help = "container, by the start of its id or name"},
		{0, "unit", "NAME", OPTION_LIST, &cgroups[TARGET_UNIT], .help = "systemd unit, by name"},
		RECORD_REMOTE_OPTION_ROWS(&record.remote),
		{0, "env", "NAME=VALUE", OPTION_LIST, &environment,
		 .help = "environment variable of the command; may be repeated"},
		{0, "chdir", "DIR", OPTION_TEXT, &record.launch.directory, .help = "working directory of the command"},
		{0}};
	const struct usage usage = {.verb = "record",
				    .synopsis =
					    "[-F HZ] [-d SECONDS] [-o FILE] (-a | -p PID | --unit NAME | ... | -- CMD ARGS...)",
				    .description = RECORD_DESCRIPTION,
				    .options = options,
				    .examples = RECORD_EXAMPLES};
	struct error err = {0};
	OPTIONS_OR_RETURN(&usage, argc, argv, &record.command);
	if (parse_event(event, &record.agent.cycles, &err) < 0 ||
	    parse_runtimes("--runtimes", runtimes, &record.agent.no_runtimes, &err) < 0 ||
	    parse_off_cpu(off_cpu, &record.agent.off_cpu_chance, &record.agent.off_cpu_least_ns, &err) < 0 ||
	    output_check(record.output, record.format, &err) < 0 || parse_launch(&record, &environment, &err) < 0 ||
	    open_check(&record.open, &err) < 0)
		return usage_error(&usage, "%s", err.message);
	if (at && time_parse(at, time_now_ns(), &record.at_ns, &err) < 0)
		return usage_error(&usage, "--at: %s", err.message);
	if (!record.opens && (record.open.listen || record.open.browser))
		return usage_error(&usage, "--listen and --browser require --open");
	int status = check_remote(&record, &usage, pids.count, event ? event : runtimes);
	if (status >= 0)
		return status;
	if (record.remote.server.url)
		return run_remote(&record, cgroups, &usage);
	return run_here(&record, &pids, cgroups, all, &usage);
}
