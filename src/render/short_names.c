/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Short names: a C++ template's name can be longer than a screen is wide, and what distinguishes it from others is mostly in
 * front of the first bracket. Functions of one file and binary whose short names agree become one node or row, since a frame is
 * known by name, file and binary; their values add up.
 *
 * Only the names of functions change, in place: ids, files, lines and mangled names stay, so the profile remains what it is to
 * everything that goes by ids. Names that are not a compiler's (of interpreters, of JITs, of labels that stand as frames) may
 * hold brackets that mean something else, and are left alone.
 */
#include <errno.h>

#include "base/alloc.h"
#include "base/budget.h"
#include "elf/demangle/demangle.h"
#include "render/flame.h"

#define UNKNOWN UINT32_MAX

/* True for functions of which at least one frame is of compiled code. Frames of unknown type are that if they are in a binary.
 */
static void mark_compiled(const struct profile *profile, bool *compiled)
{
	for (size_t i = 1; i < profile->location_count; i++) {
		const struct profile_location *location = &profile->locations[i];
		if (location->frame_type == PROFILE_FRAME_INTERPRETED || location->frame_type == PROFILE_FRAME_JIT ||
		    (location->frame_type == PROFILE_FRAME_UNKNOWN && location->mapping == 0))
			continue;
		for (uint32_t k = 0; k < location->line_count; k++)
			compiled[profile->lines[location->line_first + k].function] = true;
	}
}

static int shorten(struct profile *profile, uint32_t name, struct buffer *text, uint32_t *ret, struct error *err)
{
	buffer_clear(text);
	int r = demangle_short(profile_string(profile, name), text);
	if (r < 0)
		return r == -ENOMEM ? error_nomem(err) : error_set(err, r, "a function's short name is too long");
	return profile_add_string(profile, text->data, text->len, ret, err);
}

int render_shorten_names(struct profile *profile, struct error *err)
{
	size_t known = profile->strings.count;
	_cleanup_(mem_freep) uint32_t *names = mem_alloc_array(known, sizeof(*names)); /* by string: its short form */
	_cleanup_(mem_freep) bool *compiled = mem_zalloc_array(profile->function_count, sizeof(*compiled));
	_cleanup_(buffer_release) struct buffer text = {.max = SIZE_MAX};
	if (!names || !compiled)
		return error_nomem(err);
	mark_compiled(profile, compiled);
	for (size_t i = 0; i < known; i++)
		names[i] = UNKNOWN;
	for (size_t i = 1; i < profile->function_count; i++) {
		struct profile_function *function = &profile->functions[i];
		if (!compiled[i] || function->name == 0)
			continue;
		uint32_t *name = &names[function->name];
		int r = budget_poll()	   ? error_nomem(err)
			: *name == UNKNOWN ? shorten(profile, function->name, &text, name, err)
					   : 0;
		if (r < 0)
			return r;
		function->name = *name;
	}
	return 0;
}
