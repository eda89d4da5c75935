/* SPDX-License-Identifier: Apache-2.0 */
/*
 * wick record: what is kept of more samples than there is room for.
 *
 * Samples that keep their times are kept one by one, so a recording of a large machine that nobody stops would fill its memory.
 * Whenever there are more than the room has, half of them go, all over the recording's time, and each that stays stands for
 * two: totals stay what they are but for chance, and the time line becomes coarser. Of what comes from then on one in as many
 * is taken. Which ones is chosen by a hash of their times, so that it has nothing to do with what they are of, and every pass
 * chooses among what the one before it left.
 *
 * Counters are read at intervals; when there are more rows than half as many as samples are kept, every other row of each goes
 * (profile/downsample.h), and the interval becomes twice as long.
 */
#ifndef WICK_CMD_RECORD_DOWNSAMPLE_H
#define WICK_CMD_RECORD_DOWNSAMPLE_H

#include "agent/agent.h"
#include "profile/profile.h"

#define RECORD_SAMPLES_DEFAULT 10000000

struct record_downsample {
	unsigned max;	  /* --max-samples; 0 = as many as usual */
	unsigned shift;	  /* one sample of 2^shift is kept */
	uint64_t arrived; /* samples so far */
};

/* Of struct option_row. */
#define MAX_SAMPLES_OPTION_ROW(downsample)                                                                                     \
	OPTION_ROW(0, "max-samples", "N", OPTION_UNSIGNED, &(downsample)->max, 1000, 50000000,                                 \
		   .help = "maximum number of samples with their times, about 50 bytes\n"                                      \
			   "each; more are downsampled across the recording,\n"                                                \
			   "with scaled values (default: 10000000)")

/* Adds what came from the agent, with times of its samples, to the recording. `arrived` is changed. Returns 0, -ENOMEM or
 * -E2BIG. */
int record_downsample_merge(struct record_downsample *downsample, struct agent *agent, struct profile *profile,
			    struct profile *arrived, struct error *err);
/* Says in the profile's comments what was left out. */
int record_downsample_note(const struct record_downsample *downsample, struct profile *profile, struct error *err);
void record_downsample_report(const struct record_downsample *downsample);

#endif
