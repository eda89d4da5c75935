/* SPDX-License-Identifier: Apache-2.0 */
/* Folded stacks. */
#include "format_check.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct profile *profile = NULL;
	format_detect((struct bytes){data, size});
	if (folded_decode((struct bytes){data, size}, NULL, &profile, NULL) == 0)
		check_formats(profile);
	profile_free(profile);
	return 0;
}
