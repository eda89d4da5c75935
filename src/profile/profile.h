/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The profile in memory: the one struct that every format decodes to and encodes from, that the agent builds, that the store
 * appends, and that queries return.
 *
 * Layout. Everything is a dense table, and a reference is a 32-bit index into it. Index 0 of each table is the empty value ("",
 * no mapping, no function, no location, the empty stack, no labels, no link), so a zeroed reference is always valid. Adding an
 * empty string, mapping, label set or link gives 0; adding an empty function or location, or a frame without a location, gives
 * an id of its own, so that a frame about which nothing is known is still a frame.
 *
 *   strings     any bytes, interned                          id 0 = ""
 *   mappings    start, limit, offset, file, build-id         id 0 = none
 *   functions   name, system name, file, start line          id 0 = none
 *   locations   mapping + address + lines[] (inlined first)  id 0 = none
 *   stacks      parent + location: a trie, root = stack 0    id 0 = empty stack; parent < child always holds
 *   label sets  sorted labels, shared by samples             id 0 = no labels
 *   links       trace id + span id                           id 0 = none
 *   samples     stack, label set, link, numbers, time; values[sample * sample_type_count + type]
 *
 * All tables but samples are interned: adding an equal entry returns the old id. Stacks are stored as a trie because siblings
 * share their callers: adding a stack costs one probe a frame, comparing two stacks is comparing two integers.
 *
 * Addresses. location.address is in the same space as its mapping's start..limit; the file offset of the instruction is address
 * - start + offset (profile_location_file_offset), which is the same in all processes and hosts. Addresses of callers (all but
 * the leaf frame) point into the call instruction (return address - 1), as symbolizers expect. Some clients send addresses as
 * the file was linked (virtual addresses of its symbols) and no mappings: such a mapping goes from 0 to UINT64_MAX, offset 0
 * (profile_mapping_is_linked), and what profile_location_file_offset gives is the linked address then.
 *
 * Limits: LIMIT_PROFILE_*; adding past one is -E2BIG. Ownership: the profile owns all it holds. Not thread-safe; reading from
 * several threads is fine while nobody writes.
 */
#ifndef WICK_PROFILE_PROFILE_H
#define WICK_PROFILE_PROFILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/cleanup.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/intern.h"

struct profile_value_type {
	uint32_t type, unit; /* strings, e.g. "cpu", "nanoseconds" */
};

/* Append-only; stored on disk (mappings.parquet, log records). */
enum profile_mapping_flags {
	PROFILE_MAPPING_HAS_FUNCTIONS = 1,
	PROFILE_MAPPING_HAS_FILENAMES = 2,
	PROFILE_MAPPING_HAS_LINE_NUMBERS = 4,
	PROFILE_MAPPING_HAS_INLINE_FRAMES = 8,
	/* The type of the id (elf/file_ids.h); neither: a build-id, or not known. */
	PROFILE_MAPPING_ID_IS_HASH = 16,
	PROFILE_MAPPING_ID_IS_GO = 32,
};
#define PROFILE_MAPPING_ID_TYPE (PROFILE_MAPPING_ID_IS_HASH | PROFILE_MAPPING_ID_IS_GO)
struct profile_mapping {
	uint64_t start, limit, offset;
	uint32_t file_name, build_id; /* strings; the build-id as lower-case hex when it is binary at the source */
	uint32_t flags;
	/* A string: which of the files of that build-id (elf/content_key.h); "" = not known. Of profiles that come straight
	 * from an agent, until they are symbolized: no format has it, and it is no part of a stack's identity (hash.c). */
	uint32_t content;
	/* A string, as hex: the Go build-id of a file that is known by its hash; "" = it has none, or not known. Of OTLP, for
	 * who has symbols under that. No part of an identity either, and not stored. */
	uint32_t go_id;
};

/* Are addresses in a mapping of these bounds those of the file as it was linked? */
static inline bool profile_mapping_is_linked(uint64_t start, uint64_t limit, uint64_t offset)
{
	return start == 0 && limit == UINT64_MAX && offset == 0;
}
static inline void profile_mapping_set_linked(struct profile_mapping *mapping)
{
	mapping->start = mapping->offset = 0;
	mapping->limit = UINT64_MAX;
}

struct profile_function {
	uint32_t name, system_name, file_name; /* strings; system_name is the mangled one */
	int64_t start_line;
};

struct profile_line {
	uint32_t function;
	int64_t line, column;
};

/* Append-only; stored on disk. Where a frame comes from; UNKNOWN when the source did not say. */
enum profile_frame_type {
	PROFILE_FRAME_UNKNOWN = 0,
	PROFILE_FRAME_NATIVE = 1,
	PROFILE_FRAME_KERNEL = 2,
	PROFILE_FRAME_JIT = 3,
	PROFILE_FRAME_INTERPRETED = 4, /* Python, Ruby ...: the runtime's own name is in the function's file name */
};
struct profile_location {
	uint32_t mapping;
	uint32_t line_first, line_count; /* into profile.lines; [0] is the innermost inlined function, the last one the caller
					    that they are inlined into */
	uint32_t frame_type;		 /* enum profile_frame_type */
	uint64_t address;
	bool folded; /* pprof's is_folded */
};

struct profile_stack {
	uint32_t parent;   /* caller's stack; 0 at the root frame */
	uint32_t location; /* of this frame */
};

/* A string label (number, unit are 0) or a numeric one (value is 0). */
struct profile_label {
	uint32_t key;
	uint32_t value;
	int64_t number;
	uint32_t unit;
};
struct profile_label_set {
	uint32_t first, count; /* into profile.labels; sorted by key string, then as added */
};

struct profile_link {
	uint8_t trace_id[16], span_id[8];
};

struct profile_sample {
	uint32_t stack, labels, link;
	uint32_t numbers; /* a label set of numbers that are no labels of a series (profile/numbers.h); mostly 0 */
	int64_t time_ns;  /* 0 = only the profile's own time range is known */
};

#define PROFILE_OTHER_CLOCK (-1)
struct profile {
	struct intern strings;
	/* Tables: read freely, add through the functions. count includes entry 0. */
	struct profile_mapping *mappings;
	struct profile_function *functions;
	struct profile_line *lines;
	struct profile_location *locations;
	struct profile_stack *stacks;
	struct profile_label *labels;
	struct profile_label_set *label_sets;
	struct profile_link *links;
	struct profile_sample *samples; /* no empty entry 0 */
	int64_t *values;
	size_t mapping_count, function_count, line_count, location_count, stack_count, label_count, label_set_count, link_count,
		sample_count;

	struct profile_value_type *sample_types;
	size_t sample_type_count;
	struct profile_value_type period_type;
	int64_t period;
	int64_t time_ns, duration_ns; /* start of the collection, and its length; 0 = unknown */
	int64_t monotonic_ns;	      /* CLOCK_MONOTONIC of the one machine that it is of at time_ns; 0 = unknown,
					 PROFILE_OTHER_CLOCK = times count from a machine's start, by another clock */
	uint32_t *comments;
	size_t comment_count;
	uint32_t drop_frames, keep_frames, default_sample_type, doc_url; /* strings */
	uint32_t resource_labels; /* label set that holds for every sample (host, service ...); not repeated in the samples'
				     sets */

	uint32_t host_labels; /* label set that describes the host (CPU, kernel, zone ...): no labels of series, though some may
				 be among the resource's, too */

	struct profile_markers *markers; /* profile/markers.h; NULL = none */

	struct profile_index *index; /* private: the interning tables and capacities */
};

int profile_new(struct profile **ret, struct error *err);
struct profile *profile_free(struct profile *profile); /* NULL allowed; returns NULL */
DEFINE_CLEANUP_POINTER(profile_free, struct profile);

/* What is about to be added, as far as it is known: tables that have room for it need not grow, which moves them. A hint that
 * may be wrong: no more than PROFILE_ROOM_MAX of each is believed. 0, or -ENOMEM. */
#define PROFILE_ROOM_MAX 65536
struct profile_room {
	size_t strings, functions, locations, lines, stacks, samples;
};
int profile_make_room(struct profile *profile, const struct profile_room *room, struct error *err);

/* Adding. Each returns 0, -ENOMEM, -E2BIG (limit, named in err), or -EINVAL where said. Ids passed in must be valid (asserted):
 * decoders check theirs first. */
int profile_add_string(struct profile *profile, const void *data, size_t len, uint32_t *ret_id, struct error *err);
int profile_add_cstring(struct profile *profile, const char *text, uint32_t *ret_id, struct error *err);
static inline int profile_add_bytes(struct profile *profile, struct bytes text, uint32_t *ret_id, struct error *err)
{
	return profile_add_string(profile, text.data, text.len, ret_id, err);
}
/* -EINVAL when there are samples already. */
int profile_add_sample_type(struct profile *profile, uint32_t type, uint32_t unit, struct error *err);
/* The same where there are samples: their value of it is 0. */
int profile_append_sample_type(struct profile *profile, uint32_t type, uint32_t unit, struct error *err);
/* profile_add_sample_type(), by its names. */
int profile_add_named_type(struct profile *profile, const char *type, const char *unit, struct error *err);
int profile_add_mapping(struct profile *profile, const struct profile_mapping *mapping, uint32_t *ret_id, struct error *err);
int profile_add_function(struct profile *profile, const struct profile_function *function, uint32_t *ret_id, struct error *err);
/* location->line_first and line_count are ignored; the lines are copied. */
int profile_add_location(struct profile *profile, const struct profile_location *location, const struct profile_line *lines,
			 size_t line_count, uint32_t *ret_id, struct error *err);
/*
 * Replaces the lines of a location (innermost inlined function first), in place, so that stacks and samples stay as they are.
 * location is not 0. The functions must be valid ids (asserted). 0, -ENOMEM or -E2BIG; unchanged on failure.
 *
 * The location is interned under its new content from then on; adding the old content again gives a new location. If a location
 * with the new content was there already, both stay, and adding that content gives one of them. Content hashes
 * (profile_hash_stacks) change with the lines: those that identify stored stacks are taken before. Old lines stay in the table
 * of lines, unused.
 */
int profile_set_location_lines(struct profile *profile, uint32_t location, const struct profile_line *lines, size_t line_count,
			       struct error *err);
int profile_add_stack(struct profile *profile, uint32_t parent, uint32_t location, uint32_t *ret_id, struct error *err);
/* Of one that is not there, for its parent was added just now. */
int profile_add_new_stack(struct profile *profile, uint32_t parent, uint32_t location, uint32_t *ret_id, struct error *err);
/* The id of the stack that profile_add_stack() would find; 0 if it would add one. */
uint32_t profile_find_stack(const struct profile *profile, uint32_t parent, uint32_t location);
/* A stack of `count` more frames above `parent`, root first: ret_stacks[i] is the one that ends with locations[i]. */
int profile_add_stack_frames(struct profile *profile, uint32_t parent, const uint32_t *locations, size_t count,
			     uint32_t *ret_stacks, struct error *err);
/* The samples of a profile, taken out of it with its sample types, so that others can be read into it; what they refer to
 * stays. Nothing when there is no sample type. */
struct profile_samples {
	struct profile_sample *samples;
	int64_t *values;
	size_t count, type_count;
	struct profile_value_type type; /* the first */
};
void profile_take_samples(struct profile *profile, struct profile_samples *ret);
void profile_samples_release(struct profile_samples *samples);
/* Gives back the memory that only adding stacks and samples needs, before something large is made of them. The next one that is
 * added, or profile_aggregate(), makes it again. */
void profile_shrink_stacks(struct profile *profile);
/* locations leaf first, as formats have them. */
int profile_add_stack_leaf_first(struct profile *profile, const uint32_t *locations, size_t count, uint32_t *ret_id,
				 struct error *err);
/* A label of a number without a unit. 0 becomes the text "0": as a number it is the empty text in pprof, which has no place for
 * the difference. */
int profile_number_label(struct profile *profile, uint32_t key, int64_t number, struct profile_label *ret, struct error *err);
/* Sorts a copy by key; equal (key, value, number, unit) entries are kept once; different values of one key are all kept (pprof
 * allows them). */
int profile_add_label_set(struct profile *profile, const struct profile_label *labels, size_t count, uint32_t *ret_id,
			  struct error *err);
int profile_add_link(struct profile *profile, const struct profile_link *link, uint32_t *ret_id, struct error *err);
/* values has sample_type_count entries. Samples are not interned: equal ones stay apart until profile_aggregate(). */
int profile_add_sample(struct profile *profile, const struct profile_sample *sample, const int64_t *values, struct error *err);
int profile_add_comment(struct profile *profile, uint32_t text, struct error *err);
int profile_add_comment_text(struct profile *profile, const char *text, struct error *err);

/* Reading */
const char *profile_string(const struct profile *profile, uint32_t id);
struct bytes profile_string_bytes(const struct profile *profile, uint32_t id);
/* address - start + offset of a location with a mapping, which of a linked one is the linked address; the address itself
 * without one. */
uint64_t profile_location_file_offset(const struct profile *profile, uint32_t location);
/* For who may not know where code lies in a process or in the kernel: addresses of files become their offsets (or stay as
 * linked), all others 0, and functions that are named by an address are called "0x0". Of a profile that is only read from then
 * on: what is added later may not be found equal. */
int profile_hide_addresses(struct profile *profile, struct error *err);
size_t profile_stack_depth(const struct profile *profile, uint32_t stack);
/* Writes up to max location ids, leaf first; returns the full depth. */
size_t profile_stack_locations(const struct profile *profile, uint32_t stack, uint32_t *ret_locations, size_t max);
int64_t profile_total(const struct profile *profile, size_t sample_type); /* sum over samples (base/sum.h) */
/* False if a sum of some of its values may be at a limit of 64 bits, and whoever shows sums of it should say so. */
bool profile_sums_fit(const struct profile *profile);
bool profile_has_key(const struct profile_label *labels, size_t count, uint32_t key);
/* The value of the first string label with this key in the set, or NULL. */
const char *profile_label_value(const struct profile *profile, uint32_t label_set, const char *key);
/* Which sample type a viewer shows first: default_sample_type if it names one, else the last one (as `go tool pprof`). */
size_t profile_default_sample_type(const struct profile *profile);
/* -EINVAL when a name is unknown; index on success. NULL name = default. */
int profile_find_sample_type(const struct profile *profile, const char *name, size_t *ret, struct error *err);

/*
 * Content hashes, the identity of stacks across blocks and hosts: equal frames give equal hashes whatever the ids.
 * hashes[stack] for all stack_count entries: XXH3-128 over (parent's hash, location content). A location's content is its frame
 * type, its lines by function name, system name, file, start line, line and column if it has any, else build-id (file name
 * without one) and file offset. hashes[0] is zero.
 */
int profile_hash_stacks(const struct profile *profile, struct hash128 *ret_hashes, struct error *err);
/* The same for a profile that grows: hashes what was added since the last call. Start from zero; -ENOMEM leaves it valid. */
struct profile_hashes {
	struct hash128 *functions, *locations, *stacks; /* by id */
	size_t function_count, location_count, stack_count, function_capacity, location_capacity, stack_capacity;
};
int profile_hash_more(const struct profile *profile, struct profile_hashes *hashes, struct error *err);
void profile_hashes_release(struct profile_hashes *hashes);

/* Sums samples that agree in (stack, labels, link, numbers, time), in place, keeping first-seen order; samples whose values are
 * all zero are dropped. */
int profile_aggregate(struct profile *profile, struct error *err);

#endif
