/* SPDX-License-Identifier: Apache-2.0 */
/* Private to reading: read.c (what is common), read_parts.c (threads), read_source.c (a block, the head), read_overlaps.c
 * (profiles that several of them have), read_numbers.c (samples that differ in their numbers), read_lost.c (what is
 * damaged), read_result.c (what comes out). */
#ifndef WICK_STORE_READ_READ_INT_H
#define WICK_STORE_READ_READ_INT_H

#include "base/budget.h"
#include "store/block/block_scan.h"
#include "store/block/filter.h"
#include "store/read/averages.h"
#include "store/read/plan.h"
#include "store/read/select.h"
#include "store/stack_set.h"
#include "store/store_int.h"

/* A merge with gauges to be averaged reads its sources twice: averages.h. */
enum read_phase {
	READ_PLAIN,
	READ_COUNT, /* profiles */
	READ_AVERAGE,
};
/* What a merge that may be partial takes of a budget, in hundredths: values by stack; and those with the stacks' frames.
 * Besides, frames and what is made of them (store_select.stack_bytes) have to fit when the values are gone. */
#define READ_VALUES_SHARE 45
#define READ_SHARE	  80
#define READ_FRAMES_SHARE 90
#define READ_FRAME_BYTES  12 /* of an entry in the table of stacks */
#define READ_STACK_BYTES  56 /* store_select.stack_bytes if that is not said */
#define READ_HAS_GAUGES	  1  /* in READ_PLAIN: the merge has to begin again */
#define READ_ANEW	  2  /* a file of the block is not used any more: the block is to be read again, from others */

/*
 * Groups of samples that are kept apart by their numbers. A group and a text make a group of its own, numbered from
 * READ_NUMBERED on; samples without numbers are in the group itself, so whatever has none is read as ever.
 */
#define READ_NUMBERED	    0x80000000u
#define READ_TEXT_BYTES_MAX (64u * 1024 * 1024)
struct read_numbered {
	struct intern texts;
	struct read_numbered_group {
		uint32_t group, text;
	} * groups; /* by number - READ_NUMBERED */
	size_t count, capacity;
	struct map64 index; /* group << 32 | text */
};

#define READ_STARTS_MAX 16 /* threads that one reading of all sources starts */
struct read_share;
struct reading {
	struct local_store *store;
	const struct store_select *select;
	struct series_matcher *series; /* its conditions, compiled */
	struct stack_filter *stacks;   /* NULL = none; used under the lock */
	struct budget *budget;	       /* of the thread that asks, which those that help work on as well; NULL = none */
	enum read_phase phase;
	const struct store_grouping *grouping;
	struct plan_criteria criteria;
	struct store_snapshot snapshot;
	size_t source_count; /* the heads, then the blocks, newest first */

	/* Guards what follows, and serialises callbacks. Taken after a head's lock. */
	pthread_mutex_t lock;
	struct store_read_stats *stats;
	size_t next;		  /* source to be read next */
	size_t done;		  /* sources that were read or left out for good */
	size_t busy;		  /* sources that are being read */
	bool stop;		  /* no more sources: a limit, or an error */
	enum budget_end short_of; /* the limit of memory that was reached, and forgiven */
	int code;		  /* the first error */
	struct error error;	  /* and what it says */

	/* Threads: read_parts.c */
	pthread_cond_t changed; /* there is something to do, or nothing any more */
	pthread_t threads[READ_STARTS_MAX];
	unsigned started, helpers, idle; /* threads; those that did not end; those of them that wait */
	unsigned cpus;			 /* that this process may use */
	struct read_share *shares;	 /* blocks that can use another thread */

	/* Damaged rows that were met: each place once, however often it is read */
	struct read_lost {
		const struct block *block;
		struct block_lost lost;
	} * lost;
	size_t lost_count, lost_capacity;

	/* Averages of gauges */
	struct averages averages;
	uint8_t *counted; /* by source: its profiles are counted, so its values can be averaged; NULL = no matter */
	struct read_spans {
		struct average_spans spans;
		bool counted; /* it has gauges, and their profiles are counted */
		bool arrived;
	} * spans;	       /* by source: those that wait for newer ones, so that all are noted in order */
	size_t spans_noted;    /* sources whose spans are */
	size_t head_counts[2]; /* by source, of heads: rows that were there when they were read or counted */

	/* Merge */
	bool merge;
	struct stack_set set;
	struct read_numbered numbered;
	bool has_type;
	struct profile_type type;
	int64_t period;
	bool has_range;
	int64_t min_ns, max_ns;

	/* Series */
	store_on_point on_point;
	void *point_context;
};

/* The block that is the source; the first two sources are the heads. */
static inline struct block *read_block_at(const struct reading *r, size_t source)
{
	return r->snapshot.blocks[r->snapshot.block_count - 1 - (source - 2)];
}

/* Sums of one source, until it is complete. */
struct source_sums {
	struct reading *r;
	const uint8_t *wanted;	 /* by the id of the table at hand */
	const uint32_t *groups;	 /* by the same; NULL = all 0 */
	const uint8_t *accepted; /* by stack; NULL = all */
	/* Merge: dense[local group][stack], or map (group << 32 | stack) when that would be too large */
	int64_t *dense;
	size_t stack_count;
	uint32_t *locals;	 /* by id of the table at hand: local group; NULL = all 0 */
	uint32_t *local_numbers; /* by local group: the group's number */
	size_t local_count;
	/* Series, and large groupings: (group << 32 | bucket or stack) */
	struct map64 map;
	/* Gauges that are averaged, by the id of the table at hand; NULL = there are none */
	const uint32_t *numbers; /* series: values of these go into `averages` instead */
	struct source_averages *averages;
	const double *weights;	       /* merge: sums are doubles */
	struct store_read_stats stats; /* of this source */
};

bool read_overlaps(const struct store_select *select, int64_t first_ns, int64_t last_ns);
/* SELECT_LIMITED or -ECANCELED, or 0; rows: those of this source so far. */
int read_check(struct reading *r, uint64_t rows, struct error *err);
/* lock held: marks the result partial, for the first reason that comes. */
void read_note_partial(struct reading *r, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Hundredths of what the query may take, in bytes; SIZE_MAX if it has no limit. */
size_t read_share_of_budget(unsigned percent);
/* Whether a merge may go on without what there was no memory for: the name of the limit that was reached, which is taken back;
 * else NULL. */
const char *read_may_leave_out(struct reading *r, int code);
/* lock held. -EINVAL when it is not the type of the others. */
int read_note_type(struct reading *r, const struct profile_type *type, struct error *err);
/* lock held. */
void read_note_series(struct reading *r, int64_t period, int64_t first_ns, int64_t last_ns);

/* Of one source: groups by the source's own ids of texts. */
struct source_numbers {
	struct reading *r;
	const struct intern *texts; /* of the source */
	struct map64 groups;	    /* group << 32 | id of a text -> numbered group */
};

/* A block while it is read. */
struct block_source {
	struct reading *r;
	uint32_t source;
	struct block *block;
	struct block_series *series;
	struct block_tables *tables;
	struct block_hashes *hashes;
	struct block_footer *footer;	     /* of the samples, if they are read; NULL = it cannot be read */
	struct selection selection, rollups; /* by series, by rollup series */
	struct source_averages averages;
	uint8_t *accepted;
	bool has_numbers;  /* rows of wanted series have some */
	bool none_pass;	   /* conditions on numbers leave no row: none has any */
	bool with_numbers; /* samples are to be kept apart by them */
	struct intern texts;
	struct source_numbers numbers;
	size_t stack_count;
	struct source_sums sums;
	uint64_t rows; /* so far, of all segments but those at hand */
	const struct block_scan *scan;
	int64_t since;
	struct error *err;
};

/* read_source.c */
/* Rows of one series or rollup series, into sums of their source. */
int read_add_run(struct block_source *b, struct source_sums *sums, const struct block_run *run, struct error *err);
bool read_numbers_pass(struct block_source *b, struct bytes text); /* takes the lock */
int read_block_source(struct reading *r, uint32_t source, struct block *block, struct error *err);
int read_head_source(struct reading *r, uint32_t source, struct head *head, struct error *err);

/* lock held: the source has been read or counted, and its spans are there. */
void read_note_spans(struct reading *r, size_t source);

/* read_lost.c: damaged rows */
/* Of a scan: reports it, and remembers what is lost for the answer. READ_ANEW: the file has a substitute. */
int read_note_lost(struct block_source *b, const struct block_lost *lost, const char *why);
/* What is known to be lost of a block that is asked about: rows that it was made without, and samples that cannot be read. */
void read_note_losses(struct reading *r, const struct block *block, bool samples);
/* Tables of which rows could not be read. */
void read_note_names(struct reading *r, struct block *block, const struct block_tables *tables);
/* At the end: says it in the statistics. */
void read_give_lost(struct reading *r);

/* read_overlaps.c: takes profiles that were counted by several sources out of r->averages. All sources were counted. */
int read_count_overlaps(struct reading *r, struct error *err);
extern size_t read_overlap_times_max; /* times that it holds at once, of several series; tests make it small */

/* read_sums.c */
int source_sums_init(struct source_sums *sums, struct reading *r, size_t stack_count, const uint32_t *groups,
		     const uint8_t *wanted, size_t id_count, struct error *err);
void source_sums_release(struct source_sums *sums);
void source_sums_add(struct source_sums *sums, uint32_t id, size_t count, const int32_t *stacks, const int64_t *values);
int source_sums_add_grouped(struct source_sums *sums, uint32_t id, size_t count, const int32_t *stacks, const int64_t *values);
int source_sums_add_points(struct source_sums *sums, uint32_t id, size_t count, const int32_t *stacks, const int64_t *times,
			   const int64_t *values);
/* The same for a group that is given, and no gauges to be averaged. */
int source_sums_add_group_points(struct source_sums *sums, uint32_t group, size_t count, const int32_t *stacks,
				 const int64_t *times, const int64_t *values);
/* The step that a time is in. */
uint64_t read_bucket_of(const struct reading *r, int64_t time_ns);
/* Of rows with numbers: into a group that is not their series'. */
int source_sums_add_to(struct source_sums *sums, uint32_t group, uint32_t id, size_t count, const int32_t *stacks,
		       const int64_t *values);
/* Adds what another thread summed of the same source: both begun alike, without averages. */
int source_sums_merge(struct source_sums *to, const struct source_sums *from);
/* Takes what has a value out as lists. */
struct sum_lists {
	uint32_t *stacks, *groups;
	int64_t *values;
	size_t count;
};
int source_sums_list(const struct source_sums *sums, struct sum_lists *ret, struct error *err);
void sum_lists_release(struct sum_lists *lists);

/* read_numbers.c */
/* The group of samples of `group` with that text. SELECT_LIMITED if there are too many texts. Takes the reading's lock. */
int read_numbers_find(struct source_numbers *numbers, uint32_t group, uint32_t text, uint32_t *ret, struct error *err);
void source_numbers_release(struct source_numbers *numbers);
void read_numbers_release(struct reading *r);
/* The group that it was made of; others are their own. */
static inline uint32_t read_numbers_base(const struct reading *r, uint32_t group)
{
	return group < READ_NUMBERED ? group : r->numbered.groups[group - READ_NUMBERED].group;
}
/* Label sets in `into` for all texts, by their ids; the caller frees it. */
int read_numbers_sets(const struct reading *r, struct profile *into, uint32_t **ret, struct error *err);

/* read_result.c: makes frames of the distinct stacks, and samples. -EAGAIN: a block turned out to be damaged and was set aside,
 * the merge must be made anew. */
int read_finish_merge(struct reading *r, struct profile *into, struct error *err);

#endif
