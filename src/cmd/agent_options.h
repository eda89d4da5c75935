/* SPDX-License-Identifier: Apache-2.0 */
/* The agent's options, as `wick agent` and `wick up` put them together from the command line and a configuration file. */
#ifndef WICK_CMD_AGENT_OPTIONS_H
#define WICK_CMD_AGENT_OPTIONS_H

#include "daemon/collector.h"

struct agent_config;
struct option_list;
/* What a configuration file says, where the command line says nothing: event is the text of --event, list that of --label.
 * *ret_labels becomes all labels. The file must outlive the agent. */
int apply_agent_config(const struct agent_config *config, const char *event, const struct option_list *list,
		       struct agent_options *ret, struct labels *ret_labels, struct error *err);

/* The same of labels of the host: list is that of --host-label. */
int apply_host_labels(const struct agent_config *config, const struct option_list *list, struct labels *ret, struct error *err);

/* Targets of the file's section `export`, then those of --export. The file must outlive them. */
struct export_config;
int read_targets(const struct agent_config *config, const char *path, const struct option_list *list, struct export_config *ret,
		 struct error *err);

/* Where what cannot be sent waits: the option, else the file, else $WICK_SPOOL, systemd's state directory, or
 * /var/lib/wick-agent for root; "off" and an empty WICK_SPOOL are none. */
void apply_spool_config(const struct agent_config *config, const char *option, struct collector_options *ret);

#endif
