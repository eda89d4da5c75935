/* SPDX-License-Identifier: Apache-2.0 */
#include "render/frame_set.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/alloc.h"
#include "base/limits.h"
#include "base/text.h"

int frame_set_init(struct frame_set *set, const struct profile *profile, enum flame_unnamed unnamed, bool by_name,
		   struct error *err)
{
	*set = (struct frame_set){.profile = profile, .unnamed = unnamed, .by_name = by_name};
	if (intern_init(&set->texts, LIMIT_PROFILE_STRING_BYTES) < 0)
		return error_nomem(err);
	set->sites = mem_alloc_array(profile->location_count, sizeof(*set->sites));
	set->line_frames = mem_zalloc_array(profile->line_count + 1, sizeof(uint32_t));
	set->location_frames = mem_zalloc_array(profile->location_count, sizeof(uint32_t));
	set->location_texts = mem_zalloc_array(profile->location_count, sizeof(uint32_t));
	set->mapping_binaries = mem_zalloc_array(profile->mapping_count, sizeof(uint32_t));
	if (!set->sites || !set->line_frames || !set->location_frames || !set->location_texts || !set->mapping_binaries)
		return error_nomem(err);
	for (size_t i = 0; i < profile->location_count; i++)
		set->sites[i] = (struct site){profile->locations[i].line_first, profile->locations[i].line_count};
	return 0;
}

void frame_set_release(struct frame_set *set)
{
	mem_free(set->frames);
	mem_free(set->lines);
	mem_free(set->line_frames);
	mem_free(set->location_frames);
	mem_free(set->sites);
	mem_free(set->location_texts);
	mem_free(set->mapping_binaries);
	index32_release(&set->index);
	intern_release(&set->texts);
	*set = (struct frame_set){0};
}

int frame_set_add_text(struct intern *strings, struct bytes text, uint32_t *ret, struct error *err)
{
	int r = intern_add(strings, text.data, text.len, ret);
	if (r == -E2BIG)
		return error_set(err, r, "the names in the flame graph have more than %zu bytes, the limit",
				 strings->arena.max_bytes);
	return r < 0 ? error_nomem(err) : 0;
}

static int take_binary(struct frame_set *set, uint32_t mapping, uint32_t *ret, struct error *err)
{
	if (set->mapping_binaries[mapping] == 0) {
		struct bytes name =
			text_binary_name(profile_string_bytes(set->profile, set->profile->mappings[mapping].file_name));
		int r = frame_set_add_text(&set->texts, name, ret, err);
		if (r < 0)
			return r;
		set->mapping_binaries[mapping] = *ret + 1;
	}
	*ret = set->mapping_binaries[mapping] - 1;
	return 0;
}

/* "BINARY+0xOFFSET", or "0xADDRESS" without a binary; "[BINARY]" or "<unknown>" when addresses do not matter. */
static int write_address(const struct frame_set *set, uint32_t location, struct bytes binary, struct buffer *out)
{
	int len = (int)binary.len;
	if (set->unnamed == FLAME_UNNAMED_BY_BINARY)
		return len == 0		       ? buffer_append_string(out, "<unknown>")
		       : binary.data[0] == '[' ? buffer_append(out, binary.data, binary.len)
					       : buffer_printf(out, "[%.*s]", len, (const char *)binary.data);
	if (len == 0)
		return buffer_printf(out, "0x%" PRIx64, set->profile->locations[location].address);
	return buffer_printf(out, "%.*s+0x%" PRIx64, len, (const char *)binary.data,
			     profile_location_file_offset(set->profile, location));
}

/* A function may have the very name that is made up here; they are one, then. */
static int take_address(struct frame_set *set, uint32_t location, uint32_t binary, uint32_t *ret, struct error *err)
{
	if (set->location_texts[location] == 0) {
		_cleanup_(buffer_release) struct buffer text = {.max = SIZE_MAX};
		uint32_t id;
		if (write_address(set, location, intern_get(&set->texts, binary), &text) < 0)
			return error_nomem(err);
		if (!intern_find(&set->profile->strings, text.data, text.len, &id)) {
			int r = frame_set_add_text(&set->texts, buffer_bytes(&text), &id, err);
			if (r < 0)
				return r;
			id |= FRAME_TEXT;
		}
		set->location_texts[location] = id + 1;
	}
	*ret = set->location_texts[location] - 1;
	return 0;
}

static int intern_frame(struct frame_set *set, const struct frame *frame, uint32_t *ret, struct error *err)
{
	uint64_t hash =
		hash64_mix((uint64_t)frame->name << 32 | frame->file) ^ hash64_mix((uint64_t)frame->binary << 3 | frame->type);
	for (size_t at = index32_first(&set->index, hash); index32_at(&set->index, hash, &at, ret); at++)
		if (memcmp(&set->frames[*ret], frame, sizeof(*frame)) == 0)
			return 0;
	if (array_reserve(&set->frames, &set->capacity, set->count + 1, FRAME_TEXT) < 0 ||
	    array_reserve(&set->lines, &set->line_capacity, set->count + 1, FRAME_TEXT) < 0 ||
	    index32_add(&set->index, hash, (uint32_t)set->count) < 0)
		return error_nomem(err);
	*ret = (uint32_t)set->count++;
	set->frames[*ret] = *frame;
	set->lines[*ret] = (struct place_in_file){0};
	return 0;
}

static void take_smaller(uint32_t *line, int64_t other)
{
	if (other > 0 && other <= INT32_MAX && (*line == 0 || other < *line))
		*line = (uint32_t)other;
}

/* The frame of one line of a location, or of the location itself when `line` is NULL. */
static int make_frame(struct frame_set *set, uint32_t location, const struct profile_line *line, uint32_t *ret,
		      struct error *err)
{
	const struct profile *profile = set->profile;
	struct frame frame = {.type = profile->locations[location].frame_type & 7};
	int r = take_binary(set, profile->locations[location].mapping, &frame.binary, err);
	if (r < 0)
		return r;
	if (frame.type == PROFILE_FRAME_UNKNOWN && bytes_start_with(intern_get(&set->texts, frame.binary), "[kernel"))
		frame.type = PROFILE_FRAME_KERNEL;
	if (line) {
		const struct profile_function *function = &profile->functions[line->function];
		frame.name = function->name ? function->name : function->system_name;
		frame.file = function->file_name;
	}
	if (frame.name == 0)
		r = take_address(set, location, frame.binary, &frame.name, err);
	if (set->by_name)
		frame = (struct frame){.name = frame.name};
	if (r == 0)
		r = intern_frame(set, &frame, ret, err);
	if (r == 0 && line) {
		take_smaller(&set->lines[*ret].declared, profile->functions[line->function].start_line);
		take_smaller(&set->lines[*ret].smallest, line->line);
	}
	return r;
}

int frame_set_take(struct frame_set *set, uint32_t location, uint32_t line, uint32_t *ret, struct error *err)
{
	struct site site = set->sites[location];
	uint32_t *known = site.line_count ? &set->line_frames[site.line_first + line] : &set->location_frames[location];
	if (*known == 0) {
		int r = make_frame(set, location, site.line_count ? &set->profile->lines[site.line_first + line] : NULL, ret,
				   err);
		if (r < 0)
			return r;
		*known = *ret + 1;
	}
	*ret = *known - 1;
	return 0;
}

struct bytes frame_set_text(const struct frame_set *set, uint32_t text)
{
	return text & FRAME_TEXT ? intern_get(&set->texts, text & ~FRAME_TEXT) : intern_get(&set->profile->strings, text);
}
