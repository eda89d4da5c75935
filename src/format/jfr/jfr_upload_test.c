/* SPDX-License-Identifier: Apache-2.0 */
/* Recordings made by hand, with labels, as Pyroscope's server reads them. What that server's own parser makes of recordings of
 * real programs is compared in tests/clients/. */
#include "format/jfr/jfr_upload.h"

#include <time.h>

#include "base/alloc.h"
#include "format/jfr/jfr_int.h"
#include "format/jfr/test_jfr.h"

#define PERIOD 10000000ll
enum { RUNNABLE = 1, SLEEPING = 2, JIT = 1, NATIVE = 2, INTERPRETED = 3 };

/* Two threads' worth of names, and three stacks: 1 work <- main, 2 wait <- main, 3 is empty. */
static void begin(struct test_jfr *jfr, const char *event)
{
	test_jfr_begin(jfr, 1700000000000000000, 1000000000);
	test_jfr_named(jfr, TEST_STATE, RUNNABLE, "STATE_RUNNABLE");
	test_jfr_named(jfr, TEST_STATE, SLEEPING, "STATE_SLEEPING");
	test_jfr_named(jfr, TEST_FRAME_TYPE, JIT, "JIT compiled");
	test_jfr_named(jfr, TEST_FRAME_TYPE, NATIVE, "Native");
	test_jfr_named(jfr, TEST_FRAME_TYPE, INTERPRETED, "Interpreted");
	test_jfr_method(jfr, 1, "a/b/Main", "main");
	test_jfr_method(jfr, 2, "a/b/Main$$Lambda$14/0x0000000800c01220", "run");
	test_jfr_method(jfr, 3, "java/lang/Thread", "sleep");
	test_jfr_stack(jfr, 1, false, (uint64_t[]){2, 1, 0}, JIT);
	test_jfr_stack(jfr, 2, false, (uint64_t[]){3, 1, 0}, JIT);
	test_jfr_stack(jfr, 3, false, (uint64_t[]){0}, JIT);
	if (event)
		test_jfr_setting(jfr, "event", event);
}

static struct jfr_profiles decode(struct test_jfr *jfr, const struct buffer *labels, const struct labels *series)
{
	struct jfr_profiles profiles;
	struct error err = {0};
	uint8_t *recording = exact_copy(buffer_bytes(&jfr->out));
	uint8_t *copy = labels ? exact_copy(buffer_bytes(labels)) : NULL;
	const struct jfr_upload upload = {.recording = {recording, jfr->out.len},
					  .labels = {copy, labels ? labels->len : 0},
					  .series = series,
					  .period_ns = PERIOD};
	if (jfr_decode_upload(&upload, &profiles, &err) < 0)
		fail_msg("%s", err.message);
	free(recording);
	free(copy);
	test_jfr_release(jfr);
	return profiles;
}

/* A line for each sample: type, values, labels, link, and the stack from the leaf. */
static void append_sample(const struct profile *profile, size_t number, const char *name, struct buffer *out)
{
	uint32_t ids[64];
	const struct profile_sample *sample = &profile->samples[number];
	buffer_printf(out, "%s", name);
	for (size_t i = 0; i < profile->sample_type_count; i++)
		buffer_printf(out, " %s %lld", profile_string(profile, profile->sample_types[i].type),
			      (long long)profile->values[number * profile->sample_type_count + i]);
	for (uint32_t i = 0; i < profile->label_sets[sample->labels].count; i++) {
		const struct profile_label *label = &profile->labels[profile->label_sets[sample->labels].first + i];
		buffer_printf(out, " %s=%s", profile_string(profile, label->key), profile_string(profile, label->value));
	}
	if (sample->link) {
		buffer_append_string(out, " ");
		text_append_hex(out, (struct bytes){profile->links[sample->link].trace_id, 16});
		buffer_append_string(out, ":");
		text_append_hex(out, (struct bytes){profile->links[sample->link].span_id, 8});
	}
	size_t depth = profile_stack_locations(profile, sample->stack, ids, 64);
	for (size_t i = 0; i < depth; i++) {
		const struct profile_line *line = &profile->lines[profile->locations[ids[i]].line_first];
		buffer_printf(out, " %s:%lld", profile_string(profile, profile->functions[line->function].name),
			      (long long)line->line);
	}
	buffer_append_string(out, "\n");
}

static void check(struct jfr_profiles profiles, const char *expected)
{
	struct buffer out;
	buffer_init(&out, MIB);
	for (size_t i = 0; i < profiles.count; i++)
		for (size_t j = 0; j < profiles.items[i].profile->sample_count; j++)
			append_sample(profiles.items[i].profile, j, profiles.items[i].name, &out);
	buffer_append_byte(&out, '\0');
	assert_string_equal(out.data, expected);
	buffer_release(&out);
	jfr_profiles_release(&profiles);
}

/* ---- kinds of events ---- */

static void test_cpu(void **state)
{
	struct test_jfr jfr = {0};
	begin(&jfr, "itimer");
	TEST_EVENT(&jfr, TEST_EXECUTION, 1, 0, 1, RUNNABLE, 0, 0, 0, 0, 0);
	TEST_EVENT(&jfr, TEST_EXECUTION, 2, 7, 1, RUNNABLE, 0, 0, 0, 0, 0);
	TEST_EVENT(&jfr, TEST_EXECUTION, 3, 0, 2, SLEEPING, 0, 0, 0, 0, 0);
	TEST_EVENT(&jfr, TEST_EXECUTION, 3, 0, 2, 99, 0, 0, 0, 0, 0); /* unknown state */
	TEST_EVENT(&jfr, TEST_EXECUTION, 4, 0, 0, RUNNABLE, 0, 0, 0, 0, 0);
	TEST_EVENT(&jfr, TEST_EXECUTION, 4, 0, 55, RUNNABLE, 0, 0, 0, 0, 0);
	TEST_EVENT(&jfr, TEST_NATIVE, 5, 1, RUNNABLE);
	test_jfr_end(&jfr);
	struct jfr_profiles profiles = decode(&jfr, NULL, NULL);
	assert_string_equal(profiles.event, "itimer");
	assert_int_equal(profiles.count, 1);
	assert_int_equal(profiles.without_stack, 2);
	assert_int_equal(profiles.duration_ns, 10000000000);
	const struct profile *profile = profiles.items[0].profile;
	assert_int_equal(profile->period, PERIOD);
	assert_int_equal(profile->time_ns, 0);
	assert_int_equal(profile->duration_ns, 0);
	assert_string_equal(profile_string(profile, profile->period_type.type), "cpu");
	assert_string_equal(profile_string(profile, profile->period_type.unit), "nanoseconds");
	check(profiles, "process_cpu cpu 20000000 a/b/Main$$Lambda_.run:2 a/b/Main.main:1\n");
}

static void test_wall(void **state)
{
	struct test_jfr jfr = {0};
	/* With event=wall what runs is CPU time, too, and so is what execution samples say. */
	begin(&jfr, "wall");
	TEST_EVENT(&jfr, TEST_WALL, 1, 1, RUNNABLE, 3, 0, 0, 0, 0, 0);
	TEST_EVENT(&jfr, TEST_WALL, 1, 2, SLEEPING, 5, 0, 0, 0, 0, 0);
	TEST_EVENT(&jfr, TEST_WALL, 1, 2, SLEEPING, 0, 0, 0, 0, 0, 0);
	TEST_EVENT(&jfr, TEST_EXECUTION, 1, 0, 1, RUNNABLE, 0, 0, 0, 0, 0);
	TEST_EVENT(&jfr, TEST_EXECUTION, 1, 0, 2, SLEEPING, 0, 0, 0, 0, 0);
	test_jfr_end(&jfr);
	check(decode(&jfr, NULL, NULL), "process_cpu cpu 40000000 a/b/Main$$Lambda_.run:2 a/b/Main.main:1\n"
					"wall wall 40000000 a/b/Main$$Lambda_.run:2 a/b/Main.main:1\n"
					"wall wall 60000000 java/lang/Thread.sleep:3 a/b/Main.main:1\n");
	/* Without it, they are two recordings in one. */
	begin(&jfr, "cpu");
	TEST_EVENT(&jfr, TEST_WALL, 1, 1, RUNNABLE, 3, 0, 0, 0, 0, 0);
	TEST_EVENT(&jfr, TEST_EXECUTION, 1, 0, 1, RUNNABLE, 0, 0, 0, 0, 0);
	test_jfr_end(&jfr);
	check(decode(&jfr, NULL, NULL), "process_cpu cpu 10000000 a/b/Main$$Lambda_.run:2 a/b/Main.main:1\n"
					"wall wall 30000000 a/b/Main$$Lambda_.run:2 a/b/Main.main:1\n");
}

static void test_amounts(void **state)
{
	struct test_jfr jfr = {0};
	test_jfr_begin(&jfr, 1700000000000000000, 2500000000); /* a clock of 2.5 GHz */
	test_jfr_method(&jfr, 1, "C", "m");
	test_jfr_stack(&jfr, 1, false, (uint64_t[]){1, 0}, 0);
	TEST_EVENT(&jfr, TEST_IN_TLAB, 1, 1, 16, 4096, 0, 0, 0, 0, 0);
	TEST_EVENT(&jfr, TEST_OUT_TLAB, 1, 1, 5000, 0, 0, 0, 0, 0);
	TEST_EVENT(&jfr, TEST_OUT_TLAB, 1, 1, 6000, 0, 0, 0, 0, 0);
	TEST_EVENT(&jfr, TEST_SAMPLE, 1, 1, 777);
	TEST_EVENT(&jfr, TEST_LOCK, 1, 2500, 1, 0, 0, 0, 0, 0);
	TEST_EVENT(&jfr, TEST_PARK, 1, 5000, 1);
	TEST_EVENT(&jfr, TEST_LIVE, 1, 1, 100);
	TEST_EVENT(&jfr, TEST_LIVE, 1, 1, 100);
	TEST_EVENT(&jfr, TEST_MALLOC, 1, 1, 64);
	test_jfr_end(&jfr);
	struct jfr_profiles profiles = decode(&jfr, NULL, NULL);
	static const char *const periods[] = {
		"space bytes", "space bytes", "space bytes", "mutex count", "block count", "objects count", " "};
	assert_int_equal(profiles.count, 7);
	assert_string_equal(profiles.event, "");
	for (size_t i = 0; i < profiles.count; i++) {
		char text[64];
		const struct profile *profile = profiles.items[i].profile;
		snprintf(text, sizeof(text), "%s %s", profile_string(profile, profile->period_type.type),
			 profile_string(profile, profile->period_type.unit));
		assert_string_equal(text, periods[i]);
		assert_int_equal(profile->period, 0);
		assert_int_equal(profiles.items[i].kind, i + 2);
	}
	check(profiles, "memory alloc_in_new_tlab_objects 1 alloc_in_new_tlab_bytes 4096 C.m:1\n"
			"memory alloc_outside_tlab_objects 2 alloc_outside_tlab_bytes 11000 C.m:1\n"
			"memory alloc_sample_objects 1 alloc_sample_bytes 777 C.m:1\n"
			"mutex contentions 1 delay 1000 C.m:1\n"
			"block contentions 1 delay 2000 C.m:1\n"
			"memory live 2 C.m:1\n"
			"memory malloc_objects 1 malloc_bytes 64 C.m:1\n");
}

/* Values that make no sense have no part in the sums; those too large saturate. */
static void test_extreme_amounts(void **state)
{
	struct test_jfr jfr = {0};
	begin(&jfr, "cpu");
	TEST_EVENT(&jfr, TEST_OUT_TLAB, 1, 1, INT64_MAX, 0, 0, 0, 0, 0);
	TEST_EVENT(&jfr, TEST_OUT_TLAB, 1, 1, INT64_MAX, 0, 0, 0, 0, 0);
	TEST_EVENT(&jfr, TEST_SAMPLE, 1, 1, UINT64_MAX);
	TEST_EVENT(&jfr, TEST_WALL, 1, 1, RUNNABLE, UINT32_MAX, 0, 0, 0, 0, 0);
	test_jfr_end(&jfr);
	check(decode(&jfr, NULL, NULL),
	      "wall wall 42949672950000000 a/b/Main$$Lambda_.run:2 a/b/Main.main:1\n"
	      "memory alloc_outside_tlab_objects 2 alloc_outside_tlab_bytes 9223372036854775807 a/b/Main$$Lambda_.run:2 "
	      "a/b/Main.main:1\n"
	      "memory alloc_sample_objects 1 alloc_sample_bytes 0 a/b/Main$$Lambda_.run:2 a/b/Main.main:1\n");
}

/* ---- frames ---- */

static void test_frames(void **state)
{
	struct test_jfr jfr = {0};
	begin(&jfr, NULL);
	test_jfr_method(&jfr, 4, NULL, "without a class");
	test_jfr_method(&jfr, 5, "", "write");
	test_jfr_named(&jfr, TEST_FRAME_TYPE, 4, "Inlined");
	/* What is inlined stands alone; how a method was compiled makes no difference; frames without a class go. */
	test_jfr_stack(&jfr, 10, false, (uint64_t[]){3, 4, 77, 1, 0}, 4);
	test_jfr_stack(&jfr, 11, true, (uint64_t[]){3, 1, 0}, INTERPRETED);
	test_jfr_stack(&jfr, 12, false, (uint64_t[]){5, 0}, NATIVE);
	TEST_EVENT(&jfr, TEST_SAMPLE, 1, 2, 1);
	TEST_EVENT(&jfr, TEST_SAMPLE, 1, 10, 10);
	TEST_EVENT(&jfr, TEST_SAMPLE, 1, 11, 100);
	TEST_EVENT(&jfr, TEST_SAMPLE, 1, 12, 1000);
	TEST_EVENT(&jfr, TEST_SAMPLE, 1, 3, 10000);
	test_jfr_end(&jfr);
	struct jfr_profiles profiles = decode(&jfr, NULL, NULL);
	const struct profile *profile = profiles.items[0].profile;
	uint32_t leaf;
	profile_stack_locations(profile, profile->samples[0].stack, &leaf, 1);
	assert_int_equal(profile->locations[leaf].frame_type, PROFILE_FRAME_UNKNOWN);
	profile_stack_locations(profile, profile->samples[1].stack, &leaf, 1);
	assert_int_equal(profile->locations[leaf].frame_type, PROFILE_FRAME_NATIVE);
	check(profiles, "memory alloc_sample_objects 3 alloc_sample_bytes 111 java/lang/Thread.sleep:3 a/b/Main.main:1\n"
			"memory alloc_sample_objects 1 alloc_sample_bytes 1000 .write:5\n"
			"memory alloc_sample_objects 1 alloc_sample_bytes 10000\n");
}

/* Keys are those of a chunk; what an event refers to may be in the one before. */
static void test_chunks(void **state)
{
	struct test_jfr jfr = {0};
	begin(&jfr, "wall");
	TEST_EVENT(&jfr, TEST_WALL, 1, 1, RUNNABLE, 1, 0, 0, 0, 0, 0);
	test_jfr_end(&jfr);
	test_jfr_begin(&jfr, 1700000010000000000, 1000000000);
	test_jfr_named(&jfr, TEST_STATE, RUNNABLE, "STATE_RUNNABLE");
	test_jfr_method(&jfr, 3, "other/Name", "here");
	test_jfr_stack(&jfr, 1, false, (uint64_t[]){3, 0}, 0);
	TEST_EVENT(&jfr, TEST_WALL, 1, 1, RUNNABLE, 1, 0, 0, 0, 0, 0);
	TEST_EVENT(&jfr, TEST_WALL, 1, 2, SLEEPING, 1, 0, 0, 0, 0, 0);
	test_jfr_end(&jfr);
	struct jfr_profiles profiles = decode(&jfr, NULL, NULL);
	assert_int_equal(profiles.duration_ns, 20000000000);
	assert_int_equal(profiles.without_stack, 0);
	check(profiles, "process_cpu cpu 10000000 a/b/Main$$Lambda_.run:2 a/b/Main.main:1\n"
			"process_cpu cpu 10000000 other/Name.here:3\n"
			"wall wall 10000000 a/b/Main$$Lambda_.run:2 a/b/Main.main:1\n"
			"wall wall 10000000 other/Name.here:3\n"
			"wall wall 10000000 java/lang/Thread.sleep:3 a/b/Main.main:1\n");
}

static void test_names(void **state)
{
	static const char *const names[][2] = {
		{"a/B", NULL},
		{"", NULL},
		{"$$Lambda$1/0x12", NULL}, /* nothing before it */
		{"a/B$$Lambda$4/1283928880", "a/B$$Lambda_"},
		{"a/B$$Lambda$8/0x0000000800c01220", "a/B$$Lambda_"},
		{"a/B$$Lambda$73.0x00007fb1900c6aa8", "a/B$$Lambda_"},
		{"a/B$$Lambda.0x00007ffa600c4da0", "a/B$$Lambda_"},
		{"a/B$$Lambda/0x12", "a/B$$Lambda_"},
		{"a/B$$Lambda14", "a/B$$Lambda_"},
		{"a/B$$Lambda14/12af", "a/B$$Lambda_"},
		{"a/B$$Lambda", NULL},
		{"a/B$$Lambda$14", NULL},
		{"a/B$$Lambda/0x", NULL},
		{"a/B$$Lambda/0x12G", NULL},
		{"a/B$$Lambda/12AF", NULL},
		{"a/B$$Lambda$1/2$$Lambda$3/4", "a/B$$Lambda$1/2$$Lambda_"},
		{"jdk/internal/reflect/GeneratedMethodAccessor31", "jdk/internal/reflect/GeneratedMethodAccessor_"},
		{"jdk/internal/reflect/GeneratedMethodAccessor", NULL},
		{"jdk/internal/reflect/GeneratedMethodAccessor3x", NULL},
		{"x/jdk/internal/reflect/GeneratedMethodAccessor3", NULL},
		{"a/B$$EnhancerBySpringCGLIB$$1a2b", "a/B$$EnhancerBySpringCGLIB$$_"},
		{"a/B$$EnhancerBySpringCGLIB$$", "a/B$$EnhancerBySpringCGLIB$$_"},
		{"$$EnhancerBySpringCGLIB$$1", NULL},
		{"a$$EnhancerBySpringCGLIB$$b$$Lambda$1/2", "a$$EnhancerBySpringCGLIB$$_"},
		{"libzstd-jni-1.5.1-16931311898282279136.so", "libzstd-jni-_.so"},
		{"/tmp/libzstd-jni-1.5.1-16931311898282279136.so (deleted)", "libzstd-jni-_.so"},
		{"./tmp/libzstd-jni-1.5.1-1.so", "libzstd-jni-_.so"},
		{"tmp/libzstd-jni-1.5.1-1.so", NULL},
		{"libzstd-jni-1.5-1.so", NULL},
		{"libzstd-jni-1.5.1-1.so.1", NULL},
		{"libamazonCorrettoCryptoProvider109b39cf33c563eb.so", "libamazonCorrettoCryptoProvider_.so"},
		{"amazonCorrettoCryptoProviderNativeLibraries.7382c2f79097f415/libcrypto.so",
		 "libamazonCorrettoCryptoProvider_.so"},
		{"amazonCorrettoCryptoProviderNativeLibraries.24e42b0d5ecf5f50/libamazonCorrettoCryptoProvider.so",
		 "libamazonCorrettoCryptoProvider_.so"},
		{"libamazonCorrettoCryptoProvider109b39cf33c563eb1.so", NULL},
		{"libasyncProfiler-linux-arm64-17b9a1d8156277a98ccc871afa9a8f69215f92.so", "libasyncProfiler-_.so"},
		{"libasyncProfiler-linux-musl-x64-17b9a1d8156277a98ccc871afa9a8f69215f92.so", "libasyncProfiler-_.so"},
		{"./tmp/libasyncProfiler-macos-17b9a1d8156277a98ccc871afa9a8f69215f92.so (deleted)", "libasyncProfiler-_.so"},
		{"libasyncProfiler-linux-x64-1234.so", NULL},
	};
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		struct buffer text;
		buffer_init(&text, MIB);
		buffer_append_string(&text, names[i][0]);
		jfr_fold_name(&text);
		assert_string_equal(buffer_string(&text), names[i][1] ? names[i][1] : names[i][0]);
		buffer_release(&text);
	}
}

/* ---- labels ---- */

/* Strings: 1 thread_name, 2 worker, 3 http.route, 4 /a b, 5 GET /, 6 service_name, 7 other, 8 is empty, 9 span_name, 10
 * jfr_event. Contexts: 1 thread_name and http.route; 2 service_name; 3 refers to nothing that is there, or to what is empty; 4
 * span_name.
 */
static void make_labels(struct buffer *out)
{
	static const char *const strings[] = {"thread_name",  "worker", "http.route", "/a b",	   "GET /",
					      "service_name", "other",	"",	      "span_name", "jfr_event"};
	buffer_init(out, MIB);
	test_labels_context(out, 1, (const uint64_t[][2]){{1, 2}, {3, 4}, {1, 7}, {10, 7}}, 4);
	for (size_t i = 0; i < sizeof(strings) / sizeof(strings[0]); i++)
		test_labels_string(out, i + 1, strings[i]);
	test_labels_context(out, 2, (const uint64_t[][2]){{1, 7}}, 1);
	test_labels_context(out, 2, (const uint64_t[][2]){{6, 7}}, 1); /* the last one holds */
	test_labels_context(out, 3, (const uint64_t[][2]){{55, 2}, {1, 55}, {1, 8}, {8, 2}}, 4);
	test_labels_context(out, 4, (const uint64_t[][2]){{9, 2}}, 1);
	pb_write_varint(out, 15, 3); /* of a version to come */
}

#define LEAF " a/b/Main$$Lambda_.run:2 a/b/Main.main:1\n"

static void test_labels(void **state)
{
	struct test_jfr jfr = {0};
	struct buffer labels;
	struct labels series = {0};
	make_labels(&labels);
	begin(&jfr, "itimer");
	TEST_EVENT(&jfr, TEST_EXECUTION, 1, 0, 1, RUNNABLE, 1, 0, 0, 0, 0);
	TEST_EVENT(&jfr, TEST_EXECUTION, 1, 0, 1, RUNNABLE, 1, 0, 0, 0, 0);
	TEST_EVENT(&jfr, TEST_EXECUTION, 1, 0, 1, RUNNABLE, 2, 0, 0, 0, 0);
	TEST_EVENT(&jfr, TEST_EXECUTION, 1, 0, 1, RUNNABLE, 3, 0, 0, 0, 0);
	TEST_EVENT(&jfr, TEST_EXECUTION, 1, 0, 1, RUNNABLE, 99, 0, 0, 0, 0);
	TEST_EVENT(&jfr, TEST_EXECUTION, 1, 0, 1, RUNNABLE, 4, 0, 5, 0, 0);
	TEST_EVENT(&jfr, TEST_EXECUTION, 1, 0, 1, RUNNABLE, 1, 0x0123456789abcdef, 5, 0, 0);
	TEST_EVENT(&jfr, TEST_EXECUTION, 1, 0, 1, RUNNABLE, 0, 1, 88, 0xfeull << 56, 2);
	TEST_EVENT(&jfr, TEST_LOCK, 1, 50, 1, 1, 0, 0, 0, 0);
	TEST_EVENT(&jfr, TEST_PARK, 1, 50, 1);
	test_jfr_end(&jfr);
	assert_int_equal(labels_set(&series, "service_name", "shop", NULL), 0);
	check(decode(&jfr, &labels, &series),
	      "process_cpu cpu 20000000 http.route=/a b thread_name=worker" LEAF "process_cpu cpu 30000000" LEAF
	      "process_cpu cpu 10000000 span_name=worker" LEAF
	      "process_cpu cpu 10000000 http.route=/a b span_name=GET / thread_name=worker "
	      "00000000000000000000000000000000:0123456789abcdef" LEAF
	      "process_cpu cpu 10000000 fe000000000000000000000000000002:0000000000000001" LEAF
	      "mutex contentions 1 delay 50 http.route=/a b thread_name=worker" LEAF "block contentions 1 delay 50" LEAF);
	/* Without labels of the request there is nothing that they would give way to; without a snapshot there are only spans.
	 */
	begin(&jfr, "itimer");
	TEST_EVENT(&jfr, TEST_EXECUTION, 1, 0, 1, RUNNABLE, 2, 0, 0, 0, 0);
	test_jfr_end(&jfr);
	check(decode(&jfr, &labels, NULL), "process_cpu cpu 10000000 service_name=other" LEAF);
	begin(&jfr, "itimer");
	TEST_EVENT(&jfr, TEST_EXECUTION, 1, 0, 1, RUNNABLE, 1, 7, 5, 0, 0);
	test_jfr_end(&jfr);
	check(decode(&jfr, NULL, NULL), "process_cpu cpu 10000000 00000000000000000000000000000000:0000000000000007" LEAF);
	labels_release(&series);
	buffer_release(&labels);
}

static int try(struct bytes recording, struct bytes labels, struct error *err)
{
	const struct jfr_upload upload = {.recording = recording, .labels = labels, .period_ns = PERIOD};
	struct jfr_profiles profiles;
	int r = jfr_decode_upload(&upload, &profiles, err);
	if (r == 0)
		jfr_profiles_release(&profiles);
	return r;
}

static struct test_jfr damaged;
static void try_labels(struct bytes labels)
{
	try(buffer_bytes(&damaged.out), labels, NULL);
}

static void try_recording(struct bytes recording)
{
	struct buffer labels;
	make_labels(&labels);
	try(recording, buffer_bytes(&labels), NULL);
	buffer_release(&labels);
}

static void fill(struct test_jfr *jfr)
{
	begin(jfr, "wall");
	for (uint64_t i = 0; i < 6; i++) {
		TEST_EVENT(jfr, TEST_EXECUTION, 1, 0, 1 + i % 3, RUNNABLE, i, i, i, i, i);
		TEST_EVENT(jfr, TEST_WALL, 1, 1 + i % 3, RUNNABLE, 1, i, i, i, i, i);
		TEST_EVENT(jfr, TEST_LOCK, 1, 50, 1, i, 0, 0, 0, 0);
	}
	test_jfr_end(jfr);
}

static void test_damaged(void **state)
{
	struct buffer labels, wrong;
	struct error err = {0};
	make_labels(&labels);
	fill(&damaged);
	assert_int_equal(try(buffer_bytes(&damaged.out), buffer_bytes(&labels), &err), 0);
	buffer_init(&wrong, MIB);
	pb_write_varint(&wrong, 1, 3);
	assert_int_equal(try(buffer_bytes(&damaged.out), buffer_bytes(&wrong), &err), -EBADMSG);
	assert_non_null(strstr(err.message, "labels: LabelsSnapshot.contexts"));
	try_damaged(buffer_bytes(&labels), 2000, try_labels);
	try_damaged(buffer_bytes(&damaged.out), 2000, try_recording);
	buffer_release(&wrong);
	buffer_release(&labels);
	test_jfr_release(&damaged);
}

/* A context with more labels than a series may have; more sets of labels than one recording may have. */
static void test_bounded(void **state)
{
	struct test_jfr jfr = {0};
	struct buffer labels;
	struct error err = {0};
	uint64_t pairs[LIMIT_LABELS_PER_SERIES + 1][2];
	buffer_init(&labels, 64 * MIB);
	for (uint64_t i = 0; i <= LIMIT_LABELS_PER_SERIES; i++) {
		char text[16];
		snprintf(text, sizeof(text), "l%u", (unsigned)i);
		test_labels_string(&labels, i + 1, text);
		pairs[i][0] = pairs[i][1] = i + 1;
	}
	test_labels_context(&labels, 1, pairs, LIMIT_LABELS_PER_SERIES + 1);
	fill(&jfr);
	assert_int_equal(try(buffer_bytes(&jfr.out), buffer_bytes(&labels), &err), -EBADMSG);
	assert_non_null(strstr(err.message, "a context has more than"));
	test_jfr_release(&jfr);

	buffer_clear(&labels);
	jfr = (struct test_jfr){0};
	begin(&jfr, "itimer");
	for (uint64_t i = 1; i <= 65537; i++) {
		char text[16];
		snprintf(text, sizeof(text), "span %u", (unsigned)i);
		test_labels_string(&labels, i, text);
		TEST_EVENT(&jfr, TEST_EXECUTION, 1, 0, 1, RUNNABLE, 0, 0, i, 0, 0);
	}
	test_jfr_end(&jfr);
	assert_int_equal(try(buffer_bytes(&jfr.out), buffer_bytes(&labels), &err), -E2BIG);
	assert_non_null(strstr(err.message, "65536 different sets of labels"));
	test_jfr_release(&jfr);
	buffer_release(&labels);
}

/* What is over the limit of work costs nothing any more, also a text whose end has to be looked for. */
static void test_spent(void **state)
{
	struct buffer text;
	const struct jfr_class class = {.kind = JFR_STRING};
	buffer_init(&text, 16 * MIB);
	buffer_append_byte(&text, 4); /* UTF-16 */
	test_jfr_number(&text, 8 * MIB);
	assert_int_equal(buffer_reserve(&text, 8 * MIB), 0);
	memset(text.data + text.len, 'a', 8 * MIB);
	text.len += 8 * MIB;
	struct jfr_chunk chunk = {.bytes = buffer_bytes(&text), .is_compressed = true, .work = 64 * MIB};
	const struct jfr_value value = {.class = &class, .at = {text.data, text.data + text.len, true, false}};
	_cleanup_(buffer_release) struct buffer out = {.max = 16 * MIB};
	assert_true(jfr_string(&chunk, value, &out));
	assert_int_equal(out.len, 8 * MIB);
	chunk.work = 0;
	clock_t begun = clock();
	for (size_t i = 0; i < 5000; i++)
		assert_false(jfr_string(&chunk, value, &out));
	assert_in_range((clock() - begun) / CLOCKS_PER_SEC, 0, 4);
	buffer_release(&text);
}

/* A map that was large once is not gone over for every chunk. */
static void test_forget(void **state)
{
	struct map64 map;
	map64_init_guarded(&map);
	const uint64_t secret = map.secret;
	for (uint64_t i = 0; i < 10000; i++)
		assert_int_equal(map64_put(&map, i, i), 0);
	jfr_forget(&map);
	assert_int_equal(map.count, 0);
	assert_true(map.capacity > 0);
	assert_int_equal(map64_put(&map, 1, 1), 0);
	jfr_forget(&map);
	assert_int_equal(map.count, 0);
	assert_int_equal(map.capacity, 0);
	assert_true(map.secret == secret);
	assert_false(map64_get(&map, 1, &(uint64_t){0}));
	map64_release(&map);
}

/* The n-th allocation fails, from the first one on until none is left to fail. */
static void test_memory(void **state)
{
	struct test_jfr jfr = {0};
	struct buffer labels;
	make_labels(&labels);
	fill(&jfr);
	bool reached = true;
	for (uint64_t n = 1; reached; n++) {
		fault_arm(FAULT_ALLOC, n, 0);
		int r = try(buffer_bytes(&jfr.out), buffer_bytes(&labels), NULL);
		reached = fault_disarm(FAULT_ALLOC);
		assert_int_equal(r, reached ? -ENOMEM : 0);
	}
	test_jfr_release(&jfr);
	buffer_release(&labels);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_cpu),	   cmocka_unit_test(test_wall),
					   cmocka_unit_test(test_amounts), cmocka_unit_test(test_extreme_amounts),
					   cmocka_unit_test(test_frames),  cmocka_unit_test(test_chunks),
					   cmocka_unit_test(test_names),   cmocka_unit_test(test_labels),
					   cmocka_unit_test(test_damaged), cmocka_unit_test(test_bounded),
					   cmocka_unit_test(test_spent),   cmocka_unit_test(test_forget),
					   cmocka_unit_test(test_memory)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
