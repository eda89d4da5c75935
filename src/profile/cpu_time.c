/* SPDX-License-Identifier: Apache-2.0 */
#include "profile/cpu_time.h"

#include "base/alloc.h"
#include "profile/profile_int.h"

static bool is_type(const struct profile *profile, const struct profile_value_type *type, const char *name, const char *unit)
{
	return bytes_equal_string(profile_string_bytes(profile, type->type), name) &&
	       bytes_equal_string(profile_string_bytes(profile, type->unit), unit);
}

bool profile_counts_cpu_samples(const struct profile *profile)
{
	return profile->sample_type_count == 1 && profile->period > 0 &&
	       is_type(profile, &profile->sample_types[0], "samples", "count") &&
	       is_type(profile, &profile->period_type, "cpu", "nanoseconds");
}

bool profile_has_cpu_time(const struct profile *profile)
{
	return profile->sample_type_count == 1 && is_type(profile, &profile->sample_types[0], "cpu", "nanoseconds");
}

static int64_t cpu_time(const struct profile *profile, int64_t count)
{
	int64_t time_ns;
	if (__builtin_mul_overflow(count, profile->period, &time_ns))
		return count < 0 ? INT64_MIN : INT64_MAX;
	return time_ns;
}

static int add_type(struct profile *profile, struct profile_value_type *ret, struct error *err)
{
	int r = profile_add_cstring(profile, "cpu", &ret->type, err);
	return r < 0 ? r : profile_add_cstring(profile, "nanoseconds", &ret->unit, err);
}

int profile_add_cpu_time(struct profile *profile, struct error *err)
{
	struct profile_value_type type;
	size_t count = profile->sample_count;
	int r = add_type(profile, &type, err);
	int64_t *values = r < 0 ? NULL : mem_alloc_array(count ? count : 1, 2 * sizeof(*values));
	struct profile_value_type *types = r < 0 ? NULL : mem_alloc_array(2, sizeof(*types));
	if (!values || !types) {
		mem_free(values);
		mem_free(types);
		return r < 0 ? r : error_nomem(err);
	}
	for (size_t i = 0; i < count; i++) {
		values[2 * i] = profile->values[i];
		values[2 * i + 1] = cpu_time(profile, profile->values[i]);
	}
	types[0] = profile->sample_types[0];
	types[1] = type;
	mem_free(profile->values);
	mem_free(profile->sample_types);
	profile->values = values;
	profile->sample_types = types;
	profile->sample_type_count = 2;
	profile->index->value_capacity = 2 * (count ? count : 1);
	profile->index->sample_type_capacity = 2;
	return 0;
}

int profile_convert_to_cpu_time(struct profile *profile, struct error *err)
{
	struct profile_value_type type;
	int r = add_type(profile, &type, err);
	if (r < 0)
		return r;
	for (size_t i = 0; i < profile->sample_count; i++)
		profile->values[i] = cpu_time(profile, profile->values[i]);
	profile->sample_types[0] = type;
	return 0;
}
