/* SPDX-License-Identifier: Apache-2.0 */
/* speedscope files, and what is written of them. */
#include "format_check.h"

#include "format/format_int.h"
#include "must.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct profile *profile = NULL, *back = NULL;
	struct buffer out;
	if (format_speedscope.decode((struct bytes){data, size}, NULL, &profile, NULL) < 0)
		return 0;
	buffer_init(&out, LIMIT_PROFILE_FILE_BYTES);
	must(format_encode(&format_speedscope, profile, NULL, &out, NULL) == 0);
	must(format_speedscope.decode(buffer_bytes(&out), NULL, &back, NULL) == 0);
	check_formats(profile);
	profile_free(back);
	profile_free(profile);
	buffer_release(&out);
	return 0;
}
