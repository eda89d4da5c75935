/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A profile as one HTML file: the page's own flame graph and table with the profile within, to be mailed, attached and opened
 * from a disk. It asks nobody for anything, which its content security policy enforces: one script and one style may run, by
 * their hashes.
 *
 * The profile is the trees of all its values, as JSON, gzipped, in base64: names are whatever somebody called a function, and
 * in this form none can end an element or begin one. Where there are times, threads or markers, a time line goes with it
 * (format/timeline.h): its columns are a second element of that kind, and say of each sample in which node of the trees it
 * ends, so that the page can make the tree of any part of the samples. A time line that would pass the limits is left out, and
 * the page says why: the graph of all is worth having without it.
 */
#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "base/text.h"
#include "base/time.h"
#include "cmd/cmd.h"
#include "codec/base64.h"
#include "codec/compress.h"
#include "format/timeline.h"
#include "render/flame.h"
#include "server/server.h"

/* Frames of one tree. What is too small stands together, as on the server's page. */
#define HTML_NODES_MAX	  200000
#define JSON_BYTES_MAX	  (1ull << 30)
#define COLUMNS_BYTES_MAX (512ull << 20)
#define GZIP_LEVEL	  9
/* Of columns, which are many and whose low digits are noise. */
#define GZIP_COLUMNS_LEVEL 6

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

static int put_type(const struct profile *profile, size_t type, const struct timeline *timeline, struct json_writer *json,
		    struct buffer *columns, struct error *err)
{
	_cleanup_(flame_freep) struct flame *flame = NULL;
	_cleanup_(mem_freep) uint32_t *places = timeline ? mem_alloc_array(profile->stack_count, sizeof(*places)) : NULL;
	uint64_t unnamed = 0;
	if (timeline && !places)
		return error_nomem(err);
	int r = flame_build_placed(profile, type, FLAME_UNNAMED_BY_ADDRESS, HTML_NODES_MAX, places, &flame, err);
	if (r == 0)
		r = count_unnamed(flame, &unnamed, err);
	if (r == 0 && timeline)
		r = timeline_put_type(timeline, type, places, columns, err);
	if (r < 0)
		return r;
	bool is_period = profile->period_type.type == profile->sample_types[type].type &&
			 profile->period_type.unit == profile->sample_types[type].unit;
	json_begin_object(json);
	json_key(json, "period");
	json_int(json, is_period ? profile->period : 0);
	json_key(json, "unresolved");
	json_uint(json, unnamed);
	json_key(json, "flame");
	flame_write_json(flame, json);
	json_end_object(json);
	return 0;
}

/* no_timeline: why there is to be none; NULL = there is one, if there is something to show on it. */
static int put_json(const struct profile *profile, const char *title, const char *no_timeline, struct buffer *out,
		    struct buffer *columns, struct error *err)
{
	_cleanup_(timeline_freep) struct timeline *timeline = NULL;
	struct json_writer json;
	int r = no_timeline ? 0 : timeline_new(profile, TIMELINE_SAMPLES_MAX, TIMELINE_MARKERS_MAX, &timeline, err);
	if (r == 0 && timeline)
		r = timeline_put_samples(timeline, columns, err);
	if (r < 0)
		return r;
	json_init(&json, out);
	json_begin_object(&json);
	json_key(&json, "title");
	json_cstring(&json, title);
	if (no_timeline)
		json_member_cstring(&json, "no_timeline", no_timeline);
	json_key(&json, "time_ms");
	json_int(&json, profile->time_ns / NS_PER_MS);
	json_key(&json, "shown");
	json_uint(&json, profile_default_sample_type(profile));
	json_key(&json, "types");
	json_begin_array(&json);
	for (size_t i = 0; r == 0 && i < profile->sample_type_count; i++)
		r = put_type(profile, i, timeline, &json, columns, err);
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

static int put_escaped(struct bytes text, struct buffer *out)
{
	static const struct {
		char from;
		const char *to;
	} escapes[] = {{'&', "&amp;"}, {'<', "&lt;"}, {'>', "&gt;"}, {'"', "&quot;"}, {'\'', "&#39;"}};
	int r = 0;
	for (size_t i = 0; r == 0 && i < text.len; i++) {
		const char *to = NULL;
		for (size_t k = 0; k < sizeof(escapes) / sizeof(escapes[0]); k++)
			if (text.data[i] == (uint8_t)escapes[k].from)
				to = escapes[k].to;
		r = to ? buffer_append_string(out, to) : buffer_append_byte(out, text.data[i]);
	}
	return r;
}

/* Appends the page up to the place and moves *page behind it. */
static int put_page_until(struct bytes *page, const char *place, struct buffer *out)
{
	const uint8_t *at = memmem(page->data, page->len, place, strlen(place));
	size_t before = at ? (size_t)(at - page->data) : page->len, skip = at ? before + strlen(place) : before;
	int r = buffer_append(out, page->data, before);
	*page = (struct bytes){page->data + skip, page->len - skip};
	return r;
}

/* Both gzipped. */
struct page_data {
	struct buffer json, columns;
};

static void page_data_release(struct page_data *data)
{
	buffer_release(&data->json);
	buffer_release(&data->columns);
}

static int pack(const struct profile *profile, const char *title, const char *no_timeline, size_t columns_max,
		struct page_data *out, struct error *err)
{
	_cleanup_(buffer_release) struct buffer json, columns;
	buffer_init(&json, JSON_BYTES_MAX);
	buffer_init(&columns, columns_max);
	buffer_clear(&out->json);
	buffer_clear(&out->columns);
	int r = put_json(profile, title, no_timeline, &json, &columns, err);
	if (r == 0)
		r = gzip_compress(buffer_bytes(&json), GZIP_LEVEL, &out->json, err);
	if (r == 0 && columns.len > 0)
		r = gzip_compress(buffer_bytes(&columns), GZIP_COLUMNS_LEVEL, &out->columns, err);
	return r;
}

static int put_page(const char *title, const struct page_data *data, struct buffer *out, struct error *err)
{
	struct bytes page = assets_report();
	_cleanup_(buffer_release) struct buffer safe;
	buffer_init(&safe, SIZE_MAX);
	int r = text_append_harmless(&safe, bytes_of_string(title));
	if (r == 0)
		r = put_page_until(&page, "{{TITLE}}", out);
	if (r == 0)
		r = put_escaped(buffer_bytes(&safe), out);
	if (r == 0)
		r = put_page_until(&page, "{{PROFILE}}", out);
	if (r == 0)
		r = base64_encode(buffer_bytes(&data->json), out);
	if (r == 0)
		r = put_page_until(&page, "{{TIMELINE}}", out);
	if (r == 0)
		r = base64_encode(buffer_bytes(&data->columns), out);
	if (r == 0)
		r = buffer_append(out, page.data, page.len);
	return r == -E2BIG ? error_set(err, r, "the page passes the limit of %zu bytes", out->max)
	       : r < 0	   ? error_nomem(err)
			   : 0;
}

int html_write_within(const struct profile *profile, const char *title, size_t columns_max, struct buffer *out,
		      struct error *err)
{
	_cleanup_(page_data_release) struct page_data data;
	struct error why = {0};
	buffer_init(&data.json, JSON_BYTES_MAX);
	buffer_init(&data.columns, columns_max);
	/* The path of whoever made the page is nobody's business. */
	title = strcmp(title, "-") == 0 ? "profile" : text_base_name(title);
	if (profile->sample_type_count == 0)
		return error_set(err, -EINVAL, "the profile has no values");
	int r = pack(profile, title, NULL, columns_max, &data, &why);
	if (r == -E2BIG)
		r = pack(profile, title, why.message, columns_max, &data, err);
	else if (r < 0)
		return error_set(err, r, "%s", why.message);
	return r < 0 ? r : put_page(title, &data, out, err);
}

int html_write(const struct profile *profile, const char *title, struct buffer *out, struct error *err)
{
	return html_write_within(profile, title, COLUMNS_BYTES_MAX, out, err);
}
