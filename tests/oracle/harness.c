/* SPDX-License-Identifier: Apache-2.0 */
/*
 * harness [-F HZ] [-v N] PROGRAM [ARGUMENT...]: runs an instrumented program (tests/programs/unwind) under the sampler in
 * capture mode and checks four chains of each sample against the truth in the copy of its stack:
 *
 *   agent   what a profile would hold: the kernel side's walk, finished in user space where that lacked knowledge
 *   kernel  the kernel side's walk alone, without the first samples of what it does not know yet
 *   user    the same code in user space, on the copy, which ends after 16 KiB (so deep stacks are cut there)
 *   plain   a walk written for these tests, on our tables
 *
 * Of each complete chain three damaged copies are made (without the root, without a caller, with a caller twice): the oracle
 * must find each of them wrong, or it would find nothing. It says how many it missed.
 *
 * Addresses are not randomized, so that programs that the program starts from its own file are laid out alike. Prints a line a
 * chain and one a scenario that has incomplete samples; exits with 1 if a frame was wrong.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/personality.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/time.h"
#include "tests/oracle/pipeline.h"
#include "tests/oracle/truth.h"
#include "unwind/unwind_result.h"

#define DRAIN_US      20000
#define SCENARIOS_MAX 128
#define SHOWN_MAX     12 /* frames of a chain */

enum checked_walk { CHECKED_AGENT, CHECKED_KERNEL, CHECKED_USER, CHECKED_PLAIN, CHECKED_COUNT };
static const char *const checked_walk_names[CHECKED_COUNT] = {"agent", "kernel", "user", "plain"};

struct tally {
	uint64_t samples, outcomes[TRUTH_OUTCOMES], results[UNWIND_RESULTS], by_frames;
};
struct scenario_tally {
	const char *name;
	uint64_t samples, incomplete;
};
struct harness {
	struct pipeline *pipeline;
	struct space space;
	struct truth truth;
	pid_t child;
	struct tally tallies[CHECKED_COUNT];
	uint64_t other, gone, damaged, missed;
	struct scenario_tally scenarios[SCENARIOS_MAX];
	size_t scenario_count;
	unsigned verbose; /* how many chains that are not right are shown */
	const char *comm;
};

static void show(const struct harness *harness, const struct capture *capture, const struct chain *chain, const char *title)
{
	printf("  %s: pid %u tid %u result %s, %zu frames, node %#" PRIx64 ", sp %#" PRIx64 " fp %#" PRIx64 ", stack %zu\n",
	       title, capture->tgid, capture->tid, unwind_result_name(chain->result), chain->count, truth_find_node(capture),
	       capture->regs[UNWIND_REGISTER_SP], capture->regs[UNWIND_REGISTER_FP], capture->stack_bytes);
	for (size_t i = 0; i < chain->count && i < SHOWN_MAX; i++)
		printf("    %2zu %s\n", i, space_name(&harness->space, chain->frames[i]));
	if (chain->count == 0)
		return;
	uint64_t last = chain->frames[chain->count - 1];
	const struct unwind_rule *rule = space_rule(&harness->space, chain->count > 1 ? last - 1 : last);
	if (rule)
		printf("    stopped at %s, rule: cfa %u register %u offset %d %d, ra %u %d, fp %u %d\n",
		       space_name(&harness->space, last), rule->cfa, rule->cfa_register, rule->offset, rule->offset2, rule->ra,
		       rule->ra_offset, rule->fp, rule->fp_offset);
	else
		printf("    stopped at %s, no rule\n", space_name(&harness->space, last));
}

static void count_scenario(struct harness *harness, const char *name, bool incomplete)
{
	size_t i = 0;
	while (i < harness->scenario_count && strcmp(harness->scenarios[i].name, name) != 0)
		i++;
	if (i == SCENARIOS_MAX)
		return;
	if (i == harness->scenario_count)
		harness->scenarios[harness->scenario_count++].name = name;
	harness->scenarios[i].samples++;
	harness->scenarios[i].incomplete += incomplete;
}

static void check_walk(struct harness *harness, enum checked_walk which, const struct capture *capture,
		       const struct chain *chain)
{
	struct tally *tally = &harness->tallies[which];
	const char *why, *scenario;
	enum truth_outcome outcome = truth_check(&harness->truth, capture, chain, &why, &scenario);

	tally->samples++;
	tally->outcomes[outcome]++;
	tally->by_frames += chain->by_frames && UNWIND_IS_COMPLETE(chain->result);
	if (chain->result < UNWIND_RESULTS)
		tally->results[chain->result]++;
	if (which == CHECKED_AGENT)
		count_scenario(harness, scenario, !UNWIND_IS_COMPLETE(chain->result));
	bool of_interest = outcome >= TRUTH_WRONG || (!UNWIND_IS_COMPLETE(chain->result) && which == CHECKED_AGENT);
	if (of_interest && harness->verbose > 0) {
		harness->verbose--;
		char title[200];
		snprintf(title, sizeof(title), "%s %s (%s)", checked_walk_names[which], truth_outcome_names[outcome],
			 why ? why : "");
		show(harness, capture, chain, title);
	}
}

/* The interrupted code behind a signal frame, as an address again. */
static struct chain *plainly(const struct harness *harness, const struct chain *chain)
{
	static struct chain copy;
	copy = *chain;
	for (size_t i = 2; i < copy.count; i++)
		if (is_restorer(&harness->space, copy.frames[i - 1]))
			copy.frames[i]--;
	return &copy;
}

/* An oracle that finds no fault with a damaged chain is none. */
static void damage(struct harness *harness, const struct capture *capture, const struct chain *chain)
{
	static struct chain copy;
	const char *why, *scenario;
	if (!UNWIND_IS_COMPLETE(chain->result) || chain->count < 8 || chain->count >= UNWIND_FRAMES_MAX ||
	    truth_installs_context(&harness->truth, chain->frames[0]) ||
	    truth_check(&harness->truth, capture, chain, &why, &scenario) != TRUTH_RIGHT || truth_find_node(capture) == 0)
		return;
	/* shadowed_slice() calls each scenario; it is the outermost function with a node, and never the one that runs. */
	size_t caller = chain->count - 1;
	while (caller > 0 && !truth_is_instrumented(&harness->truth, chain->frames[caller] - 1))
		caller--;
	if (caller < 2)
		return; /* of another thread, or too near the leaf */
	for (unsigned kind = 0; kind < 3; kind++) {
		copy = *chain;
		size_t at = kind == 0 ? chain->count - 1 : caller, to = kind == 2 ? at + 1 : at, from = kind == 2 ? at : at + 1;
		memmove(&copy.frames[to], &chain->frames[from], (chain->count - from) * sizeof(*copy.frames));
		copy.count = kind == 2 ? chain->count + 1 : chain->count - 1;
		harness->damaged++;
		harness->missed += truth_check(&harness->truth, capture, &copy, &why, &scenario) < TRUTH_WRONG;
	}
}

static bool knows(const struct harness *harness, const struct chain *chain)
{
	for (size_t i = 0; i < chain->count; i++)
		if (!space_find(&harness->space, chain->frames[i]))
			return false;
	return true;
}

static void take(void *context, const struct pipeline_sample *sample)
{
	static struct chain chain;
	struct harness *harness = context;
	if (strncmp(sample->comm, harness->comm, strlen(harness->comm)) != 0) {
		harness->other++; /* our own child before exec */
		return;
	}
	if (sample->capture.stack_bytes == 0 && !UNWIND_IS_COMPLETE(sample->agent.result)) {
		harness->gone++; /* in execve(2), after the old memory went away: there is nothing to walk */
		return;
	}
	if (!knows(harness, &sample->agent) && kill(harness->child, 0) == 0) {
		space_read(&harness->space, harness->child); /* dlopen */
		truth_read(&harness->truth, &harness->space);
	}
	check_walk(harness, CHECKED_AGENT, &sample->capture, plainly(harness, &sample->agent));
	damage(harness, &sample->capture, plainly(harness, &sample->agent));
	if (!UNWIND_IS_CURABLE(sample->kernel.result))
		check_walk(harness, CHECKED_KERNEL, &sample->capture, plainly(harness, &sample->kernel));
	check_walk(harness, CHECKED_USER, &sample->capture, plainly(harness, &sample->user));
	plain_walk(&harness->space, &sample->capture, &chain);
	check_walk(harness, CHECKED_PLAIN, &sample->capture, &chain);
}

/* Starts the program and waits until it says that it is ready, when all it needs is loaded. */
static void start(struct harness *harness, char **argv)
{
	int out[2], go[2];
	char line[16] = "";
	if (pipe(out) < 0 || pipe(go) < 0)
		die("pipe: %s", strerror(errno));
	harness->child = fork();
	if (harness->child < 0)
		die("fork: %s", strerror(errno));
	if (harness->child == 0) {
		personality(ADDR_NO_RANDOMIZE);
		dup2(out[1], STDOUT_FILENO);
		if (read(go[0], line, 1) == 1)
			execv(argv[0], argv);
		_exit(127);
	}
	close(out[1]);
	close(go[0]);
	pipeline_add(harness->pipeline, harness->child);
	if (write(go[1], "x", 1) != 1 || read(out[0], line, sizeof(line)) < 5)
		die("%s does not start", argv[0]);
	close(go[1]);
	space_read(&harness->space, harness->child);
	truth_read(&harness->truth, &harness->space);
}

static double percent(uint64_t part, uint64_t whole)
{
	return whole ? 100.0 * (double)part / (double)whole : 0;
}

static bool print(const struct harness *harness)
{
	uint64_t wrong = 0;
	for (unsigned i = 0; i < CHECKED_COUNT; i++) {
		const struct tally *tally = &harness->tallies[i];
		uint64_t bad = tally->outcomes[TRUTH_WRONG] + tally->outcomes[TRUTH_WRONG_FLAGGED];
		wrong += tally->outcomes[TRUTH_WRONG];
		printf("%-6s samples %" PRIu64 " complete %.2f%% right %" PRIu64 " unchecked %" PRIu64 " wrong %" PRIu64
		       " wrong-flagged %" PRIu64 " by-frames %" PRIu64 " above-main %" PRIu64,
		       checked_walk_names[i], tally->samples,
		       percent(tally->results[UNWIND_COMPLETE] + tally->results[UNWIND_ANALYSED], tally->samples),
		       tally->outcomes[TRUTH_RIGHT], tally->outcomes[TRUTH_UNCHECKED], tally->outcomes[TRUTH_WRONG],
		       bad - tally->outcomes[TRUTH_WRONG], tally->by_frames, tally->outcomes[TRUTH_MAIN]);
		for (unsigned r = 1; r < UNWIND_RESULTS; r++)
			if (tally->results[r])
				printf(" %s %" PRIu64, unwind_result_name((enum unwind_result)r), tally->results[r]);
		printf("\n");
	}
	for (size_t i = 0; i < harness->scenario_count; i++)
		if (harness->scenarios[i].incomplete)
			printf("  incomplete in %s: %" PRIu64 " of %" PRIu64 "\n", harness->scenarios[i].name,
			       harness->scenarios[i].incomplete, harness->scenarios[i].samples);
	printf("damaged %" PRIu64 " missed %" PRIu64 "\n", harness->damaged, harness->missed);
	printf("gone %" PRIu64 " other %" PRIu64 " lost %" PRIu64 "\n", harness->gone, harness->other,
	       pipeline_lost(harness->pipeline));
	return wrong == 0 && harness->missed == 0;
}

int main(int argc, char **argv)
{
	static struct harness harness;
	unsigned frequency_hz = 499;
	int option, status;

	while ((option = getopt(argc, argv, "+F:v:")) >= 0) {
		if (option == 'F')
			frequency_hz = (unsigned)strtoul(optarg, NULL, 10);
		else if (option == 'v')
			harness.verbose = (unsigned)strtoul(optarg, NULL, 10);
	}
	if (optind >= argc)
		die("usage: harness [-F HZ] [-v N] PROGRAM [ARGUMENT...]");
	char comm[16] = "";
	const char *slash = strrchr(argv[optind], '/');
	snprintf(comm, sizeof(comm), "%s", slash ? slash + 1 : argv[optind]);
	harness.comm = comm;
	harness.pipeline = pipeline_new(frequency_hz, false);
	start(&harness, argv + optind);
	while (waitpid(harness.child, &status, WNOHANG) == 0) {
		pipeline_drain(harness.pipeline, take, &harness);
		usleep(DRAIN_US);
	}
	usleep(DRAIN_US);
	pipeline_drain(harness.pipeline, take, &harness);
	bool right = print(&harness);
	if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
		die("%s failed (status %d)", argv[optind], status);
	pipeline_free(harness.pipeline);
	truth_release(&harness.truth);
	space_release(&harness.space);
	return right ? 0 : 1;
}
