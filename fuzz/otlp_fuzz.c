/* SPDX-License-Identifier: Apache-2.0 */
/* An OTLP request, all its profiles together as the server takes them, and joined into one as a file. */
#include "format_check.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct otlp_request request = {0};
	struct profile *profile = NULL;
	if (otlp_decode((struct bytes){data, size}, NULL, &request, NULL) == 0)
		for (size_t i = 0; i < request.count && i < 4; i++)
			check_formats(request.profiles[i]);
	otlp_request_release(&request);
	if (format_decode(format_by_name("otlp"), (struct bytes){data, size}, NULL, &profile, NULL) == 0)
		check_formats(profile);
	profile_free(profile);
	return 0;
}
