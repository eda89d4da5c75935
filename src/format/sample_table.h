/* SPDX-License-Identifier: Apache-2.0 */
/* A profile as a table of its samples. Essay at the top of sample_table.c. */
#ifndef WICK_FORMAT_SAMPLE_TABLE_H
#define WICK_FORMAT_SAMPLE_TABLE_H

#include "codec/tabular.h"
#include "format/format.h"
#include "profile/profile.h"

/* facts: what the table's metadata says beside the profile's period; SAMPLE_TABLE_FACTS_MAX at most. Failures as of
 * format_write(). */
#define SAMPLE_TABLE_FACTS_MAX 12
int sample_table_write(const struct profile *profile, enum tabular_format format, const struct tabular_fact *facts,
		       size_t fact_count, struct format_sink *sink, struct error *err);

#endif
