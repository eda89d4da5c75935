// SPDX-License-Identifier: Apache-2.0
/*
 * What `wick doctor --pid` says about one process: what it runs, which of the files that it maps can be unwound, and how the
 * walks of its stacks ended while it was sampled for a while. A fresh agent does the sampling, so that the answer is that of
 * the real thing.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "agent/agent_int.h"
#include "base/time.h"
#include "unwind/unwind_result.h"
#include "unwind/unwind_table.h"

#define BINARY_ROWS_MAX 48u /* of mapped files */

struct report {
	struct doctor_row *rows;
	size_t count, max;
	struct agent *agent;
	struct process *process;
};

static void __attribute__((format(printf, 5, 6)))
add(struct report *report, enum doctor_verdict verdict, const char *what, const char *fix, const char *found, ...)
{
	va_list arguments;

	if (report->count == report->max)
		return;
	va_start(arguments, found);
	doctor_fill(&report->rows[report->count++], verdict, what, fix, found, arguments);
	va_end(arguments);
}

/* ---- what it maps ---- */

static void add_binary(struct report *report, const struct binary *binary, const struct process_mapping *mapping)
{
	_cleanup_(buffer_release) struct buffer table = {0};
	struct unwind_table_stats stats = {0};
	struct error error = {0};
	struct elf_file file;
	char build_id[BUILD_ID_HEX_MAX];
	_cleanup_(fd_closep) int fd = binary_open(binary, report->process->pid, mapping, build_id);

	if (fd < 0) {
		add(report, DOCTOR_WARN, binary_name(binary), "",
		    "the file cannot be read (%s): no symbols, frame pointers only", strerror(-fd));
		return;
	}
	int r = elf_file_open(&file, fd, binary->path, &error);
	if (r == 0) {
		r = unwind_table_build(&file, &table, &stats, &error);
		elf_file_release(&file);
	}
	if (r < 0)
		add(report, DOCTOR_WARN, binary_name(binary), "", "no unwind table: %s", error.message);
	else if (!stats.rows)
		add(report, DOCTOR_WARN, binary_name(binary),
		    "build it with -fasynchronous-unwind-tables, or -fno-omit-frame-pointer",
		    "no unwind information: only frame pointers, if it has them");
	else
		add(report, DOCTOR_OK, binary_name(binary), "", "%" PRIu64 " rows of unwind information%s", stats.rows,
		    build_id[0] ? "" : "; no build-id: identified by a hash of the file");
}

static void examine_binaries(struct report *report)
{
	const struct mapping_list *maps = report->process->maps;
	size_t shown = 0, left = 0;

	binaries_sweep_begin(&report->agent->binaries); /* marked: shown already */
	for (size_t i = 0; maps && i < maps->count; i++) {
		struct binary *binary = binary_get(&report->agent->binaries, maps->items[i].binary);
		if (binary->kind == BINARY_JIT || binary->marked || maps->items[i].start >> 63)
			continue;
		binary->marked = true;
		if (shown++ < BINARY_ROWS_MAX)
			add_binary(report, binary, &maps->items[i]);
		else
			left++;
	}
	if (left)
		add(report, DOCTOR_OK, "more files", "", "%zu not shown", left);
}

static void examine_generated_code(struct report *report)
{
	struct process *process = report->process;
	uint64_t bytes = 0;
	char path[64];

	for (size_t i = 0; process->maps && i < process->maps->count; i++) {
		const struct process_mapping *mapping = &process->maps->items[i];
		if (binary_get(&report->agent->binaries, mapping->binary)->kind == BINARY_JIT)
			bytes += mapping->end - mapping->start;
	}
	if (!bytes)
		return;
	pid_t inside = process_namespace_pid(process);
	snprintf(path, sizeof(path), "/proc/%d/root/tmp/perf-%d.map", (int)process->pid, (int)inside);
	bool map = access(path, F_OK) == 0, dump = process->jitdump.binary != BINARY_NONE;
	if (map || dump)
		add(report, DOCTOR_OK, "generated code", "", "%" PRIu64 " KiB, symbolized by a %s", bytes / 1024,
		    dump ? "jitdump" : "perf map");
	else
		add(report, DOCTOR_WARN, "generated code",
		    "node: --perf-basic-prof; java: -XX:+PreserveFramePointer and jcmd PID Compiler.perfmap; python 3.12: -X "
		    "perf",
		    "%" PRIu64 " KiB without symbols: no /tmp/perf-%d.map and no jitdump", bytes / 1024, (int)inside);
}

static void examine_executable(struct report *report)
{
	const struct process *process = report->process;
	const struct binary *binary = binary_get(&report->agent->binaries, process->executable);

	if (process->unknown)
		add(report, DOCTOR_FAIL, "mappings", "run as root, or give CAP_SYS_PTRACE", "/proc/%d/maps cannot be read",
		    (int)process->pid);
	if (!process->executable) {
		add(report, DOCTOR_WARN, "executable", "", "%s: none; it may be a kernel thread", process->comm);
		return;
	}
	add(report, DOCTOR_OK, "executable", "", "%s (%u thread%s)", binary->path, process->threads,
	    process->threads == 1 ? "" : "s");
	for (size_t i = 0; process->maps && i < process->maps->count; i++) {
		char build_id[BUILD_ID_HEX_MAX] = "";
		if (process->maps->items[i].binary != process->executable)
			continue;
		int fd = binary_open(binary, process->pid, &process->maps->items[i], build_id);
		fd_closep(&fd);
		add(report, DOCTOR_OK, "build-id", "", "%s",
		    build_id[0] ? build_id : "none: it is identified by a hash of the file");
		return;
	}
}

/* ---- interpreters ---- */

static void add_runtime(struct report *report, const struct runtime_file *file, const char *binary)
{
	const struct runtime_type *type = file->type;
	const struct runtime_counts *counts = &unwinder_runtimes(report->agent->unwinder)->counts[type->kind];
	_cleanup_(buffer_release) struct buffer text = {.max = 1024};
	struct sampler_counters counters;
	char name[40];

	if (!file->is_known) {
		add(report, DOCTOR_WARN, type->word, "", "%s: only its interpreter is shown", file->why);
		return;
	}
	if (runtimes_are_disbelieved(report->process, type->kind)) {
		add(report, DOCTOR_WARN, type->word, "",
		    "what the process has in memory is not as its version has it: only its interpreter is shown");
		return;
	}
	sampler_get_counters(report->agent->sampler, &counters);
	uint64_t shown = counters.counters[ABI_COUNT_RUNTIME(type->kind, ABI_RUNTIME_SAMPLES)];
	uint64_t unknown = counters.counters[ABI_COUNT_RUNTIME(type->kind, ABI_RUNTIME_UNKNOWN)];
	type->describe(unwinder_runtimes(report->agent->unwinder), file, report->process->pid, binary, &text);
	add(report, DOCTOR_OK, type->word, "", "%s", buffer_string(&text));
	snprintf(name, sizeof(name), "functions of %s", type->word);
	add(report, unknown || counts->lost || counts->nonsense ? DOCTOR_WARN : DOCTOR_OK, name, "",
	    "in %" PRIu64 " samples; %" PRIu64 " in its code showed none; %" PRIu64 " functions were named, %" PRIu64
	    " gone before, %" PRIu64 " not to be believed",
	    shown, unknown, counts->read, counts->lost, counts->nonsense);
	if (counts->refused)
		add(report, DOCTOR_WARN, name, "",
		    "they are too many, or too large, to read all that are new: %" PRIu64 " times one was left without a name",
		    counts->refused);
}

static void examine_runtimes(struct report *report)
{
	struct runtimes *runtimes = unwinder_runtimes(report->agent->unwinder);
	const struct mapping_list *maps = report->process->maps;
	uint32_t shown = BINARY_NONE; /* a binary is mapped in parts, of which small ones are not looked at */

	for (size_t i = 0; maps && i < maps->count; i++) {
		const struct runtime_file *file = runtimes_look(runtimes, report->process->pid, &maps->items[i]);
		if (!file || maps->items[i].binary == shown)
			continue;
		shown = maps->items[i].binary;
		add_runtime(report, file, binary_name(binary_get(&report->agent->binaries, shown)));
	}
}

/* ---- how its walks ended ---- */

static void add_result(struct report *report, enum unwind_result result, uint64_t count, uint64_t total)
{
	double percent = 100.0 * (double)count / (double)total;
	bool matters = !UNWIND_IS_COMPLETE(result) && result != UNWIND_NO_USER && percent >= 0.5;

	add(report, matters ? DOCTOR_WARN : DOCTOR_OK, unwind_result_name(result), matters ? unwind_result_advice(result) : "",
	    "%.1f %% (%" PRIu64 "): %s", percent, count, unwind_result_meaning(result));
}

static void examine_walks(struct report *report, int64_t duration_ns)
{
	const uint32_t *results = report->process->results;
	uint64_t total = 0;

	for (int i = 0; results && i < UNWIND_RESULTS; i++)
		total += results[i];
	if (!total) {
		add(report, DOCTOR_WARN, "samples", "generate load, or sample longer with --duration",
		    "none in %.1f s: it did not use a CPU", (double)duration_ns / NS_PER_S);
		return;
	}
	add(report, DOCTOR_OK, "samples", "", "%" PRIu64 " in %.1f s", total, (double)duration_ns / NS_PER_S);
	for (int i = 0; i < UNWIND_RESULTS; i++) {
		if (results[i] || i == UNWIND_COMPLETE)
			add_result(report, (enum unwind_result)i, results[i], total);
	}
}

int agent_examine_process(pid_t pid, int64_t duration_ns, struct doctor_row *ret_rows, size_t max, size_t *ret_count,
			  struct error *err)
{
	const struct agent_options options = {.frequency_hz = 99,
					      .flush_interval_ns = duration_ns + 10 * NS_PER_S, /* only the last one */
					      .pids = &pid,
					      .pid_count = 1};
	const struct agent_sink sink = {0};
	_cleanup_(agent_freep) struct agent *agent = NULL;
	struct report report = {.rows = ret_rows, .max = max};

	int r = agent_new(&options, &sink, &agent, err);
	if (r < 0)
		return r;
	if (!process_table_find(&agent->processes, pid))
		return error_set(err, -ESRCH, "no process %d", (int)pid);
	report.agent = agent;
	r = agent_run(agent, time_monotonic_ns() + duration_ns, err);
	if (r < 0)
		return r;
	report.process = process_table_find(&agent->processes, pid);
	if (!report.process || report.process->exit_ns)
		return error_set(err, -ESRCH, "process %d ended during the check", (int)pid);
	examine_executable(&report);
	examine_generated_code(&report);
	examine_binaries(&report);
	examine_runtimes(&report);
	examine_walks(&report, duration_ns);
	*ret_count = report.count;
	return 0;
}
