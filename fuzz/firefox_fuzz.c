/* SPDX-License-Identifier: Apache-2.0 */
/* Firefox Profiler files, and what is written of them in the oldest version and the newest. */
#include "format_check.h"

#include "format/format_int.h"
#include "must.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const unsigned versions[] = {60, 75};
	struct profile *profile = NULL;
	if (format_firefox.decode((struct bytes){data, size}, NULL, &profile, NULL) < 0)
		return 0;
	for (size_t i = 0; i < sizeof(versions) / sizeof(versions[0]); i++) {
		struct format_options options = {.version = versions[i]};
		struct profile *back = NULL;
		struct buffer out;
		buffer_init(&out, LIMIT_PROFILE_FILE_BYTES);
		must(format_encode(&format_firefox, profile, &options, &out, NULL) == 0);
		must(format_firefox.decode(buffer_bytes(&out), NULL, &back, NULL) == 0);
		profile_free(back);
		buffer_release(&out);
	}
	check_formats(profile);
	profile_free(profile);
	return 0;
}
