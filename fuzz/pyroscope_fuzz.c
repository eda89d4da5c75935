/* SPDX-License-Identifier: Apache-2.0 */
/* What Pyroscope's clients send: the first byte says which form. */
#include <string.h>

#include "base/alloc.h"
#include "format/pyroscope.h"
#include "must.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size == 0)
		return 0;
	struct bytes rest = {data + 1, size - 1};
	unsigned form = data[0] % 5;
	if (form < 4) {
		struct profile *profile = NULL;
		if (pyroscope_decode_stacks((enum pyroscope_stacks)form, rest, &profile, NULL) == 0)
			must(profile_total(profile, 0) >= 0 || profile->sample_count > 1);
		profile_free(profile);
		return 0;
	}
	char app[PYROSCOPE_NAME_MAX];
	struct labels labels = {0};
	char *text = mem_strndup((const char *)rest.data, rest.len);
	if (pyroscope_parse_name(text, app, &labels, NULL) == 0)
		must(strlen(app) > 0);
	labels_release(&labels);
	mem_free(text);
	return 0;
}
