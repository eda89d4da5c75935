/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/upload_client.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "base/limits.h"
#include "base/time.h"
#include "codec/json.h"
#include "net/net.h"

#define ROOT		   "/api/v1/debuginfo/"
#define ASK_BINARIES_MAX   500
#define QUESTION_BYTES_MAX (4 * MIB)
#define RETRY_SECONDS_MAX  3600

const char *const upload_what_kinds[] = {[UPLOAD_BINARY] = "debuginfo", [UPLOAD_KERNEL] = "kallsyms"};

/* ---- what is wanted ---- */

/* Older servers ignore what they do not know. */
static void write_key(struct json_writer *json, enum file_id_type id_type, const char *id, const char *content)
{
	json_member_cstring(json, "build_id", id);
	json_member_cstring(json, "id_type", file_id_type_names[id_type]);
	if (content && content[0])
		json_member_cstring(json, "content", content);
}

struct question {
	struct json_writer json;
	bool tells_only;
};

static void write_binary(void *context, enum upload_what what, const struct upload_key *key, const char *path)
{
	struct question *question = context;
	struct json_writer *json = &question->json;
	char code[17];
	json_begin_object(json);
	write_key(json, key->id_type, key->id, key->content);
	if (key->code) {
		snprintf(code, sizeof(code), "%016" PRIx64, key->code);
		json_member_cstring(json, "code", code);
	}
	json_member_cstring(json, "path", path);
	json_member_array(json, "kinds");
	if (!question->tells_only)
		json_cstring(json, upload_what_kinds[what]);
	json_end_array(json);
	json_end_object(json);
}

static int write_question(struct upload_queue *queue, const struct upload_ask *ask, struct buffer *ret, struct error *err)
{
	struct question question = {.json.out = ret, .tells_only = ask->tells_only};
	struct json_writer *json = &question.json;
	json_begin_object(json);
	json_member_array(json, "binaries");
	size_t count = upload_queue_ask(queue, ask->now_ns, ASK_BINARIES_MAX, write_binary, &question);
	json_end_array(json);
	json_end_object(json);
	int r = json_finish(json, err);
	return r < 0 ? r : count > 0;
}

static void take_answers(struct upload_queue *queue, const json_t *list, bool wanted, int64_t due_ns)
{
	for (size_t i = 0; i < json_array_size(list); i++) {
		const json_t *answer = json_array_get(list, i);
		struct upload_key key = {.id = json_string_value(json_object_get(answer, "build_id")),
					 .content = json_string_value(json_object_get(answer, "content"))};
		const char *type = json_string_value(json_object_get(answer, "id_type"));
		if (type)
			file_id_type_parse(type, &key.id_type);
		if (key.id)
			upload_queue_answer(queue, &key, wanted, due_ns);
	}
}

static int read_answer(struct upload_queue *queue, struct upload_ask *ask, const struct net_client_response *response,
		       struct error *err)
{
	if (response->status == 401 || response->status == 403)
		return error_set(err, -EACCES, "the server rejected the query for wanted debug information: %s",
				 response->message);
	if (response->status == 404 || response->status == 405 || response->status == 415 || response->status == 501)
		return error_set(err, -ENOTSUP, "the server accepts no debug information");
	if (response->status != 200)
		return error_set(err, -EAGAIN, "the server responded with status %d", response->status);
	_cleanup_(json_decrefp) json_t *json = json_loadb((const char *)response->body.data, response->body.len, 0, NULL);
	const json_t *wanted = json_object_get(json, "wanted");
	if (!json_is_array(wanted))
		return error_set(err, -ENOTSUP, "the server accepts no debug information");
	json_int_t seconds = json_integer_value(json_object_get(json, "retry_after_s"));
	seconds = seconds < 1 ? 1 : seconds > RETRY_SECONDS_MAX ? RETRY_SECONDS_MAX : seconds;
	if (!ask->tells_only)
		take_answers(queue, wanted, true, ask->now_ns);
	take_answers(queue, json_object_get(json, "later"), false, ask->now_ns + seconds * NS_PER_S);
	ask->is_enabled = !json_is_false(json_object_get(json, "enabled"));
	return 0;
}

int upload_client_ask(struct net_client *client, struct upload_queue *queue, struct upload_ask *ask, struct error *err)
{
	_cleanup_(net_client_response_release) struct net_client_response response = {0};
	_cleanup_(buffer_release) struct buffer question = {.max = QUESTION_BYTES_MAX};
	int r = write_question(queue, ask, &question, err);
	if (r == 0)
		return 0;
	if (r > 0)
		r = net_client_request(client, "POST", ROOT "wanted", "application/json", buffer_bytes(&question), true,
				       &response, err);
	if (r == 0)
		r = read_answer(queue, ask, &response, err);
	upload_queue_answer_rest(queue, r < 0, ask->now_ns + (r < 0 ? ask->retry_ns : ask->again_ns));
	return r < 0 ? r : 1;
}

/* ---- a file ---- */

static void copy_text(char *out, size_t size, const json_t *text)
{
	snprintf(out, size, "%s", json_string_value(text) ? json_string_value(text) : "");
}

static int call(struct net_client *client, const char *method, const char *path, const char *type, struct bytes body,
		struct upload_reply *ret, struct error *err)
{
	_cleanup_(net_client_response_release) struct net_client_response response = {0};
	int r = net_client_request(client, method, path, type, body, false, &response, err);
	if (r < 0)
		return r;
	*ret = (struct upload_reply){.status = response.status};
	_cleanup_(json_decrefp) json_t *json = json_loadb((const char *)response.body.data, response.body.len, 0, NULL);
	const json_t *offset = json_object_get(json, "offset");
	copy_text(ret->id, sizeof(ret->id), json_object_get(json, "id"));
	copy_text(ret->reason, sizeof(ret->reason), json_object_get(json, "reason"));
	copy_text(ret->why, sizeof(ret->why), json_object_get(json, "error"));
	ret->has_offset = json_is_integer(offset) && json_integer_value(offset) >= 0;
	ret->offset = ret->has_offset ? (uint64_t)json_integer_value(offset) : 0;
	copy_text(ret->message, sizeof(ret->message), json_object_get(json, "error"));
	if (!ret->message[0])
		snprintf(ret->message, sizeof(ret->message), "%s", response.message);
	if (!ret->why[0])
		snprintf(ret->why, sizeof(ret->why), "%d %.200s", response.status, response.message);
	return 0;
}

int upload_client_begin(struct net_client *client, const struct upload_offer *offer, struct upload_reply *ret,
			struct error *err)
{
	_cleanup_(buffer_release) struct buffer body = {.max = 4 * KIB};
	struct json_writer json = {.out = &body};
	json_begin_object(&json);
	write_key(&json, offer->id_type, offer->build_id, offer->content);
	json_member_cstring(&json, "kind", offer->kind);
	json_member_uint(&json, "size", offer->size);
	json_member_cstring(&json, "hash", offer->hash);
	json_member_bool(&json, "without_build_id", offer->without_build_id);
	json_member_bool(&json, "force", offer->force);
	json_end_object(&json);
	int r = json_finish(&json, err);
	return r < 0 ? r : call(client, "POST", ROOT "uploads", "application/json", buffer_bytes(&body), ret, err);
}

/* An id is the server's word, and goes into a path. */
static bool is_plain(const char *id)
{
	return *id && strspn(id, "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-_") == strlen(id);
}

int upload_client_put(struct net_client *client, const char *id, uint64_t offset, struct bytes data, struct upload_reply *ret,
		      struct error *err)
{
	char path[160];
	if (!is_plain(id))
		return error_set(err, -EPROTO, "the server returned a malformed upload id");
	snprintf(path, sizeof(path), ROOT "uploads/%s?offset=%llu", id, (unsigned long long)offset);
	return call(client, "PUT", path, "application/octet-stream", data, ret, err);
}

int upload_client_finish(struct net_client *client, const char *id, struct upload_reply *ret, struct error *err)
{
	char path[160];
	if (!is_plain(id))
		return error_set(err, -EPROTO, "the server returned a malformed upload id");
	snprintf(path, sizeof(path), ROOT "uploads/%s/finish", id);
	return call(client, "POST", path, "application/json", (struct bytes){0}, ret, err);
}
