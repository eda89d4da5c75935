/* SPDX-License-Identifier: Apache-2.0 */
/* Helpers that several formats share. */
#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "base/map.h"
#include "base/sum.h"
#include "base/text.h"
#include "codec/json_tree.h"
#include "codec/protobuf.h"
#include "format/format_int.h"

/* ---- groups of samples ---- */

static uint64_t hash_sample(const struct profile_sample *sample, unsigned by)
{
	const uint32_t parts[] = {sample->stack, sample->labels, by & GROUPS_BY_LINK ? sample->link : 0,
				  by & GROUPS_BY_NUMBERS ? sample->numbers : 0};
	return hash64_guarded(parts, sizeof(parts));
}

static bool samples_agree(const struct profile_sample *a, const struct profile_sample *b, unsigned by)
{
	return a->stack == b->stack && a->labels == b->labels && (!(by & GROUPS_BY_LINK) || a->link == b->link) &&
	       (!(by & GROUPS_BY_NUMBERS) || a->numbers == b->numbers);
}

/* The group of a sample, groups->count if it is the first of its kind. */
static size_t find_group(const struct profile *profile, const struct sample_groups *groups, const struct index32 *index,
			 const struct profile_sample *sample, uint64_t hash, unsigned by)
{
	uint32_t group;
	for (size_t at = index32_first(index, hash); index32_at(index, hash, &at, &group); at++)
		if (samples_agree(&profile->samples[groups->first[group]], sample, by))
			return group;
	return groups->count;
}

int sample_groups_build(const struct profile *profile, unsigned by, struct sample_groups *ret, struct error *err)
{
	size_t count = profile->sample_count;
	struct sample_groups groups = {
		.first = mem_alloc_array(count, sizeof(*groups.first)),
		.next = mem_alloc_array(count, sizeof(*groups.next)),
	};
	_cleanup_(mem_freep) uint32_t *last = mem_alloc_array(count, sizeof(*last));
	_cleanup_(index32_release) struct index32 index = {0};
	if (!groups.first || !groups.next || !last)
		goto nomem;
	for (uint32_t i = 0; i < count; i++) {
		const struct profile_sample *sample = &profile->samples[i];
		uint64_t hash = hash_sample(sample, by);
		size_t group = find_group(profile, &groups, &index, sample, hash, by);
		if (group == groups.count) {
			if (index32_add(&index, hash, (uint32_t)group) < 0)
				goto nomem;
			groups.first[groups.count++] = i;
		} else {
			groups.next[last[group]] = i;
		}
		last[group] = i;
		groups.next[i] = SAMPLE_NONE;
	}
	*ret = groups;
	return 0;
nomem:
	sample_groups_release(&groups);
	return error_nomem(err);
}

void sample_groups_release(struct sample_groups *groups)
{
	groups->first = mem_free(groups->first);
	groups->next = mem_free(groups->next);
	groups->count = 0;
}

int64_t sample_groups_sum(const struct sample_groups *groups, const struct profile *profile, size_t group, size_t sample_type)
{
	int64_t sum = 0;
	for (uint32_t i = groups->first[group]; i != SAMPLE_NONE; i = groups->next[i])
		sum_to(&sum, profile->values[(size_t)i * profile->sample_type_count + sample_type]);
	return sum;
}

/* ---- names and labels ---- */

bool format_is_kernel_file(struct bytes file_name)
{
	static const char *const user[] = {"[vdso",  "[vsyscall", "[vvar",    "[stack",	  "[heap",    "[anon",
					   "[unkno", "[uprobes",  "[perf-ma", "[OTEL_CT", "[sigpage", "[jit"};
	if (file_name.len < 3 || file_name.data[0] != '[')
		return false;
	if (bytes_start_with(file_name, "[kernel"))
		return true;
	if (file_name.data[file_name.len - 1] != ']')
		return false;
	for (size_t i = 0; i < sizeof(user) / sizeof(user[0]); i++)
		if (bytes_start_with(file_name, user[i]))
			return false;
	return true;
}

int format_append_address(const struct profile *profile, uint32_t id, struct buffer *out)
{
	const struct profile_location *location = &profile->locations[id];
	struct bytes file = profile_string_bytes(profile, profile->mappings[location->mapping].file_name);
	if (file.len > 0) {
		struct bytes name = text_base_name_of(file);
		int r = buffer_append(out, name.data, name.len);
		return r < 0 ? r : buffer_printf(out, "+0x%llx", (unsigned long long)profile_location_file_offset(profile, id));
	}
	if (location->address)
		return buffer_printf(out, "0x%llx", (unsigned long long)location->address);
	return buffer_append_string(out, "[unknown]");
}

int format_append_function(const struct profile *profile, uint32_t id, struct buffer *out)
{
	const struct profile_function *function = &profile->functions[id];
	uint32_t name = function->name ? function->name : function->system_name;
	struct bytes text = profile_string_bytes(profile, name);
	return name ? buffer_append(out, text.data, text.len) : buffer_append_string(out, "[unknown]");
}

int format_append_label_value(const struct profile *profile, const struct profile_label *label, struct buffer *out)
{
	if (label->value || (label->number == 0 && label->unit == 0)) {
		struct bytes text = profile_string_bytes(profile, label->value);
		return buffer_append(out, text.data, text.len);
	}
	int r = buffer_printf(out, "%lld", (long long)label->number);
	if (r < 0 || label->unit == 0)
		return r;
	struct bytes unit = profile_string_bytes(profile, label->unit);
	r = buffer_append_byte(out, ' ');
	return r < 0 ? r : buffer_append(out, unit.data, unit.len);
}

size_t format_find_parentheses(struct bytes text)
{
	size_t depth = 0;
	if (text.len == 0 || text.data[text.len - 1] != ')')
		return SIZE_MAX;
	for (size_t i = text.len; i-- > 0;) {
		depth += text.data[i] == ')';
		depth -= text.data[i] == '(';
		if (depth == 0)
			return i;
	}
	return SIZE_MAX;
}

bool format_parse_address(struct bytes text, uint64_t *ret)
{
	uint64_t value = 0;
	if (text.len > 2 && text.data[0] == '0' && text.data[1] == 'x')
		text = (struct bytes){text.data + 2, text.len - 2};
	if (text.len == 0 || text.len > 16)
		return false;
	for (size_t i = 0; i < text.len; i++) {
		int digit = text_hex_digit(text.data[i]);
		if (digit < 0)
			return false;
		value = value << 4 | (unsigned)digit;
	}
	*ret = value;
	return true;
}

struct bytes format_take_column(struct bytes *line)
{
	const uint8_t *tab = memchr(line->data, '\t', line->len);
	size_t len = tab ? (size_t)(tab - line->data) : line->len;
	struct bytes column = {line->data, len};
	*line = bytes_skip(*line, len + (tab != NULL));
	return column;
}

int format_note(const struct format_options *options, const struct format_left_out *items, size_t count, struct error *err)
{
	struct buffer *notes = options ? options->notes : NULL;
	char number[TEXT_NUMBER_MAX];
	for (size_t i = 0; notes && i < count; i++) {
		if (!items[i].count)
			continue;
		buffer_printf(notes, "%s %s\n", text_format_count(items[i].count, number), items[i].what);
		int r = format_note_status(notes, err);
		if (r < 0)
			return r;
	}
	return 0;
}

int format_note_status(struct buffer *notes, struct error *err)
{
	bool no_memory = buffer_status(notes) == -ENOMEM;
	buffer_truncate(notes, notes->len);
	return no_memory ? error_nomem(err) : 0;
}

int format_add_strings(struct profile *profile, const struct format_string *strings, size_t count, struct error *err)
{
	int r = 0;
	for (size_t i = 0; r == 0 && i < count; i++)
		r = profile_add_cstring(profile, strings[i].text, strings[i].ret, err);
	return r;
}

int format_add_members(struct profile *profile, const struct json_node *object, const struct format_string *members,
		       size_t count, struct error *err)
{
	int r = 0;
	for (size_t i = 0; r == 0 && i < count; i++)
		r = profile_add_bytes(profile, json_node_bytes(json_node_get(object, members[i].text)), members[i].ret, err);
	return r;
}

int format_read_varints(struct pb_cursor *cursor, const char *message, uint64_t *values, uint32_t count, struct error *err)
{
	struct pb_field field;
	int r;
	while ((r = pb_next(cursor, &field, err)) > 0) {
		if (field.number > count)
			continue;
		r = pb_expect(cursor, &field, PB_VARINT, message, err);
		if (r < 0)
			return r;
		values[field.number] = field.value;
	}
	return r;
}

int format_add_frame(struct profile *profile, const struct format_frame *frame, uint32_t *ret_location, struct error *err)
{
	struct profile_function function = {.start_line = frame->start_line};
	struct profile_line line = {.line = frame->line, .column = frame->column};
	struct profile_location location = {.frame_type = frame->type};
	int r = profile_add_bytes(profile, frame->name, &function.name, err);
	if (r == 0)
		r = profile_add_bytes(profile, frame->file, &function.file_name, err);
	if (r == 0)
		r = profile_add_function(profile, &function, &line.function, err);
	return r < 0 ? r : profile_add_location(profile, &location, &line, 1, ret_location, err);
}

int format_set_period_type(struct profile *profile, const char *type, const char *unit, struct error *err)
{
	int r = profile_add_cstring(profile, type, &profile->period_type.type, err);
	return r < 0 ? r : profile_add_cstring(profile, unit, &profile->period_type.unit, err);
}

int format_add_origin(struct profile *profile, struct bytes command, int64_t pid, struct error *err)
{
	struct profile_label label = {.number = pid};
	uint32_t text;
	int r = 0;
	if (command.len > 0) {
		r = profile_add_bytes(profile, command, &text, err);
		if (r == 0)
			r = profile_add_comment(profile, text, err);
	}
	if (r < 0 || pid == 0)
		return r;
	r = profile_add_cstring(profile, "process.pid", &label.key, err);
	return r < 0 ? r : profile_add_label_set(profile, &label, 1, &profile->resource_labels, err);
}

bool format_known(const struct map64 *ids, uint64_t key, uint32_t *ret)
{
	uint64_t id = 0;
	bool is_known = map64_get(ids, key, &id);
	*ret = (uint32_t)id;
	return is_known;
}

int format_begin_json(struct bytes input, struct json_tree **ret_tree, struct profile **ret_profile, struct error *err)
{
	int r = json_tree_read(input, 0, ret_tree, err);
	return r < 0 ? r : profile_new(ret_profile, err);
}

int format_finish(int r, struct profile *profile, struct profile **ret)
{
	if (r < 0)
		profile_free(profile);
	else
		*ret = profile;
	return r;
}

int format_buffer_error(int code, const struct buffer *out, const char *what, struct error *err)
{
	if (code == -E2BIG)
		return error_set(err, code, "%s exceeds the limit of %zu bytes; use a shorter time range or fewer labels", what,
				 out->max);
	return error_nomem(err);
}
