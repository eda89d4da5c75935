/* SPDX-License-Identifier: Apache-2.0 */
/* gperftools' CPU profiles, of words; legacy.c has the layout. */
#include <errno.h>

#include "base/time.h"
#include "format/legacy/legacy_int.h"

struct words {
	struct bytes rest;
	unsigned size;
	bool is_big;
};

/* 0 past the end, and the rest is empty from then on. */
static uint64_t take_word(struct words *words)
{
	uint64_t value = 0;
	if (words->rest.len < words->size) {
		words->rest.len = 0;
		return 0;
	}
	for (unsigned i = 0; i < words->size; i++) {
		uint64_t byte = words->rest.data[i];
		value = words->is_big ? value << 8 | byte : value | byte << (8 * i);
	}
	words->rest = bytes_skip(words->rest, words->size);
	return value;
}

/* Which words they are shows in the header. */
static bool read_header(struct bytes input, struct words *ret, uint64_t *ret_period, bool *ret_is_java)
{
	for (unsigned i = 0; i < 4; i++) {
		struct words words = {input, i < 2 ? 4 : 8, i & 1};
		if (input.len < 5ul * words.size)
			continue;
		uint64_t header[5];
		for (unsigned k = 0; k < 5; k++)
			header[k] = take_word(&words);
		if (header[0] != 0 || header[1] != 3 || header[2] > 1 || header[3] == 0 || header[4] != 0)
			continue;
		*ret = words;
		*ret_period = header[3];
		*ret_is_java = header[2];
		return true;
	}
	return false;
}

/* A sample; 1 = it was the end. */
static int read_sample(struct legacy *legacy, struct words *words, struct error *err)
{
	uint64_t count = take_word(words), depth = take_word(words), address = 0;
	if (words->rest.len == 0 || depth > words->rest.len / 4)
		return error_set(err, -EBADMSG, "sample %zu: its stack of %llu frames does not fit in the file",
				 legacy->sample_count, (unsigned long long)depth);
	struct words first = *words;
	if (count == 0 && depth == 1 && take_word(&first) == 0) {
		*words = first;
		return 1;
	}
	int64_t values[2] = {(int64_t)count, (int64_t)(count * (uint64_t)legacy->profile->period)};
	int r = legacy_begin_sample(legacy, values, 2, err);
	for (uint64_t i = 0; r == 0 && i < depth; i++) {
		if (words->rest.len < words->size) {
			legacy->counts.cut_stacks++;
			words->rest.len = 0;
			break;
		}
		address = take_word(words);
		r = legacy_add_frame(legacy, address - (i > 0 && !legacy->is_java), err);
	}
	return r;
}

/* Which address is the second one of nearly all stacks; false if none is. */
static bool find_common_frame(const struct legacy *legacy, uint64_t *ret)
{
	size_t needed = legacy->sample_count - legacy->sample_count / 32, at = 0, lead = 0;
	/* What more than half of them have is what is left when different ones are struck off in pairs. */
	for (size_t i = 0; i < legacy->sample_count; i++) {
		const struct legacy_sample *sample = &legacy->samples[i];
		if (sample->count < 2)
			continue;
		uint64_t address = legacy_frame(legacy, sample, 1);
		if (lead == 0)
			*ret = address;
		lead += lead == 0 || address == *ret ? 1 : (size_t)-1;
	}
	for (size_t i = 0; i < legacy->sample_count; i++)
		at += legacy->samples[i].count > 1 && legacy_frame(legacy, &legacy->samples[i], 1) == *ret;
	return at > 0 && at >= needed;
}

/* The frames of the signal handler, up to two, which stand between the leaf and its caller. */
static void drop_handler(struct legacy *legacy)
{
	uint64_t common = 0;
	for (unsigned times = 0; times < 2 && find_common_frame(legacy, &common); times++)
		for (size_t i = 0; i < legacy->sample_count; i++)
			if (legacy->samples[i].count > 1 && legacy_frame(legacy, &legacy->samples[i], 1) == common)
				legacy_drop_frame(legacy, &legacy->samples[i], 1);
}

int legacy_read_cpu(struct legacy *legacy, struct bytes input, struct error *err)
{
	struct words words;
	uint64_t period;
	if (!read_header(input, &words, &period, &legacy->is_java))
		return error_set(err, -EBADMSG, "unknown header; the words should be 0, 3, 0 or 1, the period, 0");
	if (period > INT64_MAX / NS_PER_US)
		return error_set(err, -EBADMSG, "a period of %llu microseconds is out of range", (unsigned long long)period);
	legacy->profile->period = (int64_t)period * NS_PER_US;
	int r = profile_add_named_type(legacy->profile, "samples", "count", err);
	if (r == 0)
		r = profile_add_named_type(legacy->profile, "cpu", "nanoseconds", err);
	if (r == 0)
		legacy->profile->period_type = legacy->profile->sample_types[1];
	while (r == 0 && words.rest.len > 0)
		r = read_sample(legacy, &words, err);
	if (r < 0)
		return r;
	if (legacy->is_java)
		return legacy_read_java_locations(legacy, words.rest, err);
	drop_handler(legacy);
	legacy_drop_doubled_leaves(legacy);
	return legacy_read_maps(legacy, words.rest, err);
}
