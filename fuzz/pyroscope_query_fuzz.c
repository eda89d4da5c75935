/* SPDX-License-Identifier: Apache-2.0 */
/* Requests of Pyroscope's query service: the first byte says whether they come as JSON, and what they ask. Whatever was read is
 * texts that end, in lists that are not too long, and a failure says why. */
#include <string.h>

#include "base/limits.h"
#include "must.h"
#include "server/pyroscope/messages.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const struct pyroscope_layout series_layout = {{0, FIELD_TYPE, FIELD_SELECTOR, FIELD_START, FIELD_END, FIELD_LABELS,
						       FIELD_STEP, FIELD_AGGREGATION, FIELD_STACKS, FIELD_LIMIT,
						       FIELD_EXEMPLARS}};
static const struct pyroscope_layout spans_layout = {
	{0, FIELD_TYPE, FIELD_SELECTOR, FIELD_SPANS, FIELD_START, FIELD_END, FIELD_MAX_NODES, FIELD_FORMAT}};
static const struct pyroscope_layout names_layout = {{0, FIELD_NAME, FIELD_MATCHERS, FIELD_START, FIELD_END}};
static const struct pyroscope_layout diff_layout = {{0, FIELD_LEFT, FIELD_RIGHT}};

static const struct {
	const struct pyroscope_layout *layout;
	const struct pb_json_message *message;
} calls[] = {
	{&pyroscope_stacktraces_layout, &pyroscope_stacktraces_request},
	{&series_layout, &pyroscope_select_series_request},
	{&spans_layout, &pyroscope_spans_request},
	{&names_layout, &pyroscope_label_values_request},
	{&diff_layout, &pyroscope_diff_request},
};
#define CALLS (sizeof(calls) / sizeof(*calls))

static void check_list(const struct pyroscope_list *list)
{
	must(list->count <= PYROSCOPE_LIST_MAX && list->count <= list->capacity);
	for (size_t i = 0; i < list->count; i++)
		must(strlen(list->items[i]) <= 4 * MIB);
}

static int parse(struct pyroscope *p, struct bytes message, const struct pyroscope_layout *layout,
		 struct pyroscope_request *ret)
{
	struct error err = {0};
	int r = pyroscope_parse(p, message, layout, ret, &err);
	must(r == 0 || (r < 0 && err.message[0]));
	if (r < 0)
		return r;
	must(ret->type && ret->selector && ret->name);
	const struct pyroscope_list *lists[] = {&ret->matchers, &ret->labels, &ret->profiles,
						&ret->traces,	&ret->spans,  &ret->call_site};
	for (size_t i = 0; i < sizeof(lists) / sizeof(*lists); i++)
		check_list(lists[i]);
	return 0;
}

static void check(struct bytes message, const struct pyroscope_layout *layout)
{
	struct pyroscope p = {0};
	struct pyroscope_request request, side;
	arena_init(&p.arena, 4 * MIB);
	if (parse(&p, message, layout, &request) == 0) {
		parse(&p, request.left, &pyroscope_stacktraces_layout, &side);
		parse(&p, request.right, &pyroscope_stacktraces_layout, &side);
	}
	arena_release(&p.arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size == 0)
		return 0;
	struct bytes rest = {data + 1, size - 1};
	size_t call = (data[0] >> 1) % CALLS;
	if (data[0] & 1) {
		struct buffer binary;
		struct error err = {0};
		buffer_init(&binary, 4 * MIB);
		int r = pb_json_to_binary(rest, calls[call].message, &binary, &err);
		must(r == 0 || err.message[0]);
		if (r == 0)
			check(buffer_bytes(&binary), calls[call].layout);
		buffer_release(&binary);
		return 0;
	}
	check(rest, calls[call].layout);
	return 0;
}
