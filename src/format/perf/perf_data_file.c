/* SPDX-License-Identifier: Apache-2.0 */
/* perf.data: the file, the pipe, and the records in them; perf_data.c describes the layout. */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/alloc.h"
#include "format/perf/perf_data_int.h"

#define MAGIC_BYTES    8
#define PIPE_HEADER    16
#define FILE_HEADER    104
#define RECORD_HEADER  8
#define FEATURES       256
#define ATTR_BYTES_MIN 64 /* PERF_ATTR_SIZE_VER0 */
#define IDS_BYTES      16 /* behind each attr: where its ids are */
#define EVENT_NAME_IS  2  /* of PERF_RECORD_EVENT_UPDATE */
#define PLACES_MAX     ((size_t)UINT32_MAX)

struct section {
	uint64_t offset, size;
};

/* ---- records ---- */

/* Where bytes are: numbers go on behind the input in what was decompressed. */
static const uint8_t *bytes_at(const struct perf_reader *reader, uint64_t at)
{
	return at < reader->input.len ? reader->input.data + at : reader->plain.data + (at - reader->input.len);
}

/* The header must be there; returns the record's size. */
static uint16_t read_header(const struct perf_reader *reader, uint64_t at, struct perf_record *ret)
{
	const uint8_t *header = bytes_at(reader, at);
	struct perf_cursor cursor = {header, header + RECORD_HEADER, reader->is_swapped, false};
	ret->type = perf_take_u32(&cursor);
	ret->misc = perf_take_u16(&cursor);
	uint16_t size = perf_take_u16(&cursor);
	ret->body = (struct perf_cursor){header + RECORD_HEADER, header + (size < RECORD_HEADER ? RECORD_HEADER : size),
					 reader->is_swapped, false};
	return size;
}

struct perf_record perf_data_record(const struct perf_reader *reader, uint64_t at)
{
	struct perf_record record;
	read_header(reader, at, &record);
	return record;
}

static int add_place(struct perf_reader *reader, uint64_t at, uint64_t time, struct error *err)
{
	int r = array_push(&reader->places, &reader->place_count, &reader->place_capacity, PLACES_MAX,
			   (struct perf_place){time, at});
	return r < 0 ? error_nomem(err) : 0;
}

static int scan_sample(struct perf_reader *reader, uint64_t at, const struct perf_record *record, struct error *err)
{
	struct perf_sample sample;
	int r = perf_data_read_sample(reader, record, &sample, err);
	reader->counts.strays += r > 0;
	if (r != 0)
		return r < 0 ? r : 0;
	reader->events[sample.event - reader->events].samples++;
	for (size_t i = 0; i < sample.read_count; i++) {
		const uint8_t *value = sample.reads + i * sample.read_bytes;
		struct perf_event *event =
			perf_data_event_of(reader, perf_load_u64(value + sample.read_id, reader->is_swapped));
		if (event && event != sample.event)
			event->samples += perf_load_u64(value, reader->is_swapped) != 0;
	}
	reader->counts.samples++;
	reader->counts.reads += sample.has_read && !sample.reads;
	reader->counts.raws += sample.has_raw;
	reader->counts.branches += sample.has_branches;
	reader->counts.memory += sample.has_memory;
	return add_place(reader, at, sample.time, err);
}

static int rename_event(struct perf_reader *reader, struct perf_cursor body, struct error *err)
{
	uint64_t type = perf_take_u64(&body), id = perf_take_u64(&body);
	struct perf_event *event = perf_data_event_of(reader, id);
	return type == EVENT_NAME_IS && event ? perf_data_name_event(reader, event, perf_text(body), err) : 0;
}

static int scan_attr(struct perf_reader *reader, struct perf_cursor body, struct error *err)
{
	struct perf_cursor start = body;
	perf_take_u32(&start);
	uint32_t size = perf_take_u32(&start);
	size = size ? size : ATTR_BYTES_MIN; /* the first version left it 0 */
	const uint8_t *attr = perf_take(&body, size);
	if (!attr)
		return error_set(err, -EBADMSG, "an event's description is truncated");
	return perf_data_add_event(reader, (struct bytes){attr, size}, (struct bytes){body.at, perf_left(&body)}, err);
}

static int scan_feature(struct perf_reader *reader, struct perf_cursor body, struct error *err)
{
	uint64_t feature = perf_take_u64(&body);
	return body.bad || feature >= FEATURES ? 0 : perf_data_read_feature(reader, (unsigned)feature, body, err);
}

/* Records of the kernel. */
static int scan_kernel_record(struct perf_reader *reader, uint64_t at, const struct perf_record *record, struct error *err)
{
	struct perf_cursor body = record->body;
	switch (record->type) {
	case PERF_SAMPLE: return scan_sample(reader, at, record, err);
	case PERF_MMAP:
	case PERF_MMAP2:
	case PERF_COMM:
	case PERF_FORK:
	case PERF_KSYMBOL:
	case PERF_CGROUP: return add_place(reader, at, perf_data_record_time(reader, record), err);
	case PERF_LOST:
		perf_take_u64(&body); /* id */
		reader->counts.lost_events += perf_take_u64(&body);
		reader->counts.lost_records++;
		return 0;
	case PERF_LOST_SAMPLES: reader->counts.lost_samples += perf_take_u64(&body); return 0;
	case PERF_THROTTLE: reader->counts.throttled++; return 0;
	case PERF_AUX:
		perf_take_u64(&body); /* offset */
		reader->counts.aux_bytes += perf_take_u64(&body);
		return 0;
	case PERF_DEFERRED: reader->counts.deferred++; return 0;
	default: return 0;
	}
}

static int scan_plain(struct perf_reader *reader, struct error *err)
{
	int r = 0;
	while (r == 0 && reader->plain.len - reader->plain_read >= RECORD_HEADER) {
		struct perf_record record;
		uint64_t at = reader->input.len + reader->plain_read;
		uint16_t size = read_header(reader, at, &record);
		if (size < RECORD_HEADER)
			return error_set(err, -EBADMSG, "a compressed record has a size of %u bytes", size);
		if (size > reader->plain.len - reader->plain_read)
			break; /* the rest is in the next one */
		reader->plain_read += size;
		if (record.type < PERF_USER_TYPES)
			r = scan_kernel_record(reader, at, &record, err);
	}
	return r;
}

static int scan_compressed(struct perf_reader *reader, const struct perf_record *record, struct error *err)
{
	struct perf_cursor body = record->body;
	uint64_t size = record->type == PERF_COMPRESSED2 ? perf_take_u64(&body) : perf_left(&body);
	const uint8_t *data = perf_take(&body, size);
	if (!data)
		return error_set(err, -EBADMSG, "compressed data is truncated");
	int r = zstd_stream_decompress(&reader->zstd, (struct bytes){data, size}, &reader->plain, err);
	return r < 0 ? r : scan_plain(reader, err);
}

/* *ret_behind: bytes that follow the record and belong to it. */
static int scan_record(struct perf_reader *reader, uint64_t at, const struct perf_record *record, uint64_t *ret_behind,
		       struct error *err)
{
	struct perf_cursor body = record->body;
	*ret_behind = 0;
	switch (record->type) {
	case PERF_HEADER_ATTR: return scan_attr(reader, body, err);
	case PERF_HEADER_TRACING_DATA: *ret_behind = reader->is_pipe ? perf_take_u32(&body) : 0; return 0;
	case PERF_HEADER_BUILD_ID: return perf_data_read_build_id(reader, record->misc, body, err);
	case PERF_AUXTRACE: *ret_behind = perf_take_u64(&body); return 0;
	case PERF_EVENT_UPDATE: return rename_event(reader, body, err);
	case PERF_HEADER_FEATURE: return scan_feature(reader, body, err);
	case PERF_COMPRESSED:
	case PERF_COMPRESSED2: return scan_compressed(reader, record, err);
	default: return record->type < PERF_USER_TYPES ? scan_kernel_record(reader, at, record, err) : 0;
	}
}

static int scan_records(struct perf_reader *reader, uint64_t at, uint64_t end, struct error *err)
{
	while (at < end) {
		struct perf_record record;
		uint64_t behind = 0, left = end - at;
		uint16_t size = left >= RECORD_HEADER ? read_header(reader, at, &record) : 0;
		/* Who was killed while writing leaves half a record. */
		if ((reader->counts.is_unfinished || reader->is_pipe) && (left < RECORD_HEADER || size > left)) {
			reader->counts.is_unfinished = true;
			break;
		}
		if (left < RECORD_HEADER || size > left)
			return error_set(err, -EBADMSG, "the record at byte %" PRIu64 " reaches past the end of the data", at);
		if (size < RECORD_HEADER)
			return error_set(err, -EBADMSG,
					 "the record at byte %" PRIu64 " has a size of %u bytes, less than its header", at,
					 size);
		int r = scan_record(reader, at, &record, &behind, err);
		if (r < 0)
			return error_prefix(err, r, "the record at byte %" PRIu64, at);
		if (behind > left - size)
			return error_set(err, -EBADMSG, "the data after the record at byte %" PRIu64 " reaches past the end",
					 at);
		at += size + behind;
	}
	if (reader->plain_read < reader->plain.len)
		reader->counts.is_unfinished = true;
	return 0;
}

/* ---- files ---- */

static struct section take_section(struct perf_cursor *cursor)
{
	struct section section = {.offset = perf_take_u64(cursor)};
	section.size = perf_take_u64(cursor);
	return section;
}

static bool is_inside(const struct perf_reader *reader, struct section section)
{
	return section.offset <= reader->input.len && section.size <= reader->input.len - section.offset;
}

static struct perf_cursor cursor_of(const struct perf_reader *reader, struct section section)
{
	const uint8_t *at = reader->input.data + section.offset;
	return (struct perf_cursor){at, at + section.size, reader->is_swapped, false};
}

static int read_events(struct perf_reader *reader, struct section attrs, uint64_t entry, struct error *err)
{
	uint64_t ids_total = 0;
	if (!is_inside(reader, attrs))
		return error_set(err, -EBADMSG, "the section of the events lies outside of the file");
	if (entry < ATTR_BYTES_MIN + IDS_BYTES)
		return error_set(err, -EBADMSG, "events have %" PRIu64 " bytes each, less than the minimum", entry);
	for (uint64_t at = 0; attrs.size - at >= entry; at += entry) {
		struct perf_cursor cursor = cursor_of(reader, (struct section){attrs.offset + at, entry}), start = cursor;
		perf_take_u32(&start);
		uint32_t size = perf_take_u32(&start);
		size = size ? size : ATTR_BYTES_MIN;
		const uint8_t *attr = perf_take(&cursor, size);
		if (attr && size < ATTR_BYTES_MIN)
			return error_set(err, -EBADMSG, "an event of %u bytes is shorter than the minimum", size);
		struct section ids = take_section(&cursor);
		if (cursor.bad)
			return error_set(err, -EBADMSG, "an event of %u bytes does not fit in %" PRIu64, size, entry);
		/* Together no more than the file, so that they cannot be the same ones again and again. */
		if (!is_inside(reader, ids) || (ids_total += ids.size) > reader->input.len)
			return error_set(err, -EBADMSG, "the ids of an event lie outside of the file");
		int r = perf_data_add_event(reader, (struct bytes){attr, size},
					    (struct bytes){reader->input.data + ids.offset, ids.size}, err);
		if (r < 0)
			return r;
	}
	return 0;
}

/* Bits are counted in words of 64, and in files of old or foreign writers of 32: the host's name is in every file. */
static bool has_feature(const uint8_t *bits, unsigned feature, bool is_swapped)
{
	for (unsigned bytes = 8; is_swapped && bytes >= 4; bytes -= 4) {
		unsigned host = 3;
		if (bits[host / 8 / bytes * bytes + bytes - 1 - host / 8 % bytes] >> host % 8 & 1)
			return bits[feature / 8 / bytes * bytes + bytes - 1 - feature / 8 % bytes] >> feature % 8 & 1;
	}
	return bits[feature / 8] >> feature % 8 & 1;
}

/* Sections in the order of their bits, behind the data. */
static int read_features(struct perf_reader *reader, const uint8_t *bits, uint64_t at, struct error *err)
{
	uint64_t total = 0;
	for (unsigned feature = 0; feature < FEATURES; feature++) {
		if (!has_feature(bits, feature, reader->is_swapped))
			continue;
		struct section table = {at, IDS_BYTES};
		if (!is_inside(reader, table))
			return error_set(err, -EBADMSG, "the table of the header's features reaches past the end of the file");
		struct perf_cursor cursor = cursor_of(reader, table);
		struct section section = take_section(&cursor);
		if (!is_inside(reader, section) || (total += section.size) > reader->input.len)
			return error_set(err, -EBADMSG, "feature %u of the header lies outside of the file", feature);
		int r = perf_data_read_feature(reader, feature, cursor_of(reader, section), err);
		if (r < 0)
			return r;
		at += IDS_BYTES;
	}
	return 0;
}

static int scan_file(struct perf_reader *reader, struct error *err)
{
	if (reader->input.len < FILE_HEADER)
		return error_set(err, -EBADMSG, "it is shorter than its header");
	struct perf_cursor header = cursor_of(reader, (struct section){MAGIC_BYTES + 8, FILE_HEADER - MAGIC_BYTES - 8});
	uint64_t attr_bytes = perf_take_u64(&header);
	struct section attrs = take_section(&header), data = take_section(&header);
	take_section(&header); /* event types, of versions before 2012 */
	const uint8_t *features = perf_take(&header, FEATURES / 8);
	int r = read_events(reader, attrs, attr_bytes, err);
	if (r < 0)
		return r;
	if (!is_inside(reader, data))
		return error_set(err, -EBADMSG, "the data lies outside of the file: the file is truncated");
	/* The size is written last. */
	if (data.size == 0) {
		reader->counts.is_unfinished = true;
		return scan_records(reader, data.offset, reader->input.len, err);
	}
	r = read_features(reader, features, data.offset + data.size, err);
	return r < 0 ? r : scan_records(reader, data.offset, data.offset + data.size, err);
}

bool perf_data_is_magic(struct bytes input)
{
	static const char *const magics[] = {"PERFILE2", "2ELIFREP", "PERFFILE"};
	for (size_t i = 0; input.len >= PIPE_HEADER && i < sizeof(magics) / sizeof(magics[0]); i++)
		if (memcmp(input.data, magics[i], MAGIC_BYTES) == 0)
			return true;
	return false;
}

int perf_data_scan(struct perf_reader *reader, struct error *err)
{
	if (reader->input.len < PIPE_HEADER)
		return error_set(err, -EBADMSG, "it is shorter than its header");
	if (!perf_data_is_magic(reader->input))
		return error_set(err, -EBADMSG, "not a perf.data file of version 1 or 2");
	reader->is_swapped = memcmp(reader->input.data, "2ELIFREP", MAGIC_BYTES) == 0;
	if (memcmp(reader->input.data, "PERFFILE", MAGIC_BYTES) == 0)
		reader->is_swapped = perf_load_u64(reader->input.data + MAGIC_BYTES, false) >> 32 != 0;
	uint64_t size = perf_load_u64(reader->input.data + MAGIC_BYTES, reader->is_swapped);
	reader->is_pipe = size == PIPE_HEADER;
	int r;
	if (reader->is_pipe)
		r = scan_records(reader, PIPE_HEADER, reader->input.len, err);
	else if (size == FILE_HEADER)
		r = scan_file(reader, err);
	else
		r = error_set(err, -EBADMSG, "its header has %" PRIu64 " bytes, not %d or %d", size, FILE_HEADER, PIPE_HEADER);
	return r < 0 ? r : perf_data_name_events(reader, err);
}
