/* SPDX-License-Identifier: Apache-2.0 */
#include "format/test_whole.h"

static const struct format *const tested = &format_chrome_trace;

static void check(const char *text, const char *expected, const char *left_out)
{
	struct profile *profile = read_text(text);
	check_profile(profile, "time", expected);
	assert_string_equal(notes.len ? buffer_string(&notes) : "", left_out);
	profile_free(profile);
}

#define EVENT(ph, name, ts, rest) "{\"ph\":\"" ph "\",\"name\":\"" name "\",\"pid\":1,\"tid\":2,\"ts\":" #ts rest "}"

static void test_durations(void **state)
{
	/* a from 0 to 10, in it b from 2 to 5 and c from 5 to 6, in which d, which ends where c does */
	check("[" EVENT("B", "a", 0, "") "," EVENT("B", "b", 2, "") "," EVENT("E", "b", 5, "") "," EVENT(
		      "X", "c", 5, ",\"dur\":1") "," EVENT("X", "d", 5.5, ",\"dur\":0.5") "," EVENT("E", "", 10, "") "]",
	      "a 6000\na;b 3000\na;c 500\na;c;d 500\n", "");
	/* Out of order; those that begin at once nest by length; one that lasts no time is there and has none. */
	check("{\"metadata\":{},\"traceEvents\" : [" EVENT("X", "in", 1, ",\"dur\":2") "," EVENT(
		      "X", "out", 1, ",\"dur\":8") "," EVENT("X", "zero", 4, ",\"dur\":0") "," EVENT("X", "zero", 5, "") "]}",
	      "out 6000\nout;in 2000\n", "");
	/* No last bracket; a last comma. */
	check("[" EVENT("X", "a", 1, ",\"dur\":2") ",\n", "a 2000\n", "");
	check("[" EVENT("X", "a", 1, ",\"dur\":2") "\n", "a 2000\n", "");
	check("[" EVENT("X", "a", 1, ",\"dur\":2") ",\n]", "a 2000\n", "");
}

static void test_damaged_nesting(void **state)
{
	check("[" EVENT("E", "x", 0, "") "," EVENT("B", "a", 1, "") "," EVENT("B", "b", 2, "") "," EVENT(
		      "E", "a", 4, "") "," EVENT("B", "c", 5, "") "," EVENT("X", "d", 6, ",\"dur\":1") "]",
	      "a 1000\na;b 2000\nc 1000\nc;d 1000\n",
	      "1 ends of events without a begin\n1 missing ends: the events last as long as their thread\n");
	check("[" EVENT("X", "a", 0, ",\"dur\":5") "," EVENT("X", "b", 3, ",\"dur\":5") "]", "a 3000\na;b 2000\n",
	      "1 ends of events that outlast their parent event\n");
	check("[" EVENT("X", "a", 0, ",\"dur\":5") "," EVENT("C", "n", 3, "") "," EVENT("b", "n", 3, "") "]", "a 5000\n",
	      "2 events without a duration or a thread: instants, counters, flows and the like\n");
}

/* The labels and the time of each sample, in the order of threads in the file. */
static void check_threads(const char *text, const char *expected)
{
	struct profile *profile = read_text(text);
	struct buffer out;
	buffer_init(&out, SIZE_MAX);
	for (size_t i = 0; i < profile->sample_count; i++) {
		dump_labels(profile, profile->samples[i].labels, &out);
		buffer_printf(&out, " @%lld\n", (long long)profile->samples[i].time_ns);
	}
	assert_string_equal(buffer_string(&out), expected);
	buffer_release(&out);
	profile_free(profile);
}

static void test_threads(void **state)
{
	check_threads("[{\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":1,\"tid\":2,\"args\":{\"name\":\"main\"}},"
		      "{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":1,\"tid\":0,\"args\":{\"name\":\"app\"}},"
		      "{\"ph\":\"X\",\"name\":\"a\",\"pid\":\"srv\",\"tid\":\"io\",\"ts\":3,\"dur\":2}," EVENT(
			      "X", "a", 7, ",\"dur\":2") "]",
		      " process.executable.name=app/0/ process.pid=/1/ thread.id=/2/ thread.name=main/0/ @7000\n"
		      " process.executable.name=srv/0/ thread.name=io/0/ @3000\n");
	/* A number of 0 is one, and not the same as none. */
	check_threads("[{\"ph\":\"X\",\"name\":\"a\",\"pid\":0,\"tid\":0,\"ts\":3,\"dur\":2},"
		      "{\"ph\":\"X\",\"name\":\"a\",\"tid\":7,\"ts\":4,\"dur\":2},"
		      "{\"ph\":\"X\",\"name\":\"a\",\"ts\":5,\"dur\":2}]",
		      " process.pid=0/0/ thread.id=0/0/ @3000\n thread.id=/7/ @4000\n @5000\n");
}

#define NODE(id, name, parent)                                                                                                 \
	"{\"id\":" #id ",\"callFrame\":{\"functionName\":\"" name "\",\"url\":\"a.js\",\"lineNumber\":4}" parent "}"
static const char chunks[] =
	"{\"traceEvents\":["
	"{\"ph\":\"P\",\"name\":\"Profile\",\"pid\":1,\"tid\":2,\"ts\":3,\"id\":\"0x1\",\"args\":{\"data\":{\"startTime\":100}}"
	"},"
	"{\"ph\":\"P\",\"name\":\"ProfileChunk\",\"pid\":1,\"tid\":9,\"ts\":4,\"id\":\"0x1\",\"args\":{\"data\":{"
	"\"cpuProfile\":{"
	"\"nodes\":[" NODE(1, "(root)", "") "," NODE(
		2, "f",
		",\"parent\":1") "],\"samples\":[2,2]},\"timeDeltas\":[10,20],"
				 "\"lines\":[17,0],\"columns\":[3,0]}}}," EVENT(
					 "X", "event", 1,
					 ",\"dur\":2") ","
						       "{\"ph\":\"P\",\"name\":\"ProfileChunk\",\"pid\":1,\"tid\":9,\"ts\":4,"
						       "\"id\":\"0x1\",\"args\":{\"data\":{\"cpuProfile\":{"
						       "\"nodes\":[" NODE(3, "g",
									  ",\"parent\":2") "],\"samples\":[3]},\"timeDeltas\":["
											   "5],\"endTime\":142}}}]}";

static void test_cpu_profile(void **state)
{
	struct profile *profile = read_text(chunks);
	assert_int_equal(profile->sample_type_count, 3);
	assert_int_equal(profile_default_sample_type(profile), 1);
	check_profile(profile, "samples", "f_[j] 2\nf_[j];g_[j] 1\n");
	check_profile(profile, "wall", "f_[j] 25000\nf_[j];g_[j] 7000\n");
	check_profile(profile, "time", "event 2000\n");
	const struct profile_sample *first = &profile->samples[0];
	assert_int_equal(first->time_ns, 110000);
	const struct profile_location *leaf = &profile->locations[profile->stacks[first->stack].location];
	assert_int_equal(profile->lines[leaf->line_first].line, 17);
	assert_int_equal(profile->lines[leaf->line_first].column, 3);
	/* Of the thread that was sampled. */
	struct buffer out;
	buffer_init(&out, SIZE_MAX);
	dump_labels(profile, first->labels, &out);
	assert_string_equal(buffer_string(&out), " process.pid=/1/ thread.id=/2/");
	buffer_release(&out);
	profile_free(profile);
	/* In a piece. */
	profile = read_text(
		"[{\"ph\":\"I\",\"name\":\"CpuProfile\",\"pid\":1,\"tid\":2,\"ts\":3,\"args\":{\"data\":{\"cpuProfile\":{"
		"\"nodes\":[" NODE(1, "(root)", ",\"children\":[2]") "," NODE(
			2, "f", "") "],\"samples\":[2],\"timeDeltas\":[10],\"startTime\":5,\"endTime\":17}}}}]");
	check_profile(profile, "wall", "f_[j] 2000\n");
	profile_free(profile);
}

static void test_refused(void **state)
{
	refuse("{", "not JSON");
	refuse("{}", "no array of events");
	refuse("[", "no CPU profiles and no events");
	refuse("[1]", "event 0: not an object");
	refuse("[{\"ph\":\"X\",\"name\":\"a\"}]", "event 0: no time");
	refuse("[" EVENT("X", "a", 1e300, "") "]", "out of range");
	refuse("[" EVENT("X", "a", 1, ",\"dur\":-1") "]", "negative");
	refuse("[" EVENT("I", "a", 1, "") "]", "no CPU profiles and no events");
	refuse("[{\"ph\":\"P\",\"name\":\"ProfileChunk\",\"args\":{\"data\":{\"cpuProfile\":{\"nodes\":[{\"id\":1}]}}}}]",
	       "event 0: node 0: no functionName");
}

static const char *const whole_text = chunks;

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_durations),   cmocka_unit_test(test_damaged_nesting), cmocka_unit_test(test_threads),
		cmocka_unit_test(test_cpu_profile), cmocka_unit_test(test_refused),	    cmocka_unit_test(test_damaged),
		cmocka_unit_test(test_no_memory),
	};
	return cmocka_run_group_tests(tests, NULL, release_notes);
}
