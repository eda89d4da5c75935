/* SPDX-License-Identifier: Apache-2.0 */
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "agent/agent.h"
#include "base/buffer.h"
#include "base/cleanup.h"
#include "base/io.h"
#include "base/time.h"
#include "cmd/cmd.h"
#include "cmd/remote.h"
#include "elf/disassemble.h"
#include "symbol/debuginfod.h"
#include "symbol/worker.h"

#define ROWS_MAX     96
#define SYMBOL_ROWS  3
#define WORKER_LIMIT (10 * NS_PER_S)

#ifdef WICK_STATIC
#define INSTALL(package) "run the server of a package of your distribution, with " package
#else
#define INSTALL(package) "install the package " package " where the server runs"
#endif

/* ---- names ---- */

static int open_this_program(void *context, const struct symbol_file_request *request, int *ret_fd, struct error *err)
{
	(void)context;
	if (request->kind != SYMBOL_FILE_BINARY)
		return -ENOENT;
	*ret_fd = io_open("/proc/self/exe", O_RDONLY, 0, err);
	return *ret_fd < 0 ? *ret_fd : 0;
}

/* The table of this program, made as a server makes it. */
static struct doctor_row examine_worker(void)
{
	struct doctor_row row = {.verdict = DOCTOR_OK, .what = "symbol tables"};
	struct symbol_worker_options worker = {
		.program = "/proc/self/exe", .cpu_max_ns = WORKER_LIMIT, .wall_max_ns = WORKER_LIMIT};
	struct symbol_build_options options = {.build_id = "", .open_file = open_this_program};
	struct symbol_build_result result;
	struct error err = {0};
	_cleanup_(fd_closep) int fd = memfd_create("symbols", MFD_CLOEXEC);
	int r = fd < 0 ? error_set_errno(&err, -errno, "cannot create a memfd")
		       : symbol_worker_build(&worker, &options, fd, &result, &err);
	if (r == 0) {
		snprintf(row.found, sizeof(row.found), "built in a sandbox; %llu functions in that of this program",
			 (unsigned long long)result.functions);
		return row;
	}
	row.verdict = DOCTOR_WARN;
	snprintf(row.found, sizeof(row.found), "%.250s", err.message);
	snprintf(row.fix, sizeof(row.fix), "%s",
		 r == -ENOSYS ? "use a kernel with CONFIG_SECCOMP_FILTER, and a container that allows seccomp(2); until then a "
				"server symbolizes no addresses"
			      : "until this is fixed, a server symbolizes no addresses");
	return row;
}

static struct doctor_row examine_disassembly(void)
{
	static const uint8_t code[] = {0xc3};
	struct doctor_row row = {.verdict = DOCTOR_OK, .what = "disassembly", .found = "Capstone is installed"};
	struct disassemble_options options = {.machine = EM_X86_64};
	struct disassembly disassembly;
	struct error err = {0};
	int r = disassemble((struct bytes){code, sizeof(code)}, &options, &disassembly, &err);
	disassembly_release(&disassembly);
	if (r < 0) {
		row.verdict = DOCTOR_WARN;
		snprintf(row.found, sizeof(row.found), "%.250s", err.message);
		snprintf(row.fix, sizeof(row.fix), INSTALL("libcapstone4"));
	}
	return row;
}

static struct doctor_row examine_debuginfod(void)
{
	struct doctor_row row = {.verdict = DOCTOR_OK, .what = "debuginfod"};
	const char *urls = getenv("DEBUGINFOD_URLS");
	struct error err = {0};
	if (!urls || !urls[0]) {
		snprintf(row.found, sizeof(row.found),
			 "DEBUGINFOD_URLS has no servers: debug information is searched on this host and in uploads only");
	} else if (debuginfod_load_library(&err) == 0) {
		snprintf(row.found, sizeof(row.found), "uses %.200s", urls);
	} else {
		row.verdict = DOCTOR_WARN;
		snprintf(row.found, sizeof(row.found), "%.250s", err.message);
		snprintf(row.fix, sizeof(row.fix), INSTALL("libdebuginfod1"));
	}
	return row;
}

/* ---- the verb ---- */

static size_t examine_machine(struct doctor_row rows[static ROWS_MAX])
{
	size_t count = agent_examine(rows, ROWS_MAX - SYMBOL_ROWS);
	rows[count++] = examine_worker();
	rows[count++] = examine_disassembly();
	rows[count++] = examine_debuginfod();
	return count;
}

static struct doctor_row examine_server(const char *url)
{
	struct doctor_row row = {.verdict = DOCTOR_OK, .what = "server"};
	const struct remote remote = {.url = url};
	_cleanup_(buffer_release) struct buffer path = {0};
	_cleanup_(buffer_release) struct buffer response = {0};
	struct error err = {0};
	int r = remote_begin(&path, "/readyz", NULL, 0);
	if (r == 0)
		r = remote_request(&remote, "GET", &path, &response, &err);
	snprintf(row.found, sizeof(row.found), r < 0 ? "%s" : "%.250s is ready", r < 0 ? err.message : url);
	row.verdict = r < 0 ? DOCTOR_FAIL : DOCTOR_OK;
	return row;
}

int cmd_doctor(int argc, char **argv)
{
	unsigned pid = 0;
	const char *url = NULL;
	int64_t duration_ns = 5 * NS_PER_S;
	const struct option_row options[] = {
		{'p', "pid", "PID", OPTION_UNSIGNED, &pid, 1, 4194304,
		 .help = "check this process instead: sample it and report how many\n"
			 "of its stacks are complete, or why not"},
		{0, "url", "URL", OPTION_TEXT, &url, .help = "check that this server is ready instead"},
		{'d', "duration", "SECONDS", OPTION_DURATION, &duration_ns,
		 .help = "with --pid: how long to sample (default: 5)"},
		{0},
	};
	const struct usage usage = {.verb = "doctor",
				    .synopsis = "[--pid PID | --url URL]",
				    .description =
					    "Checks what profiling requires on this machine, one line each, and prints how to "
					    "fix\nwhat is missing. The exit status is 1 if something required is missing.",
				    .options = options};
	OPTIONS_OR_RETURN(&usage, argc, argv, NULL);
	static const char *const words[] = {"ok", "warn", "FAIL"}, *const colours[] = {"\033[32m", "\033[33m", "\033[31m"};
	bool colour = isatty(STDOUT_FILENO);
	struct doctor_row rows[ROWS_MAX];
	struct error err = {0};
	size_t count = 0, failed = 0, warned = 0;
	if (pid && url)
		return usage_error(&usage, "--pid and --url check different things");
	if (url)
		rows[count++] = examine_server(url);
	else if (!pid)
		count = examine_machine(rows);
	else if (agent_examine_process((pid_t)pid, duration_ns, rows, ROWS_MAX, &count, &err) < 0)
		return cmd_fail("doctor", &err);
	for (size_t i = 0; i < count; i++) {
		const struct doctor_row *row = &rows[i];
		printf("%s%-4s%s", colour ? colours[row->verdict] : "", words[row->verdict], colour ? "\033[0m" : "");
		cmd_printf(stdout, "  %-24s %s\n", row->what, row->found);
		if (row->fix[0])
			cmd_printf(stdout, "      %-24s -> %s\n", "", row->fix);
		failed += row->verdict == DOCTOR_FAIL;
		warned += row->verdict == DOCTOR_WARN;
	}
	printf("%zu checks: %zu ok, %zu warnings, %zu missing\n", count, count - failed - warned, warned, failed);
	return failed ? EXIT_FAILED : EXIT_DONE;
}
