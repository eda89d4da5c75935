/* SPDX-License-Identifier: Apache-2.0 */
/* The first line is a selector, the rest label values to match it against. */
#include <stdlib.h>
#include <string.h>

#include "query/query.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = strndup((const char *)data, size);
	if (!text)
		return 0;
	char *value = strchr(text, '\n');
	if (value)
		*value++ = 0;
	struct selector *selector = NULL;
	if (selector_parse(text, &selector, NULL) == 0) {
		struct profile_type type = {.name = "a", .sample_type = "b"};
		struct labels labels = {0};
		if (value && labels_set(&labels, "a", value, NULL) == 0)
			labels_set(&labels, "b", "x", NULL);
		selector_matches(selector, &type, &labels);
		labels_release(&labels);
	}
	selector_free(selector);
	free(text);
	return 0;
}
