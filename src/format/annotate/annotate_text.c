/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files of lines "START END NAME", as programs write them for samply: nanoseconds of CLOCK_MONOTONIC, one file a thread, called
 * marker-PID-TID.txt, or marker-PID.txt of a main thread. The kernel cuts a line that was being written when the program died;
 * such a line is left out, and counted.
 */
#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "base/text.h"
#include "base/time.h"
#include "format/annotate/annotate_int.h"

#define PIECE_BYTES    65536
#define LINE_MAX_BYTES 4096
#define KIND	       "Span"

/* LIMIT: a span may be no longer than what fits 63 bits. */
static bool take_number(const uint8_t **at, const uint8_t *end, int64_t *ret)
{
	const uint8_t *p = *at, *first = p;
	*ret = 0;
	for (; p < end && *p >= '0' && *p <= '9' && p - first < 18; p++)
		*ret = *ret * 10 + (*p - '0');
	if (p == first || p == end || (*p != ' ' && *p != '\t'))
		return false;
	while (p < end && (*p == ' ' || *p == '\t'))
		p++;
	*at = p;
	return true;
}

static int add_line(struct annotate *annotate, struct bytes line, uint32_t schema, struct error *err)
{
	struct annotate_marker marker = {.schema = schema, .phase = 1};
	if (line.len == 0)
		return 0;
	const uint8_t *at = line.data, *end = line.data + line.len;
	while (end > at && (end[-1] == '\r' || end[-1] == ' '))
		end--;
	if (at == end)
		return 0;
	if (!take_number(&at, end, &marker.start_ns) || !take_number(&at, end, &marker.end_ns) || at == end) {
		annotate->malformed++;
		return 0;
	}
	if (marker.end_ns <= marker.start_ns) {
		marker.phase = 0;
		marker.end_ns = ANNOTATE_UNKNOWN;
	}
	_cleanup_(buffer_release) struct buffer name = {.max = 4 * LINE_MAX_BYTES};
	int r = text_append_utf8(&name, (struct bytes){at, (size_t)(end - at)});
	if (r == 0)
		r = intern_add(&annotate->strings, name.data, name.len, &marker.name);
	if (r == 0)
		r = array_push(&annotate->markers, &annotate->marker_count, &annotate->marker_capacity, ANNOTATE_MARKERS_MAX,
			       marker);
	return r < 0 ? error_set(err, r, "too many markers") : 0;
}

/* "PID:TID" or "TID". */
static int parse_thread(const char *text, struct annotate_thread *thread, struct error *err)
{
	const char *colon = strchr(text, ':');
	struct bytes tid = bytes_of_string(colon ? colon + 1 : text);
	thread->tid = annotate_parse_id(tid);
	if (colon)
		thread->pid = annotate_parse_id((struct bytes){(const uint8_t *)text, (size_t)(colon - text)});
	if (!thread->tid.is_known || (colon && !thread->pid.is_known))
		return error_set(err, -EINVAL, "'%.60s' is not a thread; give PID:TID", text);
	return 0;
}

/* marker-PID-TID.txt, marker-PID.txt; what stands between TID and the ending does not matter. */
static bool parse_name(const char *path, struct annotate_thread *thread)
{
	const char *name = text_base_name(path);
	if (!text_starts_with(name, "marker-"))
		return false;
	name += strlen("marker-");
	size_t len = strspn(name, "0123456789");
	thread->pid = annotate_parse_id((struct bytes){(const uint8_t *)name, len});
	thread->tid = thread->pid;
	name += len;
	if (*name == '-') {
		len = strspn(name + 1, "0123456789");
		thread->tid = annotate_parse_id((struct bytes){(const uint8_t *)name + 1, len});
	}
	return thread->pid.is_known && thread->tid.is_known;
}

static int add_schema(struct annotate *annotate, uint32_t *ret, struct error *err)
{
	static const char text[] =
		"{\"name\":\"" KIND "\",\"display\":[\"marker-chart\",\"marker-table\",\"timeline-overview\"],\"fields\":[]}";
	struct json_tree *tree;
	for (size_t i = 1; i < annotate->schema_count; i++)
		if (bytes_equal_string(annotate->schemas[i].name, KIND) &&
		    json_node_count(annotate_schema_fields(annotate->schemas[i].node)) == 0) {
			*ret = (uint32_t)i;
			return 0;
		}
	if (array_reserve(&annotate->trees, &annotate->tree_capacity, annotate->tree_count + 1, SIZE_MAX) < 0 ||
	    array_reserve(&annotate->schemas, &annotate->schema_capacity, annotate->schema_count + 1, ANNOTATE_SCHEMAS_MAX) < 0)
		return error_nomem(err);
	int r = json_tree_read(bytes_of_string(text), 0, &tree, err);
	if (r < 0)
		return r;
	annotate->trees[annotate->tree_count++] = tree;
	*ret = (uint32_t)annotate->schema_count;
	annotate->schemas[annotate->schema_count++] =
		(struct annotate_schema){.node = json_tree_root(tree), .name = bytes_of_string(KIND)};
	return 0;
}

/* Line by line; one that is too long is left out. */
static int read_all(struct annotate *annotate, struct input *input, uint32_t schema, struct error *err)
{
	_cleanup_(mem_freep) uint8_t *piece = mem_alloc(PIECE_BYTES);
	_cleanup_(buffer_release) struct buffer line = {.max = LINE_MAX_BYTES};
	bool too_long = false;
	ssize_t n;
	int r = 0;
	if (!piece)
		return error_nomem(err);
	while (r == 0 && (n = input_read(input, piece, PIECE_BYTES, err)) != 0) {
		if (n < 0)
			return (int)n;
		for (struct bytes rest = {piece, (size_t)n}; r == 0 && rest.len > 0;) {
			const uint8_t *feed = memchr(rest.data, '\n', rest.len);
			size_t len = feed ? (size_t)(feed - rest.data) : rest.len;
			int appended = buffer_append(&line, rest.data, len);
			if (appended == -ENOMEM)
				return error_nomem(err);
			too_long |= appended < 0;
			rest = bytes_skip(rest, len + (feed != NULL));
			if (!feed)
				break;
			if (too_long)
				annotate->malformed++;
			else
				r = add_line(annotate, buffer_bytes(&line), schema, err);
			buffer_clear(&line);
			too_long = false;
		}
	}
	/* What has no line feed was being written. */
	annotate->malformed += r == 0 && line.len > 0;
	return r;
}

int annotate_read_lines(struct annotate *annotate, struct input *input, const char *path, const char *thread, struct error *err)
{
	struct annotate_source *source = &annotate->sources[annotate->source_count - 1];
	struct annotate_thread added = {.start_ns = ANNOTATE_UNKNOWN,
					.source = (uint32_t)annotate->source_count - 1,
					.base = ANNOTATE_NONE,
					.next = ANNOTATE_NONE,
					.first = annotate->marker_count,
					.first_ns = ANNOTATE_UNKNOWN,
					.last_ns = ANNOTATE_UNKNOWN};
	uint32_t schema = 0;
	/* Where the profile does not tell the monotonic clock: what it is now, if both are of this machine and this start. */
	source->monotonic_ns = 0;
	source->wall_is_guessed = true;
	source->wall_ns = time_now_ns() - time_monotonic_ns();
	if (thread) {
		int r = parse_thread(thread, &added, err);
		if (r < 0)
			return r;
	} else if (!parse_name(path, &added)) {
		return error_set(err, -EINVAL,
				 "not a profile, and its name does not give the thread of its lines: name it "
				 "marker-PID-TID.txt, or give --thread PID:TID");
	}
	int r = add_schema(annotate, &schema, err);
	if (r == 0)
		r = read_all(annotate, input, schema, err);
	if (r < 0)
		return r;
	added.count = annotate->marker_count - added.first;
	for (size_t i = added.first; i < annotate->marker_count; i++) {
		const struct annotate_marker *marker = &annotate->markers[i];
		int64_t last = marker->phase == 1 ? marker->end_ns : marker->start_ns;
		if (added.first_ns == ANNOTATE_UNKNOWN || marker->start_ns < added.first_ns)
			added.first_ns = marker->start_ns;
		if (added.last_ns == ANNOTATE_UNKNOWN || last > added.last_ns)
			added.last_ns = last;
	}
	added.is_main = added.pid.is_known && added.pid.number == added.tid.number;
	return annotate_room(array_push(&annotate->threads, &annotate->thread_count, &annotate->thread_capacity,
					ANNOTATE_THREADS_MAX, added),
			     "threads", ANNOTATE_THREADS_MAX, err);
}
