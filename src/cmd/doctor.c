/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <unistd.h>

#include "agent/agent.h"
#include "base/time.h"
#include "cmd/cmd.h"

#define ROWS_MAX 96

int cmd_doctor(int argc, char **argv)
{
	unsigned pid = 0;
	int64_t duration_ns = 5 * NS_PER_S;
	const struct option_row options[] = {
		{'p', "pid", "PID", OPTION_UNSIGNED, &pid, 1, 4194304,
		 .help = "examine this process instead: sample it for a while and say\n"
			 "how many of its stacks are complete, or why not"},
		{'d', "duration", "SECONDS", OPTION_DURATION, &duration_ns, .help = "with --pid: how long (default: 5)"},
		{0},
	};
	const struct usage usage = {.verb = "doctor",
				    .synopsis = "[--pid PID]",
				    .description =
					    "Examines what profiling needs on this machine, one line each, and says how to "
					    "mend\nwhat is missing. Exit status 1 when something that is needed is missing.",
				    .options = options};
	struct operands operands;
	OPTIONS_OR_RETURN(&usage, argc, argv, &operands);
	if (operands.count)
		return usage_error(&usage, "unexpected operand '%s'", operands.items[0]);
	static const char *const words[] = {"ok", "warn", "FAIL"}, *const colours[] = {"\033[32m", "\033[33m", "\033[31m"};
	bool colour = isatty(STDOUT_FILENO);
	struct doctor_row rows[ROWS_MAX];
	struct error err = {0};
	size_t count = 0, failed = 0, warned = 0;
	if (!pid)
		count = agent_examine(rows, ROWS_MAX);
	else if (agent_examine_process((pid_t)pid, duration_ns, rows, ROWS_MAX, &count, &err) < 0)
		return cmd_fail("doctor", &err);
	for (size_t i = 0; i < count; i++) {
		const struct doctor_row *row = &rows[i];
		printf("%s%-4s%s  %-24s %s\n", colour ? colours[row->verdict] : "", words[row->verdict],
		       colour ? "\033[0m" : "", row->what, row->found);
		if (row->mend[0])
			printf("      %-24s -> %s\n", "", row->mend);
		failed += row->verdict == DOCTOR_FAIL;
		warned += row->verdict == DOCTOR_WARN;
	}
	printf("%zu checks: %zu ok, %zu to look at, %zu missing\n", count, count - failed - warned, warned, failed);
	return failed ? EXIT_FAILED : EXIT_DONE;
}
