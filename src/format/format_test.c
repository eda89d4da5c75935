/* SPDX-License-Identifier: Apache-2.0 */
#include "format/test_format.h"

#include "codec/compress.h"
#include "codec/test_compress.h"

static void test_names_and_extensions(void **state)
{
	assert_ptr_equal(format_by_name("pprof"), &format_pprof);
	assert_ptr_equal(format_by_name("otlp"), &format_otlp);
	assert_ptr_equal(format_by_name("folded"), &format_folded);
	assert_null(format_by_name("nope"));
	assert_ptr_equal(format_by_extension("a.pb.gz"), &format_pprof);
	assert_ptr_equal(format_by_extension("dir.otlp/cpu.pprof"), &format_pprof);
	assert_ptr_equal(format_by_extension("a.otlp"), &format_otlp);
	assert_ptr_equal(format_by_extension("a.otlp.pb"), &format_otlp);
	assert_ptr_equal(format_by_extension("a.folded"), &format_folded);
	assert_ptr_equal(format_by_extension("a.folded.gz"), &format_folded);
	assert_ptr_equal(format_by_extension("a.otlp.zst"), &format_otlp);
	assert_null(format_by_extension("a.txt"));
	assert_null(format_by_extension("folded"));
	assert_null(format_by_extension(".pb")); /* a name, not an extension */
	assert_null(format_by_extension(""));
	for (size_t i = 0; formats[i]; i++) {
		assert_ptr_equal(format_by_name(formats[i]->name), formats[i]);
		assert_non_null(formats[i]->description);
		assert_true(format_is_written(formats[i]) || (formats[i]->decode && formats[i]->detect));
	}
}

static const struct format *detect_file(const char *name)
{
	struct buffer file = read_data(name), plain;
	struct bytes input = buffer_bytes(&file);
	buffer_init(&plain, LIMIT_PROFILE_INPUT_BYTES);
	if (gzip_detect(input)) {
		assert_int_equal(gzip_decompress(input, &plain, NULL), 0);
		input = buffer_bytes(&plain);
	}
	const struct format *found = format_detect(input);
	buffer_release(&plain);
	buffer_release(&file);
	return found;
}

static void test_detect(void **state)
{
	assert_ptr_equal(detect_file("pprof/google-driver/sample.cpu"), &format_pprof);
	assert_ptr_equal(detect_file("pprof/google-profile/cppbench.heap"), &format_pprof);
	assert_ptr_equal(detect_file("pprof/malformed/ok_strings_first.pb"), &format_pprof);
	assert_ptr_equal(detect_file("otlp/profile.otlp"), &format_otlp);
	assert_ptr_equal(detect_file("otlp/k8s.otlp"), &format_otlp);
	assert_ptr_equal(detect_file("otlp/malformed/ok_dictionary_first.otlp"), &format_otlp);
	assert_ptr_equal(format_detect(bytes_of_string("main;work 5\n")), &format_folded);
	/* A capital P is the tag of a number in pprof. */
	assert_ptr_equal(format_detect(bytes_of_string("Program;main 5\n")), &format_folded);
	assert_null(format_detect(bytes_of_string("hello\n")));
	assert_null(format_detect(bytes_of_string("{\"a\": 1}\n")));
	assert_null(format_detect((struct bytes){(const uint8_t *)"PAR1\x15\x04\x15\x10", 8}));
	assert_null(format_detect((struct bytes){(const uint8_t *)"\x7f"
								  "ELF\x02\x01\x01\0\0\0",
						 10}));
	assert_null(format_detect((struct bytes){NULL, 0}));
}

static void refuse(struct bytes input, const struct format_options *options, int code, const char *message)
{
	struct profile *profile = NULL;
	struct error err = {0};
	assert_int_equal(format_decode(NULL, input, options, &profile, &err), code);
	assert_string_equal(err.message, message);
	assert_null(profile);
}

static void test_messages(void **state)
{
	struct format_options options = {.input_name = "my.file", .decompressed_max = 100};
	refuse((struct bytes){NULL, 0}, &options, -EBADMSG, "my.file: the input is empty");
	refuse(bytes_of_string("hello\n"), NULL, -EINVAL,
	       "input: unknown profile format; give it with --from (in the API: format=)");
	refuse(bytes_of_string("a;b x"), NULL, -EINVAL,
	       "input: unknown profile format; give it with --from (in the API: format=)");
	char large[102];
	memset(large, 'x', 101);
	large[101] = '\0';
	refuse(bytes_of_string(large), &options, -E2BIG, "my.file: 101 bytes are more than the limit of 100");
}

static void test_compressed_input(void **state)
{
	static const struct {
		int (*compress)(struct bytes input, int level, struct buffer *out, struct error *err);
	} codecs[] = {{gzip_compress}, {test_zstd_compress}};
	for (size_t i = 0; i < 2; i++) {
		struct buffer once, twice;
		struct format_options small = {.decompressed_max = 10};
		buffer_init(&once, KIB);
		buffer_init(&twice, KIB);
		assert_int_equal(codecs[i].compress(bytes_of_string("main;work 5\n"), 3, &once, NULL), 0);
		struct profile *profile = decode_or_fail(NULL, buffer_bytes(&once), "compressed");
		assert_int_equal(profile_total(profile, 0), 5);
		profile_free(profile);
		for (size_t j = 0; j < 2; j++) {
			buffer_clear(&twice);
			assert_int_equal(codecs[j].compress(buffer_bytes(&once), 3, &twice, NULL), 0);
			refuse(buffer_bytes(&twice), NULL, -EBADMSG, "input: compressed more than once; decompress it first");
		}
		refuse(buffer_bytes(&once), &small, -E2BIG, "input: exceeds the limit of 10 bytes after decompression");
		buffer_clear(&twice);
		assert_int_equal(codecs[i].compress((struct bytes){NULL, 0}, 3, &twice, NULL), 0);
		refuse(buffer_bytes(&twice), NULL, -EBADMSG, "input: the input is empty");
		buffer_release(&once);
		buffer_release(&twice);
	}
}

static void test_groups(void **state)
{
	struct profile *profile;
	struct sample_groups groups;
	assert_int_equal(profile_new(&profile, NULL), 0);
	uint32_t type, link;
	assert_int_equal(profile_add_cstring(profile, "n", &type, NULL), 0);
	assert_int_equal(profile_add_sample_type(profile, type, type, NULL), 0);
	assert_int_equal(profile_add_link(profile, &(struct profile_link){.span_id = {1}}, &link, NULL), 0);
	for (int64_t i = 0; i < 6; i++) {
		struct profile_sample sample = {.link = i % 3 == 0 ? link : 0, .time_ns = i};
		assert_int_equal(profile_add_sample(profile, &sample, &i, NULL), 0);
	}
	assert_int_equal(sample_groups_build(profile, 0, &groups, NULL), 0);
	assert_int_equal(groups.count, 1);
	assert_int_equal(sample_groups_sum(&groups, profile, 0, 0), 15);
	sample_groups_release(&groups);
	assert_int_equal(sample_groups_build(profile, GROUPS_BY_LINK, &groups, NULL), 0);
	assert_int_equal(groups.count, 2);
	assert_int_equal(sample_groups_sum(&groups, profile, 0, 0), 3);
	assert_int_equal(sample_groups_sum(&groups, profile, 1, 0), 12);
	assert_int_equal(groups.first[1], 1);
	sample_groups_release(&groups);
	profile_free(profile);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_names_and_extensions), cmocka_unit_test(test_detect), cmocka_unit_test(test_messages),
		cmocka_unit_test(test_compressed_input),     cmocka_unit_test(test_groups),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
