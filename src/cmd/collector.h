/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The collector: one agent with its symbols and its shipper, as `wick agent` and the agent half of `wick up` run it.
 */
#ifndef WICK_CMD_COLLECTOR_H
#define WICK_CMD_COLLECTOR_H

#include "agent/agent.h"

struct agent_config;
struct option_list;
/* What a configuration file says, where the command line says nothing: event is the text of --event, list that of --label.
 * *ret_labels becomes all labels. The file must outlive the agent. */
int apply_agent_config(const struct agent_config *config, const char *event, const struct option_list *list,
		       struct agent_options *ret, struct labels *ret_labels, struct error *err);

struct collector;
struct collector_options {
	struct agent_options agent;
	const char *url, *token;
	int link_fd; /* the agent's end of the link to the server on this machine; -1 = none; stays the caller's */
	/* Debug information is sent where there is no link: there the server is given the files themselves. */
	bool no_debuginfo_upload;
	uint64_t debuginfo_rate, debuginfo_file_bytes_max; /* 0 = as struct uploader_options */
};
/* Starts sampling. Drops all privileges but those that sampling needs. */
int collector_new(const struct collector_options *options, struct collector **ret, struct error *err);
/* Samples and sends until collector_stop(); then flushes and sends what is left for up to 3 s. */
int collector_run(struct collector *collector, struct error *err);
void collector_stop(void *collector); /* async-signal-safe */
struct collector *collector_free(struct collector *collector);
DEFINE_CLEANUP_POINTER(collector_free, struct collector);
void collector_get_stats(struct collector *collector, struct agent_stats *ret);

#endif
