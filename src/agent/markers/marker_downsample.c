/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a recording keeps of more markers than there is room for.
 *
 * A million markers a second fill any memory, and a viewer long before that. Keeping the first ones would show the beginning of
 * a recording and nothing of the rest, keeping the last ones the opposite; a file on disk moves the limit, and gives a profile
 * that nobody can open. So what is kept covers the whole time, and becomes sparser: whenever the room is used up, markers that
 * are like many others go, and of those that come from then on as few are taken.
 *
 * Alike are markers that last about as long: classes are the powers of two of nanoseconds, and instants. Each class has a
 * shift, and of it one marker of 2^shift is kept, by a hash of its number in the order of arrival: every n-th one would be the
 * same of a few that take turns. When there is no room, the class with the most markers has its shift increased and half of
 * them go, then again, until a quarter of the room is free. What is frequent and short becomes sparse, what is rare or long
 * stays to the last one; within a class all of the time is treated alike.
 *
 * Whose ends must not be parted are classes of their own. Of flows those are kept whose number has a hash that ends in `shift`
 * zero bits: the same for all threads, processes and hosts, so that a flow is there as a whole. Likewise the open ends of
 * asynchronous spans, by site and id; whole ones are spans. A program that has all its markers in one flow has them all or
 * none, and what finds no room is left out. Rows of counters are a class as well: of a counter of events the values of rows
 * that go are added to the next one that stays.
 *
 * Every marker that goes, now or earlier, is in left_out. One pass takes some 0.3 s for eight million markers; meanwhile rings
 * fill, which have room for 8,192 markers of each thread.
 */

#include "agent/markers/marker_recorder_int.h"
#include "base/alloc.h"
#include "base/hash.h"
#include "profile/downsample.h"

#define SHIFT_MAX   40
#define FREED_LEAST 16 /* a pass that frees less than that part of the room is not worth another one */

static bool is_of_class(uint64_t key, unsigned shift)
{
	return (hash64_mix(key) & ((1ull << shift) - 1)) == 0;
}

unsigned marker_class(const struct profile_marker *marker)
{
	if (marker->phase == PROFILE_MARKER_START || marker->phase == PROFILE_MARKER_END)
		return MARKER_CLASS_ASYNC;
	if (marker->flow)
		return MARKER_CLASS_FLOW;
	uint64_t ns = marker->phase == PROFILE_MARKER_INTERVAL ? (uint64_t)(marker->end_ns - marker->start_ns) : 0;
	return ns ? 64 - (unsigned)__builtin_clzll(ns) : 0;
}

bool marker_downsample_keeps(struct marker_downsample *downsample, unsigned class, uint64_t key)
{
	unsigned shift = downsample->shifts[class];
	if (shift == 0)
		return true;
	return is_of_class(class == MARKER_CLASS_FLOW || class == MARKER_CLASS_ASYNC ? key : downsample->seen[class]++, shift);
}

/* By how much each class has to be downsampled, so that a quarter of the room is free. */
static void choose(struct marker_downsample *downsample, const struct profile_markers *markers, size_t max,
		   unsigned more[MARKER_CLASSES])
{
	size_t counts[MARKER_CLASSES] = {0}, all = markers->marker_count + markers->row_count;
	size_t enough = (all < max ? all : max) / 4 * 3;
	counts[MARKER_CLASS_ROWS] = markers->row_count;
	for (size_t i = 0; i < markers->marker_count; i++)
		counts[marker_class(&markers->markers[i])]++;
	while (all > enough) {
		unsigned most = 0;
		for (unsigned i = 1; i < MARKER_CLASSES; i++)
			if (counts[i] > counts[most])
				most = i;
		if (downsample->shifts[most] == SHIFT_MAX)
			break;
		all -= counts[most] - counts[most] / 2;
		counts[most] /= 2;
		more[most]++;
		downsample->shifts[most]++;
	}
}

static int downsample_rows(struct marker_output *output, unsigned more, struct error *err)
{
	size_t before = output->profile->markers->row_count;
	int r = profile_downsample_rows(output->profile, more, err);
	size_t gone = before - output->profile->markers->row_count;
	output->stats.rows -= gone;
	output->stats.left_out += gone;
	return r;
}

/* Which markers go. Returns how many of the program's: our own notices of losses are not in the counts. Open ends of
 * asynchronous spans go by their keys, if a file still waits for the other end. */
static size_t choose_markers(struct marker_output *output, const unsigned more[MARKER_CLASSES], uint32_t *places)
{
	const struct profile_markers *markers = output->profile->markers;
	const uint8_t *shifts = output->downsample.shifts;
	enum { STAYS = 1 };
	uint64_t key, place;
	size_t gone = 0;
	for (const struct marker_file *file = output->files; file; file = file->next)
		for (size_t cursor = 0; map64_next(&file->asyncs, &cursor, &key, &place);)
			if (place < markers->marker_count && marker_class(&markers->markers[place]) == MARKER_CLASS_ASYNC)
				places[place] = is_of_class(marker_async_key(key), shifts[MARKER_CLASS_ASYNC])
							? STAYS
							: PROFILE_MARKER_REMOVED;
	for (size_t i = 0; i < markers->marker_count; i++) {
		const struct profile_marker *marker = &markers->markers[i];
		unsigned class = marker_class(marker);
		bool stays = class == MARKER_CLASS_FLOW ? is_of_class(marker->flow, shifts[class])
							: is_of_class(output->downsample.drawn++, more[class]);
		if (places[i] == 0 && !stays)
			places[i] = PROFILE_MARKER_REMOVED;
		gone += places[i] == PROFILE_MARKER_REMOVED && !(marker->schema && marker->schema == output->lost_schema);
	}
	return gone;
}

/* Files know markers by their places. */
static int follow_markers(struct marker_file *file, const uint32_t *places, size_t count, struct error *err)
{
	struct map64 asyncs;
	uint64_t key, place;
	int r = 0;
	map64_init_guarded(&asyncs);
	for (size_t cursor = 0; r == 0 && map64_next(&file->asyncs, &cursor, &key, &place);)
		if (place < count && places[place] != PROFILE_MARKER_REMOVED)
			r = map64_put(&asyncs, key, places[place]);
	map64_release(&file->asyncs);
	file->asyncs = asyncs;
	return r < 0 ? error_nomem(err) : 0;
}

int marker_downsample(struct marker_output *output, struct error *err)
{
	struct profile_markers *markers = output->profile->markers;
	unsigned more[MARKER_CLASSES] = {0};
	size_t before = markers->marker_count, all = before + markers->row_count;
	choose(&output->downsample, markers, output->max, more);
	int r = more[MARKER_CLASS_ROWS] ? downsample_rows(output, more[MARKER_CLASS_ROWS], err) : 0;
	uint32_t *places = r == 0 ? mem_zalloc_array(before + 1, sizeof(*places)) : NULL;
	if (r == 0 && !places)
		r = error_nomem(err);
	if (r == 0) {
		size_t gone = choose_markers(output, more, places);
		profile_remove_markers(output->profile, places);
		output->stats.markers -= gone;
		output->stats.left_out += gone;
	}
	for (struct marker_file *file = output->files; r == 0 && file; file = file->next)
		r = follow_markers(file, places, before, err);
	mem_free(places);
	output->downsample.is_stuck = all - markers->marker_count - markers->row_count < output->max / FREED_LEAST;
	return r;
}
