/* SPDX-License-Identifier: Apache-2.0 */
#include "server/viewer/view.h"

#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "base/time.h"
#include "format/timeline.h"
#include "render/flame.h"

/* Addresses without a name, each once. */
static int count_unnamed(const struct flame *flame, uint64_t *ret, struct error *err)
{
	_cleanup_(mem_freep) bool *seen = mem_zalloc_array(flame->strings.count, sizeof(*seen));
	if (!seen)
		return error_nomem(err);
	*ret = 0;
	for (size_t i = 1; i < flame->count; i++) {
		uint32_t id = flame->nodes[i].name;
		const char *name = intern_string(&flame->strings, id);
		*ret += !seen[id] && (strstr(name, "+0x") || strncmp(name, "0x", 2) == 0);
		seen[id] = true;
	}
	return 0;
}

static int put_type(const struct profile *profile, size_t type, size_t nodes_max, const struct timeline *timeline,
		    struct json_writer *json, struct buffer *columns, struct error *err)
{
	_cleanup_(flame_freep) struct flame *flame = NULL;
	_cleanup_(mem_freep) uint32_t *places = timeline ? mem_alloc_array(profile->stack_count, sizeof(*places)) : NULL;
	uint64_t unnamed = 0;
	if (timeline && !places)
		return error_nomem(err);
	int r = flame_build_placed(profile, type, FLAME_UNNAMED_BY_ADDRESS, nodes_max, places, &flame, err);
	if (r == 0)
		r = count_unnamed(flame, &unnamed, err);
	if (r == 0 && timeline)
		r = timeline_put_type(timeline, type, places, columns, err);
	if (r < 0)
		return r;
	bool is_period = profile->period_type.type == profile->sample_types[type].type &&
			 profile->period_type.unit == profile->sample_types[type].unit;
	json_begin_object(json);
	json_member_int(json, "period", is_period ? profile->period : 0);
	json_member_uint(json, "unresolved", unnamed);
	json_key(json, "flame");
	flame_write_json(flame, json);
	json_end_object(json);
	return 0;
}

static void put_head(const struct profile *profile, const struct view_options *options, const char *no_timeline,
		     struct json_writer *json)
{
	struct bytes rest = options->left_out ? buffer_bytes(options->left_out) : (struct bytes){0};
	json_member_cstring(json, "title", options->title);
	if (options->format)
		json_member_cstring(json, "format", options->format);
	if (rest.len > 0) {
		json_member_array(json, "left_out");
		while (rest.len > 0)
			json_bytes(json, bytes_take_line(&rest));
		json_end_array(json);
	}
	if (no_timeline)
		json_member_cstring(json, "no_timeline", no_timeline);
	json_member_int(json, "time_ms", profile->time_ns / NS_PER_MS);
	json_member_uint(json, "shown", profile_default_sample_type(profile));
}

/* no_timeline: why there is to be none; NULL = there is one, if there is something to show on it. */
static int put_view(const struct profile *profile, const struct view_options *options, const char *no_timeline,
		    struct buffer *out, struct buffer *columns, struct error *err)
{
	_cleanup_(timeline_freep) struct timeline *timeline = NULL;
	size_t nodes_max = options->nodes_max ? options->nodes_max : VIEW_NODES_MAX / profile->sample_type_count;
	int r = no_timeline ? 0 : timeline_new(profile, TIMELINE_SAMPLES_MAX, TIMELINE_MARKERS_MAX, &timeline, err);
	if (r == 0 && timeline)
		r = timeline_put_samples(timeline, columns, err);
	if (r < 0)
		return r;
	struct json_writer json = {.out = out};
	json_begin_object(&json);
	put_head(profile, options, no_timeline, &json);
	json_member_array(&json, "types");
	for (size_t i = 0; r == 0 && i < profile->sample_type_count; i++)
		r = cancel_requested(options->cancel) ? error_set(err, -ECANCELED, "the request was cancelled")
						      : put_type(profile, i, nodes_max, timeline, &json, columns, err);
	json_end_array(&json);
	if (timeline) {
		json_key(&json, "timeline");
		timeline_put_json(timeline, &json);
	}
	if (r == 0 && timeline)
		r = timeline_put_markers(timeline, columns, err);
	json_end_object(&json);
	return r < 0 ? r : json_finish(&json, err);
}

int view_write(const struct profile *profile, const struct view_options *options, struct buffer *json, struct buffer *columns,
	       struct error *err)
{
	struct error why = {0};
	size_t json_len = json->len, columns_len = columns->len;
	if (profile->sample_type_count == 0)
		return error_set(err, -EINVAL, "the profile has no values");
	int r = put_view(profile, options, NULL, json, columns, &why);
	if (r == 0)
		return 0;
	buffer_truncate(json, json_len);
	buffer_truncate(columns, columns_len);
	if (r != -E2BIG)
		return error_set(err, r, "%s", why.message);
	return put_view(profile, options, why.message, json, columns, err);
}
