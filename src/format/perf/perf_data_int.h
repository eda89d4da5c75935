/* SPDX-License-Identifier: Apache-2.0 */
/* Private to the reader of perf.data (perf_data.c): what its parts share. */
#ifndef WICK_FORMAT_PERF_PERF_DATA_INT_H
#define WICK_FORMAT_PERF_PERF_DATA_INT_H

#include "base/map.h"
#include "codec/compress.h"
#include "format/address_map.h"
#include "format/format_int.h"
#include "unwind/stack_walk.h"

/* ---- bytes, of the order that the file has ---- */

/* Reads forward; past the end it gives 0 and sets `bad`. */
struct perf_cursor {
	const uint8_t *at, *end;
	bool is_swapped, bad;
};
const uint8_t *perf_take(struct perf_cursor *cursor, uint64_t len); /* NULL when there are fewer */
uint16_t perf_take_u16(struct perf_cursor *cursor);
uint32_t perf_take_u32(struct perf_cursor *cursor);
uint64_t perf_take_u64(struct perf_cursor *cursor);
/* Up to the NUL or the end; the rest of the field is not taken. */
struct bytes perf_text(struct perf_cursor cursor);
static inline size_t perf_left(const struct perf_cursor *cursor)
{
	return (size_t)(cursor->end - cursor->at);
}
uint64_t perf_load_u64(const uint8_t *at, bool is_swapped);

/* ---- records ---- */

enum perf_record_type { /* include/uapi/linux/perf_event.h, tools/lib/perf/include/perf/event.h */
			PERF_MMAP = 1,
			PERF_LOST = 2,
			PERF_COMM = 3,
			PERF_EXIT = 4,
			PERF_THROTTLE = 5,
			PERF_FORK = 7,
			PERF_SAMPLE = 9,
			PERF_MMAP2 = 10,
			PERF_AUX = 11,
			PERF_LOST_SAMPLES = 13,
			PERF_KSYMBOL = 17,
			PERF_CGROUP = 19,
			PERF_DEFERRED = 22,
			PERF_USER_TYPES = 64,
			PERF_HEADER_ATTR = 64,
			PERF_HEADER_TRACING_DATA = 66,
			PERF_HEADER_BUILD_ID = 67,
			PERF_AUXTRACE = 71,
			PERF_EVENT_UPDATE = 78,
			PERF_HEADER_FEATURE = 80,
			PERF_COMPRESSED = 81,
			PERF_COMPRESSED2 = 83,
};
#define PERF_MISC_CPUMODE	7u
#define PERF_MODE_KERNEL	1u
#define PERF_MODE_USER		2u
#define PERF_MODE_GUEST_KERNEL	4u
#define PERF_MODE_GUEST_USER	5u
#define PERF_MISC_COMM_EXEC	(1u << 13)
#define PERF_MISC_MMAP_DATA	(1u << 13)
#define PERF_MISC_MMAP_BUILD_ID (1u << 14)
#define PERF_MISC_BUILD_ID_SIZE (1u << 15)
#define PERF_MISC_UNREGISTER	1u /* of a KSYMBOL's flags */

struct perf_record {
	uint32_t type;
	uint16_t misc;
	struct perf_cursor body; /* without the header */
};

/* struct perf_event_attr, what is used of it */
struct perf_event {
	uint32_t type;
	uint64_t config, period, sample_type, read_format, flags, branch_sample_type, regs_user;
	uint64_t regs_intr;
	int32_t clock_id;
	uint32_t name;	  /* string; 0 = not told */
	uint64_t samples; /* in the file */
	uint32_t column;  /* of its value */
};
enum perf_attr_flags {
	PERF_FLAG_FREQ = 1 << 10,
	PERF_FLAG_SAMPLE_ID_ALL = 1 << 18,
	PERF_FLAG_USE_CLOCKID = 1 << 25,
};
enum perf_sample_type {
	PERF_S_IP = 1 << 0,
	PERF_S_TID = 1 << 1,
	PERF_S_TIME = 1 << 2,
	PERF_S_ADDR = 1 << 3,
	PERF_S_READ = 1 << 4,
	PERF_S_CALLCHAIN = 1 << 5,
	PERF_S_ID = 1 << 6,
	PERF_S_CPU = 1 << 7,
	PERF_S_PERIOD = 1 << 8,
	PERF_S_STREAM_ID = 1 << 9,
	PERF_S_RAW = 1 << 10,
	PERF_S_BRANCH_STACK = 1 << 11,
	PERF_S_REGS_USER = 1 << 12,
	PERF_S_STACK_USER = 1 << 13,
	PERF_S_WEIGHT = 1 << 14,
	PERF_S_DATA_SRC = 1 << 15,
	PERF_S_IDENTIFIER = 1 << 16,
	PERF_S_TRANSACTION = 1 << 17,
	PERF_S_REGS_INTR = 1 << 18,
	PERF_S_PHYS_ADDR = 1 << 19,
	PERF_S_AUX = 1 << 20,
	PERF_S_CGROUP = 1 << 21,
	PERF_S_DATA_PAGE_SIZE = 1 << 22,
	PERF_S_CODE_PAGE_SIZE = 1 << 23,
	PERF_S_WEIGHT_STRUCT = 1 << 24,
	PERF_S_ALL = (1 << 25) - 1,
};

/* A sample; 0 where the event does not record it. Pointers are into the input. */
struct perf_sample {
	const struct perf_event *event;
	uint32_t pid, tid, cpu;
	bool has_cpu;
	uint64_t ip, time, period, cgroup;
	const uint8_t *chain; /* u64[chain_count] */
	size_t chain_count;
	const uint8_t *registers; /* of user space, u64 each, by the bits of event->regs_user */
	uint64_t registers_abi;	  /* 0 = none, 1 = 32 bits, 2 = 64 bits */
	struct bytes stack;	  /* copy of the user stack, from its pointer upwards */
	bool stack_is_cut;	  /* it was longer than what was to be copied */
	/* Values of counters, each with the id of its event: value at reads + i * read_bytes, id behind it at read_id. */
	const uint8_t *reads;
	size_t read_count, read_bytes, read_id;
	bool has_read, has_raw, has_branches, has_memory;
};

/* ---- the reader ---- */

struct perf_place { /* a record that is looked at again, in the order of times */
	uint64_t time;
	uint64_t at; /* in the input, or behind it in what was decompressed */
};

/* What is left out, for notes. */
struct perf_counts {
	uint64_t samples, lost_events, lost_samples, lost_records, throttled, aux_bytes, unknown_records;
	uint64_t reads, raws, branches, memory, stacks, deferred, cut_stacks, guests;
	uint64_t strays;		   /* samples of no event */
	uint64_t short_copies, incomplete; /* stacks that were unwound, but not to their end */
	bool is_unfinished;
};

struct perf_reader {
	struct profile *profile;
	struct bytes input;
	struct buffer plain; /* what compressed records held */
	size_t plain_read;   /* of it, records that have been looked at */
	struct zstd_stream *zstd;
	bool is_swapped, is_pipe;

	struct perf_event *events;
	size_t event_count, event_capacity;
	struct map64 event_of_id;
	struct perf_place *places;
	size_t place_count, place_capacity;
	struct map64 build_ids; /* string of the file -> string of the build-id */
	struct perf_counts counts;

	/* of the header and its features */
	uint32_t host, release, architecture, version, command; /* strings */
	bool has_clock;
	uint64_t clock_wall_ns, clock_ns;
};

/* perf_data_file.c: whether a file begins as one. */
bool perf_data_is_magic(struct bytes input);
/* Reads the header and its features, and every record once: fills events, places, build_ids, counts. */
int perf_data_scan(struct perf_reader *reader, struct error *err);
/* The record at a place that the scan found. */
struct perf_record perf_data_record(const struct perf_reader *reader, uint64_t at);

/* perf_data_feature.c */
int perf_data_read_feature(struct perf_reader *reader, unsigned feature, struct perf_cursor body, struct error *err);
/* An attr and the ids behind it; *ret is its number. */
int perf_data_add_event(struct perf_reader *reader, struct bytes attr, struct bytes ids, struct error *err);
int perf_data_read_build_id(struct perf_reader *reader, uint16_t misc, struct perf_cursor body, struct error *err);
int perf_data_name_event(struct perf_reader *reader, struct perf_event *event, struct bytes name, struct error *err);
struct perf_event *perf_data_event_of(const struct perf_reader *reader, uint64_t id); /* NULL if unknown */
/* Names what the file did not name. */
int perf_data_name_events(struct perf_reader *reader, struct error *err);

/* perf_data_sample.c */
/* 1: it has an id of no event. */
int perf_data_read_sample(const struct perf_reader *reader, const struct perf_record *record, struct perf_sample *ret,
			  struct error *err);
/* The register of a bit of event->regs_user, which must be set. */
uint64_t perf_data_register_of(const struct perf_sample *sample, unsigned bit, bool is_swapped);
/* A register of user space, 64 bits; false if it was not recorded, or the machine is another than x86-64 or aarch64. */
enum perf_register { PERF_REGISTER_IP, PERF_REGISTER_SP, PERF_REGISTER_FP, PERF_REGISTER_LR };
bool perf_data_register(const struct perf_reader *reader, const struct perf_sample *sample, enum perf_register which,
			uint64_t *ret);
/* The time of a record that is no sample, from the fields that its end holds; 0 when it has none. */
uint64_t perf_data_record_time(const struct perf_reader *reader, const struct perf_record *record);

/* perf_data_unwind.c: walks over copied user stacks. */
struct perf_unwinder;
typedef bool perf_find_mapping(void *context, uint64_t address, struct stack_walk_mapping *ret);
/* find: the mapping of an address in the process that is walked. *ret is NULL if files cannot be had, or the recording is of
 * another architecture. */
int perf_unwinder_new(const struct perf_reader *reader, const struct format_options *options, perf_find_mapping *find,
		      void *context, struct perf_unwinder **ret, struct error *err);
struct perf_unwinder *perf_unwinder_free(struct perf_unwinder *unwinder);
DEFINE_CLEANUP_POINTER(perf_unwinder_free, struct perf_unwinder);
/* The number of a file for struct stack_walk_mapping, by the strings of its path and build-id. */
int perf_unwinder_add_file(struct perf_unwinder *unwinder, uint32_t path, uint32_t build_id, uint32_t *ret, struct error *err);
/* Whether the sample has what a walk needs; unwinder may be NULL. */
bool perf_unwinder_can(const struct perf_unwinder *unwinder, const struct perf_sample *sample);
/* As stack_walker_walk(), of such a sample. */
int perf_unwinder_walk(struct perf_unwinder *unwinder, const struct perf_sample *sample, uint64_t *ret_frames,
		       size_t *ret_count, enum unwind_result *ret_result, struct error *err);

/* perf_data_build.c: the profile of it all. */
int perf_data_build(struct perf_reader *reader, const struct format_options *options, struct error *err);

#endif
