/* SPDX-License-Identifier: Apache-2.0 */
/* Files of saved queries: read, or refused with a reason; what was read gives a query with any values. */
#include <stdlib.h>
#include <string.h>

#include "query/pipeline.h"
#include "server/saved/saved.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char *value_of(void *context, const char *name)
{
	(void)name;
	return context;
}

/* Texts become one word each, so the query stays one, unless a value is not of its type. */
static void check_values(const struct saved_query *query, const char *value)
{
	_cleanup_(buffer_release) struct buffer text = {.max = SIZE_MAX};
	_cleanup_(pipeline_freep) struct pipeline *pipeline = NULL;
	struct error err = {0};
	if (saved_query_expand(query, value_of, (void *)value, 1000000000, &text, &err) < 0) {
		if (!err.message[0])
			abort();
		return;
	}
	if (pipeline_parse(buffer_string(&text), &pipeline, &err) < 0 && !err.message[0])
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	_cleanup_(saved_query_freep) struct saved_query *query = NULL;
	struct error err = {0};
	int r = saved_query_read((struct bytes){data, size}, "fuzz", &query, &err);
	if ((r < 0) != (err.message[0] != 0) || (r < 0) != (query == NULL))
		abort();
	if (r == 0) {
		check_values(query, "");
		check_values(query, "7");
		check_values(query, "\"} | \\");
	}
	return 0;
}
