/* SPDX-License-Identifier: Apache-2.0 */
/*
 * GET /api/v1/markers: markers of the batches that agents send (marker_batches.h), the newest first.
 *
 * Batches are read from the newest on, one at a time, and the newest `limit` markers kept in a heap, each as its JSON. It ends
 * when no batch can hold a newer one than the oldest that is kept, or when as much was unpacked as one profile of several hosts
 * may be (recordings.profile): then the answer says so.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/limits.h"
#include "base/order.h"
#include "base/time.h"
#include "server/api/api_int.h"
#include "server/recordings/api_marker_batches.h"
#include "server/recordings/api_recordings.h"

#define LIMIT_DEFAULT 1000u
#define LIMIT_MAX     100000u
#define ROW_BYTES     (512 * KIB)
#define ANSWER_BYTES  (256 * MIB)

struct row {
	int64_t time_ns; /* when it ended, or was, or began */
	char *json;	 /* from mem_alloc() */
	size_t len;
};
struct rows {
	struct row *items; /* a heap: the oldest is the first */
	size_t count, max;
	uint64_t bytes;
	bool is_cut; /* there were more */
};

static void rows_release(struct rows *rows)
{
	for (size_t i = 0; i < rows->count; i++)
		mem_free(rows->items[i].json);
	mem_free(rows->items);
}

static void swap(struct row *a, struct row *b)
{
	struct row c = *a;
	*a = *b;
	*b = c;
}

static void sift_down(struct rows *rows)
{
	for (size_t i = 0;;) {
		size_t least = i, left = 2 * i + 1;
		for (size_t child = left; child < left + 2 && child < rows->count; child++)
			if (rows->items[child].time_ns < rows->items[least].time_ns)
				least = child;
		if (least == i)
			return;
		swap(&rows->items[i], &rows->items[least]);
		i = least;
	}
}

/* Takes the row. */
static void rows_add(struct rows *rows, struct row row)
{
	rows->bytes += row.len;
	if (rows->count == rows->max) {
		rows->bytes -= rows->items[0].len;
		mem_free(rows->items[0].json);
		rows->items[0] = row;
		sift_down(rows);
		return;
	}
	size_t i = rows->count++;
	rows->items[i] = row;
	for (; i > 0 && rows->items[(i - 1) / 2].time_ns > rows->items[i].time_ns; i = (i - 1) / 2)
		swap(&rows->items[i], &rows->items[(i - 1) / 2]);
}

static int compare_rows(const void *left, const void *right)
{
	const struct row *a = left, *b = right;
	return ORDER(b->time_ns, a->time_ns);
}

/* ---- one marker ---- */

static void write_value(struct json_writer *json, const struct profile *profile, const struct profile_marker_value *value)
{
	switch (value->kind) {
	case PROFILE_VALUE_STRING: json_bytes(json, profile_string_bytes(profile, value->string)); break;
	case PROFILE_VALUE_NUMBER: json_int(json, value->number); break;
	case PROFILE_VALUE_REAL: json_double(json, value->real); break;
	default: json_null(json);
	}
}

static void write_text(struct json_writer *json, const char *key, const struct profile *profile, uint32_t string)
{
	json_member_bytes(json, key, profile_string_bytes(profile, string));
}

static void write_marker(struct json_writer *json, const struct profile *profile, const struct profile_marker *marker)
{
	static const char *const phases[PROFILE_MARKER_PHASES] = {"instant", "interval", "start", "end"};
	const struct profile_markers *table = profile->markers;
	const struct profile_thread *thread = &table->threads[marker->thread];
	const struct profile_marker_schema *schema = &table->schemas[marker->schema];
	char flow[24];
	json_begin_object(json);
	write_text(json, "host", profile, table->hosts[thread->host].name);
	write_text(json, "process", profile, thread->process);
	json_member_int(json, "pid", thread->pid);
	json_member_int(json, "tid", thread->tid);
	write_text(json, "thread", profile, thread->name);
	write_text(json, "name", profile, marker->name);
	write_text(json, "kind", profile, schema->name);
	write_text(json, "category", profile, table->categories[marker->category].name);
	json_member_cstring(json, "phase", phases[marker->phase]);
	if (marker->phase != PROFILE_MARKER_END)
		json_member_int(json, "start_ns", marker->start_ns);
	if (marker->phase == PROFILE_MARKER_INTERVAL || marker->phase == PROFILE_MARKER_END)
		json_member_int(json, "end_ns", marker->end_ns);
	if (marker->flow) {
		snprintf(flow, sizeof(flow), "%016llx", (unsigned long long)marker->flow);
		json_member_cstring(json, "flow", flow);
	}
	json_member_object(json, "fields");
	for (uint32_t i = 0; i < schema->field_count; i++) {
		const struct profile_marker_value *value = &table->values[marker->value_first + i];
		if (value->kind == PROFILE_VALUE_NONE)
			continue;
		json_key(json, profile_string(profile, table->fields[schema->field_first + i].key));
		write_value(json, profile, value);
	}
	json_end_object(json);
	json_end_object(json);
}

/* ---- choosing ---- */

struct search {
	const struct call *call;
	int64_t from_ns, to_ns;
	struct rows *rows;
};

static int64_t time_of(const struct profile_marker *marker)
{
	return marker->phase == PROFILE_MARKER_INTERVAL || marker->phase == PROFILE_MARKER_END ? marker->end_ns
											       : marker->start_ns;
}

static bool is_called(const struct search *search, const struct profile *profile, const struct profile_marker *marker)
{
	const char *name;
	size_t i = 0;
	for (; (name = net_request_query_nth(search->call->request, "name", i)); i++)
		if (strcmp(name, profile_string(profile, marker->name)) == 0 ||
		    strcmp(name, profile_string(profile, profile->markers->schemas[marker->schema].name)) == 0)
			return true;
	return i == 0;
}

static int take_marker(const struct search *search, const struct profile *profile, const struct profile_marker *marker,
		       struct error *err)
{
	struct rows *rows = search->rows;
	int64_t time_ns = time_of(marker), begin_ns = marker->phase == PROFILE_MARKER_END ? time_ns : marker->start_ns;
	if (time_ns < search->from_ns || begin_ns > search->to_ns || !is_called(search, profile, marker))
		return 0;
	bool is_full = rows->count == rows->max || rows->bytes > ANSWER_BYTES / 2;
	rows->is_cut |= is_full;
	if (is_full && (rows->count < rows->max || time_ns <= rows->items[0].time_ns))
		return 0;
	_cleanup_(buffer_release) struct buffer text = {.max = ROW_BYTES};
	struct json_writer json = {.out = &text};
	write_marker(&json, profile, marker);
	int r = json_finish(&json, err);
	char *copy = r == 0 ? mem_alloc(text.len) : NULL;
	if (!copy)
		return r < 0 ? r : error_nomem(err);
	memcpy(copy, text.data, text.len);
	rows_add(rows, (struct row){time_ns, copy, text.len});
	return 0;
}

static int take_batch(const struct search *search, const struct marker_batch *batch, struct error *err)
{
	_cleanup_(profile_freep) struct profile *profile = NULL;
	struct error why = {0};
	int r = api_marker_batch_read(search->call->tenant->batches, batch, &profile, &why);
	/* What one host sent is no reason to have nothing of the others. */
	if (r == -EBADMSG || r == -EINVAL || r == -E2BIG || r == -ENOENT) {
		search->rows->is_cut = true;
		return 0;
	}
	if (r < 0)
		return error_set(err, r, "host %s: %s", batch->host, why.message);
	for (size_t i = 0; i < profile_marker_count(profile) && r == 0; i++)
		r = take_marker(search, profile, &profile->markers->markers[i], err);
	return r;
}

static int take_all(const struct search *search, const struct marker_batch *batches, size_t count, size_t *ret_read,
		    struct error *err)
{
	struct rows *rows = search->rows;
	uint64_t bytes = 0, most = api_profile_bytes_max(search->call->server);
	int r = 0;
	for (size_t i = 0; i < count && r == 0; i++) {
		const struct marker_batch *batch = &batches[i];
		if (!api_host_is_wanted(search->call->request, batch->host))
			continue;
		if (rows->count == rows->max && marker_batch_time(batch, batch->to_ns) < rows->items[0].time_ns) {
			rows->is_cut = true;
			break;
		}
		bytes += batch->plain_bytes;
		if (bytes > most) {
			rows->is_cut = true;
			break;
		}
		if (cancel_requested(net_request_cancelled(search->call->request)))
			return error_set(err, -ECANCELED, "the client disconnected");
		r = take_batch(search, batch, err);
		++*ret_read;
	}
	return r;
}

/* ---- the answer ---- */

static int write_answer(const struct call *call, struct rows *rows, size_t read, struct error *err)
{
	struct buffer *out = &call->response->body;
	out->max = ANSWER_BYTES;
	sort_array(rows->items, rows->count, compare_rows);
	buffer_append_string(out, "{\"markers\":[");
	for (size_t i = 0; i < rows->count; i++) {
		if (i)
			buffer_append_string(out, ",");
		buffer_append(out, rows->items[i].json, rows->items[i].len);
	}
	int r = buffer_printf(out, "],\"from_ms\":%lld,\"to_ms\":%lld,\"windows\":%zu,\"truncated\":%s}",
			      (long long)(call->requested_from_ns / NS_PER_MS), (long long)(call->requested_to_ns / NS_PER_MS),
			      read, rows->is_cut ? "true" : "false");
	return r < 0 ? error_nomem(err) : 0;
}

static int answer_markers(struct call *call, struct error *err)
{
	_cleanup_(mem_freep) struct marker_batch *all = NULL;
	_cleanup_(rows_release) struct rows rows = {0};
	struct search search = {
		.call = call, .from_ns = call->requested_from_ns, .to_ns = call->requested_to_ns, .rows = &rows};
	uint64_t limit = call_count(call, "limit", LIMIT_DEFAULT, LIMIT_MAX);
	size_t count = 0, read = 0;
	int r = call->failed;
	if (r == 0)
		r = marker_batches_find(call->tenant->batches, search.from_ns, search.to_ns, &all, &count, err);
	if (r < 0)
		return r;
	rows.items = mem_alloc_array(limit, sizeof(*rows.items));
	if (!rows.items)
		return error_nomem(err);
	rows.max = limit;
	if (pthread_mutex_trylock(&call->server->recordings_turn) != 0)
		return error_set(err, -EAGAIN, "another request for markers is in progress; try again");
	r = take_all(&search, all, count, &read, err);
	pthread_mutex_unlock(&call->server->recordings_turn);
	return r < 0 ? r : write_answer(call, &rows, read, err);
}

CALL_HANDLER(api_markers, answer_markers)
