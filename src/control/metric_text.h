/* SPDX-License-Identifier: Apache-2.0 */
/* Metrics in Prometheus' text format (version 0.0.4), as the server and an agent serve them. docs/metrics.md lists every name.
 */
#ifndef WICK_CONTROL_METRIC_TEXT_H
#define WICK_CONTROL_METRIC_TEXT_H

#include <stddef.h>

#include "base/buffer.h"
#include "base/time.h"
#include "control/link.h"

/* type: "counter" or "gauge". The values follow, each a line of its own. */
void metric_head(struct buffer *out, const char *name, const char *type, const char *help);
/* With its one value, and under its old name as well if it was renamed. */
void metric_value(struct buffer *out, const char *name, const char *type, const char *help, double value);
/* One of several that a metric has, told apart by a label. */
void metric_of(struct buffer *out, const char *name, const char *label, const char *of, uint64_t value);
void metric_counters_by(struct buffer *out, const char *name, const char *label, const char *help,
			const struct link_loss *items, size_t count);

#define COUNTER(name, help, value) metric_value(m, name, "counter", help, (double)(value))
#define GAUGE(name, help, value)   metric_value(m, name, "gauge", help, (double)(value))
#define SECONDS(ns)		   ((double)(ns) / NS_PER_S)

/* What became of the profiles for each of several targets: metrics PREFIXprofiles_total and so on (prefix: "wick_forward_").
 * whose: "a further target", of which the help texts speak. Nothing without targets. */
void metric_targets(struct buffer *out, const char *prefix, const char *whose, const struct link_target *targets, size_t count);

#endif
