/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The planted service: one of which a test knows everything, among fifty of which it knows nothing. Its ten pods sample the
 * same in each flush, to the sample, so what is to be found can be said in advance and exactly. Changing a number here changes
 * what tests expect; options and seed do not.
 *
 * Service `beacon`, pods beacon-0 to beacon-9 (k8s.pod.name) on hosts 3, 13 ... 93, in the namespace `truth`, binary
 * /opt/beacon/bin/beacon, one thread, `worker`. Version 1.0.0 until the deploy (--deploy), 1.1.0 from then on. Samples a flush
 * of 10 s and pod, each 1/19 s with the usual --frequency, by stack (the table below has them with their lines):
 *
 *   main > serve > handle_request > parse_request                 10           10
 *                                   parse_request > is_space       5 (inlined)  5
 *                                   parse_request > validate_utf8  0            6   new
 *                                   render_page                    5            5
 *                                   render_page > escape_html     36           36   lines 14 (24), 16 (12)
 *                                   render_error > escape_html     4            4   line 19
 *                                   render_page > compress        10            0   gone; binary libsqueeze.so.1
 *                                   lookup                         8            8
 *                                   lookup > hash_key             12           24   twice as much
 *                  serve > [kernel] tcp_recvmsg                   10            7   less
 *   all                                                          100          105
 *   of beacon-7 alone, besides: main > serve > retry_loop > spin_wait 50, before and after
 *
 * So the hottest function by self is escape_html (40 of 100), called by render_page (9 of 10) and render_error; the pod that
 * differs is beacon-7; and since the deploy hash_key takes 12 samples more, validate_utf8 is new with 6, tcp_recvmsg takes 3
 * less, compress is gone with 10: 5 more in all.
 */
#include <stdio.h>
#include <string.h>

#include "bench/fleet/fleet.h"

#define HOSTS_APART 10
#define HOST_FIRST  3
#define ODD_POD	    7
#define DEPTH_MAX   8
#define APP	    "/opt/beacon/bin/beacon"
#define LIBRARY	    "/usr/lib/libsqueeze.so.1"

enum function {
	NONE,
	MAIN,
	SERVE,
	HANDLE,
	PARSE,
	SPACE,
	UTF8,
	PAGE,
	ESCAPE,
	ERROR_PAGE,
	SQUEEZE,
	LOOKUP,
	HASH,
	RECEIVE,
	RETRY,
	SPIN
};
static const struct {
	const char *name, *file;
	int64_t line; /* where it begins */
} functions[] = {
	[MAIN] = {"main", "/src/beacon/main.c", 8},
	[SERVE] = {"serve", "/src/beacon/server.c", 31},
	[HANDLE] = {"handle_request", "/src/beacon/server.c", 80},
	[PARSE] = {"parse_request", "/src/beacon/parser.c", 18},
	[SPACE] = {"is_space", "/src/beacon/parser.c", 7},
	[UTF8] = {"validate_utf8", "/src/beacon/parser.c", 61},
	[PAGE] = {"render_page", "/src/beacon/render.c", 25},
	[ESCAPE] = {"escape_html", "/src/beacon/escape.c", 9},
	[ERROR_PAGE] = {"render_error", "/src/beacon/render.c", 70},
	[SQUEEZE] = {"compress", "/src/squeeze/compress.c", 102},
	[LOOKUP] = {"lookup", "/src/beacon/cache.c", 50},
	[HASH] = {"hash_key", "/src/beacon/hash.c", 5},
	[RECEIVE] = {"tcp_recvmsg", "net/ipv4/tcp.c", 0},
	[RETRY] = {"retry_loop", "/src/beacon/retry.c", 12},
	[SPIN] = {"spin_wait", "/src/beacon/retry.c", 3},
};

static const struct stack {
	struct {
		enum function function;
		int64_t line;
	} frames[DEPTH_MAX]; /* outermost first */
	uint32_t before, after;
	bool is_odd;
} stacks[] = {
	{{{MAIN, 12}, {SERVE, 40}, {HANDLE, 88}, {PARSE, 24}}, 10, 10, false},
	{{{MAIN, 12}, {SERVE, 40}, {HANDLE, 88}, {PARSE, 27}, {SPACE, 8}}, 5, 5, false},
	{{{MAIN, 12}, {SERVE, 40}, {HANDLE, 88}, {PARSE, 30}, {UTF8, 66}}, 0, 6, false},
	{{{MAIN, 12}, {SERVE, 40}, {HANDLE, 91}, {PAGE, 33}}, 5, 5, false},
	{{{MAIN, 12}, {SERVE, 40}, {HANDLE, 91}, {PAGE, 30}, {ESCAPE, 14}}, 24, 24, false},
	{{{MAIN, 12}, {SERVE, 40}, {HANDLE, 91}, {PAGE, 30}, {ESCAPE, 16}}, 12, 12, false},
	{{{MAIN, 12}, {SERVE, 40}, {HANDLE, 94}, {ERROR_PAGE, 74}, {ESCAPE, 19}}, 4, 4, false},
	{{{MAIN, 12}, {SERVE, 40}, {HANDLE, 91}, {PAGE, 41}, {SQUEEZE, 120}}, 10, 0, false},
	{{{MAIN, 12}, {SERVE, 40}, {HANDLE, 85}, {LOOKUP, 55}}, 8, 8, false},
	{{{MAIN, 12}, {SERVE, 40}, {HANDLE, 85}, {LOOKUP, 53}, {HASH, 7}}, 12, 24, false},
	{{{MAIN, 12}, {SERVE, 37}, {RECEIVE, 0}}, 10, 7, false},
	{{{MAIN, 12}, {SERVE, 44}, {RETRY, 15}, {SPIN, 4}}, 50, 50, true},
};

bool fleet_truth_is_on(const struct fleet *fleet, unsigned host)
{
	return fleet->options.has_truths && host % HOSTS_APART == HOST_FIRST && host < 100;
}

struct planting {
	struct profile *to;
	struct error *err;
};

static int add_function(struct planting *planting, enum function which, uint32_t *ret)
{
	struct profile_function function = {.start_line = functions[which].line};
	int r = profile_add_cstring(planting->to, functions[which].name, &function.name, planting->err);
	function.system_name = function.name;
	if (r == 0)
		r = profile_add_cstring(planting->to, functions[which].file, &function.file_name, planting->err);
	return r == 0 ? profile_add_function(planting->to, &function, ret, planting->err) : r;
}

/* Without a build-id, as an SDK sends it: the names are all there is to know. */
static int add_mapping(struct planting *planting, const char *file, uint64_t start, uint32_t *ret)
{
	struct profile_mapping mapping = {.start = start, .limit = start + 0x100000};
	int r = profile_add_cstring(planting->to, file, &mapping.file_name, planting->err);
	return r == 0 ? profile_add_mapping(planting->to, &mapping, ret, planting->err) : r;
}

/* Frame i of the stack; an inlined one is a line of its caller's location. */
static int add_location(struct planting *planting, const struct stack *stack, size_t i, size_t *ret_used, uint32_t *ret)
{
	struct profile_line lines[2];
	size_t count = stack->frames[i + 1].function == SPACE ? 2 : 1;
	enum function which = stack->frames[i].function;
	struct profile_location location = {.frame_type = which == RECEIVE ? PROFILE_FRAME_KERNEL : PROFILE_FRAME_NATIVE};
	int r = 0;
	*ret_used = count;
	for (size_t k = 0; r == 0 && k < count; k++) { /* innermost first */
		lines[k] = (struct profile_line){.line = stack->frames[i + count - 1 - k].line};
		r = add_function(planting, stack->frames[i + count - 1 - k].function, &lines[k].function);
	}
	if (r == 0 && which != RECEIVE)
		r = add_mapping(planting, which == SQUEEZE ? LIBRARY : APP, which == SQUEEZE ? 0x7f0000000000 : 0x400000,
				&location.mapping);
	if (location.mapping)
		location.address = planting->to->mappings[location.mapping].start;
	return r == 0 ? profile_add_location(planting->to, &location, lines, count, ret, planting->err) : r;
}

static int add_stack(struct planting *planting, const struct stack *stack, uint32_t *ret)
{
	int r = 0;
	*ret = 0;
	for (size_t i = 0, used; r == 0 && i < DEPTH_MAX - 1 && stack->frames[i].function != NONE; i += used) {
		uint32_t location;
		r = add_location(planting, stack, i, &used, &location);
		if (r == 0)
			r = profile_add_stack(planting->to, *ret, location, ret, planting->err);
	}
	return r;
}

int fleet_truth_emit(struct fleet_emitter *emitter, unsigned host, uint64_t tick, uint64_t *ret_events, struct error *err)
{
	const struct fleet_options *options = &emitter->fleet->options;
	struct planting planting = {emitter->profile, err};
	int64_t time_ns = options->start_ns + (int64_t)tick * FLEET_FLUSH_NS + emitter->fleet->hosts[host].offset_ns;
	bool is_new = time_ns >= options->deploy_ns;
	unsigned pod = host / HOSTS_APART;
	char name[32], pid[16];
	struct fleet_labels labels[] = {
		{"service.name", "beacon"},	 {"service.version", is_new ? "1.1.0" : "1.0.0"}, {"k8s.pod.name", name},
		{"k8s.namespace.name", "truth"}, {"process.executable.name", "beacon"},		  {"process.pid", pid},
		{"thread.name", "worker"}};
	uint32_t set;
	snprintf(name, sizeof(name), "beacon-%u", pod);
	snprintf(pid, sizeof(pid), "%u", 700 + pod + (is_new ? 100 : 0));
	int r = fleet_emit_labels(emitter, host, labels, sizeof(labels) / sizeof(*labels), &set, err);
	*ret_events = 0;
	for (size_t i = 0; r == 0 && i < sizeof(stacks) / sizeof(*stacks); i++) {
		uint32_t count = is_new ? stacks[i].after : stacks[i].before;
		struct profile_sample sample = {.time_ns = emitter->is_window ? time_ns : 0, .labels = set};
		int64_t value = count * emitter->profile->period;
		if (count == 0 || (stacks[i].is_odd && pod != ODD_POD))
			continue;
		r = add_stack(&planting, &stacks[i], &sample.stack);
		if (r == 0)
			r = profile_add_sample(emitter->profile, &sample, &value, err);
		*ret_events += count;
	}
	return r;
}
