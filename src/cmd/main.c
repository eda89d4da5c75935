/* SPDX-License-Identifier: Apache-2.0 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fault.h"
#include "base/log.h"
#include "base/privilege/confine.h"
#include "cmd/cmd.h"
#include "symbol/worker.h"

static const struct verb verbs[] = {
	{"up", "profile this machine: agent, server and web UI in one command", cmd_up, true},
	{"server", "store profiles, answer queries, serve the web UI", cmd_server, true},
	{"agent", "sample this machine and send profiles to a server", cmd_agent, true},
	{"record", "profile a command, a process or the machine into a file", cmd_record, true},
	{"top", "show live where CPU time goes, in the terminal", cmd_top, true},
	{"open", "show a profile in a browser: local viewer, Firefox Profiler", cmd_open, true},
	{"import", "convert recordings of other profilers for Firefox Profiler", cmd_import, true},
	{"annotate", "add markers to a profile of another profiler", cmd_annotate},
	{"query", "query a server: functions, tables, charts, stacks, pprof, SVG", cmd_query},
	{"saved", "list, check and keep saved queries with parameters", cmd_saved},
	{"diff", "show what changed between two files, selections or times", cmd_diff},
	{"store", "verify, repair, back up, compact, list and delete stored data", cmd_store},
	{"debuginfo", "upload debug information, list what is missing", cmd_debuginfo},
	{"token", "create, list and revoke tokens of a server, with roles", cmd_token},
	{"convert", "convert profile files to another format, merging several", cmd_convert},
	{"merge", "merge profiles of several hosts into one, on one clock", cmd_merge},
	{"report", "top, tree, peek, list, tags, dot ... like go tool pprof", cmd_report},
	{"doctor", "check what works on this machine, with a hint for each problem", cmd_doctor},
};
#define VERB_COUNT (sizeof(verbs) / sizeof(*verbs))

static void print_help(FILE *out)
{
	fprintf(out, "usage: wick COMMAND [OPTION...]\n\nA continuous profiler: where does the CPU time of these machines "
		     "go?\n\ncommands:\n");
	for (size_t i = 0; i < VERB_COUNT; i++)
		fprintf(out, "  %-9s %s\n", verbs[i].name, verbs[i].summary);
	fprintf(out, "\nSee 'wick COMMAND --help' and the man page wick-COMMAND(1). Start with: wick up\n");
}

int main(int argc, char **argv)
{
	/* Not for people, and before anything is set up: what has to be locked in is best left small. */
	if (argc == 2 && strcmp(argv[1], SYMBOL_WORKER_VERB) == 0)
		return symbol_worker_main();
	struct error err = {0};
	signal(SIGPIPE, SIG_IGN); /* a closed pipe or socket is an error of the write, not the end of the program */
	/* A parent may have it ignored. Children would then be gone as they end, and who kills one later kills another process
	 * that has its number by now. */
	signal(SIGCHLD, SIG_DFL);
	confine_inherited();
	const char *level = getenv("WICK_LOG");
	if (level && strcmp(level, "debug") == 0)
		log_set_level(LOG_DEBUG);
	if (fault_arm_from_environment(&err) < 0) {
		cmd_printf(stderr, "wick: %s\n", err.message);
		return EXIT_USAGE;
	}
	if (argc < 2) {
		print_help(stderr);
		return EXIT_USAGE;
	}
	if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0 || strcmp(argv[1], "help") == 0) {
		print_help(stdout);
		return EXIT_DONE;
	}
	if (strcmp(argv[1], OPTION_COMPLETIONS) == 0) {
		for (size_t i = 0; i < VERB_COUNT; i++)
			printf("%s\t%s\n", verbs[i].name, verbs[i].summary);
		return EXIT_DONE;
	}
	if (strcmp(argv[1], "--version") == 0 || strcmp(argv[1], "version") == 0) {
		printf("wick %s\n", WICK_VERSION);
		return EXIT_DONE;
	}
	for (size_t i = 0; i < VERB_COUNT; i++) {
		if (strcmp(argv[1], verbs[i].name) != 0)
			continue;
		if (verbs[i].until_signal)
			signals_prepare();
		int status = verbs[i].run(argc - 1, argv + 1);
		if (fflush(stdout) || ferror(stdout)) {
			cmd_printf(stderr, "wick %s: cannot write to standard output\n", argv[1]);
			return EXIT_FAILED;
		}
		return status;
	}
	cmd_printf(stderr, "wick: unknown command '%s'; see 'wick --help'\n", argv[1]);
	return EXIT_USAGE;
}
