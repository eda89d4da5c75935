/* SPDX-License-Identifier: Apache-2.0 */
/* What must hold for every profile that a decoder accepts: each format can write it, reads back what it wrote, and no value is
 * lost on the way. */
#ifndef WICK_FUZZ_FORMAT_CHECK_H
#define WICK_FUZZ_FORMAT_CHECK_H

#include <errno.h>
#include <string.h>

#include "base/limits.h"
#include "format/format.h"
#include "format/format_int.h"
#include "format/otlp/otlp.h"

static void check_pprof(const struct profile *profile)
{
	struct format_options options = {.compress = false};
	struct buffer out;
	struct profile *back = NULL;
	buffer_init(&out, LIMIT_PROFILE_FILE_BYTES);
	if (pprof_encode(profile, &options, &out, NULL) < 0 || pprof_decode(buffer_bytes(&out), &options, &back, NULL) < 0)
		__builtin_trap();
	if (back->sample_type_count != profile->sample_type_count)
		__builtin_trap();
	for (size_t i = 0; i < profile->sample_type_count; i++)
		if (profile_total(profile, i) != profile_total(back, i))
			__builtin_trap();
	profile_free(back);
	buffer_release(&out);
}

/* Each sample type is a profile of its own there. */
static void check_otlp(const struct profile *profile)
{
	struct buffer out;
	struct otlp_request request = {0};
	uint64_t before = 0, after = 0;
	buffer_init(&out, LIMIT_PROFILE_FILE_BYTES);
	if (otlp_encode(&profile, 1, &out, NULL) < 0)
		__builtin_trap();
	int r = otlp_decode(buffer_bytes(&out), NULL, &request, NULL);
	if (r < 0 && r != -E2BIG)
		__builtin_trap();
	for (size_t i = 0; i < profile->sample_type_count; i++)
		before += (uint64_t)profile_total(profile, i);
	for (size_t i = 0; i < request.count; i++)
		after += (uint64_t)profile_total(request.profiles[i], 0);
	if (r == 0 && before != after)
		__builtin_trap();
	otlp_request_release(&request);
	buffer_release(&out);
}

/* Refused are profiles without values. Lines that all look like those of a diff are read as one, whose last column is what was
 * written. */
static void check_folded(const struct profile *profile)
{
	struct buffer out;
	struct profile *back = NULL;
	struct error err = {0};
	buffer_init(&out, LIMIT_PROFILE_FILE_BYTES);
	int r = folded_encode(profile, NULL, &out, &err);
	if (r < 0 && !(r == -EINVAL && profile->sample_type_count == 0))
		__builtin_trap();
	if (r == 0 && out.len > 0) {
		if (folded_decode(buffer_bytes(&out), NULL, &back, &err) < 0)
			__builtin_trap();
		if (profile_total(back, back->sample_type_count - 1) !=
		    profile_total(profile, profile_default_sample_type(profile)))
			__builtin_trap();
	}
	profile_free(back);
	buffer_release(&out);
}

static void check_formats(const struct profile *profile)
{
	check_pprof(profile);
	check_otlp(profile);
	check_folded(profile);
}

/* What a format makes of the input. Returns 0, as a fuzz target does. */
static inline int check_format(const struct format *format, struct bytes input)
{
	struct profile *profile = NULL;
	format->detect(input);
	if (format->decode(input, NULL, &profile, NULL) < 0)
		return 0;
	check_formats(profile);
	profile_free(profile);
	return 0;
}

#endif
