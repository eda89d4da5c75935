/* SPDX-License-Identifier: Apache-2.0 */
#include "server/parca/functions.h"

#include <errno.h>
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/sum.h"
#include "render/units.h"

struct walk {
	struct parca_functions *f;
	bool with_calls;
	uint64_t stamp; /* of the sample */
	int64_t value, base;
	uint32_t last; /* the function that was called; UINT32_MAX at the leaf */
};

void parca_functions_release(struct parca_functions *f)
{
	mem_free(f->items);
	mem_free(f->calls);
	mem_free(f->by_line);
	mem_free(f->by_location);
	intern_release(&f->keys);
	map64_release(&f->call_index);
}

int64_t parca_difference(int64_t value, int64_t base, double scale)
{
	return sum_difference(value, units_whole(round((double)base * scale)));
}

uint32_t parca_line_name(const struct profile *profile, uint32_t line)
{
	const struct profile_function *function =
		&profile->functions[line == PARCA_NO_LINE ? 0 : profile->lines[line].function];
	return function->name ? function->name : function->system_name;
}

/* The function of a line, or of a location without lines. */
static int find_function(struct parca_functions *f, uint32_t location, uint32_t line, uint32_t *ret, struct error *err)
{
	uint32_t *known = line == PARCA_NO_LINE ? &f->by_location[location] : &f->by_line[line];
	struct {
		uint32_t name, mapping;
		uint64_t address;
	} key = {.name = parca_line_name(f->profile, line)};
	*ret = *known;
	if (*ret != UINT32_MAX)
		return 0;
	if (!key.name) {
		key.mapping = f->profile->locations[location].mapping;
		key.address = profile_location_file_offset(f->profile, location);
	}
	if (f->count >= PARCA_FUNCTIONS_MAX)
		return error_set(err, -E2BIG, "more than %u functions", PARCA_FUNCTIONS_MAX);
	if (intern_add(&f->keys, &key, sizeof(key), ret) < 0)
		return error_nomem(err);
	--*ret;
	*known = *ret;
	if (*ret < f->count)
		return 0;
	return array_push(&f->items, &f->count, &f->capacity, PARCA_FUNCTIONS_MAX,
			  (struct parca_function){.location = location, .line = line}) < 0
		       ? error_nomem(err)
		       : 0;
}

static int add_call(struct walk *w, uint32_t caller, struct error *err)
{
	struct parca_functions *f = w->f;
	uint64_t key = (uint64_t)caller << 32 | w->last, at;
	if (!map64_get(&f->call_index, key, &at)) {
		at = f->call_count;
		int r = array_push(&f->calls, &f->call_count, &f->call_capacity, PARCA_FUNCTIONS_MAX,
				   (struct parca_call){.caller = caller, .callee = w->last});
		if (r == -E2BIG)
			return error_set(err, -E2BIG, "more than %u calls", PARCA_FUNCTIONS_MAX);
		if (r < 0 || map64_put(&f->call_index, key, at) < 0)
			return error_nomem(err);
	}
	if (f->calls[at].stamp != w->stamp)
		sum_to(&f->calls[at].total, w->value);
	f->calls[at].stamp = w->stamp;
	return 0;
}

static int count_frame(struct walk *w, uint32_t location, uint32_t line, struct error *err)
{
	struct parca_functions *f = w->f;
	uint32_t which;
	int r = find_function(f, location, line, &which, err);
	if (r < 0)
		return r;
	struct parca_function *function = &f->items[which];
	if (w->last == UINT32_MAX) {
		sum_to(&function->flat, w->value);
		sum_to(&function->flat_base, w->base);
	} else if (w->with_calls) {
		r = add_call(w, which, err);
	}
	if (function->stamp != w->stamp) {
		sum_to(&function->total, w->value);
		sum_to(&function->total_base, w->base);
	}
	function->stamp = w->stamp;
	w->last = which;
	return r;
}

static int count_stack(struct walk *w, uint32_t stack, struct error *err)
{
	const struct profile *profile = w->f->profile;
	int r = 0;
	for (; !r && stack; stack = profile->stacks[stack].parent) {
		uint32_t location = profile->stacks[stack].location;
		const struct profile_location *at = &profile->locations[location];
		if (!at->line_count)
			r = count_frame(w, location, PARCA_NO_LINE, err);
		for (uint32_t i = 0; !r && i < at->line_count; i++)
			r = count_frame(w, location, at->line_first + i, err);
	}
	return r;
}

static int begin(struct parca_functions *f, const struct profile *profile, struct error *err)
{
	*f = (struct parca_functions){.profile = profile};
	map64_init_guarded(&f->call_index);
	f->by_line = mem_alloc_array(profile->line_count + 1, sizeof(*f->by_line));
	f->by_location = mem_alloc_array(profile->location_count + 1, sizeof(*f->by_location));
	if (!f->by_line || !f->by_location || intern_init(&f->keys, SIZE_MAX) < 0)
		return error_nomem(err);
	memset(f->by_line, 0xff, (profile->line_count + 1) * sizeof(*f->by_line));
	memset(f->by_location, 0xff, (profile->location_count + 1) * sizeof(*f->by_location));
	return 0;
}

int parca_functions_build(const struct profile *profile, bool with_calls, const atomic_bool *cancel,
			  struct parca_functions *ret, struct error *err)
{
	size_t types = profile->sample_type_count;
	int r = begin(ret, profile, err);
	for (size_t i = 0; !r && i < profile->sample_count; i++) {
		struct walk walk = {.f = ret,
				    .with_calls = with_calls,
				    .stamp = i + 1,
				    .value = profile->values[i * types + types - 1],
				    .base = types > 1 ? profile->values[i * types] : 0,
				    .last = UINT32_MAX};
		sum_to(&ret->total, walk.value);
		r = cancel_requested(cancel) ? error_set(err, -ECANCELED, "the client disconnected")
					     : count_stack(&walk, profile->samples[i].stack, err);
	}
	if (r < 0) {
		parca_functions_release(ret);
		*ret = (struct parca_functions){0};
	}
	return r;
}
