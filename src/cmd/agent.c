/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/agent.h"

#include <stdio.h>

#include "agent/config.h"
#include "base/descriptors.h"
#include "cmd/agent_options.h"
#include "cmd/cmd.h"
#include "cmd/service/service.h"
#include "daemon/collector.h"
#include "export/export.h"
#include "net/net.h"
#include "server/server.h"

static int run_agent(struct collector_options *options, const struct service_arguments *service_arguments,
		     const char *token_file, const struct labels *labels, struct error *err)
{
	_cleanup_(mem_freep) char *token = NULL; /* is read again by who uses it: what is wrong with it now is told at once */
	int r = token_file ? net_token_read(token_file, &token, err) : 0;
	if (r < 0)
		return r;
	options->token_file = token_file;
	options->agent.labels = labels;
	struct service service;
	descriptors_raise(); /* perf events of each CPU, a file of each process with markers */
	r = service_agent_prepare(service_arguments, NULL, options, &service, err);
	if (r == 0)
		r = service_agent_enter(&service, err);
	if (r < 0)
		return r;
	_cleanup_(collector_freep) struct collector *collector = NULL;
	r = collector_new(options, &collector, err);
	if (r < 0)
		return r;
	signals_install(collector_stop, collector, false);
	struct agent_stats stats;
	collector_get_stats(collector, &stats);
	const char *first = options->url ? options->url : options->targets[0].url;
	size_t others = options->target_count - !options->url;
	cmd_printf(stderr, "wick agent: sampling %llu CPUs at %u Hz (%s), sending to %s", (unsigned long long)stats.cpus_online,
		   stats.frequency_hz, stats.event, first);
	if (others)
		fprintf(stderr, " and %zu more", others);
	fprintf(stderr, "; Ctrl-C stops\n");
	r = collector_run(collector, err);
	collector_report(collector);
	return r;
}

/* Which server, and as whose. */
static int apply_server(const struct agent_config *config, struct collector_options *ret, struct error *err)
{
	if (!ret->url)
		ret->url = config->server;
	if (!ret->tenant)
		ret->tenant = config->tenant;
	return ret->tenant ? tenant_name_check(ret->tenant, err) : 0;
}

/* What it does besides sampling. */
static void apply_services(const struct agent_config *config, struct collector_options *ret, struct service_arguments *service)
{
	if (!service->user)
		service->user = config->user;
	service->no_sandbox |= config->no_sandbox;
	ret->no_debuginfo_upload |= config->no_debuginfo_upload;
	ret->no_remote_record |= config->no_remote_record;
	ret->markers |= config->markers;
	ret->debuginfo_rate = config->debuginfo_rate;
	ret->debuginfo_file_bytes_max = config->debuginfo_file_bytes_max;
	if (!ret->listen)
		ret->listen = config->listen;
}

/* Where else to, and where it waits. */
static int apply_targets(const struct agent_config *config, const char *config_file, const struct option_list *exports,
			 const char *spool, struct export_config *targets, struct collector_options *ret, struct error *err)
{
	int r = read_targets(config, config_file, exports, targets, err);
	ret->targets = targets->targets;
	ret->target_count = targets->count;
	apply_spool_config(config, spool, ret);
	return r;
}

static int parse_sampling(const char *event, const char *runtimes, const char *budget, const char *off_cpu,
			  struct agent_options *ret, struct error *err)
{
	int r = parse_event(event, &ret->cycles, err);
	if (r == 0)
		r = parse_runtimes("--runtimes", runtimes, &ret->no_runtimes, err);
	if (r == 0)
		r = parse_budget(budget, &ret->budget, err);
	return r < 0 ? r : parse_off_cpu(off_cpu, &ret->off_cpu_chance, &ret->off_cpu_least_ns, err);
}

int cmd_agent(int argc, char **argv)
{
	struct collector_options o = {.link_fd = -1};
	const char *token_file = NULL, *event = NULL, *runtimes = NULL, *config_file = NULL, *off_cpu = NULL, *budget = NULL,
		   *spool = NULL;
	struct option_list labels = {0}, host_labels = {0}, exports = {0};
	struct service_arguments service = {0};
	const struct option_row options[] = {
		{0, "server", "URL", OPTION_TEXT, &o.url,
		 .help = "where to send profiles: http://HOST:PORT (required\nhere or in the file)"},
		{0, "export", "KIND=URL", OPTION_LIST, &exports,
		 .help = "also send there (may be repeated); KIND: wick, otlp-grpc,\notlp-http, pyroscope, parca"},
		{0, "spool", "DIR", OPTION_TEXT, &spool,
		 .help = "buffer directory for when a server is unreachable; off =\n"
			 "memory (default for root: /var/lib/wick-agent)",
		 .not_in_environment = true}, /* WICK_SPOOL gives way to the file: apply_spool_config() */
		{0, "config", "FILE", OPTION_TEXT, &config_file,
		 .help = "settings, labels and relabel_configs (YAML); options\nhere take precedence"},
		FREQUENCY_OPTION_ROWS(&o.agent),
		EVENT_OPTION_ROW(&event),
		OFF_CPU_OPTION_ROW(&off_cpu),
		BUDGET_OPTION_ROW(&budget),
		RUNTIMES_OPTION_ROW(&runtimes),
		UNWIND_MEMORY_OPTION_ROW(&o.agent.heap_mib),
		{0, "markers", NULL, OPTION_FLAG, &o.markers,
		 .help = "collect the markers of all programs continuously, and send\nthem to the server"},
		{0, "no-debuginfo-upload", NULL, OPTION_FLAG, &o.no_debuginfo_upload,
		 .help = "do not upload debug information that the server requests"},
		{0, "no-remote-record", NULL, OPTION_FLAG, &o.no_remote_record,
		 .help = "reject the requests of wick record --remote"},
		{0, "label", "K=V", OPTION_LIST, &labels, .help = "label added to everything that is sent; may be repeated"},
		HOST_LABEL_OPTION_ROW(&host_labels),
		{0, "listen", "ADDR:PORT", OPTION_TEXT, &o.listen,
		 .help = "serve /metrics and /healthz here; port 0 = do not\n(default: 127.0.0.1:7071)"},
		{0, "token-file", "FILE", OPTION_TEXT, &token_file, .help = "file with the server's token"},
		{0, "tenant", "NAME", OPTION_TEXT, &o.tenant, .help = "tenant that the data belongs to"},
		SERVICE_OPTION_ROWS(&service, "wick-agent, or nobody"),
		{0}};
	const struct usage usage = {
		.verb = "agent",
		.synopsis = "--server URL [-F HZ] [--label K=V]...",
		.description =
			"Samples every process of this machine continuously, and sends profiles to a wick\nserver (or any "
			"collector of OpenTelemetry profiles over gRPC). Needs root, or CAP_BPF,\nCAP_PERFMON, CAP_SYS_PTRACE, "
			"CAP_DAC_READ_SEARCH, CAP_SYSLOG, CAP_CHECKPOINT_RESTORE;\nall others are dropped after the start.",
		.options = options,
		.environment = true,
		.examples = "wick agent --server http://profiles.example:7070 --label env=prod"};
	OPTIONS_OR_RETURN(&usage, argc, argv, NULL);
	struct error err = {0};
	_cleanup_(agent_config_release) struct agent_config config = {0};
	if (config_file && agent_config_load(config_file, &config, &err) < 0)
		return cmd_fail("agent", &err);
	if (apply_server(&config, &o, &err) < 0)
		return usage_error(&usage, "%s", err.message);
	apply_services(&config, &o, &service);
	_cleanup_(export_config_release) struct export_config targets = {0};
	if (apply_targets(&config, config_file, &exports, spool, &targets, &o, &err) < 0)
		return cmd_fail("agent", &err);
	if (!o.url && !o.target_count)
		return usage_error(&usage, "no server; give --server URL");
	if (parse_sampling(event, runtimes ? runtimes : config.runtimes, budget, off_cpu, &o.agent, &err) < 0)
		return usage_error(&usage, "%s", err.message);
	_cleanup_(labels_release) struct labels all_labels = {0}, of_host = {0};
	o.host_labels = &of_host;
	int r = apply_agent_config(&config, event, &labels, &o.agent, &all_labels, &err);
	if (!r)
		r = apply_host_labels(&config, &host_labels, &of_host, &err);
	if (!r)
		r = run_agent(&o, &service, token_file ? token_file : config.token_file, &all_labels, &err);
	return r < 0 ? cmd_fail("agent", &err) : EXIT_DONE;
}
