/* SPDX-License-Identifier: Apache-2.0 */
/* Targets in a configuration file: read, or refused with a reason. */
#include <stdlib.h>
#include <string.h>

#include "export/export.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct export_config config;
	struct error err = {0};
	int r = export_config_parse((struct bytes){data, size}, "fuzz", "export", size & 1, &config, &err);
	if (r < 0 && !err.message[0])
		abort();
	for (size_t i = 0; i < config.count && r == 0; i++)
		if (!config.targets[i].url || config.targets[i].kind >= EXPORT_KINDS)
			abort();
	export_config_release(&config);
	return 0;
}
