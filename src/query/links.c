/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Conditions on the span or trace that samples belong to: __span_id__ and __trace_id__, which look like labels and are none.
 *
 * Ids are random, and there are as many as requests were served: as labels each would make a series. They are stored by sample,
 * and the store looks for given ones only. So a regular expression is no expression here but a list, "id|id|id", as a variable
 * of several values in Grafana writes it, in parentheses or not; ".+" and ".*", which such a variable writes for all, are
 * known.
 */
#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "base/order.h"
#include "base/text.h"
#include "query/query_int.h"

static const struct {
	const char *name;
	enum store_link_part part;
	size_t digits;
} link_labels[] = {{"__span_id__", STORE_SPAN_ID, 16}, {"__trace_id__", STORE_TRACE_ID, 32}};
#define LINK_LABELS (sizeof(link_labels) / sizeof(*link_labels))

static size_t link_label_at(const char *name)
{
	size_t i = 0;
	while (i < LINK_LABELS && strcmp(link_labels[i].name, name) != 0)
		i++;
	return i;
}

bool link_label_is(const char *name)
{
	return link_label_at(name) < LINK_LABELS;
}

static int parse_id(size_t label, struct bytes text, struct store_id *ret, struct error *err)
{
	static const struct store_id none;
	_cleanup_(buffer_release) struct buffer id = {.max = sizeof(ret->bytes)};
	*ret = none;
	if (text.len == 0) /* of samples that have none */
		return 0;
	if (text.len == link_labels[label].digits && text_parse_hex(text, &id) == 0)
		memcpy(ret->bytes, id.data, id.len);
	if (memcmp(ret, &none, sizeof(none)) != 0)
		return 0;
	return error_set(err, -EINVAL, "query: %s: '%.*s' is not an id of %zu hexadecimal digits, not all of them 0",
			 link_labels[label].name, (int)(text.len < 40 ? text.len : 40), (const char *)text.data,
			 link_labels[label].digits);
}

DEFINE_ORDER(compare_ids, struct store_id, memcmp(a, b, sizeof(*a)));

static int parse_list(size_t label, const char *text, struct link_ids *ret, struct error *err)
{
	size_t len = strlen(text), count = 1;
	if (len >= 2 && text[0] == '(' && text[len - 1] == ')') {
		text++;
		len -= 2;
	}
	for (size_t i = 0; i < len; i++)
		count += text[i] == '|';
	ret->ids = mem_alloc_array(count, sizeof(*ret->ids));
	if (!ret->ids)
		return error_nomem(err);
	int r = 0;
	for (const char *at = text, *end = text + len; !r && ret->count < count;) {
		const char *bar = memchr(at, '|', (size_t)(end - at));
		size_t id_len = (size_t)((bar ? bar : end) - at);
		r = parse_id(label, (struct bytes){(const uint8_t *)at, id_len}, &ret->ids[ret->count], err);
		ret->count += r == 0;
		at += id_len + 1;
	}
	sort_array(ret->ids, ret->count, compare_ids);
	return r;
}

int link_ids_parse(const char *name, enum pattern_operator op, const char *text, struct link_ids *ret, struct error *err)
{
	size_t label = link_label_at(name);
	bool list = op == PATTERN_REGEX || op == PATTERN_NOT_REGEX, negate = op == PATTERN_NOT_EQUAL || op == PATTERN_NOT_REGEX;
	*ret = (struct link_ids){.part = link_labels[label].part, .negate = negate};
	if (list && strcmp(text, ".*") == 0) { /* none of no ids: every sample */
		ret->negate = !negate;
		return 0;
	}
	if (list && strcmp(text, ".+") == 0) { /* another one than none */
		ret->negate = !negate;
		text = "";
	}
	int r = 0;
	if (list) {
		r = parse_list(label, text, ret, err);
	} else {
		ret->ids = mem_alloc(sizeof(*ret->ids));
		r = ret->ids ? parse_id(label, (struct bytes){(const uint8_t *)text, strlen(text)}, ret->ids, err)
			     : error_nomem(err);
		ret->count = r == 0;
	}
	if (r < 0)
		link_ids_release(ret);
	return r;
}

void link_ids_release(struct link_ids *ids)
{
	mem_free(ids->ids);
	*ids = (struct link_ids){0};
}
