/* SPDX-License-Identifier: Apache-2.0 */
#include "format/test_whole.h"

static const struct format *const tested = &format_cpuprofile;

#define NODE(id, name, rest)                                                                                                   \
	"{\"id\": " #id ", \"callFrame\": {\"functionName\": \"" name                                                          \
	"\", \"url\": \"a.js\", \"lineNumber\": 4, \"columnNumber\": 9}" rest "}"
#define TREE                                                                                                                   \
	"\"nodes\": [" NODE(1, "(root)", ", \"children\": [2, 4]") "," NODE(2, "f", ", \"children\": [3]") "," NODE(           \
		3, "", "") "," NODE(4, "g", "") "]"

static void check(const char *text, const char *counts, const char *times)
{
	check_text(text, "samples", counts);
	check_text(text, "wall", times);
}

static void test_samples(void **state)
{
	assert_ptr_equal(format_detect(bytes_of_string("{" TREE "}")), &format_cpuprofile);
	/* At 100, 110, 140 us; the last until 145. */
	check("{" TREE ", \"startTime\": 90, \"endTime\": 145, \"samples\": [3, 2, 3], \"timeDeltas\": [10, 10, 30]}",
	      "f_[j] 1\nf_[j];(anonymous)_[j] 2\n", "f_[j] 30000\nf_[j];(anonymous)_[j] 15000\n");
	/* Out of order: 3 at 100, 2 at 130, 4 at 120. */
	check("{" TREE ", \"startTime\": 90, \"endTime\": 131, \"samples\": [3, 2, 4], \"timeDeltas\": [10, 30, -10]}",
	      "f_[j] 1\nf_[j];(anonymous)_[j] 1\ng_[j] 1\n", "f_[j] 1000\nf_[j];(anonymous)_[j] 20000\ng_[j] 10000\n");
	/* Parents instead of children, no samples. */
	check("{\"nodes\": [" NODE(1, "(root)", ", \"hitCount\": 1") "," NODE(
		      7, "f", ", \"parent\": 1, \"hitCount\": 3") "," NODE(9, "g", ", \"parent\": 7, \"hitCount\": 2") "]}",
	      "[unknown] 1\nf_[j] 3\nf_[j];g_[j] 2\n", "");
}

static void test_lines(void **state)
{
	struct profile *profile;
	assert_int_equal(
		decode("{" TREE ", \"startTime\": 0, \"endTime\": 9, \"samples\": [4], \"timeDeltas\": [2]}", &profile, NULL),
		0);
	const struct profile_sample *sample = &profile->samples[0];
	assert_int_equal(sample->time_ns, 2000);
	const struct profile_location *location = &profile->locations[profile->stacks[sample->stack].location];
	const struct profile_line *line = &profile->lines[location->line_first];
	assert_int_equal(line->line, 5);
	assert_int_equal(line->column, 10);
	assert_string_equal(profile_string(profile, profile->functions[line->function].file_name), "a.js");
	profile_free(profile);
}

/* What refers to nodes that are not there is left out; the time of the sample before does not grow by that. */
static void test_dangling(void **state)
{
	check("{" TREE ", \"startTime\": 90, \"endTime\": 145, \"samples\": [3, 8, 2], \"timeDeltas\": [10, 10, 30]}",
	      "f_[j] 1\nf_[j];(anonymous)_[j] 1\n", "f_[j] 5000\nf_[j];(anonymous)_[j] 10000\n");
	assert_string_equal(buffer_string(&notes), "1 samples of nodes that are not in the file\n");
	check_text("{\"nodes\": [" NODE(1, "(root)", ", \"children\": [2, 5]") "," NODE(2, "f", ", \"hitCount\": 3") "," NODE(
			   9, "g", ", \"parent\": 7, \"hitCount\": 2") "]}",
		   "samples", "[unknown] 2\nf_[j] 3\n");
	assert_string_equal(buffer_string(&notes),
			    "1 children that are not in the file\n1 nodes: callers, since the parent is not "
			    "in the file\n");
}

static void test_refused(void **state)
{
	refuse("{", "not JSON");
	refuse("{}", "no array of nodes");
	refuse("{\"nodes\": []}", "no array of nodes");
	refuse("{\"nodes\": [{\"id\": 1}]}", "node 0: no functionName");
	refuse("{\"nodes\": [{\"callFrame\": {\"functionName\": \"f\"}}]}", "node 0 has no id");
	refuse("{\"nodes\": [" NODE(1, "f", "") "," NODE(1, "g", "") "]}", "nodes 0 and 1 have the same id");
	refuse("{\"nodes\": [" NODE(1, "f", ", \"children\": [3]") "," NODE(2, "g", ", \"children\": [3]") "," NODE(3, "h",
														    "") "]}",
	       "two parents");
	refuse("{\"nodes\": [" NODE(1, "f", ", \"children\": [2]") "," NODE(2, "g",
									    ", \"children\": [1], \"hitCount\": 1") "]}",
	       "or its own parent");
	refuse("{" TREE ", \"samples\": [3], \"timeDeltas\": []}", "1 samples, but 0 time differences");
	refuse("{" TREE ", \"samples\": [3], \"timeDeltas\": [9223372036854775807]}", "out of range");
	refuse("{" TREE ", \"samples\": [3], \"timeDeltas\": [\"x\"]}", "has no time");
}

static const char whole[] =
	"{" TREE ", \"startTime\": 90, \"endTime\": 145, \"samples\": [3, 2, 4], \"timeDeltas\": [10, 10, 30]}";

static const char *const whole_text = whole;

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_samples), cmocka_unit_test(test_lines),	cmocka_unit_test(test_dangling),
		cmocka_unit_test(test_refused), cmocka_unit_test(test_damaged), cmocka_unit_test(test_no_memory),
	};
	return cmocka_run_group_tests(tests, NULL, release_notes);
}
