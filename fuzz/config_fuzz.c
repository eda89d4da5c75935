/* SPDX-License-Identifier: Apache-2.0 */
/* The agent's configuration file, and its rules applied to a set: whatever they say, values and numbers stay bounded. */
#include <stdlib.h>
#include <string.h>

#include "agent/config.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_rules(struct relabel *relabel)
{
	struct relabel_set set;

	relabel_set_init(&set);
	relabel_set_put(&set, "process.executable.name", "java");
	relabel_set_put(&set, "container.id", "3f4e1c9d7a5b2086f1e0d9c8b7a695847362514039281706f5e4d3c2b1a09f8e");
	relabel_set_put(&set, "process.pid", "42");
	relabel_set_put(&set, "env", "\xff\xfe");
	if (relabel_apply(relabel, &set, NULL) < 0)
		abort();
	for (size_t i = 0; i < set.count; i++) {
		if (!set.items[i].value[0] || strlen(set.items[i].value) > LIMIT_LABEL_VALUE_BYTES ||
		    strlen(set.items[i].name) >= LIMIT_LABEL_NAME_BYTES || strncmp(set.items[i].name, "__", 2) == 0)
			abort();
		for (size_t j = 0; j < i; j++) {
			if (strcmp(set.items[i].name, set.items[j].name) == 0)
				abort();
		}
	}
	relabel_touches(relabel, "host.name");
	relabel_set_release(&set);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct agent_config config;
	struct error err = {0};

	int r = agent_config_parse((struct bytes){data, size}, "fuzz", &config, &err);
	if (r < 0 && !err.message[0])
		abort();
	if (r == 0 && config.relabel)
		check_rules(config.relabel);
	agent_config_release(&config);
	return 0;
}
