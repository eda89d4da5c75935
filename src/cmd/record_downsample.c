/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd/record_downsample.h"

#include <stdio.h>

#include "base/text.h"
#include "cmd/cmd.h"
#include "profile/downsample.h"
#include "profile/merge.h"

#define SHIFT_MAX 20

int record_downsample_merge(struct record_downsample *downsample, struct agent *agent, struct profile *profile,
			    struct profile *arrived, struct error *err)
{
	size_t max = downsample->max ? downsample->max : RECORD_SAMPLES_DEFAULT;
	downsample->arrived += arrived->sample_count;
	profile_downsample_samples(arrived, 0, downsample->shift);
	int r = profile_merge(profile, arrived, false, err);
	while (r == 0 && profile->sample_count > max && downsample->shift < SHIFT_MAX) {
		profile_downsample_samples(profile, downsample->shift, downsample->shift + 1);
		downsample->shift++;
	}
	if (r == 0 && profile->markers && profile->markers->row_count > max / 2) {
		r = profile_downsample_rows(profile, 1, err);
		agent_slow_counters(agent);
	}
	return r;
}

static void describe(const struct record_downsample *downsample, char text[static 128])
{
	char count[TEXT_NUMBER_MAX];
	snprintf(text, 128, "downsampled: 1 of %u samples is kept, with its value scaled: %s exceed the limit",
		 1u << downsample->shift, text_format_count(downsample->arrived, count));
}

int record_downsample_note(const struct record_downsample *downsample, struct profile *profile, struct error *err)
{
	char text[128], comment[160];
	if (!downsample->shift)
		return 0;
	describe(downsample, text);
	snprintf(comment, sizeof(comment), "wick record: %s", text);
	return profile_add_comment_text(profile, comment, err);
}

void record_downsample_report(const struct record_downsample *downsample)
{
	char text[128];
	if (!downsample->shift)
		return;
	describe(downsample, text);
	cmd_printf(stderr, "  %s\n", text);
}
