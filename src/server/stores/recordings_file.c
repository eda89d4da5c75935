/* SPDX-License-Identifier: Apache-2.0 */
#include "server/stores/recordings_file.h"

#include <errno.h>
#include <jansson.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <zlib.h>

#include "base/alloc.h"
#include "base/hash.h"
#include "codec/json.h"
#include "server/stores/recordings.h"

#define TORN	      "an incomplete recording file"
#define MEASURE_BYTES (64u * 1024)

static void write_note(struct json_writer *json, const void *of)
{
	const struct recording_file *file = of;
	json_member_cstring(json, "id", file->id);
	json_member_cstring(json, "host", file->host);
	json_member_int(json, "received_ns", file->received_ns);
	json_member_int(json, "start_ns", file->start_ns);
	json_member_int(json, "duration_ns", file->duration_ns);
	if (file->reach_ns)
		json_member_int(json, "reach_ns", file->reach_ns);
	json_member_uint(json, "bytes", file->content.bytes);
	json_member_cstring(json, "hash", file->content.hash);
	json_member_uint(json, "plain_bytes", file->plain_bytes);
	if (file->clock.reference[0]) {
		json_key(json, "clock");
		control_write_host_clock(json, &file->clock);
	}
}

static bool read_note(const json_t *root, void *to)
{
	struct recording_file *ret = to;
	const json_t *clock = json_object_get(root, "clock");
	int64_t bytes, plain;
	*ret = (struct recording_file){0};
	if (!noted_text(root, "id", ret->id, sizeof(ret->id)) ||
	    (!control_id_is_valid(ret->id) && strcmp(ret->id, CONTROL_CONTINUOUS) != 0) ||
	    !noted_text(root, "host", ret->host, sizeof(ret->host)) || !control_host_is_valid(ret->host) ||
	    !noted_text(root, "hash", ret->content.hash, sizeof(ret->content.hash)) ||
	    !noted_number(root, "received_ns", 0, INT64_MAX / 2, &ret->received_ns) ||
	    !noted_number(root, "start_ns", 0, INT64_MAX / 2, &ret->start_ns) ||
	    !noted_number(root, "duration_ns", 0, RECORDING_DURATION_MAX_NS, &ret->duration_ns) ||
	    (json_object_get(root, "reach_ns") && !noted_number(root, "reach_ns", 0, INT64_MAX / 4, &ret->reach_ns)) ||
	    !noted_number(root, "bytes", 0, RECORDINGS_UPLOAD_MAX, &bytes) ||
	    !noted_number(root, "plain_bytes", 0, RECORDINGS_PLAIN_MAX, &plain) ||
	    (clock && control_read_host_clock(clock, &ret->clock, NULL) < 0))
		return false;
	ret->content.bytes = (uint64_t)bytes;
	ret->plain_bytes = (uint64_t)plain;
	return true;
}

const struct noted_form recording_form = {
	.torn = TORN, .content = offsetof(struct recording_file, content), .write = write_note, .read = read_note};

int recording_file_measure(struct bytes gzip, uint64_t *ret_plain, struct error *err)
{
	z_stream stream = {.next_in = (Bytef *)gzip.data, .avail_in = (uInt)gzip.len};
	if (gzip.len > RECORDINGS_UPLOAD_MAX)
		return error_set(err, -E2BIG, "more than %llu MiB", RECORDINGS_UPLOAD_MAX >> 20);
	_cleanup_(mem_freep) uint8_t *out = mem_alloc(MEASURE_BYTES);
	if (!out || inflateInit2(&stream, 16 + MAX_WBITS) != Z_OK)
		return error_nomem(err);
	int status;
	do {
		stream.next_out = out;
		stream.avail_out = MEASURE_BYTES;
		status = inflate(&stream, Z_NO_FLUSH);
	} while (status == Z_OK && stream.total_out <= RECORDINGS_PLAIN_MAX);
	bool is_whole = status == Z_STREAM_END && stream.avail_in == 0;
	*ret_plain = stream.total_out;
	inflateEnd(&stream);
	if (*ret_plain > RECORDINGS_PLAIN_MAX)
		return error_set(err, -E2BIG, "more than %llu MiB after decompression", RECORDINGS_PLAIN_MAX >> 20);
	return is_whole ? 0 : error_set(err, -EBADMSG, TORN ": not a complete gzip file");
}

void recording_file_name(const char *host, char out[static RECORDING_NAME_SIZE])
{
	static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
	size_t len = strlen(host);
	struct hash128 hash = hash128(host, len);
	if (len <= 200 && host[0] != '.' && host[0] != '~' && strspn(host, plain) == len)
		snprintf(out, RECORDING_NAME_SIZE, "%s" NOTED_ENDING, host);
	else /* no plain name begins so */
		snprintf(out, RECORDING_NAME_SIZE, "~%016llx%016llx" NOTED_ENDING, (unsigned long long)hash.high,
			 (unsigned long long)hash.low);
}

int recording_file_put(const char *path, struct recording_file *file, struct bytes gzip, uint64_t *ret_size, struct error *err)
{
	_cleanup_(buffer_release) struct buffer header = {.max = NOTED_HEADER_MAX};
	struct bytes rest;
	int r = noted_write_header(&recording_form, file, gzip, &header, &rest, err);
	if (r == 0)
		r = noted_put(path, buffer_bytes(&header), rest, err);
	*ret_size = header.len + rest.len;
	return r;
}
