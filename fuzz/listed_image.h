/* SPDX-License-Identifier: Apache-2.0 */
/* For fuzzing of runtimes: the input is the memory of a process, in which lists of frames and native stacks lie. */
#ifndef WICK_FUZZ_LISTED_IMAGE_H
#define WICK_FUZZ_LISTED_IMAGE_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/buffer.h"
#include "bpf/unwind.h"
#include "must.h"
#include "runtime/function.h"

#define START 0x100000ull /* of the memory; low, so that its own words can point to it */

static struct bytes image;

static inline int image_read(void *to, size_t bytes, uint64_t address)
{
	if (address < START || address - START > image.len || image.len - (address - START) < bytes)
		return UNWIND_BAD_READ;
	memcpy(to, image.data + (address - START), bytes);
	return 0;
}

static inline int read_memory(void *context, uint64_t address, void *to, size_t bytes)
{
	(void)context;
	return image_read(to, bytes, address) == 0 ? 0 : -14; /* EFAULT */
}

/* By frame pointers, in whatever lies in the memory: code of that state. */
#ifndef IMAGE_STATE
#define IMAGE_STATE UNWIND_SLOT_FRAMES
#endif
#define WALK_HEAP16(place)		    ((void)(place), (__u16)0)
#define WALK_HEAP32(place)		    ((void)(place), 0u)
#define WALK_HEAP64(place)		    ((void)(place), 0ull)
#define WALK_READ(walk, to, bytes, address) image_read(to, bytes, address)
#define WALK_MAP(walk, address)                                                                                                \
	((address)-START < image.len ? (walk_set_map(&(walk)->map, START, START + image.len, 0, IMAGE_STATE, 0), 0)            \
				     : UNWIND_NO_MAPPING)
#define WALK_THREAD(walk, ret) (*(ret) = START, 0)
#include "bpf/walk.h"

static inline int meet(struct walk *walk)
{
	unsigned steps = 0;

	listed_meet(walk);
	while (walk->listed_appends == LISTED_APPENDS_PART && ++steps <= LISTED_FRAMES_MAX)
		listed_go_on(walk);
	must(walk->listed_appends != LISTED_APPENDS_PART);
	return walk->listed_appends ? UNWIND_TOO_DEEP : WALK_GOES_ON;
}

/* From a leaf: ends, within its bounds. */
static inline void go_through(struct walk *walk, uint64_t sp, uint64_t ip)
{
	unsigned steps = 0;

	walk->registers[UNWIND_REGISTER_SP] = walk->registers[UNWIND_REGISTER_FP] = sp;
	walk->known = ~0u;
	walk_begin(walk, ip, 1);
	int r = meet(walk);
	while (r == WALK_GOES_ON) {
		walk->listed_sp = walk->registers[UNWIND_REGISTER_SP];
		r = walk_step(walk);
		if (r == WALK_GOES_ON)
			r = meet(walk);
		must(++steps <= UNWIND_FRAMES_MAX);
	}
	must(r >= 0 && r < UNWIND_RESULTS);
	while (listed_append_pending(walk))
		;
	must(walk->depth >= 1 && walk->depth <= UNWIND_FRAMES_MAX && walk->listed_next <= walk->listed_count);
}

static inline void check_text(const char *text)
{
	must(memchr(text, 0, RUNTIME_NAME_BYTES_MAX) != NULL);
	for (; *text; text++)
		must((unsigned char)*text >= 0x20 && *text != 0x7f);
}

#endif
