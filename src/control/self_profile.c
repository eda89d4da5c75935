/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Samples are added to the profile as they come, with addresses as offsets in their files, so that a profile of five minutes
 * takes no more memory than one of a second with as many stacks. Names are given at the end (self_writer.h).
 */
#include "control/self_profile.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

#include "base/text.h"
#include "base/time.h"
#include "control/self_heap.h"
#include "control/self_writer.h"

#define SECONDS_DEFAULT 30u
#define STEP_NS		(50 * NS_PER_MS)
#define OWN_PROGRAM	"/proc/self/exe"

struct making {
	struct self_writer writer;
	struct self_sample sample;
	uint64_t lost;
};

static void making_release(struct making *making)
{
	self_writer_release(&making->writer);
}

/* ---- samples ---- */

/* A return address is behind its call. */
static int add_stack(struct making *making, const struct self_sample *sample, uint32_t *ret, struct error *err)
{
	uint64_t addresses[SELF_FRAMES_MAX];
	size_t depth = self_walk(&making->writer.mappings, sample, addresses);
	for (size_t i = 1; i < depth; i++)
		addresses[i]--;
	return self_writer_add_stack(&making->writer, addresses, depth, ret, err);
}

static int add_sample(struct making *making, const struct self_sample *sample, struct error *err)
{
	struct profile_sample added = {0};
	int64_t values[] = {sample->periods, (int64_t)sample->periods * (NS_PER_S / SELF_HZ)};
	int r = 0;
	/* Something may have been loaded since. */
	if (!self_mappings_find(&making->writer.mappings, sample->pc) &&
	    time_monotonic_ns() - making->writer.mapped_ns > NS_PER_S)
		r = self_writer_read_mappings(&making->writer, err);
	if (r == 0)
		r = add_stack(making, sample, &added.stack, err);
	return r < 0 ? r : profile_add_sample(making->writer.profile, &added, values, err);
}

static int take_samples(struct making *making, struct error *err)
{
	int r = 0;
	while (r == 0 && self_sampler_take(&making->sample))
		r = add_sample(making, &making->sample, err);
	return r < 0 ? r : profile_aggregate(making->writer.profile, err);
}

static int run(struct making *making, int64_t duration_ns, const atomic_bool *cancel, struct error *err)
{
	int64_t until_ns = time_monotonic_ns() + duration_ns, left_ns;
	int r = 0;
	while (r == 0 && (left_ns = until_ns - time_monotonic_ns()) > 0) {
		if (cancel && atomic_load(cancel))
			return error_set(err, -ECANCELED, "the client disconnected");
		time_sleep_ns(left_ns < STEP_NS ? left_ns : STEP_NS);
		r = take_samples(making, err);
		if (r == 0)
			r = self_sampler_follow(err);
	}
	return r;
}

/* ---- the profile ---- */

static int begin(struct making *making, const struct symbol_worker_options *worker, struct error *err)
{
	int r = self_writer_init(&making->writer, worker, err);
	struct profile *profile = making->writer.profile;
	if (r == 0)
		r = profile_add_named_type(profile, "samples", "count", err);
	if (r == 0)
		r = profile_add_named_type(profile, "cpu", "nanoseconds", err);
	if (r < 0)
		return r;
	profile->period_type = profile->sample_types[1];
	profile->period = NS_PER_S / SELF_HZ;
	return 0;
}

static int finish(struct making *making, struct buffer *out, struct error *err)
{
	char text[96];
	int r = 0;
	if (making->lost) {
		snprintf(text, sizeof(text), "lost: %" PRIu64 " samples: the buffer was full", making->lost);
		r = profile_add_comment_text(making->writer.profile, text, err);
	}
	if (r == 0)
		r = self_writer_add_program(&making->writer, err);
	if (r == 0)
		r = self_writer_add_names(&making->writer, err);
	return r < 0 ? r : self_writer_encode(&making->writer, out, err);
}

int self_profile_make(int64_t duration_ns, const atomic_bool *cancel, const struct symbol_worker_options *worker,
		      struct buffer *out, struct error *err)
{
	_cleanup_(making_release) struct making making = {0};
	int r = begin(&making, worker, err);
	if (r == 0)
		r = self_sampler_start(err);
	if (r < 0)
		return r;
	int64_t began_ns = time_monotonic_ns();
	r = run(&making, duration_ns, cancel, err);
	making.writer.profile->duration_ns = time_monotonic_ns() - began_ns;
	making.lost = self_sampler_stop();
	return r < 0 ? r : finish(&making, out, err);
}

/* ---- routes ---- */

static void refuse(struct net_response *response, int status, const char *text)
{
	response->status = status;
	response->content_type = "text/plain; charset=utf-8";
	buffer_clear(&response->body);
	buffer_printf(&response->body, "%s\n", text);
}

/* At most SELF_PROFILE_SECONDS_MAX; *seconds stays if there is none. False: it has been refused. */
static bool read_seconds(const struct net_request *request, uint64_t *seconds, struct net_response *response)
{
	const char *given = net_request_query(request, "seconds");
	char text[96];
	if (!given || (text_parse_u64(given, seconds, NULL) == 0 && *seconds && *seconds <= SELF_PROFILE_SECONDS_MAX))
		return true;
	snprintf(text, sizeof(text), "seconds must be from 1 to %u", SELF_PROFILE_SECONDS_MAX);
	refuse(response, 400, text);
	return false;
}

static void respond(struct net_response *response, int r, const struct error *err, const char *disposition)
{
	if (r < 0) {
		int status = r == -EBUSY ? 409 : r == -ENOMEM || r == -ECANCELED ? 503 : r == -ENOTSUP ? 501 : 500;
		refuse(response, status, err->message);
		return;
	}
	response->content_type = "application/octet-stream";
	response->no_compress = true;
	net_response_header(response, "Content-Disposition", disposition);
	net_response_header(response, "Cache-Control", "no-store");
}

static const struct symbol_worker_options own_worker = {.program = OWN_PROGRAM};

void self_profile_show(void *context, const struct net_request *request, struct net_response *response)
{
	uint64_t seconds = SECONDS_DEFAULT;
	struct error err = {0};
	if (!read_seconds(request, &seconds, response))
		return;
	int r = self_profile_make((int64_t)seconds * NS_PER_S, net_request_cancelled(request), &own_worker, &response->body,
				  &err);
	respond(response, r, &err, "attachment; filename=\"profile\"");
}

/* gc is taken and does nothing, as there is nothing to collect. */
static void show_heap(const struct net_request *request, enum self_heap_default shown, const char *disposition,
		      struct net_response *response)
{
	const char *debug = net_request_query(request, "debug");
	uint64_t seconds = 0, level = 0;
	struct error err = {0};
	if (debug && (text_parse_u64(debug, &level, NULL) < 0 || level > 0)) {
		refuse(response, 400, "debug must be 0: there is no heap profile as text");
		return;
	}
	if (!read_seconds(request, &seconds, response))
		return;
	int r = self_heap_make(shown, (int64_t)seconds * NS_PER_S, net_request_cancelled(request), &own_worker, &response->body,
			       &err);
	respond(response, r, &err, disposition);
}

void self_profile_show_heap(void *context, const struct net_request *request, struct net_response *response)
{
	show_heap(request, SELF_HEAP_IN_USE, "attachment; filename=\"heap\"", response);
}

void self_profile_show_allocs(void *context, const struct net_request *request, struct net_response *response)
{
	show_heap(request, SELF_HEAP_ALLOCATED, "attachment; filename=\"allocs\"", response);
}

#define HEAP_ITEMS                                                                                                             \
	"<li><a href=\"" SELF_PROFILE_HEAP_PATH "\">heap</a>: memory in use, and what was allocated since the start, of one "  \
	"allocation in 512 KiB; with <code>seconds</code> (at most 300), the change meanwhile</li>\n"                          \
	"<li><a href=\"" SELF_PROFILE_ALLOCS_PATH "\">allocs</a>: the same, shown by what was allocated</li>\n"

void self_profile_show_index(void *context, const struct net_request *request, struct net_response *response)
{
	response->content_type = "text/html; charset=utf-8";
	buffer_append_string(&response->body,
			     "<!DOCTYPE html>\n<html lang=\"en\"><head><title>/debug/pprof/</title></head><body>\n"
			     "<h1>/debug/pprof/</h1>\n"
			     "<p>Profiles of this Wick process itself, for <code>go tool pprof</code>.</p>\n<ul>\n");
	if (heap_sampler_is_built_in())
		buffer_append_string(&response->body, HEAP_ITEMS);
	buffer_append_string(&response->body, "<li><a href=\"" SELF_PROFILE_PATH
					      "?seconds=30\">profile</a>: CPU time of the next <code>seconds</code> (30, "
					      "at most 300), by threads' own timers; one at a time</li>\n</ul>\n");
	if (!heap_sampler_is_built_in())
		buffer_append_string(&response->body, "<p>There is no heap profile: " SELF_HEAP_NOT_BUILT_IN "</p>\n");
	buffer_append_string(&response->body, "</body></html>\n");
}
