/* SPDX-License-Identifier: Apache-2.0 */
/* Labels: the report of them, samples chosen by them, frames made of them. */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/limits.h"
#include "base/order.h"
#include "base/sum.h"
#include "base/text.h"
#include "render/report_int.h"

#define VALUES_MAX (64u * 1024 * 1024)

/* ---- the report: values by key ---- */

struct tag_value {
	uint32_t key; /* string of the profile */
	uint32_t text;
	int64_t total;
};
struct tag_table {
	const struct profile *profile;
	struct intern texts;
	struct tag_value *values; /* in the order in which they are shown, once sorted */
	size_t count, capacity;
	struct index32 index;
	int64_t *keys; /* totals, by string of the profile */
};

static void tag_table_release(struct tag_table *table)
{
	if (table->profile)
		intern_release(&table->texts);
	mem_free(table->values);
	mem_free(table->keys);
	index32_release(&table->index);
}

static int count_value(struct tag_table *table, uint32_t key, uint32_t text, int64_t value)
{
	uint64_t hash = hash64_mix((uint64_t)key << 32 | text);
	uint32_t id;
	sum_to(&table->keys[key], value);
	for (size_t at = index32_first(&table->index, hash); index32_at(&table->index, hash, &at, &id); at++) {
		struct tag_value *have = &table->values[id];
		if (have->key == key && have->text == text) {
			sum_to(&have->total, value);
			return 0;
		}
	}
	if (array_reserve(&table->values, &table->capacity, table->count + 1, VALUES_MAX) < 0 ||
	    index32_add(&table->index, hash, (uint32_t)table->count) < 0)
		return -ENOMEM;
	table->values[table->count++] = (struct tag_value){key, text, value};
	return 0;
}

static int count_labels(struct report *report, struct tag_table *table, uint32_t set, int64_t value)
{
	const struct profile *profile = report->profile;
	const struct profile_label_set *labels = &profile->label_sets[set];
	int r = 0;
	for (uint32_t i = labels->first; i < labels->first + labels->count && r == 0; i++) {
		const struct profile_label *label = &profile->labels[i];
		char number[UNITS_TEXT_MAX];
		struct bytes text = profile_string_bytes(profile, label->value);
		uint32_t id;
		if (report_is_number(label))
			text = bytes_of_string(
				units_format(label->number, report_label_unit(report, label->key), report->unit, number));
		else if (!label->value)
			continue;
		r = intern_add(&table->texts, text.data, text.len, &id);
		if (r == 0)
			r = count_value(table, label->key, id, value);
	}
	return r;
}

static int compare_values(const void *left, const void *right, void *context)
{
	const struct tag_value *a = left, *b = right;
	const struct tag_table *table = context;
	if (a->key != b->key)
		return strcmp(profile_string(table->profile, a->key), profile_string(table->profile, b->key));
	return units_compare(a->total, b->total)
		       ?: strcmp(intern_string(&table->texts, a->text), intern_string(&table->texts, b->text));
}

static void value_and_share(const struct report *report, int64_t value, char out[static 2 * UNITS_TEXT_MAX])
{
	char text[UNITS_TEXT_MAX], share[UNITS_TEXT_MAX];
	report_format_value(report, value, text);
	if (report->total > 0)
		snprintf(out, 2 * UNITS_TEXT_MAX, "%s (%s):", text, units_format_percent(value, report->total, share));
	else
		snprintf(out, 2 * UNITS_TEXT_MAX, "%s:", text);
}

/* Right-aligned, with at least one blank in front. */
static void put_cell(struct report *report, struct bytes text, size_t width)
{
	size_t len = text_width(text);
	buffer_printf(report->out, "%*s", (int)(len < width ? width - len + 1 : 1), "");
	text_append_harmless(report->out, text);
}

/* One key and its values: values [first, end). Columns are as wide as the widest of this key. */
static void put_key(struct report *report, const struct tag_table *table, size_t first, size_t end)
{
	uint32_t key = table->values[first].key;
	struct bytes name = profile_string_bytes(table->profile, key);
	size_t key_width = text_width(name) + 1, width = 0;
	char text[2 * UNITS_TEXT_MAX], total[UNITS_TEXT_MAX], all[UNITS_TEXT_MAX], share[UNITS_TEXT_MAX];
	for (size_t i = first; i < end; i++) {
		value_and_share(report, table->values[i].total, text);
		size_t len = text_width(bytes_of_string(text));
		width = len > width ? len : width;
	}
	buffer_printf(report->out, " ");
	text_append_harmless(report->out, name);
	buffer_printf(report->out, ": Total %s of %s", report_format_value(report, table->keys[key], total),
		      report_format_value(report, report->total, all));
	if (report->total > 0)
		buffer_printf(report->out, " (%s)", units_format_percent(table->keys[key], report->total, share));
	buffer_printf(report->out, "\n");
	for (size_t i = first; i < end; i++) {
		value_and_share(report, table->values[i].total, text);
		put_cell(report, bytes_of_string(" "), key_width);
		put_cell(report, bytes_of_string(text), width);
		buffer_printf(report->out, " ");
		text_append_harmless(report->out, intern_get(&table->texts, table->values[i].text));
		buffer_printf(report->out, "\n");
	}
	buffer_printf(report->out, "\n");
}

int report_write_tags(struct report *report, struct error *err)
{
	const struct profile *profile = report->profile;
	_cleanup_(tag_table_release) struct tag_table table = {0};
	if (intern_init(&table.texts, GIB) < 0)
		return error_nomem(err);
	table.profile = profile;
	table.keys = mem_zalloc_array(profile->strings.count, sizeof(*table.keys));
	if (!table.keys)
		return error_nomem(err);
	for (size_t i = 0; i < profile->sample_count; i++) {
		int r = count_labels(report, &table, profile->samples[i].labels, report_sample_value(report, i));
		if (r < 0)
			return r == -ENOMEM ? error_nomem(err) : error_set(err, r, "too many labels");
	}
	sort_array_by(table.values, table.count, compare_values, &table);
	for (size_t first = 0, end; first < table.count; first = end) {
		for (end = first + 1; end < table.count && table.values[end].key == table.values[first].key;)
			end++;
		put_key(report, &table, first, end);
	}
	return 0;
}

/* ---- samples by label ---- */

/* "30kb", "+1", "-5ms": a whole number, and what unit it is in. Returns how many bytes, 0 = none; *ret_unit_len of them at the
 * end are the unit. */
static size_t scan_number(const char *text, int64_t *ret, size_t *ret_unit_len)
{
	char digits[32];
	size_t len = text[0] == '+' || text[0] == '-', sign = len;
	while (isdigit((unsigned char)text[len]))
		len++;
	if (len == sign || len >= sizeof(digits))
		return 0;
	memcpy(digits, text + (text[0] == '+'), len - (text[0] == '+'));
	digits[len - (text[0] == '+')] = '\0';
	if (text_parse_i64(digits, ret, NULL) < 0)
		return 0;
	*ret_unit_len = 0;
	while (isalpha((unsigned char)text[len + *ret_unit_len]))
		(*ret_unit_len)++;
	return len + *ret_unit_len;
}

static bool parse_range(const char *text, struct report_tag_filter *filter)
{
	int64_t number;
	size_t unit_len, len;
	const char *at = text, *unit;
	bool open = *at == ':';
	at += open;
	len = scan_number(at, &number, &unit_len);
	if (len == 0 || unit_len >= sizeof(filter->unit_text))
		return false;
	memcpy(filter->unit_text, at + len - unit_len, unit_len);
	filter->unit_text[unit_len] = '\0';
	double value = units_scale(number, filter->unit_text, filter->unit_text, &unit);
	filter->unit = unit;
	filter->low = filter->high = value;
	filter->has_low = !open;
	filter->has_high = true;
	at += len;
	if (*at == '\0')
		return true;
	if (*at++ != ':' || open)
		return false;
	filter->has_high = *at != '\0';
	if (!filter->has_high)
		return true;
	char high_unit[sizeof(filter->unit_text)];
	len = scan_number(at, &number, &unit_len);
	if (len == 0 || at[len] || unit_len >= sizeof(high_unit))
		return false;
	memcpy(high_unit, at + len - unit_len, unit_len);
	high_unit[unit_len] = '\0';
	filter->high = units_scale(number, high_unit, filter->unit, &unit);
	return strcmp(unit, filter->unit) == 0;
}

int report_tag_filter_parse(const char *text, struct report_tag_filter *ret, struct error *err)
{
	const char *equals = strchr(text, '=');
	*ret = (struct report_tag_filter){0};
	if (equals && (size_t)(equals - text) >= sizeof(ret->key))
		return error_set(err, -EINVAL, "the label's name in '%.40s...' is too long", text);
	if (equals) {
		memcpy(ret->key, text, (size_t)(equals - text));
		text = equals + 1;
	}
	ret->texts = text;
	ret->is_range = parse_range(text, ret);
	return 0;
}

static bool in_range(const struct report_tag_filter *filter, const struct report *report, const struct profile_label *label)
{
	const char *unit;
	double value = units_scale(label->number, report_label_unit(report, label->key), filter->unit, &unit);
	return strcmp(unit, filter->unit) == 0 && (!filter->has_low || value >= filter->low) &&
	       (!filter->has_high || value <= filter->high);
}

/* "KEY:VALUE" where any key will do; the value alone of a key that was named. */
static bool finds_label(const struct profile_matcher *matcher, const struct profile *profile, const struct profile_label *label,
			bool with_key)
{
	if (!with_key)
		return matcher->finds(matcher->context, profile_string_bytes(profile, label->value));
	_cleanup_(buffer_release) struct buffer text = {.max = GIB};
	struct bytes key = profile_string_bytes(profile, label->key), value = profile_string_bytes(profile, label->value);
	if (buffer_append(&text, key.data, key.len) < 0 || buffer_append_byte(&text, ':') < 0 ||
	    buffer_append(&text, value.data, value.len) < 0)
		return false;
	return matcher->finds(matcher->context, buffer_bytes(&text));
}

static bool finds_any(const struct report_tag_filter *filter, const struct profile *profile,
		      const struct profile_label_set *set, const struct profile_matcher *matcher)
{
	for (uint32_t i = set->first; i < set->first + set->count; i++) {
		const struct profile_label *label = &profile->labels[i];
		bool right_key = !filter->key[0] || strcmp(profile_string(profile, label->key), filter->key) == 0;
		if (label->value && right_key && finds_label(matcher, profile, label, !filter->key[0]))
			return true;
	}
	return false;
}

bool report_tag_filter_matches(const struct report_tag_filter *filter, const struct report *report, size_t sample)
{
	const struct profile *profile = report->profile;
	const struct profile_label_set *set = &profile->label_sets[profile->samples[sample].labels];
	for (uint32_t i = set->first; i < set->first + set->count && filter->is_range; i++) {
		const struct profile_label *label = &profile->labels[i];
		bool right_key = !filter->key[0] || strcmp(profile_string(profile, label->key), filter->key) == 0;
		if (report_is_number(label) && right_key && in_range(filter, report, label))
			return true;
	}
	/* Of expressions without a key all must match some label, of those with a key one. */
	size_t matched = 0;
	for (size_t i = 0; i < filter->matcher_count && !filter->is_range; i++)
		matched += finds_any(filter, profile, set, filter->matchers[i]);
	return filter->key[0] ? matched > 0 : !filter->is_range && matched == filter->matcher_count;
}

/* ---- frames of labels ---- */

#define TAG_KEYS_MAX 32
struct tag_frames {
	struct profile *profile;
	const char *unit;
	char *keys; /* owned; NULs between */
	const char *roots[TAG_KEYS_MAX], *leaves[TAG_KEYS_MAX];
	size_t root_count, leaf_count;
	uint32_t *path;
	size_t path_capacity;
};

static void tag_frames_release(struct tag_frames *frames)
{
	mem_free(frames->keys);
	mem_free(frames->path);
}

/* Cuts a list in place. */
static int split_keys(char *list, const char *keys[TAG_KEYS_MAX], size_t *ret_count, struct error *err)
{
	char *rest = list, *key;
	while ((key = strsep(&rest, ",")) != NULL) {
		if (!*key)
			continue;
		if (*ret_count == TAG_KEYS_MAX)
			return error_set(err, -E2BIG, "more than %d labels to make frames of", TAG_KEYS_MAX);
		keys[(*ret_count)++] = key;
	}
	return 0;
}

/* The values of a key in a set, separated by commas. */
static int label_values(const struct tag_frames *frames, const struct profile_label_set *set, const char *key,
			struct buffer *out)
{
	const struct profile *profile = frames->profile;
	int r = 0;
	for (int pass = 0; pass < 2 && r == 0; pass++) {
		for (uint32_t i = set->first; i < set->first + set->count && r == 0; i++) {
			const struct profile_label *label = &profile->labels[i];
			char number[UNITS_TEXT_MAX];
			if (report_is_number(label) != (pass == 1) || !(label->value || report_is_number(label)) ||
			    strcmp(profile_string(profile, label->key), key) != 0)
				continue;
			const char *unit = profile_string(profile, label->unit);
			const char *text = pass == 1 ? units_format(label->number, unit, unit[0] ? frames->unit : "", number)
						     : profile_string(profile, label->value);
			r = buffer_printf(out, "%s%s", out->len ? "," : "", text);
		}
	}
	return r;
}

static int add_frames(struct tag_frames *frames, const struct profile_label_set *set, const char *const *keys, size_t count,
		      uint32_t *stack, bool *found, struct error *err)
{
	struct profile *profile = frames->profile;
	for (size_t i = 0; i < count; i++) {
		_cleanup_(buffer_release) struct buffer values = {.max = MIB};
		struct profile_function function = {0};
		struct profile_location location = {0};
		struct profile_line line = {0};
		uint32_t id;
		int r = label_values(frames, set, keys[i], &values);
		if (r < 0)
			return error_set(err, r, "the values of label %.80s are too long", keys[i]);
		*found |= values.len > 0;
		r = profile_add_string(profile, values.data ? values.data : (const uint8_t *)"", values.len, &function.name,
				       err);
		if (r == 0)
			r = profile_add_cstring(profile, keys[i], &function.file_name, err);
		if (r == 0)
			r = profile_add_function(profile, &function, &line.function, err);
		if (r == 0)
			r = profile_add_location(profile, &location, &line, 1, &id, err);
		if (r == 0)
			r = profile_add_stack(profile, *stack, id, stack, err);
		if (r < 0)
			return r;
	}
	return 0;
}

static int frame_sample(struct tag_frames *frames, size_t sample, bool found[2], struct error *err)
{
	struct profile *profile = frames->profile;
	uint32_t old = profile->samples[sample].stack, stack = 0;
	struct profile_label_set set = profile->label_sets[profile->samples[sample].labels];
	int r = add_frames(frames, &set, frames->roots, frames->root_count, &stack, &found[0], err);
	if (r == 0 && stack == 0) {
		stack = old;
	} else if (r == 0) {
		size_t depth = profile_stack_depth(profile, old);
		if (array_reserve(&frames->path, &frames->path_capacity, depth, SIZE_MAX / 8) < 0)
			return error_nomem(err);
		profile_stack_locations(profile, old, frames->path, depth);
		for (size_t i = depth; i-- > 0 && r == 0;)
			r = profile_add_stack(profile, stack, frames->path[i], &stack, err);
	}
	if (r == 0)
		r = add_frames(frames, &set, frames->leaves, frames->leaf_count, &stack, &found[1], err);
	if (r == 0)
		profile->samples[sample].stack = stack;
	return r;
}

int report_add_tag_frames(struct profile *profile, const char *roots, const char *leaves, const char *unit, bool ret_found[2],
			  struct error *err)
{
	_cleanup_(tag_frames_release) struct tag_frames frames = {.profile = profile, .unit = unit};
	size_t root_size = strlen(roots) + 1, leaf_size = strlen(leaves) + 1;
	ret_found[0] = ret_found[1] = false;
	frames.keys = mem_alloc(root_size + leaf_size);
	if (!frames.keys)
		return error_nomem(err);
	memcpy(frames.keys, roots, root_size);
	memcpy(frames.keys + root_size, leaves, leaf_size);
	int r = split_keys(frames.keys, frames.roots, &frames.root_count, err);
	if (r == 0)
		r = split_keys(frames.keys + root_size, frames.leaves, &frames.leaf_count, err);
	for (size_t i = 0; i < profile->sample_count && r == 0; i++)
		r = frame_sample(&frames, i, ret_found, err);
	return r;
}
