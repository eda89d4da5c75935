/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Encoding OTLP profiles in the 1.10 layout (otlp_decode.c and otlp_dictionary.c have the field numbers).
 *
 * Each struct profile becomes one ResourceProfiles with one scope. OTLP's Profile has a single sample type, so there is one for
 * each sample type; and samples of one Profile have the same shape, so samples with a time and samples without are two.
 * Samples that agree in stack, labels and link are written as one, with their timestamps, or with the sum if they have none.
 * Where there are several types, samples that are zero in one of them are left out of that one.
 *
 * The dictionary is shared by all profiles of the request. It is collected in two scratch profiles, whose interned ids are the
 * indexes in OTLP's tables, since both keep entry 0 for "none": `tables` holds strings, mappings, functions, locations, links
 * and, as a trie, stacks (whose leaves get indexes in the stack table); `attributes` holds one label set an attribute.
 *
 * Text must be UTF-8 here: what is not gets U+FFFD. An attribute key may come once: several values of a label become a list.
 * Of a profile's parts, comments, drop and keep frames, the default sample type, doc_url and is_folded have no place in OTLP.
 */
#include <errno.h>

#include "base/alloc.h"
#include "base/limits.h"
#include "base/map.h"
#include "base/order.h"
#include "base/sum.h"
#include "base/text.h"
#include "codec/protobuf.h"
#include "elf/build_id.h"
#include "format/format_int.h"
#include "format/otlp/otlp.h"
#include "profile/hosts.h"
#include "profile/runtimes.h"

struct encoder {
	struct buffer *out;
	struct profile *tables, *attributes;
	/* The stack table: stacks of `tables`, by index - 1, and back. */
	uint32_t *stacks;
	size_t stack_count, stack_capacity;
	struct map64 stack_indexes;

	/* The profile being written, its ids to those of `tables`, plus 1; 0 = not copied yet. */
	const struct profile *from;
	uint32_t *strings, *mappings, *functions, *locations, *trie;
	/* Its label sets to lists of attributes in the pool. */
	struct label_list {
		uint32_t first, count;
		bool known;
	} * label_lists;
	uint64_t *pool;
	size_t pool_count, pool_capacity;

	/* Scratch */
	struct profile_line *lines;
	size_t line_capacity;
	struct profile_label *labels;
	size_t label_capacity;
	uint64_t *values;
	size_t value_count, value_capacity;
	struct buffer text, times;
	uint32_t path[LIMIT_STACK_DEPTH];
};

/* ---- copying into the tables ---- */

/* The text, valid as UTF-8: itself, or a repaired copy in encoder->text. */
static int valid_text(struct encoder *encoder, struct bytes text, struct bytes *ret, struct error *err)
{
	*ret = text;
	if (text_is_utf8(text))
		return 0;
	buffer_clear(&encoder->text);
	int r = text_append_utf8(&encoder->text, text);
	if (r < 0)
		return format_buffer_error(r, &encoder->text, "a string", err);
	*ret = buffer_bytes(&encoder->text);
	return 0;
}

static int add_text(struct encoder *encoder, struct profile *to, uint32_t id, uint32_t *ret, struct error *err)
{
	struct bytes text;
	int r = valid_text(encoder, profile_string_bytes(encoder->from, id), &text, err);
	return r < 0 ? r : profile_add_bytes(to, text, ret, err);
}

/* What `copied` has for `id`, by add() if that is nothing yet. */
static inline int copy_once(struct encoder *encoder, uint32_t *copied, uint32_t id,
			    int (*add)(struct encoder *encoder, uint32_t id, uint32_t *ret, struct error *err), uint32_t *ret,
			    struct error *err)
{
	if (copied[id] == 0) {
		uint32_t copy;
		int r = add(encoder, id, &copy, err);
		if (r < 0)
			return r;
		copied[id] = copy + 1;
	}
	*ret = copied[id] - 1;
	return 0;
}

static int add_string(struct encoder *encoder, uint32_t id, uint32_t *ret, struct error *err)
{
	return add_text(encoder, encoder->tables, id, ret, err);
}

static int copy_string(struct encoder *encoder, uint32_t id, uint32_t *ret, struct error *err)
{
	return copy_once(encoder, encoder->strings, id, add_string, ret, err);
}

static int add_mapping(struct encoder *encoder, uint32_t id, uint32_t *ret, struct error *err)
{
	struct profile_mapping mapping = encoder->from->mappings[id];
	mapping.flags &= PROFILE_MAPPING_ID_TYPE;
	mapping.content = 0;
	int r = copy_string(encoder, mapping.file_name, &mapping.file_name, err);
	if (r == 0)
		r = copy_string(encoder, mapping.build_id, &mapping.build_id, err);
	if (r == 0)
		r = copy_string(encoder, mapping.go_id, &mapping.go_id, err);
	return r < 0 ? r : profile_add_mapping(encoder->tables, &mapping, ret, err);
}

static int add_function(struct encoder *encoder, uint32_t id, uint32_t *ret, struct error *err)
{
	struct profile_function function = encoder->from->functions[id];
	int r = copy_string(encoder, function.name, &function.name, err);
	if (r == 0)
		r = copy_string(encoder, function.system_name, &function.system_name, err);
	if (r == 0)
		r = copy_string(encoder, function.file_name, &function.file_name, err);
	return r < 0 ? r : profile_add_function(encoder->tables, &function, ret, err);
}

static int add_location(struct encoder *encoder, uint32_t id, uint32_t *ret, struct error *err)
{
	struct profile_location location = encoder->from->locations[id];
	location.folded = false;
	if (array_reserve(&encoder->lines, &encoder->line_capacity, location.line_count, SIZE_MAX) < 0)
		return error_nomem(err);
	int r = copy_once(encoder, encoder->mappings, location.mapping, add_mapping, &location.mapping, err);
	for (uint32_t i = 0; i < location.line_count && r == 0; i++) {
		struct profile_line *line = &encoder->lines[i];
		*line = encoder->from->lines[location.line_first + i];
		r = copy_once(encoder, encoder->functions, line->function, add_function, &line->function, err);
	}
	return r < 0 ? r : profile_add_location(encoder->tables, &location, encoder->lines, location.line_count, ret, err);
}

/* Goes up to the nearest caller that has been copied, and down again. */
static int copy_trie(struct encoder *encoder, uint32_t id, uint32_t *ret, struct error *err)
{
	size_t depth = 0;
	uint32_t at = id;
	for (; encoder->trie[at] == 0; at = encoder->from->stacks[at].parent)
		encoder->path[depth++] = at;
	uint32_t copy = encoder->trie[at] - 1;
	while (depth > 0) {
		uint32_t location;
		at = encoder->path[--depth];
		int r = copy_once(encoder, encoder->locations, encoder->from->stacks[at].location, add_location, &location,
				  err);
		if (r == 0)
			r = profile_add_stack(encoder->tables, copy, location, &copy, err);
		if (r < 0)
			return r;
		encoder->trie[at] = copy + 1;
	}
	*ret = copy;
	return 0;
}

/* Index in the stack table. */
static int copy_stack(struct encoder *encoder, uint32_t id, uint64_t *ret, struct error *err)
{
	uint32_t copy;
	int r = copy_trie(encoder, id, &copy, err);
	*ret = 0;
	if (r < 0 || copy == 0 || map64_get(&encoder->stack_indexes, copy, ret))
		return r;
	if (array_reserve(&encoder->stacks, &encoder->stack_capacity, encoder->stack_count + 1, SIZE_MAX) < 0 ||
	    map64_put(&encoder->stack_indexes, copy, encoder->stack_count + 1) < 0)
		return error_nomem(err);
	encoder->stacks[encoder->stack_count++] = copy;
	*ret = encoder->stack_count;
	return 0;
}

/* ---- labels ---- */

DEFINE_ORDER(compare_label_keys, struct profile_label,
	     ORDER(a->key, b->key) ?: ORDER(a->value, b->value) ?: ORDER(a->number, b->number));

/* The set's labels with strings of `attributes`, equal keys side by side, in encoder->labels. Keys can become equal only here,
 * when they are repaired, which is why it is not left to the set's own order. */
static int convert_labels(struct encoder *encoder, uint32_t label_set, size_t *ret_count, struct error *err)
{
	const struct profile_label_set *set = &encoder->from->label_sets[label_set];
	size_t count = 0;
	if (array_reserve(&encoder->labels, &encoder->label_capacity, set->count, SIZE_MAX) < 0)
		return error_nomem(err);
	for (uint32_t i = set->first; i < set->first + set->count; i++) {
		struct profile_label label = encoder->from->labels[i];
		if (!label.value && !label.number && !label.unit)
			continue;
		int r = add_text(encoder, encoder->attributes, label.key, &label.key, err);
		if (r == 0)
			r = add_text(encoder, encoder->attributes, label.value, &label.value, err);
		if (r == 0)
			r = add_text(encoder, encoder->attributes, label.unit, &label.unit, err);
		if (r < 0)
			return r;
		encoder->labels[count++] = label;
	}
	sort_array(encoder->labels, count, compare_label_keys);
	*ret_count = count;
	return 0;
}

static size_t run_length(const struct profile_label *labels, size_t count)
{
	size_t run = 1;
	while (run < count && labels[run].key == labels[0].key)
		run++;
	return run;
}

static int fill_label_list(struct encoder *encoder, uint32_t label_set, struct error *err)
{
	struct label_list *list = &encoder->label_lists[label_set];
	size_t count;
	int r = convert_labels(encoder, label_set, &count, err);
	if (r < 0)
		return r;
	if (array_reserve(&encoder->pool, &encoder->pool_capacity, encoder->pool_count + count, UINT32_MAX) < 0)
		return error_nomem(err);
	list->first = (uint32_t)encoder->pool_count;
	for (size_t i = 0; i < count;) {
		size_t run = run_length(encoder->labels + i, count - i);
		uint32_t attribute;
		r = profile_add_label_set(encoder->attributes, encoder->labels + i, run, &attribute, err);
		if (r < 0)
			return r;
		encoder->pool[encoder->pool_count++] = attribute;
		i += run;
	}
	list->count = (uint32_t)(encoder->pool_count - list->first);
	list->known = true;
	return 0;
}

/* The index of an attribute with a text value. */
static int add_attribute(struct encoder *encoder, const char *key, struct bytes value, uint64_t *ret, struct error *err)
{
	struct profile_label label = {0};
	uint32_t attribute = 0;
	int r = profile_add_cstring(encoder->attributes, key, &label.key, err);
	if (r == 0)
		r = profile_add_bytes(encoder->attributes, value, &label.value, err);
	if (r == 0)
		r = profile_add_label_set(encoder->attributes, &label, 1, &attribute, err);
	*ret = attribute;
	return r;
}

/* ---- writing: the results of a failed append are distinguished at the end ---- */

static void write_bytes(struct encoder *encoder, uint32_t field, struct bytes bytes)
{
	pb_write_bytes(encoder->out, field, bytes.data, bytes.len);
}

static bool units_differ(const struct profile_label *labels, size_t count)
{
	for (size_t i = 1; i < count; i++)
		if (labels[i].unit != labels[0].unit)
			return true;
	return false;
}

/* An AnyValue. with_unit: a number takes its unit along, as text. */
static void write_value(struct encoder *encoder, uint32_t field, const struct profile_label *label, bool with_unit)
{
	size_t mark;
	pb_begin(encoder->out, field, &mark);
	if (label->value || (with_unit && label->unit)) {
		buffer_clear(&encoder->text);
		buffer_fail(encoder->out, format_append_label_value(encoder->attributes, label, &encoder->text));
		write_bytes(encoder, 1, buffer_bytes(&encoder->text));
	} else {
		pb_write_varint(encoder->out, 3, (uint64_t)label->number);
	}
	pb_end(encoder->out, mark);
}

/* The value of one key: one label's, or a list. */
static void write_values(struct encoder *encoder, uint32_t field, const struct profile_label *labels, size_t count,
			 bool with_unit)
{
	size_t mark, list;
	if (count == 1) {
		write_value(encoder, field, labels, with_unit);
		return;
	}
	pb_begin(encoder->out, field, &mark);
	pb_begin(encoder->out, 5, &list);
	for (size_t i = 0; i < count; i++)
		write_value(encoder, 1, &labels[i], with_unit);
	pb_end(encoder->out, list);
	pb_end(encoder->out, mark);
}

static bool has_key(const struct profile *profile, uint32_t label_set, struct bytes key)
{
	const struct profile_label_set *set = &profile->label_sets[label_set];
	for (uint32_t i = set->first; i < set->first + set->count; i++)
		if (bytes_equal(profile_string_bytes(profile, profile->labels[i].key), key))
			return true;
	return false;
}

static int write_resource_attributes(struct encoder *encoder, uint32_t label_set, uint32_t but, struct error *err)
{
	size_t pair, count;
	int r = convert_labels(encoder, label_set, &count, err);
	if (r < 0)
		return r;
	for (size_t i = 0, run; i < count; i += run) {
		struct bytes key = profile_string_bytes(encoder->attributes, encoder->labels[i].key);
		run = run_length(encoder->labels + i, count - i);
		if (has_key(encoder->from, but, key))
			continue;
		pb_begin(encoder->out, 1, &pair);
		write_bytes(encoder, 1, key);
		write_values(encoder, 2, encoder->labels + i, run, true);
		pb_end(encoder->out, pair);
	}
	return 0;
}

/* An EntityRef { 2 type  3 id_keys  4 description_keys }: which of the attributes describe the host, and do not identify what
 * the samples are of. */
static int write_host_entity(struct encoder *encoder)
{
	const struct profile *from = encoder->from;
	const struct profile_label_set *set = &from->label_sets[from->host_labels];
	size_t mark;
	if (!set->count)
		return 0;
	pb_begin(encoder->out, 3, &mark);
	pb_write_string(encoder->out, 2, "host");
	pb_write_string(encoder->out, 3, PROFILE_HOST_LABEL);
	for (uint32_t i = set->first; i < set->first + set->count; i++)
		if (i == set->first || from->labels[i].key != from->labels[i - 1].key)
			write_bytes(encoder, 4, profile_string_bytes(from, from->labels[i].key));
	return pb_end(encoder->out, mark);
}

static int write_resource(struct encoder *encoder, struct error *err)
{
	size_t mark;
	pb_begin(encoder->out, 1, &mark);
	int r = write_resource_attributes(encoder, encoder->from->resource_labels, encoder->from->host_labels, err);
	if (r == 0)
		r = write_resource_attributes(encoder, encoder->from->host_labels, 0, err);
	if (r == 0)
		r = write_host_entity(encoder);
	return r < 0 ? r : pb_end(encoder->out, mark);
}

/* ---- samples ---- */

static bool is_timed(const struct profile_sample *sample)
{
	return sample->time_ns > 0;
}

/* The samples of one Profile message. */
struct selection {
	const struct sample_groups *groups;
	size_t type;
	bool timed;
	bool keep_zeros;
	bool only_ones; /* every value is 1, which timestamps alone say as well */
};

static int64_t value_of(const struct encoder *encoder, const struct selection *selection, uint32_t sample)
{
	return encoder->from->values[(size_t)sample * encoder->from->sample_type_count + selection->type];
}

static bool is_selected(const struct encoder *encoder, const struct selection *selection, uint32_t sample)
{
	if (is_timed(&encoder->from->samples[sample]) != selection->timed)
		return false;
	return selection->keep_zeros || value_of(encoder, selection, sample) != 0;
}

static int add_time(struct encoder *encoder, uint64_t time)
{
	uint8_t bytes[8];
	for (unsigned i = 0; i < 8; i++)
		bytes[i] = (uint8_t)(time >> (8 * i));
	return buffer_append(&encoder->times, bytes, sizeof(bytes));
}

/* encoder->values and times of a group. */
static int collect_group(struct encoder *encoder, const struct selection *selection, size_t group)
{
	encoder->value_count = 0;
	buffer_clear(&encoder->times);
	for (uint32_t i = selection->groups->first[group]; i != SAMPLE_NONE; i = selection->groups->next[i]) {
		if (!is_selected(encoder, selection, i))
			continue;
		uint64_t value = (uint64_t)value_of(encoder, selection, i);
		if (!selection->timed && encoder->value_count > 0) {
			encoder->values[0] = (uint64_t)sum_add((int64_t)encoder->values[0], (int64_t)value);
			continue;
		}
		if (array_push(&encoder->values, &encoder->value_count, &encoder->value_capacity, SIZE_MAX, value) < 0)
			return -ENOMEM;
		int r = selection->timed ? add_time(encoder, (uint64_t)encoder->from->samples[i].time_ns) : 0;
		if (r < 0)
			return r;
	}
	return 0;
}

static int write_sample(struct encoder *encoder, const struct selection *selection, size_t group, struct error *err)
{
	const struct profile_sample *sample = &encoder->from->samples[selection->groups->first[group]];
	struct label_list *labels = &encoder->label_lists[sample->labels];
	uint64_t stack = 0;
	uint32_t link = 0;
	size_t mark;
	int r = collect_group(encoder, selection, group);
	if (r < 0 || encoder->value_count == 0)
		return r;
	r = copy_stack(encoder, sample->stack, &stack, err);
	if (r == 0)
		r = profile_add_link(encoder->tables, &encoder->from->links[sample->link], &link, err);
	if (r == 0 && !labels->known)
		r = fill_label_list(encoder, sample->labels, err);
	if (r < 0)
		return r;
	pb_begin(encoder->out, 2, &mark);
	pb_put_varint(encoder->out, 1, stack);
	if (labels->count > 0) /* without any there may be no pool */
		pb_write_packed(encoder->out, 2, encoder->pool + labels->first, labels->count);
	pb_put_varint(encoder->out, 3, link);
	if (!selection->only_ones)
		pb_write_packed(encoder->out, 4, encoder->values, encoder->value_count);
	if (selection->timed)
		write_bytes(encoder, 5, buffer_bytes(&encoder->times));
	return pb_end(encoder->out, mark);
}

/* ---- profiles ---- */

static int write_value_type(struct encoder *encoder, uint32_t field, struct profile_value_type type, struct error *err)
{
	size_t mark;
	int r = copy_string(encoder, type.type, &type.type, err);
	if (r == 0)
		r = copy_string(encoder, type.unit, &type.unit, err);
	if (r < 0)
		return r;
	pb_begin(encoder->out, field, &mark);
	pb_put_varint(encoder->out, 1, type.type);
	pb_put_varint(encoder->out, 2, type.unit);
	return pb_end(encoder->out, mark);
}

static int write_profile(struct encoder *encoder, const struct selection *selection, struct error *err)
{
	const struct profile *from = encoder->from;
	size_t mark;
	pb_begin(encoder->out, 2, &mark);
	int r = write_value_type(encoder, 1, from->sample_types[selection->type], err);
	for (size_t i = 0; i < selection->groups->count && r == 0; i++)
		r = write_sample(encoder, selection, i, err);
	if (from->time_ns > 0)
		pb_write_fixed64(encoder->out, 3, (uint64_t)from->time_ns);
	if (from->duration_ns > 0)
		pb_write_varint(encoder->out, 4, (uint64_t)from->duration_ns);
	if (r == 0 && (from->period_type.type || from->period_type.unit))
		r = write_value_type(encoder, 5, from->period_type, err);
	pb_put_varint(encoder->out, 6, (uint64_t)from->period);
	return r < 0 ? r : pb_end(encoder->out, mark);
}

/* Counts the samples that the selection takes and sets only_ones. */
static size_t survey(const struct encoder *encoder, struct selection *selection)
{
	size_t count = 0;
	bool only_ones = selection->timed;
	for (uint32_t i = 0; i < encoder->from->sample_count; i++) {
		if (!is_selected(encoder, selection, i))
			continue;
		count++;
		only_ones &= value_of(encoder, selection, i) == 1;
	}
	selection->only_ones = only_ones;
	return count;
}

static int write_profiles(struct encoder *encoder, const struct sample_groups *groups, struct error *err)
{
	const struct profile *from = encoder->from;
	int r = 0;
	for (size_t type = 0; type < from->sample_type_count && r == 0; type++) {
		struct selection timed = {groups, type, true, from->sample_type_count == 1, false};
		struct selection untimed = {groups, type, false, from->sample_type_count == 1, false};
		size_t timed_count = survey(encoder, &timed), untimed_count = survey(encoder, &untimed);
		if (timed_count > 0)
			r = write_profile(encoder, &timed, err);
		/* A type without samples is still said to be there. */
		if (r == 0 && (untimed_count > 0 || timed_count == 0))
			r = write_profile(encoder, &untimed, err);
	}
	return r;
}

static int write_scope(struct encoder *encoder, struct error *err)
{
	struct sample_groups groups;
	size_t resource, scope_profiles, scope;
	int r = sample_groups_build(encoder->from, GROUPS_BY_LINK, &groups, err);
	if (r < 0)
		return r;
	pb_begin(encoder->out, 1, &resource);
	r = write_resource(encoder, err);
	pb_begin(encoder->out, 2, &scope_profiles);
	pb_begin(encoder->out, 1, &scope);
	pb_write_string(encoder->out, 1, "wick");
	pb_write_string(encoder->out, 2, WICK_VERSION);
	pb_end(encoder->out, scope);
	if (r == 0)
		r = write_profiles(encoder, &groups, err);
	pb_end(encoder->out, scope_profiles);
	sample_groups_release(&groups);
	return r < 0 ? r : pb_end(encoder->out, resource);
}

static void forget_profile(struct encoder *encoder)
{
	encoder->strings = mem_free(encoder->strings);
	encoder->mappings = mem_free(encoder->mappings);
	encoder->functions = mem_free(encoder->functions);
	encoder->locations = mem_free(encoder->locations);
	encoder->trie = mem_free(encoder->trie);
	encoder->label_lists = mem_free(encoder->label_lists);
	encoder->pool_count = 0;
}

static int write_resource_profiles(struct encoder *encoder, const struct profile *from, struct error *err)
{
	encoder->from = from;
	encoder->strings = mem_zalloc_array(from->strings.count, sizeof(uint32_t));
	encoder->mappings = mem_zalloc_array(from->mapping_count, sizeof(uint32_t));
	encoder->functions = mem_zalloc_array(from->function_count, sizeof(uint32_t));
	encoder->locations = mem_zalloc_array(from->location_count, sizeof(uint32_t));
	encoder->trie = mem_zalloc_array(from->stack_count, sizeof(uint32_t));
	encoder->label_lists = mem_zalloc_array(from->label_set_count, sizeof(*encoder->label_lists));
	bool ok = encoder->strings && encoder->mappings && encoder->functions && encoder->locations && encoder->trie &&
		  encoder->label_lists;
	if (ok) /* entry 0 of each is that of the tables */
		encoder->functions[0] = encoder->locations[0] = encoder->trie[0] = 1;
	int r = ok ? write_scope(encoder, err) : error_nomem(err);
	forget_profile(encoder);
	return r;
}

/* ---- the dictionary ---- */

static bool is_hex(struct bytes text)
{
	for (size_t i = 0; i < text.len; i++)
		if (!(text.data[i] >= '0' && text.data[i] <= '9') && !(text.data[i] >= 'a' && text.data[i] <= 'f'))
			return false;
	return true;
}

/* What a Go build-id was before it was written as hex; as it is if that would be no text. */
static struct bytes go_text(struct bytes hex, uint8_t out[static BUILD_ID_BYTES_MAX])
{
	size_t len = 0;
	if (hex.len % 2 != 0 || hex.len / 2 > BUILD_ID_BYTES_MAX || !is_hex(hex))
		return hex;
	for (size_t i = 0; i < hex.len; i++) {
		uint8_t digit = (uint8_t)(hex.data[i] <= '9' ? hex.data[i] - '0' : hex.data[i] - 'a' + 10);
		out[len] = (uint8_t)(i % 2 ? out[len] << 4 | digit : digit);
		if (i % 2 && (out[len] < ' ' || out[len] > '~'))
			return hex;
		len += i % 2;
	}
	return (struct bytes){out, len};
}

static int write_mapping(struct encoder *encoder, const struct profile_mapping *mapping, struct error *err)
{
	uint8_t text[BUILD_ID_BYTES_MAX];
	struct bytes build_id = profile_string_bytes(encoder->tables, mapping->build_id);
	const char *key = mapping->flags & PROFILE_MAPPING_ID_IS_HASH ? "process.executable.build_id.htlhash"
			  : is_hex(build_id) && !(mapping->flags & PROFILE_MAPPING_ID_IS_GO) ? "process.executable.build_id.gnu"
											     : "process.executable.build_id.go";
	struct bytes go_id = profile_string_bytes(encoder->tables, mapping->go_id);
	uint64_t attributes[2] = {0};
	size_t mark, count = 0;
	if (mapping->flags & PROFILE_MAPPING_ID_IS_GO)
		build_id = go_text(build_id, text);
	int r = build_id.len ? add_attribute(encoder, key, build_id, &attributes[count++], err) : 0;
	/* Beside the hash, as OpenTelemetry's profiler has both. */
	if (r == 0 && go_id.len && (mapping->flags & PROFILE_MAPPING_ID_IS_HASH))
		r = add_attribute(encoder, "process.executable.build_id.go", go_text(go_id, text), &attributes[count++], err);
	pb_begin(encoder->out, 1, &mark);
	pb_put_varint(encoder->out, 1, mapping->start);
	pb_put_varint(encoder->out, 2, mapping->limit);
	pb_put_varint(encoder->out, 3, mapping->offset);
	pb_put_varint(encoder->out, 4, mapping->file_name);
	pb_write_packed(encoder->out, 5, attributes, count);
	return r < 0 ? r : pb_end(encoder->out, mark);
}

static void write_line(struct encoder *encoder, const struct profile_line *line)
{
	size_t mark;
	pb_begin(encoder->out, 3, &mark);
	pb_put_varint(encoder->out, 1, line->function);
	pb_put_varint(encoder->out, 2, (uint64_t)line->line);
	pb_put_varint(encoder->out, 3, (uint64_t)line->column);
	pb_end(encoder->out, mark);
}

/* NULL = unknown. The agent has functions of interpreters in a mapping that is named as the runtime. */
static const char *frame_type(const struct encoder *encoder, const struct profile_location *location)
{
	static const char *const types[] = {NULL, "native", "kernel", "jit", "interpreted"};
	const struct profile_mapping *mapping = &encoder->tables->mappings[location->mapping];
	const struct profile_runtime *runtime = profile_runtime_of(profile_string_bytes(encoder->tables, mapping->file_name));

	if (runtime && location->frame_type == (uint32_t)runtime->type)
		return runtime->frame_type;
	return location->frame_type < sizeof(types) / sizeof(types[0]) ? types[location->frame_type] : NULL;
}

static int write_location(struct encoder *encoder, const struct profile_location *location, struct error *err)
{
	const char *type = frame_type(encoder, location);
	uint64_t attribute = 0;
	size_t mark;
	int r = type ? add_attribute(encoder, "profile.frame.type", bytes_of_string(type), &attribute, err) : 0;
	pb_begin(encoder->out, 2, &mark);
	pb_put_varint(encoder->out, 1, location->mapping);
	pb_put_varint(encoder->out, 2, location->address);
	for (uint32_t i = 0; i < location->line_count; i++)
		write_line(encoder, &encoder->tables->lines[location->line_first + i]);
	pb_write_packed(encoder->out, 4, &attribute, attribute ? 1 : 0);
	return r < 0 ? r : pb_end(encoder->out, mark);
}

static void write_function(struct encoder *encoder, const struct profile_function *function)
{
	size_t mark;
	pb_begin(encoder->out, 3, &mark);
	pb_put_varint(encoder->out, 1, function->name);
	pb_put_varint(encoder->out, 2, function->system_name);
	pb_put_varint(encoder->out, 3, function->file_name);
	pb_put_varint(encoder->out, 4, (uint64_t)function->start_line);
	pb_end(encoder->out, mark);
}

/* Entry 0 is a Link without ids, not one of zeros. */
static void write_link(struct encoder *encoder, size_t index)
{
	const struct profile_link *link = &encoder->tables->links[index];
	size_t mark;
	pb_begin(encoder->out, 4, &mark);
	if (index > 0)
		pb_write_bytes(encoder->out, 1, link->trace_id, sizeof(link->trace_id));
	if (index > 0)
		pb_write_bytes(encoder->out, 2, link->span_id, sizeof(link->span_id));
	pb_end(encoder->out, mark);
}

static int write_stack(struct encoder *encoder, uint32_t stack)
{
	size_t depth = profile_stack_locations(encoder->tables, stack, encoder->path, LIMIT_STACK_DEPTH), mark;
	if (array_reserve(&encoder->values, &encoder->value_capacity, depth, SIZE_MAX) < 0)
		return -ENOMEM;
	for (size_t i = 0; i < depth; i++)
		encoder->values[i] = encoder->path[i];
	pb_begin(encoder->out, 7, &mark);
	pb_write_packed(encoder->out, 1, encoder->values, depth);
	return pb_end(encoder->out, mark);
}

static int write_attribute(struct encoder *encoder, const struct profile_label *labels, size_t count, struct error *err)
{
	const struct profile *attributes = encoder->attributes;
	bool with_unit = units_differ(labels, count);
	struct bytes text = profile_string_bytes(attributes, labels[0].key);
	uint32_t key = 0, unit = 0;
	int r = profile_add_bytes(encoder->tables, text, &key, err);
	text = profile_string_bytes(attributes, with_unit ? 0 : labels[0].unit);
	if (r == 0)
		r = profile_add_bytes(encoder->tables, text, &unit, err);
	pb_put_varint(encoder->out, 1, key);
	write_values(encoder, 2, labels, count, with_unit);
	pb_put_varint(encoder->out, 3, unit);
	return r;
}

/* The label sets of `attributes`; the empty one is the zero value. */
static int write_attributes(struct encoder *encoder, struct error *err)
{
	const struct profile *attributes = encoder->attributes;
	int r = 0;
	for (size_t i = 0; i < attributes->label_set_count && r == 0; i++) {
		const struct profile_label_set *set = &attributes->label_sets[i];
		size_t mark;
		pb_begin(encoder->out, 6, &mark);
		if (set->count > 0)
			r = write_attribute(encoder, &attributes->labels[set->first], set->count, err);
		pb_end(encoder->out, mark);
	}
	return r;
}

/* Attributes after what has them, strings after everything. */
static int write_dictionary(struct encoder *encoder, struct error *err)
{
	const struct profile *tables = encoder->tables;
	size_t mark;
	int r = pb_begin(encoder->out, 2, &mark);
	for (size_t i = 0; i < tables->mapping_count && r == 0; i++)
		r = write_mapping(encoder, &tables->mappings[i], err);
	for (size_t i = 0; i < tables->location_count && r == 0; i++)
		r = write_location(encoder, &tables->locations[i], err);
	for (size_t i = 0; i < tables->function_count; i++)
		write_function(encoder, &tables->functions[i]);
	for (size_t i = 0; i < tables->link_count; i++)
		write_link(encoder, i);
	if (r == 0)
		r = write_stack(encoder, 0);
	for (size_t i = 0; i < encoder->stack_count && r == 0; i++)
		r = write_stack(encoder, encoder->stacks[i]);
	if (r == 0)
		r = write_attributes(encoder, err);
	for (uint32_t i = 0; i < tables->strings.count; i++)
		write_bytes(encoder, 5, profile_string_bytes(tables, i));
	return r < 0 ? r : pb_end(encoder->out, mark);
}

/* ---- the whole ---- */

static void encoder_free(struct encoder *encoder)
{
	if (!encoder)
		return;
	forget_profile(encoder);
	profile_free(encoder->tables);
	profile_free(encoder->attributes);
	map64_release(&encoder->stack_indexes);
	mem_free(encoder->stacks);
	mem_free(encoder->pool);
	mem_free(encoder->lines);
	mem_free(encoder->labels);
	mem_free(encoder->values);
	buffer_release(&encoder->text);
	buffer_release(&encoder->times);
	mem_free(encoder);
}
DEFINE_CLEANUP_POINTER(encoder_free, struct encoder);

int otlp_encode(const struct profile *const *profiles, size_t count, struct buffer *out, struct error *err)
{
	_cleanup_(encoder_freep) struct encoder *encoder = mem_zalloc(sizeof(*encoder));
	size_t before = out->len;
	struct error cause = {0};
	if (!encoder)
		return error_nomem(err);
	encoder->out = out;
	buffer_init(&encoder->text, LIMIT_PROFILE_FILE_BYTES);
	buffer_init(&encoder->times, LIMIT_PROFILE_FILE_BYTES);
	int r = profile_new(&encoder->tables, &cause);
	if (r == 0)
		r = profile_new(&encoder->attributes, &cause);
	for (size_t i = 0; i < count && r == 0; i++)
		r = write_resource_profiles(encoder, profiles[i], &cause);
	if (r == 0)
		r = write_dictionary(encoder, &cause);
	if (r == 0)
		return 0;
	buffer_truncate(out, before);
	if (cause.code)
		return error_set(err, r, "%s", cause.message);
	return format_buffer_error(r, out, "the OTLP output", err);
}

int otlp_encode_response(uint64_t rejected_profiles, const char *message, struct buffer *out, struct error *err)
{
	size_t before = out->len, mark;
	bool has_message = message && *message;
	if (rejected_profiles == 0 && !has_message)
		return 0;
	pb_begin(out, 1, &mark);
	if (rejected_profiles)
		pb_write_varint(out, 1, rejected_profiles);
	if (has_message)
		pb_write_string(out, 2, message);
	int r = pb_end(out, mark);
	if (r == 0)
		return 0;
	buffer_truncate(out, before);
	return format_buffer_error(r, out, "the response", err);
}
