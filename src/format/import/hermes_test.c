/* SPDX-License-Identifier: Apache-2.0 */
#include "format/test_whole.h"

static const struct format *const tested = &format_hermes;

#define SAMPLE(ts, tid, sf)                                                                                                    \
	"{\"cpu\":\"-1\",\"name\":\"\",\"ts\":\"" #ts "\",\"pid\":17,\"tid\":\"" #tid "\",\"weight\":\"1\",\"sf\":" #sf "}"
#define FRAMES                                                                                                                 \
	"\"stackFrames\":{\"1\":{\"name\":\"[root]\",\"category\":\"root\"},\"2\":{\"line\":\"3\",\"column\":\"9\","           \
	"\"funcLine\":"                                                                                                        \
	"\"2\",\"funcColumn\":\"1\",\"name\":\"main(app.js:2:1)\",\"category\":\"JavaScript\",\"parent\":1},\"3\":{\"name\":"  \
	"\"(app.js:7:1)\",\"category\":\"JavaScript\",\"parent\":2},\"4\":{\"name\":\"[GC]\",\"category\":\"Metadata\","       \
	"\"parent\":2},\"5\":{\"name\":\"lost(x.js:1:1)\",\"category\":\"JavaScript\",\"parent\":77}}"
#define EVENTS                                                                                                                 \
	"\"traceEvents\":[{\"name\":\"thread_name\",\"ph\":\"M\",\"cat\":\"\",\"pid\":17,\"ts\":\"\",\"tid\":\"5\",\"args\":{" \
	"\"name\":\"mqt_js\"}},{\"name\":\"x\",\"ph\":\"i\",\"tid\":\"5\"}]"
static const char whole[] = "{" EVENTS ",\"samples\":[" SAMPLE(1000, 5, 2) "," SAMPLE(1010, 6, 4) "," SAMPLE(
	1030, 5, 3) "," SAMPLE(1050, 6, 5) "," SAMPLE(1060, 5, 9) "," SAMPLE(1100, 5, 2) "]," FRAMES "}";

static void test_samples(void **state)
{
	check_text(whole, "samples", "lost 1\nmain 2\nmain;(anonymous) 1\nmain;[GC] 1\n");
	assert_string_equal(buffer_string(&notes), "1 samples without a time, or of frames that are not in the file\n"
						   "1 frames: callers, since the parent is not in the file\n"
						   "1 events beside the samples\n");
	check_text(whole, "wall", "main 30000\nmain;(anonymous) 30000\nmain;[GC] 40000\n");
	struct profile *profile = read_text(whole);
	const struct profile_sample *sample = &profile->samples[0];
	const struct profile_location *location = &profile->locations[profile->stacks[sample->stack].location];
	const struct profile_line *line = &profile->lines[location->line_first];
	assert_int_equal(sample->time_ns, 1000000);
	assert_int_equal(line->line, 3);
	assert_int_equal(line->column, 9);
	assert_string_equal(profile_string(profile, profile->functions[line->function].file_name), "app.js");
	assert_int_equal(profile->functions[line->function].start_line, 2);
	assert_string_equal(profile_label_value(profile, sample->labels, "thread.name"), "mqt_js");
	assert_int_equal(profile->duration_ns, 100000);
	profile_free(profile);
}

/* A parent that is not there is not the first frame of the file; times that do not fit. */
static void test_odd(void **state)
{
	check_text("{\"samples\":[" SAMPLE(1, 5, 1) "," SAMPLE(2, 5, 2) "," SAMPLE(9223372036854775807, 5, 1) "," SAMPLE(
			   9223372036854775, 5, 1) "],\"stackFrames\":{\"1\":{\"name\":\"first\"},\"2\":{\"name\":\"lost\","
						   "\"parent\":77}}}",
		   "samples", "first 2\nlost 1\n");
	assert_string_equal(buffer_string(&notes), "1 samples without a time, or of frames that are not in the file\n"
						   "1 frames: callers, since the parent is not in the file\n");
}

static void test_refused(void **state)
{
	refuse("{\"samples\":[]}", "no samples and stackFrames");
	refuse("{\"samples\":[],\"stackFrames\":{\"x\":{}}}", "a frame has the id \"x\"");
	refuse("{\"samples\":[" SAMPLE(1, 1, 1) "],\"stackFrames\":{\"1\":{\"name\":\"a\",\"parent\":1}}}", "its own parent");
}

static const char *const whole_text = whole;

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_samples), cmocka_unit_test(test_odd),	  cmocka_unit_test(test_refused),
		cmocka_unit_test(test_damaged), cmocka_unit_test(test_no_memory),
	};
	return cmocka_run_group_tests(tests, NULL, release_notes);
}
