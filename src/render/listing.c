/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sums by line and by address.
 *
 * A counter is a row of the answer: a file, a line, an address. A location counts for the counters that its frames belong to,
 * each once, and its innermost frame decides whose self value it is. A stack counts once for each counter that any of its
 * locations counts for, so a walk from the leaf to the root stamps the counters that it has met.
 *
 * Most stacks of a profile do not touch the function at all, and those that do touch it in few places. As parents come before
 * children in the table of stacks, one forward pass tells for each stack which of its ancestors, itself included, is the
 * nearest that counts for anything; walks go from one such to the next and look at nothing between.
 *
 * The file is found first, by the same means: functions of one name in several files (static functions, a template in two
 * copies of a header) are different functions.
 */
#include "render/listing.h"
#include "render/units.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/limits.h"
#include "base/order.h"
#include "base/sum.h"
#include "elf/demangle/demangle.h"

struct counter {
	int64_t self, total;
	uint32_t stamp;	   /* the last stack that was counted, + 1 */
	uint32_t location; /* the last one that counts for it, + 1 */
};
struct counting {
	const struct profile *profile;
	uint32_t *first; /* by location, and one more: where its counters begin in `counters_of` */
	uint32_t *counters_of;
	uint32_t *innermost; /* by location: the counter of its innermost frame + 1, 0 = none */
	size_t of_count, of_capacity;
	struct counter *counters;
	size_t counter_count, counter_capacity;
	/* Where equal keys have equal counters */
	struct map64 counter_of_key;
	uint64_t *keys; /* by counter */
	size_t key_capacity;
};

static void counting_release(struct counting *c)
{
	mem_free(c->first);
	mem_free(c->counters_of);
	mem_free(c->innermost);
	mem_free(c->counters);
	map64_release(&c->counter_of_key);
	mem_free(c->keys);
}

static int counting_init(struct counting *c, const struct profile *profile, struct error *err)
{
	*c = (struct counting){.profile = profile};
	c->first = mem_zalloc_array(profile->location_count + 1, sizeof(*c->first));
	c->innermost = mem_zalloc_array(profile->location_count, sizeof(*c->innermost));
	return c->first && c->innermost ? 0 : error_nomem(err);
}

static int new_counter(struct counting *c, uint32_t *ret)
{
	int r = array_reserve(&c->counters, &c->counter_capacity, c->counter_count + 1, LIMIT_PROFILE_ENTITIES);
	if (r < 0)
		return r;
	c->counters[c->counter_count] = (struct counter){0};
	*ret = (uint32_t)c->counter_count++;
	return 0;
}

/* The location that is being filled in, the last one, counts for this. Whoever sent the profile says how many lines one
 * location has, so the counter remembers it: looking through those that the location has already takes the square of their
 * number. */
static int count_for(struct counting *c, uint32_t location, uint32_t counter)
{
	if (c->counters[counter].location == location + 1)
		return 0;
	int r = array_push(&c->counters_of, &c->of_count, &c->of_capacity, LIMIT_PROFILE_ENTITIES, counter);
	if (r < 0)
		return r;
	c->counters[counter].location = location + 1;
	return 0;
}

static bool counts(const struct counting *c, uint32_t location)
{
	return c->first[location] != c->first[location + 1];
}

/* The stacks that count for anything, and the nearest place in each that does. */
struct touched {
	uint32_t *nearest; /* by stack: itself or the nearest ancestor whose location counts; 0 = none */
	struct touched_stack {
		uint32_t stack;
		int64_t value;
	} * items;
	size_t count, capacity;
};

static void touched_release(struct touched *touched)
{
	mem_free(touched->nearest);
	mem_free(touched->items);
}

static int add_touched(struct touched *touched, uint32_t stack, int64_t value)
{
	return array_push(&touched->items, &touched->count, &touched->capacity, LIMIT_PROFILE_ENTITIES,
			  (struct touched_stack){stack, value});
}

/* All locations have been filled in. What is found serves for any countings of the same locations, or of fewer. */
static int find_touched(const struct counting *c, size_t sample_type, struct touched *ret, struct error *err)
{
	const struct profile *p = c->profile;
	_cleanup_(mem_freep) int64_t *values = mem_zalloc_array(p->stack_count, sizeof(*values));
	ret->nearest = mem_zalloc_array(p->stack_count, sizeof(*ret->nearest));
	if (!ret->nearest || !values)
		return error_nomem(err);
	for (size_t i = 0; i < p->sample_count; i++)
		sum_to(&values[p->samples[i].stack], p->values[i * p->sample_type_count + sample_type]);
	for (uint32_t i = 1; i < p->stack_count; i++) {
		ret->nearest[i] = counts(c, p->stacks[i].location) ? i : ret->nearest[p->stacks[i].parent];
		if (ret->nearest[i] && values[i] && add_touched(ret, i, values[i]) < 0)
			return error_nomem(err);
	}
	return 0;
}

static void count_stack(struct counting *c, const uint32_t *nearest, uint32_t stack, int64_t value)
{
	const struct profile_stack *stacks = c->profile->stacks;
	uint32_t leaf = c->innermost[stacks[stack].location];
	if (leaf)
		sum_to(&c->counters[leaf - 1].self, value);
	for (uint32_t at = nearest[stack]; at; at = nearest[stacks[at].parent]) {
		uint32_t location = stacks[at].location;
		for (uint32_t i = c->first[location]; i < c->first[location + 1]; i++) {
			struct counter *counter = &c->counters[c->counters_of[i]];
			if (counter->stamp == stack + 1)
				continue;
			counter->stamp = stack + 1;
			sum_to(&counter->total, value);
		}
	}
}

static void count_all(struct counting *c, const struct touched *touched)
{
	for (size_t i = 0; i < touched->count; i++)
		count_stack(c, touched->nearest, touched->items[i].stack, touched->items[i].value);
}

/* ---- which functions ---- */

/* A byte for each function of the profile. */
struct choice {
	const struct profile *profile;
	uint8_t *chosen;
	uint32_t name; /* in full */
	uint32_t build_id;
	bool any_build_id, no_such_build_id;
};

static void choice_release(struct choice *choice)
{
	mem_free(choice->chosen);
}

static bool choose_exact(struct choice *choice, const char *name)
{
	const struct profile *p = choice->profile;
	uint32_t wanted, mangled = 0;
	if (!intern_find(&p->strings, name, strlen(name), &wanted) || wanted == 0)
		return false;
	for (size_t i = 1; i < p->function_count; i++) {
		choice->chosen[i] = p->functions[i].name == wanted;
		if (choice->chosen[i])
			choice->name = wanted;
		else if (p->functions[i].system_name == wanted)
			mangled = p->functions[i].name;
	}
	if (choice->name || !mangled)
		return choice->name != 0;
	choice->name = mangled;
	for (size_t i = 1; i < p->function_count; i++)
		choice->chosen[i] = p->functions[i].system_name == wanted;
	return true;
}

static int refuse_short(const struct choice *choice, const char *name, uint32_t other, struct error *err)
{
	return error_set(err, -EINVAL,
			 "'%.80s' matches several functions, such as '%.120s' and '%.120s'; give the full name of one", name,
			 profile_string(choice->profile, choice->name), profile_string(choice->profile, other));
}

static int choose_short(struct choice *choice, const char *name, struct error *err)
{
	const struct profile *p = choice->profile;
	_cleanup_(buffer_release) struct buffer text = {.max = SIZE_MAX};
	for (size_t i = 1; i < p->function_count; i++) {
		uint32_t full = p->functions[i].name;
		buffer_clear(&text);
		if (demangle_short(profile_string(p, full), &text) < 0)
			return error_nomem(err);
		if (full == 0 || !bytes_equal_string(buffer_bytes(&text), name))
			continue;
		if (choice->name && choice->name != full)
			return refuse_short(choice, name, full, err);
		choice->name = full;
		choice->chosen[i] = 1;
	}
	return 0;
}

static int choose(struct choice *choice, const struct profile *profile, const struct listing_options *options,
		  struct error *err)
{
	*choice = (struct choice){.profile = profile, .any_build_id = !options->build_id};
	choice->chosen = mem_zalloc_array(profile->function_count, 1);
	if (!choice->chosen)
		return error_nomem(err);
	if (options->build_id)
		choice->no_such_build_id =
			!intern_find(&profile->strings, options->build_id, strlen(options->build_id), &choice->build_id);
	if (!choose_exact(choice, options->function)) {
		int r = choose_short(choice, options->function, err);
		if (r < 0)
			return r;
	}
	if (choice->name)
		return 0;
	return error_set(err, -ENOENT,
			 "no function '%.200s' in the result of the query; give its full name, or its name without parameters",
			 options->function);
}

static bool in_binary(const struct choice *choice, const struct profile_location *location)
{
	if (choice->any_build_id)
		return true;
	return !choice->no_such_build_id && choice->profile->mappings[location->mapping].build_id == choice->build_id;
}

static void copy_type(const struct profile *profile, size_t sample_type, char type[48], char unit[32])
{
	type[0] = unit[0] = '\0';
	if (sample_type >= profile->sample_type_count)
		return;
	snprintf(type, 48, "%s", profile_string(profile, profile->sample_types[sample_type].type));
	snprintf(unit, 32, "%s", profile_string(profile, profile->sample_types[sample_type].unit));
}

/* ---- files ---- */

static int find_counter(struct counting *c, uint64_t key, uint32_t *ret)
{
	uint64_t known;
	if (map64_get(&c->counter_of_key, key, &known)) {
		*ret = (uint32_t)known;
		return 0;
	}
	int r = new_counter(c, ret);
	if (r == 0)
		r = array_reserve(&c->keys, &c->key_capacity, c->counter_count, LIMIT_PROFILE_ENTITIES);
	if (r == 0)
		r = map64_put(&c->counter_of_key, key, *ret);
	if (r == 0)
		c->keys[*ret] = key;
	return r;
}

/* What a frame counts for. */
typedef bool (*frame_key)(const struct choice *choice, const struct profile_location *location, const struct profile_line *line,
			  uint32_t file, uint64_t *ret_key);

static int fill_frames(struct counting *c, const struct choice *choice, frame_key key_of, uint32_t file, struct error *err)
{
	const struct profile *p = choice->profile;
	int r = counting_init(c, p, err);
	for (uint32_t i = 0; i < p->location_count && r == 0; i++) {
		const struct profile_location *location = &p->locations[i];
		c->first[i] = (uint32_t)c->of_count;
		for (uint32_t k = 0; k < location->line_count && r == 0 && in_binary(choice, location); k++) {
			const struct profile_line *line = &p->lines[location->line_first + k];
			uint32_t counter;
			uint64_t key;
			if (!choice->chosen[line->function] || !key_of(choice, location, line, file, &key))
				continue;
			r = find_counter(c, key, &counter);
			if (r == 0)
				r = count_for(c, i, counter);
			if (r == 0 && k == 0)
				c->innermost[i] = counter + 1;
		}
	}
	if (r < 0)
		return error_nomem(err);
	c->first[p->location_count] = (uint32_t)c->of_count;
	return 0;
}

static bool key_of_file(const struct choice *choice, const struct profile_location *location, const struct profile_line *line,
			uint32_t file, uint64_t *ret_key)
{
	*ret_key = choice->profile->functions[line->function].file_name;
	return true;
}

DEFINE_ORDER(compare_files, struct listing_file, units_compare(a->total, b->total) ?: strcmp(a->file, b->file));

static int find_files(const struct choice *choice, const struct listing_options *options, struct touched *ret_touched,
		      struct listing_lines *ret, struct error *err)
{
	_cleanup_(counting_release) struct counting c = {0};
	int r = fill_frames(&c, choice, key_of_file, 0, err);
	if (r == 0)
		r = find_touched(&c, options->sample_type, ret_touched, err);
	if (r < 0)
		return r;
	count_all(&c, ret_touched);
	if (c.counter_count == 0)
		return error_set(err, -ENOENT, "'%.200s' has no samples%s%.129s in the result of the query", ret->function,
				 options->build_id ? " in the binary " : "", options->build_id ? options->build_id : "");
	ret->files = mem_alloc_array(c.counter_count, sizeof(*ret->files));
	if (!ret->files)
		return error_nomem(err);
	ret->file_count = c.counter_count;
	for (size_t i = 0; i < c.counter_count; i++)
		ret->files[i] = (struct listing_file){.file = profile_string(choice->profile, (uint32_t)c.keys[i]),
						      .self = c.counters[i].self,
						      .total = c.counters[i].total};
	sort_array(ret->files, ret->file_count, compare_files);
	return 0;
}

/* A file by its whole path, or by the end of it. */
static int choose_file(const struct listing_options *options, struct listing_lines *ret, struct error *err)
{
	const struct listing_file *found = options->file ? NULL : &ret->files[0];
	for (size_t i = 0; i < ret->file_count && !found; i++)
		if (strcmp(ret->files[i].file, options->file) == 0)
			found = &ret->files[i];
	for (size_t i = 0; i < ret->file_count && !found && options->file[0]; i++) {
		size_t whole = strlen(ret->files[i].file), part = strlen(options->file);
		if (whole > part && ret->files[i].file[whole - part - 1] == '/' &&
		    strcmp(ret->files[i].file + whole - part, options->file) == 0)
			found = &ret->files[i];
	}
	if (!found)
		return error_set(err, -ENOENT, "'%.200s' has no samples in a file '%.200s'; most are in '%.200s'",
				 ret->function, options->file, ret->files[0].file);
	ret->file = found->file;
	ret->self = found->self;
	ret->total = found->total;
	return 0;
}

/* ---- lines ---- */

static bool key_of_line(const struct choice *choice, const struct profile_location *location, const struct profile_line *line,
			uint32_t file, uint64_t *ret_key)
{
	*ret_key = line->line > 0 && line->line < UINT32_MAX ? (uint64_t)line->line : 0;
	return choice->profile->functions[line->function].file_name == file;
}

static bool key_of_binary(const struct choice *choice, const struct profile_location *location, const struct profile_line *line,
			  uint32_t file, uint64_t *ret_key)
{
	*ret_key = location->mapping;
	return choice->profile->functions[line->function].file_name == file;
}

DEFINE_ORDER(compare_lines, struct listing_line, ORDER(a->line, b->line));

static int sum_lines(const struct choice *choice, const struct touched *touched, uint32_t file, struct listing_lines *ret,
		     struct error *err)
{
	_cleanup_(counting_release) struct counting c = {0};
	int r = fill_frames(&c, choice, key_of_line, file, err);
	if (r < 0)
		return r;
	count_all(&c, touched);
	ret->lines = mem_alloc_array(c.counter_count, sizeof(*ret->lines));
	if (!ret->lines)
		return error_nomem(err);
	for (size_t i = 0; i < c.counter_count; i++)
		if (c.counters[i].self || c.counters[i].total)
			ret->lines[ret->line_count++] =
				(struct listing_line){(uint32_t)c.keys[i], c.counters[i].self, c.counters[i].total};
	sort_array(ret->lines, ret->line_count, compare_lines);
	return 0;
}

static int find_binary(const struct choice *choice, const struct touched *touched, uint32_t file, struct listing_lines *ret,
		       struct error *err)
{
	const struct profile *p = choice->profile;
	_cleanup_(counting_release) struct counting c = {0};
	size_t best = 0;
	int r = fill_frames(&c, choice, key_of_binary, file, err);
	if (r < 0)
		return r;
	count_all(&c, touched);
	for (size_t i = 1; i < c.counter_count; i++)
		if (units_magnitude(c.counters[i].total) > units_magnitude(c.counters[best].total))
			best = i;
	const struct profile_mapping *mapping = &p->mappings[c.keys[best]];
	ret->build_id = profile_string(p, mapping->build_id);
	ret->binary = profile_string(p, mapping->file_name);
	return 0;
}

/* Copies of a function agree on where it begins; of those that do not, the first line is the function's. */
static uint32_t find_start_line(const struct choice *choice, uint32_t file)
{
	const struct profile *p = choice->profile;
	int64_t start = 0;
	for (size_t i = 1; i < p->function_count; i++) {
		const struct profile_function *f = &p->functions[i];
		if (choice->chosen[i] && f->file_name == file && f->start_line > 0 && (start == 0 || f->start_line < start))
			start = f->start_line;
	}
	return start < UINT32_MAX ? (uint32_t)start : 0;
}

int listing_build_lines(const struct profile *profile, const struct listing_options *options, struct listing_lines *ret,
			struct error *err)
{
	_cleanup_(choice_release) struct choice choice = {0};
	_cleanup_(listing_lines_release) struct listing_lines lines = {0};
	_cleanup_(touched_release) struct touched touched = {0};
	uint32_t file = 0;
	*ret = (struct listing_lines){0};
	int r = choose(&choice, profile, options, err);
	if (r < 0)
		return r;
	copy_type(profile, options->sample_type, lines.type, lines.unit);
	lines.function = profile_string(profile, choice.name);
	lines.profile_total = profile_total(profile, options->sample_type);
	r = find_files(&choice, options, &touched, &lines, err);
	if (r == 0)
		r = choose_file(options, &lines, err);
	if (r < 0)
		return r;
	intern_find(&profile->strings, lines.file, strlen(lines.file), &file);
	lines.start_line = find_start_line(&choice, file);
	r = sum_lines(&choice, &touched, file, &lines, err);
	if (r == 0)
		r = find_binary(&choice, &touched, file, &lines, err);
	if (r < 0)
		return r;
	*ret = lines;
	lines = (struct listing_lines){0};
	return 0;
}

void listing_lines_release(struct listing_lines *lines)
{
	mem_free(lines->lines);
	mem_free(lines->files);
	*lines = (struct listing_lines){0};
}

/* ---- addresses ---- */

/* A location that counts. */
struct site {
	uint32_t location, binary; /* binary: string of the build-id, or of the path | PATH */
	uint64_t offset;
	bool outermost; /* the function is not inlined there */
};
#define PATH 0x80000000u

struct sites {
	struct site *items;
	size_t count, capacity;
};

static void sites_release(struct sites *sites)
{
	mem_free(sites->items);
}

/* Strings are interned, so equal ones have equal ids; ids stay below 2^31, as LIMIT_PROFILE_STRING_BYTES is less. */
static uint32_t binary_of(const struct profile *p, const struct profile_location *location)
{
	const struct profile_mapping *mapping = &p->mappings[location->mapping];
	return mapping->build_id ? mapping->build_id : mapping->file_name | PATH;
}

static int add_site(struct sites *sites, const struct profile *p, uint32_t location, bool outermost)
{
	return array_push(&sites->items, &sites->count, &sites->capacity, LIMIT_PROFILE_ENTITIES,
			  (struct site){.location = location,
					.binary = binary_of(p, &p->locations[location]),
					.offset = profile_location_file_offset(p, location),
					.outermost = outermost});
}

static int find_sites(const struct choice *choice, struct sites *ret)
{
	const struct profile *p = choice->profile;
	int r = 0;
	for (uint32_t i = 1; i < p->location_count && r == 0; i++) {
		const struct profile_location *location = &p->locations[i];
		bool found = false, outermost = false;
		for (uint32_t k = 0; k < location->line_count && location->mapping && in_binary(choice, location); k++) {
			bool chosen = choice->chosen[p->lines[location->line_first + k].function];
			found |= chosen;
			outermost |= chosen && k + 1 == location->line_count;
		}
		if (found)
			r = add_site(ret, p, i, outermost);
	}
	return r;
}

static int find_sites_in_range(const struct profile *p, uint32_t binary, uint64_t from, uint64_t to, struct sites *ret)
{
	int r = 0;
	for (uint32_t i = 1; i < p->location_count && r == 0; i++) {
		const struct profile_location *location = &p->locations[i];
		if (!location->mapping || binary_of(p, location) != binary)
			continue;
		uint64_t offset = profile_location_file_offset(p, i);
		if (offset >= from && offset < to)
			r = add_site(ret, p, i, true);
	}
	return r;
}

DEFINE_ORDER(compare_sites, struct site,
	     ORDER(a->binary, b->binary) ?: ORDER(a->offset, b->offset) ?: ORDER(a->location, b->location));

/* Counters of sites that are in order of binary and offset: one for each address and, after them, one for each binary.
 * by_site[i] is the address's counter; binary_of_counter[] the binary's. */
struct numbering {
	uint32_t *address, *binary; /* by site, in that order */
	size_t address_count, binary_count;
};

static void number_sites(const struct sites *sites, struct numbering *n)
{
	for (size_t i = 0; i < sites->count; i++) {
		const struct site *site = &sites->items[i], *before = i ? &site[-1] : NULL;
		bool new_binary = !before || before->binary != site->binary;
		n->binary_count += new_binary;
		n->address_count += new_binary || before->offset != site->offset;
		n->address[i] = (uint32_t)n->address_count - 1;
		n->binary[i] = (uint32_t)n->binary_count - 1;
	}
}

struct numbered {
	uint32_t location, address, binary;
};

DEFINE_ORDER(compare_numbered, struct numbered, ORDER(a->location, b->location));

static int count_sites(struct counting *c, const struct sites *sites, const struct numbering *n, size_t sample_type,
		       struct error *err)
{
	const struct profile *p = c->profile;
	_cleanup_(mem_freep) struct numbered *by_location = mem_alloc_array(sites->count, sizeof(*by_location));
	uint32_t ignored;
	int r = by_location ? 0 : -ENOMEM;
	for (size_t i = 0; i < n->address_count + n->binary_count && r == 0; i++)
		r = new_counter(c, &ignored);
	if (r < 0)
		return error_nomem(err);
	for (size_t i = 0; i < sites->count; i++)
		by_location[i] =
			(struct numbered){sites->items[i].location, n->address[i], (uint32_t)n->address_count + n->binary[i]};
	sort_array(by_location, sites->count, compare_numbered);
	size_t at = 0;
	for (uint32_t i = 0; i < p->location_count && r == 0; i++) {
		c->first[i] = (uint32_t)c->of_count;
		if (at == sites->count || by_location[at].location != i)
			continue;
		c->innermost[i] = by_location[at].address + 1;
		r = count_for(c, i, by_location[at].address);
		if (r == 0)
			r = count_for(c, i, by_location[at].binary);
		at++;
	}
	c->first[p->location_count] = (uint32_t)c->of_count;
	_cleanup_(touched_release) struct touched touched = {0};
	if (r < 0)
		return error_nomem(err);
	r = find_touched(c, sample_type, &touched, err);
	if (r == 0)
		count_all(c, &touched);
	return r;
}

static int compare_binaries(const void *left, const void *right)
{
	const struct listing_binary *a = left, *b = right;
	/* Where it is inlined, its own code is not. */
	return ORDER(a->inlined, b->inlined) ?: units_compare(a->total, b->total) ?:
		strcmp(a->path, b->path) ?: strcmp(a->build_id, b->build_id);
}

static int copy_binary(const struct counting *c, const struct sites *sites, const struct numbering *n, size_t first, size_t end,
		       struct listing_binary *ret)
{
	const struct profile *p = c->profile;
	const struct profile_location *location = &p->locations[sites->items[first].location];
	const struct profile_mapping *mapping = &p->mappings[location->mapping];
	const struct counter *sum = &c->counters[n->address_count + n->binary[first]];
	*ret = (struct listing_binary){.build_id = profile_string(p, mapping->build_id),
				       .path = profile_string(p, mapping->file_name),
				       .start = mapping->start,
				       .limit = mapping->limit,
				       .offset = mapping->offset,
				       .total = sum->total,
				       .inlined = true,
				       .kernel = location->frame_type == PROFILE_FRAME_KERNEL};
	ret->addresses = mem_alloc_array(end - first, sizeof(*ret->addresses));
	if (!ret->addresses)
		return -ENOMEM;
	for (size_t i = first; i < end; i++) {
		const struct counter *counter = &c->counters[n->address[i]];
		ret->inlined &= !sites->items[i].outermost;
		if ((i > first && n->address[i] == n->address[i - 1]) || (counter->self == 0 && counter->total == 0))
			continue;
		ret->addresses[ret->address_count++] =
			(struct listing_address){sites->items[i].offset, counter->self, counter->total};
		sum_to(&ret->self, counter->self);
	}
	return 0;
}

static int copy_binaries(const struct counting *c, const struct sites *sites, const struct numbering *n,
			 struct listing_addresses *ret)
{
	ret->binaries = mem_zalloc_array(n->binary_count, sizeof(*ret->binaries));
	if (!ret->binaries)
		return -ENOMEM;
	for (size_t first = 0, end; first < sites->count; first = end) {
		for (end = first + 1; end < sites->count && n->binary[end] == n->binary[first];)
			end++;
		int r = copy_binary(c, sites, n, first, end, &ret->binaries[ret->binary_count]);
		if (r < 0)
			return r;
		ret->binary_count++;
	}
	sort_array(ret->binaries, ret->binary_count, compare_binaries);
	return 0;
}

static int sum_sites(const struct profile *profile, struct sites *sites, size_t sample_type, struct listing_addresses *ret,
		     struct error *err)
{
	_cleanup_(counting_release) struct counting c = {0};
	_cleanup_(mem_freep) uint32_t *address = mem_alloc_array(sites->count, sizeof(*address));
	_cleanup_(mem_freep) uint32_t *binary = mem_alloc_array(sites->count, sizeof(*binary));
	struct numbering n = {.address = address, .binary = binary};
	int r = counting_init(&c, profile, err);
	if (r < 0)
		return r;
	if (!address || !binary)
		return error_nomem(err);
	sort_array(sites->items, sites->count, compare_sites);
	number_sites(sites, &n);
	r = count_sites(&c, sites, &n, sample_type, err);
	if (r == 0 && copy_binaries(&c, sites, &n, ret) < 0)
		r = error_nomem(err);
	return r;
}

static void begin_addresses(struct listing_addresses *ret, const struct profile *profile, const struct listing_options *options,
			    const char *function)
{
	*ret = (struct listing_addresses){.function = function, .profile_total = profile_total(profile, options->sample_type)};
	copy_type(profile, options->sample_type, ret->type, ret->unit);
}

int listing_build_addresses(const struct profile *profile, const struct listing_options *options, struct listing_addresses *ret,
			    struct error *err)
{
	_cleanup_(choice_release) struct choice choice = {0};
	_cleanup_(sites_release) struct sites sites = {0};
	_cleanup_(listing_addresses_release) struct listing_addresses addresses = {0};
	*ret = (struct listing_addresses){0};
	int r = choose(&choice, profile, options, err);
	if (r < 0)
		return r;
	if (find_sites(&choice, &sites) < 0)
		return error_nomem(err);
	begin_addresses(&addresses, profile, options, profile_string(profile, choice.name));
	if (sites.count == 0)
		return error_set(err, -ENOENT, "'%.200s' has no addresses%s%.129s: only its name is known", addresses.function,
				 options->build_id ? " in the binary " : "", options->build_id ? options->build_id : "");
	r = sum_sites(profile, &sites, options->sample_type, &addresses, err);
	if (r < 0)
		return r;
	*ret = addresses;
	addresses = (struct listing_addresses){0};
	return 0;
}

int listing_build_range(const struct profile *profile, const struct listing_options *options, const char *path, uint64_t from,
			uint64_t to, struct listing_addresses *ret, struct error *err)
{
	_cleanup_(sites_release) struct sites sites = {0};
	_cleanup_(listing_addresses_release) struct listing_addresses addresses = {0};
	const char *build_id = options->build_id ? options->build_id : "", *key = build_id[0] ? build_id : path;
	uint32_t binary;
	bool known = intern_find(&profile->strings, key, strlen(key), &binary);
	*ret = (struct listing_addresses){0};
	begin_addresses(&addresses, profile, options, options->function);
	if (known && find_sites_in_range(profile, build_id[0] ? binary : binary | PATH, from, to, &sites) < 0)
		return error_nomem(err);
	int r = sites.count ? sum_sites(profile, &sites, options->sample_type, &addresses, err) : 0;
	if (r < 0)
		return r;
	*ret = addresses;
	addresses = (struct listing_addresses){0};
	return 0;
}

void listing_addresses_release(struct listing_addresses *addresses)
{
	for (size_t i = 0; i < addresses->binary_count; i++)
		mem_free(addresses->binaries[i].addresses);
	mem_free(addresses->binaries);
	*addresses = (struct listing_addresses){0};
}
