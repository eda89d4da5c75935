/* SPDX-License-Identifier: Apache-2.0 */
/* For tests: profiles made of lines such as "main;a;b 12". */
#ifndef WICK_RENDER_TEST_RENDER_H
#define WICK_RENDER_TEST_RENDER_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "profile/test_profile.h"
#include "render/flame.h"

static inline struct profile *test_new_profile(const char *type, const char *unit)
{
	struct profile *profile;
	if (profile_new(&profile, NULL) < 0 ||
	    profile_add_sample_type(profile, test_string(profile, type), test_string(profile, unit), NULL) < 0)
		abort();
	return profile;
}

/* A location whose functions are separated by '<', the innermost inlined one first. */
static inline uint32_t test_named_location(struct profile *profile, const char *names, uint32_t mapping)
{
	struct profile_line lines[16] = {{0}};
	size_t count = 0;
	char copy[256], *rest = copy, *name;
	snprintf(copy, sizeof(copy), "%s", names);
	while ((name = strsep(&rest, "<"))) {
		struct profile_function function = {.name = test_string(profile, name)};
		if (profile_add_function(profile, &function, &lines[count++].function, NULL) < 0)
			abort();
	}
	struct profile_location location = {.mapping = mapping};
	uint32_t id;
	if (profile_add_location(profile, &location, lines, count, &id, NULL) < 0)
		abort();
	return id;
}

/* One sample of the function at a line of the file; declared and line 0 = unknown. */
static inline void test_add_function_at(struct profile *profile, const char *name, const char *file, int64_t declared,
					int64_t line, int64_t value)
{
	struct profile_function function = {
		.name = test_string(profile, name), .file_name = test_string(profile, file), .start_line = declared};
	struct profile_line at = {.line = line};
	struct profile_sample sample = {0};
	uint32_t id;
	if (profile_add_function(profile, &function, &at.function, NULL) < 0 ||
	    profile_add_location(profile, &(struct profile_location){0}, &at, 1, &id, NULL) < 0 ||
	    profile_add_stack(profile, 0, id, &sample.stack, NULL) < 0 ||
	    profile_add_sample(profile, &sample, &value, NULL) < 0)
		abort();
}

static inline void test_add_function_line(struct profile *profile, const char *name, int64_t declared, int64_t line,
					  int64_t value)
{
	test_add_function_at(profile, name, "file.c", declared, line, value);
}

/* Adds "root;caller;leaf" with a value. */
static inline void test_add_stack(struct profile *profile, const char *frames, int64_t value)
{
	struct profile_sample sample = {0};
	char copy[1024], *rest = copy, *frame;
	snprintf(copy, sizeof(copy), "%s", frames);
	while (*frames && (frame = strsep(&rest, ";")))
		if (profile_add_stack(profile, sample.stack, test_named_location(profile, frame, 0), &sample.stack, NULL) < 0)
			abort();
	if (profile_add_sample(profile, &sample, &value, NULL) < 0)
		abort();
}

#endif
