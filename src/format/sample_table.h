/* SPDX-License-Identifier: Apache-2.0 */
/* A profile as a table of its samples. Essay at the top of sample_table.c. */
#ifndef WICK_FORMAT_SAMPLE_TABLE_H
#define WICK_FORMAT_SAMPLE_TABLE_H

#include "codec/tabular.h"
#include "format/format.h"
#include "profile/profile.h"

struct sample_table_options {
	const struct tabular_fact *facts; /* what the table's metadata says beside the profile's period */
	size_t fact_count;		  /* SAMPLE_TABLE_FACTS_MAX at most */
	size_t limit; /* only the samples with the largest values of the last type, largest first; 0 = all */
};
#define SAMPLE_TABLE_FACTS_MAX 12
/* Failures as of format_write(). */
int sample_table_write(const struct profile *profile, enum tabular_format format, const struct sample_table_options *options,
		       struct format_sink *sink, struct error *err);

#endif
