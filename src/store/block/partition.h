/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Time partitions: in blocks that were made of others, the rows of each row group of samples are ordered by the 5 minutes that
 * they lie in, then by series, time, stack. From row group to row group they are by series, time, stack.
 *
 * By series alone, each series is one run of the length of the block, and the ends of a range that is not on the grid of the
 * rollups lie on pages all over the file: a hundredth of the rows is wanted, and half of the pages have some of them. With
 * partitions these rows are next to each other in each row group, and the ranges of pages tell where. So pages have fewer rows
 * than those of other blocks, about as many as a partition, and begin where partitions do: who wants a part of a partition
 * reads one page of each row group, and half of its rows are wanted on average. Cut anywhere, pages made an end of a range cost
 * twice as much.
 *
 * Blocks of level 1 are merged again, all that a day has at once, and each needs a row group in memory then: theirs are small.
 *
 * Rejected: the partition as the first key of the whole file. It reads a little less, but a row group then has the series of a
 * whole fleet, and their stacks, times and values share no dictionary: samples took a quarter more bytes, where this takes a
 * tenth (docs/overhead.md). Row groups that stay what they were also leave the merges alone: whoever writes reorders a
 * group before it goes out, and whoever needs the rows by series puts a group back in order (batch_reader.h), which is stable,
 * so that no times are compared. Rejected, too: partitions of an hour, which take 6% less, and of which the ends of a range
 * need a twelfth.
 */
#ifndef WICK_STORE_BLOCK_PARTITION_H
#define WICK_STORE_BLOCK_PARTITION_H

#include <stddef.h>
#include <stdint.h>

#define BLOCK_PARTITION_NS	(300ll * 1000000000)
#define BLOCK_PARTITION_MOST_NS (16 * BLOCK_PARTITION_NS)
#define BLOCK_PARTITIONS_MAX	1024	    /* a block whose times span more has longer ones, or none */
#define BLOCK_PARTITION_ROWS	(64 * 1024) /* of a row group of samples in blocks of level 1 */

/* Short pages, of times above all, compress worse: a level more makes up for it, and is unpacked as fast. */
#define BLOCK_PARTITION_ZSTD_LEVEL 3

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

/* Rows of a page, in row groups of so many: about as many as a partition of them has. Pages are cut where partitions end, so
 * most have somewhat fewer or more. */
static inline size_t block_partition_page_rows(size_t group_rows)
{
	return group_rows > BLOCK_PARTITION_ROWS ? 8192 : 4096;
}

/* The length of the partitions of a new block with these times; 0 = it has none. Tests and measurements take another length. */
extern int64_t block_partition_ns;
static inline int64_t block_partition_choose(int64_t min_ns, int64_t max_ns)
{
	int64_t ns = block_partition_ns;
	while (block_partition_count(min_ns, max_ns, ns) > BLOCK_PARTITIONS_MAX && ns < BLOCK_PARTITION_MOST_NS)
		ns *= 2;
	uint64_t count = block_partition_count(min_ns, max_ns, ns);
	return count > 1 && count <= BLOCK_PARTITIONS_MAX ? ns : 0;
}

#endif
