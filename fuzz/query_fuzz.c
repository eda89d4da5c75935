/* SPDX-License-Identifier: Apache-2.0 */
/* A text is a query or not. If it is, its canonical form is a query too, and its own canonical form; and there is a plan. */
#include <stdlib.h>
#include <string.h>

#include "base/limits.h"
#include "query/pipeline_int.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_plan(const struct pipeline *pipeline)
{
	struct query_plan plan;
	struct buffer out;
	buffer_init(&out, SIZE_MAX);
	if (query_plan_make(pipeline, &plan, NULL) < 0 || query_plan_format(&plan, &out) < 0)
		abort();
	query_plan_release(&plan);
	buffer_release(&out);
}

static struct pipeline *parse(const char *text)
{
	struct pipeline *pipeline = NULL;
	struct error err = {0};
	int r = pipeline_parse(text, &pipeline, &err);
	/* A refusal says why. */
	if (r < 0 ? pipeline != NULL || !*err.message : pipeline == NULL)
		abort();
	return pipeline;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = strndup((const char *)data, size);
	if (!text)
		return 0;
	struct pipeline *pipeline = parse(text);
	if (pipeline) {
		struct buffer once, twice;
		buffer_init(&once, SIZE_MAX);
		buffer_init(&twice, SIZE_MAX);
		check_plan(pipeline);
		if (pipeline_format(pipeline, &once) < 0)
			abort();
		/* Escapes make it longer; only then it may pass the limit. */
		struct pipeline *again = once.len <= LIMIT_SELECTOR_BYTES ? parse(buffer_string(&once)) : NULL;
		if (again) {
			if (pipeline_format(again, &twice) < 0 || strcmp(buffer_string(&once), buffer_string(&twice)) != 0)
				abort();
			pipeline_free(again);
		} else if (once.len <= LIMIT_SELECTOR_BYTES) {
			abort();
		}
		buffer_release(&once);
		buffer_release(&twice);
	}
	pipeline_free(pipeline);
	free(text);
	return 0;
}
