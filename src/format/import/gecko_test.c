/* SPDX-License-Identifier: Apache-2.0 */
#include "format/test_whole.h"

static const struct format *const tested = &format_gecko;

#define LIBS                                                                                                                   \
	"\"libs\":[{\"start\":4096,\"end\":8192,\"offset\":256,\"path\":\"/bin/firefox\",\"codeId\":\"abcd\"},{\"start\":9,"   \
	"\"end\":9}]"
#define STRINGS                                                                                                                \
	"\"stringTable\":[\"(root)\",\"0x1010\",\"f (resource://loader.js -> https://a/b.js:12:7)[3]\",\"ion\",\"(a.js:4)\","  \
	"\"Layout (label)\",\"0x9000\"]"
#define THREAD(name, samples)                                                                                                  \
	"{\"name\":\"" name "\",\"tid\":8,\"pid\":7,\"processName\":\"Parent\",\"samples\":{\"schema\":{\"stack\":0,\"time\":" \
	"1,\"threadCPUDelta\":3},\"data\":[" samples "]},\"markers\":{\"schema\":{\"name\":0},\"data\":[[1],[2]]},"            \
	"\"stackTable\":{\"schema\":{\"prefix\":0,\"frame\":1},\"data\":[[null,0],[0,1],[1,2],[0,3],[3,4],[0,5]]},"            \
	"\"frameTable\":{\"schema\":{\"location\":0,\"implementation\":2,\"line\":3,\"column\":4},\"data\":[[0],[1],[2,null,"  \
	"3,"                                                                                                                   \
	"14,2],[4],[5,null,null,99],[6]]}," STRINGS "}"
#define META "\"meta\":{\"version\":30,\"startTime\":1000.5,\"interval\":1,\"sampleUnits\":{\"threadCPUDelta\":\"\302\265s\"}}"
#define ROOT(samples)                                                                                                          \
	"{" META "," LIBS                                                                                                      \
	",\"threads\":[" THREAD("GeckoMain", samples) "],\"processes\":[{\"meta\":{\"startTime\":2000}," LIBS                  \
						      ",\"threads\":[" THREAD("Web", "[5,1]") "]}],"                           \
											      "\"counters\":[{}]}"
static const char whole[] = ROOT("[2,0.5,null,300],[4,2],[null,3],[0]");

static void test_samples(void **state)
{
	check_text(whole, "samples",
		   "(root) 1\n(root);(anonymous);Layout (label) 1\n(root);0x9000 1\n"
		   "(root);firefox+0x110;f_[j] 1\n[unknown] 1\n");
	assert_string_equal(buffer_string(&notes), "4 markers (profiler.firefox.com keeps them when it saves the profile)\n"
						   "1 counters\n1 times of samples that have none\n");
	check_text(whole, "cpu", "(root);firefox+0x110;f_[j] 300000\n");
	struct profile *profile = read_text(whole);
	const struct profile_sample *sample = &profile->samples[0];
	const struct profile_location *leaf = &profile->locations[profile->stacks[sample->stack].location];
	const struct profile_line *line = &profile->lines[leaf->line_first];
	assert_int_equal(sample->time_ns, 1001000000);
	assert_int_equal(profile->samples[4].time_ns, 2001000000);
	assert_int_equal(profile->duration_ns, 1000000000);
	assert_int_equal(line->line, 14);
	assert_int_equal(line->column, 2);
	assert_string_equal(profile_string(profile, profile->functions[line->function].file_name), "https://a/b.js");
	assert_string_equal(profile_label_value(profile, sample->labels, "thread.name"), "GeckoMain");
	assert_string_equal(profile_label_value(profile, sample->labels, "process.executable.name"), "Parent");
	assert_string_equal(profile_string(profile, profile->mappings[1].build_id), "abcd");
	assert_int_equal(profile->period, 1000000);
	profile_free(profile);
}

/* Of DevTools; and what refers to nothing. */
static void test_forms(void **state)
{
	check_text("{\"label\":\"x\",\"profile\":" ROOT("[2,1]") "}", "samples",
		   "(root);0x9000 1\n(root);firefox+0x110;f_[j] 1\n");
	check_text("{" META
		   ",\"threads\":[{\"samples\":{\"schema\":{\"stack\":0,\"time\":1},\"data\":[[9,1],[1,2]]},\"stackTable\":{"
		   "\"schema\":{\"prefix\":0,\"frame\":1},\"data\":[[5,0],[0,7]]},\"frameTable\":{\"schema\":{\"location\":0},"
		   "\"data\":[[0]]},\"stringTable\":[\"a\"]}]}",
		   "samples", "[unknown] 1\na 1\n");
	assert_string_equal(buffer_string(&notes), "3 references to missing rows of tables\n");
	/* Times that do not fit. */
	struct profile *profile = read_text("{\"meta\":{\"startTime\":-8999999999999},\"threads\":[{\"samples\":{\"schema\":{"
					    "\"stack\":0,\"time\":1},\"data\":[[0,17999999999998],[0,1000]]},"
					    "\"stackTable\":{\"schema\":{},\"data\":[]},\"frameTable\":{\"schema\":{},\"data\":"
					    "[]},\"stringTable\":[]}]}");
	assert_int_equal(profile->samples[0].time_ns, 0);
	assert_int_equal(profile->samples[1].time_ns, 1000000000);
	profile_free(profile);
}

/* Libraries in any order. */
static void test_libs(void **state)
{
	check_text(
		"{" META ",\"libs\":[{\"start\":12288,\"end\":16384,\"path\":\"/lib/b\"},{\"start\":4096,\"end\":8192,\"path\":"
		"\"/lib/a\"}],\"threads\":[{\"samples\":{\"schema\":{\"stack\":0},\"data\":[[0],[1],[2],[3]]},\"stackTable\":{"
		"\"schema\":{\"frame\":0},\"data\":[[0],[1],[2],[3]]},\"frameTable\":{\"schema\":{\"location\":0},\"data\":"
		"[[0],[1],[2],[3]]},\"stringTable\":[\"0x1000\",\"0x1fff\",\"0x2000\",\"0x3fff\"]}]}",
		"samples", "0x2000 1\na+0x0 1\na+0xfff 1\nb+0xfff 1\n");
}

static void test_refused(void **state)
{
	refuse("{}", "no object meta");
	refuse("{\"meta\":{}}", "no array threads");
	refuse("{\"meta\":{},\"threads\":[{}]}", "thread 0: no samples, stackTable or frameTable");
	struct buffer wide = {.max = MIB};
	buffer_append_string(&wide, "{\"meta\":{},\"threads\":[{\"samples\":{\"data\":[],\"schema\":{");
	for (int i = 0; i < 65; i++)
		buffer_printf(&wide, "%s\"c%d\":%d", i ? "," : "", i, i);
	buffer_append_string(&wide, "}},\"stackTable\":{\"data\":[]},\"frameTable\":{\"data\":[]}}]}");
	refuse(buffer_string(&wide), "a table has more than 64 columns");
	buffer_release(&wide);
	refuse("{\"meta\":{},\"threads\":[],\"processes\":[{}]}", "process 0: no array threads");
}

static const char *const whole_text = whole;

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_samples), cmocka_unit_test(test_forms),	cmocka_unit_test(test_libs),
		cmocka_unit_test(test_refused), cmocka_unit_test(test_damaged), cmocka_unit_test(test_no_memory),
	};
	return cmocka_run_group_tests(tests, NULL, release_notes);
}
