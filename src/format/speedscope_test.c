/* SPDX-License-Identifier: Apache-2.0 */
#include "format/test_format.h"

static int decode(const char *text, struct profile **ret, struct error *err)
{
	struct bytes input = bytes_of_string(text);
	uint8_t *copy = exact_copy(input);
	*ret = NULL;
	int r = format_speedscope.decode((struct bytes){copy, input.len}, NULL, ret, err);
	free(copy);
	return r;
}

static void refuse(const char *frames, const char *profiles, const char *expected_message)
{
	char text[2048];
	struct profile *profile;
	struct error err = {0};
	snprintf(text, sizeof(text), "{\"shared\": {\"frames\": %s}, \"profiles\": %s}", frames, profiles);
	assert_true(decode(text, &profile, &err) < 0);
	if (!strstr(err.message, expected_message))
		fail_msg("%s: \"%s\" does not say \"%s\"", text, err.message, expected_message);
}

/* The test data, as folded stacks; NULL = refused. */
static void check_file(const char *name, const char *type, const char *folded)
{
	char path[256];
	struct error err = {0};
	struct profile *profile = NULL;
	snprintf(path, sizeof(path), "speedscope/speedscope__%s.speedscope.json", name);
	if (!folded)
		snprintf(path, sizeof(path), "speedscope/speedscope__%s.json", name);
	struct buffer file = read_data(path);
	assert_ptr_equal(format_detect(buffer_bytes(&file)), &format_speedscope);
	int r = format_decode(NULL, buffer_bytes(&file), NULL, &profile, &err);
	assert_int_equal(r, folded ? 0 : -EBADMSG);
	if (folded) {
		struct buffer out = encode_or_fail(&format_folded, profile);
		assert_string_equal(buffer_string(&out), folded);
		assert_string_equal(profile_string(profile, profile->sample_types[0].type), type);
		buffer_release(&out);
		profile_free(profile);
	}
	buffer_release(&file);
}

static void test_files(void **state)
{
	check_file("0.0.1__simple", "samples", "a;b 5\na;b;c 5\na;b;d 4\n");
	check_file("0.0.1__simple-no-pretty-print", "samples", "a;b 5\na;b;c 5\na;b;d 4\n");
	check_file("0.1.2__simple-sampled", "time", "a;b 5000000000\na;b;c 5000000000\na;b;d 4000000000\n");
	check_file("0.6.0__two-sampled", "time", "a;b 10000000000\na;b;c 10000000000\na;b;d 8000000000\n");
	check_file("invalid__incomplete-trace", "", NULL);
	check_file("invalid__out-of-order-events", "", NULL);
}

/* Frames that are not there are left out of stacks, and reported. */
static void test_dangling(void **state)
{
	static const char head[] =
		"{\"$schema\": \"https://www.speedscope.app/file-format-schema.json\", \"shared\": {\"frames\": "
		"[{\"name\": \"a\"}, {\"name\": \"b\"}]}, \"profiles\": [";
	static const char *const profiles[] = {
		"{\"type\": \"sampled\", \"samples\": [[0, 2, 1], [-1], [0.5, 0]], \"weights\": [1, 2, 4]}]}",
		"{\"type\": \"evented\", \"events\": [{\"type\": \"O\", \"frame\": 9, \"at\": 0}, {\"type\": \"O\", \"frame\": "
		"0, "
		"\"at\": 2}, {\"type\": \"C\", \"frame\": 0, \"at\": 6}, {\"type\": \"C\", \"frame\": 9, \"at\": 7}]}]}"};
	static const char *const folded[] = {"[unknown] 2\na 4\na;b 1\n", "[unknown] 3\na 4\n"},
				 *const notes[] = {"3 frames of stacks that are missing\n",
						   "1 frames of stacks that are missing\n"};
	for (size_t i = 0; i < 2; i++) {
		struct buffer text = {.max = MIB}, said = {.max = KIB};
		struct format_options options = {.notes = &said};
		struct profile *profile = NULL;
		buffer_append_string(&text, head);
		buffer_append_string(&text, profiles[i]);
		assert_int_equal(format_decode(NULL, buffer_bytes(&text), &options, &profile, NULL), 0);
		struct buffer out = encode_or_fail(&format_folded, profile);
		assert_string_equal(buffer_string(&out), folded[i]);
		assert_string_equal(buffer_string(&said), notes[i]);
		profile_free(profile);
		buffer_release(&out);
		buffer_release(&said);
		buffer_release(&text);
	}
}

static void test_refused(void **state)
{
#define ONE(fields)  "[{\"type\": \"sampled\", " fields "}]"
#define EVENTS(list) "[{\"type\": \"evented\", \"events\": [" list "]}]"
	const char *frames = "[{\"name\": \"a\"}, {\"name\": \"b\"}]";
	refuse("7", "[]", "no array of profiles");
	refuse("7", "[{}]", "no array shared.frames");
	refuse("[{\"name\": 1}]", "[{}]", "frame 0: no name");
	refuse(frames, "[{}]", "must be sampled or evented");
	refuse(frames, "[{\"unit\": \"miles\"}]", "the unit 'miles' is unknown");
	refuse(frames, ONE("\"samples\": []"), "no arrays samples and weights");
	refuse(frames, ONE("\"samples\": [[0]], \"weights\": []"), "1 samples, but 0 weights");
	refuse(frames, ONE("\"samples\": [0], \"weights\": [1]"), "a stack is not an array");
	refuse(frames, ONE("\"samples\": [[0]], \"weights\": [\"x\"]"), "is not a number");
	refuse(frames, ONE("\"unit\": \"seconds\", \"samples\": [[0]], \"weights\": [1e300]"), "out of range");
	refuse(frames, EVENTS("{\"type\": \"O\", \"frame\": 0, \"at\": 5}, {\"type\": \"C\", \"frame\": 0, \"at\": 4}"),
	       "event 1: it is earlier");
	refuse(frames, EVENTS("{\"type\": \"X\", \"frame\": 0, \"at\": 5}"), "neither opens nor closes");
	refuse(frames, EVENTS("{\"type\": \"C\", \"frame\": 0, \"at\": 5}"), "not the innermost");
	refuse(frames, EVENTS("{\"type\": \"O\", \"frame\": 0}"), "is not a number");
	refuse(frames, EVENTS("{\"type\": \"O\", \"frame\": 0, \"at\": -9e18}, {\"type\": \"C\", \"frame\": 0, \"at\": 9e18}"),
	       "out of range");
	refuse(frames, "[", "not JSON near byte");
#undef ONE
#undef EVENTS
}

/* Two threads, two values, lines and columns, frames of one name: written, read, written again. */
static const char text[] =
	"{\"exporter\": \"wick\", \"$schema\": \"https://www.speedscope.app/file-format-schema.json\", \"shared\": "
	"{\"frames\": ["
	"{\"name\": \"main\", \"file\": \"m.c\", \"line\": 3, \"col\": 9}, {\"name\": \"main\", \"file\": \"m.c\", \"line\": "
	"4},"
	"{\"name\": \"f\"}]}, \"profiles\": ["
	"{\"type\": \"sampled\", \"name\": \"cpu: worker: a [17]\", \"unit\": \"nanoseconds\", \"wick\": {\"type\": \"cpu\", "
	"\"unit\": \"nanoseconds\", \"thread.id\": 17, \"thread.name\": \"worker: a\"}, \"samples\": [[0, 2], [1], []], "
	"\"weights\": [5, 7, 1]},"
	"{\"type\": \"sampled\", \"name\": \"cpu: [18]\", \"unit\": \"nanoseconds\", \"wick\": {\"type\": \"cpu\", \"unit\": "
	"\"nanoseconds\", \"thread.id\": 18, \"process.pid\": 5}, \"samples\": [[0, 2]], \"weights\": [11]},"
	"{\"type\": \"sampled\", \"name\": \"alloc: worker: a [17]\", \"unit\": \"none\", \"wick\": {\"type\": \"alloc\", "
	"\"unit\": \"pages\", \"thread.id\": 17, \"thread.name\": \"worker: a\"}, \"samples\": [[0, 2]], \"weights\": "
	"[64]}]}";

static void test_round_trip(void **state)
{
	struct profile *first, *second;
	struct error err = {0};
	assert_int_equal(decode(text, &first, &err), 0);
	assert_int_equal(first->sample_type_count, 2);
	assert_int_equal(first->sample_count, 4); /* both values of one sample are one */
	assert_int_equal(profile_total(first, 0), 24);
	assert_int_equal(profile_total(first, 1), 64);
	size_t of_worker = 0;
	for (size_t i = 0; i < first->sample_count; i++) {
		const char *name = profile_label_value(first, first->samples[i].labels, "thread.name");
		of_worker += name && strcmp(name, "worker: a") == 0;
	}
	assert_int_equal(of_worker, 3);
	struct buffer out = encode_or_fail(&format_speedscope, first);
	assert_ptr_equal(format_detect(buffer_bytes(&out)), &format_speedscope);
	second = decode_or_fail(NULL, buffer_bytes(&out), "again");
	assert_int_equal(profile_total(second, 0), 24);
	assert_int_equal(profile_total(second, 1), 64);
	assert_string_equal(profile_string(second, second->sample_types[1].unit), "pages");
	assert_int_equal(second->sample_count, 4);
	assert_int_equal(second->label_count, first->label_count);
	struct buffer again = encode_or_fail(&format_folded, first), twice = encode_or_fail(&format_folded, second);
	assert_string_equal(buffer_string(&again), "[unknown] 1\nmain 7\nmain;f 16\n"); /* cpu, the first in the file */
	assert_string_equal(buffer_string(&twice), buffer_string(&again));
	buffer_release(&again);
	buffer_release(&twice);
	buffer_release(&out);
	profile_free(first);
	profile_free(second);
}

/* What the kernel calls a task, the idle one for example, is not the name of an executable, here or when it is read back. */
static void test_tasks_without_an_executable(void **state)
{
	static const char *const names[] = {"process.comm", "process.executable.name"};
	for (size_t i = 0; i < 2; i++) {
		struct profile *made, *back;
		struct profile_label label = {0};
		uint32_t set;
		assert_int_equal(profile_new(&made, NULL), 0);
		assert_int_equal(profile_add_named_type(made, "cpu", "nanoseconds", NULL), 0);
		assert_int_equal(profile_add_cstring(made, names[i], &label.key, NULL), 0);
		assert_int_equal(profile_add_cstring(made, "swapper", &label.value, NULL), 0);
		assert_int_equal(profile_add_label_set(made, &label, 1, &set, NULL), 0);
		assert_int_equal(profile_add_sample(made, &(struct profile_sample){.labels = set}, (int64_t[]){7}, NULL), 0);
		struct buffer out = encode_or_fail(&format_speedscope, made);
		assert_non_null(strstr(buffer_string(&out), "\"cpu: swapper\""));
		back = decode_or_fail(NULL, buffer_bytes(&out), "again");
		const char *name = profile_label_value(back, back->samples[0].labels, "process.executable.name");
		if (i == 0)
			assert_null(name);
		else
			assert_string_equal(name, "swapper");
		buffer_release(&out);
		profile_free(made);
		profile_free(back);
	}
}

static void test_times(void **state)
{
	struct profile *profile;
	struct error err = {0};
	assert_int_equal(decode("{\"shared\": {\"frames\": [{\"name\": \"a\"}, {\"name\": \"b\"}]}, \"profiles\": [{\"type\": "
				"\"evented\","
				"\"unit\": \"milliseconds\", \"events\": [{\"type\": \"O\", \"frame\": 0, \"at\": 10},"
				"{\"type\": \"O\", \"frame\": 1, \"at\": 10.5}, {\"type\": \"C\", \"frame\": 1, \"at\": 12},"
				"{\"type\": \"C\", \"frame\": 0, \"at\": 12}]}]}",
				&profile, &err),
			 0);
	assert_int_equal(profile->sample_count, 2);
	assert_int_equal(profile->samples[0].time_ns, 10000000);
	assert_int_equal(profile->values[0], 500000);
	assert_int_equal(profile->samples[1].time_ns, 10500000);
	assert_int_equal(profile->values[1], 1500000);
	profile_free(profile);
}

static void test_losses(void **state)
{
	struct profile *profile;
	struct error err = {0};
	struct buffer losses;
	buffer_init(&losses, SIZE_MAX);
	assert_int_equal(decode(text, &profile, &err), 0);
	assert_int_equal(format_losses(&format_folded, profile, &losses), 0);
	assert_string_equal(buffer_string(&losses),
			    "1 of the values of each sample; the source files of 1 functions; the lines of 2 frames; "
			    "what is counted (cpu, nanoseconds); the labels thread.id, thread.name, process.pid");
	buffer_clear(&losses);
	assert_int_equal(format_losses(&format_speedscope, profile, &losses), 0);
	assert_int_equal(format_losses(&format_pprof, profile, &losses), 0);
	assert_int_equal(losses.len, 0);
	profile_free(profile);
	/* A thread has one name, and no path. */
	assert_int_equal(profile_new(&profile, NULL), 0);
	assert_int_equal(profile_add_named_type(profile, "cpu", "count", NULL), 0);
	for (int i = 0; i < 3; i++) {
		struct profile_label labels[3] = {{.number = 7}, {0}, {0}};
		struct profile_sample sample = {0};
		static const char *const keys[] = {"thread.id", "thread.name", "process.executable.path"};
		for (size_t k = 0; k < 3; k++)
			assert_int_equal(profile_add_cstring(profile, keys[k], &labels[k].key, NULL), 0);
		assert_int_equal(profile_add_cstring(profile, i ? "new" : "old", &labels[1].value, NULL), 0);
		assert_int_equal(profile_add_cstring(profile, i > 1 ? "/a" : "/b", &labels[2].value, NULL), 0);
		assert_int_equal(profile_add_label_set(profile, labels, 3, &sample.labels, NULL), 0);
		assert_int_equal(profile_add_sample(profile, &sample, &(int64_t){1}, NULL), 0);
	}
	assert_int_equal(format_losses(&format_speedscope, profile, &losses), 0);
	assert_string_equal(buffer_string(&losses), "the other names of 1 threads; the labels process.executable.path");
	buffer_release(&losses);
	profile_free(profile);
}

/* A process that became another program, and one whose executable is known only later. */
static void test_processes_with_two_names(void **state)
{
	static const char *const keys[2][2] = {{"process.executable.name", "process.executable.name"},
					       {"process.comm", "process.executable.name"}};
	for (int i = 0; i < 2; i++) {
		struct profile *profile;
		struct buffer losses;
		buffer_init(&losses, KIB);
		assert_int_equal(profile_new(&profile, NULL), 0);
		assert_int_equal(profile_add_named_type(profile, "cpu", "count", NULL), 0);
		for (int k = 0; k < 2; k++) {
			struct profile_label labels[2] = {{.number = 7}, {0}};
			struct profile_sample sample = {0};
			assert_int_equal(profile_add_cstring(profile, "process.pid", &labels[0].key, NULL), 0);
			assert_int_equal(profile_add_cstring(profile, keys[i][k], &labels[1].key, NULL), 0);
			assert_int_equal(profile_add_cstring(profile, k ? "server" : "sh", &labels[1].value, NULL), 0);
			assert_int_equal(profile_add_label_set(profile, labels, 2, &sample.labels, NULL), 0);
			assert_int_equal(profile_add_sample(profile, &sample, &(int64_t){1}, NULL), 0);
		}
		assert_int_equal(format_losses(&format_speedscope, profile, &losses), 0);
		assert_int_equal(strstr(buffer_string(&losses), "the other process names of 1 threads") != NULL, i == 0);
		buffer_release(&losses);
		profile_free(profile);
	}
}

static void test_damaged(void **state)
{
	check_damaged(&format_speedscope, bytes_of_string(text));
}

static void test_no_memory(void **state)
{
	check_no_memory(&format_speedscope, bytes_of_string(text));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_files),
		cmocka_unit_test(test_dangling),
		cmocka_unit_test(test_refused),
		cmocka_unit_test(test_round_trip),
		cmocka_unit_test(test_tasks_without_an_executable),
		cmocka_unit_test(test_processes_with_two_names),
		cmocka_unit_test(test_times),
		cmocka_unit_test(test_losses),
		cmocka_unit_test(test_damaged),
		cmocka_unit_test(test_no_memory),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
