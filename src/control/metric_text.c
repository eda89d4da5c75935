/* SPDX-License-Identifier: Apache-2.0 */
#include "control/metric_text.h"

#include <stdio.h>
#include <string.h>

#include "export/export.h"

#define METRIC_NAME_MAX 64

void metric_head(struct buffer *out, const char *name, const char *type, const char *help)
{
	buffer_printf(out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

/* Renamed metrics. They keep their old name as well for one version, so that dashboards and alerts go on working. */
static const struct {
	const char *name, *old;
} renamed_metrics[] = {
	{"wick_agent_frequency_configured_hz", "wick_agent_frequency_asked_hz"},
	{"wick_agent_off_cpu_intervals_total", "wick_agent_waits_total"},
	{"wick_agent_process_updates_total", "wick_agent_processes_told_total"},
	{"wick_agent_process_update_failures_total", "wick_agent_processes_refused_total"},
	{"wick_agent_process_rows_dropped_total", "wick_agent_process_rows_left_out_total"},
	{"wick_agent_marker_batches_sent_total", "wick_agent_marker_windows_sent_total"},
	{"wick_agent_marker_batches_sent_bytes_total", "wick_agent_marker_windows_sent_bytes_total"},
	{"wick_agent_marker_batches_dropped_total", "wick_agent_marker_windows_dropped_total"},
	{"wick_agent_marker_batches_queued", "wick_agent_marker_windows_waiting"},
	{"wick_agent_marker_batches_queued_bytes", "wick_agent_marker_windows_waiting_bytes"},
	{"wick_scrape_targets_dropped", "wick_scrape_targets_left_out"},
	{"wick_debuginfo_uploads_started_total", "wick_debuginfo_uploads_begun_total"},
	{"wick_recordings_requested_total", "wick_recordings_ordered_total"},
	{"wick_recording_files_damaged_total", "wick_recording_torn_total"},
	{"wick_marker_batches", "wick_marker_windows"},
	{"wick_marker_batch_bytes", "wick_marker_window_bytes"},
	{"wick_marker_batch_bytes_max", "wick_marker_window_bytes_max"},
	{"wick_marker_batches_received_total", "wick_marker_windows_received_total"},
	{"wick_marker_batches_received_bytes_total", "wick_marker_windows_received_bytes_total"},
	{"wick_marker_batches_rejected_total", "wick_marker_windows_refused_total"},
	{"wick_marker_batches_evicted_total", "wick_marker_windows_evicted_total"},
	{"wick_marker_batches_damaged_total", "wick_marker_windows_torn_total"},
	{"wick_snapshots_created_total", "wick_snapshots_made_total"},
	{"wick_snapshots_damaged_total", "wick_snapshots_torn_total"},
};

void metric_value(struct buffer *out, const char *name, const char *type, const char *help, double value)
{
	metric_head(out, name, type, help);
	buffer_printf(out, "%s %.17g\n", name, value);
	for (size_t i = 0; i < sizeof(renamed_metrics) / sizeof(*renamed_metrics); i++) {
		const char *old = renamed_metrics[i].old;
		if (strcmp(renamed_metrics[i].name, name) == 0)
			buffer_printf(out, "# HELP %s Deprecated: use %s.\n# TYPE %s %s\n%s %.17g\n", old, name, old, type, old,
				      value);
	}
}

void metric_of(struct buffer *m, const char *name, const char *label, const char *of, uint64_t value)
{
	buffer_printf(m, "%s{%s=\"%s\"} %llu\n", name, label, of, (unsigned long long)value);
}

void metric_counters_by(struct buffer *m, const char *name, const char *label, const char *help, const struct link_loss *items,
			size_t count)
{
	metric_head(m, name, "counter", help);
	for (size_t i = 0; i < count; i++)
		metric_of(m, name, label, items[i].name, items[i].count);
}

static void write_losses(struct buffer *m, const char *prefix, bool samples, const struct link_target *targets, size_t count)
{
	char name[METRIC_NAME_MAX], help[128];
	snprintf(name, sizeof(name), "%slost_%s_total", prefix, samples ? "samples" : "profiles");
	snprintf(help, sizeof(help), "%s dropped for a target, by reason.", samples ? "Samples" : "Profiles");
	metric_head(m, name, "counter", help);
	for (size_t i = 0; i < count * EXPORT_LOSSES; i++) {
		const struct link_target *target = &targets[i / EXPORT_LOSSES];
		size_t reason = i % EXPORT_LOSSES;
		buffer_printf(m, "%s{target=\"%s\",reason=\"%s\"} %llu\n", name, target->name, export_loss_name(reason),
			      (unsigned long long)(samples ? target->lost_samples : target->lost_profiles)[reason]);
	}
}

void metric_targets(struct buffer *m, const char *prefix, const char *whose, const struct link_target *targets, size_t count)
{
	static const struct {
		const char *name, *type, *acknowledged, *help; /* acknowledged: what `whose` did; else help */
		size_t offset;				       /* of a uint64_t in struct link_target */
	} metrics[] = {
		{"profiles_total", "counter", "Profiles", NULL, offsetof(struct link_target, profiles)},
		{"samples_total", "counter", "Samples", NULL, offsetof(struct link_target, samples)},
		{"bytes_total", "counter", "Compressed bytes", NULL, offsetof(struct link_target, bytes)},
		{"failures_total", "counter", NULL, "Attempts to send that failed.", offsetof(struct link_target, failures)},
		{"waiting_profiles", "gauge", NULL, "Profiles queued for the target.",
		 offsetof(struct link_target, waiting_profiles)},
		{"waiting_samples", "gauge", NULL, "Samples queued for the target.",
		 offsetof(struct link_target, waiting_samples)},
		{"waiting_bytes", "gauge", NULL, "Bytes queued for the target.", offsetof(struct link_target, waiting_bytes)},
	};
	char name[METRIC_NAME_MAX], help[128];
	if (!count)
		return;
	for (size_t i = 0; i < sizeof(metrics) / sizeof(*metrics); i++) {
		snprintf(name, sizeof(name), "%s%s", prefix, metrics[i].name);
		if (metrics[i].acknowledged)
			snprintf(help, sizeof(help), "%s that %s acknowledged.", metrics[i].acknowledged, whose);
		metric_head(m, name, metrics[i].type, metrics[i].acknowledged ? help : metrics[i].help);
		for (size_t j = 0; j < count; j++)
			metric_of(m, name, "target", targets[j].name,
				  *(const uint64_t *)((const char *)&targets[j] + metrics[i].offset));
	}
	write_losses(m, prefix, false, targets, count);
	write_losses(m, prefix, true, targets, count);
	snprintf(name, sizeof(name), "%sup", prefix);
	metric_head(m, name, "gauge", "Whether the last attempt to send was successful.");
	for (size_t i = 0; i < count; i++)
		metric_of(m, name, "target", targets[i].name, !targets[i].away);
}
