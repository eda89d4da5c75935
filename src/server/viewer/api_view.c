/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files that somebody drops on the page: a profile in the body, of any format that can be read, and nothing of it is kept.
 *
 *   POST /api/v1/view       what the page shows of it
 *   POST /api/v1/convert    the same in another format, for downloads
 *
 * The answer of view is the JSON of view.h and, behind it, the columns of its time line:
 *
 *   "WICKVIEW", the length of the JSON as 4 bytes, little endian, the JSON, the columns up to the end
 *
 * Columns in base64 within the JSON, as HTML files have them, which must be text, would be a third longer, and the page would
 * copy them twice more; multipart would need a parser in the page. So the page takes one array, reads a text from it and looks
 * at the rest as it is; it is compressed on the way as every answer is.
 *
 * A profile takes several times its size in memory, so what a file may have unpacked is bounded (view.size), and one is worked
 * on at a time. Another request meanwhile gets 503 with Retry-After, because waiting would block a worker for other requests.
 */
#include "server/viewer/api_view.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/limits.h"
#include "base/text.h"
#include "format/format.h"
#include "server/api/api_profile.h"
#include "server/recordings/api_recordings.h"

#define VIEW_MAGIC	  "WICKVIEW"
#define FRAME_BYTES	  (sizeof(VIEW_MAGIC) - 1 + 4)
#define ANSWER_BYTES_MAX  (768 * MIB)
#define COLUMNS_BYTES_MAX (256 * MIB)
#define NOTES_BYTES_MAX	  (64 * KIB)
#define NAME_SIZE	  512

/* ---- the file ---- */

struct given {
	char name[NAME_SIZE]; /* of the file, without its path; "profile" if nobody said it */
	const struct format *format;
	struct profile *profile;
	struct buffer plain, notes;
};

static void given_release(struct given *given)
{
	profile_free(given->profile);
	buffer_release(&given->plain);
	buffer_release(&given->notes);
}

static const char *parameter_of(const struct net_request *request, const char *name)
{
	const char *text = net_request_query(request, name);
	return text && *text ? text : NULL;
}

/* As `wick convert` chooses: as told, by content, by the ending of the name. */
static int choose_format(const struct net_request *request, struct bytes plain, struct given *given, struct error *err)
{
	const char *told = net_request_query(request, "format");
	if (told && *told) {
		given->format = format_by_name(told);
		if (!given->format || !given->format->decode)
			return error_set(err, -EINVAL, "parameter 'format': '%.40s' is not a readable format", told);
		return 0;
	}
	const char *foreign = format_foreign(plain);
	if (foreign)
		return error_set(err, -EMEDIUMTYPE, "%.200s: this is %s", given->name, foreign);
	given->format = format_detect(plain);
	if (!given->format)
		given->format = format_by_extension(given->name);
	if (given->format && given->format->decode)
		return 0;
	return error_set(err, -EMEDIUMTYPE, "%.200s: unknown profile format", given->name);
}

static int choose_type(const struct net_request *request, struct profile *profile, struct error *err)
{
	const char *name = parameter_of(request, "sample_type");
	size_t type = 0;
	int r = name ? profile_find_sample_type(profile, name, &type, err) : 0;
	if (r < 0)
		return error_prefix(err, r, "parameter 'sample_type'");
	if (name)
		profile->default_sample_type = profile->sample_types[type].type;
	return 0;
}

static int read_given(const struct server *server, const struct net_request *request, struct given *given, struct error *err)
{
	const char *name = net_request_query(request, "name");
	size_t size_max = server->options.view_bytes;
	struct bytes plain = net_request_body(request);
	name = name && *name ? text_base_name(name) : "profile";
	snprintf(given->name, sizeof(given->name), "%.*s", (int)text_cut(bytes_of_string(name), sizeof(given->name) - 1), name);
	buffer_init(&given->plain, size_max);
	buffer_init(&given->notes, NOTES_BYTES_MAX);
	struct format_options options = {.input_name = given->name, .decompressed_max = size_max, .notes = &given->notes};
	int r = format_unpack(&plain, &given->plain, err);
	if (r < 0)
		return error_prefix(err, r, "%s", given->name);
	if (plain.len == 0)
		return error_set(err, -EBADMSG, "%s: the file is empty", given->name);
	r = choose_format(request, plain, given, err);
	if (r == 0)
		r = format_decode(given->format, plain, &options, &given->profile, err);
	buffer_release(&given->plain);
	return r < 0 ? r : choose_type(request, given->profile, err);
}

/* ---- what the page shows ---- */

static int read_nodes(const struct net_request *request, uint64_t *ret, struct error *err)
{
	const char *text = parameter_of(request, "max_nodes");
	*ret = 0;
	if (!text || (text_parse_u64(text, ret, NULL) == 0 && *ret > 0 && *ret <= VIEW_NODES_MAX))
		return 0;
	return error_set(err, -EINVAL, "parameter 'max_nodes': '%.40s' is not a number from 1 to %d", text, VIEW_NODES_MAX);
}

int api_view_frame(const struct profile *profile, const struct view_options *options, const struct api_view_wrap *wrap,
		   struct buffer *out, struct error *err)
{
	_cleanup_(buffer_release) struct buffer columns = {.max = COLUMNS_BYTES_MAX};
	size_t start = out->len;
	out->max = ANSWER_BYTES_MAX;
	buffer_append(out, VIEW_MAGIC "\0\0\0", FRAME_BYTES);
	if (wrap)
		buffer_append_string(out, wrap->before);
	int r = view_write(profile, options, out, &columns, err);
	if (r < 0)
		return r;
	r = wrap ? buffer_append_string(out, wrap->behind) : 0;
	size_t len = out->len - start - FRAME_BYTES;
	for (size_t i = 0; i < 4; i++)
		out->data[start + FRAME_BYTES - 4 + i] = (uint8_t)(len >> (8 * i));
	if (r == 0)
		r = buffer_append(out, columns.data, columns.len);
	return r == -E2BIG ? error_set(err, r, "%s: the converted profile exceeds the limit of %llu MiB", options->title,
				       ANSWER_BYTES_MAX / MIB)
	       : r < 0	   ? error_nomem(err)
			   : 0;
}

int api_view_unframe(struct bytes frame, struct bytes *ret_json, struct error *err)
{
	size_t len = 0;
	for (size_t i = 0; frame.len >= FRAME_BYTES && i < 4; i++)
		len |= (size_t)frame.data[FRAME_BYTES - 4 + i] << (8 * i);
	if (frame.len < FRAME_BYTES || !bytes_start_with(frame, VIEW_MAGIC) || len > frame.len - FRAME_BYTES)
		return error_set(err, -EBADMSG, "this is no view of a profile");
	*ret_json = (struct bytes){frame.data + FRAME_BYTES, len};
	return 0;
}

static int write_frame(const struct net_request *request, const struct given *given, const struct api_view_wrap *wrap,
		       struct buffer *out, struct error *err)
{
	uint64_t nodes_max;
	struct view_options options = {.title = given->name,
				       .format = given->format->name,
				       .left_out = &given->notes,
				       .cancel = net_request_cancelled(request)};
	int r = read_nodes(request, &nodes_max, err);
	if (r < 0)
		return r;
	options.nodes_max = (size_t)nodes_max;
	return api_view_frame(given->profile, &options, wrap, out, err);
}

/* ---- the calls ---- */

struct work {
	const struct net_request *request;
	const struct api_view_wrap *wrap;
	struct net_response *response;
	int (*write)(struct server *server, const struct work *work, const struct given *given, struct error *err);
};

static int run(struct server *server, const struct work *work, struct error *err)
{
	_cleanup_(given_release) struct given given = {0};
	if (server->options.no_view)
		return error_set(err, -EACCES, "viewing files is disabled on this server (view.enabled)");
	if (pthread_mutex_trylock(&server->view_turn) != 0)
		return error_set(err, -EAGAIN, "another file is being read; try again");
	int r = read_given(server, work->request, &given, err);
	if (r == 0 && cancel_requested(net_request_cancelled(work->request)))
		r = error_set(err, -ECANCELED, "the client disconnected");
	if (r == 0)
		r = work->write(server, work, &given, err);
	pthread_mutex_unlock(&server->view_turn);
	atomic_fetch_add(&server->counters.views, 1);
	atomic_fetch_add(&server->counters.view_failures, r < 0);
	return r;
}

static int write_view(struct server *server, const struct work *work, const struct given *given, struct error *err)
{
	work->response->content_type = API_VIEW_TYPE;
	return write_frame(work->request, given, work->wrap, &work->response->body, err);
}

int api_view_write(struct server *server, const struct net_request *request, const struct api_view_wrap *wrap,
		   struct net_response *response, struct error *err)
{
	struct work work = {.request = request, .wrap = wrap, .response = response, .write = write_view};
	return run(server, &work, err);
}

void api_view(void *context, const struct net_request *request, struct net_response *response)
{
	struct error err = {0};
	api_respond_failure(response, api_view_write(context, request, NULL, response, &err), &err);
}

/* The name of the file without its endings; what a header has no place for becomes '_'. */
static void name_download(const char *name, char *out, size_t size)
{
	static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_";
	size_t len = strcspn(name, ".");
	snprintf(out, size, "%.*s", (int)len, len > 0 ? name : "profile");
	for (char *at = out; *at; at++)
		if (!strchr(plain, *at))
			*at = '_';
}

static int write_converted(struct server *server, const struct work *work, const struct given *given, struct error *err)
{
	char name[64];
	name_download(given->name, name, sizeof(name));
	return api_write_profile(server, given->profile, given->name, *name ? name : "profile",
				 net_request_query(work->request, "to"), work->response, err);
}

void api_convert(void *context, const struct net_request *request, struct net_response *response)
{
	struct work work = {.request = request, .response = response, .write = write_converted};
	struct error err = {0};
	const char *to = net_request_query(request, "to");
	int r = to && *to ? api_check_profile_format(context, "to", to, &err)
			  : error_set(&err, -EINVAL, "parameter 'to' is missing: the output format");
	if (r == 0)
		r = run(context, &work, &err);
	api_respond_failure(response, r, &err);
}
