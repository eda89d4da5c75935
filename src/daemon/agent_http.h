/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What an agent without a server on its machine reports about itself, over HTTP: /metrics (docs/metrics.md) and /healthz, which
 * is 503 once nothing has been flushed for a minute. It shows names of processes, so it listens on the loopback by default.
 */
#ifndef WICK_DAEMON_AGENT_HTTP_H
#define WICK_DAEMON_AGENT_HTTP_H

#include "base/cleanup.h"
#include "base/error.h"
#include "control/link.h"

#define AGENT_HTTP_LISTEN	  "127.0.0.1:7071"
#define AGENT_HTTP_SILENT_SECONDS 60

struct agent_http;
/* Serves on a thread of its own until it is freed. listen: ADDR:PORT. */
int agent_http_new(const char *listen, struct agent_http **ret, struct error *err);
struct agent_http *agent_http_free(struct agent_http *http); /* NULL allowed; returns NULL */
DEFINE_CLEANUP_POINTER(agent_http_free, struct agent_http);
/* "127.0.0.1:7071" with the real port; lives as long as it. */
const char *agent_http_address(const struct agent_http *http);
/* At each flush: what it shows from now on. Any thread. */
void agent_http_update(struct agent_http *http, const struct link_stats *stats);
/* Port 0: nothing shall be served. */
bool agent_http_is_off(const char *listen);

#endif
