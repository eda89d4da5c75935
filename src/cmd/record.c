/* SPDX-License-Identifier: Apache-2.0 */
/*
 * wick record: the agent into a file. Everything is merged into one profile as it comes, binaries are kept as symbol tables
 * when they are first seen (they may be gone at the end), and names are given once at the end.
 *
 * A command is started stopped: the child waits on a pipe until its pid is in the agent's filter, then execs, so that its first
 * samples are there.
 */
#include "agent/agent.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/unwind_result.h"
#include "base/alloc.h"
#include "base/io.h"
#include "base/text.h"
#include "base/time.h"
#include "cmd/cmd.h"
#include "cmd/host_symbols.h"
#include "cmd/open.h"
#include "cmd/record_markers.h"
#include "profile/markers.h"
#include "profile/merge.h"
#include "symbol/worker.h"

#define FREQUENCY_DEFAULT_HZ 99
#define FLUSH_NS	     (2 * NS_PER_S)
#define PIDS_MAX	     256

struct record {
	struct agent_options agent;
	const char *output, *format;
	int64_t duration_ns; /* 0 = until stopped */
	pid_t pids[PIDS_MAX];
	struct operands command;
	bool opens;
	struct open_options open;

	struct agent *running;
	struct symbolizer *symbolizer;
	struct host_symbols symbols;
	struct record_markers markers;
	struct profile *profile;
	pid_t child;
	int child_status, go_fd; /* writing to go_fd lets the child exec */
	int64_t started_ns, progress_ns;
};

static void on_binary(void *context, const char *build_id, const char *path, pid_t pid, int fd)
{
	struct record *record = context;
	if (*build_id) /* a failure shows as addresses without names; the rest of the profile is as good */
		symbolizer_offer(record->symbolizer, build_id, path, fd, NULL);
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
	return profile_merge(record->profile, profile, true, err);
}

static void show_progress(struct record *record)
{
	int64_t now_ns = time_monotonic_ns();
	if (!terminal_is_interactive() || now_ns - record->progress_ns < NS_PER_S / 2)
		return;
	struct agent_stats stats;
	char count[TEXT_NUMBER_MAX];
	agent_get_stats(record->running, &stats);
	record->progress_ns = now_ns;
	fprintf(stderr, "\rrecording: %lld s, %s samples; Ctrl-C stops and writes %s ",
		(long long)((now_ns - record->started_ns) / NS_PER_S), text_format_count(stats.samples_taken, count),
		record->output);
}

static bool processes_live(const struct record *record)
{
	for (size_t i = 0; i < record->agent.pid_count; i++) {
		char path[32];
		snprintf(path, sizeof(path), "/proc/%d/stat", (int)record->agent.pids[i]);
		if (access(path, F_OK) == 0)
			return true;
	}
	return false;
}

static bool on_idle(void *context)
{
	struct record *record = context;
	show_progress(record);
	if (record->child > 0) {
		if (waitpid(record->child, &record->child_status, WNOHANG) == record->child)
			record->child = 0;
		return record->child != 0;
	}
	return !record->agent.pid_count || processes_live(record);
}

static void stop_agent(void *context)
{
	agent_stop(context);
}

/* Forks a child that will become the command, and waits. */
static int start_child(struct record *record, struct error *err)
{
	int fds[2];
	if (pipe2(fds, O_CLOEXEC) < 0)
		return error_set_errno(err, -errno, "cannot make a pipe");
	record->child = fork();
	if (record->child < 0)
		return error_set_errno(err, -errno, "cannot start %s", record->command.items[0]);
	if (record->child == 0) {
		char go = 0;
		io_close(fds[1]);
		if (io_read(fds[0], &go, 1, "the start pipe", NULL) != 1)
			_exit(127);
		execvp(record->command.items[0], record->command.items);
		fprintf(stderr, "wick record: cannot run %s: %s\n", record->command.items[0], strerror(errno));
		_exit(127);
	}
	io_close(fds[0]);
	record->go_fd = fds[1];
	record->pids[record->agent.pid_count++] = record->child;
	return 0;
}

static int open_all(struct record *record, struct error *err)
{
	/* In a process of its own: who is recorded may be somebody else. */
	static const struct symbol_worker_options worker = {.program = "/proc/self/exe"};
	struct symbolizer_options symbols = {.worker = &worker, .own_files = true};
	struct agent_sink sink = {.context = record,
				  .on_binary = on_binary,
				  .kernel_symbol = on_kernel_symbol,
				  .jit_symbol = on_jit_symbol,
				  .on_profile = on_profile,
				  .on_idle = on_idle};
	int r = profile_new(&record->profile, err);
	if (!r)
		r = symbolizer_new(&symbols, &record->symbolizer, err);
	if (!r)
		r = host_symbols_init(&record->symbols, err);
	if (r)
		return r;
	record_markers_open(&record->markers, record->agent.pid_count == 0 && !record->command.count);
	if (record->command.count && (r = start_child(record, err)))
		return r;
	record->agent.pids = record->agent.pid_count ? record->pids : NULL;
	record->agent.flush_interval_ns = FLUSH_NS;
	record->agent.cache_directory = unwind_cache_directory();
	return agent_new(&record->agent, &sink, &record->running, err);
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
		100.0 * (double)unwind->results[UNWIND_COMPLETE] / (double)all, (unsigned long long)all);
	for (size_t i = 0; i < UNWIND_RESULTS; i++)
		if (unwind->results[i] && i != UNWIND_COMPLETE && i != UNWIND_NO_USER)
			fprintf(stderr, ", %s %llu", unwind_result_name((enum unwind_result)i),
				(unsigned long long)unwind->results[i]);
	fputc('\n', stderr);
}

static void report(const struct record *record)
{
	struct agent_stats stats;
	struct jit_stats jit;
	char count[TEXT_NUMBER_MAX];
	uint64_t incomplete = 0;
	agent_get_stats(record->running, &stats);
	fprintf(stderr, "%swick record: %s samples in %.1f s at %u Hz (%s), written to %s\n",
		terminal_is_interactive() ? "\r\033[K" : "", text_format_count(stats.samples_taken, count),
		(double)(time_monotonic_ns() - record->started_ns) / NS_PER_S, stats.frequency_hz, stats.event, record->output);
	report_walks(&stats.unwind);
	record_markers_report(&record->markers, record->output, record->format);
	for (size_t i = 0; i < AGENT_LOSS_COUNT; i++)
		incomplete += stats.samples_lost[i];
	for (size_t i = 0; i < AGENT_LOSS_COUNT && incomplete; i++)
		if (stats.samples_lost[i])
			fprintf(stderr, "  %s: %llu\n", agent_loss_names[i], (unsigned long long)stats.samples_lost[i]);
	host_symbols_get_jit_stats(&record->symbols, &jit);
	for (size_t i = 0; i < JIT_PROBLEM_COUNT; i++)
		if (jit.problems[i])
			fprintf(stderr, "  jit %s: %llu\n", jit_problem_names[i], (unsigned long long)jit.problems[i]);
}

/* The command may outlive the recording (-d, or daemons that it leaves behind are none of ours): wait for it as a shell would.
 */
static void wait_for_child(struct record *record)
{
	while (record->child > 0 && waitpid(record->child, &record->child_status, 0) < 0 && errno == EINTR &&
	       !signals_interrupted())
		;
	record->child = 0;
	if (WIFEXITED(record->child_status) && WEXITSTATUS(record->child_status))
		fprintf(stderr, "wick record: %s ended with status %d\n", record->command.items[0],
			WEXITSTATUS(record->child_status));
	else if (WIFSIGNALED(record->child_status))
		fprintf(stderr, "wick record: %s was ended by signal %d\n", record->command.items[0],
			WTERMSIG(record->child_status));
}

static const char *record_title(const struct record *record)
{
	return record->command.count ? record->command.items[0] : "wick record";
}

/* Gives back what sampling took first: a profile may be looked at for hours. */
static int open_recording(struct record *record, struct error *err)
{
	signals_reset();
	record->running = agent_free(record->running);
	record->symbolizer = symbolizer_free(record->symbolizer);
	return open_serve(&record->open, "record", record->profile, record_title(record), err);
}

static int run_record(struct record *record, struct error *err)
{
	int r = open_all(record, err);
	if (r)
		return r;
	signals_install(stop_agent, record->running, record->command.count != 0);
	record->started_ns = time_monotonic_ns();
	record_markers_start(&record->markers, record->agent.pids, record->agent.pid_count);
	if (record->command.count && io_write(record->go_fd, "g", 1, "the start pipe", err))
		return -EPIPE;
	r = agent_run(record->running, record->duration_ns ? record->started_ns + record->duration_ns : 0, err);
	if (!r)
		r = record_markers_stop(&record->markers, &record->profile, err);
	if (r)
		return r;
	if (record->profile->sample_count == 0 && profile_marker_count(record->profile) == 0)
		return error_set(
			err, -ENODATA,
			"no samples were taken: the process did not use the CPU, or ended too soon; nothing was written");
	r = symbolizer_resolve(record->symbolizer, record->profile, 1, NULL, NULL, err);
	if (!r)
		r = output_write(record->profile, record->output, record->format, record_title(record), NULL, err);
	if (!r)
		report(record);
	if (!r && record->opens)
		r = open_recording(record, err);
	if (!r && record->command.count)
		wait_for_child(record);
	return r;
}

static void record_release(struct record *record)
{
	io_close(record->go_fd); /* a child that still waits ends */
	record_markers_release(&record->markers);
	agent_free(record->running);
	symbolizer_free(record->symbolizer);
	host_symbols_release(&record->symbols);
	profile_free(record->profile);
}

static int parse_pids(struct record *record, const struct option_list *list, struct error *err)
{
	for (size_t i = 0; i < list->count; i++) {
		uint64_t pid;
		int r = text_parse_u64(list->items[i], &pid, err);
		if (r || pid == 0 || pid > INT32_MAX)
			return error_set(err, -EINVAL, "-p: '%.40s' is not a process id", list->items[i]);
		record->pids[record->agent.pid_count++] = (pid_t)pid;
	}
	return record->agent.pid_count == 0 || processes_live(record)
		       ? 0
		       : error_set(err, -ESRCH, "-p: there is no process %s", list->items[0]);
}

int cmd_record(int argc, char **argv)
{
	_cleanup_(record_release) struct record record = {
		.agent = {.frequency_hz = FREQUENCY_DEFAULT_HZ, .one_profile = true}, .output = "wick.pb.gz", .go_fd = -1};
	struct option_list pids = {0};
	bool all = false;
	const char *event = NULL, *off_cpu = NULL;
	char names[OUTPUT_NAMES_MAX], help[2][OUTPUT_NAMES_MAX + 160];
	snprintf(help[0], sizeof(help[0]), "where to write; the extension tells the format:\n%s\n(default: wick.pb.gz)",
		 output_extensions(names));
	snprintf(help[1], sizeof(help[1]), "format, whatever the extension: %s", output_format_names(names));
	record.agent.pids = record.pids;
	const struct option_row options[] = {
		{'F', "frequency", "HZ", OPTION_UNSIGNED, &record.agent.frequency_hz, 1, 10000,
		 .help = "samples a second and CPU (default: 99)"},
		{'d', "duration", "SECONDS", OPTION_DURATION, &record.duration_ns,
		 .help = "stop after this long: 30, 2m (default: when the command\nor the process ends, or Ctrl-C)"},
		EVENT_OPTION_ROW(&event),
		OFF_CPU_OPTION_ROW(&off_cpu),
		{0, "wall", NULL, OPTION_FLAG, &record.agent.wall,
		 .help = "where the time of each thread went, running or waiting,\nas one value"},
		{'o', "output", "FILE", OPTION_TEXT, &record.output, .help = help[0]},
		{0, "format", "FORMAT", OPTION_TEXT, &record.format, .help = help[1]},
		{0, "open", NULL, OPTION_FLAG, &record.opens,
		 .help = "then show the profile in a browser, as wick open does,\nuntil Ctrl-C"},
		LISTEN_OPTION_ROW(&record.open.listen),
		BROWSER_OPTION_ROW(&record.open.browser),
		{0, "no-markers", NULL, OPTION_FLAG, &record.markers.off,
		 .help = "without the markers that programs make with libwickmark"},
		{'a', "all", NULL, OPTION_FLAG, &all, .help = "all processes of this machine"},
		{'p', "pid", "PID", OPTION_LIST, &pids, .help = "this process and what it forks; may be repeated"},
		{0}};
	const struct usage usage = {
		.verb = "record",
		.synopsis = "[-F HZ] [-d SECONDS] [-o FILE] (-a | -p PID | -- CMD ARGS...)",
		.description = "Profiles a command, a running process or the whole machine, and writes a file: pprof,\nOTLP, "
			       "folded stacks, a flame graph as SVG, or a table of the top functions. Needs root.",
		.options = options,
		.examples = "wick record -o app.svg -- ./app --its-option\nwick record --open -- ./app\nwick record -d 30 -p "
			    "4242\nwick record -a -d 10 -o - --format top"};
	struct error err = {0};
	OPTIONS_OR_RETURN(&usage, argc, argv, &record.command);
	if (all + (pids.count > 0) + (record.command.count > 0) != 1)
		return usage_error(&usage, "say what to record: one of -a, -p PID, or -- CMD");
	if (record.command.count && !record.command.after_dashes)
		return usage_error(&usage, "put '--' before the command: wick record -- %s", record.command.items[0]);
	if (record.agent.wall && (all || off_cpu))
		return usage_error(&usage, "--wall is of a command or of processes (-p), and without --off-cpu");
	if (!record.opens && (record.open.listen || record.open.browser))
		return usage_error(&usage, "--listen and --browser are for --open");
	if (parse_event(event, &record.agent.cycles, &err) ||
	    parse_off_cpu(off_cpu, &record.agent.off_cpu_chance, &record.agent.off_cpu_least_ns, &err) ||
	    output_check(record.output, record.format, &err) || open_check(&record.open, &err))
		return usage_error(&usage, "%s", err.message);
	int r = parse_pids(&record, &pids, &err);
	if (!r)
		r = run_record(&record, &err);
	return r ? cmd_fail("record", &err) : EXIT_DONE;
}
