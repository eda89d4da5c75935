/* SPDX-License-Identifier: Apache-2.0 */
#include "symbol/debuginfod.h"
#include <errno.h>
__attribute__((weak)) int debuginfod_fetch(struct debuginfod *debuginfod, enum debuginfod_kind kind, const char *build_id,
					   const char *path, const bool *cancel, int *ret_fd, bool *ret_cached,
					   struct error *err)
{
	return -ENOENT;
}
__attribute__((weak)) int debuginfod_new(const struct debuginfod_options *options, struct debuginfod **ret, struct error *err)
{
	*ret = 0;
	return 0;
}
__attribute__((weak)) struct debuginfod *debuginfod_free(struct debuginfod *debuginfod)
{
	return 0;
}
__attribute__((weak)) void debuginfod_get_stats(struct debuginfod *debuginfod, struct debuginfod_stats *ret)
{
	*ret = (struct debuginfod_stats){0};
}
