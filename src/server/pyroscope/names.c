/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The catalogue for Pyroscope's clients: profile types, label names and values, series. Several matchers are alternatives, and
 * no range means all of time: these answers come from indexes, which are small.
 */
#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "base/limits.h"
#include "base/order.h"
#include "base/text.h"
#include "base/time.h"
#include "server/pyroscope/pyroscope_int.h"

#define NAMES_BYTES_MAX (64 * MIB)
#define SETS_MAX	100000
#define MATCHERS_MAX	64

static int set_range(struct pyroscope *p, const struct pyroscope_request *in, struct error *err)
{
	if (in->start < 0 || in->end < 0 || in->start > INT64_MAX / NS_PER_MS || in->end >= INT64_MAX / NS_PER_MS - 1)
		return error_set(err, -EINVAL, "invalid time range in the query: times are milliseconds since 1970");
	if (in->end && in->start > in->end)
		return error_set(err, -EINVAL, "invalid time range in the query: the start is after the end");
	if (in->matchers.count > MATCHERS_MAX)
		return error_set(err, -EINVAL, "more than %d matchers", MATCHERS_MAX);
	p->query.from_ns = in->start * NS_PER_MS;
	p->query.to_ns = in->end ? (in->end + 1) * NS_PER_MS : time_now_ns() + STORE_FUTURE_NS;
	return 0;
}

static const char *matcher(const struct pyroscope_request *in, size_t i)
{
	return in->matchers.count ? in->matchers.items[i] : "";
}

static size_t matcher_count(const struct pyroscope_request *in)
{
	return in->matchers.count ? in->matchers.count : 1;
}

/* ---- sets of names ---- */

void pyroscope_names_release(struct pyroscope_names *names)
{
	intern_release(&names->texts);
	mem_free(names->items);
	*names = (struct pyroscope_names){0};
}

int pyroscope_names_init(struct pyroscope_names *names, struct error *err)
{
	*names = (struct pyroscope_names){0};
	return intern_init(&names->texts, NAMES_BYTES_MAX) < 0 ? error_nomem(err) : 0;
}

int pyroscope_names_add(struct pyroscope_names *names, const char *text, struct error *err)
{
	uint32_t id;
	int r = intern_add_string(&names->texts, text, &id);
	return r == -E2BIG ? error_set(err, -EINVAL, "too many different names; narrow the selector or the time range")
	       : r < 0	   ? error_nomem(err)
			   : 0;
}

int pyroscope_names_finish(struct pyroscope_names *names, struct error *err)
{
	names->items = mem_alloc_array(names->texts.count, sizeof(*names->items));
	if (!names->items)
		return error_nomem(err);
	for (uint32_t i = 1; i < names->texts.count; i++) /* 0 is "" */
		names->items[names->count++] = intern_string(&names->texts, i);
	sort_array(names->items, names->count, text_compare);
	return 0;
}

static int begin_names(struct pyroscope *p, const struct pyroscope_request *in, struct pyroscope_names *ret, struct error *err)
{
	int r = pyroscope_names_init(ret, err);
	return r < 0 ? r : set_range(p, in, err);
}

/* ---- types, and the labels that stand for them ---- */

static int add_types(struct pyroscope *p, const char *label, struct pyroscope_names *to, struct error *err)
{
	_cleanup_(query_names_release) struct query_names found = {0};
	char text[PROFILE_TYPE_TEXT_MAX];
	int r = query_types(p->tenant->store, &p->query, &found, &p->stats, err);
	for (size_t i = 0; !r && i < found.count; i++) {
		struct profile_type type;
		r = profile_type_parse(found.items[i].name, &type, err);
		if (!r)
			r = pyroscope_names_add(to, query_type_label_value(label, &type, text), err);
	}
	return r;
}

int pyroscope_types(struct pyroscope *p, const struct pyroscope_request *in, struct pyroscope_names *ret, struct error *err)
{
	int r = begin_names(p, in, ret, err);
	p->query.selector = "";
	if (!r)
		r = add_types(p, "__profile_type__", ret, err);
	return r < 0 ? r : pyroscope_names_finish(ret, err);
}

static int add_label_names(struct pyroscope *p, struct pyroscope_names *to, struct error *err)
{
	_cleanup_(query_names_release) struct query_names found = {0};
	const char *name;
	int r = query_label_names(p->tenant->store, &p->query, &found, &p->stats, err);
	for (size_t i = 0; !r && i < found.count; i++) {
		r = pyroscope_names_add(to, found.items[i].name, err);
		if (!r && strcmp(found.items[i].name, "service_name") == 0)
			r = pyroscope_names_add(to, QUERY_SERVICE_NAME_ALIAS, err);
	}
	for (size_t i = 0; !r && found.count && (name = query_type_label_name(i)); i++)
		r = pyroscope_names_add(to, name, err);
	return r;
}

int pyroscope_label_names(struct pyroscope *p, const struct pyroscope_request *in, struct pyroscope_names *ret,
			  struct error *err)
{
	int r = begin_names(p, in, ret, err);
	for (size_t i = 0; !r && i < matcher_count(in); i++) {
		p->query.selector = matcher(in, i);
		r = add_label_names(p, ret, err);
	}
	return r < 0 ? r : pyroscope_names_finish(ret, err);
}

static int add_label_values(struct pyroscope *p, const char *label, struct pyroscope_names *to, struct error *err)
{
	_cleanup_(query_names_release) struct query_names found = {0};
	int r = query_label_values(p->tenant->store, &p->query, label, "", 0, &found, &p->stats, err);
	for (size_t i = 0; !r && i < found.count; i++)
		r = pyroscope_names_add(to, found.items[i].name, err);
	return r;
}

int pyroscope_label_values(struct pyroscope *p, const struct pyroscope_request *in, struct pyroscope_names *ret,
			   struct error *err)
{
	char text[PROFILE_TYPE_TEXT_MAX];
	static const struct profile_type none;
	const char *label = strcmp(in->name, QUERY_SERVICE_NAME_ALIAS) == 0 ? "service_name" : in->name;
	int r = begin_names(p, in, ret, err);
	if (!r && !*in->name)
		r = error_set(err, -EINVAL, "the label name is missing");
	for (size_t i = 0; !r && i < matcher_count(in); i++) {
		p->query.selector = matcher(in, i);
		r = query_type_label_value(label, &none, text) ? add_types(p, label, ret, err)
							       : add_label_values(p, label, ret, err);
	}
	return r < 0 ? r : pyroscope_names_finish(ret, err);
}

/* ---- series ---- */

static int compare_sets(const void *left, const void *right)
{
	return labels_compare(left, right);
}

/* Takes over the sets. */
static int add_sets(struct query_label_sets *to, size_t *capacity, struct query_label_sets *from, struct error *err)
{
	int r = array_reserve(&to->items, capacity, to->count + from->count, 2 * SETS_MAX);
	if (r < 0)
		return r == -E2BIG ? error_set(err, -EINVAL, "more than %d series; request fewer labels", SETS_MAX)
				   : error_nomem(err);
	if (from->count)
		memcpy(to->items + to->count, from->items, from->count * sizeof(*from->items));
	to->count += from->count;
	from->count = 0;
	return 0;
}

static void drop_doubles(struct query_label_sets *sets)
{
	size_t kept = 0;
	sort_array(sets->items, sets->count, compare_sets);
	for (size_t i = 0; i < sets->count; i++) {
		if (kept && labels_compare(&sets->items[kept - 1], &sets->items[i]) == 0)
			labels_release(&sets->items[i]);
		else
			sets->items[kept++] = sets->items[i];
	}
	sets->count = kept;
}

int pyroscope_label_sets(struct pyroscope *p, const struct pyroscope_request *in, struct query_label_sets *ret,
			 struct error *err)
{
	const char *const *by = in->labels.count ? in->labels.items : NULL;
	size_t capacity = 0;
	*ret = (struct query_label_sets){0};
	int r = set_range(p, in, err);
	for (size_t i = 0; !r && i < matcher_count(in); i++) {
		_cleanup_(query_label_sets_release) struct query_label_sets found = {0};
		p->query.selector = matcher(in, i);
		r = query_label_sets(p->tenant->store, &p->query, by, in->labels.count, 0, &found, &p->stats, err);
		if (!r)
			r = add_sets(ret, &capacity, &found, err);
		if (!r && i > 0)
			drop_doubles(ret);
	}
	return r;
}
