/* SPDX-License-Identifier: Apache-2.0 */
/* pprof, plain or compressed. */
#include "format_check.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct format_options options = {.decompressed_max = 4 * MIB};
	struct profile *profile = NULL;
	if (format_decode(format_by_name("pprof"), (struct bytes){data, size}, &options, &profile, NULL) == 0)
		check_formats(profile);
	profile_free(profile);
	return 0;
}
