/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One profile of all hosts of a recording: each host's file is unpacked, read, given its host's name and clock, and merged, one
 * after the other; then the times are put on one clock (profile/align.h).
 *
 * That takes memory, several times what the files are unpacked, so what may be asked for at once is bounded
 * (recordings.profile), and one such profile is made at a time. Another request meanwhile gets 503 with Retry-After, because
 * waiting would keep a worker from the questions of others.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/limits.h"
#include "base/text.h"
#include "base/time.h"
#include "codec/compress.h"
#include "format/format.h"
#include "profile/align.h"
#include "profile/hosts.h"
#include "server/api/api_profile.h"
#include "server/recordings/api_recordings.h"

#define HOSTS_NAMED	      4
#define PROFILE_BYTES_DEFAULT (128 * MIB)

/* ---- the host of a profile ---- */

/* Everything in the profile is of this host, whatever the host called itself; its agent told how its clock stood to the
 * server's. A file of several hosts is refused: it would bring hosts into the profile that nobody recorded. */
static int name_host(struct profile *profile, const struct recording_host *of, struct error *err)
{
	int r = profile_complete_hosts(profile, of->name, err);
	if (r == 0 && profile_host_count(profile) != 1)
		return error_set(err, -EBADMSG, "its profile has %zu hosts instead of one", profile_host_count(profile));
	if (r == 0)
		r = profile_rename_host(profile, 1, of->name, err);
	return r < 0 ? r : control_add_host_clock(profile, of->name, &of->clock, err);
}

/* ---- merging ---- */

int api_decode_upload(struct buffer *packed, const char *host, uint64_t plain_bytes, struct profile **ret, struct error *err)
{
	_cleanup_(buffer_release) struct buffer plain = {.max = plain_bytes + 1};
	struct format_options options = {.input_name = host, .decompressed_max = plain_bytes + 1};
	int r = gzip_decompress(buffer_bytes(packed), &plain, err);
	buffer_release(packed);
	return r < 0 ? r : format_decode(format_by_name("firefox"), buffer_bytes(&plain), &options, ret, err);
}

static int read_host(struct recordings *recordings, const char *id, const struct recording_host *host, struct profile **ret,
		     struct error *err)
{
	_cleanup_(buffer_release) struct buffer packed = {.max = RECORDINGS_UPLOAD_MAX + 64 * KIB};
	_cleanup_(profile_freep) struct profile *profile = NULL;
	int r = recordings_read(recordings, id, host->name, &packed, err);
	if (r == 0)
		r = api_decode_upload(&packed, host->name, host->plain_bytes, &profile, err);
	if (r == 0)
		r = name_host(profile, host, err);
	if (r == 0)
		*ret = TAKE(profile);
	return r;
}

/* Then without this host, and the response gives the reason: a bad profile of one host must not block the others. `first`
 * keeps the first such failure. */
static void leave_out(struct recordings *recordings, const char *id, struct recording_host *host, int code,
		      const struct error *why, struct error *first)
{
	host->state = RECORDING_FAILED;
	snprintf(host->why, sizeof(host->why), "%.*s", (int)text_cut(bytes_of_string(why->message), sizeof(host->why) - 1),
		 why->message);
	if (code == -EBADMSG || code == -E2BIG) /* of its own, whatever the others are like */
		recordings_give_up(recordings, id, host->name, host->why);
	if (!first->code)
		error_set(first, -EBADMSG, "no usable profile; host %s: %s", host->name, host->why);
}

struct merging {
	struct recordings *recordings;
	struct recording *recording;
	const struct net_request *request;
	bool *differs; /* by host: it counts something else than those before */
	size_t merged, different;
	struct error first; /* why the first one was left out */
};

/* 0, also when the host was left out. */
static int add_host(struct merging *merging, size_t i, struct profile *to, struct error *err)
{
	_cleanup_(profile_freep) struct profile *profile = NULL;
	struct recording_host *host = &merging->recording->hosts[i];
	const char *id = merging->recording->request.id;
	struct error why = {0};
	int r = read_host(merging->recordings, id, host, &profile, &why);
	bool is_its_fault = r == -EBADMSG || r == -EINVAL || r == -E2BIG || r == -ENOENT;
	if (r == 0) {
		r = profile_merge_hosts(to, profile, &why);
		is_its_fault = merging->differs[i] = r == -EINVAL; /* the others are as they were */
	}
	merging->merged += r == 0;
	merging->different += merging->differs[i];
	if (r == 0 || !is_its_fault)
		return r == 0 ? 0 : error_set(err, r, "host %s: %s", host->name, why.message);
	leave_out(merging->recordings, id, host, r, &why, &merging->first);
	return 0;
}

uint64_t api_profile_bytes_max(const struct server *server)
{
	uint64_t most = server->options.recordings_profile_bytes;
	return most ? most : PROFILE_BYTES_DEFAULT;
}

bool api_host_is_wanted(const struct net_request *request, const char *host)
{
	const char *name;
	size_t i = 0;
	for (; (name = net_request_query_nth(request, "host", i)); i++)
		if (strcmp(name, host) == 0)
			return true;
	return i == 0;
}

static int choose(const struct server *server, const struct recording *recording, const struct net_request *request,
		  size_t *ret_count, struct error *err)
{
	uint64_t bytes = 0, most = api_profile_bytes_max(server);
	*ret_count = 0;
	for (size_t i = 0; i < recording->host_count; i++) {
		const struct recording_host *host = &recording->hosts[i];
		if (host->state == RECORDING_DONE && api_host_is_wanted(request, host->name)) {
			bytes += host->plain_bytes;
			++*ret_count;
		}
	}
	if (!*ret_count)
		return error_set(err, -ENOENT,
				 recording->is_over ? "no host has sent a profile" : "no host has sent a profile yet");
	if (bytes > most)
		return error_set(err, -E2BIG,
				 "the profiles of these %zu hosts have %llu KiB, more than the limit of %llu KiB "
				 "(recordings.profile); choose hosts with host=NAME",
				 *ret_count, (unsigned long long)(bytes / KIB), (unsigned long long)(most / KIB));
	return 0;
}

static int merge_hosts(struct merging *merging, struct profile *to, struct error *err)
{
	const atomic_bool *cancelled = net_request_cancelled(merging->request);
	int r = 0;
	for (size_t i = 0; i < merging->recording->host_count && r == 0; i++) {
		const struct recording_host *host = &merging->recording->hosts[i];
		if (host->state != RECORDING_DONE || !api_host_is_wanted(merging->request, host->name))
			continue;
		if (cancel_requested(cancelled))
			return error_set(err, -ECANCELED, "the client disconnected");
		r = add_host(merging, i, to, err);
	}
	return r;
}

/* Those that counted something else than the first one are the ones to be merged then, and those that were are left out. */
static void turn_round(struct merging *merging)
{
	for (size_t i = 0; i < merging->recording->host_count; i++) {
		struct recording_host *host = &merging->recording->hosts[i];
		if (merging->differs[i]) {
			host->state = RECORDING_DONE;
			host->why[0] = 0;
		} else if (host->state == RECORDING_DONE && api_host_is_wanted(merging->request, host->name)) {
			host->state = RECORDING_FAILED;
			snprintf(host->why, sizeof(host->why), "its sample types differ from those of most other profiles");
		}
		merging->differs[i] = false;
	}
	merging->merged = merging->different = 0;
}

/* What is counted is said by the first host; if it is the odd one, once more without it. */
static int merge_most(struct merging *merging, struct profile **ret, struct error *err)
{
	_cleanup_(profile_freep) struct profile *profile = NULL;
	int r = profile_new(&profile, err);
	if (r == 0)
		r = merge_hosts(merging, profile, err);
	if (r == 0 && merging->different > merging->merged) {
		turn_round(merging);
		profile = profile_free(profile);
		r = profile_new(&profile, err);
		if (r == 0)
			r = merge_hosts(merging, profile, err);
	}
	if (r < 0)
		return r;
	if (!merging->merged)
		return error_set(err, -EBADMSG, "%s", merging->first.message);
	*ret = TAKE(profile);
	return 0;
}

/* ---- writing ---- */

/* Who is missing stays with the profile. */
static int note_missing(struct profile *profile, const struct recording *recording, struct error *err)
{
	char text[CONTROL_HOST_SIZE + CONTROL_TEXT_SIZE + 64];
	int r = 0;
	for (size_t i = 0; i < recording->host_count && r == 0; i++) {
		const struct recording_host *host = &recording->hosts[i];
		if (host->state == RECORDING_DONE)
			continue;
		snprintf(text, sizeof(text), "recording %s: host %s is missing: %s%s%s", recording->request.id, host->name,
			 recording_state_text(host->state), *host->why ? ": " : "", host->why);
		r = profile_add_comment_text(profile, text, err);
	}
	return r;
}

static void title_of(const struct recording *recording, char *out, size_t size)
{
	size_t len = 0, named = 0;
	for (size_t i = 0; i < recording->host_count && len < size; i++) {
		if (recording->hosts[i].state != RECORDING_DONE || named++ >= HOSTS_NAMED)
			continue;
		len += (size_t)snprintf(out + len, size - len, "%s%s", len ? ", " : "", recording->hosts[i].name);
	}
	if (named > HOSTS_NAMED && len < size)
		snprintf(out + len, size - len, " and %zu more", named - HOSTS_NAMED);
}

static int make_profile(const struct server *server, struct recordings *recordings, struct recording *recording,
			const struct net_request *request, const char *format, struct net_response *response, struct error *err)
{
	_cleanup_(profile_freep) struct profile *profile = NULL;
	char title[1024] = "", name[64];
	_cleanup_(mem_freep) bool *differs = mem_zalloc_array(recording->host_count + 1, sizeof(*differs));
	struct merging merging = {.recordings = recordings, .recording = recording, .request = request, .differs = differs};
	int r = differs ? merge_most(&merging, &profile, err) : error_nomem(err);
	if (r == 0)
		r = profile_align(profile, NULL, NULL, err);
	if (r == 0)
		r = note_missing(profile, recording, err);
	if (r == 0 && caller_of(request) && caller_of(request)->hides_addresses)
		r = profile_hide_addresses(profile, err);
	if (r < 0)
		return r;
	title_of(recording, title, sizeof(title));
	snprintf(name, sizeof(name), "recording-%s", recording->request.id);
	return api_write_profile(server, profile, title, name, format, response, err);
}

int api_recording_profile(struct server *server, struct recordings *recordings, const char *id,
			  const struct net_request *request, struct net_response *response, struct error *err)
{
	_cleanup_(recording_freep) struct recording *recording = NULL;
	const char *format = net_request_query(request, "format");
	size_t count;
	format = format && *format ? format : "firefox";
	int r = api_check_profile_format(server, "format", format, err);
	if (r == 0)
		r = recordings_get(recordings, id, time_now_ns(), &recording, err);
	if (r == 0)
		r = choose(server, recording, request, &count, err);
	if (r < 0)
		return r;
	if (pthread_mutex_trylock(&server->recordings_turn) != 0)
		return error_set(err, -EAGAIN, "another profile of several hosts is being built; try again");
	r = make_profile(server, recordings, recording, request, format, response, err);
	pthread_mutex_unlock(&server->recordings_turn);
	return r;
}
