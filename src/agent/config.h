/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The agent's configuration file: YAML.
 *
 *     server: http://profiles.example:7070
 *     frequency: 19
 *     labels: {env: prod}
 *     debuginfo: {upload: true, rate: 1MiB, file_size: 2GiB}
 *     relabel_configs:
 *       - source_labels: [process_executable_name]
 *         regex: node_exporter|cron
 *         action: drop
 */
#ifndef WICK_AGENT_CONFIG_H
#define WICK_AGENT_CONFIG_H

#include "agent/relabel.h"
#include "base/arena.h"
#include "profile/labels.h"

#define AGENT_DEBUGINFO_RATE_MIN 1024 /* bytes a second */

struct agent_config {
	/* NULL, 0: not in the file */
	const char *server, *token_file, *event;
	unsigned frequency_hz;
	bool no_process_stats; /* process_stats: false */
	/* debuginfo: */
	bool no_debuginfo_upload; /* upload: false */
	uint64_t debuginfo_rate, debuginfo_file_bytes_max;
	struct labels labels;
	struct relabel *relabel;
	struct arena arena; /* of the texts */
};

/* Reads a file of at most 256 KiB. Whatever is not understood is -EINVAL and named with its line; a name that is not known,
 * with the one that is most like it. `ret` needs no initialisation; release it, also after a failure. */
int agent_config_load(const char *path, struct agent_config *ret, struct error *err);
/* The same from memory; name is for messages. */
int agent_config_parse(struct bytes text, const char *name, struct agent_config *ret, struct error *err);
void agent_config_release(struct agent_config *config); /* zeroed is enough */

#endif
