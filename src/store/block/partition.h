/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Time partitions: in a block of days, the rows of each row group of samples are ordered by the hour that they lie in, then by
 * series, time, stack. From row group to row group they are by series, time, stack.
 *
 * By series alone, each series is one run of the length of the block, and the ends of a range that is not on the grid of the
 * rollups lie on pages all over the file: a hundredth of the rows is wanted, and half of the pages have some of them. With
 * partitions these rows are on the pages of one or two hours of each row group, which the ranges of pages tell.
 *
 * Rejected: the hour as the first key of the whole file. It reads a little less, but a row group then has the series of a whole
 * fleet, and their stacks, times and values share no dictionary: samples took a quarter more bytes, where this takes a
 * twentieth (docs/overhead.md). Row groups that stay what they were also leave the merges alone: whoever writes reorders a
 * group before it goes out, and whoever needs the rows by series puts a group back in order (batch_reader.h), which is stable,
 * so that no times are compared.
 */
#ifndef WICK_STORE_BLOCK_PARTITION_H
#define WICK_STORE_BLOCK_PARTITION_H

#include <stdint.h>

#define BLOCK_PARTITION_NS   (3600ll * 1000000000)
#define BLOCK_PARTITIONS_MAX 1024 /* a block whose times span more has none */

/* Which one a time is in; they are numbered from 1970 on. */
static inline int64_t block_partition_of(int64_t time_ns, int64_t partition_ns)
{
	return time_ns / partition_ns - (time_ns % partition_ns < 0);
}

/* How many there are from min_ns to max_ns, at least 1; partition_ns 0 = there are none. */
static inline uint64_t block_partition_count(int64_t min_ns, int64_t max_ns, int64_t partition_ns)
{
	if (partition_ns <= 0 || min_ns >= max_ns)
		return 1;
	return (uint64_t)(block_partition_of(max_ns, partition_ns) - block_partition_of(min_ns, partition_ns)) + 1;
}

/* The length of the partitions of a new block with these times; 0 = it has none. Tests and measurements take another length. */
extern int64_t block_partition_ns;
static inline int64_t block_partition_choose(int64_t min_ns, int64_t max_ns)
{
	uint64_t count = block_partition_count(min_ns, max_ns, block_partition_ns);
	return count > 1 && count <= BLOCK_PARTITIONS_MAX ? block_partition_ns : 0;
}

#endif
