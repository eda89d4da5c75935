/* SPDX-License-Identifier: Apache-2.0 */
#include "server/stores/snapshots_file.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "base/hash.h"
#include "codec/gzip_note.h"
#include "codec/json.h"

#define TORN "not a whole snapshot"

static int torn(struct error *err, const char *why)
{
	return error_set(err, -EBADMSG, TORN ": %s", why);
}

static void hash_text(struct bytes bytes, char out[static SNAPSHOT_ID_SIZE])
{
	struct hash128 hash = hash128(bytes.data, bytes.len);
	snprintf(out, SNAPSHOT_ID_SIZE, "%016llx%016llx", (unsigned long long)hash.high, (unsigned long long)hash.low);
}

static int write_note(const struct snapshot *snapshot, uint64_t rest, struct buffer *out, struct error *err)
{
	struct json_writer json;
	json_init(&json, out);
	json_begin_object(&json);
	json_member_int(&json, "version", 1);
	json_member_cstring(&json, "id", snapshot->id);
	json_member_int(&json, "made_ns", snapshot->made_ns);
	json_member_cstring(&json, "title", snapshot->title);
	json_member_cstring(&json, "call", snapshot->call);
	json_member_cstring(&json, "query", snapshot->query);
	json_member_cstring(&json, "type", snapshot->type);
	json_member_int(&json, "from_ns", snapshot->from_ns);
	json_member_int(&json, "to_ns", snapshot->to_ns);
	json_member_bool(&json, "partial", snapshot->is_partial);
	json_member_uint(&json, "bytes", rest);
	json_member_cstring(&json, "hash", snapshot->hash);
	json_end_object(&json);
	return json_finish(&json, err);
}

int snapshot_file_write_header(struct snapshot *snapshot, struct bytes gzip, struct buffer *out, struct bytes *ret_rest,
			       struct error *err)
{
	_cleanup_(buffer_release) struct buffer note = {0};
	buffer_init(&note, SNAPSHOT_HEADER_MAX - GZIP_NOTE_HEADER(0));
	int r = gzip_note_skip(gzip, ret_rest, err);
	if (r < 0)
		return error_prefix(err, r, TORN);
	hash_text(*ret_rest, snapshot->hash);
	r = write_note(snapshot, ret_rest->len, &note, err);
	if (r == 0)
		r = gzip_note_write(buffer_bytes(&note), out, err);
	if (r == 0)
		snapshot->bytes = GZIP_NOTE_HEADER(note.len) + ret_rest->len;
	return r;
}

static bool copy_text(const json_t *root, const char *name, char *out, size_t size)
{
	const char *text = json_string_value(json_object_get(root, name));
	snprintf(out, size, "%s", text ? text : "");
	return text && strlen(text) < size;
}

static bool copy_number(const json_t *root, const char *name, int64_t *ret)
{
	const json_t *value = json_object_get(root, name);
	*ret = json_integer_value(value);
	return json_is_integer(value);
}

static bool read_note(const json_t *root, struct snapshot *ret, int64_t *ret_rest)
{
	const json_t *partial = json_object_get(root, "partial");
	int64_t version;
	*ret = (struct snapshot){.is_partial = json_is_true(partial)};
	return copy_number(root, "version", &version) && version == 1 && copy_text(root, "id", ret->id, sizeof(ret->id)) &&
	       snapshot_id_is_valid(ret->id) && copy_number(root, "made_ns", &ret->made_ns) && ret->made_ns >= 0 &&
	       copy_text(root, "title", ret->title, sizeof(ret->title)) &&
	       copy_text(root, "call", ret->call, sizeof(ret->call)) &&
	       copy_text(root, "query", ret->query, sizeof(ret->query)) &&
	       copy_text(root, "type", ret->type, sizeof(ret->type)) && copy_number(root, "from_ns", &ret->from_ns) &&
	       copy_number(root, "to_ns", &ret->to_ns) && json_is_boolean(partial) && copy_number(root, "bytes", ret_rest) &&
	       *ret_rest > 0 && *ret_rest < INT64_MAX / 2 && copy_text(root, "hash", ret->hash, sizeof(ret->hash)) &&
	       snapshot_id_is_valid(ret->hash);
}

int snapshot_file_read_header(struct bytes begin, struct snapshot *ret, uint64_t *ret_size, struct error *err)
{
	struct bytes note;
	size_t header;
	int64_t rest = 0;
	int r = gzip_note_read(begin, &note, &header, err);
	if (r < 0)
		return error_prefix(err, r, TORN);
	json_t *root = json_loadb((const char *)note.data, note.len, JSON_REJECT_DUPLICATES, NULL);
	bool is_sound = read_note(root, ret, &rest);
	json_decref(root);
	if (!is_sound)
		return torn(err, "its header is malformed");
	*ret_size = ret->bytes = header + (uint64_t)rest;
	return 0;
}

int snapshot_file_check(struct bytes whole, struct snapshot *ret, struct error *err)
{
	struct bytes begin = {whole.data, whole.len < SNAPSHOT_HEADER_MAX ? whole.len : SNAPSHOT_HEADER_MAX}, rest;
	char hash[SNAPSHOT_ID_SIZE];
	uint64_t size;
	int r = snapshot_file_read_header(begin, ret, &size, err);
	if (r == 0)
		r = gzip_note_skip(whole, &rest, err);
	if (r < 0)
		return r;
	if (size != whole.len)
		return torn(err, "its size has changed");
	hash_text(rest, hash);
	return strcmp(hash, ret->hash) == 0 ? 0 : torn(err, "its contents have changed");
}
