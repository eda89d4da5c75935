/* SPDX-License-Identifier: Apache-2.0 */
/* Files of DHAT. */
#include "format_check.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	return check_format(&format_dhat, (struct bytes){data, size});
}
