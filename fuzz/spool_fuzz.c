/* SPDX-License-Identifier: Apache-2.0 */
/* Files of the spool: what is taken for a record is written again as it was. */
#include <stdlib.h>
#include <string.h>

#include "export/spool_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct spool_meta meta;
	struct bytes payload;
	struct error err = {0};
	struct buffer again;
	int r = spool_record_parse((struct bytes){data, size}, &meta, &payload, &err);
	if (r < 0 && !err.message[0])
		abort();
	if (r < 0)
		return 0;
	buffer_init(&again, SPOOL_FILE_BYTES_MAX);
	if (spool_record_head(&meta, payload, &again, &err) < 0 || buffer_append(&again, payload.data, payload.len) < 0)
		abort();
	/* Eight bytes of the header have no meaning yet, and its checksum covers them. */
	if (again.len != size || memcmp(again.data, data, 48) != 0 || memcmp(again.data + 64, data + 64, size - 64) != 0)
		abort();
	buffer_release(&again);
	return 0;
}
