/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a host sends is looked through before it is kept: whether it is JSON from end to end, an object with `meta`, and of one
 * host. That is done in a sliding buffer, so it costs the time to unpack it, but no memory to speak of, whatever is sent.
 * Whether the profile in it makes sense is only known when it is read (api_recordings_profile.c).
 */
#include <errno.h>

#include "codec/compress.h"
#include "codec/input.h"
#include "codec/json_scan.h"
#include "server/recordings/api_recordings.h"

/* By how it begins; what follows is checked in passing. */
static bool is_next(struct json_scan *scan, char kind)
{
	return json_scan_peek(scan) == kind;
}

/* An object's member of that name and kind; the rest is passed. 1 it is next, 0 the object is closed. */
static int find_member(struct json_scan *scan, const char *name, char kind)
{
	struct bytes key;
	int r;
	while ((r = json_scan_member(scan, &key)) > 0) {
		if (bytes_equal_string(key, name) && is_next(scan, kind)) {
			r = json_scan_open(scan, kind);
			return r < 0 ? r : 1;
		}
		r = json_scan_skip(scan);
		if (r < 0)
			return r;
	}
	return r;
}

static int count_items(struct json_scan *scan, size_t *count)
{
	int r;
	while ((r = json_scan_item(scan)) > 0) {
		++*count;
		r = json_scan_skip(scan);
		if (r < 0)
			return r;
	}
	return r;
}

/* meta.wick.hosts; a name that comes twice counts twice, whichever of them a reader takes. */
static int count_hosts(struct json_scan *scan, size_t *count)
{
	int in_meta, in_wick;
	while ((in_meta = find_member(scan, "wick", '{')) > 0) {
		while ((in_wick = find_member(scan, "hosts", '[')) > 0) {
			int r = count_items(scan, count);
			if (r < 0)
				return r;
		}
		if (in_wick < 0)
			return in_wick;
	}
	return in_meta;
}

static int scan_profile(struct json_scan *scan, struct error *err)
{
	size_t hosts = 0;
	bool has_meta = false;
	int r = is_next(scan, '{') ? json_scan_open(scan, '{') : json_scan_fail(scan, "not a JSON object");
	while (r == 0 && (r = find_member(scan, "meta", '{')) > 0) {
		has_meta = true;
		r = count_hosts(scan, &hosts);
	}
	if (r == 0)
		r = json_scan_finish(scan);
	if (r == 0 && !has_meta)
		return error_set(err, -EBADMSG, "no object 'meta'");
	if (r == 0 && hosts > 1)
		return error_set(err, -EBADMSG, "it has %zu hosts instead of one", hosts);
	return r;
}

int api_recording_check(struct bytes gzip, struct error *err)
{
	_cleanup_(input_freep) struct input *input = NULL;
	struct json_scan scan;
	struct error own = {0};
	err = err ? err : &own;
	if (!gzip_detect(gzip))
		return error_set(err, -EBADMSG, "not a valid profile: not a gzip file");
	int r = input_from_bytes(gzip, "its data", RECORDINGS_PLAIN_MAX, &input, err);
	if (r == 0) {
		r = json_scan_init(&scan, input, err);
		if (r == 0)
			r = scan_profile(&scan, err);
		json_scan_release(&scan);
	}
	return r == -EBADMSG || r == -E2BIG ? error_prefix(err, r, "not a valid profile") : r;
}
