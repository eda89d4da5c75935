/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sim [--seed N] [--runs N] [--jobs N] [--verbose] [--directory DIR]
 *
 * Runs the simulation for the seeds N, N + 1, ...; see simulation.h. Ends with a line that says how much happened, or with the
 * seed that failed and the command that repeats it.
 */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/io.h"
#include "tests/sim/simulation.h"

#define EVENTS_RUN_MAX 1500
#define RUN_SECONDS    60 /* a run that takes this long hangs */
#define JOBS_MAX       64

struct totals {
	uint64_t runs, lives, deaths, queries, interruptions, calls, cuts, compactions, blocks_removed, acknowledged, rows;
};
struct job {
	struct totals totals;
	uint64_t seed; /* under way */
	bool has_reason;  /* why it failed */
};
static struct job *jobs; /* shared with the children */
static const char *program;

void simulation_log(const struct simulation *s, const char *format, ...)
{
	if (!s->verbose)
		return;
	va_list args;
	va_start(args, format);
	printf("%8.3f s %6" PRIu64 ": ", (double)s->now_ns / NS_PER_S, disk_calls());
	vprintf(format, args);
	putchar('\n');
	va_end(args);
}

static struct job *own_job;

void simulation_fail(const struct simulation *s, const char *format, ...)
{
	char text[4096];
	va_list args;
	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	fflush(stdout);
	fprintf(stderr, "sim: seed %" PRIu64 " fails at %.3f s: %s\n", s->seed, (double)s->now_ns / NS_PER_S, text);
	own_job->has_reason = true;
	_exit(1);
}

/* ---- one run ---- */

static struct event next_event(struct simulation *s)
{
	size_t first = 0;
	for (size_t i = 1; i < s->event_count; i++) {
		const struct event *a = &s->events[i], *b = &s->events[first];
		if (a->at_ns < b->at_ns || (a->at_ns == b->at_ns && a->order < b->order))
			first = i;
	}
	struct event event = s->events[first];
	s->events[first] = s->events[--s->event_count];
	return event;
}

/* Minutes mostly, days at times, in either direction; back to the truth at times. */
static void jump(struct simulation *s)
{
	unsigned whose = random_below(&s->random, s->agent_count + 1);
	int64_t *clock = whose == s->agent_count ? &s->clock_ns : &s->agents[whose].clock_ns;
	int64_t far = random_below(&s->random, 4) ? 600 : 4 * 86400;
	*clock = random_below(&s->random, 4) ? ((int64_t)random_below(&s->random, 2000) - 1000) * far * NS_PER_S / 1000 : 0;
	simulation_log(s, "clock %u jumps to %+.0f s", whose, (double)*clock / NS_PER_S);
	simulation_add_event(s, EVENT_JUMP, (int64_t)(1 + random_below(&s->random, 1000)) * NS_PER_MS, 0, 0);
}

/* Such as the run itself lasts, a small jump of a clock, or a large one. */
static int64_t random_age(struct simulation *s)
{
	static const uint32_t ages_ms[] = {3000, 600000, 300000000};
	return (int64_t)(1000 + random_below(&s->random, ages_ms[random_below(&s->random, 3)])) * NS_PER_MS;
}

static void plan(struct simulation *s)
{
	static const enum event_kind kinds[] = {EVENT_QUERY, EVENT_CUT,	 EVENT_COMPACT, EVENT_RETENTION, EVENT_DELETE,
						EVENT_STOP,  EVENT_KILL, EVENT_POWER,	EVENT_JUMP};
	for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); i++)
		simulation_add_event(s, kinds[i], (int64_t)(1 + random_below(&s->random, 1000)) * NS_PER_MS, 0, 0);
	s->has_full_disk = random_below(&s->random, 5) == 0;
	s->has_failing_sync = random_below(&s->random, 6) == 0;
	s->has_flips = random_below(&s->random, 6) == 0;
	s->has_retention = random_below(&s->random, 4) == 0;
	s->has_late_window = random_below(&s->random, 2);
	s->retention_age_ns = random_age(s);
	s->rule_age_ns = random_age(s);
	s->retention_horizon_ns = s->rule_horizon_ns = INT64_MIN;
	if (s->has_full_disk)
		simulation_add_event(s, EVENT_FULL, (int64_t)(1 + random_below(&s->random, 1000)) * NS_PER_MS, 0, 0);
}

static void handle(struct simulation *s, const struct event *event)
{
	switch (event->kind) {
	case EVENT_AGENT:
	case EVENT_REPLY:
	case EVENT_TIMEOUT: agent_handle(s, event); break;
	case EVENT_JUMP: jump(s); break;
	default: server_handle(s, event);
	}
}

static void add_totals(struct totals *totals, const struct simulation *s)
{
	totals->runs++;
	totals->lives += s->lives;
	totals->deaths += s->deaths;
	totals->queries += s->queries;
	totals->interruptions += s->interruptions;
	totals->calls += disk_calls();
	totals->cuts += s->cuts;
	totals->compactions += s->compactions;
	totals->blocks_removed += s->blocks_removed;
	totals->rows += s->rows;
	for (unsigned i = 0; i < s->agent_count; i++)
		for (unsigned k = 0; k < s->agents[i].count; k++)
			totals->acknowledged += s->agents[i].appends[k].state == APPEND_ACKNOWLEDGED;
}

static void run(uint64_t seed, const char *directory, bool verbose, struct totals *totals)
{
	static struct simulation simulation;
	struct simulation *s = &simulation;
	memset(s, 0, sizeof(*s));
	s->seed = seed;
	s->verbose = verbose;
	s->directory = directory;
	random_init(&s->random, seed);
	disk_reset(directory, random_next(&s->random));
	plan(s);
	agents_init(s);
	server_start(s);
	for (int i = 0; i < EVENTS_RUN_MAX && !agents_are_done(s); i++) {
		struct event event = next_event(s);
		s->now_ns = event.at_ns;
		handle(s, &event);
	}
	const char *difference = disk_check();
	if (difference)
		simulation_fail(s, "the disk's shadow is not the disk: %s", difference);
	server_finish(s);
	add_totals(totals, s);
}

/* ---- many runs ---- */

struct arguments {
	uint64_t seed, runs, jobs;
	bool verbose;
	const char *directory;
};

static void work(const struct arguments *arguments, unsigned index)
{
	char directory[PATH_MAX];
	own_job = &jobs[index];
	int len = snprintf(directory, sizeof(directory), "%s/%u", arguments->directory, index);
	if (len < 0 || (size_t)len >= sizeof(directory) || mkdir(directory, 0700) < 0) {
		fprintf(stderr, "sim: cannot make %s: %s\n", directory, strerror(errno));
		_exit(2);
	}
	for (uint64_t i = index; i < arguments->runs; i += arguments->jobs) {
		own_job->seed = arguments->seed + i;
		alarm(RUN_SECONDS);
		run(own_job->seed, directory, arguments->verbose, &own_job->totals);
	}
	exit(0);
}

static int parse(int argc, char **argv, struct arguments *arguments)
{
	static const struct option options[] = {
		{"seed", required_argument, NULL, 's'}, {"runs", required_argument, NULL, 'r'},
		{"jobs", required_argument, NULL, 'j'}, {"directory", required_argument, NULL, 'd'},
		{"verbose", no_argument, NULL, 'v'},	{0}};
	for (int c; (c = getopt_long(argc, argv, "s:r:j:d:v", options, NULL)) != -1;) {
		switch (c) {
		case 's': arguments->seed = strtoull(optarg, NULL, 10); break;
		case 'r': arguments->runs = strtoull(optarg, NULL, 10); break;
		case 'j': arguments->jobs = strtoull(optarg, NULL, 10); break;
		case 'd': arguments->directory = optarg; break;
		case 'v': arguments->verbose = true; break;
		default: return -1;
		}
	}
	if (arguments->jobs == 0 || arguments->jobs > JOBS_MAX)
		arguments->jobs = 1;
	return optind == argc ? 0 : -1;
}

/* Waits for all; at the first that fails the others are ended. */
static int wait_for(pid_t *children, unsigned count)
{
	bool failed = false;
	for (unsigned left = count; left > 0; left--) {
		int status;
		pid_t child = wait(&status);
		unsigned index = 0;
		while (index < count && children[index] != child)
			index++;
		if (child < 0 || index == count)
			break;
		children[index] = 0;
		if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
			continue;
		if (!failed && !jobs[index].has_reason)
			fprintf(stderr, "sim: seed %" PRIu64 " ends the process: %s\n", jobs[index].seed,
				WIFSIGNALED(status) ? strsignal(WTERMSIG(status)) : "exit");
		if (!failed)
			fprintf(stderr, "sim: again: %s --seed %" PRIu64 " --verbose\n", program, jobs[index].seed);
		for (unsigned i = 0; i < count && !failed; i++)
			if (children[i])
				kill(children[i], SIGKILL);
		failed = true;
	}
	return failed ? 1 : 0;
}

int main(int argc, char **argv)
{
	struct arguments arguments = {.seed = 1, .runs = 1, .jobs = 1, .directory = "/dev/shm"};
	pid_t children[JOBS_MAX] = {0};
	struct totals sum = {0};
	program = argv[0];
	if (parse(argc, argv, &arguments) < 0) {
		fprintf(stderr, "usage: sim [--seed N] [--runs N] [--jobs N] [--verbose] [--directory DIR]\n");
		return 2;
	}
	jobs = mmap(NULL, arguments.jobs * sizeof(*jobs), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (jobs == MAP_FAILED)
		return 2;
	char directory[PATH_MAX];
	snprintf(directory, sizeof(directory), "%s/wick-sim-XXXXXX", arguments.directory);
	if (!mkdtemp(directory)) {
		fprintf(stderr, "sim: cannot make %s: %s\n", directory, strerror(errno));
		return 2;
	}
	arguments.directory = directory;
	int64_t started = time_monotonic_ns();
	for (unsigned i = 0; i < arguments.jobs; i++) {
		children[i] = fork();
		if (children[i] == 0)
			work(&arguments, i);
	}
	int r = wait_for(children, (unsigned)arguments.jobs);
	io_remove_tree(directory, NULL);
	for (unsigned i = 0; i < arguments.jobs; i++) {
		const struct totals *t = &jobs[i].totals;
		for (size_t k = 0; k < sizeof(sum) / sizeof(uint64_t); k++)
			((uint64_t *)&sum)[k] += ((const uint64_t *)t)[k];
	}
	printf("sim: seeds from %" PRIu64 ", %" PRIu64 " runs in %.1f s: %" PRIu64 " lives, %" PRIu64 " deaths, %" PRIu64
	       " changing calls, %" PRIu64 " interruptions, %" PRIu64 " appends acknowledged, %" PRIu64 " cuts, %" PRIu64
	       " merges, %" PRIu64 " blocks removed, %" PRIu64 " queries, %" PRIu64 " rows compared\n",
	       arguments.seed, sum.runs, (double)(time_monotonic_ns() - started) / NS_PER_S, sum.lives, sum.deaths, sum.calls,
	       sum.interruptions, sum.acknowledged, sum.cuts, sum.compactions, sum.blocks_removed, sum.queries, sum.rows);
	return r;
}
