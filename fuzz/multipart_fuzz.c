/* SPDX-License-Identifier: Apache-2.0 */
/* Bodies of forms: the content type up to the first line feed, then the body. */
#include <string.h>

#include "base/alloc.h"
#include "codec/multipart.h"
#include "must.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const uint8_t *line = size ? memchr(data, '\n', size) : NULL;
	if (!line)
		return 0;
	char *type = mem_strndup((const char *)data, (size_t)(line - data));
	struct bytes body = {line + 1, (size_t)(data + size - line - 1)};
	struct multipart multipart;
	struct multipart_part part;
	int r = multipart_open(&multipart, type, body, NULL);
	while (r == 0 && (r = multipart_next(&multipart, &part, NULL)) > 0) {
		must(part.data.len < body.len && part.name.len < body.len);
		must(!part.data.len || (part.data.data > body.data && part.data.data + part.data.len < body.data + body.len));
		r = 0;
	}
	mem_free(type);
	return 0;
}
