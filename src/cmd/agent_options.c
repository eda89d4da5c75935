/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd/agent_options.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/config.h"
#include "agent/host_facts.h"
#include "base/io.h"
#include "base/limits.h"
#include "cmd/cmd.h"
#include "export/export.h"

/* Those on the command line win. */
static int unite_labels(const struct labels *config, const char *option, const struct option_list *list, struct labels *ret,
			struct error *err)
{
	_cleanup_(labels_release) struct labels given = {0};
	int r = labels_copy(ret, config, err);
	if (!r)
		r = parse_labels(option, list, &given, err);
	for (size_t i = 0; i < given.count && !r; i++)
		r = labels_set(ret, given.items[i].name, given.items[i].value, err);
	return r;
}

int apply_host_labels(const struct agent_config *config, const struct option_list *list, struct labels *ret, struct error *err)
{
	int r = unite_labels(&config->host_labels, "--host-label", list, ret, err);
	if (!r && ret->count > LIMIT_HOST_LABELS - HOST_FACTS_MAX)
		return error_set(err, -EINVAL, "more than %u labels of the host", LIMIT_HOST_LABELS - HOST_FACTS_MAX);
	return r;
}

int apply_agent_config(const struct agent_config *config, const char *event, const struct option_list *list,
		       struct agent_options *ret, struct labels *ret_labels, struct error *err)
{
	int r = unite_labels(&config->labels, "--label", list, ret_labels, err);
	if (!r && !event)
		r = parse_event(config->event, &ret->cycles, err);
	if (!ret->frequency_hz)
		ret->frequency_hz = config->frequency_hz;
	if (!ret->frequency_least_hz)
		ret->frequency_least_hz = config->frequency_least_hz;
	ret->relabel = config->relabel;
	ret->process_stats = !config->no_process_stats;
	ret->cache_directory = unwind_cache_directory();
	return r;
}

int read_targets(const struct agent_config *config, const char *path, const struct option_list *list, struct export_config *ret,
		 struct error *err)
{
	int r = export_config_parse(buffer_bytes(&config->text), path ? path : "", "export", false, ret, err);
	for (size_t i = 0; i < list->count && !r; i++)
		r = export_config_add(ret, list->items[i], err);
	return r;
}

void apply_spool_config(const struct agent_config *config, const char *option, struct collector_options *ret)
{
	const char *given = option ? option : config->spool_directory;
	if (!given)
		given = getenv("WICK_SPOOL");
	static char below_state[4096];
	const char *state = getenv("STATE_DIRECTORY");
	if (!given && state && *state && io_join_path(below_state, sizeof(below_state), state, "spool") == 0)
		given = below_state;
	if (!given)
		given = geteuid() == 0 ? "/var/lib/wick-agent" : "off";
	ret->spool_directory = *given && strcmp(given, "off") != 0 ? given : NULL;
	ret->spool_bytes = config->spool_bytes;
	ret->spool_age_ns = config->spool_age_ns;
}
