/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rows of process_stats in a head (profile/type.h): encoded one behind the other, in the order of arrival.
 *
 * A row is a few small numbers, some of them 0, so it takes about 20 bytes, a quarter of what columns would. Columns of one row
 * may come one by one, in as many profiles, since OTLP has one sample type a profile: values of the same (series, time) are put
 * together, and summed where there are several, when rows are read.
 *
 *   series  zigzag difference from the row before    time  likewise, ns
 *   columns bit by bit, those that are not 0         values zigzag, of these columns
 *
 * All are varints. Appending is undone by going back to an earlier end.
 */
#ifndef WICK_STORE_HEAD_HEAD_PROCESSES_H
#define WICK_STORE_HEAD_HEAD_PROCESSES_H

#include "base/buffer.h"
#include "base/error.h"
#include "profile/type.h"

struct process_row {
	uint32_t series; /* of the head or the block */
	int64_t time_ns;
	int64_t values[PROCESS_STATS_COLUMNS];
};
/* An end of the rows, with what the next row is encoded against. */
struct head_processes_end {
	size_t bytes, count;
	uint32_t series;
	int64_t time_ns;
};
struct head_processes {
	struct buffer rows; /* what lies behind `end` is not there yet */
	struct head_processes_end end;
};
void head_processes_init(struct head_processes *processes);
void head_processes_release(struct head_processes *processes);
uint64_t head_processes_bytes(const struct head_processes *processes); /* memory */
/* Writes a row at *end, over what is there, and moves it. 0 or -ENOMEM. */
int head_processes_put(struct head_processes *processes, const struct process_row *row, struct head_processes_end *end);

/* Reads the rows between two ends. */
struct head_processes_reader {
	const uint8_t *at, *end;
	uint32_t series;
	int64_t time_ns;
};
void head_processes_read(const struct head_processes *processes, const struct head_processes_end *from,
			 const struct head_processes_end *to, struct head_processes_reader *ret);
bool head_processes_next(struct head_processes_reader *reader, struct process_row *ret);

/* All rows, one for each (series, time), sorted by these. `numbers`: the number that a series gets in the result, UINT32_MAX =
 * leave it out; NULL = its own. Only rows with from_ns <= time < to_ns, without an upper bound if to_ns is INT64_MAX. The
 * caller frees *ret with mem_free(). */
int head_processes_sorted(const struct head_processes *processes, const uint32_t *numbers, int64_t from_ns, int64_t to_ns,
			  struct process_row **ret, size_t *ret_count, struct error *err);

#endif
