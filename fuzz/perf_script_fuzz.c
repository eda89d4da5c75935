/* SPDX-License-Identifier: Apache-2.0 */
/* The text of perf script. */
#include "format_check.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	return check_format(&format_perf_script, (struct bytes){data, size});
}
