/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The frames of a profile, as trees and tables tell them apart: by function, file, binary and type. Made when they are met.
 * Private to src/render.
 */
#ifndef WICK_RENDER_FRAME_SET_H
#define WICK_RENDER_FRAME_SET_H

#include "base/map.h"
#include "render/flame.h"

struct frame {
	uint32_t name;	 /* a text of the set */
	uint32_t file;	 /* string of the profile */
	uint32_t binary; /* string of frame_set.texts */
	uint32_t type;
};
/* Texts of a set: strings of the profile, or FRAME_TEXT | string of frame_set.texts. */
#define FRAME_TEXT 0x80000000u

/* Where a frame's function is in its file: as declared, or the smallest line that was seen of it; 0 = unknown. No part of what
 * tells frames apart: the same function has no line in one binary and one in another. */
struct place_in_file {
	uint32_t declared, smallest;
};

struct frame_set {
	const struct profile *profile;
	enum flame_unnamed unnamed;
	bool by_name; /* frames of one name are one */
	struct frame *frames;
	struct place_in_file *lines; /* by frame */
	size_t count, capacity, line_capacity;
	struct index32 index;
	struct intern texts;
	uint32_t *line_frames, *location_frames; /* by line, by location without lines; + 1 */
	struct site {
		uint32_t line_first, line_count;
	} * sites;		    /* by location: what is needed of it all the time */
	uint32_t *location_texts;   /* by location: name made of its address; + 1 */
	uint32_t *mapping_binaries; /* by mapping: string of texts, + 1 */
};

/* -ENOMEM. Released in any case. */
int frame_set_init(struct frame_set *set, const struct profile *profile, enum flame_unnamed unnamed, bool by_name,
		   struct error *err);
void frame_set_release(struct frame_set *set);
/* The frame of one line of a location; line 0 also of one that has none. */
int frame_set_take(struct frame_set *set, uint32_t location, uint32_t line, uint32_t *ret, struct error *err);
struct bytes frame_set_text(const struct frame_set *set, uint32_t text);
/* The same, NUL-terminated, as all strings of an intern are. */
static inline const char *frame_set_string(const struct frame_set *set, uint32_t text)
{
	return (const char *)frame_set_text(set, text).data;
}
/* 0 = unknown */
static inline uint32_t frame_set_line(const struct frame_set *set, uint32_t frame)
{
	return set->lines[frame].declared ? set->lines[frame].declared : set->lines[frame].smallest;
}
static inline uint32_t frame_set_line_count(const struct frame_set *set, uint32_t stack)
{
	return set->sites[set->profile->stacks[stack].location].line_count;
}
/* intern_add() with errors. */
int frame_set_add_text(struct intern *strings, struct bytes text, uint32_t *ret, struct error *err);

#endif
