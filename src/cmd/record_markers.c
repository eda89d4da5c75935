/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd/record_markers.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>

#include "base/text.h"
#include "cmd/cmd.h"
#include "format/format.h"
#include "profile/markers.h"

#define DESCRIPTORS_WANTED (2u * MARKER_RECORDER_FILES_MAX)

/* What there is of samples is worth having without them. */
static void give_up(struct record_markers *markers, const struct error *err)
{
	cmd_printf(stderr, "wick record: without markers: %s\n", err->message);
	markers->recorder = marker_recorder_free(markers->recorder);
}

void record_markers_open(struct record_markers *markers, bool all)
{
	struct error err = {0};
	if (markers->off)
		return;
	if (marker_recorder_new(all, &markers->recorder, &err) < 0)
		give_up(markers, &err);
	else if (markers->max)
		marker_recorder_limit(markers->recorder, markers->max);
	if (markers->recorder && *marker_recorder_name(markers->recorder))
		setenv(MARKER_RECORDER_ENVIRONMENT, marker_recorder_name(markers->recorder), 1);
}

/* One for each process with markers. The command has been forked: it keeps the limit that there was. */
static void raise_descriptor_limit(void)
{
	struct rlimit limit;
	if (getrlimit(RLIMIT_NOFILE, &limit) < 0 || limit.rlim_cur == RLIM_INFINITY || limit.rlim_cur >= DESCRIPTORS_WANTED)
		return;
	limit.rlim_cur = limit.rlim_max < DESCRIPTORS_WANTED ? limit.rlim_max : DESCRIPTORS_WANTED;
	setrlimit(RLIMIT_NOFILE, &limit);
}

void record_markers_start(struct record_markers *markers, const pid_t *pids, size_t count, int64_t begin_ns)
{
	struct error err = {0};
	int r = 0;
	if (markers->recorder)
		raise_descriptor_limit();
	for (size_t i = 0; markers->recorder && r == 0 && i < count; i++)
		r = marker_recorder_follow(markers->recorder, pids[i], &err);
	if (markers->recorder && begin_ns)
		marker_recorder_begin_at(markers->recorder, begin_ns);
	if (markers->recorder && r == 0)
		r = marker_recorder_start(markers->recorder, &err);
	if (r < 0)
		give_up(markers, &err);
}

struct loss {
	uint64_t count;
	const char *what;
};
#define LOSSES 5
static void list_losses(const struct marker_recorder_stats *stats, struct loss ret[LOSSES])
{
	ret[0] = (struct loss){stats->lost, "markers lost: ring buffers were full"};
	ret[1] = (struct loss){stats->left_out, "markers dropped across the recording: too many"};
	ret[2] = (struct loss){stats->malformed, "malformed markers dropped"};
	ret[3] = (struct loss){stats->refused, "processes whose markers could not be read"};
	ret[4] = (struct loss){stats->busy, "processes whose markers another recorder collects"};
}

static int add_losses(const struct record_markers *markers, struct profile *profile, struct error *err)
{
	struct loss losses[LOSSES];
	char text[160];
	int r = 0;
	list_losses(&markers->stats, losses);
	for (size_t i = 0; r == 0 && i < LOSSES; i++) {
		if (!losses[i].count)
			continue;
		snprintf(text, sizeof(text), "wick record: %s: %llu", losses[i].what, (unsigned long long)losses[i].count);
		r = profile_add_comment_text(profile, text, err);
	}
	return r;
}

int record_markers_stop(struct record_markers *markers, struct profile **profile, struct error *err)
{
	if (!markers->recorder)
		return 0;
	struct error why = {0};
	if (marker_recorder_stop(markers->recorder, profile, &why) < 0) {
		give_up(markers, &why);
		return 0;
	}
	marker_recorder_get_stats(markers->recorder, &markers->stats);
	bool has_no_type = (*profile)->sample_type_count == 0 && profile_marker_count(*profile) > 0;
	int r = has_no_type ? profile_add_named_type(*profile, "cpu", "nanoseconds", err) : 0;
	return r < 0 ? r : add_losses(markers, *profile, err);
}

void record_markers_report(const struct record_markers *markers, const char *output, const char *format)
{
	const struct format *written = format ? format_by_name(format) : format_by_extension(output);
	bool is_held = written && (written->holds & FORMAT_HOLDS_MARKERS);
	const struct marker_recorder_stats *stats = &markers->stats;
	struct loss losses[LOSSES];
	char count[2][TEXT_NUMBER_MAX];
	list_losses(stats, losses);
	if (stats->processes)
		cmd_printf(stderr, "  markers: %s of %s processes%s\n",
			   text_format_count(stats->markers + stats->rows, count[0]),
			   text_format_count(stats->processes, count[1]),
			   is_held ? "" : ", which this format cannot store; use .firefox.json");
	for (size_t i = 0; i < LOSSES; i++)
		if (losses[i].count)
			cmd_printf(stderr, "  %s %s\n", text_format_count(losses[i].count, count[0]), losses[i].what);
}

void record_markers_release(struct record_markers *markers)
{
	markers->recorder = marker_recorder_free(markers->recorder);
}
