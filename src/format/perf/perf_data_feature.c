/* SPDX-License-Identifier: Apache-2.0 */
/* perf.data: events and the features of the header, which pipes carry as records of the same contents. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/text.h"
#include "format/perf/perf_data_int.h"

#define ATTR_BYTES_MIN	   64	/* PERF_ATTR_SIZE_VER0 */
#define ATTR_BYTES_MAX	   4096 /* what the kernel takes at most: a page */
#define EVENTS_MAX	   65536
#define BUILD_ID_BYTES	   20
#define BUILD_ID_FIELD	   24
#define COMMAND_PARTS_MAX  65536
#define COMMAND_BYTES_MAX  16384
#define CLOCK_DATA_VERSION 1

enum feature { /* tools/perf/util/header.h */
	       FEATURE_BUILD_ID = 2,
	       FEATURE_HOST = 3,
	       FEATURE_RELEASE = 4,
	       FEATURE_VERSION = 5,
	       FEATURE_ARCHITECTURE = 6,
	       FEATURE_COMMAND = 11,
	       FEATURE_EVENT_DESC = 12,
	       FEATURE_DIR_FORMAT = 24,
	       FEATURE_CLOCK_DATA = 29,
};

/* ---- events ---- */

struct perf_event *perf_data_event_of(const struct perf_reader *reader, uint64_t id)
{
	uint64_t number;
	if (!map64_get(&reader->event_of_id, id, &number))
		return NULL;
	return &reader->events[number];
}

/* Bit-fields: the machine that wrote them counts bits from the other end of each byte. */
static uint64_t take_flags(struct perf_cursor *cursor)
{
	struct perf_cursor plain = *cursor;
	plain.is_swapped = false;
	uint64_t value = perf_take_u64(&plain), mirrored = 0;
	perf_take(cursor, 8);
	if (!cursor->is_swapped)
		return value;
	for (unsigned bit = 0; bit < 64; bit++)
		if (value >> bit & 1)
			mirrored |= 1ull << (bit / 8 * 8 + 7 - bit % 8);
	return mirrored;
}

static int read_attr(const struct perf_reader *reader, struct bytes bytes, struct perf_event *ret, struct error *err)
{
	struct perf_cursor attr = {bytes.data, bytes.data + bytes.len, reader->is_swapped, false};
	if (bytes.len < ATTR_BYTES_MIN || bytes.len > ATTR_BYTES_MAX)
		return error_set(err, -EBADMSG, "an event's description has %zu bytes, not %d to %d", bytes.len, ATTR_BYTES_MIN,
				 ATTR_BYTES_MAX);
	*ret = (struct perf_event){.type = perf_take_u32(&attr)};
	perf_take_u32(&attr);
	ret->config = perf_take_u64(&attr);
	ret->period = perf_take_u64(&attr);
	ret->sample_type = perf_take_u64(&attr);
	ret->read_format = perf_take_u64(&attr);
	ret->flags = take_flags(&attr);
	/* Later versions are longer: what is not there is 0. */
	perf_take(&attr, 24);
	ret->branch_sample_type = perf_take_u64(&attr);
	ret->regs_user = perf_take_u64(&attr);
	perf_take_u32(&attr);
	ret->clock_id = (int32_t)perf_take_u32(&attr);
	ret->regs_intr = perf_take_u64(&attr);
	if (ret->sample_type & ~(uint64_t)PERF_S_ALL)
		return error_set(err, -EBADMSG, "an event's samples have unknown fields (sample_type 0x%" PRIx64 ")",
				 ret->sample_type);
	return 0;
}

/* Records are distinguished by an id, for which the fields before it must be the same. */
static int check_event(const struct perf_reader *reader, const struct perf_event *event, struct error *err)
{
	const struct perf_event *first = reader->events;
	if (reader->event_count == 0)
		return 0;
	bool has_id = first->sample_type & event->sample_type & PERF_S_IDENTIFIER;
	if (has_id || first->sample_type == event->sample_type)
		return 0;
	return error_set(err, -EBADMSG, "events have different fields, and no identifier to match samples to events");
}

int perf_data_add_event(struct perf_reader *reader, struct bytes attr, struct bytes ids, struct error *err)
{
	struct perf_event event;
	int r = read_attr(reader, attr, &event, err);
	if (r == 0)
		r = check_event(reader, &event, err);
	if (r == 0 && ids.len % 8)
		r = error_set(err, -EBADMSG, "the ids of an event are %zu bytes, not a multiple of 8", ids.len);
	if (r == 0 && reader->event_count == EVENTS_MAX)
		r = error_set(err, -E2BIG, "more than %d events", EVENTS_MAX);
	if (r < 0)
		return r;
	if (array_reserve(&reader->events, &reader->event_capacity, reader->event_count + 1, EVENTS_MAX) < 0)
		return error_nomem(err);
	for (size_t at = 0; at < ids.len; at += 8)
		if (map64_put(&reader->event_of_id, perf_load_u64(ids.data + at, reader->is_swapped), reader->event_count) < 0)
			return error_nomem(err);
	reader->events[reader->event_count++] = event;
	return 0;
}

int perf_data_name_event(struct perf_reader *reader, struct perf_event *event, struct bytes name, struct error *err)
{
	return name.len ? profile_add_bytes(reader->profile, name, &event->name, err) : 0;
}

/* As perf calls them, by PERF_TYPE_* and config; NULL for others. */
static const char *generic_name(const struct perf_event *event)
{
	static const char *const hardware[] = {
		"cycles",	 "instructions", "cache-references",	    "cache-misses",	      "branches",
		"branch-misses", "bus-cycles",	 "stalled-cycles-frontend", "stalled-cycles-backend", "ref-cycles"};
	static const char *const software[] = {"cpu-clock",	   "task-clock",   "page-faults",  "context-switches",
					       "cpu-migrations",   "minor-faults", "major-faults", "alignment-faults",
					       "emulation-faults", "dummy",	   "bpf-output",   "cgroup-switches"};
	if (event->type == 0 && event->config < sizeof(hardware) / sizeof(hardware[0]))
		return hardware[event->config];
	if (event->type == 1 && event->config < sizeof(software) / sizeof(software[0]))
		return software[event->config];
	return NULL;
}

int perf_data_name_events(struct perf_reader *reader, struct error *err)
{
	int r = 0;
	for (size_t i = 0; r == 0 && i < reader->event_count; i++) {
		struct perf_event *event = &reader->events[i];
		const char *name = generic_name(event);
		char text[64];
		if (event->name)
			continue;
		if (!name)
			snprintf(text, sizeof(text), "event-%" PRIu32 "-0x%" PRIx64, event->type, event->config);
		r = profile_add_cstring(reader->profile, name ? name : text, &event->name, err);
	}
	return r;
}

/* ---- features ---- */

/* A length, and that many bytes, of which those from the first NUL on are padding. */
static struct bytes take_string(struct perf_cursor *body)
{
	uint32_t len = perf_take_u32(body);
	struct perf_cursor text = {.at = perf_take(body, len), .is_swapped = body->is_swapped};
	text.end = text.at ? text.at + len : NULL;
	return text.at ? perf_text(text) : (struct bytes){0};
}

static int read_text(struct perf_reader *reader, struct perf_cursor *body, uint32_t *ret, struct error *err)
{
	struct bytes text = take_string(body);
	return profile_add_bytes(reader->profile, text, ret, err);
}

static int read_command(struct perf_reader *reader, struct perf_cursor *body, struct error *err)
{
	uint32_t count = perf_take_u32(body);
	_cleanup_(buffer_release) struct buffer line = {.max = COMMAND_BYTES_MAX};
	for (uint32_t i = 0; i < count && i < COMMAND_PARTS_MAX && !body->bad; i++) {
		struct bytes part = take_string(body);
		/* A longer one is cut. */
		if (buffer_append(&line, " ", i > 0) == -ENOMEM || buffer_append(&line, part.data, part.len) == -ENOMEM)
			return error_nomem(err);
	}
	return profile_add_bytes(reader->profile, buffer_bytes(&line), &reader->command, err);
}

static int read_event_desc(struct perf_reader *reader, struct perf_cursor *body, struct error *err)
{
	uint32_t count = perf_take_u32(body), attr_bytes = perf_take_u32(body);
	int r = 0;
	for (uint32_t i = 0; r == 0 && i < count && !body->bad; i++) {
		perf_take(body, attr_bytes);
		uint64_t ids = perf_take_u32(body);
		struct bytes name = take_string(body);
		const uint8_t *first = perf_take(body, 8 * ids);
		struct perf_event *event = i < reader->event_count ? &reader->events[i] : NULL;
		if (first && ids > 0)
			event = perf_data_event_of(reader, perf_load_u64(first, reader->is_swapped));
		if (event && !body->bad)
			r = perf_data_name_event(reader, event, name, err);
	}
	return r;
}

int perf_data_read_build_id(struct perf_reader *reader, uint16_t misc, struct perf_cursor body, struct error *err)
{
	perf_take_u32(&body); /* pid */
	const uint8_t *id = perf_take(&body, BUILD_ID_FIELD);
	struct bytes file = perf_text(body);
	uint32_t file_id, build_id;
	if (!id)
		return error_set(err, -EBADMSG, "a build-id is truncated");
	size_t len = misc & PERF_MISC_BUILD_ID_SIZE ? id[BUILD_ID_BYTES] : BUILD_ID_BYTES;
	if (len == 0 || len > BUILD_ID_BYTES || file.len == 0)
		return 0;
	_cleanup_(buffer_release) struct buffer hex = {.max = 2 * BUILD_ID_BYTES};
	if (text_append_hex(&hex, (struct bytes){id, len}) < 0)
		return error_nomem(err);
	/* The kernel's may be under the path of an image of it. */
	bool is_kernel =
		(misc & PERF_MISC_CPUMODE) == PERF_MODE_KERNEL && file.data[0] != '[' && !memmem(file.data, file.len, ".ko", 3);
	if (is_kernel)
		file = bytes_of_string(FORMAT_KERNEL_FILE);
	int r = profile_add_bytes(reader->profile, file, &file_id, err);
	if (r == 0)
		r = profile_add_bytes(reader->profile, buffer_bytes(&hex), &build_id, err);
	if (r == 0 && map64_put(&reader->build_ids, file_id, build_id) < 0)
		r = error_nomem(err);
	return r;
}

static int read_build_ids(struct perf_reader *reader, struct perf_cursor *body, struct error *err)
{
	int r = 0;
	while (r == 0 && perf_left(body) > 0) {
		perf_take_u32(body);
		uint16_t misc = perf_take_u16(body), size = perf_take_u16(body);
		const uint8_t *data = size >= 8 ? perf_take(body, size - 8u) : NULL;
		if (!data)
			return error_set(err, -EBADMSG, "a build-id's size of %u bytes does not fit", size);
		struct perf_cursor one = {data, data + size - 8, reader->is_swapped, false};
		r = perf_data_read_build_id(reader, misc, one, err);
	}
	return r;
}

static int read_clock(struct perf_reader *reader, struct perf_cursor *body)
{
	uint32_t version = perf_take_u32(body);
	perf_take_u32(body); /* the clock's id is the attr's, too */
	reader->clock_wall_ns = perf_take_u64(body);
	reader->clock_ns = perf_take_u64(body);
	reader->has_clock = !body->bad && version == CLOCK_DATA_VERSION;
	return 0;
}

int perf_data_read_feature(struct perf_reader *reader, unsigned feature, struct perf_cursor body, struct error *err)
{
	int r = 0;
	switch (feature) {
	case FEATURE_BUILD_ID: r = read_build_ids(reader, &body, err); break;
	case FEATURE_HOST: r = read_text(reader, &body, &reader->host, err); break;
	case FEATURE_RELEASE: r = read_text(reader, &body, &reader->release, err); break;
	case FEATURE_VERSION: r = read_text(reader, &body, &reader->version, err); break;
	case FEATURE_ARCHITECTURE: r = read_text(reader, &body, &reader->architecture, err); break;
	case FEATURE_COMMAND: r = read_command(reader, &body, err); break;
	case FEATURE_EVENT_DESC: r = read_event_desc(reader, &body, err); break;
	case FEATURE_CLOCK_DATA: r = read_clock(reader, &body); break;
	case FEATURE_DIR_FORMAT:
		return error_set(err, -EINVAL,
				 "it is the header of a directory (perf record --threads); its data is in other files");
	default: break;
	}
	if (r == 0 && body.bad)
		r = error_set(err, -EBADMSG, "it is truncated");
	return r < 0 ? error_prefix(err, r, "feature %u of the header", feature) : 0;
}
