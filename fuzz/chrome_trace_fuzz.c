/* SPDX-License-Identifier: Apache-2.0 */
/* Trace Event files. */
#include "format_check.h"

#include "format/format_int.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct profile *profile = NULL;
	format_chrome_trace.detect((struct bytes){data, size});
	if (format_chrome_trace.decode((struct bytes){data, size}, NULL, &profile, NULL) < 0)
		return 0;
	check_formats(profile);
	profile_free(profile);
	return 0;
}
