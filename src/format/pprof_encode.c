/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Encoding pprof (field numbers: see pprof_decode.c). The same profile gives the same bytes.
 *
 * The message is written in one pass: samples first, and each table after what refers to it, so that ids are given on first use
 * and only what is used is written. Locations, functions and strings are numbered in that order. Mappings keep the order of
 * the profile's table, because readers take the first one for the program itself. The string table comes last.
 *
 * What pprof has no place for:
 *   - times and links of samples: samples that differ in nothing else are summed
 *   - labels of the whole profile: every sample gets them, unless it has a label of that name
 *   - the frame type: kernel frames are recognized by their mapping's name, and get a mapping of that name if they have none
 */
#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "base/limits.h"
#include "codec/compress.h"
#include "codec/protobuf.h"
#include "format/format_int.h"

#define GZIP_LEVEL 6

/* Ids of the profile to those of the message, given on first use. */
struct numbering {
	uint32_t *number; /* by id of the profile; 0 = not used yet */
	uint32_t *order;  /* ids of the profile, by number - first */
	size_t count;
};

struct encoder {
	const struct profile *profile;
	struct buffer *out;
	struct numbering strings, locations, functions;
	uint32_t *mappings;	/* numbers by id; 0 = not used */
	uint32_t first_mapping; /* 0 = in the order of the table */
	uint32_t kernel_mapping, kernel_file;
	uint32_t *stack;  /* scratch: numbers of a stack's locations */
	uint64_t *packed; /* scratch */
	size_t stack_max;
	struct sample_groups groups;
	struct format_sink *sink;   /* where it goes packed, piece by piece; NULL = all stays in out */
	struct gzip_stream *packer; /* from the first piece */
};

static int numbering_init(struct numbering *numbering, size_t count)
{
	numbering->number = mem_zalloc_array(count, sizeof(*numbering->number));
	numbering->order = mem_alloc_array(count, sizeof(*numbering->order));
	return numbering->number && numbering->order ? 0 : -ENOMEM;
}

static void numbering_release(struct numbering *numbering)
{
	mem_free(numbering->number);
	mem_free(numbering->order);
}

static inline uint32_t number_of(struct numbering *numbering, uint32_t id)
{
	if (numbering->number[id] == 0) {
		numbering->order[numbering->count++] = id;
		numbering->number[id] = (uint32_t)numbering->count;
	}
	return numbering->number[id];
}

/* Index in the string table; entry 0 is "". */
static inline uint32_t string_index(struct encoder *encoder, uint32_t id)
{
	return id == 0 ? 0 : number_of(&encoder->strings, id);
}

static void write_text(struct encoder *encoder, uint32_t field, uint32_t id)
{
	pb_put_varint(encoder->out, field, string_index(encoder, id));
}

static void write_value_type(struct encoder *encoder, uint32_t field, struct profile_value_type type)
{
	size_t mark;
	pb_begin(encoder->out, field, &mark);
	write_text(encoder, 1, type.type);
	write_text(encoder, 2, type.unit);
	pb_end(encoder->out, mark);
}

/* ---- samples ---- */

static void write_label(struct encoder *encoder, const struct profile_label *label)
{
	if (!label->value && !label->number && !label->unit)
		return;
	size_t mark;
	pb_begin(encoder->out, 3, &mark);
	write_text(encoder, 1, label->key);
	write_text(encoder, 2, label->value);
	pb_put_varint(encoder->out, 3, (uint64_t)label->number);
	write_text(encoder, 4, label->unit);
	pb_end(encoder->out, mark);
}

/* Those of profile_sample.numbers are labels like others here. */
static void write_numbers(struct encoder *encoder, uint32_t label_set)
{
	const struct profile_label_set *set = &encoder->profile->label_sets[label_set];
	for (uint32_t i = set->first; i < set->first + set->count; i++)
		write_label(encoder, &encoder->profile->labels[i]);
}

static void write_labels(struct encoder *encoder, uint32_t label_set)
{
	const struct profile *profile = encoder->profile;
	const struct profile_label_set *own = &profile->label_sets[label_set];
	const struct profile_label_set *shared = &profile->label_sets[profile->resource_labels];
	for (uint32_t i = own->first; i < own->first + own->count; i++)
		write_label(encoder, &profile->labels[i]);
	for (uint32_t i = shared->first; i < shared->first + shared->count; i++)
		if (!profile_has_key(profile->labels + own->first, own->count, profile->labels[i].key))
			write_label(encoder, &profile->labels[i]);
}

static void write_sample(struct encoder *encoder, size_t group)
{
	const struct profile *profile = encoder->profile;
	const struct profile_sample *sample = &profile->samples[encoder->groups.first[group]];
	size_t mark, depth = profile_stack_locations(profile, sample->stack, encoder->stack, encoder->stack_max);
	for (size_t i = 0; i < depth; i++)
		encoder->packed[i] = number_of(&encoder->locations, encoder->stack[i]);
	pb_begin(encoder->out, 2, &mark);
	pb_write_packed(encoder->out, 1, encoder->packed, depth);
	for (size_t i = 0; i < profile->sample_type_count; i++)
		encoder->packed[i] = (uint64_t)sample_groups_sum(&encoder->groups, profile, group, i);
	pb_write_packed(encoder->out, 2, encoder->packed, profile->sample_type_count);
	write_labels(encoder, sample->labels);
	write_numbers(encoder, sample->numbers);
	pb_end(encoder->out, mark);
}

/* ---- tables ---- */

static bool needs_kernel_mapping(const struct profile_location *location)
{
	return location->mapping == 0 && location->frame_type == PROFILE_FRAME_KERNEL;
}

/* Which of has_functions, has_filenames, has_line_numbers all of a location's lines have. */
static uint32_t flags_of_location(const struct profile *profile, const struct profile_location *location)
{
	uint32_t flags = PROFILE_MAPPING_HAS_FUNCTIONS | PROFILE_MAPPING_HAS_FILENAMES | PROFILE_MAPPING_HAS_LINE_NUMBERS;
	if (location->line_count == 0)
		return 0;
	for (uint32_t i = 0; i < location->line_count; i++) {
		const struct profile_line *line = &profile->lines[location->line_first + i];
		const struct profile_function *function = &profile->functions[line->function];
		if (function->name == 0)
			return 0;
		if (function->file_name == 0)
			flags &= ~(uint32_t)PROFILE_MAPPING_HAS_FILENAMES;
		if (line->line == 0)
			flags &= ~(uint32_t)PROFILE_MAPPING_HAS_LINE_NUMBERS;
	}
	return flags;
}

/* The has_* flags tell readers what they need not look up themselves. A source that did not set any may still have symbolized
 * all of a mapping; said nothing, `go tool pprof` would put its own guess in the place of our names. */
static void find_mapping_flags(struct encoder *encoder, uint32_t *flags, uint32_t kernel_slot)
{
	const struct profile *profile = encoder->profile;
	for (size_t i = 0; i <= profile->mapping_count; i++)
		flags[i] = UINT32_MAX;
	for (size_t i = 0; i < encoder->locations.count; i++) {
		const struct profile_location *location = &profile->locations[encoder->locations.order[i]];
		uint32_t slot = needs_kernel_mapping(location) ? kernel_slot : location->mapping;
		flags[slot] &= flags_of_location(profile, location);
	}
	for (size_t i = 0; i < encoder->locations.count; i++) {
		const struct profile_location *location = &profile->locations[encoder->locations.order[i]];
		if (location->line_count > 1 && (flags[location->mapping] & PROFILE_MAPPING_HAS_FUNCTIONS))
			flags[location->mapping] |= PROFILE_MAPPING_HAS_INLINE_FRAMES;
	}
	for (size_t i = 1; i < profile->mapping_count; i++)
		if (profile->mappings[i].flags & ~(uint32_t)PROFILE_MAPPING_ID_TYPE)
			flags[i] = profile->mappings[i].flags;
}

static void write_mapping(struct encoder *encoder, uint32_t number, const struct profile_mapping *mapping, uint32_t flags)
{
	size_t mark;
	pb_begin(encoder->out, 3, &mark);
	pb_put_varint(encoder->out, 1, number);
	pb_put_varint(encoder->out, 2, mapping->start);
	pb_put_varint(encoder->out, 3, mapping->limit);
	pb_put_varint(encoder->out, 4, mapping->offset);
	pb_put_varint(encoder->out, 5, mapping->file_name);
	pb_put_varint(encoder->out, 6, mapping->build_id);
	for (uint32_t i = 0; i < 4; i++)
		pb_put_varint(encoder->out, 7 + i, flags >> i & 1);
	pb_end(encoder->out, mark);
}

/* As pprof's own readers of older formats tell it: not in brackets, and without ".so" behind its name or before a version. */
static bool may_be_program(const struct profile *profile, uint32_t mapping)
{
	struct bytes name = profile_string_bytes(profile, profile->mappings[mapping].file_name);
	if (name.len == 0 || name.data[0] == '[' || bytes_start_with(name, "//"))
		return false;
	const uint8_t *at = name.data, *end = name.data + name.len;
	while ((at = memmem(at, (size_t)(end - at), ".so", 3))) {
		at += 3;
		if (at == end || ((*at == '.' || *at == '_') && at + 1 < end && at[1] >= '0' && at[1] <= '9'))
			return false;
	}
	return true;
}

/* The string that a label set has under a key, 0 = none. */
static uint32_t label_text(const struct profile *profile, uint32_t set, uint32_t key)
{
	const struct profile_label_set *labels = &profile->label_sets[set];
	for (uint32_t i = labels->first; i < labels->first + labels->count; i++)
		if (profile->labels[i].key == key)
			return profile->labels[i].value;
	return 0;
}

/* The used mapping of the executable with the most of the first value; 0 = samples name none. -ENOMEM. */
static int find_sampled_program(const struct encoder *encoder, uint32_t *ret)
{
	static const char key_text[] = "process.executable.path";
	const struct profile *profile = encoder->profile;
	uint32_t key, path;
	*ret = 0;
	if (!intern_find(&profile->strings, key_text, strlen(key_text), &key))
		return 0;
	_cleanup_(mem_freep) uint32_t *by_path = mem_zalloc_array(profile->strings.count, sizeof(*by_path));
	_cleanup_(mem_freep) uint64_t *weights = mem_zalloc_array(profile->mapping_count, sizeof(*weights));
	if (!by_path || !weights)
		return -ENOMEM;
	for (size_t i = profile->mapping_count; i-- > 1;)
		if (encoder->mappings[i])
			by_path[profile->mappings[i].file_name] = (uint32_t)i;
	by_path[0] = 0;
	for (size_t group = 0; group < encoder->groups.count && profile->sample_type_count > 0; group++) {
		uint32_t labels = profile->samples[encoder->groups.first[group]].labels;
		path = label_text(profile, labels, key);
		if (!path)
			path = label_text(profile, profile->resource_labels, key);
		int64_t value = sample_groups_sum(&encoder->groups, profile, group, 0);
		uint32_t mapping = by_path[path];
		weights[mapping] += (uint64_t)(value < 0 ? 0 : value) + 1;
		if (mapping && (!*ret || weights[mapping] > weights[*ret]))
			*ret = mapping;
	}
	return 0;
}

/* The mapping that is to come first. 0 = as they are. -ENOMEM. */
static int find_program(const struct encoder *encoder, uint32_t *ret)
{
	const struct profile *profile = encoder->profile;
	int r = find_sampled_program(encoder, ret);
	if (r < 0 || *ret)
		return r;
	bool is_first = true;
	for (uint32_t i = 1; i < profile->mapping_count; i++) {
		if (!encoder->mappings[i])
			continue;
		/* A source that put a library first may know why: only what can be no file makes way. */
		struct bytes name = profile_string_bytes(profile, profile->mappings[i].file_name);
		if (is_first && name.len > 0 && name.data[0] != '[')
			return 0;
		is_first = false;
		if (may_be_program(profile, i)) {
			*ret = i;
			return 0;
		}
	}
	return 0;
}

static int number_mappings(struct encoder *encoder)
{
	const struct profile *profile = encoder->profile;
	uint32_t count = 0, program;
	bool kernel = false;
	for (size_t i = 0; i < encoder->locations.count; i++) {
		const struct profile_location *location = &profile->locations[encoder->locations.order[i]];
		encoder->mappings[location->mapping] = 1;
		kernel |= needs_kernel_mapping(location);
	}
	encoder->mappings[0] = 0;
	int r = find_program(encoder, &program);
	if (r < 0)
		return r;
	encoder->first_mapping = program;
	if (program)
		encoder->mappings[program] = ++count;
	for (size_t i = 1; i < profile->mapping_count; i++)
		if (encoder->mappings[i] && i != program)
			encoder->mappings[i] = ++count;
	encoder->kernel_mapping = kernel ? ++count : 0;
	return 0;
}

static void write_used_mapping(struct encoder *encoder, uint32_t id, uint32_t flags)
{
	struct profile_mapping mapping = encoder->profile->mappings[id];
	mapping.file_name = string_index(encoder, mapping.file_name);
	mapping.build_id = string_index(encoder, mapping.build_id);
	write_mapping(encoder, encoder->mappings[id], &mapping, flags);
}

static int write_mappings(struct encoder *encoder)
{
	const struct profile *profile = encoder->profile;
	int r = number_mappings(encoder);
	if (r < 0)
		return r;
	uint32_t kernel_slot = (uint32_t)profile->mapping_count;
	_cleanup_(mem_freep) uint32_t *flags = mem_alloc_array(profile->mapping_count + 1, sizeof(*flags));
	if (!flags)
		return -ENOMEM;
	find_mapping_flags(encoder, flags, kernel_slot);
	if (encoder->first_mapping)
		write_used_mapping(encoder, encoder->first_mapping, flags[encoder->first_mapping]);
	for (uint32_t i = 1; i < profile->mapping_count; i++)
		if (encoder->mappings[i] && i != encoder->first_mapping)
			write_used_mapping(encoder, i, flags[i]);
	if (encoder->kernel_mapping) {
		/* A string of its own, behind those of the profile. */
		encoder->kernel_file = (uint32_t)profile->strings.count;
		struct profile_mapping mapping = {.file_name = string_index(encoder, encoder->kernel_file)};
		write_mapping(encoder, encoder->kernel_mapping, &mapping, flags[kernel_slot]);
	}
	return 0;
}

static void write_line(struct encoder *encoder, const struct profile_line *line)
{
	size_t mark;
	pb_begin(encoder->out, 4, &mark);
	pb_put_varint(encoder->out, 1, number_of(&encoder->functions, line->function));
	pb_put_varint(encoder->out, 2, (uint64_t)line->line);
	pb_put_varint(encoder->out, 3, (uint64_t)line->column);
	pb_end(encoder->out, mark);
}

static void write_location(struct encoder *encoder, uint32_t number, uint32_t id)
{
	const struct profile *profile = encoder->profile;
	const struct profile_location *location = &profile->locations[id];
	uint32_t mapping = needs_kernel_mapping(location) ? encoder->kernel_mapping : encoder->mappings[location->mapping];
	size_t mark;
	pb_begin(encoder->out, 4, &mark);
	pb_put_varint(encoder->out, 1, number);
	pb_put_varint(encoder->out, 2, mapping);
	pb_put_varint(encoder->out, 3, location->address);
	for (uint32_t i = 0; i < location->line_count; i++)
		write_line(encoder, &profile->lines[location->line_first + i]);
	pb_put_varint(encoder->out, 5, location->folded);
	pb_end(encoder->out, mark);
}

static void write_function(struct encoder *encoder, uint32_t number, const struct profile_function *function)
{
	size_t mark;
	pb_begin(encoder->out, 5, &mark);
	pb_put_varint(encoder->out, 1, number);
	write_text(encoder, 2, function->name);
	write_text(encoder, 3, function->system_name);
	write_text(encoder, 4, function->file_name);
	pb_put_varint(encoder->out, 5, (uint64_t)function->start_line);
	pb_end(encoder->out, mark);
}

static void write_scalars(struct encoder *encoder)
{
	const struct profile *profile = encoder->profile;
	write_text(encoder, 7, profile->drop_frames);
	write_text(encoder, 8, profile->keep_frames);
	pb_put_varint(encoder->out, 9, (uint64_t)profile->time_ns);
	pb_put_varint(encoder->out, 10, (uint64_t)profile->duration_ns);
	if (profile->period_type.type || profile->period_type.unit)
		write_value_type(encoder, 11, profile->period_type);
	pb_put_varint(encoder->out, 12, (uint64_t)profile->period);
	for (size_t i = 0; i < profile->comment_count; i++)
		pb_write_varint(encoder->out, 13, string_index(encoder, profile->comments[i]));
	write_text(encoder, 14, profile->default_sample_type);
	write_text(encoder, 15, profile->doc_url);
}

static void write_strings(struct encoder *encoder)
{
	pb_write_bytes(encoder->out, 6, NULL, 0);
	for (size_t i = 0; i < encoder->strings.count; i++) {
		uint32_t id = encoder->strings.order[i];
		struct bytes text = id < encoder->profile->strings.count ? profile_string_bytes(encoder->profile, id)
									 : bytes_of_string(FORMAT_KERNEL_FILE);
		pb_write_bytes(encoder->out, 6, text.data, text.len);
	}
}

/* ---- the whole ---- */

/* Between two parts of the whole: packs what there is when it is much, and passes it on. */
static int drain(struct encoder *encoder, bool last, struct error *err)
{
	struct format_sink *sink = encoder->sink;
	if (!sink || buffer_status(encoder->out) < 0 || (!last && encoder->out->len < FORMAT_SINK_BYTES))
		return 0;
	int r = encoder->packer ? 0 : gzip_stream_new(GZIP_LEVEL, &encoder->packer, err);
	if (r == 0)
		r = gzip_stream_write(encoder->packer, buffer_bytes(encoder->out), last, sink->out, err);
	buffer_clear(encoder->out);
	return r < 0 ? r : format_sink_drain(sink, false, err);
}

static int write_profile(struct encoder *encoder, struct error *err)
{
	const struct profile *profile = encoder->profile;
	int r = 0;
	for (size_t i = 0; i < profile->sample_type_count; i++)
		write_value_type(encoder, 1, profile->sample_types[i]);
	for (size_t i = 0; i < encoder->groups.count && r == 0 && buffer_status(encoder->out) == 0; i++) {
		write_sample(encoder, i);
		r = drain(encoder, false, err);
	}
	if (r < 0)
		return r;
	r = write_mappings(encoder);
	for (size_t i = 0; i < encoder->locations.count; i++)
		write_location(encoder, (uint32_t)i + 1, encoder->locations.order[i]);
	for (size_t i = 0; i < encoder->functions.count; i++)
		write_function(encoder, (uint32_t)i + 1, &profile->functions[encoder->functions.order[i]]);
	write_scalars(encoder);
	write_strings(encoder);
	r = r < 0 ? r : buffer_status(encoder->out);
	return r < 0 ? format_buffer_error(r, encoder->out, "the pprof output", err) : 0;
}

static int encoder_init(struct encoder *encoder, struct error *err)
{
	const struct profile *profile = encoder->profile;
	encoder->stack_max = LIMIT_STACK_DEPTH;
	encoder->mappings = mem_zalloc_array(profile->mapping_count, sizeof(*encoder->mappings));
	encoder->stack = mem_alloc_array(encoder->stack_max, sizeof(*encoder->stack));
	encoder->packed = mem_alloc_array(encoder->stack_max, sizeof(*encoder->packed));
	/* One more string for FORMAT_KERNEL_FILE. */
	if (!encoder->mappings || !encoder->stack || !encoder->packed ||
	    numbering_init(&encoder->strings, profile->strings.count + 1) < 0 ||
	    numbering_init(&encoder->locations, profile->location_count) < 0 ||
	    numbering_init(&encoder->functions, profile->function_count) < 0)
		return error_nomem(err);
	return sample_groups_build(profile, GROUPS_BY_NUMBERS, &encoder->groups, err);
}

static void encoder_release(struct encoder *encoder)
{
	numbering_release(&encoder->strings);
	numbering_release(&encoder->locations);
	numbering_release(&encoder->functions);
	mem_free(encoder->mappings);
	mem_free(encoder->stack);
	mem_free(encoder->packed);
	sample_groups_release(&encoder->groups);
	gzip_stream_free(encoder->packer);
}

static int encode_raw(const struct profile *profile, struct buffer *out, struct error *err)
{
	_cleanup_(encoder_release) struct encoder encoder = {.profile = profile, .out = out};
	int r = encoder_init(&encoder, err);
	if (r < 0)
		return r;
	return write_profile(&encoder, err);
}

int pprof_write(const struct profile *profile, struct format_sink *sink, struct error *err)
{
	_cleanup_(buffer_release) struct buffer raw = {.max = LIMIT_PROFILE_FILE_BYTES};
	_cleanup_(encoder_release) struct encoder encoder = {
		.profile = profile, .out = &raw, .sink = sink->flush ? sink : NULL};
	int r = encoder_init(&encoder, err);
	if (r == 0)
		r = write_profile(&encoder, err);
	if (r < 0)
		return r;
	return encoder.packer ? drain(&encoder, true, err) : gzip_compress(buffer_bytes(&raw), GZIP_LEVEL, sink->out, err);
}

int pprof_encode(const struct profile *profile, const struct format_options *options, struct buffer *out, struct error *err)
{
	size_t before = out->len;
	int r;
	if (options && !options->compress) {
		r = encode_raw(profile, out, err);
	} else {
		_cleanup_(buffer_release) struct buffer raw = {.max = LIMIT_PROFILE_FILE_BYTES};
		r = encode_raw(profile, &raw, err);
		if (r == 0)
			r = gzip_compress(buffer_bytes(&raw), GZIP_LEVEL, out, err);
	}
	if (r < 0)
		buffer_truncate(out, before);
	return r;
}
