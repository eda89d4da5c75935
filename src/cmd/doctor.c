/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <unistd.h>

#include "agent/agent.h"
#include "cmd/cmd.h"

#define ROWS_MAX 64

int cmd_doctor(int argc, char **argv)
{
	const struct option_row options[] = {{0}};
	const struct usage usage = {.verb = "doctor",
				    .synopsis = "",
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
	size_t count = agent_examine(rows, ROWS_MAX), failed = 0, warned = 0;
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
