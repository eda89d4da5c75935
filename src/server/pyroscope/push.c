/* SPDX-License-Identifier: Apache-2.0 */
/*
 * push.v1.PusherService (github.com/grafana/pyroscope, api/push/v1/push.proto), by which Alloy and newer SDKs send:
 *
 *   PushRequest { 1 series[] { 1 labels[] { 1 name  2 value }  2 samples[] { 1 raw_profile  2 ID } } }  ->  (empty)
 *
 * raw_profile is a pprof, compressed or not (ingest/ingest_pprof.c). The label __name__ is the first part of the profile type
 * ("process_cpu"; "godeltaprof_memory" is "memory"); other names that begin with two underscores are between a client and
 * Pyroscope (__delta__, __session_id__, __period_type__ ...) and no labels of the series. ID tells profiles apart for whoever
 * logs them; here equal bytes do.
 *
 * One call is stored profile by profile. A client whose call fails sends all of it again, and those that were stored already
 * are recognised.
 */
#include <errno.h>
#include <string.h>

#include "base/limits.h"
#include "base/text.h"
#include "codec/protobuf.h"
#include "format/format.h"
#include "server/http/rpc.h"
#include "server/ingest/ingest_int.h"

static const struct pb_json_message label_pair =
	PB_JSON_MESSAGE_OF("LabelPair", {"name", 1, PB_JSON_STRING}, {"value", 2, PB_JSON_STRING});
static const struct pb_json_message raw_sample =
	PB_JSON_MESSAGE_OF("RawSample", {"rawProfile", 1, PB_JSON_BYTES}, {"ID", 2, PB_JSON_STRING});
static const struct pb_json_message raw_series =
	PB_JSON_MESSAGE_OF("RawProfileSeries", {"labels", 1, PB_JSON_MESSAGE, .repeated = true, .message = &label_pair},
			   {"samples", 2, PB_JSON_MESSAGE, .repeated = true, .message = &raw_sample});
static const struct pb_json_message push_request =
	PB_JSON_MESSAGE_OF("PushRequest", {"series", 1, PB_JSON_MESSAGE, .repeated = true, .message = &raw_series});
static const struct pb_json_message push_answer = {"PushResponse", NULL, 0};

/* One of a series' labels: to `labels`, or its __name__ to `name`. */
static int take_label(struct pb_cursor *outer, struct bytes message, struct labels *labels, struct buffer *name,
		      struct error *err)
{
	struct bytes texts[3] = {0};
	struct pb_field field;
	struct pb_cursor cursor = pb_open_nested(outer, message);
	int r;
	while ((r = pb_next(&cursor, &field, err)) > 0)
		if (field.number <= 2 && field.wire == PB_BYTES)
			texts[field.number] = field.bytes;
	if (r < 0)
		return r;
	_cleanup_(buffer_release) struct buffer text = {.max = LIMIT_LABEL_VALUE_BYTES * 3 + 1};
	char key[LIMIT_LABEL_NAME_BYTES];
	if (bytes_equal_string(texts[1], "__name__")) {
		buffer_clear(name);
		if (texts[2].len > PROFILE_TYPE_TEXT_MAX)
			return error_set(err, -EBADMSG, "the label __name__ is longer than %d bytes", PROFILE_TYPE_TEXT_MAX);
		return buffer_append(name, texts[2].data, texts[2].len) < 0 ? error_nomem(err) : 0;
	}
	if (texts[1].len >= 2 && memcmp(texts[1].data, "__", 2) == 0)
		return 0;
	label_name_sanitize(texts[1], key);
	struct bytes value = {texts[2].data, text_cut(texts[2], LIMIT_LABEL_VALUE_BYTES)};
	r = text_append_utf8(&text, value);
	buffer_truncate(&text, text_cut(buffer_bytes(&text), LIMIT_LABEL_VALUE_BYTES)); /* what is no UTF-8 has become longer */
	const char *string = r < 0 ? NULL : buffer_string(&text);
	return string ? labels_set(labels, key, string, err) : error_nomem(err);
}

struct series {
	struct labels labels;
	struct buffer name;
};

static void series_release(struct series *series)
{
	labels_release(&series->labels);
	buffer_release(&series->name);
}

/* set: the message at hand is a Parca LabelSet and not the series itself. */
static int read_labels(struct pb_cursor *outer, struct bytes message, bool set, struct series *series, struct error *err)
{
	struct pb_field field;
	struct pb_cursor cursor = pb_open_nested(outer, message);
	int r;
	while ((r = pb_next(&cursor, &field, err)) > 0) {
		if (field.number != 1)
			continue;
		r = pb_expect(&cursor, &field, PB_BYTES, "RawProfileSeries.labels", err);
		if (!r && set)
			r = read_labels(&cursor, field.bytes, false, series, err);
		else if (!r)
			r = take_label(&cursor, field.bytes, &series->labels, &series->name, err);
		if (r < 0)
			return r;
	}
	return r;
}

/* Addresses that are as linked already, whatever the mappings say. */
static void take_as_linked(struct profile *profile)
{
	for (size_t i = 1; i < profile->mapping_count; i++)
		profile_mapping_set_linked(&profile->mappings[i]);
}

static int store_sample(const struct raw_series *form, struct ingest *ingest, struct series *series, struct pb_cursor *outer,
			struct bytes message, size_t index, struct error *err)
{
	struct bytes raw;
	int r = pb_find_bytes(outer, message, 1, &raw, err);
	if (r < 0)
		return r;
	_cleanup_(profile_freep) struct profile *profile = NULL;
	struct format_options options = {.input_name = "raw_profile"};
	r = format_decode(format_by_name("pprof"), raw, &options, &profile, err);
	if (r < 0)
		return r == -EINVAL ? -EBADMSG : r;
	if (form->normalized)
		take_as_linked(profile);
	const char *name = series->name.len ? buffer_string(&series->name) : NULL;
	if (form->of_pyroscope) {
		name = ingest_pprof_name(name);
		r = ingest_take_pprof(profile, name, err);
	}
	return r < 0 ? r : ingest_store_next(ingest, profile, name, &series->labels, index, err);
}

static int push_series(const struct raw_series *form, struct ingest *ingest, struct pb_cursor *outer, struct bytes message,
		       size_t *index, struct error *err)
{
	_cleanup_(series_release) struct series series = {.name.max = PROFILE_TYPE_TEXT_MAX + 1};
	struct pb_field field;
	struct error problem = {0};
	int r = read_labels(outer, message, form->label_sets, &series, &problem);
	if (r == -E2BIG) { /* names and values were cut: there are too many. Other series are as they are */
		ingest->note.reason = REFUSED_LABELS;
		ingest_reject(ingest, &problem);
		return 0;
	}
	if (r < 0)
		return error_set(err, r, "%s", problem.message);
	struct pb_cursor cursor = pb_open_nested(outer, message);
	while (!r && (r = pb_next(&cursor, &field, err)) > 0) {
		r = 0;
		if (field.number != 2)
			continue;
		r = pb_expect(&cursor, &field, PB_BYTES, "RawProfileSeries.samples", err);
		if (!r)
			r = store_sample(form, ingest, &series, &cursor, field.bytes, (*index)++, err);
	}
	return r;
}

static int push_all(const struct raw_series *form, struct ingest *ingest, struct bytes request, struct error *err)
{
	struct pb_field field;
	size_t index = 0;
	struct pb_cursor cursor = pb_open(request);
	int r;
	while ((r = pb_next(&cursor, &field, err)) > 0) {
		if (field.number != form->field)
			continue;
		r = pb_expect(&cursor, &field, PB_BYTES, form->what, err);
		if (!r)
			r = push_series(form, ingest, &cursor, field.bytes, &index, err);
		if (r < 0)
			break;
	}
	return ingest_finish_all(ingest, r, form->what, err);
}

int ingest_raw_series(const struct raw_series *form, struct rpc_call *call, struct bytes request, struct error *err)
{
	struct ingest ingest;
	int r = ingest_begin(&ingest, call->server, call->request, request, err);
	if (!r)
		r = push_all(form, &ingest, request, err);
	ingest_count(&ingest, r);
	if (r < 0)
		refusal_headers(call->response, r, &ingest.note);
	else
		ingest_warn(&ingest, call->response);
	return r;
}

static int push(struct rpc_call *call, struct bytes request, struct buffer *out, struct error *err)
{
	static const struct raw_series form = {.field = 1, .what = "PushRequest.series", .of_pyroscope = true};
	return ingest_raw_series(&form, call, request, err);
}

const struct rpc_method rpc_pyroscope_push[] = {
	{INGEST_PUSH_PATH, PERMIT_WRITE, &push_request, &push_answer, push, 0},
	{0},
};
