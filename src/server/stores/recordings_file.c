/* SPDX-License-Identifier: Apache-2.0 */
#include "server/stores/recordings_file.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <zlib.h>

#include "base/alloc.h"
#include "base/hash.h"
#include "base/io.h"
#include "codec/gzip_note.h"
#include "codec/json.h"
#include "server/stores/recordings.h"

#define TORN	      "not a whole recording"
#define MEASURE_BYTES (64u * 1024)

static int torn(struct error *err, const char *why)
{
	return error_set(err, -EBADMSG, TORN ": %s", why);
}

static int write_object(const struct recording_file *file, struct buffer *out, struct error *err)
{
	struct json_writer json;
	json_init(&json, out);
	json_begin_object(&json);
	json_member_int(&json, "version", 1);
	json_member_cstring(&json, "id", file->id);
	json_member_cstring(&json, "host", file->host);
	json_member_int(&json, "received_ns", file->received_ns);
	json_member_int(&json, "start_ns", file->start_ns);
	json_member_int(&json, "duration_ns", file->duration_ns);
	if (file->reach_ns)
		json_member_int(&json, "reach_ns", file->reach_ns);
	json_member_int(&json, "bytes", (int64_t)file->bytes);
	json_member_cstring(&json, "hash", file->hash);
	json_member_int(&json, "plain_bytes", (int64_t)file->plain_bytes);
	if (file->clock.reference[0]) {
		json_key(&json, "clock");
		orders_write_clock(&json, &file->clock);
	}
	json_end_object(&json);
	return json_finish(&json, err);
}

static void hash_text(struct bytes bytes, char out[static 33])
{
	struct hash128 hash = hash128(bytes.data, bytes.len);
	snprintf(out, 33, "%016llx%016llx", (unsigned long long)hash.high, (unsigned long long)hash.low);
}

int recording_file_write_header(struct recording_file *file, struct bytes gzip, struct buffer *out, struct bytes *ret_rest,
				struct error *err)
{
	_cleanup_(buffer_release) struct buffer object = {0};
	buffer_init(&object, RECORDING_HEADER_MAX - GZIP_NOTE_HEADER(0));
	int r = gzip_note_skip(gzip, ret_rest, err);
	if (r < 0)
		return error_prefix(err, r, TORN);
	file->bytes = ret_rest->len;
	hash_text(*ret_rest, file->hash);
	r = write_object(file, &object, err);
	return r < 0 ? r : gzip_note_write(buffer_bytes(&object), out, err);
}

static bool copy_text(const json_t *root, const char *name, char *out, size_t size)
{
	const char *text = json_string_value(json_object_get(root, name));
	snprintf(out, size, "%s", text ? text : "");
	return text && strlen(text) < size;
}

static bool copy_number(const json_t *root, const char *name, int64_t most, int64_t *ret)
{
	const json_t *value = json_object_get(root, name);
	*ret = json_integer_value(value);
	return json_is_integer(value) && *ret >= 0 && *ret <= most;
}

static bool read_object(const json_t *root, struct recording_file *ret)
{
	const json_t *clock = json_object_get(root, "clock");
	int64_t version, bytes, plain;
	*ret = (struct recording_file){0};
	bool is_sound = copy_number(root, "version", 1, &version) && version == 1 &&
			copy_text(root, "id", ret->id, sizeof(ret->id)) &&
			(orders_id_is_valid(ret->id) || strcmp(ret->id, ORDERS_CONTINUOUS) == 0) &&
			copy_text(root, "host", ret->host, sizeof(ret->host)) && orders_host_is_valid(ret->host) &&
			copy_text(root, "hash", ret->hash, sizeof(ret->hash)) &&
			copy_number(root, "received_ns", INT64_MAX / 2, &ret->received_ns) &&
			copy_number(root, "start_ns", INT64_MAX / 2, &ret->start_ns) &&
			copy_number(root, "duration_ns", ORDERS_DURATION_MAX_NS, &ret->duration_ns) &&
			(!json_object_get(root, "reach_ns") || copy_number(root, "reach_ns", INT64_MAX / 4, &ret->reach_ns)) &&
			copy_number(root, "bytes", RECORDINGS_UPLOAD_MAX, &bytes) &&
			copy_number(root, "plain_bytes", RECORDINGS_PLAIN_MAX, &plain) &&
			(!clock || orders_read_clock(clock, &ret->clock, NULL) == 0);
	ret->bytes = is_sound ? (uint64_t)bytes : 0;
	ret->plain_bytes = is_sound ? (uint64_t)plain : 0;
	return is_sound;
}

int recording_file_read_header(struct bytes begin, struct recording_file *ret, size_t *ret_header, struct error *err)
{
	struct bytes note;
	int r = gzip_note_read(begin, &note, ret_header, err);
	if (r < 0)
		return error_prefix(err, r, TORN);
	json_t *root = json_loadb((const char *)note.data, note.len, JSON_REJECT_DUPLICATES, NULL);
	bool is_sound = read_object(root, ret);
	json_decref(root);
	return is_sound ? 0 : torn(err, "its header is malformed");
}

int recording_file_check(struct bytes whole, struct recording_file *ret, struct error *err)
{
	struct bytes begin = {whole.data, whole.len < RECORDING_HEADER_MAX ? whole.len : RECORDING_HEADER_MAX};
	char hash[33];
	size_t header;
	int r = recording_file_read_header(begin, ret, &header, err);
	if (r < 0)
		return r;
	struct bytes rest = bytes_skip(whole, header);
	if (rest.len != ret->bytes)
		return torn(err, "its size has changed");
	hash_text(rest, hash);
	return strcmp(hash, ret->hash) == 0 ? 0 : torn(err, "its contents have changed");
}

int recording_file_measure(struct bytes gzip, uint64_t *ret_plain, struct error *err)
{
	z_stream stream = {.next_in = (Bytef *)gzip.data, .avail_in = (uInt)gzip.len};
	if (gzip.len > RECORDINGS_UPLOAD_MAX)
		return error_set(err, -E2BIG, "more than %llu MiB", RECORDINGS_UPLOAD_MAX >> 20);
	uint8_t *out = mem_alloc(MEASURE_BYTES);
	if (!out || inflateInit2(&stream, 16 + MAX_WBITS) != Z_OK) {
		mem_free(out);
		return error_nomem(err);
	}
	int status;
	do {
		stream.next_out = out;
		stream.avail_out = MEASURE_BYTES;
		status = inflate(&stream, Z_NO_FLUSH);
	} while (status == Z_OK && stream.total_out <= RECORDINGS_PLAIN_MAX);
	bool is_whole = status == Z_STREAM_END && stream.avail_in == 0;
	*ret_plain = stream.total_out;
	inflateEnd(&stream);
	mem_free(out);
	if (*ret_plain > RECORDINGS_PLAIN_MAX)
		return error_set(err, -E2BIG, "more than %llu MiB after decompression", RECORDINGS_PLAIN_MAX >> 20);
	return is_whole ? 0 : torn(err, "not a complete gzip file");
}

void recording_file_name(const char *host, char out[static RECORDING_NAME_SIZE])
{
	static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
	size_t len = strlen(host);
	struct hash128 hash = hash128(host, len);
	if (len <= 200 && host[0] != '.' && host[0] != '~' && strspn(host, plain) == len)
		snprintf(out, RECORDING_NAME_SIZE, "%s" RECORDING_ENDING, host);
	else /* no plain name begins so */
		snprintf(out, RECORDING_NAME_SIZE, "~%016llx%016llx" RECORDING_ENDING, (unsigned long long)hash.high,
			 (unsigned long long)hash.low);
}

int recording_file_look(const char *path, struct recording_file *ret, uint64_t *ret_size, struct error *err)
{
	static const char name[] = "a recording";
	_cleanup_(fd_closep) int fd = io_open(path, O_RDONLY | O_NOFOLLOW, 0, err);
	_cleanup_(mem_freep) uint8_t *begin = mem_alloc(RECORDING_HEADER_MAX);
	size_t header;
	if (fd < 0 || !begin)
		return fd < 0 ? fd : error_nomem(err);
	int r = io_file_size(fd, ret_size, name, err);
	ssize_t len = r < 0 ? r : io_pread(fd, begin, RECORDING_HEADER_MAX, 0, name, err);
	if (len < 0)
		return (int)len;
	r = recording_file_read_header((struct bytes){begin, (size_t)len}, ret, &header, err);
	if (r == 0 && header + ret->bytes != *ret_size)
		r = error_set(err, -EBADMSG, "it has %llu bytes instead of %llu", (unsigned long long)*ret_size,
			      (unsigned long long)(header + ret->bytes));
	return r;
}

int recording_file_put(const char *path, struct recording_file *file, struct bytes gzip, uint64_t *ret_size, struct error *err)
{
	_cleanup_(buffer_release) struct buffer header = {0};
	_cleanup_(io_output_freep) struct io_output *output = NULL;
	struct bytes rest;
	buffer_init(&header, RECORDING_HEADER_MAX);
	int r = recording_file_write_header(file, gzip, &header, &rest, err);
	if (r == 0)
		r = io_output_open(path, 0640, &output, err);
	if (r == 0)
		r = io_output_write(output, header.data, header.len, err);
	if (r == 0)
		r = io_output_write(output, rest.data, rest.len, err);
	if (r == 0)
		r = io_output_finish(output, err);
	*ret_size = header.len + rest.len;
	return r;
}
