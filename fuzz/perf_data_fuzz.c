/* SPDX-License-Identifier: Apache-2.0 */
/* perf.data, files and pipes, and what is written of them. */
#include "format_check.h"

#include "base/buffer.h"
#include "format/format_int.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct profile *profile = NULL;
	struct buffer notes;
	buffer_init(&notes, 64 * KIB);
	struct format_options options = {.decompressed_max = 4 * MIB, .notes = &notes};
	if (format_perf_data.decode((struct bytes){data, size}, &options, &profile, NULL) == 0) {
		check_formats(profile);
		profile_free(profile);
	}
	buffer_release(&notes);
	return 0;
}
