/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Flows: what was sent where, and the markers that show it.
 *
 * A flow is an id that markers share. Of one exchange there is one marker that ends it, and any number before that; of a
 * broadcast, one that begins it and several ends. A flow with several of both is an id that was used again: which send belongs
 * to which receive could only be told by times, which is what is to be found out, so it is left alone.
 */
#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "base/order.h"
#include "profile/align_int.h"

#define SCHEMA_NAME "Exchange"
#define FIELDS	    4

static const struct {
	const char *key, *label;
} field_names[FIELDS] = {{"fromHost", "From host"}, {"from", "From"}, {"toHost", "To host"}, {"to", "To"}};

int64_t align_sent_ns(const struct profile_marker *marker)
{
	return marker->phase == PROFILE_MARKER_END ? marker->end_ns : marker->start_ns;
}

int64_t align_received_ns(const struct profile_marker *marker)
{
	bool has_end = marker->phase == PROFILE_MARKER_INTERVAL || marker->phase == PROFILE_MARKER_END;
	return has_end ? marker->end_ns : marker->start_ns;
}

/* ---- finding ---- */

/* By flow, sends before ends. */
DEFINE_ORDER_OF_PLACES(compare_flows, struct profile_marker,
		       ORDER(a->flow, b->flow) ?: ORDER(a->flow_ends, b->flow_ends) ?: ORDER(a, b));

static bool is_far(const struct profile_markers *markers, const struct profile_marker *a, const struct profile_marker *b)
{
	const struct profile_thread *x = &markers->threads[a->thread], *y = &markers->threads[b->thread];
	return x->host != y->host || x->pid != y->pid;
}

/* ids: the markers of one flow, `sends` of them sends. */
static int add_flow(const struct profile_markers *markers, const uint32_t *ids, size_t sends, size_t count,
		    struct align_exchanges *exchanges)
{
	size_t ends = count - sends;
	if (sends > 1 && ends > 1) {
		exchanges->ambiguous++;
		return 0;
	}
	for (size_t i = 0; i < sends; i++)
		for (size_t k = sends; k < count; k++) {
			if (!is_far(markers, &markers->markers[ids[i]], &markers->markers[ids[k]]))
				continue;
			if (array_push(&exchanges->items, &exchanges->count, &exchanges->capacity, UINT32_MAX,
				       (struct align_exchange){ids[i], ids[k]}) < 0)
				return -ENOMEM;
		}
	return 0;
}

int align_find_exchanges(const struct profile *profile, struct align_exchanges *ret)
{
	const struct profile_markers *markers = profile->markers;
	size_t count = 0;
	_cleanup_(mem_freep) uint32_t *ids = mem_alloc_array(markers->marker_count, sizeof(*ids));
	if (!ids)
		return -ENOMEM;
	for (size_t i = 0; i < markers->marker_count; i++)
		if (markers->markers[i].flow)
			ids[count++] = (uint32_t)i;
	sort_array_by(ids, count, compare_flows, markers->markers);
	for (size_t first = 0, next; first < count; first = next) {
		size_t sends = 0;
		for (next = first; next < count && markers->markers[ids[next]].flow == markers->markers[ids[first]].flow;
		     next++)
			sends += !markers->markers[ids[next]].flow_ends;
		if (add_flow(markers, ids + first, sends, next - first, ret) < 0)
			return -ENOMEM;
	}
	return 0;
}

/* ---- drawing ---- */

static bool is_exchange_schema(const struct profile *profile, uint32_t id)
{
	const struct profile_marker_schema *schema = &profile->markers->schemas[id];
	if (schema->field_count != FIELDS || strcmp(profile_string(profile, schema->name), SCHEMA_NAME) != 0)
		return false;
	for (uint32_t i = 0; i < FIELDS; i++)
		if (strcmp(profile_string(profile, profile->markers->fields[schema->field_first + i].key),
			   field_names[i].key) != 0)
			return false;
	return true;
}

void align_drop_exchange_markers(struct profile *profile)
{
	struct profile_markers *markers = profile->markers;
	uint32_t known = 0; /* there is one such schema, or a few */
	bool is_known = false;
	size_t kept = 0;
	for (size_t i = 0; i < markers->marker_count; i++) {
		uint32_t schema = markers->markers[i].schema;
		if (schema != known || i == 0) {
			known = schema;
			is_known = is_exchange_schema(profile, schema);
		}
		if (!is_known)
			markers->markers[kept++] = markers->markers[i];
	}
	markers->marker_count = kept;
}

static int add_schema(struct profile *profile, uint32_t *ret, struct error *err)
{
	struct profile_marker_schema schema = {0};
	struct profile_marker_field fields[FIELDS] = {0};
	int r = profile_add_cstring(profile, SCHEMA_NAME, &schema.name, err);
	if (r == 0)
		r = profile_add_cstring(profile, "from {marker.data.fromHost}", &schema.chart_label, err);
	if (r == 0)
		r = profile_add_cstring(profile,
					"{marker.data.fromHost}, {marker.data.from} to {marker.data.toHost}, {marker.data.to}",
					&schema.table_label, err);
	schema.tooltip_label = schema.table_label;
	for (size_t i = 0; r == 0 && i < FIELDS; i++) {
		r = profile_add_cstring(profile, field_names[i].key, &fields[i].key, err);
		if (r == 0)
			r = profile_add_cstring(profile, field_names[i].label, &fields[i].label, err);
	}
	return r < 0 ? r : profile_add_marker_schema(profile, &schema, fields, FIELDS, ret, err);
}

static int add_category(struct profile *profile, uint32_t *ret, struct error *err)
{
	uint32_t name, color;
	int r = profile_add_cstring(profile, "Exchanges", &name, err);
	if (r == 0)
		r = profile_add_cstring(profile, "magenta", &color, err);
	return r < 0 ? r : profile_add_marker_category(profile, name, color, ret, err);
}

/* "worker [17]": names of threads, by thread; 0 = not made yet. */
static int name_thread(struct profile *profile, uint32_t thread, uint32_t *names, struct error *err)
{
	const struct profile_thread *of = &profile->markers->threads[thread];
	if (names[thread] || !thread)
		return 0;
	_cleanup_(buffer_release) struct buffer text = {.max = SIZE_MAX};
	struct bytes name = profile_string_bytes(profile, of->name ? of->name : of->process);
	buffer_append(&text, name.data, name.len);
	return buffer_printf(&text, "%s[%lld]", name.len ? " " : "", (long long)of->tid) < 0
		       ? error_nomem(err)
		       : profile_add_bytes(profile, buffer_bytes(&text), &names[thread], err);
}

int align_draw_exchanges(struct profile *profile, const struct align_exchanges *exchanges, uint64_t *ret_reversed,
			 struct error *err)
{
	if (exchanges->count == 0)
		return 0;
	struct profile_marker marker = {.phase = PROFILE_MARKER_INTERVAL};
	_cleanup_(mem_freep) uint32_t *names = mem_zalloc_array(profile->markers->thread_count, sizeof(*names));
	int r = names ? add_schema(profile, &marker.schema, err) : error_nomem(err);
	if (r == 0)
		r = add_category(profile, &marker.category, err);
	marker.name = profile->markers->schemas[marker.schema].name;
	for (size_t i = 0; r == 0 && i < exchanges->count; i++) {
		const struct profile_marker *send = &profile->markers->markers[exchanges->items[i].send],
					    *receive = &profile->markers->markers[exchanges->items[i].receive];
		const struct profile_thread *threads = profile->markers->threads;
		const struct profile_host *hosts = profile->markers->hosts;
		uint32_t from = send->thread, to = receive->thread;
		marker.thread = to;
		marker.start_ns = align_sent_ns(send);
		marker.end_ns = align_received_ns(receive);
		*ret_reversed += marker.end_ns < marker.start_ns;
		r = name_thread(profile, from, names, err);
		if (r == 0)
			r = name_thread(profile, to, names, err);
		uint32_t texts[FIELDS] = {hosts[threads[from].host].name, names[from], hosts[threads[to].host].name, names[to]};
		struct profile_marker_value values[FIELDS] = {0};
		for (size_t k = 0; k < FIELDS; k++)
			if (texts[k])
				values[k] = (struct profile_marker_value){.kind = PROFILE_VALUE_STRING, .string = texts[k]};
		if (r == 0)
			r = profile_add_marker(profile, &marker, values, err);
	}
	return r;
}
