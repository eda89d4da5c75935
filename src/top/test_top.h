/* SPDX-License-Identifier: Apache-2.0 */
/* For tests: samples of processes and threads, made of lines such as "main;a;b". Include after cmocka.h. */
#ifndef WICK_TOP_TEST_TOP_H
#define WICK_TOP_TEST_TOP_H

#include "base/time.h"
#include "render/test_render.h"
#include "top/top.h"

struct test_sample {
	const char *frames; /* from the root on; "K:f" is in the kernel, "py:f" interpreted */
	const char *comm;
	int pid, tid;
	int64_t value;
};

static inline uint32_t test_top_location(struct profile *profile, const char *frame)
{
	struct profile_function function = {0};
	struct profile_line line = {0};
	struct profile_location location = {.frame_type = PROFILE_FRAME_NATIVE};
	struct profile_mapping mapping = {.start = 0x1000, .limit = 0x9000};
	const char *binary = "/usr/bin/program";
	uint32_t id;
	if (strncmp(frame, "K:", 2) == 0) {
		location.frame_type = PROFILE_FRAME_KERNEL;
		binary = "[kernel.kallsyms]";
		frame += 2;
	} else if (strncmp(frame, "py:", 3) == 0) {
		location.frame_type = PROFILE_FRAME_INTERPRETED;
		frame += 3;
	}
	function.name = test_string(profile, frame);
	mapping.file_name = test_string(profile, binary);
	if (profile_add_function(profile, &function, &line.function, NULL) < 0 ||
	    profile_add_mapping(profile, &mapping, &location.mapping, NULL) < 0 ||
	    profile_add_location(profile, &location, &line, 1, &id, NULL) < 0)
		abort();
	return id;
}

static inline void test_top_add(struct profile *profile, const struct test_sample *from)
{
	struct profile_label labels[] = {
		{.key = test_string(profile, "process.pid"), .number = from->pid},
		{.key = test_string(profile, "process.comm"), .value = test_string(profile, from->comm)},
		{.key = test_string(profile, "thread.id"), .number = from->tid},
		{.key = test_string(profile, "thread.name"), .value = test_string(profile, from->comm)},
	};
	struct profile_sample sample = {0};
	char copy[1024], *rest = copy, *frame;
	snprintf(copy, sizeof(copy), "%s", from->frames);
	while ((frame = strsep(&rest, ";")))
		if (profile_add_stack(profile, sample.stack, test_top_location(profile, frame), &sample.stack, NULL) < 0)
			abort();
	if (profile_add_label_set(profile, labels, 4, &sample.labels, NULL) < 0 ||
	    profile_add_sample(profile, &sample, &from->value, NULL) < 0)
		abort();
}

static inline struct profile *test_top_profile(const struct test_sample *samples, size_t count)
{
	struct profile *profile = test_new_profile("cpu", "nanoseconds");
	for (size_t i = 0; i < count; i++)
		test_top_add(profile, &samples[i]);
	return profile;
}

#define MS NS_PER_MS
/* Two processes, one with two threads, in 10 s. */
static const struct test_sample test_samples[] = {
	{"main;parse;K:read", "shop", 10, 10, 1000 * MS},
	{"main;parse;scan", "shop", 10, 10, 2000 * MS},
	{"main;parse", "shop", 10, 10, 500 * MS},
	{"start;work;work;leaf", "shop", 10, 11, 3000 * MS},
	{"main;loop", "idle", 9, 9, 250 * MS},
	{"K:idle_thread", "kworker", 2, 2, 100 * MS},
};
#define TEST_SAMPLES (sizeof(test_samples) / sizeof(*test_samples))

#endif
