/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd/remote.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/limits.h"
#include "base/log.h"
#include "base/text.h"
#include "base/time.h"
#include "net/net.h"

#define TIMEOUT_NS (3600 * NS_PER_S) /* the server ends queries sooner; compacting may take long */

static void add(struct buffer *path, const char *name, const char *value)
{
	if (!value)
		return;
	buffer_printf(path, "%c%s=", path->len && memchr(path->data, '?', path->len) ? '&' : '?', name);
	text_url_encode(path, bytes_of_string(value));
}

int remote_begin(struct buffer *path, const char *call, const struct remote_value *values, size_t count)
{
	buffer_init(path, REMOTE_PATH_MAX);
	buffer_append_string(path, call);
	for (size_t i = 0; i < count; i++)
		add(path, values[i].name, values[i].value);
	return buffer_status(path);
}

int remote_add(struct buffer *path, const char *name, const char *value)
{
	add(path, name, value);
	return buffer_status(path);
}

int remote_add_list(struct buffer *path, const char *name, const struct option_list *values)
{
	for (size_t i = 0; i < values->count; i++)
		add(path, name, values->items[i]);
	return buffer_status(path);
}

static int response_error(const struct net_client_response *response, const char *url, struct error *err)
{
	_cleanup_(json_decrefp) json_t *json = json_loadb((const char *)response->body.data, response->body.len, 0, NULL);
	const char *text = json_string_value(json_object_get(json, "error"));
	int r = error_set(err, -EBADMSG, "%s responded with status %d: %s", url, response->status,
			  text ? text : response->message);
	if (response->status == 400 && text)
		r = error_set(err, -EINVAL, "%s", text);
	return r;
}

const char *remote_url(const struct remote *remote)
{
	const char *environment = getenv("WICK_URL");
	return remote->url ? remote->url : environment ? environment : "http://127.0.0.1:7070";
}

int remote_connect(const struct remote *remote, int64_t timeout_ns, const atomic_bool *cancel, struct net_client **ret,
		   struct error *err)
{
	const struct net_client_options options = {.url = remote_url(remote),
						   .timeout_ns = timeout_ns,
						   .response_max = GIB,
						   .token_file = remote->token_file,
						   .tenant = remote->tenant,
						   .keep_header = "X-Wick-Warning",
						   .cancel = cancel};
	return net_client_new(&options, ret, err);
}

/* What is right about the response and yet to be known, as the server says. */
static void print_warning(const char *text)
{
	_cleanup_(buffer_release) struct buffer harmless = {.max = 4 * KIB};
	if (*text && text_append_harmless(&harmless, bytes_of_string(text)) == 0 && buffer_string(&harmless))
		log_warn("%s", buffer_string(&harmless));
}

int remote_ask(const struct remote *remote, struct net_client *client, const char *method, struct buffer *path,
	       struct bytes body, struct buffer *ret, struct remote_notes *notes, struct error *err)
{
	const char *text = buffer_string(path);
	if (!text)
		return error_nomem(err);
	_cleanup_(net_client_response_release) struct net_client_response response = {0};
	int r = net_client_request(client, method, text, NULL, body, NET_PLAIN, &response, err);
	if (r < 0)
		return r; /* its message names the URL */
	if (response.status != 200)
		return response_error(&response, remote_url(remote), err);
	if (notes) {
		_Static_assert(sizeof(notes->symbols) == sizeof(response.symbols), "one is copied to the other");
		_Static_assert(sizeof(notes->partial) == sizeof(response.partial), "one is copied to the other");
		memcpy(notes->symbols, response.symbols, sizeof(notes->symbols));
		memcpy(notes->partial, response.partial, sizeof(notes->partial));
		print_warning(response.kept);
	}
	*ret = response.body;
	response.body = (struct buffer){0};
	return 0;
}

static int send_request(const struct remote *remote, const char *method, struct buffer *path, struct bytes body,
			struct buffer *ret, struct remote_notes *notes, struct error *err)
{
	_cleanup_(net_client_freep) struct net_client *client = NULL;
	int r = remote_connect(remote, TIMEOUT_NS, NULL, &client, err);
	if (r < 0)
		return r;
	r = remote_ask(remote, client, method, path, body, ret, notes, err);
	return r == -ECONNREFUSED ? error_prefix(err, r, "no server (start one with 'wick up')") : r;
}

int remote_request(const struct remote *remote, const char *method, struct buffer *path, struct buffer *ret, struct error *err)
{
	return send_request(remote, method, path, (struct bytes){0}, ret, NULL, err);
}

int remote_send(const struct remote *remote, const char *method, struct buffer *path, struct bytes body, struct buffer *ret,
		struct error *err)
{
	return send_request(remote, method, path, body, ret, NULL, err);
}

void remote_note_partial(const char *verb, const struct remote_notes *notes)
{
	if (!notes->partial[0])
		return;
	cmd_printf(stderr, "wick %s: partial result: ", verb);
	cmd_print_harmless(stderr, notes->partial, 0);
	fputc('\n', stderr);
}

int remote_query(const struct remote *remote, struct buffer *path, struct buffer *ret, struct remote_notes *notes,
		 struct error *err)
{
	return send_request(remote, "GET", path, (struct bytes){0}, ret, notes, err);
}
