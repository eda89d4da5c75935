/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include "symbol/debuginfod.h"
__attribute__((weak)) int debuginfod_fetch(struct debuginfod *debuginfod, enum debuginfod_kind kind, const char *build_id,
					   const char *path, const bool *cancel, int *ret_fd, bool *ret_cached,
					   struct error *err)
{
	return -ENOENT;
}
