/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WICK_CONTROL_AGENT_METRICS_H
#define WICK_CONTROL_AGENT_METRICS_H

#include "base/buffer.h"
#include "control/link.h"

/* The metrics of an agent (docs/metrics.md): on its own port, and on that of the server that runs it. */
void agent_metrics_write(struct buffer *out, const struct link_stats *agent);

#endif
