/* SPDX-License-Identifier: Apache-2.0 */
#include "control/health.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/text.h"
#include "codec/json.h"

#define NUMBER_MAX ((uint64_t)1 << 53) /* what JavaScript's numbers hold exactly */
#define NAME_PLAIN "abcdefghijklmnopqrstuvwxyz0123456789_"
#define SAFE_BYTES (16 * HEALTH_WARNING_SIZE)
#define FIELD(name)                                                                                                            \
	{                                                                                                                      \
#name, offsetof(struct health, name)                                                                           \
	}

static const struct field {
	const char *name;
	size_t offset;
} numbers[] = {
	FIELD(started_ms),
	FIELD(frequency_hz),
	FIELD(frequency_asked_hz),
	FIELD(cpus),
	FIELD(processes),
	FIELD(mappings),
	FIELD(binaries),
	FIELD(samples),
	FIELD(rules_dropped),
	FIELD(unwind_tables),
	FIELD(unwind_table_bytes),
	FIELD(sent_profiles),
	FIELD(sent_bytes),
	FIELD(send_failures),
	FIELD(dropped_profiles),
	FIELD(dropped_samples),
	FIELD(waiting_profiles),
	FIELD(waiting_bytes),
	FIELD(cpu_ms),
	FIELD(program_ms),
	FIELD(resident_bytes),
	FIELD(resident_peak_bytes),
	FIELD(cost_ppm),
};
#define NUMBERS (sizeof(numbers) / sizeof(*numbers))

static bool is_name(const char *text)
{
	size_t len = strlen(text);
	return len > 0 && len < HEALTH_NAME_SIZE && strspn(text, NAME_PLAIN) == len;
}

/* ---- filling ---- */

void health_count(struct health_counts *counts, const char *name, uint64_t count)
{
	if (!count || !is_name(name) || counts->count == HEALTH_COUNTS_MAX)
		return;
	struct health_count *item = &counts->items[counts->count++];
	snprintf(item->name, sizeof(item->name), "%s", name);
	item->count = count;
}

void health_mode(struct health *health, const char *name)
{
	if (is_name(name) && health->mode_count < HEALTH_MODES_MAX)
		snprintf(health->modes[health->mode_count++], HEALTH_NAME_SIZE, "%s", name);
}

void health_warn(struct health *health, const char *text)
{
	_cleanup_(buffer_release) struct buffer safe = {.max = SAFE_BYTES};
	if (!*text || health->warning_count == HEALTH_WARNINGS_MAX || text_append_harmless(&safe, bytes_of_string(text)) < 0)
		return;
	snprintf(health->warnings[health->warning_count++], HEALTH_WARNING_SIZE, "%.*s",
		 (int)text_cut(buffer_bytes(&safe), HEALTH_WARNING_SIZE - 1), (const char *)safe.data);
}

/* ---- writing ---- */

static void write_counts(struct json_writer *json, const char *name, const struct health_counts *counts)
{
	json_member_object(json, name);
	for (size_t i = 0; i < counts->count; i++)
		json_member_uint(json, counts->items[i].name,
				 counts->items[i].count < NUMBER_MAX ? counts->items[i].count : NUMBER_MAX);
	json_end_object(json);
}

void health_write(struct json_writer *json, const struct health *health)
{
	json_begin_object(json);
	json_member_cstring(json, "kernel", health->kernel);
	json_member_cstring(json, "event", health->event);
	json_member_array(json, "modes");
	for (size_t i = 0; i < health->mode_count; i++)
		json_cstring(json, health->modes[i]);
	json_end_array(json);
	for (size_t i = 0; i < NUMBERS; i++) {
		uint64_t value = *(const uint64_t *)((const char *)health + numbers[i].offset);
		json_member_uint(json, numbers[i].name, value < NUMBER_MAX ? value : NUMBER_MAX);
	}
	write_counts(json, "lost", &health->lost);
	write_counts(json, "walks", &health->walks);
	json_member_array(json, "warnings");
	for (size_t i = 0; i < health->warning_count; i++)
		json_cstring(json, health->warnings[i]);
	json_end_array(json);
	json_end_object(json);
}

/* ---- reading ---- */

static int read_number(const json_t *value, const char *name, uint64_t *ret, struct error *err)
{
	if (!value)
		return 0;
	if (!json_is_integer(value) || json_integer_value(value) < 0 || (uint64_t)json_integer_value(value) > NUMBER_MAX)
		return error_set(err, -EINVAL, "'%.40s' of 'health' must be a whole number from 0 to 2^53", name);
	*ret = (uint64_t)json_integer_value(value);
	return 0;
}

static int read_text(const json_t *value, const char *name, char *ret, size_t size, struct error *err)
{
	const char *text = value ? json_string_value(value) : "";
	size_t len = text ? strlen(text) : 0;
	if (!text || len >= size || len != (value ? json_string_length(value) : 0) || text_has_controls(bytes_of_string(text)))
		return error_set(err, -EINVAL, "'%s' of 'health' must have strings of at most %zu bytes, without line breaks",
				 name, size - 1);
	memcpy(ret, text, len + 1);
	return 0;
}

/* Texts of `size` bytes, one after the other, at ret. */
static int read_list(const json_t *list, const char *name, char *ret, size_t size, size_t max, size_t *ret_count,
		     struct error *err)
{
	int r = 0;
	if (list && (!json_is_array(list) || json_array_size(list) > max))
		return error_set(err, -EINVAL, "'%s' of 'health' must be a list of at most %zu", name, max);
	for (size_t i = 0; i < json_array_size(list) && r == 0; i++) {
		r = json_is_string(json_array_get(list, i))
			    ? read_text(json_array_get(list, i), name, ret + i * size, size, err)
			    : error_set(err, -EINVAL, "'%s' of 'health' must have strings", name);
		*ret_count = i + 1;
	}
	return r;
}

static int read_counts(json_t *object, const char *name, struct health_counts *ret, struct error *err)
{
	const char *key;
	json_t *value;
	int r = 0;
	if (object && (!json_is_object(object) || json_object_size(object) > HEALTH_COUNTS_MAX))
		return error_set(err, -EINVAL, "'%s' of 'health' must be an object of at most %d counts", name,
				 HEALTH_COUNTS_MAX);
	json_object_foreach(object, key, value)
	{
		struct health_count *item = &ret->items[ret->count++];
		if (!is_name(key))
			return error_set(err, -EINVAL, "a name in '%s' of 'health' may contain a-z, 0-9 and _ only", name);
		snprintf(item->name, sizeof(item->name), "%s", key);
		r = read_number(value, key, &item->count, err);
		if (r < 0)
			return r;
	}
	return 0;
}

static int read_modes(const json_t *list, struct health *ret, struct error *err)
{
	int r = read_list(list, "modes", ret->modes[0], HEALTH_NAME_SIZE, HEALTH_MODES_MAX, &ret->mode_count, err);
	for (size_t i = 0; i < ret->mode_count && r == 0; i++)
		if (!is_name(ret->modes[i]))
			r = error_set(err, -EINVAL, "'modes' of 'health' may contain a-z, 0-9 and _ only");
	return r;
}

int health_read(const void *node, struct health *ret, struct error *err)
{
	int r = json_is_object((const json_t *)node) ? 0 : error_set(err, -EINVAL, "'health' must be an object");
	*ret = (struct health){0};
	for (size_t i = 0; i < NUMBERS && r == 0; i++)
		r = read_number(json_object_get(node, numbers[i].name), numbers[i].name,
				(uint64_t *)((char *)ret + numbers[i].offset), err);
	if (r == 0)
		r = read_text(json_object_get(node, "kernel"), "kernel", ret->kernel, sizeof(ret->kernel), err);
	if (r == 0)
		r = read_text(json_object_get(node, "event"), "event", ret->event, sizeof(ret->event), err);
	if (r == 0)
		r = read_modes(json_object_get(node, "modes"), ret, err);
	if (r == 0)
		r = read_counts(json_object_get(node, "lost"), "lost", &ret->lost, err);
	if (r == 0)
		r = read_counts(json_object_get(node, "walks"), "walks", &ret->walks, err);
	if (r == 0)
		r = read_list(json_object_get(node, "warnings"), "warnings", ret->warnings[0], HEALTH_WARNING_SIZE,
			      HEALTH_WARNINGS_MAX, &ret->warning_count, err);
	return r;
}
