/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd/record_thin.h"

#include <stdio.h>

#include "base/text.h"
#include "cmd/cmd.h"
#include "profile/markers.h"
#include "profile/merge.h"
#include "profile/thin.h"

#define SHIFT_MAX 20

int record_thin_merge(struct record_thin *thin, struct agent *agent, struct profile *profile, struct profile *arrived,
		      struct error *err)
{
	size_t max = thin->max ? thin->max : RECORD_SAMPLES_DEFAULT;
	thin->arrived += arrived->sample_count;
	int r = profile_thin_samples(arrived, 0, thin->shift, err);
	if (r == 0)
		r = profile_merge(profile, arrived, false, err);
	while (r == 0 && profile->sample_count > max && thin->shift < SHIFT_MAX) {
		r = profile_thin_samples(profile, thin->shift, thin->shift + 1, err);
		thin->shift++;
	}
	if (r == 0 && profile->markers && profile->markers->row_count > max / 2) {
		r = profile_thin_rows(profile, 1, err);
		agent_slow_counters(agent);
	}
	return r;
}

static void describe(const struct record_thin *thin, char text[static 128])
{
	char count[TEXT_NUMBER_MAX];
	snprintf(text, 128, "downsampled: 1 of %u samples is kept, with its value scaled: %s exceed the limit",
		 1u << thin->shift, text_format_count(thin->arrived, count));
}

int record_thin_note(const struct record_thin *thin, struct profile *profile, struct error *err)
{
	char text[128], comment[160];
	if (!thin->shift)
		return 0;
	describe(thin, text);
	snprintf(comment, sizeof(comment), "wick record: %s", text);
	return add_comment(profile, comment, err);
}

void record_thin_report(const struct record_thin *thin)
{
	char text[128];
	if (!thin->shift)
		return;
	describe(thin, text);
	fprintf(stderr, "  %s\n", text);
}
