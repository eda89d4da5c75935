/* SPDX-License-Identifier: Apache-2.0 */
#include "format/test_whole.h"

static const struct format *const tested = &format_heapprofile;

#define CALL(name, url, line)                                                                                                  \
	"\"callFrame\":{\"functionName\":\"" name "\",\"scriptId\":\"5\",\"url\":\"" url "\",\"lineNumber\":" #line            \
	",\"columnNumber\":3}"
#define TREE                                                                                                                   \
	"\"head\":{" CALL("(root)", "", -1) ",\"selfSize\":0,\"id\":1,\"children\":[{" CALL(                                   \
		"f", "a.js",                                                                                                   \
		4) ",\"selfSize\":1000,\"id\":2,\"children\":[{" CALL("", "a.js", 7) ",\"selfSize\":24,\"id\":3,"              \
										     "\"children\":[]}]},{" CALL(              \
											     "(V8 API)", "",                   \
											     -1) ",\"selfSize\":8,\"id\":4}]}"

static void test_values(void **state)
{
	check_text("{" TREE "}", NULL, "(V8 API) 8\nf_[j] 1000\nf_[j];(anonymous)_[j] 24\n");
	assert_int_equal(notes.len, 0);
	static const char with_samples[] =
		"{" TREE ",\"samples\":[{\"size\":24,\"nodeId\":3,\"ordinal\":1},{\"size\":8,\"nodeId\":3,"
		"\"ordinal\":2},{\"size\":9,\"nodeId\":2,\"ordinal\":3},{\"size\":9,\"nodeId\":77,"
		"\"ordinal\":4},{}]}";
	check_text(with_samples, "samples", "f_[j] 1\nf_[j];(anonymous)_[j] 2\n");
	assert_string_equal(buffer_string(&notes), "2 samples of nodes that are not in the file\n");
	check_text(with_samples, NULL, "(V8 API) 8\nf_[j] 1000\nf_[j];(anonymous)_[j] 24\n");
}

static void test_frames(void **state)
{
	struct profile *profile = read_text("{" TREE "}");
	const struct profile_location *location = &profile->locations[profile->stacks[profile->samples[0].stack].location];
	const struct profile_line *line = &profile->lines[location->line_first];
	assert_int_equal(line->line, 5);
	assert_int_equal(line->column, 4);
	assert_string_equal(profile_string(profile, profile->functions[line->function].file_name), "a.js");
	assert_string_equal(profile_string(profile, profile->sample_types[0].type), "inuse_space");
	profile_free(profile);
}

static void test_refused(void **state)
{
	refuse("{", "not JSON");
	refuse("{}", "no object head");
	refuse("{\"head\":{\"children\":[{\"selfSize\":3}]}}", "a node has no functionName");
}

/* What is no profile at all is named. */
static void test_foreign(void **state)
{
	static const struct {
		const char *data;
		size_t len;
		const char *says;
	} files[] = {
		{"go 1.22 trace\0\0\0\1\2\3", 19, "an execution trace of Go"},
		{"\n<!DOCTYPE html><html>", 22, "HTML, not a profile"},
		{"<html><body>", 12, "HTML, not a profile"},
		{"{\"snapshot\":{\"meta\":{\"node_fields\":[\"type\"]}}}", 46, "a heap snapshot of V8"},
		{"Nettrace\24\0\0\0!FastSer", 20, "dotnet-trace convert"},
		{"\177ELF\2\1\1\0\0\0\0\0", 12, "a program, not a profile"},
		{"PK\3\4\24\0\0\0", 8, "a zip archive"},
		{"\3757zXZ\0\0\4", 8, "compressed by xz"},
		{"BZh91AY&SY", 10, "compressed by bzip2"},
	};
	static const struct format *const formats_tried[] = {NULL, &format_pprof, &format_chrome_trace};
	for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++)
		for (size_t k = 0; k < 3; k++) {
			struct bytes input = {(const uint8_t *)files[i].data, files[i].len};
			struct profile *profile = NULL;
			struct error err = {0};
			assert_int_equal(format_decode(formats_tried[k], input, NULL, &profile, &err), -EINVAL);
			if (!strstr(err.message, files[i].says))
				fail_msg("\"%s\" does not say \"%s\"", err.message, files[i].says);
		}
}

static const char *const whole_text = "{" TREE ",\"samples\":[{\"size\":24,\"nodeId\":3}]}";

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_values),	cmocka_unit_test(test_frames),	cmocka_unit_test(test_refused),
		cmocka_unit_test(test_foreign), cmocka_unit_test(test_damaged), cmocka_unit_test(test_no_memory),
	};
	return cmocka_run_group_tests(tests, NULL, release_notes);
}
