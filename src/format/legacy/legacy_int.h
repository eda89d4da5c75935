/* SPDX-License-Identifier: Apache-2.0 */
/* Private to src/format/legacy: what the readers of the single formats fill. */
#ifndef WICK_FORMAT_LEGACY_LEGACY_INT_H
#define WICK_FORMAT_LEGACY_LEGACY_INT_H

#include "base/map.h"
#include "format/format_int.h"
#include "format/legacy/legacy.h"

#define LEGACY_VALUES_MAX 4

struct legacy_address {
	uint64_t address;
	uint32_t mapping;  /* + 1; 0 = none */
	uint32_t function; /* of Java: a function of the profile; 0 = not named */
	int64_t line;
};

struct legacy_sample {
	size_t first; /* into frames */
	size_t count;
	int64_t values[LEGACY_VALUES_MAX];
	int64_t block_bytes; /* 0 = not told */
};

struct legacy_mapping {
	uint64_t start, limit, offset;
	uint32_t file, build_id; /* strings of the profile */
};

struct legacy {
	struct profile *profile;
	struct legacy_address *addresses; /* each once */
	size_t address_count, address_capacity;
	struct map64 number_of_address;
	uint32_t *frames; /* numbers of addresses, leaf first */
	size_t frame_count, frame_capacity;
	struct legacy_sample *samples;
	size_t sample_count, sample_capacity;
	struct legacy_mapping *mappings;
	size_t mapping_count, mapping_capacity;
	bool is_java; /* addresses are ids of locations */
	struct {
		uint64_t cut_stacks, unread_lines;
	} counts;
};

/* Each begins a sample, whose frames come next, leaf first. */
int legacy_begin_sample(struct legacy *legacy, const int64_t *values, size_t count, struct error *err);
int legacy_add_frame(struct legacy *legacy, uint64_t address, struct error *err);
/* Adds the frames of all numbers with 0x in the text. Those of the sample from this depth on are where calls return to.
 * -EBADMSG for a number of more than 64 bits. */
int legacy_add_frames(struct legacy *legacy, struct bytes text, size_t returns_from, struct error *err);
#define LEGACY_NO_RETURNS SIZE_MAX
uint64_t legacy_frame(const struct legacy *legacy, const struct legacy_sample *sample, size_t depth);
/* Takes out a frame. */
void legacy_drop_frame(struct legacy *legacy, struct legacy_sample *sample, size_t depth);
/* The leaf may be there twice, from the signal's context and from the stack. */
void legacy_drop_doubled_leaves(struct legacy *legacy);

/* The readers, one for each kind: input is all of the file. */
int legacy_read_cpu(struct legacy *legacy, struct bytes input, struct error *err);
int legacy_read_heap(struct legacy *legacy, struct bytes input, struct error *err);
int legacy_read_counts(struct legacy *legacy, struct bytes input, struct error *err);
int legacy_read_threads(struct legacy *legacy, struct bytes input, struct error *err);
int legacy_read_contention(struct legacy *legacy, struct bytes input, struct error *err);
int legacy_read_java(struct legacy *legacy, struct bytes input, struct error *err);
/* Java's: "0xADDRESS NAME (FILE:LINE)", to the end of the text. */
int legacy_read_java_locations(struct legacy *legacy, struct bytes text, struct error *err);

/* legacy_maps.c: mappings, a line each, to the end of the text; and which mapping each address lies in. */
int legacy_read_maps(struct legacy *legacy, struct bytes text, struct error *err);
int legacy_place_addresses(struct legacy *legacy, struct error *err);
bool legacy_begins_maps(struct bytes line);
/* Passes lines until the mappings begin, then reads those. */
int legacy_find_maps(struct legacy *legacy, struct bytes text, struct error *err);

/* ---- lines ---- */

/* Reads forward in a line. */
struct legacy_scan {
	struct bytes rest;
};
bool scan_text(struct legacy_scan *scan, const char *text); /* takes it, if it comes next */
void scan_blanks(struct legacy_scan *scan);		    /* spaces only */
bool scan_digits(struct legacy_scan *scan, struct bytes *ret);
/* Of decimal digits with or without a '-'. */
bool legacy_number(struct bytes digits, int64_t *ret);
/* The same, also 0x10 and 017. */
bool legacy_any_number(struct bytes text, int64_t *ret);
bool legacy_hex(struct bytes digits, uint64_t *ret);
bool legacy_is_space(uint8_t c); /* of ASCII, with line ends */
struct bytes legacy_trim(struct bytes text);
bool legacy_is_comment(struct bytes line); /* or empty */
/* Where a number begins at or after `from`: a digit that none comes before, or the '-' before it if `is_signed`; text.len =
 * there is none. */
size_t legacy_find_number(struct bytes text, size_t from, bool is_signed);
/* Estimates of what was allocated, of samples by bytes. */
void legacy_scale_heap(int64_t rate, int64_t *count, int64_t *size);
int64_t legacy_clamp(double value);

#endif
