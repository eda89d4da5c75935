/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The recording `continuous`: markers that agents send continuously, in batches (marker_batches.h).
 *
 *   POST   /api/v1/recordings/continuous/hosts/HOST   an agent sends a batch
 *   GET    /api/v1/recordings/continuous              what there is
 *   GET    /api/v1/recordings/continuous/profile      of some time, as one profile
 *   DELETE /api/v1/recordings/continuous              removes all of it
 *
 * One profile of many batches: each is unpacked, read, put onto the server's clock by what its agent knew of its own then, cut
 * to the time that was asked for, and added, the oldest first. A thread's start is a part of what it is, and is off by a little
 * from batch to batch, as clocks are: starts of one pid and tid that are close together are one. At last the hosts are aligned
 * as those of requested recordings, so that flows tighten what is known. As there, what may be asked for at once is bounded,
 * and one such profile is made at a time.
 */
#include "server/recordings/api_marker_batches.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/limits.h"
#include "base/order.h"
#include "base/text.h"
#include "base/time.h"
#include "format/format.h"
#include "profile/align.h"
#include "profile/hosts.h"
#include "profile/merge.h"
#include "server/api/api_int.h"
#include "server/api/api_profile.h"
#include "server/recordings/api_recordings.h"

#define BELOW		CONTROL_CONTINUOUS_PATH "/hosts/"
#define LIST_BYTES	(32 * MIB)
#define HOSTS_NAMED	4
#define COMMENTS_MAX	100
#define THREAD_START_NS (50 * NS_PER_MS) /* starts of one thread in two batches are no further apart */

/* ---- sending ---- */

static int read_batch(const struct net_request *request, struct marker_batch *ret, struct error *err)
{
	const char *host = net_request_path(request) + strlen(BELOW);
	if (strlen(host) >= sizeof(ret->host) || !control_host_is_valid(host))
		return error_set(err, -EINVAL, "not a valid host name");
	snprintf(ret->host, sizeof(ret->host), "%s", host);
	int r = api_read_ns(request, "from_ns", false, &ret->from_ns, err);
	if (r == 0)
		r = api_read_ns(request, "to_ns", false, &ret->to_ns, err);
	ret->first_ns = ret->from_ns;
	if (r == 0 && net_request_query(request, "first_ns"))
		r = api_read_ns(request, "first_ns", false, &ret->first_ns, err);
	return r < 0 ? r : api_read_clock(request, &ret->clock, err);
}

void api_marker_batch_put(void *context, const struct net_request *request, struct net_response *response)
{
	struct tenant *tenant;
	struct recordings_stats requested;
	struct marker_batch batch = {0};
	struct error err = {0};
	struct bytes gzip = net_request_body(request);
	int r = read_batch(request, &batch, &err);
	if (r == 0)
		r = tenant_of_request(context, request, true, &tenant, &err);
	if (r == 0)
		r = api_recording_check(gzip, &err);
	if (r == 0) {
		recordings_get_stats(tenant->recordings, &requested);
		r = marker_batches_put(tenant->batches, &batch, gzip, requested.bytes, time_now_ns(), &err);
	}
	api_respond_done(response, r, &err);
}

/* ---- listing, removing ---- */

struct host_sum {
	const char *name; /* of a batch */
	uint64_t batches, bytes;
	int64_t from_ns, to_ns;
};

static int compare_hosts(const void *left, const void *right)
{
	const struct marker_batch *a = left, *b = right;
	return strcmp(a->host, b->host);
}

static void write_host(struct json_writer *json, const struct host_sum *sum)
{
	json_begin_object(json);
	json_member_cstring(json, "name", sum->name);
	json_member_uint(json, "windows", sum->batches);
	json_member_uint(json, "bytes", sum->bytes);
	json_member_int(json, "from_ms", sum->from_ns / NS_PER_MS);
	json_member_int(json, "to_ms", sum->to_ns / NS_PER_MS);
	json_end_object(json);
}

static void write_hosts(struct json_writer *json, struct marker_batch *all, size_t count)
{
	struct host_sum sum = {0};
	sort_array(all, count, compare_hosts);
	for (size_t i = 0; i < count; i++) {
		int64_t from_ns = marker_batch_time(&all[i], all[i].from_ns), to_ns = marker_batch_time(&all[i], all[i].to_ns);
		if (!sum.name || strcmp(sum.name, all[i].host) != 0) {
			if (sum.name)
				write_host(json, &sum);
			sum = (struct host_sum){.name = all[i].host, .from_ns = from_ns, .to_ns = to_ns};
		}
		sum.batches++;
		sum.bytes += all[i].bytes;
		sum.from_ns = from_ns < sum.from_ns ? from_ns : sum.from_ns;
		sum.to_ns = to_ns > sum.to_ns ? to_ns : sum.to_ns;
	}
	if (sum.name)
		write_host(json, &sum);
}

void api_marker_batches(void *context, const struct net_request *request, struct net_response *response)
{
	struct tenant *tenant;
	struct marker_batches_stats stats = {0};
	struct recordings_stats requested;
	struct error err = {0};
	_cleanup_(mem_freep) struct marker_batch *all = NULL;
	size_t count = 0;
	int r = tenant_of_request(context, request, false, &tenant, &err);
	if (r == 0) {
		recordings_get_stats(tenant->recordings, &requested);
		marker_batches_make_room(tenant->batches, requested.bytes, time_now_ns());
		r = marker_batches_find(tenant->batches, INT64_MIN, INT64_MAX, &all, &count, &err);
	}
	if (r == 0)
		marker_batches_get_stats(tenant->batches, &stats);
	response->body.max = LIST_BYTES;
	struct json_writer json = {.out = &response->body};
	json_begin_object(&json);
	json_member_uint(&json, "windows", stats.batches);
	json_member_uint(&json, "bytes", stats.bytes);
	json_member_uint(&json, "bytes_max", stats.bytes_max);
	json_member_array(&json, "hosts");
	write_hosts(&json, all, count);
	json_end_array(&json);
	json_end_object(&json);
	if (r == 0)
		r = json_finish(&json, &err);
	api_respond_failure(response, r, &err);
}

void api_marker_batches_remove(void *context, const struct net_request *request, struct net_response *response)
{
	struct tenant *tenant;
	struct error err = {0};
	int r = tenant_of_request(context, request, false, &tenant, &err);
	if (r == 0)
		marker_batches_remove(tenant->batches);
	api_respond_done(response, r, &err);
}

/* ---- reading a batch ---- */

static void move_times(struct profile *profile, const struct marker_batch *batch)
{
	struct profile_markers *markers = profile->markers;
	for (size_t i = 0; i < markers->marker_count; i++) {
		struct profile_marker *marker = &markers->markers[i];
		if (marker->start_ns)
			marker->start_ns = marker_batch_time(batch, marker->start_ns);
		if (marker->end_ns)
			marker->end_ns = marker_batch_time(batch, marker->end_ns);
		if (marker->phase == PROFILE_MARKER_INTERVAL && marker->end_ns < marker->start_ns) /* from rounding */
			marker->end_ns = marker->start_ns;
	}
	for (size_t i = 0; i < markers->row_count; i++)
		markers->rows[i].time_ns = marker_batch_time(batch, markers->rows[i].time_ns);
	for (size_t i = 1; i < markers->thread_count; i++)
		if (markers->threads[i].start_ns)
			markers->threads[i].start_ns = marker_batch_time(batch, markers->threads[i].start_ns);
}

/* Whatever the profile says of its host, this is which, and how its clock stood. */
static int name_host(struct profile *profile, const struct marker_batch *batch, struct error *err)
{
	int r = profile_complete_hosts(profile, batch->host, err);
	if (r < 0 || !profile->markers)
		return r;
	if (profile_host_count(profile) != 1)
		return error_set(err, -EBADMSG, "it has %zu hosts", profile_host_count(profile));
	r = profile_rename_host(profile, 1, batch->host, err);
	if (r < 0)
		return r;
	struct profile_host *host = &profile->markers->hosts[1];
	*host = (struct profile_host){.name = host->name, .bound_ns = -1};
	if (!batch->clock.reference[0])
		return 0;
	host->at_ns = batch->clock.at_ns;
	host->offset_ns = batch->clock.offset_ns;
	host->skew = batch->clock.skew;
	host->bound_ns = batch->clock.bound_ns;
	host->is_aligned = true;
	uint32_t reference, method;
	r = profile_add_cstring(profile, batch->clock.reference, &reference, err);
	if (r == 0)
		r = profile_add_cstring(profile, "pings", &method, err);
	if (r == 0) {
		profile->markers->hosts[1].reference = reference;
		profile->markers->hosts[1].method = method;
	}
	return r;
}

int api_marker_batch_read(struct marker_batches *batches, const struct marker_batch *batch, struct profile **ret,
			  struct error *err)
{
	_cleanup_(buffer_release) struct buffer packed = {.max = RECORDINGS_UPLOAD_MAX + 64 * KIB};
	_cleanup_(profile_freep) struct profile *profile = NULL;
	int r = marker_batches_read(batches, batch, &packed, err);
	if (r == 0)
		r = api_decode_upload(&packed, batch->host, batch->plain_bytes, &profile, err);
	if (r == 0)
		r = name_host(profile, batch, err);
	if (r < 0)
		return r;
	if (profile->markers)
		move_times(profile, batch);
	*ret = TAKE(profile);
	return 0;
}

/* ---- one profile ---- */

/* What was chosen: batches, the oldest first. */
struct chosen {
	const struct marker_batch **items;
	size_t count;
	int64_t from_ns, to_ns;
};

static void chosen_release(struct chosen *chosen)
{
	mem_free((void *)chosen->items);
}

static int choose(const struct call *call, const struct marker_batch *all, size_t count, struct chosen *ret, struct error *err)
{
	uint64_t bytes = 0, most = api_profile_bytes_max(call->server);
	ret->items = mem_alloc_array(count + 1, sizeof(*ret->items));
	if (!ret->items)
		return error_nomem(err);
	for (size_t i = count; i > 0; i--) {
		if (!api_host_is_wanted(call->request, all[i - 1].host))
			continue;
		bytes += all[i - 1].plain_bytes;
		ret->items[ret->count++] = &all[i - 1];
	}
	if (!ret->count)
		return error_set(err, -ENOENT,
				 "no markers in this time range; agents with --markers send them within a minute");
	if (bytes > most)
		return error_set(err, -E2BIG,
				 "the markers of this time range have %llu KiB in %zu batches, more than the limit of %llu KiB "
				 "(recordings.profile); narrow the range with from= and to=, or choose hosts with host=NAME",
				 (unsigned long long)(bytes / KIB), ret->count, (unsigned long long)(most / KIB));
	return 0;
}

static bool is_within(const struct chosen *chosen, const struct profile_marker *marker)
{
	int64_t from_ns = marker->phase == PROFILE_MARKER_END ? marker->end_ns : marker->start_ns,
		to_ns = marker->phase == PROFILE_MARKER_INTERVAL ? marker->end_ns : from_ns;
	return to_ns >= chosen->from_ns && from_ns <= chosen->to_ns;
}

/* Values stay where they are, without markers that name them. */
static void cut(struct profile_markers *markers, const struct chosen *chosen)
{
	size_t count = 0;
	for (size_t i = 0; i < markers->marker_count; i++)
		if (is_within(chosen, &markers->markers[i]))
			markers->markers[count++] = markers->markers[i];
	markers->marker_count = count;
	count = 0;
	for (size_t i = 0; i < markers->row_count; i++)
		if (markers->rows[i].time_ns >= chosen->from_ns && markers->rows[i].time_ns <= chosen->to_ns)
			markers->rows[count++] = markers->rows[i];
	markers->row_count = count;
}

/* Orders threads by what distinguishes them, except for their starts. */
static int compare_threads(const void *left, const void *right, void *context)
{
	const struct profile *profile = context;
	const struct profile_thread *a = &profile->markers->threads[*(const uint32_t *)left],
				    *b = &profile->markers->threads[*(const uint32_t *)right];
	return ORDER(a->host, b->host) ?: ORDER(a->pid, b->pid) ?: ORDER(a->tid, b->tid) ?: ORDER(a->start_ns, b->start_ns);
}

/* Markers of threads that are one go to the one that began first. The others stay, without anything. */
static int unite_threads(struct profile *profile, struct error *err)
{
	struct profile_markers *markers = profile->markers;
	_cleanup_(mem_freep) uint32_t *order = mem_alloc_array(markers->thread_count, sizeof(*order));
	_cleanup_(mem_freep) uint32_t *become = mem_alloc_array(markers->thread_count, sizeof(*become));
	if (!order || !become)
		return error_nomem(err);
	for (uint32_t i = 0; i < markers->thread_count; i++)
		order[i] = become[i] = i;
	if (markers->thread_count > 1)
		qsort_r(order + 1, markers->thread_count - 1, sizeof(*order), compare_threads, profile);
	for (size_t i = 2; i < markers->thread_count; i++) {
		const struct profile_thread *before = &markers->threads[order[i - 1]], *thread = &markers->threads[order[i]];
		bool is_same = before->host == thread->host && before->pid == thread->pid && before->tid == thread->tid &&
			       thread->start_ns - before->start_ns <= THREAD_START_NS;
		if (is_same)
			become[order[i]] = become[order[i - 1]];
	}
	for (size_t i = 0; i < markers->marker_count; i++)
		markers->markers[i].thread = become[markers->markers[i].thread];
	for (size_t i = 1; i < markers->counter_count; i++)
		markers->counters[i].thread = become[markers->counters[i].thread];
	return 0;
}

static int add_comments(struct profile *to, const struct profile *from, const char *host, struct error *err)
{
	char text[400];
	uint32_t id;
	int r = 0;
	for (size_t i = 0; i < from->comment_count && r == 0 && to->comment_count < COMMENTS_MAX; i++) {
		snprintf(text, sizeof(text), "%.64s: %.300s", host, profile_string(from, from->comments[i]));
		r = profile_add_string(to, text, text_cut(bytes_of_string(text), sizeof(text) - 1), &id, err);
		if (r == 0)
			r = profile_add_comment(to, id, err);
	}
	return r;
}

static int add_batch(struct marker_batches *batches, const struct marker_batch *batch, const struct chosen *chosen,
		     struct profile *to, struct error *err)
{
	_cleanup_(profile_freep) struct profile *profile = NULL;
	_cleanup_(profile_copy_freep) struct profile_copy *copy = NULL;
	struct error why = {0};
	char text[ERROR_MESSAGE_MAX + 400];
	int r = api_marker_batch_read(batches, batch, &profile, &why);
	/* What one host sent is no reason to have nothing of the others. */
	if (r == -EBADMSG || r == -EINVAL || r == -E2BIG || r == -ENOENT) {
		snprintf(text, sizeof(text), "%.255s: a marker batch is missing: %s", batch->host, why.message);
		return to->comment_count < COMMENTS_MAX ? profile_add_comment_text(to, text, err) : 0;
	}
	if (r < 0)
		return error_set(err, r, "host %s: %s", batch->host, why.message);
	r = add_comments(to, profile, batch->host, err);
	if (r < 0 || !profile->markers)
		return r;
	cut(profile->markers, chosen);
	r = profile_copy_new(to, profile, &copy, err);
	return r < 0 ? r : profile_copy_markers(to, profile, copy, err);
}

static int merge(const struct call *call, const struct chosen *chosen, struct profile *to, struct error *err)
{
	int r = profile_add_named_type(to, "cpu", "nanoseconds", err);
	for (size_t i = 0; i < chosen->count && r == 0; i++) {
		if (cancel_requested(net_request_cancelled(call->request)))
			return error_set(err, -ECANCELED, "the client disconnected");
		r = add_batch(call->tenant->batches, chosen->items[i], chosen, to, err);
	}
	if (r < 0 || !to->markers)
		return r;
	r = unite_threads(to, err);
	return r < 0 ? r : profile_align(to, NULL, NULL, err);
}

static void title_of(const struct profile *profile, char *out, size_t size)
{
	size_t hosts = profile_host_count(profile), len = 0;
	for (size_t i = 1; i <= hosts && i <= HOSTS_NAMED && len < size; i++)
		len += (size_t)snprintf(out + len, size - len, "%s%s", len ? ", " : "",
					profile_string(profile, profile->markers->hosts[i].name));
	if (hosts > HOSTS_NAMED && len < size)
		snprintf(out + len, size - len, " and %zu more", hosts - HOSTS_NAMED);
}

static int answer_profile(struct call *call, struct error *err)
{
	_cleanup_(mem_freep) struct marker_batch *all = NULL;
	_cleanup_(chosen_release) struct chosen chosen = {.from_ns = call->requested_from_ns, .to_ns = call->requested_to_ns};
	_cleanup_(profile_freep) struct profile *profile = NULL;
	const char *format = call_parameter(call, "format", "firefox");
	char title[1024] = "";
	size_t count = 0;
	int r = api_check_profile_format(call->server, "format", format, err);
	if (r == 0)
		r = marker_batches_find(call->tenant->batches, chosen.from_ns, chosen.to_ns, &all, &count, err);
	if (r == 0)
		r = choose(call, all, count, &chosen, err);
	if (r == 0)
		r = profile_new(&profile, err);
	if (r < 0)
		return r;
	if (pthread_mutex_trylock(&call->server->recordings_turn) != 0)
		return error_set(err, -EAGAIN, "another profile of several hosts is being built; try again");
	r = merge(call, &chosen, profile, err);
	if (r == 0 && call->query.hide_addresses)
		r = profile_hide_addresses(profile, err);
	if (r == 0) {
		title_of(profile, title, sizeof(title));
		r = api_write_profile(call->server, profile, title, "recording-" CONTROL_CONTINUOUS, format, call->response,
				      err);
	}
	pthread_mutex_unlock(&call->server->recordings_turn);
	return r;
}

CALL_HANDLER(api_marker_batches_profile, answer_profile)
