/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The collector: one agent with its symbolizer and export pipeline, as `wick agent` and the agent half of `wick up` run it.
 */
#ifndef WICK_DAEMON_COLLECTOR_H
#define WICK_DAEMON_COLLECTOR_H

#include "agent/agent.h"

struct collector;
struct export_target;
struct collector_options {
	struct agent_options agent;
	const char *url, *token, *token_file, *tenant; /* of the server; url NULL = none; tenant NULL = the default one */
	const struct export_target *targets;	       /* further export targets */
	size_t target_count;
	const struct labels *host_labels; /* of the host, beside what it is known to be; NULL = none */
	const char *spool_directory;	  /* NULL = in memory only */
	uint64_t spool_bytes;		  /* for the server; 0 = the default */
	int64_t spool_age_ns;
	const char *listen; /* ADDR:PORT of metrics, where there is no link; NULL = AGENT_HTTP_LISTEN if it is free; port 0 =
			       none */
	int link_fd;	    /* the agent's end of the link to the server on this machine; -1 = none; borrowed */
	/* Debug information is uploaded only without a link; over a link the server gets the files themselves. */
	bool no_debuginfo_upload;
	bool markers;					   /* collects them continuously, and sends them to url */
	bool no_remote_record;				   /* rejects recording requests of the server */
	uint64_t debuginfo_rate, debuginfo_file_bytes_max; /* 0 = as struct uploader_options */
};
/* Starts sampling. Drops all privileges but those that sampling needs. */
int collector_new(const struct collector_options *options, struct collector **ret, struct error *err);
/* Samples and sends until collector_stop(); then flushes and sends what is left for up to 3 s. */
int collector_run(struct collector *collector, struct error *err);
void collector_stop(void *collector); /* async-signal-safe */
struct collector *collector_free(struct collector *collector);
DEFINE_CLEANUP_POINTER(collector_free, struct collector);
/* Logs how much was sampled, sent and dropped. */
void collector_report(struct collector *collector);
void collector_get_stats(struct collector *collector, struct agent_stats *ret);

#endif
