/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sampling for wick top: the agent as a library, with a flush each time the picture is made. Its thread hands over a profile a
 * flush; names are given by whoever shows it, from tables that a thread of the symbolizer has built in the background: until a
 * binary has been read, its code has addresses.
 */
#include "cmd/top.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/limits.h"
#include "base/thread.h"
#include "base/time.h"
#include "cmd/follow.h"
#include "daemon/host_symbols.h"
#include "elf/content_key.h"
#include "profile/merge.h"
#include "symbol/symbol.h"
#include "symbol/worker.h"

#define SYMBOL_MEMORY_BYTES (64 * MIB)
#define LEADER_NICE	    (-10)
#define HELD_MAX	    256
#define RING_BYTES	    (1u << 20) /* of each CPU: room for copies of stacks, of which every new process sends some */
#define FEW_CPUS	    16	       /* on which that much is little */

/* A binary that was seen, and whose symbols have not been asked for. */
struct held_binary {
	char build_id[BUILD_ID_HEX_MAX], content[CONTENT_KEY_HEX];
	char *path;
	int fd; /* -1 = none */
};

struct top_sampler {
	struct held_binary held[HELD_MAX]; /* a ring */
	size_t held_next;
	struct agent *agent;
	struct symbolizer *symbolizer;
	struct host_symbols symbols;
	struct top_feed *feed;
	pthread_t thread;
	bool has_thread;
	struct profile *profile; /* of the flush that is being handed over */
	struct agent_stats last; /* at the end of the last interval */
	int64_t last_ns, last_cpu_ns;
};

/* ---- the agent's thread ---- */

static void release_held(struct held_binary *held)
{
	fd_closep(&held->fd);
	held->path = mem_free(held->path);
}

/* A process maps thirty files and is seen in five of them: a file is read only once there are samples in it. Until then it is
 * held open, for it may be gone later, or lie where this process does not see it. */
static void on_binary(void *context, const struct agent_binary *binary)
{
	struct top_sampler *sampler = context;
	struct held_binary *held = &sampler->held[sampler->held_next];
	if (!*binary->build_id)
		return;
	release_held(held); /* it can still be had by its path */
	held->path = mem_strdup(binary->path);
	held->fd = held->path ? fcntl(binary->fd, F_DUPFD_CLOEXEC, 0) : -1;
	snprintf(held->build_id, sizeof(held->build_id), "%s", binary->build_id);
	snprintf(held->content, sizeof(held->content), "%s", binary->content);
	sampler->held_next = (sampler->held_next + 1) % HELD_MAX;
}

static bool has_samples(const struct profile *profile, const char *build_id)
{
	uint32_t id;
	if (!intern_find(&profile->strings, build_id, strlen(build_id), &id))
		return false;
	for (size_t i = 1; i < profile->mapping_count; i++)
		if (profile->mappings[i].build_id == id)
			return true;
	return false;
}

/* A failure shows as addresses without names; the rest is as good. */
static void offer_held(struct top_sampler *sampler, const struct profile *profile)
{
	for (size_t i = 0; i < HELD_MAX; i++) {
		struct held_binary *held = &sampler->held[i];
		if (held->fd < 0 || !has_samples(profile, held->build_id))
			continue;
		symbolizer_offer(sampler->symbolizer, held->build_id, held->content, held->path, held->fd, NULL);
		release_held(held);
	}
}

static bool on_kernel_symbol(void *context, uint64_t address, struct agent_symbol *ret)
{
	return host_symbols_kernel(&((struct top_sampler *)context)->symbols, address, ret);
}

static bool on_jit_symbol(void *context, const struct agent_jit_address *address, struct agent_symbol *ret)
{
	return host_symbols_jit(&((struct top_sampler *)context)->symbols, address, ret);
}

/* It is borrowed; what is copied has only what is used. */
static int on_profile(void *context, struct profile *profile, struct error *err)
{
	struct top_sampler *sampler = context;
	int r = sampler->profile ? 0 : profile_new(&sampler->profile, err);
	return r < 0 ? r : profile_merge(sampler->profile, profile, true, err);
}

static void count_stacks(const struct agent_stats *stats, uint64_t *ret_all, uint64_t *ret_incomplete)
{
	*ret_all = *ret_incomplete = 0;
	for (size_t i = 0; i < UNWIND_RESULTS; i++)
		*ret_all += i == UNWIND_NO_USER ? 0 : stats->unwind.results[i];
	*ret_incomplete = *ret_all - stats->unwind.results[UNWIND_COMPLETE] - stats->unwind.results[UNWIND_ANALYSED];
}

/* This process, and its children for symbols, each once it has ended. */
static int64_t own_cpu_ns(void)
{
	struct rusage usage = {0};
	getrusage(RUSAGE_CHILDREN, &usage);
	return time_process_cpu_ns() + (usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * NS_PER_S +
	       (usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) * NS_PER_US;
}

static void measure(struct top_sampler *sampler, struct top_part *ret)
{
	struct agent_stats now;
	uint64_t stacks[2], incomplete[2];
	int64_t now_ns = time_monotonic_ns(), cpu_ns = own_cpu_ns();
	agent_get_stats(sampler->agent, &now);
	count_stacks(&sampler->last, &stacks[0], &incomplete[0]);
	count_stacks(&now, &stacks[1], &incomplete[1]);
	ret->interval = (struct top_interval){
		.from_ns = sampler->last_ns,
		.to_ns = now_ns,
		.taken = now.samples_taken - sampler->last.samples_taken,
		.lost = now.samples_lost[AGENT_LOSS_COUNTS_FULL] - sampler->last.samples_lost[AGENT_LOSS_COUNTS_FULL],
		.stacks = stacks[1] - stacks[0],
		.incomplete = incomplete[1] > incomplete[0] ? incomplete[1] - incomplete[0] : 0,
		.own_cpu_ns =
			cpu_ns - sampler->last_cpu_ns + (int64_t)(now.unwind.program_ns - sampler->last.unwind.program_ns)};
	ret->frequency_hz = now.frequency_hz;
	sampler->last = now;
	sampler->last_ns = now_ns;
	sampler->last_cpu_ns = cpu_ns;
}

static void on_flush(void *context)
{
	struct top_sampler *sampler = context;
	struct top_part part = {.profile = TAKE(sampler->profile)};
	if (part.profile)
		offer_held(sampler, part.profile);
	measure(sampler, &part);
	host_symbols_refresh(&sampler->symbols);
	top_feed_put(sampler->feed, part);
}

static void *run(void *context)
{
	struct top_sampler *sampler = context;
	struct error err = {0};
	thread_lead(LEADER_NICE); /* rings must be read in time, whoever else wants the CPU */
	int r = agent_run(sampler->agent, 0, &err);
	top_feed_end(sampler->feed, r, &err);
	return NULL;
}

/* ---- beginning ---- */

/* What forked before it was followed. */
static int follow(struct top_sampler *sampler, struct top_settings *settings, struct error *err)
{
	int r = follow_children(&settings->pids, sampler->agent, settings->agent.unprivileged, err);
	settings->agent.pids = settings->pids.items;
	settings->agent.pid_count = settings->pids.count;
	return r;
}

static int start_agent(struct top_sampler *sampler, struct top_settings *settings, const char **ret_note, struct error *err)
{
	const struct agent_sink sink = {.context = sampler,
					.on_binary = on_binary,
					.kernel_symbol = on_kernel_symbol,
					.jit_symbol = on_jit_symbol,
					.on_profile = on_profile,
					.on_flush = on_flush};
	int r = follow(sampler, settings, err);
	if (r < 0)
		return r;
	settings->agent.flush_interval_ns = settings->delay_ns;
	settings->agent.timed = true; /* with the ids of threads, that is */
	settings->agent.event_ring_bytes = RING_BYTES;
	if (sysconf(_SC_NPROCESSORS_ONLN) <= FEW_CPUS)
		settings->agent.ring_bytes = RING_BYTES;
	settings->agent.cache_directory = unwind_cache_directory();
	r = agent_new(&settings->agent, &sink, &sampler->agent, err);
	if (r == -EPERM && settings->pids.count) {
		struct error why = *err;
		settings->agent.unprivileged = true;
		r = agent_new(&settings->agent, &sink, &sampler->agent, err);
		if (r == -EPERM)
			return error_set(err, r, "%.400s; %.400s", why.message, err->message);
		*ret_note = "without privileges: only your own processes, in user space";
	}
	return r < 0 ? r : follow(sampler, settings, err);
}

int top_sampler_new(struct top_settings *settings, struct top_feed *feed, struct top_sampler **ret, const char **ret_note,
		    struct error *err)
{
	/* In a process of its own: who is sampled may be somebody else. */
	static const struct symbol_worker_options worker = {.program = "/proc/self/exe"};
	const struct symbolizer_options symbols = {.worker = &worker,
						   .own_files = true,
						   .workers = 1,
						   .memory_max_bytes = SYMBOL_MEMORY_BYTES,
						   .file_cache_directory = symbol_cache_directory()};
	_cleanup_(top_sampler_freep) struct top_sampler *sampler = mem_zalloc(sizeof(*sampler));
	if (!sampler)
		return error_nomem(err);
	*ret_note = "";
	for (size_t i = 0; i < HELD_MAX; i++)
		sampler->held[i].fd = -1;
	sampler->feed = feed;
	int r = host_symbols_init(&sampler->symbols, err);
	sampler->symbols.cache_directory = unwind_cache_directory();
	if (r == 0)
		r = symbolizer_new(&symbols, &sampler->symbolizer, err);
	if (r == 0)
		r = start_agent(sampler, settings, ret_note, err);
	if (r < 0)
		return r;
	agent_get_stats(sampler->agent, &sampler->last);
	sampler->last_ns = time_monotonic_ns();
	sampler->last_cpu_ns = own_cpu_ns();
	*ret = TAKE(sampler);
	return 0;
}

int top_sampler_start(struct top_sampler *sampler, struct error *err)
{
	int r = thread_start(&sampler->thread, "wick-sampler", run, sampler, err);
	sampler->has_thread = r == 0;
	return r;
}

struct top_sampler *top_sampler_free(struct top_sampler *sampler)
{
	if (!sampler)
		return NULL;
	if (sampler->has_thread) {
		agent_stop(sampler->agent);
		pthread_join(sampler->thread, NULL);
	}
	for (size_t i = 0; i < HELD_MAX; i++)
		release_held(&sampler->held[i]);
	agent_free(sampler->agent);
	symbolizer_free(sampler->symbolizer);
	host_symbols_release(&sampler->symbols);
	profile_free(sampler->profile);
	return mem_free(sampler);
}

/* ---- names ---- */

int top_sampler_symbolize(struct top_sampler *sampler, struct profile *profile, int64_t wait_ns, size_t *ret_named,
			  unsigned *ret_pending, struct error *err)
{
	struct symbolizer_stats stats;
	struct symbolizer_coverage coverage;
	const struct symbolizer_want want = {.wait_ns = wait_ns};
	int r = symbolizer_resolve(sampler->symbolizer, profile, 1, &want, &coverage, err);
	if (r < 0)
		return r;
	symbolizer_get_stats(sampler->symbolizer, &stats);
	*ret_named = coverage.resolved;
	*ret_pending = (unsigned)(stats.waiting + stats.running);
	return 0;
}
