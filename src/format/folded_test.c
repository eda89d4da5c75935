/* SPDX-License-Identifier: Apache-2.0 */
#include "format/test_format.h"

#include "base/fault.h"

static int decode(const char *text, struct profile **ret, struct error *err)
{
	struct bytes input = bytes_of_string(text);
	uint8_t *copy = exact_copy(input);
	*ret = NULL;
	int r = folded_decode((struct bytes){copy, input.len}, NULL, ret, err);
	free(copy);
	return r;
}

static struct profile *decode_text(const char *text)
{
	struct profile *profile;
	struct error err = {0};
	if (decode(text, &profile, &err) < 0)
		fail_msg("%s: %s", text, err.message);
	return profile;
}

static void check_encoded(const struct profile *profile, const char *expected)
{
	struct buffer out = encode_or_fail(&format_folded, profile);
	assert_string_equal(buffer_string(&out), expected);
	buffer_release(&out);
}

/* What is written for what is read. */
static void check(const char *text, const char *expected)
{
	struct profile *profile = decode_text(text);
	check_encoded(profile, expected);
	profile_free(profile);
}

static void refuse(const char *text, const char *expected_message)
{
	struct profile *profile;
	struct error err = {0};
	assert_int_equal(decode(text, &profile, &err), -EBADMSG);
	if (!strstr(err.message, expected_message))
		fail_msg("%s: \"%s\" does not say \"%s\"", text, err.message, expected_message);
}

static void test_read_and_write(void **state)
{
	check("main;work 5\n", "main;work 5\n");
	check("b 1\na 2\nb 3", "a 2\nb 4\n");
	check("\n\na;b 1\r\n\r\n", "a;b 1\n");
	check("java;Thread 3;operator new(unsigned long) 17\n", "java;Thread 3;operator new(unsigned long) 17\n");
	check("thread 12 5\nmain 1\n", "main 1\nthread 12 5\n");
	check("a;;b 1\n", "a;[unknown];b 1\n");
	check(" 5\n", "[unknown] 5\n");
	check("a 1\na -1\nb 2\n", "b 2\n");
	check("\xff\xfe;b 1\n", "\xff\xfe;b 1\n");
	check("a 9223372036854775807\n", "a 9223372036854775807\n");
}

static void test_fractions(void **state)
{
	check("a 2.4\nb 2.5\nc -2.5\nd 1e3\n", "a 2\nb 3\nc -3\nd 1000\n");
	struct profile *profile = NULL;
	struct buffer notes;
	buffer_init(&notes, SIZE_MAX);
	struct format_options options = {.notes = &notes};
	assert_int_equal(folded_decode(bytes_of_string("a 2.4\nb 2.0\nc 1.5\n"), &options, &profile, NULL), 0);
	assert_string_equal(buffer_string(&notes), "fractions of 2 counts\n");
	buffer_release(&notes);
	profile_free(profile);
}

static void test_two_columns(void **state)
{
	check("a;b 10 20\nc 3 0\nd 0 7\n", "a;b 10 20\nc 3 0\nd 0 7\n");
	check("a;b 1.5 20\n\na;b 1 2\r\n", "a;b 3 22\n");
	/* Not on every line: a part of the name. */
	check("thread 12 5\nmain 3\n", "main 3\nthread 12 5\n");
	check("main 11111111111111111111 5\n", "main 11111111111111111111 5\n");
	struct profile *profile = decode_text("a;b 10 20\nc 3 4\n");
	assert_int_equal(profile->sample_type_count, 2);
	assert_string_equal(profile_string(profile, profile->sample_types[0].type), "base");
	assert_string_equal(profile_string(profile, profile->sample_types[1].type), "new");
	assert_int_equal(profile_total(profile, 0), 13);
	assert_int_equal(profile_total(profile, 1), 24);
	struct buffer out;
	buffer_init(&out, SIZE_MAX);
	assert_int_equal(format_losses(&format_folded, profile, &out), 0);
	assert_int_equal(out.len, 0);
	/* The one that was asked for. */
	profile->default_sample_type = profile->sample_types[0].type;
	check_encoded(profile, "a;b 10\nc 3\n");
	assert_int_equal(format_losses(&format_folded, profile, &out), 0);
	assert_string_equal(buffer_string(&out), "1 of the values of each sample; what is counted (base, count)");
	buffer_release(&out);
	profile_free(profile);
}

static void test_suffixes(void **state)
{
	check("main;sys_read_[k];inner_[i];run_[j] 3\n", "main;sys_read_[k];inner_[i];run_[j] 3\n");
	struct profile *profile = decode_text("outer;middle_[i];inner_[i];entry_[k];code_[j];plain_[x] 1\n");
	uint32_t stack[8];
	assert_int_equal(profile_stack_locations(profile, profile->samples[0].stack, stack, 8), 4);
	static const uint32_t types[] = {PROFILE_FRAME_UNKNOWN, PROFILE_FRAME_JIT, PROFILE_FRAME_KERNEL, PROFILE_FRAME_UNKNOWN};
	for (size_t i = 0; i < 4; i++)
		assert_int_equal(profile->locations[stack[i]].frame_type, types[i]);
	const struct profile_location *root = &profile->locations[stack[3]];
	assert_int_equal(root->line_count, 3);
	static const char *const names[] = {"inner", "middle", "outer"};
	for (uint32_t i = 0; i < 3; i++)
		assert_string_equal(
			profile_string(profile, profile->functions[profile->lines[root->line_first + i].function].name),
			names[i]);
	check_encoded(profile, "outer;middle_[i];inner_[i];entry_[k];code_[j];plain_[x] 1\n");
	profile_free(profile);
	/* Inlined into nothing. */
	check("first_[i];b 1\n", "first;b 1\n");
}

static void test_refused(void **state)
{
	refuse("", "has no stacks");
	refuse("\n\n", "has no stacks");
	refuse("main\n", "line 1: no count");
	refuse("a 1\nmain;b x\n", "line 2: the count \"x\" is not a number");
	refuse("a 0x10\n", "is not a number");
	refuse("a nan\n", "is not a number");
	refuse("a 1.2.3\n", "is not a number");
	refuse("a 9223372036854775808\n", "does not fit into 64 bits");
	refuse("a 1e30\n", "does not fit into 64 bits");
	refuse("a 1111111111111111111111111111111111111111111111111111111111111111111\n", "is not a number");
	refuse("a;b 10 20\nc 3 99999999999999999999\n", "line 2: the count \"99999999999999999999\" does not fit");
	struct profile *profile = NULL;
	struct error err = {0};
	assert_int_equal(folded_decode((struct bytes){(const uint8_t *)"a\0b 1", 5}, NULL, &profile, &err), -EBADMSG);
	assert_non_null(strstr(err.message, "NUL"));
}

static void test_large_lines(void **state)
{
	size_t len = 10 * MIB;
	char *text = malloc(len + 4);
	struct profile *profile;
	struct error err = {0};
	memset(text, 'x', len);
	memcpy(text + len, " 1\n", 4);
	profile = decode_text(text);
	assert_int_equal(profile->sample_count, 1);
	profile_free(profile);
	memset(text, ';', len);
	assert_int_equal(decode(text, &profile, &err), -E2BIG);
	assert_non_null(strstr(err.message, "line 1: the stack is deeper than 16384 frames"));
	/* The deepest that is taken; frames without a name stay. */
	memmove(text + LIMIT_STACK_DEPTH, text + len, 4);
	profile = decode_text(text);
	assert_int_equal(profile_stack_depth(profile, profile->samples[0].stack), LIMIT_STACK_DEPTH);
	profile_free(profile);
	free(text);
}

/* ---- what other formats bring ---- */

static uint32_t add_text(struct profile *profile, const char *text)
{
	uint32_t id;
	assert_int_equal(profile_add_cstring(profile, text, &id, NULL), 0);
	return id;
}

static void test_names(void **state)
{
	struct profile *profile;
	assert_int_equal(profile_new(&profile, NULL), 0);
	assert_int_equal(profile_add_sample_type(profile, add_text(profile, "samples"), 0, NULL), 0);
	assert_int_equal(profile_add_sample_type(profile, add_text(profile, "cpu"), 0, NULL), 0);
	struct profile_mapping mapping = {0x1000, 0x2000, 0x100, add_text(profile, "/usr/lib/libx.so"), 0, 0};
	struct profile_function function = {.name = add_text(profile, "a;b\nc")};
	struct profile_line line = {0};
	uint32_t mapping_id, ids[4], stack = 0;
	assert_int_equal(profile_add_mapping(profile, &mapping, &mapping_id, NULL), 0);
	assert_int_equal(profile_add_function(profile, &function, &line.function, NULL), 0);
	struct profile_location locations[4] = {{.address = 1},
						{.mapping = mapping_id, .address = 0x1234, .frame_type = PROFILE_FRAME_KERNEL},
						{.address = 0xabc},
						{.frame_type = PROFILE_FRAME_JIT}};
	for (size_t i = 0; i < 4; i++) {
		assert_int_equal(profile_add_location(profile, &locations[i], &line, i == 0, &ids[i], NULL), 0);
		assert_int_equal(profile_add_stack(profile, stack, ids[i], &stack, NULL), 0);
	}
	struct profile_sample sample = {.stack = stack};
	assert_int_equal(profile_add_sample(profile, &sample, (int64_t[]){1, 100}, NULL), 0);
	sample.time_ns = 7;
	assert_int_equal(profile_add_sample(profile, &sample, (int64_t[]){2, 50}, NULL), 0);
	check_encoded(profile, "a:b c;libx.so+0x334_[k];0xabc;[unknown]_[j] 150\n");

	struct format_options options = {.sample_type = "samples"};
	struct buffer out;
	struct error err = {0};
	buffer_init(&out, KIB);
	assert_int_equal(folded_encode(profile, &options, &out, NULL), 0);
	assert_string_equal(buffer_string(&out), "a:b c;libx.so+0x334_[k];0xabc;[unknown]_[j] 3\n");
	options.sample_type = "space";
	assert_int_equal(folded_encode(profile, &options, &out, &err), -EINVAL);
	buffer_release(&out);
	buffer_init(&out, 10);
	assert_int_equal(folded_encode(profile, NULL, &out, &err), -E2BIG);
	assert_int_equal(out.len, 0);
	buffer_release(&out);
	profile_free(profile);
}

/* Different code with the same names is one line. */
static void test_equal_text_is_summed(void **state)
{
	struct buffer file = read_data("pprof/google-driver/large.cpu");
	struct profile *profile = decode_or_fail(NULL, buffer_bytes(&file), "large.cpu");
	struct buffer out = encode_or_fail(&format_folded, profile);
	struct profile *back = decode_or_fail(NULL, buffer_bytes(&out), "large.folded");
	assert_true(profile_total(back, 0) == profile_total(profile, 1));
	const char *line = buffer_string(&out), *previous = NULL;
	for (const char *end; (end = strchr(line, '\n')); line = end + 1) {
		const char *space = memrchr(line, ' ', (size_t)(end - line));
		if (previous && strncmp(previous, line, (size_t)(space - line)) == 0 && previous[space - line] == ' ')
			fail_msg("the stack \"%.*s\" comes twice", (int)(space - line), line);
		previous = line;
	}
	struct buffer again = encode_or_fail(&format_folded, back);
	assert_true(bytes_equal(buffer_bytes(&out), buffer_bytes(&again)));
	profile_free(profile);
	profile_free(back);
	buffer_release(&file);
	buffer_release(&out);
	buffer_release(&again);
}

/* ---- faults and damage ---- */

static const char sample_text[] = "main;work;inner_[i] 5\nmain;sys_read_[k] 3.5\nmain;work 2\njit_[j];x y z 1\n";

static void test_faults(void **state)
{
	bool reached = true;
	for (uint64_t n = 1; reached; n++) {
		struct profile *profile = NULL;
		struct buffer out;
		struct error err = {0};
		buffer_init(&out, KIB);
		fault_arm(FAULT_ALLOC, n, 0);
		int r = folded_decode(bytes_of_string(sample_text), NULL, &profile, &err);
		if (r == 0)
			r = folded_encode(profile, NULL, &out, &err);
		reached = fault_disarm(FAULT_ALLOC);
		assert_int_equal(r, reached ? -ENOMEM : 0);
		assert_int_equal(err.code, reached ? -ENOMEM : 0);
		profile_free(profile);
		buffer_release(&out);
	}
}

static size_t survived;

static void try_folded(struct bytes damaged)
{
	struct profile *profile = NULL;
	struct error err = {0};
	int r = folded_decode(damaged, NULL, &profile, &err);
	assert_true(r == 0 || r == -EBADMSG);
	if (r < 0)
		return;
	survived++;
	struct buffer out = encode_or_fail(&format_folded, profile);
	if (out.len > 0) {
		struct profile *again = decode_or_fail(&format_folded, buffer_bytes(&out), "encoded");
		assert_true(profile_total(profile, 0) == profile_total(again, 0));
		profile_free(again);
	}
	buffer_release(&out);
	profile_free(profile);
}

static void test_damage(void **state)
{
	survived = 0;
	try_damaged(bytes_of_string(sample_text), 4000, try_folded);
	assert_in_range(survived, 200, 3900);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_read_and_write), cmocka_unit_test(test_fractions),
		cmocka_unit_test(test_two_columns),    cmocka_unit_test(test_suffixes),
		cmocka_unit_test(test_refused),	       cmocka_unit_test(test_large_lines),
		cmocka_unit_test(test_names),	       cmocka_unit_test(test_equal_text_is_summed),
		cmocka_unit_test(test_faults),	       cmocka_unit_test(test_damage),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
