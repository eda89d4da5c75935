/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include "elf/dwarf.h"
__attribute__((weak)) int dwarf_read(int fd, const struct dwarf_options *options, code_unit_sink sink, void *sink_context,
				     struct dwarf_result *ret, struct error *err)
{
	return -ENOENT;
}
