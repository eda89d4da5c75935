/* SPDX-License-Identifier: Apache-2.0 */
/* Requests of Pyroscope's query service: the first byte says whether they come as JSON, and what they ask. Whatever was read is
 * texts that end, in lists that are not too long, and a failure says why. */
#include <string.h>

#include "base/limits.h"
#include "must.h"
#include "server/pyroscope/messages.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const struct pb_json_message *const calls[] = {&pyroscope_stacktraces_request, &pyroscope_select_series_request,
						      &pyroscope_spans_request, &pyroscope_label_values_request,
						      &pyroscope_diff_request};
#define CALLS (sizeof(calls) / sizeof(*calls))

static void check_list(const struct rpc_list *list)
{
	must(list->count <= PYROSCOPE_LIST_MAX && list->count <= list->capacity);
	for (size_t i = 0; i < list->count; i++)
		must(strlen(list->items[i]) <= 4 * MIB);
}

static int parse(struct pyroscope *p, struct bytes message, const struct pb_json_message *form, struct pyroscope_request *ret)
{
	struct error err = {0};
	int r = pyroscope_parse(p, message, form, ret, &err);
	must(r == 0 || (r < 0 && err.message[0]));
	if (r < 0)
		return r;
	must(ret->type && ret->selector && ret->name);
	const struct rpc_list *lists[] = {&ret->matchers, &ret->labels, &ret->profiles,
					  &ret->traces,	  &ret->spans,	&ret->call_site};
	for (size_t i = 0; i < sizeof(lists) / sizeof(*lists); i++)
		check_list(lists[i]);
	return 0;
}

static void check(struct bytes message, const struct pb_json_message *form)
{
	struct pyroscope p = {0};
	struct pyroscope_request request, side;
	arena_init(&p.arena, 4 * MIB);
	if (parse(&p, message, form, &request) == 0) {
		parse(&p, request.left, &pyroscope_stacktraces_request, &side);
		parse(&p, request.right, &pyroscope_stacktraces_request, &side);
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
		int r = pb_json_to_binary(rest, calls[call], &binary, &err);
		must(r == 0 || err.message[0]);
		if (r == 0)
			check(buffer_bytes(&binary), calls[call]);
		buffer_release(&binary);
		return 0;
	}
	check(rest, calls[call]);
	return 0;
}
