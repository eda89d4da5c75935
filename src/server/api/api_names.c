/* SPDX-License-Identifier: Apache-2.0 */
/* The catalogue: types, labels, values, services, cardinality. All of it is answered from indexes. */
#include <errno.h>
#include <string.h>

#include "base/limits.h"
#include "base/order.h"
#include "base/text.h"
#include "base/time.h"
#include "server/api/api_int.h"

#define VALUES_LIMIT_DEFAULT   100
#define SERVICES_LIMIT_DEFAULT 1000
#define SERVICES_MAX	       10000
#define SERVICE_LABEL	       "service_name"
#define CARDINALITY_LABELS     10
#define CARDINALITY_VALUES     10

static void write_item(struct json_writer *json, const char *item, const struct query_name *name, bool values)
{
	json_member_cstring(json, item, name->name);
	json_member_uint(json, "series", name->series);
	json_member_uint(json, "samples", name->samples);
	if (values)
		json_member_uint(json, "values", name->values);
	if (name->hosts)
		json_member_uint(json, "hosts", name->hosts);
	json_member_int(json, "first_ms", name->first_ns / NS_PER_MS);
	json_member_int(json, "last_ms", name->last_ns / NS_PER_MS);
}

/* What the page shows beside a type's name: what values are, and what becomes of those of a range. */
static void write_type(struct json_writer *json, const struct query_name *name)
{
	struct profile_type type;
	if (profile_type_parse(name->name, &type, NULL) < 0)
		return;
	const char *text = profile_type_describe(&type);
	json_member_cstring(json, "aggregation", profile_type_is_gauge(&type) ? "average" : "sum");
	if (text)
		json_member_cstring(json, "description", text);
}

static int write_names(struct call *call, const char *list, const char *item, const struct query_names *names,
		       struct error *err)
{
	struct json_writer json = call_json(call);
	json_begin_object(&json);
	/* How the server reads a relative range: with first_ms, whether it begins before there is data. */
	call_write_range(call, &json);
	json_member_array(&json, list);
	for (size_t i = 0; i < names->count; i++) {
		json_begin_object(&json);
		write_item(&json, item, &names->items[i], strcmp(list, "labels") == 0);
		if (strcmp(list, "types") == 0)
			write_type(&json, &names->items[i]);
		json_end_object(&json);
	}
	json_end_array(&json);
	json_member_uint(&json, "total", names->count_before_limit);
	call_write_partial(call, NULL, &json);
	json_end_object(&json);
	return json_finish(&json, err);
}

static int answer_types(struct call *call, struct error *err)
{
	_cleanup_(query_names_release) struct query_names names = {0};
	int r = query_types(call->tenant->store, &call->query, &names, &call->stats, err);
	return r < 0 ? r : write_names(call, "types", "name", &names, err);
}

static int answer_labels(struct call *call, struct error *err)
{
	_cleanup_(query_names_release) struct query_names names = {0};
	int r = query_label_names(call->tenant->store, &call->query, &names, &call->stats, err);
	return r < 0 ? r : write_names(call, "labels", "name", &names, err);
}

/* The label of /api/v1/label/NAME/values, or of the parameter. */
static int label_of_path(const struct call *call, char name[LIMIT_LABEL_NAME_BYTES], struct error *err)
{
	static const char prefix[] = "/api/v1/label/", suffix[] = "/values";
	const char *path = net_request_path(call->request);
	const char *text = call_parameter(call, "label", "");
	size_t len = strlen(text);
	if (text_starts_with(path, prefix)) {
		text = path + sizeof(prefix) - 1;
		len = strlen(text);
		if (!text_ends_with(text, suffix))
			return error_set(err, -ENOENT,
					 "no such path: %.200s; /api/v1/label/NAME/values lists the values of a label", path);
		len -= sizeof(suffix) - 1;
	}
	if (len == 0)
		return error_set(err, -EINVAL, "parameter 'label' is missing: give the label whose values to list");
	if (len >= LIMIT_LABEL_NAME_BYTES)
		return error_set(err, -EINVAL, "the label name is too long");
	memcpy(name, text, len);
	name[len] = 0;
	return 0;
}

static int answer_values(struct call *call, struct error *err)
{
	char label[LIMIT_LABEL_NAME_BYTES];
	_cleanup_(query_names_release) struct query_names names = {0};
	int r = label_of_path(call, label, err);
	uint64_t limit = r < 0 ? 0 : call_count(call, "limit", VALUES_LIMIT_DEFAULT, 0);
	if (!r)
		r = call->failed;
	if (!r)
		r = query_label_values(call->tenant->store, &call->query, label, net_request_query(call->request, "prefix"),
				       (size_t)limit, &names, &call->stats, err);
	return r < 0 ? r : write_names(call, "values", "value", &names, err);
}

/* ---- services ---- */

static int compare_last_seen(const void *left, const void *right)
{
	const struct query_name *a = left, *b = right;
	return ORDER(b->last_ns, a->last_ns) ?: strcmp(a->name, b->name);
}

static void write_rate(struct json_writer *json, const struct query_series *series, const char *label, const char *name)
{
	for (size_t i = 0; i < series->count; i++) {
		const char *value = labels_get(&series->rows[i].labels, label);
		if (!value || strcmp(value, name) != 0)
			continue;
		json_member_double(json, "rate", query_series_value(series, series->rows[i].total));
		return;
	}
}

static int write_services(struct call *call, const char *label, const struct query_names *names,
			  const struct query_series *series, struct error *err)
{
	char unit[QUERY_UNIT_MAX];
	struct json_writer json = {.out = &call->response->body};
	json_begin_object(&json);
	json_member_cstring(&json, "label", label);
	call_write_range(call, &json);
	if (series->count)
		json_member_cstring(&json, "unit", query_series_unit(series, unit));
	else
		json_member_null(&json, "unit");
	json_member_array(&json, "services");
	for (size_t i = 0; i < names->count; i++) {
		json_begin_object(&json);
		write_item(&json, "name", &names->items[i], false);
		write_rate(&json, series, label, names->items[i].name);
		json_end_object(&json);
	}
	json_end_array(&json);
	json_member_uint(&json, "total", names->count_before_limit);
	call_write_partial(call, NULL, &json);
	json_end_object(&json);
	return json_finish(&json, err);
}

/* Rates are of one profile type; a selection of several has names and times only. */
static int answer_services(struct call *call, struct error *err)
{
	const char *label = call_parameter(call, "label", SERVICE_LABEL);
	uint64_t limit = call_count(call, "limit", SERVICES_LIMIT_DEFAULT, SERVICES_MAX);
	_cleanup_(query_names_release) struct query_names names = {0};
	_cleanup_(query_series_release) struct query_series series = {0};
	struct query_series_options options = {.whole = true, .by = &label, .by_count = 1, .limit = SERVICES_MAX, .rate = true};
	int r = call->failed;
	if (!r)
		r = query_label_values(call->tenant->store, &call->query, label, net_request_query(call->request, "prefix"),
				       (size_t)limit, &names, &call->stats, err);
	if (r < 0)
		return r;
	struct error ignored = {0};
	r = query_series(call->tenant->store, call->tenant->symbolizer, &call->query, &options, &series, &call->stats,
			 &ignored);
	if (r < 0 && r != -EINVAL)
		return error_set(err, r, "%s", ignored.message);
	sort_array(names.items, names.count, compare_last_seen);
	return write_services(call, label, &names, &series, err);
}

/* ---- cardinality ---- */

static int compare_values(const void *left, const void *right)
{
	const struct query_name *a = left, *b = right;
	return ORDER(b->values, a->values) ?: strcmp(a->name, b->name);
}

static int compare_series(const void *left, const void *right)
{
	const struct query_name *a = left, *b = right;
	return ORDER(b->series, a->series) ?: strcmp(a->name, b->name);
}

static int write_label(struct call *call, const struct query_name *label, size_t limit, struct json_writer *json,
		       struct error *err)
{
	_cleanup_(query_names_release) struct query_names values = {0};
	int r = query_label_values(call->tenant->store, &call->query, label->name, "", limit, &values, &call->stats, err);
	if (r < 0)
		return r;
	sort_array(values.items, values.count, compare_series);
	json_member_array(json, "top");
	for (size_t i = 0; i < values.count; i++) {
		json_begin_object(json);
		write_item(json, "value", &values.items[i], false);
		json_end_object(json);
	}
	json_end_array(json);
	return 0;
}

static int write_cardinality(struct call *call, struct query_names *types, struct query_names *labels, size_t limit,
			     struct json_writer *json, struct error *err)
{
	uint64_t series = 0, samples = 0;
	int r = 0;
	for (size_t i = 0; i < types->count; i++) {
		series += types->items[i].series;
		samples += types->items[i].samples;
	}
	json_begin_object(json);
	call_write_range(call, json);
	json_member_uint(json, "series", series);
	json_member_uint(json, "samples", samples);
	json_member_uint(json, "types", types->count);
	json_member_array(json, "labels");
	for (size_t i = 0; i < labels->count && !r; i++) {
		json_begin_object(json);
		write_item(json, "name", &labels->items[i], true);
		if (i < CARDINALITY_LABELS)
			r = write_label(call, &labels->items[i], limit, json, err);
		json_end_object(json);
	}
	json_end_array(json);
	call_write_partial(call, NULL, json);
	json_end_object(json);
	return r;
}

/* Which labels make how many series: the labels of most values first, with the values that most series have. */
static int answer_cardinality(struct call *call, struct error *err)
{
	uint64_t limit = call_count(call, "limit", CARDINALITY_VALUES, VALUES_LIMIT_DEFAULT);
	_cleanup_(query_names_release) struct query_names types = {0}, labels = {0};
	int r = call->failed;
	call->query.own_labels = true;
	if (!r)
		r = query_types(call->tenant->store, &call->query, &types, &call->stats, err);
	if (!r)
		r = query_label_names(call->tenant->store, &call->query, &labels, &call->stats, err);
	if (r < 0)
		return r;
	sort_array(labels.items, labels.count, compare_values);
	struct json_writer json = {.out = &call->response->body};
	r = write_cardinality(call, &types, &labels, (size_t)limit, &json, err);
	return r < 0 ? r : json_finish(&json, err);
}

/* ---- handlers ---- */

CALL_HANDLER(api_types, answer_types)
CALL_HANDLER(api_labels, answer_labels)
CALL_HANDLER(api_label_values, answer_values)
CALL_HANDLER(api_services, answer_services)
CALL_HANDLER(api_cardinality, answer_cardinality)
