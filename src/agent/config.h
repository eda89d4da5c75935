/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The agent's configuration file: YAML.
 *
 *     server: http://profiles.example:7070
 *     frequency: 19
 *     min_frequency: 5
 *     runtimes: python
 *     listen: 127.0.0.1:7071
 *     labels: {env: prod}
 *     host_labels: {zone: eu-1a}
 *     debuginfo: {upload: true, rate: 1MiB, file_size: 2GiB}
 *     spool: {directory: /var/lib/wick-agent, size: 256MiB, age: 24h}
 *     remote_record: true
 *     markers: false
 *     relabel_configs:
 *       - source_labels: [process_executable_name]
 *         regex: node_exporter|cron
 *         action: drop
 */
#ifndef WICK_AGENT_CONFIG_H
#define WICK_AGENT_CONFIG_H

#include "base/arena.h"
#include "base/buffer.h"
#include "profile/labels.h"
#include "profile/relabel.h"

#define AGENT_DEBUGINFO_RATE_MIN 1024 /* bytes a second */
#define AGENT_SPOOL_BYTES_MIN	 (1024 * 1024)

struct agent_config {
	/* NULL, 0: not in the file */
	const char *server, *token_file, *tenant, *event, *listen, *runtimes, *user;
	bool no_sandbox; /* sandbox: false */
	unsigned frequency_hz, frequency_least_hz;
	bool no_process_stats; /* process_stats: false */
	bool no_remote_record; /* remote_record: false */
	bool markers;	       /* markers: true */
	/* debuginfo: */
	bool no_debuginfo_upload; /* upload: false */
	uint64_t debuginfo_rate, debuginfo_file_bytes_max;
	/* spool: of what waits for the server */
	const char *spool_directory;
	uint64_t spool_bytes;
	int64_t spool_age_ns;
	struct labels labels, host_labels;
	struct relabel *relabel;
	struct arena arena; /* of the texts */
	struct buffer
		text; /* the file's, for those who read sections of their own: `export`; empty from agent_config_parse() */
};

/* Reads a file of at most 256 KiB. Whatever is not understood is -EINVAL and named with its line; a name that is not known,
 * with the one that is most like it. `ret` needs no initialisation; release it, also after a failure. */
int agent_config_load(const char *path, struct agent_config *ret, struct error *err);
/* The same from memory; name is for messages. */
int agent_config_parse(struct bytes text, const char *name, struct agent_config *ret, struct error *err);
void agent_config_release(struct agent_config *config); /* zeroed is enough */

#endif
